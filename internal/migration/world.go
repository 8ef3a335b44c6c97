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
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

// languages are the versions of Rego, newest first.
var languages = []placementv1.RegoVersion{placementv1.RegoV1, placementv1.RegoV0}

var parserVersions = map[placementv1.RegoVersion]ast.RegoVersion{
	placementv1.RegoV0: ast.RegoV0,
	placementv1.RegoV1: ast.RegoV1,
}

// module is the Rego in one key of a ConfigMap.
type module struct {
	source Source
	text   string
	// parsed has the syntax tree of the module for each Rego version in which it parses, or at most for the one in Options.Language. It need
	// not compile.
	parsed map[placementv1.RegoVersion]*ast.Module
	// ambiguous reports whether the module parses in both versions of Rego, with different meanings. Then it is not converted.
	ambiguous bool
	pkg       *pkg
	// resolved are the module's rules with complete references, as resolve returns them.
	resolved []*ast.Rule

	converted bool   // whether a policy contains the module
	refused   string // why its package could not become a policy; empty if nothing failed
}

// language returns the newest version in which the module is valid.
func (m *module) language() placementv1.RegoVersion {
	if m.parsed[placementv1.RegoV1] != nil {
		return placementv1.RegoV1
	}
	return placementv1.RegoV0
}

// parse parses a module in the given version or, if version is empty, in every version in which it is valid. If it is valid in none of
// these, it returns one error with the reasons for each.
func parse(source Source, text string, version placementv1.RegoVersion) (*module, error) {
	m := &module{source: source, text: text, parsed: map[placementv1.RegoVersion]*ast.Module{}}
	var errs []error
	for _, l := range languages {
		if version != "" && l != version {
			continue
		}
		parsed, err := ast.ParseModuleWithOpts(source.String(), text, ast.ParserOptions{RegoVersion: parserVersions[l]})
		if err == nil && parsed == nil {
			err = errors.New("the Rego has no package declaration")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("as Rego %s: %w", l, err))
			continue
		}
		m.parsed[l] = parsed
	}
	if len(m.parsed) == 0 {
		return nil, fmt.Errorf("it is no Rego: %w", errors.Join(errs...))
	}
	v0, v1 := m.parsed[placementv1.RegoV0], m.parsed[placementv1.RegoV1]
	m.ambiguous = v0 != nil && v1 != nil && !v0.Equal(v1)
	return m, nil
}

// pkg is a package of Rego: its path, all modules that declare it, and which of these define each of its rules.
type pkg struct {
	// path is the path below data.
	path []string
	// modules are sorted by source.
	modules []*module
	// rules maps the first part of each rule's name to the modules that define the rule.
	rules map[string][]*module
}

// refuse notes, in each module of the package, the error because of which the package does not become a policy. It replaces an earlier one.
func (p *pkg) refuse(err error) {
	for _, m := range p.modules {
		m.refused = err.Error()
	}
}

// String returns the path as a module writes it, without "data.".
func (p *pkg) String() string { return strings.TrimPrefix(referenceTo(p.path), "data.") }

// referenceTo returns a path below data as a module writes it.
func referenceTo(path []string) string {
	ref := ast.Ref{ast.DefaultRootDocument}
	for _, part := range path {
		ref = append(ref, ast.StringTerm(part))
	}
	return ref.String()
}

// definesAny reports whether the package defines one of the rules.
func (p *pkg) definesAny(rules []string) bool {
	return slices.ContainsFunc(rules, func(name string) bool { return p.rules[name] != nil })
}

// moduleSet is the set of all modules in one OPA, as the packages that have them, sorted by path.
type moduleSet []*pkg

// newModuleSet groups modules into packages and resolves their references. The modules must be sorted by source.
func newModuleSet(modules []*module) moduleSet {
	packages := map[string]*pkg{}
	parsed := map[string]*ast.Module{}
	for _, m := range modules {
		one := m.parsed[m.language()]
		path := constants(one.Package.Path)
		key := one.Package.Path.String()
		if packages[key] == nil {
			packages[key] = &pkg{path: path, rules: map[string][]*module{}}
		}
		m.pkg = packages[key]
		m.pkg.modules = append(m.pkg.modules, m)
		for _, rule := range one.Rules {
			name := language.RuleName(rule)
			if defines := m.pkg.rules[name]; !slices.Contains(defines, m) {
				m.pkg.rules[name] = append(defines, m)
			}
		}
		parsed[m.source.String()] = one
	}
	resolved := resolve(parsed)
	for _, m := range modules {
		m.resolved = resolved[m.source.String()]
	}
	return slices.SortedFunc(maps.Values(packages), func(x, y *pkg) int { return slices.Compare(x.path, y.path) })
}

// errStop ends a compilation after the stage of interest. OPA requires an error of its own type.
var errStop = ast.NewError(ast.CompileErr, nil, "resolved")

// resolve returns the rules of each module, by the key in modules, after OPA's compiler has replaced imports, and the names of a package's
// own rules, with complete references. If the compiler finds an error before that, the result has no rules at all.
func resolve(modules map[string]*ast.Module) map[string][]*ast.Rule {
	out := map[string][]*ast.Rule{}
	compiler := ast.NewCompiler().WithStageAfterID(ast.StageResolveRefs, ast.CompilerStageDefinition{
		Name: "BerthTakeResolved", MetricName: "berth_take_resolved",
		Stage: func(c *ast.Compiler) *ast.Error {
			for name, m := range c.Modules {
				for _, rule := range m.Rules {
					out[name] = append(out[name], rule.Copy())
				}
			}
			return errStop
		},
	})
	compiler.Compile(modules)
	return out
}

// constants returns the constant parts of a reference below data, up to the first part that is known only at
// evaluation.
func constants(ref ast.Ref) []string {
	var out []string
	for _, term := range ref[1:] {
		part, ok := term.Value.(ast.String)
		if !ok {
			break
		}
		out = append(out, string(part))
	}
	return out
}

// agree reports whether one path is a prefix of the other.
func agree(x, y []string) bool {
	n := min(len(x), len(y))
	return slices.Equal(x[:n], y[:n])
}

// references calls f for each reference of the module to data. path has the constant parts of the reference (constants).
func (m *module) references(f func(ref ast.Ref, path []string)) {
	for _, rule := range m.resolved {
		ast.WalkRefs(rule, func(ref ast.Ref) bool {
			if ref.HasPrefix(ast.DefaultRootRef) {
				f(ref, constants(ref))
			}
			return false
		})
	}
}

// target identifies a rule by its package and the first part of its name.
type target struct {
	pkg  *pkg
	name string
}

// targets returns the rule that a path below data is that of, or begins with. If there is none, targets returns whole, the packages whose
// path is the given one or begins with it: a reference to the path reads all of their rules, or may. Both are nil for any other path, such
// as that of a document.
func (w moduleSet) targets(path []string) (rule *target, whole []*pkg) {
	for _, p := range w {
		switch {
		case !agree(path, p.path):
		case len(path) <= len(p.path):
			whole = append(whole, p)
		case p.rules[path[len(p.path)]] != nil:
			rule = &target{pkg: p, name: path[len(p.path)]}
		}
	}
	if rule != nil {
		return rule, nil
	}
	return nil, whole
}

// reads returns the paths below data at which the module may read documents, up to the first part that is known only at evaluation: all
// paths that name no rule, also those that read a package as a whole. A path may occur more than once.
func (w moduleSet) reads(m *module) [][]string {
	var out [][]string
	m.references(func(_ ast.Ref, path []string) {
		if rule, _ := w.targets(path); rule == nil && len(path) > 0 {
			out = append(out, path)
		}
	})
	return out
}

// admissionFields are fields that the input of an admission controller's policy has and that an object lacks. A package with a module that
// reads input.<field> of one is not converted.
var admissionFields = []string{"request", "review"}

// admission returns the first reference of the modules to a field of an admission request, and the module that has it; nil without one.
func admission(modules []*module) (*module, ast.Ref) {
	for _, m := range modules {
		var found ast.Ref
		for _, rule := range m.resolved {
			ast.WalkRefs(rule, func(ref ast.Ref) bool {
				if !ref.HasPrefix(ast.InputRootRef) {
					return false
				}
				if path := constants(ref); found == nil && len(path) > 0 && slices.Contains(admissionFields, path[0]) {
					found = ref
				}
				return found != nil
			})
		}
		if found != nil {
			return m, found
		}
	}
	return nil, nil
}

// designRules are the rules that clients query in OPA in the design from which policies are migrated.
var designRules = []string{"annotations", "labels", "errors", "warnings"}

// denials are the rules of other tools that correspond to errors in Berth.
var denials = []string{"deny", "violation"}

const admissionAdvice = "a placement policy's input is the object itself: write input.metadata for input.request.object.metadata " +
	"and so on; operation, user and old object are not available, except in spec.match.matchConditions; and name the set of messages errors " +
	"in place of deny"

// reasonOmitted returns why no policy contains the modules of a package although they parse and the conversion of the package did not fail:
// they read an admission request, or define none of designRules. The text suggests how to change them; it is never empty.
func reasonOmitted(p *pkg) string {
	if _, ref := admission(p.modules); ref != nil {
		return fmt.Sprintf("its package %s is admission control, because it reads %s: %s", p, ref, admissionAdvice)
	}
	missing := fmt.Sprintf("its package %s defines none of %s, and no policy reads it", p, strings.Join(designRules, ", "))
	for _, name := range denials {
		if p.rules[name] != nil {
			return fmt.Sprintf("%s: rename %s, the set of messages, to errors, by which Berth denies objects", missing, name)
		}
	}
	return missing
}
