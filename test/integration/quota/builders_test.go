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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// What the suites on quotas share, by the names that it has here.
var (
	hard      = framework.Hard
	newQuota  = framework.NewScopedQuota
	newPod    = framework.NewPod
	forbidden = framework.BeForbidden
)

// scope is a scope selector with one expression.
func scope(name corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *placementv1.ScopeSelector {
	return &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{{ScopeName: name, Operator: operator, Values: values}}}
}

func createReady(ctx context.Context, o client.Object) {
	GinkgoHelper()
	f.CreateReadyQuota(ctx, o)
}

func awaitReady(ctx context.Context, o client.Object) {
	GinkgoHelper()
	f.AwaitReadyQuota(ctx, o)
}

func used(ctx context.Context, q placementv1.Quota) (map[string]string, error) { return f.Used(ctx, q) }

// createPriorityClass makes sure that a PriorityClass exists.
func createPriorityClass(ctx context.Context, name string) {
	GinkgoHelper()
	err := f.Client.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

func withPriority(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

func withCPU(amount string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
}

// newNamespace makes a namespace with the service account that pods need, which no controller makes here.
func newNamespace(ctx context.Context, labels map[string]string) string {
	GinkgoHelper()
	namespace := f.NewNamespace(ctx, labels)
	addServiceAccount(ctx, namespace)
	return namespace
}

func addServiceAccount(ctx context.Context, namespace string) {
	GinkgoHelper()
	err := f.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}
