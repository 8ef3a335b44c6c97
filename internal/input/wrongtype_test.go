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

package input_test

import (
	"errors"
	"testing"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/input"
)

func TestWrongType(t *testing.T) {
	type source struct {
		Namespaces []string          `json:"namespaces"`
		Labels     map[string]string `json:"labels"`
		Name       string            `json:"name"`
		All        bool              `json:"all"`
		Count      int32             `json:"count"`
	}
	for text, want := range map[string]string{
		`{"sources": [{"namespaces": "a"}]}`:                                       "line 1: sources[0].namespaces: must be a list, is a string",
		`{"sources": [{"labels": ["a"]}]}`:                                         "line 1: sources[0].labels: must be an object, is a list",
		`{"sources": [{"name": {"a": "b"}}]}`:                                      "line 1: sources[0].name: must be a string, is an object",
		`{"sources": [{"all": "yes"}]}`:                                            "line 1: sources[0].all: must be true or false, is a string",
		`{"sources": [{"count": "1"}]}`:                                            "line 1: sources[0].count: must be an integer, is a string",
		`{"sources": {"name": "a"}}`:                                               "line 1: sources: must be a list, is an object",
		`{"sources": ["a"]}`:                                                       "line 1: sources[0]: must be an object, is a string",
		"sources:\n- {name: a, count: 1}\n- name: b\n  labels: {}\n  count: 1.5\n": "line 5: sources[1].count: must be an integer, is number 1.5",
		"sources:\n- {name: a}\n- &b {name: b, count: true}\n- *b\n":               "line 3: sources[1].count: must be an integer, is true or false",
	} {
		out := struct {
			Sources []source `json:"sources"`
		}{}
		asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = json.UnmarshalStrict(asJSON, &out)
		if err = input.WrongType(err, []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	other := errors.New("other")
	if got := input.WrongType(other, nil); !errors.Is(got, other) || got.Error() != other.Error() || input.WrongType(nil, nil) != nil {
		t.Errorf("other errors are changed: %v", got)
	}
}
