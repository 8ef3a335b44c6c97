package quota

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/watches"
)

type queue = workqueue.TypedRateLimitingInterface[quota.Key]

// changes handles events of the quotas and LimitedResources themselves.
type changes struct {
	controller *Controller
}

var _ handler.TypedEventHandler[client.Object, quota.Key] = (*changes)(nil)

// Create implements handler.TypedEventHandler.
func (h *changes) Create(_ context.Context, e event.TypedCreateEvent[client.Object], _ queue) {
	h.changed(e.Object, true)
}

// Update implements handler.TypedEventHandler.
func (h *changes) Update(_ context.Context, e event.TypedUpdateEvent[client.Object], _ queue) {
	h.changed(e.ObjectNew, !sameSpec(e.ObjectOld, e.ObjectNew))
}

// sameSpec reports whether two versions of an object have the same spec. It compares more than generations: after a
// restore of the API server's store from a backup, two specs of a quota can have the same generation.
func sameSpec(a, b client.Object) bool {
	if a.GetGeneration() != b.GetGeneration() || a.GetUID() != b.GetUID() {
		return false
	}
	before, isQuota := a.(placementv1.Quota)
	after, _ := b.(placementv1.Quota)
	return !isQuota || equality.Semantic.DeepEqual(before.QuotaSpec(), after.QuotaSpec())
}

// Delete implements handler.TypedEventHandler.
func (h *changes) Delete(_ context.Context, e event.TypedDeleteEvent[client.Object], _ queue) {
	h.changed(e.Object, true)
}

// Generic implements handler.TypedEventHandler.
func (*changes) Generic(context.Context, event.TypedGenericEvent[client.Object], queue) {}

func (h *changes) changed(o client.Object, spec bool) {
	key, ok := quota.KeyOf(o)
	if !ok {
		return
	}
	if spec {
		h.controller.Rewatch()
	}
	h.controller.enqueue(key)
}

// joins handles events of namespaces, which ClusterScopedQuotas may start or stop to select.
type joins struct {
	controller *Controller
}

var _ handler.TypedEventHandler[client.Object, quota.Key] = (*joins)(nil)

// Create implements handler.TypedEventHandler.
func (h *joins) Create(ctx context.Context, _ event.TypedCreateEvent[client.Object], _ queue) {
	h.controller.namespacesChanged(ctx)
}

// Update implements handler.TypedEventHandler.
func (h *joins) Update(ctx context.Context, e event.TypedUpdateEvent[client.Object], _ queue) {
	if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
		h.controller.namespacesChanged(ctx)
	}
}

// Delete implements handler.TypedEventHandler.
func (h *joins) Delete(ctx context.Context, _ event.TypedDeleteEvent[client.Object], _ queue) {
	h.controller.namespacesChanged(ctx)
}

// Generic implements handler.TypedEventHandler.
func (*joins) Generic(context.Context, event.TypedGenericEvent[client.Object], queue) {}

// classChanges handles the creation and deletion of priority classes and storage classes.
type classChanges struct {
	controller *Controller
}

var _ handler.TypedEventHandler[client.Object, quota.Key] = (*classChanges)(nil)

// Create implements handler.TypedEventHandler.
func (h *classChanges) Create(ctx context.Context, e event.TypedCreateEvent[client.Object], _ queue) {
	if !e.IsInInitialList {
		h.controller.classesChanged(ctx, e.Object.GetName())
	}
}

// Update implements handler.TypedEventHandler.
func (*classChanges) Update(context.Context, event.TypedUpdateEvent[client.Object], queue) {}

// Delete implements handler.TypedEventHandler.
func (h *classChanges) Delete(ctx context.Context, e event.TypedDeleteEvent[client.Object], _ queue) {
	h.controller.classesChanged(ctx, e.Object.GetName())
}

// Generic implements handler.TypedEventHandler.
func (*classChanges) Generic(context.Context, event.TypedGenericEvent[client.Object], queue) {}

// sink passes the objects of the watched types to the meter.
type sink struct {
	meter *quota.Meter
	// changed is called for each change that may affect quotas. An empty namespace means all namespaces.
	changed func(t schema.GroupResource, namespace string)
}

var _ watches.Sink = (*sink)(nil)

// Replace implements watches.Sink.
func (s *sink) Replace(r schema.GroupVersionResource, _ *projection.Fields, objects []*unstructured.Unstructured) {
	s.report(s.meter.Replace(r.GroupResource(), objects))
	s.changed(r.GroupResource(), "")
}

// Put implements watches.Sink.
func (s *sink) Put(r schema.GroupVersionResource, o *unstructured.Unstructured) {
	matters, err := s.meter.Put(r.GroupResource(), o)
	s.report(err)
	if matters {
		s.changed(r.GroupResource(), o.GetNamespace())
	}
}

// Delete implements watches.Sink.
func (s *sink) Delete(r schema.GroupVersionResource, namespace, name string) {
	if s.meter.Delete(r.GroupResource(), namespace, name) {
		s.changed(r.GroupResource(), namespace)
	}
}

// Drop implements watches.Sink.
func (s *sink) Drop(r schema.GroupVersionResource) {
	s.meter.Drop(r.GroupResource())
	s.changed(r.GroupResource(), "")
}

func (*sink) report(err error) {
	if err != nil {
		ctrllog.Log.WithName("quota").Error(err, "Left out of what is counted")
	}
}
