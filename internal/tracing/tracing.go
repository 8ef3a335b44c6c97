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

// Package tracing exports traces and logs to OpenTelemetry collectors. While nothing is exported, it costs nothing. While a collector is
// unavailable or slow, spans and records are dropped, and no request waits.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// scope is the name of the instrumentation scope of all spans and log records.
const scope = "github.com/berth-dev/berth"

// flushTimeout is the maximum time that the process waits at exit for the last spans to be exported, and again for the last log records.
const flushTimeout = 2 * time.Second

// perMillion is the sampling rate that records every trace.
const perMillion = 1_000_000

var (
	_ manager.Runnable               = (*Provider)(nil)
	_ manager.LeaderElectionRunnable = (*Provider)(nil)
)

// Options configure a Provider. In addition, the standard environment variables of OpenTelemetry's SDK apply:
// OTEL_EXPORTER_OTLP_*, OTEL_BSP_*, OTEL_SERVICE_NAME, and OTEL_RESOURCE_ATTRIBUTES.
type Options struct {
	// Endpoint is the address at which the collector receives OTLP over gRPC: http://host:port, or https:// for TLS. It is empty for no
	// traces.
	Endpoint string
	// SamplingPerMillion is how many of a million traces that begin in Berth are recorded. Traces that begin in the API server are recorded
	// if the API server records them.
	SamplingPerMillion int
	// Version is the version of this process.
	Version string
}

// Provider creates spans and exports them to a collector. It is safe for concurrent use. Of a nil Provider, only Handler, Root, and Wrap
// may be called, which then create no spans.
type Provider struct {
	spans *sdktrace.TracerProvider // exports the spans; never nil
	root  trace.Tracer             // starts new traces; never nil
}

// New returns a provider; nil, without an error, if there is no endpoint. It does not wait for the collector. It is an error if an option
// is not valid. Add the provider to a manager, which exports the last spans at exit.
func New(ctx context.Context, o Options) (*Provider, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	if err := checkEndpoint("--tracing-endpoint", o.Endpoint); err != nil {
		return nil, err
	}
	if o.SamplingPerMillion < 0 || o.SamplingPerMillion > perMillion {
		return nil, fmt.Errorf("--tracing-sampling-rate-per-million %d: must be between 0 and %d", o.SamplingPerMillion, perMillion)
	}
	logErrors()
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("--tracing-endpoint %q: %w", o.Endpoint, err)
	}
	about, err := describe(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	sampled := sdktrace.TraceIDRatioBased(float64(o.SamplingPerMillion) / perMillion)
	return newProvider(sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.ParentBased(sampled)),
	)), nil
}

// checkEndpoint returns an error that names the flag if its value, the endpoint, is not an http or https URL with a host.
func checkEndpoint(flag, endpoint string) error {
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s %q: must be http://<host>:<port>, or https:// for TLS", flag, endpoint)
	}
	return nil
}

// logErrors makes OpenTelemetry log the errors of its exporters from now on.
func logErrors() {
	log := ctrllog.Log.WithName("tracing")
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Error(err, "Failed to send to a collector") }))
}

// describe returns the resource of OpenTelemetry that describes this process: its name, version, and host, unless the environment variables
// OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES set others. It returns an error if these are invalid.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	// The host name is the name of the pod, if there is one. Without it the replicas can't be distinguished, but all else works.
	host, _ := os.Hostname()
	about, err := resource.New(ctx,
		resource.WithSchemaURL(semconv.SchemaURL),
		resource.WithAttributes(semconv.ServiceName("berth"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(host)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describing this process for collectors: %w", err)
	}
	return about, nil
}

// newProvider returns a provider that creates and exports spans by a provider of OpenTelemetry's SDK.
func newProvider(spans *sdktrace.TracerProvider) *Provider {
	return &Provider{spans: spans, root: spans.Tracer(scope)}
}

// propagator reads and writes the header traceparent.
var propagator = propagation.TraceContext{}

// Handler returns a handler that records a span with a fixed name for every request to next. The span is a child of the caller's span if
// the request has one (in the header traceparent). A nil Provider returns next.
func (p *Provider) Handler(name string, next http.Handler) http.Handler {
	if p == nil {
		return next
	}
	return otelhttp.NewHandler(next, name, otelhttp.WithTracerProvider(p.spans), otelhttp.WithPropagators(propagator),
		otelhttp.WithSpanNameFormatter(func(name string, _ *http.Request) string { return name }))
}

// Wrap makes clients of a configuration record their requests as spans, and pass these on to the API server, if the context of a request
// has a recorded span. That of watches and lease renewals has none.
func (p *Provider) Wrap(cfg *rest.Config) {
	if p == nil {
		return
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(next, otelhttp.WithTracerProvider(p.spans), otelhttp.WithPropagators(propagator),
			otelhttp.WithFilter(func(r *http.Request) bool { return trace.SpanFromContext(r.Context()).IsRecording() }))
	})
}

// Root starts the first span of a trace; if ctx has a span already, a child of that span. It returns a context with the new span, which the
// caller must end. A nil Provider returns ctx, and a span that records nothing.
func (p *Provider) Root(ctx context.Context, name string) (context.Context, trace.Span) {
	if p == nil {
		return ctx, noop.Span{}
	}
	return p.root.Start(ctx, name)
}

// NeedLeaderElection returns false, because every replica exports spans.
func (*Provider) NeedLeaderElection() bool { return false }

// Start waits until ctx ends, and then exports the remaining spans, for at most flushTimeout. Spans that it can't export are lost, which is
// no error.
func (p *Provider) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := p.spans.Shutdown(ctx); err != nil {
		// Only traces are lost, so this is not an error.
		ctrllog.FromContext(ctx).Info("The last traces were not sent", "reason", err.Error())
	}
	return nil
}
