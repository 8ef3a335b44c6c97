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

package watches

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestReplicasPath(t *testing.T) {
	version := func(name, path string) any {
		out := map[string]any{"name": name}
		if path != "" {
			out["subresources"] = map[string]any{"scale": map[string]any{"specReplicasPath": path}}
		}
		return out
	}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "fleets.example.com"},
		"spec": map[string]any{"versions": []any{version("v1", ".spec.size"), version("v2", ".spec.ships.count"), version("v3", "")}},
	}})
	scales := &Scales{Client: client}
	fleets := schema.GroupResource{Group: "example.com", Resource: "fleets"}
	tests := map[string]struct {
		resource schema.GroupVersionResource
		want     []string
	}{
		"Builtin":      {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, []string{"spec", "replicas"}},
		"Version":      {fleets.WithVersion("v1"), []string{"spec", "size"}},
		"OtherVersion": {fleets.WithVersion("v2"), []string{"spec", "ships", "count"}},
		"NoScale":      {fleets.WithVersion("v3"), nil},
		"NoVersion":    {fleets.WithVersion("v4"), nil},
		"NoDefinition": {schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "carts"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok, err := scales.ReplicasPath(t.Context(), tc.resource)
			if err != nil || ok != (tc.want != nil) {
				t.Errorf("known %t, %v", ok, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
		})
	}
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("oh"))
	})
	if _, _, err := scales.ReplicasPath(t.Context(), fleets.WithVersion("v1")); err == nil {
		t.Error("a definition that can't be read is no error")
	}
}
