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

package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// maxClusters is the number of clusters with series of their own. otherClusters is the value of the label for all others, which no cluster
// has as its name.
const (
	maxClusters   = 200
	otherClusters = "(other)"
)

// Compliances of the objects in a cluster.
const (
	ClusterPlaced    = "placed"
	ClusterWaiting   = "waiting"
	ClusterViolating = "violating"
)

// clusterStates are the values of a label of the numbers of objects by cluster, which are not divided by policy: whether an object is as
// decided, has to be patched, or violates its placement.
var clusterStates = []string{ClusterPlaced, ClusterWaiting, ClusterViolating}

// ClusterCount has the numbers of objects in one cluster. Cluster is "" for all clusters together that have no ClusterCount of their own.
type ClusterCount struct {
	// Cluster is the name of the cluster; "" for all others.
	Cluster string
	// Objects are the numbers of matched objects that have the cluster in their list of clusters now: with the key ClusterPlaced, of those
	// that are as decided; with ClusterWaiting, of those that wait for a patch; with ClusterViolating, of those that violate a policy.
	Objects map[string]int
}

// NewClusters returns a collector of the numbers of objects by cluster. The function list must return immediately: the counts of at most
// limit clusters, and one without a name for all others, which gets otherClusters as its label. It must return counts on only one
// replica.
func NewClusters(list func(limit int) []ClusterCount) prometheus.Collector {
	return newScraped(func(set setGauge) {
		for _, count := range list(maxClusters) {
			for _, compliance := range clusterStates {
				set(clusterObjects, float64(count.Objects[compliance]), cmp.Or(count.Cluster, otherClusters), compliance)
			}
		}
	}, clusterObjects)
}
