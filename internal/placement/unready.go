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

package placement

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/policy/language"
)

// stays returns the clusters that the object is in and in which the policy lets it stay although they are not ready. until is the first
// time at which the object must leave one of them; zero if there is none. A new object is in none. The error is that the object before the
// update could not be read; a list of clusters that is not valid counts as empty.
//
// A fleet manager marks a cluster by a taint as soon as it does not reach its API server. The pods there go on running. If every such taint
// moved what runs there, it would be started elsewhere, deleted where it ran when the cluster returns, and moved back.
func (d *Decider) stays(p *Policy, r *Request, current *intent) (names []string, until time.Time, err error) {
	if r.Old == nil {
		return nil, until, nil
	}
	unready := p.unready()
	if len(unready) == 0 {
		return nil, until, nil
	}
	placed, err := r.placedIn(current)
	if err != nil {
		return nil, until, err
	}
	names, until = d.staysIn(p, unready, placed)
	return names, until, nil
}

// unready returns the clusters that are marked as not ready, with the time since when, zero if that is not known, and however long ago it
// is (spec.clusters.leaveUnreadyAfter does not matter); nil if the clusters that the policy gives do not depend on such marks.
func (p *Policy) unready() map[string]time.Time {
	if e, ok := p.Evaluator.(Tolerant); ok {
		return e.Unready()
	}
	return nil
}

// staysIn returns those of the clusters placed that are in unready, and that the object need not leave yet
// (spec.clusters.leaveUnreadyAfter). until is the first time at which it must leave one of them; zero if there is none.
func (d *Decider) staysIn(p *Policy, unready map[string]time.Time, placed []string) (names []string, until time.Time) {
	for _, name := range placed {
		since, marked := unready[name]
		if !marked {
			continue
		}
		if limit := p.Clusters.LeaveUnreadyAfter; limit != nil {
			leaves := since.Add(limit.Duration)
			if !leaves.After(d.now()) {
				continue
			}
			if until.IsZero() || leaves.Before(until) {
				until = leaves
			}
		}
		names = append(names, name)
	}
	return names, until
}

// tolerating returns the input of an object with the names of the clusters in which it stays although they are not ready.
func tolerating(input map[string]any, stays []string) map[string]any {
	if len(stays) == 0 {
		return input
	}
	names := make([]any, len(stays))
	for i, name := range stays {
		names[i] = name
	}
	input = maps.Clone(input)
	input[language.InputTolerated] = names
	return input
}

// placedIn returns the names of the clusters that the object has before the request, sorted; none if its list is not valid. r.Old must not
// be nil. The error is that the object before the update could not be read.
func (r *Request) placedIn(current *intent) ([]string, error) {
	before := current
	if r.Old != r.Object {
		if current.clusters != nil && r.Source != nil {
			if err := r.Source.Complete(); err != nil {
				return nil, err
			}
		}
		before = current.before()
	}
	text, ok := before.current[fieldAnnotations][placementv1.ClustersAnnotation]
	if !ok {
		return nil, nil
	}
	listed, _ := clusterlist.Parse(text)
	names, _ := listed.All()
	return names, nil
}

// now returns the time of d.Clock, or the real time if that is nil.
func (d *Decider) now() time.Time {
	if d.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return d.Clock.Now()
}
