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

// Package placementmutator provides the admission webhook for the objects that policies match. It denies or patches requests
// as the policies decide.
package placementmutator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/audit"
	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/review"
	"github.com/berth-dev/berth/internal/tracing"
)

var _ review.Decider = (*Handler)(nil)

// Deadline is the maximum duration of a request. The API server's timeout is a little longer.
const Deadline = 4 * time.Second

// Handler decides and patches one object per request. Set its fields before the first use. It is safe for concurrent
// use.
type Handler struct {
	Decider *placement.Decider
	Events  *events.Recorder
	Metrics *metrics.Metrics
	Clock   clock.PassiveClock
	// Decisions is the log of what policies change by requests that are admitted, other than dry runs and patches of remediation. Denials are
	// not in it. nil means that none is written.
	Decisions *decisionlog.Log
	// FailurePolicy is what the API server does with a request if this webhook does not respond: Fail denies it, Ignore admits it. The handler
	// does the same if an error keeps all policies from deciding, such as one of Confirm. It always denies a request for an object itself of
	// which apiVersion, kind, or metadata can't be decoded. If a single policy can't decide, that policy's own failurePolicy counts.
	FailurePolicy placementv1.FailurePolicy
	// Remediation reports in ok whether a request is a patch by Berth's own remediation. permits reports whether the patch may make the
	// changes of verdicts, at least one of which needs an approval; if it is nil, the patch may make no change that needs one.
	Remediation func(*admissionv1.AdmissionRequest) (ok bool, permits func([]*placement.Verdict) bool)
	// Parents reads the objects that requests scale: such a request has a Scale, and not the object that policies decide.
	Parents *Parents
	// InForce reports whether a version of a policy decides now, and Waits whether a newer version of the policy waits for its data or its
	// rollout. If a version fails that is not in force any more, or that a waiting one will replace, the request is decided again. If InForce
	// is nil, no request is.
	InForce, Waits func(*placement.Policy) bool
	// Confirm returns an error if this replica's policies are not up to date with the API server. It is called for requests that no policy
	// matches, and for those for which a remote engine lacks something that a version needs. If it is nil, the former are admitted.
	Confirm func(context.Context) error
	// LiveNamespaces reads the labels of namespaces from the API server and not from a cache. A request that no policy matches is decided
	// again with them, once Confirm has found that the policies are up to date.
	LiveNamespaces placement.Namespaces
}

// Handle decides a request with a context that ends after Deadline, and records the answer in the request's span and in the metrics. It
// returns only when deciding has ended, even if the context has ended before.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := h.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	response, answer := h.decide(ctx, req)
	tracing.Answered(ctx, &req.AdmissionRequest, answer, response.AuditAnnotations)
	h.Metrics.Admission(answer, h.Clock.Since(start))
	return response
}

// HandleUnread answers a request that was not decided in time, or whose objects and options were not read; err is the reason. It denies the
// request with the status of err or, if FailurePolicy is Ignore, admits it with a warning. It emits an Event, unless the request is known
// to be a dry run.
func (h *Handler) HandleUnread(ctx context.Context, req admission.Request, err *apierrors.StatusError) admission.Response {
	start := h.Clock.Now()
	response, answer := h.undecidable(req, review.Named(req), err)
	if !response.Allowed {
		response.Result.Code, response.Result.Reason, response.Result.Details = err.ErrStatus.Code, err.ErrStatus.Reason, err.ErrStatus.Details
	}
	tracing.Answered(ctx, &req.AdmissionRequest, answer, response.AuditAnnotations)
	h.Metrics.Admission(answer, h.Clock.Since(start))
	return response
}

// decide returns the response to a request for an object or a subresource, and its label in metrics. An object that can't be decoded is an
// error with status 400.
func (h *Handler) decide(ctx context.Context, req admission.Request) (admission.Response, string) {
	if req.SubResource != "" {
		return h.decideSubresource(ctx, req)
	}
	decoded, err := decode(req, false)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err), metrics.AnswerError
	}
	return h.decideObjects(ctx, req, decoded)
}

// decideObjects returns the response to a request for an object itself, and its label in metrics. It admits a request that only completes a
// deletion, by decideLive decides a request that no policy matches, and writes an admitted request to the log of decisions, unless it is a
// dry run or of remediation.
func (h *Handler) decideObjects(ctx context.Context, req admission.Request, decoded *objects) (admission.Response, string) {
	obj := decoded.obj.object
	if finalizes(req, decoded) {
		return admission.Allowed(""), metrics.AnswerAllowed
	}
	// The Decider matches all policies before it evaluates the first one. Several policies may be evaluated
	// concurrently, and each ends the span.
	_, matching := tracing.Start(ctx, "match")
	request := placement.Request{
		Resource:  schema.GroupVersionResource(req.Resource),
		Namespace: req.Namespace,
		Object:    obj,
		Old:       decoded.old.object,
		Source:    decoded,
		Admission: &req.AdmissionRequest,
		Evaluate: func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
			matching.End()
			return h.evaluate(ctx, p, input)
		},
	}
	began := h.Clock.Now()
	decide := (*placement.Decider).Decide
	remediates, permits := h.Remediation(&req.AdmissionRequest)
	if remediates {
		decide = func(d *placement.Decider, ctx context.Context, r placement.Request) (*placement.Outcome, error) {
			return d.Remediate(ctx, r, permits)
		}
	}
	outcome, err := h.decideCurrent(ctx, decide, request)
	matching.End()
	if err == nil && len(outcome.Verdicts) == 0 && !outcome.Staged && h.Confirm != nil {
		outcome, err = h.decideLive(ctx, decide, request)
	}
	if err != nil {
		return h.undecidable(req, obj, err)
	}
	if why := h.refuseHolder(decoded, outcome); why != "" {
		return review.Denied(metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: why}), metrics.AnswerDenied
	}
	response, answer := h.respond(ctx, req, obj, outcome)
	// The leader, which knows the cause, logs its own patches.
	if h.Decisions != nil && response.Allowed && outcome.Object != nil && !remediates && !dryRun(req) {
		h.log(ctx, req, decoded, outcome, began)
	}
	return response, answer
}

// log writes to the log of decisions what policies change by a request that is admitted, with the user and the time since began, when the
// decision began. It writes nothing if policies change nothing.
func (h *Handler) log(ctx context.Context, req admission.Request, decoded *objects, outcome *placement.Outcome, began time.Time) {
	action, old := decisionlog.Created, &unstructured.Unstructured{}
	if req.Operation == admissionv1.Update {
		// A field that can't be decoded has no value in the log.
		_ = decoded.old.complete()
		action, old = decisionlog.Updated, decoded.old.object
	}
	changes := decisionlog.ChangesOf(outcome.Verdicts, old)
	if len(changes) == 0 {
		return
	}
	now := h.Clock.Now()
	h.Decisions.Write(ctx, now, decisionlog.Entry{
		Source: decisionlog.Admission, Action: action,
		Object:   decisionlog.ObjectOf(schema.GroupVersionResource(req.Resource), req.Namespace, decoded.obj.object),
		Policies: decisionlog.PoliciesOf(changing(outcome.Verdicts, changes)), Changes: changes, User: req.UserInfo.Username,
		DurationSeconds: now.Sub(began).Seconds(),
	})
}

// changing returns the verdicts of the policies that make at least one of the changes.
func changing(verdicts []*placement.Verdict, changes []decisionlog.Change) []*placement.Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v *placement.Verdict) bool {
		return !slices.ContainsFunc(changes, func(c decisionlog.Change) bool { return c.Policy == v.Policy.Name })
	})
}

// decideFunc decides a request by a Decider, as its methods Decide and Remediate do.
type decideFunc func(*placement.Decider, context.Context, placement.Request) (*placement.Outcome, error)

// decideCurrent decides a request by the versions that are in force. If the remote engine of one lacks something, it waits as awaitNext
// does. It decides again if that version is replaced meanwhile, and otherwise once more at the end, because the engine may have everything
// again.
func (h *Handler) decideCurrent(ctx context.Context, decide decideFunc, request placement.Request) (*placement.Outcome, error) {
	for {
		outcome, err := decide(h.Decider, ctx, request)
		if err != nil || h.InForce == nil {
			return outcome, err
		}
		waited := h.awaitNext(ctx, outcome)
		switch {
		case ctx.Err() != nil:
			return outcome, nil
		case h.outdated(outcome):
		case waited:
			if again, err := decide(h.Decider, ctx, request); err == nil && !slices.ContainsFunc(again.Verdicts, failed) {
				return again, nil
			}
			return outcome, nil
		default:
			return outcome, nil
		}
	}
}

// failed reports whether the policy could not decide.
func failed(v *placement.Verdict) bool { return v.Err != nil }

// outdated reports whether a version that could not decide is not in force any more.
func (h *Handler) outdated(o *placement.Outcome) bool {
	return slices.ContainsFunc(o.Verdicts, func(v *placement.Verdict) bool { return failed(v) && !h.InForce(v.Policy) })
}

const (
	// waitsInterval is the interval at which awaitNext looks for the next version.
	waitsInterval = 100 * time.Millisecond
	// decidingTime is what awaitNext leaves of the time of a request for deciding it by the next version.
	decidingTime = time.Second
)

// awaitNext waits for the next version of an enforced policy whose remote engine lacks something, until a version that could not decide is
// outdated, and until decidingTime before the deadline of ctx. The leader pushes what the next version needs, and removes what no version
// needs any more; both may happen before the next version is in force on this replica, or before this replica knows of it. So if no version
// waits, awaitNext calls Confirm, which waits until this replica has the newest policies. It returns false, at once, if no engine lacks
// anything.
func (h *Handler) awaitNext(ctx context.Context, o *placement.Outcome) (waited bool) {
	if !slices.ContainsFunc(o.Verdicts, lacksPushed) {
		return false
	}
	if deadline, bounded := ctx.Deadline(); bounded {
		earlier, cancel := context.WithDeadline(ctx, deadline.Add(-decidingTime))
		defer cancel()
		ctx = earlier
	}
	waits := func(v *placement.Verdict) bool { return lacksPushed(v) && h.Waits(v.Policy) }
	for confirmed := h.Confirm == nil; !h.outdated(o); {
		// The first time, too: the next version may come by itself, and requests that come meanwhile share a call of Confirm.
		if !notify.Sleep(ctx, waitsInterval) {
			return true
		}
		switch {
		case h.outdated(o) || slices.ContainsFunc(o.Verdicts, waits):
		case confirmed:
			return true
		default:
			confirmed = true
			// What this replica knows afterwards counts, also if the API server did not confirm it.
			_ = h.Confirm(ctx)
		}
	}
	return true
}

// lacksPushed reports whether the request has to be denied because the policy's remote engine lacks something that Berth pushes there.
func lacksPushed(v *placement.Verdict) bool {
	fault, ok := errors.AsType[*engine.RemoteError](v.Err)
	return ok && fault.Fault == engine.FaultIncomplete && v.Policy.Mode == placementv1.ModeEnforce &&
		v.Policy.FailurePolicy != placementv1.FailurePolicyIgnore
}

// decideLive decides again, with the labels of namespaces as the API server has them now, a request that no policy matches. Since the
// webhook configuration is rendered from the policies, it either still has rules of a deleted policy, or this replica does not have the
// newest policies or labels. It returns an error if Confirm can't confirm that the policies are the newest ones.
func (h *Handler) decideLive(ctx context.Context, decide decideFunc, request placement.Request) (*placement.Outcome, error) {
	if err := h.Confirm(ctx); err != nil {
		return nil, fmt.Errorf("no policy that this replica knows matches the object, and it could not confirm that it knows the newest "+
			"policies: %w", err)
	}
	live := *h.Decider
	live.Namespaces = h.LiveNamespaces
	return decide(&live, ctx, request)
}

// evaluate evaluates one policy on an input, and returns the decision and the error of its evaluator. It records the evaluation as a span
// and in the metrics.
func (h *Handler) evaluate(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
	return tracing.Evaluate(ctx, h.Clock, h.Metrics, metrics.SourceAdmission, p, input)
}

// undecidable returns the response to a request that failed with err before any policy decided it, and its label in metrics: a denial with
// status 500 or, if FailurePolicy is Ignore, an admission with a warning. It emits an Event, except for a dry run.
func (h *Handler) undecidable(req admission.Request, obj *unstructured.Unstructured, err error) (admission.Response, string) {
	message, result := fmt.Sprintf("placement could not be decided: %v", err), "denied"
	response := admission.Errored(http.StatusInternalServerError, errors.New(message))
	if h.FailurePolicy == placementv1.FailurePolicyIgnore {
		response, result = admission.Allowed("").WithWarnings(message), "admitted as it was"
	}
	if !dryRun(req) {
		h.Events.OnObject(obj, req.Namespace, events.EvaluationFailed, fmt.Sprintf("a request was %s: %s", result, message))
	}
	response.AuditAnnotations = map[string]string{audit.Outcome: metrics.AnswerError}
	return response, metrics.AnswerError
}

// respond combines the verdicts of all policies into one response with warnings and audit annotations, and returns its label in metrics.
// Only policies in the mode Enforce deny or change the object. Those in the mode Warn give warnings, and those in the mode DryRun only
// audit annotations.
func (h *Handler) respond(ctx context.Context, req admission.Request, obj *unstructured.Unstructured,
	outcome *placement.Outcome) (admission.Response, string) {
	var warnings, denials, failures, ignored []string
	for _, v := range outcome.Verdicts {
		switch v.Policy.Mode {
		case placementv1.ModeEnforce:
			switch {
			case v.Err != nil && v.Policy.FailurePolicy == placementv1.FailurePolicyIgnore:
				ignored = append(ignored, failure(v)+"; ignored, as its failurePolicy says")
				warnings = append(warnings, ignored[len(ignored)-1])
			case v.Err != nil:
				failures = append(failures, failure(v))
			default:
				for _, message := range v.Decision.Errors {
					denials = append(denials, fmt.Sprintf("PlacementPolicy %q: %s", v.Policy.Name, withRule(v, message)))
				}
				warnings = append(warnings, v.Decision.Warnings...)
			}
		case placementv1.ModeWarn:
			warnings = append(warnings, dryRunMessages(v)...)
			warnings = append(warnings, v.Decision.Warnings...)
		}
	}
	response, answer := h.answer(ctx, req, obj, outcome, denials, failures)
	if response.Allowed {
		warnings = append(warnings, notTaken(obj, outcome.NotTaken)...)
	}
	if len(ignored) > 0 && len(failures) == 0 && !dryRun(req) {
		// A user who applies an object indirectly, for example through a pipeline, does not see warnings.
		h.Events.OnObject(obj, req.Namespace, events.EvaluationFailed, strings.Join(ignored, "; "))
	}
	response.Warnings = warnings
	response.AuditAnnotations = audited(outcome, answer)
	return response, answer
}

// notTaken returns a warning for each of the changes: values that an update requests and that the object does not get, because a policy set
// them before, so that they do not count as requested.
func notTaken(obj *unstructured.Unstructured, changes []placement.Change) []string {
	var out []string
	for _, c := range changes {
		mistaken := ""
		if value, there := obj.GetAnnotations()[placementv1.AsWrittenAnnotation]; there {
			mistaken = fmt.Sprintf(", not %q", value)
		}
		out = append(out, fmt.Sprintf("%s: the object does not get the value %s: a policy set it earlier, so it counts as the policy's, "+
			"and not as requested. To request it, set it and the object's annotation %s: \"true\"%s, in one update", c.Subject(), *c.To,
			placementv1.AsWrittenAnnotation, mistaken))
	}
	return out
}

// answer returns the response without warnings, and its label in metrics. failures are messages of enforced policies that can't decide, and
// denials of those that deny the object. With failures, the response has the status of failureStatus and all of these messages; with
// denials alone, the status is 403. Otherwise the response has the patch, if the object changes.
func (h *Handler) answer(ctx context.Context, req admission.Request, obj *unstructured.Unstructured, outcome *placement.Outcome, denials,
	failures []string) (admission.Response, string) {
	switch {
	case len(failures) > 0:
		message := strings.Join(append(failures, denials...), "; ")
		if !dryRun(req) {
			h.Events.OnObject(obj, req.Namespace, events.EvaluationFailed, message)
		}
		code, reason := failureStatus(outcome.Verdicts)
		return review.Denied(metav1.Status{Code: code, Reason: reason, Message: message}), metrics.AnswerError
	case len(denials) > 0:
		message := strings.Join(denials, "; ")
		ctrllog.FromContext(ctx).V(2).Info("Denying", "message", message)
		if !dryRun(req) {
			h.Events.OnObject(obj, req.Namespace, events.Denied, message)
		}
		return review.Denied(metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}),
			metrics.AnswerDenied
	case outcome.Object == nil:
		return admission.Allowed(""), metrics.AnswerAllowed
	}
	_, span := tracing.Start(ctx, "patch")
	defer span.End()
	patch := placement.Patch(obj, outcome.Object, outcome.Paths)
	if span.IsRecording() {
		span.SetAttributes(tracing.Operations.Int(len(patch)))
	}
	if len(patch) == 0 {
		return admission.Allowed(""), metrics.AnswerAllowed
	}
	return admission.Patched("", patch...), metrics.AnswerPatched
}

// failure returns a sentence on why a policy can't decide, with the policy's name. v.Err is set.
func failure(v *placement.Verdict) string {
	if missing, ok := errors.AsType[*engine.NotReplicatedError](v.Err); ok {
		return fmt.Sprintf("PlacementPolicy %q can't decide: the data that it reads is not complete: %v", v.Policy.Name, missing)
	}
	return fmt.Sprintf("PlacementPolicy %q can't decide: %v", v.Policy.Name, v.Err)
}

// withRule returns a message with which a policy denies an object, with the name of the rule of spec.rules that decides in front, as in
// "rule eu: no cluster is eligible". It returns the message itself if that begins so already, or if no rule of spec.rules decides.
func withRule(v *placement.Verdict, message string) string {
	rule := "rule " + v.Decision.Rule + ": "
	if v.Decision.Rule == "" || strings.HasPrefix(message, rule) {
		return message
	}
	return rule + message
}

// dryRunMessages returns sentences on what a policy in the mode Warn or DryRun would do to the object if its mode were Enforce: deny it, or
// else make changes; or why it can't decide. There are none if it would do nothing.
func dryRunMessages(v *placement.Verdict) []string {
	prefix := fmt.Sprintf("PlacementPolicy %q (mode %s)", v.Policy.Name, v.Policy.Mode)
	if v.Err != nil {
		return []string{fmt.Sprintf("%s can't decide: %v", prefix, v.Err)}
	}
	var out []string
	for _, message := range v.Decision.Errors {
		out = append(out, fmt.Sprintf("%s would deny: %s", prefix, withRule(v, message)))
	}
	if len(out) > 0 {
		// A denied object is not changed.
		return out
	}
	for _, c := range v.Changes {
		out = append(out, fmt.Sprintf("%s would %s", prefix, c.Action()))
	}
	return out
}

// dryRun reports whether a request is a dry run, which must have no side effects.
func dryRun(req admission.Request) bool {
	return req.DryRun != nil && *req.DryRun
}
