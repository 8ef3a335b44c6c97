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

package deliverer

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// controllerInterval is the interval at which an object is reconciled again whose controller does not exist.
const controllerInterval = 10 * time.Second

// deliverersOf returns those of the matching policies that deliver an object itself, and not its controller: the object, such as a CronJob,
// from which it was made. While it is not known whether a policy matches the controller, the policy goes on delivering an object that is
// delivered, and delivers no other: otherwise, a user could keep an object where it is by a reference to a controller that does not exist.
// read is false while the controller, as it was read, lacks fields that match conditions read.
func (c *Controller) deliverersOf(ctx context.Context, object *unstructured.Unstructured, matching []*placement.Policy,
	n *need) (out []*placement.Policy, read bool, err error) {
	delivered := len(n.existing) > 0
	for _, controller := range delivery.ControllersOf(object) {
		delivers := func(p *placement.Policy) bool {
			return slices.ContainsFunc(c.deliveredBy(p), func(r policy.Resource) bool {
				return c.kindOf(r.GroupVersionResource) == controller.GroupKind
			})
		}
		if !slices.ContainsFunc(matching, delivers) {
			continue
		}
		versions, complete := c.placed.get(controller.Key)
		var of []*placement.Policy
		if len(versions) > 0 && controller.Is(versions[0].object) {
			matches, unknown, read, err := c.matching(ctx, versions)
			if err != nil || !read {
				return nil, false, err
			}
			of = matches
			if !delivered {
				c.keepDelivered(object, unknown, n)
				of = slices.Concat(matches, unknown)
			}
		} else {
			// The watch may not have it yet, or the reference is wrong, and the garbage collector deletes the object.
			n.lookAgain(controllerInterval)
			n.pending = n.pending || !c.isRead(controller.GroupKind, complete)
			if delivered {
				continue
			}
			of = slices.DeleteFunc(slices.Clone(matching), func(p *placement.Policy) bool { return !delivers(p) })
			c.keepDelivered(object, of, n)
		}
		matching = delivery.WithoutDeliverersOf(controller.GroupKind, of, matching)
	}
	return matching, true, nil
}

// keepDelivered makes converge neither change nor delete what is delivered for an object in the systems to which the policies deliver it.
func (c *Controller) keepDelivered(object *unstructured.Unstructured, policies []*placement.Policy, n *need) {
	for _, p := range policies {
		for _, system := range delivery.SystemsOf(p, object.GroupVersionKind().GroupKind()) {
			n.keep(system)
		}
	}
}

// isRead reports whether all objects of a kind are known: its type is among the complete ones.
func (c *Controller) isRead(kind schema.GroupKind, complete map[schema.GroupVersionResource]bool) bool {
	for resource := range complete {
		if c.kindOf(resource) == kind {
			return true
		}
	}
	return false
}
