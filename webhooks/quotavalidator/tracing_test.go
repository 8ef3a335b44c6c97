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

package quotavalidator_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-dev/berth/internal/quota/quotatest"
)

// TestTracesOfRounds checks that a trace contains every round in which its request was decided and charged, and no
// other request.
func TestTracesOfRounds(t *testing.T) {
	failures := 1
	f := newFixture(t, quotatest.NewStore(t, quotatest.NewQuota("q", "pods", "1", "0")), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, q client.Object, options ...client.SubResourceUpdateOption) error {
			if failures--; failures >= 0 {
				return conflict(q)
			}
			return c.SubResource(subresource).Update(ctx, q, options...)
		},
	})
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	shown := []string{"berth.outcome", "berth.charged", "berth.denied", "berth.quota.read", "berth.quota.round", "berth.quota.conflicts"}
	spans := func(uid string) []string {
		ctx, span := tracer.Start(t.Context(), uid)
		f.askWith(ctx, t, quotatest.NewCreate("pods", uid))
		span.End()
		var out []string
		for _, s := range recorder.Ended() {
			if s.SpanContext().TraceID() != span.SpanContext().TraceID() {
				continue
			}
			var told []string
			for _, a := range s.Attributes() {
				if key := string(a.Key); slices.Contains(shown, key) {
					told = append(told, key+"="+a.Value.String())
				}
			}
			slices.Sort(told)
			text := strings.Join(append([]string{s.Name()}, told...), " ")
			out = append(out, text)
		}
		return out
	}
	if diff := cmp.Diff([]string{
		"usage",
		"decide berth.outcome=allowed berth.quota.read=cached",
		"charge berth.quota.conflicts=1 berth.quota.round=1",
		"decide berth.outcome=allowed berth.quota.read=reread",
		"charge berth.quota.conflicts=0 berth.quota.round=2",
		"one berth.charged=ScopedQuota/team-a/q berth.outcome=allowed",
	}, spans("one")); diff != "" {
		t.Errorf("a charge (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"usage",
		"decide berth.outcome=denied berth.quota.read=cached",
		"decide berth.outcome=denied berth.quota.read=reread",
		"two berth.denied=ScopedQuota/team-a/q berth.outcome=denied",
	}, spans("two")); diff != "" {
		t.Errorf("a denial (-want +got):\n%s", diff)
	}
}
