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

package policyvalidator

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/match"
)

// Namespaces reads the labels of all namespaces.
type Namespaces interface {
	// All yields the name and labels of each existing namespace. Callers must not modify the labels.
	All(ctx context.Context) (iter.Seq2[string, map[string]string], error)
}

// warnOfMatch warns about parts of spec.match that match nothing: types that the API server does not serve, and
// namespaces.
func (v *Validator) warnOfMatch(ctx context.Context, m *match.Matcher, path *field.Path) admission.Warnings {
	coverage := m.Coverage(v.Catalog.Served(), path, v.OwnNamespace)
	if len(coverage.Unserved) > 0 {
		if err := v.Catalog.Refresh(ctx); err != nil {
			return admission.Warnings{fmt.Sprintf("%s: whether the API server serves what the policy matches is not known: %v", path, err)}
		}
		coverage = m.Coverage(v.Catalog.Served(), path, v.OwnNamespace)
	}
	var out admission.Warnings
	for _, unserved := range coverage.Unserved {
		out = append(out, unserved+": nothing of it is matched until that is served")
	}
	if coverage.Impossible != "" {
		return append(out, "the policy can't match anything: "+coverage.Impossible)
	}
	if coverage.ClusterScoped && m.SelectsNamespaces() {
		out = append(out, fmt.Sprintf("%s has no effect: the types that the policy matches are in no namespace, and all of their objects are matched. "+
			"Use objectSelector or matchConditions", path.Child("namespaceSelector")))
	}
	if v.Namespaces == nil || !coverage.Namespaced || !m.SelectsNamespaces() {
		return out
	}
	namespaces, err := v.Namespaces.All(ctx)
	if err != nil {
		return append(out, fmt.Sprintf("%s: whether any namespace is selected is not known: %v", path.Child("namespaceSelector"), err))
	}
	if m.SelectsNoneOf(namespaces, v.OwnNamespace) {
		out = append(out, fmt.Sprintf("%s selects none of the namespaces that there are", path.Child("namespaceSelector")))
	}
	return out
}
