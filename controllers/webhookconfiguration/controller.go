// Package webhookconfiguration owns the webhook configurations at run time: the one for workloads, whose rules come
// from the policies that exist and which does not exist without a policy, the one for what quotas count, likewise, and
// the one for the policies themselves.
package webhookconfiguration

import (
	"context"
	"errors"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/webhookauth"
)

// Names of the configurations.
const (
	WorkloadsName = "berth-placement"
	PoliciesName  = "berth-policies"
)

// Paths at which the webhooks are served, followed by a token; see internal/webhookauth. The workload paths say what the API server does when it gets no answer, so
// that an answer that can't be found is treated alike.
const (
	PathFail       = "/placement/fail"
	PathIgnore     = "/placement/ignore"
	PathPolicies   = "/policies"
	PathQuotaSpecs = "/quotaspecs"
)

// Seconds that the API server waits for an answer.
const (
	workloadTimeout = 5
	policyTimeout   = 10
)

// Options say how the API server reaches the webhooks.
type Options struct {
	// URL is the base URL; empty to go through the Service.
	URL string
	// ServiceName is the Service in Namespace, on port 443.
	ServiceName string
	// Namespace is Berth's own; it is never hooked. Empty, which takes a URL, for none.
	Namespace string
	// Owners are what the configurations go with.
	Owners Owners
}

// Tokens has the token that belongs into the paths of the webhooks.
type Tokens interface {
	// Current returns the token; ok is false until there is one.
	Current() (token string, ok bool)
	Changes() <-chan event.GenericEvent
}

// Certificate is what the API server is to trust: the authority that signed the webhook's certificate and, for a while,
// those that were before it.
type Certificate interface {
	CABundle() []byte
	Changes() <-chan event.GenericEvent
}

// Controller writes the configurations. Create it with New.
type Controller struct {
	client client.Client
	// live reads the owners alone: they are read rarely, and to cache them is to hold every ClusterRole.
	live        client.Reader
	registry    *placement.Registry
	evaluators  *quota.Evaluators
	loaded      func(context.Context) bool
	certificate Certificate
	tokens      Tokens
	options     Options
	wake        chan event.GenericEvent

	states      states[string]
	quotaStates states[quota.Key]
}

// New returns a controller. Until loaded says that all policies are known, the configuration for workloads is left as
// it stands: it may hold rules of policies that this replica has not read yet.
func New(c client.Client, live client.Reader, registry *placement.Registry, evaluators *quota.Evaluators, loaded func(context.Context) bool, certificate Certificate, tokens Tokens, o Options) *Controller {
	out := &Controller{
		client: c, live: live, registry: registry, evaluators: evaluators, loaded: loaded, certificate: certificate, tokens: tokens, options: o,
		wake: make(chan event.GenericEvent, 1),
	}
	registry.Subscribe(func(string, *placement.Policy, *placement.Policy) { out.ReadsMore() })
	return out
}

// ReadsMore enqueues a comparison of the rules because a policy turned out to read more than was found: it may read what
// subresources change. It does not block.
func (c *Controller) ReadsMore() {
	select {
	case c.wake <- event.GenericEvent{Object: &placementv1.PlacementPolicy{}}:
	default:
	}
}

// Subscribe has f called when the state of a policy's rules changed. f must be quick. Subscribe before the start.
func (c *Controller) Subscribe(f func(policy string)) { c.states.subscribe(f) }

// State returns how a policy's rules fare.
func (c *Controller) State(policy string) status.HookState { return c.states.get(policy) }

var request = reconcile.Request{NamespacedName: types.NamespacedName{Name: WorkloadsName}}

// SetupWithManager adds the controller to a manager; the leader runs it.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{request}
	})
	specChanged := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(mgr).
		Named("webhookconfiguration").
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, all).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, all).
		// A deleted last policy changes nothing else that is watched here. What is written into status does not concern
		// the rules: with many policies, it would have all of them compared over and over.
		Watches(&placementv1.PlacementPolicy{}, all, specChanged).
		Watches(&placementv1.ScopedQuota{}, all, specChanged).
		Watches(&placementv1.ClusterScopedQuota{}, all, specChanged).
		Watches(&placementv1.LimitedResource{}, all, specChanged).
		WatchesRawSource(source.Channel(c.wake, all)).
		WatchesRawSource(source.Channel(c.certificate.Changes(), all)).
		WatchesRawSource(source.Channel(c.tokens.Changes(), all)).
		Complete(c)
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=berth-placement,verbs=update;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=berth-policies,verbs=update;delete

// access is what API servers need for calling the webhooks.
type access struct {
	// bundle are the authorities to trust, in PEM.
	bundle []byte
	// token is secret.
	token string
}

// hide replaces the token in a text of the API server's, which may quote what it refused.
func (a access) hide(text string) string {
	if a.token == "" {
		return text
	}
	return strings.ReplaceAll(text, a.token, "<token>")
}

// redact returns an error without the token.
func (a access) redact(err error) error {
	if err == nil || a.hide(err.Error()) == err.Error() {
		return err
	}
	return errors.New(a.hide(err.Error()))
}

// Reconcile makes the configurations what they should be.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	token, ok := c.tokens.Current()
	to := access{bundle: c.certificate.CABundle(), token: token}
	if !ok || to.bundle == nil {
		// The arrival of the token and of the certificate wakes us.
		return reconcile.Result{}, nil
	}
	err := c.apply(ctx, to)
	if errors.Is(err, errNoOwner) {
		// No event tells that the owner exists.
		ctrllog.FromContext(ctx).Error(to.redact(err), "Trying again", "after", ownerRetry)
		return reconcile.Result{RequeueAfter: ownerRetry}, nil
	}
	return reconcile.Result{}, to.redact(err)
}

// ownerRetry is how long until the owners are looked for again that a configuration can't be created without.
const ownerRetry = 5 * time.Second

// apply makes the configurations what they should be.
func (c *Controller) apply(ctx context.Context, to access) error {
	// What is wrong with one is not to keep the others from being right; nor is an owner that can't be read.
	owners, err := c.options.Owners.read(ctx, c.live)
	err = errors.Join(err, c.applyPolicies(ctx, owners, to), c.applyQuotas(ctx, owners, to))
	if !c.loaded(ctx) {
		// The registry's last change wakes us.
		return err
	}
	return errors.Join(err, c.applyWorkloads(ctx, owners, to))
}

// Bundles returns the authorities that the API server trusts, in PEM, one text for each webhook that is configured.
func Bundles(ctx context.Context, c client.Reader) ([][]byte, error) {
	all, err := clientConfigs(ctx, c)
	var out [][]byte
	for _, w := range all {
		out = append(out, w.CABundle)
	}
	return out, err
}

// UsedTokens returns the tokens in the paths by which the API server calls the webhooks, one for each webhook that is
// configured; an empty one for a path without a token.
func UsedTokens(ctx context.Context, c client.Reader) ([]string, error) {
	all, err := clientConfigs(ctx, c)
	var out []string
	for _, w := range all {
		if token, ok := webhookauth.TokenIn(w, PathFail, PathIgnore, PathQuotaFail, PathQuotaIgnore, PathPolicies, PathQuotaSpecs); ok {
			out = append(out, token)
		}
	}
	return out, err
}

// clientConfigs returns how the API server calls each webhook that is configured.
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

// applyPolicies writes the configuration that has PlacementPolicies and quotas judged before they are stored. It fails open
// on purpose: a policy must be correctable while Berth is down, and one that does not compile is dealt with when read.
func (c *Controller) applyPolicies(ctx context.Context, owners []metav1.OwnerReference, to access) error {
	policies := c.validatingOwn("policies", PathPolicies, to, admissionregistrationv1.ClusterScope, "placementpolicies")
	return c.applyValidating(ctx, PoliciesName, owners, []admissionregistrationv1.ValidatingWebhook{policies, c.quotaSpecs(to)})
}

// validatingOwn is a webhook for Berth's own resources in one scope.
func (c *Controller) validatingOwn(name, path string, to access, scope admissionregistrationv1.ScopeType, resources ...string) admissionregistrationv1.ValidatingWebhook {
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

// applyValidating makes a configuration what it should be; one without webhooks is not to be there.
func (c *Controller) applyValidating(ctx context.Context, name string, owners []metav1.OwnerReference, webhooks []admissionregistrationv1.ValidatingWebhook) error {
	log := ctrllog.FromContext(ctx).WithValues("configuration", name)
	have := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := c.client.Get(ctx, client.ObjectKey{Name: name}, have)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	exists := err == nil
	want := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(), OwnerReferences: c.options.Owners.owned(have.OwnerReferences, owners)}, Webhooks: webhooks,
	}
	switch {
	case len(webhooks) == 0 && !exists:
		return nil
	case len(webhooks) == 0:
		log.Info("Deleting webhook configuration: nothing needs it any more")
		return client.IgnoreNotFound(c.client.Delete(ctx, have))
	case !exists:
		if err := c.options.Owners.mayCreate(name, owners); err != nil {
			return err
		}
		log.Info("Creating webhook configuration", "webhooks", len(webhooks))
		return c.client.Create(ctx, want)
	case equality.Semantic.DeepEqual(have.Webhooks, webhooks) && equality.Semantic.DeepEqual(have.OwnerReferences, want.OwnerReferences):
		return nil
	}
	log.Info("Updating webhook configuration", "webhooks", len(webhooks))
	want.ResourceVersion = have.ResourceVersion
	return c.client.Update(ctx, want)
}

func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"}
}

// applyWorkloads writes the configuration that has workloads decided. Rules that the API server refuses are left out,
// so that one policy's mistake is not another's.
func (c *Controller) applyWorkloads(ctx context.Context, owners []metav1.OwnerReference, to access) error {
	policies := c.registry.InForce()
	groups := match.Webhooks(hooks(policies), c.options.Namespace)
	rejected := map[string]string{}
	err := writeAccepted(groups, func(accepted []match.Group) error {
		return c.write(ctx, owners, accepted, to)
	}, func(g match.Group, reason string) {
		for _, policy := range g.Policies {
			rejected[policy] = to.hide(reason)
		}
	})
	if err != nil {
		return err
	}
	next := map[string]status.HookState{}
	for _, p := range policies {
		next[p.Name] = status.HookState{Generation: p.Generation, Rejected: rejected[p.Name]}
	}
	c.states.set(next)
	return nil
}

func hooks(policies []*placement.Policy) []match.Hook {
	out := make([]match.Hook, len(policies))
	for i, p := range policies {
		out[i] = match.Hook{Policy: p.Name, FailurePolicy: p.FailurePolicy, Matcher: p.Matcher, Decision: p.Evaluator.Input()}
	}
	return out
}

func (c *Controller) write(ctx context.Context, owners []metav1.OwnerReference, groups []match.Group, to access) error {
	have := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := c.client.Get(ctx, client.ObjectKey{Name: WorkloadsName}, have)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	exists := err == nil
	if len(groups) == 0 {
		if !exists {
			return nil
		}
		ctrllog.FromContext(ctx).Info("Deleting webhook configuration for workloads: no policy is left")
		return client.IgnoreNotFound(c.client.Delete(ctx, have))
	}
	want := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: WorkloadsName, Labels: labels(), OwnerReferences: c.options.Owners.owned(have.OwnerReferences, owners)},
	}
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
	if !exists {
		if err := c.options.Owners.mayCreate(WorkloadsName, owners); err != nil {
			return err
		}
		ctrllog.FromContext(ctx).Info("Creating webhook configuration for workloads", "webhooks", len(want.Webhooks))
		return c.client.Create(ctx, want)
	}
	if equality.Semantic.DeepEqual(have.Webhooks, want.Webhooks) && equality.Semantic.DeepEqual(have.OwnerReferences, want.OwnerReferences) {
		return nil
	}
	ctrllog.FromContext(ctx).Info("Updating webhook configuration for workloads", "webhooks", len(want.Webhooks))
	want.ResourceVersion = have.ResourceVersion
	return c.client.Update(ctx, want)
}

// rejectedWebhook finds out which webhook the API server calls invalid; -1 if the error says no such thing.
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
