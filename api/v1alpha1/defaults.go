/*
Copyright 2026 The Berth Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package v1alpha1

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WithDefaults returns the spec with the default of every absent field that has one other than zero. An absent struct, such as
// spec.remediation.budget, stays absent, and the fields of one that is there are set. The defaults are those that the API server sets from
// the schema. Use it for specs that did not pass through the API server.
func (s PlacementPolicySpec) WithDefaults() PlacementPolicySpec {
	s.RegoVersion = cmp.Or(s.RegoVersion, RegoV1)
	s.Mode = cmp.Or(s.Mode, ModeEnforce)
	s.FailurePolicy = cmp.Or(s.FailurePolicy, FailurePolicyFail)
	s.Remediation.Mode = cmp.Or(s.Remediation.Mode, RemediationAutomatic)
	if s.Remediation.BlastRadius != nil {
		s.Remediation.BlastRadius = new(s.Remediation.BlastRadius.WithDefaults())
	}
	if s.Remediation.Budget != nil {
		s.Remediation.Budget = new(s.Remediation.Budget.WithDefaults())
	}
	if s.Limits != nil {
		s.Limits = &Limits{InputBytes: s.Limits.MaxInputBytes()}
	}
	if s.Clusters != nil {
		s.Clusters = new(s.Clusters.WithDefaults())
	}
	if s.Remote != nil {
		s.Remote = s.Remote.withDefaults()
	}
	if s.Rollout != nil {
		s.Rollout = s.Rollout.withDefaults()
	}
	return s
}

// Never is the value of pauseAfterFailures with which failures pause nothing.
const Never = "Never"

// DefaultStagePauseAfterFailures is the default of spec.rollout.stages[*].pauseAfterFailures.
const DefaultStagePauseAfterFailures = 1

// withDefaults returns a copy in which each stage without pauseAfterFailures has its default. r must not be nil.
func (r *PolicyRollout) withDefaults() *PolicyRollout {
	r = r.DeepCopy()
	for i := range r.Stages {
		if r.Stages[i].PauseAfterFailures == nil {
			r.Stages[i].PauseAfterFailures = new(intstr.FromInt32(DefaultStagePauseAfterFailures))
		}
	}
	return r
}

// Defaults of spec.remediation.blastRadius.
const (
	DefaultBlastRadiusPercent    = 10
	DefaultBlastRadiusMinObjects = 10
)

// WithDefaults returns a copy of the bounds with the default of each field that is not set. For nil, it returns the defaults.
func (b *BlastRadius) WithDefaults() BlastRadius {
	var out BlastRadius
	if b != nil {
		out = *b
	}
	out.Percent = cmp.Or(out.Percent, DefaultBlastRadiusPercent)
	out.MinObjects = cmp.Or(out.MinObjects, DefaultBlastRadiusMinObjects)
	return out
}

// Defaults of spec.remediation.budget.
const (
	DefaultMaxUnavailable     = "10%"
	DefaultPauseAfterFailures = 10
	DefaultMoveTimeout        = 10 * time.Minute
)

// WithDefaults returns a copy of the budget with the defaults of maxUnavailable, pauseAfterFailures, and moveTimeout where they are not
// set. For nil, it returns a budget with only these defaults.
func (b *RemediationBudget) WithDefaults() RemediationBudget {
	var out RemediationBudget
	if b != nil {
		out = *b
	}
	if out.MaxUnavailable == nil {
		out.MaxUnavailable = new(intstr.FromString(DefaultMaxUnavailable))
	}
	if out.PauseAfterFailures == nil {
		out.PauseAfterFailures = new(intstr.FromInt32(DefaultPauseAfterFailures))
	}
	if out.MoveTimeout == nil {
		out.MoveTimeout = &metav1.Duration{Duration: DefaultMoveTimeout}
	}
	return out
}

// DefaultInputBytes is the default of spec.limits.inputBytes.
const DefaultInputBytes = 1 << 20

// MaxInputBytes returns inputBytes, or DefaultInputBytes if it is not set. For nil, it returns DefaultInputBytes.
func (l *Limits) MaxInputBytes() int64 {
	if l == nil {
		return DefaultInputBytes
	}
	return cmp.Or(l.InputBytes, DefaultInputBytes)
}

// WithDefaults returns a copy of the rule with the defaults of developerChoice (Narrow) and onEmpty (Deny) where they are not set. For nil,
// it returns a rule with only these defaults.
func (c *ClustersRule) WithDefaults() ClustersRule {
	var out ClustersRule
	if c != nil {
		out = *c
	}
	out.DeveloperChoice = cmp.Or(out.DeveloperChoice, DeveloperChoiceNarrow)
	out.OnEmpty = cmp.Or(out.OnEmpty, OnEmptyDeny)
	return out
}

// withDefaults returns a copy with the default of each absent field that has another default than zero. r must not be nil.
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
