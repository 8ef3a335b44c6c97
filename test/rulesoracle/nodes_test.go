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

package rulesoracle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/podscheduling"
)

// takeSelectors removes from the values the selectors of the pods that spread constraints count, and returns them.
func takeSelectors(t *testing.T, values map[string]string) []*metav1.LabelSelector {
	t.Helper()
	var out []*metav1.LabelSelector
	for key, value := range values {
		if !strings.HasPrefix(key, "topologySpreadConstraints/") {
			continue
		}
		var constraint corev1.TopologySpreadConstraint
		if err := json.Unmarshal([]byte(value), &constraint); err != nil {
			t.Fatal(err)
		}
		out = append(out, constraint.LabelSelector)
		constraint.LabelSelector = nil
		text, err := json.Marshal(constraint)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
		values[key] = podscheduling.JSONText(plain)
	}
	return out
}

// selectorsDiffer returns how the selectors of spread constraints differ from those that select the object's own pods; empty if
// they do not.
func selectorsDiffer(t *testing.T, selectors []*metav1.LabelSelector, object map[string]any) string {
	t.Helper()
	for _, selector := range selectors {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Matches(labels.Set(podLabels(object))) {
			return fmt.Sprintf("a constraint counts the pods %s, and not those of the object", s)
		}
		if s.Empty() {
			return "a constraint counts all pods"
		}
	}
	return ""
}

// affinityDiffers returns a node that an affinity judges differently than the oracle; empty if there is none.
func affinityDiffers(t *testing.T, rule *placementv1.Rule, object map[string]any, text string, nodes []Node) string {
	t.Helper()
	affinity := &corev1.Affinity{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), affinity); err != nil {
			t.Fatal(err)
		}
	}
	required := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{Affinity: affinity}})
	var terms []corev1.PreferredSchedulingTerm
	if affinity.NodeAffinity != nil {
		terms = affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	preferred, err := nodeaffinity.NewPreferredSchedulingTerms(terms)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}}
		fits, err := required.Match(n)
		if err != nil {
			t.Fatal(err)
		}
		if want := Fits(rule, object, node); fits != want {
			return fmt.Sprintf("the node %v fits: %t, the affinity says %t:\n%s", node, want, fits, text)
		}
		if want, got := Score(rule, object, node), preferred.Score(n); got != want {
			return fmt.Sprintf("the node %v has the score %d, the affinity gives %d:\n%s", node, want, got, text)
		}
	}
	return ""
}
