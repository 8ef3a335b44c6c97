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

	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// engines evaluates each policy with the embedded engine or with a remote engine, as the policy says.
type engines struct {
	*embedded.Engine
	remote *remote.Engine
}

// Check implements engine.Engine.
func (e engines) Check(m *policy.Module) error {
	if m.Remote != nil {
		return e.remote.Check(m)
	}
	return e.Engine.Check(m)
}

// Prepare implements engine.Engine.
func (e engines) Prepare(ctx context.Context, name string, m *policy.Module, b *policy.Binding) (placement.Evaluator, error) {
	if m.Remote != nil {
		return e.remote.Prepare(ctx, name, m, b)
	}
	return e.Engine.Prepare(ctx, name, m, b)
}

// newRemote returns the remote engine, with metrics of the endpoints in use.
func newRemote(base *base, registry *placement.Registry, secrets *engineSecrets) *remote.Engine {
	registry.Subscribe((&endpointMetrics{metrics: base.metrics.Remote, used: map[string]int{}}).changed)
	return remote.New(remote.Options{
		Secrets:      secrets,
		Policies:     registry.InForce,
		AllowSecrets: base.options.AllowRemoteSecrets,
		UserAgent:    "berth/" + Version(),
		Observer:     &remoteObserver{Remote: base.metrics.Remote, reader: base.mgr.GetClient(), events: base.events, topics: base.topics},
	})
}
