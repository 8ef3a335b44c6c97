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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/quota/quotatest"
)

var _ = Describe("A Deployment in a namespace with a ScopedQuota", func() {
	It("gets the pods that the quota has room for, and the rest when it has more", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		quota := &twin{name: "two", hard: quotatest.Amounts("pods", "2")}
		quota.createOurs(ctx, namespace)

		labels := map[string]string{"app": "web"}
		Expect(f.Client.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
				},
			},
		})).To(Succeed())

		By("denying the third pod and saying so")
		Eventually(func(ctx context.Context) ([]corev1.Event, error) {
			events := &corev1.EventList{}
			err := f.Client.List(ctx, events, client.InNamespace(namespace))
			return events.Items, err
		}).WithContext(ctx).Should(ContainElement(SatisfyAll(
			HaveField("Reason", "FailedCreate"),
			HaveField("InvolvedObject.Kind", "ReplicaSet"),
			HaveField("Message", ContainSubstring("exceeded quota: two, requested: pods=1, used: pods=2, limited: pods=2")),
		)))
		pods := func(ctx context.Context) (int, error) {
			list := &corev1.PodList{}
			err := f.Client.List(ctx, list, client.InNamespace(namespace))
			return len(list.Items), err
		}
		Consistently(pods).WithContext(ctx).Should(Equal(2))
		Eventually(quota.taken).WithContext(ctx).WithArguments(namespace).Should(Equal("{pods=2}"))

		By("admitting it when there is room")
		quota.hard = quotatest.Amounts("pods", "3")
		Expect(quota.apply(ctx, quota.ours(namespace))).To(Succeed())
		Eventually(pods).WithContext(ctx).Should(Equal(3))
		Eventually(quota.taken).WithContext(ctx).WithArguments(namespace).Should(Equal("{pods=3}"))
	})
})

// taken is what the ScopedQuota says is used.
func (t *twin) taken(ctx context.Context, namespace string) (string, error) {
	q := t.ours(namespace)
	err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
	return show(q.Status.Used), err
}
