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
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A quota on a type that Berth may not read", func() {
	It("says what to grant, and heals when it is granted", func(ctx SpecContext) {
		group, plural := framework.NewName("fleet")+".example.com", framework.NewName("boats")
		crd := framework.NewCRD(group, "v1", plural, "Boat", apiextensionsv1.NamespaceScoped)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		admin := context.WithoutCancel(ctx)
		wide := &rbacv1.ClusterRoleBinding{}
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: "berth-test-wide"}, wide)).To(Succeed())
		Expect(f.Client.Delete(ctx, wide.DeepCopy())).To(Succeed())
		wide.ResourceVersion, wide.UID = "", ""
		restored := false
		restore := func() {
			if !restored {
				Expect(f.Client.Create(admin, wide)).To(Succeed())
				restored = true
			}
		}
		DeferCleanup(restore)
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)

		namespace := f.NewNamespace(ctx, nil)
		name := fmt.Sprintf("count/%s.%s", plural, group)
		q := framework.NewScopedQuota(namespace, "boats", placementv1.QuotaSpec{Hard: framework.Hard(name, "1")})
		Expect(f.Client.Create(ctx, q)).To(Succeed())
		condition := func(conditionType string) func(context.Context) (*metav1.Condition, error) {
			return func(ctx context.Context) (*metav1.Condition, error) {
				err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q)
				return meta.FindStatusCondition(q.Status.Conditions, conditionType), err
			}
		}
		rule := fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [get, list, watch]}`, group, plural)
		for _, conditionType := range []string{placementv1.ConditionUsageCurrent, placementv1.ConditionReady} {
			Eventually(condition(conditionType)).WithContext(ctx).Should(HaveValue(SatisfyAll(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", placementv1.ReasonForbidden), HaveField("Message", ContainSubstring(rule)))))
		}
		Expect(q.Status.Used).To(BeEmpty(), "what can't be read is not counted as nothing")

		restore()
		f.AwaitReadyQuota(ctx, q)
		boat := func(name string) client.Object {
			return framework.NewObject(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Boat"}, namespace, name, nil)
		}
		Expect(f.Client.Create(ctx, boat("a"))).To(Succeed())
		Expect(f.Client.Create(ctx, boat("b"))).To(framework.BeForbidden("exceeded quota: boats"))
	})
})
