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

package webhookauth

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/internal/policy"
)

const path = "/placement/fail"

var (
	start      = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	secretName = types.NamespacedName{Namespace: "berth-system", Name: SecretName}
)

// fixture is a cluster with a Secret and webhook configurations, a leader, and another replica.
type fixture struct {
	t      *testing.T
	clock  *testingclock.FakePassiveClock
	client client.Client
	// used are the tokens in the configurations. While frozen is set, the leader's choice is not written there.
	used    []string
	frozen  bool
	leader  *rotation
	replica *Tokens
	refused int
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, clock: testingclock.NewFakePassiveClock(start), client: fake.NewClientBuilder().Build()}
	f.replica = f.tokens()
	f.elect()
	return f
}

func (f *fixture) tokens() *Tokens {
	return newTokens(Options{
		Lifetime: time.Hour, Settle: 10 * time.Second, Overlap: time.Minute,
		Used: func(context.Context) ([]string, error) { return f.used, nil }, Refused: func() { f.refused++ },
	}, f.client, f.clock)
}

// elect replaces the leader.
func (f *fixture) elect() {
	f.leader = &rotation{tokens: f.tokens()}
}

// settle reconciles until nothing changes, and returns the time until the next step.
func (f *fixture) settle() (after time.Duration) {
	f.t.Helper()
	for range 5 {
		result, err := f.leader.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: secretName})
		if err != nil {
			f.t.Fatal(err)
		}
		after = result.RequeueAfter
		if token, ok := f.leader.tokens.Current(); ok && !f.frozen {
			f.used = []string{token, token}
		}
		if _, err := f.replica.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: secretName}); err != nil {
			f.t.Fatal(err)
		}
	}
	return after
}

func (f *fixture) step(d time.Duration) {
	f.clock.SetTime(f.clock.Now().Add(d))
	f.settle()
}

// stored returns the tokens in the Secret.
func (f *fixture) stored() []string {
	f.t.Helper()
	secret := &corev1.Secret{}
	if err := f.client.Get(f.t.Context(), secretName, secret); err != nil {
		f.t.Fatal(err)
	}
	have, err := decode(secret.Data)
	if err != nil {
		f.t.Fatal(err)
	}
	return have.tokens
}

// status returns the replica's HTTP status for a path.
func (f *fixture) status(at string) int {
	f.t.Helper()
	handler := f.replica.Handler(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path || strings.Contains(r.RequestURI, "/fail/") || r.URL.Query().Get("timeout") != "5s" {
			f.t.Errorf("the webhook is asked for %s, as %s", r.URL, r.RequestURI)
		}
		w.WriteHeader(http.StatusOK)
	}))
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(f.t.Context(), http.MethodPost, at+"?timeout=5s", strings.NewReader("{}")))
	return recorder.Code
}

// TestRotation checks that a token is accepted before it is used, and that the earlier token is accepted until it has
// not been used for a minute. Both times are measured with the leader's clock.
func TestRotation(t *testing.T) {
	f := newFixture(t)
	f.settle()
	first := f.used[0]
	if f.status(path+"/"+first) != http.StatusOK {
		t.Fatal("the first token is refused")
	}
	f.step(time.Hour - time.Second)
	if got := f.stored(); !slices.Equal(got, []string{first}) {
		t.Fatalf("%d tokens after less than an hour", len(got))
	}

	f.step(time.Second)
	second := f.stored()[0]
	if second == first || f.used[0] != first {
		t.Fatal("a new token is due, and not to be used before replicas know it")
	}
	for _, token := range []string{first, second} {
		if f.status(path+"/"+token) != http.StatusOK {
			t.Error("a token is refused while the API server is not told of the new one")
		}
	}

	f.step(10 * time.Second)
	if f.used[0] != second {
		t.Fatal("the new token is not used after replicas had time to learn it")
	}
	f.step(59 * time.Second)
	if f.status(path+"/"+first) != http.StatusOK {
		t.Error("the old token is refused while API servers may still use it")
	}
	f.step(time.Second)
	if f.status(path+"/"+first) != http.StatusNotFound || f.status(path+"/"+second) != http.StatusOK {
		t.Error("after the overlap the new token alone is to be accepted")
	}
}

// TestConfigurationsThatAreNotWritten checks that the earlier token is accepted as long as any configuration contains
// it.
func TestConfigurationsThatAreNotWritten(t *testing.T) {
	f := newFixture(t)
	f.settle()
	first := f.used[0]
	f.frozen = true
	for range 10 {
		f.step(time.Hour)
	}
	if f.status(path+"/"+first) != http.StatusOK {
		t.Error("a token is refused that the API server uses")
	}
	if n := len(f.stored()); n > 3 {
		t.Errorf("%d tokens in the Secret", n)
	}
}

// TestNewLeaderRotates checks that a new leader replaces the token, because errors during an outage may have shown it
// to users.
func TestNewLeaderRotates(t *testing.T) {
	f := newFixture(t)
	f.settle()
	first := f.used[0]
	f.step(time.Minute)
	f.elect()
	f.settle()
	for range 8 {
		f.step(10 * time.Second)
	}
	if f.status(path+"/"+first) != http.StatusNotFound || f.used[0] == first {
		t.Error("the token of the leader before is still accepted")
	}
}

// TestExposed checks that a token is replaced if a user may have seen it, but not before the rotation before has ended.
func TestExposed(t *testing.T) {
	f := newFixture(t)
	f.settle()
	giveUp := func(token string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		handler := f.replica.Handler(path, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, path+"/"+token, http.NoBody))
	}
	f.step(5 * time.Minute)
	f.status(path + "/" + f.used[0])
	giveUp("guessed")
	f.step(time.Minute)
	first := f.used[0]
	if got := f.stored(); !slices.Equal(got, []string{first}) {
		t.Fatalf("%d tokens though nobody saw the token", len(got))
	}
	giveUp(first)
	f.settle()
	second := f.stored()[0]
	if second == first || f.used[0] != first {
		t.Fatal("a new token is due, and not to be used before replicas know it")
	}
	for range 6 {
		f.step(9 * time.Second)
		giveUp(f.used[0])
		f.settle()
	}
	if got := f.stored(); f.used[0] != second || !slices.Equal(got, []string{second, first}) {
		t.Fatalf("%d tokens before the rotation has ended", len(got))
	}
	f.step(16 * time.Second)
	if got := f.stored(); got[0] == second || got[1] != second {
		t.Error("no new token though users saw the one before meanwhile")
	}
	f.step(10 * time.Second)
	if f.status(path+"/"+first) != http.StatusNotFound {
		t.Error("the token that a user saw is still accepted")
	}
	f.step(time.Minute)
	third := f.used[0]
	f.step(50 * time.Minute)
	if got := f.stored(); !slices.Equal(got, []string{third}) {
		t.Errorf("%d tokens though nobody saw the third", len(got))
	}
}

// TestLostSecret checks that no request of the API server is refused when the Secret is lost or invalid.
func TestLostSecret(t *testing.T) {
	for name, change := range map[string]func(*fixture, *corev1.Secret) error{
		"deleted": func(f *fixture, s *corev1.Secret) error { return f.client.Delete(f.t.Context(), s) },
		"emptied": func(f *fixture, s *corev1.Secret) error { s.Data = nil; return f.client.Update(f.t.Context(), s) },
		"broken": func(f *fixture, s *corev1.Secret) error {
			s.Data[tokensKey] = []byte("{")
			return f.client.Update(f.t.Context(), s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle()
			f.step(time.Minute)
			secret := &corev1.Secret{}
			if err := f.client.Get(t.Context(), secretName, secret); err != nil {
				t.Fatal(err)
			}
			if err := change(f, secret); err != nil {
				t.Fatal(err)
			}
			for range 12 {
				used := f.used[0]
				f.settle()
				if f.status(path+"/"+used) != http.StatusOK || f.status(path+"/"+f.used[0]) != http.StatusOK {
					t.Fatal("a token is refused that the API server uses")
				}
				f.step(9 * time.Second)
			}
			if got := f.stored(); len(got) != 1 || got[0] != f.used[0] {
				t.Errorf("%d tokens in the Secret", len(got))
			}
		})
	}
}

// TestRefused checks that a request without a valid token gets the same response at every path, is not read, and is
// counted.
func TestRefused(t *testing.T) {
	f := newFixture(t)
	f.settle()
	token := f.used[0]
	for name, at := range map[string]string{
		"no token": path, "empty": path + "/", "another": path + "/" + newToken(), "longer": path + "/" + token + "a", "shorter": path + "/" + token[1:],
		"below": path + "/" + token + "/", "upper case": path + "/" + strings.ToUpper(token), "huge": path + "/" + strings.Repeat("a", 1<<16), "another path": "/placement/failed/" + token,
	} {
		t.Run(name, func(t *testing.T) {
			before := f.refused
			body := &unread{}
			recorder := httptest.NewRecorder()
			f.replica.Handler(path, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })).
				ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, at, body))
			if recorder.Code != http.StatusNotFound || body.read || f.refused != before+1 || strings.Contains(recorder.Body.String(), token) {
				t.Errorf("status %d, body read: %v, %d refused: %s", recorder.Code, body.read, f.refused-before, recorder.Body)
			}
		})
	}
	unknowing := f.tokens()
	recorder := httptest.NewRecorder()
	unknowing.Handler(path, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })).
		ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
	if recorder.Code != http.StatusNotFound || unknowing.Known() {
		t.Errorf("a replica that knows no token answers %d", recorder.Code)
	}
}

type unread struct{ read bool }

func (u *unread) Read([]byte) (int, error) {
	u.read = true
	return 0, io.EOF
}

// TestPaths checks that the API server accepts the paths, and that TokenIn finds the tokens in them.
func TestPaths(t *testing.T) {
	token := newToken()
	if errs := validation.IsDNS1123Subdomain(token); len(errs) > 0 || len(token) > maxLength {
		t.Errorf("%v", errs)
	}
	for name, test := range map[string]struct {
		config admissionregistrationv1.WebhookClientConfig
		want   string
		ok     bool
	}{
		"service":            {config: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: new(Path(path, token))}}, want: token, ok: true},
		"URL":                {config: admissionregistrationv1.WebhookClientConfig{URL: new("https://h:1" + Path(path, token))}, want: token, ok: true},
		"URL with a prefix":  {config: admissionregistrationv1.WebhookClientConfig{URL: new("https://h:1/berth" + Path(path, token))}, want: token, ok: true},
		"without a token":    {config: admissionregistrationv1.WebhookClientConfig{URL: new("https://h:1" + path)}},
		"another's":          {config: admissionregistrationv1.WebhookClientConfig{URL: new("https://h:1/other/" + token)}},
		"service, no path":   {config: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{}}},
		"URL that is broken": {config: admissionregistrationv1.WebhookClientConfig{URL: new("%")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := TokenIn(test.config, "/policies", path)
			if diff := cmp.Diff(test.want, got); diff != "" || ok != test.ok {
				t.Errorf("%v, -want +got:\n%s", ok, diff)
			}
		})
	}
}

// TestSecretIsReserved checks that no policy can send the Secret with the tokens to an engine.
func TestSecretIsReserved(t *testing.T) {
	if !slices.Contains(policy.ReservedSecrets, SecretName) {
		t.Errorf("policies can name the Secret %s", SecretName)
	}
}
