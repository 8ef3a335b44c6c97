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
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/framework"
)

// preferring prefers the clusters of a fleet that are labelled pci=yes.
func preferring(fleet string) string {
	return framework.Rego(
		fmt.Sprintf(`offered[name] := {"weight": 1} if data.kubernetes.clusterprofiles[%q][name].metadata.labels.pci == "yes"`, fleet),
		fmt.Sprintf(`annotations[%q] := {"clusters": offered}`, placement.PreferencesAnnotation),
	)
}

// crowd creates ConfigMaps and waits until the policy has placed them.
func crowd(ctx context.Context, namespace, policy string, n int) {
	GinkgoHelper()
	for i := range n {
		create(ctx, framework.ConfigMap, namespace, fmt.Sprintf("o-%02d", i), nil)
	}
	expectCompliant(ctx, policy)
	Eventually(countsOf).WithContext(ctx).WithArguments(policy).Should(HaveField("Matched", n))
}

// placed returns how many ConfigMaps of a namespace have which clusters.
func placed(ctx context.Context, namespace string) (map[string]int, error) {
	return valuesOf(ctx, namespace, placement.PreferencesAnnotation)
}

// valuesOf returns how many ConfigMaps of a namespace have which value of an annotation.
func valuesOf(ctx context.Context, namespace, key string) (map[string]int, error) {
	objects, err := list(ctx, framework.ConfigMap, namespace)
	out := map[string]int{}
	for _, o := range objects {
		out[o.GetAnnotations()[key]]++
	}
	return out, err
}

// policyEvents returns the reasons of the Events about a policy.
func policyEvents(ctx context.Context, policy string) ([]string, error) {
	list := &eventsv1.EventList{}
	if err := f.Client.List(ctx, list, client.InNamespace(corev1.NamespaceDefault)); err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "PlacementPolicy" && e.Regarding.Name == policy {
			out = append(out, e.Reason)
		}
	}
	return out, nil
}

// pausedCondition returns the policy's condition Paused; an empty one if there is none.
func pausedCondition(ctx context.Context, policy string) (metav1.Condition, error) {
	p, err := f.Policy(ctx, policy)
	if err != nil {
		return metav1.Condition{}, err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == placementv1.ConditionPaused {
			return c, nil
		}
	}
	return metav1.Condition{}, nil
}

// expectPausedIn waits until remediation of a policy is paused in a namespace.
func expectPausedIn(ctx context.Context, policy, namespace string, says ...string) {
	GinkgoHelper()
	Eventually(pausedCondition).WithContext(ctx).WithArguments(policy).
		Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNamespacesPaused, append(says, "in namespace "+namespace)...))
}

func expectNotPaused(ctx context.Context, policy string) {
	GinkgoHelper()
	Eventually(pausedCondition).WithContext(ctx).WithArguments(policy).Should(BeZero())
}

var _ = Describe("A change that would leave most objects nowhere", func() {
	const objects = 40
	var namespace, fleet, name string
	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		fleet = newFleet(ctx, "eu-1")
		name = onConfigMaps(ctx, "blast", preferring(fleet), namespace)
		crowd(ctx, namespace, name, objects)
	})

	It("moves nothing, heals by itself, and moves once it is released", func(ctx SpecContext) {
		before, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		f.MustKubectl(ctx, "", "delete", "clusterprofiles", "--all", "-n", fleet)
		expectPausedIn(ctx, name, namespace, fmt.Sprintf("%d of the %d matched objects", objects, objects), "left without clusters", "o-00", "kubectl annotate plpol "+name)
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(before))
		Eventually(policyEvents).WithContext(ctx).WithArguments(name).Should(ContainElement(events.RemediationPaused.Reason))
		Expect(total("berth_policy_paused_namespaces", fmt.Sprintf("policy=%q", name))).To(Equal(1))

		By("leaving the placement of an object that its owner changes")
		annotate(ctx, framework.ConfigMap, namespace, "o-00", map[string]any{"example.com/note": "changed"})
		object, err := f.Get(ctx, framework.ConfigMap, namespace, "o-00")
		Expect(err).NotTo(HaveOccurred())
		Expect(object.GetAnnotations()).To(HaveKeyWithValue(placement.PreferencesAnnotation, ContainSubstring("eu-1")))
		before["o-00"] = object.GetResourceVersion()
		f.MustKubectl(ctx, framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "o-01", nil).Object), "replace", "-f", "-")
		object, err = f.Get(ctx, framework.ConfigMap, namespace, "o-01")
		Expect(err).NotTo(HaveOccurred())
		Expect(object.GetAnnotations()).To(HaveKeyWithValue(placement.PreferencesAnnotation, ContainSubstring("eu-1")))
		before["o-01"] = object.GetResourceVersion()

		By("staying so across a restart")
		stopOperator()
		startOperator(ctx)
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionCompliant).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonViolations))
		expectPausedIn(ctx, name, namespace, fmt.Sprintf("%d of the %d matched objects", objects, objects))
		Expect(versions(ctx, framework.ConfigMap, namespace)).To(Equal(before))

		By("healing when the cluster comes back")
		addCluster(ctx, fleet, "eu-1")
		expectNotPaused(ctx, name)
		expectCompliant(ctx, name)
		Expect(versions(ctx, framework.ConfigMap, namespace)).To(Equal(before))
		Eventually(policyEvents).WithContext(ctx).WithArguments(name).Should(ContainElement(events.RemediationResumed.Reason))

		By("moving them when somebody releases the change")
		f.MustKubectl(ctx, "", "delete", "clusterprofiles", "--all", "-n", fleet)
		expectPausedIn(ctx, name, namespace)
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		condition, err := pausedCondition(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		command := regexp.MustCompile(`kubectl annotate .*$`).FindString(condition.Message)
		Expect(command).To(ContainSubstring(p.Status.Paused.Change))
		_, err = f.Shell(ctx, command)
		Expect(err).NotTo(HaveOccurred())
		expectNotPaused(ctx, name)
		Eventually(placed).WithContext(ctx).WithArguments(namespace).Should(Equal(map[string]int{`{"clusters":{}}`: objects}))
	})

	It("moves once the policy's bound is raised", func(ctx SpecContext) {
		f.MustKubectl(ctx, "", "delete", "clusterprofiles", "--all", "-n", fleet)
		expectPausedIn(ctx, name, namespace)
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
		})
		expectNotPaused(ctx, name)
		Eventually(placed).WithContext(ctx).WithArguments(namespace).Should(Equal(map[string]int{`{"clusters":{}}`: objects}))
	})

	It("is noticed in a new version of the policy, where some objects would move and most be denied", func(ctx SpecContext) {
		before, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = framework.Rego(`errors contains "no owner" if not startswith(input.metadata.name, "o-0")`, fmt.Sprintf(`annotations[%q] := {"clusters": {"us-1": {"weight": 1}}}`, placement.PreferencesAnnotation))
		})
		says := []string{fmt.Sprintf("%d of the %d matched objects", objects-10, objects), "denied"}
		expectPausedIn(ctx, name, namespace, says...)
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(before))
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		paused := p.Status.Paused

		By("staying so across a restart")
		stopOperator()
		// No leader sees this one, of which the change is not the policy's.
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, placementv1.ReleaseBlastRadiusAnnotation+"=another")
		startOperator(ctx)
		Eventually(total).WithArguments("berth_policy_paused_namespaces", fmt.Sprintf("policy=%q", name)).Should(Equal(1))
		expectPausedIn(ctx, name, namespace, says...)
		Consistently(func(g Gomega, ctx context.Context) {
			p, err := f.Policy(ctx, name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.Status.Paused).To(HaveField("Change", paused.Change))
			g.Expect(versions(ctx, framework.ConfigMap, namespace)).To(Equal(before))
		}).WithContext(ctx).Should(Succeed())

		By("moving what it may once it is released while there is no leader")
		stopOperator()
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, "--overwrite", placementv1.ReleaseBlastRadiusAnnotation+"="+paused.Change)
		startOperator(ctx)
		expectNotPaused(ctx, name)
		Eventually(placed).WithContext(ctx).WithArguments(namespace).Should(HaveKeyWithValue(ContainSubstring("us-1"), 10))
	})
})

var _ = Describe("An update while a change would leave most objects nowhere", func() {
	It("keeps the clusters or is decided", func(ctx SpecContext) {
		namespace, fleet := f.NewNamespace(ctx, nil), newFleet(ctx, "eu-1")
		name := onConfigMaps(ctx, "residency", framework.Rego(
			fmt.Sprintf(`clusters contains name if data.kubernetes.clusterprofiles[%q][name].metadata.labels.pci == "yes"`, fleet),
		), namespace)
		crowd(ctx, namespace, name, 10)
		f.MustKubectl(ctx, "", "delete", "clusterprofiles", "--all", "-n", fleet)
		expectPausedIn(ctx, name, namespace, "10 of the 10 matched objects")
		replace := func(annotations map[string]string) (string, error) {
			return f.Kubectl(ctx, framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "o-00", annotations).Object), "replace", "-f", "-")
		}

		By("keeping them in a manifest without annotations")
		// Admission learns of the pause a moment after the status has it. Until then no cluster is left.
		Eventually(replace).WithArguments(map[string]string(nil)).Should(ContainSubstring("replaced"))
		Expect(stored(ctx, framework.ConfigMap, namespace, "o-00")).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-1"]`))

		By("deciding a manifest that asks for another cluster")
		out, err := replace(map[string]string{placementv1.ClustersAnnotation: `["us-1"]`})
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("no cluster is left"))
		f.MustKubectl(ctx, "", "annotate", "configmap", "o-00", "-n", namespace, "example.com/note=changed")
		Expect(stored(ctx, framework.ConfigMap, namespace, "o-00")).To(HaveKeyWithValue(placementv1.ClustersAnnotation, `["eu-1"]`))
	})
})

var _ = Describe("A label that flaps", func() {
	It("leads to few patches, and what it says in the end is carried out", func(ctx SpecContext) {
		const objects, flaps = 8, 40
		namespace, fleet := f.NewNamespace(ctx, nil), newFleet(ctx, "eu1", "us1")
		name := onConfigMaps(ctx, "storm", certified("annotations", clustersKey, fleet), namespace)
		for i := range objects {
			create(ctx, framework.ConfigMap, namespace, fmt.Sprintf("o-%02d", i), map[string]string{clustersKey: "eu1_us1"})
		}
		expectCompliant(ctx, name)
		for i := range flaps {
			before := decided(name)
			certify(ctx, fleet, "eu1", []string{"no", "yes"}[i%2])
			Eventually(decided).WithArguments(name).Should(BeNumerically(">", before))
		}
		certify(ctx, fleet, "eu1", "no")
		for i := range objects {
			expectClusters(ctx, namespace, fmt.Sprintf("o-%02d", i), "us1")
		}
		// The storm takes some seconds, in which the hold-down lets a few of its changes through. Only the first ten patches for a policy, a
		// namespace, and a cause have Events, and several of them may be of one object.
		var all []string
		for object, n := range remediationsBelow(namespace) {
			Expect(n).To(BeNumerically("<=", 6), object)
			notes, err := eventNotes(ctx, namespace, object, events.Remediated.Reason)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(notes)).To(BeNumerically("<=", 2), "one for each direction: %v", notes)
			all = append(all, notes...)
		}
		Expect(all).NotTo(BeEmpty())
	})
})
