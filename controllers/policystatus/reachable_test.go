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

package policystatus_test

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/replication"
)

const opa = "https://opa.example:8181"

var dawn = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

func failing(fault engine.Fault, err string) placement.RemoteHealth {
	return placement.RemoteHealth{Endpoint: opa, Queried: true, Since: dawn, Err: &engine.RemoteError{Endpoint: opa, Fault: fault, Err: errors.New(err)}}
}

// elsewhere returns the facts of a policy with a remote engine and without problems.
func elsewhere() policystatus.Facts {
	f := sound()
	document, err := url.Parse(opa + "/v1/data/placement")
	if err != nil {
		panic(err)
	}
	f.Replicated = nil
	f.Health = &placement.RemoteHealth{Endpoint: opa, Queried: true}
	f.State.Binding = &policy.Binding{Remote: &policy.Remote{Document: document}}
	f.Settled = true
	return f
}

// supplied adds modules, and types that are pushed to the engine, to the policy.
func supplied(f *policystatus.Facts, types replicas) {
	f.State.Binding.Remote.Modules = []policy.RemoteModule{{ID: "m"}}
	for r := range types {
		f.State.Binding.PushedTypes = append(f.State.Binding.PushedTypes, r)
	}
	f.Pushed = types.types()
}

func TestComputeRemote(t *testing.T) {
	health := func(h placement.RemoteHealth) func(*policystatus.Facts) {
		return func(f *policystatus.Facts) { f.Health = &h }
	}
	open := failing(engine.FaultTimeout, "no answer within 1s")
	open.BreakerOpen = true
	refused := failing(engine.FaultUnauthorized, "status 401 Unauthorized")
	tests := map[string]struct {
		change func(*policystatus.Facts)
		// want and message are as in TestCompute.
		want    map[string]string
		message map[string]string
	}{
		"Sound": {message: map[string]string{
			"Compiled": "the policy's decisions come from https://opa.example:8181/v1/data/placement", "Replicated": "the engine https://opa.example:8181 answers; Berth pushes no data to the remote engine: spec.remote.replicate and spec.remote.modules are empty",
		}},
		"Warnings": {
			change:  func(f *policystatus.Facts) { f.State.Warnings = []string{"the modules do not compile"} },
			message: map[string]string{"Compiled": "/v1/data/placement; the modules do not compile"},
		},
		"NotAsked": {
			change:  health(placement.RemoteHealth{Endpoint: opa}),
			message: map[string]string{"Replicated": "the leader has not queried the engine https://opa.example:8181 yet"},
		},
		"CircuitOpen": {
			change:  health(open),
			want:    map[string]string{"Ready": "False CircuitOpen", "Replicated": "False CircuitOpen"},
			message: map[string]string{"Replicated": "since 2026-11-21T06:00:00Z, the circuit breaker of the engine is open, because requests kept failing; a request for what the policy matches is denied: engine https://opa.example:8181: no answer within 1s"},
		},
		"CircuitOpenBeforeItWasAsked": {
			change: health(failing(engine.FaultCircuitOpen, "not asked")),
			want:   map[string]string{"Ready": "False CircuitOpen", "Replicated": "False CircuitOpen"},
		},
		"Unauthorized": {
			change:  health(refused),
			want:    map[string]string{"Ready": "False Unauthorized", "Replicated": "False Unauthorized"},
			message: map[string]string{"Ready": "since 2026-11-21T06:00:00Z, the engine refuses Berth's token or certificate; a request for what the policy matches is denied: engine https://opa.example:8181: status 401"},
		},
		"UnauthorizedAndIgnored": {
			change: func(f *policystatus.Facts) {
				health(refused)(f)
				f.State.Policy.FailurePolicy = placementv1.FailurePolicyIgnore
			},
			want:    map[string]string{"Ready": "False Unauthorized", "Replicated": "False Unauthorized"},
			message: map[string]string{"Replicated": "a request for what the policy matches is admitted without the policy's decision"},
		},
		"UnauthorizedAndOnlyWarned": {
			change: func(f *policystatus.Facts) {
				health(refused)(f)
				f.State.Policy.Mode = placementv1.ModeWarn
			},
			want:    map[string]string{"Ready": "False Unauthorized", "Replicated": "False Unauthorized", "Enforced": "False WarnMode"},
			message: map[string]string{"Replicated": "a request for what the policy matches is admitted without the policy's decision"},
		},
		"NoSecret": {
			change:  health(failing(engine.FaultCredentials, "reading Secret berth-system/opa: not found")),
			want:    map[string]string{"Ready": "False CredentialsUnusable", "Replicated": "False CredentialsUnusable"},
			message: map[string]string{"Replicated": "berth-system/opa: not found"},
		},
		"Malformed": {
			change:  health(failing(engine.FaultMalformed, "no JSON")),
			want:    map[string]string{"Ready": "False NotAnswering", "Replicated": "False NotAnswering"},
			message: map[string]string{"Replicated": "the engine gives no answer, or none that can be read; a request for what the policy matches is denied: engine https://opa.example:8181: no JSON"},
		},
		"Incomplete": {
			change:  health(failing(engine.FaultIncomplete, "it does not have everything yet that Berth pushes for the policy: nodes")),
			want:    map[string]string{"Ready": "False NotAnswering", "Replicated": "False NotAnswering"},
			message: map[string]string{"Replicated": "the engine lost what Berth pushed; a request for what the policy matches is denied: engine https://opa.example:8181: it does not have everything yet that Berth pushes for the policy: nodes"},
		},
		"LoadingAgain": {
			change: func(f *policystatus.Facts) {
				health(failing(engine.FaultIncomplete, "it does not have everything yet that Berth pushes for the policy: nodes"))(f)
				supplied(f, replicas{nodes: {Synced: true}})
				f.Settled = false
			},
			want:    map[string]string{"Ready": "False Replicating", "Replicated": "False Replicating"},
			message: map[string]string{"Replicated": "waiting for the engine to receive everything that Berth pushes"},
		},
		"Ambiguous": {
			change:  func(f *policystatus.Facts) { f.Ambiguous = []replication.Ambiguity{{Cluster: "prod"}} },
			want:    map[string]string{"Replicated": "True AmbiguousClusters"},
			message: map[string]string{"Replicated": "cluster prod is ambiguous"},
		},
		"Undefined": {
			change:  health(failing(engine.FaultUndefined, "it has no result")),
			want:    map[string]string{"Ready": "False NotAnswering", "Replicated": "False NotAnswering"},
			message: map[string]string{"Replicated": "the engine returns no decision for this policy; a request for what the policy matches is denied: "},
		},
		"NeverAnswered": {
			change: func(f *policystatus.Facts) {
				h := failing(engine.FaultNetwork, "connection refused")
				h.Queried = false
				health(h)(f)
			},
			want: map[string]string{"Ready": "False NotAnswering", "Replicated": "False NotAnswering"},
		},
		"Supplied": {
			change:  func(f *policystatus.Facts) { supplied(f, replicas{nodes: {Synced: true}}) },
			want:    map[string]string{"Replicated": "True Replicated"},
			message: map[string]string{"Replicated": "the engine https://opa.example:8181 answers; the engine has everything that Berth pushes"},
		},
		"Loading": {
			change:  func(f *policystatus.Facts) { supplied(f, replicas{nodes: {}}); f.Settled = false },
			want:    map[string]string{"Ready": "False Replicating", "Replicated": "False Replicating"},
			message: map[string]string{"Replicated": "waiting for nodes"},
		},
		"ModulesOnTheWay": {
			change:  func(f *policystatus.Facts) { supplied(f, nil); f.Settled = false },
			want:    map[string]string{"Ready": "False Replicating", "Replicated": "False Replicating"},
			message: map[string]string{"Replicated": "waiting for the engine to receive everything that Berth pushes"},
		},
		"PushFailed": {
			change: func(f *policystatus.Facts) {
				supplied(f, replicas{nodes: {}})
				f.PushErr = errors.New("PUT /v1/policies/x: status 400: rego_parse_error")
			},
			want:    map[string]string{"Ready": "False PushFailed", "Replicated": "False PushFailed"},
			message: map[string]string{"Replicated": "Berth can't push what the policy needs to the engine: PUT /v1/policies/x: status 400: rego_parse_error"},
		},
		"MayNotReadWhatIsToBePushed": {
			change: func(f *policystatus.Facts) {
				supplied(f, replicas{profiles: {Err: forbidden()}})
				f.PushErr = errors.New("nothing to push")
			},
			want:    map[string]string{"Ready": "False Forbidden", "Replicated": "False Forbidden"},
			message: map[string]string{"Replicated": `resources: ["clusterprofiles"], verbs: [get, list, watch]`},
		},
		"NotServed": {
			change:  func(f *policystatus.Facts) { f.State.Binding.Missing = []analysis.Read{{Plural: "carts"}} },
			want:    map[string]string{"Ready": "False NotServed", "Replicated": "False NotServed"},
			message: map[string]string{"Replicated": "data.kubernetes.carts"},
		},
		"DownAndNotSupplied": {
			change: func(f *policystatus.Facts) {
				supplied(f, replicas{nodes: {}})
				f.PushErr = errors.New("connection refused")
				health(failing(engine.FaultNetwork, "connection refused"))(f)
			},
			want:    map[string]string{"Ready": "False NotAnswering", "Replicated": "False NotAnswering"},
			message: map[string]string{"Replicated": "Berth can't push what the policy needs to the engine; since 2026-11-21T06:00:00Z, the engine gives no answer"},
		},
		"DownAndMayNotRead": {
			change: func(f *policystatus.Facts) {
				supplied(f, replicas{profiles: {Err: forbidden()}})
				health(failing(engine.FaultNetwork, "connection refused"))(f)
			},
			want:    map[string]string{"Ready": "False NotAnswering", "Replicated": "False NotAnswering"},
			message: map[string]string{"Replicated": `resources: ["clusterprofiles"], verbs: [get, list, watch]`, "Ready": "; since 2026-11-21T06:00:00Z, the engine gives no answer"},
		},
		"UndefinedAsItWasNotPushed": {
			change: func(f *policystatus.Facts) {
				supplied(f, replicas{nodes: {}})
				f.PushErr = errors.New("PUT /v1/policies/x: status 400: rego_parse_error")
				health(failing(engine.FaultUndefined, "it has no result"))(f)
			},
			want:    map[string]string{"Ready": "False PushFailed", "Replicated": "False PushFailed"},
			message: map[string]string{"Replicated": "status 400: rego_parse_error"},
		},
	}
	declared := strings.Join(declaredReasons(t), " ")
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := elsewhere()
			if tc.change != nil {
				tc.change(&facts)
			}
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			want := map[string]string{
				"Ready": "True InForce", "Compiled": "True Compiled", "Replicated": "True NoDataRead",
				"Enforced": "True Enforced", "Compliant": "True Compliant",
			}
			maps.Copy(want, tc.want)
			conditions := map[string]string{}
			for _, c := range got.Conditions {
				conditions[c.Type] = string(c.Status) + " " + c.Reason
				if !strings.Contains(declared, c.Reason) {
					t.Errorf("reason %s of %s is no declared constant", c.Reason, c.Type)
				}
			}
			if diff := cmp.Diff(want, conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			expectComputed(t, got, facts, tc.message)
		})
	}
}

// TestUnreachableIsSteady checks that the status keeps the first error of an outage. It must not be written for each
// failed request.
func TestUnreachableIsSteady(t *testing.T) {
	after := func(old placementv1.PlacementPolicyStatus, h placement.RemoteHealth) placementv1.PlacementPolicyStatus {
		f := elsewhere()
		f.Health = &h
		return policystatus.Compute(old, f)
	}
	port := func(n int) placement.RemoteHealth {
		return failing(engine.FaultNetwork, fmt.Sprintf("read tcp 10.0.0.1:%d->10.0.0.2:8181: connection reset by peer", n))
	}
	first := after(placementv1.PlacementPolicyStatus{}, port(40001))
	if diff := cmp.Diff(first, after(first, port(40002))); diff != "" {
		t.Errorf("another port makes another status (-first +second):\n%s", diff)
	}
	again := port(40003)
	again.Since = dawn.Add(time.Hour)
	reachable := meta.FindStatusCondition(after(first, again).Conditions, placementv1.ConditionReplicated)
	if !strings.Contains(reachable.Message, "07:00:00Z") || !strings.Contains(reachable.Message, "40003") {
		t.Errorf("the next time of trouble: %s", reachable.Message)
	}
	reachable = meta.FindStatusCondition(after(first, failing(engine.FaultUnauthorized, "401")).Conditions, placementv1.ConditionReplicated)
	if !strings.Contains(reachable.Message, "401") {
		t.Errorf("trouble of another kind: %s", reachable.Message)
	}
}

// TestDependenciesOfEngines checks that the types that are pushed to the engine are dependencies.
func TestDependenciesOfEngines(t *testing.T) {
	f := elsewhere()
	supplied(&f, replicas{nodes: {Synced: true}})
	got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, f)
	want := []placementv1.Dependency{{Resource: "nodes", Version: "v1", Objects: new(int32(3))}}
	if diff := cmp.Diff(want, got.Dependencies); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
