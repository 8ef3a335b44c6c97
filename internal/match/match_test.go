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

package match_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

var csinodes = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"}

func rule(groups, versions, resources string) placementv1.ResourceRule {
	return placementv1.ResourceRule{
		APIGroups: strings.Split(groups, ","), APIVersions: strings.Split(versions, ","), Resources: strings.Split(resources, ","),
	}
}

func selector(pairs ...string) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		out.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return out
}

func condition(name, expression string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: name, Expression: expression}
}

func newObject(labels map[string]string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion("apps/v1")
	obj.SetKind("Deployment")
	obj.SetNamespace("shop")
	obj.SetName("web")
	obj.SetLabels(labels)
	return obj
}

func compile(t *testing.T, m placementv1.Match) *match.Matcher {
	t.Helper()
	out, errs := match.New(m, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out
}

func TestSelectsResource(t *testing.T) {
	tests := map[string]struct {
		rules    []placementv1.ResourceRule
		resource schema.GroupVersionResource
		want     bool
	}{
		"Named":              {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, resource: deployments, want: true},
		"OneOfSeveral":       {rules: []placementv1.ResourceRule{rule("batch,apps", "v2,v1", "jobs,deployments")}, resource: deployments, want: true},
		"SecondRule":         {rules: []placementv1.ResourceRule{rule("batch", "v1", "jobs"), rule("apps", "v1", "deployments")}, resource: deployments, want: true},
		"RulesAreNotMixed":   {rules: []placementv1.ResourceRule{rule("batch", "v1", "deployments"), rule("apps", "v1", "jobs")}, resource: deployments},
		"OtherGroup":         {rules: []placementv1.ResourceRule{rule("batch", "v1", "deployments")}, resource: deployments},
		"OtherVersion":       {rules: []placementv1.ResourceRule{rule("apps", "v2", "deployments")}, resource: deployments},
		"OtherResource":      {rules: []placementv1.ResourceRule{rule("apps", "v1", "deployment")}, resource: deployments},
		"Wildcards":          {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: deployments, want: true},
		"CoreGroup":          {rules: []placementv1.ResourceRule{rule("", "v1", "pods")}, resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, want: true},
		"CoreIsNoWildcard":   {rules: []placementv1.ResourceRule{rule("", "*", "*")}, resource: deployments},
		"NoRule":             {resource: deployments},
		"NodesNever":         {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}},
		"LeasesNever":        {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}},
		"DefinitionsNever":   {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}},
		"RequestsNever":      {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}},
		"OwnKindsNever":      {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Group: "placement.berth.dev", Version: "v1alpha1", Resource: "placementpolicies"}},
		"WebhooksNever":      {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}},
		"NodesByWildcard":    {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: csinodes},
		"NodesByGroup":       {rules: []placementv1.ResourceRule{rule("storage.k8s.io", "v1", "*")}, resource: csinodes},
		"NodesByResource":    {rules: []placementv1.ResourceRule{rule("*", "v1", "csinodes")}, resource: csinodes},
		"NodesByName":        {rules: []placementv1.ResourceRule{rule("storage.k8s.io", "*", "csinodes")}, resource: csinodes, want: true},
		"NodesByNameOfAny":   {rules: []placementv1.ResourceRule{rule("*", "v1", "*"), rule("storage.k8s.io", "v1beta1", "csinodes")}, resource: csinodes, want: true},
		"NodesByOtherName":   {rules: []placementv1.ResourceRule{rule("storage.k8s.io", "v1beta1", "csinodes")}, resource: csinodes},
		"NodesOfOthersMatch": {rules: []placementv1.ResourceRule{rule("*", "*", "*")}, resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "nodes"}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, _ := match.New(placementv1.Match{ResourceRules: tc.rules}, field.NewPath("match"))
			if got := m.SelectsResource(tc.resource); got != tc.want {
				t.Errorf("SelectsResource(%v) = %t, want %t", tc.resource, got, tc.want)
			}
		})
	}
}

func TestNewReportsWhatItLeavesOut(t *testing.T) {
	apps := []placementv1.ResourceRule{rule("apps", "v1", "deployments")}
	tests := map[string]struct {
		match placementv1.Match
		want  []string
	}{
		"Sound": {match: placementv1.Match{ResourceRules: apps, NamespaceSelector: selector("a", "b"), ObjectSelector: selector(), MatchConditions: []admissionregistrationv1.MatchCondition{condition("c", "true")}}},
		"NeverGroup": {
			match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("apps", "v1", "deployments"), rule("apps,placement.berth.dev", "*", "*")}},
			want:  []string{`spec.match.resourceRules[1].apiGroups: Forbidden: policies never match objects of "placement.berth.dev"`},
		},
		"NeverResource": {
			match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("", "v1", "pods,nodes")}},
			want:  []string{`spec.match.resourceRules[0].resources: Forbidden: policies never match "nodes"`},
		},
		"NamespaceSelector": {
			match: placementv1.Match{ResourceRules: apps, NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
			want:  []string{`spec.match.namespaceSelector: Invalid value: `},
		},
		"ObjectSelector": {
			match: placementv1.Match{ResourceRules: apps, ObjectSelector: selector("not a key", "x")},
			want:  []string{`spec.match.objectSelector: Invalid value: `},
		},
		"Conditions": {
			match: placementv1.Match{ResourceRules: apps, MatchConditions: []admissionregistrationv1.MatchCondition{
				condition("good", "true"), condition("syntax", "object."), condition("type", "'text'"), condition("unknown", "nothing == 1"), condition("pattern", "'x'.matches('w{900}x{900}y{900}z{900}')"),
			}},
			want: []string{
				`spec.match.matchConditions[1].expression: Invalid value: "object."`,
				`spec.match.matchConditions[2].expression: Invalid value: "'text'"`,
				`spec.match.matchConditions[3].expression: Invalid value: "nothing == 1"`,
				`spec.match.matchConditions[4].expression: Invalid value: "'x'.matches('w{900}x{900}y{900}z{900}')"`,
			},
		},
		"AuthorizerIsNotToBeHad": {
			match: placementv1.Match{ResourceRules: apps, MatchConditions: []admissionregistrationv1.MatchCondition{condition("a", "authorizer.group('').resource('pods').check('get').allowed()")}},
			want:  []string{`spec.match.matchConditions[0].expression: Invalid value: `},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m, errs := match.New(tc.match, field.NewPath("spec", "match"))
			if m == nil {
				t.Fatal("no matcher")
			}
			var got []string
			for i, err := range errs {
				text := err.Error()
				if i < len(tc.want) && len(text) > len(tc.want[i]) {
					text = text[:len(tc.want[i])]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBrokenPartsSelectMore checks that a policy with an invalid match matches more objects. It denies them.
func TestBrokenPartsSelectMore(t *testing.T) {
	sound := placementv1.Match{
		ResourceRules:     []placementv1.ResourceRule{rule("apps", "v1", "deployments")},
		NamespaceSelector: selector("team", "shop"),
		ObjectSelector:    selector("app", "web"),
		MatchConditions:   []admissionregistrationv1.MatchCondition{condition("off", "false")},
	}
	objects := map[string]match.Object{}
	for _, team := range []string{"shop", "other"} {
		for _, app := range []string{"web", "other"} {
			obj := newObject(map[string]string{"app": app})
			objects[team+"/"+app] = match.Object{
				Resource: deployments, Namespace: "shop", NamespaceLabels: map[string]string{"team": team}, Content: obj,
				Request: &admissionv1.AdmissionRequest{Operation: admissionv1.Create},
			}
		}
	}
	tests := map[string]struct {
		breakIt func(*placementv1.Match)
		want    []string
	}{
		"Nothing":           {breakIt: func(*placementv1.Match) {}},
		"Condition":         {breakIt: func(m *placementv1.Match) { m.MatchConditions[0].Expression = "((" }, want: []string{"shop/web"}},
		"OneOfConditions":   {breakIt: func(m *placementv1.Match) { m.MatchConditions = append(m.MatchConditions, condition("x", "((")) }, want: []string{"shop/web"}},
		"ConditionAndOther": {breakIt: func(m *placementv1.Match) { m.MatchConditions, m.ObjectSelector = nil, selector("!", "") }, want: []string{"shop/other", "shop/web"}},
		"Everything": {breakIt: func(m *placementv1.Match) {
			m.MatchConditions[0].Expression, m.ObjectSelector, m.NamespaceSelector = "((", selector("!", ""), selector("!", "")
		}, want: []string{"other/other", "other/web", "shop/other", "shop/web"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			broken := sound.DeepCopy()
			tc.breakIt(broken)
			m, _ := match.New(*broken, field.NewPath("match"))
			for id, o := range objects {
				got, err := m.Matches(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.Contains(" "+strings.Join(tc.want, " ")+" ", " "+id+" "); got != want {
					t.Errorf("%s: matches = %t, want %t", id, got, want)
				}
			}
			// The webhook must select the same objects, or the API server would not call Berth.
			webhook := match.Webhooks([]match.PolicyWebhook{{Policy: "p", FailurePolicy: placementv1.FailurePolicyFail, Matcher: m}}, "berth-system")[0].Webhook
			if errs := validateWebhook(webhook); len(errs) > 0 {
				t.Errorf("rendered webhook is not valid: %v", errs)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	create := func(o match.Object) match.Object {
		o.Request = &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Name: "web", UserInfo: userInfo("alice")}
		return o
	}
	update := func(o match.Object, old *unstructured.Unstructured) match.Object {
		o.Old, o.Request = old, &admissionv1.AdmissionRequest{Operation: admissionv1.Update, Name: "web", UserInfo: userInfo("alice")}
		return o
	}
	object := match.Object{
		Resource: deployments, Namespace: "shop", NamespaceLabels: map[string]string{"team": "shop"},
		Content: newObject(map[string]string{"app": "web", "tier": "front"}),
	}
	object.Content.SetAnnotations(map[string]string{"large": strings.Repeat("x{1000}", 5), "small": "^b", "quantity": "1e-999999999"})
	inNamespace := func(o match.Object, name string) match.Object {
		o.Namespace = name
		return o
	}
	tests := map[string]struct {
		namespaces, objects *metav1.LabelSelector
		conditions          []string
		object              match.Object
		want                bool
		leaves              bool
		wantErr             string
	}{
		"NoSelectors":             {object: create(object), want: true},
		"EmptySelectors":          {namespaces: selector(), objects: selector(), object: create(object), want: true},
		"NamespaceMatches":        {namespaces: selector("team", "shop"), object: create(object), want: true},
		"NamespaceDiffers":        {namespaces: selector("team", "bank"), object: create(object)},
		"ClusterScoped":           {namespaces: selector("team", "bank"), object: inNamespace(create(object), ""), want: true},
		"System":                  {object: inNamespace(create(object), "kube-system")},
		"ObjectMatches":           {objects: selector("app", "web", "tier", "front"), object: create(object), want: true},
		"ObjectDiffers":           {objects: selector("app", "db"), object: create(object)},
		"OldObjectMatches":        {objects: selector("app", "db"), object: update(object, newObject(map[string]string{"app": "db"})), leaves: true},
		"BothObjectsMatch":        {objects: selector("app", "web"), object: update(object, newObject(map[string]string{"app": "web"})), want: true},
		"NewObjectMatches":        {objects: selector("app", "web"), object: update(object, newObject(map[string]string{"app": "db"})), want: true},
		"OldNamespaceDiffers":     {objects: selector("app", "db"), namespaces: selector("team", "bank"), object: update(object, newObject(map[string]string{"app": "db"}))},
		"OldConditionFalse":       {objects: selector("app", "db"), conditions: []string{"object.metadata.labels.app == 'db'"}, object: update(object, newObject(map[string]string{"app": "db"}))},
		"OldConditionFails":       {objects: selector("app", "db"), conditions: []string{"object.spec.missing == 1"}, object: update(object, newObject(map[string]string{"app": "db"})), leaves: true},
		"NeitherObjectMatches":    {objects: selector("app", "x"), object: update(object, newObject(map[string]string{"app": "db"}))},
		"ConditionTrue":           {conditions: []string{"object.metadata.labels.app == 'web'"}, object: create(object), want: true},
		"ConditionFalse":          {conditions: []string{"object.metadata.labels.app == 'db'"}, object: create(object)},
		"AllConditions":           {conditions: []string{"true", "false"}, object: create(object)},
		"OldObjectOfCreate":       {conditions: []string{"oldObject == null"}, object: create(object), want: true},
		"OldObjectOfUpdate":       {conditions: []string{"oldObject.metadata.labels.app == 'db'"}, object: update(object, newObject(map[string]string{"app": "db"})), want: true},
		"RequestOperation":        {conditions: []string{"request.operation == 'UPDATE'"}, object: update(object, object.Content), want: true},
		"RequestOperationDiffers": {conditions: []string{"request.operation == 'UPDATE'"}, object: create(object)},
		"RequestUser":             {conditions: []string{"request.userInfo.username == 'alice'"}, object: create(object), want: true},
		"Error":                   {conditions: []string{"object.spec.missing == 1"}, object: create(object), want: true, wantErr: `match condition "c0"`},
		"ErrorAndTrue":            {conditions: []string{"object.spec.missing == 1", "true"}, object: create(object), want: true, wantErr: `match condition "c0"`},
		"LargePattern":            {conditions: []string{"'x'.matches(object.metadata.annotations.large)"}, object: create(object), want: true, wantErr: "states, at most"},
		"LargePatternToFind":      {conditions: []string{"'x'.find(object.metadata.annotations.large) == ''"}, object: create(object), want: true, wantErr: "states, at most"},
		"SmallPattern":            {conditions: []string{"'berth'.matches(object.metadata.annotations.small)"}, object: create(object), want: true},
		"LargeQuantity":           {conditions: []string{"quantity(object.metadata.annotations.quantity).isGreaterThan(quantity('1'))"}, object: create(object), want: true, wantErr: `match condition "c0"`},
		"FalseBeatsError":         {conditions: []string{"object.spec.missing == 1", "false"}, object: create(object)},
		"SelectorBeatsError":      {conditions: []string{"object.spec.missing == 1"}, objects: selector("app", "db"), object: create(object)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("apps", "v1", "deployments")}, NamespaceSelector: tc.namespaces, ObjectSelector: tc.objects}
			for i, c := range tc.conditions {
				m.MatchConditions = append(m.MatchConditions, condition("c"+string(rune('0'+i)), c))
			}
			got, err := compile(t, m).Matches(t.Context(), tc.object)
			if got != tc.want {
				t.Errorf("Matches = %t, want %t", got, tc.want)
			}
			if leaves, _ := compile(t, m).Leaves(t.Context(), tc.object); leaves != tc.leaves {
				t.Errorf("Leaves = %t, want %t", leaves, tc.leaves)
			}
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("error: %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}
