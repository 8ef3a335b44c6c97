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
	"encoding/json"
	"fmt"
	"strings"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/division"
	"github.com/berth-dev/berth/internal/placement"
)

// Divide returns the number of replicas in each cluster of a decision, by its name. The result is nil if each cluster gets all replicas
// that the object requests, because by is nil, or if the object has no replicas. known is false if the system divides them by free
// capacity, which Berth does not know.
func Divide(object Object, decision Decision, by *placementv1.ReplicaDivision) (replicas map[string]int64, known bool) {
	switch {
	case by == nil || object.Replicas == nil:
		return nil, true
	case by.DivideBy == placementv1.DivideByFreeCapacity:
		return nil, false
	}
	return divide(object, decision, by), true
}

// divide returns the number of replicas in each cluster of a decision, by its name, for an object with replicas and a division other than
// by free capacity.
func divide(object Object, decision Decision, by *placementv1.ReplicaDivision) map[string]int64 {
	clusters := make([]division.Cluster, 0, len(decision.Clusters))
	for _, name := range decision.Clusters {
		cluster := division.Cluster{Name: name, Weight: 1}
		share := decision.Shares[name]
		cluster.Fixed = share.Replicas
		if share.Weight != nil && by.DivideBy == placementv1.DivideByWeight {
			cluster.Weight = *share.Weight
		}
		clusters = append(clusters, cluster)
	}
	var bounds division.Bounds
	if by.MinPerCluster != nil {
		bounds.Min = int64(*by.MinPerCluster)
	}
	if by.MaxPerCluster != nil {
		bounds.Max = new(int64(*by.MaxPerCluster))
	}
	seed := strings.Join([]string{object.Group, object.Kind, object.Namespace, object.Name}, "/")
	return division.Divide(*object.Replicas, clusters, bounds, seed)
}

// preferences is the JSON of the annotation placement.PreferencesAnnotation, by which consumers of a system learn how replicas are divided.
type preferences struct {
	Rebalance bool                         `json:"rebalance"` // whether existing replicas may move to other clusters, too; always true
	Clusters  map[string]clusterPreference `json:"clusters"`  // by name, the clusters that the annotated object lists
}

// clusterPreference says how many replicas one cluster gets: all three fields have that number. Weight is for readers that know only
// weights.
type clusterPreference struct {
	MinReplicas int64 `json:"minReplicas"` // the number of replicas that the cluster gets
	MaxReplicas int64 `json:"maxReplicas"` // the number of replicas that the cluster gets
	Weight      int64 `json:"weight"`      // the number of replicas that the cluster gets
}

// divideByAnnotation divides the replicas for a system whose delivered objects have no field for that. The resulting function, which is nil
// only with an error, returns the annotations of a delivered object that lists the given clusters: for each of them its number of replicas.
// The function returns nil if each cluster gets all replicas, because by is nil or the object has no replicas. A division by free capacity
// is an error, in which title is that of the system.
func divideByAnnotation(title string, object Object, decision Decision, by *placementv1.ReplicaDivision) (func([]string) map[string]string,
	error) {
	if by == nil || object.Replicas == nil {
		return func([]string) map[string]string { return nil }, nil
	}
	if by.DivideBy == placementv1.DivideByFreeCapacity {
		return nil, fmt.Errorf("%s does not know the free capacity of clusters, Karmada alone does; "+
			"set spec.delivery.replicas.divideBy to Weight or Even", title)
	}
	replicas := divide(object, decision, by)
	return func(clusters []string) map[string]string {
		value := preferences{Rebalance: true, Clusters: make(map[string]clusterPreference, len(clusters))}
		for _, name := range clusters {
			n := replicas[name]
			value.Clusters[name] = clusterPreference{MinReplicas: n, MaxReplicas: n, Weight: n}
		}
		// Marshaling does not fail: the value has only strings, numbers and booleans.
		text, _ := json.Marshal(value)
		return map[string]string{placement.PreferencesAnnotation: string(text)}
	}, nil
}
