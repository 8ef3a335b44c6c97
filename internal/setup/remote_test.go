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

package setup

import (
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// TestEnginesDispatch verifies that a policy is checked and prepared by the engine that its spec says.
func TestEnginesDispatch(t *testing.T) {
	e := engines{embedded: embedded.New(embedded.NewData(), embedded.Options{}), remote: remote.New(remote.Options{})}
	for name, spec := range map[string]placementv1.PlacementPolicySpec{
		"embedded": {Rego: `package p

labels["a"] := "b"`},
		"remote": {Remote: &placementv1.Remote{URL: "https://opa.example/v1/data/p"}},
	} {
		m, err := policy.Compile("p", spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Check(m); err != nil {
			t.Error(err)
		}
		evaluator, err := e.Prepare(t.Context(), "p", m, &policy.Binding{Remote: m.Remote})
		if err != nil {
			t.Fatal(err)
		}
		if _, decidedRemotely := evaluator.(placement.Remote); decidedRemotely != (name == "remote") {
			t.Errorf("%s: got a %T", name, evaluator)
		}
	}
	// Only remote engines are refused Secrets.
	m, err := policy.Compile("p", placementv1.PlacementPolicySpec{Remote: &placementv1.Remote{
		URL: "https://opa.example/v1/data/p", Replicate: []placementv1.ReplicatedResource{{Resource: "secrets"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if e.Check(m) == nil {
		t.Error("a policy on Secrets was not checked by the remote engine")
	}
}
