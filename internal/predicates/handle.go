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

package predicates

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// handle is the part of the scheduler's Handle that plugins get. Like the scheduler's handle, it shows one snapshot
// after the other, so that plugins need not be created for each snapshot. Methods that it does not override panic,
// because the embedded interface is nil.
type handle struct {
	fwk.Handle

	world lister // The lister of the current snapshot.
}

func (h *handle) SnapshotSharedLister() fwk.SharedLister { return &h.world }

func (h *handle) Parallelizer() fwk.Parallelizer { return parallelizer{} }

// SharedInformerFactory returns a factory that offers only a lister of the snapshot's namespaces.
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return factory{world: &h.world}
}

// SharedDRAManager returns nil. Then NodeResourcesFit evaluates extended resources by what nodes report.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return nil }

func (h *handle) ProfileName() string { return corev1.DefaultSchedulerName }

// claimless is the handle of plugins that evaluate volumes. When they are created, these plugins require listers of
// volumes, claims, and classes. They get listers that list nothing, and are not called for pods with volume claims.
type claimless struct {
	*handle

	informers informers.SharedInformerFactory
}

// SharedInformerFactory returns a factory whose listers list nothing.
func (c claimless) SharedInformerFactory() informers.SharedInformerFactory { return c.informers }

// ClientSet returns nil, which plugins may store. Plugins panic if they use it.
func (c claimless) ClientSet() kubernetes.Interface { return nil }

// SharedCSIManager returns nil, which plugins may store. Plugins panic if they use it.
func (c claimless) SharedCSIManager() fwk.CSIManager { return nil }

// errClaims is the error for pods with volumes that are claims. To evaluate these, Berth would have to watch claims, volumes,
// and classes, and tell the scheduler's binder which pods it assumes to run where.
var errClaims = errors.New("the pod has volume claims, which Berth does not watch: do not evaluate this predicate for such pods")

// hasClaims reports whether a pod has volumes that are PersistentVolumeClaims, or for which one is created.
func hasClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

// initMetrics creates the scheduler's metrics. Plugins use them without checking whether they exist. They are not
// registered.
var initMetrics = sync.OnceFunc(schedulermetrics.InitMetrics)

// lister is the SharedLister of the current evaluation's snapshot, which is replaced for the next evaluation. Plugins keep the lister and
// what its methods return.
type lister struct{ *Snapshot }

func (l *lister) NodeInfos() fwk.NodeInfoLister { return l }

func (l *lister) StorageInfos() fwk.StorageInfoLister { return l }

// The following types lead, without informers, from the factory that SharedInformerFactory returns to the lister of namespaces. Plugins get
// no other lister from it.
type (
	// factory is an informer factory that offers only Core, the first step on the path to the lister of namespaces.
	factory struct {
		informers.SharedInformerFactory
		world *lister
	}
	// namespaces offers only the namespaces of the snapshot in world. Each step on the path to their lister returns it.
	namespaces struct {
		corev1informers.Interface
		corev1informers.NamespaceInformer
		corev1listers.NamespaceListerExpansion
		world *lister
	}
)

func (f factory) Core() core.Interface { return namespaces{world: f.world} }

func (n namespaces) V1() corev1informers.Interface { return n }

func (n namespaces) Namespaces() corev1informers.NamespaceInformer { return n }

func (n namespaces) Lister() corev1listers.NamespaceLister { return n }

// List returns the namespaces of the current snapshot that a selector selects, sorted by name. The error is always nil.
func (n namespaces) List(selector labels.Selector) ([]*corev1.Namespace, error) {
	var out []*corev1.Namespace
	for _, namespace := range n.world.namespaces {
		if selector.Matches(labels.Set(namespace.Labels)) {
			out = append(out, namespace)
		}
	}
	return out, nil
}

// Get returns a namespace of the current snapshot, or an error that it is not found.
func (n namespaces) Get(name string) (*corev1.Namespace, error) {
	if namespace, ok := n.world.namespace(name); ok {
		return namespace, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
}

// parallelizer works like the scheduler's, but it moves a panic to the caller's goroutine and records no metrics.
type parallelizer struct{}

// Until calls do for each number below pieces, in parallel, until ctx ends or a call panics, and returns when no call runs. It implements
// fwk.Parallelizer.
func (parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	workers := goruntime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var panicked atomic.Pointer[any]
	workqueue.ParallelizeUntil(ctx, workers, pieces, func(piece int) {
		defer func() {
			if r := recover(); r != nil {
				panicked.CompareAndSwap(nil, &r)
				cancel()
			}
		}()
		do(piece)
	}, workqueue.WithChunkSize(chunk(pieces, workers)))
	if r := panicked.Load(); r != nil {
		panic(*r)
	}
}

// chunk returns how many pieces a worker takes at once. It uses the scheduler's formula.
func chunk(pieces, workers int) int {
	return max(1, min(int(math.Sqrt(float64(pieces))), pieces/workers+1))
}

// failure converts a plugin's panic to an error. If the panic is a runtime error, such as the call of a nil method of
// the handle, the error has a hint about that.
func failure(predicate string, recovered any) error {
	err, ok := recovered.(error)
	if !ok {
		err = fmt.Errorf("%v", recovered)
	}
	hint := ""
	if nilCalled := (goruntime.Error)(nil); errors.As(err, &nilCalled) {
		hint = "; Berth offers plugins only nodes, their pods, and namespaces: the plugin may use something else of the scheduler"
	}
	return &PluginError{Predicate: predicate, Err: fmt.Errorf("it panicked: %w%s", err, hint)}
}
