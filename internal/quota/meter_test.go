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
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

var (
	pods    = schema.GroupResource{Resource: "pods"}
	widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}
)

// object returns an object in namespace ns. It takes a count of one, whatever its type is.
func object(name, uid, version string, more ...func(map[string]any)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version,
	}}}
	for _, change := range more {
		change(o.Object)
	}
	return o
}

func inNamespace(name string) func(map[string]any) {
	return func(o map[string]any) { o["metadata"].(map[string]any)["namespace"] = name }
}

func withPhase(phase corev1.PodPhase) func(map[string]any) {
	return func(o map[string]any) { o["status"] = map[string]any{"phase": string(phase)} }
}

func withCPU(amount string) func(map[string]any) {
	return func(o map[string]any) {
		o["spec"] = map[string]any{"containers": []any{map[string]any{
			"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": amount}},
		}}}
	}
}

func withDeletion(at time.Time, grace int64) func(map[string]any) {
	return func(o map[string]any) {
		metadata := o["metadata"].(map[string]any)
		metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = at.Format(time.RFC3339), grace
	}
}

// unreadable makes an object invalid, so that it cannot be measured.
func unreadable(o map[string]any) { o["spec"] = "none" }

type counting struct {
	*quota.Meter
	clock *testingclock.FakeClock
}

func newMeter() counting {
	clock := testingclock.NewFakeClock(now)
	return counting{Meter: quota.NewMeter(quota.NewEvaluators(clock, quota.Devices{}), clock), clock: clock}
}

// everywhere counts all namespaces. All types that the meter does not know are served.
var everywhere = quota.RecountInput{Selects: func(string) bool { return true }, NotServed: func(schema.GroupResource) bool { return false }}

var quotas int

// newQuota returns a quota with a unique UID whose status is up to date.
func newQuota(hard, used corev1.ResourceList, reservations ...placementv1.Reservation) *placementv1.ScopedQuota {
	quotas++
	q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q", UID: types.UID(fmt.Sprintf("quota-%d", quotas)), Generation: 3}}
	q.Spec.Hard = hard
	q.Status.ObservedGeneration = 3
	q.Status.Used = used
	q.Status.Reservations = reservations
	return q
}

var compiler = newCompiler()

func (c counting) recount(t *testing.T, q placementv1.Quota, w quota.RecountInput) *quota.Recount {
	t.Helper()
	rules, err := compiler.Quota(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Recount(t.Context(), q, rules, w)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// put adds objects that must be measurable.
func (c counting) put(t *testing.T, resource schema.GroupResource, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if _, err := c.Put(resource, o); err != nil {
			t.Fatal(err)
		}
	}
}

func (c counting) replace(t *testing.T, resource schema.GroupResource, objects ...*unstructured.Unstructured) {
	t.Helper()
	if err := c.Replace(resource, objects); err != nil {
		t.Fatal(err)
	}
}

// TestReservations checks that a reservation counts as used until its change is counted or can no longer come.
func TestReservations(t *testing.T) {
	const (
		left    = true
		settled = false
	)
	absent := func(w *quota.RecountInput) { w.NotServed = func(schema.GroupResource) bool { return true } }
	create := placementv1.Reservation{
		UID: "r", Resource: "pods", Namespace: "ns", Name: "web", ObjectUID: "web-uid", Delta: quotatest.Amounts("pods", "1"), Expires: metav1.NewTime(now.Add(time.Minute)),
	}
	update, nameless, other := create, create, create
	update.ObjectVersion = "7"
	nameless.ObjectUID = ""
	other.Resource = "widgets.example.com"
	tests := map[string]struct {
		reservation placementv1.Reservation
		happens     func(*testing.T, counting)
		world       func(*quota.RecountInput)
		left        bool
		used        string
	}{
		"create is under way":           {reservation: create, left: left, used: "1"},
		"create shows up":               {reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1")) }, left: settled, used: "1"},
		"create shows up finished":      {reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1", withPhase("Failed"))) }, left: settled, used: "0"},
		"another object has the name":   {reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "other-uid", "1")) }, left: left, used: "1"},
		"the name in another namespace": {reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1", inNamespace("x"))) }, left: left, used: "2"},
		"an object of another type":     {reservation: create, happens: func(t *testing.T, c counting) { c.replace(t, widgets, object("web", "web-uid", "1")) }, left: left, used: "1"},
		"create came and went": {reservation: create, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "1"))
			c.Delete(pods, "ns", "web")
		}, left: settled, used: "0"},
		"create came and was made anew": {reservation: create, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "1"), object("web", "new-uid", "5"))
		}, left: settled, used: "1"},
		"create shows up in a new list":   {reservation: create, happens: func(t *testing.T, c counting) { c.replace(t, pods, object("web", "web-uid", "1")) }, left: settled, used: "1"},
		"create is not in a new list":     {reservation: create, happens: func(t *testing.T, c counting) { c.replace(t, pods, object("api", "api-uid", "1")) }, left: left, used: "2"},
		"create came, the new list lacks": {reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1")); c.replace(t, pods) }, left: settled, used: "0"},
		"create came and went, new list": {reservation: create, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "1"))
			c.Delete(pods, "ns", "web")
			c.replace(t, pods)
		}, left: settled, used: "0"},
		"create expires":              {reservation: create, happens: func(_ *testing.T, c counting) { c.clock.Step(time.Minute) }, left: settled, used: "0"},
		"create does not expire yet":  {reservation: create, happens: func(_ *testing.T, c counting) { c.clock.Step(time.Minute - 1) }, left: left, used: "1"},
		"create expires and is there": {reservation: create, happens: func(_ *testing.T, c counting) { c.clock.Step(time.Hour) }, world: func(w *quota.RecountInput) { w.KeepExpired = map[string]bool{"r": true} }, left: left, used: "1"},
		"create is late and shows up": {reservation: create, happens: func(t *testing.T, c counting) { c.clock.Step(time.Hour); c.put(t, pods, object("web", "web-uid", "1")) }, world: func(w *quota.RecountInput) { w.KeepExpired = map[string]bool{"r": true} }, left: settled, used: "1"},
		"no uid: nothing settles it":  {reservation: nameless, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1")) }, left: left, used: "1"},

		"update is under way":            {reservation: update, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "7")) }, left: left, used: "2"},
		"the meter is behind the update": {reservation: update, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "6")) }, left: left, used: "2"},
		"update shows up": {reservation: update, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "7"), object("web", "web-uid", "8"))
		}, left: settled, used: "1"},
		"update, versions by their worth": {reservation: update, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "10")) }, left: settled, used: "1"},
		"update, object went": {reservation: update, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "7"))
			c.Delete(pods, "ns", "web")
		}, left: settled, used: "0"},
		"update, object is not known": {reservation: update, left: left, used: "1"},
		"update, new list has it": {reservation: update, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "7"))
			c.replace(t, pods, object("web", "web-uid", "9"))
		}, left: settled, used: "1"},
		"update, new list has the same": {reservation: update, happens: func(t *testing.T, c counting) { c.replace(t, pods, object("web", "web-uid", "7")) }, left: left, used: "2"},
		"update, a version of no order": {reservation: update, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "x")) }, left: settled, used: "1"},
		"update expires": {reservation: update, happens: func(t *testing.T, c counting) {
			c.put(t, pods, object("web", "web-uid", "7"))
			c.clock.Step(time.Minute)
		}, left: settled, used: "1"},

		// Used is 9 as counted before. What became of a charge is unknown until the type can be counted again.
		"type is not known":             {reservation: create, happens: func(_ *testing.T, c counting) { c.Drop(pods) }, left: left, used: "9"},
		"type is not known, it expires": {reservation: create, happens: func(_ *testing.T, c counting) { c.Drop(pods); c.clock.Step(time.Minute) }, left: settled, used: "9"},
		"type is not served, it seems":  {reservation: create, happens: func(_ *testing.T, c counting) { c.Drop(pods) }, world: absent, left: left, used: "9"},
		"it expires meanwhile":          {reservation: create, happens: func(_ *testing.T, c counting) { c.Drop(pods); c.clock.Step(time.Minute) }, world: absent, left: settled, used: "9"},
		"namespace is not selected":     {reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1")) }, world: func(w *quota.RecountInput) { w.Selects = func(string) bool { return false } }, left: left, used: "1"},
		"namespace left, it expires": {
			reservation: create, happens: func(t *testing.T, c counting) { c.put(t, pods, object("web", "web-uid", "1")); c.clock.Step(time.Hour) },
			world: func(w *quota.RecountInput) {
				w.KeepExpired, w.Selects = map[string]bool{"r": true}, func(string) bool { return false }
			}, left: settled, used: "0",
		},
		"type is not counted any more":   {reservation: other, left: settled, used: "0"},
		"type is known again, by a list": {reservation: create, happens: func(t *testing.T, c counting) { c.Drop(pods); c.replace(t, pods, object("web", "web-uid", "1")) }, left: settled, used: "1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newMeter()
			c.replace(t, pods)
			if test.happens != nil {
				test.happens(t, c)
			}
			world := everywhere
			if test.world != nil {
				test.world(&world)
			}
			q := newQuota(quotatest.Amounts("pods", "10"), quotatest.Amounts("pods", "9"), test.reservation)
			// Counting again gives the same result.
			for range 2 {
				got := c.recount(t, q, world)
				if diff := cmp.Diff(quotatest.Amounts("pods", test.used), got.Used, sameAmounts); diff != "" || len(got.Reservations) == 1 != test.left {
					t.Errorf("%d reservations, used -want +got:\n%s", len(got.Reservations), diff)
				}
			}
		})
	}
}

// TestUnserved checks types that are not served, possibly because their API server is down. What was counted before
// stays, and becomes unknown if the spec changes. What was never counted is zero, whether or not the meter counted the
// type before.
func TestUnserved(t *testing.T) {
	down := everywhere
	down.NotServed = func(schema.GroupResource) bool { return true }
	tests := map[string]struct {
		before     corev1.ResourceList
		generation int64
		want       corev1.ResourceList
		unserved   bool
	}{
		"never counted":               {before: nil, generation: 3, want: quotatest.Amounts("pods", "0")},
		"never counted, looked at":    {before: quotatest.Amounts("pods", "0"), generation: 3, want: quotatest.Amounts("pods", "0")},
		"counted":                     {before: quotatest.Amounts("pods", "7"), generation: 3, want: quotatest.Amounts("pods", "7"), unserved: true},
		"counted for another spec":    {before: quotatest.Amounts("pods", "7"), generation: 4, want: corev1.ResourceList{}, unserved: true},
		"nothing, for another spec":   {before: quotatest.Amounts("pods", "0"), generation: 4, want: quotatest.Amounts("pods", "0")},
		"of other names, another one": {before: quotatest.Amounts("services", "7"), generation: 4, want: quotatest.Amounts("pods", "0")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := newQuota(quotatest.Amounts("pods", "10"), test.before)
			q.Generation = test.generation
			got := newMeter().recount(t, q, down)
			if diff := cmp.Diff(test.want, got.Used, sameAmounts); diff != "" || len(got.Unserved) == 1 != test.unserved || len(got.Missing) > 0 {
				t.Errorf("unserved %v, missing %v, used -want +got:\n%s", got.Unserved, got.Missing, diff)
			}
		})
	}
}

// TestMatters checks that Put and Delete report correctly whether quotas must be recounted.
func TestMatters(t *testing.T) {
	reserved := newQuota(quotatest.Amounts("pods", "10"), nil, placementv1.Reservation{
		UID: "r", Resource: "pods", Namespace: "ns", Name: "web", ObjectUID: "web-uid", ObjectVersion: "7", Delta: quotatest.Amounts("pods", "1"), Expires: metav1.NewTime(now.Add(time.Minute)),
	})
	c := newMeter()
	steps := []struct {
		name string
		o    *unstructured.Unstructured
		want bool
	}{
		{"type is not known", object("web", "web-uid", "1"), false},
		{"new", object("web", "web-uid", "2"), true},
		{"nothing that is counted", object("web", "web-uid", "3", withPhase("Running")), false},
		{"takes more", object("web", "web-uid", "4", withCPU("1")), true},
		{"takes the same, written otherwise", object("web", "web-uid", "5", withCPU("1000m")), false},
		{"is to be deleted", object("web", "web-uid", "6", withCPU("1"), withDeletion(now, 30)), true},
		{"the same again", object("web", "web-uid", "7", withCPU("1"), withDeletion(now, 30)), false},
		{"an update that is awaited", object("web", "web-uid", "8", withCPU("1"), withDeletion(now, 30)), true},
		{"an update that is not", object("web", "web-uid", "9", withCPU("1"), withDeletion(now, 30)), false},
		{"finished", object("web", "web-uid", "10", withCPU("1"), withDeletion(now, 30), withPhase("Succeeded")), true},
		{"made anew", object("web", "new-uid", "11", withPhase("Succeeded")), true},
	}
	for _, step := range steps {
		got, err := c.Put(pods, step.o)
		if err != nil || got != step.want {
			t.Errorf("%s: %v %v, want %v", step.name, got, err, step.want)
		}
		switch step.o.GetResourceVersion() {
		case "1":
			c.replace(t, pods)
		case "7", "8":
			// The recount notices the update of the version that is charged, and settles it.
			reserved.Status.Reservations = c.recount(t, reserved, everywhere).Reservations
		}
	}
	for _, want := range []bool{true, false} {
		if got := c.Delete(pods, "ns", "web"); got != want {
			t.Errorf("deleted: %v, want %v", got, want)
		}
	}
	if c.Delete(widgets, "ns", "web") {
		t.Error("an object of a type that is not known matters")
	}
}

func TestUnreadable(t *testing.T) {
	c := newMeter()
	if err := c.Replace(pods, []*unstructured.Unstructured{object("a", "a", "1"), object("b", "b", "1", unreadable), object("c", "c", "1")}); err == nil {
		t.Error("no error")
	}
	got := c.recount(t, newQuota(quotatest.Amounts("pods", "9"), nil), everywhere)
	if diff := cmp.Diff(quotatest.Amounts("pods", "2"), got.Used, sameAmounts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := c.Put(pods, object("a", "a", "2", unreadable)); err == nil {
		t.Error("no error")
	}
}

// TestAllUnreadableAreNamed checks that an error names each object that can't be measured, up to a limit.
func TestAllUnreadableAreNamed(t *testing.T) {
	var objects []*unstructured.Unstructured
	for i := range 12 {
		objects = append(objects, object(fmt.Sprintf("bad-%d", i), "a", "1", unreadable))
	}
	err := newMeter().Replace(pods, objects)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"ns/bad-0:", "ns/bad-9:", "the usage of 2 more objects of pods can't be computed"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want it to name %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "bad-10") {
		t.Errorf("error %q names too many objects", err)
	}
}

// TestPods checks that a pod that has terminated, or should be gone by now, only takes its object count.
func TestPods(t *testing.T) {
	tests := map[string]struct {
		pod  *unstructured.Unstructured
		at   time.Duration
		want corev1.ResourceList
		next time.Time
	}{
		"runs":                        {pod: object("p", "p", "1", withCPU("2"), withPhase("Running")), want: quotatest.Amounts("pods", "1", "count/pods", "1", "requests.cpu", "2")},
		"succeeded":                   {pod: object("p", "p", "1", withCPU("2"), withPhase("Succeeded")), want: quotatest.Amounts("pods", "0", "count/pods", "1", "requests.cpu", "0")},
		"failed":                      {pod: object("p", "p", "1", withCPU("2"), withPhase("Failed")), want: quotatest.Amounts("pods", "0", "count/pods", "1", "requests.cpu", "0")},
		"is deleted, within its time": {pod: object("p", "p", "1", withCPU("2"), withDeletion(now, 30)), at: 29 * time.Second, want: quotatest.Amounts("pods", "1", "count/pods", "1", "requests.cpu", "2"), next: now.Add(30 * time.Second)},
		"is deleted, its time ends":   {pod: object("p", "p", "1", withCPU("2"), withDeletion(now, 30)), at: 30 * time.Second, want: quotatest.Amounts("pods", "0", "count/pods", "1", "requests.cpu", "0")},
		"is deleted, out of time":     {pod: object("p", "p", "1", withCPU("2"), withDeletion(now, 30)), at: 31 * time.Second, want: quotatest.Amounts("pods", "0", "count/pods", "1", "requests.cpu", "0")},
		"was out of time when seen":   {pod: object("p", "p", "1", withCPU("2"), withDeletion(now.Add(-time.Hour), 30)), want: quotatest.Amounts("pods", "0", "count/pods", "1", "requests.cpu", "0")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newMeter()
			c.replace(t, pods, test.pod)
			c.clock.Step(test.at)
			got := c.recount(t, newQuota(quotatest.Amounts("pods", "9", "count/pods", "9", "requests.cpu", "9"), nil), everywhere)
			if diff := cmp.Diff(test.want, got.Used, sameAmounts); diff != "" || !got.Next.Equal(test.next) {
				t.Errorf("next %v, want %v; used -want +got:\n%s", got.Next, test.next, diff)
			}
		})
	}
}

// TestReplace checks that Replace removes all objects that it does not get.
func TestReplace(t *testing.T) {
	c := newMeter()
	q := newQuota(quotatest.Amounts("count/widgets.example.com", "9"), nil)
	if got := c.recount(t, q, everywhere); !slices.Equal(got.Missing, []schema.GroupResource{widgets}) || len(got.Used) != 0 {
		t.Errorf("%+v", got)
	}
	for i, objects := range [][]*unstructured.Unstructured{
		{object("a", "a", "1"), object("b", "b", "1")}, {object("c", "c", "1")}, {},
	} {
		c.replace(t, widgets, objects...)
		got := c.recount(t, q, everywhere)
		if diff := cmp.Diff(quotatest.Amounts("count/widgets.example.com", fmt.Sprint(len(objects))), got.Used, sameAmounts); diff != "" || len(got.Missing) != 0 {
			t.Errorf("%d: missing %v, -want +got:\n%s", i, got.Missing, diff)
		}
	}
}
