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

package replication

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// AddOnPlacementScores is the type of the scores that add-ons of Open Cluster Management report of a cluster, in the namespace with the
// name of the cluster.
var AddOnPlacementScores = schema.GroupVersionResource{
	Group: "cluster.open-cluster-management.io", Version: "v1alpha1", Resource: "addonplacementscores",
}

// Scores returns the scores of each cluster in some AddOnPlacementScores: for each cluster's name a map from
// "<AddOnPlacementScore>/<score>", the name that rules use, to the value.
func Scores(objects []*unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, o := range objects {
		scores, _, _ := unstructured.NestedSlice(o.Object, "status", "scores")
		for _, score := range scores {
			member, _ := score.(map[string]any)
			name, ok := member["name"].(string)
			if !ok {
				continue
			}
			if out[o.GetNamespace()] == nil {
				out[o.GetNamespace()] = map[string]any{}
			}
			out[o.GetNamespace()][o.GetName()+"/"+name] = member["value"]
		}
	}
	return out
}

var validity = projection.Fields("status.validUntil")

// ValidityFields returns the fields in which objects of a type say until when they are valid. ok is false for types whose objects are
// always valid.
func ValidityFields(resource schema.GroupVersionResource) (fields *projection.FieldSet, ok bool) {
	if resource != AddOnPlacementScores {
		return nil, false
	}
	return validity, true
}

// Valid returns an object without what is no longer valid at the time now, and the time until which the result is valid; zero for always.
// Only AddOnPlacementScores lose their scores, after the time in status.validUntil; Open Cluster Management ignores them then, too. The
// object is not changed.
func Valid(resource schema.GroupVersionResource, obj *unstructured.Unstructured,
	now time.Time) (valid *unstructured.Unstructured, until time.Time) {
	if resource != AddOnPlacementScores {
		return obj, time.Time{}
	}
	text, _, _ := unstructured.NestedString(obj.Object, "status", "validUntil")
	until, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return obj, time.Time{}
	case until.After(now):
		return obj, until
	}
	valid = obj.DeepCopy()
	unstructured.RemoveNestedField(valid.Object, "status", "scores")
	return valid, time.Time{}
}
