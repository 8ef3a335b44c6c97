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

package census_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth/internal/census"
)

// TestClusters checks that an object counts in each cluster of its newest list.
func TestClusters(t *testing.T) {
	c := census.New()
	both, one := `["eu-1","eu-2"]`, `["eu-2"]`
	expect := func(what string, limit int, want ...census.ClusterCount) {
		t.Helper()
		if diff := cmp.Diff(want, c.Clusters(limit), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	web := c.Count(census.Entry{}, &both, census.Placed)
	db := c.Count(census.Entry{}, &one, census.Violates)
	eu2 := census.ClusterCount{Cluster: "eu-2", Objects: census.Counts{census.Placed: 1, census.Violates: 1}}
	expect("two objects", 9, census.ClusterCount{Cluster: "eu-1", Objects: census.Counts{census.Placed: 1}}, eu2)
	expect("the first cluster", 1, eu2, census.ClusterCount{Objects: census.Counts{census.Placed: 1}})
	web = c.Count(web, &one, census.AwaitsPatch)
	expect("moved", 9, census.ClusterCount{Cluster: "eu-2", Objects: census.Counts{census.AwaitsPatch: 1, census.Violates: 1}})
	c.Count(web, nil, census.Placed)
	c.Count(db, nil, census.Placed)
	expect("none", 9)
}
