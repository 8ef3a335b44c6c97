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

package placement

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/projection"
)

// Automatic reports whether remediation patches existing objects for the policy without an approval: spec.mode is Enforce, and
// spec.remediation.mode is Automatic.
func (p *Policy) Automatic() bool {
	return p.Mode == placementv1.ModeEnforce && p.Remediation == placementv1.RemediationAutomatic
}

// NeedsApproval reports whether remediation patches existing objects for the policy once their plan is approved: spec.mode is Enforce, and
// spec.remediation.mode is Approved.
func (p *Policy) NeedsApproval() bool {
	return p.Mode == placementv1.ModeEnforce && p.Remediation == placementv1.RemediationApproved
}

// PatchesExisting reports whether remediation patches existing objects for the policy, at once or once their plan is approved.
func (p *Policy) PatchesExisting() bool { return p.Automatic() || p.NeedsApproval() }

// WatchesRollouts reports whether remediation of the policy must know which objects are ready, because it may change their pod templates.
func (p *Policy) WatchesRollouts() bool { return p.Schedules && p.PatchesExisting() }

// keepsUnread reports whether an update that changes nothing that the policy reads or writes leaves the placement of an existing object as
// it is: existing objects are left to their owners (remediation mode Manual), or are moved only after an approval, in windows, or at the
// pace of a budget (maxPerMinute, maxConcurrent, perNamespace, or group). It is false for the remediation modes Off and NewOnly; hold
// treats NewOnly in its own way. spec.mode does not matter.
func (p *Policy) keepsUnread() bool {
	switch p.Remediation {
	case placementv1.RemediationManual, placementv1.RemediationApproved:
		return true
	case placementv1.RemediationAutomatic:
		return len(p.Windows) > 0 || p.Budget.MaxPerMinute > 0 || p.Budget.MaxConcurrent > 0 || p.Budget.PerNamespace > 0 || p.Budget.Group != ""
	}
	return false
}

// RemediatesExisting reports whether Berth evaluates the policy on existing objects, and counts or patches violations. It does so in every
// spec.mode, unless spec.remediation.mode is Off or NewOnly.
func (p *Policy) RemediatesExisting() bool {
	return p.Remediation != placementv1.RemediationOff && p.Remediation != placementv1.RemediationNewOnly
}

// OnceApproved returns the verdict as it would be with the approval that the policy needs: Released, if that is set and the policy itself
// needs an approval. Otherwise it returns the verdict itself.
func (v *Verdict) OnceApproved() *Verdict {
	if v.Released != nil && v.Policy.NeedsApproval() {
		return v.Released
	}
	return v
}

// mayHold reports whether the object before the update may matter for the verdict: the object leaves the policy by the update (Leaves),
// remediation of the policy is paused, or the policy keeps what it set before because of its remediation mode, windows, or budget.
// spec.mode does not matter.
func (v *Verdict) mayHold() bool {
	return v.Leaves || v.paused || v.Policy.keepsUnread() || v.Policy.Remediation == placementv1.RemediationNewOnly
}

// changesObject reports whether the request is an update of an object by a client, not by remediation.
func (r *Request) changesObject() bool { return r.Old != nil && r.Old != r.Object && !r.remediates }

// held reports whether merging must leave the keys of a verdict's policy as they are in the object: hold marked the verdict, or remediation
// decides and may not change them.
func (r *Request) held(v *Verdict) bool {
	return v.held || r.remediates && v.Policy.Remediation != placementv1.RemediationAutomatic && !v.released
}

// release returns copies of the verdicts in which the policies that need an approval have it. It returns nil if there are no such policies,
// and unless the request is an assessment or has the function permits. Merging changes verdicts, so each merge needs its own.
func (r *Request) release(verdicts []*Verdict) []*Verdict {
	needs := func(v *Verdict) bool { return v.Policy.NeedsApproval() }
	if !r.remediates || !r.verdictsOnly && r.permits == nil || !slices.ContainsFunc(verdicts, needs) {
		return nil
	}
	out := make([]*Verdict, len(verdicts))
	for i, v := range verdicts {
		released := *v
		released.Decision.Errors = slices.Clone(v.Decision.Errors)
		released.released = needs(v)
		out[i] = &released
	}
	return out
}

// mayHold reports whether some verdict may hold, so that the complete object before the update is needed. It is false unless the request is
// an update by a client.
func (r *Request) mayHold(verdicts []*Verdict) bool {
	return r.changesObject() && slices.ContainsFunc(verdicts, (*Verdict).mayHold)
}

// hold marks the verdicts of policies whose keys the update must leave as they are (Verdict.held), and restores these keys. Only policies
// that also matched the object before the update qualify, and of those that can't decide only ones whose remediation is paused. A policy
// for which keepsUnread returns true is held if the update changes no requested value that the policy reads or writes. A policy with
// remediation mode NewOnly, or with paused remediation, is held if the update changes no requested value that the policy writes. Requested
// values count, so applying the same manifest again holds the policies, and an update that requests another value has them decide. tolerate
// handles what a held policy denies. When remediation decides, hold turns denials by policies with mode NewOnly into Verdict.DeniesNew.
func (d *Decider) hold(ctx context.Context, r *Request, current *intent, id identity, verdicts []*Verdict) error {
	for _, v := range verdicts {
		if r.remediates && v.Policy.Remediation == placementv1.RemediationNewOnly {
			v.DeniesNew, v.Decision.Errors = len(v.Decision.Errors) > 0, nil
		}
	}
	if !r.mayHold(verdicts) {
		return nil
	}
	old, err := d.matchObject(ctx, r, r.Old)
	if err != nil {
		return err
	}
	before := readIntent(d.Keyring, r.Old, r.Old, id, current.locations())
	inputs := [2]map[string]any{ownFields(before.input()), ownFields(current.input())}
	for _, v := range verdicts {
		// Remediation may be paused because policies cannot decide. Then the policy keeps what it set before.
		if v.Leaves || !v.mayHold() || v.Err != nil && !v.paused || !sameKeys(v, &before, current) {
			continue
		}
		if v.Policy.keepsUnread() && !sameReads(v.Policy, inputs) {
			continue
		}
		if matched, err := v.Policy.Matcher.Matches(ctx, old); !matched || err != nil {
			continue
		}
		v.held = true
		switch {
		case v.Policy.Remediation == placementv1.RemediationNewOnly:
			v.tolerant, v.Decision.Warnings = true, nil
		case v.paused:
			v.tolerant = len(v.Decision.Errors) == 0
		}
		restoreKeys(v, &before, current)
	}
	return nil
}

// denies reports whether the policy decided to deny the object.
func (v *Verdict) denies() bool { return v.Err == nil && len(v.Decision.Errors) > 0 }

// tolerate removes the errors of tolerant verdicts whose policy also denies the object before the update: such policies do not apply to
// what existed. All other denials stay, so that no update does what a policy denies in a new object. Only if there is such a verdict,
// tolerate decides on the object before the update.
func (d *Decider) tolerate(ctx context.Context, r *Request, index *match.Index[*Policy], verdicts []*Verdict) error {
	tolerable := func(v *Verdict) bool { return v.tolerant && v.denies() }
	if !slices.ContainsFunc(verdicts, tolerable) {
		return nil
	}
	before, err := d.decide(ctx, r.before(), index)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		denied := func(old *Verdict) bool { return old.Policy == v.Policy && old.denies() }
		if tolerable(v) && slices.ContainsFunc(before.Verdicts, denied) {
			v.Decision.Errors = nil
		}
	}
	return nil
}

// ownFields removes from one of two inputs that sameReads compares the metadata that the API server sets and that clients may omit:
// creationTimestamp, generation, resourceVersion, selfLink, and uid. The inputs that policies decide on keep them. It changes and returns
// its argument.
func ownFields(input map[string]any) map[string]any {
	if metadata, ok := input["metadata"].(map[string]any); ok {
		for _, name := range []string{"creationTimestamp", "generation", "resourceVersion", "selfLink", "uid"} {
			delete(metadata, name)
		}
	}
	return input
}

// sameReads reports whether two inputs are equal in the fields that decisions of the policy depend on; in all fields if it is evaluated by
// a remote engine. Fields that only spec.match reads, such as in match conditions, do not count.
func sameReads(p *Policy, inputs [2]map[string]any) bool {
	reads := p.Evaluator.Input()
	if _, remote := p.Remote(); remote {
		reads = projection.AllFields()
	}
	return reflect.DeepEqual(reads.Project(inputs[0]), reads.Project(inputs[1]))
}

// writes returns the keys of a field that the policy sets now or, according to the records, set before. For a policy that gives clusters,
// both the annotation with the clusters and the one with their shares are among the annotations. A key may occur several times.
func writes(v *Verdict, field string, records ...*record) []string {
	keys := slices.Collect(maps.Keys(v.decided(field)))
	for _, r := range records {
		for key, entry := range r.of(field) {
			_, shares := r.Clusters[v.Policy.Name]
			if entry.By == v.Policy.Name || shares && key == placementv1.ClustersAnnotation {
				keys = append(keys, key)
			}
		}
	}
	if field == fieldAnnotations && v.Decision.Clusters != nil {
		// Where the policy gives no shares, it overrides those of the developer.
		keys = append(keys, placementv1.ClustersAnnotation, placementv1.ClusterSharesAnnotation)
	}
	return keys
}

// sameKeys reports whether the developer requests the same values before and after the update, for all keys that the policy writes. The
// record keeps these values, so the result is the same if the API server calls the webhook again within a request.
func sameKeys(v *Verdict, before, current *intent) bool {
	for _, field := range fields {
		for _, key := range writes(v, field, &before.applied, &current.applied) {
			if podscheduling.IsContribution(key) && field == fieldScheduling {
				key = podscheduling.Affinity
			}
			if !ptr.Equal(optional(before.wanted[field], key), optional(current.wanted[field], key)) {
				return false
			}
		}
	}
	return true
}

// restoreKeys resets in current the values that the object has for the keys that the policy writes, and their entries in the record, to
// those in before, the intent of the object before the update. It leaves the requested values, which must be the same in both.
func restoreKeys(v *Verdict, before, current *intent) {
	for _, field := range fields {
		for _, key := range writes(v, field, &before.applied, &current.applied) {
			if value, existed := before.current[field][key]; existed {
				current.current[field][key] = value
			} else {
				delete(current.current[field], key)
			}
			if entry, existed := before.applied.of(field)[key]; existed {
				current.applied.put(field, key, entry)
			} else {
				delete(current.applied.of(field), key)
			}
			if field == fieldAnnotations && key == placementv1.ClustersAnnotation {
				current.applied.Clusters = before.applied.Clusters
			}
		}
	}
}
