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

package projection_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

// randomFields returns a random sealed set with the names that random documents have.
func randomFields(r *rand.Rand, depth int) *projection.FieldSet {
	f := &projection.FieldSet{}
	collect(r, f, depth)
	return f.Seal()
}

func collect(r *rand.Rand, f *projection.FieldSet, depth int) {
	if depth == 0 {
		return
	}
	if r.IntN(8) == 0 {
		f.AddAll()
	}
	if r.IntN(3) == 0 {
		collect(r, f.AddEach(), depth-1)
	}
	for _, name := range []string{"metadata", "spec", "labels", "level", "other"} {
		if r.IntN(3) == 0 {
			collect(r, f.AddName(name), depth-1)
		}
	}
}

func randomObject(r *rand.Rand) map[string]any {
	for {
		if d, ok := randomDocument(r, 3).(map[string]any); ok {
			return d
		}
	}
}

// TestCut checks that a cut document has the value and the key of the original, whatever the fields, and that cutting
// it again changes nothing.
func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	shorter, rounds := 0, budget.Rounds(2_000)
	for range rounds {
		f, d := randomFields(r, 3), randomObject(r)
		before, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		cut := f.Project(d)
		want, err := f.Value(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Value(cut)
		if err != nil {
			t.Fatal(err)
		}
		wantKey, _ := f.AppendKey(nil, d)
		gotKey, _ := f.AppendKey(nil, cut)
		if want.Compare(got) != 0 || !bytes.Equal(wantKey, gotKey) {
			t.Fatalf("%v of %s cuts it to %v: value %s, want %s", f.Paths(), before, cut, got, want)
		}
		if diff := cmp.Diff(cut, f.Project(cut)); diff != "" {
			t.Fatalf("cut again (-once +twice):\n%s", diff)
		}
		after, err := json.Marshal(d)
		if err != nil || !bytes.Equal(before, after) {
			t.Fatalf("the document became %s, was %s (%v)", after, before, err)
		}
		text, err := json.Marshal(cut)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) < len(before) {
			shorter++
		}
	}
	if shorter < rounds/2 {
		t.Errorf("only %d cuts left anything out", shorter)
	}
}

// TestCutLeavesOut checks that a cut has only the fields in the set, and that partly included objects are copied.
func TestCutLeavesOut(t *testing.T) {
	d := document(t, `{"metadata": {"labels": {"level": "1", "team": "a"}, "uid": "x"}, "spec": {"containers": [{"name": "a", "env": [1]}, 2], "hints": {"a": 1}}, "status": {"b": 1}}`)
	cut := fields().Project(d)
	want := document(t, `{"metadata": {"labels": {"level": "1"}}, "spec": {"containers": [{"name": "a"}, 2], "hints": {"a": 1}}}`)
	if diff := cmp.Diff(want, cut); diff != "" {
		t.Errorf("cut (-want +got):\n%s", diff)
	}
	cut["metadata"].(map[string]any)["labels"].(map[string]any)["level"] = "2"
	cut["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["name"] = "b"
	if got := d["metadata"].(map[string]any)["labels"].(map[string]any)["level"]; got != "1" {
		t.Errorf("level %v", got)
	}
	if got := d["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["name"]; got != "a" {
		t.Errorf("name %v", got)
	}
}

// TestCovers checks that one set covers another if and only if every document that is cut to the first can be cut to
// the other. For sets that do not cover each other, some random document shows the difference. A union must cover its
// parts and nothing more than necessary.
func TestCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	covered, rounds := 0, budget.Rounds(1_000)
	for range rounds {
		a, b := randomFields(r, 3), randomFields(r, 3)
		union := projection.Union(a, b)
		if !union.Covers(a) || !union.Covers(b) || !a.Covers(a) {
			t.Fatalf("%v does not cover %v and %v", union.Paths(), a.Paths(), b.Paths())
		}
		if a.Covers(b) != a.Covers(union) {
			t.Fatalf("%v covers %v: %t, and their union: %t", a.Paths(), b.Paths(), a.Covers(b), a.Covers(union))
		}
		if !a.Covers(b) {
			continue
		}
		covered++
		for range 20 {
			d := randomObject(r)
			want, _ := b.AppendKey(nil, d)
			got, _ := b.AppendKey(nil, a.Project(d))
			if !bytes.Equal(want, got) {
				t.Fatalf("%v covers %v, but not of %v", a.Paths(), b.Paths(), d)
			}
		}
	}
	if covered < rounds/25 {
		t.Errorf("only %d sets covered another", covered)
	}
}

func TestCoversTable(t *testing.T) {
	named := func(path ...string) *projection.FieldSet {
		f := &projection.FieldSet{}
		at := f
		for _, name := range path {
			switch name {
			case "*":
				at = at.AddEach()
			case "**":
				at.AddAll()
			default:
				at = at.AddName(name)
			}
		}
		return f.Seal()
	}
	tests := []struct {
		a, b []string
		want bool
	}{
		{nil, nil, true}, {nil, []string{"a"}, false}, {[]string{"a"}, nil, true},
		{[]string{"**"}, []string{"a", "*", "b"}, true}, {[]string{"a", "*", "b"}, []string{"**"}, false},
		{[]string{"*"}, []string{"a"}, true}, {[]string{"a"}, []string{"*"}, false},
		{[]string{"*", "b"}, []string{"a", "b"}, true}, {[]string{"*"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"a"}, true}, {[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a", "**"}, []string{"a", "b", "c"}, true}, {[]string{"a", "**"}, []string{"b"}, false},
	}
	for _, tc := range tests {
		if got := named(tc.a...).Covers(named(tc.b...)); got != tc.want {
			t.Errorf("%v covers %v: %t", tc.a, tc.b, got)
		}
	}
	if union := projection.Union(named("a", "*", "x"), named("a", "b", "y")); !cmp.Equal(union.Paths(), []string{".a.*.x", ".a.b.x", ".a.b.y"}) {
		t.Errorf("union %v", union.Paths())
	}
	if projection.Union().IsAll() || len(projection.Union().Paths()) > 0 {
		t.Error("the union of nothing has something")
	}
}

// TestEqualValues checks that EqualValues is true if and only if the cut values are equal, whatever other fields the
// values have.
func TestEqualValues(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	same, rounds := 0, budget.Rounds(1_000)
	for range rounds {
		f := randomFields(r, 2)
		more := projection.Union(f, randomFields(r, 2))
		a, b := randomObject(r), randomObject(r)
		for r.IntN(2) == 0 {
			b = f.Project(a)
			b["other"] = randomDocument(r, 1)
		}
		value := func(f *projection.FieldSet, d map[string]any) ast.Value {
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			v, err := f.Value(document(t, string(text)))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		want := value(f, a).String() == value(f, b).String()
		if got := f.EqualValues(value(more, a), value(f, b)); got != want {
			t.Fatalf("%v: %s and %s show the same: %t", f.Paths(), value(f, a), value(f, b), got)
		}
		if want {
			same++
		}
	}
	if same < rounds/10 || same > rounds-rounds/10 {
		t.Errorf("%d pairs show the same", same)
	}
	one, other := ast.Number("1"), ast.Number("1.0")
	if (&projection.FieldSet{}).EqualValues(one, other) || one.Compare(other) != 0 {
		t.Error("numbers of different texts are the same")
	}
	if !(&projection.FieldSet{}).EqualValues(nil, nil) || (&projection.FieldSet{}).EqualValues(nil, one) || (&projection.FieldSet{}).EqualValues(one, nil) {
		t.Error("nothing is the same as nothing alone")
	}
	below := projection.Nest("a", randomFields(r, 0))
	if diff := cmp.Diff([]string{".a"}, below.Paths()); diff != "" {
		t.Error(diff)
	}
}
