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

package lint_test

import (
	"fmt"
	"strings"
	"testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy/policytest"
)

func TestManyValues(t *testing.T) {
	const two = "of data.clusters that the clause matches: if the clause matches two, the evaluation fails"
	v0, v1 := placementv1.RegoV0, placementv1.RegoV1
	tests := map[string]struct {
		version placementv1.RegoVersion
		body    string
		want    []string
	}{
		"Region": {v1, `annotations["a"] := name if {
	some name, cluster in data.clusters
	cluster.region == "eu"
}`, []string{two}},
		"All": {v1, `annotations["a"] := name if some name, _ in data.clusters`, []string{two}},
		"Brackets": {v1, `labels["a"] := name if {
	some name
	data.clusters[name].ready
}`, []string{two}},
		"Assigned": {v1, `labels["a"] := name if {
	some name
	c := data.clusters[name]
	c.ready
	c.region != "us"
}`, []string{two}},
		"Zones": {v1, `labels["a"] := name if {
	some name, c in data.clusters
	"eu-1" in c.zones
}`, []string{two}},
		"ZonesAny": {v1, `labels["a"] := name if {
	some name, c in data.clusters
	c.zones[_] == "eu-1"
}`, []string{two}},
		"Topology": {v1, `labels["a"] := name if {
	some name, c in data.clusters
	c.labels["topology.kubernetes.io/region"] == "eu"
}`, []string{two}},
		"Sprintf": {v1, `annotations["a"] := sprintf("c-%s", [name]) if {
	some name, c in data.clusters
	c.ready
}`, []string{two}},
		"Object": {v1, `annotations := {"a": name} if {
	some name, c in data.clusters
	c.ready
}`, []string{two}},
		"Scheduling": {v1, `scheduling.nodeSelector["pool"] := name if some name, _ in data.clusters`, []string{two}},
		"Else": {v1, `annotations["a"] := "x" if {
	input.x
} else := name if {
	some name, _ in data.clusters
}`, []string{two}},
		"Object type": {v1, `annotations["a"] := name if some name, _ in data.kubernetes.nodes`, []string{"of data.kubernetes.nodes that"}},
		"V0":          {v0, `annotations["a"] = name { data.clusters[name].region == "eu" }`, []string{two}},
		"OtherInput": {v1, `annotations["a"] := name if {
	input.spec.x == 1
	some name, c in data.clusters
	c.ready
}`, []string{two}},

		"Several": {v1, `annotations["a"] := name if {
	count(data.clusters) > 1
	some name, c in data.clusters
	c.ready
}`, []string{two}},

		"One": {v1, `annotations["a"] := name if {
	count(data.clusters) == 1
	some name, _ in data.clusters
}`, nil},
		"OneAtMost": {v1, `annotations["a"] := name if {
	some name, _ in data.clusters
	count(data.clusters) < 2
}`, nil},
		"OneCounted": {v1, `annotations["a"] := name if {
	n := count(data.clusters)
	n == 1
	some name, c in data.clusters
	c.ready
}`, nil},
		"OneV0":       {v0, `annotations["a"] = name { count(data.clusters, 1); data.clusters[name].ready }`, nil},
		"Min":         {v1, `annotations["a"] := min({name | some name, c in data.clusters; c.region == "eu"})`, nil},
		"Sorted":      {v1, `annotations["a"] := sort([name | some name, _ in data.clusters])[0]`, nil},
		"All of them": {v1, `annotations["a"] := {name | some name, _ in data.clusters}`, nil},
		"Constant": {v1, `annotations["a"] := "yes" if {
	some name, c in data.clusters
	c.ready
}`, nil},
		"Named": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	name == input.x
}`, nil},
		"NamedConstant": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	name == "eu-1"
}`, nil},
		"BoundBefore": {v1, `annotations["a"] := name if {
	name := input.metadata.labels.cluster
	data.clusters[name].ready
}`, nil},
		"BoundByWith": {v1, `annotations["a"] := name if {
	some name, c in data.clusters with data.clusters as {"a": {}}
}`, nil},
		"OfTheObject": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	c.region == input.metadata.labels.region
}`, nil},
		"OfTheObjectLate": {v1, `annotations["a"] := name if {
	region := input.metadata.labels.region
	some name, c in data.clusters
	c.region == region
}`, nil},
		"Label": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	c.labels.primary == "true"
}`, nil},
		"Negated": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	not better(name)
}
better(n) if n > 1`, nil},
		"Extreme": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	c.capacity.cpu == max({o.capacity.cpu | some o in data.clusters})
}`, nil},
		"Function": {v1, `annotations["a"] := name if {
	some name, c in data.clusters
	chosen(c)
}
chosen(c) if c.region == "eu"`, nil},
		"KeyOfEach": {v1, `annotations[name] := "x" if some name, _ in data.clusters`, nil},
		"Clusters": {v1, `clusters contains name if {
	some name, c in data.clusters
	c.region == "eu"
}`, nil},
		"Member": {v1, `annotations["a"] := c.region if some c in data.clusters`, nil},
		"DefaultClass": {v1, `annotations["a"] := name if {
	some name, sc in data.kubernetes.storageclasses
	sc.metadata.annotations.default == "true"
}`, nil},
		"OwnData": {v1, `annotations["a"] := name if some name, _ in {"a": 1}`, nil},
		"Count":   {v1, `annotations["a"] := sprintf("%d", [count(data.clusters)])`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			policytest.Warned(t, policytest.SpecOf(tc.version, "package p\n"+tc.body+"\n"), tc.want...)
		})
	}
}

// TestManyValuesIsBounded checks that there is no warning for a clause with more variables in its value than the limit.
func TestManyValuesIsBounded(t *testing.T) {
	for _, tc := range []struct {
		names int
		want  []string
	}{{8, []string{"of data.clusters that the clause matches"}}, {9, nil}} {
		var value, body strings.Builder
		for i := range tc.names {
			fmt.Fprintf(&value, "\"k%d\": n%d, ", i, i)
			fmt.Fprintf(&body, "\tdata.clusters[n%d]\n", i)
		}
		policytest.Warned(t, policytest.SpecOf(placementv1.RegoV0, `package p
annotations = {`+value.String()+"} {\n"+body.String()+"}\n"), tc.want...)
	}
}
