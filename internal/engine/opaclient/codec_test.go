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

package opaclient

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/placement"
)

// FuzzAnswer verifies that only a response that is one complete JSON document with a decision yields a decision. Only a
// response with neither a result nor an error counts as undefined.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"", "{", "null", "[]", "{}", "1", `""`, eu, eu + "}", eu + "\n", `{"result": null}`, `{"result": []}`, `{"result": {}}`, `{"Result": {"errors": ["x"]}}`,
		`{"result": {}, "result": {"errors": ["x"]}}`, `{"code": "x"}`, `{"errors": []}`, `{"result": {"annotations": {"a": 1e400}}}`, "{\"result\": {\"labels\": {\"a\": \"\xff\"}}}",
		"\xef\xbb\xbf{}", `{"annotations": {"a": "b"}}`, `{"decision_id": "x"}`, `{"message": "in maintenance"}`, "[[[[", `{"result": {"clusters": ["a"]}} {}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, v0 bool) {
		rules, defined, err := DecodeResult(body, v0)
		var contract *placement.ContractError
		if errors.As(err, &contract) || err == nil {
			if !json.Valid(body) || !utf8.Valid(body) {
				t.Fatalf("%q is taken for an answer", body)
			}
		}
		if err != nil {
			if rules != nil || defined {
				t.Fatalf("%q has rules %v, defined %t, and error %v", body, rules, defined, err)
			}
			return
		}
		var document map[string]any
		if err := json.Unmarshal(body, &document); err != nil && !outOfRange(err) {
			t.Fatalf("%q: %v", body, err)
		}
		result, has := document["result"]
		switch {
		case v0:
			if !defined {
				t.Fatalf("%q is undefined", body)
			}
		case defined != has:
			t.Fatalf("%q has a result: %t, is defined: %t", body, has, defined)
		case !defined:
			for member := range document {
				if !slices.Contains([]string{"decision_id", "explanation", "metrics", "provenance", "warning"}, member) {
					t.Fatalf("%q says something else, and is taken for no opinion", body)
				}
			}
		case defined:
			want, ok := result.(map[string]any)
			if !ok || len(want) != len(rules) {
				t.Fatalf("%q has rules %v", body, rules)
			}
		}
	})
}

// outOfRange reports whether encoding/json rejected a number as too large for its type. json.Number has no such limit.
func outOfRange(err error) bool {
	var kind *json.UnmarshalTypeError
	return errors.As(err, &kind)
}
