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
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

// fields returns the fields of a policy that reads one label, the names and images of containers, and all of
// spec.hints.
func fields() *projection.FieldSet {
	f := &projection.FieldSet{}
	metadata := f.AddName("metadata")
	metadata.AddName("labels").AddName("level")
	metadata.AddName("annotations").AddEach()
	containers := f.AddName("spec").AddName("containers").AddEach()
	containers.AddName("name")
	containers.AddName("image")
	f.AddName("spec").AddName("hints").AddAll()
	return f.Seal()
}

func document(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestValue(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"Nothing":       {`{}`, `{}`},
		"Unread":        {`{"status": {"a": 1}, "metadata": {"uid": "x"}}`, `{"metadata": {}}`},
		"Named":         {`{"metadata": {"labels": {"level": "1", "team": "a"}}}`, `{"metadata": {"labels": {"level": "1"}}}`},
		"Each":          {`{"metadata": {"annotations": {"a": "b", "c": {"d": 1}, "e": [1]}}}`, `{"metadata": {"annotations": {"a": "b", "c": {}, "e": []}}}`},
		"All":           {`{"spec": {"hints": {"a": [{"b": null}]}, "x": 1}}`, `{"spec": {"hints": {"a": [{"b": null}]}}}`},
		"Members":       {`{"spec": {"containers": [{"name": "a", "env": []}, 1, {}]}}`, `{"spec": {"containers": [{"name": "a"}, 1, {}]}}`},
		"MembersByName": {`{"spec": {"containers": {"x": {"name": "a", "env": []}}}}`, `{"spec": {"containers": {"x": {"name": "a"}}}}`},
		"OtherTypes":    {`{"metadata": [1, 2], "spec": "text"}`, `{"metadata": [], "spec": "text"}`},
		"Null":          {`{"metadata": null, "spec": {"hints": null}}`, `{"metadata": null, "spec": {"hints": null}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := fields().Value(document(t, tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if want := ast.MustInterfaceToValue(document(t, tc.want)); got.Compare(want) != 0 {
				t.Errorf("is %s, want %s", got, want)
			}
		})
	}
}

// TestKeysDiffer checks that documents that an evaluation can distinguish have different keys.
func TestKeysDiffer(t *testing.T) {
	labels := func(level string) string { return `{"metadata": {"labels": {"level": ` + level + `}}}` }
	documents := []string{
		`{}`, `{"metadata": {}}`, `{"metadata": null}`, `{"metadata": false}`, `{"metadata": []}`, `{"metadata": ""}`, `{"metadata": 0}`,
		`{"metadata": {"labels": {}}}`, labels("null"), labels("false"), labels("true"), labels("{}"), labels("[]"), labels(`""`), labels("0"),
		labels(`"0"`), labels("1"), labels("1.5"), labels(`"null"`),
		`{"metadata": {"annotations": {}}}`, `{"metadata": {"annotations": {"a": "b"}}}`, `{"metadata": {"annotations": {"ab": ""}}}`, `{"metadata": {"annotations": {"b": "b"}}}`,
		`{"metadata": {"annotations": {"a": "b", "c": "d"}}}`, `{"metadata": {"annotations": {"a": "bcd"}}}`,
		`{"spec": {"containers": []}}`, `{"spec": {"containers": {}}}`, `{"spec": {"containers": [{}]}}`, `{"spec": {"containers": [{}, {}]}}`,
		`{"spec": {"containers": [[]]}}`, `{"spec": {"containers": [{"name": "a"}]}}`, `{"spec": {"containers": [{"image": "a"}]}}`,
		`{"spec": {"hints": [[], [1]]}}`, `{"spec": {"hints": [[1], []]}}`, `{"spec": {"hints": [[[], 1]]}}`, `{"spec": {"hints": {"a": 1}}}`,
		// The strings contain the byte with which an encoded string begins.
		`{"spec": {"hints": ["a\u0007b", "c"]}}`, `{"spec": {"hints": ["a", "b\u0007c"]}}`,
	}
	keys := map[string]string{}
	for _, text := range documents {
		key, ok := fields().AppendKey(nil, document(t, text))
		if !ok {
			t.Fatalf("%s has no key", text)
		}
		if other, taken := keys[string(key)]; taken {
			t.Errorf("%s and %s have the same key", text, other)
		}
		keys[string(key)] = text
	}
}

func randomDocument(r *rand.Rand, depth int) any {
	kind := r.IntN(8)
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return []any{nil, true, false}[r.IntN(3)]
	case 1:
		return []any{int64(1), float64(1), 1.5, json.Number("1.0"), 1, uint64(1)}[r.IntN(6)]
	case 2:
		return []any{map[string]string{"name": "a"}, []string{"a"}, []any{}, map[string]any{}}[r.IntN(4)]
	case 3, 4:
		return []string{"", "a", "ab"}[r.IntN(3)]
	case 5:
		list := make([]any, r.IntN(3))
		for i := range list {
			list[i] = randomDocument(r, depth-1)
		}
		return list
	}
	out := map[string]any{}
	for _, name := range []string{"metadata", "spec", "labels", "level", "annotations", "containers", "name", "hints", "other"} {
		if r.IntN(3) > 0 {
			out[name] = randomDocument(r, depth-1)
		}
	}
	return out
}

// TestKeysOfRandomDocuments checks that equal keys imply equal values, whatever Go types the documents have.
func TestKeysOfRandomDocuments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := fields()
	values := map[string]ast.Value{}
	repeated, rounds := 0, budget.Rounds(20_000)
	for range rounds {
		d := randomDocument(r, 1+r.IntN(3))
		key, ok := f.AppendKey([]byte("before"), d)
		if !ok {
			t.Fatalf("%v has no key", d)
		}
		value, err := f.Value(d)
		if err != nil {
			t.Fatal(err)
		}
		existing, ok := values[string(key)]
		if ok && existing.Compare(value) != 0 {
			t.Fatalf("one key for %s and %s", existing, value)
		}
		if ok {
			repeated++
		}
		values[string(key)] = value
	}
	if repeated < rounds/20 {
		t.Errorf("only %d keys were seen twice", repeated)
	}
}

func TestNoKey(t *testing.T) {
	for _, d := range []any{map[string]any{"spec": map[string]any{"hints": func() {}}}, map[string]any{"metadata": map[string]any{"annotations": []any{make(chan int)}}}} {
		if _, ok := fields().AppendKey(nil, d); ok {
			t.Error("what has no JSON has a key")
		}
		if _, err := fields().Value(d); err == nil {
			t.Error("what has no JSON has a value")
		}
	}
}

// poolsLose reports whether a sync.Pool may discard what is returned to it, as under the race detector.
var poolsLose bool

func TestAppendKeyAllocatesNothing(t *testing.T) {
	if poolsLose {
		t.Skip("pools lose what they are given")
	}
	f := fields()
	d := document(t, `{"metadata": {"labels": {"level": "1"}, "annotations": {"a": "b", "c": "d"}}, "spec": {"containers": [{"name": "a"}], "hints": {"x": [1, {"b": 2, "a": 1}]}}}`)
	buffer := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { f.AppendKey(buffer, d) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPaths(t *testing.T) {
	f := &projection.FieldSet{}
	f.AddName("a").AddEach().AddName("b")
	f.AddName("a").AddName("x/y").AddName("c")
	f.AddName("d").AddAll()
	f.AddName("d").AddName("e")
	f.AddName("f")
	sealed := f.Seal()
	want := []string{`.a.*.b`, `.a["x/y"].b`, `.a["x/y"].c`, ".d.**", ".f"}
	if diff := cmp.Diff(want, sealed.Paths()); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		fields *projection.FieldSet
		want   []string
	}{
		{sealed.AtPath("a", "x/y"), []string{".b", ".c"}},
		{sealed.AtPath("a", "other"), []string{".b"}},
		{sealed.AtPath("d", "e", "f"), []string{".**"}},
		{sealed.AtPath("g"), nil},
		{sealed.AtPath("f", "g", "h"), nil},
		{sealed.AtPath("a").UnionAtDepth(1), []string{".b", ".c"}},
		{sealed.UnionAtDepth(1), []string{".**"}},
		{sealed.AtPath("a").UnionAtDepth(2), nil},
	} {
		if diff := cmp.Diff(tc.want, tc.fields.Paths()); diff != "" {
			t.Errorf("paths (-want +got):\n%s", diff)
		}
	}
}

// TestSealIsBounded checks that sealing replaces the excess of a set that grows beyond the limit with complete reads.
func TestSealIsBounded(t *testing.T) {
	f := &projection.FieldSet{}
	deepest := f
	for range 40 {
		deepest.AddName("a")
		deepest.AddName("b")
		deepest = deepest.AddEach()
	}
	if n := len(f.Seal().Paths()); n > 5000 {
		t.Errorf("%d paths", n)
	}
}
