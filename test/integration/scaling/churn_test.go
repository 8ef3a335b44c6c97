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
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// Of what changes in the churn, there are at most so many. When all is calm, there are exactly so many, so that figures can be compared.
const (
	churnNamespaces = 4
	churnWorkloads  = 200
	churnClusters   = 20
	churnPolicies   = 4
)

const (
	churnReplicas = 2
	churnWorkers  = 8
	// leastRounds is how many rounds show each disturbance once, and after each a round without one.
	leastRounds = 5
	// longestRound is how long changes are made until all is calm and compared.
	longestRound = 2 * time.Minute
	// decided is the annotation that each workload has as soon as it is admitted: the team of its namespace.
	decided = "example.com/team"
)

// churnTime is for how long changes are made: BERTH_CHURN, as in "8h".
func churnTime() time.Duration {
	text, ok := os.LookupEnv("BERTH_CHURN")
	if !ok {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred(), "BERTH_CHURN")
	return d
}

// churnRate is how many changes are made in a second: BERTH_CHURN_RATE.
func churnRate() float32 {
	text, ok := os.LookupEnv("BERTH_CHURN_RATE")
	if !ok {
		return 20
	}
	rate, err := strconv.ParseFloat(text, 32)
	Expect(err).NotTo(HaveOccurred(), "BERTH_CHURN_RATE")
	return float32(rate)
}

// heapsDir is the directory into which the heap profile of each replica is written after each round: BERTH_CHURN_HEAPS. It is empty for no
// profiles. The command "go tool pprof -base" on the profiles of two rounds says what a replica holds more than before.
func heapsDir() string { return os.Getenv("BERTH_CHURN_HEAPS") }

// churn changes clusters, policies, and workloads at random, and the replicas that decide them.
type churn struct {
	proxy      *framework.Proxy
	members    []*member
	namespaces []string
	// label selects the namespaces of the workloads.
	label string

	limiter flowcontrol.RateLimiter
	// disturbed is whether a request may fail, since a process that answers it was killed.
	disturbed atomic.Bool

	mu sync.Mutex
	// made and refused count the changes.
	made, refused int
	// faults are failures that nothing explains.
	faults []string
	// first has the measures of a replica in a role when all was calm for the first time.
	first map[role]measures
}

// role is a replica that leads, or one that does not, which needs less.
type role struct {
	replica *member
	leads   bool
}

// measures are what may not grow.
type measures struct {
	goroutines float64
	// heap is what is live on the heap, in MiB, and what the next garbage collection allows beside it.
	heap float64
}

var _ = Describe("Under churn", func() {
	It("replicas grow by nothing, leave nothing undecided, and decide as a new process does", func(ctx SpecContext) {
		c := startChurn(ctx)
		var watches []float64
		round := min(churnTime()/leastRounds, longestRound)
		deadline := time.Now().Add(churnTime())
		for i := 0; i < leastRounds || time.Now().Before(deadline); i++ {
			disturb := func(context.Context) {}
			switch i % leastRounds {
			case 2:
				disturb = c.killLeader
			case 4:
				disturb = c.killAPIServer
			}
			c.changeFor(ctx, round, disturb)
			c.calm(ctx)
			c.expectFreshDecisions(ctx)
			c.expectNoGrowth(ctx, i)
			watches = append(watches, watchesOf(ctx))
			c.mu.Lock()
			AddReportEntry(fmt.Sprintf("round %d: %d changes made, %d refused while a process was down, %v watches", i, c.made, c.refused, watches[i]), ReportEntryVisibilityAlways)
			faults := slices.Clone(c.faults)
			c.mu.Unlock()
			Expect(faults).To(BeEmpty())
		}
		Expect(slices.Max(watches)).To(BeNumerically("<=", watches[0]+10), "watches at the end of each round: %v", watches)
	})
})

// startChurn starts the replicas, and makes all that is there when all is calm.
func startChurn(ctx context.Context) *churn {
	GinkgoHelper()
	c := &churn{
		proxy: framework.StartProxy(), label: framework.NewName("churn"), first: map[role]measures{},
		limiter: flowcontrol.NewTokenBucketRateLimiter(churnRate(), churnWorkers),
	}
	f.InstallPlugin(ctx)
	c.revive(ctx)
	for i := range churnNamespaces {
		c.namespaces = append(c.namespaces, f.NewNamespace(ctx, map[string]string{"churn": c.label, "team": fmt.Sprintf("team-%d", i)}))
	}
	DeferCleanup(func(ctx SpecContext) {
		for _, n := range c.namespaces {
			Expect(f.Client.DeleteAllOf(ctx, framework.NewObject(framework.Deployment, n, "", nil), client.InNamespace(n))).To(Succeed())
		}
		Expect(f.Client.DeleteAllOf(ctx, framework.NewObject(framework.ClusterProfile, c.namespaces[0], "", nil), client.InNamespace(c.namespaces[0]))).To(Succeed())
	})
	for i := range churnClusters {
		Expect(f.Client.Create(ctx, c.cluster(i))).To(Succeed())
	}
	for i := range churnPolicies {
		f.CreatePolicy(ctx, c.policy(i))
	}
	for i := range churnPolicies {
		f.AwaitReady(ctx, c.policyName(i))
	}
	c.calm(ctx)
	return c
}

// cluster is the cluster with a number, with labels at random. The first ones are always gold, so that no workload is without clusters.
func (c *churn) cluster(i int) *unstructured.Unstructured {
	obj := framework.NewObject(framework.ClusterProfile, c.namespaces[0], fmt.Sprintf("%s-%d", c.label, i), nil)
	tier := []string{"gold", "silver"}[rand.IntN(2)]
	if i < 3 {
		tier = "gold"
	}
	obj.SetLabels(map[string]string{"fleet": c.label, "tier": tier, "cost": strconv.Itoa(rand.IntN(100))})
	return obj
}

func (c *churn) policyName(i int) string { return fmt.Sprintf("%s-%d", c.label, i) }

// policy is the policy with a number: the first says the team of each workload, the others choose clusters, each for one value of a
// label of the workload, by numbers at random.
func (c *churn) policy(i int) *placementv1.PlacementPolicy {
	name := c.policyName(i)
	text := framework.Rego(fmt.Sprintf("annotations[%q] := data.kubernetes.namespaces[input.metadata.namespace].metadata.labels.team", decided))
	p := framework.NewPolicy(name, text, "apps", "deployments")
	p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"churn": c.label}}
	if i > 0 {
		p.Spec.Rego = ""
		p.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"class": strconv.Itoa(i)}}
		var rules []placementv1.Rule
		Expect(json.Unmarshal(fmt.Appendf(nil, `[{"name": "best", "limit": %d,
			"require": [{"label": "fleet", "operator": "In", "values": [%q]}, {"label": "tier", "operator": "In", "values": ["gold"]}],
			"prefer": [{"label": "cost", "operator": "Least", "weight": 100}]}]`, 1+rand.IntN(3), c.label), &rules)).To(Succeed())
		p.Spec.Rules = rules
	}
	return p
}

// workload is the workload with a number.
func (c *churn) workload(i int) *unstructured.Unstructured {
	obj := framework.NewObject(framework.Deployment, c.namespaces[i%churnNamespaces], fmt.Sprintf("w-%d", i), nil)
	obj.SetLabels(map[string]string{"class": strconv.Itoa(1 + rand.IntN(churnPolicies-1))})
	return obj
}

// revive replaces replicas that have ended, as a Deployment does, until there are as many as at first.
func (c *churn) revive(ctx context.Context) {
	GinkgoHelper()
	c.members = slices.DeleteFunc(c.members, func(m *member) bool {
		select {
		case <-m.Done():
			c.proxy.Kill(m.backend)
			return true
		default:
			return false
		}
	})
	for len(c.members) < churnReplicas {
		started := commands.StartReady(ctx, c.proxy.URL(), "--leader-elect")
		DeferCleanup(started.Kill)
		c.members = append(c.members, &member{Command: started, backend: c.proxy.Add(started.URL)})
	}
}

// changeFor makes changes for a time, and disturbs the replicas in the midst of it.
func (c *churn) changeFor(ctx context.Context, d time.Duration, disturb func(context.Context)) {
	GinkgoHelper()
	changing, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var workers sync.WaitGroup
	for range churnWorkers {
		workers.Go(func() {
			defer GinkgoRecover()
			for c.limiter.Wait(changing) == nil {
				c.change(ctx)
			}
		})
	}
	disturb(ctx)
	workers.Wait()
}

// change makes one change at random, and notes how it ended.
func (c *churn) change(ctx context.Context) {
	disturbed := c.disturbed.Load()
	var err error
	switch n := rand.IntN(10); {
	case n < 4:
		err = c.createWorkload(ctx, rand.IntN(churnWorkloads))
	case n < 6:
		err = client.IgnoreNotFound(f.Client.Delete(ctx, c.workload(rand.IntN(churnWorkloads))))
	case n < 7:
		obj := c.workload(rand.IntN(churnWorkloads))
		err = client.IgnoreNotFound(f.Client.Patch(ctx, obj, labelsOf(obj)))
	case n < 9:
		obj := c.cluster(rand.IntN(churnClusters))
		err = client.IgnoreNotFound(f.Client.Patch(ctx, obj, labelsOf(obj)))
	default:
		err = c.changeRarely(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	switch {
	case err == nil:
	case disturbed || c.disturbed.Load():
		c.refused++
	default:
		c.faults = append(c.faults, err.Error())
	}
}

// changeRarely makes a change that concerns all workloads of a policy.
func (c *churn) changeRarely(ctx context.Context) error {
	i := 3 + rand.IntN(churnClusters-3)
	switch rand.IntN(3) {
	case 0:
		return client.IgnoreNotFound(f.Client.Delete(ctx, c.cluster(i)))
	case 1:
		return client.IgnoreAlreadyExists(f.Client.Create(ctx, c.cluster(i)))
	default:
		p := c.policy(1 + rand.IntN(churnPolicies-1))
		text, err := json.Marshal(map[string]any{"spec": map[string]any{"rules": p.Spec.Rules}})
		if err != nil {
			return err
		}
		return f.Client.Patch(ctx, p, client.RawPatch("application/merge-patch+json", text))
	}
}

// labelsOf is a patch that gives an object its labels.
func labelsOf(obj client.Object) client.Patch {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": obj.GetLabels()}})
	Expect(err).NotTo(HaveOccurred())
	return client.RawPatch("application/merge-patch+json", text)
}

// createWorkload creates a workload if it does not exist. One that is admitted without a decision is a fault at any time.
func (c *churn) createWorkload(ctx context.Context, i int) error {
	obj := c.workload(i)
	if err := f.Client.Create(ctx, obj); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	if obj.GetAnnotations()[decided] == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults = append(c.faults, "admitted without a decision: "+obj.GetName())
	}
	return nil
}

// disturb lets requests fail while do kills something, and until a workload is created again.
func (c *churn) disturb(ctx context.Context, do func()) {
	GinkgoHelper()
	c.disturbed.Store(true)
	defer c.disturbed.Store(false)
	do()
	c.revive(ctx)
	Eventually(func(ctx context.Context) error { return c.createWorkload(ctx, rand.IntN(churnWorkloads)) }).WithContext(ctx).Should(Succeed())
}

func (c *churn) killLeader(ctx context.Context) {
	GinkgoHelper()
	var leaders []*member
	Eventually(func(ctx context.Context) ([]*member, error) {
		var err error
		leaders, err = leading(ctx, c.members)
		return leaders, err
	}).WithContext(ctx).Should(HaveLen(1))
	c.disturb(ctx, func() { Expect(leaders[0].Kill()).To(Succeed()) })
}

func (c *churn) killAPIServer(ctx context.Context) {
	GinkgoHelper()
	c.disturb(ctx, func() {
		Expect(f.Plane.KillAPIServer(ctx)).To(Succeed())
		Expect(f.Plane.StartAPIServer()).To(Succeed())
	})
}

// calm makes what the changes have deleted, and waits until one replica leads, and every workload is as its policies decide.
func (c *churn) calm(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) ([]*member, error) {
		c.revive(ctx)
		return leading(ctx, c.members)
	}).WithContext(ctx).Should(HaveLen(1), "exactly one leads")
	var group errgroup.Group
	group.SetLimit(churnWorkers)
	for i := range churnClusters {
		group.Go(func() error { return client.IgnoreAlreadyExists(f.Client.Create(ctx, c.cluster(i))) })
	}
	for i := range churnWorkloads {
		group.Go(func() error { return c.createWorkload(ctx, i) })
	}
	Expect(group.Wait()).To(Succeed())
	Eventually(func(ctx context.Context) (int32, error) {
		var matched, violations int32
		for i := range churnPolicies {
			p, err := f.Policy(ctx, c.policyName(i))
			if err != nil || p.Status.ObservedGeneration != p.Generation || p.Status.Matched == nil || p.Status.Violations == nil {
				return -1, err
			}
			matched += *p.Status.Matched
			violations += *p.Status.Violations
		}
		// The first policy matches all workloads, and one of the others each of them.
		return max(2*churnWorkloads-matched, matched-2*churnWorkloads) + violations, nil
	}).WithContext(ctx).WithTimeout(2*framework.Timeout).Should(BeZero(), "workloads that a policy does not match, or that violate it")
}

// expectFreshDecisions compares every workload with what a new process decides, which reads everything again.
func (c *churn) expectFreshDecisions(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (string, error) {
		var out strings.Builder
		for i := range churnPolicies {
			text, err := f.Kubectl(ctx, "", "berth", "violations", c.policyName(i), "-o", "json")
			if err != nil {
				return "", err
			}
			if text = strings.TrimSpace(text); text != "[]" && text != "null" {
				out.WriteString(text)
			}
		}
		return out.String(), nil
	}).WithContext(ctx).Should(BeEmpty(), "differences from the decisions of a new process")
}

// expectNoGrowth compares what each replica holds after a round with what it held in its role when all was calm for the first time.
func (c *churn) expectNoGrowth(ctx context.Context, round int) {
	GinkgoHelper()
	leaders, err := leading(ctx, c.members)
	Expect(err).NotTo(HaveOccurred())
	for _, m := range c.members {
		r := role{replica: m, leads: slices.Contains(leaders, m)}
		goroutines, err := m.Value(ctx, "go_goroutines")
		Expect(err).NotTo(HaveOccurred())
		// Without the garbage collection, what a start or a sweep holds for a moment would count.
		profile, err := m.HeapProfile(ctx)
		Expect(err).NotTo(HaveOccurred())
		if dir := heapsDir(); dir != "" {
			path := filepath.Join(dir, fmt.Sprintf("%s-round-%d.pb.gz", m.name(), round))
			Expect(os.WriteFile(path, profile, 0o600)).To(Succeed())
		}
		heap, err := m.Value(ctx, "go_memstats_next_gc_bytes")
		Expect(err).NotTo(HaveOccurred())
		now := measures{goroutines: goroutines, heap: heap / (1 << 20)}
		first, ok := c.first[r]
		if !ok {
			c.first[r], first = now, now
		}
		AddReportEntry(fmt.Sprintf("%s leads: %t, goroutines: %v, at first %v, heap: %.0f MiB, at first %.0f", m.name(), r.leads, now.goroutines, first.goroutines, now.heap, first.heap))
		Expect(now.goroutines).To(BeNumerically("<=", 1.25*first.goroutines+50), "goroutines")
		Expect(now.heap).To(BeNumerically("<=", 1.5*first.heap+32), "MiB of heap")
	}
}

// name is the name of a replica in reports and in the names of its profiles.
func (m *member) name() string { return "replica-" + strings.TrimPrefix(m.URL, "https://localhost:") }

// watchesOf returns the number of watches at the API server.
func watchesOf(ctx context.Context) float64 {
	GinkgoHelper()
	text := f.MustKubectl(ctx, "", "get", "--raw", "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, series := range families["apiserver_longrunning_requests"].GetMetric() {
		for _, label := range series.GetLabel() {
			if label.GetName() == "verb" && label.GetValue() == "WATCH" {
				sum += series.GetGauge().GetValue()
			}
		}
	}
	return sum
}
