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

// Package quotavalidator provides the admission webhook for the objects that quotas count and LimitedResources limit. It charges
// requests to quotas, or denies them.
package quotavalidator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/quotacharge"
	"github.com/berth-dev/berth/internal/review"
	"github.com/berth-dev/berth/internal/tracing"
)

var _ review.Decider = (*Handler)(nil)

// Deadline is the maximum duration of a request. The API server's timeout is a little longer.
const Deadline = 9 * time.Second

// retryAfter is the delay, in seconds, after which a client should retry a request that could not be decided.
const retryAfter = 1

// Handler decides requests against quotas and LimitedResources. Set its fields before the first use. It is safe for
// concurrent use.
type Handler struct {
	Charger    *quotacharge.Charger
	Evaluators *quota.Evaluators
	Events     *events.Recorder
	Metrics    *metrics.Metrics
	Clock      clock.PassiveClock

	reported reported // Recorded denials, so that a request that several webhooks send is recorded once. A retry is recorded again.
	// lenient reports whether requests that can't be decided are admitted. The API server then also admits those without a response.
	lenient bool
}

// Lenient returns a handler with the same dependencies that admits requests that can't be decided. It serves the webhooks for quotas in the
// modes Warn and DryRun, also where other quotas of the namespace are enforced, and for kube-system. It does not share which denials were
// recorded.
func (h *Handler) Lenient() *Handler {
	return &Handler{Charger: h.Charger, Evaluators: h.Evaluators, Events: h.Events, Metrics: h.Metrics, Clock: h.Clock, lenient: true}
}

// Handle implements admission.Handler. It decides a request within Deadline, as decide does, and records the outcome in metrics and a
// trace.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := h.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	response, outcome := h.decide(ctx, req)
	tracing.Answered(ctx, &req.AdmissionRequest, outcome, response.AuditAnnotations)
	h.Metrics.QuotaAdmission(outcome, h.Clock.Since(start))
	return response
}

// HandleUnread implements review.Decider. It denies a request that could not be read, with the status of err. A lenient handler admits it
// with a warning and an Event, even though it may be a dry run.
func (h *Handler) HandleUnread(ctx context.Context, req admission.Request, err *apierrors.StatusError) admission.Response {
	start := h.Clock.Now()
	status := err.ErrStatus
	status.Message = "quota could not be decided: " + status.Message
	response := review.Denied(status)
	if h.lenient {
		response = allowUnchecked(err.Error())
		h.Events.OnObject(review.Named(req), req.Namespace, events.QuotaUnchecked, response.Warnings[0])
	}
	response.AuditAnnotations = auditAnnotations(nil, metrics.QuotaError)
	tracing.Answered(ctx, &req.AdmissionRequest, metrics.QuotaError, response.AuditAnnotations)
	h.Metrics.QuotaAdmission(metrics.QuotaError, h.Clock.Since(start))
	return response
}

// decide charges a request to the quotas that count it, or denies it. It returns the response, and the label of the outcome in metrics. A
// request that no quota counts and no LimitedResource limits is admitted, and one that can't be read is denied with status 400.
func (h *Handler) decide(ctx context.Context, req admission.Request) (admission.Response, string) {
	_, span := tracing.Start(ctx, "usage")
	// The charge ID is random, not the UID of the review, because the sender chooses that one.
	request, err := h.Evaluators.NewRequest(rand.Text(), &req.AdmissionRequest)
	tracing.Fail(span, err)
	span.End()
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err), metrics.QuotaError
	}
	if request == nil {
		return admission.Allowed(""), metrics.QuotaAllowed
	}
	verdict, err := h.Charger.Charge(ctx, request)
	if err != nil {
		response, outcome := h.undecided(ctx, err)
		response.AuditAnnotations = auditAnnotations(nil, outcome)
		return response, outcome
	}
	response, outcome := h.respond(ctx, request, verdict, req.Object.Raw)
	response.Warnings = append(response.Warnings, verdict.Warned...)
	response.AuditAnnotations = auditAnnotations(verdict, outcome)
	return response, outcome
}

// undecided returns the response to a request that could not be decided or charged because of err, and its label in metrics. A lenient
// handler admits the request with a warning. Another one denies it: with status 429 if a retry may succeed, or else with 500.
func (h *Handler) undecided(ctx context.Context, err error) (admission.Response, string) {
	transient := quotacharge.Transient(err)
	if !transient {
		ctrllog.FromContext(ctx).Error(err, "Deciding")
	}
	switch {
	case h.lenient:
		return allowUnchecked(err.Error()), metrics.QuotaError
	case transient:
		return denyWithRetry(err.Error()), metrics.QuotaPending
	default:
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("quota could not be decided: %w", err)), metrics.QuotaError
	}
}

// allowUnchecked admits a request with a warning that the quotas of a lenient handler did not check it. Another webhook may have checked it
// by enforced quotas. message says why.
func allowUnchecked(message string) admission.Response {
	return admission.Allowed("").WithWarnings("quotas in mode Warn or DryRun, or of kube-system, did not check this object: " + message)
}

// respond returns the response to a request for a verdict, without the verdict's warnings, and its label in metrics. A request that a quota
// or LimitedResource denies is denied with status 403. Otherwise, one with a temporary reason (verdict.Pending) is denied with status 429,
// or admitted with a warning by a lenient handler. respond also records a status of 403 in Events and metrics, but not for a dry run, and
// only once for a request that several webhooks send. object is the object of the request in JSON.
func (h *Handler) respond(ctx context.Context, request *quota.Request, verdict *quota.Verdict, object []byte) (admission.Response, string) {
	switch {
	case len(verdict.Denied) > 0:
		texts := make([]string, len(verdict.Denied))
		report := !request.DryRun && h.claimReport(request.Namespace, object)
		for i, denial := range verdict.Denied {
			texts[i] = denial.Message
			if limit, ok := denial.By.(*placementv1.LimitedResource); ok {
				texts[i] += fmt.Sprintf(" (LimitedResource %q allows this only where a quota of the namespace covers it, and none does)", limit.Name)
			}
			if report {
				h.Events.QuotaDenied(denial.By, request.Namespace, denial.Message)
				if by, ok := quota.KeyOf(denial.By); ok {
					h.Metrics.QuotaDenial(metrics.QuotaKey(by))
				}
			}
		}
		message := strings.Join(texts, "; ")
		ctrllog.FromContext(ctx).V(2).Info("Denying", "message", message)
		return review.Denied(metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}),
			metrics.QuotaDenied
	case len(verdict.Pending) > 0 && h.lenient:
		return allowUnchecked(strings.Join(verdict.Pending, "; ")), metrics.QuotaPending
	case len(verdict.Pending) > 0:
		return denyWithRetry(strings.Join(verdict.Pending, "; ")), metrics.QuotaPending
	default:
		return admission.Allowed(""), metrics.QuotaAllowed
	}
}

// claimReport reports whether this call of the handler must record the denial of a request in Events and metrics. It returns true for one
// call of each request. The API server sends a request to every webhook that matches it, and each call decides by all quotas. If the
// namespace has quotas that deny and others that do not, both handlers are called, and the lenient one records nothing. In kube-system,
// only the lenient one is called.
func (h *Handler) claimReport(namespace string, object []byte) bool {
	return (!h.lenient || namespace == match.NamespaceSystem) && h.reported.claim(object, h.Clock.Now())
}

// maxReported is the number of requests whose denial is remembered.
const maxReported = 1024

// reported remembers the requests whose denial one Handler of this replica has recorded in Events and metrics. It is safe for concurrent
// use.
type reported struct {
	mu     sync.Mutex
	recent *lru.Cache // By the SHA-256 digest of the request's object, when its denial was last recorded.
}

// claim records a denial of the request with an object, and reports whether none was recorded during the last Deadline: the API server
// calls all webhooks at the same time. The objects of two requests differ, in the UID if they are created, and otherwise in the time of the
// change.
func (r *reported) claim(object []byte, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent == nil {
		r.recent = lru.New(maxReported)
	}
	request := sha256.Sum256(object)
	before, known := r.recent.Get(request)
	r.recent.Add(request, now)
	at, _ := before.(time.Time)
	return !known || now.Sub(at) > Deadline
}

// denyWithRetry denies a request with status 429, so that the client retries. Kubernetes clients retry automatically.
func denyWithRetry(message string) admission.Response {
	return review.Denied(metav1.Status{
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: message + ": try again",
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfter},
	})
}
