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

package casetest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/casetest"
	"github.com/berth-dev/berth/internal/replication"
)

const policies = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}, {apiGroups: [policy.karmada.io], apiVersions: [v1alpha1], resources: [propagationpolicies]}]}
  mode: Enforce
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    scheduling.nodeSelector.zone := "a" if input.metadata.labels.region == "eu"

    errors contains "no owner" if not input.metadata.annotations.owner

    warnings contains "old" if input.metadata.annotations.owner == "old"
`

const rules = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: rules}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rules:
  - name: eu
    when: {objectSelector: {matchLabels: {region: eu}}}
    require: [{label: region, operator: In, values: [eu]}]
  - {name: others, deny: the region is missing}
`

const world = `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: fleet, labels: {region: eu}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: us-1, namespace: fleet, labels: {region: us}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: other, namespace: bank}
`

// header begins each file of cases.
const header = `apiVersion: config.berth.dev/v1alpha1
kind: PolicyTest
policies: [policies.yaml]
world: [world.yaml]
cases:
`

// run runs cases in a directory of their own, and returns the failures by case.
func run(t *testing.T, cases string, o casetest.Options) (map[string][]string, error) {
	t.Helper()
	dir := t.TempDir()
	texts := map[string]string{"policies.yaml": policies, "other.yaml": strings.ReplaceAll(policies, `"eu"`, `"us"`), "world.yaml": world, "rules.yaml": rules, "region_test.yaml": cases}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := casetest.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := casetest.Load(files[0])
	if err != nil {
		return nil, err
	}
	o.Clock, o.Inventories = clock.RealClock{}, replication.Known()
	results, err := f.Run(t.Context(), o)
	out := map[string][]string{}
	for _, r := range results {
		out[r.Case] = r.Failures
	}
	return out, err
}

const passing = header + `
- name: placed in $(region)
  matrix: {region: [eu, us]}
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: $(region)}, annotations: {owner: me}}, spec: {template: {spec: {containers: []}}}}
  expect: {matched: [region], clusters: [$(region)-1], denied: [], warnings: [], annotations: {other: null}}
- name: scheduled
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: eu}, annotations: {owner: old}}, spec: {template: {spec: {containers: []}}}}
  expect: {podSpec: {nodeSelector: {zone: a}}, warnings: [old], whyNot: {us-1: c.labels.region ==}}
- name: placement object
  exists: true
  object: {apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: web, namespace: shop, labels: {region: us}, annotations: {owner: me}}, spec: {placement: {clusterAffinity: {clusterNames: [us-1, eu-1]}}}}
  expect: {clusters: [us-1], annotations: {placement.berth.dev/clusters: null}, whyNot: {eu-1: c.labels.region ==}}
- name: denied
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: eu}}, spec: {template: {spec: {containers: []}}}}
  expect: {denied: [no owner]}
- name: not matched
  object: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
  expect: {matched: []}
- name: moves with a cluster
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: eu}, annotations: {owner: me}}, spec: {template: {spec: {containers: []}}}}
  expect: {clusters: [eu-1]}
  then:
    objects:
    - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {name: us-1, namespace: fleet, labels: {region: eu}}}
    delete:
    - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {name: eu-1, namespace: fleet}}
    expect: {clusters: [us-1]}
`

func TestPassing(t *testing.T) {
	got, err := run(t, passing, casetest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"placed in eu": nil, "placed in us": nil, "placement object": nil, "scheduled": nil, "denied": nil, "not matched": nil, "moves with a cluster": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if got, err = run(t, passing, casetest.Options{Run: regexp.MustCompile("^placed")}); err != nil || len(got) != 2 {
		t.Errorf("selected %v, error %v", got, err)
	}
}

// TestAlternatives checks that each case runs with each of the alternatives, and with no other.
func TestAlternatives(t *testing.T) {
	alternatives := strings.Replace(passing, "policies: [policies.yaml]", "alternatives: [[policies.yaml], [other.yaml]]", 1)
	coverage := casetest.NewCoverage()
	got, err := run(t, alternatives, casetest.Options{Cover: coverage})
	if err != nil {
		t.Fatal(err)
	}
	var covered []string
	policies, _ := coverage.Report()
	for _, p := range policies {
		covered = append(covered, p.Policy)
	}
	if want := []string{"region (other.yaml)", "region (policies.yaml)"}; !slices.Equal(covered, want) {
		t.Errorf("coverage of %q, want %q", covered, want)
	}
	var failed []string
	for name, failures := range got {
		if len(failures) > 0 {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	// The other policy schedules the objects of the other region, and a placement object has no pods.
	if len(got) != 14 || !slices.Equal(failed, []string{"placement object (other.yaml)", "scheduled (other.yaml)"}) {
		t.Errorf("%d cases, failed %q", len(got), failed)
	}
}

// TestFailing checks that each expectation can fail, and what is said then.
func TestFailing(t *testing.T) {
	const object = "  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: eu}, annotations: {owner: old}}, spec: {template: {spec: {containers: []}}}}\n"
	for expect, want := range map[string]string{
		"matched: []":                        "matched (-want +got):",
		"clusters: [us-1]":                   "clusters (-want +got):",
		"annotations: {owner: me}":           "annotations (-want +got):",
		"labels: {region: null}":             "labels (-want +got):",
		"podSpec: {nodeSelector: {zone: b}}": "podSpec (-want +got):",
		"denied: [not]":                      `denied: want ["not"], got []`,
		"warnings: []":                       `warnings: want [], got ["old"]`,
		"error: fails":                       `error: want "fails", got []`,
		"whyNot: {us-1: tier}":               `whyNot us-1: want "tier", got ["c.labels.region == input.metadata.labels.region"]`,
		"whyNot: {none: tier}":               `whyNot none: want "tier", got ["the cluster is none of those that policies choose among"]`,
	} {
		got, err := run(t, header+"- name: fails\n"+object+"  expect: {"+expect+"}\n", casetest.Options{})
		if err != nil || len(got["fails"]) != 1 || !strings.HasPrefix(got["fails"][0], want) {
			t.Errorf("%s: %q, error %v, want %q", expect, got["fails"], err, want)
		}
	}
}

// TestNothingTested checks that a case fails whose object no policy matches, unless it says so.
func TestNothingTested(t *testing.T) {
	const object = "  object: {apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}}\n"
	for expect, passes := range map[string]bool{"denied: []": false, "denied: [], warnings: []": false, "matched: [], denied: []": true, "denied: [], annotations: {a: null}": false, "matched: [], annotations: {a: null}": true} {
		got, err := run(t, header+"- name: a\n"+object+"  expect: {"+expect+"}\n", casetest.Options{})
		if err != nil || (len(got["a"]) == 0) != passes {
			t.Errorf("%s: %q, error %v", expect, got["a"], err)
		}
	}
}

// TestBadFiles checks that the errors say what is wrong, and in which case.
func TestBadFiles(t *testing.T) {
	for cases, want := range map[string]string{
		"kind: PolicyTest": `apiVersion is "" and kind is "PolicyTest", must be config.berth.dev/v1alpha1 and PolicyTest`,
		"apiVersion: config.berth.dev/v1alpha1\nkind: PolicyTest\n":                                                                      "policies or alternatives, and cases, are required",
		strings.Replace(header, "policies: [policies.yaml]", "alternatives: [[policies.yaml], []]", 1) + "- {name: a, object: {a: b}}\n": "alternatives[1] is empty, must name files with policies",
		strings.Replace(passing, "policies: [policies.yaml]", "alternatives: [[policies.yaml], [none.yaml]]", 1):                         "none.yaml: no such file",
		header + "- {name: a, object: {}, expected: {}}\n":                                                                               `unknown field "cases[0].expected"`,
		header + "- {name: a, object: {}, then: []}\n":                                                                                   `: cases[0].then: must be an object, is a list`,
		header + "- {object: {apiVersion: v1}}\n":                                                                                        "cases[0].name is required",
		header + "- {name: a}\n":                 `case "a": object is required`,
		header + "- {name: a, object: {a: b}}\n": `case "a": expect is required`,
		header + "- {name: a $(one), matrix: {one: [b], two: [$(z)]}, object: {a: $(one)}, expect: {denied: []}}\n": `case "a $(one)": matrix.two has no effect: nothing but the name of the case has $(two)`,
		header + "- {name: a, object: {a: b}, expect: {}}\n":                                                        `case "a": expect is required`,
		header + "- {name: a, object: {a: b}, expect: {denied: []}, then: {objects: []}}\n":                         `case "a": then.expect is required`,
		strings.Replace(passing, "policies: [policies.yaml]", "policies: [world.yaml]", 1):                          "there is no PlacementPolicy in world.yaml",
		header + "- {name: a, object: {a: b}, expect: {denied: []}}\n- {name: a, object: {a: b}}\n":                 `cases[1].name: "a" is the name of another case`,
		header + "- {name: a, object: {apiVersion: x.y/v1, kind: Z, metadata: {}}, expect: {denied: []}}":           `case "a": the kind Z of x.y/v1 is not known`,
		strings.Replace(passing, "world.yaml", "none.yaml", 1):                                                      "none.yaml: no such file",
		strings.Replace(passing, "delete:\n    - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {name: eu-1", "delete:\n    - {apiVersion: v1, kind: Node, metadata: {name: n1", 1): "there is no Node fleet/n1",
	} {
		if _, err := run(t, cases, casetest.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", cases, err, want)
		}
	}
}

func TestCoverage(t *testing.T) {
	c := casetest.NewCoverage()
	if _, err := run(t, passing, casetest.Options{Cover: c, Run: regexp.MustCompile("placed in us")}); err != nil {
		t.Fatal(err)
	}
	policies, some := c.Report()
	if len(policies) != 1 || policies[0].Policy != "region" || len(policies[0].NotCovered) == 0 || some <= 0 || some >= 100 || policies[0].Rules != 4 || policies[0].RulesCovered != 1 {
		t.Errorf("coverage %v, %v", policies, some)
	}
	if _, err := run(t, passing, casetest.Options{Cover: c}); err != nil {
		t.Fatal(err)
	}
	if policies, all := c.Report(); all != 100 || policies[0].NotCovered != nil {
		t.Errorf("coverage %v, %v", policies, all)
	}
}

// TestCoverageOfRules checks that fields of rules are named, and not lines that their author does not see.
func TestCoverageOfRules(t *testing.T) {
	const cases = `apiVersion: config.berth.dev/v1alpha1
kind: PolicyTest
policies: [rules.yaml]
world: [world.yaml]
cases:
- name: in the EU
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {region: eu}}, spec: {template: {spec: {containers: []}}}}
  expect: {clusters: [eu-1]}
`
	c := casetest.NewCoverage()
	if got, err := run(t, cases, casetest.Options{Cover: c}); err != nil || len(got["in the EU"]) > 0 {
		t.Fatalf("failures %q, error %v", got, err)
	}
	policies, _ := c.Report()
	if len(policies) != 1 {
		t.Fatalf("coverage %+v", policies)
	}
	// The policy denies the object of no case.
	if got := policies[0]; got.NotCovered != nil || got.Rules != 0 || got.Percent >= 100 || !slices.Contains(got.FieldsNotCovered, "spec.rules[1].deny") ||
		slices.Contains(got.FieldsNotCovered, "spec.rules[0].when") {
		t.Errorf("coverage %+v", got)
	}
}
