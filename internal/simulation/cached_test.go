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

package simulation_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/simulation"
)

// counting is a cluster that counts how often an object is read, and has another one each time, after it failed once.
type counting struct {
	simulation.Cluster
	reads int
}

func (c *counting) Get(_ context.Context, _ schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	if c.reads++; c.reads == 1 {
		return nil, errors.New("the connection was lost")
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace}}}, nil
}

// TestCachedObjects checks that all that use a reading of a cluster see the same object, and that an error is not kept.
func TestCachedObjects(t *testing.T) {
	cluster := &counting{}
	cached := simulation.NewCached(cluster)
	get := func(namespace string) *unstructured.Unstructured {
		obj, _ := cached.Get(t.Context(), schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, "web")
		return obj
	}
	if get("shop") != nil {
		t.Error("there is no error")
	}
	if first := get("shop"); first == nil || get("shop") != first || get("bank") == first {
		t.Error("the object is another one, or that of another namespace")
	}
	if cluster.reads != 3 {
		t.Errorf("%d reads, want 3", cluster.reads)
	}
}
