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
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// asList returns the items of a list of an object.
func asList[T any](items []T, of func(T) any) []any {
	out := make([]any, 0, len(items))
	for _, item := range items {
		out = append(out, of(item))
	}
	return out
}

// bind plays Karmada: it has the binding of an object report that Karmada chose all clusters of the placement, and that the object is
// healthy in some of them.
func bind(ctx context.Context, owner *unstructured.Unstructured, clusters []string, healthy ...string) {
	GinkgoHelper()
	forge(ctx, owner, owner.GetName()+"-deployment", clusters, healthy...)
}

// forge writes a binding of any name, which is Karmada's own only with the name that bind gives it.
func forge(ctx context.Context, owner *unstructured.Unstructured, name string, clusters []string, healthy ...string) {
	GinkgoHelper()
	o, err := f.Get(ctx, resourceBinding, owner.GetNamespace(), name)
	if err != nil {
		o = framework.NewObject(resourceBinding, owner.GetNamespace(), name, nil)
	}
	o.Object["spec"] = map[string]any{
		"resource": map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "namespace": owner.GetNamespace(), "name": owner.GetName(), "uid": string(owner.GetUID()),
		},
		"clusters":  asList(clusters, func(name string) any { return map[string]any{"name": name} }),
		"placement": map[string]any{"clusterAffinity": map[string]any{"clusterNames": asList(clusters, func(name string) any { return name })}},
	}
	if o.GetResourceVersion() == "" {
		Expect(f.Client.Create(ctx, o)).To(Succeed())
	} else {
		Expect(f.Client.Update(ctx, o)).To(Succeed())
	}
	o.Object["status"] = map[string]any{
		"schedulerObservedGeneration": o.GetGeneration(),
		"aggregatedStatus": asList(clusters, func(name string) any {
			health := "Unhealthy"
			if slices.Contains(healthy, name) {
				health = "Healthy"
			}
			return map[string]any{"clusterName": name, "applied": true, "health": health}
		}),
	}
	Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
}

// fleetClusters returns the clusters that the only ResourcePlacement of an object names.
func fleetClusters(ctx context.Context, namespace, owner string) ([]string, error) {
	o, err := only(ctx, resourcePlacement, namespace, owner)
	if err != nil {
		return nil, err
	}
	names, _, err := unstructured.NestedStringSlice(o.Object, "spec", "policy", "clusterNames")
	return names, err
}

// reportPlaced plays KubeFleet: it has the only ResourcePlacement of an object report that the object is available in some clusters.
func reportPlaced(ctx context.Context, namespace, owner string, available ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		o, err := only(ctx, resourcePlacement, namespace, owner)
		g.Expect(err).NotTo(HaveOccurred())
		names, _, err := unstructured.NestedStringSlice(o.Object, "spec", "policy", "clusterNames")
		g.Expect(err).NotTo(HaveOccurred())
		o.Object["status"] = map[string]any{"placementStatuses": asList(names, func(name string) any {
			return map[string]any{"clusterName": name, "conditions": asList([]string{"Applied", "Available"}, func(kind string) any {
				status := "True"
				if kind == "Available" && !slices.Contains(available, name) {
					status = "False"
				}
				return map[string]any{
					"type": kind, "status": status, "reason": "Specs", "message": "", "observedGeneration": o.GetGeneration(),
					"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
				}
			})}
		})}
		g.Expect(f.Client.Status().Update(ctx, o)).To(Succeed())
	}).Should(Succeed())
}

func runningCondition(ctx context.Context, policy string) (metav1.Condition, error) {
	return f.Condition(ctx, policy, placementv1.ConditionRunning)
}

// surging returns a delivery that waits for a time.
func surging(delivery placementv1.Delivery, timeout time.Duration) placementv1.Delivery {
	delivery.Surge = &placementv1.Surge{Timeout: &metav1.Duration{Duration: timeout}}
	return delivery
}

var _ = Describe("A move to other clusters", func() {
	It("keeps the cluster that is left until Karmada reports that the object runs in the new one", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		fl.move(ctx, "b", "us")
		p := fl.policy(surging(toKarmada, time.Hour), namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "0 of 1 placed objects run in their clusters", "web: Karmada has not reported anything about the object"))
		bind(ctx, web, fl.clusters("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("a")+": its health is Unhealthy"))
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning, "1 of 1 placed objects run in their clusters"))
		Expect(f.Policy(ctx, p.Name)).To(HaveField("Status.Delivery.Running", HaveValue(BeEquivalentTo(1))))

		By("adding the new cluster first")
		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDelivering, "1 stay in clusters that they have to leave, until they run in their new clusters", "web: it stays in "+fl.cluster("a")))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotDelivered, "web: it stays in "+fl.cluster("a")))
		Eventually(f.Get).WithContext(ctx).WithArguments(framework.Deployment, namespace, "web").
			Should(HaveField("GetAnnotations()", HaveKeyWithValue(placementv1.ClustersAnnotation, fmt.Sprintf("[%q]", fl.cluster("b")))))

		By("changing the leader in the midst of it")
		before := writes()
		operator.Stop()
		operator = f.StartReadyManager(ctx)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(HaveField("Status", metav1.ConditionFalse))
		bind(ctx, web, fl.clusters("a", "b"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("b")+": its health is Unhealthy"))
		Expect(clustersIn(ctx, namespace, "web")).To(Equal(fl.clusters("a", "b")))
		Expect(writes()).To(Equal(before))

		By("leaving the old one when the object runs in the new one")
		bind(ctx, web, fl.clusters("a", "b"), fl.clusters("a", "b")...)
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "Karmada has not acted on the newest placement"))
		bind(ctx, web, fl.clusters("b"), fl.clusters("b")...)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		Expect(writes()).To(Equal(before + 1))
	})

	It("keeps the cluster that is left until KubeFleet reports it, or until the timeout", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b", "c"), f.NewNamespace(ctx, nil)
		fl.move(ctx, "b", "us")
		fl.move(ctx, "c", "us")
		p := fl.policy(surging(placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}, time.Hour), namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))

		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a", "b")))
		reportPlaced(ctx, namespace, "web", fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "cluster "+fl.cluster("b")+": condition Available is False"))
		reportPlaced(ctx, namespace, "web", fl.clusters("a", "b")...)
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("b")))

		By("not waiting any longer than the policy says")
		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Delivery.Surge.Timeout = &metav1.Duration{Duration: 2 * time.Second}
		})
		fl.move(ctx, "c", "eu")
		fl.move(ctx, "b", "us")
		Eventually(fleetClusters).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("c")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("leaves at once if the API server refuses the object with both clusters", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a", "b"), f.NewNamespace(ctx, nil)
		fl.move(ctx, "b", "us")
		p := fl.policy(surging(toKarmada, time.Hour), namespace)
		f.CreateReadyPolicy(ctx, p)
		deploy(ctx, namespace, "web")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("a")))
		f.MustKubectl(ctx, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [policy.karmada.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [propagationpolicies]}]
  validations: [{expression: "size(object.spec.placement.clusterAffinity.clusterNames) < 2"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, namespace), "apply", "-f", "-")
		DeferCleanup(func(ctx SpecContext) {
			f.MustKubectl(ctx, "", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", namespace)
		})
		Eventually(func(ctx context.Context) error {
			o, err := only(ctx, propagationPolicy, namespace, "web")
			if err != nil {
				return err
			}
			o.SetName("probe")
			o.SetResourceVersion("")
			o.SetLabels(nil)
			if err := unstructured.SetNestedStringSlice(o.Object, []string{"x", "y"}, "spec", "placement", "clusterAffinity", "clusterNames"); err != nil {
				return err
			}
			return f.Client.Create(ctx, o, client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("denied")))
		fl.move(ctx, "b", "eu")
		fl.move(ctx, "a", "us")
		Eventually(clustersIn).WithContext(ctx).WithArguments(namespace, "web").Should(Equal(fl.clusters("b")))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
	})

	It("says when the reports of Karmada are not served, and delivers anyway", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		web := deploy(ctx, namespace, "web")
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		bindings.Uninstall(ctx, f)
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionUnknown, placementv1.ReasonNotServed, "resourcebindings.work.karmada.io"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		bindings.Install(ctx, f)
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
	})

	It("keeps what an earlier leader reported until the reports are read", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)
		bind(ctx, deploy(ctx, namespace, "web"), fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		operator.Stop()
		released := make(chan struct{})
		f.Operator.Wrap(func(next http.RoundTripper) http.RoundTripper { return &heldReports{next, released} })
		operator = f.StartReadyManager(ctx)
		Consistently(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning))
		close(released)
		bind(ctx, deploy(ctx, namespace, "later"), fl.clusters("a"), fl.cluster("a"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning, "2 of 2 placed objects run"))
	})

	It("counts objects that can't be delivered as not running, and does not wait for objects that are being deleted", func(ctx SpecContext) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		web, ends := deploy(ctx, namespace, "web"), framework.NewObject(framework.Deployment, namespace, "ends", nil)
		ends.SetFinalizers([]string{"example.com/specs"})
		Expect(f.Client.Create(ctx, ends)).To(Succeed())
		Expect(f.Client.Delete(ctx, ends)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(f.Client.Patch(ctx, ends, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))).To(Succeed())
		})
		large := framework.NewObject(framework.Deployment, namespace, "large", nil)
		Expect(unstructured.SetNestedField(large.Object, int64(5), "spec", "replicas")).To(Succeed())
		delivery := toKarmada
		delivery.Replicas = &placementv1.ReplicaDivision{DivideBy: placementv1.DivideEvenly, MaxPerCluster: new(int32(2))}
		p := fl.policy(delivery, namespace)
		f.CreateReadyPolicy(ctx, p)
		bind(ctx, web, fl.clusters("a"), fl.cluster("a"))
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).Should(beDelivered(1))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonRunning, "1 of 1"))
		Expect(f.Client.Create(ctx, large)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, "only 2 of the 5 replicas"))
		Eventually(runningCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotRunning, "1 of 2 placed objects run in their clusters", "large"))
	})
})

// heldReports holds requests for the reports of Karmada back until they are released.
type heldReports struct {
	next     http.RoundTripper
	released <-chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (h *heldReports) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/"+bindings.Plural) {
		select {
		case <-h.released:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	return h.next.RoundTrip(req)
}
