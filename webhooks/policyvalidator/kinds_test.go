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

package policyvalidator_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// kinds is a catalog with several types.
type kinds struct{ catalog }

func (*kinds) Served() *match.ServedTypes {
	of := func(group, version, plural, kind string, namespaced bool, short ...string) match.ServedType {
		return match.ServedType{
			GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
			Kind:                 kind, Singular: strings.ToLower(kind), ShortNames: short, Namespaced: namespaced,
		}
	}
	return match.NewServedTypes([]match.ServedType{
		of("", "v1", "pods", "Pod", true, "po"), of("", "v1", "persistentvolumes", "PersistentVolume", false, "pv"),
		of("apps", "v1", "deployments", "Deployment", true, "deploy"), of("apps", "v1", "statefulsets", "StatefulSet", true, "sts"),
	}, schema.GroupVersion{Group: "metrics.example", Version: "v1"})
}

func TestKindsThatAreNotMatched(t *testing.T) {
	apps := placementv1.ResourceRule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "statefulsets"}}
	rule := func(change func(*placementv1.ResourceRule)) placementv1.ResourceRule {
		out := *apps.DeepCopy()
		change(&out)
		return out
	}
	for name, tc := range map[string]struct {
		condition string
		rule      placementv1.ResourceRule
		want      []string
	}{
		"plural":        {`input.kind == "deployments"`, apps, []string{`input.kind is never "deployments"; did you mean "Deployment"?`}},
		"lower case":    {`input.kind in {"Deployment", "statefulset"}`, apps, []string{`never "statefulset"; did you mean "StatefulSet"?`}},
		"short name":    {`input.kind != "deploy"`, apps, []string{`did you mean "Deployment"?`}},
		"typing error":  {`input.kind == "Deploymnet"`, apps, []string{`did you mean "Deployment"?`}},
		"not matched":   {`input.kind == "Pod"`, apps, []string{`input.kind is never "Pod": the policy matches Deployment, StatefulSet`}},
		"unknown":       {`input.kind == "Rollout"`, apps, []string{`the policy matches Deployment, StatefulSet`}},
		"version alone": {`input.apiVersion == "v1"`, apps, []string{`input.apiVersion is never "v1"; did you mean "apps/v1"?`}},
		"group alone":   {`input.apiVersion in ["apps"]`, apps, []string{`did you mean "apps/v1"?`}},
		"old version":   {`input.apiVersion == "extensions/v1beta1"`, apps, []string{`the policy matches apps/v1`}},
		"right":         {`input.kind == "Deployment"; input.apiVersion == "apps/v1"`, apps, nil},
		"generic":       {`input.kind in {"Pod", "Deployment", "Rollout"}; input.apiVersion in {"v1", "apps/v1"}`, apps, nil},
		"others":        {`input.kind != "Pod"; not input.kind in {"Pod", "Rollout"}`, apps, nil},
		"both ways":     {`x := {1 | input.kind == "Pod"} | {2 | input.kind != "Pod"}; count(x) > 0`, apps, nil},
		"wildcard":      {`input.kind == "deployments"`, rule(func(r *placementv1.ResourceRule) { r.Resources = []string{"*"} }), nil},
		"any version":   {`input.apiVersion == "v1"`, rule(func(r *placementv1.ResourceRule) { r.APIVersions = []string{"*"} }), nil},
		"nothing, silent": {`input.kind == "loads"`, rule(func(r *placementv1.ResourceRule) {
			r.APIGroups, r.Resources = []string{"metrics.example"}, []string{"loads"}
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &kinds{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
			p := newPolicy(`package p
errors contains "no" if {` + tc.condition + "}\n")
			p.Spec.Match.ResourceRules[0] = tc.rule
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(warnings, func(w string) bool { return !strings.Contains(w, " is never ") })
			if len(got) != len(tc.want) {
				t.Fatalf("warnings %q, want %q", got, tc.want)
			}
			for i := range tc.want {
				if !strings.Contains(got[i], tc.want[i]) {
					t.Errorf("warning %q, want %q", got[i], tc.want[i])
				}
			}
		})
	}
}
