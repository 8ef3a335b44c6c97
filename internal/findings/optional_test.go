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
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// TestOptional checks which expressions fail for objects without a field, and for kinds that have it elsewhere.
func TestOptional(t *testing.T) {
	of := func(group, resource, kind string) match.ServedType {
		return match.ServedType{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Kind: kind, Namespaced: true}
	}
	cronJobs, widgets := of("batch", "cronjobs", "CronJob"), of("example.com", "widgets", "Widget")
	resources := []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	when := func(expression string) string {
		return "when: {expression: '" + strings.ReplaceAll(expression, "'", "''") + "'}"
	}
	const (
		host     = "object.spec.template.spec.hostNetwork == true"
		latest   = "object.spec.template.spec.containers.exists(c, c.image == 'latest')"
		optional = "spec.rules[0].when.expression: fails for an object without spec.template.spec.hostNetwork, which then can't be decided: test the field " +
			"first, as in has(object.spec.template.spec.hostNetwork) && ..."
		elsewhere = "spec.rules[0].when.expression: fails for each object of cronjobs.batch, which has no spec.template and then can't be decided (its pod spec is " +
			"spec.jobTemplate.spec.template.spec). Test the kind first, as in object.kind != \"CronJob\" && ..."
	)
	for name, test := range map[string]struct {
		rules []string
		types []match.ServedType
		want  []string
	}{
		"Optional":      {[]string{when(host)}, []match.ServedType{deployments}, []string{optional}},
		"Both":          {[]string{when(host)}, []match.ServedType{deployments, cronJobs}, []string{elsewhere, optional}},
		"Repeated":      {[]string{when(latest)}, []match.ServedType{deployments, cronJobs, cronJobs}, []string{elsewhere}},
		"OfNoKind":      {[]string{when(latest)}, []match.ServedType{cronJobs}, nil},
		"Tested":        {[]string{when("has(object.spec.template.spec.hostNetwork) && " + host)}, []match.ServedType{deployments}, nil},
		"KindIsTested":  {[]string{when("object.kind != 'CronJob' && " + latest)}, []match.ServedType{deployments, cronJobs}, nil},
		"Exempt":        {[]string{when("object.kind == 'CronJob'"), when(latest)}, []match.ServedType{deployments, cronJobs}, nil},
		"FieldIsExempt": {[]string{when("!has(object.spec.template.spec.hostNetwork)"), when(host)}, []match.ServedType{deployments}, nil},
		"Default":       {[]string{when("object.spec.replicas > 2")}, []match.ServedType{deployments}, nil},
		"Member": {[]string{when("object.spec.template.metadata.labels['example.com/tier'] == 'gold'")}, []match.ServedType{deployments},
			[]string{`without spec.template.metadata.labels.example.com/tier, which then can't be decided: test the field first, as in "example.com/tier" in ` +
				"object.spec.template.metadata.labels && ..."}},
		"OtherKind": {[]string{when(host)}, []match.ServedType{widgets}, nil},
		"Metadata":  {[]string{when("object.metadata.labels.tier == 'gold'")}, []match.ServedType{deployments}, nil},
		"None":      {[]string{"deny: no"}, []match.ServedType{deployments}, nil},
	} {
		spec := placementv1.PlacementPolicySpec{Match: placementv1.Match{ResourceRules: resources}}
		for _, text := range test.rules {
			spec.Rules = append(spec.Rules, ruleFrom(t, text))
		}
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		got := findingsOfOptional(t.Context(), spec, m, test.types)
		matches := len(got) == len(test.want)
		for i := range min(len(got), len(test.want)) {
			matches = matches && strings.Contains(got[i].Message, test.want[i])
		}
		if !matches {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
	conditional := placementv1.Match{ResourceRules: resources, MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "object.kind != 'CronJob'"}}}
	m, errs := match.New(conditional, matchPath)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	spec := placementv1.PlacementPolicySpec{Match: conditional, Rules: []placementv1.Rule{ruleFrom(t, when(latest))}}
	if got := findingsOfOptional(t.Context(), spec, m, []match.ServedType{deployments, cronJobs}); len(got) > 0 {
		t.Errorf("with match conditions: %+v", got)
	}
}
