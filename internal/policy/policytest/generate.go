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

// Package policytest generates policies and documents for tests that compare two ways to compute a decision.
package policytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Generator generates policies, documents, and changes of documents. Its bytes determine every choice. The meaning of
// the bytes must not change, so that a corpus entry that once revealed an error continues to reproduce it. Therefore
// newer constructs are generated only if Wide is set.
type Generator struct {
	// Bytes are the bytes that have not been used yet.
	Bytes []byte
	// Wide enables the constructs that were added later.
	Wide bool
	// Judging enables calls of predicates.
	Judging bool
	// V0 reports whether the policy is written in Rego v0. Policy sets it.
	V0 bool
	// variables are the variables in scope.
	variables []string
	counter   int            // the number of variables so far
	helpers   []string       // the names of the rules so far
	texts     []string       // the names of the rules whose value is a string
	functions map[string]int // the arity of each function so far, by name
	depth     int            // how deeply terms and statements are nested; beyond a maximum, terms are references
	// closed is the number of enclosing constructs in which Rego allows no new variable, such as `not`; 0 where one may be bound.
	closed int
}

// Pick returns a number from 0 to n-1, and uses up a byte; 0 if no bytes are left.
func (g *Generator) Pick(n int) int {
	if len(g.Bytes) == 0 {
		return 0
	}
	b := g.Bytes[0]
	g.Bytes = g.Bytes[1:]
	return int(b) % n
}

// Of returns one of several texts.
func (g *Generator) Of(choices ...string) string { return choices[g.Pick(len(choices))] }

// one returns the result of one of the functions. It calls only that one, because each of them may bring variables into scope.
func (g *Generator) one(choices ...func() string) string { return choices[g.Pick(len(choices))]() }

// bound returns what write generates, which then binds no variable outside of comprehensions, for positions in which Rego allows no
// binding.
func (g *Generator) bound(write func() string) string {
	g.closed++
	defer func() { g.closed-- }()
	return g.scoped(write)
}

// fresh returns the name of a new variable, which is not in scope yet.
func (g *Generator) fresh() string {
	g.counter++
	return fmt.Sprintf("v%d", g.counter)
}

// bind brings a variable into scope, and returns it.
func (g *Generator) bind(v string) string {
	g.variables = append(g.variables, v)
	return v
}

// fresher brings a new variable into scope, and returns its name.
func (g *Generator) fresher() string { return g.bind(g.fresh()) }

// variable returns the name of a variable in scope, one of the four newest; "input.a" if there is none.
func (g *Generator) variable() string {
	if len(g.variables) == 0 {
		return "input.a"
	}
	return g.variables[len(g.variables)-1-g.Pick(min(len(g.variables), 4))]
}

// scoped returns what write generates. Its variables go out of scope at its end.
func (g *Generator) scoped(write func() string) string {
	outer := slices.Clone(g.variables)
	out := write()
	g.variables = outer
	return out
}

// constant generates a constant term.
func (g *Generator) constant() string {
	return g.Of(`"a"`, `"b"`, "1", "true", "false", "null", "{}", "[]", `{"a": 1}`, `[1, "a"]`, "0", `"c"`)
}

// place generates a reference into the input, the data, or the value of a variable or rule. If Judging is set, it may generate a call of a
// predicate instead. It may bind variables.
func (g *Generator) place() string {
	if g.Judging && g.Pick(5) == 0 {
		return g.judged()
	}
	var out string
	switch g.Pick(14) {
	case 0, 1, 2, 3:
		out = "input" + g.Of(".a", ".b", ".c", ".a", ".b", ".c", ".a", ".b", ".c", "")
	case 4, 5, 6, 7:
		out = g.variable()
	case 8:
		out = "data.kubernetes.nodes[" + g.key() + "]"
	case 9:
		out = "data.kubernetes.pods[" + g.key() + "][" + g.key() + "]"
	case 10:
		out = g.Of("data.acme", "data.clusters["+g.key()+"]", "data.clusters", "data.kubernetes.nodes", "nodes", "meta")
		if g.Wide && strings.HasSuffix(out, "]") {
			out += g.Of("", ".labels")
		}
	case 11:
		if len(g.helpers) > 0 {
			return "data.p." + g.helpers[g.Pick(len(g.helpers))] + g.path()
		}
		out = "input.b"
	default:
		if len(g.helpers) == 0 {
			out = "input.c"
			break
		}
		out = g.helpers[g.Pick(len(g.helpers))]
	}
	return out + g.path()
}

// judged generates a call of a predicate, or a reference into its result.
func (g *Generator) judged() string {
	of := g.one(func() string { return "input" }, func() string { return "input" }, func() string { return "input.c" },
		g.variable, func() string {
			return g.Of(`{"metadata": input.metadata, "spec": input.spec}`, `object.union(input, {"metadata": {"labels": {"a": "a"}}})`,
				`{"spec": {"nodeSelector": {"a": "b"}}}`)
		})
	candidates := g.one(func() string { return `"*"` }, func() string { return `"*"` }, func() string { return `["a", "c"]` },
		func() string { return g.Of(`{"matchLabels": {"a": "b"}}`, "input.b", `{"a", "b"}`, "[]") }, g.variable)
	out := "k8s.feasible(" + of + ", " + candidates + ")"
	if g.Pick(2) == 0 {
		out = "k8s.feasible_clusters(" + of + ", " + g.Of("1", "3", "count(input.b)") + ", " + candidates + ")"
	}
	switch g.Pick(4) {
	case 0:
		return out
	case 1:
		return out + g.Of(".a", ".b", ".c")
	default:
		name := g.Of(".a", ".b", ".c")
		if g.closed == 0 && g.Pick(3) == 0 {
			name = "[_]"
		}
		return out + name + g.Of(".feasible", ".feasible", ".replicas", ".reasons", ".predicate")
	}
}

// path generates the rest of a reference, of up to three parts.
func (g *Generator) path() string {
	var out strings.Builder
	for range g.Pick(4) {
		if g.Pick(3) > 0 {
			out.WriteString(g.Of(".a", ".b", ".c"))
			continue
		}
		out.WriteString("[" + g.key() + "]")
	}
	return out.String()
}

// key generates the text between the brackets of a reference. It may bring a variable into scope.
func (g *Generator) key() string {
	choice := g.Pick(12)
	if g.closed > 0 && (choice == 3 || choice == 4 || choice > 9) {
		choice = 0
	}
	switch choice {
	case 0, 1:
		return g.Of(`"a"`, `"b"`)
	case 2:
		return g.Of("0", "-1", "1", `"0"`, "1.0", "null", "true", `["a"]`, `{"a"}`)
	case 3, 4:
		return "_"
	case 5, 6:
		return g.variable()
	case 7, 8:
		if len(g.texts) > 0 {
			return g.texts[g.Pick(len(g.texts))]
		}
		return `"c"`
	case 9:
		return g.Of("input.a", "input.b.c", "input")
	default:
		if g.V0 || g.Pick(2) == 0 {
			return g.fresher()
		}
		return `"a"`
	}
}

// term generates a term.
func (g *Generator) term() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 4 {
		return g.place()
	}
	switch g.Pick(20) {
	case 0:
		return g.constant()
	case 1:
		return g.call()
	case 2:
		return fmt.Sprintf("object.get(%s, %s, %s)", g.place(), g.Of(`"a"`, `["a", "b"]`, `["b", 0]`, "[]", g.key0(), "["+g.key0()+"]"),
			g.Of("{}", `"a"`, "null"))
	case 14:
		return fmt.Sprintf("object.get(%s, %s, %s)", g.place(), g.Of(`"a"`, g.key0()), g.place())
	case 3:
		return "[" + g.term() + ", " + g.term() + "]"
	case 4:
		return "{" + g.Of(`"a"`, g.variable()) + ": " + g.term() + "}"
	case 5:
		return "{" + g.term() + "}"
	case 6, 7:
		return g.comprehension()
	case 8:
		return fmt.Sprintf("%s(%s)", g.Of("count", "object.keys", "type_name", "is_object", "is_string", "json.marshal", "sort", "sum",
			"to_number", "upper"), g.place())
	case 9:
		return fmt.Sprintf(`sprintf("%%v", [%s])`, g.term())
	case 10:
		return fmt.Sprintf("%s(%s, %s)", g.Of("object.union", "array.concat", "object.filter", "object.remove", "json.filter", "concat"),
			g.place(), g.one(g.place, func() string { return `["a"]` }))
	case 11:
		return fmt.Sprintf("(%s == %s)", g.place(), g.term())
	case 12:
		if g.V0 {
			return g.place()
		}
		return fmt.Sprintf(`$"x{%s}"`, g.place())
	case 13:
		return fmt.Sprintf("%s in %s", g.one(func() string { return `"a"` }, g.place), g.place())
	default:
		return g.place()
	}
}

// key0 generates the text between the brackets of a reference, without a new variable.
func (g *Generator) key0() string { return g.Of(`"a"`, "0", g.variable(), "input.a") }

// call generates a call of one of the functions so far; a reference if there is none.
func (g *Generator) call() string {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range g.functions {
			if !yield(name) {
				return
			}
		}
	})
	if len(names) == 0 {
		return g.place()
	}
	name := names[g.Pick(len(names))]
	arguments := make([]string, g.functions[name])
	for i := range arguments {
		arguments[i] = g.one(g.place, g.place, g.term)
	}
	return name + "(" + strings.Join(arguments, ", ") + ")"
}

// comprehension generates an array, set, or object comprehension.
func (g *Generator) comprehension() string {
	return g.scoped(func() string {
		body := strings.Join(g.body(1+g.Pick(2)), "; ")
		switch g.Pick(3) {
		case 0:
			return "[" + g.term() + " | " + body + "]"
		case 1:
			return "{" + g.term() + " | " + body + "}"
		default:
			return "{" + g.Of(`"a"`, g.variable()) + ": " + g.term() + " | " + body + "}"
		}
	})
}

// body generates n statements, each as one text, which may have several expressions.
func (g *Generator) body(n int) []string {
	var out []string
	for range n {
		out = append(out, g.statement())
	}
	return out
}

// statement generates an expression of a body, or a few that belong together.
func (g *Generator) statement() string {
	g.depth++
	defer func() { g.depth-- }()
	switch choice := g.Pick(28); choice {
	case 0, 1, 2, 3:
		t := g.term()
		return g.fresher() + " := " + t
	case 4, 5:
		t := g.place()
		return g.fresher() + " = " + t
	case 6:
		return g.variable() + " = " + g.term()
	case 7, 8:
		t := g.place()
		v := g.fresher()
		return "some " + v + " in " + t + "; _ = " + v
	case 9:
		t := g.place()
		v, w := g.fresher(), g.fresher()
		return "some " + v + ", " + w + " in " + t + "; _ = " + v + "; _ = " + w
	case 10, 11:
		return g.place()
	case 12:
		return "not " + g.bound(g.place)
	case 13:
		return "not " + g.bound(func() string {
			return g.one(g.call, func() string { return g.place() + " == " + g.term() })
		})
	case 14, 15:
		return g.place() + g.Of(" == ", " = ", " != ", " < ") + g.term()
	case 16:
		t := g.place()
		return g.pattern(t)
	case 17:
		c := g.call()
		if !strings.HasSuffix(c, ")") || !strings.HasPrefix(c, "f") {
			return c
		}
		// The call's output operand is a new variable, one that is already in scope, or a constant.
		return c[:len(c)-1] + ", " + g.one(g.fresher, g.fresher, g.variable, g.constant) + ")"
	case 18:
		t := g.place()
		return "walk(" + t + ", " + g.one(
			func() string { return "[" + g.fresher() + ", " + g.fresher() + "]" }, g.fresher,
			func() string { return `[["a"], ` + g.fresher() + "]" }) + ")"
	case 19:
		if g.depth > 3 {
			return g.place()
		}
		t := g.place()
		return g.scoped(func() string {
			names := g.fresher()
			if g.Pick(2) == 0 {
				names += ", " + g.fresher()
			}
			return "every " + names + " in " + t + " { " + strings.Join(g.body(1+g.Pick(2)), "; ") + " }"
		})
	default:
		return g.rarer(choice)
	}
}

// rarer generates one of the less common statements, by the choice that statement made, from 20: one with a `with`, one with `some` and no
// `in`, a comparison of calls or of variables, or a check of a type.
func (g *Generator) rarer(choice int) string {
	switch choice {
	case 20, 21:
		return g.one(g.place,
			func() string { return "not " + g.bound(g.place) },
			func() string {
				t := g.place()
				return g.fresher() + " := " + t
			}) + g.bound(g.with)
	case 22:
		v := g.fresher()
		if g.V0 {
			return g.place() + "[" + v + "]; " + g.place() + "[" + v + "]"
		}
		return "some " + v + "; " + g.place() + "[" + v + "]; " + g.place() + "[" + v + "]"
	case 23:
		return g.call() + g.Of(" == ", " != ") + g.call()
	case 24:
		return g.variable() + " == " + g.variable()
	case 25:
		// A variable is bound once and compared later, or unified twice, which also compares.
		t, u := g.place(), g.place()
		v := g.fresher()
		return v + " = " + t + "; " + g.Of(v+" = "+u, u+" = "+v, v+" == "+u, "not "+v+" == "+g.bound(g.place), "["+v+", _] = "+u)
	case 26:
		c, d := g.call(), g.call()
		if !strings.HasPrefix(c, "f") || !strings.HasPrefix(d, "f") {
			return c + " == " + d
		}
		v := g.fresher()
		return c[:len(c)-1] + ", " + v + "); " + d[:len(d)-1] + ", " + v + ")"
	default:
		return fmt.Sprintf("%s(%s)", g.Of("is_object", "is_array", "is_null", "is_number"), g.place())
	}
}

// pattern generates an equation of a term with a pattern of variables.
func (g *Generator) pattern(of string) string {
	v, w := g.fresher(), g.fresher()
	if g.Pick(2) == 0 {
		g.variables = slices.DeleteFunc(g.variables, func(x string) bool { return x == w })
		w = g.variable()
	}
	pattern := g.Of("["+v+", "+w+"]", `{"a": `+v+`, "b": `+w+`}`, "[["+v+"], "+w+"]", `{"a": {"b": `+v+`}, "b": `+w+`}`)
	return pattern + g.Of(" = ", " := ") + of
}

// with generates a `with` and its target and value.
func (g *Generator) with() string {
	if g.Judging && g.Pick(8) == 0 {
		return " with " + g.Of("k8s.feasible as f1", "object.union as k8s.feasible", "data.clusters as {}", "k8s.feasible_clusters as {}")
	}
	switch g.Pick(8) {
	case 0, 1:
		return " with input as " + g.place()
	case 2, 3:
		return " with input" + g.Of(".a", ".a.b", ".b", ".c.a") + " as " + g.Of(g.place(), g.constant())
	case 4:
		return " with data" + g.Of(".kubernetes.nodes", ".kubernetes.nodes.a", ".kubernetes.nodes.a.b", ".acme", ".clusters") + " as " + g.place()
	case 5:
		if len(g.texts) > 0 {
			return " with data.p." + g.texts[g.Pick(len(g.texts))] + " as " + g.Of(`"b"`, `"c"`, g.place())
		}
		return " with input as {}"
	case 6:
		if len(g.helpers) > 0 {
			return " with data.p." + g.helpers[g.Pick(len(g.helpers))] + " as " + g.Of(g.place(), g.constant())
		}
		return " with input as {}"
	default:
		return " with " + g.Of("count as 1", "f0 as f1", "object.get as f1", "data.p.f0 as data.p.f1", "is_object as f0",
			"type_name as json.marshal")
	}
}

// when returns a body with braces and the keyword around it, as a rule has it after its head.
func (g *Generator) when(body string) string {
	if g.V0 {
		return " {\n\t" + body + "\n}"
	}
	return " if {\n\t" + body + "\n}"
}

// name generates the text between the brackets in the head of a rule: "a" in quotes, or a variable in scope.
func (g *Generator) name() string {
	return g.bound(func() string { return g.one(func() string { return `"a"` }, g.variable) })
}

// kinds returns the number of kinds of rules from which the generator chooses. There are more if Wide is set, except in Rego v0.
func (g *Generator) kinds() int {
	if g.Wide && !g.V0 {
		return 7
	}
	return 5
}

// rule generates a rule with a name. kind is the number of its kind, below the result of kinds: 0 for a complete rule, which may have an
// `else`, 1 for a partial set, 2 and 3 for a partial object, 4 for a complete rule without a body, and more for members of members.
func (g *Generator) rule(name string, kind int) string {
	if kind == 4 {
		return name + g.Of(" := ", " = ") + g.bound(func() string { return g.one(g.place, g.term) })
	}
	return g.scoped(func() string {
		body := strings.Join(g.body(1+g.Pick(3)), "\n\t")
		// Most values are constants. Otherwise the analysis would treat most fields as read completely.
		value := g.bound(func() string {
			return g.one(g.term, g.variable, g.place, g.constant, g.constant, g.constant, g.constant, g.constant)
		})
		condition := g.when(body)
		equals := g.Of(" := ", " = ")
		switch kind {
		case 5:
			return name + "[" + g.name() + "] contains " + value + condition
		case 6:
			return name + "[" + g.name() + "]" + g.Of(".a", `["b"]`, "[0]") + equals + value + condition
		case 0:
			out := name + equals + value + condition
			if g.Pick(3) == 0 {
				otherwise := g.scoped(func() string {
					b := strings.Join(g.body(1+g.Pick(2)), "\n\t")
					return " else" + equals + g.bound(g.term) + g.Of("", g.when(b))
				})
				out += otherwise
			}
			return out
		case 1:
			if g.V0 {
				return name + "[" + value + "]" + condition
			}
			return name + " contains " + value + condition
		case 2:
			return name + "[" + g.bound(func() string { return g.one(func() string { return `"a"` }, g.variable, g.place) }) + "]" +
				equals + value + condition
		default:
			return name + "." + g.Of("a", "b") + equals + value + condition
		}
	})
}

// function generates a function.
func (g *Generator) function(name string, arity int) string {
	return g.scoped(func() string {
		head := make([]string, arity)
		for i := range head {
			head[i] = g.one(g.fresher, g.fresher, g.fresher, g.fresher, g.fresher, g.fresher, g.fresher,
				func() string { return g.Of("_", `"a"`, g.variable()) },
				func() string { return "[" + g.fresher() + ", _]" }, func() string { return `{"a": ` + g.fresher() + "}" })
		}
		arguments := "(" + strings.Join(head, ", ") + ")"
		parameters := slices.Clone(g.variables)
		body := strings.Join(g.body(1+g.Pick(3)), "\n\t")
		condition := g.when(body)
		switch g.Pick(5) {
		case 0:
			g.variables = slices.Clone(parameters)
			return name + arguments + " := " + g.bound(func() string { return g.one(g.place, g.variable, g.term) })
		case 1:
			out := name + arguments + " = " + g.bound(g.term) + condition
			g.variables = slices.Clone(parameters)
			return out + " else = " + g.bound(g.term)
		case 2:
			return name + arguments + condition
		default:
			return name + arguments + " = " + g.bound(func() string { return g.one(g.place, g.variable, g.term) }) + condition
		}
	})
}

// Policy generates a whole policy, in Rego v0 or v1: a package, imports, functions, and rules.
func (g *Generator) Policy() string {
	g.V0 = g.Pick(5) == 0
	g.functions = map[string]int{}
	out := []string{"package p"}
	if g.V0 {
		out = append(out, "import future.keywords.in\nimport future.keywords.every")
	}
	out = append(out, "import data.kubernetes.nodes\nimport input.a as meta")
	if g.Pick(2) == 0 {
		out = append(out, `t0 := "a"`)
		g.texts = append(g.texts, "t0")
	}
	if g.Pick(3) == 0 {
		condition := map[bool]string{true: "{ input.a }", false: "if input.a"}[g.V0]
		out = append(out, "default t1 := \"a\"\nt1 := \"b\" "+condition)
		g.texts = append(g.texts, "t1")
	}
	for i := range g.Pick(4) {
		name := fmt.Sprintf("f%d", i)
		arity := 1 + g.Pick(2)
		out = append(out, g.function(name, arity))
		if g.Pick(4) == 0 {
			out = append(out, g.function(name, arity))
		}
		if g.Wide && !g.V0 && g.Pick(4) == 0 {
			out = append(out, fmt.Sprintf("default %s(%s) := %s", name, strings.Repeat("_, ", arity-1)+"_", g.constant()))
		}
		g.functions[name] = arity
	}
	for i := range g.Pick(4) {
		name := fmt.Sprintf("h%d", i)
		kind := g.Pick(g.kinds())
		if kind == 0 && g.Pick(3) == 0 {
			out = append(out, "default "+name+" := "+g.constant())
		}
		out = append(out, g.rule(name, kind))
		if g.Pick(4) == 0 {
			out = append(out, g.rule(name, kind))
		}
		g.helpers = append(g.helpers, name)
	}
	annotations, errors := "annotations", "errors"
	if g.Wide {
		annotations, errors = "made", "said"
	}
	for range 1 + g.Pick(2) {
		switch g.Pick(4) {
		case 0:
			out = append(out, g.rule(annotations, 4))
		case 1:
			out = append(out, g.rule(annotations, 2))
		default:
			out = append(out, g.rule(errors, 1))
		}
	}
	if g.Wide {
		out = append(out, g.show(strings.Join(out, "\n"))...)
	}
	return strings.Join(out, "\n\n") + "\n"
}

// show generates contract rules with the values of all other rules in the text, whatever their types, and one rule that reads an input
// field that no other rule reads.
func (g *Generator) show(text string) []string {
	out := []string{`labels := {"id": input.id}`}
	for _, name := range append([]string{"made", "said", "t0", "t1"}, g.helpers...) {
		if !strings.Contains("\n"+text, "\n"+name) {
			continue
		}
		if g.V0 {
			out = append(out, fmt.Sprintf(`annotations[%q] = {"is": %s} { true }`, name, name))
			continue
		}
		out = append(out, fmt.Sprintf(`annotations[%q] := {"is": %s}`, name, name))
	}
	return out
}

// document generates a value of at most some depth. Its members have few distinct names, so that policies often find them.
func (g *Generator) document(depth int) any {
	kind := g.Pick(12)
	if depth <= 0 {
		kind %= 6
	}
	switch kind {
	case 0:
		return g.Of("a", "b", "c", "")
	case 1:
		return float64(g.Pick(3))
	case 2:
		return g.Pick(2) == 0
	case 3:
		return []any{nil, map[string]any{}, []any{}, 1.5}[g.Pick(4)]
	case 4, 5:
		return "a"
	case 6, 7:
		list := make([]any, g.Pick(4))
		for i := range list {
			list[i] = g.document(depth - 1)
		}
		return list
	default:
		return g.Object(depth)
	}
}

// Object generates an object of at most some depth, whose members have few distinct names. It may be empty, but not nil.
func (g *Generator) Object(depth int) map[string]any {
	out := map[string]any{}
	var last any
	for _, name := range []string{"a", "b", "c", "0"} {
		if g.Pick(4) == 0 || (name == "0" && g.Pick(3) > 0) {
			continue
		}
		// Repeat some values, because policies compare members.
		if len(out) == 0 || g.Pick(3) > 0 {
			last = g.document(depth - 1)
		}
		out[name] = last
	}
	return out
}

// Change returns a copy of a document in which one or a few places are generated again, so that it nearly always differs from the document.
// The copy shares the parts that are unchanged with the document.
func (g *Generator) Change(document any) any {
	if g.Pick(6) == 0 {
		return g.document(2)
	}
	switch d := document.(type) {
	case map[string]any:
		out := maps.Clone(d)
		name := g.Of("a", "b", "c", "d", "0")
		switch member, ok := out[name]; {
		case !ok:
			out[name] = g.document(2)
		case g.Pick(4) == 0:
			delete(out, name)
		case g.Pick(4) == 0:
			out[g.Of("a", "b", "c")] = member
		default:
			out[name] = g.Change(member)
		}
		return out
	case []any:
		out := slices.Clone(d)
		if len(out) == 0 || g.Pick(4) == 0 {
			return append(out, g.document(1))
		}
		i := g.Pick(len(out))
		if g.Pick(4) == 0 {
			return slices.Delete(out, i, i+1)
		}
		out[i] = g.Change(out[i])
		return out
	}
	return g.document(1)
}

// RandomBytes returns enough bytes for a policy and its documents. Equal seeds give equal bytes.
func RandomBytes(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, 4000)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}
