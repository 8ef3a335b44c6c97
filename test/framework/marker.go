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

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// markerLabel selects the objects that the marker webhooks reject.
const markerLabel = "framework.berth.dev/marker"

// awaitMutatingWebhooks waits until the API server calls the mutating webhooks that are stored now. Its copy of the
// webhook configurations lags behind the store, by a second and more on a busy machine. The copy follows the order of
// the writes, so that it is new enough once a marker that is written now is in force.
func (f *Framework) awaitMutatingWebhooks(ctx context.Context) {
	ginkgo.GinkgoHelper()
	name := NewName("marker")
	rules, selector := markerScope(name)
	f.awaitMarker(ctx, name, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "marker.framework.berth.dev", Rules: rules, ObjectSelector: selector,
			MatchConditions: markerCondition(), ClientConfig: markerClient(), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	})
}

// awaitValidatingWebhooks does the same as awaitMutatingWebhooks for validating webhooks.
func (f *Framework) awaitValidatingWebhooks(ctx context.Context) {
	ginkgo.GinkgoHelper()
	name := NewName("marker")
	rules, selector := markerScope(name)
	f.awaitMarker(ctx, name, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "marker.framework.berth.dev", Rules: rules, ObjectSelector: selector,
			MatchConditions: markerCondition(), ClientConfig: markerClient(), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	})
}

func (f *Framework) awaitMarker(ctx context.Context, name string, configuration client.Object) {
	ginkgo.GinkgoHelper()
	gomega.Expect(f.Client.Create(ctx, configuration)).To(gomega.Succeed())
	// No policy matches objects in kube-system.
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{markerLabel: name}}}
	gomega.Eventually(func(ctx context.Context) error {
		return f.Client.Create(ctx, object.DeepCopy(), client.DryRunAll)
	}).WithContext(ctx).ShouldNot(gomega.Succeed())
	gomega.Expect(f.Client.Delete(ctx, configuration)).To(gomega.Succeed())
}

func markerScope(name string) ([]admissionregistrationv1.RuleWithOperations, *metav1.LabelSelector) {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}, &metav1.LabelSelector{MatchLabels: map[string]string{markerLabel: name}}
}

// markerCondition fails for every object, so that the API server rejects the request without a call.
func markerCondition() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "fails", Expression: "dyn(object).missing.missing == 1"}}
}

// markerClient is never called.
func markerClient() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost/")}
}
