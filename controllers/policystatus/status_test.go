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

package policystatus_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
	"github.com/berth-dev/berth/test/budget"
)

var (
	profiles = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}}
	nodes    = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
)

// replicas has the watch states of replicated types.
type replicas map[policy.Resource]watches.State

func (r replicas) types() map[schema.GroupVersionResource]policystatus.Replica {
	out := map[schema.GroupVersionResource]policystatus.Replica{}
	for resource, state := range r {
		out[resource.GroupVersionResource] = policystatus.Replica{State: state, Objects: 3}
	}
	return out
}

// fields returns the set of the members with these names.
func fields(names ...string) *projection.FieldSet {
	f := &projection.FieldSet{}
	for _, name := range names {
		f.AddName(name).AddAll()
	}
	return f.Seal()
}

// TestFactsAreValues checks that no fact asks a live component when the status is computed.
func TestFactsAreValues(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policystatus.Facts]()) {
		if kind := f.Type.Kind(); kind == reflect.Func || kind == reflect.Chan || kind == reflect.Interface && f.Type != reflect.TypeFor[error]() {
			t.Errorf("%s is a %s", f.Name, f.Type)
		}
	}
}

// sound returns the facts of a policy without problems.
func sound() policystatus.Facts {
	return policystatus.Facts{
		Generation: 4,
		State: &placement.PolicyState{
			Policy:     &placement.Policy{Name: "p", Generation: 4, Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail, Remediation: placementv1.RemediationAutomatic},
			Generation: 4,
			Binding: &policy.Binding{
				Resources: []policy.Resource{profiles}, Fields: map[schema.GroupVersionResource]*projection.FieldSet{profiles.GroupVersionResource: fields("region")},
			},
		},
		Replicated:     replicas{profiles: {Synced: true}, nodes: {Synced: true}}.types(),
		Webhook:        status.WebhookState{Generation: 4},
		MatchedWatches: watches.State{Synced: true},
		Report:         remediation.Report{Matched: 5},
	}
}

// asks adds predicates to the policy, which read nodes.
func asks(f *policystatus.Facts, state watches.State) {
	f.State.Binding.PredicateReads = map[schema.GroupVersionResource]*projection.FieldSet{nodes.GroupVersionResource: fields("spec")}
	f.World = replicas{nodes: state}.types()
}

func forbidden() error {
	return apierrors.NewForbidden(profiles.GroupResource(), "", errors.New("no grant"))
}

func TestCompute(t *testing.T) {
	tests := map[string]struct {
		change func(*policystatus.Facts)
		// want has the conditions that differ from those of a policy without problems, as type to "status reason".
		want map[string]string
		// message has a part of the message of each condition.
		message map[string]string
	}{
		"Sound": {},
		"NotLoaded": {
			change: func(f *policystatus.Facts) { f.State = nil },
			want:   map[string]string{"Ready": "Unknown NotInForce", "Compiled": "", "Replicated": "", "Enforced": "", "Compliant": ""},
		},
		"Warnings": {
			change:  func(f *policystatus.Facts) { f.State.Warnings = []string{"decides nothing"} },
			message: map[string]string{"Compiled": "decides nothing"},
		},
		"DecidesNothing": {
			change:  func(f *policystatus.Facts) { f.State.DecidesNothing = true },
			want:    map[string]string{"Ready": "False NothingDecided", "Stalled": "True NothingDecided"},
			message: map[string]string{"Ready": "the policy decides nothing: its package defines none of the rules annotations, labels"},
		},
		"Broken": {
			change: func(f *policystatus.Facts) {
				f.State.Err, f.State.Broken, f.State.Binding = errors.New("p.rego:1:1: bad"), true, nil
			},
			want:    map[string]string{"Ready": "False CompileFailed", "Compiled": "False CompileFailed", "Stalled": "True InvalidPolicy", "Replicated": "Unknown CompileFailed"},
			message: map[string]string{"Compiled": "a request for what the policy matches is denied: p.rego:1:1: bad", "Ready": "p.rego:1:1: bad"},
		},
		"BrokenAndIgnored": {
			change: func(f *policystatus.Facts) {
				f.State.Err, f.State.Broken, f.State.Binding = errors.New("bad"), true, nil
				f.State.Policy.FailurePolicy = placementv1.FailurePolicyIgnore
			},
			want:    map[string]string{"Ready": "False CompileFailed", "Compiled": "False CompileFailed", "Stalled": "True InvalidPolicy", "Replicated": "Unknown CompileFailed"},
			message: map[string]string{"Compiled": "is admitted without the policy's decision"},
		},
		"LastGood": {
			change: func(f *policystatus.Facts) {
				f.Generation, f.State.Generation, f.State.Err = 5, 5, errors.New("bad")
			},
			want:    map[string]string{"Ready": "False LastGoodInForce", "Compiled": "False LastGoodInForce", "Stalled": "True InvalidPolicy"},
			message: map[string]string{"Compiled": "generation 4 stays in force: bad"},
		},
		"NoData": {
			change: func(f *policystatus.Facts) { f.State.Binding = &policy.Binding{} },
			want:   map[string]string{"Replicated": "True NoDataRead"},
		},
		"NotServed": {
			change: func(f *policystatus.Facts) {
				f.State.Binding.Missing = []analysis.Read{{Plural: "carts"}, {Clusters: true}}
			},
			want:    map[string]string{"Ready": "False NotServed", "Replicated": "False NotServed"},
			message: map[string]string{"Replicated": "data.kubernetes.carts, data.clusters"},
		},
		"Replicating": {
			change:  func(f *policystatus.Facts) { f.Replicated = replicas{}.types() },
			want:    map[string]string{"Ready": "False Replicating", "Replicated": "False Replicating"},
			message: map[string]string{"Replicated": "waiting for clusterprofiles.multicluster.x-k8s.io"},
		},
		"Forbidden": {
			change:  func(f *policystatus.Facts) { f.Replicated = replicas{profiles: {Err: forbidden()}}.types() },
			want:    map[string]string{"Ready": "False Forbidden", "Replicated": "False Forbidden"},
			message: map[string]string{"Replicated": `{apiGroups: ["multicluster.x-k8s.io"], resources: ["clusterprofiles"], verbs: [get, list, watch]}`},
		},
		"Uninstalled": {
			change: func(f *policystatus.Facts) {
				f.Replicated = replicas{profiles: {Err: apierrors.NewNotFound(profiles.GroupResource(), "")}}.types()
			},
			want: map[string]string{"Ready": "False NotServed", "Replicated": "False NotServed"},
		},
		"WatchFailed": {
			change: func(f *policystatus.Facts) {
				f.Replicated = replicas{profiles: {Err: errors.New("broken pipe")}}.types()
			},
			want: map[string]string{"Ready": "False WatchFailed", "Replicated": "False WatchFailed"},
		},
		"WatchFailedAfterwards": {
			change: func(f *policystatus.Facts) {
				f.Replicated = replicas{profiles: {Synced: true, Err: errors.New("broken pipe")}}.types()
			},
		},
		"SecondTypeFails": {
			change: func(f *policystatus.Facts) {
				f.State.Binding.Resources = []policy.Resource{nodes, profiles}
				f.Replicated = replicas{nodes: {}, profiles: {Err: forbidden()}}.types()
			},
			want: map[string]string{"Ready": "False Forbidden", "Replicated": "False Forbidden"},
		},
		"AmbiguousClusters": {
			change: func(f *policystatus.Facts) {
				f.Ambiguous = []replication.Ambiguity{{Cluster: "prod", Objects: []replication.Claim{
					{Resource: profiles.GroupResource(), Namespace: "eu", Name: "prod"}, {Resource: profiles.GroupResource(), Namespace: "us", Name: "prod"},
				}}}
			},
			want: map[string]string{"Replicated": "True AmbiguousClusters"},
			message: map[string]string{
				"Replicated": "cluster prod is ambiguous: clusterprofiles.multicluster.x-k8s.io eu/prod and clusterprofiles.multicluster.x-k8s.io us/prod have this name; " +
					"restrict the inventories in the manager's configuration, or rename objects",
				"Ready": "; see the Replicated condition: several clusters have one name",
			},
		},
		"NothingButPredicates": {
			change: func(f *policystatus.Facts) { asks(f, watches.State{Synced: true}); f.State.Binding.Resources = nil },
		},
		"PredicatesWait": {
			change:  func(f *policystatus.Facts) { asks(f, watches.State{}) },
			want:    map[string]string{"Ready": "False Replicating", "Replicated": "False Replicating"},
			message: map[string]string{"Replicated": "waiting for nodes"},
		},
		"PredicatesForbidden": {
			change: func(f *policystatus.Facts) {
				asks(f, watches.State{Err: apierrors.NewForbidden(nodes.GroupResource(), "", errors.New("no grant"))})
			},
			want:    map[string]string{"Ready": "False Forbidden", "Replicated": "False Forbidden"},
			message: map[string]string{"Replicated": `{apiGroups: [""], resources: ["nodes"], verbs: [get, list, watch]}`},
		},
		"WebhookPending": {
			change: func(f *policystatus.Facts) { f.Webhook.Generation = 3 },
			want:   map[string]string{"Ready": "False WebhookPending", "Enforced": "False WebhookPending"},
		},
		"WebhookRejected": {
			change:  func(f *policystatus.Facts) { f.Webhook.Rejected = "webhooks[0]: no" },
			want:    map[string]string{"Ready": "False WebhookRejected", "Enforced": "False WebhookRejected", "Stalled": "True WebhookRejected"},
			message: map[string]string{"Enforced": "webhooks[0]: no"},
		},
		"WebhookRejectedBefore": {
			change: func(f *policystatus.Facts) {
				f.Webhook = status.WebhookState{Generation: 3, Rejected: "webhooks[0]: no"}
			},
			want: map[string]string{"Ready": "False WebhookPending", "Enforced": "False WebhookPending"},
		},
		"Warn":   {change: func(f *policystatus.Facts) { f.State.Policy.Mode = placementv1.ModeWarn }, want: map[string]string{"Enforced": "False WarnMode"}},
		"DryRun": {change: func(f *policystatus.Facts) { f.State.Policy.Mode = placementv1.ModeDryRun }, want: map[string]string{"Enforced": "False DryRunMode"}},
		"RemediationOff": {
			change: func(f *policystatus.Facts) { f.State.Policy.Remediation = placementv1.RemediationOff },
			want:   map[string]string{"Compliant": "Unknown RemediationOff"},
		},
		"TargetsForbidden": {
			change: func(f *policystatus.Facts) {
				f.MatchedWatches = watches.State{Err: fmt.Errorf("reading: %w", forbidden())}
			},
			want:    map[string]string{"Compliant": "Unknown ForbiddenTargets"},
			message: map[string]string{"Compliant": `remediate clusterprofiles.multicluster.x-k8s.io: grant it by a ClusterRole labelled placement.berth.dev/aggregate-to-manager=true with the rule {apiGroups: ["multicluster.x-k8s.io"], resources: ["clusterprofiles"], verbs: [get, list, watch, patch]}`},
		},
		"TargetsFail": {
			change: func(f *policystatus.Facts) {
				f.MatchedWatches = watches.State{Err: errors.New("reading carts: broken pipe")}
			},
			want:    map[string]string{"Compliant": "Unknown WatchFailed"},
			message: map[string]string{"Compliant": "reading carts: broken pipe"},
		},
		"Evaluating": {change: func(f *policystatus.Facts) { f.MatchedWatches = watches.State{} }, want: map[string]string{"Compliant": "Unknown Evaluating"}},
		"Violations": {
			change:  func(f *policystatus.Facts) { f.Report.Violations = 2 },
			want:    map[string]string{"Compliant": "False Violations"},
			message: map[string]string{"Compliant": "2 of 5 objects differ"},
		},
		"ViolationsForbidden": {
			change: func(f *policystatus.Facts) {
				f.Report.Violations, f.Report.Obstacle, f.Report.Unauthorized = 2, "deployments.apps shop/web: "+forbidden().Error(), true
			},
			want: map[string]string{"Compliant": "False ForbiddenTargets"},
			message: map[string]string{"Compliant": "2 of 5 objects differ from what the policy decides; Berth could not change deployments.apps shop/web: " + forbidden().Error() +
				"; grant the permission by a ClusterRole labelled placement.berth.dev/aggregate-to-manager=true"},
		},
		"EvaluationFailed": {
			change: func(f *policystatus.Facts) {
				f.Report.Failed, f.Report.FailedMessage, f.Report.Violations = 2, "pods a/b: oh", 3
			},
			want: map[string]string{"Compliant": "False EvaluationFailed", "Ready": "False ObjectsUndecided"},
			message: map[string]string{
				"Compliant": "2 objects can't be decided, such as pods a/b: oh",
				"Ready":     "2 of 5 objects can't be decided, such as pods a/b: oh; a request for such an object is denied",
			},
		},
		"EvaluationFailedAndIgnored": {
			change: func(f *policystatus.Facts) {
				f.Report.Failed, f.State.Policy.FailurePolicy = 1, placementv1.FailurePolicyIgnore
			},
			want:    map[string]string{"Compliant": "False EvaluationFailed", "Ready": "False ObjectsUndecided"},
			message: map[string]string{"Ready": "a request for such an object is admitted without the policy's decision"},
		},
		"EvaluationFailedAndOff": {
			change: func(f *policystatus.Facts) {
				f.Report.Failed, f.State.Policy.Remediation = 1, placementv1.RemediationOff
			},
			want: map[string]string{"Compliant": "Unknown RemediationOff"},
		},
		"EvaluationFailedAndWebhookPending": {
			change: func(f *policystatus.Facts) { f.Report.Failed, f.Webhook.Generation = 1, 3 },
			want:   map[string]string{"Ready": "False WebhookPending", "Enforced": "False WebhookPending", "Compliant": "False EvaluationFailed"},
		},
		"NotSettling": {
			change: func(f *policystatus.Facts) {
				f.Report.Failed, f.Report.Violations, f.Report.Unsettled = 1, 1, []string{"a", "b", "c", "d", "e"}
			},
			want:    map[string]string{"Compliant": "False NotSettling", "Ready": "False ObjectsUndecided"},
			message: map[string]string{"Compliant": "a, b, c and 2 more"},
		},
		"Paused": {
			change: func(f *policystatus.Facts) {
				f.Report.Violations = 40
				f.Report.Pause = &remediation.Pause{Change: "3-abc", Emptied: 40, Matched: 42, Percent: 10, Examples: []string{"deployments.apps shop/web"}}
			},
			want:    map[string]string{"Paused": "True BlastRadius", "Compliant": "False Violations"},
			message: map[string]string{"Paused": "release-blast-radius=3-abc"},
		},
		"PausedInANamespace": {
			change: func(f *policystatus.Facts) {
				f.Report.Violations = 12
				f.Report.Pause = &remediation.Pause{Change: "3-abc", Scope: containment.Scope{"shop"}, Denied: 12, Matched: 42, Percent: 10, Examples: []string{"deployments.apps shop/web"}}
			},
			want:    map[string]string{"Paused": "False NamespacesPaused", "Compliant": "False Violations"},
			message: map[string]string{"Paused": "so Berth moves no object of this policy in namespace shop. Take"},
		},
		"PausedInTwoNamespacesForTwoReasons": {
			change: func(f *policystatus.Facts) {
				f.Report.Pause = &remediation.Pause{Change: "3-abc", Scope: containment.Scope{"shop"}, Denied: 12, Matched: 42, Percent: 10}
				f.Waiting.Pause, f.Waiting.PausedIn = "3-def", containment.Scope{"bank"}
			},
			want:    map[string]string{"Paused": "False NamespacesPaused"},
			message: map[string]string{"Paused": "release-blast-radius=3-abc; too many objects failed, which no longer fail, so Berth patches no more objects of this policy in namespace bank ("},
		},
		"PausedInANamespaceAndAfterFailures": {
			change: func(f *policystatus.Facts) {
				f.Report.Pause = &remediation.Pause{Change: "3-abc", Scope: containment.Scope{"shop"}, Denied: 12, Matched: 42, Percent: 10}
				f.Waiting.Pause = "3-def"
			},
			want:    map[string]string{"Paused": "True TooManyFailures"},
			message: map[string]string{"Paused": "resume-after-failures=3-def; a change of the policy"},
		},
		"PausedForTwoReasons": {
			change: func(f *policystatus.Facts) {
				f.Report.Pause = &remediation.Pause{Change: "3-abc", Denied: 12, Matched: 42, Percent: 10}
				f.Waiting.Pause, f.Waiting.PausedIn = "3-def", containment.Scope{"bank"}
			},
			want:    map[string]string{"Paused": "True BlastRadius"},
			message: map[string]string{"Paused": "release-blast-radius=3-abc; too many objects failed, which no longer fail, so Berth patches no more objects of this policy in namespace bank ("},
		},
		"PausedByAnEarlierLeader": {
			change:  func(f *policystatus.Facts) { f.Report.Pause = &remediation.Pause{Change: "3-abc", Before: 2} },
			want:    map[string]string{"Paused": "True BlastRadius"},
			message: map[string]string{"Paused": "earlier leader"},
		},
		"Conflict": {
			change: func(f *policystatus.Facts) { f.Report.Conflicts = []string{"q", "r"} },
			want:   map[string]string{"Enforced": "True Conflict"},
			message: map[string]string{
				"Enforced": "to other values (q, r)",
				"Ready":    "generation 4 decides what the policy matches; see the Enforced condition: other policies set keys of the same objects to other values",
			},
		},
		"ConflictInWarnMode": {
			change: func(f *policystatus.Facts) {
				f.State.Policy.Mode, f.Report.Conflicts = placementv1.ModeWarn, []string{"q", "r"}
			},
			want:    map[string]string{"Enforced": "False WarnMode"},
			message: map[string]string{"Enforced": "denies nothing; other PlacementPolicies set keys of the same objects to other values (q, r); the higher spec.priority wins"},
		},
	}
	base := map[string]string{
		"Ready": "True InForce", "Compiled": "True Compiled", "Replicated": "True Replicated", "Enforced": "True Enforced",
		"Compliant": "True Compliant",
	}
	declared := declaredReasons(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := sound()
			if tc.change != nil {
				tc.change(&facts)
			}
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			want := map[string]string{}
			for _, expected := range []map[string]string{base, tc.want} {
				for condition, text := range expected {
					want[condition] = text
					if text == "" {
						delete(want, condition)
					}
				}
			}
			conditions := map[string]string{}
			for _, c := range got.Conditions {
				conditions[c.Type] = string(c.Status) + " " + c.Reason
				if c.ObservedGeneration != facts.Generation {
					t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
				}
				if !slices.Contains(declared, c.Reason) {
					t.Errorf("reason %s of %s is no declared constant", c.Reason, c.Type)
				}
			}
			if diff := cmp.Diff(want, conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			expectComputed(t, got, facts, tc.message)
		})
	}
}

// expectComputed checks that the messages of conditions contain the given parts, by condition, that the API server would accept the status,
// and that it stays the same while the facts do.
func expectComputed(t *testing.T, got placementv1.PlacementPolicyStatus, facts policystatus.Facts, messages map[string]string) {
	t.Helper()
	for condition, part := range messages {
		if c := meta.FindStatusCondition(got.Conditions, condition); c == nil || !strings.Contains(c.Message, part) {
			t.Errorf("%s is %+v, want it to say %q", condition, c, part)
		}
	}
	if problems := violations(t, got); len(problems) > 0 {
		t.Errorf("the API server would refuse the status: %v", problems)
	}
	if diff := cmp.Diff(got, policystatus.Compute(got, facts)); diff != "" {
		t.Errorf("equal facts, other status (-first +second):\n%s", diff)
	}
}

// TestConditionsAreOfTheGenerationThatWasLookedAt checks that a condition never has the generation of a policy that the
// status does not describe. A client that waits for a generation would otherwise read the result of the previous one.
func TestConditionsAreOfTheGenerationThatWasLookedAt(t *testing.T) {
	unseen := placementv1.PlacementPolicyStatus{ObservedGeneration: -1}
	facts := sound()
	facts.State = nil
	loading := policystatus.Compute(unseen, facts)
	if loading.ObservedGeneration != -1 {
		t.Errorf("a policy that is being loaded is observed in generation %d", loading.ObservedGeneration)
	}
	facts = sound()
	facts.Generation = 5
	changed := policystatus.Compute(loading, facts)
	if changed.ObservedGeneration != 4 {
		t.Errorf("observed generation %d", changed.ObservedGeneration)
	}
	for _, c := range changed.Conditions {
		if c.ObservedGeneration != 4 {
			t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
		}
	}
}

func TestModuleDigest(t *testing.T) {
	facts := sound()
	facts.State.ModuleDigest = "sha256:0123"
	out := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	if out.ModuleDigest != "sha256:0123" {
		t.Errorf("the digest of rules is %q", out.ModuleDigest)
	}
	if out = policystatus.Compute(out, sound()); out.ModuleDigest != "" {
		t.Errorf("a policy without rules has the digest %q", out.ModuleDigest)
	}
}

func TestStalledGoes(t *testing.T) {
	facts := sound()
	facts.State.Err, facts.State.Broken, facts.State.Binding = errors.New("bad"), true, nil
	broken := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	if broken.GenerationInForce != 0 {
		t.Errorf("generation %d is in force", broken.GenerationInForce)
	}
	healed := policystatus.Compute(broken, sound())
	if meta.FindStatusCondition(healed.Conditions, placementv1.ConditionStalled) != nil {
		t.Error("a sound policy is stalled")
	}
	if healed.GenerationInForce != 4 || healed.ObservedGeneration != 4 {
		t.Errorf("generations %d and %d", healed.GenerationInForce, healed.ObservedGeneration)
	}
}

func TestCounts(t *testing.T) {
	facts := sound()
	facts.RemediatedBefore, facts.Report.Remediated, facts.Report.Moved = 7, 2, 1
	facts.Report.Sample = []placementv1.Violation{{Object: "pods a"}}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	if *got.Remediated != 9 || *got.Matched != 5 || *got.Violations != 1 || len(got.ViolationSample) != 1 {
		t.Errorf("status %+v", got)
	}
	if want := []placementv1.Dependency{{Resource: "clusterprofiles.multicluster.x-k8s.io", Version: "v1alpha1", Objects: new(int32(3))}}; !cmp.Equal(want, got.Dependencies) {
		t.Errorf("dependencies (-want +got):\n%s", cmp.Diff(want, got.Dependencies))
	}
	// A new leader that has not loaded the policy yet keeps the counts of the previous leader.
	facts.State = nil
	if kept := policystatus.Compute(got, facts); *kept.Remediated != 9 || *kept.Matched != 5 || *kept.Violations != 1 {
		t.Errorf("status %+v", kept)
	}
	facts = sound()
	facts.State.Policy.Remediation = placementv1.RemediationOff
	if off := policystatus.Compute(got, facts); off.Matched != nil || off.Violations != nil || off.ViolationSample != nil {
		t.Errorf("status %+v", off)
	}
}

func TestCountsByKind(t *testing.T) {
	facts := sound()
	facts.Report.Denied, facts.Report.Moved, facts.Report.Failed, facts.Report.Conflicted = 1, 2, 3, 4
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	if *got.Violations != 6 || *got.WouldDeny != 1 || *got.WouldMove != 2 || *got.Undecided != 3 || *got.Conflicted != 4 {
		t.Errorf("violations %d, would deny %d, would move %d, undecided %d, conflicted %d",
			*got.Violations, *got.WouldDeny, *got.WouldMove, *got.Undecided, *got.Conflicted)
	}
}

// TestUndecidedObjectsAreNotForgotten checks that Ready keeps its value after a change of leaders until the new leader
// has decided all objects. Until then, it knows of no undecided objects.
func TestUndecidedObjectsAreNotForgotten(t *testing.T) {
	facts := sound()
	facts.Report.Failed, facts.Report.FailedMessage = 2, "pods a/b: oh"
	old := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	tests := map[string]struct {
		change func(*policystatus.Facts)
		want   int32
		ready  string
	}{
		"Reading":    {func(f *policystatus.Facts) { f.MatchedWatches = watches.State{} }, 2, placementv1.ReasonObjectsUndecided},
		"Deciding":   {func(f *policystatus.Facts) { f.Deciding = true }, 2, placementv1.ReasonObjectsUndecided},
		"FirstFound": {func(f *policystatus.Facts) { f.Deciding, f.Report.Failed = true, 1 }, 1, placementv1.ReasonObjectsUndecided},
		"Decided":    {func(*policystatus.Facts) {}, 0, placementv1.ReasonInForce},
		"NotReadable": {func(f *policystatus.Facts) {
			f.MatchedWatches, f.Deciding = watches.State{Err: errors.New("broken pipe")}, true
		}, 0, placementv1.ReasonInForce},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := sound()
			tc.change(&facts)
			got := policystatus.Compute(old, facts)
			if ready := meta.FindStatusCondition(got.Conditions, placementv1.ConditionReady); *got.Undecided != tc.want || ready.Reason != tc.ready {
				t.Errorf("%d undecided, %s: %s", *got.Undecided, ready.Reason, ready.Message)
			}
			if held := facts.Held(got.Undecided); held != (tc.want == 2) {
				t.Errorf("held %v", held)
			}
		})
	}
}

// TestFindingsAreKeptWhileObjectsAreDecided checks that the status has either the findings from before a change or those from
// after it, and never a mixture.
func TestFindingsAreKeptWhileObjectsAreDecided(t *testing.T) {
	facts := sound()
	facts.Report.Moved, facts.Report.Violations, facts.Report.Plan = 2, 2, &remediation.Plan{Digest: "d", Moves: 2}
	facts.Report.Sample = []placementv1.Violation{{Object: "pods a"}}
	old := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	facts = sound()
	facts.Report.Assessing, facts.Report.Matched, facts.Report.Denied, facts.Report.Violations, facts.Report.Remediated = true, 1, 1, 1, 3
	got := policystatus.Compute(old, facts)
	if *got.Remediated != 3 {
		t.Errorf("%d patches", *got.Remediated)
	}
	got.Remediated = old.Remediated
	if diff := cmp.Diff(old, got); diff != "" {
		t.Errorf("status while objects are decided (-before +now):\n%s", diff)
	}
	got = policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	if c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionCompliant); got.Matched != nil || got.Violations != nil || c.Status != metav1.ConditionUnknown || c.Reason != placementv1.ReasonEvaluating {
		t.Errorf("before the first findings: matched %v, violations %v, Compliant %s %s", got.Matched, got.Violations, c.Status, c.Reason)
	}
	facts.Report.Assessing = false
	if got = policystatus.Compute(old, facts); *got.Matched != 1 || *got.WouldDeny != 1 || *got.WouldMove != 0 {
		t.Errorf("after all are decided: %d matched, %d denied, %d moved", *got.Matched, *got.WouldDeny, *got.WouldMove)
	}
}

func TestPlan(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 500, time.UTC)
	made := func() *remediation.Plan {
		return &remediation.Plan{
			Digest: "d1", Cause: remediation.Cause{Policy: true}, Causes: []string{"the first", "the second"}, Generation: 4, Since: since, Moves: 3, Done: 1, Undecided: 5,
			Transitions: []remediation.Transition{{Change: placement.Change{Field: "annotations", Key: "a/b", From: new("x"), To: new(strings.Repeat("y", 300))}, Objects: 3}},
		}
	}
	want := func(change func(*placementv1.RemediationPlan)) *placementv1.RemediationPlan {
		out := &placementv1.RemediationPlan{
			Digest: "d1", State: placementv1.PlanInProgress, Message: "generation 4 of the policy came into force",
			Causes:    []string{"the first", "the second"},
			StartTime: metav1.NewTime(since.Truncate(time.Second)), Moves: 3, Done: new(int32(1)),
			Transitions: []string{"3 objects: annotation a/b from x to " + strings.Repeat("y", 253) + "..."},
		}
		change(out)
		return out
	}
	same := func(*placementv1.RemediationPlan) {}
	older := want(func(p *placementv1.RemediationPlan) { p.Digest = "d0" })
	tests := map[string]struct {
		change func(*policystatus.Facts)
		old    *placementv1.RemediationPlan
		want   *placementv1.RemediationPlan
	}{
		"InProgress": {func(*policystatus.Facts) {}, older, want(same)},
		"Completed": {func(f *policystatus.Facts) { f.Report.Plan.Done = 3 }, nil, want(func(p *placementv1.RemediationPlan) {
			p.Done, p.State = new(int32(3)), placementv1.PlanCompleted
		})},
		"Manual": {func(f *policystatus.Facts) { f.State.Policy.Remediation = placementv1.RemediationManual }, nil, want(func(p *placementv1.RemediationPlan) {
			p.State = placementv1.PlanProposed
		})},
		"Off": {func(f *policystatus.Facts) { f.State.Policy.Remediation = placementv1.RemediationOff }, older, nil},
		"Data": {func(f *policystatus.Facts) { f.Report.Plan.Cause = remediation.Cause{Data: sets.New("nodes")} }, nil, want(func(p *placementv1.RemediationPlan) {
			p.Message = "nodes changed"
		})},
		"Objects": {func(f *policystatus.Facts) { f.Report.Plan.Cause = remediation.Cause{} }, nil, want(func(p *placementv1.RemediationPlan) {
			p.Message = "objects or namespaces changed"
		})},
		"SamePlanOfANewLeader": {func(f *policystatus.Facts) {
			f.Report.Plan.Cause, f.Report.Plan.Causes, f.Report.Plan.Since = remediation.Cause{}, []string{"the leader changed"}, since.Add(time.Hour)
		}, want(same), want(same)},
		"NewLeaderReads":   {func(f *policystatus.Facts) { f.Report.Plan, f.MatchedWatches = nil, watches.State{} }, want(same), want(same)},
		"NewLeaderDecides": {func(f *policystatus.Facts) { f.Report.Plan, f.Deciding = nil, true }, want(same), want(same)},
		"NewLeaderFails":   {func(f *policystatus.Facts) { f.Report.Plan, f.Report.Failed = nil, 3 }, want(same), want(same)},
		"NewLeaderWorks":   {func(f *policystatus.Facts) { f.Report.Plan, f.Report.Moved, f.Report.Outstanding = nil, 2, 1 }, want(same), want(same)},
		"NothingLeftToDo": {func(f *policystatus.Facts) { f.Report.Plan, f.Report.Moved = nil, 1 }, want(same), want(func(p *placementv1.RemediationPlan) {
			p.Done, p.State = new(int32(3)), placementv1.PlanCompleted
		})},
		"Rollouts": {func(f *policystatus.Facts) { f.Report.Plan.Done, f.Waiting.Rollouts = 3, 2 }, nil, want(func(p *placementv1.RemediationPlan) {
			p.Done, p.Rollouts = new(int32(3)), 2
		})},
		"NewLeaderSeesRollouts": {func(f *policystatus.Facts) { f.Report.Plan, f.Waiting.Rollouts = nil, 2 }, want(same), want(func(p *placementv1.RemediationPlan) {
			p.Done, p.Rollouts = new(int32(3)), 2
		})},
		"NewLeaderDoesNotKnowRollouts": {func(f *policystatus.Facts) { f.Report.Plan, f.Waiting.Resuming = nil, true }, want(same), want(same)},
		"None":                         {func(f *policystatus.Facts) { f.Report.Plan = nil }, nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := sound()
			facts.State.Policy.Remediation, facts.Report.Plan = placementv1.RemediationAutomatic, made()
			tc.change(&facts)
			if diff := cmp.Diff(tc.want, policystatus.Compute(placementv1.PlacementPolicyStatus{Plan: tc.old}, facts).Plan); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			moves, done := policystatus.CarriedOut(tc.want)
			if carried := tc.want != nil && tc.want.State != placementv1.PlanProposed; carried && (moves != 3 || done != int(*tc.want.Done)) || !carried && moves+done != 0 {
				t.Errorf("%d of %d carried out", done, moves)
			}
		})
	}
}

// TestBudgetInStatus checks what the status says of objects that wait, and of those that failed.
func TestBudgetInStatus(t *testing.T) {
	facts := sound()
	facts.State.Policy.Name, facts.State.Policy.Remediation = "p", placementv1.RemediationAutomatic
	facts.Report.Matched, facts.Report.Moved, facts.Report.Violations = 40, 30, 30
	facts.Waiting = remediation.Waiting{Paced: 1, Unavailable: 2, UnavailableNow: 5, MaxUnavailable: 4, Stopped: 3, Protected: 6, Pause: "7-abc"}
	facts.Waiting.UnavailableFor = "p"
	facts.Waiting.FirstUnavailable = remediation.Key{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "shop", Name: "slow"}
	for i := range 12 {
		facts.Waiting.Failures = append(facts.Waiting.Failures, remediation.Failure{
			Key:    remediation.Key{Resource: schema.GroupVersionResource{Group: "apps", Resource: "deployments"}, Namespace: "shop", Name: fmt.Sprint(i)},
			Reason: "denied", Rollout: i%2 == 0,
		})
	}
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	if diff := cmp.Diff([]placementv1.WaitingObjects{
		{Reason: placementv1.WaitingForBudget, Objects: 1}, {Reason: placementv1.WaitingForAvailability, Objects: 2}, {Reason: placementv1.WaitingAfterFailures, Objects: 3},
		{Reason: placementv1.WaitingForDisruptionBudget, Objects: 6},
	}, got.Waiting, cmpopts.IgnoreFields(placementv1.WaitingObjects{}, "Message")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if n := len(got.Failures.Sample); *got.Failures.Objects != 12 || n != 12 || got.Failures.Pause != "7-abc" {
		t.Errorf("failures %+v", got.Failures)
	}
	if diff := cmp.Diff(placementv1.FailedMove{Object: "deployments.apps shop/0", Reason: placementv1.RolloutFailed, Message: "denied"}, got.Failures.Sample[0]); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
	for condition, parts := range map[string][]string{
		placementv1.ConditionPaused: {"12 objects failed, so Berth patches no more objects of this policy (spec.remediation.budget.pauseAfterFailures), such as deployments.apps shop/0: denied",
			"kubectl annotate plpol p --overwrite placement.berth.dev/resume-after-failures=7-abc"},
		placementv1.ConditionCompliant: {"; 1 of them wait because spec.remediation.budget of a policy that decides them, or a flag of the manager, bounds how many are patched a minute or moved at the same time",
			"; 2 of them wait because 5 objects are unavailable, and spec.remediation.budget.maxUnavailable allows 4: the first is deployments.apps shop/slow", "; 3 of them wait because patches or rollouts of too many objects failed"},
	} {
		c := meta.FindStatusCondition(got.Conditions, condition)
		for _, part := range parts {
			if c == nil || !strings.Contains(c.Message, part) {
				t.Errorf("%s: %+v does not say %q", condition, c, part)
			}
		}
	}
	if c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionPaused); c.Reason != placementv1.ReasonTooManyFailures {
		t.Errorf("reason %s", c.Reason)
	}

	facts.State.Policy.Budget.Group, facts.Waiting.Late, facts.Waiting.UnavailableFor = "moves", 2, "other"
	told := meta.FindStatusCondition(policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts).Conditions, placementv1.ConditionCompliant).Message
	if part := "moved at the same time, counting the objects and bounds of all policies of spec.remediation.budget.group moves; 2 objects that did not run in their new clusters in time still " +
		"count as being moved in their namespaces, against maxConcurrent and perNamespace of the other objects there, until they run or are deleted: see status.moving and status.failures; 2 of them wait because 5 objects are unavailable, and " +
		"spec.remediation.budget.maxUnavailable of policy other, which also decides them, allows 4: the first is"; !strings.Contains(told, part) {
		t.Errorf("%q does not say %q", told, part)
	}

	facts.Waiting.PausedIn = containment.Scope{"shop"}
	if in := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts); !slices.Equal(in.Failures.PausedNamespaces, []string{"shop"}) || facts.PausedNamespaces() != 1 {
		t.Errorf("failures %+v", in.Failures)
	}
	facts.Report.Pause = &remediation.Pause{Change: "7-def", Scope: containment.Scope{"bank", "shop"}, Denied: 12}
	if in := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts); !slices.Equal(in.Paused.Namespaces, []string{"bank", "shop"}) || facts.PausedNamespaces() != 2 {
		t.Errorf("paused %+v", in.Paused)
	}
	if facts.Report.Pause.Scope = nil; facts.PausedNamespaces() != 0 {
		t.Errorf("paused in %d namespaces, and everywhere", facts.PausedNamespaces())
	}
	facts.Report.Pause = nil

	// A leader that does not know yet what its predecessor left keeps it.
	facts.Waiting, facts.Resuming = remediation.Waiting{}, true
	kept := policystatus.Compute(got, facts)
	if diff := cmp.Diff(got.Failures, kept.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if c := meta.FindStatusCondition(kept.Conditions, placementv1.ConditionPaused); c == nil || c.Reason != placementv1.ReasonTooManyFailures {
		t.Errorf("paused %+v", c)
	}
	facts.Resuming = false
	if after := policystatus.Compute(got, facts); after.Failures != nil || meta.FindStatusCondition(after.Conditions, placementv1.ConditionPaused) != nil {
		t.Errorf("failures %+v", after.Failures)
	}
}

// TestMoving checks what the status says of objects that were moved to other clusters and do not run there yet.
func TestMoving(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 700, time.UTC)
	deployment := schema.GroupVersionResource{Group: "apps", Resource: "deployments"}
	facts := sound()
	facts.Waiting.Moves = []remediation.Move{
		{Key: remediation.Key{Resource: deployment, Namespace: "shop", Name: "late"}, Since: at.Add(-time.Hour)},
		{Key: remediation.Key{Resource: deployment, Namespace: "shop", Name: "web"}, Since: at, Deadline: at.Add(10 * time.Minute)},
	}
	want := []placementv1.MovingObject{
		{Object: "deployments.apps shop/late", Since: metav1.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)},
		{Object: "deployments.apps shop/web", Since: metav1.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), Deadline: new(metav1.Date(2026, 1, 1, 12, 10, 0, 0, time.UTC))},
	}
	old := placementv1.PlacementPolicyStatus{Moving: want[:1]}
	many := slices.Repeat(facts.Waiting.Moves, 60)
	for name, tc := range map[string]struct {
		change func(*policystatus.Facts)
		want   []placementv1.MovingObject
	}{
		"Moving":        {func(*policystatus.Facts) {}, want},
		"WhileDeciding": {func(f *policystatus.Facts) { f.Report.Assessing = true }, want},
		"None":          {func(f *policystatus.Facts) { f.Waiting.Moves = nil }, nil},
		"NewLeader":     {func(f *policystatus.Facts) { f.Waiting, f.Resuming = remediation.Waiting{}, true }, old.Moving},
		"Many":          {func(f *policystatus.Facts) { f.Waiting.Moves = many }, slices.Repeat(want, 50)},
	} {
		t.Run(name, func(t *testing.T) {
			changed := facts
			tc.change(&changed)
			if diff := cmp.Diff(tc.want, policystatus.Compute(old, changed).Moving); diff != "" {
				t.Errorf("moving (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLeftOf checks that a later leader reads from the status what an earlier one was moving, and what had failed.
func TestLeftOf(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key := func(namespace, name string) remediation.Key {
		return remediation.Key{Resource: schema.GroupVersionResource{Group: "apps", Resource: "deployments"}, Namespace: namespace, Name: name}
	}
	want := remediation.Left{
		Moves:  []remediation.Move{{Key: key("", "late"), Since: at}, {Key: key("shop", "web"), Since: at, Deadline: at.Add(10 * time.Minute)}},
		Failed: []remediation.Failure{{Key: key("shop", "db"), Reason: "denied"}, {Key: key("shop", "late"), Reason: "not ready", Rollout: true}},
		Pause:  "c1", PausedIn: containment.Scope{"shop"},
	}
	facts := sound()
	facts.Waiting = remediation.Waiting{Moves: want.Moves, Failures: want.Failed, Pause: want.Pause, PausedIn: want.PausedIn}
	computed := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	want.Generation = computed.GenerationInForce
	if diff := cmp.Diff(want, status.LeftOf(computed)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	computed.Plan = &placementv1.RemediationPlan{State: placementv1.PlanInProgress}
	if !status.LeftOf(computed).Moving {
		t.Error("a plan in progress moves nothing")
	}
}

// TestApproved checks what the status says of a plan that needs an approval.
func TestApproved(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	approval := func(digest string, at time.Time, known bool) *remediation.Approval {
		return &remediation.Approval{Digest: digest, By: "alice", At: at, Known: known}
	}
	const command = "kubectl annotate plpol p --overwrite placement.berth.dev/approve=d1"
	tests := map[string]struct {
		change                     func(*policystatus.Facts)
		by, reason, message, state string
		waiting                    int
	}{
		"Waiting": {func(*policystatus.Facts) {}, "", placementv1.ReasonWaitingForApproval, command, "WaitingForApproval", 2},
		"EarlierApproval": {func(f *policystatus.Facts) { f.Report.Approval = approval("d0", since.Add(-time.Hour), false) },
			"", placementv1.ReasonWaitingForApproval, command, "WaitingForApproval", 2},
		"ApprovalOfThePlanBefore": {func(f *policystatus.Facts) { f.Report.Approval = approval("d0", since, true) },
			"", placementv1.ReasonWaitingForApproval, command, "WaitingForApproval", 2},
		"Unknown": {func(f *policystatus.Facts) { f.Report.Approval = approval("d0", since.Add(time.Hour), false) },
			"", placementv1.ReasonUnknownPlan, "approves plan d0, but the plan that moves 3 objects is d1; to have the plan carried out: " + command, "WaitingForApproval", 2},
		"Approved": {func(f *policystatus.Facts) {
			f.Report.Approval = approval("d1", since, true)
			f.Report.Plan.Approval = f.Report.Approval
		}, "alice", "", "", "InProgress", 0},
		"ApprovedByUnknown": {func(f *policystatus.Facts) { f.Report.Plan.Approval = &remediation.Approval{Digest: "d1"} },
			"unknown", "", "", "InProgress", 0},
		"UnknownByUnknown": {func(f *policystatus.Facts) { f.Report.Approval = &remediation.Approval{Digest: "d0"} },
			"", placementv1.ReasonUnknownPlan, "approves plan d0", "WaitingForApproval", 2},
		"Used": {func(f *policystatus.Facts) {
			f.Report.Approval = approval("d1", since.Add(-time.Hour), true)
			f.Report.Approval.Used = true
		}, "", placementv1.ReasonWaitingForApproval, "first remove the annotation: kubectl annotate plpol p placement.berth.dev/approve-", "WaitingForApproval", 2},
		"Completed": {func(f *policystatus.Facts) { f.Report.Plan.Done = 3 }, "", "", "", "Completed", 0},
		"NoPlan":    {func(f *policystatus.Facts) { f.Report.Plan = nil }, "", "", "", "", 0},
		"Automatic": {func(f *policystatus.Facts) {
			f.State.Policy.Remediation, f.Report.Plan.Approval = placementv1.RemediationAutomatic, approval("d1", since, true)
		}, "", "", "", "InProgress", 0},
		"TooManyFailures": {func(f *policystatus.Facts) {
			f.Waiting = remediation.Waiting{Pause: "7-abc", Failures: make([]remediation.Failure, 10)}
		}, "", placementv1.ReasonTooManyFailures, "resume-after-failures=7-abc; plan d1 moves 3 objects; to have the plan carried out: " + command, "WaitingForApproval", 2},
		"NamespacesPaused": {func(f *policystatus.Facts) {
			f.Waiting = remediation.Waiting{Pause: "7-abc", PausedIn: containment.Scope{"shop"}, Failures: []remediation.Failure{{Key: remediation.Key{Namespace: "shop", Name: "web"}}}}
		}, "", placementv1.ReasonWaitingForApproval, command + "; 1 objects failed, so Berth patches no more objects of this policy in namespace shop (spec.remediation.budget.pauseAfterFailures). " +
			"Correct the cause", "WaitingForApproval", 2},
		"Warn": {func(f *policystatus.Facts) { f.State.Policy.Mode = placementv1.ModeWarn }, "", "", "", "Proposed", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := sound()
			facts.State.Policy.Name, facts.State.Policy.Remediation = "p", placementv1.RemediationApproved
			facts.Report.Plan = &remediation.Plan{Digest: "d1", Since: since, Moves: 3, Done: 1}
			tc.change(&facts)
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionPaused)
			switch {
			case (c == nil) != (tc.reason == ""):
				t.Errorf("condition %+v", c)
			case c != nil && (c.Status != metav1.ConditionTrue || c.Reason != tc.reason || !strings.Contains(c.Message, tc.message)):
				t.Errorf("condition %s %s: %s", c.Status, c.Reason, c.Message)
			}
			if (got.Plan == nil) != (tc.state == "") || got.Plan != nil && string(got.Plan.State) != tc.state {
				t.Errorf("plan %+v", got.Plan)
			}
			if got.Plan != nil && (got.Plan.Approval == nil) != (tc.by == "") || tc.by != "" && got.Plan.Approval.User != tc.by {
				t.Errorf("approval %+v", got.Plan.Approval)
			}
			if n := policystatus.WaitingFor(got, placementv1.WaitingForApproval); n != tc.waiting {
				t.Errorf("%d objects wait", n)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	computed := func(change func(*policystatus.Facts)) placementv1.PlacementPolicyStatus {
		facts := sound()
		change(&facts)
		return policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	}
	var none placementv1.PlacementPolicyStatus
	well := computed(func(*policystatus.Facts) {})
	pending := computed(func(f *policystatus.Facts) { f.Webhook.Generation = 3 })
	broken := computed(func(f *policystatus.Facts) { f.State.Err = errors.New("bad") })
	unserved := computed(func(f *policystatus.Facts) { f.State.Binding.Missing = []analysis.Read{{Plural: "carts"}} })
	unresponsive := computed(func(f *policystatus.Facts) {
		f.State.Binding.Missing, f.Unresponsive = []analysis.Read{{Plural: "carts"}}, []schema.GroupVersion{{Group: "shop.example.com", Version: "v1"}}
	})
	undecided := computed(func(f *policystatus.Facts) { f.Report.Failed, f.Report.FailedMessage = 2, "pods a/b: oh" })
	fewer := computed(func(f *policystatus.Facts) { f.Report.Failed, f.Report.FailedMessage = 1, "pods a/b: oh" })
	violated := computed(func(f *policystatus.Facts) { f.Report.Denied, f.Report.Moved = 1, 2 })
	more := computed(func(f *policystatus.Facts) { f.Report.Moved = 4 })
	off := computed(func(f *policystatus.Facts) { f.State.Policy.Remediation = placementv1.RemediationOff })
	plan := func(digest string, state placementv1.PlanState) placementv1.PlacementPolicyStatus {
		out := *well.DeepCopy()
		out.Plan = &placementv1.RemediationPlan{Digest: digest, State: state, Moves: 3, Message: "nodes changed"}
		return out
	}
	started := []policystatus.Notification{{Kind: events.PlanStarted, Message: "plan b moves 3 objects, because nodes changed"}}
	completed := []policystatus.Notification{{Kind: events.PlanCompleted, Message: "plan b is completed: none of its 3 objects has to be moved any more"}}
	approved := func(change func(*policystatus.Facts)) placementv1.PlacementPolicyStatus {
		return computed(func(f *policystatus.Facts) {
			f.State.Policy.Name, f.State.Policy.Remediation = "p", placementv1.RemediationApproved
			f.Report.Plan, f.Report.Approval = &remediation.Plan{Digest: "b", Moves: 3}, nil
			change(f)
		})
	}
	asked := approved(func(*policystatus.Facts) {})
	mistaken := approved(func(f *policystatus.Facts) { f.Report.Approval = &remediation.Approval{Digest: "a"} })
	failed := approved(func(f *policystatus.Facts) { f.Waiting.Pause = "7-abc" })
	answered := approved(func(f *policystatus.Facts) { f.Report.Plan.Approval = &remediation.Approval{Digest: "b", By: "alice"} })
	waits := policystatus.Notification{Kind: events.PlanWaits, Message: "plan b moves 3 objects, and waits for an approval; the policy's condition Paused has the command that approves it"}
	refused := policystatus.Notification{Kind: events.PlanNotApproved, Message: "the annotation placement.berth.dev/approve approves plan a, but the plan that moves 3 objects is b; " +
		"to have the plan carried out: kubectl annotate plpol p --overwrite placement.berth.dev/approve=b"}
	ready := policystatus.Notification{Kind: events.PolicyReady, Message: "generation 4 decides what the policy matches"}
	ambiguous := func(names ...string) placementv1.PlacementPolicyStatus {
		return computed(func(f *policystatus.Facts) {
			for _, name := range names {
				f.Ambiguous = append(f.Ambiguous, replication.Ambiguity{Cluster: name})
			}
		})
	}
	named := []policystatus.Notification{{Kind: events.ClustersAmbiguous, Message: "several objects of the inventories have the same cluster name, so the policy places nothing in this cluster; the condition Replicated names them"}}
	tests := map[string]struct {
		before, after placementv1.PlacementPolicyStatus
		want          []policystatus.Notification
	}{
		"Ambiguous":       {well, ambiguous("a"), named},
		"AmbiguousStill":  {ambiguous("a"), ambiguous("a"), nil},
		"MoreAmbiguous":   {ambiguous("a"), ambiguous("a", "b"), named},
		"Unambiguous":     {ambiguous("a"), well, nil},
		"Created":         {none, pending, nil},
		"InForce":         {pending, well, []policystatus.Notification{ready}},
		"Same":            {well, well, nil},
		"Updated":         {well, pending, nil},
		"CreatedBroken":   {none, broken, []policystatus.Notification{{Kind: events.PolicyNotReady, Message: "LastGoodInForce: generation 4 stays in force: bad"}}},
		"BrokenStill":     {broken, broken, nil},
		"NotPushed":       {well, computed(func(f *policystatus.Facts) { f.PushErr = errors.New("PUT /v1/data/kubernetes/pods/a/b: status 500") }), []policystatus.Notification{{Kind: events.PolicyNotReady, Message: "PushFailed: Berth can't push what the policy needs to the engine; see the Replicated condition"}}},
		"BrokenOtherwise": {broken, unserved, []policystatus.Notification{{Kind: events.PolicyNotReady, Message: "NotServed: the API server does not serve data.kubernetes.carts; the policy can't decide, and a request for what it matches is denied until the type is installed"}}},
		"BrokenServer": {broken, unresponsive, []policystatus.Notification{{Kind: events.PolicyNotReady, Message: "NotServed: the API server does not serve data.kubernetes.carts, " +
			"and the extension API server of shop.example.com/v1 does not respond: see the APIService; the policy can't decide, and a request for what it matches is denied until the type is served again"}}},
		"Corrected":              {broken, well, []policystatus.Notification{ready}},
		"Undecided":              {well, undecided, []policystatus.Notification{{Kind: events.PolicyUndecided, Message: "2 objects can't be decided; the Ready condition names one and says why, or, if it is False for another reason, the Compliant condition does"}}},
		"FewerUndecided":         {undecided, fewer, nil},
		"Decided":                {fewer, well, []policystatus.Notification{ready, {Kind: events.PolicyDecided, Message: "all existing objects can be decided"}}},
		"NotLookedAt":            {undecided, off, []policystatus.Notification{ready}},
		"Violated":               {well, violated, []policystatus.Notification{{Kind: events.PolicyViolated, Message: "3 of 5 objects differ from what the policy decides: the policy would deny 1 and move 2"}}},
		"MoreViolations":         {violated, more, nil},
		"Compliant":              {violated, well, nil},
		"PlanProposed":           {well, plan("b", placementv1.PlanProposed), nil},
		"PlanStarted":            {well, plan("b", placementv1.PlanInProgress), started},
		"PlanReplaced":           {plan("a", placementv1.PlanInProgress), plan("b", placementv1.PlanInProgress), started},
		"PlanSwitchedOn":         {plan("b", placementv1.PlanProposed), plan("b", placementv1.PlanInProgress), started},
		"PlanGoesOn":             {plan("b", placementv1.PlanInProgress), plan("b", placementv1.PlanInProgress), nil},
		"PlanCompleted":          {plan("b", placementv1.PlanInProgress), plan("b", placementv1.PlanCompleted), completed},
		"PlanAtOnce":             {well, plan("b", placementv1.PlanCompleted), completed},
		"PlanWaits":              {well, asked, []policystatus.Notification{waits}},
		"PlanWaitsStill":         {asked, asked, nil},
		"PlanWaitsAfterFailures": {well, failed, []policystatus.Notification{waits}},
		"PlanMistaken":           {asked, mistaken, []policystatus.Notification{refused}},
		"PlanApproved": {mistaken, answered, []policystatus.Notification{
			{Kind: events.PlanStarted, Message: "plan b moves 3 objects, because objects or namespaces changed"}, {Kind: events.PlanApproved, Message: "plan b was approved by alice"},
		}},
		"PlanIsHistory": {plan("b", placementv1.PlanCompleted), plan("b", placementv1.PlanCompleted), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, policystatus.Notifications(tc.before, tc.after)); diff != "" {
				t.Errorf("news (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusKeepsTheSchemasLimits checks that the status fits the schema for all facts. Berth would retry a rejected
// status forever.
func TestStatusKeepsTheSchemasLimits(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	tests := map[string]func(*policystatus.Facts){
		"Error":     func(f *policystatus.Facts) { f.State.Err = errors.New(long) },
		"Warnings":  func(f *policystatus.Facts) { f.State.Warnings = []string{long, long} },
		"Rejected":  func(f *policystatus.Facts) { f.Webhook.Rejected = long },
		"Watch":     func(f *policystatus.Facts) { f.Replicated = replicas{profiles: {Err: errors.New(long)}}.types() },
		"Targets":   func(f *policystatus.Facts) { f.MatchedWatches = watches.State{Err: errors.New(long)} },
		"Unsettled": func(f *policystatus.Facts) { f.Report.Unsettled = slices.Repeat([]string{long}, 100) },
		"Conflicts": func(f *policystatus.Facts) { f.Report.Conflicts = slices.Repeat([]string{long}, 100) },
		"Failed":    func(f *policystatus.Facts) { f.Report.Failed, f.Report.FailedMessage = 1, long },
		// A policy may read any number of types that fit into its Rego.
		"ManyDependencies": func(f *policystatus.Facts) {
			for i := range 100 {
				r := nodes
				r.Resource = fmt.Sprintf("things%d", i)
				f.State.Binding.Resources = append(f.State.Binding.Resources, r)
			}
		},
		"ManyFields": func(f *policystatus.Facts) {
			var names []string
			for i := range 100 {
				names = append(names, fmt.Sprintf("%d%s", i, long))
			}
			for i := range 64 {
				r := nodes
				r.Resource = fmt.Sprintf("things%d", i)
				f.State.Binding.Resources = append(f.State.Binding.Resources, r)
				f.State.Binding.Fields[r.GroupVersionResource] = fields(names...)
			}
		},
		"ManyMissing": func(f *policystatus.Facts) {
			for i := range 100 {
				f.State.Binding.Missing = append(f.State.Binding.Missing, analysis.Read{Plural: fmt.Sprintf("things%d", i)})
			}
		},
		"LongMissing": func(f *policystatus.Facts) {
			f.State.Binding.Missing = []analysis.Read{{Plural: strings.Repeat("x", 5000)}}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			facts := sound()
			change(&facts)
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			if problems := violations(t, got); len(problems) > 0 {
				t.Errorf("the API server would refuse the status: %v", problems)
			}
			for _, c := range got.Conditions {
				if !utf8.ValidString(c.Message) {
					t.Errorf("message of %s is cut within a letter", c.Type)
				}
			}
		})
	}
}

// TestEqualFactsEqualStatus checks that the order of the facts does not affect the status.
func TestEqualFactsEqualStatus(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	maybe := func(change func()) {
		if r.IntN(2) == 0 {
			change()
		}
	}
	for range budget.Rounds(500) {
		build := func(seed uint64) policystatus.Facts {
			r = rand.New(rand.NewPCG(seed, 0))
			f := sound()
			maybe(func() { f.State.Err = errors.New("bad") })
			maybe(func() { f.Webhook.Generation = 3 })
			maybe(func() { f.Report.Violations = r.IntN(3) })
			maybe(func() { f.Report.Failed = r.IntN(3) })
			maybe(func() { f.MatchedWatches = watches.State{} })
			maybe(func() { f.Replicated = replicas{profiles: {Err: forbidden()}}.types() })
			maybe(func() { f.State.Policy.Mode = placementv1.ModeWarn })
			maybe(func() {
				f.State.Policy.Rules, f.Report.Rules = []string{"a", "b"}, map[string]int{"a": r.IntN(2), "b": 1}
			})
			maybe(func() {
				f.Types = &status.TypeState{Others: []findings.Finding{
					{Message: "no cluster has it", Level: findings.Advice}, {Message: "decides nothing", Rule: "a"}, {Message: "few objects", Below: int32(r.IntN(9))},
				}}
			})
			return f
		}
		first, second := r.Uint64(), r.Uint64()
		old := policystatus.Compute(placementv1.PlacementPolicyStatus{}, build(first))
		a, b := policystatus.Compute(old, build(second)), policystatus.Compute(*old.DeepCopy(), build(second))
		for i := range b.Conditions {
			// Only the times may differ between two computations.
			b.Conditions[i].LastTransitionTime = a.Conditions[i].LastTransitionTime
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(a, policystatus.Compute(a, build(second))); diff != "" {
			t.Fatalf("settled facts, unsettled status:\n%s", diff)
		}
	}
}

// TestReasonsAreDocumented checks that the comment of each reason says when it is set.
func TestReasonsAreDocumented(t *testing.T) {
	if len(declaredReasons(t)) < 20 {
		t.Error("reasons are not found")
	}
}

// declaredReasons returns the constants of the API package whose names start with Reason.
func declaredReasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "api", "v1alpha1", "conditions.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		if !strings.HasPrefix(spec.Doc.Text(), spec.Names[0].Name) {
			t.Errorf("%s has no comment that says when it surfaces", spec.Names[0].Name)
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, value)
		return true
	})
	return out
}

// violations returns the violations of the lengths, sizes, and enums in the generated schema.
func violations(t *testing.T, s placementv1.PlacementPolicyStatus) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "placement.berth.dev_placementpolicies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	encoded, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal(encoded, &value); err != nil {
		t.Fatal(err)
	}
	return check("status", value, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"])
}

func check(path string, value any, schema apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	switch v := value.(type) {
	case string:
		if n := utf8.RuneCountInString(v); schema.MaxLength != nil && int64(n) > *schema.MaxLength || schema.MinLength != nil && int64(n) < *schema.MinLength {
			out = append(out, fmt.Sprintf("%s has %d letters", path, n))
		}
	case []any:
		if schema.MaxItems != nil && int64(len(v)) > *schema.MaxItems {
			out = append(out, fmt.Sprintf("%s has %d items", path, len(v)))
		}
		for i, item := range v {
			out = append(out, check(fmt.Sprintf("%s[%d]", path, i), item, *schema.Items.Schema)...)
		}
	case map[string]any:
		for _, name := range schema.Required {
			if _, ok := v[name]; !ok {
				out = append(out, path+"."+name+" is missing")
			}
		}
		for name, field := range v {
			sub, known := schema.Properties[name]
			if !known {
				out = append(out, path+"."+name+" is unknown")
				continue
			}
			out = append(out, check(path+"."+name, field, sub)...)
		}
	}
	return out
}

// TestDependenciesOfPredicates checks that a type that both a policy and its predicates read is one dependency, which
// has its objects when both have theirs.
func TestDependenciesOfPredicates(t *testing.T) {
	own := placementv1.Dependency{Resource: "clusterprofiles.multicluster.x-k8s.io", Version: "v1alpha1", Objects: new(int32(3))}
	tests := map[string]struct {
		change func(*policystatus.Facts)
		want   placementv1.Dependency
	}{
		"Beside": {
			change: func(f *policystatus.Facts) { asks(f, watches.State{Synced: true}) },
			want:   placementv1.Dependency{Resource: "nodes", Version: "v1", Objects: new(int32(3))},
		},
		"Both": {
			change: func(f *policystatus.Facts) { asks(f, watches.State{Synced: true}); reads(f, nodes) },
			want:   placementv1.Dependency{Resource: "nodes", Version: "v1", Objects: new(int32(3))},
		},
		"BothButNotThere": {
			change: func(f *policystatus.Facts) { asks(f, watches.State{Err: errors.New("broken pipe")}); reads(f, nodes) },
			want:   placementv1.Dependency{Resource: "nodes", Version: "v1"},
		},
		"ThereButNotBoth": {
			change: func(f *policystatus.Facts) {
				asks(f, watches.State{Synced: true})
				reads(f, nodes)
				f.Replicated = replicas{profiles: {Synced: true}}.types()
			},
			want: placementv1.Dependency{Resource: "nodes", Version: "v1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := sound()
			tc.change(&f)
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
			if diff := cmp.Diff([]placementv1.Dependency{own, tc.want}, got.Dependencies); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// reads adds a read of the metadata of a type to the policy.
func reads(f *policystatus.Facts, r policy.Resource) {
	f.State.Binding.Resources = append(f.State.Binding.Resources, r)
	f.State.Binding.Fields[r.GroupVersionResource] = fields("metadata")
}

// TestPauseOfAnEarlierLeaderIsKept checks that a leader that has just started keeps a pause that it does not know of
// yet, because admission follows the status.
func TestPauseOfAnEarlierLeaderIsKept(t *testing.T) {
	facts := sound()
	facts.Report.Pause = &remediation.Pause{Change: "3-abc", Denied: 40, Before: 2, Matched: 42}
	before := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	facts.Report.Pause, facts.Resuming = nil, true
	if diff := cmp.Diff(before, policystatus.Compute(before, facts)); diff != "" {
		t.Errorf("while it is not known (-want +got):\n%s", diff)
	}
	facts.Resuming = false
	if after := policystatus.Compute(before, facts); after.Paused != nil || meta.FindStatusCondition(after.Conditions, placementv1.ConditionPaused) != nil {
		t.Errorf("paused %+v", after.Paused)
	}
}

// TestAmbiguousClustersOfANewLeader checks that the condition says what is known while a new leader does not have the inventories yet.
func TestAmbiguousClustersOfANewLeader(t *testing.T) {
	facts := sound()
	facts.State.Binding.Clusters = []schema.GroupVersionResource{profiles.GroupVersionResource}
	facts.Ambiguous = []replication.Ambiguity{{Cluster: "prod"}}
	before := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	facts.Ambiguous, facts.Replicated = nil, replicas{profiles: {}}.types()
	waiting := policystatus.Compute(before, facts)
	if c := meta.FindStatusCondition(waiting.Conditions, placementv1.ConditionReplicated); c.Reason != placementv1.ReasonReplicating {
		t.Errorf("before the inventories are read, it is %+v", c)
	}
	facts.Replicated = sound().Replicated
	for _, want := range []string{placementv1.ReasonReplicated, placementv1.ReasonAmbiguousClusters} {
		if c := meta.FindStatusCondition(policystatus.Compute(waiting, facts).Conditions, placementv1.ConditionReplicated); c.Status != metav1.ConditionTrue || c.Reason != want {
			t.Errorf("it is %+v, want %s", c, want)
		}
		facts.Ambiguous = []replication.Ambiguity{{Cluster: "prod"}}
	}
}

// TestMovesBefore checks how many moves an earlier leader made after it wrote the status, by what this leader has left of the plan.
func TestMovesBefore(t *testing.T) {
	const unknown = -1
	for name, tc := range map[string]struct {
		change func(*policystatus.Facts)
		want   int64
	}{
		"NothingLeft":     {func(*policystatus.Facts) {}, 5},
		"SomeLeft":        {func(f *policystatus.Facts) { f.Report.Plan = &remediation.Plan{Digest: "rest", Moves: 3} }, 2},
		"AllLeft":         {func(f *policystatus.Facts) { f.Report.Plan = &remediation.Plan{Digest: "rest", Moves: 5} }, 0},
		"MoreThanWasLeft": {func(f *policystatus.Facts) { f.Report.Plan = &remediation.Plan{Digest: "other", Moves: 9} }, 0},
		"SamePlan":        {func(f *policystatus.Facts) { f.Report.Plan = &remediation.Plan{Digest: "all", Moves: 7, Done: 4} }, 2},
		"SamePlanAndOwn": {func(f *policystatus.Facts) {
			f.Report.Plan, f.Report.Remediated = &remediation.Plan{Digest: "all", Moves: 7, Done: 4}, 1
		}, 1},
		"NotPlannedYet":     {func(f *policystatus.Facts) { f.Report.Outstanding = 3 }, unknown},
		"Deciding":          {func(f *policystatus.Facts) { f.Deciding = true }, unknown},
		"Reading":           {func(f *policystatus.Facts) { f.MatchedWatches.Synced = false }, unknown},
		"Resuming":          {func(f *policystatus.Facts) { f.Resuming = true }, unknown},
		"NotLoaded":         {func(f *policystatus.Facts) { f.State = nil }, unknown},
		"AnotherGeneration": {func(f *policystatus.Facts) { f.State.Policy.Generation = 5 }, 0},
		"SomeUndecided":     {func(f *policystatus.Facts) { f.Report.Failed = 1 }, 0},
		"UndecidedInPlan":   {func(f *policystatus.Facts) { f.Report.Plan = &remediation.Plan{Digest: "rest", Moves: 3, Undecided: 1} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			tc.change(&f)
			moves, known := f.MovesBefore(&placementv1.RemediationPlan{Digest: "all", Moves: 7, Done: new(int32(2))}, 4)
			if !known {
				moves = unknown
			}
			if moves != tc.want {
				t.Errorf("%d moves, want %d", moves, tc.want)
			}
		})
	}
}
