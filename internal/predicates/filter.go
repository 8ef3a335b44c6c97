package predicates

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// mostReplicas is up to where it is tried how many replicas fit on one candidate: a pod that asks for nothing may fit on
// a cluster without end, and each that is tried takes memory.
const mostReplicas = 1 << 16

// allReplicas is up to where it is tried on all candidates together, but fewReplicas are tried on each: whoever makes a
// workload says how many replicas it has, and must not keep the policy from ending in time.
const (
	allReplicas = 1 << 20
	fewReplicas = 1 << 10
)

// stride is how many more replicas are tried at first. Most workloads have no more, and fit: to try once takes less than
// to find out slowly.
const stride = 16

// worker judges one candidate of a judgment after the other.
type worker struct {
	*judgment

	// tried is the state in which copies of the pod are counted, made when it is needed. It is the judgment's between
	// two candidates, since what is added is removed again: to clone it takes as long as there are nodes.
	tried fwk.CycleState

	// outcomes are the last ones that differed.
	outcomes []*Outcome
}

// mostOutcomes is how many outcomes are told apart: what most candidates have in common are few.
const mostOutcomes = 16

// share returns an outcome that says the same, which other candidates may have too.
func (w *worker) share(o Outcome) *Outcome {
	for _, known := range w.outcomes {
		if known.equal(&o) {
			return known
		}
	}
	if len(w.outcomes) == mostOutcomes {
		w.outcomes = w.outcomes[:0]
	}
	kept := o
	w.outcomes = append(w.outcomes, &kept)
	return &kept
}

// verdict judges a candidate.
func (w *worker) verdict(ctx context.Context, info fwk.NodeInfo) (Verdict, error) {
	w.asked.Add(1)
	name := info.Node().Name
	o, err := w.outcome(ctx, name, info)
	return Verdict{Name: name, Outcome: w.share(o)}, err
}

func (w *worker) outcome(ctx context.Context, name string, info fwk.NodeInfo) (o Outcome, err error) {
	if w.rejected != nil {
		o.Predicate, o.Reasons = w.rejected.Plugin(), sorted(w.rejected.Reasons())
		o.Preemption = w.rejected.Code() == fwk.Unschedulable
		return o, nil
	}
	for i, some := range w.named {
		if some != nil && !some.Has(name) {
			// The scheduler names all plugins that let only some nodes through.
			o.Predicate = w.plugins[i].Name
			o.Reasons = []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(w.narrowing))}
			return o, nil
		}
	}
	objecting, status, err := w.filter(ctx, w.state, info)
	if err != nil {
		return o, err
	}
	if !status.IsSuccess() {
		o.Predicate, o.Reasons, o.Preemption = objecting, sorted(status.Reasons()), status.Code() == fwk.Unschedulable
		if objecting == names.TaintToleration && w.kind == Clusters {
			taint, _ := corev1helpers.FindMatchingUntoleratedTaint(klog.FromContext(ctx), info.Node().Spec.Taints, w.Pod.Spec.Tolerations, keepsAway, true)
			o.Taint = taint.ToString()
		}
		return o, nil
	}
	o.Feasible = true
	o.Replicas, err = w.replicas(ctx, info)
	return o, err
}

// keepsAway reports whether a taint keeps pods away from a candidate, as TaintToleration sees it.
func keepsAway(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// sorted returns reasons in one order, so that equal worlds have equal verdicts: NodeResourcesFit gives those of extended
// resources in that of a map.
func sorted(reasons []string) []string {
	if len(reasons) < 2 {
		return reasons
	}
	return slices.Sorted(slices.Values(reasons))
}

// applies says whether a plugin, by its place, is to be asked of a candidate.
func (j *judgment) applies(i int, info fwk.NodeInfo) bool {
	if j.skipped[i] {
		return false
	}
	return !j.plugins[i].resources || !j.world.boundless(info.Node().Name)
}

// filter asks each plugin until one objects, and returns its name and status.
func (j *judgment) filter(
	ctx context.Context, state fwk.CycleState, info fwk.NodeInfo,
) (objecting string, status *fwk.Status, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = failure(objecting, r)
		}
	}()
	for i := range j.plugins {
		if !j.applies(i, info) {
			continue
		}
		objecting = j.plugins[i].Name
		status = j.plugins[i].filter.Filter(ctx, state, j.Pod, info)
		if status.IsRejected() {
			return objecting, status, nil
		}
		if !status.IsSuccess() {
			return objecting, nil, unexpected(objecting, status)
		}
	}
	return "", nil, nil
}

// replicas counts how many of the workload's pods fit on a candidate on which one does: up to what the predicates object
// to, by doubling and then bisection.
func (w *worker) replicas(ctx context.Context, info fwk.NodeInfo) (int, error) {
	if w.Replicas <= 1 || w.podless(info) {
		return max(1, w.Replicas), nil
	}
	if w.tried == nil && w.extends() {
		w.tried = w.state.Clone()
	}
	state := w.tried
	if state == nil {
		state = w.state
	}
	// with fits copies there is room for one more; with objects there is not.
	fits, objects, doubling := 0, w.most, true
	for step := stride; objects-fits > 1; step *= 2 {
		next := fits + (objects-fits)/2
		if doubling {
			next = min(fits+step, w.most-1)
		}
		more, err := w.with(ctx, state, info, next-fits)
		if err != nil {
			return 0, err
		}
		_, status, err := w.filter(ctx, state, more)
		if err != nil {
			return 0, err
		}
		if status.IsSuccess() {
			info, fits = more, next
			continue
		}
		if err := w.extend(ctx, state, more, next-fits, fwk.PreFilterExtensions.RemovePod); err != nil {
			return 0, err
		}
		objects, doubling = next, false
	}
	return fits + 1, w.extend(ctx, state, info, fits, fwk.PreFilterExtensions.RemovePod)
}

// bound returns up to where it is tried how many replicas fit on one of so many candidates. It takes as long to add a copy
// of a pod as there is in it.
func (j *judgment) bound(candidates int) int {
	parts := len(j.Pod.Spec.Volumes)
	for _, containers := range [][]corev1.Container{j.Pod.Spec.InitContainers, j.Pod.Spec.Containers} {
		for _, c := range containers {
			parts += 1 + len(c.Ports)
		}
	}
	each := max(fewReplicas, allReplicas/max(1, candidates)) / (1 + parts/16)
	return min(j.Replicas, max(stride, min(each, mostReplicas)))
}

// podless says that no predicate looks at the pods on a candidate.
func (j *judgment) podless(info fwk.NodeInfo) bool {
	for i := range j.plugins {
		if j.applies(i, info) && !j.plugins[i].podless {
			return false
		}
	}
	return true
}

// extends says that what plugins prepared depends on the pods that there are.
func (j *judgment) extends() bool {
	for i, p := range j.plugins {
		if p.extensions != nil && !j.skipped[i] {
			return true
		}
	}
	return false
}

// with returns the candidate with more copies of the pod, and has the state know of them.
func (w *worker) with(ctx context.Context, state fwk.CycleState, info fwk.NodeInfo, copies int) (fwk.NodeInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info = info.Snapshot()
	for n := range copies {
		if n%stride == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		info.AddPodInfo(w.another)
	}
	return info, w.extend(ctx, state, info, copies, fwk.PreFilterExtensions.AddPod)
}

// change is one of the methods of PreFilterExtensions.
type change func(fwk.PreFilterExtensions, context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status

// extend tells plugins of copies of the pod that are on a candidate from now on, or no longer.
func (w *worker) extend(ctx context.Context, state fwk.CycleState, info fwk.NodeInfo, copies int, tell change) error {
	for i, p := range w.plugins {
		if p.extensions == nil || w.skipped[i] {
			continue
		}
		status, err := guard(p.Name, func() (status *fwk.Status) {
			for range copies {
				if status = tell(p.extensions, ctx, state, w.Pod, w.another, info); !status.IsSuccess() {
					break
				}
			}
			return status
		})
		if err != nil {
			return err
		}
		if !status.IsSuccess() {
			return unexpected(p.Name, status)
		}
	}
	return nil
}
