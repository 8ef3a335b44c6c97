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

package deliverer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
)

// hashAnnotation has the hash of what Berth applied last, so that fields which Berth no longer sets are removed.
const hashAnnotation = "placement.berth.dev/delivered-hash"

// need is what has to exist for one object.
type need struct {
	policies, systems []string
	objects           []wanted
	// kept are the types of delivered objects that are left alone, because it is not known what has to exist.
	kept map[schema.GroupVersionResource]bool
	// pending reports whether a type that the object needs is not read yet.
	pending bool
	failure *delivery.Failure
	// retry is when to try again after a failure.
	retry time.Duration
}

// wanted is an object that has to exist in a system.
type wanted struct {
	delivery.Delivered
	system delivery.System
}

// fail records a failure. The first one counts.
func (n *need) fail(reason, format string, args ...any) {
	if n.failure == nil {
		n.failure = &delivery.Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
}

// Reconcile writes the difference between what has to exist for an object and what exists.
func (c *Controller) Reconcile(ctx context.Context, key delivery.Key) (reconcile.Result, error) {
	resource, object := c.placed.get(key)
	if object != nil && object.GetDeletionTimestamp() != nil {
		// The garbage collector deletes what was delivered for it.
		return reconcile.Result{}, nil
	}
	if object == nil && !c.known(key) {
		return reconcile.Result{}, nil
	}
	n := &need{kept: map[schema.GroupVersionResource]bool{}, retry: retryInterval}
	if object != nil {
		if err := c.needOf(ctx, resource, object, n); err != nil {
			return reconcile.Result{}, err
		}
	}
	err := c.converge(ctx, key, object, n)
	result := delivery.Result{Resource: resource.GroupResource(), Systems: strings.Join(n.systems, ","), Pending: n.pending, Failure: n.failure}
	for _, name := range c.Account.Record(key, n.policies, result) {
		c.Changed(name)
	}
	if err == nil && n.failure != nil {
		// What failed may be corrected without an event for this controller.
		return reconcile.Result{RequeueAfter: n.retry}, nil
	}
	return reconcile.Result{}, err
}

// known reports whether it is certain that no policy delivers an object that is not in the cache: its type is served, and the
// objects of the type are read if a policy delivers them. So nothing is deleted while a type is unavailable.
func (c *Controller) known(key delivery.Key) bool {
	served := false
	for _, r := range c.Catalog.Select(func(r schema.GroupVersionResource) bool { return r.Group == key.Group }) {
		served = served || c.kindOf(r.GroupVersionResource) == key.GroupKind
	}
	if !served {
		return false
	}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.deliveredBy(p) {
			if c.kindOf(r.GroupVersionResource) != key.GroupKind {
				continue
			}
			if state, watched := c.placedWatches.State(r.GroupVersionResource); !watched || !state.Synced {
				return false
			}
		}
	}
	return true
}

// needOf finds out what has to exist for an object.
func (c *Controller) needOf(ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured, n *need) error {
	policies, err := c.Decider.Matching(ctx, placement.Request{Resource: resource, Namespace: object.GetNamespace(), Object: object, Old: object})
	if err != nil {
		return err
	}
	// If an annotation is invalid, it is not known what has to exist, so what was delivered stays.
	decision, placed, err := delivery.DecisionOf(object)
	if !placed {
		return nil
	}
	routes, names := delivery.RoutesOf(policies, object.GroupVersionKind().GroupKind())
	n.policies = names
	for _, route := range routes {
		n.systems = append(n.systems, route.Name)
		if err != nil {
			n.fail(placementv1.ReasonDeliveryFailed, "%v", err)
			n.keep(route.System)
			continue
		}
		c.needIn(route, object, decision, n)
	}
	slices.Sort(n.systems)
	return nil
}

// needIn finds out what has to exist in one system.
func (c *Controller) needIn(route delivery.Route, object *unstructured.Unstructured, decision delivery.Decision, n *need) {
	system := route.System
	objects, err := system.Render(delivery.ObjectOf(object), decision, route.Spec)
	if err != nil {
		n.fail(placementv1.ReasonDeliveryFailed, "%v", err)
		n.keep(system)
		return
	}
	for _, o := range objects {
		if o.Existing {
			continue
		}
		switch state, watched := c.deliveredWatches.State(o.GroupVersionResource); {
		case c.Catalog.Kind(o.GroupVersionResource) == "":
			n.fail(placementv1.ReasonNotServed, "the API server does not serve %s: install %s, or remove it from spec.delivery", o.GroupResource(), system.Title)
			n.keep(system)
			return
		case apierrors.IsForbidden(state.Err):
			n.fail(placementv1.ReasonForbidden, "%v%s", state.Err, advice(system))
			n.keep(system)
			return
		case !watched || !state.Synced:
			n.pending = true
			n.keep(system)
			return
		}
	}
	for _, o := range objects {
		n.objects = append(n.objects, wanted{o, system})
	}
}

// keep leaves the delivered objects of a system alone.
func (n *need) keep(system delivery.System) {
	for _, kind := range system.Kinds {
		n.kept[kind.GroupVersionResource] = true
	}
}

// mayNominate reports whether the clusters of a Workload of Kueue may be nominated now: quota is reserved, an admission check is
// pending, no cluster was chosen, and the Workload is neither evicted nor finished.
func mayNominate(workload map[string]any) bool {
	is := map[string]bool{}
	conditions, _, _ := unstructured.NestedSlice(workload, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		kind, _ := condition["type"].(string)
		is[kind] = condition["status"] == string(metav1.ConditionTrue)
	}
	checks, _, _ := unstructured.NestedSlice(workload, "status", "admissionChecks")
	pending := slices.ContainsFunc(checks, func(c any) bool {
		check, _ := c.(map[string]any)
		return check["state"] == "Pending"
	})
	chosen, _, _ := unstructured.NestedString(workload, "status", "clusterName")
	return pending && chosen == "" && is["QuotaReserved"] && !is["Evicted"] && !is["Finished"]
}

// converge writes the difference between what has to exist for an object and what exists. object is nil if it is gone.
func (c *Controller) converge(ctx context.Context, key delivery.Key, object *unstructured.Unstructured, n *need) error {
	existing := c.delivered.of(key)
	var errs []error
	for _, want := range n.objects {
		id := name{want.GroupVersionResource, want.Object.GetNamespace(), want.Object.GetName()}
		live := existing[id]
		delete(existing, id)
		var err error
		if want.Existing {
			err = c.applyStatus(ctx, want, object, n)
		} else {
			err = c.apply(ctx, want, live, n)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	// Placements of Open Cluster Management are deleted before their PlacementDecisions: a Placement without decisions has no
	// clusters, and its consumers would remove the workload from all of them.
	for _, id := range slices.SortedFunc(maps.Keys(existing), func(a, b name) int { return strings.Compare(b.Resource+"/"+b.name, a.Resource+"/"+a.name) }) {
		if n.kept[id.GroupVersionResource] || existing[id].GetDeletionTimestamp() != nil {
			continue
		}
		err := c.client(id.GroupVersionResource, id.namespace).Delete(ctx, id.name, metav1.DeleteOptions{Preconditions: uidOf(existing[id])})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting %s %s: %w", id.GroupResource(), id.name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) client(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Client.Resource(resource)
	}
	return c.Client.Resource(resource).Namespace(namespace)
}

// apply writes an object if it differs. live is the object as it is, or nil if it is not known. Failures that trying again does
// not correct are recorded in n.
func (c *Controller) apply(ctx context.Context, want wanted, live *unstructured.Unstructured, n *need) error {
	id := name{want.GroupVersionResource, want.Object.GetNamespace(), want.Object.GetName()}
	resource := c.client(id.GroupVersionResource, id.namespace)
	subject := fmt.Sprintf("%s %s", want.Kind.Kind, qualified(want.Object))
	owner, _ := ownerOf(want.Object)
	if live == nil {
		// The cache has only objects that Berth delivered.
		found, err := resource.Get(ctx, id.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return refused(err, subject, want.system, n)
		case !deliveredFor(found, owner):
			c.foreign.block(id, owner)
			n.fail(placementv1.ReasonForeignObject, "%s exists and was written by %s: Berth does not change it; delete it, or rename the object that is placed", subject, managerOf(found))
			return nil
		default:
			live = found
		}
	}
	body, status := split(want.Delivered)
	if live != nil && live.GetAnnotations()[hashAnnotation] == body.GetAnnotations()[hashAnnotation] && !coversBoth(live, body, status) {
		if wait := c.contests.wait(id); wait > 0 {
			n.fail(placementv1.ReasonContested, "another client changed %s back each time that Berth wrote it: Berth writes it again in %s", subject, wait.Round(time.Second))
			n.retry = wait
			return nil
		}
	}
	// What Berth delivered is its own, so it overwrites the fields of other managers.
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	if live == nil || !covers(live.Object, body.Object) {
		got, err := resource.Apply(ctx, id.name, body, options)
		if err != nil {
			return refused(err, subject, want.system, n)
		}
		c.delivered.put(id.GroupVersionResource, got)
		live = got
	}
	if status != nil && !covers(live.Object["status"], status.Object["status"]) {
		got, err := resource.ApplyStatus(ctx, id.name, status, options)
		if err != nil {
			return refused(err, subject, want.system, n)
		}
		c.delivered.put(id.GroupVersionResource, got)
	}
	return nil
}

// applyStatus applies the status of the placed object itself if it differs.
func (c *Controller) applyStatus(ctx context.Context, want wanted, object *unstructured.Unstructured, n *need) error {
	if covers(object.Object["status"], want.Object.Object["status"]) || want.Kind.Kind == "Workload" && !mayNominate(object.Object) {
		return nil
	}
	// The API server refuses the status of another object of that name, and of a version that is not the newest.
	body := want.Object.DeepCopy()
	body.SetResourceVersion(object.GetResourceVersion())
	_, err := c.client(want.GroupVersionResource, body.GetNamespace()).
		ApplyStatus(ctx, body.GetName(), body, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// The object is gone, or a newer version of it will be reconciled.
		return nil
	case err != nil:
		return refused(err, want.Kind.Kind+" "+qualified(want.Object), want.system, n)
	}
	return nil
}

// coversBoth reports whether an object has all that Berth applies, in the object and in its status.
func coversBoth(live, body, status *unstructured.Unstructured) bool {
	return covers(live.Object, body.Object) && (status == nil || covers(live.Object["status"], status.Object["status"]))
}

// deliveredFor reports whether Berth delivered an object for another one.
func deliveredFor(o *unstructured.Unstructured, owner delivery.Key) bool {
	key, ok := ownerOf(o)
	return ok && key == owner
}

// split returns the object with the hash of its content, and the part that belongs to the status subresource; nil if there is
// none.
func split(want delivery.Delivered) (body, status *unstructured.Unstructured) {
	body = want.Object.DeepCopy()
	if want.Status {
		status = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": body.GetAPIVersion(), "kind": body.GetKind(), "status": body.Object["status"],
			"metadata": map[string]any{"name": body.GetName(), "namespace": body.GetNamespace()},
		}}
		delete(body.Object, "status")
	}
	// Marshaling does not fail: the content is that of decoded JSON.
	text, _ := json.Marshal(body.Object)
	sum := sha256.Sum256(text)
	annotations := body.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[hashAnnotation] = hex.EncodeToString(sum[:8])
	body.SetAnnotations(annotations)
	return body, status
}

// covers reports whether live has all that want has. Lists have to be equal, except for owner references, which other clients
// may add.
func covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		members, ok := live.(map[string]any)
		for name, value := range want {
			if !ok || !covers(members[name], value) {
				return false
			}
		}
		return ok
	case []any:
		items, ok := live.([]any)
		if !ok || len(items) < len(want) {
			return false
		}
		for i, value := range want {
			if isOwner(value) {
				if !slices.ContainsFunc(items, func(item any) bool { return covers(item, value) }) {
					return false
				}
			} else if len(items) != len(want) || !covers(items[i], value) {
				return false
			}
		}
		return len(want) > 0 || len(items) == 0
	}
	return live == want
}

// isOwner reports whether a list item is an owner reference.
func isOwner(value any) bool {
	members, _ := value.(map[string]any)
	return members["uid"] != nil && members["kind"] != nil
}

func qualified(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// managerOf returns the field manager that last wrote an object.
func managerOf(o *unstructured.Unstructured) string {
	manager, last := "another client", time.Time{}
	for _, entry := range o.GetManagedFields() {
		if entry.Time != nil && !entry.Time.Time.Before(last) {
			manager, last = entry.Manager, entry.Time.Time
		}
	}
	return manager
}

// refused records the failure of a request that trying again does not correct, and returns other errors.
func refused(err error, subject string, system delivery.System, n *need) error {
	switch {
	case apierrors.IsForbidden(err):
		n.fail(placementv1.ReasonForbidden, "%s: %v%s", subject, err, advice(system))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		n.fail(placementv1.ReasonDeliveryFailed, "the API server refused %s: %v", subject, err)
	default:
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// advice says which ClusterRole is missing.
func advice(system delivery.System) string {
	return fmt.Sprintf("; apply the ClusterRole %s, which has what delivery to %s needs", system.ClusterRole, system.Title)
}

// findLeftBehind finds the types of objects that an earlier leader delivered, so that those which no policy needs any more are
// deleted.
func (c *Controller) findLeftBehind(ctx context.Context) {
	var found []schema.GroupVersionResource
	for _, resource := range delivery.Resources() {
		if c.Catalog.Kind(resource) == "" {
			continue
		}
		list, err := c.Client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: placementv1.DeliveredLabel + "=true", Limit: 1})
		if err == nil && len(list.Items) > 0 {
			found = append(found, resource)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftBehind = found
}
