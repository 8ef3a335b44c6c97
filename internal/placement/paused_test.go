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
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// decidePaused decides while remediation of the named policies is paused.
func decidePaused(t *testing.T, paused []string, obj, old *unstructured.Unstructured, all ...*placement.Policy) *placement.Outcome {
	t.Helper()
	d := &placement.Decider{
		Policies: policies(all), Namespaces: namespaces{}, Keyring: keyring(t, "k"),
		Paused: func(policy, _ string) bool { return slices.Contains(paused, policy) },
	}
	out, err := d.Decide(t.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: obj, Old: old})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func noAnnotations(obj *unstructured.Unstructured) { obj.SetAnnotations(nil) }

// failing makes a policy fail with failure policy Ignore.
func failing(p *placement.Policy) {
	p.FailurePolicy, p.Evaluator = placementv1.FailurePolicyIgnore, &fakeEvaluator{err: errFake}
}

// TestUpdatesWhileAPolicyIsPaused checks that updates keep what a paused policy set, unless they request another value.
func TestUpdatesWhileAPolicyIsPaused(t *testing.T) {
	tests := map[string]struct {
		asked  string
		update func(*unstructured.Unstructured)
		// now is what the policy sets while it is paused. It is empty for a policy that cannot decide.
		now, want string
	}{
		"Note":           {update: annotate("note", "x"), now: "v2", want: "v1"},
		"NoAnnotations":  {update: noAnnotations, now: "v2", want: "v1"},
		"Removes":        {update: annotate("zone", ""), now: "v2", want: "v1"},
		"Sets":           {update: annotate("zone", "mine"), now: "v2", want: "v2"},
		"AppliesAgain":   {asked: "wish", update: annotate("zone", "wish"), now: "v2", want: "v1"},
		"RemovesTheWish": {asked: "wish", update: annotate("zone", ""), now: "v2", want: "v2"},
		"Reads":          {update: label("app", "db"), now: "v2", want: "v1"},
		"Undecided":      {update: noAnnotations, want: "v1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			asked := newObject("web", metadata{"labels": {"app": "web"}, "annotations": {"other": "y"}})
			if tc.asked != "" {
				annotate("zone", tc.asked)(asked)
			}
			stored := decide(t, asked, nil, zoned(t, placementv1.RemediationAutomatic, "v1")).Object
			next := stored.DeepCopy()
			tc.update(next)
			p := zoned(t, placementv1.RemediationAutomatic, tc.now)
			if tc.now == "" {
				failing(p)
			}
			out := decidePaused(t, []string{"p"}, next, stored, p).Object
			if got := out.GetAnnotations()["zone"]; got != tc.want {
				t.Errorf("zone %q, want %q", got, tc.want)
			}
			again := decidePaused(t, []string{"p"}, out, stored, p).Object
			if recordOf(again) != recordOf(out) || again.GetAnnotations()["zone"] != tc.want {
				t.Errorf("the webhook's second call changes the annotations from %v to %v", out.GetAnnotations(), again.GetAnnotations())
			}
		})
	}
}

// TestClustersWhileAPolicyIsPaused checks that an update during a pause cannot add clusters that the object did not
// have and that are not allowed.
func TestClustersWhileAPolicyIsPaused(t *testing.T) {
	update := func(list string) func(*unstructured.Unstructured) { return annotate(clustersKey, list) }
	residency := func(t *testing.T) *placement.Policy { return allows(t, "residency", []string{"eu-1", "eu-2"}) }
	us := func(t *testing.T) *placement.Policy { return allows(t, "cost", []string{"us-1"}) }
	none := func(t *testing.T) *placement.Policy { return allows(t, "residency", []string{}) }
	pci := func(t *testing.T) *placement.Policy {
		return with(residency(t), func(p *placement.Policy) {
			p.Evaluator = byTier{&fakeEvaluator{}, []string{"eu-1"}, []string{}, new(int)}
		})
	}
	tests := map[string]struct {
		asked  string
		update func(*unstructured.Unstructured)
		by     policies
		want   string
		denied bool
	}{
		"NoAnnotations":          {update: noAnnotations, by: policies{residency(t)}, want: `["eu-1","eu-2"]`},
		"OtherClusters":          {update: update(`["us-1"]`), by: policies{residency(t)}, denied: true},
		"Narrowed":               {update: update(`["eu-1","us-1"]`), by: policies{residency(t)}, want: `["eu-1"]`},
		"AllGoneByTheUpdate":     {update: label("tier", "pci"), by: policies{pci(t)}, denied: true},
		"ReadsAndKeeps":          {update: label("tier", "tin"), by: policies{pci(t)}, want: `["eu-1","eu-2"]`},
		"AllGone":                {update: noAnnotations, by: policies{none(t)}, want: `["eu-1","eu-2"]`},
		"AllGoneAndAnother":      {update: update(`["eu-1"]`), by: policies{none(t)}, denied: true},
		"OwnListStays":           {asked: `["eu-1"]`, update: annotate("note", "x"), by: policies{none(t)}, want: `["eu-1"]`},
		"AppliedAgain":           {asked: `["eu-1","us-1"]`, update: update(`["eu-1","us-1"]`), by: policies{none(t)}, want: `["eu-1"]`},
		"Undecided":              {update: noAnnotations, by: policies{with(residency(t), failing)}, want: `["eu-1","eu-2"]`},
		"Denies":                 {update: noAnnotations, by: policies{with(residency(t), denying)}, denied: true},
		"AnotherPolicyNarrows":   {update: noAnnotations, by: policies{none(t), allows(t, "cost", []string{"eu-1", "us-1"})}, want: `["eu-1"]`},
		"AnotherPolicyOverrides": {asked: `["eu-1"]`, update: annotate("note", "x"), by: policies{residency(t), with(us(t), overrides)}, denied: true},
		"AnotherPolicyWidens": {
			asked: `["eu-1"]`, update: annotate("note", "x"),
			by: policies{residency(t), with(allows(t, "cost", []string{"eu-1", "eu-2", "us-1"}), overrides)}, want: `["eu-1"]`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			stored := decide(t, asking(tc.asked), nil, residency(t)).Object
			next := stored.DeepCopy()
			tc.update(next)
			out := decidePaused(t, []string{"residency"}, next, stored, tc.by...)
			if refused(out) != tc.denied {
				t.Fatalf("denied = %t: %v", refused(out), summary(out))
			}
			if got := out.Object.GetAnnotations()[clustersKey]; !tc.denied && got != tc.want {
				t.Errorf("clusters %q, want %q", got, tc.want)
			}
		})
	}
}

func denying(p *placement.Policy) { p.Evaluator = &fakeEvaluator{errors: []string{"no"}} }

// TestPausedUpdatesKeepOrAreDecided checks that an update of an object whose policy is paused gives either the current
// values or what the policy decides.
func TestPausedUpdatesKeepOrAreDecided(t *testing.T) {
	lists := []string{"", `["eu-1"]`, `["us-1"]`, `["eu-1","us-1"]`, `["eu-1","eu-2"]`, `["eu-2","us-1"]`, `[]`, `null`, "eu-1"}
	nows := [][]string{nil, {}, {"eu-1"}, {"eu-2", "us-1"}, {"us-1"}}
	changes := []func(*placement.Policy){func(*placement.Policy) {}, overrides, clears, manual, failing, denying, func(p *placement.Policy) { p.Remediation = placementv1.RemediationNewOnly }}
	for _, asked := range lists[:6] {
		first := decide(t, asking(asked), nil, allows(t, "p", []string{"eu-1", "us-1"}))
		if refused(first) {
			continue
		}
		// A client may send the record of an earlier placement again.
		stored := decide(t, first.Object, first.Object, allows(t, "p", []string{"eu-1"})).Object
		for _, record := range []string{"", recordOf(first.Object), recordOf(stored)} {
			for i, list := range lists {
				for j, now := range nows {
					for k, change := range changes {
						next := asking(list)
						if record != "" {
							setRecord(next, record)
						}
						p := with(allows(t, "p", now), change)
						paused, plain := decidePaused(t, []string{"p"}, next, stored, p), decide(t, next, stored, p)
						name := fmt.Sprintf("asked %s, record %q, list %d, now %d, change %d", asked, record, i, j, k)
						got := paused.Object.GetAnnotations()[clustersKey]
						keeps, decided := got == stored.GetAnnotations()[clustersKey], got == plain.Object.GetAnnotations()[clustersKey]
						if !refused(paused) && !keeps && (!decided || refused(plain)) {
							t.Fatalf("%s: clusters %q, stored %q, decided %q", name, got, stored.GetAnnotations()[clustersKey], plain.Object.GetAnnotations()[clustersKey])
						}
						if refused(paused) && !refused(plain) {
							t.Fatalf("%s: denied while the policy is paused: %v", name, summary(paused))
						}
					}
				}
			}
		}
	}
}
