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

	"k8s.io/apimachinery/pkg/labels"

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
