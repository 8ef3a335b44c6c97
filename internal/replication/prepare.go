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

package replication

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// normalForm is the key under which a prepared object has its normal form. No Kubernetes object has a field of this
// name.
const normalForm = "placement.berth.dev/normal-form"

// Prepare changes an object in place to what policies may read of it. It calls Strip and, if the object has a normal form (a cluster or a
// quota), stores that in the object beside the object's own fields. All of it can then be cut to the fields that policies read.
func (i *Inventories) Prepare(resource schema.GroupVersionResource, obj *unstructured.Unstructured) {
	Strip(resource.GroupResource(), obj)
	if normal := i.normalize(resource, obj.Object); normal != nil {
		obj.Object[normalForm] = normal
	}
}

// normalize returns the normal form of an object that is a cluster or a quota; nil for other objects.
func (i *Inventories) normalize(resource schema.GroupVersionResource, obj map[string]any) map[string]any {
	if cluster, ok := i.Cluster(resource, obj); ok {
		return cluster
	}
	quota, _ := Quota(resource, obj)
	return quota
}

// Parts returns the own fields and the normal form of an object that Prepare changed; normal is nil if the object has none. The object is
// not changed.
func Parts(obj map[string]any) (own, normal map[string]any) {
	normal, ok := obj[normalForm].(map[string]any)
	if !ok {
		return obj, nil
	}
	own = maps.Clone(obj)
	delete(own, normalForm)
	return own, normal
}

// NormalFields returns the sealed field set of a prepared object that has the given fields of its normal form, and none of its own fields.
func NormalFields(fields *projection.FieldSet) *projection.FieldSet {
	return projection.Nest(normalForm, fields)
}

// Paths returns the fields in the field set of a prepared object as sorted texts. Fields of the normal form have the same texts as those of
// the object itself. A path stands for everything below it. "**" stands for the whole object, and is the result for nil.
func Paths(fields *projection.FieldSet) []string {
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

// normalPath is the text with which FieldSet.Paths begins the paths of fields in the normal form of a prepared object.
var normalPath = func() string {
	return NormalFields(&projection.FieldSet{}).Paths()[0]
}()

// FieldsOfNormal returns the sealed set of the fields of the normal form that a field set of a prepared object has, without the path of the
// normal form before them; empty if there are none.
func FieldsOfNormal(fields *projection.FieldSet) *projection.FieldSet {
	return fields.AtPath(normalForm)
}
