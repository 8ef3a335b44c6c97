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

package migration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/migration"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/test/budget"
)

// plainOPA returns the modules and the data of an OPA as kube-mgmt loads them: all modules in one compiler, all
// documents in one store.
func plainOPA(configMaps []corev1.ConfigMap) (*ast.Compiler, map[string]any, error) {
	modules := map[string]*ast.Module{}
	data := map[string]any{}
	for _, cm := range configMaps {
		for key, text := range cm.Data {
			if cm.Labels["openpolicyagent.org/data"] == "opa" {
				var value map[string]any
				if json.Unmarshal([]byte(text), &value) != nil || value == nil {
					continue
				}
				ofNamespace, _ := data[cm.Namespace].(map[string]any)
				if ofNamespace == nil {
					ofNamespace = map[string]any{}
					data[cm.Namespace] = ofNamespace
				}
				ofConfigMap, _ := ofNamespace[cm.Name].(map[string]any)
				if ofConfigMap == nil {
					ofConfigMap = map[string]any{}
					ofNamespace[cm.Name] = ofConfigMap
				}
				ofConfigMap[key] = value
				continue
			}
			id := cm.Namespace + "/" + cm.Name + "/" + key
			parsed, err := ast.ParseModuleWithOpts(id, text, ast.ParserOptions{RegoVersion: ast.RegoV1})
			if err != nil {
				parsed, err = ast.ParseModuleWithOpts(id, text, ast.ParserOptions{RegoVersion: ast.RegoV0})
			}
			if err != nil {
				return nil, nil, err
			}
			if parsed == nil {
				return nil, nil, errors.New("no package")
			}
			modules[id] = parsed
		}
	}
	compiler := ast.NewCompiler()
	if compiler.Compile(modules); compiler.Failed() {
		return nil, nil, compiler.Errors
	}
	return compiler, data, nil
}

// decide evaluates the contract rules of a package. An error is a result, too, because a rule may conflict with itself.
func decide(ctx context.Context, compiler *ast.Compiler, pkg string, data map[string]any, input any) map[string]string {
	out := map[string]string{}
	for _, rule := range language.ContractRules {
		results, err := rego.New(
			rego.Compiler(compiler), rego.Query("x = "+pkg+"."+rule), rego.Store(inmem.NewFromObject(data)), rego.Input(input),
		).Eval(ctx)
		switch {
		case err != nil:
			out[rule] = "error"
		case len(results) > 0:
			text, err := json.Marshal(results[0].Bindings["x"])
			out[rule] = fmt.Sprint(string(text), err)
		}
	}
	return out
}

// compare evaluates the original modules in OPA and the converted policy, compares the decisions, and returns the
// decision.
func compare(ctx context.Context, t *testing.T, original *ast.Compiler, documents map[string]any, p migration.Policy, cluster map[string]any, input any) map[string]string {
	t.Helper()
	compiled, err := policy.Compile(p.Object.Name, p.Object.Spec)
	if err != nil {
		t.Fatalf("what was converted does not compile: %v", err)
	}
	data := maps.Clone(documents)
	data["kubernetes"] = cluster
	own := map[string]any{}
	if p.Object.Spec.Data != nil {
		if err := json.Unmarshal(p.Object.Spec.Data.Raw, &own); err != nil {
			t.Fatal(err)
		}
	}
	own["kubernetes"] = cluster
	want := decide(ctx, original, compiled.Package.String(), data, input)
	got := decide(ctx, compiled.Compiler, compiled.Package.String(), own, input)
	if ctx.Err() != nil {
		return nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions for %v (-OPA +policy):\n%s\n%s", input, diff, p.Object.Spec.Rego)
	}
	return want
}

// The library's modules in current Rego, with its newer features.
const (
	mainV1 = `package placement.main

import data.lib.text
import data.lib.text.prefixed as with_prefix

labels[concat("/", ["example.com", "x"])] := "y" if false

labels[key] := value if {
	some name, value in input.metadata.labels
	key := with_prefix("seen", name)
}

errors contains text.message(name, input.metadata.name) if {
	some name in data.lib.text["forbidden"]
	every letter in split(name, "") {
		contains(input.metadata.name, letter)
	}
	not text.excused[name] with input as input.metadata
}

warnings contains msg if {
	msg := {m | some m in text.hint.long.winded}[_]
}

annotations := object.union(text.defaults, {"a": data.conf.d["x.json"].a}) if {
	text.hint.short == "s"
} else := text.defaults
`
	textV1 = `package lib.text

forbidden contains x if some x in data.conf.d["x.json"].forbidden

prefixed(p, x) := sprintf("%s.example.com/%s", [p, x])

message(x, y) := m if {
	forbidden[x]
	m := sprintf("%s may not be in %s", [x, y])
}

excused contains name if {
	some name in forbidden
	input.labels.excused == name
}

hint.short := "s" if input.metadata.labels.customer == "acme"

hint.long.winded contains x if {
	forbidden := ["mine"]
	some x in array.concat(forbidden, [input.metadata.namespace])
}

default defaults := {"a": "none"}

defaults := {"a": data.other.lib.deep} if input.metadata.labels.tier
`
	deepV1 = `package other.lib

deep := upper(input.metadata.labels.tier)
`
)

// Two modules of one package. Each has names that mean something else in the other.
const (
	oneV1 = `package p

import data.conf.first
import data.lib

labels["one"] := second if second := first["x.json"].name

labels["two"] := lib.pick(first["x.json"].name)

third := "rule"
`
	twoV1 = `package p

import data.conf.second as fourth

labels["three"] := name if name := fourth["x.json"].name

labels["four"] := third

labels["five"] := data.lib.pick(third)
`
	pickV1 = `package lib

pick(name) := concat("-", [name, suffix, input.metadata.name])

suffix := "s"
`
)

func worlds() map[string][]corev1.ConfigMap {
	return map[string][]corev1.ConfigMap{
		"Seed": {policies("n", "seed", "policy.rego", seedConflicts)},
		"LibraryV0": {
			policies("opa", "placement", "main.rego", mainV0, "errors.rego", errorsV0),
			policies("opa", "lib", "regions.rego", regionsV0),
			data("opa", "customers", "customers.json", customers),
		},
		"LibraryV1": {
			policies("a", "main", "main.rego", mainV1), policies("b", "text", "text.rego", textV1), policies("b", "deep", "deep.rego", deepV1),
			data("conf", "d", "x.json", `{"a": [1, {"b": null}], "forbidden": ["ab", "x"]}`),
		},
		"Neighbours": {
			policies("n", "one", "one.rego", oneV1), policies("n", "two", "two.rego", twoV1), policies("n", "pick", "pick.rego", pickV1),
			data("conf", "first", "x.json", `{"name": "1"}`), data("conf", "second", "x.json", `{"name": "2"}`),
		},
	}
}

func TestSameDecisions(t *testing.T) {
	cluster := map[string]any{"clusters": map[string]any{
		"c1": map[string]any{"status": map[string]any{"region": "eu"}},
		"c2": map[string]any{"status": map[string]any{"region": "EU"}},
		"c3": map[string]any{"status": map[string]any{"region": "us"}},
	}}
	for name, configMaps := range worlds() {
		t.Run(name, func(t *testing.T) {
			result := migration.Convert(configMaps, options())
			if len(result.Policies) != 1 {
				t.Fatalf("findings: %v", result.Findings)
			}
			original, documents, err := plainOPA(configMaps)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			distinct := map[string]bool{}
			for range 100 {
				distinct[fmt.Sprint(compare(t.Context(), t, original, documents, result.Policies[0], cluster, randomObject(random)))] = true
			}
			if len(distinct) < 3 {
				t.Errorf("%d decisions differ: the inputs show nothing", len(distinct))
			}
		})
	}
}

func randomObject(r *rand.Rand) any {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	labels, annotations := map[string]any{}, map[string]any{}
	for _, key := range []string{"customer", "tier", "excused"} {
		if r.IntN(3) > 0 {
			labels[key] = pick("acme", "globex", "nobody", "ab", "x")
		}
	}
	if r.IntN(3) > 0 {
		annotations["replica-set-preferences"] = pick(`["c1"]`, `["c1","c3"]`, `[]`, `{"a":"c2"}`, `no JSON`)
	}
	metadata := map[string]any{"name": pick("abx", "x", "a", "bab"), "namespace": pick("n", "m")}
	if r.IntN(4) > 0 {
		metadata["labels"] = labels
	}
	if r.IntN(4) > 0 {
		metadata["annotations"] = annotations
	}
	return map[string]any{"kind": pick("Deployment", "ReplicaSet"), "metadata": metadata}
}

// FuzzConvert checks the conversion of arbitrary ConfigMaps. Every key must be in a policy or have a finding. Every
// policy must compile and decide as OPA does.
func FuzzConvert(f *testing.F) {
	for _, seed := range [][3]string{
		{seedConflicts, "package lib", "{}"}, {mainV0, regionsV0, customers}, {errorsV0, regionsV0, "[]"}, {mainV1, textV1, `{"forbidden": ["x"]}`},
		{`package p

import data.l as x

labels := x.y`, `package l

y := {"a": x} if x := 1 else := y if false`, "null"},
		{`package p.q

labels[l.f(1)] = data.l.y { data.l.y with data.l.z as 1 }`, `package p.q

import data.l
f(x) = x
errors[x] { l.f(_, x) }`, `{"a": 1}`},
		{`package p
labels := {k: v | some k, v in data.l.y}
# package p`, "package l\ny contains x if some x in [`a\npackage b`]\ny contains _ if false", ""},
		{`package a.b
errors contains $"{data.l.f(1)} x" if data.l.f(2)`, `package l
f(f) := f`, "{}"},
	} {
		f.Add(seed[0], seed[1], seed[2], `{"metadata": {"name": "abx", "labels": {"customer": "acme"}}}`)
		f.Add(seed[1], seed[0], seed[2], `{}`)
	}
	f.Fuzz(func(t *testing.T, first, second, document, object string) {
		configMaps := []corev1.ConfigMap{policies("n", "p", "a.rego", first, "b.rego", second), data("n", "d", "x.json", document)}
		result := migration.Convert(configMaps, options())
		if diff := cmp.Diff(result, migration.Convert(configMaps, options())); diff != "" {
			t.Fatalf("the second time (-first +second):\n%s", diff)
		}
		checkComplete(t, configMaps, result)
		var input any
		if json.Unmarshal([]byte(object), &input) != nil {
			input = map[string]any{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		original, documents, err := plainOPA(configMaps)
		if err != nil {
			// kube-mgmt would not have loaded one of the modules; which one depends on their order.
			return
		}
		for _, p := range result.Policies {
			compare(ctx, t, original, documents, p, map[string]any{}, input)
		}
	})
}

// checkComplete checks that each key has an outcome, and that each policy has its own name and modules.
func checkComplete(t *testing.T, configMaps []corev1.ConfigMap, result migration.Result) {
	t.Helper()
	outcomes := map[string]map[migration.Outcome]bool{}
	for _, f := range result.Findings {
		if outcomes[f.Source.String()] == nil {
			outcomes[f.Source.String()] = map[migration.Outcome]bool{}
		}
		outcomes[f.Source.String()][f.Outcome] = true
	}
	for _, cm := range configMaps {
		for key := range cm.Data {
			id := cm.Namespace + "/" + cm.Name + "/" + key
			got := outcomes[id]
			if !got[migration.Converted] && !got[migration.LeftOut] && !got[migration.Unneeded] {
				t.Errorf("nothing is said of %s: %v", id, result.Findings)
			}
			inPolicy := false
			for _, p := range result.Policies {
				for source := range strings.FieldsSeq(p.Object.Annotations[migration.ModulesAnnotation]) {
					inPolicy = inPolicy || source == id
				}
			}
			if document := cm.Labels["openpolicyagent.org/data"] != ""; !document && inPolicy != got[migration.Converted] {
				t.Errorf("%s is in a policy: %v; findings: %v", id, inPolicy, result.Findings)
			}
		}
	}
	names := map[string]bool{}
	for _, p := range result.Policies {
		if names[p.Object.Name] || p.Object.Name == "" || p.Object.Spec.Mode != placementv1.ModeDryRun {
			t.Errorf("policy %q, twice: %v, mode %s", p.Object.Name, names[p.Object.Name], p.Object.Spec.Mode)
		}
		names[p.Object.Name] = true
	}
}

// word matches a name that a module of a library defines, imports, or binds.
var word = regexp.MustCompile(`\b(` + strings.Join(strings.Fields(`
	allowed clusters customers errors home known message name names region regions same short unused
	deep defaults excused forbidden hint key lib main msg prefixed text value with_prefix x y
	first second third fourth pick suffix lib`), "|") + `)\b`)

// TestSameDecisionsOfMutants replaces some words in modules by other words of the same modules. For example, imports
// and variables then hide rules, and rules have the names of imports. Modules that can still be converted must decide
// as in OPA.
func TestSameDecisionsOfMutants(t *testing.T) {
	cluster := map[string]any{"clusters": map[string]any{"c1": map[string]any{"status": map[string]any{"region": "eu"}}}}
	rounds, compared := budget.Rounds(60), 0
	if n, err := strconv.Atoi(os.Getenv("MIGRATION_MUTANTS")); err == nil {
		rounds = n
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range rounds {
		configMaps := worlds()[[]string{"LibraryV0", "LibraryV1", "Neighbours"}[random.IntN(3)]]
		mutate(random, configMaps)
		result := migration.Convert(configMaps, options())
		checkComplete(t, configMaps, result)
		original, documents, err := plainOPA(configMaps)
		if err != nil {
			continue
		}
		for _, p := range result.Policies {
			for range 3 {
				compare(t.Context(), t, original, documents, p, cluster, randomObject(random))
			}
			compared++
		}
		if t.Failed() {
			for _, cm := range configMaps {
				for key, text := range cm.Data {
					t.Logf("%s/%s/%s:\n%s", cm.Namespace, cm.Name, key, text)
				}
			}
			return
		}
	}
	t.Logf("%d of %d mutants compared", compared, rounds)
	if compared < rounds/20 {
		t.Errorf("%d of %d mutants can be compared: they show nothing", compared, rounds)
	}
}

func mutate(r *rand.Rand, configMaps []corev1.ConfigMap) {
	var words, places []string
	for i, cm := range configMaps {
		for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
			if cm.Labels["openpolicyagent.org/policy"] != "" {
				words = append(words, word.FindAllString(cm.Data[key], -1)...)
				places = append(places, fmt.Sprintf("%d/%s", i, key))
			}
		}
	}
	for range 1 + r.IntN(3) {
		index, key, _ := strings.Cut(places[r.IntN(len(places))], "/")
		i, _ := strconv.Atoi(index)
		text := configMaps[i].Data[key]
		at := word.FindAllStringIndex(text, -1)
		from := at[r.IntN(len(at))]
		old, other := text[from[0]:from[1]], words[r.IntN(len(words))]
		if r.IntN(2) == 0 {
			// Replace the word everywhere in this module.
			text = regexp.MustCompile(`\b`+old+`\b`).ReplaceAllString(text, other)
		} else {
			text = text[:from[0]] + other + text[from[1]:]
		}
		configMaps[i].Data[key] = text
	}
}
