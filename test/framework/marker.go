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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// markerLabel selects the objects that the marker webhooks reject.
const markerLabel = "framework.berth.dev/marker"

// markerExpression fails for every object. The API server quotes it, not the name of the webhook, when it rejects the
// object.
const markerExpression = "dyn(object).missing.missing == 1"

// AwaitWebhooks waits until the API server calls the webhooks that are stored now. A condition Ready of a policy or a quota
// only says that they are stored.
func (f *Framework) AwaitWebhooks(ctx context.Context) {
	ginkgo.GinkgoHelper()
	f.awaitMutatingWebhooks(ctx)
	f.awaitValidatingWebhooks(ctx)
}

// awaitMutatingWebhooks waits until the API server calls the mutating webhooks that are stored now. Its copy of the
// webhook configurations lags behind the store, by a second and more on a busy machine. The copy follows the order of
// the writes, so that it is new enough once a marker that is written now is in force.
func (f *Framework) awaitMutatingWebhooks(ctx context.Context) {
	ginkgo.GinkgoHelper()
	name := NewName("marker")
	m := newMarker(name)
	f.awaitMarker(ctx, name, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: m.Name, Rules: m.Rules, ObjectSelector: m.ObjectSelector, MatchConditions: m.MatchConditions, ClientConfig: m.ClientConfig,
			FailurePolicy: m.FailurePolicy, SideEffects: m.SideEffects, AdmissionReviewVersions: m.AdmissionReviewVersions,
		}},
	})
}

// awaitValidatingWebhooks does the same as awaitMutatingWebhooks for validating webhooks.
func (f *Framework) awaitValidatingWebhooks(ctx context.Context) {
	ginkgo.GinkgoHelper()
	name := NewName("marker")
	f.awaitMarker(ctx, name, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{newMarker(name)},
	})
}

// newMarker returns a webhook for the object with the marker label and the given name. Its match condition fails, so the
// API server rejects the object without a call.
func newMarker(name string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: "marker.framework.berth.dev",
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
		ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{markerLabel: name}},
		MatchConditions:         []admissionregistrationv1.MatchCondition{{Name: "fails", Expression: markerExpression}},
		ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost/")},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func (f *Framework) awaitMarker(ctx context.Context, name string, configuration client.Object) {
	ginkgo.GinkgoHelper()
	gomega.Expect(f.Client.Create(ctx, configuration)).To(gomega.Succeed())
	// No policy matches objects in kube-system.
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name,
		Labels: map[string]string{markerLabel: name}}}
	// The copy is usually new enough after some milliseconds, and no event says so.
	gomega.Eventually(func(ctx context.Context) error {
		return f.Client.Create(ctx, object.DeepCopy(), client.DryRunAll)
	}).WithContext(ctx).WithPolling(Interval / 10).Should(gomega.MatchError(gomega.ContainSubstring(markerExpression)))
	gomega.Expect(f.Client.Delete(ctx, configuration)).To(gomega.Succeed())
}
