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
	// ruleCacheBytes is the maximum size of each of the two generations of a policy's rule cache.
	ruleCacheBytes = 1 << 20
	// termBytes estimates the size of a value of the policy language apart from its text.
	termBytes = 80
	// ruleTrialLookups is the number of lookups after which a set of fields must show that its values repeat.
	// ruleRetrialLookups is the number of lookups after which that test starts again.
	ruleTrialLookups, ruleRetrialLookups = 256, 1 << 14
)

// ruleCache is the rule cache of one policy. It holds the values of rules that read fewer fields than the policy. So
// most values may be cached even when the decision is a new one. It is safe for concurrent use.
//
// Values are found by the revision of the data and the key of the input's fields that the rule reads.
type ruleCache struct {
	rules []cachedRule
	// byName are the indexes in rules by the last name in the reference to the rule.
	byName map[string][]int
	// sets are the distinct field sets that the rules read.
	sets []*projection.FieldSet
	// slots is the number of values in a cache entry for each set, by the index of the set: one for each rule that reads the set.
	slots []int

	// current is the table of the newest revision.
	current atomic.Pointer[ruleTable]
}

// cachedRule is a rule whose values are cached, with the place of its value in the cache: the field set that it reads, and the index among
// the rules that read the same.
type cachedRule struct {
	ref ast.Ref // the reference to the rule
	// set is the index of the rule's field set, and slot the index of the rule among those with the same set.
	set, slot int
}

// newRuleCache returns an empty cache for the module's cacheable rules; nil if the module has none.
func newRuleCache(m *policy.Module) *ruleCache {
	if len(m.CacheableRules) == 0 {
		return nil
	}
	out := &ruleCache{byName: map[string][]int{}}
	for i, h := range m.CacheableRules {
		set := slices.Index(out.sets, h.Input)
		if set < 0 {
			set = len(out.sets)
			out.sets, out.slots = append(out.sets, h.Input), append(out.slots, 0)
		}
		name, _ := h.Ref[len(h.Ref)-1].Value.(ast.String)
		out.byName[string(name)] = append(out.byName[string(name)], i)
		out.rules = append(out.rules, cachedRule{ref: h.Ref, set: set, slot: out.slots[set]})
		out.slots[set]++
	}
	return out
}

// ruleTable holds the values for one revision of the data, in two generations: when the young one is full, it replaces the old one.
type ruleTable struct {
	revision uint64
	// uses count the lookups, by the index of the field set.
	uses []fieldSetUse

	mu         sync.RWMutex
	young, old map[string]ruleValues // the two generations, by key; values that a lookup finds in old stay there
	size       int                   // the size of young in bytes

	// candidates are the clusters to choose from that were prepared from values of the table.
	candidates candidatesTable
}

// fieldSetUse counts the lookups of cached values by a field set, and those that found values, since countLookup last restarted the count.
type fieldSetUse struct {
	lookups, hits atomic.Int64 // all lookups of values, and those that found values
}

// countLookup counts a lookup and reports whether to make it, as repeats does. Values that differ from object to object are not looked up,
// because storing them would only evict values that repeat. After ruleRetrialLookups lookups, the count starts again.
func (u *fieldSetUse) countLookup() bool {
	asked := u.lookups.Add(1)
	if asked > ruleRetrialLookups {
		u.lookups.Store(0)
		u.hits.Store(0)
		return true
	}
	return u.repeats()
}

// repeats reports whether values repeat, without counting a lookup: during the first ruleTrialLookups lookups, and later while at least a
// quarter of all lookups found values.
func (u *fieldSetUse) repeats() bool {
	asked := u.lookups.Load()
	return asked <= ruleTrialLookups || u.hits.Load()*4 >= asked
}

// ruleValues are the values of the rules that read one field set, for one key. A nil pointer means that the value is
// not known. Values are immutable.
type ruleValues []atomic.Pointer[ast.Term]

// undefinedValue represents the value of a rule that is undefined.
var undefinedValue = &ast.Term{}

// view returns the cache for one evaluation on an input, at a revision of the data; nil if m is nil or has values of a newer revision. The
// caller may change the input afterwards.
func (m *ruleCache) view(revision uint64, input map[string]any) *ruleView {
	if m == nil {
		return nil
	}
	t := m.at(revision)
	if t == nil {
		return nil
	}
	v := &ruleView{
		VirtualCache: topdown.NewVirtualCache(), cache: m, table: t,
		found: make([]*ast.Term, len(m.rules)), fresh: make([]bool, len(m.rules)), keys: make([]int, len(m.sets)+1),
	}
	var known []ruleValues
	for set, fields := range m.sets {
		var values ruleValues
		if t.uses[set].countLookup() {
			start := len(v.buffer)
			// The index of the set is part of the key.
			key, ok := fields.AppendKey(append(v.buffer, byte(set), byte(set>>8)), input)
			if ok {
				v.buffer = key
				values = t.get(v.buffer[start:])
			}
			if values != nil {
				t.uses[set].hits.Add(1)
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

// at returns the table of a revision, which it creates if the current one is older; nil if the current one is newer. Revisions only grow.
func (m *ruleCache) at(revision uint64) *ruleTable {
	for {
		existing := m.current.Load()
		switch {
		case existing != nil && existing.revision == revision:
			return existing
		case existing != nil && existing.revision > revision:
			return nil
		}
		m.current.CompareAndSwap(existing, &ruleTable{revision: revision, uses: make([]fieldSetUse, len(m.sets)), young: map[string]ruleValues{}})
	}
}

// get returns the values for a key from either generation; nil if there are none. Values that it finds in the old generation stay there.
func (t *ruleTable) get(key []byte) ruleValues {
	t.mu.RLock()
	values, young := t.young[string(key)]
	if !young {
		values = t.old[string(key)]
	}
	t.mu.RUnlock()
	return values
}

// put stores the value of the rule at index slot among the n rules that read the fields of the key. size is an estimate of the value's size
// in bytes.
func (t *ruleTable) put(key []byte, n, slot int, value *ast.Term, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	values, ok := t.young[string(key)]
	if !ok {
		size += entryBytes + len(key) + 8*n
	}
	if size > ruleCacheBytes {
		return
	}
	if t.size+size > ruleCacheBytes {
		t.old, t.young, t.size = t.young, map[string]ruleValues{}, 0
		t.candidates.clear()
		ok = false
	}
	if !ok {
		values = make(ruleValues, n)
		t.young[string(key)] = values
	}
	values[slot].Store(value)
	t.size += size
}

// ruleView is the cache of one evaluation. It is not safe for concurrent use.
//
// OPA calls Get before it evaluates a rule, and Put with the value afterwards, also if the rule is undefined. Between
// Push and Pop it evaluates with other input or data, because of a `with`. Values from there are neither read from the
// rule cache nor stored in it. The same is true of single members of partial rules and of results of functions.
type ruleView struct {
	// VirtualCache holds everything that the rule cache does not.
	topdown.VirtualCache
	cache *ruleCache
	table *ruleTable
	// depth is the number of calls of Push without a call of Pop. Unless it is 0, rules use VirtualCache alone.
	depth int
	// found are the known values of the rules, by the index of the rule; nil if unknown.
	found []*ast.Term
	fresh []bool // marks the values that this evaluation computed
	// buffer contains the keys of the evaluation's input for the field sets, one after the other; none for a set that is not looked up.
	buffer []byte
	keys   []int // the offsets in buffer at which the keys end, after a 0
	// hits and misses count the requests for rules with a value from the rule cache, and without one.
	hits, misses int
}

// Push implements topdown.VirtualCache: OPA calls it when it begins to evaluate with other input or data. Until Pop, the rule cache is
// neither read nor written.
func (v *ruleView) Push() {
	v.depth++
	v.VirtualCache.Push()
}

// Pop implements topdown.VirtualCache. It ends what the last Push began.
func (v *ruleView) Pop() {
	v.depth--
	v.VirtualCache.Pop()
}

// rule returns the index of the cacheable rule whose whole document the reference names; -1 if there is none, and between Push and Pop.
func (v *ruleView) rule(ref ast.Ref) int {
	if v.depth > 0 {
		return -1
	}
	name, ok := ref[len(ref)-1].Value.(ast.String)
	if !ok {
		return -1
	}
	for _, i := range v.cache.byName[string(name)] {
		if v.cache.rules[i].ref.Equal(ref) {
			return i
		}
	}
	return -1
}

// Get implements topdown.VirtualCache. It returns the value of a rule, from the rule cache or from this evaluation; nil if it is not known.
// undefined reports whether the rule is known to be undefined. Between Push and Pop, and for all but whole rules that are cacheable, it
// returns what VirtualCache has.
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

// Put implements topdown.VirtualCache. It records the value that the evaluation computed for a rule, nil if the rule is undefined, for the
// rest of this evaluation. storeComputed adds the values of cacheable rules to the rule cache.
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

// storeComputed stores the values that the evaluation computed in the rule cache. Call it only if the evaluation succeeded: OPA may put a
// value before it finds that another one conflicts with it.
func (v *ruleView) storeComputed() {
	for i, fresh := range v.fresh {
		if !fresh {
			continue
		}
		r := v.cache.rules[i]
		key := v.buffer[v.keys[r.set]:v.keys[r.set+1]]
		if len(key) == 0 {
			continue
		}
		size, ok := termBytes, true
		if v.found[i] != undefinedValue {
			size, ok = prepareForSharing(v.found[i].Value, ruleCacheBytes)
		}
		if ok {
			v.table.put(key, v.cache.slots[r.set], r.slot, v.found[i], size)
		}
	}
}

// prepareForSharing prepares a value for use by several goroutines and returns an estimate of its size in bytes. OPA
// sorts the members of sets and objects on first ordered access, without synchronization with concurrent readers.
// prepareForSharing makes that access now. ok is false for a value of more than limit bytes, or of a kind that is not
// known to be immutable.
func prepareForSharing(value ast.Value, limit int) (size int, ok bool) {
	size, ok = termBytes, true
	add := func(t *ast.Term) {
		if !ok {
			return
		}
		n, settled := prepareForSharing(t.Value, limit-size)
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
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(key, member *ast.Term) {
			add(key)
			add(member)
		})
	default:
		return size, false
	}
	return size, ok && size <= limit
}
