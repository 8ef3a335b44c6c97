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

package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
)

// Attributes of spans.
const (
	Outcome = attribute.Key("berth.outcome")
	// Decision is the digest that the audit log contains, too.
	Decision   = attribute.Key("berth.decision")
	Policy     = attribute.Key("berth.policy")
	Generation = attribute.Key("berth.policy.generation")
	Mode       = attribute.Key("berth.policy.mode")
	// Revision is the revision of the data that the policy read. It is meaningful only within one replica.
	Revision   = attribute.Key("berth.data.revision")
	Operations = attribute.Key("berth.patch.operations")
	Object     = attribute.Key("berth.object.name")
	Resource   = attribute.Key("berth.object.resource")
	Namespace  = attribute.Key("k8s.namespace.name")
	Operation  = attribute.Key("berth.request.operation")
	Request    = attribute.Key("berth.request.uid")
	DryRun     = attribute.Key("berth.request.dry_run")
	// Cause has the texts that say why remediation moves an object.
	Cause = attribute.Key("berth.cause")
	// Round is the number of the attempt and starts at 1. Requests is the number of requests decided together. Writes
	// is the number of quotas stored. Conflicts is the number of writes that failed with a conflict.
	Round     = attribute.Key("berth.quota.round")
	Requests  = attribute.Key("berth.quota.requests")
	Writes    = attribute.Key("berth.quota.writes")
	Conflicts = attribute.Key("berth.quota.conflicts")
	// Asked is the number of quotas and limits that decided. Read describes how fresh they were.
	Asked = attribute.Key("berth.quota.asked")
	Read  = attribute.Key("berth.quota.read")
)

// prefix precedes the key of an audit annotation in the name of the span attribute that has the same value.
const prefix = "berth."

// Start starts a child of the span in ctx. The caller must end it. If ctx has no recorded span, Start returns ctx and a
// span that records nothing, at no cost. Call the span's IsRecording before you compute expensive attributes.
func Start(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name)
}

// Detach returns a context like ctx with a span that records nothing, for work that several callers share and that belongs to no single
// span.
func Detach(ctx context.Context) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, noop.Span{})
}

// Join returns ctx with the span of another context if that span is recorded, and ctx itself otherwise.
func Join(ctx, other context.Context) context.Context {
	span := trace.SpanFromContext(other)
	if !span.IsRecording() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// Fail marks a span as failed, with the message of err. It does nothing if err is nil, or the span is not recorded.
func Fail(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

// ResourceName returns the value of the attribute Resource, such as deployments.v1.apps or configmaps.v1.
func ResourceName(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(strings.Join([]string{r.Resource, r.Version, r.Group}, "."), ".")
}

// Answered adds to the span in ctx, if it is recorded, the fields of an admission request that identify it and its object, the outcome,
// such as metrics.AnswerDenied, and the audit annotations. It does not end the span.
func Answered(ctx context.Context, r *admissionv1.AdmissionRequest, outcome string, audited map[string]string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	for key, value := range audited {
		span.SetAttributes(attribute.String(prefix+key, value))
	}
	span.SetAttributes(
		Outcome.String(outcome), Request.String(string(r.UID)), Operation.String(string(r.Operation)),
		Resource.String(ResourceName(schema.GroupVersionResource(r.Resource))), Namespace.String(r.Namespace), Object.String(r.Name),
		DryRun.Bool(r.DryRun != nil && *r.DryRun),
	)
}

// Evaluated adds a policy, and the outcome and error of its evaluation, to the span of the evaluation, and ends the span.
func Evaluated(span trace.Span, p *placement.Policy, outcome string, err error) {
	if span.IsRecording() {
		span.SetAttributes(Policy.String(p.Name), Generation.Int64(p.Generation), Mode.String(string(p.Mode)), Outcome.String(outcome),
			Revision.Int64(int64(p.Evaluator.Revision())))
		Fail(span, err)
	}
	span.End()
}
