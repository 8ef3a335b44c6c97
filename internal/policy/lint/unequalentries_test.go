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
	"testing"
)

func TestUnequalEntries(t *testing.T) {
	const (
		always    = "is always true, because nothing equals all of "
		forbidden = `forbidden := ["us", "sa"]
`
		of = "some name, cluster in data.clusters; "
	)
	clusters := func(conditions string) string { return "clusters contains name if { " + of + conditions + " }" }
	testLogic(t, map[string]logicTest{
		"Rule":          {text: forbidden + clusters("some f in forbidden; cluster.region != f"), want: []string{`cluster.region != f ` + always + `["us", "sa"]: one entry that differs is enough. For an expression that is true only if no entry is equal, write not cluster.region in the collection`}},
		"Constant":      {text: clusters(`cluster.region != {"us", "sa"}[_]`), want: []string{`cluster.region != {"us", "sa"}[_] ` + always}},
		"Turned":        {text: forbidden + clusters("forbidden[_] != cluster.region"), want: []string{"write not cluster.region in the collection"}},
		"Not":           {text: forbidden + clusters("some f in forbidden; not cluster.region == f"), want: []string{"not cluster.region == f " + always}},
		"Name":          {text: clusters(`some f in ["a", "b"]; name != f`), want: []string{"name != f " + always}},
		"Assigned":      {text: forbidden + clusters("region := cluster.region; f := forbidden[_]; region != f"), want: []string{"region != f " + always}},
		"Key":           {text: `clusters contains name if { cluster := data.clusters[name]; cluster.region != {"us", "sa"}[_] }`, want: []string{always}},
		"Comprehension": {text: forbidden + "clusters := {name | " + of + "some f in forbidden; cluster.region != f}", want: []string{always}},
		"Function": {text: `allowed(region) if { some f in ["us", "sa"]; region != f }
` + clusters("allowed(cluster.region)"), want: []string{"region != f " + always}},
		"Object": {text: `labels := {"a": "b"} if { some f in {"us", "sa"}; input.metadata.labels.region != f }`, want: []string{always}},
		"Zone":   {text: clusters(`some zone in cluster.zones; some f in ["a", "b"]; zone != f`), want: []string{"zone != f " + always}},
		"Data":   {text: clusters("some f in data.forbidden; cluster.region != f"), data: `{"forbidden": ["us", "sa"]}`, want: []string{always + "data.forbidden"}},
		"Imported": {text: `import data.clusters as all
clusters contains name if { some name; all[name].region != {"us", "sa"}[_] }`, want: []string{always}},

		"OneEntry":       {text: clusters(`some f in ["us"]; cluster.region != f`)},
		"SameEntries":    {text: clusters(`some f in ["us", "us"]; cluster.region != f`)},
		"OneEntryOfData": {text: clusters("some f in data.forbidden; cluster.region != f"), data: `{"forbidden": ["us"]}`},
		"NotIn":          {text: forbidden + clusters("not cluster.region in forbidden")},
		"Every":          {text: forbidden + clusters("every f in forbidden { cluster.region != f }")},
		"UsedElsewhere":  {text: clusters(`some f in ["us", "sa"]; cluster.region != f; input.metadata.labels.from == f`)},
		"UsedInHead":     {text: `warnings contains f if { some f in ["us", "sa"]; input.metadata.labels.region != f }`},
		"UsedInValue":    {text: "pairs := {[name, f] | " + of + "some f in [\"us\", \"sa\"]; cluster.region != f}\n" + clusters("count(pairs) > 1")},
		"KeyUsed":        {text: clusters(`some i, f in ["us", "sa"]; cluster.region != f; input.i == i`)},
		"Member":         {text: clusters(`some f in [{"name": "us"}, {"name": "sa"}]; cluster.region != f.name`)},
		"Pairs":          {text: forbidden + "pairs contains a if { some a in forbidden; some b in forbidden; a != b }\n" + clusters("not cluster.region in pairs")},
		"Clusters":       {text: clusters("some other in data.clusters; other.region != cluster.region")},
		"OfTheObject":    {text: clusters("some f in input.spec.regions; cluster.region != f")},
		"Equal":          {text: forbidden + clusters("some f in forbidden; cluster.region == f")},
		"OfOtherBody":    {text: clusters(`some f in ["us", "sa"]; count([1 | cluster.region != f]) > 0`)},
	})
}
