package placement

import (
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Patch returns the JSON patch (RFC 6902) that makes from's labels and annotations those of to. Nothing else of an
// object is ever patched, so nothing else is compared: a general differ would walk the whole object for each request.
func Patch(from, to *unstructured.Unstructured) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	for _, field := range fields {
		ops = append(ops, patchField(field, from, to)...)
	}
	return ops
}

func patchField(field string, from, to *unstructured.Unstructured) []jsonpatch.Operation {
	old, next := metadataOf(from, field), metadataOf(to, field)
	if maps.Equal(old, next) {
		return nil
	}
	base := "/metadata/" + field
	value, _, _ := unstructured.NestedFieldNoCopy(from.Object, "metadata", field)
	if members, _ := value.(map[string]any); len(members) == 0 {
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
