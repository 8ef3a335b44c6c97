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

package clusterlist

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/projection"
)

// Declaration declares where a custom kind has its list of cluster names.
type Declaration struct {
	schema.GroupResource
	// Kind is the kind of the resource.
	Kind string
	// Path is the path of the list, as in ["spec", "clusters"]. It begins with "spec", and has at least two names and no indexes.
	Path []string
}

// UnknownKindError means that it is unknown which field of a kind's objects has the list of clusters.
type UnknownKindError struct {
	schema.GroupKind
}

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("it is not known which field of objects of the kind %s lists clusters: declare its path in the manager's "+
		"configuration, under placements, and pass that file with --config", e.GroupKind)
}

// Kind describes where the objects of one kind list clusters. It is immutable.
type Kind struct {
	group, name string // the API group, and the kind
	// layout returns where an object has its clusters, which depends on the object; an error if the object has an invalid form.
	layout func(obj map[string]any) (layout, error)
	// root is the path of the field that contains all that Read reads of the clusters and Write changes, as in ["spec", "placement"].
	root   []string
	fields *projection.FieldSet // the fields that Read and Write read: all of root, and metadata.namespace
}

// Fields returns the sealed set of the fields that Read and Write read.
func (k *Kind) Fields() *projection.FieldSet { return k.fields }

// Root returns the path of the field that Write changes, as in ["spec", "placement"]. Callers must not change it.
func (k *Kind) Root() []string { return k.root }

// newKind returns a kind with the API group, the name, the Root, and the function that finds the layout of an object.
func newKind(group, name string, root []string, of func(map[string]any) (layout, error)) *Kind {
	fields := &projection.FieldSet{}
	at := fields
	for _, name := range root {
		at = at.AddName(name)
	}
	at.AddAll()
	fields.AddName("metadata").AddName("namespace")
	return &Kind{group: group, name: name, layout: of, root: root, fields: fields.Seal()}
}

// newNames returns a kind whose objects have a list of cluster names at a path of at least two names, of which the first two are the path
// Root. An empty list counts as absent, and NoCluster alone stands for no cluster.
func newNames(group, name string, path []string) *Kind {
	return newKind(group, name, path[:2], func(map[string]any) (layout, error) {
		return layout{path: path, slots: []slot{{base: 1, path: elements(path)}}}, nil
	})
}

// Kinds are the kinds whose objects have a list of clusters, built-in and declared. It is immutable. A nil Kinds has only the built-in
// kinds.
type Kinds struct {
	declared map[schema.GroupResource]*Kind // the kinds that the manager's configuration declares under placements, by resource
	// decisions is the kind PlacementDecision that knows which ClusterProfile represents a cluster; nil for the built-in one, which does not.
	decisions *Kind
}

// unknownProfile is the parameter of newDecisions if it is not known which ClusterProfiles represent clusters.
func unknownProfile(string) (namespace string, ok bool) { return "", false }

const multicluster = "multicluster.x-k8s.io"

var decisions = schema.GroupResource{Group: multicluster, Resource: "placementdecisions"}

// builtin has the built-in kinds, keyed by resource: placements of Karmada and KubeFleet, and PlacementDecision.
var builtin = func() map[schema.GroupResource]*Kind {
	const karmada, kubefleet = "policy.karmada.io", "placement.kubernetes-fleet.io"
	placement, policy := []string{"spec", "placement"}, []string{"spec", "policy"}
	return map[schema.GroupResource]*Kind{
		{Group: karmada, Resource: "propagationpolicies"}:         newKind(karmada, "PropagationPolicy", placement, karmadaLayout),
		{Group: karmada, Resource: "clusterpropagationpolicies"}:  newKind(karmada, "ClusterPropagationPolicy", placement, karmadaLayout),
		{Group: kubefleet, Resource: "clusterresourceplacements"}: newKind(kubefleet, "ClusterResourcePlacement", policy, kubefleetLayout),
		{Group: kubefleet, Resource: "resourceplacements"}:        newKind(kubefleet, "ResourcePlacement", policy, kubefleetLayout),
		decisions: newDecisions(unknownProfile),
	}
}()

// NewKinds returns the built-in and the declared kinds. A declaration that is invalid, or of a known kind, is an error that names the
// field, as in placements[0].path. Of the fields, only the group may be empty.
func NewKinds(declared ...Declaration) (*Kinds, error) {
	k := &Kinds{declared: map[schema.GroupResource]*Kind{}}
	var errs field.ErrorList
	for i, d := range declared {
		at := field.NewPath("placements").Index(i)
		if invalid := k.validate(d, at); len(invalid) > 0 {
			errs = append(errs, invalid...)
			continue
		}
		k.declared[d.GroupResource] = newNames(d.Group, d.Kind, slices.Clone(d.Path))
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return k, nil
}

// validate returns errors for the missing and invalid fields of a declaration, of which only the group may be empty, or, if there are none,
// for its resource and its kind if k already has them. at is the declaration's path in the configuration.
func (k *Kinds) validate(d Declaration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d.Group != "" {
		for _, problem := range validation.IsDNS1123Subdomain(d.Group) {
			errs = append(errs, field.Invalid(at.Child("group"), d.Group, problem))
		}
	}
	for _, f := range []struct{ name, value string }{{"resource", d.Resource}, {"kind", d.Kind}} {
		switch {
		case f.value == "":
			errs = append(errs, field.Required(at.Child(f.name), ""))
		case strings.ContainsAny(f.value, "/. "):
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, "must be a name without group, version, or subresource"))
		}
	}
	switch {
	case len(d.Path) == 0:
		errs = append(errs, field.Required(at.Child("path"), "where the list of clusters is, as in spec.clusters"))
	case d.Path[0] != "spec" || len(d.Path) == 1 || slices.Contains(d.Path, ""):
		errs = append(errs, field.Invalid(at.Child("path"), strings.Join(d.Path, "."), "must lead to a list below spec"))
	}
	if len(errs) > 0 {
		return errs
	}
	if k.Of(d.GroupResource) != nil {
		errs = append(errs, field.Duplicate(at.Child("resource"), d.String()))
	}
	if gk := (schema.GroupKind{Group: d.Group, Kind: d.Kind}); k.knows(gk) {
		errs = append(errs, field.Duplicate(at.Child("kind"), gk.String()))
	}
	return errs
}

// Resolving returns the same kinds with a PlacementDecision that knows which ClusterProfile represents a cluster. profile returns the
// namespace of that ClusterProfile; ok is false if it is not known, and then a ClusterProfile of the cluster's name in any namespace
// counts. profile must return quickly.
func (k *Kinds) Resolving(profile func(cluster string) (namespace string, ok bool)) *Kinds {
	out := &Kinds{decisions: newDecisions(profile)}
	if k != nil {
		out.declared = k.declared
	}
	return out
}

// Of returns the kind of a resource, or nil if its objects have no list of clusters.
func (k *Kinds) Of(resource schema.GroupResource) *Kind {
	if k != nil && k.decisions != nil && resource == decisions {
		return k.decisions
	}
	if known, ok := builtin[resource]; ok {
		return known
	}
	if k == nil {
		return nil
	}
	return k.declared[resource]
}

// knows reports whether a kind is built in or declared. k must not be nil.
func (k *Kinds) knows(gk schema.GroupKind) bool {
	if builtinOf(gk) != nil {
		return true
	}
	for _, known := range k.declared {
		if known.is(gk) {
			return true
		}
	}
	return false
}

// is reports whether the kind has the group and name of gk.
func (k *Kind) is(gk schema.GroupKind) bool { return k.group == gk.Group && k.name == gk.Kind }

// builtinOf returns the built-in kind with the group and name of gk, or nil if there is none.
func builtinOf(gk schema.GroupKind) *Kind {
	for _, known := range builtin {
		if known.is(gk) {
			return known
		}
	}
	return nil
}
