// Package suggest finds the name that somebody who misspelt one has probably meant.
package suggest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the candidate that differs from name by the fewest edits, and whether there is one that is near enough
// to be meant: upper and lower case are not told apart, and a third of the name's characters may differ, but at least
// one. Of equally near candidates it returns the one that sorts first, in whatever order they come. A candidate that is
// equal to name is returned as well. Names that are longer than 256 bytes have no suggestion.
func Nearest(name string, candidates []string) (string, bool) {
	if name == "" || len(name) > maxLength {
		return "", false
	}
	folded := strings.ToLower(name)
	best, distance := "", max(1, len([]rune(folded))/3)+1
	for _, candidate := range candidates {
		if candidate == "" || len(candidate) > maxLength {
			continue
		}
		d := levenshtein.ComputeDistance(folded, strings.ToLower(candidate))
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	return best, best != ""
}

// maxLength bounds the work, which grows with the product of two lengths.
const maxLength = 256
