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

package celexpression_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/celexpression"
)

func TestPaths(t *testing.T) {
	for expression, want := range map[string][]string{
		`has(object.spec.template.labels) && object.spec.template.labels["a"] == "b"`: {"spec.template.labels", "spec.template.labels.a"},
		`object.spec.containers.all(c, c.image != "")`:                                {"spec.containers"},
		`object.?spec.?replicas.orValue(1) > 2 || object.spec.replicas == 3`:          {"spec.replicas"},
		`object == object`:                         nil,
		`"team" in object.metadata.labels`:         {"metadata.labels.team"},
		`object.spec[object.metadata.name] == "x"`: {"metadata.name", "spec"},
		`object.spec.`:                             nil,
	} {
		var got []string
		for _, path := range celexpression.Paths(expression) {
			got = append(got, strings.Join(path, "."))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", expression, diff)
		}
	}
}
