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

package simulation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

const secretive = fleet + `
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: shop, labels: {kind: bearer}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
data: {token: c2VjcmV0}
stringData: {other: secret}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}, managedFields: [{manager: kubectl}]}
spec: {nodeName: n1, containers: [{name: main, image: confidential}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: unread, namespace: shop}
data: {key: unread}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: reader}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: Enforce
  rego: |
    package reader

    annotations["example.com/nodes"] := [pod.spec.nodeName | some pod in data.kubernetes.pods[input.metadata.namespace]]

    annotations["example.com/secrets"] := [[name, secret.metadata.labels.kind] | some name, secret in data.kubernetes.secrets[input.metadata.namespace]]`

// decisions returns the changes that policies make to each object that they match.
func decisions(t *testing.T, s *simulation.Simulation) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for o, err := range s.Matched(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		verdicts, err := s.Verdicts(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Err != nil {
				t.Error(v.Err)
			}
			for _, c := range v.Changes {
				out[simulation.Describe(o.Content)] = append(out[simulation.Describe(o.Content)], v.Policy.Name+": "+c.Action())
			}
		}
	}
	return out
}

// TestSnapshot checks that decisions on a snapshot are those of the cluster, and that it has nothing that policies do not
// read.
func TestSnapshot(t *testing.T) {
	s := newSimulation(t, secretive)
	want := decisions(t, s)
	if len(want) != 2 {
		t.Fatalf("decisions: %v", want)
	}
	snapshot, err := s.Snapshot(t.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaked := range []string{"c2VjcmV0", "stringData", "confidential", "unread", "managedFields", "last-applied"} {
		if strings.Contains(string(text), leaked) {
			t.Errorf("the snapshot contains %q", leaked)
		}
	}
	again, err := simulation.New(t.Context(), recorded(t, s.Cluster()), simulation.Options{OwnNamespace: "berth-system"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decisions(t, again)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// recorded returns the cluster that a snapshot of another one contains.
func recorded(t *testing.T, from simulation.Cluster, changes ...func(*simulation.Simulation, *simulation.Snapshot)) *simulation.Static {
	t.Helper()
	s, err := simulation.New(t.Context(), from, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Snapshot(t.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(s, snapshot)
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := simulation.DecodeSnapshot(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := decoded.Cluster(replication.Known())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRedact checks which names and values are hashed.
func TestRedact(t *testing.T) {
	text := strings.Replace(fleet, `    annotations["example.com/region"] := input.metadata.labels.region`, "", 1)
	for _, replaced := range []string{"labels: {region: eu}}\nspec: {template: {spec: {containers: [{name: main, image: web}]}}}\n---"} {
		text = strings.Replace(text, replaced, "labels: {region: eu, owner: alice}, annotations: {contact: alice@example.com}}\nspec: {}\n---", 1)
	}
	s := newSimulation(t, text)
	snapshot, err := s.Snapshot(t.Context(), simulation.KubernetesDiscovery())
	if err != nil {
		t.Fatal(err)
	}
	s.Redact(snapshot)
	encoded, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"alice", `"name":"web"`} {
		if strings.Contains(string(encoded), secret) {
			t.Errorf("the redacted snapshot contains %s", secret)
		}
	}
	for _, needed := range []string{`"region":"eu"`, `"name":"eu-1"`, `"namespace":"shop"`, `"owner":"redacted-`, `"name":"redacted-`} {
		if !strings.Contains(string(encoded), needed) {
			t.Errorf("the redacted snapshot lacks %s: %s", needed, encoded)
		}
	}
}

// TestBadSnapshots checks that the errors say what to do.
func TestBadSnapshots(t *testing.T) {
	for text, want := range map[string]string{
		"no JSON": "not a snapshot",
		`{"kind":"ClusterSnapshot","apiVersion":"config.berth.dev/v1alpha1","discovery":{"groups":[null]}}`: "discovery has an empty entry",
		`{"kind":"ClusterSnapshot"}`:                                                                      "record it again with this version of the plugin",
		`{"kind":"ClusterSnapshot","apiVersion":"config.berth.dev/v1"}`:                                   "must be config.berth.dev/v1alpha1",
		`{"kind":"ClusterSnapshot","apiVersion":"config.berth.dev/v1alpha1","more":1}`:                    `unknown field "more"`,
		`{"kind":"ClusterSnapshot","apiVersion":"config.berth.dev/v1alpha1","discovery":{},"objects":{}}`: "not a snapshot, or a damaged one",
	} {
		if _, err := simulation.DecodeSnapshot([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestFind checks how users may name a type.
func TestFind(t *testing.T) {
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), parse(t, fleet)...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"deployments": "deployments.apps", "deployment": "deployments.apps", "deploy": "deployments.apps", "Deployment.apps": "deployments.apps", "po": "pods",
		"clusterprofile": "clusterprofiles.multicluster.x-k8s.io", "plpol": "placementpolicies.placement.berth.dev", "events.events.k8s.io": "events.events.k8s.io",
		"events": "events", "ev": "events",
	} {
		if got, err := simulation.FindType(cluster.Catalog(), name); err != nil || got.GroupResource().String() != want {
			t.Errorf("%s: %v, error %v, want %s", name, got.GroupResource(), err, want)
		}
	}
	if _, err := simulation.FindType(cluster.Catalog(), "deploymnet"); err == nil || !strings.Contains(err.Error(), "did you mean deployments?") {
		t.Errorf("error %v", err)
	}
}
