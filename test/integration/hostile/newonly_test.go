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

package hostile_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// changes are the ways to set the replicas of an existing Deployment.
var changes = map[string]func(ctx context.Context, object *unstructured.Unstructured, replicas string) error{
	"merge patch": func(ctx context.Context, object *unstructured.Unstructured, replicas string) error {
		return mergePatch(ctx, object, `{"spec":{"replicas":`+replicas+`}}`)
	},
	"strategic merge patch": func(ctx context.Context, object *unstructured.Unstructured, replicas string) error {
		return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`)))
	},
	"JSON patch": func(ctx context.Context, object *unstructured.Unstructured, replicas string) error {
		return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/replicas","value":`+replicas+`}]`)))
	},
	"server-side apply": func(ctx context.Context, object *unstructured.Unstructured, replicas string) error {
		body := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + object.GetName() + `"},"spec":{"replicas":` + replicas + `}}`
		return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner("attacker"), client.ForceOwnership)
	},
	"scale": func(ctx context.Context, object *unstructured.Unstructured, replicas string) error {
		return scale(ctx, object, replicas)
	},
	"dry run": func(ctx context.Context, object *unstructured.Unstructured, replicas string) error {
		return scale(ctx, object, replicas, client.DryRunAll)
	},
}

func newOnly(p *placementv1.PlacementPolicy) {
	p.Spec.Remediation.Mode = placementv1.RemediationNewOnly
}

var _ = Describe("A policy that decides new objects alone", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	It("denies every update that makes an object one that it denies, and leaves those alone that it denied before", func(ctx SpecContext) {
		deployment := func(name string, replicas int64) *unstructured.Unstructured {
			object := framework.NewObject(framework.Deployment, namespace, name, nil)
			Expect(unstructured.SetNestedField(object.Object, replicas, "spec", "replicas")).To(Succeed())
			Expect(f.Client.Create(ctx, object)).To(Succeed())
			return object
		}
		older := deployment("older", 4)
		policy := framework.NewPolicy(framework.NewName("new"), framework.Rego(atMost3, `annotations["tier"] := "gold"`), "apps", "deployments", namespace)
		newOnly(policy)
		f.CreateReadyPolicy(ctx, policy)
		web := deployment("web", 0)
		awaitHooked(ctx, func(ctx context.Context) error { return changes["dry run"](ctx, web, "4") }, "at most 3 replicas")
		for name, change := range changes {
			Expect(change(ctx, web, "4")).To(And(MatchError(ContainSubstring("at most 3 replicas")), Satisfy(apierrors.IsForbidden)), name)
			Expect(replicasOf(ctx, web, "spec", "replicas")).To(BeZero(), name)
			Expect(change(ctx, web, "0")).To(Succeed(), name)
		}
		By("leaving alone what is older than the policy")
		for name, change := range changes {
			Expect(change(ctx, older, "9")).To(Succeed(), name)
		}
		Expect(mergePatch(ctx, older, `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		Expect(replicasOf(ctx, older, "spec", "replicas")).To(Equal(int64(9)))
		By("until the policy no longer denies it")
		Expect(scale(ctx, older, "3")).To(Succeed())
		Expect(scale(ctx, older, "4")).To(MatchError(ContainSubstring("at most 3 replicas")))
	})

	It("denies an update after which no cluster is left", func(ctx SpecContext) {
		policy := framework.NewPolicy(framework.NewName("new"), framework.Rego(`clusters := {"eu-1"} if not input.metadata.labels.pci`, `clusters := set() if input.metadata.labels.pci`),
			"", "configmaps", namespace)
		newOnly(policy)
		f.CreateReadyPolicy(ctx, policy)
		object := framework.NewObject(framework.ConfigMap, namespace, "web", nil)
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		attack := func(ctx context.Context, options ...client.PatchOption) error {
			return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pci":"9"}}}`)), options...)
		}
		awaitHooked(ctx, func(ctx context.Context) error { return attack(ctx, client.DryRunAll) }, "no cluster is left")
		Expect(attack(ctx)).To(MatchError(ContainSubstring("no cluster is left")))
		Expect(mergePatch(ctx, object, `{"metadata":{"labels":{"team":"a"}}}`)).To(Succeed())
	})
})

var _ = Describe("A policy of any remediation mode", func() {
	It("denies an update that makes an object one that it denies", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		modes := []placementv1.RemediationMode{
			placementv1.RemediationAutomatic, placementv1.RemediationApproved, placementv1.RemediationManual, placementv1.RemediationNewOnly, placementv1.RemediationOff,
		}
		object := framework.NewObject(framework.ConfigMap, namespace, "web", nil)
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		for _, mode := range modes {
			policy := framework.NewPolicy(framework.NewName(strings.ToLower(string(mode))), framework.Rego(`errors contains "`+string(mode)+` forbids it" if input.data.`+string(mode)), "", "configmaps", namespace)
			policy.Spec.Remediation.Mode = mode
			f.CreateReadyPolicy(ctx, policy)
		}
		for _, mode := range modes {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"`+string(mode)+`":"yes"}}`))
			awaitHooked(ctx, func(ctx context.Context) error {
				return f.Client.Patch(ctx, object.DeepCopy(), patch, client.DryRunAll)
			}, string(mode)+" forbids it")
			Expect(f.Client.Patch(ctx, object.DeepCopy(), patch)).To(MatchError(ContainSubstring(string(mode) + " forbids it")))
		}
		Expect(f.Get(ctx, framework.ConfigMap, namespace, "web")).To(HaveField("Object", Not(HaveKey("data"))))
	})
})
