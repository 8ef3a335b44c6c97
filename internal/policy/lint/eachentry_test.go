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

func TestEachEntry(t *testing.T) {
	const always, registries = "is true of every object, because nothing matches all of ", `{"registries": ["registry.example.com/", "ghcr.io/acme/"]}`
	containers := "some c in input.spec.template.spec.containers"
	testLogic(t, map[string]logicTest{
		"StartsWith": {text: body(containers, "some r in data.registries", "not startswith(c.image, r)"), data: registries, want: []string{"p.rego:5:2: not startswith(c.image, r) " + always + "data.registries"}},
		"EndsWith":   {text: body("some r in data.registries", "not endswith(input.a, r)"), data: registries, want: []string{always}},
		"Key":        {text: body("some _, r in data.registries", "not startswith(input.a, r)"), data: registries, want: []string{always}},
		"Object":     {text: body("some r in data.a.b", "not startswith(input.a, r)"), data: `{"a": {"b": {"x": "a", "y": "b"}}}`, want: []string{always}},
		"Head": {text: `errors contains sprintf("%s is not from %s", [input.a, r]) if {
	some r in data.registries
	not startswith(input.a, r)
}`, data: registries, want: []string{always}},
		"V0":       {text: `errors["x"] { r := data.registries[_]; not startswith(input.a, r) }`, data: registries, v0: true, want: []string{always}},
		"Imported": {text: "import data.registries as rs\n" + body("some r in rs", "not startswith(input.a, r)"), data: registries, want: []string{always}},
		"Constant": {text: body(`some r in {"a/", "b/"}`, "not startswith(input.a, r)"), want: []string{always + `{"a/", "b/"}`}},
		"Rule": {text: `allowed := ["a/", "b/"]
` + body("some r in allowed", "not startswith(input.a, r)"), want: []string{always}},
		"Glob":          {text: body("some r in data.globs", "not glob.match(r, [], input.a)"), data: `{"globs": ["ghcr.io/acme/*", "registry.example.com/*"]}`, want: []string{always}},
		"Regex":         {text: body("some r in data.res", "not regex.match(r, input.a)"), data: `{"res": ["^ghcr.io/acme/.*$", "^registry.*"]}`, want: []string{always}},
		"RegexOptional": {text: body("some p in data.res", "not regex.match(p, input.a)"), data: `{"res": ["^ab?", "^ac"]}`},
		"NotEqual":      {text: body(`some r in {"eu", "us"}`, "input.metadata.labels.region != r"), want: []string{"write not input.metadata.labels.region in the collection"}},
		"NotEqualRef":   {text: body("input.region != data.regions[_]"), data: `{"regions": ["eu", "us"]}`, want: []string{always}},
		"NotTheSame":    {text: body("some r in data.regions", "not input.region == r"), data: `{"regions": ["eu", "us"]}`, want: []string{always}},
		"Assigned":      {text: body("region := input.region", "some r in data.regions", "r != region"), data: `{"regions": ["eu", "us"]}`, want: []string{always}},

		"OneEntry":        {text: body("some r in data.registries", "not startswith(input.a, r)"), data: `{"registries": ["a/"]}`},
		"SameEntries":     {text: body("input.region != data.regions[_]"), data: `{"regions": ["eu", "eu"]}`},
		"Prefixes":        {text: body("some r in data.registries", "not startswith(input.a, r)"), data: `{"registries": ["a/", "a/b"]}`},
		"RequiredLabels":  {text: body("some key in data.required", "not input.metadata.labels[key]"), data: `{"required": ["a", "b"]}`},
		"RequiredMembers": {text: body("some a in data.required", "not a in input.xs"), data: `{"required": ["a", "b"]}`},
		"RequiredParts":   {text: body("some word in data.words", "not contains(input.a, word)"), data: `{"words": ["a", "b"]}`},
		"RequiredRegexes": {text: body("some p in data.res", "not regex.match(p, input.a)"), data: `{"res": ["[a-z]", "[0-9]$"]}`},
		"Alternatives":    {text: body("some p in data.res", "not regex.match(p, input.a)"), data: `{"res": ["^a|c", "^b"]}`},
		"Hosts":           {text: body("some h in input.hosts", `h != "x"`)},
		"OfTheObject":     {text: body("some r in input.registries", "not startswith(input.a, r)")},
		"Clusters":        {text: body("some name, _ in data.clusters", "not startswith(input.a, name)")},
		"Forbidden":       {text: body("some r in data.registries", "startswith(input.a, r)"), data: registries},
		"UsedElsewhere":   {text: body("some r in data.registries", "startswith(r, input.b)", "not startswith(input.a, r)"), data: registries},
		"UsedByTheOther":  {text: body("some r in data.registries", "x := input.xs[r]", "x != r"), data: registries},
		"KeyUsed":         {text: body("some i, r in data.registries", "input.i == i", "not startswith(input.a, r)"), data: registries},
		"Member":          {text: body("some r in data.registries", "not startswith(input.a, r.prefix)"), data: `{"registries": [{"prefix": "a"}, {"prefix": "b"}]}`},
		"Pairs":           {text: body("some a in data.regions", "some b in data.regions", "a != b"), data: `{"regions": ["eu", "us"]}`},
		"Every":           {text: body("every r in data.registries { not startswith(input.a, r) }"), data: registries},
		"HelperRule": {text: `ok(x) if {
	some r in data.registries
	startswith(x, r)
}
` + body(containers, "not ok(c.image)"), data: registries},
		"WarningsOfEach": {text: `warnings contains r if {
	some r in data.registries
	not startswith(input.a, r)
}`, data: registries},
	})
}
