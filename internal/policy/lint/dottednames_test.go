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

package lint_test

import (
	"errors"
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

func TestNamesWithoutBrackets(t *testing.T) {
	const brackets = " is unsafe: a name with slashes or hyphens needs brackets: write "
	tests := map[string]struct {
		text string
		want string
		// not is text that the error must not contain.
		not string
	}{
		"Slash":         {text: `labels["a"] := input.metadata.labels.app.kubernetes.io/name`, want: `var name` + brackets + `input.metadata.labels["app.kubernetes.io/name"]`},
		"Hyphen":        {text: body(`input.metadata.labels.cost-center == "a"`), want: `var center` + brackets + `input.metadata.labels["cost-center"]`},
		"Hyphens":       {text: body(`not input.metadata.labels.a-b-c`), want: `var b` + brackets + `input.metadata.labels["a-b-c"]`},
		"Both":          {text: body(`input.metadata.annotations.app.kubernetes.io/part-of == "a"`), want: `var part` + brackets + `input.metadata.annotations["app.kubernetes.io/part-of"]`},
		"Dotted":        {text: body(`input.metadata.labels.example.com/a.b == "a"`), want: `var a` + brackets + `input.metadata.labels["example.com/a.b"]`},
		"OfVariable":    {text: body(`some c in data.clusters`, `c.labels.topology.kubernetes.io/zone == "a"`), want: `c.labels["topology.kubernetes.io/zone"]`},
		"InCall":        {text: `errors contains sprintf("%s", [c.labels.cost-center]) if some c in data.clusters`, want: `c.labels["cost-center"]`},
		"Data":          {text: body(`input.a in data.allowed-regions`), want: `data["allowed-regions"]`},
		"Resource":      {text: body(`some c in input.containers`, `c.resources.limits.nvidia.com/gpu`), want: `c.resources.limits["nvidia.com/gpu"]`},
		"OtherVariable": {text: body(`x == input.metadata.labels.app`), want: "var x is unsafe", not: "brackets"},
		"Beside":        {text: body(`x == input.metadata.labels.cost-center`), want: "var x is unsafe"},
		"Difference":    {text: body(`input.spec.replicas - limit > 3`), want: "var limit is unsafe", not: "brackets"},
		"Quotient":      {text: body(`input.spec.replicas/limit > 3`), want: "var limit is unsafe", not: "brackets"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, "package p\n"+tc.text+"\n"))
			if _, ok := errors.AsType[*policy.CompileError](err); !ok {
				t.Fatalf("error %v, want a compile error", err)
			}
			if !strings.Contains(err.Error(), tc.want) || tc.not != "" && strings.Contains(err.Error(), tc.not) {
				t.Errorf("error %q, want %q, without %q", err, tc.want, tc.not)
			}
		})
	}
}
