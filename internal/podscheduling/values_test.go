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

package podscheduling_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/podscheduling"
)

const (
	inZone = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}}`
	onSSD  = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"ssd","operator":"Exists"}]}]}}}`
)

// TestApply checks that the values of a pod spec, with other values merged in, are those of the spec that Apply returns.
func TestApply(t *testing.T) {
	spec := map[string]any{
		"containers":        []any{map[string]any{"name": "web"}},
		"nodeSelector":      map[string]any{"disk": "hdd", "arch": "arm64"},
		"priorityClassName": "low",
		"tolerations":       []any{map[string]any{"key": "a", "operator": "Equal", "value": "b"}, map[string]any{"key": "c"}},
		"affinity":          podscheduling.JSONValue(inZone),
	}
	before := podscheduling.JSONText(spec)
	existing, err := podscheduling.Flatten(spec)
	if err != nil {
		t.Fatal(err)
	}
	next := maps.Clone(existing)
	next["nodeSelector/disk"] = "ssd"
	next["schedulerName"] = "other"
	next[podscheduling.AffinityKey("p")] = onSSD
	delete(next, `tolerations/{"key":"a","value":"b"}`)
	whole, err := podscheduling.Compose(next)
	if err != nil {
		t.Fatal(err)
	}
	got := podscheduling.Apply(spec, existing, whole)
	after, err := podscheduling.Flatten(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, after); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if text := podscheduling.JSONText(spec); text != before {
		t.Errorf("Apply changed its argument to %s", text)
	}
	if diff := cmp.Diff([]any{map[string]any{"key": "c"}}, got["tolerations"]); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

// TestSplit checks that what is left of an edited affinity is told apart from what the developer asks for.
func TestSplit(t *testing.T) {
	values, err := podscheduling.Compose(map[string]string{podscheduling.Affinity: inZone, podscheduling.AffinityKey("p"): onSSD})
	if err != nil {
		t.Fatal(err)
	}
	requested := inZone
	added := map[string]string{podscheduling.AffinityKey("p"): onSSD}
	own, left := podscheduling.Split(values[podscheduling.Affinity], &requested, added, nil)
	if own == nil || *own != inZone || !maps.Equal(left, added) {
		t.Errorf("own %v, left %v", own, left)
	}
	own, left = podscheduling.Split(onSSD, nil, added, nil)
	if own != nil || !maps.Equal(left, added) {
		t.Errorf("without a request: own %v, left %v", own, left)
	}
	if !podscheduling.Implied(new(values[podscheduling.Affinity]), onSSD) || podscheduling.Implied(&requested, onSSD) {
		t.Error("the composed affinity must imply its parts, and the developer's alone must not")
	}
}

// TestParse checks which values of the rule scheduling are rejected.
func TestParse(t *testing.T) {
	tests := map[string]struct {
		value map[string]any
		want  string
	}{
		"Valid":   {value: map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}}},
		"Unknown": {value: map[string]any{"nodeName": "a"}, want: "nodeName: unknown; known are affinity, "},
		"Field":   {value: map[string]any{"tolerations": []any{map[string]any{"keys": "a"}}}, want: `unknown field`},
		"Empty":   {value: map[string]any{"schedulerName": ""}, want: "schedulerName: must not be empty"},
		"Invalid": {value: map[string]any{"nodeSelector": map[string]any{"disk": "a b"}}, want: "nodeSelector"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec, err := podscheduling.Parse(tc.value)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(&corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, spec); diff != "" {
					t.Errorf("spec (-want +got):\n%s", diff)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
