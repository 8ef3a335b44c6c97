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

package delivery

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// IsContainer reports whether deleting an object of a kind in a cluster also deletes other objects there. It is true for Namespaces and
// CustomResourceDefinitions.
func IsContainer(kind schema.GroupKind) bool { return kind == namespaceKind || kind == definitionKind }

// Contains reports whether deleting a container in a cluster also deletes another object of a resource type there: a Namespace contains the
// objects in it, and a CustomResourceDefinition those of its type.
func Contains(container Key, contained Key, resource schema.GroupResource) bool {
	switch container.GroupKind {
	case namespaceKind:
		return contained.Namespace == container.Name
	case definitionKind:
		return resource.String() == container.Name
	}
	return false
}

// Clusters returns the clusters to which the system brings a placed object by a delivered object, which must not be nil, sorted; nil if the
// system does not report where objects run.
func (s System) Clusters(delivered *unstructured.Unstructured) []string {
	if s.reporter == nil {
		return nil
	}
	return s.reporter.carried(delivered)
}

// Leaves returns the clusters to which the system brings a placed object by a delivered object, and that are not decided any more; none if
// delivered is nil.
func (s System) Leaves(delivered *unstructured.Unstructured, decision Decision) []string {
	if delivered == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Clusters(delivered)), func(name string) bool { return slices.Contains(decision.Clusters, name) })
}

// handOverContainer returns what has to exist in the system now for an object that stays in some clusters that it leaves until what it
// contains has left them. stays are these clusters, at least one. If the system can't express them together with the decided clusters, the
// object leaves them now.
func (s System) handOverContainer(object Object, decision Decision, stays []string, spec *placementv1.Delivery,
	live *unstructured.Unstructured, observed *Observation, now time.Time) (Handover, error) {
	alone, err := s.handOver(object, decision, spec, nil, nil, now)
	if err != nil {
		return alone, err
	}
	both := decision
	both.Clusters = slices.Concat(decision.Clusters, stays)
	out, err := s.handOver(object, both, spec, live, observed, now)
	if err != nil {
		// The system can't express the clusters together.
		return s.handOver(object, decision, spec, live, observed, now)
	}
	out.Alone = alone.Objects
	out.Kept = slices.Sorted(slices.Values(slices.Concat(out.Kept, stays)))
	if out.Run.State == Running {
		out.Run = Run{State: NotRunning, Message: "the object stays in cluster " + stays[0] +
			" until the objects that it contains have left that cluster"}
	}
	return out, nil
}
