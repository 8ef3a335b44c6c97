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

// FuzzArray compares ParseArray and ArrayText with encoding/json.
func FuzzArray(f *testing.F) {
	for _, text := range []string{
		"", "null", "[]", `[""]`, `["]`, `["a"]`, `["eu-1","eu-2"]`, `["a", "b"]`, `["a","b"] `, `["a","b",]`, `["a"b"]`, `["a\"b"]`, `["\u0061"]`,
		`["a","",""]`, `["<a>","&"]`, `["a",null]`, `["a",1]`, `[["a"]]`, `"a"`, "[\"a\x00\"]", "[\"\xff\"]", `["ä"]`, `["fleet/eu-1","a:b","A_1.c"]`,
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
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseArray(%q) (-want +got):\n%s", text, diff)
		}
		if want == nil {
			want = []string{}
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
