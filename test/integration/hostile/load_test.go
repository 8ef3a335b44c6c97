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

package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// bomb is a text whose types double n times: OPA's type checker compares two of them in 4^n steps.
func bomb(n int) string {
	lines := []string{"a0 := [1]", "b0 := [1]"}
	for i := 1; i <= n; i++ {
		lines = append(lines, fmt.Sprintf("a%d := [a%d, a%d]", i, i-1, i-1), fmt.Sprintf("b%d := [b%d, b%d]", i, i-1, i-1))
	}
	return framework.Rego(append(lines, fmt.Sprintf(`errors contains "never" if a%d == b%d`, n, n))...)
}

var _ = Describe("A policy that would take minutes to compile", func() {
	It("is refused quickly, with the place", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		// A value of that size is refused also if nothing is compared with it: errors would have its type.
		for _, text := range []string{bomb(16), bomb(60), strings.ReplaceAll(bomb(60), "a60 == b60", "a60")} {
			// The API server waits for ten seconds, and stores the policy where there is no answer by then.
			err := f.Client.Create(ctx, framework.NewPolicy(framework.NewName("bomb"), text, "", "configmaps", namespace))
			Expect(err).To(MatchError(And(ContainSubstring("berth_size_error"), ContainSubstring("build large values in fewer steps"))))
		}
	})
})

// backtracks is a policy that takes longer than its deadline for a text of many lines.
const backtracks = `labels := {"lines": sprintf("%d", [n])} if {
	lines := split(input.data.text, "\n")
	n := count([1 | some a in lines; some b in lines; a == b])
}`

var _ = Describe("A policy that some objects keep busy", func() {
	It("goes on deciding the objects of other tenants", func(ctx SpecContext) {
		attacker, victim := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		policy := framework.NewPolicy(framework.NewName("busy"), framework.Rego(backtracks), "", "configmaps", attacker, victim)
		policy.Spec.FailurePolicy = placementv1.FailurePolicyIgnore
		f.CreateReadyPolicy(ctx, policy)
		create := func(namespace, name, text string) map[string]string {
			GinkgoHelper()
			object := framework.NewObject(framework.ConfigMap, namespace, name, nil)
			object.Object["data"] = map[string]any{"text": text}
			Expect(f.Client.Create(ctx, object)).To(Succeed())
			return object.GetLabels()
		}
		// Below the limit of the input, as each line ends in two bytes of JSON.
		for i := range 4 {
			Expect(create(attacker, fmt.Sprint("attack-", i), strings.Repeat("\n", 400_000))).NotTo(HaveKey("lines"))
		}
		Expect(create(victim, "mine", "a\nb")).To(HaveKeyWithValue("lines", "2"))
	})

	It("does not evaluate objects beyond spec.limits.inputBytes", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		policy := framework.NewPolicy(framework.NewName("large"), framework.Rego(`labels := {"length": sprintf("%d", [count(input.data.text)])}`), "", "configmaps", namespace)
		policy.Spec.Limits = &placementv1.Limits{InputBytes: 2048}
		f.CreateReadyPolicy(ctx, policy)
		object := framework.NewObject(framework.ConfigMap, namespace, "large", nil)
		object.Object["data"] = map[string]any{"text": strings.Repeat("x", 3000)}
		Expect(f.Client.Create(ctx, object)).To(MatchError(And(ContainSubstring("bytes as JSON, at most 2048 are evaluated"), ContainSubstring("spec.limits.inputBytes"))))
		object.Object["data"] = map[string]any{"text": "x", "other": strings.Repeat("x", 3000)}
		Expect(f.Client.Create(ctx, object)).To(Succeed())
	})
})

var _ = Describe("A policy that a remote engine decides", func() {
	It("shows the engine no Secrets", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		requests := make(chan string, 1000)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			requests <- string(body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"result": {}}`)
		}))
		DeferCleanup(server.Close)
		policy := func(resources string) *placementv1.PlacementPolicy {
			p := framework.NewPolicy(framework.NewName("spy"), "", "", resources, namespace)
			p.Spec.Mode = placementv1.ModeDryRun
			p.Spec.Remote = &placementv1.Remote{URL: server.URL + "/v1/data/spy", Insecure: true}
			return p
		}
		Expect(f.Client.Create(ctx, policy("secrets"))).To(MatchError(ContainSubstring("--allow-remote-secrets")))

		f.CreateReadyPolicy(ctx, policy("*"))
		secret := framework.NewObject(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, namespace, "mine", nil)
		secret.Object["stringData"] = map[string]any{"password": "v41u3"}
		secret.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "v41u3"})
		Expect(f.Client.Create(ctx, secret)).To(Succeed())
		var got string
		Eventually(requests).WithContext(ctx).Should(Receive(&got, ContainSubstring(`"kind":"Secret"`)))
		Expect(got).To(ContainSubstring(`"mine"`))
		Expect(got).NotTo(ContainSubstring("v41u3"))
		Expect(got).NotTo(ContainSubstring("djQxdTM"))
	})
})
