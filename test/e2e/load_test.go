//go:build e2e

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

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	loadWorkers = 4
	// loadPeriod is how often each of them creates an object.
	loadPeriod = 200 * time.Millisecond
	// loadDeadline is for one create; the API server waits for a webhook no longer than that.
	loadDeadline = 30 * time.Second
)

// attempt is one create, which is never repeated.
type attempt struct {
	begun, ended time.Time
	// err is how it was refused, if it was.
	err error
	// undecided says that it was admitted without what the policy writes.
	undecided bool
}

// load creates ConfigMaps all the time.
type load struct {
	namespace string
	client    rest.Interface
	cancel    context.CancelFunc
	workers   wait.Group

	mu       sync.Mutex
	attempts []attempt
}

// startLoad creates ConfigMaps in a namespace until stop; each has to have the annotation when it is admitted.
func startLoad(ctx context.Context, namespace, annotation string) *load {
	GinkgoHelper()
	config := rest.CopyConfig(f.Config)
	config.Timeout = loadDeadline
	clients, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	l := &load{namespace: namespace, client: clients.CoreV1().RESTClient()}
	// It outlasts the node that starts it, up to the end of the spec.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	DeferCleanup(func() {
		cancel()
		l.workers.Wait()
	})
	for range loadWorkers {
		l.workers.Start(func() {
			wait.JitterUntilWithContext(running, func(context.Context) { l.create(ctx, annotation) }, loadPeriod, 0.2, false)
		})
	}
	return l
}

func (l *load) create(ctx context.Context, annotation string) {
	a := attempt{begun: time.Now()}
	admitted := &corev1.ConfigMap{}
	// A client's own retries would hide what was refused.
	a.err = l.client.Post().Namespace(l.namespace).Resource("configmaps").MaxRetries(0).
		Body(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "load-"}}).Do(ctx).Into(admitted)
	a.ended = time.Now()
	a.undecided = a.err == nil && admitted.Annotations[annotation] == ""
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, a)
}

// begun returns what has ended and was begun after a moment, in order.
func (l *load) begun(after time.Time) outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out outcome
	for _, a := range l.attempts {
		if a.begun.After(after) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b attempt) int { return a.ended.Compare(b.ended) })
	return out
}

// stop ends the load and returns all of it.
func (l *load) stop() outcome {
	l.cancel()
	l.workers.Wait()
	return l.begun(time.Time{})
}

// await waits for the outcome of so many more creates.
func (l *load) await(ctx context.Context, count int) {
	GinkgoHelper()
	now := time.Now()
	Eventually(func() int { return len(l.begun(now)) }).WithContext(ctx).Should(BeNumerically(">=", count))
}

// expectAllAdmitted ends the load, of which nothing may have been refused.
func (l *load) expectAllAdmitted() {
	GinkgoHelper()
	all := l.stop()
	report("%s", all)
	Expect(all.undecided()).To(BeEmpty())
	Expect(all.refused()).To(BeEmpty(), "%s", all)
}

// expectMoment ends the load, of which some may have been refused for a moment after a replica was killed.
func (l *load) expectMoment(killed time.Time) {
	GinkgoHelper()
	all := l.stop()
	report("%s", all)
	Expect(all.undecided()).To(BeEmpty())
	refused := all.refused()
	if len(refused) == 0 {
		return
	}
	Expect(refused[0].ended).To(BeTemporally(">=", killed), "%s", all)
	Expect(refused[len(refused)-1].ended.Sub(killed)).To(BeNumerically("<", readinessGap), "%s", all)
}

// outcome is what became of attempts, in the order of their ends.
type outcome []attempt

func (o outcome) refused() outcome {
	return slices.DeleteFunc(slices.Clone(o), func(a attempt) bool { return a.err == nil })
}

func (o outcome) undecided() outcome {
	return slices.DeleteFunc(slices.Clone(o), func(a attempt) bool { return !a.undecided })
}

// span is the time from the first to the last.
func (o outcome) span() time.Duration {
	if len(o) == 0 {
		return 0
	}
	return o[len(o)-1].ended.Sub(o[0].begun)
}

// gap is the longest time in which nothing was admitted.
func (o outcome) gap() time.Duration {
	var longest time.Duration
	if len(o) == 0 {
		return 0
	}
	last := o[0].begun
	for _, a := range o {
		if a.err == nil {
			longest = max(longest, a.ended.Sub(last))
			last = a.ended
		}
	}
	return max(longest, o[len(o)-1].ended.Sub(last))
}

// String sums up, with each kind of refusal once, and when it came.
func (o outcome) String() string {
	refused := o.refused()
	var text strings.Builder
	var slowest time.Duration
	for _, a := range o {
		slowest = max(slowest, a.ended.Sub(a.begun))
	}
	fmt.Fprintf(&text, "%d creates in %s, the slowest %s, the longest time without one that was admitted %s; %d refused over %s, %d undecided",
		len(o), round(o.span()), round(slowest), round(o.gap()), len(refused), round(refused.span()), len(o.undecided()))
	seen := map[string]int{}
	for _, a := range refused {
		message := a.err.Error()
		if seen[message]++; seen[message] == 1 {
			fmt.Fprintf(&text, "\n    at %s: %s", a.begun.Format("15:04:05.000"), message)
		}
	}
	return text.String()
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// report prints a figure that a reader of a passed run wants to see, too.
func report(format string, args ...any) {
	AddReportEntry(fmt.Sprintf(format, args...))
}
