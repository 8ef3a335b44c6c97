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

package owners_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

func clustersOf(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[placementv1.ClustersAnnotation]
}

// only returns the only object of a kind that a controller made of an object.
func only(ctx context.Context, namespace string, kind schema.GroupVersionKind, owner *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found, err := madeOf(ctx, namespace, []schema.GroupVersionKind{kind}, owner)
	if err == nil && len(found) != 1 {
		return nil, fmt.Errorf("%d objects of kind %s are made of %s", len(found), kind.Kind, owner.GetName())
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// setReplicas sets the number of pods of a workload of the builders, which have none.
func setReplicas(o *unstructured.Unstructured, n int64) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(unstructured.SetNestedField(o.Object, n, "spec", "replicas")).To(Succeed())
	return o
}

var _ = Describe("What a controller makes of a workload", func() {
	It("has the workload's clusters, and is not delivered", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b", "c", "d", "e", "f"), f.NewNamespace(ctx, nil)
		p := fl.policy("", workloads, namespace)
		p.Spec.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
		f.CreateReadyPolicy(ctx, p)

		var roots []string
		var objects []*unstructured.Unstructured
		create := func(o *unstructured.Unstructured) {
			GinkgoHelper()
			Expect(f.Client.Create(ctx, o)).To(Succeed())
			Expect(clustersOf(o)).NotTo(BeEmpty())
			objects, roots = append(objects, o), append(roots, o.GetKind()+"/"+o.GetName())
		}
		for i := range 5 {
			create(setReplicas(framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("web-%d", i), nil), 1))
			create(newCronJob(namespace, fmt.Sprintf("nightly-%d", i)))
		}
		create(setReplicas(framework.NewObject(statefulSet, namespace, "db", nil), 1))
		agent := framework.NewObject(daemonSet, namespace, "agent", nil)
		unstructured.RemoveNestedField(agent.Object, "spec", "replicas")
		create(agent)
		for i := range 5 {
			f.MustKubectl(ctx, "", "create", "job", "-n", namespace, fmt.Sprintf("now-%d", i), fmt.Sprintf("--from=cronjob/nightly-%d", i))
		}

		for _, o := range objects {
			kinds := map[string][]schema.GroupVersionKind{
				"Deployment": {framework.ReplicaSet}, "CronJob": {job}, "StatefulSet": {revision, pod}, "DaemonSet": {revision},
			}[o.GetKind()]
			for _, kind := range kinds {
				made, err := (*unstructured.Unstructured)(nil), error(nil)
				Eventually(func(ctx context.Context) error { made, err = only(ctx, namespace, kind, o); return err }).WithContext(ctx).Should(Succeed())
				Expect(clustersOf(made)).To(Equal(clustersOf(o)), "%s %s of %s", kind.Kind, made.GetName(), o.GetName())
				if kind == framework.ReplicaSet {
					var one *unstructured.Unstructured
					Eventually(func(ctx context.Context) error { one, err = only(ctx, namespace, pod, made); return err }).WithContext(ctx).Should(Succeed())
					Expect(clustersOf(one)).To(Equal(clustersOf(o)), "Pod %s", one.GetName())
				}
			}
		}
		slices.Sort(roots)
		Eventually(delivered).WithContext(ctx).WithArguments(namespace).Should(Equal(roots))
		Consistently(delivered).WithContext(ctx).WithArguments(namespace).WithTimeout(consistent).Should(Equal(roots))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).Should(HaveField("Status", metav1.ConditionTrue))
		out, err := f.Kubectl(ctx, "", "berth", "delivery", "render", "-n", namespace, "replicaset", firstOf(ctx, namespace, objects[0]))
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("Deployment web-0, which controls the object, is delivered in its place"))
	})

	It("is delivered itself while the policy does not match the workload", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy("", workloads, namespace)
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}}
		p.Spec.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
		f.CreateReadyPolicy(ctx, p)
		web := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, web)).To(Succeed())
		Eventually(delivered).WithContext(ctx).WithArguments(namespace).Should(ConsistOf(HavePrefix("ReplicaSet/web-")))
		f.MustKubectl(ctx, "", "label", "deployment", "web", "-n", namespace, "app=nginx")
		Eventually(delivered).WithContext(ctx).WithArguments(namespace).Should(Equal([]string{"Deployment/web"}))
	})

	It("goes with a workload that is kept where it is", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(", prefer: [{label: example.com/name, operator: In, values: [b], weight: 1}]", workloads, namespace)
		p.Spec.Remediation.Mode = placementv1.RemediationApproved
		f.CreateReadyPolicy(ctx, p)
		web := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, web)).To(Succeed())
		Expect(clustersOf(web)).To(Equal(fl.list("a")))
		Eventually(only).WithContext(ctx).WithArguments(namespace, framework.ReplicaSet, web).Should(HaveField("Object", Not(BeNil())))

		By("rolling it out while the policy would choose a better cluster, and while it allows the present one no more")
		for i, change := range []func(){func() { fl.add(ctx, "b") }, func() { fl.mark(ctx, "a", "forbidden=yes") }} {
			change()
			Eventually(func(ctx context.Context) error {
				return f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("new-%d", i), map[string]string{placementv1.ClustersAnnotation: fl.list("a")}))
			}).WithContext(ctx).Should(MatchError(ContainSubstring("no cluster is left")))
			f.MustKubectl(ctx, "", "set", "image", "-n", namespace, "deployment/web", fmt.Sprintf("nginx=nginx:%d", i))
			Eventually(madeOf).WithContext(ctx).WithArguments(namespace, []schema.GroupVersionKind{framework.ReplicaSet}, web).Should(HaveLen(2 + i))
			sets, err := madeOf(ctx, namespace, []schema.GroupVersionKind{framework.ReplicaSet}, web)
			Expect(err).NotTo(HaveOccurred())
			for _, set := range sets {
				Expect(clustersOf(&set)).To(Equal(fl.list("a")))
			}
		}

		By("keeping no ReplicaSet there that brings more pods than the workload has, or had another template when it came")
		forged := func(name string, list map[string]string) *unstructured.Unstructured {
			stored, err := f.Get(ctx, framework.Deployment, namespace, "web")
			Expect(err).NotTo(HaveOccurred())
			o := framework.NewObject(framework.ReplicaSet, namespace, name, list)
			o.Object["spec"].(map[string]any)["template"] = stored.Object["spec"].(map[string]any)["template"]
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: stored.GetUID(), Controller: new(true)}})
			return o
		}
		there := map[string]string{placementv1.ClustersAnnotation: fl.list("a")}
		Expect(f.Client.Create(ctx, setReplicas(forged("many", there), 2))).To(MatchError(ContainSubstring("no cluster is left")))
		evil := forged("evil", nil)
		Expect(unstructured.SetNestedField(evil.Object, "other", "spec", "template", "spec", "schedulerName")).To(Succeed())
		Expect(f.Client.Create(ctx, evil)).To(Succeed())
		Expect(clustersOf(evil)).To(Equal(fl.list("b")))
		evil.SetAnnotations(there)
		Expect(f.Client.Update(ctx, evil)).To(MatchError(ContainSubstring("no cluster is left")))
		Expect(f.Client.Delete(ctx, evil)).To(Succeed())

		By("saying so")
		newest, err := f.Kubectl(ctx, "", "get", "replicaset", "-n", namespace, "--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={.items[-1:].metadata.name}")
		Expect(err).NotTo(HaveOccurred())
		Expect(f.MustKubectl(ctx, "", "berth", "explain", "-n", namespace, "replicaset/"+newest)).To(ContainSubstring("the object has the clusters of Deployment web, which controls it"))

		By("keeping the record that the controller copies, so that it need not write it again")
		stored, err := f.Get(ctx, framework.Deployment, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		sets, err := madeOf(ctx, namespace, []schema.GroupVersionKind{framework.ReplicaSet}, web)
		Expect(err).NotTo(HaveOccurred())
		for _, set := range sets {
			Expect(set.GetAnnotations()).To(HaveKeyWithValue(placementv1.RequestedAnnotation, stored.GetAnnotations()[placementv1.RequestedAnnotation]))
		}
	})

	It("is placed like any other object where the claim is forged", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, fl.policy(", prefer: [{label: example.com/name, operator: In, values: [a], weight: 1}]", workloads, namespace))
		web := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, web)).To(Succeed())
		Expect(clustersOf(web)).To(Equal(fl.list("a")))
		template, _, err := unstructured.NestedMap(web.Object, "spec", "template")
		Expect(err).NotTo(HaveOccurred())
		forged := func(name string, clusters string, change func(o *unstructured.Unstructured)) error {
			o := framework.NewObject(framework.ReplicaSet, namespace, name, map[string]string{placementv1.ClustersAnnotation: clusters})
			labels := map[string]any{"app": "nginx", "pod-template-hash": name}
			mine := maps.Clone(template)
			mine["metadata"] = map[string]any{"labels": labels}
			o.Object["spec"] = map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": labels}, "template": mine}
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: web.GetUID(), Controller: new(true)}})
			change(o)
			return f.Client.Create(ctx, o)
		}
		for name, change := range map[string]func(o *unstructured.Unstructured){
			"other-list": func(*unstructured.Unstructured) {},
			"other-template": func(o *unstructured.Unstructured) {
				Expect(unstructured.SetNestedField(o.Object, "other", "spec", "template", "spec", "schedulerName")).To(Succeed())
			},
			"other-uid": func(o *unstructured.Unstructured) {
				o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "none", Controller: new(true)}})
			},
			"no-owner": func(o *unstructured.Unstructured) {
				o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "none", UID: "none", Controller: new(true)}})
			},
		} {
			Expect(forged(name, fl.list("b"), change)).To(And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring("no cluster is left"))), name)
		}

		By("giving a real copy another list")
		var set *unstructured.Unstructured
		Eventually(func(ctx context.Context) error {
			set, err = only(ctx, namespace, framework.ReplicaSet, web)
			return err
		}).WithContext(ctx).Should(Succeed())
		set.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: fl.list("b")})
		Expect(f.Client.Update(ctx, set)).To(And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring("no cluster is left"))))

		By("forbidding what the policy forbids, also if the controller has it")
		allowed := fl.policy("", []placementv1.ResourceRule{{APIGroups: []string{widget.Group}, APIVersions: []string{"v1"}, Resources: []string{"*"}}}, namespace)
		f.CreateReadyPolicy(ctx, allowed)
		parent := framework.NewObject(widget, namespace, "w", nil)
		Expect(f.Client.Create(ctx, parent)).To(Succeed())
		has, other := "a", "b"
		if clustersOf(parent) != fl.list("a") {
			has, other = "b", "a"
		}
		child := func(name, clusters string) error {
			o := framework.NewObject(part, namespace, name, map[string]string{placementv1.ClustersAnnotation: clusters})
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "owners.example.com/v1", Kind: "Widget", Name: "w", UID: parent.GetUID(), Controller: new(true)}})
			return f.Client.Create(ctx, o)
		}
		for i := range 6 {
			Expect(child(fmt.Sprintf("copy-%d", i), fl.list(has))).To(Succeed(), "the controller's list is eligible, whatever the rank of the object")
		}
		for i := range 6 {
			Eventually(func() error { return child(fmt.Sprintf("forged-%d", i), fl.list("c")) }).Should(MatchError(ContainSubstring("in no inventory")))
		}
		f.ChangePolicy(ctx, allowed.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = placementv1.RemediationManual })
		f.AwaitReady(ctx, allowed.Name)
		fl.mark(ctx, has, "forbidden=yes")
		Eventually(func() error { return child("late", fl.list(has)) }).Should(MatchError(ContainSubstring("this policy allows " + other + "-" + fl.label)))
	})
})

// firstOf returns the name of the only ReplicaSet of a Deployment.
func firstOf(ctx context.Context, namespace string, deployment *unstructured.Unstructured) string {
	GinkgoHelper()
	set, err := only(ctx, namespace, framework.ReplicaSet, deployment)
	Expect(err).NotTo(HaveOccurred())
	return set.GetName()
}
