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

// Package remediator provides the controller that decides existing objects again when a policy, its data or the object
// changes. It patches objects that violate their placement. It runs on the leader.
package remediator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
	"github.com/berth-dev/berth/internal/watches"
)

// errNotTaken is the error of a patch that changed nothing.
var errNotTaken = errors.New("the API server did not take the placement over; the webhook configuration may be missing, or a replica may not have the newest data yet")

// FieldManager is the field manager of every patch of an existing object.
const FieldManager = remediation.FieldManager

// Catalog knows the types that the API server serves.
type Catalog interface {
	Select(func(schema.GroupVersionResource) bool) []policy.Resource
	Kind(schema.GroupVersionResource) string
}

// Deps holds the dependencies of a Controller.
type Deps struct {
	Client   dynamic.Interface
	Watches  *watches.Hub
	Registry *placement.Registry
	Decider  *placement.Decider
	Catalog  Catalog
	Ledger   *remediation.Ledger
	Events   *events.Recorder
	Metrics  *metrics.Metrics
	Clock    clock.Clock
	// Identity is Berth's own user. Match conditions see existing objects as if this user updated them.
	Identity authenticationv1.UserInfo
	// Tracing starts a trace for each decided object. It may be nil.
	Tracing *tracing.Provider
	// Ready reports whether everything is loaded that decisions need.
	Ready func(context.Context) bool
	// Changed is called with each policy whose account in the ledger changed.
	Changed func(policy string)
	// Policies reads PlacementPolicies from a cache.
	Policies client.Reader
}

// Controller remediates existing objects. Create it with New.
type Controller struct {
	Deps
	objects      *objectCache
	watches      *watches.Consumer
	limiter      *remediation.PatchLimiter
	groups       *remediation.Groups
	neededFields *neededFields
	matched      *matchedTypes
	remoteQueue  *remoteQueue
	gate         *remediation.Gate
	// rewatch receives a value when the set of watched types or fields may change, and due when policies or their data
	// changed.
	rewatch, due chan struct{}
	// resumed is set once it is known which policies an earlier leader paused.
	resumed atomic.Bool

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[remediation.Key]
	// backlog holds the changes that follow has not processed. scheduled holds which delayed changes are scheduled.
	backlog   backlog
	scheduled struct{ world, revised, judged bool }
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{
		Deps: d, limiter: remediation.NewPatchLimiter(), groups: remediation.NewGroups(),
		neededFields: &neededFields{registry: d.Registry, decider: d.Decider}, matched: newMatchedTypes(d.Catalog), remoteQueue: newRemoteQueue(),
		rewatch: make(chan struct{}, 1), due: make(chan struct{}, 1), backlog: newBacklog(),
	}
	c.gate = remediation.NewGate(c.feedsItself)
	c.objects = newObjectCache(c.objectsChanged)
	c.watches = d.Watches.NewConsumer(c.objects, c.watchChanged)
	d.Registry.Subscribe(func(p placement.PolicyChange) { c.policyChanged(p.Name, p.Before, p.After) })
	return c
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	ctl, err := controller.NewTyped("remediation", mgr, controller.TypedOptions[remediation.Key]{
		Reconciler:              c,
		MaxConcurrentReconciles: 4,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](100*time.Millisecond, time.Minute),
	})
	if err != nil {
		return err
	}
	if err := ctl.Watch(source.TypedFunc[remediation.Key](c.start)); err != nil {
		return err
	}
	return releases{c}.SetupWithManager(mgr)
}

// watchChanged reports the policies that match a type because the state of its watch changed.
func (c *Controller) watchChanged(resource schema.GroupVersionResource) {
	for _, p := range c.Registry.InForce() {
		if p.Matcher.SelectsResource(resource) {
			c.Changed(p.Name)
		}
	}
}

// incompleteDelay is the delay before an object is decided again of which some policy reads fields that are not fetched
// yet. When they are fetched, the object is enqueued anyway. The delay is for the case that the policy is deleted
// before that.
const incompleteDelay = time.Second

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile decides one object and patches it if the policies require that.
func (c *Controller) Reconcile(ctx context.Context, key remediation.Key) (reconcile.Result, error) {
	obj, fields := c.objects.take(key)
	if c.Decider.RecordsScheduling(obj, key.Namespace) && c.neededFields.schedule(key.Resource) {
		notify(c.rewatch)
	}
	if obj == nil {
		c.groups.Forget(key)
		c.limiter.Forget(key)
		c.remoteQueue.forget(key)
		c.gate.Forget(key)
		c.report(c.Ledger.Forget(key))
		c.concludeAssessments(ctx)
		return reconcile.Result{}, nil
	}
	if !covers(fields, c.neededFields.forType(key.Resource)) {
		return reconcile.Result{RequeueAfter: incompleteDelay}, nil
	}
	if c.remoteQueue.held(key) {
		return reconcile.Result{}, nil
	}
	ctx, span := c.Tracing.Root(ctx, "remediation")
	defer span.End()
	var decisions policyDecisions
	outcome, err := c.Decider.Decide(ctx, c.request(key, obj, c.evaluator(key, obj, &decisions)))
	tracing.Fail(span, err)
	if err != nil {
		c.Ledger.Skip(key)
		c.concludeAssessments(ctx)
		return reconcile.Result{}, fmt.Errorf("deciding %s: %w", key, err)
	}
	if !covers(fields, c.neededFields.forType(key.Resource)) || !sufficient(fields, outcome.Verdicts) {
		// A policy was added meanwhile, or reads more than the analysis found, and may have seen an incomplete object.
		c.FieldsReadChanged()
		return reconcile.Result{RequeueAfter: incompleteDelay}, nil
	}
	if slices.ContainsFunc(outcome.Verdicts, isPending) {
		// A remote engine may be slow. It must not delay the patches of policies that do not match the object.
		c.Ledger.Await(key, remediation.Names(outcome.Verdicts)...)
		c.concludeAssessments(ctx)
		return reconcile.Result{}, nil
	}
	c.decideAgain(key, outcome.Verdicts, c.groups.Record(key, decisions.list))
	later := reconcile.Result{RequeueAfter: c.remoteQueue.finishDecision(key, outcome.Verdicts)}
	remediation.Freeze(obj, outcome.Verdicts)
	due := remediation.DueOf(outcome.Verdicts)
	stopped := len(due) > 0 && !c.limiter.Allows(key, c.Clock.Now())
	if span.IsRecording() {
		span.SetAttributes(append(described(key), tracing.Decision.String(outcome.Digest()))...)
	}
	c.report(c.Ledger.Record(key, obj.GetResourceVersion(), outcome.Verdicts, stopped))
	c.concludeAssessments(ctx)
	if len(due) == 0 || stopped || c.held(key, due) || c.enqueuePatch(ctx, key, obj, outcome.Verdicts, due) {
		return later, nil
	}
	return c.remediate(ctx, key, obj, due)
}

// described returns the span attributes that identify an object.
func described(key remediation.Key) []attribute.KeyValue {
	return []attribute.KeyValue{
		tracing.Resource.String(tracing.ResourceName(key.Resource)), tracing.Namespace.String(key.Namespace), tracing.Object.String(key.Name),
	}
}

// sufficient reports whether fields contain everything that the policies behind the verdicts read.
func sufficient(fields *projection.FieldSet, verdicts []*placement.Verdict) bool {
	return !slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return !covers(fields, v.Policy.Evaluator.Input()) })
}

// policyDecisions collects the decisions of the policies on one object. It is safe for concurrent use.
type policyDecisions struct {
	mu   sync.Mutex
	list []*remediation.PolicyDecision
}

func (p *policyDecisions) add(decision *remediation.PolicyDecision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, decision)
}

// evaluateFunc evaluates a policy on behalf of a Decider.
type evaluateFunc = func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error)

// evaluator returns the function that evaluates policies on an object. It reuses known decisions. Policies with a
// remote engine are pending until the engine has answered. Each decision is added to decisions.
func (c *Controller) evaluator(key remediation.Key, obj *unstructured.Unstructured, decisions *policyDecisions) evaluateFunc {
	return func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		var decision *remediation.PolicyDecision
		if r, ok := p.Remote(); ok {
			if decision = c.remoteDecision(p, r.Health().Endpoint, key, obj); decision == nil {
				return placement.Decision{}, errPending
			}
		} else if decision = c.groups.Lookup(p, input); !decision.Known {
			decision.Decision, decision.Err = c.evaluate(ctx, p, input)
		}
		decisions.add(decision)
		return decision.Decision, decision.Err
	}
}

// request returns the request to decide an existing object as if Berth updated it without a change.
func (c *Controller) request(key remediation.Key, obj *unstructured.Unstructured, evaluate evaluateFunc) placement.Request {
	gvk := obj.GroupVersionKind()
	return placement.Request{
		Resource:  key.Resource,
		Namespace: key.Namespace,
		Object:    obj,
		Old:       obj,
		Admission: &admissionv1.AdmissionRequest{
			Kind:            metav1.GroupVersionKind(gvk),
			Resource:        metav1.GroupVersionResource(key.Resource),
			RequestKind:     (*metav1.GroupVersionKind)(&gvk),
			RequestResource: (*metav1.GroupVersionResource)(&key.Resource),
			Name:            key.Name,
			Namespace:       key.Namespace,
			Operation:       admissionv1.Update,
			UserInfo:        c.Identity,
			DryRun:          new(false),
		},
		AutomaticOnly: true,
		VerdictsOnly:  true,
		Evaluate:      evaluate,
	}
}

// evaluate evaluates a policy on an input.
func (c *Controller) evaluate(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return c.Metrics.Evaluate(ctx, c.Clock, metrics.SourceRemediation, p, input)
}

// remediate patches one object.
//
// The patch contains only the UID and the resource version that was decided, and changes nothing. The API server then
// calls Berth's own webhook, which decides the object as it decides every other update. So there is one way by which
// placements get into objects, the fields keep their owners, and a developer who applies the same manifest again gets
// no conflict with Berth. The API server may not call the webhook: it may not know of it yet, or the webhook's failure
// may be ignored. Then the object stays as it is. If the patch contained the placement, the next record of the
// developer's requested values would contain the old placement as if the developer had requested it.
func (c *Controller) remediate(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured, due remediation.Due) (reconcile.Result, error) {
	log := ctrllog.FromContext(ctx)
	log.V(2).Info("Patching")
	body, err := patchBody(obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	got, err := c.Client.Resource(key.Resource).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case apierrors.IsNotFound(err):
		c.gate.Leave(key, remediation.Names(due)...)
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		// Another client updated the object. The watch will deliver the newer object; the requeue is for the case that
		// it does not.
		c.gate.Leave(key, remediation.Names(due)...)
		c.count(ctx, due, metrics.RemediationConflict)
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		c.Events.RemediationFailed(obj, fmt.Sprintf("%s: %v", due.Policies(), err))
		return c.failed(ctx, key, due, err), nil
	case got.GetResourceVersion() == obj.GetResourceVersion():
		return c.failed(ctx, key, due, errNotTaken), nil
	case !due.Placed(got):
		// The webhook decided with newer data, or another webhook changed the object. The watch will deliver the newer
		// object. The patch limiter stops an object that never settles.
		c.gate.Leave(key, remediation.Names(due)...)
		c.limiter.Patched(key, c.Clock.Now())
		c.count(ctx, due, metrics.RemediationConflict)
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	c.succeeded(ctx, key, due)
	c.limiter.Patched(key, c.Clock.Now())
	for _, v := range due {
		c.Ledger.Remediated(v.Policy.Name)
		c.Changed(v.Policy.Name)
	}
	c.Events.Remediated(got, due.String())
	if !c.limiter.Allows(key, c.Clock.Now()) {
		c.Events.RemediationStopped(got, fmt.Sprintf("%s: its decision keeps changing after its own patch", due.Policies()))
	}
	return reconcile.Result{}, nil
}

func patchBody(obj *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(),
		"uid":             obj.GetUID(),
	}})
}

func (c *Controller) count(ctx context.Context, due remediation.Due, outcome string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Outcome.String(outcome))
	}
	for _, v := range due {
		c.Metrics.Remediation(v.Policy.Name, outcome)
	}
}

func (c *Controller) report(policies []string) {
	for _, name := range policies {
		c.Changed(name)
	}
}

// IsRemediation returns a function that reports whether a request is a patch by this controller, on any replica.
func IsRemediation(identity authenticationv1.UserInfo) func(*admissionv1.AdmissionRequest) bool {
	return func(req *admissionv1.AdmissionRequest) bool {
		if req.Operation != admissionv1.Update || req.UserInfo.Username != identity.Username {
			return false
		}
		var options metav1.PatchOptions
		return json.Unmarshal(req.Options.Raw, &options) == nil && options.FieldManager == FieldManager
	}
}
