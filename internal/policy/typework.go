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

package policy

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/berth-dev/berth/internal/policy/language"
)

// maxTypeWork limits the steps of OPA's type checker for one policy. A step takes up to a microsecond. The policies of
// the documentation and of the conformance corpus take less than a hundredth of the limit.
const maxTypeWork = 2_000_000

// newCompiler returns a compiler that rejects Rego whose types would take too much work to check. OPA's type checker
// can't be canceled, and it compares types as trees: two variables that were each doubled sixteen times take 4^16
// steps. The typeWork has the types of the clauses of contract rules after compilation.
func newCompiler(capabilities *ast.Capabilities) (*ast.Compiler, *typeWork) {
	w := newTypeWork(capabilities)
	return ast.NewCompiler().WithCapabilities(capabilities).WithStageAfterID(ast.StageCheckRecursion, ast.CompilerStageDefinition{
		Name: "BerthBoundTypes", MetricName: "compile_stage_berth_bound_types", Stage: w.bound,
	}), w
}

// bound counts the steps of the type checker for the compiler's modules. If they exceed maxTypeWork, the error has the
// location where they do. The function itself takes no more steps than that.
func (w *typeWork) bound(c *ast.Compiler) *ast.Error {
	sorted, _ := c.Graph.Sort()
	for _, node := range sorted {
		rule, ok := node.(*ast.Rule)
		if !ok {
			continue
		}
		if w.rule(rule); w.over() {
			return ast.NewError(codeSize, cmp.Or(w.place, rule.Location), "the types of the values here take more than %d steps to check: "+
				"values that hold other values several times double in each step; build large values in fewer steps, "+
				"or keep tables in spec.data", maxTypeWork)
		}
	}
	return nil
}

// typeWork counts the steps that OPA's type checker takes. It infers the same types in the same order. It counts the
// steps of a comparison without executing them: types share their parts, and the count for a pair of types is computed
// once.
type typeWork struct {
	builtins map[string]types.Type
	rules    *typeNode
	pairs    map[typePair]int
	sizes    map[any]int
	closures map[any]closureWork
	// clauses maps each clause of a contract rule to the type that it contributes to the rule's document.
	clauses map[*ast.Rule]types.Type
	spent   int
	// place is the location of the current expression.
	place *ast.Location
}

// closureWork has the type of a comprehension and the steps that one check of it takes.
type closureWork struct {
	tpe   types.Type
	steps int
}

// typePair identifies two types.
type typePair struct{ a, b any }

// typeNode is a node of the tree of documents and rules, with its type.
type typeNode struct {
	tpe      types.Type
	children map[string]*typeNode
	// keys maps the keys of children to their constants.
	keys map[string]ast.Value
}

// typeScope has the types of a body's variables. As in the type checker, the scopes of the enclosing bodies are
// visible.
type typeScope struct {
	next *typeScope
	vars map[ast.Var]types.Type
	// replaced has the documents that a `with` replaces; nil for a scope without `with`. If it is set, vars belongs to
	// next.
	replaced *typeNode
}

func newTypeWork(capabilities *ast.Capabilities) *typeWork {
	w := &typeWork{
		builtins: map[string]types.Type{}, rules: &typeNode{},
		pairs: map[typePair]int{}, sizes: map[any]int{}, closures: map[any]closureWork{}, clauses: map[*ast.Rule]types.Type{},
	}
	for _, b := range capabilities.Builtins {
		w.builtins[b.Ref().String()] = b.Decl
	}
	return w
}

// charge counts steps.
func (w *typeWork) charge(steps int) { w.spent = min(w.spent+steps, maxTypeWork+1) }

// over reports whether the limit is exceeded. From then on, the inferred types are incomplete.
func (w *typeWork) over() bool { return w.spent > maxTypeWork }

// rule infers a rule's type.
func (w *typeWork) rule(rule *ast.Rule) {
	s := w.body(nil, rule.Body)
	if w.over() {
		return
	}
	w.place = nil
	path := rule.Ref()
	var tpe types.Type
	switch {
	case len(rule.Head.Args) > 0:
		tpe = w.function(s, rule)
	case rule.Head.RuleKind() == ast.MultiValue:
		if key := w.typeOf(s, rule.Head.Key.Value); key != nil {
			tpe = types.NewSet(key)
		}
	default:
		tpe = w.typeOf(s, rule.Head.Value.Value)
	}
	if name := language.RuleName(rule); len(rule.Head.Args) == 0 && slices.Contains(language.ContractRules, name) {
		w.clauses[rule] = w.below(s, rule.Head.Ref()[1:], tpe)
	}
	if len(rule.Head.Args) == 0 && !path.IsGround() {
		tpe = w.nest(s, path.DynamicSuffix(), tpe)
		path = path.GroundPrefix()
	}
	if tpe != nil && !w.over() {
		at := w.rules.at(path)
		at.tpe = w.merge(at.tpe, tpe)
	}
}

// function returns the type of a function. An argument that the body does not use has any type.
func (w *typeWork) function(s *typeScope, rule *ast.Rule) types.Type {
	args := make([]types.Type, len(rule.Head.Args))
	for i, arg := range rule.Head.Args {
		ast.WalkTerms(arg, func(t *ast.Term) bool {
			if name, ok := t.Value.(ast.Var); ok && s.variable(name) == nil {
				s.vars[name] = types.A
			}
			return false
		})
		args[i] = w.typeOf(s, arg.Value)
	}
	return types.NewFunction(args, w.typeOf(s, rule.Head.Value.Value))
}

// nest returns the type of a document with a value below the variable part of a rule's reference.
func (w *typeWork) nest(s *typeScope, path ast.Ref, tpe types.Type) types.Type {
	for _, term := range slices.Backward(path) {
		key := w.typeOf(s, term.Value)
		if key == nil || tpe == nil {
			return nil
		}
		tpe = types.NewObject(nil, types.NewDynamicProperty(key, tpe))
	}
	return tpe
}

// below returns the type of an object with a value at a path.
func (w *typeWork) below(s *typeScope, path ast.Ref, tpe types.Type) types.Type {
	for _, term := range slices.Backward(path) {
		if tpe == nil {
			return nil
		}
		if name, constant := term.Value.(ast.String); constant {
			tpe = types.NewObject([]*types.StaticProperty{types.NewStaticProperty(string(name), tpe)}, nil)
		} else {
			tpe = types.NewObject(nil, types.NewDynamicProperty(w.typeOf(s, term.Value), tpe))
		}
	}
	return tpe
}

// merge returns the type of a document that two rules contribute to.
func (w *typeWork) merge(a, b types.Type) types.Type {
	if x, ok := a.(*types.Set); ok {
		if y, ok := b.(*types.Set); ok {
			return types.NewSet(w.or(x.Of(), y.Of()))
		}
	}
	x, ok := a.(*types.Object)
	y, both := b.(*types.Object)
	if ok && both && len(x.StaticProperties())+len(y.StaticProperties()) == 0 {
		p, q := x.DynamicProperties(), y.DynamicProperties()
		switch {
		case p == nil:
			return b
		case q == nil:
			return a
		}
		return types.NewObject(nil, types.NewDynamicProperty(w.or(p.Key, q.Key), w.merge(p.Value, q.Value)))
	}
	return w.or(a, b)
}

// body checks a body and returns its scope.
func (w *typeWork) body(around *typeScope, body ast.Body) *typeScope {
	s := &typeScope{next: around, vars: map[ast.Var]types.Type{}}
	for _, expr := range body {
		if w.expression(s, expr); w.over() {
			break
		}
	}
	return s
}

func (w *typeWork) expression(s *typeScope, expr *ast.Expr) {
	w.charge(1)
	if expr.Location != nil {
		w.place = expr.Location
	}
	if len(expr.With) > 0 {
		s = w.replace(s, expr)
	}
	// The type checker checks each comprehension separately, once for every enclosing body.
	ast.WalkClosures(expr, func(x any) bool {
		if value, ok := x.(ast.Value); ok {
			w.typeOf(s, value)
		}
		return w.over()
	})
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.ObjectComprehension, *ast.SetComprehension:
			return true
		case ast.Ref:
			w.follow(s, x)
		}
		return w.over()
	}).Walk(expr)
	if !expr.IsCall() || w.over() {
		return
	}
	args := expr.Operands()
	switch name := expr.Operator().String(); name {
	case ast.Equality.Name:
		if len(args) == 2 {
			w.unify(s, args[0], args[1])
		}
		return
	case ast.Member.Name, ast.MemberWithKey.Name:
		w.member(s, args)
	}
	w.call(s, expr.Operator(), args)
}

// replace returns the scope of an expression whose `with` replaces documents.
func (w *typeWork) replace(s *typeScope, expr *ast.Expr) *typeScope {
	replaced := &typeNode{}
	for _, with := range expr.With {
		target, ok := with.Target.Value.(ast.Ref)
		if !ok {
			continue
		}
		was := w.typeOf(s, target)
		if _, isFunction := was.(*types.Function); isFunction {
			continue
		}
		tpe := types.Type(types.A)
		if value := w.typeOf(s, with.Value.Value); value != nil && was != nil && target.IsGround() {
			if either := w.or(was, value); either != nil {
				tpe = either
			}
		}
		replaced.at(target.GroundPrefix()).tpe = tpe
	}
	return &typeScope{next: s, vars: s.vars, replaced: replaced}
}

// member infers the variables of `key, value in collection`.
func (w *typeWork) member(s *typeScope, args []*ast.Term) {
	if len(args) < 2 {
		return
	}
	collection := w.typeOf(s, args[len(args)-1].Value)
	if len(args) > 2 {
		w.assign(s, args[len(args)-3], w.keys(collection), false)
	}
	w.assign(s, args[len(args)-2], w.values(collection), false)
}

// call infers the variables among a function's arguments and in its result.
func (w *typeWork) call(s *typeScope, name ast.Ref, args []*ast.Term) {
	function, ok := w.refType(s, name).(*types.Function)
	if !ok {
		return
	}
	wanted := function.FuncArgs()
	if result := function.Result(); result != nil {
		wanted.Args = append(slices.Clone(wanted.Args), result)
	}
	for i, arg := range args {
		tpe := wanted.Arg(i)
		w.compare(w.typeOf(s, arg.Value), tpe)
		w.assign(s, arg, tpe, false)
	}
}

// unify infers the variables of two terms that are equal. If both types are known, it counts their comparison.
func (w *typeWork) unify(s *typeScope, a, b *ast.Term) {
	x, y := w.typeOf(s, a.Value), w.typeOf(s, b.Value)
	unknown := w.unknown(x)
	switch {
	case w.over():
	case unknown && !w.unknown(y):
		w.assign(s, a, y, false)
	case !unknown && w.unknown(y):
		w.assign(s, b, x, false)
	case !unknown:
		w.compare(x, y)
	default:
		w.unifyParts(s, a, b)
	}
}

// unifyParts unifies two terms whose types are both incomplete.
func (w *typeWork) unifyParts(s *typeScope, a, b *ast.Term) {
	array, isArray := a.Value.(*ast.Array)
	other, areArrays := b.Value.(*ast.Array)
	object, isObject := a.Value.(ast.Object)
	second, areObjects := b.Value.(ast.Object)
	switch {
	case isArray && areArrays && array.Len() == other.Len():
		for i := range array.Len() {
			w.unify(s, array.Elem(i), other.Elem(i))
		}
	case isObject && areObjects:
		for _, pair := range object.Intersect(second) {
			w.unify(s, pair[1], pair[2])
		}
	default:
		if _, ok := a.Value.(ast.Var); ok {
			a, b = b, a
		}
		w.assign(s, a, types.A, false)
		w.assign(s, b, w.typeOf(s, a.Value), false)
	}
}

// assign infers the variables of a term from a type. If among is true, the type is one of several alternatives.
func (w *typeWork) assign(s *typeScope, term *ast.Term, tpe types.Type, among bool) {
	if w.charge(1); tpe == nil || w.over() {
		return
	}
	switch value := term.Value.(type) {
	case ast.Var:
		known := s.variable(value)
		switch {
		case among:
			s.vars[value] = w.or(known, tpe)
		case known != nil:
			w.compare(known, tpe)
		default:
			s.vars[value] = tpe
		}
	case *ast.Array, ast.Object, ast.Set:
		if either, ok := tpe.(types.Any); ok && len(either) > 0 {
			for _, one := range either {
				w.assign(s, term, one, true)
			}
			return
		}
		_, anything := tpe.(types.Any)
		w.assignParts(s, value, tpe, among || anything)
	case ast.Ref, *ast.ArrayComprehension, *ast.ObjectComprehension, *ast.SetComprehension:
		w.compare(w.typeOf(s, value), tpe)
	}
}

func (w *typeWork) assignParts(s *typeScope, value ast.Value, tpe types.Type, among bool) {
	_, anything := tpe.(types.Any)
	switch value := value.(type) {
	case *ast.Array:
		array, ok := tpe.(*types.Array)
		for i := range value.Len() {
			if anything {
				w.assign(s, value.Elem(i), types.A, among)
			} else if ok {
				w.assign(s, value.Elem(i), array.Select(i), among)
			}
		}
	case ast.Object:
		value.Foreach(func(k, v *ast.Term) {
			part := types.Type(types.A)
			if !anything && ast.IsConstant(k.Value) {
				part = w.selectOne(tpe, k)
			} else if anything {
				w.assign(s, k, types.A, among)
			}
			w.assign(s, v, part, among)
		})
	case ast.Set:
		value.Foreach(func(elem *ast.Term) { w.assign(s, elem, w.values(tpe), among) })
	}
}

// follow infers the variables in a reference.
func (w *typeWork) follow(s *typeScope, ref ast.Ref) {
	for i := w.known(s, ref); i < len(ref) && !w.over(); i++ {
		from := w.refType(s, ref[:i])
		if from == nil {
			return
		}
		w.charge(width(from))
		switch ref[i].Value.(type) {
		case ast.Var, *ast.Array, ast.Object, ast.Set:
			w.assign(s, ref[i], w.keys(from), false)
		case ast.Ref:
			w.compare(w.typeOf(s, ref[i].Value), w.keys(from))
		}
	}
}

// known returns the length of the shortest prefix of a reference whose type has to be inferred, at least 1. The type checker only
// walks along the constant names of packages, rules, and documents: it does not infer the type of a package.
func (w *typeWork) known(s *typeScope, ref ast.Ref) int {
	for at := s; at != nil; at = at.next {
		if at.replaced != nil {
			return 1
		}
	}
	node, n := w.rules, 0
	for n < len(ref) && node != nil && node.tpe == nil {
		if _, constant := ref[n].Value.(ast.String); n > 0 && !constant {
			break
		}
		w.charge(1)
		node = node.children[ref[n].Value.String()]
		n++
	}
	return max(n, 1)
}

// width returns the number of direct parts of a type.
func width(t types.Type) int {
	switch t := t.(type) {
	case *types.Array:
		return 1 + t.Len()
	case *types.Object:
		return 1 + len(t.StaticProperties())
	case types.Any:
		return 1 + len(t)
	}
	return 1
}

// variable returns the type of a variable; nil if unknown.
func (s *typeScope) variable(name ast.Var) types.Type {
	for ; s != nil; s = s.next {
		if tpe, ok := s.vars[name]; ok {
			return tpe
		}
	}
	return nil
}

// typeOf returns the type of a term; nil if unknown.
func (w *typeWork) typeOf(s *typeScope, value ast.Value) types.Type {
	if w.charge(1); w.over() {
		return nil
	}
	switch value := value.(type) {
	case ast.Null:
		return types.Nl
	case ast.Boolean:
		return types.B
	case ast.Number:
		return types.N
	case ast.String, *ast.TemplateString:
		return types.S
	case ast.Var:
		return s.variable(value)
	case ast.Ref:
		return w.refType(s, value)
	case *ast.Array:
		static := make([]types.Type, value.Len())
		for i := range static {
			static[i] = w.typeOf(s, value.Elem(i).Value)
		}
		return types.NewArray(static, nil)
	case ast.Object:
		return w.objectType(s, value)
	case ast.Set:
		var of types.Type
		value.Foreach(func(elem *ast.Term) { of = w.or(of, w.typeOf(s, elem.Value)) })
		return types.NewSet(of)
	case *ast.ArrayComprehension:
		return w.closure(s, value, value.Body, func(s *typeScope) types.Type { return types.NewArray(nil, w.typeOf(s, value.Term.Value)) })
	case *ast.SetComprehension:
		return w.closure(s, value, value.Body, func(s *typeScope) types.Type { return types.NewSet(w.typeOf(s, value.Term.Value)) })
	case *ast.ObjectComprehension:
		return w.closure(s, value, value.Body, func(s *typeScope) types.Type {
			return types.NewObject(nil, types.NewDynamicProperty(w.typeOf(s, value.Key.Value), w.typeOf(s, value.Value.Value)))
		})
	}
	return nil
}

func (w *typeWork) objectType(s *typeScope, object ast.Object) types.Type {
	var static []*types.StaticProperty
	var dynamic *types.DynamicProperty
	object.Foreach(func(k, v *ast.Term) {
		if ast.IsConstant(k.Value) {
			if key, err := ast.JSON(k.Value); err == nil {
				static = append(static, types.NewStaticProperty(key, w.typeOf(s, v.Value)))
				return
			}
		}
		dynamic = types.NewDynamicProperty(w.typeOf(s, k.Value), w.typeOf(s, v.Value))
	})
	return types.NewObject(static, dynamic)
}

// closure returns the type of a comprehension. It charges the steps each time, because the type checker does not cache
// the result.
func (w *typeWork) closure(s *typeScope, value any, body ast.Body, head func(*typeScope) types.Type) types.Type {
	known, ok := w.closures[value]
	if ok {
		w.charge(known.steps)
		return known.tpe
	}
	place, before := w.place, w.spent
	tpe := head(w.body(s, body))
	w.place = place
	w.closures[value] = closureWork{tpe, w.spent - before}
	return tpe
}

// refType returns the type of the value that a reference selects.
func (w *typeWork) refType(s *typeScope, ref ast.Ref) types.Type {
	name, ok := ref[0].Value.(ast.Var)
	if !ok {
		return nil
	}
	for at := s; at != nil; at = at.next {
		if at.replaced == nil {
			continue
		}
		if tpe, ok := w.refIn(at.replaced, ref); ok {
			return tpe
		}
	}
	if tpe := s.variable(name); tpe != nil {
		return w.selectAll(tpe, ref[1:])
	}
	if name.Equal(ast.DefaultRootDocument.Value) {
		if tpe, ok := w.refIn(w.rules, ref); ok {
			return tpe
		}
		return types.A
	}
	if name.Equal(ast.InputRootDocument.Value) {
		return types.A
	}
	if tpe, ok := w.builtins[ref.String()]; ok {
		return tpe
	}
	return nil
}

// refIn returns the type of the value that a reference selects below a node. The result is false if the node has no
// such document.
func (w *typeWork) refIn(node *typeNode, ref ast.Ref) (types.Type, bool) {
	for i, term := range ref {
		child := node.children[term.Value.String()]
		switch {
		case child != nil:
			node = child
		case node.tpe != nil:
			return w.selectAll(node.tpe, ref[i:]), true
		case i > 0 && !ast.IsConstant(term.Value):
			return w.selectAll(w.extent(node), ref[i:]), true
		default:
			return nil, false
		}
	}
	return w.extent(node), true
}

// extent returns the type of all documents below a node.
func (w *typeWork) extent(node *typeNode) types.Type {
	if w.charge(1); node.tpe != nil && len(node.children) == 0 || w.over() {
		return node.tpe
	}
	var static []*types.StaticProperty
	for name, child := range node.children {
		if key, err := ast.JSON(node.keys[name]); err == nil {
			static = append(static, types.NewStaticProperty(key, w.extent(child)))
		}
	}
	return w.or(node.tpe, types.NewObject(static, types.NewDynamicProperty(types.S, types.A)))
}

// at returns the node at a path, and creates it if necessary.
func (n *typeNode) at(path ast.Ref) *typeNode {
	for _, term := range path {
		name := term.Value.String()
		child := n.children[name]
		if child == nil {
			if n.children == nil {
				n.children, n.keys = map[string]*typeNode{}, map[string]ast.Value{}
			}
			child = &typeNode{}
			n.children[name], n.keys[name] = child, term.Value
			if variable, ok := term.Value.(ast.Var); ok {
				n.keys[name] = ast.String(variable)
			}
		}
		n = child
	}
	return n
}

func (w *typeWork) selectAll(tpe types.Type, ref ast.Ref) types.Type {
	for _, term := range ref {
		if tpe == nil || w.over() {
			return nil
		}
		switch term.Value.(type) {
		case ast.Var, ast.Ref, *ast.Array, ast.Object, ast.Set:
			tpe = w.values(tpe)
		default:
			tpe = w.selectOne(tpe, term)
		}
	}
	return tpe
}

func (w *typeWork) selectOne(tpe types.Type, term *ast.Term) types.Type {
	key, err := ast.JSON(term.Value)
	if err != nil {
		return nil
	}
	w.charge(1)
	if either, ok := tpe.(types.Any); ok {
		return w.union(either, func(one types.Type) types.Type { return types.Select(one, key) })
	}
	return types.Select(tpe, key)
}

// union returns the union of the types that part returns for the alternatives of a type.
func (w *typeWork) union(either types.Any, part func(types.Type) types.Type) (out types.Type) {
	if len(either) == 0 {
		return types.A
	}
	for _, one := range either {
		out = w.or(part(one), out)
	}
	return out
}

// keys returns the type of a value's keys.
func (w *typeWork) keys(tpe types.Type) types.Type {
	w.charge(width(tpe))
	if either, ok := tpe.(types.Any); ok {
		return w.union(either, w.keys)
	}
	return types.Keys(tpe)
}

func (w *typeWork) values(tpe types.Type) types.Type {
	w.charge(1)
	var out types.Type
	switch tpe := tpe.(type) {
	case *types.Array:
		for i := range tpe.Len() {
			out = w.or(out, tpe.Select(i))
		}
		return w.or(out, tpe.Dynamic())
	case *types.Object:
		for _, property := range tpe.StaticProperties() {
			out = w.or(out, property.Value)
		}
		return w.or(out, tpe.DynamicValue())
	case *types.Set:
		return tpe.Of()
	case types.Any:
		return w.union(tpe, w.values)
	}
	return nil
}

// or returns the union of two types.
func (w *typeWork) or(a, b types.Type) types.Type {
	if x, y := width(a), width(b); x > fewTypes || y > fewTypes {
		// A large union is sorted. OPA merges it with another union, or searches it for the position of a new type.
		w.charge(x/8 + y/8 + min(bits.Len(uint(x+y))*min(w.size(a), w.size(b)), w.size(a)+w.size(b)))
	} else {
		w.compare(a, b)
	}
	if w.over() {
		return nil
	}
	return types.Or(a, b)
}

// fewTypes is the size up to which a union is compared member by member.
const fewTypes = 16

// size returns the number of parts of a type. A shared part counts once for each occurrence.
func (w *typeWork) size(t types.Type) int {
	if t == nil || w.over() {
		return 1
	}
	key := identity(t)
	if known, ok := w.sizes[key]; ok {
		return known
	}
	w.charge(1)
	size := 1
	add := func(part types.Type) { size = min(size+w.size(part), maxTypeWork) }
	switch t := t.(type) {
	case *types.Array:
		for i := range t.Len() {
			add(t.Select(i))
		}
		add(t.Dynamic())
	case *types.Object:
		for _, property := range t.StaticProperties() {
			add(property.Value)
		}
		if dynamic := t.DynamicProperties(); dynamic != nil {
			add(dynamic.Key)
			add(dynamic.Value)
		}
	case *types.Set:
		add(t.Of())
	case types.Any:
		for _, one := range t {
			add(one)
		}
	case *types.Function:
		for _, arg := range t.FuncArgs().Args {
			add(arg)
		}
		add(t.Result())
	}
	w.sizes[key] = size
	return size
}

// unknown reports whether a part of a type is unknown.
func (w *typeWork) unknown(t types.Type) bool { return !w.over() && types.Nil(t) }

// compare charges the steps of a comparison.
func (w *typeWork) compare(a, b types.Type) { w.charge(w.steps(a, b)) }

// steps returns the maximum number of steps of a comparison of two types, for ordering or for unification. The number
// can be very large for types that share their parts, so it is capped at maxTypeWork+1.
func (w *typeWork) steps(a, b types.Type) int {
	if w.over() || a == nil || b == nil {
		return 1
	}
	key := typePair{identity(a), identity(b)}
	if known, ok := w.pairs[key]; ok {
		return known
	}
	w.charge(1)
	steps := min(w.stepsOfParts(a, b), maxTypeWork+1)
	w.pairs[key] = steps
	return steps
}

func (w *typeWork) stepsOfParts(a, b types.Type) int {
	steps := 1
	add := func(times int, a, b types.Type) { steps = min(steps+times*w.steps(a, b), maxTypeWork) }
	x, isEither := a.(types.Any)
	y, areEither := b.(types.Any)
	if isEither || areEither {
		for _, one := range x {
			add(1, one, b)
		}
		for _, one := range y {
			add(1, one, a)
		}
		return steps
	}
	switch a := a.(type) {
	case *types.Array:
		if b, ok := b.(*types.Array); ok {
			// Each side's members are looked up in the other.
			for i := range max(a.Len(), b.Len()) {
				add(2, a.Select(i), b.Select(i))
			}
			add(1, a.Dynamic(), b.Dynamic())
		}
	case *types.Object:
		if b, ok := b.(*types.Object); ok {
			for _, property := range a.StaticProperties() {
				add(2, property.Value, b.Select(property.Key))
			}
			for _, property := range b.StaticProperties() {
				add(1, a.Select(property.Key), property.Value)
			}
			if p, q := a.DynamicProperties(), b.DynamicProperties(); p != nil && q != nil {
				add(1, p.Key, q.Key)
				add(1, p.Value, q.Value)
			}
		}
	case *types.Set:
		if b, ok := b.(*types.Set); ok {
			add(1, a.Of(), b.Of())
		}
	case *types.Function:
		if b, ok := b.(*types.Function); ok {
			for i, arg := range a.FuncArgs().Args {
				add(1, arg, b.FuncArgs().Arg(i))
			}
			add(1, a.Result(), b.Result())
		}
	}
	return steps
}

// unionID identifies a union by its first member's address and its length.
type unionID struct {
	first *types.Type
	n     int
}

// identity returns a comparable key for a type. Composite types are identified by address.
func identity(t types.Type) any {
	either, ok := t.(types.Any)
	switch {
	case !ok:
		return t
	case len(either) == 0:
		return unionID{}
	}
	return unionID{&either[0], len(either)}
}
