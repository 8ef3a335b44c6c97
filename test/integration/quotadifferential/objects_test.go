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

package quotadifferential_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// driver provides no volumes: the test makes them.
const driver = "volumes.example.com"

// createClasses makes the classes that objects name.
func createClasses(ctx context.Context) {
	GinkgoHelper()
	for name, value := range map[string]int32{"high": 1000, "low": 10} {
		Expect(f.Client.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})).To(Succeed())
	}
	for name, expands := range map[string]bool{"gold": true, "silver": false} {
		Expect(f.Client.Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver, AllowVolumeExpansion: &expands,
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		})).To(Succeed())
	}
	for _, class := range deviceClasses() {
		Expect(f.Client.Create(ctx, class)).To(Succeed())
	}
	for _, name := range []string{"fast", "slow"} {
		Expect(f.Client.Create(ctx, &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driver, Parameters: map[string]string{"iops": name},
		})).To(Succeed())
	}
}

// newNamespace returns a namespace that kube-controller-manager is done with.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := f.NewNamespace(ctx, nil)
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"}},
	} {
		Eventually(func(ctx context.Context) error {
			return f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		}).WithContext(ctx).WithPolling(settlePolling).Should(Succeed())
	}
	return namespace
}

// newObject returns an object of a family, and the word for it.
func newObject(rng *rand.Rand, fam family, name string) (client.Object, string) {
	named := metav1.ObjectMeta{Name: name}
	switch fam {
	case podFamily:
		return newPod(rng, name), "pod"
	case serviceFamily:
		return newService(rng, name), "service"
	case claimFamily:
		return newClaim(rng, name), "claim"
	case deviceFamily:
		return newDeviceClaim(rng, name), "device claim"
	case widgetFamily:
		w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(rng.IntN(9))}}}
		w.SetAPIVersion(widgets.GroupVersion().String())
		w.SetKind("Widget")
		w.SetName(name)
		return w, "object"
	}
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
	switch rng.IntN(4) {
	case 0:
		return &corev1.Secret{ObjectMeta: named}, "object"
	case 1:
		return &corev1.ReplicationController{ObjectMeta: named, Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(0)), Selector: labels, Template: &template}}, "object"
	case 2:
		return &appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		}}, "object"
	default:
		return &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"key": name}}, "object"
	}
}

const image = "registry.example/c:1"

func newPod(rng *rand.Rand, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	bestEffort := chance(rng, 15)
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Image: image}
		if !bestEffort {
			c.Resources = newRequirements(rng, !chance(rng, 12))
		}
		return c
	}
	for i := range 1 + rng.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, container("c"+strconv.Itoa(i)))
	}
	if chance(rng, 15) {
		c := container("init")
		if chance(rng, 50) {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if chance(rng, 10) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: quotatest.Amounts("cpu", "500m", "memory", "512Mi"), Limits: quotatest.Amounts("cpu", "2", "memory", "3Gi")}
	}
	pod.Spec.PriorityClassName = pick(rng, []string{"", "high", "low"})
	if chance(rng, 20) {
		pod.Spec.ActiveDeadlineSeconds = new(int64(1 + rng.IntN(9999)))
	}
	if chance(rng, 30) {
		pod.Spec.Affinity = newAffinity(rng)
	}
	return pod
}

// newRequirements returns what a container takes; all is what quotas can want to be named.
func newRequirements(rng *rand.Rand, all bool) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	set := func(list corev1.ResourceList, name corev1.ResourceName, amounts ...string) {
		if all || chance(rng, 50) {
			list[name] = resource.MustParse(pick(rng, amounts))
		}
	}
	set(r.Requests, corev1.ResourceCPU, "50m", "100m", "250m", "0.3")
	set(r.Limits, corev1.ResourceCPU, "300m", "500m", "1")
	set(r.Requests, corev1.ResourceMemory, "64Mi", "100M", "200Mi")
	set(r.Limits, corev1.ResourceMemory, "200Mi", "256Mi", "1G")
	if chance(rng, 20) {
		r.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
		r.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse(pick(rng, []string{"1Gi", "2Gi"}))
	}
	if chance(rng, 20) {
		r.Requests["example.com/gpu"] = resource.MustParse(pick(rng, []string{"1", "2"}))
		r.Limits["example.com/gpu"] = r.Requests["example.com/gpu"]
	}
	if all && chance(rng, 10) {
		r.Requests["hugepages-2Mi"] = resource.MustParse("4Mi")
		r.Limits["hugepages-2Mi"] = resource.MustParse("4Mi")
	}
	return r
}

// newAffinity returns an affinity to pods of this or of other namespaces.
func newAffinity(rng *rand.Rand) *corev1.Affinity {
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	switch rng.IntN(4) {
	case 0:
		term.Namespaces = []string{"default"}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	preferred := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	switch rng.IntN(4) {
	case 0:
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	case 1:
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}}
	case 2:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	default:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}}
	}
}

func newService(rng *rand.Rand, name string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: newServiceSpec(rng)}
	switch rng.IntN(8) {
	case 0:
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "www.example.com"}
	case 1:
		s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, nil, corev1.ClusterIPNone
	}
	return s
}

// newServiceSpec returns the part of a spec that may change.
func newServiceSpec(rng *rand.Rand) corev1.ServiceSpec {
	s := corev1.ServiceSpec{Type: pick(rng, []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer})}
	for i := range 1 + rng.IntN(3) {
		s.Ports = append(s.Ports, corev1.ServicePort{Name: "p" + strconv.Itoa(i), Port: int32(80 + i), TargetPort: intstr.FromInt32(80)})
	}
	if s.Type == corev1.ServiceTypeLoadBalancer && chance(rng, 50) {
		s.AllocateLoadBalancerNodePorts = new(chance(rng, 50))
	}
	return s
}

func newClaim(rng *rand.Rand, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: new(pick(rng, []string{"gold", "gold", "gold", "silver", ""})),
		Resources:        corev1.VolumeResourceRequirements{Requests: quotatest.Amounts("storage", pick(rng, []string{"500Mi", "1Gi", "2G", "0.5"}))},
	}}
	if chance(rng, 20) {
		c.Spec.StorageClassName = nil
	}
	if chance(rng, 50) {
		c.Spec.VolumeAttributesClassName = new(pick(rng, []string{"fast", "slow"}))
	}
	return c
}

// deviceClasses are the classes of devices. Claims of gpus take an extended resource, as pods do.
func deviceClasses() []*resourcev1.DeviceClass {
	return []*resourcev1.DeviceClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "disks"}},
	}
}

func newDeviceClaim(rng *rand.Rand, name string) *resourcev1.ResourceClaim {
	class := func() string { return pick(rng, []string{"gpus", "gpus", "disks"}) }
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := range 1 + rng.IntN(2) {
		r := resourcev1.DeviceRequest{Name: "r" + strconv.Itoa(i)}
		switch n := rng.IntN(10); {
		case n < 1:
			r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class(), AllocationMode: resourcev1.DeviceAllocationModeAll}
		case n < 7:
			r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class(), Count: int64(1 + rng.IntN(3))}
		default:
			for j := range 1 + rng.IntN(3) {
				r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: "s" + strconv.Itoa(j), DeviceClassName: class(), Count: int64(1 + rng.IntN(3))})
			}
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	return c
}

// newVolume returns the volume that is for a claim.
func newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Namespace + "-" + claim.Name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: quotatest.Amounts("storage", "2Gi"), AccessModes: claim.Spec.AccessModes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:                  &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource:    corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: string(claim.UID)}},
		VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
	}}
	if class := claim.Spec.StorageClassName; class != nil {
		v.Spec.StorageClassName = *class
	}
	return v
}

func encode(value any) []byte {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return text
}
