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
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

// neededFields computes the field set of each type that decisions need. It is safe for concurrent use.
type neededFields struct {
	registry *placement.Registry
	decider  *placement.Decider

	mu sync.Mutex
	// scheduled holds the types with objects whose record contains scheduling fields that policies overwrote. Those
	// fields are needed even when no policy sets scheduling fields any more.
	scheduled map[schema.GroupVersionResource]bool
	// policies and their inputs are what byType is computed from. byType is filled on demand.
	policies []*placement.Policy
	inputs   []*projection.FieldSet
	byType   map[schema.GroupVersionResource]*projection.FieldSet
}

// lastApplied is kubectl's copy of an object. It doubles the size of an object, and policies hardly ever read it.
const lastApplied = corev1.LastAppliedConfigAnnotation

var (
	// always is the field set that every decision needs, besides the fields that identify an object. Selectors read
	// labels. A decision is compared with labels and annotations. One annotation is the record of the developer's
	// requested values, whose signature may cover generateName.
	always = func() *projection.FieldSet {
		f := &projection.FieldSet{}
		metadata := f.AddName("metadata")
		metadata.AddName("generateName")
		metadata.AddName("labels").AddAll()
		metadata.AddName("annotations").AddAll()
		return f.Seal()
	}()
	evictionFields = remediation.EvictionFields()
	// copied is kubectl's copy, as a field set of a policy.
	copied = func() *projection.FieldSet {
		f := &projection.FieldSet{}
		f.AddName("metadata").AddName("annotations").AddName(lastApplied)
		return f.Seal()
	}()
	// withCopy marks a field set that needs kubectl's copy, by a name that no object has. The field set always covers
	// all annotations, so copied itself can't tell.
	withCopy = func() *projection.FieldSet {
		f := &projection.FieldSet{}
		f.AddName("\x00" + lastApplied)
		return f.Seal()
	}()
)

// forType returns the sealed field set that the policies in force need of a type, or nil for whole objects.
func (n *neededFields) forType(resource schema.GroupVersionResource) *projection.FieldSet {
	n.mu.Lock()
	defer n.mu.Unlock()
	if policies := n.registry.InForce(); n.byType == nil || !identical(policies, n.policies) {
		n.renew(policies)
	}
	if fields, ok := n.byType[resource]; ok {
		return fields
	}
	fields := n.compute(resource)
	n.byType[resource] = fields
	return fields
}

func (n *neededFields) renew(policies []*placement.Policy) {
	n.policies, n.inputs, n.byType = policies, make([]*projection.FieldSet, len(policies)), map[schema.GroupVersionResource]*projection.FieldSet{}
	for i, p := range policies {
		n.inputs[i] = p.Evaluator.Input()
	}
}

// identical reports whether two slices share the same memory.
func identical(a, b []*placement.Policy) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// schedule records that an object of a type has a record of scheduling fields that policies overwrote. It reports
// whether that was not known before.
func (n *neededFields) schedule(resource schema.GroupVersionResource) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.scheduled[resource] {
		return false
	}
	if n.scheduled == nil {
		n.scheduled = map[schema.GroupVersionResource]bool{}
	}
	n.scheduled[resource] = true
	delete(n.byType, resource)
	return true
}

// widened reports whether the field set of a policy has changed since it was last read.
func (n *neededFields) widened() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if policies := n.registry.InForce(); !identical(policies, n.policies) {
		// Don't keep references to policies that are no longer in force: after the last policy, forType is never called
		// again.
		n.renew(policies)
	}
	for i, p := range n.policies {
		if n.inputs[i] != p.Evaluator.Input() {
			n.renew(n.policies)
			return true
		}
	}
	return false
}

func (n *neededFields) compute(resource schema.GroupVersionResource) *projection.FieldSet {
	sets, known := []*projection.FieldSet{always}, map[*projection.FieldSet]bool{}
	schedules := n.scheduled[resource]
	for i, p := range n.policies {
		input := n.inputs[i]
		if !p.Matcher.SelectsResource(resource) {
			continue
		}
		if input.IsAll() || p.Matcher.Conditional() {
			return projection.AllFields()
		}
		schedules = schedules || p.Schedules
		if remediation.EvictsFrom(p, resource.GroupResource()) {
			sets = append(sets, evictionFields)
		}
		if known[input] {
			continue
		}
		known[input] = true
		sets = append(sets, input)
		if input.Covers(copied) {
			sets = append(sets, withCopy)
		}
	}
	sets = append(sets, placement.FollowFields(resource.GroupResource()))
	if path, ok := n.decider.Templates.Path(resource.GroupResource()); ok && schedules {
		sets = append(sets, placement.SchedulingFields(path))
	}
	if kind := n.decider.ClusterLists.Of(resource.GroupResource()); kind != nil {
		sets = append(sets, kind.Fields())
	}
	return projection.Union(sets...)
}
