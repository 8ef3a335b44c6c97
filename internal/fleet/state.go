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

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/simulation"
)

// State says how an object compares to what the policies that match it decide. If several states apply, the first one of States counts.
type State string

const (
	// Violating means that Berth does not bring the object to what policies decide: a policy denies it, or can't decide it; its last move
	// failed, as the status of a policy says; or it differs, and Berth does not change it, because of the mode of the policy or of its
	// remediation, because a field is immutable, because the object is being deleted, or because another policy denies the patch.
	Violating State = "Violating"
	// Moving means that Berth moved the object to other clusters, in which it does not run yet, as the status of a policy says, or the status
	// of the object itself if it is a Workload of Kueue.
	Moving State = "Moving"
	// Waiting means that the object differs from what policies decide, and that Berth is going to patch it, or to evict it: soon, or when a
	// budget, a window, an approval, or a pause allows it.
	Waiting State = "Waiting"
	// Running means that the object has the values that policies decide, and that no status says that a move is under way or failed. A
	// missing record of these values does not count. That the pods run is up to the cluster.
	Running State = "Running"
)

// States returns all states, the gravest first.
func States() []State { return []State{Violating, Moving, Waiting, Running} }

// finding is a state of an object, and the reason for it.
type finding struct {
	state  State
	reason string
	// deniedOrUndecided reports whether a policy, enforced or not, denies the object, or can't decide it. Policies with remediation.mode
	// NewOnly do not count. A Fleet has such an object even if it names no clusters and gets none. Tables count it by its state alone.
	deniedOrUndecided bool
}

// worse returns the finding with the graver state; the first one if both are equally grave. deniedOrUndecided is set if it is in one of
// them.
func worse(a, b finding) finding {
	deniedOrUndecided := a.deniedOrUndecided || b.deniedOrUndecided
	if states := States(); slices.Index(states, b.state) < slices.Index(states, a.state) {
		a = b
	}
	a.deniedOrUndecided = deniedOrUndecided
	return a
}

// assess returns the gravest state of an object, by the verdicts, by what the status of their policies says of its last move, and by its
// own status. Of policies with remediation.mode NewOnly, it ignores both the verdict and the status. The verdicts have passed
// feasibility.Qualify.
func (b *builder) assess(o simulation.Object, verdicts []*placement.Verdict) finding {
	out, blocked := finding{state: Running}, remediation.Blocks(verdicts)
	key := placementv1.ReferenceTo(o.Resource.GroupResource(), o.Namespace, o.Content.GetName())
	for _, v := range verdicts {
		if v.Policy.Remediation == placementv1.RemediationNewOnly {
			// It decides new objects alone.
			continue
		}
		switch {
		case v.Err != nil:
			out = worse(out, finding{Violating, fmt.Sprintf("PlacementPolicy %s can't decide the object: %v", v.Policy.Name, v.Err), true})
		case len(v.Decision.Errors) > 0:
			out = worse(out, finding{Violating, denial(v), true})
		case len(v.OnceApproved().Decision.Errors) > 0:
			// An approval does not help either.
			out = worse(out, finding{state: Violating, reason: denial(v.OnceApproved())})
		default:
			out = worse(out, b.difference(o, v, blocked))
		}
		if r, ok := b.reports[v.Policy.Name][key]; ok {
			out = worse(out, r)
		}
	}
	return worse(out, ownReport(o.Content))
}

// ownReport returns Moving if Berth delivers the decision to the placed object itself, as to a Workload of Kueue, and the status of the
// object says that it does not run in its clusters. It returns Running for all others, and in a snapshot, which has no status.
func ownReport(content *unstructured.Unstructured) finding {
	out := finding{state: Running}
	system, native := delivery.NativeSystem(content.GroupVersionKind().GroupKind())
	if !native || content.Object["status"] == nil {
		return out
	}
	decision, placed, err := delivery.DecisionOf(content)
	if !placed || err != nil {
		return out
	}
	if run := system.RunOf(content, decision); run.State == delivery.NotRunning {
		return finding{state: Moving, reason: run.Message}
	}
	return out
}

// denial returns a text that says why a policy denies an object, or would if it were enforced. The verdict must have a denial.
func denial(v *placement.Verdict) string {
	denies := "denies the object"
	if v.Policy.Mode != placementv1.ModeEnforce {
		denies = fmt.Sprintf("would deny the object in mode Enforce (its mode is %s)", v.Policy.Mode)
	}
	return fmt.Sprintf("PlacementPolicy %s %s: %s", v.Policy.Name, denies, strings.Join(v.Decision.Errors, "; "))
}

// difference returns the state of an object that a policy does not deny, by the changes that the policy requires in it: Running if there
// are none, Waiting if Berth makes them all, and Violating otherwise. blocked reports whether policies deny a patch of the object.
func (b *builder) difference(o simulation.Object, v *placement.Verdict, blocked bool) finding {
	out := finding{state: Running}
	for _, c := range v.OnceApproved().Changes {
		switch {
		case c.RecordsOnly():
		case v.Policy.PatchesExisting() && c.Immutable == "" && !blocked:
			out = worse(out, finding{state: Waiting, reason: b.waits(o, v)})
		default:
			out = worse(out, finding{state: Violating, reason: b.whyUnchanged(o, v, c, blocked)})
		}
	}
	return out
}

// whyUnchanged returns the difference that a change would remove, and why Berth does not make the change.
func (b *builder) whyUnchanged(o simulation.Object, v *placement.Verdict, c placement.Change, blocked bool) string {
	text := fmt.Sprintf("%s: %s", v.Policy.Name, c.Violation())
	switch {
	case c.Immutable != "":
		// The text of the change has the reason.
		return text
	case v.Policy.Mode != placementv1.ModeEnforce:
		return fmt.Sprintf("%s; the mode of PlacementPolicy %s is %s, so that the policy changes nothing", text, v.Policy.Name, v.Policy.Mode)
	case blocked && v.Policy.PatchesExisting():
		return text + "; Berth does not patch the object, because another policy denies it or can't decide it: see kubectl berth explain"
	}
	if why := explain.Waits(b.simulation, o, v); why != "" {
		text += "; " + why
	}
	return text
}

// waits returns a text that says what an object waits for before Berth makes the changes that a policy requires in it: what the status of
// the policy says, if all its objects wait for one thing, or else what can be told of this object.
func (b *builder) waits(o simulation.Object, v *placement.Verdict) string {
	if waiting := b.simulation.Policy(v.Policy.Name).Object.Status.Waiting; len(waiting) == 1 && waiting[0].Message != "" {
		// All objects of the policy that wait do so for the same reason.
		return "it waits " + waiting[0].Message
	}
	return cmp.Or(explain.Waits(b.simulation, o, v), fmt.Sprintf("PlacementPolicy %s decides other values, and Berth has not patched the "+
		"object yet", v.Policy.Name))
}

// decidedList returns the text of the list of clusters that policies decide for an object whose list is current: the one that remediation
// writes, otherwise one that an enforced policy decides although remediation does not write it, and otherwise current. Policies with
// remediation.mode NewOnly do not count.
func decidedList(current *string, verdicts []*placement.Verdict) *string {
	var written, other *placement.Change
	blocked := remediation.Blocks(verdicts)
	for _, v := range verdicts {
		if v.Policy.Mode != placementv1.ModeEnforce || v.Policy.Remediation == placementv1.RemediationNewOnly || v.Err != nil ||
			len(v.Decision.Errors) > 0 {
			continue
		}
		for _, c := range v.OnceApproved().Changes {
			switch {
			case c.Immutable != "" || !c.ChangesClusters() && (c.Field != "annotations" || c.Key != placementv1.ClustersAnnotation):
			case v.Policy.PatchesExisting() && !blocked:
				written = cmp.Or(written, &c)
			default:
				other = cmp.Or(other, &c)
			}
		}
	}
	if c := cmp.Or(written, other); c != nil {
		return c.To
	}
	return current
}

// reportsOf returns builder.reports: by the name of a policy and by object, what the policy's status says of the object's last move.
func reportsOf(policies []*simulation.Policy) map[string]map[placementv1.ObjectReference]finding {
	out := map[string]map[placementv1.ObjectReference]finding{}
	for _, p := range policies {
		reports := map[placementv1.ObjectReference]finding{}
		for _, m := range p.Object.Status.Moving {
			since := m.Since.UTC().Format(time.RFC3339)
			found := finding{state: Violating, reason: fmt.Sprintf("Berth moved the object at %s, and it did not run in its clusters in time: see "+
				"there why", since)}
			if m.Deadline != nil {
				found = finding{state: Moving, reason: fmt.Sprintf("Berth moved the object at %s; the move fails at %s if the object does not "+
					"run by then", since,
					m.Deadline.UTC().Format(time.RFC3339))}
			}
			reports[m.Object] = found
		}
		for _, f := range ptr.Deref(p.Object.Status.Failures, placementv1.MoveFailures{}).Sample {
			text := "Berth patched the object as policies decided, and it counts as failed until it runs: " + f.Message
			if f.Reason == placementv1.PatchRefused {
				text = "the API server refused the last patch or eviction of the object, which counts as failed until one succeeds: " + f.Message
			}
			reports[f.Object] = finding{state: Violating, reason: text}
		}
		out[p.Name] = reports
	}
	return out
}
