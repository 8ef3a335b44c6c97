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
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/printable"
)

// Verdict is the decision of one policy on one object that it matches, with the changes and conflicts that it leads to.
type Verdict struct {
	Policy *Policy
	// Decision is valid only if Err is nil.
	Decision Decision
	// Err is why the policy could not decide; nil if it decided.
	Err error
	// Changes are the changes that the decision makes to the object, and those that it would make but that can't be made or that the policy
	// may not make, because it is held. An enforced policy has none of a key that another policy wins. For a policy that is not enforced, they
	// are the changes that its decision would make to the object as the enforced policies leave it.
	Changes []Change
	// Conflicts are the keys to which this policy and another one give different values, if both are enforced. The policy that wins a key has
	// an entry for each other one, and each other one has an entry with the winner.
	Conflicts []Conflict
	// OwnClusters reports whether the object is denied only because of the clusters that its developer requested: without that list, it
	// would get some.
	OwnClusters bool
	// Follows names the controller from which the object copied its clusters, such as "Deployment shop", if the policy gives the object
	// neither clusters nor shares of its own for that reason; "" otherwise.
	Follows string
	// Leaves reports whether the policy matches the object only by its labels before the update. The policy then decides whether the object
	// may leave, and gives it nothing: its decision has errors and warnings alone.
	Leaves bool
	// DeniesNew reports whether the policy would deny a new object like this one, and leaves the existing one alone because of remediation
	// mode NewOnly. It is only set when remediation decides.
	DeniesNew bool
	// Stays are the clusters that the object is in and in which the policy lets it stay although they are not ready, sorted.
	Stays []string
	// Until is when the object must leave one of the clusters in Stays, because that cluster has not been ready for too long; zero if there
	// is no such time.
	Until time.Time
	// paused reports whether a client updates the object while remediation of the policy is paused in the object's namespace. It is false for
	// a policy that does not patch existing objects, or only with an approval.
	paused bool
	// held reports whether the keys that the policy writes keep the values that they had before an update by a client, which requests no other
	// values for them. That is so because of the mode, the windows, the budget, or a pause of remediation; for all but the mode NewOnly and a
	// pause, only if the update changes nothing that the policy reads, either. It is false when remediation decides.
	held bool
	// tolerant reports whether the policy denies the update only if it would not deny the object before the update.
	tolerant bool
	// Released is the verdict as it would be if all policies had the approvals that they need. If some policy that matches the object needs an
	// approval, Decider.Assess sets it in all verdicts, and Decider.Remediate does so if permits returned false. Otherwise it is nil.
	Released *Verdict
	// released is set in a verdict that is to be followed although the policy needs an approval.
	released bool
}

// Change is the change of one value of an object, made or proposed.
type Change struct {
	// Field is the part of the object: "annotations", "labels", "scheduling", or "clusters" for the list of clusters in a placement object.
	Field string
	// Key is the key within the field. Package podscheduling describes the keys of scheduling. For "clusters", it is the path of the list,
	// and From and To are texts of package clusterlist.
	Key string
	// From is the current value; nil if there is none.
	From *string
	// To is the new value; nil if the key is to be removed.
	To *string
	// Immutable says why the change can't be made, for example because the API server would reject it, or because the object is being
	// deleted; "" if it can be made.
	Immutable string
	// PodSpec is the path of the object's pod spec. It is set only if Field is "scheduling".
	PodSpec []string
	// Affinity is the complete affinity after the change; nil for none. It is set only if Field is "scheduling".
	Affinity *string
}

// ChangesPods reports whether the change is in the object's pod spec or pod template.
func (c Change) ChangesPods() bool { return c.Field == fieldScheduling }

// ChangesClusters reports whether the change is in the list of clusters of a placement object.
func (c Change) ChangesClusters() bool { return c.Field == fieldClusters }

// RecordsOnly reports whether the object already has the value, so that only its record changes.
func (c Change) RecordsOnly() bool { return c.From != nil && c.To != nil && *c.From == *c.To }

// Subject returns what is changed, for example "annotation a/b".
func (c Change) Subject() string {
	switch c.Field {
	case fieldScheduling:
		return podscheduling.Subject(c.Key)
	case fieldClusters:
		return c.Key
	}
	return strings.TrimSuffix(c.Field, "s") + " " + c.Key
}

// Action returns the change as an instruction, for example `set annotation a/b to c (was d)`, `set label e to f` if there was no value, or
// `remove label g`, without its value. If only the record changes, it is to note that in the record. If the change can't be made, the
// reason follows in parentheses.
func (c Change) Action() string {
	switch {
	case c.RecordsOnly():
		return c.qualified("note in the record that a policy decided %s", c.Subject())
	case c.To == nil:
		return c.qualified("remove %s", c.Subject())
	case *c.To == podscheduling.Present && strings.HasPrefix(c.Key, podscheduling.Tolerations+"/") && c.Field == fieldScheduling:
		return c.qualified("add %s", c.Subject())
	case c.From == nil:
		return c.qualified("set %s to %s", c.Subject(), *c.To)
	}
	return c.qualified("set %s to %s (was %s)", c.Subject(), *c.To, *c.From)
}

// Violation returns the violation that the change corrects, for example `annotation a/b is d, should be c`. It shortens long values if the
// change can't be made, so that the reason for that is not cut off.
func (c Change) Violation() string {
	text := func(value string) string {
		if c.Immutable != "" {
			return printable.Truncate(value, maxText)
		}
		return value
	}
	switch {
	case c.RecordsOnly():
		return c.qualified("%s is as a policy decided, but the record does not say that yet", c.Subject())
	case c.To == nil:
		return c.qualified("%s is %s, should be absent", c.Subject(), text(*c.From))
	case c.From == nil:
		return c.qualified("%s is absent, should be %s", c.Subject(), text(*c.To))
	}
	return c.qualified("%s is %s, should be %s", c.Subject(), text(*c.From), text(*c.To))
}

// qualified returns a formatted text, followed by why the change can't be made, in parentheses, if it can't.
func (c Change) qualified(format string, args ...any) string {
	out := fmt.Sprintf(format, args...)
	if c.Immutable != "" {
		out += " (" + c.Immutable + ")"
	}
	return out
}

// Done reports whether an object already has the new value. It is false for a change that can't be made.
func (c Change) Done(obj *unstructured.Unstructured) bool {
	if c.Immutable != "" {
		return false
	}
	key, want, values := c.Key, c.To, map[string]string(nil)
	if c.Field == fieldClusters {
		list, err := clusterlist.At(obj.Object, key)
		return err == nil && list.Path == key && ptr.Equal(list.Text, want)
	}
	if c.Field == fieldScheduling {
		values = readPodSpec(obj, c.PodSpec).flat
		if podscheduling.IsContribution(key) {
			key, want = podscheduling.Affinity, c.Affinity
		}
	} else {
		values = metadataOf(obj, c.Field)
	}
	return ptr.Equal(optional(values, key), want)
}

// Current returns the present value of the key in another version of the object; nil for none. For a policy's addition to the affinity, it
// returns From.
func (c Change) Current(obj *unstructured.Unstructured) *string {
	switch c.Field {
	case fieldClusters:
		if list, err := clusterlist.At(obj.Object, c.Key); err == nil && list.Path == c.Key {
			return list.Text
		}
		return nil
	case fieldScheduling:
		if podscheduling.IsContribution(c.Key) {
			return c.From
		}
		return optional(readPodSpec(obj, c.PodSpec).flat, c.Key)
	}
	return optional(metadataOf(obj, c.Field), c.Key)
}

// Conflict is a key to which this policy and another one give different values, and the name of the other one. It does not have the values.
type Conflict struct {
	// Field is the part of the object: "annotations", "labels", or "scheduling". Policies that allow different clusters do not conflict.
	Field string
	// Key is the key of the annotation or the label, or the merge key of the scheduling value (package podscheduling).
	Key string
	// With is the name of the other policy.
	With string
	// Won reports whether this policy's value is used.
	Won bool
}

// ByPrecedence compares policies by descending priority, then by name.
func ByPrecedence(a, b *Policy) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
}

// winner is the policy whose value a key gets, and that value.
type winner struct {
	verdict *Verdict // The verdict of the policy that wins.
	value   string   // The value that this policy gives the key.
}

// merger merges the decisions of all policies on one object into the state that its developer requested.
type merger struct {
	intent   intent     // The requested state.
	verdicts []*Verdict // In order of precedence.
	request  *Request   // The request that is decided.
	// owned reports whether the object is a ReplicaSet that must keep the pod template that its controller gave it, so that no change of
	// scheduling can be made.
	owned bool
	// excluded are the names of policies that match the object as its developer requested it, but not as it is, for example because of a label
	// that a policy set. The values that they set in the object stay.
	excluded sets.Set[string]
	// whyNot returns why a policy does not give the object some clusters, by their names; nil if denials need not say that.
	whyNot func(*Policy, []string) map[string]string
	// leftBefore returns the keys that a decision on the object before the update leaves as they are; see leftIn. It is only called for an
	// object that is being updated.
	leftBefore func() (map[string]bool, error)
	// forgets is set if the next record must have no earlier values, because there is no room for them.
	forgets bool
	next    record // The new record of the object.
}

// merge returns the values that the object should have, by field and key and without the record, and the new record. It sets Changes and
// Conflicts of the verdicts, which must be in order of precedence, and an error in verdicts whose affinity cannot be merged.
func (m *merger) merge() (map[string]map[string]string, record, error) {
	out := map[string]map[string]string{}
	m.decideAffinities()
	for _, field := range fields {
		wins := m.resolve(field)
		values := maps.Clone(m.intent.wanted[field])
		m.applyWins(field, wins, values)
		m.restoreUnclaimed(field, wins, values)
		m.hypothetical(field, values)
		if field == fieldAnnotations {
			m.mergeClusters(values)
		}
		out[field] = values
	}
	whole, err := m.complete(out)
	if err == nil {
		whole, err = m.fit(out, whole)
	}
	if err != nil {
		return nil, record{}, err
	}
	m.nameClusters()
	out[fieldScheduling] = whole
	return out, m.next, nil
}

// complete sets the affinity, the form of the list of clusters, and the earlier values of the next record, which depend on all keys. It
// returns the scheduling values with the complete affinity instead of the developer's and what each policy adds to it.
func (m *merger) complete(values map[string]map[string]string) (whole map[string]string, err error) {
	if whole, err = podscheduling.Compose(values[fieldScheduling]); err != nil {
		return nil, err
	}
	m.recordAffinity(values[fieldScheduling], whole)
	m.next.Form = ""
	if _, recorded := m.next.Annotations[placementv1.ClustersAnnotation]; recorded && m.intent.clusters != nil {
		m.next.Form = m.intent.clusters.form
	}
	m.recordEarlier()
	return whole, nil
}

// decideAffinities sets an error in the verdict of each policy whose affinity cannot be combined with the developer's and the other
// policies'. It first tries all enforced policies together, so that the usual case takes only one attempt. If that fails, it adds one after
// the other, by name, and the one that can't be added gets the error. It tries each policy that is not enforced on top of the enforced ones
// that are added, and leaves it out again.
func (m *merger) decideAffinities() {
	adding := func(v *Verdict) bool { return v.Err == nil && v.Decision.Scheduling[podscheduling.Affinity] != "" }
	enforced := func(v *Verdict) bool { return adding(v) && v.Policy.Mode == placementv1.ModeEnforce }
	if !slices.ContainsFunc(m.verdicts, adding) {
		return
	}
	values := maps.Clone(m.intent.current[fieldScheduling])
	together := maps.Clone(values)
	for _, v := range m.verdicts {
		if enforced(v) {
			together[podscheduling.AffinityKey(v.Policy.Name)] = v.Decision.Scheduling[podscheduling.Affinity]
		}
	}
	_, err := podscheduling.Compose(together)
	agree := err == nil
	if agree {
		values = together
	}
	for _, v := range slices.SortedFunc(slices.Values(m.verdicts), func(a, b *Verdict) int {
		return cmp.Compare(a.Policy.Name, b.Policy.Name)
	}) {
		if !adding(v) || agree && enforced(v) {
			continue
		}
		key := podscheduling.AffinityKey(v.Policy.Name)
		before, stood := values[key]
		values[key] = v.Decision.Scheduling[podscheduling.Affinity]
		if _, err := podscheduling.Compose(values); err != nil {
			v.Err = &ContractError{Rule: fieldScheduling, Message: err.Error()}
		} else if v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		delete(values, key)
		if stood {
			values[key] = before
		}
	}
}

// recordAffinity records the developer's own affinity if policies add to it. It also sets PodSpec and Affinity of the scheduling changes.
func (m *merger) recordAffinity(values, whole map[string]string) {
	m.next.Affinity = nil
	if slices.ContainsFunc(slices.Collect(maps.Keys(values)), podscheduling.IsContribution) {
		m.next.Affinity = &overwritten{Requested: optional(values, podscheduling.Affinity), Set: digest(whole[podscheduling.Affinity])}
	}
	for _, v := range m.verdicts {
		for i := range v.Changes {
			if c := &v.Changes[i]; c.Field == fieldScheduling {
				c.PodSpec, c.Affinity = m.intent.pods.path, optional(whole, podscheduling.Affinity)
			}
		}
	}
}

// nameClusters sets Field and Key of the changes of the list of clusters in a placement object, which were merged as if they were of the
// annotation.
func (m *merger) nameClusters() {
	if m.intent.clusters == nil {
		return
	}
	for _, v := range m.verdicts {
		for i := range v.Changes {
			if c := &v.Changes[i]; c.Field == fieldAnnotations && c.Key == placementv1.ClustersAnnotation {
				c.Field, c.Key = fieldClusters, m.intent.clusters.list.Path
			}
		}
	}
}

// resolve returns the winner of each key of a field among the enforced policies that could decide, and sets their conflicts. A policy that
// is held, so that its keys stay as they are in the object, takes part with what it decides now.
func (m *merger) resolve(field string) map[string]winner {
	wins := map[string]winner{}
	for _, v := range m.verdicts {
		if v.Err != nil || v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		decided := v.decided(field)
		for _, key := range slices.Sorted(maps.Keys(decided)) {
			first, taken := wins[key]
			if !taken {
				wins[key] = winner{v, decided[key]}
				continue
			}
			if first.value != decided[key] {
				v.Conflicts = append(v.Conflicts, Conflict{Field: field, Key: key, With: first.verdict.Policy.Name})
				first.verdict.Conflicts = append(first.verdict.Conflicts, Conflict{Field: field, Key: key, With: v.Policy.Name, Won: true})
			}
		}
	}
	if field == fieldAnnotations {
		m.overrideShares(wins)
	}
	return wins
}

// noShares is the value of the annotation ClusterSharesAnnotation that gives no cluster a share.
const noShares = "{}"

// overrideShares has the first enforced policy that gives clusters set the shares of clusters to {}, in place of the developer's, if no
// policy gives shares. It does nothing if no policy gives clusters, or if the developer requests no shares. Otherwise, a developer could
// exceed the bounds of spec.delivery.replicas, or prevent the delivery of a decision.
func (m *merger) overrideShares(wins map[string]winner) {
	const key = placementv1.ClusterSharesAnnotation
	requested, set := m.intent.wanted[fieldAnnotations][key]
	if _, given := wins[key]; given || !set || requested == noShares {
		return
	}
	if by := m.first(func(v *Verdict) bool { return v.Decision.Clusters != nil }); by != nil {
		wins[key] = winner{by, noShares}
	}
}

// applyWins sets each key of a field to the value of its winner, and records the value that the developer requested. A key stays as it is
// if the change can't be made, or if its winner is held. values has the requested values by key, and gets those of the winners.
func (m *merger) applyWins(field string, wins map[string]winner, values map[string]string) {
	current := m.intent.current[field]
	for _, key := range slices.Sorted(maps.Keys(wins)) {
		win := wins[key]
		v := win.verdict
		present, there := current[key]
		// If the developer's own affinity already implies the addition, there is nothing to add.
		needless := field == fieldScheduling && podscheduling.IsContribution(key) &&
			podscheduling.Implied(optional(values, podscheduling.Affinity), win.value)
		changed := !there && !needless || there && present != win.value
		if changed && !m.change(v, Change{Field: field, Key: key, From: optional(current, key), To: &win.value}) || m.request.held(v) {
			m.leave(field, key, values)
			continue
		}
		if needless {
			continue
		}
		requested := optional(values, key)
		if !ptr.Equal(requested, &win.value) {
			entry := overwritten{Requested: requested, By: v.Policy.Name, Set: digest(win.value)}
			if field == fieldScheduling && podscheduling.IsContribution(key) {
				entry.Value = &win.value
			}
			m.next.put(field, key, entry)
		}
		values[key] = win.value
	}
}

// restoreUnclaimed handles the keys that a policy overwrote before and that no policy sets now. If that policy decided, the requested value
// returns. If it can't decide, is held, or is not enforced any more, its value stays. If it does not match the object any more, its value
// stays until another policy gives the object something.
func (m *merger) restoreUnclaimed(field string, wins map[string]winner, values map[string]string) {
	current := m.intent.current[field]
	for _, key := range slices.Sorted(maps.Keys(m.intent.applied.of(field))) {
		if _, won := wins[key]; won || key == placementv1.ClustersAnnotation {
			continue
		}
		entry := m.intent.applied.of(field)[key]
		v := m.successor(field, key)
		// An entry without a policy is that of an earlier value: the first policy restores the requested one.
		if i := slices.IndexFunc(m.verdicts, func(v *Verdict) bool { return v.Policy.Name == entry.By || entry.By == "" }); i >= 0 {
			v = m.verdicts[i]
		}
		if v == nil || m.excluded.Has(entry.By) || v.Err != nil || v.Policy.Mode != placementv1.ModeEnforce {
			m.leave(field, key, values)
			continue
		}
		if !m.change(v, Change{Field: field, Key: key, From: optional(current, key), To: entry.Requested}) || m.request.held(v) {
			m.leave(field, key, values)
		}
	}
}

// successor returns the verdict of the first enforced policy that gives the object something, preferably one that is not held, so that the
// object loses a value of a policy that does not match it any more; nil if there is none. For the shares of clusters, it is the first
// policy that gives clusters.
func (m *merger) successor(field, key string) *Verdict {
	return m.first(func(v *Verdict) bool {
		if field == fieldAnnotations && key == placementv1.ClusterSharesAnnotation {
			return v.Decision.Clusters != nil
		}
		return v.Decision.gives()
	})
}

// first returns the verdict of the first enforced policy that could decide and for which holds returns true, preferably one that is not
// held; nil if there is none.
func (m *merger) first(holds func(*Verdict) bool) *Verdict {
	var out *Verdict
	for _, v := range m.verdicts {
		if v.Err == nil && v.Policy.Mode == placementv1.ModeEnforce && holds(v) && (out == nil || m.request.held(out) && !m.request.held(v)) {
			out = v
		}
	}
	return out
}

// gives reports whether the decision sets a value or restricts the clusters.
func (d *Decision) gives() bool {
	return d.Clusters != nil || len(d.Annotations)+len(d.Labels)+len(d.Scheduling) > 0
}

// change adds a change to a verdict. It sets Immutable of a scheduling change, and returns false if the API server would reject that
// change, or if the object is a ReplicaSet that must keep its pod template.
func (m *merger) change(v *Verdict, c Change) bool {
	if c.Field == fieldScheduling {
		c.Immutable = fixed(m.request, m.owned, c.Key, c.From, c.To)
	}
	v.Changes = append(v.Changes, c)
	return c.Immutable == ""
}

// leave lets a key that has a policy's value keep that value and its entry in the record. It does nothing for other keys.
func (m *merger) leave(field, key string, values map[string]string) {
	if entry, ok := m.intent.applied.of(field)[key]; ok {
		values[key] = m.intent.current[field][key]
		m.next.put(field, key, entry)
	}
}

// hypothetical adds to the verdicts of policies that are not enforced the changes that enforcing them would make.
func (m *merger) hypothetical(field string, values map[string]string) {
	for _, v := range m.verdicts {
		if v.Err != nil || v.held || v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		decided := v.decided(field)
		for _, key := range slices.Sorted(maps.Keys(decided)) {
			if field == fieldScheduling && podscheduling.IsContribution(key) && podscheduling.Implied(wholeAffinity(values), decided[key]) {
				continue
			}
			if value, there := values[key]; !there || value != decided[key] {
				m.change(v, Change{Field: field, Key: key, From: optional(values, key), To: new(decided[key])})
			}
		}
	}
}

// wholeAffinity returns the complete affinity to which scheduling values combine; nil if there is none or they cannot be combined.
func wholeAffinity(values map[string]string) *string {
	whole, err := podscheduling.Compose(values)
	if err != nil {
		return nil
	}
	return optional(whole, podscheduling.Affinity)
}

// decided returns the values that the policy decided for a field, by merge key. Its affinity has a key of its own for each policy, since
// the additions of several policies are combined.
func (v *Verdict) decided(field string) map[string]string {
	switch field {
	case fieldLabels:
		return v.Decision.Labels
	case fieldAnnotations:
		return v.Decision.Annotations
	}
	text, adds := v.Decision.Scheduling[podscheduling.Affinity]
	if !adds {
		return v.Decision.Scheduling
	}
	out := maps.Clone(v.Decision.Scheduling)
	delete(out, podscheduling.Affinity)
	out[podscheduling.AffinityKey(v.Policy.Name)] = text
	return out
}

// optional returns a pointer to the value of a key; nil if there is none.
func optional(values map[string]string, key string) *string {
	if value, ok := values[key]; ok {
		return &value
	}
	return nil
}
