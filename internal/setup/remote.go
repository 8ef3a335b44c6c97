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
	"context"

	"github.com/berth-dev/berth/controllers/policyloader"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/engine/opaclient"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// engines evaluates each policy with the embedded engine or with the remote engine that the policy names.
type engines struct {
	embedded *embedded.Engine
	remote   *remote.Engine
}

// engineOf returns the engine that decides a policy with the module.
func (e engines) engineOf(m *policy.Module) policyloader.Engine {
	if m.Remote != nil {
		return e.remote
	}
	return e.embedded
}

// Check returns an error if the engine of a policy can't evaluate its module. It implements policyloader.Engine and
// policyvalidator.Checker.
func (e engines) Check(m *policy.Module) error { return e.engineOf(m).Check(m) }

// Prepare returns the evaluator of a policy. It implements policyloader.Engine.
func (e engines) Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	return e.engineOf(m).Prepare(ctx, name, m, b)
}

// newRemote returns the engine that queries remote engines. It has metrics of the endpoints that policies in force use.
func newRemote(base *base, registry *placement.Registry, clients *opaclient.Pool) *remote.Engine {
	registry.Subscribe((&endpointMetrics{metrics: base.metrics.Remote, used: map[string]int{}}).changed)
	return remote.New(remote.Options{
		Clients:      clients,
		Policies:     registry.InForce,
		AllowSecrets: base.options.AllowRemoteSecrets,
		Observer: &remoteObserver{remoteMetrics: remoteMetrics{base.metrics.Remote}, reader: base.mgr.GetClient(),
			events: base.events, topics: base.topics},
	})
}
