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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/rollout"
)

// deniedBy and undecidedBy are verdicts of a policy that denies an object, and of one that can't decide it.
func deniedBy(policy string, messages ...string) *placement.Verdict {
	v := verdict(policy)
	v.Decision.Errors = messages
	return v
}

func undecidedBy(policy, message string) *placement.Verdict {
	v := verdict(policy)
	v.Err = errors.New(message)
	return v
}

func TestViolations(t *testing.T) {
	l := remediation.NewLedger()
	web, db, node := key("deployments", "shop", "web"), key("deployments", "shop", "db"), key("nodes", "", "n1")
	l.Record(web, "u", "1", []*placement.Verdict{verdict("p", change("a")), deniedBy("q", "not here", "nor there")}, false)
	l.Record(db, "u", "1", []*placement.Verdict{undecidedBy("p", "no data"), verdict("q")}, false)
	l.Record(key("deployments", "shop", "omitted"), "u", "1", []*placement.Verdict{verdict("p", change("a"))}, false)
	l.Record(key("deployments", "bank", "db"), "u", "1", []*placement.Verdict{verdict("p")}, false)
	l.Record(node, "u", "1", []*placement.Verdict{deniedBy("q", strings.Repeat("long ", 100))}, false)
	all := []remediation.Violation{
		{Key: db, Policy: "p", Outcome: remediation.Undecided, Message: "no data"},
		{Key: web, Policy: "p", Outcome: remediation.Differs, Message: "annotation a is absent, should be x"},
		{Key: web, Policy: "q", Outcome: remediation.Denied, Message: "not here; nor there"},
	}
	total := map[remediation.Outcome]int{remediation.Undecided: 1, remediation.Differs: 1, remediation.Denied: 1}
	omit := func(k remediation.Key) bool { return k.Name == "omitted" }
	for name, test := range map[string]struct {
		namespace string
		limit     int
		want      remediation.Violations
	}{
		"All":     {"shop", 10, remediation.Violations{Total: total, First: all}},
		"Bounded": {"shop", 2, remediation.Violations{Total: total, First: all[:2]}},
		"None":    {"bank", 10, remediation.Violations{}},
		"Unknown": {"other", 10, remediation.Violations{}},
		"WithoutNamespace": {"", 10, remediation.Violations{
			Total: map[remediation.Outcome]int{remediation.Denied: 1},
			First: []remediation.Violation{{Key: node, Policy: "q", Outcome: remediation.Denied, Message: strings.Repeat("long ", 100)[:253] + "..."}},
		}},
	} {
		if diff := cmp.Diff(test.want, l.Violations(test.namespace, test.limit, omit), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: violations (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(sets.New("", "shop"), l.ViolatedNamespaces()); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

func TestMisplaced(t *testing.T) {
	moved := change(placementv1.ClustersAnnotation)
	enforce := func(v *placement.Verdict) *placement.Verdict {
		v.Policy.Mode = placementv1.ModeEnforce
		return v
	}
	for name, test := range map[string]struct {
		verdicts []*placement.Verdict
		want     bool
	}{
		"Compliant":  {verdicts: []*placement.Verdict{verdict("p")}},
		"Moves":      {verdicts: []*placement.Verdict{verdict("p"), enforce(verdict("q", change("a"), moved))}, want: true},
		"Denied":     {verdicts: []*placement.Verdict{enforce(deniedBy("p", "no cluster fits"))}, want: true},
		"OnlyCounts": {verdicts: []*placement.Verdict{verdict("p", moved), deniedBy("q", "no cluster fits")}},
		"Otherwise":  {verdicts: []*placement.Verdict{enforce(verdict("p", change("a")))}},
		"Undecided":  {verdicts: []*placement.Verdict{undecidedBy("p", "no data")}},
		"Unmatched":  {},
	} {
		l, web := remediation.NewLedger(), key("deployments", "shop", "web")
		l.Record(web, "u", "1", test.verdicts, false)
		if got := l.Misplaced(web); got != test.want {
			t.Errorf("%s: misplaced is %t, want %t", name, got, test.want)
		}
		l.Record(web, "u", "2", []*placement.Verdict{verdict("p")}, false)
		if l.Misplaced(web) {
			t.Errorf("%s: misplaced after it was patched", name)
		}
	}
}

func TestUndecided(t *testing.T) {
	enforce := func(policies ...string) (out []*placement.Verdict) {
		for _, name := range policies {
			out = append(out, verdict(name))
		}
		return out
	}
	off := func(v *placement.Verdict) *placement.Verdict {
		v.Policy.Remediation = placementv1.RemediationOff
		return v
	}
	web, older := key("deployments", "shop", "web"), key("deployments", "shop", "web")
	older.Resource.Version = "v1beta1"
	for name, test := range map[string]struct {
		before   func(*remediation.Ledger)
		policies []string
		want     bool
	}{
		"Never":            {before: func(*remediation.Ledger) {}, policies: []string{"p"}, want: true},
		"Nobody":           {before: func(*remediation.Ledger) {}},
		"Decided":          {before: func(l *remediation.Ledger) { l.Record(web, "u", "1", enforce("p", "q"), false) }, policies: []string{"p", "q"}},
		"InAnotherVersion": {before: func(l *remediation.Ledger) { l.Record(older, "u", "1", enforce("p"), false) }, policies: []string{"p"}},
		"ByOne":            {before: func(l *remediation.Ledger) { l.Record(web, "u", "1", enforce("p"), false) }, policies: []string{"p", "q"}, want: true},
		"NotRecorded":      {before: func(l *remediation.Ledger) { l.Record(web, "u", "1", []*placement.Verdict{off(verdict("p"))}, false) }, policies: []string{"p"}, want: true},
		"Failed": {before: func(l *remediation.Ledger) {
			l.Record(web, "u", "1", []*placement.Verdict{undecidedBy("p", "no data")}, false)
		}, policies: []string{"p"}},
		"Skipped":       {before: func(l *remediation.Ledger) { l.Skip(web) }, policies: []string{"p"}},
		"Awaited":       {before: func(l *remediation.Ledger) { l.Await(web, "p") }, policies: []string{"p"}, want: true},
		"AnotherObject": {before: func(l *remediation.Ledger) { l.Record(key("deployments", "shop", "db"), "u", "1", enforce("p"), false) }, policies: []string{"p"}, want: true},
		"Forgotten": {before: func(l *remediation.Ledger) {
			l.Record(web, "u", "1", enforce("p"), false)
			l.ForgetPolicy("p")
		}, policies: []string{"p"}, want: true},
	} {
		l := remediation.NewLedger()
		var told []remediation.Key
		l.SubscribeDecided(func(key remediation.Key) { told = append(told, key) })
		test.before(l)
		if got := l.Undecided(test.policies, older, web); got != test.want {
			t.Errorf("%s: undecided is %t, want %t", name, got, test.want)
		}
		if recorded := len(l.Matching(web))+len(l.Matching(older)) > 0; recorded && len(told) == 0 {
			t.Errorf("%s: nobody is told of the decision", name)
		}
	}
}

func TestSubscribeViolations(t *testing.T) {
	l := remediation.NewLedger()
	var got []string
	l.SubscribeViolations(func(namespace string) { got = append(got, namespace) })
	web, node := key("deployments", "shop", "web"), key("nodes", "", "n1")
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"Compliant", func() { l.Record(web, "u", "1", []*placement.Verdict{verdict("p"), verdict("q")}, false) }, nil},
		{"Violated", func() {
			l.Record(web, "u", "2", []*placement.Verdict{verdict("p", change("a")), verdict("q", change("b"))}, false)
		}, []string{"shop"}},
		{"Again", func() {
			l.Record(web, "u", "3", []*placement.Verdict{verdict("p", change("a")), verdict("q", change("b"))}, false)
		}, nil},
		{"Otherwise", func() {
			l.Record(web, "u", "4", []*placement.Verdict{verdict("p", change("a")), deniedBy("q", "no")}, false)
		}, []string{"shop"}},
		{"Undecided", func() { l.Record(node, "u", "1", []*placement.Verdict{undecidedBy("q", "no data")}, false) }, []string{""}},
		{"NoLongerMatched", func() { l.Record(web, "u", "4", []*placement.Verdict{deniedBy("q", "no")}, false) }, []string{"shop"}},
		{"Healed", func() { l.Record(node, "u", "2", []*placement.Verdict{verdict("q")}, false) }, []string{""}},
		{"Deleted", func() { l.Forget(node) }, nil},
		{"PolicyDeleted", func() { l.ForgetPolicy("q"); l.ForgetPolicy("p") }, []string{"shop"}},
	} {
		got = nil
		step.do()
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: namespaces (-want +got):\n%s", step.name, diff)
		}
	}
}

// BenchmarkViolations measures how long the ledger is locked for the violations of one of a thousand namespaces.
func BenchmarkViolations(b *testing.B) {
	l := remediation.NewLedger()
	for i := range 100_000 {
		v := verdict("p")
		if i%10 == 0 {
			v = verdict("p", change("a"))
		}
		l.Record(key("deployments", fmt.Sprintf("namespace-%d", i%1000), fmt.Sprintf("web-%d", i)), "u", "1", []*placement.Verdict{v}, false)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Violations("namespace-500", 500, func(remediation.Key) bool { return false })
	}
}

func TestRolloutCounts(t *testing.T) {
	l := remediation.NewLedger()
	record := func(k remediation.Key, unsettled bool, v *placement.Verdict) {
		l.Record(k, "u", "1", []*placement.Verdict{v}, unsettled)
	}
	failed := key("deployments", "canary", "failed")
	record(key("deployments", "canary", "compliant"), false, verdict("p"))
	record(key("deployments", "canary", "pending"), false, verdict("p", change("a")))
	record(key("deployments", "canary", "denied"), false, deniedBy("p", "no"))
	record(key("deployments", "canary", "undecided"), false, undecidedBy("p", "no data"))
	record(key("deployments", "canary", "unsettled"), true, verdict("p", change("a")))
	record(failed, false, verdict("p", change("a")))
	record(key("deployments", "canary", "of-another-policy"), false, verdict("q", change("a")))
	for _, name := range []string{"canary", "prod"} {
		record(remediation.Key{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: name}, false, verdict("p"))
	}
	record(key("nodes", "", "n1"), false, verdict("p", change("a")))
	record(key("deployments", "elsewhere", "web"), false, verdict("p", change("a")))
	stages := map[string]int{"canary": 0, "prod": 1, "elsewhere": 2}
	waiting := remediation.Waiting{Failures: []remediation.Failure{{Key: remediation.Key{Resource: failed.Resource.GroupResource().WithVersion(""), Namespace: failed.Namespace, Name: failed.Name}}}}
	none := map[string]int{}
	want := []rollout.Counts{
		{Matched: 7, Namespaces: 1, Moved: 2, Failed: map[string]int{"canary": 3}, Denied: map[string]int{"canary": 1}, Pending: 1},
		{Matched: 1, Namespaces: 1, Moved: 1, Failed: none, Denied: none},
	}
	if diff := cmp.Diff(want, l.RolloutCounts("p", 2, stages, waiting)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	// A pause of the whole policy holds the rollout itself. While only the objects of a namespace are not patched, it does not wait for them.
	waiting.Pause = "1-a"
	if diff := cmp.Diff(want, l.RolloutCounts("p", 2, stages, waiting)); diff != "" {
		t.Errorf("counts while the policy is paused (-want +got):\n%s", diff)
	}
	waiting.PausedIn = containment.Scope{"canary"}
	want[0].Failed, want[0].Pending = map[string]int{"canary": 4}, 0
	if diff := cmp.Diff(want, l.RolloutCounts("p", 2, stages, waiting)); diff != "" {
		t.Errorf("counts while a namespace is paused (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]rollout.Counts{{Failed: none, Denied: none}}, l.RolloutCounts("unknown", 1, map[string]int{"": 0}, remediation.Waiting{})); diff != "" {
		t.Errorf("counts of a policy that matches nothing (-want +got):\n%s", diff)
	}
}
