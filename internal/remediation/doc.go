// Package remediation tracks existing objects. It records which policies match them, how they violate the decisions,
// which patches were sent, and which objects do not settle. It keeps its state in memory and has no clock: callers pass
// the time.
package remediation

// FieldManager is the field manager of the patches with which the leader remediates.
const FieldManager = "berth-remediation"
