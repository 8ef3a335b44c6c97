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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
)

// NamespaceSelector parses the selector of a ClusterScopedQuota or a LimitedResource. No selector and an empty one select
// all namespaces.
func NamespaceSelector(s *placementv1.NamespaceSelector) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(orMatchAll(s.Upstream()))
}

// orMatchAll returns a selector, or one that selects everything in place of nil.
func orMatchAll(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}

// CountedNamespaces returns the namespaces whose objects a quota counts: that of a ScopedQuota, even if it is kube-system, or those that
// the selector of a ClusterScopedQuota selects, without kube-system. Berth's own namespace, own, is never counted. list returns the names
// of the namespaces that a selector selects.
func CountedNamespaces(q placementv1.Quota, own string, list func(labels.Selector) ([]string, error)) (sets.Set[string], error) {
	cluster, ok := q.(*placementv1.ClusterScopedQuota)
	if !ok {
		return sets.New(q.GetNamespace()).Delete(own), nil
	}
	selector, err := NamespaceSelector(cluster.Spec.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	names, err := list(selector)
	if err != nil {
		return nil, err
	}
	return sets.New(names...).Delete(match.NamespaceSystem, own), nil
}
