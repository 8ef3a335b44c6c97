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
	"fmt"
	"io"
	"net/http"
	"os"
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
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

// benchmark is what the specs with the label report to.
var benchmark *testing.B

// BenchmarkSizing measures what replicas take that have a number of policies and of objects that these match: the memory
// of the leader's and of another one's process, and the processor time of a start, of one object that is placed since
// its policy is new, and of one admission request that one policy decides. Processor time and memory, unlike time,
// hardly depend on what else the machine does.
// BERTH_SIZES, as in "10/1000 100/10000", says which numbers.
func BenchmarkSizing(b *testing.B) {
	benchmark = b
	suite.RunBenchmarks(b, "Benchmarks of size")
}

// size is how much a replica has to hold.
type size struct{ policies, objects int }

func sizes() (out []size) {
	text, ok := os.LookupEnv("BERTH_SIZES")
	if !ok {
		text = "1/100 100/1000 100/10000 1000/10000"
	}
	for word := range strings.FieldsSeq(text) {
		policies, objects, _ := strings.Cut(word, "/")
		s := size{}
		var err error
		if s.policies, err = strconv.Atoi(policies); err != nil {
			panic(err)
		}
		if s.objects, err = strconv.Atoi(objects); err != nil {
			panic(err)
		}
		out = append(out, s)
	}
	return out
}

// perNamespace is how many objects a namespace has.
const perNamespace = 100

// clusters is how many there are for the policies to choose from; every tenth of them is in the EU.
const clusters = 100

var _ = Describe("A replica", Serial, Ordered, Label(suite.Benchmarks), func() {
	BeforeAll(func(ctx SpecContext) {
		f.MustKubectl(ctx, "", "apply", "-f", "hack/demo/clusterprofile-crd.yaml")
		f.MustKubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/clusterprofiles.multicluster.x-k8s.io")
		var all strings.Builder
		for i := range clusters {
			zone := "us"
			if i%10 == 0 {
				zone = "eu"
			}
			fmt.Fprintf(&all, `{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile","metadata":{"namespace":"default","name":"c%d","labels":{"zone":%q}},"spec":{"clusterManager":{"name":"x"}}}`+"\n", i, zone)
		}
		f.MustKubectl(ctx, all.String(), "apply", "-f", "-")
	})

	for _, s := range sizes() {
		It(fmt.Sprintf("of %d policies and %d objects is measured", s.policies, s.objects), func(ctx SpecContext) {
			namespaces := fill(ctx, s)
			// The first one places what is there; what a later one takes does not depend on that.
			first := startLeader(ctx)
			placing, err := first.Value(ctx, "process_cpu_seconds_total")
			Expect(err).NotTo(HaveOccurred())
			Expect(first.Stop(time.Minute)).To(Succeed())
			leader := startLeader(ctx)
			start, err := leader.Value(ctx, "process_cpu_seconds_total")
			Expect(err).NotTo(HaveOccurred())
			follower := commands.StartReady(ctx, "", "--leader-elect")
			DeferCleanup(func() error { return follower.Stop(time.Minute) })
			awaitIdle(ctx, follower)
			asker := newAsker(ctx, follower)
			// benchstat reads lines from their beginning, and Ginkgo may have left a dot there.
			fmt.Fprintln(os.Stdout)
			benchmark.Run(fmt.Sprintf("policies=%d/objects=%d", s.policies, s.objects), func(b *testing.B) {
				// A failure here is the spec's.
				defer GinkgoRecover()
				before, err := follower.Value(ctx, "process_cpu_seconds_total")
				Expect(err).NotTo(HaveOccurred())
				b.ResetTimer()
				asker.ask(ctx, namespaces, b.N)
				b.StopTimer()
				after, err := follower.Value(ctx, "process_cpu_seconds_total")
				Expect(err).NotTo(HaveOccurred())
				b.ReportMetric((after-before)/float64(b.N)*1e6, "cpu-µs/request")
				b.ReportMetric((placing-start)/float64(s.objects)*1e3, "cpu-ms/placed")
				b.ReportMetric(start, "start-cpu-s")
				b.ReportMetric(mebibytes(ctx, leader), "leader-MiB")
				b.ReportMetric(mebibytes(ctx, follower), "follower-MiB")
			})
		})
	}
})

// startLeader starts a replica and waits until it leads and has done all that there is to do.
func startLeader(ctx context.Context) *framework.Command {
	GinkgoHelper()
	c := commands.StartReady(ctx, "", "--leader-elect")
	DeferCleanup(func() error { return c.Stop(time.Minute) })
	Eventually(c.Value).WithContext(ctx).WithArguments("leader_election_master_status").Should(BeEquivalentTo(1))
	awaitIdle(ctx, c)
	return c
}

// mebibytes is the resident memory of a replica.
func mebibytes(ctx context.Context, c *framework.Command) float64 {
	GinkgoHelper()
	resident, err := c.Value(ctx, "process_resident_memory_bytes")
	Expect(err).NotTo(HaveOccurred())
	return resident / (1 << 20)
}

// awaitIdle waits until a replica takes less than a tenth of a processor several times in a row.
func awaitIdle(ctx context.Context, c *framework.Command) {
	GinkgoHelper()
	const enough, every = 3, 2 * time.Second
	last, when, idle := 0.0, time.Time{}, 0
	Eventually(func(ctx context.Context) (int, error) {
		spent, err := c.Value(ctx, "process_cpu_seconds_total")
		if err != nil {
			return 0, err
		}
		now := time.Now()
		if idle++; (spent-last)/now.Sub(when).Seconds() > 0.1 {
			idle = 0
		}
		last, when = spent, now
		return idle, nil
	}).WithContext(ctx).WithTimeout(10 * time.Minute).WithPolling(every).Should(BeNumerically(">=", enough))
}

// fill makes policies and objects, which the spec's end removes, and returns the objects' namespaces. Every policy reads
// the clusters and decides the Deployments of its share of the namespaces.
func fill(ctx context.Context, s size) (namespaces []string) {
	GinkgoHelper()
	team := fmt.Sprintf("team-%d-%d-", s.policies, s.objects)
	var wg sync.WaitGroup
	work := make(chan func())
	for range 16 {
		wg.Go(func() {
			defer GinkgoRecover()
			for do := range work {
				do()
			}
		})
	}
	for i := range max(1, s.objects/perNamespace) {
		namespace := f.NewNamespace(ctx, map[string]string{"team": fmt.Sprintf("%s%d", team, i%s.policies)})
		namespaces = append(namespaces, namespace)
		DeferCleanup(func(ctx context.Context) error {
			return f.Client.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(namespace))
		})
		for j := range perNamespace {
			work <- func() {
				o := framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("app-%d", j), map[string]string{"example.com/owner": "somebody"})
				Expect(f.Client.Create(ctx, o)).To(Succeed())
			}
		}
	}
	for i := range s.policies {
		work <- func() {
			name := fmt.Sprintf("%s%d", team, i)
			text := fmt.Sprintf("package placement\n\nannotations[\"example.com/clusters\"] := sort([name | c := data.clusters[name]; c.labels.zone == \"eu\"])\n\nannotations[\"example.com/team\"] := %q\n", name)
			p := framework.NewPolicy(name, text, "apps", "deployments")
			p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
			Expect(f.Client.Create(ctx, p)).To(Succeed())
			DeferCleanup(f.DeletePolicy, name)
		}
	}
	close(work)
	wg.Wait()
	return namespaces
}

// asker asks a replica as the API server would.
type asker struct {
	client *http.Client
	url    string
}

func newAsker(ctx context.Context, c *framework.Command) *asker {
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
			Object:   runtime.RawExtension{Raw: raw}, DryRun: new(true),
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
	if r := review.Response; !r.Allowed || !strings.Contains(string(r.Patch), "example.com/team") {
		return fmt.Errorf("answered %v %s: %v", r.Allowed, r.Patch, r.Result)
	}
	return nil
}
