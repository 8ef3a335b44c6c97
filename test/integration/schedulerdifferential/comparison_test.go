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

package schedulerdifferential_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/predicates/predicatestest"
	"github.com/berth-dev/berth/internal/workload"
)

const (
	// settlePolling is how often is looked for verdicts: there are many, and each takes the scheduler milliseconds.
	settlePolling = 20 * time.Millisecond
	patience      = 2 * time.Minute
)

// round is one world and the pods that are judged on it.
type round struct {
	*mirror
	number    int
	rng       *rand.Rand
	generator *predicatestest.Generator
	set       *predicates.Set
	figures   *figures
	nodes     []string
}

func (r *round) String() string {
	return fmt.Sprintf("seed %d, round %d (run with -ginkgo.seed to repeat it)", GinkgoRandomSeed(), r.number)
}

// verdict is what the scheduler said of a pod.
type verdict struct {
	// node is where it was bound, else message says why not.
	node, message string
}

func verdictOf(pod *corev1.Pod) (v verdict, ok bool) {
	if pod.Spec.NodeName != "" {
		return verdict{node: pod.Spec.NodeName}, true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return verdict{message: c.Message}, true
		}
	}
	return verdict{}, false
}

// awaitVerdicts returns what the scheduler says of pods, in their order.
func awaitVerdicts(ctx context.Context, judged []*corev1.Pod) []verdict {
	GinkgoHelper()
	out := make([]verdict, len(judged))
	Eventually(func(g Gomega, ctx context.Context) {
		list := &corev1.PodList{}
		g.Expect(f.Client.List(ctx, list)).To(Succeed())
		found := map[client.ObjectKey]*corev1.Pod{}
		for i := range list.Items {
			found[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
		}
		for i, pod := range judged {
			key := client.ObjectKeyFromObject(pod)
			g.Expect(found).To(HaveKey(key))
			v, ok := verdictOf(found[key])
			g.Expect(ok).To(BeTrue(), "%s has no verdict", key)
			out[i] = v
		}
	}).WithContext(ctx).WithTimeout(patience).WithPolling(settlePolling).Should(Succeed())
	return out
}

// judge asks the predicates.
func (r *round) judge(ctx context.Context, snapshot *predicates.Snapshot, pod *corev1.Pod) *predicates.Report {
	GinkgoHelper()
	report, err := r.set.Evaluate(ctx, snapshot, workload.Workload{Pod: pod, Replicas: 1, Name: pod.Name}, predicates.Query{Kind: predicates.Nodes})
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", r, describe(pod))
	return report
}

// compare holds the scheduler's verdict against the report.
func (r *round) compare(pod *corev1.Pod, v verdict, report *predicates.Report) {
	GinkgoHelper()
	var feasible []string
	for _, of := range report.Verdicts {
		if of.Feasible {
			feasible = append(feasible, of.Name)
		}
	}
	explain := func() string {
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n%s\nscheduler: %+v, feasible: %v\npredicates:\n", r, describe(pod), v, asked.of(string(pod.UID)))
		for _, of := range report.Verdicts {
			fmt.Fprintf(&b, "  %+v\n", of)
		}
		return b.String()
	}
	Expect(names(report)).To(Equal(r.nodes), explain)
	Expect(asked.of(string(pod.UID))).To(Equal(feasible), explain)
	_, hold := pod.Annotations[holdAnnotation]
	switch {
	case v.node != "":
		Expect(hold).To(BeFalse(), explain)
		Expect(feasible).To(ContainElement(v.node), explain)
	default:
		Expect(v.message).To(Equal(message(report)), explain)
	}
	if len(feasible) == 0 {
		summary := strings.Replace(report.Summary(), " nodes fit: ", " nodes are available: ", 1)
		Expect(v.message).To(HavePrefix(summary+". "), explain)
	}
	r.figures.add(v, report)
}

func names(report *predicates.Report) []string {
	var out []string
	for _, v := range report.Verdicts {
		out = append(out, v.Name)
	}
	return out
}

// conflict is the one reason of the default predicates that is given of a pod, not of nodes.
const conflict = "pod affinity terms conflict"

// message is what kube-scheduler says of a pod that it leaves pending, where its extender held back what is feasible.
func message(report *predicates.Report) string {
	all, reasons, preemption, whole := len(report.Verdicts), map[string]int{}, 0, false
	for _, v := range report.Verdicts {
		if v.Feasible {
			reasons[held]++
		}
		if v.Feasible || v.Preemption {
			preemption++
		}
		for _, reason := range v.Reasons {
			reasons[reason]++
			whole = whole || reason == conflict
		}
	}
	text := fmt.Sprintf("0/%d nodes are available: %s.", all, histogram(reasons))
	if whole {
		// What else would prepare for the pod was not asked, and what comes after the filters misses that.
		return fmt.Sprintf("0/%d nodes are available: %s. not found", all, conflict)
	}
	helps := map[string]int{"No preemption victims found for incoming pod": preemption, "Preemption is not helpful for scheduling": all - preemption}
	return fmt.Sprintf("%s no new claims to deallocate, preemption: 0/%d nodes are available: %s.", text, all, histogram(helps))
}

// histogram is that of kube-scheduler's messages.
func histogram(counts map[string]int) string {
	var parts []string
	for reason, n := range counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func describe(pod *corev1.Pod) string {
	GinkgoHelper()
	return fmt.Sprintf("pod %s/%s %v %s", pod.Namespace, pod.Name, pod.Labels, encode(pod.Spec))
}
