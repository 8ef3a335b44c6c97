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

package remediation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// terminating is the reason why a terminating object is reported and not patched.
const terminating = "being deleted: Berth does not patch it; if it stays, see which finalizers hold it"

// Qualify says of each change whether remediation can make it in an existing object. It can't change a terminating object. It
// can change the scheduling of a Pod by an eviction, if the policy has them and another Pod takes its place.
func Qualify(obj *unstructured.Unstructured, verdicts []*placement.Verdict) {
	verdicts = withReleased(verdicts)
	if obj.GetDeletionTimestamp() != nil {
		freeze(verdicts)
		return
	}
	qualifyEvictions(obj, verdicts)
}

// withReleased returns the verdicts, and those that policies would have with an approval.
func withReleased(verdicts []*placement.Verdict) []*placement.Verdict {
	out := slices.Clone(verdicts)
	for _, v := range verdicts {
		if v.Released != nil {
			out = append(out, v.Released)
		}
	}
	return out
}

// freeze marks the changes of a terminating object as impossible. The owner of a finalizer may depend on the object's content.
// Besides, a patch would have no effect: Berth sends a patch that changes nothing, so that the webhook decides the object, and
// the webhook does not decide such patches of terminating objects.
func freeze(verdicts []*placement.Verdict) {
	for _, v := range verdicts {
		for i := range v.Changes {
			if possible(v.Changes[i]) {
				v.Changes[i].Immutable = terminating
			}
		}
	}
}

// possible reports whether remediation can make a change. Other changes are reported.
func possible(c placement.Change) bool { return c.Immutable == "" }

// Due are those verdicts on an object that require a patch or an eviction.
type Due []*placement.Verdict

// DueOf returns the verdicts that require a patch or an eviction, also those that need an approval. It is empty if no policy requires one, or
// if a patch would be denied.
func DueOf(verdicts []*placement.Verdict) Due {
	if Blocks(verdicts) {
		return nil
	}
	var out Due
	for _, v := range verdicts {
		if (v.Policy.Automatic() || v.Policy.NeedsApproval()) && v.Err == nil && len(v.Decision.Errors) == 0 && slices.ContainsFunc(v.Changes, possible) {
			out = append(out, v)
		}
	}
	return out
}

// released returns the verdicts as they would be if all policies that need an approval had it.
func released(verdicts []*placement.Verdict) []*placement.Verdict {
	if !slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return v.Released != nil }) {
		return verdicts
	}
	out := make([]*placement.Verdict, len(verdicts))
	for i, v := range verdicts {
		out[i] = cmp.Or(v.Released, v)
	}
	return out
}

// Requires reports whether some policy requires a patch of the object, with an approval or without.
func Requires(verdicts []*placement.Verdict) bool {
	return len(DueOf(verdicts)) > 0 || len(DueOf(released(verdicts))) > 0
}

// ruling reports whether policies deny a patch of an object, and whether they do so only because they can't decide.
type ruling struct{ blocked, failing bool }

func rulingOf(verdicts []*placement.Verdict) ruling {
	var denied, failed bool
	for _, v := range verdicts {
		if v.Policy.Mode == placementv1.ModeEnforce {
			denied = denied || v.Err == nil && len(v.Decision.Errors) > 0
			failed = failed || v.Err != nil && v.Policy.FailurePolicy == placementv1.FailurePolicyFail
		}
	}
	return ruling{blocked: denied || failed, failing: failed && !denied}
}

// Blocks reports whether a policy denies the object, or denies it because it can't decide. The API server would call the
// webhook, which would deny a patch. So no patch can resolve a violation.
func Blocks(verdicts []*placement.Verdict) bool { return rulingOf(verdicts).blocked }

// Placed reports whether an object has the placement that the policies decided.
func (d Due) Placed(obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(d.changes(), func(c placement.Change) bool { return !c.Done(obj) })
}

// Policies names the policies for a message.
func (d Due) Policies() string {
	out := Names(d)
	for i, name := range out {
		out[i] = fmt.Sprintf("PlacementPolicy %q", name)
	}
	return strings.Join(out, ", ")
}

// String names the policies and describes the changes that a patch makes.
func (d Due) String() string {
	var out []string
	for _, change := range d.changes() {
		out = append(out, change.Action())
	}
	return d.Policies() + ": " + strings.Join(out, "; ")
}

// changes returns the changes that a patch makes.
func (d Due) changes() []placement.Change {
	var out []placement.Change
	for _, v := range d {
		for _, change := range v.Changes {
			if possible(change) {
				out = append(out, change)
			}
		}
	}
	return out
}

// Names returns the names of the policies behind the verdicts.
func Names(verdicts []*placement.Verdict) []string {
	out := make([]string, len(verdicts))
	for i, v := range verdicts {
		out[i] = v.Policy.Name
	}
	return out
}
