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

package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// maxResourcePairs limits the number of a pod's init containers multiplied by the number of resource names in them.
	// For each init container, Kubernetes adds up the requests of all earlier ones that keep running.
	maxResourcePairs = 1 << 18
	// maxVolumes limits a pod's volumes, because predicates compare the volumes of two pods pairwise.
	maxVolumes = 1 << 11
)

// CheckResources returns an error if Kubernetes would take too long to add up the resources of a pod with the spec, because it has too many
// init containers with too many names of resources. The error begins with the path of a field in the spec and names the limit.
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
		return fmt.Errorf("initContainers: %d containers times %d names of resources are more than %d; use fewer", containers,
			len(names), maxResourcePairs)
	}
	return nil
}

// checkSize returns an error if a pod with the spec has too many volumes for predicates, or if Kubernetes would take too long to add up its
// resources. The error begins with the path of a field in the spec and names the limit.
func checkSize(spec *corev1.PodSpec) error {
	if volumes := len(spec.Volumes); volumes > maxVolumes {
		return fmt.Errorf("volumes: %d are more than %d; use fewer", volumes, maxVolumes)
	}
	return CheckResources(spec)
}
