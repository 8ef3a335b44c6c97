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
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/quota"
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
	ledger  *quotavalidator.Ledger
	store   client.WithWatch
	notes   *notes
}

// newStore returns a fake API server that contains objects.
func newStore(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{}).Build()
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
	ledger := &quotavalidator.Ledger{
		Cached: through, Live: through, Writer: through.Status(), Namespaces: noLabels{}, LiveNamespaces: noLabels{}, OwnNamespace: "berth-system",
		Compiler: quota.NewCompiler(embedded.New(embedded.NewData(), embedded.Options{}).PrepareGenerated),
	}
	return &fixture{store: store, ledger: ledger, notes: n, handler: quotavalidator.New(quotavalidator.Deps{
		Ledger: ledger, Evaluators: quota.NewEvaluators(clock), Events: events.New(n), Metrics: m, Clock: clock, ReservationTTL: ttl,
	})}
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

// stored returns a ScopedQuota from the store.
func (f *fixture) stored(t *testing.T, name string) *placementv1.ScopedQuota {
	t.Helper()
	q := &placementv1.ScopedQuota{}
	if err := f.store.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, q); err != nil {
		t.Fatal(err)
	}
	return q
}

// namespace is the namespace of all tests except for the transcribed cases.
const namespace = "team-a"

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// newQuota returns a quota of one resource with the given usage.
func newQuota(name, resourceName, hard, used string) *placementv1.ScopedQuota {
	q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	q.Spec.Hard = list(resourceName, hard)
	q.Status.ObservedGeneration = 1
	q.Status.Used = list(resourceName, used)
	return q
}

// create returns a request to create an object. uid is the UID of the request and part of the UID of the object, which
// an object has before it is stored.
func create(resource, uid string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: types.UID(uid), Operation: admissionv1.Create, Namespace: namespace, Name: uid,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource},
		Object:   runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q}}`, uid, "object-"+uid)},
	}
}

// TestHandleUnread checks that a request whose object was not read is denied, or, by a lenient handler, admitted with a
// warning and an Event.
func TestHandleUnread(t *testing.T) {
	f := newFixture(t, newStore(t), interceptor.Funcs{})
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
	if want := "quota was not checked: " + tooLarge.Error(); !response.Allowed || len(response.Warnings) != 1 || response.Warnings[0] != want {
		t.Errorf("lenient: %+v", response)
	}
	if len(f.notes.lines) != 1 {
		t.Errorf("events %q", f.notes.lines)
	}
}
