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

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	c := newChecker([]rule{
		{phrase: `walks? the plank`, unless: `walks the plank of`, in: prose, instead: `"is removed"`},
		{phrase: `(?-i:Aye) [a-z]+`, in: comments, instead: `"yes"`},
		{phrase: `ahoy`, in: literals, instead: `"hello"`},
		{phrase: `bosun`, in: prose, instead: `"leader"`},
	}, []exception{
		{files: `docs/sea\.md`, phrase: `walks the plank`, reason: "quotes it"},
	}, map[string]string{"crow": `"watcher"`})
	for name, tt := range map[string]struct {
		file, text string
		want       []string
	}{
		"comment":                       {"a.go", "package a\n\n// It walks the plank.\n", []string{`a.go:3: "walks the plank": write "is removed" instead`}},
		"comment over two lines":        {"a.go", "package a\n\n// It walks\n// the plank.\n", []string{`a.go:3: "walks the plank": write "is removed" instead`}},
		"block comment":                 {"a.go", "package a\n/*\nIt walks the\nplank.\n*/", []string{`a.go:3: "walks the plank": write "is removed" instead`}},
		"comments with code between":    {"a.go", "package a\n\nvar x = 1 // walks\nvar y = 2 // the plank\n", nil},
		"string":                        {"a.go", "package a\n\nconst x = `walks the plank`\n", []string{`a.go:3: "walks the plank": write "is removed" instead`}},
		"string of a test":              {"a_test.go", "package a\n\nconst x = `walks the plank`\n", nil},
		"string of a test's framework":  {"test/a.go", "package a\n\nconst x = `walks the plank`\n", nil},
		"string between comments":       {"a.go", "package a\n\n// It walks\nconst x = `the plank`\n", nil},
		"phrase of strings":             {"a_test.go", "package a\n\nconst x = \"Ahoy\" // ahoy\n", []string{`a_test.go:3: "Ahoy": write "hello" instead`}},
		"part of a word":                {"a.md", "He walks the planks.\n", nil},
		"upper case":                    {"a.md", "Walk the PLANK.\n", []string{`a.md:1: "Walk the PLANK": write "is removed" instead`}},
		"upper case alone":              {"a.go", "package a\n\n// aye it is. Aye it is.\n", []string{`a.go:3: "Aye it": write "yes" instead`}},
		"continued as what is allowed":  {"a.md", "He walks the plank of wood.\n", nil},
		"exception":                     {"docs/sea.md", "He walks the plank.\n", nil},
		"exception for another file":    {"docs/sea.md.md", "He walks the plank.\n", []string{`docs/sea.md.md:1: "walks the plank": write "is removed" instead`}},
		"exception for another phrase":  {"docs/sea.md", "They walk the plank.\n", []string{`docs/sea.md:1: "walk the plank": write "is removed" instead`}},
		"shell":                         {"hack/a.sh", "#!/bin/sh\n# Walk\n#  the plank.\n", []string{`hack/a.sh:2: "Walk the plank": write "is removed" instead`}},
		"Makefile":                      {"Makefile", "all: ## Walk the plank.\n", []string{`Makefile:1: "Walk the plank": write "is removed" instead`}},
		"YAML":                          {"config/a.yaml", "a: b # the bosun's\n", []string{`config/a.yaml:1: "bosun": write "leader" instead`}},
		"Rego":                          {"a.rego", "# The bosun.\n", []string{`a.rego:1: "bosun": write "leader" instead`}},
		"TypeScript":                    {"a.ts", "/** A function\n * walks the plank. */\nconst x = 'Ahoy', bosun = 1;\n", []string{`a.ts:2: "walks the plank": write "is removed" instead`, `a.ts:3: "Ahoy": write "hello" instead`, `a.ts:3: "bosun": write "leader" instead`}},
		"text of an element":            {"a.tsx", "const x = <p>It walks the\n  plank.</p>;\n", []string{`a.tsx:1: "walks the plank": write "is removed" instead`}},
		"test in TypeScript":            {"a.test.ts", "// aye. Aye sir.\ntest(`ahoy`);\n", []string{`a.test.ts:1: "Aye sir": write "yes" instead`, `a.test.ts:2: "ahoy": write "hello" instead`}},
		"HTML":                          {"a.html", "<p>The bosun</p>\n", []string{`a.html:1: "bosun": write "leader" instead`}},
		"other file":                    {"go.sum", "walks the plank", nil},
		"comment that names a variable": {"a.go", "package a\n\n// bosun is a variable.\nvar bosun int\n", nil},
		"identifier":                    {"a.go", "package a\n\nvar oldCrow, other int\nvar _ = oldCrow\n", []string{`a.go:3: "oldCrow": write "watcher" instead`}},
		"identifier after an acronym":   {"a.go", "package a\n\nfunc HTTPCrow() {}\n", []string{`a.go:3: "HTTPCrow": write "watcher" instead`}},
		"part of an identifier":         {"a.go", "package a\n\nvar crowd, Microwave int\n", nil},
		"name of a file":                {"ship/crow_nest.go", "package ship\n", []string{`ship/crow_nest.go:1: "crow_nest.go": write "watcher" instead`}},
		"several, in order":             {"a.md", "The bosun\n\nwalks the plank. A bosun.\n", []string{`a.md:1: "bosun": write "leader" instead`, `a.md:3: "bosun": write "leader" instead`, `a.md:3: "walks the plank": write "is removed" instead`}},
		"long comment":                  {"a.go", "package a\n\n// " + strings.Repeat("a ", 69) + "a\n", []string{`a.go:3: "142 columns": write at most 140 columns instead`}},
		"long comment after code":       {"a.go", "package a\n\nvar x int // " + strings.Repeat("a ", 69) + "a\n", nil},
		"long marker":                   {"a.go", "package a\n\n// +a " + strings.Repeat("a ", 69) + "a\n", nil},
		"code that does not compile":    {"a.go", "package a\n\nconst x = \"\n// A bosun.\n", []string{`a.go:4: "bosun": write "leader" instead`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range c.check(tt.file, []byte(tt.text)) {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRules checks that each rule finds its phrase, and that the advice of no rule violates another one.
func TestRules(t *testing.T) {
	c := newChecker(rules, exceptions, bannedNames)
	for text, want := range map[string]int{
		"pods are not to be had":                1,
		"how a policy fares":                    1,
		"the policy that it is about":           1,
		"what it is about to do":                0,
		"it takes about a minute":               0,
		"Berth puts it right":                   1,
		"the policy is put right":               1,
		"Who sees that waits":                   1,
		"clients who wait":                      0,
		"a wish of somebody else":               1,
		"a result that nobody reads":            1,
		"the version that is in force":          0,
		"the API server asks about each object": 1,
		"the API server asks Berth about it":    1,
		"what the engine is to have":            1,
	} {
		if got := c.check("a.go", []byte("package a\n\n// "+text+".\n")); len(got) != want {
			t.Errorf("%q: got %v, want %d findings", text, got, want)
		}
	}
	for _, r := range rules {
		if got := c.check("a.md", []byte(r.instead)); r.instead == "" || len(got) > 0 {
			t.Errorf("the advice %q for %q: %v", r.instead, r.phrase, got)
		}
	}
	for _, e := range exceptions {
		if e.reason == "" {
			t.Errorf("the exception for %q has no reason", e.phrase)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	const header = "/*\nA license.\n*/\n"
	for file, text := range map[string]string{
		"hack/boilerplate.go.txt":   header,
		"licensed.go":               header + "\npackage a\n",
		"constrained.go":            "//go:build linux\n\n" + header + "\npackage a\n",
		"unlicensed.go":             "package a\n",
		"constrained_unlicensed.go": "//go:build linux\n\npackage a\n",
		"attached.go":               header + "package a\n",
		"stale.go":                  header + "\npackage a\n\n// See otherNames.\nvar x int\n",
		"README.md":                 "It starts anew.\n",
		"ignored.md":                "It starts anew.\n",
		"testdata/README.md":        "It starts anew.\n",
		"a/testdata/README.md":      "It starts anew.\n",
		".gitignore":                "ignored.md\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "init", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out strings.Builder
	found, err := run(dir, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := `README.md:1: "anew": write "again" instead
attached.go:1: no license header: insert hack/boilerplate.go.txt
constrained_unlicensed.go:1: no license header: insert hack/boilerplate.go.txt
stale.go:7: "otherNames": write a name that exists (rules.go lists those of other projects) instead
unlicensed.go:1: no license header: insert hack/boilerplate.go.txt
`
	if diff := cmp.Diff(want, out.String()); diff != "" || found != 5 {
		t.Errorf("%d findings (-want +got):\n%s", found, diff)
	}
}

func TestVocabulary(t *testing.T) {
	known := newVocabulary([]string{"otherShip"})
	for file, text := range map[string]string{
		"ship/hull.go":      "package ship\n\n// seaWeed floats.\ntype Hull struct{ keelLength int }\n\nconst x = \"bowSprit\"\n",
		"ship/hull_test.go": "package ship_test\n\nvar MainMast int\n",
		"ship.yaml":         "anchorChain: 1\n",
		"test/boat/oar.go":  "package boat\n",
		"ship.png":          "seaGull\x00",
	} {
		known.add(file, []byte(text))
	}
	for name, tt := range map[string]struct {
		comment string
		want    []string
	}{
		"words":                         {"// A hull floats.", nil},
		"identifier":                    {"// The keelLength is positive.", nil},
		"plural":                        {"// All keelLengths are positive.", nil},
		"word of a string":              {"// The bowSprit.", nil},
		"word of another file":          {"// The anchorChain.", nil},
		"another project's":             {"// The otherShip.", nil},
		"unknown":                       {"// The\n// seaWeed floats.", []string{"seaWeed"}},
		"unknown, exported":             {"// The SeaWeed floats.", []string{"SeaWeed"}},
		"unknown, after code":           {"var y int // The seaWeed.", []string{"seaWeed"}},
		"word of a binary file":         {"// The seaGull.", []string{"seaGull"}},
		"other case":                    {"// The KeelLength.", []string{"KeelLength"}},
		"selector":                      {"// A ship.Hull, and a ship.MainMast.", nil},
		"selector, unknown":             {"// A ship.Wheel.", []string{"ship.Wheel"}},
		"selector of a foreign package": {"// A boat.SeaWeed.", nil},
		"method":                        {"// See Hull.keelLength.", nil},
		"method, unknown":               {"// See Hull.seaWeed.", []string{"Hull.seaWeed"}},
		"path of a field":               {"// See spec.seaWeed.", nil},
		"path and flag":                 {"// See docs/seaWeed and --seaWeed.", nil},
		"marker":                        {"// +kubebuilder:seaWeed", nil},
		"example":                       {"//\tseaWeed()", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range known.check("a.go", []byte("package a\n\n"+tt.comment+"\n")) {
				got = append(got, f.phrase)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
