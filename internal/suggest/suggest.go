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

// Package suggest finds the correct spelling of a misspelt name in a list of candidates.
package suggest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the candidate with the fewest edits from name; ok is false if none is near enough. It ignores case, and counts two
// swapped neighbors as one edit if nothing else differs. A candidate is near enough if at most a third of the name's characters differ, or
// one. Among equally near candidates, Nearest returns the one that sorts first. It returns none for a name that is empty or a candidate
// itself, and compares no names of more than maxLength bytes.
func Nearest(name string, candidates []string) (nearest string, ok bool) {
	if name == "" || len(name) > maxLength || slices.Contains(candidates, name) {
		return "", false
	}
	folded := strings.ToLower(name)
	best, distance := "", max(1, len([]rune(folded))/3)+1
	for _, candidate := range candidates {
		if candidate == "" || len(candidate) > maxLength {
			continue
		}
		d := editsBetween(folded, strings.ToLower(candidate))
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	return best, best != ""
}

// editsBetween returns the Levenshtein distance of two texts, in characters, or 1 if two swapped neighbors are the only difference.
func editsBetween(a, b string) int {
	for i := range min(len(a), len(b)) - 1 {
		if a[i] == b[i] {
			continue
		}
		if len(a) == len(b) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:] {
			return 1
		}
		break
	}
	return levenshtein.ComputeDistance(a, b)
}

// maxLength is the maximum length of a name, in bytes, that Nearest compares. The work grows with the product of the lengths of two names.
const maxLength = 256
