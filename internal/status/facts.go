// Package status turns what the parts of Berth know of a policy into its conditions, and writes status without
// writing when nothing changed.
package status

// HookState says how a policy's part in the webhook configuration fares.
type HookState struct {
	// Generation is the policy's generation whose rules the configuration has; 0 if it has none.
	Generation int64
	// Rejected is why the API server refused the policy's rules; empty if it did not.
	Rejected string
}
