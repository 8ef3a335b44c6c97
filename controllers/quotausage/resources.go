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

package quotausage

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// resourcesPeriod is how old the known resources of nodes and clusters may be before they are read again. Quotas are counted again with
// each change of what they count, and nodes hardly ever get other resources.
const resourcesPeriod = time.Minute

// recent caches a value, which its method get reads again once it is resourcesPeriod old. It is safe for concurrent use.
type recent[T any] struct {
	mu    sync.Mutex
	value T
	read  time.Time // When it was last read; zero for never.
}

// get returns the value, and reads it first if it was never read, or resourcesPeriod ago. After an error, what was known, or the zero
// value, stays for another resourcesPeriod: it only explains a condition. what names the value in the log.
func (r *recent[T]) get(ctx context.Context, now clock.PassiveClock, what string, read func(context.Context) (T, error)) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read.IsZero() || now.Since(r.read) >= resourcesPeriod {
		if value, err := read(ctx); err != nil {
			ctrllog.FromContext(ctx).V(1).Info("cannot read "+what, "error", err.Error())
		} else {
			r.value = value
		}
		r.read = now.Now()
	}
	return r.value
}

// nodeResources are the extended resources of nodes.
type nodeResources struct {
	names []string
	known bool // Whether there are nodes, and names are all of their resources.
}

// absentResources returns those of the names that no extended resource of a node has, according to has; none if the nodes are not known.
func (c *Controller) absentResources(ctx context.Context, names []string, has func(resource, name string) bool) []string {
	if c.Nodes == nil || len(names) == 0 {
		return nil
	}
	const what = "the extended resources of nodes, so that the condition Matched may not name those that no node has"
	nodes := c.resources.get(ctx, c.Clock, what, func(ctx context.Context) (nodeResources, error) {
		found, known, err := c.Nodes.ExtendedResources(ctx)
		return nodeResources{found, known}, err
	})
	if !nodes.known {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(nodes.names, func(resource string) bool { return has(resource, name) })
	})
}

// beyondCapacity returns messages about amounts of CPU and memory that are much more than all clusters and nodes have. It reads what these
// have only for large amounts.
func (c *Controller) beyondCapacity(ctx context.Context, spec *placementv1.QuotaSpec) []string {
	if c.Capacity == nil || len(quota.LargeRequests(spec)) == 0 {
		return nil
	}
	const what = "the CPU and memory of clusters and nodes, so that the condition Matched may not name amounts that are far above them"
	return c.Evaluators.BeyondCapacity(spec, c.capacity.get(ctx, c.Clock, what, c.Capacity.All))
}
