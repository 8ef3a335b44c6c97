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

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// TestNamespaceNames checks which names of namespaces in expressions no namespace has.
func TestNamespaceNames(t *testing.T) {
	f := &Finder{Namespaces: labelled{"y-prod": nil, "shop": nil}}
	for name, test := range map[string]struct{ expression, want string }{
		"Known":     {"object.metadata.namespace == 'y-prod'", ""},
		"Misspelt":  {"object.metadata.namespace == 'y-prdo'", `no namespace has the name "y-prdo" now; there are "shop", "y-prod"`},
		"OneOf":     {"object.metadata.namespace in ['shop', 'y-test']", `no namespace has the name "y-test" now`},
		"Excluded":  {"object.metadata.namespace != 'dev' && !(object.metadata.namespace in ['test'])", ""},
		"Similar":   {"!(object.metadata.namespace in ['shop', 'y-prdo'])", `no namespace has the name "y-prdo" now`},
		"Invalid":   {"object.metadata.namespace == 'y_prod' || object.metadata.namespace == 'y-*'", ""},
		"Cluster":   {"object.metadata.namespace == ''", ""},
		"OtherName": {"object.metadata.name == 'none'", ""},
		"Prefix":    {"object.metadata.namespace.startsWith('y-') && request.namespace.endsWith('prod')", ""},
		"NoPrefix":  {"object.metadata.namespace.startsWith('prod-')", `no namespace has a name that starts with "prod-" now; there are "shop", "y-prod"`},
		"NoSuffix":  {"object.metadata.namespace.endsWith('-test') && object.metadata.name == 'x'", `no namespace has a name that ends with "-test" now`},
		"ToCome":    {"object.metadata.namespace == 'shop' || object.metadata.namespace.startsWith('shop-')", ""},
		"NoPart":    {"request.namespace.contains('dev')", `no namespace has a name that contains "dev" now`},
		"Pattern":   {"object.metadata.namespace.matches('^(shop|bank)$')", ""},
		"NoPattern": {"object.metadata.namespace.matches('^prod')", `no namespace has a name that matches "^prod" now`},
		"NotPrefix": {"!object.metadata.namespace.startsWith('kube-')", ""},
		"TwiceNot":  {"!(object.metadata.name == 'x' || !object.metadata.namespace.startsWith('kube-'))", `no namespace has a name that starts with "kube-" now`},
		"OfNames":   {"object.metadata.name.startsWith('prod-') || ['prod-'].exists(p, object.metadata.namespace.startsWith(p))", ""},
	} {
		condition := placementv1.PlacementPolicySpec{Match: placementv1.Match{MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: test.expression}}}}
		rule := placementv1.PlacementPolicySpec{Rules: []placementv1.Rule{{Name: "a", When: &placementv1.RuleCondition{Expression: test.expression}}}}
		for path, spec := range map[string]placementv1.PlacementPolicySpec{"spec.match.matchConditions[0].expression: ": condition, "spec.rules[0].when.expression: ": rule} {
			want := test.want
			if want != "" {
				want = path + want
			}
			if got := f.findingsOfNamespaceNames(t.Context(), spec); !finds(got, want) || len(got) == 1 && got[0].Level != Advice {
				t.Errorf("%s: got %+v, want %q", name, got, want)
			}
		}
	}
	spec := placementv1.PlacementPolicySpec{Rules: []placementv1.Rule{{Name: "a", When: &placementv1.RuleCondition{Expression: "object.metadata.namespace == 'shop'"}}}}
	if got := (&Finder{Namespaces: labelled{}}).findingsOfNamespaceNames(t.Context(), spec); len(got) > 0 {
		t.Errorf("without known namespaces: got %+v", got)
	}
}
