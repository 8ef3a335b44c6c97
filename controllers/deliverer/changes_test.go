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

package deliverer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestChanges checks for how long a report may concern an earlier version of an object.
func TestChanges(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type look struct {
		uid        types.UID
		generation int64
		revision   string
		after      time.Duration
	}
	const whole = takeUpTimeout
	for name, tc := range map[string]struct {
		looks []look
		want  []time.Duration
	}{
		"an object that was changed before":  {[]look{{"1", 4, "0", 0}, {"1", 4, "0", time.Second}}, []time.Duration{0, 0}},
		"a change that is not taken up":      {[]look{{"1", 1, "0", 0}, {"1", 2, "0", time.Second}, {"1", 2, "0", 31 * time.Second}}, []time.Duration{0, whole, whole - 30*time.Second}},
		"a change that is taken up":          {[]look{{"1", 1, "0", 0}, {"1", 2, "0", 0}, {"1", 2, "1", time.Second}, {"1", 2, "1", time.Second}}, []time.Duration{0, whole, 0, 0}},
		"a change that is undone":            {[]look{{"1", 1, "0", 0}, {"1", 2, "0", 0}, {"1", 3, "0", time.Second}, {"1", 3, "0", time.Hour}}, []time.Duration{0, whole, whole, 0}},
		"another change after the first one": {[]look{{"1", 1, "0", 0}, {"1", 2, "0", 0}, {"1", 2, "1", 15 * time.Second}, {"1", 3, "1", 20 * time.Second}, {"1", 3, "2", 45 * time.Second}}, []time.Duration{0, whole, 0, whole, 0}},
		"both at once":                       {[]look{{"1", 1, "0", 0}, {"1", 2, "1", 0}, {"1", 2, "1", time.Second}}, []time.Duration{0, 0, 0}},
		"a version that was taken up again":  {[]look{{"1", 1, "7", 0}, {"1", 2, "7", 0}, {"1", 2, "0", time.Second}}, []time.Duration{0, whole, 0}},
		"an object without generations":      {[]look{{"1", 0, "0", 0}, {"1", 0, "1", 0}, {"1", 0, "1", time.Second}}, []time.Duration{0, 0, 0}},
		"another object of the name":         {[]look{{"1", 1, "0", 0}, {"1", 2, "0", 0}, {"2", 1, "0", 0}}, []time.Duration{0, whole, 0}},
		"a change before the first report":   {[]look{{"1", 1, "", 0}, {"1", 2, "", time.Second}, {"1", 2, "0", 2 * time.Second}}, []time.Duration{0, whole, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			c := changes{}
			var got []time.Duration
			for _, l := range tc.looks {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
				o.SetName("web")
				o.SetUID(l.uid)
				o.SetGeneration(l.generation)
				got = append(got, c.left(o, l.revision, noon.Add(l.after)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}
