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

// Package rollout decides which version of a policy is in force (Choose; docs/versions.md), and brings versions into force in stages: it
// finds the stage of a namespace, and decides when a rollout goes on to its next stage (Next).
// A version is a policy's spec without spec.rollout and spec.remediation, which apply at once.
package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Ref names a version of a policy: a stored revision by its number, or one of the constants.
type Ref int64

// The versions without a number.
const (
	None        Ref = -iota // No version: the policy matches nothing.
	Newest                  // The version in the policy's spec.
	LastInForce             // The version that was in force everywhere last, as the leader stored it.
	Earlier                 // What this replica had in force everywhere last, if possible with all types served; never Newest.
	Kept                    // All that this replica has in force.
	Lost                    // A version that can't be loaded. It fails whenever it has to decide.
)

// ErrNotStored means that a version is not stored, or not in the cache yet, so that a later attempt may load it.
var ErrNotStored = errors.New("the revision is not stored")

// ChoiceFacts is what Choose needs to know of a policy: what its spec and its status say of the rollout, what the replica has in force,
// which versions it has loaded, and whether they must wait for data.
type ChoiceFacts struct {
	Staged   bool      // Whether the policy has spec.rollout. Only then, Digest, Revision, and Position are used.
	Digest   string    // What Digest returns for the spec, which identifies its version and its stages.
	Revision int64     // spec.rollout.revision; 0 if it is not set.
	Position Position  // The position of status.rollout.
	Kept     KeptFacts // What this replica has in force.
	// Versions has the result of loading each version. Choose returns in Choice.Load which one it needs that is not here.
	Versions map[Ref]VersionFacts
	Now      time.Time
	Data     DataFacts // Whether the chosen versions must wait for their data.

	load Ref // The first version that Choose needed and Versions does not have; None if there is none.
}

// KeptFacts tells what a replica has in force of a policy: whether a version can decide, which one in how many stages, and whether one of
// the versions is lost. The zero value means that it has none.
type KeptFacts struct {
	Exists  bool    // Whether a version is in force that can decide.
	InForce InForce // Which version is in force, and in how many stages; not which one decides in the others.
	Lost    bool    // Whether one of the versions in force is Lost: it can't be loaded, and fails.
}

// VersionFacts is the result of loading a version: its number and digest, why it can't decide, and whether types that it reads are not
// served.
type VersionFacts struct {
	Err        error  // Why the version can't decide; nil if it can. For Newest, also why it is Incomplete.
	Incomplete bool   // Whether types that it reads are not served. Without spec.rollout, versions with all types served come before it.
	Number     int64  // The generation in which the version first was in the spec.
	Version    string // The digest of the version, as VersionDigest returns it.
}

// DataFacts is what Choose needs to know to set Choice.Waits: whether what is in force can decide meanwhile, whether the chosen versions
// have all the data that they read, and until when they wait for it at most. With the zero value, they do not wait.
type DataFacts struct {
	// Held reports whether other versions than the chosen ones are in force, and can decide meanwhile: they have all of their data, or had it
	// when the wait began.
	Held     bool
	Complete bool      // Whether the chosen versions have all of their data.
	Until    time.Time // When the chosen versions come into force even without their data; zero for at once.
}

// Choice says which versions of a policy decide on a replica, and where.
type Choice struct {
	// Load is a version that has to be loaded before Choose can choose. Then no other field is set. It is None if the choice is made.
	Load Ref
	// Target decides in the stages that InForce has reached, and Before in all other namespaces. Where one that is Lost has to decide,
	// evaluations fail. Before means nothing if Target is Kept, or if InForce.Complete is set: then Target decides everywhere.
	Target, Before Ref
	InForce        InForce // What the replica has in force once it applies this choice; if Target is Kept, what it has already.
	// Err says why Newest does not decide, or which version is lost; nil if all is as the spec and the status say.
	Err error
	// Waits reports whether the chosen versions do not decide yet: what was in force before decides until their data are complete, or
	// DataFacts.Until has passed.
	Waits bool
}

// Choose returns which versions of a policy decide, and in how many stages the one of the rollout does. It is the only place where that is
// decided. docs/versions.md has the rules. Stages.Of tells the stage of a namespace; policyloader and Assignment.Reached combine the two.
func Choose(f ChoiceFacts) (out Choice) {
	if f.Staged {
		out = f.staged()
	} else {
		out = f.unstaged()
	}
	if f.load != None {
		return Choice{Load: f.load}
	}
	out.Waits = f.Data.Held && !f.Data.Complete && f.Now.Before(f.Data.Until)
	return out
}

// version returns the result of loading a version. If Versions does not have it, it returns the zero value, and sets load, so that Choose
// returns only that the version has to be loaded.
func (f *ChoiceFacts) version(ref Ref) VersionFacts {
	v, loaded := f.Versions[ref]
	if !loaded && f.load == None {
		f.load = ref
	}
	return v
}

// everywhere returns the choice of a version for all namespaces: Target is ref, and Before is not set. InForce is complete, with the digest
// of the version if the policy has spec.rollout, and without a Revision. If ref is Kept, InForce is that of the replica, so that each
// version stays where it is. err becomes Choice.Err.
func (f *ChoiceFacts) everywhere(ref Ref, err error) Choice {
	out := Choice{Target: ref, InForce: InForce{Complete: true}, Err: err}
	switch {
	case ref == Kept:
		out.InForce = f.Kept.InForce
	case f.Staged:
		out.InForce.Digest = f.Versions[ref].Version
	}
	return out
}

// both joins two errors, each of which may be nil.
func both(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

// unstaged chooses one version for all namespaces, for a policy without spec.rollout: Newest, unless that can't decide, or types that it
// reads are not served while Earlier has all types served. Then it chooses Earlier, or LastInForce if there is no Earlier. If that can't
// decide either, it chooses Kept, with which each version stays where it is, or Lost if nothing in force can decide.
func (f *ChoiceFacts) unstaged() Choice {
	newest := f.version(Newest)
	if newest.Err == nil {
		return f.everywhere(Newest, nil)
	}
	ref, earlier := Earlier, f.version(Earlier)
	if errors.Is(earlier.Err, ErrNotStored) {
		// What this replica knows is not older than what is stored.
		ref, earlier = LastInForce, f.version(LastInForce)
	}
	switch {
	case newest.Incomplete && (earlier.Err != nil || earlier.Incomplete):
		return f.everywhere(Newest, nil)
	case earlier.Err == nil:
		return f.everywhere(ref, newest.Err)
	case f.Kept.Exists:
		return f.everywhere(Kept, newest.Err)
	case ref == LastInForce && !errors.Is(earlier.Err, ErrNotStored):
		return f.everywhere(Lost, both(newest.Err, earlier.Err))
	}
	return f.everywhere(Lost, newest.Err)
}

// staged chooses for a policy with spec.rollout: the revision in spec.rollout.revision if it is set, or else Newest in the stages that the
// position has reached, if it can decide and the position is that of its rollout. If neither can be chosen, it calls stay.
func (f *ChoiceFacts) staged() Choice {
	reason := f.version(Newest).Err
	switch selected := Ref(f.Revision); {
	case selected != None:
		if err := f.version(selected).Err; err != nil {
			return f.stay(fmt.Errorf("spec.rollout.revision: %w; status.rollout.revisions has the revisions that are stored", err))
		}
		out := f.everywhere(selected, reason)
		out.InForce.Revision = f.Revision
		return out
	case reason == nil && f.Position.Concerns(f.Digest):
		return f.inStages(Newest, nil)
	default:
		return f.stay(reason)
	}
}

// inStages chooses target in the stages that the position has reached, and the previous revision everywhere else. If that can't be loaded,
// it chooses Kept if another rollout is in force, or else Lost in its place. reason says why Newest does not decide; nil if it does.
func (f *ChoiceFacts) inStages(target Ref, reason error) Choice {
	out := Choice{Target: target, InForce: InForce{Digest: f.Position.Digest, Reached: f.Position.Reached, Complete: f.Position.Complete},
		Err: reason}
	before := Ref(f.Position.Previous)
	if f.Position.Complete || before == None {
		return out
	}
	err := f.version(before).Err
	if err == nil {
		out.Before = before
		return out
	}
	out.Err = both(reason, fmt.Errorf("%w; that revision has to decide in the stages that the rollout has not reached: set "+
		"spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout", err))
	if f.Kept.Exists && !f.Kept.Lost && f.Kept.InForce.Digest != f.Position.Digest {
		return f.everywhere(Kept, out.Err)
	}
	out.Before = Lost
	return out
}

// stay chooses what this replica has in force, unless that is lost. If it has nothing yet, it chooses the versions of the position, each in
// its stages, or, if the spec no longer has these stages, or they can't be loaded, the version that was in force everywhere last. If that
// can't be loaded either, it chooses Lost everywhere. If there never was one, it chooses None, or, if reason is set or the version of the
// position can't be loaded, Lost in the stages that this version has reached, which may be none. reason says why Newest can't decide; it is
// nil if Newest only has to wait until the position is that of its rollout.
func (f *ChoiceFacts) stay(reason error) Choice {
	if f.Kept.Exists && !f.Kept.Lost {
		return f.everywhere(Kept, reason)
	}
	reached, failed, p := 0, error(nil), f.Position
	if target := Ref(p.Revision); p.Digest != "" && !p.IsSingle() && stagesOf(p.Digest) == stagesOf(f.Digest) {
		if target == None {
			// Another client wrote the status.
			failed = fmt.Errorf("revision 0: %w", ErrNotStored)
		} else if failed = f.version(target).Err; failed == nil {
			return f.inStages(target, reason)
		}
		reached = p.Reached
	}
	switch last, lost := f.lastInForce(); {
	case lost != nil:
		return f.everywhere(Lost, fmt.Errorf("%w; that revision was in force everywhere last, and has to decide until a rollout begins: set "+
			"spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout to put the version in the spec in force everywhere",
			lost))
	case last != None:
		return f.everywhere(last, cmp.Or(reason, failed))
	case reason != nil || failed != nil:
		return Choice{Target: Lost, InForce: InForce{Reached: reached}, Err: both(reason, failed)}
	}
	// No version was ever in force everywhere, and none is ahead of the status.
	return Choice{Target: None}
}

// lastInForce returns the version that was in force everywhere last: by its number, or as LastInForce if there is no status, or if it can't
// be loaded by its number and LastInForce is the same version. It returns None if there was none, or if it can't be loaded; lost then has
// the reason.
func (f *ChoiceFacts) lastInForce() (last Ref, lost error) {
	switch number := Ref(f.Position.Everywhere()); {
	case number != None:
		if lost = f.version(number).Err; lost == nil {
			return number, nil
		}
	case f.Position != (Position{}):
		return None, nil
	}
	v := f.version(LastInForce)
	// The version that was in force before a rollback is stored, too.
	isLast := lost == nil || v.Number == f.Position.Everywhere() || f.Position.IsSingle() && v.Version == versionOf(f.Position.Digest)
	switch {
	case !isLast || errors.Is(v.Err, ErrNotStored):
		return None, lost
	case v.Err != nil:
		return None, v.Err
	}
	return LastInForce, nil
}

// Stores reports what the leader stores after a choice by the facts if Newest can decide: last, whether Newest becomes LastInForce, because
// it is in force everywhere now, and numbered, whether Newest is stored under its number, because the policy has spec.rollout. Of such a
// policy, the leader also stores what is in force under numbers.
func (f *ChoiceFacts) Stores(c Choice) (last, numbered bool) {
	decides := f.Versions[Newest].Err == nil
	return decides && c.Target == Newest && c.InForce.Complete && !c.Waits, decides && f.Staged
}

// Position is the part of a rollout's status by which replicas decide. The zero value stands for no status.
type Position struct {
	Digest     string // Identifies the rollout: what Digest returns, or, after a rollback, what VersionDigest returns.
	Revision   int64  // The number of the version that is or was rolled out, or that a rollback selected.
	Reached    int    // The number of stages in which the version decides.
	Complete   bool   // Whether the rollout is complete, so that the version decides everywhere; false after a rollback.
	Previous   int64  // The revision that decides where the version does not; 0 for none, and once the rollout is complete.
	rolledBack bool   // Whether spec.rollout.revision selected the version.
}

// PositionOf returns the position in a status; the zero Position for nil.
func PositionOf(s *placementv1.RolloutStatus) Position {
	if s == nil {
		return Position{}
	}
	return Position{
		Digest: s.Digest, Revision: s.Revision, Previous: s.PreviousRevision, Reached: int(ptr.Deref(s.Reached, 0)),
		Complete: s.State == placementv1.RolloutComplete, rolledBack: s.State == placementv1.RolloutRolledBack,
	}
}

// IsSingle reports whether a single version is in force everywhere, after a complete rollout or a rollback.
func (p Position) IsSingle() bool { return p.Complete || p.rolledBack }

// Concerns reports whether the position is that of the rollout with a digest. The stages of a complete rollout do not matter. It is false
// after a rollback, and for the zero Position.
func (p Position) Concerns(digest string) bool {
	switch {
	case p.Digest == "" || p.rolledBack:
		return false
	case p.Complete:
		return versionOf(p.Digest) == versionOf(digest)
	default:
		return p.Digest == digest
	}
}

// Everywhere returns the number of the revision that was in force everywhere last, or is now; 0 if there was none.
func (p Position) Everywhere() int64 {
	if p.IsSingle() {
		return p.Revision
	}
	return p.Previous
}

// Assignment says which versions of a policy decide, and where, as a replica chooses that starts with the policy's status. It is
// immutable. Target and Before are equal if one version decides everywhere.
type Assignment struct {
	Choice
	stages   *Stages                    // The stages of spec; nil if that is nil.
	spec     *placementv1.PolicyRollout // spec.rollout; nil if it is not set.
	position Position                   // PositionOf status.rollout as it was read. Choice may be by another position; see Assign.
	why      string                     // Why one version decides everywhere, for Explain, which ignores it otherwise.
}

// Assign returns which versions of a policy decide if all of them can be loaded. A policy without status.rollout, such as one in a file, is
// decided by its spec as if its rollout were complete, unless spec.rollout.revision selects another version. While the rollout of the
// version in the spec has not begun, the version that was in force everywhere last decides.
func Assign(obj *placementv1.PlacementPolicy) Assignment {
	out := Assignment{spec: obj.Spec.Rollout, position: PositionOf(obj.Status.Rollout)}
	f := ChoiceFacts{Staged: out.spec != nil, Versions: map[Ref]VersionFacts{Newest: {}}}
	if f.Staged {
		// A stage with an invalid selector selects nothing.
		out.stages, _ = NewStages(obj.Name, out.spec.Stages, field.NewPath("spec", "rollout", "stages"))
		f.Digest, f.Revision, f.Position = Digest(obj.Spec), out.spec.Revision, out.position
		switch {
		case f.Revision != 0:
			out.why = "spec.rollout.revision selects this revision for all namespaces"
		case obj.Status.Rollout == nil:
			f.Position, out.why = Position{Digest: f.Digest, Complete: true}, "the policy has no status.rollout"
		case !f.Position.Concerns(f.Digest):
			// The leader ends the rollout of another version as soon as it sees the spec.
			f.Position, out.why = Position{Revision: f.Position.Everywhere(), rolledBack: true},
				"the rollout of the version in the spec has not begun"
		default:
			out.why = "its rollout is complete"
		}
	}
	out.Choice = Choose(f)
	for ; out.Load != None; out.Choice = Choose(f) {
		f.Versions[out.Load] = VersionFacts{}
	}
	if out.InForce.Complete {
		out.Before = out.Target
	}
	return out
}

// Partial reports whether different versions decide in different namespaces, so that labels of namespaces matter.
func (a Assignment) Partial() bool { return a.Target != a.Before }

// Reached reports whether Target decides in the namespace with a name and labels: in all namespaces if one version decides everywhere, in
// none if there is no version. The name is empty for objects without a namespace.
func (a Assignment) Reached(namespace string, labels map[string]string) bool {
	if !a.Partial() {
		return a.Target != None
	}
	return a.stages.Of(namespace, labels) < a.InForce.Reached
}

// Explain returns a sentence on which version decides in a namespace of a name and labels, and why. It returns "" for a policy without
// spec.rollout.
func (a Assignment) Explain(namespace string, labels map[string]string) string {
	if a.spec == nil {
		return ""
	}
	why, revision := a.why, a.Before
	if a.Partial() {
		why = a.stageOf(namespace, labels)
	}
	if a.Reached(namespace, labels) {
		revision = a.Target
	}
	switch {
	case revision == None:
		return "no version decides: " + why + ", and there is no version before"
	case revision != Newest:
		return fmt.Sprintf("revision %d decides: %s", revision, why)
	case a.position.Revision != 0:
		return fmt.Sprintf("revision %d decides, which is the version in the spec: %s", a.position.Revision, why)
	default:
		return "the version in the spec decides: " + why
	}
}

// stageOf describes, for Explain, which stage a namespace belongs to, and whether the rollout has reached the stage.
func (a Assignment) stageOf(namespace string, labels map[string]string) string {
	stage, reached := a.stages.Of(namespace, labels), "has not reached"
	switch {
	case namespace == "":
		return "objects without a namespace follow after the last stage"
	case stage == a.stages.Len():
		return fmt.Sprintf("namespace %s is in no stage and follows after the last one", namespace)
	case stage < a.InForce.Reached:
		reached = "has reached"
	}
	return fmt.Sprintf("namespace %s is in stage %s, which the rollout %s", namespace, a.spec.Stages[stage].Name, reached)
}
