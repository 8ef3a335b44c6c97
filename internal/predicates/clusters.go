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

// ClusterSnapshot makes a snapshot of clusters in their normal form (replication.Cluster), by name. Each becomes a node
// without pods:
//
//   - its labels are labels; its properties too where they can be, and so are its region and its zone if it has one only.
//     Of the same key, the cluster's own label counts, so that a selector selects here what it selects in the inventory;
//   - its taints are taints, those of Open Cluster Management with the effect that comes next. One of an effect that is not
//     known keeps pods away, and one may have a key or a value that none in a node has: what repels must not be lost;
//   - it has the taint node.kubernetes.io/not-ready:NoSchedule while it is not ready;
//   - what is left of its resources is allocatable: allocatable less allocated, and the capacity stands in for the
//     allocatable where that is not known, as it does in a node. It has as many pods as are asked for unless it says how
//     many. Of which no resources are said at all, it has as much of each as is asked for. There is nothing of one of
//     which the amount can't be read.
//
// What else is no valid part of a node is left out.
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

func validLabel(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// effects are those of taints: Kubernetes', which Karmada and KubeFleet have too, and what those of Open Cluster
// Management come to. That of a taint for new workloads only is what it means for one that is to be placed.
var effects = map[string]corev1.TaintEffect{
	string(corev1.TaintEffectNoSchedule):       corev1.TaintEffectNoSchedule,
	string(corev1.TaintEffectPreferNoSchedule): corev1.TaintEffectPreferNoSchedule,
	string(corev1.TaintEffectNoExecute):        corev1.TaintEffectNoExecute,
	"NoSelect":                                 corev1.TaintEffectNoSchedule,
	"PreferNoSelect":                           corev1.TaintEffectPreferNoSchedule,
	"NoSelectIfNew":                            corev1.TaintEffectNoSchedule,
}

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
	return out
}

// clusterResources returns what is left of a cluster's resources; known is false if nothing is said of them.
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

// enough is more than anybody asks for, and as much as can be counted in thousandths.
var enough = *apiresource.NewQuantity(math.MaxInt64/1000, apiresource.DecimalSI)

// quantities reads a list of resources.
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

// parseQuantity reads an amount that a cluster may have.
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
