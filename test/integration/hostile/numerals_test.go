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
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

var rollout = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rollout"}

// numerals are texts that take Kubernetes' parser of quantities minutes or forever, or that are long.
var numerals = []string{
	"1e-999999999", "-1E-0000999999999", "123456789012345678901e+99999999999999999999", "0." + strings.Repeat("0", 4096) + "1",
}

// entries returns an entry of a table for each numeral.
func entries() (out []TableEntry) {
	for _, text := range numerals {
		out = append(out, Entry(fmt.Sprintf("%.30s", text), text))
	}
	return out
}

var _ = Describe("A number that takes forever to read", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		f.InstallCRD(ctx, framework.NewCRD(rollout.Group, rollout.Version, "rollouts", rollout.Kind, apiextensionsv1.NamespaceScoped))
		f.InstallCRD(ctx, framework.NewCRD("cluster.open-cluster-management.io", "v1", "managedclusters", "ManagedCluster", apiextensionsv1.ClusterScoped))
		stopOperator()
		config := filepath.Join(GinkgoT().TempDir(), "manager.yaml")
		Expect(os.WriteFile(config, []byte("apiVersion: config.berth.dev/v1alpha1\nkind: ManagerConfiguration\n"+
			"podTemplates:\n- {group: example.com, resource: rollouts, kind: Rollout, path: .spec.template}\n"), 0o600)).To(Succeed())
		operator = f.StartReadyManager(ctx, func(o *setup.Options) { o.Config = config })
		DeferCleanup(stopOperator)
		f.AwaitValidation(ctx)
	})

	newRollout := func(namespace, resources, volumes string) *unstructured.Unstructured {
		return fromText(namespace, `{"apiVersion":"example.com/v1","kind":"Rollout","metadata":{"name":"web"},"spec":{"template":{"metadata":{"labels":{"app":"a"}},
			"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"NOT_A_QUANTITY","value":"1e-999999999"}],"resources":`+resources+`}],"volumes":[`+volumes+`]}}}}`)
	}

	DescribeTable("in the pod template of a declared kind is refused at once", func(ctx SpecContext, text string) {
		namespace := f.NewNamespace(ctx, nil)
		for _, resource := range []string{"rollouts", "replicasets"} {
			group := map[string]string{"rollouts": rollout.Group, "replicasets": "apps"}[resource]
			f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("disk"), framework.Rego(`scheduling.nodeSelector.disk := "ssd"`), group, resource, namespace))
		}
		feasible := framework.NewPolicy(framework.NewName("feasible"), framework.Rego(`warnings contains "no node" if count(k8s.feasible(input, {})) == 0`), rollout.Group, "rollouts", namespace)
		f.CreateReadyPolicy(ctx, feasible)
		start := processorTime()
		for _, object := range []*unstructured.Unstructured{
			newRollout(namespace, fmt.Sprintf(`{"requests":{"cpu":%q}}`, text), ""),
			newRollout(namespace, fmt.Sprintf(`{"limits":{"example.com/gpu":%q}}`, text), ""),
			newRollout(namespace, "{}", fmt.Sprintf(`{"name":"a","emptyDir":{"sizeLimit":%q}}`, text)),
			newRollout(namespace, "{}", fmt.Sprintf(`{"name":"a","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":%q}}}}}}`, text)),
		} {
			Expect(f.Client.Create(ctx, object)).To(MatchError(ContainSubstring("the number has more than 400 digits")))
		}

		By("comparing a ReplicaSet with an owner that has such a number")
		owner := newRollout(f.NewNamespace(ctx, nil), fmt.Sprintf(`{"requests":{"cpu":%q}}`, text), "")
		Expect(f.Client.Create(ctx, owner)).To(Succeed())
		owned := fromText(namespace, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web","ownerReferences":[
			{"apiVersion":"example.com/v1","kind":"Rollout","name":"web","uid":%q,"controller":true}]},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},
			"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}`, owner.GetUID()))
		Expect(f.Client.Create(ctx, owned)).To(Succeed())
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
	}, entries())

	DescribeTable("in a quota is refused by the API server at once", func(ctx SpecContext, text string) {
		namespace := f.NewNamespace(ctx, nil)
		for _, name := range []string{"pods", "requests.cpu", "example.com/gpu", "requests.example.com/gpu", "count/widgets.example.com"} {
			for _, object := range []*unstructured.Unstructured{
				fromText(namespace, fmt.Sprintf(`{"apiVersion":"placement.berth.dev/v1alpha1","kind":"ScopedQuota","metadata":{"name":"q"},"spec":{"hard":{%q:%q}}}`, name, text)),
				fromText("", fmt.Sprintf(`{"apiVersion":"placement.berth.dev/v1alpha1","kind":"ClusterScopedQuota","metadata":{"name":"q"},"spec":{"namespaceSelector":{},"hard":{%q:%q}}}`, name, text)),
			} {
				Expect(f.Client.Create(ctx, object, client.DryRunAll)).To(WithTransform(apierrors.IsInvalid, BeTrue()), "%s in %s", name, object.GetKind())
			}
		}
	}, entries())

	DescribeTable("in a rule is refused, and keeps no replica from starting", func(ctx SpecContext, text string) {
		start := processorTime()
		for _, requirement := range []string{
			fmt.Sprintf(`{"allocatable":"cpu","operator":"Gte","values":[%q]}`, text),
			fmt.Sprintf(`{"free":"memory","operator":"Lt","values":[%q]}`, text),
			fmt.Sprintf(`{"label":"tier","as":"Quantity","operator":"Gt","values":[%q]}`, text),
			fmt.Sprintf(`{"label":"tier","as":"Number","operator":"Gt","values":[%q]}`, text),
			fmt.Sprintf(`{"label":"tier","as":"Quantity","operator":"Gt","valueFrom":{"label":"tier","default":%q}}`, text),
		} {
			object := fromText("", `{"apiVersion":"placement.berth.dev/v1alpha1","kind":"PlacementPolicy","metadata":{"name":"`+framework.NewName("rule")+`"},"spec":{
				"match":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}]},
				"rules":[{"name":"large","require":[`+requirement+`]}]}}`)
			Expect(f.Client.Create(ctx, object, client.DryRunAll)).To(WithTransform(apierrors.IsInvalid, BeTrue()), requirement)
		}
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
	}, entries())

	DescribeTable("in an inventory, a CEL expression, or Rego ends no more than the decision", func(ctx SpecContext, condition string) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("number"), framework.Rego(`errors contains "denied" if { `+condition+` }`), "", "configmaps", namespace))
		start := processorTime()
		for _, text := range numerals {
			cluster := fromText("", `{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"`+framework.NewName("huge")+`"}}`)
			resources := map[string]any{"cpu": text, "memory": text}
			cluster.Object["status"] = map[string]any{"capacity": resources, "allocatable": resources}
			f.CreateWithStatus(ctx, cluster)
			object := framework.NewObject(framework.ConfigMap, namespace, "number", nil)
			object.Object["data"] = map[string]any{"n": text}
			Eventually(func(ctx SpecContext) error { return f.Client.Create(ctx, object, client.DryRunAll) }).WithContext(ctx).
				Should(MatchError(Or(ContainSubstring("denied"), ContainSubstring("digits"))))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		}
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
	},
		Entry("as a quantity in CEL", `k8s.cel("!isQuantity(object.data['n']) || quantity(object.data['n']).isGreaterThan(quantity('1'))", input)`),
		Entry("as a quantity", `k8s.quantity.compare(input.data.n, "1") < 2`),
		Entry("as a number", `to_number(input.data.n) > 1`),
		Entry("with a unit", `units.parse(input.data.n) > 1`),
		Entry("in bytes", `units.parse_bytes(input.data.n) > 1`),
		Entry("of a cluster", `some c in data.clusters; k8s.quantity.compare(c.allocatable.cpu, "1") < 2`),
		Entry("in a calculation", `some c in data.clusters; k8s.quantity.add(c.allocatable.memory, c.capacity.cpu)`),
	)
})
