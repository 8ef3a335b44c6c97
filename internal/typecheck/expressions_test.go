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

package typecheck_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/types"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/typecheck"
)

// TestCheckRules checks the CEL expressions of rules against the types of the matched kinds.
func TestCheckRules(t *testing.T) {
	parsed, err := typecheck.ParseOpenAPI(schema.GroupVersion{Group: "apps", Version: "v1"}, []byte(`{"components": {"schemas": {
		"Meta": {"type": "object", "properties": {"name": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
		"Deployment": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}], "properties": {
			"metadata": {"$ref": "#/components/schemas/Meta"}, "spec": {"type": "object", "properties": {
				"replicas": {"type": "integer"}, "template": {"type": "object", "properties": {"metadata": {"$ref": "#/components/schemas/Meta"}}}}}}},
		"Other": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Other"}], "properties": {
			"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	deployments, others := typecheck.Kind{Type: parsed["Deployment"]}, typecheck.Kind{Type: parsed["Other"]}
	const at = "spec.rules[0].when.expression: rule a: no matched object has "
	for name, test := range map[string]struct {
		expression string
		kinds      []typecheck.Kind
		want       []string
	}{
		"Right":        {`object.spec.replicas > 1 && has(object.spec.template.metadata.labels) && object.metadata.labels["a/b"] == "c"`, []typecheck.Kind{deployments}, nil},
		"LevelMissing": {`has(object.spec.template.labels)`, []typecheck.Kind{deployments}, []string{at + `object.spec.template.labels: object.spec.template has no field "labels"; did you mean object.spec.template.metadata.labels?`}},
		"Misspelt":     {`object.spec.replcias > 1`, []typecheck.Kind{deployments}, []string{at + `object.spec.replcias: object.spec has no field "replcias"; did you mean object.spec.replicas?`}},
		"Digit":        {`object.spec["1st"] > 1`, []typecheck.Kind{deployments}, []string{at + `object.spec["1st"]: object.spec has no field "1st"`}},
		"NoObject":     {`object.spec.replicas.max > 1`, []typecheck.Kind{deployments}, []string{at + `object.spec.replicas.max: object.spec.replicas is a number and has no fields`}},
		"OneKindHasIt": {`has(object.spec.size) && object.spec.size > 1`, []typecheck.Kind{deployments, others}, nil},
		"NoKindHasIt":  {`object.spec.sise > 1`, []typecheck.Kind{deployments, others}, []string{at + `object.spec.sise: object.spec has no field "sise"; did you mean object.spec.size?`}},
		"AnyObject":    {`object.spec.whatever > 1`, []typecheck.Kind{{Type: typecheck.AnyObject}}, nil},
		"AnyType":      {`object.spec.whatever > 1`, []typecheck.Kind{{Type: types.A}}, nil},
		"UnknownKinds": {`object.spec.whatever > 1`, nil, nil},
	} {
		rules := []placementv1.Rule{{Name: "a", When: &placementv1.RuleCondition{Expression: test.expression}}}
		var got []string
		for _, f := range typecheck.CheckRules(rules, test.kinds).Findings {
			got = append(got, f.Text("p"))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, diff)
		}
	}
}
