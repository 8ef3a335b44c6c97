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
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/watches"
)

type (
	// workQueue is the workqueue of the controller.
	workQueue = workqueue.TypedRateLimitingInterface[quota.Key]
	// events handles the events of the objects of one type.
	events = handler.TypedFuncs[client.Object, quota.Key]
)

// quotaEvents enqueues a quota or a LimitedResource that is created, changed, or deleted. Unless only its status or metadata changed, it
// has the watched types computed again.
func (c *Controller) quotaEvents() events {
	return events{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object], _ workQueue) {
			c.quotaChanged(e.Object, true)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[client.Object], _ workQueue) {
			c.quotaChanged(e.ObjectNew, e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[client.Object], _ workQueue) {
			c.quotaChanged(e.Object, true)
		},
	}
}

// quotaChanged enqueues a quota or a LimitedResource. If specChanged is set, it has the watched types computed again.
func (c *Controller) quotaChanged(o client.Object, specChanged bool) {
	key, ok := quota.KeyOf(o)
	if !ok {
		return
	}
	if specChanged {
		c.Rewatch()
	}
	c.enqueue(key)
}

// namespaceEvents enqueues all ClusterScopedQuotas, which may start or stop to select a namespace, when one is created or deleted, or gets
// other labels.
func (c *Controller) namespaceEvents() events {
	return events{
		CreateFunc: func(ctx context.Context, _ event.TypedCreateEvent[client.Object], _ workQueue) {
			c.namespacesChanged(ctx)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[client.Object], _ workQueue) {
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				c.namespacesChanged(ctx)
			}
		},
		DeleteFunc: func(ctx context.Context, _ event.TypedDeleteEvent[client.Object], _ workQueue) {
			c.namespacesChanged(ctx)
		},
	}
}

// classEvents enqueues the quotas that name a priority class or storage class when that is created or deleted.
func (c *Controller) classEvents() events {
	return events{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[client.Object], _ workQueue) {
			if !e.IsInInitialList {
				c.classesChanged(ctx, e.Object.GetName())
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[client.Object], _ workQueue) {
			c.classesChanged(ctx, e.Object.GetName())
		},
	}
}

// sink passes the objects of the watched types to the meter.
type sink struct {
	meter *quota.Meter
	// changed is called for each change that may affect quotas. An empty namespace means all namespaces.
	changed func(t schema.GroupResource, namespace string)
}

var _ watches.Sink = (*sink)(nil)

// Replace implements watches.Sink: the meter measures objects in place of all that it has of the type.
func (s *sink) Replace(r schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	s.report(s.meter.Replace(r.GroupResource(), objects))
	s.changed(r.GroupResource(), "")
}

// Put implements watches.Sink: the meter measures an object that was added or changed.
func (s *sink) Put(r schema.GroupVersionResource, o *unstructured.Unstructured) {
	matters, err := s.meter.Put(r.GroupResource(), o)
	s.report(err)
	if matters {
		s.changed(r.GroupResource(), o.GetNamespace())
	}
}

// Delete implements watches.Sink: the meter removes the object.
func (s *sink) Delete(r schema.GroupVersionResource, namespace, name string) {
	if s.meter.Delete(r.GroupResource(), namespace, name) {
		s.changed(r.GroupResource(), namespace)
	}
}

// Drop implements watches.Sink: the meter drops the objects of a type that is no longer watched or available.
func (s *sink) Drop(r schema.GroupVersionResource) {
	s.meter.Drop(r.GroupResource())
	s.changed(r.GroupResource(), "")
}

// report logs the error of an object that the meter can't measure; nothing for nil.
func (*sink) report(err error) {
	if err != nil {
		ctrllog.Log.WithName("quota").Error(err, "Quotas do not count an object, or count an earlier version of it")
	}
}
