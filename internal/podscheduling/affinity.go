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

package podscheduling

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// maxTerms bounds the ORed terms of a required node affinity. ANDing two affinities multiplies their numbers of
	// terms.
	maxTerms = 64
	// maxTermPairs bounds how many pairs of terms are compared when two affinities are ANDed.
	maxTermPairs = 1 << 18
)

// Names of the members of an affinity in the core/v1 API.
const (
	nodeAffinity    = "nodeAffinity"
	podAffinity     = "podAffinity"
	podAntiAffinity = "podAntiAffinity"
	required        = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred       = "preferredDuringSchedulingIgnoredDuringExecution"
	nodeTerms       = "nodeSelectorTerms"
)

// requirements are the members of a node selector term. A node must satisfy all requirements in both.
var requirements = []string{"matchExpressions", "matchFields"}

// lists are the paths (of, then name) of those lists of an affinity whose items are ANDed or, where they are preferences, added up.
var lists = []struct{ of, name string }{
	{nodeAffinity, preferred}, {podAffinity, required}, {podAffinity, preferred}, {podAntiAffinity, required}, {podAntiAffinity, preferred},
}

// and returns the affinity (core/v1) that admits exactly the nodes that both a and b admit. A nil argument has no requirements. The terms
// and items of b come after those of a. If b adds nothing, the result equals a. It does not change its arguments; the result shares parts
// of them.
//
// Required node selector terms are ORed, so each term of a is joined with each term of b. The other members are lists whose items are ANDed
// or added up, so the items of b that a lacks are appended.
func and(a, b map[string]any) (map[string]any, error) {
	out := a
	if err := andNodes(&out, a, b); err != nil {
		return nil, err
	}
	for _, list := range lists {
		existing, err := listAt(a, list.of, list.name)
		if err != nil {
			return nil, err
		}
		more, err := listAt(b, list.of, list.name)
		if err != nil {
			return nil, err
		}
		if next := appendMissing(existing, more); len(next) > len(existing) {
			out = WithMember(out, next, list.of, list.name)
		}
	}
	return out, nil
}

// andNodes sets the required node selector terms of out to those of a ANDed with those of b. Before the call, *out is a.
func andNodes(out *map[string]any, a, b map[string]any) error {
	left, err := listAt(a, nodeAffinity, required, nodeTerms)
	if err != nil {
		return err
	}
	right, err := listAt(b, nodeAffinity, required, nodeTerms)
	if err != nil || right == nil {
		return err
	}
	terms := right
	if left != nil {
		if terms, err = andTerms(left, right); err != nil {
			return err
		}
		if slices.EqualFunc(terms, left, equalText) {
			return nil
		}
	}
	*out = WithMember(*out, terms, nodeAffinity, required, nodeTerms)
	return nil
}

// Split splits an affinity that a client changed after policies had added to it. All affinities are JSON. whole is the changed affinity,
// requested is what the developer asked for before the change, and added are the additions of policies by key. It returns own, the part of
// whole that the developer asks for, and left, what remains of the policies' additions, by key. What the developer asked for before stays
// in own, even if a policy adds the same. own is nil if the developer asks for nothing.
//
// earlier reports whether a policy once added an item (Items) and no longer does. Such an item is in neither result. A nil function stands
// for no such items.
//
// Clients that apply a manifest replace only the lists that the manifest contains. So each list is split separately.
func Split(whole string, requested *string, added map[string]string, earlier func(item string) bool) (own *string, left map[string]string) {
	if requested != nil && *requested == whole {
		return requested, nil
	}
	objects := map[string]map[string]any{}
	for key, value := range added {
		objects[key] = jsonObject(&value)
	}
	mine, rest := without(jsonObject(&whole), jsonObject(requested), objects)
	if earlier != nil {
		mine = withoutItems(mine, jsonObject(requested), earlier)
	}
	left = map[string]string{}
	for key, object := range rest {
		left[key] = JSONText(object)
	}
	if len(mine) > 0 {
		text := JSONText(mine)
		own = &text
	}
	return own, left
}

// Items returns the items of an affinity (JSON) as texts: the requirements of its required node selector terms, and the items of its other
// lists. Each text contains the name of the list, so that items of two affinities are equal only if they are in the same list.
func Items(affinity string) []string {
	object := jsonObject(&affinity)
	var out []string
	terms, _ := listAt(object, nodeAffinity, required, nodeTerms)
	for _, term := range terms {
		out = append(out, requirementsOf(term)...)
	}
	for _, list := range lists {
		items, _ := listAt(object, list.of, list.name)
		for _, item := range items {
			out = append(out, itemText(list.of, list.name, item))
		}
	}
	return out
}

// itemText returns the text of an item of the list of.name.
func itemText(of, name string, item any) string { return of + "." + name + " " + JSONText(item) }

// withoutItems returns an affinity without the items for which drops returns true, except for those that are also in requested. Items are
// the requirements of its required node selector terms, and the items of its other lists. drops gets the text of an item, which begins with
// the name of its list.
func withoutItems(object, requested map[string]any, drops func(item string) bool) map[string]any {
	mine := sets.New(Items(JSONText(requested))...)
	dropped := func(item string) bool { return drops(item) && !mine.Has(item) }
	out := dropRequirements(object, dropped, func(string) bool { return false })
	for _, list := range lists {
		before, _ := listAt(out, list.of, list.name)
		after := slices.DeleteFunc(slices.Clone(before), func(item any) bool { return dropped(itemText(list.of, list.name, item)) })
		if len(after) < len(before) {
			out = withList(out, after, list.of, list.name)
		}
	}
	return out
}

// without returns what Split does, for decoded affinities and no earlier additions: own is whole without what policies add and requested
// lacks, and left has, for each policy, what whole still has of its additions.
func without(whole, requested map[string]any, added map[string]map[string]any) (own map[string]any, left map[string]map[string]any) {
	own, left = whole, map[string]map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(added)) {
		var rest map[string]any
		if terms, err := listAt(added[key], nodeAffinity, required, nodeTerms); err == nil && len(terms) > 0 {
			node := WithMember(nil, terms, nodeAffinity, required, nodeTerms)
			if text := JSONText(whole); Implied(&text, JSONText(node)) {
				rest = node
			}
			own = withoutTerms(own, requested, terms)
		}
		for _, list := range lists {
			more, _ := listAt(added[key], list.of, list.name)
			existing, _ := listAt(whole, list.of, list.name)
			mine, _ := listAt(requested, list.of, list.name)
			stands := textSet(existing)
			if kept := slices.DeleteFunc(slices.Clone(more), func(m any) bool { return !stands.Has(JSONText(m)) }); len(kept) > 0 {
				rest = WithMember(rest, kept, list.of, list.name)
			}
			before, _ := listAt(own, list.of, list.name)
			theirs := textSet(more).Difference(textSet(mine))
			after := slices.DeleteFunc(slices.Clone(before), func(m any) bool { return theirs.Has(JSONText(m)) })
			if len(after) < len(before) {
				own = withList(own, after, list.of, list.name)
			}
		}
		if rest != nil {
			left[key] = rest
		}
	}
	// Keep parts that the developer requested as empty objects.
	for name, value := range requested {
		part, ok := value.(map[string]any)
		if _, there := own[name]; ok && len(part) == 0 && !there {
			own = WithMember(own, part, name)
		}
	}
	return own, left
}

// withoutTerms returns an affinity without those requirements of its required node selector terms that policies added. added are the terms
// of the policies. Requirements that are also in requested stay.
func withoutTerms(object, requested map[string]any, added []any) map[string]any {
	mine, _ := listAt(requested, nodeAffinity, required, nodeTerms)
	theirs := sets.New[string]()
	for _, term := range added {
		theirs.Insert(requirementsOf(term)...)
	}
	for _, term := range mine {
		theirs.Delete(requirementsOf(term)...)
	}
	return dropRequirements(object, theirs.Has, textSet(added).Difference(textSet(mine)).Has)
}

// dropRequirements returns an affinity without those requirements of its required node selector terms for which drops returns true. It also
// drops a term that this leaves empty, or equal to an earlier one, and a term that was empty if empties returns true for its text.
func dropRequirements(object map[string]any, drops, empties func(text string) bool) map[string]any {
	terms, _ := listAt(object, nodeAffinity, required, nodeTerms)
	var out []any
	seen, same := sets.New[string](), true
	for _, term := range terms {
		t, _ := term.(map[string]any)
		rest, changed := maps.Clone(t), false
		for _, name := range requirements {
			list, _ := t[name].([]any)
			kept := slices.DeleteFunc(slices.Clone(list), func(r any) bool { return drops(requirementText(name, r)) })
			if len(kept) < len(list) {
				rest, changed = withList(rest, kept, name), true
			}
		}
		text := JSONText(rest)
		// A term with nothing but added requirements was not requested by the developer.
		if nothing := len(rest) == 0 && (changed || empties(text)); nothing || changed && seen.Has(text) {
			same = false
			continue
		}
		same = same && !changed
		seen.Insert(text)
		out = append(out, rest)
	}
	if same {
		return object
	}
	return withList(object, out, nodeAffinity, required, nodeTerms)
}

// withList returns a copy of an object with a list at a path; the copy shares all other members. If the list is empty, it removes the list,
// and parents that become empty by that.
func withList(object map[string]any, list []any, path ...string) map[string]any {
	if len(list) > 0 {
		return WithMember(object, list, path...)
	}
	out := maps.Clone(object)
	if len(path) > 1 {
		next, _ := out[path[0]].(map[string]any)
		if next = withList(next, nil, path[1:]...); len(next) > 0 {
			out[path[0]] = next
			return out
		}
	}
	delete(out, path[0])
	return out
}

// andTerms ANDs two lists of ORed terms. It drops terms without requirements, because they match no node; if no other is left, the result
// still has such terms. It returns an error if there are more than maxTermPairs pairs of terms, or more than maxTerms terms in the result.
func andTerms(left, right []any) ([]any, error) {
	some := func(term any) bool { return len(requirementsOf(term)) == 0 }
	lefts, rights := slices.DeleteFunc(slices.Clone(left), some), slices.DeleteFunc(slices.Clone(right), some)
	if len(lefts) == 0 {
		return left, nil
	}
	if len(lefts)*len(rights) > maxTermPairs {
		return nil, fmt.Errorf("affinity.%s.%s.%s: %d terms of the object and %d of a policy make more than %d pairs to compare; use fewer terms",
			nodeAffinity, required, nodeTerms, len(lefts), len(rights), maxTermPairs)
	}
	wanted := make([][]string, len(rights))
	for i, r := range rights {
		wanted[i] = requirementsOf(r)
	}
	var out []any
	seen := sets.New[string]()
	add := func(term any) {
		if text := JSONText(term); !seen.Has(text) {
			seen.Insert(text)
			out = append(out, term)
		}
	}
	for _, l := range lefts {
		has := sets.New(requirementsOf(l)...)
		if slices.ContainsFunc(wanted, func(r []string) bool { return has.HasAll(r...) }) {
			add(l)
			continue
		}
		for _, r := range rights {
			term, err := joinTerms(l, r)
			if err != nil {
				return nil, err
			}
			if add(term); len(out) > maxTerms {
				return nil, fmt.Errorf("affinity: the object's and the policies' %s.%s together have more than %d terms; use fewer terms",
					nodeAffinity, required, maxTerms)
			}
		}
	}
	if len(out) == 0 {
		return []any{map[string]any{}}, nil
	}
	return out, nil
}

// requirementsOf returns the texts of the requirements of a term.
func requirementsOf(term any) []string {
	var out []string
	object, _ := term.(map[string]any)
	for _, name := range requirements {
		list, _ := object[name].([]any)
		for _, r := range list {
			out = append(out, requirementText(name, r))
		}
	}
	return out
}

// requirementText returns the text of a requirement in the list matchExpressions or matchFields, whose name is given.
func requirementText(name string, requirement any) string { return name + " " + JSONText(requirement) }

// joinTerms returns the node selector term that has the requirements of both terms; an error if a list of either is malformed.
func joinTerms(a, b any) (map[string]any, error) {
	left, _ := a.(map[string]any)
	right, _ := b.(map[string]any)
	out := maps.Clone(left)
	for _, name := range requirements {
		first, err := listAt(left, name)
		if err != nil {
			return nil, err
		}
		second, err := listAt(right, name)
		if err != nil {
			return nil, err
		}
		if joined := appendMissing(first, second); len(joined) > 0 {
			out[name] = joined
		}
	}
	return out, nil
}

// appendMissing returns a list with those items of more appended that it does not contain.
func appendMissing(list, more []any) []any {
	if len(more) == 0 {
		return list
	}
	out, seen := slices.Clip(list), textSet(list)
	for _, member := range more {
		if text := JSONText(member); !seen.Has(text) {
			seen.Insert(text)
			out = append(out, member)
		}
	}
	return out
}

// textSet returns the JSON texts of a list's items. Comparing texts instead of values keeps the cost linear in the
// length of the lists, which is unbounded.
func textSet(list []any) sets.Set[string] {
	out := sets.New[string]()
	for _, member := range list {
		out.Insert(JSONText(member))
	}
	return out
}

// equalText reports whether two values have the same JSON.
func equalText(a, b any) bool { return JSONText(a) == JSONText(b) }

// listAt returns the list at a path in an affinity; nil if there is none. It returns an error if a value on the path has another type.
func listAt(object map[string]any, path ...string) ([]any, error) {
	at := any(object)
	for i, name := range path {
		next, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("affinity: the object's own %s is not an object: correct it in the object", path[i-1])
		}
		if at = next[name]; at == nil {
			return nil, nil
		}
	}
	list, ok := at.([]any)
	if !ok {
		return nil, fmt.Errorf("affinity: the object's own %s is not a list: correct it in the object", path[len(path)-1])
	}
	return list, nil
}

// WithMember returns a copy of an object with the value at a path, whose missing objects it adds. The copy shares all other members.
func WithMember(object map[string]any, value any, path ...string) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	if len(path) > 1 {
		next, _ := out[path[0]].(map[string]any)
		value = WithMember(next, value, path[1:]...)
	}
	out[path[0]] = value
	return out
}
