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

package delivery

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

const kueueGroup = "kueue.x-k8s.io"

// maxNominated is the maximum number of clusters that the status of a Workload of Kueue can nominate.
const maxNominated = 20

// workloadKind is the kind of Workloads of Kueue. MultiKueue copies a Workload to the clusters in status.nominatedClusterNames, and
// removes it from others. The first cluster that admits it becomes status.clusterName.
//
// Berth writes the field as an external dispatcher. The configuration of Kueue must have a multiKueue.dispatcherName other than
// the built-in ones. The controller may apply the status only while all of these hold:
//
//   - The Workload is not being deleted, and has no condition Finished that is true.
//   - It has the condition QuotaReserved that is true. While its condition Evicted is true, the field is cleared.
//   - The state of an admission check is Pending. The status does not tell which one is that of MultiKueue.
//   - status.clusterName is not set. It excludes the field, and the API server refuses both.
//
// MultiKueue waits until the other admission checks are ready. It reports an error for clusters that the MultiKueueConfig of the
// admission check does not have.
//
// When Kueue sets clusterName, it must be able to clear a field that Berth owns. It is, if the MutatingAdmissionPolicy
// clear-nominated-cluster-names is installed, or if the feature gate WorkloadRequestUseMergePatch of Kueue is enabled. The controller
// must not apply the status as Kueue's field manager, kueue-admission: this would remove the fields of the status that
// Kueue applied.
var workloadKind = Kind{
	GroupVersionResource: schema.GroupVersionResource{Group: kueueGroup, Version: "v1beta2", Resource: "workloads"},
	Kind:                 "Workload",
	Namespaced:           true,
	Status:               true,
	Existing:             true,
}

// multiKueue delivers by the nominated clusters in the status of a matched Workload of Kueue.
var multiKueue = System{
	Name:        "kueue",
	Title:       "MultiKueue",
	ClusterRole: "berth-delivery-kueue",
	Kinds:       []Kind{workloadKind},
	render:      renderWorkload,
	runsNative:  runOfWorkload,
}

// MayApplyStatus reports whether Berth may now apply the status of an object of the kind. A Workload of Kueue must have reserved quota and
// a pending admission check, must have no chosen cluster, and must be neither evicted nor finished. Whether it is being deleted does not
// matter. For other kinds, the result is always true.
func (k Kind) MayApplyStatus(object *unstructured.Unstructured) bool {
	return k != workloadKind || mayNominate(object.Object)
}

// StartsByStatus reports whether, when Berth applies the status of a placed object of a type, the system may start the object in a cluster
// where it does not run yet. It is true for Workloads of Kueue alone.
func StartsByStatus(resource schema.GroupResource) bool {
	return resource == workloadKind.GroupResource()
}

// mayNominate reports whether Berth may now nominate clusters for a Workload of Kueue: quota is reserved, at least one admission check, of
// whichever controller, is pending, no cluster was chosen, and the Workload is neither evicted nor finished.
func mayNominate(workload map[string]any) bool {
	is := conditionsOf(workload)
	return len(checksIn("Pending", workload)) > 0 && chosenBy(workload) == "" && is["QuotaReserved"] == metav1.ConditionTrue &&
		is["Evicted"] != metav1.ConditionTrue && is["Finished"] != metav1.ConditionTrue
}

// Withdrawal returns the status that makes Kueue take a Workload out of all clusters, if applying d does not take it out of those that are
// not decided any more: it has no nominated clusters, and the state Retry, since now, for the admission check. It is needed if object, the
// Workload as it is, nominates a cluster that d does not, while exactly one of its admission checks is pending. Otherwise, and for other
// kinds than Workload of Kueue, the result is nil.
//
// A cluster may admit a Workload of Kueue just when its nomination ends. MultiKueue then runs the Workload there, and its webhook refuses
// this cluster as clusterName, so that the Workload stays there, and no status says so. If the admission check is set to Retry, Kueue
// releases the quota, MultiKueue removes the Workload from all clusters, and clusters are nominated again.
func (d Delivered) Withdrawal(object *unstructured.Unstructured, now time.Time) *unstructured.Unstructured {
	if d.Kind != workloadKind {
		return nil
	}
	nominated, _, _ := unstructured.NestedStringSlice(object.Object, "status", "nominatedClusterNames")
	wanted, _, _ := unstructured.NestedStringSlice(d.Object.Object, "status", "nominatedClusterNames")
	pending := checksIn("Pending", object.Object)
	// MultiKueue waits until the other checks are ready before it copies the Workload to any cluster.
	if len(pending) != 1 || !slices.ContainsFunc(nominated, func(name string) bool { return !slices.Contains(wanted, name) }) {
		return nil
	}
	out := d.Object.DeepCopy()
	out.Object["status"] = map[string]any{"nominatedClusterNames": []any{}, "admissionChecks": []any{map[string]any{
		"name": pending[0], "state": "Retry", "lastTransitionTime": now.UTC().Format(time.RFC3339),
		"message": "Berth decides other clusters than those nominated: Kueue withdraws the Workload, and Berth nominates clusters again",
	}}}
	return out
}

// checksIn returns the names of those admission checks in the status of a Workload of Kueue that have the given state.
func checksIn(state string, workload map[string]any) []string {
	var out []string
	checks, _, _ := unstructured.NestedSlice(workload, "status", "admissionChecks")
	for _, c := range checks {
		check, _ := c.(map[string]any)
		if name, _ := check["name"].(string); check["state"] == state {
			out = append(out, name)
		}
	}
	return out
}

// conditionsOf returns the status of the conditions of a Workload of Kueue, by type.
func conditionsOf(workload map[string]any) map[string]metav1.ConditionStatus {
	out := map[string]metav1.ConditionStatus{}
	conditions, _, _ := unstructured.NestedSlice(workload, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		kind, _ := condition["type"].(string)
		status, _ := condition["status"].(string)
		out[kind] = metav1.ConditionStatus(status)
	}
	return out
}

// isOrphaned reports whether a Workload has the condition Finished, with any status, and with the reason OwnerNotFound: Kueue finished it
// because its owner no longer exists.
func isOrphaned(workload map[string]any) bool {
	conditions, _, _ := unstructured.NestedSlice(workload, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Finished" && condition["reason"] == "OwnerNotFound"
	})
}

// chosenBy returns the cluster that MultiKueue chose for a Workload; "" for none.
func chosenBy(workload map[string]any) string {
	chosen, _, _ := unstructured.NestedString(workload, "status", "clusterName")
	return chosen
}

// runOfWorkload reports whether a Workload of Kueue runs in the cluster that MultiKueue chose, and whether that cluster is one of the
// decided ones. It counts as running if it is admitted and the condition PodsReady, which is that of the cluster, is not False. Remains is
// set if the chosen cluster is not decided, since MultiKueue never moves a Workload that it dispatched, and while Kueue has yet to take it
// out of the clusters nominated before. For a Workload that is finished, the state is NotReported, unless Kueue finished it because its
// owner no longer exists, and the chosen cluster is not decided.
//
// A Workload loses its owner if a client deletes the Job and orphans its dependents. Usually, Kueue takes the Workload out of its cluster
// before that. If it did not run, or did not reach the cluster, MultiKueue leaves the Workload there as long as it exists on the manager,
// because it can't tell any more which kind of object to remove.
//
// If a cluster admits a Workload just when its nomination ends, MultiKueue runs it there, and its webhook refuses that clusterName. So no
// status says where it runs: a Workload without a chosen cluster never counts as running.
func runOfWorkload(workload map[string]any, clusters []string) Run {
	is, chosen := conditionsOf(workload), chosenBy(workload)
	missing := func(why string) Run { return Run{State: NotRunning, Message: why} }
	switch {
	case is["Finished"] == metav1.ConditionTrue && chosen != "" && !slices.Contains(clusters, chosen) && isOrphaned(workload):
		return Run{State: NotRunning, Remains: true, Message: fmt.Sprintf(
			"the owner of the Workload was deleted, and MultiKueue may have left the Job in cluster %s: delete the Workload", chosen)}
	case is["Finished"] == metav1.ConditionTrue:
		return Run{}
	case chosen == "" && len(checksIn("Retry", workload)) > 0:
		return Run{State: NotRunning, Remains: true, Message: "Kueue has not withdrawn the Workload yet from the clusters that were " +
			"nominated before"}
	case chosen == "" && is["QuotaReserved"] != metav1.ConditionTrue:
		return missing("Kueue has not reserved quota for the Workload yet")
	case chosen == "":
		return missing("MultiKueue has not chosen a cluster for the Workload yet")
	case !slices.Contains(clusters, chosen):
		return Run{State: NotRunning, Remains: true, Message: fmt.Sprintf(
			"the Workload still runs in cluster %s, which is none of the decided ones, and MultiKueue moves no Workload: "+
				"delete the Job that owns it, and create the Job again", chosen)}
	case is["Admitted"] != metav1.ConditionTrue:
		return missing("cluster " + chosen + ": Kueue has not admitted the Workload yet")
	case is["PodsReady"] == metav1.ConditionFalse:
		return missing("cluster " + chosen + ": the pods of the Workload are not ready")
	}
	return Run{State: Running}
}

// renderWorkload returns the Workload with the decided clusters as nominated clusters: of more than maxNominated, the first by name, and
// Note says so. It never returns an error.
func renderWorkload(object Object, decision Decision, _ *placementv1.Delivery) ([]Delivered, error) {
	clusters, note := decision.Clusters, ""
	if len(clusters) > maxNominated {
		note = fmt.Sprintf("MultiKueue considers at most %d clusters; the first %d of %d by name are nominated",
			maxNominated, maxNominated, len(clusters))
		clusters = clusters[:maxNominated]
	}
	status := map[string]any{"nominatedClusterNames": asList(clusters)}
	return []Delivered{{Kind: workloadKind, Object: existingObject(workloadKind, object, status), Note: note}}, nil
}
