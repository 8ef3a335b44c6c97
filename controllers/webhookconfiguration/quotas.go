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

package webhookconfiguration

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/status"
)

// QuotasName is the name of the ValidatingWebhookConfiguration for objects that quotas count and LimitedResources limit.
const QuotasName = "berth-quota"

// Paths at which the quota webhook is served. They say what the API server does when it gets no response, so that the
// webhook treats a request that it can't decide the same way.
const (
	PathQuotaFail   = "/quota/fail"
	PathQuotaIgnore = "/quota/ignore"
)

// quotaTimeout is the timeout of the quota webhook, in seconds. A request for a contended quota may take several
// seconds.
const quotaTimeout = 10

// QuotaTimeout is the time in which the API server waits for the response of a webhook for quotas.
const QuotaTimeout = quotaTimeout * time.Second

// SubscribeQuotas registers f, which is called when QuotaState returns something else for an existing quota or LimitedResource. f must
// return quickly. Subscribe before the start.
func (c *Controller) SubscribeQuotas(f func(quota.Key)) { c.quotaStates.changes.Subscribe(f) }

// QuotaState returns for which generation of a quota or LimitedResource the webhook configuration has the rules that select the counted or
// limited objects, or why the API server rejected them; the zero value if none were written yet.
func (c *Controller) QuotaState(key quota.Key) status.WebhookState { return c.quotaStates.get(key) }

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=berth-quota,verbs=update;delete

// applyQuotas writes the configuration of the quota webhooks and, after that, what QuotaState returns. It leaves out rules that the API
// server rejects, so that an invalid rule of one object does not affect other objects. It does nothing before the DeviceClasses are known.
func (c *Controller) applyQuotas(ctx context.Context, owners []metav1.OwnerReference, to access) error {
	var scoped placementv1.ScopedQuotaList
	var cluster placementv1.ClusterScopedQuotaList
	var limits placementv1.LimitedResourceList
	for _, list := range []client.ObjectList{&scoped, &cluster, &limits} {
		if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	if !c.evaluators.Settled() {
		// The first rules could lack types that the rules of the previous leader have. An event is sent when they are
		// known.
		return nil
	}
	next := map[quota.Key]status.WebhookState{}
	of := func(o client.Object) {
		if key, ok := quota.KeyOf(o); ok {
			next[key] = status.WebhookState{Generation: o.GetGeneration()}
		}
	}
	for i := range scoped.Items {
		of(&scoped.Items[i])
	}
	for i := range cluster.Items {
		of(&cluster.Items[i])
	}
	for i := range limits.Items {
		of(&limits.Items[i])
	}
	webhooks := c.evaluators.Webhooks(scoped.Items, cluster.Items, limits.Items, c.options.Namespace)
	err := writeAccepted(webhooks, func(accepted []quota.Webhook) error {
		return c.writeQuotas(ctx, owners, accepted, to)
	}, func(w quota.Webhook, reason string) {
		for _, key := range w.Objects {
			next[key] = status.WebhookState{Generation: next[key].Generation, Rejected: to.hide(reason)}
		}
	})
	if err != nil {
		return err
	}
	c.quotaStates.set(next)
	return nil
}

// writeQuotas writes the configuration QuotasName so that it has the given webhooks, or deletes it if there are none.
func (c *Controller) writeQuotas(ctx context.Context, owners []metav1.OwnerReference, webhooks []quota.Webhook, to access) error {
	var want []admissionregistrationv1.ValidatingWebhook
	for _, w := range webhooks {
		webhook := w.Webhook
		path := PathQuotaFail
		if *webhook.FailurePolicy == admissionregistrationv1.Ignore {
			path = PathQuotaIgnore
		}
		webhook.ClientConfig = c.clientConfig(path, to)
		webhook.TimeoutSeconds = new(int32(quotaTimeout))
		want = append(want, webhook)
	}
	return c.applyValidating(ctx, QuotasName, owners, want)
}

// quotaSpecs returns the webhook that checks quotas and LimitedResources themselves when they are created or updated.
func (c *Controller) quotaSpecs(to access) admissionregistrationv1.ValidatingWebhook {
	return c.validatingOwn("quotaspecs", PathQuotaSpecs, to, admissionregistrationv1.AllScopes, "scopedquotas",
		"clusterscopedquotas", "limitedresources")
}
