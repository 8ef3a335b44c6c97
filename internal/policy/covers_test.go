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

package policy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
)

func TestCovers(t *testing.T) {
	nodes, pods := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	reads := func(r schema.GroupVersionResource, names ...string) *policy.Binding {
		fields := &projection.FieldSet{}
		for _, name := range names {
			fields.AddName(name)
		}
		return &policy.Binding{Fields: map[schema.GroupVersionResource]*projection.FieldSet{r: fields.Seal()}}
	}
	pushes := func(digest string, types ...schema.GroupVersionResource) *policy.Binding {
		out := &policy.Binding{Remote: &policy.Remote{Spec: placementv1.Remote{URL: "https://opa.example/v1/data/p"}, ModulesDigest: digest}}
		for _, r := range types {
			out.PushedTypes = append(out.PushedTypes, policy.Resource{GroupVersionResource: r})
		}
		return out
	}
	tests := map[string]struct {
		b, other *policy.Binding
		want     bool
	}{
		"Nothing":      {&policy.Binding{}, &policy.Binding{}, true},
		"Same":         {reads(nodes, "spec", "status"), reads(nodes, "spec", "status"), true},
		"FewerFields":  {reads(nodes, "spec", "status"), reads(nodes, "spec"), true},
		"MoreFields":   {reads(nodes, "spec"), reads(nodes, "spec", "status"), false},
		"AnotherType":  {reads(nodes, "spec"), reads(pods, "spec"), false},
		"NoType":       {reads(nodes, "spec"), &policy.Binding{}, true},
		"Predicates":   {reads(nodes, "spec"), &policy.Binding{PredicateReads: predicates.Reads()}, false},
		"SameEngine":   {pushes("a", nodes), pushes("a", nodes), true},
		"OtherModules": {pushes("a", nodes), pushes("b", nodes), false},
		"PushedType":   {pushes("a", nodes), pushes("a", nodes, pods), false},
		"InProcess":    {&policy.Binding{}, pushes("a"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.b.Covers(tc.other); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
