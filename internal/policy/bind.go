package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// Resource is a resource type that the API server serves and that can be listed and watched.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

// Served tells what the API server serves.
type Served interface {
	// ByPlural returns the watchable resources of that plural name, one per group, in the group's preferred version.
	ByPlural(plural string) []Resource
	// Exact returns the watchable resource of that group, version and plural name.
	Exact(schema.GroupVersionResource) (Resource, bool)
	// Inventories are the types whose objects stand for clusters, served or not.
	Inventories() *replication.Inventories
}

// Binding says where in `data` a policy sees which resource type.
type Binding struct {
	// Paths are below `data`, sorted; a resource may be at several.
	Paths []BoundPath
	// Clusters are the inventories that data.clusters is made of, those that are served, in order of precedence; empty if
	// the policy does not read it. They are among Resources.
	Clusters []schema.GroupVersionResource
	// Resources are all resource types to replicate for the policy, sorted, without duplicates.
	Resources []Resource
	// Fields are what the policy reads of the prepared objects of each of the Resources (replication.Prepare), sealed.
	Fields map[schema.GroupVersionResource]*projection.Fields
	// World is what predicates look at of nodes and pods (predicates.Reads), if the policy asks them; nil if not. It is
	// kept apart from Fields: policies do not see it under data. Bind leaves it to its caller, who has predicates.
	World map[schema.GroupVersionResource]*projection.Fields
	// Remote is who decides the policy elsewhere; nil if nobody does.
	Remote *Remote
	// Supplies are the resource types whose objects the engine is to have that decides the policy elsewhere, sorted. They
	// are not among Resources: no replica keeps them for its own evaluations.
	Supplies []Resource
	// MaxStaleness is for how long the data may be unconfirmed; 0 for any time. Bind leaves it to its caller, who has the spec.
	MaxStaleness time.Duration
	// Missing are reads that the API server does not serve.
	Missing []Read
	// Bindings are the groups that references by plural name alone are bound to, those that were recorded before
	// included; nil if there are none.
	Bindings Bindings
}

// Namespaced reports whether a read is bound to a namespaced type.
func (b *Binding) Namespaced(read Read) bool {
	path := []string{rootKubernetes, read.Plural}
	switch {
	case read.Quotas != "":
		path = []string{rootBerth, read.Quotas}
	case read.GroupVersion != "":
		path = []string{rootResources, read.GroupVersion, read.Plural}
	}
	return slices.ContainsFunc(b.Paths, func(p BoundPath) bool {
		return slices.Equal(p.Path, path) && slices.ContainsFunc(b.Resources, func(r Resource) bool { return r.GroupVersionResource == p.Resource && r.Namespaced })
	})
}

// Bindings are the API groups of the types that a text refers to by their plural names alone, by plural name; "" is the
// core group.
type Bindings map[string]string

// BoundPath is one place in `data` and what is there.
type BoundPath struct {
	Path     []string
	Resource schema.GroupVersionResource
	// Quota says that there is what quotas limit and what is used of them, in place of the objects themselves.
	Quota bool
}

// Bind resolves a module's reads, and what spec.replicate lists, to what is served. The error is a *CompileError and
// means that a bare plural name stands for several groups.
func Bind(name string, m *Module, listed []placementv1.ReplicatedResource, served Served) (*Binding, error) {
	return BindRecorded(name, m, listed, served, nil)
}

// BindRecorded is Bind of a text that was bound before. A bare plural name keeps to the group that was recorded for it,
// whatever other groups serve that name by now; it is missing while that group does not serve it.
func BindRecorded(name string, m *Module, listed []placementv1.ReplicatedResource, served Served, recorded Bindings) (*Binding, error) {
	b := &Binding{Fields: map[schema.GroupVersionResource]*projection.Fields{}}
	if m.Remote != nil {
		b.Remote = m.Remote
		b.bindSupplies(m.Remote.Spec.Replicate, served)
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
	slices.SortFunc(b.Resources, func(x, y Resource) int { return strings.Compare(x.String(), y.String()) })
	b.Resources = slices.Compact(b.Resources)
	return b, nil
}

func (b *Binding) bindRead(name string, m *Module, read Read, served Served, recorded Bindings) error {
	switch {
	case read.Clusters:
		if b.bindClusters(m.ObjectFields(read, false), served); len(b.Clusters) == 0 {
			b.Missing = append(b.Missing, read)
		}
	case read.Quotas != "":
		r, ok := served.Exact(quotaResources[read.Quotas])
		if !ok {
			b.Missing = append(b.Missing, read)
			return nil
		}
		b.add(r, replication.NormalFields(m.ObjectFields(read, r.Namespaced)), rootBerth, read.Quotas)
		b.Paths[len(b.Paths)-1].Quota = true
	case read.GroupVersion != "":
		// The analysis has parsed it before.
		gv, _ := schema.ParseGroupVersion(read.GroupVersion)
		r, ok := served.Exact(gv.WithResource(read.Plural))
		if !ok {
			b.Missing = append(b.Missing, read)
			return nil
		}
		b.add(r, m.ObjectFields(read, r.Namespaced), rootResources, read.GroupVersion, read.Plural)
	default:
		candidates := served.ByPlural(read.Plural)
		if group, known := recorded[read.Plural]; known {
			b.bindTo(read.Plural, group)
			others := candidates
			candidates = slices.DeleteFunc(slices.Clone(candidates), func(r Resource) bool { return r.Group != group })
			if len(candidates) == 0 {
				read.Note = moved(schema.GroupResource{Group: group, Resource: read.Plural}, others)
			}
		}
		switch len(candidates) {
		case 0:
			b.Missing = append(b.Missing, read)
		case 1:
			b.bindTo(read.Plural, candidates[0].Group)
			b.add(candidates[0], m.ObjectFields(read, candidates[0].Namespaced), rootKubernetes, read.Plural)
		default:
			return ambiguous(name, read, candidates)
		}
	}
	return nil
}

// moved tells of a type that is not served any more, and of those that have its plural name in other groups.
func moved(bound schema.GroupResource, others []Resource) string {
	note := "which was bound to " + bound.String()
	if len(others) > 0 {
		note += fmt.Sprintf(" (if the type has moved to another group, write %s)", exactForms(others))
	}
	return note
}

// BindingsShown returns what the text is bound to by a policy's status, for texts that a version of Berth bound which
// recorded no bindings. It has no plural names of which the status does not tell the group.
func (m *Module) BindingsShown(dependencies []placementv1.Dependency) Bindings {
	groups := map[string][]string{}
	for _, d := range dependencies {
		// What is not served has no version, and is named as the text names it.
		if d.Version != "" {
			r := schema.ParseGroupResource(d.Resource)
			groups[r.Resource] = append(groups[r.Resource], r.Group)
		}
	}
	var out Bindings
	for _, read := range m.Reads {
		if !read.byPluralAlone() {
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

// readsExactly reports whether the text refers to a type by its group and version.
func (m *Module) readsExactly(group, plural string) bool {
	return slices.ContainsFunc(m.Reads, func(r Read) bool {
		gv, err := schema.ParseGroupVersion(r.GroupVersion)
		return r.GroupVersion != "" && err == nil && gv.Group == group && r.Plural == plural
	})
}

// NotServedError says that a version of a policy reads types that the API server does not serve.
type NotServedError struct {
	Missing []Read
}

// Error names the types.
func (e *NotServedError) Error() string {
	names := make([]string, len(e.Missing))
	for i, read := range e.Missing {
		names[i] = read.Explained()
	}
	return "the API server does not serve " + strings.Join(names, ", ")
}

// NotServed returns the mistakes of an update that reads types which the API server does not serve. meant returns a
// question after what is probably meant by a plural name, to be appended.
func NotServed(name string, missing []Read, meant func(plural string) string) *CompileError {
	out := &CompileError{}
	for _, read := range missing {
		text := "the API server does not serve " + read.Explained()
		if read.Plural != "" {
			text += meant(read.Plural)
		}
		err := oneError(name+".rego", nil, codeNotServed, text+": the policy could not decide any more. Install the type first, or correct its name")
		err.Diagnostics[0].Row, err.Diagnostics[0].Col = read.Row, read.Col
		if read.Row == 0 {
			err.Diagnostics[0].Field = "spec.replicate"
		}
		out.Diagnostics = append(out.Diagnostics, err.Diagnostics...)
	}
	return out
}

// bindTo notes the group that a plural name is bound to.
func (b *Binding) bindTo(plural, group string) {
	if b.Bindings == nil {
		b.Bindings = Bindings{}
	}
	b.Bindings[plural] = group
}

// ByPluralAlone reports whether the text refers to a type by its plural name alone, which may come to stand for several.
func (m *Module) ByPluralAlone() bool {
	return slices.ContainsFunc(m.Reads, Read.byPluralAlone)
}

func (r Read) byPluralAlone() bool {
	return !r.Clusters && r.Quotas == "" && r.GroupVersion == ""
}

// Namesakes tells of references by plural name alone that are bound to one of several groups, each as a sentence.
func (b *Binding) Namesakes(served Served) []string {
	var out []string
	for _, plural := range slices.Sorted(maps.Keys(b.Bindings)) {
		if candidates := served.ByPlural(plural); len(candidates) > 1 {
			out = append(out, fmt.Sprintf("%s is served by several API groups, and stays bound to %s for as long as the text stays as it is; a new text has to write %s",
				Read{Plural: plural}, schema.GroupResource{Group: b.Bindings[plural], Resource: plural}, exactForms(candidates)))
		}
	}
	return out
}

// bindClusters notes the inventories that are served, and what is read of clusters.
func (b *Binding) bindClusters(read *projection.Fields, served Served) {
	inventories := served.Inventories()
	bound := map[schema.GroupResource]bool{}
	b.Clusters = nil
	for _, inventory := range inventories.Resources() {
		// Of the versions that are served the first is enough: they show the same objects.
		r, ok := served.Exact(inventory)
		if !ok || bound[r.GroupResource()] {
			continue
		}
		bound[r.GroupResource()] = true
		b.Clusters = append(b.Clusters, inventory)
		b.needs(r, replication.NormalFields(inventories.Needs(inventory, read)))
	}
}

// bindSupplies notes the types that an engine elsewhere is to have.
func (b *Binding) bindSupplies(listed []placementv1.ReplicatedResource, served Served) {
	for _, l := range listed {
		if r, ok := b.served(l, served); ok {
			b.Supplies = append(b.Supplies, r)
		}
	}
	slices.SortFunc(b.Supplies, func(x, y Resource) int { return strings.Compare(x.String(), y.String()) })
	b.Supplies = slices.Compact(b.Supplies)
}

// served returns a type that a policy lists, and notes that it is missing if it is not served.
func (b *Binding) served(l placementv1.ReplicatedResource, served Served) (Resource, bool) {
	candidates := served.ByPlural(l.Resource)
	i := slices.IndexFunc(candidates, func(r Resource) bool { return r.Group == l.APIGroup })
	if i < 0 {
		b.Missing = append(b.Missing, Read{Plural: l.Resource, GroupVersion: l.APIGroup})
		return Resource{}, false
	}
	return candidates[i], true
}

// bindListed binds a type of spec.replicate at both of its places.
func (b *Binding) bindListed(m *Module, l placementv1.ReplicatedResource, served Served) {
	r, ok := b.served(l, served)
	if !ok {
		return
	}
	gv := r.GroupVersion().String()
	b.add(r, m.ObjectFields(Read{Plural: r.Resource}, r.Namespaced), rootKubernetes, r.Resource)
	b.add(r, m.ObjectFields(Read{Plural: r.Resource, GroupVersion: gv}, r.Namespaced), rootResources, gv, r.Resource)
}

// needs notes that the policy reads some fields of a resource type.
func (b *Binding) needs(r Resource, fields *projection.Fields) {
	b.Resources = append(b.Resources, r)
	if standing, ok := b.Fields[r.GroupVersionResource]; ok {
		fields = projection.Union(standing, fields)
	}
	b.Fields[r.GroupVersionResource] = fields
}

func (b *Binding) add(r Resource, fields *projection.Fields, path ...string) {
	b.needs(r, fields)
	if !slices.ContainsFunc(b.Paths, func(p BoundPath) bool { return slices.Equal(p.Path, path) }) {
		b.Paths = append(b.Paths, BoundPath{Path: path, Resource: r.GroupVersionResource})
	}
}

func ambiguous(name string, read Read, candidates []Resource) *CompileError {
	err := oneError(name+".rego", nil, codeAmbiguous, fmt.Sprintf("%s is served by several API groups: write %s", read, exactForms(candidates)))
	err.Diagnostics[0].Row, err.Diagnostics[0].Col = read.Row, read.Col
	return err
}

// IsAmbiguous reports whether an error means that a bare plural name stands for several groups.
func IsAmbiguous(err error) bool {
	list, ok := errors.AsType[*CompileError](err)
	return ok && slices.ContainsFunc(list.Diagnostics, func(d Diagnostic) bool { return d.Code == codeAmbiguous })
}

// exactForms are the references that stand for each of several types of one plural name.
func exactForms(candidates []Resource) string {
	forms := make([]string, len(candidates))
	for i, c := range candidates {
		forms[i] = Read{Plural: c.Resource, GroupVersion: c.GroupVersion().String()}.String()
	}
	slices.Sort(forms)
	return strings.Join(forms, " or ")
}
