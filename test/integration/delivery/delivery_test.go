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
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/deliverer"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

// all returns the objects of a kind that are delivered for an object, sorted by name.
func all(ctx context.Context, kind schema.GroupVersionKind, namespace, owner string) ([]unstructured.Unstructured, error) {
	list, err := allIn(ctx, kind, namespace)
	return slices.DeleteFunc(list, func(o unstructured.Unstructured) bool {
		owners := o.GetOwnerReferences()
		return len(owners) != 1 || owners[0].Name != owner
	}), err
}

// allIn returns the delivered objects of a kind in a namespace, sorted by name.
func allIn(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := f.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{placementv1.DeliveredLabel: "true"}); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
	return list.Items, nil
}

// only returns the only object of a kind that is delivered for an object.
func only(ctx context.Context, kind schema.GroupVersionKind, namespace, owner string) (*unstructured.Unstructured, error) {
	found, err := all(ctx, kind, namespace, owner)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d objects of kind %s are delivered for %s", len(found), kind.Kind, owner)
	}
	return &found[0], nil
}

// clustersIn returns the clusters that the only PropagationPolicy of an object names.
func clustersIn(ctx context.Context, namespace, owner string) ([]string, error) {
	o, err := only(ctx, propagationPolicy, namespace, owner)
	if err != nil {
		return nil, err
	}
	names, _, err := unstructured.NestedStringSlice(o.Object, "spec", "placement", "clusterAffinity", "clusterNames")
	return names, err
}

// clustersByOwner returns the clusters that PropagationPolicies in a namespace name, by the name of the object for which each is delivered.
// It leaves out objects with more than one PropagationPolicy.
func clustersByOwner(ctx context.Context, namespace string) (map[string][]string, error) {
	list, err := allIn(ctx, propagationPolicy, namespace)
	if err != nil {
		return nil, err
	}
	out, seen := map[string][]string{}, map[string]bool{}
	for _, o := range list {
		owners := o.GetOwnerReferences()
		if len(owners) != 1 {
			continue
		}
		owner := owners[0].Name
		if seen[owner] {
			delete(out, owner)
			continue
		}
		seen[owner] = true
		if out[owner], _, err = unstructured.NestedStringSlice(o.Object, "spec", "placement", "clusterAffinity", "clusterNames"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fleet is a set of clusters that one spec has for itself: policies select them by a label.
type fleet struct{ label, namespace string }

// newFleet creates clusters of the region eu. Names of clusters are unique among specs.
func newFleet(ctx context.Context, names ...string) fleet {
	GinkgoHelper()
	out := fleet{label: framework.NewName("fleet"), namespace: f.NewNamespace(ctx, nil)}
	for _, name := range names {
		o := framework.NewObject(framework.ClusterProfile, out.namespace, out.cluster(name), nil)
		o.SetLabels(map[string]string{"example.com/fleet": out.label, corev1.LabelTopologyRegion: "eu"})
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		DeferCleanup(f.Client.Delete, o)
	}
	return out
}

func (fl fleet) cluster(name string) string { return name + "-" + fl.label }

// clusters returns the names of clusters, as they are in decisions.
func (fl fleet) clusters(names ...string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fl.cluster(name)
	}
	slices.Sort(out)
	return out
}

// move changes the region of a cluster.
func (fl fleet) move(ctx context.Context, name, region string) {
	GinkgoHelper()
	o, err := f.Get(ctx, framework.ClusterProfile, fl.namespace, fl.cluster(name))
	Expect(err).NotTo(HaveOccurred())
	base := o.DeepCopy()
	labels := o.GetLabels()
	labels[corev1.LabelTopologyRegion] = region
	o.SetLabels(labels)
	Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(Succeed())
}

// policy returns a policy that places the Deployments of namespaces on the clusters of the fleet in the region eu.
func (fl fleet) policy(delivery placementv1.Delivery, namespaces ...string) *placementv1.PlacementPolicy {
	p := framework.NewPolicy(framework.NewName("deliver"), fmt.Sprintf(`package deliver

clusters contains name if {
	some name, cluster in data.clusters
	cluster.labels["example.com/fleet"] == %q
	cluster.region == "eu"
}`, fl.label), "apps", "deployments", namespaces...)
	p.Spec.Clusters = &placementv1.ClustersRule{OnEmpty: placementv1.OnEmptyClear}
	p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
	p.Spec.Delivery = &delivery
	return p
}

var toKarmada = placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}

func deploy(ctx context.Context, namespace, name string) *unstructured.Unstructured {
	GinkgoHelper()
	o := framework.NewObject(framework.Deployment, namespace, name, nil)
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	return o
}

func deliveredCondition(ctx context.Context, policy string) (metav1.Condition, error) {
	return f.Condition(ctx, policy, placementv1.ConditionDelivered)
}

func compliantCondition(ctx context.Context, policy string) (metav1.Condition, error) {
	return f.Condition(ctx, policy, placementv1.ConditionCompliant)
}

// beDelivered matches the condition of a policy that has delivered all of n objects.
func beDelivered(n int) OmegaMatcher {
	return framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered, fmt.Sprintf("%d of %[1]d placed objects are delivered", n))
}

// measured returns the series of a policy in the metric of deliveries, by state.
func measured(policy string) (map[string]float64, error) {
	series, err := operator.Series("berth_policy_delivery", fmt.Sprintf("policy=%q", policy))
	out := map[string]float64{}
	for labels, value := range series {
		_, rest, _ := strings.Cut(labels, `state="`)
		state, _, _ := strings.Cut(rest, `"`)
		out[state] = value
	}
	return out, err
}

// writes returns the number of patches of delivered objects so far.
func writes() int { return len(patches.By(deliverer.FieldManager, "/")) }

var _ = Describe("Delivery", func() {
	It("keeps a PropagationPolicy for each placed object, and follows clusters, policies, and objects", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		before := deploy(ctx, namespace, "before")
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "after")
		for _, name := range []string{"before", "after"} {
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, name).Should(Equal(fl.clusters("a", "b")))
		}
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(2))
		Expect(f.Policy(ctx, p.Name)).To(HaveField("Status.Delivery", HaveValue(Equal(placementv1.DeliveryStatus{
			Systems: "karmada", Placed: new(int32(2)), Delivered: new(int32(2)), Running: new(int32(0)),
		}))))
		Eventually(measured).WithArguments(p.Name).Should(Equal(map[string]float64{
			metrics.DeliveryDelivered: 2, metrics.DeliveryDelivering: 0, metrics.DeliveryFailed: 0, metrics.DeliveryRunning: 0, metrics.DeliveryNotRunning: 2,
		}))
		first, err := only(ctx, propagationPolicy, namespace, "before")
		Expect(err).NotTo(HaveOccurred())
		Expect(first.GetOwnerReferences()).To(ConsistOf(metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "before", UID: before.GetUID()}))

		By("changing one object for each change of a decision")
		fl.move(ctx, "b", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "before").Should(Equal(fl.clusters("a")))
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "after").Should(Equal(fl.clusters("a")))
		second, err := only(ctx, propagationPolicy, namespace, "before")
		Expect(err).NotTo(HaveOccurred())
		Expect(second.GetUID()).To(Equal(first.GetUID()))

		By("never naming all clusters when none is left")
		fl.move(ctx, "a", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "before").Should(ConsistOf(ContainSubstring("no-cluster")))
		fl.move(ctx, "a", "eu")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "before").Should(Equal(fl.clusters("a")))

		By("deleting what a deleted object had")
		Expect(f.Client.Delete(ctx, before)).To(Succeed())
		Eventually(all).WithContext(ctx).WithArguments(propagationPolicy, namespace, "before").Should(BeEmpty())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))

		By("following the policy")
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Delivery.Karmada.PropagateDependencies = true })
		Eventually(only).WithContext(ctx).WithArguments(propagationPolicy, namespace, "after").
			Should(HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("propagateDeps", true))))
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Delivery.Karmada.PropagateDependencies = false })
		Eventually(only).WithContext(ctx).WithArguments(propagationPolicy, namespace, "after").
			ShouldNot(HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("propagateDeps", true))))
		f.DeletePolicy(ctx, p.Name)
		Eventually(all).WithContext(ctx).WithArguments(propagationPolicy, namespace, "after").Should(BeEmpty())
		Eventually(measured).WithArguments(p.Name).Should(BeEmpty())
	})

	It("writes nothing when nothing changes, also after the leader changed", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		every := placementv1.Delivery{
			Karmada: &placementv1.KarmadaDelivery{}, KubeFleet: &placementv1.KubeFleetDelivery{},
			PlacementDecision: &placementv1.PlacementDecisionDelivery{}, OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{},
		}
		p := fl.policy(every, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		kinds := []schema.GroupVersionKind{propagationPolicy, resourcePlacement, placementDecision, ocmPlacement, ocmDecision}
		versions := func() map[string]string {
			out := map[string]string{}
			for _, kind := range kinds {
				o, err := only(ctx, kind, namespace, "web")
				Expect(err).NotTo(HaveOccurred())
				out[kind.String()] = string(o.GetUID()) + "/" + o.GetResourceVersion()
			}
			return out
		}
		before, written := versions(), writes()

		operator.Stop()
		operator = f.StartReadyManager(ctx)
		f.AwaitWebhooks(ctx)
		// The new leader has delivered a later object, so it has looked at the earlier one, too.
		deploy(ctx, namespace, "later")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(2))
		Expect(versions()).To(Equal(before))
		// One patch for each object, and one for each status of Open Cluster Management's.
		Expect(writes() - written).To(Equal(len(kinds) + 2))
	})

	It("refers to the ClusterProfiles that were decided, and reports clusters that have none", func(ctx SpecContext) {
		east, west, namespace := newFleet(ctx, "a"), newFleet(ctx, "b"), f.NewNamespace(ctx, nil)
		reference := func(fl fleet, name string) any {
			return map[string]any{"clusterProfileRef": map[string]any{"name": fl.cluster(name), "namespace": fl.namespace}}
		}
		decisions := func(ctx context.Context) (any, error) {
			o, err := only(ctx, placementDecision, namespace, "web")
			if err != nil {
				return nil, err
			}
			return o.Object["decisions"], nil
		}
		p := east.policy(placementv1.Delivery{PlacementDecision: &placementv1.PlacementDecisionDelivery{}}, namespace)
		p.Spec.Rego = fmt.Sprintf(`package deliver

clusters := {%q, %q, %q}
`, east.cluster("a"), east.cluster("gone"), west.cluster("b"))
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(decisions).WithContext(ctx).Should(Equal([]any{reference(east, "a"), reference(west, "b")}))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "no inventory has a cluster "+east.cluster("gone")))

		By("a profile that comes, and one that makes a name ambiguous")
		profile := func(namespace, name string) *unstructured.Unstructured {
			out := framework.NewObject(framework.ClusterProfile, namespace, name, nil)
			return out
		}
		found := profile(west.namespace, east.cluster("gone"))
		Expect(f.Client.Create(ctx, found)).To(Succeed())
		DeferCleanup(f.Client.Delete, found)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		second := profile(namespace, west.cluster("b"))
		Expect(f.Client.Create(ctx, second)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, second))).To(Succeed()) })
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "cluster "+west.cluster("b")+" is ambiguous"))
		Eventually(decisions).WithContext(ctx).Should(ConsistOf(reference(east, "a"), map[string]any{"clusterProfileRef": map[string]any{"name": found.GetName(), "namespace": west.namespace}}))
		Expect(f.Client.Delete(ctx, second)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	// Consumers delete the workload of a cluster that is in no list for a moment:
	// https://github.com/open-cluster-management-io/ocm/issues/1346
	It("keeps each of more than 100 clusters in its list when others join and leave", func(ctx SpecContext) {
		var names []string
		for i := range 110 {
			names = append(names, fmt.Sprintf("b%03d", i))
		}
		fl, namespace := newFleet(ctx, append(names, "a", "z")...), f.NewNamespace(ctx, nil)
		fl.move(ctx, "a", "us")
		p := fl.policy(placementv1.Delivery{
			PlacementDecision: &placementv1.PlacementDecisionDelivery{}, OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{},
		}, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		// lists returns the list of each cluster, and the versions of the lists.
		lists := func(ctx context.Context, kind schema.GroupVersionKind, path ...string) (in map[string]string, versions map[string]string, err error) {
			found, err := all(ctx, kind, namespace, "web")
			in, versions = map[string]string{}, map[string]string{}
			for _, o := range found {
				versions[o.GetName()] = o.GetResourceVersion()
				entries, _, _ := unstructured.NestedSlice(o.Object, path[0:len(path)-1]...)
				for _, entry := range entries {
					name, _, _ := unstructured.NestedString(entry.(map[string]any), strings.Split(path[len(path)-1], ".")...)
					in[name] = o.GetName()
				}
			}
			return in, versions, err
		}
		for _, system := range []struct {
			kind schema.GroupVersionKind
			path []string
		}{{placementDecision, []string{"decisions", "clusterProfileRef.name"}}, {ocmDecision, []string{"status", "decisions", "clusterName"}}} {
			count := func(ctx context.Context) (int, error) {
				in, _, err := lists(ctx, system.kind, system.path...)
				return len(in), err
			}
			region := "eu"
			for _, want := range []int{112, 111} {
				if want == 112 {
					Eventually(count).WithContext(ctx).Should(Equal(111))
				}
				before, versions, err := lists(ctx, system.kind, system.path...)
				Expect(err).NotTo(HaveOccurred())
				Expect(versions).To(HaveLen(2))
				fl.move(ctx, "a", region)
				Eventually(count).WithContext(ctx).Should(Equal(want))
				after, now, err := lists(ctx, system.kind, system.path...)
				Expect(err).NotTo(HaveOccurred())
				delete(before, fl.cluster("a"))
				delete(after, fl.cluster("a"))
				Expect(after).To(Equal(before))
				written := 0
				for name, version := range now {
					if versions[name] != version {
						written++
					}
				}
				Expect(written).To(BeNumerically("<=", 2))
				region = "us"
			}
		}
	})

	// Seen with ManifestWorkReplicaSets of Open Cluster Management: one whose Placement exists without decisions deletes the workload from
	// all clusters, and one without a Placement keeps it.
	It("writes decisions before the Placement that refers to them, and leaves them when it stops", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		written, requests := 0, func() (order []string) {
			for _, request := range patches.By(deliverer.FieldManager, "/namespaces/"+namespace+"/") {
				kind := strings.Split(strings.SplitN(request.Path, "/namespaces/"+namespace+"/", 2)[1], "/")
				order = append(order, strings.Join(slices.Delete(kind, 1, 2), "/"))
			}
			return order
		}
		for _, want := range [][]string{
			{"placementdecisions", "placementdecisions/status", "placements", "placements/status"},
			{"placements", "placements/status"},
		} {
			written += len(want)
			Eventually(requests).Should(HaveLen(written))
			Expect(requests()[written-len(want):]).To(Equal(want))
			Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))

			By("switching delivery off and on")
			f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeDryRun })
			Eventually(all).WithContext(ctx).WithArguments(ocmPlacement, namespace, "web").Should(BeEmpty())
			f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeEnforce })
		}
	})

	It("writes no Placement while its decisions can't be written", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		foreign := framework.NewObject(ocmDecision, namespace, delivery.NameOf(delivery.Object{GroupVersionKind: framework.Deployment, Namespace: namespace, Name: "web"})+"-decision-1", nil)
		Expect(f.Client.Create(ctx, foreign)).To(Succeed())
		p := fl.policy(placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonForeignObject, foreign.GetName()))
		Expect(all(ctx, ocmPlacement, namespace, "web")).To(BeEmpty())
		Expect(f.Client.Delete(ctx, foreign)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	// Each move within ten minutes of the last one delayed the next by up to minutes on the real system.
	It("counts no move of its own as the change of another client", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		decided := func(ctx context.Context) ([]string, error) {
			o, err := only(ctx, ocmDecision, namespace, "web")
			if err != nil {
				return nil, err
			}
			var out []string
			entries, _, _ := unstructured.NestedSlice(o.Object, "status", "decisions")
			for _, entry := range entries {
				name, _, _ := unstructured.NestedString(entry.(map[string]any), "clusterName")
				out = append(out, name)
			}
			return out, nil
		}
		for i := range 10 {
			want := fl.clusters([]string{"a", "b"}[i%2])
			text, err := json.Marshal(want)
			Expect(err).NotTo(HaveOccurred())
			asked := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, placementv1.ClustersAnnotation, text)
			Expect(f.Client.Patch(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil), client.RawPatch(types.MergePatchType, asked))).To(Succeed())
			Eventually(decided).WithContext(ctx).Should(Equal(want))
		}
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	// Karmada's webhook removes fields that are false from what it decodes, and sets others.
	It("does not fight with what a system drops or changes in the same request, and restores what others change at once", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		mutation := func(expression string) admissionregistrationv1.Mutation {
			return admissionregistrationv1.Mutation{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression}}
		}
		webhook := &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("defaulting")},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{propagationPolicy.Group}, APIVersions: []string{"*"}, Resources: []string{"propagationpolicies"}},
					}}},
				},
				Mutations: []admissionregistrationv1.Mutation{
					mutation(`has(object.spec.propagateDeps) ? [JSONPatch{op: "remove", path: "/spec/propagateDeps"}] : []`),
					mutation(`[JSONPatch{op: "add", path: "/spec/placement/replicaScheduling/replicaSchedulingType", value: "Divided"}]`),
					mutation(`[JSONPatch{op: "add", path: "/spec/schedulerName", value: "default-scheduler"}]`),
				},
			},
		}
		Expect(f.Client.Create(ctx, webhook)).To(Succeed())
		binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: webhook.Name},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: webhook.Name},
		}
		Expect(f.Client.Create(ctx, binding)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(f.Client.Delete(ctx, binding)).To(Succeed())
			Expect(f.Client.Delete(ctx, webhook)).To(Succeed())
		})
		Eventually(func(g Gomega, ctx context.Context) {
			probe := framework.NewObject(propagationPolicy, namespace, "probe", nil)
			probe.Object["spec"] = map[string]any{
				"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
				"placement":         map[string]any{"replicaScheduling": map[string]any{}},
			}
			g.Expect(f.Client.Create(ctx, probe, client.DryRunAll)).To(Succeed())
			g.Expect(probe.Object["spec"]).To(HaveKey("schedulerName"))
		}).WithContext(ctx).Should(Succeed())

		p := fl.policy(placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{PropagateDependencies: true}}, namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		Expect(rival{namespace: namespace, name: delivery.NameOf(delivery.ObjectOf(web))}.take(ctx, web)).To(Succeed(), "Karmada follows Berth's policy, however long the moves take")
		for i := range 6 {
			fl.move(ctx, "b", []string{"us", "eu"}[i%2])
			want := fl.clusters("a", "b")
			if i%2 == 0 {
				want = fl.clusters("a")
			}
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(want))
		}
		bind(ctx, web, fl.clusters("a", "b"), fl.clusters("a", "b")...)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		before := writes()
		annotate := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/note":"a"}}}`))
		Expect(f.Client.Patch(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil), annotate)).To(Succeed())
		other := deploy(ctx, namespace, "other")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(2))
		Expect(patches.By(deliverer.FieldManager, "/"+delivery.NameOf(delivery.ObjectOf(other)))).NotTo(BeEmpty())
		// The new object alone is written: applied, and set where the API server answered something else.
		Expect(writes() - before).To(BeNumerically("<=", 2))

		By("restoring the clusters")
		o, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(unstructured.SetNestedStringSlice(o.Object, []string{"elsewhere"}, "spec", "placement", "clusterAffinity", "clusterNames")).To(Succeed())
		Expect(f.Client.Update(ctx, o)).To(Succeed())
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
	})

	It("says which policy of Karmada holds an object instead of Berth's", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		// The policies of Karmada held the objects before Berth delivered them.
		byLabel, byKind := deploy(ctx, namespace, "by-label"), deploy(ctx, namespace, "by-kind")
		Expect(rival{namespace: namespace, name: "other"}.take(ctx, byLabel)).To(Succeed())
		Expect(rival{name: "catch-all"}.take(ctx, byKind)).To(Succeed())
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		isHeld := func(by string) {
			GinkgoHelper()
			Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
				Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, by+" holds the placed object in Karmada, so that the object that Berth delivers has no effect"))
		}
		isHeld("deployments.apps " + namespace + "/by-kind: ClusterPropagationPolicy catch-all")
		Expect(rival{name: "catch-all"}.release(ctx, byKind)).To(Succeed())
		Expect(rival{namespace: namespace, name: delivery.NameOf(delivery.ObjectOf(byKind))}.take(ctx, byKind)).To(Succeed())
		isHeld("deployments.apps " + namespace + "/by-label: PropagationPolicy " + namespace + "/other")
		Expect(rival{namespace: namespace, name: "other"}.release(ctx, byLabel)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(2))
	})

	It("restores what another client changed or deleted", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		o, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(unstructured.SetNestedStringSlice(o.Object, []string{"elsewhere"}, "spec", "placement", "clusterAffinity", "clusterNames")).To(Succeed())
		Expect(f.Client.Update(ctx, o)).To(Succeed())
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Expect(f.Client.Delete(ctx, o)).To(Succeed())
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
	})

	It("never changes the object of another client, and says whose it is", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		ours, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeDryRun })
		Eventually(all).WithContext(ctx).WithArguments(propagationPolicy, namespace, "web").Should(BeEmpty())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDryRunMode))

		foreign := framework.NewObject(propagationPolicy, namespace, ours.GetName(), nil)
		foreign.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}
		Expect(f.Client.Create(ctx, foreign, client.FieldOwner("rival"))).To(Succeed())
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeEnforce })
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonForeignObject, ours.GetName(), "written by rival"))
		Eventually(measured).WithArguments(p.Name).Should(And(HaveKeyWithValue(metrics.DeliveryDelivered, 0.0), HaveKeyWithValue(metrics.DeliveryFailed, 1.0)))
		stored, err := f.Get(ctx, propagationPolicy, namespace, foreign.GetName())
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.GetResourceVersion()).To(Equal(foreign.GetResourceVersion()))
		Eventually(f.MustKubectl).WithContext(ctx).WithArguments("", "get", "events", "--all-namespaces", "--field-selector", "reason=PlacementDeliveryFailed").
			Should(And(MatchRegexp(p.Name+" +ForeignObject: 0 of 1 placed objects are delivered"), Not(ContainSubstring(ours.GetName()))))

		Expect(f.Client.Delete(ctx, foreign)).To(Succeed())
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("does not wait for an object that is being deleted and that a finalizer holds", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		hold := func(name string) *unstructured.Unstructured {
			GinkgoHelper()
			o := deploy(ctx, namespace, name)
			finalizers := func(ctx context.Context, list ...string) error {
				base := o.DeepCopy()
				o.SetFinalizers(list)
				return f.Client.Patch(ctx, o, client.MergeFrom(base))
			}
			Expect(finalizers(ctx, "example.com/hold")).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(finalizers(ctx)).To(Succeed()) })
			return o
		}
		Expect(f.Client.Delete(ctx, hold("before"))).To(Succeed())
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		later := hold("later")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(2))
		Expect(f.Client.Delete(ctx, later)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("waits for the system's CRDs, and continues when they come", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		framework.KarmadaPolicies.Uninstall(ctx, f)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotServed, "propagationpolicies.policy.karmada.io", "install Karmada"))
		framework.KarmadaPolicies.Install(ctx, f)
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("follows the labels of namespaces, also where the object does not change", func(ctx SpecContext) {
		fl := newFleet(ctx, "a")
		label := map[string]string{"example.com/fleet": fl.label}
		namespace := f.NewNamespace(ctx, label)
		placing := fl.policy(placementv1.Delivery{}, namespace)
		placing.Spec.Delivery = nil
		f.CreateReadyPolicy(ctx, placing)
		// The policy decides nothing: it delivers what the other one places.
		p := framework.NewPolicy(framework.NewName("deliver"), `package deliver

errors contains "no" if input.metadata.name == "nobody"`, "apps", "deployments")
		p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: label}
		p.Spec.Delivery = &toKarmada
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		f.MustKubectl(ctx, "", "label", "namespace", namespace, "example.com/fleet-")
		Eventually(all).WithContext(ctx).WithArguments(propagationPolicy, namespace, "web").Should(BeEmpty())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(0))
		f.MustKubectl(ctx, "", "label", "namespace", namespace, "example.com/fleet="+fl.label)
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		stored, err := f.Get(ctx, framework.Deployment, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.GetGeneration()).To(Equal(web.GetGeneration()))
		Expect(stored.GetResourceVersion()).To(Equal(web.GetResourceVersion()))
	})

	It("warns at apply about a delivery without effect", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("deliver"), `package deliver

labels := {"a": "b"}`, "apps", "deployments", "nowhere")
		p.Spec.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
		text := f.MustKubectl(ctx, framework.PolicyManifest(p), "apply", "--dry-run=server", "-f", "-")
		Expect(text).To(ContainSubstring("spec.delivery: the policy has no Rego rule named clusters"))
	})

	It("writes once for each affected object when a cluster leaves, and nothing when a leader starts", func(ctx SpecContext) {
		objects := budget.Size(60, 200)
		fl, namespace, other := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		narrow := newFleet(ctx, "c")
		// Karmada follows Berth's policy for an object at once: a slow machine is not to see that it does not.
		deployTaken := func(namespace, name string) {
			o := framework.NewObject(framework.Deployment, namespace, name, nil)
			rival{namespace: namespace, name: delivery.NameOf(delivery.ObjectOf(o))}.put(o)
			Expect(f.Client.Create(ctx, o)).To(Succeed())
		}
		f.CreateReadyPolicy(ctx, narrow.policy(toKarmada, other))
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		for i := range objects {
			deployTaken(namespace, fmt.Sprintf("web-%d", i))
		}
		deployTaken(other, "untouched")
		Eventually(clustersIn).WithContext(ctx).WithArguments(other, "untouched").Should(Equal(narrow.clusters("c")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(objects))
		written := writes()
		fl.move(ctx, "b", "us")
		Eventually(func(ctx context.Context) (int, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(propagationPolicy.GroupVersion().WithKind("PropagationPolicyList"))
			if err := f.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return 0, err
			}
			moved := 0
			for _, o := range list.Items {
				names, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "placement", "clusterAffinity", "clusterNames")
				if slices.Equal(names, fl.clusters("a")) {
					moved++
				}
			}
			return moved, nil
		}).WithContext(ctx).Should(Equal(objects))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(objects))
		Expect(writes() - written).To(Equal(objects))

		By("starting a leader with nothing to do")
		written = writes()
		operator.Stop()
		operator = f.StartReadyManager(ctx)
		f.AwaitWebhooks(ctx)
		// Before the new leader counts a later object, it has read all earlier ones.
		deployTaken(namespace, "later")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(objects + 1))
		Expect(writes() - written).To(Equal(1))
	})
})

func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}
