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
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/replication"
)

const multiclusterTitle = "SIG Multicluster"

var multiclusterVersion = schema.GroupVersion{Group: "multicluster.x-k8s.io", Version: "v1alpha1"}

// The labels by which the slices of a decision are found, of KEP-5313.
const (
	decisionKeyLabel   = "multicluster.x-k8s.io/decision-key"
	decisionIndexLabel = "multicluster.x-k8s.io/decision-index"
	placementKeyLabel  = "multicluster.x-k8s.io/placement-key"
)

var placementDecisionKind = Kind{
	GroupVersionResource: multiclusterVersion.WithResource("placementdecisions"),
	Kind:                 "PlacementDecision",
	Namespaced:           true,
}

var placementDecisionLists = &lists{
	Kind: placementDecisionKind, infix: "-", entries: []string{"decisions"}, cluster: []string{"clusterProfileRef", "name"},
}

// placementDecision delivers by PlacementDecisions of SIG Multicluster. Consumers find the slices of a decision by the labels
// decision-key and placement-key, which are both the name of the slices without the index.
var placementDecision = System{
	Name:        "placementDecision",
	Title:       multiclusterTitle,
	ClusterRole: "berth-delivery-placementdecision",
	Kinds:       []Kind{placementDecisionKind},
	References:  true,
	lists:       placementDecisionLists,
	render:      renderPlacementDecision,
}

// profileOf returns the ClusterProfile that represents a cluster; dangling says why there is none, also if several objects that are not
// derived from each other have the cluster's name. objects are those of all inventories. If several ClusterProfiles are derived from the
// object that represents the cluster, the result is the one in the given namespace, or else the one whose namespace sorts first.
func profileOf(cluster, namespace string, objects replication.Claims) (profile replication.Claim, dangling string) {
	all := objects[cluster]
	isProfile := func(claim replication.Claim) bool { return claim.Resource == replication.ClusterProfiles }
	switch counting := replication.Counting(all); {
	case len(counting) == 0:
		return profile, fmt.Sprintf("no inventory has a cluster %s", cluster)
	case len(counting) > 1:
		return profile, replication.Claims{cluster: counting}.Ambiguous()[0].String()
	case isProfile(counting[0]):
		return counting[0], ""
	}
	// What does not count was derived from what does, so it represents the same cluster.
	if profiles := slices.DeleteFunc(slices.Clone(all), func(claim replication.Claim) bool { return !isProfile(claim) }); len(profiles) > 0 {
		return slices.MinFunc(profiles, func(a, b replication.Claim) int {
			if a.Namespace == namespace {
				return -1
			}
			if b.Namespace == namespace {
				return 1
			}
			return strings.Compare(a.Namespace, b.Namespace)
		}), ""
	}
	return profile, fmt.Sprintf("cluster %s is %s, which is no ClusterProfile", cluster, all[0])
}

// renderPlacementDecision returns PlacementDecisions that refer to the ClusterProfiles of the decided clusters. A cluster without a
// ClusterProfile is left out, and Delivered.Dangling says so, which makes the delivery fail. For an empty decision, it returns one
// PlacementDecision without clusters, so that consumers see that there is a decision. It returns an error for a cluster-scoped object, or
// for a division by free capacity.
func renderPlacementDecision(object Object, decision Decision, spec *placementv1.Delivery) ([]Delivered, error) {
	if err := requireNamespaced(object, multiclusterTitle, "placementDecision"); err != nil {
		return nil, err
	}
	annotations, err := divideByAnnotation(multiclusterTitle, object, decision, spec.Replicas)
	if err != nil {
		return nil, err
	}
	key := deliveredName(object)
	var delivered []Delivered
	for index, clusters := range divideIntoLists(decision.Clusters, decision.Lists) {
		decisions := make([]any, 0, len(clusters))
		dangling := ""
		for _, name := range clusters {
			profile, why := profileOf(name, object.Namespace, decision.Objects)
			if why != "" {
				dangling = cmp.Or(dangling, why)
				continue
			}
			decisions = append(decisions, map[string]any{
				"clusterProfileRef": map[string]any{"name": profile.Name, "namespace": profile.Namespace},
			})
		}
		slice := newObject(placementDecisionKind, placementDecisionLists.name(key, index), object)
		addLabels(slice, map[string]string{
			decisionKeyLabel:   key,
			decisionIndexLabel: strconv.Itoa(index),
			placementKeyLabel:  key,
		})
		slice.SetAnnotations(annotations(clusters))
		slice.Object["decisions"] = decisions
		slice.Object["schedulerName"] = managedBy
		delivered = append(delivered, Delivered{Kind: placementDecisionKind, Object: slice, Dangling: dangling})
	}
	return delivered, nil
}
