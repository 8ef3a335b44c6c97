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
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// retryDelay and retryDelayMax are the first and the longest delay before a failed patch is retried.
	retryDelay    = 200 * time.Millisecond
	retryDelayMax = 5 * time.Minute
	// refusedDelay is the first delay before a patch is retried that was refused for a reason of the object's own. The
	// longest delay is retryDelayMax.
	refusedDelay = 10 * time.Second
	// probeLimit is how long other patches wait for the result of a probe, the one patch that tests whether patches
	// succeed again.
	probeLimit = 30 * time.Second
	// toleratedObjects is how many objects of a policy in a namespace must fail in a row before objects that have not
	// failed wait, too. toleratedNamespaces is how many namespaces must fail before all objects of the policy wait.
	toleratedObjects, toleratedNamespaces = 3, 10
	// policyRetryDelayMax is the longest delay before a probe for a policy that fails in many namespaces.
	policyRetryDelayMax = 20 * time.Second
	// reportInterval is the minimum interval between two log messages about failing patches of a policy.
	reportInterval = time.Minute
)

// streak is what is known of patches that fail for a reason that other objects may share, since the last one that succeeded.
type streak[K comparable] struct {
	// members are the objects, or the namespaces, that failed.
	members sets.Set[K]
	// failed is when a probe failed last. pace is how long all patches wait after that.
	failed time.Time
	pace   time.Duration
	// probed is when the probe began that is under way, and probe its object. It is zero if there is none.
	probed time.Time
	probe  Key
}

// fail adds a failure. Failures of patches that ran at the same time lengthen the pace only once.
func (s *streak[K]) fail(now time.Time, member K, most time.Duration) {
	if s.members == nil {
		s.members = sets.New[K]()
	}
	s.members.Insert(member)
	s.probed = time.Time{}
	if !now.Before(s.failed.Add(s.pace)) {
		s.failed, s.pace = now, min(max(2*s.pace, retryDelay), most)
	}
}

// begin makes an object the probe.
func (s *streak[K]) begin(now time.Time, key Key) { s.probed, s.probe = now, key }

// end declares that the probe of an object has no result.
func (s *streak[K]) end(key Key) {
	if s.probe == key {
		s.probed, s.probe = time.Time{}, Key{}
	}
}

// until returns when an object may be the probe; zero if it may now.
func (s *streak[K]) until(now time.Time, key Key) time.Time {
	if until := s.failed.Add(s.pace); now.Before(until) {
		return until
	}
	if until := s.probed.Add(probeLimit); !s.probed.IsZero() && s.probe != key && now.Before(until) {
		return until
	}
	return time.Time{}
}

// failing are the patches of a policy that fail for reasons that objects may share. The failures of a namespace hold up the other patches there,
// and those of many namespaces all patches.
type failing struct {
	objects    map[string]*streak[Key]
	namespaces streak[string]
	// reported is the time of the last log message about a failure.
	reported time.Time
}

// streaksOf returns the streaks that hold up an object: zero to two.
func (f *failing) streaksOf(key Key) (in *streak[Key], wide *streak[string]) {
	if t := f.objects[key.Namespace]; t != nil && (len(t.members) >= toleratedObjects || t.members.Has(key)) {
		in = t
	}
	if len(f.namespaces.members) >= toleratedNamespaces {
		wide = &f.namespaces
	}
	return in, wide
}

// until returns when a patch of an object may be tried; zero if it may now.
func (f *failing) until(now time.Time, key Key) time.Time {
	in, wide := f.streaksOf(key)
	if in != nil {
		if until := in.until(now, key); !until.IsZero() {
			return until
		}
	}
	if wide != nil {
		return wide.until(now, key)
	}
	return time.Time{}
}

// begin declares that an object may be patched, so that it is the probe for others.
func (f *failing) begin(now time.Time, key Key) {
	in, wide := f.streaksOf(key)
	if in != nil {
		in.begin(now, key)
	}
	if wide != nil {
		wide.begin(now, key)
	}
}

// end declares that the patch of an object has no result, or is not made.
func (f *failing) end(key Key) {
	f.namespaces.end(key)
	if t := f.objects[key.Namespace]; t != nil {
		t.end(key)
	}
}

// fail declares that the patch of an object failed.
func (f *failing) fail(now time.Time, key Key) {
	t := f.objects[key.Namespace]
	if t == nil {
		t = &streak[Key]{}
		if f.objects == nil {
			f.objects = map[string]*streak[Key]{}
		}
		f.objects[key.Namespace] = t
	}
	t.fail(now, key, retryDelayMax)
	f.namespaces.fail(now, key.Namespace, policyRetryDelayMax)
}

// succeed declares that the patch of an object succeeded. It returns the objects that had failed in its namespace.
func (f *failing) succeed(key Key) sets.Set[Key] {
	f.namespaces = streak[string]{}
	t := f.objects[key.Namespace]
	delete(f.objects, key.Namespace)
	if t == nil {
		return nil
	}
	return t.members
}

// forget declares that an object does not exist any more.
func (f *failing) forget(key Key) {
	f.end(key)
	t := f.objects[key.Namespace]
	if t == nil {
		return
	}
	if t.members.Delete(key); len(t.members) == 0 {
		delete(f.objects, key.Namespace)
		f.namespaces.members.Delete(key.Namespace)
	}
}

// has reports whether an object failed since the last success in its namespace.
func (f *failing) has(key Key) bool {
	t := f.objects[key.Namespace]
	return t != nil && t.members.Has(key)
}

// report reports whether a failure should be logged now.
func (f *failing) report(now time.Time) bool {
	if !f.reported.IsZero() && now.Sub(f.reported) < reportInterval {
		return false
	}
	f.reported = now
	return true
}
