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

package placement_test

import (
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

func TestDecisionEmpty(t *testing.T) {
	preferring := func(text string) placement.Decision {
		return placement.Decision{Annotations: map[string]string{placement.PreferencesAnnotation: text}}
	}
	for name, test := range map[string]struct {
		decision placement.Decision
		want     bool
	}{
		"NoOpinion":        {placement.Decision{Annotations: map[string]string{"a": "b"}}, false},
		"Clusters":         {placement.Decision{Clusters: []string{"a"}}, false},
		"NoClusters":       {placement.Decision{Clusters: []string{}}, true},
		"Preferences":      {preferring(`{"clusters": {"a": {"weight": 1}}}`), false},
		"PreferOthers":     {preferring(`{"clusters": {"*": {"weight": 1}}}`), false},
		"NoPreferences":    {preferring(`{"clusters": {}}`), true},
		"OtherPreferences": {preferring(`none`), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.decision.Empty(); got != test.want {
				t.Errorf("empty: %t, want %t", got, test.want)
			}
		})
	}
}

func TestChangeEmpties(t *testing.T) {
	for name, test := range map[string]struct {
		change placement.Change
		want   bool
	}{
		"Emptied":            {placement.Change{Key: placementv1.ClustersAnnotation, From: new(`["a"]`), To: new(`[]`)}, true},
		"Removed":            {placement.Change{Key: placementv1.ClustersAnnotation, From: new(`["a"]`)}, true},
		"Moved":              {placement.Change{Key: placementv1.ClustersAnnotation, From: new(`["a"]`), To: new(`["b"]`)}, false},
		"WereNone":           {placement.Change{Key: placementv1.ClustersAnnotation, From: new(`[]`)}, false},
		"New":                {placement.Change{Key: placementv1.ClustersAnnotation, To: new(`[]`)}, false},
		"PreferencesEmptied": {placement.Change{Key: placement.PreferencesAnnotation, From: new(`{"clusters":{"*":{}}}`), To: new(`{"clusters":{}}`)}, true},
		"PreferencesMoved":   {placement.Change{Key: placement.PreferencesAnnotation, From: new(`{"clusters":{"*":{}}}`), To: new(`{"clusters":{"a":{}}}`)}, false},
		"AnotherKey":         {placement.Change{Key: "example.com/clusters", From: new(`["a"]`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.change.Field = "annotations"
			if got := test.change.Empties(); got != test.want {
				t.Errorf("empties: %t, want %t", got, test.want)
			}
			test.change.Field = "labels"
			if test.change.Empties() {
				t.Error("a label empties the list of clusters")
			}
		})
	}
}

// TestChangeMovesClusters checks which changes of an object move it to other clusters.
func TestChangeMovesClusters(t *testing.T) {
	const clusters = placementv1.ClustersAnnotation
	for name, test := range map[string]struct {
		change        placement.Change
		moves, leaves bool
	}{
		"Moved":             {placement.Change{Field: "annotations", Key: clusters, From: new(`["a"]`), To: new(`["b"]`)}, true, true},
		"New":               {placement.Change{Field: "annotations", Key: clusters, To: new(`["b"]`)}, true, false},
		"Recorded":          {placement.Change{Field: "annotations", Key: clusters, From: new(`["a"]`), To: new(`["a"]`)}, false, false},
		"OfNone":            {placement.Change{Field: "annotations", Key: clusters, To: new(`[]`)}, false, false},
		"AnotherKey":        {placement.Change{Field: "annotations", Key: "example.com/clusters", From: new(`["a"]`), To: new(`["b"]`)}, false, false},
		"ALabel":            {placement.Change{Field: "labels", Key: clusters, From: new(`["a"]`), To: new(`["b"]`)}, false, false},
		"PlacementMoved":    {placement.Change{Field: "clusters", Key: "spec.placement", From: new(`["a"]`), To: new(`["b"]`)}, true, true},
		"PlacementRecorded": {placement.Change{Field: "clusters", Key: "spec.placement", From: new(`["a"]`), To: new(`["a"]`)}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if moves, leaves := test.change.MovesClusters(), test.change.LeavesClusters(); moves != test.moves || leaves != test.leaves {
				t.Errorf("moves: %t, leaves: %t", moves, leaves)
			}
		})
	}
}
