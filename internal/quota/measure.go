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

package quota

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/numeral"
)

var (
	pods     = corev1.Resource("pods")
	services = corev1.Resource("services")
	claims   = corev1.Resource("persistentvolumeclaims")
	// deviceClaims are claims of devices (DRA). Their evaluator reads version v1.
	deviceClaims = resourcev1.Resource("resourceclaims")
)

// countPrefix is the prefix of resource names that count the objects of a type.
const countPrefix = "count/"

// countAliases are resource names older than countPrefix, such as secrets for count/secrets, of the types of which nothing but the number
// of objects is counted. They are from Kubernetes' registry of evaluators (k8s.io/kubernetes/pkg/quota/v1/evaluator/core,
// legacyObjectCountAliases).
var countAliases = map[schema.GroupResource]corev1.ResourceName{
	corev1.Resource("configmaps"):             corev1.ResourceConfigMaps,
	corev1.Resource("resourcequotas"):         corev1.ResourceQuotas,
	corev1.Resource("replicationcontrollers"): corev1.ResourceReplicationControllers,
	corev1.Resource("secrets"):                corev1.ResourceSecrets,
}

// Evaluators measure what objects take, with Kubernetes' quota evaluators. They are safe for concurrent use.
type Evaluators struct {
	special map[schema.GroupResource]upstream.Evaluator // By type, for the four types of which more than the number of objects is counted.
	devices Devices
}

// NewEvaluators returns evaluators. They use the clock to stop counting pods whose grace period for termination is
// over, and d to measure ResourceClaims.
func NewEvaluators(c clock.Clock, d Devices) *Evaluators {
	return &Evaluators{devices: d, special: map[schema.GroupResource]upstream.Evaluator{
		pods:         core.NewPodEvaluator(nil, c),
		services:     core.NewServiceEvaluator(nil),
		claims:       core.NewPersistentVolumeClaimEvaluator(nil),
		deviceClaims: d.evaluator(),
	}}
}

// evaluatorFor returns the evaluator of a type: that in special, or one that counts only the number of objects.
func (e *Evaluators) evaluatorFor(resource schema.GroupResource) upstream.Evaluator {
	if special, ok := e.special[resource]; ok {
		return special
	}
	return generic.NewObjectCountEvaluator(resource, nil, countAliases[resource])
}

// Types returns the types of objects that the names in hard count, each with the names that count it, and the names that count nothing.
// Objects of several types can count under one name: a pod and a ResourceClaim can take the same extended resource.
func (e *Evaluators) Types(spec *placementv1.QuotaSpec) (types map[schema.GroupResource][]corev1.ResourceName,
	untracked []corev1.ResourceName) {
	types = map[schema.GroupResource][]corev1.ResourceName{}
	for name := range spec.Hard {
		counted := slices.DeleteFunc(e.counted(name), match.NeverMatched)
		if len(counted) == 0 {
			untracked = append(untracked, name)
		}
		for _, t := range counted {
			types[t] = append(types[t], name)
		}
	}
	for _, names := range types {
		slices.Sort(names)
	}
	slices.Sort(untracked)
	return types, untracked
}

// counted returns the types of the objects that a resource name counts; none if the name counts nothing.
func (e *Evaluators) counted(name corev1.ResourceName) []schema.GroupResource {
	// CheckSpec refuses such a name. It may have been stored while no replica checked it, and would make a rule of a webhook that is invalid,
	// or that matches all types.
	if len(checkName(name, nil)) > 0 {
		return nil
	}
	// The pod evaluator mistakes the name of a storage class that begins with "requests." for an extended resource, for
	// which it measures nothing.
	for _, alone := range []schema.GroupResource{claims, services} {
		if e.counts(alone, name) {
			return []schema.GroupResource{alone}
		}
	}
	var out []schema.GroupResource
	for _, t := range []schema.GroupResource{pods, deviceClaims} {
		if e.counts(t, name) {
			out = append(out, t)
		}
	}
	if len(out) > 0 {
		return out
	}
	for resource, alias := range countAliases {
		if name == alias {
			return []schema.GroupResource{resource}
		}
	}
	if counted, ok := strings.CutPrefix(string(name), countPrefix); ok {
		return []schema.GroupResource{schema.ParseGroupResource(counted)}
	}
	return nil
}

// counts reports whether objects of a type count under a resource name. The type must be a key of special.
func (e *Evaluators) counts(t schema.GroupResource, name corev1.ResourceName) bool {
	return len(e.special[t].MatchingResources([]corev1.ResourceName{name})) > 0
}

// Scopes are the properties of an object that the scopes of quotas read. Values are comparable.
type Scopes struct {
	resource                               schema.GroupResource // The object's type.
	terminating, bestEffort, crossAffinity bool                 // Whether these scopes match a pod.
	// classes is the name of a pod's PriorityClass, or the names of a PersistentVolumeClaim's VolumeAttributesClasses, sorted, each followed
	// by a space; "" for none, and for objects of other types.
	classes string
}

// moduleInput returns the scopes as input for a module: a boolean for each scope, and a list of names for each scope
// with classes. A type lacks the entries of scopes that it does not have, so that no requirement on these scopes
// matches.
func (s Scopes) moduleInput() map[string]any {
	classes := []any{}
	for name := range strings.FieldsSeq(s.classes) {
		classes = append(classes, name)
	}
	switch s.resource {
	case pods:
		return map[string]any{
			string(corev1.ResourceQuotaScopeTerminating):               s.terminating,
			string(corev1.ResourceQuotaScopeNotTerminating):            !s.terminating,
			string(corev1.ResourceQuotaScopeBestEffort):                s.bestEffort,
			string(corev1.ResourceQuotaScopeNotBestEffort):             !s.bestEffort,
			string(corev1.ResourceQuotaScopeCrossNamespacePodAffinity): s.crossAffinity,
			string(corev1.ResourceQuotaScopePriorityClass):             classes,
		}
	case claims:
		return map[string]any{string(corev1.ResourceQuotaScopeVolumeAttributesClass): classes}
	default:
		return map[string]any{}
	}
}

// measurement has the amounts that one object takes, and its scopes.
type measurement struct {
	usage  corev1.ResourceList // The amounts that the object takes, by resource name.
	scopes Scopes
}

// measure returns the amounts and scopes of an object, which has the Go type of newObject.
func (e *Evaluators) measure(resource schema.GroupResource, object runtime.Object) (measurement, error) {
	evaluator := e.evaluatorFor(resource)
	usage, err := evaluator.Usage(object)
	if err != nil {
		return measurement{}, err
	}
	m := measurement{usage: usage, scopes: Scopes{resource: resource}}
	switch o := object.(type) {
	case *corev1.Pod:
		if o.Spec.PriorityClassName != "" {
			m.scopes.classes = o.Spec.PriorityClassName + " "
		}
		matched, err := evaluator.MatchingScopes(o, podScopes)
		if err != nil {
			return measurement{}, err
		}
		for _, r := range matched {
			switch r.ScopeName {
			case corev1.ResourceQuotaScopeTerminating:
				m.scopes.terminating = true
			case corev1.ResourceQuotaScopeBestEffort:
				m.scopes.bestEffort = true
			case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
				m.scopes.crossAffinity = true
			}
		}
	case *corev1.PersistentVolumeClaim:
		m.scopes.classes = volumeAttributesClasses(o)
	}
	return m, nil
}

var podScopes = []corev1.ScopedResourceSelectorRequirement{
	{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists},
	{ScopeName: corev1.ResourceQuotaScopeBestEffort, Operator: corev1.ScopeSelectorOpExists},
	{ScopeName: corev1.ResourceQuotaScopeCrossNamespacePodAffinity, Operator: corev1.ScopeSelectorOpExists},
}

// volumeAttributesClasses returns the classes that a claim requests, has, and is changing to, in the form of Scopes.classes. Kubernetes'
// evaluator, which does not export this function, counts a claim for each of them.
func volumeAttributesClasses(c *corev1.PersistentVolumeClaim) string {
	var names []string
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		b.WriteString(name + " ")
	}
	return b.String()
}

// newObject returns an empty object of the Go type that the type's evaluator requires.
func newObject(resource schema.GroupResource) runtime.Object {
	switch resource {
	case pods:
		return &corev1.Pod{}
	case services:
		return &corev1.Service{}
	case claims:
		return &corev1.PersistentVolumeClaim{}
	case deviceClaims:
		return &resourcev1.ResourceClaim{}
	default:
		return &metav1.PartialObjectMetadata{}
	}
}

// decode decodes an object from JSON: a Pod, Service, PersistentVolumeClaim, or ResourceClaim to its Go type, and an object of any other
// type to its metadata alone (metav1.PartialObjectMetadata).
func decode(resource schema.GroupResource, raw []byte) (runtime.Object, error) {
	object := newObject(resource)
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		if err := json.Unmarshal(raw, metadata); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", resource, err)
		}
		return metadata, nil
	}
	content := map[string]any{}
	err := utiljson.Unmarshal(raw, &content)
	if err == nil {
		err = numeral.FromUnstructured(content, object)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", resource, err)
	}
	return object, nil
}

// amounts converts a resource list to input for a module: a map of the names to the amounts as texts, such as "1500m".
func amounts(list corev1.ResourceList) map[string]any {
	out := make(map[string]any, len(list))
	for name, amount := range list {
		out[string(name)] = amount.String()
	}
	return out
}
