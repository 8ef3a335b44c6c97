package placement

import (
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Patch returns the JSON patch (RFC 6902) that makes from's labels and annotations those of to, and where its pods run
// what it is in to; podSpec leads to the spec of the pods (Outcome.PodSpec). Nothing else of an object is ever patched, so
// nothing else is compared: a general differ would walk the whole object for each request.
func Patch(from, to *unstructured.Unstructured, podSpec ...string) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	for _, field := range []string{fieldAnnotations, fieldLabels} {
		value, _, _ := unstructured.NestedFieldNoCopy(from.Object, "metadata", field)
		members, _ := value.(map[string]any)
		ops = append(ops, patchMap("/metadata/"+field, len(members) > 0, metadataOf(from, field), metadataOf(to, field))...)
	}
	if len(podSpec) > 0 {
		ops = append(ops, patchPods(from, to, podSpec)...)
	}
	return ops
}

func patchPods(from, to *unstructured.Unstructured, path []string) []jsonpatch.Operation {
	old, err := podSpecOf(from.Object, path)
	if err != nil {
		return nil
	}
	next, err := podSpecOf(to.Object, path)
	if err != nil {
		return nil
	}
	var base strings.Builder
	for _, name := range path {
		base.WriteString("/" + pointerEscaper.Replace(name))
	}
	var ops []jsonpatch.Operation
	for _, name := range schedulingMembers {
		at := base.String() + "/" + name
		before, stood := old[name]
		after, stands := next[name]
		switch {
		case stood == stands && equalText(before, after):
		case !stands:
			ops = append(ops, jsonpatch.NewOperation("remove", at, nil))
		case name == nodeSelector:
			ops = append(ops, patchMap(at, len(textsOf(before)) > 0, textsOf(before), textsOf(after))...)
		default:
			ops = append(ops, jsonpatch.NewOperation("add", at, after))
		}
	}
	return ops
}

func textsOf(value any) map[string]string {
	out := map[string]string{}
	members, _ := value.(map[string]any)
	for key, member := range members {
		out[key], _ = member.(string)
	}
	return out
}

// patchMap makes one map of texts another; there says whether there is an object to change.
func patchMap(base string, there bool, old, next map[string]string) []jsonpatch.Operation {
	if maps.Equal(old, next) {
		return nil
	}
	if !there {
		// There may be no object to add members to.
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
			// "add" also replaces a member that exists.
			ops = append(ops, jsonpatch.NewOperation("add", base+"/"+pointerEscaper.Replace(key), next[key]))
		}
	}
	return ops
}
