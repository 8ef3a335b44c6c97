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

package remote

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/engine/opaclient/opaclienttest"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/framework/opaserver"
	"github.com/berth-dev/berth/test/framework/pki"
)

const regionModule = `package io.k8s.federation.admission

annotations["region"] := data.kubernetes.nodes["n1"].metadata.labels.region

annotations["replicas"] := input.spec.replicas

errors contains "no name" if not input.metadata.name
`

// TestOPA runs the seed's engine, a real OPA server, with both forms of its data API and its own error responses.
func TestOPA(t *testing.T) {
	server := opaserver.Start(t, opaserver.Options{})
	server.PutPolicy("region", regionModule)
	server.PutPolicy("broken", `package broken

a := 1 if input

a := 2 if input
`)
	server.PutData("kubernetes/nodes", map[string]any{"n1": map[string]any{"metadata": map[string]any{"labels": map[string]any{"region": "eu"}}}})
	e := New(Options{})
	input := map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"replicas": int64(9007199254740993)}}
	decision := placement.Decision{Annotations: map[string]string{"region": "eu", "replicas": "9007199254740993"}}
	tests := map[string]struct {
		path      string
		undefined placementv1.UndefinedResult

		want     placement.Decision
		fault    engine.Fault
		contract bool
		says     string
	}{
		"V1":               {path: "v1/data/io/k8s/federation/admission", want: decision},
		"V0":               {path: "v0/data/io/k8s/federation/admission", want: decision},
		"V1Undefined":      {path: "v1/data/none"},
		"V0Undefined":      {path: "v0/data/none"},
		"V1UndefinedError": {path: "v1/data/none", undefined: placementv1.UndefinedError, fault: engine.FaultUndefined, says: "/v1/data/none"},
		"V0UndefinedError": {path: "v0/data/none", undefined: placementv1.UndefinedError, fault: engine.FaultUndefined, says: "/v0/data/none"},
		"Conflict":         {path: "v1/data/broken", fault: engine.FaultServer, says: "internal_error, eval_conflict_error"},
		"NoAPI":            {path: "nothing/here", fault: engine.FaultRefused, says: "404"},
		"NoDecision":       {path: "v1/data/kubernetes/nodes/n1/metadata/labels/region", contract: true, says: "must be an object, is a string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := prepare(t, e, name, placementv1.Remote{URL: server.URL() + "/" + tc.path, Undefined: tc.undefined, Retry: noRetry, TimeoutSeconds: 30})
			got, err := p.Evaluate(t.Context(), input)
			switch {
			case tc.fault == "" && !tc.contract:
				if err != nil {
					t.Error(err)
				}
			case err == nil || engine.FaultOf(err) != tc.fault || !strings.Contains(err.Error(), tc.says):
				t.Errorf("got error %v, want fault %q that says %q", err, tc.fault, tc.says)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}

	// An object on which the evaluation of a policy fails does not open the circuit breaker.
	broken := prepare(t, e, "Conflict", placementv1.Remote{URL: server.URL() + "/v1/data/broken", Retry: noRetry, TimeoutSeconds: 30})
	for range 2 * faultsToOpen {
		if got := fails(t, broken); got.Fault != engine.FaultServer {
			t.Fatal(got)
		}
	}
	runtime.KeepAlive(e)
}

// TestOPAThatLostItsData verifies that the undefined result of an OPA server that restarted empty does not count for a
// policy that needs data there.
func TestOPAThatLostItsData(t *testing.T) {
	server := opaserver.Start(t, opaserver.Options{})
	e := New(Options{})
	p := prepare(t, e, "p", placementv1.Remote{
		URL: server.URL() + "/v1/data/io/k8s/federation/admission", TimeoutSeconds: 30, Replicate: []placementv1.ReplicatedResource{{Resource: "nodes"}},
		Retry: placementv1.RemoteRetry{InitialBackoffMilliseconds: 1},
	}, nodes)
	fill := func(load string) {
		server.PutPolicy("region", regionModule)
		server.PutData("kubernetes/nodes", map[string]any{"n1": map[string]any{"metadata": map[string]any{"labels": map[string]any{"region": "eu"}}}})
		server.PutData("berth/holdings", full(load))
	}
	if got := fails(t, p); got.Fault != engine.FaultIncomplete {
		t.Error(got)
	}
	fill("1")
	if d := decides(t, p); d.Annotations["region"] != "eu" {
		t.Errorf("got %v", d)
	}
	server.Restart()
	if got := fails(t, p); got.Fault != engine.FaultIncomplete {
		t.Error(got)
	}
	fill("2")
	if d := decides(t, p); d.Annotations["region"] != "eu" {
		t.Errorf("got %v", d)
	}
	runtime.KeepAlive(e)
}

// TestOPAWithTokens verifies requests with a bearer token to a server that uses OPA's own authorization and a
// certificate.
func TestOPAWithTokens(t *testing.T) {
	ca := pki.NewAuthority(t)
	certificate, key := ca.Server(time.Hour)
	server := opaserver.Start(t, opaserver.Options{Certificate: certificate, Key: key, Tokens: []string{"one"}})
	server.PutPolicy("region", regionModule)
	s := &opaclienttest.Secrets{}
	s.Set("opa", map[string]string{"token": "one"})
	e := New(Options{Clients: opaclient.NewPool(opaclient.Options{Secrets: s})})
	p := prepare(t, e, "p", placementv1.Remote{
		URL: server.URL() + "/v1/data/io/k8s/federation/admission", CABundle: ca.PEM, TimeoutSeconds: 30, Retry: noRetry,
		TokenSecretRef: &placementv1.TokenSecretReference{SecretReference: placementv1.SecretReference{Name: "opa"}},
	})
	decides(t, p)
	server.SetTokens("two")
	got := fails(t, p)
	if got.Fault != engine.FaultUnauthorized || got.Status != 401 || !strings.Contains(got.Error(), "unauthorized") {
		t.Error(got)
	}
	s.Set("opa", map[string]string{"token": "two"})
	decides(t, p)
	runtime.KeepAlive(e)
}
