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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/window"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func podKey(name string) remediation.Key {
	return remediation.Key{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: name}
}

func dueFor(policies ...*placement.Policy) remediation.Due {
	var out remediation.Due
	for _, p := range policies {
		out = append(out, &placement.Verdict{Policy: p})
	}
	return out
}

// rollsFor returns verdicts that change the pod template of an object.
func rollsFor(policies ...*placement.Policy) remediation.Due {
	out := dueFor(policies...)
	for _, v := range out {
		v.Changes = []placement.Change{{Field: "scheduling", Key: "nodeSelector/zone"}}
	}
	return out
}

// movesFor returns verdicts that change the clusters of an object.
func movesFor(policies ...*placement.Policy) remediation.Due {
	out := dueFor(policies...)
	for _, v := range out {
		v.Changes = []placement.Change{{Field: "annotations", Key: placementv1.ClustersAnnotation, From: new(`["a"]`), To: new(`["b"]`)}}
	}
	return out
}

// paced returns the budget of a number of patches a minute.
func paced(perMinute int32) placementv1.RemediationBudget {
	return placementv1.RemediationBudget{MaxPerMinute: perMinute}
}

func hourly(minute int, length time.Duration) window.Windows {
	return window.ParseAll([]placementv1.RemediationWindow{{Start: fmt.Sprintf("%d * * * *", minute), Duration: metav1.Duration{Duration: length}}})
}

func TestBudget(t *testing.T) {
	paced := &placement.Policy{Name: "paced", Budget: paced(6)}
	closed := &placement.Policy{Name: "closed", Windows: hourly(30, 10*time.Minute)}
	free := &placement.Policy{Name: "free"}
	c := newBudgetCase(t, remediation.Limits{})
	c.Begin(midnight)
	spend := func(after time.Duration, name string, ok bool, wake time.Duration, policies ...*placement.Policy) {
		t.Helper()
		c.now = midnight.Add(after)
		key, due := podKey(name), dueFor(policies...)
		c.spends(key, due, ok)
		if next := c.next(); next.wake != wake || len(next.keys) > 0 {
			t.Errorf("%s after %s: %v and %s, not %s", name, after, next.keys, next.wake, wake)
		}
		if ok {
			c.done(key, due, remediation.Patch{Ending: remediation.Made})
		}
	}
	open := func(after, wake time.Duration, names ...string) {
		t.Helper()
		c.now = midnight.Add(after)
		next := c.next()
		if diff := cmp.Diff(names, namesOf(next.keys)); diff != "" || next.wake != wake {
			t.Errorf("after %s: wake is %s, not %s (-want +got):\n%s", after, next.wake, wake, diff)
		}
	}
	// A policy without bounds waits for nothing. The predecessor may have patched just before the budget began.
	spend(0, "free", true, 0, free)
	spend(0, "a", false, 10*time.Second, paced)
	spend(0, "b", false, 10*time.Second, paced)
	spend(time.Second, "c", false, 9*time.Second, closed)
	spend(time.Second, "d", false, 9*time.Second, paced, closed)
	if diff := cmp.Diff(remediation.Waiting{Paced: 2, Closed: 1, Opens: midnight.Add(30 * time.Minute), ClosedFor: "closed"}, c.waiting("paced")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(remediation.Waiting{Closed: 2, Opens: midnight.Add(30 * time.Minute), ClosedFor: "closed"}, c.waiting("closed")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	// One object waits longest, and the next one is tried after the interval even if the first one is not patched.
	open(9*time.Second, time.Second)
	open(10*time.Second, 10*time.Second, "a")
	open(20*time.Second, 29*time.Minute+40*time.Second, "b")
	spend(20*time.Second, "b", true, 29*time.Minute+40*time.Second, paced)
	// An object that needs no patch any more does not wait.
	c.decided(podKey("d"), nil)
	open(30*time.Second, 29*time.Minute+30*time.Second)
	open(30*time.Minute, 0, "c")
	spend(30*time.Minute, "c", true, 0, closed)
	// A later version of the policy decides everything that waits for the earlier one. Its pace goes on.
	spend(40*time.Minute, "e", false, 50*time.Minute, closed)
	c.now = midnight.Add(41 * time.Minute)
	if diff := cmp.Diff([]remediation.Key{podKey("e")}, c.changed("closed", closed).keys); diff != "" {
		t.Errorf("forgotten (-want +got):\n%s", diff)
	}
	// The time at which "e" would have gone on comes none the less.
	spend(41*time.Minute, "f", true, 49*time.Minute, paced)
	c.changed("paced", paced)
	spend(41*time.Minute, "g", false, 10*time.Second, paced)
}

func TestBudgetOverAllPolicies(t *testing.T) {
	c := newBudgetCase(t, remediation.Limits{MaxPerMinute: 60})
	c.now = midnight.Add(time.Second)
	c.spends(podKey("a"), dueFor(&placement.Policy{Name: "one"}), true)
	c.spends(podKey("b"), dueFor(&placement.Policy{Name: "two"}), false)
	if wake := c.next().wake; wake != time.Second {
		t.Errorf("wake after %s", wake)
	}
	if diff := cmp.Diff(remediation.Waiting{Paced: 1}, c.waiting("two")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

// namesOf returns the names of objects, sorted.
func namesOf(keys []remediation.Key) []string {
	var out []string
	for _, key := range keys {
		out = append(out, key.Name)
	}
	slices.Sort(out)
	return out
}

// TestPauseNote checks that the Event about a pause names no object, unlike the policy's condition.
func TestPauseNote(t *testing.T) {
	w := &remediation.Waiting{Pause: "7-1", Failures: []remediation.Failure{{Key: podKey("web"), Reason: "its rollout failed"}}}
	const release = "kubectl annotate plpol p --overwrite " + placementv1.ResumeAfterFailuresAnnotation + "=7-1"
	for text, named := range map[string]bool{w.PauseMessage("p", true): true, w.PauseMessage("p", false): false} {
		if !strings.HasPrefix(text, "1 objects failed") || !strings.HasSuffix(text, release) {
			t.Errorf("%q", text)
		}
		if strings.Contains(text, "such as pods default/web: its rollout failed") != named || strings.Contains(text, "web") != named {
			t.Errorf("%q", text)
		}
	}
	if none := (&remediation.Waiting{}).PauseMessage("p", false); none != "" {
		t.Errorf("%q", none)
	}
}
