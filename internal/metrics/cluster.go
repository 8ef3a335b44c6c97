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

// clusterStates are the values of the label for the compliance of an object.
var clusterStates = []string{ClusterPlaced, ClusterWaiting, ClusterViolating}

// ClusterCount has the numbers of objects in one cluster. Cluster is "" for all clusters together that have no ClusterCount of their own.
type ClusterCount struct {
	Cluster string         // the name of the cluster; "" for all others
	Objects map[string]int // numbers of objects with the cluster: as decided (ClusterPlaced), to be patched (ClusterWaiting), ClusterViolating
}

// NewClusters returns a collector of the numbers of objects by cluster. The function list must return immediately: the counts of at most
// limit clusters, and one without a name for all others. It must return counts on only one replica.
func NewClusters(list func(limit int) []ClusterCount) prometheus.Collector {
	return newScraped(func(set setGauge) {
		for _, count := range list(maxClusters) {
			for _, compliance := range clusterStates {
				set(clusterObjects, float64(count.Objects[compliance]), cmp.Or(count.Cluster, otherClusters), compliance)
			}
		}
	}, clusterObjects)
}
