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

package watches

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/numeral"
)

// Capacity reads what all clusters and nodes have together for pods. It is safe for concurrent use.
type Capacity struct {
	Clusters *Clusters
	Nodes    *Nodes
}

// All returns CapacityOf all clusters and nodes; nothing if Clusters.All or Nodes.All returns none because there are too many.
func (c *Capacity) All(ctx context.Context) (corev1.ResourceList, error) {
	clusters, _, allClusters, err := c.Clusters.read(ctx)
	if err != nil {
		return nil, err
	}
	nodes, allNodes, err := c.Nodes.read(ctx)
	if err != nil || !allClusters || !allNodes {
		return nil, err
	}
	return CapacityOf(slices.Concat(clusters, nodes)), nil
}

// CapacityOf returns the CPU and memory that clusters and nodes have together for pods, according to their field allocatable. A resource
// that one of them lacks, or whose amount is invalid there, is missing.
func CapacityOf(members []map[string]any) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		var sum resource.Quantity
		known := len(members) > 0
		for _, member := range members {
			allocatable, _ := member["allocatable"].(map[string]any)
			text, _ := allocatable[string(name)].(string)
			amount, err := numeral.Quantity(text)
			known = known && err == nil
			sum.Add(amount)
		}
		if known {
			out[name] = sum
		}
	}
	return out
}
