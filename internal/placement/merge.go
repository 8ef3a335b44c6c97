package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Verdict is what one matching policy says of the object, and what came of it.
type Verdict struct {
	Policy *Policy
	// Decision is valid if Err is nil.
	Decision Decision
	// Err says why the policy could not decide.
	Err error
	// Changes are the keys of the object as it stands that differ from what the policy wants, where it wins the key;
	// for a policy that is not enforced, from what it would set if it were.
	Changes []Change
	// Conflicts are keys that this policy and another one, both enforced, set to different values.
	Conflicts []Conflict
	// paused reports whether remediation of the policy is paused, and the request is an update by somebody else.
	paused bool
	// held says that an update leaves the policy's part of the object as it is.
	held bool
}

// Change is one key whose value is, or would be, replaced.
type Change struct {
	// Field is "annotations", "labels" or "scheduling".
	Field string
	// Key is that of the field; see scheduling.go for those of scheduling.
	Key string
	// From is the value as it stands; nil if the key is absent.
	From *string
	// To is the value as it should be; nil if the key should go.
	To *string
	// Immutable says why the change is not made: the API server does not take it, or the object is being deleted. It is
	// empty for a change that can be made.
	Immutable string
	// PodSpec leads to the spec of the object's pods, and Affinity is theirs as a whole once the change is made, where
	// Field is "scheduling".
	PodSpec  []string
	Affinity *string
}

// Subject names what is changed, as in "annotation a/b".
func (c Change) Subject() string {
	if c.Field == fieldScheduling {
		return subject(c.Key)
	}
	return strings.TrimSuffix(c.Field, "s") + " " + c.Key
}

// Action says in words what brings the change about, as in `set annotation a/b to "c" (was "d")`.
func (c Change) Action() string {
	var out string
	switch {
	case c.To == nil:
		out = "remove " + c.Subject()
	case *c.To == present && strings.HasPrefix(c.Key, tolerations+"/") && c.Field == fieldScheduling:
		out = "add " + c.Subject()
	case c.From == nil:
		out = fmt.Sprintf("set %s to %s", c.Subject(), *c.To)
	default:
		out = fmt.Sprintf("set %s to %s (was %s)", c.Subject(), *c.To, *c.From)
	}
	if c.Immutable != "" {
		out += " (" + c.Immutable + ")"
	}
	return out
}

// Done says whether the object has what the change is about; of one that can't be made it hasn't.
func (c Change) Done(obj *unstructured.Unstructured) bool {
	if c.Immutable != "" {
		return false
	}
	key, want, values := c.Key, c.To, map[string]string(nil)
	if c.Field == fieldScheduling {
		values = readPodSpec(obj, c.PodSpec).flat
		if isContribution(key) {
			key, want = affinity, c.Affinity
		}
	} else {
		values = metadataOf(obj, c.Field)
	}
	value, there := values[key]
	if want == nil {
		return !there
	}
	return there && value == *want
}

// Conflict is one key that two policies set to different values.
type Conflict struct {
	Field string
	Key   string
	// With is the other policy.
	With string
	// Won says whether this policy's value is used.
	Won bool
}

// precedence orders policies: the higher priority first, then by name.
func precedence(a, b *Policy) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
}

// winner is the policy whose value a key gets.
type winner struct {
	verdict *Verdict
	value   string
}

// merger lays the decisions over what the developer wants.
type merger struct {
	intent   intent
	verdicts []*Verdict
	// held reports whether a policy's part of the object is to be left as it stands.
	held func(*Verdict) bool
	// fixed says why a key of scheduling can't get one of the values any more; empty if it can.
	fixed func(key string, values ...*string) string
	next  record
}

// merge returns the values as they should be, by field, without the record, and the record. The verdicts must be in order
// of precedence; their Changes and Conflicts are filled in. Those whose affinity can't be merged become errors.
func (m *merger) merge() (map[string]map[string]string, record, error) {
	out := map[string]map[string]string{}
	m.judgeAffinities()
	for _, field := range fields {
		wins := m.resolve(field)
		values := maps.Clone(m.intent.wanted[field])
		m.applyWins(field, wins, values)
		m.settleRest(field, wins, values)
		m.hypothetical(field, values)
		if field == fieldAnnotations {
			m.mergeClusters(values)
		}
		out[field] = values
	}
	whole, err := compose(out[fieldScheduling])
	if err != nil {
		return nil, record{}, err
	}
	m.recordAffinity(out[fieldScheduling], whole)
	out[fieldScheduling] = whole
	return out, m.next, nil
}

// judgeAffinities finds the policies whose affinity does not go together with the developer's and the others'. The
// enforced ones are tried together first, so that each of many costs no more than one of few.
func (m *merger) judgeAffinities() {
	adding := func(v *Verdict) bool { return v.Err == nil && v.Decision.Scheduling[affinity] != "" }
	enforced := func(v *Verdict) bool { return adding(v) && v.Policy.Mode == placementv1.ModeEnforce }
	if !slices.ContainsFunc(m.verdicts, adding) {
		return
	}
	values := maps.Clone(m.intent.current[fieldScheduling])
	together := maps.Clone(values)
	for _, v := range m.verdicts {
		if enforced(v) {
			together[ownKey(fieldScheduling, affinity, v.Policy.Name)] = v.Decision.Scheduling[affinity]
		}
	}
	_, err := compose(together)
	agree := err == nil
	if agree {
		values = together
	}
	for _, v := range slices.SortedFunc(slices.Values(m.verdicts), func(a, b *Verdict) int { return cmp.Compare(a.Policy.Name, b.Policy.Name) }) {
		if !adding(v) || agree && enforced(v) {
			continue
		}
		key := ownKey(fieldScheduling, affinity, v.Policy.Name)
		before, stood := values[key]
		values[key] = v.Decision.Scheduling[affinity]
		_, v.Err = compose(values)
		if v.Err == nil && v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		delete(values, key)
		if stood {
			values[key] = before
		}
	}
}

// recordAffinity remembers the developer's affinity where policies add to it.
func (m *merger) recordAffinity(values, whole map[string]string) {
	if slices.ContainsFunc(slices.Collect(maps.Keys(values)), isContribution) {
		m.next.Affinity = &overwritten{Requested: optional(values, affinity), Set: digest(whole[affinity])}
	}
	for _, v := range m.verdicts {
		for i := range v.Changes {
			if c := &v.Changes[i]; c.Field == fieldScheduling {
				c.PodSpec, c.Affinity = m.intent.pods.path, optional(whole, affinity)
			}
		}
	}
}

// resolve finds the winner of every key among the enforced policies.
func (m *merger) resolve(field string) map[string]winner {
	wins := map[string]winner{}
	for _, v := range m.verdicts {
		if v.Err != nil || v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		decided := v.decided(field)
		for _, key := range slices.Sorted(maps.Keys(decided)) {
			first, taken := wins[key]
			if !taken {
				wins[key] = winner{v, decided[key]}
				continue
			}
			if first.value != decided[key] {
				v.Conflicts = append(v.Conflicts, Conflict{Field: field, Key: key, With: first.verdict.Policy.Name})
				first.verdict.Conflicts = append(first.verdict.Conflicts, Conflict{Field: field, Key: key, With: v.Policy.Name, Won: true})
			}
		}
	}
	return wins
}

// applyWins sets every key that somebody won, and remembers what the developer asked for there.
func (m *merger) applyWins(field string, wins map[string]winner, values map[string]string) {
	current := m.intent.current[field]
	for _, key := range slices.Sorted(maps.Keys(wins)) {
		win := wins[key]
		v := win.verdict
		standing, there := current[key]
		// What the developer's own affinity has already needs no adding.
		needless := field == fieldScheduling && isContribution(key) && implied(optional(values, affinity), win.value)
		changed := !there && !needless || there && standing != win.value
		if changed && !m.change(v, Change{Field: field, Key: key, From: optional(current, key), To: &win.value}) || m.held(v) {
			m.leave(field, key, values)
			continue
		}
		if needless {
			continue
		}
		requested := optional(values, key)
		if requested == nil || *requested != win.value {
			entry := overwritten{Requested: requested, By: v.Policy.Name, Set: digest(win.value)}
			if field == fieldScheduling && isContribution(key) {
				entry.Value = &win.value
			}
			m.next.put(field, key, entry)
		}
		values[key] = win.value
	}
}

// settleRest deals with the keys that a policy has overwritten earlier and that nobody sets now. If that policy has
// just decided not to, the developer's value returns. If it was not asked, or is gone, its value stays: deleting a
// policy moves nothing.
func (m *merger) settleRest(field string, wins map[string]winner, values map[string]string) {
	current := m.intent.current[field]
	for _, key := range slices.Sorted(maps.Keys(m.intent.standing.of(field))) {
		if _, won := wins[key]; won || key == placementv1.ClustersAnnotation {
			continue
		}
		entry := m.intent.standing.of(field)[key]
		i := slices.IndexFunc(m.verdicts, func(v *Verdict) bool { return v.Policy.Name == entry.By })
		if i < 0 || m.verdicts[i].Err != nil || m.verdicts[i].Policy.Mode != placementv1.ModeEnforce {
			m.leave(field, key, values)
			continue
		}
		v := m.verdicts[i]
		if !m.change(v, Change{Field: field, Key: key, From: optional(current, key), To: entry.Requested}) || m.held(v) {
			m.leave(field, key, values)
		}
	}
}

// change adds a change to a verdict, and says whether the API server would take it.
func (m *merger) change(v *Verdict, c Change) bool {
	if c.Field == fieldScheduling {
		c.Immutable = m.fixed(c.Key, c.From, c.To)
	}
	v.Changes = append(v.Changes, c)
	return c.Immutable == ""
}

// leave keeps a key as it stands, with its entry.
func (m *merger) leave(field, key string, values map[string]string) {
	if entry, ok := m.intent.standing.of(field)[key]; ok {
		values[key] = m.intent.current[field][key]
		m.next.put(field, key, entry)
	}
}

// hypothetical says what the policies that are not enforced would change.
func (m *merger) hypothetical(field string, values map[string]string) {
	for _, v := range m.verdicts {
		if v.Err != nil || v.held || v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		decided := v.decided(field)
		for _, key := range slices.Sorted(maps.Keys(decided)) {
			if field == fieldScheduling && isContribution(key) && implied(wholeAffinity(values), decided[key]) {
				continue
			}
			if value, there := values[key]; !there || value != decided[key] {
				m.change(v, Change{Field: field, Key: key, From: optional(values, key), To: new(decided[key])})
			}
		}
	}
}

// wholeAffinity is the affinity that values make.
func wholeAffinity(values map[string]string) *string {
	whole, err := compose(values)
	if err != nil {
		return nil
	}
	return optional(whole, affinity)
}

// decided is what the policy says, by the keys that it is merged under.
func (v *Verdict) decided(field string) map[string]string {
	switch field {
	case fieldLabels:
		return v.Decision.Labels
	case fieldAnnotations:
		return v.Decision.Annotations
	}
	text, adds := v.Decision.Scheduling[affinity]
	if !adds {
		return v.Decision.Scheduling
	}
	out := maps.Clone(v.Decision.Scheduling)
	delete(out, affinity)
	out[ownKey(field, affinity, v.Policy.Name)] = text
	return out
}

func equalOptional(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func optional(values map[string]string, key string) *string {
	if value, ok := values[key]; ok {
		return &value
	}
	return nil
}
