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
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// workloads is a catalog with the built-in workloads, pods, Rollouts, and ConfigMaps.
type workloads struct{ catalog }

func (*workloads) Served() *match.ServedTypes {
	var out []match.ServedType
	for group, resources := range map[string][]string{
		"": {"pods", "podtemplates", "replicationcontrollers", "configmaps"}, "apps": {"deployments", "statefulsets", "daemonsets", "replicasets"},
		"batch": {"jobs", "cronjobs"}, "argoproj.io": {"rollouts"},
	} {
		for _, resource := range resources {
			out = append(out, match.ServedType{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Namespaced: true})
		}
	}
	return match.NewServedTypes(out)
}

func TestWarnOfCopies(t *testing.T) {
	const clusters = `clusters := {"eu-1"}
`
	replicaSet := func(i, j int) string {
		return fmt.Sprintf("spec.match.resourceRules[%d].resources[%d]: a ReplicaSet of a Deployment has the clusters of that object, and is not delivered. "+
			"Remove replicasets, unless users create such objects themselves", i, j)
	}
	for name, tc := range map[string]struct {
		rego, match string
		want        []string
	}{
		"Named":     {rego: clusters, match: `{apiGroups: [apps], apiVersions: [v1], resources: [deployments, replicasets]}`, want: []string{replicaSet(0, 1)}},
		"OtherRule": {rego: clusters, match: `{apiGroups: [apps], apiVersions: [v1], resources: [replicasets]}, {apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}`, want: []string{replicaSet(0, 0)}},
		"Revisions": {rego: clusters, match: `{apiGroups: [apps], apiVersions: [v1], resources: [daemonsets, controllerrevisions]}`, want: []string{"a ControllerRevision of a DaemonSet or StatefulSet has"}},
		"Wildcard":  {rego: clusters, match: `{apiGroups: [apps], apiVersions: [v1], resources: ["*"]}`},
		"SetsAlone": {rego: clusters, match: `{apiGroups: [apps], apiVersions: [v1], resources: [replicasets]}`, want: []string{
			"spec.match.resourceRules[0].resources[0]: the policy gives clusters to each ReplicaSet by itself, and does not match deployments. " +
				"A ReplicaSet of a Deployment copies the cluster list of that object. If the policy allows none of these clusters, the ReplicaSet is denied, and the rollout stops. " +
				"Match deployments in place of replicasets",
		}},
		"OtherOwner": {rego: clusters, match: `{apiGroups: [apps], apiVersions: [v1], resources: [deployments, controllerrevisions]}`, want: []string{
			"spec.match.resourceRules[0].resources[1]: the policy gives clusters to each ControllerRevision by itself, and does not match daemonsets and statefulsets. ",
		}},
		"OtherGroup": {rego: clusters, match: `{apiGroups: [example.com], apiVersions: [v1], resources: [deployments, replicasets]}`},
		"WithoutClusters": {rego: `labels.a := "b"
`, match: `{apiGroups: [apps], apiVersions: [v1], resources: [deployments, replicasets]}`},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &workloads{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
			p := newPolicy("package p\n" + tc.rego)
			if err := yaml.UnmarshalStrict([]byte("{match: {resourceRules: ["+tc.match+"]}}"), &p.Spec); err != nil {
				t.Fatal(err)
			}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(warnings, func(w string) bool { return !strings.Contains(w, " of that object") })
			if !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Error(cmp.Diff(tc.want, []string(got)))
			}
		})
	}
}

func TestWarnOfGaps(t *testing.T) {
	const (
		nodeSelector = `scheduling.nodeSelector.disk := "ssd"
`
		clusters = `clusters := {"eu-1"}
`
		pods = `To restrict all pods, add {apiGroups: [""], apiVersions: [v1], resources: [pods]}`
		open = "spec.match.resourceRules: the policy restricts the pods of deployments.apps, and does not match pods: those that users create themselves, " +
			"and those of cronjobs.batch, daemonsets.apps, jobs.batch, replicasets.apps, replicationcontrollers, statefulsets.apps, are not restricted. " + pods
		given = "spec.match.resourceRules: the policy gives clusters to deployments.apps, and does not match cronjobs.batch, daemonsets.apps, jobs.batch, " +
			"statefulsets.apps, which get none from it. To place these, too, add {apiGroups: [apps, batch], apiVersions: [v1], resources: [cronjobs, daemonsets, jobs, statefulsets]}"
		deployments = `{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}`
		toplevel    = `{apiGroups: [apps, batch], apiVersions: [v1], resources: [deployments, statefulsets, daemonsets, jobs, cronjobs]}`
	)
	for name, tc := range map[string]struct {
		rules, rego string
		match, spec string
		declared    bool
		want        string
	}{
		"Scheduling":       {rego: nodeSelector, match: deployments, want: open},
		"Selectors":        {rego: nodeSelector, match: deployments, spec: `{match: {objectSelector: {matchLabels: {a: b}}, namespaceSelector: {matchLabels: {a: b}}, matchConditions: [{name: a, expression: "has(object.spec)"}]}}`, want: open},
		"PodsCloseAll":     {rego: nodeSelector, match: deployments + `, {apiGroups: [""], apiVersions: ["*"], resources: [pods]}`},
		"PodsAlone":        {rego: nodeSelector, match: `{apiGroups: [""], apiVersions: [v1], resources: [pods]}`},
		"Everything":       {rego: nodeSelector, match: `{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}`},
		"AllOfAGroup":      {rego: nodeSelector, match: `{apiGroups: [apps, batch], apiVersions: ["*"], resources: ["*"]}`, want: "and those of replicationcontrollers, are not restricted. " + pods},
		"PodsOfUsersAlone": {rego: nodeSelector, match: `{apiGroups: [apps, batch, ""], apiVersions: ["*"], resources: [deployments, statefulsets, daemonsets, replicasets, jobs, cronjobs, replicationcontrollers]}`, want: "those that users create themselves are not restricted. " + pods},
		"NoWorkloads":      {rego: nodeSelector, match: `{apiGroups: [""], apiVersions: [v1], resources: [podtemplates]}`},
		"Tolerations": {rego: `scheduling.tolerations := [{"operator": "Exists"}]
`, match: deployments},
		"TolerationsAndMore": {rego: `scheduling := {"tolerations": [{"operator": "Exists"}], "schedulerName": "s"}
`, match: deployments, want: open},
		"PreferredNodes":     {rules: `[{name: a, candidates: Nodes, prefer: [{label: a, operator: Exists, weight: 1}], tolerate: [{operator: Exists}], spread: {field: zone}}]`, match: deployments},
		"RequiredNodes":      {rules: `[{name: a, candidates: Nodes, require: [{label: a, operator: Exists}]}]`, match: deployments, want: open},
		"SetPriority":        {rules: `[{name: a, set: {priorityClassName: high}}]`, match: deployments, want: open},
		"DeclaredKindIsOpen": {rego: nodeSelector, match: deployments, declared: true, want: "replicationcontrollers, rollouts.argoproj.io, statefulsets.apps, are"},
		"DeclaredKindAlone":  {rego: nodeSelector, match: `{apiGroups: [argoproj.io], apiVersions: [v1], resources: [rollouts]}`, declared: true, want: "restricts the pods of rollouts.argoproj.io, and"},
		"Warn":               {rego: nodeSelector, match: deployments, spec: `{mode: Warn}`},
		"DryRun":             {rego: clusters, match: deployments, spec: `{mode: DryRun}`},
		"Clusters":           {rego: clusters, match: deployments, want: given},
		"ClustersOfRules":    {rules: `[{name: a, limit: 1}]`, match: deployments, want: given},
		"ClustersOfPredicates": {rego: `errors contains "no" if input.a
`, match: deployments, spec: `{predicates: {candidates: Clusters}}`, want: given},
		"ClustersOfAll":           {rego: clusters, match: toplevel},
		"ClustersOfDeclaredKinds": {rego: clusters, match: toplevel, declared: true, want: `add {apiGroups: [argoproj.io], apiVersions: ["*"], resources: [rollouts]}`},
		"ClustersOfPods":          {rego: clusters, match: `{apiGroups: [""], apiVersions: [v1], resources: [pods]}, {apiGroups: [apps], apiVersions: [v1], resources: [replicasets]}`},
		"Delivered":               {rego: clusters, match: deployments, spec: `{delivery: {karmada: {}}}`},
		"RestrictedAndGiven":      {rego: nodeSelector + clusters, match: deployments, want: open},
		"PodsRestrictedAndGiven":  {rego: nodeSelector + clusters, match: deployments + `, {apiGroups: [""], apiVersions: [v1], resources: [pods]}`, want: given},
		"NeitherClustersNorNodes": {rego: `labels.a := "b"
`, match: deployments},
		"OtherTypes":   {rego: clusters, match: `{apiGroups: [""], apiVersions: [v1], resources: [configmaps]}`},
		"RemoteEngine": {match: deployments, spec: `{remote: {url: "https://opa.example.com/v1/data/p", undefined: Error}}`},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &workloads{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
			if tc.declared {
				var err error
				if v.Templates, err = workload.NewTemplates(workload.Template{
					GroupResource: schema.GroupResource{Group: "argoproj.io", Resource: "rollouts"}, Kind: "Rollout", Path: []string{"spec", "template"},
				}); err != nil {
					t.Fatal(err)
				}
			}
			p := newPolicy("package p\n" + tc.rego)
			if tc.rego == "" {
				p.Spec.Rego = ""
			}
			for _, text := range []string{tc.spec, "{rules: " + tc.rules + "}", "{match: {resourceRules: [" + tc.match + "]}}"} {
				if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
					t.Fatal(err)
				}
			}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(warnings, func(w string) bool {
				return !strings.Contains(w, "does not match") || strings.Contains(w, " of that object")
			})
			switch {
			case tc.want == "" && len(got) == 0:
			case len(got) != 1 || !strings.Contains(got[0], tc.want):
				t.Error(cmp.Diff([]string{tc.want}, []string(got)))
			default:
				// The rule that the warning proposes closes the gap.
				var rule placementv1.ResourceRule
				_, text, _ := strings.Cut(got[0], ", add ")
				if err := yaml.UnmarshalStrict([]byte(text), &rule); err != nil {
					t.Fatal(err)
				}
				p.Spec.Match.ResourceRules = append(p.Spec.Match.ResourceRules, rule)
				again, err := v.ValidateCreate(t.Context(), p)
				if err != nil || slices.ContainsFunc(again, func(w string) bool { return strings.HasPrefix(got[0], w) }) {
					t.Errorf("warnings %q, error %v", again, err)
				}
			}
		})
	}
}
