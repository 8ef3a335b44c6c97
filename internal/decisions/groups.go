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

// Package decisions stores what policies decide on existing objects, once for all objects that are equal in what a policy reads.
package decisions

import (
	"hash/maphash"
	"sync"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
)

// Groups stores, for each policy, groups of objects that are equal in all fields that the policy reads. Each group is decided once. Groups
// is safe for concurrent use.
//
// A policy that is a placement.Chooser chooses clusters for each object by its path, such as "Deployment/shop/web". Objects that are equal
// apart from their paths form one group, whose open decision is decided once. If that changes, only those members are decided again for
// which other clusters may be chosen.
//
// Two rules ensure that every object gets the decision for the newest data in the end, in whatever order data changes and is swept:
//
//   - Whenever a group's decision changes, all members that were decided differently are returned to be decided again.
//     So each member that is not returned has its group's decision.
//   - Record compares the revision of the data after it has added the object to its groups. If the data has changed
//     since the decision, it returns the object itself. Otherwise any change is still to come, and the sweep that
//     follows each change finds the object in its group.
//
// Revisions are only compared for equality. No two states of the data have the same revision, except that it is 0 whenever data is missing.
type Groups struct {
	mu       sync.Mutex
	policies map[*placement.Policy]*policyGroups // The groups, by version of a policy.
	objects  map[remediation.CompactKey]*object  // The objects that are in a group of some policy.
	seed     maphash.Seed                        // The seed of the hashes in policyGroups.single.
}

// policyGroups holds the groups of one version of a policy.
type policyGroups struct {
	policy   *placement.Policy
	fields   *projection.FieldSet // The fields that the policy reads.
	groups   map[string]*group    // The groups other than rest, by PolicyDecision.key.
	rest     *group               // The objects that are in no other group, so that they are decided individually.
	choosing int                  // The number of groups with an open decision; at maxChoosing, more objects are decided individually.
	// single finds an object in rest by a hash of the fields that the policy reads, so that the next equal one forms a group with it. To save
	// memory, there is no group for one object.
	single map[uint64]*membership
	swept  uint64 // The revision of the data in the last sweep, or of the first decision before that; 0 if data was missing.
	// decided reports whether a decision on data has been recorded since the last sweep. It tells whether data that is missing now was
	// there meanwhile, because the revision of missing data is always 0.
	decided bool
}

// group is a set of objects that the policy decides alike: they are equal in all fields that it reads, and have one decision. Or they are
// equal in all fields that the policy's open decision depends on, which is the decision without the choice of clusters: they share that
// one, and the clusters are chosen for each object by its path.
type group struct {
	in       *policyGroups          // All groups of the policy's version, with this one.
	key      string                 // The key in policyGroups.groups.
	input    map[string]any         // The fields of one member that the policy reads.
	decision placement.Decision     // The decision on all members; without meaning if there is an open one.
	open     placement.OpenDecision // The decision without the choice of clusters, which each member makes; nil if there is none.
	// revision is that of the data when the evaluation of the decision began. If the data changed meanwhile, it never occurs again.
	revision uint64
	members  []*membership // The memberships of the objects in the group.
}

// object is one object with its memberships, one for each policy that matches it.
type object struct {
	key         remediation.CompactKey
	memberships []*membership // One for each policy that matches the object.
}

// membership places an object in one of the groups of a policy's version. The group of an object that is decided individually is
// policyGroups.rest, never nil. The membership does not hold the decision.
type membership struct {
	object *object
	group  *group
	index  int     // The index in group.members.
	hash   uint64  // A hash of what the policy reads of the object, its key in policyGroups.single; 0 if it is not in there.
	chosen *chosen // The clusters that an open decision chose for the object; nil in groups without an open decision.
}

// chosen are the clusters that an open decision chose for the object with a path. They tell whether a later one may choose others.
type chosen struct {
	path     string   // The path of the object (rules.ObjectPath), such as "Deployment/shop/web".
	clusters []string // The names of the chosen clusters.
}

// NewGroups returns empty groups.
func NewGroups() *Groups {
	return &Groups{policies: map[*placement.Policy]*policyGroups{}, objects: map[remediation.CompactKey]*object{}, seed: maphash.MakeSeed()}
}

// The first bytes of the keys of groups.
const (
	keyOfEqual = iota // A group of objects that are equal in all fields that the policy reads.
	keyOfOpen         // A group with an open decision.
)

// newKey returns a key that has only its first byte, with a capacity that is sufficient for most keys.
func newKey(kind byte) []byte { return append(make([]byte, 0, 256), kind) }

// PolicyDecision is the decision of one policy on one object, with what it is based on. Lookup and NewPolicyDecision create it.
type PolicyDecision struct {
	// Decision is valid only if Err is nil. Lookup sets it if it sets Known. Otherwise the caller evaluates the policy and sets it, by
	// calling Evaluated if Lookup returned the PolicyDecision.
	Decision placement.Decision
	Err      error // Why the policy could not decide.
	// Known reports whether Decision needs no evaluation: an equal object was decided on the same data, or only clusters were chosen.
	Known bool

	policy   *placement.Policy
	fields   *projection.FieldSet // The fields that the policy read when the PolicyDecision was created; never nil.
	revision uint64               // The revision of the data before the evaluation; 0 if data was missing.
	input    map[string]any       // The object as the policy gets it; nil if Lookup did not create the PolicyDecision.
	// key is the key of the group. It encodes the fields of input on which the decision depends: those that the policy reads or, if open is
	// not nil, those that open depends on. It is nil if other objects must not share the decision.
	key  []byte
	open placement.OpenDecision // The open decision that was completed to Decision for path; nil if there is none.
	path string                 // The path of the object, such as "Deployment/shop/web", if open is not nil.
}

// NewPolicyDecision returns a PolicyDecision that is not shared with other objects. Call it before evaluating the policy, so that Record
// can detect data that changes during the evaluation.
func NewPolicyDecision(p *placement.Policy) *PolicyDecision {
	return &PolicyDecision{policy: p, fields: p.Evaluator.Input(), revision: p.Evaluator.Revision()}
}

// Lookup returns a PolicyDecision on an input. It has the decision already if an equal object was decided on the same data, or if the
// policy only has to choose clusters for the object. Call it before evaluating the policy, like NewPolicyDecision.
func (g *Groups) Lookup(p *placement.Policy, input map[string]any) *PolicyDecision {
	out := NewPolicyDecision(p)
	out.input = input
	if !out.shareable() || out.choose() {
		return out
	}
	key, ok := out.fields.AppendKey(newKey(keyOfEqual), input)
	if !ok {
		return out
	}
	out.key = key
	g.mu.Lock()
	defer g.mu.Unlock()
	if in := g.policies[p]; in != nil && in.fields == out.fields {
		if group := in.groups[string(key)]; group != nil && group.revision == out.revision {
			out.Decision, out.Known = group.decision, true
		}
	}
	return out
}

// shareable reports whether other objects may share the decision. They may not if Lookup did not create it, if the policy reads the whole
// object, so that no other one is equal, or if data was missing before the evaluation. Whether the evaluation failed does not count.
func (d *PolicyDecision) shareable() bool {
	return d.input != nil && !d.fields.IsAll() && d.revision != 0
}

// Evaluated sets what the policy decided on an input whose decision was not known. If the engine now has an open decision on the input, the
// decision is that one with the clusters chosen, so that other objects can share the open one.
func (d *PolicyDecision) Evaluated(decision placement.Decision, err error) {
	if d.Decision, d.Err = decision, err; err == nil && d.shareable() {
		d.choose()
	}
}

// choose completes the open decision on the input, if the policy has one, by choosing clusters for the object, and sets the decision to the
// result. It reports whether it did.
func (d *PolicyDecision) choose() bool {
	open, path := openOf(d.policy, d.input)
	if open == nil {
		return false
	}
	key, ok := d.policy.Evaluator.(placement.Chooser).OpenInput().AppendKey(newKey(keyOfOpen), d.input)
	if ok {
		d.Decision, d.Known, d.key, d.open, d.path = open.Complete(path), true, key, open, path
	}
	return ok
}

// openOf returns the open decision of a policy on an input, and the path of the object, such as "Deployment/shop/web"; nil and "" if there
// is none. It evaluates nothing: there is none before an equal input was decided on the present data.
func openOf(p *placement.Policy, input map[string]any) (open placement.OpenDecision, path string) {
	if chooser, ok := p.Evaluator.(placement.Chooser); ok {
		if open, path, ok = chooser.Open(input); ok {
			return open, path
		}
	}
	return nil, ""
}

// hashSeed is the seed of DataOf.
var hashSeed = maphash.MakeSeed()

// DataOf returns a hash of the versions of policies and the revisions of data that decisions are based on; 0 if data of one was missing. It
// is comparable only within this process.
func DataOf(decisions []*PolicyDecision) uint64 {
	out := uint64(1)
	for _, d := range decisions {
		if d.revision == 0 {
			return 0
		}
		// The decisions have no order.
		out += maphash.Comparable(hashSeed, struct {
			policy   *placement.Policy
			revision uint64
		}{d.policy, d.revision})
	}
	return max(out, 1)
}

// Record replaces all decisions on an object by those of the policies that match it now. It returns the objects that must be decided again,
// among them the object itself if data changed during the evaluation.
func (g *Groups) Record(key remediation.Key, decisions []*PolicyDecision) (again []remediation.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := key.Compact()
	o := g.objects[id]
	if o == nil {
		o = &object{key: id}
	}
	before := o.memberships
	o.memberships = make([]*membership, 0, len(decisions))
	for _, decision := range decisions {
		var m *membership
		for i, of := range before {
			if of != nil && of.group.in.policy == decision.policy {
				m, before[i] = of, nil
			}
		}
		if m == nil {
			m = &membership{object: o}
		}
		o.memberships = append(o.memberships, m)
		again = append(again, g.assign(m, decision)...)
	}
	for _, m := range before {
		if m != nil {
			m.leave()
			if in := m.group.in; len(in.groups)+len(in.rest.members) == 0 {
				delete(g.policies, in.policy)
			}
		}
	}
	if g.objects[id] = o; len(o.memberships) == 0 {
		delete(g.objects, id)
	}
	return again
}

// Forget removes an object from all groups.
func (g *Groups) Forget(key remediation.Key) { g.Record(key, nil) }

// assign moves a membership to the group that shares its decision or, without one, to policyGroups.rest, as after a failed evaluation, or
// if the policy reads other fields by now. It returns the objects that must be decided again, among them its own if the data or these
// fields have changed since the evaluation began.
func (g *Groups) assign(m *membership, decision *PolicyDecision) (again []remediation.Key) {
	in := g.policies[decision.policy]
	if in == nil {
		in = &policyGroups{
			policy: decision.policy, fields: decision.fields, groups: map[string]*group{}, single: map[uint64]*membership{},
			swept: decision.revision,
		}
		in.rest = &group{in: in}
		g.policies[decision.policy] = in
	}
	fields := decision.policy.Evaluator.Input()
	if in.fields != fields {
		again = in.regroup(fields)
	}
	if m.group == nil {
		m.enter(in.rest)
	}
	if decision.Err != nil || decision.key == nil || decision.fields != fields {
		m.move(in.rest)
	} else {
		again = append(again, g.join(m, decision)...)
	}
	in.decided = in.decided || decision.revision != 0
	changed := decision.fields != fields || decision.revision != decision.policy.Evaluator.Revision()
	// If revision is 0, data was missing at the start. If there is a decision all the same, the data arrived meanwhile.
	if changed || decision.revision == 0 && decision.Err == nil {
		return append(again, m.object.key.Key())
	}
	if m.group != in.rest {
		for _, key := range m.group.agree(decision) {
			if key != m.object.key.Key() {
				again = append(again, key)
			}
		}
	}
	return again
}

// maxChoosing is the maximum number of groups of one version of a policy with an open decision, one without the choice of clusters: each
// keeps the clusters that it chooses from, and a sweep evaluates one after the other. Objects in no group are decided individually.
const maxChoosing = 256

// join moves a membership to the group of objects equal to its own. It creates a group with an open decision for the first such object, up
// to maxChoosing, and one without for the second. It then returns the first one, to be decided again: only its own key tells whether it is
// equal, and not its hash.
func (g *Groups) join(m *membership, decision *PolicyDecision) (again []remediation.Key) {
	in, open := m.group.in, decision.open != nil
	to := in.groups[string(decision.key)]
	switch {
	case to != nil:
	case open && in.choosing >= maxChoosing:
		to = in.rest
	case !open:
		// Setting the lowest bit keeps 0 free for memberships without a hash.
		hash := maphash.Bytes(g.seed, decision.key) | 1
		first := in.single[hash]
		if first == m {
			return nil
		}
		if first == nil {
			m.move(in.rest)
			m.hash, in.single[hash] = hash, m
			return nil
		}
		again = []remediation.Key{first.object.key.Key()}
		fallthrough
	default:
		to = &group{
			in: in, key: string(decision.key), input: decision.fields.Project(decision.input), decision: decision.Decision,
			open: decision.open, revision: decision.revision,
		}
		in.groups[to.key] = to
		if open {
			in.choosing++
		}
	}
	if m.move(to); to.open != nil {
		m.chosen = &chosen{decision.path, decision.Decision.Clusters}
	}
	return again
}

// isOpen reports whether the group has an open decision, one without the choice of clusters. It does not need the mutex.
func (g *group) isOpen() bool { return g.key[0] == keyOfOpen }

// agree stores the newest decision on a member as that of the group, without comparing revisions. If it differs from the one before, agree
// returns all members, that one included, to be decided again; of a group with an open decision, only those for which the new one may
// choose other clusters. It returns nil if there are none.
func (g *group) agree(d *PolicyDecision) []remediation.Key {
	g.revision = d.revision
	if before := g.open; before != nil {
		g.open = d.open
		return g.concerned(before, d.open)
	}
	if g.decision.Equal(d.Decision) {
		return nil
	}
	g.decision = d.Decision
	return g.keys()
}

// concerned returns the members for which a later open decision may choose other clusters than the one before did.
func (g *group) concerned(before, later placement.OpenDecision) (out []remediation.Key) {
	if before == later {
		return nil
	}
	concerns, ok := before.ChangesTo(later)
	if !ok {
		return g.keys()
	}
	for _, m := range g.members {
		if concerns(m.chosen.path, m.chosen.clusters) {
			out = append(out, m.object.key.Key())
		}
	}
	return out
}

// Stale reports whether the data that a version of a policy reads, or the fields that it reads of objects, have changed since its last
// Sweep, so that Sweep has something to do. It is false if no decision of that version is recorded.
func (g *Groups) Stale(p *placement.Policy) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	return in != nil && in.stale(p.Evaluator.Revision())
}

// stale reports whether groups were decided on data of another revision than the given one, or by other fields, so that Sweep has to decide
// them again. The revision 0 stands for missing data: if the last sweep had it, too, groups are stale only if a decision on data was
// recorded since.
func (in *policyGroups) stale(revision uint64) bool {
	return in.swept != revision || revision == 0 && in.decided || in.fields != in.policy.Evaluator.Input()
}

// Sweep updates a policy's groups to the newest data. It calls evaluate for each group whose decision is based on older data. input has the
// fields of one member that the policy reads. Sweep passes to the function again the objects that must be decided again: the members of
// groups whose decision changed or whose evaluation failed, and the objects in no group. Of a group with an open decision, it passes only
// the members for which other clusters may be chosen. While data is missing, it passes all objects, and calls evaluate for none.
//
// Only one goroutine at a time may call Sweep, after each change of data. If no data that the policy reads has changed, it does nothing.
func (g *Groups) Sweep(p *placement.Policy, evaluate func(namespace string, input map[string]any) (placement.Decision, error),
	again func([]remediation.Key)) {
	stale, due := g.stale(p, p.Evaluator.Revision())
	if len(due) > 0 {
		again(due)
	}
	for group, namespace := range stale {
		// If the data changes during the evaluation, the decision may be based on either state. So keep the older revision.
		result := &PolicyDecision{policy: p, revision: p.Evaluator.Revision()}
		if result.Decision, result.Err = evaluate(namespace, group.input); group.isOpen() {
			result.open, _ = openOf(p, group.input)
		}
		if due := g.swept(group, result); len(due) > 0 {
			again(due)
		}
	}
}

// stale begins a sweep to a revision, unless the groups are up to date. It returns the groups whose decision is not based on the revision,
// each with the namespace of one of its members, and the objects that must be decided individually: those in no group, or all if data is
// missing.
func (g *Groups) stale(p *placement.Policy, revision uint64) (stale map[*group]string, again []remediation.Key) {
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
	stale, again = map[*group]string{}, in.rest.keys()
	for _, group := range in.groups {
		switch {
		case revision == 0:
			// Nothing can be decided without data. Each object must be evaluated to report this.
			again = append(again, group.keys()...)
		case group.revision != revision:
			stale[group] = group.members[0].object.key.Key().Namespace
		}
	}
	return stale, again
}

// swept stores the new decision that Sweep found for a group. It dissolves the group if the evaluation failed, or if a group with an open
// decision has none any more. It returns the objects that must be decided again.
func (g *Groups) swept(group *group, result *PolicyDecision) []remediation.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[result.policy]
	if in == nil || in.groups[group.key] != group {
		// All members have left the group meanwhile.
		return nil
	}
	if result.Err != nil || group.isOpen() && result.open == nil {
		return group.dissolve()
	}
	return group.agree(result)
}

// regroup dissolves all groups because the policy reads other fields than was known. It returns the members of all, also of rest, which
// must be decided again.
func (in *policyGroups) regroup(fields *projection.FieldSet) (again []remediation.Key) {
	in.fields = fields
	for _, group := range in.groups {
		group.dissolve()
	}
	for _, m := range in.rest.members {
		m.unlist()
	}
	return in.rest.keys()
}

// dissolve moves the members of a group to policyGroups.rest, where they are decided individually, and returns them.
func (g *group) dissolve() []remediation.Key {
	out := g.keys()
	for len(g.members) > 0 {
		g.members[len(g.members)-1].move(g.in.rest)
	}
	return out
}

// keys returns the keys of the members.
func (g *group) keys() []remediation.Key {
	out := make([]remediation.Key, len(g.members))
	for i, m := range g.members {
		out[i] = m.object.key.Key()
	}
	return out
}

// move moves a membership to another group of the policy, and removes it from policyGroups.single.
func (m *membership) move(to *group) {
	if m.group != to || m.hash != 0 {
		m.leave()
		m.enter(to)
	}
}

// enter adds a membership to a group.
func (m *membership) enter(to *group) {
	m.group, m.index = to, len(to.members)
	to.members = append(to.members, m)
}

// leave removes a membership from its group and from policyGroups.single, and the group, other than policyGroups.rest, from the policy's
// groups if it is then empty.
func (m *membership) leave() {
	m.unlist()
	m.chosen = nil
	from := m.group
	last := len(from.members) - 1
	moved := from.members[last]
	from.members[m.index], moved.index = moved, m.index
	from.members[last] = nil
	from.members = from.members[:last]
	if last == 0 && from != from.in.rest {
		delete(from.in.groups, from.key)
		if from.isOpen() {
			from.in.choosing--
		}
	}
}

// unlist removes a membership from policyGroups.single, so that the next equal object does not find it there. It does nothing if the
// membership is not in there.
func (m *membership) unlist() {
	if m.hash != 0 {
		delete(m.group.in.single, m.hash)
		m.hash = 0
	}
}
