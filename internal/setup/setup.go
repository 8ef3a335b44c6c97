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
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/enginepusher"
	"github.com/berth-dev/berth/controllers/policyloader"
	"github.com/berth-dev/berth/controllers/policyrevision"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/controllers/quotausage"
	"github.com/berth-dev/berth/controllers/quotawriters"
	"github.com/berth-dev/berth/controllers/remediator"
	"github.com/berth-dev/berth/controllers/replicator"
	"github.com/berth-dev/berth/controllers/typecheck"
	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/certs"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/freshness"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/review"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/tracing"
	"github.com/berth-dev/berth/internal/watches"
	"github.com/berth-dev/berth/internal/webhookauth"
	"github.com/berth-dev/berth/internal/workload"
	"github.com/berth-dev/berth/webhooks/placementmutator"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
	"github.com/berth-dev/berth/webhooks/quotaspec"
	"github.com/berth-dev/berth/webhooks/quotavalidator"
)

// NewScheme returns a scheme with the kinds that Berth reads and writes as typed objects.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(placementv1.AddToScheme(scheme))
	return scheme
}

// components are the parts of a manager. Callbacks between components use its fields, so a component may be set later.
type components struct {
	options    Options
	mgr        manager.Manager
	liveClient client.Client
	dynamic    dynamic.Interface
	identity   authenticationv1.UserInfo
	tracing    *tracing.Provider
	// host is the cluster of Berth's own state, or nil if that is the served cluster. See state.
	host          cluster.Cluster
	stateClient   client.Client
	engineSecrets *engineSecrets

	certificate        *certs.Source
	tokens             *webhookauth.Tokens
	clientCertificates *webhookauth.ClientCertificates
	catalog            *watches.Catalog
	data               *embedded.Data
	predicates         *predicates.Set
	templates          *workload.Templates
	inventories        *replication.Inventories
	world              *predicates.NodeCache
	engine             *embedded.Engine
	remote             *remote.Engine
	registry           *placement.Registry
	ledger             *remediation.Ledger
	decider            *placement.Decider
	quotaEvaluators    *quota.Evaluators
	quotaCompiler      *quota.Compiler
	quotaLedger        *quotavalidator.Ledger
	namespaces         *watches.Namespaces
	restoreDetector    *watches.RestoreDetector
	freshness          *freshness.Monitor
	metrics            *metrics.Metrics
	events             *events.Recorder

	policies              *policyloader.Controller
	revisions             *policyrevision.Controller
	replication           *replicator.Controller
	enginePusher          *enginepusher.Controller
	webhookConfigurations *webhookconfiguration.Controller
	remediation           *remediator.Controller
	status                *policystatus.Controller
	schemas               *schemas.Checker
	typeCheck             *typecheck.Controller
	quotas                *quotausage.Controller
	readiness             *readiness
	drainingManager       *drainingManager
}

// New returns a manager with all components, ready to start. cfg is the configuration for the served API server. New
// already sends requests to the API server: for Berth's own identity, for the served types, and for the keyring Secret.
func New(ctx context.Context, cfg *rest.Config, o Options) (manager.Manager, error) {
	// Berth lists and watches many types, and a client-side rate limit would slow it down. The API server limits
	// clients by API Priority and Fairness.
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	p := &components{options: o, drainingManager: &drainingManager{delay: o.ShutdownDelay}, restoreDetector: watches.NewRestoreDetector()}
	for _, step := range []struct {
		what string
		do   func(context.Context, *rest.Config) error
	}{
		{"reading the configuration", p.addConfiguration},
		{"preparing traces", p.addTracing},
		{"creating clients", p.addClients},
		{"connecting to the host cluster", p.addHost},
		{"preparing client certificates", p.addClientCertificates},
		{"creating manager", p.addManager},
		{"preparing the webhook's certificate", p.addCertificate},
		{"preparing the webhooks' tokens", p.addTokens},
		{"preparing the engine", p.addEngine},
		{"adding controllers", p.addControllers},
		{"adding webhooks", p.addWebhooks},
		{"adding probes", p.addProbes},
	} {
		if err := step.do(ctx, cfg); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	p.drainingManager.Manager = p.mgr
	return p.drainingManager, nil
}

func (p *components) addTracing(ctx context.Context, cfg *rest.Config) (err error) {
	p.tracing, err = tracing.New(ctx, tracing.Options{
		Endpoint: p.options.TracingEndpoint, SamplingPerMillion: p.options.TracingSamplingPerMillion, Version: Version(),
	})
	p.tracing.Wrap(cfg)
	return err
}

func (p *components) addClients(ctx context.Context, cfg *rest.Config) error {
	var err error
	if p.liveClient, err = client.New(cfg, client.Options{Scheme: NewScheme()}); err != nil {
		return err
	}
	if p.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	whoami := &authenticationv1.SelfSubjectReview{}
	if err := p.liveClient.Create(ctx, whoami); err != nil {
		return fmt.Errorf("asking the API server who Berth is: %w", err)
	}
	p.identity = whoami.Status.UserInfo
	return nil
}

func (p *components) addManager(_ context.Context, cfg *rest.Config) error {
	o := p.options
	if err := o.checkElection(); err != nil {
		return err
	}
	serving := metricsserver.Options{BindAddress: o.MetricsAddress, SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		serving.FilterProvider = p.authenticateScrapers
	}
	byObject := quotawriters.Cached()
	if p.host == nil {
		maps.Copy(byObject, ownState(o.Namespace))
	}
	var err error
	p.mgr, err = ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        NewScheme(),
		Metrics:                       serving,
		HealthProbeBindAddress:        o.ProbeAddress,
		PprofBindAddress:              o.PprofAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionConfig:          p.leaseConfig(),
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 nilIfZero(o.LeaseDuration),
		RenewDeadline:                 nilIfZero(o.RenewDeadline),
		RetryPeriod:                   nilIfZero(o.RetryPeriod),
		Controller:                    controllerOptions(),
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: false}},
		Cache: cache.Options{
			ReaderFailOnMissingInformer: false,
			DefaultTransform:            cache.TransformStripManagedFields(),
			ByObject:                    byObject,
			NewInformer:                 p.newInformer,
		},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: o.WebhookHost,
			Port: o.WebhookPort,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.MinVersion = tls.VersionTLS12
				c.NextProtos = []string{"http/1.1"}
				// The certificate comes from a Secret; see addCertificate.
				c.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate.GetCertificate(h) }
				if p.clientCertificates != nil {
					p.clientCertificates.Configure(c)
				}
			}},
		}),
	})
	if err != nil {
		return err
	}
	if p.host != nil {
		if err := p.mgr.Add(p.host); err != nil {
			return err
		}
	}
	return p.addLease()
}

// newInformer returns an informer for the manager's cache. It lists its type again when the API server's store was set
// back to an earlier state.
func (p *components) newInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(p.restoreDetector.Wrap(lw), object, resync, indexers)
}

// nilIfZero returns nil for 0, which selects controller-runtime's default.
func nilIfZero(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}

func (p *components) addCertificate(context.Context, *rest.Config) error {
	hosts, err := p.options.hosts()
	if err != nil {
		return err
	}
	external := false
	switch p.options.WebhookCertManagement {
	case "", CertManagementSelf:
	case CertManagementExternal:
		external = true
	default:
		return fmt.Errorf("--webhook-cert-management %q: must be %s or %s", p.options.WebhookCertManagement, CertManagementSelf, CertManagementExternal)
	}
	state, err := p.namedSecret(certs.SecretName)
	if err != nil {
		return err
	}
	p.certificate, err = certs.Add(p.mgr, state, certs.Options{
		Namespace: p.options.Namespace, Hosts: hosts, External: external, Overlap: p.options.WebhookCAOverlap,
		Bundles: func(ctx context.Context) ([][]byte, error) {
			return webhookconfiguration.Bundles(ctx, p.mgr.GetClient())
		},
	})
	return err
}

// addTokens prepares the token in the webhooks' paths that authenticates the API server.
func (p *components) addTokens(context.Context, *rest.Config) (err error) {
	if o := p.options; o.WebhookTokenLifetime != 0 && o.WebhookTokenLifetime < cmp.Or(o.WebhookTokenSettle, time.Minute) {
		return fmt.Errorf("--webhook-token-lifetime %s: must be at least a minute, since replicas and API servers take a while to learn a token", o.WebhookTokenLifetime)
	}
	state, err := p.namedSecret(webhookauth.SecretName)
	if err != nil {
		return err
	}
	p.tokens, err = webhookauth.Add(p.mgr, state, webhookauth.Options{
		Namespace: p.options.Namespace, Lifetime: p.options.WebhookTokenLifetime,
		Settle: p.options.WebhookTokenSettle, Overlap: p.options.WebhookTokenOverlap,
		Used: func(ctx context.Context) ([]string, error) {
			return webhookconfiguration.UsedTokens(ctx, p.mgr.GetClient())
		},
		Refused: func() { p.metrics.Unauthenticated() },
	})
	return err
}

// addClientCertificates prepares the verification of the API server's client certificate, if it is enabled.
func (p *components) addClientCertificates(context.Context, *rest.Config) (err error) {
	switch {
	case p.options.WebhookClientCAFile != "":
		p.clientCertificates, err = webhookauth.NewClientCertificates(p.options.WebhookClientCAFile, p.options.WebhookClientNames)
	case len(p.options.WebhookClientNames) > 0:
		err = errors.New("--webhook-client-names has no use without --webhook-client-ca-file")
	}
	return err
}

func (p *components) addEngine(ctx context.Context, cfg *rest.Config) error {
	keyring, err := certs.LoadKeyring(ctx, p.stateClient, p.options.Namespace)
	if err != nil {
		return err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	p.catalog = watches.NewCatalog(discoveryClient, p.inventories)
	if err := p.catalog.Refresh(ctx); err != nil {
		return err
	}
	if err := p.addSchemas(cfg); err != nil {
		return err
	}
	if p.metrics, err = metrics.New(p.registerer()); err != nil {
		return err
	}
	p.events = events.New(p.mgr.GetEventRecorder("berth"))
	p.data = embedded.NewData()
	p.world = predicates.NewNodeCache()
	p.engine = embedded.New(p.data, embedded.Options{
		Timeout: p.options.EvaluationTimeout, Concurrency: p.options.EvaluationConcurrency,
		Observer: engineObserver{
			Metrics: p.metrics, changed: func(policy string) { p.status.Changed(policy) },
			readsMore: func() {
				p.remediation.FieldsReadChanged()
				p.webhookConfigurations.FieldsReadChanged()
			},
		},
		Predicates: p.predicates, Templates: p.templates, World: p.world,
	})
	p.registry = placement.NewRegistry()
	p.engineSecrets = newEngineSecrets(p.stateClient, p.options.Namespace, clock.RealClock{})
	p.addRemote()
	p.ledger = remediation.NewLedger()
	p.namespaces = &watches.Namespaces{Cached: p.mgr.GetClient(), Live: p.mgr.GetAPIReader()}
	p.quotaEvaluators = quota.NewEvaluators(clock.RealClock{})
	p.quotaCompiler = quota.NewCompiler(p.engine.PrepareGenerated)
	p.quotaLedger = &quotavalidator.Ledger{
		Cached: p.mgr.GetClient(), Live: p.mgr.GetAPIReader(), Writer: p.mgr.GetClient().Status(),
		Namespaces:     p.namespaces,
		LiveNamespaces: &watches.Namespaces{Cached: p.mgr.GetAPIReader(), Live: p.mgr.GetAPIReader()},
		Compiler:       p.quotaCompiler, OwnNamespace: p.options.exemptNamespace(),
		Unsettled:     func(q placementv1.Quota) []placementv1.Reservation { return p.quotas.Unsettled(q) },
		StoreRestored: p.restoreDetector.ReportRestore,
	}
	p.restoreDetector.Subscribe(p.quotaLedger.ForgetAll)
	p.freshness = freshness.New(freshness.Options{
		Live: p.mgr.GetAPIReader(), Registry: p.registry, Rewound: p.restoreDetector.ReportRestore,
		Bound: cmp.Or(p.options.PolicyMaxStaleness, freshness.DefaultBound),
	})
	p.decider = &placement.Decider{
		Policies:     p.registry,
		Namespaces:   p.namespaces,
		Owners:       &watches.Owners{Live: p.mgr.GetAPIReader()},
		Keyring:      keyring,
		OwnNamespace: p.options.exemptNamespace(),
		Templates:    p.templates,
	}
	return nil
}

// schemaTimeout is how long the API server may take to return the schemas of one group and version.
const schemaTimeout = 3 * time.Second

// addSchemas prepares the type checker's client for published schemas. That client takes no context, so its requests
// have a timeout of their own.
func (p *components) addSchemas(cfg *rest.Config) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = schemaTimeout
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	p.schemas = schemas.NewChecker(p.catalog, discoveryClient.OpenAPIV3())
	return nil
}

// engineObserver records metrics of the decision cache and of quarantined policies, and logs what must not happen.
type engineObserver struct {
	*metrics.Metrics
	// changed is called with policies whose quarantine began or ended.
	changed func(policy string)
	// readsMore is called when a policy reads more than the analysis found.
	readsMore func()
}

// CacheMismatch implements embedded.Observer.
func (o engineObserver) CacheMismatch(policy string) {
	o.Metrics.CacheMismatch(policy)
	ctrl.Log.WithName("engine").Error(nil, "a remembered decision was wrong: the policy reads more of objects than Berth's analysis found. "+
		"Its decisions are evaluated each time from now on; please report the policy's text", "policy", policy)
	o.readsMore()
}

// Quarantined implements embedded.Observer.
func (o engineObserver) Quarantined(policy string) {
	o.Metrics.Quarantined(policy)
	ctrl.Log.WithName("engine").Error(nil, "a policy keeps running into its deadline and is not evaluated for a while", "policy", policy)
	o.changed(policy)
}

// NamespaceQuarantined implements embedded.Observer.
func (o engineObserver) NamespaceQuarantined(policy, namespace string, began bool) {
	o.changed(policy)
	if !began {
		ctrl.Log.WithName("engine").Info("A policy ended in time again on the objects of a namespace", "policy", policy, "namespace", namespace)
		return
	}
	ctrl.Log.WithName("engine").Error(nil, "a policy keeps running into its deadline on the objects of a namespace and is not evaluated on them for a while",
		"policy", policy, "namespace", namespace)
}

// Released implements embedded.Observer.
func (o engineObserver) Released(policy string) {
	ctrl.Log.WithName("engine").Info("A policy ended in time again and is evaluated as before", "policy", policy)
	o.changed(policy)
}

func (p *components) registerer() prometheus.Registerer {
	if p.options.Metrics != nil {
		return p.options.Metrics
	}
	return ctrlmetrics.Registry
}

func (p *components) addControllers(ctx context.Context, _ *rest.Config) (err error) {
	p.policies = policyloader.New(p.mgr.GetClient(), p.stateCluster().GetClient(), engines{p.engine, p.remote}, p.registry, p.catalog, p.metrics, p.options.Namespace)
	p.revisions = policyrevision.New(p.mgr.GetClient(), p.stateCluster(), p.registry, policyrevision.Options{
		Namespace: p.options.Namespace, Owned: p.host == nil,
	})
	p.replication = replicator.New(p.dynamic, p.registry, p.data, p.world, p.inventories)
	p.replication.Follow(p.restoreDetector)
	p.decider.Stale = p.replication.Stale
	p.enginePusher = enginepusher.New(enginepusher.Deps{
		Client: p.dynamic, Registry: p.registry, Engine: p.remote, Inventories: p.inventories, Observer: p.metrics.Remote,
		Loaded: p.policies.Loaded, RestoreDetector: p.restoreDetector,
	})
	p.policies.Settled = func(b *policy.Binding) bool { return p.replication.SettledFor(b) && p.remote.DataReady(b) }
	p.webhookConfigurations = webhookconfiguration.New(p.mgr.GetClient(), p.mgr.GetAPIReader(), p.registry, p.quotaEvaluators, p.policies.Loaded, p.certificate, p.tokens, webhookconfiguration.Options{
		URL: p.options.WebhookURL, ServiceName: p.options.WebhookService, Namespace: p.options.exemptNamespace(),
		Owners: p.options.owners(),
	})
	adopter := webhookconfiguration.NewAdopter(p.mgr.GetClient(), p.mgr.GetAPIReader(), p.options.owners())
	if err := p.mgr.Add(adopter); err != nil {
		return err
	}
	p.readiness = &readiness{
		certificate: p.certificate.Trusted,
		tokens:      p.tokens.Known,
		policies:    p.policies.Loaded,
		data:        p.replication.Settled,
		adopted:     adopter.Done,
		current:     p.freshness.Current,
		confirm:     p.freshness.Confirm,
	}
	if p.readiness.quotas, err = p.watchQuotas(ctx); err != nil {
		return err
	}
	p.remediation = remediator.New(remediator.Deps{
		Client: p.dynamic, Registry: p.registry, Decider: p.decider, Catalog: p.catalog, Ledger: p.ledger,
		Events: p.events, Metrics: p.metrics, Clock: clock.RealClock{}, Identity: p.identity,
		Ready:    p.readiness.isReady,
		History:  p.restoreDetector,
		Tracing:  p.tracing,
		Changed:  func(name string) { p.status.Changed(name) },
		Policies: p.mgr.GetClient(),
	})
	p.addStatus()
	p.quotas = quotausage.New(quotausage.Deps{
		Client: p.mgr.GetClient(), Live: p.mgr.GetAPIReader(), Dynamic: p.dynamic, Catalog: p.catalog,
		Compiler: p.quotaCompiler, Evaluators: p.quotaEvaluators, Metrics: p.metrics, Clock: clock.RealClock{},
		WebhookState: p.webhookConfigurations.QuotaState, OwnNamespace: p.options.exemptNamespace(), RestoreDetector: p.restoreDetector,
		Classes: &watches.PriorityClasses{Reader: p.mgr.GetClient()}, StorageClasses: &watches.StorageClasses{Reader: p.mgr.GetClient()},
	})
	p.webhookConfigurations.SubscribeQuotas(p.quotas.WebhookStateChanged)
	if err := p.registerCollectors(); err != nil {
		return err
	}
	p.catalog.Subscribe(p.quotas.ServedChanged)
	p.catalog.Subscribe(p.status.ServedChanged)
	p.webhookConfigurations.Subscribe(p.status.Changed)
	p.enginePusher.Subscribe(p.status.Changed)
	p.subscribeToData()
	p.catalog.Subscribe(p.remediation.Rewatch)
	for _, r := range []manager.Runnable{p.remote, p.enginePusher, p.replication, p.catalog, p.freshness} {
		if err := p.mgr.Add(r); err != nil {
			return err
		}
	}
	if err := p.watchNamespaces(ctx); err != nil {
		return err
	}
	if err := p.watchPauses(ctx); err != nil {
		return err
	}
	for _, c := range []interface{ SetupWithManager(ctrl.Manager) error }{quotawriters.New(p.mgr.GetClient(), p.mgr.GetAPIReader()), p.policies, p.revisions, p.webhookConfigurations, p.remediation, p.typeCheck, p.status, p.quotas} {
		if err := c.SetupWithManager(p.mgr); err != nil {
			return err
		}
	}
	return nil
}

// addStatus creates the controllers that report on policies.
func (p *components) addStatus() {
	p.typeCheck = typecheck.New(typecheck.Deps{
		Client: p.mgr.GetClient(), Checker: p.schemas, Bound: p.registry.BindingsInForce, Changed: func(name string) { p.status.Changed(name) },
	})
	p.catalog.Subscribe(p.typeCheck.ServedChanged)
	p.registry.Subscribe(func(change placement.PolicyChange) { p.typeCheck.PolicyLoaded(change.Name) })
	p.status = policystatus.New(policystatus.Deps{
		Client: p.mgr.GetClient(), Engine: p.engine.Name(), RemoteEngine: remote.Name, Registry: p.registry,
		Stale:       p.replication.Stale,
		Replication: p.replication.State, World: p.replication.PredicateState, Supply: p.enginePusher, Settled: p.remote.DataReady,
		Hook: p.webhookConfigurations.State, Targets: p.remediation.MatchedState, Deciding: p.remediation.HasUndecided, Resuming: p.remediation.Resuming,
		Ledger: p.ledger, Metrics: p.metrics, Events: p.events,
		Served: p.catalog.Served, OwnNamespace: p.options.exemptNamespace(),
		Types: p.typeCheck.State,
	})
}

// registerCollectors registers the metrics that are computed at the time of the scrape.
func (p *components) registerCollectors() error {
	for _, c := range []prometheus.Collector{
		metrics.NewQuarantine(p.registry.InForce),
		metrics.NewCircuits(p.registry.InForce),
		metrics.NewReplication(p.replication.Replicas),
		metrics.NewQuotaUsage(p.quotas.Usage),
		metrics.NewCertificateExpiry(p.certificate.Expiry, cmp.Or(p.options.WebhookCertManagement, CertManagementSelf)),
	} {
		if err := p.registerer().Register(c); err != nil {
			return err
		}
	}
	return nil
}

// subscribeToData notifies other components of changes of replicated data.
func (p *components) subscribeToData() {
	p.replication.Subscribe(func(r schema.GroupVersionResource) {
		p.remediation.DataChanged(r)
		p.status.DataChanged(r)
	})
	p.replication.SubscribePredicates(
		func(schema.GroupVersionResource) {
			p.remediation.PredicateDataChanged()
			p.status.PredicateDataChanged()
		},
		func(schema.GroupVersionResource) {
			p.remediation.PredicateDataChanged()
			p.status.PredicateStateChanged()
		},
	)
}

// watchQuotas keeps quotas and LimitedResources in the cache on every replica. The returned function reports whether
// the cache is synced.
func (p *components) watchQuotas(ctx context.Context) (func() bool, error) {
	var informers []cache.Informer
	for _, object := range []client.Object{&placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{}} {
		informer, err := p.mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching quotas: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: p.quotaAdded, DeleteFunc: p.quotaDeleted}); err != nil {
			return nil, fmt.Errorf("watching quotas: %w", err)
		}
		informers = append(informers, informer)
	}
	return func() bool {
		return !slices.ContainsFunc(informers, func(i cache.Informer) bool { return !i.HasSynced() })
	}, nil
}

// quotaAdded adds the metrics of a quota or LimitedResource.
func (p *components) quotaAdded(obj any) {
	if o, ok := obj.(client.Object); ok {
		if key, ok := quota.KeyOf(o); ok {
			p.metrics.AddQuota(key)
		}
	}
}

// quotaDeleted drops the metrics and the written version of a deleted quota or LimitedResource.
func (p *components) quotaDeleted(obj any) {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	if o, ok := obj.(client.Object); ok {
		if key, ok := quota.KeyOf(o); ok {
			p.metrics.ForgetQuota(key)
			p.quotaLedger.Forget(o.GetUID())
		}
	}
}

// watchNamespaces notifies other components of changes of namespaces' labels. It also fills the cache of namespaces
// before the first request needs one.
func (p *components) watchNamespaces(ctx context.Context) error {
	informer, err := p.mgr.GetCache().GetInformer(ctx, watches.NewNamespace(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after, ok := obj.(metav1.Object); ok && !initial {
				p.status.NamespaceChanged(after.GetName(), nil, after.GetLabels())
			}
		},
		UpdateFunc: func(old, obj any) {
			before, known := old.(metav1.Object)
			after, ok := obj.(metav1.Object)
			if known && ok && !maps.Equal(before.GetLabels(), after.GetLabels()) {
				p.remediation.NamespaceChanged(after.GetName())
				p.status.NamespaceChanged(after.GetName(), before.GetLabels(), after.GetLabels())
			}
		},
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj
			}
			if before, ok := obj.(metav1.Object); ok {
				p.status.NamespaceChanged(before.GetName(), before.GetLabels(), nil)
			}
		},
	})
	return err
}

// watchPauses informs this replica's admission of the policies that the leader paused.
func (p *components) watchPauses(ctx context.Context) error {
	informer, err := p.mgr.GetCache().GetInformer(ctx, &placementv1.PlacementPolicy{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching policies: %w", err)
	}
	pauses := &placement.Pauses{}
	p.decider.Paused = pauses.Paused
	set := func(obj any) {
		if policy, ok := obj.(*placementv1.PlacementPolicy); ok {
			pauses.Set(policy.Name, policy.Status.Paused != nil)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				pauses.Set(name, false)
			}
		},
	})
	return err
}

func (p *components) addWebhooks(context.Context, *rest.Config) error {
	register := func(path string, handler http.Handler) {
		// The token is checked before the body of a request is read.
		handler = p.drainingManager.handler(p.tokens.Handler(path, handler))
		p.mgr.GetWebhookServer().Register(path, handler)
		p.mgr.GetWebhookServer().Register(path+"/", handler)
	}
	scales := &watches.Scales{Client: p.dynamic}
	memory := review.NewMemory()
	for path, failurePolicy := range map[string]placementv1.FailurePolicy{
		webhookconfiguration.PathFail:   placementv1.FailurePolicyFail,
		webhookconfiguration.PathIgnore: placementv1.FailurePolicyIgnore,
	} {
		handler := &placementmutator.Handler{
			Decider: p.decider, Events: p.events, Metrics: p.metrics, Clock: clock.RealClock{},
			FailurePolicy: failurePolicy, Confirm: p.freshness.Confirm, LiveNamespaces: p.quotaLedger.LiveNamespaces,
			IsRemediation: remediator.IsRemediation(p.identity),
			Parents:       &placementmutator.Parents{Client: p.dynamic, Scales: scales},
		}
		register(path, p.tracing.Handler("admission placement", p.readiness.guard(review.New(handler, memory, placementmutator.Deadline))))
	}
	quotas := quotavalidator.New(quotavalidator.Deps{
		Ledger: p.quotaLedger, Evaluators: p.quotaEvaluators, Events: p.events, Metrics: p.metrics, Clock: clock.RealClock{},
		ReservationTTL: p.options.ReservationTTL,
	})
	for path, handler := range map[string]review.Decider{
		webhookconfiguration.PathQuotaFail:   quotas,
		webhookconfiguration.PathQuotaIgnore: quotas.Lenient(),
	} {
		register(path, p.tracing.Handler("admission quota", p.readiness.guard(review.New(handler, memory, quotavalidator.Deadline))))
	}
	register(webhookconfiguration.PathPolicies,
		admission.WithValidator(p.mgr.GetScheme(), &policyvalidator.Validator{
			Catalog: p.catalog, Checker: engines{p.engine, p.remote}, Scales: scales, Types: p.schemas, Secrets: p.engineSecrets, Namespace: p.options.Namespace,
			Namespaces: p.namespaces, OwnNamespace: p.options.exemptNamespace(),
			Prober:            p.remote,
			Bound:             p.registry.BindingsInForce,
			Clusters:          &watches.Clusters{Client: p.dynamic, Catalog: p.catalog},
			ClusterPredicates: p.predicates.NamesOf(predicates.Clusters),
			Compilations:      semaphore.NewWeighted(maxCompilations),
		}))
	register(webhookconfiguration.PathQuotaSpecs, &admission.Webhook{Handler: &quotaspec.Handler{
		Catalog: p.catalog, Evaluators: p.quotaEvaluators, Namespaces: p.namespaces, Classes: &watches.PriorityClasses{Reader: p.mgr.GetClient()},
		StorageClasses: &watches.StorageClasses{Reader: p.mgr.GetClient()}, VolumeAttributesClasses: &watches.VolumeAttributesClasses{Reader: p.mgr.GetAPIReader()},
		OwnNamespace: p.options.exemptNamespace(), Decoder: admission.NewDecoder(p.mgr.GetScheme()),
		Live: p.mgr.GetAPIReader(), Cache: p.mgr.GetClient(),
	}})
	return nil
}

// maxCompilations is how many policies the validating webhook compiles concurrently.
const maxCompilations = 2

func (p *components) addProbes(context.Context, *rest.Config) error {
	if err := p.mgr.AddHealthzCheck("ping", func(*http.Request) error { return nil }); err != nil {
		return err
	}
	started := p.mgr.GetWebhookServer().StartedChecker()
	if p.clientCertificates != nil {
		if err := p.mgr.Add(p.clientCertificates); err != nil {
			return err
		}
		started = untilSuccess(started)
	}
	if err := p.mgr.AddReadyzCheck("webhook", started); err != nil {
		return err
	}
	if p.tracing != nil {
		if err := p.mgr.Add(p.tracing); err != nil {
			return err
		}
	}
	return p.mgr.AddReadyzCheck("loaded", func(r *http.Request) error {
		// Without a timeout, a probe that waits for a cache would look like a hanging process.
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !p.readiness.isReady(ctx) {
			return errors.New("policies or their data are not loaded yet")
		}
		if !p.freshness.Current() {
			return errors.New("the API server has not confirmed the policies of this replica for too long")
		}
		return nil
	})
}
