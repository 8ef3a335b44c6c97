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

package inventories_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// The specs run on the definitions that the projects publish, with their schemas and CEL rules, if they are there.
var _ = Describe("Placement objects", func() {
	var namespace, name string

	// profile returns a cluster of the spec.
	profile := func(cluster string) *unstructured.Unstructured {
		return framework.NewObject(framework.ClusterProfile, "fleet", namespace+"-"+cluster, nil)
	}
	label := func(ctx context.Context, cluster, tier string) {
		GinkgoHelper()
		patch := fmt.Sprintf(`{"metadata": {"labels": {"tier": %q}}}`, tier)
		Expect(f.Client.Patch(ctx, profile(cluster), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}

	// policy returns a policy on the placement objects in the namespace that allows the clusters of the tier gold.
	policy := func() *placementv1.PlacementPolicy {
		p := framework.NewPolicy(name, fmt.Sprintf(`package p

clusters contains name if {
	some name, cluster in data.clusters
	startswith(name, %q)
	cluster.labels.tier == "gold"
}
`, namespace), "", "", namespace)
		p.Spec.Mode, p.Spec.Remediation.Mode = placementv1.ModeEnforce, placementv1.RemediationAutomatic
		p.Spec.Match.ResourceRules = []placementv1.ResourceRule{
			{APIGroups: []string{"policy.karmada.io"}, APIVersions: []string{"*"}, Resources: []string{"propagationpolicies"}},
			{APIGroups: []string{"placement.kubernetes-fleet.io"}, APIVersions: []string{"*"}, Resources: []string{"resourceplacements"}},
			{APIGroups: []string{"multicluster.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"placementdecisions"}},
			{APIGroups: []string{"fleet.example.com"}, APIVersions: []string{"*"}, Resources: []string{"rollouts"}},
		}
		return p
	}

	BeforeEach(func(ctx SpecContext) {
		namespace, name = f.NewNamespace(ctx, nil), framework.NewName("placements")
		for cluster, tier := range map[string]string{"a": "gold", "b": "silver"} {
			obj := profile(cluster)
			obj.SetLabels(map[string]string{"tier": tier})
			create(ctx, obj)
		}
	})

	DescribeTable("have the clusters that policies allow, and return to what the developer requested",
		func(ctx SpecContext, k kind) {
			f.CreateReadyPolicy(ctx, policy())
			stored := func(g Gomega, ctx context.Context, text string) {
				GinkgoHelper()
				got, err := f.Get(ctx, k.gvk, namespace, "web")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(k.in(got)).To(Equal(k.value(text, namespace)))
				g.Expect(got.GetAnnotations()).NotTo(HaveKey(placementv1.ClustersAnnotation))
			}
			eventually := func(text string) {
				GinkgoHelper()
				Eventually(func(g Gomega, ctx context.Context) { stored(g, ctx, text) }).WithContext(ctx).Should(Succeed())
			}
			now := func(text string) {
				GinkgoHelper()
				stored(NewWithT(GinkgoT()), ctx, text)
			}

			By("narrowing a new object")
			Eventually(func(g Gomega, ctx context.Context) {
				probe := k.object(namespace, "web")
				g.Expect(f.Client.Create(ctx, probe, client.DryRunAll)).To(Succeed())
				g.Expect(k.in(probe)).To(Equal(k.value(k.narrowed, namespace)))
			}).WithContext(ctx).Should(Succeed())
			Expect(f.Client.Create(ctx, k.object(namespace, "web"))).To(Succeed())
			now(k.narrowed)

			By("narrowing an update to the developer's manifest")
			current, err := f.Get(ctx, k.gvk, namespace, "web")
			Expect(err).NotTo(HaveOccurred())
			current.SetAnnotations(nil)
			k.ask(current)
			Expect(f.Client.Update(ctx, current)).To(Succeed())
			now(k.narrowed)

			By("following the labels of clusters")
			label(ctx, "b", "gold")
			eventually(k.both)
			label(ctx, "b", "silver")
			eventually(k.narrowed)

			By("denying an object without a cluster")
			label(ctx, "a", "silver")
			Eventually(func(ctx context.Context) error {
				return f.Client.Create(ctx, k.object(namespace, "other"), client.DryRunAll)
			}).WithContext(ctx).Should(MatchError(ContainSubstring("no cluster is left: this policy allows none")))
			now(k.narrowed)

			By("clearing the list")
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
				p.Spec.Clusters = &placementv1.ClustersRule{OnEmpty: placementv1.OnEmptyClear}
			})
			eventually(k.cleared)

			By("returning to the requested clusters")
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
				p.Spec.Rego = `package p

labels.seen := "yes"
`
			})
			eventually(k.restored)

			By("cleaning up after the policy is deleted")
			f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec = policy().Spec })
			label(ctx, "a", "gold")
			eventually(k.narrowed)
			f.DeletePolicy(ctx, name)
			Eventually(func(g Gomega, ctx context.Context) {
				out, err := f.Kubectl(ctx, "", "berth", "cleanup", "--namespace", namespace, "--yes", "--config", configurationFile)
				g.Expect(err).NotTo(HaveOccurred(), out)
				stored(g, ctx, k.restored)
			}).WithContext(ctx).Should(Succeed())
			undone, err := f.Get(ctx, k.gvk, namespace, "web")
			Expect(err).NotTo(HaveOccurred())
			Expect(undone.GetAnnotations()).To(BeEmpty())
		},
		Entry("of Karmada", karmadaPolicy(`{clusterAffinity: {clusterNames: [$b, $a]}}`,
			`{clusterAffinity: {clusterNames: [$a]}}`, `{clusterAffinity: {clusterNames: [$b, $a]}}`, `{clusterAffinity: {clusterNames: [no-cluster.placement.berth.dev]}}`)),
		Entry("of Karmada, with terms", karmadaPolicy(`{clusterAffinities: [{affinityName: first, clusterNames: [$b]}, {affinityName: second}]}`,
			`{clusterAffinities: [{affinityName: first, clusterNames: [no-cluster.placement.berth.dev]}, {affinityName: second, clusterNames: [$a]}]}`,
			`{clusterAffinities: [{affinityName: first, clusterNames: [$b]}, {affinityName: second, clusterNames: [$a, $b]}]}`,
			`{clusterAffinities: [{affinityName: first, clusterNames: [no-cluster.placement.berth.dev]}, {affinityName: second, clusterNames: [no-cluster.placement.berth.dev]}]}`)),
		Entry("of KubeFleet, PickFixed", fleetPlacement(`{placementType: PickFixed, clusterNames: [$a, $b]}`,
			`{placementType: PickFixed, clusterNames: [$a]}`, `{placementType: PickFixed, clusterNames: [$a, $b]}`,
			`{placementType: PickFixed, clusterNames: [no-cluster.placement.berth.dev]}`, `{placementType: PickFixed, clusterNames: [$a, $b]}`)),
		Entry("of KubeFleet, PickAll", fleetPlacement(`{placementType: PickAll}`,
			`{placementType: PickAll, `+selected("$a")+`}`, `{placementType: PickAll, `+selected("$a, $b")+`}`, `{placementType: PickAll, `+selected("no-cluster.placement.berth.dev")+`}`, `{placementType: PickAll}`)),
		Entry("of KubeFleet, PickN", fleetPlacement(`{placementType: PickN, numberOfClusters: 1, `+selected("$b, $a")+`}`,
			`{placementType: PickN, numberOfClusters: 1, `+selected("$a")+`}`, `{placementType: PickN, numberOfClusters: 1, `+selected("$b, $a")+`}`,
			`{placementType: PickN, numberOfClusters: 1, `+selected("no-cluster.placement.berth.dev")+`}`, `{placementType: PickN, numberOfClusters: 1, `+selected("$b, $a")+`}`)),
		Entry("of KubeFleet, without a policy", fleetPlacement("",
			`{placementType: PickAll, `+selected("$a")+`}`, `{placementType: PickAll, `+selected("$a, $b")+`}`, `{placementType: PickAll, `+selected("no-cluster.placement.berth.dev")+`}`,
			`{placementType: PickAll}`)),
		Entry("of SIG Multicluster", kind{
			gvk: placementDecision, path: []string{"decisions"}, cleared: `[]`,
			asked:    `[{clusterProfileRef: {name: $b, namespace: fleet}, reason: cheap}, {clusterProfileRef: {name: $a, namespace: fleet}, reason: near}]`,
			narrowed: `[{clusterProfileRef: {name: $a, namespace: fleet}, reason: near}]`,
			both:     `[{clusterProfileRef: {name: $b, namespace: fleet}, reason: cheap}, {clusterProfileRef: {name: $a, namespace: fleet}, reason: near}]`,
			restored: `[{clusterProfileRef: {name: $b, namespace: fleet}, reason: cheap}, {clusterProfileRef: {name: $a, namespace: fleet}, reason: near}]`,
		}),
		Entry("of SIG Multicluster, with references to other objects of these names", kind{
			gvk: placementDecision, path: []string{"decisions"}, cleared: `[]`,
			asked:    `[{clusterProfileRef: {name: $a, namespace: other}}, {clusterProfileRef: {name: $b}}, {clusterProfileRef: {name: $b, namespace: fleet}}, {clusterProfileRef: {name: $a, namespace: fleet}}]`,
			narrowed: `[{clusterProfileRef: {name: $a, namespace: fleet}}]`,
			both:     `[{clusterProfileRef: {name: $a, namespace: fleet}}, {clusterProfileRef: {name: $b, namespace: fleet}}]`,
			restored: `[{clusterProfileRef: {name: $a, namespace: other}}, {clusterProfileRef: {name: $b}}, {clusterProfileRef: {name: $b, namespace: fleet}}, {clusterProfileRef: {name: $a, namespace: fleet}}]`,
		}),
		Entry("that the configuration declares", kind{
			rollout, []string{"spec", "clusters"}, `[$b, $a]`, `[$a]`, `[$b, $a]`, `[no-cluster.placement.berth.dev]`, `[$b, $a]`,
		}),
	)
})
