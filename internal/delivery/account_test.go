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

package delivery_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/delivery"
)

func TestAccount(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	key := func(name string) delivery.Key {
		return delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: name}
	}
	failed := func(message string) delivery.Result {
		return delivery.Result{Resource: deployments, Systems: "karmada", Failure: &delivery.Failure{Reason: "DeliveryFailed", Message: message}}
	}
	fine, pending := delivery.Result{Resource: deployments, Systems: "karmada,kubeFleet"}, delivery.Result{Resource: deployments, Systems: "karmada", Pending: true}
	a := delivery.NewAccount()
	step := func(what, object string, policies []string, result delivery.Result, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, a.Record(key(object), policies, result)); diff != "" {
			t.Errorf("%s: changed policies (-want +got):\n%s", what, diff)
		}
	}
	step("new", "b", []string{"p", "q"}, fine, "p", "q")
	step("the same", "b", []string{"p", "q"}, fine)
	step("a failure", "b", []string{"p", "q"}, failed("one"), "p", "q")
	step("the same failure", "b", []string{"p", "q"}, failed("one"))
	step("another failure", "b", []string{"p", "q"}, failed("two"), "p", "q")
	step("another object", "a", []string{"p"}, failed("three"), "p")
	step("a third object", "c", []string{"p"}, pending, "p")
	step("a fourth object", "d", []string{"p"}, fine, "p")
	want := delivery.Report{
		Placed: 4, Delivered: 1, Failed: 2, Systems: []string{"karmada", "kubeFleet"},
		FirstFailed: &delivery.ReportedObject{Key: key("a"), Result: failed("three")},
	}
	if diff := cmp.Diff(want, a.Report("p")); diff != "" {
		t.Errorf("report of p (-want +got):\n%s", diff)
	}
	partly := delivery.Result{Resource: deployments, Systems: "kueue", Note: "the first 20 of 25"}
	step("a part of a decision", "f", []string{"r"}, partly, "r")
	step("the same part", "f", []string{"r"}, partly)
	step("a part of another decision", "e", []string{"r"}, partly, "r")
	want = delivery.Report{
		Placed: 2, Delivered: 2, Noted: 2, Systems: []string{"kueue"}, FirstNoted: &delivery.ReportedObject{Key: key("e"), Result: partly},
	}
	if diff := cmp.Diff(want, a.Report("r")); diff != "" {
		t.Errorf("report of r (-want +got):\n%s", diff)
	}
	kept := delivery.Result{Resource: deployments, Systems: "karmada", Kept: "a", Run: delivery.Run{State: delivery.NotRunning, Message: "one"}}
	step("a kept cluster", "g", []string{"s"}, kept, "s")
	want = delivery.Report{
		Placed: 1, Reported: 1, Surging: 1, Systems: []string{"karmada"},
		FirstSurging: &delivery.ReportedObject{Key: key("g"), Result: kept}, FirstNotRunning: &delivery.ReportedObject{Key: key("g"), Result: kept},
	}
	if diff := cmp.Diff(want, a.Report("s")); diff != "" {
		t.Errorf("report of s (-want +got):\n%s", diff)
	}
	kept.Run.Message = "two"
	step("another report", "g", []string{"s"}, kept, "s")
	step("the same report", "g", []string{"s"}, kept)
	step("no policy any more", "b", nil, delivery.Result{}, "p", "q")
	if diff := cmp.Diff(delivery.Report{Systems: []string{}}, a.Report("q")); diff != "" {
		t.Errorf("report of q (-want +got):\n%s", diff)
	}
}
