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
	"io"
	"log/slog"
	"maps"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berth-dev/berth/controllers/writers"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/restore"
	"github.com/berth-dev/berth/internal/tracing"
	"github.com/berth-dev/berth/internal/watches"
)

// base has what all components use: the manager, the clients, the options, and what needs no component.
type base struct {
	options  Options
	settings *settings
	tracing  *tracing.Provider // nil if there are no traces
	served   *servedCluster    // the cluster whose API server Berth serves
	state    *state            // the cluster in which Berth keeps its own state
	mgr      manager.Manager
	topics   *topics

	// restores ends this replica when the store of an API server went back to an earlier state.
	restores *restore.Detector
	// hub watches the types that policies and quotas name.
	hub            *watches.Hub
	namespaces     *watches.Namespaces // reads from the cache, and a namespace that it lacks from the API server
	liveNamespaces *watches.Namespaces // reads only from the API server

	metrics *metrics.Metrics
	events  *events.Recorder
	// decisions is the log of decisions; nil if the options turn it off.
	decisions *decisionlog.Log
}

// newBase returns the base, with a new manager. provider is nil if there are no traces.
func newBase(ctx context.Context, o Options, s *settings, provider *tracing.Provider, served *servedCluster, own *state) (*base, error) {
	mgr, err := newManager(o, served, own)
	if err != nil {
		return nil, err
	}
	m, err := metrics.New(o.registerer())
	if err != nil {
		return nil, err
	}
	decisions, err := newDecisionLog(ctx, mgr, o)
	if err != nil {
		return nil, err
	}
	if provider != nil {
		if err := mgr.Add(provider); err != nil {
			return nil, err
		}
	}
	return &base{
		options: o, settings: s, tracing: provider, served: served, state: own, mgr: mgr, topics: &topics{},
		restores:       restore.NewDetector(),
		hub:            watches.NewHub(served.dynamic),
		namespaces:     &watches.Namespaces{Cached: mgr.GetClient(), Live: mgr.GetAPIReader()},
		liveNamespaces: &watches.Namespaces{Cached: mgr.GetAPIReader(), Live: mgr.GetAPIReader()},
		metrics:        m,
		events:         events.New(mgr.GetEventRecorder(events.Controller)),
		decisions:      decisions,
	}, nil
}

// newDecisionLog returns the log of the decisions that change objects, which writes to what Options.DecisionLog names: the standard output,
// as lines of JSON, or an OpenTelemetry collector. It returns nil if that is "" or "off".
func newDecisionLog(ctx context.Context, mgr manager.Manager, o Options) (*decisionlog.Log, error) {
	switch o.DecisionLog {
	case "", DecisionLogOff:
		return nil, nil
	case DecisionLogStdout:
		return decisionlog.New(slog.NewJSONHandler(cmp.Or[io.Writer](o.DecisionLogOutput, os.Stdout), nil)), nil
	}
	logs, err := tracing.NewLogs(ctx, "--decision-log", o.DecisionLog, Version())
	if err != nil {
		return nil, fmt.Errorf("%w; %s for the standard output, or %s", err, DecisionLogStdout, DecisionLogOff)
	}
	return decisionlog.New(logs.Handler()), mgr.Add(logs)
}

// servedCluster has the REST configuration and the clients of the cluster whose API server Berth serves, none of which has a cache, and
// Berth's own user there.
type servedCluster struct {
	config *rest.Config
	// live reads and writes without a cache.
	live    client.Client
	dynamic dynamic.Interface
	// core is a client of the core API group, by which remediation evicts Pods.
	core rest.Interface
	// identity is Berth's own user, as the API server identified it at the start. The webhooks recognize the patches of remediation by its
	// name and by their field manager.
	identity authenticationv1.UserInfo
}

// connect creates the clients of the served cluster, and asks its API server for Berth's own identity.
func connect(ctx context.Context, cfg *rest.Config) (*servedCluster, error) {
	live, err := client.New(cfg, client.Options{Scheme: NewScheme()})
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	coreClient, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	whoami := &authenticationv1.SelfSubjectReview{}
	if err := live.Create(ctx, whoami); err != nil {
		return nil, fmt.Errorf("asking the API server for Berth's own identity: %w", err)
	}
	return &servedCluster{config: cfg, live: live, dynamic: dynamicClient, core: coreClient.RESTClient(), identity: whoami.Status.UserInfo},
		nil
}

// newManager returns a manager of the served cluster, without the servers of webhooks, metrics, and probes. It also runs the connection to
// the host cluster (own.host), if there is one, and the check for an abandoned lease. It returns an error for invalid options.
func newManager(o Options, served *servedCluster, own *state) (manager.Manager, error) {
	if err := cmp.Or(o.checkElection(), o.checkBounds()); err != nil {
		return nil, err
	}
	byObject := writers.Cached()
	if own.host == nil {
		maps.Copy(byObject, ownState(o.Namespace))
	}
	mgr, err := ctrl.NewManager(served.config, ctrl.Options{
		Scheme: NewScheme(),
		// See addMetrics.
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		PprofBindAddress:              o.PprofAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionConfig:          own.leaseConfig(),
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
		},
	})
	if err != nil {
		return nil, err
	}
	if own.host != nil {
		if err := mgr.Add(own.host); err != nil {
			return nil, err
		}
	}
	return mgr, addLease(mgr, own, o)
}

// controllerOptions returns the options of all controllers of a manager.
//
// They use client-go's workqueues, and not the priority queue, controller-runtime's default. That one sometimes blocks forever when a
// manager stops: it may try to hand an item to a worker that has just stopped, and holds its lock meanwhile
// (kubernetes-sigs/controller-runtime#3538, in every release of 0.24). The manager would then give up only after its graceful shutdown
// timeout, and release its lease that much later.
func controllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}

// nilIfZero returns a pointer to a duration; nil, which selects controller-runtime's default, for 0.
func nilIfZero(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}
