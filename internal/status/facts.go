// Package status computes the status of policies, quotas, and limits from the facts that Berth's components report.
//
// Compute, ComputeQuota, and ComputeLimit return a new status. They do not write it. Equal facts give an equal status,
// so the callers can skip writes that change nothing.
package status

// WebhookState is the state of a policy's rules in the webhook configuration.
type WebhookState struct {
	// Generation is the policy's generation whose rules were written; 0 if none were.
	Generation int64
	// Rejected is the API server's error for the rules of that generation; empty if it accepted them.
	Rejected string
}
