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

package rules

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
)

// Compared is a requirement or a preference of a rule.
type Compared struct {
	placementv1.Requirement
	// Field is the path of the requirement or preference.
	Field *field.Path
	// Preferred reports whether it is a preference, and OfNodes whether it is for nodes and not for clusters.
	Preferred, OfNodes bool
}

// DocumentScores is the name of the scores of a cluster in Compared.Path and Key.Document, as if they were a field of data.clusters[name],
// which does not have them.
const DocumentScores = "scores"

// Key is the key of a label or annotation, or the name of a property or score, that rules read of clusters.
type Key struct {
	// Field is the path of the field of a rule that has the key, such as spec.rules[0].require[1].label.
	Field *field.Path
	// Document is the field of data.clusters[name] that has the key: "labels", "annotations", or "properties"; or DocumentScores. Name is
	// the key itself.
	Document, Name string
}

// Comparisons returns the requirements and preferences of rules, in the order of the rules; of each rule, the requirements come first.
func Comparisons(rules []placementv1.Rule) (out []Compared) {
	for i, rule := range rules {
		at, nodes := field.NewPath("spec", "rules").Index(i), rule.Candidates == placementv1.RuleCandidatesNodes
		for j, q := range rule.Require {
			out = append(out, Compared{q, at.Child("require").Index(j), false, nodes})
		}
		for j, p := range rule.Prefer {
			out = append(out, Compared{p.Requirement, at.Child("prefer").Index(j), true, nodes})
		}
	}
	return out
}

// Spreads returns the labels and properties of clusters over whose values rules spread objects, in the order of the rules.
func Spreads(rules []placementv1.Rule) (out []Key) {
	for i, rule := range rules {
		if s := rule.Spread; s != nil && rule.Candidates != placementv1.RuleCandidatesNodes {
			at := field.NewPath("spec", "rules").Index(i).Child("spread")
			if key, ok := keyOf(placementv1.Subject{Label: s.Label, Property: s.Property}, at); ok {
				out = append(out, key)
			}
		}
	}
	return out
}

// Key returns the key that the comparison reads; ok is false if it reads a field or a resource.
func (c Compared) Key() (key Key, ok bool) { return keyOf(c.Subject, c.Field) }

// keyOf returns the key of a subject, which is at the given path; ok is false if the subject is a field or a resource.
func keyOf(s placementv1.Subject, at *field.Path) (key Key, ok bool) {
	for _, one := range []struct{ name, document, key string }{
		{"label", "labels", s.Label}, {"annotation", "annotations", s.Annotation}, {"property", "properties", s.Property},
		{"score", DocumentScores, s.Score},
	} {
		if one.key != "" {
			return Key{at.Child(one.name), one.document, one.key}, true
		}
	}
	return Key{}, false
}

// Path returns the path of the compared value below data.clusters[name]. If there is a list, its items are compared. The path of a free
// quantity, which clusters do not have, is that of the allocatable quantity. The path of a score is below DocumentScores. For nodes, the
// path is "labels" and the key of the label, also for the fields region and zone, or just "name".
func (c Compared) Path() []string {
	switch s := c.Subject; {
	case c.OfNodes && s.Field != placementv1.ClusterFieldName:
		return []string{"labels", nodeLabel(s)}
	case s.Label != "":
		return []string{"labels", s.Label}
	case s.Annotation != "":
		return []string{"annotations", s.Annotation}
	case s.Property != "":
		return []string{"properties", s.Property}
	case s.Allocatable != "" || s.Free != "":
		return []string{"allocatable", s.Allocatable + s.Free}
	case s.Score != "":
		return []string{DocumentScores, s.Score}
	case s.Field == placementv1.ClusterFieldZone:
		return []string{"zones"}
	default:
		return []string{string(s.Field)}
	}
}

// Noun names what is compared, as in "label env" or "field region".
func (c Compared) Noun() string {
	for _, one := range []struct{ noun, key string }{
		{"label", c.Label}, {"annotation", c.Annotation}, {"property", c.Property}, {"allocatable", c.Allocatable},
		{"free", c.Free}, {"score", c.Score},
	} {
		if one.key != "" {
			return one.noun + " " + one.key
		}
	}
	return "field " + string(c.Requirement.Field)
}

// Ordered returns the type that a comparison by order, or a proportional one, reads values as. ok is false for other comparisons.
func (c Compared) Ordered() (as placementv1.ValueType, ok bool) {
	return valueType(c.Requirement), requirementIsOrdered(c.Operator) || c.Proportional()
}

// Proportional reports whether the clusters are compared with each other, and not with values.
func (c Compared) Proportional() bool { return isProportional(c.Operator) }

// Reads reports whether a comparison by order can read a text as a value of a type.
func Reads(as placementv1.ValueType, text string) bool {
	switch as {
	case placementv1.ValueTypeVersion:
		return isVersion(text)
	case placementv1.ValueTypeQuantity:
		_, err := numeral.Quantity(text)
		return err == nil && quantities.MatchString(text)
	default:
		return numbers.MatchString(text)
	}
}
