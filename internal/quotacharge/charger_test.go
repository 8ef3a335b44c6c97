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
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// writes intercepts the handler's writes of status.
type writes struct {
	count atomic.Int32
	// instead replaces a write. It may store the quota with store, or return an error.
	instead func(ctx context.Context, q client.Object, store func() error) error
}

func (w *writes) funcs() interceptor.Funcs {
	return interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, q client.Object, opts ...client.SubResourceUpdateOption) error {
		w.count.Add(1)
		store := func() error { return c.SubResource(subresource).Update(ctx, q, opts...) }
		if w.instead == nil {
			return store()
		}
		return w.instead(ctx, q, store)
	}}
}

func conflict(q client.Object) error {
	return apierrors.NewConflict(placementv1.GroupVersion.WithResource("scopedquotas").GroupResource(), q.GetName(), errors.New("somebody was faster"))
}

// gate makes the first call of pass wait until open is called, so that requests collect meanwhile.
func gate() (open func(), pass func()) {
	gate, once := make(chan struct{}), sync.Once{}
	return func() { close(gate) }, func() { once.Do(func() { <-gate }) }
}

// together sends all requests concurrently and returns the responses in the same order.
func (f *fixture) together(t *testing.T, requests ...*admissionv1.AdmissionRequest) (wait func() []answer) {
	t.Helper()
	out := make([]answer, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() { out[i] = f.ask(t, r) })
	}
	return func() []answer {
		wg.Wait()
		return out
	}
}

// outcomes counts the outcomes of answers.
func outcomes(all []answer) map[outcome]int {
	out := map[outcome]int{}
	for _, r := range all {
		out[r.outcome]++
	}
	return out
}

// setUsed writes the usage of a quota as another client.
func setUsed(ctx context.Context, t *testing.T, store client.Client, name string, used corev1.ResourceList) {
	t.Helper()
	q := &placementv1.ScopedQuota{}
	if err := store.Get(ctx, client.ObjectKey{Namespace: quotatest.Namespace, Name: name}, q); err != nil {
		t.Error(err)
	}
	q.Status.Used = used
	if err := store.Status().Update(ctx, q); err != nil {
		t.Error(err)
	}
}

// TestConflictOfAnotherQuotaDoesNotAdmit checks a case that upstream gets wrong (kubernetes#141904). After a conflict,
// upstream decides every request of the batch again, but only against the quotas whose write failed. A pod that quota a
// denied is then decided by quota b alone, which does not count pods, and admitted.
func TestConflictOfAnotherQuotaDoesNotAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, pass := gate()
		conflicts := 0
		w := &writes{}
		w.instead = func(_ context.Context, q client.Object, store func() error) error {
			pass()
			if w.count.Load() == 2 {
				conflicts++
				return conflict(q)
			}
			return store()
		}
		f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("a", "pods", "0", "0"), quotatest.NewQuota("b", "count/configmaps", "10", "0")), w.funcs())
		first := f.together(t, quotatest.NewCreate("configmaps", "first"))
		synctest.Wait()
		both := f.together(t, quotatest.NewCreate("pods", "pod"), quotatest.NewCreate("configmaps", "map"))
		synctest.Wait()
		open()
		if r := first()[0]; r.outcome != allowed {
			t.Errorf("first: %+v", r)
		}
		answers := both()
		if answers[0].outcome != denied || answers[1].outcome != allowed {
			t.Errorf("pod: %+v, configmap: %+v", answers[0], answers[1])
		}
		if conflicts != 1 {
			t.Errorf("%d conflicts", conflicts)
		}
		quotatest.WantUsed(t, f.store, "a", "0", 0)
		quotatest.WantUsed(t, f.store, "b", "2", 2)
	})
}

// TestConflictThenFull checks that a charged quota is released if another quota turns out to be full.
func TestConflictThenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := quotatest.NewStore(t, quotatest.NewQuota("a", "pods", "5", "0"), quotatest.NewQuota("b", "pods", "5", "4"))
		w := &writes{}
		filled := false
		var mu sync.Mutex
		w.instead = func(ctx context.Context, q client.Object, write func() error) error {
			mu.Lock()
			defer mu.Unlock()
			if q.GetName() == "b" && !filled {
				filled = true
				setUsed(ctx, t, store, "b", quotatest.List("pods", "5"))
			}
			return write()
		}
		f := newFixture(t, store, w.funcs())
		if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != denied || r.Denied[0].Message != "exceeded quota: b, requested: pods=1, used: pods=5, limited: pods=5" {
			t.Errorf("%+v", r)
		}
		quotatest.WantUsed(t, f.store, "a", "0", 0)
		quotatest.WantUsed(t, f.store, "b", "5", 0)
	})
}

func TestUndecided(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("etcd is away"))
	tests := map[string]struct {
		instead func(ctx context.Context, q client.Object, store func() error) error
		list    error
	}{
		"one quota conflicts for ever": {instead: func(_ context.Context, q client.Object, store func() error) error {
			if q.GetName() == "b" {
				return conflict(q)
			}
			return store()
		}},
		"one quota can't be written": {instead: func(_ context.Context, q client.Object, store func() error) error {
			if q.GetName() == "b" {
				return broken
			}
			return store()
		}},
		"one write is stored and its answer lost": {instead: func() func(context.Context, client.Object, func() error) error {
			var once sync.Once
			return func(_ context.Context, q client.Object, store func() error) error {
				err := store()
				if q.GetName() == "b" {
					once.Do(func() { err = broken })
				}
				return err
			}
		}()},
		"nothing can be read": {list: broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writes{instead: test.instead}
				funcs := w.funcs()
				funcs.List = func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if _, scoped := l.(*placementv1.ScopedQuotaList); scoped && test.list != nil {
						return test.list
					}
					return c.List(ctx, l, opts...)
				}
				f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("a", "pods", "5", "1"), quotatest.NewQuota("b", "pods", "5", "2")), funcs)
				r := f.ask(t, quotatest.NewCreate("pods", "one"))
				if r.outcome != retry {
					t.Errorf("%+v", r)
				}
				synctest.Wait()
				quotatest.WantUsed(t, f.store, "a", "1", 0)
				quotatest.WantUsed(t, f.store, "b", "2", 0)
			})
		})
	}
}

// TestLostAnswerIsGivenBackDespiteTheCache checks that a stored charge whose response was lost is released although a
// stale cache does not show it.
func TestLostAnswerIsGivenBackDespiteTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "1"))
		var once sync.Once
		w := &writes{instead: func(_ context.Context, _ client.Object, write func() error) error {
			err := write()
			once.Do(func() { err = apierrors.NewTimeoutError("the answer was lost", 1) })
			return err
		}}
		f := newFixture(t, store, w.funcs())
		f.charger.Cached = quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "1"))
		if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != retry {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		quotatest.WantUsed(t, f.store, "q", "1", 0)
	})
}

// TestNobodyWaits checks that the charge of a request whose client is gone is released, because nothing would settle
// it.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan struct{})
		w := &writes{instead: func(_ context.Context, _ client.Object, store func() error) error {
			err := store()
			cancel()
			<-answered
			return err
		}}
		f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "1")), w.funcs())
		if r := f.askWith(ctx, t, quotatest.NewCreate("pods", "one")); r.outcome != retry {
			t.Errorf("%+v", r)
		}
		close(answered)
		synctest.Wait()
		quotatest.WantUsed(t, f.store, "q", "1", 0)
		if n := w.count.Load(); n != 2 {
			t.Errorf("%d writes, want the charge and its return", n)
		}
	})
}

// TestGoneBeforeItsTurn checks that a request whose client is gone before its batch is decided is not charged.
func TestGoneBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, pass := gate()
		w := &writes{instead: func(_ context.Context, _ client.Object, store func() error) error {
			pass()
			return store()
		}}
		f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "0")), w.funcs())
		first := f.together(t, quotatest.NewCreate("pods", "first"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer)
		go func() { done <- f.askWith(ctx, t, quotatest.NewCreate("pods", "second")) }()
		synctest.Wait()
		cancel()
		if r := <-done; r.outcome != retry {
			t.Errorf("%+v", r)
		}
		open()
		first()
		synctest.Wait()
		quotatest.WantUsed(t, f.store, "q", "1", 1)
		if n := w.count.Load(); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
	})
}

func TestStaleCache(t *testing.T) {
	tests := map[string]struct {
		cached, live string
		want         outcome
		used         string
	}{
		"full in the cache alone":         {cached: "5", live: "1", want: allowed, used: "2"},
		"room in the cache alone":         {cached: "1", live: "5", want: denied, used: "5"},
		"more room in the cache":          {cached: "1", live: "3", want: allowed, used: "4"},
		"full in both":                    {cached: "5", live: "5", want: denied, used: "5"},
		"above hard in the cache, not so": {cached: "9", live: "0", want: allowed, used: "1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old := quotatest.NewQuota("q", "pods", "5", test.cached)
				live := quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", test.cached))
				setUsed(t.Context(), t, live, "q", quotatest.List("pods", test.live))
				f := newFixture(t, live, interceptor.Funcs{})
				f.charger.Cached = quotatest.NewStore(t, old)
				if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != test.want {
					t.Errorf("%+v", r)
				}
				q := quotatest.Stored(t, f.store, "q")
				if diff := cmp.Diff(quotatest.List("pods", test.used), corev1.ResourceList(q.Status.Used), sameAmounts); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// TestQuotaThatTheCacheLacks checks that a cache without a quota is treated as stale, because the API server calls only
// where there is a quota.
func TestQuotaThatTheCacheLacks(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "1", "1")), interceptor.Funcs{})
	f.charger.Cached = quotatest.NewStore(t)
	if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != denied {
		t.Errorf("%+v", r)
	}
}

// TestQuotaThatIsGone checks that a deleted or renamed quota leaves nothing behind.
func TestQuotaThatIsGone(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "0")), interceptor.Funcs{})
	f.charger.Cached = quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "0"), quotatest.NewQuota("gone", "pods", "1", "0"), quotatest.NewQuota("full", "pods", "1", "1"))
	if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != allowed {
		t.Errorf("%+v", r)
	}
	quotatest.WantUsed(t, f.store, "q", "1", 1)
}

// TestSettledAreDropped checks that settled reservations are not written again, and that their usage remains until the
// recount.
func TestSettledAreDropped(t *testing.T) {
	q := quotatest.NewQuota("q", "pods", "5", "2")
	for _, uid := range []string{"there", "under way"} {
		q.Status.Reservations = append(q.Status.Reservations, placementv1.Reservation{
			UID: uid, Resource: "pods", Namespace: quotatest.Namespace, Delta: quotatest.List("pods", "1"), Expires: metav1.NewTime(now.Add(ttl)),
		})
	}
	f := newFixture(t, quotatest.NewStore(t, q), interceptor.Funcs{})
	f.charger.Unsettled = func(q placementv1.Quota) []placementv1.Reservation {
		return slices.DeleteFunc(slices.Clone(q.QuotaStatus().Reservations), func(r placementv1.Reservation) bool { return r.UID == "there" })
	}
	if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != allowed {
		t.Errorf("%+v", r)
	}
	quotatest.WantUsed(t, f.store, "q", "3", 2)
}

// TestOwnWritesBeforeTheCache checks that charges that this process wrote count before the cache has them.
func TestOwnWritesBeforeTheCache(t *testing.T) {
	w := &writes{}
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "2", "0")), w.funcs())
	f.charger.Cached = quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "2", "0"))
	var got []outcome
	for i := range 3 {
		got = append(got, f.ask(t, quotatest.NewCreate("pods", fmt.Sprint(i))).outcome)
	}
	if diff := cmp.Diff([]outcome{allowed, allowed, denied}, got); diff != "" || w.count.Load() != 2 {
		t.Errorf("%d writes, -want +got:\n%s", w.count.Load(), diff)
	}
	f.charger.Forget("uid-q")
	if r := f.ask(t, quotatest.NewCreate("pods", "4")); r.outcome != denied {
		t.Errorf("%+v", r)
	}
}

func TestDryRunNeverWrites(t *testing.T) {
	w := &writes{}
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "1", "0"), quotatest.NewQuota("r", "count/configmaps", "0", "0")), w.funcs())
	for i, test := range []struct {
		resource string
		want     outcome
	}{{"pods", allowed}, {"pods", allowed}, {"configmaps", denied}} {
		r := quotatest.NewCreate(test.resource, fmt.Sprint(i))
		r.DryRun = new(true)
		if r := f.ask(t, r); r.outcome != test.want {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if n := w.count.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

// TestSameObjectAskedTwice checks that an object is charged once. The API server calls once for each webhook that
// matches, and again after another webhook changed the object.
func TestSameObjectAskedTwice(t *testing.T) {
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "1", "0")), interceptor.Funcs{})
	first, second := quotatest.NewCreate("pods", "one"), quotatest.NewCreate("pods", "one")
	second.UID = "again"
	for _, r := range []*admissionv1.AdmissionRequest{first, second} {
		if r := f.ask(t, r); r.outcome != allowed {
			t.Errorf("%+v", r)
		}
	}
	quotatest.WantUsed(t, f.store, "q", "1", 2)
}

// TestSameObjectAskedTwiceAtOnce checks the same in one batch, where the first charge is not stored yet.
func TestSameObjectAskedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, pass := gate()
		w := &writes{instead: func(_ context.Context, _ client.Object, store func() error) error {
			pass()
			return store()
		}}
		f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "2", "0")), w.funcs())
		first := f.together(t, quotatest.NewCreate("pods", "first"))
		synctest.Wait()
		one, again := quotatest.NewCreate("pods", "one"), quotatest.NewCreate("pods", "one")
		again.UID = "again"
		both := f.together(t, one, again)
		synctest.Wait()
		open()
		if got := outcomes(append(first(), both()...)); got[allowed] != 3 {
			t.Errorf("%v", got)
		}
		quotatest.WantUsed(t, f.store, "q", "2", 3)
	})
}

// resize returns a request to grow a claim from 1Gi.
func resize(uid, version, to string) *admissionv1.AdmissionRequest {
	claim := func(size string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"metadata":{"name":"data","uid":"data-uid","resourceVersion":%q},"spec":{"resources":{"requests":{"storage":%q}}}}`, version, size)}
	}
	return &admissionv1.AdmissionRequest{
		UID: types.UID(uid), Operation: admissionv1.Update, Namespace: quotatest.Namespace, Name: "data",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, Object: claim(to), OldObject: claim("1Gi"),
	}
}

// TestUpdatesFromOneVersion checks the charge for several updates from the same version, of which only one can succeed.
func TestUpdatesFromOneVersion(t *testing.T) {
	tests := map[string]struct {
		requests []*admissionv1.AdmissionRequest
		want     string
	}{
		"more, then less": {requests: []*admissionv1.AdmissionRequest{resize("1", "7", "4Gi"), resize("2", "7", "3Gi")}, want: "4Gi"},
		"less, then more": {requests: []*admissionv1.AdmissionRequest{resize("1", "7", "3Gi"), resize("2", "7", "4Gi")}, want: "4Gi"},
		"two versions":    {requests: []*admissionv1.AdmissionRequest{resize("1", "7", "3Gi"), resize("2", "8", "4Gi")}, want: "6Gi"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "requests.storage", "10Gi", "1Gi")), interceptor.Funcs{})
			for _, r := range test.requests {
				if r := f.ask(t, r); r.outcome != allowed {
					t.Errorf("%+v", r)
				}
			}
			if diff := cmp.Diff(quotatest.List("requests.storage", test.want), corev1.ResourceList(quotatest.Stored(t, f.store, "q").Status.Used), sameAmounts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestModesTogether checks that a quota that only warns needs no charge, and warns whatever other quotas decide.
func TestModesTogether(t *testing.T) {
	warns := quotatest.NewQuota("warns", "pods", "0", "0")
	warns.Spec.Mode = placementv1.ModeWarn
	f := newFixture(t, quotatest.NewStore(t, warns, quotatest.NewQuota("denies", "pods", "1", "0")), interceptor.Funcs{})
	for i, want := range []outcome{allowed, denied} {
		if r := f.ask(t, quotatest.NewCreate("pods", fmt.Sprint(i))); r.outcome != want || len(r.Warned) != 1 {
			t.Errorf("%d: %+v", i, r)
		}
	}
	quotatest.WantUsed(t, f.store, "warns", "0", 0)
	quotatest.WantUsed(t, f.store, "denies", "1", 1)
}

func TestTooManyUnderWay(t *testing.T) {
	tests := map[placementv1.Mode]outcome{placementv1.ModeEnforce: retry, placementv1.ModeWarn: allowed, placementv1.ModeDryRun: allowed}
	for mode, want := range tests {
		t.Run(string(mode), func(t *testing.T) {
			q := quotatest.NewQuota("q", "pods", "5k", "1024")
			q.Spec.Mode = mode
			for i := range placementv1.MaxReservations {
				q.Status.Reservations = append(q.Status.Reservations, placementv1.Reservation{
					UID: fmt.Sprintf("r%d", i), Resource: "pods", Namespace: quotatest.Namespace, Delta: quotatest.List("pods", "1"), Expires: metav1.NewTime(now),
				})
			}
			w := &writes{}
			f := newFixture(t, quotatest.NewStore(t, q), w.funcs())
			if r := f.ask(t, quotatest.NewCreate("pods", "one")); r.outcome != want {
				t.Errorf("%+v", r)
			}
			if n := w.count.Load(); n != 0 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

// TestNotCountedYet checks that usage that is not counted yet, or not for the newest spec, causes no denial.
func TestNotCountedYet(t *testing.T) {
	changed, fresh := quotatest.NewQuota("changed", "pods", "1", "1"), quotatest.NewQuota("fresh", "count/configmaps", "1", "0")
	changed.Generation = 2
	fresh.Status = placementv1.ScopedQuotaStatus{}
	f := newFixture(t, quotatest.NewStore(t, changed, fresh), interceptor.Funcs{})
	for _, resource := range []string{"pods", "configmaps"} {
		if r := f.ask(t, quotatest.NewCreate(resource, "one")); r.outcome != retry {
			t.Errorf("%s: %+v", resource, r)
		}
	}
	if r := f.ask(t, quotatest.NewCreate("secrets", "one")); r.outcome != allowed {
		t.Errorf("%+v", r)
	}
}

// panics wraps rules and panics while armed is set.
type panics struct {
	policy.Rules
	armed *atomic.Bool
}

func (p panics) Evaluate(ctx context.Context, input map[string]any) (map[string]any, error) {
	if p.armed.Load() {
		panic("armed")
	}
	return p.Rules.Evaluate(ctx, input)
}

func TestPanic(t *testing.T) {
	engine := embedded.New(embedded.NewData(), embedded.Options{})
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "0")), interceptor.Funcs{})
	var armed atomic.Bool
	f.charger.Compiler = quota.NewCompiler(func(ctx context.Context, name string, m *policy.Module) (policy.Rules, error) {
		rules, err := engine.PrepareGenerated(ctx, name, m)
		return panics{rules, &armed}, err
	})
	for i, want := range []outcome{allowed, failed, allowed} {
		armed.Store(want == failed)
		if r := f.ask(t, quotatest.NewCreate("pods", fmt.Sprint(i))); r.outcome != want {
			t.Errorf("%d: %+v", i, r)
		}
	}
	quotatest.WantUsed(t, f.store, "q", "2", 2)
}

// TestBatches checks that the number of writes does not grow with the number of requests.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		open, pass := gate()
		w := &writes{instead: func(_ context.Context, _ client.Object, store func() error) error {
			pass()
			return store()
		}}
		f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "200", "0")), w.funcs())
		var requests []*admissionv1.AdmissionRequest
		for i := range n {
			requests = append(requests, quotatest.NewCreate("pods", fmt.Sprint(i)))
		}
		wait := f.together(t, requests...)
		synctest.Wait()
		open()
		if diff := cmp.Diff(map[outcome]int{allowed: 200, denied: 100}, outcomes(wait())); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		// A batch has at most 128 requests. The first batch has only the first requests.
		if got := w.count.Load(); got > 4 {
			t.Errorf("%d writes for %d requests", got, n)
		}
		quotatest.WantUsed(t, f.store, "q", "200", 200)
	})
}

// TestNewcomersAfterAConflict checks that a request that arrives while a batch is decided again joins the batch.
func TestNewcomersAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, pass := gate()
		w := &writes{}
		w.instead = func(_ context.Context, q client.Object, store func() error) error {
			if w.count.Load() == 1 {
				pass()
				return conflict(q)
			}
			return store()
		}
		f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "3", "0")), w.funcs())
		first := f.together(t, quotatest.NewCreate("pods", "first"))
		synctest.Wait()
		others := f.together(t, quotatest.NewCreate("pods", "a"), quotatest.NewCreate("pods", "b"), quotatest.NewCreate("pods", "c"), quotatest.NewCreate("pods", "d"))
		synctest.Wait()
		open()
		if diff := cmp.Diff(map[outcome]int{allowed: 3, denied: 2}, outcomes(append(first(), others()...))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if n, conflicts := w.count.Load(), f.conflicts.Load(); n > 3 || conflicts != 1 {
			t.Errorf("%d writes, %d conflicts", n, conflicts)
		}
		quotatest.WantUsed(t, f.store, "q", "3", 3)
	})
}

// TestReplicas checks that three independent replicas with caches that are never updated admit exactly as much as fits.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := quotatest.NewStore(t, quotatest.NewQuota("a", "pods", "40", "0"), quotatest.NewQuota("b", "count/pods", "30", "0"))
		var waits []func() []answer
		for replica := range 3 {
			f := newFixture(t, store, interceptor.Funcs{})
			f.charger.Cached = quotatest.NewStore(t, quotatest.NewQuota("a", "pods", "40", "0"), quotatest.NewQuota("b", "count/pods", "30", "0"))
			for i := range 20 {
				waits = append(waits, f.together(t, quotatest.NewCreate("pods", fmt.Sprintf("%d-%d", replica, i))))
			}
		}
		var all []answer
		for _, wait := range waits {
			all = append(all, wait()...)
		}
		if diff := cmp.Diff(map[outcome]int{allowed: 30, denied: 30}, outcomes(all)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		synctest.Wait()
		f := &fixture{store: store}
		quotatest.WantUsed(t, f.store, "a", "30", 30)
		quotatest.WantUsed(t, f.store, "b", "30", 30)
	})
}

// TestClusterScopedQuota checks that namespaces that share a quota share a queue, and that kube-system and Berth's own
// namespace are exempt.
func TestClusterScopedQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "uid-all", Generation: 1}}
		q.Spec.Hard = quotatest.List("pods", "3")
		q.Spec.NamespaceSelector = &placementv1.NamespaceSelector{}
		q.Status.ObservedGeneration = 1
		q.Status.Used = quotatest.List("pods", "0")
		w := &writes{}
		f := newFixture(t, quotatest.NewStore(t, q), w.funcs())
		var requests []*admissionv1.AdmissionRequest
		for i := range 8 {
			r := quotatest.NewCreate("pods", fmt.Sprint(i))
			r.Namespace = fmt.Sprintf("ns-%d", i%3)
			requests = append(requests, r)
		}
		for i, exempt := range []string{"kube-system", "berth-system"} {
			r := quotatest.NewCreate("pods", fmt.Sprintf("exempt-%d", i))
			r.Namespace = exempt
			requests = append(requests, r)
		}
		if diff := cmp.Diff(map[outcome]int{allowed: 5, denied: 5}, outcomes(f.together(t, requests...)())); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		got := &placementv1.ClusterScopedQuota{}
		if err := f.store.Get(t.Context(), client.ObjectKeyFromObject(q), got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(quotatest.List("pods", "3"), corev1.ResourceList(got.Status.Used), sameAmounts); diff != "" || len(got.Status.Reservations) != 3 {
			t.Errorf("%d reservations, -want +got:\n%s", len(got.Status.Reservations), diff)
		}
	})
}

// labelsOf are the labels of namespaces. The labels of other namespaces can't be read.
type labelsOf map[string]map[string]string

func (l labelsOf) Labels(_ context.Context, name string) (map[string]string, error) {
	found, ok := l[name]
	if !ok {
		return nil, errors.New("the namespace can't be read")
	}
	return found, nil
}

// TestSelectors checks that quotas and LimitedResources apply to the namespaces that they select.
func TestSelectors(t *testing.T) {
	prod := &placementv1.NamespaceSelector{MatchLabels: map[string]placementv1.LabelValue{"env": "prod"}}
	q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "uid-prod", Generation: 1}}
	q.Spec.Hard, q.Spec.NamespaceSelector = quotatest.List("pods", "0"), prod
	q.Status.ObservedGeneration, q.Status.Used = 1, quotatest.List("pods", "0")
	l := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "services", UID: "uid-services", Generation: 1}}
	l.Spec.Resource, l.Spec.MatchContains, l.Spec.NamespaceSelector = "services", []string{"services"}, prod
	f := newFixture(t, quotatest.NewStore(t, q, l), interceptor.Funcs{})
	namespaces := labelsOf{"shop": {"env": "prod"}, "test": {"env": "test"}, "bare": nil, "kube-system": {"env": "prod"}, "berth-system": {"env": "prod"}}
	f.charger.Namespaces, f.charger.LiveNamespaces = namespaces, namespaces
	want := map[string]outcome{
		"shop": denied, "test": allowed, "bare": allowed, "kube-system": allowed, "berth-system": allowed, "unknown": retry,
	}
	for _, resource := range []string{"pods", "services"} {
		for namespace, want := range want {
			r := quotatest.NewCreate(resource, "one")
			r.Namespace = namespace
			if r := f.ask(t, r); r.outcome != want {
				t.Errorf("%s in %s: %s, want %s: %+v", resource, namespace, r.outcome, want, r)
			}
		}
	}
}

// shared returns a ClusterScopedQuota over all namespaces, which puts their requests into one queue.
func shared() *placementv1.ClusterScopedQuota {
	q := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "shared", UID: "uid-shared", Generation: 1}}
	q.Spec.Hard = quotatest.List("pods", "100")
	q.Status.ObservedGeneration, q.Status.Used = 1, quotatest.List("pods", "0")
	return q
}

// TestOneNamespaceCantBeRead checks that an error for one namespace does not affect other requests in the same queue.
func TestOneNamespaceCantBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, pass := gate()
		broken := errors.New("no such shard")
		f := newFixture(t, quotatest.NewStore(t, shared()), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, to client.ObjectList, options ...client.ListOption) error {
				o := (&client.ListOptions{}).ApplyOptions(options)
				if _, scoped := to.(*placementv1.ScopedQuotaList); scoped && o.Namespace == "broken" {
					return broken
				}
				return c.List(ctx, to, options...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
				pass()
				return c.Status().Update(ctx, o, options...)
			},
		})
		first := f.together(t, quotatest.NewCreate("pods", "first"))
		synctest.Wait()
		bad, good := quotatest.NewCreate("pods", "bad"), quotatest.NewCreate("pods", "good")
		bad.Namespace, good.Namespace = "broken", "fine"
		both := f.together(t, bad, good)
		synctest.Wait()
		open()
		first()
		answers := both()
		if answers[0].outcome != retry || answers[1].outcome != allowed {
			t.Errorf("%+v, %+v", answers[0], answers[1])
		}
	})
}

// TestUncoveredAreReadOnce checks that lists that are the same for all requests of a batch are read once, however many
// requests are denied because no quota covers them.
func TestUncoveredAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, pass := gate()
		l := &placementv1.LimitedResource{ObjectMeta: metav1.ObjectMeta{Name: "services", UID: "uid-services", Generation: 1}}
		l.Spec.Resource, l.Spec.MatchContains = "services", []string{"services"}
		store := quotatest.NewStore(t, shared(), l)
		f := newFixture(t, store, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
				pass()
				return c.Status().Update(ctx, o, options...)
			},
		})
		var lists atomic.Int32
		f.charger.Live = interceptor.NewClient(store, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, to client.ObjectList, options ...client.ListOption) error {
				lists.Add(1)
				return c.List(ctx, to, options...)
			},
		})
		first := f.together(t, quotatest.NewCreate("pods", "first"))
		synctest.Wait()
		var requests []*admissionv1.AdmissionRequest
		for i := range 50 {
			requests = append(requests, quotatest.NewCreate("services", fmt.Sprint("service-", i)))
		}
		all := f.together(t, requests...)
		synctest.Wait()
		open()
		first()
		if got := outcomes(all()); got[denied] != 50 {
			t.Errorf("%v", got)
		}
		// The lists are the quotas of the namespace, the ClusterScopedQuotas, and the LimitedResources.
		if n := lists.Load(); n != 3 {
			t.Errorf("%d lists, want 3", n)
		}
	})
}

// TestTooManyOfOneNamespace checks that one namespace can't use up all reservations of a quota that it shares with
// others.
func TestTooManyOfOneNamespace(t *testing.T) {
	shared := &placementv1.ClusterScopedQuota{ObjectMeta: metav1.ObjectMeta{Name: "shared", UID: "uid-shared", Generation: 1}}
	shared.Spec.Hard = quotatest.List("pods", "5k")
	shared.Status.ObservedGeneration, shared.Status.Used = 1, quotatest.List("pods", "256")
	for i := range placementv1.MaxNamespaceReservations {
		shared.Status.Reservations = append(shared.Status.Reservations, placementv1.Reservation{
			UID: fmt.Sprintf("r%d", i), Resource: "pods", Namespace: quotatest.Namespace, Name: fmt.Sprintf("failed-%d", i), Delta: quotatest.List("pods", "1"), Expires: metav1.NewTime(now.Add(ttl)),
		})
	}
	f := newFixture(t, quotatest.NewStore(t, shared), interceptor.Funcs{})
	elsewhere := quotatest.NewCreate("pods", "neighbor")
	elsewhere.Namespace = "team-b"
	dryRun := quotatest.NewCreate("pods", "dry-run")
	dryRun.DryRun = new(true)
	for name, test := range map[string]struct {
		request *admissionv1.AdmissionRequest
		want    outcome
	}{
		"one more":                     {request: quotatest.NewCreate("pods", "one"), want: retry},
		"under a name of those before": {request: quotatest.NewCreate("pods", "failed-7"), want: allowed},
		"dry run":                      {request: dryRun, want: allowed},
		"in another namespace":         {request: elsewhere, want: allowed},
	} {
		t.Run(name, func(t *testing.T) {
			if r := f.ask(t, test.request); r.outcome != test.want {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestStoreWentBack checks a restore of etcd from a backup. What the replica wrote since the backup never happened, and
// the versions that it knows are ahead of every version that it can store.
func TestStoreWentBack(t *testing.T) {
	lagging := quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "1"))
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "5", "1")), interceptor.Funcs{})
	f.charger.Cached = lagging
	for _, name := range []string{"one", "two"} {
		if r := f.ask(t, quotatest.NewCreate("pods", name)); r.outcome != allowed {
			t.Fatalf("%s: %+v", name, r)
		}
	}

	restored := quotatest.NewQuota("q", "pods", "5", "4")
	restored.ResourceVersion = "7"
	f.store = quotatest.NewStore(t, restored)
	f.charger.Live, f.charger.Writer = f.store, f.store.Status()
	if r := f.ask(t, quotatest.NewCreate("pods", "three")); r.outcome != allowed {
		t.Errorf("three: %+v", r)
	}
	quotatest.WantUsed(t, f.store, "q", "5", 1)
	if r := f.ask(t, quotatest.NewCreate("pods", "four")); r.outcome != denied {
		t.Errorf("four: %+v", r)
	}
}
