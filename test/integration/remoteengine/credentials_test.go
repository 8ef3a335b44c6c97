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

package remoteengine_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/framework/opaserver"
	"github.com/berth-dev/berth/test/framework/pki"
)

// putSecret creates or replaces a Secret of the operator's own namespace, which the spec's end removes.
func putSecret(ctx context.Context, name string, data map[string][]byte) {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: framework.OperatorNamespace, Name: name}, Data: data}
	err := f.Client.Create(ctx, secret)
	if err == nil {
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(f.Client.Delete(ctx, secret))).To(Succeed())
		})
		return
	}
	Expect(f.Client.Update(ctx, secret)).To(Succeed())
}

func withToken(secret string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Remote.TokenSecretRef = &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: secret}}
	}
}

func withAuthority(secret string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Remote.CASecretRef = &placementv1.CASecretReference{SecretReference: placementv1.SecretReference{Name: secret}}
	}
}

func withClientCertificate(secret string) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) {
		p.Spec.Remote.ClientCertificateSecretRef = &placementv1.SecretReference{Name: secret}
	}
}

func withFailurePolicy(failure placementv1.FailurePolicy) func(*placementv1.PlacementPolicy) {
	return func(p *placementv1.PlacementPolicy) { p.Spec.FailurePolicy = failure }
}

// expectDecided waits until objects are decided again.
func expectDecided(ctx context.Context, namespace, zone string) {
	GinkgoHelper()
	Eventually(f.TryZone).WithContext(ctx).WithArguments(namespace).Should(Equal(zone))
}

func expectCondition(ctx context.Context, policy, condition string, status metav1.ConditionStatus, reason string, message ...string) {
	GinkgoHelper()
	Eventually(f.Condition).WithContext(ctx).WithArguments(policy, condition).Should(framework.BeCondition(status, reason, message...))
}

var _ = Describe("Credentials for an engine", func() {
	It("are a token, which takes effect without a restart when it is another one", func(ctx SpecContext) {
		server := opaserver.Start(GinkgoTB(), opaserver.Options{Files: map[string]string{"p.rego": framework.Rego(zone("a"))}, Tokens: []string{"first"}})
		secret, namespace := framework.NewName("token"), f.NewNamespace(ctx, nil)
		putSecret(ctx, secret, map[string][]byte{"token": []byte("first\n")})
		name := onConfigMaps(ctx, namespace, server.URL()+document, withToken(secret), withFailurePolicy(placementv1.FailurePolicyFail))
		expectDecided(ctx, namespace, "a")

		server.SetTokens("second")
		_, err := f.TryZone(ctx, namespace)
		Expect(err).To(MatchError(And(ContainSubstring("PlacementPolicy %q can't decide", name), ContainSubstring("401"))))
		expectCondition(ctx, name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonUnauthorized, server.URL())

		putSecret(ctx, secret, map[string][]byte{"token": []byte("second")})
		expectDecided(ctx, namespace, "a")
		awaitAnswering(ctx, name, namespace)
	})

	It("are authorities, which take effect without a restart when they are others", func(ctx SpecContext) {
		before, after := pki.NewAuthority(GinkgoTB()), pki.NewAuthority(GinkgoTB())
		certificate, key := before.Server(time.Hour)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{Files: map[string]string{"p.rego": framework.Rego(zone("a"))}, Certificate: certificate, Key: key})
		secret, namespace, bundled := framework.NewName("ca"), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		putSecret(ctx, secret, map[string][]byte{"ca.crt": before.PEM})
		name := onConfigMaps(ctx, namespace, server.URL()+document, withAuthority(secret))
		expectDecided(ctx, namespace, "a")

		By("having the policy itself say whom to trust")
		onConfigMaps(ctx, bundled, server.URL()+document, func(p *placementv1.PlacementPolicy) { p.Spec.Remote.CABundle = slices.Concat(after.PEM, before.PEM) })
		expectDecided(ctx, bundled, "a")

		By("giving the server the other's certificate")
		server.SetCertificate(after.Server(time.Hour))
		server.Restart()
		Eventually(func(ctx context.Context) error {
			_, err := f.TryZone(ctx, namespace)
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("certificate signed by unknown authority")))
		expectCondition(ctx, name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonNotAnswering)
		expectDecided(ctx, bundled, "a")

		putSecret(ctx, secret, map[string][]byte{"ca.crt": slices.Concat(before.PEM, after.PEM)})
		expectDecided(ctx, namespace, "a")
	})

	It("are a client certificate, which takes effect without a restart when it is another one", func(ctx SpecContext) {
		servers, clients, strangers := pki.NewAuthority(GinkgoTB()), pki.NewAuthority(GinkgoTB()), pki.NewAuthority(GinkgoTB())
		certificate, key := servers.Server(time.Hour)
		server := opaserver.Start(GinkgoTB(), opaserver.Options{
			Files: map[string]string{"p.rego": framework.Rego(zone("a"))}, Certificate: certificate, Key: key, ClientCA: clients.PEM,
		})
		secret, namespace := framework.NewName("client"), f.NewNamespace(ctx, nil)
		show := func(a *pki.Authority, name string) {
			certificate, key := a.Client(name)
			putSecret(ctx, secret, map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key})
		}
		show(clients, "first")
		name := onConfigMaps(ctx, namespace, server.URL()+document, withClientCertificate(secret), func(p *placementv1.PlacementPolicy) {
			p.Spec.Remote.CABundle = servers.PEM
		})
		expectDecided(ctx, namespace, "a")

		show(strangers, "first")
		Eventually(func(ctx context.Context) error {
			_, err := f.TryZone(ctx, namespace)
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("PlacementPolicy %q can't decide", name)))
		show(clients, "second")
		expectDecided(ctx, namespace, "a")
	})

	It("are missed where their Secret is not there, and found when it is made", func(ctx SpecContext) {
		server := opaserver.Start(GinkgoTB(), opaserver.Options{Files: map[string]string{"p.rego": framework.Rego(zone("a"))}, Tokens: []string{"first"}})
		secret, namespace := framework.NewName("late"), f.NewNamespace(ctx, nil)
		By("having one of that name in another namespace")
		elsewhereSecret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Data: map[string][]byte{"token": []byte("first")}}
		Expect(f.Client.Create(ctx, elsewhereSecret)).To(Succeed())
		p := elsewhere(namespace, server.URL()+document, withToken(secret))
		f.CreatePolicy(ctx, p)
		Eventually(func(ctx context.Context) error {
			_, err := f.TryZone(ctx, namespace)
			return err
		}).WithContext(ctx).Should(MatchError(And(ContainSubstring("PlacementPolicy %q can't decide", p.Name), ContainSubstring(secret))))
		expectCondition(ctx, p.Name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonCredentialsUnusable, secret)

		putSecret(ctx, secret, map[string][]byte{"other": []byte("first")})
		expectCondition(ctx, p.Name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonCredentialsUnusable, secret)
		putSecret(ctx, secret, map[string][]byte{"token": []byte("first")})
		expectDecided(ctx, namespace, "a")
	})

	It("are in Secrets of the operator's own namespace that are not its own", func(ctx SpecContext) {
		text := framework.Manifest(map[string]any{
			"apiVersion": placementv1.GroupVersion.String(), "kind": "PlacementPolicy", "metadata": map[string]any{"name": "other-namespace"},
			"spec": map[string]any{
				"match": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}}}},
				"remote": map[string]any{
					"url": "https://opa.example/v1/data/placement", "tokenSecretRef": map[string]any{"name": "x", "namespace": "default"},
				},
			},
		})
		out, err := f.Kubectl(ctx, text, "create", "--validate=strict", "-f", "-")
		Expect(err).To(HaveOccurred(), out)
		Expect(out).To(ContainSubstring(`unknown field "spec.remote.tokenSecretRef.namespace"`))
		for _, own := range []string{"berth-webhook-cert", "berth-webhook-token", "berth-intent-key"} {
			for _, with := range []func(string) func(*placementv1.PlacementPolicy){withToken, withAuthority, withClientCertificate} {
				p := elsewhere("default", "https://opa.example/v1/data/placement", with(own))
				Expect(f.Client.Create(ctx, p, client.DryRunAll)).To(MatchError(ContainSubstring(own)))
			}
		}
	})
})

// awaitAnswering waits until a policy's engine counts as answering, for which it has to be asked once the last fault is
// some seconds ago.
func awaitAnswering(ctx context.Context, policy, namespace string) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		_, err := f.TryZone(ctx, namespace)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(f.Condition(ctx, policy, placementv1.ConditionReplicated)).To(beAnswering())
	}).WithContext(ctx).Should(Succeed())
}

// expectAnswering waits until a policy's condition says that its engine answers.
func expectAnswering(ctx context.Context, policy string) {
	GinkgoHelper()
	Eventually(f.Condition).WithContext(ctx).WithArguments(policy, placementv1.ConditionReplicated).Should(beAnswering())
}

// beAnswering matches the condition Replicated of a policy whose engine has everything, and answers.
func beAnswering() OmegaMatcher {
	return And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", MatchRegexp(`^the engine \S+ answers`)))
}
