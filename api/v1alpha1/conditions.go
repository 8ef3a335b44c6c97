package v1alpha1

// Conditions of a PlacementPolicy. Every reason that Berth sets is one of those below.
const (
	// ConditionReady sums up, and every kind has it. Of a policy it is True if the newest text is compiled, its data is
	// replicated, the API server asks Berth about what it matches, and each existing object can be decided; of a quota, if what is used is counted and the API
	// server asks; of a LimitedResource, if the API server asks.
	ConditionReady = "Ready"
	// ConditionCompiled is True if the newest text compiles.
	ConditionCompiled = "Compiled"
	// ConditionMatched is True if there is something that the policy's match, the quota's scopes and selector, or the
	// LimitedResource's type and parts of names can match.
	ConditionMatched = "Matched"
	// ConditionReplicated is True if everything the policy reads is replicated.
	ConditionReplicated = "Replicated"
	// ConditionEnforced is True if the API server asks Berth about what the policy matches, and the answer counts.
	ConditionEnforced = "Enforced"
	// ConditionCompliant is True if no existing object differs from its decision.
	ConditionCompliant = "Compliant"
	// ConditionConflicted is True if another policy sets a key of the same object to a different value.
	ConditionConflicted = "Conflicted"
	// ConditionReachable is True if the engine answers that decides the policy. Only policies with spec.remote have it, and
	// it is what the leader sees.
	ConditionReachable = "Reachable"
	// ConditionTypeChecked is True if the type checker finds nothing wrong in the policy's text, given the schemas that the
	// API server publishes. Policies with spec.remote do not have it.
	ConditionTypeChecked = "TypeChecked"
	// ConditionStalled is present, and True, only while nothing will change until the author of the policy, quota or rule
	// acts. Every kind has it.
	ConditionStalled = "Stalled"
	// ConditionPaused is present, and True, only while remediation of the policy is paused: Berth moves no existing object.
	ConditionPaused = "Paused"
)

// Reasons of Paused.
const (
	// ReasonBlastRadius: a change would leave more of the matched objects denied, without clusters, or undecided at once than
	// spec.remediation.blastRadius admits, so that Berth moves none of them.
	ReasonBlastRadius = "BlastRadius"
)

// Reasons of Ready. Where it is not True it has the reason of the part that is missing, and of a quota in mode Warn or
// DryRun, WarnMode or DryRunMode.
const (
	// ReasonInForce: the policy, quota or rule decides; nothing is missing.
	ReasonInForce = "InForce"
	// ReasonObjectsUndecided: the policy is in force, and some existing objects can't be decided.
	ReasonObjectsUndecided = "ObjectsUndecided"
	// ReasonNotInForce: the policy is being loaded, and nothing else is known of it yet.
	ReasonNotInForce = "NotInForce"
)

// Reasons of Compiled.
const (
	// ReasonCompiled: the newest text compiles.
	ReasonCompiled = "Compiled"
	// ReasonCompileFailed: the newest text does not compile and no earlier one is known; what the policy matches is denied.
	ReasonCompileFailed = "CompileFailed"
	// ReasonLastGoodInForce: the newest text does not compile; the last one that did stays in force.
	ReasonLastGoodInForce = "LastGoodInForce"
)

// Reasons of Matched. NotServed is another: the API server serves none of the types that are matched.
const (
	// ReasonMatched: the API server serves what is matched, and the selectors can select some of it.
	ReasonMatched = "Matched"
	// ReasonPartlyServed: the API server does not serve some of the types that are matched; the message names them.
	ReasonPartlyServed = "PartlyServed"
	// ReasonNothingMatched: the match can't match anything, whatever is served; the message says why.
	ReasonNothingMatched = "NothingMatched"
	// ReasonNoNamespaces: the namespace selector selects none of the namespaces that there are.
	ReasonNoNamespaces = "NoNamespaces"
	// ReasonUnknownClass: a priority class that the quota's scopes name, or a storage class that its hard names, does not exist.
	ReasonUnknownClass = "UnknownClass"
)

// Reasons of Replicated.
const (
	// ReasonReplicated: every resource type that the policy reads is replicated.
	ReasonReplicated = "Replicated"
	// ReasonNoDataRead: the policy reads no cluster data.
	ReasonNoDataRead = "NoDataRead"
	// ReasonReplicating: the first copy is on its way.
	ReasonReplicating = "Replicating"
	// ReasonForbidden: Berth may not read a resource type; the message has the rule to grant.
	ReasonForbidden = "Forbidden"
	// ReasonNotServed: the API server does not serve a resource type, such as when its CRD is not installed.
	ReasonNotServed = "NotServed"
	// ReasonWatchFailed: reading a resource type fails for another cause, which the message gives.
	ReasonWatchFailed = "WatchFailed"
	// ReasonStale: the API server has told nothing of a resource type for longer than spec.maxStaleness.
	ReasonStale = "Stale"
	// ReasonPushFailed: the engine that decides the policy did not take data or a module; the message says why.
	ReasonPushFailed = "PushFailed"
)

// Reasons of Reachable.
const (
	// ReasonAnswering: the engine answers.
	ReasonAnswering = "Answering"
	// ReasonNotAsked: the leader has not asked the engine yet.
	ReasonNotAsked = "NotAsked"
	// ReasonNotAnswering: the engine could not be asked, or what it said was no answer; the message says why.
	ReasonNotAnswering = "NotAnswering"
	// ReasonUnauthorized: the engine refused the token or the client certificate.
	ReasonUnauthorized = "Unauthorized"
	// ReasonCredentialsUnusable: a Secret that spec.remote names is missing, or there is no use for what it has.
	ReasonCredentialsUnusable = "CredentialsUnusable"
	// ReasonCircuitOpen: the engine kept failing, so that it is not asked for a while.
	ReasonCircuitOpen = "CircuitOpen"
)

// Reasons of TypeChecked, and of Ready where a rule of the decision contract can never have a value.
const (
	// ReasonTypeChecked: the type checker finds nothing wrong.
	ReasonTypeChecked = "TypeChecked"
	// ReasonTypeErrors: some expressions can never have the value that they seem to, or some rules have no effect; status.findings
	// lists them.
	ReasonTypeErrors = "TypeErrors"
	// ReasonSchemasUnavailable: the schemas could not be read, so the types are not checked.
	ReasonSchemasUnavailable = "SchemasUnavailable"
	// ReasonNotChecked: the text takes too much work to check its types.
	ReasonNotChecked = "NotChecked"
)

// Reasons of Enforced.
const (
	// ReasonEnforced: the webhook configuration has the policy's rules.
	ReasonEnforced = "Enforced"
	// ReasonWarnMode: the policy or quota is asked, and warns only.
	ReasonWarnMode = "WarnMode"
	// ReasonDryRunMode: the policy or quota is asked, and counts only.
	ReasonDryRunMode = "DryRunMode"
	// ReasonWebhookPending: the webhook configuration does not have the rules of the policy or quota yet.
	ReasonWebhookPending = "WebhookPending"
	// ReasonWebhookRejected: the API server refused the webhook rules of the policy or quota; the message says why.
	ReasonWebhookRejected = "WebhookRejected"
	// ReasonQuarantined: evaluations of the policy kept running into their deadline, so that it is not evaluated for a while.
	ReasonQuarantined = "Quarantined"
)

// Reasons of Compliant. WatchFailed is another: what the policy matches can't be read.
const (
	// ReasonCompliant: no existing object differs from its decision.
	ReasonCompliant = "Compliant"
	// ReasonViolations: some existing objects differ from their decision.
	ReasonViolations = "Violations"
	// ReasonEvaluating: existing objects are still being decided for the first time.
	ReasonEvaluating = "Evaluating"
	// ReasonRemediationOff: existing objects are not looked at.
	ReasonRemediationOff = "RemediationOff"
	// ReasonEvaluationFailed: some existing objects can't be decided.
	ReasonEvaluationFailed = "EvaluationFailed"
	// ReasonForbiddenTargets: Berth may not read what the policy matches, so existing objects are not remediated; the
	// message has the rule to grant.
	ReasonForbiddenTargets = "ForbiddenTargets"
	// ReasonNotSettling: a decision kept changing after its own patch; patching of that object has stopped.
	ReasonNotSettling = "NotSettling"
)

// Reasons of Conflicted.
const (
	// ReasonNoConflict: no other policy sets a key of the same object to a different value.
	ReasonNoConflict = "NoConflict"
	// ReasonConflict: another policy, which the message names, sets a key of the same object to a different value.
	ReasonConflict = "Conflict"
)

// Reasons of Stalled. WebhookRejected, NotTracked and Exempt are others.
const (
	// ReasonInvalidPolicy: the policy has to be corrected; the Compiled condition says how.
	ReasonInvalidPolicy = "InvalidPolicy"
)

// Conditions of quotas, besides Ready and Stalled.
const (
	// ConditionUsageCurrent is True if what is used is counted for the newest spec.
	ConditionUsageCurrent = "UsageCurrent"
	// ConditionExceeded is True if more is used than hard, such as after hard was lowered.
	ConditionExceeded = "Exceeded"
)

// Reasons of UsageCurrent, and of a quota's Ready. Forbidden, NotServed and WatchFailed are others: a type that the
// quota counts can't be read.
const (
	// ReasonCounted: used is counted.
	ReasonCounted = "Counted"
	// ReasonCounting: objects are being read for the first time.
	ReasonCounting = "Counting"
	// ReasonNotTracked: nothing is counted under some names of hard; the message names them.
	ReasonNotTracked = "NotTracked"
	// ReasonExempt: nothing is ever counted or limited in that namespace, or of that type.
	ReasonExempt = "Exempt"
)

// Reasons of Exceeded.
const (
	// ReasonWithinHard: no more is used than hard.
	ReasonWithinHard = "WithinHard"
	// ReasonAboveHard: more is used than hard; a quota that is enforced admits nothing that would use yet more.
	ReasonAboveHard = "AboveHard"
)
