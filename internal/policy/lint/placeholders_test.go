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
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

func TestPlaceholders(t *testing.T) {
	const no = "Berth substitutes no variables: "
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	tests := map[string]struct {
		version placementv1.RegoVersion
		body    string
		want    []string
	}{
		"Kyverno": {v1, `annotations["a"] := "{{ request.object.metadata.labels.team || 'platform' }}"`, []string{"p.rego:2:21: " + no + `"{{ request.object`}},
		"Message": {v1, `errors contains "{{request.name}} is no name" if input.x`, []string{no}},
		"Sprintf": {v1, `errors contains sprintf("{{ input.metadata.name }}: %d", [1])`, []string{no}},
		"Assigned": {v1, `annotations["a"] := x if {
	x := "{{ request.namespace }}"
}`, []string{"p.rego:3:7: " + no}},
		"Helper": {v1, `annotations["a"] := team
team := "{{ element.name }}"`, []string{"p.rego:3:9: " + no}},
		"Else": {v1, `annotations["a"] := "b" if {
	input.x
} else := "{{ input.y }}"`, []string{no}},
		"Declared": {v1, `annotations["a"] := "{{ team }}" if team
team := input.metadata.labels.team`, []string{no}},
		"Call":       {v1, `annotations["a"] := "{{ to_upper(request.object.kind) }}"`, []string{no}},
		"Dollar":     {v1, `annotations["a"] := "${input.metadata.name}-x"`, []string{no}},
		"DollarCEL":  {v1, `annotations["a"] := "$(object.metadata.name)"`, []string{no}},
		"Scheduling": {v1, `scheduling.priorityClassName := lower("{{request.object.metadata.name}}")`, []string{no}},
		"InObject":   {v1, `annotations := {"a": "{{ request.name }}"}`, []string{no}},
		"V0":         {v0, `annotations["a"] = "{{ request.name }}" { input.x }`, []string{no}},
		"V0Assigned": {v0, `errors[msg] { msg = "{{ request.name }}" }`, []string{no}},
		"GoTemplate": {v1, `annotations["a"] := "{{- with secret \"db/creds\" -}}{{ .Data.username }}{{ end }}"`, nil},
		"GoVariable": {v1, `annotations["a"] := "{{ $labels.instance }} {{ range $i, $x := .spec.items }}{{ else }}{{ end }}"`, nil},
		"TemplateKeyword": {v1, `annotations["a"] := "{{ end }}" if {
	end := input.x
	end > 1
}`, nil},
		"OtherEngine":    {v1, `annotations["a"] := "{{workflow.name}}"`, nil},
		"ApplicationSet": {v1, `annotations["a"] := "{{metadata.labels.environment}}/{{ metadata.annotations.tier }}"`, nil},
		"Metadata":       {v1, `annotations["a"] := "{{ metadata.name }}"`, []string{no}},
		"Environment":    {v1, `annotations["a"] := "$(POD_NAME) ${HOME}"`, nil},
		"JSON":           {v1, `annotations["a"] := "{\"a\": {\"b\": {}}}"`, nil},
		"Compared":       {v1, `errors contains "no template" if contains(input.metadata.name, "{{ request.name }}")`, nil},
		"ComparedBySome": {v1, `errors contains "no template" if {
	some v in input.metadata.annotations
	v == "{{ request.name }}"
}`, nil},
		"ComparedInClosed": {v1, `errors contains x if {
	x := sprintf("%d", [count({v | some v in input.a; contains(v, "{{ input.x }}")})])
}`, nil},
		"Key": {v1, `annotations["a"] := input.metadata.annotations["{{ input.x }}"]`, nil},
		"Unused": {v1, `labels := {}
x := "{{ request.name }}"`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			policytest.Warned(t, policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n"), tc.want...)
		})
	}
}
