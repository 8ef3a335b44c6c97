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
	"fmt"
	"strings"
	"testing"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// writes is a policy that sets an annotation and a label.
func writes(t *testing.T) *placement.Policy {
	return with(allows(t, "p", nil), func(p *placement.Policy) {
		p.Evaluator = &fakeEvaluator{clauses: []clause{{field: "annotations", key: "notes", value: "x"}, {field: "labels", key: "a", value: "b"}}}
	})
}

func noted(annotations ...string) *unstructured.Unstructured {
	obj := asking("")
	values := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		values[annotations[i]] = annotations[i+1]
	}
	obj.SetAnnotations(values)
	return obj
}

// TestRecordsAreCompact checks that values which JSON could escape fit into a record as they do without policies.
func TestRecordsAreCompact(t *testing.T) {
	for name, value := range map[string]string{
		"HTML": strings.Repeat("<&>", 40_000), "Quotes": strings.Repeat(`"`, 80_000), "Backslashes": strings.Repeat(`\`, 80_000), "Letters": strings.Repeat("é", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			out := decide(t, noted("notes", value), nil, writes(t))
			if errs := out.Verdicts[0].Decision.Errors; len(errs) > 0 {
				t.Fatal(errs)
			}
			if err := apivalidation.ValidateAnnotationsSize(out.Object.GetAnnotations()); err != nil {
				t.Error(err)
			}
			if got := readSigned(t, out.Object).Annotations["notes"].Requested; got == nil || *got != value {
				t.Error("the signed part of the record does not have the value")
			}
			if got := remediated(t, out.Object, with(writes(t), silence)).Object.GetAnnotations()["notes"]; got != value {
				t.Errorf("the value does not return: %.20s", got)
			}
		})
	}
}

func silence(p *placement.Policy) { p.Evaluator = &fakeEvaluator{} }

// TestObjectsWithoutRoomForARecord checks that a new object is denied, and that an existing one keeps its values and can be updated, but
// evades no policy.
func TestObjectsWithoutRoomForARecord(t *testing.T) {
	large := noted("notes", strings.Repeat(`"`, 100_000), "other", strings.Repeat("y", 100_000))
	split := noted("notes", strings.Repeat("x", 130_000))
	edit := func(obj *unstructured.Unstructured, annotations ...string) *unstructured.Unstructured {
		out := obj.DeepCopy()
		values := out.GetAnnotations()
		for i := 0; i < len(annotations); i += 2 {
			values[annotations[i]] = annotations[i+1]
		}
		out.SetAnnotations(values)
		return out
	}
	placed := decide(t, split, nil, writes(t)).Object
	agreed := noted("notes", "x", "other", strings.Repeat("y", 200_000))
	agreed.SetLabels(map[string]string{"a": "b"})
	reader := with(writes(t), func(p *placement.Policy) {
		p.Evaluator = &fakeEvaluator{clauses: []clause{{field: "annotations", key: "notes", value: strings.Repeat("z", 70_000), ifField: "annotations", ifKey: "tier", ifValue: "gold"}}}
	})
	tests := map[string]struct {
		obj, old *unstructured.Unstructured
		policy   *placement.Policy
		// denied are parts of the denial; nil if the object is admitted.
		denied []string
		// left reports whether the annotation keeps its value, as a violation that says why.
		left bool
	}{
		"New":             {obj: large, denied: []string{"annotation notes", "100000 bytes", "262144", placementv1.RequestedAnnotation}},
		"Existing":        {obj: large, old: large, left: true},
		"Update":          {obj: edit(large, "small", "1"), old: large, left: true},
		"ItsOwnChange":    {obj: edit(large, "notes", strings.Repeat(`\`, 100_000)), old: large, denied: []string{"annotation notes"}},
		"Fills":           {obj: edit(placed, "other", strings.Repeat("y", 132_100)), old: placed, denied: []string{"annotation notes"}},
		"FillsWithout":    {obj: edit(split, "other", strings.Repeat("y", 132_100)), old: placed, denied: []string{"annotation notes"}},
		"ChangesDecision": {obj: edit(agreed, "tier", "gold"), old: agreed, policy: reader, denied: []string{"annotation notes", "70000 bytes"}},
		"Unchanged":       {obj: placed, old: placed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := tc.policy
			if p == nil {
				p = writes(t)
			}
			out := decide(t, tc.obj, tc.old, p)
			v := out.Verdicts[0]
			if got := strings.Join(v.Decision.Errors, "; "); (got != "") != (tc.denied != nil) {
				t.Fatalf("errors %.300q", got)
			}
			for _, part := range tc.denied {
				if !strings.Contains(v.Decision.Errors[0], part) {
					t.Errorf("error %q, want %s", v.Decision.Errors[0], part)
				}
			}
			if tc.denied != nil {
				return
			}
			if err := apivalidation.ValidateAnnotationsSize(out.Object.GetAnnotations()); err != nil {
				t.Error(err)
			}
			if got := out.Object.GetAnnotations()["notes"] == tc.obj.GetAnnotations()["notes"] && len(out.Object.GetAnnotations()["notes"]) > 1; got != tc.left {
				t.Errorf("annotation left: %t, want %t", got, tc.left)
			}
			if !tc.left {
				return
			}
			if out.Object.GetLabels()["a"] != "b" {
				t.Error("the other values are not set")
			}
			var why []string
			for _, c := range v.Changes {
				if c.Immutable != "" {
					why = append(why, fmt.Sprint(c.Key, ": ", c.Immutable))
				}
			}
			if len(why) != 1 || !strings.HasPrefix(why[0], "notes: there is no room to record the value that the developer requested, because the annotations would have ") {
				t.Errorf("reasons %q", why)
			}
		})
	}
}
