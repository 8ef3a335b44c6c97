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

package quotausage

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// quotaFacts is everything that the leader knows about one quota.
type quotaFacts struct {
	Quota placementv1.Quota
	Rules *quota.Rules // The compiled rules of the quota; never nil.
	// Recount is the recomputed usage, which the status gets, also while types are missing; never nil.
	Recount *quota.Recount
	// Untracked are the names in spec.hard for which Berth counts nothing.
	Untracked []string
	// Types has the watch states of the types in Recount.Missing, which the quota counts and which have not been read.
	Types   map[schema.GroupResource]watches.State
	Webhook status.WebhookState // The state of the quota's rules in the webhook configuration.
	// Exempt reports whether the quota is in a namespace in which nothing is counted: Berth's own.
	Exempt bool
	// Reach has what the quota refers to and does not exist; nil if unknown. Then the status has no condition Matched.
	Reach *quotaReach
	// Served describes what the API server serves, for suggestions. It may be nil.
	Served *match.ServedTypes
}

// quotaReach lists what a quota's spec refers to and does not exist, or can't match, and probable mistakes in its amounts. It leaves out
// names in spec.hard under which Berth never counts an object.
type quotaReach struct {
	// Impossible is the reason why the quota's namespace selector or scopes can't match anything, with the path of the
	// field; "" if they can.
	Impossible string
	// NoNamespaces reports whether the selector selects no existing namespace in which objects are counted: all but kube-system and Berth's
	// own.
	NoNamespaces bool
	// UnknownClasses are the priority classes that the quota's scope selector names and that do not exist.
	UnknownClasses []string
	// UnknownStorageClasses are the storage classes that the quota names and that do not exist.
	UnknownStorageClasses []string
	// UnknownDeviceClasses are the device classes that names in spec.hard contain and that do not exist; none until all DeviceClasses are
	// known.
	UnknownDeviceClasses []string
	Unserved             []schema.GroupResource // The types in spec.hard that the API server does not serve as namespaced types.
	Served               bool                   // Whether the API server serves at least one of the counted types as a namespaced type.
	// AbsentResources are the extended resources that the quota names and that no node has; none if the nodes are not known.
	AbsentResources []string
	// Doubts are messages about amounts that are probably mistakes, with the path of the field. The condition Matched is True with them.
	Doubts []string
}

// computeQuota returns the status of a ScopedQuota, or that of a ClusterScopedQuota without its namespaces, for the facts. From the old
// status it keeps the transition times.
func computeQuota(f quotaFacts) placementv1.QuotaStatus {
	old := f.Quota.QuotaStatus()
	hard := f.Quota.QuotaSpec().Hard
	out := placementv1.QuotaStatus{
		Conditions:         slices.Clone(old.Conditions),
		ObservedGeneration: f.Quota.GetGeneration(),
		Hard:               hard,
		Used:               f.Recount.Used,
		Reservations:       f.Recount.Reservations,
		Summary:            quota.Summary(hard, f.Recount.Used),
		Module:             module(f.Rules),
	}
	c := &status.Conditions{List: &out.Conditions, Generation: f.Quota.GetGeneration()}
	c.Set(placementv1.ConditionUsageCurrent, f.usage())
	c.Set(placementv1.ConditionMatched, f.reach())
	c.Set(placementv1.ConditionExceeded, f.exceeded())
	c.Set(placementv1.ConditionReady, f.ready(c))
	c.Set(placementv1.ConditionStalled, stall(c))
	return out
}

// maxRego is the schema's limit on the length of a module's Rego. It is compared with the number of bytes.
const maxRego = 65536

// module returns the generated module for the status of a quota or LimitedResource, never nil. It omits the text if that is longer than
// maxRego. rules must not be nil.
func module(rules *quota.Rules) *placementv1.QuotaModule {
	out := rules.Module
	if len(out.Rego) > maxRego {
		out.Rego = ""
	}
	return &out
}

// stalled are the reasons of Ready that remain until the author changes the object.
var stalled = []string{placementv1.ReasonExempt, placementv1.ReasonNotTracked, placementv1.ReasonNothingMatched,
	placementv1.ReasonWebhookRejected}

// stall returns the condition Stalled by the condition Ready: True if Ready is False until the author changes the object; nil otherwise.
func stall(c *status.Conditions) *metav1.Condition {
	ready := c.Find(placementv1.ConditionReady)
	if !slices.Contains(stalled, ready.Reason) {
		return nil
	}
	return status.True(ready.Reason, ready.Message)
}

// usage returns the condition UsageCurrent: True if all objects that the quota counts are counted. It is False while a type is being read,
// can't be read, or is no longer served; then the usage of the type that was counted before stays.
func (f quotaFacts) usage() *metav1.Condition {
	for _, missing := range f.Recount.Missing {
		if err := f.Types[missing].Err; err != nil {
			return status.False(status.ReasonOf(err), status.Explain(missing, err)+
				"; until these objects can be counted, status.used keeps what was counted for this spec, and a quota in mode Enforce denies "+
				"requests for names without an amount there with status 429")
		}
	}
	if len(f.Recount.Missing) > 0 {
		return status.False(placementv1.ReasonCounting, "reading "+status.FirstNames(typeNames(f.Recount.Missing)))
	}
	if len(f.Recount.Unserved) > 0 {
		return status.False(placementv1.ReasonNotServed,
			fmt.Sprintf("the API server does not serve %s now: the usage that was counted before stays",
				status.FirstNames(f.meant(f.Recount.Unserved))))
	}
	return status.True(placementv1.ReasonCounted, "the usage of all objects is counted")
}

// meant returns the names of types that are not served, for a message, each with a suggestion of what was probably meant, such as
// "deployments (did you mean deployments.apps?)".
func (f quotaFacts) meant(types []schema.GroupResource) []string {
	out := typeNames(types)
	for i, t := range types {
		out[i] += quota.SuggestCounted(t, f.Served)
	}
	return out
}

// reach returns the condition Matched: False, with the first reason, if the quota can't count anything or selects no namespace, or if types
// or classes that it names do not exist. It is True otherwise: absent extended resources and implausible amounts are only in its message.
// It returns nil if that is unknown.
func (f quotaFacts) reach() *metav1.Condition {
	r := f.Reach
	if r == nil {
		return nil
	}
	exists := "everything that the quota names exists"
	if len(r.AbsentResources) > 0 {
		exists = "what the quota names exists, but no node has " + status.FirstNames(r.AbsentResources) + " now"
	}
	switch {
	case r.Impossible != "":
		return status.False(placementv1.ReasonNothingMatched, "the quota can't count anything: "+r.Impossible)
	case len(r.Unserved) > 0 && !r.Served:
		return status.False(placementv1.ReasonNotServed,
			"the quota counts nothing until the API server serves "+status.FirstNames(f.meant(r.Unserved))+" in namespaces")
	case len(r.Unserved) > 0:
		return status.False(placementv1.ReasonPartlyServed,
			"nothing is counted of "+status.FirstNames(f.meant(r.Unserved))+" until the API server serves it in namespaces; the other names in "+
				"spec.hard are counted")
	case r.NoNamespaces:
		return status.False(placementv1.ReasonNoNamespaces, "spec.namespaceSelector selects none of the namespaces that there are, or only "+
			"kube-system or Berth's own, where nothing is counted")
	case len(r.UnknownClasses) > 0:
		return status.False(placementv1.ReasonUnknownClass,
			"no new pod can have these priority classes, which do not exist: "+status.FirstNames(r.UnknownClasses))
	case len(r.UnknownStorageClasses) > 0:
		return status.False(placementv1.ReasonUnknownClass,
			"no volume is provisioned of these storage classes, which do not exist: "+status.FirstNames(r.UnknownStorageClasses))
	case len(r.UnknownDeviceClasses) > 0:
		return status.False(placementv1.ReasonUnknownClass,
			"no device is allocated of these device classes, which do not exist: "+status.FirstNames(r.UnknownDeviceClasses))
	case len(r.Doubts) > 0:
		return status.True(placementv1.ReasonMatched, exists+". Probable mistakes: "+status.FirstNames(r.Doubts))
	default:
		return status.True(placementv1.ReasonMatched, exists)
	}
}

// typeNames returns the names of types, such as "deployments.apps".
func typeNames(types []schema.GroupResource) []string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = t.String()
	}
	return out
}

// exceeded returns the condition Exceeded: True if, in any mode, the usage is above an amount in spec.hard, and False otherwise.
func (f quotaFacts) exceeded() *metav1.Condition {
	names := quota.Exceeded(f.Quota.QuotaSpec().Hard, f.Recount.Used)
	if len(names) == 0 {
		return status.False(placementv1.ReasonWithinHard, "no usage is above spec.hard")
	}
	texts := make([]string, len(names))
	for i, name := range names {
		used, hard := f.Recount.Used[name], f.Quota.QuotaSpec().Hard[name]
		texts[i] = fmt.Sprintf("%s: %s of %s", name, used.String(), hard.String())
	}
	consequence := ", so requests for more are denied"
	if mode := f.Quota.QuotaSpec().Mode; mode == placementv1.ModeWarn || mode == placementv1.ModeDryRun {
		consequence = ""
	}
	return status.True(placementv1.ReasonAboveHard, "usage is above spec.hard"+consequence+": "+status.FirstNames(texts))
}

// ready returns the condition Ready of a quota, given its other conditions, which are set before. It is True, in any mode, once all that
// the quota limits is counted and the API server has its rules.
func (f quotaFacts) ready(c *status.Conditions) *metav1.Condition {
	usage, matched := c.Find(placementv1.ConditionUsageCurrent), c.Find(placementv1.ConditionMatched)
	mode := f.Quota.QuotaSpec().Mode
	switch {
	case !effective(matched):
		return status.False(matched.Reason, matched.Message)
	case f.Exempt:
		return status.False(placementv1.ReasonExempt, "in Berth's own namespace nothing is limited: make the quota in another one")
	case len(f.Untracked) > 0:
		names := make([]string, len(f.Untracked))
		for i, name := range f.Untracked {
			names[i] = name + quota.ExplainUntracked(corev1.ResourceName(name), f.Served)
		}
		return status.False(placementv1.ReasonNotTracked,
			fmt.Sprintf("Berth counts nothing under %s. What is counted are the resources of pods, services, volume claims and resource claims, "+
				"and count/<resource>.<group> of any type but those that a cluster needs to run, such as leases: remove other names from spec.hard",
				status.FirstNames(names)))
	case usage.Status != metav1.ConditionTrue:
		return status.False(usage.Reason, usage.Message)
	case matched != nil && matched.Reason == placementv1.ReasonPartlyServed:
		return status.False(matched.Reason, matched.Message)
	case f.Webhook.Generation != f.Quota.GetGeneration():
		return status.False(placementv1.ReasonWebhookPending, "the webhook configuration does not have the rules for the quota's newest "+
			"spec yet; until it has, the API server may admit requests without the quota")
	case f.Webhook.Rejected != "":
		return status.False(placementv1.ReasonWebhookRejected,
			"the API server refused the webhook for the quota, without which the quota denies nothing: "+f.Webhook.Rejected)
	case mode == placementv1.ModeWarn:
		return status.True(placementv1.ReasonWarnMode, "the quota counts and warns, and denies nothing")
	case mode == placementv1.ModeDryRun:
		return status.True(placementv1.ReasonDryRunMode, "the quota counts, and denies nothing")
	default:
		return status.True(placementv1.ReasonInForce, "what exceeds the quota is denied")
	}
}

// effective reports whether a quota or LimitedResource can have an effect according to its condition Matched, which is nil if unknown. It
// can't only for the reasons NotServed and NothingMatched.
func effective(matched *metav1.Condition) bool {
	return matched == nil || matched.Reason != placementv1.ReasonNotServed && matched.Reason != placementv1.ReasonNothingMatched
}

// computeNamespaces returns what existing objects use of a ClusterScopedQuota in each namespace, sorted by the names of the namespaces, for
// the first MaxNamespaces of them.
func computeNamespaces(r *quota.Recount) []placementv1.NamespaceUsage {
	var out []placementv1.NamespaceUsage
	for _, namespace := range slices.Sorted(maps.Keys(r.Namespaces)) {
		if len(out) == placementv1.MaxNamespaces {
			break
		}
		out = append(out, placementv1.NamespaceUsage{Namespace: namespace, Used: r.Namespaces[namespace]})
	}
	return out
}

// limitedType describes the resource type that a LimitedResource names: whether it can be limited, whether it is served, and which extended
// resources in spec.matchContains no node has.
type limitedType struct {
	// Never reports whether Berth never limits the type, because a cluster needs it to run. Served reports whether the API server serves it
	// as a namespaced type.
	Never, Served bool
	// Impossible says why no entry of spec.matchContains can be part of a resource name of the type, so that nothing is limited, with the path
	// of the field; "" if some request can be limited.
	Impossible string
	// AbsentResources are those entries of spec.matchContains that look like the name of an extended resource, or a part of one, and that no
	// extended resource of a node contains; none if the nodes are not known.
	AbsentResources []string
}

// matched returns the condition Matched of a LimitedResource, never nil: False if the API server does not serve its type, or its
// spec.matchContains and spec.matchScopes can match no request. It is True otherwise, even if no node has an extended resource that it
// names, or Berth never limits the type. name is the type's name in messages.
func (t limitedType) matched(name string) *metav1.Condition {
	switch {
	case !t.Served:
		return status.False(placementv1.ReasonNotServed, "nothing is limited until the API server serves "+name+" in namespaces")
	case t.Impossible != "":
		return status.False(placementv1.ReasonNothingMatched, "the LimitedResource can limit no request: "+t.Impossible)
	case len(t.AbsentResources) > 0:
		return status.True(placementv1.ReasonMatched, "the LimitedResource can limit requests for "+name+
			", but no node has a resource whose name contains "+
			status.FirstNames(t.AbsentResources)+" now")
	default:
		return status.True(placementv1.ReasonMatched, "the LimitedResource can limit requests for "+name)
	}
}

// computeLimit returns the status of a LimitedResource. hook is the state of its rules in the webhook configuration. t describes its type.
func computeLimit(l *placementv1.LimitedResource, rules *quota.Rules, hook status.WebhookState,
	t limitedType) placementv1.LimitedResourceStatus {
	out := placementv1.LimitedResourceStatus{Conditions: slices.Clone(l.Status.Conditions),
		ObservedGeneration: l.Generation, Module: module(rules)}
	c := &status.Conditions{List: &out.Conditions, Generation: l.Generation}
	name := schema.GroupResource{Group: l.Spec.APIGroup, Resource: l.Spec.Resource}.String()
	c.Set(placementv1.ConditionMatched, t.matched(name))
	c.Set(placementv1.ConditionReady, t.ready(name, hook, l.Generation))
	c.Set(placementv1.ConditionStalled, stall(c))
	return out
}

// ready returns the condition Ready of a LimitedResource with a generation: True once its rules are in the webhook configuration, and False
// before, or if it can limit nothing. name is the type's name in messages.
func (t limitedType) ready(name string, hook status.WebhookState, generation int64) *metav1.Condition {
	switch {
	case t.Never:
		return status.False(placementv1.ReasonExempt, name+" are never limited, because a cluster needs them to run: name another resource")
	case !t.Served:
		return status.False(placementv1.ReasonNotServed,
			"the API server serves no "+name+" in namespaces: nothing is limited until the API server does; check spec.apiGroup and spec.resource, "+
				"which is a plural name")
	case t.Impossible != "":
		return status.False(placementv1.ReasonNothingMatched, "the LimitedResource can't limit anything: "+t.Impossible)
	case hook.Generation != generation:
		return status.False(placementv1.ReasonWebhookPending, "the webhook configuration does not have the rules for the newest spec of the "+
			"LimitedResource yet; until it has, the API server may admit requests without it")
	case hook.Rejected != "":
		return status.False(placementv1.ReasonWebhookRejected,
			"the API server refused the webhook for the LimitedResource, without which it denies nothing: "+hook.Rejected)
	default:
		return status.True(placementv1.ReasonInForce, "requests that the LimitedResource matches are denied where no quota covers them")
	}
}
