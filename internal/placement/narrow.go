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
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/printable"
)

// An object may run on the clusters that the developer requests and that every policy allows that restricts clusters.
// The result does not depend on the order of the policies. In the record, the annotation's value has one entry, with
// the developer's own list. The record also keeps what each policy allows. So if a policy cannot decide, or is held,
// its last list still counts when another policy's list changes.

// policyAllowance is the list of the clusters that one policy allows for the object, now or, if kept is set, according to the record. For a
// policy that is held without a list in the record, it also has the object's present clusters.
type policyAllowance struct {
	verdict *Verdict // The verdict of the policy.
	names   []string // The names of the clusters.
	// kept reports whether names comes from the record, as what the policy allowed when it last changed the object.
	kept bool
}

// mustRecord reports whether the record must keep the policy's list even if it equals the developer's: the list itself comes from the
// record, spec.remediation.mode is not Automatic, or spec.clusters.developerChoice is Override or Ignore. Pauses and windows do not matter.
func (s policyAllowance) mustRecord() bool {
	p := s.verdict.Policy
	return s.kept || p.Remediation != placementv1.RemediationAutomatic || !s.narrows()
}

// isDecided reports whether names come from a present decision of the policy, not from the record, and are not empty. They are then sorted.
func (s policyAllowance) isDecided() bool { return !s.kept && len(s.names) > 0 }

// narrows reports whether the policy lets the developer's list narrow its own: spec.clusters.developerChoice is neither Override nor
// Ignore.
func (s policyAllowance) narrows() bool {
	choice := s.verdict.Policy.Clusters.DeveloperChoice
	return choice != placementv1.DeveloperChoiceOverride && choice != placementv1.DeveloperChoiceIgnore
}

// ignores reports whether the policy ignores the developer's list (spec.clusters.developerChoice: Ignore), so that it does not count
// whatever the other policies say.
func (s policyAllowance) ignores() bool {
	return s.verdict.Policy.Clusters.DeveloperChoice == placementv1.DeveloperChoiceIgnore
}

// developerNarrows reports whether the developer's list counts: a policy lets it narrow, and none ignores it.
func developerNarrows(lists []policyAllowance) bool {
	return slices.ContainsFunc(lists, policyAllowance.narrows) && !slices.ContainsFunc(lists, policyAllowance.ignores)
}

// onEmpty returns what to do with an object for which no cluster is left, by the strictest spec.clusters.onEmpty of the policies: Deny if
// one of them has it or has none set, then Clear, then PolicyClusters.
func onEmpty(lists []policyAllowance) placementv1.OnEmpty {
	out := placementv1.OnEmptyPolicyClusters
	for _, s := range lists {
		switch s.verdict.Policy.Clusters.OnEmpty {
		case placementv1.OnEmptyPolicyClusters:
		case placementv1.OnEmptyClear:
			out = placementv1.OnEmptyClear
		default:
			return placementv1.OnEmptyDeny
		}
	}
	return out
}

// policyAllowances are the lists of clusters of all enforced policies that match an object, and which of them differ from the record.
type policyAllowances struct {
	// counted are the lists that count now, in order of precedence. For a policy that is held or cannot decide, it is the list from the
	// record. If the record has none, a policy that cannot decide has none, and one that is held counts with the object's present clusters
	// and those that it allows now.
	counted []policyAllowance
	// wanted are the lists of the policies that decided, as they would count if no policy were held.
	wanted []policyAllowance
	// moved are the verdicts of policies whose list has changed since the record, and that are not held. If there are none, it is the first
	// one with a list that is not held, for changes by the developer. differing are those of held policies whose list has changed.
	moved, differing []*Verdict
	// decided reports whether at least one policy decided that is not held, and that gives a list now or gave one before. Otherwise the object
	// keeps its clusters.
	decided bool
}

// mergeClusters sets the clusters in the annotation, or in the list of a placement object. If no cluster is left and a policy denies that,
// or the developer's list is not valid, the clusters stay as they are, and the enforced policies that have a list and are not held get that
// as a reason to deny the object (Decision.Errors).
func (m *merger) mergeClusters(values map[string]string) {
	const key = placementv1.ClustersAnnotation
	asks := func(v *Verdict) bool { return v.Err == nil && v.Decision.Clusters != nil }
	entry, hasEntry := m.intent.applied.Annotations[key]
	if !hasEntry && !slices.ContainsFunc(m.verdicts, asks) {
		return
	}
	requested, current := optional(values, key), optional(m.intent.current[fieldAnnotations], key)
	lists := m.policyAllowances(entry, hasEntry)
	asked := m.askedFor(requested)
	next, err := asked.join(lists.counted)
	if err != nil && lists.decided {
		asked.deny(lists.counted, err, m.request.held)
	}
	if err != nil || !lists.decided {
		m.leaveClusters(values)
	} else {
		m.setClusters(lists, requested, next, values)
		for _, v := range lists.moved {
			m.changeClusters(v, current, next)
		}
		if _, recorded := m.next.Annotations[key]; recorded && (!hasEntry || entry.By == "") && m.request.Old == m.request.Object &&
			ptr.Equal(current, next) {
			// Only the record is missing in an existing object, or that a policy decided.
			m.change(lists.moved[0], Change{Field: fieldAnnotations, Key: key, From: current, To: next})
		}
	}
	m.hypotheticalClusters(lists, asked, current, values)
}

// changeClusters adds the change of the list of clusters to a verdict, if the texts differ.
func (m *merger) changeClusters(v *Verdict, from, to *string) {
	if !ptr.Equal(from, to) {
		m.change(v, Change{Field: fieldAnnotations, Key: placementv1.ClustersAnnotation, From: from, To: to})
	}
}

// Decided reports whether a policy decided the clusters in the annotation of an object that the API server has stored, and not its
// developer: the object's record names a policy, and the annotation still has the value that was recorded. namespace is the object's
// namespace.
func (d *Decider) Decided(obj *unstructured.Unstructured, namespace string) bool {
	const key = placementv1.ClustersAnnotation
	entry, recorded := d.Keyring.readStored(obj, identityOf(obj, namespace)).of(fieldAnnotations)[key]
	return recorded && entry.By != "" && digest(obj.GetAnnotations()[key]) == entry.Set
}

// policyAllowances returns which clusters each enforced policy allows. entry is the record's entry of the clusters annotation, if hasEntry
// is true.
func (m *merger) policyAllowances(entry overwritten, hasEntry bool) policyAllowances {
	before, unowned := m.allowedBefore(entry, hasEntry)
	var out policyAllowances
	var fresh []*Verdict
	for _, v := range m.verdicts {
		if v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		names := v.Decision.Clusters
		stood, had := before[v.Policy.Name]
		says := v.Err == nil && names != nil
		if s, counts := m.heldAllowance(v, stood, had); counts {
			out.counted = append(out.counted, s)
		}
		if says {
			out.wanted = append(out.wanted, policyAllowance{verdict: v, names: names})
		}
		same := had == says && slices.Equal(stood, names) && !unowned
		switch {
		case v.Err != nil || !had && !says && !unowned:
		case m.request.held(v) && !same:
			out.differing = append(out.differing, v)
		case m.request.held(v):
		default:
			out.decided = true
			if says {
				out.counted = append(out.counted, policyAllowance{verdict: v, names: names})
				fresh = append(fresh, v)
			}
			if !same {
				out.moved = append(out.moved, v)
			}
		}
	}
	if len(out.moved) == 0 && len(fresh) > 0 {
		// The result changed because of the developer, or because a policy was deleted. The first policy reports it.
		out.moved = fresh[:1]
	}
	return out
}

// allowedBefore returns which clusters each policy allowed when it last changed the object, by policy name. unowned reports whether the
// entry does not come from a decision on the stored object, so that the first policy that can decide must set it again.
func (m *merger) allowedBefore(entry overwritten, hasEntry bool) (allowed map[string][]string, unowned bool) {
	if !hasEntry {
		return m.intent.applied.Clusters, false
	}
	by, allowed := m.decidedBefore(entry)
	if by != "" && len(allowed) == 0 {
		allowed = map[string][]string{by: m.currentClusters()}
	}
	return allowed, by == ""
}

// decidedBefore returns the first policy that decided the clusters of an entry for the stored object, "" if none did, and which clusters
// each policy allowed, as far as the record says that. A request may bring an old record of the object, or that of an earlier call of the
// webhook. Only what that record says of the developer's request counts, not what it says of policies.
func (m *merger) decidedBefore(entry overwritten) (by string, allowed map[string][]string) {
	const key = placementv1.ClustersAnnotation
	before := m.stored()
	was := before.applied.Annotations[key]
	// The digest in the entry is too short to tell two texts apart that a client made for that. Remediation brings no text.
	same := was.Set == entry.Set && ptr.Equal(optional(before.current[fieldAnnotations], key),
		optional(m.intent.current[fieldAnnotations], key))
	if was.By == "" || !same && !m.request.remediates {
		return "", nil
	}
	return was.By, before.applied.Clusters
}

// stored returns the intent of the object that the API server has stored; an empty one if there is none.
func (m *merger) stored() *intent {
	switch {
	case m.request.Old == m.request.Object:
		return &m.intent
	case m.intent.before == nil:
		return &intent{}
	}
	return m.intent.before()
}

// heldAllowance returns the list that counts for a policy that is held or cannot decide: what the policy allowed when it last changed the
// object. If the record does not have that, a held policy counts with the object's current clusters and those that the policy allows now.
// So it moves nothing, and no other policy adds a cluster that it forbids. stood is the list in the record, if had is true. counts is false
// if the policy is neither held nor failed, or has no list to count.
func (m *merger) heldAllowance(v *Verdict, stood []string, had bool) (s policyAllowance, counts bool) {
	switch held := m.request.held(v); {
	case !held && v.Err == nil:
		return policyAllowance{}, false
	case had:
		return policyAllowance{v, stood, true}, true
	case !held || v.Err != nil || v.Decision.Clusters == nil:
		return policyAllowance{}, false
	}
	names := slices.Concat(m.currentClusters(), v.Decision.Clusters)
	slices.Sort(names)
	return policyAllowance{verdict: v, names: slices.Compact(names)}, true
}

// currentClusters returns the names of the clusters that the request's object lists before merging; none if its list is not valid. For
// remediation, which brings no list, they are those of the stored object, since an earlier call of the webhook may have changed the list.
func (m *merger) currentClusters() []string {
	current := &m.intent
	if m.request.remediates {
		current = m.stored()
	}
	listed, err := m.askedFor(optional(current.current[fieldAnnotations], placementv1.ClustersAnnotation)).parse()
	if err != nil {
		return nil
	}
	if !listed.Several {
		return listed.Terms[0]
	}
	names, _ := listed.All()
	return names
}

// leaveClusters keeps the present clusters and their entry in the record. The entry names a policy only if one decided these clusters for
// the stored object.
func (m *merger) leaveClusters(values map[string]string) {
	const key = placementv1.ClustersAnnotation
	m.leave(fieldAnnotations, key, values)
	if entry, hasEntry := m.next.Annotations[key]; hasEntry {
		entry.By, m.next.Clusters = m.decidedBefore(entry)
		m.next.put(fieldAnnotations, key, entry)
	}
}

// Undelivered reports whether the object is not delivered although policies deliver objects of its type: no policy decided its clusters.
// Policies for which the object follows its controller do not count, because they deliver the controller.
func (d *Decider) Undelivered(o *Outcome, resource schema.GroupResource, namespace string) bool {
	delivers := func(v *Verdict) bool { return v.Policy.delivers(resource) && v.Follows == "" }
	return o.Object != nil && slices.ContainsFunc(o.Verdicts, delivers) && !d.Decided(o.Object, namespace)
}

// delivers reports whether an enforced policy delivers the object. The record must then say that a policy decided its clusters.
func (m *merger) delivers() bool {
	return slices.ContainsFunc(m.verdicts, func(v *Verdict) bool { return v.Policy.delivers(m.request.Resource.GroupResource()) })
}

// nativelyDelivered are the resources whose objects are delivered to their own systems, whatever spec.delivery says: to Open Cluster
// Management and to Kueue.
var nativelyDelivered = []schema.GroupResource{
	{Group: "cluster.open-cluster-management.io", Resource: "placements"}, {Group: "kueue.x-k8s.io", Resource: "workloads"},
}

// DeliversNatively reports whether objects of a resource are delivered to the multi-cluster system that defines them, whatever
// spec.delivery says: Placements of Open Cluster Management, and Workloads of Kueue.
func DeliversNatively(resource schema.GroupResource) bool {
	return slices.Contains(nativelyDelivered, resource)
}

// delivers reports whether the policy is enforced and delivers objects of a resource: it has spec.delivery, or they are delivered natively.
func (p *Policy) delivers(resource schema.GroupResource) bool {
	return p.Mode == placementv1.ModeEnforce && (p.Delivery != nil || DeliversNatively(resource))
}

// setClusters sets the list of clusters to next. It records the developer's list requested and, where needed, what each policy allows. It
// does nothing if there is no list, if no policy has one, or if next is what the developer requested and no policy needs an entry in the
// record.
func (m *merger) setClusters(lists policyAllowances, requested, next *string, values map[string]string) {
	const key = placementv1.ClustersAnnotation
	if next == nil || len(lists.counted) == 0 || ptr.Equal(requested, next) && !m.delivers() &&
		!slices.ContainsFunc(lists.counted, policyAllowance.mustRecord) {
		return
	}
	values[key] = *next
	first := lists.counted[0]
	m.next.put(fieldAnnotations, key, overwritten{Requested: requested, By: first.verdict.Policy.Name, Set: digest(*next)})
	if len(lists.counted) == 1 && clustersText(first.names) == *next {
		return
	}
	m.next.Clusters = map[string][]string{}
	for _, s := range lists.counted {
		m.next.Clusters[s.verdict.Policy.Name] = s.names
	}
}

// hypotheticalClusters adds to verdicts the changes of clusters that their policies would make if they were not held, or were enforced. For
// a held policy, the change is from current, the object's present list; for one that is not enforced, from the list in values, the
// annotations as the enforced policies make them. If no cluster would be left, a policy that is not enforced gets that as a reason to deny
// the object (Decision.Errors) instead, and one that is held gets a change that can't be made.
func (m *merger) hypotheticalClusters(lists policyAllowances, asked askedClusters, current *string, values map[string]string) {
	const key = placementv1.ClustersAnnotation
	if len(lists.differing) > 0 {
		next, err := asked.join(lists.wanted)
		if err != nil {
			asked.deny(lists.wanted, err, func(v *Verdict) bool { return !v.tolerant })
		}
		for _, v := range lists.differing {
			if err != nil {
				v.Changes = append(v.Changes, Change{Field: fieldAnnotations, Key: key, From: current, To: new(clustersText(nil)),
					Immutable: err.Error()})
			} else {
				m.changeClusters(v, current, next)
			}
		}
	}
	for _, v := range m.verdicts {
		if v.Err != nil || v.Decision.Clusters == nil || v.held || v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		with := append(slices.Clip(lists.counted), policyAllowance{verdict: v, names: v.Decision.Clusters})
		next, err := asked.join(with)
		if err != nil {
			asked.deny(with, err, func(other *Verdict) bool { return other != v })
		} else {
			m.changeClusters(v, optional(values, key), next)
		}
	}
}

// errNoCluster reports that no cluster is left for an object.
var errNoCluster = errors.New("no cluster is left")

// askedClusters is the list of clusters that the developer asks for.
type askedClusters struct {
	// text is the value of the clusters annotation, or the text of the list in a placement object; nil if there is none.
	text *string
	// field is the list in a placement object; nil for other objects, which have the annotation.
	field *clusterField
	// whyNot returns why a policy does not give the object some clusters, by their names; nil if denials need not say that.
	whyNot func(*Policy, []string) map[string]string
}

// askedFor returns the askedClusters of the object that is merged, with a text; nil for no list.
func (m *merger) askedFor(text *string) askedClusters {
	return askedClusters{text, m.intent.clusters, m.whyNot}
}

// subject returns the name of the annotation or the path of the list, for messages.
func (a askedClusters) subject() string {
	if a.field != nil {
		return a.field.list.Path
	}
	return "annotation " + placementv1.ClustersAnnotation
}

// parse returns the names in the list. If there is no list, they are one term without names.
func (a askedClusters) parse() (clusterlist.Names, error) {
	none := clusterlist.Names{Terms: [][]string{nil}}
	if a.text == nil {
		return none, nil
	}
	if a.field != nil {
		if listed, ok := clusterlist.Parse(*a.text); ok {
			return listed, nil
		}
		return none, fmt.Errorf("annotation %s records no valid list of clusters for %s: write the clusters that you request into that field",
			placementv1.RequestedAnnotation, a.subject())
	}
	names, err := parseClusterNames(*a.text)
	return clusterlist.Names{Terms: [][]string{names}}, err
}

// lists reports whether the developer's list is known to be the text of an array of these names. It may report false although it is.
func (a askedClusters) lists(names []string) bool {
	return a.text != nil && clusterlist.IsArrayText(*a.text, names)
}

// join returns the text of the list that the object gets: the clusters that every policy allows and that the developer requests. The
// developer's list does not count if all policies override it or one ignores it. Each term is narrowed by itself; a term without names gets
// all that the policies allow. A term whose clusters stay the same is written as before. join returns an error if the developer's list
// cannot be parsed, if no term has a cluster left and a policy denies that (spec.clusters.onEmpty), or if the placement object can't list
// as many clusters. Without policies' lists, it returns the developer's.
func (a askedClusters) join(lists []policyAllowance) (*string, error) {
	if a.field != nil && a.field.err != nil {
		return nil, a.field.err
	}
	if len(lists) == 0 {
		return a.text, nil
	}
	if alone := lists[0]; len(lists) == 1 && a.text == nil && alone.isDecided() {
		// This is the most frequent case.
		return new(clustersText(alone.names)), a.tooMany(alone.names)
	}
	allowed := sortedNames(lists[0].names)
	for _, s := range lists[1:] {
		allowed = intersection(allowed, sortedNames(s.names))
	}
	if a.lists(allowed) {
		// Nothing narrows, and parsing a long list takes longer than comparing it.
		return a.text, nil
	}
	narrows := developerNarrows(lists)
	handling := onEmpty(lists)
	own, invalid := a.parse()
	if invalid != nil && narrows {
		return nil, invalid
	}
	next, err := a.narrow(own, allowed, narrows)
	left := slices.ContainsFunc(next.Terms, func(term []string) bool { return len(term) > 0 })
	if err == nil && !left && handling == placementv1.OnEmptyPolicyClusters {
		next, err = a.narrow(own, allowed, false)
		left = len(allowed) > 0
	}
	switch {
	case err != nil:
		return nil, err
	case !left && handling != placementv1.OnEmptyClear:
		return nil, errNoCluster
	case invalid == nil && a.text != nil && slices.EqualFunc(own.Terms, next.Terms, sameTerm):
		return a.text, nil
	}
	return next.Text(), a.tooMany(next.Terms...)
}

// maxListed bounds the names in the terms that get all allowed clusters, if there are several. The API server stores no object with
// more, and the names of a small object with many terms take gigabytes.
const maxListed = 1 << 16

// narrow returns the terms of own with only the names in allowed, which are sorted. A term without names gets all of them, and so does each
// term if narrows is false. A term whose names stay the same is written as before. narrow returns an error if there would be more than
// maxListed names.
func (a askedClusters) narrow(own clusterlist.Names, allowed []string, narrows bool) (clusterlist.Names, error) {
	open := 0
	for _, term := range own.Terms {
		if term == nil || !narrows {
			open++
		}
	}
	if open > 1 && open > maxListed/max(len(allowed), 1) {
		return clusterlist.Names{}, fmt.Errorf("%s has %d terms that get all of the %d allowed clusters, together more than %d names: use fewer "+
			"terms, or list the clusters that you want",
			a.subject(), open, len(allowed), maxListed)
	}
	out := clusterlist.Names{Several: own.Several, Terms: make([][]string, len(own.Terms))}
	for i, term := range own.Terms {
		if term == nil {
			out.Terms[i] = allowed
			continue
		}
		written, names := sortedNames(term), allowed
		if narrows {
			names = intersection(allowed, written)
		}
		if out.Terms[i] = term; !slices.Equal(names, written) {
			out.Terms[i] = names
		}
	}
	return out, nil
}

// sortedNames returns names sorted, each once, and never nil. It returns its argument if that is so already, and never changes it.
func sortedNames(names []string) []string {
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			return slices.Compact(slices.Sorted(slices.Values(names)))
		}
	}
	if names == nil {
		return []string{}
	}
	return names
}

// intersection returns the names that are in both of two sorted lists. It never returns nil.
func intersection(a, b []string) []string {
	out := make([]string, 0, min(len(a), len(b)))
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch order := strings.Compare(a[i], b[j]); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			out = append(out, a[i])
			i, j = i+1, j+1
		}
	}
	return out
}

// sameTerm reports whether two terms are equal. A nil term differs from an empty one.
func sameTerm(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// tooMany returns an error if the placement object accepts no list with as many clusters as one of the terms has.
func (a askedClusters) tooMany(terms ...[]string) error {
	for _, names := range terms {
		if a.field != nil && a.field.list.Max > 0 && len(names) > a.field.list.Max {
			return fmt.Errorf("%s can list at most %d clusters, and policies allow %d: list those that you want", a.subject(),
				a.field.list.Max, len(names))
		}
	}
	return nil
}

// parseClusterNames returns the names in a value of the clusters annotation, in its order. It returns an error if that is no JSON array of
// strings; an empty array has no names.
func parseClusterNames(text string) ([]string, error) {
	names, err := clusterlist.ParseArray(text)
	if err != nil || names == nil {
		return nil, fmt.Errorf("annotation %s is %q, which is not a list of clusters; write a JSON array of their names, as in %q",
			placementv1.ClustersAnnotation, printable.Truncate(text, maxText), `["eu-1","eu-2"]`)
	}
	return names, nil
}

// clustersText returns the value of the clusters annotation for names.
func clustersText(names []string) string { return clusterlist.ArrayText(names) }

// deny makes err the reason to deny the object (Decision.Errors) of each policy that has one of the lists, and sets OwnClusters of its
// verdict to whether the lists would lead to no error without the developer's. It leaves out verdicts for which excluded returns true, that
// could not decide, or that already deny the object.
func (a askedClusters) deny(lists []policyAllowance, err error, excluded func(*Verdict) bool) {
	_, anyway := askedClusters{field: a.field}.join(lists)
	for i, s := range lists {
		v := s.verdict
		if v.Err != nil || len(v.Decision.Errors) > 0 || excluded(v) {
			continue
		}
		message := err.Error()
		if errors.Is(err, errNoCluster) {
			message += ": " + a.allowances(lists, i)
		}
		// Replace the slice, because the decision may be shared with other objects.
		v.Decision.Errors, v.OwnClusters = []string{message}, anyway == nil
	}
}

// Limits on what a message lists.
const (
	maxNames    = 8
	maxPolicies = 4
	maxText     = 64
	maxReason   = 160
)

// allowances returns a text that says which clusters each policy allows and the developer asks for. It is for a message of the policy of
// the i-th list.
func (a askedClusters) allowances(lists []policyAllowance, i int) string {
	parts := []string{"this policy allows " + firstNames(lists[i].names, nil)}
	if developerNarrows(lists) {
		if own, err := a.parse(); err == nil {
			if names, all := own.All(); all {
				parts = append(parts, fmt.Sprintf("%s asks for %s", a.subject(), firstNames(names, a.refusals(lists[i], names))))
			}
		}
	}
	for j, s := range lists {
		if j == i {
			continue
		}
		if len(parts) > maxPolicies {
			return strings.Join(append(parts, "..."), "; ")
		}
		allows := "allows"
		if s.kept {
			allows = "last allowed"
		}
		parts = append(parts, fmt.Sprintf("PlacementPolicy %q %s %s", s.verdict.Policy.Name, allows, firstNames(s.names, nil)))
	}
	return strings.Join(parts, "; ")
}

// refusals returns why a policy does not allow clusters that the developer asks for, by name, for those that a message lists.
func (a askedClusters) refusals(s policyAllowance, names []string) map[string]string {
	refused := slices.DeleteFunc(slices.Clone(names[:min(len(names), maxNames)]),
		func(name string) bool { return slices.Contains(s.names, name) })
	if s.kept || a.whyNot == nil || len(refused) == 0 {
		return nil
	}
	return a.whyNot(s.verdict.Policy, refused)
}

// firstNames returns a text with the first maxNames of the names, the reasons for them where there are any, and the number of the other
// names; "none" if there are no names.
func firstNames(names []string, reasons map[string]string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > maxNames:
		return fmt.Sprintf("%s and %d more", firstNames(names[:maxNames], reasons), len(names)-maxNames)
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = printable.Truncate(name, maxText)
		if reason := reasons[name]; reason != "" {
			short[i] += " (" + printable.Truncate(reason, maxReason) + ")"
		}
	}
	return strings.Join(short, ", ")
}
