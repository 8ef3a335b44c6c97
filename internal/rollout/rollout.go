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

package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/containment"
)

// MaxRevisions is the number of stored revisions that a status lists at most.
const MaxRevisions = 10

// Revision is a stored version of a policy. The zero value stands for none.
type Revision struct {
	Number  int64  // The generation in which the version first was in the spec.
	Version string // What VersionDigest returns for the version.
}

// InForce says which version of a policy with a rollout a replica has in force, and in how many stages. It does not say which version
// decides in the other stages.
type InForce struct {
	Digest   string // What Digest returns for a rollout in stages, and VersionDigest for one version everywhere; empty without spec.rollout.
	Reached  int    // The number of the first stages in which the version of the rollout decides, on this replica. Unused if Complete is set.
	Complete bool   // Whether the version decides everywhere.
	Revision int64  // The spec.rollout.revision that selected the version; 0 if it was not selected so.
}

// Counts are numbers of existing objects that a policy matches in the namespaces of one stage. An object counts in at most one of Moved,
// Failed, Denied, and Pending. Moved includes objects that Berth never had to change.
type Counts struct {
	Matched    int            // The number of all matched objects in the namespaces of the stage.
	Namespaces int            // The number of namespaces that have matched objects.
	Moved      int            // The number of objects that are as the version that decides them requires.
	Failed     map[string]int // By namespace, the number of objects that can't be decided or moved. The rollout goes on if these are few.
	Denied     map[string]int // By namespace, the number of objects not in Failed that the version that decides them denies.
	Pending    int            // The number of objects, not in Failed or Denied, that Berth has to patch or evict.
}

// failures returns the number of failed objects, the number of denied objects beyond those of s.DeniedBefore, and whether both together
// stop the rollout: if they reach most, a limit of containment.Of, in three namespaces, or in all with matched objects if these are fewer.
// s is the status of the stage that c counts.
func (c Counts) failures(s placementv1.RolloutStageStatus, most int) (failed, denied int, stop bool) {
	by, before := map[string]int{}, map[string]int{}
	maps.Copy(by, c.Failed)
	for _, b := range s.DeniedBefore {
		before[b.Namespace] = int(*b.Objects)
	}
	for namespace, n := range c.Denied {
		if more := n - before[namespace]; more > 0 {
			by[namespace] += more
		}
	}
	failed, denied = sum(c.Failed), max(0, sum(c.Denied)-sum(before))
	if failed+denied < max(most, 1) {
		return failed, denied, false
	}
	scope, stop := containment.Of(by, most)
	return failed, denied, stop && (scope.All() || len(scope) == c.Namespaces)
}

// sum returns the number of objects in all namespaces, given those by namespace.
func sum(objects map[string]int) (out int) {
	for _, n := range objects {
		out += n
	}
	return out
}

const (
	// maxDeniedIn is the number of namespaces for which a status has the number of denied objects.
	maxDeniedIn = 32
	// otherNamespaces stands for the other namespaces. It is no valid name, so no namespace has it.
	otherNamespaces = "*"
)

// byNamespace returns the numbers of objects for a status, given those by namespace: those of the maxDeniedIn namespaces with most objects,
// sorted by name, and, under otherNamespaces, the sum of the others, with cluster-scoped objects. It is never empty, so that a status shows
// that there are none.
func byNamespace(objects map[string]int) []placementv1.NamespaceObjects {
	most := slices.SortedFunc(maps.Keys(objects), func(a, b string) int {
		return cmp.Or(cmp.Compare(objects[b], objects[a]), cmp.Compare(a, b))
	})
	most = slices.DeleteFunc(most, func(namespace string) bool { return namespace == "" || objects[namespace] == 0 })
	most = most[:min(len(most), maxDeniedIn)]
	slices.Sort(most)
	out, others := []placementv1.NamespaceObjects(nil), sum(objects)
	for _, namespace := range most {
		out = append(out, placementv1.NamespaceObjects{Namespace: namespace, Objects: new(int32(objects[namespace]))})
		others -= objects[namespace]
	}
	return append(out, placementv1.NamespaceObjects{Namespace: otherNamespaces, Objects: new(int32(others))})
}

// Facts is what Next needs to know of a policy: its rollout, which versions are stored and in force, numbers of objects for each stage, and
// which stage is approved.
type Facts struct {
	Now  time.Time
	Spec *placementv1.PolicyRollout // The newest spec.rollout; nil if the policy has none.
	// Candidate identifies the rollout of the version in the newest spec, as Digest returns it. It is empty while that version can't decide.
	Candidate string
	// InForce is what this process, the leader, has in force. It is nil while the newest spec is not loaded.
	InForce *InForce
	Stored  []Revision // The stored revisions, the newest first.
	// Fallback is the version that was stored as the last one in force everywhere. It counts if neither the status nor InForce has which
	// one that was.
	Fallback Revision
	// Busy reports whether the counts may be about to change: existing objects wait for their decision, or rollouts of patched
	// objects are not complete.
	Busy bool
	// Paused is why the rollout must not go on from a stage that it has reached, for its message: remediation of the policy is paused, or
	// existing objects can't be read; empty if neither. The first stage begins all the same.
	Paused   string
	Approved string   // The annotation placement.berth.dev/approve-stage; approves if it equals status.rollout.approvalID; empty for none.
	Counts   []Counts // The numbers for each stage of Spec. Next needs them unless Settled returns true.
	// Rest describes what the version matches and no stage has, as DescribeRest returns it; "" for nothing. It follows the last stage.
	Rest string
}

// Next returns the status of a rollout after old, which is nil if there was none. It returns nil if the policy has no rollout, or none can
// begin yet. again is when it has to be called again although no fact changes; zero for never. It does not change old.
//
// A status reaches at most one stage more than old. It reaches the first one once existing objects are decided, even if remediation is
// paused, so that a corrected policy comes into force. It reaches a further one only if the leader has the present stage in force, all
// objects of the reached stages are decided, and are moved, failed, or denied, the failed and denied ones do not stop the rollout, it is
// not Paused, and the soak of the present stage is over. Each stage waits for its approval if it needs one.
func Next(old *placementv1.RolloutStatus, f Facts) (next *placementv1.RolloutStatus, again time.Time) {
	if f.Spec == nil {
		return nil, time.Time{}
	}
	if next = old.DeepCopy(); next != nil {
		// Another client may have written the status.
		next.Reached = new(min(max(ptr.Deref(next.Reached, 0), 0), int32(len(next.Stages))))
		if PositionOf(next).IsSingle() {
			next.Message = ""
		}
	}
	switch {
	case f.InForce == nil:
		return next, time.Time{}
	case f.Spec.Revision != 0:
		next = f.rolledBack(next)
	case f.Candidate != "" && (next == nil || f.supersedes(next)):
		next = f.begin(next)
	}
	if next == nil {
		return nil, time.Time{}
	}
	next.Revisions = f.listed(next)
	if f.Spec.Revision == 0 && !PositionOf(next).IsSingle() && !f.supersedes(next) {
		again = f.advance(next)
	}
	f.summarize(next)
	return next, again
}

// Settled reports whether the status after s does not depend on existing objects: spec.rollout.revision is set, or the rollout of the
// candidate is complete. Next then needs no Counts.
func (f *Facts) Settled(s *placementv1.RolloutStatus) bool {
	return f.Spec.Revision != 0 || s != nil && s.State == placementv1.RolloutComplete && !f.supersedes(s)
}

// listed returns the numbers of at most MaxRevisions stored revisions, the newest first: those of the versions that decide by s, and the
// newest others.
func (f *Facts) listed(s *placementv1.RolloutStatus) (out []int64) {
	for _, r := range f.Stored {
		out = append(out, r.Number)
	}
	for i := len(out) - 1; len(out) > MaxRevisions && i >= 0; i-- {
		if out[i] != s.Revision && out[i] != s.PreviousRevision {
			out = slices.Delete(out, i, i+1)
		}
	}
	return out
}

// supersedes reports whether the rollout of the candidate takes the place of that of s: whether s is of a rollback or of another version,
// or is not complete and of other stages.
func (f *Facts) supersedes(s *placementv1.RolloutStatus) bool {
	position := PositionOf(s)
	return !position.Concerns(f.Candidate) || !position.Complete && len(s.Stages) != len(f.Spec.Stages)
}

// rolledBack returns the status of a policy with spec.rollout.revision: that the revision is in force everywhere. It returns s while the
// leader does not have the revision in force, or it is not stored.
func (f *Facts) rolledBack(s *placementv1.RolloutStatus) *placementv1.RolloutStatus {
	stored, ok := f.find(Revision{Number: f.Spec.Revision})
	if f.InForce.Revision != f.Spec.Revision || !ok {
		return s
	}
	return &placementv1.RolloutStatus{State: placementv1.RolloutRolledBack, Revision: stored.Number, Digest: stored.Version,
		Reached: new(int32(0))}
}

// begin returns the status of the candidate's rollout before its first stage, or a complete one if the version is in force already, or
// there are no stages. It returns s while the candidate or the version that was in force everywhere last is not stored; if the latter is
// gone, s gets a message that says so.
func (f *Facts) begin(s *placementv1.RolloutStatus) *placementv1.RolloutStatus {
	candidate, stored := f.find(Revision{Version: versionOf(f.Candidate)})
	before, known := f.before(s)
	if !known && s != nil {
		if !PositionOf(s).IsSingle() {
			s.State = placementv1.RolloutPaused
		}
		s.Message = fmt.Sprintf("the version in the spec can't be rolled out, because revision %d, which has to decide in stages that are not "+
			"reached, is not stored any more: set spec.rollout.revision to one of status.rollout.revisions, or remove spec.rollout to put the "+
			"version in the spec in force everywhere at once", PositionOf(s).Everywhere())
	}
	if !stored || !known {
		return s
	}
	out := &placementv1.RolloutStatus{Revision: candidate.Number, Digest: f.Candidate, PreviousRevision: before.Number, Reached: new(int32(0))}
	if before.Version == candidate.Version || len(f.Spec.Stages) == 0 {
		// The version is in force already, or the spec went back to it. Or there is nothing to wait for.
		complete(out)
		return out
	}
	out.State = placementv1.RolloutProgressing
	// Objects of the same stages are still decided by the version that is superseded.
	same := s != nil && !PositionOf(s).IsSingle() && stagesOf(s.Digest) == stagesOf(f.Candidate) && len(s.Stages) == len(f.Spec.Stages)
	for i, stage := range f.Spec.Stages {
		next := placementv1.RolloutStageStatus{Name: stage.Name}
		if same {
			next.DeniedBefore = s.Stages[i].DeniedBefore
		}
		out.Stages = append(out.Stages, next)
	}
	return out
}

// before returns the version that was in force everywhere last, before the candidate; the zero Revision if none was. known is false while
// it is not stored.
func (f *Facts) before(s *placementv1.RolloutStatus) (before Revision, known bool) {
	// Each version is stored once. So it may be stored under another number than that of the generation that was in force.
	switch {
	case s == nil && f.InForce.Complete && f.InForce.Revision == 0 && f.InForce.Digest != "":
		return f.find(Revision{Version: versionOf(f.InForce.Digest)})
	case s == nil && f.Fallback.Number == 0, s != nil && !PositionOf(s).IsSingle() && s.PreviousRevision == 0:
		return Revision{}, true
	case s == nil:
		return f.find(Revision{Version: f.Fallback.Version})
	case PositionOf(s).IsSingle():
		return f.find(Revision{Version: versionOf(s.Digest)})
	default:
		return f.find(Revision{Number: s.PreviousRevision})
	}
}

// find returns the newest stored revision that has the number or the version of like, and whether there is one. A number of 0 and an empty
// version match none.
func (f *Facts) find(like Revision) (Revision, bool) {
	for _, r := range f.Stored {
		if like.Number != 0 && r.Number == like.Number || like.Version != "" && r.Version == like.Version {
			return r, true
		}
	}
	return Revision{}, false
}

// advance updates the status of a rollout that is not complete, by at most one stage, or makes it complete. It returns when it has to be
// called again, at the end of a soak; zero for never.
func (f *Facts) advance(s *placementv1.RolloutStatus) (again time.Time) {
	reached := int(ptr.Deref(s.Reached, 0))
	for i := range s.Stages {
		c := f.Counts[i]
		s.Stages[i].Matched = int32(c.Matched)
		if i < reached {
			s.Stages[i].Moved, s.Stages[i].Failed, s.Stages[i].Denied = int32(c.Moved), int32(sum(c.Failed)), int32(sum(c.Denied))
		}
	}
	if s.State, s.Message = f.holds(s, reached); s.State != "" {
		return time.Time{}
	}
	if reached > 0 {
		last, soak := &s.Stages[reached-1], f.Spec.Stages[reached-1].Soak
		if last.MovedTime == nil {
			// The API server stores seconds. Round up, so that no soak is too short.
			last.MovedTime = new(metav1.NewTime(f.Now.Add(time.Second - 1)).Rfc3339Copy())
		}
		if until := last.MovedTime.Add(ptr.Deref(soak, metav1.Duration{}).Duration); soak != nil && f.Now.Before(until) {
			s.State = placementv1.RolloutSoaking
			s.Message = fmt.Sprintf("stage %s soaks until %s%s", last.Name, until.UTC().Format(time.RFC3339), f.after(reached-1))
			return until
		}
	}
	next, mistaken := f.step(reached), ""
	if next.approval && (s.ApprovalID == "" || s.ApprovalID != f.Approved) {
		if s.ApprovalID == "" {
			// No client can have approved what the status did not show before.
			s.ApprovalID = strconv.FormatInt(s.Revision, 10) + "-" + next.name + "-" + strconv.FormatInt(f.Now.UnixMilli(), 36)
		}
		// The identity of an earlier wait stays in the annotation after the approval.
		if f.Approved != "" && !IsApproval(f.Approved) {
			mistaken = fmt.Sprintf(" (the present value %.64q of the annotation approves nothing)", f.Approved)
		}
		s.State = placementv1.RolloutWaitingForApproval
		s.Message = fmt.Sprintf("%s: set the policy's annotation %s to %s%s%s",
			next.waits, placementv1.ApproveStageAnnotation, s.ApprovalID, mistaken, f.after(reached))
		return time.Time{}
	}
	if reached == len(s.Stages) {
		complete(s)
		return time.Time{}
	}
	s.ApprovalID = ""
	s.Reached = new(int32(reached + 1))
	s.Stages[reached].StartTime = new(metav1.NewTime(f.Now).Rfc3339Copy())
	if s.Stages[reached].DeniedBefore == nil {
		s.Stages[reached].DeniedBefore = byNamespace(f.Counts[reached].Denied)
	}
	s.State, s.Message = placementv1.RolloutProgressing, fmt.Sprintf("objects of stage %s are being decided", next.name)
	return time.Time{}
}

// approvalID matches the identity of a wait for an approval: the number of the revision, the name of the stage, or _rest, and the time when
// the wait began, joined by hyphens.
var approvalID = regexp.MustCompile(`^[0-9]+-[-_a-z0-9]+-[a-z0-9]+$`)

// IsApproval reports whether a value of the annotation placement.berth.dev/approve-stage can approve some stage: whether it has the form of
// status.rollout.approvalID.
func IsApproval(value string) bool { return approvalID.MatchString(value) }

// DescribeRest describes what no stage has, such as "namespaces of no stage (3, such as shop) and cluster-scoped objects"; "" for nothing.
// example is one of the namespaces.
func DescribeRest(namespaces int, example string, clusterScoped bool) string {
	var parts []string
	if namespaces > 0 {
		parts = append(parts, fmt.Sprintf("namespaces of no stage (%d, such as %s)", namespaces, example))
	}
	if clusterScoped {
		parts = append(parts, "cluster-scoped objects")
	}
	return strings.Join(parts, " and ")
}

// step is a step of a rollout: its next stage, or, after the last stage, all that the policy matches and no stage has. It has the name, the
// beginnings of messages, and whether it needs an approval.
type step struct {
	name           string // The name of the stage, or "_rest". The value of an approval also has a revision and a time.
	waits, follows string // The beginnings of messages, such as "stage prod waits for its approval" and "stage prod follows".
	approval       bool   // Whether the step needs an approval.
}

// step returns the step that follows a number of reached steps; the zero value if there is none.
func (f *Facts) step(reached int) step {
	switch stages := f.Spec.Stages; {
	case reached < len(stages):
		stage := stages[reached]
		return step{stage.Name, fmt.Sprintf("stage %s waits for its approval", stage.Name),
			fmt.Sprintf("stage %s follows", stage.Name), stage.Approval}
	case reached == len(stages) && f.Rest != "":
		// The approval of the last stage is not for more than that stage. Its name is not the name of a stage.
		return step{"_rest", f.Rest + " wait for an approval of their own", f.Rest + " follow", len(stages) > 0 && stages[reached-1].Approval}
	}
	return step{}
}

// after returns what follows the step with an index and whether that needs an approval, for appending to a message, such as "; after it,
// stage prod follows without an approval"; "" if nothing follows.
func (f *Facts) after(reached int) string {
	next, how := f.step(reached+1), "without an approval"
	if next.name == "" {
		return ""
	} else if next.approval {
		how = "after another approval"
	}
	return fmt.Sprintf("; after it, %s %s", next.follows, how)
}

// holds returns the state and the message of a rollout that can't go on for a reason that comes before soak and approval: Progressing while
// objects are not decided or moved yet, and, once a stage is reached, Paused if failures stop it or Facts.Paused is set. Both are "" if it
// can go on. reached is the number of reached stages.
func (f *Facts) holds(s *placementv1.RolloutStatus, reached int) (placementv1.RolloutState, string) {
	switch {
	case reached == 0 && f.Busy:
		return placementv1.RolloutProgressing, "existing objects are being decided"
	case reached == 0:
		return "", ""
	case f.InForce.Digest != s.Digest || f.InForce.Reached != reached || f.Busy:
		return placementv1.RolloutProgressing, fmt.Sprintf("objects of stage %s are being decided", s.Stages[reached-1].Name)
	}
	pending := 0
	for i := range reached {
		stage, c := f.Spec.Stages[i], f.Counts[i]
		most := containment.LimitOf(stage.PauseAfterFailures, placementv1.DefaultStagePauseAfterFailures)
		if failed, denied, stop := c.failures(s.Stages[i], most); stop {
			return placementv1.RolloutPaused, fmt.Sprintf("%d objects of stage %s failed, %d more are denied than before, and its "+
				"pauseAfterFailures is %d: correct the policy or the objects, or roll back with spec.rollout.revision",
				failed, stage.Name, denied, most)
		}
		pending += c.Pending
	}
	switch {
	case f.Paused != "":
		return placementv1.RolloutPaused, f.Paused
	case pending > 0:
		return placementv1.RolloutProgressing, fmt.Sprintf("%d objects of the stages up to %s have to be moved", pending,
			s.Stages[reached-1].Name)
	}
	return "", ""
}

// complete makes s the status of a rollout that is complete: its version decides in all namespaces.
func complete(s *placementv1.RolloutStatus) {
	s.State, s.PreviousRevision, s.Message, s.ApprovalID, s.Reached = placementv1.RolloutComplete, 0, "", "", new(int32(len(s.Stages)))
}

// summarize sets s.Stage, the summary for display: the last reached stage, and how many of s.Stages are reached, as in "prod 2/3"; only the
// numbers while none is reached, as in "0/3"; "Complete"; or the revision after a rollback, as in "Revision 4". What no stage has does not
// count.
func (f *Facts) summarize(s *placementv1.RolloutStatus) {
	reached := int(ptr.Deref(s.Reached, 0))
	s.Stage = fmt.Sprintf("%d/%d", reached, len(s.Stages))
	switch {
	case s.State == placementv1.RolloutComplete:
		s.Stage = string(s.State)
	case s.State == placementv1.RolloutRolledBack:
		s.Stage = fmt.Sprintf("Revision %d", s.Revision)
	case reached > 0:
		s.Stage = s.Stages[reached-1].Name + " " + s.Stage
	}
}

// Stages are the compiled stages of a policy's rollout. They are immutable and safe for concurrent use.
type Stages struct {
	policy string // The name of the policy, on which depends which namespaces a percentage selects.
	list   []stage
}

// stage selects namespaces by their labels, or a percentage of all namespaces.
type stage struct {
	namespaces labels.Selector // Selects no namespace if the stage has a percentage.
	percent    int32           // The percentage of all namespaces that the stage selects, by a hash of their names; 0 if it selects by labels.
}

// NewStages compiles the stages of the policy with the name policy. path is that of spec.rollout.stages, for errors. The result is never
// nil. A stage with an invalid selector, which is an error, selects no namespace.
func NewStages(policy string, stages []placementv1.RolloutStage, path *field.Path) (*Stages, field.ErrorList) {
	out, errs := &Stages{policy: policy, list: make([]stage, len(stages))}, field.ErrorList(nil)
	for i, s := range stages {
		// A nil selector selects nothing.
		selector, err := metav1.LabelSelectorAsSelector(s.NamespaceSelector)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("namespaceSelector"), s.NamespaceSelector, err.Error()))
			selector = labels.Nothing()
		}
		out.list[i] = stage{selector, s.Percent}
	}
	return out, errs
}

// Len returns the number of stages.
func (s *Stages) Len() int { return len(s.list) }

// Of returns the index of the stage that a namespace belongs to, the first one that selects it. It returns Len for a namespace
// that no stage selects, and for objects without a namespace, whose name is empty.
func (s *Stages) Of(namespace string, l map[string]string) int {
	for i := range s.list {
		if s.Selects(i, namespace, l) {
			return i
		}
	}
	return s.Len()
}

// Selects reports whether the stage with an index selects a namespace of a name and labels, even if the namespace belongs to an earlier
// stage. It is false for objects without a namespace, whose name is empty.
func (s *Stages) Selects(stage int, namespace string, l map[string]string) bool {
	at := s.list[stage]
	return namespace != "" && (at.percent > 0 && share(s.policy, namespace) < at.percent || at.namespaces.Matches(labels.Set(l)))
}

// SelectsAll reports whether a stage selects all namespaces: by a percentage of 100, or a selector without requirements.
func SelectsAll(s placementv1.RolloutStage) bool {
	return s.Percent >= 100 || s.NamespaceSelector != nil && len(s.NamespaceSelector.MatchLabels)+
		len(s.NamespaceSelector.MatchExpressions) == 0
}

// share returns a number from 0 to 99 that depends only on the names of the policy and the namespace. A stage with a percentage selects the
// namespaces whose number is below it. The name of the policy makes different policies begin with different namespaces.
func share(policy, namespace string) int32 {
	sum := sha256.Sum256([]byte(policy + "/" + namespace))
	return int32(binary.BigEndian.Uint64(sum[:8]) % 100)
}

// VersionDigest returns a digest that identifies the version in a spec: all of the spec but rollout and remediation.
func VersionDigest(spec placementv1.PlacementPolicySpec) string {
	spec = spec.WithDefaults()
	spec.Remediation, spec.Rollout = placementv1.Remediation{}, nil
	return digest(spec)
}

// Effective returns the spec by which a version decides, with defaults: version, with remediation and rollout of the newest spec, which are
// not parts of a version.
func Effective(version, newest placementv1.PlacementPolicySpec) placementv1.PlacementPolicySpec {
	version, newest = version.WithDefaults(), newest.WithDefaults()
	version.Remediation, version.Rollout = newest.Remediation, newest.Rollout
	return version
}

// Digest returns a digest that identifies the rollout of the version in a spec: that of VersionDigest, a hyphen, and one of the names and
// namespaces of the stages.
func Digest(spec placementv1.PlacementPolicySpec) string {
	var namespaces []placementv1.RolloutStage
	if spec.Rollout != nil {
		for _, s := range spec.Rollout.Stages {
			namespaces = append(namespaces, placementv1.RolloutStage{Name: s.Name, NamespaceSelector: s.NamespaceSelector, Percent: s.Percent})
		}
	}
	return VersionDigest(spec) + "-" + digest(namespaces)
}

// digest returns the first 8 bytes of the SHA-256 digest of a value's JSON, in 16 hexadecimal digits. For a value that has no JSON, it is
// the digest of the error.
func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// Data is the only part that a client formats. The API server refuses data that are not JSON.
		text = []byte(err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// stagesOf returns the part after the hyphen of what Digest returned, which identifies the stages; "" for what VersionDigest returned.
func stagesOf(digest string) string {
	_, stages, _ := strings.Cut(digest, "-")
	return stages
}

// versionOf returns the part before the hyphen of what Digest returned, which identifies the version: what VersionDigest returns.
func versionOf(digest string) string {
	version, _, _ := strings.Cut(digest, "-")
	return version
}
