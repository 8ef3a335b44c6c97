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

package celexpression_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/celexpression"
)

// TestKeyTests checks which comparisons of labels and annotations an expression requires.
func TestKeyTests(t *testing.T) {
	one := func(field, key string, values ...string) []celexpression.KeyTest {
		return []celexpression.KeyTest{{Field: field, Key: key, Values: values}}
	}
	tier := one("labels", "tier", "gold")
	for expression, want := range map[string][]celexpression.KeyTest{
		`object.metadata.labels.tier == 'gold'`:                                           tier,
		`'gold' == object.metadata.labels['tier'] && object.spec.replicas > 1`:            tier,
		`object.metadata.?labels['tier'].orValue('') == 'gold'`:                           tier,
		`object.metadata.?labels.?tier.orValue('') == 'gold'`:                             tier,
		`object.metadata.?labels[?'tier'].orValue('none') == 'gold'`:                      tier,
		`object.metadata.?labels.orValue({})['tier'] == 'gold'`:                           tier,
		`has(object.metadata.labels.tier) && object.metadata.labels.tier == 'gold'`:       tier,
		`object.metadata.annotations['a.b/c'] in ['x', 'y']`:                              one("annotations", "a.b/c", "x", "y"),
		`'low' in object.metadata.labels`:                                                 one("labels", "", "low"),
		`object.metadata.labels.exists(l, l == 'low')`:                                    one("labels", "", "low"),
		`object.metadata.?annotations.orValue({}).exists(k, k in ['low', 'cheap'])`:       one("annotations", "", "low", "cheap"),
		`object.metadata.?labels.?tier.orValue('gold') == 'gold'`:                         nil,
		`object.metadata.?labels.?tier.orValue(object.kind) == 'gold'`:                    nil,
		`object.metadata.labels.tier == 'gold' || object.metadata.labels.tier == 'brass'`: nil,
		`object.metadata.labels.tier != 'gold'`:                                           nil,
		`!(object.metadata.labels.tier == 'gold')`:                                        nil,
		`!('low' in object.metadata.labels)`:                                              nil,
		`object.metadata.labels.tier == object.metadata.name`:                             nil,
		`object.metadata.labels.tier in []`:                                               nil,
		`object.metadata.labels == 'low'`:                                                 nil,
		`object.metadata.labels in ['low']`:                                               nil,
		`object.metadata.labels.exists(l, object.metadata.labels[l] == 'low')`:            nil,
		`object.metadata.labels.exists(l, l.startsWith('low'))`:                           nil,
		`object.metadata.labels.all(l, l == 'low')`:                                       nil,
		`object.metadata.labels.exists_one(l, l == 'low')`:                                nil,
		`object.spec.template.metadata.labels.tier == 'gold'`:                             nil,
		`object.spec.hosts.exists(h, h == 'a')`:                                           nil,
		`oldObject.metadata.labels.tier == 'gold'`:                                        nil,
		`object.metadata.name == 'a'`:                                                     nil,
		`object`:                                                                          nil,
		`object.`:                                                                         nil,
	} {
		if diff := cmp.Diff(want, celexpression.KeyTests(expression)); diff != "" {
			t.Errorf("%s: key tests (-want +got):\n%s", expression, diff)
		}
	}
}
