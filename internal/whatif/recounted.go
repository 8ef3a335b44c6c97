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
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/simulation"
)

// recounted has the quotas whose status differs after the changes, before and after.
type recounted = map[schema.GroupVersionResource]map[types.NamespacedName]change

// countAgain gives the quotas that policies read the status that Berth would write after the changes. It sets recounted, after, and
// requests. It does nothing if no policy reads quotas.
func (q *question) countAgain(ctx context.Context) error {
	if !slices.ContainsFunc(slices.Concat(q.before.Policies(), q.after.Policies()), readsQuotas) {
		return nil
	}
	quotas, err := q.quotasToCount(ctx)
	if err != nil || len(quotas) == 0 {
		return err
	}
	if q.recounted, err = q.count(ctx, quotas, q.changed); err != nil {
		return err
	}
	if q.after, err = q.withQuotas(ctx, q.recounted); err != nil {
		return err
	}
	// Berth decides a request before it counts what the request creates.
	earlier := &overlay{q.cluster, recounted{}}
	for resource, objects := range q.changed.changed {
		objects = maps.Clone(objects)
		maps.DeleteFunc(objects, func(_ types.NamespacedName, c change) bool { return c.after != nil && !basisOfCounts(resource) })
		earlier.changed[resource] = objects
	}
	before, err := q.count(ctx, quotas, earlier)
	if err != nil {
		return err
	}
	if q.requests = q.after; !reflect.DeepEqual(before, q.recounted) {
		q.requests, err = q.withQuotas(ctx, before)
	}
	return err
}

// readsQuotas reports whether a policy reads ScopedQuotas or ClusterScopedQuotas, so that it may decide otherwise when their usage changes.
func readsQuotas(p *simulation.Policy) bool {
	return p.Fields(scopedQuotas) != nil || p.Fields(clusterScopedQuotas) != nil
}

// basisOfCounts reports whether a type is one of ScopedQuotas, ClusterScopedQuotas, Namespaces, and DeviceClasses. Their objects determine
// what quotas count, and are not counted themselves.
func basisOfCounts(resource schema.GroupVersionResource) bool {
	return slices.Contains([]schema.GroupVersionResource{scopedQuotas, clusterScopedQuotas, namespaces, deviceClassResource}, resource)
}

// withQuotas returns a simulation of the cluster after the changes, in which the given quotas have their new status.
func (q *question) withQuotas(ctx context.Context, quotas recounted) (*simulation.Simulation, error) {
	return simulation.New(ctx, &overlay{q.changed, quotas}, q.options)
}

// quotasToCount returns the quotas whose status the changes may alter: those that change and, only if usage is recounted
// (Session.Recount), those that count objects of types that change, or all of them if Namespaces or DeviceClasses change.
func (q *question) quotasToCount(ctx context.Context) ([]placementv1.Quota, error) {
	evaluators := quota.NewEvaluators(clock.RealClock{}, quota.Devices{})
	var out []placementv1.Quota
	for _, resource := range []schema.GroupVersionResource{scopedQuotas, clusterScopedQuotas} {
		objects, err := q.changed.List(ctx, resource, nil)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			typed, err := typedQuota(obj)
			if err != nil {
				return nil, err
			}
			_, changes := q.changed.change(objectKey{resource, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}})
			counted, _ := evaluators.Types(typed.QuotaSpec())
			if changes || q.Recount && q.changesCountOf(sets.KeySet(counted)) {
				out = append(out, typed)
			}
		}
	}
	return out, nil
}

// changesCountOf reports whether the changes may alter what quotas count of some types, because they apply, set, or delete objects of these
// types, Namespaces, or DeviceClasses, even if that leaves them as they were.
func (q *question) changesCountOf(counted sets.Set[schema.GroupResource]) bool {
	for resource := range q.changed.changed {
		if counted.Has(resource.GroupResource()) || resource == namespaces || resource == deviceClassResource {
			return true
		}
	}
	return false
}

// recountedFor reports whether changes of objects of a type may be why one of the recounted quotas gets another status: the quota counts
// the type, or the type is that of quotas, Namespaces, or DeviceClasses. It is false without recounted quotas.
func (q *question) recountedFor(resource schema.GroupVersionResource) bool {
	evaluators := quota.NewEvaluators(clock.RealClock{}, quota.Devices{})
	for _, objects := range q.recounted {
		for _, c := range objects {
			typed, err := typedQuota(c.after)
			if err != nil {
				continue
			}
			if counted, _ := evaluators.Types(typed.QuotaSpec()); basisOfCounts(resource) || sets.KeySet(counted).Has(resource.GroupResource()) {
				return true
			}
		}
	}
	return false
}

// count counts the objects in a cluster, and returns those of the quotas whose status would differ from what it is.
func (q *question) count(ctx context.Context, quotas []placementv1.Quota, from simulation.Cluster) (recounted, error) {
	used, err := q.usage(ctx, quotas, from)
	if err != nil {
		return nil, err
	}
	out := recounted{}
	for i, typed := range quotas {
		resource, name := clusterScopedQuotas, types.NamespacedName{Namespace: typed.GetNamespace(), Name: typed.GetName()}
		if name.Namespace != "" {
			resource = scopedQuotas
		}
		current, err := q.changed.Get(ctx, resource, name.Namespace, name.Name)
		if err != nil {
			return nil, err
		}
		hard := typed.QuotaStatus().Hard
		if c, changes := q.changed.change(objectKey{resource, name}); changes && changesSpec(c) {
			hard = typed.QuotaSpec().Hard
		}
		if upstream.Equals(hard, typed.QuotaStatus().Hard) && upstream.Equals(used[i], typed.QuotaStatus().Used) {
			continue
		}
		next := current.DeepCopy()
		for field, amounts := range map[string]corev1.ResourceList{"hard": hard, "used": used[i]} {
			if err := unstructured.SetNestedStringMap(next.Object, amountsOf(amounts), "status", field); err != nil {
				return nil, err
			}
		}
		if out[resource] == nil {
			out[resource] = map[types.NamespacedName]change{}
		}
		out[resource][name] = change{current, next}
	}
	return out, nil
}

// changesSpec reports whether a change creates an object or alters its spec. It must not be called for a change that deletes the object.
func changesSpec(c change) bool {
	return c.before == nil || !equality.Semantic.DeepEqual(c.before.Object["spec"], c.after.Object["spec"])
}

// amountsOf returns the amounts in the status of a quota as texts, such as "10Gi", by the names of the resources.
func amountsOf(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, amount := range list {
		out[string(name)] = amount.String()
	}
	return out
}
