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

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/whatif"
)

// files are the files that the tests of commands read.
var files = map[string]string{
	"policy.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region, generation: 2}
spec:
  match: {resourceRules: [{apiGroups: [apps, batch], apiVersions: [v1], resources: [deployments, statefulsets, daemonsets, jobs, cronjobs]}]}
  mode: Enforce
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    errors contains "no owner" if not input.metadata.annotations.owner
`,
	"wrong.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: wrong}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployment]}]}
  rego: "package wrong\n\ncluster := {\"a\"}\n"
`,
	"fields.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: fields}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: large, when: {expression: "has(object.spec.replica) && object.spec.replica > 3"}, deny: at most 3}]
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: request}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |
    package p
    errors contains "no" if input.request.object.metadata.labels.tier == "gold"
`,
	"smaller.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: compute, namespace: shop}
spec: {hard: {pods: "60"}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: compute, namespace: shpo}
spec: {hard: {pods: "60"}}
`,
	"usage.yaml": `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: compute, namespace: shop}
spec: {hard: {pods: "100"}}
status: {used: {pods: "84"}}
`,
	"typed.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: typed}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: two, limit: two}]
`,
	"pair.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: all-eu}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: eu, require: [{label: region, operator: In, values: [eu]}], set: {labels: {tier: gold}}}]
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: all-us}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: us, require: [{label: region, operator: In, values: [us]}], set: {labels: {tier: silver}}}]
`,
	"names.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: "Bad_Name!"}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: x, set: {labels: {a: b}}}]
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: "../../x", namespace: Shop}
spec: {hard: {pods: 2}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: twice}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: x, set: {labels: {a: b}}}]
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: twice}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: x, set: {labels: {a: c}}}]
`,
	"namespaced.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: in-shop}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}
  rules: [{name: x, set: {labels: {a: b}}}]
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: in-none}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shpo}}
  rules: [{name: x, set: {labels: {a: b}}}]
`,
	"unused.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: unused}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package unused\n\nhelper(x) := x + 1\n\ntest_labels if labels\n\nused := \"b\"\n\nlabels.a := used\n"
`,
	"broken.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package region\n\nlabels.a := b\n"
`,
	"quotas.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: gpus, namespace: shop}
spec: {hard: {nvidia.com/gpu: 4}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ClusterScopedQuota
metadata: {name: all}
spec: {hard: {pods: 2}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: LimitedResource
metadata: {name: pods, namespace: shop}
spec: {resource: Pod, matchContains: [pods]}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: wrong}
spec: {hard: {gpus: 4}, moed: Enforce}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuotas
metadata: {name: gpus}
`,
	"tried.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: q, namespace: shop}
spec:
  mode: Warn
  hard: {count/pods: 1, fast.storageclass.storage.k8s.io/requests.storage: 100Gi, gpus.deviceclass.resource.k8s.io/devices: 4, requests.example.com/gpu: 2}
`,
	"compute.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: q, namespace: shop}
spec: {hard: {limits.cpu: 4, services: 9}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: classless, namespace: shop}
spec: {hard: {pods: 4}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}}
`,
	"running.yaml": `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: web, image: web}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: services, namespace: shop}
spec: {hard: {services: 4}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
globalDefault: true
`,
	"limited.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: LimitedResource
metadata: {name: pods}
spec: {resource: pods, matchContains: [count/pods]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", nvidia.com/gpu: "8"}}
`,
	"clusters.yaml": `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: fleet, labels: {region: eu}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: us-1, namespace: fleet, labels: {region: us}}
`,
	"rules.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: eu}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: eu
    require: [{label: region, operator: In, values: [eu]}]
    prefer: [{label: tier, operator: Exists, weight: 1}]
`,
	"wrong-rules.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: wrong-rules}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: eu
    require: [{label: memory, operator: Gt, values: [4Gi]}, {label: version, operator: Gt, values: [v1.30]}]
  - name: us
    set: {labels: {a: "{nmae}"}}
`,
	"wrong-schema.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: wrong-schema}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: eu
    requires: []
    require: [{label: region, operator: Equals, values: [eu]}, {label: cpus, operator: Gt}]
`,
	"unchecked.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: unchecked}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules: [{name: eu, require: [{label: cpus, operator: Gt}]}]
`,
	"neither.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: neither}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  predicates: {candidates: Clusters, names: [TaintToleration]}
`,
	"web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {region: eu}, annotations: {owner: me}}
`,
	"own.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: own, namespace: shop, annotations: {placement.berth.dev/clusters: '["no-such"]'}}
`,
	"delivering.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  delivery: {karmada: {}, placementDecision: {}}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    errors contains "no owner" if not input.metadata.annotations.owner
`,
	"labels.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: labels}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  delivery: {karmada: {}}
  rego: "package labels\n\nlabels.a := \"b\"\n"
`,
	"fleet.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: none}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  clusters: {onEmpty: Clear}
  delivery: {kubeFleet: {}}
  rego: "package none\n\nclusters := set()\n"
`,
	"labeled.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: labels}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package labels\n\nlabels.tier := \"gold\"\n\nclusters := {\"eu-1\"}\n"
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: gold}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    objectSelector: {matchLabels: {tier: gold}}
  delivery: {kubeFleet: {}}
  rego: "package gold\n\nannotations.gold := \"true\"\n"
`,
	"train.yaml": `apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: train, namespace: shop}
`,
	"training.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: training}
spec:
  match: {resourceRules: [{apiGroups: [kueue.x-k8s.io], apiVersions: [v1beta2], resources: [workloads]}]}
  rego: "package training\n\nclusters contains sprintf(\"c-%02d\", [i]) if some i in numbers.range(1, 21)\n"
`,
	"roles.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: roles}
spec:
  match: {resourceRules: [{apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], resources: [clusterroles]}]}
  delivery: {placementDecision: {}}
  rego: "package roles\n\nclusters := {\"eu-1\"}\n"
`,
	"role.yaml": `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wide}
`,
	"nobody.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: nobody, namespace: shop, labels: {region: eu}}
`,
	"approved.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: asking}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  delivery: {karmada: {}}
  remediation: {mode: Approved}
  rego: "package asking\n\nclusters := {\"eu-1\"}\n"
`,
	"approved-later.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: asking}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  delivery: {karmada: {}}
  remediation: {mode: Approved}
  rego: "package asking\n\nclusters := {\"us-1\"}\n"
`,
	"moving.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: moving}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package moving\n\nclusters := {\"eu-1\"}\n"
status:
  plan: {digest: 0123456789abcdef0123456789abcdef, state: InProgress, moves: 3, done: 2}
  moving: [{object: deployments.apps shop/web, since: "2026-01-01T12:00:00Z", deadline: "2026-01-01T12:10:00Z"}]
  failures: {objects: 1, sample: [{object: deployments.apps shop/nobody, reason: PatchRefused, message: "denied\n::error::forged"}]}
`,
	"region_test.yaml": `apiVersion: config.berth.dev/v1alpha1
kind: PolicyTest
policies: [policy.yaml]
world: [clusters.yaml]
cases:
- name: placed
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {region: eu}, annotations: {owner: me}}}
  expect: {clusters: [eu-1]}
- name: denied
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {region: eu}}}
  expect: {denied: [nobody]}
`,
}

// command runs the plugin in a directory with the files.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Chdir(dir)
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := newCommand(streams)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

const from = "--from=policy.yaml,clusters.yaml,web.yaml"

func TestExplain(t *testing.T) {
	stdout, _, err := command(t, "explain", "deploy/web", "-n", "shop", from)
	if err != nil {
		t.Fatal(err)
	}
	want := `Deployment shop/web

Policy region (generation 2, priority 0, Enforce)
  reads clusterprofiles.multicluster.x-k8s.io (2 objects)
  allows the clusters: eu-1

Values
  annotation placement.berth.dev/clusters: ["eu-1"]
    decided by region; requested: (none); current: (none)

Clusters: 1 of 2 chosen
  eu-1 is chosen
  us-1
    region.rego:5 (rule clusters) fails:
      c.labels.region == input.metadata.labels.region
        c.labels.region is "us"
        input.metadata.labels.region is "eu"
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if stdout, _, err = command(t, "explain", "-f", "web.yaml", from, "-o", "yaml", "--why-not", "us-1"); err != nil || !strings.Contains(stdout, "line: 5") {
		t.Errorf("output %s, error %v", stdout, err)
	}
}

// TestExplainMove checks what the command prints of clusters to which an object comes, which it leaves, and which it keeps, and of an
// object that policies deny.
func TestExplainMove(t *testing.T) {
	reason := explain.Reason{
		Policy: "pci", Field: "spec.rules[0].require[0]", Expression: "number(cluster.labels.pci) >= 3", Values: []explain.Value{{Reference: "number(cluster.labels.pci)", Value: 1}},
		Demanded: &explain.Demanded{Source: "metadata.labels[pci]", Value: "3"},
	}
	byDefault := reason
	byDefault.Demanded = &explain.Demanded{Source: "metadata.labels[pci]", Value: "3", Default: true}
	const waits = "it waits for an approval"
	requested := new(`["moon"]`)
	for want, e := range map[string]explain.Explanation{
		`Deployment shop/web
No policy matches the object.

Clusters: 2 of 4 chosen
  arriving is chosen
    the object is not in it yet: it waits for an approval
  kept is chosen
  leaving
    the object stays in it for now: it waits for an approval
    pci: spec.rules[0].require[0] fails:
      number(cluster.labels.pci) >= 3
        number(cluster.labels.pci) is 1
        metadata.labels[pci] of the object is "3"
  left
    the object is in it now, and has to leave it
    pci: spec.rules[0].require[0] fails:
      number(cluster.labels.pci) >= 3
        number(cluster.labels.pci) is 1
        metadata.labels[pci] of the object is missing, so that the default "3" counts
`: {Exists: true, Clusters: &explain.Candidates{Total: 4, Chosen: 2, Listed: []explain.Candidate{
			{Name: "arriving", Chosen: true, Waits: waits}, {Name: "kept", Chosen: true, Current: true},
			{Name: "leaving", Current: true, Waits: waits, Reasons: []explain.Reason{reason}}, {Name: "left", Current: true, Reasons: []explain.Reason{byDefault}},
		}}},
		`Deployment shop/web
No policy matches the object.

Clusters: 0 of 1 chosen
  home
    the object is in it now, and stays in it while policies deny the object
`: {Exists: true, Denied: true, Clusters: &explain.Candidates{Total: 1, Listed: []explain.Candidate{{Name: "home", Current: true}}}},
		`Deployment shop/web
The namespace shop does not exist, so that the API server refuses the object.
No policy matches the object.

Values
  annotation a/b: (none)
    requested: ["moon"]; policies deny the object, so that it gets no value
`: {NoNamespace: true, Denied: true, Keys: []explain.Key{{Field: "annotations", Key: "a/b", Requested: requested, Current: requested}}},
	} {
		e.Object = explain.ObjectReference{Kind: "Deployment", Namespace: "shop", Name: "web"}
		var out strings.Builder
		p := newPrinter(&out)
		if printExplanation(p, &e); p.err != nil {
			t.Fatal(p.err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
	}
}

// TestNotPlanned checks what plan says of one object that it does not have, and of a policy that can't decide objects.
func TestNotPlanned(t *testing.T) {
	stdout, _, err := command(t, "plan", "region", "--from=policy.yaml,clusters.yaml,nobody.yaml")
	if err != nil || !strings.Contains(stdout, "\n1 object is not in the plan: the policy denies it\n") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	stdout, _, err = command(t, "plan", "region", "--from=broken.yaml,clusters.yaml,web.yaml")
	if err != nil || !strings.Contains(stdout, "\nSo this command can't tell which objects have to be patched for PlacementPolicy region.") {
		t.Errorf("output %s, error %v", stdout, err)
	}
}

// TestWhatifExitCodes checks what the exit code says of the changes.
func TestWhatifExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want error
		text string
	}{
		"nothing changes":           {[]string{"--set", "clusterprofiles/fleet/us-1:metadata.labels.other=x"}, nil, "1 object unchanged"},
		"something moves":           {[]string{"--set", "clusterprofiles/fleet/us-1:metadata.labels.region=eu"}, exitChanges, `["eu-1"] -> ["eu-1","us-1"] (region)`},
		"as much as is allowed":     {[]string{"--set", "clusterprofiles/fleet/us-1:metadata.labels.region=eu", "--max-moves=1"}, nil, "Moved: 1 object"},
		"more than is allowed":      {[]string{"--set", "clusterprofiles/fleet/us-1:metadata.labels.region=eu", "--max-moves=0"}, exitDenials, "Moved: 1 object"},
		"something is denied":       {[]string{"--delete", "clusterprofiles/fleet/eu-1"}, exitDenials, "no cluster is left"},
		"without the namespace":     {[]string{"--delete", "clusterprofiles/eu-1"}, exitDenials, "no cluster is left"},
		"a policy is deleted":       {[]string{"--delete", "policy/region"}, exitChanges, `["eu-1"] -> (none) (region)`},
		"a policy is not enforced":  {[]string{"--set", "policy/region:spec.mode=DryRun"}, exitChanges, `["eu-1"] -> (none) (region)`},
		"a policy does not compile": {[]string{"-f", "broken.yaml"}, exitDenials, "PlacementPolicy region: error: the policy does not compile"},
		"a field is removed":        {[]string{"--set", "deployments/shop/web:metadata.annotations.owner"}, exitDenials, "region: no owner"},
		"names with dots in \"":     {[]string{"--set", `deployments/shop/web:metadata.annotations["a.b/c"]=d`}, nil, "1 object unchanged"},
		"names with dots":           {[]string{"--set", "deployments/shop/web:metadata.annotations['a.b/c']=d"}, nil, "1 object unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := command(t, append([]string{"whatif", from}, test.args...)...)
			if !errors.Is(err, test.want) || !strings.Contains(stdout, test.text) {
				t.Errorf("error %v, want %v; output %s", err, test.want, stdout)
			}
		})
	}
}

// TestWhatifOfWaitingObjects checks what whatif prints of objects that wait already.
func TestWhatifOfWaitingObjects(t *testing.T) {
	clusters := func(from, to string) whatif.Value {
		return whatif.Value{Field: "annotations", Key: "a/clusters", From: &from, To: &to, Policy: "pci", Pending: true, Waits: "for an approval"}
	}
	instead := func(v whatif.Value, to, waits string) whatif.Value {
		v.Planned = &whatif.Planned{To: &to, Pending: true, Waits: waits}
		return v
	}
	atOnce := instead(clusters("x", "y"), "y", "for an approval")
	atOnce.Pending, atOnce.Waits = false, ""
	held := clusters("x", "y")
	held.Waits = ""
	freed := instead(held, "y", "")
	freed.Pending = false
	one := func(name string, transition whatif.Transition, values ...whatif.Value) whatif.Object {
		return whatif.Object{Resource: "deployments.apps", Namespace: "shop", Name: name, Transition: transition, Values: values}
	}
	kept := one("kept", whatif.Kept)
	kept.Dropped = []whatif.Value{clusters("x", "y")}
	var out strings.Builder
	p := newPrinter(&out)
	printReport(p, &whatif.Report{
		Objects: []whatif.Object{
			one("now", whatif.Moved, atOnce), one("freed", whatif.Moved, freed),
			one("new", whatif.Pending, clusters("x", "y")), one("held", whatif.Pending, held),
			one("elsewhere", whatif.Replanned, instead(clusters("x", "y"), "z", "for an approval")),
			one("longer", whatif.Replanned, instead(clusters("x", "y"), "y", "for a window")),
			one("both", whatif.Replanned, instead(clusters("x", "y"), "z", "for a window")), kept,
		},
		Totals:     map[whatif.Transition]int{whatif.Moved: 2, whatif.Pending: 2, whatif.Replanned: 3, whatif.Kept: 1},
		Namespaces: map[string]map[whatif.Transition]int{"shop": {whatif.Moved: 2, whatif.Pending: 2, whatif.Replanned: 3, whatif.Kept: 1}},
		Waiting:    2, Unchanged: 7,
	})
	want := `Moved: 2 objects
  deployments.apps shop/now
    annotation a/clusters: x -> y (pci)
      without the change, it waits for an approval
  deployments.apps shop/freed
    annotation a/clusters: x -> y (pci)
      without the change, it waits for its next update, because a policy would deny a patch by Berth

Pending: 2 objects
  deployments.apps shop/new
    annotation a/clusters: x -> y (pci)
      it waits for an approval
  deployments.apps shop/held
    annotation a/clusters: x -> y (pci)
      it waits for its next update, because a policy would deny a patch by Berth

Replanned: 3 objects
  deployments.apps shop/elsewhere
    annotation a/clusters: x -> y (pci)
      it waits for an approval
      without the change, it waits to become z
  deployments.apps shop/longer
    annotation a/clusters: x -> y (pci)
      it waits for an approval
      without the change, it waits for a window
  deployments.apps shop/both
    annotation a/clusters: x -> y (pci)
      it waits for an approval
      without the change, it waits to become z, for a window

Kept: 1 object
  deployments.apps shop/kept
    annotation a/clusters: stays x, and no longer waits to become y (pci)

namespace shop: 2 moved, 2 pending, 3 replanned, 1 kept
2 more objects already wait for new values, which the changes do not affect
7 objects unchanged
`
	if diff := cmp.Diff(want, out.String()); diff != "" || p.err != nil {
		t.Errorf("output (-want +got):\n%s, error %v", diff, p.err)
	}
}

func TestTest(t *testing.T) {
	stdout, _, err := command(t, "test", ".", "--coverage")
	if err == nil || err.Error() != "1 of 2 cases failed" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"FAIL region_test.yaml: denied\n", `denied: want ["nobody"], got ["no owner"]`, "policy region: 100.0 % covered, 2 of 2 clauses\n", "1 of 2 cases passed\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	stdout, _, err = command(t, "test", "--run", "placed", "-o", "json")
	var report testReport
	if err != nil || json.Unmarshal([]byte(stdout), &report) != nil || len(report.Results) != 1 {
		t.Errorf("output %s, error %v", stdout, err)
	}
	stdout, _, err = command(t, "test", "-o", "junit")
	var suites junitSuites
	if err == nil || xml.Unmarshal([]byte(stdout), &suites) != nil || len(suites.Suites) != 1 || suites.Suites[0].Failures != 1 || suites.Suites[0].Tests != 2 {
		t.Errorf("output %s, error %v", stdout, err)
	}
	if _, _, err = command(t, "test", "--run", "placed", "--coverage-min", "90"); err == nil || !strings.Contains(err.Error(), "--coverage-min is 90.0") {
		t.Errorf("error %v", err)
	}
}

// TestLibrary runs the tests of the policy library, which evaluate all of its policies.
func TestLibrary(t *testing.T) {
	library, err := filepath.Abs("../../library")
	if err != nil {
		t.Fatal(err)
	}
	if stdout, _, err := command(t, "test", library, "--coverage-min=100"); err != nil {
		t.Errorf("error %v, output %s", err, stdout)
	}
	if stdout, _, err := command(t, "check", "-R", "-f", library, "--strict"); err != nil {
		t.Errorf("error %v, output %s", err, stdout)
	}
}

func TestDeliveryRender(t *testing.T) {
	render := func(args ...string) (stdout, stderr string, err error) {
		return command(t, append([]string{"delivery", "render"}, args...)...)
	}
	const delivering = "--from=delivering.yaml,clusters.yaml,web.yaml"
	want := `---
# Deployment shop/web: clusters eu-1; policies region
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  labels:
    app.kubernetes.io/managed-by: berth
    placement.berth.dev/delivered: "true"
  name: web-deployment-b9059
  namespace: shop
  ownerReferences:
  - apiVersion: apps/v1
    kind: Deployment
    name: web
    uid: ""
spec:
  placement:
    clusterAffinity:
      clusterNames:
      - eu-1
    replicaScheduling:
      replicaSchedulingType: Duplicated
  preserveResourcesOnDeletion: false
  priority: 2147483647
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: web
    namespace: shop
---
apiVersion: multicluster.x-k8s.io/v1alpha1
decisions:
- clusterProfileRef:
    name: eu-1
    namespace: fleet
kind: PlacementDecision
metadata:
  labels:
    app.kubernetes.io/managed-by: berth
    multicluster.x-k8s.io/decision-index: "0"
    multicluster.x-k8s.io/decision-key: web-deployment-b9059
    multicluster.x-k8s.io/placement-key: web-deployment-b9059
    placement.berth.dev/delivered: "true"
  name: web-deployment-b9059-0
  namespace: shop
  ownerReferences:
  - apiVersion: apps/v1
    kind: Deployment
    name: web
    uid: ""
schedulerName: berth
`
	for name, args := range map[string][]string{
		"a manifest": {"-f", "web.yaml", delivering}, "an existing object": {"deploy/web", "-n", "shop", delivering},
	} {
		stdout, stderr, err := render(args...)
		if diff := cmp.Diff(want, stdout); diff != "" || stderr != "" || err != nil {
			t.Errorf("%s: error %v, standard error %s, output (-want +got):\n%s", name, err, stderr, diff)
		}
	}
	for name, test := range map[string]struct {
		args           []string
		stderr, failed string
	}{
		"without delivery":  {[]string{"-f", "web.yaml", from}, "Deployment shop/web: no policy that is enforced for the object has spec.delivery, so nothing is delivered\n", ""},
		"no policy matches": {[]string{"-f", "clusters.yaml", delivering}, "ClusterProfile fleet/eu-1: no policy matches the object, so nothing is delivered\nClusterProfile fleet/us-1: no policy matches the object, so nothing is delivered\n", ""},
		"no clusters":       {[]string{"-f", "web.yaml", "--from=labels.yaml,web.yaml"}, "Deployment shop/web: no policy in mode Enforce decides the object's clusters, so nothing is delivered\n", ""},
		"own clusters":      {[]string{"-f", "own.yaml", "--from=labels.yaml,own.yaml"}, "Deployment shop/own: no policy in mode Enforce decides the object's clusters, so nothing is delivered\n", ""},
		"none is left":      {[]string{"-f", "web.yaml", "--from=fleet.yaml,web.yaml"}, "Deployment shop/web: the decided list of clusters is empty, so nothing is delivered, and what was delivered before is withdrawn\n", ""},
		"denied":            {[]string{"-f", "nobody.yaml", delivering}, "", "Deployment shop/nobody: PlacementPolicy region denies the object: no owner"},
		"not possible":      {[]string{"-f", "role.yaml", "--from=roles.yaml,clusters.yaml"}, "", "ClusterRole wide: SIG Multicluster: ClusterRole wide is cluster-scoped"},
		"nothing is named":  {nil, "", "name either an object"},
		"both are named":    {[]string{"deploy/web", "-f", "web.yaml"}, "", "name either an object"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := render(test.args...)
			if stdout != "" || stderr != test.stderr || (err == nil) != (test.failed == "") || err != nil && !strings.HasPrefix(err.Error(), test.failed) {
				t.Errorf("output %s, standard error %s, error %v", stdout, stderr, err)
			}
		})
	}
	for name, test := range map[string]struct{ file, from, want string }{
		// Policies match the object as it is placed.
		"a label of another policy": {"web.yaml", "labeled.yaml", "# Deployment shop/web: clusters eu-1; policies gold\napiVersion: placement.kubernetes-fleet.io/v1beta1\n"},
		"a part of a decision":      {"train.yaml", "training.yaml", "policies training\n# MultiKueue considers at most 20 clusters; the first 20 of 21 by name are nominated\napiVersion: kueue.x-k8s.io/v1beta2\n"},
	} {
		stdout, stderr, err := render("-f", test.file, "--from="+test.from+",clusters.yaml,"+test.file)
		if !strings.Contains(stdout, test.want) || stderr != "" || err != nil {
			t.Errorf("%s: error %v, standard error %s, output %s", name, err, stderr, stdout)
		}
	}
	explained, _, err := command(t, "explain", "-f", "own.yaml", "--from=labels.yaml,own.yaml")
	if err != nil || !strings.Contains(explained, "Delivery\n  no policy in mode Enforce decides the object's clusters, so Berth does not deliver the object") {
		t.Errorf("explanation %s, error %v", explained, err)
	}
	if stdout, _, err := render("-f", "nobody.yaml", "-f", "web.yaml", delivering); err == nil || stdout != want {
		t.Errorf("an error keeps others from being printed: error %v, output %s", err, stdout)
	}
}

func TestCheck(t *testing.T) {
	stdout, _, err := command(t, "check", "-f", "policy.yaml", "-f", "wrong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"policy region\n  reads clusterprofiles.multicluster.x-k8s.io\n    labels.region\n", "did you mean deployments?", "the rule cluster decides nothing", "Did you mean clusters?",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	if stdout, _, err = command(t, "check", "-f", "unused.yaml"); err != nil || !strings.Contains(stdout, "warning: unused.rego:3:1: the rule helper has no effect: no rule that Berth evaluates uses it\n") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	if _, _, err = command(t, "check", "-f", "wrong.yaml", "--strict"); err == nil || err.Error() != "1 of 1 policies have mistakes, see above" {
		t.Errorf("error %v", err)
	}
	if stdout, _, err = command(t, "check", "-f", "broken.yaml"); err == nil || !strings.Contains(stdout, "error: spec.rego: Invalid value: region.rego:3:13: rego_unsafe_var_error: var b is unsafe") {
		t.Errorf("output %s, error %v", stdout, err)
	}
}

// TestCheckOfFilesTogether checks that the files are compared with each other, with and without a cluster.
func TestCheckOfFilesTogether(t *testing.T) {
	const eu, us = "require: no cluster can ever meet these requirements and those of policy all-eu", "require: no cluster can ever meet these requirements and those of policy all-us"
	for _, args := range [][]string{{"-f", "pair.yaml"}, {"-f", "pair.yaml", "--from=clusters.yaml"}, {"-f", "pair.yaml", "--from=clusters.yaml,pair.yaml"}} {
		stdout, _, err := command(t, append([]string{"check"}, args...)...)
		if err != nil || strings.Count(stdout, eu) != 1 || strings.Count(stdout, us) != 1 || strings.Count(stdout, "set.labels[tier]: policy all-") != 2 {
			t.Errorf("%v: output %s, error %v", args, stdout, err)
		}
	}
	stdout, _, err := command(t, "check", "-f", "names.yaml")
	if err == nil || err.Error() != "2 of 4 objects have mistakes, see above" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"policy Bad_Name!\n  error: metadata.name: Invalid value: \"Bad_Name!\": a lowercase RFC 1123 subdomain must consist of",
		"  error: metadata.name: Invalid value: \"../../x\": ", "  error: metadata.namespace: Invalid value: \"Shop\": ",
		"policy twice\n  warning: a later PlacementPolicy in the files has the same name and replaces this one\n\npolicy twice\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	if strings.Count(stdout, "a later PlacementPolicy") != 1 {
		t.Errorf("output %s", stdout)
	}
}

// TestCheckAgainstFiles checks that files need not have what an API server adds: namespaces of objects, and CRDs of other systems.
func TestCheckAgainstFiles(t *testing.T) {
	stdout, _, err := command(t, "check", "-f", "namespaced.yaml", "--from=web.yaml")
	if err != nil || strings.Contains(stdout, "policy in-shop\n  warning: spec.match.namespaceSelector") ||
		!strings.Contains(stdout, "policy in-none\n  warning: spec.match.namespaceSelector selects none of the namespaces that there are: no namespace has the value \"shpo\" of "+
			"label kubernetes.io/metadata.name now, so that this selects no namespace; there are \"shop\"") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	// The namespace of clusters is none of workloads.
	stdout, _, err = command(t, "check", "-f", "namespaced.yaml", "--from=clusters.yaml")
	if err != nil || strings.Contains(stdout, "namespaceSelector") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	for _, args := range [][]string{{"-f", "labels.yaml"}, {"-f", "labels.yaml", "--from=clusters.yaml"}} {
		if stdout, _, err := command(t, append([]string{"check"}, args...)...); err != nil || strings.Contains(stdout, "does not serve") {
			t.Errorf("%v: output %s, error %v", args, stdout, err)
		}
	}
}

// TestCheckFieldsAgainstFiles checks that fields of the kinds of Kubernetes itself are known without a cluster, that a quota is compared
// with the usage and the namespaces of files, and that the field of a policy of the wrong type is named.
func TestCheckFieldsAgainstFiles(t *testing.T) {
	stdout, _, err := command(t, "check", "-f", "fields.yaml", "-f", "smaller.yaml", "--from=usage.yaml")
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`warning: spec.rules[0].when.expression: rule large: no matched object has object.spec.replica: object.spec has no field "replica"; did you mean object.spec.replicas?`,
		"warning: request.rego:2:25: input.request.object.metadata.labels.tier is undefined: input has no field \"request\"; input is the object itself",
		"ScopedQuota shop/compute\n  warning: spec.hard[pods]: 60 is less than what is used now, which is 84: nothing more is admitted until less is used\n",
		"ScopedQuota shpo/compute\n  warning: metadata.namespace: no namespace has the name \"shpo\" now, so that the API server refuses the object; there are \"shop\"\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	const want = `PlacementPolicy typed: spec.rules[0].limit: Invalid value: "string": spec.rules[0].limit in body must be of type integer: "string"`
	if _, _, err := command(t, "check", "-f", "fields.yaml", "--from=typed.yaml"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestCheckQuotas(t *testing.T) {
	stdout, _, err := command(t, "check", "-f", "policy.yaml", "-f", "quotas.yaml")
	if err == nil || err.Error() != "2 of 6 objects have mistakes, see above" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"policy region\n  reads clusterprofiles.multicluster.x-k8s.io\n",
		"\n\nScopedQuota shop/gpus\n  warning: spec.hard[nvidia.com/gpu]: Berth counts nothing under this name (did you mean requests.nvidia.com/gpu?)\n\n",
		"\n\nClusterScopedQuota all\n  warning: spec.namespaceSelector is not set: all namespaces share the amounts of spec.hard.",
		"\n\nLimitedResource shop/pods\n  warning: metadata.namespace has no effect: a LimitedResource is in no namespace. Select namespaces in spec.namespaceSelector\n" +
			"  warning: spec.resource: the API server serves no Pod in namespaces (did you mean pods?): nothing is limited until the API server does\n\n",
		"\n\nScopedQuota wrong\n  error: unknown field \"spec.moed\"\n  error: spec.hard[",
		"\n\nScopedQuotas gpus\n  error: there is no kind ScopedQuotas in placement.berth.dev/v1alpha1: " +
			"the kinds of placement.berth.dev/v1alpha1 are ClusterScopedQuota, LimitedResource, PlacementPolicy, ScopedQuota\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	stdout, _, err = command(t, "check", "-f", "tried.yaml", "--from", "limited.yaml", "--strict")
	if err == nil || err.Error() != "1 of 1 objects have mistakes, see above" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"warning: LimitedResource pods denies in namespace shop what ScopedQuota q would cover (count/pods): a quota in mode Warn",
		"warning: spec.hard: there is no StorageClass fast: no volume of the class is provisioned until the class is created\n",
		"warning: spec.hard: there is no DeviceClass gpus: ",
		"warning: spec.hard[requests.example.com/gpu]: no node has the resource example.com/gpu now; there are nvidia.com/gpu\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	if stdout, _, err = command(t, "check", "-f", "compute.yaml", "--from", "running.yaml"); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"warning: spec.hard[services]: ResourceQuota services in namespace shop limits this, too.",
		"warning: spec.hard: pod web in namespace shop could not be created again: must specify limits.cpu for: web.",
		"warning: spec.scopeSelector: a new pod without a PriorityClass gets the class usual, which is the default",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q lacks %q", stdout, want)
		}
	}
	// What is not known is not compared.
	if stdout, _, err = command(t, "check", "-f", "tried.yaml", "--strict"); err != nil || stdout != "ScopedQuota shop/q\n" {
		t.Errorf("output %s, error %v", stdout, err)
	}
	if _, _, err = command(t, "check", "-f", "clusters.yaml"); err == nil || !strings.HasPrefix(err.Error(), "the files contain no object of placement.berth.dev/v1alpha1: ") {
		t.Errorf("error %v", err)
	}
}

// Errors of wrong-rules.yaml and wrong-schema.yaml.
var (
	wrongRules = []string{
		`spec.rules[0].require[0].values[0]: Invalid value: "4Gi": must be a number, such as 2 or 0.5: set as: Quantity to compare quantities`,
		`spec.rules[0].require[1].values[0]: Invalid value: "v1.30": must be a number, such as 2 or 0.5: set as: Version to compare versions`,
		`spec.rules[1].set.labels[a]: Invalid value: "{nmae}": has the unknown placeholder {nmae}: known are {kind}, {namespace}, {name}, {label:KEY}, ` +
			`{annotation:KEY}, {clusters} and {clusters:json}; write {{ for a brace`,
		`spec.rules[1]: Forbidden: rule us is never reached: rule eu (spec.rules[0]) applies to all objects. Give that rule a condition in when, or move it to the end`,
	}
	wrongSchema = []string{
		`unknown field "spec.rules[0].requires"`,
		`spec.rules[0].require[0].operator: Unsupported value: "Equals": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Gte", "Lt", "Lte", "Most", "Least"`,
		`spec.rules[0].require[1].values: Invalid value: exactly one of values and valueFrom is required`,
	}
)

func TestCheckRules(t *testing.T) {
	stdout, _, err := command(t, "check", "-f", "rules.yaml", "-f", "wrong-rules.yaml", "-f", "wrong-schema.yaml", "--from=clusters.yaml")
	if err == nil || err.Error() != "2 of 3 policies have mistakes, see above" {
		t.Errorf("error %v", err)
	}
	want := `policy eu
  warning: spec.rules[0].prefer: has no effect: the rule chooses all eligible clusters, and not the best of them. Set limit, or maxDomains or maxClusters of spread, or weights
  warning: spec.match.resourceRules: the policy gives clusters to deployments.apps, and does not match cronjobs.batch, daemonsets.apps, jobs.batch, statefulsets.apps, which get none from it. To place these, too, add {apiGroups: [apps, batch], apiVersions: [v1], resources: [cronjobs, daemonsets, jobs, statefulsets]}
  warning: spec.rules[0].prefer[0].label: no cluster has the label "tier", so that this makes no cluster better than others
  reads clusterprofiles.multicluster.x-k8s.io
    labels.region
    provider
    taints.*.effect
    taints.*.key
    taints.*.timeAdded
    taints.*.value
    terminating
  Berth needs the right to list and watch these types.

policy wrong-rules
  error: ` + strings.Join(wrongRules, "\n  error: ") + `

policy wrong-schema
  error: ` + strings.Join(wrongSchema, "\n  error: ") + "\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestRender(t *testing.T) {
	module, stderr, err := command(t, "render", "rules.yaml")
	if !strings.HasPrefix(module, "# Generated by Berth from spec.rules. Change the rules, not this text.\npackage rules\n") ||
		!strings.Contains(module, "# spec.rules[0].require[0]\n") || !strings.HasSuffix(module, "\n}\n") || stderr != "" || err != nil {
		t.Errorf("error %v, standard error %s, output:\n%s", err, stderr, module)
	}
	sum := sha256.Sum256([]byte(module))
	digest := "sha256:" + hex.EncodeToString(sum[:]) + "  eu\n"
	rego := `package wrong

cluster := {"a"}
`
	const (
		notRendered = "PlacementPolicy wrong: no digest is printed, because Berth sets status.moduleDigest only of policies with spec.rules: compare spec.rego instead\n"
		neither     = "PlacementPolicy neither: the policy has neither spec.rules nor spec.rego, so there is no module to print\n"
	)
	failures := func(policy string, mistakes []string) string {
		var out strings.Builder
		for _, text := range mistakes {
			out.WriteString("PlacementPolicy " + policy + ": " + text + "\n")
		}
		return out.String()
	}
	for name, test := range map[string]struct {
		args                   string
		stdout, stderr, failed string
	}{
		"-f":              {args: "-f rules.yaml", stdout: module},
		"digest":          {args: "--digest rules.yaml", stdout: digest},
		"Rego":            {args: "wrong.yaml", stdout: rego},
		"several":         {args: "wrong.yaml web.yaml rules.yaml", stdout: "# PlacementPolicy wrong\n" + rego + "\n# PlacementPolicy eu\n" + module},
		"several digests": {args: "--digest -f wrong.yaml,rules.yaml", stdout: digest, stderr: notRendered},
		"neither":         {args: "neither.yaml", stderr: neither, failed: "1 of 1 policies can't be rendered, see above"},
		"mistakes":        {args: "wrong-rules.yaml rules.yaml", stdout: "# PlacementPolicy eu\n" + module, stderr: failures("wrong-rules", wrongRules), failed: "1 of 2 policies can't be rendered, see above"},
		"schema":          {args: "wrong-schema.yaml", stderr: failures("wrong-schema", wrongSchema), failed: "1 of 1 policies can't be rendered, see above"},
		"no file":         {failed: "name the files with policies: policy.yaml"},
		"no policy":       {args: "web.yaml", failed: "the files contain no PlacementPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := command(t, append([]string{"render"}, strings.Fields(test.args)...)...)
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			if diff := cmp.Diff([]string{test.stdout, test.stderr, test.failed}, []string{stdout, stderr, failed}); diff != "" {
				t.Errorf("standard output, standard error, error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUncheckedRules checks rules that the schema of the API refuses, in a command that does not read the schema.
func TestUncheckedRules(t *testing.T) {
	stdout, _, err := command(t, "explain", "deploy/web", "-n", "shop", "--from=unchecked.yaml,clusters.yaml,web.yaml")
	want := "can't decide: the policy does not compile: spec.rules[0].require[0].values: Invalid value: null: Gt, Gte, Lt and Lte need exactly one value\n"
	if err != nil || !strings.Contains(stdout, want) {
		t.Errorf("output %s, error %v", stdout, err)
	}
}

func TestDepsAndViolations(t *testing.T) {
	stdout, _, err := command(t, "deps", from)
	if err != nil || !strings.Contains(stdout, "region   clusterprofiles.multicluster.x-k8s.io   2 ") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	stdout, _, err = command(t, "violations", "region", from)
	if err != nil || !strings.Contains(stdout, "deployments.apps shop/web: policy region\n  annotation placement.berth.dev/clusters is absent, should be [\"eu-1\"]\n") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	stdout, _, err = command(t, "violations", "region", from, "-o", "wide")
	if want := "POLICY RESOURCE NAMESPACE NAME UID DIFFERENCE WAITS\nregion deployments.apps shop web (none) annotation placement.berth.dev/clusters is absent, should be [\"eu-1\"] (none)\n"; err != nil || !strings.HasPrefix(columns(stdout), want) {
		t.Errorf("output %s, error %v, want %s", stdout, err, want)
	}
}

// columns returns a table with one space between columns.
func columns(table string) string { return regexp.MustCompile(" +").ReplaceAllString(table, " ") }

func TestPlan(t *testing.T) {
	stdout, _, err := command(t, "plan", "region", from)
	if err != nil || !strings.HasPrefix(stdout, "Plan ") || !strings.Contains(stdout, " of PlacementPolicy region: ") ||
		!strings.Contains(stdout, "deployments.apps shop/web\n  set annotation placement.berth.dev/clusters to [\"eu-1\"]\n") {
		t.Errorf("output %s, error %v", stdout, err)
	}
	stdout, _, err = command(t, "plan", "region", from, "-o", "json")
	var plan whatif.Plan
	if err != nil || json.Unmarshal([]byte(stdout), &plan) != nil || len(plan.Digest) != 32 || len(plan.Moves) == 0 || plan.Moves[0].Name != "web" {
		t.Errorf("output %s, error %v", stdout, err)
	}
	stdout, _, err = command(t, "plan", "region", from, "-o", "wide")
	want := "RESOURCE NAMESPACE NAME UID FIELD KEY FROM TO\ndeployments.apps shop web (none) annotations placement.berth.dev/clusters (none) [\"eu-1\"]\n"
	if err != nil || !strings.HasPrefix(stdout, "Plan "+plan.Digest+" ") || !strings.Contains(columns(stdout), want) {
		t.Errorf("output %s, error %v, want %s", stdout, err, want)
	}
}

// TestWaitingHasOneName checks that all commands say the same of an object that waits for an approval, with the command that approves it,
// and that none calls it a violation.
func TestWaitingHasOneName(t *testing.T) {
	const from = "--from=approved.yaml,clusters.yaml,web.yaml"
	for _, args := range [][]string{
		{"explain", "deploy/web", "-n", "shop", from}, {"violations", from}, {"violations", from, "-o", "wide"}, {"plan", "asking", from},
		{"delivery", "render", "deploy/web", "-n", "shop", from}, {"whatif", "-f", "approved-later.yaml", from}, {"where", "deploy/web", "-n", "shop", from},
	} {
		stdout, stderr, err := command(t, args...)
		const want = "for an approval of the plan of PlacementPolicy asking (kubectl berth approve asking)"
		// The exit code of whatif says that there is a difference.
		if err != nil && args[0] != "whatif" || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: output %s%s, error %v, want %s", args, stdout, stderr, err, want)
		}
	}
	stdout, _, err := command(t, "violations", from)
	if err != nil || !strings.Contains(stdout, "No object violates what the policies decide.\n") || !strings.Contains(stdout, "Waiting: 1 object\n") {
		t.Errorf("output %s, error %v", stdout, err)
	}
}

// TestMoving checks what commands say of a plan of which a part is done, and of the moves that the status names.
func TestMoving(t *testing.T) {
	const from = "--from=moving.yaml,clusters.yaml,web.yaml,nobody.yaml"
	stdout, _, err := command(t, "plan", "moving", from)
	if want := "\nBerth carries out the plan in status.plan. Its digest is 0123456789abcdef0123456789abcdef, because it includes all 3 objects, of which 2 no longer have to be patched.\n"; err != nil || !strings.Contains(stdout, want) {
		t.Errorf("output %s, error %v, want %s", stdout, err, want)
	}
	for object, want := range map[string]string{
		"deploy/web":    "\n  Berth moved the object to other clusters at 2026-01-01T12:00:00Z: it waits until a system of spec.delivery of PlacementPolicy moving reports that the object runs in its new clusters; without such a report, the move fails at 2026-01-01T12:10:00Z\n",
		"deploy/nobody": "\n  the API server refused the last patch or eviction of the object, which counts as failed until one succeeds: denied\\n::error::forged\n",
	} {
		if stdout, _, err = command(t, "explain", object, "-n", "shop", from); err != nil || !strings.Contains(stdout, want) {
			t.Errorf("output %s, error %v, want %s", stdout, err, want)
		}
	}
}

// TestExamples checks that the examples of each command are commands with flags that exist.
func TestExamples(t *testing.T) {
	found := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		for line := range strings.Lines(c.Example) {
			text, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl berth ")
			if !ok {
				continue
			}
			found++
			text, _, _ = strings.Cut(text, " | ")
			text, _, _ = strings.Cut(text, " > ")
			args := strings.Fields(strings.ReplaceAll(text, "'", ""))
			target, rest, err := newCommand(genericiooptions.NewTestIOStreamsDiscard()).Find(args)
			if err != nil || !target.Runnable() {
				t.Errorf("%s: the command is %s, error %v", line, target.CommandPath(), err)
				continue
			}
			if err := target.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	visit(newCommand(genericiooptions.NewTestIOStreamsDiscard()))
	if found < 10 {
		t.Errorf("found only %d examples", found)
	}
}

// TestWatch checks that the cases run again after a change of a file.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	cmd := newCommand(genericiooptions.IOStreams{Out: writer, ErrOut: io.Discard})
	cmd.SetArgs([]string{"test", "--watch", "--run=placed", dir})
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	lines := bufio.NewScanner(reader)
	for _, want := range []string{"1 of 1 cases passed", "2 of 2 cases passed"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
		if err := os.WriteFile(filepath.Join(dir, "more_test.yaml"), []byte(files["region_test.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	// The command may be writing.
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStyles(t *testing.T) {
	if got := (&printer{styled: true}).style(bold, "x"); got != "\x1b[1mx\x1b[0m" {
		t.Errorf("styled %q", got)
	}
	if p := newPrinter(&strings.Builder{}); p.style(bold, "x") != "x" {
		t.Error("styles an output that is no terminal")
	}
}

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"deps " + from + " r": "region\n:4\n", "violations " + from + " region x": ":4\n", "explain " + from + " -n shop deploy/": "deploy/web\n:4\n",
		"explain " + from + " dep": ":2\n", "render rul": ":0\n", "check --fil": "--filename\tFiles, directories or - with policies and quotas.\n:4\n", "explain " + from + " gadget/": ":4\n",
	} {
		if stdout, _, err := command(t, append([]string{"__complete"}, strings.Fields(args)...)...); err != nil || stdout != want {
			t.Errorf("%s: %q, error %v, want %q", args, stdout, err, want)
		}
	}
}

// TestBadInput checks that each error is one sentence that says what to do.
func TestBadInput(t *testing.T) {
	for args, want := range map[string]string{
		"explain":                                       "name either an object, for example deployment/web, or a file with -f",
		"explain deployment/none -n shop":               `deployments.apps "none" is not in --from: name its namespace by -n, or explain a manifest of it by kubectl berth explain -f`,
		"explain deploymnet/web":                        "the type \"deploymnet\" is not known (did you mean deployments?)",
		"explain web":                                   `"web" does not name an object: write TYPE/NAME, for example deployment/web`,
		"explain deploy/web -n shop --why-not moon":     "--why-not: no inventory that policies read has a cluster \"moon\"; there are eu-1, us-1",
		"explain deploy/web -n shop -o xml":             `--output: "xml" is none of json, yaml`,
		"explain deploy/web -n shop --config none.yaml": "--config: open none.yaml: no such file or directory",
		"whatif":                                        "name a change: -f policy.yaml, --delete TYPE/NAME, or --set TYPE/NAME:PATH=VALUE",
		"whatif --delete nodes":                         `--delete: "nodes" is not TYPE/NAME or TYPE/NAMESPACE/NAME`,
		"whatif --delete clusterprofiles/ap-1":          `--delete: no namespace has an object "ap-1" of clusterprofiles.multicluster.x-k8s.io: check the name`,
		"whatif --delete nodes/default/n1":              `--delete: "nodes/default/n1": write TYPE/NAME for nodes, which have no namespace`,
		"whatif --delete nodes/n1":                      "nodes n1 does not exist, so it can't be deleted",
		"whatif --set nodes/n1":                         `--set: "nodes/n1" is not TYPE/[NAMESPACE/]NAME:PATH=VALUE`,
		"whatif --set nodes/n1:a['b=c":                  "brackets hold a name in quotes, as in metadata.labels['a.b/c']",
		"whatif --set nodes/n1:a[0].b=c":                "to change an item of a list, use --filename",
		"whatif --set nodes/n1:metadata.labels.a.b/c=d": `write a key with dots in brackets: metadata.labels['a.b/c']`,
		"whatif --set nodes/n1:a..b=c":                  `--set: "a..b": a name is empty`,
		"whatif --set nodes/n1:a.b.=c":                  `--set: "a.b.": a name is empty`,
		"whatif --set nodes/n1:a['b']c=d":               `--set: "a['b']c": a dot is missing after ['b']`,
		"violations none":                               `there is no PlacementPolicy "none"`,
		"violations -o xml":                             `--output: "xml" is not one of json, yaml, or wide`,
		"plan region -o xml":                            `--output: "xml" is not one of json, yaml, or wide`,
		"plan none":                                     `there is no PlacementPolicy "none"`,
		"deps none":                                     `there is no PlacementPolicy "none"`,
		"snapshot":                                      "name the file to write with -o, for example -o cluster.json.gz",
		"snapshot -o x.json":                            "a snapshot records a live cluster: leave out --from",
	} {
		_, _, err := command(t, append(strings.Fields(args), from)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
	for args, want := range map[string]string{
		"check":                     "name the files with policies: -f policy.yaml",
		"check -f web.yaml":         "the files contain no object of placement.berth.dev/v1alpha1: its kinds are ClusterScopedQuota, ",
		"test none":                 "stat none: no such file or directory",
		"test web.yaml":             `web.yaml: apiVersion is "apps/v1" and kind is "Deployment", must be config.berth.dev/v1alpha1 and PolicyTest`,
		"test --run (":              "--run: error parsing regexp",
		"test --run nothing":        `--run: no case matches "nothing"`,
		"test -o xml":               `--output: "xml" is none of json, junit`,
		"explain x/y --from none":   `--from: there is no file or directory "none"`,
		"explain x/y --from bad.gz": `--from: there is no file or directory "bad.gz"`,
	} {
		if _, _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}
