package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// maxResourcePairs bounds a pod's init containers times the names of resources in them: Kubernetes adds up, for each
	// init container, what all before it that keep running ask for.
	maxResourcePairs = 1 << 18
	// maxVolumes bounds a pod's volumes: predicates compare those of two pods pair by pair.
	maxVolumes = 1 << 11
)

// CheckResources returns an error for a pod whose resources Kubernetes would take too long to add up. The error begins
// with the path below the spec, and names the limit.
func CheckResources(spec *corev1.PodSpec) error {
	names := sets.New[corev1.ResourceName]()
	for i := range spec.InitContainers {
		for _, list := range []corev1.ResourceList{spec.InitContainers[i].Resources.Requests, spec.InitContainers[i].Resources.Limits} {
			for name := range list {
				names.Insert(name)
			}
		}
	}
	if containers := len(spec.InitContainers); containers*len(names) > maxResourcePairs {
		return fmt.Errorf("initContainers: %d containers times %d names of resources are more than %d; use fewer", containers, len(names), maxResourcePairs)
	}
	return nil
}

// checkSize is CheckResources for a pod that predicates judge.
func checkSize(spec *corev1.PodSpec) error {
	if volumes := len(spec.Volumes); volumes > maxVolumes {
		return fmt.Errorf("volumes: %d are more than %d; use fewer", volumes, maxVolumes)
	}
	return CheckResources(spec)
}
