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

// Package absent words that nothing in the cluster has a value that a policy or a quota is written for. Values come and go, so such a
// text never keeps an object from being stored.
package absent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/suggest"
)

// maxListed is the maximum number of values that a text lists.
const maxListed = 8

// Values says which values no object of a kind has, such as "cluster"; "" if all are known. subject names what is compared with the values,
// as in "label env", and known are all values that the objects have. none is what follows if no object has any of the values, as in "so
// that no cluster is eligible"; "" for nothing.
func Values(kind, subject string, values, known []string, none string) string {
	unknown := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(known, v) })
	if len(unknown) == 0 {
		return ""
	}
	if len(unknown) < len(values) || none == "" {
		none = ""
	} else {
		none = ", " + none
	}
	if len(known) == 0 {
		return Any(kind, subject, strings.TrimPrefix(none, ", "))
	}
	return fmt.Sprintf("no %s has %s now%s%s", kind, Subject(subject, Quoted(unknown, " or ")), none, others(unknown[0], known))
}

// Name is the subject that names of objects are compared with.
const Name = "name"

// Any says that no object of a kind has a subject at all, and what follows.
func Any(kind, subject, none string) string {
	if none != "" {
		none = ", " + none
	}
	return fmt.Sprintf("no %s has the %s now%s", kind, subject, none)
}

// Subject words values of a subject, which are in quotes.
func Subject(subject, values string) string {
	if subject == Name {
		return "the name " + values
	}
	return fmt.Sprintf("the value %s of %s", values, subject)
}

// others says which values there are, as the end of a sentence: few of them, or the one that is most like a value.
func others(value string, known []string) string {
	if len(known) <= maxListed {
		return "; there are " + Quoted(known, ", ")
	}
	if near, similar := suggest.Nearest(value, known); similar {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Sprintf("; there are %s and %d more", Quoted(known[:maxListed], ", "), len(known)-maxListed)
}

// Quoted returns texts in quotes, at most maxListed.
func Quoted(texts []string, separator string) string {
	out := make([]string, 0, min(len(texts), maxListed))
	for _, text := range texts[:cap(out)] {
		out = append(out, strconv.Quote(text))
	}
	return strings.Join(out, separator)
}

// Labels are the values of labels of all objects of a kind.
type Labels struct {
	kind   string
	values map[string]sets.Set[string]
}

// LabelsOf returns the labels of objects of a kind, such as "namespace".
func LabelsOf(kind string, objects func(yield func(name string, labels map[string]string) bool)) *Labels {
	out := &Labels{kind, map[string]sets.Set[string]{}}
	for _, labels := range objects {
		for key, value := range labels {
			if out.values[key] == nil {
				out.values[key] = sets.New[string]()
			}
			out.values[key].Insert(value)
		}
	}
	return out
}

// Empty reports whether there are no objects with labels. Each namespace has one.
func (l *Labels) Empty() bool { return len(l.values) == 0 }

// Problem is what is absent, and the field that names it.
type Problem struct {
	Field *field.Path
	Text  string
}

// Selector returns the values in a label selector that no object has.
func (l *Labels) Selector(s *metav1.LabelSelector, path *field.Path) (out []Problem) {
	if s == nil {
		return nil
	}
	say := func(at *field.Path, key string, values []string, none string) {
		text := Values(l.kind, "label "+key, values, sets.List(l.values[key]), none)
		if text != "" && len(l.values[key]) == 0 && l.values[corev1.LabelMetadataName].HasAny(values...) {
			text += fmt.Sprintf("; did you mean %s?", corev1.LabelMetadataName)
		}
		if text != "" {
			out = append(out, Problem{at, text})
		}
	}
	none := fmt.Sprintf("so that this selects no %s", l.kind)
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		say(path.Child("matchLabels").Key(key), key, []string{s.MatchLabels[key]}, none)
	}
	for i, r := range s.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		switch _, known := l.values[r.Key]; {
		case r.Operator == metav1.LabelSelectorOpIn:
			say(at, r.Key, r.Values, none)
		case r.Operator == metav1.LabelSelectorOpNotIn && r.Key == corev1.LabelMetadataName:
			// Manifests for many clusters exclude namespaces that only some of them have.
			say(at, r.Key, slices.DeleteFunc(slices.Clone(r.Values), func(name string) bool {
				_, similar := suggest.Nearest(name, sets.List(l.values[r.Key]))
				return !similar
			}), "")
		case r.Operator == metav1.LabelSelectorOpNotIn:
			say(at, r.Key, r.Values, fmt.Sprintf("so that this excludes no %s", l.kind))
		case r.Operator == metav1.LabelSelectorOpExists && !known:
			out = append(out, Problem{at, Any(l.kind, "label "+r.Key, none)})
		}
	}
	return out
}
