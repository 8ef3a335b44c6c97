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

package tracing_test

import (
	"context"
	"encoding/hex"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
)

// span is what the specs look at of one.
type span struct {
	Service, Name, ID, Parent, Trace string
	Attributes                       map[string]string
	// Links are the traces that led to it.
	Links []string
}

// collector is a server that takes traces and logs as OTLP over gRPC.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	logs    logs
	address string

	mu    sync.Mutex
	spans []span
}

func startCollector() *collector {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	c := &collector{address: listener.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	logsv1.RegisterLogsServiceServer(server, &c.logs)
	go func() {
		defer GinkgoRecover()
		Expect(server.Serve(listener)).To(Succeed())
	}()
	DeferCleanup(server.Stop)
	return c
}

// Export implements collectorv1.TraceServiceServer.
func (c *collector) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		service := texts(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				var links []string
				for _, link := range s.GetLinks() {
					links = append(links, hex.EncodeToString(link.GetTraceId()))
				}
				c.spans = append(c.spans, span{
					Links:   links,
					Service: service, Name: s.GetName(), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Trace: hex.EncodeToString(s.GetTraceId()), Attributes: texts(s.GetAttributes()),
				})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// texts are the attributes that are strings.
func texts(attributes []*commonv1.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attributes {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}

// find returns the first span of Berth with a name and attributes; it fails while there is none.
func (c *collector) find(name string, attributes map[string]string) (span, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Service == "berth" && s.Name == name && !slices.ContainsFunc(slices.Collect(maps.Keys(attributes)), func(key string) bool {
			return s.Attributes[key] != attributes[key]
		}) {
			return s, nil
		}
	}
	return span{}, errMissing
}

// parent returns the span that began another one; an empty one while it has not come.
func (c *collector) parent(of span) span {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.spans, func(s span) bool { return s.Trace == of.Trace && s.ID == of.Parent }); i >= 0 {
		return c.spans[i]
	}
	return span{}
}

// parts returns Berth's spans that a span began.
func (c *collector) parts(of span) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []span
	for _, s := range c.spans {
		if s.Service == "berth" && s.Trace == of.Trace && s.Parent == of.ID {
			out = append(out, s)
		}
	}
	return out
}

// ledTo reports whether a span's part made a call by which the API server began the trace of another span. The API
// server makes what its clients trace no part of its own traces, but notes where they come from.
func (c *collector) ledTo(outer, inner span) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.spans, func(s span) bool {
		return s.Service == "apiserver" && s.Trace == inner.Trace && slices.Contains(s.Links, outer.Trace)
	})
}

// logs is the part of a collector that takes logs.
type logs struct {
	logsv1.UnimplementedLogsServiceServer

	mu      sync.Mutex
	records []string
}

// Export implements logsv1.LogsServiceServer.
func (l *logs) Export(_ context.Context, r *logsv1.ExportLogsServiceRequest) (*logsv1.ExportLogsServiceResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, resource := range r.GetResourceLogs() {
		service := texts(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				l.records = append(l.records, service+": "+protojson.Format(record))
			}
		}
	}
	return &logsv1.ExportLogsServiceResponse{}, nil
}

// about returns the records with a text, as JSON after the name of the service.
func (l *logs) about(text string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, record := range l.records {
		if strings.Contains(record, text) {
			out = append(out, record)
		}
	}
	return out
}
