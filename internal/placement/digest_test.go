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

package placement_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
)

// randomOutcome returns a random outcome of a few policies. Equal seeds give equal outcomes that share no maps or
// slices.
func randomOutcome(seed uint64) *placement.Outcome {
	r := rand.New(rand.NewPCG(seed, 0))
	texts := func() []string {
		var out []string
		for i := range r.IntN(3) {
			out = append(out, fmt.Sprintf("%d-%d", i, r.IntN(2)))
		}
		return out
	}
	values := func() map[string]string {
		out := map[string]string{}
		for range r.IntN(6) {
			out[fmt.Sprintf("key-%d", r.IntN(9))] = fmt.Sprint(r.IntN(2))
		}
		return out
	}
	out := &placement.Outcome{}
	for i := range 1 + r.IntN(3) {
		v := &placement.Verdict{
			Policy: &placement.Policy{
				Name: fmt.Sprintf("policy-%d", i), Generation: r.Int64(), Priority: r.Int32(),
				Mode:          []placementv1.Mode{placementv1.ModeEnforce, placementv1.ModeWarn, placementv1.ModeDryRun}[r.IntN(3)],
				FailurePolicy: placementv1.FailurePolicyFail,
			},
			Decision: placement.Decision{Annotations: values(), Labels: values(), Errors: texts(), Warnings: texts(), Clusters: texts()},
		}
		if r.IntN(4) == 0 {
			v.Decision, v.Err = placement.Decision{}, fmt.Errorf("failed after %dms", r.IntN(1000))
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	return out
}

// differences are changes of an outcome that must change its digest.
var differences = map[string]func(*placement.Outcome, *placement.Verdict){
	"policy":           func(_ *placement.Outcome, v *placement.Verdict) { v.Policy.Name += "x" },
	"mode":             func(_ *placement.Outcome, v *placement.Verdict) { v.Policy.Mode += "x" },
	"annotation":       func(_ *placement.Outcome, v *placement.Verdict) { v.Decision.Annotations["new"] = "" },
	"annotation value": func(_ *placement.Outcome, v *placement.Verdict) { v.Decision.Annotations["key-0"] += "x" },
	"label":            func(_ *placement.Outcome, v *placement.Verdict) { v.Decision.Labels["new"] = "" },
	"label for annotation": func(_ *placement.Outcome, v *placement.Verdict) {
		v.Decision.Annotations["moved"] = "x"
		v.Decision.Annotations, v.Decision.Labels = v.Decision.Labels, v.Decision.Annotations
	},
	"error": func(_ *placement.Outcome, v *placement.Verdict) { v.Decision.Errors = append(v.Decision.Errors, "") },
	"warning": func(_ *placement.Outcome, v *placement.Verdict) {
		v.Decision.Warnings = append(v.Decision.Warnings, "")
	},
	"errors for warnings": func(_ *placement.Outcome, v *placement.Verdict) {
		v.Decision.Errors = append(v.Decision.Errors, "moved")
		v.Decision.Errors, v.Decision.Warnings = v.Decision.Warnings, v.Decision.Errors
	},
	"failure": func(_ *placement.Outcome, v *placement.Verdict) { v.Err = errors.New("oh") },
	"ignored failure": func(_ *placement.Outcome, v *placement.Verdict) {
		v.Err, v.Policy.FailurePolicy = errors.New("oh"), placementv1.FailurePolicyIgnore
	},
	"one more": func(o *placement.Outcome, _ *placement.Verdict) {
		o.Verdicts = append(o.Verdicts, &placement.Verdict{Policy: &placement.Policy{}})
	},
	"one less": func(o *placement.Outcome, _ *placement.Verdict) { o.Verdicts = o.Verdicts[1:] },
	"order": func(o *placement.Outcome, v *placement.Verdict) {
		first := *v
		o.Verdicts = append(slices.Clone(o.Verdicts), &placement.Verdict{Policy: &placement.Policy{Name: "last"}})
		o.Verdicts[0], o.Verdicts[len(o.Verdicts)-1] = o.Verdicts[len(o.Verdicts)-1], &first
	},
}

func TestDigest(t *testing.T) {
	form := regexp.MustCompile("^sha256:[0-9a-f]{64}$")
	for seed := range uint64(budget.Rounds(300)) {
		digest := randomOutcome(seed).Digest()
		if !form.MatchString(digest) {
			t.Fatalf("seed %d: digest %q", seed, digest)
		}
		seen := map[string]string{digest: "nothing"}
		for _, name := range slices.Sorted(maps.Keys(differences)) {
			o := randomOutcome(seed)
			if o.Verdicts[0].Err != nil && name != "policy" && name != "mode" {
				// The decision of a policy that failed does not count.
				continue
			}
			differences[name](o, o.Verdicts[0])
			if other, taken := seen[o.Digest()]; taken {
				t.Errorf("seed %d: changing %s makes the digest that changing %s does", seed, name, other)
			}
			seen[o.Digest()] = name
		}
	}
}

func TestDigestOfEqualDecisions(t *testing.T) {
	for seed := range uint64(budget.Rounds(300)) {
		want, o := randomOutcome(seed).Digest(), randomOutcome(seed)
		for _, v := range o.Verdicts {
			v.Policy.Generation++
			v.Policy.Priority++
			v.Changes = append(v.Changes, placement.Change{Key: "changed"})
			if v.Err != nil {
				v.Err = errors.New("failed elsewhere")
				v.Decision.Errors = []string{"stale"}
			}
			for _, values := range []*map[string]string{&v.Decision.Annotations, &v.Decision.Labels} {
				if len(*values) == 0 {
					*values = nil
				}
			}
		}
		if got := o.Digest(); got != want {
			t.Errorf("seed %d: digest %s, want %s", seed, got, want)
		}
	}
	if got := (&placement.Outcome{}).Digest(); got != "" {
		t.Errorf("digest of no decision is %q", got)
	}
}

// TestDigestOfOneObject checks that the digest depends neither on how a replica loaded its policies nor on earlier
// decisions.
func TestDigestOfOneObject(t *testing.T) {
	all := []*placement.Policy{sets(t, "a", 0, "k", "1"), sets(t, "b", 5, "k", "2"), sets(t, "c", 0, "l", "3")}
	first := decide(t, newObject("web", newMetadata()), nil, all...)
	for range 10 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got := decide(t, first.Object, nil, all...).Digest(); got != first.Digest() {
			t.Fatalf("digest %s, was %s", got, first.Digest())
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	o := &placement.Outcome{}
	for i := range 3 {
		o.Verdicts = append(o.Verdicts, &placement.Verdict{
			Policy:   &placement.Policy{Name: fmt.Sprintf("policy-%d", i), Mode: placementv1.ModeEnforce},
			Decision: placement.Decision{Annotations: map[string]string{"example.com/zone": "a", "example.com/cluster": "eu1"}, Warnings: []string{"zone b closes soon"}},
		})
	}
	for b.Loop() {
		o.Digest()
	}
}
