package v1alpha1

import "cmp"

// WithDefaults returns the spec with every absent field that has a default set to it: the values that the API server
// fills in from the schema, for specs that did not pass through it.
func (s PlacementPolicySpec) WithDefaults() PlacementPolicySpec {
	s.RegoVersion = cmp.Or(s.RegoVersion, RegoV1)
	s.Mode = cmp.Or(s.Mode, ModeEnforce)
	s.FailurePolicy = cmp.Or(s.FailurePolicy, FailurePolicyFail)
	s.Remediation.Mode = cmp.Or(s.Remediation.Mode, RemediationAutomatic)
	if s.Remote != nil {
		s.Remote = s.Remote.withDefaults()
	}
	return s
}

func (r *Remote) withDefaults() *Remote {
	r = r.DeepCopy()
	r.TimeoutSeconds = cmp.Or(r.TimeoutSeconds, 1)
	r.Retry.MaxAttempts = cmp.Or(r.Retry.MaxAttempts, 3)
	r.Retry.InitialBackoffMilliseconds = cmp.Or(r.Retry.InitialBackoffMilliseconds, 100)
	r.Retry.MaxBackoffMilliseconds = cmp.Or(r.Retry.MaxBackoffMilliseconds, 1000)
	r.Undefined = cmp.Or(r.Undefined, UndefinedNoOpinion)
	if r.TokenSecretRef != nil {
		r.TokenSecretRef.Key = cmp.Or(r.TokenSecretRef.Key, "token")
	}
	if r.CASecretRef != nil {
		r.CASecretRef.Key = cmp.Or(r.CASecretRef.Key, "ca.crt")
	}
	return r
}
