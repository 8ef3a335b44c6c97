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
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
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
	// lenient is set if the API server admits requests to which this handler does not respond.
	lenient bool
}

// Lenient returns a handler that admits requests that can't be decided. It serves namespaces where no quota denies, and
// kube-system.
func (h *Handler) Lenient() *Handler {
	out := *h
	out.lenient = true
	return &out
}

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := h.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	response, outcome := h.decide(ctx, req)
	tracing.Answered(ctx, &req.AdmissionRequest, outcome, response.AuditAnnotations)
	h.Metrics.QuotaAdmission(outcome, h.Clock.Since(start))
	return response
}

// HandleUnread implements review.Decider. It denies the request. A lenient handler admits it with a warning and an
// Event, even if the request may be a dry run.
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
	response, outcome := h.respond(ctx, request, verdict)
	response.Warnings = append(response.Warnings, verdict.Warned...)
	response.AuditAnnotations = auditAnnotations(verdict, outcome)
	return response, outcome
}

// undecided returns the response to a request that could not be decided or charged.
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

// allowUnchecked admits a request with a warning that says why it was not decided.
func allowUnchecked(message string) admission.Response {
	return admission.Allowed("").WithWarnings("quota was not checked: " + message)
}

func (h *Handler) respond(ctx context.Context, request *quota.Request, verdict *quota.Verdict) (admission.Response, string) {
	switch {
	case len(verdict.Denied) > 0:
		texts := make([]string, len(verdict.Denied))
		for i, denial := range verdict.Denied {
			texts[i] = denial.Message
			if limit, ok := denial.By.(*placementv1.LimitedResource); ok {
				texts[i] += fmt.Sprintf(" (LimitedResource %q wants a quota for them in this namespace, and there is none)", limit.Name)
			}
			if !request.DryRun {
				h.Events.QuotaDenied(denial.By, request.Namespace, denial.Message)
				h.Metrics.QuotaDenial(denial.By)
			}
		}
		message := strings.Join(texts, "; ")
		ctrllog.FromContext(ctx).V(2).Info("Denying", "message", message)
		return review.Denied(metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}), metrics.QuotaDenied
	case len(verdict.Pending) > 0 && h.lenient:
		return allowUnchecked(strings.Join(verdict.Pending, "; ")), metrics.QuotaPending
	case len(verdict.Pending) > 0:
		return denyWithRetry(strings.Join(verdict.Pending, "; ")), metrics.QuotaPending
	default:
		return admission.Allowed(""), metrics.QuotaAllowed
	}
}

// denyWithRetry denies a request with status 429, so that the client retries. Kubernetes clients retry automatically.
func denyWithRetry(message string) admission.Response {
	return review.Denied(metav1.Status{
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: message + ": try again",
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfter},
	})
}
