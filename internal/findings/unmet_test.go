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
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// decoded returns the value of a YAML text.
func decoded[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTolerations checks which tolerations are found that match no taint.
func TestTolerations(t *testing.T) {
	clusters := decoded[[]map[string]any](t, `[{name: a, taints: [{key: k, value: v, effect: NoSchedule}, {key: k, value: v, effect: NoExecute}, {key: bare, effect: NoSchedule}, {key: cluster.karmada.io/not-ready, effect: NoSchedule}]}, {name: b}]`)
	for toleration, want := range map[string]string{
		`{key: k}`: "cluster a has the taint k=v:NoSchedule. Set operator: Exists for all values, or set value",
		`{key: k, operator: Exists, effect: NoSelect}`:           "Set this effect, or leave effect out",
		`{key: k, value: v, effect: PreferNoSchedule}`:           "Set this effect, or leave effect out",
		`{key: k, operator: Exists, effect: NoSchedule}`:         "",
		`{key: k, value: v}`:                                     "",
		`{key: k, value: other}`:                                 "",
		`{key: bare}`:                                            "",
		`{key: bare, operator: Exists}`:                          "",
		`{key: other, effect: NoSchedule}`:                       "",
		`{key: cluster.karmada.io/not-ready, effect: NoExecute}`: "",
		`{operator: Exists, effect: NoSelect}`:                   "",
	} {
		got := population{"cluster", clusters}.tolerations(decoded[[]placementv1.Rule](t, "[{name: r, tolerate: ["+toleration+"]}]"), false)
		switch {
		case want == "" && len(got) > 0:
			t.Errorf("%s: %q", toleration, got[0].Message)
		case want != "" && (len(got) != 1 || !strings.Contains(got[0].Message, want) || !strings.HasPrefix(got[0].Message, "spec.rules[0].tolerate[0]: ")):
			t.Errorf("%s: got %v, want %q", toleration, got, want)
		}
	}
}
