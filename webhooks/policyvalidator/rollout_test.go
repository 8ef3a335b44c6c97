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
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// cluster is a catalog that serves namespaced Deployments, and Namespaces and PersistentVolumes, which are in no namespace.
type cluster struct{ catalog }

func (*cluster) Served() *match.ServedTypes {
	return match.NewServedTypes([]match.ServedType{
		{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment", Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"},
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, Kind: "PersistentVolume"},
	})
}

func newRolloutValidator(existing findings.Namespaces) *policyvalidator.Validator {
	return &policyvalidator.Validator{
		Catalog: &cluster{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}, Namespaces: existing, OwnNamespace: "berth-system",
	}
}

func newStaged(stages ...placementv1.RolloutStage) *placementv1.PlacementPolicy {
	p := newPolicy(`package p
labels := {"a": "b"}`)
	p.Spec.Rollout = &placementv1.PolicyRollout{Stages: stages}
	return p
}

// labeled returns a stage with the match labels key=value.
func labeled(name string, pairs ...string) placementv1.RolloutStage {
	out := placementv1.RolloutStage{Name: name, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{}}}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		out.NamespaceSelector.MatchLabels[key] = value
	}
	return out
}

// expressed returns a stage with one match expression.
func expressed(name, key string, operator metav1.LabelSelectorOperator, values ...string) placementv1.RolloutStage {
	return placementv1.RolloutStage{Name: name, NamespaceSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}},
	}}
}

func percentage(name string, percent int32) placementv1.RolloutStage {
	return placementv1.RolloutStage{Name: name, Percent: percent}
}

// causes returns the errors of a refused policy as field and message.
func causes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) {
		t.Fatalf("error %v", err)
	}
	var out []string
	for _, cause := range status.ErrStatus.Details.Causes {
		out = append(out, cause.Field+": "+cause.Message)
	}
	return out
}

func TestRefuseStages(t *testing.T) {
	never := "the stage never gets a namespace: "
	tests := map[string]struct {
		stages []placementv1.RolloutStage
		want   []string
	}{
		"Sound": {stages: []placementv1.RolloutStage{labeled("canary", "canary=true"), labeled("dev", "env=dev"), percentage("ten", 10), percentage("half", 50), percentage("rest", 100)}},
		"Wider": {stages: []placementv1.RolloutStage{labeled("gold", "env=prod", "tier=gold"), labeled("prod", "env=prod"), expressed("some", "env", metav1.LabelSelectorOpExists), labeled("rest")}},
		"InvalidSelector": {
			stages: []placementv1.RolloutStage{percentage("ten", 10), expressed("b", "env", "Is", "dev")},
			want:   []string{`spec.rollout.stages[1].namespaceSelector: Invalid value: {"matchExpressions":[{"key":"env","operator":"Is","values":["dev"]}]}: "Is" is not a valid label selector operator`},
		},
		"LowerPercent": {
			stages: []placementv1.RolloutStage{percentage("half", 50), percentage("ten", 10), percentage("forty", 40), percentage("rest", 100)},
			want: []string{
				`spec.rollout.stages[1].percent: Invalid value: 10: ` + never + `stage "half" before it has 50 percent, which include these namespaces; use more than 50, or move this stage before "half"`,
				`spec.rollout.stages[2].percent: Invalid value: 40: ` + never + `stage "half" before it has 50 percent, which include these namespaces; use more than 50, or move this stage before "half"`,
			},
		},
		"SamePercent": {
			stages: []placementv1.RolloutStage{percentage("ten", 10), labeled("dev", "env=dev"), percentage("again", 10)},
			want:   []string{`spec.rollout.stages[2].percent: Invalid value: 10: ` + never + `stage "ten" before it has the same namespaces; use more than 10, or remove this stage`},
		},
		"SameSelector": {
			stages: []placementv1.RolloutStage{labeled("dev", "env=dev"), percentage("ten", 10), expressed("again", "env", metav1.LabelSelectorOpIn, "dev", "dev")},
			want:   []string{`spec.rollout.stages[2].namespaceSelector: Invalid value: "env in (dev,dev)": ` + never + `stage "dev" before it has the same selector; change one of them, or remove this stage`},
		},
		"Narrower": {
			stages: []placementv1.RolloutStage{labeled("prod", "env=prod"), labeled("gold", "env=prod", "tier=gold")},
			want:   []string{`spec.rollout.stages[1].namespaceSelector: Invalid value: "env=prod,tier=gold": ` + never + `stage "prod" before it selects all of these namespaces; move this stage before "prod", or change one of the selectors`},
		},
		"AfterAllPercent": {
			stages: []placementv1.RolloutStage{percentage("all", 100), labeled("dev", "env=dev"), percentage("ten", 10)},
			want: []string{
				`spec.rollout.stages[1]: Invalid value: "dev": ` + never + `stage "all" before it selects all namespaces; make "all" the last stage`,
				`spec.rollout.stages[2]: Invalid value: "ten": ` + never + `stage "all" before it selects all namespaces; make "all" the last stage`,
			},
		},
		"AfterEmptySelector": {
			stages: []placementv1.RolloutStage{labeled("dev", "env=dev"), labeled("all"), percentage("rest", 100)},
			want:   []string{`spec.rollout.stages[2]: Invalid value: "rest": ` + never + `stage "all" before it selects all namespaces; make "all" the last stage`},
		},
		"Contradiction": {
			stages: []placementv1.RolloutStage{{Name: "odd", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"dev"}}}}}},
			want:   []string{`spec.rollout.stages[0].namespaceSelector: Invalid value: "env=dev,env notin (dev)": ` + never + `no value of the label env meets all requirements on it; correct the selector, or remove the stage`},
		},
		"Protected": {
			stages: []placementv1.RolloutStage{labeled("system", "kubernetes.io/metadata.name=berth-system")},
			want:   []string{`spec.rollout.stages[0].namespaceSelector: Invalid value: "kubernetes.io/metadata.name=berth-system": ` + never + `it selects berth-system only, where nothing is ever matched: kube-system and Berth's own namespace are protected; correct the selector, or remove the stage`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, v := newStaged(tc.stages...), newRolloutValidator(nil)
			_, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, causes(t, err)); diff != "" {
				t.Errorf("create (-want +got):\n%s", diff)
			}
			// An update that adds the stages is refused alike, and one that does not change them is not refused.
			without := newPolicy(p.Spec.Rego)
			_, err = v.ValidateUpdate(t.Context(), without, p)
			if diff := cmp.Diff(tc.want, causes(t, err)); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
			changed := p.DeepCopy()
			changed.Spec.Priority++
			warnings, err := v.ValidateUpdate(t.Context(), p, changed)
			if err != nil {
				t.Errorf("an update of the priority is refused: %v", err)
			}
			var want []string
			for _, mistake := range tc.want {
				want = append(want, "the version before has this mistake, too: "+mistake)
			}
			if diff := cmp.Diff(want, []string(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusedStagesWithoutWarnings checks that a stage without namespaces is told only once if the policy is refused for it.
func TestRefusedStagesWithoutWarnings(t *testing.T) {
	v, p := newRolloutValidator(namespaces{"shop": {"env": "prod"}}), newStaged(labeled("all"), labeled("prod", "env=prod"))
	warnings, err := v.ValidateCreate(t.Context(), p)
	want := []string{`spec.rollout.stages[1]: Invalid value: "prod": the stage never gets a namespace: stage "all" before it selects all namespaces; make "all" the last stage`}
	if diff := cmp.Diff(want, causes(t, err)); diff != "" || len(warnings) > 0 {
		t.Errorf("warnings %q, errors (-want +got):\n%s", warnings, diff)
	}
}

func TestRefuseRevision(t *testing.T) {
	const path = "spec.rollout.revision: "
	tests := map[string]struct {
		// old and revision are the revisions before and after; -1 for no policy before.
		old, revision int64
		existing      []int64
		want          []string
	}{
		"Exists":           {0, 3, []int64{5, 3, 2}, nil},
		"Another":          {5, 3, []int64{5, 3, 2}, nil},
		"Removed":          {9, 0, nil, nil},
		"Unchanged":        {9, 9, []int64{5, 3, 2}, nil},
		"UnchangedAlone":   {9, 9, nil, nil},
		"Missing":          {0, 4, []int64{5, 3, 2}, []string{path + "Invalid value: 4: the policy does not have this revision; use one of status.rollout.revisions: 5, 3, 2"}},
		"MissingAfter":     {5, 4, []int64{5, 3, 2}, []string{path + "Invalid value: 4: the policy does not have this revision; use one of status.rollout.revisions: 5, 3, 2"}},
		"NoRevisions":      {0, 4, nil, []string{path + "Invalid value: 4: the policy has no revisions yet: status.rollout.revisions is empty; remove revision"}},
		"Created":          {-1, 1, nil, []string{path + "Invalid value: 1: a new policy has no revisions yet; remove revision"}},
		"CreatedRevision0": {-1, 0, nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v, p := newRolloutValidator(nil), newStaged(percentage("all", 100))
			p.Spec.Rollout.Revision = tc.revision
			var err error
			if tc.old < 0 {
				// The API server clears the status of a new object, but a client may send one.
				p.Status.Rollout = &placementv1.RolloutStatus{Revisions: []int64{1}}
				_, err = v.ValidateCreate(t.Context(), p)
			} else {
				old := newStaged(percentage("all", 100))
				old.Spec.Rollout.Revision = tc.old
				if tc.existing != nil {
					old.Status.Rollout = &placementv1.RolloutStatus{Revisions: tc.existing}
				}
				_, err = v.ValidateUpdate(t.Context(), old, p)
			}
			if diff := cmp.Diff(tc.want, causes(t, err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarnOfSuperseded checks that there is a warning for changes that take back what a rollout has reached.
func TestWarnOfSuperseded(t *testing.T) {
	const ends = "spec.rollout: the rollout of revision 5, which has reached 1 of 1 stages, ends, and another one starts from the first stage"
	tests := map[string]struct {
		status func(*placementv1.RolloutStatus)
		change func(*placementv1.PlacementPolicySpec)
		want   []string
	}{
		"Version": {change: func(s *placementv1.PlacementPolicySpec) { s.Priority++ },
			want: []string{ends + ", unless this change restores revision 3: until a stage is reached again, revision 3 decides in the stage's namespaces"}},
		"NoVersionBefore": {func(s *placementv1.RolloutStatus) { s.PreviousRevision = 0 }, func(s *placementv1.PlacementPolicySpec) { s.Priority++ },
			[]string{ends + ": until a stage is reached again, the policy matches nothing in the stage's namespaces"}},
		"Stages": {change: func(s *placementv1.PlacementPolicySpec) { s.Rollout.Stages[0].Name = "b" }, want: []string{ends + ", unless this change restores revision 3: until a stage is reached again, revision 3 decides in the stage's namespaces"}},
		"Soak": {change: func(s *placementv1.PlacementPolicySpec) {
			s.Rollout.Stages[0].Soak = &metav1.Duration{Duration: time.Hour}
		}},
		"Remediation": {change: func(s *placementv1.PlacementPolicySpec) { s.Remediation.Mode = placementv1.RemediationManual }},
		"NotReached":  {func(s *placementv1.RolloutStatus) { s.Reached = new(int32(0)) }, func(s *placementv1.PlacementPolicySpec) { s.Priority++ }, nil},
		"Complete":    {func(s *placementv1.RolloutStatus) { s.State = placementv1.RolloutComplete }, func(s *placementv1.PlacementPolicySpec) { s.Priority++ }, nil},
		"RollBack":    {change: func(s *placementv1.PlacementPolicySpec) { s.Rollout.Revision = 3 }},
		"NoStages":    {change: func(s *placementv1.PlacementPolicySpec) { s.Priority, s.Rollout = 1, nil }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			old := newStaged(percentage("half", 50))
			old.Status.Rollout = &placementv1.RolloutStatus{
				State: placementv1.RolloutSoaking, Revision: 5, PreviousRevision: 3, Reached: new(int32(1)), Revisions: []int64{5, 3},
				Digest: rollout.Digest(old.Spec), Stages: []placementv1.RolloutStageStatus{{Name: "half"}},
			}
			if tc.status != nil {
				tc.status(old.Status.Rollout)
			}
			p := old.DeepCopy()
			tc.change(&p.Spec)
			warnings, err := newRolloutValidator(nil).ValidateUpdate(t.Context(), old, p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, []string(warnings), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarnOfUnchecked checks that there is a warning for stages that follow each other at once.
func TestWarnOfUnchecked(t *testing.T) {
	soaked, approved := percentage("first", 10), percentage("second", 100)
	soaked.Soak, approved.Approval = &metav1.Duration{Duration: time.Minute}, true
	tests := map[string]struct {
		mode   placementv1.RemediationMode
		stages []placementv1.RolloutStage
		warns  bool
	}{
		"Off":       {placementv1.RemediationOff, []placementv1.RolloutStage{percentage("first", 10), percentage("second", 100)}, true},
		"NewOnly":   {placementv1.RemediationNewOnly, []placementv1.RolloutStage{percentage("first", 10), percentage("second", 100)}, true},
		"Manual":    {placementv1.RemediationManual, []placementv1.RolloutStage{percentage("first", 10), percentage("second", 100)}, false},
		"Soaked":    {placementv1.RemediationOff, []placementv1.RolloutStage{soaked, percentage("second", 100)}, false},
		"Approved":  {placementv1.RemediationOff, []placementv1.RolloutStage{percentage("first", 10), approved}, false},
		"OnlyStage": {placementv1.RemediationOff, []placementv1.RolloutStage{percentage("first", 100)}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newStaged(tc.stages...)
			p.Spec.Remediation.Mode = tc.mode
			warnings, err := newRolloutValidator(nil).ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			warned := slices.ContainsFunc(warnings, func(w string) bool {
				return strings.HasPrefix(w, `spec.rollout.stages[0]: nothing holds the rollout in stage "first": spec.remediation.mode is `+string(tc.mode))
			})
			if warned != tc.warns {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
}

// TestWarnOfRolledBackChange checks that there is a warning for changes of a version that is not in force.
func TestWarnOfRolledBackChange(t *testing.T) {
	want := []string{"spec.rollout.revision is 3: the version in the spec decides nothing until revision is removed"}
	tests := map[string]struct {
		old    int64
		change func(*placementv1.PlacementPolicySpec)
		want   []string
	}{
		"Version":        {3, func(s *placementv1.PlacementPolicySpec) { s.Priority++ }, want},
		"WithRevision":   {0, func(s *placementv1.PlacementPolicySpec) { s.Rego += "\n" }, want},
		"RevisionOnly":   {0, func(*placementv1.PlacementPolicySpec) {}, nil},
		"Default":        {3, func(s *placementv1.PlacementPolicySpec) { s.Mode = placementv1.ModeEnforce }, nil},
		"Remediation":    {3, func(s *placementv1.PlacementPolicySpec) { s.Remediation.Mode = placementv1.RemediationManual }, nil},
		"Stages":         {3, func(s *placementv1.PlacementPolicySpec) { s.Rollout.Stages[0].Approval = true }, nil},
		"RemovedRolling": {3, func(s *placementv1.PlacementPolicySpec) { s.Priority, s.Rollout.Revision = 1, 0 }, nil},
		"RemovedRollout": {3, func(s *placementv1.PlacementPolicySpec) { s.Priority, s.Rollout = 1, nil }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			old := newStaged(percentage("all", 100))
			old.Status.Rollout = &placementv1.RolloutStatus{Revisions: []int64{3}}
			old.Spec.Rollout.Revision = tc.old
			p := old.DeepCopy()
			p.Spec.Rollout.Revision = 3
			tc.change(&p.Spec)
			warnings, err := newRolloutValidator(nil).ValidateUpdate(t.Context(), old, p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnOfStages(t *testing.T) {
	existing := namespaces{
		"kube-system": {"env": "system"}, "berth-system": {"env": "system"},
		"shop-a": {"env": "prod", "canary": "true"}, "shop-b": {"env": "prod", "canary": "true"}, "shop-c": {"env": "prod", "canary": "true"}, "shop-d": {"env": "prod", "canary": "true"},
		"shop-e": {"env": "prod"}, "test": {"env": "dev"},
	}
	selected := func(p *placementv1.PlacementPolicy) {
		p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}
	}
	tests := map[string]struct {
		stages   []placementv1.RolloutStage
		change   func(*placementv1.PlacementPolicy)
		existing findings.Namespaces
		want     []string
	}{
		"Sound":     {stages: []placementv1.RolloutStage{labeled("dev", "env=dev"), labeled("canary", "canary=true"), percentage("rest", 100)}},
		"Wider":     {stages: []placementv1.RolloutStage{labeled("canary", "env=prod", "canary=true"), labeled("prod", "env=prod"), labeled("rest")}},
		"NoneExist": {stages: []placementv1.RolloutStage{labeled("stage", "env=staging"), percentage("rest", 100)}, want: []string{`spec.rollout.stages[0].namespaceSelector selects none of the namespaces that there are: stage "stage" has no namespace`}},
		"Protected": {stages: []placementv1.RolloutStage{labeled("system", "env=system"), percentage("rest", 100)}, want: []string{`spec.rollout.stages[0].namespaceSelector selects none of the namespaces that there are: stage "system" has no namespace`}},
		"NoneOfPercent": {
			stages: []placementv1.RolloutStage{percentage("one", 1), percentage("rest", 100)},
			want:   []string{`spec.rollout.stages[0].percent: 1 percent select none of the namespaces that there are: stage "one" has no namespace`},
		},
		"NoneMatched": {
			stages: []placementv1.RolloutStage{labeled("canary", "canary=true"), percentage("rest", 100)}, change: selected,
			want: []string{`spec.rollout.stages[0].namespaceSelector selects no namespace that spec.match.namespaceSelector selects, too: stage "canary" has no namespace`},
		},
		"NothingMatched": {
			stages: []placementv1.RolloutStage{labeled("canary", "canary=true"), percentage("rest", 100)},
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "staging"}}
			},
			want: []string{`spec.match.namespaceSelector selects none of the namespaces that there are: no namespace has the value "staging" of label env now, so that this selects no namespace; there are "dev", "prod", "system"`},
		},
		"Earlier": {
			stages: []placementv1.RolloutStage{labeled("prod", "env=prod"), labeled("canary", "canary=true"), percentage("rest", 100)},
			want:   []string{`spec.rollout.stages[1].namespaceSelector selects only namespaces that belong to earlier stages, so that stage "canary" has no namespace: shop-a of stage "prod", shop-b of stage "prod", shop-c of stage "prod", and 1 more`},
		},
		"EarlierPercent": {
			stages: []placementv1.RolloutStage{labeled("test", "env=dev"), percentage("most", 99)}, change: selected,
			want: []string{`spec.rollout.stages[1].percent: 99 percent select only namespaces that belong to earlier stages, so that stage "most" has no namespace: test of stage "test"`},
		},
		"NoRest": {stages: []placementv1.RolloutStage{labeled("test", "env=dev"), percentage("rest", 100)}, change: selected},
		"Absent": {
			stages: []placementv1.RolloutStage{expressed("test", "env", metav1.LabelSelectorOpIn, "dev", "tset"), percentage("rest", 100)},
			want:   []string{`spec.rollout.stages[0].namespaceSelector.matchExpressions[0]: no namespace has the value "tset" of label env now; there are "dev", "prod", "system"`},
		},
		"Shared": {
			stages: []placementv1.RolloutStage{labeled("canary", "canary=true"), labeled("prod", "env=prod"), percentage("rest", 100)},
			want:   []string{`spec.rollout.stages[1].namespaceSelector also selects shop-a of stage "canary", shop-b of stage "canary", shop-c of stage "canary", and 1 more: a namespace belongs to the first stage that selects it`},
		},
		"SharedByThree": {
			stages: []placementv1.RolloutStage{
				expressed("b", "kubernetes.io/metadata.name", metav1.LabelSelectorOpIn, "shop-b"), expressed("a", "kubernetes.io/metadata.name", metav1.LabelSelectorOpIn, "shop-a"),
				expressed("prod", "kubernetes.io/metadata.name", metav1.LabelSelectorOpNotIn, "shop-b"),
			},
			existing: namespaces{"shop-a": {"kubernetes.io/metadata.name": "shop-a"}, "shop-b": {"kubernetes.io/metadata.name": "shop-b"}, "shop-c": {"kubernetes.io/metadata.name": "shop-c"}},
		},
		"ClusterScoped": {
			stages: []placementv1.RolloutStage{percentage("all", 100)},
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0] = placementv1.ResourceRule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"}}
			},
			want: []string{"spec.rollout.stages: no object that the policy matches belongs to a stage: the types that it matches are cluster-scoped. All of their objects get a new version after the last stage"},
		},
		"Namespaces": {
			stages: []placementv1.RolloutStage{percentage("all", 100)},
			change: func(p *placementv1.PlacementPolicy) {
				p.Spec.Match.ResourceRules[0] = placementv1.ResourceRule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}}
			},
		},
		"NotListed": {
			stages: []placementv1.RolloutStage{percentage("all", 100)}, existing: namespaces(nil),
			want: []string{"spec.rollout.stages: cannot check that the stages select namespaces: not synced"},
		},
		"NoStages": {existing: namespaces(nil)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newStaged(tc.stages...)
			if tc.change != nil {
				tc.change(p)
			}
			if tc.existing == nil {
				tc.existing = existing
			}
			warnings, err := newRolloutValidator(tc.existing).ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWarnOfStagesIsBounded checks that stages are not compared with more namespaces than the client can wait for.
func TestWarnOfStagesIsBounded(t *testing.T) {
	many := namespaces{}
	for i := range 20_000 {
		many[fmt.Sprintf("team-%d", i)] = nil
	}
	p := newStaged(labeled("none", "env=dev"), percentage("rest", 100))
	validate := func() []string {
		warnings, err := newRolloutValidator(many).ValidateCreate(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return warnings
	}
	if got := validate(); len(got) != 1 {
		t.Errorf("warnings %q for %d namespaces", got, len(many))
	}
	many["one-more"] = nil
	if got := validate(); len(got) != 0 {
		t.Errorf("warnings %q for %d namespaces", got, len(many))
	}
}
