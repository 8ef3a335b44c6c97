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

package remediator

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

var nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// oracle is a policy that counts its evaluations. The test changes the revision of its data.
type oracle struct {
	revision, asked atomic.Uint64
	// during, if it is not nil, is called while the policy is evaluated.
	during func()
}

func (o *oracle) Revision() uint64 { return o.revision.Load() }

func (*oracle) Input() *projection.FieldSet { return specs }

var specs = func() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("spec").AddAll()
	return f.Seal()
}()

func (o *oracle) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	o.asked.Add(1)
	if o.during != nil {
		o.during()
	}
	return placement.Decision{Errors: []string{fmt.Sprintf("of revision %d", o.revision.Load())}}, nil
}

// follower is a leader that follows changes. It has one policy and two equal Deployments.
type follower struct {
	*leader
	*oracle
}

// newFollower starts a follower. Its policy evaluates predicates on nodes, reads ClusterProfiles, or both.
func newFollower(t *testing.T, asks, reads bool) *follower {
	t.Helper()
	l := newLeader(t)
	out := &follower{leader: l, oracle: &oracle{}}
	out.revision.Store(1)
	binding := &policy.Binding{}
	if asks {
		binding.PredicateReads = map[schema.GroupVersionResource]*projection.FieldSet{nodes: projection.AllFields()}
	}
	if reads {
		binding.Resources = []policy.Resource{{GroupVersionResource: profiles}}
	}
	spec := onDeployments("", "").WithDefaults()
	matcher, errs := match.New(spec.Match, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	l.Registry.Set("p", &placement.PolicyState{Binding: binding, Generation: 1, Policy: &placement.Policy{
		Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationManual, Matcher: matcher, Evaluator: out.oracle,
	}})
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "", ""), deployment("b", "", "")})
	l.decided()
	ctx, stop := context.WithCancel(t.Context())
	go l.follow(ctx)
	go l.schedule(ctx)
	t.Cleanup(func() {
		stop()
		synctest.Wait()
	})
	// Both objects must be decided once before they are known to be equal.
	pass(t, time.Minute)
	l.decided()
	pass(t, time.Minute)
	l.decided()
	out.asked.Store(0)
	return out
}

// pass waits for d of the test's fake time.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

// moves changes the nodes and pods.
func (f *follower) moves() {
	f.revision.Add(1)
	f.PredicateDataChanged()
}

// TestWorldSettles checks that changes of nodes and pods are collected for a second from the first one on, and then
// processed together.
func TestWorldSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, true, false)
		f.moves()
		pass(t, 900*time.Millisecond)
		f.moves()
		if got := f.asked.Load(); got != 0 {
			t.Errorf("asked %d times before the world has settled", got)
		}
		pass(t, 200*time.Millisecond)
		if got := f.asked.Load(); got != 1 {
			t.Errorf("asked %d times about one group", got)
		}
		if diff := cmp.Diff([]string{"a", "b"}, f.decided()); diff != "" {
			t.Errorf("decided (-want +got):\n%s", diff)
		}
		f.asked.Store(0)
		pass(t, time.Minute)
		if got := f.asked.Load(); got != 0 {
			t.Errorf("asked %d times without a change", got)
		}
	})
}

// TestWorldNeverSettles checks that continuous changes are processed once a second.
func TestWorldNeverSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, true, false)
		for range 1000 {
			f.moves()
			pass(t, 10*time.Millisecond)
		}
		if got := f.asked.Load(); got < 9 || got > 10 {
			t.Errorf("asked %d times in ten seconds", got)
		}
	})
}

// TestWorldChangesWhileAsked checks that a change during an evaluation is processed afterwards.
func TestWorldChangesWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, true, false)
		changed := false
		f.during = func() {
			if !changed {
				changed = true
				f.moves()
			}
		}
		f.moves()
		pass(t, time.Minute)
		if got := f.asked.Load(); got != 2 {
			t.Errorf("asked %d times about two changes", got)
		}
	})
}

// TestDataDoesNotWait checks that changed data is processed at once, even for a policy that also evaluates predicates,
// and that it does not make policies that read other data skip the wait.
func TestDataDoesNotWait(t *testing.T) {
	tests := map[string]struct {
		asks, reads bool
		change      func(*follower)
		// soon and later are how often the policy is evaluated before predicateSettle has passed, and in total after it.
		soon, later uint64
	}{
		"DataOfOne":        {reads: true, change: func(f *follower) { f.DataChanged(profiles) }, soon: 1, later: 1},
		"DataOfBoth":       {asks: true, reads: true, change: func(f *follower) { f.DataChanged(profiles) }, soon: 1, later: 1},
		"DataOfOthers":     {asks: true, change: func(f *follower) { f.DataChanged(profiles); f.PredicateDataChanged() }, soon: 0, later: 1},
		"OtherDataOfBoth":  {asks: true, reads: true, change: func(f *follower) { f.DataChanged(deployments); f.PredicateDataChanged() }, soon: 0, later: 1},
		"FieldsOfAnything": {asks: true, change: func(f *follower) { f.FieldsReadChanged() }, soon: 1, later: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(t, tc.asks, tc.reads)
				f.revision.Add(1)
				tc.change(f)
				pass(t, 2*settle)
				if got := f.asked.Load(); got != tc.soon {
					t.Errorf("asked %d times before the world has settled, want %d", got, tc.soon)
				}
				pass(t, 2*predicateSettle)
				if got := f.asked.Load(); got != tc.later {
					t.Errorf("asked %d times, want %d", got, tc.later)
				}
			})
		})
	}
}

// TestOvertakenByTheWorld checks that an object whose decision was overtaken by a change of nodes is decided again
// after predicateSettle, and not immediately.
func TestOvertakenByTheWorld(t *testing.T) {
	for name, tc := range map[string]struct {
		asks  bool
		again []string
		later int
	}{
		"Predicates": {asks: true, later: 1},
		"Data":       {again: []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(t, tc.asks, !tc.asks)
				f.during = func() { f.revision.Add(1) }
				other := deployment("c", "", "")
				other.Object["spec"] = map[string]any{"replicas": int64(9)}
				f.objects.Put(deployments, other)
				key, _ := f.work.Get()
				if _, err := f.Reconcile(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				f.during = nil
				if got := f.work.after[remediation.Key{Resource: deployments, Namespace: "shop", Name: "c"}]; len(got) != tc.later {
					t.Errorf("to be decided after %v", got)
				}
				if diff := cmp.Diff(tc.again, f.decided()); diff != "" {
					t.Errorf("decided at once (-want +got):\n%s", diff)
				}
			})
		})
	}
}
