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

// Package policyreport provides the controller that writes policy reports: objects that list the violations in a
// namespace for the tools that show them. It runs on the leader.
package policyreport

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/berth-dev/berth/internal/policyreport"
	"github.com/berth-dev/berth/internal/remediation"
)

// FieldManager is the field manager with which the controller applies reports.
const FieldManager = "berth-policy-reports"

// Catalog knows the types that the API server serves.
type Catalog interface {
	// Kind returns the kind of a resource type; "" if the type is not served.
	Kind(schema.GroupVersionResource) string
	// Subscribe registers a callback for when the API server serves other types than before.
	Subscribe(f func())
}

// Deps holds the dependencies of a Controller: the format of the reports, where the violations and the UIDs of objects come from, whether
// all existing objects are decided, the served types, and the client that lists and writes reports.
type Deps struct {
	// Format is the API of the reports: that of openreports.io or of wgpolicyk8s.io.
	Format policyreport.Format
	// Client writes reports, and lists them without their content, which may be large.
	Client  metadata.Interface
	Ledger  *remediation.Ledger
	Catalog Catalog
	// Settled reports whether the ledger has a decision on every existing object.
	Settled func() bool
	// UID returns the UID of an existing object; "" if it is not known.
	UID func(remediation.Key) types.UID
}

// Controller keeps one report in each namespace with violations, and one for the objects without a namespace. It writes
// reports by server-side apply, because that also creates them, and because the API server then refuses a report with
// fields that the installed CRD does not have. Create it with New.
type Controller struct {
	Deps
	pace flowcontrol.RateLimiter // Bounds the writes and deletions of reports, of all namespaces together.

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[request] // Nil before the controller is started.

	// Only Reconcile uses the following; it never runs concurrently.

	// reports are the existing reports by namespace; that of the objects without a namespace is under "".
	reports map[string]report
	synced  bool // Whether reports has all reports that exist. Until then, the controller writes and deletes none.
	missing bool // Whether the log has the message that a type of the reports is not served; false again once all are.
}

// report is a report that exists.
type report struct {
	hash    [sha256.Size]byte // The hash of the content that this process applied last; zero if it applied none.
	version string            // The resourceVersion of the report when this process last applied or listed it. A change of it clears hash.
}

// request is a namespace whose report has to be updated; "" stands for the objects without a namespace. If all is set, it is the request to
// find out which reports exist in all namespaces.
type request struct {
	namespace string
	all       bool // Whether to find out which reports exist in all namespaces.
}

const (
	// changeDelay is how long the controller collects the changes of a namespace before it updates the report.
	changeDelay = 5 * time.Second
	// updatesPerSecond and updateBurst bound the updates of reports of all namespaces together.
	updatesPerSecond, updateBurst = 10, 10
	// settledDelay is the interval at which a new leader checks whether all objects are decided.
	settledDelay = time.Second
	// resyncPeriod is the interval at which the controller looks for reports that another client changed or deleted.
	resyncPeriod = 10 * time.Minute
	// minBackoff and maxBackoff bound the delay before a write that failed is tried again.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
)

// New returns a controller that is not started, and registers it with d.Ledger for changes of violations and with d.Catalog for changes of
// the served types.
func New(d Deps) *Controller {
	c := &Controller{Deps: d, pace: flowcontrol.NewTokenBucketRateLimiter(updatesPerSecond, updateBurst), reports: map[string]report{}}
	d.Ledger.SubscribeViolations(func(namespace string) { c.enqueueAfter(request{namespace: namespace}, changeDelay) })
	d.Catalog.Subscribe(func() { c.enqueueAfter(request{all: true}, 0) })
	return c
}

// enqueueAfter adds a request to the workqueue after a delay. If an equal request waits there already, the earlier time of the two counts,
// so that continuous changes do not delay an update. It does nothing before the controller is started.
func (c *Controller) enqueueAfter(r request, delay time.Duration) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue != nil {
		queue.AddAfter(r, delay)
	}
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	ctl, err := controller.NewTyped("policyreport-"+c.Format.Resource("").Group, mgr, controller.TypedOptions[request]{
		Reconciler:              c,
		MaxConcurrentReconciles: 1,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[request](minBackoff, maxBackoff),
	})
	if err != nil {
		return err
	}
	return ctl.Watch(source.TypedFunc[request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = queue
		queue.Add(request{all: true})
		return nil
	}))
}

// +kubebuilder:rbac:groups=openreports.io,resources=reports;clusterreports,verbs=list;create;patch;delete
// +kubebuilder:rbac:groups=wgpolicyk8s.io,resources=policyreports;clusterpolicyreports,verbs=list;create;patch;delete

// Reconcile updates the report of one namespace, or, if r.all is set, finds out which reports exist. It does nothing for a namespace before
// that is known, or while a type of the reports is not served.
func (c *Controller) Reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	switch {
	case r.all:
		return c.sync(ctx)
	case !c.synced || !c.updateServed(ctx):
		// Once the reports are synced, all namespaces are enqueued.
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.update(ctx, r.namespace)
}

// updateServed reports whether the API server serves the types of the reports. If it does not, updateServed logs that once, and clears
// synced, so that the reports are read again when it does.
func (c *Controller) updateServed(ctx context.Context) bool {
	for _, resource := range c.Format.Resources() {
		if c.Catalog.Kind(resource) != "" {
			continue
		}
		c.synced = false
		if !c.missing {
			ctrllog.FromContext(ctx).Info("No policy reports are written before the API server serves their type: install the CRD, or remove the "+
				"API group from --policy-reports", "type", resource.String())
		}
		c.missing = true
		return false
	}
	c.missing = false
	return true
}

// sync reads which reports exist, once all existing objects are decided. It enqueues the namespaces with a report that this process did not
// write as it is, with violations and no report, or with a report and no violations. So it finds reports that an earlier leader left, and
// those that another client changed or deleted.
func (c *Controller) sync(ctx context.Context) (reconcile.Result, error) {
	if !c.updateServed(ctx) {
		// The catalog calls when that changes.
		return reconcile.Result{}, nil
	}
	if !c.Settled() {
		// The report of an earlier leader is better than one without the objects that are not decided yet.
		return reconcile.Result{RequeueAfter: settledDelay}, nil
	}
	found := map[string]report{}
	for _, resource := range c.Format.Resources() {
		list, err := c.Client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: policyreport.Selector().String()})
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("listing %s: %w%s", resource.GroupResource(), err, c.advice(err))
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.Name == policyreport.Name {
				found[o.Namespace] = report{version: o.ResourceVersion}
			}
		}
	}
	for namespace, now := range found {
		if known := c.reports[namespace]; known.version == now.version {
			found[namespace] = known
		}
	}
	c.reports, c.synced = found, true
	violated := c.Ledger.ViolatedNamespaces()
	for namespace := range violated.Union(sets.KeySet(found)) {
		// The changes of violations are followed anyway.
		if found[namespace].hash == [sha256.Size]byte{} || !violated.Has(namespace) {
			c.enqueueAfter(request{namespace: namespace}, 0)
		}
	}
	return reconcile.Result{RequeueAfter: resyncPeriod}, nil
}

// update applies the report of a namespace if its content changed, and deletes it if there are no violations.
func (c *Controller) update(ctx context.Context, namespace string) error {
	if err := c.pace.Wait(ctx); err != nil {
		return err
	}
	before, exists := c.reports[namespace]
	next := c.Format.Build(namespace, c.Ledger.Violations(namespace, policyreport.MaxResults, policyreport.IsReport), c.lookup)
	reports := c.Client.Resource(c.Format.Resource(namespace)).Namespace(namespace)
	if next == nil {
		if exists {
			if err := reports.Delete(ctx, policyreport.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return c.failed("deleting", namespace, err)
			}
			delete(c.reports, namespace)
		}
		return nil
	}
	body, err := json.Marshal(next)
	if err != nil {
		return reconcile.TerminalError(c.failed("encoding", namespace, err))
	}
	hash := sha256.Sum256(body)
	if exists && before.hash == hash {
		return nil
	}
	got, err := reports.Patch(ctx, policyreport.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager, Force: new(true)})
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The namespace is being deleted, and its report with it; or the type is not served any more.
		delete(c.reports, namespace)
		return nil
	case err != nil:
		return c.failed("writing", namespace, err)
	}
	c.reports[namespace] = report{hash: hash, version: got.ResourceVersion}
	return nil
}

// lookup returns the kind of the type of an object, "" if the type is not served, and the UID of the object, "" if that is not known.
func (c *Controller) lookup(key remediation.Key) (kind string, uid types.UID) {
	return c.Catalog.Kind(key.Resource), c.UID(key)
}

// failed returns an error that an action, such as "writing", failed on the report of a namespace, with advice.
func (c *Controller) failed(action, namespace string, err error) error {
	key := remediation.Key{Resource: c.Format.Resource(namespace), Namespace: namespace, Name: policyreport.Name}
	return fmt.Errorf("%s %s: %w%s", action, key, err, c.advice(err))
}

// advice returns what to do about an error of the API server, for appending to it; "" if the controller's retries may be enough.
func (c *Controller) advice(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "; grant the manager list, create, patch and delete on reports, and exclude reports from policies and webhooks that deny them"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsInternalError(err):
		return "; check that the installed CRD of the reports is that of " + c.Format.String()
	}
	return ""
}
