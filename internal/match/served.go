package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// Served are the resource types that the API server serves. It is immutable and safe for concurrent use; nil stands for
// an API server of which nothing is known.
type Served struct {
	types  []ServedType
	silent []schema.GroupVersion
}

// NewServed returns what an API server serves: types, those of a group in the order of its preference of versions, and
// silent, the versions of groups of which it did not tell what they have, such as those of an extension API server that
// is down.
func NewServed(types []ServedType, silent ...schema.GroupVersion) *Served {
	return &Served{types: types, silent: silent}
}

// Equal reports whether both are the same, in the same order.
func (s *Served) Equal(other *Served) bool {
	if s == nil || other == nil {
		return s == other
	}
	return slices.Equal(s.silent, other.silent) && slices.EqualFunc(s.types, other.types, func(a, b ServedType) bool {
		return a.GroupVersionResource == b.GroupVersionResource && a.Kind == b.Kind && a.Singular == b.Singular && a.Namespaced == b.Namespaced &&
			slices.Equal(a.ShortNames, b.ShortNames)
	})
}

// Namespaced reports whether the API server serves a type in namespaces, or whether nothing is known of its group.
func (s *Served) Namespaced(resource schema.GroupResource) bool {
	if s == nil || s.hasSilent([]string{resource.Group}, []string{wildcard}) {
		return true
	}
	return slices.ContainsFunc(s.types, func(t ServedType) bool { return t.Namespaced && t.GroupResource() == resource })
}

// Names reports whether a type is served that is called so, by its plural, kind, singular, or short name.
func (s *Served) Names(resource schema.GroupResource) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool { return t.Named(resource.Resource) && t.Group == resource.Group })
}

// Plural returns the plural name that is probably meant by name, of a type in any of the groups or, where none of those
// has it, in any group: name itself, that of the kind, the singular, or the short name, or the nearest one. ok is false
// if none is near.
func (s *Served) Plural(name string, groups []string) (plural string, ok bool) {
	if s == nil {
		return "", false
	}
	within := slices.DeleteFunc(slices.Clone(s.types), func(t ServedType) bool { return !contains(groups, t.Group) })
	for _, types := range [][]ServedType{within, s.types} {
		for _, t := range types {
			if t.Named(name) {
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

// HasKind reports whether a type of a kind is served.
func (s *Served) HasKind(kind string) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool { return t.Kind == kind })
}

// HasVersion reports whether something of an API version, as in apps/v1, is served.
func (s *Served) HasVersion(apiVersion string) bool {
	return s != nil && slices.ContainsFunc(s.types, func(t ServedType) bool { return t.GroupVersion().String() == apiVersion })
}

// Named reports whether a type is called by a name, in whatever case: its plural, kind, singular, or a short name.
func (t ServedType) Named(name string) bool {
	same := func(other string) bool { return strings.EqualFold(name, other) }
	return same(t.Resource) || same(t.Kind) || t.Singular != "" && same(t.Singular) || slices.ContainsFunc(t.ShortNames, same)
}

// Meant returns a question after the type that is probably meant where a type is named that is not served, as in
// " (did you mean deployments.apps?)"; "" if none is near.
func (s *Served) Meant(resource schema.GroupResource) string {
	plural, ok := s.Plural(resource.Resource, []string{resource.Group})
	if !ok {
		return ""
	}
	t := s.best(plural, []string{resource.Group}, []string{wildcard})
	return fmt.Sprintf(" (did you mean %s?)", t.GroupResource())
}

// MeantPlural is Meant for a name that stands alone, in whatever group.
func (s *Served) MeantPlural(name string) string {
	plural, ok := s.Plural(name, []string{wildcard})
	if !ok || plural == name {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", plural)
}

// best returns the type of a plural name that is nearest to the groups and versions, which may be written in each
// other's place. There must be one.
func (s *Served) best(plural string, groups, versions []string) ServedType {
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

// hasSilent reports whether a rule is about a version of a group of which nothing is known.
func (s *Served) hasSilent(groups, versions []string) bool {
	return slices.ContainsFunc(s.silent, func(gv schema.GroupVersion) bool { return contains(groups, gv.Group) && contains(versions, gv.Version) })
}

// groupMeant returns the group that is probably meant by a name that is none; ok is false if none is near.
func (s *Served) groupMeant(name string) (group string, ok bool) {
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
