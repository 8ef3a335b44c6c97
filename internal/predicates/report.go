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

// Query says on what a workload is judged.
type Query struct {
	// Names are those of the candidates; nil stands for all.
	Names []string
	// Selector selects among them by their labels; nil selects all. It does not speak of names that there are not.
	Selector labels.Selector
	// Kind is that of the candidates.
	Kind Candidates
}

// Verdict is what the predicates say of one candidate.
type Verdict struct {
	// Name is the candidate's.
	Name string
	// Outcome is shared by candidates of which the same is said, which are thousands.
	*Outcome
}

// Outcome is what is said of a candidate. It is immutable.
type Outcome struct {
	// Feasible says that every predicate lets the pod run there.
	Feasible bool
	// Predicate is the first one that does not, and Reasons are its reasons in kube-scheduler's words,
	// sorted.
	Predicate string
	Reasons   []string
	// Taint is the first taint of a cluster that the pod does not tolerate, where TaintToleration objects; empty for nodes.
	Taint string
	// Preemption says that it could help to preempt pods there.
	Preemption bool
	// Replicas is how many of the workload's replicas fit there at once, no more than there are to be.
	Replicas int
}

func (v Verdict) equal(other Verdict) bool {
	return v.Name == other.Name && v.Outcome.equal(other.Outcome)
}

func (o *Outcome) equal(other *Outcome) bool {
	return o == other || o.Feasible == other.Feasible && o.Predicate == other.Predicate &&
		o.Taint == other.Taint && o.Preemption == other.Preemption && o.Replicas == other.Replicas && slices.Equal(o.Reasons, other.Reasons)
}

// Report are the verdicts on all candidates of a query. It is immutable.
type Report struct {
	// Kind is that of the candidates.
	Kind Candidates
	// Verdicts are sorted by the candidates' names. A name that was asked for and that there is not is infeasible, with
	// a reason that says so, and without a predicate.
	Verdicts []Verdict

	// whole is what was said of all candidates at once; empty if they were looked at one by one.
	whole string
	// Below is what Again needs.
	set      *Set
	workload workload.Workload
	query    Query
	// seen is the snapshot for which the verdicts were last found to hold.
	seen atomic.Pointer[seen]
}

// seen says on what verdicts stand.
type seen struct {
	snapshot *Snapshot
	// local says that no verdict on a candidate depended on another one.
	local bool
}

// What reports take, in bytes.
const (
	// verdictBytes is what a verdict takes, and outcomeBytes what an outcome does with its reasons.
	verdictBytes, outcomeBytes = 24, 192
	// nodeBytes is what a node takes in the list of a snapshot, and snapshotBytes what else a snapshot has that the ones
	// before and after it have not.
	nodeBytes, snapshotBytes = 16, 4 << 10
	// encodedFactor is how much more the texts of a pod take than they do encoded. Containers and volumes take most of what
	// they take even when there is nothing in them.
	encodedFactor, containerBytes, volumeBytes = 4, 1 << 10, 256
)

// SizeOf is about how many bytes reports of one snapshot take, with what they keep of it and of their workloads.
func SizeOf(reports []*Report) int {
	if len(reports) == 0 {
		return 0
	}
	n := snapshotBytes + nodeBytes*reports[0].seen.Load().snapshot.Len()
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

// equal says whether two reports say the same.
func (r *Report) equal(other *Report) bool {
	return r.Kind == other.Kind && r.whole == other.whole && slices.EqualFunc(r.Verdicts, other.Verdicts, Verdict.equal)
}

// Summary says how many candidates there are, how many fit, and why the others do not, by reason in kube-scheduler's
// order, as in "0/3 nodes fit: 1 node(s) had untolerated taint(s), 2 Insufficient cpu". Of clusters it names the taints, as in
// "0/1 clusters fit: 1 cluster(s) had untolerated taint(s) (eu-1: example.com/pci:NoSchedule)".
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
			// What is said of all candidates is not said of one that there is not: then they are counted.
			fit.Diagnosis.PreFilterMsg = ""
		}
		fit.Diagnosis.NodeToStatus.Set(v.Name, fwk.NewStatus(fwk.Unschedulable, v.Reasons...))
	}
	// The scheduler counts so for a pod that fits nowhere, and begins with that.
	why := strings.TrimPrefix(fit.Error(), fmt.Sprintf(framework.NoNodeAvailableMsg, len(r.Verdicts)))
	why = strings.TrimRight(why, ":.")
	if r.Kind == Clusters {
		// The scheduler knows nothing but nodes.
		why = strings.ReplaceAll(why, "node(s)", "cluster(s)") + r.taints()
	}
	return fmt.Sprintf("%d/%d %ss fit%s", feasible, len(r.Verdicts), r.Kind.noun(), why)
}

// maxTaints bounds the clusters whose taints a summary names.
const maxTaints = 5

// taints names clusters and the taints that keep the workload from them; "" for none.
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
