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
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

// settledFor is how long nothing may move.
var settledFor = time.Duration(budget.Size(15, 60)) * time.Second

// portPolicy reads nothing but ports, and says how many are open.
func portPolicy() string {
	return framework.Rego(
		`open contains name if data.kubernetes.ports[name].spec.open`,
		fmt.Sprintf(`annotations[%q] := sprintf("%%d ports", [count(open)])`, tierKey),
	)
}

// distinct is how many workloads of a fleet differ in what their policy reads.
const distinct = 3

// fleetOfWorkloads are 60 Deployments, of which every third lists the cluster that is going to change.
type fleetOfWorkloads struct {
	fleet, namespace    string
	affected            []string
	profiles, byPort    string
	configs, configured string
}

func newFleetOfWorkloads(ctx context.Context) fleetOfWorkloads {
	GinkgoHelper()
	w := fleetOfWorkloads{
		fleet: newFleet(ctx, "eu1", "eu2", "us1"), namespace: f.NewNamespace(ctx, nil), configs: f.NewNamespace(ctx, nil),
	}
	p := framework.NewPolicy(framework.NewName("profiles"), certified("annotations", clustersKey, w.fleet), "apps", "deployments", w.namespace)
	f.CreateReadyPolicy(ctx, p)
	w.profiles = p.Name
	p = framework.NewPolicy(framework.NewName("ports"), portPolicy(), "apps", "deployments", w.namespace)
	f.CreateReadyPolicy(ctx, p)
	w.byPort = p.Name
	w.configured = onConfigMaps(ctx, "configs", portPolicy(), w.configs)
	for i := range 60 {
		name := fmt.Sprintf("w%02d", i)
		switch i % 3 {
		case 0:
			w.affected = append(w.affected, name)
			create(ctx, framework.Deployment, w.namespace, name, map[string]string{clustersKey: "eu1_us1"})
		case 1:
			create(ctx, framework.Deployment, w.namespace, name, map[string]string{clustersKey: "eu2_us1"})
		default:
			create(ctx, framework.Deployment, w.namespace, name, nil)
		}
	}
	create(ctx, framework.ConfigMap, w.configs, "c", nil)
	for _, policy := range []string{w.profiles, w.byPort} {
		Eventually(countsOf).WithContext(ctx).WithArguments(policy).Should(HaveField("Matched", 60))
		expectCompliant(ctx, policy)
	}
	expectCompliant(ctx, w.configured)
	return w
}

// expectMoved waits until all that was to move has the wanted value, checks that nothing else moved, and returns the
// new versions.
func (w fleetOfWorkloads) expectMoved(ctx context.Context, before map[string]string, want string) map[string]string {
	GinkgoHelper()
	Eventually(func(ctx context.Context) ([]string, error) {
		objects, err := list(ctx, framework.Deployment, w.namespace)
		done := []string{}
		for name, o := range objects {
			if o.GetAnnotations()[clustersKey] == want {
				done = append(done, name)
			}
		}
		slices.Sort(done)
		return done, err
	}).WithContext(ctx).Should(Equal(w.affected))
	after, err := versions(ctx, framework.Deployment, w.namespace)
	Expect(err).NotTo(HaveOccurred())
	Expect(moved(before, after)).To(Equal(w.affected))
	return after
}

var _ = Describe("When a cluster's labels change", func() {
	It("patches exactly the workloads whose decision changed, once each", func(ctx SpecContext) {
		w := newFleetOfWorkloads(ctx)
		before, err := versions(ctx, framework.Deployment, w.namespace)
		Expect(err).NotTo(HaveOccurred())
		baseline, err := countsOf(ctx, w.profiles)
		Expect(err).NotTo(HaveOccurred())
		earlier := remediationsBelow(w.namespace)
		decidedBefore := map[string]int{w.profiles: decided(w.profiles), w.byPort: decided(w.byPort), w.configured: decided(w.configured)}
		profileBefore, err := versions(ctx, framework.ClusterProfile, w.fleet)
		Expect(err).NotTo(HaveOccurred())

		certify(ctx, w.fleet, "eu1", "no")

		after := w.expectMoved(ctx, before, "us1")
		baseline.Remediated += len(w.affected)
		expectCounts(ctx, w.profiles, baseline)
		expectCompliant(ctx, w.profiles)

		By("sending one request for each of them, which nobody's conflict had repeated")
		requests := map[string]int{}
		for name, n := range remediationsBelow(w.namespace) {
			if n != earlier[name] {
				requests[name] = n - earlier[name]
			}
		}
		Expect(requests).To(HaveLen(len(w.affected)))
		for _, name := range w.affected {
			Expect(requests).To(HaveKeyWithValue(name, 1))
		}
		Expect(total("berth_remediations_total", fmt.Sprintf("policy=%q", w.profiles), fmt.Sprintf("outcome=%q", metrics.RemediationPatched))).
			To(Equal(baseline.Remediated))

		By("asking once for each distinct projection, and no policy about what it does not read")
		Expect(decided(w.profiles) - decidedBefore[w.profiles]).To(And(BeNumerically(">=", distinct), BeNumerically("<", 60)))
		Expect(decided(w.configured)).To(Equal(decidedBefore[w.configured]), "its objects did not change")
		Expect(decided(w.byPort)-decidedBefore[w.byPort]).To(BeNumerically("<=", len(w.affected)), "it is asked about the objects that the other policy changed, no others")

		By("leaving everything alone from then on")
		Consistently(versions).WithContext(ctx).WithArguments(framework.Deployment, w.namespace).Should(Equal(after))
		changed, err := versions(ctx, framework.ClusterProfile, w.fleet)
		Expect(err).NotTo(HaveOccurred())
		Expect(moved(profileBefore, changed)).To(Equal([]string{"eu1"}))
		Expect(remediationsBelow(w.configs)).To(BeEmpty())

		By("telling the owners of the first objects; a sum on the namespace counts the others")
		Eventually(func(ctx context.Context) (told int, err error) {
			for _, name := range w.affected {
				notes, err := eventNotes(ctx, w.namespace, name, events.Remediated.Reason)
				if err != nil {
					return 0, err
				}
				if slices.ContainsFunc(notes, func(note string) bool {
					return strings.Contains(note, w.profiles) && strings.Contains(note, clustersKey) && strings.Contains(note, "us1")
				}) {
					told++
				}
			}
			return told, nil
		}).WithContext(ctx).Should(BeNumerically(">=", min(len(w.affected), 10)))
		Expect(eventNotes(ctx, w.namespace, "w01", events.Remediated.Reason)).To(BeEmpty())

		By("widening exactly them when the cluster returns")
		certify(ctx, w.fleet, "eu1", "yes")
		w.expectMoved(ctx, after, "eu1_us1")
		baseline.Remediated += len(w.affected)
		expectCounts(ctx, w.profiles, baseline)
	})

	It("does nothing where a change makes no decision differ", func(ctx SpecContext) {
		w := newFleetOfWorkloads(ctx)
		before, err := versions(ctx, framework.Deployment, w.namespace)
		Expect(err).NotTo(HaveOccurred())
		asked := decided(w.profiles)
		merge(ctx, framework.ClusterProfile, w.fleet, "eu1", map[string]any{"metadata": map[string]any{"labels": map[string]any{"color": "blue"}}})
		Consistently(func() int { return decided(w.profiles) - asked }).WithContext(ctx).Should(BeZero(), "nobody reads the label")
		By("looking at a cluster that nobody asked for")
		addCluster(ctx, w.fleet, "eu9")
		Eventually(func() int { return decided(w.profiles) - asked }).WithContext(ctx).Should(BeNumerically(">=", distinct))
		Consistently(versions).WithContext(ctx).WithArguments(framework.Deployment, w.namespace).Should(Equal(before))
	})

	It("follows an inventory of a kind of its own", func(ctx SpecContext) {
		w := newFleetOfWorkloads(ctx)
		profiles := decided(w.profiles)
		name := framework.NewName("port")
		obj := framework.NewObject(port, "", name, nil)
		obj.Object["spec"] = map[string]any{"open": true}
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(f.Client.Delete(ctx, framework.NewObject(port, "", name, nil))).To(Succeed())
		})
		Eventually(func(ctx context.Context) (map[string]int, error) {
			objects, err := list(ctx, framework.Deployment, w.namespace)
			return tally(objects, tierKey), err
		}).WithContext(ctx).Should(Equal(map[string]int{"1 ports": 60}))
		expectAnnotations(ctx, framework.ConfigMap, w.configs, "c", map[string]string{tierKey: "1 ports"})
		expectCompliant(ctx, w.byPort)
		Expect(decided(w.profiles)-profiles).To(BeNumerically("<=", 60), "once for each object that the other policy changed")
	})

	It("leaves every object alone once it has settled", Label("slow"), func(ctx SpecContext) {
		w := newFleetOfWorkloads(ctx)
		before, err := versions(ctx, framework.Deployment, w.namespace)
		Expect(err).NotTo(HaveOccurred())
		certify(ctx, w.fleet, "eu1", "no")
		after := w.expectMoved(ctx, before, "us1")
		expectCompliant(ctx, w.profiles)
		statuses := func(ctx context.Context) ([]string, error) {
			var out []string
			for _, name := range []string{w.profiles, w.byPort, w.configured} {
				p, err := f.Policy(ctx, name)
				if err != nil {
					return nil, err
				}
				out = append(out, p.ResourceVersion)
			}
			return out, nil
		}
		Eventually(countsOf).WithContext(ctx).WithArguments(w.profiles).Should(HaveField("Remediated", BeNumerically(">=", len(w.affected))))
		// The last writes of the status may follow, at most one in a second.
		Eventually(func(g Gomega, ctx context.Context) {
			quiet, err := statuses(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Consistently(statuses).WithContext(ctx).WithTimeout(settledFor).WithPolling(time.Second).Should(Equal(quiet))
		}).WithContext(ctx).Should(Succeed())
		Expect(versions(ctx, framework.Deployment, w.namespace)).To(Equal(after))
	})
})

// tally counts the values of an annotation.
func tally(objects map[string]*unstructured.Unstructured, key string) map[string]int {
	out := map[string]int{}
	for _, o := range objects {
		out[o.GetAnnotations()[key]]++
	}
	return out
}

var _ = Describe("A remediating patch", Label("versions"), func() {
	It("has a precondition and a field manager of its own, and changes no owner of the keys", func(ctx SpecContext) {
		fleet, namespace := newFleet(ctx, "eu1", "us1"), f.NewNamespace(ctx, nil)
		onConfigMaps(ctx, "patch", certified("annotations", clustersKey, fleet), namespace)
		obj := create(ctx, framework.ConfigMap, namespace, "web", map[string]string{clustersKey: "eu1_us1"})
		owner := ownersOf(obj, clustersKey)
		Expect(owner).To(HaveLen(1))
		certify(ctx, fleet, "eu1", "no")
		expectClusters(ctx, namespace, "web", "us1")

		sent := patches.By(remediation.FieldManager, "/namespaces/"+namespace+"/")
		Expect(sent).To(HaveLen(1))
		Expect(sent[0].Code).To(Equal(200))
		Expect(sent[0].Body).To(MatchJSON(fmt.Sprintf(`{"metadata": {"resourceVersion": %q, "uid": %q}}`, obj.GetResourceVersion(), obj.GetUID())))
		Expect(sent[0].Query).NotTo(HaveKey("force"))
		got, err := f.Get(ctx, framework.ConfigMap, namespace, "web")
		Expect(err).NotTo(HaveOccurred())
		Expect(got.GetAnnotations()).To(HaveKey(placementv1.RequestedAnnotation))
		Expect(ownersOf(got, placementv1.RequestedAnnotation)).To(BeEmpty())
		Expect(ownersOf(got, clustersKey)).To(Equal(owner))
	})
})

// ownersOf returns the field managers of an annotation.
func ownersOf(obj *unstructured.Unstructured, key string) []string {
	out := []string{}
	for _, entry := range obj.GetManagedFields() {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`) {
			out = append(out, entry.Manager)
		}
	}
	return out
}
