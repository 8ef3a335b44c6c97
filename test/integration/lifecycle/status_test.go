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

package lifecycle_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// declared returns the values of the API's constants whose names begin with prefix.
func declared(prefix string) []string {
	GinkgoHelper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../api/v1alpha1/conditions.go", nil, 0)
	Expect(err).NotTo(HaveOccurred())
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		Expect(ok).To(BeTrue(), spec.Names[0].Name)
		value, err := strconv.Unquote(literal.Value)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, value)
		return true
	})
	Expect(out).NotTo(BeEmpty())
	return out
}

var _ = Describe("The status of policies", func() {
	// versions are the resource versions of all policies.
	versions := func(ctx context.Context) (map[string]string, error) {
		list := &placementv1.PlacementPolicyList{}
		err := f.Client.List(ctx, list)
		out := map[string]string{}
		for _, p := range list.Items {
			out[p.Name] = p.ResourceVersion
		}
		return out, err
	}

	It("settles, speaks of the newest generation and gives declared reasons, whatever became of the policy", func(ctx SpecContext) {
		m := f.StartReadyManager(ctx)
		stop := sync.OnceFunc(m.Stop)
		DeferCleanup(stop)
		f.AwaitValidation(ctx)
		namespace := f.NewNamespace(ctx, nil)
		for _, name := range []string{"one", "two", "three"} {
			Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, nil))).To(Succeed())
		}
		_, buoys := createBuoys(ctx, "b1")
		want := map[string]string{}
		create := func(kind, rego, reason string, tune ...func(*placementv1.PlacementPolicySpec)) string {
			name := framework.NewName(kind)
			p := framework.NewPolicy(name, rego, "", "configmaps", namespace)
			for _, t := range tune {
				t(&p.Spec)
			}
			f.CreatePolicy(ctx, p)
			want[name] = reason
			return name
		}
		remediation := func(mode placementv1.RemediationMode) func(*placementv1.PlacementPolicySpec) {
			return func(s *placementv1.PlacementPolicySpec) { s.Remediation.Mode = mode }
		}
		create("good", zone("a"), placementv1.ReasonInForce)
		create("rival", zone("b"), placementv1.ReasonInForce)
		create("reader", buoys, placementv1.ReasonInForce, remediation(placementv1.RemediationManual))
		create("denier", framework.Rego(`errors contains "no" if input.metadata.name == "two"`), placementv1.ReasonInForce, remediation(placementv1.RemediationManual))
		create("failing", framework.Rego(`labels["n"] := json.unmarshal("1") if input.metadata.name == "three"`), placementv1.ReasonObjectsUndecided)
		create("warner", zone("c"), placementv1.ReasonInForce, func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeWarn })
		create("counter", zone("d"), placementv1.ReasonInForce, func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeDryRun })
		create("off", zone("e"), placementv1.ReasonInForce, remediation(placementv1.RemediationOff))
		create("waiting", framework.Rego("errors contains n if some n, _ in data.kubernetes.mermaids"), placementv1.ReasonNotServed)
		lastGood := create("lastgood", zone("a"), placementv1.ReasonLastGoodInForce)
		f.AwaitReady(ctx, lastGood)
		breakPolicy(ctx, lastGood)

		check := func(g Gomega, ctx context.Context) {
			types, reasons := declared("Condition"), declared("Reason")
			for name, reason := range want {
				p, err := f.Policy(ctx, name)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(p.Status.ObservedGeneration).To(Equal(p.Generation), name)
				stalled := false
				for _, c := range p.Status.Conditions {
					g.Expect(c.ObservedGeneration).To(Equal(p.Generation), "%s %s", name, c.Type)
					g.Expect(types).To(ContainElement(c.Type), name)
					g.Expect(reasons).To(ContainElement(c.Reason), "%s %s", name, c.Type)
					if c.Type == placementv1.ConditionStalled {
						stalled = true
						g.Expect(c.Status).To(Equal(metav1.ConditionTrue), name)
					}
					if c.Type == placementv1.ConditionReady {
						g.Expect(c.Reason).To(Equal(reason), name)
					}
				}
				g.Expect(stalled).To(Equal(name == lastGood), name)
			}
		}
		quiet := func() {
			GinkgoHelper()
			Eventually(check).WithContext(ctx).Should(Succeed())
			// How long it takes to settle depends on what else the machine does.
			Eventually(func(g Gomega, ctx context.Context) {
				settled, err := versions(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Consistently(versions).WithContext(ctx).WithTimeout(2 * framework.Quiet).Should(Equal(settled))
			}).WithContext(ctx).Should(Succeed())
			check(Default, ctx)
		}
		quiet()

		// A restarted replica comes to the same conclusions.
		stop()
		start(ctx)
		quiet()

		// A corrected policy is in force, and its status does not change any more.
		f.ChangePolicy(ctx, lastGood, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = zone("a") })
		want[lastGood], lastGood = placementv1.ReasonInForce, ""
		quiet()
	})
})

var _ = Describe("Deleting a policy", func() {
	It("ends the watch that it alone needed, and leaves what others need", func(ctx SpecContext) {
		start(ctx)
		namespace := f.NewNamespace(ctx, nil)
		own, ownRego := createBuoys(ctx)
		shared, sharedRego := createBuoys(ctx)
		first, second, third := framework.NewName("first"), framework.NewName("second"), framework.NewName("third")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(first, ownRego, "", "configmaps", namespace))
		f.CreateReadyPolicy(ctx, framework.NewPolicy(second, sharedRego, "", "configmaps", namespace))
		f.CreateReadyPolicy(ctx, framework.NewPolicy(third, strings.ReplaceAll(sharedRego, "zone", "berth"), "apps", "replicasets", namespace))
		watches := func(ctx context.Context, plural string) (int, error) {
			out, err := f.Kubectl(ctx, "", "get", "--raw", "/metrics")
			n := 0
			for _, line := range regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*resource="`+plural+`".* (\d+)$`).FindAllStringSubmatch(out, -1) {
				value, err := strconv.Atoi(line[1])
				if err != nil {
					return 0, err
				}
				n += value
			}
			return n, err
		}
		Eventually(watches).WithContext(ctx).WithArguments(own).Should(Equal(1))
		Eventually(watches).WithContext(ctx).WithArguments(shared).Should(Equal(1))
		f.DeletePolicy(ctx, first)
		Eventually(watches).WithContext(ctx).WithArguments(own).Should(BeZero())
		f.DeletePolicy(ctx, second)
		Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(BeEmpty())
		Expect(watches(ctx, shared)).To(Equal(1))
		f.DeletePolicy(ctx, third)
		Eventually(watches).WithContext(ctx).WithArguments(shared).Should(BeZero())
	})
})
