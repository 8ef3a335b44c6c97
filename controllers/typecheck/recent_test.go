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

package typecheck

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
)

// counter counts the reads of what there is. They fail with err.
type counter struct {
	reads int
	err   error
}

func (s *counter) read() error {
	s.reads++
	return s.err
}

func (s *counter) Limits(context.Context) ([]placementv1.LimitedResource, error) { return nil, nil }

func (s *counter) All(context.Context) ([]placementv1.Quota, error) {
	return []placementv1.Quota{&placementv1.ScopedQuota{}}, s.read()
}

// ReplicasPath implements findings.Scales.
func (s *counter) ReplicasPath(context.Context, schema.GroupVersionResource) (path []string, ok bool, err error) {
	return []string{"spec", "replicas"}, true, s.read()
}

// clustersOf, scoresOf, and nodesOf are the clusters, their scores, and the nodes of a counter.
type (
	clustersOf struct{ *counter }
	scoresOf   struct{ *counter }
	nodesOf    struct{ *counter }
)

func (s scoresOf) All(context.Context) (map[string]map[string]any, error) {
	return map[string]map[string]any{"eu-1": {"usage/cpu": int64(1)}}, s.read()
}

func (s clustersOf) All(context.Context) (clusters []map[string]any, idle []string, err error) {
	return []map[string]any{{"name": "eu-1"}}, nil, s.read()
}

func (s nodesOf) All(context.Context) ([]map[string]any, error) {
	return []map[string]any{{"name": "node-a"}}, s.read()
}

// TestRecent checks that each kind of data is read once in a period, and that the data before is kept if a read fails.
func TestRecent(t *testing.T) {
	for name, read := range map[string]func(*recent) (int, error){
		"Clusters": func(r *recent) (int, error) { list, _, err := r.All(t.Context()); return len(list), err },
		"Scores":   func(r *recent) (int, error) { list, err := recentScores{r}.All(t.Context()); return len(list), err },
		"Nodes":    func(r *recent) (int, error) { list, err := recentNodes{r}.All(t.Context()); return len(list), err },
		"Quotas":   func(r *recent) (int, error) { list, err := recentQuotas{r}.All(t.Context()); return len(list), err },
		"Paths": func(r *recent) (int, error) {
			path, _, err := r.ReplicasPath(t.Context(), schema.GroupVersionResource{})
			return len(path) / 2, err
		},
	} {
		s, clock := &counter{err: errors.New("down")}, testingclock.NewFakeClock(time.Now())
		r := New(Deps{Clock: clock, Finder: &findings.Finder{Clusters: clustersOf{s}, Scores: scoresOf{s}, Nodes: nodesOf{s}, Quotas: s, Scales: s}})
		if _, err := read(&r.recent); err == nil {
			t.Errorf("%s: no error of the first read", name)
		}
		s.err = nil
		for i, step := range []struct {
			after time.Duration
			err   error
			reads int
		}{{0, nil, 2}, {recentPeriod / 2, nil, 2}, {recentPeriod, nil, 3}, {recentPeriod, errors.New("down"), 4}, {0, errors.New("down"), 5}} {
			clock.Step(step.after)
			s.err = step.err
			if n, err := read(&r.recent); n != 1 || err != nil || s.reads != step.reads {
				t.Errorf("%s, step %d: %d objects and error %v after %d reads, want 1 after %d", name, i, n, err, s.reads, step.reads)
			}
		}
	}
}

// TestQuotasAreRecent checks that policies are compared again with recent quotas.
func TestQuotasAreRecent(t *testing.T) {
	s := &counter{}
	c := New(Deps{Clock: testingclock.NewFakeClock(time.Now()), Finder: &findings.Finder{Quotas: s}})
	finder := c.finder(true)
	if _, recent := finder.Quotas.(recentQuotas); !recent {
		t.Errorf("quotas are read by %T", finder.Quotas)
	}
	if finder = c.finder(false); finder.Quotas != s {
		t.Errorf("quotas of a new policy are read by %T", finder.Quotas)
	}
}
