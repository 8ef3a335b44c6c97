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

package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/simulation"
)

var (
	scopedQuotas        = placementv1.GroupVersion.WithResource("scopedquotas")
	clusterScopedQuotas = placementv1.GroupVersion.WithResource("clusterscopedquotas")
)

// quotaFindings returns the resources of which more is used than quotas allow after the changes. Nothing is removed for
// that, but requests that need more are denied.
func (q *question) quotaFindings(ctx context.Context) ([]Finding, error) {
	quotas, err := q.quotas(ctx)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, obj := range quotas {
		used, err := q.usage(ctx, obj)
		if err != nil {
			return nil, err
		}
		object := describeQuota(obj)
		for _, name := range slices.Sorted(maps.Keys(obj.QuotaSpec().Hard)) {
			limit := obj.QuotaSpec().Hard[name]
			usage, known := used[name]
			switch {
			case !known:
				out = append(out, Finding{object, false, fmt.Sprintf("how much of %s is used is not known here: ask the cluster instead of a snapshot", name)})
			case usage.Cmp(limit) > 0:
				out = append(out, Finding{object, false, fmt.Sprintf("%s of %s are used, which exceeds the limit %s", usage.String(), name, limit.String())})
			}
		}
	}
	return out, nil
}

func describeQuota(obj placementv1.Quota) string {
	if obj.GetNamespace() == "" {
		return "ClusterScopedQuota " + obj.GetName()
	}
	return "ScopedQuota " + obj.GetNamespace() + "/" + obj.GetName()
}

// quotas returns the quotas that change, and those that may select other namespaces.
func (q *question) quotas(ctx context.Context) ([]placementv1.Quota, error) {
	var objects []*unstructured.Unstructured
	for _, c := range q.changed.changed[scopedQuotas] {
		objects = append(objects, c.after)
	}
	for _, c := range q.changed.changed[clusterScopedQuotas] {
		objects = append(objects, c.after)
	}
	if q.Recount && q.changesNamespaces() {
		all, err := q.changed.List(ctx, clusterScopedQuotas, nil)
		if err != nil {
			return nil, err
		}
		objects = append(slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o != nil && o.GetNamespace() == "" }), all...)
	}
	var out []placementv1.Quota
	for _, obj := range objects {
		if obj == nil {
			continue
		}
		var typed placementv1.Quota = &placementv1.ScopedQuota{}
		if obj.GetNamespace() == "" {
			typed = &placementv1.ClusterScopedQuota{}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), err)
		}
		out = append(out, typed)
	}
	slices.SortFunc(out, func(a, b placementv1.Quota) int { return strings.Compare(describeQuota(a), describeQuota(b)) })
	return out, nil
}

// usage returns what the objects that a quota counts take after the changes. If these objects are not known, it is what
// the quota's status says.
func (q *question) usage(ctx context.Context, obj placementv1.Quota) (corev1.ResourceList, error) {
	if !q.Recount {
		return obj.QuotaStatus().Used, nil
	}
	evaluators := quota.NewEvaluators(clock.RealClock{})
	meter := quota.NewMeter(evaluators, clock.RealClock{})
	types, _ := evaluators.Types(obj.QuotaSpec())
	notServed := map[schema.GroupResource]bool{}
	for counted := range types {
		served := q.changed.Catalog().ByPlural(counted.Resource)
		i := slices.IndexFunc(served, func(r policy.Resource) bool { return r.Group == counted.Group && r.Namespaced })
		if i < 0 {
			notServed[counted] = true
			continue
		}
		objects, err := q.changed.List(ctx, served[i].GroupVersionResource, nil)
		if err != nil {
			return nil, err
		}
		if err := meter.Replace(counted, objects); err != nil {
			return nil, err
		}
	}
	rules, err := quota.NewCompiler(q.after.PrepareGenerated).Quota(ctx, obj)
	if err != nil {
		return nil, err
	}
	selects, err := q.selects(ctx, obj)
	if err != nil {
		return nil, err
	}
	counted, err := meter.Recount(ctx, obj, rules, quota.RecountInput{Selects: selects, NotServed: func(t schema.GroupResource) bool { return notServed[t] }})
	if err != nil {
		return nil, err
	}
	return counted.Used, nil
}

// selects returns a function that reports whether a quota counts a namespace.
func (q *question) selects(ctx context.Context, obj placementv1.Quota) (func(string) bool, error) {
	cluster, ok := obj.(*placementv1.ClusterScopedQuota)
	if !ok {
		return func(namespace string) bool {
			return namespace == obj.GetNamespace() && namespace != q.options.OwnNamespace
		}, nil
	}
	selector, err := quota.NamespaceSelector(cluster.Spec.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("%s: spec.namespaceSelector: %w", describeQuota(obj), err)
	}
	list, err := q.changed.List(ctx, namespaces, (&projection.FieldSet{}).Seal())
	if err != nil {
		return nil, err
	}
	selected := map[string]bool{}
	for _, namespace := range list {
		selected[namespace.GetName()] = selector.Matches(labels.Set(namespace.GetLabels()))
	}
	delete(selected, match.NamespaceSystem)
	delete(selected, q.options.OwnNamespace)
	return func(namespace string) bool { return selected[namespace] }, nil
}
