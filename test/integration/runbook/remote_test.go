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

package runbook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// ill says that the engine of the policies is not well.
var ill atomic.Bool

// elsewhere has the policy zones decided by an engine that wants a token, and has no opinion of anything.
func elsewhere(ctx context.Context, tune ...func(*placementv1.Remote)) {
	GinkgoHelper()
	elsewhereIn(ctx, nil, tune...)
}

// elsewhereIn is elsewhere in further namespaces.
func elsewhereIn(ctx context.Context, namespaces []string, tune ...func(*placementv1.Remote)) {
	GinkgoHelper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case ill.Load():
			w.WriteHeader(http.StatusInternalServerError)
		case r.Header.Get("Authorization") != "Bearer right":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
		}
	}))
	DeferCleanup(engine.Close)
	DeferCleanup(func(ctx SpecContext) {
		ill.Store(false)
		f.MustKubectl(ctx, "", "delete", "--ignore-not-found", "--namespace="+framework.OperatorNamespace, "secret/opa")
	})
	policy(ctx, "zones", "", remediation(placementv1.RemediationOff), also(namespaces...), func(p *placementv1.PlacementPolicy) {
		p.Spec.Remote = &placementv1.Remote{
			URL: engine.URL + "/v1/data/zones", Insecure: true, Retry: placementv1.RemoteRetry{MaxAttempts: 1},
			TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "opa"}},
		}
		for _, t := range tune {
			t(p.Spec.Remote)
		}
	})
	f.AwaitReady(ctx, "zones")
}

func showToken(ctx context.Context, is string) {
	GinkgoHelper()
	f.MustKubectl(ctx, "", "create", "secret", "generic", "opa", "--namespace="+framework.OperatorNamespace, "--from-literal=token="+is)
}

// ask causes a number of queries to the engine, which fail.
func ask(ctx context.Context, times int, message string) {
	GinkgoHelper()
	askAbout(ctx, "shop", times, message)
}

// askAbout calls ask for objects of a namespace.
func askAbout(ctx context.Context, namespace string, times int, message string) {
	GinkgoHelper()
	for range times {
		Expect(f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "asked", nil))).To(MatchError(ContainSubstring(message)))
	}
}

// answers has the engine answer once.
func answers(ctx context.Context) {
	GinkgoHelper()
	ill.Store(false)
	f.ChangePolicy(ctx, "zones", func(p *placementv1.PlacementPolicy) { p.Spec.FailurePolicy = placementv1.FailurePolicyFail })
	Eventually(func(ctx context.Context) error {
		return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, "shop", "answered", nil))
	}).WithContext(ctx).WithTimeout(2 * framework.Timeout).Should(Succeed())
}

// remoteStages are those of policies that another engine decides.
var remoteStages = map[string]stage{
	placementv1.ReasonNotAnswering: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) {
		showToken(ctx, "right")
		elsewhere(ctx)
		ill.Store(true)
		ask(ctx, 1, "500")
	}, after: answers},
	placementv1.ReasonCircuitOpen: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) {
		showToken(ctx, "right")
		several := tenants(ctx)
		elsewhereIn(ctx, several)
		ill.Store(true)
		for _, namespace := range several {
			askAbout(ctx, namespace, 5, "500")
		}
	}, after: answers},
	placementv1.ReasonUnauthorized: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) {
		showToken(ctx, "wrong")
		elsewhere(ctx)
		ask(ctx, 1, "401")
	}, after: answers},
	placementv1.ReasonCredentialsUnusable: {condition: placementv1.ConditionReplicated, do: func(ctx context.Context) {
		elsewhere(ctx)
		ask(ctx, 1, "not found")
	}, after: answers},
}
