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
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Required returns the requirements of the i-th rule of a list, with their paths; none if the rule does not give clusters.
func Required(list []placementv1.Rule, i int) []Compared {
	if !GivesClusters(list[i]) {
		return nil
	}
	at := field.NewPath("spec", "rules").Index(i).Child("require")
	out := make([]Compared, len(list[i].Require))
	for j, q := range list[i].Require {
		out[j] = Compared{Requirement: q, Field: at.Index(j)}
	}
	return out
}

// MayMeet reports whether a cluster that has these values at the path Path may meet the requirement or preference. It returns true if that
// depends on the object, or on what changes at any time: whether the cluster is ready, its free resources, and its scores. A cluster never
// has more free than allocatable.
func (c Compared) MayMeet(values []string) bool {
	bounded := c.Operator == placementv1.OperatorGt || c.Operator == placementv1.OperatorGte
	if c.ValueFrom != nil && len(values) > 0 || c.Requirement.Field == placementv1.ClusterFieldReady || c.Score != "" ||
		c.Free != "" && !bounded {
		return true
	}
	isValue := func(v string) bool { return slices.Contains(c.Values, v) }
	switch c.Operator {
	case placementv1.OperatorExists:
		return len(values) > 0
	case placementv1.OperatorDoesNotExist:
		return len(values) == 0
	case placementv1.OperatorIn:
		return slices.ContainsFunc(values, isValue)
	case placementv1.OperatorNotIn:
		return c.ValueFrom != nil || !slices.ContainsFunc(values, isValue)
	}
	order := condition{operator: c.Operator, values: c.Values, as: valueType(c.Requirement)}
	return slices.ContainsFunc(values, func(v string) bool { return !order.rejects(v) })
}

// CanBeMet reports whether one cluster may meet all of the requirements: none is certain to contradict the others on the same value.
func CanBeMet(require []placementv1.Requirement) bool {
	all := requirementConditions(require, nil, false)
	return !slices.ContainsFunc(all, func(c condition) bool {
		return !canBeMet(slices.DeleteFunc(slices.Clone(all), func(a condition) bool { return a.subject != c.subject || !a.valid() }))
	})
}
