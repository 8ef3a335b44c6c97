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

package remediation

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/attempts"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/probing"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// crowd is a set of objects whose decisions follow the data of the policy p. They are patched when the scheduler
// allows it.
type crowd struct {
	t         *testing.T
	clock     *testingclock.FakeClock
	scheduler *Scheduler
	policy    *placement.Policy
	// wanted is the value of the data, and has is the value in each object.
	wanted int
	has    map[Key]int
	// wake is when Schedule must be called; zero for never.
	wake time.Time
	// attempts counts the patches. fails reports which of them fail.
	attempts int
	fails    func(Key) bool
}

func everyPatch(Key) bool { return true }

func noPatch(Key) bool { return false }

func newCrowd(t *testing.T, n int) *crowd {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := &crowd{t: t, clock: clock, policy: &placement.Policy{Name: "p"}, has: map[Key]int{}, fails: noPatch}
	c.scheduler = NewScheduler(Limits{}, NewLedger(), func(string) bool { return false })
	c.scheduler.Begin(clock.Now())
	c.scheduler.PolicyChanged(clock.Now(), "p", c.policy)
	for i := range n {
		c.has[Key{Resource: deployments, Name: fmt.Sprint(i)}] = 0
	}
	return c
}

func (c *crowd) due() Due { return Due{{Policy: c.policy}} }

// reconcile patches an object if its value differs and the scheduler allows it.
func (c *crowd) reconcile(key Key) {
	if _, exists := c.has[key]; !exists {
		c.scheduler.Forget(c.clock.Now(), key)
		return
	}
	if c.has[key] == c.wanted {
		c.scheduler.Decided(key, nil)
		return
	}
	if ok, _ := c.scheduler.Ask(c.clock.Now(), key, nil, c.due(), Carrier{}); !ok {
		return
	}
	c.attempts++
	if c.fails(key) {
		c.scheduler.Done(c.clock.Now(), key, c.due(), Patch{Ending: Failed})
		return
	}
	c.has[key] = c.wanted
	c.scheduler.Done(c.clock.Now(), key, c.due(), Patch{Ending: Made})
}

// schedule reconciles the objects that may go on.
func (c *crowd) schedule() {
	for {
		next := c.scheduler.Schedule(c.clock.Now())
		if c.wake = next.Wake; len(next.Keys) == 0 {
			return
		}
		for _, key := range next.Keys {
			c.reconcile(key)
		}
	}
}

func (c *crowd) all() {
	for key := range c.has {
		c.reconcile(key)
	}
	c.schedule()
}

// flap changes the data.
func (c *crowd) flap(to int) {
	c.wanted = to
	c.scheduler.DataChanged("p")
	c.all()
}

// pass advances the clock.
func (c *crowd) pass(d time.Duration) {
	for end := c.clock.Now().Add(d); c.clock.Now().Before(end); {
		c.clock.Step(100 * time.Millisecond)
		if passed(c.wake, c.clock.Now()) {
			c.schedule()
		}
	}
}

func (c *crowd) differing() (n int) {
	for _, has := range c.has {
		if has != c.wanted {
			n++
		}
	}
	return n
}

// TestFlappingDataIsHeldDown checks that the first change is applied immediately, that a label that flaps for minutes
// causes few patches, and that its last value is applied.
func TestFlappingDataIsHeldDown(t *testing.T) {
	c := newCrowd(t, 20)
	c.flap(1)
	if n := c.differing(); n > 0 {
		t.Fatalf("%d objects wait for the first change", n)
	}
	start := c.clock.Now()
	for i := 0; c.clock.Since(start) < 20*time.Minute; i++ {
		c.pass(3 * time.Second)
		c.flap(i % 2)
	}
	// The delays are 1, 2, 4, ... 256 s, and 5 min from then on.
	if waves := c.attempts / 20; waves < 3 || waves > 14 {
		t.Errorf("%d patches of 20 objects in 20 minutes", c.attempts)
	}
	c.flap(7)
	c.pass(holdDownMax + time.Second)
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects differ at the end", n)
	}
	// After a time without changes, a change is applied immediately again.
	c.pass(2*holdDownMax + time.Second)
	c.flap(8)
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects wait for a change after quiet", n)
	}
}

// TestDataWithoutEffectIsNoFlap checks that changes of data without a changed decision don't count.
func TestDataWithoutEffectIsNoFlap(t *testing.T) {
	c := newCrowd(t, 5)
	for range 100 {
		c.scheduler.DataChanged("p")
		c.pass(time.Second)
	}
	c.flap(1)
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects wait", n)
	}
}

// TestNewVersionIsNotHeldDown checks that a new version of the policy is applied immediately.
func TestNewVersionIsNotHeldDown(t *testing.T) {
	c := newCrowd(t, 5)
	c.flap(1)
	c.flap(2)
	if n := c.differing(); n != 5 {
		t.Fatalf("%d objects differ, want all", n)
	}
	c.scheduler.PolicyChanged(c.clock.Now(), "p", c.policy)
	c.schedule()
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects wait", n)
	}
}

// TestFailuresAreTriedByOne checks that while all patches of a policy fail, one probe runs for all of them, less and
// less often.
func TestFailuresAreTriedByOne(t *testing.T) {
	c := newCrowd(t, 300)
	c.fails = everyPatch
	c.flap(1)
	if c.attempts != probing.ToleratedObjects {
		t.Errorf("%d patches at first", c.attempts)
	}
	c.pass(10 * time.Minute)
	// The delays are 0.2, 0.4, ... 204.8 s, and 5 min from then on.
	if c.attempts < 10 || c.attempts > 16 {
		t.Errorf("%d patches in ten minutes", c.attempts)
	}
	c.fails = noPatch
	c.pass(probing.RetryDelayMax + time.Second)
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects differ after patches succeed again", n)
	}
}

// TestProbesGoAlone checks that the others wait while a probe is under way, thirty seconds at most, and that all go on when it succeeds.
func TestProbesGoAlone(t *testing.T) {
	c := newCrowd(t, 20)
	c.fails = everyPatch
	c.flap(1)
	next := func(wait time.Duration) []Key {
		c.clock.Step(wait)
		return c.scheduler.Schedule(c.clock.Now()).Keys
	}
	begin := func(keys []Key) {
		t.Helper()
		if len(keys) != 1 {
			t.Fatalf("%d objects may go on, want one", len(keys))
		}
		if ok, _ := c.scheduler.Ask(c.clock.Now(), keys[0], nil, c.due(), Carrier{}); !ok {
			t.Fatal("the probe waits")
		}
	}
	begin(next(probing.RetryDelayMax))
	if keys := next(probing.ProbeLimit - time.Second); len(keys) > 0 {
		t.Errorf("%v may go on while a probe is under way", keys)
	}
	second := next(2 * time.Second)
	begin(second)
	c.scheduler.Done(c.clock.Now(), second[0], c.due(), Patch{Ending: Made})
	if keys := next(0); len(keys) != 18 {
		t.Errorf("%d objects may go on after a success, want 18", len(keys))
	}
}

// TestProbesTakeTurns checks that an object whose patch fails for ever does not keep others from being the probe.
func TestProbesTakeTurns(t *testing.T) {
	c := newCrowd(t, 5)
	c.fails = everyPatch
	c.flap(1)
	c.pass(time.Hour)
	for name := range 4 {
		c.fails = func(key Key) bool { return key.Name == fmt.Sprint(name) }
		c.pass(time.Hour)
		if n := c.differing(); n != 1 {
			t.Errorf("%d objects differ while one fails", n)
		}
		c.fails = everyPatch
		c.flap(name + 2)
		c.pass(time.Hour)
	}
}

// of returns the key of an object in a namespace.
func of(namespace string, i int) Key {
	return Key{Resource: deployments, Namespace: namespace, Name: fmt.Sprint(i)}
}

// TestFailuresOfOneNamespaceHoldUpNoOther checks that failures in one namespace do not delay patches in another one.
func TestFailuresOfOneNamespaceHoldUpNoOther(t *testing.T) {
	c := newCrowd(t, 0)
	for i := range 20 {
		c.has[of("failing", i)] = 0
	}
	c.fails = func(key Key) bool { return key.Namespace == "failing" }
	c.flap(1)
	c.pass(time.Hour)
	for i := range 20 {
		c.has[of("shop", i)] = 0
	}
	c.all()
	if n := c.differing(); n != 20 {
		t.Errorf("%d objects differ, want the failing ones alone", n)
	}
	before := c.attempts
	c.pass(time.Hour)
	if n := c.attempts - before; n > 15 {
		t.Errorf("%d patches in an hour", n)
	}
}

// TestObjectsThatHaveNotFailedAreTriedFirst checks that among failing objects, one whose patch succeeds is patched
// soon: immediately while few have failed, and otherwise with the next probe.
func TestObjectsThatHaveNotFailedAreTriedFirst(t *testing.T) {
	for failing, limit := range map[int]time.Duration{2: 0, 20: probing.RetryDelayMax} {
		t.Run(fmt.Sprint(failing), func(t *testing.T) {
			c := newCrowd(t, failing)
			c.fails = func(key Key) bool { return key.Name != "healthy" }
			c.flap(1)
			c.pass(6 * time.Hour)
			healthy := Key{Resource: deployments, Name: "healthy"}
			c.has[healthy] = 0
			c.reconcile(healthy)
			c.schedule()
			c.pass(limit)
			if c.has[healthy] != c.wanted {
				t.Errorf("the object is not patched after %s", limit)
			}
		})
	}
}

// TestFailuresOfManyNamespaces checks that if patches fail in all namespaces, for example without the webhook
// configuration, few patches are tried, whatever the number of namespaces. All objects are patched soon after patches
// succeed again.
func TestFailuresOfManyNamespaces(t *testing.T) {
	c := newCrowd(t, 0)
	for i := range 2000 {
		c.has[of(fmt.Sprint(i%500), i)] = 0
	}
	c.fails = everyPatch
	c.flap(1)
	if c.attempts > 30 {
		t.Errorf("%d patches at first", c.attempts)
	}
	before := c.attempts
	c.pass(10 * time.Minute)
	if n := c.attempts - before; n < 10 || n > 60 {
		t.Errorf("%d patches in ten minutes", n)
	}
	c.fails = noPatch
	c.pass(probing.RetryDelayMax + 2*probing.ProbeLimit)
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects differ after patches succeed again", n)
	}
}

// TestFailuresOfManyNamespacesHoldUpOthersShortly checks that failures in some namespaces delay the others only for a
// short time.
func TestFailuresOfManyNamespacesHoldUpOthersShortly(t *testing.T) {
	c := newCrowd(t, 0)
	for i := range 50 {
		c.has[of(fmt.Sprint(i), i)] = 0
	}
	c.fails = func(key Key) bool { return key.Namespace != "shop" }
	c.flap(1)
	c.pass(6 * time.Hour)
	c.has[of("shop", 1)] = 0
	c.all()
	c.pass(probing.ProbeLimit)
	if c.has[of("shop", 1)] != c.wanted {
		t.Error("an object of another namespace still waits")
	}
}

// TestSchedulerForgets checks that the scheduler keeps no state of deleted policies and objects.
func TestSchedulerForgets(t *testing.T) {
	c := newCrowd(t, 0)
	for i := range 100 {
		c.has[of(fmt.Sprint(i%20), i)] = 0
	}
	c.fails = everyPatch
	c.flap(1)
	c.pass(time.Hour)
	c.scheduler.PolicyChanged(c.clock.Now(), "p", nil)
	if n := len(c.scheduler.Schedule(c.clock.Now()).Keys); n == 0 {
		t.Error("no objects waited")
	}
	if len(c.scheduler.policies) > 0 {
		t.Errorf("remembers %v", c.scheduler.policies)
	}
	c.all()
	c.pass(time.Hour)
	for key := range c.has {
		delete(c.has, key)
		c.reconcile(key)
	}
	c.pass(time.Hour)
	s := c.scheduler
	if b := s.policies["p"]; b.probes.Any() || len(s.line.byKey)+len(s.line.classes)+len(s.moving) > 0 {
		t.Errorf("remembers %+v and %+v", b.probes, s.line)
	}
}

// TestFailuresAreReportedOnce checks that failures are logged once a minute, whatever the number of objects.
func TestFailuresAreReportedOnce(t *testing.T) {
	c := newCrowd(t, 0)
	var lines int
	for i := range 300 {
		lines += count(c.scheduler.Done(c.clock.Now(), of("shop", i), c.due(), Patch{Ending: Refused}).Report)
		lines += count(c.scheduler.Done(c.clock.Now(), Key{Name: fmt.Sprint(i)}, c.due(), Patch{Ending: Failed}).Report)
	}
	if lines != 1 {
		t.Errorf("%d lines", lines)
	}
}

// TestRefusedPatches checks that an object whose own patch is refused is retried less and less often, without a delay
// for other objects, and that a success resets the delay.
func TestRefusedPatches(t *testing.T) {
	c := newCrowd(t, 0)
	web, other := of("shop", 1), of("shop", 2)
	refuse := func() time.Duration {
		return c.scheduler.Done(c.clock.Now(), web, c.due(), Patch{Ending: Refused}).Retry
	}
	var delays []time.Duration
	for range 8 {
		delays = append(delays, refuse())
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, probing.RetryDelayMax, probing.RetryDelayMax, probing.RetryDelayMax}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if ok, _ := c.scheduler.Ask(c.clock.Now(), other, nil, c.due(), Carrier{}); !ok {
		t.Error("another object waits")
	}
	c.scheduler.Done(c.clock.Now(), web, c.due(), Patch{Ending: Made})
	if got := refuse(); got != attempts.RefusedDelay {
		t.Errorf("delay %s after a success", got)
	}
	c.scheduler.Forget(c.clock.Now(), web)
	if got := refuse(); got != attempts.RefusedDelay {
		t.Errorf("delay %s of a new object", got)
	}
}
