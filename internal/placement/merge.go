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

// Verdict is the decision of one matching policy on the object, with the changes and conflicts that it leads to.
type Verdict struct {
	Policy *Policy
	// Decision is valid only if Err is nil.
	Decision Decision
	// Err is the reason why the policy could not decide; nil if it decided.
	Err error
	// Changes are the keys that the policy wins and whose value in the object differs from the policy's. For a policy
	// that is not enforced, they are the changes that enforcing it would make.
	Changes []Change
	// Conflicts are the keys that this policy and another enforced policy set to different values.
	Conflicts []Conflict
	// OwnClusters reports whether the object is denied only because of the clusters that its developer chose: without that list,
	// it would have some.
	OwnClusters bool
	// Follows names the controller whose clusters the object copied, such as "Deployment shop": the policy matches both, and gives the
	// object neither clusters nor shares of its own. It is empty for other objects.
	Follows string
	// Leaves reports whether the policy matches the object by its labels before the update alone. It decides whether the object may
	// leave, and gives it nothing: its decision has errors and warnings alone.
	Leaves bool
	// DeniesNew reports whether the policy leaves the object alone because of its remediation mode, and would deny a new one.
	DeniesNew bool
	// Stays are the clusters in which the object is, and in which the policy lets it stay although they are not ready, sorted.
	Stays []string
	// Until is when the policy may give the object other clusters, although nothing changes: a cluster that is not ready then has been
	// so for too long. It is zero if there is no such time.
	Until time.Time
	// paused reports whether remediation of the policy is paused and the request is an update that does not come from
	// remediation.
	paused bool
	// held reports whether the update leaves the policy's keys as they are.
	held bool
	// tolerant reports whether the policy denies the update only if it would not deny the object before it. The policy is held.
	tolerant bool
	// Released is the verdict as it would be if all policies that need an approval had it. It is set only for requests of
	// remediation that ask for it, and only if some policy that matches the object needs an approval.
	Released *Verdict
	// released reports whether the policy's keys are changed although the policy needs an approval.
	released bool
}

// Change is a key whose value is replaced, or would be.
type Change struct {
	// Field is "annotations", "labels", "scheduling", or "clusters" for the list of clusters in a placement object.
	Field string
	// Key is the key within the field. Package podscheduling describes the keys of scheduling. The key of clusters is
	// the path of the list, and its values are texts of package clusterlist.
	Key string
	// From is the current value, or nil if the key is absent.
	From *string
	// To is the new value, or nil if the key is to be removed.
	To *string
	// Immutable says why the change is not made: for example because the API server rejects it, because the object is
	// being deleted, or because no cluster would be left. It is empty if the change can be made.
	Immutable string
	// PodSpec is the path of the object's pod spec, and Affinity is the complete affinity after the change. Both are
	// set only if Field is "scheduling".
	PodSpec  []string
	Affinity *string
}

// ChangesPods reports whether the change is one of the object's pod template.
func (c Change) ChangesPods() bool { return c.Field == fieldScheduling }

// ChangesClusters reports whether the change is one of the list of clusters in a placement object.
func (c Change) ChangesClusters() bool { return c.Field == fieldClusters }

// RecordsOnly reports whether the object has the value already, and only its record changes.
func (c Change) RecordsOnly() bool { return c.From != nil && c.To != nil && *c.From == *c.To }

// Subject returns the kind of field and the key, for example "annotation a/b".
func (c Change) Subject() string {
	switch c.Field {
	case fieldScheduling:
		return podscheduling.Subject(c.Key)
	case fieldClusters:
		return c.Key
	}
	return strings.TrimSuffix(c.Field, "s") + " " + c.Key
}

// Action describes the change as an instruction, for example `set annotation a/b to c (was d)`.
func (c Change) Action() string {
	switch {
	case c.RecordsOnly():
		return c.qualified("record that %s is decided", c.Subject())
	case c.To == nil:
		return c.qualified("remove %s", c.Subject())
	case *c.To == podscheduling.Present && strings.HasPrefix(c.Key, podscheduling.Tolerations+"/") && c.Field == fieldScheduling:
		return c.qualified("add %s", c.Subject())
	case c.From == nil:
		return c.qualified("set %s to %s", c.Subject(), *c.To)
	}
	return c.qualified("set %s to %s (was %s)", c.Subject(), *c.To, *c.From)
}

// Violation describes what the change corrects, for example `annotation a/b is d, should be c`. It shortens long values if the change can't
// be made, so that the reason for that is read.
func (c Change) Violation() string {
	text := func(value string) string {
		if c.Immutable != "" {
			return printable.Truncate(value, maxText)
		}
		return value
	}
	switch {
	case c.RecordsOnly():
		return c.qualified("%s is as decided, which is not recorded yet", c.Subject())
	case c.To == nil:
		return c.qualified("%s is %s, should be absent", c.Subject(), text(*c.From))
	case c.From == nil:
		return c.qualified("%s is absent, should be %s", c.Subject(), text(*c.To))
	}
	return c.qualified("%s is %s, should be %s", c.Subject(), text(*c.From), text(*c.To))
}

// qualified formats a text, and appends why the change is not made, if it is not.
func (c Change) qualified(format string, args ...any) string {
	out := fmt.Sprintf(format, args...)
	if c.Immutable != "" {
		out += " (" + c.Immutable + ")"
	}
	return out
}

// Done reports whether the object already has the new value. It is false for a change that cannot be made.
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

// Current returns the value that another version of the object has; nil for none. Of the part of an affinity, it returns From.
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

// Conflict is a key that two policies set to different values.
type Conflict struct {
	Field string
	Key   string
	// With is the name of the other policy.
	With string
	// Won reports whether this policy's value is used.
	Won bool
}

// ByPrecedence orders policies by descending priority, then by name.
func ByPrecedence(a, b *Policy) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
}

// winner is the policy that determines a key's value.
type winner struct {
	verdict *Verdict
	value   string
}

// merger merges the policies' decisions into the requested state.
type merger struct {
	intent   intent
	verdicts []*Verdict
	request  *Request
	// owned reports whether the object is a ReplicaSet that must keep its template; see Decider.keepOwnedTemplate.
	owned bool
	// excluded are the policies that match the object only without what policies set; see Decider.excluded.
	excluded sets.Set[string]
	// whyNot returns why a policy does not give the object clusters, by their names; nil if denials do not say that.
	whyNot func(*Policy, []string) map[string]string
	// leftBefore returns the keys that a decision on the object before the update leaves as they are; see leftIn. It is not called for an
	// object that is not being updated.
	leftBefore func() (map[string]bool, error)
	// forgets reports whether the next record has no earlier values, because there is no room for them.
	forgets bool
	next    record
}

// merge returns the values that the object should have, by field and without the record, and the new record. The
// verdicts must be in order of precedence. merge fills in their Changes and Conflicts. Verdicts whose affinity cannot
// be merged get an error.
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

// complete completes the record, and returns the scheduling values with the complete affinity.
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

// decideAffinities sets an error in the verdict of each policy whose affinity cannot be combined with the developer's
// and the other policies'. It tries all enforced policies together first, so that the usual case takes one attempt
// only.
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
	for _, v := range slices.SortedFunc(slices.Values(m.verdicts), func(a, b *Verdict) int { return cmp.Compare(a.Policy.Name, b.Policy.Name) }) {
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

// recordAffinity records the developer's own affinity if policies add to it. It also completes the scheduling changes.
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

// nameClusters completes the changes of the list of clusters in a placement object.
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

// resolve determines the winner of every key among the enforced policies, and records conflicts.
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

// overrideShares overrides the developer's shares of clusters if policies give clusters and none gives shares. Otherwise, a developer
// could exceed the bounds of spec.delivery.replicas, or prevent the delivery of a decision.
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

// applyWins sets every key that a policy won, and records the value that the developer requested.
func (m *merger) applyWins(field string, wins map[string]winner, values map[string]string) {
	current := m.intent.current[field]
	for _, key := range slices.Sorted(maps.Keys(wins)) {
		win := wins[key]
		v := win.verdict
		present, there := current[key]
		// If the developer's own affinity already implies the addition, there is nothing to add.
		needless := field == fieldScheduling && podscheduling.IsContribution(key) && podscheduling.Implied(optional(values, podscheduling.Affinity), win.value)
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

// restoreUnclaimed handles the keys that a policy overwrote before and that no policy sets now. If the policy that
// overwrote the key was evaluated and no longer sets it, the requested value returns. If it can't decide, its value stays. If it does
// not match the object any more, for whatever reason, its value stays until another policy gives the object something.
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

// successor returns the verdict of the first policy that gives the object something, by which it loses what policies set that do not
// match it any more; nil if none does. The object keeps its shares while it keeps its clusters, until another policy gives some.
func (m *merger) successor(field, key string) *Verdict {
	return m.first(func(v *Verdict) bool {
		if field == fieldAnnotations && key == placementv1.ClusterSharesAnnotation {
			return v.Decision.Clusters != nil
		}
		return v.Decision.gives()
	})
}

// first returns the first enforced verdict that a condition holds for; nil if there is none. A policy that is held leaves the object as
// it is, so policies that are not held come first.
func (m *merger) first(holds func(*Verdict) bool) *Verdict {
	var out *Verdict
	for _, v := range m.verdicts {
		if v.Err == nil && v.Policy.Mode == placementv1.ModeEnforce && holds(v) && (out == nil || m.request.held(out) && !m.request.held(v)) {
			out = v
		}
	}
	return out
}

// gives reports whether the decision gives the object anything.
func (d *Decision) gives() bool {
	return d.Clusters != nil || len(d.Annotations)+len(d.Labels)+len(d.Scheduling) > 0
}

// change adds a change to a verdict, and reports whether the API server would accept it.
func (m *merger) change(v *Verdict, c Change) bool {
	if c.Field == fieldScheduling {
		c.Immutable = fixed(m.request, m.owned, c.Key, c.From, c.To)
	}
	v.Changes = append(v.Changes, c)
	return c.Immutable == ""
}

// leave keeps a key's current value and its record entry.
func (m *merger) leave(field, key string, values map[string]string) {
	if entry, ok := m.intent.applied.of(field)[key]; ok {
		values[key] = m.intent.current[field][key]
		m.next.put(field, key, entry)
	}
}

// hypothetical adds the changes that policies that are not enforced would make.
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

// wholeAffinity returns the complete affinity that the values compose to; nil if there is none or they cannot be
// composed.
func wholeAffinity(values map[string]string) *string {
	whole, err := podscheduling.Compose(values)
	if err != nil {
		return nil
	}
	return optional(whole, podscheduling.Affinity)
}

// decided returns what the policy decided for a field, by merge key.
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

func optional(values map[string]string, key string) *string {
	if value, ok := values[key]; ok {
		return &value
	}
	return nil
}
