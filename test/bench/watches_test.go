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

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/controllers/replicator"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
	"github.com/berth-dev/berth/test/bench/fixture"
)

// How many objects the watched cluster has.
const (
	watchedDeployments = 1_000
	watchedPods        = 3_000
	watchedNodes       = 100
	watchedNamespaces  = 30
)

// watchedCluster is the transport of a client. It answers lists and watches in JSON, as an API server does.
type watchedCluster struct {
	// events are those of a streamed list, by plural.
	events map[string][]byte

	mu sync.Mutex
	// open are the open watches, by plural.
	open map[string][]*io.PipeWriter
}

func event(b testing.TB, kind string, o map[string]any) []byte {
	b.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "object": o})
	if err != nil {
		b.Fatal(err)
	}
	return append(text, '\n')
}

func newWatchedCluster(b testing.TB) *watchedCluster {
	b.Helper()
	c := &watchedCluster{events: map[string][]byte{}, open: map[string][]*io.PipeWriter{}}
	add := func(plural, kind string, n int, object func(i int) map[string]any) {
		var all bytes.Buffer
		for i := range n {
			all.Write(event(b, "ADDED", object(i)))
		}
		all.Write(event(b, "BOOKMARK", map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{
			"resourceVersion": "10", "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		}}))
		c.events[plural] = all.Bytes()
	}
	add("deployments", "Deployment", watchedDeployments, func(i int) map[string]any {
		o := fixture.Stored(fmt.Sprintf("ns-%d", i%watchedNamespaces), fmt.Sprintf("web-%d", i), 2, fixture.Requested(i%40, 50))
		o["metadata"].(map[string]any)["resourceVersion"] = "1"
		return o
	})
	add("pods", "Pod", watchedPods, func(i int) map[string]any { return watchedPod(i, "1", 100) })
	add("nodes", "Node", watchedNodes, func(i int) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": fmt.Sprintf("node-%d", i), "resourceVersion": "1"},
			"status": map[string]any{"allocatable": map[string]any{"cpu": "64", "memory": "256Gi", "pods": "200"}},
		}
	})
	add("namespaces", "Namespace", watchedNamespaces, func(i int) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": fmt.Sprintf("ns-%d", i), "resourceVersion": "1"}}
	})
	return c
}

// watchedPod returns a pod of a Deployment, with what the API server and the kubelet add. It requests some thousandths of
// a processor.
func watchedPod(i int, version string, cpu int) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name": fmt.Sprintf("web-%d-abcde", i), "namespace": fmt.Sprintf("ns-%d", i%watchedNamespaces), "uid": fmt.Sprintf("uid-%d", i),
			"resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z", "generateName": fmt.Sprintf("web-%d-", i),
			"labels":          map[string]any{"app": fmt.Sprintf("web-%d", i%watchedDeployments), "cpu": fmt.Sprint(cpu), "pod-template-hash": "abc"},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}},
			"managedFields": []any{map[string]any{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{
				"f:status": map[string]any{"f:conditions": map[string]any{}, "f:containerStatuses": map[string]any{}, "f:phase": map[string]any{}},
			}}},
		},
		"spec": map[string]any{
			"nodeName": fmt.Sprintf("node-%d", i%watchedNodes), "restartPolicy": "Always", "schedulerName": "default-scheduler", "serviceAccountName": "default",
			"containers": []any{map[string]any{
				"name": "web", "image": "registry.example.com/web:1", "ports": []any{map[string]any{"containerPort": 8080, "protocol": "TCP"}},
				"resources":    map[string]any{"requests": map[string]any{"cpu": fmt.Sprintf("%dm", cpu), "memory": "64Mi"}, "limits": map[string]any{"memory": "128Mi"}},
				"volumeMounts": []any{map[string]any{"name": "token", "mountPath": "/var/run/secrets", "readOnly": true}},
			}},
			"tolerations": []any{map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}},
			"volumes":     []any{map[string]any{"name": "token", "projected": map[string]any{"defaultMode": 420}}},
		},
		"status": map[string]any{
			"phase": "Running", "podIP": "10.0.0.1", "qosClass": "Burstable",
			"conditions":        []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "PodScheduled", "status": "True"}},
			"containerStatuses": []any{map[string]any{"name": "web", "ready": true, "restartCount": 0, "state": map[string]any{"running": map[string]any{}}}},
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (c *watchedCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	plural := path.Base(r.URL.Path)
	if query := r.URL.Query(); query.Get("watch") == "" || query.Get("sendInitialEvents") != "true" {
		return nil, fmt.Errorf("request of %s that is no streamed list", r.URL)
	}
	body, stream := io.Pipe()
	c.mu.Lock()
	c.open[plural] = append(c.open[plural], stream)
	c.mu.Unlock()
	context.AfterFunc(r.Context(), func() { stream.CloseWithError(r.Context().Err()) })
	go func() {
		if _, err := stream.Write(c.events[plural]); err != nil {
			stream.CloseWithError(err)
		}
	}()
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: body, Request: r}, nil
}

// send sends an event to the watches of a type.
func (c *watchedCluster) send(plural string, event []byte) {
	c.mu.Lock()
	streams := c.open[plural]
	c.mu.Unlock()
	for _, w := range streams {
		// A watch that ended before another consumer joined has a closed stream.
		_, _ = w.Write(event)
	}
}

// metering is a consumer of quotas.
type metering struct {
	meter *quota.Meter
	put   func()
}

func (m *metering) Replace(r schema.GroupVersionResource, _ *projection.FieldSet, objects []*unstructured.Unstructured) {
	if err := m.meter.Replace(r.GroupResource(), objects); err != nil {
		panic(err)
	}
}

func (m *metering) Put(r schema.GroupVersionResource, o *unstructured.Unstructured) {
	if _, err := m.meter.Put(r.GroupResource(), o); err != nil {
		panic(err)
	}
	m.put()
}

func (m *metering) Delete(r schema.GroupVersionResource, namespace, name string) {
	m.meter.Delete(r.GroupResource(), namespace, name)
}

func (m *metering) Drop(r schema.GroupVersionResource) { m.meter.Drop(r.GroupResource()) }

// watchedReplica is a replica as a leader has it, of policies, predicates, and quotas that read Deployments and pods.
type watchedReplica struct {
	cluster *watchedCluster
	// changes counts the consumers that received a change.
	changes chan struct{}
	stop    func()
}

func labelsAnd(names ...string) *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("metadata").AddName("labels").AddAll()
	for _, name := range names {
		f.AddName("spec").AddName(name)
	}
	return f.Seal()
}

// startWatched starts a replica, and returns when it has all objects.
func startWatched(b testing.TB, cluster *watchedCluster) *watchedReplica {
	b.Helper()
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "http://cluster"}, &http.Client{Transport: cluster})
	if err != nil {
		b.Fatal(err)
	}
	w := &watchedReplica{cluster: cluster, changes: make(chan struct{}, 100)}
	var started atomic.Bool
	state := make(chan struct{}, 1)
	stateChanged := func(schema.GroupVersionResource) {
		select {
		case state <- struct{}{}:
		default:
		}
	}
	content := func(schema.GroupVersionResource) {
		if started.Load() {
			w.changes <- struct{}{}
		}
	}
	registry := placement.NewRegistry()
	binding := &policy.Binding{
		Fields:         map[schema.GroupVersionResource]*projection.FieldSet{fixture.Deployments: labelsAnd("replicas"), pods: labelsAnd("nodeName", "serviceAccountName")},
		PredicateReads: predicates.Reads(),
	}
	registry.Set("reader", &placement.PolicyState{Policy: &placement.Policy{Name: "reader"}, Binding: binding})
	data, world := embedded.NewData(), predicates.NewNodeCache()
	meter := quota.NewMeter(quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), clock.RealClock{})
	hub := watches.NewHub(client)
	controller := replicator.New(hub, registry, data, world, replication.Known())
	controller.Subscribe(func(r schema.GroupVersionResource) { content(r); stateChanged(r) })
	controller.SubscribePredicates(content, stateChanged)
	quotas := hub.NewConsumer(&metering{meter, func() { content(pods) }}, stateChanged)
	quotas.Consistent = true
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- controller.Start(ctx) }()
	quotas.Set(ctx, map[schema.GroupVersionResource]*projection.FieldSet{fixture.Deployments: projection.AllFields(), pods: projection.AllFields()})
	for {
		ofDeployments, _ := quotas.State(fixture.Deployments)
		ofPods, _ := quotas.State(pods)
		if ofDeployments.Synced && ofPods.Synced && controller.SettledFor(binding) {
			break
		}
		<-state
	}
	started.Store(true)
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	return w
}

// BenchmarkWatches is what a replica allocates to read 1,000 Deployments, 3,000 pods, their nodes, and their namespaces
// for policies, predicates, and quotas, and what it allocates when a pod changes.
func BenchmarkWatches(b *testing.B) {
	cluster := newWatchedCluster(b)
	b.Run("part=Start", func(b *testing.B) {
		measure(b, func(int) {
			w := startWatched(b, cluster)
			b.StopTimer()
			w.stop()
			b.StartTimer()
		})
	})
	b.Run("part=Change", func(b *testing.B) {
		w := startWatched(b, cluster)
		defer w.stop()
		var events [][]byte
		for i := range 200 {
			events = append(events, event(b, "MODIFIED", watchedPod(i%100, fmt.Sprint(20+i), 200+i)))
		}
		measure(b, func(i int) {
			cluster.send("pods", events[i%len(events)])
			for range 3 {
				<-w.changes
			}
		})
		open := 0
		for _, resource := range []schema.GroupVersionResource{fixture.Deployments, pods, nodes, namespaces} {
			open += cluster.watching(resource.Resource)
		}
		b.ReportMetric(float64(open), "watches/replica")
	})
}

// watching returns the number of open watches of a type.
func (c *watchedCluster) watching(plural string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := 0
	for _, w := range c.open[plural] {
		// A write of nothing waits for the reader of an open stream.
		if _, err := w.Write([]byte("\n")); err == nil {
			open++
		}
	}
	return open
}
