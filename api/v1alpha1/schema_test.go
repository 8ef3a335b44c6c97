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

package v1alpha1_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

type props = apiextensionsv1.JSONSchemaProps

// versions returns the versions of the kinds, by kind and version.
func versions(t testing.TB) map[string]apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	out := map[string]apiextensionsv1.CustomResourceDefinitionVersion{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			out[crd.Spec.Names.Kind+"/"+v.Name] = v
		}
	}
	return out
}

func schemas(t testing.TB) map[string]props {
	t.Helper()
	out := map[string]props{}
	for name, v := range versions(t) {
		out[name] = *v.Schema.OpenAPIV3Schema
	}
	return out
}

// upstream lists the parts of the schema that are Kubernetes' own types, which need no limits here. If a list at
// such a path is a field of Berth's own types, it still needs its limits.
var upstream = []string{
	".spec.match.namespaceSelector.", ".spec.match.objectSelector.", ".spec.match.matchConditions[].", ".spec.rollout.stages[].namespaceSelector.",
	".spec.rules[].when.namespaceSelector.", ".spec.rules[].when.objectSelector.",
	".status.conditions[].",
	".apiVersion", ".kind", ".metadata",
}

// TestSchemaIsBounded checks that every field has a limit, because an unbounded field can cause an outage.
func TestSchemaIsBounded(t *testing.T) {
	for name, schema := range schemas(t) {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			seen := map[string]int{}
			bounded(t, "", schema, seen)
			if seen["array"] < 3 || seen["string"] < 5 {
				t.Errorf("only %v was looked at", seen)
			}
		})
	}
}

func bounded(t *testing.T, path string, schema props, seen map[string]int) {
	if slices.ContainsFunc(upstream, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
		return
	}
	seen[schema.Type]++
	if schema.Description == "" && path != "" && !strings.HasSuffix(path, "[]") && !strings.HasSuffix(path, "{}") {
		t.Errorf("%s has no description", path)
	}
	switch schema.Type {
	case "string":
		if schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format == "" {
			t.Errorf("%s has no maxLength and no enum", path)
		}
	case "array":
		if schema.XListType == nil {
			t.Errorf("%s has no listType", path)
		}
		if schema.MaxItems == nil {
			t.Errorf("%s has no maxItems", path)
		}
		bounded(t, path+"[]", *schema.Items.Schema, seen)
	case "object":
		for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
			bounded(t, path+"."+field, schema.Properties[field], seen)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			if schema.MaxProperties == nil {
				t.Errorf("%s has no maxProperties", path)
			}
			bounded(t, path+"{}", *schema.AdditionalProperties.Schema, seen)
		}
	case "":
		// A quantity is a string or a number, and the type's own pattern bounds it.
		if !schema.XIntOrString {
			t.Errorf("%s has no type", path)
		}
	}
}

// TestDefaultsAreTheSchemas checks that WithDefaults sets the defaults that the API server sets from the schema.
func TestDefaultsAreTheSchemas(t *testing.T) {
	schema := schemas(t)["PlacementPolicy/v1alpha1"]
	tests := map[string]string{
		"Empty":       `{"remediation": {}}`,
		"Rego":        `{"regoVersion": "v0", "remediation": {}}`,
		"Mode":        `{"mode": "DryRun", "remediation": {}}`,
		"Failure":     `{"failurePolicy": "Ignore", "remediation": {}}`,
		"Priority":    `{"priority": -3, "remediation": {}}`,
		"Remediation": `{"remediation": {"mode": "Off"}}`,
		"Clusters":    `{"clusters": {}, "remediation": {}}`,
		"OneCluster":  `{"clusters": {"onEmpty": "Clear"}, "remediation": {}}`,
		"Stages":      `{"rollout": {"stages": [{"name": "a", "percent": 10}, {"name": "b", "percent": 50, "pauseAfterFailures": 0}]}, "remediation": {}}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			var document map[string]any
			if err := json.Unmarshal([]byte(text), &document); err != nil {
				t.Fatal(err)
			}
			fill(t, document, schema.Properties["spec"])
			defaulted, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			var want, given placementv1.PlacementPolicySpec
			if err := json.Unmarshal(defaulted, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(text), &given); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, given.WithDefaults()); diff != "" {
				t.Errorf("defaults (-schema +WithDefaults):\n%s", diff)
			}
			if diff := cmp.Diff(given.WithDefaults(), given.WithDefaults().WithDefaults()); diff != "" {
				t.Errorf("defaults of defaults:\n%s", diff)
			}
		})
	}
	// A spec without remediation also gets the default, although the schema's default is inside of remediation.
	if got := (placementv1.PlacementPolicySpec{}).WithDefaults().Remediation.Mode; got != placementv1.RemediationAutomatic {
		t.Errorf("remediation.mode is %q", got)
	}
}

// fill sets defaults as the API server does: if the parent is present and the field is absent.
func fill(t *testing.T, document map[string]any, schema props) {
	t.Helper()
	for name, field := range schema.Properties {
		if _, set := document[name]; !set && field.Default != nil {
			var value any
			if err := json.Unmarshal(field.Default.Raw, &value); err != nil {
				t.Fatal(err)
			}
			document[name] = value
		}
		switch child := document[name].(type) {
		case map[string]any:
			fill(t, child, field)
		case []any:
			for _, item := range child {
				if object, ok := item.(map[string]any); ok {
					fill(t, object, *field.Items.Schema)
				}
			}
		}
	}
}

// TestEnums checks that the enums of the schema are the constants.
func TestEnums(t *testing.T) {
	policy := schemas(t)["PlacementPolicy/v1alpha1"]
	spec, rollout := policy.Properties["spec"], policy.Properties["status"].Properties["rollout"]
	remediation, clusters := spec.Properties["remediation"], spec.Properties["clusters"]
	rule := spec.Properties["rules"].Items.Schema.Properties
	requirement := rule["require"].Items.Schema.Properties
	tests := map[string]struct {
		schema props
		want   []string
	}{
		"RegoVersion":   {spec.Properties["regoVersion"], []string{string(placementv1.RegoV0), string(placementv1.RegoV1)}},
		"Mode":          {spec.Properties["mode"], []string{string(placementv1.ModeDryRun), string(placementv1.ModeEnforce), string(placementv1.ModeWarn)}},
		"FailurePolicy": {spec.Properties["failurePolicy"], []string{string(placementv1.FailurePolicyFail), string(placementv1.FailurePolicyIgnore)}},
		"Remediation": {remediation.Properties["mode"], []string{
			string(placementv1.RemediationApproved), string(placementv1.RemediationAutomatic), string(placementv1.RemediationManual), string(placementv1.RemediationNewOnly), string(placementv1.RemediationOff),
		}},
		"DeveloperChoice": {clusters.Properties["developerChoice"], []string{string(placementv1.DeveloperChoiceIgnore), string(placementv1.DeveloperChoiceNarrow), string(placementv1.DeveloperChoiceOverride)}},
		"OnEmpty":         {clusters.Properties["onEmpty"], []string{string(placementv1.OnEmptyClear), string(placementv1.OnEmptyDeny), string(placementv1.OnEmptyPolicyClusters)}},
		"Candidates":      {rule["candidates"], []string{string(placementv1.RuleCandidatesClusters), string(placementv1.RuleCandidatesNodes)}},
		"Otherwise":       {rule["otherwise"], []string{string(placementv1.RuleOtherwiseDeny), string(placementv1.RuleOtherwiseNextRule)}},
		"Weights":         {rule["weights"], []string{string(placementv1.RuleWeightsScore)}},
		"Operator": {requirement["operator"], []string{
			string(placementv1.OperatorDoesNotExist), string(placementv1.OperatorExists), string(placementv1.OperatorGt), string(placementv1.OperatorGte),
			string(placementv1.OperatorIn), string(placementv1.OperatorLeast), string(placementv1.OperatorLt), string(placementv1.OperatorLte),
			string(placementv1.OperatorMost), string(placementv1.OperatorNotIn),
		}},
		"As": {requirement["as"], []string{string(placementv1.ValueTypeNumber), string(placementv1.ValueTypeQuantity), string(placementv1.ValueTypeVersion)}},
		"Field": {requirement["field"], []string{
			string(placementv1.ClusterFieldName), string(placementv1.ClusterFieldNamespace), string(placementv1.ClusterFieldProvider), string(placementv1.ClusterFieldReady),
			string(placementv1.ClusterFieldRegion), string(placementv1.ClusterFieldSource), string(placementv1.ClusterFieldVersion), string(placementv1.ClusterFieldZone),
		}},
		"RolloutState": {rollout.Properties["state"], []string{
			string(placementv1.RolloutComplete), string(placementv1.RolloutPaused), string(placementv1.RolloutProgressing),
			string(placementv1.RolloutRolledBack), string(placementv1.RolloutSoaking), string(placementv1.RolloutWaitingForApproval),
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, value := range tc.schema.Enum {
				var s string
				if err := json.Unmarshal(value.Raw, &s); err != nil {
					t.Fatal(err)
				}
				got = append(got, s)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("enum (-want +got):\n%s", diff)
			}
		})
	}
}

// TestColumns checks that each column of kubectl get shows a field of the schema, and that -o wide shows the systems of delivery.
func TestColumns(t *testing.T) {
	filter := regexp.MustCompile(`\[\?\(@\.\w+=="\w+"\)\]`)
	columns := map[string]string{}
	for name, v := range versions(t) {
		for _, column := range v.AdditionalPrinterColumns {
			columns[name+" "+column.Name] = column.JSONPath
			at, found := *v.Schema.OpenAPIV3Schema, true
			for member := range strings.SplitSeq(strings.TrimPrefix(filter.ReplaceAllString(column.JSONPath, ".[]"), "."), ".") {
				switch member {
				case "[]":
					at = *at.Items.Schema
				case "metadata":
					at = props{Properties: map[string]props{"creationTimestamp": {}}}
				default:
					at, found = at.Properties[member]
				}
				if !found {
					t.Errorf("%s: column %s shows %s, but the schema has no %s there", name, column.Name, column.JSONPath, member)
					break
				}
			}
		}
	}
	if got := columns["PlacementPolicy/v1alpha1 Delivery"]; got != ".status.delivery.systems" {
		t.Errorf("the column Delivery shows %q", got)
	}
}
