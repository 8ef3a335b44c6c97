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

package findings

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/suggest"
)

// findingsOfNamespaces finds references to objects in namespaces that do not exist, for example because name and
// namespace are swapped.
func (f *Finder) findingsOfNamespaces(ctx context.Context, module *policy.Module, binding *policy.Binding) []Finding {
	keyed := slices.DeleteFunc(slices.Clone(module.Keyed), func(k analysis.KeyedRead) bool { return !binding.Namespaced(k.Read) })
	if f.Namespaces == nil || len(keyed) == 0 {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return []Finding{notice("spec.rego: cannot check that the namespaces that the policy reads exist: %v", err)}
	}
	existing := maps.Collect(namespaces)
	var out []Finding
	for _, k := range keyed {
		if _, exists := existing[k.First]; exists {
			continue
		}
		text := fmt.Sprintf("%s is undefined until the namespace %s exists: the first key is the namespace", k, k.First)
		meant := k
		if _, swapped := existing[k.Second]; swapped {
			meant.First, meant.Second = k.Second, k.First
		} else {
			meant.First, _ = suggest.Nearest(k.First, slices.Sorted(maps.Keys(existing)))
		}
		if meant.First != "" {
			text += fmt.Sprintf("; did you mean %s?", meant)
		}
		out = append(out, mistakeAt(lint.Position{Row: k.Row, Col: k.Col}, text))
	}
	return out
}
