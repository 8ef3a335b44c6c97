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

package framework

import (
	"context"
	"fmt"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// Hard is a list of resources; it panics on what is no quantity.
func Hard(pairs ...string) map[corev1.ResourceName]resource.Quantity {
	return quotatest.Amounts(pairs...)
}

// NewScopedQuota returns a quota.
func NewScopedQuota(namespace, name string, spec placementv1.QuotaSpec) *placementv1.ScopedQuota {
	return &placementv1.ScopedQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       placementv1.ScopedQuotaSpec{QuotaSpec: spec},
	}
}

// NewPod returns a pod that no node runs, with a generated name if name is empty; change may be nil.
func NewPod(namespace, name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/c:1"}}},
	}
	if name == "" {
		pod.GenerateName = "pod-"
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// CreateReadyQuota creates a quota or a limit, waits until it is Ready, and deletes it after the spec.
func (f *Framework) CreateReadyQuota(ctx context.Context, o client.Object) {
	ginkgo.GinkgoHelper()
	gomega.Expect(f.Client.Create(ctx, o)).To(gomega.Succeed())
	ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) {
		gomega.Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(gomega.Succeed())
	})
	f.AwaitReadyQuota(ctx, o)
}

// AwaitReadyQuota waits until the newest spec of a quota or a limit is Ready and the API server calls its webhooks. It
// reads the object into o.
func (f *Framework) AwaitReadyQuota(ctx context.Context, o client.Object) {
	ginkgo.GinkgoHelper()
	AwaitObject(ctx, f, o, func(o client.Object) metav1.Condition {
		ready := meta.FindStatusCondition(QuotaConditions(o), placementv1.ConditionReady)
		if ready == nil || ready.ObservedGeneration != o.GetGeneration() {
			return metav1.Condition{}
		}
		return *ready
	}, gomega.HaveField("Status", metav1.ConditionTrue))
	gomega.Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)).To(gomega.Succeed())
	f.awaitValidatingWebhooks(ctx)
}

// QuotaConditions returns the conditions of a quota or a limit.
func QuotaConditions(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case placementv1.Quota:
		return o.QuotaStatus().Conditions
	case *placementv1.LimitedResource:
		return o.Status.Conditions
	}
	return nil
}

// Used reads a quota and returns what its status says.
func (f *Framework) Used(ctx context.Context, q placementv1.Quota) (map[string]string, error) {
	o, _ := q.(client.Object)
	if err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, amount := range q.QuotaStatus().Used {
		out[string(name)] = amount.String()
	}
	return out, nil
}

// BeForbidden is a matcher for a denial with a message.
func BeForbidden(message string) gomega.OmegaMatcher {
	return gomega.SatisfyAll(
		gomega.WithTransform(apierrors.IsForbidden, gomega.BeTrue()),
		gomega.WithTransform(func(err error) string { return fmt.Sprint(err) }, gomega.ContainSubstring(message)),
	)
}
