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

package quotacharge_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quotacharge"
)

// now is the current time in all tests.
var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// ttl is the lifetime of a reservation.
const ttl = time.Minute

// sameAmounts compares quantities by value.
var sameAmounts = cmp.Comparer(func(a, b corev1.ResourceList) bool { return upstream.Equals(a, b) })

// noLabels returns namespaces without labels.
type noLabels struct{}

func (noLabels) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

// fixture is a charger with its API server.
type fixture struct {
	charger    *quotacharge.Charger
	evaluators *quota.Evaluators
	store      client.WithWatch
	conflicts  atomic.Int32
}

// newFixture returns a charger that uses a store. The charger's reads and writes go through funcs, the test's own do
// not.
func newFixture(t *testing.T, store client.WithWatch, funcs interceptor.Funcs) *fixture {
	t.Helper()
	through := interceptor.NewClient(store, funcs)
	clock := testingclock.NewFakeClock(now)
	f := &fixture{store: store, evaluators: quota.NewEvaluators(clock, quota.Devices{})}
	f.charger = &quotacharge.Charger{
		Cached: through, Live: through, Writer: through.Status(), Namespaces: noLabels{}, LiveNamespaces: noLabels{}, OwnNamespace: "berth-system",
		Compiler: quota.NewCompiler(embedded.New(embedded.NewData(), embedded.Options{}).PrepareGenerated),
		Clock:    clock, ReservationTTL: ttl, OnConflict: func() { f.conflicts.Add(1) },
	}
	return f
}

// outcome is what a caller of a charger does with the request.
type outcome string

const (
	allowed outcome = "allowed"
	// denied is a denial for good, and retry one for now.
	denied outcome = "denied"
	retry  outcome = "retry"
	failed outcome = "failed"
)

// answer is the charger's answer to a request.
type answer struct {
	outcome
	quota.Verdict
	err error
}

// ask asks for a request as the webhook does.
func (f *fixture) ask(t *testing.T, r *admissionv1.AdmissionRequest) answer {
	t.Helper()
	return f.askWith(t.Context(), t, r)
}

func (f *fixture) askWith(ctx context.Context, t *testing.T, r *admissionv1.AdmissionRequest) answer {
	t.Helper()
	request, err := f.evaluators.NewRequest(rand.Text(), r)
	if err != nil || request == nil {
		t.Errorf("request %s: %v, %v", r.UID, request, err)
		return answer{outcome: failed, err: err}
	}
	verdict, err := f.charger.Charge(ctx, request)
	switch {
	case err != nil && quotacharge.Transient(err):
		return answer{outcome: retry, err: err}
	case err != nil:
		return answer{outcome: failed, err: err}
	case len(verdict.Denied) > 0:
		return answer{outcome: denied, Verdict: *verdict}
	case len(verdict.Pending) > 0:
		return answer{outcome: retry, Verdict: *verdict}
	}
	return answer{outcome: allowed, Verdict: *verdict}
}
