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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

func TestParts(t *testing.T) {
	e := NewEvaluators(clock.RealClock{}, Devices{})
	for _, tc := range []struct {
		spec, finding string
		nothing       bool
	}{
		{`{resource: pods, matchContains: [requests.cpu, nvidia.com/, hugepages-, GPU, count/pods, "."]}`, "", false},
		{`{resource: persistentvolumeclaims, matchContains: [.storageclass.storage.k8s.io/requests.storage, gold.storage, gold, requests.storage, s.storageclass.storage.k8s.io/pers, io/]}`, "", false},
		{`{resource: services, matchContains: [loadbalancers, services]}`, "", false},
		{`{resource: configmaps, matchContains: [configmaps]}`, "", false},
		{`{apiGroup: resource.k8s.io, resource: resourceclaims, matchContains: [count/, .deviceclass.resource.k8s.io/devices, requests.deviceclass.resource.kubernetes.io/gpus, nvidia.com/]}`, "", false},
		{`{apiGroup: resource.k8s.io, resource: resourceclaims, matchContains: ["*.deviceclass.resource.k8s.io/devices"]}`, "not patterns", true},
		{`{resource: pods, matchContains: [count/resourceclaims]}`, "(did you mean spec.resource resourceclaims.resource.k8s.io?)", false},
		{`{apiGroup: apps, resource: deployments, matchContains: [count/, deployments.apps]}`, "", false},
		{`{resource: persistentvolumeclaims, matchContains: ["*.storageclass.storage.k8s.io/requests.storage"]}`, `not patterns, and no resource name contains this (did you mean ".storageclass.storage.k8s.io/requests.storage"?)`, true},
		{`{resource: persistentvolumeclaims, matchContains: [fast.storageclass.k8s.io/requests.storage]}`, "no resource name that persistentvolumeclaims are charged for can contain it", true},
		{`{resource: persistentvolumeclaims, matchContains: [Fast]}`, "can contain it", true},
		{`{resource: persistentvolumeclaims, matchContains: [Fast], matchScopes: [{scopeName: VolumeAttributesClass, operator: Exists}]}`, "can contain it", false},
		{`{resource: pods, matchContains: ["requests cpu"]}`, "can contain it", true},
		{`{resource: pods, matchContains: [cpu, "requests.?"]}`, `spec.matchContains[1]: nothing is limited by "requests.?"`, false},
		{`{resource: pods, matchContains: [request.cpu]}`, `is part of no common resource name that pods are charged for (did you mean "requests.cpu"?)`, false},
		{`{resource: pods, matchContains: [requests.memroy]}`, `(did you mean "requests.memory"?)`, false},
		{`{resource: persistentvolumeclaims, matchContains: [request.storage]}`, `(did you mean "requests.storage"?)`, false},
		{`{resource: pods, matchContains: [gpu, gpus, hugepages-1Gi, requests.nvidia.com]}`, "", false},
		{`{resource: pods, matchContains: [Requests.cpu]}`, `is part of no common resource name that pods are charged for (did you mean "requests.cpu"?)`, false},
		{`{resource: pods, matchContains: [requests.storage]}`, "(did you mean spec.resource persistentvolumeclaims?)", false},
		{`{resource: pods, matchContains: [a/b/c]}`, "can contain it", true},
		{`{apiGroup: apps, resource: deployments, matchContains: [requests.cpu]}`, "the only resource names that deployments.apps are charged for are count/deployments.apps, and none of them contains it (did you mean spec.resource pods?)", true},
		{`{resource: services, matchContains: [services.loadBalancers]}`, `(did you mean "services.loadbalancers"?)`, true},
		{`{resource: services, matchContains: [ingresses]}`, "the only resource names that services are charged for are count/services, services, services.loadbalancers, services.nodeports, and none", true},
	} {
		t.Run(tc.spec, func(t *testing.T) {
			got := e.CheckMatchContains(parsed[placementv1.LimitedResourceSpec](t, tc.spec))
			only(t, got.Findings, tc.finding)
			if (got.LimitsNothing != "") != tc.nothing {
				t.Errorf("nothing: %q, want it: %t", got.LimitsNothing, tc.nothing)
			}
		})
	}
}

func TestCharged(t *testing.T) {
	e := NewEvaluators(clock.RealClock{}, Devices{})
	got := map[string][]string{}
	for _, text := range []string{"services", "persistentvolumeclaims", "secrets", "jobs.batch"} {
		got[text] = e.chargedNames(schema.ParseGroupResource(text))
	}
	want := map[string][]string{
		"services": {"count/services", "services", "services.loadbalancers", "services.nodeports"},
		"persistentvolumeclaims": {exampleClass + ".storageclass.storage.k8s.io/persistentvolumeclaims", exampleClass + ".storageclass.storage.k8s.io/requests.storage",
			"count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"},
		"secrets":    {"count/secrets", "secrets"},
		"jobs.batch": {"count/jobs.batch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzPartOfName checks that no part of a name that an object takes is reported as impossible.
func FuzzPartOfName(f *testing.F) {
	f.Add("gold", "example.com/gpu", uint8(2), uint8(9))
	e := NewEvaluators(clock.RealClock{}, Devices{})
	f.Fuzz(func(t *testing.T, class, extended string, from, length uint8) {
		if !partOfSubdomain.MatchString(class) {
			t.Skip()
		}
		one := corev1.ResourceList{corev1.ResourceName(extended): resource.MustParse("1"), corev1.ResourceStorage: resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("1")}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: one}}}}}
		claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: one}}}
		for resource, usage := range map[string]func() (corev1.ResourceList, error){
			"pods":                   func() (corev1.ResourceList, error) { return e.evaluatorFor(pods).Usage(pod) },
			"persistentvolumeclaims": func() (corev1.ResourceList, error) { return e.evaluatorFor(claims).Usage(claim) },
		} {
			taken, err := usage()
			if err != nil {
				t.Fatal(err)
			}
			for name := range taken {
				if strings.HasPrefix(string(name), "hugepages-") && !partOfResource.MatchString(string(name)) {
					continue
				}
				start := int(from) % len(name)
				part := string(name[start:min(len(name), start+1+int(length))])
				if parts := e.CheckMatchContains(&placementv1.LimitedResourceSpec{Resource: resource, MatchContains: []string{part}}); parts.LimitsNothing != "" {
					t.Errorf("%s: %s", name, parts.LimitsNothing)
				}
			}
		}
	})
}
