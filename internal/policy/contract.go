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
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/suggest"
)

// contractChecker finds the clauses of contract rules that can never have a valid value. It uses the types that OPA
// infers. Values that depend on the input, or on documents without a schema, may have any type and are not checked.
type contractChecker struct {
	// v0 reports whether the policy is in Rego v0, so that messages give examples in that.
	v0 bool
	// schemas reports whether types come from the API server's schemas. Then fields that the API types of Berth lack are no errors in the
	// parts of a pod spec, because the API server may be newer.
	schemas bool
	// found are the errors found so far.
	found []Diagnostic
	// rule is the name of the rule under examination.
	rule   string
	clause *ast.Rule // the clause under examination
}

// checkContract returns the errors in the clauses of a module's contract rules, sorted by position: in the types of their values, and in
// constants in their values, such as names of clusters. OPA has the union of the types of all clauses of a rule. Only if that union
// contains an invalid alternative, each clause is compiled again for its own type.
func (m *Module) checkContract(module *ast.Module, c *contractChecker) []Diagnostic {
	// All clauses of a rule have the same union.
	doubted := map[string]bool{}
	isDoubted := func() bool {
		known, ok := doubted[c.rule]
		if !ok {
			known = c.doubted(m.Compiler.TypeEnv.GetByRef(append(slices.Clone(m.Package), ast.StringTerm(c.rule))))
			doubted[c.rule] = known
		}
		return known
	}
	ast.WalkRules(module, func(rule *ast.Rule) bool {
		c.rule, c.clause = language.RuleName(rule), rule
		if !slices.Contains(language.ContractRules, c.rule) {
			return false
		}
		found := len(c.found)
		if isDoubted() {
			if tpe := m.clauseType(rule); tpe != nil {
				c.check(tpe)
			}
		}
		c.checkLiterals(rule, len(c.found) == found)
		return false
	})
	slices.SortStableFunc(c.found, func(x, y Diagnostic) int { return cmp.Or(cmp.Compare(x.Row, y.Row), cmp.Compare(x.Col, y.Col)) })
	return c.found
}

// clauseType returns the type that a clause contributes to the document of its rule, as OPA infers it from the clause alone; nil if
// unknown.
func (m *Module) clauseType(rule *ast.Rule) types.Type {
	query := m.Compiler.QueryCompiler()
	if _, err := query.Compile(rule.Body); err != nil {
		return nil
	}
	env := query.TypeEnv()
	var tpe types.Type
	if rule.Head.RuleKind() == ast.MultiValue {
		if key := env.GetByValue(rule.Head.Key.Value); key != nil {
			tpe = types.NewSet(key)
		}
	} else {
		tpe = env.GetByValue(rule.Head.Value.Value)
	}
	for _, term := range slices.Backward(rule.Head.Ref()[1:]) {
		name, constant := term.Value.(ast.String)
		switch {
		case tpe == nil:
			return nil
		case constant:
			tpe = types.NewObject([]*types.StaticProperty{types.NewStaticProperty(string(name), tpe)}, nil)
		default:
			tpe = types.NewObject(nil, types.NewDynamicProperty(env.GetByValue(term.Value), tpe))
		}
	}
	return tpe
}

// doubted reports whether a value of the type may be invalid for the rule under examination: whether one of the alternatives of its parts
// is. It examines at most maxAlternatives parts of the type. It is false for a nil type.
func (c *contractChecker) doubted(tpe types.Type) bool {
	if tpe == nil {
		return false
	}
	left := maxAlternatives
	for _, one := range singlePaths(tpe, &left) {
		trial := contractChecker{rule: c.rule, clause: c.clause, schemas: c.schemas}
		if trial.check(one); len(trial.found) > 0 {
			return true
		}
	}
	return false
}

// maxAlternatives limits the parts of a type that are examined individually; those beyond it count as valid. Types share their parts, so a
// small policy can have types with a very large number of parts.
const maxAlternatives = 4096

// singlePaths returns, for each path through a type to its innermost parts, the type with that path alone. Each examined part decrements
// left; what remains when left reaches zero is omitted.
func singlePaths(tpe types.Type, left *int) []types.Type {
	if *left--; *left < 0 {
		return nil
	}
	var out []types.Type
	each := func(part types.Type, wrap func(types.Type) types.Type) {
		if part == nil || *left <= 0 {
			return
		}
		for _, one := range singlePaths(part, left) {
			out = append(out, wrap(one))
		}
	}
	switch t := tpe.(type) {
	case types.Any:
		for _, part := range t {
			each(part, func(p types.Type) types.Type { return p })
		}
	case *types.Set:
		each(t.Of(), func(p types.Type) types.Type { return types.NewSet(p) })
	case *types.Array:
		for i := range t.Len() {
			each(t.Select(i), func(p types.Type) types.Type { return types.NewArray([]types.Type{p}, nil) })
		}
		each(t.Dynamic(), func(p types.Type) types.Type { return types.NewArray(nil, p) })
	case *types.Object:
		for _, property := range t.StaticProperties() {
			each(property.Value, func(p types.Type) types.Type {
				return types.NewObject([]*types.StaticProperty{types.NewStaticProperty(property.Key, p)}, nil)
			})
		}
		if d := t.DynamicProperties(); d != nil {
			each(d.Value, func(p types.Type) types.Type { return types.NewObject(nil, types.NewDynamicProperty(d.Key, p)) })
		}
	}
	if len(out) == 0 {
		return []types.Type{tpe}
	}
	return out
}

// fail adds an error about the clause under examination, at the position of the clause.
func (c *contractChecker) fail(format string, args ...any) {
	c.found = append(c.found, diagnostic(textFile, c.clause.Location, codeContract, fmt.Sprintf(format, args...)))
}

// check adds an error if no value of the type is valid for the rule under examination. A type that can be null is valid: a null value means
// that the policy has no opinion.
func (c *contractChecker) check(tpe types.Type) {
	if _, isNull := alternatives[types.Null](tpe); isNull {
		return
	}
	switch c.rule {
	case language.RuleAnnotations:
		c.checkMap(tpe, false)
	case language.RuleLabels:
		c.checkMap(tpe, true)
	case language.RuleScheduling:
		if object := c.checkObject(tpe); object != nil {
			c.checkMembers(c.rule, object, podscheduling.Types, false)
		}
	case language.RuleClusters:
		c.checkClusters(tpe)
	default:
		c.checkTexts(tpe)
	}
}

// checkClusters adds an error unless the type can be a set or an array of strings, or an object with the shares of clusters.
func (c *contractChecker) checkClusters(tpe types.Type) {
	_, areSets := alternatives[*types.Set](tpe)
	_, areArrays := alternatives[*types.Array](tpe)
	objects, areObjects := alternatives[*types.Object](tpe)
	switch {
	case !areObjects && (areSets || areArrays):
		c.checkTexts(tpe)
	case !areObjects:
		c.fail("%s must be a set or an array of strings, or an object, is %s; write: %s", c.rule, DescribeType(tpe), c.example())
	case len(objects) == 1 && !areSets && !areArrays:
		for _, property := range objects[0].StaticProperties() {
			if name, isString := property.Key.(string); isString {
				c.checkShare(fmt.Sprintf("cluster %q", name), property.Value)
			}
		}
		if d := objects[0].DynamicProperties(); d != nil {
			c.checkShare("a cluster", d.Value)
		}
	}
}

// checkShare adds an error unless the type can be the share of a cluster: an object with at most one of the members weight and replicas,
// whose value is a number. Messages name the cluster as subject.
func (c *contractChecker) checkShare(subject string, tpe types.Type) {
	objects, ok := alternatives[*types.Object](tpe)
	if !ok {
		c.fail("%s: %s must be an object, is %s; write: %s", c.rule, subject, DescribeType(tpe), c.shareExample())
	}
	if len(objects) != 1 {
		return
	}
	var names []string
	for _, property := range objects[0].StaticProperties() {
		name, isString := property.Key.(string)
		if !isString {
			continue
		}
		names = append(names, name)
		if _, isNumber := alternatives[types.Number](property.Value); !isNumber && slices.Contains(language.ShareFields, name) {
			c.fail("%s: %s: %s must be a number, is %s", c.rule, subject, name, DescribeType(property.Value))
		}
	}
	slices.Sort(names)
	if err := language.CheckShareFields(names); err != nil {
		c.fail("%s: %s: %v", c.rule, subject, err)
	}
	if d := objects[0].DynamicProperties(); d != nil {
		if _, isNumber := alternatives[types.Number](d.Value); !isNumber {
			c.fail("%s: %s must hold numbers, holds %s", c.rule, subject, DescribeType(d.Value))
		}
	}
}

// shareExample returns an example of a clause with a cluster and its share, an object such as {"weight": 2}, in the policy's language
// version.
func (c *contractChecker) shareExample() string {
	if c.v0 {
		return `clusters = {"<cluster>": {"weight": 2}} { ... }`
	}
	return `clusters := {"<cluster>": {"weight": 2}} if { ... }`
}

// alternatives returns those alternatives of a type that are of the Go type T. ok is false if no value of the type can be of T. It is true
// without alternatives for a type that may be anything.
func alternatives[T types.Type](tpe types.Type) (of []T, ok bool) {
	switch t := tpe.(type) {
	case nil, *types.Recursive, *types.NamedType:
		return nil, true
	case types.Any:
		ok = len(t) == 0
		for _, one := range t {
			parts, some := alternatives[T](one)
			of, ok = append(of, parts...), ok || some
		}
		return of, ok
	case T:
		return []T{t}, true
	}
	return nil, false
}

// isText reports whether a value of a type may be a string.
func isText(tpe types.Type) bool {
	_, ok := alternatives[types.String](tpe)
	return ok
}

// checkTexts adds an error unless the type can be a set or an array of strings.
func (c *contractChecker) checkTexts(tpe types.Type) {
	sets, areSets := alternatives[*types.Set](tpe)
	arrays, areArrays := alternatives[*types.Array](tpe)
	if !areSets && !areArrays {
		c.fail("%s must be a set or an array of strings, is %s; write: %s", c.rule, DescribeType(tpe), c.example())
		return
	}
	if len(sets)+len(arrays) != 1 {
		return
	}
	for _, part := range sets {
		if of := part.Of(); of != nil && !isText(of) {
			c.failMember(of)
		}
	}
	for _, part := range arrays {
		members := arrayMembers(part)
		if i := slices.IndexFunc(members, func(of types.Type) bool { return !isText(of) }); i >= 0 {
			c.failMember(members[i])
		}
	}
}

// failMember adds the error that members of the rule's value are of a type (of) other than a string.
func (c *contractChecker) failMember(of types.Type) {
	hint := ""
	if _, isObject := of.(*types.Object); isObject && c.rule == language.RuleClusters {
		hint = "; a cluster's name is its key, as in some name, cluster in data.clusters"
	}
	c.fail("%s must hold strings, holds %s; write: %s%s", c.rule, DescribeType(of), c.example(), hint)
}

// arrayMembers returns the types of an array's members. Those with a known index come first.
func arrayMembers(a *types.Array) []types.Type {
	var out []types.Type
	for i := range a.Len() {
		out = append(out, a.Select(i))
	}
	if a.Dynamic() != nil {
		out = append(out, a.Dynamic())
	}
	return out
}

// checkObject adds an error unless the type can be an object. It returns the type of the object, or nil if the type is no object or has
// several objects among its alternatives.
func (c *contractChecker) checkObject(tpe types.Type) *types.Object {
	objects, ok := alternatives[*types.Object](tpe)
	if !ok {
		c.fail("%s must be an object, is %s; write: %s", c.rule, DescribeType(tpe), c.example())
	}
	if len(objects) != 1 {
		return nil
	}
	return objects[0]
}

// checkMap adds an error unless the type can be an object with valid metadata keys. If texts is true, its values must be strings.
func (c *contractChecker) checkMap(tpe types.Type, texts bool) {
	object := c.checkObject(tpe)
	if object == nil {
		return
	}
	for _, property := range object.StaticProperties() {
		key, isString := property.Key.(string)
		if !isString {
			continue
		}
		if why := wrongKey(c.rule, key); why != "" {
			c.fail("%s: key %q: %s", c.rule, key, why)
		} else if texts && !isText(property.Value) {
			c.fail("%s: key %q: must be a string, is %s", c.rule, key, DescribeType(property.Value))
		}
	}
	if d := object.DynamicProperties(); d != nil && texts && !isText(d.Value) {
		c.fail("%s must hold strings, holds %s; write: %s", c.rule, DescribeType(d.Value), c.example())
	}
}

// wrongKey returns why the labels or annotations that a rule gives can't have a key: its syntax, or that it is one of Berth's own; "" if
// they can. The API server validates annotation keys in lower case and label keys unchanged.
func wrongKey(rule, key string) string {
	judged := key
	if rule == language.RuleAnnotations {
		judged = strings.ToLower(key)
	}
	if problems := validation.IsQualifiedName(judged); len(problems) > 0 {
		return strings.Join(problems, "; ")
	}
	if prefix := placementv1.GroupVersion.Group + "/"; strings.HasPrefix(key, prefix) {
		why := fmt.Sprintf("the prefix %s is Berth's own", prefix)
		if key == placementv1.ClustersAnnotation || key == placementv1.ClusterSharesAnnotation {
			why += "; use the rule " + language.RuleClusters
		}
		return why
	}
	return ""
}

// checkMembers adds an error for each member of an object that is unknown or can't have its API type. known has the API types by name. If
// nullable is true, members may be null; if the field schemas is true as well, unknown members are no errors.
func (c *contractChecker) checkMembers(path string, object *types.Object, known map[string]reflect.Type, nullable bool) {
	for _, property := range object.StaticProperties() {
		name, isString := property.Key.(string)
		if !isString {
			continue
		}
		at := path + "." + name
		want, isKnown := known[name]
		if !isKnown && c.schemas && nullable {
			continue
		}
		if !isKnown {
			names, hint := slices.Sorted(maps.Keys(known)), "."
			if near, ok := suggest.Nearest(name, names); ok {
				hint = fmt.Sprintf("; did you mean %s?", near)
			}
			c.fail("%s: unknown%s Known are %s", at, hint, strings.Join(names, ", "))
			continue
		}
		c.checkAPI(at, property.Value, want, nullable)
	}
}

// checkAPI adds an error unless a value of the type at a path can be decoded into the API type want, or nullable is true and it can be
// null.
func (c *contractChecker) checkAPI(path string, tpe types.Type, want reflect.Type, nullable bool) {
	if _, isNull := alternatives[types.Null](tpe); isNull && nullable {
		return
	}
	if want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	wrong := func(noun string) { c.fail("%s: must be %s, is %s", path, noun, DescribeType(tpe)) }
	switch {
	case want == reflect.TypeFor[intstr.IntOrString]():
		return
	case want.Kind() == reflect.Struct || want.Kind() == reflect.Map:
		objects, ok := alternatives[*types.Object](tpe)
		if !ok {
			wrong("an object")
		} else if len(objects) == 1 && want.Kind() == reflect.Struct {
			c.checkMembers(path, objects[0], fieldsOfStruct(want), true)
		} else if len(objects) == 1 {
			c.checkEntries(path, objects[0], want.Elem())
		}
	case want.Kind() == reflect.Slice:
		c.checkList(path, tpe, want.Elem())
	case want.Kind() == reflect.String:
		if !isText(tpe) {
			wrong("a string")
		}
	case want.Kind() == reflect.Bool:
		if _, ok := alternatives[types.Boolean](tpe); !ok {
			wrong("a boolean")
		}
	default:
		if _, ok := alternatives[types.Number](tpe); !ok {
			wrong("a number")
		}
	}
}

// checkEntries adds an error for each value of an object that can neither be null nor be decoded into the API type want.
func (c *contractChecker) checkEntries(path string, object *types.Object, want reflect.Type) {
	for _, property := range object.StaticProperties() {
		c.checkAPI(fmt.Sprintf("%s.%v", path, property.Key), property.Value, want, true)
	}
	if d := object.DynamicProperties(); d != nil {
		c.checkAPI(path+"[]", d.Value, want, true)
	}
}

// checkList adds an error unless the type can be an array or a set whose members can be null or be decoded into the API type want.
func (c *contractChecker) checkList(path string, tpe types.Type, want reflect.Type) {
	sets, areSets := alternatives[*types.Set](tpe)
	arrays, areArrays := alternatives[*types.Array](tpe)
	switch {
	case !areSets && !areArrays:
		c.fail("%s: must be an array, is %s", path, DescribeType(tpe))
	case len(sets)+len(arrays) != 1:
	case len(sets) == 1 && sets[0].Of() != nil:
		c.checkAPI(path+"[]", sets[0].Of(), want, true)
	case len(arrays) == 1:
		for i, member := range arrayMembers(arrays[0]) {
			at := fmt.Sprintf("%s[%d]", path, i)
			if i == arrays[0].Len() {
				at = path + "[]"
			}
			c.checkAPI(at, member, want, true)
		}
	}
}

// fieldsOfStruct returns the types of an API type's fields, keyed by JSON name, including those of embedded structs without a JSON name.
func fieldsOfStruct(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			maps.Copy(out, fieldsOfStruct(field.Type))
		} else if name != "" && name != "-" {
			out[name] = field.Type
		}
	}
	return out
}

// checkLiterals adds errors for invalid constants in a clause's value: names and shares of clusters, values of labels, and scheduling. The
// parameter typed reports whether the types of the value are valid; without that, it checks no shares and no scheduling.
func (c *contractChecker) checkLiterals(rule *ast.Rule, typed bool) {
	value := rule.Head.Value
	if rule.Head.RuleKind() == ast.MultiValue {
		value = rule.Head.Key
	}
	if value == nil {
		return
	}
	value = assigned(rule.Body, value)
	switch c.rule {
	case language.RuleClusters:
		c.checkClusterNames(value)
		if typed {
			c.checkConstantShares(rule, value)
		}
	case language.RuleScheduling:
		if typed {
			c.checkScheduled(rule, value)
		}
	case language.RuleLabels:
		if ref := rule.Ref(); len(ref) > 0 && rule.Head.RuleKind() == ast.SingleValue {
			if key, ok := ref[len(ref)-1].Value.(ast.String); ok && string(key) != c.rule {
				c.checkLabelValue(string(key), value)
				return
			}
		}
		if object, ok := value.Value.(ast.Object); ok {
			object.Foreach(func(k, v *ast.Term) {
				if key, ok := k.Value.(ast.String); ok {
					c.checkLabelValue(string(key), v)
				}
			})
		}
	}
}

// assigned returns, for a variable, the right side of the first equation in the body that has it as its left side. Other terms, and
// variables without such an equation, are returned unchanged. The compiler moves values that are not constant into the body.
func assigned(body ast.Body, value *ast.Term) *ast.Term {
	if _, ok := value.Value.(ast.Var); !ok {
		return value
	}
	for _, expr := range body {
		if expr.Negated || !expr.IsEquality() {
			continue
		}
		if operands := expr.Operands(); operands[0].Equal(value) {
			return operands[1]
		}
	}
	return value
}

// checkLabelValue adds an error if the value of a label is a constant string that no label can have. It ignores every other value, and a
// label with an invalid key, for which there is an error already.
func (c *contractChecker) checkLabelValue(key string, value *ast.Term) {
	text, ok := value.Value.(ast.String)
	if !ok || wrongKey(language.RuleLabels, key) != "" {
		return
	}
	if problems := validation.IsValidLabelValue(string(text)); len(problems) > 0 {
		c.fail("%s: key %q: %q: %s", language.RuleLabels, key, string(text), strings.Join(problems, "; "))
	}
}

// checkClusterName adds an error if a term is a constant string that can't be the name of a cluster. It adds none for any other term, also
// not for a constant of another type.
func (c *contractChecker) checkClusterName(t *ast.Term) {
	name, ok := t.Value.(ast.String)
	if !ok {
		return
	}
	if problems := validation.IsDNS1123Subdomain(string(name)); len(problems) > 0 {
		c.fail("%s: %q is not a cluster's name: %s", language.RuleClusters, string(name), strings.Join(problems, "; "))
	}
}

// checkClusterNames adds an error for each constant string that can't be the name of a cluster, in a set, an array, or a member of a set.
// It ignores all other terms.
func (c *contractChecker) checkClusterNames(value *ast.Term) {
	switch v := value.Value.(type) {
	case ast.String:
		if c.clause.Head.RuleKind() == ast.MultiValue {
			c.checkClusterName(value)
		}
	case ast.Set:
		v.Foreach(c.checkClusterName)
	case *ast.Array:
		v.Foreach(c.checkClusterName)
	}
}

// checkConstantShares adds errors for invalid constant names and shares, if the clause's value is an object with the shares of clusters, or
// a part of one: the share of one cluster, or one of its fields. A share is an object with at most one of the fields weight and replicas,
// an integer.
func (c *contractChecker) checkConstantShares(rule *ast.Rule, value *ast.Term) {
	if rule.Head.RuleKind() != ast.SingleValue {
		return
	}
	switch ref := rule.Head.Ref(); len(ref) {
	case 1:
		if object, ok := value.Value.(ast.Object); ok {
			object.Foreach(c.checkConstantShare)
		}
	case 2:
		c.checkConstantShare(ref[1], value)
	case 3:
		c.checkConstantShare(ref[1], ast.ObjectTerm(ast.Item(ref[2], value)))
	}
}

// checkConstantShare adds an error if cluster is a constant string that can't be the name of a cluster, or if share is an object with a
// constant key that no share has, or with too many constant keys. It checks the values of share only if all of share is constant.
func (c *contractChecker) checkConstantShare(cluster, share *ast.Term) {
	c.checkClusterName(cluster)
	object, isObject := share.Value.(ast.Object)
	if !isObject {
		return
	}
	err := language.CheckShareFields(constantKeys(object))
	if constant, notConstant := ast.JSON(share.Value); err == nil && notConstant == nil {
		_, err = language.ParseShare(constant)
	}
	if err != nil {
		subject := "a cluster"
		if name, isString := cluster.Value.(ast.String); isString {
			subject = fmt.Sprintf("cluster %q", string(name))
		}
		c.fail("%s: %s: %v", language.RuleClusters, subject, err)
	}
}

// constantKeys returns the keys of an object that are constant strings, sorted.
func constantKeys(object ast.Object) []string {
	var keys []string
	object.Foreach(func(key, _ *ast.Term) {
		if name, ok := key.Value.(ast.String); ok {
			keys = append(keys, string(name))
		}
	})
	slices.Sort(keys)
	return keys
}

// example returns an example clause for the rule under examination, such as errors or clusters, in the policy's language version. Messages
// contain it.
func (c *contractChecker) example() string {
	both := map[string]struct{ v1, v0 string }{
		language.RuleAnnotations: {`annotations["example.com/key"] := "<value>" if { ... }`,
			`annotations["example.com/key"] = "<value>" { ... }`},
		language.RuleLabels: {`labels["example.com/key"] := "<value>" if { ... }`, `labels["example.com/key"] = "<value>" { ... }`},
		language.RuleScheduling: {`scheduling.nodeSelector["example.com/disk"] := "ssd" if { ... }`,
			`scheduling = {"nodeSelector": {"example.com/disk": "ssd"}} { ... }`},
		language.RuleClusters: {`clusters := {"<cluster>"} if { ... }`, `clusters = {"<cluster>"} { ... }`},
		language.RuleErrors:   {`errors contains "<message>" if { ... }`, `errors["<message>"] { ... }`},
		language.RuleWarnings: {`warnings contains "<message>" if { ... }`, `warnings["<message>"] { ... }`},
	}[c.rule]
	if c.v0 {
		return both.v0
	}
	return both.v1
}

// DescribeType returns a description of a type for messages, such as "a boolean" or "a string or null".
func DescribeType(t types.Type) string {
	switch t := PlainType(t).(type) {
	case types.Null:
		return "null"
	case types.Boolean:
		return "a boolean"
	case types.Number:
		return "a number"
	case types.String:
		return "a string"
	case *types.Array:
		return "an array"
	case *types.Set:
		return "a set"
	case *types.Object:
		return "an object"
	case types.Any:
		if len(t) == 0 {
			return "any value"
		}
		var out []string
		for _, one := range t {
			if name := DescribeType(one); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
		return strings.Join(out, " or ")
	default:
		return "a value"
	}
}

// PlainType returns the type that a named type names and a recursive type stands for. Other types are returned unchanged.
func PlainType(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.NamedType:
		return PlainType(t.Type)
	case *types.Recursive:
		return PlainType(t.Unwrap())
	}
	return t
}
