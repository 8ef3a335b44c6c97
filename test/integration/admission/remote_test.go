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

package admission_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

const opaDocument = "https://opa.example:8181/v1/data/placement"

// remoteManifest is a policy with members of a spec, in YAML.
func remoteManifest(name, namespace, spec string) string {
	GinkgoHelper()
	members := map[string]any{"match": map[string]any{
		"resourceRules":     []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}}},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
	}}
	Expect(yaml.Unmarshal([]byte(spec), &members)).To(Succeed())
	return framework.Manifest(map[string]any{
		"apiVersion": placementv1.GroupVersion.String(), "kind": "PlacementPolicy", "metadata": map[string]any{"name": name}, "spec": members,
	})
}

var _ = Describe("kubectl apply of a policy that another engine decides", func() {
	DescribeTable("refuses what can't be meant, and says where",
		func(ctx SpecContext, spec, field string, messages ...string) {
			out, err := f.Kubectl(ctx, remoteManifest("refused", "default", spec), "apply", "--server-side", "-f", "-")
			if err == nil {
				DeferCleanup(f.DeletePolicy, "refused")
			}
			Expect(err).To(HaveOccurred(), out)
			for _, m := range append(messages, field+": ") {
				Expect(out).To(ContainSubstring(m))
			}
		},
		Entry("no url", `remote: {}`, "spec.remote.url", "Required value"),
		Entry("an empty url", `remote: {url: ""}`, "spec.remote.url", "at least 1 chars"),
		Entry("a url too long", `remote: {url: "https://opa.example/`+strings.Repeat("x", 2048)+`"}`, "spec.remote.url", "2048"),
		Entry("a url that is no address", `remote: {url: opa.example}`, "spec.remote.url", "must begin with https:// or http://"),
		Entry("another scheme", `remote: {url: "ftp://opa.example/v1/data"}`, "spec.remote.url", "must begin with https:// or http://"),
		Entry("a url without a host", `remote: {url: "https:///v1/data"}`, "spec.remote.url", "must be https://<host>[:<port>]/<path>"),
		Entry("plain http", `remote: {url: "http://opa.example/v1/data/p"}`, "spec.remote.url", "plain http needs insecure: true"),
		Entry("plain http that is not allowed", `remote: {url: "http://opa.example/v1/data/p", insecure: false}`, "spec.remote.url", "plain http needs insecure: true"),
		Entry("certificates for plain http", `remote: {url: "http://opa.example/v1/data/p", insecure: true, clientCertificateSecretRef: {name: x}}`, "spec.remote.url", "certificates are for https"),
		Entry("user and password", `remote: {url: "https://me:secret@opa.example/v1/data/p"}`, "spec.remote.url", "neither user and password nor query or fragment"),
		Entry("a query", `remote: {url: "https://opa.example/v1/data/p?explain=full"}`, "spec.remote.url", "neither user and password nor query or fragment"),
		Entry("authorities that are none", `remote: {url: "https://opa.example/v1/data/p", caBundle: aGk=}`, "spec.remote.caBundle", "no certificate in PEM"),
		Entry("two sorts of authorities", `remote: {url: "https://opa.example/v1/data/p", caBundle: aGk=, caSecretRef: {name: x}}`, "spec.remote.caSecretRef", "exclude each other"),
		Entry("a token without a Secret", `remote: {url: "https://opa.example/v1/data/p", tokenSecretRef: {key: token}}`, "spec.remote.tokenSecretRef.name", "Required value"),
		Entry("the intent key as a token", `remote: {url: "https://opa.example/v1/data/p", tokenSecretRef: {name: berth-intent-key}}`, "spec.remote.tokenSecretRef.name", "Berth's own"),
		Entry("the webhook's certificate as its own", `remote: {url: "https://opa.example/v1/data/p", clientCertificateSecretRef: {name: berth-webhook-cert}}`, "spec.remote.clientCertificateSecretRef.name", "Berth's own"),
		Entry("no time", `remote: {url: "https://opa.example/v1/data/p", timeoutSeconds: -1}`, "spec.remote.timeoutSeconds", "greater than or equal to 1"),
		Entry("too much time", `remote: {url: "https://opa.example/v1/data/p", timeoutSeconds: 31}`, "spec.remote.timeoutSeconds", "less than or equal to 30"),
		Entry("too many attempts", `remote: {url: "https://opa.example/v1/data/p", retry: {maxAttempts: 11}}`, "spec.remote.retry.maxAttempts", "less than or equal to 10"),
		Entry("pauses that shrink", `remote: {url: "https://opa.example/v1/data/p", retry: {initialBackoffMilliseconds: 200, maxBackoffMilliseconds: 100}}`,
			"spec.remote.retry.maxBackoffMilliseconds", "must not be less than initialBackoffMilliseconds"),
		Entry("answers kept too long", `remote: {url: "https://opa.example/v1/data/p", cacheSeconds: 3601}`, "spec.remote.cacheSeconds", "less than or equal to 3600"),
		Entry("a refresh too often", `remote: {url: "https://opa.example/v1/data/p", refreshSeconds: 9}`, "spec.remote.refreshSeconds", "must be 0 or at least 10"),
		Entry("a meaning of undefined that there is not", `remote: {url: "https://opa.example/v1/data/p", undefined: Maybe}`, "spec.remote.undefined", `"Maybe"`),
		Entry("rego beside it", `{rego: package p, remote: {url: "https://opa.example/v1/data/p"}}`, "spec.rego", "rego and remote exclude each other"),
		Entry("data beside it", `{data: {a: 1}, remote: {url: "https://opa.example/v1/data/p"}}`, "spec.data", "has its data there"),
		Entry("replicate beside it", `{replicate: [{resource: pods}], remote: {url: "https://opa.example/v1/data/p"}}`, "spec.replicate", "belong in remote.replicate"),
		Entry("predicates beside it", `{predicates: {candidates: Nodes}, remote: {url: "https://opa.example/v1/data/p"}}`, "spec.predicates", "a remote engine can't evaluate predicates"),
		Entry("replicate for an engine without OPA's APIs", `remote: {url: "https://opa.example/decide", replicate: [{resource: pods}]}`, "spec.remote.url", "below /v1/data or /v0/data"),
		Entry("modules for an engine without OPA's APIs", `remote: {url: "https://opa.example/decide", modules: [{name: a, rego: package a}]}`, "spec.remote.url", "below /v1/data or /v0/data"),
		Entry("a module's name that is none", `remote: {url: "https://opa.example/v1/data/p", modules: [{name: a/b, rego: package a}]}`, "spec.remote.modules[0].name", "should match"),
		Entry("two modules of one name", `remote: {url: "https://opa.example/v1/data/p", modules: [{name: a, rego: package a}, {name: a, rego: package b}]}`, "spec.remote.modules", "duplicate entries"),
		Entry("a module that does not parse", `remote: {url: "https://opa.example/v1/data/p", modules: [{name: a, rego: package a}, {name: lib, rego: "package lib\n\nx := {"}]}`,
			"spec.remote.modules[1].rego", "lib.rego:3:6: rego_parse_error"),
	)

	It("takes all that can be meant, and fills in the defaults", func(ctx SpecContext) {
		name := framework.NewName("remote")
		DeferCleanup(f.DeletePolicy, name)
		out := f.MustKubectl(ctx, remoteManifest(name, f.NewNamespace(ctx, nil), `
remote:
  url: `+opaDocument+`
  tokenSecretRef: {name: opa}
  caSecretRef: {name: opa}
  clientCertificateSecretRef: {name: opa-client}
  retry: {maxAttempts: 5}
  replicate: [{resource: pods}]
  modules: [{name: main, rego: "package placement\n\nerrors[\"no\"] { input.metadata.name == \"no\" }\n"}]
`), "apply", "--server-side", "-f", "-")
		Expect(out).NotTo(ContainSubstring("do not compile"))
		p, err := f.Policy(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		r := p.Spec.Remote
		want := p.Spec.WithDefaults().Remote
		// To leave it out is warned of, which to say it is not.
		want.Undefined = ""
		Expect(cmp.Diff(want, r)).To(BeEmpty(), "what the API server fills in is what Berth takes")
		Expect(r.TimeoutSeconds).To(BeEquivalentTo(1))
		Expect(r.Retry).To(Equal(placementv1.RemoteRetry{MaxAttempts: 5, InitialBackoffMilliseconds: 100, MaxBackoffMilliseconds: 1000}))
		Expect(r.TokenSecretRef.Key).To(Equal("token"))
		Expect(r.CASecretRef.Key).To(Equal("ca.crt"))
	})

	DescribeTable("warns of what may be amiss, and takes it",
		func(ctx SpecContext, spec, warning string) {
			out := f.MustKubectl(ctx, remoteManifest(framework.NewName("remote"), "default", spec), "apply", "--server-side", "--dry-run=server", "-f", "-")
			Expect(out).To(ContainSubstring("Warning: " + warning))
		},
		Entry("a type that is not served", `remote: {url: "https://opa.example/v1/data/p", replicate: [{apiGroup: sea.example.com, resource: buoys}]}`,
			`the policy reads buoys.sea.example.com, which the API server does not serve`),
		Entry("a function that OPA does not have", `remote: {url: "https://opa.example/v1/data/p", modules: [{name: a, rego: "package a\n\nx := acme.lookup(input)"}]}`,
			"the modules do not compile unless the remote engine has what they lack: a.rego:3: rego_type_error: undefined function acme.lookup"),
		Entry("a meaning of undefined that nobody decided", `remote: {url: "https://opa.example/v1/data/p"}`, "spec.remote.undefined is not set: an engine that does not have the policy"),
		Entry("a Secret that is not there", `remote: {url: "https://opa.example/v1/data/p", tokenSecretRef: {name: nowhere}}`,
			"spec.remote.tokenSecretRef: the Secret berth-system/nowhere does not exist; create it: kubectl --namespace berth-system create secret generic nowhere --from-file=token=FILE"),
	)
})

var _ = Describe("An engine elsewhere that fails for a while", func() {
	It("is told of by condition, Events and metrics, and so is its recovery", func(ctx SpecContext) {
		var ill atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if ill.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(`{"result": {"annotations": {"example.com/zone": "a"}}}`))
		}))
		DeferCleanup(server.Close)
		namespace, name := f.NewNamespace(ctx, nil), framework.NewName("remote")
		p := framework.NewPolicy(name, "", "", "configmaps", namespace)
		p.Spec.Remediation.Mode = placementv1.RemediationOff
		p.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		p.Spec.Remote = &placementv1.Remote{URL: server.URL + "/v1/data/p", Insecure: true, Retry: placementv1.RemoteRetry{MaxAttempts: 1}}
		f.CreateReadyPolicy(ctx, p)
		Expect(f.Condition(ctx, name, placementv1.ConditionReplicated)).To(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonNoDataRead, "the leader has not queried the engine "+server.URL+" yet"))
		create := func(ctx context.Context, name string) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, name, nil))
		}
		about := func(ctx context.Context, reason string) ([]string, error) {
			out, err := f.Kubectl(ctx, "", "get", "events", "--namespace=default", "--field-selector=involvedObject.uid="+string(p.UID)+",reason="+reason, "-o", "jsonpath={.items[*].message}")
			return strings.Fields(out), err
		}

		Expect(create(ctx, "well")).To(Succeed())
		Expect(stored(ctx, framework.ConfigMap, namespace, "well")).To(HaveKeyWithValue("example.com/zone", "a"))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReplicated).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonNoDataRead, "the engine "+server.URL+" answers"))
		ill.Store(true)
		Expect(create(ctx, "ill")).To(Succeed())
		Expect(stored(ctx, framework.ConfigMap, namespace, "ill")).To(BeEmpty())
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReplicated).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotAnswering, server.URL))
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReady).Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotAnswering))
		Eventually(about).WithContext(ctx).WithArguments(events.RemoteFailing.Reason).Should(ContainElement(ContainSubstring(server.URL)))
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(namespace, events.EvaluationFailed.Reason).Should(ConsistOf(And(
			ContainSubstring(name), ContainSubstring("500"), ContainSubstring("ignored, as its failurePolicy says"))))
		endpoint := `endpoint="` + server.URL + `"`
		Expect(operator.Series("berth_remote_requests_total", endpoint, `fault="server"`)).NotTo(BeEmpty())
		Expect(operator.Series("berth_remote_circuit_open", endpoint)).To(HaveLen(1))

		ill.Store(false)
		Expect(create(ctx, "again")).To(Succeed())
		Eventually(f.Condition).WithContext(ctx).WithArguments(name, placementv1.ConditionReplicated).WithTimeout(2 * framework.Timeout).Should(framework.BeCondition(metav1.ConditionTrue, placementv1.ReasonNoDataRead, "the engine "+server.URL+" answers"))
		f.AwaitReady(ctx, name)
		Eventually(about).WithContext(ctx).WithArguments(events.RemoteRecovered.Reason).Should(ContainElement("again;"))

		f.DeletePolicy(ctx, name)
		for _, metric := range []string{"berth_remote_requests_total", "berth_remote_circuit_open"} {
			Eventually(operator.Series).WithArguments(metric, endpoint).Should(BeEmpty())
		}
	})
})
