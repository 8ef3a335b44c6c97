//go:build e2e

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

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/framework"
)

const scaleUp = "kubectl --namespace berth-system scale deployment/berth-controller-manager --replicas=2"

// scaleToZero waits until the last replica is gone, which answers to its end.
func scaleToZero(ctx context.Context) {
	GinkgoHelper()
	must(ctx, "kubectl --namespace berth-system scale deployment/berth-controller-manager --replicas=0")
	Eventually(allPods).WithContext(ctx).WithArguments(framework.OperatorNamespace, ofOperator).Should(BeEmpty())
}

// closedAndOpened is what holds while no replica is there, and the ways out.
func closedAndOpened() {
	It("stays closed while no replica is there, and recovers by itself", func(ctx SpecContext) {
		l := startLoad(ctx, harbour, berthAnnotation)
		l.await(ctx, 20)
		scaleToZero(ctx)
		gone := time.Now()
		Eventually(func() int { return len(l.begun(gone).refused()) }).WithContext(ctx).Should(BeNumerically(">", 20))
		closed := l.begun(gone)
		Expect(closed.refused()).To(HaveLen(len(closed)), "%s", closed)
		// Running pods keep running.
		expectPods(ctx, "fleet", 3, "east")

		must(ctx, scaleUp)
		expectReady(ctx)
		l.await(ctx, 40)
		back := time.Now()
		l.await(ctx, 40)
		Expect(l.begun(back).refused()).To(BeEmpty(), "%s", l.begun(back))
		all := l.stop()
		report("%s", all)
		Expect(all.undecided()).To(BeEmpty())
	})

	It("opens by the way out, and closes when it is back", func(ctx SpecContext) {
		scaleToZero(ctx)
		Expect(f.Client.Create(ctx, newPod("stranded"))).NotTo(Succeed())
		follow(ctx, "docs/failure.md#The way out")
		// The API server takes a moment to notice that the webhook configurations are gone.
		Eventually(create).WithContext(ctx).WithArguments("drifting").Should(Succeed())
		Expect(pod(ctx, "drifting")).NotTo(BePlaced("east"))
		must(ctx, scaleUp)
		Eventually(pod).WithContext(ctx).WithArguments("drifting").Should(BePlaced("east"))
		Eventually(create).WithContext(ctx).WithArguments("moored").Should(Succeed())
		Expect(pod(ctx, "moored")).To(BePlaced("east"))
	})

	It("opens by the emergency exit, while it runs, until it is installed again", func(ctx SpecContext) {
		expectReady(ctx)
		follow(ctx, "docs/install.md#The emergency exit")
		var undecided string
		Eventually(func(ctx context.Context) error {
			undecided = "escaped-" + time.Now().Format("150405-000")
			if err := create(ctx, undecided); err != nil {
				return err
			}
			p, err := pod(ctx, undecided)
			if err != nil || p.Annotations[berthAnnotation] == "" {
				return err
			}
			return errNotOpen
		}).WithContext(ctx).Should(Succeed())
		Consistently(func(ctx context.Context) (string, error) {
			return f.Shell(ctx, "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations --selector app.kubernetes.io/managed-by=berth --output=name")
		}).WithContext(ctx).WithTimeout(5 * time.Second).Should(BeEmpty())
		follow(ctx, "docs/install.md#The emergency exit")
		must(ctx, rollout)
		Eventually(pod).WithContext(ctx).WithArguments(undecided).Should(BePlaced("east"))
		Eventually(create).WithContext(ctx).WithArguments("caught").Should(Succeed())
		Expect(pod(ctx, "caught")).To(BePlaced("east"))
	})
}
