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

package scheduling_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

const (
	containers = `containers: [{name: a, image: a}]`
	template   = `template: {metadata: {labels: {app: a}}, spec: {nodeSelector: {disk: hdd, own: "1"}, ` + containers + `}}`
	selector   = `selector: {matchLabels: {app: a}}`
	jobTemp    = `template: {spec: {restartPolicy: Never, nodeSelector: {disk: hdd, own: "1"}, ` + containers + `}}`
)

func kind(group, name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}
}

var _ = Describe("The rule scheduling", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	selects := func(ctx context.Context, gvk schema.GroupVersionKind, name, path string, want map[string]any) {
		GinkgoHelper()
		Eventually(at).WithContext(ctx).WithArguments(gvk, namespace, name, path+".nodeSelector").Should(Equal(want))
	}

	DescribeTable("is merged into the template at admission, and put right when the policy changes",
		func(ctx SpecContext, gvk schema.GroupVersionKind, resource, path, spec string) {
			p := policy(ctx, framework.Rego(disk("ssd")), gvk.Group, resource, namespace)
			obj := object(gvk, namespace, "web", spec)
			Expect(f.Client.Create(ctx, obj)).To(Succeed())
			selects(ctx, gvk, "web", path, map[string]any{"disk": "ssd", "own": "1"})
			change(ctx, p, framework.Rego(disk("nvme"), `scheduling.tolerations := [{"key": "fast", "operator": "Exists"}]`))
			selects(ctx, gvk, "web", path, map[string]any{"disk": "nvme", "own": "1"})
			Eventually(at).WithContext(ctx).WithArguments(gvk, namespace, "web", path+".tolerations").
				Should(Equal([]any{map[string]any{"key": "fast", "operator": "Exists"}}))
			change(ctx, p, framework.Rego("labels := {}"))
			selects(ctx, gvk, "web", path, map[string]any{"disk": "hdd", "own": "1"})
			Expect(at(ctx, gvk, namespace, "web", path+".tolerations")).To(BeNil())
			By("leaving nothing in the record but earlier values")
			Expect(at(ctx, gvk, namespace, "web", "metadata.annotations")).To(HaveKeyWithValue(placementv1.RequestedAnnotation, HavePrefix(`{"signature":`)))
		},
		Entry("of a Deployment", kind("apps", "Deployment"), "deployments", "spec.template.spec", "spec: {replicas: 0, "+selector+", "+template+"}"),
		Entry("of a StatefulSet", kind("apps", "StatefulSet"), "statefulsets", "spec.template.spec", "spec: {replicas: 0, serviceName: a, "+selector+", "+template+"}"),
		Entry("of a DaemonSet", kind("apps", "DaemonSet"), "daemonsets", "spec.template.spec", "spec: {"+selector+", "+template+"}"),
		Entry("of a ReplicaSet", kind("apps", "ReplicaSet"), "replicasets", "spec.template.spec", "spec: {replicas: 0, "+selector+", "+template+"}"),
		Entry("of a ReplicationController", kind("", "ReplicationController"), "replicationcontrollers", "spec.template.spec", "spec: {replicas: 0, selector: {app: a}, "+template+"}"),
		Entry("of a PodTemplate", kind("", "PodTemplate"), "podtemplates", "template.spec", template),
		Entry("of a CronJob", kind("batch", "CronJob"), "cronjobs", "spec.jobTemplate.spec.template.spec", "spec: {schedule: 0 0 1 1 *, jobTemplate: {spec: {"+jobTemp+"}}}"),
		Entry("of a Job that is suspended and never started", job, "jobs", "spec.template.spec", "spec: {suspend: true, "+jobTemp+"}"),
		Entry("of a kind whose template is declared", training, "trainings", "spec.worker.template.spec", "spec: {worker: {"+template+"}}"),
	)

	It("is refused where nobody said where the kind has its template, and says how to", func(ctx SpecContext) {
		p := framework.NewPolicy(framework.NewName("scheduling"), framework.Rego(disk("ssd")), gadget.Group, "gadgets", namespace)
		f.CreatePolicy(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonTypeErrors, "gadgets.example.com"))
		create := func(ctx context.Context) error {
			return f.Client.Create(ctx, object(gadget, namespace, "a", "spec: {"+template+"}"), client.DryRunAll)
		}
		Eventually(create).WithContext(ctx).Should(MatchError(And(ContainSubstring("Gadget.example.com has no pod template that is known"), ContainSubstring("under podTemplates"))))
	})

	It("is merged into a Pod when it is made, priority and all, and never after", func(ctx SpecContext) {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever)}
		Expect(f.Client.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, class)).To(Succeed()) })
		p := policy(ctx, framework.Rego(disk("ssd"), fmt.Sprintf("scheduling.priorityClassName := %q", class.Name)), "", "pods", namespace)
		Expect(f.Client.Create(ctx, object(pod, namespace, "a", "spec: {nodeSelector: {own: '1'}, automountServiceAccountToken: false, "+containers+"}"))).To(Succeed())
		selects(ctx, pod, "a", "spec", map[string]any{"disk": "ssd", "own": "1"})
		Expect(at(ctx, pod, namespace, "a", "spec.priorityClassName")).To(Equal(class.Name))
		Expect(at(ctx, pod, namespace, "a", "spec.priority")).To(Equal(int64(1000)))
		Expect(at(ctx, pod, namespace, "a", "spec.preemptionPolicy")).To(Equal("Never"))
		version, err := at(ctx, pod, namespace, "a", "metadata.resourceVersion")
		Expect(err).NotTo(HaveOccurred())

		change(ctx, p, framework.Rego(disk("nvme")))
		Eventually(violations).WithContext(ctx).WithArguments(p).Should(ConsistOf(And(
			ContainSubstring("nodeSelector disk is ssd, should be nvme (immutable: delete the pod so that it is created again)"),
			ContainSubstring(fmt.Sprintf("priorityClassName is %s, should be absent", class.Name)),
		)))
		// Updates of the pod and of its status are admitted.
		Expect(f.Client.Patch(ctx, framework.NewObject(pod, namespace, "a", nil), client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`)))).To(Succeed())
		Expect(f.Client.Status().Patch(ctx, framework.NewObject(pod, namespace, "a", nil), client.RawPatch(types.MergePatchType, []byte(`{"status": {"reason": "a"}}`)))).To(Succeed())
		Expect(f.Client.SubResource("binding").Create(ctx, framework.NewObject(pod, namespace, "a", nil),
			object(kind("", "Binding"), namespace, "a", "target: {kind: Node, name: a}"))).To(Succeed())
		selects(ctx, pod, "a", "spec", map[string]any{"disk": "ssd", "own": "1"})
		Expect(at(ctx, pod, namespace, "a", "metadata.resourceVersion")).NotTo(Equal(version))
		Expect(f.Condition(ctx, p, placementv1.ConditionCompliant)).To(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations))
		reported, err := f.Policy(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(reported.Status.Remediated).To(Or(BeNil(), HaveValue(BeZero())))

		// What the pod has is what is wanted again.
		change(ctx, p, framework.Rego(disk("ssd"), fmt.Sprintf("scheduling.priorityClassName := %q", class.Name)))
		Eventually(violations).WithContext(ctx).WithArguments(p).Should(BeEmpty())
	})

	It("is nothing to report of a Pod whose selectors the API server completed", func(ctx SpecContext) {
		const term = `{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["version"]`
		p := policy(ctx, framework.Rego(`scheduling.topologySpreadConstraints := [`+term+`, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]`,
			`scheduling.affinity.podAntiAffinity := {"requiredDuringSchedulingIgnoredDuringExecution": [`+term+`, "mismatchLabelKeys": ["tenant"]}],
 "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": `+term+`}}]}`), "", "pods", namespace)
		text := "metadata: {labels: {version: '1', tenant: x}}\nspec: {automountServiceAccountToken: false, " + containers + "}"
		Expect(f.Client.Create(ctx, object(pod, namespace, "a", text))).To(Succeed())
		Expect(at(ctx, pod, namespace, "a", "spec.affinity")).To(WithTransform(func(v any) string { return fmt.Sprint(v) }, ContainSubstring("operator:NotIn")))
		f.ChangePolicy(ctx, p, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego += `
labels.b := "1"
`
		})
		Eventually(at).WithContext(ctx).WithArguments(pod, namespace, "a", "metadata.labels.b").Should(Equal("1"))
		// The status may have none yet, and have the missing label for a moment.
		Eventually(func(g Gomega, ctx context.Context) {
			g.Consistently(violations).WithContext(ctx).WithArguments(p).WithTimeout(time.Second).Should(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
	})

	It("reports a Job that has started", func(ctx SpecContext) {
		Expect(f.Client.Create(ctx, object(job, namespace, "a", "spec: {"+jobTemp+"}"))).To(Succeed())
		p := policy(ctx, framework.Rego(disk("ssd")), "batch", "jobs", namespace)
		Eventually(violations).WithContext(ctx).WithArguments(p).Should(ConsistOf(
			ContainSubstring("nodeSelector disk is hdd, should be ssd (immutable: delete the job so that it is created again)")))
		Expect(f.Client.Patch(ctx, framework.NewObject(job, namespace, "a", nil), client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`)))).To(Succeed())
		selects(ctx, job, "a", "spec.template.spec", map[string]any{"disk": "hdd", "own": "1"})
	})

	It("leaves the developer to apply the manifest again, by whichever way", func(ctx SpecContext) {
		policy(ctx, framework.Rego(disk("ssd"), `scheduling.tolerations := [{"key": "fast", "operator": "Exists"}]`,
			`scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]`),
			"apps", "deployments", namespace)
		for name, args := range map[string][]string{"client": {"apply", "-f", "-"}, "server": {"apply", "--server-side", "-f", "-"}} {
			spec := `spec: {replicas: 0, ` + selector + `, template: {metadata: {labels: {app: a}}, spec: {nodeSelector: {disk: hdd}, tolerations: [{key: own, operator: Exists}],
 affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: own, operator: Exists}]}]}}}, ` + containers + `}}}`
			text, err := yaml.Marshal(object(framework.Deployment, namespace, name, spec))
			Expect(err).NotTo(HaveOccurred())
			var last *unstructured.Unstructured
			for range 3 {
				f.MustKubectl(ctx, string(text), args...)
				obj, err := f.Get(ctx, framework.Deployment, namespace, name)
				Expect(err).NotTo(HaveOccurred())
				spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
				Expect(spec["nodeSelector"]).To(Equal(map[string]any{"disk": "ssd"}))
				Expect(spec["tolerations"]).To(HaveLen(2))
				Expect(spec["affinity"]).To(Equal(parse(`nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: own, operator: Exists}, {key: zone, operator: In, values: [a]}]}]}}`)))
				if last != nil {
					Expect(obj.GetGeneration()).To(Equal(last.GetGeneration()), name)
				}
				last = obj
			}
		}
	})

	for name, args := range map[string][]string{"client": {"apply", "-f", "-"}, "server": {"apply", "--server-side", "-f", "-"}} {
		It("leaves the developer to apply again what can't be changed any more, on the side of the "+name, func(ctx SpecContext) {
			for gvk, spec := range map[schema.GroupVersionKind]string{
				pod: "spec: {nodeSelector: {disk: hdd}, tolerations: [{key: own, operator: Exists}], automountServiceAccountToken: false, " + containers + "}",
				job: "spec: {" + jobTemp + "}",
			} {
				p := policy(ctx, framework.Rego(disk("ssd"), `scheduling.tolerations := [{"key": "fast", "operator": "Exists"}]`), gvk.Group, strings.ToLower(gvk.Kind)+"s", namespace)
				text, err := yaml.Marshal(object(gvk, namespace, "a", spec))
				Expect(err).NotTo(HaveOccurred())
				f.MustKubectl(ctx, string(text), args...)
				f.MustKubectl(ctx, string(text), args...)
				change(ctx, p, framework.Rego(disk("nvme")))
				f.MustKubectl(ctx, string(text), args...)
			}
		})

		It("does not become the developer's where only a part of an affinity is applied again, on the side of the "+name, func(ctx SpecContext) {
			const at = "scheduling.affinity.nodeAffinity."
			zone := func(z string) string {
				return fmt.Sprintf(at+`requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [%q]}]}]`, z)
			}
			const prefers = at + `preferredDuringSchedulingIgnoredDuringExecution := [{"weight": 1, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]`
			p := policy(ctx, framework.Rego(zone("a"), prefers), "apps", "deployments", namespace)
			text, err := yaml.Marshal(object(framework.Deployment, namespace, "a", `spec: {replicas: 0, `+selector+`, template: {metadata: {labels: {app: a}}, spec: {
 affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, preference: {matchExpressions: [{key: own, operator: Exists}]}}]}}, `+containers+`}}}`))
			Expect(err).NotTo(HaveOccurred())
			f.MustKubectl(ctx, string(text), args...)
			f.MustKubectl(ctx, string(text), args...)
			change(ctx, p, framework.Rego(zone("b")))
			Eventually(affinityOf).WithContext(ctx).WithArguments(namespace, "a").Should(Equal(fmt.Sprint(parse(`nodeAffinity: {
 requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]},
 preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, preference: {matchExpressions: [{key: own, operator: Exists}]}}]}`))))
		})
	}

	It("leaves the ReplicaSets of others as their templates have them", func(ctx SpecContext) {
		p := policy(ctx, framework.Rego(disk("ssd")), "apps", "replicasets", namespace)
		owner := object(framework.Deployment, namespace, "a", "spec: {replicas: 0, "+selector+", "+template+"}")
		Expect(f.Client.Create(ctx, owner)).To(Succeed())
		set := object(kind("apps", "ReplicaSet"), namespace, "a", "spec: {replicas: 0, "+selector+", "+template+"}")
		set.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "a", UID: owner.GetUID(), Controller: new(true)}})
		Expect(f.Client.Create(ctx, set)).To(Succeed())
		selects(ctx, kind("apps", "ReplicaSet"), "a", "spec.template.spec", map[string]any{"disk": "hdd", "own": "1"})
		Eventually(violations).WithContext(ctx).WithArguments(p).Should(ConsistOf(
			ContainSubstring("nodeSelector disk is hdd, should be ssd (made from another object's template: let the policy match that object)")))
	})

	It("of several policies is merged by precedence, but for affinities, which all hold", func(ctx SpecContext) {
		affinity := func(key string) string {
			return fmt.Sprintf(`scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [{"key": %q, "operator": "Exists"}]}]`, key)
		}
		first := policy(ctx, framework.Rego(disk("ssd"), affinity("first")), "apps", "deployments", namespace)
		second := policy(ctx, framework.Rego(disk("nvme"), affinity("second")), "apps", "deployments", namespace,
			func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 1 })
		Expect(f.Client.Create(ctx, object(framework.Deployment, namespace, "a", "spec: {replicas: 0, "+selector+", "+template+"}"))).To(Succeed())
		selects(ctx, framework.Deployment, "a", "spec.template.spec", map[string]any{"disk": "nvme", "own": "1"})
		const terms = "spec.template.spec.affinity"
		required := func(keys string) any {
			return parse(`nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [` + keys + `]}]}}`)
		}
		Expect(at(ctx, framework.Deployment, namespace, "a", terms)).To(Equal(required("{key: first, operator: Exists}, {key: second, operator: Exists}")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(first, placementv1.ConditionEnforced).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonConflict))
		change(ctx, second, framework.Rego(affinity("third")))
		selects(ctx, framework.Deployment, "a", "spec.template.spec", map[string]any{"disk": "ssd", "own": "1"})
		Eventually(at).WithContext(ctx).WithArguments(framework.Deployment, namespace, "a", terms).
			Should(Equal(required("{key: first, operator: Exists}, {key: third, operator: Exists}")))
	})

	It("is told in warnings where the policy is not enforced", func(ctx SpecContext) {
		policy(ctx, framework.Rego(disk("ssd"), `scheduling.tolerations := [{"key": "fast", "operator": "Exists"}]`), "apps", "deployments", namespace,
			func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeWarn })
		text, err := yaml.Marshal(object(framework.Deployment, namespace, "a", "spec: {replicas: 0, "+selector+", "+template+"}"))
		Expect(err).NotTo(HaveOccurred())
		out := f.MustKubectl(ctx, string(text), "apply", "-f", "-")
		Expect(out).To(And(ContainSubstring("would set nodeSelector disk to ssd (was hdd)"), ContainSubstring(`would add toleration {"key":"fast","operator":"Exists"}`)))
		selects(ctx, framework.Deployment, "a", "spec.template.spec", map[string]any{"disk": "hdd", "own": "1"})
	})
})

// affinityOf is the affinity of a Deployment's pods, as text.
func affinityOf(ctx context.Context, namespace, name string) (string, error) {
	value, err := at(ctx, framework.Deployment, namespace, name, "spec.template.spec.affinity")
	return fmt.Sprint(value), err
}
