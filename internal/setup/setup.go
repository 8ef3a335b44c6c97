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
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/tracing"
)

// NewScheme returns a scheme with the kinds of client-go and of placement.berth.dev, which Berth reads and writes as typed objects. It has
// no others, such as CustomResourceDefinitions or ClusterProfiles, which Berth handles as unstructured objects.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(placementv1.AddToScheme(scheme))
	return scheme
}

// topics carry events to components that are created after the components that publish them.
type topics struct {
	// policyFacts has names of policies of which a fact changed that their status reports.
	policyFacts notify.Topic[string]
	// remoteRevised has names of policies whose remote engine got other data, so that existing objects must be decided again.
	remoteRevised notify.Topic[string]
	// remoteRecovered has names of policies whose remote engine answers again. Then the objects that they could not decide are decided again.
	remoteRecovered notify.Topic[string]
}

// New returns a manager with all components, ready to start. cfg is the configuration for the served API server. New already sends requests
// to the API server: for Berth's own identity, for the served types, and for the keyring Secret.
//
// New works in stages, each of which uses only those before it: connections to the clusters; the manager (base); the webhook server and its
// authentication (serving); the engines with their data (evaluation); the controllers; the webhooks and probes.
func New(ctx context.Context, cfg *rest.Config, o Options) (manager.Manager, error) {
	// Berth lists and watches many types, and a client-side rate limit would slow it down. The API server limits
	// clients by API Priority and Fairness.
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	settings, err := readSettings(o)
	if err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	provider, err := tracing.New(ctx, tracing.Options{
		Endpoint: o.TracingEndpoint, SamplingPerMillion: o.TracingSamplingPerMillion, Version: Version(),
	})
	if err != nil {
		return nil, fmt.Errorf("preparing traces: %w", err)
	}
	provider.Wrap(cfg)
	served, err := connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("creating clients: %w", err)
	}
	state, err := connectState(ctx, served, o)
	if err != nil {
		return nil, fmt.Errorf("connecting to the host cluster: %w", err)
	}
	base, err := newBase(ctx, o, settings, provider, served, state)
	if err != nil {
		return nil, fmt.Errorf("creating manager: %w", err)
	}
	serving, err := newServing(base)
	if err != nil {
		return nil, err
	}
	evaluation, err := newEvaluation(ctx, base)
	if err != nil {
		return nil, fmt.Errorf("preparing the engine: %w", err)
	}
	controllers, err := newControllers(ctx, base, serving, evaluation)
	if err != nil {
		return nil, fmt.Errorf("adding controllers: %w", err)
	}
	draining := &drainingManager{Manager: base.mgr, delay: o.ShutdownDelay}
	addWebhooks(base, serving, evaluation, controllers, draining)
	if err := errors.Join(addProbes(base, controllers), addMetrics(base)); err != nil {
		return nil, fmt.Errorf("adding ports: %w", err)
	}
	return draining, nil
}
