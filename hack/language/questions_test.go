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
	"slices"
	"testing"
)

func TestCheckQuestions(t *testing.T) {
	const text = `package p

func (s *state) isAssigned() bool { s.field.other = 1; return true }

func (s *state) HasMapElement(key int) bool { s.known[key] = true; return true }

func (s *state) canCount() bool { s.count++; return true }

func (s *state) mayDelete() (ok bool) { delete(s.known, 1); return true }

func (s state) mustClear() bool { clear(s.known); return true }

func (s state) shouldFillCopy() bool { s.known[1] = true; return true }

func (s *state) needsDereference() bool { func() { (*s).field = 1 }(); return true }

func (s state) isCopied() bool { s.field = 1; return true }

func (s *state) isRead() bool { other := s.field; other = 2; s = nil; return other == 2 }

func (s *state) hasOwnMap() bool { seen := map[int]bool{}; seen[1] = true; delete(seen, 1); return s != nil }

func (s *state) isolate() bool { s.field = 1; return true }

func (s *state) is() bool { s.field = 1; return true }

func (s *state) isRead2() (bool, error) { s.field = 1; return true, nil }

func isFunction(s *state) bool { s.field = 1; return true }
`
	var got []string
	for _, f := range checkQuestions(parse("internal/p/p.go", []byte(text))) {
		got = append(got, f.phrase)
	}
	want := []string{"isAssigned", "HasMapElement", "canCount", "mayDelete", "mustClear", "shouldFillCopy", "needsDereference"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
