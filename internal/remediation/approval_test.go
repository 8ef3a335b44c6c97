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
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

// approvable is the verdict of a policy with mode Approved.
func (p planned) approvable() *placement.Verdict {
	v := p.verdict()
	v.Policy.Mode, v.Policy.Remediation = placementv1.ModeEnforce, placementv1.RemediationApproved
	return v
}

// TestApprovalsOfHistories checks for random histories, in which leaders change, that every patch that the ledger permits is a
// move of the approved plan, that nothing is permitted while something else has to be done or the plan is not stored, and that
// otherwise all that is left is permitted.
func TestApprovalsOfHistories(t *testing.T) {
	permitted, refused, continued, histories := 0, 0, 0, budget.Rounds(100)
	for seed := range uint64(histories) {
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
		// approved is the approval that is not used up. An annotation that stays the same does not renew it.
		approved, annotation := "", ""
		// still are the moves of the present plan that are required as they were since it was made.
		var still map[remediation.Key]planned
		var made time.Time
		// stored is the stored plan.
		digest, stored := "", []byte(nil)
		// reported is the digest of the approved plan that the status reports as completed. kept reports whether the plan was stored
		// when the last approval was used.
		reported, kept := "", false
		learn := func() {
			l.ConcludeAssessments(now)
			if random.IntN(4) == 0 && l.Unsave("p", reported) {
				digest, stored = "", nil
			}
			if a := l.Report("p").Approval; a != nil && a.Used && random.IntN(2) == 0 {
				reported = a.Digest
			}
			if plan := l.Unsaved("p"); plan != nil && random.IntN(2) == 0 {
				digest, stored = plan.Digest, plan.Encode()
				l.Saved("p", digest)
			}
			plan := l.Report("p").Plan
			if plan != nil && !plan.Since.Equal(made) {
				still, made = due(), plan.Since
			}
			if plan == nil || plans[plan.Digest] != nil {
				return
			}
			plans[plan.Digest], digests = due(), append(digests, plan.Digest)
		}
		// covers reports whether all that has to be done is part of the approved plan, and that is the present one.
		covers := func() bool {
			plan := l.Report("p").Plan
			covered := approved != "" && plan != nil && plan.Digest == approved
			for known, p := range due() {
				covered = covered && plans[approved][known] == p && still[known] == p
			}
			return covered
		}
		// An approval is used up when nothing is left to do.
		change := func(do func()) {
			before := covers() && len(due()) > 0
			if do(); before && len(due()) == 0 {
				kept, approved = digest == approved, ""
			}
		}
		record := func(p planned) {
			change(func() {
				l.Record(p.key, p.uid, "1", []*placement.Verdict{p.approvable()}, false)
				stands[p.key] = p
				if still[p.key] != p {
					delete(still, p.key)
				}
			})
		}
		for step := range 80 {
			k := key("deployments", "shop", fmt.Sprint(random.IntN(5)))
			now = now.Add(time.Second)
			rest := false
			switch random.IntN(7) {
			case 0:
				change(func() {
					l.Forget(k)
					delete(stands, k)
					delete(still, k)
				})
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
					digest := digests[random.IntN(len(digests))]
					l.Approve("p", &remediation.Approval{Digest: digest})
					if digest != annotation {
						approved, annotation, reported = digest, digest, ""
					}
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
					approved, annotation, reported = "", "", ""
					l.Approve("p", nil)
				}
			case 6:
				// Another leader takes over. If the last move was not reported, it takes the approval for unused.
				used := annotation != "" && annotation == reported
				if approved == "" && annotation != "" && !used {
					if kept && digest != annotation {
						t.Fatalf("seed %d, step %d: plan %s is not stored although its completion is not reported", seed, step, annotation)
					}
					if !kept || len(due()) > 0 {
						// The owners of the objects made the moves before the plan was stored. Or an object was moved back in the moment before
						// the report, so that its move counts as not made yet.
						break
					}
				}
				l = remediation.NewLedger()
				if annotation != "" && !used && digest == annotation {
					plan, err := moveset.DecodeSet(digest, stored)
					if err != nil {
						t.Fatal(err)
					}
					l.Continue("p", plan)
					continued++
				} else {
					digest, stored = "", nil
				}
				approve := func() {
					if annotation != "" {
						l.Approve("p", &remediation.Approval{Digest: annotation, Used: used})
					}
				}
				early := random.IntN(2) == 0
				if early {
					approve()
				}
				for _, p := range maps.Clone(stands) {
					record(p)
					l.ConcludeAssessments(now)
					if len(l.Permit(p.key, p.uid, remediation.Due{p.approvable()})) != 0 && digest != "" {
						t.Fatalf("seed %d, step %d: a move is permitted before all objects are decided", seed, step)
					}
				}
				now = now.Add(remediation.PlanInterval)
				if !l.Settle("p", true, false) {
					t.Fatalf("seed %d, step %d: the plan does not proceed", seed, step)
				}
				if !early {
					approve()
				}
				rest = approved != "" && digest == approved
				for known, p := range due() {
					rest = rest && plans[approved][known] == p
				}
			}
			learn()
			left := due()
			covered := covers()
			if rest && len(left) > 0 && !covered {
				t.Fatalf("seed %d, step %d: the rest %v of plan %s is not approved", seed, step, left, approved)
			}
			for known, p := range left {
				got := len(l.Permit(known, p.uid, remediation.Due{p.approvable()})) == 1
				if want := covered && digest == approved; got != want {
					t.Fatalf("seed %d, step %d: %v permitted: %t, want %t", seed, step, p, got, want)
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
	if permitted < 2*histories || refused < 2*histories || continued < histories/5 {
		t.Errorf("%d moves permitted, %d refused, %d plans continued", permitted, refused, continued)
	}
}

// TestPlanOfEarlierLeader checks that the approval of a plan that an earlier leader was carrying out remains for objects that can't
// be decided when another one takes over, and that the plan goes on while data keep changing.
func TestPlanOfEarlierLeader(t *testing.T) {
	web, db := planned{key("deployments", "shop", "web"), "1", "eu", "us"}, planned{key("deployments", "shop", "db"), "1", "eu", "us"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := remediation.NewLedger()
	for _, p := range []planned{web, db} {
		l.Record(p.key, p.uid, "1", []*placement.Verdict{p.approvable()}, false)
	}
	l.ConcludeAssessments(now)
	approval := remediation.Approval{Digest: l.Report("p").Plan.Digest}
	l.Approve("p", &approval)
	stored := l.Unsaved("p")
	failing := web.approvable()
	failing.Err = errors.New("no such data")
	for name, complete := range map[string]bool{"all are decided": true, "some are not": false} {
		t.Run(name, func(t *testing.T) {
			l := remediation.NewLedger()
			l.Approve("p", &approval)
			l.Continue("p", stored)
			done := db
			done.from = done.to
			l.Record(db.key, "1", "2", []*placement.Verdict{done.approvable()}, false)
			l.Record(web.key, "1", "1", []*placement.Verdict{failing}, false)
			if l.Settle("p", complete, !complete) != complete {
				t.Fatal("the plan does not proceed, or is not settled again")
			}
			l.ConcludeAssessments(now)
			if l.Unsave("p", "") || l.Report("p").Approval.Used {
				t.Error("the approval is used although an object is not decided")
			}
			l.Record(web.key, "1", "1", []*placement.Verdict{web.approvable()}, false)
			l.ConcludeAssessments(now.Add(time.Minute))
			if len(l.Permit(web.key, "1", []*placement.Verdict{web.approvable()})) != 1 {
				t.Error("the rest of the plan is not permitted")
			}
			moved := web
			moved.from = moved.to
			l.Record(web.key, "1", "2", []*placement.Verdict{moved.approvable()}, false)
			if got := l.Report("p").Approval.Used; got != complete {
				t.Errorf("the approval is used: %t", got)
			}
		})
	}
	l = remediation.NewLedger()
	l.Approve("p", &approval)
	l.Continue("p", stored)
	l.Record(web.key, "1", "1", []*placement.Verdict{web.approvable()}, false)
	for range 60 {
		now = now.Add(time.Second)
		l.Assess(now, remediation.Cause{}, "p").Add(web.key)
	}
	if !l.Settle("p", true, false) {
		t.Error("the plan waits for assessments that follow one another")
	}
}

// approve approves a plan, and stores it if that is to be done.
func approve(l *remediation.Ledger, policy string, approval *remediation.Approval) []remediation.Key {
	out := l.Approve(policy, approval)
	if plan := l.Unsaved(policy); plan != nil {
		out = append(out, l.Saved(policy, plan.Digest)...)
	}
	return out
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
	if got := approve(l, "p", &remediation.Approval{Digest: "early"}); got != nil || known() {
		t.Errorf("an approval of no plan: %v, known %t", got, known())
	}
	digest, _ := found(web)
	if got := approve(l, "p", &remediation.Approval{Digest: digest, By: "me"}); !cmp.Equal(got, []remediation.Key{web.key}) || !known() {
		t.Errorf("the plan's approval: %v, known %t", got, known())
	}
	if got := approve(l, "p", &remediation.Approval{Digest: digest}); got != nil || !known() || l.Report("p").Plan.Approval.By != "me" {
		t.Errorf("the same approval again: %v, known %t", got, known())
	}
	second, released := found(web, other)
	if len(released) != 2 || !known() || l.Report("p").Plan.Approval != nil {
		t.Errorf("another plan: released %v, known %t", released, known())
	}
	other.to = other.from
	if approve(l, "p", &remediation.Approval{Digest: second}); !known() {
		t.Error("the second plan's approval is not known")
	}
	// What is left of an approved plan is approved.
	if found(web, other); l.Report("p").Plan.Digest != second || l.Report("p").Plan.Approval == nil {
		t.Errorf("the rest of an approved plan: %+v", l.Report("p").Plan)
	}
	if got := approve(l, "p", nil); !cmp.Equal(got, []remediation.Key{web.key}) || l.Report("p").Approval != nil || l.Report("p").Plan.Approval != nil {
		t.Errorf("an approval that is withdrawn: %v, %+v", got, l.Report("p").Plan)
	}
	// A plan may be made that is approved already, for example after a change of leaders.
	l = remediation.NewLedger()
	approve(l, "p", &remediation.Approval{Digest: digest})
	a := l.Assess(time.Time{}, remediation.Cause{}, "p")
	a.Add(web.key)
	a.Complete()
	l.Record(web.key, web.uid, "1", []*placement.Verdict{web.approvable()}, false)
	if len(l.Permit(web.key, web.uid, []*placement.Verdict{web.approvable()})) != 0 {
		t.Error("a patch is permitted before the plan is made")
	}
	if result := l.ConcludeAssessments(time.Time{}); !cmp.Equal(result.Unsaved, []string{"p"}) || result.Released != nil || !known() {
		t.Errorf("a plan that is approved when it is made: %+v, known %t", result, known())
	}
	if len(l.Permit(web.key, web.uid, []*placement.Verdict{web.approvable()})) != 0 {
		t.Error("a patch is permitted before the plan is stored")
	}
	if released := l.Saved("p", l.Unsaved("p").Digest); !cmp.Equal(released, []remediation.Key{web.key}) || l.Unsaved("p") != nil {
		t.Errorf("a plan that is stored: released %v", released)
	}
	if _, released := found(web); released != nil {
		t.Errorf("an assessment that changes nothing: released %v", released)
	}
}

// TestRestOfAPlanIsReleased checks that the objects of an approved plan are decided again when what kept them from being moved
// is gone: an object that is not part of the plan, and that is deleted or needs no move any more.
func TestRestOfAPlanIsReleased(t *testing.T) {
	web, stray := planned{key("deployments", "shop", "web"), "1", "eu", "us"}, planned{key("deployments", "shop", "stray"), "1", "eu", "us"}
	for name, leave := range map[string]func(*remediation.Ledger){
		"Deleted": func(l *remediation.Ledger) { l.Forget(stray.key) },
		"Moved": func(l *remediation.Ledger) {
			l.Record(stray.key, "1", "2", []*placement.Verdict{planned{stray.key, "1", "us", "us"}.approvable()}, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := remediation.NewLedger()
			l.Record(web.key, "1", "1", []*placement.Verdict{web.approvable()}, false)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			l.ConcludeAssessments(now)
			approve(l, "p", &remediation.Approval{Digest: l.Report("p").Plan.Digest})
			l.Record(stray.key, "1", "1", []*placement.Verdict{stray.approvable()}, false)
			if len(l.Permit(web.key, "1", []*placement.Verdict{web.approvable()})) != 0 {
				t.Error("a move is permitted while another object has to be moved")
			}
			l.ConcludeAssessments(now)
			leave(l)
			if got := l.ConcludeAssessments(now).Released; !cmp.Equal(got, []remediation.Key{web.key}) {
				t.Errorf("released %v", got)
			}
			if len(l.Permit(web.key, "1", []*placement.Verdict{web.approvable()})) != 1 {
				t.Error("the rest of the plan is not permitted")
			}
		})
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
	failed, denied := *one, *one
	failed.Err, failed.Policy = fmt.Errorf("no data"), &placement.Policy{Name: "p", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationApproved}
	denied.Decision.Errors = []string{"no"}
	for name, tc := range map[string]struct {
		uid      types.UID
		verdicts []*placement.Verdict
		want     bool
	}{
		"Same":         {"1", []*placement.Verdict{automatic, one}, true},
		"AnotherMove":  {"1", []*placement.Verdict{two}, false},
		"AnotherToo":   {"1", []*placement.Verdict{one, two}, false},
		"AnotherUID":   {"2", []*placement.Verdict{one}, false},
		"Failed":       {"1", []*placement.Verdict{&failed}, false},
		"Denied":       {"1", []*placement.Verdict{&denied}, false},
		"DeniedBeside": {"1", []*placement.Verdict{one, &denied}, false},
		"None":         {"1", []*placement.Verdict{automatic}, false},
	} {
		if permits := remediation.PermitsOf(manager, k, tc.uid); permits(tc.verdicts) != tc.want {
			t.Errorf("%s: permitted %t", name, !tc.want)
		}
	}
	if permits := remediation.PermitsOf(remediation.FieldManager+":", k, "1"); permits([]*placement.Verdict{automatic}) {
		t.Error("an empty permit permits something")
	}
	for name, want := range map[string]bool{remediation.FieldManager: true, manager: true, "kubectl": false, "": false, remediation.FieldManager + "x": false} {
		if got := remediation.IsFieldManager(name); got != want {
			t.Errorf("%q is remediation's: %t", name, got)
		}
	}
	if remediation.PermitsOf(remediation.FieldManager, k, "1") != nil {
		t.Error("a patch without moves that need an approval names some")
	}
	// The API server takes at most 128 characters.
	all := remediation.Due{}
	for i := range 20 {
		all = append(all, by(fmt.Sprint("p", i), fmt.Sprint(i), placementv1.RemediationApproved))
	}
	if got := remediation.FieldManagerFor(k, "1", all); len(got) > 128 {
		t.Errorf("a field manager of %d characters", len(got))
	}
}

// TestObjectsOfSeveralPlans checks that an object that several policies with mode Approved move waits for all of their
// approvals, and that it is decided again after the last of them.
func TestObjectsOfSeveralPlans(t *testing.T) {
	l, k := remediation.NewLedger(), key("deployments", "shop", "web")
	var verdicts []*placement.Verdict
	for _, policy := range []string{"p", "q"} {
		v := planned{k, "1", "eu", "us"}.approvable()
		v.Policy.Name = policy
		// A patch without the approvals would be denied.
		v.Released = new(*v)
		v.Decision.Errors, v.Changes = []string{"no cluster is left"}, nil
		verdicts = append(verdicts, v)
	}
	automatic := planned{k, "1", "a", "b"}.verdict()
	automatic.Policy.Name, automatic.Policy.Mode, automatic.Policy.Remediation = "r", placementv1.ModeEnforce, placementv1.RemediationAutomatic
	automatic.Released = new(*automatic)
	verdicts = append(verdicts, automatic)
	a := l.Assess(time.Time{}, remediation.Cause{}, remediation.Names(verdicts)...)
	a.Add(k)
	a.Complete()
	l.Record(k, "1", "1", verdicts, false)
	l.ConcludeAssessments(time.Time{})
	digest := func(policy string) string {
		t.Helper()
		plan := l.Report(policy).Plan
		if plan == nil || plan.Moves != 1 {
			t.Fatalf("plan of %s: %+v", policy, plan)
		}
		return plan.Digest
	}
	if got := l.Permit(k, "1", verdicts); len(got) != 0 {
		t.Errorf("without approvals: %s", got)
	}
	approve(l, "p", &remediation.Approval{Digest: digest("p")})
	if got := l.Permit(k, "1", verdicts); len(got) != 0 {
		t.Errorf("with one approval: %s", got)
	}
	if again := approve(l, "q", &remediation.Approval{Digest: digest("q")}); !cmp.Equal(again, []remediation.Key{k}) {
		t.Errorf("decided again: %v", again)
	}
	if got := remediation.Names(l.Permit(k, "1", verdicts)); !cmp.Equal(got, []string{"p", "q", "r"}) {
		t.Errorf("with both approvals: %v", got)
	}
	approve(l, "p", nil)
	if got := l.Permit(k, "1", verdicts); len(got) != 0 {
		t.Errorf("after an approval was withdrawn: %s", got)
	}
}

// TestFailuresAreNoProgress checks that a plan, and its approval, survive that objects can't be decided for some time, and
// that an approval is used up when its plan is completed.
func TestFailuresAreNoProgress(t *testing.T) {
	l := remediation.NewLedger()
	web, db := planned{key("deployments", "shop", "web"), "1", "eu", "us"}, planned{key("deployments", "shop", "db"), "1", "eu", "us"}
	other := planned{db.key, "1", "eu", "asia"}.verdict()
	other.Policy.Name, other.Policy.Mode, other.Policy.FailurePolicy, other.Err = "q", placementv1.ModeEnforce, placementv1.FailurePolicyFail, fmt.Errorf("no data")
	assess := func() {
		a := l.Assess(time.Time{}, remediation.Cause{}, "p")
		a.Add(web.key, db.key)
		a.Complete()
		for _, m := range []planned{web, db} {
			l.Record(m.key, m.uid, "1", []*placement.Verdict{m.approvable()}, false)
		}
		l.ConcludeAssessments(time.Time{})
	}
	assess()
	digest := l.Report("p").Plan.Digest
	approve(l, "p", &remediation.Approval{Digest: digest})
	failed := web.approvable()
	failed.Changes, failed.Err = nil, fmt.Errorf("deadline")
	l.Record(web.key, "1", "1", []*placement.Verdict{failed}, false)
	l.Record(db.key, "1", "1", []*placement.Verdict{db.approvable(), other}, false)
	l.ConcludeAssessments(time.Time{}.Add(time.Hour))
	report := l.Report("p")
	if report.Plan.Digest != digest || report.Plan.Done != 0 || report.Plan.Approval == nil || report.Failed != 1 {
		t.Errorf("while objects can't be decided: %+v, %d failed", report.Plan, report.Failed)
	}
	if len(l.Permit(db.key, "1", []*placement.Verdict{db.approvable(), other})) != 0 {
		t.Error("a patch is permitted that would be denied")
	}
	assess()
	if report := l.Report("p"); report.Plan.Digest != digest || report.Plan.Done != 0 || len(l.Permit(web.key, "1", []*placement.Verdict{web.approvable()})) != 1 {
		t.Errorf("afterwards: %+v", report.Plan)
	}
	left := web
	web.from, db.from = web.to, db.to
	assess()
	if plan := l.Report("p").Plan; plan.Digest != digest || plan.Done != 2 || plan.Approval == nil {
		t.Errorf("completed: %+v", plan)
	}
	web, db = left, planned{db.key, "1", "eu", "us"}
	assess()
	if plan := l.Report("p").Plan; plan.Digest != digest || plan.Done != 0 || plan.Approval != nil || !l.Report("p").Approval.Used || len(l.Permit(web.key, "1", []*placement.Verdict{web.approvable()})) != 0 {
		t.Errorf("the same again: %+v", plan)
	}
}

// TestDecodeSet checks that moves are only read back if they are those of the plan.
func TestDecodeSet(t *testing.T) {
	l := remediation.NewLedger()
	for _, name := range []string{"web", "db", "cache"} {
		p := planned{key("deployments", "shop", name), "1", "eu", "us"}
		l.Record(p.key, p.uid, "1", []*placement.Verdict{p.approvable()}, false)
	}
	l.ConcludeAssessments(time.Time{}.Add(time.Hour))
	l.Approve("p", &remediation.Approval{Digest: l.Report("p").Plan.Digest})
	plan := l.Unsaved("p")
	encoded := plan.Encode()
	if len(encoded) != 3*moveset.Bytes {
		t.Fatalf("%d bytes", len(encoded))
	}
	if got, err := moveset.DecodeSet(plan.Digest, encoded); err != nil || !cmp.Equal(got.Encode(), encoded) {
		t.Errorf("got %v, %v", got, err)
	}
	for name, cut := range map[string][]byte{"a byte is missing": encoded[1:], "a move is missing": encoded[moveset.Bytes:], "no move": nil} {
		if got, err := moveset.DecodeSet(plan.Digest, cut); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
