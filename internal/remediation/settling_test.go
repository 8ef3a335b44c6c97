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
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/attempts"
	"github.com/berth-dev/berth/internal/decisions"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
)

// subject is one object that remediation patches.
type subject struct {
	scheduler *remediation.Scheduler
	now       time.Time
	data      *source
	value     string
	version   int
	patches   int
	uid       types.UID
	policy    *placement.Policy
}

// source is the evaluator of a policy that is not called.
type source struct {
	placement.Evaluator
	revision uint64
}

func (s *source) Revision() uint64            { return s.revision }
func (s *source) Input() *projection.FieldSet { return nil }

func newSubject() *subject {
	never := func(string) bool { return false }
	data := &source{revision: 1}
	policy := &placement.Policy{Name: "p", Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic, Evaluator: data}
	return &subject{scheduler: remediation.NewScheduler(remediation.Limits{}, remediation.NewLedger(), never), now: time.Unix(0, 0), data: data, value: "old", uid: "1", policy: policy}
}

// write is a write by another client.
func (s *subject) write(value string) {
	s.value = value
	s.version++
}

// due returns the verdict of a policy that wants a value.
func (s *subject) due(want string) []*placement.Verdict {
	v := &placement.Verdict{Policy: s.policy}
	if s.value != want {
		v.Changes = []placement.Change{{Field: "annotations", Key: "k", From: new(s.value), To: &want}}
	}
	return []*placement.Verdict{v}
}

// object returns the object in its present version.
func (s *subject) object() *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetUID(s.uid)
	out.SetResourceVersion(fmt.Sprint(s.version))
	out.SetAnnotations(map[string]string{"k": s.value})
	return out
}

// decide decides the object, and patches it if it may. It returns the judgment.
func (s *subject) decide(want string) remediation.Judgment {
	s.now = s.now.Add(time.Second)
	return s.act(s.due(want))
}

func (s *subject) act(verdicts []*placement.Verdict) remediation.Judgment {
	k, obj := key("configmaps", "shop", "web"), s.object()
	decided := make([]*decisions.PolicyDecision, len(verdicts))
	for i, v := range verdicts {
		decided[i] = decisions.NewPolicyDecision(v.Policy)
	}
	data := decisions.DataOf(decided)
	judged := s.scheduler.Judge(s.now, k, obj, verdicts, data)
	due := slices.DeleteFunc(remediation.DueOf(verdicts), func(v *placement.Verdict) bool { return v.Policy.NeedsApproval() })
	if judged.Stability == attempts.Settling && len(due) > 0 {
		s.write(*due[0].Changes[0].To)
		s.patches++
		s.scheduler.Done(s.now, k, due, remediation.Patch{Ending: remediation.Made, Object: obj, Data: data, Version: fmt.Sprint(s.version)})
	}
	return judged
}

// TestStability checks how often objects are patched that others write, or whose decision changes.
func TestStability(t *testing.T) {
	const rounds = 20
	for name, tt := range map[string]struct {
		do      func(*subject, int) remediation.Judgment
		want    attempts.Stability
		patches int
	}{
		"another client changes it back": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.write("theirs")
			return out
		}, attempts.Contested, 3},
		"an admission webhook changes what is patched": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.value = "theirs"
			return out
		}, attempts.Contested, 3},
		"another client changes it back, and others write, too": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.write("ours")
			s.decide("ours")
			s.write("theirs")
			s.write("theirs")
			return out
		}, attempts.Contested, 3},
		"the decision depends on its result": {func(s *subject, _ int) remediation.Judgment {
			if s.value == "a" {
				return s.decide("b")
			}
			return s.decide("a")
		}, attempts.NotSettling, 3},
		"data change each time": {func(s *subject, i int) remediation.Judgment {
			s.data.revision++
			return s.decide(fmt.Sprint(i))
		}, attempts.Settling, rounds},
		"data change to and fro": {func(s *subject, i int) remediation.Judgment {
			s.data.revision++
			s.write(s.value)
			return s.decide(fmt.Sprint(i % 2))
		}, attempts.Settling, rounds},
		"data change to and fro, and the webhook places it": {func(s *subject, i int) remediation.Judgment {
			s.data.revision++
			out := s.decide("a")
			s.data.revision++
			s.write("b")
			s.decide("b")
			return out
		}, attempts.Settling, rounds},
		"another policy decides it each time": {func(s *subject, i int) remediation.Judgment {
			s.policy = &placement.Policy{Name: fmt.Sprint(i % 2), Mode: s.policy.Mode, Remediation: s.policy.Remediation, Evaluator: s.data}
			return s.decide(fmt.Sprint(i % 2))
		}, attempts.Settling, rounds},
		"it is created again under its name": {func(s *subject, i int) remediation.Judgment {
			out := s.decide("ours")
			s.uid = types.UID(fmt.Sprint(i))
			s.write("theirs")
			return out
		}, attempts.Settling, rounds},
		"data are missing": {func(s *subject, i int) remediation.Judgment {
			s.data.revision = 0
			return s.decide(fmt.Sprint(i % 2))
		}, attempts.Settling, rounds},
		"its owner asks for something else each time": {func(s *subject, i int) remediation.Judgment {
			s.write("asked")
			return s.decide(fmt.Sprint(i))
		}, attempts.Settling, rounds},
		"it is changed back each hour": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.now = s.now.Add(time.Hour)
			s.write("theirs")
			return out
		}, attempts.Settling, rounds},
		"the policy changes in between": {func(s *subject, i int) remediation.Judgment {
			if i%3 == 0 {
				s.scheduler.ForgetPatches(func(remediation.Key) bool { return true })
			}
			out := s.decide("ours")
			s.write("theirs")
			return out
		}, attempts.Settling, rounds},
		"it is deleted and created again": {func(s *subject, _ int) remediation.Judgment {
			out := s.decide("ours")
			s.scheduler.Forget(s.now, key("configmaps", "shop", "web"))
			s.write("theirs")
			return out
		}, attempts.Settling, rounds},
	} {
		t.Run(name, func(t *testing.T) {
			s, began := newSubject(), 0
			var last remediation.Judgment
			for i := range rounds {
				if last = tt.do(s, i); last.Began {
					began++
				}
			}
			if last.Stability != tt.want || s.patches != tt.patches || began != min(int(tt.want), 1) {
				t.Errorf("stability %d after %d patches, began %d times; want %d after %d", last.Stability, s.patches, began, tt.want, tt.patches)
			}
			if again := last.Again; (again > 0 && again <= time.Hour) != (tt.want != attempts.Settling) {
				t.Errorf("judged again after %s", again)
			}
		})
	}
}

// TestStabilityEnds checks that an object is patched again after an hour, and that nothing is concluded from an object that the watch
// has not delivered after its patch.
func TestStabilityEnds(t *testing.T) {
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
	stale, verdicts := s.object(), s.due("ours")
	s.decide("ours")
	for range 10 {
		got := s.scheduler.Judge(s.now, key("configmaps", "shop", "web"), stale, verdicts, decisions.DataOf(nil))
		if diff := cmp.Diff(remediation.Judgment{}, got); diff != "" {
			t.Fatalf("an old version: %s", diff)
		}
	}
}

// TestStabilityOfFields checks that only the fields are left alone of which patches do not last.
func TestStabilityOfFields(t *testing.T) {
	s := newSubject()
	verdict := func(mode placementv1.RemediationMode, fields ...string) *placement.Verdict {
		v := &placement.Verdict{Policy: &placement.Policy{Name: string(mode), Mode: placementv1.ModeEnforce, Remediation: mode, Evaluator: s.data}}
		for _, field := range fields {
			v.Changes = append(v.Changes, placement.Change{Field: "annotations", Key: field, To: new("ours")})
		}
		return v
	}
	contested, other, approved := verdict(placementv1.RemediationAutomatic, "a"), verdict(placementv1.RemediationAutomatic, "b"), verdict(placementv1.RemediationApproved, "c")
	other.Policy, approved.Policy.Name = contested.Policy, "approved"
	both := verdict(placementv1.RemediationAutomatic, "a", "b")
	both.Policy = contested.Policy
	round := func(v ...*placement.Verdict) remediation.Judgment {
		s.now = s.now.Add(time.Second)
		out := s.act(v)
		s.write("theirs")
		return out
	}
	// Two clients, each of which changes another field back.
	for i := range 20 {
		round([]*placement.Verdict{contested, other}[i%2])
	}
	if s.patches > 8 {
		t.Errorf("patched %d times for two fields", s.patches)
	}
	s = newSubject()
	for range 20 {
		round(contested)
	}
	if got := round(contested); got.Stability != attempts.Contested || len(got.Due) != 1 || s.patches != 3 {
		t.Errorf("contested: %+v after %d patches", got, s.patches)
	}
	if got := round(both); got.Stability != attempts.Settling {
		t.Errorf("another field of the policy is held, too: %+v", got)
	}
	if got := round(contested, approved); got.Stability != attempts.Settling {
		t.Errorf("another policy is held, too: %+v", got)
	}
	// What a plan requires that is not approved yet is no result of a patch.
	s = newSubject()
	s.act([]*placement.Verdict{contested, approved})
	satisfied := &placement.Verdict{Policy: contested.Policy}
	for range 10 {
		if got := s.act([]*placement.Verdict{satisfied, approved}); got.Stability != attempts.Settling || s.patches != 1 {
			t.Errorf("a plan that waits: %+v after %d patches", got, s.patches)
		}
		s.scheduler.Done(s.now, key("configmaps", "shop", "web"), remediation.Due{contested}, remediation.Patch{
			Ending: remediation.Made, Object: s.object(), Version: fmt.Sprint(s.version + 1),
			Data: decisions.DataOf([]*decisions.PolicyDecision{decisions.NewPolicyDecision(contested.Policy), decisions.NewPolicyDecision(approved.Policy)}),
		})
		s.version++
	}
}

// TestPatchesAreBounded checks for random histories that an object whose data stay the same is patched at most three times before
// it is left alone, and at most six times within an hour, whatever other clients write.
func TestPatchesAreBounded(t *testing.T) {
	for seed := range uint64(budget.Rounds(100)) {
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
		"the clusters of a placement": {
			[]metav1.ManagedFieldsEntry{entry("flux", 1, `{"f:spec":{"f:placement":{"f:clusterAffinity":{"f:clusterNames":{}}}}}`), entry("kubectl", 2, tier)},
			placement.Change{Field: "clusters", Key: "spec.placement.clusterAffinity.clusterNames", To: new(`["eu"]`)}, "flux",
		},
		"no entry": {nil, annotation, ""},
	} {
		t.Run(name, func(t *testing.T) {
			due := remediation.Due{{Policy: &placement.Policy{Name: "p"}, Changes: []placement.Change{tt.change}}}
			if diff := cmp.Diff(tt.want, remediation.ManagerOf(tt.entries, due)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
