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

// Package quotaload_test shows what quotas do under load, with several replicas of the operator, on a real API server.
package quotaload_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

const (
	// workers is how many clients there are at once.
	workers = 16
)

var f *framework.Framework

func TestQuotaLoad(t *testing.T) {
	suite.Run(t, "Quotas under load")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
})

// fleet is several replicas of the operator behind one address.
type fleet struct {
	proxy    *framework.Proxy
	replicas []*replica
}

// replica is one of them.
type replica struct {
	*framework.Manager
	backend *framework.Backend
}

// startFleet starts replicas, of which the first one leads, and stops them after the spec.
func startFleet(ctx context.Context, n int, tune ...func(*setup.Options)) *fleet {
	GinkgoHelper()
	out := &fleet{proxy: framework.StartProxy()}
	tune = append(slices.Clone(tune), func(o *setup.Options) {
		o.LeaderElection = true
		o.WebhookURL = out.proxy.URL()
	})
	for range n {
		m := f.StartReadyManager(ctx, tune...)
		DeferCleanup(m.Stop)
		out.replicas = append(out.replicas, &replica{Manager: m, backend: out.proxy.Add(m.URL)})
	}
	return out
}

// kill ends a replica without letting it answer the requests in flight.
func (l *fleet) kill(r *replica) {
	GinkgoHelper()
	l.proxy.Kill(r.backend)
	r.Stop()
}

// leader returns the replica that leads: it alone shows what is used.
func (l *fleet) leader(ctx context.Context) *replica {
	GinkgoHelper()
	var out *replica
	Eventually(func(context.Context) *replica {
		for _, r := range l.replicas {
			if series, err := r.Series("berth_quota_used"); err == nil && len(series) > 0 {
				out = r
			}
		}
		return out
	}).WithContext(ctx).ShouldNot(BeNil(), "no replica leads; or there is no quota")
	return out
}

// asked returns how many requests the replicas have answered.
func (l *fleet) asked() int {
	GinkgoHelper()
	out := 0.0
	for _, r := range l.replicas {
		series, err := r.Series("berth_quota_admission_duration_seconds")
		Expect(err).NotTo(HaveOccurred())
		for _, n := range series {
			out += n
		}
	}
	return int(out)
}

// counted returns the sum of a counter over the replicas.
func (l *fleet) counted(metric string) int {
	GinkgoHelper()
	out := 0.0
	for _, r := range l.replicas {
		series, err := r.Series(metric)
		Expect(err).NotTo(HaveOccurred())
		for _, n := range series {
			out += n
		}
	}
	return int(out)
}

// createQuota creates a quota, waits until it is Ready and until the API server sends pods in a namespace to Berth: its
// copy of the webhook configuration lags behind what is stored.
func (l *fleet) createQuota(ctx context.Context, q client.Object, namespace string) {
	GinkgoHelper()
	f.CreateReadyQuota(ctx, q)
	l.awaitAsked(ctx, framework.NewPod(namespace, "", nil))
}

// awaitAsked waits until the API server sends the creation of an object to Berth.
func (l *fleet) awaitAsked(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) int {
		before := l.asked()
		copied, _ := o.DeepCopyObject().(client.Object)
		// Whether it is denied does not matter.
		_ = f.Client.Create(ctx, copied, client.DryRunAll)
		return l.asked() - before
	}).WithContext(ctx).Should(BeNumerically(">", 0))
}

// worker is a client with a connection of its own.
type worker struct {
	client.Client
}

// tallied is what the API server answered to some workers, also where the client tried again by itself.
type tallied struct {
	mu     sync.Mutex
	status map[int]int
}

// newWorkers makes clients.
func newWorkers(n int) ([]worker, *tallied) {
	GinkgoHelper()
	seen := &tallied{status: map[int]int{}}
	out := make([]worker, n)
	for i := range out {
		config := rest.CopyConfig(f.Config)
		config.Dial = (&net.Dialer{}).DialContext
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tallying{next: next, seen: seen} })
		c, err := client.New(config, client.Options{Scheme: f.Client.Scheme(), Mapper: f.Client.RESTMapper()})
		Expect(err).NotTo(HaveOccurred())
		out[i] = worker{c}
	}
	return out, seen
}

type tallying struct {
	next http.RoundTripper
	seen *tallied
}

// RoundTrip implements http.RoundTripper.
func (t *tallying) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil {
		t.seen.mu.Lock()
		defer t.seen.mu.Unlock()
		t.seen.status[response.StatusCode]++
	}
	return response, err
}

func (t *tallied) of(status int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status[status]
}

// outcome is how a number of requests ended.
type outcome struct {
	Admitted, Exceeded int
	// Other are errors that are no quota's refusal.
	Other []string
	took  time.Duration
}

func (o *outcome) add(err error) {
	switch {
	case err == nil:
		o.Admitted++
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		o.Exceeded++
	default:
		o.Other = append(o.Other, err.Error())
	}
}

func (o *outcome) String() string {
	return fmt.Sprintf("%d admitted, %d exceeded, %d other in %v: %.0f admissions/s, %.0f answers/s",
		o.Admitted, o.Exceeded, len(o.Other), o.took.Round(time.Millisecond), float64(o.Admitted)/o.took.Seconds(),
		float64(o.Admitted+o.Exceeded+len(o.Other))/o.took.Seconds())
}

// load makes n requests from all workers.
func load(ctx context.Context, clients []worker, n int, request func(ctx context.Context, c worker, i int) error) *outcome {
	start := time.Now()
	out := &outcome{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for _, c := range clients {
		wg.Go(func() {
			for i := range next {
				err := request(ctx, c, i)
				mu.Lock()
				out.add(err)
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	out.took = time.Since(start)
	return out
}

// createPods creates n pods in a namespace.
func createPods(ctx context.Context, clients []worker, namespace string, n int) *outcome {
	return load(ctx, clients, n, func(ctx context.Context, c worker, i int) error {
		return c.Create(ctx, framework.NewPod(namespace, fmt.Sprintf("pod-%04d", i), nil))
	})
}

// pods returns how many pods there are in namespaces.
func pods(ctx context.Context, namespaces ...string) (int, error) {
	out := 0
	for _, namespace := range namespaces {
		list := &corev1.PodList{}
		if err := f.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		out += len(list.Items)
	}
	return out, nil
}

// state is what a quota's status says.
type state struct {
	// Used is how many pods are used, and Reservations how many charges wait for their objects.
	Used, Reservations int
}

func stateOf(q placementv1.Quota) state {
	used := q.QuotaStatus().Used[corev1.ResourcePods]
	return state{Used: int(used.Value()), Reservations: len(q.QuotaStatus().Reservations)}
}

// read reads what a quota's status says.
func read(ctx context.Context, q placementv1.Quota) (state, error) {
	o, _ := q.(client.Object)
	err := f.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	return stateOf(q), err
}

// awaitSettled waits until a quota says what pods there are in namespaces, with nothing reserved.
func awaitSettled(ctx context.Context, q placementv1.Quota, namespaces ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		real, err := pods(ctx, namespaces...)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(read(ctx, q)).To(Equal(state{Used: real}))
	}).WithContext(ctx).Should(Succeed())
}

// history follows every version of a quota's status.
type history struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	versions int
	peak     int
	above    []string
}

// follow begins to follow a quota, from its present version on.
func follow(ctx context.Context, q client.Object, list client.ObjectList) *history {
	GinkgoHelper()
	watching, err := client.NewWithWatch(f.Config, client.Options{Scheme: f.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(ctx)
	w, err := watching.Watch(ctx, list, client.InNamespace(q.GetNamespace()), client.MatchingFields{"metadata.name": q.GetName()})
	Expect(err).NotTo(HaveOccurred())
	h := &history{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for e := range w.ResultChan() {
			if seen, ok := e.Object.(placementv1.Quota); ok {
				h.see(seen)
			}
		}
	}()
	DeferCleanup(func() {
		cancel()
		w.Stop()
	})
	return h
}

func (h *history) see(q placementv1.Quota) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions++
	used, hard := q.QuotaStatus().Used[corev1.ResourcePods], q.QuotaSpec().Hard[corev1.ResourcePods]
	h.peak = max(h.peak, int(used.Value()))
	if used.Cmp(hard) > 0 {
		h.above = append(h.above, fmt.Sprintf("%s: used %s, hard %s", q.GetResourceVersion(), used.String(), hard.String()))
	}
}

// expectNeverAbove fails if any version used more than hard.
func (h *history) expectNeverAbove() (versions, peak int) {
	GinkgoHelper()
	h.mu.Lock()
	defer h.mu.Unlock()
	Expect(h.above).To(BeEmpty())
	Expect(h.versions).To(BeNumerically(">", 1), "nothing was watched")
	return h.versions, h.peak
}

// peakUsed returns the most that a version used so far.
func (h *history) peakUsed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peak
}

// report shows figures with the results.
func report(name, format string, args ...any) {
	AddReportEntry(name, ReportEntryVisibilityAlways, fmt.Sprintf(format, args...))
}
