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

package v1alpha1_test

import (
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// FuzzNamespaceSelector checks that every label that the schema accepts can be parsed into a selector: the patterns
// have the rules of Kubernetes.
func FuzzNamespaceSelector(f *testing.F) {
	properties := schemas(f)["LimitedResource/v1alpha1"].Properties["spec"].Properties["namespaceSelector"].Properties
	requirement := properties["matchExpressions"].Items.Schema.Properties
	key, value := regexp.MustCompile(requirement["key"].Pattern), regexp.MustCompile(requirement["values"].Items.Schema.Pattern)
	_, rule, _ := strings.Cut(properties["matchLabels"].XValidations[0].Rule, "matches('")
	rule, _, _ = strings.Cut(rule, "')")
	if rule = strings.ReplaceAll(rule, `\\`, `\`); rule != key.String() {
		f.Errorf("keys of matchLabels: %s, of matchExpressions: %s", rule, key)
	}
	for _, s := range []string{"", "a", "a/b", "example.com/team", "a..b/c", "-a", "a-", "A/b", "a/B_c.d", "/a", "a/", strings.Repeat("a", 64), strings.Repeat("a", 254) + "/b"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, k, v string) {
		okKey := key.MatchString(k) && strings.Index(k, "/") <= 253
		if want := len(validation.IsQualifiedName(k)) == 0; okKey != want {
			t.Errorf("key %q: accepted = %t, upstream: %t", k, okKey, want)
		}
		okValue := value.MatchString(v) && len(v) <= 63
		if want := len(validation.IsValidLabelValue(v)) == 0; okValue != want {
			t.Errorf("value %q: accepted = %t, upstream: %t", v, okValue, want)
		}
		if !okKey || !okValue {
			return
		}
		s := &placementv1.NamespaceSelector{
			MatchLabels:      map[string]placementv1.LabelValue{k: placementv1.LabelValue(v)},
			MatchExpressions: []placementv1.NamespaceRequirement{{Key: k, Operator: metav1.LabelSelectorOpIn, Values: []placementv1.LabelValue{placementv1.LabelValue(v)}}},
		}
		if _, err := metav1.LabelSelectorAsSelector(s.Upstream()); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	})
}
