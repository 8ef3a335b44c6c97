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

package simulation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/watches"
)

// Live is the cluster of an API server. It reads with the permissions of the user in the client configuration.
type Live struct {
	catalog   *watches.Catalog
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper // finds the type of a kind
	client    dynamic.Interface
	types     *schemas.Checker // compares policies with the schemas that the API server publishes
}

var _ Cluster = (*Live)(nil)

// pageSize is the number of objects that one request lists.
const pageSize = 500

// NewLive returns the cluster of the API server that a client configuration names. It runs discovery.
func NewLive(ctx context.Context, config *rest.Config, inventories *replication.Inventories) (*Live, error) {
	config = rest.CopyConfig(config)
	// The API server sends a warning for each deprecated type that is listed.
	config.WarningHandler = rest.NoWarnings{}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(discoveryClient)
	out := &Live{catalog: watches.NewCatalog(cached, inventories), discovery: cached, client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}
	out.types = schemas.NewChecker(out.catalog, cached.OpenAPIV3())
	return out, out.catalog.Refresh(ctx)
}

// Discovery returns the types that the API server serves, without groups whose types can't be read. It caches the result of discovery.
func (l *Live) Discovery() (Discovery, error) {
	groups, resources, err := discovery.ServerGroupsAndResources(l.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return Discovery{}, fmt.Errorf("asking the API server what it serves: %w", err)
	}
	return Discovery{Groups: groups, Resources: resources}, nil
}

// TypeChecker returns the checker that compares policies with the schemas that the API server publishes.
func (l *Live) TypeChecker() *schemas.Checker { return l.types }

// Catalog returns the types that the API server served when the catalog was last refreshed, for the first time by NewLive.
func (l *Live) Catalog() *watches.Catalog { return l.catalog }

// Resource returns the type of the objects of a kind, from the result of discovery. The error says what to do if the kind is not served.
func (l *Live) Resource(gvk schema.GroupVersionKind) (policy.Resource, error) {
	mapping, err := l.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return policy.Resource{}, fmt.Errorf("the API server does not serve the kind %s of %s: install its CustomResourceDefinition, or correct "+
			"apiVersion and kind", gvk.Kind, gvk.GroupVersion())
	}
	if err != nil {
		return policy.Resource{}, err
	}
	return policy.Resource{GroupVersionResource: mapping.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// Policies returns all PlacementPolicies. It reads them from the API server each time.
func (l *Live) Policies(ctx context.Context) ([]placementv1.PlacementPolicy, error) {
	return policiesOf(l.List(ctx, placementPolicies, nil))
}

var placementPolicies = placementv1.GroupVersion.WithResource("placementpolicies")

// policiesOf decodes the result of a list of PlacementPolicies. If the user may not list them, or the API server does not serve them, the
// error says what to do.
func policiesOf(objects []*unstructured.Unstructured, err error) ([]placementv1.PlacementPolicy, error) {
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("you may not read PlacementPolicies, so what they decide is not known. An administrator can bind the ClusterRole "+
			"whose name ends with placementpolicy-viewer-role to you; until then, kubectl berth explain TYPE/NAME shows what is recorded at an "+
			"object, and kubectl apply --dry-run=server -o yaml -f FILE what policies decide for a manifest: %w", err)
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the API server has no PlacementPolicies: install Berth, or check the kubeconfig's context")
	}
	if err != nil {
		return nil, err
	}
	out := make([]placementv1.PlacementPolicy, len(objects))
	for i, obj := range objects {
		if err := numeral.FromUnstructured(obj.Object, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", Describe(obj), err)
		}
	}
	return out, nil
}

// List returns all objects of a type. AddOnPlacementScores that are no longer valid have no scores. It reads the objects from the API
// server each time, page by page, and keeps only the given fields of each object and its identity; all fields if fields is nil.
func (l *Live) List(ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet) ([]*unstructured.Unstructured,
	error) {
	objects, _, err := l.list(ctx, resource, fields)
	return valid(resource, objects), err
}

// valid returns all objects of a live cluster; AddOnPlacementScores that are no longer valid now (replication.Valid) lose their scores.
// Other clusters do not use it, because their objects are from another time.
func valid(resource schema.GroupVersionResource, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	if _, ok := replication.ValidityFields(resource); !ok {
		return objects
	}
	now, out := time.Now(), make([]*unstructured.Unstructured, len(objects))
	for i, obj := range objects {
		out[i], _ = replication.Valid(resource, obj, now)
	}
	return out
}

// list lists a type as List does, and also returns the resource version of the list. AddOnPlacementScores that are no longer valid still
// have their scores.
func (l *Live) list(
	ctx context.Context, resource schema.GroupVersionResource, fields *projection.FieldSet,
) (out []*unstructured.Unstructured, version string, err error) {
	keep := keptFields(watches.WithValidity(resource, fields))
	lists := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page, err := l.client.Resource(resource).List(ctx, o)
		if err == nil {
			// All pages have the version of the first one, unless the API server no longer has that.
			version = page.GetResourceVersion()
		}
		return page, err
	})
	lists.PageSize = pageSize
	err = lists.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		obj, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("listing %s: unexpected type %T", resource.GroupResource(), item)
		}
		if keep != nil {
			obj = &unstructured.Unstructured{Object: keep.Project(obj.Object)}
		}
		out = append(out, obj)
		return nil
	})
	if apierrors.IsForbidden(err) {
		return nil, "", fmt.Errorf("you may not list %s, which are needed for the answer: ask for the right to list %s, or use a snapshot (%w)",
			resource.GroupResource(), resource.GroupResource(), err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	return out, version, nil
}

// keptFields adds IdentityFields to some fields; nil stands for all fields.
func keptFields(fields *projection.FieldSet) *projection.FieldSet {
	if fields == nil {
		return nil
	}
	return projection.Union(IdentityFields(), fields)
}

// IdentityFields returns the sealed set of the fields that each object of a Cluster has: apiVersion, kind, labels, annotations, owner
// references, and of the other metadata the names, the UID, resourceVersion, generation, and deletionTimestamp.
func IdentityFields() *projection.FieldSet {
	own := &projection.FieldSet{}
	own.AddName("apiVersion")
	own.AddName("kind")
	metadata := own.AddName("metadata")
	for _, name := range []string{"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "deletionTimestamp"} {
		metadata.AddName(name)
	}
	for _, name := range []string{"labels", "annotations", "ownerReferences"} {
		metadata.AddName(name).AddAll()
	}
	return own.Seal()
}

// Get returns an object, or nil if there is none. It reads from the API server each time.
func (l *Live) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := l.client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}
