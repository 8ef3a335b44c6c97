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

package deliverer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/delivery"
)

// TestContentPatch checks what is replaced of an object in which other clients set more than Berth applies.
func TestContentPatch(t *testing.T) {
	const want = `
apiVersion: policy.karmada.io/v1alpha1
metadata: {name: web}
spec:
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`
	kind := delivery.Kind{Whole: "spec.placement", Others: "clusterTolerations"}
	for what, tc := range map[string]struct {
		live, patch string
		exceeds     bool
	}{
		"the same":       {want, "{}", false},
		"metadata alone": {"metadata: {name: web, labels: {a: b}}\n" + want[len("\napiVersion: policy.karmada.io/v1alpha1\nmetadata: {name: web}\n"):], "{}", false},
		"no content":     {"metadata: {name: web}", "spec: {resourceSelectors: [{kind: Deployment, name: web}], placement: {clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}}", false},
		"another field": {`
spec:
  suspension: {dispatching: true}
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "{}", false},
		"a field of the system": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {clusterTolerations: [{key: a}], clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "{}", false},
		"a field of its name deeper": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [eu-1], clusterTolerations: []}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "spec: {placement: {clusterAffinity: {clusterTolerations: null}}}", true},
		"in place of a field": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {clusterAffinities: [{clusterNames: [us-1]}], replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "spec: {placement: {clusterAffinities: null, clusterAffinity: {clusterNames: [eu-1]}}}", true},
		"an empty list": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {spreadConstraints: [], clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "spec: {placement: {spreadConstraints: null}}", true},
		"a member of an item": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1, exclude: true}]}}
`, "spec: {placement: {replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}}", true},
		"a member of an item elsewhere": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web, namespace: default}]
  placement: {clusterAffinity: {clusterNames: [eu-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "{}", false},
		"more items": {`
spec:
  resourceSelectors: [{kind: Deployment, name: web}, {kind: Secret}]
  placement: {clusterAffinity: {clusterNames: [eu-1, us-1]}, replicaScheduling: {weights: [{cluster: eu-1, weight: 1}]}}
`, "spec: {resourceSelectors: [{kind: Deployment, name: web}], placement: {clusterAffinity: {clusterNames: [eu-1]}}}", false},
	} {
		t.Run(what, func(t *testing.T) {
			live, body := &unstructured.Unstructured{Object: object(t, tc.live)}, &unstructured.Unstructured{Object: object(t, want)}
			if diff := cmp.Diff(object(t, tc.patch), contentPatch(kind, live.Object, body.Object)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if got := exceeds(kind, live, body); got != tc.exceeds {
				t.Errorf("exceeds: %t", got)
			}
			if exceeds(delivery.Kind{}, live, body) {
				t.Error("exceeds although nothing is Berth's as a whole")
			}
		})
	}
}

// TestDefaultsOfTheSystem checks that what the system itself adds is replaced once, and again when another client changes it.
func TestDefaultsOfTheSystem(t *testing.T) {
	kind := delivery.Kind{GroupVersionResource: policies, Whole: "spec"}
	r, body := newRecorder(), stored(karmadaPolicy("a"))
	id := idOf(body)
	live := body.DeepCopy()
	live.Object["spec"].(map[string]any)["added"] = "by the webhook"
	if r.delivered.put(policies, live); !r.exceeds(kind, id, live, body) {
		t.Error("what the system adds is not noticed")
	}
	r.delivered.setDefaults(id, wholeOf(kind, live))
	later := live.DeepCopy()
	later.SetResourceVersion("6")
	if r.delivered.put(policies, later); r.exceeds(kind, id, later, body) {
		t.Error("what the system adds is replaced again")
	}
	later.Object["spec"].(map[string]any)["added"] = "by another client"
	if !r.exceeds(kind, id, later, body) {
		t.Error("what another client changed is not noticed")
	}
	other := live.DeepCopy()
	other.SetUID("8")
	if r.delivered.put(policies, other); !r.exceeds(kind, id, other, body) {
		t.Error("another object has the defaults of the one before")
	}
}
