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

package migration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/migration"
)

// policies returns a ConfigMap with modules, and data one with documents. The arguments alternate between key and text.
func policies(namespace, name string, keysAndTexts ...string) corev1.ConfigMap {
	return labelled(namespace, name, "openpolicyagent.org/policy", "rego", keysAndTexts)
}

func data(namespace, name string, keysAndTexts ...string) corev1.ConfigMap {
	return labelled(namespace, name, "openpolicyagent.org/data", "opa", keysAndTexts)
}

func labelled(namespace, name, label, value string, keysAndTexts []string) corev1.ConfigMap {
	cm := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{label: value}},
		Data:       map[string]string{},
	}
	for pair := range slices.Chunk(keysAndTexts, 2) {
		cm.Data[pair[0]] = pair[1]
	}
	return cm
}

// TestOldNamesAreReplaced checks that the policy has the current names.
func TestOldNamesAreReplaced(t *testing.T) {
	const text = `package p

import input.resource as r

annotations["a"] = x { x := json_marshal([base64_encode(r.a), input.resource.spec]) }

labels["json_marshal"] = "input.resource" { r }
`
	got := migration.Convert([]corev1.ConfigMap{policies("n", "p", "p.rego", text)}, options())
	if len(got.Policies) != 1 {
		t.Fatalf("findings %v", got.Findings)
	}
	const want = `package p

import input as r

annotations["a"] = x { x := json.marshal([base64.encode(r.a), input.spec]) }

labels["json_marshal"] = "input.resource" { r }
`
	if diff := cmp.Diff(want, got.Policies[0].Object.Spec.Rego); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func selector(text string) labels.Selector {
	s, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

func options() migration.Options {
	return migration.Options{
		Policies:    selector(migration.DefaultPolicySelector),
		Data:        selector(migration.DefaultDataSelector),
		Resources:   []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}},
		Mode:        placementv1.ModeDryRun,
		Remediation: placementv1.RemediationManual,
	}
}

// seedConflicts is the module from the design document, with the parts added that the document leaves out.
const seedConflicts = `package io.k8s.federation.admission

errors["requested replica-set-preferences includes invalid clusters"] {
  invalid_clusters = developer_clusters - policy_defined_clusters
  invalid_clusters != set()
}

annotations["replica-set-preferences"] = value {
  value = developer_clusters & policy_defined_clusters
}

policy_defined_clusters[name] { data.kubernetes.clusters[name].status.region = "eu" }

developer_clusters[name] {
  json.unmarshal(input.metadata.annotations["replica-set-preferences"], wanted)
  wanted[_] = name
}
`

// Modules that use each other, in the Rego of OPA before 1.0.
const (
	mainV0 = `# Where workloads of customers may run.
package kubernetes.placement

import data.kubernetes.clusters
import data.lib.regions
import data.opa.customers as customers # who pays

annotations["example.com/clusters"] = concat(",", sort(names)) {
	names := [name | allowed[name]]
}

allowed[name] {
	clusters[name]
	regions.same(clusters[name].status.region, home)
}

home = region { region := customers["customers.json"][input.metadata.labels.customer].region }
`
	errorsV0 = `package kubernetes.placement

import data.lib.regions.names as known

errors[message] {
	not known[home]
	message := sprintf("%v is no region", [home])
}
`
	regionsV0 = `package lib.regions

# Of these there are few.
names = {"eu", "us"}

same(x, y) { lower(x) == short(y) }

same(x, y) { names[x]; x == short(y) } { x == "any" }

short(x) = y { y := split(x, "-")[0] } else = "none" { not x }

default unused = false
`
	unusedV0 = `package lib.regions

unused { data.lib.numbers.one }
`
)

const customers = `{"acme": {"region": "eu-west"}, "globex": {"region": "us"}}`

func TestConvert(t *testing.T) {
	v1 := `package %s

labels["a"] := "b" if input.metadata.name
`
	binary := policies("n", "binary")
	binary.BinaryData = map[string][]byte{"b.gz": {0xff}}
	tests := map[string]struct {
		configMaps []corev1.ConfigMap
		change     func(*migration.Options)
		// policies has the name, language, and modules of each policy. The fields below are checked only if they are
		// set.
		policies []string
		data     map[string]string
		reads    map[string][]string
		// findings has the beginnings of all findings.
		findings []string
	}{
		"Seed": {
			configMaps: []corev1.ConfigMap{policies("kube-federation-scheduling-policy", "scheduling-policy", "policy.rego", seedConflicts)},
			policies:   []string{"scheduling-policy v0 kube-federation-scheduling-policy/scheduling-policy/policy.rego"},
			reads:      map[string][]string{"scheduling-policy": {"data.kubernetes.clusters"}},
			findings: []string{
				`kube-federation-scheduling-policy/scheduling-policy/policy.rego: converted into PlacementPolicy "scheduling-policy"`,
				"kube-federation-scheduling-policy/scheduling-policy/policy.rego: warning: the policy reads data.kubernetes.clusters, which needs",
			},
		},
		"WithoutLabels": {
			configMaps: []corev1.ConfigMap{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Data: map[string]string{"p.rego": fmt.Sprintf(v1, "p")}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "---"}},
			},
			change:   func(o *migration.Options) { o.Policies = labels.Everything() },
			policies: []string{"p v1 n/p/p.rego"},
			findings: []string{"n/kube-root-ca.crt: not needed", `n/p/p.rego: converted into PlacementPolicy "p"`},
		},
		"NotLabelled": {
			configMaps: []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Data: map[string]string{"p.rego": fmt.Sprintf(v1, "p")}}},
			findings:   []string{`n/p: not needed: the labels of the ConfigMap match neither "openpolicyagent.org/policy=rego" (policies) nor "openpolicyagent.org/data=opa" (data)`},
		},
		"Languages": {
			configMaps: []corev1.ConfigMap{
				policies("n", "old", "p.rego", `package a

errors["x"] { input.x }
`),
				policies("n", "new", "p.rego", `package b

errors contains "x" if input.x
`),
				policies("n", "future", "p.rego", `package c

import future.keywords

errors contains "x" { input.x }
`),
				policies("n", "bridge", "p.rego", `package d

import rego.v1

errors contains "x" if input.x
`),
				policies("n", "both", "p.rego", `package e

labels = {"a": "b"}
`),
			},
			policies: []string{"both v1 n/both/p.rego", "bridge v1 n/bridge/p.rego", "future v0 n/future/p.rego", "new v1 n/new/p.rego", "old v0 n/old/p.rego"},
		},
		"SeveralKeysOnePackage": {
			configMaps: []corev1.ConfigMap{policies("n", "cm", "a.rego", fmt.Sprintf(v1, "p"), "b.rego", `package p

errors contains "x" if input.y
`)},
			policies: []string{"cm v1 n/cm/a.rego n/cm/b.rego"},
		},
		"SeveralKeysSeveralPackages": {
			configMaps: []corev1.ConfigMap{policies("n", "cm", "a.rego", fmt.Sprintf(v1, "a"), "b.rego", fmt.Sprintf(v1, "b"))},
			policies:   []string{"cm-a v1 n/cm/a.rego", "cm-b v1 n/cm/b.rego"},
		},
		"SeveralConfigMapsOnePackage": {
			configMaps: []corev1.ConfigMap{
				policies("n", "two", "p.rego", `package p

errors contains "x" if input.y
`),
				policies("m", "one", "p.rego", fmt.Sprintf(v1, "p")),
			},
			policies: []string{"one v1 m/one/p.rego n/two/p.rego"},
		},
		"Library": {
			configMaps: []corev1.ConfigMap{
				policies("opa", "placement", "main.rego", mainV0, "errors.rego", errorsV0),
				policies("opa", "lib", "regions.rego", regionsV0, "unused.rego", unusedV0),
				data("opa", "customers", "customers.json", customers, "unread.json", "{}"),
				data("opa", "colours", "colours.json", "{}"),
			},
			policies: []string{"placement v0 opa/placement/errors.rego opa/placement/main.rego opa/lib/regions.rego"},
			data:     map[string]string{"placement": `{"opa":{"customers":{"customers.json":` + strings.ReplaceAll(customers, " ", "") + `}}}`},
			reads:    map[string][]string{"placement": {"data.kubernetes.clusters"}},
			findings: []string{
				`opa/colours/colours.json: not needed: no policy that was made reads data.opa.colours["colours.json"]`,
				`opa/customers/customers.json: converted into PlacementPolicy "placement": as its data`,
				"opa/customers/unread.json: not needed",
				`opa/lib/regions.rego: converted into PlacementPolicy "placement": the package kubernetes.placement reads the module's package lib.regions`,
				"opa/lib/unused.rego: left out: its package lib.regions defines none of annotations, labels, errors, warnings, and no policy reads it",
				`opa/placement/errors.rego: converted into PlacementPolicy "placement"`,
				"opa/placement/errors.rego: warning: the policy reads data.kubernetes.clusters",
				`opa/placement/main.rego: converted into PlacementPolicy "placement"`,
			},
		},
		"Packages": {
			configMaps: []corev1.ConfigMap{
				policies("n", "a", "p.rego", `package a

labels := data.b.labels
`),
				policies("n", "b", "p.rego", fmt.Sprintf(v1, "b")),
				policies("n", "c", "p.rego", fmt.Sprintf(v1, "c")),
			},
			change:   func(o *migration.Options) { o.Packages = []string{"a", "z"} },
			policies: []string{"a v1 n/a/p.rego n/b/p.rego"},
			findings: []string{
				"left out: no module is of the package z",
				`n/a/p.rego: converted into PlacementPolicy "a"`,
				`n/b/p.rego: converted into PlacementPolicy "a": the package a reads the module's package b`,
				"n/c/p.rego: not needed: the package c is none of those in --package, and none of these reads that package",
			},
		},
		"PolicyReadsPolicy": {
			configMaps: []corev1.ConfigMap{
				policies("n", "a", "p.rego", `package a

labels := data.b.labels
`),
				policies("n", "b", "p.rego", fmt.Sprintf(v1, "b")),
			},
			policies: []string{"a v1 n/a/p.rego n/b/p.rego", "b v1 n/b/p.rego"},
			findings: []string{
				`n/a/p.rego: converted into PlacementPolicy "a"`,
				"n/a/p.rego: warning: the policy reads the package b, which becomes a policy too: if clients of OPA do not query data.b, name only the packages that they query: --package a",
				`n/b/p.rego: converted into PlacementPolicy "a"`,
				`n/b/p.rego: converted into PlacementPolicy "b"`,
			},
		},
		"AdmissionControl": {
			configMaps: []corev1.ConfigMap{
				policies("opa", "main", "main", `package system

import data.kubernetes.admission

main = {"response": {"uid": input.request.uid, "allowed": count(admission.deny) == 0}}
`),
				policies("opa", "ingress", "ingress.rego", `package kubernetes.admission

deny[msg] {
	input.request.kind.kind == "Ingress"
	msg := "no"
}
`),
				policies("opa", "conftest", "x.rego", `package main

deny[msg] { input.kind == "Pod"; msg := "no" }
`),
				policies("opa", "mixed", "x.rego", `package mixed

errors[msg] { r := input.request; r.object.metadata.name == "x"; msg := "no" }
`),
			},
			findings: []string{
				"opa/conftest/x.rego: left out: its package main defines none of annotations, labels, errors, warnings, and no policy reads it: rename deny, the set of messages, to errors",
				"opa/ingress/ingress.rego: left out: its package kubernetes.admission is admission control, because it reads input.request.kind.kind: a placement policy's input is the object itself",
				"opa/main/main: left out: its package system is admission control, because it reads input.request.uid",
				"opa/mixed/x.rego: left out: opa/mixed/x.rego reads input.request, so it is admission control",
			},
		},
		"Broken": {
			configMaps: []corev1.ConfigMap{
				policies("n", "syntax", "p.rego", `package p

errors[x] {
`),
				policies("n", "empty", "p.rego", ""),
				policies("n", "nothing"), binary,
				policies("n", "unsafe", "p.rego", `package u

labels := {"a": x}
`),
				policies("n", "http", "p.rego", `package h

labels = x { x := http.send({"method": "get", "url": "http://a"}).body }
`),
				policies("n", "scheduling", "p.rego", `package s

labels := {}
scheduling := {}
`),
				policies("n", "roots", "p.rego", `package clusters.p

labels := {}
`),
				policies("n", "dynamic", "p.rego", `package d

labels := data.kubernetes[input.kind]
`),
				data("n", "list", "a.json", "[1]", "b.yaml", "a: b", "c.json", "null"),
				data("clusters", "taken", "a.json", "{}"),
			},
			policies: []string{"scheduling v1 n/scheduling/p.rego"},
			findings: []string{
				"clusters/taken/a.json: left out: the value is at data.clusters, where Berth keeps cluster data",
				"n/binary/b.gz: not needed: kube-mgmt does not load binaryData",
				"n/dynamic/p.rego: left out: dynamic.rego:3:11: berth_unresolved_read",
				"n/empty/p.rego: left out: it is no Rego: as Rego v1: ",
				"n/http/p.rego: left out: http.rego:3:19: rego_type_error: undefined function http.send (http.send is not allowed",
				"n/list/a.json: left out: the value is no JSON object; kube-mgmt does not load it either",
				"n/list/b.yaml: left out", "n/list/c.json: left out",
				"n/nothing: not needed: it is empty",
				"n/roots/p.rego: left out: roots.rego:1:1: berth_contract_error: the package data.clusters.p is where Berth keeps cluster data",
				`n/scheduling/p.rego: converted into PlacementPolicy "scheduling"`,
				"n/scheduling/p.rego: warning: the policy defines the rule scheduling, which clients of OPA do not query, but Berth evaluates as a part of the decision: rename it",
				"n/syntax/p.rego: left out: it is no Rego",
				"n/unsafe/p.rego: left out: unsafe.rego:3:17: rego_unsafe_var_error",
			},
		},
		"Status": {
			configMaps: []corev1.ConfigMap{func() corev1.ConfigMap {
				cm := policies("n", "p", "p.rego", fmt.Sprintf(v1, "p"))
				cm.Annotations = map[string]string{"openpolicyagent.org/kube-mgmt-status": `{"status":"error","error":{"code":"invalid_parameter"}}`}
				return cm
			}()},
			policies: []string{"p v1 n/p/p.rego"},
			findings: []string{"n/p: warning: the annotation openpolicyagent.org/kube-mgmt-status says that OPA refused the ConfigMap", "n/p/p.rego: converted"},
		},
		"Twice": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", fmt.Sprintf(v1, "p")), policies("n", "p", "p.rego", fmt.Sprintf(v1, "p"))},
			policies:   []string{"p v1 n/p/p.rego"},
			findings:   []string{"n/p: left out: the ConfigMap is given twice", "n/p/p.rego: converted"},
		},
		"Names": {
			configMaps: []corev1.ConfigMap{
				policies("a", "p", "x.rego", fmt.Sprintf(v1, "q1")), policies("b", "p", "x.rego", fmt.Sprintf(v1, "q2")),
				policies("c", "p", "Y_y.v2.rego", fmt.Sprintf(v1, "q3")), policies("b-p", "x", "x", fmt.Sprintf(v1, "q4")),
				policies("c", "p.p", "x", fmt.Sprintf(v1, "q5")), policies("c", "p-p", "x", fmt.Sprintf(v1, "q6")),
				policies("d", "k", "x.a", fmt.Sprintf(v1, "q7"), "x.b", fmt.Sprintf(v1, "q8")),
			},
			policies: []string{
				"a-p-x v1 a/p/x.rego", "b-p-x v1 b/p/x.rego", "c-p-p-x-0947a620e1 v1 c/p-p/x", "c-p-p-x-533c20e145 v1 c/p.p/x",
				"d-k-x-03bb305a47 v1 d/k/x.a", "d-k-x-abd84f1bc1 v1 d/k/x.b", "p-y-y-v2 v1 c/p/Y_y.v2.rego", "x v1 b-p/x/x",
			},
		},
		"MixedLanguages": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "a.rego", `package p

errors["x"] { input.x }
`, "b.rego", `package p

errors contains "y" if input.y
`),
			},
			findings: []string{
				"n/p/a.rego: left out: these modules have to be joined into one policy, but n/p/a.rego is Rego v0 and n/p/b.rego is v1: bring both to one version",
				"n/p/b.rego: left out: these modules have to be joined into one policy",
			},
		},
		"BridgeInOneOfTwo": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "a.rego", `package p

errors["x"] { input.x }
`, "b.rego", `package p

import rego.v1

errors contains "y" if input.y
`),
			},
			findings: []string{"n/p/a.rego: left out: these modules have to be joined into one policy, but can't be read as one", "n/p/b.rego: left out: these modules have to be joined into one policy"},
		},
		"ImportsDiffer": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "a.rego", `package p

import data.kubernetes.pods as x

labels.a := "b" if x.n
`, "b.rego", `package p

import data.kubernetes.nodes as x

labels.c := "b" if x.n
`),
			},
			findings: []string{"n/p/a.rego: left out: n/p/a.rego and n/p/b.rego have to be joined into one policy, but x stands for data.kubernetes.pods in the first and for data.kubernetes.nodes in the second", "n/p/b.rego: left out"},
		},
		"ImportHidesRule": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "a.rego", `package p

import data.kubernetes.pods as x

labels.a := "b" if x.n
`, "b.rego", `package p

x := {"n": 1}

labels.c := "b" if x.n
`),
			},
			findings: []string{"n/p/a.rego: left out: these modules have to be joined into one policy, but there the rule", "n/p/b.rego: left out"},
		},
		"KeywordOfOther": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "a.rego", `package p

import future.keywords.in

labels["a"] = "b" { "x" in input.list }
`, "b.rego", `package p

in { input.y }

errors["y"] { in }
`),
			},
			findings: []string{"n/p/a.rego: left out: these modules have to be joined into one policy, but", "n/p/b.rego: left out"},
		},
		"WholePackage": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "p.rego", `package p

labels := data.lib[input.x].labels
`),
				policies("n", "q", "p.rego", `package q

labels := {"a": "b"} if data.lib.a
`),
				policies("n", "lib", "a.rego", `package lib.a

x := 1
`),
			},
			findings: []string{
				"n/lib/a.rego: left out",
				"n/p/p.rego: left out: n/p/p.rego reads data.lib[input.x].labels, and with it all of the package lib.a",
				"n/q/p.rego: left out: n/q/p.rego reads data.lib.a, and with it all of the package lib.a",
			},
		},
		"HelperForbidden": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "p.rego", `package p

labels.a := data.lib.now
`),
				policies("n", "lib", "a.rego", `package lib

now := sprintf("%d", [time.now_ns()])
`),
			},
			findings: []string{"n/lib/a.rego: left out", "n/p/p.rego: left out: p.rego:9:27: rego_type_error: undefined function time.now_ns"},
		},
		"MissingData": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "p.rego", `package p

labels.a := data.acme.x
labels.b := data.n.d["other.json"].x
labels.c := data.n.d["d.json"].x
`),
				data("n", "d", "d.json", "{}"),
			},
			policies: []string{"p v1 n/p/p.rego"},
			data:     map[string]string{"p": `{"n":{"d":{"d.json":{}}}}`},
			findings: []string{
				`n/d/d.json: converted into PlacementPolicy "p": as its data`, "n/p/p.rego: converted",
				"n/p/p.rego: warning: the policy reads data.acme, which spec.data does not have",
				`n/p/p.rego: warning: the policy reads data.n.d["other.json"].x, which no ConfigMap has`,
			},
		},
		"RuleOfTheContract": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "p.rego", fmt.Sprintf(v1, "p")+`
clusters contains "a" if input.spec
`),
				policies("n", "q", "q.rego", `package q

clusters contains "a"
`),
			},
			policies: []string{"p v1 n/p/p.rego"},
			findings: []string{
				"n/p/p.rego: converted", "n/p/p.rego: warning: the policy defines the rule clusters, which clients of OPA do not query, but Berth evaluates as a part of the decision: rename it",
				"n/q/q.rego: left out: its package q defines none of annotations, labels, errors, warnings",
			},
		},
		"Denials": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "p.rego", fmt.Sprintf(v1, "p")+`
deny contains "no" if input.spec
`),
				policies("n", "q", "q.rego", `package q

errors := deny

deny contains "no" if input.spec
`),
			},
			policies: []string{"p v1 n/p/p.rego", "q v1 n/q/q.rego"},
			findings: []string{
				"n/p/p.rego: converted", "n/p/p.rego: warning: p.rego:5:1: the rule deny decides nothing",
				"n/q/q.rego: converted",
			},
		},
		"OldNames": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", `package p

annotations["a"] = x { x := json_marshal(input.resource.spec) }

errors["no"] { to_number(input.resource.spec.size) > 3 }
`)},
			policies: []string{"p v0 n/p/p.rego"},
			findings: []string{
				"n/p/p.rego: warning: input.resource is replaced by input, as it is called today", "n/p/p.rego: warning: json_marshal is replaced by json.marshal, as it is called today",
				"n/p/p.rego: converted", "n/p/p.rego: warning: the policy's denials call to_number: where such a function fails",
			},
		},
		"LookupUnderNot": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", `package p

customers = {"a": 1}

errors["no"] { not customers[input.metadata.labels.customer] }
`)},
			policies: []string{"p v0 n/p/p.rego"},
			findings: []string{"n/p/p.rego: converted", "n/p/p.rego: warning: p.rego:5:16: not customers[input.metadata.labels.customer]: where input.metadata.labels.customer is undefined"},
		},
		"Kind": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", `package p

labels.a := "b" if input.kind == "ReplicaSet"

labels.b := "b" if "Deployment" == input.kind
`)},
			policies: []string{"p v1 n/p/p.rego"},
			findings: []string{"n/p/p.rego: converted", `n/p/p.rego: warning: the policy compares input.kind with "ReplicaSet", but does not match replicasets: name that type by --resource, and those that the policy matches`},
		},
		"HugeText": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", fmt.Sprintf(v1, "p")+"# "+strings.Repeat("x", 65536))},
			findings:   []string{"n/p/p.rego: left out: the policy of this package would have a text of"},
		},
		"HugeData": {
			configMaps: []corev1.ConfigMap{
				policies("n", "p", "p.rego", `package p

labels := data.n.d
`),
				data("n", "d", "a.json", `{"a":"`+strings.Repeat("x", 600000)+`"}`, "b.json", `{"a":"`+strings.Repeat("x", 600000)+`"}`),
			},
			findings: []string{"n/d/a.json: not needed", "n/d/b.json: not needed", "n/p/p.rego: left out: the policy of this package would take"},
		},
		"Ambiguous": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", `package p

labels := {}
if { input.x }
`)},
			findings: []string{"n/p/p.rego: left out: the module means one thing in Rego v0 and another in v1: say which by --rego-version"},
		},
		"LanguageIsSaid": {
			configMaps: []corev1.ConfigMap{policies("n", "p", "p.rego", `package p

labels = {"a": "b"}
`)},
			change:   func(o *migration.Options) { o.Language = placementv1.RegoV0 },
			policies: []string{"p v0 n/p/p.rego"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := options()
			if tc.change != nil {
				tc.change(&o)
			}
			result := migration.Convert(tc.configMaps, o)
			var got []string
			for _, p := range result.Policies {
				got = append(got, fmt.Sprintf("%s %s %s", p.Object.Name, p.Object.Spec.RegoVersion, p.Object.Annotations[migration.ModulesAnnotation]))
				if want, ok := tc.data[p.Object.Name]; ok {
					if diff := cmp.Diff(want, string(p.Object.Spec.Data.Raw)); diff != "" {
						t.Errorf("data of %s (-want +got):\n%s", p.Object.Name, diff)
					}
				} else if p.Object.Spec.Data != nil {
					t.Errorf("%s has data: %s", p.Object.Name, p.Object.Spec.Data.Raw)
				}
				if want, ok := tc.reads[p.Object.Name]; ok {
					var reads []string
					for _, r := range p.Reads {
						reads = append(reads, r.String())
					}
					if diff := cmp.Diff(want, reads); diff != "" {
						t.Errorf("reads of %s (-want +got):\n%s", p.Object.Name, diff)
					}
				}
			}
			if diff := cmp.Diff(tc.policies, got); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
			findings := beginnings(result, tc.findings)
			if tc.findings == nil {
				for _, f := range result.Findings {
					if f.Outcome != migration.Converted {
						t.Errorf("finding: %s", f)
					}
				}
			} else if diff := cmp.Diff(tc.findings, findings); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			slices.Reverse(tc.configMaps)
			if diff := cmp.Diff(result, migration.Convert(tc.configMaps, o), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("in another order (-first +second):\n%s", diff)
			}
		})
	}
}

// beginnings shortens findings to the length of the expected ones.
func beginnings(result migration.Result, want []string) []string {
	var out []string
	for i, f := range result.Findings {
		text := f.String()
		if i < len(want) && strings.HasPrefix(text, want[i]) {
			text = want[i]
		}
		out = append(out, text)
	}
	return out
}

// TestSpec checks the complete spec of a policy. The Rego of a single module is copied byte by byte.
func TestSpec(t *testing.T) {
	result := migration.Convert([]corev1.ConfigMap{policies("ns", "cm", "key.rego", seedConflicts)}, options())
	want := &placementv1.PlacementPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "placement.berth.dev/v1alpha1", Kind: "PlacementPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "cm",
			Labels:      map[string]string{"placement.berth.dev/migrated-from": "configmaps"},
			Annotations: map[string]string{"placement.berth.dev/migrated-modules": "ns/cm/key.rego"},
		},
		Spec: placementv1.PlacementPolicySpec{
			Match:         placementv1.Match{ResourceRules: options().Resources},
			Rego:          seedConflicts,
			RegoVersion:   placementv1.RegoV0,
			Mode:          placementv1.ModeDryRun,
			FailurePolicy: placementv1.FailurePolicyFail,
			Remediation:   placementv1.Remediation{Mode: placementv1.RemediationManual},
		},
	}
	if diff := cmp.Diff([]*placementv1.PlacementPolicy{want}, []*placementv1.PlacementPolicy{result.Policies[0].Object}); diff != "" {
		t.Error(diff)
	}
}

// TestJoinedText checks that the Rego joined from several modules is readable.
func TestJoinedText(t *testing.T) {
	result := migration.Convert([]corev1.ConfigMap{
		policies("opa", "placement", "main.rego", mainV0, "errors.rego", errorsV0),
		policies("opa", "lib", "regions.rego", regionsV0),
	}, options())
	want := `package kubernetes.placement

import data.kubernetes.clusters
import data.opa.customers as customers

# From opa/placement/errors.rego.

errors[message] {
	not lib_regions_names[home]
	message := sprintf("%v is no region", [home])
}

# From opa/placement/main.rego.

# Where workloads of customers may run.

annotations["example.com/clusters"] = concat(",", sort(names)) {
	names := [name | allowed[name]]
}

allowed[name] {
	clusters[name]
	lib_regions_same(clusters[name].status.region, home)
}

home = region { region := customers["customers.json"][input.metadata.labels.customer].region }

# From opa/lib/regions.rego.

# Of these there are few.
lib_regions_names = {"eu", "us"}

lib_regions_same(x, y) { lower(x) == lib_regions_short(y) }

lib_regions_same(x, y) { lib_regions_names[x]; x == lib_regions_short(y) } { x == "any" }

lib_regions_short(x) = y { y := split(x, "-")[0] } else = "none" { not x }

default lib_regions_unused = false
`
	if len(result.Policies) != 1 {
		t.Fatalf("findings: %v", result.Findings)
	}
	if diff := cmp.Diff(want, result.Policies[0].Object.Spec.Rego); diff != "" {
		t.Error(diff)
	}
}
