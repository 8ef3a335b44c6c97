package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// UnknownClasses returns the classes that requirements of a scope name, PriorityClass or VolumeAttributesClass, and that are
// not among the known ones, sorted.
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

// UnknownStorageClasses returns the storage classes in the names of hard that are not among the known ones, sorted.
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

// storageClassInfix is between the name of a storage class and what is limited of it.
const storageClassInfix = ".storageclass.storage.k8s.io/"

// Meant returns a question after the name that is probably meant by one under which nothing is counted, as in
// " (did you mean count/deployments.apps?)"; "" if none is near. Limits of extended resources are not counted: they equal the
// requests.
func Meant(name corev1.ResourceName, served *match.Served) string {
	// Names without a slash are standard ones: the schema refuses others.
	before, after, _ := strings.Cut(string(name), "/")
	for _, part := range []string{before, after} {
		t := schema.ParseGroupResource(part)
		if meant := served.Meant(t); meant != "" && served.Names(t) {
			return fmt.Sprintf(" (did you mean %s%s", countPrefix, strings.TrimPrefix(meant, " (did you mean "))
		}
	}
	if limited, ok := strings.CutPrefix(string(name), "limits."); ok && strings.Contains(before, ".") && after != "" {
		return fmt.Sprintf(": extended resources are counted by their requests alone (did you mean %s%s?)", corev1.DefaultResourceRequestsPrefix, limited)
	}
	return ""
}
