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

package lint

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// eachEntry is a comparison in a clause of the rule errors that is true if any entry of a collection does not match a term, and whose entry
// the clause uses in no other way. If no term matches all entries, the clause denies every object. It is also such a comparison in another
// rule, which is then always true.
type eachEntry struct {
	// collection has the entries. It is a constant, or a reference to a document in spec.data.
	collection *ast.Term
	// ends returns the prefix and the suffix of every text that matches an entry. It is nil if only equal values match.
	ends    func(entry string) (start, end string)
	at      *ast.Location // the position of the comparison
	message string        // the message of the finding, which suggests a replacement
}

// Limits on how many clauses of a policy, and how many entries of a collection, are examined.
const (
	maxClauses = 64
	maxEntries = 16
)

// EachEntry returns findings for the comparisons in r.eachEntry that are true for every object, because some two entries of their
// collection exclude each other. The parameter static has the policy's own documents, which may be the collections; nil for none. The
// findings are not in Warnings.
func (r *Report) EachEntry(static ast.Object) []Finding {
	var out []Finding
	for _, c := range r.eachEntry {
		if all := entries(c.collection, static); c.exclusive(all[:min(len(all), maxEntries)]) {
			out = append(out, Finding{Position: PositionOf(c.at), Message: c.message})
		}
	}
	return out
}

// exclusive reports whether no term can match all entries, because some two of them exclude each other: they differ, or begin or end
// differently if ends is set.
func (c eachEntry) exclusive(entries []*ast.Term) bool {
	if c.ends == nil {
		return slices.ContainsFunc(entries, func(t *ast.Term) bool { return !t.Equal(entries[0]) })
	}
	var starts, ends []string
	for _, entry := range entries {
		text, ok := entry.Value.(ast.String)
		if !ok {
			continue
		}
		start, end := c.ends(string(text))
		for i := range starts {
			if !strings.HasPrefix(start, starts[i]) && !strings.HasPrefix(starts[i], start) ||
				!strings.HasSuffix(end, ends[i]) && !strings.HasSuffix(ends[i], end) {
				return true
			}
		}
		starts, ends = append(starts, start), append(ends, end)
	}
	return false
}

// entries returns the members of an array or a set, or the values of an object: of a constant, or of the document or part of one in static
// to which the collection refers. It returns nil if static lacks that, for other values, and for a set of more than maxMembers members.
func entries(collection *ast.Term, static ast.Object) []*ast.Term {
	if ref, ok := collection.Value.(ast.Ref); ok {
		if static == nil || len(ref) < 2 || !ref.IsGround() {
			return nil
		}
		value, err := static.Find(ref[1:])
		if err != nil {
			return nil
		}
		collection = ast.NewTerm(value)
	}
	if object, ok := collection.Value.(ast.Object); ok {
		var out []*ast.Term
		object.Foreach(func(_, value *ast.Term) { out = append(out, value) })
		return out
	}
	if _, ok := collection.Value.(*ast.Array); ok {
		return members(collection)
	}
	return fewMembers(collection)
}

// findEachEntry returns the comparisons of a clause of the rule errors that are true if any entry of a collection does not match a term;
// none for other rules, and for a body with `with`.
func findEachEntry(rule *ast.Rule, n *names) []eachEntry {
	if language.RuleName(rule) != language.RuleErrors || slices.ContainsFunc(rule.Body, hasWith) {
		return nil
	}
	mentioned := map[ast.Var][]*ast.Expr{}
	for _, expr := range rule.Body {
		ast.WalkVars(expr, func(v ast.Var) bool {
			if in := mentioned[v]; len(in) == 0 || in[len(in)-1] != expr {
				mentioned[v] = append(in, expr)
			}
			return false
		})
	}
	var out []eachEntry
	for _, expr := range rule.Body {
		if !expr.IsCall() {
			continue
		}
		for i, operand := range expr.Operands() {
			rest := slices.Delete(slices.Clone(expr.Operands()), i, i+1)
			collection := n.entriesOf(operand, expr, mentioned)
			if collection == nil || slices.ContainsFunc(rest, func(t *ast.Term) bool { return mentions(t, operand) }) {
				continue
			}
			if c, ok := n.mismatch(expr, i); ok {
				c.collection, c.at = collection, expr.Location
				c.message = fmt.Sprintf("%s is true of every object, because nothing matches all of %s: one entry that does not match is enough. %s",
					source(expr), brief(collection), c.message)
				out = append(out, c)
			}
		}
	}
	return out
}

// entriesOf returns the collection that a term iterates over, as `collection[_]` or as a variable, if it is constant or a document of the
// policy's own, and if nothing else in the body depends on the entry; otherwise nil. The parameter expr is the expression that contains the
// term. The parameter mentioned maps each variable of the body to the expressions that contain it.
func (n *names) entriesOf(term *ast.Term, expr *ast.Expr, mentioned map[ast.Var][]*ast.Expr) *ast.Term {
	v, ok := term.Value.(ast.Var)
	if !ok {
		return n.wildcardOf(term)
	}
	var collection *ast.Term
	for _, other := range mentioned[v] {
		switch {
		case other == expr:
		case collection != nil:
			return nil
		default:
			if collection = n.iteration(other, v); collection == nil {
				return nil
			}
		}
	}
	return collection
}

// iteration returns the collection of `some v in collection` and of `v := collection[_]`, if known knows it; nil for other collections and
// expressions.
func (n *names) iteration(expr *ast.Expr, v ast.Var) *ast.Term {
	if some, ok := expr.Terms.(*ast.SomeDecl); ok {
		in, ok := some.Symbols[0].Value.(ast.Call)
		if !ok || in[len(in)-2].Value.Compare(v) != 0 {
			return nil
		}
		if key, ok := in[1].Value.(ast.Var); len(in) == 4 && (!ok || !key.IsWildcard()) {
			return nil
		}
		return n.known(in[len(in)-1])
	}
	if operands := expr.Operands(); len(operands) == 2 && !expr.Negated && (expr.IsAssignment() || expr.IsEquality()) &&
		operands[0].Value.Compare(v) == 0 {
		return n.wildcardOf(operands[1])
	}
	return nil
}

// wildcardOf returns the collection xs of a term xs[_], if it is a constant or a document in spec.data, such as data.regions for
// data.regions[_]; nil for other collections, and for other terms, such as xs[i] and xs[_].name.
func (n *names) wildcardOf(term *ast.Term) *ast.Term {
	ref, ok := term.Value.(ast.Ref)
	if !ok || len(ref) < 2 {
		return nil
	}
	last := len(ref) - 1
	if v, ok := ref[last].Value.(ast.Var); !ok || !v.IsWildcard() {
		return nil
	}
	if last == 1 {
		return n.known(ref[0])
	}
	return n.known(ast.NewTerm(ref[:last]))
}

// known returns what a collection, or a name for one, denotes, if that is a constant, such as {"a", "b"}, or a document in spec.data or a
// part of it, such as data.regions; otherwise nil, such as for input and for the documents in data that Berth fills.
func (n *names) known(collection *ast.Term) *ast.Term {
	collection = n.resolve(collection)
	if ast.IsConstant(collection.Value) {
		return collection
	}
	ref, ok := collection.Value.(ast.Ref)
	if root, _ := language.Part(ref, 1); !ok || !ref.HasPrefix(ast.DefaultRootRef) || !ref.IsGround() ||
		slices.Contains(language.Roots, root) {
		return nil
	}
	return collection
}

// mismatch examines an expression that is true if an entry does not match a term of the object: entry != term, not entry == term, or a
// negated startswith, endswith, glob.match, or regex.match whose prefix, suffix, or pattern is the entry. It returns how entries match
// (ends, which is nil for equality) and a message that suggests a replacement; ok is false for other expressions. The parameter entry is
// the index of the operand that is the entry.
func (n *names) mismatch(expr *ast.Expr, entry int) (c eachEntry, ok bool) {
	operands := expr.Operands()
	var subject *ast.Term
	switch operator := expr.Operator().String(); {
	case len(operands) == 2 && (operator == ast.NotEqual.Name && !expr.Negated || mirrored[operator] == ast.Equality.Name && expr.Negated):
		subject = operands[1-entry]
	case !expr.Negated:
		return c, false
	case operator == ast.StartsWith.Name && entry == 1:
		subject, c.ends = operands[0], func(s string) (string, string) { return s, "" }
	case operator == ast.EndsWith.Name && entry == 1:
		subject, c.ends = operands[0], func(s string) (string, string) { return "", s }
	case operator == ast.GlobMatch.Name && entry == 0 && len(operands) == 3:
		subject, c.ends = operands[2], globEnds
	case operator == ast.RegexMatch.Name && entry == 0:
		subject, c.ends = operands[1], func(s string) (string, string) { return regexStart(s), "" }
	default:
		return c, false
	}
	if !n.ofObject(subject, map[ast.Var]bool{}) {
		return c, false
	}
	c.message = "To deny only if no entry matches, write a rule such as ok(x) if { some entry in ...; ... }, and not ok(x) here"
	if expr.Operator().String() == ast.NotEqual.Name {
		c.message = fmt.Sprintf("To deny only if no entry is equal, write not %s in the collection", subject)
	}
	return c, true
}

// ofObject reports whether a term depends on anything other than constants and documents in data, such as the object.
func (n *names) ofObject(term *ast.Term, seen map[ast.Var]bool) (found bool) {
	ast.WalkVars(term, func(v ast.Var) bool {
		value := n.local[v]
		if value == nil {
			value = n.iterated[v]
		}
		switch {
		case found || seen[v] || v.IsWildcard() || v.Equal(ast.DefaultRootDocument.Value):
		case value != nil:
			seen[v] = true
			found = n.ofObject(value, seen)
		default:
			found = true
		}
		return found
	})
	return found
}

// mentions reports whether a node contains the term, if the term is a variable.
func mentions(node any, term *ast.Term) (found bool) {
	name, ok := term.Value.(ast.Var)
	if !ok {
		return false
	}
	ast.WalkVars(node, func(v ast.Var) bool {
		found = found || v == name
		return found
	})
	return found
}

// globWildcards are the special characters in patterns of glob.match.
const globWildcards = `*?[]{}!\`

// globEnds returns the prefix and the suffix of every text that matches a glob: what is before its first special character, and what is
// after its last one. For a glob without special characters, both are the whole glob.
func globEnds(pattern string) (start, end string) {
	first := strings.IndexAny(pattern, globWildcards)
	if first < 0 {
		return pattern, pattern
	}
	return pattern[:first], pattern[strings.LastIndexAny(pattern, globWildcards)+1:]
}

// regexSyntax are the special characters in regular expressions: before the first one, an expression matches literally.
const regexSyntax = `\.+*?()|[]{}^$`

// regexStart returns a prefix of every text that matches a regular expression: what is between ^ and the next special character, without a
// character that *, ?, or { makes optional. It returns "" if the expression does not begin with ^, or has a |. It does not check whether
// the expression is valid.
func regexStart(pattern string) string {
	rest, anchored := strings.CutPrefix(pattern, "^")
	// An alternative may lack the anchor.
	if !anchored || strings.Contains(rest, "|") {
		return ""
	}
	end := strings.IndexAny(rest, regexSyntax)
	if end < 0 {
		return rest
	}
	start := rest[:end]
	if strings.ContainsRune("*?{", rune(rest[end])) {
		// A repeated character may be missing.
		_, size := utf8.DecodeLastRuneInString(start)
		start = start[:len(start)-size]
	}
	return start
}
