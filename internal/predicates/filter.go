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

// maxReplicasPerCandidate bounds the replica count that is tried on one candidate. A pod without requests may fit any
// number of times on a cluster, and each replica that is tried takes memory.
const maxReplicasPerCandidate = 1 << 16

// maxReplicasTotal bounds the replicas that are tried on all candidates together. But at least minReplicasTried are
// tried on each, or fewer of a large pod. The author of a workload chooses its number of replicas, and must not be able
// to make the policy exceed its deadline.
const (
	maxReplicasTotal = 1 << 20
	minReplicasTried = 1 << 10
)

// stride is the first increment in the search for the replica count. Most workloads have no more replicas, and fit, so
// one attempt is usually enough.
const stride = 16

// worker evaluates one candidate of an evaluation after the other. The workers of an evaluation share its plugins.
type worker struct {
	*evaluation

	// tried is the cycle state with which replicas are counted. It is cloned from the evaluation's state when it is first
	// needed, because cloning takes time proportional to the number of nodes. After each candidate it equals the
	// evaluation's state again, because all added copies are removed.
	tried fwk.CycleState

	// outcomes are distinct outcomes of this worker, for sharing. When there are maxOutcomes, it begins again without any.
	outcomes []*Outcome
}

// maxOutcomes bounds the number of outcomes that a worker compares. When it has as many, it forgets all of them for the next one. Most
// candidates share a few outcomes.
const maxOutcomes = 16

// share returns an outcome equal to o that other candidates may share: one of the worker's outcomes, or a new one, which it keeps. If it
// has maxOutcomes already, it forgets these first.
func (w *worker) share(o Outcome) *Outcome {
	for _, known := range w.outcomes {
		if known.equal(&o) {
			return known
		}
	}
	if len(w.outcomes) == maxOutcomes {
		w.outcomes = w.outcomes[:0]
	}
	kept := o
	w.outcomes = append(w.outcomes, &kept)
	return &kept
}

// verdict returns whether the pod could run on a candidate, and how many of the workload's replicas fit there, or which predicate rejects
// it, and why.
func (w *worker) verdict(ctx context.Context, info fwk.NodeInfo) (Verdict, error) {
	w.evaluated.Add(1)
	name := info.Node().Name
	o, err := w.outcome(ctx, name, info)
	return Verdict{Name: name, Outcome: w.share(o)}, err
}

// outcome evaluates the candidate with a name: it returns why all candidates are rejected, or all but others, or why the first plugin
// rejects this one, or how many replicas fit.
func (w *worker) outcome(ctx context.Context, name string, info fwk.NodeInfo) (o Outcome, err error) {
	if w.rejected != nil {
		o.Predicate, o.Reasons = w.rejected.Plugin(), sorted(w.rejected.Reasons())
		o.Preemption = w.rejected.Code() == fwk.Unschedulable
		return o, nil
	}
	for i, some := range w.named {
		if some != nil && !some.Has(name) {
			// Like the scheduler, name all plugins that restricted the nodes.
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
			taint, _ := corev1helpers.FindMatchingUntoleratedTaint(klog.FromContext(ctx), info.Node().Spec.Taints,
				w.Pod.Spec.Tolerations, repelsPods, true)
			o.Taint = taint.ToString()
		}
		return o, nil
	}
	o.Feasible = true
	o.Replicas, err = w.replicas(ctx, info)
	return o, err
}

// repelsPods reports whether a taint keeps away pods that do not tolerate it: its effect is NoSchedule or NoExecute.
func repelsPods(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// sorted returns the reasons in sorted order, so that equal worlds give equal verdicts. It does not change its argument. NodeResourcesFit
// lists the reasons for extended resources in the random order of a map.
func sorted(reasons []string) []string {
	if len(reasons) < 2 {
		return reasons
	}
	return slices.Sorted(slices.Values(reasons))
}

// applies reports whether the i-th plugin evaluates a candidate: it applies to the pod, and does not need resources of the candidate that
// are unknown.
func (j *evaluation) applies(i int, info fwk.NodeInfo) bool {
	if j.skipped[i] {
		return false
	}
	return !j.plugins[i].needsResources || !j.world.hasUnlimitedResources(info.Node().Name)
}

// filter runs each plugin until one rejects the candidate. It returns the name and status of that plugin; "" and nil if none rejects it.
func (j *evaluation) filter(
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

// replicas returns how many of the workload's pods fit on a candidate on which one fits: if no predicate reads the pods there, all of the
// workload's replicas, without a bound, and otherwise maxReplicas at most. It doubles the increment until the predicates reject, and then
// bisects.
func (w *worker) replicas(ctx context.Context, info fwk.NodeInfo) (int, error) {
	if w.Replicas <= 1 || w.ignoresPods(info) {
		return max(1, w.Replicas), nil
	}
	if w.tried == nil && w.extends() {
		w.tried = w.state.Clone()
	}
	state := w.tried
	if state == nil {
		state = w.state
	}
	// With "fits" copies there is room for one more; with "objects" copies there is not.
	fits, objects, doubling := 0, w.maxReplicas, true
	for step := stride; objects-fits > 1; step *= 2 {
		next := fits + (objects-fits)/2
		if doubling {
			next = min(fits+step, w.maxReplicas-1)
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

// bound returns the maximum replica count to try on each of a number of candidates, the same for all: that of the workload, or less if
// there are many candidates. It is smaller for pods with many containers, ports, and volumes, because the cost of adding a copy of a pod
// grows with its size.
func (j *evaluation) bound(candidates int) int {
	parts := len(j.Pod.Spec.Volumes)
	for _, containers := range [][]corev1.Container{j.Pod.Spec.InitContainers, j.Pod.Spec.Containers} {
		for _, c := range containers {
			parts += 1 + len(c.Ports)
		}
	}
	each := max(minReplicasTried, maxReplicasTotal/max(1, candidates)) / (1 + parts/16)
	return min(j.Replicas, max(stride, min(each, maxReplicasPerCandidate)))
}

// ignoresPods reports whether none of the plugins that apply to the pod and the candidate reads the pods there, so that any number of
// replicas fits if one does.
func (j *evaluation) ignoresPods(info fwk.NodeInfo) bool {
	for i := range j.plugins {
		if j.applies(i, info) && !j.plugins[i].ignoresPods {
			return false
		}
	}
	return true
}

// extends reports whether a plugin that applies to the pod prepared state that depends on existing pods, so that the state must be told of
// each copy of the pod that is added.
func (j *evaluation) extends() bool {
	for i, p := range j.plugins {
		if p.extensions != nil && !j.skipped[i] {
			return true
		}
	}
	return false
}

// with returns a copy of the candidate that has the given number of additional copies of the pod, and adds these copies to the state.
func (w *worker) with(ctx context.Context, state fwk.CycleState, info fwk.NodeInfo, copies int) (fwk.NodeInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info = info.Snapshot()
	for n := range copies {
		if n%stride == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		info.AddPodInfo(w.podCopy)
	}
	return info, w.extend(ctx, state, info, copies, fwk.PreFilterExtensions.AddPod)
}

// change is the method AddPod or RemovePod of PreFilterExtensions.
type change func(fwk.PreFilterExtensions, context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status

// extend calls a method of the PreFilterExtensions of each plugin that has them, for each copy of the pod that is added to the candidate or
// removed from it.
func (w *worker) extend(ctx context.Context, state fwk.CycleState, info fwk.NodeInfo, copies int, tell change) error {
	for i, p := range w.plugins {
		if p.extensions == nil || w.skipped[i] {
			continue
		}
		status, err := guard(p.Name, func() (status *fwk.Status) {
			for range copies {
				if status = tell(p.extensions, ctx, state, w.Pod, w.podCopy, info); !status.IsSuccess() {
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
