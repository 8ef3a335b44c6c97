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

package lifecycle_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A match condition with a function that the API server does not know", Label("versions"), func() {
	It("shows in the policy's status, and leaves other policies alone", func(ctx SpecContext) {
		conditions := []admissionregistrationv1.MatchCondition{{Name: "newer", Expression: `isSemver("1.0.0")`}}
		err := f.Client.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("newer")},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "newer.example.com", MatchConditions: conditions, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost/none")},
				SideEffects:  new(admissionregistrationv1.SideEffectClassNone),
			}},
		}, client.DryRunAll)
		if err == nil {
			Skip("the API server knows the function: Kubernetes has it from 1.34 on")
		}
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)

		start(ctx)
		name := framework.NewName("newer")
		newer := framework.NewPolicy(name, zone("a"), "", "configmaps", f.NewNamespace(ctx, nil))
		newer.Spec.Match.MatchConditions = conditions
		f.CreatePolicy(ctx, newer)
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionEnforced).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonWebhookRejected, "isSemver"))
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("other"), zone("b"), "", "configmaps", namespace))
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("b"))
	})
})
