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
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/apischema"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/watches"
)

// Discovery is what discovery returns for a cluster: its API groups, and the types of each group and version.
type Discovery struct {
	Groups    []*metav1.APIGroup        `json:"groups"`    // the API groups with their versions
	Resources []*metav1.APIResourceList `json:"resources"` // the types of each group and version
}

// kubernetes is what discovery returns for an API server without custom resources and without flags. A test compares it
// with the API server.
//
//go:embed kubernetes.json
var kubernetes []byte

// KubernetesMinor is the minor version of Kubernetes whose types KubernetesDiscovery returns.
const KubernetesMinor = "36"

// KubernetesDiscovery returns the types of Kubernetes itself, in the version that Berth is built for.
func KubernetesDiscovery() Discovery {
	var out Discovery
	if err := json.Unmarshal(kubernetes, &out); err != nil {
		panic(fmt.Sprintf("kubernetes.json: %v", err))
	}
	return out
}

// Static is a Cluster whose content does not change.
type Static struct {
	catalog      *watches.Catalog
	resources    map[schema.GroupVersionKind]policy.Resource // the type of each kind
	objects      map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured
	policies     []placementv1.PlacementPolicy // the PlacementPolicies among the objects
	fromSnapshot bool                          // whether the cluster is that of a snapshot, with all types that its API server served
}

var _ Cluster = (*Static)(nil)

// NewStatic returns a cluster that serves the discovered types and has the objects. The PlacementPolicies among them are its policies. The
// CustomResourceDefinitions among them add their types. A kind that nothing else defines gets the plural name that Kubernetes would guess,
// and is namespaced if an object of it has a namespace.
//
// Of two objects with one name, the last one counts. Objects of namespaced types without a namespace are in the namespace "default". An
// error names the object.
func NewStatic(served Discovery, inventories *replication.Inventories, objects ...*unstructured.Unstructured) (*Static, error) {
	d := newDefinitions(served)
	for _, obj := range objects {
		if err := d.addDefinition(obj); err != nil {
			return nil, err
		}
	}
	for _, obj := range objects {
		d.guess(obj)
	}
	out := &Static{
		resources: d.resources, objects: map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{},
		catalog: watches.NewStaticCatalog(d.Groups, d.Resources, inventories),
	}
	for i, obj := range objects {
		if err := out.add(obj); err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(Describe(obj), fmt.Sprintf("object %d", i+1)), err)
		}
	}
	slices.SortFunc(out.policies, func(a, b placementv1.PlacementPolicy) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Describe returns the kind and name of an object for messages, for example "Deployment shop/web".
func Describe(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if namespace := obj.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(obj.GetKind() + " " + name)
}

// add adds an object, in place of an earlier one with the same name. An error says why it can't be an object of the cluster.
func (s *Static) add(obj *unstructured.Unstructured) error {
	if obj.GetKind() == "" || obj.GetAPIVersion() == "" {
		return errors.New("apiVersion and kind are required")
	}
	resource, err := s.Resource(obj.GroupVersionKind())
	if err != nil {
		return err
	}
	if obj.GetName() == "" {
		return fmt.Errorf("metadata.name is missing")
	}
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	switch {
	case !resource.Namespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = metav1.NamespaceDefault
	}
	if key.Namespace != obj.GetNamespace() {
		obj = obj.DeepCopy()
		obj.SetNamespace(key.Namespace)
	}
	if s.objects[resource.GroupVersionResource] == nil {
		s.objects[resource.GroupVersionResource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	s.objects[resource.GroupVersionResource][key] = obj
	if resource.GroupVersionResource != placementv1.GroupVersion.WithResource("placementpolicies") {
		return nil
	}
	var p placementv1.PlacementPolicy
	if err := numeral.FromUnstructuredStrictly(obj.Object, &p); err != nil {
		return apischema.Explain("PlacementPolicy", obj.Object, err)
	}
	s.policies = append(slices.DeleteFunc(s.policies, func(q placementv1.PlacementPolicy) bool { return q.Name == p.Name }), p)
	return nil
}

// FromSnapshot reports whether the cluster is that of a snapshot, which has all types that its API server served. Otherwise, the types are
// those of Kubernetes itself and of the objects, and an API server may serve more.
func (s *Static) FromSnapshot() bool { return s.fromSnapshot }

// NamespacesInUse returns the sorted names of the namespaces that objects are in, as NamespacesOf does. The Namespaces themselves need not
// be among the objects.
func (s *Static) NamespacesInUse() []string { return NamespacesOf(s.objects, s.catalog.Inventories()) }

// NamespacesOf returns the sorted names of the namespaces that objects are in, other than those of Berth's kinds and the objects that
// represent clusters, whose namespaces say nothing of those of workloads.
func NamespacesOf(objects map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured,
	inventories *replication.Inventories) []string {
	found := sets.New[string]()
	for resource, named := range objects {
		if resource.Group == placementv1.GroupVersion.Group || resource == replication.AddOnPlacementScores ||
			slices.Contains(inventories.Resources(), resource) {
			continue
		}
		for name := range named {
			found.Insert(name.Namespace)
		}
	}
	return sets.List(found.Delete(""))
}

// Catalog returns the types that the cluster serves: the discovered ones, and those of the objects.
func (s *Static) Catalog() *watches.Catalog { return s.catalog }

// TypeChecker returns a checker of policies, never nil, that knows the fields of the kinds of Kubernetes itself. That of a snapshot knows
// the fields of no kind, because a later version of Kubernetes can have more.
func (s *Static) TypeChecker() *schemas.Checker {
	if s.fromSnapshot {
		return schemas.NewChecker(s.catalog, nil)
	}
	return schemas.NewStaticChecker(s.catalog)
}

// Policies returns the PlacementPolicies among the objects as they are written, without defaults, sorted by name. The error is always nil.
func (s *Static) Policies(context.Context) ([]placementv1.PlacementPolicy, error) {
	return s.policies, nil
}

// Resource returns the type of the objects of a kind: of those of the discovered types, of CustomResourceDefinitions, and of the objects.
// The error says what to do for another kind.
func (s *Static) Resource(gvk schema.GroupVersionKind) (policy.Resource, error) {
	if r, ok := s.resources[gvk]; ok {
		return r, nil
	}
	return policy.Resource{}, fmt.Errorf("the kind %s of %s is not known: add its CustomResourceDefinition or an object of it to the "+
		"objects of the cluster, in a test to world or objects", gvk.Kind, gvk.GroupVersion())
}

// List returns all objects of a type with all fields, sorted by namespace and name. It is an error if there are only objects of another
// version of the type.
func (s *Static) List(_ context.Context, resource schema.GroupVersionResource, _ *projection.FieldSet) ([]*unstructured.Unstructured,
	error) {
	objects := s.objects[resource]
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, key := range slices.SortedFunc(maps.Keys(objects), compareNames) {
		out = append(out, objects[key])
	}
	if len(out) > 0 {
		return out, nil
	}
	for other, found := range s.objects {
		if other.GroupResource() == resource.GroupResource() && len(found) > 0 {
			return nil, fmt.Errorf("policies read %s in version %s, and the objects are of version %s: write them in version %s",
				resource.GroupResource(), resource.Version, other.Version, resource.Version)
		}
	}
	return out, nil
}

// compareNames compares names by namespace and then by name.
func compareNames(a, b types.NamespacedName) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Get returns an object, or nil if there is none in this version of the type. The error is always nil.
func (s *Static) Get(_ context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.objects[resource][types.NamespacedName{Namespace: namespace, Name: name}], nil
}

// wellKnown are the types of Berth itself, and the inventory that Kubernetes defines, which is in most of the clusters that
// have policies on clusters.
var wellKnown = []struct {
	schema.GroupVersion
	metav1.APIResource
}{
	{placementv1.GroupVersion, metav1.APIResource{Kind: "PlacementPolicy", Name: "placementpolicies", SingularName: "placementpolicy",
		ShortNames: []string{"plpol"}}},
	{placementv1.GroupVersion, metav1.APIResource{Kind: "ScopedQuota", Name: "scopedquotas", SingularName: "scopedquota", Namespaced: true}},
	{placementv1.GroupVersion, metav1.APIResource{Kind: "ClusterScopedQuota", Name: "clusterscopedquotas",
		SingularName: "clusterscopedquota"}},
	{placementv1.GroupVersion, metav1.APIResource{Kind: "LimitedResource", Name: "limitedresources", SingularName: "limitedresource"}},
	{
		schema.GroupVersion{Group: "multicluster.x-k8s.io", Version: "v1alpha1"},
		metav1.APIResource{Kind: "ClusterProfile", Name: "clusterprofiles", SingularName: "clusterprofile", Namespaced: true},
	},
}

// definitions has the types of a Static while it is built.
type definitions struct {
	Discovery
	// resources has the type of each kind: discovered, of a CustomResourceDefinition, or guessed from an object.
	resources map[schema.GroupVersionKind]policy.Resource
}

// newDefinitions returns the discovered types, and those of wellKnown.
func newDefinitions(served Discovery) *definitions {
	d := &definitions{resources: map[schema.GroupVersionKind]policy.Resource{}}
	// The lists grow, and belong to the caller.
	d.Groups = slices.Clone(served.Groups)
	for _, list := range served.Resources {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		d.Resources = append(d.Resources, list)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				d.resources[gv.WithKind(r.Kind)] = policy.Resource{GroupVersionResource: gv.WithResource(r.Name), Namespaced: r.Namespaced}
			}
		}
	}
	for _, own := range wellKnown {
		d.add(own.GroupVersion, own.APIResource)
	}
	return d
}

// add adds a type or a subresource of a group and version, unless it is known.
func (d *definitions) add(gv schema.GroupVersion, r metav1.APIResource) {
	i := slices.IndexFunc(d.Resources, func(l *metav1.APIResourceList) bool { return l.GroupVersion == gv.String() })
	list := &metav1.APIResourceList{GroupVersion: gv.String()}
	if i >= 0 {
		list = d.Resources[i].DeepCopy()
	}
	if slices.ContainsFunc(list.APIResources, func(known metav1.APIResource) bool { return known.Name == r.Name }) {
		return
	}
	r.Verbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	list.APIResources = append(list.APIResources, r)
	if !strings.Contains(r.Name, "/") {
		d.resources[gv.WithKind(r.Kind)] = policy.Resource{GroupVersionResource: gv.WithResource(r.Name), Namespaced: r.Namespaced}
	}
	if i >= 0 {
		d.Resources[i] = list
		return
	}
	d.Resources = append(d.Resources, list)
	d.addVersion(gv)
}

// addVersion adds a version to its group, and makes the version preferred that the API server would prefer.
func (d *definitions) addVersion(gv schema.GroupVersion) {
	added := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	i := slices.IndexFunc(d.Groups, func(g *metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		d.Groups = append(d.Groups, &metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{added}, PreferredVersion: added})
		return
	}
	group := d.Groups[i].DeepCopy()
	group.Versions = append(group.Versions, added)
	group.PreferredVersion = slices.MaxFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
		return version.CompareKubeAwareVersionStrings(a.Version, b.Version)
	})
	d.Groups[i] = group
}

// addDefinition adds the types of a CustomResourceDefinition. It ignores other objects.
func (d *definitions) addDefinition(obj *unstructured.Unstructured) error {
	if gk := obj.GroupVersionKind().GroupKind(); gk != apiextensionsv1.Kind("CustomResourceDefinition") {
		return nil
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := numeral.FromUnstructured(obj.Object, &crd); err != nil {
		return fmt.Errorf("%s: %w", Describe(obj), err)
	}
	names := crd.Spec.Names
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		d.add(gv, metav1.APIResource{
			Name: names.Plural, SingularName: names.Singular, Kind: names.Kind, ShortNames: names.ShortNames,
			Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		})
		if v.Subresources != nil && v.Subresources.Scale != nil {
			d.add(gv, metav1.APIResource{Name: names.Plural + "/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"})
		}
	}
	return nil
}

// guess adds the type of an object with a guessed plural name, unless the kind is known.
func (d *definitions) guess(obj *unstructured.Unstructured) {
	gvk := obj.GroupVersionKind()
	if _, known := d.resources[gvk]; known || gvk.Kind == "" || gvk.Version == "" {
		return
	}
	plural, singular := meta.UnsafeGuessKindToResource(gvk)
	d.add(gvk.GroupVersion(), metav1.APIResource{
		Name: plural.Resource, SingularName: singular.Resource, Kind: gvk.Kind, Namespaced: obj.GetNamespace() != "",
	})
}
