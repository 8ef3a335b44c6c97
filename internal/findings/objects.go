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

package findings

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/match"
)

// manyObjects is the number of objects from which on it is probably a mistake that none of them has what a policy names.
const manyObjects = 5

// allObjects is the number of objects from which on it is probably a mistake that none of them has a label or annotation for which there is
// a default value. Fewer objects may all do without a value of their own.
const allObjects = 50

// findingsOfObjects finds an object selector that selects none of many existing objects, and labels and annotations that rules and match
// conditions name and none of many matched objects has.
func (f *Finder) findingsOfObjects(ctx context.Context, spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	objects, err := f.objectsOfTypes(ctx, m)
	if err != nil {
		return []Finding{notice("cannot compare the policy with existing objects: %v", err)}
	}
	if len(objects) < manyObjects {
		return nil
	}
	matched := selectedObjects(objects, m)
	if len(matched) == 0 {
		at := matchPath.Child("objectSelector")
		problems := absent.LabelsOf("object", labelsOf(objects)).Selector(spec.Match.ObjectSelector, at)
		if len(problems) == 0 {
			// Other objects have each of the labels.
			return nil
		}
		return []Finding{notice("%s selects none of the objects that there are: %s", at, problems[0].Text)}
	}
	if len(matched) < manyObjects {
		return nil
	}
	known := keysOfObjects(matched)
	var out []Finding
	for i, c := range spec.Match.MatchConditions {
		at := matchPath.Child("matchConditions").Index(i).Child("expression")
		out = append(out, known.findingsOfExpression(c.Expression, at, "so that the policy matches none")...)
	}
	for i, rule := range spec.Rules {
		at := specPath.Child("rules").Index(i)
		if rule.When != nil {
			none := fmt.Sprintf("so that rule %s applies to none", rule.Name)
			out = append(out, known.findingsOfExpression(rule.When.Expression, at.Child("when", "expression"), none)...)
		}
		if rule.When != nil && !slices.ContainsFunc(matched, func(o *unstructured.Unstructured) bool { return mayApply(rule.When, o) }) {
			none := fmt.Sprintf("so that rule %s applies to none", rule.Name)
			found := known.findingsOfWhen(rule.When, at.Child("when"), none)
			if len(found) == 0 {
				found = findingsOfBoth(rule.When, matched, at.Child("when"), none)
			}
			out = append(out, found...)
		}
		for j, q := range rule.Require {
			out = append(out, known.findingsOfValueFrom(q.ValueFrom, at.Child("require").Index(j).Child("valueFrom"), matched)...)
		}
		for j, p := range rule.Prefer {
			out = append(out, known.findingsOfValueFrom(p.ValueFrom, at.Child("prefer").Index(j).Child("valueFrom"), matched)...)
		}
	}
	return out
}

// objectsOfTypes returns the existing namespaced objects of the types that a policy matches, in the namespaces that it matches, whatever
// its object selector and match conditions select; none if Finder.Objects or Finder.Namespaces is nil.
func (f *Finder) objectsOfTypes(ctx context.Context, m *match.Matcher) ([]*unstructured.Unstructured, error) {
	if f.Objects == nil || f.Namespaces == nil {
		return nil, nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return nil, err
	}
	selected := sets.New[string]()
	for name, of := range namespaces {
		if !match.IsProtectedNamespace(name, f.OwnNamespace) && m.SelectsNamespace(name, of) {
			selected.Insert(name)
		}
	}
	var out []*unstructured.Unstructured
	read := sets.New[schema.GroupVersionResource]()
	for _, t := range m.Served(f.Catalog.Served()) {
		if read.Has(t.GroupVersionResource) || !t.Namespaced {
			continue
		}
		read.Insert(t.GroupVersionResource)
		objects, err := f.Objects(ctx, t.GroupVersionResource)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if selected.Has(o.GetNamespace()) {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// selectedObjects returns those of the objects that the object selector of a policy selects.
func selectedObjects(objects []*unstructured.Unstructured, m *match.Matcher) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !m.SelectsLabels(o.GetLabels()) })
}

// matchedObjects returns the existing namespaced objects that a policy matches, whatever its match conditions are; none if Finder.Objects
// or Finder.Namespaces is nil.
func (f *Finder) matchedObjects(ctx context.Context, m *match.Matcher) ([]*unstructured.Unstructured, error) {
	objects, err := f.objectsOfTypes(ctx, m)
	return selectedObjects(objects, m), err
}

// describe returns the kind, the namespace, and the name of an object, as in "Deployment shop/web". The object must be namespaced.
func describe(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

// labelsOf yields the name and the labels of each object.
func labelsOf(objects []*unstructured.Unstructured) func(yield func(string, map[string]string) bool) {
	return func(yield func(string, map[string]string) bool) {
		for _, o := range objects {
			if !yield(o.GetName(), o.GetLabels()) {
				return
			}
		}
	}
}

// mayApply reports whether a condition, which must not be nil, may apply to an object, by the labels and annotations of the object alone.
func mayApply(when *placementv1.RuleCondition, o *unstructured.Unstructured) bool {
	for _, s := range []struct {
		selector *metav1.LabelSelector
		of       map[string]string
	}{{when.ObjectSelector, o.GetLabels()}, {annotationSelector(when.Annotations), o.GetAnnotations()}} {
		if s.selector == nil {
			continue
		}
		if parsed, err := metav1.LabelSelectorAsSelector(s.selector); err == nil && !parsed.Matches(labels.Set(s.of)) {
			return false
		}
	}
	return true
}

// objectKeys are the labels and annotations of objects: the values of all of them, by "labels" or "annotations", and then by key. Values
// that are longer than those of labels may be are left out, so that a key may have none.
type objectKeys map[string]map[string]sets.Set[string]

// keysOfObjects returns the labels and annotations of objects. Of annotations with values longer than those of labels, it has only the
// keys.
func keysOfObjects(objects []*unstructured.Unstructured) objectKeys {
	out := objectKeys{fieldLabels: {}, fieldAnnotations: {}}
	for _, o := range objects {
		for document, of := range map[string]map[string]string{fieldLabels: o.GetLabels(), fieldAnnotations: o.GetAnnotations()} {
			for key, value := range of {
				if out[document][key] == nil {
					out[document][key] = sets.New[string]()
				}
				if len(value) <= validation.LabelValueMaxLength {
					out[document][key].Insert(value)
				}
			}
		}
	}
	return out
}

// findingsOfWhen finds labels and annotations in the selectors of a condition that no object has with any of the listed values, although
// some have the key, or a similar one. A key that is like none may be meant for objects to come. when must not be nil. none is a clause
// about what follows.
func (k objectKeys) findingsOfWhen(when *placementv1.RuleCondition, at *field.Path, none string) (out []Finding) {
	if s := when.ObjectSelector; s != nil {
		for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
			at := at.Child("objectSelector", "matchLabels").Key(key)
			out = append(out, k.compare(at, fieldLabels, key, metav1.LabelSelectorOpIn, []string{s.MatchLabels[key]}, none)...)
		}
		for i, e := range s.MatchExpressions {
			out = append(out, k.compare(at.Child("objectSelector", "matchExpressions").Index(i), fieldLabels, e.Key, e.Operator, e.Values, none)...)
		}
	}
	for i, a := range when.Annotations {
		out = append(out, k.compare(at.Child("annotations").Index(i), fieldAnnotations, a.Key, a.Operator, a.Values, none)...)
	}
	return out
}

// compare returns the finding in a requirement by In or Exists on one key: no object has the key, but some have a similar one, or those
// that have it have none of the listed values. document is "labels" or "annotations". none is a clause about what follows.
func (k objectKeys) compare(at *field.Path, document, key string, operator metav1.LabelSelectorOperator, values []string,
	none string) []Finding {
	noun, existing := documents[document]+" "+key, sets.List(k[document][key])
	_, exists := k[document][key]
	switch near := k.similar(document, key); {
	case operator != metav1.LabelSelectorOpIn && operator != metav1.LabelSelectorOpExists:
	case !exists && near != "":
		return []Finding{advice("%s: %s; did you mean %q?", at, absent.Any("matched object", noun, none), near)}
	case operator == metav1.LabelSelectorOpIn && len(existing) > 0 && !slices.ContainsFunc(values, k[document][key].Has):
		return []Finding{advice("%s: %s", at, absent.Values("matched object", noun, values, existing, none))}
	}
	return nil
}

// findingsOfExpression finds labels and annotations that no object has with any of the values with which a CEL expression compares them,
// although some have the key, or a similar one. It also finds values that the expression compares with the keys. at is the path of the
// expression, and none is a clause about what follows.
func (k objectKeys) findingsOfExpression(expression string, at *field.Path, none string) (out []Finding) {
	for _, test := range celexpression.KeyTests(expression) {
		if test.Key != "" {
			out = append(out, k.compare(at, test.Field, test.Key, metav1.LabelSelectorOpIn, test.Values, none)...)
			continue
		}
		if slices.ContainsFunc(test.Values, func(key string) bool { _, exists := k[test.Field][key]; return exists }) {
			continue
		}
		if key, value := k.keyOfValue(test.Field, test.Values); key != "" {
			out = append(out, advice("%s: %s: in and exists() compare the keys of %s, and %q is a value of %s. Compare the value, as in "+
				"object.metadata.?%s[?%q].orValue(\"\") == %[4]q", at, absent.Any("matched object", documents[test.Field]+" "+value, none), test.Field,
				value,
				documents[test.Field]+" "+key, test.Field, key))
		}
	}
	return out
}

// keyOfValue returns the first of the values that a label or an annotation of some object has, and the key of that label or annotation. The
// parameter document, "labels" or "annotations", says which of them it searches. Both results are "" if no object has any of the values.
func (k objectKeys) keyOfValue(document string, values []string) (key, value string) {
	for _, value := range values {
		for _, key := range slices.Sorted(maps.Keys(k[document])) {
			if k[document][key].Has(value) {
				return key, value
			}
		}
	}
	return "", ""
}

// findingsOfBoth finds labels in a condition that many objects have, each of them, although no object has all of them. none is a clause
// about what follows. Conditions that do not only require labels may be for other objects.
func findingsOfBoth(when *placementv1.RuleCondition, objects []*unstructured.Unstructured, at *field.Path, none string) []Finding {
	s := when.ObjectSelector
	if s == nil || len(s.MatchLabels) < 2 || len(s.MatchExpressions)+len(when.Annotations) > 0 || when.NamespaceSelector != nil ||
		when.Expression != "" {
		return nil
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		having := 0
		for _, o := range objects {
			if value, has := o.GetLabels()[key]; has && value == s.MatchLabels[key] {
				having++
			}
		}
		if having < manyObjects {
			return nil
		}
		texts = append(texts, fmt.Sprintf("%d have %s=%s", having, key, s.MatchLabels[key]))
	}
	return []Finding{advice("%s: no matched object has all of these labels now, %s: %s. For objects with one of them, write a rule for each",
		at.Child("objectSelector", "matchLabels"), none, strings.Join(texts, ", "))}
}

// findingsOfValueFrom finds a label or annotation that none of the objects has, so that each gets the default value, if some have a similar
// key, or if there are at least allObjects of them. It finds nothing if v is nil or has no default.
func (k objectKeys) findingsOfValueFrom(v *placementv1.ObjectValue, at *field.Path, objects []*unstructured.Unstructured) []Finding {
	if v == nil || v.Default == nil {
		return nil
	}
	document, other := fieldLabels, fieldAnnotations
	if v.Label == "" {
		document, other = other, document
	}
	key := keyOf(*v)
	if _, exists := k[document][key]; exists {
		return nil
	}
	text := absent.Any("matched object", nounOf(*v), fmt.Sprintf("so that each gets the default %q", *v.Default))
	_, elsewhere := k[other][key]
	switch near := cmp.Or(k.similar(document, key), longerOrShorter(document, key, objects)); {
	case elsewhere:
		text += fmt.Sprintf("; did you mean %s: %s?", documents[other], key)
	case near != "":
		text += fmt.Sprintf("; did you mean %q?", near)
	case len(objects) < allObjects:
		return nil
	}
	return []Finding{advice("%s: %s", at, text)}
}

// similar returns the key of a label or annotation of objects that the author of a key that no object has probably meant; "" for none. The
// parameter document is "labels" or "annotations".
func (k objectKeys) similar(document, key string) string {
	known := slices.Sorted(maps.Keys(k[document]))
	return cmp.Or(misspelt(key, known), similarLabel(key, known))
}

// longerOrShorter returns the label or annotation that many objects have whose name has all words of the name of a key, or the other way
// around, and the same prefix; "" if there is none, or several. A single word is part of many names.
func longerOrShorter(document, key string, objects []*unstructured.Unstructured) string {
	prefix, name := splitLabel(key)
	wordsOf := func(name string) sets.Set[string] {
		return sets.New(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) })...)
	}
	words, having := wordsOf(name), map[string]int{}
	for _, o := range objects {
		of := o.GetLabels()
		if document == fieldAnnotations {
			of = o.GetAnnotations()
		}
		for other := range of {
			p, n := splitLabel(other)
			if own := wordsOf(n); prefix != "" && p == prefix && words.Intersection(own).Len() >= 2 &&
				(words.IsSuperset(own) || own.IsSuperset(words)) {
				having[other]++
			}
		}
	}
	maps.DeleteFunc(having, func(_ string, n int) bool { return n < manyObjects })
	if len(having) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(having))[0]
}

// annotationSelector returns requirements on annotations as a label selector, to compare them as such; nil if there are none.
func annotationSelector(annotations []placementv1.AnnotationRequirement) *metav1.LabelSelector {
	if len(annotations) == 0 {
		return nil
	}
	out := &metav1.LabelSelector{}
	for _, a := range annotations {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: a.Key, Operator: a.Operator, Values: a.Values})
	}
	return out
}
