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
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/apiserver/pkg/quota/v1"
)

// Exceeded returns the names whose usage exceeds hard, sorted.
func Exceeded(hard, used corev1.ResourceList) []corev1.ResourceName {
	_, names := upstream.LessThanOrEqual(upstream.Mask(used, upstream.ResourceNames(hard)), hard)
	slices.Sort(names)
	return names
}

// maxSummary is the number of resources in a summary. maxSummaryText is its maximum length in the CRD's schema, in
// bytes.
const (
	maxSummary     = 3
	maxSummaryText = 256
)

// summaryOrder are the resources that a summary lists first, in this order. The others follow by name.
var summaryOrder = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceRequestsCPU, corev1.ResourceCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceMemory}

// Summary returns a text with used and hard of the three most important resources, and the number of the others, for example
// "pods: 3/10, requests.cpu: 1500m/4, cpu: 2/4, +2 more". "?" stands for a usage that used does not have.
func Summary(hard, used corev1.ResourceList) string {
	names := slices.SortedFunc(maps.Keys(hard), func(a, b corev1.ResourceName) int {
		if x, y := rank(a), rank(b); x != y {
			return x - y
		}
		return strings.Compare(string(a), string(b))
	})
	var parts []string
	for i, name := range names {
		if i == maxSummary {
			parts = append(parts, fmt.Sprintf("+%d more", len(names)-i))
			break
		}
		limit := hard[name]
		amount := "?"
		if q, ok := used[name]; ok {
			amount = q.String()
		}
		text := string(name)
		if len(text) > 48 {
			text = text[:45] + "..."
		}
		parts = append(parts, fmt.Sprintf("%s: %s/%s", text, amount, limit.String()))
	}
	summary := strings.Join(parts, ", ")
	if len(summary) > maxSummaryText {
		summary = summary[:maxSummaryText-3] + "..."
	}
	return summary
}

// rank returns the position of a resource name in summaryOrder; names that are not in it have the last one.
func rank(name corev1.ResourceName) int {
	if i := slices.Index(summaryOrder, name); i >= 0 {
		return i
	}
	return len(summaryOrder)
}
