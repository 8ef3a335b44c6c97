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

package quota_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
)

func TestNamespaceSelector(t *testing.T) {
	prod := &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"env": "prod"}}
	invalid := &placementv1.NamespaceSelector{MatchExpressions: []placementv1.NamespaceRequirement{{Key: "env", Operator: "Like"}}}
	for name, test := range map[string]struct {
		selector        *placementv1.NamespaceSelector
		prod, bare, err bool
	}{
		"none":    {prod: true, bare: true},
		"empty":   {selector: &placementv1.NamespaceSelector{}, prod: true, bare: true},
		"labels":  {selector: prod, prod: true},
		"invalid": {selector: invalid, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := quota.NamespaceSelector(test.selector)
			if (err != nil) != test.err {
				t.Fatal(err)
			}
			if err == nil && (selector.Matches(labels.Set{"env": "prod"}) != test.prod || selector.Matches(labels.Set{}) != test.bare) {
				t.Errorf("%v", selector)
			}
		})
	}
}

func TestCountedNamespaces(t *testing.T) {
	existing := map[string]labels.Set{"prod": {"env": "prod"}, "test": {"env": "test"}, "kube-system": {"env": "prod"}, "berth-system": {"env": "prod"}}
	list := func(selector labels.Selector) ([]string, error) {
		var out []string
		for name, l := range existing {
			if selector.Matches(l) {
				out = append(out, name)
			}
		}
		return out, nil
	}
	scoped := func(namespace string) placementv1.Quota {
		return &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}}
	}
	shared := func(s *placementv1.NamespaceSelector) placementv1.Quota {
		return &placementv1.ClusterScopedQuota{Spec: placementv1.ClusterScopedQuotaSpec{NamespaceSelector: s}}
	}
	for name, test := range map[string]struct {
		quota placementv1.Quota
		want  []string
	}{
		"its own":                {scoped("prod"), []string{"prod"}},
		"its own, kube-system":   {scoped("kube-system"), []string{"kube-system"}},
		"its own, Berth's":       {scoped("berth-system"), nil},
		"selected":               {shared(&placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"env": "prod"}}), []string{"prod"}},
		"all but protected ones": {shared(nil), []string{"prod", "test"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := quota.CountedNamespaces(test.quota, "berth-system", list)
			if diff := cmp.Diff(sets.New(test.want...), got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
