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

package predicates

import (
	"cmp"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/replication"
)

// ClusterSnapshot returns a snapshot of clusters in their normal form (replication.Cluster). The map's keys are the
// clusters' names. Each cluster becomes a node without pods:
//
//   - The node's labels are the cluster's labels. Properties become labels if they are valid labels. So does the
//     region, and the zone if the cluster has only one. The cluster's own labels take precedence, so that a selector
//     selects the same clusters as in the inventory.
//   - The node's taints are the cluster's taints. Effects of Open Cluster Management become the closest effect of
//     Kubernetes. An unknown effect becomes NoSchedule. Keys and values may be invalid for a node, because a taint must
//     not get lost.
//   - A cluster that is not ready has the taint node.kubernetes.io/not-ready:NoSchedule. One that is being deleted has the
//     taint node.kubernetes.io/unschedulable:NoSchedule, as a Node that is drained.
//   - The node's allocatable resources are the free resources: allocatable minus allocated. As for a node, capacity
//     replaces allocatable if that is unknown. The number of pods is unlimited unless the cluster reports it. If a
//     cluster reports no resources at all, all of its resources are unlimited. A resource whose allocated amount cannot
//     be parsed has nothing left.
//
// Other invalid parts are omitted.
func ClusterSnapshot(clusters map[string]map[string]any) *Snapshot {
	s := Snapshot{revision: 1, unlimited: sets.New[string]()}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if name == "" {
			continue
		}
		cluster := clusters[name]
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: clusterLabels(cluster)},
			Spec:       corev1.NodeSpec{Taints: clusterTaints(cluster)},
		}
		var known bool
		if node.Status.Allocatable, known = clusterResources(cluster); !known {
			s.unlimited.Insert(name)
		}
		info := framework.NewNodeInfo()
		info.SetNode(node)
		s.names = append(s.names, name)
		s.infos = append(s.infos, fwk.NodeInfo(info))
	}
	return newSnapshot(s)
}

// clusterLabels returns the labels of the node that stands for a cluster: the cluster's labels and, under other keys, its properties,
// region, and only zone, each if it is a valid label.
func clusterLabels(cluster map[string]any) map[string]string {
	out := map[string]string{}
	add := func(key string, value any) {
		text, ok := value.(string)
		if _, there := out[key]; ok && !there && validLabel(key, text) {
			out[key] = text
		}
	}
	for _, member := range []string{"labels", "properties"} {
		values, _ := cluster[member].(map[string]any)
		for key, value := range values {
			add(key, value)
		}
	}
	add(corev1.LabelTopologyRegion, cluster["region"])
	if zones, _ := cluster["zones"].([]any); len(zones) == 1 {
		add(corev1.LabelTopologyZone, zones[0])
	}
	return out
}

// validLabel reports whether a node may have a label.
func validLabel(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// effects maps the effects of taints to those of Kubernetes. Karmada and KubeFleet use Kubernetes' effects, and Open
// Cluster Management has its own. An effect that only concerns new workloads applies, because the workload is to be
// placed.
var effects = map[string]corev1.TaintEffect{
	string(corev1.TaintEffectNoSchedule):       corev1.TaintEffectNoSchedule,
	string(corev1.TaintEffectPreferNoSchedule): corev1.TaintEffectPreferNoSchedule,
	string(corev1.TaintEffectNoExecute):        corev1.TaintEffectNoExecute,
	"NoSelect":                                 corev1.TaintEffectNoSchedule,
	"PreferNoSelect":                           corev1.TaintEffectPreferNoSchedule,
	"NoSelectIfNew":                            corev1.TaintEffectNoSchedule,
}

// clusterTaints returns the taints of the node that stands for a cluster: the cluster's taints, with effects of Kubernetes, one if it is
// not ready, and one if it is being deleted.
func clusterTaints(cluster map[string]any) []corev1.Taint {
	var out []corev1.Taint
	taints, _ := cluster["taints"].([]any)
	for _, t := range taints {
		taint, _ := t.(map[string]any)
		key, _ := taint["key"].(string)
		value, _ := taint["value"].(string)
		effect, _ := taint["effect"].(string)
		known, ok := effects[effect]
		if !ok && key == "" {
			continue
		}
		out = append(out, corev1.Taint{Key: key, Value: value, Effect: cmp.Or(known, corev1.TaintEffectNoSchedule)})
	}
	if ready, _ := cluster["ready"].(bool); !ready {
		out = append(out, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	if terminating, _ := cluster["terminating"].(bool); terminating {
		out = append(out, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}

// clusterResources returns a cluster's free resources: allocatable, or else capacity, minus allocated, and no less than 0. known is false
// if the cluster reports neither.
func clusterResources(cluster map[string]any) (left corev1.ResourceList, known bool) {
	said, _ := cluster["allocatable"].(map[string]any)
	if len(said) == 0 {
		said, _ = cluster["capacity"].(map[string]any)
	}
	left, known = quantities(said), len(said) > 0
	allocated, _ := cluster["allocated"].(map[string]any)
	for name, value := range allocated {
		free, ok := left[corev1.ResourceName(name)]
		if !ok {
			continue
		}
		if taken, ok := parseQuantity(value); ok {
			free.Sub(taken)
		} else {
			free = apiresource.Quantity{}
		}
		left[corev1.ResourceName(name)] = free
	}
	for name, free := range left {
		if free.Sign() < 0 {
			left[name] = apiresource.Quantity{}
		}
	}
	if _, ok := left[corev1.ResourcePods]; !ok {
		left[corev1.ResourcePods] = enough
	}
	return left, known
}

// enough is more than any pod requests. It is the largest amount that can be counted in thousandths.
var enough = *apiresource.NewQuantity(math.MaxInt64/1000, apiresource.DecimalSI)

// quantities parses a resource list. It omits entries with an invalid name, and those with an invalid or negative amount.
func quantities(values map[string]any) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, value := range values {
		quantity, ok := parseQuantity(value)
		if !ok || len(validation.IsQualifiedName(name)) > 0 {
			continue
		}
		out[corev1.ResourceName(name)] = quantity
	}
	return out
}

// parseQuantity parses an amount of a cluster's resource. It limits large ones to enough, and returns false for an invalid or negative one.
func parseQuantity(value any) (apiresource.Quantity, bool) {
	quantity, ok := replication.Quantity(value)
	if !ok || quantity.Sign() < 0 {
		return apiresource.Quantity{}, false
	}
	if quantity.Cmp(enough) > 0 {
		quantity = enough
	}
	return quantity, true
}
