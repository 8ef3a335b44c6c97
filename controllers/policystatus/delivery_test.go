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

package policystatus_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/policystatus"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/events"
)

func TestKeptClustersAreAbridged(t *testing.T) {
	account := delivery.NewAccount()
	account.Record(delivery.Key{Name: "a"}, []string{"p"}, delivery.Result{Kept: "a,b,c,d,e"})
	facts := sound()
	facts.State.Policy.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
	facts.Delivery, facts.DeliverySettled = account.Report("p"), true
	got := meta.FindStatusCondition(policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts).Conditions, placementv1.ConditionDelivered)
	if want := "it stays in a, b, c and 2 more"; got == nil || !strings.HasSuffix(got.Message, want) {
		t.Errorf("Delivered is %v, want a message that ends with %q", got, want)
	}
}

func TestRunning(t *testing.T) {
	key := func(name string) delivery.Key {
		return delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "shop", Name: name}
	}
	runs := delivery.Run{State: delivery.Running}
	starts := delivery.Run{State: delivery.NotRunning, Message: "cluster b: its health is Unhealthy"}
	unread := delivery.Run{State: delivery.RunUnknown, Reason: placementv1.ReasonForbidden, Message: "no grant; apply the ClusterRole"}
	for name, test := range map[string]struct {
		runs           []delivery.Run
		kept           string
		want, wantSent metav1.Condition
		count          *int32
		unsettled      bool
	}{
		"no system reports": {runs: []delivery.Run{{}}, wantSent: metav1.Condition{Status: "True", Reason: placementv1.ReasonDelivered}},
		"all run": {
			runs: []delivery.Run{runs, runs}, count: new(int32(2)),
			want:     metav1.Condition{Status: "True", Reason: placementv1.ReasonRunning, Message: "2 of 2 placed objects run in their clusters"},
			wantSent: metav1.Condition{Status: "True", Reason: placementv1.ReasonDelivered},
		},
		"one does not": {
			runs: []delivery.Run{runs, starts, {}}, count: new(int32(1)),
			want: metav1.Condition{
				Status: "False", Reason: placementv1.ReasonNotRunning,
				Message: "1 of 2 placed objects run in their clusters; the first that does not is deployments.apps shop/b: cluster b: its health is Unhealthy",
			},
			wantSent: metav1.Condition{Status: "True", Reason: placementv1.ReasonDelivered},
		},
		"not all objects are known yet": {
			runs: []delivery.Run{runs, runs}, count: new(int32(2)), unsettled: true,
			want:     metav1.Condition{Status: "False", Reason: placementv1.ReasonNotRunning, Message: "2 of 2 placed objects run in their clusters so far"},
			wantSent: metav1.Condition{Status: "False", Reason: placementv1.ReasonDelivering},
		},
		"reports can't be read": {
			runs:     []delivery.Run{starts, unread},
			want:     metav1.Condition{Status: "Unknown", Reason: placementv1.ReasonForbidden, Message: "no grant; apply the ClusterRole"},
			wantSent: metav1.Condition{Status: "True", Reason: placementv1.ReasonDelivered},
		},
		"a cluster is kept": {
			runs: []delivery.Run{starts}, kept: "a", count: new(int32(0)),
			want: metav1.Condition{
				Status: "False", Reason: placementv1.ReasonNotRunning,
				Message: "0 of 1 placed objects run in their clusters; the first that does not is deployments.apps shop/a: cluster b: its health is Unhealthy",
			},
			wantSent: metav1.Condition{Status: "False", Reason: placementv1.ReasonDelivering},
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := delivery.NewAccount()
			for i, run := range test.runs {
				account.Record(key(string(rune('a'+i))), []string{"p"}, delivery.Result{
					Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Systems: "karmada", Run: run, Kept: test.kept,
				})
			}
			facts := sound()
			facts.State.Policy.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
			facts.Delivery, facts.DeliverySettled = account.Report("p"), !test.unsettled
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			var running metav1.Condition
			if c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionRunning); c != nil {
				running = metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
			if diff := cmp.Diff(test.want, running); diff != "" {
				t.Errorf("Running (-want +got):\n%s", diff)
			}
			sent := meta.FindStatusCondition(got.Conditions, placementv1.ConditionDelivered)
			if sent == nil || sent.Status != test.wantSent.Status || sent.Reason != test.wantSent.Reason {
				t.Errorf("Delivered is %v", sent)
			}
			if diff := cmp.Diff(test.count, got.Delivery.Running); diff != "" {
				t.Errorf("Running objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartOfADecision checks that the condition Delivered names the first object of whose decision a system gets only a part.
func TestPartOfADecision(t *testing.T) {
	const note = "MultiKueue considers at most 20 clusters; the first 20 of 25 by name are nominated"
	for name, test := range map[string]struct {
		second delivery.Result
		want   metav1.Condition
	}{
		"delivered": {
			delivery.Result{}, metav1.Condition{
				Status: "True", Reason: placementv1.ReasonDelivered,
				Message: "2 of 2 placed objects are delivered; 1 are delivered without a part of their decision, the first is workloads.kueue.x-k8s.io shop/a: " + note,
			},
		},
		"another one failed": {
			delivery.Result{Failure: &delivery.Failure{Reason: placementv1.ReasonForbidden, Message: "no grant"}}, metav1.Condition{
				Status: "False", Reason: placementv1.ReasonForbidden,
				Message: "1 of 2 placed objects are delivered; 1 failed, the first is workloads.kueue.x-k8s.io shop/b: no grant; " +
					"1 are delivered without a part of their decision, the first is workloads.kueue.x-k8s.io shop/a: " + note,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := delivery.NewAccount()
			record := func(name string, result delivery.Result) {
				result.Resource, result.Systems = schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}, "kueue"
				account.Record(delivery.Key{GroupKind: schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}, Namespace: "shop", Name: name}, []string{"p"}, result)
			}
			record("a", delivery.Result{Note: note})
			record("b", test.second)
			facts := sound()
			facts.Delivery, facts.DeliverySettled = account.Report("p"), true
			got := meta.FindStatusCondition(policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts).Conditions, placementv1.ConditionDelivered)
			if got == nil {
				t.Fatal("there is no condition Delivered")
			}
			if diff := cmp.Diff(test.want, metav1.Condition{Status: got.Status, Reason: got.Reason, Message: got.Message}); diff != "" {
				t.Errorf("Delivered (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDelivered checks the condition Delivered and the status of delivery.
func TestDelivered(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	long := strings.Repeat("x", 2000)
	karmada := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}, PlacementDecision: &placementv1.PlacementDecisionDelivery{}}
	for name, test := range map[string]struct {
		mode      placementv1.Mode
		delivery  *placementv1.Delivery
		results   []delivery.Result
		unsettled bool
		want      *metav1.Condition
		status    *placementv1.DeliveryStatus
	}{
		"nothing to deliver": {},
		"no object yet": {
			delivery: karmada, want: &metav1.Condition{Status: "True", Reason: placementv1.ReasonDelivered, Message: "0 of 0 placed objects are delivered"},
			status: &placementv1.DeliveryStatus{Systems: "karmada,placementDecision", Placed: new(int32(0)), Delivered: new(int32(0))},
		},
		"one waits": {
			delivery: karmada, results: []delivery.Result{{Systems: "karmada"}, {Systems: "karmada", Pending: true}},
			want:   &metav1.Condition{Status: "False", Reason: placementv1.ReasonDelivering, Message: "1 of 2 placed objects are delivered"},
			status: &placementv1.DeliveryStatus{Systems: "karmada,placementDecision", Placed: new(int32(2)), Delivered: new(int32(1))},
		},
		"not all objects are known": {
			delivery: karmada, results: []delivery.Result{{Systems: "karmada"}}, unsettled: true,
			want:   &metav1.Condition{Status: "False", Reason: placementv1.ReasonDelivering, Message: "1 of 1 placed objects are delivered"},
			status: &placementv1.DeliveryStatus{Systems: "karmada,placementDecision", Placed: new(int32(1)), Delivered: new(int32(1))},
		},
		"some failed": {
			delivery: karmada, results: []delivery.Result{
				{Systems: "karmada"},
				{Systems: "karmada", Failure: &delivery.Failure{Reason: placementv1.ReasonForeignObject, Message: "written by rival"}},
				{Systems: "karmada", Failure: &delivery.Failure{Reason: placementv1.ReasonForbidden, Message: "no grant"}},
			},
			want: &metav1.Condition{
				Status: "False", Reason: placementv1.ReasonForeignObject,
				Message: "1 of 3 placed objects are delivered; 2 failed, the first is deployments.apps shop/b: written by rival",
			},
			status: &placementv1.DeliveryStatus{
				Systems: "karmada,placementDecision", Placed: new(int32(3)), Delivered: new(int32(1)),
			},
		},
		"a placement object of a system": {
			results: []delivery.Result{{Systems: "kueue"}}, want: &metav1.Condition{Status: "True", Reason: placementv1.ReasonDelivered, Message: "1 of 1 placed objects are delivered"},
			status: &placementv1.DeliveryStatus{Systems: "kueue", Placed: new(int32(1)), Delivered: new(int32(1))},
		},
		"in mode DryRun": {
			mode: placementv1.ModeDryRun, delivery: karmada, want: &metav1.Condition{Status: "False", Reason: placementv1.ReasonDryRunMode, Message: "a policy that is not enforced delivers nothing"},
			status: &placementv1.DeliveryStatus{Systems: "karmada,placementDecision", Placed: new(int32(0)), Delivered: new(int32(0))},
		},
		"in mode Warn": {
			mode: placementv1.ModeWarn, delivery: karmada, want: &metav1.Condition{Status: "False", Reason: placementv1.ReasonWarnMode, Message: "a policy that is not enforced delivers nothing"},
			status: &placementv1.DeliveryStatus{Systems: "karmada,placementDecision", Placed: new(int32(0)), Delivered: new(int32(0))},
		},
		"a long message": {
			delivery: karmada, results: []delivery.Result{{Failure: &delivery.Failure{Reason: placementv1.ReasonDeliveryFailed, Message: long}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := delivery.NewAccount()
			for i, result := range test.results {
				result.Resource = deployments
				account.Record(delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "shop", Name: string(rune('a' + i))}, []string{"p"}, result)
			}
			facts := sound()
			facts.State.Policy.Delivery = test.delivery
			if test.mode != "" {
				facts.State.Policy.Mode = test.mode
			}
			facts.Delivery, facts.DeliverySettled = account.Report("p"), !test.unsettled
			got := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
			if name == "a long message" {
				if message := meta.FindStatusCondition(got.Conditions, placementv1.ConditionDelivered).Message; len(message) > 4096 || !strings.Contains(message, ": xxx") {
					t.Errorf("the message of the failure has %d bytes", len(message))
				}
				return
			}
			var condition *metav1.Condition
			if c := meta.FindStatusCondition(got.Conditions, placementv1.ConditionDelivered); c != nil {
				condition = &metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
			if diff := cmp.Diff(test.want, condition); diff != "" {
				t.Errorf("Delivered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.status, got.Delivery); diff != "" {
				t.Errorf("status.delivery (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompliantAsDelivered checks that Compliant is False while Delivered is, and keeps a reason of its own.
func TestCompliantAsDelivered(t *testing.T) {
	const (
		compliant    = "True Compliant"
		notDelivered = "False NotDelivered"
		text         = "workloads may run in clusters that were not decided, or may not run in clusters that were: 0 of 1 placed objects are delivered"
	)
	remains := delivery.Result{Run: delivery.Run{State: delivery.NotRunning, Message: "it still runs in cluster b", Remains: true}}
	failed := delivery.Result{Failure: &delivery.Failure{Reason: placementv1.ReasonForeignObject, Message: "written by rival; delete it"}}
	for name, test := range map[string]struct {
		result        delivery.Result
		change        func(*policystatus.Facts)
		before        string
		want, message string
	}{
		"delivered": {result: delivery.Result{Run: delivery.Run{State: delivery.Running}}, want: compliant, message: "every existing object is as the policy decides"},
		"starts":    {result: delivery.Result{Run: delivery.Run{State: delivery.NotRunning, Message: "its health is Unhealthy"}}, want: compliant},
		"undecided": {result: delivery.Result{Undecided: true}, want: compliant},
		"in another cluster": {
			result: remains, want: notDelivered,
			message: text + "; 1 are still in clusters that they have to leave, the first is deployments.apps shop/web: it still runs in cluster b; if that lasts, see whether the system reaches the cluster, or delete the workload there",
		},
		"not in a cluster for a while": {
			result: delivery.Result{Run: delivery.Run{State: delivery.NotRunning, Message: "cluster a: Karmada has not applied the object yet", Absent: true}}, want: notDelivered,
			message: text + "; 1 are not in all of their clusters, the first is deployments.apps shop/web: cluster a: Karmada has not applied the object yet; if that lasts, see what keeps the system from bringing it there, or have the policy decide another cluster",
		},
		"in a cluster that it keeps": {result: delivery.Result{Kept: "b"}, want: notDelivered, message: text + "; 1 stay in clusters that they have to leave, until they run in their new clusters and the objects that they contain have left, the first is deployments.apps shop/web: it stays in b"},
		"failed":                     {result: failed, want: notDelivered, message: text + "; 1 failed, the first is deployments.apps shop/web: written by rival; delete it"},
		"pending":                    {result: delivery.Result{Pending: true}, want: notDelivered, message: text},
		"not enforced":               {result: remains, change: func(f *policystatus.Facts) { f.State.Policy.Mode = placementv1.ModeDryRun }, want: compliant},
		"remediation is off":         {result: remains, change: func(f *policystatus.Facts) { f.State.Policy.Remediation = placementv1.RemediationOff }, want: notDelivered},
		"remediation is off, and it is delivered": {change: func(f *policystatus.Facts) { f.State.Policy.Remediation = placementv1.RemediationOff }, want: "Unknown RemediationOff"},
		"the objects can't be read":               {result: remains, change: func(f *policystatus.Facts) { f.MatchedWatches.Synced = false }, want: notDelivered},
		"others differ":                           {result: remains, change: func(f *policystatus.Facts) { f.Report.Violations = 1 }, want: "False Violations", message: "1 of 5 objects differ from what the policy decides"},
		"the objects are being decided":           {result: remains, change: func(f *policystatus.Facts) { f.Report.Assessing = true }, before: compliant, want: notDelivered},
		"others differed before they are decided": {result: remains, change: func(f *policystatus.Facts) { f.Report.Assessing = true }, before: "False Violations", want: "False Violations"},
		"the first decisions":                     {result: remains, change: func(f *policystatus.Facts) { f.Report.Assessing = true }, want: notDelivered},
	} {
		t.Run(name, func(t *testing.T) {
			account := delivery.NewAccount()
			test.result.Resource = schema.GroupResource{Group: "apps", Resource: "deployments"}
			account.Record(delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "shop", Name: "web"}, []string{"p"}, test.result)
			facts, old := sound(), placementv1.PlacementPolicyStatus{}
			facts.State.Policy.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
			facts.Delivery, facts.DeliverySettled = account.Report("p"), true
			if test.change != nil {
				test.change(&facts)
			}
			if is, reason, kept := strings.Cut(test.before, " "); kept {
				old.Conditions = []metav1.Condition{{Type: placementv1.ConditionCompliant, Status: metav1.ConditionStatus(is), Reason: reason}}
			}
			got := policystatus.Compute(old, facts)
			is := meta.FindStatusCondition(got.Conditions, placementv1.ConditionCompliant)
			if now := string(is.Status) + " " + is.Reason; now != test.want || test.message != "" && is.Message != test.message {
				t.Errorf("Compliant is %s: %s, want %s: %s", now, is.Message, test.want, test.message)
			}
			// Nothing is written while nothing changes.
			if diff := cmp.Diff(got, policystatus.Compute(got, facts)); diff != "" {
				t.Errorf("the same facts again (-before +now):\n%s", diff)
			}
		})
	}
}

// TestCompliantIsKeptWithDelivered checks that a new leader, which has not looked at all objects yet, changes neither condition.
func TestCompliantIsKeptWithDelivered(t *testing.T) {
	facts := sound()
	facts.State.Policy.Delivery = &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
	account := delivery.NewAccount()
	account.Record(delivery.Key{Name: "a"}, []string{"p"}, delivery.Result{Kept: "b"})
	facts.Delivery, facts.DeliverySettled = account.Report("p"), true
	before := policystatus.Compute(placementv1.PlacementPolicyStatus{}, facts)
	facts.Delivery, facts.DeliverySettled = delivery.Report{}, false
	if diff := cmp.Diff(before, policystatus.Compute(before, facts)); diff != "" {
		t.Errorf("a new leader (-before +now):\n%s", diff)
	}
}

// TestNotificationsOfDelivery checks that a failing delivery is reported once for each reason, without the names of objects.
func TestNotificationsOfDelivery(t *testing.T) {
	of := func(reason, name, message string) placementv1.PlacementPolicyStatus {
		return placementv1.PlacementPolicyStatus{
			Conditions: []metav1.Condition{{Type: placementv1.ConditionDelivered, Status: metav1.ConditionFalse, Reason: reason, Message: "the first is " + name + ": " + message}},
			Delivery:   &placementv1.DeliveryStatus{Systems: "karmada", Placed: new(int32(3)), Delivered: new(int32(1))},
		}
	}
	foreign := of(placementv1.ReasonForeignObject, "web", "written by rival")
	told := func(reason string) []policystatus.Notification {
		return []policystatus.Notification{{Kind: events.DeliveryFailed, Message: reason + ": 1 of 3 placed objects are delivered; the condition Delivered has the first that failed, and why"}}
	}
	for name, tc := range map[string]struct {
		before, after placementv1.PlacementPolicyStatus
		want          []policystatus.Notification
	}{
		"the first failure": {placementv1.PlacementPolicyStatus{}, foreign, told(placementv1.ReasonForeignObject)},
		"a failure later":   {of(placementv1.ReasonDelivering, "", ""), foreign, told(placementv1.ReasonForeignObject)},
		"the same failure":  {foreign, foreign, nil},
		"another reason":    {foreign, of(placementv1.ReasonForbidden, "web", "written by rival"), told(placementv1.ReasonForbidden)},
		"another object":    {foreign, of(placementv1.ReasonForeignObject, "api", "written by rival"), nil},
		"no failure":        {foreign, of(placementv1.ReasonDelivering, "", ""), nil},
		"no delivery":       {foreign, placementv1.PlacementPolicyStatus{}, nil},
	} {
		if diff := cmp.Diff(tc.want, policystatus.Notifications(tc.before, tc.after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
