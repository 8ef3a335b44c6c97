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

package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/test/framework"
)

// predicted carries out changes after it asked what they would do.
type predicted struct {
	r           *rand.Rand
	namespace   string
	policies    map[string]*placementv1.PlacementPolicy
	created     int
	transitions map[whatif.Transition]int
	// dataChanges are the changes of clusters since each policy was applied last.
	dataChanges map[string]int
}

// oneOf returns the first choice more often than the others.
func oneOf[T any](r *rand.Rand, choices ...T) T {
	return choices[max(0, r.IntN(2*len(choices))-len(choices))]
}

func (w *predicted) newPolicy(number int) *placementv1.PlacementPolicy {
	p := framework.NewPolicy(fmt.Sprintf("predicted-%d", number%3), generatePolicy(w.r, number), "apps", "deployments", w.namespace)
	p.Spec.Priority, p.Spec.Mode = int32(w.r.IntN(3)), oneOf(w.r, placementv1.ModeEnforce, placementv1.ModeDryRun)
	p.Spec.Remediation.Mode = oneOf(w.r, placementv1.RemediationAutomatic, placementv1.RemediationManual, placementv1.RemediationOff, placementv1.RemediationNewOnly)
	// Nothing pauses the policy.
	p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
	if w.r.IntN(3) == 0 {
		p.Spec.Match.NamespaceSelector.MatchLabels = map[string]string{"stage": w.value()}
	}
	return p
}

func (w *predicted) value() string { return string("abc"[w.r.IntN(3)]) }

func (w *predicted) newObject() *unstructured.Unstructured {
	w.created++
	out := framework.NewObject(framework.Deployment, w.namespace, fmt.Sprintf("web-%d", w.created), map[string]string{"tier": w.value(), "region": w.value()})
	out.SetLabels(randomLabels(w.r))
	return out
}

func (w *predicted) apply(ctx context.Context, p *placementv1.PlacementPolicy) {
	GinkgoHelper()
	if w.policies[p.Name] != nil {
		f.ChangePolicy(ctx, p.Name, func(existing *placementv1.PlacementPolicy) { existing.Spec = p.Spec })
	} else {
		f.CreatePolicy(ctx, p.DeepCopy())
	}
	w.policies[p.Name], w.dataChanges[p.Name] = p, 0
	f.AwaitReady(ctx, p.Name)
}

// maxDataChanges is the number of changes of clusters after which a policy is applied again. The more changes follow one
// another, the longer remediation holds back the patches for a policy, for up to five minutes. A new generation of the policy
// begins without delay.
const maxDataChanges = 5

// patience is how long remediation may take: more than the longest time for which it holds patches back.
const patience = 6 * time.Minute

// step is a change, and how it is made.
type step struct {
	whatif.Changes
	// object is the name of the Deployment that changes; empty if none does.
	object string
	// own returns the object's values with those that the change itself sets; nil if it deletes the object.
	own func(values map[string]string) map[string]string
	// sets is the label or annotation that the change sets, as a key of the object's values; empty if it sets several.
	sets string
	// carryOut makes the change. The options are those of a request for the object.
	carryOut func(dryRun bool) error
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// next returns a random change.
func (w *predicted) next(ctx context.Context, objects []string) step {
	GinkgoHelper()
	object := objects[w.r.IntN(len(objects))]
	deployment := whatif.Reference{Resource: deployments, NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: object}}
	names := slices.Sorted(maps.Keys(w.policies))
	if i := slices.IndexFunc(names, func(name string) bool { return w.dataChanges[name] >= maxDataChanges }); i >= 0 {
		p := w.newPolicy(w.r.IntN(1000))
		p.Name = names[i]
		return w.applyPolicy(ctx, p)
	}
	switch name := names[w.r.IntN(len(names))]; w.r.IntN(9) {
	case 0, 1:
		return w.applyPolicy(ctx, w.newPolicy(w.r.IntN(1000)))
	case 2:
		if len(names) == 1 {
			return w.next(ctx, objects)
		}
		return step{
			Changes: whatif.Changes{Delete: []whatif.Reference{{
				Resource: placementv1.GroupVersion.WithResource("placementpolicies"), NamespacedName: types.NamespacedName{Name: name},
			}}},
			carryOut: func(bool) error {
				f.DeletePolicy(ctx, name)
				delete(w.policies, name)
				return nil
			},
		}
	case 3:
		field, key, value := oneOf(w.r, "labels", "annotations"), oneOf(w.r, "region", "tier", "example.com/zone", "example.com/tier"), w.value()
		out := w.set(ctx, framework.Deployment, deployment, field, key, value)
		out.sets, out.object, out.own = field+" "+key, object, func(values map[string]string) map[string]string {
			values[field+" "+key] = value
			return values
		}
		return out
	case 4:
		created := w.newObject()
		return step{
			Changes: whatif.Changes{Apply: []*unstructured.Unstructured{created}}, object: created.GetName(),
			own: func(map[string]string) map[string]string { return valuesOf(created) },
			carryOut: func(dryRun bool) error {
				return f.Client.Create(ctx, created.DeepCopy(), createOptions(dryRun)...)
			},
		}
	case 5:
		if len(objects) < 10 {
			return w.next(ctx, objects)
		}
		return step{
			Changes: whatif.Changes{Delete: []whatif.Reference{deployment}}, object: object, own: func(map[string]string) map[string]string { return nil },
			carryOut: func(dryRun bool) error {
				if dryRun {
					return nil
				}
				return f.Client.Delete(ctx, framework.NewObject(framework.Deployment, w.namespace, object, nil))
			},
		}
	case 6:
		namespace := whatif.Reference{Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), NamespacedName: types.NamespacedName{Name: w.namespace}}
		return w.set(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), namespace, "labels", "stage", w.value())
	}
	profile := whatif.Reference{
		Resource:       schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"},
		NamespacedName: types.NamespacedName{Namespace: "fleet-system", Name: fmt.Sprintf("c%d", w.r.IntN(4))},
	}
	for _, name := range names {
		w.dataChanges[name]++
	}
	return w.set(ctx, framework.ClusterProfile, profile, "labels", "region", w.value())
}

func (w *predicted) applyPolicy(ctx context.Context, p *placementv1.PlacementPolicy) step {
	GinkgoHelper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&placementv1.PlacementPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: placementv1.GroupVersion.String(), Kind: "PlacementPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec,
	})
	Expect(err).NotTo(HaveOccurred())
	return step{Changes: whatif.Changes{Apply: []*unstructured.Unstructured{{Object: object}}}, carryOut: func(bool) error {
		w.apply(ctx, p)
		return nil
	}}
}

// set returns the change that sets a label or annotation of an object.
func (w *predicted) set(ctx context.Context, gvk schema.GroupVersionKind, r whatif.Reference, field, key, value string) step {
	return step{
		Changes: whatif.Changes{Set: []whatif.Assignment{{Reference: r, Path: []string{"metadata", field, key}, Value: value}}},
		carryOut: func(dryRun bool) error {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{%q:{%q:%q}}}`, field, key, value))
			return f.Client.Patch(ctx, framework.NewObject(gvk, r.Namespace, r.Name, nil), patch, patchOptions(dryRun)...)
		},
	}
}

func createOptions(dryRun bool) (out []client.CreateOption) {
	if dryRun {
		out = append(out, client.DryRunAll)
	}
	return out
}

func patchOptions(dryRun bool) (out []client.PatchOption) {
	if dryRun {
		out = append(out, client.DryRunAll)
	}
	return out
}

// predict asks what a random change would do, makes it, and compares object by object.
func (w *predicted) predict(ctx context.Context) {
	GinkgoHelper()
	before, err := w.state(ctx)
	Expect(err).NotTo(HaveOccurred())
	change := w.next(ctx, slices.Sorted(maps.Keys(before)))
	// What earlier changes caused has to be over.
	var report *whatif.Report
	Eventually(func(g Gomega, ctx context.Context) {
		g.Expect(w.remaining(ctx)).To(BeEmpty())
		cluster, err := simulation.NewLive(ctx, f.Config, replication.Known())
		g.Expect(err).NotTo(HaveOccurred())
		session, err := whatif.NewSession(ctx, cluster, simulation.Options{OwnNamespace: "berth-system"})
		g.Expect(err).NotTo(HaveOccurred())
		report, err = session.WhatIf(ctx, change.Changes)
		g.Expect(err).NotTo(HaveOccurred())
		before, err = w.state(ctx)
		g.Expect(err).NotTo(HaveOccurred())
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	want, denied, reported := maps.Clone(before), false, false
	for _, o := range report.Objects {
		w.transitions[o.Transition]++
		denied = denied || o.Name == change.object && o.Transition == whatif.Denied
	}
	if change.own != nil && !denied {
		if want[change.object] = change.own(maps.Clone(want[change.object])); want[change.object] == nil {
			delete(want, change.object)
		}
	}
	for _, o := range report.Objects {
		for _, v := range o.Values {
			reported = reported || o.Name == change.object && v.Field+" "+v.Key == change.sets
			switch {
			case v.Pending:
			case v.To == nil:
				delete(want[o.Name], v.Field+" "+v.Key)
			default:
				want[o.Name][v.Field+" "+v.Key] = *v.To
			}
		}
	}
	description := describe(w.policies, change.Changes, report)
	// Some objects are denied before and after the change, which is no transition. If all policies that remediate them can
	// agree, they are moved all the same.
	deniedBefore := sets.New[string]()
	for _, o := range report.Objects {
		if o.Transition != whatif.Moved && o.Transition != whatif.Changed || o.Name == change.object {
			continue
		}
		object, err := f.Get(ctx, framework.Deployment, w.namespace, o.Name)
		Expect(err).NotTo(HaveOccurred())
		if isDenied(f.Client.Update(ctx, object, client.DryRunAll)) {
			deniedBefore.Insert(o.Name)
		}
	}
	if change.object != "" {
		// The manager may not know yet of a change before that moved nothing.
		Eventually(func(ctx context.Context) bool { return isDenied(change.carryOut(true)) }).WithContext(ctx).Should(Equal(denied), description)
	}
	Expect(isDenied(change.carryOut(false))).To(Equal(denied), description)
	Eventually(func(g Gomega, ctx context.Context) {
		got, err := w.state(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		if value, was := before[change.object][change.sets]; was && !reported && w.writes(change.sets) && got[change.object][change.sets] == value {
			// The report leaves out what stays: here, a value that a policy gives back to the object.
			want[change.object][change.sets] = value
		}
		g.Expect(cmp.Diff(want, got)).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed(), description)
	for _, o := range report.Objects {
		if o.Name == change.object {
			continue
		}
		object, err := f.Get(ctx, framework.Deployment, w.namespace, o.Name)
		Expect(err).NotTo(HaveOccurred())
		switch o.Transition {
		case whatif.Denied, whatif.Allowed, whatif.Moved, whatif.Changed:
			Eventually(func(ctx context.Context) bool {
				return isDenied(f.Client.Update(ctx, object.DeepCopy(), client.DryRunAll))
			}).WithContext(ctx).
				Should(Equal(o.Transition == whatif.Denied || deniedBefore.Has(o.Name)), "%+v\n%s", o, description)
		}
	}
}

// writes reports whether an enforced policy may set a label or annotation.
func (w *predicted) writes(value string) bool {
	field, key, _ := strings.Cut(value, " ")
	return slices.ContainsFunc(slices.Collect(maps.Values(w.policies)), func(p *placementv1.PlacementPolicy) bool {
		return p.Spec.Mode == placementv1.ModeEnforce && strings.Contains(p.Spec.Rego, fmt.Sprintf("%s[%q]", field, key))
	})
}

// isDenied reports whether a policy denied a request. Any other error ends the spec.
func isDenied(err error) bool {
	GinkgoHelper()
	if err != nil {
		Expect(err).To(MatchError(ContainSubstring("denied the request")))
	}
	return err != nil
}

func describe(policies map[string]*placementv1.PlacementPolicy, changes whatif.Changes, report *whatif.Report) string {
	text, err := json.MarshalIndent(map[string]any{"policies": policies, "changes": changes, "report": report}, "", " ")
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// remaining returns the violations that remediation has still to resolve.
func (w *predicted) remaining(ctx context.Context) ([]whatif.Violation, error) {
	violations, err := whatif.Violations(ctx, simulate(ctx), "")
	denied := sets.New[string]()
	for _, v := range violations {
		if enforced := w.policies[v.Policy].Spec.Mode == placementv1.ModeEnforce; enforced && slices.ContainsFunc(v.Messages, func(m string) bool { return strings.HasPrefix(m, "denied: ") }) {
			denied.Insert(v.Name)
		}
	}
	return slices.DeleteFunc(violations, func(v whatif.Violation) bool {
		spec := w.policies[v.Policy].Spec
		// A denied object keeps its values.
		return denied.Has(v.Name) || spec.Mode != placementv1.ModeEnforce || spec.Remediation.Mode != placementv1.RemediationAutomatic
	}), err
}

// state returns the labels and annotations of the objects.
func (w *predicted) state(ctx context.Context) (map[string]map[string]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(framework.Deployment)
	if err := f.Client.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for i := range list.Items {
		out[list.Items[i].GetName()] = valuesOf(&list.Items[i])
	}
	return out, nil
}

// valuesOf returns the labels and annotations of an object, without the record.
func valuesOf(obj *unstructured.Unstructured) map[string]string {
	values := map[string]string{}
	for key, value := range obj.GetLabels() {
		values["labels "+key] = value
	}
	for key, value := range obj.GetAnnotations() {
		if key != placementv1.RequestedAnnotation {
			values["annotations "+key] = value
		}
	}
	return values
}
