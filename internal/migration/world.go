package migration

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// languages are the versions of Rego, the newest first.
var languages = []placementv1.RegoVersion{placementv1.RegoV1, placementv1.RegoV0}

var parserVersions = map[placementv1.RegoVersion]ast.RegoVersion{
	placementv1.RegoV0: ast.RegoV0,
	placementv1.RegoV1: ast.RegoV1,
}

// module is one key of a ConfigMap.
type module struct {
	source Source
	text   string
	// parsed has the module in every language in which it is one.
	parsed map[placementv1.RegoVersion]*ast.Module
	// ambiguous says that it is a module in both languages, and not the same.
	ambiguous bool
	pkg       *pkg
	// resolved are its rules with every reference in full.
	resolved []*ast.Rule

	converted bool
	refused   string
}

// language is the newest one in which the module is one.
func (m *module) language() placementv1.RegoVersion {
	if m.parsed[placementv1.RegoV1] != nil {
		return placementv1.RegoV1
	}
	return placementv1.RegoV0
}

// parse reads a module in the language, or in each one if that is empty.
func parse(source Source, text string, language placementv1.RegoVersion) (*module, error) {
	m := &module{source: source, text: text, parsed: map[placementv1.RegoVersion]*ast.Module{}}
	var errs []error
	for _, l := range languages {
		if language != "" && l != language {
			continue
		}
		parsed, err := ast.ParseModuleWithOpts(source.String(), text, ast.ParserOptions{RegoVersion: parserVersions[l]})
		if err == nil && parsed == nil {
			err = errors.New("the text has no package")
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

// pkg is a package: all modules that say they are of it.
type pkg struct {
	// path is below data.
	path []string
	// modules are sorted by source.
	modules []*module
	// rules are the first parts of its rules' names, and which modules define them.
	rules map[string][]*module
}

// String is the path as a module writes it.
func (p *pkg) String() string { return strings.TrimPrefix(referenceTo(p.path), "data.") }

// referenceTo is a path below data as a module writes it.
func referenceTo(path []string) string {
	ref := ast.Ref{ast.DefaultRootDocument}
	for _, part := range path {
		ref = append(ref, ast.StringTerm(part))
	}
	return ref.String()
}

func (p *pkg) definesAny(rules []string) bool {
	return slices.ContainsFunc(rules, func(name string) bool { return p.rules[name] != nil })
}

// world is all that one OPA has.
type world struct {
	// packages are sorted by their paths.
	packages []*pkg
}

// newWorld groups modules, which are sorted by source, into packages, and resolves their references.
func newWorld(modules []*module) *world {
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
			name := headName(rule)
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
	return &world{packages: slices.SortedFunc(maps.Values(packages), func(x, y *pkg) int { return slices.Compare(x.path, y.path) })}
}

// errStop ends a compilation of which no more is wanted. OPA wants an error of its own type.
var errStop = ast.NewError(ast.CompileErr, nil, "resolved")

// resolve returns the modules' rules as OPA's compiler sees them once it knows what each name means: imports and names
// of a package's own rules are replaced by references in full.
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

// headName is the first part of a rule's name.
func headName(rule *ast.Rule) string {
	if name, ok := rule.Head.Ref()[0].Value.(ast.Var); ok {
		return string(name)
	}
	return ""
}

// constants are the parts of a reference to data below data, up to the first that only evaluation knows.
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

// agree says whether one path begins with the other.
func agree(x, y []string) bool {
	n := min(len(x), len(y))
	return slices.Equal(x[:n], y[:n])
}

// references calls f for each reference of the module to data.
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

// target is a rule that a reference names.
type target struct {
	pkg  *pkg
	name string
}

// targets returns the rule that a path below data names, if it names one, and else the packages that it reads as a
// whole, or may.
func (w *world) targets(path []string) (rule *target, whole []*pkg) {
	for _, p := range w.packages {
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

// reads returns the paths below data at which the module reads documents. Each ends where only evaluation knows more.
func (w *world) reads(m *module) [][]string {
	var out [][]string
	m.references(func(_ ast.Ref, path []string) {
		if rule, _ := w.targets(path); rule == nil && len(path) > 0 {
			out = append(out, path)
		}
	})
	return out
}

// admissionFields are what the input of an admission controller's policy has below it, and an object has not.
var admissionFields = []string{"request", "review"}

// admission returns the first reference of the modules to an admission request.
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

// designRules are the rules that OPA was asked for, in the design that policies are migrated from.
var designRules = []string{"annotations", "labels", "errors", "warnings"}

// denials are what other tools ask for where Berth asks for errors.
var denials = []string{"deny", "violation"}

const admissionAdvice = "a placement policy's input is the object itself: write input.metadata for input.request.object.metadata and so on; " +
	"operation, user and old object are not to be had, except in spec.match.matchConditions; and name the set of messages errors in place of deny"

// whyNot says why a module that can be read is in no policy.
func (w *world) whyNot(m *module, wanted []string) string {
	if len(wanted) > 0 && !slices.Contains(wanted, m.pkg.String()) {
		return fmt.Sprintf("neither is its package %s among those named, nor does one of them read it", m.pkg)
	}
	if _, ref := admission(m.pkg.modules); ref != nil {
		return fmt.Sprintf("its package %s is admission control, it reads %s: %s", m.pkg, ref, admissionAdvice)
	}
	missing := fmt.Sprintf("its package %s defines none of %s, and no policy reads it", m.pkg, strings.Join(designRules, ", "))
	for _, name := range denials {
		if m.pkg.rules[name] != nil {
			return fmt.Sprintf("%s: Berth looks for errors in place of %s, a set of messages", missing, name)
		}
	}
	return missing
}
