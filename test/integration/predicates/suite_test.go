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

// Package predicates_test shows what policies that ask the scheduler's predicates do, on a real API server.
package predicates_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	f *framework.Framework
	// auditLog is the API server's, of lists and watches of what predicates look at, and of Deployments.
	auditLog string
)

func TestPredicates(t *testing.T) {
	suite.Run(t, "Predicates")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	path, audit := framework.AuditLog([]string{"list", "watch"}, []string{"nodes", "pods", "namespaces", "deployments.apps"})
	auditLog = path
	f = framework.Start(ctx, audit)
	DeferCleanup(f.Stop)
})

// reads are requests of the operator for one type.
type reads struct {
	// All is how many there were so far, and Open how many of them are watches that go on.
	All, Open int
}

// operatorReads are those of the resources in the audit log.
func operatorReads() (map[string]reads, error) {
	text, err := os.ReadFile(auditLog)
	if err != nil {
		return nil, err
	}
	seen := map[types.UID]bool{}
	out := map[string]reads{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		event := &auditv1.Event{}
		if err := json.Unmarshal(line, event); err != nil {
			return nil, err
		}
		if event.User.Username != "system:serviceaccount:"+framework.OperatorNamespace+":berth-controller-manager" {
			continue
		}
		r := out[event.ObjectRef.Resource]
		if !seen[event.AuditID] {
			seen[event.AuditID] = true
			r.All++
			r.Open++
		}
		if event.Stage != auditv1.StageResponseStarted {
			r.Open--
		}
		out[event.ObjectRef.Resource] = r
	}
	return out, nil
}

// start starts a replica that the spec's end stops.
func start(ctx context.Context) *framework.Manager {
	GinkgoHelper()
	m := f.StartReadyManager(ctx)
	DeferCleanup(m.Stop)
	f.AwaitValidation(ctx)
	return m
}

// newNodes makes nodes with four processors and room for ten pods each, which the spec's end deletes.
func newNodes(ctx context.Context, n int) []string {
	GinkgoHelper()
	out := make([]string, n)
	for i := range out {
		out[i] = framework.NewName("node")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: out[i]}}
		Expect(f.Client.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, node)).To(Succeed()) })
		node.Status = corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}
		Expect(f.Client.Status().Update(ctx, node)).To(Succeed())
		// No controller here removes the taint that the API server gives to a new node.
		node.Spec.Taints = nil
		Expect(f.Client.Update(ctx, node)).To(Succeed())
	}
	return out
}

// changeNode merges a change into a node.
func changeNode(ctx context.Context, name, change string, subresources ...string) {
	GinkgoHelper()
	node, patch := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.StrategicMergePatchType, []byte(change))
	if len(subresources) > 0 {
		Expect(f.Client.SubResource(subresources[0]).Patch(ctx, node, patch)).To(Succeed())
		return
	}
	Expect(f.Client.Patch(ctx, node, patch)).To(Succeed())
}

// newDeployment is one whose pods ask for some processors.
func newDeployment(namespace, name, cpu string) *unstructured.Unstructured {
	GinkgoHelper()
	out := framework.NewObject(framework.Deployment, namespace, name, nil)
	containers := []any{map[string]any{"name": "nginx", "image": "nginx", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}}
	Expect(unstructured.SetNestedSlice(out.Object, containers, "spec", "template", "spec", "containers")).To(Succeed())
	return out
}

// place makes a pod that asks for some processors and is on a node. The spec's end deletes it.
func place(ctx context.Context, namespace, name, node, cpu string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "nginx", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	Expect(f.Client.Create(ctx, pod)).To(Succeed())
	DeferCleanup(remove, pod)
	return pod
}

// remove deletes a pod at once; it is no error if it is gone.
func remove(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(f.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
}

// onDeployments is a policy by which the Deployments of a namespace have to fit a node. It has no text.
func onDeployments(namespace string, tune ...func(*placementv1.PlacementPolicy)) *placementv1.PlacementPolicy {
	out := framework.NewPolicy(framework.NewName("fits"), "", "apps", "deployments", namespace)
	out.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes}
	for _, t := range tune {
		t(out)
	}
	return out
}

func withMode(mode placementv1.Mode) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.Mode = mode }
}

func withText(text string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego, p.Spec.Predicates = framework.Rego(text), nil
	}
}

// counts are what `kubectl get` shows of a policy; -1 stands for an absent one.
type counts struct{ Matched, Violations int }

func countsOf(ctx context.Context, policy string) (counts, error) {
	p, err := f.Policy(ctx, policy)
	out := counts{-1, -1}
	if err != nil {
		return out, err
	}
	if n := p.Status.Matched; n != nil {
		out.Matched = int(*n)
	}
	if n := p.Status.Violations; n != nil {
		out.Violations = int(*n)
	}
	return out, nil
}

func expectCounts(ctx context.Context, policy string, want counts) {
	GinkgoHelper()
	Eventually(countsOf).WithContext(ctx).WithArguments(policy).Should(Equal(want))
}

// asked returns how often remediation queried a policy. evaluated returns how many decisions were evaluated, as opposed
// to taken from the decision cache.
func asked(m *framework.Manager, policy string) int {
	return total(m, "berth_decisions_total", fmt.Sprintf("policy=%q", policy), fmt.Sprintf("source=%q", metrics.SourceRemediation))
}

func evaluated(m *framework.Manager) int {
	return total(m, "berth_decision_memo_total", fmt.Sprintf("result=%q", metrics.MemoMiss))
}

func total(m *framework.Manager, metric string, labels ...string) int {
	GinkgoHelper()
	series, err := m.Series(metric, labels...)
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, value := range series {
		sum += value
	}
	return int(sum)
}
