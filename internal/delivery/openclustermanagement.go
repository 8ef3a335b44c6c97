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

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
)

// SchedulingDisabledAnnotation is the annotation of Placements of Open Cluster Management that its scheduler leaves alone if the
// value is "true". The scheduler then writes neither PlacementDecisions nor the status, and deletes no PlacementDecisions.
const SchedulingDisabledAnnotation = "cluster.open-cluster-management.io/experimental-scheduling-disable"

const (
	ocmTitle = "Open Cluster Management"
	ocmGroup = "cluster.open-cluster-management.io"
)

var ocmVersion = schema.GroupVersion{Group: ocmGroup, Version: "v1beta1"}

// The labels by which consumers find the PlacementDecisions of a Placement. They refuse a decision-group-index that is no number.
const (
	ocmPlacementLabel  = "cluster.open-cluster-management.io/placement"
	ocmGroupIndexLabel = "cluster.open-cluster-management.io/decision-group-index"
	ocmGroupNameLabel  = "cluster.open-cluster-management.io/decision-group-name"
)

// ocmReason is the reason that each cluster in the status of a PlacementDecision has, because its API requires one.
const ocmReason = "decided by policies of Berth"

var (
	ocmPlacement = Kind{
		GroupVersionResource: ocmVersion.WithResource("placements"),
		Kind:                 "Placement",
		Namespaced:           true,
		Status:               true,
	}
	ocmPlacementDecision = Kind{
		GroupVersionResource: ocmVersion.WithResource("placementdecisions"),
		Kind:                 "PlacementDecision",
		Namespaced:           true,
		Status:               true,
	}
)

// ocmClusters is the inventory of Open Cluster Management. It is System.Leaving of the systems that write its PlacementDecisions. Its
// scheduler chooses no cluster that is being deleted, and its registration waits until a cluster that is being deleted has no
// ManifestWorks: pkg/placement/controllers/scheduling/helpers.go and pkg/registration/hub/gc of version 1.3.1.
var ocmClusters = replication.ManagedClusters

var ocmDecisionLists = &lists{
	Kind: ocmPlacementDecision, infix: "-decision-", first: 1, entries: []string{"status", "decisions"}, cluster: []string{"clusterName"},
}

// Stays reports whether delivered objects of a type stay when no policy delivers the placed object any more, until the garbage collector
// deletes them with it. It is true for PlacementDecisions of Open Cluster Management alone, and false for those of SIG Multicluster. The
// former have no effect without their Placement. Consumers watch both types independently: one that sees that the PlacementDecisions are
// gone before it sees that the Placement is gone removes the workload from all clusters, in whichever order they are deleted. A Placement
// that a user wrote is not deleted at all.
func Stays(resource schema.GroupVersionResource) bool {
	return resource == ocmPlacementDecision.GroupVersionResource
}

// openClusterManagement delivers by a Placement that the scheduler of Open Cluster Management leaves alone, with its
// PlacementDecisions. The Placement has the number of clusters and the decision group in its status, because a
// ManifestWorkReplicaSet is complete only if its number of clusters is that of the status. It has no conditions, which need a clock
// and which no consumer reads.
var openClusterManagement = System{
	Name:        "openClusterManagement",
	Title:       ocmTitle,
	ClusterRole: "berth-delivery-openclustermanagement",
	Kinds:       []Kind{ocmPlacementDecision, ocmPlacement},
	Leaving:     ocmClusters,
	lists:       ocmDecisionLists,
	workKinds:   ocmWorks,
	carries:     carriedByManifestWork,
	render:      renderOpenClusterManagement,
}

// renderOpenClusterManagement returns a Placement, and its PlacementDecisions before it.
func renderOpenClusterManagement(object Object, decision Decision, spec *placementv1.Delivery) ([]Delivered, error) {
	if err := requireNamespaced(object, ocmTitle, "openClusterManagement"); err != nil {
		return nil, err
	}
	annotations, err := divideByAnnotation(ocmTitle, object, decision, spec.Replicas)
	if err != nil {
		return nil, err
	}
	name := deliveredName(object)
	placement := newObject(ocmPlacement, name, object)
	placement.SetAnnotations(map[string]string{SchedulingDisabledAnnotation: "true"})
	placement.Object["spec"] = map[string]any{}
	decisions, status := ocmDecisions(object, name, decision, annotations)
	placement.Object["status"] = status
	// A ManifestWorkReplicaSet keeps what it has while its Placement does not exist, and deletes it from all clusters if a Placement
	// has no decisions yet.
	return append(decisions, Delivered{Kind: ocmPlacement, Object: placement}), nil
}

// ocmDecisions returns the PlacementDecisions of the Placement with a name, under the names that Open Cluster Management gives them, and
// the status of the Placement. The function annotations returns the annotations of a PlacementDecision with some clusters. If there are no
// clusters, there is one PlacementDecision without decisions.
func ocmDecisions(
	object Object, placement string, decision Decision, annotations func([]string) map[string]string,
) (delivered []Delivered, status map[string]any) {
	var names []any
	for index, part := range divideIntoLists(decision.Clusters, decision.Lists) {
		decisions := make([]any, 0, len(part))
		for _, name := range part {
			decisions = append(decisions, map[string]any{"clusterName": name, "reason": ocmReason})
		}
		slice := newObject(ocmPlacementDecision, ocmDecisionLists.name(placement, index), object)
		addLabels(slice, map[string]string{
			ocmPlacementLabel:  placement,
			ocmGroupIndexLabel: "0",
			ocmGroupNameLabel:  "",
		})
		slice.SetAnnotations(annotations(part))
		slice.Object["status"] = map[string]any{"decisions": decisions}
		delivered = append(delivered, Delivered{Kind: ocmPlacementDecision, Object: slice})
		names = append(names, slice.GetName())
	}
	return delivered, map[string]any{
		"numberOfSelectedClusters": int64(len(decision.Clusters)),
		"decisionGroups": []any{map[string]any{
			"decisionGroupIndex": int64(0),
			"decisionGroupName":  "",
			"decisions":          names,
			"clusterCount":       int64(len(decision.Clusters)),
		}},
	}
}

// existingPlacement is the kind of the Placements of Open Cluster Management that policies match. Only their status is written.
var existingPlacement = Kind{
	GroupVersionResource: ocmPlacement.GroupVersionResource,
	Kind:                 ocmPlacement.Kind,
	Namespaced:           true,
	Status:               true,
	Existing:             true,
}

// nativePlacement delivers by the PlacementDecisions of a matched Placement.
var nativePlacement = System{
	Name:        openClusterManagement.Name,
	Title:       ocmTitle,
	ClusterRole: openClusterManagement.ClusterRole,
	Kinds:       []Kind{ocmPlacementDecision, existingPlacement},
	Leaving:     ocmClusters,
	lists:       ocmDecisionLists,
	workKinds:   ocmWorks,
	carries:     carriedByManifestWork,
	render:      renderNativePlacement,
}

// renderNativePlacement returns the PlacementDecisions of a Placement that policies match, and the status of the Placement. It returns an
// error if the scheduler of Open Cluster Management decides the Placement, or if the name of the Placement is too long for a label.
func renderNativePlacement(object Object, decision Decision, _ *placementv1.Delivery) ([]Delivered, error) {
	if object.Annotations[SchedulingDisabledAnnotation] != "true" {
		return nil, fmt.Errorf("the scheduler of Open Cluster Management decides Placement %s/%s; "+
			"set its annotation %s to \"true\", or do not match it", object.Namespace, object.Name, SchedulingDisabledAnnotation)
	}
	if len(object.Name) > maxName {
		return nil, fmt.Errorf("the name of Placement %s/%s is longer than %d characters, so that it can't be the value of the label of its "+
			"decisions; give it a shorter name", object.Namespace, object.Name, maxName)
	}
	noAnnotations := func([]string) map[string]string { return nil }
	delivered, status := ocmDecisions(object, object.Name, decision, noAnnotations)
	return append(delivered, Delivered{Kind: existingPlacement, Object: existingObject(existingPlacement, object, status)}), nil
}
