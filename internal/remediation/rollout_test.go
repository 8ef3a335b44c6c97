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

package remediation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// TestRolloutOf checks objects with the fields that are watched, and no others.
func TestRolloutOf(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   remediation.Rollout
	}{
		"a Deployment that is available": {`
apiVersion: apps/v1
kind: Deployment
metadata: {uid: u, generation: 3}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [
  {type: Progressing, status: "True", reason: NewReplicaSetAvailable}, {type: Available, status: "True"}]}
`, remediation.Rollout{UID: "u", Generation: 3, Ready: true}},
		"a Deployment whose controller has not seen the change": {`
apiVersion: apps/v1
kind: Deployment
metadata: {uid: u, generation: 4}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [
  {type: Progressing, status: "True", reason: NewReplicaSetAvailable}, {type: Available, status: "True"}]}
`, remediation.Rollout{UID: "u", Generation: 4}},
		"a Deployment that replaces pods": {`
apiVersion: apps/v1
kind: Deployment
metadata: {uid: u, generation: 4}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 4, replicas: 3, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2, conditions: [
  {type: Progressing, status: "True", reason: ReplicaSetUpdated}, {type: Available, status: "True"}]}
`, remediation.Rollout{UID: "u", Generation: 4}},
		"a Deployment that exceeds its deadline": {`
apiVersion: apps/v1
kind: Deployment
metadata: {uid: u, generation: 4}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 4, replicas: 3, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2, conditions: [
  {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}, {type: Available, status: "True"}]}
`, remediation.Rollout{UID: "u", Generation: 4, Failure: "Progress deadline exceeded"}},
		"a DaemonSet that replaces pods": {`
apiVersion: apps/v1
kind: DaemonSet
metadata: {generation: 2}
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 1, numberReady: 3, numberAvailable: 3}
`, remediation.Rollout{Generation: 2}},
		"a DaemonSet whose pods a user replaces": {`
apiVersion: apps/v1
kind: DaemonSet
metadata: {generation: 2}
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 1, desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 1, numberReady: 3, numberAvailable: 3}
`, remediation.Rollout{Generation: 2, Ready: true}},
		"a Deployment that is paused": {`
apiVersion: apps/v1
kind: Deployment
metadata: {generation: 4}
spec: {replicas: 2, paused: true}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 0, readyReplicas: 2, availableReplicas: 2}
`, remediation.Rollout{Generation: 4, Ready: true}},
		"a DaemonSet that is being deleted": {`
apiVersion: apps/v1
kind: DaemonSet
metadata: {generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {updateStrategy: {type: OnDelete}}
`, remediation.Rollout{Generation: 2}},
		"an object of another kind that says it is ready": {`
apiVersion: example.com/v1
kind: Workload
metadata: {generation: 2}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}
`, remediation.Rollout{Generation: 2, Ready: true}},
		"an object of another kind that says it is stalled": {`
apiVersion: example.com/v1
kind: Workload
metadata: {generation: 2}
status: {observedGeneration: 2, conditions: [{type: Stalled, status: "True", message: no image}]}
`, remediation.Rollout{Generation: 2, Failure: "no image"}},
		"a malformed status": {`
apiVersion: example.com/v1
kind: Workload
metadata: {generation: 2}
status: {conditions: 5}
`, remediation.Rollout{Generation: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			full := &unstructured.Unstructured{}
			text, err := yaml.YAMLToJSON([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			if err := full.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			cut := remediation.RolloutFields().Project(full.Object)
			cut["apiVersion"], cut["kind"] = full.Object["apiVersion"], full.Object["kind"]
			got := remediation.RolloutOf(&unstructured.Unstructured{Object: cut})
			// The watch has the UID of every object.
			got.UID = full.GetUID()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObserves checks of which types remediation observes rollouts: of those whose objects replace their pods when the template changes.
func TestObserves(t *testing.T) {
	p := &placement.Policy{Remediation: placementv1.RemediationAutomatic, Mode: placementv1.ModeEnforce, Schedules: true}
	for resource, want := range map[string]bool{
		"deployments.apps": true, "statefulsets.apps": true, "daemonsets.apps": true, "workloads.example.com": true,
		"pods": false, "jobs.batch": false, "cronjobs.batch": false, "replicasets.apps": false, "replicationcontrollers": false, "podtemplates": false,
	} {
		if got := remediation.Observes(p, schema.ParseGroupResource(resource)); got != want {
			t.Errorf("%s: %v, not %v", resource, got, want)
		}
	}
}
