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
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

// planned is a move for a test: an object with a UID whose key "k" changes from one value to another.
type planned struct {
	key      remediation.Key
	uid      types.UID
	from, to string
}

func (p planned) verdict() *placement.Verdict {
	v := verdict("p")
	if p.from != p.to {
		v.Changes = []placement.Change{{Field: "annotations", Key: "k", From: &p.from, To: &p.to}}
	}
	return v
}

// planOf returns the plan for moves that are found in one assessment.
func planOf(t *testing.T, moves ...planned) *remediation.Plan {
	t.Helper()
	l := remediation.NewLedger()
	a := l.Assess(time.Time{}, remediation.Cause{Policy: true}, "p")
	for _, m := range moves {
		a.Add(m.key)
	}
	a.Complete()
	for _, m := range moves {
		l.Record(m.key, m.uid, "1", []*placement.Verdict{m.verdict()}, false)
	}
	l.ConcludeAssessments(time.Time{})
	return l.Report("p").Plan
}

// TestPlanDigest checks that a digest stands for the moves, and for nothing else.
func TestPlanDigest(t *testing.T) {
	web, db := planned{key("deployments", "shop", "web"), "1", "eu", "us"}, planned{key("deployments", "bank", "db"), "2", "eu", "us"}
	with := func(change func(*planned)) planned {
		out := web
		change(&out)
		return out
	}
	plan := planOf(t, web, db)
	if plan == nil || plan.Moves != 2 || len(plan.Digest) != 32 {
		t.Fatalf("plan %+v", plan)
	}
	for name, other := range map[string]*remediation.Plan{
		"Order":   planOf(t, db, web),
		"Version": planOf(t, db, with(func(p *planned) { p.key.Resource.Version = "v2" })),
		"Beside":  planOf(t, db, web, planned{key("deployments", "shop", "idle"), "3", "eu", "eu"}),
	} {
		if other.Digest != plan.Digest {
			t.Errorf("%s: the digest %s of the same moves is not %s", name, other.Digest, plan.Digest)
		}
	}
	for name, other := range map[string]*remediation.Plan{
		"Fewer":     planOf(t, web),
		"Name":      planOf(t, db, with(func(p *planned) { p.key.Name = "web2" })),
		"Namespace": planOf(t, db, with(func(p *planned) { p.key.Namespace = "bank" })),
		"Resource":  planOf(t, db, with(func(p *planned) { p.key.Resource.Resource = "statefulsets" })),
		"Group":     planOf(t, db, with(func(p *planned) { p.key.Resource.Group = "example.com" })),
		"UID":       planOf(t, db, with(func(p *planned) { p.uid = "9" })),
		"From":      planOf(t, db, with(func(p *planned) { p.from = "asia" })),
		"To":        planOf(t, db, with(func(p *planned) { p.to = "asia" })),
	} {
		if other.Digest == plan.Digest {
			t.Errorf("%s: other moves have the same digest", name)
		}
	}
	if none := planOf(t, planned{key("deployments", "shop", "idle"), "3", "eu", "eu"}); none != nil {
		t.Errorf("a plan without moves: %+v", none)
	}
}

// TestPlanContents checks what a plan tells of its moves, and of the objects that it leaves alone.
func TestPlanContents(t *testing.T) {
	l, now := remediation.NewLedger(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	enforced := func(changes ...placement.Change) *placement.Verdict {
		v := verdict("p", changes...)
		v.Policy.Mode, v.Policy.Remediation, v.Policy.FailurePolicy, v.Policy.Generation = placementv1.ModeEnforce, placementv1.RemediationAutomatic, placementv1.FailurePolicyFail, 7
		v.Policy.BlastRadius.Percent = 100
		return v
	}
	to := func(from, to *string) placement.Change {
		return placement.Change{Field: "annotations", Key: "k", From: from, To: to}
	}
	fixed := to(nil, new("x"))
	fixed.Immutable = "because"
	refused, failed, elsewhere := enforced(to(nil, new("x"))), enforced(), enforced()
	refused.Decision.Errors = []string{"no"}
	failed.Err = fmt.Errorf("no data")
	elsewhere.Policy = &placement.Policy{Name: "q", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic}
	elsewhere.Decision.Errors = []string{"not by q"}
	found := map[remediation.Key][]*placement.Verdict{
		key("deployments", "a", "denied"):    {refused},
		key("deployments", "a", "undecided"): {failed},
		key("deployments", "a", "fixed"):     {enforced(fixed)},
		key("deployments", "a", "elsewhere"): {enforced(to(nil, new("x"))), elsewhere},
		key("deployments", "a", "removed"):   {enforced(to(new("eu"), nil))},
		key("deployments", "a", "both"):      {enforced(to(new("us"), new("eu")), placement.Change{Field: "labels", Key: "l", To: new("v")})},
	}
	for i := range 12 {
		found[key("deployments", "b", fmt.Sprintf("web-%02d", i))] = []*placement.Verdict{enforced(to(new("us"), new("eu")))}
	}
	a := l.Assess(now, remediation.Cause{Data: sets.New("nodes")}, "p")
	a.Add(slices.Collect(maps.Keys(found))...)
	other := l.Assess(now, remediation.Cause{Data: sets.New("clusterprofiles.multicluster.x-k8s.io")}, "p")
	other.Add(slices.Collect(maps.Keys(found))...)
	other.Complete()
	a.Complete()
	for k, verdicts := range found {
		l.Record(k, "u", "1", verdicts, false)
	}
	if l.Report("p").Plan != nil {
		t.Error("a plan is made before the assessment is concluded")
	}
	l.ConcludeAssessments(now)
	got := l.Report("p").Plan
	if got == nil {
		t.Fatal("no plan")
	}
	want := &remediation.Plan{
		Digest: got.Digest, Cause: remediation.Cause{Data: sets.New("nodes", "clusterprofiles.multicluster.x-k8s.io")}, Generation: 7, Since: now,
		Causes: []string{"clusterprofiles.multicluster.x-k8s.io changed", "nodes changed"},
		Moves:  14, Undecided: 1,
		Transitions: []remediation.Transition{{Change: to(new("us"), new("eu")), Objects: 13}, {Change: to(new("eu"), nil), Objects: 1}, {Change: placement.Change{Field: "labels", Key: "l", To: new("v")}, Objects: 1}},
	}
	moves := []remediation.PlannedMove{
		{Key: key("deployments", "a", "both"), Changes: []placement.Change{to(new("us"), new("eu")), {Field: "labels", Key: "l", To: new("v")}}},
		{Key: key("deployments", "a", "removed"), Changes: []placement.Change{to(new("eu"), nil)}},
	}
	for i := range 12 {
		moves = append(moves, remediation.PlannedMove{Key: key("deployments", "b", fmt.Sprintf("web-%02d", i)), Changes: []placement.Change{to(new("us"), new("eu"))}})
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if text := moves[0].Action(); text != "set annotation k to eu (was us); set label l to v" {
		t.Errorf("action %q", text)
	}
	if diff := gocmp.Diff(moves, l.Moves("p")); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if text := got.Cause.Explain(7); text != "clusterprofiles.multicluster.x-k8s.io, nodes changed" {
		t.Errorf("cause %q", text)
	}
}

// TestPlansOfHistories checks plans against a model that remembers all moves, for random histories of changes, patches,
// and deletions.
func TestPlansOfHistories(t *testing.T) {
	byDigest, byMoves := map[string]string{}, map[string]string{}
	for seed := range uint64(budget.Rounds(300)) {
		random := rand.New(rand.NewPCG(seed, 21))
		l, now := remediation.NewLedger(), time.Time{}
		stands, plan := map[remediation.Key]planned{}, map[remediation.Key]planned{}
		// changed are the objects of the plan that have to be moved otherwise.
		changed := map[remediation.Key]bool{}
		var replanned bool
		value := func() string { return fmt.Sprint(random.IntN(3)) }
		record := func(p planned) {
			l.Record(p.key, p.uid, "1", []*placement.Verdict{p.verdict()}, false)
			stands[p.key] = p
			if before, ok := plan[p.key]; ok && before != p {
				delete(plan, p.key)
				changed[p.key] = true
			}
			if p.from == p.to {
				delete(changed, p.key)
			}
		}
		moves := 0
		for step := range 60 {
			k := key("deployments", "shop", fmt.Sprint(random.IntN(6)))
			now = now.Add(time.Second)
			switch random.IntN(4) {
			case 0:
				l.Forget(k)
				delete(stands, k)
				delete(plan, k)
				delete(changed, k)
			case 1:
				// The object is patched, or it is found to be all right.
				if p, ok := stands[k]; ok {
					p.from = p.to
					record(p)
				}
			case 2:
				record(planned{k, types.UID(value()), value(), value()})
			case 3:
				a := l.Assess(now, remediation.Cause{}, "p")
				for known := range stands {
					a.Add(known)
				}
				a.Complete()
				for known, p := range maps.Clone(stands) {
					if !l.Report("p").Assessing {
						t.Fatalf("seed %d, step %d: the report does not say that objects are being decided", seed, step)
					}
					if random.IntN(2) == 0 {
						p.to = value()
					}
					record(planned{known, p.uid, p.from, p.to})
				}
				l.ConcludeAssessments(now)
				outstanding := maps.Clone(stands)
				maps.DeleteFunc(outstanding, func(_ remediation.Key, p planned) bool { return p.from == p.to })
				if !maps.Equal(outstanding, plan) {
					plan, moves, replanned = outstanding, len(outstanding), true
					changed = map[remediation.Key]bool{}
				}
			}
			got := l.Report("p").Plan
			if got == nil {
				if replanned {
					t.Fatalf("seed %d, step %d: no plan", seed, step)
				}
				continue
			}
			if got.Moves != moves || got.Moves-got.Done != len(plan)+len(changed) {
				t.Fatalf("seed %d, step %d: %d of %d moves done, want %d of %d", seed, step, got.Done, got.Moves, moves-len(plan)-len(changed), moves)
			}
			if len(plan) == moves {
				text := describe(plan)
				if other, ok := byDigest[got.Digest]; ok && other != text {
					t.Fatalf("seed %d, step %d: digest %s stands for %s and for %s", seed, step, got.Digest, other, text)
				}
				if other, ok := byMoves[text]; ok && other != got.Digest {
					t.Fatalf("seed %d, step %d: %s has the digests %s and %s", seed, step, text, other, got.Digest)
				}
				byDigest[got.Digest], byMoves[text] = text, got.Digest
			}
		}
	}
	if len(byDigest) < 1000 {
		t.Errorf("the histories have only %d different plans", len(byDigest))
	}
}

// describe names moves in the order of their objects.
func describe(moves map[remediation.Key]planned) string {
	all := slices.SortedFunc(maps.Values(moves), func(a, b planned) int { return cmp.Compare(a.key.Name, b.key.Name) })
	var out []string
	for _, m := range all {
		out = append(out, fmt.Sprintf("%s/%s %s->%s", m.key, m.uid, m.from, m.to))
	}
	return strings.Join(out, ", ")
}

// TestPlansAreMadeInTime checks that objects that change one by one become part of the plan, at most once in PlanInterval, and
// that assessments that never end together do not keep a plan from being made.
func TestPlansAreMadeInTime(t *testing.T) {
	l, now := remediation.NewLedger(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	web := func(i int) planned { return planned{object(i), "1", "eu", "us"} }
	record := func(i int) { l.Record(object(i), "1", "1", []*placement.Verdict{web(i).verdict()}, false) }
	moves := func() int {
		if plan := l.Report("p").Plan; plan != nil {
			return plan.Moves
		}
		return 0
	}
	for i := range 10 {
		record(i)
		result := l.ConcludeAssessments(now)
		if got := moves(); got != 1 || result.Unplanned != (i > 0) {
			t.Errorf("after object %d: %d moves, unplanned %t", i, got, result.Unplanned)
		}
	}
	if l.ConcludeAssessments(now.Add(remediation.PlanInterval)); moves() != 10 {
		t.Errorf("%d moves after an interval", moves())
	}
	for i := range 8 {
		now = now.Add(20 * time.Second)
		a := l.Assess(now, remediation.Cause{}, "p")
		a.Add(object(100 + i))
		a.Complete()
		// The objects of the assessment before are decided while this one is open.
		record(99 + i)
		l.ConcludeAssessments(now)
	}
	if got := moves(); got < 15 {
		t.Errorf("%d moves while assessments overlap", got)
	}
	if l.Report("p").Assessing {
		t.Error("the report says that objects are being decided for minutes")
	}
}
