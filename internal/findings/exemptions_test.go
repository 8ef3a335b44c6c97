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
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// TestExemptions checks which rules without an effect also keep objects without a label or annotation.
func TestExemptions(t *testing.T) {
	const last, exempt = "deny: no", "annotations: [{key: exempt, operator: NotIn, values: ['false']}]"
	for name, test := range map[string]struct {
		rules []string
		want  string
	}{
		"Annotation": {[]string{"when: {" + exempt + "}", last}, "spec.rules[0].when.annotations[0]: objects without the annotation exempt match, too, so that rule a keeps all of " +
			`them from the rules after it. To keep only objects that have it, use operator: In with the value that they have, such as "true"`},
		"Label": {[]string{"when: {objectSelector: {matchExpressions: [{key: exempt, operator: NotIn, values: ['no', 'False']}]}}", last},
			"spec.rules[0].when.objectSelector.matchExpressions[0]: objects without the label exempt match, too"},
		"Managed":    {[]string{"when: {annotations: [{key: managed, operator: NotIn, values: ['true']}]}", last}, ""},
		"In":         {[]string{"when: {annotations: [{key: exempt, operator: In, values: ['false']}]}", last}, ""},
		"OtherValue": {[]string{"when: {annotations: [{key: exempt, operator: NotIn, values: ['false', eu]}]}", last}, ""},
		"Exists":     {[]string{"when: {annotations: [{key: exempt, operator: NotIn, values: ['false']}, {key: exempt, operator: Exists}]}", last}, ""},
		"AlsoLabels": {[]string{"when: {objectSelector: {matchLabels: {app: web}}, " + exempt + "}", last}, ""},
		"Effect":     {[]string{"when: {" + exempt + "}, warn: checked", last}, ""},
		"Clusters":   {[]string{"when: {" + exempt + "}, limit: 1", last}, ""},
		"Last":       {[]string{"when: {" + exempt + "}"}, ""},
		"Requires":   {[]string{"when: {objectSelector: {matchExpressions: [{key: required, operator: NotIn, values: ['false']}]}}", last}, ""},
		"EarlierReadsLabel": {[]string{"when: {objectSelector: {matchLabels: {exempt: ''}}}, limit: 1",
			"when: {objectSelector: {matchExpressions: [{key: exempt, operator: NotIn, values: ['false']}]}}", last}, ""},
		"EarlierReads": {[]string{"when: {annotations: [{key: exempt, operator: DoesNotExist}]}, limit: 1", "when: {" + exempt + "}", last}, ""},
	} {
		spec := placementv1.PlacementPolicySpec{}
		spec.Match.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "required", Operator: metav1.LabelSelectorOpExists}}}
		spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
		for _, rule := range test.rules {
			spec.Rules = append(spec.Rules, ruleFrom(t, rule))
		}
		m, errs := match.New(spec.Match, matchPath)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if got := findingsOfExemptions(spec, m); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}
