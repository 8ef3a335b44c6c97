package v1alpha1

import "cmp"

// WithDefaults returns the spec with every absent field that has a default set to it: the values that the API server
// fills in from the schema, for specs that did not pass through it.
func (s PlacementPolicySpec) WithDefaults() PlacementPolicySpec {
	s.RegoVersion = cmp.Or(s.RegoVersion, RegoV1)
	s.Mode = cmp.Or(s.Mode, ModeEnforce)
	s.FailurePolicy = cmp.Or(s.FailurePolicy, FailurePolicyFail)
	s.Remediation.Mode = cmp.Or(s.Remediation.Mode, RemediationAutomatic)
	return s
}
