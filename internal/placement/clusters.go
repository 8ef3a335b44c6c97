package placement

import (
	"encoding/json"
	"maps"
	"slices"
)

// PreferencesAnnotation is where a federation's ReplicaSets have which clusters they prefer, and where policies in their
// original design say so. Its value is an object with the preferences under clusters, by name; "*" stands for all others.
const PreferencesAnnotation = "federation.kubernetes.io/replica-set-preferences"

// anyCluster is the name that stands for clusters which are not named.
const anyCluster = "*"

// preferences are the value of PreferencesAnnotation.
type preferences struct {
	// whole is all of it, and clusters the preferences by name.
	whole    map[string]json.RawMessage
	clusters map[string]json.RawMessage
}

// preferences returns those that the decision makes; ok is false for one that makes none, or none of that form.
func (d Decision) preferences() (p preferences, ok bool) {
	text, ok := d.Annotations[PreferencesAnnotation]
	if !ok || json.Unmarshal([]byte(text), &p.whole) != nil || json.Unmarshal(p.whole["clusters"], &p.clusters) != nil {
		return p, false
	}
	return p, p.clusters != nil
}

// Preferred are the clusters that a decision names in PreferencesAnnotation, sorted, and never nil. all says that it prefers others as
// well, and ok that it says anything there.
func (d Decision) Preferred() (names []string, all, ok bool) {
	p, ok := d.preferences()
	if !ok {
		return nil, false, false
	}
	_, all = p.clusters[anyCluster]
	delete(p.clusters, anyCluster)
	names = slices.AppendSeq([]string{}, maps.Keys(p.clusters))
	slices.Sort(names)
	return names, all, true
}

// WithoutPreferred returns the decision with some clusters left out of PreferencesAnnotation: not named, or, where others
// than the named ones get replicas as well, with a maximum of none. What else is there stays as it is.
func (d Decision) WithoutPreferred(infeasible []string) Decision {
	p, ok := d.preferences()
	if !ok || len(infeasible) == 0 {
		return d
	}
	_, all := p.clusters[anyCluster]
	for _, name := range infeasible {
		if all {
			p.clusters[name] = json.RawMessage(`{"maxReplicas":0}`)
			continue
		}
		delete(p.clusters, name)
	}
	// Marshalling can't fail: all of it was read as JSON.
	p.whole["clusters"], _ = json.Marshal(p.clusters)
	text, _ := json.Marshal(p.whole)
	d.Annotations = maps.Clone(d.Annotations)
	d.Annotations[PreferencesAnnotation] = string(text)
	return d
}
