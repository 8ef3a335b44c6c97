package placement

import (
	"context"
	"maps"
	"reflect"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/projection"
)

// Followed reports whether existing objects are looked at for the policy.
func (p *Policy) Followed() bool {
	return p.Remediation != placementv1.RemediationOff && p.Remediation != placementv1.RemediationNewOnly
}

// mayHold reports whether there are updates that keep what the policy set.
func (v *Verdict) mayHold() bool {
	return v.paused || v.Policy.Remediation == placementv1.RemediationManual || v.Policy.Remediation == placementv1.RemediationNewOnly
}

// changesObject reports whether the request is an update by somebody else than remediation.
func (r *Request) changesObject() bool { return r.Old != nil && r.Old != r.Object && !r.AutomaticOnly }

// held reports whether a policy's part of the object is to be left as it stands.
func (r *Request) held(v *Verdict) bool {
	return v.held || r.AutomaticOnly && v.Policy.Remediation != placementv1.RemediationAutomatic
}

// mayHold reports whether some policy may be held, for which the object before the update is needed.
func (r *Request) mayHold(verdicts []*Verdict) bool {
	return r.changesObject() && slices.ContainsFunc(verdicts, (*Verdict).mayHold)
}

// hold finds the policies whose part of the object an update leaves as it is: those that matched the object before, with
// remediation mode Manual where the developer changes nothing that they read or write, and with mode NewOnly, or while their
// remediation is paused, where the developer changes nothing that they write. What counts is what the developer wants before
// and after: a manifest that is applied again changes nothing, and who sets another value has it decided.
func (d *Decider) hold(ctx context.Context, r *Request, current *intent, id identity, verdicts []*Verdict) error {
	for _, v := range verdicts {
		if r.AutomaticOnly && v.Policy.Remediation == placementv1.RemediationNewOnly {
			v.Decision.Errors = nil
		}
	}
	if !r.mayHold(verdicts) {
		return nil
	}
	old, err := d.seen(ctx, r, r.Old)
	if err != nil {
		return err
	}
	before := readIntent(d.Keyring, r.Old, r.Old, id, current.pods.path)
	inputs := [2]map[string]any{ownFields(before.input()), ownFields(current.input())}
	for _, v := range verdicts {
		// A pause may be there because policies can't decide: then it keeps what they set before.
		if !v.mayHold() || v.Err != nil && !v.paused || !sameKeys(v, &before, current) {
			continue
		}
		if v.Policy.Remediation == placementv1.RemediationManual && !sameReads(v.Policy, inputs) {
			continue
		}
		if matched, err := v.Policy.Matcher.Matches(ctx, old); !matched || err != nil {
			continue
		}
		v.held = true
		if v.Policy.Remediation == placementv1.RemediationNewOnly {
			v.Decision.Errors, v.Decision.Warnings = nil, nil
		}
		restoreKeys(v, &before, current)
	}
	return nil
}

// ownFields returns the input without what the API server sets, which clients may leave out.
func ownFields(input map[string]any) map[string]any {
	if metadata, ok := input["metadata"].(map[string]any); ok {
		for _, name := range []string{"creationTimestamp", "generation", "resourceVersion", "selfLink", "uid"} {
			delete(metadata, name)
		}
	}
	return input
}

// sameReads reports whether a policy reads the same of both inputs.
func sameReads(p *Policy, inputs [2]map[string]any) bool {
	reads := p.Evaluator.Input()
	if _, remote := p.Remote(); remote {
		reads = projection.Everything()
	}
	return reflect.DeepEqual(reads.Cut(inputs[0]), reads.Cut(inputs[1]))
}

// writes are the keys of a field that a policy sets or has set.
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
		keys = append(keys, placementv1.ClustersAnnotation)
	}
	return keys
}

// sameKeys reports whether the developer wants the same under all keys that a policy writes. The record keeps that, so the
// answer is the same when the API server asks again in one request.
func sameKeys(v *Verdict, before, current *intent) bool {
	for _, field := range fields {
		for _, key := range writes(v, field, &before.standing, &current.standing) {
			if isContribution(key) && field == fieldScheduling {
				key = affinity
			}
			if !equalOptional(optional(before.wanted[field], key), optional(current.wanted[field], key)) {
				return false
			}
		}
	}
	return true
}

// restoreKeys has the keys that a policy writes stand as they did before the update.
func restoreKeys(v *Verdict, before, current *intent) {
	for _, field := range fields {
		for _, key := range writes(v, field, &before.standing, &current.standing) {
			if value, stood := before.current[field][key]; stood {
				current.current[field][key] = value
			} else {
				delete(current.current[field], key)
			}
			if entry, stood := before.standing.of(field)[key]; stood {
				current.standing.put(field, key, entry)
			} else {
				delete(current.standing.of(field), key)
			}
			if field == fieldAnnotations && key == placementv1.ClustersAnnotation {
				current.standing.Clusters = before.standing.Clusters
			}
		}
	}
}
