package replication

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// normalForm is the name under which a prepared object has its normal form. No field of an object has it.
const normalForm = "placement.berth.dev/normal-form"

// Prepare makes, in place, of an object what policies may read of it: it is stripped, and its normal form is laid beside
// its own fields if it has one, so that both can be cut to what is read of them.
func (i *Inventories) Prepare(resource schema.GroupVersionResource, obj *unstructured.Unstructured) {
	Strip(resource.GroupResource(), obj)
	if normal := i.normalize(resource, obj.Object); normal != nil {
		obj.Object[normalForm] = normal
	}
}

// normalize returns the normal form of an object, nil if it has none.
func (i *Inventories) normalize(resource schema.GroupVersionResource, obj map[string]any) map[string]any {
	if cluster, ok := i.Cluster(resource, obj); ok {
		return cluster
	}
	quota, _ := Quota(resource, obj)
	return quota
}

// Parts returns a prepared object's own fields and its normal form, nil if it has none. The object is not changed.
func Parts(obj map[string]any) (own, normal map[string]any) {
	normal, ok := obj[normalForm].(map[string]any)
	if !ok {
		return obj, nil
	}
	own = maps.Clone(obj)
	delete(own, normalForm)
	return own, normal
}

// NormalFields are the fields of a prepared object of which the normal form has the given ones, sealed.
func NormalFields(fields *projection.Fields) *projection.Fields {
	return projection.Below(normalForm, fields)
}

// Paths are the fields of a prepared object as text, sorted: those of the object and those of its normal form, each with
// all that is below it; "**" stands for the whole, and so does nil.
func Paths(fields *projection.Fields) []string {
	if fields == nil {
		return []string{"**"}
	}
	var out []string
	for _, path := range fields.Paths() {
		path = strings.TrimPrefix(path, normalPath)
		if path == "" {
			continue
		}
		if path != ".**" {
			path = strings.TrimSuffix(path, ".**")
		}
		out = append(out, strings.TrimPrefix(path, "."))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// normalPath is the normal form as paths of fields have it.
var normalPath = func() string {
	return NormalFields(&projection.Fields{}).Paths()[0]
}()

// FieldsOfNormal are the fields of the normal form among those of a prepared object, sealed.
func FieldsOfNormal(fields *projection.Fields) *projection.Fields {
	return fields.Below(normalForm)
}
