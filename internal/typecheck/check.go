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

package typecheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
)

// Input is what Check gets: the spec of a policy that compiles, the findings of its compilation, and the types of the objects that the
// policy reads.
type Input struct {
	Spec placementv1.PlacementPolicySpec
	// Binding has the paths in `data` of the replicated types that the policy reads.
	Binding *policy.Binding
	// Kinds are the kinds that the policy matches; empty for any kind. An expression is a finding only if it is wrong for each of them,
	// because the type checker does not understand how a policy distinguishes kinds. If the policy can't distinguish them, it is also one if
	// no contract rule can have a value for objects of one of them.
	Kinds []Kind
	// Objects are the types, as of Rego values, of the objects of replicated resource types. Objects of a type that is missing may have
	// any fields.
	Objects map[schema.GroupVersionResource]types.Type
	// Known are the findings of the policy's compilation. Check returns them, too, with Warned set.
	Known []lint.Finding

	// optional has the positions of references to spec.data under `not`, whose fields need not exist.
	optional map[lint.Position]bool
	// comparisons has the comparisons in the policy's Rego as they are written, by position.
	comparisons map[lint.Position]written
}

// Kind is one version of a resource type that a policy matches: the resource type, without the version, and the type of its objects in that
// version, as Rego values.
type Kind struct {
	// Resource is the resource type of the kind, possibly in one of several versions. It is empty for AnyObject.
	Resource schema.GroupResource
	Type     types.Type // The type of its objects; AnyObject if their schema is not known.
}

// Finding is a message about an expression that can't have the value that its author intended.
type Finding struct {
	lint.Position
	Message string
	// Rule is a contract rule of which a definition can't have a value because of the finding; empty if there is none.
	Rule string
	// Warned reports whether the warnings of the compiled policy (policy.Module) already contain the finding.
	Warned bool
	// suggests reports whether the message suggests what is meant.
	suggests bool
	// holds reports whether the expression may be true nevertheless, such as a comparison that is always true. Then it does not keep a
	// rule from having a value.
	holds bool
}

// Text returns the message. It begins with the position, such as "NAME.rego:3:5: ", where name is the policy's name. Findings in rules have
// no position: their message names the field.
func (f Finding) Text(name string) string {
	if f.Row == 0 {
		return f.Message
	}
	return fmt.Sprintf("%s.rego:%d:%d: %s", name, f.Row, f.Col, f.Message)
}

// samePosition reports whether two findings have the same position.
func (f Finding) samePosition(other Finding) bool {
	return f.Position == other.Position
}

// Result is the result of a check of one policy: at most MaxFindings findings, the number of all that there are, and the contract rules
// that can never have a value. If the policy could not be checked, it has the reason instead.
type Result struct {
	// Findings are sorted by position, without duplicates, and limited to MaxFindings.
	Findings []Finding
	Total    int // The number of findings without the limit.
	// Impossible are the contract rules that can never have a value, in the contract's order.
	Impossible []string
	// Unchecked is the reason why the policy could not be checked; empty if it was checked.
	Unchecked string
}

// MaxFindings is the maximum number of findings of one policy.
const MaxFindings = 10

// textFile is the file name of the policy's Rego in the compilation.
const textFile = "policy.rego"

// Check returns the findings in a policy. It reports errors of OPA's type checker, comparisons of values of different types, comparisons of
// quantities and numbers as text, kinds for which the policy can never produce a result, and the findings of the compilation. The policy
// must compile without types. If its types take too much work to check, the result has Unchecked and no findings.
func Check(in Input) Result {
	source, err := policy.ParseRego(textFile, in.Spec.Rego, in.Spec.RegoVersion)
	if err != nil {
		return Result{Unchecked: err.Error()}
	}
	if len(in.Kinds) == 0 {
		in.Kinds = []Kind{{Type: types.A}}
	}
	byKind := readsKind(source)
	in.optional, in.comparisons = optionalReads(source), writtenComparisons(source)
	each, err := checkKinds(in, byKind, usesIn(source))
	if err != nil {
		return Result{Unchecked: err.Error()}
	}
	found := each[0]
	for _, next := range each[1:] {
		found = common(found, next)
	}
	for _, known := range in.Known {
		found = append(found, Finding{Position: known.Position, Message: known.Message, Warned: true, holds: !known.Undefined})
	}
	impossible := locate(source, found)
	if !byKind && len(impossible) < len(contractRules(source)) {
		found = append(found, mute(source, in.Kinds, each, found)...)
	}
	found = sorted(append(found, quantities(in, source, byKind)...))
	return Result{Findings: found[:min(len(found), MaxFindings)], Total: len(found), Impossible: impossible}
}

// checkKinds returns a list of findings for each kind, in the order of in.Kinds. The parameter members reports whether the policy uses the
// operator `in`. If onlyCommon is true, only findings that all kinds share matter, so the result ends with the first kind without findings.
func checkKinds(in Input, onlyCommon, members bool) ([][]Finding, error) {
	each := make([][]Finding, 0, len(in.Kinds))
	for _, kind := range in.Kinds {
		found, err := checkKind(in, kind.Type)
		if err != nil {
			return nil, err
		}
		if members {
			if found, err = withMembers(in, kind.Type, found); err != nil {
				return nil, err
			}
		}
		each = append(each, found)
		if onlyCommon && len(found) == 0 {
			break
		}
	}
	return each, nil
}

// common returns a finding for each position at which both lists have one: that of a, unless only that of b has a suggestion.
func common(a, b []Finding) []Finding {
	var out []Finding
	for _, f := range a {
		i := slices.IndexFunc(b, f.samePosition)
		if i < 0 {
			continue
		}
		if !f.suggests && b[i].suggests {
			f = b[i]
		}
		out = append(out, f)
	}
	return out
}

// checkKind returns the findings for one type of `input`: those of the type checker, and those about definitions of contract rules whose
// value can never be valid. It returns an error if the policy can't be checked.
func checkKind(in Input, input types.Type) ([]Finding, error) {
	operators := comparisons{}
	compiler, err := compile(in, input, nil, operators.unify)
	if err != nil {
		return nil, err
	}
	found, err := findings(compiler.Errors, operators, in)
	if err != nil {
		return nil, err
	}
	for _, d := range compiler.Contract(textFile) {
		f := Finding{Position: lint.Position{Row: d.Row, Col: d.Col}, Message: d.Message}
		// One finding per clause is enough, because the others concern the same value.
		if !slices.ContainsFunc(found, f.samePosition) {
			found = append(found, f)
		}
	}
	return sorted(found), nil
}

// compile compiles the policy with the given type of `input` and the types of the known documents. The returned compiler has all errors of
// the compilation, also those of the type checker; compile itself returns an error only if Rego can't be parsed. The stage changes the
// modules before the type checker runs. The policy may then also call the given builtin functions.
func compile(in Input, input types.Type, builtins []*ast.Builtin, stage func(*ast.Compiler) *ast.Error) (*policy.TypedCompiler, error) {
	text, err := policy.ParseRego(textFile, in.Spec.Rego, in.Spec.RegoVersion)
	if err != nil {
		return nil, err
	}
	known := documents(in)
	replaceWhole(text, known)
	redirectInput(text)
	modules, declared := map[string]*ast.Module{textFile: text}, map[string]types.Type{}
	typed := append(known, document{[]string{typeRoot, inputName}, input}, document{[]string{typeRoot, anyName}, types.A})
	for i, d := range typed {
		if d.hides(text.Package.Path) {
			continue
		}
		builtin := &ast.Builtin{Name: fmt.Sprintf("berth.typecheck.document%d", i), Decl: types.NewFunction(nil, d.tpe)}
		module, err := d.module(builtin.Name, in.Spec.RegoVersion)
		if err != nil {
			return nil, err
		}
		modules[fmt.Sprintf("document%d.rego", i)] = module
		builtins = append(builtins, builtin)
		declared[module.Rules[0].Ref().String()] = d.tpe
	}
	compiler := policy.NewCompilerWith(in.Spec.RegoVersion, builtins, declared)
	compiler.SetErrorLimit(0).
		WithStageAfterID(ast.StageRewriteTestRulesForTracing, ast.CompilerStageDefinition{
			Name: "BerthCompareTypes", MetricName: "compile_stage_berth_compare_types", Stage: stage,
		})
	compiler.Compile(modules)
	return compiler, nil
}

// Names of the document that replaces `input` in the compilation. OPA reads the type of `input` only from a JSON
// schema, which can't express the type of a map's values.
const (
	typeRoot  = "__berth__"
	inputName = "object"
	anyName   = "any"
)

// typed returns a reference to the document below typeRoot with a name. at is the location of the reference.
func typed(name string, at *ast.Location) ast.Ref {
	root := ast.NewTerm(ast.DefaultRootDocument.Value).SetLocation(at)
	return ast.Ref{root, ast.StringTerm(typeRoot).SetLocation(at), ast.StringTerm(name).SetLocation(at)}
}

// redirectInput replaces references to `input` in a module with references to the typed document.
func redirectInput(m *ast.Module) {
	ast.WalkTerms(m, func(t *ast.Term) bool {
		if ref, ok := t.Value.(ast.Ref); ok && ref[0].Equal(ast.InputRootDocument) {
			t.Value = append(typed(inputName, ref[0].Location), ref[1:]...)
		}
		return false
	})
}

// replaceWhole changes each `with` that replaces a part of `input` or of a known document: it then replaces the whole document by any
// value, because `with` can replace a document that a rule defines only as a whole. A `with` of a whole document stays as it is.
func replaceWhole(m *ast.Module, known []document) {
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		for _, with := range e.With {
			ref, _ := with.Target.Value.(ast.Ref)
			if whole := wholeDocument(ref, known); len(whole) < len(ref) {
				with.Target.Value = whole
				with.Value = ast.NewTerm(typed(anyName, with.Value.Location)).SetLocation(with.Value.Location)
			}
		}
		return false
	})
}

// wholeDocument returns the part of a reference that names `input` or a known document, without the path in it. It returns other
// references unchanged.
func wholeDocument(ref ast.Ref, known []document) ast.Ref {
	switch {
	case ref.HasPrefix(ast.InputRootRef):
		return ref[:1]
	case ref.HasPrefix(ast.DefaultRootRef):
		for _, d := range known {
			if len(ref) > len(d.path) && d.hides(ref) {
				return ref[:len(d.path)+1]
			}
		}
	}
	return ref
}

// module returns a module with one rule, which defines the document. The rule's value has the document's type because it is the result of
// the builtin function with the given name, which is declared with that type.
func (d document) module(function string, version placementv1.RegoVersion) (*ast.Module, error) {
	m, err := policy.ParseRego("document.rego", "package document\n\nvalue := "+function+"()\n", version)
	if err != nil {
		return nil, err
	}
	path := ast.Ref{ast.DefaultRootDocument}
	for _, name := range d.path[:len(d.path)-1] {
		path = append(path, ast.StringTerm(name).SetLocation(m.Package.Location))
	}
	m.Package.Path = path
	name := ast.Var(d.path[len(d.path)-1])
	head := m.Rules[0].Head
	head.Name, head.Reference = name, ast.Ref{ast.NewTerm(name).SetLocation(head.Location)}
	return m, nil
}

// optionalReads returns the positions of references to spec.data under `not`. The policy's author decides which fields
// the entries have, and may add a field later that no entry has now.
func optionalReads(source *ast.Module) map[lint.Position]bool {
	out := map[lint.Position]bool{}
	ast.WalkExprs(source, func(e *ast.Expr) bool {
		if !e.Negated {
			return false
		}
		ast.WalkRefs(e, func(ref ast.Ref) bool {
			if at := ref[0].Location; at != nil && readsOwnData(ref) {
				out[lint.PositionOf(at)] = true
			}
			return false
		})
		return false
	})
	return out
}

// readsOwnData reports whether a reference can be to a document in spec.data: it begins with `data` and a constant name that is none of
// language.Roots, the names that Berth fills.
func readsOwnData(ref ast.Ref) bool {
	name, ok := language.Part(ref, 1)
	return ok && ref[0].Equal(ast.DefaultRootDocument) && !slices.Contains(language.Roots, name)
}

// comparisons has the operators of the comparisons in a policy's Rego, by position.
type comparisons map[lint.Position]string

// unify is a compiler stage that records comparison operators other than == in o, and replaces them with equality, which requires operands
// of one type. It leaves comparisons with null as they are. The result is not evaluated.
func (o comparisons) unify(c *ast.Compiler) *ast.Error {
	for _, module := range c.Modules {
		ast.WalkExprs(module, func(e *ast.Expr) bool {
			if !e.IsCall() || len(e.Operands()) != 2 || slices.ContainsFunc(e.Operands(), isNull) {
				return false
			}
			if operator := e.Operator().String(); slices.Contains(compared, operator) {
				if e.Location != nil {
					o[lint.PositionOf(e.Location)] = operator
				}
				e.SetOperator(ast.NewTerm(ast.Equality.Ref()).SetLocation(e.Location))
			}
			return false
		})
	}
	return nil
}

var compared = []string{
	ast.NotEqual.Name, ast.LessThan.Name, ast.LessThanEq.Name, ast.GreaterThan.Name, ast.GreaterThanEq.Name,
}

// isNull reports whether a term is null.
func isNull(t *ast.Term) bool {
	_, ok := t.Value.(ast.Null)
	return ok
}

// findings converts the type checker's errors to findings, in their order. It returns an error if one of them is no error of types, so that
// the policy can't be checked. References at optional positions may be undefined, unless a field was probably misspelt.
func findings(errs ast.Errors, operators comparisons, in Input) ([]Finding, error) {
	var out []Finding
	for _, err := range errs {
		if err.Code != ast.TypeErr {
			return nil, fmt.Errorf("%s: %s", err.Code, err.Message)
		}
		if err.Location == nil || err.Location.File != textFile {
			continue
		}
		at := lint.PositionOf(err.Location)
		message, holds, ok := explain(err, operators[at], in.comparisons[at])
		suggests := strings.Contains(message, didYouMean)
		_, undefined := err.Details.(*ast.RefErrInvalidDetail)
		if ok && (suggests || !undefined || !in.optional[at]) {
			out = append(out, Finding{Position: at, Message: message, suggests: suggests, holds: holds})
		}
	}
	return out, nil
}

// sorted sorts findings by position, then by message, and drops those that equal the one before in all fields. It changes the list.
func sorted(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(a.Compare(b.Position), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(found)
}
