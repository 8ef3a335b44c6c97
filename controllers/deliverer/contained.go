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

package deliverer

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
)

// containedInterval is the interval at which a Namespace or CustomResourceDefinition is reconciled again that stays in clusters until the
// objects that it contains have left them.
const containedInterval = 2 * time.Second

// findContained sets decision.Contained if the object is a Namespace or CustomResourceDefinition that leaves clusters: the names of the
// clusters to which the system brings the objects that it contains. read is false, and nothing is set, while that is not known.
func (c *Controller) findContained(system delivery.System, object, live *unstructured.Unstructured,
	decision *delivery.Decision, n *need) (read bool) {
	if !delivery.IsContainer(object.GroupVersionKind().GroupKind()) || len(system.Leaves(live, *decision)) == 0 {
		return true
	}
	for _, kind := range system.Kinds {
		if c.Catalog.Kind(kind.GroupVersionResource) == "" {
			continue
		}
		if state, watched := c.deliveredWatches.State(kind.GroupVersionResource); !watched || !state.Synced && !state.Settled() {
			n.pending = true
			return false
		}
	}
	container := keyOf(object)
	resources := c.resourcesByKind()
	for _, owner := range c.delivered.owned(system) {
		if !delivery.Contains(container, owner.key, resources[owner.key.GroupKind]) {
			continue
		}
		decision.Contained = append(decision.Contained, system.Clusters(owner.object)...)
		for _, kind := range system.WorkKinds() {
			decision.Contained = slices.AppendSeq(decision.Contained, maps.Keys(c.works.at(kind.GroupVersionResource, owner.key)))
		}
	}
	slices.Sort(decision.Contained)
	decision.Contained = slices.Compact(decision.Contained)
	n.lookAgain(containedInterval)
	return true
}

// resourcesByKind returns the resource type of each kind whose objects policies deliver.
func (c *Controller) resourcesByKind() map[schema.GroupKind]schema.GroupResource {
	out := map[schema.GroupKind]schema.GroupResource{}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.deliveredBy(p) {
			out[c.kindOf(r.GroupVersionResource)] = r.GroupResource()
		}
	}
	return out
}
