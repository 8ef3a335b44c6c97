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
	"cmp"
	"context"

	"github.com/berth-dev/berth/controllers/enginepusher"
	"github.com/berth-dev/berth/controllers/policyloader"
	"github.com/berth-dev/berth/controllers/replicator"
	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/freshness"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/restore"
	"github.com/berth-dev/berth/internal/watches"
)

// loading has the controllers that load policies, store versions of them, replicate their data, and push to remote engines, the monitor of
// whether the policies are current, and the decider, which decides objects for admission and for remediation.
type loading struct {
	replication *replicator.Controller      // replicates the objects that policies read
	policies    *policyloader.Controller    // loads policies into the registry
	revisions   *policyloader.RevisionStore // stores versions of policies in ControllerRevisions
	pusher      *enginepusher.Controller    // pushes data and modules to remote engines
	// freshness confirms that this replica has loaded the policies that the API server has.
	freshness *freshness.Monitor
	decider   *placement.Decider // decides objects by the policies in force
}

// newLoading reads the Secret with the keyring, and creates the controllers that load policies and their data, and the decider. It does not
// add the controllers to the manager.
func newLoading(ctx context.Context, base *base, evaluation *evaluation) (*loading, error) {
	keyring, err := certs.LoadKeyring(ctx, base.state.live, base.options.Namespace)
	if err != nil {
		return nil, err
	}
	replication := replicator.New(base.hub, evaluation.registry, evaluation.data, evaluation.world, base.settings.inventories)
	policies := policyloader.New(policyloader.Deps{
		Policies: base.mgr.GetClient(), Revisions: base.stateCluster().GetClient(), Namespace: base.options.Namespace,
		// Some may exceed the deadline, and the workers go on with the others.
		Compiler: policy.NewBoundedCompiler(2*policyloader.Workers(), policy.LoadDeadline, policy.Compile),
		Engine:   evaluation.engines, Registry: evaluation.registry, Catalog: evaluation.catalog, Metrics: base.metrics,
		Settled: func(binding *policy.Binding) bool {
			return replication.SettledFor(binding) && evaluation.engines.remote.DataReady(binding)
		},
	})
	pauses, err := watchPauses(ctx, base.mgr)
	if err != nil {
		return nil, err
	}
	return &loading{
		replication: replication,
		policies:    policies,
		revisions: &policyloader.RevisionStore{
			Policies: base.mgr.GetClient(), Registry: evaluation.registry,
			State: base.stateCluster(), Namespace: base.options.Namespace, Owned: base.state.host == nil,
		},
		pusher: enginepusher.New(enginepusher.Deps{
			Watches: base.hub, Registry: evaluation.registry, Clients: evaluation.clients, Inventories: base.settings.inventories,
			ContentChanged: evaluation.engines.remote.PushedDataChanged, Observer: remoteMetrics{base.metrics.Remote}, Loaded: policies.Loaded,
		}),
		freshness: freshness.New(freshness.Options{
			Live: base.mgr.GetAPIReader(), Registry: evaluation.registry,
			Compare: func(first, second string) error { return base.restores.Compare(restore.Served, first, second) },
			Bound:   cmp.Or(base.options.PolicyMaxStaleness, freshness.DefaultBound),
		}),
		decider: &placement.Decider{
			Policies:     evaluation.registry,
			Namespaces:   base.namespaces,
			Owners:       &watches.Owners{Live: base.mgr.GetAPIReader()},
			Keyring:      keyring,
			OwnNamespace: base.options.exemptNamespace(),
			Templates:    base.settings.templates,
			ClusterLists: base.settings.clusterLists.Resolving(evaluation.data.Profile),
			Stale:        replication.Stale,
			Paused:       pauses.Paused,
		},
	}, nil
}
