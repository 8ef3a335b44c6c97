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
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quotacharge"
	"github.com/berth-dev/berth/internal/watches"
)

// watchQuotas keeps quotas and LimitedResources in the cache on every replica, and allows metrics with their names only while they exist.
// The charger forgets those that are deleted. synced reports whether the cache has all of them.
func watchQuotas(ctx context.Context, base *base, charger *quotacharge.Charger) (synced func() bool, err error) {
	handlers := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if key, _, ok := quotaOf(obj); ok {
				base.metrics.AddQuota(metrics.QuotaKey(key))
			}
		},
		DeleteFunc: func(obj any) {
			if key, uid, ok := quotaOf(obj); ok {
				base.metrics.ForgetQuota(metrics.QuotaKey(key))
				charger.Forget(uid)
			}
		},
	}
	var informers []cache.Informer
	for _, object := range []client.Object{&placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{}} {
		informer, err := base.mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching quotas: %w", err)
		}
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return nil, fmt.Errorf("watching quotas: %w", err)
		}
		informers = append(informers, informer)
	}
	return func() bool {
		return !slices.ContainsFunc(informers, func(i cache.Informer) bool { return !i.HasSynced() })
	}, nil
}

// quotaOf returns the key and the UID of a quota or LimitedResource in an informer's event; false for any other object.
func quotaOf(obj any) (quota.Key, types.UID, bool) {
	o, ok := lastKnown(obj).(client.Object)
	if !ok {
		return quota.Key{}, "", false
	}
	key, ok := quota.KeyOf(o)
	return key, o.GetUID(), ok
}

// lastKnown returns the object in an informer's event. If the informer missed a deletion, that is the object as it was last seen.
func lastKnown(obj any) any {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return obj
}

// watchNamespaces calls changed when a namespace is created or deleted, or its labels change, with the labels before and after; nil when it
// does not exist. If its labels change, relabeled is called first. Namespaces that exist at the start cause no call. It also fills the
// cache of namespaces before the first request needs one.
func watchNamespaces(ctx context.Context, mgr manager.Manager, changed func(name string, before, after map[string]string),
	relabeled ...func(namespace string)) error {
	informer, err := mgr.GetCache().GetInformer(ctx, watches.NewNamespace(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after, ok := obj.(metav1.Object); ok && !initial {
				changed(after.GetName(), nil, after.GetLabels())
			}
		},
		UpdateFunc: func(old, obj any) {
			before, known := old.(metav1.Object)
			after, ok := obj.(metav1.Object)
			if known && ok && !maps.Equal(before.GetLabels(), after.GetLabels()) {
				for _, f := range relabeled {
					f(after.GetName())
				}
				changed(after.GetName(), before.GetLabels(), after.GetLabels())
			}
		},
		DeleteFunc: func(obj any) {
			if before, ok := lastKnown(obj).(metav1.Object); ok {
				changed(before.GetName(), before.GetLabels(), nil)
			}
		},
	})
	return err
}

// watchPauses returns the policies whose remediation a change pauses, and in which namespaces. The result always follows status.paused of
// the policies in this replica's cache.
func watchPauses(ctx context.Context, mgr manager.Manager) (*placement.Pauses, error) {
	informer, err := mgr.GetCache().GetInformer(ctx, &placementv1.PlacementPolicy{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching policies: %w", err)
	}
	pauses := &placement.Pauses{}
	set := func(obj any) {
		if policy, ok := obj.(*placementv1.PlacementPolicy); ok {
			if paused := policy.Status.Paused; paused != nil {
				pauses.Set(policy.Name, paused.Namespaces)
			} else {
				pauses.Delete(policy.Name)
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				pauses.Delete(name)
			}
		},
	})
	return pauses, err
}
