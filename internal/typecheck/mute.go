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

// mute returns findings about the matched resource types for whose objects no contract rule can ever have a value. each are the findings
// for each kind, and shared those that all kinds share. Types for which the first cause is at the same position share a finding. The
// findings do not prevent any rule from having a value for other types.
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
		out[i].Message = fmt.Sprintf("no rule of the policy ever has a value for an object of %s, so that the policy neither places nor "+
			"denies it: %s", strings.Join(named[i], ", "), out[i].Message)
		out[i].Rule, out[i].holds = "", true
	}
	return out
}

// muteCause returns the first finding that prevents all contract rules from having a value for objects of the resource type of a kind. The
// result ok is false if one of them may have a value for objects of some version.
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

// causeOf returns the first of the findings that is in a contract rule itself and prevents it from having a value. Without one, it returns
// the first that prevents any expression from being true, such as one in a helper; false if there is none either. It ignores the findings
// that all kinds share.
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

// contractRules returns the names of those rules of the decision contract (language.ContractRules) of which a policy's Rego has a
// definition, in the contract's order.
func contractRules(source *ast.Module) []string {
	return slices.DeleteFunc(slices.Clone(language.ContractRules), func(name string) bool {
		return !slices.ContainsFunc(source.Rules, func(r *ast.Rule) bool { return language.RuleName(r) == name })
	})
}

// readsKind reports whether a policy reads input.kind, input.apiVersion, input as a whole, or a field of it whose name is not constant, so
// that it may distinguish kinds.
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
