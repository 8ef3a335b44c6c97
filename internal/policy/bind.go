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

package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// Resource is a resource type that the API server serves and that supports list and watch: its group, version, and plural name, and whether
// it is namespaced. It does not have the kind.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// ServedTypes has the resource types that the API server serves and that support list and watch. It finds them by their plural name alone,
// one for each group, or by group, version, and plural name. It also has the types whose objects represent clusters, served or not.
type ServedTypes interface {
	// ByPlural returns the watchable resources with that plural name, one per group, in the group's preferred version.
	ByPlural(plural string) []Resource
	// Exact returns the watchable resource with that group, version, and plural name.
	Exact(schema.GroupVersionResource) (Resource, bool)
	// Inventories returns the resource types whose objects represent clusters, whether or not they are served.
	Inventories() *replication.Inventories
}

// Binding has the served resource types that a policy reads, and where in `data` it finds their objects.
type Binding struct {
	// Paths are the paths below `data`, sorted. A resource may have several paths.
	Paths []BoundPath
	// Clusters are the served inventories that data.clusters is built from. Their order has no meaning. It is empty if the policy does not
	// read data.clusters. The inventories are also in Resources.
	Clusters []schema.GroupVersionResource
	// Resources are all resource types that Berth replicates for the policy's data, sorted, without duplicates. What only predicates read
	// is not among them.
	Resources []Resource
	// Fields are the fields that the policy reads of the prepared objects (replication.Prepare) of each resource in
	// Resources. The field sets are sealed.
	Fields map[schema.GroupVersionResource]*projection.FieldSet
	// PredicateReads holds the fields of nodes and pods that predicates read (predicates.Reads) if the policy calls predicates or has its
	// decisions checked by them. It is nil otherwise. PredicateReads is separate from Fields because policies do not see these objects in
	// data. Bind does not set it: the caller, which knows the predicates, does.
	PredicateReads map[schema.GroupVersionResource]*projection.FieldSet
	// Remote is the remote engine that decides the policy; nil if the policy has no spec.remote.
	Remote *Remote
	// PushedTypes are the resource types whose objects are pushed to the remote engine, sorted. They are not in Resources,
	// because no replica keeps them for its own evaluations.
	PushedTypes []Resource
	// MaxStaleness is for how long the API server may not have confirmed the data before the policy can't decide; 0 means no limit. Bind
	// does not set it: the caller, which has the spec, does.
	MaxStaleness time.Duration
	// Missing are the types that the Rego reads, or that the policy lists for replication, and that the API server does not serve. While
	// there are any, this version of the policy can't decide.
	Missing []analysis.Read
	// Bindings are the API groups that references by plural name alone are bound to, including those recorded earlier.
	// It is nil if there are none.
	Bindings Bindings
}

// Covers reports whether b has all fields that other has, of each resource type, also of what predicates read, and the same remote engine
// with the same pushed types. The paths do not matter.
func (b *Binding) Covers(other *Binding) bool {
	return coverFields(b.Fields, other.Fields) && coverFields(b.PredicateReads, other.PredicateReads) &&
		reflect.DeepEqual(b.Remote, other.Remote) && slices.Equal(b.PushedTypes, other.PushedTypes)
}

// coverFields reports whether all has every field that other has of each type.
func coverFields(all, other map[schema.GroupVersionResource]*projection.FieldSet) bool {
	for resource, fields := range other {
		if kept, ok := all[resource]; !ok || !kept.Covers(fields) {
			return false
		}
	}
	return true
}

// Namespaced reports whether the type that a read is bound to is namespaced. It is false for a read that is not bound.
func (b *Binding) Namespaced(read analysis.Read) bool {
	return slices.ContainsFunc(b.Paths, func(p BoundPath) bool {
		return slices.Equal(p.Path, read.Path()) && slices.ContainsFunc(b.Resources,
			func(r Resource) bool { return r.GroupVersionResource == p.Resource && r.Namespaced })
	})
}

// Bindings are the API groups of the types that a policy refers to by plural name alone, so that the names keep them when other groups come
// to serve a type of the name. The keys are the plural names. "" is the core group.
type Bindings map[string]string

// BoundPath is one path in `data` and the resource type whose objects, or, for quotas, whose limits and usage, are found there.
type BoundPath struct {
	Path     []string // the names below `data`
	Resource schema.GroupVersionResource
	// Quota reports whether the path holds the limits and the usage of quotas instead of the quota objects themselves.
	Quota bool
}

// Bind resolves the reads of a module and the types listed in spec.replicate to served resource types. name is the policy's name. Types
// that are not served are in Missing, and no error. An error is a *CompileError. It means that a plural name without a group matches types
// of several groups.
func Bind(name string, m *Module, listed []placementv1.ReplicatedResource, served ServedTypes) (*Binding, error) {
	return BindWithRecorded(name, m, listed, served, nil)
}

// Catalog is ServedTypes that can be read from the API server again.
type Catalog interface {
	ServedTypes
	// Refresh reads the types that the API server serves now.
	Refresh(ctx context.Context) error
}

// BindToCurrent resolves the reads of a module and the types listed in spec.replicate to types that the API server serves now, where plural
// names keep the groups in recorded. If types are missing, it refreshes the catalog and resolves them again, because a type may have been
// installed just before the policy. An error is a *CompileError for a plural name that several groups serve, or that of the refresh.
func BindToCurrent(ctx context.Context, name string, m *Module, listed []placementv1.ReplicatedResource, catalog Catalog,
	recorded Bindings) (*Binding, error) {
	b, err := BindWithRecorded(name, m, listed, catalog, recorded)
	if err != nil || len(b.Missing) == 0 {
		return b, err
	}
	if err := catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	return BindWithRecorded(name, m, listed, catalog, recorded)
}

// BindWithRecorded resolves the reads of a module and the types listed in spec.replicate to served resource types, for a policy that was
// bound earlier. A plural name without a group keeps the group that was recorded for it, whatever other groups serve that name now. The
// read is missing while the recorded group does not serve it. recorded is nil if there is none. An error is a *CompileError for a plural
// name that is not in recorded and that several groups serve.
func BindWithRecorded(name string, m *Module, listed []placementv1.ReplicatedResource, served ServedTypes,
	recorded Bindings) (*Binding, error) {
	b := &Binding{Fields: map[schema.GroupVersionResource]*projection.FieldSet{}}
	if m.Remote != nil {
		b.Remote = m.Remote
		b.bindPushed(m.Remote.Spec.Replicate, served)
		return b, nil
	}
	for _, read := range m.Reads {
		if err := b.bindRead(name, m, read, served, recorded); err != nil {
			return nil, err
		}
	}
	for _, l := range listed {
		b.bindListed(m, l, served)
	}
	slices.SortFunc(b.Paths, func(x, y BoundPath) int { return slices.Compare(x.Path, y.Path) })
	b.Resources = sorted(b.Resources)
	return b, nil
}

// bindRead binds a read of the Rego to a path. If the API server does not serve its type, the read is added to Missing. recorded has the
// groups that plural names were bound to earlier. It is an error if the read is by a plural name alone that is not in recorded and that
// several groups serve.
func (b *Binding) bindRead(name string, m *Module, read analysis.Read, served ServedTypes, recorded Bindings) error {
	switch {
	case read.Clusters:
		if b.bindClusters(m.ObjectFields(read, false), served); len(b.Clusters) == 0 {
			read.Note = "the clusters of " + namesOf(served.Inventories())
			b.Missing = append(b.Missing, read)
		}
	case read.Quotas != "":
		resource, _ := language.QuotaResource(read.Quotas)
		if r, ok := served.Exact(resource); ok {
			b.add(r, replication.NormalFields(m.ObjectFields(read, r.Namespaced)), read.Path()...)
			b.Paths[len(b.Paths)-1].Quota = true
		} else {
			b.Missing = append(b.Missing, read)
		}
	case read.GroupVersion != "":
		// The analysis has already parsed the value, so that it is valid.
		gv, _ := schema.ParseGroupVersion(read.GroupVersion)
		if r, ok := served.Exact(gv.WithResource(read.Plural)); ok {
			b.add(r, m.ObjectFields(read, r.Namespaced), read.Path()...)
		} else {
			b.Missing = append(b.Missing, read)
		}
	default:
		candidates := served.ByPlural(read.Plural)
		if group, known := recorded[read.Plural]; known {
			b.bindTo(read.Plural, group)
			others := candidates
			candidates = slices.DeleteFunc(slices.Clone(candidates), func(r Resource) bool { return r.Group != group })
			if len(candidates) == 0 {
				read.Note = movedMessage(schema.GroupResource{Group: group, Resource: read.Plural}, others)
			}
		}
		switch len(candidates) {
		case 0:
			b.Missing = append(b.Missing, read)
		case 1:
			b.bindTo(read.Plural, candidates[0].Group)
			b.add(candidates[0], m.ObjectFields(read, candidates[0].Namespaced), read.Path()...)
		default:
			return ambiguous(name, read, candidates)
		}
	}
	return nil
}

// namesOf returns the types of all inventories, served or not, as resource.group, joined by commas.
func namesOf(inventories *replication.Inventories) string {
	var names []string
	for _, r := range inventories.Resources() {
		if name := r.GroupResource().String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// movedMessage returns the Note of a read by a plural name alone whose type is no longer served. The note names the type that the read was
// bound to, and how to read the types with the same plural name in other groups.
func movedMessage(bound schema.GroupResource, others []Resource) string {
	note := "which was bound to the type " + bound.String()
	if len(others) > 0 {
		note += fmt.Sprintf(" (if the type has moved to another group, write %s)", exactForms(others))
	}
	return note
}

// BindingsFromStatus derives the bindings of the version in force, which m is, from status.dependencies of the policy, for clients that may
// not read its stored revision. Of the groups that the status has for a plural name, those that m also reads by group and version do not
// count if there are several. BindingsFromStatus omits a plural name unless exactly one group is left. It returns nil if there are no
// bindings.
func (m *Module) BindingsFromStatus(dependencies []placementv1.Dependency) Bindings {
	groups := map[string][]string{}
	for _, d := range dependencies {
		// A type that is not served has no version in the status, and has the name that the policy gives it.
		if d.Version != "" {
			r := schema.ParseGroupResource(d.Resource)
			if !slices.Contains(groups[r.Resource], r.Group) {
				groups[r.Resource] = append(groups[r.Resource], r.Group)
			}
		}
	}
	var out Bindings
	for _, read := range m.Reads {
		if !read.ByPluralAlone() {
			continue
		}
		shown := groups[read.Plural]
		if len(shown) > 1 {
			shown = slices.DeleteFunc(slices.Clone(shown), func(group string) bool { return m.readsExactly(group, read.Plural) })
		}
		if len(shown) != 1 {
			continue
		}
		if out == nil {
			out = Bindings{}
		}
		out[read.Plural] = shown[0]
	}
	return out
}

// readsExactly reports whether the policy refers to a type with a group and a plural name by its group and version, too.
func (m *Module) readsExactly(group, plural string) bool {
	return slices.ContainsFunc(m.Reads, func(r analysis.Read) bool {
		gv, err := schema.ParseGroupVersion(r.GroupVersion)
		return r.GroupVersion != "" && err == nil && gv.Group == group && r.Plural == plural
	})
}

// NotServedError means that a version of a policy reads types that the API server does not serve. It has these types, and does not name the
// policy.
type NotServedError struct {
	Missing []analysis.Read // the types that the Rego reads, or that the policy lists for replication, and that are not served
}

// Error returns a message that names the types.
func (e *NotServedError) Error() string {
	names := make([]string, len(e.Missing))
	for i, read := range e.Missing {
		names[i] = read.Explained()
	}
	return "the API server does not serve " + strings.Join(names, ", ")
}

// NewNotServedCompileError returns the errors of an update that reads types which the API server does not serve, one for each of missing.
// name is the policy's name. The function meant returns a question that suggests a similar plural name, or ""; it is appended to the
// message.
func NewNotServedCompileError(name string, missing []analysis.Read, meant func(plural string) string) *CompileError {
	out := &CompileError{}
	for _, read := range missing {
		text := "the API server does not serve " + read.Explained()
		if read.Plural != "" {
			text += meant(read.Plural)
		}
		d := diagnostic(name+".rego", nil, codeNotServed, text+": this version of the policy could decide nothing. Install the type "+
			"first, or correct its name")
		d.Row, d.Col = read.Row, read.Col
		if read.Row == 0 {
			d.Field = "spec.replicate"
		}
		out.Diagnostics = append(out.Diagnostics, d)
	}
	return out
}

// bindTo records in Bindings the API group that a plural name is bound to, if a reference uses the name alone.
func (b *Binding) bindTo(plural, group string) {
	if b.Bindings == nil {
		b.Bindings = Bindings{}
	}
	b.Bindings[plural] = group
}

// ReadsByPluralOnly reports whether the Rego refers to at least one type by its plural name alone. Several groups may come to serve such a
// name.
func (m *Module) ReadsByPluralOnly() bool {
	return slices.ContainsFunc(m.Reads, analysis.Read.ByPluralAlone)
}

// AmbiguousNames returns a sentence for each plural name that a reference uses alone and that several groups serve now: which one it stays
// bound to, and what to write. They are sorted by name.
func (b *Binding) AmbiguousNames(served ServedTypes) []string {
	var out []string
	for _, plural := range slices.Sorted(maps.Keys(b.Bindings)) {
		if candidates := served.ByPlural(plural); len(candidates) > 1 {
			out = append(out, fmt.Sprintf("%s is served by several API groups: it stays bound to %s until the Rego changes; changed Rego "+
				"must write %s",
				analysis.Read{Plural: plural}, schema.GroupResource{Group: b.Bindings[plural], Resource: plural}, exactForms(candidates)))
		}
	}
	return out
}

// bindClusters sets Clusters to the served inventories, and records the fields of their objects from which those are made that the policy
// reads of clusters.
func (b *Binding) bindClusters(read *projection.FieldSet, served ServedTypes) {
	inventories := served.Inventories()
	b.Clusters = inventories.Served(func(r schema.GroupVersionResource) bool {
		_, ok := served.Exact(r)
		return ok
	})
	for _, inventory := range b.Clusters {
		r, _ := served.Exact(inventory)
		b.needs(r, replication.NormalFields(inventories.Needs(inventory, read)))
	}
}

// bindPushed sets PushedTypes to the types of spec.remote.replicate. Those that the API server does not serve are added to Missing instead.
func (b *Binding) bindPushed(listed []placementv1.ReplicatedResource, served ServedTypes) {
	for _, l := range listed {
		if r, ok := b.findOrAddMissing(l, served); ok {
			b.PushedTypes = append(b.PushedTypes, r)
		}
	}
	b.PushedTypes = sorted(b.PushedTypes)
}

// sorted sorts resources in place by group, version, and plural name, and returns them without duplicates.
func sorted(resources []Resource) []Resource {
	slices.SortFunc(resources, func(x, y Resource) int { return strings.Compare(x.String(), y.String()) })
	return slices.Compact(resources)
}

// findOrAddMissing returns the resource for a type that a policy lists for replication, in the version that the API server prefers. If the
// API server does not serve the type, findOrAddMissing adds it to Missing, and returns false.
func (b *Binding) findOrAddMissing(l placementv1.ReplicatedResource, served ServedTypes) (Resource, bool) {
	candidates := served.ByPlural(l.Resource)
	i := slices.IndexFunc(candidates, func(r Resource) bool { return r.Group == l.APIGroup })
	if i < 0 {
		b.Missing = append(b.Missing, analysis.Read{Plural: l.Resource, Listed: true, Group: l.APIGroup})
		return Resource{}, false
	}
	return candidates[i], true
}

// bindListed binds a type of spec.replicate to its two paths: by its plural name alone, and by its group and version. For each path, it
// adds the fields of the objects that the Rego reads there. If the API server does not serve the type, bindListed adds the type to Missing,
// and does nothing else.
func (b *Binding) bindListed(m *Module, l placementv1.ReplicatedResource, served ServedTypes) {
	r, ok := b.findOrAddMissing(l, served)
	if !ok {
		return
	}
	for _, read := range []analysis.Read{{Plural: r.Resource}, {Plural: r.Resource, GroupVersion: r.GroupVersion().String()}} {
		b.add(r, m.ObjectFields(read, r.Namespaced), read.Path()...)
	}
}

// needs adds a resource type to Resources, and the fields that the policy reads of it to Fields.
func (b *Binding) needs(r Resource, fields *projection.FieldSet) {
	b.Resources = append(b.Resources, r)
	if known, ok := b.Fields[r.GroupVersionResource]; ok {
		fields = projection.Union(known, fields)
	}
	b.Fields[r.GroupVersionResource] = fields
}

// add records that the policy reads some fields of a resource type at a path below `data`. A path that has a resource already keeps it.
func (b *Binding) add(r Resource, fields *projection.FieldSet, path ...string) {
	b.needs(r, fields)
	if !slices.ContainsFunc(b.Paths, func(p BoundPath) bool { return slices.Equal(p.Path, path) }) {
		b.Paths = append(b.Paths, BoundPath{Path: path, Resource: r.GroupVersionResource})
	}
}

// ambiguous returns the error for a read by a plural name alone that several groups serve.
func ambiguous(name string, read analysis.Read, candidates []Resource) *CompileError {
	err := oneError(name+".rego", nil, codeAmbiguous, fmt.Sprintf("%s is served by several API groups: write %s", read,
		exactForms(candidates)))
	err.Diagnostics[0].Row, err.Diagnostics[0].Col = read.Row, read.Col
	return err
}

// IsAmbiguous reports whether an error means that a plural name without a group matches types of several groups.
func IsAmbiguous(err error) bool {
	list, ok := errors.AsType[*CompileError](err)
	return ok && slices.ContainsFunc(list.Diagnostics, func(d Diagnostic) bool { return d.Code == codeAmbiguous })
}

// exactForms returns the references by which Rego reads the candidates, types with one plural name, each by its group and version, sorted,
// and joined by "or".
func exactForms(candidates []Resource) string {
	forms := make([]string, len(candidates))
	for i, c := range candidates {
		forms[i] = analysis.Read{Plural: c.Resource, GroupVersion: c.GroupVersion().String()}.String()
	}
	slices.Sort(forms)
	return strings.Join(forms, " or ")
}
