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
	"bytes"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

// decisionLog collects what an operator writes to its log of decisions. It is safe for concurrent use.
type decisionLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *decisionLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// of returns the decisions on an object.
func (l *decisionLog) of(namespace, name string) (out []decisionlog.Entry, err error) {
	l.mu.Lock()
	text := bytes.NewReader(slices.Clone(l.text.Bytes()))
	l.mu.Unlock()
	for e, err := range decisionlog.Read(text) {
		if err != nil {
			return nil, err
		}
		if e.Object.Namespace == namespace && e.Object.Name == name {
			out = append(out, e)
		}
	}
	return out, nil
}

var _ = Describe("The cause of a move", func() {
	It("is in the plan, in the Event, and in the log of decisions", func(ctx SpecContext) {
		log := &decisionLog{}
		stopOperator()
		DeferCleanup(stopOperator)
		operator = f.StartReadyManager(ctx, func(o *setup.Options) { o.DecisionLog, o.DecisionLogOutput = setup.DecisionLogStdout, log })
		f.AwaitValidation(ctx)

		By("creating the policy before the object, as in README")
		// Other specs have clusters of other names.
		const cluster = "pci1"
		fleet, namespace := newFleet(ctx, cluster), f.NewNamespace(ctx, nil)
		const key = "example.com/pci"
		logged := func() AsyncAssertion { return Eventually(log.of).WithContext(ctx).WithArguments(namespace, "web") }
		name := onConfigMaps(ctx, "cause", framework.Rego(fmt.Sprintf(`annotations[%q] := data.clusters.%s.labels.pci`, key, cluster)), namespace)
		create(ctx, framework.ConfigMap, namespace, "web", nil)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "web", map[string]string{key: "yes"})
		change := func(from *string, to string) []decisionlog.Change {
			return []decisionlog.Change{{Field: "annotation " + key, From: from, To: &to, Policy: name}}
		}
		logged().Should(ConsistOf(MatchFields(IgnoreExtras, Fields{
			"Source": Equal(decisionlog.Admission), "Action": Equal(decisionlog.Created), "User": Not(BeEmpty()), "Causes": BeEmpty(),
			"Policies": ConsistOf(decisionlog.Policy{Name: name, Generation: 1}), "Changes": Equal(change(nil, "yes")),
		})))

		By("changing the label of a cluster")
		certify(ctx, fleet, cluster, "no")
		cause := fmt.Sprintf(`ClusterProfile %s/%s: label pci "yes" → "no"`, fleet, cluster)
		done := plan(ctx, name, placementv1.PlanCompleted, Fields{
			"Message": Equal("clusterprofiles.multicluster.x-k8s.io changed"), "Causes": ConsistOf(cause),
		})
		Eventually(eventNotes).WithContext(ctx).WithArguments(namespace, "web", events.Remediated.Reason).Should(ConsistOf(HaveSuffix("; cause: " + cause)))
		logged().Should(ContainElement(MatchFields(IgnoreExtras, Fields{
			"Source": Equal(decisionlog.Remediation), "Action": Equal(decisionlog.Patched), "Causes": ConsistOf(cause), "Plans": ConsistOf(done.Digest),
			"Policies": ConsistOf(decisionlog.Policy{Name: name, Generation: 1}), "Changes": Equal(change(new("yes"), "no")), "ApprovedBy": BeEmpty(),
		})))

		By("changing the policy, with an approval")
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego, p.Spec.Remediation.Mode = always(key, "maybe"), placementv1.RemediationApproved
		})
		waiting := plan(ctx, name, placementv1.PlanWaitingForApproval, Fields{"Message": ContainSubstring("of the policy came into force"), "Digest": Not(Equal(done.Digest))})
		f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, "--overwrite", placementv1.ApproveAnnotation+"="+waiting.Digest)
		logged().Should(ContainElement(MatchFields(IgnoreExtras, Fields{
			"Causes": ConsistOf(MatchRegexp(`^generation \d+ of PlacementPolicy "%s" came into force$`, name)), "Plans": ConsistOf(waiting.Digest),
			"Changes": Equal(change(new("no"), "maybe")), "ApprovedBy": ConsistOf("berth-admin"),
		})))
		Expect(log.of(namespace, "web")).To(HaveLen(3))
		Eventually(eventNotes).WithContext(ctx).WithArguments(namespace, "web", events.Remediated.Reason).Should(ConsistOf(
			HaveSuffix("; cause: "+cause), HaveSuffix("; approved by berth-admin")))
	})
})
