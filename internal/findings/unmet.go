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
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// tolerations finds tolerations of rules for clusters or nodes that match no taint, because their value or effect differs from that of each
// taint with the key.
func (p population) tolerations(list []placementv1.Rule, ofNodes bool) (out []Finding) {
	for i, rule := range list {
		if (rule.Candidates == placementv1.RuleCandidatesNodes) != ofNodes {
			continue
		}
		for j, t := range rule.Tolerate {
			if text := p.untolerated(t); text != "" {
				out = append(out, placeOf(specPath.Child("rules").Index(i).Child("tolerate").Index(j)).finding(Advice, text))
			}
		}
	}
	return out
}

// ofConditions are the prefixes of taints that systems set and remove with the state of a node or cluster, with several effects.
var ofConditions = []string{"node.kubernetes.io/", "cluster.karmada.io/", "cluster.open-cluster-management.io/"}

// isOfCondition reports whether a system sets and removes the taint with a key by the state of a node or cluster: the key has a prefix of
// Kubernetes (node.kubernetes.io/), Karmada, or Open Cluster Management.
func isOfCondition(key string) bool {
	return slices.ContainsFunc(ofConditions, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// untolerated returns a message about a toleration that matches no taint, but would match one with another value or effect; "" for others.
func (p population) untolerated(t placementv1.RuleToleration) (problem string) {
	if isOfCondition(t.Key) || t.Effect == string(corev1.TaintEffectNoExecute) {
		// To tolerate NoExecute alone keeps what runs there, and adds nothing.
		return ""
	}
	for _, member := range p.members {
		taints, _ := member["taints"].([]any)
		for _, one := range taints {
			taint, _ := one.(map[string]any)
			text := func(field string) string { s, _ := taint[field].(string); return s }
			sameValue := t.Operator == corev1.TolerationOpExists || t.Value == text("value")
			sameEffect := t.Effect == "" || t.Effect == text("effect")
			key := text("key")
			if text("value") != "" {
				key += "=" + text("value")
			}
			found := fmt.Sprintf("matches no taint: %s %s has the taint %s:%s.", p.noun, member["name"], key, text("effect"))
			switch {
			case t.Key == "" || t.Key != text("key"):
			case sameValue && sameEffect:
				return ""
			case sameEffect && t.Value == "":
				problem = cmp.Or(problem, found+" Set operator: Exists for all values, or set value")
			case sameValue:
				problem = cmp.Or(problem, found+" Set this effect, or leave effect out for all effects")
			}
		}
	}
	return problem
}
