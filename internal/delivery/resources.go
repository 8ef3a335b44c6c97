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
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// AllSystems returns the systems that spec.delivery can name, in the order of its fields: Karmada, KubeFleet, SIG Multicluster's
// PlacementDecision, and Open Cluster Management. Those of NativeSystem are not among them.
func AllSystems() []System {
	return Systems(&placementv1.Delivery{
		Karmada: &placementv1.KarmadaDelivery{}, KubeFleet: &placementv1.KubeFleetDelivery{},
		PlacementDecision: &placementv1.PlacementDecisionDelivery{}, OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{},
	})
}

// Resources returns the types of the delivered objects of all systems that spec.delivery can name.
func Resources() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, system := range AllSystems() {
		for _, kind := range system.Kinds {
			out = append(out, kind.GroupVersionResource)
		}
	}
	return out
}

// NativeResources returns the types of the kinds for which NativeSystem returns a system.
func NativeResources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{existingPlacement.GroupVersionResource, workloadKind.GroupVersionResource}
}
