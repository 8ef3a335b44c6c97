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

package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/berth-dev/berth/internal/printable"
)

// Decider decides admission requests. Implementations are safe for concurrent use.
type Decider interface {
	admission.Handler
	// HandleUnread returns the response to a request that was not decided in time, or whose objects and options were not
	// read, so that it may be a dry run. err is the reason.
	HandleUnread(ctx context.Context, req admission.Request, err *apierrors.StatusError) admission.Response
}

// retryAfter is the delay, in seconds, after which a client should retry a request for which there was no memory or time.
const retryAfter = 1

// grace is how long a decision may go on after its deadline before it is answered in its place. Most decisions notice their deadline
// themselves, and say more about it. With it, the response still comes before the API server's timeout, which is a second after the
// deadline: the API server would quote the URL, and with it the token in it, to the user.
const grace = 250 * time.Millisecond

// Handler serves AdmissionReviews of admission.k8s.io/v1 like controller-runtime's admission.Webhook, but limits
// memory and time. It reads a review of up to MaxBytes after it has waited for memory, and also responds to a request
// that it does not read, or that is not decided in time. Create it with New. It is safe for concurrent use.
type Handler struct {
	decider Decider
	webhook *admission.Webhook
	memory  *Memory
	timeout time.Duration // The time for reading and deciding a request; see New.
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler. A request takes at most timeout and a quarter of a second, of which the handler waits at most half of timeout
// for memory. A decision that does not end by then keeps its memory until it does.
func New(d Decider, memory *Memory, timeout time.Duration) *Handler {
	return &Handler{decider: d, webhook: &admission.Webhook{Handler: d}, memory: memory, timeout: timeout}
}

// ServeHTTP reads a review, has its request decided, and responds. It implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(h.timeout)
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	// The server itself has no deadline for a client that stops sending. The error is ignored: in tests the response
	// writer supports no deadlines, which does no harm.
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		refuse(ctx, w, fmt.Errorf("contentType=%s, expected application/json", contentType))
		return
	}
	size := r.ContentLength
	if size < 0 {
		// The API server always sends a Content-Length.
		size = MaxBytes
	}
	if size > MaxBytes {
		h.unread(ctx, w, r.Body, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("the admission review has %d bytes, and Berth reads %d at most: make the object smaller", size, MaxBytes)))
		return
	}
	waiting, stop := context.WithTimeout(ctx, h.timeout/2)
	release, err := h.memory.acquire(waiting, size)
	stop()
	if err != nil {
		h.unread(ctx, w, r.Body, apierrors.NewTooManyRequests("Berth is reading too many admission reviews: try again", retryAfter))
		return
	}
	request, err := read(r, size)
	if err != nil {
		release()
		refuse(ctx, w, err)
		return
	}
	decided := make(chan admission.Response, 1)
	go func() {
		defer release()
		decided <- h.webhook.Handle(ctx, request)
	}()
	late := time.NewTimer(time.Until(deadline) + grace)
	defer late.Stop()
	select {
	case response := <-decided:
		write(ctx, w, response)
	case <-late.C:
		write(ctx, w, h.withoutDecision(apierrors.NewTimeoutError("Berth did not decide in time: try again", retryAfter)).Handle(ctx, request))
	}
}

// read reads and decodes an AdmissionReview of at most size bytes, and returns its request. An error means that the body can't be read, or
// is no AdmissionReview of admission.k8s.io/v1 with a request. It checks neither the content type nor the request's UID.
func read(r *http.Request, size int64) (admission.Request, error) {
	body, err := readAll(r.Body, r.ContentLength, size)
	if err != nil {
		return admission.Request{}, fmt.Errorf("reading the AdmissionReview: %w", err)
	}
	var in admissionv1.AdmissionReview
	if err := kjson.Unmarshal(body, &in); err != nil {
		return admission.Request{}, fmt.Errorf("decoding the AdmissionReview: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"); in.GroupVersionKind() != want || in.Request == nil {
		return admission.Request{}, fmt.Errorf("the body is not an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	return admission.Request{AdmissionRequest: *in.Request}, nil
}

// readAll reads a body of the announced length or, if that is unknown, of at most limit bytes.
func readAll(body io.Reader, announced, limit int64) ([]byte, error) {
	if announced >= 0 {
		out := make([]byte, announced)
		_, err := io.ReadFull(body, out)
		return out, err
	}
	out, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(out)) > limit {
		err = fmt.Errorf("the body has no Content-Length and more than %d bytes", limit)
	}
	return out, err
}

// unread responds to a request that is not decided, for the given reason. It reads no more of the request than readHead does.
func (h *Handler) unread(ctx context.Context, w http.ResponseWriter, body io.Reader, reason *apierrors.StatusError) {
	head, err := readHead(body)
	if err != nil {
		refuse(ctx, w, errors.Join(reason, err))
		return
	}
	answerEarly(ctx, w, body, h.withoutDecision(reason).Handle(ctx, admission.Request{AdmissionRequest: *head}))
}

// withoutDecision returns a webhook that responds to requests by the decider's method HandleUnread, with the given reason.
func (h *Handler) withoutDecision(reason *apierrors.StatusError) *admission.Webhook {
	return &admission.Webhook{Handler: admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		return h.decider.HandleUnread(ctx, req, reason)
	})}
}

// Lenient returns a Decider for a webhook whose failure policy is Ignore: it admits, with a warning, what is not decided.
func Lenient(h admission.Handler) Decider { return lenient{h} }

// lenient is the Decider that Lenient returns.
type lenient struct{ admission.Handler }

// HandleUnread admits the request, with a warning that says why it was not decided. It implements a method of Decider.
func (lenient) HandleUnread(_ context.Context, _ admission.Request, err *apierrors.StatusError) admission.Response {
	return admission.Allowed("").WithWarnings("Berth did not check this policy, quota, or LimitedResource, and admitted it as it is: " +
		err.ErrStatus.Message)
}

// answerEarly responds to a client that is still sending, and reads and discards the rest of the request. A client that
// loses the connection before it has sent everything may not see the response.
func answerEarly(ctx context.Context, w http.ResponseWriter, body io.Reader, response admission.Response) {
	control := http.NewResponseController(w)
	duplex := control.EnableFullDuplex()
	write(ctx, w, response)
	if duplex != nil || control.Flush() != nil {
		// The server keeps the connection open for a short time after the response.
		return
	}
	// The amount of data, and an error because the client disconnects, do not matter.
	_, _ = io.Copy(io.Discard, body)
}

// refuse responds to a body from which no UID of a request was read, such as one that is not an AdmissionReview. The response is an
// AdmissionReview, with HTTP's status 200, that denies with the code 400. It has no UID, so that the API server counts the call as failed,
// and applies the webhook's failure policy.
func refuse(ctx context.Context, w http.ResponseWriter, err error) {
	ctrllog.FromContext(ctx).Error(err, "Refusing a request from which no AdmissionReview can be read")
	write(ctx, w, admission.Errored(http.StatusBadRequest, err))
}

// write writes a response. It makes the messages printable, because they contain names and values of objects, and clients print them.
func write(ctx context.Context, w http.ResponseWriter, response admission.Response) {
	if response.Result != nil {
		response.Result.Message = printable.Text(response.Result.Message)
	}
	for i, warning := range response.Warnings {
		response.Warnings[i] = printable.Text(warning)
	}
	out := admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	out.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	text, err := json.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// With the length, the client knows that the response is complete while it is still sending the request.
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if _, err := w.Write(text); err != nil {
		ctrllog.FromContext(ctx).Error(err, "Writing the answer to an admission review")
	}
}

// Named returns an object that has only the kind, namespace, and name of a request.
func Named(req admission.Request) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind(req.Kind))
	out.SetNamespace(req.Namespace)
	out.SetName(req.Name)
	return out
}

// Denied returns a response that denies a request, with the code, reason, message, and details of the given status.
func Denied(status metav1.Status) admission.Response {
	status.Status = metav1.StatusFailure
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
