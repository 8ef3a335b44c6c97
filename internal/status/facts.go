// Package status turns what the parts of Berth know of a policy into its conditions, and writes status without
// writing when nothing changed.
package status

// HookState says how a policy's part in the webhook configuration fares.
type HookState struct {
	// Generation is the policy's generation whose rules were written; 0 if none were.
	Generation int64
	// Rejected is why the API server refused the rules of that generation; empty if it did not.
	Rejected string
}
