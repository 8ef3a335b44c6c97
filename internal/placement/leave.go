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
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/internal/match"
)

// An update of labels can take an object from the object selector of one policy to that of another. The new labels alone decide what the
// object becomes. The policy that it leaves decides only whether it may: what the policy denies in the object as it is to be is denied,
// unless the policy denied the object before, too.

// labelsOf returns the labels of the request's object, in which labels that a policy set keep the policy's value if the update sets them
// back to what the developer requested, as applying the old manifest again does: policies are going to set them again.
func (d *Decider) labelsOf(r *Request) map[string]string {
	out := metadataOf(r.Object, fieldLabels)
	stored := d.Keyring.readStored(r.Old, identityOf(r.Old, r.Namespace))
	before := metadataOf(r.Old, fieldLabels)
	for key, entry := range stored.of(fieldLabels) {
		if value, stands := before[key]; stands && digest(value) == entry.Set && ptr.Equal(optional(out, key), entry.Requested) {
			out[key] = value
		}
	}
	return out
}

// excluded returns the names of policies that set keys of the object and match it as its developer requested it, but do not match it as it
// is, because of what policies set, or because it is read in another API version. These keys must stay. If the object lost what such a
// policy set, the policy would match it again. A match condition that fails counts as true. The error is that the object could not be read,
// or the labels of its namespace.
func (d *Decider) excluded(ctx context.Context, r *Request, index *match.Index[*Policy], current *intent,
	verdicts []*Verdict) (sets.Set[string], error) {
	names := sets.New[string]()
	for _, field := range fields {
		for _, entry := range current.applied.of(field) {
			names.Insert(entry.By)
		}
	}
	// A policy that the object leaves may be one: the webhook sees an object a second time, with the label that it set the first time.
	for _, v := range deciding(verdicts) {
		names.Delete(v.Policy.Name)
	}
	gives := func(v *Verdict) bool { return v.Err == nil && v.Decision.gives() }
	if len(names) == 0 || !slices.ContainsFunc(verdicts, gives) {
		return nil, nil
	}
	if r.Source != nil {
		// Match conditions read any field.
		if err := r.Source.Complete(); err != nil {
			return nil, err
		}
	}
	requested := *r
	requested.Object = withOwnMetadata(r.Object)
	setMetadata(requested.Object, fieldLabels, current.wanted[fieldLabels])
	setMetadata(requested.Object, fieldAnnotations, current.wanted[fieldAnnotations])
	requested.Old = requested.Object
	out := sets.New[string]()
	for version := range sets.New(index.Versions(r.Resource.GroupResource())...).Insert(r.Resource.Version) {
		requested.Resource.Version = version
		policies, object, err := d.candidates(ctx, &requested, index)
		if err != nil {
			return nil, err
		}
		for _, p := range policies {
			// A condition that fails, for example because the object has another version, counts as one that is true.
			if matches, _ := p.Matcher.Matches(ctx, object); matches && names.Has(p.Name) {
				out.Insert(p.Name)
			}
		}
	}
	return out, nil
}

// limitToDenials removes what the decisions of policies that the object leaves by the update would change, so that errors and warnings
// remain. It makes these verdicts tolerant.
func limitToDenials(verdicts []*Verdict) {
	for _, v := range verdicts {
		if !v.Leaves {
			continue
		}
		errors := make([]string, len(v.Decision.Errors))
		for i, text := range v.Decision.Errors {
			errors[i] = text + " (the policy matches the object before this update, and decides whether the object may leave it)"
		}
		v.Decision = Decision{Errors: errors, Warnings: v.Decision.Warnings, Rule: v.Decision.Rule}
		v.tolerant = true
	}
}

// deciding returns the verdicts without those of policies that the object leaves by the update.
func deciding(verdicts []*Verdict) []*Verdict {
	if !slices.ContainsFunc(verdicts, func(v *Verdict) bool { return v.Leaves }) {
		return verdicts
	}
	return slices.DeleteFunc(slices.Clone(verdicts), func(v *Verdict) bool { return v.Leaves })
}
