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

package remediation

import (
	"hash/maphash"
	"sync"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// Groups stores, for each policy, groups of objects that are equal in all fields that the policy reads. Each group is
// decided once, whatever its number of members. Groups is safe for concurrent use.
//
// Two rules ensure that every object gets the decision for the newest data in the end, whatever the order of decisions,
// data changes, and sweeps:
//
//   - Whenever a group's decision changes, all members that were decided differently are returned to be decided again.
//     So each member that is not returned has its group's decision.
//   - Record compares the revision of the data after it has added the object to its groups. If the data has changed
//     since the decision, it returns the object itself. Otherwise any change is still to come, and the sweep that
//     follows each change finds the object in its group.
//
// Revisions are only compared for equality. No two states of the data have the same revision, except that it is 0
// whenever data is missing.
type Groups struct {
	mu       sync.Mutex
	policies map[*placement.Policy]*policyGroups
	objects  map[Key]*object
	seed     maphash.Seed
}

// policyGroups holds the groups of one policy.
type policyGroups struct {
	policy *placement.Policy
	fields *projection.FieldSet
	groups map[string]*group
	// rest are the members that are in no group. Those of them without another equal object are also in single, by a
	// hash of the fields that the policy reads. To save memory, a group is only created for the second equal object.
	rest   []*membership
	single map[uint64]*membership
	// members is the number of members, including those in rest.
	members int
	// swept is the revision of the data in the last sweep. decided reports whether a decision on data has been recorded
	// since. Only decided tells one absence of the data, whose revision is always 0, from an earlier one.
	swept   uint64
	decided bool
}

// group is a set of objects that are equal in all fields that the policy reads.
type group struct {
	key      string
	input    map[string]any
	decision placement.Decision
	// revision is the revision of the data when the evaluation of decision began. If the data changed during the
	// evaluation, this revision is outdated and never occurs again.
	revision uint64
	members  []*membership
}

// object is one object with its memberships, one for each policy that matches it.
type object struct {
	key         Key
	memberships []*membership
}

// membership is the membership of an object in a policy's groups.
type membership struct {
	object *object
	in     *policyGroups
	// group is nil for a member of rest. index is the position in the list of the group or in rest.
	group *group
	index int
	// hash is the key of the membership in single; 0 if the membership is not there.
	hash uint64
}

// NewGroups returns empty groups.
func NewGroups() *Groups {
	return &Groups{policies: map[*placement.Policy]*policyGroups{}, objects: map[Key]*object{}, seed: maphash.MakeSeed()}
}

// keyBytes is a capacity that is sufficient for most keys.
const keyBytes = 256

// PolicyDecision is the decision of one policy on one object, with what it is based on. Lookup or NewPolicyDecision
// create it, and Record uses it.
type PolicyDecision struct {
	// Decision is valid only if Err is nil. Lookup sets it if Known is true. Otherwise the caller sets it after
	// evaluating the policy.
	Decision placement.Decision
	Err      error
	// Known reports whether the policy has already decided an equal object on the same data.
	Known bool

	policy   *placement.Policy
	fields   *projection.FieldSet
	revision uint64
	// input is the object's input for the policy. key identifies the fields that the policy reads; it is nil if the
	// decision must not be shared.
	input map[string]any
	key   []byte
}

// NewPolicyDecision returns a PolicyDecision that is not shared with other objects. Call it before evaluating the
// policy, so that Record can detect data that changes during the evaluation.
func NewPolicyDecision(p *placement.Policy) *PolicyDecision {
	return &PolicyDecision{policy: p, fields: p.Evaluator.Input(), revision: p.Evaluator.Revision()}
}

// Lookup returns a PolicyDecision with the policy's decision on the input, if it is known. Call it before evaluating the policy, so
// that Record can detect data that changes during the evaluation.
func (g *Groups) Lookup(p *placement.Policy, input map[string]any) *PolicyDecision {
	out := NewPolicyDecision(p)
	out.input = input
	if out.fields.IsAll() || out.revision == 0 {
		return out
	}
	key, ok := out.fields.AppendKey(make([]byte, 0, keyBytes), input)
	if !ok {
		return out
	}
	out.key = key
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil || in.fields != out.fields {
		return out
	}
	if group, ok := in.groups[string(key)]; ok && group.revision == out.revision {
		out.Decision, out.Known = group.decision, true
	}
	return out
}

// Record replaces the recorded decisions on an object by those of the policies that match it now. It returns the
// objects that must be decided again. The object itself is among them if its data changed during the evaluation.
func (g *Groups) Record(key Key, decisions []*PolicyDecision) (again []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[key]
	if o == nil {
		if len(decisions) == 0 {
			return nil
		}
		o = &object{key: key}
		g.objects[key] = o
	}
	before := o.memberships
	o.memberships = make([]*membership, 0, len(decisions))
	for _, decision := range decisions {
		s := take(before, decision.policy)
		if s == nil {
			s = &membership{object: o}
		}
		o.memberships = append(o.memberships, s)
		again = append(again, g.assign(s, decision)...)
	}
	for _, s := range before {
		if s != nil {
			g.leave(s)
		}
	}
	if len(o.memberships) == 0 {
		delete(g.objects, key)
	}
	return again
}

// Forget removes an object.
func (g *Groups) Forget(key Key) { g.Record(key, nil) }

// take removes the membership for a policy from the list and returns it. It returns nil if there is none.
func take(seats []*membership, p *placement.Policy) *membership {
	for i, s := range seats {
		if s != nil && s.in.policy == p {
			seats[i] = nil
			return s
		}
	}
	return nil
}

// assign moves a membership to the group that its decision belongs to, or to rest.
func (g *Groups) assign(s *membership, decision *PolicyDecision) (again []Key) {
	in := g.policies[decision.policy]
	if in == nil {
		in = &policyGroups{policy: decision.policy, fields: decision.fields, groups: map[string]*group{}, single: map[uint64]*membership{}, swept: decision.revision}
		g.policies[decision.policy] = in
	}
	fields := decision.policy.Evaluator.Input()
	if in.fields != fields {
		again = in.regroup(fields)
	}
	if s.in == nil {
		s.in = in
		in.members++
		in.enter(s, nil)
	}
	if decision.Err != nil || decision.key == nil || decision.fields != fields {
		in.move(s, nil)
	} else {
		again = append(again, g.join(s, decision)...)
	}
	in.decided = in.decided || decision.revision != 0
	changed := decision.fields != fields || decision.revision != decision.policy.Evaluator.Revision()
	// If revision is 0, data was missing at the start. If there is a decision all the same, the data arrived meanwhile.
	if changed || decision.revision == 0 && decision.Err == nil {
		return append(again, s.object.key)
	}
	return append(again, s.agree(decision)...)
}

// join moves a membership to the group of objects equal to its own. It creates the group for the second such object.
func (g *Groups) join(s *membership, decision *PolicyDecision) (again []Key) {
	in := s.in
	if s.group != nil && s.group.key == string(decision.key) {
		return nil
	}
	if group, ok := in.groups[string(decision.key)]; ok {
		in.move(s, group)
		return nil
	}
	// Setting the lowest bit keeps 0 free for memberships without a hash.
	hash := maphash.Bytes(g.seed, decision.key) | 1
	first := in.single[hash]
	if first == s {
		return nil
	}
	if first == nil {
		in.move(s, nil)
		s.hash = hash
		in.single[hash] = s
		return nil
	}
	made := &group{key: string(decision.key), input: decision.fields.Project(decision.input), decision: decision.Decision, revision: decision.revision}
	in.groups[made.key] = made
	in.move(s, made)
	// The first object moves to the group when it is decided again. Only its own key tells whether it is equal, because
	// different keys may have the same hash.
	return []Key{first.object.key}
}

// agree stores a decision on the newest data as the decision of the membership's group. It returns the members that must be
// decided again.
func (s *membership) agree(decision *PolicyDecision) (again []Key) {
	group := s.group
	if group == nil {
		return nil
	}
	group.revision = decision.revision
	if group.decision.Equal(decision.Decision) {
		return nil
	}
	group.decision = decision.Decision
	for _, other := range group.members {
		if other != s {
			again = append(again, other.object.key)
		}
	}
	return again
}

// Stale reports whether Sweep has anything to do for the policy.
func (g *Groups) Stale(p *placement.Policy) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	return in != nil && in.stale(p.Evaluator.Revision())
}

func (in *policyGroups) stale(revision uint64) bool {
	return in.swept != revision || revision == 0 && in.decided || in.fields != in.policy.Evaluator.Input()
}

// Sweep updates a policy's groups to the newest data. It calls evaluate for each group whose decision is based on older
// data, with the fields that the policy reads of the group's members. It calls again with the objects that must be
// decided again. These are the members of groups whose decision changed or whose evaluation failed, and the objects in
// no group.
//
// Only one goroutine at a time may call Sweep. It must be called after each change of data. If no data that the policy
// reads has changed, it does nothing.
func (g *Groups) Sweep(p *placement.Policy, evaluate func(namespace string, input map[string]any) (placement.Decision, error), again func([]Key)) {
	revision := p.Evaluator.Revision()
	stale, due := g.stale(p, revision)
	if len(due) > 0 {
		again(due)
	}
	for _, group := range stale {
		// If the data changes during the evaluation, the decision may be based on either state. So keep the older
		// revision.
		before := p.Evaluator.Revision()
		decision, err := evaluate(group.namespace, group.input)
		if due := g.swept(p, group.group, before, decision, err); len(due) > 0 {
			again(due)
		}
	}
}

// staleGroup is a group with the namespace of one of its members.
type staleGroup struct {
	*group
	namespace string
}

// stale returns the groups whose decision is not based on the revision, and the objects that must be decided
// individually.
func (g *Groups) stale(p *placement.Policy, revision uint64) (stale []staleGroup, again []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil || !in.stale(revision) {
		return nil, nil
	}
	in.swept, in.decided = revision, false
	if fields := p.Evaluator.Input(); in.fields != fields {
		in.regroup(fields)
	}
	again = keysOf(in.rest)
	for _, group := range in.groups {
		switch {
		case revision == 0:
			// Nothing can be decided without data. Each object must be evaluated to report this.
			again = append(again, keysOf(group.members)...)
		case group.revision != revision:
			stale = append(stale, staleGroup{group, group.members[0].object.key.Namespace})
		}
	}
	return stale, again
}

// swept stores a group's new decision, which was made on data of the revision or a newer one. It returns the objects
// that must be decided again.
func (g *Groups) swept(p *placement.Policy, group *group, revision uint64, decision placement.Decision, err error) (again []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil || in.groups[group.key] != group {
		// All members have left the group meanwhile.
		return nil
	}
	if err != nil {
		again = keysOf(group.members)
		for len(group.members) > 0 {
			in.move(group.members[len(group.members)-1], nil)
		}
		return again
	}
	group.revision = revision
	if group.decision.Equal(decision) {
		return nil
	}
	group.decision = decision
	return keysOf(group.members)
}

// regroup dissolves all groups because the policy turned out to read other fields. All members must be decided again.
func (in *policyGroups) regroup(fields *projection.FieldSet) (again []Key) {
	in.fields = fields
	for _, group := range in.groups {
		for len(group.members) > 0 {
			in.move(group.members[len(group.members)-1], nil)
		}
	}
	for _, s := range in.rest {
		in.unlist(s)
	}
	return keysOf(in.rest)
}

func keysOf(seats []*membership) []Key {
	out := make([]Key, len(seats))
	for i, s := range seats {
		out[i] = s.object.key
	}
	return out
}

// leave removes a membership from its policy's groups.
func (g *Groups) leave(s *membership) {
	s.in.exit(s)
	if s.in.members--; s.in.members == 0 {
		delete(g.policies, s.in.policy)
	}
}

// move moves a membership to another group, or to rest if to is nil. It removes the membership from single.
func (in *policyGroups) move(s *membership, to *group) {
	if s.group == to && s.hash == 0 {
		return
	}
	in.exit(s)
	in.enter(s, to)
}

func (in *policyGroups) enter(s *membership, to *group) {
	list := &in.rest
	if to != nil {
		list = &to.members
	}
	s.group, s.index = to, len(*list)
	*list = append(*list, s)
}

func (in *policyGroups) exit(s *membership) {
	in.unlist(s)
	list := &in.rest
	if s.group != nil {
		list = &s.group.members
	}
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[s.index], moved.index = moved, s.index
	(*list)[last] = nil
	*list = (*list)[:last]
	if s.group != nil && last == 0 {
		delete(in.groups, s.group.key)
	}
}

// unlist removes a membership from single.
func (in *policyGroups) unlist(s *membership) {
	if s.hash != 0 {
		delete(in.single, s.hash)
		s.hash = 0
	}
}
