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
)

// Input is a policy that compiles, and what is known of the objects that it reads.
type Input struct {
	Spec placementv1.PlacementPolicySpec
	// Binding has the places of the replicated types in `data`.
	Binding *policy.Binding
	// Kinds are the kinds that the policy matches; empty for any. An expression is a finding only if it is wrong for each of
	// them: the type checker does not follow how a text tells kinds apart.
	Kinds []Kind
	// Objects are the types of replicated objects. A type that is missing may have any fields.
	Objects map[schema.GroupVersionResource]types.Type
	// Known are the findings of the text's compilation.
	Known []policy.Finding

	// optional are the places of references that may be undefined.
	optional map[place]bool
}

// Kind is a kind that a policy matches.
type Kind struct {
	// Resource is the type whose objects have the kind, perhaps in one of several versions. It is empty for AnyObject.
	Resource schema.GroupResource
	Type     types.Type
}

// Finding is an expression that can't have the value that its author means.
type Finding struct {
	// Line and Column are its place in the text, from 1.
	Line, Column int
	Message      string
	// Rule is the rule of the decision contract that can't have a value for the finding; empty if there is none.
	Rule string
	// Warned reports whether the warnings of policy.Module say it, too.
	Warned bool
	// suggests reports whether the message has a suggestion.
	suggests bool
	// holds reports whether the expression may be true nevertheless, as a comparison that always is.
	holds bool
}

// at reports whether two findings are at the same place.
func (f Finding) at(other Finding) bool { return f.Line == other.Line && f.Column == other.Column }

// Result is what a check finds.
type Result struct {
	// Findings are ordered by place, without duplicates, and at most MaxFindings. Total is how many there are.
	Findings []Finding
	Total    int
	// Impossible are the rules of the decision contract that can never have a value, in the contract's order.
	Impossible []string
	// Unchecked is why the text could not be checked; empty if it was.
	Unchecked string
}

// MaxFindings bounds the findings of one policy.
const MaxFindings = 10

// textFile names the policy's text in the compilation.
const textFile = "policy.rego"

// Check returns what OPA's type checker finds in a policy's text, comparisons of values of different types, comparisons of
// quantities as text, the kinds of which the policy can never say anything, and what the compilation found. The text must
// compile by itself. A text whose types take too much work to check has no findings.
func Check(in Input) Result {
	source, _, err := policy.ParseText(textFile, in.Spec.Rego, in.Spec.RegoVersion)
	if err != nil {
		return Result{Unchecked: err.Error()}
	}
	if len(in.Kinds) == 0 {
		in.Kinds = []Kind{{Type: types.A}}
	}
	byKind := readsKind(source)
	in.optional = optionalReads(source)
	each, err := checkKinds(in, byKind, asksMembers(source))
	if err != nil {
		return Result{Unchecked: err.Error()}
	}
	found := each[0]
	for _, next := range each[1:] {
		found = common(found, next)
	}
	for _, known := range in.Known {
		found = append(found, Finding{Line: known.Row, Column: known.Col, Message: known.Message, Warned: true, holds: !known.Undefined})
	}
	impossible := locate(source, found)
	if !byKind && len(impossible) < len(contractRules(source)) {
		found = append(found, mute(source, in.Kinds, each, found)...)
	}
	found = sorted(append(found, quantities(in, source, byKind)...))
	return Result{Findings: found[:min(len(found), MaxFindings)], Total: len(found), Impossible: impossible}
}

// checkKinds returns the findings for each kind; members reports whether the text has the operator `in`. Where those that all
// kinds have in common are enough, it stops at the first kind that rules them all out.
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

// common returns the findings at whose place both kinds have one, with a message that has a suggestion if there is one.
func common(a, b []Finding) []Finding {
	var out []Finding
	for _, f := range a {
		i := slices.IndexFunc(b, f.at)
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

// checkKind returns what the type checker finds where `input` has one type, and the clauses of the decision contract whose
// value can never be valid.
func checkKind(in Input, input types.Type) ([]Finding, error) {
	operators := comparisons{}
	compiler, err := compile(in, input, nil, operators.unify)
	if err != nil {
		return nil, err
	}
	found, err := findings(compiler.Errors, operators, in.optional)
	if err != nil {
		return nil, err
	}
	for _, d := range compiler.Contract(textFile) {
		f := Finding{Line: d.Row, Column: d.Col, Message: d.Message}
		// One mistake in a clause is enough: the others are in the same value.
		if !slices.ContainsFunc(found, f.at) {
			found = append(found, f)
		}
	}
	return sorted(found), nil
}

// compile returns a compiler that compiled the text where `input`, and the documents that are known, have types. It has the
// type checker's errors. The stage changes the modules before the type checker sees them; the text may then call more builtin
// functions.
func compile(in Input, input types.Type, builtins []*ast.Builtin, stage func(*ast.Compiler) *ast.Error) (*policy.TypedCompiler, error) {
	text, _, err := policy.ParseText(textFile, in.Spec.Rego, in.Spec.RegoVersion)
	if err != nil {
		return nil, err
	}
	known := documents(in)
	redirectInput(text)
	replaceWhole(text, known)
	modules := map[string]*ast.Module{textFile: text}
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
	}
	compiler := policy.NewCompilerWith(in.Spec.RegoVersion, builtins)
	compiler.SetErrorLimit(0).
		WithStageAfterID(ast.StageRewriteTestRulesForTracing, ast.CompilerStageDefinition{
			Name: "BerthCompareTypes", MetricName: "compile_stage_berth_compare_types", Stage: stage,
		})
	compiler.Compile(modules)
	return compiler, nil
}

// Names of the document that stands for `input` in the compilation. OPA reads the type of `input` from a JSON schema alone,
// which can't say what the values of a map are.
const (
	typeRoot  = "__berth__"
	inputName = "object"
	anyName   = "any"
)

// typed is a reference to one of the documents of typeRoot.
func typed(name string, at *ast.Location) ast.Ref {
	root := ast.NewTerm(ast.DefaultRootDocument.Value).SetLocation(at)
	return ast.Ref{root, ast.StringTerm(typeRoot).SetLocation(at), ast.StringTerm(name).SetLocation(at)}
}

// redirectInput has a module refer to the document that stands for `input`.
func redirectInput(m *ast.Module) {
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		for _, with := range e.With {
			// A document that a rule makes can only be replaced as a whole.
			if ref, ok := with.Target.Value.(ast.Ref); ok && ref[0].Equal(ast.InputRootDocument) && len(ref) > 1 {
				with.Target.Value = ref[:1]
				with.Value = ast.NewTerm(typed(anyName, with.Value.Location)).SetLocation(with.Value.Location)
			}
		}
		return false
	})
	ast.WalkTerms(m, func(t *ast.Term) bool {
		if ref, ok := t.Value.(ast.Ref); ok && ref[0].Equal(ast.InputRootDocument) {
			t.Value = append(typed(inputName, ref[0].Location), ref[1:]...)
		}
		return false
	})
}

// replaceWhole has a `with` that replaces a part of a document replace all of the document by anything: a document that a
// rule makes can only be replaced as a whole.
func replaceWhole(m *ast.Module, known []document) {
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		for _, with := range e.With {
			ref, ok := with.Target.Value.(ast.Ref)
			if !ok || !ref[0].Equal(ast.DefaultRootDocument) {
				continue
			}
			for _, d := range known {
				if len(ref) > len(d.path)+1 && d.hides(ref) {
					with.Target.Value = ref[:len(d.path)+1]
					with.Value = ast.NewTerm(typed(anyName, with.Value.Location)).SetLocation(with.Value.Location)
				}
			}
		}
		return false
	})
}

// module is a module whose rule has the document's type, since it is the result of a function that has.
func (d document) module(function string, version placementv1.RegoVersion) (*ast.Module, error) {
	m, _, err := policy.ParseText("document.rego", "package document\n\nvalue := "+function+"()\n", version)
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

// optionalReads are the places of references to spec.data under `not`: which fields its entries have is up to the policy's
// author, and one that no entry has now may come.
func optionalReads(source *ast.Module) map[place]bool {
	out := map[place]bool{}
	ast.WalkExprs(source, func(e *ast.Expr) bool {
		if !e.Negated {
			return false
		}
		ast.WalkRefs(e, func(ref ast.Ref) bool {
			if at := ref[0].Location; at != nil && readsOwnData(ref) {
				out[place{at.Row, at.Col}] = true
			}
			return false
		})
		return false
	})
	return out
}

func readsOwnData(ref ast.Ref) bool {
	if len(ref) < 2 || !ref[0].Equal(ast.DefaultRootDocument) {
		return false
	}
	name, ok := ref[1].Value.(ast.String)
	return ok && !slices.Contains(policy.Roots, string(name))
}

// comparisons are the operators of the comparisons of a text, by place.
type comparisons map[place]string

// unify is a stage of the compiler after which comparisons want operands of one type, as equality does. What is compiled is
// not evaluated.
func (o comparisons) unify(c *ast.Compiler) *ast.Error {
	for _, module := range c.Modules {
		ast.WalkExprs(module, func(e *ast.Expr) bool {
			if !e.IsCall() || len(e.Operands()) != 2 || slices.ContainsFunc(e.Operands(), isNull) {
				return false
			}
			if operator := e.Operator().String(); slices.Contains(compared, operator) {
				if e.Location != nil {
					o[place{e.Location.Row, e.Location.Col}] = operator
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

func isNull(t *ast.Term) bool {
	_, ok := t.Value.(ast.Null)
	return ok
}

// findings makes findings of the type checker's errors, ordered by place and without duplicates. Another error means that
// the text can't be checked. References at optional places may be undefined, unless the name of a field was probably misspelt.
func findings(errs ast.Errors, operators comparisons, optional map[place]bool) ([]Finding, error) {
	var out []Finding
	for _, err := range errs {
		if err.Code != ast.TypeErr {
			return nil, fmt.Errorf("%s: %s", err.Code, err.Message)
		}
		if err.Location == nil || err.Location.File != textFile {
			continue
		}
		at := place{err.Location.Row, err.Location.Col}
		message, holds, ok := explain(err, operators[at])
		suggests := strings.Contains(message, didYouMean)
		_, undefined := err.Details.(*ast.RefErrInvalidDetail)
		if ok && (suggests || !undefined || !optional[at]) {
			out = append(out, Finding{Line: at.line, Column: at.column, Message: message, suggests: suggests, holds: holds})
		}
	}
	return sorted(out), nil
}

// sorted orders findings by place, and leaves out duplicates.
func sorted(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(found)
}
