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

package quotavalidator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
	"github.com/berth-dev/berth/internal/quotacharge"
	"github.com/berth-dev/berth/webhooks/quotavalidator"
)

// now is the current time in all tests.
var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// ttl is the lifetime of a reservation.
const ttl = time.Minute

// noLabels returns namespaces without labels.
type noLabels struct{}

func (noLabels) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

// notes is an Events recorder that stores objects, reasons and notes.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key, _ := quota.KeyOf(regarding)
	n.lines = append(n.lines, key.Name+": "+reason+": "+fmt.Sprintf(note, args...))
}

// fixture is a handler with its API server.
type fixture struct {
	handler *quotavalidator.Handler
	charger *quotacharge.Charger
	store   client.WithWatch
	notes   *notes
}

// newFixture returns a handler that uses a store. The handler's reads and writes go through funcs, the test's own do
// not.
func newFixture(t *testing.T, store client.WithWatch, funcs interceptor.Funcs) *fixture {
	t.Helper()
	through := interceptor.NewClient(store, funcs)
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	clock := testingclock.NewFakeClock(now)
	charger := &quotacharge.Charger{
		Cached: through, Live: through, Writer: through.Status(), Namespaces: noLabels{}, LiveNamespaces: noLabels{}, OwnNamespace: "berth-system",
		Compiler: quota.NewCompiler(embedded.New(embedded.NewData(), embedded.Options{}).PrepareGenerated),
		Clock:    clock, ReservationTTL: ttl, OnConflict: m.QuotaConflict,
	}
	return &fixture{store: store, charger: charger, notes: n, handler: &quotavalidator.Handler{
		Charger: charger, Evaluators: quota.NewEvaluators(clock, quota.Devices{}), Events: events.New(n), Metrics: m, Clock: clock,
	}}
}

// ask sends a request like an API server.
func (f *fixture) ask(t *testing.T, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	return f.askWith(t.Context(), t, r)
}

func (f *fixture) askWith(ctx context.Context, t *testing.T, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: r,
	})
	if err != nil {
		t.Error(err)
		return &admissionv1.AdmissionResponse{}
	}
	call := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
	call.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	(&admission.Webhook{Handler: f.handler}).ServeHTTP(recorder, call)
	review := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Errorf("%v: %s", err, recorder.Body)
		return &admissionv1.AdmissionResponse{}
	}
	if review.Response.UID != r.UID {
		t.Errorf("answer to %s, want %s", review.Response.UID, r.UID)
	}
	return review.Response
}

// code returns the status code of a response, or 0 if the request is allowed.
func code(r *admissionv1.AdmissionResponse) int32 {
	if r.Allowed {
		return 0
	}
	return r.Result.Code
}

func conflict(q client.Object) error {
	return apierrors.NewConflict(placementv1.GroupVersion.WithResource("scopedquotas").GroupResource(), q.GetName(), errors.New("somebody was faster"))
}

// TestHandleUnread checks that a request whose object was not read is denied, or, by a lenient handler, admitted with a
// warning and an Event.
func TestHandleUnread(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t), interceptor.Funcs{})
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "ns", Name: "large", Operation: admissionv1.Create,
	}}
	tooLarge := apierrors.NewRequestEntityTooLargeError("it is too large")
	response := f.handler.HandleUnread(t.Context(), req, tooLarge)
	if want := "quota could not be decided: " + tooLarge.Error(); response.Allowed || response.Result.Code != http.StatusRequestEntityTooLarge || response.Result.Message != want {
		t.Errorf("%+v", response)
	}
	if len(f.notes.lines) > 0 {
		t.Errorf("events %q", f.notes.lines)
	}
	response = f.handler.Lenient().HandleUnread(t.Context(), req, tooLarge)
	want := "quotas in mode Warn or DryRun, or of kube-system, did not check this object: " + tooLarge.Error()
	if !response.Allowed || len(response.Warnings) != 1 || response.Warnings[0] != want {
		t.Errorf("lenient: %+v", response)
	}
	if len(f.notes.lines) != 1 {
		t.Errorf("events %q", f.notes.lines)
	}
}

func TestCharge(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "2", "1")), interceptor.Funcs{})
	if r := f.ask(t, quotatest.NewCreate("pods", "one")); !r.Allowed {
		t.Fatalf("%+v", r.Result)
	}
	q := quotatest.Stored(t, f.store, "q")
	want := placementv1.QuotaStatus{
		ObservedGeneration: 1, Used: quotatest.List("pods", "2"), Summary: "pods: 2/2",
		Reservations: []placementv1.Reservation{{
			Resource: "pods", Namespace: quotatest.Namespace, Name: "one", ObjectUID: "object-one", Delta: quotatest.List("pods", "1"), Expires: metav1.NewTime(now.Add(ttl)),
		}},
	}
	if diff := cmp.Diff(want, q.Status.QuotaStatus, cmpopts.IgnoreFields(placementv1.Reservation{}, "UID")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r := f.ask(t, quotatest.NewCreate("pods", "two")); code(r) != http.StatusForbidden {
		t.Errorf("%+v", r)
	}
	wantNotes := []string{"q: QuotaDenied: in namespace team-a: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"}
	if diff := cmp.Diff(wantNotes, f.notes.lines); diff != "" {
		t.Errorf("events -want +got:\n%s", diff)
	}
}

func TestNotRead(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t), interceptor.Funcs{})
	r := quotatest.NewCreate("pods", "one")
	r.Object.Raw = []byte(`{"spec":3}`)
	if r := f.ask(t, r); code(r) != http.StatusBadRequest {
		t.Errorf("%+v", r)
	}
}

func TestModes(t *testing.T) {
	const message = "exceeded quota: q.1, requested: pods=1, used: pods=1, limited: pods=1"
	type answer struct {
		Code     int32
		Warnings []string
		Audit    map[string]string
		Used     string
		Events   int
	}
	denied := map[string]string{"outcome": "denied", "denied": "ScopedQuota/team-a/q.1"}
	tests := map[placementv1.Mode]answer{
		"":                      {Code: http.StatusForbidden, Used: "1", Events: 1, Audit: denied},
		placementv1.ModeEnforce: {Code: http.StatusForbidden, Used: "1", Events: 1, Audit: denied},
		placementv1.ModeWarn:    {Warnings: []string{"quota q.1 (mode Warn) would deny: " + message}, Used: "1", Audit: map[string]string{"outcome": "allowed"}},
		placementv1.ModeDryRun: {Used: "1", Audit: map[string]string{
			"outcome": "allowed", "would": "quota q.1 (mode DryRun) would deny: " + message,
		}},
	}
	for mode, want := range tests {
		t.Run(string(mode), func(t *testing.T) {
			q := quotatest.NewQuota("q.1", "pods", "1", "1")
			q.Spec.Mode = mode
			f := newFixture(t, quotatest.NewStore(t, q), interceptor.Funcs{})
			r := f.ask(t, quotatest.NewCreate("pods", "one"))
			used := quotatest.Stored(t, f.store, "q.1").Status.Used["pods"]
			got := answer{Code: code(r), Warnings: r.Warnings, Audit: r.AuditAnnotations, Used: used.String(), Events: len(f.notes.lines)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAudit checks that the audit annotations name the quotas to which a request was charged or which denied it.
func TestAudit(t *testing.T) {
	quotas := func(hard ...string) []client.Object {
		var out []client.Object
		for i, amount := range hard {
			out = append(out, quotatest.NewQuota(fmt.Sprintf("q-%d", i), "pods", amount, "0"))
		}
		unconcerned := quotatest.NewQuota("unconcerned", "services", "1", "0")
		return append(out, unconcerned)
	}
	dryRun := quotatest.NewCreate("pods", "one")
	dryRun.DryRun = new(true)
	unreachable := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		return errors.New("no")
	}}
	tests := map[string]struct {
		quotas  []client.Object
		funcs   interceptor.Funcs
		request *admissionv1.AdmissionRequest
		want    map[string]string
	}{
		"charged":   {quotas: quotas("1", "2"), request: quotatest.NewCreate("pods", "one"), want: map[string]string{"outcome": "allowed", "charged": "ScopedQuota/team-a/q-0,ScopedQuota/team-a/q-1"}},
		"denied":    {quotas: quotas("1", "0"), request: quotatest.NewCreate("pods", "one"), want: map[string]string{"outcome": "denied", "denied": "ScopedQuota/team-a/q-1"}},
		"dry run":   {quotas: quotas("1"), request: dryRun, want: map[string]string{"outcome": "allowed"}},
		"undecided": {quotas: quotas("1"), funcs: unreachable, request: quotatest.NewCreate("pods", "one"), want: map[string]string{"outcome": "pending"}},
		"uncounted": {quotas: quotas("1"), request: func() *admissionv1.AdmissionRequest {
			r := quotatest.NewCreate("pods", "one")
			r.Namespace = ""
			return r
		}()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, quotatest.NewStore(t, test.quotas...), test.funcs)
			if diff := cmp.Diff(test.want, f.ask(t, test.request).AuditAnnotations); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestReviewsNameNoCharge checks that the UID of a review, which its sender chooses, can't select an existing charge:
// neither as the UID of the review that was charged, nor as an ID in the status.
func TestReviewsNameNoCharge(t *testing.T) {
	for name, dryRun := range map[string]bool{"dry run": true, "create": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "2", "0")), interceptor.Funcs{})
			if r := f.ask(t, quotatest.NewCreate("pods", "one")); !r.Allowed {
				t.Fatalf("%+v", r.Result)
			}
			shown := quotatest.Stored(t, f.store, "q").Status.Reservations[0].UID
			used, reservations := int64(1), 1
			for i, uid := range []types.UID{"one", types.UID(shown)} {
				forged := quotatest.NewCreate("pods", fmt.Sprintf("forged-%d", i))
				forged.UID, forged.DryRun = uid, &dryRun
				if r := f.ask(t, forged); !dryRun && i == 0 {
					used, reservations = used+1, reservations+1
				} else if !dryRun && code(r) != http.StatusForbidden {
					t.Errorf("%s: %+v", uid, r)
				}
			}
			quotatest.WantUsed(t, f.store, "q", fmt.Sprint(used), reservations)
		})
	}
}

// TestUndecided checks the responses to requests that can't be decided: the client tries again, unless that can't help. A
// lenient handler admits them with a warning.
func TestUndecided(t *testing.T) {
	unreachable := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
		if _, scoped := l.(*placementv1.ScopedQuotaList); scoped {
			return apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return c.List(ctx, l, options...)
	}}
	unwritable := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		return apierrors.NewInternalError(errors.New("etcd is away"))
	}}
	contended := interceptor.Funcs{SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, q client.Object, _ ...client.SubResourceUpdateOption) error {
		return conflict(q)
	}}
	for name, test := range map[string]struct {
		funcs interceptor.Funcs
		panic bool
		want  int32
	}{
		"nothing can be read":    {funcs: unreachable, want: http.StatusTooManyRequests},
		"nothing can be written": {funcs: unwritable, want: http.StatusTooManyRequests},
		"conflicts for ever":     {funcs: contended, want: http.StatusTooManyRequests},
		"panic":                  {panic: true, want: http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "1")), test.funcs)
				if test.panic {
					f.charger.Compiler = quota.NewCompiler(func(context.Context, string, *policy.Module) (policy.Rules, error) { panic("armed") })
				}
				r := f.ask(t, quotatest.NewCreate("pods", "one"))
				if code(r) != test.want || test.want == http.StatusTooManyRequests && (r.Result.Details == nil || r.Result.Details.RetryAfterSeconds < 1) {
					t.Errorf("%+v", r)
				}
				f.handler = f.handler.Lenient()
				const unchecked = "quotas in mode Warn or DryRun, or of kube-system, did not check this object: "
				if r := f.ask(t, quotatest.NewCreate("pods", "two")); !r.Allowed || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], unchecked) {
					t.Errorf("lenient: %+v", r)
				}
			})
		})
	}
}

// TestDenialIsReportedOnce checks that a request that several webhooks match has one Event.
func TestDenialIsReportedOnce(t *testing.T) {
	full := quotatest.NewQuota("q", "pods", "0", "0")
	system := full.DeepCopy()
	system.Namespace = "kube-system"
	f := newFixture(t, quotatest.NewStore(t, full, system), interceptor.Funcs{})
	strict, lenient := f.handler, f.handler.Lenient()
	one, two, inSystem := quotatest.NewCreate("pods", "one"), quotatest.NewCreate("pods", "two"), quotatest.NewCreate("pods", "three")
	inSystem.Namespace = "kube-system"
	for _, step := range []struct {
		what    string
		handler *quotavalidator.Handler
		request *admissionv1.AdmissionRequest
		events  int
	}{
		{"the webhook of quotas that do not deny", lenient, one, 0},
		{"that of quotas that deny", strict, one, 1},
		{"another one that denies", strict, one, 1},
		{"another request", strict, two, 2},
		{"a request in kube-system", lenient, inSystem, 3},
	} {
		f.handler = step.handler
		if r := f.ask(t, step.request); code(r) != http.StatusForbidden || len(f.notes.lines) != step.events {
			t.Errorf("%s: code %d, events %q, want %d", step.what, code(r), f.notes.lines, step.events)
		}
	}
}

// TestDryRunHasNoEvents checks that the denial of a dry run is not reported.
func TestDryRunHasNoEvents(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "0", "0")), interceptor.Funcs{})
	r := quotatest.NewCreate("pods", "one")
	r.DryRun = new(true)
	if r := f.ask(t, r); code(r) != http.StatusForbidden || len(f.notes.lines) != 0 {
		t.Errorf("%+v, events %q", r, f.notes.lines)
	}
}
