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

// Package schemas checks policies against the OpenAPI schemas that the API server publishes.
//
// Create a Checker with NewChecker. Check returns a Report. Report.Outdated reports when the schemas that it used have
// changed and the check should be repeated.
package schemas

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/openapi"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/typecheck"
	"github.com/berth-dev/berth/internal/weakcache"
)

// Catalog describes the resource types that the API server serves: which there are, and the kind of each.
type Catalog interface {
	policy.ServedTypes
	// Kinds returns the kinds of the served types that the function selects, in every version.
	Kinds(selects func(schema.GroupVersionResource) bool) map[schema.GroupVersionResource]string
	// Kind returns the kind of a resource type; empty if it is not served.
	Kind(schema.GroupVersionResource) string
}

// Checker checks the types in policies against the schemas that the API server publishes. It is safe for concurrent use. It caches the
// schemas of a group and version only while a Report that used them is in use.
type Checker struct {
	catalog  Catalog
	client   openapi.Client // client reads the OpenAPI documents; nil if there are none.
	compiler *policy.BoundedCompiler
	// static is set if the checker reads no OpenAPI documents, and takes the fields of a kind from the Go types of Kubernetes that Berth is
	// built with. It then knows no fields of custom resources.
	static bool
	// documents has the parsed OpenAPI documents, keyed by their URL in the index, which contains a hash of the document.
	documents weakcache.Cache[typecheck.Kinds]
}

// maxChecks is how many policies with Rego a checker compiles or checks at once. Checks of CEL expressions are not limited.
const maxChecks = 2

// NewChecker returns a checker. catalog knows the types that the API server serves, and client reads the OpenAPI documents. If client is
// nil, only what needs no schema is checked, such as the metadata of objects, and the fields of clusters.
func NewChecker(catalog Catalog, client openapi.Client) *Checker {
	return &Checker{catalog: catalog, client: client, compiler: policy.NewBoundedCompiler(maxChecks, policy.RequestDeadline, policy.Compile)}
}

// NewStaticChecker returns a checker that knows no documents, and the fields of the kinds of Kubernetes in the version that Berth is built
// for.
func NewStaticChecker(catalog Catalog) *Checker {
	out := NewChecker(catalog, nil)
	out.static = true
	return out
}

// Report is the result of a check of one policy. It also records the OpenAPI documents that the check used.
type Report struct {
	typecheck.Result
	// uses maps the path of each used document in the index to its URL at the time of the check; "" if the document did not exist.
	uses map[string]string
	// held refers to the used documents, so that the weak cache keeps them.
	held []*typecheck.Kinds
}

// Index has the published OpenAPI documents by path, such as apis/apps/v1, each with its URL.
type Index map[string]openapi.GroupVersion

// Outdated reports whether a document that the report used has changed, appeared, or disappeared according to a newer index. Then the check
// should be repeated.
func (r *Report) Outdated(index Index) bool {
	for path, address := range r.uses {
		if index.address(path) != address {
			return true
		}
	}
	return false
}

// address returns the URL of the document at a path; "" if there is none.
func (i Index) address(path string) string {
	if gv, ok := i[path]; ok {
		return gv.ServerRelativeURL()
	}
	return ""
}

// Index reads the index of the published OpenAPI documents from the API server. It is nil if the checker reads no documents.
func (c *Checker) Index() (Index, error) {
	if c.client == nil {
		return nil, nil
	}
	paths, err := c.client.Paths()
	if err != nil {
		return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
	}
	return paths, nil
}

// maxKinds is the maximum number of matched kinds that are checked individually. With more, only the metadata is
// checked.
const maxKinds = 16

// anyKind stands for kinds of which only the metadata is checked.
var anyKind = []typecheck.Kind{{Type: typecheck.AnyObject}}

// Check checks the types in the spec of the policy of a name, which must compile. bound has the API groups that the policy's plural names
// are bound to; nil for a policy that has not been bound yet. An error means that the policy can't be compiled or bound, that schemas could
// not be read, or that ctx ended. If the check takes too long, it is no error: Unchecked of the report says so. Of a policy with rules,
// only the CEL expressions are checked. A policy that a remote engine decides has no findings.
func (c *Checker) Check(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, bound policy.Bindings) (*Report, error) {
	report := &Report{uses: map[string]string{}}
	if typecheck.HasExpressions(spec.Rules) {
		if err := c.checkRules(report, spec); err != nil {
			return nil, err
		}
		return report, nil
	}
	if spec.Remote != nil || spec.Rego == "" {
		return report, nil
	}
	module, err := c.compiler.Compile(ctx, name, spec)
	if policy.IsUnfinished(err) {
		report.Unchecked = err.Error()
		return report, nil
	}
	if err != nil {
		return nil, err
	}
	binding, err := policy.BindWithRecorded(name, module, spec.Replicate, c.catalog, bound)
	if err != nil {
		return nil, err
	}
	index, err := c.Index()
	if err != nil {
		return nil, err
	}
	in := typecheck.Input{Spec: spec, Binding: binding, Objects: map[schema.GroupVersionResource]types.Type{}, Known: module.Findings}
	for _, r := range binding.Resources {
		t, err := c.typeOf(report, index, r.GroupVersion().WithKind(c.catalog.Kind(r.GroupVersionResource)))
		if err != nil {
			return nil, err
		}
		if t != nil {
			in.Objects[r.GroupVersionResource] = t
		}
	}
	if in.Kinds, err = c.matched(report, index, spec.Match); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report.Result, err = policy.RunBounded(ctx, c.compiler, name, spec, func() typecheck.Result { return typecheck.Check(in) })
	if policy.IsUnfinished(err) {
		// The same check would take as long again.
		report.Result, err = typecheck.Result{Unchecked: err.Error()}, nil
	}
	return report, err
}

// checkRules checks which fields of the matched kinds the CEL expressions of a policy's rules read, and sets the findings in the report.
// An error means that schemas could not be read.
func (c *Checker) checkRules(report *Report, spec placementv1.PlacementPolicySpec) error {
	index, err := c.Index()
	if err != nil {
		return err
	}
	kinds, err := c.matched(report, index, spec.Match)
	if err != nil {
		return err
	}
	report.Result = typecheck.CheckRules(spec.Rules, kinds)
	return nil
}

// matched returns the kinds that spec.match of a policy matches, with their types. If it matches by a wildcard, or more than maxKinds
// kinds, or one whose type is unknown, or has a rule that matches no served type, the result is anyKind.
func (c *Checker) matched(report *Report, index Index, m placementv1.Match) ([]typecheck.Kind, error) {
	var out []typecheck.Kind
	for _, rule := range m.ResourceRules {
		if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
			return anyKind, nil
		}
		matcher, _ := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule}}, field.NewPath("match"))
		kinds := c.catalog.Kinds(matcher.SelectsResource)
		if len(kinds) == 0 {
			// The type may be installed later, or does not support watches.
			return anyKind, nil
		}
		byName := func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) }
		for _, resource := range slices.SortedFunc(maps.Keys(kinds), byName) {
			t, err := c.typeOf(report, index, resource.GroupVersion().WithKind(kinds[resource]))
			if err != nil {
				return nil, err
			}
			if t == nil {
				return anyKind, nil
			}
			out = append(out, typecheck.Kind{Resource: resource.GroupResource(), Type: t})
			if len(out) > maxKinds {
				return anyKind, nil
			}
		}
	}
	return out, nil
}

// typeOf returns the type of a kind, for type checks of Rego; nil if it is not known, because the API server publishes no schema of it or,
// for a static checker, it is no kind of Kubernetes itself. It records the used document in the report.
func (c *Checker) typeOf(report *Report, index Index, kind schema.GroupVersionKind) (types.Type, error) {
	if c.static {
		return typeOfKubernetes(kind), nil
	}
	path := "apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "api/" + kind.Version
	}
	address := index.address(path)
	report.uses[path] = address
	if address == "" {
		return nil, nil
	}
	kinds, err := c.documents.Get(address, func() (*typecheck.Kinds, error) {
		document, err := index[path].Schema("application/json")
		if err != nil {
			return nil, fmt.Errorf("reading the OpenAPI document of %s: %w", kind.GroupVersion(), err)
		}
		parsed, err := typecheck.ParseOpenAPI(kind.GroupVersion(), document)
		return &parsed, err
	})
	if err != nil {
		return nil, err
	}
	if !slices.Contains(report.held, kinds) {
		report.held = append(report.held, kinds)
	}
	return (*kinds)[kind.Kind], nil
}
