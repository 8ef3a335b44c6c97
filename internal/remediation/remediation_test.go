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
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

func key(resource, namespace, name string) remediation.Key {
	group := "apps"
	if resource == "nodes" {
		group = ""
	}
	return remediation.Key{Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Namespace: namespace, Name: name}
}

func verdict(policy string, changes ...placement.Change) *placement.Verdict {
	return &placement.Verdict{Policy: &placement.Policy{Name: policy, Remediation: placementv1.RemediationManual}, Changes: changes}
}

func change(k string) placement.Change {
	return placement.Change{Field: "annotations", Key: k, To: new("x")}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

func TestKeyString(t *testing.T) {
	for want, k := range map[string]remediation.Key{"deployments.apps default/web": key("deployments", "default", "web"), "nodes n1": key("nodes", "", "n1")} {
		if k.String() != want {
			t.Errorf("%q, want %q", k, want)
		}
	}
}

func TestLedger(t *testing.T) {
	l := remediation.NewLedger()
	web, db := key("deployments", "shop", "web"), key("deployments", "bank", "db")
	steps := []struct {
		name    string
		do      func() []string
		changed []string
		// want are the numbers of matched objects and violations, for p and for q.
		want [4]int
	}{
		{"Compliant", func() []string {
			return l.Record(web, "u", "1", []*placement.Verdict{verdict("p"), verdict("q")}, false)
		}, []string{"p", "q"}, [4]int{1, 0, 1, 0}},
		{"Again", func() []string {
			return l.Record(web, "u", "1", []*placement.Verdict{verdict("p"), verdict("q")}, false)
		}, nil, [4]int{1, 0, 1, 0}},
		{"Violated", func() []string {
			return l.Record(web, "u", "1", []*placement.Verdict{verdict("p", change("a")), verdict("q")}, false)
		}, []string{"p"}, [4]int{1, 1, 1, 0}},
		{"ViolatedOtherwise", func() []string {
			return l.Record(web, "u", "1", []*placement.Verdict{verdict("p", change("b")), verdict("q")}, false)
		}, []string{"p"}, [4]int{1, 1, 1, 0}},
		{"Unsettled", func() []string {
			return l.Record(web, "u", "1", []*placement.Verdict{verdict("p", change("b")), verdict("q")}, true)
		}, []string{"p"}, [4]int{1, 1, 1, 0}},
		{"Another", func() []string { return l.Record(db, "u", "1", []*placement.Verdict{verdict("q", change("b"))}, false) }, []string{"q"}, [4]int{1, 1, 2, 1}},
		{"NoLongerMatched", func() []string { return l.Record(web, "u", "1", []*placement.Verdict{verdict("q")}, false) }, []string{"p"}, [4]int{0, 0, 2, 1}},
		{"Off", func() []string {
			v := verdict("q", change("x"))
			v.Policy.Remediation = placementv1.RemediationOff
			return l.Record(web, "u", "1", []*placement.Verdict{v}, false)
		}, []string{"q"}, [4]int{0, 0, 1, 1}},
		{"Forget", func() []string { return l.Forget(db) }, []string{"q"}, [4]int{0, 0, 0, 0}},
		{"ForgetAgain", func() []string { return l.Forget(db) }, nil, [4]int{0, 0, 0, 0}},
		{"Back", func() []string {
			return l.Record(db, "u", "1", []*placement.Verdict{verdict("p"), verdict("q")}, false)
		}, []string{"p", "q"}, [4]int{1, 0, 1, 0}},
		{"ForgetPolicy", func() []string { l.ForgetPolicy("p"); l.ForgetPolicy("unknown"); return nil }, nil, [4]int{0, 0, 1, 0}},
		{"AfterForgetPolicy", func() []string { return l.Forget(db) }, []string{"q"}, [4]int{0, 0, 0, 0}},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.changed, sorted(step.do())); diff != "" {
			t.Errorf("%s: changed policies (-want +got):\n%s", step.name, diff)
		}
		p, q := l.Report("p"), l.Report("q")
		if got := [4]int{p.Matched, p.Violations, q.Matched, q.Violations}; got != step.want {
			t.Errorf("%s: accounts %v, want %v", step.name, got, step.want)
		}
	}
}

func TestReport(t *testing.T) {
	l := remediation.NewLedger()
	denied := verdict("p", change("a"))
	denied.Decision.Errors = []string{"not here", "nor there"}
	failed := verdict("p")
	failed.Err = errors.New("oh")
	conflicting := verdict("p")
	conflicting.Conflicts = []placement.Conflict{{With: "z"}, {With: "b"}, {With: "z"}}
	l.Record(key("deployments", "b", "a"), "u", "1", []*placement.Verdict{verdict("p", change("k"), change("l"))}, true)
	l.Record(key("deployments", "a", "z"), "u", "1", []*placement.Verdict{denied}, false)
	l.Record(key("statefulsets", "a", "a"), "u", "1", []*placement.Verdict{failed}, false)
	l.Record(key("daemonsets", "z", "z"), "u", "1", []*placement.Verdict{failed}, false)
	l.Record(key("daemonsets", "z", "y"), "u", "1", []*placement.Verdict{conflicting}, true)
	l.Remediated(key("deployments", "a", "z"), "0", "p")
	l.Remediated(key("deployments", "gone", "gone"), "1", "p")
	// It is not decided in another version yet.
	l.Remediated(key("deployments", "b", "a"), "1", "p")
	want := remediation.Report{
		Matched: 5, Violations: 4, Denied: 1, Moved: 1, Conflicted: 1, Failed: 2, FailedMessage: "daemonsets.apps z/z: oh", Remediated: 2, Outstanding: 1,
		Sample: []placementv1.Violation{
			{Object: "daemonsets.apps z/z", Message: "can't be decided: oh"},
			{Object: "deployments.apps a/z", Message: "not here; nor there"},
			{Object: "deployments.apps b/a", Message: "annotation k is absent, should be x; annotation l is absent, should be x"},
			{Object: "statefulsets.apps a/a", Message: "can't be decided: oh"},
		},
		Conflicts: []string{"b", "z"}, Unsettled: []string{"deployments.apps b/a"},
	}
	if diff := cmp.Diff(want, l.Report("p")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(remediation.Report{}, l.Report("unknown")); diff != "" {
		t.Errorf("report of an unknown policy (-want +got):\n%s", diff)
	}
}

// TestObstacle checks which failed patch a report names, and whether it has changed.
func TestObstacle(t *testing.T) {
	l := remediation.NewLedger()
	web, db := key("deployments", "shop", "web"), key("deployments", "bank", "db")
	record := func(of remediation.Key, version string, changes ...placement.Change) {
		l.Record(of, "u", version, []*placement.Verdict{verdict("p", changes...)}, false)
	}
	record(web, "1", change("a"))
	record(db, "1", change("a"))
	for _, step := range []struct {
		name    string
		do      func() []string
		changed bool
		want    string
	}{
		{"none", func() []string { return nil }, false, ""},
		{"one", func() []string { return l.Obstruct(web, "no grant", true, "p") }, true, "deployments.apps shop/web: no grant"},
		{"the same", func() []string { return l.Obstruct(web, "no grant", true, "p") }, false, "deployments.apps shop/web: no grant"},
		{"another object", func() []string { return l.Obstruct(db, "no grant", true, "p") }, false, "deployments.apps shop/web: no grant"},
		{"another reason", func() []string { return l.Obstruct(web, "denied", false, "p") }, true, "deployments.apps shop/web: denied"},
		{"decided again", func() []string { record(web, "2", change("a")); return nil }, false, "deployments.apps shop/web: denied"},
		{"as decided", func() []string { record(web, "3"); return nil }, false, ""},
		{"another object then", func() []string { return l.Obstruct(db, "no grant", true, "p") }, true, "deployments.apps bank/db: no grant"},
		{"patched", func() []string { l.Remediated(db, "1", "p"); return nil }, false, ""},
		{"gone", func() []string { changed := l.Obstruct(db, "no grant", true, "p"); l.Forget(db); return changed }, true, ""},
	} {
		changed := step.do()
		got := l.Report("p")
		if got.Obstacle != step.want || (len(changed) == 1) != step.changed || got.Unauthorized != strings.Contains(step.want, "no grant") {
			t.Errorf("%s: obstacle %q, unauthorized %t, changed %v; want %q", step.name, got.Obstacle, got.Unauthorized, changed, step.want)
		}
	}
}

// TestReportIsBoundedAndOrdered checks that a report has a bounded size, and does not depend on the order of the
// objects.
func TestReportIsBoundedAndOrdered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var want remediation.Report
	keys := make([]remediation.Key, 200)
	for i := range keys {
		keys[i] = key([]string{"deployments", "statefulsets"}[i%2], fmt.Sprintf("n%d", i%7), fmt.Sprintf("o%d", i))
	}
	for round := range 5 {
		l := remediation.NewLedger()
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, k := range keys {
			v := verdict("p")
			v.Decision.Errors = []string{strings.Repeat("é", 1000)}
			v.Conflicts = []placement.Conflict{{With: k.Namespace}}
			l.Record(k, "u", "1", []*placement.Verdict{v}, false)
		}
		got := l.Report("p")
		if got.Violations != 200 || len(got.Sample) > 20 || len(got.Sample) == 0 {
			t.Fatalf("%d violations, %d of them shown", got.Violations, len(got.Sample))
		}
		for _, s := range got.Sample {
			if len(s.Message) > 512 || !utf8.ValidString(s.Message) || !strings.HasSuffix(s.Message, "...") {
				t.Fatalf("message of %d bytes: %q", len(s.Message), s.Message)
			}
		}
		if round > 0 {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("another order, another report:\n%s", diff)
			}
		}
		want = got
	}
}

// TestLedgerForgetsCompletely checks that the reports of a ledger with a history equal those of one that only saw the
// last state.
func TestLedgerForgetsCompletely(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range budget.Rounds(50) {
		l := remediation.NewLedger()
		last := map[remediation.Key][]*placement.Verdict{}
		for range 100 {
			k := key("deployments", "n", string(rune('a'+r.IntN(5))))
			switch r.IntN(4) {
			case 0:
				l.Forget(k)
				delete(last, k)
			case 1:
				name := fmt.Sprintf("p%d", r.IntN(3))
				l.ForgetPolicy(name)
				for other, verdicts := range last {
					last[other] = slices.DeleteFunc(slices.Clone(verdicts), func(v *placement.Verdict) bool { return v.Policy.Name == name })
				}
			default:
				var verdicts []*placement.Verdict
				for i := range 3 {
					if r.IntN(2) == 0 {
						verdicts = append(verdicts, verdict(fmt.Sprintf("p%d", i), change(fmt.Sprint(r.IntN(2)))))
					}
				}
				l.Record(k, "u", "1", verdicts, false)
				last[k] = verdicts
			}
		}
		fresh := remediation.NewLedger()
		for k, verdicts := range last {
			fresh.Record(k, "u", "1", verdicts, false)
		}
		for i := range 3 {
			name := fmt.Sprintf("p%d", i)
			if diff := cmp.Diff(fresh.Report(name), l.Report(name)); diff != "" {
				t.Fatalf("%s (-fresh +used):\n%s", name, diff)
			}
		}
	}
}

// TestRemediatedAgreesWithThePlan checks that a report counts a patch when the plan has it as done, not before.
func TestRemediatedAgreesWithThePlan(t *testing.T) {
	l, of := remediation.NewLedger(), key("deployments", "a", "a")
	record := func(version string, changes ...placement.Change) {
		l.Record(of, "u", version, []*placement.Verdict{verdict("p", changes...)}, false)
	}
	want := func(step string, remediated int64, outstanding int) {
		t.Helper()
		if r := l.Report("p"); r.Remediated != remediated || r.Outstanding != outstanding {
			t.Errorf("%s: %d remediated, %d outstanding; want %d and %d", step, r.Remediated, r.Outstanding, remediated, outstanding)
		}
	}
	record("1", change("k"))
	l.Remediated(of, "1", "p")
	want("patched", 0, 1)
	record("1", change("k"))
	want("decided again in the same version", 0, 1)
	record("2")
	want("decided in the next version", 1, 0)
	record("3", change("k"))
	l.Remediated(of, "3", "p")
	l.Forget(of)
	want("deleted before it is decided", 2, 0)
	record("5", change("k"))
	record("6")
	l.Remediated(of, "5", "p")
	want("decided before the answer to the patch", 3, 0)
}

func TestLedgerSideBySide(t *testing.T) {
	l := remediation.NewLedger()
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 200 {
				l.Record(key("deployments", fmt.Sprint(worker), fmt.Sprint(i%10)), "u", "1", []*placement.Verdict{verdict("p"), verdict("q", change("a"))}, false)
				l.Remediated(key("deployments", fmt.Sprint(worker), fmt.Sprint(i%10)), "0", "q")
				l.Report("p")
				l.ForgetPolicy("p")
			}
		})
	}
	all.Wait()
	if got := l.Report("q"); got.Matched != 40 || got.Remediated != 800 {
		t.Errorf("report %+v", got)
	}
}

func TestObjectsThatDoNotSettle(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k, other := key("deployments", "a", "b"), key("deployments", "a", "c")
	due := movesFor(enforced("p").Policy)
	var b *remediation.Scheduler
	patch := func(after time.Duration, key remediation.Key) {
		b.Done(start.Add(after), key, due, remediation.Patch{Ending: remediation.Made, Object: &unstructured.Unstructured{Object: map[string]any{}}})
	}
	settles := func(after time.Duration, key remediation.Key) bool {
		return !b.Judge(start.Add(after), key, &unstructured.Unstructured{Object: map[string]any{}}, due, 0).TooOften
	}
	renew := func() {
		b = remediation.NewScheduler(remediation.Limits{}, remediation.NewLedger(), func(string) bool { return false })
	}
	renew()
	patches := 0
	for ; settles(time.Duration(patches)*100*time.Millisecond, k); patches++ {
		if patches > 1000 {
			t.Fatal("patches are never stopped")
		}
		patch(time.Duration(patches)*100*time.Millisecond, k)
	}
	// The limit must end a loop within seconds, and exceed the number of legitimate changes of one object in a busy
	// fleet.
	if patches < 50 || patches > 200 {
		t.Errorf("holds after %d patches", patches)
	}
	if !settles(time.Duration(patches)*100*time.Millisecond, other) {
		t.Error("holds another object")
	}
	if !settles(time.Hour, k) {
		t.Error("holds for ever")
	}
	// The patches leave the window one by one.
	renew()
	for i := range patches {
		patch(time.Duration(i)*100*time.Millisecond, k)
	}
	if settles(59*time.Second, k) {
		t.Error("lets go within the window")
	}
	// It is known when to ask again: once one patch fewer counts than stop the others.
	judged := b.Judge(start.Add(59*time.Second), k, &unstructured.Unstructured{Object: map[string]any{}}, due, 0)
	if judged.Again <= 0 || judged.Again > time.Minute || settles(59*time.Second+judged.Again-time.Millisecond, k) {
		t.Errorf("judged again after %s", judged.Again)
	}
	if !settles(59*time.Second+judged.Again, k) {
		t.Errorf("holds after %s", judged.Again)
	}
	if !settles(61*time.Second, k) {
		t.Error("holds though the first patch is out of the window")
	}
	for i := range patches {
		patch(2*time.Minute+time.Duration(i)*time.Millisecond, k)
	}
	b.Forget(start, k)
	if !settles(2*time.Minute, k) {
		t.Error("holds an object that was forgotten")
	}
	// Patches that are far apart never add up.
	for i := range 100 {
		at := time.Duration(i) * time.Minute
		if !settles(at, other) {
			t.Fatalf("holds a slow object at patch %d", i)
		}
		patch(at, other)
	}
}
