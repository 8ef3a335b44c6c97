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

package quota

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

func parsed[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// only checks that there is exactly one message, which contains want, or none if want is "".
func only(t *testing.T, got []string, want string) {
	t.Helper()
	if (len(got) == 0) != (want == "") || len(got) > 1 || !strings.Contains(strings.Join(got, ""), want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestImplausible(t *testing.T) {
	e := NewEvaluators(clock.RealClock{}, Devices{})
	for _, tc := range []struct{ spec, want string }{
		{`{hard: {requests.memory: 512m}}`, "spec.hard[requests.memory]: 512m is 0.512 bytes: Mi is probably meant"},
		{`{hard: {limits.memory: 2000m}}`, "2 is 2 bytes"},
		{`{hard: {memory: 0.5}}`, "500m is 0.5 bytes"},
		{`{hard: {memory: 1.5Gi}}`, ""},
		{`{hard: {memory: "512"}}`, "512 is 512 bytes, too few"},
		{`{hard: {memory: 1Mi}}`, ""},
		{`{hard: {requests.storage: 100m}}`, "0.1 bytes"},
		{`{hard: {fast.storageclass.storage.k8s.io/requests.storage: "100"}}`, "100 bytes"},
		{`{hard: {fast.storageclass.storage.k8s.io/persistentvolumeclaims: "1"}}`, ""},
		{`{hard: {fast.storageclass.storage.k8s.io/requests.storage: "0"}}`, ""},
		{`{hard: {limits.ephemeral-storage: 1m}}`, "0.001 bytes"},
		{`{hard: {requests.hugepages-2Mi: 1m}}`, "0.001 bytes"},
		{`{hard: {hugepages-64Ki: 64Ki}}`, ""},
		{`{hard: {cpu: 1m}}`, ""},
		{`{hard: {cpu: 1500m, limits.cpu: "2.5"}}`, ""},
		{`{hard: {requests.cpu: 60m, requests.memory: 240Gi}}`, "spec.hard[requests.cpu]: 60m is 0.06 CPUs, too few beside spec.hard[requests.memory], which is 240Gi: 60 is probably meant, since m is a thousandth"},
		{`{hard: {limits.cpu: 8m, limits.memory: 16Gi}}`, "too few beside spec.hard[limits.memory], which is 16Gi: 8 is probably meant"},
		{`{hard: {cpu: 60m, pods: 120}}`, "too few beside spec.hard[pods], which is 120: 60 is probably meant"},
		{`{hard: {requests.cpu: 500m, requests.memory: 64Gi, limits.memory: 1Ti, pods: 100}}`, ""},
		{`{hard: {requests.cpu: 60, requests.memory: 240Gi, pods: 120}}`, ""},
		{`{hard: {requests.cpu: 100u}}`, "spec.hard[requests.cpu]: 100u is 0.0001 CPUs"},
		{`{hard: {requests.cpu: 8Gi}}`, "8589934592 CPUs"},
		{`{hard: {requests.cpu: 512Mi}}`, "536870912 CPUs"},
		{`{hard: {requests.cpu: "100000"}}`, ""},
		{`{hard: {limits.cpu: 500M}}`, "500000000 CPUs"},
		{`{hard: {pods: 500m}}`, "spec.hard[pods]: 500m is the number 0.5, but objects take whole numbers only: it limits like the next smaller one"},
		{`{hard: {requests.nvidia.com/gpu: 500m}}`, "whole numbers"},
		{`{hard: {requests.nvidia.com/gpu: "0", pods: "0", services.loadbalancers: "0"}}`, ""},
		{`{hard: {count/configmaps: 2k}}`, ""},
		{`{hard: {limits.cpu: "0"}}`, "spec.hard[limits.cpu]: 0 admits no pod"},
		{`{hard: {memory: "0"}}`, "leave the name out"},
		{`{hard: {limits.cpu: "0"}, scopes: [NotTerminating]}`, ""},
		{`{hard: {requests.cpu: 4, limits.cpu: 2}}`, "spec.hard[requests.cpu]: 4 is never reached: no container requests more than its limit, and spec.hard[limits.cpu] is 2"},
		{`{hard: {memory: 4Gi, limits.memory: 2Gi}}`, "spec.hard[memory]"},
		{`{hard: {requests.cpu: 4, limits.cpu: 4}}`, ""},
		{`{hard: {requests.ephemeral-storage: 4Gi, limits.ephemeral-storage: 2Gi}}`, ""},
		{`{hard: {cpu: 4, requests.cpu: 2}}`, "spec.hard[cpu]: 4 is never reached: what counts under cpu counts under requests.cpu, too, and spec.hard[requests.cpu] is 2"},
		{`{hard: {cpu: 4, requests.cpu: 4}}`, ""},
		{`{hard: {services: 5, services.loadbalancers: 6}}`, "spec.hard[services.loadbalancers]: 6 is never reached"},
		{`{hard: {services: 5, services.loadbalancers: 5, services.nodeports: 9}}`, ""},
		{`{hard: {pods: 20, count/pods: 10}}`, "spec.hard[pods]: 20 is never reached"},
		{`{hard: {pods: 10, count/pods: 20}}`, ""},
		{`{hard: {secrets: 10, count/secrets: 20}}`, "spec.hard[count/secrets]: 20 is never reached"},
		{`{hard: {requests.storage: 1Gi, fast.storageclass.storage.k8s.io/requests.storage: 2Gi}}`, "counts under requests.storage, too"},
		{`{hard: {count/persistentvolumeclaims: 1, fast.storageclass.storage.k8s.io/persistentvolumeclaims: 2}}`, "counts under count/persistentvolumeclaims, too"},
		{`{hard: {gpu.deviceclass.resource.k8s.io/devices: 1, requests.deviceclass.resource.kubernetes.io/gpu: 2}}`, ""},
		{`{hard: {nvidia.com/gpu: 500m}}`, ""},
		{`{}`, ""},
	} {
		t.Run(tc.spec, func(t *testing.T) { only(t, e.ImplausibleAmounts(parsed[placementv1.QuotaSpec](t, tc.spec)), tc.want) })
	}
}

// FuzzImplausible checks that amounts in common units are only reported if the resource does not have the unit.
func FuzzImplausible(f *testing.F) {
	f.Add("requests.memory", int64(512), "Mi")
	f.Add("cpu", int64(500), "m")
	e := NewEvaluators(clock.RealClock{}, Devices{})
	f.Fuzz(func(t *testing.T, name string, value int64, unit string) {
		amount, err := resource.ParseQuantity(fmt.Sprint(value) + unit)
		if err != nil || value <= 0 {
			t.Skip()
		}
		spec := &placementv1.QuotaSpec{}
		spec.Hard = map[corev1.ResourceName]resource.Quantity{corev1.ResourceName(name): amount}
		found := e.ImplausibleAmounts(spec)
		plausible := (unit == "Mi" || unit == "Gi" || unit == "M" || unit == "G") && strings.HasSuffix(name, "memory") ||
			(unit == "m" || unit == "" && value < 1e7) && strings.HasSuffix(name, "cpu") || unit == "" && name == "pods"
		if plausible && len(found) > 0 {
			t.Errorf("%s: %s: %q", name, amount.String(), found)
		}
	})
}
