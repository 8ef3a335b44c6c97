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
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// claim returns a request to create a claim or, if version is set, to grow it from 1Gi.
func claim(t *testing.T, uid, version, size string) *quota.Request {
	t.Helper()
	content := func(size string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"metadata":{"name":"data","uid":"data-uid","resourceVersion":%q},"spec":{"resources":{"requests":{"storage":%q}}}}`, version, size)}
	}
	r := &admissionv1.AdmissionRequest{
		UID: types.UID(uid), Operation: admissionv1.Create, Namespace: "ns", Name: "data",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, Object: content(size),
	}
	if version != "" {
		r.Operation, r.OldObject = admissionv1.Update, content("1Gi")
	}
	request, err := quota.NewEvaluators(newMeter().clock, quota.Devices{}).NewRequest(uid, r)
	if err != nil || request == nil {
		t.Fatal(request, err)
	}
	return request
}

// TestChargedOnce checks that a change is charged once, for as long as any request for it may be in progress.
func TestChargedOnce(t *testing.T) {
	noted := func(uid, version string, after time.Duration) placementv1.Reservation {
		return placementv1.Reservation{
			UID: uid, Resource: "persistentvolumeclaims", Namespace: "ns", Name: "data", ObjectUID: "data-uid", ObjectVersion: version,
			Delta: corev1.ResourceList{}, Expires: metav1.NewTime(now.Add(after + time.Minute)),
		}
	}
	charged := func(uid, version, size string, after time.Duration) placementv1.Reservation {
		r := noted(uid, version, after)
		r.Delta = quotatest.Amounts("requests.storage", size)
		return r
	}
	type asked struct {
		uid, version, size string
		after              time.Duration
	}
	tests := map[string]struct {
		asked   []asked
		used    string
		want    []placementv1.Reservation
		written int
	}{
		"creation, asked again": {
			asked: []asked{{"1", "", "2Gi", 0}, {"2", "", "2Gi", 5 * time.Second}},
			used:  "2Gi", want: []placementv1.Reservation{charged("1", "", "2Gi", 0), noted("2", "", 5*time.Second)}, written: 2,
		},
		"update, asked again at once": {
			asked: []asked{{"1", "7", "2Gi", 0}, {"2", "7", "2Gi", 100 * time.Millisecond}},
			used:  "1Gi", want: []placementv1.Reservation{charged("1", "7", "1Gi", 0), noted("2", "7", 100*time.Millisecond)}, written: 2,
		},
		"update, tried again later": {
			asked: []asked{{"1", "7", "2Gi", 0}, {"2", "7", "2Gi", 50 * time.Second}},
			used:  "1Gi", want: []placementv1.Reservation{charged("1", "7", "1Gi", 50*time.Second), noted("2", "7", 50*time.Second)}, written: 2,
		},
		"update, a larger one later": {
			asked: []asked{{"1", "7", "3Gi", 0}, {"2", "7", "4Gi", 50 * time.Second}},
			used:  "3Gi", want: []placementv1.Reservation{charged("1", "7", "2Gi", 50*time.Second), charged("2", "7", "1Gi", 50*time.Second)}, written: 2,
		},
		"update, one that takes nothing later": {
			asked: []asked{{"1", "7", "3Gi", 0}, {"2", "7", "1Gi", 50 * time.Second}},
			used:  "2Gi", want: []placementv1.Reservation{charged("1", "7", "2Gi", 0)}, written: 1,
		},
		"updates from two versions": {
			asked: []asked{{"1", "7", "3Gi", 0}, {"2", "8", "4Gi", time.Second}},
			used:  "5Gi", want: []placementv1.Reservation{charged("1", "7", "2Gi", 0), charged("2", "8", "3Gi", time.Second)}, written: 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var q placementv1.Quota = newQuota(quotatest.Amounts("requests.storage", "10Gi"), quotatest.Amounts("requests.storage", "0"))
			rules, err := compiler.Quota(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			written := 0
			for _, a := range test.asked {
				account := quota.NewAccount(q, rules)
				verdict, err := claim(t, a.uid, a.version, a.size).Admit(t.Context(), []*quota.Account{account}, nil, now.Add(a.after+time.Minute))
				if err != nil || !verdict.Allowed() {
					t.Fatal(verdict, err)
				}
				if account.Changed() {
					written++
				}
				q = account.Quota()
			}
			if diff := cmp.Diff(placementv1.QuotaStatus{ObservedGeneration: 3, Used: quotatest.Amounts("requests.storage", test.used), Summary: "requests.storage: " + test.used + "/10Gi", Reservations: test.want}, *q.QuotaStatus(), sameQuantity); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if written != test.written {
				t.Errorf("%d writes, want %d", written, test.written)
			}
		})
	}
}

// TestReleaseCharges checks that a charge that was released leaves no trace.
func TestReleaseCharges(t *testing.T) {
	q := newQuota(quotatest.Amounts("requests.storage", "10Gi"), quotatest.Amounts("requests.storage", "3Gi"))
	rules, err := compiler.Quota(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	account := quota.NewAccount(q, rules)
	for i, size := range []string{"2Gi", "3Gi"} {
		if _, err := claim(t, fmt.Sprint(i), fmt.Sprint(i+1), size).Admit(t.Context(), []*quota.Account{account}, nil, now); err != nil {
			t.Fatal(err)
		}
	}
	account.ReleaseCharges(func(uid string) bool { return uid == "0" })
	if got := account.Quota().QuotaStatus(); !account.Changed() || len(got.Reservations) != 1 || !upstream.Equals(quotatest.Amounts("requests.storage", "5Gi"), got.Used) {
		t.Errorf("%+v", got)
	}
	account.ReleaseCharges(func(string) bool { return true })
	if account.Changed() {
		t.Errorf("%+v", account.Quota().QuotaStatus())
	}
	if !upstream.Equals(quotatest.Amounts("requests.storage", "3Gi"), q.Status.Used) || len(q.Status.Reservations) != 0 {
		t.Errorf("the quota that was read has changed: %+v", q.Status)
	}
}

// TestHeir checks that a request that relies on another's charge takes it over when the other releases it.
func TestHeir(t *testing.T) {
	q := newQuota(quotatest.Amounts("requests.storage", "10Gi"), quotatest.Amounts("requests.storage", "3Gi"))
	rules, err := compiler.Quota(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	account := quota.NewAccount(q, rules)
	for i, size := range []string{"4Gi", "3Gi", "2Gi"} {
		if _, err := claim(t, fmt.Sprint(i), "7", size).Admit(t.Context(), []*quota.Account{account}, nil, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		back []string
		want string
		left int
	}{{[]string{"0"}, "6Gi", 2}, {[]string{"none"}, "6Gi", 2}, {[]string{"1", "2"}, "3Gi", 0}} {
		account.ReleaseCharges(func(uid string) bool { return slices.Contains(step.back, uid) })
		got := account.Quota().QuotaStatus()
		if !upstream.Equals(quotatest.Amounts("requests.storage", step.want), got.Used) || len(got.Reservations) != step.left {
			t.Errorf("%v given back: %+v, want %s used with %d reservations", step.back, got, step.want, step.left)
		}
	}
}

// TestCreatedTerminating checks that a created pod counts in full, whatever the request says about its deletion. A pod
// that is being deleted counts for little after its grace period.
func TestCreatedTerminating(t *testing.T) {
	const pod = `{"metadata":{"name":"p","uid":"u","resourceVersion":%q,"deletionTimestamp":"2000-01-01T00:00:00Z","deletionGracePeriodSeconds":0},"spec":{"containers":[{"name":"c"}],"activeDeadlineSeconds":%d}}`
	raw := func(version string, seconds int) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, pod, version, seconds)}
	}
	for name, tc := range map[string]struct {
		operation admissionv1.Operation
		old       runtime.RawExtension
		denied    bool
	}{
		"Create":            {operation: admissionv1.Create, denied: true},
		"UpdateThatCreates": {operation: admissionv1.Update, old: raw("", -1), denied: true},
		"Update":            {operation: admissionv1.Update, old: raw("1", -1)},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := quota.NewEvaluators(newMeter().clock, quota.Devices{}).NewRequest("r", &admissionv1.AdmissionRequest{
				Operation: tc.operation, Namespace: "ns", Name: "p",
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: raw("", 5), OldObject: tc.old,
			})
			if err != nil || request == nil {
				t.Fatal(request, err)
			}
			q := newQuota(quotatest.Amounts("pods", "0"), quotatest.Amounts("pods", "0"))
			q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
			rules, err := compiler.Quota(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			verdict, err := request.Admit(t.Context(), []*quota.Account{quota.NewAccount(q, rules)}, nil, now)
			if err != nil {
				t.Fatal(err)
			}
			if denied := len(verdict.Denied) > 0; denied != tc.denied {
				t.Errorf("denied: %v", verdict.Denied)
			}
		})
	}
}

// TestUncoveredNamesTheLimit checks that each denial names the limit that denies for that reason.
func TestUncoveredNamesTheLimit(t *testing.T) {
	limit := func(name string, spec placementv1.LimitedResourceSpec) quota.Limit {
		t.Helper()
		spec.Resource = "pods"
		l := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: spec}
		rules, err := compiler.Limit(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return quota.Limit{Object: l, Rules: rules}
	}
	limits := []quota.Limit{
		limit("scopes", placementv1.LimitedResourceSpec{MatchScopes: []placementv1.ScopeRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"gold"}},
		}}),
		limit("resources", placementv1.LimitedResourceSpec{MatchContains: []string{"pods"}}),
	}
	request, err := quota.NewEvaluators(newMeter().clock, quota.Devices{}).NewRequest("charge", &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "ns", Name: "web", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"web","uid":"web"},"spec":{"priorityClassName":"gold","containers":[{"name":"c"}]}}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := request.Admit(t.Context(), nil, limits, now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range verdict.Denied {
		reason, _, _ := strings.Cut(d.Message, ": ")
		got[reason] = d.By.(*placementv1.LimitedResource).Name
	}
	want := map[string]string{"insufficient quota to consume": "resources", "insufficient quota to match these scopes": "scopes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits that deny (-want +got):\n%s", diff)
	}
}

// createOf returns a request to create a claim with a name. Each object has its own UID.
func createOf(t *testing.T, charge, name, uid, size string) *quota.Request {
	t.Helper()
	request, err := quota.NewEvaluators(newMeter().clock, quota.Devices{}).NewRequest(charge, &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "ns", Name: name,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"},
		Object:   runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q},"spec":{"resources":{"requests":{"storage":%q}}}}`, name, uid, size)},
	})
	if err != nil || request == nil {
		t.Fatal(request, err)
	}
	return request
}

// TestCreatesOfOneName checks several creates of the same name, of which only one object can exist at a time. They are
// charged the largest amounts, in one reservation, which none of the requests releases.
func TestCreatesOfOneName(t *testing.T) {
	q := newQuota(quotatest.Amounts("requests.storage", "10Gi"), quotatest.Amounts("requests.storage", "0"))
	rules, err := compiler.Quota(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	account := quota.NewAccount(q, rules)
	for i, step := range []struct {
		name, size, want string
		reservations     int
	}{
		{"data", "2Gi", "2Gi", 1}, {"data", "1Gi", "2Gi", 1}, {"data", "5Gi", "5Gi", 1}, {"other", "1Gi", "6Gi", 2}, {"data", "9Gi", "10Gi", 2}, {"data", "9Gi", "10Gi", 2},
	} {
		verdict, err := createOf(t, fmt.Sprint(i), step.name, fmt.Sprintf("uid-%d", i), step.size).Admit(t.Context(), []*quota.Account{account}, nil, now.Add(time.Duration(i)*time.Second))
		if err != nil || !verdict.Allowed() {
			t.Fatal(i, verdict, err)
		}
		if got := account.Quota().QuotaStatus(); !upstream.Equals(quotatest.Amounts("requests.storage", step.want), got.Used) || len(got.Reservations) != step.reservations {
			t.Errorf("%d: %+v, want %s used with %d reservations", i, got, step.want, step.reservations)
		}
	}
	account.ReleaseCharges(func(id string) bool { return slices.Contains([]string{"0", "1", "2", "4", "5"}, id) })
	if got := account.Quota().QuotaStatus(); !upstream.Equals(quotatest.Amounts("requests.storage", "10Gi"), got.Used) || len(got.Reservations) != 2 {
		t.Errorf("given back: %+v", got)
	}
	last := slices.IndexFunc(account.Quota().QuotaStatus().Reservations, func(r placementv1.Reservation) bool { return r.Name == "data" })
	if got := account.Quota().QuotaStatus().Reservations[last]; !got.Expires.Time.Equal(now.Add(5*time.Second)) || got.ObjectUID != "" {
		t.Errorf("%+v: want no uid, and the end of the last request", got)
	}
}
