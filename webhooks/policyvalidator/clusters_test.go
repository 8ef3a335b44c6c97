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
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// clusters are the existing clusters. If it is nil, they can't be read.
type clusters []map[string]any

func (c clusters) All(context.Context) ([]map[string]any, []string, error) {
	if c == nil {
		return nil, nil, errors.New("forbidden")
	}
	return c, nil, nil
}

// idleSource has no cluster, because a source of the configuration selects nothing.
type idleSource struct{}

func (idleSource) All(context.Context) ([]map[string]any, []string, error) {
	return nil, []string{"clusterSources[0] selects nothing"}, nil
}

// inventories serves all types, including those of inventories.
type inventories struct{ catalog }

func (*inventories) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	return policy.Resource{GroupVersionResource: r}, true
}

func TestWarnOfConstants(t *testing.T) {
	existing := clusters{
		{"name": "eu-1", "region": "eu", "zones": []any{"eu-1a"}, "labels": map[string]any{"example.com/tier": "Gold"}, "taints": []any{map[string]any{"key": "pci"}}, "properties": map[string]any{"storage": "ssd", "example.com/cost": "1"}},
		{"name": "eu-2", "region": "eu"},
		{"name": "us-east-1", "region": "us-east"},
	}
	many := clusters{{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}, {"name": "f"}, {"name": "g"}, {"name": "h"}, {"name": "i"}}
	const each = "clusters contains n if { some n, c in data.clusters; "
	tests := map[string]struct {
		rego   string
		exists clusters
		// want contains parts of the expected warnings, in order.
		want []string
	}{
		"Names":           {rego: `clusters := {"eu-1", "eu-2"}`},
		"NameWithout":     {rego: `clusters := {"eu1", "eu-2"} if input.metadata.labels.jurisdiction == "eu"`, want: []string{`p.rego:2:14: the policy gives objects the cluster "eu1", which no inventory has; did you mean "eu-1"?`}},
		"NameMember":      {rego: `clusters contains "eu1"`, want: []string{`did you mean "eu-1"?`}},
		"NameMisspelt":    {rego: `clusters contains "us-esat-1"`, want: []string{`did you mean "us-east-1"?`}},
		"NameFar":         {rego: `clusters contains "frankfurt"`, want: []string{`the policy gives objects the cluster "frankfurt", which no inventory has; there are "eu-1", "eu-2", "us-east-1"`}},
		"NameFarOfMany":   {rego: `clusters contains "frankfurt"`, exists: many, want: []string{`the policy gives objects the cluster "frankfurt", which no inventory has`}},
		"NameCondition":   {rego: each + `n == "europe-1" }`, want: []string{`p.rego:2:59: no cluster has the name "europe-1" now; there are "eu-1", "eu-2", "us-east-1"`}},
		"NameGiven":       {rego: `clusters := {n} if { n := input.metadata.labels.x; data.clusters[n].ready; n != "none" }`},
		"NameEmpty":       {rego: each + `n != ""; c.labels.a != "" }`},
		"LabelMisspelt":   {rego: each + `c.labels["example.com/tire"] }`, want: []string{`p.rego:2:63: no cluster has the label "example.com/tire" now; did you mean "example.com/tier"?`}},
		"LabelFar":        {rego: each + `not c.labels["example.com/drained"]; object.get(c.annotations, "a", "b") == "b" }`},
		"ConstantKey":     {rego: `clusters contains "eu-1" if data.clusters["eu1"].ready`, want: []string{`p.rego:2:43: no cluster has the name "eu1"; did you mean "eu-1"?`}},
		"ConstantKeyFar":  {rego: `clusters contains "eu-1" if data.clusters["ap-1"].ready`, want: []string{`p.rego:2:43: no cluster has the name "ap-1" now; there are "eu-1", "eu-2", "us-east-1"`}},
		"NameField":       {rego: each + `c.name == "EU-1" }`, want: []string{`no cluster has the value "EU-1" of field name; did you mean "eu-1"?`}},
		"Region":          {rego: each + `c.region == "eu" }`},
		"RegionCase":      {rego: each + `c.region == "EU" }`, want: []string{`p.rego:2:66: no cluster has the value "EU" of field region; did you mean "eu"?`}},
		"RegionSeparator": {rego: each + `c.region in {"us_east", "eu"} }`, want: []string{`did you mean "us-east"?`}},
		"OtherRegion":     {rego: each + `c.region == "us-west" }`, want: []string{`no cluster has the value "us-west" of field region now; there are "eu", "us-east"`}},
		"NoRegion":        {rego: each + `c.region == "ap" }`, want: []string{`there are "eu", "us-east"`}},
		"Label":           {rego: `clusters contains n if data.clusters[n].labels["example.com/tier"] == "gold"`, want: []string{`the value "gold" of label example.com/tier; did you mean "Gold"?`}},
		"Zones":           {rego: each + `"EU-1a" in c.zones }`, want: []string{`did you mean "eu-1a"?`}},
		"OtherField":      {rego: each + `c.provider == "EU" }`, want: []string{`no cluster has the field provider now`}},
		"Property":        {rego: each + `c.properties.storage == "ssd"; c.properties["example.com/cost"] < "2" }`},
		"PropertyNear":    {rego: each + `c.properties.storge == "ssd" }`, want: []string{`p.rego:2:67: no cluster has the property "storge"; did you mean "storage"?`}},
		"PropertyFar":     {rego: each + `not c.properties.legacy }`, want: []string{`no cluster has the property "legacy"`}},
		"PropertyCase":    {rego: each + `c.properties["example.com/Cost"] == "1" }`, want: []string{`did you mean "example.com/cost"?`}},
		"PropertyOfNone":  {rego: each + `c.properties.storage == "ssd" }`, exists: many, want: []string{`no cluster has the property "storage"`}},
		"NoClusters":      {rego: `clusters := {"eu1"}`, exists: clusters{}},
		"NoConstants":     {rego: each + `c.region == input.metadata.labels.region }`, exists: nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.exists == nil {
				tc.exists = existing
			}
			v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows(), Clusters: tc.exists}
			warnings, err := v.ValidateCreate(t.Context(), newPolicy("package p\n"+tc.rego))
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) != len(tc.want) {
				t.Fatalf("warnings %q, want %q", warnings, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(warnings[i], want) {
					t.Errorf("warning %q, want %q", warnings[i], want)
				}
			}
		})
	}
}

func TestWarnOfConstantsInRules(t *testing.T) {
	existing := clusters{
		{
			"name": "eu-1", "region": "eu", "zones": []any{"eu-1a"}, "labels": map[string]any{"example.com/tier": "Gold", "pci": "true", "k8s": "1.9", "env": "prod"},
			"annotations": map[string]any{"rack": "A"}, "properties": map[string]any{"storage": "ssd"}, "allocatable": map[string]any{"memory": "64Gi"},
		},
		{"name": "eu-2", "region": "eu", "labels": map[string]any{"pci": "false", "k8s": "1.31.2", "env": "Prod"}},
	}
	for name, tc := range map[string]struct {
		rule string
		want []string
	}{
		"NothingUnknown": {rule: `require: [{field: region, operator: In, values: [eu]}, {label: example.com/tier, operator: In, values: [Gold]}, {property: storage, operator: Exists}, {field: ready, operator: In, values: ["true"]}]`},
		"Name":           {rule: `require: [{field: name, operator: In, values: [eu-2, EU-1]}]`, want: []string{`spec.rules[0].require[0].values[1]: no cluster has the name "EU-1"; did you mean "eu-1"?`}},
		"OtherName":      {rule: `require: [{field: name, operator: In, values: [ap-1]}]`, want: []string{`spec.rules[0].require[0]: no cluster has the name "ap-1" now, so that no cluster is eligible; there are "eu-1", "eu-2"`}},
		"OneOfTwo":       {rule: `require: [{field: name, operator: In, values: [eu-1, eu-22]}]`, want: []string{`spec.rules[0].require[0]: no cluster has the name "eu-22" now; there are "eu-1", "eu-2"`}},
		"OtherCase":      {rule: `require: [{label: env, operator: In, values: [prod]}]`, want: []string{`spec.rules[0].require[0].values[0]: cluster eu-2 has the value "Prod" of label env, which is not "prod": In and NotIn tell upper case from lower case. Correct one of them, or list both`}},
		"BothCases":      {rule: `require: [{label: env, operator: NotIn, values: [prod, Prod]}]`, want: []string{`spec.rules[0].require[0]: no cluster meets this now, so that no cluster is eligible; clusters have the values "Prod", "prod" of label env`}},
		"ExcludedValue":  {rule: `require: [{label: example.com/tier, operator: NotIn, values: [silver]}]`, want: []string{`spec.rules[0].require[0]: no cluster has the value "silver" of label example.com/tier now, so that this excludes no cluster; there are "Gold"`}},
		"ExcludedField":  {rule: `require: [{field: provider, operator: NotIn, values: [aws]}]`, want: []string{`spec.rules[0].require[0]: no cluster has the field provider now, so that this excludes no cluster`}},
		"PreferredValue": {rule: `prefer: [{field: region, operator: In, values: [asia], weight: 1}], limit: 1`, want: []string{`spec.rules[0].prefer[0]: no cluster has the value "asia" of field region now, so that this makes no cluster better than others; there are "eu"`}},
		"AnnotationKey":  {rule: `require: [{annotation: example.com/tier, operator: NotIn, values: [Gold]}]`, want: []string{`spec.rules[0].require[0].annotation: no cluster has the annotation "example.com/tier"; did you mean label: example.com/tier?`}},
		"Numbers":        {rule: `require: [{label: k8s, operator: Gte, values: ["1.9"]}]`, want: []string{`spec.rules[0].require[0]: label k8s of cluster eu-2 is not a number: "1.31.2" never meets this. Set as: Version`}},
		"Booleans":       {rule: `require: [{label: pci, operator: Gte, values: ["1"]}]`, want: []string{`spec.rules[0].require[0]: label pci of cluster eu-1, and of 1 more, is not a number: "true" never meets this. Compare with In; there are "false", "true"`}},
		"ExistsFalse":    {rule: `require: [{label: pci, operator: Exists}]`, want: []string{`spec.rules[0].require[0]: label pci has the values "false" and "true", and both meet Exists; did you mean operator: In, values: ["true"]?`}},
		"Bytes":          {rule: `require: [{allocatable: memory, operator: Gte, values: ["64"]}]`, want: []string{`spec.rules[0].require[0].values[0]: 64 is 64 bytes, less than any cluster has: write a unit, as in 64Gi`}},
		"Free":           {rule: `require: [{free: memory, operator: Gte, values: ["64Gi"]}]`, want: []string{`spec.rules[0].require[0]: no cluster has the free memory now, so that no cluster is eligible`}},
		"SpreadField":    {rule: `spread: {field: provider, maxDomains: 1}`, want: []string{`spec.rules[0].spread: no cluster has the field provider now, so that no cluster is eligible`}},
		"Excluded":       {rule: `require: [{field: region, operator: NotIn, values: [EU]}]`, want: []string{`spec.rules[0].require[0].values[0]: no cluster has the value "EU" of field region; did you mean "eu"?`}},
		"Zone":           {rule: `require: [{field: zone, operator: In, values: [EU-1a]}]`, want: []string{`spec.rules[0].require[0].values[0]: no cluster has the value "EU-1a" of field zone; did you mean "eu-1a"?`}},
		"LabelValue":     {rule: `prefer: [{label: example.com/tier, operator: In, values: [gold], weight: 1}], limit: 1`, want: []string{`spec.rules[0].prefer[0].values[0]: no cluster has the value "gold" of label example.com/tier; did you mean "Gold"?`}},
		"Annotation":     {rule: `require: [{annotation: rack, operator: In, values: [a]}]`, want: []string{`spec.rules[0].require[0].values[0]: no cluster has the value "a" of annotation rack; did you mean "A"?`}},
		"Label":          {rule: `require: [{label: example.com/Tier, operator: Exists}]`, want: []string{`spec.rules[0].require[0].label: no cluster has the label "example.com/Tier"; did you mean "example.com/tier"?`}},
		"LabelMisspelt":  {rule: `require: [{label: example.com/tiers, operator: NotIn, values: [gold]}]`, want: []string{`spec.rules[0].require[0].label: no cluster has the label "example.com/tiers"; did you mean "example.com/tier"?`}},
		"LabelForField":  {rule: `require: [{label: region, operator: In, values: [eu]}]`, want: []string{`spec.rules[0].require[0].label: no cluster has the label "region"; did you mean field: region?`}},
		"LabelPrefix":    {rule: `require: [{label: tiers, operator: NotIn, values: [gold]}]`, want: []string{`spec.rules[0].require[0].label: no cluster has the label "tiers", so that this excludes no cluster`}},
		"LabelPreferred": {rule: `prefer: [{label: shelf, operator: Exists, weight: 1}], limit: 1`, want: []string{`spec.rules[0].prefer[0].label: no cluster has the label "shelf", so that this makes no cluster better than others`}},
		"LabelRequired":  {rule: `require: [{label: shelf, operator: Exists}]`, want: []string{`spec.rules[0].require[0].label: no cluster has the label "shelf" now, so that no cluster is eligible`}},
		"LabelForNote":   {rule: `require: [{label: rack, operator: Exists}]`, want: []string{`spec.rules[0].require[0].label: no cluster has the label "rack"; did you mean annotation: rack?`}},
		"OtherLabel":     {rule: `require: [{label: example.com/team, operator: DoesNotExist}]`},
		"Property":       {rule: `require: [{property: storge, operator: In, values: [ssd]}]`, want: []string{`spec.rules[0].require[0].property: no cluster has the property "storge"; did you mean "storage"?`}},
		"PropertyFar":    {rule: `spread: {property: legacy, minDomains: 1}`, want: []string{`spec.rules[0].spread.property: no cluster has the property "legacy"`}},
		"Nodes":          {rule: `candidates: Nodes, require: [{label: example.com/Tier, operator: In, values: [gold]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy("")
			if err := yaml.UnmarshalStrict([]byte("[{name: a, "+tc.rule+"}]"), &p.Spec.Rules); err != nil {
				t.Fatal(err)
			}
			v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows(), Clusters: existing}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// scores are the existing scores of clusters. If it is nil, they can't be read.
type scores map[string]map[string]any

func (s scores) All(context.Context) (map[string]map[string]any, error) {
	if s == nil {
		return nil, errors.New("forbidden")
	}
	return s, nil
}

func TestWarnOfScores(t *testing.T) {
	one, many := scores{"eu-1": {"usage/cpuAvailable": int64(20)}, "eu-2": {"cost/perHour": int64(3)}}, scores{"eu-1": {}}
	for i := range 10 {
		many["eu-1"][fmt.Sprintf("usage/cpu%c", 'A'+i)] = int64(i)
	}
	for name, tc := range map[string]struct {
		rule   string
		scores findings.Scores
		want   []string
	}{
		"Known":     {`require: [{score: cost/perHour, operator: Lt, values: ["2"]}, {score: cost/perHour, operator: NotIn, values: ["7"]}]`, one, nil},
		"Required":  {`require: [{score: usage/cpu, operator: Gt, values: ["0"]}]`, one, []string{`spec.rules[0].require[0].score: no cluster has the score "usage/cpu" now, so that no cluster is eligible; there are "cost/perHour", "usage/cpuAvailable"`}},
		"Preferred": {`prefer: [{score: usage/cpu, operator: Most, weight: 10}], minGain: 2, limit: 1`, one, []string{`spec.rules[0].prefer[0].score: no cluster has the score "usage/cpu" now, so that this makes no cluster better than others; there are "cost/perHour", "usage/cpuAvailable"`}},
		"Absent":    {`require: [{score: usage/cpu, operator: DoesNotExist}]`, one, []string{`spec.rules[0].require[0].score: no cluster has the score "usage/cpu" now; there are "cost/perHour", "usage/cpuAvailable"`}},
		"Many":      {`require: [{score: usage/cpua, operator: Exists}]`, many, []string{`spec.rules[0].require[0].score: no cluster has the score "usage/cpua" now, so that no cluster is eligible; did you mean "usage/cpuA"?`}},
		"None":      {`require: [{score: usage/cpu, operator: Exists}]`, scores{}, []string{`spec.rules[0].require[0].score: no cluster has the score "usage/cpu" now, so that no cluster is eligible; no AddOnPlacementScore in the namespaces of the clusters has a valid score`}},
		"Volatile":  {`prefer: [{score: cost/perHour, operator: Least, weight: 10}], limit: 1`, one, []string{`spec.rules[0].prefer[0]: scores change with each report, so that the placement of an existing object changes whenever another cluster is a little better. Set minGain, such as a fifth of the weight, or remediation.mode: NewOnly; a rule with weights needs the latter`}},
		"Unknown":   {`require: [{score: usage/cpu, operator: Exists}]`, scores(nil), []string{`cannot check that the scores that the policy names exist: forbidden`}},
		"NotRead":   {`require: [{score: usage/cpu, operator: Exists}]`, nil, nil},
		"NotNamed":  {`require: [{field: name, operator: Exists}]`, scores(nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy("")
			if err := yaml.UnmarshalStrict([]byte("[{name: a, "+tc.rule+"}]"), &p.Spec.Rules); err != nil {
				t.Fatal(err)
			}
			v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows(), Clusters: clusters{{"name": "eu-1"}, {"name": "eu-2"}}, Scores: tc.scores}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// nodes are the existing nodes, and classes the priority classes.
type (
	nodes   []map[string]any
	classes []string
)

func (n nodes) All(context.Context) ([]map[string]any, error) { return n, nil }

func (c classes) Names(context.Context) ([]string, error) { return c, nil }

// TestWarnOfScheduling checks that what a policy sets of pods, and what its rules compare of nodes, is compared with nodes and priority
// classes.
func TestWarnOfScheduling(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"Known": {spec: `{rules: [{name: a, set: {nodeSelector: {disk: ssd}, priorityClassName: gold}}]}`},
		"Rules": {spec: `{rules: [{name: a, set: {nodeSelector: {dsik: ssd, disk: sdd}, priorityClassName: golden}}]}`, want: []string{
			`spec.rules[0].set.nodeSelector[disk]: no node has the value "sdd" of label disk now, so that the pods stay pending; there are "ssd"`,
			`spec.rules[0].set.nodeSelector[dsik]: no node has the label "dsik"; did you mean "disk"?`,
			`spec.rules[0].set.priorityClassName: no PriorityClass has the name "golden" now, so that no pod of an object that the rule decides can be created; there are "gold"`,
		}},
		"RequiredOfNodes": {spec: `{rules: [{name: a, candidates: Nodes, require: [{label: disk, operator: In, values: [sdd]}]}]}`, want: []string{
			`spec.rules[0].require[0]: no node has the value "sdd" of label disk now, so that the pods stay pending; there are "ssd"`,
		}},
		"Rego": {spec: `{rego: "package p\n\nscheduling.nodeSelector.disk := \"sdd\"\n\nscheduling.priorityClassName := \"golden\""}`, want: []string{
			`p.rego:3:33: no node has the value "sdd" of label disk now, so that the pods stay pending; there are "ssd"`,
			`p.rego:5:33: no PriorityClass has the name "golden" now, so that no pod of an object that gets this class can be created; there are "gold"`,
		}},
		"RegoOfTheObject": {spec: `{rego: "package p\n\nscheduling.nodeSelector.disk := input.metadata.labels.disk"}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy("")
			if err := yaml.Unmarshal([]byte(tc.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			v := &policyvalidator.Validator{
				Catalog: &inventories{}, Checker: allows(), PriorityClasses: classes{"gold"}, Nodes: nodes{{"name": "n1", "labels": map[string]any{"disk": "ssd"}}},
			}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestNoticeOfClustersThatAreNotReady checks what is said at apply while a cluster is not ready, and that strict does not refuse it.
func TestNoticeOfClustersThatAreNotReady(t *testing.T) {
	const rules = `rules: [{name: a, require: [{field: region, operator: In, values: [eu]}]}]`
	existing := clusters{
		{"name": "eu-2", "region": "eu", "taints": []any{map[string]any{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}}},
		{"name": "eu-1", "region": "eu", "taints": []any{map[string]any{"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect"}}},
		{"name": "eu-3", "region": "eu", "taints": []any{map[string]any{"key": "cluster.karmada.io/not-ready", "effect": "NoExecute"}, map[string]any{"key": "drain", "effect": "NoSchedule"}}},
	}
	for name, tc := range map[string]struct {
		spec   string
		exists clusters
		want   []string
	}{
		"Marked": {spec: rules, exists: existing, want: []string{"existing objects stay in clusters that their fleet manager marks as not ready, now eu-1, eu-2, and new ones are not placed there, " +
			"unless a rule requires field ready or tolerates the taint. To move existing ones after a time, set spec.clusters.leaveUnreadyAfter, such as 10m"}},
		"Limited":   {spec: rules + "\nclusters: {leaveUnreadyAfter: 10m}", exists: existing},
		"NotMarked": {spec: rules, exists: existing[2:]},
		"Rego": {spec: `rego: |
  package p

  clusters := {"eu-1"}`, exists: existing},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy("")
			p.Spec.Strict = true
			if err := yaml.Unmarshal([]byte(tc.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows(), Clusters: tc.exists}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestWarnOfIdleSources checks that a policy that reads clusters is warned of, and not refused, while a source of the manager's
// configuration selects nothing.
func TestWarnOfIdleSources(t *testing.T) {
	for rego, want := range map[string]string{
		"clusters contains n if some n, _ in data.clusters":                       "clusterSources[0] selects nothing, so that the policy gets no cluster from there",
		`clusters contains n if { some n, c in data.clusters; c.region == "eu" }`: "clusterSources[0] selects nothing, so that the policy gets no cluster from there",
		`labels := {"a": "b"}`: "",
	} {
		v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows(), Clusters: idleSource{}}
		p := newPolicy("package p\n" + rego)
		p.Spec.Strict = true
		warnings, err := v.ValidateCreate(t.Context(), p)
		if joined := strings.Join(warnings, "\n"); err != nil || !strings.Contains(joined, want) || (joined == "") != (want == "") {
			t.Errorf("%s: warnings %q, %v, want %q", rego, warnings, err, want)
		}
	}
}

// TestWarnOfUnmatchedRules checks the warnings about rules that apply to nothing that the policy matches.
func TestWarnOfUnmatchedRules(t *testing.T) {
	const change = ": rule a applies to no object that the policy matches. Change one of them"
	for name, tc := range map[string]struct {
		match, when string
		// text is what the rule has beside a limit.
		text string
		want []string
	}{
		"OtherValue": {`objectSelector: {matchLabels: {tier: gold}}`, `objectSelector: {matchLabels: {tier: silver}}`, "",
			[]string{"spec.rules[0].when.objectSelector.matchLabels[tier]: contradicts spec.match.objectSelector.matchLabels[tier]" + change}},
		"OtherNamespace": {`namespaceSelector: {matchExpressions: [{key: env, operator: In, values: [prod]}]}`, `namespaceSelector: {matchLabels: {env: dev}}`, "",
			[]string{"spec.rules[0].when.namespaceSelector.matchLabels[env]: contradicts spec.match.namespaceSelector.matchExpressions[0]" + change}},
		"SameValue":  {`objectSelector: {matchLabels: {tier: gold}}`, `objectSelector: {matchLabels: {tier: gold}}`, "", nil},
		"Narrower":   {`objectSelector: {matchExpressions: [{key: tier, operator: Exists}]}`, `objectSelector: {matchLabels: {tier: gold}}`, "", nil},
		"OtherLabel": {`objectSelector: {matchLabels: {tier: gold}}`, `objectSelector: {matchLabels: {team: web}}`, "", nil},
		"OfObject":   {`objectSelector: {matchLabels: {env: prod}}`, `namespaceSelector: {matchLabels: {env: dev}}`, "", nil},
		// The policy also matches an update that removes or changes the label.
		"DeniedRemoval": {`objectSelector: {matchLabels: {tier: gold}}`, `objectSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}`, "deny: Keep the label", nil},
		"WarnedChange":  {`objectSelector: {matchLabels: {tier: gold}}`, `objectSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}`, "warn: The policy ends", nil},
		"DeniedNamespace": {`namespaceSelector: {matchLabels: {env: prod}}`, `namespaceSelector: {matchLabels: {env: dev}}`, "deny: no",
			[]string{"spec.rules[0].when.namespaceSelector.matchLabels[env]: contradicts spec.match.namespaceSelector.matchLabels[env]" + change}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy("")
			if err := yaml.Unmarshal([]byte("{"+tc.match+"}"), &p.Spec.Match); err != nil {
				t.Fatal(err)
			}
			effect := tc.text
			if !strings.HasPrefix(effect, "deny") {
				effect = "limit: 1, " + effect
			}
			if err := yaml.UnmarshalStrict([]byte("[{name: a, when: {"+tc.when+"}, "+effect+"}]"), &p.Spec.Rules); err != nil {
				t.Fatal(err)
			}
			v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows()}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestUnreadableInventories checks that inventories are read only for constants, and that a policy is accepted if they
// can't be read.
func TestUnreadableInventories(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows(), Clusters: clusters(nil)}
	for rego, want := range map[string]string{
		`clusters := {"eu-1"}`:                     "cannot check that the clusters that the policy names exist: forbidden",
		`clusters := {input.metadata.labels.site}`: "",
		`clusters contains n if data.clusters[n].properties.storage == input.metadata.labels.storage`: "cannot check that the properties of clusters that the policy names exist: forbidden",
	} {
		warnings, err := v.ValidateCreate(t.Context(), newPolicy("package p\n"+rego))
		if joined := strings.Join(warnings, "\n"); err != nil || !strings.Contains(joined, want) || (joined == "") != (want == "") {
			t.Errorf("%s: warnings %q, %v, want %q", rego, warnings, err, want)
		}
	}
}
