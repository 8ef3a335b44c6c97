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
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
)

// Nodes reads the nodes of a cluster. It reads from the API server each time, because nodes are watched only while a policy reads them. It
// is safe for concurrent use.
type Nodes struct{ Client dynamic.Interface }

// maxNodes is the number of nodes above which All returns none.
const maxNodes = 1000

// All returns the NodeValues of each node. It returns none if there are more than maxNodes nodes.
func (n *Nodes) All(ctx context.Context) ([]map[string]any, error) {
	nodes, _, err := n.read(ctx)
	return nodes, err
}

// read does the same as All. complete is false if it returns none because there are more than maxNodes nodes, and with an error.
func (n *Nodes) read(ctx context.Context) (nodes []map[string]any, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, clustersTimeout)
	defer cancel()
	list, err := n.Client.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{Limit: maxNodes})
	if err != nil {
		return nil, false, fmt.Errorf("listing nodes: %w", err)
	}
	if list.GetContinue() != "" {
		return nil, false, nil
	}
	out := make([]map[string]any, len(list.Items))
	for i := range list.Items {
		out[i] = NodeValues(&list.Items[i])
	}
	return out, true, nil
}

// ExtendedResources returns the sorted names of the extended resources that nodes have. ok is false if there are no nodes, or more than
// maxNodes.
func (n *Nodes) ExtendedResources(ctx context.Context) (names []string, ok bool, err error) {
	nodes, err := n.All(ctx)
	return ExtendedResourcesOf(nodes), len(nodes) > 0, err
}

// ExtendedResourcesOf returns the sorted names of the extended resources that nodes with some NodeValues have: those of their allocatable
// resources that have a slash.
func ExtendedResourcesOf(nodes []map[string]any) []string {
	found := sets.New[string]()
	for _, node := range nodes {
		allocatable, _ := node["allocatable"].(map[string]any)
		for name := range allocatable {
			if strings.Contains(name, "/") {
				found.Insert(name)
			}
		}
	}
	return sets.List(found)
}

// NodeValues returns a map with the name, labels, taints, and allocatable resources of a node, under these names. It always has these four
// keys; the value is a nil map or slice for what the node lacks. The values are copies.
func NodeValues(node *unstructured.Unstructured) map[string]any {
	labels, _, _ := unstructured.NestedMap(node.Object, "metadata", "labels")
	allocatable, _, _ := unstructured.NestedMap(node.Object, "status", "allocatable")
	taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
	return map[string]any{"name": node.GetName(), "labels": labels, "allocatable": allocatable, "taints": taints}
}
