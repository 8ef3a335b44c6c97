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

// Package podscheduling flattens, composes, and merges the fields of a pod spec that say where pods run.
//
// Parse and Validate check what a policy decides. Flatten turns a pod spec into a flat map of values by merge key, so that
// decisions are merged key by key, as labels are. Compose joins the affinities, which have no precedence. Apply writes the
// result into a pod spec. Split takes an affinity that a user changed apart again. The functions do not change their
// arguments; results share parts of them.
package podscheduling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/workload"
)

// Keys of scheduling values. Scheduling fields are merged key by key, as labels are. These are the keys of a pod spec, with their values:
//
//	nodeSelector/<label>                                            the label's value
//	tolerations/<toleration as JSON>                                present
//	topologySpreadConstraints/<topologyKey>/<whenUnsatisfiable>     the constraint as JSON
//	priorityClassName, schedulerName                                the name
//	affinity                                                        the affinity as JSON
//	affinity/<policy>                                               what a policy adds to it
//
// So node selectors are merged by label, and tolerations are a set. Constraints are merged by the fields that the API
// server requires to be unique. Affinities have no precedence: each policy has a key of its own, and the pod's affinity
// is all of them, ANDed.
const (
	NodeSelector              = "nodeSelector"
	Tolerations               = "tolerations"
	PriorityClassName         = "priorityClassName"
	topologySpreadConstraints = "topologySpreadConstraints"
	schedulerName             = "schedulerName"
	Affinity                  = "affinity"

	// Present is the value of keys that have no value of their own.
	Present = "present"
)

// maxValues bounds the number of JSON values in each member of a pod spec that decisions are merged into. If a member
// has more, policies that decide on scheduling fail. The limit is far above what pods have, and bounds the cost of a
// merge.
const maxValues = 1 << 16

// priorityMembers are the members of a pod spec that the API server's Priority admission plugin sets from the priority
// class.
var priorityMembers = []string{"priority", "preemptionPolicy"}

// Members are the members of a pod spec that decisions are merged into, and those derived from them.
var Members = append([]string{NodeSelector, Affinity, Tolerations, topologySpreadConstraints, PriorityClassName, schedulerName},
	priorityMembers...)

// Flatten returns the scheduling values of a pod spec by merge key. The affinity is one value. It returns an error if a member has another
// type than in the API, or too many values.
func Flatten(spec map[string]any) (map[string]string, error) {
	for _, name := range Members {
		if left := maxValues; !countDown(spec[name], &left) {
			return nil, fmt.Errorf("%s has more than %d values, counting each member and item; use fewer", name, maxValues)
		}
	}
	out := map[string]string{}
	for _, name := range []string{PriorityClassName, schedulerName} {
		switch value := spec[name].(type) {
		case nil:
		case string:
			out[name] = value
		default:
			return nil, fmt.Errorf("%s is not a string", name)
		}
	}
	selector, err := workload.OptionalObject(spec, NodeSelector)
	if err != nil {
		return nil, err
	}
	for key, value := range selector {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not a map of strings", NodeSelector)
		}
		out[NodeSelector+"/"+key] = text
	}
	for _, name := range []string{Tolerations, topologySpreadConstraints} {
		list, ok := spec[name].([]any)
		if !ok && spec[name] != nil {
			return nil, fmt.Errorf("%s is not a list", name)
		}
		for _, item := range list {
			// If several constraints have the same key, decisions are merged with the first.
			if key, value := listKey(name, item); out[key] == "" {
				out[key] = value
			}
		}
	}
	existing, err := workload.OptionalObject(spec, Affinity)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		out[Affinity] = JSONText(existing)
	}
	return out, nil
}

// FlattenPodSpec returns the scheduling values of a decision, given as a pod spec, by merge key. It leaves out an affinity that requires
// nothing. It returns an error for what Flatten refuses.
func FlattenPodSpec(spec *corev1.PodSpec) (map[string]string, error) {
	text, err := EncodeJSON(spec)
	if err != nil {
		return nil, err
	}
	out, err := Flatten(jsonObject(&text))
	if adds := out[Affinity]; Implied(nil, adds) {
		delete(out, Affinity)
	}
	return out, err
}

// countDown subtracts the number of JSON values in a value, with the value itself, from left. It returns false once left is negative.
func countDown(value any, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if !countDown(member, left) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !countDown(item, left) {
				return false
			}
		}
	}
	return true
}

// listKey returns the merge key and the value of an item of the list tolerations or topologySpreadConstraints, whose name is given: the
// value of a toleration is Present, and that of a constraint its JSON.
func listKey(name string, item any) (key, value string) {
	object, _ := item.(map[string]any)
	if name == topologySpreadConstraints {
		return fmt.Sprintf("%s/%v/%v", name, object["topologyKey"], object["whenUnsatisfiable"]), JSONText(item)
	}
	if object == nil {
		return name + "/" + JSONText(item), Present
	}
	// Members with default values are removed, so that tolerations that differ only in these have the same key.
	plain := maps.Clone(object)
	maps.DeleteFunc(plain, func(member string, value any) bool {
		return value == nil || value == "" || member == "operator" && value == "Equal"
	})
	return name + "/" + JSONText(plain), Present
}

// Compose returns scheduling values with a single affinity: the developer's, ANDed with the policies' additions. The additions are ANDed in
// the order of the policies' names. So the result does not change with the policies' priorities. It fails if an affinity is malformed, or
// would have too many terms.
func Compose(values map[string]string) (map[string]string, error) {
	out := maps.Clone(values)
	whole := jsonObject(optional(values, Affinity))
	added := false
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !IsContribution(key) {
			continue
		}
		delete(out, key)
		next, err := and(whole, jsonObject(optional(values, key)))
		if err != nil {
			return nil, err
		}
		whole, added = next, true
	}
	if added && whole != nil {
		out[Affinity] = JSONText(whole)
	}
	return out, nil
}

// IsContribution reports whether a merge key is that of a policy's addition to the affinity.
func IsContribution(key string) bool { return strings.HasPrefix(key, Affinity+"/") }

// Implied reports whether the existing affinity already contains all that the affinity more would add. Both are JSON; nil stands for none,
// and so does a text that is no JSON object. It is false if a part of either is malformed, or both together would have too many terms.
func Implied(existing *string, more string) bool {
	a := jsonObject(existing)
	out, err := and(a, jsonObject(&more))
	return err == nil && equalText(a, out)
}

// Apply returns a copy of a pod spec in which the scheduling values next replace existing, the scheduling values of the spec. It changes
// only values that differ, and removes those that next lacks. Unchanged items of lists keep their positions.
func Apply(spec map[string]any, existing, next map[string]string) map[string]any {
	out := maps.Clone(spec)
	set := func(name string, value any, there bool) {
		if there {
			out[name] = value
		} else {
			delete(out, name)
		}
	}
	for _, name := range []string{PriorityClassName, schedulerName} {
		if value, there := next[name]; !sameAt(existing, next, name) {
			set(name, value, there)
		}
	}
	if text, there := next[Affinity]; !sameAt(existing, next, Affinity) {
		set(Affinity, JSONValue(text), there)
	}
	if changed := differing(existing, next, NodeSelector); len(changed) > 0 {
		selector, _ := spec[NodeSelector].(map[string]any)
		selector = maps.Clone(selector)
		if selector == nil {
			selector = map[string]any{}
		}
		for _, key := range changed {
			label := strings.TrimPrefix(key, NodeSelector+"/")
			if value, there := next[key]; there {
				selector[label] = value
			} else {
				delete(selector, label)
			}
		}
		set(NodeSelector, selector, len(selector) > 0)
	}
	for _, name := range []string{Tolerations, topologySpreadConstraints} {
		if changed := differing(existing, next, name); len(changed) > 0 {
			list, _ := spec[name].([]any)
			list = placeList(name, list, changed, next)
			set(name, list, len(list) > 0)
		}
	}
	return out
}

// placeList returns a copy of the list tolerations or topologySpreadConstraints with the values of next for the changed keys: an item whose
// key next lacks is removed, and a new one is appended. Other items keep their positions.
func placeList(name string, list []any, changed []string, next map[string]string) []any {
	var out []any
	changes, placed := sets.New(changed...), sets.New[string]()
	for _, item := range list {
		key, _ := listKey(name, item)
		switch _, there := next[key]; {
		case !changes.Has(key):
			out = append(out, item)
		case there && !placed.Has(key):
			placed.Insert(key)
			out = append(out, listItem(key, next[key]))
		}
	}
	for _, key := range changed {
		if _, there := next[key]; there && !placed.Has(key) {
			out = append(out, listItem(key, next[key]))
		}
	}
	return out
}

// listItem returns the toleration or the constraint that has a merge key and a value.
func listItem(key, value string) any {
	if text, ok := strings.CutPrefix(key, Tolerations+"/"); ok {
		return JSONValue(text)
	}
	return JSONValue(value)
}

// sameAt reports whether two maps have the same value, or none, for a key.
func sameAt(a, b map[string]string, key string) bool {
	x, inA := a[key]
	y, inB := b[key]
	return inA == inB && x == y
}

// differing returns, sorted, the merge keys that begin with the name of a member of the pod spec and a slash, and that have different
// values in a and b, or a value in only one of them.
func differing(a, b map[string]string, member string) []string {
	keys := sets.New[string]()
	for _, m := range []map[string]string{a, b} {
		for key := range m {
			if strings.HasPrefix(key, member+"/") && !sameAt(a, b, key) {
				keys.Insert(key)
			}
		}
	}
	return sets.List(keys)
}

// PodSpecOf returns the pod spec at a path in an object, and an error if there is none.
func PodSpecOf(object map[string]any, path []string) (map[string]any, error) {
	at := object
	for i, name := range path {
		next, ok := at[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:i+1], "."))
		}
		at = next
	}
	return at, nil
}

// WithPodSpec returns a copy of an object with spec as its pod spec, at a path; old is the pod spec before. If the priority class of a Pod
// changes, it removes the fields from spec, which it changes, that the API server derived from the old class, so that the API server
// derives them again.
func WithPodSpec(object map[string]any, path []string, spec, old map[string]any) map[string]any {
	if len(path) == 1 && spec[PriorityClassName] != old[PriorityClassName] {
		for _, name := range priorityMembers {
			delete(spec, name)
		}
	}
	return WithMember(object, spec, path...)
}

// Merge returns a copy of an object with the scheduling values of one policy merged in. podSpec is the path of the pod spec in the object
// (workload.Templates.Path). It returns an error if there is none, or if the object's scheduling fields are malformed or too many.
func Merge(object map[string]any, podSpec []string, scheduling map[string]string) (map[string]any, error) {
	spec, err := PodSpecOf(object, podSpec)
	if err != nil {
		return nil, err
	}
	existing, err := Flatten(spec)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", strings.Join(podSpec, "."), err)
	}
	values := maps.Clone(existing)
	for key, value := range scheduling {
		if key == Affinity {
			key = AffinityKey("policy")
		}
		values[key] = value
	}
	next, err := Compose(values)
	if err != nil {
		return nil, err
	}
	return WithPodSpec(object, podSpec, Apply(spec, existing, next), spec), nil
}

// AffinityKey returns the merge key of a policy's addition to the affinity, for example affinity/gpu-pools.
func AffinityKey(policy string) string { return Affinity + "/" + policy }

// Subject returns the name of a merge key for messages, for example "toleration ..." or "nodeSelector zone".
func Subject(key string) string {
	member, rest, _ := strings.Cut(key, "/")
	switch member {
	case Affinity:
		return Affinity
	case PriorityClassName, schedulerName:
		return member
	case NodeSelector:
		return member + " " + rest
	default:
		return strings.TrimSuffix(member, "s") + " " + rest
	}
}

// SelectsPods reports whether an affinity (JSON) has the member podAffinity or podAntiAffinity, even without terms. nil stands for no
// affinity.
func SelectsPods(text *string) bool {
	object := jsonObject(text)
	return object[podAffinity] != nil || object[podAntiAffinity] != nil
}

// optional returns a pointer to the value of a key; nil if there is none.
func optional(values map[string]string, key string) *string {
	if value, ok := values[key]; ok {
		return &value
	}
	return nil
}

// EncodeJSON returns a value's JSON without HTML escapes and without a final newline.
func EncodeJSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("encoding as JSON: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// JSONText returns a value's JSON with sorted keys. Equal values have equal texts, whatever Go type their numbers have.
func JSONText(value any) string {
	// Encoding does not fail: the value was decoded from JSON.
	text, _ := EncodeJSON(value)
	return text
}

// JSONValue returns the value of a JSON text; nil if the text is not valid.
func JSONValue(text string) any {
	var out any
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		return nil
	}
	return out
}

// jsonObject returns the object of a JSON text; nil if text is nil or has no object.
func jsonObject(text *string) map[string]any {
	if text == nil {
		return nil
	}
	out, _ := JSONValue(*text).(map[string]any)
	return out
}
