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
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// createDeviceClass creates a DeviceClass and deletes it after the spec. extended may be empty.
func createDeviceClass(ctx context.Context, name, extended string) *resourcev1.DeviceClass {
	GinkgoHelper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if extended != "" {
		class.Spec.ExtendedResourceName = &extended
	}
	Expect(f.Client.Create(ctx, class)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, class))).To(Succeed()) })
	return class
}

func exactly(class string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "devices", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
	}}
}

func newDeviceClaim(namespace, name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

func withExtended(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		list := corev1.ResourceList{name: resource.MustParse(amount)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}
}

var _ = Describe("A quota of devices", func() {
	BeforeEach(func() {
		if !f.Serves("resource.k8s.io/v1", "resourceclaims") {
			Skip("the API server serves no ResourceClaims in v1")
		}
	})

	It("counts those of ResourceClaims together with those of pods", func(ctx SpecContext) {
		createDeviceClass(ctx, "together.example.com", "example.com/together")
		const name = "requests.example.com/together"
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "devices", placementv1.QuotaSpec{Hard: hard(name, "2")})
		createReady(ctx, q)

		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "three", exactly("together.example.com", 3)))).To(forbidden("exceeded quota: devices, requested: " + name + "=3, used: " + name + "=0, limited: " + name + "=2"))
		claim := newDeviceClaim(namespace, "one", exactly("together.example.com", 1))
		Expect(f.Client.Create(ctx, claim)).To(Succeed())
		Expect(used(ctx, q)).To(HaveKeyWithValue(name, "1"))
		Expect(f.Client.Create(ctx, newPod(namespace, "two", withExtended("example.com/together", "2")))).To(forbidden("exceeded quota: devices"))
		Expect(f.Client.Create(ctx, newPod(namespace, "pod", withExtended("example.com/together", "1")))).To(Succeed())
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "more", exactly("together.example.com", 1)))).To(forbidden("exceeded quota: devices"))
		Expect(f.Client.Delete(ctx, claim)).To(Succeed())
		Eventually(used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue(name, "1"))
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "more", exactly("together.example.com", 1)))).To(Succeed())
		Eventually(used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue(name, "2"))
	})

	It("counts those of a class under both of its names", func(ctx SpecContext) {
		class := "names.example.com"
		createDeviceClass(ctx, class, "")
		byClass, implicit := class+".deviceclass.resource.k8s.io/devices", "requests.deviceclass.resource.kubernetes.io/"+class
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "devices", placementv1.QuotaSpec{Hard: hard(byClass, "16", implicit, "16", "count/resourceclaims.resource.k8s.io", "2")})
		createReady(ctx, q)

		all := resourcev1.DeviceRequest{Name: "all", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeAll}}
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "all", all))).To(forbidden("requested: " + byClass + "=32," + implicit + "=32"))
		either := resourcev1.DeviceRequest{Name: "either", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "many", DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 5},
			{Name: "few", DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
		}}
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "either", either, exactly(class, 1)))).To(Succeed())
		Expect(used(ctx, q)).To(Equal(map[string]string{byClass: "6", implicit: "6", "count/resourceclaims.resource.k8s.io": "1"}))
		Eventually(func(ctx context.Context) ([]placementv1.Reservation, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
			return q.Status.Reservations, err
		}).WithContext(ctx).Should(BeEmpty())
		Expect(used(ctx, q)).To(Equal(map[string]string{byClass: "6", implicit: "6", "count/resourceclaims.resource.k8s.io": "1"}))
	})

	It("follows DeviceClasses that come, change, and go", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		const name = "requests.example.com/late"
		q := newQuota(namespace, "devices", placementv1.QuotaSpec{Hard: hard(name, "4")})
		createReady(ctx, q)
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "three", exactly("late.example.com", 3)))).To(Succeed())
		Expect(used(ctx, q)).To(HaveKeyWithValue(name, "0"))

		class := createDeviceClass(ctx, "late.example.com", "example.com/late")
		Eventually(used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue(name, "3"))
		awaitReady(ctx, q)
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "two", exactly("late.example.com", 2)))).To(forbidden("exceeded quota: devices"))

		By("naming two classes with the resource, of which one goes")
		second := createDeviceClass(ctx, "later.example.com", "example.com/late")
		Expect(f.Client.Delete(ctx, second)).To(Succeed())
		Consistently(used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue(name, "3"))
		awaitReady(ctx, q)
		Expect(f.Client.Create(ctx, newDeviceClaim(namespace, "two", exactly("late.example.com", 2)))).To(forbidden("exceeded quota: devices"))

		before := class.DeepCopy()
		class.Spec.ExtendedResourceName = nil
		Expect(f.Client.Patch(ctx, class, client.MergeFrom(before))).To(Succeed())
		Eventually(used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue(name, "0"))
	})

	It("counts a claim that is made for the extended resource of a pod once", func(ctx SpecContext) {
		createDeviceClass(ctx, "once.example.com", "example.com/once")
		const name = "requests.example.com/once"
		namespace := newNamespace(ctx, nil)
		q := newQuota(namespace, "devices", placementv1.QuotaSpec{Hard: hard(name, "3")})
		createReady(ctx, q)
		pod := newPod(namespace, "pod", withExtended("example.com/once", "2"))
		Expect(f.Client.Create(ctx, pod)).To(Succeed())

		// As kube-scheduler does it.
		made := func(claim string, uid types.UID) *resourcev1.ResourceClaim {
			c := newDeviceClaim(namespace, claim, exactly("once.example.com", 2))
			c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: uid, Controller: new(true)}}
			return c
		}
		claim := made("made", pod.UID)
		Expect(f.Client.Create(ctx, claim)).To(Succeed())
		Expect(used(ctx, q)).To(HaveKeyWithValue(name, "2"))
		Consistently(used).WithContext(ctx).WithArguments(q).Should(HaveKeyWithValue(name, "2"))

		By("counting others that only look like it")
		Expect(f.Client.Create(ctx, made("stranger", "other"))).To(forbidden(fmt.Sprintf("requested: %s=2, used: %s=2", name, name)))
		Expect(f.Client.Create(ctx, made("second", pod.UID))).To(forbidden("exceeded quota: devices"))
		before := claim.DeepCopy()
		claim.Annotations = nil
		Expect(f.Client.Patch(ctx, claim, client.MergeFrom(before))).To(forbidden("exceeded quota: devices"))
		claim.OwnerReferences, claim.Annotations = nil, before.Annotations
		Expect(f.Client.Patch(ctx, claim, client.MergeFrom(before))).To(forbidden("exceeded quota: devices"))
	})
})
