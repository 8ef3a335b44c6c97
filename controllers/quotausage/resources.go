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

	corev1 "k8s.io/api/core/v1"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// resourcesPeriod is how old the known extended resources of nodes may be. Quotas are counted again with each change of what they count,
// and nodes hardly ever get other resources.
const resourcesPeriod = time.Minute

// nodeResources are the extended resources that nodes had when they were last read.
type nodeResources struct {
	mu    sync.Mutex
	names []string
	known bool      // Whether there are nodes, and names are all of their resources.
	read  time.Time // When the nodes were last read; zero for never.
}

// absentResources returns those of the names that no extended resource of a node has, according to has; none if the nodes are not known.
func (c *Controller) absentResources(ctx context.Context, names []string, has func(resource, name string) bool) []string {
	if c.Nodes == nil || len(names) == 0 {
		return nil
	}
	r := &c.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read.IsZero() || c.Clock.Since(r.read) >= resourcesPeriod {
		found, known, err := c.Nodes.ExtendedResources(ctx)
		if err != nil {
			// It only explains a condition. What was known stays.
			ctrllog.FromContext(ctx).V(1).Info("cannot read the resources of nodes", "error", err.Error())
		} else {
			r.names, r.known = found, known
		}
		r.read = c.Clock.Now()
	}
	if !r.known {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(r.names, func(resource string) bool { return has(resource, name) })
	})
}

// knownCapacity is what clusters and nodes had for pods when they were last read.
type knownCapacity struct {
	mu   sync.Mutex
	all  corev1.ResourceList
	read time.Time // When they were last read; zero for never.
}

// beyondCapacity returns messages about amounts that are much more than all clusters and nodes have. It reads these only for large amounts.
func (c *Controller) beyondCapacity(ctx context.Context, spec *placementv1.QuotaSpec) []string {
	if c.Capacity == nil || len(quota.LargeRequests(spec)) == 0 {
		return nil
	}
	k := &c.capacity
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read.IsZero() || c.Clock.Since(k.read) >= resourcesPeriod {
		if all, err := c.Capacity.All(ctx); err != nil {
			// It only explains a condition. What was known stays.
			ctrllog.FromContext(ctx).V(1).Info("cannot read the resources of clusters and nodes", "error", err.Error())
		} else {
			k.all = all
		}
		k.read = c.Clock.Now()
	}
	return c.Evaluators.BeyondCapacity(spec, k.all)
}
