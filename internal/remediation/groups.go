package remediation

import (
	"hash/maphash"
	"sync"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

// Groups keeps, for each policy, which objects the policy can't tell apart: what it reads of them is the same. A
// policy decides each group once, whatever the number of its members. It is safe for concurrent use.
//
// Two rules make sure that every object in the end has the decision of the newest data, in whatever order decisions,
// changes of data and sweeps come:
//
//   - A group's decision changes only together with a call for all members that were decided otherwise to be decided
//     again. So whoever is not called for has the decision of its group.
//   - Record looks at the revision of the data after it has put the object into its groups. If the data changed since
//     the decision was made, it calls for the object itself. If not, the change is still to come, and the sweep that
//     follows each change finds the object in its group.
//
// Revisions are only compared for equality: no state of the data ever gets the revision of another one.
type Groups struct {
	mu       sync.Mutex
	policies map[*placement.Policy]*grouping
	objects  map[Key]*object
	seed     maphash.Seed
}

// grouping are one policy's groups.
type grouping struct {
	policy *placement.Policy
	fields *projection.Fields
	groups map[string]*group
	// rest are the members of no group. Those that are alone with what the policy reads of them are also in single,
	// by a hash of that: a group is worth its memory from the second member on.
	rest   []*seat
	single map[uint64]*seat
	// members is their number, those in rest included.
	members int
	// swept is the revision that the last sweep brought all groups to.
	swept uint64
}

// group are objects that a policy can't tell apart.
type group struct {
	key      string
	input    map[string]any
	decision placement.Decision
	// revision is that of the data when the decision was asked for. If the data changed before it was made, the revision
	// is history, and never is that of the data again.
	revision uint64
	members  []*seat
}

// object is one object and its seats, one for each policy that matches it.
type object struct {
	key   Key
	seats []*seat
}

// seat is an object's place in a grouping.
type seat struct {
	object *object
	in     *grouping
	// group is nil for a member of the rest; index is the place in the group's or the rest's list.
	group *group
	index int
	// hash is where single has the seat; 0 for a seat that is not there.
	hash uint64
}

// NewGroups returns groups without members.
func NewGroups() *Groups {
	return &Groups{policies: map[*placement.Policy]*grouping{}, objects: map[Key]*object{}, seed: maphash.MakeSeed()}
}

// keyBytes is what most keys fit into.
const keyBytes = 256

// Part is what one policy decides of one object, and what from. Look or NewPart makes it, Record takes it.
type Part struct {
	// Decision is valid if Err is nil. It is set by Look if it is Known, and else by who evaluates the policy.
	Decision placement.Decision
	Err      error
	// Known says that the policy has decided its like already.
	Known bool

	policy   *placement.Policy
	fields   *projection.Fields
	revision uint64
	// input is what the policy reads of the object, and key stands for it; nil where nothing may be concluded from it.
	input map[string]any
	key   []byte
}

// NewPart returns a part of a decision that is of one object only, whatever others are like. It must be called before the
// policy is evaluated, for data that changes meanwhile to be noticed.
func NewPart(p *placement.Policy) *Part {
	return &Part{policy: p, fields: p.Evaluator.Input(), revision: p.Evaluator.Revision()}
}

// Look returns the policy's decision on an input, if it is known. It must be called before the policy is evaluated, for
// data that changes meanwhile to be noticed.
func (g *Groups) Look(p *placement.Policy, input map[string]any) *Part {
	out := NewPart(p)
	out.input = input
	if out.fields.Whole() || out.revision == 0 {
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

// Record replaces what is known of an object by what the policies that match it decided. It returns the objects that
// have to be decided again, this one among them if its data changed meanwhile.
func (g *Groups) Record(key Key, parts []*Part) (again []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[key]
	if o == nil {
		if len(parts) == 0 {
			return nil
		}
		o = &object{key: key}
		g.objects[key] = o
	}
	before := o.seats
	o.seats = make([]*seat, 0, len(parts))
	for _, part := range parts {
		s := take(before, part.policy)
		if s == nil {
			s = &seat{object: o}
		}
		o.seats = append(o.seats, s)
		again = append(again, g.seat(s, part)...)
	}
	for _, s := range before {
		if s != nil {
			g.leave(s)
		}
	}
	if len(o.seats) == 0 {
		delete(g.objects, key)
	}
	return again
}

// Forget removes an object.
func (g *Groups) Forget(key Key) { g.Record(key, nil) }

// take removes the seat at a policy from the list, and returns it.
func take(seats []*seat, p *placement.Policy) *seat {
	for i, s := range seats {
		if s != nil && s.in.policy == p {
			seats[i] = nil
			return s
		}
	}
	return nil
}

// seat puts an object where a part of its decision belongs.
func (g *Groups) seat(s *seat, part *Part) (again []Key) {
	in := g.policies[part.policy]
	if in == nil {
		in = &grouping{policy: part.policy, fields: part.fields, groups: map[string]*group{}, single: map[uint64]*seat{}, swept: part.revision}
		g.policies[part.policy] = in
	}
	fields := part.policy.Evaluator.Input()
	if in.fields != fields {
		again = in.regroup(fields)
	}
	if s.in == nil {
		s.in = in
		in.members++
		in.enter(s, nil)
	}
	if part.Err != nil || part.key == nil || part.fields != fields {
		in.move(s, nil)
	} else {
		again = append(again, g.join(s, part)...)
	}
	changed := part.fields != fields || part.revision != part.policy.Evaluator.Revision()
	// Data that was missing before and is now was there meanwhile, if there is a decision.
	if changed || part.revision == 0 && part.Err == nil {
		return append(again, s.object.key)
	}
	return append(again, s.agree(part)...)
}

// join moves a seat into the group of its like. The group is made when there are two of them.
func (g *Groups) join(s *seat, part *Part) (again []Key) {
	in := s.in
	if s.group != nil && s.group.key == string(part.key) {
		return nil
	}
	if group, ok := in.groups[string(part.key)]; ok {
		in.move(s, group)
		return nil
	}
	// No seat has the hash 0.
	hash := maphash.Bytes(g.seed, part.key) | 1
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
	made := &group{key: string(part.key), input: part.fields.Cut(part.input), decision: part.Decision, revision: part.revision}
	in.groups[made.key] = made
	in.move(s, made)
	// The first of its like comes by itself, with its own key: another one may have the same hash.
	return []Key{first.object.key}
}

// agree makes a decision that is of the newest data that of the seat's group.
func (s *seat) agree(part *Part) (again []Key) {
	group := s.group
	if group == nil {
		return nil
	}
	group.revision = part.revision
	if group.decision.Equal(part.Decision) {
		return nil
	}
	group.decision = part.Decision
	for _, other := range group.members {
		if other != s {
			again = append(again, other.object.key)
		}
	}
	return again
}

// Members returns the objects that a policy was asked about when they were decided last.
func (g *Groups) Members(p *placement.Policy) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil {
		return nil
	}
	out := make([]Key, 0, in.members)
	for _, group := range in.groups {
		out = append(out, keysOf(group.members)...)
	}
	return append(out, keysOf(in.rest)...)
}

// Stale says whether Sweep has anything to do.
func (g *Groups) Stale(p *placement.Policy) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	return in != nil && in.stale(p.Evaluator.Revision())
}

func (in *grouping) stale(revision uint64) bool {
	return in.swept != revision || in.fields != in.policy.Evaluator.Input()
}

// Sweep brings a policy's groups to the newest data: evaluate is called for each group whose decision is of older data,
// with what the policy reads of its members, and again with the objects that have to be decided again. These are the
// members of groups whose decision is another one now, or failed, and those of no group. It is for one goroutine at a
// time, and has to be called after each change of data; if no data that the policy reads has changed it does nothing.
func (g *Groups) Sweep(p *placement.Policy, evaluate func(namespace string, input map[string]any) (placement.Decision, error), again func([]Key)) {
	revision := p.Evaluator.Revision()
	stale, due := g.stale(p, revision)
	if len(due) > 0 {
		again(due)
	}
	for _, group := range stale {
		// What changes during the evaluation leaves open which data it saw.
		before := p.Evaluator.Revision()
		decision, err := evaluate(group.namespace, group.input)
		if due := g.swept(p, group.group, before, decision, err); len(due) > 0 {
			again(due)
		}
	}
}

// staleGroup is a group, and the namespace of one of its members.
type staleGroup struct {
	*group
	namespace string
}

func namespaceOf(g *group) string {
	if len(g.members) == 0 {
		return ""
	}
	return g.members[0].object.key.Namespace
}

// stale returns the groups whose decision is not of a revision, and the objects that are in no group.
func (g *Groups) stale(p *placement.Policy, revision uint64) (stale []staleGroup, again []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil || !in.stale(revision) {
		return nil, nil
	}
	in.swept = revision
	if fields := p.Evaluator.Input(); in.fields != fields {
		in.regroup(fields)
	}
	again = keysOf(in.rest)
	for _, group := range in.groups {
		switch {
		case revision == 0:
			// Without data nothing can be decided, which each object has to be told.
			again = append(again, keysOf(group.members)...)
		case group.revision != revision:
			stale = append(stale, staleGroup{group, namespaceOf(group)})
		}
	}
	return stale, again
}

// swept takes a new decision of a group, which was made when the data had the revision or a newer one.
func (g *Groups) swept(p *placement.Policy, group *group, revision uint64, decision placement.Decision, err error) (again []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.policies[p]
	if in == nil || in.groups[group.key] != group {
		// All members left meanwhile.
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

// regroup dissolves all groups, since the policy turned out to read other fields. All members have to be decided again.
func (in *grouping) regroup(fields *projection.Fields) (again []Key) {
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

func keysOf(seats []*seat) []Key {
	out := make([]Key, len(seats))
	for i, s := range seats {
		out[i] = s.object.key
	}
	return out
}

// leave gives a seat up.
func (g *Groups) leave(s *seat) {
	s.in.exit(s)
	if s.in.members--; s.in.members == 0 {
		delete(g.policies, s.in.policy)
	}
}

// move moves a seat to another group; nil for the rest, where it is not listed.
func (in *grouping) move(s *seat, to *group) {
	if s.group == to && s.hash == 0 {
		return
	}
	in.exit(s)
	in.enter(s, to)
}

func (in *grouping) enter(s *seat, to *group) {
	list := &in.rest
	if to != nil {
		list = &to.members
	}
	s.group, s.index = to, len(*list)
	*list = append(*list, s)
}

func (in *grouping) exit(s *seat) {
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

// unlist says that a seat no longer waits for a second one of its like.
func (in *grouping) unlist(s *seat) {
	if s.hash != 0 {
		delete(in.single, s.hash)
		s.hash = 0
	}
}
