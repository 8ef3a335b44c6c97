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

package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/feasibility"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// state is what policies decide for an object.
type state struct {
	matched []string // the names of the policies, in any mode, that match it
	// denials are the messages of enforced policies that deny the object, and failures those of enforced policies that can't decide it.
	denials, failures []reason
	// blocked reports whether a request for the object is denied, also because a policy can't decide it; for an existing object, that is an
	// update that changes nothing. held reports whether a patch by remediation would be denied, so that it makes none. If held is set and
	// blocked is not, the object still gets the values that policies decide at its next update.
	blocked, held bool
	// wanted has the values for which policies decide another one.
	wanted map[valueKey]*wanted
	// waiting reports whether the object exists and waits for other values.
	waiting bool
	// rules are the rules in spec.rules of policies, in any mode, that decide the object.
	rules []decidingRule
	// harmed has the names of the policies with automatic remediation that leave the object without a placement; true if they remove all of
	// its clusters.
	harmed map[string]bool
}

// decidingRule is a rule, by name, of a policy, by name, that decides an object.
type decidingRule struct{ policy, rule string }

// reason is a message (text) of a policy about an object.
type reason struct{ policy, text string }

func (r reason) String() string { return r.policy + ": " + r.text }

// texts returns the reasons as texts of the form "policy: message".
func texts(reasons []reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, r.String())
	}
	return out
}

// valueKey identifies a value of an object: field is "labels", "annotations", "scheduling", or "clusters", and key the key in it or, for
// "clusters", the path of the list. Neither is empty.
type valueKey struct{ field, key string }

// wanted has the new values that policies decide for one value of an object, such as a label: due, pending, or both.
type wanted struct {
	// Change is the change to due or, if that is nil, to pending.
	placement.Change
	// due is the value that the request or Automatic remediation gives the object, possibly after a wait (target.waits). pending is the one
	// that it gets only after an approval, or at its next update. Each is nil if there is none.
	due, pending *target
}

// target is a new value, the policy that decides it, and what an existing object waits for (waits) before it gets it; "" for nothing.
type target struct {
	value         *string // nil for none
	policy, waits string  // the policy that decides it, and what an object waits for
}

// add adds the change that a policy makes: as due or, if due is false, as pending. waits says what an existing object waits for before; ""
// for nothing.
func (w *wanted) add(c placement.Change, policy, waits string, due bool) {
	if w.due == nil {
		w.Change = c
	}
	if due {
		w.due = &target{c.To, policy, waits}
	} else {
		w.pending = &target{c.To, policy, waits}
	}
}

// target returns due or, if it is nil, pending. One of the two must not be nil.
func (w *wanted) target() target { return *cmp.Or(w.due, w.pending) }

// value returns the value that the object gets without waiting (due, if it waits for nothing) or, if there is none, the one that it has;
// nil for none.
func (w *wanted) value() *string {
	if w.due != nil && w.due.waits == "" {
		return w.due.value
	}
	return w.From
}

// step is a change of a value that policies decide, from a value (from) to that of target.
type step struct {
	from *string
	target
	// pending reports whether the object gets the value only after an approval, or at its next update.
	pending bool
}

// appendSteps appends to out the changes that lead from the value current to those of w, in the order in which they are made: first to due
// or, without it, to the value that the object has (From), then to pending. A change to an equal value is left out. It returns the result,
// which is out for a nil w.
func (w *wanted) appendSteps(out []step, current *string) []step {
	if w == nil {
		return out
	}
	// Without a value that is due, the object keeps what it has.
	due := target{value: w.From, policy: w.target().policy}
	if w.due != nil {
		due = *w.due
	}
	if !equal(current, due.value) {
		out = append(out, step{current, due, false})
	}
	if w.pending != nil && !equal(due.value, w.pending.value) {
		out = append(out, step{due.value, *w.pending, true})
	}
	return out
}

// isLike reports whether two steps give an object the same value after the same wait: either both or none only after an approval or an
// update, and with equal texts of what it waits for. The texts may differ if one policy decides both steps and does not differ between
// them. changes reports whether the policy of a name differs.
func (s step) isLike(other step, changes func(policy string) bool) bool {
	// The texts of two times may differ for one policy, for example if a window opens between them.
	waits := s.waits == other.waits || s.policy == other.policy && !changes(s.policy)
	return waits && s.pending == other.pending && equal(s.value, other.value)
}

// valueOf returns the step as a Value with a key, without Planned.
func (s step) valueOf(key valueKey) Value {
	return Value{Field: key.field, Key: key.key, From: s.from, To: s.value, Policy: s.policy, Pending: s.pending, Waits: s.waits}
}

// stateOf decides an object. The state of an existing object has what remediation and the next update do, and that of any other object what
// the request does that updates it or, without o.Old, creates it.
func stateOf(ctx context.Context, s *simulation.Simulation, o simulation.Object, evaluate simulation.Evaluate) (*state, error) {
	d, err := decide(ctx, s, o, evaluate)
	if err != nil {
		return nil, fmt.Errorf("deciding %s: %w", simulation.Describe(o.Content), err)
	}
	out := &state{held: remediation.Blocks(d.verdicts), blocked: remediation.Blocks(d.answers)}
	out.denials, out.failures = reasons(d.answers)
	for _, v := range d.verdicts {
		out.note(v)
		if v.Policy.Mode != placementv1.ModeEnforce || v.Err != nil || o.Exists && v.Policy.Remediation == placementv1.RemediationNewOnly {
			// Policies for new objects leave existing ones alone, also at their next update.
			continue
		}
		due := !out.held && (!o.Exists || v.Policy.Automatic())
		if !due && out.blocked {
			continue
		}
		waits := ""
		if o.Exists && len(v.Changes) > 0 {
			waits = s.WaitsForNew(v.Policy, o.Namespace).String()
		}
		for _, c := range v.Changes {
			if c.Immutable == "" && (d.made == nil || d.made(c)) {
				out.add(c, v.Policy.Name, waits, due)
			}
		}
	}
	slices.Sort(out.matched)
	out.waiting = o.Exists && out.waits()
	return out, nil
}

// waits reports whether the object waits for another value: for an approval or its next update (pending), or for something else, such as a
// window, before a value that is due.
func (s *state) waits() bool {
	var buffer [2]step
	for _, w := range s.wanted {
		if len(w.appendSteps(buffer[:0], w.value())) > 0 {
			return true
		}
	}
	return false
}

// awaited returns the values that the object gets only after it has waited, be it for an approval, its next update, or for example a
// window. If one value changes in two steps, only the first step is returned. They are sorted by field and key. It returns nil if the
// object waits for nothing.
func (s *state) awaited() []Value {
	var out []Value
	var buffer [2]step
	for key, w := range s.wanted {
		if steps := w.appendSteps(buffer[:0], w.value()); len(steps) > 0 {
			out = append(out, steps[0].valueOf(key))
		}
	}
	sortValues(out)
	return out
}

// note records what the verdict of a policy says of the object: that the policy matches it, unless the update takes the object out of the
// match, which of the rules decides, and whether a policy that remediates automatically harms it: denies it, can't decide it, or allows it
// no cluster.
func (s *state) note(v *placement.Verdict) {
	if !v.Leaves {
		s.matched = append(s.matched, v.Policy.Name)
		if v.Err == nil && v.Decision.Rule != "" {
			s.rules = append(s.rules, decidingRule{v.Policy.Name, v.Decision.Rule})
		}
	}
	if remediation.Harms(v) {
		if s.harmed == nil {
			s.harmed = map[string]bool{}
		}
		s.harmed[v.Policy.Name] = remediation.RemovesAllClusters(v)
	}
}

// reasons returns the messages with which enforced policies deny an object (denials), and why enforced policies can't decide it (failures).
func reasons(verdicts []*placement.Verdict) (denials, failures []reason) {
	for _, v := range verdicts {
		switch {
		case v.Policy.Mode != placementv1.ModeEnforce:
		case v.Err != nil:
			failures = append(failures, reason{v.Policy.Name, v.Err.Error()})
		default:
			for _, text := range v.Decision.Errors {
				denials = append(denials, reason{v.Policy.Name, text})
			}
		}
	}
	return denials, failures
}

// add adds the change that a policy makes to wanted, also one that is not possible for an existing object (c.Immutable): as due or, if due
// is false, as pending. waits says what the object waits for before; "" for nothing.
func (s *state) add(c placement.Change, policy, waits string, due bool) {
	if s.wanted == nil {
		s.wanted = map[valueKey]*wanted{}
	}
	key := valueKey{c.Field, c.Key}
	if s.wanted[key] == nil {
		s.wanted[key] = &wanted{}
	}
	s.wanted[key].add(c, policy, waits, due)
}

// decisions has the verdicts of the policies that match an object: those that change it, and those that a request for it gets.
type decisions struct {
	// verdicts say what changes: for an existing object, by remediation. answers say whether a request for the object is denied. Each has one
	// verdict for each policy that matches.
	verdicts, answers []*placement.Verdict
	// made reports whether a change in verdicts is made; nil if all are.
	made func(placement.Change) bool
}

// decide decides an object. For an existing one, the verdicts are those of remediation, and the answers those to an update of the object
// that changes nothing. For any other, both are those to the request that updates the object or, without o.Old, creates it.
func decide(ctx context.Context, s *simulation.Simulation, o simulation.Object, evaluate simulation.Evaluate) (decisions, error) {
	if o.Old != nil {
		// An update may leave the values of policies that do not change existing objects as they were.
		outcome, err := s.Decide(ctx, o)
		if err != nil {
			return decisions{}, err
		}
		return decisions{outcome.Verdicts, outcome.Verdicts, func(c placement.Change) bool { return c.Done(outcome.Object) }}, nil
	}
	if !o.Exists || !slices.ContainsFunc(s.Policies(), leavesExisting) {
		verdicts, err := s.VerdictsBy(ctx, o, evaluate)
		if o.Exists {
			feasibility.Qualify(o.Content, verdicts)
		}
		return decisions{verdicts: verdicts, answers: verdicts}, err
	}
	known := map[*placement.Policy]evaluation{}
	verdicts, err := s.VerdictsBy(ctx, o, func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		var e evaluation
		if evaluate == nil {
			e.decision, e.err = p.Evaluator.Evaluate(ctx, input)
		} else {
			e.decision, e.err = evaluate(ctx, p, input)
		}
		known[p] = e
		return e.decision, e.err
	})
	if err != nil {
		return decisions{}, err
	}
	feasibility.Qualify(o.Content, verdicts)
	// Remediation leaves the keys of other policies as they are, and an update does not.
	update := simulation.Object{Resource: o.Resource, Namespace: o.Namespace, Content: o.Content,
		Old: &unstructured.Unstructured{Object: o.Content.Object}}
	answers, err := s.VerdictsBy(ctx, update, func(_ context.Context, p *placement.Policy, _ map[string]any) (placement.Decision, error) {
		return known[p].decision, known[p].err
	})
	return decisions{verdicts: verdicts, answers: answers}, err
}

// leavesExisting reports whether a policy has the mode Enforce and another remediation.mode than Automatic, so that it changes existing
// objects not at all, or only with an approval or at their next update.
func leavesExisting(p *simulation.Policy) bool {
	return p.Mode == placementv1.ModeEnforce && p.Remediation != placementv1.RemediationAutomatic
}

// evaluation is the result of one evaluation of one policy on one object: the decision, or the error why the policy can't decide it.
type evaluation struct {
	decision placement.Decision
	err      error
}

// to returns what happens to an object whose state becomes after; nil if nothing does. The transition is never Unenforced, which released
// finds, nor Waiting. request reports whether the changes are a request for the object itself. Then denials, and policies that can't
// decide, count even if they were the same before. changes reports whether the changes alter a policy, by name: if the same policy decides
// a value before and after, and is not altered, another text of what the object waits for is no change.
func (s *state) to(after *state, request bool, changes func(policy string) bool) *Object {
	out := &Object{}
	out.Values, out.Dropped = s.valuesTo(after, changes)
	denials, failures := lacking(after.denials, s.denials), slices.DeleteFunc(slices.Clone(after.failures), s.failed)
	if request {
		denials, failures = after.denials, after.failures
	}
	switch added, removed := lacking(after.matched, s.matched), lacking(s.matched, after.matched); {
	case len(denials) > 0:
		out.Transition, out.Reasons = Denied, texts(denials)
	case len(failures) > 0:
		out.Transition, out.Reasons = Undecidable, texts(failures)
	case s.blocked && !after.blocked, len(s.failures) > 0 && len(after.failures)+len(after.denials) == 0:
		gone := slices.DeleteFunc(slices.Clone(s.failures), after.failed)
		out.Transition, out.Reasons = Allowed, texts(slices.Concat(lacking(s.denials, after.denials), gone))
	case len(out.Values) > 0:
		out.Transition = transitionOf(out.Values)
	case len(out.Dropped) > 0 && (len(added) > 0 || len(removed) == 0):
		out.Transition = Kept
	case len(added) > 0:
		out.Transition, out.Reasons = Matched, added
	case len(removed) > 0:
		out.Transition, out.Reasons = Unmatched, removed
	default:
		return nil
	}
	return out
}

// transitionOf returns the transition of an object that gets other values, of which there is at least one: Replanned if it still waits for
// all of them, or else Moved if it gets one that determines where it runs without an approval or an update, Changed if it gets any other
// one so, or Pending.
func transitionOf(values []Value) Transition {
	switch {
	case !slices.ContainsFunc(values, func(v Value) bool { return !v.stillWaits() }):
		return Replanned
	case slices.ContainsFunc(values, moves):
		return Moved
	case slices.ContainsFunc(values, func(v Value) bool { return !v.Pending }):
		return Changed
	}
	return Pending
}

// stillWaits reports whether the object waits for this value and, without the changes, for another one (Planned): for each of them until an
// approval or its next update (Pending), or for none of them so, and then for this one because of what Waits says.
func (v Value) stillWaits() bool {
	return v.Planned != nil && v.Planned.Pending == v.Pending && (v.Pending || v.Waits != "")
}

// harmedBy returns the policies that newly harm the object, as their blast radius counts it: that deny it, can't decide it, or allow it no
// cluster. A policy that matched the object before counts if it did not harm it then, and one that did not match it if it now removes all
// clusters of the object. It returns nil if there are none.
func (s *state) harmedBy(after *state) []string {
	var out []string
	for name, removes := range after.harmed {
		if _, before := s.harmed[name]; slices.Contains(s.matched, name) && !before || !slices.Contains(s.matched, name) && removes {
			out = append(out, name)
		}
	}
	return out
}

// failed reports whether the policy of a reason can't decide the object in this state, whatever the message.
func (s *state) failed(r reason) bool {
	return slices.ContainsFunc(s.failures, func(known reason) bool { return known.policy == r.policy })
}

// moves reports whether a value determines where the object runs, and is not pending: a scheduling field, the list of clusters, or the
// annotation with the clusters, their shares, or the preferences.
func moves(v Value) bool {
	if v.Pending {
		return false
	}
	keys := []string{placementv1.ClustersAnnotation, placementv1.ClusterSharesAnnotation, placement.PreferencesAnnotation}
	return v.Field == "scheduling" || v.Field == "clusters" || slices.Contains(keys, v.Key)
}

// lacking returns the members of a that b lacks.
func lacking[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(member T) bool { return slices.Contains(b, member) })
}

// valuesTo returns the values that an object gets when its state becomes after, unless it waits for the same ones in this state (values),
// and those for which it waits only in this state and which stay as they are (dropped). A value that the object gets in this state without
// waiting counts as made. changes reports whether the changes alter a policy, by name.
func (s *state) valuesTo(after *state, changes func(policy string) bool) (values, dropped []Value) {
	var buffers [2][2]step
	add := func(key valueKey, before, next *wanted) {
		current := cmp.Or(before, next).From
		if before != nil {
			current = before.value()
		}
		planned, steps := before.appendSteps(buffers[0][:0], current), next.appendSteps(buffers[1][:0], current)
		if next == nil && !after.held && !equal(current, before.From) {
			// The object keeps what it has. If a policy denies it, that is said already.
			steps = append(steps, step{current, target{value: before.From, policy: before.target().policy}, false})
		}
		for len(planned) > 0 && len(steps) > 0 && steps[0].isLike(planned[0], changes) {
			planned, steps = planned[1:], steps[1:]
		}
		switch {
		case len(steps) > 0:
			v := steps[0].valueOf(key)
			if len(planned) > 0 {
				v.Planned = &Planned{planned[0].value, planned[0].pending, planned[0].waits}
			}
			values = append(values, v)
		case len(planned) > 0 && !after.held:
			dropped = append(dropped, planned[0].valueOf(key))
		}
	}
	for key, next := range after.wanted {
		add(key, s.wanted[key], next)
	}
	for key, before := range s.wanted {
		if after.wanted[key] == nil {
			add(key, before, nil)
		}
	}
	sortValues(values)
	sortValues(dropped)
	return values, dropped
}

// sortValues sorts values by field and key.
func sortValues(values []Value) {
	slices.SortFunc(values, func(a, b Value) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Key, b.Key)) })
}

// equal reports whether two values are equal; nil stands for none.
func equal(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
