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
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// crowd is a set of objects whose decisions follow the data of the policies p and q. They are patched when the gate
// allows it.
type crowd struct {
	t     *testing.T
	clock *testingclock.FakeClock
	gate  *Gate
	// wanted is the value of the data, and has is the value in each object.
	wanted int
	has    map[Key]int
	// due contains the times at which Open must be called.
	due map[time.Time]map[Place]bool
	// attempts counts the patches. fails reports which of them fail.
	attempts int
	fails    func(Key) bool
}

func everyPatch(Key) bool { return true }

func noPatch(Key) bool { return false }

func newCrowd(t *testing.T, n int) *crowd {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := &crowd{t: t, clock: clock, gate: NewGate(func(string) bool { return false }), has: map[Key]int{}, fails: noPatch, due: map[time.Time]map[Place]bool{}}
	for i := range n {
		c.has[Key{Resource: deployments, Name: fmt.Sprint(i)}] = 0
	}
	return c
}

func (c *crowd) later(at Place) {
	if at.Delay == 0 {
		return
	}
	when := c.clock.Now().Add(at.Delay)
	if c.due[when] == nil {
		c.due[when] = map[Place]bool{}
	}
	c.due[when][at] = true
}

// reconcile patches an object if its value differs and the gate allows it.
func (c *crowd) reconcile(key Key) {
	if c.has[key] == c.wanted {
		return
	}
	if held, at := c.gate.Hold(c.clock.Now(), key, "p"); held {
		c.later(at)
		return
	}
	c.attempts++
	if c.fails(key) {
		_, at := c.gate.Fail(c.clock.Now(), key, "p")
		c.later(at)
		return
	}
	c.has[key] = c.wanted
	for _, key := range c.gate.Succeed(key, "p") {
		c.reconcile(key)
	}
}

func (c *crowd) all() {
	for key := range c.has {
		c.reconcile(key)
	}
}

// flap changes the data.
func (c *crowd) flap(to int) {
	c.wanted = to
	c.gate.DataChanged("p")
	c.all()
}

// pass advances the clock.
func (c *crowd) pass(d time.Duration) {
	for end := c.clock.Now().Add(d); c.clock.Now().Before(end); {
		c.clock.Step(100 * time.Millisecond)
		for when, places := range c.due {
			if when.After(c.clock.Now()) {
				continue
			}
			delete(c.due, when)
			for at := range places {
				c.open(at)
			}
		}
	}
}

func (c *crowd) open(at Place) {
	keys, at := c.gate.Open(c.clock.Now(), at)
	c.later(at)
	for _, key := range keys {
		c.reconcile(key)
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
		c.gate.DataChanged("p")
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
	for _, key := range c.gate.ForgetPolicy("p") {
		c.reconcile(key)
	}
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
	if c.attempts != toleratedObjects {
		t.Errorf("%d patches at first", c.attempts)
	}
	c.pass(10 * time.Minute)
	// The delays are 0.2, 0.4, ... 204.8 s, and 5 min from then on.
	if c.attempts < 10 || c.attempts > 16 {
		t.Errorf("%d patches in ten minutes", c.attempts)
	}
	c.fails = noPatch
	c.pass(retryDelayMax + time.Second)
	if n := c.differing(); n > 0 {
		t.Errorf("%d objects differ after patches succeed again", n)
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
	for failing, limit := range map[int]time.Duration{2: 0, 20: retryDelayMax} {
		t.Run(fmt.Sprint(failing), func(t *testing.T) {
			c := newCrowd(t, failing)
			c.fails = func(key Key) bool { return key.Name != "healthy" }
			c.flap(1)
			c.pass(6 * time.Hour)
			healthy := Key{Resource: deployments, Name: "healthy"}
			c.has[healthy] = 0
			c.reconcile(healthy)
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
	c.pass(retryDelayMax + 2*probeLimit)
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
	c.pass(probeLimit)
	if c.has[of("shop", 1)] != c.wanted {
		t.Error("an object of another namespace still waits")
	}
}

// TestGateForgets checks that the gate keeps no state of deleted policies and objects.
func TestGateForgets(t *testing.T) {
	c := newCrowd(t, 0)
	for i := range 100 {
		c.has[of(fmt.Sprint(i%20), i)] = 0
	}
	c.fails = everyPatch
	c.flap(1)
	c.pass(time.Hour)
	if n := len(c.gate.ForgetPolicy("p")); n == 0 {
		t.Error("no objects waited")
	}
	if len(c.gate.policies) > 0 {
		t.Errorf("remembers %v", c.gate.policies)
	}
	c.all()
	c.pass(time.Hour)
	for key := range c.has {
		c.gate.Forget(key)
		delete(c.has, key)
	}
	c.pass(time.Hour)
	if p := c.gate.policies["p"]; len(p.namespaces.members) > 0 || len(p.failing) > 0 || len(p.held) > 0 {
		t.Errorf("remembers %+v", p)
	}
}

// TestFailuresAreReportedOnce checks that failures are logged once a minute, whatever the number of objects.
func TestFailuresAreReportedOnce(t *testing.T) {
	c := newCrowd(t, 0)
	var lines int
	for i := range 300 {
		if report, _ := c.gate.Refuse(c.clock.Now(), of("shop", i), "p"); report {
			lines++
		}
		if report, _ := c.gate.Fail(c.clock.Now(), Key{Name: fmt.Sprint(i)}, "p"); report {
			lines++
		}
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
		_, retry := c.gate.Refuse(c.clock.Now(), web, "p")
		return retry
	}
	var delays []time.Duration
	for range 8 {
		delays = append(delays, refuse())
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, retryDelayMax, retryDelayMax, retryDelayMax}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if held, _ := c.gate.Hold(c.clock.Now(), other, "p"); held {
		t.Error("another object waits")
	}
	c.gate.Succeed(web, "p")
	if got := refuse(); got != refusedDelay {
		t.Errorf("delay %s after a success", got)
	}
	c.gate.Forget(web)
	if got := refuse(); got != refusedDelay {
		t.Errorf("delay %s of a new object", got)
	}
}
