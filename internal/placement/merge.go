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
}

// Change is one key whose value is, or would be, replaced.
type Change struct {
	// Field is "annotations" or "labels".
	Field string
	Key   string
	// From is the value as it stands; nil if the key is absent.
	From *string
	// To is the value as it should be; nil if the key should go.
	To *string
}

// Action says in words what brings the change about, as in `set annotation a/b to "c" (was "d")`.
func (c Change) Action() string {
	field := strings.TrimSuffix(c.Field, "s")
	if c.To == nil {
		return fmt.Sprintf("remove %s %s", field, c.Key)
	}
	out := fmt.Sprintf("set %s %s to %s", field, c.Key, *c.To)
	if c.From != nil {
		out += fmt.Sprintf(" (was %s)", *c.From)
	}
	return out
}

// Done says whether the object has what the change is about.
func (c Change) Done(obj *unstructured.Unstructured) bool {
	value, present := metadataOf(obj, c.Field)[c.Key]
	if c.To == nil {
		return !present
	}
	return present && value == *c.To
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
	// held says which policies' part of the object is to be left as it stands.
	held func(*Policy) bool
	next record
}

// merge returns the labels and annotations as they should be, by field, without the record, and the record. The verdicts
// must be in order of precedence; their Changes and Conflicts are filled in.
func (m *merger) merge() (map[string]map[string]string, record) {
	out := map[string]map[string]string{}
	for _, field := range fields {
		wins := m.resolve(field)
		values := maps.Clone(m.intent.wanted[field])
		m.applyWins(field, wins, values)
		m.settleRest(field, wins, values)
		m.hypothetical(field, values)
		out[field] = values
	}
	return out, m.next
}

// resolve finds the winner of every key among the enforced policies.
func (m *merger) resolve(field string) map[string]winner {
	wins := map[string]winner{}
	for _, v := range m.verdicts {
		if v.Err != nil || v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		decided := v.Decision.of(field)
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
		if standing, present := current[key]; !present || standing != win.value {
			v.Changes = append(v.Changes, Change{Field: field, Key: key, From: optional(current, key), To: &win.value})
		}
		if m.held(v.Policy) {
			m.leave(field, key, values)
			continue
		}
		requested := optional(values, key)
		if requested == nil || *requested != win.value {
			m.next.put(field, key, overwritten{Requested: requested, By: v.Policy.Name, Set: digest(win.value)})
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
		if _, won := wins[key]; won {
			continue
		}
		entry := m.intent.standing.of(field)[key]
		i := slices.IndexFunc(m.verdicts, func(v *Verdict) bool { return v.Policy.Name == entry.By })
		if i < 0 || m.verdicts[i].Err != nil || m.verdicts[i].Policy.Mode != placementv1.ModeEnforce {
			m.leave(field, key, values)
			continue
		}
		v := m.verdicts[i]
		v.Changes = append(v.Changes, Change{Field: field, Key: key, From: optional(current, key), To: entry.Requested})
		if m.held(v.Policy) {
			m.leave(field, key, values)
		}
	}
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
		if v.Err != nil || v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		decided := v.Decision.of(field)
		for _, key := range slices.Sorted(maps.Keys(decided)) {
			if value, present := values[key]; !present || value != decided[key] {
				v.Changes = append(v.Changes, Change{Field: field, Key: key, From: optional(values, key), To: new(decided[key])})
			}
		}
	}
}

func (d Decision) of(field string) map[string]string {
	if field == fieldLabels {
		return d.Labels
	}
	return d.annotations()
}

func optional(values map[string]string, key string) *string {
	if value, ok := values[key]; ok {
		return &value
	}
	return nil
}
