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

// Values returns a text that says which of the values no object has, such as `no cluster has the value "us" of label env now; there are
// "eu"`; "" if objects have all of them. kind is the noun for one object, such as "cluster", and subject the noun for what has the values,
// such as "label env", or Name. known are all values that the objects have. none is the clause that is added if no object has any of the
// values, such as "so that no cluster is eligible"; "" for no clause.
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
	return fmt.Sprintf("no %s has %s now%s%s", kind, Subject(subject, Quoted(unknown, " or ")), none, Others(unknown[0], known))
}

// Name is the parameter subject of the functions of this package if the values are names of objects, and not values of a label.
const Name = "name"

// Any returns a text that says that no object has the subject, with any value. kind, subject, and none are those of Values.
func Any(kind, subject, none string) string {
	if none != "" {
		none = ", " + none
	}
	return fmt.Sprintf("no %s has the %s now%s", kind, subject, none)
}

// Subject returns a noun phrase such as `the value "eu" of label env`, or `the name "eu-1"`. The values are in quotes already.
func Subject(subject, values string) string {
	if subject == Name {
		return "the name " + values
	}
	return fmt.Sprintf("the value %s of %s", values, subject)
}

// Others returns the end of a sentence which says that no object has a value. It lists the values that objects have (known), of which there
// must be at least one, if there are at most maxListed. Otherwise it names the one that is most like value, or the first ones and the
// number of the others.
func Others(value string, known []string) string {
	if len(known) <= maxListed {
		return "; there are " + Quoted(known, ", ")
	}
	if near, similar := suggest.Nearest(value, known); similar {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Sprintf("; there are %s and %d more", Quoted(known[:maxListed], ", "), len(known)-maxListed)
}

// Quoted returns the first maxListed texts, each in quotes, with the separator between them, and nothing for the others; "" for no texts.
func Quoted(texts []string, separator string) string {
	out := make([]string, 0, min(len(texts), maxListed))
	for _, text := range texts[:cap(out)] {
		out = append(out, strconv.Quote(text))
	}
	return strings.Join(out, separator)
}

// Labels are the values of the labels of all objects of a kind.
type Labels struct {
	kind   string                      // The noun for one object, such as "namespace".
	values map[string]sets.Set[string] // The values that objects have, by the key of the label.
}

// LabelsOf returns the labels of objects. kind is the noun for one object, such as "namespace". objects yields the labels of each after its
// name. The name is ignored: only an object with the label kubernetes.io/metadata.name, such as a namespace, is known by name.
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

// Empty reports whether no object has a label. Since each namespace has one, it reports for namespaces whether there are none.
func (l *Labels) Empty() bool { return len(l.values) == 0 }

// Problem is a requirement of a label selector for a label or a value that no object has: its path, and a message.
type Problem struct {
	Field *field.Path // The path of that part in the object with the label selector.
	Text  string      // The message to the user.
}

// Selector returns the problems of a label selector, whose path is given; nil for a nil selector. A problem is a value in matchLabels, In,
// or NotIn that no object has, or a label in Exists that none has. DoesNotExist has none. Of the names in NotIn for
// kubernetes.io/metadata.name, only those that are similar to an existing one count.
func (l *Labels) Selector(s *metav1.LabelSelector, path *field.Path) (out []Problem) {
	if s == nil {
		return nil
	}
	say := func(at *field.Path, key string, values []string, none string) {
		text := Values(l.kind, "label "+key, values, sets.List(l.values[key]), none)
		if text != "" && len(l.values[key]) == 0 {
			text += l.meantKey(key, values)
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
			out = append(out, Problem{at, Any(l.kind, "label "+r.Key, none) + l.meantKey(r.Key, nil)})
		}
	}
	return out
}

// minSimilar is the length from which the name of a label, without its prefix, counts as a misspelling of a similar one: env and dev are
// two names.
const minSimilar = 4

// meantKey returns a question, for appending to a message, that suggests a label that objects have in place of a label (key) that none has,
// such as "; did you mean region?": kubernetes.io/metadata.name if an object has one of the values in that label, or a label of the same
// prefix with a similar name. It returns "" for no suggestion. values are those that the selector lists for the label.
func (l *Labels) meantKey(key string, values []string) string {
	if l.values[corev1.LabelMetadataName].HasAny(values...) {
		return fmt.Sprintf("; did you mean %s?", corev1.LabelMetadataName)
	}
	prefix, name := splitKey(key)
	var names []string
	for known := range l.values {
		if p, n := splitKey(known); p == prefix {
			names = append(names, n)
		}
	}
	near, similar := suggest.Nearest(name, names)
	if !similar || len(name) < minSimilar {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", prefix+near)
}

// splitKey splits the key of a label after the slash, which belongs to the prefix. The prefix is empty if there is no slash.
func splitKey(key string) (prefix, name string) {
	i := strings.LastIndex(key, "/") + 1
	return key[:i], key[i:]
}
