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
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

// distant is a fake remote engine that records its queries.
type distant struct {
	endpoint string
	// takes is how long a response takes, in nanoseconds.
	takes    atomic.Int64
	revision atomic.Uint64
	// says returns the response.
	says func(input map[string]any) (placement.Decision, error)

	mu            sync.Mutex
	at            map[string][]time.Time
	running, most int
}

func newDistant(endpoint string, takes time.Duration) *distant {
	d := &distant{endpoint: endpoint, at: map[string][]time.Time{}, says: func(map[string]any) (placement.Decision, error) {
		return placement.Decision{Errors: []string{"no"}}, nil
	}}
	d.takes.Store(int64(takes))
	d.revision.Store(1)
	return d
}

func (d *distant) Evaluate(ctx context.Context, input map[string]any) (placement.Decision, error) {
	name := (&unstructured.Unstructured{Object: input}).GetName()
	d.mu.Lock()
	d.at[name] = append(d.at[name], time.Now())
	d.running++
	d.most = max(d.most, d.running)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.running--
		d.mu.Unlock()
	}()
	over := time.NewTimer(time.Duration(d.takes.Load()))
	defer over.Stop()
	select {
	case <-over.C:
		return d.says(input)
	case <-ctx.Done():
		return placement.Decision{}, d.fault(engine.FaultTimeout)
	}
}

func (d *distant) fault(f engine.Fault) error {
	return &engine.RemoteError{Endpoint: d.endpoint, Fault: f, Err: errors.New("no answer")}
}

func (d *distant) Revision() uint64          { return d.revision.Load() }
func (*distant) Input() *projection.FieldSet { return projection.AllFields() }
func (d *distant) Health() placement.RemoteHealth {
	return placement.RemoteHealth{Endpoint: d.endpoint}
}

// asked returns when the engine was queried for an object.
func (d *distant) asked(name string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.at[name])
}

// all returns how often the engine was queried.
func (d *distant) all() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for times := range maps.Values(d.at) {
		n += len(times)
	}
	return n
}

// start runs a leader with four workers, as in a manager, until the test ends.
func (l *leader) start() {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.CompactKey](100*time.Millisecond, time.Minute))
	ctx, stop := context.WithCancel(l.t.Context())
	// Drop the backlog: there were no objects when the policies were added.
	l.backlog.take(len(l.backlog.policies()))
	l.remoteQueue.ctx = ctx
	l.objects.Start(queue)
	go l.follow(ctx)
	go l.schedule(ctx)
	for range 4 {
		go func() {
			for {
				key, over := queue.Get()
				if over {
					return
				}
				result, err := l.Reconcile(ctx, key)
				switch {
				case err != nil:
					queue.AddRateLimited(key)
				case result.RequeueAfter > 0:
					queue.Forget(key)
					queue.AddAfter(key, result.RequeueAfter)
				default:
					queue.Forget(key)
				}
				queue.Done(key)
			}
		}()
	}
	l.t.Cleanup(func() {
		stop()
		queue.ShutDown()
	})
}

// put puts a policy in force on the Deployments of a tier.
func (l *leader) put(name, tier string, mode placementv1.RemediationMode, e placement.Evaluator) *placement.Policy {
	l.t.Helper()
	spec := onDeployments("", tier).WithDefaults()
	matcher, errs := match.New(spec.Match, nil)
	if len(errs) > 0 {
		l.t.Fatal(errs)
	}
	p := &placement.Policy{
		Name: name, Generation: 1, Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail, Remediation: mode, Matcher: matcher, Evaluator: e,
	}
	l.Registry.Set(name, &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: p})
	return p
}

const manual = placementv1.RemediationManual

// many returns n Deployments of a tier.
func many(n int, tier string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := range n {
		out = append(out, deployment(fmt.Sprintf("%s-%d", tier, i), tier, ""))
	}
	return out
}

// expect compares the ledger's report on a policy. violations does not include the objects that could not be decided.
func (l *leader) expect(when, policy string, matched, violations, failed int) {
	l.t.Helper()
	if r := l.Ledger.Report(policy); r.Matched != matched || r.Violations != violations+failed || r.Failed != failed {
		l.t.Errorf("%s: policy %s has decided %d objects with %d violations, and failed on %d (%s); want %d, %d, %d",
			when, policy, r.Matched, r.Violations, r.Failed, r.FailedMessage, matched, violations, failed)
	}
}

// waiting returns the number of tasks that wait in a queue.
func (l *leader) waiting(endpoints string) int {
	l.remoteQueue.mu.Lock()
	defer l.remoteQueue.mu.Unlock()
	n := 0
	for _, task := range l.remoteQueue.queues[endpoints].waiting {
		if l.remoteQueue.tasks[task.key] == task {
			n++
		}
	}
	return n
}

// nothingLeft checks that the remote queue holds no object any more.
func (l *leader) nothingLeft() {
	l.t.Helper()
	l.remoteQueue.mu.Lock()
	defer l.remoteQueue.mu.Unlock()
	if len(l.remoteQueue.tasks)+len(l.remoteQueue.queues) > 0 {
		l.t.Errorf("left are %d tasks in %d queues", len(l.remoteQueue.tasks), len(l.remoteQueue.queues))
	}
}

// TestSlowEngineDelaysNobody checks that a hanging engine with ten thousand waiting objects does not delay objects of
// other policies, and that only a few queries to it run concurrently.
func TestSlowEngineDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		hangs, quick, local := newDistant("https://hangs", time.Hour), newDistant("https://quick", 10*time.Millisecond), &oracle{}
		local.revision.Store(1)
		l.put("hangs", "a", manual, hangs)
		l.put("quick", "b", manual, quick)
		l.put("local", "c", manual, local)
		l.start()
		l.fill(deployments, slices.Concat(many(10_000, "a"), many(80, "b"), many(10, "c")))
		synctest.Wait()
		l.expect("at once", "local", 10, 10, 0)
		l.expect("at once", "quick", 0, 0, 0)
		pass(t, 150*time.Millisecond)
		l.expect("soon", "quick", 80, 80, 0)
		l.expect("soon", "hangs", 0, 0, 0)
		pass(t, 2*queryTimeout)
		l.expect("later", "hangs", 2*maxRunningTasks, 0, 2*maxRunningTasks)
		if hangs.most != maxRunningTasks || quick.most != maxRunningTasks {
			t.Errorf("asked about %d and %d at once", hangs.most, quick.most)
		}
		if got := quick.all(); got != 80 {
			t.Errorf("the quick one was asked %d times", got)
		}
		l.objects.Drop(deployments)
		pass(t, queryTimeout)
		l.nothingLeft()
	})
}

// TestSeveralEngines checks that an object that several engines decide is decided when all have responded.
func TestSeveralEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		slow, quick := newDistant("https://slow", 3*time.Second), newDistant("https://quick", 10*time.Millisecond)
		l.put("slow", "", manual, slow)
		l.put("quick", "", manual, quick)
		l.start()
		l.fill(deployments, many(3, "a"))
		pass(t, time.Second)
		l.expect("when one has answered", "quick", 0, 0, 0)
		pass(t, 3*time.Second)
		l.expect("when both have", "quick", 3, 3, 0)
		l.expect("when both have", "slow", 3, 3, 0)
		if slow.all() != 3 || quick.all() != 3 {
			t.Errorf("asked %d and %d times", slow.all(), quick.all())
		}
		l.nothingLeft()
	})
}

// TestAnswersAreAboutTheNewestObject checks that a response for an object that has changed since does not count.
func TestAnswersAreAboutTheNewestObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", time.Second)
		e.says = func(input map[string]any) (placement.Decision, error) {
			return placement.Decision{Errors: []string{(&unstructured.Unstructured{Object: input}).GetResourceVersion()}}, nil
		}
		l.put("p", "", manual, e)
		l.start()
		l.fill(deployments, many(1, "a"))
		pass(t, 500*time.Millisecond)
		newer := deployment("a-0", "a", "")
		newer.SetResourceVersion("2")
		l.objects.Put(deployments, newer)
		pass(t, time.Second)
		l.expect("of the older", "p", 0, 0, 0)
		pass(t, time.Second)
		if r := l.Ledger.Report("p"); len(r.Sample) != 1 || r.Sample[0].Message != "2" {
			t.Errorf("decided %+v", r)
		}
		if got := e.all(); got != 2 {
			t.Errorf("asked %d times", got)
		}
		l.nothingLeft()
	})
}

// TestWaitingQuestions checks that a waiting query is sent once, for the current object, and not at all for a deleted
// object.
func TestWaitingQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", time.Second)
		l.put("p", "", manual, e)
		l.start()
		l.fill(deployments, many(maxRunningTasks, "first"))
		synctest.Wait()
		l.objects.Put(deployments, deployment("changes", "a", ""))
		l.objects.Put(deployments, deployment("goes", "a", ""))
		synctest.Wait()
		for i := range 5 {
			o := deployment("changes", "a", "")
			o.SetResourceVersion(fmt.Sprint(i + 2))
			l.objects.Put(deployments, o)
			synctest.Wait()
		}
		l.objects.Delete(deployments, "shop", "goes")
		synctest.Wait()
		if n := l.waiting("https://e"); n != 1 {
			t.Errorf("%d questions wait about one object", n)
		}
		pass(t, time.Minute)
		if n := len(e.asked("changes")); n != 1 {
			t.Errorf("asked %d times about one that changed", n)
		}
		if n := len(e.asked("goes")); n != 0 {
			t.Errorf("asked %d times about one that went", n)
		}
		l.expect("in the end", "p", maxRunningTasks+1, maxRunningTasks+1, 0)
		l.nothingLeft()
	})
}

// TestPolicyMovesToAnotherEngine checks that a policy that moves to another engine does not wait for the earlier one.
func TestPolicyMovesToAnotherEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		hangs, quick := newDistant("https://hangs", time.Hour), newDistant("https://quick", time.Millisecond)
		l.put("p", "", manual, hangs)
		l.start()
		l.fill(deployments, many(100, "a"))
		synctest.Wait()
		l.put("p", "", manual, quick)
		pass(t, time.Second)
		l.expect("after a second", "p", 100, 100, 0)
		pass(t, queryTimeout)
		if got := hangs.all(); got != maxRunningTasks {
			t.Errorf("the old one was asked %d times", got)
		}
		l.nothingLeft()
	})
}

// TestPolicyNeedsNoEngine checks that objects whose policy is evaluated in process from now on do not wait for the engine, and that what it
// still responds does not count.
func TestPolicyNeedsNoEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		slow, local := newDistant("https://slow", 3*time.Second), &oracle{}
		slow.says = func(map[string]any) (placement.Decision, error) { return placement.Decision{}, nil }
		local.revision.Store(1)
		l.put("p", "", manual, slow)
		l.start()
		l.fill(deployments, many(20, "a"))
		pass(t, time.Second)
		l.put("p", "", manual, local)
		pass(t, time.Second)
		l.expect("soon", "p", 20, 20, 0)
		pass(t, time.Minute)
		l.expect("after the responses", "p", 20, 20, 0)
		if got := slow.all(); got != maxRunningTasks {
			t.Errorf("the engine was asked %d times", got)
		}
		l.nothingLeft()
	})
}

// TestUnansweredObjectsAreLookedAtAgain checks that an object that could not be decided is retried with backoff until
// it is decided, whatever the fault.
func TestUnansweredObjectsAreLookedAtAgain(t *testing.T) {
	for _, fault := range []engine.Fault{engine.FaultNetwork, engine.FaultCircuitOpen, engine.FaultRefused} {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeader(t)
				e := newDistant("https://e", 0)
				var back atomic.Bool
				e.says = func(map[string]any) (placement.Decision, error) {
					if back.Load() {
						return placement.Decision{}, nil
					}
					return placement.Decision{}, e.fault(fault)
				}
				l.put("p", "", manual, e)
				l.start()
				l.fill(deployments, many(2, "a"))
				pass(t, time.Hour)
				l.expect("while it fails", "p", 2, 0, 2)
				times := [2][]time.Time{e.asked("a-0"), e.asked("a-1")}
				if slices.Equal(times[0], times[1]) {
					t.Error("objects that failed together come together")
				}
				for i := range times[0][1:] {
					gap := times[0][i+1].Sub(times[0][i])
					if longest := time.Duration(float64(failureDelayMax) * (1 + failureJitter)); gap < failureDelay || gap > longest {
						t.Errorf("asked again after %v", gap)
					}
				}
				if n := len(times[0]); n < 60/8 || n > 15 {
					t.Errorf("asked %d times in an hour", n)
				}
				back.Store(true)
				pass(t, 2*failureDelayMax)
				l.expect("when it is back", "p", 2, 0, 0)
				before := e.all()
				pass(t, time.Hour)
				if got := e.all() - before; got != 0 {
					t.Errorf("asked %d times after that", got)
				}
			})
		})
	}
}

// TestPassingFailuresAreLookedAtAgain checks the same for other temporary failures.
func TestPassingFailuresAreLookedAtAgain(t *testing.T) {
	for name, err := range map[string]error{
		"Deadline": fmt.Errorf("%w of 1s", engine.ErrDeadline),
		"Stale":    &engine.StaleError{},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeader(t)
				e := newDistant("https://e", 0)
				var over atomic.Bool
				e.says = func(map[string]any) (placement.Decision, error) {
					if over.Load() {
						return placement.Decision{}, nil
					}
					return placement.Decision{}, err
				}
				l.put("p", "", manual, e)
				l.start()
				l.fill(deployments, many(2, "a"))
				pass(t, time.Minute)
				l.expect("while it lasts", "p", 2, 0, 2)
				over.Store(true)
				pass(t, 2*failureDelayMax)
				l.expect("when it is over", "p", 2, 0, 0)
			})
		})
	}
}

// TestOtherFailures checks that an object with any other failure is not retried before something changes.
func TestOtherFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", 0)
		e.says = func(map[string]any) (placement.Decision, error) {
			return placement.Decision{}, &placement.ContractError{Rule: "labels", Message: "must be an object"}
		}
		l.put("p", "", manual, e)
		l.start()
		l.fill(deployments, many(1, "a"))
		pass(t, time.Hour)
		l.expect("an hour later", "p", 1, 0, 1)
		if got := e.all(); got != 1 {
			t.Errorf("asked %d times", got)
		}
	})
}

// TestRevised checks that after a new revision each object is queried again, once for all changes within a second.
func TestRevised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", time.Millisecond)
		l.put("p", "", manual, e)
		l.start()
		l.fill(deployments, many(20, "a"))
		pass(t, time.Minute)
		revise := func() {
			e.revision.Add(1)
			l.RemoteRevisionChanged()
		}
		revise()
		pass(t, 900*time.Millisecond)
		revise()
		// Other changes do not shorten the wait.
		l.DataChanged(profiles)
		l.PredicateDataChanged()
		pass(t, 50*time.Millisecond)
		if got := e.all(); got != 20 {
			t.Errorf("asked %d times before the data settled", got)
		}
		pass(t, time.Minute)
		if got := e.all(); got != 40 {
			t.Errorf("asked %d times about 20 objects and two changes in a second", got)
		}
		l.RemoteRevisionChanged()
		pass(t, time.Minute)
		if got := e.all(); got != 40 {
			t.Errorf("asked %d times without another revision", got)
		}
		l.nothingLeft()
	})
}

// TestRevisionChangesFasterThanAnswers checks that a revision that changes during each query neither blocks decisions
// nor causes endless queries.
func TestRevisionChangesFasterThanAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		failed int
		most   int
	}{
		// One query for the sweep of each second, and one for the response that was overtaken.
		"Answers": {most: 10 * 2 * 21},
		"Fails":   {err: &engine.RemoteError{Endpoint: "https://e", Fault: engine.FaultServer, Err: errors.New("no answer")}, failed: 10, most: 10 * 2 * 21},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeader(t)
				e := newDistant("https://e", 2*time.Millisecond)
				e.says = func(map[string]any) (placement.Decision, error) {
					return placement.Decision{Errors: []string{"no"}}, tc.err
				}
				l.put("p", "", manual, e)
				l.start()
				l.fill(deployments, many(10, "a"))
				for i := range 20_000 {
					e.revision.Add(1)
					l.RemoteRevisionChanged()
					pass(t, time.Millisecond)
					if i == 100 {
						l.expect("soon", "p", 10, 10-tc.failed, tc.failed)
					}
				}
				if got := e.all(); got < 10*18 || got > tc.most {
					t.Errorf("asked %d times about ten objects in 20 seconds", got)
				}
				// After the last change, all decisions are made with the newest data.
				pass(t, time.Hour)
				if p := l.Registry.Get("p").Policy; l.groups.Stale(p) {
					t.Error("not all are of the newest data")
				}
				l.nothingLeft()
			})
		})
	}
}

// patcher is a fake API server that accepts patches.
type patcher struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	patch func(name string) (*unstructured.Unstructured, error)
}

func (p patcher) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return p
}

func (p patcher) Namespace(string) dynamic.ResourceInterface { return p }

func (p patcher) Patch(_ context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	return p.patch(name)
}

type nobody struct{}

func (nobody) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// patched returns the next version of an object, with the annotation.
func patched(o *unstructured.Unstructured, value string) *unstructured.Unstructured {
	o = o.DeepCopy()
	var version int
	_, _ = fmt.Sscan(o.GetResourceVersion(), &version)
	o.SetResourceVersion(fmt.Sprint(version + 1))
	annotations := o.GetAnnotations()
	annotations["example.com/a"] = value
	o.SetAnnotations(annotations)
	return o
}

// TestUnsettledEngineIsLimited checks that the patch limiter stops a remote policy whose decision depends on its own output.
func TestUnsettledEngineIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		l.Events = events.New(nobody{})
		e := newDistant("https://e", time.Millisecond)
		want := func(o *unstructured.Unstructured) string { return "after " + o.GetResourceVersion() }
		e.says = func(input map[string]any) (placement.Decision, error) {
			return placement.Decision{Annotations: map[string]string{"example.com/a": want(&unstructured.Unstructured{Object: input})}}, nil
		}
		patches := 0
		l.Patcher.Client = patcher{patch: func(name string) (*unstructured.Unstructured, error) {
			patches++
			o, _ := l.objects.Get(remediation.Key{Resource: deployments, Namespace: "shop", Name: name})
			o = patched(o, want(o))
			l.objects.Put(deployments, o.DeepCopy())
			return o, nil
		}}
		l.put("p", "", placementv1.RemediationAutomatic, e)
		l.start()
		l.fill(deployments, many(1, "a"))
		pass(t, 30*time.Second)
		if patches != 3 {
			t.Errorf("patched %d times", patches)
		}
		if diff := cmp.Diff([]string{"deployments.apps shop/a-0"}, l.Ledger.Report("p").Unsettled); diff != "" {
			t.Errorf("unsettled (-want +got):\n%s", diff)
		}
		l.nothingLeft()
	})
}

// TestPatchesWaitAside checks that the patch of an object that a remote engine decides, which takes as long as the
// engine, does not delay other objects.
func TestPatchesWaitAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		l.Events = events.New(nobody{})
		e, local := newDistant("https://e", time.Millisecond), &oracle{}
		e.says = func(map[string]any) (placement.Decision, error) {
			return placement.Decision{Annotations: map[string]string{"example.com/a": "x"}}, nil
		}
		local.revision.Store(1)
		failing := errors.New("the webhook took too long")
		var mu sync.Mutex
		tried := map[string][]time.Time{}
		l.Patcher.Client = patcher{patch: func(name string) (*unstructured.Unstructured, error) {
			mu.Lock()
			tried[name] = append(tried[name], time.Now())
			n := len(tried[name])
			mu.Unlock()
			pass := time.NewTimer(queryTimeout)
			<-pass.C
			if name == "a-0" && n <= 5 {
				return nil, failing
			}
			o, _ := l.objects.Get(remediation.Key{Resource: deployments, Namespace: "shop", Name: name})
			o = patched(o, "x")
			l.objects.Put(deployments, o.DeepCopy())
			return o, nil
		}}
		l.put("p", "a", placementv1.RemediationAutomatic, e)
		l.put("local", "c", manual, local)
		l.start()
		l.fill(deployments, many(6, "a"))
		pass(t, time.Second)
		l.fill(deployments, append(many(6, "a"), many(10, "c")...))
		synctest.Wait()
		l.expect("while patches wait", "local", 10, 10, 0)
		pass(t, 10*time.Minute)
		l.expect("in the end", "p", 6, 0, 0)
		times := tried["a-0"]
		if len(times) != 6 {
			t.Fatalf("tried %d times", len(times))
		}
		for i := range times[2:] {
			if next, last := times[i+2].Sub(times[i+1]), times[i+1].Sub(times[i]); next <= last {
				t.Errorf("tried again after %v, and then after %v", last, next)
			}
		}
		if n := len(tried["a-1"]); n != 1 {
			t.Errorf("another one was patched %d times", n)
		}
		l.nothingLeft()
	})
}

// TestObjectsWaitForTheirPatch checks that an object that changes during its patch is decided afterwards.
func TestObjectsWaitForTheirPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		l.Events = events.New(nobody{})
		e := newDistant("https://e", time.Millisecond)
		e.says = func(map[string]any) (placement.Decision, error) {
			return placement.Decision{Annotations: map[string]string{"example.com/a": "x"}}, nil
		}
		var tries atomic.Int64
		l.Patcher.Client = patcher{patch: func(name string) (*unstructured.Unstructured, error) {
			tries.Add(1)
			o, _ := l.objects.Get(remediation.Key{Resource: deployments, Namespace: "shop", Name: name})
			<-time.NewTimer(queryTimeout).C
			o = patched(o, "x")
			l.objects.Put(deployments, o.DeepCopy())
			return o, nil
		}}
		l.put("p", "", placementv1.RemediationAutomatic, e)
		l.start()
		l.fill(deployments, many(1, "a"))
		pass(t, time.Second)
		l.objects.Put(deployments, deployment("a-0", "a", "else"))
		pass(t, time.Second)
		if asked, tried := e.all(), tries.Load(); asked != 1 || tried != 1 {
			t.Errorf("asked %d times and patched %d times before the patch is done", asked, tried)
		}
		pass(t, time.Minute)
		if asked, tried := e.all(), tries.Load(); asked != 2 || tried != 1 {
			t.Errorf("asked %d times and patched %d times", asked, tried)
		}
		l.expect("in the end", "p", 1, 0, 0)
		l.nothingLeft()
	})
}

// TestPatchesOfObjectsThatGo checks that a waiting patch is dropped when its object is deleted.
func TestPatchesOfObjectsThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		l.Events = events.New(nobody{})
		e := newDistant("https://e", time.Millisecond)
		e.says = func(map[string]any) (placement.Decision, error) {
			return placement.Decision{Annotations: map[string]string{"example.com/a": "x"}}, nil
		}
		var tries atomic.Int64
		l.Patcher.Client = patcher{patch: func(string) (*unstructured.Unstructured, error) {
			tries.Add(1)
			<-time.NewTimer(time.Minute).C
			return nil, errors.New("too late")
		}}
		l.put("p", "", placementv1.RemediationAutomatic, e)
		l.start()
		l.fill(deployments, many(100, "a"))
		pass(t, time.Second)
		l.objects.Drop(deployments)
		pass(t, time.Hour)
		if got := tries.Load(); got != maxRunningTasks {
			t.Errorf("patched %d times", got)
		}
		l.nothingLeft()
	})
}

// TestEngineClientPanics checks that a panic of an engine's client is a failure of the policy and does not end the
// process.
func TestEngineClientPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", 0)
		e.says = func(map[string]any) (placement.Decision, error) { panic("of the client") }
		l.put("p", "", manual, e)
		l.start()
		l.fill(deployments, many(1, "a"))
		pass(t, time.Second)
		l.expect("afterwards", "p", 1, 0, 1)
	})
}

// TestQuestionsEndWithTheLeader checks that queries are canceled when this replica is no longer the leader.
func TestQuestionsEndWithTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader(t)
		e := newDistant("https://e", time.Hour)
		l.put("p", "", manual, e)
		l.start()
		l.fill(deployments, many(100, "a"))
		synctest.Wait()
	})
}
