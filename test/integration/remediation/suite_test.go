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

// Package remediation_test shows what becomes of existing objects when policies, data or objects change, on a real API
// server.
package remediation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// Keys that the specs' policies set.
const (
	clustersKey = "example.com/clusters"
	tierKey     = "example.com/tier"
)

var (
	// port is an inventory that only these specs know.
	port = schema.GroupVersionKind{Group: "inventory.example.com", Version: "v1", Kind: "Port"}
)

var (
	f *framework.Framework
	// patches are the operator's, of all specs.
	patches *framework.Patches
	// operator is nil while it is stopped.
	operator *framework.Manager
)

func TestRemediation(t *testing.T) {
	suite.Run(t, "Remediation")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	DeferCleanup(stopOperator)
	patches = f.RecordPatches()
	f.InstallClusterProfiles(ctx)
	f.InstallCRD(ctx, framework.NewCRD(port.Group, port.Version, "ports", port.Kind, apiextensionsv1.ClusterScoped))
})

// Every spec finds the operator running and ready, whatever the spec before did to it.
var _ = BeforeEach(func(ctx SpecContext) {
	if operator == nil {
		startOperator(ctx)
	}
})

// startOperator starts the operator and waits until the API server's own copy of the webhook configurations, which lags
// behind what is stored, leads to it.
func startOperator(ctx context.Context) {
	GinkgoHelper()
	operator = f.StartReadyManager(ctx)
	f.AwaitValidation(ctx)
}

func stopOperator() { framework.StopManager(&operator) }

// certified leaves of the clusters that the developer lists under key those whose ClusterProfile in the namespace is
// labelled pci=yes. A developer who lists none gets none.
func certified(field, key, fleet string) string {
	return framework.Rego(
		fmt.Sprintf(`offered contains name if data.kubernetes.clusterprofiles[%q][name].metadata.labels.pci == "yes"`, fleet),
		fmt.Sprintf(`requested := split(input.metadata.%s[%q], "_")`, field, key),
		fmt.Sprintf(`%s[%q] := concat("_", [c | some c in requested; c in offered]) if requested`, field, key),
	)
}

// always sets annotations without looking at anything.
func always(keysAndValues ...string) string {
	var rules []string
	for i := 0; i < len(keysAndValues); i += 2 {
		rules = append(rules, fmt.Sprintf("annotations[%q] := %q", keysAndValues[i], keysAndValues[i+1]))
	}
	return framework.Rego(rules...)
}

// newFleet makes a namespace with ClusterProfiles that are all labelled pci=yes.
func newFleet(ctx context.Context, clusters ...string) string {
	GinkgoHelper()
	fleet := f.NewNamespace(ctx, nil)
	for _, name := range clusters {
		addCluster(ctx, fleet, name)
	}
	return fleet
}

// addCluster makes a ClusterProfile that is labelled pci=yes.
func addCluster(ctx context.Context, fleet, name string) {
	GinkgoHelper()
	obj := framework.NewObject(framework.ClusterProfile, fleet, name, nil)
	obj.SetLabels(map[string]string{"pci": "yes"})
	Expect(f.Client.Create(ctx, obj)).To(Succeed())
}

// certify sets the label that certified looks at.
func certify(ctx context.Context, fleet, cluster, pci string) {
	GinkgoHelper()
	merge(ctx, framework.ClusterProfile, fleet, cluster, map[string]any{"metadata": map[string]any{"labels": map[string]any{"pci": pci}}})
}

// merge merges a change into an object as a user who does not look at the object first.
func merge(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change map[string]any) {
	GinkgoHelper()
	Expect(tryMerge(ctx, gvk, namespace, name, change)).To(Succeed())
}

func tryMerge(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return f.Client.Patch(ctx, framework.NewObject(gvk, namespace, name, nil), client.RawPatch(types.MergePatchType, body))
}

// annotate changes annotations as a user; nil removes one.
func annotate(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, annotations map[string]any) {
	GinkgoHelper()
	merge(ctx, gvk, namespace, name, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// create creates an object with annotations.
func create(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	GinkgoHelper()
	obj := framework.NewObject(gvk, namespace, name, annotations)
	Expect(f.Client.Create(ctx, obj)).To(Succeed())
	return obj
}

// stored returns the annotations of an object as it is stored.
func stored(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (map[string]string, error) {
	obj, err := f.Get(ctx, gvk, namespace, name)
	return framework.AnnotationsOf(obj), err
}

// expectAnnotations waits until an object has these annotations and no others.
func expectAnnotations(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, want map[string]string) {
	GinkgoHelper()
	matcher := Equal(want)
	if len(want) == 0 {
		matcher = BeEmpty()
	}
	framework.AwaitObject(ctx, f, framework.NewObject(gvk, namespace, name, nil), framework.AnnotationsOf, matcher)
}

// expectClusters waits until a ConfigMap has these clusters and nothing else.
func expectClusters(ctx context.Context, namespace, name, want string) {
	GinkgoHelper()
	expectAnnotations(ctx, framework.ConfigMap, namespace, name, map[string]string{clustersKey: want})
}

// list returns the objects of a kind in a namespace by name.
func list(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (map[string]*unstructured.Unstructured, error) {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := f.Client.List(ctx, objects, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out := map[string]*unstructured.Unstructured{}
	for i := range objects.Items {
		out[objects.Items[i].GetName()] = &objects.Items[i]
	}
	return out, nil
}

// versions returns the resourceVersions of the objects of a kind in a namespace by name.
func versions(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (map[string]string, error) {
	objects, err := list(ctx, gvk, namespace)
	out := map[string]string{}
	for name, o := range objects {
		out[name] = o.GetResourceVersion()
	}
	return out, err
}

// moved returns the names whose value differs, sorted.
func moved(before, after map[string]string) []string {
	out := []string{}
	for name := range maps.Keys(after) {
		if before[name] != after[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// remediationsBelow returns how often each path below a namespace was patched by remediation.
func remediationsBelow(namespace string) map[string]int {
	out := map[string]int{}
	for _, r := range patches.By(remediation.FieldManager, "/namespaces/"+namespace+"/") {
		out[r.Path[strings.LastIndex(r.Path, "/")+1:]]++
	}
	return out
}

// total sums the series of a metric that have all of these labels.
func total(metric string, labels ...string) int {
	GinkgoHelper()
	series, err := operator.Series(metric, labels...)
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, value := range series {
		sum += value
	}
	return int(sum)
}

// decided returns how often remediation asked a policy.
func decided(policy string) int {
	GinkgoHelper()
	return total("berth_decisions_total", fmt.Sprintf("policy=%q", policy), fmt.Sprintf("source=%q", metrics.SourceRemediation))
}

// counts are what `kubectl get` shows of a policy; -1 stands for an absent one.
type counts struct{ Matched, Violations, Remediated int }

func countsOf(ctx context.Context, policy string) (counts, error) {
	p, err := f.Policy(ctx, policy)
	return newCounts(p), err
}

func newCounts(p *placementv1.PlacementPolicy) counts {
	out := counts{-1, -1, -1}
	if n := p.Status.Matched; n != nil {
		out.Matched = int(*n)
	}
	if n := p.Status.Violations; n != nil {
		out.Violations = int(*n)
	}
	if n := p.Status.Remediated; n != nil {
		out.Remediated = int(*n)
	}
	return out
}

// expectCounts waits until a policy's status has these counts.
func expectCounts(ctx context.Context, policy string, want counts) {
	GinkgoHelper()
	framework.AwaitPolicy(ctx, f, policy, newCounts, Equal(want))
}

// expectCompliant waits until nothing is left to do for a policy.
func expectCompliant(ctx context.Context, policy string) {
	GinkgoHelper()
	f.AwaitCondition(ctx, policy, placementv1.ConditionCompliant, framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
}

// eventNotes returns the notes of the events of a reason about an object.
func eventNotes(ctx context.Context, namespace, name, reason string) ([]string, error) {
	return eventNotesSince(ctx, time.Time{}, namespace, name, reason)
}

// eventNotesSince does the same as eventNotes, for events that occurred at since or later.
func eventNotesSince(ctx context.Context, since time.Time, namespace, name, reason string) ([]string, error) {
	events := &eventsv1.EventList{}
	if err := f.Client.List(ctx, events, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var notes []string
	for _, e := range events.Items {
		last := e.EventTime
		if e.Series != nil {
			last = e.Series.LastObservedTime
		}
		if e.Reason == reason && e.Regarding.Name == name && !last.Time.Before(since) {
			notes = append(notes, e.Note)
		}
	}
	return notes, nil
}

// onConfigMaps is a ready policy on the ConfigMaps of namespaces, which tune may change first.
func onConfigMaps(ctx context.Context, prefix, text, namespace string, tune ...func(*placementv1.PlacementPolicy)) string {
	GinkgoHelper()
	p := framework.NewPolicy(framework.NewName(prefix), text, "", "configmaps", namespace)
	for _, t := range tune {
		t(p)
	}
	f.CreateReadyPolicy(ctx, p)
	return p.Name
}

func withMode(mode placementv1.Mode) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.Mode = mode }
}

func withRemediation(mode placementv1.RemediationMode) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = mode }
}
