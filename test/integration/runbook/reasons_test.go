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

package runbook_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// constants calls visit with the name and the value of every string constant of a file.
func constants(path string, visit func(name, value string)) {
	GinkgoHelper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
	Expect(err).NotTo(HaveOccurred())
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			Expect(err).NotTo(HaveOccurred())
			visit(spec.Names[0].Name, value)
		}
		return true
	})
}

var _ = Describe("The runbook", func() {
	It("has an entry for every reason, and no other", func(ctx SpecContext) {
		var reasons, described []string
		constants("api/v1alpha1/conditions.go", func(name, value string) {
			if strings.HasPrefix(name, "Reason") {
				reasons = append(reasons, value)
			}
		})
		for reason := range entries() {
			described = append(described, reason)
		}
		Expect(described).To(ConsistOf(reasons))
	})

	// A spec can't make these states last, so it compares their messages with those in the code.
	It("quotes the messages of what passes by itself, or what the API server alone can cause", func(ctx SpecContext) {
		var sources strings.Builder
		for _, file := range []string{"controllers/policystatus/status.go", "controllers/policystatus/types.go", "controllers/policystatus/delivery.go",
			"controllers/quotausage/status.go", "internal/status/conditions.go", "internal/engine/engine.go"} {
			sources.WriteString(read(file))
		}
		for _, reason := range unstaged {
			for part := range strings.SplitSeq(entries()[reason].message, "...") {
				part = strings.NewReplacer("harbours.example.com", "%s", "services", "%s").Replace(part)
				Expect(sources.String()).To(ContainSubstring(part), reason)
			}
		}
	})

	It("is tried for all others", func(ctx SpecContext) {
		for reason, e := range entries() {
			if e.message != "" && !slices.Contains(unstaged, reason) {
				Expect(stages()).To(HaveKey(reason))
			}
		}
	})
})

var _ = Describe("The runbook's commands", func() {
	// The rest of a line of the runbook that begins with this.
	line := func(start string) string {
		GinkgoHelper()
		for l := range strings.Lines(read("docs/runbook.md")) {
			if l = strings.TrimPrefix(l, "$ "); strings.HasPrefix(l, start) {
				return strings.TrimSpace(l)
			}
		}
		Fail("the runbook has no " + start)
		return ""
	}

	It("find the leader and its log", func(ctx SpecContext) {
		m := f.StartReadyManager(ctx, func(o *setup.Options) { o.LeaderElection = true })
		DeferCleanup(m.Stop)
		Eventually(f.Shell).WithContext(ctx).WithArguments(line("kubectl --namespace berth-system get lease")).ShouldNot(BeEmpty())
		_, selector, found := strings.Cut(line("kubectl --namespace berth-system logs"), "--selector ")
		Expect(found).To(BeTrue())
		key, value, _ := strings.Cut(strings.Fields(selector)[0], "=")
		Expect(read("config/manager/manager.yaml")).To(ContainSubstring("        " + key + ": " + value + "\n"))
	})

	It("for an emergency take effect", func(ctx SpecContext) {
		p := framework.NewPolicy("name", zone, "", "configmaps", "shop")
		f.CreatePolicy(ctx, p)
		for _, start := range []string{"| one policy denies", "| a policy moves"} {
			out, err := f.Shell(ctx, strings.ReplaceAll(strings.Split(line(start), "`")[1], "NAME", "name"))
			Expect(err).NotTo(HaveOccurred(), out)
		}
		p, err := f.Policy(ctx, "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Spec.Mode).To(Equal(placementv1.ModeWarn))
		Expect(p.Spec.Remediation.Mode).To(Equal(placementv1.RemediationManual))
	})
})

var unstaged = []string{
	placementv1.ReasonNotInForce, placementv1.ReasonReplicating, placementv1.ReasonWatchFailed, placementv1.ReasonWebhookPending,
	placementv1.ReasonWebhookRejected, placementv1.ReasonEvaluating, placementv1.ReasonCounting, placementv1.ReasonPushFailed,
	placementv1.ReasonStale, placementv1.ReasonSchemasUnavailable, placementv1.ReasonNotChecked, placementv1.ReasonDelivering,
}

// oneCluster gives a cluster.
const oneCluster = `package zones

clusters := {"eu-1"}
`

var propagationPolicy = schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"}

// toKarmada has a policy deliver with Karmada.
func toKarmada(p *placementv1.PlacementPolicy) {
	p.Spec.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
}

const (
	zone = `package zones

annotations["example.com/zone"] := "a"
`
	reads = `package zones

annotations["example.com/harbours"] := count(data.kubernetes.harbours)
`
	broken = `package zones

this is not rego`
)

// stage is how a reason comes about, in a world that has the namespace shop with a ConfigMap web and, if the operator is
// running already, a running operator.
type stage struct {
	condition string
	// late says that the operator starts after this.
	late bool
	do   func(ctx context.Context)
	// after is what has to be done besides the entry's commands; nil if they are enough.
	after func(ctx context.Context)
	// shows is part of what the commands print.
	shows string
}

func policy(ctx context.Context, name, rego string, tune ...func(*placementv1.PlacementPolicy)) {
	GinkgoHelper()
	p := framework.NewPolicy(name, rego, "", "configmaps", "shop")
	for _, t := range tune {
		t(p)
	}
	Expect(f.Client.Create(ctx, p)).To(Succeed())
}

// tenants returns as many namespaces as it takes for the objects of all to count for an engine as a whole.
func tenants(ctx context.Context) []string {
	GinkgoHelper()
	var out []string
	for range 3 {
		out = append(out, f.NewNamespace(ctx, nil))
	}
	return out
}

// also has a policy match in further namespaces.
func also(namespaces ...string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		named := &p.Spec.Match.NamespaceSelector.MatchExpressions[0]
		named.Values = append(named.Values, namespaces...)
	}
}

func correct(ctx context.Context) {
	GinkgoHelper()
	f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = zone })
}

// namespaces has a policy match in these namespaces.
func namespaces(names ...string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values = names
	}
}

func mode(m placementv1.Mode) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.Mode = m }
}

func remediation(m placementv1.RemediationMode) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = m }
}

func quotaIn(ctx context.Context, namespace string, hard ...string) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, framework.NewScopedQuota(namespace, "boats", placementv1.QuotaSpec{Hard: framework.Hard(hard...)}))).To(Succeed())
}

func harbours(ctx context.Context) {
	GinkgoHelper()
	f.InstallCRD(ctx, framework.NewCRD("example.com", "v1", "harbours", "Harbour", apiextensionsv1.NamespaceScoped))
}

var staged = map[string]stage{
	placementv1.ReasonCompileFailed: {condition: placementv1.ConditionCompiled, late: true, do: func(ctx context.Context) { policy(ctx, "zones", broken) }},
	placementv1.ReasonLastGoodInForce: {condition: placementv1.ConditionCompiled, late: true, do: func(ctx context.Context) {
		m := f.StartReadyManager(ctx)
		policy(ctx, "zones", zone)
		f.AwaitReady(ctx, "zones")
		Eventually(f.Kubectl).WithContext(ctx).WithArguments("", "get", "controllerrevisions", "--namespace="+framework.OperatorNamespace, "-o", "name").ShouldNot(BeEmpty())
		m.Stop()
		// No webhook validates policies now.
		f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = broken })
	}, after: correct, shows: "1\n" + zone},
	placementv1.ReasonInvalidPolicy: {condition: placementv1.ConditionStalled, late: true, do: func(ctx context.Context) { policy(ctx, "zones", broken) }, after: correct},
	placementv1.ReasonTypeErrors: {condition: placementv1.ConditionCompiled, do: func(ctx context.Context) {
		policy(ctx, "zones", strings.ReplaceAll(zone, `"a"`, "input.metadata.lables.zone"))
	}, after: correct, shows: "3:36: input.metadata.lables.zone is undefined"},
	placementv1.ReasonNothingDecided: {condition: placementv1.ConditionReady, do: func(ctx context.Context) {
		policy(ctx, "zones", strings.ReplaceAll(zone, "annotations", "zone"))
	}, after: correct},
	placementv1.ReasonForbidden: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) {
		harbours(ctx)
		policy(ctx, "zones", reads)
	}},
	placementv1.ReasonNotServed: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) { policy(ctx, "zones", reads) }, after: correct},
	placementv1.ReasonPartlyServed: {condition: placementv1.ConditionEnforced, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ResourceRules[0].Resources = []string{"configmaps", "configmap"}
		})
	}, after: func(ctx context.Context) {
		f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ResourceRules[0].Resources = []string{"configmaps"}
		})
	}},
	placementv1.ReasonNothingMatched: {condition: placementv1.ConditionEnforced, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, namespaces("kube-system"))
	}, after: func(ctx context.Context) { f.ChangePolicy(ctx, "zones", namespaces("shop")) }},
	placementv1.ReasonNoNamespaces: {condition: placementv1.ConditionEnforced, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "harbour"}}
		})
		DeferCleanup(f.MustKubectl, "", "label", "namespace", "shop", "team-")
	}},
	placementv1.ReasonUnknownClass: {condition: placementv1.ConditionMatched, do: func(ctx context.Context) {
		Expect(f.Client.Create(ctx, framework.NewScopedQuota("shop", "boats", placementv1.QuotaSpec{
			Hard: framework.Hard("pods", "1"),
			ScopeSelector: &placementv1.ScopeSelector{MatchExpressions: []placementv1.ScopeRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"harbour"},
			}}},
		}))).To(Succeed())
	}},
	placementv1.ReasonWarnMode:   {condition: placementv1.ConditionEnforced, do: func(ctx context.Context) { policy(ctx, "zones", zone, mode(placementv1.ModeWarn)) }},
	placementv1.ReasonDryRunMode: {condition: placementv1.ConditionEnforced, do: func(ctx context.Context) { policy(ctx, "zones", zone, mode(placementv1.ModeDryRun)) }},
	placementv1.ReasonViolations: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, remediation(placementv1.RemediationManual))
	}, shows: "configmaps shop/web: "},
	placementv1.ReasonRemediationOff: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, remediation(placementv1.RemediationOff))
	}},
	placementv1.ReasonEvaluationFailed: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		policy(ctx, "zones", `package zones

labels["n"] := json.unmarshal("1")
`)
	}, after: correct},
	placementv1.ReasonObjectsUndecided: {condition: placementv1.ConditionReady, do: func(ctx context.Context) {
		policy(ctx, "zones", `package zones

labels["n"] := json.unmarshal("1")
`)
	}, after: correct, shows: "configmaps shop/web: can't be decided"},
	placementv1.ReasonForbiddenTargets: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		harbours(ctx)
		policy(ctx, "zones", zone, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ResourceRules[0].APIGroups, p.Spec.Match.ResourceRules[0].Resources = []string{"example.com"}, []string{"harbours"}
		})
	}},
	placementv1.ReasonNotSettling: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		policy(ctx, "zones", `package zones

own := data.kubernetes.configmaps.shop.web.metadata.annotations["example.com/n"]

default n := 0

n := to_number(own) + 1

annotations["example.com/n"] := n
`)
	}, after: correct},
	placementv1.ReasonContested: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		rival := f.StartRival(ctx, "shop", map[string]string{"example.com/zone": "theirs"})
		policy(ctx, "zones", zone)
		rival.Fight(ctx, f, framework.ConfigMap, "web", 3)
	}, after: func(ctx context.Context) {
		f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = strings.ReplaceAll(zone, `"a"`, `"b"`) })
	}},
	placementv1.ReasonBlastRadius:      {condition: placementv1.ConditionPaused, do: func(ctx context.Context) { closeTo(ctx, occupied(ctx, 2)...) }},
	placementv1.ReasonNamespacesPaused: {condition: placementv1.ConditionPaused, do: func(ctx context.Context) { closeTo(ctx) }, shows: `["shop"]`},
	placementv1.ReasonTooManyFailures: {condition: placementv1.ConditionPaused, do: func(ctx context.Context) {
		example := framework.NewObject(framework.ConfigMap, "default", "example", map[string]string{"example.com/zone": "refused"})
		f.Refuse(ctx, `!has(object.metadata.annotations) || object.metadata.annotations[?"example.com/zone"].orValue("") != "refused"`, "no such zone", example)
		policy(ctx, "zones", strings.ReplaceAll(zone, `"a"`, `"refused"`), also(occupied(ctx, 2)...), func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Budget = &placementv1.RemediationBudget{PauseAfterFailures: new(intstr.FromInt32(1))}
		})
	}, after: correct, shows: "configmaps shop/"},
	placementv1.ReasonWaitingForApproval: {condition: placementv1.ConditionPaused, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, approved)
	}, shows: `"state":"WaitingForApproval"`},
	placementv1.ReasonUnknownPlan: {condition: placementv1.ConditionPaused, do: func(ctx context.Context) {
		policy(ctx, "zones", zone, approved)
		f.AwaitReady(ctx, "zones")
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", "zones", placementv1.ApproveAnnotation+"=0123456789abcdef")
	}, shows: `"state":"WaitingForApproval"`},
	placementv1.ReasonRollingOut: {condition: placementv1.ConditionRolledOut, do: func(ctx context.Context) {
		rollOut(ctx, placementv1.RolloutStage{Soak: &metav1.Duration{Duration: time.Hour}}, strings.ReplaceAll(zone, `"a"`, `"b"`))
	}, shows: `"name":"all"`},
	placementv1.ReasonRolloutPaused: {condition: placementv1.ConditionRolledOut, do: func(ctx context.Context) {
		rollOut(ctx, placementv1.RolloutStage{}, `package zones

labels["n"] := json.unmarshal("1")
`)
	}, shows: "configmaps shop/web: can't be decided"},
	placementv1.ReasonRolledBack: {condition: placementv1.ConditionRolledOut, do: func(ctx context.Context) {
		rollOut(ctx, placementv1.RolloutStage{}, strings.ReplaceAll(zone, `"a"`, `"b"`))
		Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionRolledOut).Should(HaveField("Reason", placementv1.ReasonRolledOut))
		f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) { p.Spec.Rollout.Revision = 1 })
	}},
	placementv1.ReasonForeignObject: {condition: placementv1.ConditionDelivered, do: func(ctx context.Context) {
		f.InstallPropagationPolicies(ctx)
		f.MustKubectl(ctx, "", "apply", "-f", "config/rbac/delivery/karmada.yaml")
		command := regexp.MustCompile(`web-configmap-\S+`).FindString(read("docs/runbook.md"))
		foreign := framework.NewObject(propagationPolicy, "shop", command, nil)
		foreign.Object["spec"] = map[string]any{"resourceSelectors": []any{}}
		Expect(f.Client.Create(ctx, foreign, client.FieldOwner("rival"))).To(Succeed())
		policy(ctx, "zones", oneCluster, toKarmada)
	}, shows: "written by rival"},
	placementv1.ReasonNotRunning: {condition: placementv1.ConditionRunning, do: func(ctx context.Context) {
		for _, definition := range []framework.Definition{framework.KubeFleetPlacements, framework.KubeFleetWorks} {
			definition.Install(ctx, f)
			DeferCleanup(definition.Uninstall, f)
		}
		f.MustKubectl(ctx, "", "apply", "-f", "config/rbac/delivery/kubefleet.yaml")
		policy(ctx, "zones", oneCluster, func(p *placementv1.PlacementPolicy) {
			// The ConfigMap kube-root-ca.crt, which the cluster creates, may come late, and nothing would report that it runs.
			p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "named", Expression: "object.metadata.name == 'web'"}}
			p.Spec.Delivery = &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}
		})
		// Before that, the object does not run either, because Berth has not delivered it, and the command prints nothing.
		Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionDelivered).WithTimeout(2 * framework.Timeout).Should(HaveField("Reason", placementv1.ReasonDelivered))
	}, after: func(ctx context.Context) {
		names := f.MustKubectl(ctx, "", "--namespace=shop", "get", "resourceplacements.placement.kubernetes-fleet.io", "-o", "name")
		condition := `{"type":"%s","status":"True","reason":"Specs","message":"","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z"}`
		for name := range strings.FieldsSeq(names) {
			f.MustKubectl(ctx, "", "--namespace=shop", "patch", name, "--subresource=status", "--type=merge", "-p",
				fmt.Sprintf(`{"status":{"placementStatuses":[{"clusterName":"eu-1","conditions":[`+condition+","+condition+"]}]}}", "Applied", "Available"))
		}
	}, shows: "eu-1"},
	placementv1.ReasonDeliveryFailed: {condition: placementv1.ConditionDelivered, do: func(ctx context.Context) {
		policy(ctx, "zones", `package zones

clusters contains sprintf("eu-%d", [i]) if some i in numbers.range(1, 101)
`, func(p *placementv1.PlacementPolicy) {
			p.Spec.Delivery = &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}
		})
	}, after: func(ctx context.Context) {
		f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) { p.Spec.Rego = oneCluster })
	}, shows: "KubeFleet places an object in at most 100"},
	placementv1.ReasonNotDelivered: {condition: placementv1.ConditionCompliant, do: func(ctx context.Context) {
		policy(ctx, "zones", oneCluster, toKarmada)
		// Before that, Berth has not looked at the object, and the command prints another reason.
		Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionDelivered).WithTimeout(2 * framework.Timeout).Should(HaveField("Reason", placementv1.ReasonNotServed))
	}, after: func(ctx context.Context) {
		f.InstallPropagationPolicies(ctx)
		f.MustKubectl(ctx, "", "apply", "-f", "config/rbac/delivery/karmada.yaml")
	}, shows: "NotServed"},
	placementv1.ReasonConflict: {condition: placementv1.ConditionEnforced, do: func(ctx context.Context) {
		policy(ctx, "zones", zone)
		policy(ctx, "zones-rival", strings.ReplaceAll(zone, `"a"`, `"b"`))
	}},
	placementv1.ReasonAmbiguousClusters: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) {
		f.InstallClusterProfiles(ctx)
		for _, namespace := range []string{"shop", "default"} {
			f.MustKubectl(ctx, `{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": {"name": "twin"}, "spec": {"clusterManager": {"name": "m"}}}`,
				"--namespace="+namespace, "create", "-f", "-")
		}
		DeferCleanup(f.MustKubectl, "", "--namespace=shop", "delete", "clusterprofile", "twin")
		policy(ctx, "zones", `package zones

annotations["example.com/clusters"] := count(data.clusters)
`)
	}, after: func(ctx context.Context) {
		f.MustKubectl(ctx, "", "--namespace=default", "delete", "clusterprofile", "twin")
	}, shows: "twin"},
	placementv1.ReasonNotTracked: {condition: placementv1.ConditionReady, do: func(ctx context.Context) {
		quotaIn(ctx, "shop", "count/leases.coordination.k8s.io", "1", "pods", "1")
	}},
	placementv1.ReasonExempt:    {condition: placementv1.ConditionReady, do: func(ctx context.Context) { quotaIn(ctx, framework.OperatorNamespace, "pods", "1") }},
	placementv1.ReasonAboveHard: {condition: placementv1.ConditionExceeded, do: func(ctx context.Context) { quotaIn(ctx, "shop", "count/configmaps", "1") }},
}

// occupied returns new namespaces with a ConfigMap.
func occupied(ctx context.Context, n int) []string {
	GinkgoHelper()
	var out []string
	for range n {
		out = append(out, f.NewNamespace(ctx, nil))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, out[len(out)-1], "web", nil))).To(Succeed())
	}
	return out
}

// closeTo changes the policy zones, which is in force in shop and in further namespaces, to a text that denies everything.
func closeTo(ctx context.Context, namespaces ...string) {
	GinkgoHelper()
	policy(ctx, "zones", zone, also(namespaces...), func(p *placementv1.PlacementPolicy) {
		p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{MinObjects: 1}
	})
	f.AwaitReady(ctx, "zones")
	Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionCompliant).Should(HaveField("Status", metav1.ConditionTrue))
	f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego = `package zones

errors := ["closed"]
`
	})
}

// rollOut changes the policy zones, which is in force, to a text that comes into force in one stage with all namespaces.
func rollOut(ctx context.Context, only placementv1.RolloutStage, rego string) {
	GinkgoHelper()
	policy(ctx, "zones", zone)
	f.AwaitReady(ctx, "zones")
	only.Name, only.NamespaceSelector = "all", &metav1.LabelSelector{}
	f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) {
		p.Spec.Rego, p.Spec.Rollout = rego, &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{only}}
	})
}

// approved has the plans of a policy wait for an approval.
func approved(p *placementv1.PlacementPolicy) {
	p.Spec.Remediation.Mode = placementv1.RemediationApproved
}

// stages are all that there are.
func stages() map[string]stage {
	all := maps.Clone(staged)
	maps.Copy(all, remoteStages)
	return all
}

// condition returns the named condition of the policy zones, or else of the quota boats.
func condition(ctx context.Context, conditionType string) (metav1.Condition, error) {
	p, err := f.Policy(ctx, "zones")
	conditions := p.Status.Conditions
	if client.IgnoreNotFound(err) != nil {
		return metav1.Condition{}, err
	}
	quotas := &placementv1.ScopedQuotaList{}
	if err := f.Client.List(ctx, quotas); err != nil {
		return metav1.Condition{}, err
	}
	for _, q := range quotas.Items {
		conditions = q.Status.Conditions
	}
	if c := meta.FindStatusCondition(conditions, conditionType); c != nil {
		return *c, nil
	}
	return metav1.Condition{}, nil
}

// reset removes what specs and the runbook's commands create. It keeps namespaces, because their deletion takes seconds.
func reset(ctx SpecContext) {
	for _, kind := range []client.Object{&placementv1.PlacementPolicy{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{}} {
		Expect(f.Client.DeleteAllOf(ctx, kind)).To(Succeed())
	}
	for _, namespace := range []string{"shop", framework.OperatorNamespace} {
		Expect(f.Client.DeleteAllOf(ctx, &placementv1.ScopedQuota{}, client.InNamespace(namespace))).To(Succeed())
	}
	for _, o := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "berth-placement"}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "berth-quota"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "harbour"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "berth-reads-harbours"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "berth-places-harbours"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "berth-delivery-karmada"}},
	} {
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, o))).To(Succeed())
	}
	for _, name := range []string{
		"harbours.example.com", "propagationpolicies." + propagationPolicy.Group, "clusterpropagationpolicies." + propagationPolicy.Group,
	} {
		f.UninstallCRD(ctx, name)
	}
	// Until then the API server still calls webhooks, which no replica answers.
	f.AwaitWebhooks(ctx)
	Expect(f.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("shop"))).To(Succeed())
	// kube-controller-manager removes the permissions of the deleted ClusterRoles from the operator's.
	Eventually(func(ctx context.Context) ([]rbacv1.PolicyRule, error) {
		role := &rbacv1.ClusterRole{}
		err := f.Client.Get(ctx, client.ObjectKey{Name: "berth-workloads"}, role)
		return role.Rules, err
	}).WithContext(ctx).ShouldNot(ContainElement(HaveField("APIGroups", ContainElement(BeElementOf("example.com", propagationPolicy.Group)))))
}

var _ = Describe("What the runbook says of", func() {
	BeforeEach(func(ctx SpecContext) {
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, "shop", "web", nil))).To(Succeed())
		DeferCleanup(reset)
	})

	It("a stage that waits for its approval", func(ctx SpecContext) {
		DeferCleanup(f.StartReadyManager(ctx).Stop)
		rollOut(ctx, placementv1.RolloutStage{Approval: true}, strings.ReplaceAll(zone, `"a"`, `"b"`))
		_, text, found := strings.Cut(read("docs/runbook.md"), "As the reason of `RolledOut`")
		Expect(found).To(BeTrue())
		Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionRolledOut).Should(And(
			HaveField("Reason", placementv1.ReasonWaitingForApproval), HaveField("Message", MatchRegexp(entry{message: message.FindStringSubmatch(text)[1]}.pattern()))))
		out, err := f.Shell(ctx, "set -e\n"+block.FindStringSubmatch(text)[1])
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring(`"state":"WaitingForApproval"`))
		Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionRolledOut).Should(HaveField("Reason", placementv1.ReasonRolledOut))
	})

	// As the reason of Delivered, in the order in which a cluster without Karmada recovers.
	It("a system that is not served, and then not permitted", func(ctx SpecContext) {
		DeferCleanup(f.StartReadyManager(ctx).Stop)
		policy(ctx, "zones", oneCluster, toKarmada)
		for _, step := range []struct {
			reason string
			end    func(commands string)
		}{
			{placementv1.ReasonNotServed, func(string) { f.InstallPropagationPolicies(ctx) }},
			{placementv1.ReasonForbidden, func(commands string) {
				out, err := f.Shell(ctx, "set -e\n"+commands)
				Expect(err).NotTo(HaveOccurred(), out)
			}},
		} {
			_, section, found := strings.Cut(read("docs/runbook.md"), "\n### "+step.reason+"\n")
			Expect(found).To(BeTrue())
			_, text, found := strings.Cut(section, "As the reason of `Delivered`")
			Expect(found).To(BeTrue())
			Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionDelivered).WithTimeout(2 * framework.Timeout).Should(And(
				HaveField("Reason", step.reason), HaveField("Message", MatchRegexp(entry{message: message.FindStringSubmatch(text)[1]}.pattern()))))
			step.end(block.FindStringSubmatch(text)[1])
		}
		Eventually(condition).WithContext(ctx).WithArguments(placementv1.ConditionDelivered).WithTimeout(2 * framework.Timeout).Should(HaveField("Reason", placementv1.ReasonDelivered))
	})

	for _, reason := range slices.Sorted(maps.Keys(stages())) {
		s := stages()[reason]
		It(reason, func(ctx SpecContext) {
			start := func() {
				m := f.StartReadyManager(ctx)
				DeferCleanup(m.Stop)
			}
			if !s.late {
				start()
			}
			s.do(ctx)
			if s.late {
				start()
			}
			e := entries()[reason]
			var got metav1.Condition
			Eventually(func(g Gomega, ctx context.Context) {
				var err error
				got, err = condition(ctx, s.condition)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Reason).To(Equal(reason))
			}).WithContext(ctx).WithTimeout(2 * framework.Timeout).Should(Succeed())
			AddReportEntry(reason, got.Message)
			Eventually(func(ctx context.Context) (string, error) {
				c, err := condition(ctx, s.condition)
				return c.Message, err
			}).WithContext(ctx).Should(MatchRegexp(e.pattern()))
			var printed strings.Builder
			for _, commands := range e.commands {
				out, err := f.Shell(ctx, "set -e\n"+commands)
				Expect(err).NotTo(HaveOccurred(), "%s: %s", commands, out)
				printed.WriteString(out)
			}
			Expect(printed.String()).To(ContainSubstring(s.shows))
			Expect(len(e.commands) > 0 || s.after != nil).To(BeTrue(), "nothing ends %s", reason)
			if s.after != nil {
				s.after(ctx)
			}
			Eventually(condition).WithContext(ctx).WithArguments(s.condition).WithTimeout(2 * framework.Timeout).ShouldNot(HaveField("Reason", reason))
		})
	}
})
