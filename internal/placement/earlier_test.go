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

package placement_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// TestCopyOfAReplicaSet checks an undo of a Deployment whose ReplicaSet has clusters that Berth decided for the ReplicaSet alone. The
// Deployment gets them, and a record that is signed for the ReplicaSet.
func TestCopyOfAReplicaSet(t *testing.T) {
	stored := decide(t, asking(""), nil, allows(t, "a", []string{"eu"})).Object
	replicaSet := asking("")
	replicaSet.SetKind("ReplicaSet")
	copied := decide(t, replicaSet, nil, allows(t, "a", []string{"us"})).Object.GetAnnotations()
	wider := allows(t, "a", []string{"ap", "eu", "us"})
	for name, tc := range map[string]struct {
		change func(annotations map[string]string)
		old    *unstructured.Unstructured
		want   string
	}{
		"Copied":    {old: stored, want: `["ap","eu","us"]`},
		"OtherList": {change: func(a map[string]string) { a[clustersKey] = `["us","eu"]` }, old: stored, want: `["us","eu"]`},
		"AsWritten": {change: func(a map[string]string) { a[placementv1.AsWrittenAnnotation] = "true" }, old: stored, want: `["us"]`},
		// Nothing else is known of a new object.
		"Created": {want: `["us"]`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := asking("")
			annotations := map[string]string{clustersKey: copied[clustersKey], placementv1.RequestedAnnotation: copied[placementv1.RequestedAnnotation]}
			if tc.change != nil {
				tc.change(annotations)
			}
			obj.SetAnnotations(annotations)
			if got := decide(t, obj, tc.old, wider).Object.GetAnnotations()[clustersKey]; got != tc.want {
				t.Errorf("clusters %s, want %s", got, tc.want)
			}
		})
	}
}

// TestEarlierValuesAreBounded checks that the oldest earlier values of a key fall out of the record, and that the others stay.
func TestEarlierValuesAreBounded(t *testing.T) {
	sets := func(i int) *placement.Policy {
		return with(allows(t, "a", nil), func(p *placement.Policy) {
			clauses := []clause{{field: "labels", key: "pool", value: fmt.Sprint("v", i)}, {field: "labels", key: "stays", value: "x"}}
			p.Evaluator = &fakeEvaluator{clauses: clauses}
		})
	}
	obj := asking("")
	obj.SetLabels(map[string]string{"pool": "mine"})
	const rounds = 200
	for i := range rounds {
		obj = remediated(t, obj, sets(i)).Object
	}
	if got := len(recordOf(obj)); got > 1000 {
		t.Errorf("the record has %d bytes", got)
	}
	if extension, _ := extensionOf(t, obj); !json.Valid(extension) {
		t.Errorf("extension %s", extension)
	}
	for value, want := range map[string]string{"v198": "mine", "v180": "mine", "v100": "v100"} {
		next := obj.DeepCopy()
		labels := next.GetLabels()
		labels["pool"] = value
		next.SetLabels(labels)
		silent := with(allows(t, "a", nil), func(*placement.Policy) {})
		if got := decide(t, next, obj, silent).Object.GetLabels()["pool"]; got != want {
			t.Errorf("value %s: label %q, want %q", value, got, want)
		}
	}
}

// TestNotTaken checks which values of an update are reported as not taken: those that a policy set earlier, that the update brings, and
// that no policy sets now.
func TestNotTaken(t *testing.T) {
	sets := func(labels ...string) *placement.Policy {
		return with(allows(t, "a", nil), func(p *placement.Policy) {
			clauses := []clause{{field: "annotations", key: "by", value: "a"}}
			for _, value := range labels {
				clauses = append(clauses, clause{field: "labels", key: "pool", value: value})
			}
			p.Evaluator = &fakeEvaluator{clauses: clauses}
		})
	}
	first := decide(t, asking(""), nil, sets("blue")).Object
	stored := decide(t, first, first, sets()).Object
	label := func(value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"pool": value}) }
	}
	blue := "blue"
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		now    *placement.Policy
		want   []placement.Change
	}{
		"Earlier": {label("blue"), sets(), []placement.Change{{Field: "labels", Key: "pool", To: &blue}}},
		"Another": {label("red"), sets(), nil},
		"Same":    {func(o *unstructured.Unstructured) {}, sets(), nil},
		"Set":     {label("blue"), sets("green"), nil},
		"AsWritten": {func(o *unstructured.Unstructured) {
			label("blue")(o)
			o.SetAnnotations(map[string]string{placementv1.AsWrittenAnnotation: "true"})
		}, sets(), nil},
		"NotTrue": {func(o *unstructured.Unstructured) {
			label("blue")(o)
			o.SetAnnotations(map[string]string{placementv1.AsWrittenAnnotation: "yes"})
		}, sets(), []placement.Change{{Field: "labels", Key: "pool", To: &blue}}},
	} {
		t.Run(name, func(t *testing.T) {
			next := stored.DeepCopy()
			tc.change(next)
			if diff := cmp.Diff(tc.want, decide(t, next, stored, tc.now).NotTaken, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
