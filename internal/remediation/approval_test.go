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
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// approvable is the verdict of a policy with mode Approved.
func (p planned) approvable() *placement.Verdict {
	v := p.verdict()
	v.Policy.Mode, v.Policy.Remediation = placementv1.ModeEnforce, placementv1.RemediationApproved
	return v
}

// TestApprovalsOfHistories checks for random histories that every patch that the ledger permits is a move of the approved
// plan, that nothing is permitted while something else has to be done, and that otherwise all that is left is permitted.
func TestApprovalsOfHistories(t *testing.T) {
	permitted, refused := 0, 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 22))
		l, now := remediation.NewLedger(), time.Time{}
		stands, plans := map[remediation.Key]planned{}, map[string]map[remediation.Key]planned{}
		var digests []string
		value := func() string { return fmt.Sprint(random.IntN(3)) }
		due := func() map[remediation.Key]planned {
			out := maps.Clone(stands)
			maps.DeleteFunc(out, func(_ remediation.Key, p planned) bool { return p.from == p.to })
			return out
		}
		approved := ""
		learn := func() {
			l.ConcludeAssessments(now)
			plan := l.Report("p").Plan
			if plan == nil || plans[plan.Digest] != nil {
				return
			}
			plans[plan.Digest], digests = due(), append(digests, plan.Digest)
		}
		record := func(p planned) {
			l.Record(p.key, p.uid, "1", []*placement.Verdict{p.approvable()}, false)
			stands[p.key] = p
		}
		for step := range 80 {
			k := key("deployments", "shop", fmt.Sprint(random.IntN(5)))
			now = now.Add(time.Second)
			switch random.IntN(6) {
			case 0:
				l.Forget(k)
				delete(stands, k)
			case 1:
				record(planned{k, types.UID(value()), value(), value()})
			case 2:
				a := l.Assess(now, remediation.Cause{}, "p")
				for known := range stands {
					a.Add(known)
				}
				a.Complete()
				for _, p := range maps.Clone(stands) {
					if random.IntN(6) == 0 {
						p.to = value()
					}
					record(p)
				}
			case 3:
				if len(digests) > 0 {
					approved = digests[random.IntN(len(digests))]
					l.Approve("p", &remediation.Approval{Digest: approved})
				}
			case 4:
				// The leader patches what it may.
				for known, p := range due() {
					if len(l.Permit(known, p.uid, remediation.Due{p.approvable()})) == 1 && random.IntN(2) == 0 {
						p.from = p.to
						record(p)
					}
				}
			case 5:
				if random.IntN(4) == 0 {
					approved = ""
					l.Approve("p", nil)
				}
			}
			learn()
			left := due()
			covered := approved != "" && l.Report("p").Plan.Digest == approved
			for known, p := range left {
				covered = covered && plans[approved][known] == p
			}
			for known, p := range left {
				got := len(l.Permit(known, p.uid, remediation.Due{p.approvable()})) == 1
				if got != covered {
					t.Fatalf("seed %d, step %d: %v permitted: %t, want %t", seed, step, p, got, covered)
				}
				if got {
					permitted++
				} else {
					refused++
				}
				other := p
				other.to += "x"
				if len(l.Permit(known, p.uid, remediation.Due{other.approvable()})) != 0 || len(l.Permit(known, p.uid+"x", remediation.Due{p.approvable()})) != 0 {
					t.Fatalf("seed %d, step %d: another move than %v is permitted", seed, step, p)
				}
			}
			if got := l.Report("p").Plan; (got != nil && got.Approval != nil) != covered && len(left) > 0 {
				t.Fatalf("seed %d, step %d: plan %+v, covered %t", seed, step, got, covered)
			}
		}
	}
	if permitted < 1000 || refused < 1000 {
		t.Errorf("%d moves permitted, %d refused", permitted, refused)
	}
}

// TestApprove checks which objects an approval has decided again, and which approvals are known.
func TestApprove(t *testing.T) {
	l := remediation.NewLedger()
	web, other := planned{key("deployments", "shop", "web"), "1", "eu", "us"}, planned{key("deployments", "shop", "other"), "1", "eu", "us"}
	found := func(moves ...planned) (string, []remediation.Key) {
		a := l.Assess(time.Time{}, remediation.Cause{}, "p")
		for _, m := range moves {
			a.Add(m.key)
		}
		a.Complete()
		for _, m := range moves {
			l.Record(m.key, m.uid, "1", []*placement.Verdict{m.approvable()}, false)
		}
		result := l.ConcludeAssessments(time.Time{})
		return l.Report("p").Plan.Digest, result.Released
	}
	known := func() bool { return l.Report("p").Approval.Known }
	if got := l.Approve("p", &remediation.Approval{Digest: "early"}); got != nil || known() {
		t.Errorf("an approval of no plan: %v, known %t", got, known())
	}
	digest, _ := found(web)
	if got := l.Approve("p", &remediation.Approval{Digest: digest, By: "me"}); !cmp.Equal(got, []remediation.Key{web.key}) || !known() {
		t.Errorf("the plan's approval: %v, known %t", got, known())
	}
	if got := l.Approve("p", &remediation.Approval{Digest: digest}); got != nil || !known() || l.Report("p").Plan.Approval.By != "me" {
		t.Errorf("the same approval again: %v, known %t", got, known())
	}
	second, released := found(web, other)
	if released != nil || !known() || l.Report("p").Plan.Approval != nil {
		t.Errorf("another plan: released %v, known %t", released, known())
	}
	other.to = other.from
	if l.Approve("p", &remediation.Approval{Digest: second}); !known() {
		t.Error("the second plan's approval is not known")
	}
	// What is left of an approved plan is approved.
	if found(web, other); l.Report("p").Plan.Digest != second || l.Report("p").Plan.Approval == nil {
		t.Errorf("the rest of an approved plan: %+v", l.Report("p").Plan)
	}
	if got := l.Approve("p", nil); got != nil || l.Report("p").Approval != nil || l.Report("p").Plan.Approval != nil {
		t.Errorf("an approval that is withdrawn: %v, %+v", got, l.Report("p").Plan)
	}
	// A plan may be made that is approved already, for example after a change of leaders.
	l = remediation.NewLedger()
	l.Approve("p", &remediation.Approval{Digest: digest})
	if _, released := found(web); !cmp.Equal(released, []remediation.Key{web.key}) || !known() {
		t.Errorf("a plan that is approved when it is made: released %v, known %t", released, known())
	}
}

// TestFieldManager checks that the webhook permits the moves for which the leader patches, and no others.
func TestFieldManager(t *testing.T) {
	k := key("deployments", "shop", "web")
	by := func(policy, to string, mode placementv1.RemediationMode) *placement.Verdict {
		v := planned{k, "1", "eu", to}.approvable()
		v.Policy.Name, v.Policy.Remediation = policy, mode
		return v
	}
	one, two, automatic := by("p", "us", placementv1.RemediationApproved), by("q", "asia", placementv1.RemediationApproved), by("r", "us", placementv1.RemediationAutomatic)
	if got := remediation.FieldManagerFor(k, "1", remediation.Due{automatic}); got != remediation.FieldManager {
		t.Errorf("field manager %q", got)
	}
	manager := remediation.FieldManagerFor(k, "1", remediation.Due{one, automatic})
	ok, permits := remediation.ParseFieldManager(manager, k, "1")
	if !ok || permits == nil || !permits(one) || permits(two) {
		t.Errorf("%s: %t", manager, ok)
	}
	failed := *one
	failed.Err = fmt.Errorf("no data")
	if permits(&failed) {
		t.Error("a verdict that failed is permitted")
	}
	if _, permits := remediation.ParseFieldManager(manager, k, "2"); permits(one) {
		t.Error("the move of another object is permitted")
	}
	for name, want := range map[string]bool{remediation.FieldManager: true, manager: true, "kubectl": false, "": false, remediation.FieldManager + "x": false} {
		if got := remediation.IsFieldManager(name); got != want {
			t.Errorf("%q is remediation's: %t", name, got)
		}
		if _, permits := remediation.ParseFieldManager(name, k, "1"); (permits != nil) != (name == manager) {
			t.Errorf("%q: permits %t", name, permits != nil)
		}
	}
	// The API server takes at most 128 characters.
	l, due := remediation.NewLedger(), remediation.Due{}
	for i := range 9 {
		due = append(due, by(fmt.Sprint("p", i), fmt.Sprint(i), placementv1.RemediationApproved))
	}
	a := l.Assess(time.Time{}, remediation.Cause{}, remediation.Names(due)...)
	a.Add(k)
	a.Complete()
	l.Record(k, "1", "1", due, false)
	l.ConcludeAssessments(time.Time{})
	for _, v := range due {
		l.Approve(v.Policy.Name, &remediation.Approval{Digest: l.Report(v.Policy.Name).Plan.Digest})
	}
	some := l.Permit(k, "1", due)
	if got := remediation.FieldManagerFor(k, "1", some); len(some) != 6 || len(got) > 128 {
		t.Errorf("%d policies in a field manager of %d characters", len(some), len(got))
	}
}
