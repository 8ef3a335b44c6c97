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

package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/pattern"
	"github.com/berth-dev/berth/internal/policy"
)

func text(n int) *ast.Term { return ast.StringTerm(strings.Repeat("a", n)) }

func number(digits int) *ast.Term { return ast.NewTerm(ast.Number(strings.Repeat("9", digits))) }

// listOf returns a list that contains one value n times.
func listOf(n int, of *ast.Term) *ast.Term {
	terms := make([]*ast.Term, n)
	for i := range terms {
		terms[i] = of
	}
	return ast.ArrayTerm(terms...)
}

// numbers returns n different numbers to which OPA gives the same hash.
func numbers(n int) *ast.Term {
	terms := make([]*ast.Term, n)
	for i := range terms {
		terms[i] = ast.NewTerm(ast.Number(fmt.Sprintf("0.%d1", i)))
	}
	return ast.ArrayTerm(terms...)
}

func names(n int) []*ast.Term {
	terms := make([]*ast.Term, n)
	for i := range terms {
		terms[i] = ast.StringTerm(fmt.Sprint("n", i))
	}
	return terms
}

// doubled returns a value with few parts that represents a tree of 2^n values.
func doubled(n int) *ast.Term {
	t := ast.ArrayTerm(ast.StringTerm("leaf"))
	for range n {
		t = ast.ArrayTerm(t, t)
	}
	return t
}

func objectOf(k string, v *ast.Term) *ast.Term {
	return ast.ObjectTerm(ast.Item(ast.StringTerm(k), v))
}

func operandsOf(terms ...*ast.Term) []*ast.Term { return terms }

var (
	aNumber = ast.IntNumberTerm(1)
	word    = ast.StringTerm("a")
	keySet  = ast.SetTerm(names(10)...)
	small   = doubled(4)
	hostile = doubled(64)
	thing   = objectOf("a", small)
	huge    = objectOf("a", hostile)
	aText   = text(maxText)
	tooMuch = text(maxText + 1)
)

// limits returns pairs of operands for each guarded function: operands within the limits, and operands beyond them. For
// some functions the second operands are not just above the limit but would take centuries, which shows as well that
// the guard works.
func limits() map[string][][2][]*ast.Term {
	nearlyFull, full, overfull := listOf(maxMembers-1, aNumber), listOf(maxMembers, aNumber), listOf(maxMembers+1, aNumber)
	members := names(maxMembers + 1)
	fullSet, overfullSet := ast.SetTerm(members[:maxMembers]...), ast.SetTerm(members...)
	return map[string][][2][]*ast.Term{
		"and":                       {{{keySet, ast.SetTerm(names(5000)...)}, {keySet, overfullSet}}},
		"array.concat":              {{{nearlyFull, listOf(1, aNumber)}, {full, listOf(1, aNumber)}}},
		"array.flatten":             {{{listOf(1000, listOf(900, aNumber))}, {listOf(1000, listOf(1000, aNumber))}}},
		"array.reverse":             {{{full}, {overfull}}},
		"cast_array":                {{{full}, {overfull}}},
		"cast_set":                  {{{ast.ArrayTerm(names(5000)...)}, {numbers(maxKeys + 1)}}, {{numbers(maxKeys)}, {listOf(maxMembers+1, word)}}},
		"concat":                    {{{ast.StringTerm(""), listOf(1024, text(1024))}, {ast.StringTerm(","), listOf(1024, text(1024))}}, {{word, listOf(2, aNumber)}, {aText, listOf(3, word)}}},
		"equal":                     {{{small, small}, {hostile, hostile}}, {{aText, aText}, {tooMuch, aText}}},
		"glob.match":                {{{text(maxGlob), ast.ArrayTerm(), aText}, {text(maxGlob + 1), ast.ArrayTerm(), word}}},
		"gt":                        {{{small, small}, {small, hostile}}},
		"gte":                       {{{small, small}, {hostile, small}}},
		"indexof":                   {{{aText, text(256)}, {aText, text(257)}}},
		"indexof_n":                 {{{aText, text(256)}, {aText, text(257)}}},
		"internal.member_2":         {{{word, full}, {doubled(8), listOf(maxMembers, word)}}, {{small, hostile}, {hostile, small}}},
		"internal.member_3":         {{{aNumber, word, listOf(2, word)}, {aNumber, hostile, listOf(2, hostile)}}},
		"internal.template_string":  {{{ast.ArrayTerm(ast.SetTerm(small), word)}, {ast.ArrayTerm(ast.SetTerm(hostile), word)}}},
		"intersection":              {{{ast.SetTerm(keySet)}, {ast.SetTerm(keySet, fullSet)}}},
		"json.filter":               {{{thing, ast.ArrayTerm(ast.StringTerm("a/b"))}, {huge, ast.ArrayTerm(ast.StringTerm("a/b"))}}},
		"json.marshal":              {{{small}, {hostile}}, {{listOf(16, aText)}, {listOf(17, aText)}}, {{listOf(maxNodes-1, aNumber)}, {listOf(maxNodes, aNumber)}}},
		"json.marshal_with_options": {{{thing, objectOf("indent", text(10))}, {thing, objectOf("indent", aText)}}, {{small, objectOf("indent", word)}, {hostile, objectOf("indent", word)}}},
		"json.patch": {{{thing, ast.ArrayTerm()}, {huge, ast.ArrayTerm()}},
			{{thing, ast.ArrayTerm()}, {listOf(20_000, aNumber), listOf(1_000, objectOf("op", word))}}},
		"json.remove":                      {{{thing, ast.ArrayTerm(ast.StringTerm("a/b"))}, {huge, ast.ArrayTerm(ast.StringTerm("a/b"))}}},
		"lt":                               {{{small, small}, {hostile, hostile}}},
		"lte":                              {{{small, small}, {hostile, hostile}}},
		"max":                              {{{ast.ArrayTerm(small, small)}, {ast.ArrayTerm(hostile, hostile)}}},
		"min":                              {{{ast.ArrayTerm(small, small)}, {ast.ArrayTerm(hostile, hostile)}}},
		"minus":                            {{{keySet, keySet}, {overfullSet, keySet}}, {{number(numeral.MaxDigits), aNumber}, {number(numeral.MaxDigits + 1), aNumber}}},
		"mul":                              {{{number(numeral.MaxDigits), number(numeral.MaxDigits)}, {number(numeral.MaxDigits), ast.NewTerm(ast.Number("1e4096"))}}},
		"neq":                              {{{small, small}, {hostile, hostile}}},
		"net.cidr_contains_matches":        {{{listOf(300, ast.StringTerm("10.0.0.0/8")), listOf(300, ast.StringTerm("11.0.0.0/8"))}, {listOf(5001, ast.StringTerm("10.0.0.0/8")), listOf(20, ast.StringTerm("11.0.0.0/8"))}}},
		"net.cidr_merge":                   {{{listOf(maxCIDRs, ast.StringTerm("10.0.0.0/8"))}, {listOf(maxCIDRs+1, ast.StringTerm("10.0.0.0/8"))}}},
		"numbers.range":                    {{{aNumber, ast.IntNumberTerm(5000)}, {aNumber, ast.IntNumberTerm(maxMembers + 2)}}, {{aNumber, aNumber}, {ast.IntNumberTerm(maxMembers), ast.IntNumberTerm(-2)}}},
		"numbers.range_step":               {{{aNumber, ast.IntNumberTerm(5_000_000), ast.IntNumberTerm(1000)}, {aNumber, ast.IntNumberTerm(5_000_000), ast.IntNumberTerm(4)}}},
		"object.filter":                    {{{thing, ast.ArrayTerm(names(5000)...)}, {thing, numbers(maxKeys + 1)}}},
		"object.remove":                    {{{thing, ast.ArrayTerm(names(5000)...)}, {thing, numbers(maxKeys + 1)}}},
		"object.subset":                    {{{listOf(5000, aNumber), listOf(5000, word)}, {listOf(20_000, aNumber), listOf(20_000, word)}}, {{thing, thing}, {huge, huge}}},
		"object.union":                     {{{thing, thing}, {huge, huge}}},
		"object.union_n":                   {{{ast.ArrayTerm(thing, thing)}, {ast.ArrayTerm(thing, huge)}}},
		"or":                               {{{keySet, keySet}, {keySet, overfullSet}}},
		"product":                          {{{listOf(16, number(numeral.MaxDigits))}, {listOf(17, number(numeral.MaxDigits))}}},
		"re_match":                         {{{word, aText}, {text(200), aText}}},
		"regex.find_all_string_submatch_n": {{{word, text(4096), aNumber}, {word, text(32 << 10), aNumber}}},
		"regex.find_n":                     {{{word, text(4096), aNumber}, {word, text(32 << 10), aNumber}}},
		"regex.globs_match":                {{{aText, aText}, {ast.StringTerm(strings.Repeat(".*a+", 8)), text(40)}}},
		"regex.is_valid":                   {{{text(pattern.MaxLength)}, {text(pattern.MaxLength + 1)}}},
		"regex.match":                      {{{text(64), aText}, {text(200), aText}}, {{ast.StringTerm("[a-z]([-a-z0-9]{0,61}[a-z0-9])?"), text(63)}, {ast.StringTerm("(a?){1000}"), word}}, {{text(pattern.MaxStates), word}, {text(pattern.MaxStates + 1), word}}},
		"regex.replace":                    {{{text(4096), word, word}, {text(32 << 10), word, word}}, {{text(1023), word, text(1024)}, {text(1023), word, text(maxNodeBytes/1024 + 1)}}},
		"regex.split":                      {{{word, text(4096)}, {word, text(32 << 10)}}},
		"regex.template_match":             {{{text(64), text(1024), ast.StringTerm("{"), ast.StringTerm("}")}, {text(200), aText, ast.StringTerm("{"), ast.StringTerm("}")}}},
		"replace":                          {{{text(1024), word, text(1023)}, {text(1024), word, text(1024)}}, {{text(1000), ast.StringTerm(""), word}, {text(1024), ast.StringTerm(""), text(1024)}}},
		"set_diff":                         {{{keySet, keySet}, {overfullSet, keySet}}},
		"sort":                             {{{ast.ArrayTerm(names(5000)...)}, {ast.ArrayTerm(hostile, hostile)}}, {{listOf(maxNodes-1, aNumber)}, {listOf(maxNodes, aNumber)}}},
		"split":                            {{{aText, word}, {tooMuch, word}}},
		"sprintf": {{{ast.StringTerm("%v %v"), ast.ArrayTerm(small, aNumber)}, {ast.StringTerm("%v %v"), ast.ArrayTerm(hostile, aNumber)}},
			{{ast.StringTerm("%5d %-10s"), ast.ArrayTerm(aNumber, word)}, {ast.StringTerm(strings.Repeat("%999999d", 10)), listOf(10, aNumber)}},
			{{ast.StringTerm("%*d"), ast.ArrayTerm(ast.IntNumberTerm(10), aNumber)}, {ast.StringTerm(strings.Repeat("%[1]*d", 10)), listOf(10, ast.IntNumberTerm(999_999))}},
			{{ast.StringTerm("%[1]s %[1]s"), ast.ArrayTerm(word)}, {ast.StringTerm(strings.Repeat("%[1]s", 10)), ast.ArrayTerm(aText)}}},
		"strings.any_prefix_match": {{{word, listOf(16, aText)}, {word, listOf(17, aText)}}},
		"strings.any_suffix_match": {{{word, listOf(16, aText)}, {listOf(17, aText), word}}},
		"strings.replace_n":        {{{objectOf("a", text(1023)), text(1024)}, {objectOf("a", text(1024)), text(1024)}}, {{objectOf("b", word), aText}, {ast.ObjectTerm(pairs(257)...), aText}}},
		"sum":                      {{{listOf(100, number(numeral.MaxDigits))}, {listOf(100, number(numeral.MaxDigits+1))}}},
		"time.add_date":            {{{aNumber, aNumber, aNumber, aNumber}, {hostile, aNumber, aNumber, aNumber}}},
		"time.clock":               {{{aNumber}, {ast.ArrayTerm(number(numeral.MaxDigits+1), word)}}},
		"time.date":                {{{aNumber}, {ast.ArrayTerm(number(numeral.MaxDigits+1), word)}}},
		"time.diff":                {{{aNumber, aNumber}, {aNumber, ast.ArrayTerm(number(numeral.MaxDigits+1), word)}}},
		"time.format":              {{{aNumber}, {ast.ArrayTerm(number(numeral.MaxDigits+1), word)}}},
		"time.weekday":             {{{aNumber}, {ast.ArrayTerm(number(numeral.MaxDigits+1), word)}}},
		"to_number":                {{{ast.StringTerm("1e300")}, {ast.StringTerm("1." + strings.Repeat("1", numeral.MaxDigits))}}, {{ast.StringTerm("one")}, {ast.StringTerm("1e-99999999999999999999")}}, {{ast.StringTerm("0x1p-9")}, {ast.StringTerm("-0x.8p-999999")}}},
		"trim":                     {{{aText, text(256)}, {aText, text(257)}}},
		"trim_left":                {{{aText, text(256)}, {aText, text(257)}}},
		"trim_right":               {{{aText, text(256)}, {aText, text(257)}}},
		"union":                    {{{ast.SetTerm(keySet, ast.SetTerm(names(5000)...))}, {ast.SetTerm(keySet, fullSet)}}},
		"units.parse":              {{{ast.StringTerm("1.5Gi")}, {ast.StringTerm("1e99999Gi")}}},
		"units.parse_bytes":        {{{ast.StringTerm("1e3MB")}, {ast.StringTerm("1e99999MB")}}},
		"urlquery.encode_object":   {{{objectOf("a", listOf(5000, word))}, {huge}}},
		"walk":                     {{{hostile, ast.ArrayTerm(ast.VarTerm("_"), ast.VarTerm("x"))}, {hostile, ast.ArrayTerm(ast.ArrayTerm(ast.VarTerm("x")), ast.VarTerm("y"))}}},
		"yaml.is_valid":            {{{text(maxYAML)}, {text(maxYAML + 1)}}},
		"yaml.marshal":             {{{small}, {hostile}}},
		"yaml.unmarshal":           {{{text(maxYAML)}, {text(maxYAML + 1)}}},
	}
}

func pairs(n int) [][2]*ast.Term {
	out := make([][2]*ast.Term, n)
	for i, name := range names(n) {
		out[i] = ast.Item(name, word)
	}
	return out
}

// call calls a builtin function until it returns its first value.
func call(name string, operands []*ast.Term) error {
	enough := errors.New("enough")
	guardBuiltins()
	err := topdown.GetBuiltin(name)(topdown.BuiltinContext{}, operands, func(*ast.Term) error { return enough })
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

func TestGuards(t *testing.T) {
	limits := limits()
	for name := range guards {
		if limits[name] == nil {
			t.Errorf("the guard of %s is not tested", name)
		}
	}
	for name, cases := range limits {
		t.Run(name, func(t *testing.T) {
			for i, c := range cases {
				// Other errors than exceeded limits are the function's own.
				if limit, refused := errors.AsType[*engine.LimitError](call(name, c[0])); refused {
					t.Errorf("%d: within the limits: %v", i, limit)
				}
				err := call(name, c[1])
				limit, refused := errors.AsType[*engine.LimitError](err)
				if !refused || limit.Function != name || limit.Size <= limit.Limit {
					t.Fatalf("%d: above the limit: %v", i, err)
				}
				if _, halts := errors.AsType[topdown.Halt](err); !halts {
					t.Errorf("%d: a policy could go on after %v", i, err)
				}
			}
		})
	}
}

// TestEveryFunctionIsGuarded fails if a policy may call a function whose cost was not considered. When you allow
// another function, add a guard or add it to the list below.
func TestEveryFunctionIsGuarded(t *testing.T) {
	// The cost of these functions is linear in strings and numbers or in the members of one collection, or it is constant.
	linear := strings.Fields(`
abs all any array.slice assign base64.decode base64.encode base64.is_valid base64url.decode base64url.encode base64url.encode_no_pad
bits.and bits.negate bits.or bits.rsh bits.xor cast_boolean cast_null cast_object cast_string ceil contains count
crypto.hmac.equal crypto.hmac.md5 crypto.hmac.sha1 crypto.hmac.sha256 crypto.hmac.sha512 crypto.md5 crypto.sha1 crypto.sha256
div endswith eq floor format_int glob.quote_meta hex.decode hex.encode internal.print print
is_array is_boolean is_null is_number is_object is_set is_string json.is_valid json.unmarshal
lower mul net.cidr_contains net.cidr_intersects net.cidr_is_valid net.cidr_overlap object.get object.keys
plus rego.metadata.chain rego.metadata.rule rem round semver.compare semver.is_valid split startswith
strings.count strings.reverse strings.split_n substring time.parse_duration_ns time.parse_ns time.parse_rfc3339_ns
trace trim_prefix trim_space trim_suffix type_name upper uri.is_valid uri.parse
urlquery.decode urlquery.decode_object urlquery.encode uuid.parse
k8s.quantity.add k8s.quantity.sub k8s.quantity.compare`)
	// These functions check the deadline.
	linear = append(linear, "k8s.feasible", "k8s.feasible_clusters")
	// It limits its operands itself, and CEL limits the cost of the expression.
	linear = append(linear, "k8s.cel")
	// They limit their operands and the bytes that they hash themselves.
	linear = append(linear, "k8s.choose_clusters", "k8s.spread_clusters", "k8s.scale")
	judged := map[string]bool{}
	for _, name := range linear {
		if judged[name] = true; guards[name] != nil {
			t.Errorf("%s has a guard", name)
		}
	}
	for _, text := range []string{"package p", "package p\nimport rego.v1"} {
		m, err := policy.Compile("p", v1(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range m.Compiler.Capabilities().Builtins {
			if !judged[b.Name] && guards[b.Name] == nil {
				t.Errorf("%s: nobody says how long it may take", b.Name)
			}
		}
	}
}

// double returns rules of which each doubles the value of the previous one, n times. The type checker does not see it.
func double(n int, first, step string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "x0 := %s\n", first)
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&out, strings.NewReplacer("$", fmt.Sprint("x", i-1), "@", fmt.Sprint("x", i)).Replace(`@ := object.get({"v": `+step+`}, "v", null)`))
	}
	return out.String()
}

// TestHostilePolicies verifies that policies which were written to run forever end at a limit or at the deadline, and
// then free their slot.
func TestHostilePolicies(t *testing.T) {
	ten := `"aaaaaaaaaa"`
	own := map[string]string{"Quantity": "digits", "SharedObject": "values, but the limit is", "LongExpression": "bytes, but the limit is", "CostlyExpression": "cost"}
	for name, rules := range map[string]string{
		"Cartesian":        `errors contains x if { some a in numbers.range(1, 400); some b in numbers.range(1, 400); some c in numbers.range(1, 400); some d in numbers.range(1, 400); x := sprintf("%d", [a + b + c + d]); x == "" }`,
		"SetOfPairs":       `errors contains "x" if count({[a, b, c, d] | some a in numbers.range(1, 400); some b in numbers.range(1, 400); some c in numbers.range(1, 400); some d in numbers.range(1, 400)}) == 0`,
		"StringDoubling":   double(40, ten, `concat("", [$, $])`) + "errors contains x40",
		"ReplaceDoubling":  double(12, ten, `replace($, "a", "aaaaaaaaaa")`) + "errors contains x12",
		"FormatDoubling":   double(40, ten, `sprintf("%s%s", [$, $])`) + "errors contains x40",
		"ArrayDoubling":    double(40, "[1]", `array.concat($, $)`) + `errors contains "x" if count(x40) == 0`,
		"Squaring":         double(40, "1234567890", `$ * $`) + `errors contains sprintf("%d", [x40])`,
		"SharedJSON":       double(60, "[1]", `[$, $]`) + "errors contains json.marshal(x60)",
		"SharedYAML":       double(60, "[1]", `[$, $]`) + "errors contains yaml.marshal(x60)",
		"SharedText":       double(60, "[1]", `[$, $]`) + `errors contains sprintf("%v", [x60])`,
		"SharedTemplate":   double(60, "[1]", `[$, $]`) + `errors contains $"{x60}"`,
		"SharedOrder":      double(60, "[1]", `[$, $]`) + `errors contains "x" if x60 < [x59, x59]`,
		"SharedSort":       double(60, "[1]", `[$, $]`) + `errors contains "x" if count(sort([x60, [x59, x59]])) == 0`,
		"SharedUnion":      double(60, `{"a": 1}`, `{"a": $, "b": $}`) + `errors contains "x" if count(object.union(x60, {"a": x59})) == 0`,
		"SharedResult":     double(60, "[1]", `[$, $]`) + `annotations := {"a": x60}`,
		"SharedWalk":       double(60, "[1]", `[$, $]`) + `errors contains "x" if walk(x60, [[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, "never"], _])`,
		"CollidingKeys":    `errors contains "x" if count(object.remove({}, [y | some i in numbers.range(1, 100000); y := i / 1000000])) == 1`,
		"Union":            `errors contains "x" if count(union({s | some i in numbers.range(1, 400); s := {[i, j] | some j in numbers.range(1, 4000)}})) == 0`,
		"Split":            double(24, ten, `concat("", [$, $])`) + `errors contains "x" if count(split(x24, "a")) == 0`,
		"Unmarshal":        double(24, `"[1],[1],"`, `concat("", [$, $])`) + `errors contains "x" if json.unmarshal(x24)`,
		"Matches":          double(16, ten, `concat("", [$, $])`) + `errors contains "x" if count(regex.find_n("(a*)*b|a", x16, -1)) == 0`,
		"Range":            `errors contains "x" if count(numbers.range(1, 1000000000)) == 0`,
		"Indent":           `errors contains json.marshal_with_options([[[[1]]]], {"indent": sprintf("%999999d", [1])})`,
		"Pad":              `errors contains sprintf("%999999d%999999d%999999d%999999d%999999d", [1, 1, 1, 1, 1])`,
		"YAMLKeys":         `errors contains "x" if yaml.unmarshal(concat("\n", [l | some i in numbers.range(1, 60000); l := sprintf("k%d: v", [i])]))`,
		"SharedObject":     double(60, `{"a": 1}`, `{"a": $, "b": $}`) + `errors contains "x" if k8s.cel("has(object.c)", x60)`,
		"LongExpression":   double(10, ten, `concat("", [$, $])`) + `errors contains "x" if k8s.cel(concat("", ["object.a == '", x10, "'"]), {"a": 1})`,
		"CostlyExpression": `errors contains "x" if k8s.cel("object.a.all(b, object.a.all(c, object.a.all(d, object.a.all(e, b + c + d + e > 0))))", {"a": numbers.range(1, 400)})`,
		"Quantity":         `errors contains "x" if k8s.quantity.compare("1e9999999", "1") == 2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := New(NewData(), Options{Timeout: time.Second, Concurrency: 1})
			ev, _ := prepare(t, e, v1("package p\n"+rules))
			_, err := ev.Evaluate(t.Context(), map[string]any{})
			// OPA hides the errors of functions that are not its own.
			if text := own[name]; text != "" && err != nil && strings.Contains(err.Error(), text) {
				return
			}
			if _, refused := errors.AsType[*engine.LimitError](err); !refused && !errors.Is(err, engine.ErrDeadline) {
				t.Errorf("error %v, want a limit or the deadline", err)
			}
			awaitFree(t, e, 1)
		})
	}
}

// TestGuardsLetPoliciesBe verifies that ordinary policies stay within the limits with 5,000 clusters.
func TestGuardsLetPoliciesBe(t *testing.T) {
	d := NewData()
	d.Replace(profiles.GroupVersionResource, fleet(5000))
	d.Replace(managed.GroupVersionResource, nil)
	e := New(d, Options{Timeout: time.Minute, Concurrency: 1})
	for name, body := range map[string]string{
		"sort":      `count(sort([n | some n, _ in data.clusters])) == 5000`,
		"objects":   `count(sort([c | some c in data.clusters])) == 5000`,
		"union":     `count(union({s | some n, _ in data.clusters; s := {n}})) == 5000`,
		"concat":    `concat(",", [n | some n, _ in data.clusters]) != ""`,
		"keys":      `count(object.remove(data.clusters, [n | some n, _ in data.clusters])) == 0`,
		"merged":    `count(object.union_n([{n: c} | some n, c in data.clusters])) == 5000`,
		"marshal":   `count(json.unmarshal(json.marshal([n | some n, _ in data.clusters]))) == 5000`,
		"sprintf":   `sprintf("%v", [[n | some n, _ in data.clusters]]) != ""`,
		"aggregate": `sum([x | some c in data.clusters; x := count(c.labels)]) > 0`,
		"expressed": `count([n | some n, _ in data.clusters; regex.match("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", n)]) == 5000`,
	} {
		t.Run(name, func(t *testing.T) {
			ev, _ := prepare(t, e, v1(`package p
labels := {"well": "yes"} if `+body))
			if got, err := ev.Evaluate(t.Context(), map[string]any{}); err != nil || got.Labels["well"] != "yes" {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// BenchmarkGuard compares the cost of a guard with the cost of the call.
func BenchmarkGuard(b *testing.B) {
	for _, c := range []struct {
		name     string
		operands []*ast.Term
	}{
		{"startswith", operandsOf(ast.StringTerm("eu-west-1"), ast.StringTerm("eu-"))},
		{"plus", operandsOf(aNumber, aNumber)},
		{"lt", operandsOf(aNumber, aNumber)},
		{"internal.member_2", operandsOf(word, ast.SetTerm(names(50)...))},
		{"sprintf", operandsOf(ast.StringTerm("%s is not in %v"), ast.ArrayTerm(word, ast.ArrayTerm(names(10)...)))},
		{"sort", operandsOf(ast.ArrayTerm(names(1000)...))},
		{"regex.match", operandsOf(ast.StringTerm("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"), ast.StringTerm("eu-west-1"))},
	} {
		// OPA's table contains the guarded functions only. So the guard's cost is measured by calling the guard alone.
		guardBuiltins()
		f := topdown.GetBuiltin(c.name)
		b.Run(c.name+"/guarded", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = f(topdown.BuiltinContext{}, c.operands, func(*ast.Term) error { return nil })
			}
		})
		nothing := guarded(c.name, len(c.operands), func(topdown.BuiltinContext, []*ast.Term, func(*ast.Term) error) error { return nil }, guards[c.name])
		b.Run(c.name+"/guard", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = nothing(topdown.BuiltinContext{}, c.operands, nil)
			}
		})
	}
}

// awaitFree waits until no evaluation is running.
func awaitFree(t *testing.T, e *Engine, slots int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range slots {
		// Each policy takes one slot, which is below its share.
		if !e.slots.acquire(ctx, fmt.Sprint("another", i), "") {
			t.Fatal("a slot is still taken")
		}
	}
	for i := range slots {
		e.slots.release(fmt.Sprint("another", i), "")
	}
}
