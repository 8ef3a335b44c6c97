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

package placement_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
)

// tolerant gives the cluster "ready", and those that the input names.
type tolerant struct{ fakeEvaluator }

func (*tolerant) Unready() map[string]time.Time {
	return map[string]time.Time{"away": {}, "gone": {}}
}

func (*tolerant) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	out := []string{"ready"}
	for _, name := range toleratedNames(input) {
		out = append(out, name.(string))
	}
	slices.Sort(out)
	return placement.Decision{Clusters: out}, nil
}

func (*tolerant) WhyNot(_ context.Context, input map[string]any, clusters []string) map[string]string {
	out := map[string]string{}
	for _, name := range clusters {
		if out[name] = "with a taint that is not tolerated"; slices.Contains(toleratedNames(input), any(name)) {
			out[name] = placement.ReasonNotChosen
		}
	}
	return out
}

func toleratedNames(input map[string]any) []any {
	names, _ := input[language.InputTolerated].([]any)
	return names
}

// whole is a source that has not loaded the spec of the object before the update.
type whole struct {
	old  *unstructured.Unstructured
	spec any
}

func (*whole) Fill(*projection.FieldSet) error { return nil }

func (w *whole) Complete() error {
	w.old.Object["spec"] = w.spec
	return nil
}

// TestStays checks in which clusters an object stays although they are not ready.
func TestStays(t *testing.T) {
	list := func(text string) *unstructured.Unstructured {
		o := newObject("web", newMetadata())
		o.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: text})
		return o
	}
	part := fromYAML(t, "{apiVersion: example.com/v1, kind: Part, metadata: {name: web-x, ownerReferences: [{apiVersion: example.com/v1, kind: Widget, name: web, uid: u, controller: true}]}}")
	part.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["gone"]`})
	widget := fromYAML(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: web, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"gone\"]'}}}")
	parts := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "parts"}
	existing, partly := named(t, "[gone, other]"), named(t, "[gone]")
	source := &whole{old: partly, spec: partly.Object["spec"]}
	delete(partly.Object, "spec")
	for name, tc := range map[string]struct {
		object, old *unstructured.Unstructured
		resource    schema.GroupVersionResource
		source      placement.Source
		want, stays []string
	}{
		"New":             {object: list(`["gone","ready"]`), want: []string{"ready"}},
		"Existing":        {object: list(`["gone","ready"]`), old: list(`["gone","ready"]`), want: []string{"gone", "ready"}, stays: []string{"gone"}},
		"Ready":           {object: list(`["ready"]`), old: list(`["ready"]`), want: []string{"ready"}},
		"AsksForMore":     {object: list(`["away","gone"]`), old: list(`["gone"]`), want: []string{"gone", "ready"}, stays: []string{"gone"}},
		"NoList":          {object: newObject("web", newMetadata()), old: newObject("web", newMetadata()), want: []string{"ready"}},
		"NoValidList":     {object: list(`gone`), old: list(`gone`), want: []string{"ready"}},
		"PlacementObject": {object: existing, old: existing, resource: propagations, want: []string{"gone", "ready"}, stays: []string{"gone"}},
		"NotLoaded":       {object: named(t, "[gone, ready]"), old: partly, source: source, resource: propagations, want: []string{"gone", "ready"}, stays: []string{"gone"}},
		// What a controller makes goes where the controller is.
		"Follows": {object: part, resource: parts, want: []string{"gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.resource.Empty() {
				tc.resource = deployments
			}
			p := with(anywhere(t, "p"), func(p *placement.Policy) { p.Evaluator = &tolerant{} })
			d := &placement.Decider{Policies: policies{p}, Namespaces: namespaces{}, Keyring: keyring(t, "k"), Owners: &owners{objects: map[string]*unstructured.Unstructured{"Widget default/web": widget}}}
			out, err := d.Decide(t.Context(), placement.Request{Resource: tc.resource, Namespace: "default", Object: tc.object, Old: tc.old, Source: tc.source})
			if err != nil {
				t.Fatal(err)
			}
			v := out.Verdicts[0]
			if diff := cmp.Diff(tc.want, v.Decision.Clusters); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.stays, v.Stays); diff != "" {
				t.Errorf("stays in (-want +got):\n%s", diff)
			}
		})
	}
}
