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
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/suggest"
)

// MatchContainsProblems describes entries of a LimitedResource's matchContains that are probably mistakes, and whether the LimitedResource
// limits nothing because of them. The zero value stands for no problems.
type MatchContainsProblems struct {
	// Findings are messages about entries that are probably mistakes. Each starts with the field's path.
	Findings []string
	// LimitsNothing says why the LimitedResource cannot limit anything; "" if it can.
	LimitsNothing string
}

// CheckMatchContains returns which entries of a LimitedResource's matchContains are probably mistakes: no resource name under which objects
// of its type are charged can contain them, or they resemble such a name that does not contain them.
func (e *Evaluators) CheckMatchContains(spec *placementv1.LimitedResourceSpec) MatchContainsProblems {
	t := schema.GroupResource{Group: spec.APIGroup, Resource: spec.Resource}
	names := e.chargedNames(t)
	var out MatchContainsProblems
	impossible := 0
	for i, part := range spec.MatchContains {
		if containedIn(names, part) {
			continue
		}
		possible := mayContain(t, part)
		meant := e.suggestMatchContains(t, part)
		switch {
		case possible && meant == "":
			continue
		case !possible:
			impossible++
		}
		out.Findings = append(out.Findings, fmt.Sprintf("spec.matchContains[%d]: %s%s", i, explainMatchContains(t, part, names, possible), meant))
	}
	if impossible > 0 && impossible == len(spec.MatchContains) && len(spec.MatchScopes) == 0 {
		out.LimitsNothing = strings.Join(out.Findings, "; ")
	}
	return out
}

// explainMatchContains returns a message about an entry of matchContains, part, that is part of none of names, the resource names under
// which objects of type t are charged. possible reports whether a name that users choose, such as one with a storage class, may contain it.
func explainMatchContains(t schema.GroupResource, part string, names []string, possible bool) string {
	switch {
	case strings.ContainsAny(part, "*?"):
		return fmt.Sprintf("nothing is limited by %q: entries are parts of resource names, not patterns, and no resource name contains this",
			part)
	case possible:
		return fmt.Sprintf("%q is part of no common resource name that %s are charged for", part, t)
	case t == pods || t == claims || t == deviceClaims:
		return fmt.Sprintf("nothing is limited by %q: no resource name that %s are charged for can contain it", part, t)
	default:
		return fmt.Sprintf("nothing is limited by %q: the only resource names that %s are charged for are %s, and none of them contains it",
			part, t, strings.Join(names, ", "))
	}
}

// minSuggested is the length, in bytes, of the shortest entry of matchContains that is compared with resource names that differ from it by
// some characters.
const minSuggested = 6

// suggestMatchContains returns a question that suggests what is probably meant by part, an entry of matchContains that no resource name of
// type t contains: a similar entry, or another spec.resource. It returns "" if nothing is similar.
func (e *Evaluators) suggestMatchContains(t schema.GroupResource, part string) string {
	bare := strings.Trim(part, "*? \t")
	folded := strings.ToLower(bare)
	names := e.chargedNames(t)
	for _, candidate := range []string{bare, folded} {
		if candidate != "" && candidate != part && containedIn(names, candidate) {
			return fmt.Sprintf(" (did you mean %q?)", candidate)
		}
	}
	for _, other := range []schema.GroupResource{pods, claims, services, deviceClaims} {
		if other != t && folded != "" && containedIn(e.chargedNames(other), folded) {
			return fmt.Sprintf(" (did you mean spec.resource %s?)", other)
		}
	}
	// A short entry may be a part of the name of an extended resource, such as gpu.
	if len(bare) >= minSuggested && !strings.Contains(bare, "/") && !strings.Contains(bare,
		strings.TrimSuffix(corev1.ResourceHugePagesPrefix, "-")) {
		if nearest, ok := suggest.Nearest(bare, names); ok {
			return fmt.Sprintf(" (did you mean %q?)", nearest)
		}
	}
	return ""
}

// containedIn reports whether any of the names contains the part.
func containedIn(names []string, part string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, part) })
}

// exampleClass stands for the name of any storage class or device class. No entry of matchContains can contain it.
const exampleClass = "\x00"

// chargedNames returns the resource names under which objects of a type are charged, sorted. It measures the object
// from exampleOf.
func (e *Evaluators) chargedNames(t schema.GroupResource) []string {
	usage, err := e.evaluatorFor(t).Usage(exampleOf(t))
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(usage))
	for name := range usage {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return out
}

// exampleOf returns an object that takes every resource that objects of its type can take, except extended resources. It is empty for types
// of which only the number of objects is counted.
func exampleOf(t schema.GroupResource) runtime.Object {
	one := resource.MustParse("1")
	switch t {
	case pods:
		all := corev1.ResourceList{corev1.ResourceHugePagesPrefix + "2Mi": one}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			all[name] = one
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: all,
			Limits: all}}}}}
	case services:
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 1}}}}
	case claims:
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(exampleClass),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: one}},
		}}
	case deviceClaims:
		return &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: exampleClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount,
				Count: 1},
		}}}}}
	default:
		return &metav1.PartialObjectMetadata{}
	}
}

var (
	// partOfSubdomain matches parts of DNS subdomains, such as storage class names.
	partOfSubdomain = regexp.MustCompile(`^[-a-z0-9.]*$`)
	// partOfResource matches parts of the names of extended resources and huge pages.
	partOfResource = regexp.MustCompile(`^([-a-z0-9.]*/)?[-A-Za-z0-9_.]*$`)
)

// mayContain reports whether a resource name that users choose, and under which objects of type t are charged, may contain the part. For
// PersistentVolumeClaims, such a name consists of the name of a storage class and a suffix; for pods and ResourceClaims, of that of an
// extended resource or a device class with its prefix or suffix. For other types, there is none.
func mayContain(t schema.GroupResource, part string) bool {
	switch t {
	case pods, deviceClaims:
		return partOfResource.MatchString(part)
	case claims:
		before, after, slash := strings.Cut(part, "/")
		const infix = ".storageclass.storage.k8s.io"
		if !partOfSubdomain.MatchString(before) || !slash {
			return !slash && partOfSubdomain.MatchString(part)
		}
		return (strings.HasSuffix(before, infix) || strings.HasSuffix(infix, before)) &&
			(strings.HasPrefix(string(corev1.ResourcePersistentVolumeClaims), after) ||
				strings.HasPrefix(string(corev1.ResourceRequestsStorage), after))
	default:
		return false
	}
}
