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
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy whose newest version reads a type that is not served", func() {
	It("keeps the version before in force, also across a restart, and heals when the type comes", func(ctx SpecContext) {
		stopFirst := startFirst(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("good")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		crd := framework.NewCRD(framework.NewName("sea")+".example.com", "v1", framework.NewName("reefs"), "Reef", apiextensionsv1.ClusterScoped)
		reads := framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := sprintf("%%d reefs", [count(data.kubernetes[%q])])`, crd.Spec.Names.Plural))

		unjudged(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = reads })
		Consistently(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		Eventually(condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).Should(Equal("False/NotServed"))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status", And(
			HaveField("GenerationInForce", BeEquivalentTo(1)), HaveField("ObservedGeneration", BeEquivalentTo(2)))))
		Expect(condition(ctx, name, placementv1.ConditionStalled)).To(BeEmpty())

		stopFirst()
		start(ctx)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("a"))
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("0 reefs"))
		f.AwaitReady(ctx, name)
	})

	It("is refused at apply with the type that was probably meant", func(ctx SpecContext) {
		start(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("good")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, zone("a"), "", "configmaps", namespace))
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		p.Spec.Rego = framework.Rego("errors contains n if some n, _ in data.kubernetes.configmap")
		Expect(f.Client.Update(ctx, p)).To(MatchError(And(
			ContainSubstring("3:"), ContainSubstring("data.kubernetes.configmap"), ContainSubstring("did you mean configmaps"))))
	})
})

var _ = Describe("A policy that reads a type of which another group gets a namesake", func() {
	It("keeps to the group that it was bound to, across restarts and updates that leave its text alone", func(ctx SpecContext) {
		stopFirst := startFirst(ctx)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("bound")
		group, plural := framework.NewName("sea")+".example.com", framework.NewName("wrecks")
		crd := framework.NewCRD(group, "v1", plural, "Wreck", apiextensionsv1.ClusterScoped)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		Expect(f.Client.Create(ctx, framework.NewObject(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Wreck"}, "", "w1", nil))).To(Succeed())
		text := framework.Rego(fmt.Sprintf(`annotations["example.com/zone"] := sprintf("%%d wrecks", [count(data.kubernetes[%q])])`, plural))
		f.CreateReadyPolicy(ctx, framework.NewPolicy(name, text, "", "configmaps", namespace))
		Eventually(func(ctx context.Context) (map[string]string, error) {
			revision, err := revisionOf(ctx, name)
			return revision.Bindings, err
		}).WithContext(ctx).Should(Equal(map[string]string{plural: group}))

		namesake := framework.NewCRD(framework.NewName("land")+".example.com", "v1", plural, "Wreck", apiextensionsv1.ClusterScoped)
		f.InstallCRD(ctx, namesake)
		DeferCleanup(f.UninstallCRD, namesake.Name)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal("1 wrecks"))
		stopFirst()
		start(ctx)
		// For a moment the API server still asks the first one.
		var placed string
		Eventually(func(ctx context.Context) (err error) {
			placed, err = f.TryZone(ctx, namespace)
			return err
		}).WithContext(ctx).Should(Succeed())
		Expect(placed).To(Equal("1 wrecks"))
		f.AwaitReady(ctx, name)

		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, "a=b")
		f.MustKubectl(ctx, "", "label", "placementpolicy", name, "a=b")
		f.MustKubectl(ctx, "", "patch", "placementpolicy", name, "--type=merge", "-p", `{"spec":{"priority":7}}`)
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.GenerationInForce", BeEquivalentTo(2)))
		f.AwaitReady(ctx, name)
		Expect(f.TryZone(ctx, namespace)).To(Equal("1 wrecks"))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Conditions",
			ContainElement(And(HaveField("Type", placementv1.ConditionCompiled), HaveField("Reason", Not(Equal(placementv1.ReasonCompiled))), HaveField("ObservedGeneration", BeEquivalentTo(2))))))

		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		p.Spec.Rego += "\n# changed"
		Expect(f.Client.Update(ctx, p)).To(MatchError(ContainSubstring(`write data.resources[`)))

		By("uninstalling the type that it is bound to")
		f.UninstallCRD(ctx, crd.Name)
		hint := And(ContainSubstring("which was bound to the type %s.%s", plural, group), ContainSubstring("write data.resources[%q].%s", namesake.Spec.Group+"/v1", plural))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Conditions",
			ContainElement(And(HaveField("Type", placementv1.ConditionReplicated), HaveField("Status", metav1.ConditionFalse), HaveField("Message", hint)))))
		warnings, err := f.Kubectl(ctx, "", "patch", "placementpolicy", name, "--type=merge", "-p", `{"spec":{"priority":8}}`)
		Expect(err).NotTo(HaveOccurred())
		Expect(warnings).To(hint)
	})
})

// revisionOf returns the version that is kept of a policy.
func revisionOf(ctx context.Context, name string) (policy.Revision, error) {
	object := &appsv1.ControllerRevision{}
	if err := f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: policy.RevisionName(name)}, object); err != nil {
		return policy.Revision{}, err
	}
	var out policy.Revision
	return out, json.Unmarshal(object.Data.Raw, &out)
}
