package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// The clusters of an object are those that the developer asks for and that every policy allows which gives any: the order of
// the policies does not matter. The value of the annotation has one entry in the record, for the developer's own list, and
// the record keeps what each policy allows, so that the list of a policy that can't be asked, or whose part is held, still
// counts when another policy's changes.

// share is what one policy allows.
type share struct {
	verdict *Verdict
	names   []string
	// kept says that names are what the policy allowed when it was followed last.
	kept bool
}

// remembered reports whether the record has to say what the policy allows even where the developer asks for just that: it
// may be held later, or the developer's list may not count.
func (s share) remembered() bool {
	p := s.verdict.Policy
	return s.kept || p.Remediation != placementv1.RemediationAutomatic || p.Clusters.DeveloperChoice == placementv1.DeveloperChoiceOverride
}

// clusterShares are the parts of all policies in the clusters of an object.
type clusterShares struct {
	// counted are those that count now, in order of precedence.
	counted []share
	// wanted are those that would count if no policy were held.
	wanted []share
	// moved are the verdicts of policies that allow other clusters than before, and differing are those of held ones.
	moved, differing []*Verdict
	// decided says that a policy decides which is not held: otherwise the object keeps what it has.
	decided bool
}

// mergeClusters sets the annotation with the names of clusters. The verdicts of enforced policies for which no cluster is
// left get an error.
func (m *merger) mergeClusters(values map[string]string) {
	const key = placementv1.ClustersAnnotation
	asks := func(v *Verdict) bool { return v.Err == nil && v.Decision.Clusters != nil }
	entry, standing := m.intent.standing.Annotations[key]
	if !standing && !slices.ContainsFunc(m.verdicts, asks) {
		return
	}
	requested, current := optional(values, key), optional(m.intent.current[fieldAnnotations], key)
	shares := m.clusterShares(entry, standing)
	next, err := requested, error(nil)
	if len(shares.counted) > 0 {
		next, err = joinClusters(requested, shares.counted)
	}
	if err != nil && shares.decided {
		deny(requested, shares.counted, err, m.held)
	}
	if err != nil || !shares.decided {
		m.leaveClusters(values)
	} else {
		m.setClusters(shares, requested, next, values)
		if !equalOptional(current, next) {
			for _, v := range shares.moved {
				m.change(v, Change{Field: fieldAnnotations, Key: key, From: current, To: next})
			}
		}
	}
	m.hypotheticalClusters(shares, requested, current, values)
}

// clusterShares finds out what each enforced policy allows. The entry is that of the annotation; standing says whether there
// is one.
func (m *merger) clusterShares(entry overwritten, standing bool) clusterShares {
	before := m.allowedBefore(entry, standing)
	var out clusterShares
	var fresh []*Verdict
	for _, v := range m.verdicts {
		if v.Policy.Mode != placementv1.ModeEnforce {
			continue
		}
		names := v.Decision.Clusters
		stood, had := before[v.Policy.Name]
		says := v.Err == nil && names != nil
		if s, counts := m.heldShare(v, stood, had); counts {
			out.counted = append(out.counted, s)
		}
		if says {
			out.wanted = append(out.wanted, share{verdict: v, names: names})
		}
		same := had == says && slices.Equal(stood, names)
		switch {
		case v.Err != nil || !had && !says:
		case m.held(v) && !same:
			out.differing = append(out.differing, v)
		case m.held(v):
		default:
			out.decided = true
			if says {
				out.counted = append(out.counted, share{verdict: v, names: names})
				fresh = append(fresh, v)
			}
			if !same {
				out.moved = append(out.moved, v)
			}
		}
	}
	if len(out.moved) == 0 && len(fresh) > 0 {
		// The developer or a policy that is gone changed what is left.
		out.moved = fresh[:1]
	}
	return out
}

// allowedBefore is what each policy allowed when it was followed last, by name.
func (m *merger) allowedBefore(entry overwritten, standing bool) map[string][]string {
	if !standing || len(m.intent.standing.Clusters) > 0 {
		return m.intent.standing.Clusters
	}
	names, _ := parseClusterNames(m.intent.current[fieldAnnotations][placementv1.ClustersAnnotation])
	return map[string][]string{entry.By: names}
}

// heldShare returns what a policy counts for that is held or can't decide; counts is false if it is neither, or counts for
// nothing. That is what the policy allowed when it was followed last. Where the record does not say that, a held policy counts
// for the clusters that the object has and those that it allows now: so it moves nothing, and no other policy adds a cluster
// that it forbids.
func (m *merger) heldShare(v *Verdict, stood []string, had bool) (s share, counts bool) {
	switch held := m.held(v); {
	case !held && v.Err == nil:
		return share{}, false
	case had:
		return share{v, stood, true}, true
	case !held || v.Err != nil || v.Decision.Clusters == nil:
		return share{}, false
	}
	names, _ := parseClusterNames(m.intent.current[fieldAnnotations][placementv1.ClustersAnnotation])
	return share{verdict: v, names: sets.List(sets.New(names...).Insert(v.Decision.Clusters...))}, true
}

// leaveClusters keeps the annotation as it stands.
func (m *merger) leaveClusters(values map[string]string) {
	m.leave(fieldAnnotations, placementv1.ClustersAnnotation, values)
	m.next.Clusters = m.intent.standing.Clusters
}

// setClusters sets the annotation, and remembers what the developer asked for and what each policy allows.
func (m *merger) setClusters(shares clusterShares, requested, next *string, values map[string]string) {
	const key = placementv1.ClustersAnnotation
	if next == nil || equalOptional(requested, next) && !slices.ContainsFunc(shares.counted, share.remembered) {
		return
	}
	values[key] = *next
	first := shares.counted[0]
	m.next.put(fieldAnnotations, key, overwritten{Requested: requested, By: first.verdict.Policy.Name, Set: digest(*next)})
	if len(shares.counted) == 1 && clustersText(first.names) == *next {
		return
	}
	m.next.Clusters = map[string][]string{}
	for _, s := range shares.counted {
		m.next.Clusters[s.verdict.Policy.Name] = s.names
	}
}

// hypotheticalClusters says what policies would change whose part is held or that are not enforced.
func (m *merger) hypotheticalClusters(shares clusterShares, requested, current *string, values map[string]string) {
	const key = placementv1.ClustersAnnotation
	next, err := requested, error(nil)
	if len(shares.wanted) > 0 {
		next, err = joinClusters(requested, shares.wanted)
	}
	for _, v := range shares.differing {
		switch {
		case err != nil:
			v.Changes = append(v.Changes, Change{Field: fieldAnnotations, Key: key, From: current, To: new(clustersText(nil)), Immutable: err.Error()})
		case !equalOptional(current, next):
			m.change(v, Change{Field: fieldAnnotations, Key: key, From: current, To: next})
		}
	}
	for _, v := range m.verdicts {
		if v.Err != nil || v.Decision.Clusters == nil || v.held || v.Policy.Mode == placementv1.ModeEnforce {
			continue
		}
		with := append(slices.Clip(shares.counted), share{verdict: v, names: v.Decision.Clusters})
		next, err := joinClusters(requested, with)
		if err != nil {
			deny(requested, with, err, func(other *Verdict) bool { return other != v })
		} else if from := optional(values, key); !equalOptional(from, next) {
			m.change(v, Change{Field: fieldAnnotations, Key: key, From: from, To: next})
		}
	}
}

// errNoCluster says that no cluster is left for an object.
var errNoCluster = errors.New("no cluster is left")

// joinClusters returns the value of the annotation that has the clusters which every policy allows, and the developer as
// far as that counts. A list of the developer's that has just these is kept as it is written. The error says why there is
// no such value.
func joinClusters(requested *string, shares []share) (*string, error) {
	names := sets.New(shares[0].names...)
	for _, s := range shares[1:] {
		names = names.Intersection(sets.New(s.names...))
	}
	narrows := slices.ContainsFunc(shares, func(s share) bool {
		return s.verdict.Policy.Clusters.DeveloperChoice != placementv1.DeveloperChoiceOverride
	})
	denies := slices.ContainsFunc(shares, func(s share) bool { return s.verdict.Policy.Clusters.OnEmpty != placementv1.OnEmptyClear })
	var own []string
	var err error
	if requested != nil {
		if own, err = parseClusterNames(*requested); err != nil && narrows {
			return nil, err
		}
		if narrows {
			names = names.Intersection(sets.New(own...))
		}
	}
	if len(names) == 0 && denies {
		return nil, errNoCluster
	}
	if requested != nil && err == nil && names.Equal(sets.New(own...)) {
		return requested, nil
	}
	return new(clustersText(sets.List(names))), nil
}

// parseClusterNames reads a value of the annotation.
func parseClusterNames(text string) ([]string, error) {
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil || names == nil {
		return nil, fmt.Errorf("annotation %s is %q, which is no list of clusters; write a JSON array of their names, as in %q",
			placementv1.ClustersAnnotation, abridged(text), `["eu-1","eu-2"]`)
	}
	return names, nil
}

func clustersText(names []string) string {
	if names == nil {
		names = []string{}
	}
	// Marshalling can't fail: there is nothing but strings.
	text, _ := json.Marshal(names)
	return string(text)
}

// deny adds an error to the verdicts of the shares, but those that are excluded, that have errors of their own, or that
// could not decide.
func deny(requested *string, shares []share, err error, excluded func(*Verdict) bool) {
	for i, s := range shares {
		v := s.verdict
		if v.Err != nil || len(v.Decision.Errors) > 0 || excluded(v) {
			continue
		}
		message := err.Error()
		if errors.Is(err, errNoCluster) {
			message += ": " + allowances(requested, shares, i)
		}
		// Others may have got the same decision.
		v.Decision.Errors = []string{message}
	}
}

// Limits of what a message names.
const (
	maxNames    = 8
	maxPolicies = 4
	maxText     = 64
)

// allowances says who allows what; the i-th share's policy is the one that speaks.
func allowances(requested *string, shares []share, i int) string {
	parts := []string{"this policy allows " + few(shares[i].names)}
	narrows := func(s share) bool {
		return s.verdict.Policy.Clusters.DeveloperChoice != placementv1.DeveloperChoiceOverride
	}
	if requested != nil && slices.ContainsFunc(shares, narrows) {
		own, _ := parseClusterNames(*requested)
		parts = append(parts, fmt.Sprintf("annotation %s asks for %s", placementv1.ClustersAnnotation, few(own)))
	}
	for j, s := range shares {
		switch {
		case j == i:
		case len(parts) > maxPolicies:
			return strings.Join(append(parts, "..."), "; ")
		case s.kept:
			parts = append(parts, fmt.Sprintf("PlacementPolicy %q allowed %s", s.verdict.Policy.Name, few(s.names)))
		default:
			parts = append(parts, fmt.Sprintf("PlacementPolicy %q allows %s", s.verdict.Policy.Name, few(s.names)))
		}
	}
	return strings.Join(parts, "; ")
}

// few names the first of several clusters.
func few(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > maxNames:
		return fmt.Sprintf("%s and %d more", few(names[:maxNames]), len(names)-maxNames)
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = abridged(name)
	}
	return strings.Join(short, ", ")
}

func abridged(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-3], "") + "..."
}
