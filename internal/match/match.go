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

package match

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/weakcache"
)

const wildcard = "*"

// Object is the input of a Matcher: one object in the version of its resource, and the request that carries it. Without a request, a
// Matcher with match conditions panics.
type Object struct {
	// Resource is the object's type, in the version of Content.
	Resource schema.GroupVersionResource
	// Namespace is the object's namespace or, for a Namespace, its own name; empty for other cluster-scoped objects.
	Namespace string
	// NamespaceLabels are the labels of the object's namespace or, for a Namespace, its own; nil for other cluster-scoped objects.
	NamespaceLabels map[string]string
	// Content is the object; in an update, the new one.
	Content *unstructured.Unstructured
	// Old is the object before an update; nil on creation.
	Old *unstructured.Unstructured
	// Request is the variable `request` of match conditions. For an object that no client requests, it is made by placement.AdmissionOf. It
	// must not be nil if the policy has match conditions.
	Request *admissionv1.AdmissionRequest
}

// Matcher is the compiled match of a policy. It is immutable and safe for concurrent use.
type Matcher struct {
	// match is the match without the selectors and conditions that do not compile, and with the resource rules that withExplicitVersions adds.
	match      placementv1.Match
	namespaces labels.Selector // The namespace selector.
	objects    labels.Selector // The object selector. Matches applies it to the new labels of an object alone, and Leaves to the old ones.
	conditions *conditions     // The match conditions; nil if there are none, or if one does not compile.
	// required are the labels of which the selectors list the values that a namespace or an object must have; see the function requirements.
	required []required
	// needsGuard reports whether the rules cover requests that no policy matches; see the function needsGuard.
	needsGuard bool
	// rules is the number of resource rules that the policy's author wrote. They are the first ones in match. The others name some of their
	// types in further API versions.
	rules int
	// within selects namespaces besides the namespace selector; nil selects all. It gets an empty name for no namespace.
	within func(namespace string, labels map[string]string) bool
}

// ExcludedByWithin reports whether the function of Within excludes an object whose type and namespace the match selects otherwise.
func (m *Matcher) ExcludedByWithin(o Object) bool {
	return m.within != nil && m.SelectsResource(o.Resource) && m.SelectsByLabels(o.Namespace, o.NamespaceLabels) &&
		!m.within(o.Namespace, o.NamespaceLabels)
}

// Within returns a copy of the matcher that matches only objects in namespaces for which within returns true. within gets the
// name and labels of a namespace, or an empty name for objects without one. It must be a pure function. The webhook
// configuration and SelectsNoneOf ignore it.
func (m *Matcher) Within(within func(namespace string, labels map[string]string) bool) *Matcher {
	out := *m
	out.within = within
	return &out
}

// conditions are compiled match conditions.
type conditions struct{ plugincel.ConditionEvaluator }

// compiledConditions shares compiled conditions between matchers, because many policies have the same ones.
var compiledConditions weakcache.Cache[conditions]

// conditionCompiler compiles CEL like an API server of the version of the libraries, and bounds the calls that nothing interrupts, such as
// those that match regular expressions (celexpression.Bounds). Building it takes milliseconds.
var conditionCompiler = sync.OnceValue(func() plugincel.ConditionCompiler {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(celexpression.Bounds)
	if err != nil {
		panic(fmt.Errorf("the environment of CEL: %w", err))
	}
	return plugincel.NewConditionCompiler(env)
})

// New compiles a match. Errors have the field's path below path. The Matcher is never nil. It omits parts that do not
// compile, so that it selects more objects than intended, never fewer.
func New(m placementv1.Match, path *field.Path) (*Matcher, field.ErrorList) {
	errs := validateRules(m.ResourceRules, path.Child("resourceRules"))
	out := &Matcher{}
	m.DeepCopyInto(&out.match)
	out.rules = len(m.ResourceRules)
	out.match.ResourceRules = withExplicitVersions(out.match.ResourceRules)
	out.needsGuard = needsGuard(out.match.ResourceRules)

	selector := func(s *metav1.LabelSelector, path *field.Path) (labels.Selector, *metav1.LabelSelector) {
		if s == nil {
			return labels.Everything(), nil
		}
		parsed, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			errs = append(errs, field.Invalid(path, s, err.Error()))
			return labels.Everything(), nil
		}
		return parsed, s
	}
	out.namespaces, out.match.NamespaceSelector = selector(out.match.NamespaceSelector, path.Child("namespaceSelector"))
	out.objects, out.match.ObjectSelector = selector(out.match.ObjectSelector, path.Child("objectSelector"))
	out.required = requirements(out.namespaces, out.objects)

	if len(m.MatchConditions) > 0 {
		conditions, conditionErrs := sharedConditions(m.MatchConditions, path.Child("matchConditions"))
		errs = append(errs, conditionErrs...)
		if len(conditionErrs) > 0 {
			out.match.MatchConditions = nil
		} else {
			out.conditions = conditions
		}
	}
	return out, errs
}

// validateRules returns an error for each group and resource in the rules that policies never match.
func validateRules(rules []placementv1.ResourceRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		for _, group := range rule.APIGroups {
			if slices.Contains(neverMatchedGroups, group) {
				errs = append(errs, field.Forbidden(path.Index(i).Child("apiGroups"), fmt.Sprintf("policies never match objects of %q", group)))
				continue
			}
			for _, resource := range rule.Resources {
				if NeverMatched(schema.GroupResource{Group: group, Resource: resource}) {
					errs = append(errs, field.Forbidden(path.Index(i).Child("resources"), fmt.Sprintf("policies never match %q", resource)))
				}
			}
		}
	}
	return errs
}

// sharedConditions returns the compiled conditions of a list that is not empty, which matchers with equal lists share. It returns nil and
// an error for each that does not compile if there is one.
func sharedConditions(list []admissionregistrationv1.MatchCondition, path *field.Path) (*conditions, field.ErrorList) {
	// Encoding does not fail: names and expressions are strings.
	key, _ := json.Marshal(list)
	out, err := compiledConditions.Get(string(key), func() (*conditions, error) {
		evaluator, errs := compileConditions(list, path)
		return &conditions{evaluator}, errs.ToAggregate()
	})
	if err != nil {
		// The cached error may be another caller's, with another path. Compile again for errors with this path.
		_, errs := compileConditions(list, path)
		return nil, errs
	}
	return out, nil
}

// compileConditions compiles match conditions together. It returns only errors if one of them is invalid.
func compileConditions(list []admissionregistrationv1.MatchCondition, path *field.Path) (plugincel.ConditionEvaluator, field.ErrorList) {
	var errs field.ErrorList
	accessors := make([]plugincel.ExpressionAccessor, len(list))
	for i, c := range list {
		for _, problem := range validation.IsQualifiedName(c.Name) {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), c.Name, problem))
		}
		accessor := &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression}
		accessors[i] = accessor
		one := conditionCompiler().CompileCondition([]plugincel.ExpressionAccessor{accessor}, plugincel.OptionalVariableDeclarations{},
			environment.NewExpressions)
		for _, err := range one.CompilationErrors() {
			errs = append(errs, field.Invalid(path.Index(i).Child("expression"), c.Expression, err.Error()))
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return conditionCompiler().CompileCondition(accessors, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions), nil
}

// SelectsResource reports whether a resource rule selects the resource, in this version, by name or wildcard. A wildcard does not select
// types of which the cluster writes objects when it starts or when a node joins.
func (m *Matcher) SelectsResource(resource schema.GroupVersionResource) bool {
	if NeverMatched(resource.GroupResource()) {
		return false
	}
	return slices.ContainsFunc(m.match.ResourceRules, func(rule placementv1.ResourceRule) bool { return selects(rule, resource) })
}

// contains reports whether a list has a value or the wildcard.
func contains(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, wildcard)
}

// SelectsNamespace reports whether objects in a namespace with these labels may match, by the namespace selector and the function of
// Within. An empty name stands for no namespace, to which the selector does not apply. Those in kube-system never match. The caller
// excludes Berth's own namespace.
func (m *Matcher) SelectsNamespace(name string, l map[string]string) bool {
	return m.SelectsByLabels(name, l) && (m.within == nil || m.within(name, l))
}

// SelectsByLabels reports whether objects in a namespace with these labels may match, by the namespace selector alone. It is true for no
// namespace, which has an empty name, and false for kube-system.
func (m *Matcher) SelectsByLabels(name string, l map[string]string) bool {
	return name != NamespaceSystem && (name == "" || m.namespaces.Matches(labels.Set(l)))
}

// SelectsLabels reports whether an object with these labels may match, by the object selector alone.
func (m *Matcher) SelectsLabels(l map[string]string) bool { return m.objects.Matches(labels.Set(l)) }

// Conditional reports whether the match has conditions, which may read more of an object than type, namespace, and
// labels.
func (m *Matcher) Conditional() bool { return m.conditions != nil }

// Matches reports whether the policy matches the object. Unlike the API server, which calls webhooks if the labels before or
// after an update match, it reads those of Content alone. If a condition could not be evaluated, it returns true and an
// error: as in the API server, the object counts as matched, but the request cannot be decided. If wildcards of the rules cover types of
// which the API server writes objects of its own, requests that it sends for itself are not matched.
func (m *Matcher) Matches(ctx context.Context, o Object) (bool, error) {
	return m.matches(ctx, o, o.Content)
}

// Leaves reports whether an update takes the object out of the policy's object selector: the policy does not match Content, and
// would with the labels of Old. Errors are those of Matches.
func (m *Matcher) Leaves(ctx context.Context, o Object) (bool, error) {
	if o.Old == nil || o.Old == o.Content || m.objects.Empty() || m.SelectsLabels(o.Content.GetLabels()) {
		return false, nil
	}
	return m.matches(ctx, o, o.Old)
}

// matches reports whether the policy matches the object, with the object selector applied to the labels of labelled, which is Content or
// Old. The conditions get both. If a condition could not be evaluated, it returns true and an error. It returns false for a request of the
// API server itself if the rules need the guard.
func (m *Matcher) matches(ctx context.Context, o Object, labelled *unstructured.Unstructured) (bool, error) {
	if !m.SelectsResource(o.Resource) || !m.SelectsNamespace(o.Namespace, o.NamespaceLabels) {
		return false, nil
	}
	if m.needsGuard && sentByAPIServer(o.Request) {
		return false, nil
	}
	// Skip the selectors where possible: copying the labels for each policy is slow if there are many of both.
	if !m.objects.Empty() && !m.SelectsLabels(labelled.GetLabels()) {
		return false, nil
	}
	if m.conditions == nil {
		return true, nil
	}
	return m.evaluateConditions(ctx, o)
}

// evaluateConditions reports whether no match condition is false for an object. If none is false, and some could not be evaluated, it
// returns true and an error. The matcher must have conditions.
func (m *Matcher) evaluateConditions(ctx context.Context, o Object) (bool, error) {
	var old runtime.Object
	if o.Old != nil {
		old = o.Old
	}
	kind := o.Content.GroupVersionKind()
	attributes := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(o.Content, old, kind, o.Namespace, o.Content.GetName(), o.Resource, "",
			admission.Operation(o.Request.Operation), nil, false, nil),
		VersionedObject:    o.Content,
		VersionedOldObject: old,
		VersionedKind:      kind,
	}
	results, _, err := m.conditions.ForInput(ctx, attributes, o.Request, plugincel.OptionalVariableBindings{}, nil,
		celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return true, fmt.Errorf("evaluating match conditions: %w", err)
	}
	var errs []error
	for _, result := range results {
		switch {
		case result.Error != nil:
			condition, _ := result.ExpressionAccessor.(*matchconditions.MatchCondition)
			errs = append(errs, fmt.Errorf("match condition %q: %w", condition.Name, result.Error))
		case result.EvalResult == nil:
			errs = append(errs, errors.New("match condition without a result"))
		case result.EvalResult.Value() == false:
			// One false condition excludes the object, whatever the result of the others.
			return false, nil
		}
	}
	return true, utilerrors.NewAggregate(errs)
}
