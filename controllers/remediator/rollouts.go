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

package remediator

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

var _ watches.Sink = rollouts{}

// rollouts passes the progress of rollouts to the scheduler. It keeps no objects: the scheduler remembers those that are not ready.
type rollouts struct{ *Controller }

// Replace implements watches.Sink.
func (r rollouts) Replace(resource schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	all := make(map[remediation.Key]remediation.Rollout, len(objects))
	for _, o := range objects {
		if key := keyOf(resource, o); !r.carrierOf(key).Reports {
			all[key] = remediation.RolloutOf(o)
		}
	}
	r.Scheduler.ObserveAll(r.Clock.Now(), resource, all)
}

// Put implements watches.Sink.
func (r rollouts) Put(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if key := keyOf(resource, o); !r.carrierOf(key).Reports {
		r.Scheduler.Observe(r.Clock.Now(), key, remediation.RolloutOf(o))
	}
}

// Delete implements watches.Sink.
func (r rollouts) Delete(resource schema.GroupVersionResource, namespace, name string) {
	r.Scheduler.Unobserve(remediation.Key{Resource: resource, Namespace: namespace, Name: name})
}

// Drop implements watches.Sink.
func (r rollouts) Drop(resource schema.GroupVersionResource) {
	r.Scheduler.Unwatch(resource)
}

// carrierOf returns what is known of the systems that carry an object to clusters. If they report where it runs, its own status does not
// count: it may lack what kstatus reads, or show what controllers beside its clusters make of the object.
func (c *Controller) carrierOf(key remediation.Key) remediation.Carrier {
	result := c.Deliveries.Result(key.Resource, key.Namespace, key.Name)
	return remediation.Carrier{Reports: result.Reports, Surges: result.Surges}
}

// ObjectDelivered passes what multi-cluster systems report of an object to the scheduler.
func (c *Controller) ObjectDelivered(d delivery.Reconciled) {
	key := keyOf(d.Resource, d.Object)
	switch {
	case !d.Reports:
		c.Scheduler.EndReports(key)
		return
	case d.Run.State == delivery.RunUnknown:
		return
	}
	r := remediation.Rollout{
		UID: d.Object.GetUID(), Generation: d.Object.GetGeneration(), Version: d.Object.GetResourceVersion(),
		Ready: d.Arrived(), Serves: d.Kept != "", Missing: d.Run.Message,
	}
	c.Scheduler.Observe(c.Clock.Now(), key, r)
}

var rolloutFields = remediation.RolloutFields()

// wantedRollouts returns the types whose rollouts policies watch, with the fields that show them.
func (c *Controller) wantedRollouts() map[schema.GroupVersionResource]*projection.FieldSet {
	out := map[schema.GroupVersionResource]*projection.FieldSet{}
	for _, p := range c.Registry.InForce() {
		for _, resource := range c.rolled(p) {
			out[resource] = rolloutFields
		}
	}
	return out
}

// rolled returns the types of objects whose rollouts a policy watches.
func (c *Controller) rolled(p *placement.Policy) (out []schema.GroupVersionResource) {
	for _, resource := range c.matched.ofPolicy(p) {
		if _, templated := c.Decider.Templates.Path(resource.GroupResource()); templated && remediation.Observes(p, resource.GroupResource()) {
			out = append(out, resource)
		}
	}
	return out
}

// settleReadiness finds out whether it is known which objects of a policy are ready: those with rollouts have been decided by its versions
// in force, and their rollouts are observed.
func (c *Controller) settleReadiness(name string) {
	settled, epoch := c.Scheduler.Settled(name)
	if settled {
		return
	}
	state := c.Registry.Get(name)
	if state == nil || state.Policy == nil {
		// No version of the policy is in force, so nothing is observed for it.
		c.Scheduler.PolicyChanged(c.Clock.Now(), name, nil)
		return
	}
	var all []schema.GroupVersionResource
	for _, version := range state.Versions() {
		rolled, delivered := c.rolled(version), c.reported(version)
		resources := append(rolled, delivered...)
		if c.backlog.unassessed(version) || !c.observed(version, rolled) || !c.objects.allRecorded(resources) || len(delivered) > 0 && !c.delivered(delivered) {
			return
		}
		for _, resource := range resources {
			if !slices.Contains(all, resource) {
				all = append(all, resource)
			}
		}
	}
	if c.Ledger.Assessed(name) {
		c.Scheduler.Settle(c.Clock.Now(), budgeted(state.Versions()), all, epoch)
	}
}

// reported returns the types of objects that a policy matches and of which a multi-cluster system reports where they run.
func (c *Controller) reported(p *placement.Policy) (out []schema.GroupVersionResource) {
	for _, resource := range c.matched.ofPolicy(p) {
		kind := schema.GroupKind{Group: resource.Group, Kind: c.Catalog.Kind(resource)}
		if slices.ContainsFunc(c.delivering(resource), func(d *placement.Policy) bool {
			return slices.ContainsFunc(delivery.SystemsOf(d, kind), delivery.System.Reports)
		}) {
			out = append(out, resource)
		}
	}
	return out
}

// delivering returns the policies that may deliver objects of a type.
func (c *Controller) delivering(resource schema.GroupVersionResource) []*placement.Policy {
	return slices.DeleteFunc(slices.Clone(c.Registry.InForce()), func(p *placement.Policy) bool {
		return !delivery.MayDeliver(p) || !p.Matcher.SelectsResource(resource)
	})
}

// delivered reports whether the objects of some types have been delivered, so that it is known which of them run in their clusters.
func (c *Controller) delivered(resources []schema.GroupVersionResource) bool {
	return !slices.ContainsFunc(resources, func(resource schema.GroupVersionResource) bool {
		return !c.Deliveries.Settled(c.delivering(resource)...)
	})
}

// observed reports whether the objects of some types that a policy matches, and their rollouts, have been read, as far as Berth
// can read them.
func (c *Controller) observed(p *placement.Policy, resources []schema.GroupVersionResource) bool {
	reads := fieldsOf(p)
	return !slices.ContainsFunc(resources, func(resource schema.GroupVersionResource) bool {
		objects, _ := c.watches.StateOfFields(resource, reads)
		rollouts, _ := c.rollouts.StateOfFields(resource, rolloutFields)
		return !objects.Settled() || !rollouts.Settled()
	})
}
