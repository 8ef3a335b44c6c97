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
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
)

// decoded returns an object as both the webhook and API clients decode it.
func decoded(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// podsOf returns a Deployment with the pod spec.
func podsOf(spec string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":` + spec + `}}}`
}

// TestPatchOfItems checks that a patch only names the list items that change.
func TestPatchOfItems(t *testing.T) {
	terms := func(terms string) string {
		return `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}}`
	}
	const termsAt = "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/"
	tests := map[string]struct {
		from, to string
		want     []string
	}{
		"Added":     {`{"tolerations":[{"key":"a","tolerationSeconds":9007199254740993}]}`, `{"tolerations":[{"key":"a","tolerationSeconds":9007199254740993},{"key":"b"}]}`, []string{`add tolerations/1 {"key":"b"}`}},
		"Removed":   {`{"tolerations":[{"key":"a"},{"key":"b"},{"key":"c"}]}`, `{"tolerations":[{"key":"a"},{"key":"c"}]}`, []string{`remove tolerations/1 null`}},
		"Inserted":  {`{"tolerations":[{"key":"a"},{"key":"c"}]}`, `{"tolerations":[{"key":"a"},{"key":"b"},{"key":"c"}]}`, []string{`add tolerations/1 {"key":"b"}`}},
		"Twice":     {`{"tolerations":[{"key":"a"},{"key":"a"}]}`, `{"tolerations":[{"key":"a"}]}`, []string{`remove tolerations/1 null`}},
		"Swapped":   {`{"tolerations":[{"key":"a"},{"key":"b"}]}`, `{"tolerations":[{"key":"b"},{"key":"a"}]}`, []string{`remove tolerations/0 null`, `add tolerations/1 {"key":"a"}`}},
		"AllGone":   {`{"tolerations":[{"key":"a"}]}`, `{}`, []string{`remove tolerations null`}},
		"AllNew":    {`{}`, `{"tolerations":[{"key":"a"}]}`, []string{`add tolerations [{"key":"a"}]`}},
		"Changed":   {`{"topologySpreadConstraints":[{"maxSkew":1},{"maxSkew":2}]}`, `{"topologySpreadConstraints":[{"maxSkew":3},{"maxSkew":2}]}`, []string{`replace topologySpreadConstraints/0/maxSkew 3`}},
		"OtherType": {`{"tolerations":null}`, `{"tolerations":[{"key":"a"}]}`, []string{`replace tolerations [{"key":"a"}]`}},
		"Term":      {terms(`{"matchExpressions":[{"key":"a"}]},{"matchExpressions":[{"key":"b"}]}`), terms(`{"matchExpressions":[{"key":"a"},{"key":"c"}]},{"matchExpressions":[{"key":"b"}]}`), []string{`add ` + termsAt + `0/matchExpressions/1 {"key":"c"}`}},
		"Part":      {terms(`{}`), `{"affinity":{}}`, []string{`remove affinity/nodeAffinity null`}},
		"Same":      {terms(`{"a":1.0,"b":9223372036854775808}`), terms(`{"b":9223372036854775808,"a":1}`), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			from, to := decoded(t, podsOf(tc.from)), decoded(t, podsOf(tc.to))
			ops := placement.Patch(from, to, placement.Paths{PodSpec: template})
			var got []string
			for _, op := range ops {
				value, err := json.Marshal(op.Value)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %s %s", op.Operation, strings.TrimPrefix(op.Path, "/spec/template/spec/"), value))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(to.Object, decoded(t, string(applyTo(t, []byte(podsOf(tc.from)), ops))).Object); tc.want != nil && diff != "" {
				t.Errorf("the patch does not yield the object (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatchMakesTheOther checks that a patch turns one object into the other, whatever they contain, and that it has a
// bounded number of operations on a list.
func TestPatchMakesTheOther(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	list := func(most int, item func() string) string {
		items := make([]string, r.IntN(most))
		for i := range items {
			items[i] = item()
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	for range budget.Rounds(400) {
		most, kinds := 6, 1+r.IntN(4)
		if r.IntN(10) == 0 {
			most, kinds = 400, 300
		}
		spec := func() string {
			requirement := func() string { return fmt.Sprintf(`{"key":"%c"}`, 'a'+r.IntN(kinds)) }
			return fmt.Sprintf(`{"tolerations":%s,"topologySpreadConstraints":%s,"affinity":{"nodeAffinity":{"x":%s,"a/~b":%s}}}`,
				list(most, requirement), list(most, requirement),
				list(4, func() string { return `{"matchExpressions":` + list(3, requirement) + `}` }), list(4, requirement))
		}
		text, to := podsOf(spec()), decoded(t, podsOf(spec()))
		ops := placement.Patch(decoded(t, text), to, placement.Paths{PodSpec: template})
		if diff := cmp.Diff(to.Object, decoded(t, string(applyTo(t, []byte(text), ops))).Object); diff != "" {
			t.Fatalf("the patch of %s does not yield the object (-want +got):\n%s", text, diff)
		}
		if len(ops) > 200 {
			t.Fatalf("%d operations", len(ops))
		}
	}
}
