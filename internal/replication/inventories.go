package replication

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/projection"
)

// Inventories are the resource types whose objects stand for clusters: those that Berth knows, and declared ones. It is
// immutable and safe for concurrent use. Create it with NewInventories.
type Inventories struct {
	all []inventory
}

// inventory is a resource type whose objects stand for clusters.
type inventory struct {
	resource schema.GroupVersionResource
	// read sets the fields of the normal form that are not the same for all inventories.
	read func(obj, out map[string]any)
	// name is the path of the cluster's name; nil for that of the object.
	name path
}

// NewInventories returns the inventories that Berth knows and, after those, the declared ones in their order. Errors are
// those of the declarations; at is where they are written.
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

// Known returns the inventories that Berth knows.
func Known() *Inventories { return &Inventories{all: known} }

func (i *Inventories) find(resource schema.GroupVersionResource) *inventory {
	for at := range i.all {
		if i.all[at].resource == resource {
			return &i.all[at]
		}
	}
	return nil
}

// Resources are the inventories' types in order of precedence: of two objects that stand for a cluster of the same name,
// the one of the earlier type is used. A type may be there in several versions.
func (i *Inventories) Resources() []schema.GroupVersionResource {
	out := make([]schema.GroupVersionResource, len(i.all))
	for at, in := range i.all {
		out[at] = in.resource
	}
	return out
}

// Needs are the fields of the normal form that have to be kept of an inventory's objects where the given ones are read,
// sealed: where clusters have names other than those of the objects, the name is found nowhere else.
func (i *Inventories) Needs(resource schema.GroupVersionResource, read *projection.Fields) *projection.Fields {
	if in := i.find(resource); in == nil || in.name == nil {
		return read
	}
	name := &projection.Fields{}
	name.Name("name")
	return projection.Union(read, name.Seal())
}

// Cluster brings an inventory's object into the normal form at data.clusters[name]. Every document has name,
// namespace, source, labels, annotations, properties, taints and ready; region, zones, provider, version, capacity,
// allocatable and allocated are there where the inventory knows them. Resources are quantities by name as the inventory
// has them, and what is left of them is allocatable less allocated.
//
// ok is false for other resources, and for an object that does not have the name of its cluster yet. The object is not
// written to, and the document shares values with it.
func (i *Inventories) Cluster(resource schema.GroupVersionResource, obj map[string]any) (document map[string]any, ok bool) {
	in := i.find(resource)
	if in == nil {
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
	}
	in.read(obj, out)
	return out, true
}

// Declaration says how the objects of a resource type that Berth does not know stand for clusters.
type Declaration struct {
	// Group, Version and Resource name the type as in fleet.example.com, v1, sites.
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	// Fields are where in an object the fields of the normal form are.
	Fields DeclaredFields `json:"fields"`
}

// DeclaredFields are paths of fields in an object: names joined by dots, as in status.resources.allocatable; a name with
// dots of its own is a subscript, as in metadata.labels['example.com/tier']. What is declared nowhere, and what an
// object does not have, is unknown.
type DeclaredFields struct {
	// Name is the cluster's; that of the object where it is not declared.
	Name string `json:"name,omitempty"`
	// Labels are an object of texts; those of the object where they are not declared.
	Labels string `json:"labels,omitempty"`
	// Properties are an object, or a list of name and value pairs.
	Properties string `json:"properties,omitempty"`
	// Taints are a list as in a Node's spec.
	Taints string `json:"taints,omitempty"`
	// Region, Provider and Version are texts. A region is otherwise that of the well-known label.
	Region   string `json:"region,omitempty"`
	Provider string `json:"provider,omitempty"`
	Version  string `json:"version,omitempty"`
	// Zones are a list of texts, or one text; otherwise that of the well-known label.
	Zones string `json:"zones,omitempty"`
	// Capacity, Allocatable and Allocated are objects of quantities. Available is what is left of Allocatable, for an
	// inventory that does not have Allocated.
	Capacity    string `json:"capacity,omitempty"`
	Allocatable string `json:"allocatable,omitempty"`
	Allocated   string `json:"allocated,omitempty"`
	Available   string `json:"available,omitempty"`
	// Ready says when a cluster is ready; without it, all are.
	Ready *DeclaredReady `json:"ready,omitempty"`
}

// DeclaredReady is either of two ways to say that a cluster is ready.
type DeclaredReady struct {
	// Condition is the type of a condition in status.conditions that has to be True.
	Condition string `json:"condition,omitempty"`
	// Field is the path of a boolean that has to be true.
	Field string `json:"field,omitempty"`
}

// compile returns the inventory that is declared.
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
		errs = append(errs, field.Invalid(at.Child("resource"), d.Resource, "quotas are no clusters"))
	}
	read, name, invalid := d.Fields.compile(at.Child("fields"))
	return inventory{resource: resource, read: read, name: name}, append(errs, invalid...)
}

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
	region, provider, version, zones := parse("region", f.Region), parse("provider", f.Provider), parse("version", f.Version), parse("zones", f.Zones)
	capacity, allocatable := parse("capacity", f.Capacity), parse("allocatable", f.Allocatable)
	allocated, available := parse("allocated", f.Allocated), parse("available", f.Available)
	switch {
	case f.Available == "":
	case f.Allocated != "":
		errs = append(errs, field.Invalid(at.Child("available"), f.Available, "goes without allocated, of which it is the contrary"))
	case f.Allocatable == "":
		errs = append(errs, field.Required(at.Child("allocatable"), "available is a part of it"))
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
