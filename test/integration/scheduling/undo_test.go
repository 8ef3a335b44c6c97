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
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// Values that Berth set come back by kubectl rollout undo, and with manifests that were read from the cluster.
var _ = Describe("A value that Berth set before", func() {
	const pods = "spec.template.spec"
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	affinity := func(zone string) map[string]any {
		return parse(`{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [` + zone + `]}]}]}}}`)
	}
	decides := func(zone, pool, scheduler, cluster string) string {
		text, err := json.Marshal(affinity(zone))
		Expect(err).NotTo(HaveOccurred())
		return framework.Rego("scheduling.affinity := "+string(text), fmt.Sprintf("scheduling.nodeSelector.pool := %q", pool),
			fmt.Sprintf("scheduling.schedulerName := %q", scheduler), fmt.Sprintf("clusters := {%q}", cluster))
	}
	both := func(resources ...string) func(*placementv1.PlacementPolicy) {
		return func(p *placementv1.PlacementPolicy) { p.Spec.Match.ResourceRules[0].Resources = resources }
	}
	// state is what policies write into the object.
	state := func(ctx context.Context, gvk schema.GroupVersionKind) (map[string]any, error) {
		obj, err := f.Get(ctx, gvk, namespace, "web")
		if err != nil {
			return nil, err
		}
		spec, _, _ := unstructured.NestedMap(obj.Object, strings.Split(pods, ".")...)
		return map[string]any{
			"selector": spec["nodeSelector"], "scheduler": spec["schedulerName"], "affinity": spec["affinity"],
			"clusters": obj.GetAnnotations()[placementv1.ClustersAnnotation],
		}, nil
	}
	expect := func(ctx context.Context, gvk schema.GroupVersionKind, pool, scheduler string, zone any, clusters string) {
		GinkgoHelper()
		Eventually(state).WithContext(ctx).WithArguments(gvk).Should(Equal(map[string]any{
			"selector": map[string]any{"pool": pool}, "scheduler": scheduler, "affinity": zone, "clusters": clusters,
		}))
	}
	const spec = selector + `, template: {metadata: {labels: {app: a}}, spec: {nodeSelector: {pool: red}, ` + containers + `}}`
	newWorkload := func(ctx context.Context, gvk schema.GroupVersionKind, more string) {
		GinkgoHelper()
		obj := object(gvk, namespace, "web", "spec: {"+more+spec+"}")
		obj.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["ap-1","eu-1","us-1"]`})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
	}
	// remember stores the workload's template as its controller does, as a revision that kubectl rollout undo finds.
	remember := func(ctx context.Context, gvk schema.GroupVersionKind, revision int) {
		GinkgoHelper()
		obj, err := f.Get(ctx, gvk, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		template, _, err := unstructured.NestedMap(obj.Object, "spec", "template")
		Expect(err).NotTo(HaveOccurred())
		out := object(kind("apps", "ControllerRevision"), namespace, fmt.Sprintf("web-%d", revision), "{}")
		if gvk.Kind == "Deployment" {
			out = object(kind("apps", "ReplicaSet"), namespace, fmt.Sprintf("web-%d", revision), "spec: {replicas: 0, "+selector+"}")
			Expect(unstructured.SetNestedMap(out.Object, template, "spec", "template")).To(Succeed())
			annotations := maps.Clone(obj.GetAnnotations())
			annotations["deployment.kubernetes.io/revision"] = fmt.Sprint(revision)
			out.SetAnnotations(annotations)
		} else {
			template["$patch"] = "replace"
			out.Object["data"] = map[string]any{"spec": map[string]any{"template": template}}
			out.Object["revision"] = int64(revision)
			out.SetAnnotations(obj.GetAnnotations())
		}
		out.SetLabels(map[string]string{"app": "a"})
		out.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
			"apiVersion": "apps/v1", "kind": gvk.Kind, "name": "web", "uid": string(obj.GetUID()), "controller": true,
		}}
		Expect(f.Client.Create(ctx, out)).To(Succeed())
	}
	undo := func(ctx context.Context, gvk schema.GroupVersionKind, revision int) {
		GinkgoHelper()
		f.MustKubectl(ctx, "", "rollout", "undo", strings.ToLower(gvk.Kind)+"/web", "-n", namespace, fmt.Sprintf("--to-revision=%d", revision))
	}

	DescribeTable("is not requested after an undo of a rollout", func(ctx SpecContext, gvk schema.GroupVersionKind, more string, resources ...string) {
		p := policy(ctx, decides("a", "blue", "one", "eu-1"), "apps", resources[0], namespace, both(resources...))
		newWorkload(ctx, gvk, more)
		expect(ctx, gvk, "blue", "one", affinity("a"), `["eu-1"]`)
		remember(ctx, gvk, 1)
		change(ctx, p, decides("b", "green", "two", "us-1"))
		expect(ctx, gvk, "green", "two", affinity("b"), `["us-1"]`)
		remember(ctx, gvk, 2)

		undo(ctx, gvk, 1)
		expect(ctx, gvk, "green", "two", affinity("b"), `["us-1"]`)
		By("restoring what the developer requested when no policy decides")
		change(ctx, p, framework.Rego("labels := {}"))
		expect(ctx, gvk, "red", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
		By("knowing the values of both decisions while no policy decides")
		for _, revision := range []int{1, 2} {
			undo(ctx, gvk, revision)
			expect(ctx, gvk, "red", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
		}
		change(ctx, p, decides("c", "black", "three", "ap-1"))
		expect(ctx, gvk, "black", "three", affinity("c"), `["ap-1"]`)
	},
		Entry("of a DaemonSet", kind("apps", "DaemonSet"), "", "daemonsets"),
		Entry("of a StatefulSet", kind("apps", "StatefulSet"), "replicas: 0, serviceName: a, ", "statefulsets"),
		Entry("of a Deployment", kind("apps", "Deployment"), "replicas: 0, ", "deployments"),
		Entry("of a Deployment whose ReplicaSets the policy matches", kind("apps", "Deployment"), "replicas: 0, ", "deployments", "replicasets"),
	)

	It("is not requested with a manifest that was read from the cluster and has no record", func(ctx SpecContext) {
		gvk := kind("apps", "StatefulSet")
		p := policy(ctx, decides("a", "blue", "one", "eu-1"), "apps", "statefulsets", namespace)
		newWorkload(ctx, gvk, "replicas: 0, serviceName: a, ")
		expect(ctx, gvk, "blue", "one", affinity("a"), `["eu-1"]`)
		old, err := f.Get(ctx, gvk, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		change(ctx, p, decides("b", "green", "two", "us-1"))
		expect(ctx, gvk, "green", "two", affinity("b"), `["us-1"]`)
		unstructured.RemoveNestedField(old.Object, "metadata", "annotations", placementv1.RequestedAnnotation)
		unstructured.RemoveNestedField(old.Object, "metadata", "resourceVersion")
		text, err := json.Marshal(old.Object)
		Expect(err).NotTo(HaveOccurred())
		f.MustKubectl(ctx, string(text), "replace", "-f", "-")
		expect(ctx, gvk, "green", "two", affinity("b"), `["us-1"]`)
		change(ctx, p, framework.Rego("labels := {}"))
		expect(ctx, gvk, "red", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
	})

	It("is requested by a developer who says that it is", func(ctx SpecContext) {
		gvk := kind("apps", "StatefulSet")
		p := policy(ctx, decides("a", "blue", "one", "eu-1"), "apps", "statefulsets", namespace)
		newWorkload(ctx, gvk, "replicas: 0, serviceName: a, ")
		expect(ctx, gvk, "blue", "one", affinity("a"), `["eu-1"]`)
		change(ctx, p, framework.Rego("labels := {}"))
		expect(ctx, gvk, "red", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
		patch := `{"metadata":{"annotations":{%q:%q}},"spec":{"template":{"spec":{"nodeSelector":{"pool":"blue"}}}}}`
		Expect(f.MustKubectl(ctx, "", "patch", "statefulset", "web", "-n", namespace, "-p", fmt.Sprintf(patch, placementv1.AsWrittenAnnotation, "false"))).
			To(ContainSubstring(`Warning: nodeSelector pool: the object does not get the value blue: a policy set it earlier, so it counts as the policy's, and not as requested. ` +
				`To request it, set it and the object's annotation placement.berth.dev/as-written: "true", not "false", in one update`))
		expect(ctx, gvk, "red", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
		Expect(f.MustKubectl(ctx, "", "patch", "statefulset", "web", "-n", namespace, "-p", fmt.Sprintf(patch, placementv1.AsWrittenAnnotation, "true"))).
			NotTo(ContainSubstring("Warning"))
		expect(ctx, gvk, "blue", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
		f.MustKubectl(ctx, "", "annotate", "statefulset", "web", "-n", namespace, placementv1.AsWrittenAnnotation+"-")
		expect(ctx, gvk, "blue", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
		change(ctx, p, decides("b", "green", "two", "us-1"))
		expect(ctx, gvk, "green", "two", affinity("b"), `["us-1"]`)
		change(ctx, p, framework.Rego("labels := {}"))
		expect(ctx, gvk, "blue", "default-scheduler", nil, `["ap-1","eu-1","us-1"]`)
	})
})
