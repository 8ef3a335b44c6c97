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

package findings

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/celexpression"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/suggest"
)

// findingsOfNamespaces finds references in the Rego to objects in namespaces that do not exist, for example because the author swapped the
// name and the namespace of an object.
func (f *Finder) findingsOfNamespaces(ctx context.Context, module *policy.Module, binding *policy.Binding) []Finding {
	keyed := slices.DeleteFunc(slices.Clone(module.Keyed), func(k analysis.KeyedRead) bool { return !binding.Namespaced(k.Read) })
	if f.Namespaces == nil || len(keyed) == 0 {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return []Finding{notice("spec.rego: cannot check that the namespaces that the policy reads exist: %v", err)}
	}
	existing := maps.Collect(namespaces)
	var out []Finding
	for _, k := range keyed {
		if _, exists := existing[k.First]; exists {
			continue
		}
		text := fmt.Sprintf("%s is undefined until the namespace %s exists: the first key is the namespace", k, k.First)
		meant := k
		if _, swapped := existing[k.Second]; swapped {
			meant.First, meant.Second = k.Second, k.First
		} else {
			meant.First, _ = suggest.Nearest(k.First, slices.Sorted(maps.Keys(existing)))
		}
		if meant.First != "" {
			text += fmt.Sprintf("; did you mean %s?", meant)
		}
		out = append(out, mistakeAt(lint.Position{Row: k.Row, Col: k.Col}, text))
	}
	return out
}

// findingsOfQuotas finds references in the Rego to ClusterScopedQuotas that do not exist, and to ScopedQuotas that do not exist in a
// namespace that does.
func (f *Finder) findingsOfQuotas(ctx context.Context, module *policy.Module) []Finding {
	keyed := slices.DeleteFunc(slices.Clone(module.Keyed), func(k analysis.KeyedRead) bool { return k.Quotas == "" })
	if f.Quotas == nil || f.Namespaces == nil || len(keyed) == 0 {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		// The comparison with namespaces reports the error.
		return nil
	}
	quotas, err := f.Quotas.All(ctx)
	if err != nil {
		return []Finding{notice("spec.rego: cannot check that the quotas that the policy reads exist: %v", err)}
	}
	// The names of the quotas by namespace, which is empty for ClusterScopedQuotas.
	names := map[string][]string{"": nil}
	for name := range namespaces {
		names[name] = nil
	}
	for _, q := range quotas {
		names[q.GetNamespace()] = append(names[q.GetNamespace()], q.GetName())
	}
	var out []Finding
	for _, k := range keyed {
		kind, namespace, name := quota.KindScopedQuota, k.First, k.Second
		if k.Quotas == language.ClusterQuotas {
			kind, namespace, name = quota.KindClusterScopedQuota, "", k.First
			k.Second = ""
		}
		known, exists := names[namespace]
		if !exists || name == "" || slices.Contains(known, name) {
			continue
		}
		text := fmt.Sprintf("%s is undefined until the %s %s exists", k, kind, name)
		if near, similar := suggest.Nearest(name, slices.Sorted(slices.Values(known))); similar {
			meant := k
			if namespace == "" {
				meant.First = near
			} else {
				meant.Second = near
			}
			text += fmt.Sprintf("; did you mean %s?", meant)
		}
		out = append(out, Finding{Position: lint.Position{Row: k.Row, Col: k.Col}, Message: text, Level: Advice})
	}
	return out
}

// expression is a CEL expression of a policy, and its field.
type expression struct {
	at   *field.Path // The path of the expression's field.
	text string
}

// expressionsOf returns the CEL expressions of a policy with their paths: those in spec.match.matchConditions, and then when.expression of
// the rules that have it.
func expressionsOf(spec placementv1.PlacementPolicySpec) []expression {
	var out []expression
	for i, condition := range spec.Match.MatchConditions {
		out = append(out, expression{matchPath.Child("matchConditions").Index(i).Child("expression"), condition.Expression})
	}
	for i, rule := range spec.Rules {
		if rule.When != nil && rule.When.Expression != "" {
			out = append(out, expression{specPath.Child("rules").Index(i).Child("when", "expression"), rule.When.Expression})
		}
	}
	return out
}

// comparesNamespaces reports whether an expression of a policy compares the namespace of the object with a name.
func comparesNamespaces(spec placementv1.PlacementPolicySpec) bool {
	return slices.ContainsFunc(expressionsOf(spec), func(e expression) bool {
		selected, excluded := celexpression.Namespaces(e.text)
		return len(selected)+len(excluded)+len(celexpression.NamespaceTests(e.text)) > 0
	})
}

// findingsOfNamespaceNames finds names, prefixes, and other parts of names that expressions compare with the namespace of the object, and
// that no namespace has. Manifests for many clusters exclude namespaces that only some of them have, so that an excluded name is found only
// if it is similar to an existing one.
func (f *Finder) findingsOfNamespaceNames(ctx context.Context, spec placementv1.PlacementPolicySpec) []Finding {
	if f.Namespaces == nil || !comparesNamespaces(spec) {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return []Finding{notice("cannot check that the namespaces that expressions name exist: %v", err)}
	}
	known := slices.Sorted(maps.Keys(maps.Collect(namespaces)))
	if len(known) == 0 {
		return nil
	}
	var out []Finding
	for _, e := range expressionsOf(spec) {
		selected, excluded := celexpression.Namespaces(e.text)
		names := append(selected, slices.DeleteFunc(excluded, func(name string) bool {
			_, similar := suggest.Nearest(name, known)
			return !similar
		})...)
		// The expression itself is told to be wrong for a name that no namespace can have.
		names = slices.DeleteFunc(names, func(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 })
		if text := absent.Values("namespace", absent.Name, names, known, ""); text != "" {
			out = append(out, advice("%s: %s", e.at, text))
		}
		for _, test := range celexpression.NamespaceTests(e.text) {
			if !slices.ContainsFunc(known, test.MayMeet) {
				out = append(out, advice("%s: no namespace has a name that %s now%s", e.at, test, absent.Others("", known)))
			}
		}
	}
	return out
}
