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
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("Inventories", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
	})

	// asking is an object on which a policy shows what it sees.
	asking := func() client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "asking", Namespace: namespace}}
	}

	It("shows the clusters of every inventory, known and declared, in one form", func(ctx SpecContext) {
		want := createFleet(ctx)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("every-cluster", `package p
annotations := {sprintf("seen.example.com/%s", [name]): cluster | some name, cluster in data.clusters}
`, "", "configmaps", namespace))
		Eventually(seen).WithContext(ctx).WithArguments(asking(), "seen.example.com/").Should(Equal(want))
	})

	It("says which source of the configuration selects nothing", func(ctx SpecContext) {
		createFleet(ctx)
		p := framework.NewPolicy("idle-source", `package p
clusters := {name | some name, _ in data.clusters}
`, "", "configmaps", namespace)
		const text = "clusterSources[6] of the manager's configuration selects none of the 1 sites.fleet.example.com, so that the policy gets no cluster from there"
		p.SetGroupVersionKind(placementv1.GroupVersion.WithKind("PlacementPolicy"))
		manifest, err := yaml.Marshal(p)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.MustKubectl(ctx, string(manifest), "apply", "--dry-run=server", "-f", "-")).To(ContainSubstring("Warning: " + text))
		f.CreateReadyPolicy(ctx, p)
		Eventually(f.Kubectl).WithContext(ctx).WithArguments("", "get", "plpol", p.Name, "-o", "jsonpath={.status.findings}").Should(ContainSubstring(text))
	})

	It("gives no object a cluster whose name several objects have, and says which", func(ctx SpecContext) {
		p := framework.NewPolicy("ambiguous", "", "", "configmaps", namespace)
		p.Spec.Rules = []placementv1.Rule{{Name: "eu", Require: []placementv1.Requirement{
			{Subject: placementv1.Subject{Field: placementv1.ClusterFieldRegion}, Operator: placementv1.OperatorIn, Values: []string{"eu"}},
		}}}
		f.CreateReadyPolicy(ctx, p)
		profileIn := func(namespace, name, region string) *unstructured.Unstructured {
			out := framework.NewObject(framework.ClusterProfile, namespace, name, nil)
			out.SetLabels(map[string]string{corev1.LabelTopologyRegion: region})
			return out
		}
		existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "existing", Namespace: namespace}}
		create(ctx, profileIn("fleet", "eu-9", "eu"))
		Eventually(f.Client.Create).WithContext(ctx).WithArguments(existing).Should(Succeed())
		Expect(existing.Annotations).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-9"]`))

		By("a profile of the same name in a namespace that sorts first")
		usurper := profileIn(namespace, "us-9", "eu")
		create(ctx, profileIn("fleet", "us-9", "us"))
		create(ctx, usurper)
		sentence := "cluster us-9 is ambiguous: clusterprofiles.multicluster.x-k8s.io fleet/us-9 and clusterprofiles.multicluster.x-k8s.io " + namespace + "/us-9 have this name"
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReplicated).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonAmbiguousClusters, sentence))
		Expect(f.Client.Create(ctx, asking())).To(Succeed())
		Consistently(func(g Gomega, ctx context.Context) {
			for _, name := range []string{"existing", "asking"} {
				got := &corev1.ConfigMap{}
				g.Expect(f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, got)).To(Succeed())
				g.Expect(got.Annotations).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-9"]`))
			}
		}).WithContext(ctx).WithTimeout(time.Second).Should(Succeed())
		Eventually(f.Kubectl).WithContext(ctx).WithArguments("", "get", "events", "--namespace=default", "--field-selector=reason=ClustersAmbiguous,involvedObject.name=ambiguous", "-o", "jsonpath={.items[*].message}").
			Should(And(ContainSubstring("the condition Replicated names them"), Not(ContainSubstring("us-9"))))

		By("a cluster of another inventory with the name of the only one in the EU")
		declared := framework.NewObject(site, "", "some-site", nil)
		declared.Object["spec"] = map[string]any{"cluster": "eu-9"}
		create(ctx, declared)
		denied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "denied", Namespace: namespace}}
		Eventually(f.Client.Create).WithContext(ctx).WithArguments(denied, client.DryRunAll).Should(MatchError(And(
			ContainSubstring("0/0 clusters are eligible; cluster "),
			ContainSubstring("cluster eu-9 is ambiguous: clusterprofiles.multicluster.x-k8s.io fleet/eu-9 and sites.fleet.example.com some-site have this name"),
			ContainSubstring(sentence))))

		By("names that are unique again, one by a label that the configuration excludes")
		Expect(f.Client.Delete(ctx, declared)).To(Succeed())
		usurper.SetLabels(map[string]string{corev1.LabelTopologyRegion: "eu", "example.com/mirrored": "true"})
		Expect(f.Client.Update(ctx, usurper)).To(Succeed())
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReplicated).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonReplicated))
		Expect(f.Client.Create(ctx, denied)).To(Succeed())
		Expect(denied.Annotations).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-9"]`))
	})

	It("moves objects away from a cluster that is being deleted, and gives it no new ones", func(ctx SpecContext) {
		p := framework.NewPolicy("leaving", "", "", "configmaps", namespace)
		p.Spec.Rules = []placementv1.Rule{{Name: "all", Require: []placementv1.Requirement{
			{Subject: placementv1.Subject{Field: placementv1.ClusterFieldName}, Operator: placementv1.OperatorExists},
		}}}
		leaving := framework.NewObject(framework.ClusterProfile, "fleet", "leaving", nil)
		leaving.SetFinalizers([]string{"example.com/drain"})
		create(ctx, framework.NewObject(framework.ClusterProfile, "fleet", "staying", nil))
		create(ctx, leaving)
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(f.Client.Patch(ctx, leaving, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		})
		f.CreateReadyPolicy(ctx, p)
		existing := asking()
		Expect(f.Client.Create(ctx, existing)).To(Succeed())
		Expect(existing.GetAnnotations()).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["leaving","staying"]`))
		Expect(f.Client.Delete(ctx, leaving)).To(Succeed())
		Eventually(func(ctx context.Context) (map[string]string, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(existing), existing)
			return existing.GetAnnotations(), err
		}).WithContext(ctx).Should(HaveKeyWithValue(placementv1.ClustersAnnotation, `["staying"]`))
		created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "created", Namespace: namespace}}
		Expect(f.Client.Create(ctx, created)).To(Succeed())
		Expect(created.Annotations).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["staying"]`))
	})

	// Karmada 1.18.2 sets the taint after about 40 s without an answer of the cluster's API server, and removes it when the cluster returns
	// (pkg/controllers/cluster/cluster_controller.go). The pods there run meanwhile.
	It("leaves existing objects in a cluster that is not ready, for as long as the policy says, and gives it no new ones", func(ctx SpecContext) {
		p := framework.NewPolicy("unready", "", "", "configmaps", namespace)
		p.Spec.Rules = []placementv1.Rule{{Name: "one", Limit: 1, Require: []placementv1.Requirement{
			{Subject: placementv1.Subject{Label: "example.com/unready"}, Operator: placementv1.OperatorExists},
		}, Prefer: []placementv1.Preference{
			{Requirement: placementv1.Requirement{Subject: placementv1.Subject{Label: "example.com/first"}, Operator: placementv1.OperatorExists}, Weight: 1},
		}}}
		members := map[string]*unstructured.Unstructured{}
		for _, name := range []string{"first", "second"} {
			members[name] = framework.NewObject(karmadaCluster, "", name, nil)
			members[name].SetLabels(map[string]string{"example.com/unready": "", "example.com/" + name: ""})
			create(ctx, members[name])
		}
		f.CreateReadyPolicy(ctx, p)
		existing := asking()
		Expect(f.Client.Create(ctx, existing)).To(Succeed())
		clustersOf := func(ctx context.Context, o client.Object) (string, error) {
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			return o.GetAnnotations()[placementv1.ClustersAnnotation], err
		}
		Expect(clustersOf(ctx, existing)).To(Equal(`["first"]`))
		taint := func(ctx context.Context, taints string) {
			GinkgoHelper()
			Expect(f.Client.Patch(ctx, members["first"], client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":`+taints+`}}`)))).To(Succeed())
		}
		notReady := func() string {
			return `[{"key":"cluster.karmada.io/not-ready","effect":"NoSchedule","timeAdded":"` + time.Now().UTC().Format(time.RFC3339) + `"}]`
		}
		leaveAfter := func(ctx context.Context, after string) {
			GinkgoHelper()
			Expect(f.Client.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"clusters":{"leaveUnreadyAfter":`+after+`}}}`)))).To(Succeed())
		}

		By("a cluster that does not answer")
		taint(ctx, notReady())
		fresh := func() client.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-", Namespace: namespace}}
		}
		created := fresh()
		Eventually(func(ctx context.Context) (string, error) {
			created = fresh()
			err := f.Client.Create(ctx, created, client.DryRunAll)
			return created.GetAnnotations()[placementv1.ClustersAnnotation], err
		}).WithContext(ctx).Should(Equal(`["second"]`))
		Expect(f.Client.Create(ctx, created)).To(Succeed())
		Consistently(clustersOf).WithContext(ctx).WithArguments(existing).WithTimeout(time.Second).Should(Equal(`["first"]`))
		existing.SetLabels(map[string]string{"changed": "true"})
		Expect(f.Client.Update(ctx, existing)).To(Succeed())
		Expect(clustersOf(ctx, existing)).To(Equal(`["first"]`))
		Expect(f.Kubectl(ctx, "", "berth", "explain", "configmap", "asking", "--namespace="+namespace)).
			To(ContainSubstring("cluster first is marked as not ready: the object stays there, because the policy has no spec.clusters.leaveUnreadyAfter"))

		By("a time after which objects leave")
		taint(ctx, notReady())
		leaveAfter(ctx, `"3s"`)
		Eventually(clustersOf).WithContext(ctx).WithArguments(existing).Should(Equal(`["second"]`))

		By("a cluster that answers again, and one from which workloads have to go")
		leaveAfter(ctx, "null")
		taint(ctx, "null")
		Eventually(clustersOf).WithContext(ctx).WithArguments(existing).Should(Equal(`["first"]`))
		taint(ctx, `[{"key":"cluster.karmada.io/not-ready","effect":"NoExecute"}]`)
		Eventually(clustersOf).WithContext(ctx).WithArguments(existing).Should(Equal(`["second"]`))
	})

	It("adds a declared inventory once its definition is installed", func(ctx SpecContext) {
		f.CreateReadyPolicy(ctx, framework.NewPolicy("later", `package p
annotations := {sprintf("seen.example.com/%s", [name]): cluster.ready | some name, cluster in data.clusters}
`, "", "configmaps", namespace))
		Eventually(seen).WithContext(ctx).WithArguments(asking(), "seen.example.com/").Should(BeEmpty())
		f.InstallCRD(ctx, framework.NewCRD(rack.Group, rack.Version, "racks", rack.Kind, apiextensionsv1.ClusterScoped))
		DeferCleanup(f.UninstallCRD, "racks."+rack.Group)
		on, off := framework.NewObject(rack, "", "on", nil), framework.NewObject(rack, "", "off", nil)
		on.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Powered", "status": "True"}}}
		create(ctx, on)
		create(ctx, off)
		Eventually(seen).WithContext(ctx).WithArguments(asking(), "seen.example.com/").Should(Equal(map[string]any{"on": true, "off": false}))
	})

	Describe("judged by predicates", func() {
		// deployment is one of 100 replicas, as a spec changes its pods.
		deployment := func(change func(*corev1.PodSpec)) client.Object {
			labels, replicas := map[string]string{"app": "asking"}, int32(100)
			out := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "asking", Namespace: namespace}}
			out.Spec.Selector, out.Spec.Replicas = &metav1.LabelSelector{MatchLabels: labels}, &replicas
			out.Spec.Template.Labels = labels
			out.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/app"}}
			change(&out.Spec.Template.Spec)
			return out
		}
		requests := func(pod *corev1.PodSpec, cpu string) {
			pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
		tolerant := func(pod *corev1.PodSpec) {
			pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		// verdicts are the replicas that fit by cluster, or why none does.
		verdicts := func(verdicts ...any) map[string]any {
			out := map[string]any{}
			for i := 0; i < len(verdicts); i += 2 {
				out[verdicts[i].(string)] = verdicts[i+1]
			}
			return out
		}
		const (
			taint    = "node(s) had untolerated taint(s)"
			affinity = "node(s) didn't match Pod's node affinity/selector"
			cpu      = "Insufficient cpu"
		)

		BeforeEach(func(ctx SpecContext) {
			createFleet(ctx)
			f.CreateReadyPolicy(ctx, framework.NewPolicy("judged", `package p
verdicts := k8s.feasible_clusters(input, input.spec.replicas, "*")

annotations[sprintf("fits.example.com/%s", [name])] := v.replicas if {
	some name, v in verdicts
	v.feasible
}

annotations[sprintf("fits.example.com/%s", [name])] := concat("; ", v.reasons) if {
	some name, v in verdicts
	not v.feasible
}
`, "apps", "deployments", namespace))
		})

		DescribeTable("says of each cluster how much fits there, or why nothing does",
			func(ctx SpecContext, change func(*corev1.PodSpec), want map[string]any) {
				Eventually(seen).WithContext(ctx).WithArguments(deployment(change), "fits.example.com/").Should(Equal(want))
			},
			Entry("by taints, and by being ready", func(pod *corev1.PodSpec) { requests(pod, "1") }, verdicts(
				"eu1", 100.0, "new", taint, "us1", taint, "us2", taint, "member1", taint, "member2", taint,
				"aks-member-1", taint, "aks-member-2", taint, "hamburg", taint)),
			Entry("by what is left of its resources", func(pod *corev1.PodSpec) { tolerant(pod); requests(pod, "1") }, verdicts(
				"eu1", 100.0, "new", 100.0, "us1", 60.0, "us2", 100.0, "member1", 10.0, "member2", 100.0,
				"aks-member-1", 4.0, "aks-member-2", 4.0, "hamburg", 12.0)),
			Entry("where one replica is more than is left", func(pod *corev1.PodSpec) { tolerant(pod); requests(pod, "11") }, verdicts(
				"eu1", 100.0, "new", 100.0, "us1", 5.0, "us2", 100.0, "member1", cpu, "member2", 100.0,
				"aks-member-1", cpu, "aks-member-2", cpu, "hamburg", 1.0)),
			Entry("by labels", func(pod *corev1.PodSpec) {
				tolerant(pod)
				requests(pod, "1")
				pod.NodeSelector = map[string]string{"tier": "gold"}
			}, verdicts(
				"eu1", affinity, "new", affinity, "us1", affinity, "us2", affinity, "member1", 10.0, "member2", affinity,
				"aks-member-1", affinity, "aks-member-2", affinity, "hamburg", 12.0)),
			Entry("by properties", func(pod *corev1.PodSpec) {
				tolerant(pod)
				pod.NodeSelector = map[string]string{"pci-level": "1"}
			}, verdicts(
				"eu1", 100.0, "new", affinity, "us1", affinity, "us2", affinity, "member1", affinity, "member2", affinity,
				"aks-member-1", affinity, "aks-member-2", affinity, "hamburg", affinity)),
			Entry("by the region", func(pod *corev1.PodSpec) {
				tolerant(pod)
				pod.NodeSelector = map[string]string{corev1.LabelTopologyRegion: "eu-north"}
			}, verdicts(
				"eu1", affinity, "new", affinity, "us1", affinity, "us2", affinity, "member1", affinity, "member2", affinity,
				"aks-member-1", affinity, "aks-member-2", affinity, "hamburg", 100.0)),
		)

		It("sees a declared cluster change", func(ctx SpecContext) {
			asked := deployment(func(pod *corev1.PodSpec) { requests(pod, "12") })
			of := func(ctx SpecContext) (any, error) {
				all, err := seen(ctx, asked, "fits.example.com/")
				return all["hamburg"], err
			}
			Eventually(of).WithContext(ctx).Should(Equal(taint))
			change := func(subresource bool, value any, path ...string) {
				GinkgoHelper()
				obj, err := f.Get(ctx, site, "", "ham-01")
				Expect(err).NotTo(HaveOccurred())
				below := obj.Object
				for _, name := range path[:len(path)-1] {
					below = below[name].(map[string]any)
				}
				below[path[len(path)-1]] = value
				if subresource {
					Expect(f.Client.Status().Update(ctx, obj)).To(Succeed())
				} else {
					Expect(f.Client.Update(ctx, obj)).To(Succeed())
				}
			}
			change(false, []any{}, "spec", "taints")
			Eventually(of).WithContext(ctx).Should(Equal(1.0))
			change(true, "3", "status", "resources", "free", "cpu")
			Eventually(of).WithContext(ctx).Should(Equal(cpu))
			change(true, "24", "status", "resources", "free", "cpu")
			Eventually(of).WithContext(ctx).Should(Equal(2.0))
			change(true, false, "status", "online")
			Eventually(of).WithContext(ctx).Should(Equal(taint))
		})
	})
})
