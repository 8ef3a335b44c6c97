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

package rulesoracle

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
)

// relabelKey is the label by which objects select their policy.
const relabelKey = "example.com/relabel"

// byLabel has the policies of labels.
type byLabel struct {
	index *match.Index[*placement.Policy]
}

func (b byLabel) Begin() (index *match.Index[*placement.Policy], end func()) {
	return b.index, func() {}
}

func (byLabel) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

// policyOf returns the policy of a label with rules and the data that they read.
func policyOf(t *testing.T, s served, e example, label string, clusters map[string]map[string]any) *placement.Policy {
	t.Helper()
	m, err := newModule(t, s, e.rules)
	if err != nil {
		t.Fatal(err)
	}
	m.load(t, e.namespaces, clusters, slices.Sorted(maps.Keys(clusters)))
	spec := placementv1.PlacementPolicySpec{Rules: e.rules, Match: placementv1.Match{
		ResourceRules:  []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{relabelKey: label}},
	}}.WithDefaults()
	matcher, errs := match.New(spec.Match, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return placement.NewPolicy(label, 1, spec, matcher, m.evaluator, true)
}

// TestRelabel checks that an object that is moved from one policy to another by its label gets what a new object with that label gets.
func TestRelabel(t *testing.T) {
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s, compared, gave := newServed(t), 0, 0
	for seed := range uint64(budget.Rounds(60)) {
		gold, silver := newExample(2*seed), newExample(2*seed+1)
		clusters := gold.clusters[0]
		d := &placement.Decider{Namespaces: byLabel{}, Keyring: keyring, Policies: byLabel{placement.NewIndex(
			policyOf(t, s, gold, "gold", clusters), policyOf(t, s, silver, "silver", clusters))}}
		decide := func(o, old *unstructured.Unstructured) (*unstructured.Unstructured, *placement.Verdict) {
			out, err := d.Decide(t.Context(), placement.Request{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: o.GetNamespace(), Object: o, Old: old})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range out.Verdicts {
				if v.Err != nil || len(v.Decision.Errors) > 0 {
					return nil, nil
				}
			}
			return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(out.Object.Object)}, out.Verdicts[len(out.Verdicts)-1]
		}
		labelled := func(o *unstructured.Unstructured, label string) *unstructured.Unstructured {
			out := o.DeepCopy()
			labels := out.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[relabelKey] = label
			out.SetLabels(labels)
			return out
		}
		for _, content := range slices.Concat(gold.objects, silver.objects) {
			object := &unstructured.Unstructured{Object: content}
			if object.GetKind() != "Deployment" {
				continue
			}
			stored, of := decide(labelled(object, "gold"), nil)
			want, by := decide(labelled(object, "silver"), nil)
			if of == nil || by == nil {
				continue
			}
			got, moved := decide(labelled(stored, "silver"), stored)
			if moved == nil {
				continue
			}
			gives := by.Decision.Clusters != nil || len(by.Decision.Annotations)+len(by.Decision.Labels)+len(by.Decision.Scheduling) > 0
			switch {
			case !gives:
				want = labelled(stored, "silver")
			case by.Decision.Clusters == nil:
				// It keeps its clusters until another policy gives some.
				for _, o := range []*unstructured.Unstructured{got, want} {
					drop(o, placementv1.ClustersAnnotation, placementv1.ClusterSharesAnnotation)
				}
			}
			compared++
			if gives && !of.Decision.Equal(by.Decision) {
				gave++
			}
			drop(got, placementv1.RequestedAnnotation)
			drop(want, placementv1.RequestedAnnotation)
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Fatalf("seed %d: relabelled (-new +relabelled):\n%s\n%s\n%s", seed, diff, gold.print(content, clusters), silver.print(content, nil))
			}
		}
	}
	if rounds := budget.Rounds(60); compared < rounds || gave < rounds/2 {
		t.Errorf("only %d objects were compared, of which %d get something else", compared, gave)
	}
}

// drop removes annotations.
func drop(o *unstructured.Unstructured, keys ...string) {
	annotations := o.GetAnnotations()
	for _, key := range keys {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
}
