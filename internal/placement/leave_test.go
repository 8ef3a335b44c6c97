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

package placement_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// ofTier returns a policy for Deployments with a label.
func ofTier(t *testing.T, tier string, decision placement.Decision, tune ...func(*placement.Policy)) *placement.Policy {
	t.Helper()
	m := matcher(t, placementv1.Match{
		ResourceRules:  []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}},
	})
	out := &placement.Policy{
		Name: tier, Matcher: m, Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail, Remediation: placementv1.RemediationAutomatic,
		Schedules: true, Evaluator: shared{decision},
	}
	for _, change := range tune {
		change(out)
	}
	return out
}

// deniesTier denies the objects of a tier.
type deniesTier struct {
	shared
	tier string
}

func (d deniesTier) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	if (&unstructured.Unstructured{Object: input}).GetLabels()["tier"] == d.tier {
		return placement.Decision{Clusters: []string{"c0"}, Errors: []string{"stay"}}, nil
	}
	return placement.Decision{Clusters: []string{"c0"}}, nil
}

// TestRelabel checks what an update makes of an object whose labels select another policy.
func TestRelabel(t *testing.T) {
	gold := ofTier(t, "gold", placement.Decision{Clusters: []string{"c0"}, Annotations: map[string]string{"by": "gold"}, Scheduling: map[string]string{"schedulerName": "gold"}})
	silver := func(tune ...func(*placement.Policy)) *placement.Policy {
		return ofTier(t, "silver", placement.Decision{Clusters: []string{"c1"}}, tune...)
	}
	warning := func(p *placement.Policy) { p.Mode = placementv1.ModeWarn }
	approved := func(p *placement.Policy) { p.Remediation = placementv1.RemediationApproved }
	newOnly := func(p *placement.Policy) { p.Remediation = placementv1.RemediationNewOnly }
	gone := ofTier(t, "gold", placement.Decision{}, denying)
	const message = "stay (the policy matches the object before this update, and decides whether the object may leave it)"
	type result struct {
		Clusters, By, Scheduler string
		Errors                  []string
	}
	left := result{Clusters: `["c1"]`}
	kept := result{Clusters: `["c0"]`, By: "gold", Scheduler: "gold"}
	both := func(errors ...string) result { return result{Clusters: left.Clusters, Errors: errors} }
	tests := map[string]struct {
		// before are the policies that decide the object while it is gold, and after those that decide its update.
		before, after []*placement.Policy
		tier          string
		want          result
	}{
		"Disjoint":           {[]*placement.Policy{gold}, []*placement.Policy{gold, silver()}, "silver", left},
		"Nothing":            {[]*placement.Policy{gold}, []*placement.Policy{gold, silver()}, "", kept},
		"Unknown":            {[]*placement.Policy{gold}, []*placement.Policy{gold}, "silver", kept},
		"Stays":              {[]*placement.Policy{gold}, []*placement.Policy{gold, silver()}, "gold", kept},
		"Approved":           {[]*placement.Policy{gold}, []*placement.Policy{gold, silver(approved)}, "silver", left},
		"LeavesApproved":     {[]*placement.Policy{gold}, []*placement.Policy{ofTier(t, "gold", placement.Decision{Clusters: []string{"c0"}}, approved), silver()}, "silver", left},
		"LeavesManual":       {[]*placement.Policy{gold}, []*placement.Policy{ofTier(t, "gold", placement.Decision{Clusters: []string{"c0"}}, manual), silver()}, "silver", left},
		"NewOnly":            {[]*placement.Policy{gold}, []*placement.Policy{gold, silver(newOnly)}, "silver", left},
		"NotEnforced":        {[]*placement.Policy{gold}, []*placement.Policy{gold, silver(warning)}, "silver", kept},
		"GivesNothing":       {[]*placement.Policy{gold}, []*placement.Policy{gold, ofTier(t, "silver", placement.Decision{})}, "silver", kept},
		"GivesNoClusters":    {[]*placement.Policy{gold}, []*placement.Policy{gold, ofTier(t, "silver", placement.Decision{Labels: map[string]string{"a": "b"}})}, "silver", result{Clusters: `["c0"]`}},
		"DeniedToLeave":      {[]*placement.Policy{gold}, []*placement.Policy{ofTier(t, "gold", placement.Decision{}, func(p *placement.Policy) { p.Evaluator = deniesTier{tier: "silver"} }), silver()}, "silver", both(message)},
		"DeniedAnyway":       {[]*placement.Policy{gold}, []*placement.Policy{gone, silver()}, "silver", left},
		"DeniedByTheNewOne":  {[]*placement.Policy{gold}, []*placement.Policy{gold, silver(denying)}, "silver", result{Clusters: kept.Clusters, By: kept.By, Scheduler: kept.Scheduler, Errors: []string{"no"}}},
		"LeavesWithoutOther": {[]*placement.Policy{gold}, []*placement.Policy{ofTier(t, "gold", placement.Decision{}, func(p *placement.Policy) { p.Evaluator = deniesTier{} })}, "", result{Clusters: kept.Clusters, By: kept.By, Scheduler: kept.Scheduler, Errors: []string{message}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {tier: gold}}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}")
			stored := decideAs(t, deployments, o, nil, tc.before...).Object
			next := stored.DeepCopy()
			if tc.tier == "" {
				next.SetLabels(nil)
			} else {
				next.SetLabels(map[string]string{"tier": tc.tier})
			}
			out := decideAs(t, deployments, next, stored, tc.after...)
			annotations := out.Object.GetAnnotations()
			got := result{Clusters: annotations[placementv1.ClustersAnnotation], By: annotations["by"]}
			got.Scheduler, _, _ = unstructured.NestedString(out.Object.Object, "spec", "template", "spec", "schedulerName")
			for _, v := range out.Verdicts {
				if v.Policy.Mode == placementv1.ModeEnforce {
					got.Errors = append(got.Errors, v.Decision.Errors...)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOnce checks that an object keeps what a policy set that does not match it any more because of that, whatever other policies give.
func TestOnce(t *testing.T) {
	rules := []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}
	condition := func(text string) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{{Name: "once", Expression: text}}
	}
	unset := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "placed", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	for name, m := range map[string]placementv1.Match{
		"Selector":  {ResourceRules: rules, ObjectSelector: unset},
		"Condition": {ResourceRules: rules, MatchConditions: condition("!has(object.metadata.annotations) || !('by' in object.metadata.annotations)")},
	} {
		t.Run(name, func(t *testing.T) {
			once := ofTier(t, "once", placement.Decision{Labels: map[string]string{"placed": "yes"}, Annotations: map[string]string{"by": "once"}})
			once.Matcher = matcher(t, m)
			other := sets(t, "other", 0, "a", "b")
			request := func(o, old *unstructured.Unstructured, all ...*placement.Policy) *unstructured.Unstructured {
				d := &placement.Decider{Policies: policies(all), Namespaces: namespaces{}, Keyring: keyring(t, "k")}
				out, err := d.Decide(t.Context(), placement.Request{
					Resource: deployments, Namespace: "default", Object: o, Old: old,
					Admission: placement.AdmissionOf(admissionv1.Update, deployments, "default", o, authenticationv1.UserInfo{}),
				})
				if err != nil {
					t.Fatal(err)
				}
				return out.Object
			}
			update := func(o *unstructured.Unstructured, all ...*placement.Policy) *unstructured.Unstructured {
				return request(o, o, all...)
			}
			stored := update(fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"), once, other)
			for range 2 {
				stored = update(stored, once, other)
			}
			if stored.GetLabels()["placed"] != "yes" || stored.GetAnnotations()["by"] != "once" {
				t.Errorf("it lost what the policy set: %v, %v", stored.GetLabels(), stored.GetAnnotations())
			}
			// The API server calls the webhook once more after it changed an object that is older than the policy.
			older := update(fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}"), other)
			placed := update(older, once, other)
			if again := request(placed, older, once, other); again.GetLabels()["placed"] != "yes" || again.GetAnnotations()["by"] != "once" {
				t.Errorf("an older object lost what the policy set: %v, %v", again.GetLabels(), again.GetAnnotations())
			}
			if stored = update(stored, other); stored.GetLabels()["placed"] != "" || stored.GetAnnotations()["by"] != "" {
				t.Errorf("it keeps what a deleted policy set: %v, %v", stored.GetLabels(), stored.GetAnnotations())
			}
		})
	}
}

// TestOtherVersion checks that an object keeps what a policy set that matches it in another API version alone.
func TestOtherVersion(t *testing.T) {
	for name, versions := range map[string][]string{"One": {"v1beta1"}, "Many": slices.Repeat([]string{"v1beta1", "v2", "v3"}, 30)} {
		t.Run(name, func(t *testing.T) {
			beta := ofTier(t, "beta", placement.Decision{Annotations: map[string]string{"by": "beta"}})
			beta.Matcher = everything(t)
			other := sets(t, "other", 0, "a", "b")
			o := fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}")
			stored := decideAs(t, deployments, o, nil, beta, other).Object
			for rules, want := range map[string]string{"deployments": "beta", "*": "beta", "statefulsets": ""} {
				beta.Matcher = matcher(t, placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: versions, Resources: []string{rules}}}})
				if got := decideAs(t, deployments, stored, stored, beta, other).Object.GetAnnotations()["by"]; got != want {
					t.Errorf("%s: %q, want %q", rules, got, want)
				}
			}
		})
	}
}

// TestRelabelByPolicy checks that an object stays with a policy whose label another policy sets if its developer applies the old manifest
// once more, which does not have the label.
func TestRelabelByPolicy(t *testing.T) {
	labels := sets(t, "labels", 0, "a", "b")
	labels.Evaluator = shared{placement.Decision{Labels: map[string]string{"tier": "gold"}}}
	gold := ofTier(t, "gold", placement.Decision{Clusters: []string{"c0"}})
	manifest := fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {app: web}}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}")
	stored := decideAs(t, deployments, manifest, nil, labels, gold).Object
	stored = decideAs(t, deployments, stored, stored, labels, gold).Object
	for name, change := range map[string]func(*unstructured.Unstructured){
		"Replaced": func(*unstructured.Unstructured) {},
		"Changed":  func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "web", "other": "label"}) },
	} {
		t.Run(name, func(t *testing.T) {
			next := manifest.DeepCopy()
			change(next)
			out := decideAs(t, deployments, next, stored, labels, gold)
			if got := out.Object.GetAnnotations()[placementv1.ClustersAnnotation]; got != `["c0"]` || out.Object.GetLabels()["tier"] != "gold" {
				t.Errorf("clusters %s, labels %v", got, out.Object.GetLabels())
			}
			for _, v := range out.Verdicts {
				if v.Leaves {
					t.Errorf("the object leaves %s", v.Policy.Name)
				}
			}
		})
	}
}
