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

package delivery_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var workload = schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"}

// native returns a policy that places the placement objects of a kind on the clusters of the fleet in the region eu. It has no
// spec.delivery.
func (fl fleet) native(kind schema.GroupVersionKind, plural, namespace string) *placementv1.PlacementPolicy {
	p := fl.policy(toKarmada, namespace)
	p.Spec.Delivery = nil
	p.Spec.Match.ResourceRules = []placementv1.ResourceRule{{APIGroups: []string{kind.Group}, APIVersions: []string{kind.Version}, Resources: []string{plural}}}
	return p
}

// decidedIn returns the clusters in the only PlacementDecision of a Placement.
func decidedIn(ctx context.Context, namespace, placement string) ([]string, error) {
	o, err := only(ctx, ocmDecision, namespace, placement)
	if err != nil {
		return nil, err
	}
	decisions, _, err := unstructured.NestedSlice(o.Object, "status", "decisions")
	var out []string
	for _, d := range decisions {
		out = append(out, fmt.Sprint(d.(map[string]any)["clusterName"]))
	}
	return out, err
}

// train creates the Workload of a Job, as Kueue does.
func train(ctx context.Context, namespace string) {
	GinkgoHelper()
	o := framework.NewObject(workload, namespace, "train", nil)
	o.Object["spec"] = map[string]any{"podSets": []any{map[string]any{
		"name": "main", "count": int64(1),
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/train"}}}},
	}}}
	Expect(f.Client.Create(ctx, o)).To(Succeed())
}

// asKueue changes the status of the Workload, as Kueue does. Like Kueue's webhook, it refuses a cluster that is not nominated.
func asKueue(ctx context.Context, namespace string, changes ...func(status map[string]any)) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		o, err := f.Get(ctx, workload, namespace, "train")
		for _, change := range changes {
			if err != nil {
				return err
			}
			status, _ := o.Object["status"].(map[string]any)
			if status == nil {
				status = map[string]any{}
			}
			before, _ := status["clusterName"].(string)
			nominated, _, _ := unstructured.NestedStringSlice(o.Object, "status", "nominatedClusterNames")
			change(status)
			if chosen, _ := status["clusterName"].(string); chosen != before && !slices.Contains(nominated, chosen) {
				return fmt.Errorf("when setting clusterName it must be one of the nominatedClusterNames %v", nominated)
			}
			o.Object["status"] = status
			// A change by Berth in between is a conflict.
			err = f.Client.Status().Update(ctx, o)
		}
		return err
	}).WithContext(ctx).Should(Succeed())
}

// conditionOf returns a condition of a Workload.
func conditionOf(kind, status string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}
}

// reserved is the status of a Workload for which quota is reserved, and that MultiKueue waits to nominate clusters for.
func reserved(status map[string]any) {
	status["conditions"] = []any{conditionOf("QuotaReserved", "True")}
	status["admissionChecks"] = []any{checkIn("Pending")}
	status["admission"] = map[string]any{"clusterQueue": "queue", "podSetAssignments": []any{map[string]any{"name": "main"}}}
}

// checkIn returns the admission check of MultiKueue in a state.
func checkIn(state string) map[string]any {
	return map[string]any{"name": "multikueue", "state": state, "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}
}

// dispatched returns the status of a Workload that a cluster admitted. The list of nominated clusters is not removed, but empty. Seen with
// Kueue 0.19.2: test/realsystems/kueue.md has the scenarios.
func dispatched(cluster string, more ...any) func(map[string]any) {
	return func(status map[string]any) {
		status["clusterName"], status["nominatedClusterNames"] = cluster, []any{}
		status["admissionChecks"] = []any{checkIn("Ready")}
		status["conditions"] = append([]any{conditionOf("QuotaReserved", "True"), conditionOf("Admitted", "True")}, more...)
	}
}

// orphaned returns the condition Finished of a Workload that has no owner any more, as Kueue 0.19.2 sets it.
func orphaned() map[string]any {
	out := conditionOf("Finished", "True")
	out["reason"] = "OwnerNotFound"
	return out
}

// evict waits until the admission check of a Workload is to be retried, and evicts the Workload, as Kueue does. Then quota is reserved
// again.
func evict(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (any, error) {
		o, err := f.Get(ctx, workload, namespace, "train")
		if err != nil {
			return nil, err
		}
		checks, _, err := unstructured.NestedSlice(o.Object, "status", "admissionChecks")
		return checks, err
	}).WithContext(ctx).Should(ConsistOf(HaveKeyWithValue("state", "Retry")))
	Expect(nominated(ctx, namespace)).To(Or(BeEmpty(), Equal([]string{"rival"})))
	asKueue(ctx, namespace, func(status map[string]any) {
		status["conditions"] = []any{conditionOf("QuotaReserved", "False"), conditionOf("Evicted", "True")}
		status["admissionChecks"] = []any{checkIn("Pending")}
		status["nominatedClusterNames"] = []any{}
		delete(status, "admission")
	}, reserved)
}

// nominating returns the status of a Workload that another client nominates for a cluster.
func nominating(cluster string) func(map[string]any) {
	return func(status map[string]any) { status["nominatedClusterNames"] = []any{cluster} }
}

// nominated returns the clusters that a Workload is nominated for.
func nominated(ctx context.Context, namespace string) ([]string, error) {
	o, err := f.Get(ctx, workload, namespace, "train")
	if err != nil {
		return nil, err
	}
	names, _, err := unstructured.NestedStringSlice(o.Object, "status", "nominatedClusterNames")
	return names, err
}

var _ = Describe("Placement objects with a status", func() {
	It("of Open Cluster Management are scheduled by Berth where their annotation says so", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.native(ocmPlacement, "placements", namespace)
		f.CreateReadyPolicy(ctx, p)
		left := framework.NewObject(ocmPlacement, namespace, "left", nil)
		left.Object["spec"] = map[string]any{}
		Expect(f.Client.Create(ctx, left)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "experimental-scheduling-disable"))
		Expect(all(ctx, ocmDecision, namespace, "left")).To(BeEmpty())
		Expect(f.Client.Delete(ctx, left)).To(Succeed())

		o := framework.NewObject(ocmPlacement, namespace, "web", map[string]string{"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"})
		o.Object["spec"] = map[string]any{}
		Expect(f.Client.Create(ctx, o)).To(Succeed())
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(f.Get).WithContext(ctx).WithArguments(ocmPlacement, namespace, "web").
			Should(HaveField("Object", HaveKeyWithValue("status", HaveKeyWithValue("numberOfSelectedClusters", BeEquivalentTo(2)))))
		fl.move(ctx, "b", "us")
		Eventually(decidedIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
	})

	It("of Kueue get nominated clusters while MultiKueue waits for them", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Expect(nominated(ctx, namespace)).To(BeEmpty())

		By("reserving quota, as Kueue does")
		asKueue(ctx, namespace, reserved)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a", "b")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionRunning).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "MultiKueue has not chosen a cluster for the Workload yet"))
		fl.move(ctx, "b", "us")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, "Kueue has not withdrawn the Workload yet"))
		evict(ctx, namespace)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		fl.move(ctx, "b", "eu")
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a", "b")))

		By("nominating another cluster, as a rival does")
		asKueue(ctx, namespace, nominating("rival"))
		evict(ctx, namespace)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a", "b")))
	})

	// A Workload that waits for quota has the clusters of an earlier decision until it is patched, which took 70 seconds for 265 Workloads on
	// a busy machine. Kueue reserves quota meanwhile.
	It("of Kueue are not nominated for clusters that policies do not decide any more", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		p.Spec.Remediation.Mode = placementv1.RemediationManual
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))

		By("letting a cluster leave, whose name the Workload keeps as long as it is not patched")
		fl.move(ctx, "a", "us")
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "1 of 1"))
		asKueue(ctx, namespace, reserved)
		Consistently(nominated).WithContext(ctx).WithArguments(namespace).WithTimeout(2 * time.Second).Should(BeEmpty())

		By("having it patched")
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = placementv1.RemediationAutomatic })
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("b")))
	})

	// For 20 seconds after a kill of Berth, Berth nominated Workloads for the clusters of earlier decisions. In this spec, a policy whose
	// engine does not respond keeps Berth from deciding the Workload again.
	It("of Kueue are not nominated after a restart before they are decided", func(ctx SpecContext) {
		var held atomic.Bool
		asked, release := make(chan struct{}, 100), make(chan struct{})
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if held.Load() {
				asked <- struct{}{}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"result": {"labels": {}}}`)
		}))
		respond := sync.OnceFunc(func() {
			held.Store(false)
			close(release)
		})
		DeferCleanup(func() {
			respond()
			engine.Close()
		})
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p, slow := fl.native(workload, "workloads", namespace), fl.native(workload, "workloads", namespace)
		p.Spec.Remediation.Mode = placementv1.RemediationManual
		slow.Name, slow.Spec.Rego, slow.Spec.Remote = framework.NewName("slow"), "", &placementv1.Remote{URL: engine.URL + "/v1/data/placement", Insecure: true}
		f.CreateReadyPolicy(ctx, p)
		f.CreateReadyPolicy(ctx, slow)
		train(ctx, namespace)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		fl.move(ctx, "a", "us")
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations, "1 of 1"))
		operator.Stop()
		asKueue(ctx, namespace, reserved)

		By("starting Berth, and letting it wait for the engine")
		held.Store(true)
		operator = f.StartReadyManager(ctx)
		Eventually(asked).WithContext(ctx).Should(Receive())
		Consistently(nominated).WithContext(ctx).WithArguments(namespace).WithTimeout(2 * time.Second).Should(BeEmpty())

		By("deciding it, and having it patched")
		respond()
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) { p.Spec.Remediation.Mode = placementv1.RemediationAutomatic })
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("b")))
	})

	It("of Kueue run where MultiKueue dispatched them, and the status says when they must not", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		asKueue(ctx, namespace, reserved)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a", "b")))
		running := func(ctx context.Context) (metav1.Condition, error) {
			return f.Condition(ctx, p.Name, placementv1.ConditionRunning)
		}

		By("dispatching it, as MultiKueue does")
		asKueue(ctx, namespace, dispatched(fl.cluster("a"), conditionOf("PodsReady", "False")))
		Eventually(running).WithContext(ctx).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("a")+": the pods of the Workload are not ready"))
		asKueue(ctx, namespace, dispatched(fl.cluster("a"), conditionOf("PodsReady", "True")))
		Eventually(running).WithContext(ctx).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning, "1 of 1"))
		fl.move(ctx, "b", "us")
		Eventually(f.Get).WithContext(ctx).WithArguments(workload, namespace, "train").Should(HaveField("Object", HaveKeyWithValue("metadata", HaveKeyWithValue("annotations", HaveKeyWithValue(placementv1.ClustersAnnotation, fmt.Sprintf("[%q]", fl.cluster("a")))))))
		Expect(deliveredCondition(ctx, p.Name)).To(beDelivered(1))

		By("moving its cluster to another region")
		fl.move(ctx, "a", "us")
		fl.move(ctx, "b", "eu")
		remains := "the Workload still runs in cluster " + fl.cluster("a") + ", which is none of the decided ones, and MultiKueue moves no Workload: delete the Job that owns it, and create the Job again"
		Eventually(running).WithContext(ctx).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, remains))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, remains))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotDelivered, namespace+"/train: "+remains))
		Expect(nominated(ctx, namespace)).To(BeEmpty())

		By("finishing it because its Job was deleted without its dependents, after which MultiKueue may leave the Job in the cluster")
		asKueue(ctx, namespace, dispatched(fl.cluster("a"), orphaned()))
		lost := "the owner of the Workload was deleted, and MultiKueue may have left the Job in cluster " + fl.cluster("a") + ": delete the Workload"
		Eventually(running).WithContext(ctx).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, lost))
		Expect(deliveredCondition(ctx, p.Name)).To(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, lost))

		By("finishing it there")
		asKueue(ctx, namespace, dispatched(fl.cluster("a"), conditionOf("Finished", "True")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
	})

	It("of Kueue that a rival dispatched elsewhere are not taken for delivered", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		asKueue(ctx, namespace, reserved)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a")))
		// A cluster admits the Workload before Berth has restored the nomination.
		asKueue(ctx, namespace, nominating("rival"), dispatched("rival"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, "the Workload still runs in cluster rival"))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionRunning).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "the Workload still runs in cluster rival"))
	})

	It("of Kueue are nominated by no one else where the policy of the documents is installed", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		f.MustKubectl(ctx, "", "apply", "-f", "docs/examples/nominated-clusters.yaml")
		DeferCleanup(func(ctx SpecContext) {
			f.MustKubectl(ctx, "", "delete", "-f", "docs/examples/nominated-clusters.yaml")
		})
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		asKueue(ctx, namespace, reserved)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a", "b")))
		Eventually(func(ctx context.Context) error {
			o, err := f.Get(ctx, workload, namespace, "train")
			Expect(err).NotTo(HaveOccurred())
			nominating("rival")(o.Object["status"].(map[string]any))
			return f.Client.Status().Update(ctx, o, client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("only Berth may nominate clusters")))
		fl.move(ctx, "b", "us")
		evict(ctx, namespace)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a")))
		// Kueue clears the list.
		asKueue(ctx, namespace, dispatched(fl.cluster("a")))
	})

	It("of Kueue are decided and nominated by the ClusterRole of Kueue alone, and Compliant says what it lacks", func(ctx SpecContext) {
		const role = "berth-delivery-kueue"
		keepOnlyRole(ctx, role)
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		fl.move(ctx, "b", "us")
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		asKueue(ctx, namespace, reserved)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("a")))

		By("revoking the permission to patch Workloads")
		f.MustKubectl(ctx, "", "patch", "clusterrole", role, "--type=json", "-p", `[{"op":"replace","path":"/rules/0/verbs","value":["get","list","watch"]}]`)
		grant := func(ctx SpecContext) {
			f.MustKubectl(ctx, "", "patch", "clusterrole", role, "--type=json", "-p", `[{"op":"replace","path":"/rules/0/verbs","value":["get","list","watch","patch"]}]`)
		}
		DeferCleanup(grant)
		Eventually(berthMay).WithContext(ctx).WithArguments("patch", "workloads.kueue.x-k8s.io").Should(HavePrefix("no"))
		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonForbiddenTargets, "1 of 1 objects differ", `cannot patch resource "workloads"`, "placement.berth.dev/aggregate-to-manager=true"))

		By("granting it again")
		grant(ctx)
		evict(ctx, namespace)
		Eventually(nominated).WithContext(ctx).WithArguments(namespace).Should(Equal(fl.clusters("b")))
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionCompliant).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonCompliant))
	})

	It("of Kueue get at most 20 clusters, and the status says so", func(ctx SpecContext) {
		var names []string
		for i := range 21 {
			names = append(names, fmt.Sprintf("c%d", i))
		}
		fl, namespace := newFleet(ctx, names...), f.NewNamespace(ctx, nil)
		p := fl.native(workload, "workloads", namespace)
		f.CreateReadyPolicy(ctx, p)
		train(ctx, namespace)
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonDelivered,
			"1 of 1 placed objects are delivered", "workloads.kueue.x-k8s.io "+namespace+"/train: MultiKueue considers at most 20 clusters; the first 20 of 21 by name"))
		fl.move(ctx, "c20", "us")
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Message", "1 of 1 placed objects are delivered"))
	})
})
