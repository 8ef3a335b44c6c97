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
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/test/framework"
)

// atMost3 denies objects with more replicas.
const atMost3 = `errors contains "at most 3 replicas" if input.spec.replicas > 3`

var pod = corev1.SchemeGroupVersion.WithKind("Pod")

// subresourceRules returns what the webhook configuration names besides resources, for a policy that exists alone.
func subresourceRules(ctx context.Context) ([]string, error) {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := f.Client.Get(ctx, client.ObjectKey{Name: webhookconfiguration.WorkloadsName}, configuration)
	var out []string
	for _, w := range configuration.Webhooks {
		for _, r := range w.Rules {
			for _, resource := range r.Resources {
				if strings.Contains(resource, "/") {
					out = append(out, resource)
				}
			}
		}
	}
	return out, err
}

// scale patches an object's scale as a HorizontalPodAutoscaler does.
func scale(ctx context.Context, object *unstructured.Unstructured, replicas string, options ...client.SubResourcePatchOption) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`))
	return f.Client.SubResource("scale").Patch(ctx, object.DeepCopy(), patch, options...)
}

// awaitHooked waits until the API server sends what an attack changes to Berth: its copy of the webhook configuration
// lags behind what is stored.
func awaitHooked(ctx context.Context, attack func(context.Context) error, message string) {
	GinkgoHelper()
	Eventually(attack).WithContext(ctx).Should(MatchError(ContainSubstring(message)))
}

// replicasOf returns the number that is stored.
func replicasOf(ctx context.Context, object *unstructured.Unstructured, path ...string) int64 {
	GinkgoHelper()
	stored, err := f.Get(ctx, object.GroupVersionKind(), object.GetNamespace(), object.GetName())
	Expect(err).NotTo(HaveOccurred())
	out, _, err := unstructured.NestedInt64(stored.Object, path...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

var _ = Describe("A policy that limits replicas", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = f.NewNamespace(ctx, nil) })

	limit := func(ctx SpecContext, group, resource string, change ...func(*placementv1.PlacementPolicy)) {
		GinkgoHelper()
		policy := framework.NewPolicy(framework.NewName("replicas"), framework.Rego(atMost3), group, resource, namespace)
		for _, c := range change {
			c(policy)
		}
		f.CreateReadyPolicy(ctx, policy)
	}

	DescribeTable("decides kubectl scale", func(ctx SpecContext, kind schema.GroupVersionKind, resource string) {
		limit(ctx, kind.Group, resource)
		object := framework.NewObject(kind, namespace, "web", nil)
		if kind.Group == "" {
			labels := map[string]any{"app": "nginx"}
			object.Object["spec"] = map[string]any{"replicas": int64(0), "selector": labels, "template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "nginx", "image": "nginx"}}},
			}}
		}
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		kubectl := func(replicas string) (string, error) {
			return f.Kubectl(ctx, "", "scale", resource+"/web", "--namespace", namespace, "--replicas="+replicas)
		}
		awaitHooked(ctx, func(ctx context.Context) error { return scale(ctx, object, "4", client.DryRunAll) }, "at most 3 replicas")
		out, err := kubectl("9")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("at most 3 replicas"))
		Expect(replicasOf(ctx, object, "spec", "replicas")).To(BeZero())
		out, err = kubectl("2")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(replicasOf(ctx, object, "spec", "replicas")).To(Equal(int64(2)))
	},
		Entry("of a Deployment", framework.Deployment, "deployments"),
		Entry("of a ReplicaSet", framework.ReplicaSet, "replicasets"),
		Entry("of a StatefulSet", schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, "statefulsets"),
		Entry("of a ReplicationController", corev1.SchemeGroupVersion.WithKind("ReplicationController"), "replicationcontrollers"),
	)

	It("decides every write of a scale", func(ctx SpecContext) {
		limit(ctx, "apps", "deployments")
		object := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		denied := And(MatchError(ContainSubstring("at most 3 replicas")), Satisfy(apierrors.IsForbidden))
		awaitHooked(ctx, func(ctx context.Context) error { return scale(ctx, object, "4", client.DryRunAll) }, "at most 3 replicas")
		Expect(scale(ctx, object, "4")).To(denied)
		Expect(f.Client.SubResource("scale").Patch(ctx, object.DeepCopy(), client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/replicas","value":4}]`)))).To(denied)
		applied := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":4}}`
		Expect(f.Client.SubResource("scale").Patch(ctx, object.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(applied)),
			client.FieldOwner("attacker"), client.ForceOwnership)).To(denied)
		replaced := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "web", "namespace": namespace}, "spec": map[string]any{"replicas": int64(4)},
		}}
		Expect(f.Client.SubResource("scale").Update(ctx, object.DeepCopy(), client.WithSubResourceBody(replaced))).To(denied)
		Expect(replicasOf(ctx, object, "spec", "replicas")).To(BeZero())
		Expect(scale(ctx, object, "3")).To(Succeed())
		Expect(replicasOf(ctx, object, "spec", "replicas")).To(Equal(int64(3)))
	})

	It("selects by the labels and the content of the scaled object", func(ctx SpecContext) {
		limit(ctx, "apps", "deployments", func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"limited": "yes"}}
			p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{
				Name: "deployments", Expression: `object.kind == "Deployment" && request.kind.kind == "Deployment" && object.metadata.name != "exempt"`,
			}}
		})
		create := func(name string, labels map[string]string) *unstructured.Unstructured {
			object := framework.NewObject(framework.Deployment, namespace, name, nil)
			object.SetLabels(labels)
			Expect(f.Client.Create(ctx, object)).To(Succeed())
			return object
		}
		limited := create("limited", map[string]string{"limited": "yes"})
		unlimited, exempt := create("unlimited", nil), create("exempt", map[string]string{"limited": "yes"})
		awaitHooked(ctx, func(ctx context.Context) error { return scale(ctx, limited, "4", client.DryRunAll) }, "at most 3 replicas")
		Expect(scale(ctx, unlimited, "4")).To(Succeed())
		Expect(scale(ctx, exempt, "4")).To(Succeed())
	})

	It("decides scales of custom resources by the path that their definition names", func(ctx SpecContext) {
		crd := framework.NewCRD("hostile.example.com", "v1", "fleets", "Fleet", apiextensionsv1.NamespaceScoped)
		crd.Spec.Versions[0].Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"}
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		limit(ctx, "hostile.example.com", "fleets", func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`errors contains "at most 3 ships" if input.spec.size > 3`)
		})
		object := framework.NewObject(schema.GroupVersionKind{Group: "hostile.example.com", Version: "v1", Kind: "Fleet"}, namespace, "web", nil)
		object.Object["spec"] = map[string]any{"size": int64(1)}
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		awaitHooked(ctx, func(ctx context.Context) error { return scale(ctx, object, "4", client.DryRunAll) }, "at most 3 ships")
		Expect(scale(ctx, object, "4")).To(MatchError(ContainSubstring("at most 3 ships")))
		Expect(scale(ctx, object, "2")).To(Succeed())
		Expect(replicasOf(ctx, object, "spec", "size")).To(Equal(int64(2)))
	})

	It("decides on what is replaced, however the object changes meanwhile", func(ctx SpecContext) {
		limit(ctx, "apps", "deployments", func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`errors contains "at most 3 replicas of what is small" if {
	input.spec.replicas > 3
	input.metadata.annotations.small == "yes"
}`)
		})
		object := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		annotate := func(ctx context.Context, value string) error {
			return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"small":`+value+`}}}`)))
		}
		Expect(annotate(ctx, `"yes"`)).To(Succeed())
		awaitHooked(ctx, func(ctx context.Context) error { return scale(ctx, object, "9", client.DryRunAll) }, "at most 3 replicas")
		for range 25 {
			Expect(scale(ctx, object, "0")).To(Succeed())
			Expect(annotate(ctx, "null")).To(Succeed())
			var both sync.WaitGroup
			var annotated, scaled error
			both.Go(func() { annotated = annotate(ctx, `"yes"`) })
			both.Go(func() { scaled = scale(ctx, object, "9") })
			both.Wait()
			Expect([]error{annotated, scaled}).To(ContainElement(MatchError(ContainSubstring("at most 3 replicas"))))
		}
	})

	It("brings a scaled object into line where it does not deny it", func(ctx SpecContext) {
		limit(ctx, "apps", "deployments", func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`annotations := {"size": sprintf("%d", [input.spec.replicas])}`)
		})
		object := framework.NewObject(framework.Deployment, namespace, "web", nil)
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		size := func(ctx context.Context) (string, error) {
			stored, err := f.Get(ctx, framework.Deployment, namespace, "web")
			return stored.GetAnnotations()["size"], err
		}
		Eventually(size).WithContext(ctx).Should(Equal("0"))
		Expect(scale(ctx, object, "2")).To(Succeed())
		Eventually(size).WithContext(ctx).Should(Equal("2"))
	})
})

var _ = Describe("A policy that does not read what a subresource changes", func() {
	It("has no rule for it", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		create := func(text, group, resource string) {
			f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("no-subresource"), framework.Rego(text), group, resource, namespace))
		}
		create(`errors contains "no" if input.metadata.labels.forbidden`, "apps", "*")
		create(`errors contains "no" if input.spec.template.spec.hostNetwork`, "apps", "deployments")
		create(`errors contains "no" if input.spec.hostNetwork`, "", "pods")
		create(`errors contains "no" if count(input.spec) > 30`, "apps", "daemonsets")
		Expect(subresourceRules(ctx)).To(BeEmpty())
	})
})

var _ = Describe("A policy on containers", func() {
	var (
		namespace string
		object    *unstructured.Unstructured
	)

	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})).To(Succeed())
		object = framework.NewObject(pod, namespace, "web", nil)
		object.Object["spec"] = map[string]any{"containers": []any{map[string]any{
			"name": "nginx", "image": "good/nginx",
			"resources": map[string]any{"requests": map[string]any{"cpu": "1"}},
		}}}
	})

	It("decides ephemeral containers", func(ctx SpecContext) {
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("images"),
			framework.Rego(`errors contains "bad image" if {
	some c in array.concat(input.spec.containers, object.get(input.spec, "ephemeralContainers", []))
	not startswith(c.image, "good/")
}`),
			"", "pods", namespace))
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		debug := func(image string, options ...client.SubResourcePatchOption) func(context.Context) error {
			return func(ctx context.Context) error {
				patch := `{"spec":{"ephemeralContainers":[{"name":"debug-` + strings.ReplaceAll(image, "/", "-") + `","image":"` + image + `"}]}}`
				return f.Client.SubResource("ephemeralcontainers").Patch(ctx, object.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), options...)
			}
		}
		awaitHooked(ctx, debug("bad/shell", client.DryRunAll), "bad image")
		Expect(debug("bad/shell")(ctx)).To(MatchError(ContainSubstring("bad image")))
		Expect(debug("good/shell")(ctx)).To(Succeed())
	})

	It("decides resizes", func(ctx SpecContext) {
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("resources"),
			framework.Rego(`errors contains "too big" if {
	some c in input.spec.containers
	c.resources.requests.cpu == "8"
}`), "", "pods", namespace))
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		resize := func(cpu string, options ...client.SubResourcePatchOption) func(context.Context) error {
			return func(ctx context.Context) error {
				patch := `{"spec":{"containers":[{"name":"nginx","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
				return f.Client.SubResource("resize").Patch(ctx, object.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), options...)
			}
		}
		awaitHooked(ctx, resize("8", client.DryRunAll), "too big")
		Expect(resize("8")(ctx)).To(MatchError(ContainSubstring("too big")))
		Expect(resize("2")(ctx)).To(Succeed())
	})
})
