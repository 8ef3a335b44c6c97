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

package migration

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/printable"
)

// assemble returns the draft of a package's policy: it joins the modules of the package, and those of other packages that they read, into
// one text. A package of one module that reads no others keeps its text. It returns an error for modules that read an admission request, or
// that can't be joined with the same meaning.
func (w moduleSet) assemble(p *pkg) (*draft, error) {
	modules, err := w.closure(p)
	if err != nil {
		return nil, err
	}
	if m, ref := admission(modules); ref != nil {
		return nil, fmt.Errorf("%s reads %s, so it is admission control: %s", m.source, ref, admissionAdvice)
	}
	version, err := common(modules)
	if err != nil {
		return nil, err
	}
	d := &draft{pkg: p, modules: modules, language: version, text: modules[0].text}
	if len(modules) == 1 {
		return d, nil
	}
	a := newAssembly(d)
	if d.text, err = a.text(); err != nil {
		return nil, err
	}
	return d, a.check()
}

// closure returns the package's modules, and after them the modules of other packages that they read, directly or indirectly. It returns an
// error if a module reads another package as a whole.
func (w moduleSet) closure(p *pkg) ([]*module, error) {
	modules := slices.Clone(p.modules)
	for i := 0; i < len(modules); i++ {
		var err error
		modules[i].references(func(ref ast.Ref, path []string) {
			rule, whole := w.targets(path)
			for _, other := range whole {
				if other != modules[i].pkg && err == nil {
					err = fmt.Errorf("%s reads %s, and with it all of the package %s: a PlacementPolicy is one module, into which only rules that are "+
						"named can be taken over: name them, as in data.%s.<rule>",
						modules[i].source, ref, other, other)
				}
			}
			if rule == nil {
				return
			}
			for _, definer := range rule.pkg.rules[rule.name] {
				if !slices.Contains(modules, definer) {
					modules = append(modules, definer)
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	helpers := modules[len(p.modules):]
	slices.SortFunc(helpers, func(x, y *module) int {
		return strings.Compare(x.pkg.String()+" "+x.source.String(), y.pkg.String()+" "+y.source.String())
	})
	return modules, nil
}

// common returns the newest Rego version in which all modules parse; an error if there is none.
func common(modules []*module) (placementv1.RegoVersion, error) {
	for _, l := range languages {
		if !slices.ContainsFunc(modules, func(m *module) bool { return m.parsed[l] == nil }) {
			return l, nil
		}
	}
	var v0, v1 Source
	for _, m := range modules {
		if m.parsed[placementv1.RegoV1] == nil {
			v0 = m.source
		} else {
			v1 = m.source
		}
	}
	return "", fmt.Errorf("these modules have to be joined into one policy, but %s is Rego v0 and %s is v1: bring both to one version, "+
		"for instance by opa fmt --v0-v1", v0, v1)
}

// assembly joins several modules into one text.
type assembly struct {
	draft *draft
	// names has the new names that rules of other packages get in the joined text.
	names map[target]string
	// originals has each module's rules with complete references, by the name of the module's source, in the draft's version of Rego.
	originals map[string][]*ast.Rule
}

func newAssembly(d *draft) *assembly {
	a := &assembly{draft: d, names: map[target]string{}}
	parsed := map[string]*ast.Module{}
	taken := map[string]bool{}
	for _, m := range d.modules {
		one := m.parsed[d.language]
		parsed[m.source.String()] = one
		ast.WalkVars(one, func(v ast.Var) bool {
			taken[string(v)] = true
			return false
		})
		for _, i := range one.Imports {
			taken[string(i.Name())] = true
		}
	}
	a.originals = resolve(parsed)
	for _, m := range d.modules {
		if m.pkg == d.pkg {
			continue
		}
		for _, rule := range parsed[m.source.String()].Rules {
			t := target{pkg: m.pkg, name: language.RuleName(rule)}
			if a.names[t] != "" {
				continue
			}
			name := notInNames.ReplaceAllString(strings.Join(append(slices.Clone(t.pkg.path), t.name), "_"), "_")
			for taken[name] {
				name += "_"
			}
			a.names[t], taken[name] = name, true
		}
	}
	return a
}

var (
	notInNames = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*`)
)

// renamed returns the new name of the rule that a path below data begins with, and the number of leading parts of the path that name the
// rule; ok is false if no rule gets a new name there.
func (a *assembly) renamed(path []string) (name string, parts int, ok bool) {
	for t, name := range a.names {
		if n := len(t.pkg.path); len(path) > n && slices.Equal(path[:n], t.pkg.path) && path[n] == t.name {
			return name, n + 1, true
		}
	}
	return "", 0, false
}

// edit replaces a range of a module's text.
type edit struct {
	start, end int    // byte offsets; end is the first that stays
	text       string // what replaces the range
}

// text returns the joined modules with one package and one list of imports. It returns an error if a name can't be replaced, or if imports
// of one name differ. It does not check whether the joined text has the same meaning.
func (a *assembly) text() (string, error) {
	var imports, bodies []string
	type alias struct {
		path   *ast.Term
		source Source
	}
	aliases := map[ast.Var]alias{}
	for _, m := range a.draft.modules {
		body, kept, err := a.body(m)
		if err != nil {
			return "", err
		}
		bodies = append(bodies, fmt.Sprintf("# From %s.\n\n%s\n", printable.Text(m.source.String()), body))
		for _, i := range kept {
			if other, taken := aliases[i.Name()]; taken && !other.path.Equal(i.Path) {
				return "", fmt.Errorf("%s and %s have to be joined into one policy, but %s stands for %s in the first and for %s in the second: "+
					"give one of the imports another name", other.source, m.source, i.Name(), other.path, i.Path)
			}
			aliases[i.Name()] = alias{i.Path, m.source}
			if line := i.String(); !slices.Contains(imports, line) {
				imports = append(imports, line)
			}
		}
	}
	head := a.draft.modules[0].parsed[a.draft.language].Package.String() + "\n\n"
	if len(imports) > 0 {
		head += strings.Join(imports, "\n") + "\n\n"
	}
	return head + strings.Join(bodies, "\n"), nil
}

// body returns a module's text with the new names of rules, and without package and imports, and the imports that the text still needs.
func (a *assembly) body(m *module) (string, []*ast.Import, error) {
	parsed := m.parsed[a.draft.language]
	edits := []edit{line(m.text, parsed.Package.Location)}
	for _, i := range parsed.Imports {
		edits = append(edits, line(m.text, i.Location))
	}
	// used are the first names of the references that remain in the text.
	used := map[string]bool{}
	var err error
	for _, rule := range a.originals[m.source.String()] {
		if m.pkg != a.draft.pkg {
			if e, ok := a.heading(m, rule); ok {
				edits = append(edits, e)
			}
		}
		// When the compiler resolves a term, it keeps the location of the term but not those of its parts.
		ast.WalkTerms(rule, func(term *ast.Term) bool {
			ref, ok := term.Value.(ast.Ref)
			if !ok {
				return false
			}
			e, written, editErr := a.reference(m, parsed, ref, term.Location)
			switch {
			case editErr != nil && err == nil:
				err = editErr
			case e != nil:
				edits = append(edits, *e)
			default:
				used[written] = true
			}
			return false
		})
	}
	if err != nil {
		return "", nil, err
	}
	text, err := apply(m.text, edits)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", m.source, err)
	}
	var kept []*ast.Import
	for _, i := range parsed.Imports {
		if used[string(i.Name())] || !a.ofOther(i) {
			kept = append(kept, i)
		}
	}
	return text, kept, nil
}

// ofOther reports whether the import may refer to another package whose rules the joined text has, under new names.
func (a *assembly) ofOther(i *ast.Import) bool {
	ref, ok := i.Path.Value.(ast.Ref)
	if !ok || !ref.HasPrefix(ast.DefaultRootRef) {
		return false
	}
	for t := range a.names {
		if agree(constants(ref), t.pkg.path) {
			return true
		}
	}
	return false
}

// heading returns the edit that renames a rule where it is defined; false if the text does not have the name there, as for the further
// bodies and else branches of a rule.
func (a *assembly) heading(m *module, rule *ast.Rule) (edit, bool) {
	name := language.RuleName(rule)
	at := rule.Head.Ref()[0].Location
	if at == nil || at.Offset >= len(m.text) || identifier.FindString(m.text[at.Offset:]) != name {
		// Additional bodies and else branches do not repeat the name in the text.
		return edit{}, false
	}
	return edit{at.Offset, at.Offset + len(name), a.names[target{pkg: m.pkg, name: name}]}, true
}

// reference returns the edit of a reference to a rule of another package, which has a new name. If there is nothing to rename, it returns
// the name with which the reference begins in the text instead. It returns an error if the text has a form in which the name can't be
// replaced.
func (a *assembly) reference(m *module, parsed *ast.Module, ref ast.Ref, at *ast.Location) (*edit, string, error) {
	if at == nil || at.Offset >= len(m.text) {
		return nil, "", nil
	}
	written := identifier.FindString(m.text[at.Offset:])
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return nil, written, nil
	}
	path := constants(ref)
	name, parts, ok := a.renamed(path)
	if !ok {
		return nil, written, nil
	}
	rest, known := remainder(m, parsed, written, path[:parts])
	end := at.Offset + len(written)
	for _, part := range rest {
		after, found := cutPart(m.text[end:], part)
		if known = known && found; !known {
			break
		}
		end = len(m.text) - len(after)
	}
	if !known {
		return nil, "", fmt.Errorf("%s:%d: the modules can't be joined, because the line refers to %s in a form that can't be renamed: write "+
			"exactly %s", m.source, at.Row, ref, referenceTo(path[:parts]))
	}
	return &edit{at.Offset, end, name}, "", nil
}

// remainder returns the parts of a rule's path that the text of a reference has after written, its first name, which may be an import;
// false if that is not known.
func remainder(m *module, parsed *ast.Module, written string, path []string) ([]string, bool) {
	for _, i := range parsed.Imports {
		if ref, ok := i.Path.Value.(ast.Ref); ok && string(i.Name()) == written && ref.HasPrefix(ast.DefaultRootRef) {
			imported := constants(ref)
			if len(imported) <= len(path) && agree(imported, path) {
				return path[len(imported):], true
			}
		}
	}
	switch {
	case written == string(ast.DefaultRootDocument.Value.(ast.Var)):
		return path, true
	case slices.Equal(m.pkg.path, path[:len(path)-1]) && written == path[len(path)-1]:
		return nil, true
	}
	return nil, false
}

// cutPart returns the text without .part or ["part"] at its start; the unchanged text and false if it does not start so, or if .part is
// only the start of a longer name.
func cutPart(text, part string) (string, bool) {
	if after, ok := strings.CutPrefix(text, "."); ok && identifier.FindString(after) == part {
		return after[len(part):], true
	}
	return strings.CutPrefix(text, "["+ast.String(part).String()+"]")
}

// line returns the edit that removes the line of a statement at a location, and the empty lines before it.
func line(text string, at *ast.Location) edit {
	end := len(text)
	if i := strings.IndexByte(text[at.Offset:], '\n'); i >= 0 {
		end = at.Offset + i + 1
	}
	start := at.Offset
	before := len(strings.TrimRight(text[:start], " \t\r\n"))
	if i := strings.IndexByte(text[before:start], '\n'); i >= 0 {
		start = before + i + 1
	}
	return edit{start: start, end: end}
}

var errOverlap = errors.New("the module can't be joined with others: put each import and each rule on lines of its own")

// apply returns a text with the edits made, without the line breaks at its start and end. Equal edits are made once. Edits that overlap are
// an error. It sorts edits.
func apply(text string, edits []edit) (string, error) {
	slices.SortFunc(edits, func(x, y edit) int { return x.start - y.start })
	edits = slices.Compact(edits)
	var out strings.Builder
	at := 0
	for _, e := range edits {
		if e.start < at {
			return "", errOverlap
		}
		out.WriteString(text[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	out.WriteString(text[at:])
	return strings.Trim(out.String(), "\r\n"), nil
}

// check compares the resolved rules of the joined text with those of the original modules. They must be equal one by
// one. The further work of OPA's compiler depends on nothing else.
func (a *assembly) check() error {
	parsed, err := ast.ParseModuleWithOpts("joined", a.draft.text, ast.ParserOptions{RegoVersion: parserVersions[a.draft.language]})
	if err != nil {
		return fmt.Errorf("these modules have to be joined into one policy, but can't be read as one: bring them to one version of Rego, "+
			"for instance by opa fmt --v0-v1: %w", err)
	}
	got := resolve(map[string]*ast.Module{"joined": parsed})["joined"]
	at := 0
	for _, m := range a.draft.modules {
		for _, rule := range a.originals[m.source.String()] {
			want, err := a.rename(m, rule)
			if err != nil {
				return err
			}
			if at >= len(got) {
				return fmt.Errorf("%s: %w", m.source, errOverlap)
			}
			numbered, err := numberWildcards(got[at])
			if err != nil {
				return err
			}
			if !numbered.Equal(want) {
				return fmt.Errorf("these modules have to be joined into one policy, but there the rule %s of %s would mean something else: a name in "+
					"the rule is an import or a rule of another of them, or a keyword; rename one of the two", language.RuleName(rule), m.source)
			}
			at++
		}
	}
	if at != len(got) {
		return errOverlap
	}
	return nil
}

// rename returns a copy of a rule with the new names that it must have in the joined text, and with its wildcards numbered from 0.
func (a *assembly) rename(m *module, rule *ast.Rule) (*ast.Rule, error) {
	out, err := transform(rule, func(x any) any {
		ref, ok := x.(ast.Ref)
		if !ok || !ref.HasPrefix(ast.DefaultRootRef) {
			return x
		}
		name, parts, ok := a.renamed(constants(ref))
		if !ok {
			return x
		}
		renamed := ast.Ref{ast.DefaultRootDocument}
		for _, part := range append(slices.Clone(a.draft.pkg.path), name) {
			renamed = append(renamed, ast.StringTerm(part))
		}
		return append(renamed, ref[1+parts:]...)
	})
	if err != nil {
		return nil, err
	}
	if m.pkg != a.draft.pkg {
		old := language.RuleName(rule)
		name := ast.Var(a.names[target{pkg: m.pkg, name: old}])
		for r := out; r != nil; r = r.Else {
			if len(r.Head.Reference) > 0 {
				r.Head.Reference[0] = ast.NewTerm(name)
			}
			if string(r.Head.Name) == old {
				r.Head.Name = name
			}
		}
	}
	return numberWildcards(out)
}

// numberWildcards returns a copy of a rule with its wildcards numbered from 0 in order, so that rules of different texts can be compared:
// the parser numbers wildcards across the whole text.
func numberWildcards(rule *ast.Rule) (*ast.Rule, error) {
	numbers := map[ast.Var]ast.Var{}
	return transform(rule, func(x any) any {
		v, ok := x.(ast.Var)
		if !ok || !v.IsWildcard() {
			return x
		}
		if _, ok := numbers[v]; !ok {
			numbers[v] = ast.Var(fmt.Sprintf("%s%d", ast.WildcardPrefix, len(numbers)))
		}
		return numbers[v]
	})
}

// transform returns a copy of the rule in which each node is replaced by what f returns for it.
func transform(rule *ast.Rule, f func(any) any) (*ast.Rule, error) {
	var t *ast.GenericTransformer
	t = ast.NewGenericTransformer(func(x any) (any, error) {
		some, ok := x.(*ast.SomeDecl)
		if !ok {
			return f(x), nil
		}
		// OPA's transformer does not visit these, although `some x in ...` contains whole terms.
		for i, symbol := range some.Symbols {
			value, err := ast.Transform(t, symbol)
			if err != nil {
				return nil, err
			}
			some.Symbols[i] = ast.NewTerm(value.(ast.Value))
		}
		return some, nil
	})
	out, err := ast.Transform(t, rule.Copy())
	if err != nil {
		return nil, fmt.Errorf("changing the rule %s: %w", language.RuleName(rule), err)
	}
	return out.(*ast.Rule), nil
}
