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

package quotadifferential_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// counted are the types of which objects are made and that are counted by their number, with the kinds of their lists
// and the older names of the counts.
var counted = map[schema.GroupVersionResource]struct {
	kind  string
	alias corev1.ResourceName
}{
	corev1.SchemeGroupVersion.WithResource("configmaps"):             {"ConfigMapList", corev1.ResourceConfigMaps},
	corev1.SchemeGroupVersion.WithResource("secrets"):                {"SecretList", corev1.ResourceSecrets},
	corev1.SchemeGroupVersion.WithResource("replicationcontrollers"): {"ReplicationControllerList", corev1.ResourceReplicationControllers},
	{Group: "apps", Version: "v1", Resource: "deployments"}:          {"DeploymentList", ""},
	widgets: {"WidgetList", ""},
}

// existing lists what exists, each type once. It is the lister of Kubernetes' own evaluators.
type existing struct {
	ctx       context.Context
	namespace string
	lists     map[schema.GroupVersionResource][]runtime.Object
}

// usage is what Kubernetes' own evaluators measure on everything that exists.
func (e *existing) usage(t *twin) (corev1.ResourceList, error) {
	lister := func(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
		return ofType{existing: e, gvr: gvr}, nil
	}
	classes := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	for _, class := range deviceClasses() {
		classes.OnAdd(class, true)
	}
	evaluators := []upstream.Evaluator{
		core.NewPodEvaluator(lister, clock.RealClock{}), core.NewServiceEvaluator(lister), core.NewPersistentVolumeClaimEvaluator(lister),
		core.NewResourceClaimEvaluator(lister, classes, nil, nil),
	}
	for gvr, c := range counted {
		evaluators = append(evaluators, generic.NewObjectCountEvaluator(gvr.GroupResource(), generic.ListResourceUsingListerFunc(lister, gvr), c.alias))
	}
	return upstream.CalculateUsage(e.namespace, t.scopes, t.hard, generic.NewRegistry(evaluators), t.selector)
}

// ofType is the part of a type.
type ofType struct {
	*existing
	gvr schema.GroupVersionResource
}

func (l ofType) List(labels.Selector) ([]runtime.Object, error) {
	if known, ok := l.lists[l.gvr]; ok {
		return known, nil
	}
	var list client.ObjectList
	switch l.gvr.Resource {
	case "pods":
		list = &corev1.PodList{}
	case "services":
		list = &corev1.ServiceList{}
	case "resourceclaims":
		list = &resourcev1.ResourceClaimList{}
	case "persistentvolumeclaims":
		list = &corev1.PersistentVolumeClaimList{}
	default:
		names := &metav1.PartialObjectMetadataList{}
		names.SetGroupVersionKind(l.gvr.GroupVersion().WithKind(counted[l.gvr].kind))
		list = names
	}
	if err := f.Client.List(l.ctx, list, client.InNamespace(l.namespace)); err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	l.lists[l.gvr] = objects
	return objects, err
}

func (l ofType) ByNamespace(string) cache.GenericNamespaceLister { return l }

func (ofType) Get(string) (runtime.Object, error) { return nil, errors.New("not needed") }

const (
	// settlePolling is how often is looked whether both have settled.
	settlePolling = 25 * time.Millisecond
	// settledFor is how many looks in a row must find them settled: what admission reads lags behind a little.
	settledFor = 2
	// customCounts is how long kube-controller-manager may take to see that there is another type to count.
	customCounts = 3 * time.Minute
	// patience is how many looks kube-controller-manager may lag behind before it is nudged, and how many tries the
	// admission plugin may decide on what it no longer is.
	patience = 20
)

// settle waits until both namespaces' objects take the same, and both quotas of every twin say so.
func (r *round) settle(ctx context.Context) {
	GinkgoHelper()
	calm, stale := 0, 0
	Eventually(func(ctx context.Context) error {
		isStale, err := r.unsettled(ctx)
		if err == nil {
			if calm++; calm < settledFor {
				return errors.New("settled just now")
			}
			return nil
		}
		calm = 0
		if !isStale {
			return err
		}
		if stale++; stale%patience == 0 {
			r.figures.nudges++
			for _, t := range r.twins {
				t.nudges++
				if failed := t.apply(ctx, t.core(r.core)); failed != nil {
					return failed
				}
			}
		}
		return err
	}).WithContext(ctx).WithTimeout(framework.Timeout).WithPolling(settlePolling).Should(Succeed(), r.String)
}

// unsettled says what is not settled. stale means that kube-controller-manager's count is among that.
func (r *round) unsettled(ctx context.Context) (stale bool, err error) {
	inCore := &existing{ctx: ctx, namespace: r.core, lists: map[schema.GroupVersionResource][]runtime.Object{}}
	inOurs := &existing{ctx: ctx, namespace: r.ours, lists: map[schema.GroupVersionResource][]runtime.Object{}}
	var errs []error
	for _, t := range r.twins {
		want, err := inCore.usage(t)
		if err != nil {
			return false, err
		}
		other, err := inOurs.usage(t)
		if err != nil {
			return false, err
		}
		q, o := t.core(r.core), t.ours(r.ours)
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return false, err
		}
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, err
		}
		for _, status := range []corev1.ResourceList{q.Status.Hard, q.Status.Used} {
			delete(status, nudge)
		}
		t.used = q.Status.Used
		if !upstream.Equals(want, other) {
			errs = append(errs, fmt.Errorf("%s: what exists takes %s and %s", t.name, show(want), show(other)))
		}
		if !upstream.Equals(q.Status.Hard, t.hard) || !upstream.Equals(q.Status.Used, want) {
			stale = true
			errs = append(errs, fmt.Errorf("%s: ResourceQuota has hard %s, used %s; want %s, %s", t.name, show(q.Status.Hard), show(q.Status.Used), show(t.hard), show(want)))
		}
		if o.Status.ObservedGeneration != o.Generation || !upstream.Equals(o.Status.Hard, t.hard) || !upstream.Equals(o.Status.Used, other) {
			errs = append(errs, fmt.Errorf("%s: ScopedQuota has hard %s, used %s; want %s, %s; reservations: %v",
				t.name, show(o.Status.Hard), show(o.Status.Used), show(t.hard), show(other), o.Status.Reservations))
		}
	}
	return stale, errors.Join(errs...)
}

// charged checks that what a request took was charged before it was answered: the ScopedQuotas say at once that at
// least that much is used as is, and what they said before if nothing was taken.
func (r *round) charged(ctx context.Context) error {
	inOurs := &existing{ctx: ctx, namespace: r.ours, lists: map[schema.GroupVersionResource][]runtime.Object{}}
	for _, t := range r.twins {
		q := t.ours(r.ours)
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		taken, err := inOurs.usage(t)
		if err != nil {
			return err
		}
		if enough, of := upstream.LessThanOrEqual(taken, q.Status.Used); !enough {
			return fmt.Errorf("%s: used is %s at once, but what exists takes %s: %v", t.name, show(q.Status.Used), show(taken), of)
		}
		if before := t.used; upstream.Equals(taken, before) && !upstream.Equals(q.Status.Used, before) {
			return fmt.Errorf("%s: used became %s from %s, and nothing is taken", t.name, show(q.Status.Used), show(before))
		}
	}
	return nil
}

func show(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, amount.String()))
	}
	return "{" + strings.Join(parts, " ") + "}"
}
