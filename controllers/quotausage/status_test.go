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

package quotausage

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
	"github.com/berth-dev/berth/internal/status"
	"github.com/berth-dev/berth/internal/watches"
)

var (
	pods    = schema.GroupResource{Resource: "pods"}
	widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}
)

// quotaInForce returns the facts of a quota without problems.
func quotaInForce() quotaFacts {
	q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "q", Generation: 4}}
	q.Spec.Hard = quotatest.Amounts("pods", "10")
	q.Status.Conditions = []metav1.Condition{{
		Type: placementv1.ConditionReady, Status: metav1.ConditionTrue, Reason: placementv1.ReasonInForce, LastTransitionTime: metav1.NewTime(time.Unix(100, 0)),
	}}
	return quotaFacts{
		Quota: q, Rules: &quota.Rules{Module: placementv1.QuotaModule{Digest: "sha256:1", Rego: "package berth.quota"}},
		Recount: &quota.Recount{Used: quotatest.Amounts("pods", "3"), Reservations: []placementv1.Reservation{{UID: "r"}}},
		Webhook: status.WebhookState{Generation: 4},
	}
}

// brief returns conditions as "status reason", keyed by type.
func brief(all []metav1.Condition) map[string]string {
	out := map[string]string{}
	for _, c := range all {
		out[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
	}
	return out
}

func TestComputeQuota(t *testing.T) {
	const (
		ready, current, exceeded = placementv1.ConditionReady, placementv1.ConditionUsageCurrent, placementv1.ConditionExceeded
		stalled                  = placementv1.ConditionStalled
	)
	missing := func(types map[schema.GroupResource]watches.State, missing ...schema.GroupResource) func(*quotaFacts) {
		return func(f *quotaFacts) { f.Recount.Missing, f.Types = missing, types }
	}
	tests := map[string]struct {
		change func(*quotaFacts)
		// want has the conditions that differ from those of a quota without problems.
		want map[string]string
		// message has a part of the message of each of them.
		message map[string]string
	}{
		"in force": {message: map[string]string{ready: "what exceeds the quota is denied"}},
		"warns":    {change: func(f *quotaFacts) { f.Quota.QuotaSpec().Mode = placementv1.ModeWarn }, want: map[string]string{ready: "True WarnMode"}},
		"dry run":  {change: func(f *quotaFacts) { f.Quota.QuotaSpec().Mode = placementv1.ModeDryRun }, want: map[string]string{ready: "True DryRunMode"}},
		"in Berth's own namespace": {
			change: func(f *quotaFacts) { f.Exempt, f.Untracked = true, []string{"nvidia.com/gpu"} }, want: map[string]string{ready: "False Exempt", stalled: "True Exempt"},
		},
		"names that count nothing": {
			change: func(f *quotaFacts) { f.Untracked = []string{"a/a", "b/b", "c/c", "d/d"} }, want: map[string]string{ready: "False NotTracked", stalled: "True NotTracked"},
			message: map[string]string{ready: "a/a, b/b, c/c and 1 more"},
		},
		"being counted": {
			change: missing(nil, pods, widgets), want: map[string]string{ready: "False Counting", current: "False Counting"},
			message: map[string]string{ready: "reading pods, widgets.example.com"},
		},
		"a type that may not be read": {
			change: missing(map[schema.GroupResource]watches.State{widgets: {Err: apierrors.NewForbidden(widgets, "", errors.New("no grant"))}}, pods, widgets),
			want:   map[string]string{ready: "False Forbidden", current: "False Forbidden"}, message: map[string]string{current: `resources: ["widgets"]`},
		},
		"a type that can't be read": {
			change: missing(map[schema.GroupResource]watches.State{widgets: {Err: errors.New("oh")}}, widgets),
			want:   map[string]string{ready: "False WatchFailed", current: "False WatchFailed"}, message: map[string]string{current: "reading widgets.example.com: oh"},
		},
		"the API server refuses the rules": {
			change: func(f *quotaFacts) { f.Webhook.Rejected = "no such thing" }, want: map[string]string{ready: "False WebhookRejected", stalled: "True WebhookRejected"},
			message: map[string]string{ready: "no such thing"},
		},
		"the API server refused the rules of before": {
			change: func(f *quotaFacts) { f.Webhook = status.WebhookState{Generation: 3, Rejected: "no such thing"} }, want: map[string]string{ready: "False WebhookPending"},
		},
		"the rules are not there yet": {change: func(f *quotaFacts) { f.Webhook.Generation = 3 }, want: map[string]string{ready: "False WebhookPending"}},
		"a rule without end":          {change: func(f *quotaFacts) { f.Webhook.Rejected = strings.Repeat("é", 9000) }, want: map[string]string{ready: "False WebhookRejected", stalled: "True WebhookRejected"}},
		"all of it used":              {change: func(f *quotaFacts) { f.Recount.Used = quotatest.Amounts("pods", "10") }},
		"used of what is not limited": {change: func(f *quotaFacts) { f.Recount.Used = quotatest.Amounts("pods", "10", "services", "1") }},
		"lowered below what is used":  {change: func(f *quotaFacts) { f.Recount.Used = quotatest.Amounts("pods", "11") }, want: map[string]string{exceeded: "True AboveHard"}, message: map[string]string{exceeded: "pods: 11 of 10"}},
		"exceeded and being counted": {change: func(f *quotaFacts) {
			f.Recount.Used, f.Recount.Missing = quotatest.Amounts("pods", "11"), []schema.GroupResource{widgets}
		}, want: map[string]string{ready: "False Counting", current: "False Counting", exceeded: "True AboveHard"}},
		"warns, not there yet": {change: func(f *quotaFacts) { f.Quota.QuotaSpec().Mode, f.Webhook.Generation = placementv1.ModeWarn, 0 }, want: map[string]string{ready: "False WebhookPending"}},
		"cluster-scoped, all the same": {change: func(f *quotaFacts) {
			q := &placementv1.ClusterScopedQuota{}
			q.Generation = 4
			q.Spec.Hard = quotatest.Amounts("pods", "10")
			f.Quota = q
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := quotaInForce()
			if test.change != nil {
				test.change(&f)
			}
			want := map[string]string{ready: "True InForce", current: "True Counted", exceeded: "False WithinHard"}
			maps.Copy(want, test.want)
			got := computeQuota(f)
			if diff := cmp.Diff(want, brief(got.Conditions)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, c := range got.Conditions {
				if !strings.Contains(c.Message, test.message[c.Type]) || c.Message == "" || len(c.Message) > 4096 || c.ObservedGeneration != 4 {
					t.Errorf("%+v, want a message with %q", c, test.message[c.Type])
				}
			}
			// An unchanged status is not written again.
			*f.Quota.QuotaStatus() = got
			if diff := cmp.Diff(got, computeQuota(f)); diff != "" {
				t.Errorf("again -want +got:\n%s", diff)
			}
		})
	}
}

func TestQuotaStatus(t *testing.T) {
	f := quotaInForce()
	old := f.Quota.DeepCopyObject()
	got := computeQuota(f)
	if since := got.Conditions[0].LastTransitionTime; !since.Equal(&metav1.Time{Time: time.Unix(100, 0)}) {
		t.Errorf("ready since %v", since)
	}
	got.Conditions = nil
	want := placementv1.QuotaStatus{
		ObservedGeneration: 4, Hard: quotatest.Amounts("pods", "10"), Used: quotatest.Amounts("pods", "3"), Summary: "pods: 3/10",
		Reservations: []placementv1.Reservation{{UID: "r"}}, Module: &placementv1.QuotaModule{Digest: "sha256:1", Rego: "package berth.quota"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(old, f.Quota.DeepCopyObject()); diff != "" {
		t.Errorf("the quota that was read has changed:\n%s", diff)
	}

	// The summary fits into the status for all names and amounts.
	hard := corev1.ResourceList{}
	for i := range 30 {
		hard[corev1.ResourceName(fmt.Sprintf("count/%s%d.example.com", strings.Repeat("w", 200), i))] = resource.MustParse("123456789123456789123456789n")
	}
	f.Quota.QuotaSpec().Hard, f.Recount.Used = hard, hard
	if got := computeQuota(f); len(got.Summary) > 256 {
		t.Errorf("%d: %s", len(got.Summary), got.Summary)
	}
}

func TestComputeNamespaces(t *testing.T) {
	r := &quota.Recount{Namespaces: map[string]corev1.ResourceList{"b": quotatest.Amounts("pods", "2"), "a": quotatest.Amounts("pods", "1")}}
	want := []placementv1.NamespaceUsage{{Namespace: "a", Used: quotatest.Amounts("pods", "1")}, {Namespace: "b", Used: quotatest.Amounts("pods", "2")}}
	if diff := cmp.Diff(want, computeNamespaces(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i := range 200 {
		r.Namespaces[fmt.Sprintf("n%03d", i)] = quotatest.Amounts("pods", "1")
	}
	if got := computeNamespaces(r); len(got) != placementv1.MaxNamespaces || got[0].Namespace != "a" {
		t.Errorf("%d, the first is %s", len(got), got[0].Namespace)
	}
	if got := computeNamespaces(&quota.Recount{}); got != nil {
		t.Errorf("%v", got)
	}
}

func TestStalledGoesFromAQuota(t *testing.T) {
	f := quotaInForce()
	f.Untracked = []string{"a/a"}
	*f.Quota.QuotaStatus() = computeQuota(f)
	if meta.FindStatusCondition(f.Quota.QuotaStatus().Conditions, placementv1.ConditionStalled) == nil {
		t.Error("a quota that counts nothing is not stalled")
	}
	f.Untracked = nil
	if healed := computeQuota(f); meta.FindStatusCondition(healed.Conditions, placementv1.ConditionStalled) != nil {
		t.Error("a sound quota is stalled")
	}
}

func TestComputeLimit(t *testing.T) {
	tests := map[string]struct {
		hook status.WebhookState
		of   limitedType
		want string
		// matched is the condition Matched; "" for the condition of a served type.
		matched string
		stalled bool
		message string
	}{
		"in force":         {hook: status.WebhookState{Generation: 2}, of: limitedType{Served: true}, want: "True InForce", message: "no quota covers"},
		"never limited":    {hook: status.WebhookState{Generation: 2}, of: limitedType{Served: true, Never: true}, want: "False Exempt", stalled: true, message: "widgets.example.com"},
		"not served":       {hook: status.WebhookState{Generation: 2}, want: "False NotServed", matched: "False NotServed", message: "widgets.example.com"},
		"refused":          {hook: status.WebhookState{Generation: 2, Rejected: "oh"}, of: limitedType{Served: true}, want: "False WebhookRejected", stalled: true, message: "oh"},
		"refused before":   {hook: status.WebhookState{Generation: 1, Rejected: "oh"}, of: limitedType{Served: true}, want: "False WebhookPending", message: "yet"},
		"not there yet":    {hook: status.WebhookState{Generation: 1}, of: limitedType{Served: true}, want: "False WebhookPending", message: "yet"},
		"never asked for":  {of: limitedType{Served: true}, want: "False WebhookPending", message: "yet"},
		"nothing to limit": {hook: status.WebhookState{Generation: 2}, of: limitedType{Served: true, Impossible: "no such name"}, want: "False NothingMatched", matched: "False NothingMatched", stalled: true, message: "no such name"},
		"never, and wrong": {hook: status.WebhookState{Rejected: "oh"}, of: limitedType{Never: true}, want: "False Exempt", matched: "False NotServed", stalled: true, message: "needs them to run"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "l", Generation: 2}}
			l.Spec.APIGroup, l.Spec.Resource = "example.com", "widgets"
			got := computeLimit(l, &quota.Rules{Module: placementv1.QuotaModule{Digest: "sha256:1"}}, test.hook, test.of)
			want := map[string]string{placementv1.ConditionReady: test.want, placementv1.ConditionMatched: "True Matched"}
			if test.matched != "" {
				want[placementv1.ConditionMatched] = test.matched
			}
			if test.stalled {
				want[placementv1.ConditionStalled] = "True " + strings.Fields(test.want)[1]
			}
			if diff := cmp.Diff(want, brief(got.Conditions)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if ready := meta.FindStatusCondition(got.Conditions, placementv1.ConditionReady); !strings.Contains(ready.Message, test.message) || got.ObservedGeneration != 2 || got.Module.Digest != "sha256:1" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestMatchedOfQuotas(t *testing.T) {
	served := match.NewServedTypes([]match.ServedType{{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}})
	widget := []schema.GroupResource{{Group: "example.com", Resource: "widget"}}
	for name, tc := range map[string]struct {
		reach          *quotaReach
		matched, ready string
		message        string
	}{
		"not known":        {nil, "", "True InForce", ""},
		"all":              {&quotaReach{Served: true}, "True Matched", "True InForce", ""},
		"nothing served":   {&quotaReach{Unserved: widget}, "False NotServed", "False NotServed", "widget.example.com (did you mean widgets.example.com?)"},
		"some served":      {&quotaReach{Unserved: widget, Served: true}, "False PartlyServed", "False PartlyServed", "(did you mean widgets.example.com?)"},
		"protected":        {&quotaReach{Impossible: "why", NoNamespaces: true, Served: true}, "False NothingMatched", "False NothingMatched", "why"},
		"no namespaces":    {&quotaReach{NoNamespaces: true, Served: true}, "False NoNamespaces", "True InForce", "spec.namespaceSelector"},
		"priority classes": {&quotaReach{UnknownClasses: []string{"gold"}, Served: true}, "False UnknownClass", "True InForce", "gold"},
		"device classes":   {&quotaReach{UnknownDeviceClasses: []string{"gpus"}, Served: true}, "False UnknownClass", "True InForce", "gpus"},
		"of no node":       {&quotaReach{AbsentResources: []string{"nvidia.com/gpus"}, Served: true}, "True Matched", "True InForce", "what the quota names exists, but no node has nvidia.com/gpus now"},
		"mistakes":         {&quotaReach{Doubts: []string{"spec.hard[cpu]: why"}, Served: true}, "True Matched", "True InForce", "Probable mistakes: spec.hard[cpu]: why"},
		"storage classes":  {&quotaReach{UnknownStorageClasses: []string{"fast-ssd"}, Served: true}, "False UnknownClass", "True InForce", "fast-ssd"},
	} {
		t.Run(name, func(t *testing.T) {
			f := quotaInForce()
			f.Reach, f.Served = tc.reach, served
			got := computeQuota(f).Conditions
			if of := brief(got); of[placementv1.ConditionMatched] != tc.matched || of[placementv1.ConditionReady] != tc.ready {
				t.Errorf("got %v", of)
			}
			if c := meta.FindStatusCondition(got, placementv1.ConditionMatched); c != nil && !strings.Contains(c.Message, tc.message) {
				t.Errorf("Matched says %q", c.Message)
			}
		})
	}
}
