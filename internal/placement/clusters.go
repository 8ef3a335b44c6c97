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

// anyCluster is the name that stands for all clusters that are not named.
const anyCluster = "*"

// preferences are the decoded value of PreferencesAnnotation.
type preferences struct {
	// whole is the complete value, and clusters are the preferences by cluster name.
	whole    map[string]json.RawMessage
	clusters map[string]json.RawMessage
}

// preferences decodes the PreferencesAnnotation that the decision sets. ok is false if the decision does not set it, or
// sets a value that lists no clusters.
func (d Decision) preferences() (p preferences, ok bool) {
	text, ok := d.Annotations[PreferencesAnnotation]
	if !ok || json.Unmarshal([]byte(text), &p.whole) != nil || json.Unmarshal(p.whole["clusters"], &p.clusters) != nil {
		return p, false
	}
	return p, p.clusters != nil
}

// Preferred returns the clusters that the decision names in PreferencesAnnotation, sorted. names is nil only if ok is
// false. all reports whether the decision also prefers clusters that it does not name. ok reports whether the decision
// sets the annotation to a valid value.
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

// WithoutPreferred returns the decision without the infeasible clusters in PreferencesAnnotation. It removes their
// names or, if the annotation also prefers clusters that it does not name, sets their maximum number of replicas to 0.
// The rest of the annotation stays as it is.
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
