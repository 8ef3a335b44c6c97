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
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsPlacement(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"the clusters in another order": {text: `["b","a"]`, want: true},
		"one is missing":                {text: `["a"]`},
		"one too many":                  {text: `["a","b","c"]`},
		"not a list":                    {text: `{"a":1,"b":1}`},
		"nothing":                       {text: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := isPlacement(test.text, []string{"a", "b"}); (err == nil) != test.want {
				t.Errorf("isPlacement(%s): got error %v, want accepted %v", test.text, err, test.want)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"get", "events", "--field-selector=a=b,reason!=c", "-o", `jsonpath={.a\.b}`})
	if want := `kubectl get events '--field-selector=a=b,reason!=c' -o 'jsonpath={.a\.b}'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPauses(t *testing.T) {
	var log []string
	note := func(line string) func(context.Context, *stage) error {
		return func(context.Context, *stage) error { log = append(log, line); return nil }
	}
	s := &stage{out: io.Discard, pause: func(context.Context) error { log = append(log, "pause"); return nil }}
	acts := []act{{play: note("first")}, {play: note("second")}, {play: note("third")}}
	if err := s.tell(t.Context(), acts); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "pause", "second", "pause", "third"}, log); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	interrupted := errors.New("interrupted")
	s.pause = func(context.Context) error { return interrupted }
	if err := s.tell(t.Context(), acts); !errors.Is(err, interrupted) {
		t.Errorf("an interruption during a pause: got error %v", err)
	}
}

func TestAsk(t *testing.T) {
	read, write := io.Pipe()
	defer write.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (terminal{in: bufio.NewReader(read), out: io.Discard}).ask(ctx, "?"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got error %v", err)
	}
	for name, test := range map[string]struct {
		input, want string
		fails       bool
	}{
		"a line":                {input: " y \n", want: "y"},
		"an end without a line": {input: "y", want: "y"},
		"no input":              {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := terminal{in: bufio.NewReader(strings.NewReader(test.input)), out: io.Discard}.ask(t.Context(), "?")
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %q, error %v", got, err)
			}
		})
	}
}
