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

package predicates_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

const feasible = `errors contains msg if {
	verdicts := k8s.feasible(input, {"matchLabels": {"pool": "gold"}})
	not any_fits(verdicts)
	msg := sprintf("no gold node fits: %s", [concat("; ", {r | some v in verdicts; some r in v.reasons})])
}

any_fits(verdicts) if verdicts[_].feasible`

var _ = Describe("A workload that fits no node", func() {
	It("is denied with the reasons of the scheduler, and by how many nodes have each", func(ctx SpecContext) {
		start(ctx)
		namespace, nodes := f.NewNamespace(ctx, nil), newNodes(ctx, 3)
		p := onDeployments(namespace)
		f.CreateReadyPolicy(ctx, p)
		tainted := nodes[0]
		changeNode(ctx, tainted, `{"spec": {"taints": [{"key": "example.com/reserved", "effect": "NoSchedule"}]}}`)
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, newDeployment(namespace, "big", "5"), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(And(
			ContainSubstring("0/3 nodes fit: "), ContainSubstring("2 Insufficient cpu"), ContainSubstring("1 node(s) had untolerated taint"),
		)))
		Expect(f.Client.Create(ctx, newDeployment(namespace, "small", "3"))).To(Succeed())
		expectCounts(ctx, p.Name, counts{1, 0})
	})

	It("is let in with a warning in mode Warn, and counted in mode DryRun", func(ctx SpecContext) {
		start(ctx)
		namespace := f.NewNamespace(ctx, nil)
		newNodes(ctx, 2)
		warns, counting := onDeployments(namespace, withMode(placementv1.ModeWarn)), onDeployments(namespace, withMode(placementv1.ModeDryRun))
		f.CreateReadyPolicy(ctx, warns)
		Expect(f.MustKubectl(ctx, framework.Manifest(newDeployment(namespace, "warned", "5")), "create", "-f", "-")).
			To(ContainSubstring("Warning: PlacementPolicy %q (mode Warn) would deny: 0/2 nodes fit: 2 Insufficient cpu", warns.Name))
		f.DeletePolicy(ctx, warns.Name)
		f.CreateReadyPolicy(ctx, counting)
		Expect(f.MustKubectl(ctx, framework.Manifest(newDeployment(namespace, "counted", "5")), "create", "-f", "-")).To(Equal("deployment.apps/counted created\n"))
		expectCounts(ctx, counting.Name, counts{2, 2})
	})

	It("is denied by a text that asks about some of the nodes", func(ctx SpecContext) {
		start(ctx)
		namespace, nodes := f.NewNamespace(ctx, nil), newNodes(ctx, 2)
		changeNode(ctx, nodes[0], `{"metadata": {"labels": {"pool": "gold"}}, "spec": {"unschedulable": true}}`)
		p := onDeployments(namespace, withText(feasible))
		f.CreateReadyPolicy(ctx, p)
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, newDeployment(namespace, "any", "1"), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("node(s) were unschedulable")))
	})
})

var _ = Describe("Existing workloads", func() {
	It("become violations when nodes change, and are none when they change back", func(ctx SpecContext) {
		start(ctx)
		namespace, node := f.NewNamespace(ctx, nil), newNodes(ctx, 1)[0]
		changeNode(ctx, node, `{"metadata": {"labels": {"pool": "gold"}}}`)
		byText, byField := onDeployments(namespace, withText(feasible)), onDeployments(namespace)
		f.CreateReadyPolicy(ctx, byText)
		f.CreateReadyPolicy(ctx, byField)
		both := func(violations int) {
			GinkgoHelper()
			expectCounts(ctx, byText.Name, counts{2, violations})
			expectCounts(ctx, byField.Name, counts{2, violations})
		}
		// Two that policies can tell apart.
		Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, newDeployment(namespace, "one", "1")) }).WithContext(ctx).Should(Succeed())
		Expect(f.Client.Create(ctx, newDeployment(namespace, "two", "2"))).To(Succeed())
		both(0)

		By("cordoning")
		changeNode(ctx, node, `{"spec": {"unschedulable": true}}`)
		both(2)
		changeNode(ctx, node, `{"spec": {"unschedulable": null}}`)
		both(0)

		By("tainting")
		changeNode(ctx, node, `{"spec": {"taints": [{"key": "example.com/reserved", "effect": "NoSchedule"}]}}`)
		both(2)
		changeNode(ctx, node, `{"spec": {"taints": null}}`)
		both(0)

		By("a pod that takes what one of them needs")
		pod := place(ctx, namespace, "filler", node, "2500m")
		both(1)
		Eventually(f.Condition).WithContext(ctx).WithArguments(byField.Name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations))
		violations := func(ctx context.Context) ([]placementv1.Violation, error) {
			p, err := f.Policy(ctx, byField.Name)
			return p.Status.ViolationSample, err
		}
		text := func(o placementv1.ObjectReference) string { return string(o) }
		two := HaveField("Object", WithTransform(text, HaveSuffix("/two")))
		Eventually(violations).WithContext(ctx).Should(ConsistOf(And(two, HaveField("Message", ContainSubstring("0/1 nodes fit: 1 Insufficient cpu")))))
		remove(ctx, pod)
		both(0)

		By("less of a resource")
		changeNode(ctx, node, `{"status": {"allocatable": {"cpu": "1500m"}}}`, "status")
		both(1)
		changeNode(ctx, node, `{"status": {"allocatable": {"cpu": "4"}}}`, "status")
		both(0)

		By("a label that one of the policies selects by")
		changeNode(ctx, node, `{"metadata": {"labels": {"pool": "silver"}}}`)
		expectCounts(ctx, byText.Name, counts{2, 2})
		expectCounts(ctx, byField.Name, counts{2, 0})
	})

	It("are not evaluated for what alters no verdict", func(ctx SpecContext) {
		m := start(ctx)
		namespace, nodes := f.NewNamespace(ctx, nil), newNodes(ctx, 2)
		changeNode(ctx, nodes[0], `{"metadata": {"labels": {"pool": "gold"}}}`)
		p := onDeployments(namespace, withText(feasible))
		f.CreateReadyPolicy(ctx, p)
		// Three of them are one group, and one is alone.
		for i := range 3 {
			name := fmt.Sprintf("like-%d", i)
			Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, newDeployment(namespace, name, "1")) }).WithContext(ctx).Should(Succeed())
		}
		Expect(f.Client.Create(ctx, newDeployment(namespace, "alone", "2"))).To(Succeed())
		expectCounts(ctx, p.Name, counts{4, 0})
		quiet := func() (out [2]int) { return [2]int{asked(m, p.Name), evaluated(m)} }
		settled := func() [2]int {
			GinkgoHelper()
			var before [2]int
			Eventually(func() bool {
				same := before == quiet()
				before = quiet()
				return same
			}).WithContext(ctx).WithPolling(framework.Quiet).Should(BeTrue())
			return before
		}
		before := settled()

		By("heartbeats of nodes, which nobody is asked about")
		for range 3 {
			changeNode(ctx, nodes[0], `{"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-21T12:00:00Z", "message": "`+framework.NewName("beat")+`"}]}}`, "status")
		}
		Consistently(quiet).WithContext(ctx).Should(Equal(before))

		By("pods elsewhere, whose nodes no answer hangs on")
		for range 3 {
			place(ctx, namespace, framework.NewName("elsewhere"), nodes[1], "1")
		}
		Eventually(func() int { return asked(m, p.Name) }).WithContext(ctx).Should(BeNumerically(">", before[0]))
		Expect(settled()[1]).To(Equal(before[1]))

		By("and are when it does")
		changeNode(ctx, nodes[0], `{"spec": {"unschedulable": true}}`)
		expectCounts(ctx, p.Name, counts{4, 4})
		Expect(evaluated(m)).To(BeNumerically(">", before[1]))
	})
})

var _ = Describe("Nodes, pods and namespaces", func() {
	It("are read while a policy asks predicates, and only then", func(ctx SpecContext) {
		m := start(ctx)
		namespace, node := f.NewNamespace(ctx, nil), newNodes(ctx, 1)[0]
		place(ctx, namespace, "there", node, "1")
		other := framework.NewPolicy(framework.NewName("other"), framework.Rego(`annotations["example.com/a"] := "1"`), "apps", "deployments", namespace)
		f.CreateReadyPolicy(ctx, other)
		before, err := operatorReads()
		Expect(err).NotTo(HaveOccurred())
		open := func() (map[string]int, error) {
			now, err := operatorReads()
			out := map[string]int{}
			for _, r := range []string{"nodes", "pods", "namespaces"} {
				out[r] = now[r].Open
			}
			return out, err
		}
		// The labels of namespaces are always there, for selectors.
		Expect(open()).To(Equal(map[string]int{"nodes": 0, "pods": 0, "namespaces": 1}))

		p := onDeployments(namespace)
		f.CreateReadyPolicy(ctx, p)
		Eventually(open).WithContext(ctx).Should(Equal(map[string]int{"nodes": 1, "pods": 1, "namespaces": 2}))
		policy, err := f.Policy(ctx, p.Name)
		Expect(err).NotTo(HaveOccurred())
		dependencies := map[string]bool{}
		for _, d := range policy.Status.Dependencies {
			dependencies[d.Resource] = true
			Expect(d.Objects).To(HaveValue(BeNumerically(">=", 1)))
		}
		Expect(dependencies).To(Equal(map[string]bool{"nodes": true, "pods": true, "namespaces": true}))
		Expect(m.Series("berth_replicated_objects")).To(And(HaveKeyWithValue(`resource="nodes"`, 1.0), HaveKeyWithValue(`resource="pods"`, 1.0)))

		f.DeletePolicy(ctx, p.Name)
		Eventually(open).WithContext(ctx).Should(Equal(map[string]int{"nodes": 0, "pods": 0, "namespaces": 1}))
		Expect(m.Series("berth_replicated_objects")).To(BeEmpty())
		after, err := operatorReads()
		Expect(err).NotTo(HaveOccurred())
		Expect(after["nodes"].All).To(BeNumerically(">", before["nodes"].All))
	})

	It("are watched once for policies, predicates, remediation, and quotas", func(ctx SpecContext) {
		start(ctx)
		namespace, node := f.NewNamespace(ctx, nil), newNodes(ctx, 1)[0]
		f.CreateReadyPolicy(ctx, onDeployments(namespace))
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("counts"), framework.Rego(`warnings contains msg if {
	msg := sprintf("%d pods and %d Deployments", [count(data.kubernetes.pods[input.metadata.namespace]), count(data.kubernetes.deployments[input.metadata.namespace])])
}`), "apps", "deployments", namespace))
		quota := framework.NewScopedQuota(namespace, "both", placementv1.QuotaSpec{Hard: framework.Hard("pods", "10", "count/deployments.apps", "10")})
		f.CreateReadyQuota(ctx, quota)
		place(ctx, namespace, "there", node, "1")
		Expect(f.Client.Create(ctx, newDeployment(namespace, "web", "1"))).To(Succeed())
		Eventually(f.Used).WithContext(ctx).WithArguments(quota).Should(And(HaveKeyWithValue("pods", "1"), HaveKeyWithValue("count/deployments.apps", "1")))
		Eventually(func() (map[string]int, error) {
			now, err := operatorReads()
			out := map[string]int{}
			for resource, r := range now {
				out[resource] = r.Open
			}
			return out, err
			// The labels of namespaces are always there, for selectors.
		}).Should(Equal(map[string]int{"nodes": 1, "pods": 1, "deployments": 1, "namespaces": 2}))
	})

	It("are what a policy's status misses a grant for, until it is granted", func(ctx SpecContext) {
		wide := &rbacv1.ClusterRoleBinding{}
		Expect(f.Client.Get(ctx, client.ObjectKey{Name: "berth-test-wide"}, wide)).To(Succeed())
		Expect(f.Client.Delete(ctx, wide.DeepCopy())).To(Succeed())
		restore := sync.OnceFunc(func() {
			wide.ResourceVersion, wide.UID = "", ""
			Expect(f.Client.Create(context.WithoutCancel(ctx), wide)).To(Succeed())
		})
		DeferCleanup(restore)
		start(ctx)
		namespace := f.NewNamespace(ctx, nil)
		newNodes(ctx, 1)
		p := onDeployments(namespace)
		f.CreatePolicy(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReplicated).Should(framework.BeCondition(
			metav1.ConditionFalse, placementv1.ReasonForbidden, `{apiGroups: [""], resources: ["nodes"], verbs: [get, list, watch]}`))
		Expect(f.Client.Create(ctx, newDeployment(namespace, "undecided", "1"), client.DryRunAll)).To(MatchError(ContainSubstring(p.Name)))
		restore()
		f.AwaitReady(ctx, p.Name)
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, newDeployment(namespace, "decided", "1"), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	})
})

var _ = Describe("A manager with a predicate of one's own", func() {
	It("asks it", func(ctx SpecContext) {
		commands := f.NewCommandsOf(ctx, "./docs/examples/custom-predicate")
		commands.StartReady(ctx, "", "--predicates=TaintToleration,Maintenance")
		f.AwaitValidation(ctx)
		namespace, nodes := f.NewNamespace(ctx, nil), newNodes(ctx, 2)
		for _, node := range nodes {
			changeNode(ctx, node, `{"metadata": {"labels": {"example.com/maintenance": "true"}}}`)
		}
		p := onDeployments(namespace, func(p *placementv1.PlacementPolicy) { p.Spec.Predicates.Names = []string{"Maintenance"} })
		f.CreateReadyPolicy(ctx, p)
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, newDeployment(namespace, "any", "1"), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("0/2 nodes fit: 2 node(s) were in maintenance")))
		changeNode(ctx, nodes[0], `{"metadata": {"labels": {"example.com/maintenance": null}}}`)
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, newDeployment(namespace, "any", "1"), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())

		By("refusing a policy that asks for what the manager does not allow")
		q := onDeployments(namespace, func(p *placementv1.PlacementPolicy) { p.Spec.Predicates.Names = []string{"NodeAffinity"} })
		Expect(f.Client.Create(ctx, q)).To(MatchError(ContainSubstring("TaintToleration, Maintenance")))
	})
})
