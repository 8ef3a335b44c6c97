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
	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
)

// Empty reports whether the decision allows the object no cluster at all: Clusters is an empty list or, if it is nil, the decision sets
// PreferencesAnnotation without a cluster.
func (d Decision) Empty() bool {
	if d.Clusters != nil {
		return len(d.Clusters) == 0
	}
	names, all, ok := d.Preferred()
	return ok && !all && len(names) == 0
}

// Empties reports whether the change removes the last cluster from an object that has some. It then empties or removes the clusters
// annotation or the preferences, or leaves the list of a placement object without a cluster. Removing that list empties nothing: without a
// list, a placement object may select all clusters.
func (c Change) Empties() bool {
	if c.Field == fieldClusters {
		return selectsClusters(c.From) && !selectsClusters(c.To)
	}
	// Most changes leave clusters, so that the value before has not to be parsed.
	return c.Field == fieldAnnotations && !namesClusters(c.Key, c.To) && namesClusters(c.Key, c.From)
}

// MovesClusters reports whether the change is one of the clusters of the object, and not of the record alone. In the clusters annotation or
// the preferences, the text before or after the change must have a cluster. In the list of a placement object, any change counts.
func (c Change) MovesClusters() bool {
	if c.RecordsOnly() {
		return false
	}
	return c.Field == fieldClusters || c.Field == fieldAnnotations && (namesClusters(c.Key, c.From) || namesClusters(c.Key, c.To))
}

// LeavesClusters reports whether MovesClusters returns true, and the value before the change has a cluster or, for the list of a placement
// object, may select one.
func (c Change) LeavesClusters() bool {
	return c.MovesClusters() && (c.Field == fieldClusters && selectsClusters(c.From) || namesClusters(c.Key, c.From))
}

// selectsClusters reports whether a placement object whose list has the text may select at least one cluster. It returns true for nil and
// for a term without names, which may select all.
func selectsClusters(text *string) bool {
	if text == nil {
		return true
	}
	listed, _ := clusterlist.Parse(*text)
	names, all := listed.All()
	return !all || len(names) > 0
}

// namesClusters reports whether an annotation is the clusters annotation or PreferencesAnnotation, by its key, and its value has at least
// one cluster.
func namesClusters(key string, value *string) bool {
	if value == nil {
		return false
	}
	switch key {
	case placementv1.ClustersAnnotation:
		return clusterlist.NamesAny(*value)
	case PreferencesAnnotation:
		names, all, ok := Decision{Annotations: map[string]string{key: *value}}.Preferred()
		return ok && (all || len(names) > 0)
	}
	return false
}
