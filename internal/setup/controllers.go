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
	"fmt"
	"iter"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/deliverer"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/controllers/quotausage"
	"github.com/berth-dev/berth/controllers/remediator"
	"github.com/berth-dev/berth/controllers/typecheck"
	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/controllers/writers"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/patching"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/planstore"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/quotacharge"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/review"
	"github.com/berth-dev/berth/internal/watches"
)

// controllers has what the webhooks and probes use of the controllers: those that load policies and their data, the controller and the
// charger of quotas, and the check of readiness.
type controllers struct {
	*loading
	*quotas
	readiness *review.Readiness
}

// newControllers creates the controllers and adds them to the manager.
func newControllers(ctx context.Context, base *base, serving *serving, evaluation *evaluation) (*controllers, error) {
	loading, err := newLoading(ctx, base, evaluation)
	if err != nil {
		return nil, err
	}
	configurations := newWebhookConfigurations(base, serving, evaluation, loading)
	quotas, err := newQuotas(ctx, base, evaluation, configurations)
	if err != nil {
		return nil, err
	}
	adopter := webhookconfiguration.NewAdopter(base.mgr.GetClient(), base.mgr.GetAPIReader(), base.options.owners())
	ready := &review.Readiness{
		Certificate: serving.certificate.Trusted,
		Tokens:      serving.tokens.Known,
		Policies:    loading.policies.Loaded,
		Data:        loading.replication.Settled,
		Quotas:      quotas.synced,
		Adopted:     adopter.Done,
		Current:     loading.freshness.Current,
		Confirm:     loading.freshness.Confirm,
		Restored:    base.restores.Err,
	}
	ledger := remediation.NewLedger()
	limits := remediation.Limits{MaxPerMinute: base.options.RemediationMaxPerMinute, MaxConcurrent: base.options.RemediationMaxConcurrent}
	scheduler := remediation.NewScheduler(limits, ledger, evaluation.registry.FeedsItself)
	delivering := newDelivery(base, evaluation, loading, ledger, ready)
	remediation := newRemediation(base, evaluation, loading, delivering, ledger, scheduler, ready)
	types := newTypeCheck(base, evaluation)
	status := newStatus(base, evaluation, loading, configurations, ledger, scheduler, delivering, remediation, types)
	namespaceChanged := func(name string, before, after map[string]string) {
		status.NamespaceChanged(name, before, after)
		types.NamespaceChanged(name, before, after)
	}
	if err := watchRestores(ctx, base); err != nil {
		return nil, err
	}
	if err := watchNamespaces(ctx, base.mgr, namespaceChanged, remediation.NamespaceChanged, delivering.NamespaceChanged); err != nil {
		return nil, err
	}
	for _, runnable := range []manager.Runnable{adopter, evaluation.deviceClasses, evaluation.engines.remote, loading.pusher,
		loading.replication, evaluation.catalog, loading.freshness} {
		if err := base.mgr.Add(runnable); err != nil {
			return nil, err
		}
	}
	guard := writers.New(base.mgr.GetClient(), base.mgr.GetAPIReader())
	reports, err := newPolicyReports(base, evaluation, ledger, remediation)
	if err != nil {
		return nil, err
	}
	for _, c := range reports {
		if err := c.SetupWithManager(base.mgr); err != nil {
			return nil, err
		}
	}
	for _, c := range []interface{ SetupWithManager(ctrl.Manager) error }{guard, loading.policies, loading.revisions, configurations,
		remediation, delivering, types, status, quotas.usage} {
		if err := c.SetupWithManager(base.mgr); err != nil {
			return nil, err
		}
	}
	return &controllers{loading: loading, quotas: quotas, readiness: ready},
		registerCollectors(base, serving, evaluation, loading, quotas, remediation)
}

// newWebhookConfigurations returns the controller that writes the webhook configurations.
func newWebhookConfigurations(base *base, serving *serving, evaluation *evaluation, loading *loading) *webhookconfiguration.Controller {
	return webhookconfiguration.New(base.mgr.GetClient(), base.mgr.GetAPIReader(), evaluation.registry, evaluation.quotaEvaluators,
		loading.policies.Loaded, serving.certificate, serving.tokens, webhookconfiguration.Options{
			URL: base.options.WebhookURL, ServiceName: base.options.WebhookService, Namespace: base.options.exemptNamespace(),
			Owners: base.options.owners(),
		})
}

// quotas has what counts the usage of quotas (usage), and what charges them at admission (charger).
type quotas struct {
	usage   *quotausage.Controller // counts what quotas limit
	charger *quotacharge.Charger   // charges quotas at admission
	// synced reports whether the caches of quotas and LimitedResources are filled, and the DeviceClasses are known or unavailable.
	synced func() bool
}

// newQuotas creates the controller and the charger of quotas, and watches the quotas. The caller adds the controller to the manager.
func newQuotas(ctx context.Context, base *base, evaluation *evaluation, configurations *webhookconfiguration.Controller) (*quotas, error) {
	usage := quotausage.New(quotausage.Deps{
		Client: base.mgr.GetClient(), Live: base.mgr.GetAPIReader(), Dynamic: base.served.dynamic, Watches: base.hub, Catalog: evaluation.catalog,
		Compiler: evaluation.quotaCompiler, Evaluators: evaluation.quotaEvaluators, Metrics: base.metrics, Clock: clock.RealClock{},
		WebhookState: configurations.QuotaState, OwnNamespace: base.options.exemptNamespace(),
		Classes:        &watches.Classes{Reader: base.mgr.GetClient(), Kind: watches.PriorityClass},
		StorageClasses: &watches.Classes{Reader: base.mgr.GetClient(), Kind: watches.StorageClass},
		Nodes:          &watches.Nodes{Client: base.served.dynamic},
		Capacity:       capacity(base, evaluation),
	})
	configurations.SubscribeQuotas(usage.WebhookStateChanged)
	evaluation.catalog.Subscribe(usage.ServedChanged)
	evaluation.deviceClasses.Subscribe(usage.DeviceClassesChanged)
	evaluation.deviceClasses.Subscribe(configurations.DeviceClassesChanged)
	charger := &quotacharge.Charger{
		Cached: base.mgr.GetClient(), Live: base.mgr.GetAPIReader(), Writer: base.mgr.GetClient().Status(),
		Namespaces:     base.namespaces,
		LiveNamespaces: base.liveNamespaces,
		Compiler:       evaluation.quotaCompiler, OwnNamespace: base.options.exemptNamespace(),
		Unsettled: usage.Unsettled,
		Clock:     clock.RealClock{}, ReservationTTL: base.options.ReservationTTL, OnConflict: base.metrics.QuotaConflict,
	}
	synced, err := watchQuotas(ctx, base, charger)
	if err != nil {
		return nil, err
	}
	return &quotas{usage: usage, charger: charger, synced: func() bool { return synced() && evaluation.deviceClasses.Settled() }}, nil
}

// newRemediation returns the controller that remediates existing objects, as scheduler lets it, and records their violations in ledger. It
// does not add the controller to the manager.
func newRemediation(base *base, evaluation *evaluation, loading *loading, deliveries *deliverer.Controller, ledger *remediation.Ledger,
	scheduler *remediation.Scheduler, ready *review.Readiness) *remediator.Controller {
	c := remediator.New(remediator.Deps{
		Patcher: &patching.Patcher{Client: base.served.dynamic, Core: base.served.core}, Watches: base.hub,
		Registry: evaluation.registry, Decider: loading.decider, Catalog: evaluation.catalog, Ledger: ledger, Scheduler: scheduler,
		Events: base.events, Metrics: base.metrics, Clock: clock.RealClock{}, Identity: base.served.identity,
		Data: evaluation.data, Decisions: base.decisions,
		Ready:      ready.IsReady,
		Tracing:    base.tracing,
		Changed:    base.topics.policyFacts.Publish,
		Policies:   base.mgr.GetClient(),
		Plans:      &planstore.Store{Client: base.state.live, Namespace: base.options.Namespace, Owned: base.state.host == nil},
		Deliveries: deliveries,
	})
	deliveries.Subscribe(c.ObjectDelivered)
	evaluation.catalog.Subscribe(c.Rewatch)
	loading.replication.Subscribe(c.DataChanged)
	predicateDataChanged := func(schema.GroupVersionResource) { c.PredicateDataChanged() }
	loading.replication.SubscribePredicates(predicateDataChanged, predicateDataChanged)
	base.topics.remoteRevised.Subscribe(func(string) { c.RemoteRevisionChanged() })
	base.topics.remoteRecovered.Subscribe(c.Recovered)
	return c
}

// newDelivery returns the controller that delivers placed objects to multi-cluster systems. ledger has the newest decisions on these
// objects. The caller adds the controller to the manager.
func newDelivery(base *base, evaluation *evaluation, loading *loading, ledger *remediation.Ledger,
	ready *review.Readiness) *deliverer.Controller {
	c := deliverer.New(deliverer.Deps{
		Client: base.served.dynamic, Watches: base.hub, Registry: evaluation.registry, Decider: loading.decider, Catalog: evaluation.catalog,
		Account: delivery.NewAccount(), Clock: clock.RealClock{}, Identity: base.served.identity, Ready: ready.IsReady,
		Changed: base.topics.policyFacts.Publish,
		Misplaced: func(resource schema.GroupVersionResource, namespace, name string) bool {
			return ledger.Misplaced(remediation.Key{Resource: resource, Namespace: namespace, Name: name})
		},
		Undecided: func(policies []string, namespace, name string, resources ...schema.GroupVersionResource) bool {
			keys := make([]remediation.Key, len(resources))
			for i, resource := range resources {
				keys[i] = remediation.Key{Resource: resource, Namespace: namespace, Name: name}
			}
			return ledger.Undecided(policies, keys...)
		},
	})
	ledger.SubscribeDecided(func(key remediation.Key) { c.ObjectDecided(key.Resource, key.Namespace, key.Name) })
	return c
}

// newFinder returns the finder of probable mistakes in policies, for their status.
func newFinder(base *base, evaluation *evaluation, scales findings.Scales) *findings.Finder {
	return &findings.Finder{
		Catalog: evaluation.catalog, Scales: scales, Namespaces: base.namespaces, OwnNamespace: base.options.exemptNamespace(),
		Clusters: &watches.Clusters{Client: base.served.dynamic, Catalog: evaluation.catalog},
		Scores:   &watches.Scores{Client: base.served.dynamic, Catalog: evaluation.catalog},
		Nodes:    &watches.Nodes{Client: base.served.dynamic}, PriorityClasses: &watches.Classes{Reader: base.mgr.GetClient(),
			Kind: watches.PriorityClass},
		ClusterPredicates: base.settings.predicates.NamesOf(predicates.Clusters), Templates: base.settings.templates,
		Policies: policiesOf(base.mgr.GetClient()), Quotas: &watches.Quotas{Cache: base.mgr.GetClient(), Live: base.mgr.GetAPIReader()},
		Compiler: policy.NewBoundedCompiler(maxCompilations, policy.RequestDeadline, policy.Compile),
	}
}

// policiesOf returns a function that lists all policies by a client. The caller must not change them, because the cache has them, too.
func policiesOf(reader client.Reader) func(context.Context) ([]placementv1.PlacementPolicy, error) {
	return func(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
		list := &placementv1.PlacementPolicyList{}
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing policies: %w", err)
		}
		return list.Items, nil
	}
}

// newTypeCheck returns the controller that checks policies against the schemas that the API server publishes, and finds probable mistakes
// in them.
func newTypeCheck(base *base, evaluation *evaluation) *typecheck.Controller {
	c := typecheck.New(typecheck.Deps{
		Client: base.mgr.GetClient(), Checker: evaluation.schemas, Bound: evaluation.registry.BindingsInForce,
		Changed: base.topics.policyFacts.Publish,
		Clock:   clock.RealClock{}, Finder: newFinder(base, evaluation, &watches.Scales{Client: base.served.dynamic}),
	})
	evaluation.catalog.Subscribe(c.ServedChanged)
	evaluation.registry.Subscribe(func(change placement.PolicyChange) { c.PolicyLoaded(change.Name) })
	return c
}

// newStatus returns the controller that writes the status of policies, from what all the other components report. The caller adds it to the
// manager.
func newStatus(base *base, evaluation *evaluation, loading *loading, configurations *webhookconfiguration.Controller,
	ledger *remediation.Ledger, scheduler *remediation.Scheduler, deliveries *deliverer.Controller, remediation *remediator.Controller,
	types *typecheck.Controller) *policystatus.Controller {
	c := policystatus.New(policystatus.Deps{
		Client: base.mgr.GetClient(), Registry: evaluation.registry,
		Replication: loading.replication, Clusters: evaluation.data, Pusher: loading.pusher, RemoteEngines: evaluation.engines.remote,
		Webhooks:   configurations,
		Remediator: remediation, Ledger: ledger, Scheduler: scheduler, Deliverer: deliveries, Catalog: evaluation.catalog,
		Revisions: loading.revisions, TypeChecker: types,
		Metrics: base.metrics, Events: base.events, Clock: clock.RealClock{}, OwnNamespace: base.options.exemptNamespace(),
	})
	loading.revisions.Subscribe(c.Changed)
	base.topics.policyFacts.Subscribe(c.Changed)
	evaluation.catalog.Subscribe(c.ServedChanged)
	configurations.Subscribe(c.Changed)
	loading.pusher.Subscribe(c.Changed)
	loading.replication.Subscribe(c.DataChanged)
	loading.replication.SubscribePredicates(
		func(schema.GroupVersionResource) { c.PredicateDataChanged() },
		func(schema.GroupVersionResource) { c.PredicateStateChanged() },
	)
	return c
}

// registerCollectors registers the metrics whose values are read at the time of the scrape.
func registerCollectors(base *base, serving *serving, evaluation *evaluation, loading *loading, quotas *quotas,
	remediation *remediator.Controller) error {
	for _, c := range []prometheus.Collector{
		metrics.NewCircuits(func() map[string]bool { return openCircuits(evaluation.registry.InForce()) }),
		metrics.NewPolicies(func() iter.Seq[string] { return policyStates(evaluation.registry.All()) }),
		metrics.NewReplication(loading.replication.Replicas),
		metrics.NewQuotaUsage(func() []metrics.QuotaUsage { return quotaUsage(quotas.usage.Usage()) }),
		metrics.NewClusters(func(limit int) []metrics.ClusterCount {
			return clusterCounts(remediation.Ledger.Census.Clusters(limit))
		}),
		metrics.NewCertificateExpiry(serving.certificate.Expiry, cmp.Or(base.options.WebhookCertManagement, CertManagementSelf)),
	} {
		if err := base.options.registerer().Register(c); err != nil {
			return err
		}
	}
	return nil
}
