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

package remediator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
)

// inventory loads prepared ClusterProfiles.
func (l *leader) inventory(objects ...*unstructured.Unstructured) {
	for _, o := range objects {
		replication.Known().Prepare(profiles, o)
	}
	l.data.Load(profiles, projection.AllFields(), objects)
}

// TestCauses checks that plans name the cluster, and the field of it that the policy reads, that changed.
func TestCauses(t *testing.T) {
	const byLevel = `annotations["example.com/clusters"] := concat("_", sort([name |
	some name, c in data.clusters
	to_number(c.labels["compliance.berth.dev/pci-level"]) >= 2
]))
`
	relabelled := func(change func(labels map[string]string)) *unstructured.Unstructured {
		o := profile(1, "eu", "3")
		labels := o.GetLabels()
		change(labels)
		o.SetLabels(labels)
		return o
	}
	level := func(value string) func(map[string]string) {
		return func(labels map[string]string) { labels["compliance.berth.dev/pci-level"] = value }
	}
	for name, tc := range map[string]struct {
		text string
		next *unstructured.Unstructured
		want []string
	}{
		"Value":      {byLevel, relabelled(level("1")), []string{`Deployment fleet/cluster-1: label compliance.berth.dev/pci-level "3" → "1"`}},
		"OtherField": {byLevel, relabelled(func(labels map[string]string) { level("1")(labels); labels["other"] = "x" }), []string{`Deployment fleet/cluster-1: label compliance.berth.dev/pci-level "3" → "1"`}},
		"Hostile":    {byLevel, relabelled(level("1\n\x1b[1m\u202e")), []string{`Deployment fleet/cluster-1: label compliance.berth.dev/pci-level "3" → "1\n\x1b[1m\u202e"`}},
		"Long":       {byLevel, relabelled(level("0" + strings.Repeat("x", 63))), []string{`Deployment fleet/cluster-1: label compliance.berth.dev/pci-level "3" → "0` + strings.Repeat("x", 39) + `"...`}},
		"Deleted":    {byLevel, nil, []string{`Deployment fleet/cluster-1: deleted`}},
		// The policy does not read the object as a cluster.
		"NoValue": {byJurisdiction, relabelled(func(labels map[string]string) { labels["topology.berth.dev/jurisdiction"] = "us" }), []string{`Deployment fleet/cluster-1: label topology.berth.dev/jurisdiction changed`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(t)
			l.inventory(profile(0, "eu", "3"), profile(1, "eu", "3"))
			l.apply("p", onDeployments(tc.text, ""))
			l.catchUp(t.Context())
			objects := []*unstructured.Unstructured{deployment("a", "front", "eu"), deployment("b", "front", "eu")}
			for _, o := range objects {
				o.SetAnnotations(map[string]string{"asks": "eu", "example.com/clusters": "cluster-0_cluster-1"})
			}
			l.fill(deployments, objects)
			l.decided()
			l.catchUpAndDecide()
			if tc.next != nil {
				replication.Known().Prepare(profiles, tc.next)
				l.data.Put(profiles, tc.next)
			} else {
				l.data.Delete(profiles, "fleet", "cluster-1")
			}
			l.catchUpAndDecide()
			plan := l.Ledger.Report("p").Plan
			if plan == nil {
				t.Fatal("no plan")
			}
			if diff := cmp.Diff(tc.want, plan.Causes); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMovedNote checks that a long action leaves room for the causes in the note of an Event.
func TestMovedNote(t *testing.T) {
	reasons := remediation.Reasons{Shown: []string{"it changed"}, ApprovedBy: []string{"alice"}}
	if got, want := movedNote("set a to b", reasons), "set a to b; cause: it changed; approved by alice"; got != want {
		t.Errorf("note %q", got)
	}
	if got := movedNote(strings.Repeat("€", 1000), reasons); len(got) > 1000 || !strings.HasSuffix(got, "...; cause: it changed; approved by alice") {
		t.Errorf("note %q", got)
	}
}
