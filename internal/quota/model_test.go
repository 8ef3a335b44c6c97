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
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quota/quotatest"
	"github.com/berth-dev/berth/test/budget"
)

// TestUsedIsNeverBelow runs random histories of an API server, a watch that lags behind it, and charges and recounts of
// one quota. Used must never be below what exists and may come to exist; otherwise the quota would admit more than
// hard. And it must equal what exists once everything has settled; otherwise something leaks.
func TestUsedIsNeverBelow(t *testing.T) {
	const steps = 200
	histories := budget.Rounds(10)
	seen := map[string]int{}
	for seed := range int64(histories) {
		m := newModel(t, seed)
		for range steps {
			m.step()
			m.check()
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, strings.Join(m.log, "\n"))
			}
		}
		m.settle()
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(m.log, "\n"))
		}
		for name, n := range m.seen {
			seen[name] += n
		}
	}
	t.Log(seen)
	for _, what := range []string{"admitted", "refused", "updated", "superseded", "arrived", "failed", "given back", "expired", "deleted", "finished", "relisted"} {
		if seen[what] < histories {
			t.Errorf("only %d times %s", seen[what], what)
		}
	}
}

// FuzzUsedIsNeverBelow runs TestUsedIsNeverBelow with other seeds.
func FuzzUsedIsNeverBelow(f *testing.F) {
	f.Add(int64(0))
	f.Fuzz(func(t *testing.T, seed int64) {
		m := newModel(t, seed)
		for range 300 {
			m.step()
			m.check()
			if t.Failed() {
				t.Fatal(strings.Join(m.log, "\n"))
			}
		}
		m.settle()
	})
}

const (
	// modelTTL is how long a charge is valid.
	modelTTL = 60 * time.Second
	// modelDelay bounds the delay of a request, and then of the watch. Together they take less time than a charge is
	// valid.
	modelDelay = 25 * time.Second
)

// podState is the state of a pod in the API server.
type podState struct {
	name, uid string
	version   int
	// milli is the pod's CPU request in millicores.
	milli    int
	finished bool
}

func (p podState) takes() corev1.ResourceList {
	if p.finished {
		return corev1.ResourceList{}
	}
	return corev1.ResourceList{"pods": resource.MustParse("1"), "requests.cpu": *resource.NewMilliQuantity(int64(p.milli), resource.DecimalSI)}
}

func (p podState) object() *unstructured.Unstructured {
	phase := corev1.PodRunning
	if p.finished {
		phase = corev1.PodSucceeded
	}
	return object(p.name, p.uid, strconv.Itoa(p.version), withCPU(fmt.Sprintf("%dm", p.milli)), withPhase(phase))
}

// change is an admitted request that is not stored yet. from is the version that it starts from; 0 for none.
type change struct {
	to    podState
	from  int
	until time.Time
	// asked are the UIDs of the admission requests.
	asked []string
}

// event is an event that the watch has not delivered yet.
type event struct {
	pod     podState
	deleted bool
	until   time.Time
}

// model is one namespace with one quota.
type model struct {
	t     *testing.T
	rand  *rand.Rand
	meter counting
	quota *placementv1.ScopedQuota
	rules *quota.Rules
	seen  map[string]int
	log   []string

	evaluators *quota.Evaluators
	pods       map[string]podState
	underWay   []change
	watch      []event
	version, n int
}

func newModel(t *testing.T, seed int64) *model {
	t.Helper()
	m := &model{t: t, rand: rand.New(rand.NewPCG(uint64(seed), 1)), meter: newMeter(), seen: map[string]int{}, pods: map[string]podState{}}
	m.evaluators = quota.NewEvaluators(m.meter.clock, quota.Devices{})
	hard := quotatest.Amounts("pods", "12", "requests.cpu", "12")
	m.quota = newQuota(hard, quotatest.Amounts("pods", "0", "requests.cpu", "0"))
	m.quota.UID, m.quota.Generation, m.quota.Status.ObservedGeneration = "model", 1, 1
	rules, err := compiler.Quota(t.Context(), m.quota)
	if err != nil {
		t.Fatal(err)
	}
	m.rules = rules
	m.meter.replace(t, pods)
	return m
}

func (m *model) did(what, format string, args ...any) {
	m.seen[what]++
	used := m.quota.Status.Used
	cpu, count := used["requests.cpu"], used["pods"]
	m.log = append(m.log, fmt.Sprintf("%s %s (used %s cpu, %s pods)", what, fmt.Sprintf(format, args...), cpu.String(), count.String()))
}

func (m *model) step() {
	switch p := m.rand.IntN(100); {
	case p < 25:
		m.n++
		m.ask(podState{name: fmt.Sprintf("pod-%d", m.rand.IntN(20)), uid: fmt.Sprintf("uid-%d", m.n), milli: 100 * m.rand.IntN(20)}, nil)
	case p < 45:
		if old, ok := m.pick(); ok && !old.finished {
			next := old
			next.milli = 100 * m.rand.IntN(30)
			m.ask(next, &old)
		}
	case p < 54:
		m.arrive()
	case p < 60:
		m.fail(func(change) bool { return m.rand.IntN(2) == 0 })
	case p < 64:
		m.touch()
	case p < 68:
		if pod, ok := m.pick(); ok {
			delete(m.pods, pod.name)
			m.watch = append(m.watch, event{pod: pod, deleted: true, until: m.meter.clock.Now().Add(modelDelay)})
			m.did("deleted", "%+v", pod)
		}
	case p < 78:
		m.deliver()
	case p < 80:
		m.watch = nil
		var all []*unstructured.Unstructured
		for _, pod := range m.pods {
			all = append(all, pod.object())
		}
		m.meter.replace(m.t, pods, all...)
		m.did("relisted", "%d", len(all))
	case p < 88:
		m.recount()
	default:
		m.wait(time.Duration(m.rand.IntN(20)) * time.Second)
	}
}

func (m *model) pick() (podState, bool) {
	if len(m.pods) == 0 {
		return podState{}, false
	}
	names := slices.Sorted(maps.Keys(m.pods))
	return m.pods[names[m.rand.IntN(len(names))]], true
}

// ask requests to create or resize a pod, and charges it. Some requests are sent twice, as if two webhooks matched.
func (m *model) ask(next podState, old *podState) {
	c := change{to: next, until: m.meter.clock.Now().Add(modelDelay)}
	times := 1 + m.rand.IntN(5)/4
	for i := range times {
		m.n++
		r := &admissionv1.AdmissionRequest{
			UID: types.UID(fmt.Sprintf("request-%d", m.n)), Operation: admissionv1.Create, Namespace: "ns", Name: next.name,
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: raw(m.t, next, old == nil),
		}
		if old != nil {
			c.from = old.version
			r.Operation, r.SubResource, r.OldObject = admissionv1.Update, "resize", raw(m.t, *old, false)
		}
		request, err := m.evaluators.NewRequest(string(r.UID), r)
		if err != nil {
			m.t.Fatal(err)
		}
		account := quota.NewAccount(m.quota, m.rules)
		verdict, err := request.Admit(m.t.Context(), []*quota.Account{account}, nil, m.meter.clock.Now().Add(modelTTL))
		if err != nil {
			m.t.Fatal(err)
		}
		if !verdict.Allowed() {
			m.did("refused", "%+v", next)
			return
		}
		if i > 0 && !upstream.Equals(m.quota.Status.Used, account.Quota().QuotaStatus().Used) {
			m.t.Errorf("charged twice: %+v", next)
		}
		if m.rand.IntN(2) == 0 {
			account.Settle(func(q placementv1.Quota) []placementv1.Reservation {
				return m.meter.Unsettled(q.QuotaStatus().Reservations, everywhere.Selects)
			})
		}
		m.quota, _ = account.Quota().(*placementv1.ScopedQuota)
		c.asked = append(c.asked, request.ChargeID)
	}
	m.underWay = append(m.underWay, c)
	if old == nil {
		m.did("admitted", "%+v", next)
	} else {
		m.did("updated", "%+v from %+v", next, *old)
	}
}

func raw(t *testing.T, p podState, isNew bool) runtime.RawExtension {
	t.Helper()
	o := p.object()
	if isNew {
		o.SetResourceVersion("")
	}
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// arrive stores one of the changes if the API server would accept it.
func (m *model) arrive() {
	if len(m.underWay) == 0 {
		return
	}
	i := m.rand.IntN(len(m.underWay))
	c := m.underWay[i]
	m.underWay = slices.Delete(m.underWay, i, i+1)
	before, exists := m.pods[c.to.name]
	if c.from == 0 && exists || c.from != 0 && (before.uid != c.to.uid || before.version != c.from) {
		m.did("superseded", "%+v", c.to)
		return
	}
	m.store(c.to)
	m.did("arrived", "%+v", c.to)
}

func (m *model) store(p podState) {
	m.version++
	p.version = m.version
	m.pods[p.name] = p
	m.watch = append(m.watch, event{pod: p, until: m.meter.clock.Now().Add(modelDelay)})
}

// fail drops changes, as if a later admission step had denied them or the client had timed out. Some of them are given
// back.
func (m *model) fail(which func(change) bool) {
	m.underWay = slices.DeleteFunc(m.underWay, func(c change) bool {
		if !which(c) {
			return false
		}
		m.did("failed", "%+v", c.to)
		if m.rand.IntN(3) == 0 {
			account := quota.NewAccount(m.quota, m.rules)
			account.ReleaseCharges(func(uid string) bool { return slices.Contains(c.asked, uid) })
			m.quota, _ = account.Quota().(*placementv1.ScopedQuota)
			m.did("given back", "%v", c.asked)
		}
		return true
	})
}

// touch changes a pod without a quota check: its status, which may terminate it, or its labels.
func (m *model) touch() {
	if pod, ok := m.pick(); ok {
		pod.finished = pod.finished || m.rand.IntN(2) == 0
		m.store(pod)
		m.did("finished", "%+v", pod)
	}
}

func (m *model) deliver() {
	if len(m.watch) == 0 {
		return
	}
	e := m.watch[0]
	m.watch = m.watch[1:]
	if e.deleted {
		m.meter.Delete(pods, "ns", e.pod.name)
		return
	}
	m.meter.put(m.t, pods, e.pod.object())
}

func (m *model) recount() {
	before := len(m.quota.Status.Reservations)
	now := m.meter.clock.Now()
	if slices.ContainsFunc(m.quota.Status.Reservations, func(r placementv1.Reservation) bool { return quota.Expired(r, now) }) {
		m.seen["expired"]++
	}
	r, err := m.meter.Recount(m.t.Context(), m.quota, m.rules, everywhere)
	if err != nil {
		m.t.Fatal(err)
	}
	m.quota = m.quota.DeepCopy()
	m.quota.Status.Used, m.quota.Status.Reservations = r.Used, r.Reservations
	m.did("recounted", "%d of %d reservations left", len(r.Reservations), before)
}

// wait advances the clock. It fails the requests and delivers the events whose maximum delay is over.
func (m *model) wait(d time.Duration) {
	m.meter.clock.Step(d)
	now := m.meter.clock.Now()
	m.fail(func(c change) bool { return now.After(c.until) })
	for len(m.watch) > 0 && now.After(m.watch[0].until) {
		m.deliver()
	}
	m.did("waited", "%s", d)
}

// exists returns what existing pods take.
func (m *model) exists() corev1.ResourceList {
	out := quotatest.Amounts("pods", "0", "requests.cpu", "0")
	for _, p := range m.pods {
		out = upstream.Add(out, p.takes())
	}
	return out
}

// check compares used with the maximum that can exist: existing pods and pending changes. Of several objects with one
// name, at most one exists at a time. No name may have more than one reservation for creates of several objects.
func (m *model) check() {
	m.t.Helper()
	need := quotatest.Amounts("pods", "0", "requests.cpu", "0")
	most := map[string]corev1.ResourceList{}
	for _, p := range m.pods {
		most[p.name] = p.takes()
	}
	for _, c := range m.underWay {
		if before := m.pods[c.to.name]; c.from != 0 && (before.uid != c.to.uid || before.version != c.from) {
			continue
		}
		most[c.to.name] = upstream.Max(most[c.to.name], c.to.takes())
	}
	for _, takes := range most {
		need = upstream.Add(need, takes)
	}
	if ok, names := upstream.LessThanOrEqual(need, m.quota.Status.Used); !ok {
		m.t.Errorf("%v: needed %v, used %v", names, need, m.quota.Status.Used)
	}
	objects := map[string]string{}
	for _, r := range m.quota.Status.Reservations {
		if before, found := objects[r.Name]; r.ObjectVersion == "" && found && (before != r.ObjectUID || before == "") {
			m.t.Errorf("two reservations for creates of %s: %+v", r.Name, m.quota.Status.Reservations)
		} else if r.ObjectVersion == "" {
			objects[r.Name] = r.ObjectUID
		}
	}
}

func (m *model) settle() {
	m.t.Helper()
	for len(m.underWay) > 0 {
		m.arrive()
	}
	for len(m.watch) > 0 {
		m.deliver()
	}
	m.check()
	m.recount()
	m.check()
	m.wait(modelTTL)
	m.recount()
	if len(m.quota.Status.Reservations) != 0 || !upstream.Equals(m.exists(), m.quota.Status.Used) {
		m.t.Errorf("settled with %d reservations: used %v, exists %v", len(m.quota.Status.Reservations), m.quota.Status.Used, m.exists())
	}
}
