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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
)

var (
	_ findings.Clusters = (*recent)(nil)
	_ findings.Scores   = recentScores{}
	_ findings.Nodes    = recentNodes{}
	_ findings.Quotas   = recentQuotas{}
	_ findings.Scales   = (*recent)(nil)
)

// recent caches what source compares policies with: clusters, their scores, nodes, quotas, and the fields that scale subresources set. It
// reads each of them again after recentPeriod; if that fails, it keeps what it has.
type recent struct {
	source *findings.Finder
	clock  clock.PassiveClock

	mu       sync.Mutex
	clusters kept[clusters]
	scores   kept[map[string]map[string]any] // By cluster and name of the score.
	nodes    kept[[]map[string]any]
	quotas   kept[[]placementv1.Quota]
	paths    map[schema.GroupVersionResource]kept[replicasPath]
}

// clusters has the results of findings.Clusters.
type clusters struct {
	all  []map[string]any // The existing clusters.
	idle []string         // Messages about sources of clusters in the manager's configuration that select nothing.
}

// replicasPath has the results of findings.Scales.
type replicasPath struct {
	path []string // The path of the field that the scale subresource sets.
	ok   bool     // Whether the path is known. If not, path is nil.
}

// kept is a value that was read, and when. The zero value is one that was never read.
type kept[T any] struct {
	value T
	read  time.Time // When value was read.
}

// current returns k if its value was read within recentPeriod, or else what read returns now. If read fails, it returns k, and the error
// only if k was never read, so that findings stay.
func (k kept[T]) current(clock clock.PassiveClock, read func() (T, error)) (kept[T], error) {
	if !k.read.IsZero() && clock.Since(k.read) < recentPeriod {
		return k, nil
	}
	value, err := read()
	switch {
	case err == nil:
		return kept[T]{value, clock.Now()}, nil
	case k.read.IsZero():
		return k, err
	}
	return k, nil
}

// All returns the clusters of the inventories, and messages about sources of clusters that select nothing, both at most recentPeriod old
// unless reading them again fails. It implements findings.Clusters.
func (r *recent) All(ctx context.Context) (all []map[string]any, idle []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clusters, err = r.clusters.current(r.clock, func() (out clusters, err error) {
		out.all, out.idle, err = r.source.Clusters.All(ctx)
		return out, err
	})
	return r.clusters.value.all, r.clusters.value.idle, err
}

// ReplicasPath returns the path of the field that the scale subresource of a type sets, read at most recentPeriod ago unless reading it
// again fails. ok is false if the path is not known. It implements findings.Scales.
func (r *recent) ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, err := r.paths[resource].current(r.clock, func() (out replicasPath, err error) {
		out.path, out.ok, err = r.source.Scales.ReplicasPath(ctx, resource)
		return out, err
	})
	if err == nil {
		r.paths[resource] = known
	}
	return known.value.path, known.value.ok, err
}

// recentScores implements findings.Scores with the cache of recent.
type recentScores struct{ *recent }

// All returns the scores of each cluster, by the cluster and the name of the score, at most recentPeriod old unless reading them again
// fails. It implements findings.Scores.
func (r recentScores) All(ctx context.Context) (_ map[string]map[string]any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scores, err = r.scores.current(r.clock, func() (map[string]map[string]any, error) { return r.source.Scores.All(ctx) })
	return r.scores.value, err
}

// recentNodes implements findings.Nodes with the cache of recent.
type recentNodes struct{ *recent }

// All returns a map for each node, with its name, labels, taints, and allocatable resources; none if there are too many nodes. They are at
// most recentPeriod old unless reading them again fails. It implements findings.Nodes.
func (r recentNodes) All(ctx context.Context) (_ []map[string]any, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes, err = r.nodes.current(r.clock, func() ([]map[string]any, error) { return r.source.Nodes.All(ctx) })
	return r.nodes.value, err
}

// recentQuotas implements findings.Quotas with the cache of recent.
type recentQuotas struct{ *recent }

// Limits returns all LimitedResources. It does not cache: each call reads them from the source. It implements findings.Quotas.
func (r recentQuotas) Limits(ctx context.Context) ([]placementv1.LimitedResource, error) {
	return r.source.Quotas.Limits(ctx)
}

// All returns all quotas, at most recentPeriod old unless reading them again fails. It implements findings.Quotas.
func (r recentQuotas) All(ctx context.Context) (_ []placementv1.Quota, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quotas, err = r.quotas.current(r.clock, func() ([]placementv1.Quota, error) { return r.source.Quotas.All(ctx) })
	return r.quotas.value, err
}
