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

package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/console"
)

type color string

type inner struct {
	Text string `json:"text"`
}

type outer struct {
	inner
	Names    []string          `json:"names"`
	Optional []inner           `json:"optional,omitempty"`
	Counts   map[color]int     `json:"counts"`
	Pointer  *int              `json:"pointer"`
	At       *time.Time        `json:"at,omitempty"`
	Any      any               `json:"any"`
	Nested   []*inner          `json:"nested"`
	Texts    map[string]string `json:"texts,omitempty"`
	hidden   int
	Skipped  int `json:"-"`
}

func TestGenerate(t *testing.T) {
	_ = outer{}.hidden
	endpoint := console.Endpoint{Method: "GET", Name: "it", Response: reflect.TypeFor[*outer]()}
	got, err := generate([]console.Endpoint{endpoint}, map[reflect.Type][]string{reflect.TypeFor[color](): {"red", "blue"}})
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "Consoletypes"
	for _, want := range []string{
		strings.ReplaceAll("export interface _Outer {\n  text: string;\n  names: string[] | null;\n  optional?: _Inner[];\n"+
			"  counts: Partial<Record<_Color, number>> | null;\n  pointer: number | null;\n  at?: string;\n  any: unknown;\n"+
			"  nested: (_Inner | null)[] | null;\n  texts?: Record<string, string>;\n}\n", "_", prefix),
		`  "GET it": { request: undefined; response: ConsoletypesOuter };`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks\n%s", got, want)
		}
	}
}

// TestErrors checks that a type without a known JSON form is an error.
func TestErrors(t *testing.T) {
	for want, response := range map[string]reflect.Type{
		"has no JSON form": reflect.TypeFor[func()](),
		"add its type to":  reflect.TypeFor[marshals](),
		"no name in JSON":  reflect.TypeFor[untagged](),
		"has no name":      reflect.TypeFor[struct{ Text string }](),
	} {
		if _, err := generate([]console.Endpoint{{Response: response}}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

type untagged struct{ Text string }

type marshals struct{}

// MarshalJSON implements json.Marshaler.
func (marshals) MarshalJSON() ([]byte, error) { return nil, nil }
