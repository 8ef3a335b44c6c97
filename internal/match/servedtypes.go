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

package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/suggest"
)

// ServedType is a resource type in one of the versions in which the API server serves it.
type ServedType struct {
	schema.GroupVersionResource
	Kind, Singular string
	ShortNames     []string
	Namespaced     bool
}

// ServedTypes is the set of resource types that the API server serves. It is immutable and safe for concurrent use. A nil
// *ServedTypes means that nothing is known about the API server.
type ServedTypes struct {
	types        []ServedType          // In the order of the API server's preference.
	undiscovered []schema.GroupVersion // The group versions whose resources discovery could not list.
}

// NewServedTypes returns the set of served types. The versions of a group must be in the order of the API server's
// preference. undiscovered are the group versions whose resources discovery could not list, such as those of an
// extension API server that is down.
func NewServedTypes(types []ServedType, undiscovered ...schema.GroupVersion) *ServedTypes {
	return &ServedTypes{types: types, undiscovered: undiscovered}
}

// Equal reports whether both sets have equal types in the same order, and the same undiscovered group versions. A nil set equals only
// another nil one.
func (s *ServedTypes) Equal(other *ServedTypes) bool {
	if s == nil || other == nil {
		return s == other
	}
	return slices.Equal(s.undiscovered, other.undiscovered) && equality.Semantic.DeepEqual(s.types, other.types)
}

// Namespaced reports whether the API server serves the resource as namespaced. It also returns true if that is not known, because
// s is nil or discovery could not list a version of the resource's group.
func (s *ServedTypes) Namespaced(resource schema.GroupResource) bool {
	if s == nil || s.hasUndiscovered([]string{resource.Group}, []string{wildcard}) {
		return true
	}
	return slices.ContainsFunc(s.types, func(t ServedType) bool { return t.Namespaced && t.GroupResource() == resource })
}

// ClusterScoped reports whether the API server serves the resource, and its objects are in no namespace.
func (s *ServedTypes) ClusterScoped(resource schema.GroupResource) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool { return !t.Namespaced && t.GroupResource() == resource })
}

// HasName reports whether a type in the resource's group has the resource's name as its plural name, kind, singular name, or short name,
// ignoring case.
func (s *ServedTypes) HasName(resource schema.GroupResource) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool {
		return t.HasName(resource.Resource) && t.Group == resource.Group
	})
}

// FindPlural returns the plural name that name probably stands for. It looks for a type with that plural name, kind,
// singular name, or short name, in the groups first and then in all groups. If there is none, it looks for the most
// similar plural name in the same order. ok is false if no name is similar.
func (s *ServedTypes) FindPlural(name string, groups []string) (plural string, ok bool) {
	if s == nil {
		return "", false
	}
	within := slices.DeleteFunc(slices.Clone(s.types), func(t ServedType) bool { return !contains(groups, t.Group) })
	for _, types := range [][]ServedType{within, s.types} {
		for _, t := range types {
			if t.HasName(name) {
				return t.Resource, true
			}
		}
	}
	for _, types := range [][]ServedType{within, s.types} {
		plurals := make([]string, len(types))
		for i, t := range types {
			plurals[i] = t.Resource
		}
		if plural, ok = suggest.Nearest(name, plurals); ok {
			return plural, true
		}
	}
	return "", false
}

// HasKind reports whether a type of the kind is served.
func (s *ServedTypes) HasKind(kind string) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool { return t.Kind == kind })
}

// HasVersion reports whether a type of an API version such as "apps/v1" is served. It is false if that is not known: if s is nil, or
// discovery could not list the version.
func (s *ServedTypes) HasVersion(apiVersion string) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool { return t.GroupVersion().String() == apiVersion })
}

// HasName reports whether name is the type's plural name, kind, singular name, or a short name, ignoring case.
func (t ServedType) HasName(name string) bool {
	same := func(other string) bool { return strings.EqualFold(name, other) }
	return same(t.Resource) || same(t.Kind) || t.Singular != "" && same(t.Singular) || slices.ContainsFunc(t.ShortNames, same)
}

// SuggestResource returns a question that suggests a served type that a resource name and group probably stand for, for example
// " (did you mean deployments.apps?)". It returns "" if the resource itself is served, or no served type is similar.
func (s *ServedTypes) SuggestResource(resource schema.GroupResource) string {
	meant, ok := s.Meant(resource)
	if !ok || meant == resource {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", meant)
}

// Meant returns the served type that a resource name and group probably stand for. This is the resource itself if it is served. ok
// is false if no type is similar, or if the one that is meant is never matched.
func (s *ServedTypes) Meant(resource schema.GroupResource) (meant schema.GroupResource, ok bool) {
	plural, ok := s.FindPlural(resource.Resource, []string{resource.Group})
	if !ok {
		return schema.GroupResource{}, false
	}
	meant = s.bestMatch(plural, []string{resource.Group}, []string{wildcard}).GroupResource()
	return meant, !NeverMatched(meant)
}

// SuggestPlural returns a question that suggests the served plural that a name without a group probably stands for, for example
// " (did you mean deployments?)". It returns "" if a type with this plural is served, no name is similar, or s is nil.
func (s *ServedTypes) SuggestPlural(name string) string {
	plural, ok := s.FindPlural(name, []string{wildcard})
	if !ok || plural == name {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", plural)
}

// bestMatch returns the type with the plural name that fits the groups and versions best. A type whose group is written in another form,
// such as "apps/v1" among the groups or "apps" among the versions, fits better than one whose group is not written at all. At least one
// type must have the plural name.
func (s *ServedTypes) bestMatch(plural string, groups, versions []string) ServedType {
	types := slices.DeleteFunc(slices.Clone(s.types), func(t ServedType) bool { return t.Resource != plural })
	distance := func(t ServedType) int {
		written := func(group string) bool {
			before, _, _ := strings.Cut(group, "/")
			return before == t.Group
		}
		out := 0
		if !contains(groups, t.Group) {
			out += 2
		}
		if !contains(groups, t.Group) && !slices.ContainsFunc(slices.Concat(groups, versions), written) {
			out += 2
		}
		if !contains(versions, t.Version) {
			out++
		}
		return out
	}
	return slices.MinFunc(types, func(a, b ServedType) int { return cmp.Compare(distance(a), distance(b)) })
}

// Undiscovered returns the group versions whose resources discovery could not list.
func (s *ServedTypes) Undiscovered() []schema.GroupVersion {
	if s == nil {
		return nil
	}
	return s.undiscovered
}

// hasUndiscovered reports whether the groups and versions include a group version whose resources are unknown.
func (s *ServedTypes) hasUndiscovered(groups, versions []string) bool {
	return slices.ContainsFunc(s.undiscovered, func(gv schema.GroupVersion) bool {
		return contains(groups, gv.Group) && contains(versions, gv.Version)
	})
}

// suggestGroup returns the group that an invalid group name, such as "apps/v1", probably stands for; "" is the core group, which the
// version of a served type alone, such as "v1", stands for. ok is false if none is similar. s must not be nil.
func (s *ServedTypes) suggestGroup(name string) (group string, ok bool) {
	if before, _, cut := strings.Cut(name, "/"); cut {
		return before, true
	}
	var groups []string
	for _, t := range s.types {
		if t.Version == name {
			return "", true
		}
		groups = append(groups, t.Group)
	}
	return suggest.Nearest(name, groups)
}
