package quota_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// hard is a list of resources; it panics on what is no quantity.
func hard(pairs ...string) map[corev1.ResourceName]resource.Quantity {
	out := map[corev1.ResourceName]resource.Quantity{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// scope is a scope selector with one expression.
func scope(name corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *placementv1.ScopeSelector {
	return &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{{ScopeName: name, Operator: operator, Values: values}}}
}

func newQuota(namespace, name string, spec placementv1.QuotaSpec) *placementv1.ScopedQuota {
	return &placementv1.ScopedQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       placementv1.ScopedQuotaSpec{QuotaSpec: spec},
	}
}

// createReady creates a quota or a limit, waits until it is Ready, and deletes it after the spec.
func createReady(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed())
	})
	awaitReady(ctx, o)
}

func awaitReady(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (*metav1.Condition, error) {
		err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		ready := meta.FindStatusCondition(conditions(o), placementv1.ConditionReady)
		if ready != nil && ready.ObservedGeneration != o.GetGeneration() {
			ready = nil
		}
		return ready, err
	}).WithContext(ctx).Should(HaveField("Status", metav1.ConditionTrue))
}

func conditions(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case placementv1.Quota:
		return o.QuotaStatus().Conditions
	case *placementv1.LimitedResource:
		return o.Status.Conditions
	}
	return nil
}

// used returns what a quota's status says.
func used(ctx context.Context, q placementv1.Quota) (map[string]string, error) {
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

// createPriorityClass makes sure that a PriorityClass exists.
func createPriorityClass(ctx context.Context, name string) {
	GinkgoHelper()
	err := f.Client.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// newPod returns a pod that no node runs; change may be nil.
func newPod(namespace, name string, change func(*corev1.Pod)) *corev1.Pod {
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

// forbidden is a matcher for a denial with a message.
func forbidden(message string) OmegaMatcher {
	return SatisfyAll(
		WithTransform(apierrors.IsForbidden, BeTrue()),
		WithTransform(func(err error) string { return fmt.Sprint(err) }, ContainSubstring(message)),
	)
}
