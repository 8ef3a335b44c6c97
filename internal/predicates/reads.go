package predicates

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// What a World is made of.
var (
	nodeResource      = corev1.SchemeGroupVersion.WithResource("nodes")
	podResource       = corev1.SchemeGroupVersion.WithResource("pods")
	namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// Reads are the resource types that a World is made of, and the fields that predicates look at, sealed: nodes, the pods
// on them, and the labels of namespaces.
//
// They are what the scheduler's filter plugins, NodeInfo and PodInfo read of objects that are there, with the feature
// gates as they are by default. What only scores, queues or preempts is not among them, nor what the plugins read of the
// pod that is to be placed: it is no object of the world.
func Reads() map[schema.GroupVersionResource]*projection.Fields { return maps.Clone(reads()) }

var reads = sync.OnceValue(func() map[schema.GroupVersionResource]*projection.Fields {
	return map[schema.GroupVersionResource]*projection.Fields{
		nodeResource:      nodeFields().Seal(),
		podResource:       podFields().Seal(),
		namespaceResource: namespaceFields().Seal(),
	}
})

func namespaceFields() *projection.Fields {
	f := &projection.Fields{}
	f.Name("metadata").Name("name")
	// InterPodAffinity: a term's namespaceSelector.
	f.Name("metadata").Name("labels").All()
	return f
}

func nodeFields() *projection.Fields {
	f := &projection.Fields{}
	f.Name("metadata").Name("name")
	// NodeAffinity, PodTopologySpread, InterPodAffinity, VolumeZone, VolumeBinding.
	f.Name("metadata").Name("labels").All()
	f.Name("spec").Name("unschedulable")
	// TaintToleration, and PodTopologySpread where it honours taints.
	taint := f.Name("spec").Name("taints").Each()
	taint.Name("key")
	taint.Name("value")
	taint.Name("effect")
	// NodeInfo.SetNode.
	f.Name("status").Name("allocatable").All()
	f.Name("status").Name("declaredFeatures").All()
	return f
}

func podFields() *projection.Fields {
	f := &projection.Fields{}
	meta := f.Name("metadata")
	meta.Name("name")
	meta.Name("namespace")
	// What NodeInfo tells pods apart by, and what NodeVolumeLimits compares the owner of a claim with.
	meta.Name("uid")
	meta.Name("labels").All()
	// PodTopologySpread does not count pods that are about to go.
	meta.Name("deletionTimestamp")

	spec := f.Name("spec")
	spec.Name("nodeName")
	// PodInfo's terms. How the nodes for the pod itself were chosen does not matter any more.
	spec.Name("affinity").Name("podAffinity").All()
	spec.Name("affinity").Name("podAntiAffinity").All()
	// PodInfo.CalculateResource, which is resource.PodRequests, and util.GetHostPorts.
	spec.Name("overhead").All()
	spec.Name("resources").Name("requests").All()
	for _, name := range []string{"containers", "initContainers"} {
		container := spec.Name(name).Each()
		container.Name("name")
		container.Name("resources").Name("requests").All()
		port := container.Name("ports").Each()
		port.Name("hostPort")
		port.Name("hostIP")
		port.Name("protocol")
		if name == "initContainers" {
			container.Name("restartPolicy")
		}
	}
	volumeFields(spec.Name("volumes").Each())

	// A pod that is resized in place counts with what it was given as well as with what it asks for.
	status := f.Name("status")
	status.Name("phase")
	condition := status.Name("conditions").Each()
	condition.Name("type")
	condition.Name("reason")
	status.Name("allocatedResources").All()
	status.Name("resources").Name("requests").All()
	for _, name := range []string{"containerStatuses", "initContainerStatuses"} {
		container := status.Name(name).Each()
		container.Name("name")
		container.Name("allocatedResources").All()
		container.Name("resources").Name("requests").All()
	}
	return f
}

// volumeFields are the sources that VolumeRestrictions compares and those that NodeVolumeLimits counts: claims, and what
// CSI drivers have taken over from the volumes of old.
func volumeFields(f *projection.Fields) {
	f.Name("name")
	f.Name("persistentVolumeClaim").Name("claimName")
	// The name of its claim follows from the pod's and the volume's.
	f.Name("ephemeral")
	for _, source := range []string{
		"awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "gcePersistentDisk", "iscsi", "portworxVolume", "rbd",
		"vsphereVolume",
	} {
		f.Name(source).All()
	}
}

// digest stands for what an object is cut to: the first half of the SHA-256 of its key. That two keys differ and have the
// same digest is not to be expected; the key of a pod would be as large as the pod.
type digest [sha256.Size / 2]byte

// cut returns what a node or a namespace shows to predicates, and the digest of that.
func cut(resource schema.GroupVersionResource, object *unstructured.Unstructured) (map[string]any, digest) {
	fields := reads()[resource]
	out := fields.Cut(object.Object)
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	// What has no key was never JSON, and is nothing that can be converted.
	*space, _ = fields.AppendKey((*space)[:0], out)
	sum := sha256.Sum256(*space)
	return out, digest(sum[:])
}

// spaces lend memory for keys.
var spaces = sync.Pool{New: func() any { return new([]byte) }}

// prune removes, in place, from a pod that was cut what a path cannot leave out: the members of lists that nothing looks
// at. Without it, each pod had volumes, and seemed to change whenever one of its conditions does.
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

// keep removes the members of a list that a function does not want, and the list if none is left. What is no object stays
// and is an error in its place.
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

// convert makes a typed object of what one was cut to. What the API server would refuse is an error.
func convert[T any](object map[string]any) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, out); err != nil {
		return nil, err
	}
	return out, nil
}
