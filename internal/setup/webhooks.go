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
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/webhookconfiguration"
	"github.com/berth-dev/berth/internal/httpserver"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/review"
	"github.com/berth-dev/berth/internal/watches"
	"github.com/berth-dev/berth/webhooks/placementmutator"
	"github.com/berth-dev/berth/webhooks/planapproval"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
	"github.com/berth-dev/berth/webhooks/quotaspec"
	"github.com/berth-dev/berth/webhooks/quotavalidator"
)

// addWebhooks registers the webhooks, behind the check of the token. Those that decide and charge objects are also behind the check of
// readiness; those for policies, approvals, and the specs of quotas answer before this replica is ready.
func addWebhooks(base *base, serving *serving, evaluation *evaluation, controllers *controllers, draining *drainingManager) {
	register := func(path string, handler http.Handler) {
		// The token is checked before the body of a request is read.
		handler = draining.handler(serving.tokens.Handler(path, httpserver.WithoutStrangers(handler)))
		serving.handlers.Register(path, handler)
		serving.handlers.Register(path+"/", handler)
	}
	scales := &watches.Scales{Client: base.served.dynamic}
	memory := review.NewMemory()
	for path, failurePolicy := range map[string]placementv1.FailurePolicy{
		webhookconfiguration.PathFail:   placementv1.FailurePolicyFail,
		webhookconfiguration.PathIgnore: placementv1.FailurePolicyIgnore,
	} {
		handler := &placementmutator.Handler{
			Decider: controllers.decider, Events: base.events, Metrics: base.metrics, Clock: clock.RealClock{},
			FailurePolicy: failurePolicy, Confirm: controllers.freshness.Confirm, LiveNamespaces: base.liveNamespaces,
			InForce:     func(p *placement.Policy) bool { return evaluation.registry.Get(p.Name).Decides(p) },
			Waits:       func(p *placement.Policy) bool { return evaluation.registry.Get(p.Name).Waits() },
			Remediation: placementmutator.Recognize(base.served.identity),
			Parents:     &placementmutator.Parents{Client: base.served.dynamic, Scales: scales},
			Decisions:   base.decisions,
		}
		register(path, base.tracing.Handler("admission placement", controllers.readiness.Guard(review.New(handler, memory,
			placementmutator.Deadline))))
	}
	quotas := &quotavalidator.Handler{
		Charger: controllers.charger, Evaluators: evaluation.quotaEvaluators, Events: base.events, Metrics: base.metrics,
		Clock: clock.RealClock{},
	}
	for path, handler := range map[string]review.Decider{
		webhookconfiguration.PathQuotaFail:   quotas,
		webhookconfiguration.PathQuotaIgnore: quotas.Lenient(),
	} {
		register(path, base.tracing.Handler("admission quota", controllers.readiness.Guard(review.New(handler, memory, quotavalidator.Deadline))))
	}
	own := func(h admission.Handler) http.Handler {
		return review.New(review.Lenient(cheap(base.mgr.GetScheme(), h)), memory, webhookconfiguration.PolicyDeadline)
	}
	register(webhookconfiguration.PathPolicies,
		own(admission.WithValidator(base.mgr.GetScheme(), &policyvalidator.Validator{
			Templates: base.settings.templates,
			Catalog:   evaluation.catalog, Checker: evaluation.engines, Scales: scales, Types: evaluation.schemas, Secrets: evaluation.secrets,
			Namespace:  base.options.Namespace,
			Namespaces: base.namespaces, OwnNamespace: base.options.exemptNamespace(),
			Prober:            evaluation.engines.remote,
			Bound:             evaluation.registry.BindingsInForce,
			Groups:            evaluation.registry.Groups,
			Policies:          policiesOf(base.mgr.GetClient()),
			Quotas:            &watches.Quotas{Cache: base.mgr.GetClient(), Live: base.mgr.GetAPIReader()},
			Clusters:          &watches.Clusters{Client: base.served.dynamic, Catalog: evaluation.catalog},
			Scores:            &watches.Scores{Client: base.served.dynamic, Catalog: evaluation.catalog},
			Nodes:             &watches.Nodes{Client: base.served.dynamic},
			PriorityClasses:   &watches.Classes{Reader: base.mgr.GetClient(), Kind: watches.PriorityClass},
			ClusterPredicates: base.settings.predicates.NamesOf(predicates.Clusters),
			Compiler:          policy.NewBoundedCompiler(maxCompilations, policy.RequestDeadline, policy.Compile),
		}).Handler))
	register(webhookconfiguration.PathApprovals, own(&planapproval.Handler{Clock: clock.RealClock{}}))
	register(webhookconfiguration.PathQuotaSpecs, own(&quotaspec.Handler{
		Catalog: evaluation.catalog, Evaluators: evaluation.quotaEvaluators, Namespaces: base.namespaces,
		Classes:                 &watches.Classes{Reader: base.mgr.GetClient(), Kind: watches.PriorityClass},
		StorageClasses:          &watches.Classes{Reader: base.mgr.GetClient(), Kind: watches.StorageClass},
		Nodes:                   &watches.Nodes{Client: base.served.dynamic},
		Capacity:                capacity(base, evaluation),
		VolumeAttributesClasses: &watches.Classes{Reader: base.mgr.GetAPIReader(), Kind: watches.VolumeAttributesClass},
		OwnNamespace:            base.options.exemptNamespace(), Decoder: admission.NewDecoder(base.mgr.GetScheme()),
		Live: base.mgr.GetAPIReader(), Cache: base.mgr.GetClient(),
	}))
}

// capacity returns a reader of the CPU and memory that all clusters and nodes have together for pods. It asks the API server each time.
func capacity(base *base, evaluation *evaluation) *watches.Capacity {
	return &watches.Capacity{
		Clusters: &watches.Clusters{Client: base.served.dynamic, Catalog: evaluation.catalog}, Nodes: &watches.Nodes{Client: base.served.dynamic},
	}
}

// cheap returns a handler that refuses objects that have no known kind or would take very long to decode. The API server sends no such
// object, but another client that has the token of the webhooks can. The handler h gets the others, without repeated fields.
func cheap(scheme *runtime.Scheme, h admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		for _, object := range []*runtime.RawExtension{&req.Object, &req.OldObject} {
			var err error
			if object.Raw, err = examine(scheme, object.Raw); err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
		}
		return h.Handle(ctx, req)
	})
}

// examine returns the JSON of an object without repeated fields: the last one counts. It returns an error if the text is no JSON object,
// has no kind of the scheme, or would take very long to decode, and an empty text as it is.
func examine(scheme *runtime.Scheme, text []byte) ([]byte, error) {
	if len(text) == 0 {
		return text, nil
	}
	object := unstructured.Unstructured{Object: map[string]any{}}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&object.Object); err != nil {
		return nil, err
	}
	typed, err := scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := numeral.Check(object.Object, typed); err != nil {
		return nil, err
	}
	return json.Marshal(object.Object)
}

// maxCompilations is how many policies the validating webhook compiles concurrently, and how many, in addition, the finder of probable
// mistakes does. Further ones wait.
const maxCompilations = 2
