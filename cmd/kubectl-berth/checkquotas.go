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

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/apischema"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/webhooks/quotaspec"
)

// newQuotaSpecs returns the handler of the webhook that checks quotas and LimitedResources. Of the cluster, it knows only the types that
// are served, and no objects.
func newQuotaSpecs(cluster simulation.Cluster, options simulation.Options) *quotaspec.Handler {
	unknown := quota.Devices{Settled: func() bool { return false }}
	return &quotaspec.Handler{Catalog: cluster.Catalog(), OwnNamespace: options.OwnNamespace,
		Evaluators: quota.NewEvaluators(clock.RealClock{}, unknown)}
}

// completeQuotaSpecs returns the handler of the webhook that checks quotas and LimitedResources, which also compares them with the objects
// of the cluster. It does not compare with DeviceClasses if these can't be read.
func completeQuotaSpecs(ctx context.Context, cluster simulation.Cluster, options simulation.Options) *quotaspec.Handler {
	out := newQuotaSpecs(cluster, options)
	if classes, err := whatif.DeviceClasses(ctx, cluster); err == nil {
		out.Evaluators = quota.NewEvaluators(clock.RealClock{}, quota.Devices{Classes: classes})
	}
	if namespaces := (namespacesOf{cluster}); namespaces.known(ctx) {
		out.Namespaces = namespaces
	}
	out.Nodes, out.Capacity, out.Classes = nodesOf{cluster}, capacityOf{cluster}, priorityClassesOf(cluster)
	out.StorageClasses = namesOf{cluster: cluster, resource: storagev1.SchemeGroupVersion.WithResource("storageclasses")}
	out.VolumeAttributesClasses = namesOf{cluster: cluster, resource: storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses")}
	out.Live = quotasOf{cluster: cluster}
	return out
}

// newQuotaObject returns an empty ScopedQuota, ClusterScopedQuota, or LimitedResource; nil for another kind.
func newQuotaObject(kind string) client.Object {
	switch kind {
	case quota.KindScopedQuota:
		return &placementv1.ScopedQuota{}
	case quota.KindClusterScopedQuota:
		return &placementv1.ClusterScopedQuota{}
	case quota.KindLimitedResource:
		return &placementv1.LimitedResource{}
	default:
		return nil
	}
}

// checkQuota returns the errors and warnings with which the API server and Berth's webhook would answer if a ScopedQuota, a
// ClusterScopedQuota, or a LimitedResource was created. If there are errors, there are no warnings.
func checkQuota(ctx context.Context, cluster simulation.Cluster, h *quotaspec.Handler, obj *unstructured.Unstructured) checked {
	out := checked{Object: simulation.Describe(obj)}
	object := newQuotaObject(obj.GetKind())
	out.Errors = decodeStrictly(ctx, obj.GetKind(), obj, object)
	for _, err := range h.Errors(object, nil) {
		out.Errors = append(out.Errors, printable.Text(err.Error()))
	}
	if len(out.Errors) > 0 {
		return out
	}
	_, namespaced := object.(*placementv1.ScopedQuota)
	switch {
	case namespaced && obj.GetNamespace() == "":
		object.SetNamespace(metav1.NamespaceDefault)
	case !namespaced && obj.GetNamespace() != "":
		// The API server drops it without a word.
		object.SetNamespace("")
		out.Warnings = append(out.Warnings, fmt.Sprintf("metadata.namespace has no effect: a %s is in no namespace. Select namespaces in "+
			"spec.namespaceSelector", obj.GetKind()))
	}
	out.Warnings = slices.Concat(out.Warnings, warnOfNamespace(ctx, cluster, h.Namespaces, object.GetNamespace()), h.Warnings(ctx, object),
		h.WarningsOfExisting(ctx, object))
	return out
}

// warnOfNamespace returns a warning if the namespace with the name does not exist in a cluster of which the namespaces are known: the API
// server refuses objects there. Another one says that the namespaces can't be read. An empty name is that of no namespace.
func warnOfNamespace(ctx context.Context, cluster simulation.Cluster, namespaces quotaspec.Namespaces, name string) []string {
	if namespaces == nil || name == "" || slices.Contains(initialNamespaces, name) {
		return nil
	}
	objects, err := cluster.List(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), nil)
	if err == nil && len(objects) == 0 {
		// Files need not have the namespaces of their objects.
		return nil
	}
	all, listErr := namespaces.All(ctx)
	if err := cmp.Or(err, listErr); err != nil {
		return []string{fmt.Sprintf("metadata.namespace: cannot check that the namespace exists: %v", err)}
	}
	known := slices.Sorted(maps.Keys(maps.Collect(all)))
	if text := absent.Values("namespace", absent.Name, []string{name}, known, "so that the API server refuses the object"); text != "" {
		return []string{"metadata.namespace: " + text}
	}
	return nil
}

// initialNamespaces are the namespaces that each API server creates itself.
var initialNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// namesOf lists the names of the objects of one type in a cluster, such as PriorityClasses, together with those that each API server has,
// which the cluster may not list.
type namesOf struct {
	cluster  simulation.Cluster
	resource schema.GroupVersionResource
	// always are the names of objects of the type that each API server has, such as system-node-critical for PriorityClasses; nil for none.
	always []string
}

// priorityClassesOf returns the lister of the names of a cluster's PriorityClasses.
func priorityClassesOf(cluster simulation.Cluster) namesOf {
	return namesOf{cluster, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"),
		[]string{"system-cluster-critical", "system-node-critical"}}
}

// Names returns the names of all objects of the type, and those in always. It is an error if an API server does not serve the type.
func (n namesOf) Names(ctx context.Context) ([]string, error) {
	objects, err := n.cluster.List(ctx, n.resource, nil)
	out := n.always
	for _, obj := range objects {
		out = append(out, obj.GetName())
	}
	return out, err
}

// quotasOf reads a cluster for the webhook that checks quotas and LimitedResources. Of client.Reader, it implements only List, for quotas,
// LimitedResources, ResourceQuotas, LimitRanges, Pods, and PriorityClasses. A call of Get panics.
type quotasOf struct {
	client.Reader
	cluster simulation.Cluster
}

// List lists ScopedQuotas, ClusterScopedQuotas, LimitedResources, ResourceQuotas, LimitRanges, Pods, or PriorityClasses; none if the
// cluster does not serve the type. Another type is an error. Of the options, only the namespace counts.
func (q quotasOf) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	in := (&client.ListOptions{}).ApplyOptions(options).Namespace
	own := placementv1.GroupVersion.WithResource
	core := corev1.SchemeGroupVersion.WithResource
	var err error
	switch l := list.(type) {
	case *placementv1.ScopedQuotaList:
		l.Items, err = itemsOf[placementv1.ScopedQuota](ctx, q.cluster, own("scopedquotas"), in)
	case *placementv1.ClusterScopedQuotaList:
		l.Items, err = itemsOf[placementv1.ClusterScopedQuota](ctx, q.cluster, own("clusterscopedquotas"), "")
	case *placementv1.LimitedResourceList:
		l.Items, err = itemsOf[placementv1.LimitedResource](ctx, q.cluster, own("limitedresources"), "")
	case *corev1.ResourceQuotaList:
		l.Items, err = itemsOf[corev1.ResourceQuota](ctx, q.cluster, core("resourcequotas"), in)
	case *corev1.LimitRangeList:
		l.Items, err = itemsOf[corev1.LimitRange](ctx, q.cluster, core("limitranges"), in)
	case *corev1.PodList:
		l.Items, err = itemsOf[corev1.Pod](ctx, q.cluster, core("pods"), in)
	case *schedulingv1.PriorityClassList:
		l.Items, err = itemsOf[schedulingv1.PriorityClass](ctx, q.cluster, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), "")
	default:
		err = fmt.Errorf("%T can't be listed", list)
	}
	return err
}

// itemsOf returns the objects of a type in a namespace, or in all if namespace is empty. There are none if the type is not served.
func itemsOf[T any](ctx context.Context, cluster simulation.Cluster, resource schema.GroupVersionResource, namespace string) ([]T, error) {
	if _, served := cluster.Catalog().Exact(resource); !served {
		return nil, nil
	}
	objects, err := cluster.List(ctx, resource, nil)
	var out []T
	for _, obj := range objects {
		if namespace != "" && obj.GetNamespace() != namespace {
			continue
		}
		var item T
		if err := numeral.FromUnstructured(obj.Object, &item); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), apischema.Explain(obj.GetKind(), obj.Object, err))
		}
		out = append(out, item)
	}
	return out, err
}
