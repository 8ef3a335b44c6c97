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

package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is a Prometheus metric type.
type Type string

// Metric types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Reporter says which replicas report a metric.
type Reporter string

const (
	// EachReplica means that each replica reports its own values. Sum counters over the replicas, and compare gauges.
	EachReplica Reporter = "each replica"
	// TheLeader means that only the leader reports. After a change of leaders, the counters of the old leader stay with
	// its replica.
	TheLeader Reporter = "the leader"
)

// Label is the name of a label of a metric, with all values of the label if they are known in advance.
type Label struct {
	Name string
	// Values are all values of the label; nil if they are not known in advance, such as names of objects.
	Values []string
}

// Metric declares one metric. Both its registration and its documentation are generated from the declaration.
type Metric struct {
	Name   string
	Type   Type
	Labels []Label
	// Help is one sentence.
	Help     string
	Reporter Reporter
	// buckets are the upper bounds of the buckets of a histogram, in the unit of the metric; nil for other types.
	buckets []float64
}

// All returns the declarations of Berth's metrics in a new slice, sorted by name. The caller must not change the slices in them, which are
// shared.
func All() []Metric {
	return slices.SortedFunc(slices.Values([]Metric{
		decisions, decisionDuration, decisionErrors, decisionMemo, ruleMemo, admissionDuration, policies, policyRuleObjects, replicatedObjects,
		replicatedBytes, replicatedConfirmed, policyAmbiguousClusters, violations, policyPaused, policyPausedNamespaces, policyWaiting,
		policyPlanMoves, policyPlanDone, policyPlanDuration, policyRolloutState, policyRolloutStages, policyRolloutReached, policyDelivery,
		remediations, clusterObjects,
		quotaUsed, quotaHard, quotaAdmissionDuration, quotaDenials, quotaChargeConflicts, quotaDrift, certificateExpiry,
		unauthenticatedRequests,
		remoteRequests, remoteDuration, remoteCircuitOpen, remotePushes, remoteLoads, remotePending,
	}), func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
}

// labelNames returns the names of the labels, in their order.
func (m Metric) labelNames() []string {
	out := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		out[i] = l.Name
	}
	return out
}

// must panics if a metric is constructed as another type than the declared one, which is the only possible error in a declaration.
func (m Metric) must(t Type) {
	if m.Type != t {
		panic(fmt.Sprintf("metric %s is made as a %s and declared as a %s", m.Name, t, m.Type))
	}
}

// counter returns the declared counter without series.
func (m Metric) counter() *prometheus.CounterVec {
	m.must(Counter)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.labelNames())
}

// gauge returns the declared gauge without series.
func (m Metric) gauge() *prometheus.GaugeVec {
	m.must(Gauge)
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.labelNames())
}

// histogram returns the declared histogram without series.
func (m Metric) histogram() *prometheus.HistogramVec {
	m.must(Histogram)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.buckets}, m.labelNames())
}

// desc returns the descriptor of a gauge whose value is read at the time of the scrape.
func (m Metric) desc() *prometheus.Desc {
	m.must(Gauge)
	return prometheus.NewDesc(m.Name, m.Help, m.labelNames(), nil)
}

// scraped is a collector of gauges whose values are read at the time of the scrape.
type scraped struct {
	// read calls set for each series.
	read  func(set setGauge)
	descs map[string]*prometheus.Desc // the descriptor of each metric, by name
}

// setGauge sets the value of the series of a gauge with the given label values, in the order of Metric.Labels.
type setGauge func(m Metric, value float64, labels ...string)

// newScraped returns a collector of gauges. It calls read at each scrape, and read passes each series to set.
func newScraped(read func(set setGauge), gauges ...Metric) prometheus.Collector {
	s := &scraped{read: read, descs: map[string]*prometheus.Desc{}}
	for _, m := range gauges {
		s.descs[m.Name] = m.desc()
	}
	return s
}

// Describe sends the descriptors of the gauges, which Prometheus's registry reads when the collector is registered.
func (s *scraped) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range s.descs {
		out <- desc
	}
}

// Collect sends the present values of all series of the gauges. The registry calls it at each scrape.
func (s *scraped) Collect(out chan<- prometheus.Metric) {
	s.read(func(m Metric, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(s.descs[m.Name], prometheus.GaugeValue, value, labels...)
	})
}

// oneIf returns 1 for true and 0 for false.
func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Labels that several metrics share.
var (
	ofPolicy = Label{Name: "policy"}
	ofSource = Label{Name: "source", Values: []string{SourceAdmission, SourceRemediation}}
	ofQuota  = []Label{{Name: "kind", Values: []string{KindScopedQuota, KindClusterScopedQuota}}, {Name: "namespace"}, {Name: "name"}}
	ofDenier = []Label{{Name: "kind", Values: []string{KindScopedQuota, KindClusterScopedQuota, KindLimitedResource}},
		{Name: "namespace"}, {Name: "name"}}
	ofResource = Label{Name: "resource"}
)

var (
	decisions = Metric{
		Name: "berth_decisions_total", Type: Counter, Reporter: EachReplica,
		Help: "Evaluations of a policy on an object.",
		Labels: []Label{ofPolicy, ofSource, {Name: "outcome", Values: []string{
			OutcomeUnchanged, OutcomeChanged, OutcomeDenied, OutcomeError,
		}}},
	}
	decisionDuration = Metric{
		Name: "berth_decision_duration_seconds", Type: Histogram, Reporter: EachReplica,
		Help:   "Time to evaluate one policy on one object.",
		Labels: []Label{ofSource}, buckets: prometheus.ExponentialBuckets(10e-6, 4, 10),
	}
	decisionErrors = Metric{
		Name: "berth_decision_errors_total", Type: Counter, Reporter: EachReplica,
		Help:   "Evaluations of a policy that failed.",
		Labels: []Label{ofPolicy, ofSource},
	}
	decisionMemo = Metric{
		Name: "berth_decision_memo_total", Type: Counter, Reporter: EachReplica,
		Help:   "Lookups in the decision cache.",
		Labels: []Label{{Name: "result", Values: []string{MemoHit, MemoMiss}}},
	}
	ruleMemo = Metric{
		Name: "berth_rule_memo_total", Type: Counter, Reporter: EachReplica,
		Help:   "Lookups in the rule cache.",
		Labels: []Label{{Name: "result", Values: []string{MemoHit, MemoMiss}}},
	}
	admissionDuration = Metric{
		Name: "berth_admission_duration_seconds", Type: Histogram, Reporter: EachReplica,
		Help:    "Time to answer an admission request that policies match.",
		Labels:  []Label{{Name: "answer", Values: []string{AnswerAllowed, AnswerPatched, AnswerDenied, AnswerError}}},
		buckets: prometheus.ExponentialBuckets(50e-6, 4, 10),
	}
	policies = Metric{
		Name: "berth_policies", Type: Gauge, Reporter: EachReplica,
		Help:   "Policies that this replica has loaded.",
		Labels: []Label{{Name: "state", Values: []string{StateInForce, StateLastGood, StateBroken}}},
	}
	replicatedObjects = Metric{
		Name: "berth_replicated_objects", Type: Gauge, Reporter: EachReplica,
		Help:   "Objects of a type of which this replica keeps copies.",
		Labels: []Label{ofResource},
	}
	replicatedBytes = Metric{
		Name: "berth_replicated_bytes", Type: Gauge, Reporter: EachReplica,
		Help:   "Estimated memory of the copies of a type, with equal projections counted once.",
		Labels: []Label{ofResource},
	}
	replicatedConfirmed = Metric{
		Name: "berth_replicated_confirmed_timestamp_seconds", Type: Gauge, Reporter: EachReplica,
		Help:   "Unix time at which the API server last confirmed the copies of a type.",
		Labels: []Label{ofResource},
	}
	policyAmbiguousClusters = Metric{
		Name: "berth_policy_ambiguous_clusters", Type: Gauge, Reporter: TheLeader,
		Help:   "Number of names of clusters that several objects of inventories have, so that no object gets these clusters.",
		Labels: []Label{ofPolicy},
	}
	violations = Metric{
		Name: "berth_violations", Type: Gauge, Reporter: TheLeader,
		Help:   "Existing objects that differ from what a policy decides, or that it denies or can't decide.",
		Labels: []Label{ofPolicy},
	}
	policyRuleObjects = Metric{
		Name: "berth_policy_rule_objects", Type: Gauge, Reporter: TheLeader,
		Help:   "Existing objects that a rule of a policy decides.",
		Labels: []Label{ofPolicy, {Name: "rule"}},
	}
	policyWaiting = Metric{
		Name: "berth_policy_waiting", Type: Gauge, Reporter: TheLeader,
		Help: "Existing objects that Berth has to patch for a policy, and what they wait for; budget is maxPerMinute or the number of moves " +
			"at the same time.",
		Labels: []Label{ofPolicy, {Name: "reason", Values: waitingReasons}},
	}
	policyPlanDuration = Metric{
		Name: "berth_policy_plan_duration_seconds", Type: Histogram, Reporter: TheLeader,
		Help:    "Time from when a plan of a policy was made until its objects were moved and their rollouts complete.",
		Labels:  []Label{ofPolicy},
		buckets: prometheus.ExponentialBuckets(1, 4, 9),
	}
	policyPlanMoves = Metric{
		Name: "berth_policy_plan_moves", Type: Gauge, Reporter: TheLeader,
		Help: "Existing objects that the newest plan of a policy moves; 0 without a plan, and if its mode or remediation mode lets Berth " +
			"move none.",
		Labels: []Label{ofPolicy},
	}
	policyPlanDone = Metric{
		Name: "berth_policy_plan_done", Type: Gauge, Reporter: TheLeader,
		Help:   "Existing objects of the newest plan of a policy that need no patch or eviction any more; their rollouts may go on.",
		Labels: []Label{ofPolicy},
	}
	policyPaused = Metric{
		Name: "berth_policy_paused", Type: Gauge, Reporter: TheLeader,
		Help: "Whether a policy's remediation is paused everywhere because a change would affect too many objects, or too many moves " +
			"failed: 1 or 0.",
		Labels: []Label{ofPolicy},
	}
	policyPausedNamespaces = Metric{
		Name: "berth_policy_paused_namespaces", Type: Gauge, Reporter: TheLeader,
		Help:   "Number of namespaces to which a pause of remediation is limited, because most affected or failed objects are there; else 0.",
		Labels: []Label{ofPolicy},
	}
	policyRolloutState = Metric{
		Name: "berth_policy_rollout_state", Type: Gauge, Reporter: TheLeader,
		Help:   "How far the newest version of a policy with stages is rolled out: 1 for the present state, else 0.",
		Labels: []Label{ofPolicy, {Name: "state", Values: rolloutStates}},
	}
	policyRolloutStages = Metric{
		Name: "berth_policy_rollout_stages", Type: Gauge, Reporter: TheLeader,
		Help:   "Stages of the rollout of a policy's newest version; 0 if it came into force without stages, or after a rollback.",
		Labels: []Label{ofPolicy},
	}
	policyRolloutReached = Metric{
		Name: "berth_policy_rollout_stages_reached", Type: Gauge, Reporter: TheLeader,
		Help:   "Stages in which a policy's newest version decides.",
		Labels: []Label{ofPolicy},
	}
	policyDelivery = Metric{
		Name: "berth_policy_delivery", Type: Gauge, Reporter: TheLeader,
		Help:   "Placed objects of a policy that delivers; running or not_running in their clusters, if a system reports it.",
		Labels: []Label{ofPolicy, {Name: "state", Values: deliveryStates}},
	}
	clusterObjects = Metric{
		Name: "berth_cluster_objects", Type: Gauge, Reporter: TheLeader,
		Help:   "Matched objects whose cluster list has the cluster; the clusters with the fewest objects count together as (other).",
		Labels: []Label{{Name: "cluster"}, {Name: "state", Values: clusterStates}},
	}
	remediations = Metric{
		Name: "berth_remediations_total", Type: Counter, Reporter: TheLeader,
		Help: "Patches of existing objects and evictions of Pods.",
		Labels: []Label{ofPolicy, {Name: "outcome", Values: []string{RemediationPatched, RemediationEvicted,
			RemediationConflict, RemediationFailed}}},
	}
	quotaUsed = Metric{
		Name: "berth_quota_used", Type: Gauge, Reporter: TheLeader,
		Help:   "Usage of a quota: CPU in cores, memory and storage in bytes, other resources by number.",
		Labels: append(slices.Clip(ofQuota), ofResource),
	}
	quotaHard = Metric{
		Name: "berth_quota_hard", Type: Gauge, Reporter: TheLeader,
		Help:   "Limit of a quota: CPU in cores, memory and storage in bytes, other resources by number.",
		Labels: append(slices.Clip(ofQuota), ofResource),
	}
	quotaAdmissionDuration = Metric{
		Name: "berth_quota_admission_duration_seconds", Type: Histogram, Reporter: EachReplica,
		Help:    "Time to answer a request that reached the webhooks for quotas, also if no quota counts it.",
		Labels:  []Label{{Name: "answer", Values: []string{QuotaAllowed, QuotaDenied, QuotaPending, QuotaError}}},
		buckets: prometheus.ExponentialBuckets(50e-6, 4, 10),
	}
	quotaDenials = Metric{
		Name: "berth_quota_denials_total", Type: Counter, Reporter: EachReplica,
		Help: "Requests that a quota or a LimitedResource denied, counted for each of them.", Labels: ofDenier,
	}
	quotaChargeConflicts = Metric{
		Name: "berth_quota_charge_conflicts_total", Type: Counter, Reporter: EachReplica,
		Help: "Rounds of quota decisions that were repeated because a quota had changed.",
	}
	quotaDrift = Metric{
		Name: "berth_quota_drift_total", Type: Counter, Reporter: TheLeader,
		Help: "Recounts that corrected usage that no known change explains.", Labels: ofQuota,
	}
	unauthenticatedRequests = Metric{
		Name: "berth_webhook_unauthenticated_requests_total", Type: Counter, Reporter: EachReplica,
		Help: "Webhook requests that were refused because their path has no valid token.",
	}
	certificateExpiry = Metric{
		Name: "berth_webhook_certificate_expiry_timestamp_seconds", Type: Gauge, Reporter: EachReplica,
		Help:   "Unix time at which the certificate of the webhooks expires.",
		Labels: []Label{{Name: "management", Values: []string{ManagementSelf, ManagementExternal}}},
	}
)
