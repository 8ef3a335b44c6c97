// Package tracing sends OpenTelemetry traces of what Berth does to a collector. While it is off, nothing of it costs
// anything; while the collector is down or slow, spans are dropped, and nobody waits.
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

// scope is who makes the spans.
const scope = "github.com/berth-dev/berth"

// flushTimeout bounds how long the end of the process waits for the last spans to be taken.
const flushTimeout = 2 * time.Second

// perMillion is the sampling rate by which everything is traced.
const perMillion = 1_000_000

var (
	_ manager.Runnable               = (*Provider)(nil)
	_ manager.LeaderElectionRunnable = (*Provider)(nil)
)

// Options configure a Provider. Beyond them the environment variables OTEL_EXPORTER_OTLP_*, OTEL_BSP_*, OTEL_SERVICE_NAME
// and OTEL_RESOURCE_ATTRIBUTES say what they say to every program with OpenTelemetry's SDK.
type Options struct {
	// Endpoint is where the collector takes OTLP over gRPC: http://host:port, or https:// for TLS.
	Endpoint string
	// SamplingPerMillion is how many of a million traces that begin in Berth are recorded. What the API server has begun
	// is recorded if the API server records it.
	SamplingPerMillion int
	// Version is the process's.
	Version string
}

// Provider makes spans and sends them to a collector. A nil one is off. It is safe for concurrent use.
type Provider struct {
	spans *sdktrace.TracerProvider
	root  trace.Tracer
}

// New returns a provider; nil if there is no endpoint. It does not wait for the collector. Add it to a manager, which
// sends the last spans at its end.
func New(ctx context.Context, o Options) (*Provider, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	if u, err := url.Parse(o.Endpoint); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("--tracing-endpoint %q: must be http://<host>:<port>, or https:// for TLS", o.Endpoint)
	}
	if o.SamplingPerMillion < 0 || o.SamplingPerMillion > perMillion {
		return nil, fmt.Errorf("--tracing-sampling-rate-per-million %d: must be between 0 and %d", o.SamplingPerMillion, perMillion)
	}
	log := ctrllog.Log.WithName("tracing")
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Error(err, "Sending traces") }))
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("--tracing-endpoint %q: %w", o.Endpoint, err)
	}
	// The name of the pod, where there is one; without any the replicas can't be told apart, which is no reason to stop.
	host, _ := os.Hostname()
	about, err := resource.New(ctx,
		resource.WithSchemaURL(semconv.SchemaURL),
		resource.WithAttributes(semconv.ServiceName("berth"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(host)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describing this process in its traces: %w", err)
	}
	sampled := sdktrace.TraceIDRatioBased(float64(o.SamplingPerMillion) / perMillion)
	return newProvider(sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.ParentBased(sampled)),
	)), nil
}

func newProvider(spans *sdktrace.TracerProvider) *Provider {
	return &Provider{spans: spans, root: spans.Tracer(scope)}
}

// propagator reads and writes the header traceparent.
var propagator = propagation.TraceContext{}

// Handler has every request to next traced by name, as a part of the caller's trace where there is one.
func (p *Provider) Handler(name string, next http.Handler) http.Handler {
	if p == nil {
		return next
	}
	return otelhttp.NewHandler(next, name, otelhttp.WithTracerProvider(p.spans), otelhttp.WithPropagators(propagator),
		otelhttp.WithSpanNameFormatter(func(name string, _ *http.Request) string { return name }))
}

// Wrap has a client's calls traced that are made in a recorded span. Watches and leases are not.
func (p *Provider) Wrap(cfg *rest.Config) {
	if p == nil {
		return
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(next, otelhttp.WithTracerProvider(p.spans), otelhttp.WithPropagators(propagator),
			otelhttp.WithFilter(func(r *http.Request) bool { return trace.SpanFromContext(r.Context()).IsRecording() }))
	})
}

// Root begins a trace. End the span.
func (p *Provider) Root(ctx context.Context, name string) (context.Context, trace.Span) {
	if p == nil {
		return ctx, noop.Span{}
	}
	return p.root.Start(ctx, name)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has spans to send.
func (*Provider) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: at the end it sends what is left.
func (p *Provider) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := p.spans.Shutdown(ctx); err != nil {
		// Traces are lost, nothing else.
		ctrllog.FromContext(ctx).Info("The last traces were not sent", "reason", err.Error())
	}
	return nil
}
