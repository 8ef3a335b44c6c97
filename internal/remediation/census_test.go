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

package remediation_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/census"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// verdictIn returns a verdict of an enforced policy with a mode of remediation.
func verdictIn(name string, mode placementv1.RemediationMode, changes ...placement.Change) *placement.Verdict {
	return &placement.Verdict{
		Policy:  &placement.Policy{Name: name, Mode: placementv1.ModeEnforce, Remediation: mode, FailurePolicy: placementv1.FailurePolicyFail},
		Changes: changes,
	}
}

func TestComplianceOf(t *testing.T) {
	const automatic, approved, manual = placementv1.RemediationAutomatic, placementv1.RemediationApproved, placementv1.RemediationManual
	value := "x"
	differs := placement.Change{Field: "labels", Key: "a", To: &value}
	recorded := placement.Change{Field: "labels", Key: "a", From: &value, To: &value}
	immutable := placement.Change{Field: "labels", Key: "a", To: &value, Immutable: "it is being deleted"}
	denied, failed, approvable := verdictIn("p", automatic), verdictIn("p", automatic), verdictIn("p", approved)
	denied.Decision.Errors, failed.Err = []string{"no"}, errors.New("no data")
	approvable.Released = verdictIn("p", approved, differs)
	approvedDenial := verdictIn("p", approved)
	approvedDenial.Released = verdictIn("p", approved)
	approvedDenial.Released.Decision.Errors = []string{"no"}
	unenforced := verdictIn("p", automatic, differs)
	unenforced.Policy.Mode = placementv1.ModeDryRun
	for name, test := range map[string]struct {
		verdicts []*placement.Verdict
		want     census.Compliance
	}{
		"AsDecided":      {verdicts: []*placement.Verdict{verdictIn("p", automatic)}, want: census.Placed},
		"NotRecorded":    {verdicts: []*placement.Verdict{verdictIn("p", automatic, recorded)}, want: census.Placed},
		"Differs":        {verdicts: []*placement.Verdict{verdictIn("p", automatic, differs)}, want: census.AwaitsPatch},
		"Approvable":     {verdicts: []*placement.Verdict{approvable}, want: census.AwaitsPatch},
		"ApprovalDenies": {verdicts: []*placement.Verdict{approvedDenial}, want: census.Violates},
		"Manual":         {verdicts: []*placement.Verdict{verdictIn("p", manual, differs)}, want: census.Violates},
		"NotEnforced":    {verdicts: []*placement.Verdict{unenforced}, want: census.Violates},
		"Immutable":      {verdicts: []*placement.Verdict{verdictIn("p", automatic, immutable)}, want: census.Violates},
		"Denied":         {verdicts: []*placement.Verdict{denied}, want: census.Violates},
		"Undecided":      {verdicts: []*placement.Verdict{failed}, want: census.Violates},
		"DeniedByOthers": {verdicts: []*placement.Verdict{verdictIn("q", automatic, differs), denied}, want: census.Violates},
		"OnlyNew":        {verdicts: []*placement.Verdict{verdictIn("p", placementv1.RemediationNewOnly, differs)}, want: census.Placed},
		"Unmatched":      {want: census.Placed},
	} {
		if got := remediation.ComplianceOf(test.verdicts); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestCensus(t *testing.T) {
	const automatic = placementv1.RemediationAutomatic
	value := "x"
	placed := []*placement.Verdict{verdictIn("p", automatic)}
	waiting := []*placement.Verdict{verdictIn("p", automatic, placement.Change{Field: "labels", Key: "a", To: &value}), verdictIn("q", automatic)}
	following := []*placement.Verdict{verdictIn("p", automatic)}
	following[0].Follows = "Deployment web"
	both, one := `["eu-1","eu-2"]`, `["eu-2"]`
	l := remediation.NewLedger()
	record := func(key remediation.Key, list *string, verdicts []*placement.Verdict) {
		l.Record(key, "", "1", verdicts, false)
		l.Place(key, list, verdicts)
	}
	expect := func(what string, limit int, want ...census.ClusterCount) {
		t.Helper()
		if diff := cmp.Diff(want, l.Census.Clusters(limit), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", what, diff)
		}
	}
	objects := func(placed, waiting int) census.Counts {
		return census.Counts{census.Placed: placed, census.AwaitsPatch: waiting}
	}
	web, db, pod := key("deployments", "shop", "web"), key("deployments", "shop", "db"), key("pods", "shop", "web")
	record(web, &both, placed)
	record(db, &one, waiting)
	record(pod, &both, following)
	record(key("deployments", "shop", "nowhere"), nil, waiting)
	record(key("deployments", "shop", "unmatched"), &both, nil)
	record(key("deployments", "shop", "old"), &both, []*placement.Verdict{verdictIn("p", placementv1.RemediationNewOnly)})
	expect("first", 9, census.ClusterCount{Cluster: "eu-1", Objects: objects(1, 0)}, census.ClusterCount{Cluster: "eu-2", Objects: objects(1, 1)})
	expect("bounded", 1, census.ClusterCount{Cluster: "eu-2", Objects: objects(1, 1)}, census.ClusterCount{Objects: objects(1, 0)})
	record(db, &both, placed)
	record(web, &one, waiting)
	expect("moved", 9, census.ClusterCount{Cluster: "eu-1", Objects: objects(1, 0)}, census.ClusterCount{Cluster: "eu-2", Objects: objects(1, 1)})
	l.ForgetPolicy("p")
	expect("without the policy", 9, census.ClusterCount{Cluster: "eu-2", Objects: objects(0, 1)})
	l.Forget(web)
	expect("without objects", 9)
}
