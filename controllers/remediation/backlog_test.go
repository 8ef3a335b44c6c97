package remediation

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

// oracle is a policy that says how often it was asked, of a world that the test changes.
type oracle struct {
	revision, asked atomic.Uint64
	// during, if it is not nil, is called when the policy is asked.
	during func()
}

func (o *oracle) Revision() uint64 { return o.revision.Load() }

func (*oracle) Input() *projection.Fields { return specs }

var specs = func() *projection.Fields {
	f := &projection.Fields{}
	f.Name("spec").All()
	return f.Seal()
}()

func (o *oracle) Evaluate(context.Context, map[string]any) (placement.Decision, error) {
	o.asked.Add(1)
	if o.during != nil {
		o.during()
	}
	return placement.Decision{Errors: []string{fmt.Sprintf("of revision %d", o.revision.Load())}}, nil
}

// follower is a leader that follows changes, with one policy on two Deployments that are alike.
type follower struct {
	*leader
	*oracle
}

// newFollower starts one. Its policy asks predicates, which look at nodes, or reads ClusterProfiles, or both.
func newFollower(t *testing.T, asks, reads bool) *follower {
	t.Helper()
	l := newLeader(t)
	out := &follower{leader: l, oracle: &oracle{}}
	out.revision.Store(1)
	binding := &policy.Binding{}
	if asks {
		binding.World = map[schema.GroupVersionResource]*projection.Fields{nodes: projection.Everything()}
	}
	if reads {
		binding.Resources = []policy.Resource{{GroupVersionResource: profiles}}
	}
	spec := onDeployments("", "").WithDefaults()
	matcher, errs := match.New(spec.Match, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	l.Registry.Set("p", &placement.Standing{Binding: binding, Generation: 1, Policy: &placement.Policy{
		Name: "p", Generation: 1, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationManual, Matcher: matcher, Evaluator: out.oracle,
	}})
	l.fill(deployments, []*unstructured.Unstructured{deployment("a", "", ""), deployment("b", "", "")})
	l.decided()
	ctx, stop := context.WithCancel(t.Context())
	go l.follow(ctx)
	t.Cleanup(func() {
		stop()
		synctest.Wait()
	})
	// Both have to be decided before they are known to be alike.
	pass(t, time.Minute)
	l.decided()
	pass(t, time.Minute)
	l.decided()
	out.asked.Store(0)
	return out
}

// pass lets time pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

// moves changes the world.
func (f *follower) moves() {
	f.revision.Add(1)
	f.WorldChanged()
}

// Changes of the world are gathered for a second from the first one on, and then looked at together.
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

// Changes that never end hold up nothing, and are looked at once a second.
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

// A change that comes while policies are asked is looked at afterwards.
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

// Data does not wait for the world, where a policy looks at both, and policies of other data do not hurry for it.
func TestDataDoesNotWait(t *testing.T) {
	tests := map[string]struct {
		asks, reads bool
		change      func(*follower)
		// soon and later are how often the policy is asked before the world settles, and by then.
		soon, later uint64
	}{
		"DataOfOne":        {reads: true, change: func(f *follower) { f.DataChanged(profiles) }, soon: 1, later: 1},
		"DataOfBoth":       {asks: true, reads: true, change: func(f *follower) { f.DataChanged(profiles) }, soon: 1, later: 1},
		"DataOfOthers":     {asks: true, change: func(f *follower) { f.DataChanged(profiles); f.WorldChanged() }, soon: 0, later: 1},
		"OtherDataOfBoth":  {asks: true, reads: true, change: func(f *follower) { f.DataChanged(deployments); f.WorldChanged() }, soon: 0, later: 1},
		"FieldsOfAnything": {asks: true, change: func(f *follower) { f.ReadsMore() }, soon: 1, later: 1},
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
				pass(t, 2*worldSettle)
				if got := f.asked.Load(); got != tc.later {
					t.Errorf("asked %d times, want %d", got, tc.later)
				}
			})
		})
	}
}

// An object whose decision the world has overtaken is decided again when it has settled, and not at once.
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
				f.targets.Put(deployments, other)
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
