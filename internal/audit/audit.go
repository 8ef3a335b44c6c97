// Package audit holds what the admission webhooks have in common in what they tell the API server's audit log.
//
// Keys of annotations are few and fixed, so that who indexes audit logs gets no new field with each policy. The API
// server puts the webhook's name and a slash before them, and keeps the first value of a key where it asks more than
// once within one request.
package audit

import "strings"

// Keys that both webhooks use.
const (
	// Outcome is how the request was answered.
	Outcome = "outcome"
	// Would is what policies or quotas in mode DryRun would have done.
	Would = "would"
)

// maxValue bounds the value of an annotation, in bytes.
const maxValue = 4096

// Value joins texts to a value of an annotation, and cuts it off where it would be too long.
func Value(texts []string, separator string) string {
	out := strings.Join(texts, separator)
	if len(out) <= maxValue {
		return out
	}
	return strings.ToValidUTF8(out[:maxValue-3], "") + "..."
}
