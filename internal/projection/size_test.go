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
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

func sizeOf(t *testing.T, document any) int {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		t.Fatal(err)
	}
	return out.Len() - 1
}

// TestSize checks that the size is that of the JSON of the cut document.
func TestSize(t *testing.T) {
	all, some, each := &projection.FieldSet{}, &projection.FieldSet{}, &projection.FieldSet{}
	all.AddAll()
	some.AddName("a").AddName("b").AddAll()
	some.AddName("missing")
	each.AddEach().AddName("b").AddAll()
	document := map[string]any{"a": map[string]any{"b": []any{"x", int64(-12), true}, "c": strings.Repeat("\n", 5)}, "d": map[string]any{"b": nil, "e": 1.5}}
	for name, tc := range map[string]struct {
		fields *projection.FieldSet
		want   any
	}{
		"All":  {all, document},
		"Some": {some, map[string]any{"a": map[string]any{"b": []any{"x", int64(-12), true}}}},
		"Each": {each, map[string]any{"a": map[string]any{"b": []any{"x", int64(-12), true}}, "d": map[string]any{"b": nil}}},
	} {
		if got, want := tc.fields.Seal().Size(document), sizeOf(t, tc.want); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
}

// FuzzSizeOfTexts checks the sizes of arbitrary strings against encoding/json.
func FuzzSizeOfTexts(f *testing.F) {
	f.Add("a\"b\\\n\t\x00\u2028\u2029\u20ac")
	all := &projection.FieldSet{}
	all.AddAll()
	sealed := all.Seal()
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		if got, want := sealed.Size(map[string]any{text: text}), sizeOf(t, map[string]any{text: text}); got != want {
			t.Errorf("%q: %d bytes, want %d", text, got, want)
		}
	})
}

func TestSizeOfRandomTexts(t *testing.T) {
	all := &projection.FieldSet{}
	all.AddAll()
	sealed := all.Seal()
	r := rand.New(rand.NewPCG(1, 2))
	for range budget.Rounds(2000) {
		var text strings.Builder
		for range r.IntN(12) {
			text.WriteRune([]rune{rune(r.IntN(0x80)), rune(r.IntN(0x3000)), 0x2028, '"'}[r.IntN(4)])
		}
		value := strings.ToValidUTF8(text.String(), "")
		if got, want := sealed.Size(value), sizeOf(t, value); got != want {
			t.Errorf("%q: %d bytes, want %d", value, got, want)
		}
	}
}
