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

package placementmutator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzMembers checks that members finds the same fields and numbers as the API machinery's decoder, and that it does
// not accept text that is not an object unless a field is invalid.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a": 1}`, `{"a":{"b":[1,{"c":"}"}]},"d":"x\"y\\","e":null,"f":-1.5e3,"g":true}`, "\t{\r\n\"a\" : [ ] ,\"b\":\"\" }\n",
		`{"a":1,"a":2}`, `{"a":{"x":1},"a":{"y":2}}`, `{"a\u0062\n":"\ud83d\ude00","ü":"ü"}`, "{\"\xff\":\"\xff\"}", `null`, `[]`, `"a"`, `1`, ``, ` `, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`,
		`{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1 2}`, `{"a":1}}`, `{"a":1} x`, `{a:1}`, `{"a":}`, `{"a":"\`, `{"a":[1}`, `{"a":{]}`, `{"a":tru}`, `{"a":"b"c}`, `{1:2}`, `{"a"b":1}`,
		"{\"a\":\"\n\"}", "{\"a\n\":1}", `{"a":nan"b"}`, `{"a":1"b"}`,
		`{"a":9007199254740993,"b":-9223372036854775808,"c":9223372036854775808,"d":1e400,"e":1.0,"f":-0,"g":-0.0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]any
		err := utiljson.Unmarshal(text, &want)
		split, ok := members(text)
		if !ok {
			if err == nil && want != nil {
				t.Fatalf("%q is an object", text)
			}
			return
		}
		got := map[string]any{}
		for name, member := range split {
			value, memberErr := decodeValue(member)
			if memberErr != nil {
				if err == nil {
					t.Fatalf("member %q of %q: %v", name, text, memberErr)
				}
				return
			}
			got[name] = value
		}
		if err != nil {
			// Of fields with the same name, all but the last are dropped, whether valid or not.
			if len(split) > 0 {
				return
			}
			t.Fatalf("%q is taken for an object: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("members of %q (-want +got):\n%s", text, diff)
		}
	})
}
