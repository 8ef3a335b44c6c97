// Package remediation keeps account of existing objects: which policy matches them, what differs from the decision,
// what was patched, and whose decision does not settle. It is pure but for its own memory; time is passed in.
package remediation

// FieldManager is the field manager of every patch by which the leader remediates.
const FieldManager = "berth-remediation"
