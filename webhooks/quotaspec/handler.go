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

// Package quotaspec provides the validating webhook for quotas and LimitedResources. It refuses what the API server would refuse of a
// ResourceQuota and the schema admits. It warns about what they can't count or limit, because a type that a quota names may be installed
// later.
package quotaspec

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/suggest"
)

// Catalog knows the types that the API server serves, and can read them from the API server again.
type Catalog interface {
	// Served returns the types as they were last read.
	Served() *match.ServedTypes
	// Refresh reads the types again.
	Refresh(ctx context.Context) error
}

// Namespaces reads the labels of all namespaces.
type Namespaces interface {
	// All yields the name and labels of each existing namespace. Callers must not modify the labels.
	All(ctx context.Context) (iter.Seq2[string, map[string]string], error)
}

// Nodes reads the names of the extended resources that the nodes of the served cluster have.
type Nodes interface {
	// ExtendedResources returns the sorted names of the extended resources that nodes have. ok is false if there are no nodes, or too many to
	// read.
	ExtendedResources(ctx context.Context) (names []string, ok bool, err error)
}

// Capacity reads how much CPU and memory pods can request of all clusters and nodes together.
type Capacity interface {
	// All returns the amounts of CPU and memory. One that is not known of each cluster and node is missing.
	All(ctx context.Context) (corev1.ResourceList, error)
}

// Classes lists the names of the existing classes of one kind, such as PriorityClass or StorageClass, and nothing else of them.
type Classes interface {
	// Names returns the names of all classes.
	Names(ctx context.Context) ([]string, error)
}

var _ admission.Handler = (*Handler)(nil)

// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattributesclasses,verbs=list

// Handler refuses quotas and LimitedResources with mistakes, and warns about probable mistakes. It is safe for concurrent use.
type Handler struct {
	Catalog    Catalog
	Evaluators *quota.Evaluators
	// Namespaces reads the labels of all namespaces. If it is nil, nothing is checked that depends on them, such as selectors.
	Namespaces Namespaces
	// Classes lists the PriorityClasses. If it is nil, it is not checked whether they exist.
	Classes Classes
	// StorageClasses and VolumeAttributesClasses list the classes of these kinds. If one is nil, it is not checked whether they exist.
	StorageClasses, VolumeAttributesClasses Classes
	// Nodes reads the nodes. If it is nil, it is not checked whether nodes have the extended resources that quotas and LimitedResources name.
	Nodes Nodes
	// Capacity reads what clusters and nodes have. If it is nil, amounts are not compared with it.
	Capacity Capacity
	// OwnNamespace is Berth's own namespace in the served cluster; empty if there is none. Nothing is counted in it, so that no selector
	// counts as selecting it.
	OwnNamespace string
	Decoder      admission.Decoder
	// Live reads from the API server, and Cache from a cache, the objects with which quotas and LimitedResources are compared: each other,
	// and, by Live alone, ResourceQuotas, LimitRanges, pods, and PriorityClasses. If Live is nil, they are not compared.
	Live, Cache client.Reader
}

// Handle implements admission.Handler. It refuses a quota or LimitedResource with mistakes (see Errors) as invalid, status 422, and one
// that can't be decoded with status 400. It admits others, with the result of Warnings and, for a new object, of WarningsOfExisting.
func (h *Handler) Handle(ctx context.Context, r admission.Request) admission.Response {
	object, old := newObject(r.Kind.Kind), newObject(r.Kind.Kind)
	if object == nil {
		return admission.Allowed("")
	}
	err := h.Decoder.Decode(r, object)
	switch {
	case err != nil:
	case r.Operation == admissionv1.Update:
		err = h.Decoder.DecodeRaw(r.OldObject, old)
	default:
		old = nil
	}
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if errs := h.Errors(object, old); len(errs) > 0 {
		refusal := apierrors.NewInvalid(placementv1.GroupVersion.WithKind(r.Kind.Kind).GroupKind(), object.GetName(), errs)
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &refusal.ErrStatus}}
	}
	out := admission.Allowed("").WithWarnings(h.Warnings(ctx, object)...)
	if r.Operation == admissionv1.Create {
		out = out.WithWarnings(h.WarningsOfExisting(ctx, object)...)
	}
	return out
}

// newObject returns an empty ScopedQuota, ClusterScopedQuota, or LimitedResource, or nil for another kind, whose objects are admitted
// unchecked.
func newObject(kind string) client.Object {
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

// Errors returns the mistakes for which a ScopedQuota, a ClusterScopedQuota, or a LimitedResource is refused. old is the object before an
// update, whose mistakes may stay; nil for a new one.
func (h *Handler) Errors(object, old client.Object) field.ErrorList {
	switch o := object.(type) {
	case placementv1.Quota:
		var before *placementv1.QuotaSpec
		if q, updated := old.(placementv1.Quota); updated {
			before = q.QuotaSpec()
		}
		return quota.CheckSpec(o.QuotaSpec(), before, h.Catalog.Served())
	case *placementv1.LimitedResource:
		var before *placementv1.LimitedResourceSpec
		if l, updated := old.(*placementv1.LimitedResource); updated {
			before = &l.Spec
		}
		return quota.CheckLimit(&o.Spec, before)
	default:
		return nil
	}
}

// Warnings returns the warnings about a ScopedQuota, a ClusterScopedQuota, or a LimitedResource; none about other objects.
func (h *Handler) Warnings(ctx context.Context, object client.Object) []string {
	switch o := object.(type) {
	case *placementv1.ScopedQuota:
		return slices.Concat(h.warnOfQuota(ctx, o.QuotaSpec()), h.warnOfUsage(o, o.Status.Used), h.warnOfCoverage(ctx, o))
	case *placementv1.ClusterScopedQuota:
		out := h.warnOfQuota(ctx, o.QuotaSpec())
		if o.Spec.NamespaceSelector == nil {
			out = append(out, "spec.namespaceSelector is not set: all namespaces share the amounts of spec.hard. Select the namespaces that share "+
				"them, or set namespaceSelector: {} for all")
		}
		return slices.Concat(out, h.warnOfUsage(o, o.Status.Used), h.warnOfSelector(ctx, o.Spec.NamespaceSelector), h.warnOfCoverage(ctx, o))
	case *placementv1.LimitedResource:
		out := h.warnOfType(ctx, schema.GroupResource{Group: o.Spec.APIGroup, Resource: o.Spec.Resource}, "spec.resource: ",
			"nothing is limited until the API server does", suggestLimited)
		if len(out) == 0 {
			out = h.Evaluators.CheckMatchContains(&o.Spec).Findings
		}
		return slices.Concat(out, h.warnOfExtendedParts(ctx, &o.Spec), h.warnOfClasses(ctx, o.Spec.MatchScopes, "spec.matchScopes"),
			h.warnOfSelector(ctx, o.Spec.NamespaceSelector), h.warnOfCoverage(ctx, o))
	default:
		return nil
	}
}

// warnOfQuota warns about an empty spec.hard, names in it that can't be counted or that nothing in the cluster has, implausible amounts,
// and scopes with which nothing is counted.
func (h *Handler) warnOfQuota(ctx context.Context, spec *placementv1.QuotaSpec) []string {
	if len(spec.Hard) == 0 {
		return []string{"spec.hard is empty: the quota limits nothing. Write what it limits, such as hard: {pods: \"10\"}"}
	}
	types, untracked := h.Evaluators.Types(spec)
	var out []string
	for _, name := range untracked {
		out = append(out, fmt.Sprintf("spec.hard[%s]: Berth counts nothing under this name%s", name,
			quota.ExplainUntracked(name, h.Catalog.Served())))
	}
	for _, t := range slices.SortedFunc(maps.Keys(types), func(a, b schema.GroupResource) int {
		return slices.Compare([]string{a.Group, a.Resource}, []string{b.Group, b.Resource})
	}) {
		out = append(out, h.warnOfType(ctx, t, fmt.Sprintf("spec.hard[%s]: ", types[t][0]), "nothing is counted until the API server does",
			quota.SuggestCounted)...)
	}
	out = slices.Concat(out, h.Evaluators.ImplausibleAmounts(spec), h.warnOfCapacity(ctx, spec))
	scoping := h.Evaluators.CheckScopes(spec)
	out = append(out, scoping.Uncounted...)
	if scoping.CountsNothing != "" && !slices.Contains(out, scoping.CountsNothing) {
		out = append(out, scoping.CountsNothing)
	}
	out = append(out, h.warnOfStorageClasses(ctx, spec)...)
	for _, name := range h.Evaluators.UnknownDeviceClasses(spec) {
		out = append(out, fmt.Sprintf("spec.hard: there is no DeviceClass %s: no device of the class is allocated until the class is created",
			name))
	}
	out = append(out, h.Evaluators.MisspeltDevices(spec)...)
	out = append(out, h.warnOfExtended(ctx, spec)...)
	if spec.ScopeSelector != nil {
		out = append(out, h.warnOfClasses(ctx, spec.ScopeSelector.MatchExpressions, "spec.scopeSelector")...)
	}
	return out
}

// warnOfCapacity warns about amounts of CPU and memory that are much more than all clusters and nodes have. It reads what these have only
// for large amounts. If that fails, the only warning says so.
func (h *Handler) warnOfCapacity(ctx context.Context, spec *placementv1.QuotaSpec) []string {
	if h.Capacity == nil || len(quota.LargeRequests(spec)) == 0 {
		return nil
	}
	capacity, err := h.Capacity.All(ctx)
	if err != nil {
		return []string{fmt.Sprintf("spec.hard: cannot compare the amounts with those of clusters and nodes: %v", err)}
	}
	return h.Evaluators.BeyondCapacity(spec, capacity)
}

// suggestLimited returns a question that suggests the served type that is probably meant by t, such as " (did you mean deployments.apps?)",
// for appending to a message; "" for none.
func suggestLimited(t schema.GroupResource, served *match.ServedTypes) string {
	return served.SuggestResource(t)
}

// warnOfType warns if the type t, which field names, is not served as a namespaced type. It reads the served types again before, and does
// not warn if that fails. consequence is the end of the warning, and meant suggests which type is probably meant.
func (h *Handler) warnOfType(ctx context.Context, t schema.GroupResource, field, consequence string, meant func(schema.GroupResource,
	*match.ServedTypes) string) []string {
	if h.Catalog.Served().Namespaced(t) {
		return nil
	}
	if err := h.Catalog.Refresh(ctx); err != nil || h.Catalog.Served().Namespaced(t) {
		return nil
	}
	if h.Catalog.Served().ClusterScoped(t) {
		consequence = "these objects are in no namespace, and quotas count only objects in namespaces"
	}
	return []string{fmt.Sprintf("%sthe API server serves no %s in namespaces%s: %s", field, t, meant(t, h.Catalog.Served()), consequence)}
}

// warnOfClasses warns about priority classes and volume attributes classes in scope requirements that do not exist, and about requirements
// that match pods without a priority class although each pod gets the default one. If it can't read whether a class exists, a warning says
// so.
func (h *Handler) warnOfClasses(ctx context.Context, requirements []placementv1.ScopeRequirement, field string) []string {
	unknown := func(scope corev1.ResourceQuotaScope) func([]string) []string {
		return func(known []string) []string { return quota.UnknownClasses(scope, requirements, known) }
	}
	return slices.Concat(
		warnOfKind(ctx, h.Classes, "PriorityClass", "no pod has the class until the class is created", field,
			unknown(corev1.ResourceQuotaScopePriorityClass)),
		warnOfKind(ctx, h.VolumeAttributesClasses, "VolumeAttributesClass", "no claim can use the class until the class is created", field,
			unknown(corev1.ResourceQuotaScopeVolumeAttributesClass)),
		h.warnOfDefaultClass(ctx, requirements, field),
	)
}

// warnOfStorageClasses warns about storage classes that names in spec.hard contain and that do not exist. If the classes can't be read, the
// only warning says so.
func (h *Handler) warnOfStorageClasses(ctx context.Context, spec *placementv1.QuotaSpec) []string {
	unknown := func(known []string) []string { return quota.UnknownStorageClasses(spec, known) }
	return warnOfKind(ctx, h.StorageClasses, "StorageClass", "no volume of the class is provisioned until the class is created", "spec.hard",
		unknown)
}

// warnOfKind warns about the classes of a kind that an object names in field and that do not exist, as unknown returns them, given all that
// do. consequence is the end of a warning. It reads classes only if the object names one. If that fails, the only warning says so; if
// classes is nil, there is none.
func warnOfKind(ctx context.Context, classes Classes, kind, consequence, field string, unknown func(known []string) []string) []string {
	if classes == nil || len(unknown(nil)) == 0 {
		return nil
	}
	known, err := classes.Names(ctx)
	if err != nil {
		return []string{fmt.Sprintf("%s: cannot check that each %s exists: %v", field, kind, err)}
	}
	var out []string
	for _, name := range unknown(known) {
		meant := ""
		if nearest, ok := suggest.Nearest(name, known); ok {
			meant = fmt.Sprintf(" (did you mean %s?)", nearest)
		}
		out = append(out, fmt.Sprintf("%s: there is no %s %s%s: %s", field, kind, name, meant, consequence))
	}
	return out
}

// warnOfSelector warns if spec.namespaceSelector is invalid, selects no existing namespace, or has a key or a value that no namespace has.
// If the namespaces can't be read, the only warning says so. It returns none for a nil selector.
func (h *Handler) warnOfSelector(ctx context.Context, s *placementv1.NamespaceSelector) []string {
	if s == nil {
		return nil
	}
	fieldPath := field.NewPath("spec", "namespaceSelector")
	if why := match.ReasonSelectsNone(s.Upstream(), h.OwnNamespace); why != "" {
		return []string{fmt.Sprintf("%s: %s", fieldPath, why)}
	}
	selector, err := quota.NamespaceSelector(s)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", fieldPath, err)}
	}
	if h.Namespaces == nil {
		return nil
	}
	all, err := h.Namespaces.All(ctx)
	if err != nil {
		return []string{fmt.Sprintf("%s: can't tell whether any namespace is selected: %v", fieldPath, err)}
	}
	selected := false
	known := absent.LabelsOf("namespace", func(yield func(string, map[string]string) bool) {
		for name, of := range all {
			if match.IsProtectedNamespace(name, h.OwnNamespace) {
				continue
			}
			selected = selected || selector.Matches(labels.Set(of))
			if !yield(name, of) {
				return
			}
		}
	})
	problems := known.Selector(s.Upstream(), fieldPath)
	var out []string
	switch {
	case selected:
		for _, p := range problems {
			out = append(out, fmt.Sprintf("%s: %s", p.Field, p.Text))
		}
	case len(problems) > 0:
		out = append(out, fmt.Sprintf("%s selects none of the namespaces that there are: %s", fieldPath, problems[0].Text))
	default:
		out = append(out, fmt.Sprintf("%s selects none of the namespaces that there are", fieldPath))
	}
	return out
}

// warnOfExtended warns about extended resources in spec.hard that no node has. If there are no nodes, or too many to read, it warns about
// those that are probably a misspelt common one. If reading nodes fails, the only warning says so.
func (h *Handler) warnOfExtended(ctx context.Context, spec *placementv1.QuotaSpec) []string {
	names := h.Evaluators.Extended(spec)
	existing, known, err := h.extendedOfNodes(ctx, len(names) > 0)
	if err != nil {
		return []string{fmt.Sprintf("spec.hard: cannot check that nodes have the resources: %v", err)}
	}
	var out []string
	for _, name := range names {
		bare := strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
		switch meant := quota.MeantExtended(bare); {
		case !known && meant != "":
			out = append(out, fmt.Sprintf("spec.hard[%s]: the resource %s is not a common one, and probably misspelt; did you mean %s%s?", name,
				bare,
				strings.TrimSuffix(string(name), bare), meant))
		case known && !slices.Contains(existing, bare):
			out = append(out, fmt.Sprintf("spec.hard[%s]: no node has the resource %s now%s", name, bare, others(existing)))
		}
	}
	return out
}

// warnOfExtendedParts warns about names of extended resources in spec.matchContains that are part of no resource that a node has. If there
// are no nodes, or too many to read, it warns about those that are probably a misspelt common one. If reading nodes fails, the only warning
// says so.
func (h *Handler) warnOfExtendedParts(ctx context.Context, spec *placementv1.LimitedResourceSpec) []string {
	parts := h.Evaluators.ExtendedParts(spec)
	existing, known, err := h.extendedOfNodes(ctx, slices.ContainsFunc(parts, func(part string) bool { return part != "" }))
	if err != nil {
		return []string{fmt.Sprintf("spec.matchContains: cannot check that nodes have the resources: %v", err)}
	}
	var out []string
	for i, part := range parts {
		switch meant := quota.MeantExtended(part); {
		case !known && meant != "":
			out = append(out, fmt.Sprintf("spec.matchContains[%d]: the resource %s is not a common one, and probably misspelt; did you mean %s?",
				i, part, meant))
		case known && part != "" && !slices.ContainsFunc(existing, func(name string) bool { return strings.Contains(name, part) }):
			out = append(out, fmt.Sprintf("spec.matchContains[%d]: no node has a resource whose name contains %s now%s", i, part, others(existing)))
		}
	}
	return out
}

// extendedOfNodes returns the sorted names of the extended resources that nodes have. ok is false if they are not known, or not wanted.
func (h *Handler) extendedOfNodes(ctx context.Context, wanted bool) (names []string, ok bool, err error) {
	if h.Nodes == nil || !wanted {
		return nil, false, nil
	}
	return h.Nodes.ExtendedResources(ctx)
}

// others returns the end of a sentence that lists the first names of the resources that there are, such as "; there are a, b". It leaves
// out those after maxNamed without a hint; "" if there are none.
func others(existing []string) string {
	if len(existing) == 0 {
		return ""
	}
	return "; there are " + strings.Join(existing[:min(len(existing), maxNamed)], ", ")
}

// maxNamed is how many existing resources a warning names at most.
const maxNamed = 8
