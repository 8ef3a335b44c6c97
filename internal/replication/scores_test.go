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

package replication_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/replication"
)

// scoreObject returns the AddOnPlacementScore usage of the cluster eu-1. Without a time, it is always valid.
func scoreObject(validUntil string) *unstructured.Unstructured {
	status := map[string]any{"scores": []any{map[string]any{"name": "cpu", "value": int64(70)}, map[string]any{"value": int64(1)}, "odd"}}
	if validUntil != "" {
		status["validUntil"] = validUntil
	}
	o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	o.SetName("usage")
	o.SetNamespace("eu-1")
	return o
}

func TestScores(t *testing.T) {
	want := map[string]map[string]any{"eu-1": {"usage/cpu": int64(70)}}
	if diff := cmp.Diff(want, replication.Scores([]*unstructured.Unstructured{scoreObject(""), {Object: map[string]any{}}})); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestValid(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		text     string
		invalid  bool
		until    time.Time
	}{
		"Always":    {replication.AddOnPlacementScores, "", false, time.Time{}},
		"Later":     {replication.AddOnPlacementScores, "2026-01-01T13:00:00+00:00", false, now.Add(time.Hour)},
		"Now":       {replication.AddOnPlacementScores, "2026-01-01T12:00:00Z", true, time.Time{}},
		"Earlier":   {replication.AddOnPlacementScores, "2026-01-01T12:59:00+01:00", true, time.Time{}},
		"NoTime":    {replication.AddOnPlacementScores, "tomorrow", false, time.Time{}},
		"OtherType": {schema.GroupVersionResource{Resource: "addonplacementscores"}, "2020-01-01T12:00:00Z", false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			given := scoreObject(tc.text)
			valid, until := replication.Valid(tc.resource, given, now)
			if !until.Equal(tc.until) {
				t.Errorf("valid until %v, want %v", until, tc.until)
			}
			if diff := cmp.Diff(scoreObject(tc.text), given); diff != "" {
				t.Errorf("the object is changed:\n%s", diff)
			}
			want := scoreObject(tc.text)
			if tc.invalid {
				unstructured.RemoveNestedField(want.Object, "status", "scores")
			}
			if diff := cmp.Diff(want, valid); diff != "" {
				t.Errorf("valid (-want +got):\n%s", diff)
			}
		})
	}
}
