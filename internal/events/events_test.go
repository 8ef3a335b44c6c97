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

package events_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
)

// emitted is the content of an event.
type emitted struct {
	About                      corev1.ObjectReference
	Type, Reason, Action, Note string
}

// ofStep is what follows the action of a step.
var ofStep = regexp.MustCompile(`-[0-9a-f]{8}$`)

// recorder keeps events, with the actions of steps as their kinds name them.
type recorder struct{ all []emitted }

func (r *recorder) Eventf(about, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	reference, ok := about.(*corev1.ObjectReference)
	if obj, stored := about.(client.Object); stored && !ok {
		reference = &corev1.ObjectReference{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
	}
	r.all = append(r.all, emitted{*reference, eventType, reason, ofStep.ReplaceAllString(action, ""), fmt.Sprintf(note, args...)})
}

// sumOf returns the sum of n events of a kind on objects in the namespace shop.
func sumOf(kind events.Kind, n int) events.Sum {
	return events.Sum{Alike: events.Alike{Kind: kind, Namespace: "shop", Policy: "p", Policies: `PlacementPolicy "p"`}, Events: n}
}

func TestEvents(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
	}}
	unnamed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "web-"},
	}}
	about := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
	policy := &corev1.ObjectReference{APIVersion: "placement.berth.dev/v1alpha1", Kind: "PlacementPolicy", Name: "p", UID: "q"}
	quota := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q", UID: "q"}}
	shared := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", UID: "q"}}
	tests := map[string]struct {
		emit func(*events.Recorder)
		want emitted
	}{
		"Denied":           {func(r *events.Recorder) { r.OnObject(obj, "shop", events.Denied, "no %d") }, emitted{about, "Warning", "PlacementDenied", "Admit", "no %d"}},
		"EvaluationFailed": {func(r *events.Recorder) { r.OnObject(obj, "shop", events.EvaluationFailed, "oh") }, emitted{about, "Warning", "PlacementEvaluationFailed", "Admit", "oh"}},
		"QuotaUnchecked":   {func(r *events.Recorder) { r.OnObject(obj, "shop", events.QuotaUnchecked, "too large") }, emitted{about, "Warning", "QuotaUnchecked", "Admit", "too large"}},
		"Remediated":       {func(r *events.Recorder) { r.OnObject(obj, "shop", events.Remediated, "done") }, emitted{about, "Normal", "PlacementRemediated", "Remediate", "done"}},
		"Failed":           {func(r *events.Recorder) { r.OnObject(obj, "shop", events.RemediationFailed, "oh") }, emitted{about, "Warning", "PlacementRemediationFailed", "Remediate", "oh"}},
		"Stopped":          {func(r *events.Recorder) { r.OnObject(obj, "shop", events.RemediationStopped, "oh") }, emitted{about, "Warning", "PlacementRemediationStopped", "Remediate", "oh"}},
		"Paused":           {func(r *events.Recorder) { r.On(policy, events.RemediationPaused, "too many") }, emitted{*policy, "Warning", "PlacementRemediationPaused", "Remediate", "too many"}},
		"PlanWaits":        {func(r *events.Recorder) { r.On(policy, events.PlanWaits, "3 objects") }, emitted{*policy, "Normal", "PlacementPlanWaiting", "Remediate", "3 objects"}},
		"PlanApproved":     {func(r *events.Recorder) { r.On(policy, events.PlanApproved, "by me") }, emitted{*policy, "Normal", "PlacementPlanApproved", "Remediate", "by me"}},
		"PlanNotApproved":  {func(r *events.Recorder) { r.On(policy, events.PlanNotApproved, "none") }, emitted{*policy, "Warning", "PlacementPlanNotApproved", "Remediate", "none"}},
		"PlanStarted":      {func(r *events.Recorder) { r.On(policy, events.PlanStarted, "3 objects") }, emitted{*policy, "Normal", "PlacementPlanStarted", "Remediate", "3 objects"}},
		"PlanCompleted":    {func(r *events.Recorder) { r.On(policy, events.PlanCompleted, "3 objects") }, emitted{*policy, "Normal", "PlacementPlanCompleted", "Remediate", "3 objects"}},
		"StageReached":     {func(r *events.Recorder) { r.On(policy, events.StageReached, "canary") }, emitted{*policy, "Normal", "PlacementStageReached", "RollOut", "canary"}},
		"StageWaits":       {func(r *events.Recorder) { r.On(policy, events.StageWaits, "prod") }, emitted{*policy, "Normal", "PlacementStageWaiting", "RollOut", "prod"}},
		"RolloutPaused":    {func(r *events.Recorder) { r.On(policy, events.RolloutPaused, "failed") }, emitted{*policy, "Warning", "PlacementRolloutPaused", "RollOut", "failed"}},
		"RolloutCompleted": {func(r *events.Recorder) { r.On(policy, events.RolloutCompleted, "all") }, emitted{*policy, "Normal", "PlacementRolloutCompleted", "RollOut", "all"}},
		"RolledBack":       {func(r *events.Recorder) { r.On(policy, events.RolledBack, "to 3") }, emitted{*policy, "Normal", "PlacementRolledBack", "RollOut", "to 3"}},
		"Resumed":          {func(r *events.Recorder) { r.On(policy, events.RemediationResumed, "well") }, emitted{*policy, "Normal", "PlacementRemediationResumed", "Remediate", "well"}},
		"RemoteFailing":    {func(r *events.Recorder) { r.On(policy, events.RemoteFailing, "refused") }, emitted{*policy, "Warning", "RemoteEngineFailing", "Ask", "refused"}},
		"RemoteRecovered":  {func(r *events.Recorder) { r.On(policy, events.RemoteRecovered, "answers") }, emitted{*policy, "Normal", "RemoteEngineRecovered", "Ask", "answers"}},
		"PolicyReady":      {func(r *events.Recorder) { r.On(policy, events.PolicyReady, "decides") }, emitted{*policy, "Normal", "PolicyReady", "Report", "decides"}},
		"PolicyNotReady":   {func(r *events.Recorder) { r.On(policy, events.PolicyNotReady, "NotServed") }, emitted{*policy, "Warning", "PolicyNotReady", "Report", "NotServed"}},
		"PolicyUndecided":  {func(r *events.Recorder) { r.On(policy, events.PolicyUndecided, "2 objects") }, emitted{*policy, "Warning", "PolicyUndecided", "Report", "2 objects"}},
		"PolicyDecided":    {func(r *events.Recorder) { r.On(policy, events.PolicyDecided, "all") }, emitted{*policy, "Normal", "PolicyDecided", "Report", "all"}},
		"PolicyViolated":   {func(r *events.Recorder) { r.On(policy, events.PolicyViolated, "2 objects") }, emitted{*policy, "Warning", "PolicyViolated", "Report", "2 objects"}},
		"Hostile": {
			func(r *events.Recorder) { r.OnObject(obj, "shop", events.Denied, "no\n\x1b[1mPolicy y\u202e") },
			emitted{about, "Warning", "PlacementDenied", "Admit", `no\n\u001b[1mPolicy y\u202e`},
		},
		"QuotaDenied": {
			func(r *events.Recorder) { r.QuotaDenied(quota, "shop", "exceeded quota: q") },
			emitted{corev1.ObjectReference{Namespace: "shop", Name: "q", UID: "q"}, "Warning", "QuotaDenied", "Admit", "in namespace shop: exceeded quota: q"},
		},
		"QuotaOfTheClusterDenied": {
			func(r *events.Recorder) { r.QuotaDenied(shared, "shop", "exceeded quota: q, used: pods=1") },
			emitted{corev1.ObjectReference{Name: "q", UID: "q"}, "Warning", "QuotaDenied", "Admit", "a request was denied because of this object; the response to the request names the namespace and the amounts"},
		},
		"SumInANamespace": {
			func(r *events.Recorder) { r.OnSum(t.Context(), nil, sumOf(events.RemediationFailed, 3)) },
			emitted{
				corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: "shop", Name: "shop"},
				"Warning", "PlacementRemediationFailed", "Sum",
				`PlacementPolicy "p": 3 more patches or evictions failed, possibly for other reasons than those in the Events on the first objects`,
			},
		},
		"NameToBeMade": {
			func(r *events.Recorder) { r.OnObject(unnamed, "shop", events.Denied, "no") },
			emitted{corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web"}, "Warning", "PlacementDenied", "Admit", "no"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			tc.emit(events.New(r))
			if diff := cmp.Diff([]emitted{tc.want}, r.all); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotesAreBounded checks that notes do not exceed the length that the events API accepts.
func TestNotesAreBounded(t *testing.T) {
	for _, n := range []int{0, 1023, 1024, 1025, 5000} {
		r := &recorder{}
		events.New(r).OnObject(&unstructured.Unstructured{Object: map[string]any{}}, "", events.Denied, "x"+strings.Repeat("é", n))
		note := r.all[0].Note
		if len(note) > 1024 || !utf8.ValidString(note) {
			t.Errorf("note of %d bytes", len(note))
		}
		if len(note) < min(1+2*n, 1020) {
			t.Errorf("of %d bytes %d are left", 1+2*n, len(note))
		}
	}
}

// sink counts the requests to the API server.
type sink struct{ created, updated int }

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.created++
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.updated++
	return e, nil
}

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.updated++
	return e, nil
}

// TestRepeatedEventsAreASeries checks that repeated events on an object become one Event with a count: events of a kind, and those of steps
// that are repeated.
func TestRepeatedEventsAreASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		server := &sink{}
		broadcaster := clientevents.NewBroadcaster(server)
		defer broadcaster.Shutdown()
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		r := events.New(broadcaster.NewRecorder(runtime.NewScheme(), "berth"))
		emit := func(i int, kind events.Kind, message string) {
			r.OnObject(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": strconv.Itoa(i)},
			}}, "shop", kind, message)
			synctest.Wait()
		}
		for i := range 50 {
			emit(i, events.RemediationFailed, fmt.Sprintf("try %d", i))
		}
		if server.created != 1 || server.updated > 1 {
			t.Errorf("%d Events were created, and %d written again, for failures of one object", server.created, server.updated)
		}
		*server = sink{}
		for i := range 50 {
			emit(i, events.Remediated, fmt.Sprintf("to cluster %d", i%2))
		}
		if server.created != 2 || server.updated > 2 {
			t.Errorf("%d Events were created, and %d written again, for moves of one object between two clusters", server.created, server.updated)
		}
		*server = sink{}
		for i := range 3 {
			r.OnSum(t.Context(), nil, sumOf(events.RemediationFailed, i))
			synctest.Wait()
		}
		if server.created != 3 || server.updated > 0 {
			t.Errorf("%d Events were created, and %d written again, for three sums", server.created, server.updated)
		}
	})
}
