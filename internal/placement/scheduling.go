package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/workload"
)

// Where a pod runs is merged key by key, as labels are. The keys of a pod's spec, and the values under them, are:
//
//	nodeSelector/<label>                                            the label's value
//	tolerations/<toleration as JSON>                                present
//	topologySpreadConstraints/<topologyKey>/<whenUnsatisfiable>     the constraint as JSON
//	priorityClassName, schedulerName                                the name
//	affinity                                                        the affinity as JSON
//	affinity/<policy>                                               what a policy adds to it
//
// So a node selector is merged by label, tolerations are a set, constraints are merged by what the API server wants to
// be unique, and affinities are no matter of precedence: a policy has a key of its own, and the pod's affinity is all of
// them, ANDed.
const (
	nodeSelector              = "nodeSelector"
	tolerations               = "tolerations"
	topologySpreadConstraints = "topologySpreadConstraints"
	priorityClassName         = "priorityClassName"
	schedulerName             = "schedulerName"
	affinity                  = "affinity"

	// present is the value of what has none but to be there.
	present = "present"
)

// maxValues bounds the JSON values in each member of a pod's spec that decisions are merged into. Beyond it, policies that
// decide on scheduling can't decide. It is far above what pods have, and bounds what a merge costs.
const maxValues = 1 << 16

// Members of a pod's spec that the API server's admission of priorities fills in, from the class's name.
var priorityMembers = []string{"priority", "preemptionPolicy"}

// schedulingMembers are the members of a pod's spec that decisions are merged into, and those that follow from them.
var schedulingMembers = append([]string{nodeSelector, affinity, tolerations, topologySpreadConstraints, priorityClassName, schedulerName}, priorityMembers...)

// SchedulingFields are what of an object the merge of decisions on scheduling looks at, sealed. The path leads to the
// spec of the object's pods.
func SchedulingFields(podSpec []string) *projection.Fields {
	f := &projection.Fields{}
	spec := f
	for _, name := range podSpec {
		spec = spec.Name(name)
	}
	for _, name := range schedulingMembers {
		spec.Name(name).All()
	}
	// Whether a Job can still be changed.
	f.Name("spec").Name("suspend")
	f.Name("status").Name("startTime")
	// Whether a ReplicaSet is another object's.
	f.Name("metadata").Name("ownerReferences").All()
	return f.Seal()
}

// flatten returns what a pod's spec says of where the pod runs, by key; the affinity is one.
func flatten(spec map[string]any) (map[string]string, error) {
	for _, name := range schedulingMembers {
		if left := maxValues; !countDown(spec[name], &left) {
			return nil, fmt.Errorf("%s has more than %d values, counting each member and item; use fewer", name, maxValues)
		}
	}
	out := map[string]string{}
	for _, name := range []string{priorityClassName, schedulerName} {
		switch value := spec[name].(type) {
		case nil:
		case string:
			out[name] = value
		default:
			return nil, fmt.Errorf("%s is not a string", name)
		}
	}
	selector, err := workload.OptionalObject(spec, nodeSelector)
	if err != nil {
		return nil, err
	}
	for key, value := range selector {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not a map of strings", nodeSelector)
		}
		out[nodeSelector+"/"+key] = text
	}
	for _, name := range []string{tolerations, topologySpreadConstraints} {
		list, ok := spec[name].([]any)
		if !ok && spec[name] != nil {
			return nil, fmt.Errorf("%s is not a list", name)
		}
		for _, item := range list {
			// The first of several constraints of one key is the one that is merged with.
			if key, value := listKey(name, item); out[key] == "" {
				out[key] = value
			}
		}
	}
	standing, err := workload.OptionalObject(spec, affinity)
	if err != nil {
		return nil, err
	}
	if standing != nil {
		out[affinity] = jsonText(standing)
	}
	return out, nil
}

// countDown takes the number of JSON values in a value from left, and reports whether there were as many.
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

// listKey is the key of a toleration or constraint, and its value.
func listKey(name string, item any) (key, value string) {
	object, _ := item.(map[string]any)
	if name == topologySpreadConstraints {
		return fmt.Sprintf("%s/%v/%v", name, object["topologyKey"], object["whenUnsatisfiable"]), jsonText(item)
	}
	if object == nil {
		return name + "/" + jsonText(item), present
	}
	// Tolerations that differ in what is left out, or might be, are the same one.
	plain := maps.Clone(object)
	maps.DeleteFunc(plain, func(member string, value any) bool {
		return value == nil || value == "" || member == "operator" && value == "Equal"
	})
	return name + "/" + jsonText(plain), present
}

// compose returns what a pod's spec is to say, by key, where the affinity is one: what the developer wants and what
// policies add, in the order of their names. That order does not change with their priorities, so neither do pods.
func compose(values map[string]string) (map[string]string, error) {
	out := maps.Clone(values)
	whole := jsonObject(optional(values, affinity))
	added := false
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !isContribution(key) {
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
		out[affinity] = jsonText(whole)
	}
	return out, nil
}

func isContribution(key string) bool { return strings.HasPrefix(key, affinity+"/") }

// implied says whether an affinity, by its text, has what another one would add.
func implied(standing *string, more string) bool {
	a := jsonObject(standing)
	out, err := and(a, jsonObject(&more))
	return err == nil && equalText(a, out)
}

// place returns a copy of a pod's spec that says what next has, where it differs from what the spec says, which is
// standing. What stays keeps its place.
func place(spec map[string]any, standing, next map[string]string) map[string]any {
	out := maps.Clone(spec)
	set := func(name string, value any, there bool) {
		if there {
			out[name] = value
		} else {
			delete(out, name)
		}
	}
	for _, name := range []string{priorityClassName, schedulerName} {
		if value, there := next[name]; !sameAt(standing, next, name) {
			set(name, value, there)
		}
	}
	if text, there := next[affinity]; !sameAt(standing, next, affinity) {
		set(affinity, jsonValue(text), there)
	}
	if changed := differing(standing, next, nodeSelector); len(changed) > 0 {
		selector, _ := maps.Clone(spec)[nodeSelector].(map[string]any)
		selector = maps.Clone(selector)
		if selector == nil {
			selector = map[string]any{}
		}
		for _, key := range changed {
			label := strings.TrimPrefix(key, nodeSelector+"/")
			if value, there := next[key]; there {
				selector[label] = value
			} else {
				delete(selector, label)
			}
		}
		set(nodeSelector, selector, len(selector) > 0)
	}
	for _, name := range []string{tolerations, topologySpreadConstraints} {
		if changed := differing(standing, next, name); len(changed) > 0 {
			list, _ := spec[name].([]any)
			list = placeList(name, list, changed, next)
			set(name, list, len(list) > 0)
		}
	}
	return out
}

// placeList returns a copy of a list with the values that next has under the keys that changed.
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

// listItem is the toleration or the constraint of a key.
func listItem(key, value string) any {
	if text, ok := strings.CutPrefix(key, tolerations+"/"); ok {
		return jsonValue(text)
	}
	return jsonValue(value)
}

func sameAt(a, b map[string]string, key string) bool {
	x, inA := a[key]
	y, inB := b[key]
	return inA == inB && x == y
}

// differing are the keys of a member under which two differ, sorted.
func differing(a, b map[string]string, member string) []string {
	keys := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for key := range m {
			if strings.HasPrefix(key, member+"/") && !sameAt(a, b, key) {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// podSpecOf returns the spec of an object's pods.
func podSpecOf(object map[string]any, path []string) (map[string]any, error) {
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

// withPodSpec returns a copy of an object whose pods have another spec. The spec of a Pod whose priority class is another
// one loses what the API server made of the first, for it to be made of the second.
func withPodSpec(object map[string]any, path []string, spec, old map[string]any) map[string]any {
	if len(path) == 1 && spec[priorityClassName] != old[priorityClassName] {
		for _, name := range priorityMembers {
			delete(spec, name)
		}
	}
	return withMember(object, spec, path...)
}

// Schedule returns a copy of an object as it is with what a single policy says of scheduling (Decision.Scheduling) merged
// into it. The path leads to the spec of the object's pods (workload.Templates.Path).
func Schedule(object map[string]any, podSpec []string, scheduling map[string]string) (map[string]any, error) {
	spec, err := podSpecOf(object, podSpec)
	if err != nil {
		return nil, err
	}
	standing, err := flatten(spec)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", strings.Join(podSpec, "."), err)
	}
	values := maps.Clone(standing)
	for key, value := range scheduling {
		values[ownKey(fieldScheduling, key, "policy")] = value
	}
	next, err := compose(values)
	if err != nil {
		return nil, err
	}
	return withPodSpec(object, podSpec, place(spec, standing, next), spec), nil
}

// ownKey is the key under which a policy's decision is merged.
func ownKey(field, key, policy string) string {
	if field == fieldScheduling && key == affinity {
		return affinity + "/" + policy
	}
	return key
}

// subject names what is under a key of scheduling.
func subject(key string) string {
	member, rest, _ := strings.Cut(key, "/")
	switch member {
	case affinity:
		return affinity
	case priorityClassName, schedulerName:
		return member
	case nodeSelector:
		return member + " " + rest
	default:
		return strings.TrimSuffix(member, "s") + " " + rest
	}
}

// Where an object can't be changed any more.
const (
	fixedPod   = "immutable: delete the pod so that it is made anew"
	fixedJob   = "immutable: delete the job so that it is made anew"
	fixedOwned = "made from another object's template: match that object"
)

// fixed says why a key of scheduling does not get another value from now on; empty if it does. The rules for Jobs are
// those of ValidateJobUpdate (k8s.io/kubernetes/pkg/apis/batch/validation).
//
// owned says that the object is a ReplicaSet whose template has to stay; see Decider.owned.
func fixed(r *Request, owned bool, key string, values ...*string) string {
	old := r.Old
	if owned {
		return fixedOwned
	}
	if old == nil {
		return ""
	}
	switch r.Resource.GroupResource() {
	case pods:
		return fixedPod
	case jobs:
		suspended, _, _ := unstructured.NestedBool(old.Object, "spec", "suspend")
		if started, ok, _ := unstructured.NestedString(old.Object, "status", "startTime"); !suspended || ok && started != "" {
			return fixedJob
		}
		switch member, _, _ := strings.Cut(key, "/"); member {
		case nodeSelector, tolerations:
			return ""
		case affinity:
			if !slices.ContainsFunc(values, ofPods) {
				return ""
			}
		}
		return fixedJob
	}
	return ""
}

// mayBeFixed says whether the objects of a resource are such that the old one says what can be changed.
func mayBeFixed(resource schema.GroupResource) bool { return resource == pods || resource == jobs }

// ofPods says whether an affinity has more than what is about nodes.
func ofPods(text *string) bool {
	object := jsonObject(text)
	return object[podAffinity] != nil || object[podAntiAffinity] != nil
}

// RecordsScheduling reports whether an object as the API server has it, in its namespace, has a genuine record of what
// policies overwrote of where its pods run. The object may be nil.
func (d *Decider) RecordsScheduling(obj *unstructured.Unstructured, namespace string) bool {
	return mayRecordScheduling(obj) && len(d.Keyring.readStored(obj, identityOf(obj, namespace)).of(fieldScheduling)) > 0
}

// recordsScheduling is RecordsScheduling for the objects of a request.
func (d *Decider) recordsScheduling(r *Request, id identity) bool {
	return mayRecordScheduling(r.Object) && len(d.Keyring.read(r.Object, id).of(fieldScheduling)) > 0 ||
		mayRecordScheduling(r.Old) && len(d.Keyring.readStored(r.Old, id).of(fieldScheduling)) > 0
}

// mayRecordScheduling reports whether it is worth it to read an object's record, which anybody may have written.
func mayRecordScheduling(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", fieldAnnotations, placementv1.RequestedAnnotation)
	text, _ := value.(string)
	return strings.Contains(text, `"`+fieldScheduling+`":`)
}
