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

package clusterlist_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/clusterlist"
)

// FuzzArray compares ParseArray, NamesAny, and ArrayText with encoding/json.
func FuzzArray(f *testing.F) {
	for _, text := range []string{
		"", "null", "[]", `[""]`, `["]`, `["a"]`, `["eu-1","eu-2"]`, `["a", "b"]`, `["a","b"] `, `["a","b",]`, `["a"b"]`, `["a\"b"]`, `["\u0061"]`,
		`["a","",""]`, `["<a>","&"]`, `["a",null]`, `["a",1]`, `[["a"]]`, `"a"`, "[\"a\x00\"]", "[\"\xff\"]", `["ä"]`, `["fleet/eu-1","a:b","A_1.c"]`,
		`["a",","]`, `["a"","b"]`, `["a","]`, `["","","a"]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want []string
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := clusterlist.ParseArray(text)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("ParseArray(%q): %v, want %v", text, err, wantErr)
		}
		if err != nil {
			if clusterlist.NamesAny(text) {
				t.Errorf("NamesAny(%q) is true, and the text is no array", text)
			}
			return
		}
		if has := clusterlist.NamesAny(text); has != (len(want) > 0) {
			t.Errorf("NamesAny(%q) = %t", text, has)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseArray(%q) (-want +got):\n%s", text, diff)
		}
		if want == nil {
			want = []string{}
		}
		if clusterlist.IsArrayText(text, got) && text != clusterlist.ArrayText(got) {
			t.Errorf("IsArrayText(%q, %q) is true", text, got)
		}
		if len(got) > 1 && clusterlist.IsArrayText(text, got[1:]) {
			t.Errorf("IsArrayText(%q, %q) is true", text, got[1:])
		}
		written, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if text := clusterlist.ArrayText(got); text != string(written) {
			t.Errorf("ArrayText(%q) = %s, want %s", got, text, written)
		}
	})
}

// TestIsArrayText checks that the text of plain names is found to be theirs, and no other text.
func TestIsArrayText(t *testing.T) {
	for text, want := range map[string]bool{
		`["eu-1","eu-2"]`: true, `["eu-1", "eu-2"]`: false, `["eu-1"]`: false, `["eu-1","eu-22"]`: false, `["eu-1","eu-2","us-1"]`: false, `["eu-1eu-2"]`: false,
		`["eu-2","eu-1"]`: false, `["eu-1","eu-2"`: false, "[]": false, "": false,
	} {
		if got := clusterlist.IsArrayText(text, []string{"eu-1", "eu-2"}); got != want {
			t.Errorf("IsArrayText(%q) = %t", text, got)
		}
	}
	if clusterlist.IsArrayText(`["<a>"]`, []string{"<a>"}) || clusterlist.IsArrayText("[]", nil) {
		t.Error("a name that JSON may escape, or none, counts")
	}
}
