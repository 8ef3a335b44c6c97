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
	"encoding/json"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

var (
	_ manager.Runnable               = (*Logs)(nil)
	_ manager.LeaderElectionRunnable = (*Logs)(nil)
)

// Logs sends log records to an OpenTelemetry collector. Records wait in memory, at most 2,048 of them. Records beyond that, and those that
// the collector does not accept, are lost. It is safe for concurrent use.
type Logs struct{ provider *sdklog.LoggerProvider }

// NewLogs returns Logs that send over gRPC to an endpoint: http://host:port, or https:// for TLS. Any other, also "", is an error naming
// flag, the flag that has it. version is that of this process. NewLogs does not wait for the collector. Add the result to a manager, which
// sends the last records at exit. The standard environment variables of OpenTelemetry's SDK apply, such as OTEL_EXPORTER_OTLP_* and
// OTEL_BLRP_*.
func NewLogs(ctx context.Context, flag, endpoint, version string) (*Logs, error) {
	if err := checkEndpoint(flag, endpoint); err != nil {
		return nil, err
	}
	logErrors()
	exporter, err := otlploggrpc.New(ctx, otlploggrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", flag, endpoint, err)
	}
	about, err := describe(ctx, version)
	if err != nil {
		return nil, err
	}
	return &Logs{sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(about))}, nil
}

// Handler returns a slog handler that sends the records it gets to the collector.
func (l *Logs) Handler() slog.Handler {
	return structured{otelslog.NewHandler(scope, otelslog.WithLoggerProvider(l.provider))}
}

// NeedLeaderElection returns false, because every replica sends records.
func (*Logs) NeedLeaderElection() bool { return false }

// Start waits until ctx ends, and then sends the remaining records, for at most flushTimeout. Records that it can't send are lost, which is
// no error.
func (l *Logs) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := l.provider.Shutdown(ctx); err != nil {
		// Only records are lost, so this is not an error.
		ctrllog.FromContext(ctx).Info("The last records of logs were not sent", "reason", err.Error())
	}
	return nil
}

// structured is a handler that passes records on to another one. It replaces a record's attributes of Go types by the lists and maps of
// their JSON. Handlers that are made from it, with more attributes or a group, are those of the other handler, which replace nothing.
type structured struct{ slog.Handler }

// Handle passes a record on, with the attributes replaced. An attribute that has no JSON is an error, and the record is lost.
func (h structured) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	for a := range r.Attrs {
		if a.Value.Kind() == slog.KindAny {
			text, err := json.Marshal(a.Value.Any())
			if err != nil {
				return fmt.Errorf("%s: %w", a.Key, err)
			}
			var value any
			if err := json.Unmarshal(text, &value); err != nil {
				return fmt.Errorf("%s: %w", a.Key, err)
			}
			a.Value = slog.AnyValue(value)
		}
		out.AddAttrs(a)
	}
	return h.Handler.Handle(ctx, out)
}
