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

package remediation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

const profileType = "clusterprofiles.multicluster.x-k8s.io"

// relabelled is the cause of the moves in README.
var relabelled = remediation.Cause{Data: sets.New(profileType), Facts: []remediation.Fact{
	{Resource: profileType, Namespace: "inventory", Text: `ClusterProfile inventory/eu-2: label pci-level "3" → "1"`, Cluster: true},
}}

// movedBy returns the verdict of a generation of policy p that requires a value, or nothing.
func movedBy(generation int64, value string) *placement.Verdict {
	v := verdict("p")
	v.Policy.Mode, v.Policy.Remediation, v.Policy.Generation = placementv1.ModeEnforce, placementv1.RemediationAutomatic, generation
	if value != "" {
		v.Changes = []placement.Change{{Field: "annotations", Key: "k", From: new("eu"), To: &value}}
	}
	return v
}

// chronicle is a ledger with the steps of a test.
type chronicle struct {
	*remediation.Ledger
	now time.Time
}

func newChronicle() *chronicle {
	return &chronicle{remediation.NewLedger(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// assess assesses a change in which a generation decides that objects get values.
func (h *chronicle) assess(cause remediation.Cause, generation int64, values map[string]string) {
	h.now = h.now.Add(time.Minute)
	a := h.Assess(h.now, cause, "p")
	for name := range values {
		a.Add(key("deployments", "shop", name))
	}
	a.Complete()
	h.record(generation, values)
	h.ConcludeAssessments(h.now)
}

func (h *chronicle) record(generation int64, values map[string]string) {
	for name, value := range values {
		h.Record(key("deployments", "shop", name), "u", "1", []*placement.Verdict{movedBy(generation, value)}, false)
	}
}

// TestPlansNameTheirCauses checks that a plan has the causes of the moves that make it necessary, and no others.
func TestPlansNameTheirCauses(t *testing.T) {
	came, fact := remediation.Cause{Policy: true}, relabelled.Facts[0].Text
	const first, second, objects = "generation 1 of the policy came into force", "generation 2 of the policy came into force", "objects or namespaces changed"
	for name, tc := range map[string]struct {
		steps   func(*chronicle)
		explain string
		causes  []string
	}{
		// The policy comes into force before there is an object, as in README.
		"ObjectAfterPolicy": {func(h *chronicle) {
			h.assess(came, 1, nil)
			h.record(1, map[string]string{"web": ""})
			h.assess(relabelled, 1, map[string]string{"web": "us"})
		}, profileType + " changed", []string{fact}},
		// A single object that is listed is not assessed.
		"OneObjectBeforePolicy": {func(h *chronicle) {
			h.assess(came, 1, nil)
			h.record(1, map[string]string{"web": "us"})
			h.record(1, map[string]string{"web": ""})
			h.assess(relabelled, 1, map[string]string{"web": "us"})
		}, profileType + " changed", []string{fact}},
		"ListedAfterPolicy": {func(h *chronicle) {
			h.assess(came, 1, nil)
			h.assess(remediation.Cause{}, 1, map[string]string{"web": "us", "db": "us"})
		}, first, []string{first}},
		"PolicyWithObjects": {func(h *chronicle) { h.assess(came, 1, map[string]string{"web": "us", "db": ""}) }, first, []string{first}},
		"NextGeneration": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": "", "db": ""})
			h.assess(came, 2, map[string]string{"web": "us", "db": "us"})
		}, second, []string{second}},
		"AnotherChangeLater": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": "us", "db": ""})
			h.record(1, map[string]string{"web": ""})
			h.assess(relabelled, 1, map[string]string{"web": "us", "db": ""})
		}, profileType + " changed", []string{fact}},
		"WithoutEffect": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": ""})
			h.assess(relabelled, 1, map[string]string{"web": ""})
			h.assess(remediation.Cause{}, 1, map[string]string{"web": "us", "db": "us"})
		}, objects, []string{objects}},
		"Blamed": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": ""})
			h.Blame(h.now, relabelled, []string{"p"}, key("deployments", "shop", "web"))
			h.record(1, map[string]string{"web": "us"})
			h.assess(remediation.Cause{}, 1, map[string]string{"web": "us"})
		}, profileType + " changed", []string{fact}},
		"BlamedForAnother": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": ""})
			h.Blame(h.now, relabelled, []string{"q"}, key("deployments", "shop", "web"))
			h.record(1, map[string]string{"web": "us"})
			h.assess(remediation.Cause{}, 1, map[string]string{"web": "us"})
		}, objects, []string{objects}},
		// The assessment ends before the object is decided.
		"Late": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": "", "db": ""})
			a := h.Assess(h.now, relabelled, "p")
			a.Add(key("deployments", "shop", "web"))
			a.Complete()
			h.now = h.now.Add(remediation.AssessmentLimit)
			h.ConcludeAssessments(h.now)
			h.record(1, map[string]string{"web": "us"})
			h.assess(remediation.Cause{}, 1, map[string]string{"web": "us"})
		}, profileType + " changed", []string{fact}},
		"LateForManyPolicies": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": "", "db": ""})
			var policies []string
			for i := range 40 {
				policies = append(policies, fmt.Sprint("other-", i))
			}
			begin := func(policies ...string) {
				a := h.Assess(h.now, relabelled, policies...)
				a.Add(key("deployments", "shop", "web"))
				a.Complete()
			}
			// Some changes concern many policies, and some begin an assessment for each.
			begin(policies...)
			for _, policy := range append(policies, "p") {
				begin(policy)
			}
			h.now = h.now.Add(remediation.AssessmentLimit)
			h.ConcludeAssessments(h.now)
			h.record(1, map[string]string{"web": "us"})
			h.assess(remediation.Cause{}, 1, map[string]string{"web": "us"})
		}, profileType + " changed", []string{fact}},
		"Several": {func(h *chronicle) {
			h.assess(came, 1, map[string]string{"web": "", "db": "", "old": ""})
			h.record(1, map[string]string{"old": "us"})
			h.assess(relabelled, 1, map[string]string{"web": "us", "db": "us"})
		}, profileType + " changed", []string{fact, objects}},
		"TooMany": {func(h *chronicle) {
			many := remediation.Cause{Data: sets.New(profileType)}
			for i := range 9 {
				many.Facts = append(many.Facts, remediation.Fact{Resource: profileType, Text: fmt.Sprintf("fact %d", i)})
			}
			h.assess(many, 1, map[string]string{"web": "us"})
		}, profileType + " changed", []string{"fact 0", "fact 1", "fact 2", "fact 3", "and other changes"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newChronicle()
			tc.steps(h)
			plan := h.Report("p").Plan
			if plan == nil {
				t.Fatal("no plan")
			}
			if got := plan.Cause.Explain(plan.Generation); got != tc.explain {
				t.Errorf("cause %q, want %q", got, tc.explain)
			}
			if diff := cmp.Diff(tc.causes, plan.Causes); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReasons checks what is told of the move of one object, and what readers of the object may see of it.
func TestReasons(t *testing.T) {
	h := newChronicle()
	h.assess(remediation.Cause{Policy: true}, 1, map[string]string{"web": ""})
	secret := remediation.Fact{Resource: "secrets", Namespace: "other", Text: "Secret other/key: data.tier changed"}
	own := remediation.Fact{Resource: "configmaps", Namespace: "shop", Text: "ConfigMap shop/settings: data.tier changed"}
	cause := remediation.Cause{Data: sets.New(profileType, "secrets", "configmaps"), Facts: slices.Concat(relabelled.Facts, []remediation.Fact{secret, own})}
	h.assess(cause, 1, map[string]string{"web": "us"})
	web := key("deployments", "shop", "web")
	got := h.Reasons(web, remediation.Due{movedBy(1, "us")})
	want := remediation.Reasons{
		Causes: []string{relabelled.Facts[0].Text, secret.Text, own.Text}, Shown: []string{relabelled.Facts[0].Text, own.Text, "secrets changed"},
		Since: h.now, Plans: []string{h.Report("p").Plan.Digest},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}

	// The next version of the policy moves the object elsewhere, with an approval.
	v := movedBy(2, "asia")
	v.Policy.Remediation = placementv1.RemediationApproved
	h.now = h.now.Add(time.Minute)
	a := h.Assess(h.now, remediation.Cause{Policy: true}, "p")
	a.Add(web)
	a.Complete()
	h.Record(web, "u", "1", []*placement.Verdict{v}, false)
	h.ConcludeAssessments(h.now)
	h.Approve("p", &remediation.Approval{Digest: h.Report("p").Plan.Digest, By: "alice"})
	got = h.Reasons(web, remediation.Due{v})
	why := []string{`generation 2 of PlacementPolicy "p" came into force`}
	want = remediation.Reasons{Causes: why, Shown: why, Since: h.now, Plans: []string{h.Report("p").Plan.Digest}, ApprovedBy: []string{"alice"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	unknown := h.Reasons(key("deployments", "shop", "none"), remediation.Due{movedBy(1, "us")})
	if diff := cmp.Diff([]string{"the object or its namespace changed"}, unknown.Causes); diff != "" || !unknown.Since.IsZero() {
		t.Errorf("reasons %+v", unknown)
	}
}
