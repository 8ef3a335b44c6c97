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
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestCapacity checks of which members the resources are known.
func TestCapacity(t *testing.T) {
	for text, want := range map[string][2]string{
		`[]`: {"0", "0"},
		`[{allocatable: {cpu: "2", memory: 4Gi}}, {allocatable: {cpu: 500m, memory: 1Gi, pods: "10"}}]`: {"2500m", "5Gi"},
		`[{allocatable: {cpu: "2", memory: 4Gi}}, {allocatable: {cpu: "1"}}]`:                           {"3", "0"},
		`[{allocatable: {cpu: "2"}}, {name: a}]`:                                                        {"0", "0"},
		`[{allocatable: {cpu: many}}]`:                                                                  {"0", "0"},
	} {
		var members []map[string]any
		if err := yaml.Unmarshal([]byte(text), &members); err != nil {
			t.Fatal(err)
		}
		all := CapacityOf(members)
		cpu, memory := all[corev1.ResourceCPU], all[corev1.ResourceMemory]
		if got := [2]string{cpu.String(), memory.String()}; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
