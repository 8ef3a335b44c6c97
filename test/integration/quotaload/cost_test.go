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

package quotaload_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("The API server", func() {
	It("asks about nothing that changes no usage", func(ctx SpecContext) {
		replicas := startFleet(ctx, 1)
		namespace, without := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		q := framework.NewScopedQuota(namespace, "q", placementv1.QuotaSpec{Hard: framework.Hard("pods", "100", "requests.cpu", "100", "count/configmaps", "100")})
		replicas.createQuota(ctx, q, namespace)
		pod := framework.NewPod(namespace, "p", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = framework.Hard("cpu", "100m")
		})
		asked := func(what func() error) int {
			GinkgoHelper()
			before := replicas.asked()
			Expect(what()).To(Succeed())
			return replicas.asked() - before
		}
		change := func(o client.Object, change func()) func() error {
			return func() error {
				if err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					return err
				}
				change()
				return f.Client.Update(ctx, o)
			}
		}

		By("asking about what changes usage")
		Expect(asked(func() error { return f.Client.Create(ctx, pod) })).To(Equal(1))
		Expect(asked(func() error {
			pod.Spec.Containers[0].Resources.Requests = framework.Hard("cpu", "200m")
			return f.Client.SubResource("resize").Update(ctx, pod)
		})).To(Equal(1))
		Expect(asked(change(pod, func() { pod.Spec.ActiveDeadlineSeconds = new(int64(3600)) }))).To(Equal(1))
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}
		Expect(asked(func() error { return f.Client.Create(ctx, config) })).To(Equal(1))

		By("not asking about the rest")
		Expect(asked(change(pod, func() { metav1.SetMetaDataLabel(&pod.ObjectMeta, "a", "b") }))).To(Equal(0))
		Expect(asked(change(pod, func() { pod.Spec.Containers[0].Image = "registry.example/c:2" }))).To(Equal(0))
		Expect(asked(change(pod, func() { pod.Spec.ActiveDeadlineSeconds = new(int64(1800)) }))).To(Equal(0))
		Expect(asked(func() error {
			return f.Client.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`)))
		})).To(Equal(0))
		Expect(asked(func() error {
			if err := f.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			pod.Status.Phase = corev1.PodRunning
			return f.Client.Status().Update(ctx, pod)
		})).To(Equal(0))
		Expect(asked(func() error {
			return f.Client.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}})
		})).To(Equal(0))
		Expect(asked(func() error { return f.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)) })).To(Equal(0))
		Expect(asked(change(config, func() { config.Data = map[string]string{"a": "b"} }))).To(Equal(0))
		Expect(asked(func() error { return f.Client.Delete(ctx, config) })).To(Equal(0))
		Expect(asked(func() error {
			return f.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}})
		})).To(Equal(0), "of a type that no quota counts")
		connections := replicas.proxy.Connections()
		Expect(asked(func() error { return f.Client.Create(ctx, framework.NewPod(without, "p", nil)) })).To(Equal(0), "in a namespace without quota")
		clients, _ := newWorkers(workers)
		Expect(asked(func() error { createPods(ctx, clients, without, 50); return nil })).To(Equal(0))
		Expect(replicas.proxy.Connections()).To(Equal(connections))
		Eventually(func(ctx context.Context) (map[string]string, error) { return f.Used(ctx, q) }).WithContext(ctx).Should(
			Equal(map[string]string{"pods": "0", "requests.cpu": "0", "count/configmaps": "0"}))
	})
})
