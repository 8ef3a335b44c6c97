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

package podscheduling

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// AsRequested returns a pod spec with the label selectors that the client requested. After admission, the API server adds requirements to
// the selectors of spread constraints and pod affinities, for the keys in matchLabelKeys and mismatchLabelKeys. It rejects a client's
// selector with a requirement on such a key, so AsRequested removes all of these requirements. It does not change its argument.
func AsRequested(spec map[string]any) map[string]any {
	out := spec
	if next, changed := eachTerm(spec[topologySpreadConstraints]); changed {
		out = WithMember(out, next, topologySpreadConstraints)
	}
	for _, list := range lists {
		if list.of == nodeAffinity {
			continue
		}
		whole, _ := spec[Affinity].(map[string]any)
		terms, err := listAt(whole, list.of, list.name)
		if err != nil {
			continue
		}
		if next, changed := eachTerm(terms); changed {
			out = WithMember(out, next, Affinity, list.of, list.name)
		}
	}
	return out
}

// eachTerm returns a list of spread constraints, or of terms of a pod affinity, without the requirements that the API server added to their
// label selectors. changed reports whether there were any.
func eachTerm(value any) (out []any, changed bool) {
	list, _ := value.([]any)
	out = slices.Clone(list)
	for i, item := range list {
		object, _ := item.(map[string]any)
		if term, ok := object["podAffinityTerm"].(map[string]any); ok {
			if next, other := withoutLabelKeys(term); other {
				out[i], changed = WithMember(object, next, "podAffinityTerm"), true
			}
		} else if next, other := withoutLabelKeys(object); other {
			out[i], changed = next, true
		}
	}
	return out, changed
}

// withoutLabelKeys returns a spread constraint or a term without the requirements that the API server added: those of its label selector
// for keys in matchLabelKeys or mismatchLabelKeys. changed reports whether there were any.
func withoutLabelKeys(term map[string]any) (out map[string]any, changed bool) {
	selector, _ := term["labelSelector"].(map[string]any)
	expressions, _ := selector["matchExpressions"].([]any)
	if len(expressions) == 0 {
		return term, false
	}
	keys := map[metav1.LabelSelectorOperator]sets.Set[string]{
		metav1.LabelSelectorOpIn: stringSet(term["matchLabelKeys"]), metav1.LabelSelectorOpNotIn: stringSet(term["mismatchLabelKeys"]),
	}
	kept := slices.DeleteFunc(slices.Clone(expressions), func(e any) bool {
		expression, _ := e.(map[string]any)
		operator, _ := expression["operator"].(string)
		key, ok := expression["key"].(string)
		return ok && keys[metav1.LabelSelectorOperator(operator)].Has(key)
	})
	if len(kept) == len(expressions) {
		return term, false
	}
	selector = maps.Clone(selector)
	if delete(selector, "matchExpressions"); len(kept) > 0 {
		selector["matchExpressions"] = kept
	}
	return WithMember(term, selector, "labelSelector"), true
}

// stringSet returns the strings in a decoded JSON list.
func stringSet(value any) sets.Set[string] {
	list, _ := value.([]any)
	out := sets.New[string]()
	for _, member := range list {
		if text, ok := member.(string); ok {
			out.Insert(text)
		}
	}
	return out
}
