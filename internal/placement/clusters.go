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
	"encoding/json"
	"maps"
	"slices"
)

// PreferencesAnnotation is the annotation in which ReplicaSets of Kubernetes Federation v1 list the clusters that they
// prefer. Policies in Federation's original design set it. Its value is a JSON object with the preferences by cluster
// name under "clusters". The name "*" stands for all clusters that are not named.
const PreferencesAnnotation = "federation.kubernetes.io/replica-set-preferences"

// anyCluster is the name that stands in PreferencesAnnotation for all clusters that are not named there.
const anyCluster = "*"

// preferences is the decoded value of PreferencesAnnotation.
type preferences struct {
	// whole has all members of the value.
	whole map[string]json.RawMessage
	// clusters has the preferences of each cluster, by name, or of all others under anyCluster.
	clusters map[string]json.RawMessage
}

// preferences returns the decoded PreferencesAnnotation that the decision sets. ok is false if the decision does not set it, or if its
// value has no valid clusters.
func (d Decision) preferences() (p preferences, ok bool) {
	text, ok := d.Annotations[PreferencesAnnotation]
	if !ok || json.Unmarshal([]byte(text), &p.whole) != nil || json.Unmarshal(p.whole["clusters"], &p.clusters) != nil {
		return p, false
	}
	return p, p.clusters != nil
}

// Preferred returns the clusters that the decision names in PreferencesAnnotation, sorted. all reports whether the decision also prefers
// clusters that it does not name. ok reports whether the decision sets the annotation to a valid value. names is nil only if ok is false.
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

// WithoutPreferred returns the decision without the infeasible clusters in PreferencesAnnotation. It removes their names. If the annotation
// also prefers clusters that it does not name, it sets the maximum number of replicas of the infeasible ones to 0 instead. The rest of the
// annotation stays as it is.
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
	// Marshaling does not fail: all values were decoded from JSON.
	p.whole["clusters"], _ = json.Marshal(p.clusters)
	text, _ := json.Marshal(p.whole)
	d.Annotations = maps.Clone(d.Annotations)
	d.Annotations[PreferencesAnnotation] = string(text)
	return d
}
