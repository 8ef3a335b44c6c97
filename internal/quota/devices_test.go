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

package quota_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	testingclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

var deviceClaims = resourcev1.Resource("resourceclaims")

// deviceClasses returns the classes gpu, which has the extended resource nvidia.com/gpu, and other, which has none.
func deviceClasses() *extendedresourcecache.ExtendedResourceCache {
	classes := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	classes.OnAdd(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("nvidia.com/gpu")}}, true)
	classes.OnAdd(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, true)
	return classes
}

// owners are the pods that may own ResourceClaims. Each takes one GPU.
func owners() map[string]*corev1.Pod {
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	of := func(name string, assigned *corev1.PodExtendedResourceClaimStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "pod"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: gpu, Limits: gpu}}}},
			Status:     corev1.PodStatus{ExtendedResourceClaimStatus: assigned},
		}
	}
	return map[string]*corev1.Pod{"owner": of("owner", nil), "assigned": of("assigned", &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "another"})}
}

// devices are Berth's, and upstreamDevices is Kubernetes' evaluator with the same pods and classes.
func devices() quota.Devices {
	return quota.Devices{
		Classes: deviceClasses(),
		Pod: func(_, name string) (*corev1.Pod, error) {
			if pod, ok := owners()[name]; ok {
				return pod, nil
			}
			return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
		},
		Claims: func(string, types.UID) ([]*resourcev1.ResourceClaim, error) { return nil, nil },
	}
}

func upstreamDevices() upstream.Evaluator {
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range owners() {
		// The indexer of a test does not fail.
		_ = pods.Add(pod)
	}
	return core.NewResourceClaimEvaluator(nil, deviceClasses(), corev1listers.NewPodLister(pods), func(string, types.UID) ([]*resourcev1.ResourceClaim, error) { return nil, nil })
}

func TestTypesOfDevices(t *testing.T) {
	e := quota.NewEvaluators(newMeter().clock, devices())
	for name, want := range map[corev1.ResourceName][]schema.GroupResource{
		"requests.nvidia.com/gpu":                            {pods, deviceClaims},
		"requests.amd.com/gpu":                               {pods},
		"requests.cpu":                                       {pods},
		"gpu.deviceclass.resource.k8s.io/devices":            {deviceClaims},
		"absent.deviceclass.resource.k8s.io/devices":         {deviceClaims},
		"requests.deviceclass.resource.kubernetes.io/gpu":    {pods, deviceClaims},
		"requests.deviceclass.resource.kubernetes.io/absent": {pods},
		"count/resourceclaims.resource.k8s.io":               {deviceClaims},
		"count/resourceclaimtemplates.resource.k8s.io":       {{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}},
	} {
		types, untracked := e.Types(&placementv1.QuotaSpec{Hard: corev1.ResourceList{name: {}}})
		if len(types) != len(want) || len(untracked) > 0 {
			t.Errorf("%s: %v, untracked %v; want %v", name, types, untracked, want)
		}
		for _, of := range want {
			if diff := cmp.Diff([]corev1.ResourceName{name}, types[of]); diff != "" {
				t.Errorf("%s: %s: -want +got:\n%s", name, of, diff)
			}
		}
	}
	unknown := e.UnknownDeviceClasses(&placementv1.QuotaSpec{Hard: quotatest.Amounts("gpu.deviceclass.resource.k8s.io/devices", "1",
		"requests.deviceclass.resource.kubernetes.io/other", "1", "b.deviceclass.resource.k8s.io/devices", "1",
		"requests.deviceclass.resource.kubernetes.io/a", "1", "requests.deviceclass.resource.kubernetes.io/b", "1", "requests.amd.com/gpu", "1")})
	if diff := cmp.Diff([]string{"a", "b"}, unknown); diff != "" {
		t.Errorf("unknown classes, -want +got:\n%s", diff)
	}
}

// deviceClaim returns a claim of GPUs. owner is the pod for which the scheduler made it; it may be empty.
func deviceClaim(name string, count int64, owner string) *unstructured.Unstructured {
	return object(name, name, "1", func(o map[string]any) {
		o["spec"] = map[string]any{"devices": map[string]any{"requests": []any{map[string]any{
			"name": "r", "exactly": map[string]any{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count},
		}}}}
		if owner != "" {
			metadata := o["metadata"].(map[string]any)
			metadata["annotations"] = map[string]any{resourcev1.ExtendedResourceClaimAnnotation: "true"}
			metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": true}}
		}
	})
}

func withGPU(assigned string) func(map[string]any) {
	return func(o map[string]any) {
		o["spec"] = map[string]any{"containers": []any{map[string]any{
			"name": "c", "resources": map[string]any{"requests": map[string]any{"nvidia.com/gpu": "1"}},
		}}}
		if assigned != "" {
			o["status"] = map[string]any{"extendedResourceClaimStatus": map[string]any{"resourceClaimName": assigned}}
		}
	}
}

// TestRecountOfDevices checks that pods and ResourceClaims together make up the amount of an extended resource, and that
// nothing is counted for both.
func TestRecountOfDevices(t *testing.T) {
	const name = "requests.nvidia.com/gpu"
	for title, test := range map[string]struct {
		pods, claims []*unstructured.Unstructured
		want         string
	}{
		"claims":                            {claims: []*unstructured.Unstructured{deviceClaim("a", 1, ""), deviceClaim("b", 3, "")}, want: "4"},
		"pods and claims":                   {pods: []*unstructured.Unstructured{object("p", "p", "1", withGPU(""))}, claims: []*unstructured.Unstructured{deviceClaim("a", 2, "")}, want: "3"},
		"the claim of a pod":                {pods: []*unstructured.Unstructured{object("p", "p", "1", withGPU(""))}, claims: []*unstructured.Unstructured{deviceClaim("a", 1, "p")}, want: "1"},
		"the claim that a pod names":        {pods: []*unstructured.Unstructured{object("p", "p", "1", withGPU("b"))}, claims: []*unstructured.Unstructured{deviceClaim("a", 1, "p"), deviceClaim("b", 1, "p")}, want: "2"},
		"a larger claim of a pod":           {pods: []*unstructured.Unstructured{object("p", "p", "1", withGPU(""))}, claims: []*unstructured.Unstructured{deviceClaim("a", 3, "p")}, want: "3"},
		"the first of two claims of a pod":  {pods: []*unstructured.Unstructured{object("p", "p", "1", withGPU(""))}, claims: []*unstructured.Unstructured{deviceClaim("a", 1, "p"), deviceClaim("b", 1, "p")}, want: "2"},
		"the claim of a pod that is gone":   {claims: []*unstructured.Unstructured{deviceClaim("a", 1, "p")}, want: "1"},
		"the claim of a pod that finished":  {pods: []*unstructured.Unstructured{object("p", "p", "1", withGPU(""), withPhase(corev1.PodSucceeded))}, claims: []*unstructured.Unstructured{deviceClaim("a", 1, "p")}, want: "1"},
		"the claim of a pod of another UID": {pods: []*unstructured.Unstructured{object("p", "q", "1", withGPU(""))}, claims: []*unstructured.Unstructured{deviceClaim("a", 1, "p")}, want: "2"},
	} {
		t.Run(title, func(t *testing.T) {
			c := newDeviceMeter()
			c.replace(t, pods, test.pods...)
			c.replace(t, deviceClaims, test.claims...)
			got := c.recount(t, newQuota(quotatest.Amounts(name, "9"), nil), everywhere)
			if diff := cmp.Diff(quotatest.Amounts(name, test.want), got.Used, sameAmounts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func newDeviceMeter() counting {
	clock := testingclock.NewFakeClock(now)
	return counting{Meter: quota.NewMeter(quota.NewEvaluators(clock, quota.Devices{Classes: deviceClasses()}), clock), clock: clock}
}

// TestRecountOfOneTypeOfTwo checks that the amount of a name stays while one of the types that it counts is not known.
func TestRecountOfOneTypeOfTwo(t *testing.T) {
	const name = "requests.nvidia.com/gpu"
	charge := placementv1.Reservation{UID: "x", Resource: "pods", Namespace: "ns", Name: "new", ObjectUID: "new", Delta: quotatest.Amounts(name, "1"), Expires: metav1.NewTime(now.Add(time.Minute))}
	c := newDeviceMeter()
	c.replace(t, pods, object("p", "p", "1", withGPU("")))
	q := newQuota(quotatest.Amounts(name, "9", "pods", "9"), quotatest.Amounts(name, "5", "pods", "1"), charge)
	got := c.recount(t, q, everywhere)
	if diff := cmp.Diff(quotatest.Amounts(name, "5", "pods", "1"), got.Used, sameAmounts); diff != "" {
		t.Errorf("without the claims, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]schema.GroupResource{deviceClaims}, got.Missing); diff != "" || len(got.Reservations) != 1 {
		t.Errorf("reservations %v; missing, -want +got:\n%s", got.Reservations, diff)
	}
	c.replace(t, deviceClaims, deviceClaim("a", 2, ""))
	if diff := cmp.Diff(quotatest.Amounts(name, "4", "pods", "1"), c.recount(t, q, everywhere).Used, sameAmounts); diff != "" {
		t.Errorf("with the claims, -want +got:\n%s", diff)
	}
}

// TestDeviceChangesMatter checks which changes cause a recount.
func TestDeviceChangesMatter(t *testing.T) {
	c := newDeviceMeter()
	c.replace(t, pods)
	c.replace(t, deviceClaims)
	for _, step := range []struct {
		what     string
		resource schema.GroupResource
		object   *unstructured.Unstructured
		matters  bool
	}{
		{"a claim", deviceClaims, deviceClaim("a", 1, ""), true},
		{"the same claim", deviceClaims, deviceClaim("a", 1, ""), false},
		{"with another owner", deviceClaims, deviceClaim("a", 1, "p"), true},
		{"a pod", pods, object("p", "p", "1", withGPU("")), true},
		{"the same pod", pods, object("p", "p", "2", withGPU("")), false},
		{"with a claim", pods, object("p", "p", "3", withGPU("b")), true},
	} {
		if matters, err := c.Put(step.resource, step.object); err != nil || matters != step.matters {
			t.Errorf("%s matters: %v, want %v; %v", step.what, matters, step.matters, err)
		}
	}
}

// TestDeviceClassesComeLater checks that a quota applies to ResourceClaims as soon as there is a DeviceClass.
func TestDeviceClassesComeLater(t *testing.T) {
	const name = "requests.example.com/late"
	classes := deviceClasses()
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{Classes: classes})
	q := newQuota(quotatest.Amounts(name, "1"), quotatest.Amounts(name, "0"))
	rules, err := compiler.Quota(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	denied := func() int {
		t.Helper()
		request, err := e.NewRequest("r", &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "ns", Name: "c", Resource: metav1.GroupVersionResource{Group: deviceClaims.Group, Version: "v1", Resource: deviceClaims.Resource},
			Object: runtime.RawExtension{Raw: []byte(`{"metadata": {"name": "c", "uid": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "late", "allocationMode": "ExactCount", "count": 3}}]}}}`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := request.Admit(t.Context(), []*quota.Account{quota.NewAccount(q, rules)}, nil, now.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return len(verdict.Denied)
	}
	if n := denied(); n != 0 {
		t.Errorf("%d denials without the class", n)
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/late")}}
	classes.OnAdd(class, false)
	if n := denied(); n != 1 {
		t.Errorf("%d denials with the class, want 1", n)
	}
	classes.OnDelete(class)
	if n := denied(); n != 0 {
		t.Errorf("%d denials after the class went", n)
	}
}

// TestDevicesOfV1Only checks that ResourceClaims in other versions, which have other fields, are not measured.
func TestDevicesOfV1Only(t *testing.T) {
	for version, want := range map[string]bool{"v1": true, "v1beta2": false, "v1beta1": false} {
		if got := quota.CanRead(deviceClaims.WithVersion(version)); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
	if !quota.CanRead(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}) {
		t.Error("other types are measured in every version")
	}
}
