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
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/projection"
)

// The resource types that a NodeCache stores.
var (
	nodeResource      = corev1.SchemeGroupVersion.WithResource("nodes")
	podResource       = corev1.SchemeGroupVersion.WithResource("pods")
	namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// Reads returns the resource types that a NodeCache needs and the fields that predicates read, sealed. They are nodes, pods
// on nodes, and the labels of namespaces.
//
// The fields are those that the scheduler's filter plugins, NodeInfo, and PodInfo read of existing objects, with the
// default feature gates. They exclude fields that are only read for scores, queues, or preemption. They also exclude
// what plugins read of the pod to place, which is not an object of the NodeCache.
func Reads() map[schema.GroupVersionResource]*projection.FieldSet { return maps.Clone(reads()) }

var reads = sync.OnceValue(func() map[schema.GroupVersionResource]*projection.FieldSet {
	return map[schema.GroupVersionResource]*projection.FieldSet{
		nodeResource: projection.Fields(
			"metadata.name",
			// Read by NodeAffinity, PodTopologySpread, InterPodAffinity, VolumeZone, and VolumeBinding.
			"metadata.labels.**",
			"spec.unschedulable",
			// Read by TaintToleration, and by PodTopologySpread if it honors taints.
			"spec.taints.*.key", "spec.taints.*.value", "spec.taints.*.effect",
			// Read by NodeInfo.SetNode.
			"status.allocatable.**", "status.declaredFeatures.**",
		),
		podResource: projection.Fields(podFields...),
		// InterPodAffinity reads the labels for a term's namespaceSelector.
		namespaceResource: projection.Fields("metadata.name", "metadata.labels.**"),
	}
})

var podFields = []string{
	"metadata.name", "metadata.namespace",
	// NodeInfo identifies pods by the UID. NodeVolumeLimits compares it with the owner of a claim.
	"metadata.uid",
	"metadata.labels.**",
	// PodTopologySpread does not count pods that are being deleted.
	"metadata.deletionTimestamp",

	"spec.nodeName",
	// Read by PodInfo for its terms. The pod's own node affinity no longer matters.
	"spec.affinity.podAffinity.**", "spec.affinity.podAntiAffinity.**",
	// Read by PodInfo.CalculateResource, which calls resource.PodRequests, and by util.GetHostPorts.
	"spec.overhead.**", "spec.resources.requests.**",
	"spec.containers.*.name", "spec.containers.*.resources.requests.**",
	"spec.containers.*.ports.*.hostPort", "spec.containers.*.ports.*.hostIP", "spec.containers.*.ports.*.protocol",
	"spec.initContainers.*.name", "spec.initContainers.*.resources.requests.**",
	"spec.initContainers.*.ports.*.hostPort", "spec.initContainers.*.ports.*.hostIP", "spec.initContainers.*.ports.*.protocol",
	"spec.initContainers.*.restartPolicy",

	// The volume sources that VolumeRestrictions compares and those that NodeVolumeLimits counts: claims, and in-tree
	// volumes that CSI drivers have taken over.
	"spec.volumes.*.name",
	"spec.volumes.*.persistentVolumeClaim.claimName",
	// The name of its claim is derived from the names of the pod and the volume.
	"spec.volumes.*.ephemeral",
	"spec.volumes.*.awsElasticBlockStore.**", "spec.volumes.*.azureDisk.**", "spec.volumes.*.azureFile.**",
	"spec.volumes.*.cinder.**", "spec.volumes.*.gcePersistentDisk.**", "spec.volumes.*.iscsi.**",
	"spec.volumes.*.portworxVolume.**", "spec.volumes.*.rbd.**", "spec.volumes.*.vsphereVolume.**",

	// A pod that is resized in place counts with its allocated as well as its requested resources.
	"status.phase",
	"status.conditions.*.type", "status.conditions.*.reason",
	"status.allocatedResources.**", "status.resources.requests.**",
	"status.containerStatuses.*.name", "status.containerStatuses.*.allocatedResources.**",
	"status.containerStatuses.*.resources.requests.**",
	"status.initContainerStatuses.*.name", "status.initContainerStatuses.*.allocatedResources.**",
	"status.initContainerStatuses.*.resources.requests.**",
}

// digest identifies an object's projection: it is the first half of the SHA-256 of a text that encodes the projection. Collisions are not
// expected. The text itself would be as large as the projection.
type digest [sha256.Size / 2]byte

// cut returns a copy of a node or a namespace with only the fields that predicates read, and its digest.
func cut(resource schema.GroupVersionResource, object *unstructured.Unstructured) (map[string]any, digest) {
	fields := reads()[resource]
	out := fields.Project(object.Object)
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	// Ignore the result: a value without a key is not JSON, and cannot be converted later.
	*space, _ = fields.AppendKey((*space)[:0], out)
	sum := sha256.Sum256(*space)
	return out, digest(sum[:])
}

// spaces pools the buffers for keys.
var spaces = sync.Pool{New: func() any { return new([]byte) }}

// prune removes list items of a projected pod that no predicate reads, in place: volumes without a source that counts, ports without a host
// port, conditions other than PodResizePending, and statuses of containers without resources. A field path cannot exclude them. Without
// prune, each pod would have volumes, and would seem to change with each of its conditions.
func prune(pod map[string]any) {
	spec, _ := pod["spec"].(map[string]any)
	keep(spec, "volumes", func(volume map[string]any) bool { return len(volume) > 1 })
	for _, name := range []string{"containers", "initContainers"} {
		containers, _ := spec[name].([]any)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			keep(container, "ports", func(port map[string]any) bool { return port["hostPort"] != nil })
		}
	}
	status, _ := pod["status"].(map[string]any)
	keep(status, "conditions", func(condition map[string]any) bool {
		return condition["type"] == string(corev1.PodResizePending)
	})
	for _, name := range []string{"containerStatuses", "initContainerStatuses"} {
		keep(status, name, func(container map[string]any) bool { return container["resources"] != nil })
	}
}

// keep removes from the list in a field of an object the items for which wanted returns false, and the field if no item remains.
// Items that are not objects stay, so that converting them fails.
func keep(object map[string]any, name string, wanted func(map[string]any) bool) {
	list, ok := object[name].([]any)
	if !ok {
		return
	}
	list = slices.DeleteFunc(list, func(member any) bool {
		m, ok := member.(map[string]any)
		return ok && !wanted(m)
	})
	if len(list) == 0 {
		delete(object, name)
		return
	}
	object[name] = list
}

// convert converts a projection to a typed object. It returns an error for an object that the API server would reject.
func convert[T any](object map[string]any) (*T, error) {
	out := new(T)
	if err := numeral.FromUnstructured(object, out); err != nil {
		return nil, err
	}
	return out, nil
}
