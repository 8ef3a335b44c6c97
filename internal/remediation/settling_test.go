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
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// subject is one object that remediation patches.
type subject struct {
	gate    *remediation.Gate
	now     time.Time
	data    *reader
	value   string
	version int
	patches int
}

func newSubject() *subject {
	never := func(string) bool { return false }
	return &subject{gate: remediation.NewGate(never), now: time.Unix(0, 0), data: &reader{revision: 1}, value: "old"}
}

// write is a write by another client.
func (s *subject) write(value string) {
	s.value = value
	s.version++
}

// due returns the verdict of a policy that wants a value.
func (s *subject) due(want string) []*placement.Verdict {
	v := &placement.Verdict{Policy: &placement.Policy{Name: "p", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Evaluator: s.data}}
	if s.value != want {
		v.Changes = []placement.Change{{Field: "annotations", Key: "k", From: new(s.value), To: &want}}
	}
	return []*placement.Verdict{v}
}

// decide decides the object, and patches it if it may. It returns the judgment.
func (s *subject) decide(want string) remediation.Judgment {
	s.now = s.now.Add(time.Second)
	due := s.due(want)
	if !remediation.Requires(due) {
		return remediation.Judgment{}
	}
	judged := s.gate.Judge(s.now, key("configmaps", "shop", "web"), fmt.Sprint(s.version), due)
	if judged.Standing == remediation.Settling {
		before := fmt.Sprint(s.version)
		s.write(want)
		s.patches++
		s.gate.Patched(s.now, key("configmaps", "shop", "web"), remediation.Round{Before: before, Version: fmt.Sprint(s.version), Due: due, Revision: s.data.revision})
	}
	return judged
}

// TestStanding checks how often objects are patched that others write, or whose decision changes.
func TestStanding(t *testing.T) {
	const rounds = 20
	for name, tt := range map[string]struct {
		do      func(*subject, int) remediation.Judgment
		want    remediation.Standing
		patches int
	}{
		"another client changes it back": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.write("theirs")
			return out
		}, remediation.Contested, 3},
		"an admission webhook changes what is patched": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.value = "theirs"
			return out
		}, remediation.Contested, 3},
		"another client changes it back, and others write, too": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.write("ours")
			s.decide("ours")
			s.write("theirs")
			s.write("theirs")
			return out
		}, remediation.Contested, 3},
		"the decision depends on its result": {func(s *subject, _ int) remediation.Judgment {
			if s.value == "a" {
				return s.decide("b")
			}
			return s.decide("a")
		}, remediation.NotSettling, 3},
		"data change each time": {func(s *subject, i int) remediation.Judgment {
			s.data.revision++
			return s.decide(fmt.Sprint(i))
		}, remediation.Settling, rounds},
		"data change to and fro": {func(s *subject, i int) remediation.Judgment {
			s.data.revision++
			s.write(s.value)
			return s.decide(fmt.Sprint(i % 2))
		}, remediation.Settling, rounds},
		"data are missing": {func(s *subject, i int) remediation.Judgment {
			s.data.revision = 0
			return s.decide(fmt.Sprint(i % 2))
		}, remediation.Settling, rounds},
		"its owner asks for something else each time": {func(s *subject, i int) remediation.Judgment {
			s.write("asked")
			return s.decide(fmt.Sprint(i))
		}, remediation.Settling, rounds},
		"it is changed back each hour": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.now = s.now.Add(time.Hour)
			s.write("theirs")
			return out
		}, remediation.Settling, rounds},
		"the policy changes in between": {func(s *subject, i int) remediation.Judgment {
			if i%3 == 0 {
				s.gate.ForgetPatches(func(remediation.Key) bool { return true })
			}
			out := s.decide("ours")
			s.write("theirs")
			return out
		}, remediation.Settling, rounds},
		"it is deleted and created again": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.gate.Forget(key("configmaps", "shop", "web"))
			s.write("theirs")
			return out
		}, remediation.Settling, rounds},
	} {
		t.Run(name, func(t *testing.T) {
			s, began := newSubject(), 0
			var last remediation.Judgment
			for i := range rounds {
				if last = tt.do(s, i); last.Began {
					began++
				}
			}
			if last.Standing != tt.want || s.patches != tt.patches || began != min(int(tt.want), 1) {
				t.Errorf("standing %d after %d patches, began %d times; want %d after %d", last.Standing, s.patches, began, tt.want, tt.patches)
			}
			if again := last.Again; (again > 0 && again <= time.Hour) != (tt.want != remediation.Settling) {
				t.Errorf("judged again after %s", again)
			}
		})
	}
}

// TestStandingEnds checks that an object is patched again after an hour, and that nothing is concluded from an object that the watch
// has not delivered after its patch.
func TestStandingEnds(t *testing.T) {
	s := newSubject()
	for range 10 {
		s.decide("ours")
		s.write("theirs")
	}
	if s.patches != 3 {
		t.Fatalf("%d patches", s.patches)
	}
	s.now = s.now.Add(s.decide("ours").Again - 2*time.Second)
	if s.decide("ours"); s.patches != 3 {
		t.Error("patched too early")
	}
	s.now = s.now.Add(time.Second)
	if s.decide("ours"); s.patches != 4 {
		t.Error("not patched again")
	}
	s = newSubject()
	stale := *s
	s.decide("ours")
	for range 10 {
		if got := s.gate.Judge(s.now, key("configmaps", "shop", "web"), "0", stale.due("ours")); got != (remediation.Judgment{}) {
			t.Fatalf("an old version: %+v", got)
		}
	}
}

// TestPatchesAreBounded checks for random histories that an object whose data stay the same is patched at most three times before
// it is left alone, and at most six times within an hour, whatever other clients write.
func TestPatchesAreBounded(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 6))
		s := newSubject()
		var times []time.Time
		for step := range 400 {
			if random.IntN(2) == 0 {
				s.write([]string{"theirs", "old", "ours"}[random.IntN(3)])
			}
			before := s.patches
			if s.decide("ours"); s.patches > before {
				times = append(times, s.now)
			}
			s.now = s.now.Add(time.Duration(random.IntN(120)) * time.Second)
			if n := len(times); n > 6 && times[n-1].Sub(times[n-7]) < time.Hour {
				t.Fatalf("seed %d, step %d: patched at %v", seed, step, times[n-7:])
			}
		}
		if len(times) == 0 {
			t.Fatalf("seed %d: nothing was patched", seed)
		}
	}
}

// TestManagerOf checks who is named as the one that changes an object back.
func TestManagerOf(t *testing.T) {
	entry := func(manager string, second int, fields string) metav1.ManagedFieldsEntry {
		out := metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: time.Unix(int64(second), 0)}, FieldsV1: &metav1.FieldsV1{}}
		out.FieldsV1.SetRawBytes([]byte(fields))
		return out
	}
	const tier, other = `{"f:metadata":{"f:annotations":{"f:example.com/tier":{}}}}`, `{"f:metadata":{"f:labels":{"f:example.com/tier":{}}}}`
	const selector = `{"f:spec":{"f:template":{"f:spec":{"f:nodeSelector":{"f:zone":{}}}}}}`
	scaled := entry("scaler", 9, tier)
	scaled.Subresource = "scale"
	annotation := placement.Change{Field: "annotations", Key: "example.com/tier", To: new("gold")}
	for name, tt := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		change  placement.Change
		want    string
	}{
		"the owner":                   {[]metav1.ManagedFieldsEntry{entry("kubectl", 1, other), entry("flux", 2, tier), entry("late", 3, other)}, annotation, "flux"},
		"the later of two owners":     {[]metav1.ManagedFieldsEntry{entry("flux", 2, tier), entry("kubectl", 5, tier)}, annotation, "kubectl"},
		"not Berth":                   {[]metav1.ManagedFieldsEntry{entry("flux", 2, tier), entry(remediation.FieldManager, 5, tier), entry(remediation.FieldManager+":1", 6, tier)}, annotation, "flux"},
		"not a subresource":           {[]metav1.ManagedFieldsEntry{entry("flux", 2, tier), scaled}, annotation, "flux"},
		"the last writer, no owner":   {[]metav1.ManagedFieldsEntry{entry("kubectl", 1, other), entry("flux", 2, other)}, annotation, "flux"},
		"a field of the pod template": {[]metav1.ManagedFieldsEntry{entry("flux", 1, selector), entry("kubectl", 2, tier)}, placement.Change{Field: "scheduling", Key: "nodeSelector/zone", PodSpec: []string{"spec", "template", "spec"}, To: new("eu")}, "flux"},
		"no entry":                    {nil, annotation, ""},
	} {
		t.Run(name, func(t *testing.T) {
			due := remediation.Due{{Policy: &placement.Policy{Name: "p"}, Changes: []placement.Change{tt.change}}}
			if diff := cmp.Diff(tt.want, remediation.ManagerOf(tt.entries, due)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
