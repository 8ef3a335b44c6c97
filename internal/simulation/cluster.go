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

package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/watches"
)

// Cluster is the state of a cluster: a live one, manifests, or a snapshot. Implementations are safe for concurrent use.
// Callers must not change the objects that it returns.
type Cluster interface {
	// Catalog returns the types that the cluster serves.
	Catalog() *watches.Catalog
	// Resource returns the type of the objects of a kind. The error says what to do if the kind is not served.
	Resource(gvk schema.GroupVersionKind) (policy.Resource, error)
	// Policies returns all PlacementPolicies.
	Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error)
	// List returns all objects of a type, with at least the given fields and their identity. nil stands for all fields.
	List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured, error)
	// Get returns an object, or nil if there is none.
	Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error)
}

// FindType returns the type that a user names by its plural, singular, or short name, or its kind, ignoring case, optionally followed by a
// dot and its group. Of several types with the name, it is the first in the order of compareResources: a core type before all. The
// error for an unknown name suggests a similar one.
func FindType(catalog *watches.Catalog, name string) (policy.Resource, error) {
	name, group, hasGroup := strings.Cut(strings.ToLower(name), ".")
	served := catalog.Served()
	kinds := catalog.Kinds(func(r schema.GroupVersionResource) bool { return !hasGroup || r.Group == group })
	for _, resource := range slices.SortedFunc(maps.Keys(kinds), compareResources) {
		if plural, ok := served.FindPlural(name, []string{resource.Group}); !ok || plural != resource.Resource {
			continue
		}
		for _, preferred := range catalog.ByPlural(resource.Resource) {
			if preferred.GroupVersionResource == resource && served.HasName(schema.GroupResource{Group: resource.Group, Resource: name}) {
				return preferred, nil
			}
		}
	}
	return policy.Resource{}, fmt.Errorf("the type %q is not known%s", name, served.SuggestPlural(name))
}
