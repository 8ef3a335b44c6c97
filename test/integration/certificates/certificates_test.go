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

package certificates_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

const (
	day = 24 * time.Hour
	// year is how long a certificate is valid that Berth makes.
	year = 365 * day
)

// underLoad starts a leader, replicas, a policy that decides all ConfigMaps of a namespace, and a load of them on the
// replicas.
func underLoad(ctx context.Context, tune ...func(*setup.Options)) (*framework.Manager, []*framework.Manager, *framework.Proxy, *load) {
	GinkgoHelper()
	leader, all, b := start(ctx, tune...)
	namespace := f.NewNamespace(ctx, nil)
	name := "certificates-" + namespace
	p := framework.NewPolicy(name, framework.Rego(`annotations["example.com/zone"] := "a"`), "", "configmaps", namespace)
	f.CreateReadyPolicy(ctx, p)
	DeferCleanup(func(ctx SpecContext) { f.DeletePolicy(ctx, name) })
	Eventually(func(ctx context.Context) (map[string]string, error) {
		obj := framework.NewObject(framework.ConfigMap, namespace, "try", nil)
		err := f.Client.Create(ctx, obj, client.DryRunAll)
		return obj.GetAnnotations(), err
	}).WithContext(ctx).Should(HaveKeyWithValue("example.com/zone", "a"))
	return leader, all, b, startLoad(ctx, namespace, all)
}

var _ = Describe("Under a load of creates that are denied without an answer", func() {
	It("certificates and authorities change without a refused one", func(ctx SpecContext) {
		leader, all, b, l := underLoad(ctx)
		leaf, authority := awaitServed(ctx, all, nil, year)
		awaitOnly(ctx, authority)

		By("renewing the certificate alone")
		change(ctx, func(s *corev1.Secret) { delete(s.Data, corev1.TLSCertKey) })
		leaf, next := awaitServed(ctx, all, leaf, year)
		Expect(next).To(Equal(authority))
		l.ok("new certificate")

		for _, round := range []struct {
			what string
			do   func()
		}{
			{"the Secret's data deleted", func() { change(ctx, func(s *corev1.Secret) { s.Data = nil }) }},
			{"the Secret deleted", func() { Expect(f.Client.Delete(ctx, newSecret())).To(Succeed()) }},
			{"certificate and authority nearly expired", func() {
				change(ctx, func(s *corev1.Secret) { newAuthority(2*day).fill(s, day, true) })
			}},
		} {
			By(round.what)
			before, begun := authority, time.Now()
			round.do()
			leaf, authority = awaitServed(ctx, all, leaf, year)
			Expect(authority).NotTo(Equal(before))
			trusted, err := bundles(ctx)
			Expect(err).NotTo(HaveOccurred())
			if time.Since(begun) < overlap {
				Expect(trusted).To(HaveEach(ContainSubstring(before)), "the old authority is gone while its certificate may be served still")
			}
			awaitOnly(ctx, authority)
			l.ok(round.what)
		}

		By("changing the authority again and again before anybody serves it")
		for range 3 {
			before := authority
			change(ctx, func(s *corev1.Secret) { s.Data = nil })
			Eventually(func(ctx context.Context) (string, error) {
				_, text, err := inSecret(ctx)
				authority = text
				return text, err
			}).WithContext(ctx).ShouldNot(Equal(before))
			Eventually(bundles).WithContext(ctx).Should(HaveEach(ContainSubstring(authority)))
		}
		leaf, authority = awaitServed(ctx, all, leaf, year)
		awaitOnly(ctx, authority)
		l.ok("in quick succession")

		By("ending the leader as soon as it has made another authority")
		before := authority
		change(ctx, func(s *corev1.Secret) { s.Data = nil })
		Eventually(func(ctx context.Context) error {
			_, _, err := inSecret(ctx)
			return err
		}).WithContext(ctx).WithPolling(framework.Interval / 10).Should(Succeed())
		leader.Stop()
		_, authority = awaitServed(ctx, all, leaf, year)
		Expect(authority).NotTo(Equal(before))
		awaitOnly(ctx, authority)
		l.stop()
		l.ok("with a change of leader")
		AddReportEntry("connections", fmt.Sprintf("%d by the API server to %d replicas", b.Connections(), len(all)))
		Expect(b.Connections()).To(BeNumerically(">", 100), "the load rarely shakes hands")
	})

	It("what somebody else puts into the Secret is followed and left alone", func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, newSecret()))).To(Succeed())
		m := f.StartManager(ctx, func(o *setup.Options) { o.WebhookCertManagement = setup.CertManagementExternal })
		Consistently(m.Ready).WithContext(ctx).ShouldNot(Succeed(), "it is ready without a certificate")
		Expect(f.Client.Get(ctx, secretName(), &corev1.Secret{})).NotTo(Succeed(), "it made a Secret")
		m.Stop()

		first, second := newAuthority(30*day), newAuthority(30*day)
		secret := newSecret()
		first.fill(secret, day, false)
		secret.Type = corev1.SecretTypeTLS
		Expect(f.Client.Create(ctx, secret)).To(Succeed())
		_, all, _, l := underLoad(ctx, func(o *setup.Options) { o.WebhookCertManagement = setup.CertManagementExternal })
		var leaf *x509.Certificate
		for i, by := range []*authority{first, first, second, first} {
			if i > 0 {
				change(ctx, func(s *corev1.Secret) { by.fill(s, day, false) })
			}
			var text string
			leaf, text = awaitServed(ctx, all, leaf, day)
			Expect(text).To(Equal(string(pemOf(by.certificate))))
			awaitOnly(ctx, text)
			l.ok(fmt.Sprintf("certificate %d from elsewhere", i+1))
		}

		By("refusing what the API server would refuse")
		change(ctx, func(s *corev1.Secret) {
			second.fill(s, day, false)
			s.Data["ca.crt"] = pemOf(first.certificate)
		})
		broken := &corev1.Secret{}
		Expect(f.Client.Get(ctx, secretName(), broken)).To(Succeed())
		Consistently(func(g Gomega, ctx context.Context) {
			for _, m := range all {
				got, err := served(ctx, m)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Equal(leaf)).To(BeTrue())
			}
			now := &corev1.Secret{}
			g.Expect(f.Client.Get(ctx, secretName(), now)).To(Succeed())
			g.Expect(now.ResourceVersion).To(Equal(broken.ResourceVersion), "somebody else's Secret was written")
		}).WithContext(ctx).Should(Succeed())
		l.stop()
		l.ok("broken one from elsewhere")
		// The specs after this one make their own.
		Expect(f.Client.Delete(ctx, newSecret())).To(Succeed())
	})
})

var _ = Describe("A way to manage certificates that there is not", func() {
	It("is refused at the start", func(ctx SpecContext) {
		_, err := setup.New(ctx, f.Config, setup.Options{
			Namespace: framework.OperatorNamespace, WebhookURL: "https://localhost:1", MetricsAddress: "0", WebhookCertManagement: "cert-manager",
			EvaluationTimeout: time.Second, EvaluationConcurrency: 1,
		})
		Expect(err).To(MatchError(ContainSubstring("--webhook-cert-management")))
	})
})
