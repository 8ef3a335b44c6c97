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
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/simulation"
)

var (
	scopedQuotas        = placementv1.GroupVersion.WithResource("scopedquotas")
	clusterScopedQuotas = placementv1.GroupVersion.WithResource("clusterscopedquotas")
	deviceClassResource = resourcev1.SchemeGroupVersion.WithResource("deviceclasses")
)

// quotaFindings returns warnings for the quotas that the changes create or alter and, if they alter namespaces and usage is recounted, for
// all ClusterScopedQuotas: one for each resource of which more is used after the changes than the quota allows, and for each of which the
// usage is not known. Above the limit, nothing is removed, but requests that need more are denied.
func (q *question) quotaFindings(ctx context.Context) ([]Finding, error) {
	quotas, err := q.quotas(ctx)
	if err != nil {
		return nil, err
	}
	used, err := q.usage(ctx, quotas, q.changed)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for i, obj := range quotas {
		for _, name := range slices.Sorted(maps.Keys(obj.QuotaSpec().Hard)) {
			limit := obj.QuotaSpec().Hard[name]
			usage, known := used[i][name]
			switch {
			case !known && q.Recount:
				out = append(out, Finding{describeQuota(obj), false,
					fmt.Sprintf("spec.hard[%s]: Berth counts nothing under this name now, so that nothing is limited, or the API server refuses "+
						"the quota: kubectl apply --dry-run=server says why", name)})
			case !known:
				out = append(out, Finding{describeQuota(obj), false, fmt.Sprintf("how much of %s is used is not known here: ask the cluster instead "+
					"of a snapshot", name)})
			case usage.Cmp(limit) > 0:
				out = append(out, Finding{describeQuota(obj), false, fmt.Sprintf("%s of %s are used, which exceeds the limit %s", usage.String(),
					name, limit.String())})
			}
		}
	}
	return out, nil
}

// describeQuota returns the kind, namespace, and name of a quota for messages, such as "ScopedQuota shop/gpus".
func describeQuota(obj placementv1.Quota) string {
	if obj.GetNamespace() == "" {
		return "ClusterScopedQuota " + obj.GetName()
	}
	return "ScopedQuota " + obj.GetNamespace() + "/" + obj.GetName()
}

// quotas returns the quotas that change and still exist and, if namespaces change and usage is recounted (Session.Recount), all
// ClusterScopedQuotas, because these may then select other namespaces.
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
		objects = append(slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o != nil && o.GetNamespace() == "" }),
			all...)
	}
	var out []placementv1.Quota
	for _, obj := range objects {
		if obj == nil {
			continue
		}
		typed, err := typedQuota(obj)
		if err != nil {
			return nil, err
		}
		out = append(out, typed)
	}
	slices.SortFunc(out, func(a, b placementv1.Quota) int { return strings.Compare(describeQuota(a), describeQuota(b)) })
	return out, nil
}

// typedQuota decodes a quota: as a ClusterScopedQuota if the object has no namespace, and otherwise as a ScopedQuota, whatever its kind.
func typedQuota(obj *unstructured.Unstructured) (placementv1.Quota, error) {
	var out placementv1.Quota = &placementv1.ScopedQuota{}
	if obj.GetNamespace() == "" {
		out = &placementv1.ClusterScopedQuota{}
	}
	if err := numeral.FromUnstructuredStrictly(obj.Object, out); err != nil {
		return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), err)
	}
	return out, nil
}

// usage returns, for each quota, the amounts that the objects in a cluster use. If the cluster does not have all of these objects (see
// Session.Recount), the amounts are those in the quota's status.
func (q *question) usage(ctx context.Context, quotas []placementv1.Quota, from simulation.Cluster) ([]corev1.ResourceList, error) {
	out := make([]corev1.ResourceList, len(quotas))
	if !q.Recount {
		for i, obj := range quotas {
			out[i] = obj.QuotaStatus().Used
		}
		return out, nil
	}
	evaluators := quota.NewEvaluators(clock.RealClock{}, quota.Devices{})
	if slices.ContainsFunc(quotas, func(obj placementv1.Quota) bool { return evaluators.MayCountDevices(obj.QuotaSpec()) }) {
		classes, err := DeviceClasses(ctx, from)
		if err != nil {
			return nil, err
		}
		evaluators = quota.NewEvaluators(clock.RealClock{}, quota.Devices{Classes: classes})
	}
	meter := quota.NewMeter(evaluators, clock.RealClock{})
	if err := measure(ctx, from, meter, evaluators, quotas); err != nil {
		return nil, err
	}
	compiler := quota.NewCompiler(q.after.PrepareGenerated)
	for i, obj := range quotas {
		rules, err := compiler.Quota(ctx, obj)
		if err != nil {
			return nil, err
		}
		counted, err := quota.CountedNamespaces(obj, q.options.OwnNamespace, func(selector labels.Selector) ([]string,
			error) {
			return selected(ctx, from, selector)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describeQuota(obj), err)
		}
		recount, err := meter.Recount(ctx, obj, rules, quota.RecountInput{Selects: counted.Has, NotServed: func(t schema.GroupResource) bool {
			served, ok := from.Catalog().Namespaced(t)
			return !ok || !quota.CanRead(served)
		}})
		if err != nil {
			return nil, err
		}
		out[i] = recount.Used
	}
	return out, nil
}

// DeviceClasses returns the DeviceClasses of a cluster; none if it does not serve them.
func DeviceClasses(ctx context.Context, from simulation.Cluster) (*extendedresourcecache.ExtendedResourceCache, error) {
	classes := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	if _, served := from.Catalog().Exact(deviceClassResource); !served {
		return classes, nil
	}
	objects, err := from.List(ctx, deviceClassResource, nil)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		class := &resourcev1.DeviceClass{}
		if err := numeral.FromUnstructured(o.Object, class); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(o), err)
		}
		classes.OnAdd(class, true)
	}
	return classes, nil
}

// measure passes the objects in a cluster of all types that the quotas count, and that the cluster serves, to a meter.
func measure(ctx context.Context, from simulation.Cluster, meter *quota.Meter, evaluators *quota.Evaluators,
	quotas []placementv1.Quota) error {
	measured := sets.New[schema.GroupResource]()
	for _, obj := range quotas {
		types, _ := evaluators.Types(obj.QuotaSpec())
		for t := range types {
			served, ok := from.Catalog().Namespaced(t)
			if !ok || !quota.CanRead(served) || measured.Has(t) {
				continue
			}
			measured.Insert(t)
			objects, err := from.List(ctx, served, nil)
			if err != nil {
				return err
			}
			if err := meter.Replace(t, objects); err != nil {
				return err
			}
		}
	}
	return nil
}

// selected returns the names of the namespaces whose labels a selector matches.
func selected(ctx context.Context, from simulation.Cluster, selector labels.Selector) ([]string, error) {
	list, err := from.List(ctx, namespaces, (&projection.FieldSet{}).Seal())
	var names []string
	for _, namespace := range list {
		if selector.Matches(labels.Set(namespace.GetLabels())) {
			names = append(names, namespace.GetName())
		}
	}
	return names, err
}
