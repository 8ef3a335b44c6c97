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

package delivery_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/test/framework"
)

var (
	clusterRole     = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	namespaceObject = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

// clusterScoped returns a policy that places the cluster-scoped objects of a type which have the label of the fleet.
func (fl fleet) clusterScoped(delivery placementv1.Delivery, kind schema.GroupVersionKind, plural string) *placementv1.PlacementPolicy {
	p := fl.policy(delivery)
	p.Spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version}, Resources: []string{plural}}}
	p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/fleet": fl.label}}
	return p
}

// create creates a cluster-scoped object with the label of the fleet, and deletes it when the spec ends.
func (fl fleet) create(ctx context.Context, kind schema.GroupVersionKind) *unstructured.Unstructured {
	GinkgoHelper()
	o := framework.NewObject(kind, "", framework.NewName("wide"), nil)
	o.SetLabels(map[string]string{"example.com/fleet": fl.label})
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed()) })
	return o
}

// carrier is a kind by which a system delivers cluster-scoped objects.
type carrier struct {
	delivery placementv1.Delivery
	system   string
	kind     schema.GroupVersionKind
	// clusters is the path of the names of clusters, and selected that of the list of selected objects.
	clusters, selected []string
	// narrow is the member of a selector that selects a Namespace without what is in it; nil if each selector does.
	narrow map[string]any
}

// clustersOf returns the clusters that the only delivered object of a cluster-scoped object names.
func (c carrier) clustersOf(ctx context.Context, owner string) ([]string, error) {
	o, err := only(ctx, c.kind, "", owner)
	if err != nil {
		return nil, err
	}
	names, _, err := unstructured.NestedStringSlice(o.Object, c.clusters...)
	return names, err
}

var (
	inKarmada = carrier{
		delivery: toKarmada, system: "karmada", kind: clusterPolicy,
		clusters: []string{"spec", "placement", "clusterAffinity", "clusterNames"}, selected: []string{"spec", "resourceSelectors"},
	}
	inKubeFleet = carrier{
		delivery: placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}, system: "kubeFleet", kind: clusterPlacement,
		clusters: []string{"spec", "policy", "clusterNames"}, selected: []string{"spec", "resourceSelectors"},
		narrow: map[string]any{"selectionScope": "NamespaceOnly"},
	}
)

var _ = Describe("Delivery of cluster-scoped objects", func() {
	DescribeTable("follows clusters, objects, and the policy", func(ctx SpecContext, c carrier, kind schema.GroupVersionKind, plural string) {
		fl := newFleet(ctx, "a", "b")
		before := fl.create(ctx, kind)
		p := fl.clusterScoped(c.delivery, kind, plural)
		f.CreateReadyPolicy(ctx, p)
		after := fl.create(ctx, kind)
		for _, o := range []*unstructured.Unstructured{before, after} {
			Eventually(c.clustersOf).WithContext(ctx).WithArguments(o.GetName()).Should(Equal(fl.clusters("a", "b")))
		}
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(2))
		Expect(must(f.Policy(ctx, p.Name)).Status.Delivery).To(HaveValue(And(HaveField("Systems", c.system), HaveField("Placed", HaveValue(BeEquivalentTo(2))))))
		first := must(only(ctx, c.kind, "", before.GetName()))
		Expect(first.GetNamespace()).To(BeEmpty())
		Expect(first.GetOwnerReferences()).To(ConsistOf(metav1.OwnerReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: before.GetName(), UID: before.GetUID(),
		}))
		selected, _, err := unstructured.NestedSlice(first.Object, c.selected...)
		Expect(err).NotTo(HaveOccurred())
		Expect(selected).To(ConsistOf(And(HaveKeyWithValue("kind", kind.Kind), HaveKeyWithValue("name", before.GetName()), Not(HaveKey("namespace")))))
		for member, value := range c.narrow {
			if kind == namespaceObject {
				Expect(selected).To(ConsistOf(HaveKeyWithValue(member, value)))
			}
		}

		By("changing the same object when a cluster leaves")
		fl.move(ctx, "b", "us")
		for _, o := range []*unstructured.Unstructured{before, after} {
			Eventually(c.clustersOf).WithContext(ctx).WithArguments(o.GetName()).Should(Equal(fl.clusters("a")))
		}
		Expect(must(only(ctx, c.kind, "", before.GetName())).GetUID()).To(Equal(first.GetUID()))

		if kind != namespaceObject {
			By("deleting what a deleted object had")
			Expect(f.Client.Delete(ctx, before)).To(Succeed())
			Eventually(all).WithContext(ctx).WithArguments(c.kind, "", before.GetName()).Should(BeEmpty())
			Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		}

		By("deleting all with the policy")
		f.DeletePolicy(ctx, p.Name)
		for _, o := range []*unstructured.Unstructured{before, after} {
			Eventually(all).WithContext(ctx).WithArguments(c.kind, "", o.GetName()).Should(BeEmpty())
		}
		Eventually(measured).WithArguments(p.Name).Should(BeEmpty())
	},
		Entry("of ClusterRoles with Karmada", inKarmada, clusterRole, "clusterroles"),
		Entry("of Namespaces with Karmada", inKarmada, namespaceObject, "namespaces"),
		Entry("of ClusterRoles with KubeFleet", inKubeFleet, clusterRole, "clusterroles"),
		// Without a controller of namespaces, a deleted Namespace stays.
		Entry("of Namespaces with KubeFleet", inKubeFleet, namespaceObject, "namespaces"),
	)

	DescribeTable("never changes the object of another client", func(ctx SpecContext, c carrier) {
		fl := newFleet(ctx, "a")
		p := fl.clusterScoped(c.delivery, clusterRole, "clusterroles")
		f.CreateReadyPolicy(ctx, p)
		role := fl.create(ctx, clusterRole)
		Eventually(c.clustersOf).WithContext(ctx).WithArguments(role.GetName()).Should(Equal(fl.clusters("a")))
		ours := must(only(ctx, c.kind, "", role.GetName()))
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeDryRun })
		Eventually(all).WithContext(ctx).WithArguments(c.kind, "", role.GetName()).Should(BeEmpty())

		foreign := framework.NewObject(c.kind, "", ours.GetName(), nil)
		foreign.Object["spec"] = ours.Object["spec"]
		Expect(unstructured.SetNestedStringSlice(foreign.Object, []string{"theirs"}, c.clusters...)).To(Succeed())
		Expect(f.Client.Create(ctx, foreign, client.FieldOwner("rival"))).To(Succeed())
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeEnforce })
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonForeignObject, c.kind.Kind+" "+ours.GetName(), "written by rival"))
		Eventually(measured).WithArguments(p.Name).Should(HaveKeyWithValue(metrics.DeliveryFailed, 1.0))
		Expect(must(f.Get(ctx, c.kind, "", foreign.GetName())).GetResourceVersion()).To(Equal(foreign.GetResourceVersion()))

		By("leaving it alone when the policy is deleted, too")
		f.DeletePolicy(ctx, p.Name)
		Eventually(measured).WithArguments(p.Name).Should(BeEmpty())
		Expect(must(f.Get(ctx, c.kind, "", foreign.GetName())).GetResourceVersion()).To(Equal(foreign.GetResourceVersion()))

		By("delivering when it is gone")
		again := fl.clusterScoped(c.delivery, clusterRole, "clusterroles")
		f.CreateReadyPolicy(ctx, again)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(again.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonForeignObject))
		Expect(f.Client.Delete(ctx, foreign)).To(Succeed())
		Eventually(c.clustersOf).WithContext(ctx).WithArguments(role.GetName()).Should(Equal(fl.clusters("a")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(again.Name).Should(beDelivered(1))
	},
		Entry("with Karmada", inKarmada),
		Entry("with KubeFleet", inKubeFleet),
	)
})
