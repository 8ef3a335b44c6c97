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
	"crypto/tls"
	"net"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
)

const (
	// readinessGap bounds how long some requests are refused after one of two replicas is gone without a word: until the
	// kubelet or the API server knows, and every node's kube-proxy.
	readinessGap = time.Minute
	// succession bounds how long it takes until another replica does what a leader did that is gone without a word. Its
	// lease has to expire.
	succession = 3 * time.Minute
)

// disturbed is what may happen to Berth while it is needed.
func disturbed() {
	It("refuses for a moment at most when a replica is deleted by force, and lets nothing pass undecided", func(ctx SpecContext) {
		l := startLoad(ctx, harbour, berthAnnotation)
		l.await(ctx, 20)
		killed := time.Now()
		must(ctx, "kubectl --namespace berth-system delete pod --force --grace-period=0 "+replica(ctx).Name)
		expectReady(ctx)
		l.await(ctx, 60)
		l.expectMoment(killed)
	})

	It("refuses for a moment at most when a replica's process is killed, and lets nothing pass undecided", func(ctx SpecContext) {
		replicas, err := operators(ctx)
		Expect(err).NotTo(HaveOccurred())
		// One after the other, so that the one is among them that the API server has its connections to.
		for _, victim := range replicas {
			l := startLoad(ctx, harbour, berthAnnotation)
			l.await(ctx, 20)
			killed := time.Now()
			kill(&victim)
			Eventually(func(ctx context.Context) (int32, error) {
				p := &corev1.Pod{}
				if err := f.Client.Get(ctx, client.ObjectKeyFromObject(&victim), p); err != nil {
					return 0, err
				}
				return p.Status.ContainerStatuses[0].RestartCount, nil
			}).WithContext(ctx).Should(BeNumerically(">", victim.Status.ContainerStatuses[0].RestartCount))
			expectReady(ctx)
			l.await(ctx, 40)
			l.expectMoment(killed)
		}
	})

	It("goes on with remediation when the leader is deleted", func(ctx SpecContext) {
		old := leader(ctx)
		must(ctx, "kubectl --namespace berth-system delete pod "+old.Name)
		// It led to its end.
		report("another replica remediates %s after the leader was gone", remediates(ctx, "west"))
		expectReady(ctx)
		Expect(leader(ctx).Name).NotTo(Equal(old.Name))
	})

	It("goes on with remediation when the leader is killed", func(ctx SpecContext) {
		old := leader(ctx)
		// Deleted before, so that it does not come back to its own lease; it has no time to give that up.
		must(ctx, "kubectl --namespace berth-system delete pod --wait=false "+old.Name)
		kill(old)
		took := remediates(ctx, "east")
		report("another replica remediates %s after the leader was killed", took)
		Expect(took).To(BeNumerically("<", succession))
		expectReady(ctx)
		Expect(leader(ctx).Name).NotTo(Equal(old.Name))
	})

	It("changes over to another certificate without a refused request", func(ctx SpecContext) {
		before, err := serving(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(HaveLen(2))
		l := startLoad(ctx, harbour, berthAnnotation)
		l.await(ctx, 20)
		must(ctx, "kubectl --namespace berth-system delete secret berth-webhook-cert")
		Eventually(serving).WithContext(ctx).Should(And(HaveLen(2), HaveEach(Not(BeElementOf(before)))))
		l.await(ctx, 100)
		l.expectAllAdmitted()
	})

	It("refuses nothing when one node after the other is drained", func(ctx SpecContext) {
		l := startLoad(ctx, harbour, berthAnnotation)
		l.await(ctx, 20)
		for _, node := range kube.Nodes() {
			must(ctx, "kubectl drain --ignore-daemonsets --delete-emptydir-data --timeout=3m "+node)
			Expect(operators(ctx)).To(HaveEach(HaveField("Spec.NodeName", Not(Equal(node)))))
			expectReady(ctx)
			must(ctx, "kubectl uncordon "+node)
		}
		l.await(ctx, 60)
		l.expectAllAdmitted()
		expectPods(ctx, "fleet", 3, "east")
	})
}

// replica returns one of the operator's pods.
func replica(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	replicas, err := operators(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(replicas).NotTo(BeEmpty())
	return &replicas[0]
}

// leader returns the pod that leads.
func leader(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	p := &corev1.Pod{}
	Eventually(func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: "berth.placement.berth.dev"}, lease); err != nil {
			return err
		}
		// The holder is the pod's name and, after an underscore, what tells its runs apart.
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		return f.Client.Get(ctx, client.ObjectKey{Namespace: framework.OperatorNamespace, Name: name}, p)
	}).WithContext(ctx).Should(Succeed())
	return p
}

// kill kills the process of one of the operator's pods, as a shortage of memory would.
func kill(p *corev1.Pod) {
	GinkgoHelper()
	processes, err := kube.Processes(string(p.UID), "/manager")
	Expect(err).NotTo(HaveOccurred())
	Expect(processes).To(HaveLen(1))
	Expect(syscall.Kill(processes[0], syscall.SIGKILL)).To(Succeed())
}

// remediates changes the policy and returns how long it takes until the fleet is where it says.
func remediates(ctx context.Context, where string) time.Duration {
	GinkgoHelper()
	started := time.Now()
	relocate(ctx, where)
	Eventually(f.Get).WithContext(ctx).WithArguments(framework.Deployment, harbour, "fleet").Should(BePlaced(where))
	took := round(time.Since(started))
	expectPods(ctx, "fleet", 3, where)
	return took
}

// serving returns the serial numbers of the certificates that the operator's pods serve.
func serving(ctx context.Context) ([]string, error) {
	replicas, err := operators(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range replicas {
		// Whose certificate it is does not matter here; the API server looks at that.
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.Status.PodIP, "9443"))
		if err != nil {
			return nil, err
		}
		if secure, ok := conn.(*tls.Conn); ok {
			out = append(out, secure.ConnectionState().PeerCertificates[0].SerialNumber.String())
		}
		if err := conn.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
