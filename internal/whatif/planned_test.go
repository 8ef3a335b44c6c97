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

package whatif_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

// newProfile is a cluster in the region eu to which the Deployment web comes.
const newProfile = `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-2, namespace: fleet, labels: {region: eu}}
`

// drifted returns a session of the objects of the world after the policies placed them and the cluster eu-2 joined.
func drifted(t *testing.T, policies string) *whatif.Session {
	t.Helper()
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), append(placedObjects(t, world+policies), parse(t, newProfile)...)...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := whatif.NewSession(t.Context(), cluster, simulation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inEU2 is the value for which the Deployment web waits.
const inEU2 = `["eu-1","eu-2"]`

// TestWaitingObjects checks that a report tells what objects wait for already from what the changes make of them, by what they wait for.
func TestWaitingObjects(t *testing.T) {
	for waits, remediation := range map[string]string{
		"for an update":   "{mode: Manual}",
		"for an approval": "{mode: Approved}",
		"for a window":    `{mode: Automatic, windows: [{start: "0 0 29 2 *", duration: 1h}]}`,
		"for a budget":    "{mode: Automatic, budget: {maxPerMinute: 1}}",
	} {
		t.Run(waits, func(t *testing.T) {
			text := strings.Replace(region, "{mode: Automatic}", remediation, 1)
			// Automatic remediation is sure to change the object without a request.
			pending, transition := "", "Moved"
			if !strings.Contains(remediation, "Automatic") {
				pending, transition = " (pending)", "Pending"
			}
			s := drifted(t, text)
			for name, test := range waitingCases(text, transition, pending) {
				t.Run(name, func(t *testing.T) {
					report, err := s.WhatIf(t.Context(), test.changes(t))
					if err != nil {
						t.Fatal(err)
					}
					if diff := gocmp.Diff(test.want, summary(report)); diff != "" {
						t.Errorf("report (-want +got):\n%s", diff)
					}
				})
			}
		})
	}
}

// waitingCase is a change, and what it does.
type waitingCase struct {
	// cluster gets another region. An empty region removes it.
	cluster, region string
	apply           string
	remove          *whatif.Reference
	want            []string
}

func (c waitingCase) changes(t *testing.T) (out whatif.Changes) {
	profile := reference("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "fleet", c.cluster)
	switch {
	case c.apply != "":
		out.Apply = parse(t, c.apply)
	case c.remove != nil:
		out.Delete = []whatif.Reference{*c.remove}
	case c.region == "":
		out.Delete = []whatif.Reference{profile}
	default:
		out.Set = []whatif.Assignment{{Reference: profile, Path: []string{"metadata", "labels", "region"}, Value: c.region}}
	}
	return out
}

// waitingCases returns changes by what they do to objects that wait. A new value has the transition, and pending follows it.
func waitingCases(policy, transition, pending string) map[string]waitingCase {
	deleted := reference("placement.berth.dev", "v1alpha1", "placementpolicies", "", "region")
	kept := fmt.Sprintf(`deployments.apps shop/web, no longer placement.berth.dev/clusters: ["eu-1"] -> %s`, inEU2)
	return map[string]waitingCase{
		"nothing that policies read": {cluster: "us-1", region: "us", want: []string{
			"finding ClusterProfile fleet/us-1 false the object already has this content, so nothing changes", "waiting 1", "unchanged 1",
		}},
		"a cluster that does not matter": {
			apply: strings.Replace(parsedProfile, "tier: gold", "tier: silver", 1), want: []string{
				"finding ClusterProfile fleet/us-1 false no policy reads what changes, so the change moves nothing", "waiting 1", "unchanged 1",
			},
		},
		"a new policy that decides the same": {
			apply: strings.Replace(policy, "clusters contains", `annotations := {}

    clusters contains`, 1), want: []string{"waiting 1", "unchanged 1"},
		},
		"the move becomes needless": {cluster: "eu-2", want: []string{"Kept " + kept, "unchanged 1"}},
		"the move becomes needless, and another one is new": {cluster: "eu-2", region: "us", want: []string{
			transition + ` deployments.apps bank/db placement.berth.dev/clusters: ["us-1"] -> ["eu-2","us-1"]` + pending, "Kept " + kept, "unchanged 0",
		}},
		"the move gets another target": {cluster: "eu-1", region: "asia", want: []string{
			`Replanned deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["eu-2"]` + pending + " instead of " + inEU2, "unchanged 1",
		}},
		"the move waits no longer": {apply: region, want: []string{
			`Moved deployments.apps shop/web placement.berth.dev/clusters: ["eu-1"] -> ["eu-1","eu-2"] instead of ` + inEU2, "unchanged 1",
		}},
		"the policy is deleted": {remove: &deleted, want: []string{
			"Unmatched deployments.apps bank/db region", strings.Replace("Unmatched "+kept, ",", " region,", 1), "unchanged 0",
		}},
		"the policy is no longer enforced": {apply: strings.Replace(policy, "Enforce", "DryRun", 1), want: []string{
			"Unenforced deployments.apps bank/db region", strings.Replace("Unenforced "+kept, ",", " region,", 1), "unchanged 0",
		}},
		"the policy leaves existing objects alone": {
			apply: strings.Replace(region, "Automatic", "NewOnly", 1), want: []string{"Kept " + kept, "unchanged 1"},
		},
		"the object is denied": {
			apply: strings.Replace(policy, "clusters contains", `errors contains "no" if input.metadata.name == "web"

    clusters contains`, 1),
			want: []string{"Denied deployments.apps shop/web region: no", "unchanged 1"},
		},
	}
}
