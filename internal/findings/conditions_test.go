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

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// TestConditions checks which match conditions fail for some objects.
func TestConditions(t *testing.T) {
	const (
		first, second = "spec.match.matchConditions[0].expression: ", "spec.match.matchConditions[1].expression: "
		created       = `fails for an object that is created, which then can't be decided, because oldObject is null. For an existing object, oldObject is the object itself. ` +
			`Test oldObject first, as in oldObject != null && ...`
		level = `fails for an object without annotation example.com/level, which then can't be decided: test the key first, as in "example.com/level" in ` +
			`object.metadata.?annotations.orValue({}) && ...`
		host = `fails for an object without spec.template.spec.hostNetwork, which then can't be decided: test the field first, as in ` +
			`has(object.spec.template.spec.hostNetwork) && ...`
	)
	for name, test := range map[string]struct {
		conditions []string
		want       string
	}{
		"None":          {nil, ""},
		"Annotation":    {[]string{"has(object.metadata.annotations) && object.metadata.annotations['example.com/level'] == '3' // high"}, first + level},
		"OfTheSecond":   {[]string{"request.operation == 'CREATE'", "object.metadata.annotations['example.com/level'] == '3'"}, second + level},
		"Guarded":       {[]string{"'example.com/level' in object.metadata.?annotations.orValue({})", "object.metadata.annotations['example.com/level'] == '3'"}, ""},
		"InOneGuarded":  {[]string{"has(object.metadata.annotations) && 'a' in object.metadata.annotations && object.metadata.annotations['a'] == '3'"}, ""},
		"Optional":      {[]string{"object.metadata.?annotations['example.com/level'].orValue('') == '3'"}, ""},
		"RequiredLabel": {[]string{"object.metadata.labels.app == 'web'"}, ""},
		"OtherLabel":    {[]string{"object.metadata.labels.tier == 'gold'"}, first + "fails for an object without label tier"},

		"Created":        {[]string{"object.spec.replicas != oldObject.spec.replicas"}, first + created},
		"CreatedSecond":  {[]string{"object.spec.replicas > 2", "object.spec.replicas != oldObject.spec.replicas"}, second + created},
		"UpdatesOnly":    {[]string{"request.operation == 'UPDATE'", "object.spec.replicas != oldObject.spec.replicas"}, ""},
		"OldObjectTest":  {[]string{"oldObject == null || object.spec.replicas != oldObject.spec.replicas"}, ""},
		"Field":          {[]string{"object.spec.template.spec.hostNetwork == true"}, first + host},
		"FieldOfSecond":  {[]string{"object.metadata.name != 'a'", "object.spec.template.spec.hostNetwork"}, second + host},
		"FieldIsTested":  {[]string{"has(object.spec.template.spec.hostNetwork)", "object.spec.template.spec.hostNetwork"}, ""},
		"FieldByRequest": {[]string{"request.kind.kind == 'DaemonSet'", "object.spec.template.spec.hostNetwork"}, ""},
		"Default":        {[]string{"object.spec.replicas > 2"}, ""},
	} {
		spec := placementv1.PlacementPolicySpec{Match: placementv1.Match{
			ResourceRules:  []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
		for _, expression := range test.conditions {
			spec.Match.MatchConditions = append(spec.Match.MatchConditions, admissionregistrationv1.MatchCondition{Name: "a", Expression: expression})
		}
		if got := findingsOfConditions(t.Context(), spec, []match.ServedType{deployments}); !finds(got, test.want) {
			t.Errorf("%s: got %+v, want %q", name, got, test.want)
		}
	}
}
