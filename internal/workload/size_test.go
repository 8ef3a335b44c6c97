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

package workload_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/workload"
)

func TestPodsAreBounded(t *testing.T) {
	sidecars := func(n, names int) corev1.PodSpec {
		var out corev1.PodSpec
		for i := range n {
			name := corev1.ResourceName(fmt.Sprintf("example.com/r%d", i%names))
			out.InitContainers = append(out.InitContainers, corev1.Container{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}},
			})
		}
		return out
	}
	tests := map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"Empty":         {},
		"ManyAndNames":  {spec: sidecars(512, 512)},
		"ManyOfOneName": {spec: sidecars(100000, 1)},
		"TooMany":       {spec: sidecars(513, 513), want: "spec.initContainers: 513 containers times 513 names of resources are more than 262144"},
		"Volumes":       {spec: corev1.PodSpec{Volumes: make([]corev1.Volume, 2048)}},
		"TooManyVolumes": {
			spec: corev1.PodSpec{Volumes: make([]corev1.Volume, 2049)}, want: "spec.volumes: 2049 are more than 2048",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := (*workload.Templates)(nil).Of(map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec}); err != nil {
				got = err.Error()
			}
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}
