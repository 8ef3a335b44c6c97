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
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// unwritten is a transport with which no status of a policy is written while lose is set, as for a leader that is killed.
type unwritten struct {
	next http.RoundTripper
	lose *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (u *unwritten) RoundTrip(req *http.Request) (*http.Response, error) {
	if u.lose.Load() && req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/placementpolicies/") && strings.HasSuffix(req.URL.Path, "/status") {
		return nil, errors.New("the replica is killed before it writes this status")
	}
	return u.next.RoundTrip(req)
}

var _ = Describe("The number of remediated objects", func() {
	const objects, tier = 8, "example.com/tier"
	silver := func(ctx context.Context, namespace string) (int, error) {
		values, err := valuesOf(ctx, namespace, tier)
		return values["silver"], err
	}
	remediated := func(ctx context.Context, name string) (int64, error) {
		p, err := f.Policy(ctx, name)
		return ptr.Deref(p.Status.Remediated, 0), err
	}

	DescribeTable("has each patch of a leader that is killed", func(ctx SpecContext, mode placementv1.RemediationMode, killed ...int) {
		stopOperator()
		lose := &atomic.Bool{}
		f.Operator.Wrap(func(next http.RoundTripper) http.RoundTripper { return &unwritten{next, lose} })
		DeferCleanup(func() { lose.Store(false) })
		startOperator(ctx)
		namespace := f.NewNamespace(ctx, nil)
		name := onConfigMaps(ctx, "killed", always(tier, "gold"), namespace, func(p *placementv1.PlacementPolicy) {
			p.Spec.Remediation.Mode, p.Spec.Remediation.Budget = mode, &placementv1.RemediationBudget{MaxPerMinute: 120}
		})
		crowd(ctx, namespace, name, objects)
		f.ChangePolicy(ctx, name, func(p *placementv1.PlacementPolicy) { p.Spec.Rego = always(tier, "silver") })
		if mode == placementv1.RemediationApproved {
			Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Plan.State", placementv1.PlanWaitingForApproval))
			p, err := f.Policy(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			f.MustKubectl(ctx, "", "annotate", "placementpolicy", name, placementv1.ApproveAnnotation+"="+p.Status.Plan.Digest)
		}
		for i, n := range killed {
			Eventually(remediated).WithContext(ctx).WithArguments(name).Should(BeNumerically(">", i))
			lose.Store(true)
			Eventually(silver).WithContext(ctx).WithArguments(namespace).Should(BeNumerically(">=", n))
			before, err := remediated(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(before).To(BeNumerically("<", n))
			stopOperator()
			lose.Store(false)
			startOperator(ctx)
		}
		expectCompliant(ctx, name)
		Expect(silver(ctx, namespace)).To(Equal(objects))
		Eventually(remediated).WithContext(ctx).WithArguments(name).Should(BeEquivalentTo(objects))
		Consistently(remediated).WithContext(ctx).WithArguments(name).Should(BeEquivalentTo(objects))
	},
		Entry("in the midst of its plan", placementv1.RemediationAutomatic, 4),
		Entry("twice", placementv1.RemediationAutomatic, 4, 7),
		Entry("after the last move", placementv1.RemediationAutomatic, objects),
		Entry("in the midst of an approved plan", placementv1.RemediationApproved, 4),
	)
})
