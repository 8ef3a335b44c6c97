// Package suggest finds the correct spelling of a misspelt name in a list of candidates.
package suggest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the candidate with the fewest edits from name, and reports whether there is one that is near enough.
// It ignores case. Up to a third of the name's characters may differ, and at least one. Among equally near candidates,
// it returns the one that sorts first, regardless of their order. A candidate equal to name is returned, too. For names
// longer than 256 bytes, there is no suggestion.
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

// maxLength limits the work, which grows with the product of the lengths of two names.
const maxLength = 256
