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
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/suggest"
)

// warnOfNamespaces warns about references to objects in namespaces that do not exist, for example because name and
// namespace are swapped. name is the name of the policy.
func (v *Validator) warnOfNamespaces(ctx context.Context, name string, module *policy.Module, binding *policy.Binding) admission.Warnings {
	keyed := slices.DeleteFunc(slices.Clone(module.Keyed), func(k analysis.KeyedRead) bool { return !binding.Namespaced(k.Read) })
	if v.Namespaces == nil || len(keyed) == 0 {
		return nil
	}
	namespaces, err := v.Namespaces.All(ctx)
	if err != nil {
		return admission.Warnings{fmt.Sprintf("spec.rego: cannot check that the namespaces that the policy reads exist: %v", err)}
	}
	existing := maps.Collect(namespaces)
	var out admission.Warnings
	for _, k := range keyed {
		if _, exists := existing[k.First]; exists {
			continue
		}
		warning := fmt.Sprintf("%s.rego:%d:%d: %s is undefined until the namespace %s exists: the first key is the namespace", name, k.Row, k.Col, k, k.First)
		meant := k
		if _, swapped := existing[k.Second]; swapped {
			meant.First, meant.Second = k.Second, k.First
		} else {
			meant.First, _ = suggest.Nearest(k.First, slices.Sorted(maps.Keys(existing)))
		}
		if meant.First != "" {
			warning += fmt.Sprintf("; did you mean %s?", meant)
		}
		out = append(out, warning)
	}
	return out
}
