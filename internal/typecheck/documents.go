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

package typecheck

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/replication"
)

// document is a path in `data`, such as kubernetes and nodes, and the type of the value there.
type document struct {
	// path is the path below `data`.
	path []string
	tpe  types.Type // The type of the value.
}

var (
	stringsByName    = byName(types.S)
	anythingByName   = byName(types.A)
	quantitiesByName = byName(quantity)
	// amountsByName is the type of quantities in a declared inventory: strings or numbers.
	amountsByName = byName(types.NewAny(types.S, types.N))
)

// objectOf returns the type of an object that has the given fields and no others.
func objectOf(fields map[string]types.Type) *types.Object {
	static := make([]*types.StaticProperty, 0, len(fields))
	for name, t := range fields {
		static = append(static, types.NewStaticProperty(name, t))
	}
	return types.NewObject(static, nil)
}

// byName returns the type of an object that has fields with any names, all of the type t.
func byName(t types.Type) types.Type {
	return types.NewObject(nil, types.NewDynamicProperty(types.S, t))
}

// clusterIn returns the type of a cluster's normal form in data.clusters, which is built from inventories; see replication.Inventories.
// Only declared inventories may have properties that are no strings, and amounts that are numbers.
func clusterIn(inventories []schema.GroupVersionResource) types.Type {
	properties, amounts, known := stringsByName, quantitiesByName, replication.Known().Resources()
	if slices.ContainsFunc(inventories, func(r schema.GroupVersionResource) bool { return !slices.Contains(known, r) }) {
		properties, amounts = anythingByName, amountsByName
	}
	return objectOf(map[string]types.Type{
		"name": types.S, "namespace": types.S, "source": types.S,
		"labels": stringsByName, "annotations": stringsByName, "properties": properties,
		"taints": types.NewArray(nil, types.A), "ready": types.B, "terminating": types.B,
		"region": types.S, "zones": types.NewArray(nil, types.A), "provider": types.S, "version": types.S,
		"capacity": amounts, "allocatable": amounts, "allocated": amounts,
	})
}

// HasTexts reports whether the value at a path below data.clusters[name], or a member of it, can be a text; false for a path that clusters
// do not have. Check finds each comparison of other values with a text.
func HasTexts(path []string) bool {
	t := clusterIn([]schema.GroupVersionResource{{Resource: "declared"}})
	for _, name := range path {
		if t = types.Select(t, name); t == nil {
			return false
		}
	}
	if members := types.Values(t); members != nil {
		t = members
	}
	return possible(t, types.S)
}

// quota is the type of a quota in data.berth: an object with the amounts hard and used.
var quota = objectOf(map[string]types.Type{"hard": quantitiesByName, "used": quantitiesByName})

// metadata is the type of every object's metadata, without managed fields.
var metadata = objectOf(map[string]types.Type{
	"name": types.S, "generateName": types.S, "namespace": types.S, "selfLink": types.S, "uid": types.S,
	"resourceVersion": types.S, "generation": types.N, "labels": stringsByName, "annotations": stringsByName,
	"creationTimestamp": types.NewAny(types.S, types.Nl), "deletionTimestamp": types.NewAny(types.S, types.Nl),
	"deletionGracePeriodSeconds": types.N, "finalizers": types.NewArray(nil, types.S),
	"ownerReferences": types.NewArray(nil, objectOf(map[string]types.Type{
		"apiVersion": types.S, "kind": types.S, "name": types.S, "uid": types.S, "controller": types.B, "blockOwnerDeletion": types.B,
	})),
})

// AnyObject is the type of an object of which only the metadata is known. Other fields may have any value.
var AnyObject types.Type = types.NewObject([]*types.StaticProperty{
	types.NewStaticProperty("apiVersion", types.S),
	types.NewStaticProperty("kind", types.S),
	types.NewStaticProperty("metadata", metadata),
}, types.NewDynamicProperty(types.S, types.A))

// documents returns the documents in `data` for which the types of the values are known: those of the replicated types with known fields,
// data.clusters and data.berth.ambiguousclusters if the policy reads clusters, and those in spec.data.
func documents(in Input) []document {
	var out []document
	for _, bound := range in.Binding.Paths {
		var t types.Type
		if bound.Quota {
			t = quota
		} else if t = in.Objects[bound.Resource]; t == nil {
			continue
		}
		t = replicated(bound.Resource.GroupResource(), t)
		if namespaced(in.Binding, bound.Resource) {
			t = byName(t)
		}
		out = append(out, document{bound.Path, byName(t)})
	}
	if len(in.Binding.Clusters) > 0 {
		out = append(out, document{[]string{language.RootClusters}, byName(clusterIn(in.Binding.Clusters))},
			document{[]string{language.RootBerth, language.AmbiguousClusters}, byName(types.NewArray(nil, types.S))})
	}
	return append(out, ownDocuments(in.Spec.Data)...)
}

// namespaced reports whether a resource type is one of those that a bound policy reads, and namespaced.
func namespaced(b *policy.Binding, resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(b.Resources, func(r policy.Resource) bool { return r.GroupVersionResource == resource && r.Namespaced })
}

// replicated returns the type of the part of an object that is replicated, given the type of the object: Secrets lose their payload, and
// the status of Berth's own objects may have any value.
func replicated(resource schema.GroupResource, t types.Type) types.Type {
	switch {
	case resource == schema.GroupResource{Resource: "secrets"}:
		return without(t, secretPayload...)
	case resource.Group == placementv1.GroupVersion.Group:
		// Most of a quota's status is not replicated, so the status may have any value.
		return replaced(t, "status", func(types.Type) types.Type { return types.A })
	}
	return t
}

// secretPayload are the fields of Secrets that are never replicated.
var secretPayload = []string{"data", "stringData"}

// ownDocuments returns a document for each member of spec.data at the top level, with the type of its value; none if data is nil or no JSON
// object.
func ownDocuments(data *apiextensionsv1.JSON) []document {
	if data == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data.Raw))
	decoder.UseNumber()
	var parsed map[string]any
	if decoder.Decode(&parsed) != nil {
		return nil
	}
	var out []document
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		out = append(out, document{[]string{name}, typeOf(parsed[name])})
	}
	return out
}

// maxStatic is the maximum number of members for which an object in spec.data has a type per member. An object with more members has the
// type of an object with any fields, which may have any values.
const maxStatic = 128

// typeOf returns the type of a JSON value. All items of an array have one type.
func typeOf(value any) types.Type {
	switch value := value.(type) {
	case []any:
		var items types.Type
		for _, item := range value {
			items = types.Or(items, typeOf(item))
		}
		if items == nil {
			items = types.A
		}
		return types.NewArray(nil, items)
	case map[string]any:
		if len(value) == 0 || len(value) > maxStatic {
			return anythingByName
		}
		fields := map[string]types.Type{}
		for name, member := range value {
			fields[name] = typeOf(member)
		}
		return objectOf(fields)
	default:
		return types.TypeOf(value)
	}
}

// hides reports whether the path of a document is the beginning of a reference below `data`, such as the package of a module: a module that
// defines the document and the module with that package can't both be compiled.
func (d document) hides(pkg ast.Ref) bool {
	for i, name := range d.path {
		if at, ok := language.Part(pkg, i+1); !ok || at != name {
			return false
		}
	}
	return true
}
