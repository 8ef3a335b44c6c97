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

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestRecordedIn checks which values a reader of an object without rights on policies can know of its record.
func TestRecordedIn(t *testing.T) {
	const recorded = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {tier: gold, app: web}
  annotations:
    placement.berth.dev/clusters: '["eu-1"]'
    placement.berth.dev/requested: >-
      {"annotations": {"placement.berth.dev/clusters": {"by": "eu", "set": "x", "requested": "[\"eu-1\",\"us-1\"]"}},
      "labels": {"tier": {"by": "tiers", "set": "y"}}, "scheduling": {"nodeSelector/pool": {"by": "pools", "set": "z"},
      "affinity/zones": {"by": "zones", "set": "a", "value": "{}"}}, "signature": "no one has verified it"}
spec:
  template:
    spec: {nodeSelector: {pool: fast}, containers: [{name: a, image: a}]}
`
	for name, test := range map[string]struct {
		text string
		path []string
		want []Recorded
	}{
		"Recorded": {recorded, []string{"spec", "template", "spec"}, []Recorded{
			{Field: "annotations", Key: "placement.berth.dev/clusters", Policy: "eu", Current: new(`["eu-1"]`), Requested: new(`["eu-1","us-1"]`)},
			{Field: "labels", Key: "tier", Policy: "tiers", Current: new("gold")},
			{Field: "scheduling", Key: "affinity/zones", Policy: "zones", Current: new("{}")},
			{Field: "scheduling", Key: "nodeSelector/pool", Policy: "pools", Current: new("fast")},
		}},
		"NoRecord":     {"metadata: {name: a, annotations: {a: b}}", nil, nil},
		"Unreadable":   {"metadata: {name: a, annotations: {placement.berth.dev/requested: no record}}", nil, nil},
		"WithoutPods":  {"metadata: {labels: {a: b}, annotations: {placement.berth.dev/requested: '{\"labels\": {\"a\": {\"set\": \"x\"}}}'}}", nil, []Recorded{{Field: "labels", Key: "a", Current: new("b")}}},
		"NotThereNow":  {"metadata: {annotations: {placement.berth.dev/requested: '{\"labels\": {\"a\": {\"by\": \"p\", \"set\": \"x\"}}}'}}", nil, []Recorded{{Field: "labels", Key: "a", Policy: "p"}}},
		"NoPodsOfItem": {"metadata: {annotations: {placement.berth.dev/requested: '{\"scheduling\": {\"schedulerName\": {\"set\": \"x\"}}}'}}", nil, []Recorded{{Field: "scheduling", Key: "schedulerName"}}},
	} {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(test.text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, RecordedIn(obj, test.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
