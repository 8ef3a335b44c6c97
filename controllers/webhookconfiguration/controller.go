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

// Package webhookconfiguration provides the controller that writes Berth's webhook configurations. There are three: one
// for the objects that policies match, one for what quotas count, and one for policies and quotas themselves. The rules
// of the first two come from the existing policies and quotas. Neither exists without any of those.
package webhookconfiguration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
	"github.com/berth-dev/berth/internal/webhookauth"
)

// Names of the webhook configurations.
const (
	WorkloadsName = "berth-placement"
	PoliciesName  = "berth-policies"
)

// Paths at which the webhooks are served, followed by a token; see internal/webhookauth. The paths for workloads say
// what the API server does when it gets no response, so that the webhook treats a request that it can't decide the same
// way.
const (
	PathFail       = "/placement/fail"
	PathIgnore     = "/placement/ignore"
	PathPolicies   = "/policies"
	PathQuotaSpecs = "/quotaspecs"
	PathApprovals  = "/approvals"
)

// Timeouts of the webhooks, in seconds.
const (
	workloadTimeout = 5
	policyTimeout   = 10
)

// PolicyDeadline is the maximum duration of a request for one of Berth's own objects, such as a policy or a quota. The API server's timeout
// is a little longer.
const PolicyDeadline = (policyTimeout - 1) * time.Second

// Options configure how the API server reaches the webhooks, by a URL or a Service, and which ClusterRoles own the configurations.
type Options struct {
	// URL is the base URL of the webhooks. If it is empty, the API server uses the Service.
	URL string
	// ServiceName is the name of the Service in Namespace. Its port is 443.
	ServiceName string
	// Namespace is Berth's own namespace in the served cluster, which has the Service. In it, no webhook gets objects other than ScopedQuotas.
	// It may be empty if URL is set; then there is no such namespace.
	Namespace string
	// Owners are the ClusterRoles that own the configurations.
	Owners Owners
}

// Tokens provides the token in the paths of the webhooks, and a channel that receives a value when it changes.
type Tokens interface {
	// Current returns the token. ok is false until there is one.
	Current() (token string, ok bool)
	Changes() <-chan struct{}
}

// Certificate provides the CA bundle for the API server: the authority that signed the webhook's certificate and, for
// some time after a rotation, the earlier authorities.
type Certificate interface {
	CABundle() []byte
	Changes() <-chan struct{}
}

// Controller writes the webhook configurations. Create it with New.
type Controller struct {
	client client.Client
	// live reads the owners from the API server. They are read rarely, and a cache would have to hold every
	// ClusterRole.
	live        client.Reader
	registry    *placement.Registry
	evaluators  *quota.Evaluators
	loaded      func(context.Context) bool // Whether all policies are loaded.
	certificate Certificate
	tokens      Tokens
	options     Options
	wake        notify.Signal // Its Notify makes Reconcile run.

	states      states[string]    // Whether the API server accepted the webhook rules of each policy, by its name.
	quotaStates states[quota.Key] // Whether the API server accepted the webhook rules of each quota and LimitedResource.
}

// New returns a controller that reads ClusterRoles by live, and all else by c. Until loaded returns true, it does not change the
// configuration for workloads, which may have rules of policies that this replica has not loaded yet.
func New(c client.Client, live client.Reader, registry *placement.Registry, evaluators *quota.Evaluators, loaded func(context.Context) bool,
	certificate Certificate, tokens Tokens, o Options) *Controller {
	out := &Controller{
		client: c, live: live, registry: registry, evaluators: evaluators, loaded: loaded, certificate: certificate, tokens: tokens, options: o,
		wake: notify.NewSignal(),
	}
	registry.Subscribe(func(placement.PolicyChange) { out.wake.Notify() })
	return out
}

// DeviceClassesChanged has the rules of quotas computed again because a DeviceClass changed. It does not block.
func (c *Controller) DeviceClassesChanged() { c.wake.Notify() }

// Subscribe registers f, which is called with the name of a policy in force when State returns something else for it. f must return
// quickly. Subscribe before the start.
func (c *Controller) Subscribe(f func(policy string)) { c.states.changes.Subscribe(f) }

// State returns for which generation of a policy the webhook configuration has the rules that select the matched objects, or why the API
// server rejected them; the zero value if none were written yet.
func (c *Controller) State(policy string) status.WebhookState { return c.states.get(policy) }

var request = reconcile.Request{NamespacedName: types.NamespacedName{Name: WorkloadsName}}

// SetupWithManager adds the controller to a manager, in which it runs on the leader. It writes the configurations when one of them, the
// spec of a policy, quota, or LimitedResource, the set of policies in force, a DeviceClass, the certificate, or the token changes. It does
// not watch ClusterRoles.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	same := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} }
	all := handler.EnqueueRequestsFromMapFunc(same)
	specChanged := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(mgr).
		Named("webhookconfiguration").
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, all).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, all).
		// The deletion of the last policy changes no other object that is watched here. Status updates do not affect
		// the rules; with many policies, each of them would cause a comparison of all rules.
		Watches(&placementv1.PlacementPolicy{}, all, specChanged).
		Watches(&placementv1.ScopedQuota{}, all, specChanged).
		Watches(&placementv1.ClusterScopedQuota{}, all, specChanged).
		Watches(&placementv1.LimitedResource{}, all, specChanged).
		WatchesRawSource(watches.OnSignal(c.wake, same)).
		WatchesRawSource(watches.OnSignal(c.certificate.Changes(), same)).
		WatchesRawSource(watches.OnSignal(c.tokens.Changes(), same)).
		Complete(c)
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=berth-placement,verbs=update;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=berth-policies,verbs=update;delete

// access has the certificates by which the API server trusts the webhooks, and the token by which these recognize the API server.
type access struct {
	// bundle has the CA certificates with which the API server verifies the webhooks, in PEM.
	bundle []byte
	// token is the secret in the paths of the webhooks that only the API server knows. It must not appear in logs, errors or status.
	token string
}

// hide returns a text from the API server, which may quote the content that it refused, with "<token>" in place of the token.
func (a access) hide(text string) string {
	if a.token == "" {
		return text
	}
	return strings.ReplaceAll(text, a.token, "<token>")
}

// redact returns an error whose text does not contain the token: err itself or, if its text does, one that does not wrap it.
func (a access) redact(err error) error {
	if err == nil || a.hide(err.Error()) == err.Error() {
		return err
	}
	return errors.New(a.hide(err.Error()))
}

// Reconcile creates, updates or deletes the webhook configurations as needed. It does nothing before there are a token and a certificate.
// While the owner of a configuration is missing, it tries again after ownerRetry.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	token, ok := c.tokens.Current()
	to := access{bundle: c.certificate.CABundle(), token: token}
	if !ok || to.bundle == nil {
		// Both sources send an event when the token or the certificate becomes available.
		return reconcile.Result{}, nil
	}
	err := c.apply(ctx, to)
	if errors.Is(err, errNoOwner) {
		// No event is sent when the owner is created, so retry after a fixed time.
		ctrllog.FromContext(ctx).Error(to.redact(err), "Trying again", "after", ownerRetry)
		return reconcile.Result{RequeueAfter: ownerRetry}, nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		// Another replica was faster. The cache learns of it in a moment.
		return reconcile.Result{RequeueAfter: overtakenRetry}, nil
	}
	return reconcile.Result{}, to.redact(err)
}

// ownerRetry is the delay before the controller looks for missing owners again, and overtakenRetry that before it writes what another
// replica wrote meanwhile.
const (
	ownerRetry     = 5 * time.Second
	overtakenRetry = 100 * time.Millisecond
)

// apply creates, updates or deletes each webhook configuration as needed. It leaves that for workloads as it is before all policies are
// loaded.
func (c *Controller) apply(ctx context.Context, to access) error {
	// An error with one configuration, or with reading the owners, must not prevent the update of the others.
	owners, err := c.options.Owners.read(ctx, c.live)
	err = errors.Join(err, c.applyPolicies(ctx, owners, to), c.applyQuotas(ctx, owners, to))
	if !c.loaded(ctx) {
		// The registry sends an event for the last policy that is loaded.
		return err
	}
	return errors.Join(err, c.applyWorkloads(ctx, owners, to))
}

// Bundles returns the CA bundles that the API server uses, in PEM, one for each configured webhook.
func Bundles(ctx context.Context, c client.Reader) ([][]byte, error) {
	all, err := clientConfigs(ctx, c)
	var out [][]byte
	for _, w := range all {
		out = append(out, w.CABundle)
	}
	return out, err
}

// UsedTokens returns the tokens in the paths of the configured webhooks, one for each webhook that has a token in its path, even if several
// have the same.
func UsedTokens(ctx context.Context, c client.Reader) ([]string, error) {
	all, err := clientConfigs(ctx, c)
	var out []string
	for _, w := range all {
		if token, ok := webhookauth.TokenIn(w, PathFail, PathIgnore, PathQuotaFail, PathQuotaIgnore, PathPolicies,
			PathQuotaSpecs, PathApprovals); ok {
			out = append(out, token)
		}
	}
	return out, err
}

// clientConfigs returns the client configuration of each configured webhook.
func clientConfigs(ctx context.Context, c client.Reader) ([]admissionregistrationv1.WebhookClientConfig, error) {
	var out []admissionregistrationv1.WebhookClientConfig
	workloads := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.Get(ctx, client.ObjectKey{Name: WorkloadsName}, workloads); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	for _, w := range workloads.Webhooks {
		out = append(out, w.ClientConfig)
	}
	for _, name := range []string{PoliciesName, QuotasName} {
		have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, have); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		for _, w := range have.Webhooks {
			out = append(out, w.ClientConfig)
		}
	}
	return out, nil
}

// clientConfig returns how the API server reaches the webhook at a path, to which clientConfig adds the token.
func (c *Controller) clientConfig(path string, to access) admissionregistrationv1.WebhookClientConfig {
	path = webhookauth.Path(path, to.token)
	out := admissionregistrationv1.WebhookClientConfig{CABundle: to.bundle}
	if c.options.URL != "" {
		out.URL = new(strings.TrimSuffix(c.options.URL, "/") + path)
		return out
	}
	out.Service = &admissionregistrationv1.ServiceReference{
		Namespace: c.options.Namespace, Name: c.options.ServiceName, Path: &path, Port: new(int32(443)),
	}
	return out
}

// applyPolicies writes the configuration of the webhooks that validate PlacementPolicies, quotas, and LimitedResources themselves. If Berth
// is down, the API server admits these: users must be able to correct a policy then, and Berth handles a policy that does not compile.
func (c *Controller) applyPolicies(ctx context.Context, owners []metav1.OwnerReference, to access) error {
	policies := c.validatingOwn("policies", PathPolicies, to, admissionregistrationv1.ClusterScope, "placementpolicies")
	return c.applyValidating(ctx, PoliciesName, owners, []admissionregistrationv1.ValidatingWebhook{policies, c.quotaSpecs(to)})
}

// validatingOwn returns a validating webhook for the creation and update of some of Berth's own resources, which the API server ignores if
// Berth is down.
func (c *Controller) validatingOwn(name, path string, to access, scope admissionregistrationv1.ScopeType,
	resources ...string) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    name + "." + placementv1.GroupVersion.Group,
		ClientConfig:            c.clientConfig(path, to),
		FailurePolicy:           new(admissionregistrationv1.Ignore),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(policyTimeout)),
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{placementv1.GroupVersion.Group},
				APIVersions: []string{placementv1.GroupVersion.Version},
				Resources:   resources,
				Scope:       new(scope),
			},
		}},
	}
}

// applyValidating creates or updates a validating configuration, or deletes it if it has no webhooks.
func (c *Controller) applyValidating(ctx context.Context, name string, owners []metav1.OwnerReference,
	webhooks []admissionregistrationv1.ValidatingWebhook) error {
	have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	want := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks}
	return c.applyConfiguration(ctx, owners, have, want, len(webhooks), func() bool {
		return equality.Semantic.DeepEqual(have.Webhooks, webhooks)
	})
}

// applyConfiguration creates or updates a configuration to be want, or deletes it if want has no webhooks. webhooks is their number. It
// reads the existing configuration into have, after which equal reports whether have and want have equal webhooks. It writes nothing if the
// webhooks and the owner references are equal, whatever the labels are.
func (c *Controller) applyConfiguration(ctx context.Context, owners []metav1.OwnerReference, have, want client.Object, webhooks int,
	equal func() bool) error {
	name := want.GetName()
	log := ctrllog.FromContext(ctx).WithValues("configuration", name)
	err := c.client.Get(ctx, client.ObjectKey{Name: name}, have)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	exists := err == nil
	want.SetLabels(labels())
	want.SetOwnerReferences(c.options.Owners.owned(have.GetOwnerReferences(), owners))
	switch {
	case webhooks == 0 && !exists:
		return nil
	case webhooks == 0:
		log.Info("Deleting webhook configuration: nothing needs it any more")
		return client.IgnoreNotFound(c.client.Delete(ctx, have))
	case !exists:
		if err := c.options.Owners.mayCreate(name, owners); err != nil {
			return err
		}
		log.Info("Creating webhook configuration", "webhooks", webhooks)
		return c.client.Create(ctx, want)
	case equal() && equality.Semantic.DeepEqual(have.GetOwnerReferences(), want.GetOwnerReferences()):
		return nil
	}
	log.Info("Updating webhook configuration", "webhooks", webhooks)
	want.SetResourceVersion(have.GetResourceVersion())
	return c.client.Update(ctx, want)
}

// labels returns the labels of the configurations: app.kubernetes.io/name and app.kubernetes.io/managed-by, both berth.
func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"}
}

// applyWorkloads writes the configuration of the webhooks for the objects that policies match and, after that, what State returns. It
// leaves out rules that the API server rejects, so that an invalid rule of one policy does not affect other policies.
func (c *Controller) applyWorkloads(ctx context.Context, owners []metav1.OwnerReference, to access) error {
	policies := c.registry.InForce()
	groups := match.Webhooks(policyWebhooks(policies), c.options.Namespace)
	rejected := map[string]string{}
	approved := slices.ContainsFunc(policies, (*placement.Policy).NeedsApproval)
	err := writeAccepted(groups, func(accepted []match.SharedWebhook) error {
		return c.write(ctx, owners, accepted, approved, to)
	}, func(g match.SharedWebhook, reason string) {
		for _, policy := range g.Policies {
			rejected[policy] = to.hide(reason)
		}
	})
	if err != nil {
		return err
	}
	next := map[string]status.WebhookState{}
	for _, p := range policies {
		next[p.Name] = status.WebhookState{Generation: p.Generation, Rejected: rejected[p.Name]}
	}
	c.states.set(next)
	return nil
}

// policyWebhooks returns of each policy what match.Webhooks needs: its name, failurePolicy, and matcher, and the fields of the input that
// its decisions depend on.
func policyWebhooks(policies []*placement.Policy) []match.PolicyWebhook {
	out := make([]match.PolicyWebhook, len(policies))
	for i, p := range policies {
		out[i] = match.PolicyWebhook{Policy: p.Name, FailurePolicy: p.FailurePolicy, Matcher: p.Matcher, Decision: p.Evaluator.Input()}
	}
	return out
}

// write writes the configuration of the webhooks for workloads, one for each of the groups. approved reports whether a policy needs
// approvals of plans; then it adds the webhook that records who approves them.
func (c *Controller) write(ctx context.Context, owners []metav1.OwnerReference, groups []match.SharedWebhook,
	approved bool, to access) error {
	have := &admissionregistrationv1.MutatingWebhookConfiguration{}
	want := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: WorkloadsName}}
	for _, g := range groups {
		webhook := g.Webhook
		path := PathFail
		if *webhook.FailurePolicy == admissionregistrationv1.Ignore {
			path = PathIgnore
		}
		webhook.ClientConfig = c.clientConfig(path, to)
		webhook.TimeoutSeconds = new(int32(workloadTimeout))
		want.Webhooks = append(want.Webhooks, webhook)
	}
	if approved {
		want.Webhooks = append(want.Webhooks, c.approvals(to))
	}
	return c.applyConfiguration(ctx, owners, have, want, len(want.Webhooks), func() bool {
		return equality.Semantic.DeepEqual(have.Webhooks, want.Webhooks)
	})
}

// approvals returns the webhook that records which user approves a plan. It gets the creations and updates of PlacementPolicies that have
// the annotation with an approval. The API server ignores the webhook if Berth is down: then a plan can be approved, and the status has the
// user "unknown".
func (c *Controller) approvals(to access) admissionregistrationv1.MutatingWebhook {
	own := c.validatingOwn("approvals", PathApprovals, to, admissionregistrationv1.ClusterScope, "placementpolicies")
	return admissionregistrationv1.MutatingWebhook{
		Name: own.Name, ClientConfig: own.ClientConfig, Rules: own.Rules, FailurePolicy: own.FailurePolicy, MatchPolicy: own.MatchPolicy,
		NamespaceSelector: own.NamespaceSelector, ObjectSelector: own.ObjectSelector, SideEffects: own.SideEffects,
		TimeoutSeconds: new(int32(workloadTimeout)), AdmissionReviewVersions: own.AdmissionReviewVersions,
		ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name:       "approves",
			Expression: fmt.Sprintf("has(object.metadata.annotations) && %q in object.metadata.annotations", placementv1.ApproveAnnotation),
		}},
	}
}

// rejectedWebhook returns the index of the webhook that the API server reports first as invalid, and the reason. The index is -1 if the
// error is another one, or names no webhook.
func rejectedWebhook(err error) (int, string) {
	if !apierrors.IsInvalid(err) {
		return -1, ""
	}
	var invalid apierrors.APIStatus
	if !errors.As(err, &invalid) || invalid.Status().Details == nil || len(invalid.Status().Details.Causes) == 0 {
		return -1, ""
	}
	cause := invalid.Status().Details.Causes[0]
	rest, found := strings.CutPrefix(cause.Field, "webhooks[")
	number, _, closed := strings.Cut(rest, "]")
	i, convErr := strconv.Atoi(number)
	if !found || !closed || convErr != nil {
		return -1, ""
	}
	return i, fmt.Sprintf("%s: %s", cause.Field, cause.Message)
}
