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

package certs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/notify"
)

// world is a Secret, the CA bundles of the API server, and replicas that use both.
type world struct {
	t       *testing.T
	client  client.Client
	clock   *testingclock.FakePassiveClock
	present [][]byte
	fails   error
}

func newWorld(t *testing.T) *world {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName}}
	return &world{t: t, client: fake.NewClientBuilder().WithObjects(secret).Build(), clock: testingclock.NewFakePassiveClock(start)}
}

func (w *world) replica() *Source {
	return &Source{
		reader: w.client, clock: w.clock, changes: notify.NewSignal(),
		options: Options{Namespace: namespace, Hosts: hosts, Bundles: func(context.Context) ([][]byte, error) { return w.present, w.fails }},
	}
}

func (w *world) fill(data map[string][]byte) {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(w.t.Context(), certName, secret); err != nil {
		w.t.Fatal(err)
	}
	secret.Data = data
	if err := w.client.Update(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reconcile(s *Source) time.Duration {
	w.t.Helper()
	result, err := s.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: certName})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// serves checks that the replica serves the certificate, with a CA bundle of exactly these authorities, and is requeued
// after the given time.
func (w *world) serves(s *Source, want map[string][]byte, after time.Duration, bundle ...map[string][]byte) {
	w.t.Helper()
	if got := w.reconcile(s); got != after {
		w.t.Errorf("looks again after %v, want %v", got, after)
	}
	got, err := s.GetCertificate(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	leaf, _ := pair(w.t, want)
	if !got.Leaf.Equal(leaf) || !s.Expiry().Equal(leaf.NotAfter) {
		w.t.Errorf("serves %v until %v, want %v", got.Leaf.SerialNumber, got.Leaf.NotAfter, leaf.SerialNumber)
	}
	var text []byte
	for _, data := range bundle {
		text = append(text, data[caName]...)
	}
	if !bytes.Equal(s.CABundle(), text) {
		w.t.Errorf("trusts %d bytes, want those %d of %d authorities", len(s.CABundle()), len(text), len(bundle))
	}
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// TestAuthorityChange replaces an authority. No replica may serve a certificate that the API server does not trust,
// whatever the order in which they notice the change.
func TestAuthorityChange(t *testing.T) {
	w := newWorld(t)
	first, second := renewed(t, nil, start), renewed(t, nil, start)
	leader, follower := w.replica(), w.replica()
	if w.reconcile(leader); leader.CABundle() != nil || leader.Trusted() || !leader.Expiry().IsZero() {
		t.Error("something is served before there is a certificate")
	}
	if _, err := leader.GetCertificate(nil); err == nil {
		t.Error("handshakes succeed before there is a certificate")
	}

	w.fill(first)
	for _, s := range []*Source{leader, follower} {
		w.serves(s, first, 0, first)
		if !s.Trusted() {
			t.Error("without webhooks nothing is to be waited for")
		}
	}
	<-leader.Changes()
	w.present = [][]byte{first[caName], first[caName]}
	w.pass(time.Hour)
	w.serves(leader, first, 0, first)

	w.fill(second)
	w.serves(leader, first, settle, second, first)
	<-leader.Changes()
	w.pass(time.Hour)
	w.serves(leader, first, settle, second, first)
	w.present = [][]byte{first[caName], leader.CABundle()}
	w.serves(leader, first, settle, second, first)
	w.serves(follower, first, settle, second, first)
	// One webhook trusts it and another does not yet. This time does not count.
	w.pass(time.Hour)
	w.serves(follower, first, settle, second, first)
	w.present = [][]byte{leader.CABundle(), leader.CABundle()}
	w.serves(leader, first, settle, second, first)
	w.pass(time.Second)
	w.serves(leader, first, settle-time.Second, second, first)
	w.serves(follower, first, settle, second, first)
	w.pass(settle - time.Second)
	w.serves(leader, second, defaultOverlap-settle, second, first)
	w.serves(follower, first, time.Second, second, first)
	w.pass(time.Second)
	w.serves(follower, second, defaultOverlap-settle, second, first)
	if !leader.Trusted() || !follower.Trusted() {
		t.Error("not trusted at the end")
	}

	select {
	case <-leader.Changes():
		t.Error("told of a change without any")
	default:
	}
	w.pass(defaultOverlap - settle - time.Second)
	w.serves(leader, second, 0, second)
	<-leader.Changes()
	// A replica that starts now counts from the beginning: it does not know since when the second authority is trusted.
	w.serves(w.replica(), second, defaultOverlap, second, first)
	w.present = [][]byte{leader.CABundle(), leader.CABundle()}
	w.serves(w.replica(), second, 0, second)
}

// TestLeafRenewalIsServedAtOnce checks that a new certificate of the same authority is served immediately.
func TestLeafRenewalIsServedAtOnce(t *testing.T) {
	w := newWorld(t)
	first := renewed(t, nil, start)
	second := renewed(t, first, start)
	w.fill(first)
	w.present = [][]byte{first[caName]}
	s := w.replica()
	w.serves(s, first, 0, first)
	w.pass(settle)
	w.fill(second)
	w.serves(s, second, 0, first)
}

// TestSeveralAuthorityChanges checks that authorities that are replaced in quick succession are all trusted until the
// last one has settled.
func TestSeveralAuthorityChanges(t *testing.T) {
	w := newWorld(t)
	s := w.replica()
	var all []map[string][]byte
	for range 4 {
		data := renewed(t, nil, start)
		all = slices.Insert(all, 0, data)
		w.fill(data)
		w.reconcile(s)
		w.present = [][]byte{s.CABundle()}
		w.serves(s, all[len(all)-1], map[bool]time.Duration{false: settle}[len(all) == 1], all...)
		w.pass(settle - time.Second)
	}
	w.pass(time.Second)
	w.serves(s, all[0], defaultOverlap-settle, all...)
	w.pass(defaultOverlap)
	w.serves(s, all[0], 0, all[0])
}

// TestNewestIsServedWhereTheOldOneIsUseless checks that the newest certificate is served if the old one is not trusted
// anyway.
func TestNewestIsServedWhereTheOldOneIsUseless(t *testing.T) {
	for name, change := range map[string]func(w *world, second map[string][]byte){
		"no webhook is left":               func(w *world, _ map[string][]byte) { w.present = nil },
		"no webhook trusts the old one":    func(w *world, second map[string][]byte) { w.present = [][]byte{second[caName]} },
		"no webhook trusts anything":       func(w *world, _ map[string][]byte) { w.present = [][]byte{nil, []byte("garbage")} },
		"the old one has expired meantime": func(w *world, _ map[string][]byte) { w.pass(leafLifetime - 12*time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := renewed(t, nil, start.Add(-24*time.Hour))
			second := renewed(t, nil, start)
			w.fill(first)
			w.present = [][]byte{first[caName]}
			s := w.replica()
			w.serves(s, first, 0, first)
			w.fill(second)
			w.serves(s, first, settle, second, first)
			change(w, second)
			w.reconcile(s)
			leaf, _ := pair(t, second)
			if got, err := s.GetCertificate(nil); err != nil || !got.Leaf.Equal(leaf) {
				t.Errorf("the old one is served still: %v", err)
			}
		})
	}
}

// TestStartDuringAChange checks that a replica that starts before its authority is trusted serves the certificate, but
// is not ready.
func TestStartDuringAChange(t *testing.T) {
	w := newWorld(t)
	first, second := renewed(t, nil, start), renewed(t, nil, start)
	w.present = [][]byte{first[caName]}
	w.fill(second)
	s := w.replica()
	w.serves(s, second, 0, second, first)
	if s.Trusted() {
		t.Error("it is ready")
	}
	w.present = [][]byte{s.CABundle()}
	w.serves(s, second, defaultOverlap, second, first)
	if !s.Trusted() {
		t.Error("it is not ready")
	}
}

// TestExpiredAuthorityLeavesTheBundle checks that an expired authority is removed from the CA bundle.
func TestExpiredAuthorityLeavesTheBundle(t *testing.T) {
	w := newWorld(t)
	old := renewed(t, nil, start.Add(-authorityLifetime-time.Hour))
	now := renewed(t, nil, start)
	w.present = [][]byte{slices.Concat(now[caName], old[caName])}
	w.fill(now)
	w.serves(w.replica(), now, 0, now)
}

// TestBadSecretChangesNothing checks that a certificate which the API server would reject is not served, and that the
// previous one still is.
func TestBadSecretChangesNothing(t *testing.T) {
	first, second := renewed(t, nil, start), renewed(t, nil, start)
	elsewhere, err := renew(nil, []string{"elsewhere.example.com"}, start)
	if err != nil {
		t.Fatal(err)
	}
	only := func(data map[string][]byte, keys ...string) map[string][]byte {
		out := map[string][]byte{}
		for _, k := range keys {
			out[k] = data[k]
		}
		return out
	}
	mixed := only(first, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	mixed[caName] = second[caName]
	keys := only(first, corev1.TLSCertKey, caName)
	keys[corev1.TLSPrivateKeyKey] = second[corev1.TLSPrivateKeyKey]
	garbage := only(first, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	garbage[caName] = encode([]byte("garbage"))
	for name, test := range map[string]struct {
		data map[string][]byte
		want time.Duration
	}{
		"empty":                   {},
		"no authority":            {only(second, corev1.TLSCertKey, corev1.TLSPrivateKeyKey), retry},
		"broken authority":        {garbage, retry},
		"another's authority":     {mixed, retry},
		"another's key":           {keys, retry},
		"no key":                  {only(second, corev1.TLSCertKey, caName), retry},
		"for another host":        {elsewhere, retry},
		"expired":                 {renewed(t, nil, start.Add(-leafLifetime-time.Second)), retry},
		"not valid for some time": {renewed(t, nil, start.Add(2*backdating)), retry},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill(test.data)
			s := w.replica()
			if got := w.reconcile(s); got != test.want || s.CABundle() != nil {
				t.Errorf("at the start it looks again after %v, want %v", got, test.want)
			}
			w.fill(first)
			w.serves(s, first, 0, first)
			w.present = [][]byte{first[caName]}
			w.fill(test.data)
			w.serves(s, first, test.want, first)
		})
	}
}

// TestLossesAreLivedThrough checks that a replica keeps serving if its Secret is deleted, and changes nothing if it
// cannot read the webhook configurations.
func TestLossesAreLivedThrough(t *testing.T) {
	w := newWorld(t)
	first := renewed(t, nil, start)
	w.fill(first)
	w.present = [][]byte{first[caName]}
	s := w.replica()
	w.serves(s, first, 0, first)
	if err := w.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName}}); err != nil {
		t.Fatal(err)
	}
	w.serves(s, first, 0, first)
	w.fails = errors.New("no grant")
	if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: certName}); !errors.Is(err, w.fails) {
		t.Errorf("got %v", err)
	}
}
