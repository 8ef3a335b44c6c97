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

package scaling_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// BenchmarkSizing measures what replicas take that hold workloads, clusters, and policies: memory, a start, a change of a cluster, a patch,
// and an admission request. It prints rows of the table in docs/scaling.md. Processor times are those of the replica's process. Unlike
// other times, they hardly depend on what else the machine does.
//
// BERTH_SIZES has the numbers, as in "1000/10/1 100000/100/10". BERTH_MEMORY, as in "1800MiB", is the GOMEMLIMIT of the replicas.
func BenchmarkSizing(b *testing.B) {
	suite.RunBenchmarks(b, "Benchmarks of size")
}

// size is how much the replicas have to hold.
type size struct{ workloads, clusters, policies int }

// sizes returns the sizes that BERTH_SIZES names.
func sizes() (out []size) {
	text, ok := os.LookupEnv("BERTH_SIZES")
	if !ok {
		text = "1000/10/1"
	}
	for word := range strings.FieldsSeq(text) {
		s := size{}
		if _, err := fmt.Sscanf(word, "%d/%d/%d", &s.workloads, &s.clusters, &s.policies); err != nil {
			panic(fmt.Errorf("BERTH_SIZES: %q: %w", word, err))
		}
		out = append(out, s)
	}
	return out
}

var _ = Describe("The whole operator", Ordered, Label(suite.Benchmarks), func() {
	BeforeAll(func() {
		model := "unknown processor"
		text, err := os.ReadFile("/proc/cpuinfo")
		Expect(err).NotTo(HaveOccurred())
		if _, after, ok := strings.Cut(string(text), "model name\t: "); ok {
			model, _, _ = strings.Cut(after, "\n")
		}
		rule := strings.Repeat("| --- ", strings.Count(header, "|")-1) + "|"
		fmt.Fprintf(os.Stdout, "\n%s, %d cores, %s\n\n%s\n%s\n", model, runtime.NumCPU(), runtime.Version(), header, rule)
	})
	for _, s := range sizes() {
		It(fmt.Sprintf("is measured with %d workloads, %d clusters, and %d policies", s.workloads, s.clusters, s.policies), func(ctx SpecContext) {
			text := fill(ctx, s).measure(ctx).String()
			fmt.Fprintf(os.Stdout, "\n%s\n", text)
		})
	}
})

// header is the header of the table whose rows are measurements.
const header = "| workloads | clusters | policies | leader, MiB (peak, heap) | other, MiB | " +
	"Ready, s (CPU) | decided, s (CPU) | sweep, s | patch, ms | request, ms |"

// measurement is what was measured for a size.
type measurement struct {
	size
	// leader, heap, and other are bytes: the resident memory and the heap of a leader that has nothing to do, and the resident memory of
	// another replica. peak is the most resident memory of the leader until it was idle for the first time.
	leader, peak, heap, other float64
	// ready and decided are the times from the start of the leader until it is Ready, and until all workloads are decided.
	ready, decided spent
	// sweep is the processor time of the leader for a change of a cluster that moves no workload. patch is that for each patch of a sweep,
	// with all else that the sweep takes. request is that of a replica for an admission request.
	sweep, patch, request time.Duration
}

// spent is a time, and the processor time in it.
type spent struct{ time, cpu time.Duration }

// String returns the time in seconds, and the processor time in parentheses.
func (s spent) String() string {
	return fmt.Sprintf("%.1f (%.1f)", s.time.Seconds(), s.cpu.Seconds())
}

// String returns the row of a table in Markdown.
func (m measurement) String() string {
	const mebibyte = 1 << 20
	return fmt.Sprintf("| %s | %s | %s | %.0f (%.0f, %.0f) | %.0f | %s | %s | %.2f | %.2f | %.2f |",
		grouped(m.workloads), grouped(m.clusters), grouped(m.policies), m.leader/mebibyte, m.peak/mebibyte, m.heap/mebibyte, m.other/mebibyte,
		m.ready, m.decided, m.sweep.Seconds(), milliseconds(m.patch), milliseconds(m.request))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// grouped returns a number with commas between thousands.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// startTimeout is how long a leader may take to decide all workloads.
const startTimeout = 30 * time.Minute

// patches is the metric that counts the patches of workloads.
const patches = "berth_remediations_total"

// measure starts a leader, changes clusters, and asks another replica.
func (w *world) measure(ctx context.Context) measurement {
	GinkgoHelper()
	m := measurement{size: w.size}
	begin := time.Now()
	leader := w.startReplica(ctx)
	m.ready = spent{time.Since(begin), cpuOf(leader)}
	Eventually(func(ctx context.Context) (float64, error) { return total(ctx, leader, "berth_policy_rule_objects") }).WithContext(ctx).
		WithTimeout(startTimeout).WithPolling(time.Second / 4).Should(BeEquivalentTo(w.workloads))
	m.decided = spent{time.Since(begin), cpuOf(leader)}
	awaitIdle(ctx, leader.CPU)
	peak, err := leader.PeakMemory()
	Expect(err).NotTo(HaveOccurred())
	m.leader, m.peak, m.heap = residentMemory(ctx, leader), float64(peak), value(ctx, leader, "go_memstats_heap_inuse_bytes")

	m.sweep = w.sweep(ctx, leader, "tier", "b", 0)
	Expect(total(ctx, leader, patches)).To(BeZero(), "the start or the change of a tier patched workloads")
	// The first cluster leaves the clusters of the pilots.
	moved := min(pilots, w.workloads)
	m.patch = w.sweep(ctx, leader, "pilot", "false", moved) / time.Duration(moved)

	other := w.startReplica(ctx)
	awaitIdle(ctx, other.CPU)
	m.other = residentMemory(ctx, other)
	m.request = w.request(ctx, other)
	return m
}

// sweep changes a label of the first cluster, waits until a number of workloads has moved, and returns the processor time of the leader,
// without what it takes when it has nothing to do.
func (w *world) sweep(ctx context.Context, leader *framework.Command, label, value string, moved int) time.Duration {
	GinkgoHelper()
	const decided = "berth_decisions_total"
	decisions, err := total(ctx, leader, decided)
	Expect(err).NotTo(HaveOccurred())
	idle := awaitIdle(ctx, leader.CPU)
	before, begin := cpuOf(leader), time.Now()
	obj := w.cluster(0)
	obj.SetLabels(map[string]string{label: value})
	Expect(w.f.Client.Patch(ctx, obj, labelsOf(obj))).To(Succeed())
	Eventually(func(ctx context.Context) (float64, error) { return total(ctx, leader, patches) }).WithContext(ctx).
		WithTimeout(startTimeout).WithPolling(2 * time.Second).Should(BeNumerically(">=", moved))
	awaitIdle(ctx, leader.CPU)
	took := cpuOf(leader) - before - time.Duration(idle*float64(time.Since(begin)))
	after, err := total(ctx, leader, decided)
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry(fmt.Sprintf("%s=%s", label, value), ReportEntryVisibilityAlways, fmt.Sprintf("%v of processor time, %.0f evaluations", took, after-decisions))
	return max(0, took)
}

// request returns the processor time of a replica for an admission request.
func (w *world) request(ctx context.Context, replica *framework.Command) time.Duration {
	GinkgoHelper()
	const first, requests = 200, 4000
	asker := newAsker(ctx, w.f, replica)
	asker.ask(ctx, w.namespaces, first)
	before := cpuOf(replica)
	asker.ask(ctx, w.namespaces, requests)
	return (cpuOf(replica) - before) / requests
}

// cpuOf returns the processor time that a replica has taken.
func cpuOf(c *framework.Command) time.Duration {
	GinkgoHelper()
	cpu, err := c.CPU()
	Expect(err).NotTo(HaveOccurred())
	return cpu
}

// residentMemory returns the resident memory of a replica, in bytes.
func residentMemory(ctx context.Context, c *framework.Command) float64 {
	GinkgoHelper()
	return value(ctx, c, "process_resident_memory_bytes")
}

// value returns the sum of the series of a metric.
func value(ctx context.Context, c *framework.Command, metric string) float64 {
	GinkgoHelper()
	sum, err := c.Value(ctx, metric)
	Expect(err).NotTo(HaveOccurred())
	return sum
}

// total returns the sum of the series of a metric, and 0 if there are none yet.
func total(ctx context.Context, c *framework.Command, metric string) (float64, error) {
	sum, err := c.Value(ctx, metric)
	if errors.Is(err, framework.ErrNoMetric) {
		return 0, nil
	}
	return sum, err
}

// awaitIdle waits until a process takes less than a tenth of a processor several times in a row, by the processor time that it has taken.
// It returns how much of a processor it took in that time.
func awaitIdle(ctx context.Context, cpu func() (time.Duration, error)) (share float64) {
	GinkgoHelper()
	const enough, every, busy = 3, 2 * time.Second, 0.1
	type reading struct {
		cpu  time.Duration
		when time.Time
	}
	shareOf := func(from, to reading) float64 { return float64(to.cpu-from.cpu) / float64(to.when.Sub(from.when)) }
	var idle []reading
	Eventually(func() ([]reading, error) {
		spent, err := cpu()
		if err != nil {
			return nil, err
		}
		now := reading{spent, time.Now()}
		if len(idle) > 0 && shareOf(idle[len(idle)-1], now) > busy {
			idle = nil
		}
		idle = append(idle, now)
		return idle, nil
	}).WithContext(ctx).WithTimeout(startTimeout).WithPolling(every).Should(HaveLen(1 + enough))
	return shareOf(idle[0], idle[enough])
}

// asker asks a replica as the API server would.
type asker struct {
	client *http.Client
	url    string
}

func newAsker(ctx context.Context, f *framework.Framework, c *framework.Command) *asker {
	GinkgoHelper()
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(f.Client.Get(ctx, client.ObjectKey{Name: "berth-placement"}, hook)).To(Succeed())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(hook.Webhooks[0].ClientConfig.CABundle)).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: askers}
	DeferCleanup(transport.CloseIdleConnections)
	return &asker{client: &http.Client{Transport: transport}, url: c.URL + framework.WebhookPath(hook.Webhooks[0].ClientConfig)}
}

// askers is how many requests are under way at once.
const askers = 8

// ask sends n requests, each about a new object.
func (a *asker) ask(ctx context.Context, namespaces []string, n int) {
	GinkgoHelper()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range askers {
		wg.Go(func() {
			defer GinkgoRecover()
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				Expect(a.one(ctx, namespaces[i%len(namespaces)], i)).To(Succeed())
			}
		})
	}
	wg.Wait()
}

func (a *asker) one(ctx context.Context, namespace string, i int) error {
	raw, err := json.Marshal(framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("new-%d", i), nil))
	if err != nil {
		return err
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: namespace, Name: fmt.Sprintf("new-%d", i),
			Kind:     metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource: metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Object:   k8sruntime.RawExtension{Raw: raw}, DryRun: new(true),
		},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(text, review); err != nil {
		return fmt.Errorf("%s: %s: %w", response.Status, text, err)
	}
	if r := review.Response; !r.Allowed || !strings.Contains(string(r.Patch), "placement.berth.dev") {
		return fmt.Errorf("answered %v %s: %v", r.Allowed, r.Patch, r.Result)
	}
	return nil
}
