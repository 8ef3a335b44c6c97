package embedded

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

const (
	// ruleMemoBytes bounds the values of the rules of one policy that are remembered, twice over.
	ruleMemoBytes = 1 << 20
	// termBytes is about what one value of the policy language takes besides its text.
	termBytes = 80
	// rulesCheckEvery is how many evaluations with known rules there are to a check. Over a thousand clusters the check
	// takes a hundred times as long as the evaluation.
	rulesCheckEvery = 8 * checkEvery
	// ruleTrial is how many look-ups it takes to see whether a set of fields repeats, and ruleRetrial after how many it
	// may show again that it does.
	ruleTrial, ruleRetrial = 256, 1 << 14
)

// ruleMemo remembers the values of a policy's rules that read a part of what the policy reads: the decision may be a
// new one while most of what it takes is known. It is safe for concurrent use.
//
// Values are found by the revision of the data and the key of the input's fields that the rule reads.
type ruleMemo struct {
	rules []memoRule
	// byName are the rules by the last name of their references.
	byName map[string][]int
	// sets are the distinct sets of fields that the rules read.
	sets []*projection.Fields
	// slots is how many rules read each set.
	slots []int

	current atomic.Pointer[ruleTable]
	// reuses counts the evaluations that values were known to.
	reuses atomic.Uint64
	// off says that a rule reads more than its key has.
	off atomic.Bool
}

// sample says whether to check an evaluation that values were known to. It counts them.
func (m *ruleMemo) sample() bool {
	return sampled(m.reuses.Add(1), rulesCheckEvery)
}

// memoRule is a rule whose values are remembered.
type memoRule struct {
	ref ast.Ref
	// set is the number of the fields that it reads, and slot that of the rule among those that read them.
	set, slot int
}

// newRuleMemo returns nil if none of a module's rules is worth it.
func newRuleMemo(m *policy.Module) *ruleMemo {
	if len(m.Helpers) == 0 {
		return nil
	}
	out := &ruleMemo{byName: map[string][]int{}}
	for i, h := range m.Helpers {
		set := slices.Index(out.sets, h.Input)
		if set < 0 {
			set = len(out.sets)
			out.sets, out.slots = append(out.sets, h.Input), append(out.slots, 0)
		}
		name, _ := h.Ref[len(h.Ref)-1].Value.(ast.String)
		out.byName[string(name)] = append(out.byName[string(name)], i)
		out.rules = append(out.rules, memoRule{ref: h.Ref, set: set, slot: out.slots[set]})
		out.slots[set]++
	}
	return out
}

// ruleTable are the values at one revision of the data. It has two generations, as a memo has.
type ruleTable struct {
	revision uint64
	uses     []setUse

	mu         sync.RWMutex
	young, old map[string]ruleValues
	size       int
}

// setUse says how often the values for a set of fields were asked for, and were there.
type setUse struct {
	asked, known atomic.Int64
}

// worthwhile counts a look-up, and says whether to make it. What differs from object to object is not looked up: it
// would only drive out what does not.
func (u *setUse) worthwhile() bool {
	asked := u.asked.Add(1)
	if asked > ruleRetrial {
		u.asked.Store(0)
		u.known.Store(0)
		return true
	}
	return asked <= ruleTrial || u.known.Load()*4 >= asked
}

// ruleValues are the values of the rules that read one set of fields, for one key. A nil pointer is a value that is not
// known. Values are immutable.
type ruleValues []atomic.Pointer[ast.Term]

// undefinedValue stands for a rule that has no value.
var undefinedValue = &ast.Term{}

// view returns what one evaluation at a revision of the data sees of the memo; nil for nothing. The input may change
// once it has returned.
func (m *ruleMemo) view(revision uint64, input map[string]any) *ruleView {
	if m == nil || m.off.Load() {
		return nil
	}
	t := m.at(revision)
	if t == nil {
		return nil
	}
	v := &ruleView{
		VirtualCache: topdown.NewVirtualCache(), memo: m, table: t,
		found: make([]*ast.Term, len(m.rules)), fresh: make([]bool, len(m.rules)), keys: make([]int, len(m.sets)+1),
	}
	var known []ruleValues
	for set, fields := range m.sets {
		var values ruleValues
		if t.uses[set].worthwhile() {
			start := len(v.buffer)
			// The set is a part of the key.
			key, ok := fields.AppendKey(append(v.buffer, byte(set), byte(set>>8)), input)
			if ok {
				v.buffer = key
				values = t.get(v.buffer[start:])
			}
			if values != nil {
				t.uses[set].known.Add(1)
			}
		}
		v.keys[set+1] = len(v.buffer)
		known = append(known, values)
	}
	for i, r := range m.rules {
		if values := known[r.set]; values != nil {
			v.found[i] = values[r.slot].Load()
		}
	}
	return v
}

// at returns the table of a revision; nil if there is a newer one. Revisions grow.
func (m *ruleMemo) at(revision uint64) *ruleTable {
	for {
		standing := m.current.Load()
		switch {
		case standing != nil && standing.revision == revision:
			return standing
		case standing != nil && standing.revision > revision:
			return nil
		}
		m.current.CompareAndSwap(standing, &ruleTable{revision: revision, uses: make([]setUse, len(m.sets)), young: map[string]ruleValues{}})
	}
}

func (t *ruleTable) get(key []byte) ruleValues {
	t.mu.RLock()
	values, young := t.young[string(key)]
	if !young {
		values = t.old[string(key)]
	}
	t.mu.RUnlock()
	return values
}

// put remembers the value of a rule, one of n that read the fields of the key. size is about what the value takes.
func (t *ruleTable) put(key []byte, n, slot int, value *ast.Term, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	values, ok := t.young[string(key)]
	if !ok {
		size += entryBytes + len(key) + 8*n
	}
	if size > ruleMemoBytes {
		return
	}
	if t.size+size > ruleMemoBytes {
		t.old, t.young, t.size = t.young, map[string]ruleValues{}, 0
		ok = false
	}
	if !ok {
		values = make(ruleValues, n)
		t.young[string(key)] = values
	}
	values[slot].Store(value)
	t.size += size
}

// ruleView is the memo as the cache of one evaluation. It is for one goroutine.
//
// The evaluation asks its cache for the value of each rule before it evaluates the rule, and tells it the value
// afterwards, also that there is none. What is asked for under other input or data, in a `with`, is between a Push and
// a Pop and has nothing to do with the memo, nor has a single member of a partial rule, or the result of a function.
type ruleView struct {
	// VirtualCache is for everything else.
	topdown.VirtualCache
	memo  *ruleMemo
	table *ruleTable
	depth int
	// found are the values of the rules, as far as they are known; fresh says which were found by this evaluation.
	found []*ast.Term
	fresh []bool
	// buffer has the keys of the sets of fields, and keys where they begin.
	buffer []byte
	keys   []int
	// hits and misses are how often a rule was asked for that was known, and was not.
	hits, misses int
}

// Push implements topdown.VirtualCache.
func (v *ruleView) Push() {
	v.depth++
	v.VirtualCache.Push()
}

// Pop implements topdown.VirtualCache.
func (v *ruleView) Pop() {
	v.depth--
	v.VirtualCache.Pop()
}

// rule returns the number of the rule whose whole document a reference is, -1 if there is none.
func (v *ruleView) rule(ref ast.Ref) int {
	if v.depth > 0 {
		return -1
	}
	name, ok := ref[len(ref)-1].Value.(ast.String)
	if !ok {
		return -1
	}
	for _, i := range v.memo.byName[string(name)] {
		if v.memo.rules[i].ref.Equal(ref) {
			return i
		}
	}
	return -1
}

// Get implements topdown.VirtualCache.
func (v *ruleView) Get(ref ast.Ref) (value *ast.Term, undefined bool) {
	i := v.rule(ref)
	if i < 0 {
		return v.VirtualCache.Get(ref)
	}
	value = v.found[i]
	switch {
	case value == nil:
		v.misses++
		return nil, false
	case !v.fresh[i]:
		v.hits++
	}
	if value == undefinedValue {
		return nil, true
	}
	return value, false
}

// Put implements topdown.VirtualCache.
func (v *ruleView) Put(ref ast.Ref, value *ast.Term) {
	i := v.rule(ref)
	if i < 0 {
		v.VirtualCache.Put(ref, value)
		return
	}
	if value == nil {
		value = undefinedValue
	}
	v.found[i], v.fresh[i] = value, true
}

// keep remembers what the evaluation has found. It is for an evaluation that did not fail: a value may be told before
// it is known that no other one is in conflict with it.
func (v *ruleView) keep() {
	for i, fresh := range v.fresh {
		if !fresh {
			continue
		}
		r := v.memo.rules[i]
		key := v.buffer[v.keys[r.set]:v.keys[r.set+1]]
		if len(key) == 0 {
			continue
		}
		size, ok := termBytes, true
		if v.found[i] != undefinedValue {
			size, ok = settle(v.found[i].Value, ruleMemoBytes)
		}
		if ok {
			v.table.put(key, v.memo.slots[r.set], r.slot, v.found[i], size)
		}
	}
}

// settle makes a value fit to be shared by goroutines, and returns about what it takes. The members of sets and objects
// are sorted when that is first asked for, behind the back of those who walk through them unsorted, so it is asked for
// here. ok is false for a value that is too large, or of a kind that is not known to be immutable.
func settle(value ast.Value, limit int) (size int, ok bool) {
	size, ok = termBytes, true
	add := func(t *ast.Term) {
		if !ok {
			return
		}
		n, settled := settle(t.Value, limit-size)
		size, ok = size+n, settled
	}
	switch v := value.(type) {
	case ast.Null, ast.Boolean:
	case ast.Number:
		size += len(v)
	case ast.String:
		size += len(v)
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		// Slice sorts.
		for _, member := range v.Slice() {
			add(member)
		}
	case ast.Object:
		members := v.KeysIterator()
		for key, more := members.Next(); more; key, more = members.Next() {
			add(key)
			add(v.Get(key))
		}
	default:
		return size, false
	}
	return size, ok && size <= limit
}
