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

// Package remediation tracks existing objects. Ledger records which policies match them, how these violate the decisions, and what has to
// be moved (plans). Scheduler decides when an object may be patched, and remembers patches and moves: docs/scheduler.md says which part has
// which state. The package keeps its state in memory and has no clock: callers pass the time.
package remediation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/census"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/rollout"
)

// Key identifies one object.
type Key struct {
	Resource  schema.GroupVersionResource // The type, in the version in which Berth reads the object, or without a version.
	Namespace string
	Name      string
}

// String returns the resource, the namespace, and the name, for example "deployments.apps default/web".
func (k Key) String() string { return string(k.Reference()) }

// Reference returns the text by which the status of a policy names the object: the same as String.
func (k Key) Reference() placementv1.ObjectReference {
	return placementv1.ReferenceTo(k.Resource.GroupResource(), k.Namespace, k.Name)
}

// CompactKey is a Key in a map or a queue that has each matched object. It takes 24 bytes, and a Key 80. Each lookup takes another 100 ns,
// so other maps have Keys.
type CompactKey struct {
	scope unique.Handle[scope]
	name  string
}

// scope is a type and a namespace. The CompactKeys of their objects share one, to save memory.
type scope struct {
	resource  schema.GroupVersionResource
	namespace string
}

// Compact returns the key as a CompactKey.
func (k Key) Compact() CompactKey {
	return CompactKey{unique.Make(scope{k.Resource, k.Namespace}), k.Name}
}

// Key returns the key that Compact was called on.
func (k CompactKey) Key() Key {
	of := k.scope.Value()
	return Key{of.resource, of.namespace, k.name}
}

// compareKeys orders objects by group and resource, without the version, then by namespace, and then by name.
func compareKeys(a, b Key) int {
	if a.Resource != b.Resource {
		if c := cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// locked is the mutex of a Ledger or a Scheduler. Their exported methods begin with defer lock()().
type locked struct{ mu sync.Mutex }

// lock locks the mutex, and returns the function that unlocks it.
func (l *locked) lock() (unlock func()) {
	l.mu.Lock()
	return l.mu.Unlock
}

// Ledger records what policies decided on existing objects, as one finding for each policy and object. It has all policies that evaluate
// existing objects (placement.Policy.RemediatesExisting), in every mode. It is safe for concurrent use. Callers of unexported methods hold
// mu.
type Ledger struct {
	Census *census.Census // The numbers of matched objects by cluster.
	locked
	accounts    map[string]*account          // The account of each policy, by its name.
	matched     map[CompactKey]matchedObject // The objects that policies match.
	assessments []*Assessment                // The open assessments.
	late        map[CompactKey]*missed       // The objects that were not decided when an assessment ended; until Record. Nil for none.
	blamed      map[Key][]blame              // Why objects are decided again, apart from the assessments that wait for them; until Record.
	skipped     sets.Set[Key]                // The objects that can't be decided for now: those of Skip, until Record.
	contested   map[Key]contest              // The objects that other clients change back after patches. Their findings are unsettled.
	planned     time.Time                    // When ConcludeAssessments last made plans without an assessment.
	violations  notify.Topic[string]         // Publishes the namespaces in which violations may have changed.
	recorded    notify.Topic[Key]            // Publishes the objects whose findings were recorded.
}

// matchedObject has the policies that match an object, and how it counts in the Census.
type matchedObject struct {
	policies []string     // The names of those of the policies that evaluate existing objects; never empty.
	counted  census.Entry // How the object counts in the Census; the zero Entry before Place.
}

// account holds what one policy decided on existing objects, its plan, and its pause because of objects that a change would harm. The
// Scheduler has the pause because of failures.
type account struct {
	objects    map[CompactKey]finding              // The findings of the policy on the objects that it matches.
	types      map[schema.GroupVersionResource]int // The numbers of matched objects by type; 0, or no entry, for none.
	remediated int64                               // The number of patches and evictions for the policy since this replica leads.
	obstacle   obstacle                            // The first failed object; once it has its placement, the next replaces it. Zero for none.
	planning
	guard
}

// obstacle is an object whose last patch failed, and why.
type obstacle struct {
	key          Key    // The object.
	why          string // Why the patch failed.
	unauthorized bool   // Whether the patch failed because Berth lacks the permission for it.
}

// contest describes who changes an object back after patches.
type contest struct {
	by       string   // Names the clients that change the object back, or says that they are not known; never empty.
	policies []string // The names of the policies whose changes do not last.
}

// finding is what one policy decided on one version of one object: what the policy would do to the object, the move that it requires, how
// that relates to the plan, or why the policy could not decide.
type finding struct {
	// effect is what the policy would do to the object; the zero Handle for nothing by no rule. If the object can't be decided, it is zero or,
	// with move, that of the plan. Findings with equal effects share one.
	effect  unique.Handle[effect]
	failure string // Why the policy could not decide the object; "" if it decided.
	// unsettled reports whether the object is no longer patched because patches do not last, or were too many. unseen reports whether the
	// object was patched or evicted since, and has not been decided in its new version.
	unsettled, unseen bool
	harm              harm // How the policy leaves the object without a placement; unharmed if its remediation is not automatic.
	// move is the ID of the move that the policy requires, in every mode, even if remediation does not make it; zero for none, or if policies
	// would deny the patch. If the object can't be decided, it remains that of the plan.
	move    moveset.ID
	planned planRelation // Whether move is in the plan of the policy, or the plan has another move of the object, or neither.
	why     *occasion    // The occasion of move; nil if the object or its namespace changed, and if there is no move.
	version string       // The resource version of the object when it was decided.
}

// effect is what one policy would do to an object that it can decide: deny it, change it, or nothing. It also has the rule that decides the
// object, and the policies that set other values.
type effect struct {
	violation string // Describes how the object violates the policy; "" if it does not.
	// denied reports whether the policy denies the object. enforced reports whether the policy is in mode Enforce.
	denied, enforced bool
	rule             string // The name of the rule of spec.rules that decides the object; "" for none.
	// changes are the required changes, as moveset.Encode returns them. conflicts are the names of the policies that set another value for a
	// key, sorted, each followed by a space.
	changes, conflicts string
}

// result returns the value of the field effect: what the policy would do to the object, and by which rule. It is the zero effect if no rule
// decides and nothing is to be done. For an undecided object, it is zero or what the plan has.
func (f finding) result() (out effect) {
	if f.effect != (unique.Handle[effect]{}) {
		out = f.effect.Value()
	}
	return out
}

// Outcome is the way in which an object violates a policy: Denied, Differs, or Undecided.
type Outcome string

// The outcomes.
const (
	Denied    Outcome = "Denied"    // The policy denies the object.
	Differs   Outcome = "Differs"   // The policy decides other values than the object has.
	Undecided Outcome = "Undecided" // The policy can't decide the object.
)

// outcome returns in what way the object violates the policy, and a message that says why; "" if it does not.
func (f finding) outcome() (Outcome, string) {
	effect := f.result()
	switch {
	case f.failure != "":
		return Undecided, f.failure
	case effect.denied:
		return Denied, effect.violation
	case effect.violation != "":
		return Differs, effect.violation
	}
	return "", ""
}

// violates reports whether the object violates the policy, or can't be decided.
func (f finding) violates() bool {
	outcome, _ := f.outcome()
	return outcome != ""
}

// findingOf returns the finding that a verdict leads to, on an object with a UID and a resource version. unsettled reports whether the
// object is no longer patched because patches do not last, or were too many. The finding has the required move also then.
func findingOf(v *placement.Verdict, key Key, uid types.UID, version string, unsettled bool) finding {
	f := finding{harm: harmOf(v), version: version, unsettled: unsettled && len(v.Changes) > 0}
	if v.Err != nil {
		f.failure = printable.Truncate(v.Err.Error(), maxMessage)
		return f
	}
	e, parts := effect{denied: len(v.Decision.Errors) > 0, rule: v.Decision.Rule}, slices.Clone(v.Decision.Errors)
	if !e.denied {
		// A denied object is not changed.
		for _, c := range v.Changes {
			parts = append(parts, c.Violation())
		}
		e.changes = moveset.Encode(v.Changes)
	}
	conflicts := sets.New[string]()
	for _, c := range v.Conflicts {
		conflicts.Insert(c.With + " ")
	}
	e.violation, e.conflicts = strings.Join(parts, "; "), strings.Join(sets.List(conflicts), "")
	if e != (effect{}) {
		e.enforced = v.Policy.Mode == placementv1.ModeEnforce
		f.effect = unique.Make(e)
	}
	if e.changes != "" {
		f.move = identify(key, uid, e.changes)
	}
	return f
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		Census: census.New(), accounts: map[string]*account{}, matched: map[CompactKey]matchedObject{},
		blamed: map[Key][]blame{}, skipped: sets.New[Key](), contested: map[Key]contest{},
	}
}

// find returns the account of a policy. If there is none, it returns an empty one that is not stored.
func (l *Ledger) find(name string) *account {
	if a := l.accounts[name]; a != nil {
		return a
	}
	out := &account{objects: map[CompactKey]finding{}, types: map[schema.GroupVersionResource]int{}}
	out.bound, out.harmed = (*placementv1.BlastRadius)(nil).WithDefaults(), newTally[harmed]()
	return out
}

// account returns the account of a policy, which it creates if there is none.
func (l *Ledger) account(name string) *account {
	a := l.find(name)
	l.accounts[name] = a
	return a
}

// Record replaces all findings on an object with a UID and a resource version by those of the verdicts, and returns the names of the
// policies whose findings changed. It ignores verdicts of policies that do not evaluate existing objects. Assessments no longer wait for
// the object, and it is not skipped any more. unsettled reports whether the object is no longer patched because patches do not last, or
// were too many.
func (l *Ledger) Record(key Key, uid types.UID, version string, verdicts []*placement.Verdict, unsettled bool) (changed []string) {
	patched, approved := rulingOf(verdicts), rulingOf(released(verdicts))
	verdicts = slices.DeleteFunc(slices.Clone(verdicts), func(v *placement.Verdict) bool { return !v.Policy.RemediatesExisting() })
	names, findings := Names(verdicts), make([]finding, len(verdicts))
	// A copy, because the text may be a part of a packed object.
	version = strings.Clone(version)
	for i, v := range verdicts {
		// What needs an approval is what an approved patch would do.
		findings[i] = findingOf(v.OnceApproved(), key, uid, version, unsettled)
	}
	defer l.lock()()
	violates := false
	for _, name := range l.matched[key.Compact()].policies {
		if !slices.Contains(names, name) {
			changed = append(changed, name)
			violates = l.record(key, l.account(name), nil, finding{}, ruling{}) || violates
		}
	}
	for i, now := range findings {
		a, ruling := l.account(names[i]), patched
		if verdicts[i].Policy.NeedsApproval() {
			ruling = approved
		}
		if c, contested := l.contested[key]; contested {
			now.unsettled = now.unsettled && slices.Contains(c.policies, names[i])
		}
		before, known := a.objects[key.Compact()]
		violated := l.record(key, a, verdicts[i], now, ruling)
		after := a.objects[key.Compact()]
		before.version, before.planned, before.unseen = after.version, after.planned, after.unseen
		if !known || before != after {
			changed = append(changed, names[i])
			violates = violates || violated
		}
	}
	l.match(key, names)
	if !unsettled {
		delete(l.contested, key)
	}
	id := key.Compact()
	if delete(l.late, id); len(l.late) == 0 {
		// An empty map would keep the memory of what was in it.
		l.late = nil
	}
	delete(l.blamed, key)
	l.skipped.Delete(key)
	l.assessed(id)
	l.recorded.Publish(key)
	if violates {
		l.violations.Publish(key.Namespace)
	}
	return changed
}

// match stores, in matched alone, which policies, by name, match an object. Without any, the object is dropped there, and no longer counts
// in the Census.
func (l *Ledger) match(key Key, policies []string) {
	id := key.Compact()
	o := l.matched[id]
	o.policies = policies
	if l.matched[id] = o; len(policies) == 0 {
		l.Census.Count(o.counted, nil, census.Placed)
		delete(l.matched, id)
	}
}

// record replaces the finding of one policy on an object by now. v is the policy's verdict; nil if it does not match the object any more.
// by is the ruling of all policies on a patch of the object. record reports whether the object violates the policy, or did so before.
func (l *Ledger) record(key Key, a *account, v *placement.Verdict, now finding, by ruling) (violates bool) {
	id := key.Compact()
	before, known := a.objects[id]
	if v == nil {
		a.heal(key)
		a.types[key.Resource]--
		delete(a.objects, id)
	} else {
		a.types[key.Resource] += count(!known)
		l.count(key, v, a, before, known, now)
		now.plan(before, by)
		if now.move == before.move {
			now.why = before.why
		} else if now.move != (moveset.ID{}) {
			now.why = l.occasionOf(key, v.Policy.Name, v.Policy.Generation, a, known)
		}
		now.unseen = before.unseen && before.version == now.version
		a.objects[id] = now
	}
	a.unwell += count(now.harm != unharmed) - count(before.harm != unharmed)
	a.track(before, now)
	if a.refused && a.permitted() {
		a.dirty = true
	} else if v != nil && !v.Policy.Automatic() && a.strays() > 0 {
		// A plan that waits for a decision of a user must have all that has to be done.
		a.unplanned = true
	}
	return before.violates() || now.violates()
}

// Forget removes an object from the findings of all policies. It returns the policies whose findings changed.
func (l *Ledger) Forget(key Key) []string { return l.Record(key, "", "", nil, false) }

// ForgetPolicy removes all that the ledger knows of a policy.
func (l *Ledger) ForgetPolicy(name string) {
	defer l.lock()()
	violated := sets.New[string]()
	for id, f := range l.find(name).objects {
		key := id.Key()
		l.match(key, slices.DeleteFunc(l.matched[id].policies, func(n string) bool { return n == name }))
		if f.violates() {
			violated.Insert(key.Namespace)
		}
	}
	for _, by := range l.late {
		by.policies.Delete(name)
	}
	delete(l.accounts, name)
	for namespace := range violated {
		l.violations.Publish(namespace)
	}
}

// Contest records that the clients that by names change an object back after patches for some policies. That lasts until Record is called
// without unsettled.
func (l *Ledger) Contest(key Key, by string, policies ...string) {
	defer l.lock()()
	l.contested[key] = contest{by, policies}
}

// Remediated counts a patch or an eviction of an object for policies. version is the resource version before it. Reports include the count
// only after the object has been decided in another version, so that the count and the plan always agree.
func (l *Ledger) Remediated(key Key, version string, policies ...string) {
	defer l.lock()()
	for _, policy := range policies {
		a := l.account(policy)
		a.remediated++
		if a.obstacle.key == key {
			a.obstacle = obstacle{}
		}
		if f, known := a.objects[key.Compact()]; known && f.version == version {
			a.unseen += count(!f.unseen)
			f.unseen = true
			a.objects[key.Compact()] = f
		}
	}
}

// Obstruct records that an object could not be patched for policies, why, and whether Berth lacks the permission for it. If several objects
// can't be patched, reports name the first one until it has its placement, so that they do not alternate. Obstruct returns the policies
// whose report changed.
func (l *Ledger) Obstruct(key Key, why string, unauthorized bool, policies ...string) (changed []string) {
	defer l.lock()()
	for _, policy := range policies {
		a, next := l.account(policy), obstacle{key, printable.Truncate(why, maxMessage), unauthorized}
		if a.obstacle != next && (a.obstacle.key == key || !a.obstructed()) {
			a.obstacle = next
			changed = append(changed, policy)
		}
	}
	return changed
}

// obstructed reports whether the object that could not be patched still differs from what the policy decides.
func (a *account) obstructed() bool {
	outcome, _ := a.objects[a.obstacle.key.Compact()].outcome()
	return outcome == Differs
}

// Matching implements Matches. It returns the names of the policies that matched an object when it was last decided.
func (l *Ledger) Matching(key Key) []string {
	defer l.lock()()
	return slices.Clone(l.matched[key.Compact()].policies)
}

// Matched implements Matches. It returns the number of objects of some types that a policy matches.
func (l *Ledger) Matched(policy string, types []schema.GroupVersionResource) (n int) {
	defer l.lock()()
	a := l.find(policy)
	for _, t := range types {
		n += a.types[t]
	}
	return n
}

// Requires implements Matches. It reports whether a policy, by the last finding, requires a move of an object, in any version of its
// resource, even if remediation does not make the move.
func (l *Ledger) Requires(policy string, key Key) bool {
	defer l.lock()()
	a := l.find(policy)
	for resource := range a.types {
		if of := key; resource.GroupResource() == key.Resource.GroupResource() {
			of.Resource = resource
			if a.objects[of.Compact()].move != (moveset.ID{}) {
				return true
			}
		}
	}
	return false
}

// Misplaced reports whether an enforced policy denies an existing object, or would change its clusters annotation.
func (l *Ledger) Misplaced(key Key) bool {
	defer l.lock()()
	return slices.ContainsFunc(l.matched[key.Compact()].policies, func(policy string) bool {
		effect := l.accounts[policy].objects[key.Compact()].result()
		moves := func(c placement.Change) bool { return c.Key == placementv1.ClustersAnnotation }
		return effect.enforced && (effect.denied || slices.ContainsFunc(moveset.Decode(effect.changes), moves))
	})
}

// Undecided reports whether one of the policies, all of which evaluate existing objects, has no finding yet on an object. keys name that
// object in each version of its type in which it may be read. An object that can't be decided for now does not count: it may never be
// decided.
func (l *Ledger) Undecided(policies []string, keys ...Key) bool {
	defer l.lock()()
	return !slices.ContainsFunc(keys, l.skipped.Has) && slices.ContainsFunc(policies, func(policy string) bool {
		return !slices.ContainsFunc(keys, func(key Key) bool { return slices.Contains(l.matched[key.Compact()].policies, policy) })
	})
}

// SubscribeDecided registers f to be called with each object whose findings were recorded, or removed by Forget. The ledger is locked
// meanwhile: f must return quickly and must not call the ledger.
func (l *Ledger) SubscribeDecided(f func(Key)) { l.recorded.Subscribe(f) }

// SubscribeViolations registers f to be called with each namespace in which violations may have changed; "" stands for objects without a
// namespace. The ledger is locked meanwhile: f must return quickly and must not call the ledger.
func (l *Ledger) SubscribeViolations(f func(namespace string)) { l.violations.Subscribe(f) }

// Violation is an object that violates one policy, or that the policy can't decide.
type Violation struct {
	Key
	Policy  string // The name of the policy.
	Outcome Outcome
	// Message says how the object violates the policy, or why the policy can't decide. It is truncated as in the status of a policy.
	Message string
}

// compareViolations orders violations by object and policy.
func compareViolations(a, b Violation) int {
	return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Policy, b.Policy))
}

// Violations are the violations of all policies in one namespace. An object counts once for each policy that it violates.
type Violations struct {
	Total map[Outcome]int // The number of violations by outcome. It includes those that are not listed.
	First []Violation     // The first violations in the order of objects and policies.
}

// Violations returns the violations in a namespace, and lists at most limit of them; "" stands for objects without a namespace. It leaves
// out objects for which omit returns true. It takes time in proportion to the number of matched objects of all namespaces.
func (l *Ledger) Violations(namespace string, limit int, omit func(Key) bool) Violations {
	defer l.lock()()
	out := Violations{Total: map[Outcome]int{}}
	for policy, a := range l.accounts {
		for id, f := range a.objects {
			key := id.Key()
			if key.Namespace != namespace || omit(key) {
				continue
			}
			if outcome, message := f.outcome(); outcome != "" {
				out.Total[outcome]++
				out.First = keepFirst(out.First, Violation{key, policy, outcome, printable.Truncate(message, maxMessage)}, limit, compareViolations)
			}
		}
	}
	return out
}

// ViolatedNamespaces returns the namespaces with violations. "" stands for the objects without a namespace.
func (l *Ledger) ViolatedNamespaces() sets.Set[string] {
	defer l.lock()()
	out := sets.New[string]()
	for _, a := range l.accounts {
		for id, f := range a.objects {
			if f.violates() {
				out.Insert(id.Key().Namespace)
			}
		}
	}
	return out
}

// Report summarizes the objects that one policy matches.
type Report struct {
	Matched int // The number of matched objects.
	// Denied is the number of objects that the policy would deny now, Moved the number of those that have other values than it decides,
	// whether or not remediation can change them, and Failed the number of those that it could not decide. Violations is their sum.
	Denied, Moved, Failed, Violations int
	// FailedMessage names the first object that the policy could not decide, and says why; "" for none.
	FailedMessage string
	Sample        []placementv1.Violation // The first violations, at most maxSample, in the order of objects.
	Conflicted    int                     // The number of objects with a key for which another policy sets another value.
	Conflicts     []string                // The names of those policies, sorted; the value used may be theirs or not.
	// Rules are the numbers of objects by the name of the rule of spec.rules that decides them, without those that no rule decides.
	Rules map[string]int
	// Unsettled are the names of objects that Berth stopped patching because what the policies decide changes after each patch, or because
	// it patched them too often within a minute. Contested are those that it stopped patching because other clients change them back, with
	// the names of the clients. Both are sorted.
	Unsettled, Contested []string
	Obstacle             string // Names an object that has to be moved and could not be patched, and says why; "" if there is none.
	Unauthorized         bool   // Whether the object of Obstacle could not be patched because Berth lacks the permission.
	// Remediated is the number of patches and evictions for the policy since this leader began, of objects that have been decided since.
	Remediated int64
	Pause      *Pause // Describes why a change pauses remediation; nil if none does.
	// Assessing reports whether objects are being decided again because of a change. Meanwhile, the numbers mix findings from before and
	// after the change. It is false in a series of changes that lasts longer than AssessmentLimit.
	Assessing   bool
	Plan        *Plan     // The newest plan, carried out or not; nil if no move was required yet. It has at least one move.
	Approval    *Approval // The newest approval of any plan of the policy; nil if there is none.
	Outstanding int       // The number of objects with a required move, in the plan or not, and whether or not remediation makes it.
}

// Limits for a policy's status: of the objects and transitions that it lists, and of the bytes of a message.
const (
	maxSample      = 5
	maxTransitions = 5
	maxMessage     = 256
)

// Report returns a summary of what a policy decided on the objects that it matches; the zero Report if nothing is recorded for the policy.
func (l *Ledger) Report(policy string) Report {
	defer l.lock()()
	a := l.find(policy)
	out := Report{
		Matched: len(a.objects), Remediated: a.remediated - int64(a.unseen), Plan: a.progress(), Approval: a.approval, Outstanding: a.moves,
		Pause: a.report(), Assessing: a.assessing(),
	}
	conflicts, rules := sets.New[string](), map[string]int{}
	// There may be far more objects than the report names, so do not sort all of them.
	var failed, sample []Violation
	var unsettled []Key
	for id, f := range a.objects {
		effect, v := f.result(), Violation{Key: id.Key()}
		switch v.Outcome, v.Message = f.outcome(); v.Outcome {
		case Undecided:
			out.Failed++
			failed = keepFirst(failed, v, 1, compareViolations)
		case Denied:
			out.Denied++
		case Differs:
			out.Moved++
		}
		if v.Outcome != "" {
			sample = keepFirst(sample, v, maxSample, compareViolations)
		}
		if f.unsettled {
			unsettled = append(unsettled, v.Key)
		}
		if effect.rule != "" && f.failure == "" {
			rules[effect.rule]++
		}
		if effect.conflicts != "" && f.failure == "" {
			out.Conflicted++
			conflicts.Insert(strings.Fields(effect.conflicts)...)
		}
	}
	if len(rules) > 0 {
		out.Rules = rules
	}
	out.Violations = out.Denied + out.Moved + out.Failed
	if a.obstructed() {
		out.Obstacle, out.Unauthorized = a.obstacle.key.String()+": "+a.obstacle.why, a.obstacle.unauthorized
	}
	for _, v := range failed {
		out.FailedMessage = v.String() + ": " + v.Message
	}
	for _, v := range sample {
		if v.Outcome == Undecided {
			v.Message = "can't be decided: " + v.Message
		}
		out.Sample = append(out.Sample, placementv1.Violation{Object: v.Reference(), Message: printable.Truncate(v.Message, maxMessage)})
	}
	slices.SortFunc(unsettled, compareKeys)
	for _, key := range unsettled {
		if c, contested := l.contested[key]; contested {
			out.Contested = append(out.Contested, fmt.Sprintf("%s (%s)", key, c.by))
		} else {
			out.Unsettled = append(out.Unsettled, key.String())
		}
	}
	out.Conflicts = slices.Sorted(maps.Keys(conflicts))
	return out
}

// RolloutCounts returns the numbers of a policy's matched objects in each of n rollout stages, as n entries. stageOf maps a namespace to
// the index of its stage, n for none; a Namespace object counts in its own namespace. Objects without a stage, such as other cluster-scoped
// ones, count nowhere. waiting has the objects whose patch or rollout failed. Objects that have to be moved in a namespace for which alone
// remediation is paused count as failed, too, so that the other namespaces do not wait for them. It takes time in proportion to the number
// of matched objects.
func (l *Ledger) RolloutCounts(policy string, n int, stageOf map[string]int, waiting Waiting) []rollout.Counts {
	unmoved := sets.New[Key]()
	for _, f := range waiting.Failures {
		unmoved.Insert(unversioned(f.Key))
	}
	out, counted := make([]rollout.Counts, n), sets.New[string]()
	for i := range out {
		out[i] = rollout.Counts{Failed: map[string]int{}, Denied: map[string]int{}}
	}
	defer l.lock()()
	a := l.find(policy)
	paused := slices.Clone(waiting.PausedIn)
	if a.pause != nil {
		paused = append(paused, a.pause.Scope...)
	}
	for id, f := range a.objects {
		key := id.Key()
		namespace := key.Namespace
		if key.Resource.GroupResource() == corev1.Resource("namespaces") {
			namespace = key.Name
		}
		stage, exists := stageOf[namespace]
		if !exists || stage >= n {
			continue
		}
		c := &out[stage]
		c.Namespaces += count(!counted.Has(namespace))
		counted.Insert(namespace)
		c.Matched++
		switch {
		case f.failure != "" || f.unsettled || unmoved.Has(unversioned(key)):
			c.Failed[namespace]++
		case f.result().denied:
			c.Denied[namespace]++
		case !f.violates():
			c.Moved++
		case f.move == moveset.ID{}:
		case slices.Contains(paused, key.Namespace):
			c.Failed[namespace]++
		default:
			c.Pending++
		}
	}
	return out
}

// keepFirst returns a sorted list with an item inserted, cut to its first limit items.
func keepFirst[T any](list []T, item T, limit int, compare func(a, b T) int) []T {
	i, _ := slices.BinarySearchFunc(list, item, compare)
	if i == limit {
		return list
	}
	list = slices.Insert(list, i, item)
	return list[:min(len(list), limit)]
}

// count returns 1 for true, and 0 for false.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ComplianceOf returns whether an object has what the verdicts on it require, awaits a patch for that, also one that needs an approval, or
// violates a policy. An object that differs violates a policy that patches no existing objects, such as one in mode DryRun.
// feasibility.Qualify must have processed the verdicts.
func ComplianceOf(verdicts []*placement.Verdict) census.Compliance {
	out, blocked := census.Placed, Blocks(verdicts)
	for _, v := range verdicts {
		if !v.Policy.RemediatesExisting() {
			continue
		}
		decided := v.OnceApproved()
		if v.Err != nil || len(v.Decision.Errors) > 0 || len(decided.Decision.Errors) > 0 {
			return census.Violates
		}
		for _, c := range decided.Changes {
			switch {
			case c.RecordsOnly():
			case moveset.Possible(c) && !blocked && v.Policy.PatchesExisting():
				out = census.AwaitsPatch
			default:
				return census.Violates
			}
		}
	}
	return out
}

// Place counts a recorded object in the Census, by its list of clusters and its compliance. list is a text of package clusterlist; nil if
// the object has none. feasibility.Qualify must have processed the verdicts. An object without a list does not count in any cluster, and
// neither does one that follows a controller, with which it counts. Place does nothing for an object that no policy matched at the last
// Record.
func (l *Ledger) Place(key Key, list *string, verdicts []*placement.Verdict) {
	if slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Follows != "" }) {
		list = nil
	}
	defer l.lock()()
	id := key.Compact()
	if o, known := l.matched[id]; known {
		o.counted = l.Census.Count(o.counted, list, ComplianceOf(verdicts))
		l.matched[id] = o
	}
}
