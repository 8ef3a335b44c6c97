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
)

// Constant is a value in rules that values of clusters are compared with.
type Constant struct {
	// Field is the field of the rules.
	Field *field.Path
	Value string
	// Path is the path below data.clusters[name] of the value of clusters. If there is a list, its members are compared. It is empty
	// for the name of clusters.
	Path []string
}

// Key is the key of a member of clusters that rules read.
type Key struct {
	// Field is the field of the rules.
	Field *field.Path
	// Document is the field of data.clusters[name] that has the member: "labels" or "properties".
	Document, Name string
	// NoEffect is what the requirement does not do while no cluster has the member, such as "excludes no cluster"; "" if objects are
	// denied then, or if that can be meant.
	NoEffect string
}

// Constants returns the values that rules compare values of clusters with by In and NotIn, and the labels and properties of clusters
// that they read, in the order of the rules.
func Constants(rules []placementv1.Rule) (constants []Constant, keys []Key) {
	requirement := func(q placementv1.Requirement, at *field.Path, noEffect string) {
		for _, k := range keysOf(q.Label, q.Property, at) {
			k.NoEffect = noEffect
			keys = append(keys, k)
		}
		path, ok := comparedPath(q.Subject)
		if !ok || q.Operator != placementv1.OperatorIn && q.Operator != placementv1.OperatorNotIn {
			return
		}
		for i, value := range q.Values {
			constants = append(constants, Constant{Field: at.Child("values").Index(i), Value: value, Path: path})
		}
	}
	for i, rule := range rules {
		if rule.Candidates == placementv1.RuleCandidatesNodes {
			continue
		}
		at := field.NewPath("spec", "rules").Index(i)
		for j, q := range rule.Require {
			noEffect := ""
			if q.Operator == placementv1.OperatorNotIn {
				noEffect = "excludes no cluster"
			}
			requirement(q, at.Child("require").Index(j), noEffect)
		}
		for j, p := range rule.Prefer {
			requirement(p.Requirement, at.Child("prefer").Index(j), "makes no cluster better than others")
		}
		if s := rule.Spread; s != nil {
			keys = append(keys, keysOf(s.Label, s.Property, at.Child("spread"))...)
		}
	}
	return constants, keys
}

func keysOf(label, property string, at *field.Path) []Key {
	switch {
	case label != "":
		return []Key{{Field: at.Child("label"), Document: "labels", Name: label}}
	case property != "":
		return []Key{{Field: at.Child("property"), Document: "properties", Name: property}}
	}
	return nil
}

// comparedPath returns the path below data.clusters[name] of a value that is a string, or a list of strings. ok is false for other
// values.
func comparedPath(s placementv1.Subject) (path []string, ok bool) {
	switch {
	case s.Label != "":
		return []string{"labels", s.Label}, true
	case s.Annotation != "":
		return []string{"annotations", s.Annotation}, true
	case s.Property != "":
		return []string{"properties", s.Property}, true
	case s.Field == placementv1.ClusterFieldName:
		return nil, true
	case s.Field == placementv1.ClusterFieldZone:
		return []string{"zones"}, true
	default:
		return []string{string(s.Field)}, s.Field != "" && s.Field != placementv1.ClusterFieldReady
	}
}
