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

// Package metrics defines Berth's Prometheus metrics. Label values come from closed sets, or name an object, a resource
// type, a cluster, or the endpoint of a remote engine. The series of a deleted object are removed.
package metrics

import (
	"iter"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources of a decision.
const (
	SourceAdmission   = "admission"
	SourceRemediation = "remediation"
)

// Outcomes of a decision.
const (
	OutcomeUnchanged = "unchanged"
	OutcomeChanged   = "changed"
	OutcomeDenied    = "denied"
	OutcomeError     = "error"
)

// Answers to requests that policies match.
const (
	AnswerAllowed = "allowed"
	AnswerPatched = "patched"
	AnswerDenied  = "denied"
	AnswerError   = "error"
)

// Outcomes of a remediation.
const (
	RemediationPatched  = "patched"
	RemediationEvicted  = "evicted"
	RemediationConflict = "conflict"
	RemediationFailed   = "failed"
)

// Reasons why objects wait.
const (
	WaitingBudget       = "budget"
	WaitingWindow       = "window"
	WaitingApproval     = "approval"
	WaitingAvailability = "availability"
	WaitingFailures     = "failures"
	WaitingDisruption   = "disruptionbudget"
)

// States of a rollout.
const (
	RolloutProgressing        = "progressing"
	RolloutSoaking            = "soaking"
	RolloutWaitingForApproval = "waiting_for_approval"
	RolloutPaused             = "paused"
	RolloutComplete           = "complete"
	RolloutRolledBack         = "rolled_back"
)

// States of placed objects.
const (
	DeliveryDelivered  = "delivered"
	DeliveryDelivering = "delivering"
	DeliveryFailed     = "failed"
	DeliveryRunning    = "running"
	DeliveryNotRunning = "not_running"
)

// States of a policy.
const (
	StateInForce  = "in_force"
	StateLastGood = "last_good"
	StateBroken   = "broken"
)

// Issuers of the webhooks' certificate.
const (
	ManagementSelf     = "self"
	ManagementExternal = "external"
)

// Metrics are the metrics of one replica. It is safe for concurrent use.
type Metrics struct {
	// Remote are the metrics of remote engines.
	Remote *Remote

	ofPolicies owners[string] // the policies that may have series

	decisions        *prometheus.CounterVec   // evaluations of policies, by policy, source (such as SourceAdmission), and outcome
	duration         *prometheus.HistogramVec // duration of one evaluation of a policy, in seconds, by source; not by policy
	errors           *prometheus.CounterVec   // evaluations of policies that failed, by policy and source
	requests         *prometheus.HistogramVec // seconds that admission requests took that policies match, by answer, such as AnswerPatched
	violations       *prometheus.GaugeVec     // objects that violate a policy, or that it can't decide
	ruleObjects      *prometheus.GaugeVec     // objects that a rule decides
	ambiguous        *prometheus.GaugeVec     // names of clusters that several objects of inventories have, by policy
	paused           *prometheus.GaugeVec     // 1 if remediation is paused in all namespaces, else 0
	pausedNamespaces *prometheus.GaugeVec     // namespaces to which a pause of remediation is limited; 0 for none or a pause in all
	waiting          *prometheus.GaugeVec     // objects that remediation has to change, by policy and reason, such as WaitingBudget
	planMoves        *prometheus.GaugeVec     // objects that the newest plan moves
	planDone         *prometheus.GaugeVec     // objects of the newest plan that no longer have to be moved
	planDuration     *prometheus.HistogramVec // time until all objects of a plan were moved and rolled out, in seconds; completed plans only
	remediations     *prometheus.CounterVec   // patches of existing objects, and evictions, by policy and outcome, such as RemediationPatched
	rollouts         rolloutMetrics
	deliveries       deliveryMetrics
	quotas           *quotaMetrics
	memo             *memoMetrics
	refused          prometheus.Counter // requests to webhooks without a valid token
}

// New returns the metrics, and registers them with r.
func New(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		Remote:    newRemote(),
		decisions: decisions.counter(), duration: decisionDuration.histogram(), errors: decisionErrors.counter(),
		requests:  admissionDuration.histogram(),
		ambiguous: policyAmbiguousClusters.gauge(), violations: violations.gauge(), ruleObjects: policyRuleObjects.gauge(),
		paused: policyPaused.gauge(), pausedNamespaces: policyPausedNamespaces.gauge(), waiting: policyWaiting.gauge(),
		planMoves: policyPlanMoves.gauge(), planDone: policyPlanDone.gauge(), planDuration: policyPlanDuration.histogram(),
		remediations: remediations.counter(), rollouts: newRolloutMetrics(), deliveries: newDeliveryMetrics(), quotas: newQuotaMetrics(),
		memo:    newMemoMetrics(),
		refused: unauthenticatedRequests.counter().WithLabelValues(),
	}
	own := []prometheus.Collector{m.decisions, m.duration, m.errors, m.requests, m.ambiguous, m.violations, m.ruleObjects,
		m.paused, m.pausedNamespaces, m.waiting, m.planMoves, m.planDone, m.planDuration, m.remediations, m.memo.lookups, m.memo.rules, m.refused}
	for _, c := range slices.Concat(own, m.rollouts.collectors(), m.deliveries.collectors(), m.quotas.collectors(), m.Remote.collectors()) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Decision counts one evaluation of a policy by policy, source, and outcome; if it failed, also as an error. It records the duration by
// source only, also for a policy that may have no series. source and outcome are constants such as SourceAdmission and OutcomeDenied.
func (m *Metrics) Decision(policy, source, outcome string, took time.Duration) {
	m.duration.WithLabelValues(source).Observe(took.Seconds())
	m.ofPolicies.touch(policy, func() {
		m.decisions.WithLabelValues(policy, source, outcome).Inc()
		if outcome == OutcomeError {
			m.errors.WithLabelValues(policy, source).Inc()
		}
	})
}

// Admission records the duration of one admission request that policies match in a histogram by answer, such as AnswerDenied.
func (m *Metrics) Admission(answer string, took time.Duration) {
	m.requests.WithLabelValues(answer).Observe(took.Seconds())
}

// Unauthenticated counts one request to a webhook that was refused because its path has no valid token.
func (m *Metrics) Unauthenticated() { m.refused.Inc() }

// NewPolicies returns a collector of the number of policies in each state. states must yield one state for each policy, such as
// StateInForce.
func NewPolicies(states func() iter.Seq[string]) prometheus.Collector {
	return newScraped(func(set setGauge) {
		byState := map[string]int{StateInForce: 0, StateLastGood: 0, StateBroken: 0}
		for state := range states() {
			byState[state]++
		}
		for state, n := range byState {
			set(policies, float64(n), state)
		}
	}, policies)
}

// AmbiguousClusters sets how many names of clusters that a policy reads are ambiguous.
func (m *Metrics) AmbiguousClusters(policy string, names int) {
	m.ofPolicies.touch(policy, func() { m.ambiguous.WithLabelValues(policy).Set(float64(names)) })
}

// Violations sets how many objects violate a policy, or can't be decided by it.
func (m *Metrics) Violations(policy string, objects int) {
	m.ofPolicies.touch(policy, func() { m.violations.WithLabelValues(policy).Set(float64(objects)) })
}

// Rules sets how many existing objects each rule of a policy decides: now has the numbers by the name of the rule. before are the rules
// that had series; those that are not in now lose their series.
func (m *Metrics) Rules(policy string, before []string, now map[string]int) {
	m.ofPolicies.touch(policy, func() {
		for _, rule := range before {
			if _, has := now[rule]; !has {
				m.ruleObjects.DeleteLabelValues(policy, rule)
			}
		}
		for rule, objects := range now {
			m.ruleObjects.WithLabelValues(policy, rule).Set(float64(objects))
		}
	})
}

// waitingReasons are the values of a label for the reasons why objects wait.
var waitingReasons = []string{WaitingBudget, WaitingWindow, WaitingApproval, WaitingAvailability, WaitingFailures, WaitingDisruption}

// Waiting sets how many objects wait before remediation changes them for a policy, by reason, such as WaitingBudget. A reason that the map
// lacks is set to 0.
func (m *Metrics) Waiting(policy string, objects map[string]int) {
	m.ofPolicies.touch(policy, func() {
		for _, reason := range waitingReasons {
			m.waiting.WithLabelValues(policy, reason).Set(float64(objects[reason]))
		}
	})
}

// PlanCompleted records how long a plan of a policy took, from when it was made until all of its objects were moved and their rollouts, or
// moves between clusters, were complete.
func (m *Metrics) PlanCompleted(policy string, took time.Duration) {
	m.ofPolicies.touch(policy, func() { m.planDuration.WithLabelValues(policy).Observe(took.Seconds()) })
}

// Plan sets how many objects a policy's newest plan moves, and how many of these no longer have to be moved. Both are 0 if there is no
// plan, and if the policy's mode moves no objects.
func (m *Metrics) Plan(policy string, moves, done int) {
	m.ofPolicies.touch(policy, func() {
		m.planMoves.WithLabelValues(policy).Set(float64(moves))
		m.planDone.WithLabelValues(policy).Set(float64(done))
	})
}

// Paused sets whether remediation of a policy is paused in all namespaces and, if it is paused only in some, in how many; otherwise 0.
func (m *Metrics) Paused(policy string, paused bool, namespaces int) {
	m.ofPolicies.touch(policy, func() {
		m.paused.WithLabelValues(policy).Set(oneIf(paused))
		m.pausedNamespaces.WithLabelValues(policy).Set(float64(namespaces))
	})
}

// Rollout sets the state of a policy's rollout, and the numbers of its stages and of those that are reached. It removes the policy's series
// of these if at is nil, such as for a policy without spec.rollout.
func (m *Metrics) Rollout(policy string, at *Rollout) {
	m.ofPolicies.touch(policy, func() {
		if at == nil {
			m.rollouts.forget(policy)
			return
		}
		m.rollouts.set(policy, *at)
	})
}

// Delivery sets how far the placed objects of a policy are delivered. It removes the series if d is nil.
func (m *Metrics) Delivery(policy string, d *Delivery) {
	m.ofPolicies.touch(policy, func() {
		if d == nil {
			m.deliveries.forget(policy)
			return
		}
		m.deliveries.set(policy, *d)
	})
}

// Remediation counts one patch or eviction of an existing object for a policy, by its outcome, such as RemediationPatched.
func (m *Metrics) Remediation(policy, outcome string) {
	m.ofPolicies.touch(policy, func() { m.remediations.WithLabelValues(policy, outcome).Inc() })
}

// AddPolicy allows series of a policy. Updates for other policies are ignored.
func (m *Metrics) AddPolicy(policy string) { m.ofPolicies.add(policy) }

// ForgetPolicy removes a policy's series and ignores later updates for the policy.
func (m *Metrics) ForgetPolicy(policy string) {
	m.ofPolicies.forget(policy, func() {
		labels := prometheus.Labels{"policy": policy}
		m.decisions.DeletePartialMatch(labels)
		m.errors.DeletePartialMatch(labels)
		m.ambiguous.DeletePartialMatch(labels)
		m.violations.DeletePartialMatch(labels)
		m.ruleObjects.DeletePartialMatch(labels)
		m.paused.DeletePartialMatch(labels)
		m.pausedNamespaces.DeletePartialMatch(labels)
		m.waiting.DeletePartialMatch(labels)
		m.planDuration.DeletePartialMatch(labels)
		m.planMoves.DeletePartialMatch(labels)
		m.planDone.DeletePartialMatch(labels)
		m.rollouts.forget(policy)
		m.deliveries.forget(policy)
		m.remediations.DeletePartialMatch(labels)
	})
}

// NewCertificateExpiry returns a collector of the expiry time of the webhook's certificate. expiry must return the zero time while there is
// no certificate; the metric then has no series. management is ManagementSelf or ManagementExternal.
func NewCertificateExpiry(expiry func() time.Time, management string) prometheus.Collector {
	return newScraped(func(set setGauge) {
		if at := expiry(); !at.IsZero() {
			set(certificateExpiry, float64(at.Unix()), management)
		}
	}, certificateExpiry)
}
