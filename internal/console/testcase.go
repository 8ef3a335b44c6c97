/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/casetest"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

// Limits of an exported test, so that people can read it: the number of its cases, and that of the other objects in it.
const (
	maxCases       = 20
	maxCaseObjects = 2000
)

// testCaseView is the response of /api/testcase: the text of a file of cases, which the page offers for export, and how many cases it has.
type testCaseView struct {
	Name string `json:"name"` // the name of the file of cases: changes_test.yaml
	File string `json:"file"` // the content of the file of cases, for `kubectl berth test`
	// NeedsManifest reports whether the changes apply policies, so that File refers to manifestFile: the page then exports the manifests
	// as that file, beside the test.
	NeedsManifest bool `json:"needsManifest"`
	Cases         int  `json:"cases"` // the number of cases in the file, at most maxCases
	Total         int  `json:"total"` // the number of all objects to which something happens
}

// testCase returns changes as a test: it has what policies read after the changes, and as cases some of the objects to which something
// happens, with what policies decide for them. For policies in the manifests, the test names the file in which the page exports them. It is
// an error with status 400 if the changes have fatal mistakes, nothing happens to any object, or the test would be too large.
func (c *Console) testCase(r *http.Request, asked changes) (*testCaseView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	var checked whatifView
	parsed, err := c.parse(r, s, asked, &checked)
	if err != nil {
		return nil, err
	}
	if checked.fatal() {
		return nil, problem{http.StatusBadRequest, "correct the errors first: " + checked.Mistakes[0].Message}
	}
	answered, err := s.report(r, asked, parsed)
	if err != nil {
		return nil, err
	}
	report := answered.report
	if len(report.Objects) == 0 {
		return nil, problem{http.StatusBadRequest, "nothing would happen to any object, so that there is nothing to test"}
	}
	if err := s.computing.take(r.Context()); err != nil {
		return nil, err
	}
	defer s.computing.free()
	changed, err := whatif.WithChanges(r.Context(), s.cached, parsed)
	if err != nil {
		return nil, err
	}
	w := &testWriter{cluster: simulation.NewCached(changed), options: s.Options,
		file: casetest.File{APIVersion: casetest.APIVersion, Kind: casetest.Kind}}
	if err := w.addWorld(r.Context(), parsed.Apply); err != nil {
		return nil, err
	}
	if err := w.addCases(r.Context(), selected(report.Objects)); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(w.file)
	if err != nil {
		return nil, err
	}
	const comment = "# A test of a change that was tried in the console of Berth: kubectl berth test changes_test.yaml\n"
	return &testCaseView{
		Name: "changes" + casetest.Suffix, File: comment + string(text), NeedsManifest: len(w.file.Policies) > 0,
		Cases: len(w.file.Cases), Total: len(report.Objects),
	}, nil
}

// selected returns at most maxCases objects of a report: all, or one of each transition in turn.
func selected(objects []whatif.Object) []whatif.Object {
	if len(objects) <= maxCases {
		return objects
	}
	by := map[whatif.Transition][]whatif.Object{}
	for _, o := range objects {
		by[o.Transition] = append(by[o.Transition], o)
	}
	var out []whatif.Object
	for i := 0; len(out) < maxCases; i++ {
		for _, t := range whatif.Transitions() {
			if i < len(by[t]) && len(out) < maxCases {
				out = append(out, by[t][i])
			}
		}
	}
	return out
}

// testWriter makes a file of cases from a cluster after the changes: first the objects that exist in all cases, and then the cases.
type testWriter struct {
	cluster *simulation.Cached
	options simulation.Options
	file    casetest.File
	world   []*unstructured.Unstructured // the policies, and the objects that they read: all that exists in each case
	decided *simulation.Simulation       // the simulation of a cluster that has the objects in world, and no others; it decides the cases
}

// addWorld adds the policies of the cluster, and all objects of the types that they read, to the file and to world, and sets decided. For
// policies among the applied objects, the file refers to manifestFile in place of their text.
func (w *testWriter) addWorld(ctx context.Context, applied []*unstructured.Unstructured) error {
	live, err := simulation.New(ctx, w.cluster, w.options)
	if err != nil {
		return err
	}
	isApplied := func(name string) bool {
		return slices.ContainsFunc(applied, func(obj *unstructured.Unstructured) bool { return isPolicy(obj) && obj.GetName() == name })
	}
	for _, p := range live.Policies() {
		object, err := policyObject(p.Object)
		if err != nil {
			return err
		}
		w.world = append(w.world, object)
		if isApplied(p.Name) {
			w.file.Policies = []string{manifestFile}
		} else {
			w.file.Objects = append(w.file.Objects, casetest.Object{Content: object.Object})
		}
	}
	for _, resource := range readBy(live) {
		objects, err := w.cluster.List(ctx, resource, nil)
		if err != nil {
			return err
		}
		for _, obj := range objects {
			w.world = append(w.world, plainObject(obj))
			w.file.Objects = append(w.file.Objects, casetest.Object{Content: plainObject(obj).Object})
		}
		if len(w.world) > maxCaseObjects {
			return problem{http.StatusBadRequest, fmt.Sprintf("policies read more than %d objects, which is too much for a test: record the "+
				"cluster with kubectl berth snapshot, and try the change with kubectl berth whatif --from", maxCaseObjects)}
		}
	}
	static, err := simulation.NewStatic(simulation.KubernetesDiscovery(), w.cluster.Catalog().Inventories(), w.world...)
	if err != nil {
		return err
	}
	options := w.options
	// A test has no key.
	options.Keyring = nil
	w.decided, err = simulation.New(ctx, static, options)
	return err
}

// readBy returns the types of the objects that policies, their predicates, or their namespace selectors read, sorted.
func readBy(s *simulation.Simulation) []schema.GroupVersionResource {
	var out []policy.Resource
	var namespaces bool
	for _, p := range s.Policies() {
		out = append(out, p.Resources()...)
		namespaces = namespaces || p.NeedsNamespaces()
		for _, v := range p.Versions() {
			if v.Binding == nil {
				continue
			}
			for resource := range v.Binding.PredicateReads {
				out = append(out, policy.Resource{GroupVersionResource: resource})
			}
		}
	}
	types := map[schema.GroupVersionResource]bool{}
	for _, resource := range out {
		types[resource.GroupVersionResource] = true
	}
	if namespaces {
		types[corev1.SchemeGroupVersion.WithResource("namespaces")] = true
	}
	return slices.SortedFunc(maps.Keys(types), func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) })
}

// addCases adds a case for each of the objects that exists after the changes: the object, and what the policies in world decide for it. If
// the decided values of an object are pending, the case is the creation of the object with the values that its developer requested.
func (w *testWriter) addCases(ctx context.Context, objects []whatif.Object) error {
	for _, o := range objects {
		found, err := simulation.FindType(w.cluster.Catalog(), o.Resource)
		if err != nil {
			return err
		}
		content, err := w.cluster.Get(ctx, found.GroupVersionResource, o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if content == nil {
			// The changes delete it.
			continue
		}
		decided, err := w.decided.NewObject(plainObject(content), true)
		if err != nil {
			return err
		}
		pending := func(v whatif.Value) bool { return v.Pending }
		if o.Transition == whatif.Pending || o.Transition == whatif.Replanned && slices.ContainsFunc(o.Values, pending) {
			// Remediation leaves the object as it is. A new object gets the values that are decided.
			if decided.Content, err = w.decided.Requested(ctx, decided); err != nil {
				return err
			}
			decided.Exists = false
		}
		expected, err := casetest.ExpectationOf(ctx, w.decided, decided)
		if err != nil {
			return err
		}
		w.file.Cases = append(w.file.Cases, casetest.Case{
			Name: strings.TrimSpace(fmt.Sprintf("%s %s is %s", o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"),
				strings.ToLower(string(o.Transition)))),
			Object: casetest.Object{Content: decided.Content.Object}, Exists: decided.Exists, Expect: expected,
		})
	}
	return nil
}

func isPolicy(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind() == placementv1.GroupVersion.WithKind("PlacementPolicy")
}

// policyObject returns the name, labels, annotations, and spec of a policy, without the annotation of kubectl apply, as an unstructured
// object.
func policyObject(p *placementv1.PlacementPolicy) (*unstructured.Unstructured, error) {
	text, err := yaml.Marshal(authored(p))
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &out.Object); err != nil {
		return nil, err
	}
	return plainObject(out), nil
}

// plainObject returns a copy of an object without the metadata that the API server sets, such as the UID, and without the annotation of
// kubectl apply. It keeps the status.
func plainObject(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	for _, name := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		unstructured.RemoveNestedField(out.Object, "metadata", name)
	}
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	return out
}
