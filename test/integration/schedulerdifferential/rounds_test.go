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
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/predicates/predicatestest"
)

const (
	// enough rounds have everything in them.
	enough = 20
	// batch is how many generated pods are judged at once, while nothing changes.
	batch = 16
	// steps is how many are judged one after the other, each bound if it can be.
	steps = 6
)

// figures say what the rounds covered.
type figures struct {
	// bound pods ended on a node, held ones could have, pending ones could not.
	bound, held, pending int
	// predicates and reasons count nodes.
	predicates, reasons map[string]int
}

func (f *figures) add(v verdict, report *predicates.Report) {
	fits := false
	for _, of := range report.Verdicts {
		fits = fits || of.Feasible
		if of.Predicate != "" {
			f.predicates[of.Predicate]++
		}
		for _, reason := range of.Reasons {
			f.reasons[reason]++
		}
	}
	switch {
	case v.node != "":
		f.bound++
	case fits:
		f.held++
	default:
		f.pending++
	}
}

func (f *figures) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods: %d bound, %d that could be bound, %d that could not\n", f.bound+f.held+f.pending, f.bound, f.held, f.pending)
	for _, counts := range []map[string]int{f.predicates, f.reasons} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "  %5d %s\n", counts[name], name)
		}
	}
	return b.String()
}

// words are all reasons that the default predicates give, but for those of spec.nodeName.
var words = []string{
	"node(s) were unschedulable",
	"node(s) had untolerated taint(s)",
	"node(s) didn't match Pod's node affinity/selector",
	"node(s) didn't satisfy plugin(s) [NodeAffinity]",
	conflict,
	"node(s) didn't have free ports for the requested pod ports",
	"Too many pods",
	"Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage", "Insufficient example.com/gpu", "Insufficient hugepages-2Mi",
	"node(s) didn't match pod topology spread constraints",
	"node(s) didn't match pod topology spread constraints (missing required label)",
	"node(s) didn't match pod affinity rules",
	"node(s) didn't match pod anti-affinity rules",
	"node(s) didn't satisfy existing pods anti-affinity rules",
}

// frozen judges pods while the world stays as it is.
func (r *round) frozen(ctx context.Context, judged []*corev1.Pod) {
	GinkgoHelper()
	snapshot, err := r.Snapshot()
	Expect(err).NotTo(HaveOccurred(), r.String)
	each(ctx, judged, func(ctx context.Context, pod *corev1.Pod) error {
		pod.Annotations = map[string]string{holdAnnotation: ""}
		return f.Client.Create(ctx, pod)
	})
	verdicts := awaitVerdicts(ctx, judged)
	for i, pod := range judged {
		r.compare(pod, verdicts[i], r.judge(ctx, snapshot, pod))
	}
	for _, namespace := range namespacesOf(judged) {
		removeUnbound(ctx, namespace)
	}
}

func namespacesOf(pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// generate makes pods, and of the first one a copy for each node that it is pinned to: the scheduler's result for it
// concerns only that node.
func (r *round) generate() []*corev1.Pod {
	var out []*corev1.Pod
	for range batch {
		out = append(out, r.generator.Pod())
	}
	for i, node := range r.nodes {
		out = append(out, pin(out[0], node, i))
	}
	// The generator rarely makes a term that requires two node names at once.
	conflict := pin(pin(out[0], r.nodes[0], len(r.nodes)), "no-such-node", 0)
	out = append(out, conflict)
	return out
}

func pin(pod *corev1.Pod, node string, number int) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Name = fmt.Sprintf("%s-%d", pod.Name, number)
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		term := &affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
	return pod
}

// step judges one pod, which becomes part of the world if the scheduler binds it.
func (r *round) step(ctx context.Context) {
	GinkgoHelper()
	snapshot, err := r.Snapshot()
	Expect(err).NotTo(HaveOccurred(), r.String)
	pod := r.generator.Pod()
	Expect(f.Client.Create(ctx, pod)).To(Succeed())
	r.follow(ctx, pods, client.ObjectKeyFromObject(pod))
	v := awaitVerdicts(ctx, []*corev1.Pod{pod})[0]
	report := r.judge(ctx, snapshot, pod)
	r.compare(pod, v, report)
	if v.node == "" {
		removeUnbound(ctx, pod.Namespace)
	}
	r.follow(ctx, pods, client.ObjectKeyFromObject(pod))
	if v.node != "" {
		// It does not compete with itself.
		snapshot, err = r.Snapshot()
		Expect(err).NotTo(HaveOccurred(), r.String)
		Expect(r.judge(ctx, snapshot, pod).Verdicts).To(Equal(report.Verdicts), r.String)
	}
}

// disturb changes running pods, of which the scheduler gets to know before it gets to know of the next pod.
func (r *round) disturb(ctx context.Context, running []*corev1.Pod) {
	GinkgoHelper()
	var changed []client.ObjectKey
	for _, pod := range running {
		if r.rng.IntN(4) > 0 || pod.DeletionTimestamp != nil {
			continue
		}
		key := client.ObjectKeyFromObject(pod)
		changed = append(changed, key)
		switch existing := pod.DeepCopy(); r.rng.IntN(4) {
		case 0:
			Expect(f.Client.Delete(ctx, existing, client.GracePeriodSeconds(0))).To(Succeed())
		case 1:
			Expect(f.Client.Delete(ctx, existing, client.GracePeriodSeconds(3600))).To(Succeed())
		case 2:
			Expect(f.Client.Get(ctx, key, existing)).To(Succeed())
			existing.Status.Phase = corev1.PodSucceeded
			Expect(f.Client.Status().Update(ctx, existing)).To(Succeed())
		default:
			Expect(f.Client.Get(ctx, key, existing)).To(Succeed())
			existing.Labels = r.generator.Pod().Labels
			Expect(f.Client.Update(ctx, existing)).To(Succeed())
		}
	}
	if len(r.nodes) > 1 {
		added := r.generator.Running(r.nodes[0])
		Expect(createRunning(ctx, added)).To(Succeed())
		changed = append(changed, client.ObjectKeyFromObject(added))
	}
	r.follow(ctx, pods, changed...)
}

// renew changes nodes and the labels of namespaces.
func (r *round) renew(ctx context.Context, w predicatestest.World) {
	GinkgoHelper()
	changed := []client.ObjectKey{{Name: witness}}
	for i, node := range w.Nodes {
		key := client.ObjectKeyFromObject(node)
		switch {
		case i == 0:
			// The pods on it are on a node that there is not.
			Expect(f.Client.Delete(ctx, node)).To(Succeed())
			r.nodes = slices.DeleteFunc(r.nodes, func(name string) bool { return name == node.Name })
		case i < 3:
			existing := &corev1.Node{}
			Expect(f.Client.Get(ctx, key, existing)).To(Succeed())
			other := r.generator.Node(node.Name)
			existing.Labels, existing.Spec = other.Labels, other.Spec
			Expect(f.Client.Update(ctx, existing)).To(Succeed())
			existing.Status = other.Status
			Expect(f.Client.Status().Update(ctx, existing)).To(Succeed())
		default:
			continue
		}
		changed = append(changed, key)
	}
	all := r.generator.Namespaces()
	setNamespaces(ctx, all)
	r.advance(ctx)
	r.follow(ctx, nodes, changed...)
	r.follow(ctx, namespaces, client.ObjectKey{Name: witness})
	for _, namespace := range all {
		r.follow(ctx, namespaces, client.ObjectKeyFromObject(namespace))
	}
}

var _ = Describe("Predicates and kube-scheduler", Ordered, func() {
	covered := &figures{predicates: map[string]int{}, reasons: map[string]int{}}
	var (
		world *mirror
		set   *predicates.Set
	)

	BeforeAll(func(ctx SpecContext) {
		registry, err := predicates.NewRegistry()
		Expect(err).NotTo(HaveOccurred())
		set, err = registry.New(nil)
		Expect(err).NotTo(HaveOccurred())
		createWitnesses(ctx)
		world = &mirror{NodeCache: predicates.NewNodeCache()}
	})

	It("agree in every round", func(ctx SpecContext) {
		for number := range *rounds {
			rng := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(number)))
			r := &round{
				mirror: world, number: number, rng: rng, set: set, figures: covered,
				generator: predicatestest.New(rng, fmt.Sprintf("r%d-", number)),
			}
			r.play(ctx)
		}
	})

	AfterAll(func() {
		AddReportEntry("what was covered", covered.String())
		if CurrentSpecReport().Failed() || *rounds < enough {
			return
		}
		// So that the comparison can't come to be of trifles.
		all := covered.bound + covered.held + covered.pending
		Expect(covered.bound).To(BeNumerically(">", all/40), covered.String)
		Expect(covered.held).To(BeNumerically(">", all/5), covered.String)
		Expect(covered.pending).To(BeNumerically(">", all/5), covered.String)
		for _, name := range set.Names() {
			// The API server itself puts a pod with spec.nodeName onto its node.
			if name != "NodeName" {
				Expect(covered.predicates[name]).To(BeNumerically(">", all/60), "%s\n%s", name, covered)
			}
		}
		Expect(slices.Collect(maps.Keys(covered.reasons))).To(ConsistOf(words), covered.String)
	})
})

func (r *round) play(ctx context.Context) {
	GinkgoHelper()
	w := r.generator.World(1 + r.rng.IntN(7))
	r.begin(ctx, w)
	r.load(ctx)
	for _, node := range w.Nodes {
		r.nodes = append(r.nodes, node.Name)
	}
	r.nodes = append(r.nodes, witness)
	slices.Sort(r.nodes)
	r.frozen(ctx, r.generate())
	for range steps / 2 {
		r.step(ctx)
	}
	r.disturb(ctx, w.Pods)
	for range steps / 2 {
		r.step(ctx)
	}
	r.renew(ctx, w)
	r.frozen(ctx, r.generate())
	Expect(r.load(ctx)).To(BeFalse(), "%s: the world that followed changes is not what there is", r)
}

var empty = regexp.MustCompile(`"[a-zA-Z]+":(\{\}|null),?`)

// encode shows a spec without what is empty.
func encode(spec corev1.PodSpec) string {
	GinkgoHelper()
	text, err := json.Marshal(spec)
	Expect(err).NotTo(HaveOccurred())
	return empty.ReplaceAllString(string(text), "")
}
