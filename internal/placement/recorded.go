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

package placement

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/podscheduling"
)

// Recorded is a value that a policy has set in an object, as the object's record has it.
type Recorded struct {
	Field string `json:"field"`
	Key   string `json:"key"`
	// Policy is the name of the policy that has set the value. It is "" if the record does not name it.
	Policy string `json:"policy,omitempty"`
	// Current is the value in the object, and Requested the one that the developer requested. Each is nil if there is none.
	Current   *string `json:"current"`
	Requested *string `json:"requested"`
}

// RecordedIn returns the values that policies have set in an object, by its record. podSpec is the path of the spec of its pods, and empty
// for an object without pods. The record is not verified: a client that may write the object may have written it.
func RecordedIn(obj *unstructured.Unstructured, podSpec []string) []Recorded {
	r := decodeRecord(obj)
	if r == nil {
		return nil
	}
	var out []Recorded
	for _, field := range fields {
		current := metadataOf(obj, field)
		if field == fieldScheduling {
			// What can't be read is not shown.
			current = readPodSpec(obj, podSpec).flat
		}
		entries := r.of(field)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			value := Recorded{Field: field, Key: key, Policy: entries[key].By, Current: optional(current, key), Requested: entries[key].Requested}
			if podscheduling.IsContribution(key) {
				value.Current = entries[key].Value
			}
			out = append(out, value)
		}
	}
	return out
}
