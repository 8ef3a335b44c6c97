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

package quota_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
	"github.com/berth-dev/berth/test/budget"
)

func TestRecount(t *testing.T) {
	c := newMeter()
	c.replace(t, pods, object("a", "a", "1", withCPU("500m")), object("b", "b", "1", withCPU("1")), object("c", "c", "1", inNamespace("other"), withCPU("1")),
		object("d", "d", "1", inNamespace("third"), withPhase("Failed")))
	ours := everywhere
	ours.Selects = func(namespace string) bool { return namespace == "ns" }
	charge := func(uid string, delta corev1.ResourceList, lasts time.Duration) placementv1.Reservation {
		return placementv1.Reservation{UID: uid, Resource: "pods", Namespace: "ns", ObjectUID: uid, Delta: delta, Expires: metav1.NewTime(now.Add(lasts))}
	}
	chargeWidget := charge("w", quotatest.Amounts("count/widgets.example.com", "1"), time.Minute)
	chargeWidget.Resource = widgets.String()
	silent := everywhere
	silent.NotServed = func(t schema.GroupResource) bool { return t == widgets }
	removed := silent
	removed.Removed = silent.NotServed
	hard := quotatest.Amounts("pods", "9", "requests.cpu", "9")
	stale := newQuota(quotatest.Amounts("pods", "9", "count/widgets.example.com", "9"), quotatest.Amounts("pods", "7", "count/widgets.example.com", "7"))
	stale.Generation++
	terminating := newQuota(hard, nil)
	terminating.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	tests := map[string]struct {
		quota *placementv1.ScopedQuota
		world quota.RecountInput
		want  quota.Recount
	}{
		"one namespace": {quota: newQuota(hard, quotatest.Amounts("pods", "7")), world: ours, want: quota.Recount{
			Used: quotatest.Amounts("pods", "2", "requests.cpu", "1500m"), Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2", "requests.cpu", "1500m")},
		}},
		"all of them": {quota: newQuota(hard, nil), world: everywhere, want: quota.Recount{
			Used: quotatest.Amounts("pods", "3", "requests.cpu", "2500m"), Namespaces: map[string]corev1.ResourceList{
				"ns": quotatest.Amounts("pods", "2", "requests.cpu", "1500m"), "other": quotatest.Amounts("pods", "1", "requests.cpu", "1"),
			},
		}},
		"nothing matches": {quota: terminating, world: everywhere, want: quota.Recount{Used: quotatest.Amounts("pods", "0", "requests.cpu", "0")}},
		"charges under way are in used, not in the breakdown": {
			quota: newQuota(hard, nil, charge("x", quotatest.Amounts("pods", "1", "requests.cpu", "2"), time.Minute), charge("y", quotatest.Amounts("pods", "1"), time.Second)), world: ours,
			want: quota.Recount{
				Used: quotatest.Amounts("pods", "4", "requests.cpu", "3500m"), Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2", "requests.cpu", "1500m")},
				Reservations: []placementv1.Reservation{charge("x", quotatest.Amounts("pods", "1", "requests.cpu", "2"), time.Minute), charge("y", quotatest.Amounts("pods", "1"), time.Second)},
				Next:         now.Add(time.Second),
			},
		},
		"a charge of what hard does not name any more": {
			quota: newQuota(quotatest.Amounts("pods", "9"), nil, charge("x", quotatest.Amounts("pods", "1", "requests.cpu", "2"), time.Minute)), world: ours,
			want: quota.Recount{
				Used: quotatest.Amounts("pods", "3"), Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2")},
				Reservations: []placementv1.Reservation{charge("x", quotatest.Amounts("pods", "1", "requests.cpu", "2"), time.Minute)}, Next: now.Add(time.Minute),
			},
		},
		"what is not known is as it was": {
			quota: newQuota(quotatest.Amounts("pods", "9", "services", "9", "count/widgets.example.com", "9"), quotatest.Amounts("pods", "7", "services", "7")), world: ours,
			want: quota.Recount{
				Used: quotatest.Amounts("pods", "2", "services", "7"), Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2")},
				Missing: []schema.GroupResource{{Resource: "services"}, widgets},
			},
		},
		"what was counted for another spec is not known": {quota: stale, world: ours, want: quota.Recount{
			Used: quotatest.Amounts("pods", "2"), Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2")}, Missing: []schema.GroupResource{widgets},
		}},
		"a charge of a type that was removed": {
			quota: newQuota(quotatest.Amounts("pods", "9", "count/widgets.example.com", "9"), quotatest.Amounts("pods", "7", "count/widgets.example.com", "1"), chargeWidget), world: removed,
			want: quota.Recount{
				Used: quotatest.Amounts("pods", "3", "count/widgets.example.com", "1"), Unserved: []schema.GroupResource{widgets},
				Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2"), "other": quotatest.Amounts("pods", "1")},
			},
		},
		"a charge of a type of which nothing was counted, and that was removed": {
			quota: newQuota(quotatest.Amounts("count/widgets.example.com", "9"), nil, chargeWidget), world: removed,
			want: quota.Recount{Used: quotatest.Amounts("count/widgets.example.com", "0")},
		},
		"a charge of a type that does not respond": {
			quota: newQuota(quotatest.Amounts("count/widgets.example.com", "9"), quotatest.Amounts("count/widgets.example.com", "1"), chargeWidget), world: silent,
			want: quota.Recount{
				Used: quotatest.Amounts("count/widgets.example.com", "1"), Unserved: []schema.GroupResource{widgets},
				Reservations: []placementv1.Reservation{chargeWidget}, Next: now.Add(time.Minute),
			},
		},
		"what counts nothing is not used": {quota: newQuota(quotatest.Amounts("nvidia.com/gpu", "9", "pods", "9"), nil), world: ours, want: quota.Recount{
			Used: quotatest.Amounts("pods", "2"), Namespaces: map[string]corev1.ResourceList{"ns": quotatest.Amounts("pods", "2")},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := c.recount(t, test.quota, test.world)
			if test.want.Namespaces == nil {
				test.want.Namespaces = map[string]corev1.ResourceList{}
			}
			if diff := cmp.Diff(&test.want, got, sameAmounts, cmpopts.IgnoreFields(quota.Recount{}, "Revision")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRecountAgainstUpstream checks that the recount counts what Kubernetes' controller counts, for every scope and
// name.
func TestRecountAgainstUpstream(t *testing.T) {
	for seed := range int64(budget.Rounds(1)) {
		w := newWorld(t, seed, 40, 0)
		c := newMeter()
		objects := map[schema.GroupResource][]runtime.Object{}
		for range 60 {
			objects[pods] = append(objects[pods], w.pod())
			objects[schema.GroupResource{Resource: "services"}] = append(objects[schema.GroupResource{Resource: "services"}], w.service())
			objects[schema.GroupResource{Resource: "persistentvolumeclaims"}] = append(objects[schema.GroupResource{Resource: "persistentvolumeclaims"}], w.claim())
		}
		for _, counted := range []schema.GroupResource{widgets, {Resource: "configmaps"}, {Resource: "secrets"}} {
			objects[counted] = make([]runtime.Object, w.rand.IntN(5))
		}
		for resource, of := range objects {
			var content []*unstructured.Unstructured
			for i, o := range of {
				raw := map[string]any{}
				if o != nil {
					text, err := json.Marshal(o)
					if err != nil {
						t.Fatal(err)
					}
					if err := json.Unmarshal(text, &raw); err != nil {
						t.Fatal(err)
					}
				}
				raw["metadata"] = map[string]any{"namespace": "ns", "name": fmt.Sprint(i), "uid": fmt.Sprint(i), "resourceVersion": "1"}
				content = append(content, &unstructured.Unstructured{Object: raw})
			}
			c.replace(t, resource, content...)
		}
		for i, q := range w.quotas {
			q.Status.Used, q.Status.Reservations = nil, nil
			got, err := c.Recount(t.Context(), q, w.rules[i], everywhere)
			if err != nil {
				t.Fatal(err)
			}
			want := corev1.ResourceList{}
			equivalent := upstreamQuota(q)
			for resource, of := range objects {
				evaluator := w.oracle.of(resource)
				tracked := evaluator.MatchingResources(upstream.ResourceNames(q.Spec.Hard))
				for _, name := range tracked {
					want = upstream.Add(want, zeros(corev1.ResourceList{name: {}}))
				}
				for _, o := range of {
					if matches, err := evaluator.Matches(&equivalent, o); err != nil || !matches {
						continue
					}
					usage, err := evaluator.Usage(o)
					if err != nil {
						t.Fatal(err)
					}
					want = upstream.Add(want, upstream.Mask(usage, tracked))
				}
			}
			if diff := cmp.Diff(want, got.Used, sameAmounts); diff != "" {
				text, _ := json.Marshal(q.Spec)
				t.Errorf("seed %d, %s: -upstream +got:\n%s", seed, text, diff)
			}
		}
	}
}

// TestTypes checks that a name in hard counts the type whose evaluator Kubernetes has for the name.
func TestTypes(t *testing.T) {
	claims, services := schema.GroupResource{Resource: "persistentvolumeclaims"}, schema.GroupResource{Resource: "services"}
	counted := map[corev1.ResourceName]schema.GroupResource{
		"pods": pods, "cpu": pods, "requests.memory": pods, "limits.ephemeral-storage": pods, "hugepages-2Mi": pods, "requests.hugepages-1Gi": pods, "count/pods": pods,
		"requests.nvidia.com/gpu": pods, "requests.deviceclass.resource.kubernetes.io/gpu": pods,
		"services": services, "services.nodeports": services, "services.loadbalancers": services, "count/services": services,
		"persistentvolumeclaims": claims, "requests.storage": claims, "count/persistentvolumeclaims": claims,
		"gold.storageclass.storage.k8s.io/requests.storage": claims, "gold.storageclass.storage.k8s.io/persistentvolumeclaims": claims,
		// A storage class may have this name, which the pod evaluator mistakes for an extended resource.
		"requests.gold.storageclass.storage.k8s.io/persistentvolumeclaims": claims,
		"configmaps": {Resource: "configmaps"}, "count/configmaps": {Resource: "configmaps"}, "secrets": {Resource: "secrets"},
		"replicationcontrollers": {Resource: "replicationcontrollers"}, "resourcequotas": {Resource: "resourcequotas"},
		"count/deployments.apps": {Group: "apps", Resource: "deployments"}, "count/widgets.example.com": widgets,
		"count/resourceclaims.resource.k8s.io": {Group: "resource.k8s.io", Resource: "resourceclaims"},
	}
	e := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	for name, want := range counted {
		types, untracked := e.Types(&placementv1.QuotaSpec{Hard: corev1.ResourceList{name: {}}})
		if diff := cmp.Diff(map[schema.GroupResource][]corev1.ResourceName{want: {name}}, types); diff != "" || len(untracked) != 0 {
			t.Errorf("%s: untracked %v, -want +got:\n%s", name, untracked, diff)
		}
	}
	// Extended resources are only counted by their requests. Types that are never matched must not be counted, nor what is no name.
	for _, name := range []corev1.ResourceName{
		"nvidia.com/gpu", "limits.nvidia.com/gpu", "count/events", "count/events.events.k8s.io",
		"count/leases.coordination.k8s.io", "count/scopedquotas.placement.berth.dev", "storage",
		"count/", "count/*", "count/*.*", "count/*.coordination.k8s.io", "",
	} {
		types, untracked := e.Types(&placementv1.QuotaSpec{Hard: corev1.ResourceList{name: {}}})
		if diff := cmp.Diff([]corev1.ResourceName{name}, untracked); diff != "" || len(types) != 0 {
			t.Errorf("%s: types %v, -want +got:\n%s", name, types, diff)
		}
	}
	hard := quotatest.Amounts("services", "1", "count/pods", "1", "pods", "1", "nvidia.com/gpu", "1", "amd.com/gpu", "1")
	types, untracked := e.Types(&placementv1.QuotaSpec{Hard: hard})
	if diff := cmp.Diff(map[schema.GroupResource][]corev1.ResourceName{pods: {"count/pods", "pods"}, services: {"services"}}, types); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.ResourceName{"amd.com/gpu", "nvidia.com/gpu"}, untracked); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTypesAgainstUpstream checks that every name that Kubernetes' evaluators measure is counted for their types and no
// others.
func TestTypesAgainstUpstream(t *testing.T) {
	e := quota.NewEvaluators(newMeter().clock, devices())
	o := newOracle(newMeter().clock, upstreamDevices())
	for _, evaluator := range []upstream.Evaluator{
		upstreamDevices(), core.NewPodEvaluator(nil, newMeter().clock), core.NewServiceEvaluator(nil), core.NewPersistentVolumeClaimEvaluator(nil),
		generic.NewObjectCountEvaluator(corev1.Resource("secrets"), nil, corev1.ResourceSecrets),
	} {
		for _, group := range names {
			for _, name := range group {
				types, _ := e.Types(&placementv1.QuotaSpec{Hard: corev1.ResourceList{name: {}}})
				want := len(o.of(evaluator.GroupResource()).MatchingResources([]corev1.ResourceName{name})) > 0
				if _, got := types[evaluator.GroupResource()]; got != want {
					t.Errorf("%s for %s: %v, want %v", name, evaluator.GroupResource(), got, want)
				}
			}
		}
	}
}

func TestExceeded(t *testing.T) {
	tests := map[string]struct {
		hard, used corev1.ResourceList
		want       []corev1.ResourceName
	}{
		"nothing":     {},
		"below":       {hard: quotatest.Amounts("pods", "2"), used: quotatest.Amounts("pods", "1")},
		"equal":       {hard: quotatest.Amounts("pods", "1", "cpu", "1"), used: quotatest.Amounts("pods", "1", "cpu", "1000m")},
		"above":       {hard: quotatest.Amounts("pods", "1", "cpu", "1", "memory", "1Gi"), used: quotatest.Amounts("pods", "2", "cpu", "1001m", "memory", "1Gi"), want: []corev1.ResourceName{"cpu", "pods"}},
		"not known":   {hard: quotatest.Amounts("pods", "0")},
		"not limited": {hard: quotatest.Amounts("pods", "1"), used: quotatest.Amounts("services", "5")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := quota.Exceeded(test.hard, test.used)
			if len(got)+len(test.want) > 0 && !cmp.Equal(test.want, got) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	long := strings.Repeat("a", 60)
	tests := map[string]struct {
		hard, used corev1.ResourceList
		want       string
	}{
		"nothing":     {},
		"one":         {hard: quotatest.Amounts("pods", "10"), used: quotatest.Amounts("pods", "3"), want: "pods: 3/10"},
		"not known":   {hard: quotatest.Amounts("pods", "10"), want: "pods: ?/10"},
		"not limited": {hard: quotatest.Amounts("pods", "10"), used: quotatest.Amounts("pods", "3", "services", "4"), want: "pods: 3/10"},
		"first ones first": {
			hard: quotatest.Amounts("configmaps", "1", "memory", "1Gi", "requests.cpu", "4", "pods", "10", "count/a.b", "2"),
			used: quotatest.Amounts("requests.cpu", "1500m", "memory", "512Mi", "pods", "3"), want: "pods: 3/10, requests.cpu: 1500m/4, memory: 512Mi/1Gi, +2 more",
		},
		"others by name": {hard: quotatest.Amounts("secrets", "1", "configmaps", "2"), used: quotatest.Amounts("secrets", "0"), want: "configmaps: ?/2, secrets: 0/1"},
		"long names":     {hard: quotatest.Amounts(long, "1"), want: long[:45] + "...: ?/1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := quota.Summary(test.hard, test.used); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestRecountOfATakenName checks creates whose name is in use, which fail unless the object is deleted first. They take
// no more than they would after the deletion.
func TestRecountOfATakenName(t *testing.T) {
	c := newMeter()
	c.replace(t, pods, object("taken", "a", "1", withCPU("1")))
	charge := func(cpu, count string) placementv1.Reservation {
		return placementv1.Reservation{UID: "x", Resource: "pods", Namespace: "ns", Name: "taken", ObjectUID: "b", Delta: quotatest.Amounts("requests.cpu", cpu, "pods", count), Expires: metav1.NewTime(now.Add(time.Minute))}
	}
	hard := quotatest.Amounts("pods", "9", "requests.cpu", "9")
	for name, test := range map[string]struct {
		cpu string
		// want is used while the object exists, and after is used after its deletion.
		want, after corev1.ResourceList
	}{
		"less":   {cpu: "500m", want: quotatest.Amounts("pods", "1", "requests.cpu", "1"), after: quotatest.Amounts("pods", "1", "requests.cpu", "500m")},
		"more":   {cpu: "3", want: quotatest.Amounts("pods", "1", "requests.cpu", "3"), after: quotatest.Amounts("pods", "1", "requests.cpu", "3")},
		"scoped": {cpu: "3", want: quotatest.Amounts("pods", "1", "requests.cpu", "3"), after: quotatest.Amounts("pods", "1", "requests.cpu", "3")},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuota(hard, nil, charge(test.cpu, "1"))
			if name == "scoped" {
				// With this scope, the quota does not count the object.
				q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
			}
			c.replace(t, pods, object("taken", "a", "1", withCPU("1")))
			got := c.recount(t, q, everywhere)
			if diff := cmp.Diff(test.want, got.Used, sameAmounts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(got.Reservations) != 1 || got.Reservations[0].UID == "x" {
				t.Errorf("%+v: want one that its request does not give back, since not all of it is used", got.Reservations)
			}
			c.replace(t, pods)
			q.Status.Reservations = got.Reservations
			if diff := cmp.Diff(test.after, c.recount(t, q, everywhere).Used, sameAmounts); diff != "" {
				t.Errorf("after the deletion, -want +got:\n%s", diff)
			}
		})
	}
}
