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
)

// Decider decides admission requests. Implementations are safe for concurrent use.
type Decider interface {
	admission.Handler
	// HandleUnread returns the response to a request whose objects and options were not read. So the request may be a
	// dry run. err is the reason.
	HandleUnread(ctx context.Context, req admission.Request, err *apierrors.StatusError) admission.Response
}

// retryAfter is the delay, in seconds, after which a client should retry a request for which there was no memory.
const retryAfter = 1

// Handler serves AdmissionReviews of admission.k8s.io/v1 like controller-runtime's admission.Webhook, but limits
// memory. It reads a review of up to MaxBytes after it has waited for memory, and also responds to a request that it
// does not read. Create it with New. It is safe for concurrent use.
type Handler struct {
	decider Decider
	webhook *admission.Webhook
	memory  *Memory
	timeout time.Duration
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler. A request takes at most timeout, of which the handler waits at most half for memory.
func New(d Decider, memory *Memory, timeout time.Duration) *Handler {
	return &Handler{decider: d, webhook: &admission.Webhook{Handler: d}, memory: memory, timeout: timeout}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	// The server itself has no deadline for a client that stops sending. The error is ignored: in tests the response
	// writer supports no deadlines, which does no harm.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.timeout))
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
		h.unread(ctx, w, r.Body, apierrors.NewTooManyRequests("Berth is reading too many large admission reviews: try again", retryAfter))
		return
	}
	defer release()
	h.read(ctx, w, r, size)
}

// read decides a request whose review has at most size bytes.
func (h *Handler) read(ctx context.Context, w http.ResponseWriter, r *http.Request, size int64) {
	body, err := readAll(r.Body, r.ContentLength, size)
	if err != nil {
		refuse(ctx, w, fmt.Errorf("reading the AdmissionReview: %w", err))
		return
	}
	var in admissionv1.AdmissionReview
	if err := kjson.Unmarshal(body, &in); err != nil {
		refuse(ctx, w, fmt.Errorf("decoding the AdmissionReview: %w", err))
		return
	}
	if want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"); in.GroupVersionKind() != want || in.Request == nil {
		refuse(ctx, w, fmt.Errorf("the body is not an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion))
		return
	}
	write(ctx, w, h.webhook.Handle(ctx, admission.Request{AdmissionRequest: *in.Request}))
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
		err = fmt.Errorf("it has no Content-Length and more than %d bytes", limit)
	}
	return out, err
}

// unread responds to a request of which it reads only the fields before the objects.
func (h *Handler) unread(ctx context.Context, w http.ResponseWriter, body io.Reader, reason *apierrors.StatusError) {
	head, err := readHead(body)
	if err != nil {
		refuse(ctx, w, errors.Join(reason, err))
		return
	}
	unread := admission.Webhook{Handler: admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		return h.decider.HandleUnread(ctx, req, reason)
	})}
	answerEarly(ctx, w, body, unread.Handle(ctx, admission.Request{AdmissionRequest: *head}))
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

// refuse responds to a body that is not an AdmissionReview, so that the response can't contain the UID of a request.
func refuse(ctx context.Context, w http.ResponseWriter, err error) {
	ctrllog.FromContext(ctx).Error(err, "Refusing what is no admission review")
	write(ctx, w, admission.Errored(http.StatusBadRequest, err))
}

func write(ctx context.Context, w http.ResponseWriter, response admission.Response) {
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

// Denied returns a denial with the given code, reason, message, and details.
func Denied(status metav1.Status) admission.Response {
	status.Status = metav1.StatusFailure
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
