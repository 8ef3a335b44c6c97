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
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// kubeFleetVersion is the version that the hub of KubeFleet 0.3 reads and stores. It also serves v1, and earlier hubs serve
// ResourcePlacements only in this version.
var kubeFleetVersion = schema.GroupVersion{Group: "placement.kubernetes-fleet.io", Version: "v1beta1"}

// kubeFleetWhole is Kind.Whole of the placements of KubeFleet: the field whose other members would choose clusters, too.
const kubeFleetWhole = "spec.policy"

// maxPickFixed is the maximum number of clusters that a placement of KubeFleet can name in spec.policy.clusterNames.
const maxPickFixed = 100

var (
	resourcePlacement = Kind{
		GroupVersionResource: kubeFleetVersion.WithResource("resourceplacements"),
		Kind:                 "ResourcePlacement",
		Namespaced:           true,
		Whole:                kubeFleetWhole,
	}
	clusterResourcePlacement = Kind{
		GroupVersionResource: kubeFleetVersion.WithResource("clusterresourceplacements"),
		Kind:                 "ClusterResourcePlacement",
		Whole:                kubeFleetWhole,
	}
)

// kubeFleet delivers by placements that select the object by its name. A ResourcePlacement does not create the object's namespace: it has
// to exist in the clusters, by a ClusterResourcePlacement that selects it alone, for example because policies match Namespaces too.
// KubeFleet can't divide replicas: each cluster gets all that the object requests, whatever the policy says.
var kubeFleet = System{
	Name:        "kubeFleet",
	Title:       "KubeFleet",
	ClusterRole: "berth-delivery-kubefleet",
	Kinds:       []Kind{resourcePlacement, clusterResourcePlacement},
	Members:     schema.GroupResource{Group: "cluster.kubernetes-fleet.io", Resource: "memberclusters"},
	render:      renderKubeFleet,
	reporter:    kubeFleetReporter,
	workKinds:   kubeFleetWorks,
	carries:     carriedByWork,
	carriedAs:   deliveredName,
}

// removesAtOnce is a maxUnavailable for which KubeFleet removes workloads at once: it is more than the number of clusters of any placement
// together with those that its workload leaves.
const removesAtOnce = int64(1000)

// kubeFleetRemoveAtOnce changes a placement so that KubeFleet removes a workload at once from clusters that are not decided any more. By
// default, a rolling update keeps the workload in other clusters while it is available in fewer clusters than are decided, less
// maxUnavailable. A maxUnavailable that is larger than the number of clusters lifts that bound, even if the workload is available nowhere.
// 100% does not.
func kubeFleetRemoveAtOnce(placement *unstructured.Unstructured) {
	// This does not fail, because the spec is that of renderKubeFleet.
	_ = unstructured.SetNestedField(placement.Object, removesAtOnce, "spec", "strategy", "rollingUpdate", "maxUnavailable")
}

// renderKubeFleet returns a ResourcePlacement, or a ClusterResourcePlacement for a cluster-scoped object. For an empty decision, it returns
// nothing: KubeFleet removes the placed object from the clusters when the placement is deleted. It returns an error only if there are more
// clusters than maxPickFixed. It does not divide replicas, and ignores spec.delivery.
func renderKubeFleet(object Object, decision Decision, _ *placementv1.Delivery) ([]Delivered, error) {
	if len(decision.Clusters) == 0 {
		return nil, nil
	}
	if len(decision.Clusters) > maxPickFixed {
		return nil, fmt.Errorf("the policy decides %d clusters, but KubeFleet places an object in at most %d by name; "+
			"let the policy decide fewer, or remove spec.delivery.kubeFleet", len(decision.Clusters), maxPickFixed)
	}
	selector := map[string]any{
		"group":   object.Group,
		"version": object.Version,
		"kind":    object.Kind,
		"name":    object.Name,
	}
	if object.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		// By default, the objects in the namespace are selected, too.
		selector["selectionScope"] = "NamespaceOnly"
	}
	kind := clusterResourcePlacement
	if object.Namespace != "" {
		kind = resourcePlacement
	}
	placement := newObject(kind, deliveredName(object), object)
	placement.Object["spec"] = map[string]any{
		"resourceSelectors": []any{selector},
		"policy": map[string]any{
			"placementType": "PickFixed",
			"clusterNames":  asList(decision.Clusters),
		},
		"strategy": map[string]any{"type": "RollingUpdate"},
	}
	return []Delivered{{Kind: kind, Object: placement}}, nil
}
