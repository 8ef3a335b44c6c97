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
	"fmt"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// step is one request, made alike in both namespaces.
type step struct {
	// kind is the word for what it does, text is all of it.
	kind, text string
	do         func(ctx context.Context, namespace string) error
	// charged says that quotas are asked, and charged before the answer.
	charged bool
	// taken says that an object of the name exists.
	taken bool
	// admitted remembers what it did; nil if that need not be.
	admitted func()
}

// item is an object that exists in both namespaces.
type item struct {
	family family
	object client.Object
	bound  bool
}

func (i *item) in(namespace string) client.Object {
	o, _ := i.object.DeepCopyObject().(client.Object)
	o.SetNamespace(namespace)
	return o
}

// next generates a step from what exists.
func (r *round) next() step {
	// What can't be done yet is drawn again.
	for {
		var s step
		switch n := r.rng.IntN(100); {
		case n < 34:
			s = r.create()
		case n < 40:
			s = r.dryRun()
		case n < 41:
			s = r.createAgain()
		case n < 47:
			s = r.changeHard()
		case n < 55:
			s = r.delete()
		case n < 60:
			s = r.finish()
		default:
			s = r.onFamilies()
		}
		if s.do != nil {
			return s
		}
	}
}

// onFamilies generates a change of an object of a family that the quotas count.
func (r *round) onFamilies() step {
	switch pick(r.rng, r.families) {
	case podFamily:
		return r.onPod()
	case serviceFamily:
		return r.changeService()
	case claimFamily:
		return r.onClaim()
	case deviceFamily:
		return r.markDeviceClaim()
	default:
		return r.create()
	}
}

func (r *round) onPod() step {
	switch n := r.rng.IntN(10); {
	case n < 4:
		return r.resize()
	case n < 6:
		return r.actuate()
	default:
		return r.setDeadline()
	}
}

func (r *round) onClaim() step {
	i := r.one(claimFamily)
	if i == nil {
		return step{}
	}
	if !i.bound && chance(r.rng, 60) {
		return r.bind(i)
	}
	switch n := r.rng.IntN(10); {
	case n < 5:
		return r.grow(i)
	case n < 7:
		return r.modify(i)
	default:
		return r.reportClaim(i)
	}
}

// one returns an object of a family, if there is any.
func (r *round) one(fam family) *item {
	var all []*item
	for _, i := range r.items {
		if i.family == fam {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(r.rng, all)
}

func (r *round) newItem() (*item, string) {
	fam := pick(r.rng, r.families)
	if chance(r.rng, 10) {
		fam = pick(r.rng, []family{podFamily, serviceFamily, claimFamily, deviceFamily, objectFamily})
	}
	r.made++
	o, word := newObject(r.rng, fam, fmt.Sprintf("%s-%d", fam, r.made))
	return &item{family: fam, object: o}, word
}

func (r *round) create() step {
	i, word := r.newItem()
	admitted := func() { r.items = append(r.items, i) }
	if chance(r.rng, 25) {
		return step{kind: "apply " + word, text: describe(i.object), charged: true, admitted: admitted, do: func(ctx context.Context, namespace string) error {
			return f.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(untyped(i.in(namespace))), client.FieldOwner("test"), client.ForceOwnership)
		}}
	}
	return step{kind: "create " + word, text: describe(i.object), charged: true, admitted: admitted, do: func(ctx context.Context, namespace string) error {
		return f.Client.Create(ctx, i.in(namespace))
	}}
}

func (r *round) dryRun() step {
	i, word := r.newItem()
	return step{kind: "dry run of a " + word, text: describe(i.object), charged: true, do: func(ctx context.Context, namespace string) error {
		return f.Client.Create(ctx, i.in(namespace), client.DryRunAll)
	}}
}

// createAgain creates an object whose name is taken, which is refused after quotas were asked.
func (r *round) createAgain() step {
	if len(r.items) == 0 {
		return step{}
	}
	i := pick(r.rng, r.items)
	return step{kind: "create again", text: describe(i.object), taken: true, do: func(ctx context.Context, namespace string) error {
		return f.Client.Create(ctx, i.in(namespace))
	}}
}

func (r *round) delete() step {
	if len(r.items) == 0 {
		return step{}
	}
	i := pick(r.rng, r.items)
	return step{kind: "delete", text: i.object.GetName(), do: func(ctx context.Context, namespace string) error {
		return f.Client.Delete(ctx, i.in(namespace), client.GracePeriodSeconds(0))
	}, admitted: func() { r.items = slices.DeleteFunc(r.items, func(other *item) bool { return other == i }) }}
}

// patch generates a step that patches an object, or a subresource of it.
func (r *round) patch(kind string, i *item, subresource string, how types.PatchType, body any) step {
	text := encode(body)
	return step{kind: kind, text: fmt.Sprintf("%s %s", i.object.GetName(), text), charged: subresource != "status", do: func(ctx context.Context, namespace string) error {
		if subresource != "" {
			return f.Client.SubResource(subresource).Patch(ctx, i.in(namespace), client.RawPatch(how, text))
		}
		return f.Client.Patch(ctx, i.in(namespace), client.RawPatch(how, text))
	}}
}

type fields = map[string]any

func (r *round) finish() step {
	i := r.one(podFamily)
	if i == nil {
		return step{}
	}
	return r.patch("finish pod", i, "status", types.MergePatchType, fields{"status": fields{
		"phase": pick(r.rng, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}),
	}})
}

func (r *round) setDeadline() step {
	i := r.one(podFamily)
	if i == nil {
		return step{}
	}
	return r.patch("set deadline", i, "", types.MergePatchType, fields{"spec": fields{"activeDeadlineSeconds": 1 + r.rng.IntN(9999)}})
}

// resize changes what one container of a pod takes, or the pod itself.
func (r *round) resize() step {
	i := r.one(podFamily)
	if i == nil {
		return step{}
	}
	pod, _ := i.object.(*corev1.Pod)
	resources := fields{
		"requests": fields{"cpu": pick(r.rng, []string{"20m", "100m", "200m", "1"}), "memory": pick(r.rng, []string{"50Mi", "200Mi", "600M"})},
		"limits":   fields{"cpu": pick(r.rng, []string{"300m", "1", "3"}), "memory": pick(r.rng, []string{"700Mi", "1Gi", "2G"})},
	}
	spec := fields{"containers": []any{fields{"name": pick(r.rng, pod.Spec.Containers).Name, "resources": resources}}}
	switch {
	case pod.Spec.Resources != nil && chance(r.rng, 50):
		spec = fields{"resources": fields{"requests": fields{"cpu": pick(r.rng, []string{"200m", "1"})}}}
	case len(pod.Spec.InitContainers) > 0 && chance(r.rng, 30):
		spec = fields{"initContainers": []any{fields{"name": pod.Spec.InitContainers[0].Name, "resources": resources}}}
	}
	return r.patch("resize", i, "resize", types.StrategicMergePatchType, fields{"spec": spec})
}

// actuate reports what a node gave to a pod's containers, or that it can't give it.
func (r *round) actuate() step {
	i := r.one(podFamily)
	if i == nil {
		return step{}
	}
	infeasible := chance(r.rng, 25)
	return step{kind: "actuate", text: fmt.Sprintf("%s infeasible: %t", i.object.GetName(), infeasible), do: func(ctx context.Context, namespace string) error {
		pod, _ := i.in(namespace).(*corev1.Pod)
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		before := pod.DeepCopy()
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
		if infeasible {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
			})
		} else {
			pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, nil
			for _, c := range pod.Spec.Containers {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: c.Name, Image: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
					AllocatedResources: c.Resources.Requests, Resources: &c.Resources,
				})
			}
		}
		return f.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
	}}
}

func (r *round) changeService() step {
	i := r.one(serviceFamily)
	if i == nil {
		return step{}
	}
	if service, _ := i.object.(*corev1.Service); service.Spec.Type == corev1.ServiceTypeExternalName || service.Spec.ClusterIP != "" {
		return step{}
	}
	return r.patch("change service", i, "", types.MergePatchType, fields{"spec": newServiceSpec(r.rng)})
}

// bind gives a claim its volume.
func (r *round) bind(i *item) step {
	return step{kind: "bind claim", text: i.object.GetName(), do: func(ctx context.Context, namespace string) error {
		claim, _ := i.in(namespace).(*corev1.PersistentVolumeClaim)
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if err := f.Client.Create(ctx, newVolume(claim)); err != nil {
			return err
		}
		Eventually(func(ctx context.Context) (corev1.PersistentVolumeClaimPhase, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
			return claim.Status.Phase, err
		}).WithContext(ctx).WithPolling(settlePolling).Should(Equal(corev1.ClaimBound), r.String)
		return nil
	}, admitted: func() { i.bound = true }}
}

// grow changes what a claim requests. Of what is not bound, or does not expand, the API server refuses it.
func (r *round) grow(i *item) step {
	return r.patch("grow claim", i, "", types.MergePatchType, fields{"spec": fields{"resources": fields{"requests": fields{
		"storage": pick(r.rng, []string{"1Gi", "3Gi", "4G", "8Gi"}),
	}}}})
}

// modify gives a claim another VolumeAttributesClass.
func (r *round) modify(i *item) step {
	return r.patch("modify claim", i, "", types.MergePatchType, fields{"spec": fields{"volumeAttributesClassName": pick(r.rng, []string{"fast", "slow"})}})
}

// reportClaim reports of a claim what its driver is doing.
func (r *round) reportClaim(i *item) step {
	status := pick(r.rng, []fields{
		{"allocatedResources": fields{"storage": pick(r.rng, []string{"1Gi", "5Gi"})}},
		{"currentVolumeAttributesClassName": pick(r.rng, []string{"fast", "slow"})},
		{"modifyVolumeStatus": fields{"targetVolumeAttributesClassName": pick(r.rng, []string{"fast", "slow"}), "status": "InProgress"}},
	})
	return r.patch("report claim", i, "status", types.MergePatchType, fields{"status": status})
}

// markDeviceClaim marks a claim as one that kube-scheduler makes for the extended resources of a pod, or takes the mark
// away. It has no such pod, so that the mark changes nothing.
func (r *round) markDeviceClaim() step {
	i := r.one(deviceFamily)
	if i == nil {
		return step{}
	}
	return r.patch("mark device claim", i, "", types.MergePatchType, fields{"metadata": fields{"annotations": fields{
		resourcev1.ExtendedResourceClaimAnnotation: pick(r.rng, []any{"true", "false", nil}),
	}}})
}

// changeHard changes an amount of both quotas of a twin.
func (r *round) changeHard() step {
	t := pick(r.rng, r.twins)
	names := sortedNames(t.hard)
	name := pick(r.rng, names)
	amount := resource.MustParse(pick(r.rng, limits[familyOf(name)][name]))
	changed := *t
	changed.hard = t.hard.DeepCopy()
	changed.hard[name] = amount
	return step{kind: "change hard", text: fmt.Sprintf("%s %s=%s", t.name, name, amount.String()), do: func(ctx context.Context, namespace string) error {
		if namespace == r.core {
			return changed.apply(ctx, changed.core(namespace))
		}
		return changed.apply(ctx, changed.ours(namespace))
	}, admitted: func() { t.hard = changed.hard }}
}

// untyped returns an object as one applies it.
func untyped(o client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	Expect(err).NotTo(HaveOccurred())
	out := &unstructured.Unstructured{Object: content}
	gvk, err := apiutil.GVKForObject(o, f.Client.Scheme())
	Expect(err).NotTo(HaveOccurred())
	out.SetGroupVersionKind(gvk)
	delete(out.Object, "status")
	return out
}

func describe(o client.Object) string {
	GinkgoHelper()
	u := untyped(o)
	return u.GetKind() + " " + u.GetName() + " " + string(encode(u.Object["spec"]))
}

func (s step) String() string { return s.kind + ": " + strconv.Quote(s.text) }
