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

package policystatus

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

// Facts is everything that the leader knows about one policy.
type Facts struct {
	// Generation is metadata.generation of the policy in the API server. It may be newer than State.Generation, which is the one in the
	// conditions unless State is nil.
	Generation int64
	// Unresponsive are the group versions of extension API servers that do not respond, so that their types are not known.
	Unresponsive []schema.GroupVersion
	// State is the policy as this replica has loaded it; nil while it is not loaded.
	State *placement.PolicyState
	// Replicated are the replicas of the types that the policy reads, and World those of the types that its predicates read.
	Replicated, World map[schema.GroupVersionResource]Replica
	// Ambiguous are the names of clusters that more than one object has, in the inventories that the policy reads.
	Ambiguous []replication.Ambiguity
	// Stale is the reason why the data that the policy reads is too old to decide; nil if it is current.
	Stale error
	// Pushed is the state of each type that is pushed to the remote engine, with the number of objects there.
	Pushed  map[schema.GroupVersionResource]Replica
	PushErr error               // The error that keeps Berth from pushing, such as a refusal of the remote engine; nil if there is none.
	Settled bool                // Whether the remote engine has all data and modules of the policy; false without one.
	Webhook status.WebhookState // The state of the policy's rules in the webhook configuration.
	// Coverage describes which of the matched types the API server serves: all of them if that is not known yet. It is nil if State is nil.
	Coverage *match.Coverage
	// NoNamespaces reports whether the namespace selector selects no existing namespace.
	NoNamespaces bool
	// Meant has, by the plural name of a type that the policy reads and that is not served, a question that suggests a similar name, for
	// appending to a message; "" if no served type has one.
	Meant map[string]string
	// MatchedWatches is the state of the watches on the types that the policy matches, taken together: synced once all are, with the first
	// error. Failures is always 0.
	MatchedWatches watches.State
	// Deciding reports whether existing objects of the matched types are in the workqueue, so that they have yet to be decided, for the
	// first time or again.
	Deciding bool
	// Resuming reports whether it is still unknown if an earlier leader paused remediation.
	Resuming bool
	// Report is what the leader's decisions on existing objects add up to: their numbers, the plan, and the pause.
	Report remediation.Report
	// Waiting has how many objects wait to be patched and why, the objects that were moved and do not run in their new clusters yet, and
	// those whose patch or rollout failed.
	Waiting remediation.Waiting
	// Types is the type checker's result for the loaded generation; nil if there is none yet.
	Types *status.TypeState
	// RemediatedBefore is the number of patches and evictions before this process became the leader.
	RemediatedBefore int64
	Rollout          *placementv1.RolloutStatus // The next status of the policy's rollout; nil if it has none.
	RolloutPending   bool                       // Whether the newest version is in no stage yet, because it or the one before is not stored.
	// Delivery is how many of the policy's objects are delivered, failed, and run, with an example of each fault.
	Delivery        delivery.Report
	DeliverySettled bool // Whether Delivery has the result of each existing object.
	// Health is what the leader knows of the remote engine; nil if the policy has none.
	Health *placement.RemoteHealth
}

// Replica is the state in which Berth has the data of one type, with the error if reading it fails, and the number of its objects.
type Replica struct {
	watches.State
	Objects int // The number of objects of the type that Berth has, or that are in the remote engine.
}

// Limits on texts and lists in a status. They are lower than the schema's limits.
const (
	maxPlanMessage     = 512
	maxDependencyName  = 317
	maxDependencies    = 64
	maxTransitionField = 512
	maxTransitionValue = 256
	maxFailureMessage  = 256
	maxUser            = 512
	maxDigest          = 64
	maxFailures        = 100
	maxMoving          = 100
)

// Compute returns the policy's status for the facts. From the old status it keeps the transition times, and what a new leader does not know
// yet, such as the pause, the findings, and the numbers of objects. It also keeps findings that depend on the number of matched objects
// until that differs clearly. Otherwise, equal facts give equal results.
func Compute(old placementv1.PlacementPolicyStatus, f Facts) placementv1.PlacementPolicyStatus {
	if f.State == nil && len(old.Conditions) > 0 {
		// A leader that has just started knows less than the previous leader wrote.
		return old
	}
	out := placementv1.PlacementPolicyStatus{Conditions: slices.Clone(old.Conditions)}
	s := &setter{Conditions: status.Conditions{List: &out.Conditions, Generation: f.Generation}, out: &out}
	if f.State == nil {
		out.ObservedGeneration, out.Rollout, out.Delivery = old.ObservedGeneration, old.Rollout, old.Delivery
		s.Set(placementv1.ConditionReady, status.Unknown(placementv1.ReasonNotInForce, "the policy is being loaded"))
		return out
	}
	// The API server may already have a newer generation, about which nothing is known yet.
	out.ObservedGeneration, s.Generation = f.State.Generation, f.State.Generation
	if !f.State.Broken {
		out.GenerationInForce, out.ModuleDigest = f.State.Policy.Generation, f.State.ModuleDigest
	}
	out.Dependencies = dependencies(f)
	s.decided(old, f)
	s.Set(placementv1.ConditionCompiled, s.compiled(old, f))
	s.Set(placementv1.ConditionReplicated, f.replicated(old))
	s.Set(placementv1.ConditionEnforced, f.enforced())
	s.delivery(old, f)
	s.objects(old, f)
	out.Rollout = f.Rollout
	out.WaitsFor = waitsFor(out, f.State.Policy.Name)
	s.Set(placementv1.ConditionRolledOut, rolledOut(out.Rollout, f))
	s.paused(old, f)
	s.Set(placementv1.ConditionReady, s.ready(f))
	s.Set(placementv1.ConditionStalled, s.stalled(f))
	return out
}

// setter sets the conditions and the other fields of the status of one policy.
type setter struct {
	status.Conditions
	out *placementv1.PlacementPolicyStatus // The status that Compute returns.
	// impossible reports whether a check of types or names found a contract rule that can never have a value. Ready is False then.
	impossible bool
}

// compiles returns the condition Compiled as it is without the findings of the type checker: False if the newest version does not compile,
// and True otherwise, also while the API server does not serve a type that it reads. It is never Unknown.
func (f Facts) compiles() *metav1.Condition {
	if _, waits := errors.AsType[*policy.NotServedError](f.State.Err); waits {
		return status.True(placementv1.ReasonCompiled, "the policy's text compiles")
	}
	if f.State.Err == nil {
		message := "the policy's text compiles"
		if r := f.State.Binding.Remote; r != nil {
			message = "the policy's decisions come from " + r.Document.String()
		}
		if len(f.State.Warnings) > 0 {
			message += "; " + strings.Join(f.State.Warnings, "; ")
		}
		return status.True(placementv1.ReasonCompiled, message)
	}
	reason := placementv1.ReasonLastGoodInForce
	if f.State.Broken {
		reason = placementv1.ReasonCompileFailed
	}
	return status.False(reason, f.meanwhile()+": "+f.State.Err.Error())
}

// undecided returns what happens to requests that a policy can't decide: "admitted without the policy's decision" if its failurePolicy is
// Ignore, or its mode Warn or DryRun, and otherwise "denied".
func undecided(p *placement.Policy) string {
	if p.FailurePolicy == placementv1.FailurePolicyIgnore || p.Mode == placementv1.ModeWarn || p.Mode == placementv1.ModeDryRun {
		return "admitted without the policy's decision"
	}
	return "denied"
}

// unmatched returns the condition Enforced, which is False, of a policy that can't match any object, or none until the API server serves a
// type; nil if it can, or that is not known. A namespace selector that selects none of the existing namespaces does not count.
func (f Facts) unmatched() *metav1.Condition {
	switch c := f.Coverage; {
	case c != nil && c.Impossible != "":
		return status.False(placementv1.ReasonNothingMatched, "the policy can't match anything: "+c.Impossible)
	case c != nil && !c.Covered:
		return status.False(placementv1.ReasonNotServed, "nothing is matched until the API server serves a type of spec.match: "+
			strings.Join(c.Unserved, "; "))
	default:
		return nil
	}
}

// partly returns the reason of the condition Enforced, and the message, of a policy that matches only a part of the types that it names, or
// selects no namespace; "" for other policies.
func (f Facts) partly() (reason, message string) {
	switch c := f.Coverage; {
	case c == nil:
		return "", ""
	case len(c.Unserved) > 0:
		return placementv1.ReasonPartlyServed, strings.Join(c.Unserved, "; ")
	case f.NoNamespaces && c.Namespaced:
		return placementv1.ReasonNoNamespaces, "spec.match.namespaceSelector selects none of the namespaces that there are"
	default:
		return "", ""
	}
}

// stalled returns the condition Stalled, which is True, of a policy that its author has to correct: it can't match any object, its newest
// version is invalid, the API server refused its webhook, or it decides nothing. It returns nil for other policies, also for one that reads
// or matches a type that is not served.
func (s *setter) stalled(f Facts) *metav1.Condition {
	_, waits := errors.AsType[*policy.NotServedError](f.State.Err)
	enforced := s.Find(placementv1.ConditionEnforced)
	switch {
	case enforced.Reason == placementv1.ReasonNothingMatched:
		return status.True(enforced.Reason, enforced.Message+"; the policy's author has to correct that")
	case f.State.Err != nil && !waits:
		return status.True(placementv1.ReasonInvalidPolicy, "the policy's author has to correct the policy; see the Compiled condition")
	case enforced.Reason == placementv1.ReasonWebhookRejected:
		return status.True(enforced.Reason, "the policy's author has to correct the policy; see the Enforced condition")
	case f.State.DecidesNothing:
		return status.True(placementv1.ReasonNothingDecided, "the policy's author has to correct the policy; see the Ready condition")
	default:
		return nil
	}
}

// replicated returns the condition Replicated. For a policy with a remote engine, it is also False while the engine does not decide. Then
// it keeps the engine's first error from old. It is Unknown if no version of the policy compiles. old is the policy's status until now.
func (f Facts) replicated(old placementv1.PlacementPolicyStatus) *metav1.Condition {
	if _, waits := errors.AsType[*policy.NotServedError](f.State.Err); f.State.Binding == nil && !waits {
		return status.Unknown(placementv1.ReasonCompileFailed, "no version of the policy can be loaded, so what it reads is not known; see the "+
			"Compiled condition")
	}
	data := f.data()
	complete := data.Status == metav1.ConditionTrue
	if f.Health != nil && (f.Health.BreakerOpen || f.Health.Err != nil) && (complete || !f.lacks(data.Reason)) {
		return f.unreachable(old, data)
	}
	if complete && len(f.Ambiguous) > 0 {
		data.Reason = placementv1.ReasonAmbiguousClusters
		data.Message = replication.DescribeAmbiguities(f.Ambiguous) + "; restrict the inventories in the manager's configuration, or " +
			"rename objects"
	}
	if complete && f.Health != nil {
		data.Message = f.asked() + "; " + data.Message
	}
	return data
}

// data returns the condition Replicated as far as it concerns data: what the policy reads, or what Berth pushes to its remote engine. It is
// True if that is complete and not stale, and False otherwise.
func (f Facts) data() *metav1.Condition {
	if waits, ok := errors.AsType[*policy.NotServedError](f.State.Err); ok {
		return status.False(placementv1.ReasonNotServed, fmt.Sprintf("the API server does not serve %s%s; %s until the type is %s or the policy "+
			"corrected", f.names(waits.Missing), f.unresponsive(), f.meanwhile(), f.available()))
	}
	if missing := f.State.Binding.Missing; len(missing) > 0 {
		return status.False(placementv1.ReasonNotServed,
			fmt.Sprintf("the API server does not serve %s%s; the policy can't decide, and a request for what it matches is %s until the type is %s",
				f.names(missing), f.unresponsive(), undecided(f.State.Policy), f.available()))
	}
	reads, remote := f.reads(), f.State.Binding.Remote
	switch {
	case remote != nil && !remote.NeedsPush():
		return status.True(placementv1.ReasonNoDataRead, "Berth pushes no data to the remote engine: spec.remote.replicate and "+
			"spec.remote.modules are empty")
	case remote == nil && len(reads) == 0:
		return status.True(placementv1.ReasonNoDataRead, "the policy reads no cluster data")
	}
	var waiting []string
	for _, r := range reads {
		if err := r.Err; err != nil && !r.Synced {
			return status.False(status.ReasonOf(err), status.Explain(r.resource.GroupResource(), err))
		}
		if !r.Synced {
			waiting = append(waiting, r.resource.GroupResource().String())
		}
	}
	if f.PushErr != nil {
		return status.False(placementv1.ReasonPushFailed, "Berth can't push what the policy needs to the engine: "+f.PushErr.Error())
	}
	if remote != nil && len(waiting) == 0 && !f.Settled {
		waiting = []string{"the engine to receive everything that Berth pushes"}
	}
	if len(waiting) > 0 {
		return status.False(placementv1.ReasonReplicating, fmt.Sprintf("waiting for %s; until then, a request for what the policy matches is %s",
			strings.Join(waiting, ", "), undecided(f.State.Policy)))
	}
	if f.Stale != nil {
		return status.False(placementv1.ReasonStale, f.Stale.Error())
	}
	message := "everything that the policy reads is replicated"
	if remote != nil {
		message = "the engine has everything that Berth pushes"
	}
	return status.True(placementv1.ReasonReplicated, message)
}

// meanwhile says what decides while a version does not compile, or reads a type that is not served, for completing a message with ": " or
// "until": the generation in force, or no version in any stage, or, without a good version, whether requests are denied or admitted, as
// undecided says.
func (f Facts) meanwhile() string {
	staged := f.State.Staged
	switch {
	case !f.State.Broken:
		return fmt.Sprintf("generation %d stays in force", f.State.Policy.Generation)
	case staged != nil && staged.InForce.Reached == 0 && !staged.InForce.Complete:
		return "no version decides in any stage, so the policy changes and denies nothing"
	default:
		return "a request for what the policy matches is " + undecided(f.State.Policy)
	}
}

// unresponsive names the extension API servers that do not respond, of which one may serve a missing type, for appending to a message; ""
// if there are none.
func (f Facts) unresponsive() string {
	var names []string
	for _, gv := range f.Unresponsive {
		names = append(names, gv.String())
	}
	if len(names) == 0 {
		return ""
	}
	return ", and the extension API server of " + strings.Join(names, ", ") + " does not respond: see the APIService"
}

// available completes "until the type is": "served again" if extension API servers do not respond, and "installed" otherwise.
func (f Facts) available() string {
	if len(f.Unresponsive) > 0 {
		return "served again"
	}
	return "installed"
}

// names lists the types that the policy reads and that are not served, for a message, each with a question that suggests a similar name if
// there is one.
func (f Facts) names(missing []analysis.Read) string {
	texts := make([]string, len(missing))
	for i, read := range missing {
		texts[i] = read.Explained()
		texts[i] += f.Meant[read.Plural]
	}
	return strings.Join(texts, ", ")
}

// readFailure returns the reason and the message of the condition Compliant for an error in reading the objects that a policy matches. If a
// permission is missing, the message has the rule to grant.
func readFailure(err error) (reason, message string) {
	var refusal apierrors.APIStatus
	if !apierrors.IsForbidden(err) {
		return status.ReasonOf(err), err.Error()
	}
	if !errors.As(err, &refusal) || refusal.Status().Details == nil {
		return placementv1.ReasonForbiddenTargets, err.Error()
	}
	r := schema.GroupResource{Group: refusal.Status().Details.Group, Resource: refusal.Status().Details.Kind}
	return placementv1.ReasonForbiddenTargets, status.Grant("remediate", r, "get, list, watch, patch", err)
}

// read is a type that a policy or its predicates read, or that is pushed to its remote engine, with the state of the replica and the number
// of objects. It does not tell which of these uses the type has.
type read struct {
	resource schema.GroupVersionResource // The type.
	Replica                              // The state of Berth's copy of its objects, or of the pushed ones.
}

// reads returns the types that a bound policy reads or that are pushed to its remote engine, followed by the types that
// only its predicates read.
func (f Facts) reads() []read {
	var out []read
	binding := f.State.Binding
	for _, r := range binding.PushedTypes {
		out = append(out, read{r.GroupVersionResource, f.Pushed[r.GroupVersionResource]})
	}
	for _, r := range binding.Resources {
		out = append(out, read{r.GroupVersionResource, f.Replicated[r.GroupVersionResource]})
	}
	byName := func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) }
	for _, r := range slices.SortedFunc(maps.Keys(binding.PredicateReads), byName) {
		at := slices.IndexFunc(out, func(other read) bool { return other.resource == r })
		if at < 0 {
			out = append(out, read{r, f.World[r]})
			continue
		}
		// The type is synced only when both watches are.
		if out[at].Synced {
			out[at].State = f.World[r].State
		}
	}
	return out
}

// dependencies returns status.dependencies: the types that the version in force reads, also by predicates, or that are pushed, with the
// number of objects once all are known, and the types that it reads and the API server does not serve; at most maxDependencies.
func dependencies(f Facts) []placementv1.Dependency {
	if f.State.Binding == nil {
		return nil
	}
	var out []placementv1.Dependency
	for _, r := range f.reads() {
		d := placementv1.Dependency{Resource: r.resource.GroupResource().String(), Version: r.resource.Version}
		if r.Synced {
			d.Objects = new(int32(r.Objects))
		}
		out = append(out, d)
	}
	for _, read := range f.State.Binding.Missing {
		out = append(out, placementv1.Dependency{Resource: printable.Truncate(read.String(), maxDependencyName)})
	}
	return out[:min(len(out), maxDependencies)]
}

// enforced returns the condition Enforced: True if the policy has the mode Enforce and the API server sends Berth the requests that it
// matches, even if only a part of its types is served, or if other policies set the same keys.
func (f Facts) enforced() *metav1.Condition {
	mode, unmatched := f.State.Policy.Mode, f.unmatched()
	switch {
	case unmatched != nil:
		return unmatched
	case f.Webhook.Generation != f.State.Policy.Generation:
		return status.False(placementv1.ReasonWebhookPending, "the webhook configuration does not include the policy's match yet")
	case f.Webhook.Rejected != "":
		return status.False(placementv1.ReasonWebhookRejected, "the API server refused the webhook for the policy's match: "+f.Webhook.Rejected)
	}
	reason, limits := f.limits()
	besides := func(message string) string { return strings.Join(append([]string{message}, limits...), "; ") }
	switch {
	case mode == placementv1.ModeWarn:
		return status.False(placementv1.ReasonWarnMode, besides("the policy warns, and changes and denies nothing"))
	case mode == placementv1.ModeDryRun:
		return status.False(placementv1.ReasonDryRunMode, besides("the policy changes and denies nothing; status counts what it would "+
			"change and deny"))
	case reason != placementv1.ReasonEnforced:
		return status.True(reason, strings.Join(limits, "; "))
	default:
		return status.True(reason, "the API server sends Berth the requests that the policy matches")
	}
}

// limits returns messages about what limits the effect of the policy's decisions: types that are not served, no selected namespace, and
// other policies that set the same keys. reason is that of the condition Enforced: ReasonConflict if there are such policies, or else that
// of the other limit, or ReasonEnforced without any.
func (f Facts) limits() (reason string, out []string) {
	reason = placementv1.ReasonEnforced
	if partly, message := f.partly(); partly != "" {
		reason, out = partly, append(out, message)
	}
	if len(f.Report.Conflicts) > 0 {
		reason = placementv1.ReasonConflict
		out = append(out, fmt.Sprintf("other PlacementPolicies set keys of the same objects to other values (%s); the higher "+
			"spec.priority wins, and among equals the name that sorts first", status.FirstNames(f.Report.Conflicts)))
	}
	return reason, out
}

// objects sets what is known of existing objects: their numbers, the plan, and the condition Compliant. While all objects are being decided
// again, it keeps those of the old status, so that no client reads, and no Event reports, numbers of only a part of the objects.
func (s *setter) objects(old placementv1.PlacementPolicyStatus, f Facts) {
	if s.out.Moving = old.Moving; !f.Resuming {
		s.out.Moving = moving(f.Waiting)
	}
	if !f.Report.Assessing || !f.State.Policy.RemediatesExisting() {
		s.counts(f, old.Undecided)
		s.out.Plan, s.out.UsedApproval = f.plan(old.Plan), f.usedApproval(old.UsedApproval)
		s.waiting(f)
		if s.out.Failures = old.Failures; !f.Resuming {
			s.out.Failures = failures(f.Waiting)
		}
		s.Set(placementv1.ConditionCompliant, s.asDelivered(s.compliant(f), f))
		return
	}
	s.out.Remediated = new(f.RemediatedBefore + f.Report.Remediated)
	s.out.Violations, s.out.WouldDeny, s.out.WouldMove, s.out.Undecided = old.Violations, old.WouldDeny, old.WouldMove, old.Undecided
	s.out.Conflicted, s.out.ViolationSample = old.Conflicted, old.ViolationSample
	s.out.Waiting, s.out.Plan, s.out.Failures, s.out.UsedApproval = old.Waiting, old.Plan, old.Failures, old.UsedApproval
	known := s.Find(placementv1.ConditionCompliant)
	compliant := known
	if known == nil {
		compliant = status.Unknown(placementv1.ReasonEvaluating, "existing objects are being decided")
	}
	if next := s.asDelivered(compliant, f); next != known {
		s.Set(placementv1.ConditionCompliant, next)
	}
}

// plan returns status.plan; nil if the policy does not decide existing objects. A leader without a plan keeps old, that of an earlier
// leader, and completes it once all objects are decided, none has to be moved, and the rollouts and moves of patched objects are complete.
func (f Facts) plan(old *placementv1.RemediationPlan) *placementv1.RemediationPlan {
	p := f.Report.Plan
	switch {
	case !f.State.Policy.RemediatesExisting():
		return nil
	case p == nil && old != nil && f.nothingLeft():
		// The earlier leader made the last moves.
		done := *old
		done.Done, done.State, done.Rollouts = &done.Moves, placementv1.PlanCompleted, int32(f.Waiting.Rollouts)
		if done.Rollouts > 0 {
			done.State = placementv1.PlanInProgress
		}
		return &done
	case p == nil:
		return old
	}
	out := &placementv1.RemediationPlan{
		Digest: p.Digest, State: f.planState(p), Message: printable.Truncate(p.Cause.Explain(p.Generation), maxPlanMessage), Causes: p.Causes,
		StartTime: metav1.NewTime(p.Since.Truncate(time.Second)), Moves: int32(p.Moves), Done: new(int32(p.Done)),
		Rollouts: int32(f.Waiting.Rollouts), Transitions: transitions(p),
	}
	if old != nil && old.Digest == p.Digest {
		// An earlier leader made the same plan, of which this one may know only the rest.
		out.Message, out.Causes, out.StartTime, out.Transitions = old.Message, old.Causes, old.StartTime, old.Transitions
	}
	if a := p.Approval; a != nil && f.State.Policy.NeedsApproval() {
		out.Approval = &placementv1.PlanApproval{User: cmp.Or(printable.Truncate(a.By, maxUser), "unknown")}
		if !a.At.IsZero() {
			out.Approval.Time = new(metav1.NewTime(a.At))
		}
	}
	return out
}

// nothingLeft reports whether all objects are decided, and none has to be moved.
func (f Facts) nothingLeft() bool {
	return !f.Waiting.Resuming && f.Report.Outstanding == 0 && f.Report.Failed == 0 && f.MatchedWatches.Synced && !f.Deciding
}

// MovesBefore returns how many moves an earlier leader made after it wrote a status with a plan: those that were left then, and that this
// leader does not find to be necessary. generation was in force then. known is false until this leader has decided all objects. moves is 0
// if the number can't be found out, because another generation is in force, or some objects can't be decided.
func (f Facts) MovesBefore(plan *placementv1.RemediationPlan, generation int64) (moves int64, known bool) {
	if f.State == nil || f.Resuming {
		return 0, false
	}
	p, left := f.Report.Plan, int(plan.Moves-number(plan.Done))
	switch {
	case f.State.Policy.Generation != generation, !f.State.Policy.RemediatesExisting():
		return 0, true
	case p == nil && f.nothingLeft():
		return int64(left), true
	case p == nil && f.Report.Failed > 0 && f.MatchedWatches.Synced && !f.Deciding, p != nil && p.Undecided > 0:
		return 0, true
	case p == nil:
		return 0, false
	case p.Digest == plan.Digest:
		return max(0, int64(p.Done)-int64(number(plan.Done))-f.Report.Remediated), true
	default:
		return int64(max(0, left-p.Moves)), true
	}
}

// usedApproval returns status.usedApproval: the digest of the approved plan that was carried out; "" if there is none. A leader that does
// not know it yet keeps old.
func (f Facts) usedApproval(old string) string {
	switch approval := f.Report.Approval; {
	case f.Resuming:
		return old
	case approval != nil && approval.Used:
		return approval.Digest
	default:
		return ""
	}
}

// transitions describes the most frequent changes that a plan makes, for status.plan, such as "2 objects: <field> from a to b".
func transitions(p *remediation.Plan) (out []string) {
	value := func(text *string) string {
		if text == nil {
			return "(none)"
		}
		return printable.Truncate(*text, maxTransitionValue)
	}
	for _, t := range p.Transitions {
		out = append(out, fmt.Sprintf("%s: %s from %s to %s", countOf(t.Objects, "object"), printable.Truncate(t.Subject(), maxTransitionField),
			value(t.From), value(t.To)))
	}
	return out
}

// planState returns the state of a plan for status.plan: completed once no object has to be patched, and the rollouts and moves of patched
// objects are complete; before, in progress if remediation is automatic or the plan is approved, waiting for an approval, or only proposed.
func (f Facts) planState(p *remediation.Plan) placementv1.PlanState {
	switch {
	case p.Done >= p.Moves && f.Waiting.Rollouts == 0:
		return placementv1.PlanCompleted
	case f.State.Policy.Automatic(), f.State.Policy.NeedsApproval() && p.Approval != nil:
		return placementv1.PlanInProgress
	case f.State.Policy.NeedsApproval():
		return placementv1.PlanWaitingForApproval
	default:
		return placementv1.PlanProposed
	}
}

// unapproved returns the condition Paused, which is True, for a plan that waits for an approval; nil if it waits for none. Its reason is
// WaitingForApproval, or UnknownPlan if the policy's annotation approves a plan that Berth does not know.
func (f Facts) unapproved(plan *placementv1.RemediationPlan) *metav1.Condition {
	if !f.State.Policy.NeedsApproval() || plan == nil || plan.Approval != nil || plan.State == placementv1.PlanCompleted {
		return nil
	}
	approval, moves := f.Report.Approval, countOf(int(plan.Moves), "object")
	approve := fmt.Sprintf("to have the plan carried out: kubectl annotate plpol %s --overwrite %s=%s", f.State.Policy.Name,
		placementv1.ApproveAnnotation, plan.Digest)
	if approval != nil && approval.Used && approval.Digest == plan.Digest {
		approve = fmt.Sprintf("the approval of the plan was used when the plan was carried out before; to have the plan carried out "+
			"again, first remove the annotation: kubectl annotate plpol %s %s-",
			f.State.Policy.Name, placementv1.ApproveAnnotation)
	}
	if approval != nil && !approval.Known && approval.Digest != plan.Digest &&
		(approval.At.IsZero() || !approval.At.Before(plan.StartTime.Time)) {
		return status.True(placementv1.ReasonUnknownPlan, fmt.Sprintf("the annotation %s approves plan %s, but the plan that moves %s is %s; %s",
			placementv1.ApproveAnnotation, printable.Truncate(approval.Digest, maxDigest), moves, plan.Digest, approve))
	}
	return status.True(placementv1.ReasonWaitingForApproval, fmt.Sprintf("plan %s moves %s; %s", plan.Digest, moves, approve))
}

// CarriedOut returns in moves how many objects a plan moves, and in done how many of them no longer have to be moved. Both are 0 if there
// is no plan, or if it is only proposed.
func CarriedOut(p *placementv1.RemediationPlan) (moves, done int) {
	if p == nil || p.State == placementv1.PlanProposed {
		return 0, 0
	}
	return int(p.Moves), int(number(p.Done))
}

// counts sets remediated, violations, wouldDeny, wouldMove, undecided, conflicted, and violationSample in the status; only remediated if
// the policy does not decide existing objects. before is the number of undecided objects in the old status; nil if it has none.
func (s *setter) counts(f Facts, before *int32) {
	s.out.Remediated = new(f.RemediatedBefore + f.Report.Remediated)
	if !f.State.Policy.RemediatesExisting() {
		return
	}
	undecided := f.undecidedObjects(before)
	s.out.Violations = new(int32(f.Report.Denied+f.Report.Moved) + undecided)
	s.out.WouldDeny = new(int32(f.Report.Denied))
	s.out.WouldMove = new(int32(f.Report.Moved))
	s.out.Undecided = &undecided
	s.out.Conflicted = new(int32(f.Report.Conflicted))
	s.out.ViolationSample = f.Report.Sample
}

// waitingObjects returns status.waiting without messages: for each reason, how many objects that Berth has to patch wait.
func waitingObjects(w remediation.Waiting, plan *placementv1.RemediationPlan) []placementv1.WaitingObjects {
	var out []placementv1.WaitingObjects
	if plan != nil && plan.State == placementv1.PlanWaitingForApproval {
		out = append(out, placementv1.WaitingObjects{Reason: placementv1.WaitingForApproval, Objects: plan.Moves - number(plan.Done)})
	}
	if w.Paced+w.Settling > 0 {
		out = append(out, placementv1.WaitingObjects{Reason: placementv1.WaitingForBudget, Objects: int32(w.Paced + w.Settling)})
	}
	if w.Closed > 0 {
		next := placementv1.WaitingObjects{Reason: placementv1.WaitingForWindow, Objects: int32(w.Closed)}
		if !w.Opens.IsZero() {
			next.Until = new(metav1.NewTime(w.Opens))
		}
		out = append(out, next)
	}
	if w.Unavailable > 0 {
		out = append(out, placementv1.WaitingObjects{Reason: placementv1.WaitingForAvailability, Objects: int32(w.Unavailable)})
	}
	if w.Stopped > 0 {
		out = append(out, placementv1.WaitingObjects{Reason: placementv1.WaitingAfterFailures, Objects: int32(w.Stopped)})
	}
	if w.Protected > 0 {
		out = append(out, placementv1.WaitingObjects{Reason: placementv1.WaitingForDisruptionBudget, Objects: int32(w.Protected)})
	}
	return out
}

// moving returns status.moving: the objects that were moved to other clusters and do not run there yet, at most maxMoving.
func moving(w remediation.Waiting) (out []placementv1.MovingObject) {
	for _, m := range w.Moves[:min(len(w.Moves), maxMoving)] {
		next := placementv1.MovingObject{Object: m.Reference(), Since: metav1.NewTime(m.Since.Truncate(time.Second))}
		if !m.Deadline.IsZero() {
			next.Deadline = new(metav1.NewTime(m.Deadline.Truncate(time.Second)))
		}
		out = append(out, next)
	}
	return out
}

// failures returns status.failures: the objects whose patch or rollout failed; nil if there are none, and no pause because of them.
func failures(w remediation.Waiting) *placementv1.MoveFailures {
	if len(w.Failures) == 0 && w.Pause == "" {
		return nil
	}
	out := &placementv1.MoveFailures{Objects: new(int32(len(w.Failures))), Pause: w.Pause, PausedNamespaces: w.PausedIn}
	for _, f := range w.Failures[:min(len(w.Failures), maxFailures)] {
		next := placementv1.FailedMove{
			Object: f.Reference(), Reason: placementv1.PatchRefused,
			Message: printable.Truncate(f.Reason, maxFailureMessage),
		}
		if f.Rollout {
			next.Reason = placementv1.RolloutFailed
		}
		out.Sample = append(out.Sample, next)
	}
	return out
}

// WaitingFor returns how many objects wait for a reason, as a status has it; 0 if the status does not have the reason.
func WaitingFor(s placementv1.PlacementPolicyStatus, reason placementv1.WaitingReason) int {
	for _, w := range s.Waiting {
		if w.Reason == reason {
			return int(w.Objects)
		}
	}
	return 0
}

// waitingText describes how many objects wait for what, for appending to a message, such as "; 3 of them wait ..."; "" if none waits.
// unapproved is the number of those that wait for an approval.
func (f Facts) waitingText(unapproved int) string {
	var out string
	w, policy := f.Waiting, f.State.Policy
	if unapproved > 0 {
		out = fmt.Sprintf("; %d of them wait %s", unapproved, f.wait(placementv1.WaitingForApproval))
	}
	if w.Closed > 0 {
		out += fmt.Sprintf("; %d of them wait %s", w.Closed, f.wait(placementv1.WaitingForWindow))
	}
	if w.Paced > 0 {
		out += fmt.Sprintf("; %d of them wait because spec.remediation.budget of a policy that decides them, or a flag of the manager, bounds "+
			"how many are patched a minute or moved at the same time", w.Paced)
		if group := policy.Budget.Group; group != "" {
			out += fmt.Sprintf(", counting the objects and bounds of all policies of spec.remediation.budget.group %s", group)
		}
		if n := w.Late; n > 0 {
			out += fmt.Sprintf("; %d objects that did not run in their new clusters in time still count as being moved in their "+
				"namespaces, against maxConcurrent and perNamespace of the other objects there, until they run or are deleted: see status.moving and "+
				"status.failures", n)
		}
	}
	if w.Settling > 0 {
		out += fmt.Sprintf("; %d of them wait until all objects are decided and it is known which objects are ready", w.Settling)
	}
	if w.Unavailable > 0 {
		var of string
		if w.UnavailableFor != policy.Name {
			of = " of policy " + w.UnavailableFor + ", which also decides them,"
		}
		out += fmt.Sprintf("; %d of them wait because %d objects are unavailable, and spec.remediation.budget.maxUnavailable%s allows %d: the "+
			"first is %s", w.Unavailable, w.UnavailableNow, of, w.MaxUnavailable, w.FirstUnavailable)
	}
	if w.Stopped > 0 {
		out += fmt.Sprintf("; %d of them wait because patches or rollouts of too many objects failed: the Paused condition says how to let the "+
			"patches go on", w.Stopped)
	}
	if w.Protected > 0 {
		out += fmt.Sprintf("; %d of them are Pods that wait because a PodDisruptionBudget does not allow their eviction", w.Protected)
	}
	return out
}

// obstacleText returns "; Berth could not change " followed by obstacle, for appending to a message; "" if obstacle is empty. obstacle has
// the name of an object whose last patch failed, and the error.
func obstacleText(obstacle string) string {
	if obstacle == "" {
		return ""
	}
	return "; Berth could not change " + obstacle
}

// compliant returns the condition Compliant without regard to delivery: True if all existing objects are as the policy decides, and Unknown
// while they are not read, or if the policy does not decide them.
func (s *setter) compliant(f Facts) *metav1.Condition {
	r := f.Report
	switch {
	case !f.State.Policy.RemediatesExisting():
		return status.Unknown(placementv1.ReasonRemediationOff, "existing objects are not looked at: remediation.mode is "+
			string(f.State.Policy.Remediation))
	case f.MatchedWatches.Err != nil && !f.MatchedWatches.Synced:
		reason, message := readFailure(f.MatchedWatches.Err)
		return status.Unknown(reason, message)
	case !f.MatchedWatches.Synced:
		return status.Unknown(placementv1.ReasonEvaluating, "existing objects are being read")
	case len(r.Unsettled) > 0:
		return status.False(placementv1.ReasonNotSettling, "the decision keeps changing after Berth's patch, so Berth does not patch these "+
			"objects for a while: "+status.FirstNames(r.Unsettled))
	case r.Failed > 0:
		return status.False(placementv1.ReasonEvaluationFailed, fmt.Sprintf("%d objects can't be decided, such as %s", r.Failed, r.FailedMessage))
	case len(r.Contested) > 0:
		return status.False(placementv1.ReasonContested, "other clients change objects back after each patch, so Berth does not patch "+
			"these for a while: "+status.FirstNames(r.Contested))
	case r.Violations > 0 && r.Unauthorized:
		return status.False(placementv1.ReasonForbiddenTargets, fmt.Sprintf("%d of %d objects differ from what the policy decides%s; grant the "+
			"permission by a ClusterRole labelled placement.berth.dev/aggregate-to-manager=true",
			r.Violations, r.Matched, obstacleText(r.Obstacle)))
	case r.Violations > 0:
		return status.False(placementv1.ReasonViolations, fmt.Sprintf("%d of %d objects differ from what the policy decides%s", r.Violations,
			r.Matched, f.waitingText(WaitingFor(*s.out, placementv1.WaitingForApproval))+obstacleText(r.Obstacle)))
	default:
		return status.True(placementv1.ReasonCompliant, "every existing object is as the policy decides")
	}
}

// paused sets the condition Paused and status.paused. Remediation may be paused for several reasons: the first one is the reason of the
// condition, and its message has all. The condition is False if remediation is paused only in some namespaces, and removed if it is not
// paused. While the leader does not know whether an earlier leader paused remediation, both stay.
func (s *setter) paused(old placementv1.PlacementPolicyStatus, f Facts) {
	pause, name := f.Report.Pause, f.State.Policy.Name
	if f.Resuming && pause == nil {
		s.out.Paused = old.Paused
		return
	}
	var harm, harmNote, approval string
	if pause != nil {
		s.out.Paused = &placementv1.PausedChange{Change: pause.Change, Before: int32(pause.Before), Namespaces: pause.Scope}
		harm, harmNote = pause.Message(name, true), pause.Message(name, false)
		if pause.Objects() == 0 {
			harm = "an earlier leader paused remediation; the policy's objects are being decided again"
			harmNote = harm
		}
	}
	failed, unapproved := f.Waiting.PauseMessage(name, true), f.unapproved(s.out.Plan)
	if unapproved != nil {
		approval = unapproved.Message
	}
	switch {
	case pause.Everywhere():
		s.Set(placementv1.ConditionPaused, status.True(placementv1.ReasonBlastRadius, joined(harm, failed, approval)))
	case f.Waiting.Paused():
		s.Set(placementv1.ConditionPaused, status.True(placementv1.ReasonTooManyFailures, joined(failed, harm, approval)))
	case unapproved != nil:
		// An Event has this message, so it names no objects.
		s.Set(placementv1.ConditionPaused, status.True(unapproved.Reason, joined(approval, harmNote, f.Waiting.PauseMessage(name, false))))
	case harm != "" || failed != "":
		s.Set(placementv1.ConditionPaused, status.False(placementv1.ReasonNamespacesPaused, joined(harm, failed)))
	default:
		s.Set(placementv1.ConditionPaused, nil)
	}
}

// joined joins the parts of a message that are not empty by "; ".
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// PausedNamespaces returns in how many namespaces remediation of the policy is paused, if it is not paused in all; 0 otherwise.
func (f Facts) PausedNamespaces() int {
	var in containment.Scope
	switch harm, failures := f.Report.Pause, f.Waiting.Pause != ""; {
	case harm != nil && failures:
		in = harm.Scope.Join(f.Waiting.PausedIn)
	case harm != nil:
		in = harm.Scope
	case failures:
		in = f.Waiting.PausedIn
	}
	return len(in)
}

// ready returns the condition Ready. It takes the message of the first condition that keeps the policy from deciding, if there is one, and
// is also False if the policy has no effect or objects can't be decided. The modes Warn and DryRun do not make it False.
func (s *setter) ready(f Facts) *metav1.Condition {
	compiled := s.Find(placementv1.ConditionCompiled)
	for _, c := range []*metav1.Condition{compiled, f.unmatched(), s.Find(placementv1.ConditionReplicated),
		s.Find(placementv1.ConditionEnforced)} {
		if c != nil && c.Status != metav1.ConditionTrue && c.Reason != placementv1.ReasonWarnMode && c.Reason != placementv1.ReasonDryRunMode {
			return status.False(c.Reason, c.Message)
		}
	}
	if s.impossible {
		return status.False(compiled.Reason, compiled.Message)
	}
	if f.State.DecidesNothing {
		return status.False(placementv1.ReasonNothingDecided, nothingDecided)
	}
	if n := s.out.Undecided; n != nil && *n > 0 {
		message := fmt.Sprintf("%d objects could not be decided, and are being decided again", *n)
		if f.Report.Failed > 0 {
			message = fmt.Sprintf("%d of %d objects can't be decided, such as %s; a request for such an object is %s",
				*n, f.Report.Matched, f.Report.FailedMessage, undecided(f.State.Policy))
		}
		return status.False(placementv1.ReasonObjectsUndecided, message)
	}
	message := fmt.Sprintf("generation %d decides what the policy matches", f.State.Policy.Generation)
	if c := s.Find(placementv1.ConditionRolledOut); c != nil && c.Status != metav1.ConditionTrue {
		message = c.Message
	}
	return status.True(placementv1.ReasonInForce, joined(append([]string{message}, s.remarks(f)...)...))
}

// remarks returns messages about what users should correct although the policy is ready: probable mistakes, ambiguous names of clusters,
// types that are not served, no selected namespace, and other policies that set the same keys. They name no objects, since they get into
// Events.
func (s *setter) remarks(f Facts) []string {
	var out []string
	if s.Find(placementv1.ConditionCompiled).Reason == placementv1.ReasonTypeErrors {
		out = append(out, "see the Compiled condition: the policy has probable mistakes")
	}
	if s.Find(placementv1.ConditionReplicated).Reason == placementv1.ReasonAmbiguousClusters {
		out = append(out, "see the Replicated condition: several clusters have one name")
	}
	if _, partly := f.partly(); partly != "" {
		out = append(out, "see the Enforced condition: "+partly)
	}
	if len(f.Report.Conflicts) > 0 {
		out = append(out, "see the Enforced condition: other policies set keys of the same objects to other values")
	}
	return out
}

// nothingDecided is the message about a policy without contract rules.
var nothingDecided = "the policy decides nothing: its package defines none of the rules " + strings.Join(language.ContractRules, ", ")

// undecidedObjects returns the number of existing objects that can't be decided. before is that of the old status; nil if it has none. It
// is kept if it is positive, objects have yet to be read or decided, reading them does not fail, and this leader has found none that can't
// be decided. Otherwise, the result is the number that this leader has found.
func (f Facts) undecidedObjects(before *int32) int32 {
	if f.Held(before) {
		return *before
	}
	return int32(f.Report.Failed)
}

// Held reports whether before, the number of undecided objects in the old status, stays in the status: it is not 0, objects have yet to be
// read or decided, reading them does not fail, and none has been found yet that can't be decided.
func (f Facts) Held(before *int32) bool {
	return before != nil && *before > 0 && f.Report.Failed == 0 && f.MatchedWatches.Err == nil && (f.Deciding || !f.MatchedWatches.Synced)
}
