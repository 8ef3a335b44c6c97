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
)

func TestComparisons(t *testing.T) {
	const bytes = "units.parse_bytes gives bytes, and 4 is 4 bytes"
	testLogic(t, map[string]logicTest{
		"Lower":         {text: `errors contains "x" if lower(input.a) == "Gold"`, want: []string{`p.rego:2:24: lower(input.a) has only lower-case letters, so that it never equals "Gold": write "gold"`}},
		"Upper":         {text: body(`upper(input.a) != "gold"`), want: []string{`write "GOLD"`}},
		"LowerFlipped":  {text: body(`"Gold" == lower(input.a)`), want: []string{`write "gold"`}},
		"LowerIn":       {text: body(`lower(input.a) in {"gold", "Silver"}`), want: []string{`write "silver"`}},
		"LowerAssigned": {text: body("tier := lower(input.a)", `tier == "Gold"`), want: []string{`write "gold"`}},
		"LowerOfRule":   {text: "tier := lower(input.a)\n" + body(`tier == "Gold"`), want: []string{`write "gold"`}},
		"LowerValue": {text: `gold := lower(input.a) == "Gold"
` + body("gold"), want: []string{`write "gold"`}},
		"LowerPrefix": {text: body(`startswith(lower(input.a), "Prod-")`), want: []string{"never contains"}},
		"LowerNot":    {text: body(`not lower(input.a) == "Gold"`), want: []string{`write "gold"`}},
		"LowerRight":  {text: body(`lower(input.a) == "gold"`, `lower(input.b) in {"Gold", "gold"}`, `lower(input.c) == lower("Gold")`, `input.a == "Gold"`, `contains("Gold", lower(input.a))`)},
		"LowerDigits": {text: body(`upper(input.a) == "A-1"`)},

		"EndsWith":      {text: body(`endswith(":latest", input.image)`), want: []string{`p.rego:3:2: endswith(":latest", input.image)`}},
		"StartsWith":    {text: body("some c in input.containers", `not startswith("registry.example.com/", c.image)`), want: []string{`did you mean startswith(c.image, "registry.example.com/")?`}},
		"EndsWithRight": {text: body(`endswith(input.image, ":latest")`, `startswith(input.a, input.b)`, `contains("abc", input.c)`, `startswith("abc", "a")`)},

		"RegexGlob":    {text: body(`not regex.match("web-*", input.metadata.name)`), want: []string{`"web-*" is a regular expression, which matches wherever a text has "web": write startswith(input.metadata.name, "web-")`}},
		"RegexSwapped": {text: body(`regex.match(input.metadata.name, "^web-")`), want: []string{`did you mean regex.match("^web-", input.metadata.name)?`}},
		"RegexRight":   {text: body(`regex.match("^web-[a-z]*$", input.a)`, `regex.match(input.spec.pattern, input.b)`, `regex.match("web-.*", input.c)`)},

		"NamespaceGlob":     {text: body(`input.metadata.namespace == "prod-*"`), want: []string{`Write startswith(input.metadata.namespace, "prod-")`}},
		"NamespaceIn":       {text: body(`input.metadata.namespace in {"shop", "*-prod"}`), want: []string{`endswith(input.metadata.namespace, "-prod")`}},
		"NamespaceMiddle":   {text: body(`input.metadata.namespace == "a-*-b"`), want: []string{`glob.match("a-*-b", [], input.metadata.namespace)`}},
		"NamespaceCapital":  {text: body(`input.metadata.namespace == "Prod"`), want: []string{"no namespace has this name"}},
		"NamespacePath":     {text: body(`input.metadata.namespace != "team/prod"`), want: []string{"no namespace has this name"}},
		"NamespaceAssigned": {text: body("ns := input.metadata.namespace", `ns == "prod-*"`), want: []string{"comparisons don't know wildcards"}},
		"NamespaceImported": {text: `import input.metadata as meta
ns := input.metadata.namespace
` + body(`ns in ["prod-*"]`), want: []string{"comparisons don't know wildcards"}},
		"NamespacePrefix": {text: body(`startswith(input.metadata.namespace, "prod-*")`), want: []string{`"prod-")`}},
		"Name":            {text: body(`input.metadata.name == "web-*"`), want: []string{"comparisons don't know wildcards"}},
		"NamespaceRight":  {text: body(`input.metadata.namespace == "prod"`, `startswith(input.metadata.namespace, "prod-")`, `glob.match("prod-*", [], input.metadata.namespace)`)},
		"NamespaceEmpty":  {text: body(`input.metadata.namespace != ""`)},
		"NameOfRole":      {text: body(`input.metadata.name == "system:controller"`)},
		"NamePart":        {text: body(`endswith(input.metadata.namespace, "-prod")`, `contains(input.metadata.name, ".")`)},
		"OtherField":      {text: body(`input.spec.hosts[_] == "*"`, `input.metadata.labels.namespace == "*"`)},

		"Bytes":         {text: body("units.parse_bytes(input.memory) > 4"), want: []string{bytes + `: write a quantity with its unit, as in units.parse_bytes("4Gi")`}},
		"BytesFlipped":  {text: body("4 < units.parse_bytes(input.memory)"), want: []string{bytes}},
		"BytesAssigned": {text: body("memory := units.parse_bytes(input.memory)", "memory > 4"), want: []string{bytes}},
		"BytesSum":      {text: body("sum([b | some c in input.containers; b := units.parse_bytes(c.memory)]) >= 4"), want: []string{bytes}},
		"BytesLimit":    {text: "limit := 4\n" + body("units.parse_bytes(input.memory) > limit"), want: []string{bytes}},
		"BytesRight":    {text: body("units.parse_bytes(input.a) > 0", "units.parse_bytes(input.b) > 4294967296", `units.parse_bytes(input.c) > units.parse_bytes("4Gi")`, "units.parse_bytes(input.d) / 1073741824 > 4", "units.parse(input.cpu) > 4", "count([units.parse_bytes(input.e)]) > 1")},
	})
}
