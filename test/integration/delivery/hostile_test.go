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
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// weightsIn returns the weights of the clusters in the only PropagationPolicy of an object.
func weightsIn(ctx context.Context, namespace, owner string) ([]int64, error) {
	o, err := only(ctx, propagationPolicy, namespace, owner)
	if err != nil {
		return nil, err
	}
	list, _, err := unstructured.NestedSlice(o.Object, "spec", "placement", "replicaScheduling", "weightPreference", "staticWeightList")
	var out []int64
	for _, item := range list {
		out = append(out, item.(map[string]any)["weight"].(int64))
	}
	return out, err
}

// scale sets the number of replicas of an object.
func scale(ctx context.Context, o *unstructured.Unstructured, replicas int64) {
	GinkgoHelper()
	base := o.DeepCopy()
	Expect(unstructured.SetNestedField(o.Object, replicas, "spec", "replicas")).To(Succeed())
	Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(Succeed())
}

// orphan deletes an object that has a delivered object, and plays the garbage collector for a client that orphans dependents.
func orphan(ctx context.Context, o *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(f.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	delivered, err := only(ctx, propagationPolicy, o.GetNamespace(), o.GetName())
	Expect(err).NotTo(HaveOccurred())
	base := delivered.DeepCopy()
	delivered.SetOwnerReferences(nil)
	Expect(f.Client.Patch(ctx, delivered, client.MergeFrom(base))).To(Succeed())
	Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	Expect(o.GetFinalizers()).To(ConsistOf(metav1.FinalizerOrphanDependents))
	base = o.DeepCopy()
	o.SetFinalizers(nil)
	Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(Succeed())
	return delivered
}

// These specs attack delivery as a user with the ClusterRole edit in one namespace. docs/security.md names the guarantee that each
// of them shows.
var _ = Describe("A developer", func() {
	It("does not divide replicas, and keeps no cluster, by shares of their own", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		p.Spec.Delivery.Replicas = &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly, MaxPerCluster: new(int32(3))}
		f.CreateReadyPolicy(ctx, p)
		o := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(unstructured.SetNestedField(o.Object, int64(4), "spec", "replicas")).To(Succeed())
		o.SetAnnotations(map[string]string{placementv1.ClusterSharesAnnotation: `{"` + fl.cluster("a") + `":{"replicas":4}}`})
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Expect(o.GetAnnotations()).To(HaveKeyWithValue(placementv1.ClusterSharesAnnotation, "{}"))
		Eventually(weightsIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal([]int64{2, 2}))

		base := o.DeepCopy()
		o.SetAnnotations(map[string]string{placementv1.ClusterSharesAnnotation: "no shares"})
		Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(Succeed())
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Delivery.Replicas.MaxPerCluster = new(int32(9)) })
		fl.move(ctx, "b", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
	})

	It("keeps no cluster by more replicas than the clusters may have", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		p.Spec.Delivery.Replicas = &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly, MaxPerCluster: new(int32(3))}
		f.CreateReadyPolicy(ctx, p)
		o := deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		scale(ctx, o, 100)
		fl.move(ctx, "b", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "only 3 of the 100 replicas"))

		By("staying where it is if it is in no cluster that it has to leave")
		before, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		fl.move(ctx, "b", "eu")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "only 6 of the 100 replicas"))
		after, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(after.GetResourceVersion()).To(Equal(before.GetResourceVersion()))
	})

	It("gives no new object the clusters of an earlier one whose dependents they orphaned", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "example.com/at-home", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		f.CreateReadyPolicy(ctx, p)
		o := deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		left := orphan(ctx, o)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(0))
		fl.move(ctx, "b", "us")

		By("taking it over for an object that the policy delivers")
		again := deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		taken, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(taken.GetUID()).To(Equal(left.GetUID()))
		Expect(taken.GetOwnerReferences()).To(ConsistOf(HaveField("UID", again.GetUID())))

		By("deleting it for an object that no policy delivers")
		left = orphan(ctx, again)
		outside := framework.NewObject(framework.Deployment, namespace, "web", nil)
		outside.SetLabels(map[string]string{"example.com/at-home": ""})
		Expect(f.Client.Create(ctx, outside)).To(Succeed())
		Eventually(func(ctx context.Context) error {
			_, err := f.Get(ctx, propagationPolicy, namespace, left.GetName())
			return err
		}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})

	It("keeps nothing delivered by claiming a controller that does not exist", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		p.Spec.Match.ResourceRules = append(p.Spec.Match.ResourceRules, placementv1.ResourceRule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}})
		f.CreateReadyPolicy(ctx, p)
		// The garbage collector can't find an object of a version that does not exist, and so does not delete what claims it.
		claims := map[string]metav1.OwnerReference{
			"version": {APIVersion: "apps/v9", Kind: "Deployment", Name: "none", UID: "u"},
			"name":    {APIVersion: "apps/v1", Kind: "Deployment", Name: "none", UID: "u"},
			"uid":     {APIVersion: "apps/v1", Kind: "Deployment", Name: "name", UID: "u"},
			"pod":     {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "none-hash", UID: "u"},
		}
		for name, claim := range claims {
			o := framework.NewObject(framework.Deployment, namespace, name, nil)
			if name == "pod" {
				o.SetKind("Pod")
				o.SetAPIVersion("v1")
				o.SetLabels(map[string]string{"pod-template-hash": "hash"})
				o.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}
			}
			Expect(f.Client.Create(ctx, o)).To(Succeed())
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, name).Should(Equal(fl.clusters("a", "b")))
			base := o.DeepCopy()
			claim.Controller = new(true)
			o.SetOwnerReferences([]metav1.OwnerReference{claim})
			Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(Succeed())
		}
		fl.move(ctx, "b", "us")
		for name := range claims {
			Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, name).Should(Equal(fl.clusters("a")), name)
		}
	})

	// Karmada aggregates its ClusterRole karmada-edit, which permits to write bindings with their status, to edit:
	// https://github.com/karmada-io/karmada/blob/master/artifacts/deploy/admin-clusterrole-aggregation.yaml. Karmada brings a workload to the
	// clusters of each binding that names it.
	It("neither hides a cluster nor passes a workload off as running by bindings of their own", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		carryWork(ctx, web, fl.cluster("a"))
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))

		By("bringing it to another cluster")
		forge(ctx, web, "web-z", fl.clusters("b"), fl.cluster("b"))
		stray := "ResourceBinding web-z brings it to cluster " + fl.cluster("b") + ", too: delete ResourceBinding web-z"
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, stray))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, stray))
		Expect(f.Client.Delete(ctx, framework.NewObject(resourceBinding, namespace, "web-z", nil))).To(Succeed())
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))

		By("reporting it as healthy where it is not")
		bind(ctx, web, fl.clusters("a"))
		forge(ctx, web, "a-web", fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("a")+": its health is Unhealthy"))
		Consistently(runningCondition).WithContext(ctx).WithArguments(p.Name).WithTimeout(time.Second).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("a")+": its health is Unhealthy"))
	})

	It("does not exempt a placement object from policies by the label of delivered ones", func(ctx SpecContext) {
		const guard = "docs/examples/delivered-label.yaml"
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		forged := func(labels map[string]string) *unstructured.Unstructured {
			o := framework.NewObject(propagationPolicy, namespace, "forged", nil)
			o.SetLabels(labels)
			o.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}
			return o
		}
		label := map[string]string{placementv1.DeliveredLabel: "false"}
		attempt := func(ctx context.Context) string {
			return fmt.Sprint(f.Client.Create(ctx, forged(label), client.DryRunAll))
		}
		f.MustKubectl(ctx, "", "apply", "-f", guard)
		DeferCleanup(func(ctx SpecContext) {
			f.MustKubectl(ctx, "", "delete", "-f", guard)
			// The API server enforces it for a while.
			Eventually(attempt).WithContext(ctx).ShouldNot(ContainSubstring("only Berth may write the spec"))
		})
		Eventually(attempt).WithContext(ctx).Should(ContainSubstring("only Berth may write the spec"))
		o := forged(nil)
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		base := o.DeepCopy()
		o.SetLabels(label)
		Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(MatchError(ContainSubstring("only Berth may write the spec")))

		By("letting other clients write beside the spec, and Berth write all")
		o, err := only(ctx, propagationPolicy, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		base = o.DeepCopy()
		o.SetAnnotations(map[string]string{"example.com/seen": "true"})
		Expect(f.Client.Patch(ctx, o, client.MergeFrom(base))).To(Succeed())
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Delivery.Karmada.PropagateDependencies = true })
		Eventually(only).WithContext(ctx).WithArguments(propagationPolicy, namespace, "web").
			Should(HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("propagateDeps", true))))
	})
})

// karmadaValidation stands for the webhook of Karmada in one namespace. It also refuses changes of the spec of an object with an
// annotation.
const karmadaValidation = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules: [{apiGroups: [policy.karmada.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [propagationpolicies]}]
  validations:
  - expression: "!has(object.spec.placement) || !has(object.spec.placement.clusterAffinity) || !has(object.spec.placement.clusterAffinities)"
    message: clusterAffinities can not co-exist with clusterAffinity
  - expression: "oldObject == null || !('example.com/frozen' in oldObject.metadata.?annotations.orValue({})) || object.spec == oldObject.spec"
    message: the spec is frozen
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`

var _ = Describe("A user who may write delivered objects", func() {
	const theirs = `"clusterAffinity":{"clusterNames":["theirs"]}`
	delivered := func(ctx context.Context, kind schema.GroupVersionKind, namespace, objectName string) (content map[string]any, err error) {
		o, err := f.Get(ctx, kind, namespace, objectName)
		if err != nil {
			return nil, err
		}
		content = map[string]any{"labels": o.GetLabels()[placementv1.DeliveredLabel], "annotations": o.GetAnnotations(), "status": o.Object["status"], "decisions": o.Object["decisions"]}
		for _, owner := range o.GetOwnerReferences() {
			if owner.Kind == "Deployment" {
				content["owner"] = string(owner.UID)
			}
		}
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		for _, field := range []string{"placement", "policy", "resourceSelectors"} {
			content[field] = spec[field]
		}
		return content, nil
	}
	write := func(ctx context.Context, kind schema.GroupVersionKind, namespace, objectName, patch string, options ...client.PatchOption) {
		GinkgoHelper()
		o := framework.NewObject(kind, namespace, objectName, nil)
		Expect(f.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)), append(options, client.FieldOwner("rival"))...)).To(Succeed())
	}
	placed := func(ctx context.Context, kind schema.GroupVersionKind, namespace, owner string) (objectName string, before map[string]any) {
		GinkgoHelper()
		Eventually(only).WithContext(ctx).WithArguments(kind, namespace, owner).ShouldNot(BeNil())
		o, err := only(ctx, kind, namespace, owner)
		Expect(err).NotTo(HaveOccurred())
		before, err = delivered(ctx, kind, namespace, o.GetName())
		Expect(err).NotTo(HaveOccurred())
		return o.GetName(), before
	}

	It("keeps nothing in them that places the workload, whatever the API server validates", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		f.MustKubectl(ctx, fmt.Sprintf(karmadaValidation, namespace), "apply", "-f", "-")
		DeferCleanup(func(ctx SpecContext) {
			f.MustKubectl(ctx, fmt.Sprintf(karmadaValidation, namespace), "delete", "-f", "-")
		})
		By("waiting for the validation")
		invalid := framework.NewObject(propagationPolicy, namespace, "invalid", nil)
		invalid.Object["spec"] = map[string]any{
			"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
			"placement": map[string]any{
				"clusterAffinity":   map[string]any{"clusterNames": []any{"a"}},
				"clusterAffinities": []any{map[string]any{"affinityName": "a", "clusterNames": []any{"a"}}},
			},
		}
		Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, invalid.DeepCopy(), client.DryRunAll) }).WithContext(ctx).
			Should(MatchError(ContainSubstring("can not co-exist")))
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		for owner, patch := range map[string]string{
			"another-affinity":   `{"spec":{"placement":{"clusterAffinity":null,"clusterAffinities":[{"affinityName":"a","clusterNames":["theirs"]}]}}}`,
			"another-constraint": `{"spec":{"placement":{"spreadConstraints":[{"spreadByField":"cluster","minGroups":1,"maxGroups":1}]}}}`,
			"an-exclusion":       `{"spec":{"placement":{"clusterAffinity":{"exclude":["` + fl.cluster("a") + `"]}}}}`,
			"more-clusters":      `{"spec":{"placement":{"clusterAffinity":{"clusterNames":["` + fl.cluster("a") + `","theirs"]}}}}`,
			"no-placement":       `{"spec":{"placement":null}}`,
			"no-label":           `{"metadata":{"labels":{"placement.berth.dev/delivered":null}},"spec":{"placement":{` + theirs + `}}}`,
			"another-label":      `{"metadata":{"labels":{"placement.berth.dev/delivered":"false"}},"spec":{"placement":{` + theirs + `}}}`,
			"no-trace":           `{"metadata":{"labels":null,"annotations":null,"ownerReferences":null,"managedFields":[{}]},"spec":{"placement":{` + theirs + `}}}`,
			"no-owner":           `{"metadata":{"ownerReferences":null},"spec":{"placement":{` + theirs + `}}}`,
			"another-owner":      `{"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Widget","name":"a","uid":"a"}]},"spec":{"placement":{` + theirs + `}}}`,
			"frozen":             `{"metadata":{"annotations":{"example.com/frozen":""}},"spec":{"placement":{` + theirs + `}}}`,
		} {
			By("writing " + owner)
			deploy(ctx, namespace, owner)
			objectName, before := placed(ctx, propagationPolicy, namespace, owner)
			write(ctx, propagationPolicy, namespace, objectName, patch)
			Eventually(delivered).WithContext(ctx).WithArguments(propagationPolicy, namespace, objectName).Should(Equal(before))
		}
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(11))

		By("leaving the fields that Berth does not write")
		deploy(ctx, namespace, "suspended")
		objectName, before := placed(ctx, propagationPolicy, namespace, "suspended")
		write(ctx, propagationPolicy, namespace, objectName,
			`{"spec":{"suspension":{"dispatching":true},"placement":{"clusterTolerations":[{"key":"a","operator":"Exists"}],"spreadConstraints":[{"spreadByField":"cluster","minGroups":1,"maxGroups":1}]}}}`)
		before["placement"].(map[string]any)["clusterTolerations"] = []any{map[string]any{"key": "a", "operator": "Exists"}}
		Eventually(delivered).WithContext(ctx).WithArguments(propagationPolicy, namespace, objectName).Should(Equal(before))
		Expect(f.Get(ctx, propagationPolicy, namespace, objectName)).To(HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("suspension", map[string]any{"dispatching": true}))))
	})

	It("keeps nothing in the objects of other systems", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, fl.policy(placementv1.Delivery{
			KubeFleet: &placementv1.KubeFleetDelivery{}, PlacementDecision: &placementv1.PlacementDecisionDelivery{}, OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{},
		}, namespace))
		deploy(ctx, namespace, "web")
		for _, attack := range []struct {
			kind        schema.GroupVersionKind
			patch       string
			subresource bool
		}{
			{kind: resourcePlacement, patch: `{"spec":{"policy":{"clusterNames":["theirs"]}},"metadata":{"labels":{"placement.berth.dev/delivered":null}}}`},
			{kind: placementDecision, patch: `{"decisions":[{"clusterProfileRef":{"name":"theirs","namespace":"x"}},{"clusterProfileRef":{"name":"more","namespace":"x"}}],"metadata":{"labels":null}}`},
			{kind: ocmPlacement, patch: `{"metadata":{"annotations":null,"labels":null}}`},
			{kind: ocmDecision, patch: `{"metadata":{"labels":null}}`},
			{kind: ocmDecision, patch: `{"status":{"decisions":[{"clusterName":"theirs","reason":""},{"clusterName":"more","reason":""}]}}`, subresource: true},
		} {
			objectName, before := placed(ctx, attack.kind, namespace, "web")
			if attack.subresource {
				o := framework.NewObject(attack.kind, namespace, objectName, nil)
				Expect(f.Client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(attack.patch)), client.FieldOwner("rival"))).To(Succeed())
			} else {
				write(ctx, attack.kind, namespace, objectName, attack.patch)
			}
			Eventually(delivered).WithContext(ctx).WithArguments(attack.kind, namespace, objectName).Should(Equal(before), attack.patch)
		}
	})

	It("keeps nothing by removing the label while no leader runs", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		objectName, before := placed(ctx, propagationPolicy, namespace, "web")
		operator.Stop()
		write(ctx, propagationPolicy, namespace, objectName, `{"metadata":{"labels":null,"ownerReferences":null},"spec":{"placement":{"clusterAffinities":[{"affinityName":"a","clusterNames":["theirs"]}]}}}`)
		operator = f.StartReadyManager(ctx)
		f.AwaitWebhooks(ctx)
		Eventually(delivered).WithContext(ctx).WithArguments(propagationPolicy, namespace, objectName).Should(Equal(before))
	})

	It("gets them if Berth's permissions are revoked first", func(ctx SpecContext) {
		const role, wide = "berth-delivery-karmada", "berth-test-wide"
		user := framework.OperatorNamespace + ":berth-controller-manager"
		may := func(ctx context.Context) string {
			out, _ := f.Kubectl(ctx, "", "auth", "can-i", "patch", "propagationpolicies.policy.karmada.io", "--as=system:serviceaccount:"+user)
			return out
		}
		grant := func(ctx context.Context) {
			GinkgoHelper()
			f.MustKubectl(ctx, "", "create", "clusterrolebinding", role, "--clusterrole="+role, "--serviceaccount="+user)
			f.MustKubectl(ctx, "", "create", "clusterrolebinding", wide, "--clusterrole=berth-dev-wide", "--serviceaccount="+user)
			Eventually(may).WithContext(ctx).Should(HavePrefix("yes"))
		}
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		objectName, before := placed(ctx, propagationPolicy, namespace, "web")
		f.MustKubectl(ctx, "", "delete", "clusterrolebinding", role, wide)
		restored := false
		DeferCleanup(func(ctx SpecContext) {
			if !restored {
				grant(ctx)
			}
		})
		Eventually(may).WithContext(ctx).Should(ContainSubstring("no"))
		write(ctx, propagationPolicy, namespace, objectName, `{"metadata":{"labels":{"placement.berth.dev/delivered":null}}}`)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonForbidden))
		f.DeletePolicy(ctx, p.Name)
		grant(ctx)
		restored = true
		before["labels"] = ""
		Consistently(delivered).WithContext(ctx).WithArguments(propagationPolicy, namespace, objectName).Should(Equal(before))
	})
})
