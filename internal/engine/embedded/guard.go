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
	"cmp"
	"strconv"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/numeral"
)

// Limits of the operands of builtin functions. Most of OPA's functions don't check the deadline while they run, so
// limits on their operands keep each call short. Each limit is far above what policies need. It keeps one call to about
// a second, even if a policy is made to take long.
const (
	// maxText limits a string, and a string that is assembled from others, in bytes.
	maxText = 1 << 20
	// maxYAML limits a YAML text in bytes. The time for the keys of a mapping grows with the square of their number.
	maxYAML = 64 << 10
	// maxMembers limits a collection of which only the number of members matters.
	maxMembers = 1_000_000
	// maxKeys limits a list that is converted to a set, unless all of its members are strings. OPA gives many numbers the
	// same hash.
	maxKeys = 4096
	// maxNodes and maxNodeBytes limit a value with everything in it, where each occurrence counts. Values may share parts,
	// so a small one can represent an exponentially large tree.
	maxNodes     = 1_000_000
	maxNodeBytes = 16 << 20
	// maxPairs limits comparisons in functions that compare each member of one operand with each member of another. Above
	// it, they return an error. One comparison takes about a nanosecond.
	maxPairs = 1 << 28
	// maxCIDRPairs and maxCIDRs limit functions of net.cidr, whose single steps take longer.
	maxCIDRPairs = 100_000
	maxCIDRs     = 10_000
)

// check measures the operands of one call and returns an error if they exceed a limit; else nil. It takes no longer
// than the call itself.
type check func(operands []*ast.Term) *engine.LimitError

// Checks that many functions have: tree and trees limit the first operand, or the first two, with everything in them.
// bothMembers limits the members of the first two operands. findOne and findAll limit the work of a regular expression.
var (
	tree        = each(checkTree, 0)
	trees       = each(checkTree, 0, 1)
	bothMembers = each(members, 0, 1)
	findOne     = regularExpression(0, 1, false)
	findAll     = regularExpression(0, 1, true)
)

// guards are the checks by name of the builtin function, in addition to the limits on strings and numbers that apply to all of them.
var guards = map[string]check{
	"and":                              bothMembers,
	"array.concat":                     sum(0, 1),
	"array.flatten":                    nested,
	"array.reverse":                    each(members, 0),
	"cast_array":                       each(members, 0),
	"cast_set":                         each(keyList, 0),
	"concat":                           joined,
	"equal":                            trees,
	"glob.match":                       glob,
	"gt":                               trees,
	"gte":                              trees,
	"indexof":                          product,
	"indexof_n":                        product,
	"internal.member_2":                contained,
	"internal.member_3":                trees,
	"internal.template_string":         tree,
	"intersection":                     nested,
	"json.filter":                      all(trees, each(members, 1)),
	"json.marshal":                     tree,
	"json.marshal_with_options":        indented,
	"json.patch":                       patched,
	"json.remove":                      trees,
	"lt":                               trees,
	"lte":                              trees,
	"max":                              tree,
	"min":                              tree,
	"minus":                            bothMembers,
	"neq":                              trees,
	"net.cidr_contains_matches":        matched,
	"net.cidr_merge":                   atMost(maxCIDRs, "members"),
	"numbers.range":                    counted,
	"numbers.range_step":               counted,
	"object.filter":                    each(keyList, 1),
	"object.remove":                    each(keyList, 1),
	"object.subset":                    subset,
	"object.union":                     trees,
	"object.union_n":                   tree,
	"or":                               bothMembers,
	"product":                          multiplied,
	"re_match":                         findOne,
	"regex.find_all_string_submatch_n": findAll,
	"regex.find_n":                     findAll,
	"regex.globs_match":                globs,
	"regex.is_valid":                   valid,
	"regex.match":                      findOne,
	"regex.replace":                    all(regularExpression(1, 0, true), substituted),
	"regex.split":                      findAll,
	"regex.template_match":             template,
	"replace":                          replaced,
	"set_diff":                         bothMembers,
	"sort":                             tree,
	"sprintf":                          formatted,
	"strings.any_prefix_match":         trees,
	"strings.any_suffix_match":         trees,
	"strings.replace_n":                replacedAll,
	"sum":                              tree,
	"time.add_date":                    tree,
	"time.clock":                       tree,
	"time.date":                        tree,
	"time.diff":                        trees,
	"time.format":                      tree,
	"time.weekday":                     tree,
	"to_number":                        each(readable, 0),
	"trim":                             product,
	"trim_left":                        product,
	"trim_right":                       product,
	"union":                            nested,
	"units.parse":                      each(readable, 0),
	"units.parse_bytes":                each(readable, 0),
	"urlquery.encode_object":           tree,
	"walk":                             walked,
	"yaml.is_valid":                    atMost(maxYAML, "bytes"),
	"yaml.marshal":                     indented,
	"yaml.unmarshal":                   atMost(maxYAML, "bytes"),
}

// guardBuiltins wraps OPA's builtin functions with their guards, once for the process. OPA keeps these functions in one
// table for the process, prefers them to the functions of a query, and reads the table without a lock. So the table must
// be changed before the first evaluation: a process that also evaluates with OPA directly must prepare a query first.
var guardBuiltins = sync.OnceFunc(func() {
	for name, declaration := range ast.BuiltinMap {
		if original := topdown.GetBuiltin(name); original != nil {
			topdown.RegisterBuiltinFunc(name, guarded(name, declaration.Decl.Arity(), original, guards[name]))
		}
	}
})

// guarded returns a builtin function that calls the original only if its operands are within the limits. Otherwise it
// ends the evaluation: if the call were undefined instead, a policy could silently decide something else.
func guarded(name string, arity int, original topdown.BuiltinFunc, more check) topdown.BuiltinFunc {
	return func(b topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		err := scalars(operands[:min(arity, len(operands))])
		if err == nil && more != nil {
			err = more(operands)
		}
		if err != nil {
			err.Function = name
			return topdown.Halt{Err: err}
		}
		return original(b, operands, iter)
	}
}

// over returns the error for an operand, given by its index from 0 and named by its number from 1; nil if its size is within the limit.
func over(operand, size, limit int, unit string) *engine.LimitError {
	if size <= limit {
		return nil
	}
	return &engine.LimitError{Operand: "operand " + strconv.Itoa(operand+1), Size: size, Limit: limit, Unit: unit}
}

// overAll returns the error for the combined size of the operands or for the result; nil if it is within the limit.
func overAll(size, limit int, unit string) *engine.LimitError {
	if size <= limit {
		return nil
	}
	return &engine.LimitError{Operand: "the combination of the operands", Size: size, Limit: limit, Unit: unit}
}

// scalars limits the size of those operands that are strings or numbers.
func scalars(operands []*ast.Term) *engine.LimitError {
	for i, t := range operands {
		switch v := t.Value.(type) {
		case ast.String:
			if len(v) > maxText {
				return over(i, len(v), maxText, "bytes")
			}
		case ast.Number:
			if err := over(i, numeral.Digits(string(v)), numeral.MaxDigits, "digits"); err != nil {
				return err
			}
		}
	}
	return nil
}

// all returns a check that applies several checks in order and returns the first error.
func all(checks ...check) check {
	return func(operands []*ast.Term) *engine.LimitError {
		for _, c := range checks {
			if err := c(operands); err != nil {
				return err
			}
		}
		return nil
	}
}

// each returns a check that applies the limit one to the operands with these indexes, and returns the first error. It skips an index
// without an operand.
func each(one func(v ast.Value, operand int) *engine.LimitError, indexes ...int) check {
	return func(operands []*ast.Term) *engine.LimitError {
		for _, i := range indexes {
			if i < len(operands) {
				if err := one(operands[i].Value, i); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// length returns the number of a collection's members or of a string's bytes; 0 for other values.
func length(v ast.Value) int {
	switch v := v.(type) {
	case ast.String:
		return len(v)
	case interface{ Len() int }:
		return v.Len()
	}
	return 0
}

// members limits the number of members of a collection, or of bytes of a string.
func members(v ast.Value, operand int) *engine.LimitError {
	return over(operand, length(v), maxMembers, "members")
}

// atMost returns a check that limits the length of the first operand: the bytes of a string, or the members of a collection. unit says in
// the error which of the two.
func atMost(limit int, unit string) check {
	return func(operands []*ast.Term) *engine.LimitError {
		return over(0, length(operands[0].Value), limit, unit)
	}
}

// readable limits the digits, as written without an exponent, of a string that is parsed as a number, with or without a unit. It accepts
// any value that is no string.
func readable(v ast.Value, operand int) *engine.LimitError {
	text, ok := v.(ast.String)
	if !ok {
		return nil
	}
	return over(operand, numeral.Digits(string(text)), numeral.MaxDigits, "digits")
}

// keyList limits the members of a list that is converted to a set: to fewer if not all of them are strings.
func keyList(v ast.Value, operand int) *engine.LimitError {
	list, ok := v.(*ast.Array)
	if !ok || list.Len() <= maxKeys {
		return members(v, operand)
	}
	if list.Until(func(t *ast.Term) bool { _, text := t.Value.(ast.String); return !text }) {
		return over(operand, list.Len(), maxKeys, "members, not all of them strings")
	}
	return members(v, operand)
}

// sum returns a check that limits the total number of members of the operands with these indexes.
func sum(indexes ...int) check {
	return func(operands []*ast.Term) *engine.LimitError {
		n := 0
		for _, i := range indexes {
			n += length(operands[i].Value)
		}
		return overAll(n, maxMembers, "members")
	}
}

// product limits the comparisons of the first operand's members or bytes with those of the second one.
func product(operands []*ast.Term) *engine.LimitError {
	return overAll(length(operands[0].Value)*length(operands[1].Value), maxPairs, "comparisons")
}

// collection is an array or a set.
type collection interface {
	// Until calls f for each member until f returns true. It reports whether f did.
	Until(f func(*ast.Term) bool) bool
}

// elements calls f for each member of an array or set until f returns true.
func elements(v ast.Value, f func(*ast.Term) bool) {
	if v, ok := v.(collection); ok {
		v.Until(f)
	}
}

// nested limits the total number of members of the collections that the first operand, an array or a set, contains.
func nested(operands []*ast.Term) *engine.LimitError {
	n := 0
	elements(operands[0].Value, func(t *ast.Term) bool {
		n += 1 + length(t.Value)
		return n > maxMembers
	})
	return over(0, n, maxMembers, "members")
}

// joined limits the string that concat returns.
func joined(operands []*ast.Term) *engine.LimitError {
	n, separator := 0, length(operands[0].Value)
	elements(operands[1].Value, func(t *ast.Term) bool {
		n += separator + length(t.Value)
		return n > maxText+separator
	})
	return overAll(n-separator, maxText, "bytes")
}

// multiplied limits the digits of the product of all numbers in the first operand, an array or a set: to 16 times as many as one number may
// have.
func multiplied(operands []*ast.Term) *engine.LimitError {
	n := 0
	elements(operands[0].Value, func(t *ast.Term) bool {
		if number, ok := t.Value.(ast.Number); ok {
			n += numeral.Digits(string(number))
		}
		return n > maxNodes
	})
	return over(0, n, 16*numeral.MaxDigits, "digits")
}

// contained limits the comparisons for `x in collection`: of all values in the first operand x with each member of the second. It accepts
// any scalar x.
func contained(operands []*ast.Term) *engine.LimitError {
	if scalar(operands[0].Value) {
		return nil
	}
	m, err := measure(operands[0].Value, 0)
	if err != nil {
		return err
	}
	return overAll(m.nodes*length(operands[1].Value), maxPairs, "comparisons")
}

// matched limits the pairs that net.cidr_contains_matches compares: the members of the first operand times those of the second, where a
// string counts as one.
func matched(operands []*ast.Term) *engine.LimitError {
	n := 1
	for _, t := range operands[:2] {
		if _, single := t.Value.(ast.String); !single {
			n *= length(t.Value)
		}
	}
	return overAll(n, maxCIDRPairs, "pairs")
}

// counted limits the length of a range of numbers. It ignores numbers that are not integers, which the function itself
// rejects.
func counted(operands []*ast.Term) *engine.LimitError {
	bounds := [3]float64{0, 0, 1}
	for i := range min(3, len(operands)) {
		if n, ok := operands[i].Value.(ast.Number); ok {
			bounds[i], _ = n.Float64()
		}
	}
	if bounds[2] <= 0 {
		return nil
	}
	n := (bounds[1] - bounds[0]) / bounds[2]
	return overAll(int(min(max(n, -n), 1e15)), maxMembers, "members")
}

// subset limits the comparisons of object.subset, which searches for each list of the second operand at each position of the first one: all
// values in the first times the longest list in the second.
func subset(operands []*ast.Term) *engine.LimitError {
	super, err := measure(operands[0].Value, 0)
	if err != nil {
		return err
	}
	sub, err := measure(operands[1].Value, 1)
	if err != nil {
		return err
	}
	return overAll(super.nodes*sub.list, maxPairs, "comparisons")
}

// patched limits the operands of a JSON patch, and its steps: one operation may visit all members at the top level.
func patched(operands []*ast.Term) *engine.LimitError {
	if err := trees(operands); err != nil {
		return err
	}
	return overAll(length(operands[0].Value)*length(operands[1].Value), maxPairs>>4, "steps")
}

// walked limits the value that walk visits, with everything in it, if a path that is not empty is given: walk then does not check the
// deadline while it skips values that the path excludes.
func walked(operands []*ast.Term) *engine.LimitError {
	if len(operands) < 2 {
		return nil
	}
	pair, ok := operands[1].Value.(*ast.Array)
	if !ok || pair.Len() != 2 {
		return nil
	}
	if path, ok := pair.Elem(0).Value.(*ast.Array); !ok || path.Len() == 0 {
		return nil
	}
	return checkTree(operands[0].Value, 0)
}

// indented limits the text that a function such as yaml.marshal returns, whose indentation grows with the depth of the value: the number of
// values times the depth times the options' lengths.
func indented(operands []*ast.Term) *engine.LimitError {
	m, err := measure(operands[0].Value, 0)
	if err != nil {
		return err
	}
	indent := 4
	if len(operands) > 1 {
		if options, ok := operands[1].Value.(ast.Object); ok {
			options.Foreach(func(_, v *ast.Term) { indent += length(v.Value) })
		}
	}
	return overAll(m.nodes*m.depth*indent, maxNodeBytes, "bytes of indentation")
}

// replaced limits the string that the function replace returns: the text, and the replacement at each place where the text has the old
// string.
func replaced(operands []*ast.Term) *engine.LimitError {
	text, found := operands[0].Value.(ast.String)
	old, isText := operands[1].Value.(ast.String)
	if !found || !isText {
		return nil
	}
	return overAll(len(text)+strings.Count(string(text), string(old))*length(operands[2].Value), maxText, "bytes")
}

// substituted limits the string that regex.replace returns. At most, it has the replacement at each byte of the text and at its end, or the
// whole text for each byte of the replacement.
func substituted(operands []*ast.Term) *engine.LimitError {
	return overAll((length(operands[0].Value)+1)*length(operands[2].Value), maxNodeBytes, "bytes")
}

// replacedAll limits the string that strings.replace_n returns, with each replacement at each place of its pattern, and the search: the
// length of the text times the number of patterns.
func replacedAll(operands []*ast.Term) *engine.LimitError {
	text, found := operands[1].Value.(ast.String)
	patterns, isObject := operands[0].Value.(ast.Object)
	if !found || !isObject {
		return nil
	}
	if err := overAll(patterns.Len()*len(text), maxPairs, "comparisons"); err != nil {
		return err
	}
	if err := checkTree(patterns, 0); err != nil {
		return err
	}
	n := len(text)
	patterns.Until(func(old, to *ast.Term) bool {
		if old, ok := old.Value.(ast.String); ok {
			n += strings.Count(string(text), string(old)) * length(to.Value)
		}
		return n > maxText
	})
	return overAll(n, maxText, "bytes")
}

// formatted limits the string that sprintf returns. It assumes the longest output of each verb, with the largest number
// in the format as its width.
func formatted(operands []*ast.Term) *engine.LimitError {
	format, isText := operands[0].Value.(ast.String)
	list, isList := operands[1].Value.(*ast.Array)
	if !isText || !isList {
		return nil
	}
	m, err := measure(list, 1)
	if err != nil {
		return err
	}
	text := string(format)
	verbs := strings.Count(text, "%")
	n := len(text) + m.bytes + 8*m.nodes
	if strings.Contains(text, "[") {
		n += verbs * (m.bytes + 8*m.nodes)
	}
	width, number := 0, 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			number = 0
			continue
		}
		number = min(10*number+int(c-'0'), maxText)
		width = max(width, number)
	}
	if strings.Contains(text, "*") {
		list.Foreach(func(t *ast.Term) {
			if value, ok := t.Value.(ast.Number); ok {
				f, _ := value.Float64()
				width = max(width, int(min(max(f, -f), maxText)))
			}
		})
	}
	return overAll(n+verbs*width, 4*maxText, "bytes")
}

// checkTree limits the size of a collection with everything in it. It accepts any scalar, since scalars limits these.
func checkTree(v ast.Value, operand int) *engine.LimitError {
	if scalar(v) {
		return nil
	}
	_, err := measure(v, operand)
	return err
}

// scalar reports whether a value is null, a boolean, a number, or a string.
func scalar(v ast.Value) bool {
	switch v.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		return true
	}
	return false
}

// measurement is the size of a value with everything in it. A part that occurs several times counts each time.
type measurement struct {
	// nodes is the number of values, and bytes the length of all strings and numbers.
	nodes, bytes int
	// depth is the depth of the deepest node, and list the length of the longest list.
	depth, list int
	// digits is the number of digits of the longest number.
	digits int
}

// measure measures a value, the operand with that index. The error says that it has too many values or bytes, after which measure stops, or
// a number with too many digits.
func measure(v ast.Value, operand int) (measurement, *engine.LimitError) {
	m := measurement{}
	m.add(v, 0)
	return m, cmp.Or(
		over(operand, m.nodes, maxNodes, "values"),
		over(operand, m.digits, numeral.MaxDigits, "digits in a number"),
		over(operand, m.bytes, maxNodeBytes, "bytes"),
	)
}

// add adds a value at a depth, with everything in it. It stops and returns true once there are too many values or bytes.
func (m *measurement) add(v ast.Value, depth int) bool {
	m.nodes++
	m.depth = max(m.depth, depth)
	switch v := v.(type) {
	case ast.String:
		m.bytes += len(v)
	case ast.Number:
		m.bytes += len(v)
		m.digits = max(m.digits, numeral.Digits(string(v)))
	case *ast.Array:
		m.list = max(m.list, v.Len())
		for i := range v.Len() {
			if m.add(v.Elem(i).Value, depth+1) {
				return true
			}
		}
	case ast.Set:
		return v.Until(func(t *ast.Term) bool { return m.add(t.Value, depth+1) })
	case ast.Object:
		return v.Until(func(k, v *ast.Term) bool { return m.add(k.Value, depth+1) || m.add(v.Value, depth+1) })
	}
	return m.nodes > maxNodes || m.bytes > maxNodeBytes
}

// boundedJSON converts a decision to Go values, as rego does. It returns an error if the decision is too large: values may share parts, so
// a small one can represent a large tree.
func boundedJSON(t *ast.Term, _ *rego.EvalContext) (any, error) {
	if _, err := measure(t.Value, 0); err != nil {
		err.Operand = "the decision"
		return nil, err
	}
	return ast.JSON(t.Value)
}
