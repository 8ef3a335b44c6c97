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

// Package plugin_test compares what the kubectl plugin says with what a manager does, on a real API server.
package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var f *framework.Framework

func TestPlugin(t *testing.T) {
	suite.Run(t, "Plugin")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallPlugin(ctx)
	f.InstallClusterProfiles(ctx)
	m := f.StartReadyManager(ctx)
	DeferCleanup(m.Stop)
})

// simulate returns a simulation of the cluster as it is now.
func simulate(ctx context.Context) *simulation.Simulation {
	GinkgoHelper()
	cluster, err := simulation.NewLive(ctx, f.Config, replication.Known())
	Expect(err).NotTo(HaveOccurred())
	s, err := simulation.New(ctx, cluster, simulation.Options{OwnNamespace: "berth-system"})
	Expect(err).NotTo(HaveOccurred())
	return s
}

func createCluster(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	obj := framework.NewObject(framework.ClusterProfile, "fleet-system", name, nil)
	obj.SetLabels(labels)
	Expect(f.Client.Create(ctx, obj)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, obj)).To(Succeed()) })
}

var _ = Describe("kubectl berth explain", func() {
	BeforeEach(func(ctx SpecContext) {
		_ = f.Client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "fleet-system"}}})
	})

	It("says of an object in the cluster which cluster lost by which line", func(ctx SpecContext) {
		createCluster(ctx, "eu-1", map[string]string{"region": "eu"})
		createCluster(ctx, "us-1", map[string]string{"region": "us"})
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("region", `package region

clusters contains name if {
  some name, c in data.clusters
  c.labels.region == "eu"
}
`, "apps", "deployments", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())

		out := f.MustKubectl(ctx, "", "berth", "explain", "deployment/web", "-n", namespace)
		AddReportEntry("explanation", out)
		Expect(out).To(And(
			ContainSubstring("Policy region (generation 1, priority 0, Enforce)"), ContainSubstring("eu-1 is chosen"),
			ContainSubstring("region.rego:5 (rule clusters) fails:\n      c.labels.region == \"eu\"\n"), ContainSubstring("c.labels.region is \"us\"")))

		By("explaining it from a snapshot, without the cluster")
		snapshot := filepath.Join(GinkgoT().TempDir(), "cluster.json.gz")
		f.MustKubectl(ctx, "", "berth", "snapshot", "-o", snapshot)
		Expect(f.Shell(ctx, "KUBECONFIG=/dev/null kubectl berth explain deploy/web -n "+namespace+" --from "+snapshot)).To(Equal(out))

		By("explaining a manifest of what does not exist")
		manifest := filepath.Join(GinkgoT().TempDir(), "api.yaml")
		text, err := json.Marshal(framework.NewObject(framework.Deployment, namespace, "api", nil))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(manifest, text, 0o600)).To(Succeed())
		out = f.MustKubectl(ctx, "", "berth", "explain", "-f", manifest, "-o", "json", "--why-not", "us-1")
		var explained []explain.Explanation
		Expect(json.Unmarshal([]byte(out), &explained)).To(Succeed())
		Expect(explained).To(HaveLen(1))
		Expect(explained[0].Exists).To(BeFalse())
		Expect(explained[0].Clusters.Listed).To(HaveLen(1))
		Expect(explained[0].Clusters.Listed[0].Reasons[0].Line).To(Equal(5))
	})

	DescribeTable("says what to do in one sentence", func(ctx SpecContext, want string, args ...string) {
		out, err := f.Kubectl(ctx, "", append([]string{"berth", "explain"}, args...)...)
		Expect(err).To(HaveOccurred())
		Expect(strings.Split(strings.TrimSpace(out), "\n")).To(HaveLen(1))
		Expect(out).To(ContainSubstring(want))
	},
		Entry("without an object", "name either an object, for example deployment/web, or a file with -f"),
		Entry("for an unknown type", `the server doesn't have a resource type "gadget"`, "gadget/a"),
		Entry("for an object that is not there", `"nothing" not found`, "deployment/nothing"),
		Entry("for a file that is not there", "no-such.yaml", "-f", "no-such.yaml"),
		Entry("for an unknown format", `--output: "xml" is none of json, yaml`, "namespace/default", "-o", "xml"),
	)

	It("names the right that is missing", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		text, err := f.Plane.Kubeconfig("nobody")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())
		out, err := f.Kubectl(ctx, "", "berth", "explain", "deployment/web", "-n", namespace, "--kubeconfig", kubeconfig)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("ask for the right to list placementpolicies.placement.berth.dev"))
	})
})

var _ = Describe("A policy in the midst of a rollout", func() {
	It("is decided by the version that its status assigns to each namespace", func(ctx SpecContext) {
		name := framework.NewName("staged")
		canary, rest := f.NewNamespace(ctx, map[string]string{"stage": name}), f.NewNamespace(ctx, nil)
		for _, namespace := range []string{canary, rest} {
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "web", nil))).To(Succeed())
		}
		rego := func(tier string) string {
			return fmt.Sprintf(`package p

annotations.tier := %q
`, tier)
		}
		p := framework.NewPolicy(name, rego("gold"), "", "configmaps", canary, rest)
		// No object is moved, so the plan of a stage stays.
		p.Spec.Remediation.Mode = placementv1.RemediationManual
		stages := &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{{
			Name: "canary", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": name}}, Soak: &metav1.Duration{Duration: time.Hour},
		}}}
		f.CreateReadyPolicy(ctx, p)
		// planned returns the planned values by namespace, if the plan is the one in the status.
		planned := func(ctx context.Context) (map[string]string, error) {
			text, err := f.Kubectl(ctx, "", "berth", "plan", name, "-o", "json")
			plan := &whatif.Plan{}
			if err == nil {
				err = json.Unmarshal([]byte(text), plan)
			}
			if err != nil {
				return nil, err
			}
			p, err := f.Policy(ctx, name)
			if err != nil || p.Status.Plan == nil || p.Status.Plan.Digest != plan.Digest {
				return nil, fmt.Errorf("the plan of the status is %v, not %s: %w", p.Status.Plan, plan.Digest, err)
			}
			out := map[string]string{}
			for _, m := range plan.Moves {
				out[m.Namespace] = *m.Changes[0].To
			}
			return out, nil
		}
		state := func(ctx context.Context) (placementv1.RolloutState, error) {
			p, err := f.Policy(ctx, name)
			if err != nil || p.Status.Rollout == nil {
				return "", err
			}
			return p.Status.Rollout.State, nil
		}
		explained := func(namespace string) string {
			return f.MustKubectl(ctx, "", "berth", "explain", "configmap/web", "-n", namespace)
		}
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rollout = stages
		})
		Eventually(state).WithContext(ctx).Should(Equal(placementv1.RolloutComplete))
		Eventually(planned).WithContext(ctx).Should(Equal(map[string]string{canary: "gold", rest: "gold"}))
		Expect(explained(rest)).To(ContainSubstring("revision 1 decides, which is the version in the spec: its rollout is complete"))

		By("predicting a change")
		p.Spec.Rego = rego("silver")
		p.Spec.Rollout = stages
		out, err := f.Shell(ctx, "kubectl berth whatif -f "+writeManifest(p)+"; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("the change comes into force in stages: stage canary (1 objects get other values), and then everything else (1 objects). "+
			"Until a namespace is reached, the version before decides its objects."), ContainSubstring("Replanned: 2 objects"), ContainSubstring("without the change, it waits to become gold"), ContainSubstring("exit code 2")))

		By("making it")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = rego("silver") })
		Eventually(planned).WithContext(ctx).Should(Equal(map[string]string{canary: "silver", rest: "gold"}))
		Eventually(state).WithContext(ctx).Should(Equal(placementv1.RolloutSoaking))
		Expect(explained(canary)).To(MatchRegexp(`revision \d+ decides, which is the version in the spec: namespace %s is in stage canary, which the rollout has reached`, canary))
		Expect(explained(rest)).To(ContainSubstring("revision 1 decides: namespace %s is in no stage and follows after the last one", rest))
		Expect(f.MustKubectl(ctx, "", "berth", "violations", name)).To(And(ContainSubstring(`should be silver`), ContainSubstring(`should be gold`)))

		By("reading a snapshot")
		snapshot := filepath.Join(GinkgoT().TempDir(), "cluster.json.gz")
		f.MustKubectl(ctx, "", "berth", "snapshot", "-o", snapshot)
		Expect(f.Shell(ctx, "KUBECONFIG=/dev/null kubectl berth plan "+name+" --from "+snapshot)).To(Equal(f.MustKubectl(ctx, "", "berth", "plan", name)))

		By("reading without the right to get revisions")
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		text, err := f.Plane.Kubeconfig("reader-of-" + name)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())
		f.MustKubectl(ctx, "", "create", "clusterrole", name, "--verb=get,list", "--resource=placementpolicies.placement.berth.dev,configmaps,namespaces,deployments.apps,clusterprofiles.multicluster.x-k8s.io")
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", name, "--clusterrole="+name, "--user=reader-of-"+name)
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrole,clusterrolebinding", name) })
		Eventually(func(ctx context.Context) (string, error) {
			return f.Kubectl(ctx, "", "berth", "violations", name, "--kubeconfig", kubeconfig)
		}).WithContext(ctx).Should(And(ContainSubstring("should be silver"), Not(ContainSubstring("should be gold")),
			ContainSubstring("can't be decided: revision 1 of the policy is in force, and you may not read it: ask for the right to get controllerrevisions.apps in the namespace berth-system")))

		By("rolling back")
		f.MustKubectl(ctx, "", "patch", "plpol", name, "--type=merge", "-p", `{"spec":{"rollout":{"revision":1}}}`)
		Eventually(planned).WithContext(ctx).Should(Equal(map[string]string{canary: "gold", rest: "gold"}))
		Expect(explained(canary)).To(ContainSubstring("revision 1 decides: spec.rollout.revision selects this revision for all namespaces"))
	})
})

var _ = Describe("kubectl berth whatif", func() {
	It("tells what then happens", func(ctx SpecContext) {
		_ = f.Client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "fleet-system"}}})
		r := rand.New(rand.NewPCG(21, uint64(GinkgoRandomSeed())))
		namespace := f.NewNamespace(ctx, nil)
		for i := range 4 {
			createCluster(ctx, fmt.Sprintf("c%d", i), randomLabels(r))
		}
		w := &predicted{r: r, namespace: namespace, policies: map[string]*placementv1.PlacementPolicy{}, transitions: map[whatif.Transition]int{}, dataChanges: map[string]int{}}
		for range 20 {
			Expect(f.Client.Create(ctx, w.newObject())).To(Succeed())
		}
		for i := range 2 {
			w.apply(ctx, w.newPolicy(i))
		}
		// enough changes have every transition.
		const enough = 200
		changes := budget.Rounds(60)
		for range changes {
			w.predict(ctx)
		}
		AddReportEntry("transitions", fmt.Sprint(w.transitions))
		if changes < enough {
			return
		}
		Expect(w.transitions).To(And(HaveKey(whatif.Moved), HaveKey(whatif.Changed), HaveKey(whatif.Pending), HaveKey(whatif.Denied), HaveKey(whatif.Allowed)))
	}, SpecTimeout(40*time.Minute))

	It("prints the difference, and sets the exit code", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		p := framework.NewPolicy("labels", `package p

labels.tier := "gold"
`, "apps", "deployments", namespace)
		p.Spec.Mode, p.Spec.Remediation.Mode = placementv1.ModeEnforce, placementv1.RemediationManual
		manifest := writeManifest(p)
		out, err := f.Shell(ctx, "kubectl berth whatif -f "+manifest+"; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("label tier: (none) -> gold (labels)"), ContainSubstring("it waits for an update that changes what PlacementPolicy labels "), ContainSubstring("exit code 2")))
		f.CreateReadyPolicy(ctx, p)
		out = f.MustKubectl(ctx, "", "berth", "violations", "labels")
		Expect(out).To(ContainSubstring("deployments.apps " + namespace + "/web: policy labels"))
		plan := &whatif.Plan{}
		Expect(json.Unmarshal([]byte(f.MustKubectl(ctx, "", "berth", "plan", "labels", "-o", "json")), plan)).To(Succeed())
		Expect(plan.Moves).To(ConsistOf(HaveField("Name", "web")))
		Eventually(func(ctx context.Context) (*placementv1.RemediationPlan, error) {
			p, err := f.Policy(ctx, "labels")
			return p.Status.Plan, err
		}).WithContext(ctx).Should(HaveValue(HaveField("Digest", plan.Digest)))
		Expect(f.MustKubectl(ctx, "", "berth", "plan", "labels")).To(HavePrefix("Plan " + plan.Digest + " of PlacementPolicy labels: 1 object to patch\nCause: generation 1 of the policy came into force\n" +
			"It waits for an update that changes what PlacementPolicy labels reads or writes (spec.remediation.mode of PlacementPolicy labels is Manual)\n" +
			"deployments.apps " + namespace + "/web\n  set label tier to gold\n"))
		out, err = f.Shell(ctx, "kubectl berth whatif --delete plpol/none; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("placementpolicies.placement.berth.dev none does not exist"), ContainSubstring("exit code 1")))
	})

	It("approves the plan that it shows, and nothing that does not wait for an approval", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		p := framework.NewPolicy("asking", `package p

labels.tier := "gold"
`, "apps", "deployments", namespace)
		p.Spec.Mode, p.Spec.Remediation.Mode = placementv1.ModeEnforce, placementv1.RemediationApproved
		f.CreateReadyPolicy(ctx, p)
		state := func(ctx context.Context) (placementv1.PlanState, error) {
			p, err := f.Policy(ctx, "asking")
			if err != nil || p.Status.Plan == nil {
				return "", err
			}
			return p.Status.Plan.State, nil
		}
		Eventually(state).WithContext(ctx).Should(Equal(placementv1.PlanWaitingForApproval))
		out, err := f.Shell(ctx, "kubectl berth approve asking < /dev/null; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring(" of PlacementPolicy asking: 1 object to patch"), ContainSubstring("exit code 1")))
		Expect(state(ctx)).To(Equal(placementv1.PlanWaitingForApproval))
		Expect(f.MustKubectl(ctx, "", "berth", "approve", "asking", "--yes")).To(ContainSubstring("placementpolicy/asking approved: placement.berth.dev/approve="))
		Eventually(func(ctx context.Context) (map[string]string, error) {
			o, err := f.Get(ctx, framework.Deployment, namespace, "web")
			return o.GetLabels(), err
		}).WithContext(ctx).Should(HaveKeyWithValue("tier", "gold"))
		Eventually(state).WithContext(ctx).Should(Equal(placementv1.PlanCompleted))
		out, err = f.Shell(ctx, "kubectl berth approve asking --yes; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("asking does not wait for an approval: plan "), ContainSubstring("exit code 1")))
	})

	It("gives quotas the status that follows from the change", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		q := framework.NewScopedQuota(namespace, "main", placementv1.QuotaSpec{Hard: framework.Hard("count/configmaps", "5")})
		f.CreateReadyQuota(ctx, q)
		// The API server puts a ConfigMap into each namespace.
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "counted", nil))).To(Succeed())
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		p := framework.NewPolicy("quotas", fmt.Sprintf(`package p

quota := data.berth.quotas[%q].main

annotations["example.com/hard"] := quota.hard["count/configmaps"]

errors contains "the namespace is full" if to_number(quota.used["count/configmaps"]) >= to_number(quota.hard["count/configmaps"])
`, namespace), "apps", "deployments", namespace)
		p.Spec.Mode, p.Spec.Remediation.Mode = placementv1.ModeEnforce, placementv1.RemediationAutomatic
		f.CreateReadyPolicy(ctx, p)
		hard := func(ctx context.Context) (string, error) {
			o, err := f.Get(ctx, framework.Deployment, namespace, "web")
			return o.GetAnnotations()["example.com/hard"], err
		}
		Eventually(hard).WithContext(ctx).Should(Equal("5"))
		var count string
		Eventually(func(g Gomega, ctx context.Context) {
			used, err := f.Used(ctx, q)
			g.Expect(err).NotTo(HaveOccurred())
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(framework.ConfigMap)
			g.Expect(f.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			count = fmt.Sprint(len(list.Items))
			g.Expect(used).To(HaveKeyWithValue("count/configmaps", count))
		}).WithContext(ctx).Should(Succeed())
		path := "scopedquotas/" + namespace + "/main:spec.hard"

		By("raising it")
		out, err := f.Shell(ctx, `kubectl berth whatif --set "`+path+`={count/configmaps: '7'}"; echo exit code $?`)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("annotation example.com/hard: 5 -> 7"), ContainSubstring("exit code 2")))
		f.MustKubectl(ctx, "", "patch", "squota", "main", "-n", namespace, "--type=merge", "-p", `{"spec":{"hard":{"count/configmaps":"7"}}}`)
		Eventually(hard).WithContext(ctx).Should(Equal("7"))

		By("lowering it to what is used")
		manifest := filepath.Join(GinkgoT().TempDir(), "quota.yaml")
		Expect(os.WriteFile(manifest, fmt.Appendf(nil, `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: main, namespace: %s}
spec: {hard: {count/configmaps: %q}}
`, namespace, count), 0o600)).To(Succeed())
		out, err = f.Shell(ctx, "kubectl berth whatif -f "+manifest+" --max-moves 0; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("the namespace is full"), ContainSubstring("exit code 3")))
		f.MustKubectl(ctx, "", "apply", "-f", manifest)
		denied := func(ctx context.Context) bool {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/any":"a"}}}`))
			return isDenied(f.Client.Patch(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil), patch, client.DryRunAll))
		}
		Eventually(denied).WithContext(ctx).Should(BeTrue())

		By("deleting what it counts")
		out, err = f.Shell(ctx, "kubectl berth whatif --delete configmaps/"+namespace+"/counted; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("Allowed"), ContainSubstring("web"), ContainSubstring("exit code 2")))
		Expect(f.Client.Delete(ctx, framework.NewObject(framework.ConfigMap, namespace, "counted", nil))).To(Succeed())
		Eventually(denied).WithContext(ctx).Should(BeFalse())
	})
})

// writeManifest writes a policy into a file and returns its path.
func writeManifest(p *placementv1.PlacementPolicy) string {
	GinkgoHelper()
	out := filepath.Join(GinkgoT().TempDir(), p.Name+".yaml")
	Expect(os.WriteFile(out, []byte(framework.PolicyManifest(p)), 0o600)).To(Succeed())
	return out
}

// setting returns a number from the environment, or the default, which is quick.
func setting(name string, otherwise int) int {
	GinkgoHelper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	Expect(err).NotTo(HaveOccurred())
	return n
}

func randomLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"region", "tier"} {
		if r.IntN(4) > 0 {
			out[key] = string("abc"[r.IntN(3)])
		}
	}
	return out
}

var _ = Describe("kubectl berth doctor", func() {
	It("says what is wrong, and where to read on", func(ctx SpecContext) {
		p := framework.NewPolicy("unserved", `package p

warnings contains name if some name in object.keys(data.kubernetes.gizmos)
`, "apps", "deployments", "nowhere")
		f.CreatePolicy(ctx, p)
		Eventually(func(ctx context.Context) (string, error) {
			return f.Shell(ctx, "kubectl berth doctor; echo exit code $?")
		}).WithContext(ctx).Should(And(
			ContainSubstring("error: PlacementPolicy unserved: is not ready: NotServed: "), ContainSubstring("  see docs/runbook.md#notserved\n"),
			// The suite's manager is not in the cluster, and elects no leader.
			ContainSubstring("error: Deployment berth-controller-manager: does not exist in the namespace berth-system"),
			ContainSubstring("exit code 1"), Not(ContainSubstring("is not checked")), Not(ContainSubstring("the clock")),
		))
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		text, err := f.Plane.Kubeconfig("stranger")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())
		out, err := f.Shell(ctx, "kubectl berth doctor --kubeconfig "+kubeconfig+"; echo exit code $?")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("warning: Lease berth.placement.berth.dev: is not checked: "), ContainSubstring("exit code 0")))
	})
})

var _ = Describe("kubectl berth check", func() {
	It("says what the webhook says when a policy is applied", func(ctx SpecContext) {
		for _, text := range []string{
			`package p

annotation.a := "b"
`, `package p

labels.a := b
`, `package p

labels.a := "b" if input.metadata.lables.a
`,
			`package p

warnings contains x if some x in data.kubernetes.gadgets
`, `package p

labels.a := "b"
`,
		} {
			p := framework.NewPolicy("checked", text, "apps", "deployments")
			manifest := writeManifest(p)
			applied, applyErr := f.Kubectl(ctx, "", "apply", "--dry-run=server", "-f", manifest)
			out, checkErr := f.Shell(ctx, "kubectl berth check --live -o json -f "+manifest+" 2>/dev/null")
			Expect(checkErr == nil).To(Equal(applyErr == nil), "%s%s", out, applied)
			var checked []struct{ Errors, Warnings []string }
			Expect(json.Unmarshal([]byte(out), &checked)).To(Succeed(), out)
			Expect(checked).To(HaveLen(1))
			var warnings []string
			for line := range strings.Lines(applied) {
				if warning, ok := strings.CutPrefix(strings.TrimSpace(line), "Warning: "); ok {
					warnings = append(warnings, warning)
				}
			}
			Expect(checked[0].Warnings).To(ConsistOf(warnings))
			for _, message := range checked[0].Errors {
				_, message, _ = strings.Cut(message, ": ")
				Expect(applied).To(ContainSubstring(message))
			}
		}
	})

	It("finds nothing in the policy library, which the API server accepts without a warning", func(ctx SpecContext) {
		entries, err := os.ReadDir("../../../library")
		Expect(err).NotTo(HaveOccurred())
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			out := f.MustKubectl(ctx, "", "apply", "--dry-run=server", "-k", "library/"+entry.Name())
			if strings.HasPrefix(entry.Name(), "quota") {
				// The class and the namespaces of the example do not exist here.
				continue
			}
			Expect(out).NotTo(ContainSubstring("Warning"), entry.Name())
		}
	})
})

var _ = Describe("a simulation", func() {
	It("decides as the webhook does, while policies and clusters change", func(ctx SpecContext) {
		_ = f.Client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "fleet-system"}}})
		r := rand.New(rand.NewPCG(20, uint64(GinkgoRandomSeed())))
		labels := func() map[string]string {
			out := map[string]string{}
			for _, key := range []string{"region", "tier"} {
				if r.IntN(4) > 0 {
					out[key] = string("abc"[r.IntN(3)])
				}
			}
			return out
		}
		for i := range 5 {
			createCluster(ctx, fmt.Sprintf("c%d", i), labels())
		}
		namespace := f.NewNamespace(ctx, map[string]string{"team": "payments"})
		var names []string
		for i := range 5 {
			p := framework.NewPolicy(fmt.Sprintf("generated-%d", i), generatePolicy(r, i), "apps", "deployments", namespace)
			p.Spec.Priority = int32(r.IntN(3))
			f.CreatePolicy(ctx, p)
			names = append(names, p.Name)
		}
		rounds := setting("BERTH_COMPARED_ROUNDS", 4)
		for round := range rounds {
			if round > 0 {
				By("changing a cluster and a policy")
				patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"region":%q}}}`, string("abc"[r.IntN(3)])))
				obj := framework.NewObject(framework.ClusterProfile, "fleet-system", fmt.Sprintf("c%d", r.IntN(5)), nil)
				Expect(f.Client.Patch(ctx, obj, patch)).To(Succeed())
				f.ChangePolicy(ctx, names[r.IntN(len(names))], func(p *placementv1.PlacementPolicy) { p.Spec.Rego = generatePolicy(r, round+10) })
			}
			for _, name := range names {
				f.AwaitReady(ctx, name)
			}
			Eventually(func(g Gomega, ctx context.Context) {
				s := simulate(ctx)
				for range setting("BERTH_COMPARED_OBJECTS", 25) {
					object := framework.NewObject(framework.Deployment, namespace, "web", labels())
					object.SetLabels(labels())
					compare(ctx, g, s, object)
				}
			}).WithContext(ctx).Should(Succeed())
		}
	}, SpecTimeout(30*time.Minute))

	It("knows the types of the API server without asking it", func(ctx SpecContext) {
		client, err := discovery.NewDiscoveryClientForConfig(f.Config)
		Expect(err).NotTo(HaveOccurred())
		version, err := client.ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		if version.Minor != simulation.KubernetesMinor {
			Skip("the types are those of Kubernetes 1." + simulation.KubernetesMinor)
		}
		groups, resources, err := client.ServerGroupsAndResources()
		Expect(err).NotTo(HaveOccurred())
		known := simulation.KubernetesDiscovery()
		var got, want []string
		for _, list := range resources {
			if strings.HasSuffix(strings.Split(list.GroupVersion, "/")[0], "berth.dev") || strings.Contains(list.GroupVersion, "multicluster.x-k8s.io") {
				continue
			}
			for _, r := range list.APIResources {
				got = append(got, fmt.Sprint(list.GroupVersion, " ", r))
			}
		}
		for _, list := range known.Resources {
			for _, r := range list.APIResources {
				want = append(want, fmt.Sprint(list.GroupVersion, " ", r))
			}
		}
		Expect(got).To(ConsistOf(want))
		for _, group := range known.Groups {
			Expect(groups).To(ContainElement(HaveField("PreferredVersion", group.PreferredVersion)))
		}
	})
})

// generatePolicy returns a policy that sets labels, annotations, and clusters, and denies some objects.
func generatePolicy(r *rand.Rand, number int) string {
	value := func() string { return string("abc"[r.IntN(3)]) }
	condition := func() string {
		return []string{
			fmt.Sprintf(`c.labels.region == %q`, value()), `c.labels.region == input.metadata.labels.region`, fmt.Sprintf(`not c.labels.tier == %q`, value()),
			fmt.Sprintf(`c.labels.tier in {%q, %q}`, value(), value()),
		}[r.IntN(4)]
	}
	return fmt.Sprintf(`package generated%d

clusters contains name if {
  some name, c in data.clusters
  %s
}

clusters contains name if {
  some name, c in data.clusters
  %s
}

annotations["example.com/tier"] := sprintf("%%s-%d", [input.metadata.labels.tier])

labels["example.com/count"] := sprintf("n%%d", [count(data.clusters)]) if input.metadata.annotations.tier == %q

errors contains "not here" if {
  input.metadata.labels.region == %q
  input.metadata.annotations.region == %q
}
`, number, condition(), condition(), r.IntN(3), value(), value(), value())
}

// compare checks that the API server and the simulation place an object alike, or both deny it.
func compare(ctx context.Context, g Gomega, s *simulation.Simulation, object *unstructured.Unstructured) {
	o, err := s.NewObject(object.DeepCopy(), false)
	g.Expect(err).NotTo(HaveOccurred())
	outcome, err := s.Decide(ctx, o)
	g.Expect(err).NotTo(HaveOccurred())
	var denials []string
	for _, v := range outcome.Verdicts {
		g.Expect(v.Err).NotTo(HaveOccurred())
		denials = append(denials, v.Decision.Errors...)
	}
	err = f.Client.Create(ctx, object, client.DryRunAll)
	if len(denials) > 0 {
		g.Expect(err).To(MatchError(ContainSubstring(denials[0])))
		return
	}
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(outcome.Verdicts).NotTo(BeEmpty())
	want := func(obj *unstructured.Unstructured) map[string]map[string]string {
		annotations := maps.Clone(obj.GetAnnotations())
		// Each signs the record with a key of its own.
		delete(annotations, placementv1.RequestedAnnotation)
		return map[string]map[string]string{"annotations": annotations, "labels": obj.GetLabels()}
	}
	g.Expect(cmp.Diff(want(object), want(outcome.Object))).To(BeEmpty())
}
