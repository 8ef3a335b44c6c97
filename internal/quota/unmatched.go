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
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/suggest"
)

// UnknownClasses returns the class names in the requirements for a scope that are not among the known ones, sorted. The
// scope is PriorityClass or VolumeAttributesClass.
func UnknownClasses(scope corev1.ResourceQuotaScope, requirements []placementv1.ScopeRequirement, known []string) []string {
	var out []string
	for _, r := range requirements {
		if r.ScopeName != scope {
			continue
		}
		for _, name := range r.Values {
			if !slices.Contains(known, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// UnknownStorageClasses returns the storage classes that resource names in hard contain and that are not among the known ones, sorted.
func UnknownStorageClasses(spec *placementv1.QuotaSpec, known []string) []string {
	var out []string
	for name := range spec.Hard {
		class, _, found := strings.Cut(string(name), storageClassInfix)
		if found && !slices.Contains(known, class) {
			out = append(out, class)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// storageClassInfix separates the name of a storage class from the name of its limited resource.
const storageClassInfix = ".storageclass.storage.k8s.io/"

// standardNames are the resource names of Kubernetes without a slash that do not count all objects of a type: for CPU, memory, and storage,
// and for load balancers and node ports of services. pods, services, and persistentvolumeclaims are not among them.
var standardNames = []string{
	"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
	"limits.ephemeral-storage", "requests.storage", "services.loadbalancers", "services.nodeports",
}

// coreGroup matches what users write as the group of core types, which have none.
var coreGroup = regexp.MustCompile(`^(core|v[0-9]+)?$`)

// SuggestCounted returns a question that suggests what is probably meant by the resource name count/<t>, whose type is not served: a
// standard name without count/, or a served type with a similar name, for example " (did you mean deployments.apps?)". It returns "" if
// nothing is similar. If t has a group, it suggests no core type, because that counts all of its objects, unless the group is one that
// users write for the core group, such as v1.
func SuggestCounted(t schema.GroupResource, served *match.ServedTypes) string {
	name, similar := t.String(), slices.Contains(standardNames, t.String())
	if t.Group != "" && !similar {
		name, similar = suggest.Nearest(name, standardNames)
	}
	if similar {
		return fmt.Sprintf(" (did you mean %s, without %s?)", name, countPrefix)
	}
	if meant, ok := served.Meant(t); ok && meant.Group == "" && !coreGroup.MatchString(t.Group) {
		return ""
	}
	return served.SuggestResource(t)
}

// ExplainUntracked explains why a resource name counts nothing, and suggests another one, for example " (did you mean
// count/deployments.apps?)". It returns "" if neither is known. Limits of extended resources are not counted, because they equal the
// requests; for these it suggests the requests.
func ExplainUntracked(name corev1.ResourceName, served *match.ServedTypes) string {
	if counted, ok := strings.CutPrefix(string(name), countPrefix); ok && match.NeverMatched(schema.ParseGroupResource(counted)) {
		return fmt.Sprintf(": %s are never counted, so that a full quota can't stop the cluster. Remove the name", counted)
	}
	if meant := meantDevices(name); meant != "" {
		return fmt.Sprintf(" (did you mean %s?)", meant)
	}
	// Names without a slash are standard names, unless they were stored while CheckSpec could not refuse them.
	before, after, _ := strings.Cut(string(name), "/")
	for _, part := range []string{before, after} {
		t := schema.ParseGroupResource(part)
		if meant, ok := served.Meant(t); ok && served.HasName(t) {
			return fmt.Sprintf(" (did you mean %s%s?)", countPrefix, meant)
		}
	}
	if limited, ok := strings.CutPrefix(string(name), "limits."); ok && strings.Contains(before, ".") && after != "" {
		return fmt.Sprintf(": extended resources are counted by their requests alone (did you mean %s%s?)",
			corev1.DefaultResourceRequestsPrefix, limited)
	}
	if strings.Contains(before, ".") && after != "" {
		return fmt.Sprintf(" (did you mean %s%s?)", corev1.DefaultResourceRequestsPrefix, name)
	}
	return ""
}
