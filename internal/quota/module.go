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

package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Names of the rules in the generated modules that Berth evaluates.
const (
	ruleApplies          = "applies"
	ruleCoveredResources = "covered_resources"
	ruleCoveredScopes    = "covered_scopes"
	ruleExceeded         = "exceeded"
	rulePending          = "pending"
	ruleErrors           = "errors"

	ruleCounts = "counts"

	ruleUncoveredResources = "uncovered_resources"
	ruleUncoveredScopes    = "uncovered_scopes"
)

// quotaRules are the rules that all quotas share. They use the definitions that are generated from the spec.
//
//	input.scopes       the object's scopes
//	input.tracks       the names in hard that count objects of the request's type
//	input.name         the quota's name, for messages
//	input.used         current usage; empty until it has been counted for the newest spec
//	input.requested    the additional amounts of resources in hard that the object takes
//	input.sum          the usage of the requested resources if the request is granted
//	input.unknown      the names in tracks that used does not have
//	input.subresource  the request's subresource
const quotaRules = `
default applies := false

applies if {
	count(input.tracks) > 0
	matches(input.scopes)
}

# The recount asks this of every object.
counts if matches(input.scopes)

covered_resources := input.tracks if applies

# The rest is asked if the quota applies.

exceeded contains name if {
	some name, amount in input.sum
	k8s.quantity.compare(amount, hard[name]) > 0
}

# What is not counted yet is not denied for good: the request is to be tried again.
pending contains message if {
	count(input.unknown) > 0
	message := sprintf("status unknown for quota: %s, resources: %s", [input.name, concat(",", input.unknown)])
}

# A change of status reports what is so already: it is charged, and never denied.
errors contains message if {
	count(exceeded) > 0
	input.subresource != "status"
	message := sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", [
		input.name, list(input.requested), list(input.used), list(hard),
	])
}

list(amounts) := concat(",", [text |
	some name in sort(exceeded)
	text := sprintf("%s=%s", [name, amounts[name]])
])
`

// The rules that LimitedResources share. They use the definitions that are generated from the spec.
//
//	input.usage              what the object takes, without zero amounts
//	input.scopes             the object's scopes
//	input.covered_resources  the resource names that quotas which match the object cover
//	input.covered_scopes     the scopes of quotas that match the object
const (
	limitResourceRules = `
limited contains name if {
	some name in object.keys(input.usage)
	some part in parts
	contains(name, part)
}

uncovered_resources contains name if {
	some name in limited
	not name in input.covered_resources
}
`
	limitScopeRules = `
uncovered_scopes := [text |
	some [_, scope, text] in limited_scopes
	not scope in input.covered_scopes
]
`
)

// generateQuota returns the Rego of the module of a quota's spec. Equal specs give equal modules.
func generateQuota(spec *placementv1.QuotaSpec) string {
	var b strings.Builder
	b.WriteString("package berth.quota\n\n# spec.hard\nhard := ")
	if len(spec.Hard) == 0 {
		// The compiler infers that {} has no members, and rejects rules that look up a member.
		b.WriteString("object.union({}, ")
	}
	b.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(spec.Hard)) {
		if i == 0 {
			b.WriteString("\n")
		}
		amount := spec.Hard[name]
		fmt.Fprintf(&b, "\t%s: %s,\n", quoted(string(name)), quoted(amount.String()))
	}
	b.WriteString("}")
	if len(spec.Hard) == 0 {
		b.WriteString(")")
	}
	b.WriteString("\n")

	var calls, covered []string
	add := func(path string, r corev1.ScopedResourceSelectorRequirement) {
		function := fmt.Sprintf("scope_%d", len(calls)+1)
		writeScope(&b, function, path, r)
		calls = append(calls, "\t"+function+"(object)\n")
		covered = append(covered, fmt.Sprintf("covered_scopes contains %s if %s(input.scopes)\n", quoted(string(r.ScopeName)), function))
	}
	for i, scope := range spec.Scopes {
		add(fmt.Sprintf("spec.scopes[%d]", i), corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		for i, r := range spec.ScopeSelector.MatchExpressions {
			add(fmt.Sprintf("spec.scopeSelector.matchExpressions[%d]", i), r.Upstream())
		}
	}
	if len(calls) == 0 {
		b.WriteString("\n# Without scopes, every object counts.\nmatches(_) := true\n\ncovered_scopes := set()\n")
	} else {
		b.WriteString("\n# An object counts if every scope matches it.\nmatches(object) if {\n" + strings.Join(calls, "") + "}\n")
		b.WriteString("\n" + strings.Join(covered, "\n"))
	}
	b.WriteString(quotaRules)
	return b.String()
}

// generateLimit returns the Rego of the module of a LimitedResource's spec. Equal specs give equal modules.
func generateLimit(spec *placementv1.LimitedResourceSpec) string {
	var b strings.Builder
	b.WriteString("package berth.limit\n")
	if len(spec.MatchContains) == 0 {
		b.WriteString("\nuncovered_resources := set()\n")
	} else {
		b.WriteString("\n# spec.matchContains\nparts := " + set(spec.MatchContains) + "\n" + limitResourceRules)
	}
	if len(spec.MatchScopes) == 0 {
		b.WriteString("\nuncovered_scopes := []\n")
		return b.String()
	}
	for i, r := range spec.MatchScopes {
		function := fmt.Sprintf("scope_%d", i+1)
		writeScope(&b, function, fmt.Sprintf("spec.matchScopes[%d]", i), r.Upstream())
		fmt.Fprintf(&b, "\nlimited_scopes contains [%d, %s, %s] if %s(input.scopes)\n",
			i+1, quoted(string(r.ScopeName)), quoted(fmt.Sprint(r.Upstream())), function)
	}
	b.WriteString(limitScopeRules)
	return b.String()
}

// writeScope writes a Rego function with a name that is true if a scope matches an object. path is that of the scope. As in Kubernetes, the
// operator only matters for scopes with class names. For the others, validation allows no operator but Exists.
func writeScope(b *strings.Builder, function, path string, r corev1.ScopedResourceSelectorRequirement) {
	fmt.Fprintf(b, "\n# %s: %s %s", path, r.ScopeName, r.Operator)
	if len(r.Values) > 0 {
		fmt.Fprintf(b, " [%s]", strings.Join(r.Values, " "))
	}
	b.WriteString("\n")
	classes := "object." + string(r.ScopeName)
	rule := func(body string) { fmt.Fprintf(b, "%s(object) if %s\n", function, body) }
	if r.ScopeName != corev1.ResourceQuotaScopePriorityClass && r.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		rule(classes)
		return
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn:
		rule("{\n\tsome class in " + classes + "\n\tclass in " + set(r.Values) + "\n}")
	case corev1.ScopeSelectorOpNotIn:
		rule("count(" + classes + ") == 0")
		b.WriteString("\n")
		rule("{\n\tsome class in " + classes + "\n\tnot class in " + set(r.Values) + "\n}")
	case corev1.ScopeSelectorOpExists:
		rule("count(" + classes + ") > 0")
	case corev1.ScopeSelectorOpDoesNotExist:
		rule("count(" + classes + ") == 0")
	}
}

// set returns a Rego set of strings, sorted and without duplicates. There must be at least one.
func set(values []string) string {
	out := make([]string, len(values))
	for i, v := range slices.Sorted(slices.Values(values)) {
		out[i] = quoted(v)
	}
	return "{" + strings.Join(slices.Compact(out), ", ") + "}"
}

// quoted returns a Rego string literal. Rego has the string syntax of JSON.
func quoted(s string) string {
	// Marshaling a string does not fail.
	text, _ := json.Marshal(s)
	return string(text)
}

// digest returns the digest of a module's text, as in the status: "sha256:" and hexadecimal digits.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// header returns the Rego comment at the head of a module: it names the quota or LimitedResource that the module is generated from.
func header(k Key) string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + name
	}
	return fmt.Sprintf("# Generated by Berth from %s %s. Changes are lost.\n", k.Kind, name)
}
