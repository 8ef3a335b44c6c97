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

package replication_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/replication"
)

var update = flag.Bool("update", false, "write the golden files anew")

// inventories are the built-in inventories.
var inventories = replication.Known().Resources()

// resources maps the file names of the cases in testdata to inventories.
var resources = map[string]schema.GroupVersionResource{
	"clusterprofile":         inventories[0],
	"clusterprofile-minimal": inventories[0],
	"managedcluster":         inventories[1],
	"managedcluster-down":    inventories[1],
	"karmada":                inventories[2],
	"karmada-labels":         inventories[2],
	"membercluster":          inventories[3],
	"membercluster-beta":     inventories[4],
	"declared":               sites,
}

func TestClusterGolden(t *testing.T) {
	for name, resource := range resources {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var obj map[string]any
			if err := yaml.Unmarshal(text, &obj); err != nil {
				t.Fatal(err)
			}
			before := (&unstructured.Unstructured{Object: obj}).DeepCopy().Object
			document, ok := mustDeclare(t, declaredSites).Cluster(resource, obj)
			if !ok {
				t.Fatal("is no cluster")
			}
			if diff := cmp.Diff(before, obj); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			got, err := json.MarshalIndent(document, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("normal form (-want +got):\n%s", cmp.Diff(string(want), string(got)))
			}
		})
	}
}

// TestClusterHasItsFields checks that every document has the same fields, for any inventory and any malformed object.
func TestClusterHasItsFields(t *testing.T) {
	objects := map[string]string{
		"Empty":   `{}`,
		"Name":    `{"metadata": {"name": "a"}}`,
		"Strange": `{"metadata": {"name": 1, "labels": [1], "annotations": "x"}, "spec": {"taints": {}, "zones": "a", "provider": 3}, "status": {"properties": 7, "conditions": [null, 1, {"type": 2}], "clusterClaims": [{"name": 1}, "x"], "version": "v1", "capacity": []}}`,
		"Nulls":   `{"metadata": null, "spec": null, "status": null}`,
	}
	for name, text := range objects {
		for _, inventory := range inventories {
			t.Run(name+"_"+inventory.Resource+"_"+inventory.Version, func(t *testing.T) {
				var obj map[string]any
				if err := json.Unmarshal([]byte(text), &obj); err != nil {
					t.Fatal(err)
				}
				document, ok := replication.Known().Cluster(inventory, obj)
				if !ok {
					t.Fatal("is no cluster")
				}
				for field, example := range map[string]any{
					"name": "", "namespace": "", "source": "", "labels": map[string]any{}, "annotations": map[string]any{},
					"properties": map[string]any{}, "taints": []any{}, "ready": false, "terminating": false,
				} {
					value, ok := document[field]
					if !ok {
						t.Errorf("no %s", field)
						continue
					}
					switch example.(type) {
					case string:
						_, ok = value.(string)
					case bool:
						ok = value == false
					case []any:
						_, ok = value.([]any)
					case map[string]any:
						_, ok = value.(map[string]any)
					}
					if !ok {
						t.Errorf("%s is %v", field, value)
					}
				}
				for _, field := range []string{"region", "zones", "provider", "version", "capacity", "allocatable", "allocated"} {
					if value, ok := document[field]; ok {
						t.Errorf("%s is %v; what is not known has no field", field, value)
					}
				}
			})
		}
	}
	if _, ok := replication.Known().Cluster(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, map[string]any{}); ok {
		t.Error("a node is a cluster")
	}
	if _, ok := replication.Known().Cluster(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}, map[string]any{}); ok {
		t.Error("a cluster of another group is in the inventory")
	}
}

func TestStrip(t *testing.T) {
	const object = `
metadata:
  name: a
  managedFields: [{manager: kubectl}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    keep: me
data: {password: eA==}
stringData: {password: x}
spec: {managedFields: kept}
`
	const stripped = `
metadata:
  name: a
  annotations: {keep: me}
spec: {managedFields: kept}
`
	tests := map[string]struct {
		resource schema.GroupResource
		want     string
	}{
		"Secret":          {schema.GroupResource{Resource: "secrets"}, stripped},
		"ConfigMap":       {schema.GroupResource{Resource: "configmaps"}, stripped + "data: {password: eA==}\nstringData: {password: x}\n"},
		"SecretsOfOthers": {schema.GroupResource{Group: "example.com", Resource: "secrets"}, stripped + "data: {password: eA==}\nstringData: {password: x}\n"},
	}
	parse := func(text string) map[string]any {
		var out map[string]any
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := &unstructured.Unstructured{Object: parse(object)}
			replication.Strip(tc.resource, got)
			if diff := cmp.Diff(parse(tc.want), got.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			replication.Strip(tc.resource, got)
			if diff := cmp.Diff(parse(tc.want), got.Object); diff != "" {
				t.Errorf("stripped twice (-want +got):\n%s", diff)
			}
		})
	}
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	replication.Strip(schema.GroupResource{Resource: "secrets"}, bare)
	if len(bare.Object) != 0 {
		t.Errorf("object %v", bare.Object)
	}
}

// FuzzCluster checks that no object in an inventory breaks the replication.
func FuzzCluster(f *testing.F) {
	for name := range resources {
		text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			f.Fatal(err)
		}
		encoded, err := yaml.YAMLToJSON(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(encoded))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var obj map[string]any
		if json.NewDecoder(strings.NewReader(text)).Decode(&obj) != nil {
			t.Skip()
		}
		for _, inventory := range inventories {
			document, ok := replication.Known().Cluster(inventory, obj)
			if !ok {
				t.Fatal("is no cluster")
			}
			if _, err := json.Marshal(document); err != nil {
				t.Fatal(err)
			}
		}
	})
}
