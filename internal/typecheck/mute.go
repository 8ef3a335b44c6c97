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
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/policy/language"
)

// mute returns findings for the matched resource types for which the policy can never produce a result. For each kind
// of such a type, every contract rule needs an expression that can never have a value. Types whose first such
// expression is at the same position share a finding. The findings do not prevent any rule from having a value for
// other types.
func mute(source *ast.Module, kinds []Kind, each [][]Finding, shared []Finding) []Finding {
	var out []Finding
	var named [][]string
	seen := map[string]bool{}
	for _, kind := range kinds {
		name := kind.Resource.String()
		if seen[name] {
			continue
		}
		seen[name] = true
		cause, ok := muteCause(source, kind, kinds, each, shared)
		if !ok {
			continue
		}
		i := slices.IndexFunc(out, cause.samePosition)
		if i < 0 {
			i, out, named = len(out), append(out, cause), append(named, nil)
		}
		named[i] = append(named[i], name)
	}
	for i := range out {
		out[i].Message = fmt.Sprintf("the policy can never say anything of %s: %s", strings.Join(named[i], ", "), out[i].Message)
		out[i].Rule, out[i].holds = "", true
	}
	return out
}

// muteCause returns the first finding that prevents the policy from producing a result for objects of a type. The
// result ok is false if the policy may produce one for the objects of at least one version.
func muteCause(source *ast.Module, kind Kind, kinds []Kind, each [][]Finding, shared []Finding) (cause Finding, ok bool) {
	for i := range kinds {
		if kinds[i].Resource != kind.Resource {
			continue
		}
		found := slices.Clone(each[i])
		if len(locate(source, found)) < len(contractRules(source)) {
			return Finding{}, false
		}
		if !ok {
			cause, ok = causeOf(found, shared)
		}
	}
	return cause, ok
}

// causeOf prefers a finding in a contract rule to one in a helper. It ignores findings that all kinds share.
func causeOf(found, shared []Finding) (Finding, bool) {
	own := func(f Finding) bool { return !f.holds && !slices.ContainsFunc(shared, f.samePosition) }
	i := slices.IndexFunc(found, func(f Finding) bool { return own(f) && f.Rule != "" })
	if i < 0 {
		i = slices.IndexFunc(found, own)
	}
	if i < 0 {
		return Finding{}, false
	}
	return found[i], true
}

// contractRules returns the contract rules that a policy defines.
func contractRules(source *ast.Module) []string {
	return slices.DeleteFunc(slices.Clone(language.ContractRules), func(name string) bool {
		return !slices.ContainsFunc(source.Rules, func(r *ast.Rule) bool { return language.RuleName(r) == name })
	})
}

// readsKind reports whether a policy may distinguish kinds by input.kind or input.apiVersion.
func readsKind(source *ast.Module) bool {
	reads := false
	ast.WalkRefs(source, func(ref ast.Ref) bool {
		if ref[0].Equal(ast.InputRootDocument) {
			name, ok := language.Part(ref, 1)
			reads = reads || !ok || name == "kind" || name == "apiVersion"
		}
		return false
	})
	return reads
}
