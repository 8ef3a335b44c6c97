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

package embedded

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
)

var clusters = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "federation.k8s.io", Version: "v1beta1", Resource: "clusters"}}

type served map[string][]policy.Resource

func (s served) ByPlural(p string) []policy.Resource { return s[p] }
func (s served) Exact(r schema.GroupVersionResource) (policy.Resource, bool) {
	for _, c := range s[r.Resource] {
		if c.GroupVersionResource == r {
			return c, true
		}
	}
	return policy.Resource{}, false
}

// Inventories returns the inventories that Berth knows.
func (served) Inventories() *replication.Inventories { return replication.Known() }

const communityPolicy = `
package kubernetes.placement

import data.kubernetes.clusters

annotations["federation.kubernetes.io/replica-set-preferences"] = preferences {
	value = {"clusters": cluster_map, "rebalance": true}
	json.marshal(value, preferences)
}

errors["requested replica-set-preferences includes invalid clusters"] {
	invalid_clusters = developer_clusters - policy_defined_clusters
	invalid_clusters != set()
}

cluster_map[name] = {"weight": 1} {
	policy_defined_clusters[name]
}

policy_defined_clusters[name] {
	clusters[name].status.region = input.metadata.annotations.region
	re_match("acme", data.acmecorp.customers[_])
}

developer_clusters[name] {
	json.unmarshal(input.metadata.annotations["federation.kubernetes.io/replica-set-preferences"], prefs)
	prefs.clusters[name]
}
`

func TestCommunityPolicy(t *testing.T) {
	spec := placementv1.PlacementPolicySpec{
		Rego: communityPolicy, RegoVersion: placementv1.RegoV0,
		Data: &apiextensionsv1.JSON{Raw: []byte(`{"acmecorp":{"customers":["acme"]}}`)},
	}
	m, err := policy.Compile("p", spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := policy.Bind("p", m, nil, served{"clusters": {clusters}})
	if err != nil {
		t.Fatal(err)
	}
	d := NewData()
	e := New(d, Options{Timeout: time.Minute, Concurrency: 2})
	ev, err := e.Prepare(t.Context(), "p", m, b)
	if err != nil {
		t.Fatal(err)
	}
	var input map[string]any
	if err := json.Unmarshal([]byte(`{"metadata":{"annotations":{"region":"eu"}}}`), &input); err != nil {
		t.Fatal(err)
	}
	if _, err := ev.Evaluate(t.Context(), input); err == nil {
		t.Fatal("decided without data")
	}
	d.Replace(clusters.GroupVersionResource, []*unstructured.Unstructured{
		{Object: map[string]any{"metadata": map[string]any{"name": "c1"}, "status": map[string]any{"region": "eu"}}},
		{Object: map[string]any{"metadata": map[string]any{"name": "c2"}, "status": map[string]any{"region": "us"}}},
	})
	got, err := ev.Evaluate(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	want := placement.Decision{Annotations: map[string]string{
		"federation.kubernetes.io/replica-set-preferences": `{"clusters":{"c1":{"weight":1}},"rebalance":true}`,
	}, Errors: []string{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
