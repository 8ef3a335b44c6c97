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
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/language"
)

// hints returns warnings for the user on a draft that compiles as a policy, sorted: kinds that it compares with input.kind and does not
// match, data.kubernetes.clusters, data that no ConfigMap has, rules that only Berth evaluates, functions that may fail in denials, and
// packages that it reads and that become policies, too.
func (c *converter) hints(d *draft) []string {
	var out []string
	kinds, clusters, missing := c.survey(d)
	for _, kind := range kinds {
		if resource := plural(kind); !c.matches(resource) {
			out = append(out, fmt.Sprintf("the policy compares input.kind with %q, but does not match %s: name that type by --resource, and those "+
				"that the policy matches", kind, resource))
		}
	}
	if clusters {
		out = append(out, "the policy reads data.kubernetes.clusters, which needs a served type named clusters; the clusters of every "+
			"inventory are at data.clusters[name]")
	}
	for _, path := range missing {
		out = append(out, fmt.Sprintf("the policy reads %s, which no ConfigMap has: if OPA gets it from another source, add it to spec.data",
			path))
	}
	for _, name := range language.ContractRules {
		if d.pkg.rules[name] != nil && !slices.Contains(designRules, name) {
			out = append(out, fmt.Sprintf("the policy defines the rule %s, which clients of OPA do not query, but Berth evaluates as a "+
				"part of the decision: rename it", name))
		}
	}
	if d.language == placementv1.RegoV0 {
		for _, m := range d.modules {
			if names := failures(m); len(names) > 0 {
				out = append(out, fmt.Sprintf("the policy's denials call %s: where such a function fails, OPA from 0.5 on goes on without "+
					"that denial, and Berth denies the object as OPA 0.4 did, because of spec.failurePolicy: Fail", strings.Join(names, ", ")))
			}
		}
	}
	for _, m := range d.modules {
		if m.pkg == d.pkg || !m.pkg.definesAny(designRules) || len(c.options.Packages) > 0 {
			continue
		}
		out = append(out, fmt.Sprintf("the policy reads the package %s, which becomes a policy too: if clients of OPA do not query data.%s, "+
			"name only the packages that they query: --package %s", m.pkg, m.pkg, d.pkg))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// survey returns the kinds that the draft compares input.kind with, whether it reads data.kubernetes.clusters, and, as missing, references
// to what it reads and no ConfigMap contains, in a namespace from which some document comes. It may return a kind or a reference twice.
func (c *converter) survey(d *draft) (kinds []string, clusters bool, missing []string) {
	for _, m := range d.modules {
		for _, rule := range m.resolved {
			ast.WalkExprs(rule, func(e *ast.Expr) bool {
				kinds = append(kinds, askedKind(e)...)
				return false
			})
		}
		for _, path := range c.packages.reads(m) {
			switch {
			case path[0] == "kubernetes":
				clusters = clusters || len(path) > 1 && path[1] == "clusters"
			case slices.Contains(language.Roots, path[0]):
			case !slices.ContainsFunc(c.documents, func(doc *document) bool { return agree(path, doc.path()) }) &&
				slices.ContainsFunc(c.documents, func(doc *document) bool { return doc.path()[0] == path[0] }):
				// The compiler reports paths whose first part is not the name of any document.
				missing = append(missing, referenceTo(path))
			}
		}
	}
	return kinds, clusters, missing
}

// askedKind returns the constant with which an expression compares input.kind by ==, =, or :=; none for other expressions, such as a
// negated one or one with a set.
func askedKind(e *ast.Expr) []string {
	if !e.IsCall() || e.Negated || len(e.Operands()) != 2 || !slices.Contains([]string{"eq", "equal", "assign"}, e.Operator().String()) {
		return nil
	}
	x, y := e.Operand(0), e.Operand(1)
	if _, ok := x.Value.(ast.String); ok {
		x, y = y, x
	}
	kind, constant := y.Value.(ast.String)
	ref, ok := x.Value.(ast.Ref)
	if !ok || !constant || !ref.Equal(ast.MustParseRef("input.kind")) {
		return nil
	}
	return []string{string(kind)}
}

// plural guesses the resource name for a kind from its last letters, such as deployments for Deployment. The guess may be wrong.
func plural(kind string) string {
	guess, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return guess.Resource
}

// matches reports whether all policies match the resources with a plural name, by Options.Resources. It ignores their API groups.
func (c *converter) matches(resource string) bool {
	return slices.ContainsFunc(c.options.Resources, func(rule placementv1.ResourceRule) bool {
		return slices.Contains(rule.Resources, resource) || slices.Contains(rule.Resources, "*")
	})
}
