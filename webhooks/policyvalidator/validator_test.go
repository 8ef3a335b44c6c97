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

package policyvalidator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// catalog serves pods and two kinds of events, and after a refresh also carts.
type catalog struct {
	refreshed  int
	refreshErr error
}

func (c *catalog) ByPlural(plural string) []policy.Resource {
	of := func(group string) policy.Resource {
		return policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}
	}
	switch {
	case plural == "pods" || plural == "carts" && c.refreshed > 0:
		return []policy.Resource{of("")}
	case plural == "events":
		return []policy.Resource{of(""), of("events.k8s.io")}
	}
	return nil
}

func (*catalog) Exact(schema.GroupVersionResource) (policy.Resource, bool) {
	return policy.Resource{}, false
}

// Served returns nil: the matched types are not known.
func (*catalog) Served() *match.ServedTypes { return nil }

// Inventories returns the inventories that Berth knows by default.
func (*catalog) Inventories() *replication.Inventories { return replication.Known() }

func (c *catalog) Refresh(context.Context) error {
	c.refreshed++
	return c.refreshErr
}

// Scalable returns deployments, which are built in, fleets, which have a CustomResourceDefinition, and carts, which
// have none, in two versions.
func (*catalog) Scalable(selects func(schema.GroupVersionResource) bool) []schema.GroupVersionResource {
	return slices.DeleteFunc([]schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "example.com", Version: "v1", Resource: "carts"},
		{Group: "example.com", Version: "v2", Resource: "carts"},
		{Group: "example.com", Version: "v1", Resource: "fleets"},
	}, func(r schema.GroupVersionResource) bool { return !selects(r) })
}

// definitions has the CustomResourceDefinitions of some resources.
type definitions struct {
	resources []string
	err       error
}

func (d definitions) ReplicasPath(_ context.Context, resource schema.GroupVersionResource) ([]string, bool, error) {
	return []string{"spec", "replicas"}, slices.Contains(d.resources, resource.Resource), d.err
}

// allows returns a Checker that accepts the named predicates.
func allows(names ...string) checker { return names }

type checker []string

func (c checker) Check(m *policy.Module) error { return m.CheckPredicates(c) }

// secrets are the Secrets in the manager's namespace, by name and key.
type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, name string) (map[string][]byte, error) {
	if name == "foreign" {
		return nil, errors.New("the Secret berth-system/foreign is of another type")
	}
	data, ok := s[name]
	if !ok {
		return nil, fmt.Errorf("reading: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name))
	}
	return data, nil
}

func newPolicy(rego string) *placementv1.PlacementPolicy {
	return &placementv1.PlacementPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1},
		Spec: placementv1.PlacementPolicySpec{Rego: rego, Match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
			APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
		}}}},
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		rego    string
		change  func(*placementv1.PlacementPolicy)
		want    []string
		warning string
	}{
		"Sound": {rego: `package p
labels := {"a": data.kubernetes.pods.x.y.z}`},
		"ClustersRule": {
			rego: `package p
labels := {"a": "b"}`,
			change:  func(p *placementv1.PlacementPolicy) { p.Spec.Clusters = &placementv1.ClustersRule{} },
			warning: "spec.clusters has no effect: the policy has no Rego rule named clusters",
		},
		"ClustersRuleThatCounts": {
			rego: `package p
clusters := {"a"}`,
			change: func(p *placementv1.PlacementPolicy) { p.Spec.Clusters = &placementv1.ClustersRule{} },
		},
		"ClustersRuleOfPredicates": {
			warning: "the policy reads data.clusters",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Clusters = &placementv1.ClustersRule{}
				p.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesClusters}
			},
		},
		"ClusterPredicates": {
			warning: "spec.predicates.names[2]: VolumeZone has no effect: it evaluates only nodes, and the policy evaluates predicates only on clusters. " +
				"Remove it; the predicates that evaluate clusters are NodeAffinity, TaintToleration",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesClusters, Names: []string{"NodeAffinity", "NodePorts", "VolumeZone"}}
			},
		},
		"ClusterPredicatesOfText": {
			rego: `package p
errors contains "no" if not k8s.feasible_clusters(input, 1, "*").a.feasible`,
			warning: "spec.predicates.names[0]: NodePorts has no effect",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Names: []string{"NodePorts"}}
			},
		},
		"PredicatesOfNodes": {
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes, Names: []string{"NodePorts"}}
			},
		},
		"BlastRadius": {
			rego: `package p
labels := {}`, warning: "spec.remediation.blastRadius has no effect in mode NewOnly: it bounds what mode Automatic does",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationNewOnly, BlastRadius: &placementv1.BlastRadius{Percent: 5}}
			},
		},
		"MovesOfWhichNoSystemReports": {
			rego: `package p
clusters contains "a"`,
			warning: "spec.remediation.budget: moves between clusters are not limited by maxConcurrent, maxUnavailable: only Karmada and KubeFleet tell Berth when a workload runs " +
				"in its new clusters. Without them, a move ends with its patch, and only maxPerMinute limits moves. Deliver the objects to one of these two, in this policy or in another one",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxPerMinute: 30, MaxConcurrent: 2, MaxUnavailable: new(intstr.FromString("5%"))}
			},
		},
		"MovesWithOtherBounds": {
			rego: `package p
clusters contains "a"`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = new((&placementv1.RemediationBudget{MaxPerMinute: 30}).WithDefaults())
			},
		},
		"MovesWithoutClusters": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxConcurrent: 2}
			},
		},
		"BudgetInDryRun": {
			rego: `package p
labels := {}`, warning: "spec.remediation.budget has no effect in mode DryRun: Berth patches no object before spec.mode is Enforce",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Mode, p.Spec.Remediation.Budget = placementv1.ModeDryRun, &placementv1.RemediationBudget{MaxPerMinute: 30}
			},
		},
		"WindowsInWarn": {
			rego: `package p
labels := {}`, warning: "spec.remediation.windows has no effect in mode Warn: Berth patches no object before spec.mode is Enforce",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Mode, p.Spec.Remediation.Windows = placementv1.ModeWarn, []placementv1.RemediationWindow{{Start: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
			},
		},
		"BlastRadiusInWarn": {
			rego: `package p
labels := {}`, warning: "spec.remediation.blastRadius has no effect in mode Warn",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Mode, p.Spec.Remediation.BlastRadius = placementv1.ModeWarn, &placementv1.BlastRadius{Percent: 5}
			},
		},
		"PerNamespaceAboveAll": {
			rego: `package p
labels := {}`, warning: "spec.remediation.budget.perNamespace: 5 has no effect, because maxConcurrent allows 2 in all namespaces together. Set a smaller number, or remove it",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxConcurrent: 2, PerNamespace: 5}
			},
		},
		"PerNamespaceAlone": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{PerNamespace: 5}
			},
		},
		"ShortMoveTimeout": {
			rego: `package p
labels := {}`, warning: "spec.remediation.budget.moveTimeout: hardly any workload starts in another cluster within 9s, so that moves fail that only take longer. Set some minutes",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MoveTimeout: &metav1.Duration{Duration: 9 * time.Second}}
			},
		},
		"MoveTimeout": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MoveTimeout: &metav1.Duration{Duration: 10 * time.Second}}
			},
		},
		"MisspeltGroup": {
			rego: `package p
labels := {}`, warning: `spec.remediation.budget.group: no other policy has the group "karmda"; did you mean "karmada"?`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{Group: "karmda"}
			},
		},
		"Group": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{Group: "karmada"}
			},
		},
		"FirstOfItsGroup": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{Group: "databases"}
			},
		},
		"ShortGroup": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation.Budget = &placementv1.RemediationBudget{Group: "b"}
			},
		},
		"EvictManual": {
			rego: `package p
scheduling.nodeSelector.disk := "ssd"`, warning: "spec.remediation.evict has no effect in mode Manual: Berth evicts Pods in the modes Automatic and Approved",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0].APIGroups, p.Spec.Match.ResourceRules[0].Resources = []string{""}, []string{"pods"}
				p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationManual, Evict: true}
			},
		},
		"EvictNoPods": {
			rego: `package p
scheduling.nodeSelector.disk := "ssd"`, warning: "spec.remediation.evict has no effect: no rule in spec.match.resourceRules matches pods",
			change: func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Evict = true },
		},
		"EvictNoScheduling": {
			rego: `package p
labels.a := "b"`, warning: "spec.remediation.evict has no effect: the policy sets no scheduling fields of pods",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0].APIGroups, p.Spec.Match.ResourceRules[0].Resources = []string{""}, []string{"pods"}
				p.Spec.Remediation.Evict = true
			},
		},
		"Evict": {
			rego: `package p
scheduling.nodeSelector.disk := "ssd"`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0].APIGroups, p.Spec.Match.ResourceRules[0].Resources = []string{""}, []string{"pods"}
				p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationApproved, Evict: true}
			},
		},
		"AbsentLabel": {
			rego: `package p
errors contains "no" if not input.metadata.labels.owner`, warning: "p.rego:2:25: spec.match.objectSelector requires the label owner: objects without it are not matched",
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"owner": "a"}}
			},
		},
		"AbsentLabelOfUpdates": {
			rego: `package p
errors contains "no" if not input.metadata.labels.owner`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"owner": "a"}}
				p.Spec.Match.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "updates", Expression: "request.operation == 'UPDATE'"}}
			},
		},
		"AbsentLabelOfOthers": {
			rego: `package p
errors contains "no" if not input.metadata.labels.owner`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			},
		},
		"BlastRadiusDefault": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationOff, BlastRadius: &placementv1.BlastRadius{Percent: 10}}
			},
		},
		"BlastRadiusAutomatic": {
			rego: `package p
labels := {}`,
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Remediation = placementv1.Remediation{BlastRadius: &placementv1.BlastRadius{Percent: 5}}
			},
		},
		"V0": {rego: `package p
labels = {"a": "b"} { true }`, change: func(p *placementv1.PlacementPolicy) { p.Spec.RegoVersion = placementv1.RegoV0 }},
		"Mistakes": {rego: `package p
labels := {"a": x}
annotations := {"a": y}`, want: []string{"spec.rego: Invalid value: p.rego:2:17: rego_unsafe_var_error: var x is unsafe", "spec.rego: Invalid value: p.rego:3:22: rego_unsafe_var_error: var y is unsafe"}},
		"Contract": {
			rego: `package p
scheduling.priorityClassName := "{{ request.name }}"`,
			want: []string{"p.rego:2:1: berth_contract_error: scheduling.priorityClassName: Invalid value"}, warning: "Berth substitutes no variables",
		},
		"Forbidden": {rego: `package p
labels := {"a": http.send({})}`, want: []string{"http.send is not allowed in a placement policy"}},
		"Ambiguous": {rego: `package p
labels := {"a": data.kubernetes.events.x}`, want: []string{`data.resources["events.k8s.io/v1"].events or data.resources["v1"].events`}},
		"Match": {
			rego: `package p
labels := {"a": x}`, change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0].APIGroups = []string{"placement.berth.dev"}
			},
			want: []string{`spec.match.resourceRules[0].apiGroups: Forbidden`, "rego_unsafe_var_error"},
		},
		"NotServed": {rego: `package p
labels := {"a": data.kubernetes.things.x}`, warning: "the policy reads data.kubernetes.things, which the API server does not serve"},
		"JustInstalled": {rego: `package p
labels := {"a": data.kubernetes.carts.x}`},
		"Predicates": {
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Candidates: placementv1.PredicateCandidatesNodes, Names: []string{"TaintToleration"}}
			},
		},
		"PredicateNotAllowed": {
			rego: `package p
errors contains "no" if not k8s.feasible(input, "*").a.feasible`, change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Predicates = &placementv1.Predicates{Names: []string{"TaintToleration", "VolumeBinding"}}
			},
			want: []string{`spec.predicates.names[1]: Invalid value: berth_predicate_error: "VolumeBinding" is none of the predicates that the manager allows, which are NodeAffinity, TaintToleration, `},
		},
		"Nothing": {rego: `package p
x := 1`, warning: "the policy decides nothing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(tc.rego)
			if tc.change != nil {
				tc.change(p)
			}
			before := p.DeepCopy()
			v := &policyvalidator.Validator{
				Catalog: &catalog{}, Checker: allows("NodeAffinity", "TaintToleration", "NodePorts", "VolumeZone"), Scales: definitions{resources: []string{"deployments"}},
				ClusterPredicates: []string{"NodeAffinity", "TaintToleration"}, Groups: func(string) []string { return []string{"karmada", "b2"} },
			}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if (err != nil) != (len(tc.want) > 0) || (err != nil && !apierrors.IsInvalid(err)) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want it to say %q", err, part)
				}
			}
			if joined := strings.Join(warnings, "; "); (tc.warning == "") != (joined == "") || !strings.Contains(joined, tc.warning) {
				t.Errorf("warnings %q, want %q", warnings, tc.warning)
			}
			if before.Spec.Mode != p.Spec.Mode {
				t.Error("validation changes the policy")
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows("NodeAffinity", "TaintToleration"), Scales: definitions{resources: []string{"deployments"}}}
	broken := newPolicy("package")
	if _, err := v.ValidateUpdate(t.Context(), newPolicy(`package p
labels := {}`), broken); err == nil {
		t.Error("a broken policy is taken")
	}
	leaving := broken.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.Now())
	if _, err := v.ValidateUpdate(t.Context(), broken, leaving); err != nil {
		t.Errorf("a finalizer can't let go of a broken policy: %v", err)
	}
	if _, err := v.ValidateDelete(t.Context(), broken); err != nil {
		t.Error(err)
	}
}

// TestContractIsJudgedWhereTextsChange checks that a stored source whose contract rule can never be valid is not refused for a change of
// another field.
func TestContractIsJudgedWhereTextsChange(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
	stored := newPolicy(`package p
errors := count(data.clusters) == 0
`)
	const want = "p.rego:2:1: berth_contract_error: errors must be a set or an array of strings, is a boolean"
	if _, err := v.ValidateCreate(t.Context(), stored); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	changed := stored.DeepCopy()
	changed.Spec.Priority = 7
	if warnings, err := v.ValidateUpdate(t.Context(), stored, changed); err != nil || len(warnings) == 0 || !strings.Contains(warnings[0], want) {
		t.Errorf("error %v, warnings %q", err, warnings)
	}
	changed.Spec.Rego += "\nlabels := {}\n"
	if _, err := v.ValidateUpdate(t.Context(), stored, changed); !apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
}

// TestRulesAreJudgedWhereTheyChange checks that stored rules that do not compile are not refused for a change of another field.
func TestRulesAreJudgedWhereTheyChange(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
	stored := newPolicy("")
	stored.Spec.Rules = []placementv1.Rule{{Name: "a", Deny: "{unknown}"}}
	const want = "spec.rules[0].deny: "
	if _, err := v.ValidateCreate(t.Context(), stored); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	changed := stored.DeepCopy()
	changed.Spec.Priority = 7
	if warnings, err := v.ValidateUpdate(t.Context(), stored, changed); err != nil || len(warnings) == 0 || !strings.Contains(warnings[0], want) {
		t.Errorf("error %v, warnings %q", err, warnings)
	}
	changed.Spec.Rules[0].Name = "b"
	if _, err := v.ValidateUpdate(t.Context(), stored, changed); !apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
}

// prober returns the same problem for every engine, and counts the probes.
type prober struct {
	says  string
	asked int
}

func (p *prober) Probe(ctx context.Context, _ *policy.Remote) string {
	p.asked++
	if _, bounded := ctx.Deadline(); !bounded {
		return "unbounded"
	}
	return p.says
}

// TestEnginesAreProbed checks that the engine of a new policy is probed once, and that a URL that names a rule is
// refused.
func TestEnginesAreProbed(t *testing.T) {
	asked := &prober{says: "the engine has no result"}
	v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{}, Secrets: secrets{}, Prober: asked}
	p := newPolicy("")
	p.Spec.Remote = &placementv1.Remote{URL: "https://opa.example/v1/data/fleet", Undefined: placementv1.UndefinedNoOpinion}
	if warnings, err := v.ValidateCreate(t.Context(), p); err != nil || !slices.Contains(warnings, "spec.remote: the engine has no result") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	same := p.DeepCopy()
	same.Spec.Priority = 1
	if _, err := v.ValidateUpdate(t.Context(), p, same); err != nil || asked.asked != 1 {
		t.Errorf("asked %d times, %v", asked.asked, err)
	}
	rule := p.DeepCopy()
	rule.Spec.Remote.URL = "https://opa.federation.svc.cluster.local:8181/v1/data/io/k8s/federation/annotations"
	const want = "names the rule annotations, but must name the package that has it: write https://opa.federation.svc.cluster.local:8181/v1/data/io/k8s/federation."
	if _, err := v.ValidateUpdate(t.Context(), p, rule); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	if _, err := v.ValidateUpdate(t.Context(), rule, rule.DeepCopy()); err != nil {
		t.Errorf("a stored address is refused: %v", err)
	}
}

func TestCatalogIsDown(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &catalog{refreshErr: errors.New("down")}, Checker: allows()}
	if _, err := v.ValidateCreate(t.Context(), newPolicy(`package p
labels := {"a": data.kubernetes.things.x}`)); err == nil || apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
}

// TestSecretsAreWarnedOf checks that a missing Secret is only a warning, which says how to create it.
func TestSecretsAreWarnedOf(t *testing.T) {
	token := func(name, key string) *placementv1.Remote {
		return &placementv1.Remote{TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: name}, Key: key}}
	}
	tests := map[string]struct {
		remote *placementv1.Remote
		want   []string
	}{
		"NoneNamed": {remote: &placementv1.Remote{}},
		"AllThere":  {remote: token("opa", "")},
		"OtherKey":  {token("opa", "password"), []string{"spec.remote.tokenSecretRef: the Secret berth-system/opa has nothing at the key password"}},
		"Unusable":  {token("foreign", ""), []string{"spec.remote.tokenSecretRef: the Secret berth-system/foreign is of another type"}},
		"NotThere":  {token("none", "t"), []string{"spec.remote.tokenSecretRef: the Secret berth-system/none does not exist; create it: kubectl --namespace berth-system create secret generic none --from-file=t=FILE"}},
		"NoIdentity": {
			&placementv1.Remote{CASecretRef: &placementv1.CASecretReference{SecretReference: placementv1.SecretReference{Name: "none"}}, ClientCertificateSecretRef: &placementv1.SecretReference{Name: "client"}},
			[]string{
				"spec.remote.caSecretRef: the Secret berth-system/none does not exist; create it: kubectl --namespace berth-system create secret generic none --from-file=ca.crt=FILE",
				"spec.remote.clientCertificateSecretRef: the Secret berth-system/client does not exist; create it: kubectl --namespace berth-system create secret tls client --cert=FILE --key=FILE",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{
				Catalog: &catalog{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}, Namespace: "berth-system", Secrets: secrets{"opa": {"token": []byte("t")}},
			}
			p := newPolicy("")
			p.Spec.Remote = tc.remote
			p.Spec.Remote.URL, p.Spec.Remote.Undefined = "https://opa.example/v1/data/p", placementv1.UndefinedError
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestModulesAreLocated checks that an error in a module names its field and position.
func TestModulesAreLocated(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows()}
	p := newPolicy("")
	p.Spec.Remote = &placementv1.Remote{URL: "https://opa.example/v1/data/p", Modules: []placementv1.RemoteModule{{Name: "main", Rego: `package p

x := {`}}}
	_, err := v.ValidateCreate(t.Context(), p)
	if want := "spec.remote.modules[0].rego: Invalid value: main.rego:3:6: rego_parse_error"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to say %q", err, want)
	}
}

// TestUndefinedIsWarnedOf checks the warning about a missing spec.remote.undefined.
func TestUndefinedIsWarnedOf(t *testing.T) {
	tests := map[string]struct {
		undefined placementv1.UndefinedResult
		failure   placementv1.FailurePolicy
		want      bool
	}{
		"LeftOut":         {want: true},
		"NoOpinion":       {undefined: placementv1.UndefinedNoOpinion},
		"Error":           {undefined: placementv1.UndefinedError},
		"FailuresIgnored": {failure: placementv1.FailurePolicyIgnore},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}, Secrets: secrets{}}
			p := newPolicy("")
			p.Spec.Remote, p.Spec.FailurePolicy = &placementv1.Remote{URL: "https://opa.example/v1/data/p", Undefined: tc.undefined}, tc.failure
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil || (len(warnings) == 1) != tc.want || tc.want && !strings.Contains(warnings[0], "spec.remote.undefined") {
				t.Errorf("warnings %q, %v", warnings, err)
			}
		})
	}
}

// TestAnnotationsAreWarnedOf checks the warnings about annotations of a policy that have no effect.
func TestAnnotationsAreWarnedOf(t *testing.T) {
	const prefix = "metadata.annotations[placement.berth.dev/"
	for annotation, want := range map[string]string{
		"placement.berth.dev/approve-plan=4f1c":                prefix + "approve-plan] has no effect: Berth reads no annotation of this name",
		"placement.berth.dev/clusters=[]":                      prefix + "clusters] has no effect",
		"placement.berth.dev/approve-stage=canary":             prefix + `approve-stage]: "canary" approves nothing`,
		"placement.berth.dev/approve-stage=":                   prefix + `approve-stage]: "" approves nothing`,
		"placement.berth.dev/approve=":                         prefix + `approve]: "" approves nothing`,
		"placement.berth.dev/approve-stage=2-canary-mi2x8k4a":  "",
		"placement.berth.dev/approve=4f1c":                     "",
		"placement.berth.dev/approved-by=admin":                "",
		"placement.berth.dev/release-blast-radius=3-mi2x8k4a":  "",
		"placement.berth.dev/resume-after-failures=3-mi2x8k4a": "",
		"placement.berth.dev/migrated-modules=a":               "",
		"kubectl.kubernetes.io/last-applied-configuration={}":  "",
	} {
		v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
		p := newPolicy(`package p
labels := {"a": "b"}`)
		key, value, _ := strings.Cut(annotation, "=")
		p.Annotations = map[string]string{key: value}
		warnings, err := v.ValidateCreate(t.Context(), p)
		if joined := strings.Join(warnings, "; "); err != nil || len(warnings) > 1 || (joined == "") != (want == "") || !strings.HasPrefix(joined, want) {
			t.Errorf("%s: warnings %q, %v; want %q", annotation, warnings, err, want)
		}
	}
}

// TestSubresourcesAreWarnedOf checks the warnings about subresources that Berth does not decide although the policy
// reads what they change.
func TestSubresourcesAreWarnedOf(t *testing.T) {
	custom := placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}}}
	const undecided = "kubectl scale of carts.example.com is not decided by this policy"
	tests := map[string]struct {
		match *placementv1.Match
		rego  string
		err   error
		want  []string
	}{
		"Builtin":    {rego: `errors contains "no" if input.spec.replicas > 3`},
		"Undefined":  {match: &custom, rego: `errors contains "no" if input.spec.replicas > 3`, want: []string{undecided}},
		"NotRead":    {match: &custom, rego: `errors contains "no" if input.metadata.name == "x"`},
		"Everything": {match: &custom, rego: `errors contains "no" if contains(json.marshal(input), "x")`, want: []string{undecided}},
		"Unreadable": {rego: `errors contains "no" if input.spec.replicas > 3`, err: errors.New("oh"), want: []string{"can't tell whether this policy decides kubectl scale of deployments.apps: oh"}},
		"Status":     {rego: `errors contains "no" if input.status.phase == "Bad"`, want: []string{"the policy reads status"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Scales: definitions{[]string{"deployments", "fleets"}, tc.err}}
			p := newPolicy("package p\n" + tc.rego)
			if tc.match != nil {
				p.Spec.Match = *tc.match
			}
			warnings, err := v.ValidateCreate(t.Context(), p)
			warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.Contains(w, "wildcards do not match") })
			if err != nil || len(warnings) != len(tc.want) {
				t.Fatalf("warnings %q, %v", warnings, err)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(warnings[i], want) {
					t.Errorf("warning %q, want %q", warnings[i], want)
				}
			}
		})
	}
}

// TestCompilationsAreBounded checks that nothing is compiled for a request whose client is gone, that a policy is refused whose
// compilation does not end, and that no other one is compiled while as many go on as may.
func TestCompilationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		v := &policyvalidator.Validator{Catalog: &catalog{}, Checker: allows(), Compiler: policy.NewBoundedCompiler(1, policy.RequestDeadline,
			func(name string, spec placementv1.PlacementPolicySpec) (*policy.Module, error) {
				if strings.Contains(spec.Rego, "hangs") {
					<-end
				}
				return policy.Compile(name, spec)
			})}
		p, hangs := newPolicy(`package p
labels := {"a": "b"}`), newPolicy(`package hangs
labels := {"a": "b"}`)
		for range 3 {
			if _, err := v.ValidateCreate(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := v.ValidateCreate(canceled, newPolicy("no policy")); !apierrors.IsTooManyRequests(err) {
			t.Errorf("error %v: a canceled request was compiled", err)
		}
		if _, err := v.ValidateCreate(t.Context(), hangs); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "takes longer than 8s to compile") {
			t.Errorf("error %v of a policy whose compilation does not end", err)
		}
		if _, err := v.ValidateCreate(t.Context(), p); !apierrors.IsTooManyRequests(err) {
			t.Errorf("error %v: a request was compiled beyond the bound", err)
		}
		close(end)
		synctest.Wait()
		if _, err := v.ValidateCreate(t.Context(), p); err != nil {
			t.Errorf("error %v after the compilation ended", err)
		}
	})
}
