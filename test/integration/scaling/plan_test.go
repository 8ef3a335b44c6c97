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

package scaling_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
)

// auditLog is the API server's log of patches.
var auditLog string

// audited returns the patches of a resource in the audit log since a time, in the order of their requests.
func audited(since time.Time, resource, subresource string) []*auditv1.Event {
	GinkgoHelper()
	text, err := os.ReadFile(auditLog)
	Expect(err).NotTo(HaveOccurred())
	var out []*auditv1.Event
	for line := range bytes.Lines(text) {
		event := &auditv1.Event{}
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		Expect(json.Unmarshal(line, event)).To(Succeed())
		if o := event.ObjectRef; o != nil && o.Resource == resource && o.Subresource == subresource && event.RequestReceivedTimestamp.After(since) {
			out = append(out, event)
		}
	}
	slices.SortFunc(out, func(a, b *auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	return out
}

var _ = Describe("A plan of many moves", func() {
	objects := budget.Size(1200, 2000)
	const (
		creators  = 8
		perMinute = 6000
		// window is the time for which patches are counted, and late how many more of them may arrive in it than may leave.
		window, late = 5 * time.Second, 60
		// statusBurst is the number of status writes that each of the two leaders may make besides one in a second.
		statusBurst = 10
		// inFlight is how many patches a leader may have under way when it is killed.
		inFlight = 10
	)

	It("is carried out once, at the pace of the budget, also if the leader is killed in the midst", func(ctx SpecContext) {
		proxy := framework.StartProxy()
		var members []*member
		for _, c := range commands.StartAllReady(ctx, 2, proxy.URL(), "--leader-elect") {
			DeferCleanup(c.Kill)
			members = append(members, &member{Command: c, backend: proxy.Add(c.URL)})
		}
		namespace := f.NewNamespace(ctx, nil)
		for _, name := range []string{"eu-1", "eu-2"} {
			obj := framework.NewObject(framework.ClusterProfile, namespace, name, nil)
			obj.SetLabels(map[string]string{"region": "eu"})
			Expect(f.Client.Create(ctx, obj)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, obj)).To(Succeed()) })
		}
		name := "plan-of-" + namespace
		p := framework.NewPolicy(name, `package plan

clusters contains name if data.clusters[name].labels.region == "eu"
`, "apps", "deployments", namespace)
		p.Spec.Remediation.Budget = &placementv1.RemediationBudget{MaxPerMinute: perMinute}
		f.CreateReadyPolicy(ctx, p)
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "d-0", nil))
		}).WithContext(ctx).Should(Succeed())
		var group errgroup.Group
		group.SetLimit(creators)
		for i := range objects - 1 {
			group.Go(func() error {
				return f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("d-%d", i+1), nil))
			})
		}
		Expect(group.Wait()).To(Succeed())
		compliant := func(ctx context.Context) (placementv1.PlacementPolicyStatus, error) {
			p, err := f.Policy(ctx, name)
			return p.Status, err
		}
		Eventually(compliant).WithContext(ctx).Should(And(
			HaveField("Matched", HaveValue(BeEquivalentTo(objects))), HaveField("Violations", HaveValue(BeZero())),
		))

		By("taking a cluster out of the region")
		start := time.Now()
		f.MustKubectl(ctx, "", "label", "--overwrite", "clusterprofile", "eu-2", "-n", namespace, "region=us")
		moves := func() []*auditv1.Event { return audited(start, "deployments", "") }
		Eventually(moves).WithContext(ctx).Should(WithTransform(func(events []*auditv1.Event) int { return len(events) }, BeNumerically(">", objects/4)))
		leaders, err := leading(ctx, members)
		Expect(err).NotTo(HaveOccurred())
		Expect(leaders).To(HaveLen(1))
		Expect(leaders[0].Kill()).To(Succeed())
		killed := time.Now()
		Expect(len(moves())).To(BeNumerically("<", objects), "the plan was over before the leader was killed")

		Eventually(compliant).WithContext(ctx).WithTimeout(2 * framework.Timeout).Should(And(
			HaveField("Violations", HaveValue(BeZero())),
			HaveField("Plan", HaveValue(And(HaveField("State", placementv1.PlanCompleted), HaveField("Moves", BeNumerically("<", objects))))),
		))
		took := time.Since(start)
		AddReportEntry("carried out", ReportEntryVisibilityAlways, fmt.Sprintf("%v after the change, %v after the leader was killed", took.Round(time.Second), time.Since(killed).Round(time.Second)))

		By("reading the audit log of the API server")
		moved := map[string]int{}
		var times []time.Time
		for _, event := range moves() {
			Expect(event.UserAgent).To(HavePrefix("manager"))
			Expect(event.ObjectRef.Namespace).To(Equal(namespace))
			times = append(times, event.RequestReceivedTimestamp.Time)
			if event.ResponseStatus.Code == http.StatusOK {
				moved[event.ObjectRef.Name]++
			}
		}
		// All objects have moved, by the status. What the leader sent when it was killed may have been stored although the API server could not
		// answer it: the log has no success of that, and it may have been sent again.
		Expect(len(moved)).To(BeNumerically(">=", objects-inFlight))
		Expect(moved).To(HaveEach(1), "each object is moved once")
		Expect(len(times)).To(BeNumerically("<=", objects+inFlight))
		allowed := int(window*perMinute/time.Minute) + late
		for i := range times {
			if i+allowed < len(times) {
				Expect(times[i+allowed].Sub(times[i])).To(BeNumerically(">", window), "%d patches within %s", allowed, window)
			}
		}
		writes := 0
		for _, event := range audited(start, "placementpolicies", "status") {
			if strings.HasPrefix(event.UserAgent, "manager") && event.ObjectRef.Name == name {
				writes++
			}
		}
		AddReportEntry("status", ReportEntryVisibilityAlways, fmt.Sprintf("%d writes", writes))
		Expect(writes).To(BeNumerically("<=", 2*statusBurst+int(took.Seconds())+1), "the status is written once in a second")
	})
})
