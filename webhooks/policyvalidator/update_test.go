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

package policyvalidator_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// naming is a catalog with names to suggest.
type naming struct{ catalog }

func (*naming) Served() *match.ServedTypes {
	return match.NewServedTypes([]match.ServedType{
		{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true},
		{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment", ShortNames: []string{"deploy"}, Namespaced: true},
	})
}

// TestUpdates checks that an update is refused only for errors in what it changes.
func TestUpdates(t *testing.T) {
	const sound, things, events = `package p
labels := {"a": "b"}`, `package p
labels := {"a": data.kubernetes.pod.x}`, `package p
labels := {"a": data.kubernetes.events.x}`
	rego := func(text string) func(*placementv1.PlacementPolicy) {
		return func(p *placementv1.PlacementPolicy) { p.Spec.Rego = text }
	}
	for name, tc := range map[string]struct {
		old    string
		change func(*placementv1.PlacementPolicy)
		// refused and warned are parts of the error and of a warning; "" for none.
		refused, warned string
	}{
		"misspelt": {sound, rego(things), `p.rego:2:17: berth_resource_not_served: the API server does not serve data.kubernetes.pod (did you mean pods?)`, ""},
		"listed": {sound, func(p *placementv1.PlacementPolicy) {
			p.Spec.Replicate = []placementv1.ReplicatedResource{{Resource: "pod"}}
		}, "spec.replicate: Invalid value: ", ""},
		"clusters": {sound, rego(`package p
errors contains "no" if count(data.clusters) == 0`), "does not serve data.clusters, the clusters of clusterprofiles.multicluster.x-k8s.io, managedclusters", ""},
		"misspelt before":   {things, rego(things + "\n# better"), "", "data.kubernetes.pod (did you mean pods?), which the API server does not serve"},
		"misspelt, another": {things, rego(strings.ReplaceAll(things, "pod", "podz")), "data.kubernetes.podz", ""},
		"just installed": {sound, rego(`package p
labels := {"a": data.kubernetes.carts.x}`), "", ""},
		"misspelt, priority":   {things, func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 7 }, "", "which the API server does not serve"},
		"ambiguous":            {sound, rego(events), "berth_ambiguous_resource", ""},
		"ambiguous before":     {events, rego(events + "\n# better"), "berth_ambiguous_resource", ""},
		"ambiguous, annotated": {events, func(p *placementv1.PlacementPolicy) { p.Annotations = map[string]string{"a": "b"} }, "", "berth_ambiguous_resource"},
		"ambiguous, priority":  {events, func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 7 }, "", "berth_ambiguous_resource"},
		"ambiguous, data":      {events, func(p *placementv1.PlacementPolicy) { p.Spec.Data = &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)} }, "", "berth_ambiguous_resource"},
		"broken, priority":     {"package", func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 7 }, "", "the version before has this mistake, too"},
		"broken, annotated":    {"package", func(p *placementv1.PlacementPolicy) { p.Annotations = map[string]string{"a": "b"} }, "", "the version before has this mistake, too"},
		"broken, predicates": {"package", func(p *placementv1.PlacementPolicy) {
			p.Spec.Predicates = &placementv1.Predicates{Names: []string{"NoSuch"}}
		}, "", "the version before has this mistake, too"},
		"sound, predicates": {sound, func(p *placementv1.PlacementPolicy) {
			p.Spec.Predicates = &placementv1.Predicates{Candidates: "Nodes", Names: []string{"NoSuch"}}
		}, "NoSuch", ""},
		"sound, text of another type": {sound, rego(`package p
labels := {"a": data.kubernetes.pods.x}`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &naming{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
			old := newPolicy(tc.old)
			next := old.DeepCopy()
			tc.change(next)
			warnings, err := v.ValidateUpdate(t.Context(), old, next)
			if (err != nil) != (tc.refused != "") || err != nil && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("error %v, want %q", err, tc.refused)
			}
			if joined := strings.Join(warnings, "; "); tc.refused == "" && ((tc.warned == "") != (joined == "") || !strings.Contains(joined, tc.warned)) {
				t.Errorf("warnings %q, want %q", warnings, tc.warned)
			}
		})
	}
}

// TestUpdatesOfBoundTexts checks that a source that an update does not change keeps its bindings.
func TestUpdatesOfBoundTexts(t *testing.T) {
	for name, tc := range map[string]struct {
		reads, group string
		// warned is part of a warning.
		warned string
	}{
		"a namesake": {"events", "events.k8s.io", "stays bound to events.events.k8s.io"},
		"moved":      {"events", "old.example", `data.kubernetes.events, which was bound to the type events.old.example (if the type has moved to another group, write data.resources["events.k8s.io/v1"].events or data.resources["v1"].events)`},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &naming{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}},
				Bound: func(string, types.UID, int64) policy.Bindings { return policy.Bindings{tc.reads: tc.group} }}
			old := newPolicy(`package p
labels := {"a": data.kubernetes.` + tc.reads + ".x}")
			next := old.DeepCopy()
			next.Spec.Priority = 7
			warnings, err := v.ValidateUpdate(t.Context(), old, next)
			if joined := strings.Join(warnings, "; "); err != nil || !strings.Contains(joined, tc.warned) || strings.Contains(joined, "mistake") {
				t.Errorf("error %v, warnings %q", err, warnings)
			}
			next.Spec.Rego += "\n# changed"
			if _, err := v.ValidateUpdate(t.Context(), old, next); err == nil {
				t.Error("a new text is taken, and ambiguous")
			}
		})
	}
}

// TestUpdatesThatLeaveTheMatchAlone checks that an error in a match that an update does not change is a warning.
func TestUpdatesThatLeaveTheMatchAlone(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &naming{}, Checker: allows(), Scales: definitions{}}
	old := newPolicy(`package p
labels := {}`)
	old.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"-": ""}}
	next := old.DeepCopy()
	next.Spec.Priority = 3
	if warnings, err := v.ValidateUpdate(t.Context(), old, next); err != nil || len(warnings) == 0 {
		t.Errorf("error %v, warnings %q", err, warnings)
	}
	next.Spec.Match.ResourceRules[0].Resources = []string{"pods"}
	if _, err := v.ValidateUpdate(t.Context(), old, next); err == nil {
		t.Error("a match that does not compile is taken")
	}
}

func TestWarningsOfMatches(t *testing.T) {
	v := &policyvalidator.Validator{Catalog: &naming{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}, OwnNamespace: "berth-system"}
	for resource, want := range map[string]string{
		"deployments": "",
		"deployment":  `spec.match.resourceRules[0].resources[0]: the API server does not serve "deployment" in apiGroups ["apps"], apiVersions ["v1"] (did you mean deployments?): this entry matches nothing until the API server serves the type`,
		"deploy":      "did you mean deployments?",
		"widgets":     `does not serve "widgets"`,
	} {
		p := newPolicy(`package p
labels := {}`)
		p.Spec.Match.ResourceRules[0].Resources = []string{resource}
		warnings, err := v.ValidateCreate(t.Context(), p)
		if joined := strings.Join(warnings, "; "); err != nil || (joined == "") != (want == "") || !strings.Contains(joined, want) {
			t.Errorf("%s: %v, warnings %q", resource, err, warnings)
		}
	}
	p := newPolicy(`package p
labels := {}`)
	p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "berth-system"}}
	if warnings, err := v.ValidateCreate(t.Context(), p); err != nil || !strings.Contains(strings.Join(warnings, "; "), "the policy can't match anything: spec.match.namespaceSelector: it selects berth-system only") {
		t.Errorf("%v, warnings %q", err, warnings)
	}
}

// TestNumbersInUpdates checks that a number of objects is compared with how many objects the policy matched before the update.
func TestNumbersInUpdates(t *testing.T) {
	const want = "spec.remediation.blastRadius.minObjects: the blast radius never pauses remediation while the policy matches fewer than 50 objects: " +
		"one change may leave all of them denied or without clusters. Set a smaller number, or percent: 100 to disable the guard"
	for name, tc := range map[string]struct {
		matched *int32
		change  func(*placementv1.PlacementPolicy)
		want    []string
	}{
		"few":     {matched: new(int32(7)), want: []string{want}},
		"many":    {matched: new(int32(70))},
		"unknown": {},
		"of another match": {matched: new(int32(7)), change: func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{Catalog: &naming{}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}}}
			old := newPolicy(`package p
labels := {"a": "b"}`)
			old.Spec.Mode, old.Status.Matched = placementv1.ModeEnforce, tc.matched
			next := old.DeepCopy()
			next.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{MinObjects: 50}
			if tc.change != nil {
				tc.change(next)
			}
			warnings, err := v.ValidateUpdate(t.Context(), old, next)
			if diff := cmp.Diff(tc.want, []string(warnings), cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}
