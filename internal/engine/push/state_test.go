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

package push

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTransitionsAreDocumented verifies that the package documentation has exactly the transitions of the code.
func TestTransitionsAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(file.Doc.Text(), "state    event      next state\n")
	if !ok {
		t.Fatal("there is no table of transitions")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[state]map[event]state{}
	for line := range strings.SplitSeq(table, "\n") {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("line %q", line)
		}
		from := state(words[0])
		if documented[from] == nil {
			documented[from] = map[event]state{}
		}
		documented[from][event(words[1])] = state(words[2])
	}
	if diff := cmp.Diff(transitions, documented); diff != "" {
		t.Errorf("the code has other transitions (-code +documentation):\n%s", diff)
	}
	for _, s := range []state{unknown, lost, owned} {
		for _, e := range []event{takenOver, lossFound, failed, unneeded} {
			if _, ok := transitions[s][e]; !ok && (s != owned || e != takenOver) {
				t.Errorf("state %s has no transition for %s", s, e)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	for err, want := range map[error]event{
		errLost:     lossFound,
		errUnneeded: unneeded,
		errRefused:  failed,
		fmt.Errorf("%w: %w", errRefused, errors.New("x")): failed,
		fmt.Errorf("reading: %w", errLost):                lossFound,
		errors.New("x"):                                   failed,
	} {
		if got := eventOf(err); got != want {
			t.Errorf("%v is the event %s, want %s", err, got, want)
		}
	}
}
