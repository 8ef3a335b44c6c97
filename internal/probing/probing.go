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

// Package probing delays patches after failures whose reasons objects may share: one patch at a time, the probe, tests for the others
// whether patches succeed again.
package probing

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// retryDelay is the first delay before a failed patch is retried. It doubles up to RetryDelayMax.
	retryDelay = 200 * time.Millisecond
	// RetryDelayMax is the longest delay before a failed patch is retried.
	RetryDelayMax = 5 * time.Minute
	// ProbeLimit is how long other patches wait for the result of a probe.
	ProbeLimit = 30 * time.Second
	// ToleratedObjects is how many objects in a namespace must fail in a row before objects that have not failed wait, too.
	// toleratedNamespaces is how many namespaces must fail before all objects wait.
	ToleratedObjects, toleratedNamespaces = 3, 10
	// retryDelayOfAll is the longest delay before a probe after failures in many namespaces.
	retryDelayOfAll = 20 * time.Second
)

// Failures holds the failures of patches of objects, which keys of type K identify. Failures in one namespace delay the other patches
// there, and failures in many namespaces delay all patches. The zero value has none. It is not safe for concurrent use.
type Failures[K comparable] struct {
	objects map[string]*failing[K] // The objects that failed since the last success in their namespace, by namespace.
	// all is the streak of the namespaces in which objects failed since the last success in any.
	all        Streak[K]
	namespaces sets.Set[string]
}

// failing is the streak of the objects that failed in one namespace.
type failing[K comparable] struct {
	Streak[K]
	objects sets.Set[K]
}

// Streak is what a series of failed patches without a success between them makes others wait for: the end of a delay, which grows, and then
// the result of a running probe, if there is one. The zero value delays nothing. It does not count the failures.
type Streak[K comparable] struct {
	failed time.Time     // When a failure last set pace: the first one, or one after the pace before had passed.
	pace   time.Duration // How long all patches wait after failed.
	probed time.Time     // When the running probe began; zero if none runs.
	probe  K             // The object of the running probe.
}

// fail adds a failure, and ends the running probe. most limits the pace. Failures of patches that ran at the same time lengthen the pace
// only once.
func (s *Streak[K]) fail(now time.Time, most time.Duration) {
	s.probed = time.Time{}
	if !now.Before(s.failed.Add(s.pace)) {
		s.failed, s.pace = now, min(max(2*s.pace, retryDelay), most)
	}
}

// end ends the running probe without a result if it is that of the given object.
func (s *Streak[K]) end(key K) {
	if s.probe == key {
		var none K
		s.probed, s.probe = time.Time{}, none
	}
}

// until returns until when the streak keeps an object from being patched: until its delay ends, or until ProbeLimit after the start of a
// running probe of another object. It returns zero if the object may be patched now.
func (s *Streak[K]) until(now time.Time, key K) time.Time {
	if until := s.failed.Add(s.pace); now.Before(until) {
		return until
	}
	if until := s.probed.Add(ProbeLimit); !s.probed.IsZero() && s.probe != key && now.Before(until) {
		return until
	}
	return time.Time{}
}

// Any reports whether objects failed since the last success in their namespace.
func (f *Failures[K]) Any() bool { return len(f.objects) > 0 }

// Has reports whether an object failed since the last success in its namespace.
func (f *Failures[K]) Has(namespace string, key K) bool {
	in := f.objects[namespace]
	return in != nil && in.objects.Has(key)
}

// Streaks returns the streaks that can delay an object, also those whose delay has ended: that of its namespace, if the object itself or at
// least ToleratedObjects objects failed there, and then that of all namespaces, if at least toleratedNamespaces failed. The value reports
// whether the object, or for the latter its namespace, is one of those that failed.
func (f *Failures[K]) Streaks(namespace string, key K) iter.Seq2[*Streak[K], bool] {
	return func(yield func(*Streak[K], bool) bool) {
		failed := f.Has(namespace, key)
		if in := f.objects[namespace]; in != nil && (failed || len(in.objects) >= ToleratedObjects) && !yield(&in.Streak, failed) {
			return
		}
		if len(f.namespaces) >= toleratedNamespaces {
			yield(&f.all, f.namespaces.Has(namespace))
		}
	}
}

// Until returns when to try to patch an object, after which Until may return a later time; zero if it may be patched now.
func (f *Failures[K]) Until(now time.Time, namespace string, key K) time.Time {
	if !f.Any() {
		return time.Time{}
	}
	return f.until(now, namespace, key)
}

// until returns when to try to patch an object: when the failures in its namespace allow it or, if they do not delay it now, when those in
// many namespaces do. It is zero if the object may be patched now. It is apart from Until so that the compiler inlines the check there: the
// scheduler calls Until for each class of waiting objects.
func (f *Failures[K]) until(now time.Time, namespace string, key K) time.Time {
	for s := range f.Streaks(namespace, key) {
		if until := s.until(now, key); !until.IsZero() {
			return until
		}
	}
	return time.Time{}
}

// Begin records that the patch of an object begins now. If earlier failures make objects such as this one wait, in its namespace or in all,
// it becomes the probe for whose result the others wait, also if the delay after the failures has ended.
func (f *Failures[K]) Begin(now time.Time, namespace string, key K) {
	for s := range f.Streaks(namespace, key) {
		s.probed, s.probe = now, key
	}
}

// End records that the patch of an object has no result, or is not made.
func (f *Failures[K]) End(namespace string, key K) {
	f.all.end(key)
	if in := f.objects[namespace]; in != nil {
		in.end(key)
	}
}

// Fail records that the patch of an object failed, both in its namespace and among all namespaces: it ends a running probe, and lengthens
// each of the two delays unless that delay is still running. The delay of all namespaces applies once toleratedNamespaces have failed.
func (f *Failures[K]) Fail(now time.Time, namespace string, key K) {
	if f.objects == nil {
		f.objects = map[string]*failing[K]{}
	}
	if f.objects[namespace] == nil {
		f.objects[namespace] = &failing[K]{objects: sets.New[K]()}
	}
	if f.namespaces == nil {
		f.namespaces = sets.New[string]()
	}
	f.objects[namespace].objects.Insert(key)
	f.objects[namespace].fail(now, RetryDelayMax)
	f.namespaces.Insert(namespace)
	f.all.fail(now, retryDelayOfAll)
}

// Succeed records that the patch of an object succeeded. It forgets the failures in the object's namespace, and how many namespaces failed,
// so that nothing delays all patches any more. It returns the objects that had failed in the object's namespace.
func (f *Failures[K]) Succeed(namespace string) (failed sets.Set[K]) {
	if in := f.objects[namespace]; in != nil {
		failed = in.objects
	}
	delete(f.objects, namespace)
	f.all, f.namespaces = Streak[K]{}, nil
	return failed
}

// Forget records that an object does not exist any more: it does not count as failed, and is not the running probe. A namespace in which no
// other object failed does not count as failed either.
func (f *Failures[K]) Forget(namespace string, key K) {
	f.End(namespace, key)
	if in := f.objects[namespace]; in != nil && len(in.objects.Delete(key)) == 0 {
		delete(f.objects, namespace)
		f.namespaces.Delete(namespace)
	}
}
