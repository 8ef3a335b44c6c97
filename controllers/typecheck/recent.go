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
	_ findings.Nodes    = recentNodes{}
	_ findings.Quotas   = recentQuotas{}
	_ findings.Scales   = (*recent)(nil)
)

// recent has what a finder reads from the API server. It reads again once the last read is older than recentPeriod. If that fails, it has
// what it read before, so that findings stay.
type recent struct {
	source *findings.Finder
	clock  clock.PassiveClock

	mu       sync.Mutex
	read     time.Time
	clusters []map[string]any
	idle     []string
	paths    map[schema.GroupVersionResource]replicasPath
	// nodes were read at nodesRead.
	nodesRead time.Time
	nodes     []map[string]any
	// quotas were read at quotasRead.
	quotasRead time.Time
	quotas     []placementv1.Quota
}

// replicasPath is the result of findings.Scales.
type replicasPath struct {
	read time.Time
	path []string
	ok   bool
}

// All implements findings.Clusters.
func (r *recent) All(ctx context.Context) (clusters []map[string]any, idle []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isRecent(r.read) {
		return r.clusters, r.idle, nil
	}
	clusters, idle, err = r.source.Clusters.All(ctx)
	if err != nil && r.read.IsZero() {
		return nil, nil, err
	}
	if err == nil {
		r.clusters, r.idle, r.read = clusters, idle, r.clock.Now()
	}
	return r.clusters, r.idle, nil
}

// ReplicasPath implements findings.Scales.
func (r *recent) ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.paths[resource]; r.isRecent(known.read) {
		return known.path, known.ok, nil
	}
	path, ok, err = r.source.Scales.ReplicasPath(ctx, resource)
	if known, before := r.paths[resource]; err != nil && before {
		return known.path, known.ok, nil
	}
	if err == nil {
		r.paths[resource] = replicasPath{r.clock.Now(), path, ok}
	}
	return path, ok, err
}

func (r *recent) isRecent(read time.Time) bool {
	return !read.IsZero() && r.clock.Since(read) < recentPeriod
}

// recentNodes are the nodes that recent has.
type recentNodes struct{ *recent }

// All implements findings.Nodes.
func (r recentNodes) All(ctx context.Context) ([]map[string]any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isRecent(r.nodesRead) {
		return r.nodes, nil
	}
	nodes, err := r.source.Nodes.All(ctx)
	if err != nil && r.nodesRead.IsZero() {
		return nil, err
	}
	if err == nil {
		r.nodes, r.nodesRead = nodes, r.clock.Now()
	}
	return r.nodes, nil
}

// recentQuotas are the quotas that recent has.
type recentQuotas struct{ *recent }

// Limits implements findings.Quotas.
func (r recentQuotas) Limits(ctx context.Context) ([]placementv1.LimitedResource, error) {
	return r.source.Quotas.Limits(ctx)
}

// All implements findings.Quotas.
func (r recentQuotas) All(ctx context.Context) ([]placementv1.Quota, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isRecent(r.quotasRead) {
		return r.quotas, nil
	}
	quotas, err := r.source.Quotas.All(ctx)
	if err != nil && r.quotasRead.IsZero() {
		return nil, err
	}
	if err == nil {
		r.quotas, r.quotasRead = quotas, r.clock.Now()
	}
	return r.quotas, nil
}
