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

// handle is what plugins have of the scheduler. It shows one snapshot after the other, as the scheduler's does, so that a
// plugin need not be made for each of them. What is not overridden is nil, and panics.
type handle struct {
	fwk.Handle

	world lister
}

func (h *handle) SnapshotSharedLister() fwk.SharedLister { return &h.world }

func (h *handle) Parallelizer() fwk.Parallelizer { return parallelizer{} }

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return factory{world: &h.world}
}

// SharedDRAManager returns none: NodeResourcesFit then judges extended resources by what nodes say of them.
func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return nil }

func (h *handle) ProfileName() string { return corev1.DefaultSchedulerName }

// claimless is the handle of the plugins that judge volumes. They want listers of what volumes are made of before they are
// asked anything: they get some that list nothing, and are not asked of a pod that claims volumes.
type claimless struct {
	*handle

	informers informers.SharedInformerFactory
}

func (c claimless) SharedInformerFactory() informers.SharedInformerFactory { return c.informers }

// ClientSet and SharedCSIManager return what plugins keep, and panic if they use it.
func (c claimless) ClientSet() kubernetes.Interface { return nil }

func (c claimless) SharedCSIManager() fwk.CSIManager { return nil }

// errClaims says why volumes are not judged. To judge them, their claims, volumes and classes would have to be watched,
// and the scheduler's binder be told of what it assumes.
var errClaims = errors.New("the pod claims volumes, and nothing watches what they are: leave it out for such pods")

// claims says that a pod has volumes that are claimed.
func claims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

// initMetrics makes the scheduler's metrics, in which plugins count without asking whether they are there. They are
// registered nowhere.
var initMetrics = sync.OnceFunc(schedulermetrics.InitMetrics)

// lister shows the snapshot that is judged. Plugins keep it, and what its methods return.
type lister struct{ *Snapshot }

func (l *lister) NodeInfos() fwk.NodeInfoLister { return l }

func (l *lister) StorageInfos() fwk.StorageInfoLister { return l }

// The types below lead to the one lister of a factory of informers that there is, without the informers.
type (
	factory struct {
		informers.SharedInformerFactory
		world *lister
	}
	group struct {
		core.Interface
		world *lister
	}
	version struct {
		corev1informers.Interface
		world *lister
	}
	resource struct {
		corev1informers.NamespaceInformer
		world *lister
	}
	namespaces struct {
		corev1listers.NamespaceListerExpansion
		world *lister
	}
)

func (f factory) Core() core.Interface { return group{world: f.world} }

func (g group) V1() corev1informers.Interface { return version{world: g.world} }

func (v version) Namespaces() corev1informers.NamespaceInformer { return resource{world: v.world} }

func (r resource) Lister() corev1listers.NamespaceLister { return namespaces{world: r.world} }

func (n namespaces) List(selector labels.Selector) ([]*corev1.Namespace, error) {
	var out []*corev1.Namespace
	for _, namespace := range n.world.namespaces {
		if selector.Matches(labels.Set(namespace.Labels)) {
			out = append(out, namespace)
		}
	}
	return out, nil
}

func (n namespaces) Get(name string) (*corev1.Namespace, error) {
	if namespace, ok := n.world.namespace(name); ok {
		return namespace, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
}

// parallelizer is the scheduler's, but a panic in one of its goroutines is one of the caller's, and nothing is counted.
type parallelizer struct{}

// Until implements fwk.Parallelizer.
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

// chunk is how many pieces a worker takes at once: the scheduler's rule.
func chunk(pieces, workers int) int {
	return max(1, min(int(math.Sqrt(float64(pieces))), pieces/workers+1))
}

// failure makes an error of what a plugin panicked with. What a plugin may not ask the handle for is a nil that it calls.
func failure(predicate string, recovered any) error {
	err, ok := recovered.(error)
	if !ok {
		err = fmt.Errorf("%v", recovered)
	}
	hint := ""
	if nilCalled := (goruntime.Error)(nil); errors.As(err, &nilCalled) {
		hint = "; it may need something of the scheduler other than nodes, their pods and namespaces, which is all there is"
	}
	return &PluginError{Predicate: predicate, Err: fmt.Errorf("it panicked: %w%s", err, hint)}
}
