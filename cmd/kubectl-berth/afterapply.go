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

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/simulation"
)

// afterApply is a cluster as it is after manifests are applied. It leaves out manifests without a name, those of types that the cluster
// does not serve, and those of Berth's API that are not valid.
type afterApply struct {
	simulation.Cluster
	policies map[string]placementv1.PlacementPolicy                                              // Those among the manifests, by name.
	objects  map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured // The manifests.
}

func newAfterApply(ctx context.Context, cluster simulation.Cluster, manifests []*unstructured.Unstructured) *afterApply {
	out := &afterApply{
		Cluster: cluster, policies: map[string]placementv1.PlacementPolicy{},
		objects: map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{},
	}
	for _, obj := range manifests {
		out.add(ctx, obj)
	}
	return out
}

// add adds a manifest, unless afterApply leaves it out. Of two manifests of one object, the last one counts.
func (a *afterApply) add(ctx context.Context, obj *unstructured.Unstructured) {
	resource, err := a.Resource(obj.GroupVersionKind())
	if err != nil || obj.GetName() == "" {
		return
	}
	obj = obj.DeepCopy()
	switch {
	case !resource.Namespaced:
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	if stored, err := a.Cluster.Get(ctx, resource.GroupVersionResource, obj.GetNamespace(), obj.GetName()); err == nil && stored != nil &&
		resource.Group == placementv1.GroupVersion.Group && stored.Object["status"] != nil {
		// An update does not change the status.
		obj.Object["status"] = stored.Object["status"]
	}
	switch object := newQuotaObject(obj.GetKind()); {
	case resource.Group != placementv1.GroupVersion.Group:
	case object != nil:
		if len(decodeStrictly(ctx, obj.GetKind(), obj, object)) > 0 {
			return
		}
	default:
		p, mistakes := decodePolicy(ctx, obj)
		if len(mistakes) > 0 {
			return
		}
		a.policies[p.Name] = *p
	}
	if a.objects[resource.GroupVersionResource] == nil {
		a.objects[resource.GroupVersionResource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	a.objects[resource.GroupVersionResource][types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}] = obj
}

// Policies implements simulation.Cluster: the policies of the cluster, with those of the manifests added, or in place of theirs. A cluster
// that does not serve policies has those of the manifests alone.
func (a *afterApply) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	all := map[string]placementv1.PlacementPolicy{}
	if _, served := a.Catalog().Exact(placementv1.GroupVersion.WithResource("placementpolicies")); served {
		existing, err := a.Cluster.Policies(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range existing {
			all[p.Name] = p
		}
	}
	maps.Copy(all, a.policies)
	out := make([]placementv1.PlacementPolicy, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out, nil
}

// List implements simulation.Cluster: the objects of the cluster, with those of the manifests added, or in place of theirs.
func (a *afterApply) List(ctx context.Context, resource schema.GroupVersionResource,
	fields *projection.FieldSet) ([]*unstructured.Unstructured, error) {
	existing, err := a.Cluster.List(ctx, resource, fields)
	applied := a.objects[resource]
	if err != nil || len(applied) == 0 {
		return existing, err
	}
	out := slices.DeleteFunc(slices.Clone(existing), func(obj *unstructured.Unstructured) bool {
		_, replaced := applied[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}]
		return replaced
	})
	out = slices.AppendSeq(out, maps.Values(applied))
	slices.SortFunc(out, func(x, y *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
	})
	return out, nil
}

// Get implements simulation.Cluster: the manifest of the object if there is one, or else the object of the cluster; nil, without an error,
// if there is neither.
func (a *afterApply) Get(ctx context.Context, resource schema.GroupVersionResource, namespace,
	name string) (*unstructured.Unstructured, error) {
	if obj := a.objects[resource][types.NamespacedName{Namespace: namespace, Name: name}]; obj != nil {
		return obj, nil
	}
	return a.Cluster.Get(ctx, resource, namespace, name)
}

// NamespacesInUse returns the names of the namespaces that the objects of the cluster and the manifests are in, if the cluster is read from
// files; see simulation.NamespacesOf. It returns nil for an API server, which has its namespaces itself.
func (a *afterApply) NamespacesInUse() []string {
	files, ok := a.Cluster.(*simulation.Static)
	if !ok {
		return nil
	}
	return append(files.NamespacesInUse(), simulation.NamespacesOf(a.objects, a.Catalog().Inventories())...)
}

// warnOfReplaced adds a warning to the result of each object that a later one of the same kind, namespace, and name replaces with other
// content.
func warnOfReplaced(results []checked, objects []*unstructured.Unstructured) {
	last := map[string]int{}
	for i, obj := range objects {
		last[simulation.Describe(obj)] = i
	}
	for i, obj := range objects {
		if j := last[simulation.Describe(obj)]; j != i && obj.GetName() != "" && !equality.Semantic.DeepEqual(obj.Object, objects[j].Object) {
			results[i].Warnings = append(results[i].Warnings, fmt.Sprintf("a later %s in the files has the same name and replaces this one",
				obj.GetKind()))
		}
	}
}
