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

package watches

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// scoresSink records which objects have scores.
type scoresSink struct {
	scores map[string]bool
	calls  int
}

func (s *scoresSink) Replace(r schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	s.scores = map[string]bool{}
	for _, o := range objects {
		s.Put(r, o)
	}
}

func (s *scoresSink) Put(_ schema.GroupVersionResource, o *unstructured.Unstructured) {
	s.calls++
	_, has, _ := unstructured.NestedSlice(o.Object, "status", "scores")
	s.scores[o.GetNamespace()] = has
}

func (s *scoresSink) Delete(_ schema.GroupVersionResource, namespace, _ string) {
	delete(s.scores, namespace)
}
func (s *scoresSink) Drop(schema.GroupVersionResource) { s.scores = nil }

func TestValidity(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock, inner := testingclock.NewFakeClock(start), &scoresSink{}
	sink, resource := Valid(inner, clock), replication.AddOnPlacementScores
	// score returns the scores of a cluster that are valid for some minutes; for ever if that is 0.
	score := func(cluster string, minutes int) *unstructured.Unstructured {
		status := map[string]any{"scores": []any{map[string]any{"name": "cpu", "value": int64(7)}}}
		if minutes > 0 {
			status["validUntil"] = start.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		o.SetNamespace(cluster)
		o.SetName("usage")
		return o
	}
	expect := func(what string, want map[string]bool, calls int) {
		t.Helper()
		if diff := cmp.Diff(want, inner.scores); diff != "" {
			t.Errorf("%s: objects with scores (-want +got):\n%s", what, diff)
		}
		if inner.calls != calls {
			t.Errorf("%s: %d objects, want %d", what, inner.calls, calls)
		}
	}
	sink.Replace(resource, projection.AllFields(), []*unstructured.Unstructured{score("a", 1), score("b", 2), score("c", 0), score("d", 1), score("e", 3)})
	expect("at first", map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true}, 5)
	// A newer version is valid for longer, and a deleted object has nothing.
	sink.Put(resource, score("a", 5))
	sink.Delete(resource, "d", "usage")
	clock.Step(time.Minute)
	expect("after a minute", map[string]bool{"a": true, "b": true, "c": true, "e": true}, 6)
	clock.Step(time.Minute)
	expect("after two minutes", map[string]bool{"a": true, "b": false, "c": true, "e": true}, 7)
	// What is not valid when it arrives has no scores.
	sink.Put(resource, score("b", 1))
	expect("late", map[string]bool{"a": true, "b": false, "c": true, "e": true}, 8)
	sink.Replace(resource, projection.AllFields(), []*unstructured.Unstructured{score("a", 5), score("b", 6)})
	clock.Step(2 * time.Minute)
	expect("again", map[string]bool{"a": true, "b": true}, 10)
	sink.Drop(resource)
	clock.Step(time.Hour)
	expect("in the end", nil, 10)

	// Objects of other types pass, whatever they are.
	sink.Replace(pods, projection.AllFields(), []*unstructured.Unstructured{score("a", 1)})
	sink.Put(pods, score("b", 1))
	sink.Delete(pods, "a", "usage")
	expect("of another type", map[string]bool{"b": true}, 12)
	sink.Drop(pods)
	expect("of another type in the end", nil, 12)
}

func TestWithValidity(t *testing.T) {
	fields := projection.Fields("status.scores.**")
	if got := WithValidity(pods, fields); got != fields {
		t.Errorf("fields of Pods: %v", got.Paths())
	}
	if got := WithValidity(replication.AddOnPlacementScores, nil); got != nil {
		t.Errorf("not all fields: %v", got.Paths())
	}
	got := WithValidity(replication.AddOnPlacementScores, fields).Paths()
	slices.Sort(got)
	if !slices.ContainsFunc(got, func(p string) bool { return p == ".status.validUntil" || p == "status.validUntil" }) {
		t.Errorf("fields: %v", got)
	}
}
