package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// InputConstant is a constant with which a text compares a field of its input that tells the type of the object.
type InputConstant struct {
	// Row and Col are the place of the comparison, from 1.
	Row, Col int
	// Field is kind or apiVersion.
	Field string
	Value string
	// Differs reports whether the comparison is true of all other values.
	Differs bool
}

// InputConstants returns the constants with which the text compares input.kind and input.apiVersion, one by one or as
// members of a set or an array, in the order of the text. It returns none of a text that replaces its input.
func (m *Module) InputConstants() []InputConstant {
	if m.Compiler == nil || m.Compiler.Modules[textFile] == nil {
		return nil
	}
	module := m.Compiler.Modules[textFile]
	replaced := false
	ast.WalkWiths(module, func(w *ast.With) bool {
		ref, ok := w.Target.Value.(ast.Ref)
		replaced = replaced || ok && ref.HasPrefix(ast.InputRootRef)
		return replaced
	})
	if replaced {
		return nil
	}
	standing := referencesOf(module)
	var out []InputConstant
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		out = append(out, m.comparedConstants(e, standing)...)
		return false
	})
	slices.SortStableFunc(out, func(a, b InputConstant) int {
		if a.Row != b.Row {
			return a.Row - b.Row
		}
		return a.Col - b.Col
	})
	return out
}

// references are the references that variables stand for. The compiler has made the variables of all bodies different.
type references map[ast.Var]ast.Ref

func referencesOf(module *ast.Module) references {
	out := references{}
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if e.Negated || !e.IsEquality() {
			return false
		}
		for i, operand := range e.Operands() {
			v, isVar := operand.Value.(ast.Var)
			if ref, ok := e.Operand(1 - i).Value.(ast.Ref); ok && isVar {
				out[v] = ref
			}
		}
		return false
	})
	return out
}

// of returns the reference that a term is or stands for; nil for other terms.
func (r references) of(term *ast.Term) ast.Ref {
	switch v := term.Value.(type) {
	case ast.Var:
		return r[v]
	case ast.Ref:
		return v
	}
	return nil
}

// typeField returns the name of the field that a reference reads; "" for other references.
func typeField(ref ast.Ref) string {
	name, ok := part(ref, 1)
	if ok && len(ref) == 2 && ref.HasPrefix(ast.InputRootRef) && (name == "kind" || name == "apiVersion") {
		return name
	}
	return ""
}

// comparedConstants returns the constants with which an expression compares one of the fields.
func (m *Module) comparedConstants(e *ast.Expr, standing references) []InputConstant {
	operands := e.Operands()
	if !e.IsCall() || len(operands) != 2 || e.Location == nil {
		return nil
	}
	at := InputConstant{Row: e.Location.Row, Col: e.Location.Col, Differs: e.Negated}
	var values []*ast.Term
	operator := e.Operator()
	switch {
	case operator.Equal(ast.Member.Ref()):
		at.Field, values = typeField(standing.of(operands[0])), m.members(operands[1], standing)
	case operator.Equal(ast.NotEqual.Ref()) || operator.Equal(ast.Equal.Ref()) || e.IsEquality():
		at.Differs = at.Differs != operator.Equal(ast.NotEqual.Ref())
		if at.Field, values = typeField(standing.of(operands[0])), operands[1:]; at.Field == "" {
			at.Field, values = typeField(standing.of(operands[1])), operands[:1]
		}
	}
	var out []InputConstant
	for _, value := range values {
		text, ok := value.Value.(ast.String)
		if at.Field == "" || !ok {
			return nil
		}
		at.Value = string(text)
		out = append(out, at)
	}
	return out
}

// members returns the members of a set or an array, or of a rule that is always one; nil for other terms.
func (m *Module) members(term *ast.Term, standing references) []*ast.Term {
	if ref := standing.of(term); ref != nil {
		rules := m.Compiler.GetRulesExact(ref)
		if len(rules) != 1 || rules[0].Head.Value == nil || rules[0].Else != nil || len(rules[0].Head.Args) > 0 {
			return nil
		}
		term = rules[0].Head.Value
	}
	var out []*ast.Term
	switch v := term.Value.(type) {
	case ast.Set:
		out = v.Slice()
	case *ast.Array:
		v.Foreach(func(t *ast.Term) { out = append(out, t) })
	}
	return out
}
