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

package quotaspec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=list

// WarningsOfExisting returns warnings about existing objects that conflict with an enforced quota: ResourceQuotas and quotas that limit the
// same, pods that could not be created again because they do not state what the quota limits, and more usage than the quota admits. It
// returns none for objects that Berth may not list, and none if object is no quota.
//
// It lists objects of the API server, so call it only for a new quota. The API server repeats an update, with its webhooks, until no charge
// has written the quota's status meanwhile: under load, a slow webhook would make it fail.
func (h *Handler) WarningsOfExisting(ctx context.Context, object client.Object) []string {
	q, ok := object.(placementv1.Quota)
	if !ok || h.Live == nil {
		return nil
	}
	mode := q.QuotaSpec().Mode
	if mode != "" && mode != placementv1.ModeEnforce {
		return nil
	}
	counted, err := quota.CountedNamespaces(q, h.OwnNamespace, func(selector labels.Selector) (names []string, err error) {
		if h.Namespaces == nil {
			return nil, nil
		}
		all, err := h.Namespaces.All(ctx)
		if err != nil {
			return nil, err
		}
		for name, of := range all {
			if selector.Matches(labels.Set(of)) {
				names = append(names, name)
			}
		}
		return names, nil
	})
	if err != nil {
		return nil
	}
	options := []client.ListOption{client.InNamespace(q.GetNamespace()), client.Limit(maxListed)}
	return slices.Concat(h.warnOfResourceQuotas(ctx, q.QuotaSpec(), counted, options), h.warnOfPods(ctx, q.QuotaSpec(), counted, options),
		h.warnOfUsage(q, h.usageBySiblings(ctx, q)), h.warnOfUnreached(ctx, q))
}

// warnOfUnreached warns of amounts in spec.hard that the usage can't reach, because other quotas for the same objects admit less.
func (h *Handler) warnOfUnreached(ctx context.Context, q placementv1.Quota) []string {
	if h.Namespaces == nil {
		return nil
	}
	all, err := h.Namespaces.All(ctx)
	if err != nil {
		return nil
	}
	quotas, err := h.holding(ctx, q)
	if err != nil {
		return nil
	}
	for name, of := range all {
		if name == q.GetNamespace() {
			return quota.Unreached(q, quotas.in(name, of), of)
		}
	}
	return quota.Unreached(q, slices.Concat(quotas.scoped[q.GetNamespace()], quotas.cluster), nil)
}

// warnOfUsage warns of amounts in spec.hard of an enforced quota that are less than what is used now, unless they are implausible by
// themselves. An amount of 0 is meant to admit nothing.
func (h *Handler) warnOfUsage(q placementv1.Quota, used corev1.ResourceList) []string {
	if mode := q.QuotaSpec().Mode; mode != "" && mode != placementv1.ModeEnforce {
		return nil
	}
	hard, implausible := q.QuotaSpec().Hard, h.Evaluators.ImplausibleAmounts(q.QuotaSpec())
	var out []string
	for _, name := range quota.Exceeded(hard, used) {
		isTold := slices.ContainsFunc(implausible, func(text string) bool { return strings.HasPrefix(text, fmt.Sprintf("spec.hard[%s]:", name)) })
		if limit, now := hard[name], used[name]; !limit.IsZero() && !isTold {
			out = append(out, fmt.Sprintf("spec.hard[%s]: %s is less than what is used now, which is %s: nothing more is admitted until "+
				"less is used", name,
				limit.String(), now.String()))
		}
	}
	return out
}

// usageBySiblings returns what is used now by what a new quota counts, as far as the status of other quotas says: those in the same
// namespace, or with the same selector, that count the same objects. It returns nil if the quota's own status has the usage, with which
// Warnings compares.
func (h *Handler) usageBySiblings(ctx context.Context, q placementv1.Quota) corev1.ResourceList {
	if len(q.QuotaStatus().Used) > 0 {
		// Warnings compares with it.
		return nil
	}
	var others []placementv1.Quota
	scoped, cluster := &placementv1.ScopedQuotaList{}, &placementv1.ClusterScopedQuotaList{}
	selector := func(placementv1.Quota) *placementv1.NamespaceSelector { return nil }
	if _, namespaced := q.(*placementv1.ScopedQuota); namespaced {
		if err := h.list(ctx, scoped, client.InNamespace(q.GetNamespace())); err != nil {
			return nil
		}
		for i := range scoped.Items {
			others = append(others, &scoped.Items[i])
		}
	} else {
		if err := h.list(ctx, cluster); err != nil {
			return nil
		}
		for i := range cluster.Items {
			others = append(others, &cluster.Items[i])
		}
		selector = func(q placementv1.Quota) *placementv1.NamespaceSelector {
			return q.(*placementv1.ClusterScopedQuota).Spec.NamespaceSelector
		}
	}
	spec, used := q.QuotaSpec(), corev1.ResourceList{}
	for _, other := range others {
		if s := other.QuotaSpec(); equality.Semantic.DeepEqual(s.Scopes, spec.Scopes) &&
			equality.Semantic.DeepEqual(s.ScopeSelector, spec.ScopeSelector) &&
			equality.Semantic.DeepEqual(selector(other), selector(q)) {
			maps.Copy(used, other.QuotaStatus().Used)
		}
	}
	return used
}

// warnOfResourceQuotas warns of ResourceQuotas that limit a name which spec.hard has, too, if neither has scopes. counted are the
// namespaces that the quota counts.
func (h *Handler) warnOfResourceQuotas(ctx context.Context, spec *placementv1.QuotaSpec, counted sets.Set[string],
	options []client.ListOption) []string {
	list := &corev1.ResourceQuotaList{}
	if len(spec.Scopes) > 0 || spec.ScopeSelector != nil || h.Live.List(ctx, list, options...) != nil {
		return nil
	}
	var out []string
	for _, r := range list.Items {
		if !counted.Has(r.Namespace) || len(r.Spec.Scopes) > 0 || r.Spec.ScopeSelector != nil {
			// What counts only some pods divides the amounts of the other one.
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Spec.Hard)) {
			if _, both := spec.Hard[name]; both && len(out) < maxGaps {
				out = append(out, fmt.Sprintf("spec.hard[%s]: ResourceQuota %s in namespace %s limits this, too. What that ResourceQuota "+
					"refuses stays charged to this quota until the reservation expires. Limit the name in only one of them", name, r.Name, r.Namespace))
			}
		}
	}
	return out
}

// warnOfPods warns of existing pods without the requests or limits that pods must state where the quota counts them, in namespaces without
// a LimitRange. counted are the namespaces that the quota counts; warnOfPods changes it.
func (h *Handler) warnOfPods(ctx context.Context, spec *placementv1.QuotaSpec, counted sets.Set[string],
	options []client.ListOption) []string {
	defaults, list := &corev1.LimitRangeList{}, &corev1.PodList{}
	if h.Evaluators.Unstated(spec, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}) == nil ||
		h.Live.List(ctx, defaults, options...) != nil || defaults.Continue != "" || h.Live.List(ctx, list, options...) != nil {
		return nil
	}
	for _, r := range defaults.Items {
		counted.Delete(r.Namespace)
	}
	var example string
	more := -1
	for i := range list.Items {
		pod := &list.Items[i]
		_, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]
		finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !counted.Has(pod.Namespace) || mirrors || finished || pod.DeletionTimestamp != nil {
			continue
		}
		if err := h.Evaluators.Unstated(spec, pod); err != nil {
			if more++; more == 0 {
				example = fmt.Sprintf("pod %s in namespace %s could not be created again: %v", pod.Name, pod.Namespace, err)
			}
		}
	}
	if example == "" {
		return nil
	}
	if more > 0 {
		example += fmt.Sprintf(". The same is true of at least %d more pods", more)
	}
	return []string{fmt.Sprintf("spec.hard: %s. State the amounts in the workloads, or give the namespace a LimitRange with defaults",
		example)}
}

// warnOfDefaultClass returns a warning, one for all requirements, if any has the operator DoesNotExist for PriorityClass and there is a
// default class: each new pod gets it, so that such requirements match none. field is the path of the requirements. It returns none if the
// classes can't be read.
func (h *Handler) warnOfDefaultClass(ctx context.Context, requirements []placementv1.ScopeRequirement, field string) []string {
	classless := func(r placementv1.ScopeRequirement) bool {
		return r.ScopeName == corev1.ResourceQuotaScopePriorityClass && r.Operator == corev1.ScopeSelectorOpDoesNotExist
	}
	list := &schedulingv1.PriorityClassList{}
	if h.Live == nil || !slices.ContainsFunc(requirements, classless) || h.Live.List(ctx, list) != nil {
		return nil
	}
	for _, class := range list.Items {
		if class.GlobalDefault {
			return []string{fmt.Sprintf("%s: a new pod without a PriorityClass gets the class %s, which is the default, so that DoesNotExist "+
				"matches no new pod. Set operator: In, values: [%s]", field, class.Name, class.Name)}
		}
	}
	return nil
}
