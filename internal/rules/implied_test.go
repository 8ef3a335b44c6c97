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

package rules

import (
	"strings"
	"testing"
)

// TestImplied checks the warnings about rules and preferences that other ones make pointless.
func TestImplied(t *testing.T) {
	two := func(first, second string) string { return "[{name: a, " + first + "}, {name: b, " + second + "}]" }
	one := func(rest string) string { return "[{name: a, " + rest + "}]" }
	const (
		never    = "spec.rules[1]: rule b is never reached: rule a (spec.rules[0]) applies to each object to which rule b applies"
		fallback = "spec.rules[1]: rule b finds no cluster: it gets only objects for which rule a (spec.rules[0]) finds none"
		always   = "spec.rules[0].prefer[0]: has no effect: each eligible cluster meets this preference, because of spec.rules[0].require[0]"
	)
	for name, tc := range map[string]struct{ rules, want string }{
		"NarrowerSelector": {two("deny: x, when: {objectSelector: {matchExpressions: [{key: t, operator: In, values: [a, b]}]}}", "deny: x, when: {objectSelector: {matchLabels: {t: a}}}"), never},
		"MoreConditions":   {two("deny: x, when: {annotations: [{key: t, operator: Exists}]}", "deny: x, when: {annotations: [{key: t, operator: In, values: [a]}], expression: has(object.spec)}"), never},
		"WiderSelector":    {two("deny: x, when: {objectSelector: {matchLabels: {t: a}}}", "deny: x, when: {objectSelector: {matchExpressions: [{key: t, operator: In, values: [a, b]}]}}"), ""},
		"OtherExpression":  {two("deny: x, when: {objectSelector: {matchLabels: {t: a}}, expression: has(object.spec)}", "deny: x, when: {objectSelector: {matchLabels: {t: a}}}"), ""},
		"OtherSelector":    {two("deny: x, when: {objectSelector: {matchLabels: {t: a}}}", "deny: x, when: {namespaceSelector: {matchLabels: {t: a}}}"), ""},
		"NextRuleBefore": {two("limit: 1, otherwise: NextRule, when: {objectSelector: {matchExpressions: [{key: t, operator: Exists}]}}",
			"deny: x, when: {objectSelector: {matchLabels: {t: a}}}"), ""},

		"NarrowerFallback": {two("require: [{field: region, operator: In, values: [eu, us]}], otherwise: NextRule", "require: [{field: region, operator: In, values: [eu]}]"), fallback},
		"HigherFallback":   {two("require: [{label: l, operator: Gte, values: ['2']}], otherwise: NextRule", "require: [{label: l, operator: Gte, values: ['3']}]"), fallback},
		"SameFromObject": {two("require: [{label: l, operator: Gte, valueFrom: {label: l}}], otherwise: NextRule",
			"require: [{label: l, operator: Gte, valueFrom: {label: l}}, {label: m, operator: Exists}]"), fallback},
		"WiderFallback":    {two("require: [{field: region, operator: In, values: [eu]}], otherwise: NextRule", "require: [{field: region, operator: In, values: [eu, us]}]"), ""},
		"TolerantFallback": {two("require: [{field: name, operator: Exists}], otherwise: NextRule", "require: [{field: name, operator: Exists}], tolerate: [{operator: Exists}]"), ""},
		"WithoutSpread": {two("require: [{field: name, operator: Exists}], spread: {field: region, minDomains: 2}, otherwise: NextRule",
			"require: [{field: region, operator: In, values: [eu]}]"), ""},
		"OtherObjects": {two("require: [{field: name, operator: Exists}], otherwise: NextRule, when: {objectSelector: {matchLabels: {t: a}}}",
			"require: [{field: region, operator: In, values: [eu]}]"), ""},
		"Denial": {two("require: [{field: region, operator: In, values: [eu]}], otherwise: NextRule", "deny: no cluster in the EU"), ""},

		"RequiredPreference": {one("limit: 1, require: [{field: region, operator: In, values: [eu]}], prefer: [{field: region, operator: In, values: [eu, ch], weight: 1}]"), always},
		"HigherRequirement":  {one("limit: 1, require: [{label: l, operator: Gt, values: ['3']}], prefer: [{label: l, operator: Gte, values: ['3'], weight: 1}]"), always},
		"ExcludedPreference": {one("limit: 1, require: [{field: region, operator: In, values: [eu]}], prefer: [{field: region, operator: In, values: [us], weight: 1}]"), "no eligible cluster meets this preference"},
		"NodePreference": {one("candidates: Nodes, require: [{field: zone, operator: In, values: [a]}], prefer: [{label: topology.kubernetes.io/zone, operator: In, values: [a], weight: 1}]"),
			"each eligible node meets this preference"},
		"NarrowerPreference": {one("limit: 1, require: [{field: region, operator: In, values: [eu, ch]}], prefer: [{field: region, operator: In, values: [eu], weight: 1}]"), ""},
		"HigherPreference":   {one("limit: 1, require: [{label: l, operator: Gte, values: ['3']}], prefer: [{label: l, operator: Gte, values: ['4'], weight: 1}]"), ""},
		"OneOfZones":         {one("limit: 1, require: [{field: zone, operator: In, values: [a]}], prefer: [{field: zone, operator: In, values: [b], weight: 1}]"), ""},
		"ShareOfAll":         {one("weights: Score, require: [{field: region, operator: In, values: [eu]}], prefer: [{field: region, operator: In, values: [eu], weight: 1}]"), ""},
		"OtherType":          {one("limit: 1, require: [{label: l, operator: In, values: [x]}], prefer: [{label: l, operator: Gte, values: ['3'], weight: 1}]"), "no eligible cluster meets this preference"},

		"SpreadOfOne":      {one("limit: 1, spread: {field: region, maxClusters: 1}"), "spec.rules[0].spread: only excludes clusters without a domain, because limit counts the clusters of all domains together, and is 1"},
		"SpreadOfTwo":      {one("limit: 2, spread: {field: region, maxClusters: 1}"), ""},
		"WeightsOfOne":     {one("limit: 1, weights: Score, prefer: [{field: region, operator: In, values: [us], weight: 1}]"), "spec.rules[0].weights: has no effect: limit is 1"},
		"VersionLabel":     {one("require: [{label: example.com/k8s-version, operator: Gte, values: ['1.30']}]"), "spec.rules[0].require[0].operator: Gte compares numbers, and as a number, 1.9 is greater than 1.30"},
		"Conversion":       {one("require: [{property: conversion-rate, operator: Gte, values: ['0.5']}]"), ""},
		"VersionWithType":  {one("require: [{label: example.com/k8s-version, operator: Gte, values: ['1.30'], as: Version}]"), ""},
		"NumberedVersion":  {one("require: [{label: schema-version, operator: Gte, values: ['3']}]"), ""},
		"VersionAsNumber":  {one("require: [{label: schema-version, operator: Gte, values: ['3.5'], as: Number}]"), ""},
		"VersionOfCluster": {one("require: [{field: version, operator: Gte, values: ['1.30']}]"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, errs := Render(parse(t, tc.rules))
			got := strings.Join(warnings, "\n")
			if len(errs) > 0 || tc.want == "" && got != "" || len(warnings) > 1 || !strings.Contains(got, tc.want) {
				t.Errorf("got the warnings %q and the errors %v, want %q", got, errs, tc.want)
			}
		})
	}
}
