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

package review_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/review"
)

// decider is a fake whose responses contain what it received.
type decider struct {
	// hold, if not nil, blocks every decision until it is closed. began receives a value when a decision begins.
	hold, began chan struct{}
	// bytes is the size of the objects that are being decided, and most is its maximum so far.
	bytes, most atomic.Int64
}

func (d *decider) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Name == "panic" {
		panic("oh")
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return admission.Denied("no deadline")
	}
	size := int64(len(req.Object.Raw))
	if now := d.bytes.Add(size); now > d.most.Load() {
		d.most.Store(now)
	}
	if d.hold != nil {
		d.began <- struct{}{}
		<-d.hold
	}
	d.bytes.Add(-size)
	return admission.Allowed(fmt.Sprintf("%s %d", req.Name, size))
}

func (d *decider) HandleUnread(_ context.Context, req admission.Request, err *apierrors.StatusError) admission.Response {
	return admission.Denied(fmt.Sprintf("%s %s/%s unread: %s", req.Operation, req.Namespace, req.Name, err.ErrStatus.Reason))
}

// reviewOf returns an AdmissionReview as the API server writes it, whose object has the given number of bytes.
func reviewOf(name string, bytes int) string {
	object := `{"a":"` + strings.Repeat("x", max(0, bytes-len(`{"a":""}`))) + `"}`
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-` + name + `","kind":{"group":"","version":"v1","kind":"ConfigMap"},` +
		`"resource":{"group":"","version":"v1","resource":"configmaps"},"name":"` + name + `","namespace":"ns","operation":"CREATE","userInfo":{"username":"a","extra":{"b":["c"]}},` +
		`"object":` + object + `,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions"}}}`
}

// answer contains the parts of a response that the tests compare.
type answer struct {
	Status  int
	Version string
	UID     string
	Allowed bool
	Code    int32
	Message string
}

func post(t testing.TB, h http.Handler, contentType string, body io.Reader, length int64) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	r.ContentLength = length
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return answer{w.Code, out.APIVersion + " " + out.Kind, string(out.Response.UID), out.Response.Allowed, out.Response.Result.Code, out.Response.Result.Message}
}

func TestServeHTTP(t *testing.T) {
	const (
		version  = "admission.k8s.io/v1 AdmissionReview"
		jsonType = "application/json"
	)
	tests := map[string]struct {
		body, contentType string
		chunked           bool
		want              answer
	}{
		"Small":        {body: reviewOf("a", 20), want: answer{200, version, "u-a", true, 200, "a 20"}},
		"Large":        {body: reviewOf("a", 8<<20), want: answer{200, version, "u-a", true, 200, "a 8388608"}},
		"Chunked":      {body: reviewOf("a", 20), chunked: true, want: answer{200, version, "u-a", true, 200, "a 20"}},
		"TooLarge":     {body: reviewOf("a", review.MaxBytes), want: answer{200, version, "u-a", false, 403, "CREATE ns/a unread: RequestEntityTooLarge"}},
		"Hostile":      {body: reviewOf(`a\n\u001b[1m`, 20), want: answer{200, version, "u-a\n\x1b[1m", true, 200, `a\n\u001b[1m 20`}},
		"Panic":        {body: reviewOf("panic", 20), want: answer{200, version, "u-panic", false, 500, "panic: oh [recovered]"}},
		"OtherType":    {body: reviewOf("a", 20), contentType: "application/yaml", want: answer{200, version, "", false, 400, "contentType=application/yaml, expected application/json"}},
		"OtherVersion": {body: strings.Replace(reviewOf("a", 20), "k8s.io/v1", "k8s.io/v1beta1", 1), want: answer{200, version, "", false, 400, "the body is not an AdmissionReview of admission.k8s.io/v1 with a request"}},
		"NoRequest":    {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, want: answer{200, version, "", false, 400, "the body is not an AdmissionReview of admission.k8s.io/v1 with a request"}},
		"Empty":        {body: ``, want: answer{200, version, "", false, 400, "decoding the AdmissionReview: unexpected end of JSON input"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.contentType == "" {
				tc.contentType = jsonType
			}
			length := int64(len(tc.body))
			if tc.chunked {
				length = -1
			}
			h := review.New(&decider{}, review.NewMemory(), time.Minute)
			if diff := cmp.Diff(tc.want, post(t, h, tc.contentType, strings.NewReader(tc.body), length)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAnswersEarly checks, on a real connection, that a client that has not sent everything gets its response and may
// send the rest.
func TestAnswersEarly(t *testing.T) {
	server := httptest.NewServer(review.New(&decider{}, review.NewMemory(), time.Minute))
	t.Cleanup(server.Close)
	const size = review.MaxBytes + 1
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, &endless{head: strings.NewReader(reviewOf("a", 20)), left: size})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = size
	r.Header.Set("Content-Type", "application/json")
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil || out.Response.UID != "u-a" {
		t.Errorf("%+v, %v", out, err)
	}
}

// endless is a body that continues after its head, up to left bytes.
type endless struct {
	head io.Reader
	left int64
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.head.Read(p); err == nil {
		return n, nil
	}
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	e.left -= n
	return int(n), nil
}

// TestHeadIsBounded checks that a review without a UID before its objects is refused after a bounded part of it was
// read.
func TestHeadIsBounded(t *testing.T) {
	for name, head := range map[string]string{
		"NoEnd":      `{"request":{"name":"`,
		"Objects":    `{"request":{"object":{},"uid":"u"`,
		"NotObject":  `[`,
		"Request":    `{"request":[`,
		"OtherFirst": `{"kind":"`,
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{head: strings.NewReader(head), left: 1 << 30}
			h := review.New(&decider{}, review.NewMemory(), time.Minute)
			got := post(t, h, "application/json", body, review.MaxBytes+1)
			if got.UID != "" || got.Code != http.StatusBadRequest {
				t.Errorf("%+v", got)
			}
			if read := int64(1<<30) - body.left; read > 4<<20 {
				t.Errorf("%d bytes were read", read)
			}
		})
	}
}

// TestMemory checks that large reviews wait for memory for at most half of the timeout, and that small reviews do not
// wait for large ones.
func TestMemory(t *testing.T) {
	const large = 20 << 20
	d := &decider{hold: make(chan struct{}), began: make(chan struct{}, 9)}
	memory := review.NewMemory()
	patient, hasty := review.New(d, memory, time.Hour), review.New(d, memory, time.Millisecond)
	body := reviewOf("a", large)
	send := func(h http.Handler, body string) answer {
		return post(t, h, "application/json", strings.NewReader(body), int64(len(body)))
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := send(patient, body); !got.Allowed {
				t.Errorf("%+v", got)
			}
		})
	}
	for range 3 {
		<-d.began
	}
	if got := send(hasty, body); got.Allowed || got.UID != "u-a" || !strings.Contains(got.Message, "TooManyRequests") {
		t.Errorf("beyond the bound: %+v", got)
	}
	all.Go(func() {
		if got := send(patient, reviewOf("small", 20)); !got.Allowed {
			t.Errorf("a small one: %+v", got)
		}
	})
	<-d.began
	close(d.hold)
	all.Wait()
	if most := d.most.Load(); most > 64<<20+20 {
		t.Errorf("%d bytes at once", most)
	}
}

// TestLate checks that a request is answered before the API server's timeout, whatever a decision does, and that the decision keeps its
// memory until it ends.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * time.Second
		d := &decider{hold: make(chan struct{}), began: make(chan struct{}, 64)}
		memory := review.NewMemory()
		strict, lenient := review.New(d, memory, timeout), review.New(review.Lenient(d), memory, timeout)
		started := time.Now()
		const large = 33 << 20
		body := reviewOf("a", large)
		want := answer{200, "admission.k8s.io/v1 AdmissionReview", "u-a", false, 403, "CREATE ns/a unread: Timeout"}
		if diff := cmp.Diff(want, post(t, strict, "application/json", strings.NewReader(body), int64(len(body)))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if took := time.Since(started); took < timeout || took >= timeout+time.Second {
			t.Errorf("answered after %s", took)
		}
		// Of the memory for large reviews, the first one still has more than half.
		want = answer{200, "admission.k8s.io/v1 AdmissionReview", "u-a", true, 200, ""}
		if diff := cmp.Diff(want, post(t, lenient, "application/json", strings.NewReader(body), int64(len(body)))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if began := len(d.began); began != 1 {
			t.Errorf("%d decisions began, want 1", began)
		}
		close(d.hold)
		synctest.Wait()
		want.Message = fmt.Sprintf("a %d", large)
		if diff := cmp.Diff(want, post(t, strict, "application/json", strings.NewReader(body), int64(len(body)))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// FuzzServeHTTP checks that every body gets a response, and that a review that was not read is not decided.
func FuzzServeHTTP(f *testing.F) {
	f.Add([]byte(reviewOf("a", 20)))
	f.Add([]byte(`{"request":{"uid":1}}`))
	f.Add([]byte(`{"request":{"uid":"u","userInfo":`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`))
	h := review.New(&decider{}, review.NewMemory(), time.Minute)
	f.Fuzz(func(t *testing.T, body []byte) {
		post(t, h, "application/json", bytes.NewReader(body), int64(len(body)))
		if unread := post(t, h, "application/json", bytes.NewReader(body), review.MaxBytes+1); unread.Allowed {
			t.Errorf("allowed unread: %+v", unread)
		}
	})
}
