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
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Coverage describes a policy's match in comparison with the types that the API server serves: whether it names one that is served,
// messages on entries that name none, why it can match nothing, and whether all its types are namespaced or cluster-scoped. It does
// not list types.
type Coverage struct {
	// Covered reports whether the API server serves a type that policies match for at least one entry of the resource rules, or may serve one
	// in a group that discovery could not list.
	Covered bool
	// Unserved has a message for each entry for which the API server serves no type. It suggests what is probably
	// meant.
	Unserved []string
	// Impossible says why the resource rules or the selectors of the match can match no object, for another reason than that types are not
	// served; "" if they can. Match conditions are not examined.
	Impossible string
	// Namespaced reports whether all matched types are certain to be namespaced. Then nothing is matched if the namespace selector
	// selects no namespace.
	Namespaced bool
	// ClusterScoped reports whether all types in the match are served, are cluster-scoped, and are not Namespaces. Then
	// the namespace selector has no effect.
	ClusterScoped bool
}

// Coverage compares the match with the types that the API server serves. path is the path of the match, for messages. ownNamespace is
// the namespace that Berth runs in, where nothing is matched. An entry of a rule's resources counts as served if the API server serves it
// in any of the rule's groups and versions. If served is nil, the match counts as covered, and nothing else is known.
func (m *Matcher) Coverage(served *ServedTypes, path *field.Path, ownNamespace string) Coverage {
	if served == nil {
		return Coverage{Covered: true}
	}
	out := Coverage{Namespaced: true, ClusterScoped: true}
	var excluded []string
	for i, rule := range m.match.ResourceRules[:m.rules] {
		for j, resource := range rule.Resources {
			at := path.Child("resourceRules").Index(i).Child("resources").Index(j)
			entry := rule
			entry.Resources = []string{resource}
			matched, covered := served.matched(entry)
			switch {
			case len(matched) > 0:
				out.Covered = true
				out.Namespaced = out.Namespaced && !slices.ContainsFunc(matched, func(t ServedType) bool { return !t.Namespaced })
				out.ClusterScoped = out.ClusterScoped && !slices.ContainsFunc(matched, ServedType.selectedByNamespace)
			case served.hasUndiscovered(rule.APIGroups, rule.APIVersions):
				out.Covered, out.Namespaced, out.ClusterScoped = true, false, false
			case covered:
				excluded = append(excluded, fmt.Sprintf("%s: wildcards match none of the types that this entry stands for", at))
			default:
				out.Unserved = append(out.Unserved, fmt.Sprintf("%s: %s", at, served.unservedMessage(entry)))
			}
		}
	}
	out.ClusterScoped = out.ClusterScoped && out.Covered && len(out.Unserved) == 0
	switch {
	case !out.Covered && len(out.Unserved) == 0:
		out.Impossible = strings.Join(excluded, "; ")
	case m.match.ObjectSelector != nil && contradiction(m.match.ObjectSelector) != "":
		out.Impossible = path.Child("objectSelector").String() + ": " + contradiction(m.match.ObjectSelector)
	case m.match.NamespaceSelector != nil && out.Namespaced && out.Covered:
		if why := ReasonSelectsNone(m.match.NamespaceSelector, ownNamespace); why != "" {
			out.Impossible = path.Child("namespaceSelector").String() + ": " + why
		}
	}
	return out
}

// Types returns the served types that the match names. ok is false, with no types, if the match may also match other types: if it
// has wildcards, or if the API server does not serve a type or cannot list a group.
func (m *Matcher) Types(served *ServedTypes) (types []ServedType, ok bool) {
	if served == nil {
		return nil, false
	}
	for _, rule := range m.match.ResourceRules[:m.rules] {
		if slices.Contains(slices.Concat(rule.APIGroups, rule.APIVersions, rule.Resources), wildcard) ||
			served.hasUndiscovered(rule.APIGroups, rule.APIVersions) {
			return nil, false
		}
		for _, resource := range rule.Resources {
			rule.Resources = []string{resource}
			matched, _ := served.matched(rule)
			if len(matched) == 0 {
				return nil, false
			}
			types = append(types, matched...)
		}
	}
	return types, true
}

// Served returns the served types that the match selects, including those that its wildcards stand for; none if served is nil. A type may
// be repeated.
func (m *Matcher) Served(served *ServedTypes) []ServedType {
	if served == nil {
		return nil
	}
	var out []ServedType
	for _, rule := range m.match.ResourceRules[:m.rules] {
		matched, _ := served.matched(rule)
		out = append(out, matched...)
	}
	return out
}

// MayMatchOutsideNamespaces reports whether the match selects a served type whose objects are in no namespace, other than Namespaces. It is
// false if served is nil, and ignores types that discovery could not list.
func (m *Matcher) MayMatchOutsideNamespaces(served *ServedTypes) bool {
	return slices.ContainsFunc(m.Served(served), func(t ServedType) bool { return !t.selectedByNamespace() })
}

// selectedByNamespace reports whether a namespace selector applies to objects of the type. A Namespace is selected by
// its own labels.
func (t ServedType) selectedByNamespace() bool {
	return t.Namespaced || t.GroupResource() == namespacesResource
}

// SelectsNamespaces reports whether the match has a namespace selector that is not empty.
func (m *Matcher) SelectsNamespaces() bool { return !m.namespaces.Empty() }

// SelectsNoneOf reports whether the match has a namespace selector that selects none of the given namespaces.
// namespaces yields names and labels. Namespaces that are never matched do not count.
func (m *Matcher) SelectsNoneOf(namespaces iter.Seq2[string, map[string]string], ownNamespace string) bool {
	if !m.SelectsNamespaces() {
		return false
	}
	for name, labels := range namespaces {
		if !IsProtectedNamespace(name, ownNamespace) && m.SelectsByLabels(name, labels) {
			return false
		}
	}
	return true
}

// matched returns the served types that an entry of the resource rules matches. covered reports whether the entry also names, or its
// wildcards cover, served types that policies never match or that wildcards do not match.
func (s *ServedTypes) matched(entry placementv1.ResourceRule) (matched []ServedType, covered bool) {
	for _, t := range s.types {
		if !covers(entry, t.GroupResource()) || !contains(entry.APIVersions, t.Version) {
			continue
		}
		if selects(entry, t.GroupVersionResource) && !NeverMatched(t.GroupResource()) {
			matched = append(matched, t)
		} else {
			covered = true
		}
	}
	return matched, covered
}

// unservedMessage returns a message that no type is served for an entry, which has one resource. It suggests what is probably
// meant.
func (s *ServedTypes) unservedMessage(entry placementv1.ResourceRule) string {
	name := entry.Resources[0]
	if name == wildcard {
		text := fmt.Sprintf("the API server serves nothing in apiGroups %s, apiVersions %s", stringList(entry.APIGroups),
			stringList(entry.APIVersions))
		for _, group := range entry.APIGroups {
			if meant, ok := s.suggestGroup(group); ok {
				return text + fmt.Sprintf(" (did you mean the group %q?)", meant)
			}
		}
		return text
	}
	text := fmt.Sprintf("the API server does not serve %q in apiGroups %s, apiVersions %s", name, stringList(entry.APIGroups),
		stringList(entry.APIVersions))
	plural, ok := s.FindPlural(name, entry.APIGroups)
	if !ok {
		return text
	}
	t := s.bestMatch(plural, entry.APIGroups, entry.APIVersions)
	text += fmt.Sprintf(" (did you mean %s", t.Resource)
	var in []string
	if !contains(entry.APIGroups, t.Group) {
		in = append(in, fmt.Sprintf("apiGroups [%q]", t.Group))
	}
	if !contains(entry.APIVersions, t.Version) {
		in = append(in, fmt.Sprintf("apiVersions [%q]", t.Version))
	}
	if len(in) > 0 {
		text += " in " + strings.Join(in, ", ")
	}
	return text + "?)"
}

// contradiction returns why no object can have the labels that a selector requires; "" if one can.
func contradiction(s *metav1.LabelSelector) string {
	list := normalizeSelector(s)
	for _, r := range list {
		values, bounded := valuesOf(list, r.Key)
		if bounded && len(values) == 0 {
			return fmt.Sprintf("no value of the label %s meets all requirements on it", r.Key)
		}
	}
	return ""
}

// ReasonSelectsNone returns why a namespace selector cannot select any namespace that may be matched; "" if it can.
func ReasonSelectsNone(s *metav1.LabelSelector, ownNamespace string) string {
	if why := contradiction(s); why != "" {
		return why
	}
	values, bounded := valuesOf(normalizeSelector(s), corev1.LabelMetadataName)
	if bounded && !slices.ContainsFunc(values, func(name string) bool { return !IsProtectedNamespace(name, ownNamespace) }) {
		return fmt.Sprintf("it selects %s only, where nothing is ever matched: kube-system and Berth's own namespace are protected",
			strings.Join(values, ", "))
	}
	return ""
}

// valuesOf returns the values that a selector allows for a label. bounded is true if an In requirement lists the allowed values, less those
// of NotIn, or if the label must both exist and not exist. If it is true and there is no value, no object is selected. If it is false, as
// with NotIn, Exists, or DoesNotExist alone, there are no values.
func valuesOf(list requirementList, key string) (values []string, bounded bool) {
	var not []string
	absent, present := false, false
	for _, r := range list {
		if r.Key != key {
			continue
		}
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			present = true
			if !bounded {
				values, bounded = slices.Clone(r.Values), true
				continue
			}
			values = slices.DeleteFunc(values, func(v string) bool { return !slices.Contains(r.Values, v) })
		case metav1.LabelSelectorOpNotIn:
			not = append(not, r.Values...)
		case metav1.LabelSelectorOpExists:
			present = true
		case metav1.LabelSelectorOpDoesNotExist:
			absent = true
		}
	}
	if absent && present {
		return nil, true
	}
	return slices.DeleteFunc(values, func(v string) bool { return slices.Contains(not, v) }), bounded
}
