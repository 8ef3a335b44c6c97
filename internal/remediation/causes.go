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
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/printable"
)

// MaxCauses is the maximum number of texts that describe a cause. maxFacts is that of the facts of causes that are joined, and
// of the causes of one object.
const (
	MaxCauses = 5
	maxFacts  = 2 * MaxCauses
)

// Cause is why objects have to be decided again. The zero value stands for changes of objects or of namespaces.
type Cause struct {
	// Policy is set if another generation came into force. Data are the names of the changed data that the policy reads.
	Policy bool
	Data   sets.Set[string]
	// Facts describe some of the changes.
	Facts []Fact
}

// Fact is the change of one object that a policy reads.
type Fact struct {
	// Resource is the type of the object as in Cause.Data, and Namespace its namespace. Text describes the change on one line.
	Resource, Namespace, Text string
	// Cluster reports whether the object represents a cluster. All users who see what is placed may read the names and values of clusters.
	Cluster bool
}

// Unknown reports whether nothing is known of the cause.
func (c Cause) Unknown() bool { return !c.Policy && len(c.Data) == 0 && len(c.Facts) == 0 }

// and returns both causes.
func (c Cause) and(other Cause) Cause {
	out := Cause{Policy: c.Policy || other.Policy, Data: c.Data.Union(other.Data), Facts: slices.Clone(c.Facts)}
	for _, fact := range other.Facts {
		if len(out.Facts) < maxFacts && !slices.Contains(out.Facts, fact) {
			out.Facts = append(out.Facts, fact)
		}
	}
	return out
}

// Explain describes the cause for a policy of which a generation decides, without names of objects.
func (c Cause) Explain(generation int64) string {
	switch {
	case c.Policy:
		return fmt.Sprintf("generation %d of the policy came into force", generation)
	case len(c.Data) > 0:
		return strings.Join(sets.List(c.Data), ", ") + " changed"
	default:
		return "objects or namespaces changed"
	}
}

// texts describes the cause with those facts that readers may see. Of the others, it has only the types of the objects. generation says
// which generation of the policy came into force, and otherwise is the text of the zero cause.
func (c Cause) texts(generation, otherwise string, seen func(Fact) bool) (out []string) {
	if c.Policy {
		out = append(out, generation)
	}
	described := sets.New[string]()
	for _, fact := range c.Facts {
		if seen(fact) {
			out = append(out, printable.Truncate(fact.Text, maxMessage))
			described.Insert(fact.Resource)
		}
	}
	for _, data := range sets.List(c.Data.Difference(described)) {
		out = append(out, printable.Truncate(data+" changed", maxMessage))
	}
	if len(out) == 0 {
		out = append(out, otherwise)
	}
	return out
}

// bounded returns the first texts, without repetitions, and says if there are others.
func bounded(texts []string) []string {
	var out []string
	for _, text := range texts {
		switch {
		case slices.Contains(out, text):
		case len(out) == MaxCauses:
			out[MaxCauses-1] = "and other changes"
			return out
		default:
			out = append(out, text)
		}
	}
	return out
}

// occasion is an occurrence of a cause. The moves that it makes necessary share it.
type occasion struct {
	cause Cause
	// since is when the leader noticed it; zero if that is not known. generation is that of the policy that decided then.
	since      time.Time
	generation int64
	// of are the occasions that it was made of; nil for those of an assessment.
	of [2]*occasion
}

// join returns an occasion with the causes of both. Either may be nil.
func (l *Ledger) join(a, b *occasion) *occasion {
	if a == nil || b == nil || a == b {
		return cmp.Or(a, b)
	}
	// The objects that wait for the same assessments share one.
	if of := [2]*occasion{a, b}; l.joined == nil || l.joined.of != of {
		l.joined = &occasion{cause: a.cause.and(b.cause), since: a.since, of: of}
		if b.since.Before(a.since) {
			l.joined.since = b.since
		}
	}
	return l.joined
}

// blame is why an object is decided again for policies outside of an assessment, or after its end.
type blame struct {
	policies []string
	occasion *occasion
}

// Blame declares why objects are decided again for policies if no assessment has them. It holds until they are decided.
func (l *Ledger) Blame(now time.Time, cause Cause, policies []string, keys ...Key) {
	defer l.lock()()
	b := blame{policies, &occasion{cause: cause, since: now}}
	for _, key := range keys {
		l.blame(key, b)
	}
}

func (l *Ledger) blame(key Key, b blame) {
	if len(l.blamed[key]) < maxFacts {
		l.blamed[key] = append(l.blamed[key], b)
	}
}

// Explain sets the cause of an assessment to which no object has been added yet.
func (a *Assessment) Explain(cause Cause) {
	defer a.ledger.lock()()
	a.occasion.cause = cause
}

// occasionOf returns why an object is decided again for a policy of which a generation decides; nil if nothing is known but that the object
// or its namespace changed. known is false if the policy has not decided the object before.
func (l *Ledger) occasionOf(key Key, policy string, generation int64, a *account, known bool) (out *occasion) {
	for _, of := range l.assessments {
		if _, waits := of.pending[key]; waits && of.accounts[policy] == a {
			out = l.join(out, of.occasion)
		}
	}
	for _, b := range l.blamed[key] {
		if slices.Contains(b.policies, policy) {
			out = l.join(out, b.occasion)
		}
	}
	if !known && a.inForce != nil {
		// The types that a new policy matches may be listed only after it has come into force.
		out = a.inForce
	}
	if out == nil {
		return nil
	}
	if a.shared == nil || a.shared.of[0] != out || a.shared.generation != generation {
		a.shared = &occasion{cause: out.cause, since: out.since, generation: generation, of: [2]*occasion{out}}
	}
	return a.shared
}

// causeOfStrays returns why a new plan is necessary, and texts that describe it: the causes of the most moves that no plan has come first.
func (a *account) causeOfStrays() (cause Cause, texts []string) {
	moves := map[*occasion]int{}
	for _, f := range a.objects {
		if f.move != (moveID{}) && f.planned != asPlanned {
			moves[f.why]++
		}
	}
	type part struct {
		texts []string
		moves int
	}
	var parts []part
	for why, n := range moves {
		var c Cause
		generation := ""
		if why != nil {
			c, generation = why.cause, Cause{Policy: true}.Explain(why.generation)
			cause = cause.and(c)
		}
		parts = append(parts, part{c.texts(generation, Cause{}.Explain(0), allFacts), n})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.moves, a.moves), slices.Compare(a.texts, b.texts)) })
	for _, p := range parts {
		texts = append(texts, p.texts...)
	}
	return cause, bounded(texts)
}

func allFacts(Fact) bool { return true }

// Reasons say why policies move an object.
type Reasons struct {
	// Causes describe the causes, and Shown are those that all readers of the object may see. Each has at most MaxCauses texts.
	Causes, Shown []string
	// Since is when the leader noticed the first of the causes; zero if that is not known.
	Since time.Time
	// Plans are the digests of the plans that the moves are part of, and ApprovedBy the users who approved them.
	Plans, ApprovedBy []string
}

// Reasons returns why policies move an object, before the moved object is recorded.
func (l *Ledger) Reasons(key Key, due Due) (out Reasons) {
	defer l.lock()()
	seen := func(f Fact) bool { return f.Cluster || f.Namespace != "" && f.Namespace == key.Namespace }
	for _, v := range due {
		a := l.find(v.Policy.Name)
		f, why := a.objects[key], &occasion{}
		if f.why != nil {
			why = f.why
		}
		generation, otherwise := fmt.Sprintf("generation %d of PlacementPolicy %q came into force", why.generation, v.Policy.Name),
			"the object or its namespace changed"
		out.Causes = append(out.Causes, why.cause.texts(generation, otherwise, allFacts)...)
		out.Shown = append(out.Shown, why.cause.texts(generation, otherwise, seen)...)
		if !why.since.IsZero() && (out.Since.IsZero() || why.since.Before(out.Since)) {
			out.Since = why.since
		}
		if f.planned == asPlanned && a.current != nil {
			out.Plans = append(out.Plans, a.current.Digest)
		}
		if v.Policy.NeedsApproval() && a.approval != nil {
			out.ApprovedBy = append(out.ApprovedBy, cmp.Or(a.approval.By, "unknown"))
		}
	}
	out.Causes, out.Shown, out.Plans, out.ApprovedBy = bounded(out.Causes), bounded(out.Shown), bounded(out.Plans), bounded(out.ApprovedBy)
	return out
}
