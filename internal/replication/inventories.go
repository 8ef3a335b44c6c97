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
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/projection"
)

// Inventories are the resource types whose objects represent clusters, such as ClusterProfile, built-in and declared ones. It is immutable
// and safe for concurrent use. Create it with NewInventories.
type Inventories struct {
	all []inventory // the inventories, in the order in which messages name them
}

// inventory is one resource type, in one version, whose objects represent clusters: how their normal form is read, and which of the objects
// count.
type inventory struct {
	resource schema.GroupVersionResource
	// read sets those fields of an object's normal form (out) that differ between inventories.
	read func(obj, out map[string]any)
	// name is the path of the cluster's name in an object; nil if it is the object's own name.
	name path
	// clusterScoped reports whether the objects are known to have no namespace. It is false for all declared inventories.
	clusterScoped bool
	// sources select the objects that represent clusters: each that at least one of them selects. nil means all objects; an inventory with
	// sources has at least one.
	sources []source
}

// NewInventories returns the built-in inventories followed by the declared ones, in their order. at is the path of the list of declarations
// in the configuration, for errors.
func NewInventories(at *field.Path, declared ...Declaration) (*Inventories, field.ErrorList) {
	out := &Inventories{all: slices.Clone(known)}
	var errs field.ErrorList
	for i, d := range declared {
		in, invalid := d.compile(at.Index(i))
		errs = append(errs, invalid...)
		if len(invalid) > 0 {
			continue
		}
		if out.find(in.resource) != nil {
			errs = append(errs, field.Duplicate(at.Index(i), fmt.Sprintf("%s/%s %s", d.Group, d.Version, d.Resource)))
			continue
		}
		out.all = append(out.all, in)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

// Known returns the built-in inventories.
func Known() *Inventories { return &Inventories{all: known} }

// find returns the inventory of a type and version; nil if there is none.
func (i *Inventories) find(resource schema.GroupVersionResource) *inventory {
	for at := range i.all {
		if i.all[at].resource == resource {
			return &i.all[at]
		}
	}
	return nil
}

// Resources returns the types of the inventories, in the order in which messages name them. Of a type that occurs in several versions,
// Berth reads the first version that the API server serves.
func (i *Inventories) Resources() []schema.GroupVersionResource {
	out := make([]schema.GroupVersionResource, len(i.all))
	for at, in := range i.all {
		out[at] = in.resource
	}
	return out
}

// Served returns the types whose objects Berth reads: of each type, the first version for which served returns true, because all versions
// show the same objects.
func (i *Inventories) Served(served func(schema.GroupVersionResource) bool) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, in := range i.all {
		known := func(r schema.GroupVersionResource) bool { return r.GroupResource() == in.resource.GroupResource() }
		if served(in.resource) && !slices.ContainsFunc(out, known) {
			out = append(out, in.resource)
		}
	}
	return out
}

// Needs returns the sealed set of the fields of the normal form that must be kept of the objects of an inventory: those that policies read
// (read), and the name if clusters have other names than their objects, or if sources select some of the objects, so that what is kept
// changes if the name changes, or whether there is one. It adds the manager of ClusterProfiles, which says what they are derived from.
func (i *Inventories) Needs(resource schema.GroupVersionResource, read *projection.FieldSet) *projection.FieldSet {
	in, more := i.find(resource), &projection.FieldSet{}
	named, managed := in != nil && (in.name != nil || in.sources != nil), resource.GroupResource() == ClusterProfiles
	if !named && !managed {
		return read
	}
	if named {
		more.AddName("name")
	}
	if managed {
		more.AddName(ManagerField)
	}
	return projection.Union(read, more.Seal())
}

// Cluster converts an inventory's object to the normal form that policies read at data.clusters[name]. Every document has name, namespace,
// source, labels, annotations, properties, taints, ready, and terminating. It has region, zones, provider, version, capacity, allocatable,
// and allocated if the inventory provides them. Resources are quantities, keyed by resource name. Free resources are allocatable minus
// allocated.
//
// ok is false for other resource types, for an object that does not have the name of its cluster yet, and for one that no source selects.
// The object is not changed, and the document shares values with it.
func (i *Inventories) Cluster(resource schema.GroupVersionResource, obj map[string]any) (document map[string]any, ok bool) {
	in := i.find(resource)
	if in == nil || in.sources != nil && !slices.ContainsFunc(in.sources, func(s source) bool { return s.selects(obj) }) {
		return nil, false
	}
	name := text(obj, "metadata", "name")
	if in.name != nil {
		if name = in.name.text(obj); name == "" {
			return nil, false
		}
	}
	out := map[string]any{
		"name":        name,
		"namespace":   text(obj, "metadata", "namespace"),
		"source":      resource.GroupResource().String(),
		"labels":      object(obj, "metadata", "labels"),
		"annotations": object(obj, "metadata", "annotations"),
		"properties":  map[string]any{},
		"taints":      list(obj, "spec", "taints"),
		"ready":       false,
		"terminating": text(obj, "metadata", "deletionTimestamp") != "",
	}
	in.read(obj, out)
	return out, true
}

// Clusters converts all objects of an inventory to the normal form, and leaves out those that represent no cluster. idle has messages for
// the sources of the inventory, and the namespaces of sources, that select none of the objects. It is empty without objects.
func (i *Inventories) Clusters(resource schema.GroupVersionResource, objects []map[string]any) (clusters []map[string]any, idle []string) {
	for _, obj := range objects {
		if document, ok := i.Cluster(resource, obj); ok {
			clusters = append(clusters, document)
		}
	}
	in := i.find(resource)
	if in == nil || len(objects) == 0 {
		return clusters, nil
	}
	for _, s := range in.sources {
		idle = append(idle, s.idle(resource.GroupResource(), objects)...)
	}
	return clusters, idle
}

// Declaration describes, in the manager's configuration, how the objects of a custom resource type represent clusters: which fields of an
// object are the fields of the normal form, and when the cluster is ready.
type Declaration struct {
	// Group, Version, and Resource identify the type, for example fleet.example.com, v1, and sites. All of them are required.
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Fields says where an object has the fields of the normal form.
	Fields DeclaredFields `json:"fields"`
}

// DeclaredFields has, for fields of the normal form, the paths of fields in an object. Names are joined by dots, as in
// status.resources.allocatable. A name that contains dots is in brackets, as in metadata.labels['example.com/tier']. A field without a
// default that is not declared, or that an object does not have, is missing from the normal form; properties and taints are then empty.
type DeclaredFields struct {
	// Name is the path of the cluster's name. The default is the object's name. An object without a value there represents no cluster yet.
	Name string `json:"name,omitempty"`
	// Labels is the path of an object of strings. The default is the object's labels.
	Labels string `json:"labels,omitempty"`
	// Properties is the path of an object, or of a list of name and value pairs.
	Properties string `json:"properties,omitempty"`
	// Taints is the path of a list of taints as in a Node's spec.
	Taints string `json:"taints,omitempty"`
	// Region is the path of a string. The default, also for an object without a value there, is topology.kubernetes.io/region among the labels
	// of the normal form.
	Region   string `json:"region,omitempty"`
	Provider string `json:"provider,omitempty"` // the path of the cluster's provider, a string
	Version  string `json:"version,omitempty"`  // the path of the cluster's version of Kubernetes, a string
	// Zones is the path of a list of strings, or of one string. The default, also for an object without a value there, is
	// topology.kubernetes.io/zone among the labels of the normal form.
	Zones       string `json:"zones,omitempty"`
	Capacity    string `json:"capacity,omitempty"`    // the path of the quantities, by resource, that the cluster has
	Allocatable string `json:"allocatable,omitempty"` // the path of the quantities, by resource, that pods may use
	Allocated   string `json:"allocated,omitempty"`   // the path of the quantities, by resource, that pods use
	Available   string `json:"available,omitempty"`   // the path of the unused part of Allocatable, by resource, in place of Allocated
	// Ready defines when a cluster is ready. If it is not set, all clusters are ready.
	Ready *DeclaredReady `json:"ready,omitempty"`
}

// DeclaredReady says when a cluster is ready: if a condition of the object has the status True, or if a boolean field of the object is
// true. Exactly one field is set.
type DeclaredReady struct {
	// Condition is the type of a condition in status.conditions that must be True. A cluster without it is not ready.
	Condition string `json:"condition,omitempty"`
	// Field is the path of a boolean in the object that must be true. A cluster without it is not ready.
	Field string `json:"field,omitempty"`
}

// compile returns the inventory that a declaration describes. at is the path of the declaration, for errors.
func (d Declaration) compile(at *field.Path) (inventory, field.ErrorList) {
	var errs field.ErrorList
	check := func(name, value string, valid func(string) []string) {
		if value == "" {
			errs = append(errs, field.Required(at.Child(name), ""))
			return
		}
		for _, problem := range valid(value) {
			errs = append(errs, field.Invalid(at.Child(name), value, problem))
		}
	}
	check("group", d.Group, validation.IsDNS1123Subdomain)
	check("version", d.Version, validation.IsDNS1035Label)
	check("resource", d.Resource, validation.IsDNS1035Label)
	resource := schema.GroupVersionResource{Group: d.Group, Version: d.Version, Resource: d.Resource}
	if isQuota(resource.GroupResource()) {
		errs = append(errs, field.Invalid(at.Child("resource"), d.Resource, "a type of quotas can't be an inventory"))
	}
	read, name, invalid := d.Fields.compile(at.Child("fields"))
	return inventory{resource: resource, read: read, name: name}, append(errs, invalid...)
}

// compile returns inventory.read and inventory.name of the inventory with the declared fields. at is the path of these fields, for errors.
func (f DeclaredFields) compile(at *field.Path) (read func(obj, out map[string]any), name path, errs field.ErrorList) {
	parse := func(name, text string) path {
		if text == "" {
			return nil
		}
		p, err := parsePath(text)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(name), text, err.Error()))
		}
		return p
	}
	name = parse("name", f.Name)
	labels, properties, taints := parse("labels", f.Labels), parse("properties", f.Properties), parse("taints", f.Taints)
	region, provider, version, zones := parse("region", f.Region), parse("provider", f.Provider), parse("version", f.Version),
		parse("zones", f.Zones)
	capacity, allocatable := parse("capacity", f.Capacity), parse("allocatable", f.Allocatable)
	allocated, available := parse("allocated", f.Allocated), parse("available", f.Available)
	switch {
	case f.Available == "":
	case f.Allocated != "":
		errs = append(errs, field.Invalid(at.Child("available"), f.Available,
			"can't be set together with allocated, which is allocatable minus available"))
	case f.Allocatable == "":
		errs = append(errs, field.Required(at.Child("allocatable"), "is needed with available, which is the unused part of it"))
	}
	ready, invalid := f.Ready.compile(at.Child("ready"))
	errs = append(errs, invalid...)
	return func(obj, out map[string]any) {
		if labels != nil {
			out["labels"] = labels.object(obj)
		}
		if pairs := properties.list(obj); len(pairs) > 0 {
			out["properties"] = named(pairs)
		} else {
			out["properties"] = properties.object(obj)
		}
		out["taints"] = taints.list(obj)
		out["ready"] = ready(obj)
		set(out, "region", region.text(obj))
		set(out, "provider", provider.text(obj))
		set(out, "version", version.text(obj))
		if all := zones.list(obj); len(all) > 0 {
			out["zones"] = all
		} else if one := zones.text(obj); one != "" {
			out["zones"] = []any{one}
		}
		setObject(out, "capacity", capacity.object(obj))
		setObject(out, "allocatable", allocatable.object(obj))
		setObject(out, "allocated", allocated.object(obj))
		if available != nil {
			setObject(out, "allocated", difference(allocatable.object(obj), available.object(obj)))
		}
		regionFromLabels(out)
	}, name, errs
}

// compile returns the function that reports whether the cluster of an object is ready; for nil, every cluster is. at is the path of the
// field ready in the configuration, for errors.
func (r *DeclaredReady) compile(at *field.Path) (func(obj map[string]any) bool, field.ErrorList) {
	switch {
	case r == nil:
		return func(map[string]any) bool { return true }, nil
	case (r.Condition == "") == (r.Field == ""):
		return nil, field.ErrorList{field.Invalid(at, *r, "must have either condition or field")}
	case r.Condition != "":
		return func(obj map[string]any) bool { return condition(obj, r.Condition) }, nil
	}
	p, err := parsePath(r.Field)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at.Child("field"), r.Field, err.Error())}
	}
	return func(obj map[string]any) bool { return p.value(obj) == true }, nil
}
