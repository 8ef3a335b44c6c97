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

package faultproxy_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-dev/berth/test/framework/faultproxy"
	"github.com/berth-dev/berth/test/framework/pki"
)

const bound = 1 << 20

// outcome is what a client gets of an answer.
type outcome struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// post asks with a body, and reads not much more than bound of the answer.
func post(t *testing.T, client *http.Client, url, body string) outcome {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return outcome{err: err}
	}
	defer response.Body.Close()
	out := outcome{status: response.StatusCode, header: response.Header}
	out.body, out.err = io.ReadAll(io.LimitReader(response.Body, bound+1))
	return out
}

// target answers what it is asked, in the form of OPA's data API.
func target(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Path", r.RequestURI)
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"result": ` + string(body) + `}`))
	}))
	t.Cleanup(s.Close)
	return s
}

// enough is time for any answer that comes at all, on any machine; little is for those that never come.
const (
	enough = time.Minute
	little = 500 * time.Millisecond
)

func newClient(t *testing.T, pool *x509.CertPool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxResponseHeaderBytes: 64 << 10}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: enough, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// TestFaults: every fault is what it says it is, and the next request meets none.
func TestFaults(t *testing.T) {
	defer goleak.VerifyNone(t)
	const asked, answered = `"question"`, `{"result": "question"}`
	reset := func(o outcome) bool {
		return errors.Is(o.err, syscall.ECONNRESET) || errors.Is(o.err, io.EOF) || errors.Is(o.err, syscall.EPIPE)
	}
	isTimeout := func(o outcome) bool {
		var timeout net.Error
		return errors.As(o.err, &timeout) && timeout.Timeout()
	}
	says := func(status int) func(outcome) bool {
		return func(o outcome) bool { return o.err == nil && o.status == status }
	}
	oversized := func(o outcome) bool {
		return o.err == nil && o.status == http.StatusOK && len(o.body) == bound+1 && bytes.HasPrefix(o.body, []byte(`{"result": {"annotations": {"a": "aaa`))
	}
	half := func(o outcome) bool {
		return (errors.Is(o.err, io.ErrUnexpectedEOF) || reset(o)) && (o.status == 0 || strings.HasPrefix(answered, string(o.body)))
	}
	ok := func(o outcome) bool { return o.err == nil && string(o.body) == answered }
	isJSON := func(o outcome) bool { return json.Valid(o.body) }
	checks := map[string]func(outcome) bool{
		"latency": ok, "drip": ok,
		"hang": isTimeout, "endless interim responses": func(o outcome) bool { return isTimeout(o) || strings.Contains(o.err.Error(), "too many 1xx") },
		"refuse": reset, "cut before the answer": reset, "cut in the header": func(o outcome) bool { return o.err != nil && !isTimeout(o) },
		"cut in the body": half, "truncated": half, "truncated chunks": half,
		"oversized": oversized, "oversized, announced": oversized, "oversized, compressed": oversized,
		"html": func(o outcome) bool {
			return says(200)(o) && o.header.Get("Content-Type") == "text/html; charset=utf-8" && !isJSON(o)
		},
		"wrong content type": func(o outcome) bool {
			return says(202)(o) && o.header.Get("Content-Type") == "text/html" && string(o.body) == answered
		},
		"invalid json": func(o outcome) bool { return says(200)(o) && !isJSON(o) }, "trailing json": func(o outcome) bool { return says(200)(o) && !isJSON(o) },
		"empty": func(o outcome) bool { return says(200)(o) && len(o.body) == 0 }, "not an object": func(o outcome) bool { return says(200)(o) && isJSON(o) },
		"against the contract": func(o outcome) bool { return says(200)(o) && isJSON(o) },
		"redirect":             func(o outcome) bool { return says(307)(o) && o.header.Get("Location") == "/elsewhere" },
		"401":                  says(401), "403": says(403), "500": says(500), "502": says(502), "429": says(429), "503": says(503),
		"429, Retry-After in seconds": func(o outcome) bool { return says(429)(o) && o.header.Get("Retry-After") == "1" },
		"503, Retry-After in seconds": func(o outcome) bool { return says(503)(o) && o.header.Get("Retry-After") == "3600" },
		"503, Retry-After as a date": func(o outcome) bool {
			_, err := http.ParseTime(o.header.Get("Retry-After"))
			return says(503)(o) && err == nil
		},
		"endless header": func(o outcome) bool { return o.err != nil && strings.Contains(o.err.Error(), "exceeded 65536 bytes") },
		"garbage":        func(o outcome) bool { return o.err != nil && strings.Contains(o.err.Error(), "malformed HTTP") },
	}
	authority := pki.NewAuthority(t)
	certificate, key := authority.Server(time.Hour)
	for scheme, options := range map[string]faultproxy.Options{"http": {}, "https": {Certificate: certificate, Key: key}} {
		for _, fault := range faultproxy.All(4 * bound) {
			t.Run(scheme+"/"+fault.Name, func(t *testing.T) {
				options.Target = target(t).URL
				p := faultproxy.Start(t, options)
				client := newClient(t, authority.Pool())
				check, found := checks[fault.Name]
				if !found {
					t.Fatal("nobody says what this is")
				}
				p.Set(fault)
				if fault.Name == "hang" || fault.Name == "endless interim responses" {
					client.Timeout = little
				}
				got := post(t, client, p.URL(), asked)
				client.Timeout = enough
				if !check(got) {
					t.Errorf("status %d, header %v, body %.100q, error %v", got.status, got.header, got.body, got.err)
				}
				if fault.Heals() != (ok(got) && got.header.Get("Content-Type") == "application/json") {
					t.Errorf("heals: %t", fault.Heals())
				}
				if p.Met()[fault.Name] == 0 {
					t.Errorf("faults met: %v", p.Met())
				}
				p.Set(faultproxy.Fault{})
				if got := post(t, client, p.URL()+"/a%2Fb/c?d=e", asked); !ok(got) || got.status != 202 || got.header.Get("X-Path") != "/a%2Fb/c?d=e" {
					t.Errorf("without a fault: status %d, header %v, body %.100q, error %v", got.status, got.header, got.body, got.err)
				}
			})
		}
	}
}

// TestCertificate checks that the next connection fails if a certificate has expired or is of an unknown authority.
func TestCertificate(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("Proxy", func(t *testing.T) {
		authority := pki.NewAuthority(t)
		certificate, key := authority.Server(time.Hour)
		p := faultproxy.Start(t, faultproxy.Options{Target: target(t).URL, Certificate: certificate, Key: key})
		client := newClient(t, authority.Pool())
		try := func() error { return post(t, client, p.URL(), "1").err }
		if err := try(); err != nil {
			t.Fatal(err)
		}
		p.SetCertificate(authority.Server(-time.Hour))
		if err := try(); err != nil {
			t.Errorf("on the connection that there is: %v", err)
		}
		p.Cut()
		var invalid x509.CertificateInvalidError
		if err := try(); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
			t.Errorf("expired: %v", err)
		}
		p.SetCertificate(pki.NewAuthority(t).Server(time.Hour))
		var unknown x509.UnknownAuthorityError
		if err := try(); !errors.As(err, &unknown) {
			t.Errorf("unknown: %v", err)
		}
		p.SetCertificate(authority.Server(time.Hour))
		if err := try(); err != nil {
			t.Errorf("renewed: %v", err)
		}
	})
}

// TestMixed: under faults of all kinds, whatever is no error is the target's own answer, and nothing is left.
func TestMixed(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("Proxy", func(t *testing.T) {
		p := faultproxy.Start(t, faultproxy.Options{Target: target(t).URL})
		p.Choose(faultproxy.Mixed(1, 0.5, faultproxy.All(bound)...))
		client := newClient(t, nil)
		client.Timeout = 100 * time.Millisecond
		var asking sync.WaitGroup
		good := make([]int, 8)
		for worker := range good {
			asking.Go(func() {
				for i := range 40 {
					body := strconv.Itoa(1000*worker + i)
					got := post(t, client, p.URL(), body)
					if got.err == nil && got.status == http.StatusAccepted && got.header.Get("Content-Type") == "application/json" {
						good[worker]++
						if string(got.body) != `{"result": `+body+`}` {
							t.Errorf("%s has the answer %s", body, got.body)
						}
					}
				}
			})
		}
		asking.Wait()
		sum := 0
		for _, n := range good {
			sum += n
		}
		if sum == 0 || sum == 320 || p.Requests() < int64(sum) {
			t.Errorf("%d of 320 were answered, %d came", sum, p.Requests())
		}
		if kinds := len(p.Met()); kinds < 20 {
			t.Errorf("met only %v", p.Met())
		}
		client.CloseIdleConnections()
		p.Set(faultproxy.Fault{})
		deadline := time.NewTimer(enough)
		defer deadline.Stop()
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for p.Open() > 0 {
			select {
			case <-ticker.C:
			case <-deadline.C:
				t.Fatalf("%d of %d connections stay open", p.Open(), p.Connections())
			}
		}
	})
}
