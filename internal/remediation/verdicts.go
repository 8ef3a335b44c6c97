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
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/moveset"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

var podResource = schema.GroupResource{Resource: "pods"}

// Due are the verdicts on an object that require a patch or an eviction.
type Due []*placement.Verdict

// DueOf returns the verdicts that require a patch or an eviction, also those of policies whose patches need an approval; nil if a policy
// would deny the patch.
func DueOf(verdicts []*placement.Verdict) Due {
	if Blocks(verdicts) {
		return nil
	}
	var out Due
	for _, v := range verdicts {
		if v.Policy.PatchesExisting() && v.Err == nil && len(v.Decision.Errors) == 0 && slices.ContainsFunc(v.Changes, moveset.Possible) {
			out = append(out, v)
		}
	}
	return out
}

// released returns the verdicts as they would be if all policies that need an approval had it.
func released(verdicts []*placement.Verdict) []*placement.Verdict {
	out := slices.Clone(verdicts)
	for i, v := range out {
		out[i] = cmp.Or(v.Released, v)
	}
	return out
}

// ruling reports whether enforced policies would deny a patch of an object (blocked), and would only because they can't decide it
// (failing).
type ruling struct{ blocked, failing bool }

// rulingOf returns the ruling of all verdicts on an object. Only policies in mode Enforce would deny a patch: those that deny the object,
// and those with failurePolicy Fail that can't decide it.
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

// Blocks reports whether an enforced policy denies the object, or can't decide it and denies it for that. The webhook would then deny a
// patch, so no patch can resolve a violation.
func Blocks(verdicts []*placement.Verdict) bool { return rulingOf(verdicts).blocked }

// Placed reports whether an object already has what the verdicts require.
func (d Due) Placed(obj *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(d.changes(), func(c placement.Change) bool { return !c.Done(obj) })
}

// MovesClusters reports whether a patch for the verdicts changes in which clusters the object is to run: in its clusters annotation, in the
// cluster preferences of Federation v1, or in the list of clusters of a placement object.
func (d Due) MovesClusters() bool {
	return slices.ContainsFunc(d.changes(), placement.Change.MovesClusters)
}

// Policies returns the names of the policies of the verdicts as text for a message, such as PlacementPolicy "eu", PlacementPolicy "us".
func (d Due) Policies() string {
	out := Names(d)
	for i, name := range out {
		out[i] = fmt.Sprintf("PlacementPolicy %q", name)
	}
	return strings.Join(out, ", ")
}

// String returns the names of the policies, and a description of the changes that a patch makes.
func (d Due) String() string { return d.Policies() + ": " + actions(d.changes()) }

// actions describes changes as instructions, such as "set annotation a/b to c (was d); remove label e".
func actions(changes []placement.Change) string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = c.Action()
	}
	return strings.Join(out, "; ")
}

// changes returns the changes that a patch for the verdicts makes. It omits the changes that remediation can't make (moveset.Possible).
func (d Due) changes() (out []placement.Change) {
	for _, v := range d {
		for _, change := range v.Changes {
			if moveset.Possible(change) {
				out = append(out, change)
			}
		}
	}
	return out
}

// Names returns the names of the policies of verdicts.
func Names(verdicts []*placement.Verdict) []string {
	out := make([]string, len(verdicts))
	for i, v := range verdicts {
		out[i] = v.Policy.Name
	}
	return out
}

// needing returns the verdicts that need an approval if approval is true, and the others if it is false.
func (d Due) needing(approval bool) Due {
	return slices.DeleteFunc(slices.Clone(d), func(v *placement.Verdict) bool { return v.Policy.NeedsApproval() != approval })
}

// Evicts reports whether the verdicts on an object of a type require an eviction: they change the scheduling of a Pod, which can't be
// patched. The other changes are then made when the Pod that takes its place is admitted.
func (d Due) Evicts(resource schema.GroupResource) bool { return evicts(resource, d.changes()) }

// evicts reports whether changes of an object of a type require an eviction. The changes must be possible.
func evicts(resource schema.GroupResource, changes []placement.Change) bool {
	return resource == podResource && slices.ContainsFunc(changes, placement.Change.ChangesPods)
}

// EvictsFrom reports whether remediation of a policy may evict objects of a type: the policy lets Berth evict, and the type is Pod.
func EvictsFrom(p *placement.Policy, resource schema.GroupResource) bool {
	return p.Evict && resource == podResource
}

// EvictionFields returns the fields of Pods that feasibility.Qualify and Scheduler.Ask read: the creation time, the owner references, the
// node name, the scheduling gates, and the phase. The field set is sealed.
func EvictionFields() *projection.FieldSet {
	return projection.Fields("metadata.creationTimestamp", "metadata.ownerReferences.**", "spec.nodeName",
		"spec.schedulingGates.**", "status.phase")
}

const (
	// FieldManager is the field manager of the patches with which the leader remediates. Permitted moves are appended to it.
	FieldManager = "berth-remediation"
	// permitSeparator separates the permit from FieldManager.
	permitSeparator = ":"
)

// FieldManagerFor returns the field manager for the patch of an object, with a digest of the moves that need an approval, if any.
func FieldManagerFor(key Key, uid types.UID, due Due) string {
	var ids []moveset.ID
	for _, v := range due.needing(true) {
		ids = append(ids, identify(key, uid, moveset.Encode(v.Changes)))
	}
	if ids == nil {
		return FieldManager
	}
	return FieldManager + permitSeparator + moveset.New(ids).Digest
}

// PermitsOf returns a function that reports whether the moves that verdicts on an object require and that need an approval are those that
// the field manager of a patch names. It returns nil if the field manager names none. The manager must be one of remediation: see
// IsFieldManager.
func PermitsOf(manager string, key Key, uid types.UID) func([]*placement.Verdict) bool {
	if manager == FieldManager {
		return nil
	}
	return func(verdicts []*placement.Verdict) bool { return manager == FieldManagerFor(key, uid, DueOf(verdicts)) }
}

// IsFieldManager reports whether a field manager is that of Berth's remediation, with or without a digest of moves that need an approval.
func IsFieldManager(manager string) bool {
	name, _, _ := strings.Cut(manager, permitSeparator)
	return name == FieldManager
}

// ManagerOf returns the field manager, other than Berth's, that last wrote a field that a patch for the verdicts changes. If no manager
// owns such a field, for example because the value was removed, it is the one that last wrote any field of the object. It returns "" if
// there is none.
func ManagerOf(entries []metav1.ManagedFieldsEntry, due Due) string {
	var owner, writer metav1.ManagedFieldsEntry
	at := func(e metav1.ManagedFieldsEntry) time.Time { return ptr.Deref(e.Time, metav1.Time{}).Time }
	for _, entry := range entries {
		if IsFieldManager(entry.Manager) || entry.Subresource != "" {
			continue
		}
		if !at(entry).Before(at(writer)) {
			writer = entry
		}
		if !at(entry).Before(at(owner)) && owns(entry, due.changes()) {
			owner = entry
		}
	}
	return cmp.Or(owner.Manager, writer.Manager)
}

// owns reports whether the entry of a field manager owns a field that one of the changes sets, or a part of it.
func owns(entry metav1.ManagedFieldsEntry, changes []placement.Change) bool {
	var fields fieldpath.Set
	if entry.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return false
	}
	return slices.ContainsFunc(changes, func(c placement.Change) bool {
		names := []string{"metadata", c.Field, c.Key}
		switch {
		case c.ChangesPods():
			member, _, _ := strings.Cut(c.Key, "/")
			names = append(slices.Clone(c.PodSpec), member)
		case c.ChangesClusters():
			names = strings.Split(c.Key, ".")
		}
		path, parts := fieldpath.Path{}, &fields
		for _, name := range names {
			path = append(path, fieldpath.PathElement{FieldName: &name})
			parts = parts.WithPrefix(path[len(path)-1])
		}
		return fields.Has(path) || !parts.Empty()
	})
}
