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

package placement

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/podscheduling"
)

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Paths are the paths of those parts of an object that merging may have changed, beside labels and annotations.
type Paths struct {
	// PodSpec is the path of the pod spec; nil if merging did not read the pod spec, or could not decode it.
	PodSpec []string
	// Clusters is the path of the part of a placement object that contains its list of clusters, such as ["spec", "placement"]
	// (clusterlist.Kind.Root); nil if merging did not change the list.
	Clusters []string
}

// Patch returns the JSON patch (RFC 6902) that turns from into to in its labels, its annotations, and what is at the paths. Berth never
// changes other parts of an object, so Patch does not compare them: a general diff would walk the whole object on each request. The
// operations act on single labels and single list items, so unchanged parts keep the bytes that the client sent.
func Patch(from, to *unstructured.Unstructured, paths Paths) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	for _, field := range []string{fieldAnnotations, fieldLabels} {
		value, _, _ := unstructured.NestedFieldNoCopy(from.Object, "metadata", field)
		members, _ := value.(map[string]any)
		ops = append(ops, patchMap("/metadata/"+field, len(members) > 0, metadataOf(from, field), metadataOf(to, field))...)
	}
	if len(paths.PodSpec) > 0 {
		ops = append(ops, patchPods(from, to, paths.PodSpec)...)
	}
	if len(paths.Clusters) > 0 {
		ops = append(ops, patchMember("", from.Object, to.Object, paths.Clusters)...)
	}
	return ops
}

// patchMember returns operations that turn from into to at a path within both. at is the JSON pointer to from.
func patchMember(at string, from, to map[string]any, path []string) []jsonpatch.Operation {
	at += "/" + pointerEscaper.Replace(path[0])
	before, existed := from[path[0]]
	after, exists := to[path[0]]
	old, was := before.(map[string]any)
	next, is := after.(map[string]any)
	switch {
	case len(path) > 1 && was && is:
		return patchMember(at, old, next, path[1:])
	case existed == exists && patchText(before) == patchText(after):
		return nil
	case !exists:
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", at, nil)}
	case !existed:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", at, after)}
	}
	return patchValue(at, before, after)
}

// patchPods returns operations that turn the pod spec at a path in from into that in to; none if either can't be read. It compares only the
// members that merging may change.
func patchPods(from, to *unstructured.Unstructured, path []string) []jsonpatch.Operation {
	old, err := podscheduling.PodSpecOf(from.Object, path)
	if err != nil {
		return nil
	}
	next, err := podscheduling.PodSpecOf(to.Object, path)
	if err != nil {
		return nil
	}
	var base strings.Builder
	for _, name := range path {
		base.WriteString("/" + pointerEscaper.Replace(name))
	}
	var ops []jsonpatch.Operation
	for _, name := range podscheduling.Members {
		at := base.String() + "/" + name
		before, existed := old[name]
		after, exists := next[name]
		switch {
		case existed == exists && patchText(before) == patchText(after):
		case !exists:
			ops = append(ops, jsonpatch.NewOperation("remove", at, nil))
		case name == podscheduling.NodeSelector:
			ops = append(ops, patchMap(at, len(textsOf(before)) > 0, textsOf(before), textsOf(after))...)
		case !existed:
			ops = append(ops, jsonpatch.NewOperation("add", at, after))
		default:
			ops = append(ops, patchValue(at, before, after)...)
		}
	}
	return ops
}

// maxListOperations bounds the number of operations on one list. The API server copies the list for each operation, so
// a list with more differences is replaced as a whole.
const maxListOperations = 64

// patchValue returns operations that turn the value before, at a JSON pointer, into after, which must differ. They change the smallest
// possible parts, so that unchanged parts keep the bytes that the client sent.
func patchValue(at string, before, after any) []jsonpatch.Operation {
	switch old := before.(type) {
	case map[string]any:
		if next, ok := after.(map[string]any); ok {
			return patchObject(at, old, next)
		}
	case []any:
		if next, ok := after.([]any); ok {
			if ops := patchList(at, old, next); len(ops) <= maxListOperations {
				return ops
			}
		}
	}
	return []jsonpatch.Operation{jsonpatch.NewOperation("replace", at, after)}
}

// patchObject returns operations that turn an object at a JSON pointer into another.
func patchObject(at string, old, next map[string]any) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	for _, name := range slices.Sorted(maps.Keys(old)) {
		below := at + "/" + pointerEscaper.Replace(name)
		if after, stays := next[name]; !stays {
			ops = append(ops, jsonpatch.NewOperation("remove", below, nil))
		} else if patchText(old[name]) != patchText(after) {
			ops = append(ops, patchValue(below, old[name], after)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if _, existed := old[name]; !existed {
			ops = append(ops, jsonpatch.NewOperation("add", at+"/"+pointerEscaper.Replace(name), next[name]))
		}
	}
	return ops
}

// patchList returns operations that turn a list at a JSON pointer into another. It walks both lists in parallel. An item that is in both
// lists, but at another position, is removed and added again later. Merging keeps the order of unchanged items, so this is rare. After more
// than maxListOperations operations it stops, and the result is incomplete.
func patchList(at string, old, next []any) []jsonpatch.Operation {
	befores, afters := jsonTexts(old), jsonTexts(next)
	// The number of times that each text still occurs in the rest of the list.
	left, wanted := counts(befores), counts(afters)
	var ops []jsonpatch.Operation
	i, j := 0, 0
	for i < len(old) || j < len(next) {
		if len(ops) > maxListOperations {
			break
		}
		here := at + "/" + strconv.Itoa(j)
		gone := i < len(old) && wanted[befores[i]] == 0
		fresh := j < len(next) && left[afters[j]] == 0
		switch {
		case i < len(old) && j < len(next) && befores[i] == afters[j]:
			left[befores[i]]--
			wanted[afters[j]]--
			i, j = i+1, j+1
		case gone && fresh:
			ops = append(ops, patchValue(here, old[i], next[j])...)
			left[befores[i]]--
			wanted[afters[j]]--
			i, j = i+1, j+1
		case j < len(next) && (fresh || i == len(old)):
			ops = append(ops, jsonpatch.NewOperation("add", here, next[j]))
			wanted[afters[j]]--
			j++
		default:
			ops = append(ops, jsonpatch.NewOperation("remove", here, nil))
			left[befores[i]]--
			i++
		}
	}
	return ops
}

// patchText returns a value's JSON as merging writes it. Merging an affinity turns the float -0 into the integer 0.
func patchText(value any) string {
	text := podscheduling.JSONText(value)
	if strings.Contains(text, "-0") {
		text = podscheduling.JSONText(podscheduling.JSONValue(text))
	}
	return text
}

// jsonTexts returns the result of patchText for each item of a list.
func jsonTexts(list []any) []string {
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = patchText(item)
	}
	return out
}

// counts returns how many times each text occurs.
func counts(texts []string) map[string]int {
	out := map[string]int{}
	for _, text := range texts {
		out[text]++
	}
	return out
}

// textsOf returns the members of a decoded JSON object as strings; "" for a member of another type. It returns an empty map if the value is
// no object.
func textsOf(value any) map[string]string {
	out := map[string]string{}
	members, _ := value.(map[string]any)
	for key, member := range members {
		out[key], _ = member.(string)
	}
	return out
}

// patchMap returns operations that turn a map of labels, annotations, or a node selector, at the JSON pointer base, into another. there
// reports whether the object has a non-empty map there; if not, one operation adds all of next.
func patchMap(base string, there bool, old, next map[string]string) []jsonpatch.Operation {
	if maps.Equal(old, next) {
		return nil
	}
	if !there {
		// The object may have no map to add members to.
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", base, next)}
	}
	var ops []jsonpatch.Operation
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if _, stays := next[key]; !stays {
			ops = append(ops, jsonpatch.NewOperation("remove", base+"/"+pointerEscaper.Replace(key), nil))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(next)) {
		if value, there := old[key]; !there || value != next[key] {
			// "add" also replaces an existing member.
			ops = append(ops, jsonpatch.NewOperation("add", base+"/"+pointerEscaper.Replace(key), next[key]))
		}
	}
	return ops
}
