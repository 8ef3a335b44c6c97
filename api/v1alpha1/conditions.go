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

// Conditions of a PlacementPolicy.
const (
	// ConditionReady is the summary, and every kind has it. A policy is Ready if its newest generation is compiled, its
	// data is replicated, the API server calls Berth for the matched objects, and each existing object can be decided. A
	// quota is Ready if usage is counted and the API server calls Berth, and a LimitedResource if the API server calls
	// Berth.
	ConditionReady = "Ready"
	// ConditionCompiled is True if the newest generation compiles. The reason tells if it has probable mistakes.
	ConditionCompiled = "Compiled"
	// ConditionReplicated is True if all data that the policy reads is replicated. With spec.remote, it is True if the
	// engine responds to the leader, and has all data and modules that Berth pushes to it.
	ConditionReplicated = "Replicated"
	// ConditionEnforced is True if the API server calls Berth for the matched objects, and decisions have an effect. The
	// reason says what limits the effect.
	ConditionEnforced = "Enforced"
	// ConditionCompliant is True if no existing object differs from its placement, and Delivered is not False.
	ConditionCompliant = "Compliant"
	// ConditionStalled is present, and True, only while the author has to act before the state can change. Every kind has
	// it.
	ConditionStalled = "Stalled"
	// ConditionPaused is present only while remediation waits for a user, who has to set the annotation that the message
	// names. It is True if Berth patches no existing object, and False if it patches none in one or two namespaces.
	ConditionPaused = "Paused"
	// ConditionRolledOut is present only with spec.rollout. It is True if the version in the spec is in force everywhere.
	ConditionRolledOut = "RolledOut"
	// ConditionDelivered is present only with spec.delivery. It is True if the objects of each system are as the decisions
	// require.
	ConditionDelivered = "Delivered"
	// ConditionRunning is present only if a system of spec.delivery, or Kueue in the matched Workloads, reports where
	// objects run. It is True if all placed objects run in their clusters, and, as far as the system reports, in no
	// others.
	ConditionRunning = "Running"
)

// Reasons of Running. NotServed, Forbidden, and WatchFailed are others: the API server does not serve the reports of a system, Berth
// may not read them, or reading them fails.
const (
	// ReasonRunning: all placed objects run in their clusters.
	ReasonRunning = "Running"
	// ReasonNotRunning: some placed objects do not run in all of their clusters, still run in others, or are not delivered. The
	// message names the first one and its cluster.
	ReasonNotRunning = "NotRunning"
)

// Reasons of Delivered. NotServed and Forbidden are others: the API server does not serve the kinds of a system, or Berth lacks
// a permission for them, which the message names.
const (
	// ReasonDelivered: the objects of each system are as the decisions require.
	ReasonDelivered = "Delivered"
	// ReasonDelivering: Berth has not written all objects yet, objects keep clusters until they run in their new ones, or
	// a system still has objects in clusters that they have to leave, or has not brought them to all of their clusters for
	// 20 seconds.
	ReasonDelivering = "Delivering"
	// ReasonForeignObject: an object that Berth has to write belongs to another client. Berth never changes it. The
	// message names the object and its manager.
	ReasonForeignObject = "ForeignObject"
	// ReasonDeliveryFailed: the API server refused an object, or a system can't express the decision. The message says why.
	ReasonDeliveryFailed = "DeliveryFailed"
)

// Reasons of RolledOut. WaitingForApproval is another: the next stage is not approved.
const (
	// ReasonRolledOut: the version in the spec is in force everywhere.
	ReasonRolledOut = "RolledOut"
	// ReasonRollingOut: the version in the spec is in force in some stages, and the version before everywhere else.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutPaused: too many objects failed in a stage, or remediation is paused. The next stage does not begin.
	ReasonRolloutPaused = "RolloutPaused"
	// ReasonRolledBack: the revision in spec.rollout.revision is in force everywhere, whatever the rest of the spec says.
	ReasonRolledBack = "RolledBack"
)

// Reasons of Paused.
const (
	// ReasonTooManyFailures: as many objects failed as spec.remediation.budget.pauseAfterFailures allows. Berth patches no
	// more objects of the policy.
	ReasonTooManyFailures = "TooManyFailures"
	// ReasonNamespacesPaused: the cause is that of TooManyFailures or BlastRadius, in one or two namespaces. Berth patches
	// the objects in the others.
	ReasonNamespacesPaused = "NamespacesPaused"
	// ReasonBlastRadius: a change would leave more of the matched objects denied, without clusters or undecided than
	// spec.remediation.blastRadius allows. Berth patches none of them.
	ReasonBlastRadius = "BlastRadius"
	// ReasonWaitingForApproval: remediation.mode is Approved and the plan is not approved. Berth patches none of its
	// objects.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonUnknownPlan: the annotation placement.berth.dev/approve approves another plan. Berth patches no object.
	ReasonUnknownPlan = "UnknownPlan"
)

// Reasons of Ready. If Ready is not True, its reason is that of the condition that is not met. A quota in mode Warn or
// DryRun has the reason WarnMode or DryRunMode.
const (
	// ReasonInForce: the policy, quota or rule is in force, and no part is missing.
	ReasonInForce = "InForce"
	// ReasonObjectsUndecided: the policy is in force, and some existing objects can't be decided.
	ReasonObjectsUndecided = "ObjectsUndecided"
	// ReasonNothingDecided: the policy has no rule of the decision contract, so it decides nothing.
	ReasonNothingDecided = "NothingDecided"
	// ReasonNotInForce: Berth is loading the policy.
	ReasonNotInForce = "NotInForce"
)

// Reasons of Compiled.
const (
	// ReasonCompiled: the newest generation compiles. Berth has not checked it for probable mistakes yet, or a remote engine decides and
	// there are none.
	ReasonCompiled = "Compiled"
	// ReasonTypeChecked: the newest generation compiles, and has no probable mistakes.
	ReasonTypeChecked = "TypeChecked"
	// ReasonTypeErrors: the newest generation compiles, and some expressions can never have the expected value, some rules
	// have no effect, or objects of a matched type can't be decided. status.findings lists them. Ready has this reason,
	// too, if a rule of the decision contract can never have a value, or can decide no matched object.
	ReasonTypeErrors = "TypeErrors"
	// ReasonSchemasUnavailable: the newest generation compiles. Its types are not checked, because Berth could not read
	// the schemas.
	ReasonSchemasUnavailable = "SchemasUnavailable"
	// ReasonNotChecked: the newest generation compiles. Its types are not checked, because that would exceed the limit of
	// the type checker.
	ReasonNotChecked = "NotChecked"
	// ReasonCompileFailed: the newest generation does not compile, and Berth knows no earlier one that does.
	// spec.failurePolicy applies to requests for the matched objects.
	ReasonCompileFailed = "CompileFailed"
	// ReasonLastGoodInForce: the newest generation does not compile. The last one that does stays in force.
	ReasonLastGoodInForce = "LastGoodInForce"
)

// Reasons of Matched. NotServed is another: the API server serves none of the matched types. Enforced of a policy is False with
// NotServed and NothingMatched, and True with PartlyServed and NoNamespaces.
const (
	// ReasonMatched: the API server serves the types that the quota or LimitedResource names, and something can match.
	ReasonMatched = "Matched"
	// ReasonPartlyServed: the API server does not serve some of the matched types. The message names them.
	ReasonPartlyServed = "PartlyServed"
	// ReasonNothingMatched: the match can't select any object. The message says why.
	ReasonNothingMatched = "NothingMatched"
	// ReasonNoNamespaces: the namespace selector selects none of the existing namespaces.
	ReasonNoNamespaces = "NoNamespaces"
	// ReasonUnknownClass: a priority class in the scopes of the quota, or a storage class in hard, does not exist.
	ReasonUnknownClass = "UnknownClass"
)

// Reasons of Replicated.
const (
	// ReasonReplicated: every resource type that the policy reads is replicated.
	ReasonReplicated = "Replicated"
	// ReasonNoDataRead: the policy reads no cluster data.
	ReasonNoDataRead = "NoDataRead"
	// ReasonReplicating: Berth is loading the data for the first time.
	ReasonReplicating = "Replicating"
	// ReasonForbidden: Berth has no permission to read a resource type. The message has the RBAC rule to grant.
	ReasonForbidden = "Forbidden"
	// ReasonNotServed: the API server does not serve a resource type, for example because its CRD is not installed.
	ReasonNotServed = "NotServed"
	// ReasonWatchFailed: Berth can't read a resource type for another reason. The message says why.
	ReasonWatchFailed = "WatchFailed"
	// ReasonStale: the API server has not confirmed data for longer than spec.maxStaleness.
	ReasonStale = "Stale"
	// ReasonPushFailed: the remote engine did not accept data or a module. The message says why.
	ReasonPushFailed = "PushFailed"
	// ReasonAmbiguousClusters: several objects of the inventories have the name of one cluster. No object gets a cluster
	// of this name. The message names the cluster and the objects.
	ReasonAmbiguousClusters = "AmbiguousClusters"
	// ReasonNotAnswering: the engine is not reachable, or its response is invalid. The message says why.
	ReasonNotAnswering = "NotAnswering"
	// ReasonUnauthorized: the engine rejected the token or the client certificate.
	ReasonUnauthorized = "Unauthorized"
	// ReasonCredentialsUnusable: a Secret that spec.remote names is missing, or its content is unusable.
	ReasonCredentialsUnusable = "CredentialsUnusable"
	// ReasonCircuitOpen: the engine failed repeatedly, and the circuit breaker is open: Berth sends no requests for a
	// while.
	ReasonCircuitOpen = "CircuitOpen"
)

// Reasons of Enforced.
const (
	// ReasonEnforced: the webhook configuration has the rules of the policy.
	ReasonEnforced = "Enforced"
	// ReasonConflict: the same, and another policy, which the message names, sets a key of the same object to a different value.
	ReasonConflict = "Conflict"
	// ReasonWarnMode: the policy or quota is evaluated and only returns warnings.
	ReasonWarnMode = "WarnMode"
	// ReasonDryRunMode: the policy or quota is evaluated and only recorded.
	ReasonDryRunMode = "DryRunMode"
	// ReasonWebhookPending: the webhook configuration does not have the rules of the policy or quota yet.
	ReasonWebhookPending = "WebhookPending"
	// ReasonWebhookRejected: the API server rejected the webhook rules of the policy or quota. The message says why.
	ReasonWebhookRejected = "WebhookRejected"
)

// Reasons of Compliant. WatchFailed is another: Berth can't read the matched objects.
const (
	// ReasonCompliant: no existing object differs from its placement.
	ReasonCompliant = "Compliant"
	// ReasonViolations: some existing objects differ from their placement.
	ReasonViolations = "Violations"
	// ReasonNotDelivered: the policy is enforced, and Delivered is False: workloads may run in other clusters than those
	// that were decided. The message is that of Delivered.
	ReasonNotDelivered = "NotDelivered"
	// ReasonEvaluating: Berth is deciding the existing objects for the first time.
	ReasonEvaluating = "Evaluating"
	// ReasonRemediationOff: Berth does not evaluate existing objects.
	ReasonRemediationOff = "RemediationOff"
	// ReasonEvaluationFailed: some existing objects can't be decided.
	ReasonEvaluationFailed = "EvaluationFailed"
	// ReasonForbiddenTargets: Berth may not read or patch the matched objects, so it does not remediate them. The message
	// names the missing permission.
	ReasonForbiddenTargets = "ForbiddenTargets"
	// ReasonNotSettling: the decision on an object changed each time that Berth patched the object. Berth stopped.
	ReasonNotSettling = "NotSettling"
	// ReasonContested: other clients changed an object back each time that Berth patched it. Berth leaves it alone. The
	// message names the field manager.
	ReasonContested = "Contested"
)

// Reasons of Stalled. WebhookRejected, NotTracked and Exempt are others.
const (
	// ReasonInvalidPolicy: the policy is invalid. The condition Compiled says how.
	ReasonInvalidPolicy = "InvalidPolicy"
)

// Conditions of quotas and LimitedResources, in addition to Ready and Stalled.
const (
	// ConditionMatched is True if the quota's scopes and selector, or the LimitedResource's type and matchContains, can match something.
	ConditionMatched = "Matched"
	// ConditionUsageCurrent is True if usage is counted for the newest spec.
	ConditionUsageCurrent = "UsageCurrent"
	// ConditionExceeded is True if usage is above hard, for example after hard was lowered.
	ConditionExceeded = "Exceeded"
)

// Reasons of UsageCurrent and of a quota's Ready. Forbidden, NotServed and WatchFailed are others: Berth can't read a
// type that the quota counts.
const (
	// ReasonCounted: usage is counted.
	ReasonCounted = "Counted"
	// ReasonCounting: Berth is reading the objects for the first time.
	ReasonCounting = "Counting"
	// ReasonNotTracked: Berth counts nothing under some names in hard. The message names them.
	ReasonNotTracked = "NotTracked"
	// ReasonExempt: Berth never counts or limits anything in this namespace, or of this type.
	ReasonExempt = "Exempt"
)

// Reasons of Exceeded.
const (
	// ReasonWithinHard: usage is not above hard.
	ReasonWithinHard = "WithinHard"
	// ReasonAboveHard: usage is above hard. A quota in mode Enforce denies requests that raise it further.
	ReasonAboveHard = "AboveHard"
)
