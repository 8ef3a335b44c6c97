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

package predicates

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/workload"
)

// Query selects the candidates on which a workload is evaluated, by their kind, names, and labels.
type Query struct {
	// Names are the names of the candidates; nil stands for all, and an empty list for none.
	Names []string
	// Selector selects candidates by label; nil selects all. It does not apply to names for which there is no
	// candidate.
	Selector labels.Selector
	// Kind is the kind of the candidates.
	Kind Candidates
}

// Verdict is the result of the predicates for one candidate.
type Verdict struct {
	// Name is the candidate's name.
	Name string
	// Outcome is shared between candidates with the same result, of which there may be thousands.
	*Outcome
}

// Outcome is the result for a candidate without its name: whether it is feasible and for how many replicas, or else which predicate rejects
// it and why. It is immutable.
type Outcome struct {
	// Feasible reports whether every predicate accepts the candidate.
	Feasible bool
	// Predicate is the name of the first predicate that rejects the candidate; "" if none does, and if no candidate has the name.
	Predicate string
	// Reasons are the reasons of Predicate in the wording of kube-scheduler, sorted; that it does not exist if no candidate has the name;
	// nil if Feasible.
	Reasons []string
	// Taint is the first taint of a cluster that the pod does not tolerate, if TaintToleration rejects. It is empty for
	// nodes.
	Taint string
	// Preemption reports whether the candidate may become feasible if pods on it are preempted.
	Preemption bool
	// Replicas is how many of the workload's replicas fit there at the same time; 0 if not Feasible. If a predicate reads the pods there,
	// it is at most the number that is tried (evaluation.bound), so that more may fit.
	Replicas int
}

func (v Verdict) equal(other Verdict) bool {
	return v.Name == other.Name && v.Outcome.equal(other.Outcome)
}

func (o *Outcome) equal(other *Outcome) bool {
	return o == other || o.Feasible == other.Feasible && o.Predicate == other.Predicate &&
		o.Taint == other.Taint && o.Preemption == other.Preemption && o.Replicas == other.Replicas && slices.Equal(o.Reasons, other.Reasons)
}

// Report holds the verdicts on all candidates of a query, sorted by name, and what Reevaluate needs to evaluate the same workload again.
// The verdicts are immutable.
type Report struct {
	// Kind is the kind of the candidates.
	Kind Candidates
	// Verdicts are sorted by name. A name in the query without a candidate is infeasible, with a reason that says so,
	// and without a predicate.
	Verdicts []Verdict

	// whole is the message with which a plugin rejected all candidates at once. It is empty if they were evaluated one
	// by one.
	whole string
	// set, workload, and query are those of the evaluation. Reevaluate needs them.
	set      *Set
	workload workload.Workload
	query    Query
	// validFor has the newest snapshot for which the verdicts were found to be valid.
	validFor atomic.Pointer[validity]
}

// validity is the newest snapshot for which the verdicts of a report were found to be valid, and whether each of them depended on no other
// candidate.
type validity struct {
	snapshot *Snapshot
	// local reports whether the verdict on each candidate depended on no other candidate (evaluation.local).
	local bool
}

// Estimates of the memory that reports take, in bytes.
const (
	// verdictBytes is the size of a verdict, and outcomeBytes that of an outcome with its reasons.
	verdictBytes, outcomeBytes = 24, 192
	// nodeBytes is the size of a node in the list of a snapshot. snapshotBytes is the size of what a snapshot does not
	// share with the snapshots before and after it.
	nodeBytes, snapshotBytes = 16, 4 << 10
	// encodedFactor is the ratio of the size of a pod's strings in memory to their encoded size. Containers and volumes
	// take most of their memory even if they are empty.
	encodedFactor, containerBytes, volumeBytes = 4, 1 << 10, 256
)

// EstimateBytes estimates the memory of reports on one snapshot, in bytes. It includes the parts of the snapshot and of the workloads
// that the reports keep in memory.
func EstimateBytes(reports []*Report) int {
	if len(reports) == 0 {
		return 0
	}
	n := snapshotBytes + nodeBytes*reports[0].validFor.Load().snapshot.Len()
	pods, outcomes := sets.New[*corev1.Pod](), sets.New[*Outcome]()
	for _, r := range reports {
		n += verdictBytes * len(r.Verdicts)
		for _, v := range r.Verdicts {
			outcomes.Insert(v.Outcome)
		}
		pods.Insert(r.workload.Pod)
	}
	n += outcomeBytes * len(outcomes)
	for pod := range pods {
		n += encodedFactor*pod.Size() + containerBytes*(len(pod.Spec.Containers)+len(pod.Spec.InitContainers)) +
			volumeBytes*len(pod.Spec.Volumes)
	}
	return n
}

// equal reports whether two reports have the same kind of candidates, message for all, and verdicts.
func (r *Report) equal(other *Report) bool {
	return r.Kind == other.Kind && r.whole == other.whole && slices.EqualFunc(r.Verdicts, other.Verdicts, Verdict.equal)
}

// Summary returns how many candidates there are, how many are feasible, and why the others are not, by reason in
// kube-scheduler's order. An example is "0/3 nodes fit: 1 node(s) had untolerated taint(s), 2 Insufficient cpu". For
// clusters it names the taints: "0/1 clusters fit: 1 cluster(s) had untolerated taint(s) (eu-1:
// example.com/pci:NoSchedule)".
func (r *Report) Summary() string {
	fit := framework.FitError{
		NumAllNodes: len(r.Verdicts),
		Diagnosis:   framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus(), PreFilterMsg: r.whole},
	}
	feasible := 0
	for _, v := range r.Verdicts {
		switch {
		case v.Feasible:
			feasible++
			continue
		case v.Predicate == "":
			// A message for all candidates does not apply to a name without a candidate, so count the reasons instead.
			fit.Diagnosis.PreFilterMsg = ""
		}
		fit.Diagnosis.NodeToStatus.Set(v.Name, fwk.NewStatus(fwk.Unschedulable, v.Reasons...))
	}
	// The scheduler's message has these counts after a prefix for a pod that fits nowhere.
	why := strings.TrimPrefix(fit.Error(), fmt.Sprintf(framework.NoNodeAvailableMsg, len(r.Verdicts)))
	why = strings.TrimRight(why, ":.")
	if r.Kind == Clusters {
		// The scheduler's messages only mention nodes.
		why = strings.ReplaceAll(why, "node(s)", "cluster(s)") + r.taints()
	}
	return fmt.Sprintf("%d/%d %ss fit%s", feasible, len(r.Verdicts), r.Kind.noun(), why)
}

// maxTaints bounds the number of clusters whose taints a summary names. It gives the number of the others.
const maxTaints = 5

// taints returns a text that begins with a blank and lists up to maxTaints clusters, each with the first taint that the workload does not
// tolerate; "" if there are none.
func (r *Report) taints() string {
	var out []string
	more := 0
	for _, v := range r.Verdicts {
		switch {
		case v.Taint == "":
		case len(out) == maxTaints:
			more++
		default:
			out = append(out, v.Name+": "+v.Taint)
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
