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
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

// body returns a clause of the rule errors with the given expressions.
func body(expressions ...string) string {
	return `errors contains "x" if {
	` + strings.Join(expressions, "\n\t") + "\n}"
}

// logicTest is a policy with parts of the warnings that it must cause.
type logicTest struct {
	text string
	// data is spec.data. v0 reports whether the policy is written in Rego v0.
	data string
	v0   bool
	want []string
}

func testLogic(t *testing.T, tests map[string]logicTest) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			version := placementv1.RegoV1
			if tc.v0 {
				version = placementv1.RegoV0
			}
			spec := policytest.SpecOf(version, "package p\n"+tc.text+"\n")
			if tc.data != "" {
				spec.Data = &apiextensionsv1.JSON{Raw: []byte(tc.data)}
			}
			policytest.Warned(t, spec, tc.want...)
		})
	}
}
