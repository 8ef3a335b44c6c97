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
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/rules"
)

// TestKeysElsewhere checks what is suggested for a key that clusters have in another document, or as a field.
func TestKeysElsewhere(t *testing.T) {
	for document, keys := range map[string]map[string]string{
		"properties": {
			"region": `no cluster has the property "region"; did you mean field: region?`,
			"level":  `no cluster has the property "level"; did you mean label: level?`,
			"cost":   `no cluster has the property "cost"`,
		},
		"labels": {
			"region": `no cluster has the label "region"; did you mean field: region?`,
			"env":    "",
			"Env":    `no cluster has the label "Env"; did you mean "env"?`,
			"cost":   "",
		},
		"annotations": {"level": `no cluster has the annotation "level"; did you mean label: level?`},
	} {
		for name, want := range keys {
			k := key{Key: rules.Key{Document: document, Name: name}, at: placeOf(field.NewPath("spec"))}
			if got := (population{"cluster", fleet}).compareKey(k); !finds(got, want) {
				t.Errorf("%s %s: got %+v, want %q", document, name, got, want)
			}
		}
	}
}
