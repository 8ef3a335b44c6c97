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

package remoteengine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/framework/faultproxy"
	"github.com/berth-dev/berth/test/framework/opaserver"
	"github.com/berth-dev/berth/test/framework/pki"
)

// oversize is more than is read of an answer.
const oversize = 2 << 20

// Metrics of engines.
const (
	requestsMetric = "berth_remote_requests_total"
	circuitMetric  = "berth_remote_circuit_open"
)

// startProxy starts a proxy in front of a server for the spec.
func startProxy(server *opaserver.Server) *faultproxy.Proxy {
	GinkgoHelper()
	return faultproxy.Start(GinkgoTB(), faultproxy.Options{Target: server.URL()})
}

// faulty is one fault, and two policies whose engine has it.
type faulty struct {
	faultproxy.Fault
	// kinds are what Berth may call it, and reason is that of Replicated.
	kinds  []engine.Fault
	reason string
	// answers reports whether the engine responds, if only with faults: it may decide other policies.
	answers bool

	proxy *faultproxy.Proxy
	// closed denies what can't be decided, and open admits it; each has a namespace.
	closed, open                   string
	closedNamespace, openNamespace string
	// admitted is the name of an object that was admitted undecided.
	admitted string
}

// badDays are all kinds of faults.
func badDays() []*faulty {
	network, server, malformed := []engine.Fault{engine.FaultNetwork}, []engine.Fault{engine.FaultServer}, []engine.Fault{engine.FaultMalformed}
	// What is cut off may show as either.
	cut := []engine.Fault{engine.FaultNetwork, engine.FaultMalformed}
	timeout, pressed := []engine.Fault{engine.FaultTimeout}, []engine.Fault{engine.FaultBackPressure}
	out := []*faulty{
		{Fault: faultproxy.Hang(), kinds: timeout},
		{Fault: faultproxy.Latency(1500*time.Millisecond, 0), kinds: timeout},
		{Fault: faultproxy.EndlessInterim(), kinds: []engine.Fault{engine.FaultTimeout, engine.FaultNetwork, engine.FaultMalformed}},
		{Fault: faultproxy.EndlessHeader(), kinds: cut},
		{Fault: faultproxy.Refuse(), kinds: network},
		{Fault: faultproxy.CutBefore(), kinds: network},
		{Fault: faultproxy.CutInHeader(), kinds: cut},
		{Fault: faultproxy.CutInBody(), kinds: cut},
		{Fault: faultproxy.Truncate(), kinds: cut},
		{Fault: faultproxy.TruncateChunked(), kinds: cut},
		{Fault: faultproxy.Garbage(), kinds: cut},
		{Fault: faultproxy.Oversize(oversize), kinds: malformed},
		{Fault: faultproxy.OversizeAnnounced(oversize), kinds: malformed},
		{Fault: faultproxy.OversizeCompressed(oversize), kinds: malformed},
		{Fault: faultproxy.HTML(), kinds: malformed},
		{Fault: faultproxy.WrongType(), kinds: malformed},
		{Fault: faultproxy.InvalidJSON(), kinds: malformed},
		{Fault: faultproxy.TrailingJSON(), kinds: malformed},
		{Fault: faultproxy.Empty(), kinds: malformed},
		{Fault: faultproxy.NotAnObject(), kinds: malformed},
		{Fault: faultproxy.Status(http.StatusInternalServerError), kinds: server},
		{Fault: faultproxy.Status(http.StatusTooManyRequests), kinds: pressed},
		{Fault: faultproxy.Status(http.StatusServiceUnavailable), kinds: pressed},
		{Fault: faultproxy.RetryIn(http.StatusServiceUnavailable, 1), kinds: pressed},
		{Fault: faultproxy.RetryIn(http.StatusTooManyRequests, 3600), kinds: pressed},
		{Fault: faultproxy.RetryAt(http.StatusServiceUnavailable, 5*time.Second), kinds: pressed},
		{Fault: faultproxy.Redirect("/v1/data/other"), kinds: []engine.Fault{engine.FaultRefused}, answers: true},
		{Fault: faultproxy.Status(http.StatusBadRequest), kinds: []engine.Fault{engine.FaultRefused}, answers: true},
		{Fault: faultproxy.Status(http.StatusUnauthorized), kinds: []engine.Fault{engine.FaultUnauthorized}, reason: placementv1.ReasonUnauthorized, answers: true},
		{Fault: faultproxy.Status(http.StatusForbidden), kinds: []engine.Fault{engine.FaultUnauthorized}, reason: placementv1.ReasonUnauthorized, answers: true},
	}
	for _, b := range out {
		if b.reason == "" {
			b.reason = placementv1.ReasonNotAnswering
		}
	}
	return out
}

// counted returns how often requests to an endpoint met any of the faults.
func counted(endpoint string, faults ...engine.Fault) int {
	GinkgoHelper()
	sum := 0.0
	for _, fault := range faults {
		series, err := operator.Series(requestsMetric, fmt.Sprintf("endpoint=%q", endpoint), fmt.Sprintf("fault=%q", fault))
		Expect(err).NotTo(HaveOccurred())
		for _, n := range series {
			sum += n
		}
	}
	return int(sum)
}

// circuit returns whether an endpoint's circuit is open: 1 or 0.
func circuit(endpoint string) (map[string]float64, error) {
	return operator.Series(circuitMetric, fmt.Sprintf("endpoint=%q", endpoint))
}

// policyEvents returns the notes of the events about a policy.
func policyEvents(ctx context.Context, policy string) ([]string, error) {
	list := &eventsv1.EventList{}
	if err := f.Client.List(ctx, list); err != nil {
		return nil, err
	}
	var notes []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "PlacementPolicy" && e.Regarding.Name == policy {
			notes = append(notes, e.Note)
		}
	}
	return notes, nil
}

// replicated returns the current condition Replicated.
func replicated(ctx context.Context, policy string) (metav1.Condition, error) {
	p, err := f.Policy(ctx, policy)
	if err != nil {
		return metav1.Condition{}, err
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, placementv1.ConditionReplicated); c != nil {
		return *c, nil
	}
	return metav1.Condition{}, nil
}

// forEach does something for each of the faults at once, and fails with all that went wrong.
func forEach(all []*faulty, do func(*faulty) error) {
	GinkgoHelper()
	var mu sync.Mutex
	var wrong []string
	var done sync.WaitGroup
	for _, b := range all {
		done.Go(func() {
			if err := do(b); err != nil {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, fmt.Sprintf("%s: %v", b.Name, err))
			}
		})
	}
	done.Wait()
	slices.Sort(wrong)
	Expect(wrong).To(BeEmpty())
}

// eventually waits until check returns nil, and returns its last error if that does not happen.
func eventually(ctx context.Context, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, framework.Interval, framework.Timeout, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	return errors.Join(err, last)
}

var _ = Describe("Whatever befalls an engine", func() {
	It("denies or admits by the failure policy, is seen by everybody, and heals by itself", func(ctx SpecContext) {
		server, all := startOPA(zone("a")), badDays()
		for _, b := range all {
			b.proxy = startProxy(server)
			b.closedNamespace, b.openNamespace = f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
			closed, open := elsewhere(b.closedNamespace, b.proxy.URL()+document), elsewhere(b.openNamespace, b.proxy.URL()+document,
				withFailurePolicy(placementv1.FailurePolicyIgnore))
			f.CreatePolicy(ctx, closed)
			f.CreatePolicy(ctx, open)
			b.closed, b.open = closed.Name, open.Name
		}
		forEach(all, func(b *faulty) error {
			return eventually(ctx, func() error {
				z, err := f.TryZone(ctx, b.closedNamespace)
				y, err2 := f.TryZone(ctx, b.openNamespace)
				if z != "a" || y != "a" {
					return errors.Join(fmt.Errorf("decided %q and %q", z, y), err, err2)
				}
				return nil
			})
		})

		By("having it all go wrong")
		for _, b := range all {
			b.proxy.Set(b.Fault)
			// A proxy that refuses connections refuses only new ones.
			b.proxy.Cut()
		}
		// On a busy machine, the API server may get the answer to the last attempt too late.
		forEach(all, func(b *faulty) error {
			return eventually(ctx, func() error {
				err := create(ctx, b.closedNamespace, "c")
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("PlacementPolicy %q can't decide", b.closed)) || !strings.Contains(err.Error(), b.proxy.URL()) {
					return errors.Join(errors.New("not denied with the names of policy and endpoint"), err)
				}
				return nil
			})
		})
		forEach(all, func(b *faulty) error {
			return eventually(ctx, func() error {
				b.admitted = framework.NewName("admitted")
				out, err := f.Kubectl(ctx, framework.Manifest(framework.NewObject(framework.ConfigMap, b.openNamespace, b.admitted, nil)), "create", "-f", "-")
				if want := fmt.Sprintf("Warning: PlacementPolicy %q can't decide", b.open); err != nil || !strings.Contains(out, want) {
					return errors.Join(fmt.Errorf("not admitted with a warning: %s", out), err)
				}
				return nil
			})
		})
		forEach(all, func(b *faulty) error {
			return eventually(ctx, func() error {
				for _, at := range [][2]string{{b.closed, b.closedNamespace}, {b.open, b.openNamespace}} {
					notes, err := f.EventNotes(ctx, at[1], events.EvaluationFailed.Reason)
					if err != nil || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, at[0]) }) {
						return errors.Join(fmt.Errorf("no event names %s: %q", at[0], notes), err)
					}
					c, err := replicated(ctx, at[0])
					if err != nil || c.Status != metav1.ConditionFalse || c.Reason != b.reason && c.Reason != placementv1.ReasonCircuitOpen {
						return errors.Join(fmt.Errorf("condition of %s: %+v", at[0], c), err)
					}
				}
				if counted(b.proxy.URL(), b.kinds...) == 0 {
					series, err := operator.Series(requestsMetric, fmt.Sprintf("endpoint=%q", b.proxy.URL()))
					return errors.Join(fmt.Errorf("metric: no fault of %v, but %v", b.kinds, series), err)
				}
				return nil
			})
		})

		By("having it all go well again")
		for _, b := range all {
			b.proxy.Set(faultproxy.Fault{})
		}
		forEach(all, func(b *faulty) error {
			return eventually(ctx, func() error {
				for _, at := range [][2]string{{b.closed, b.closedNamespace}, {b.open, b.openNamespace}} {
					if z, err := f.TryZone(ctx, at[1]); z != "a" {
						return errors.Join(fmt.Errorf("decided %q in %s", z, at[1]), err)
					}
					if c, err := replicated(ctx, at[0]); err != nil || c.Status != metav1.ConditionTrue {
						return errors.Join(fmt.Errorf("condition of %s: %+v", at[0], c), err)
					}
				}
				return nil
			})
		})
		By("deciding what was admitted undecided")
		forEach(all, func(b *faulty) error {
			return eventually(ctx, func() error {
				annotations, err := stored(ctx, b.openNamespace, b.admitted)
				if annotations[zoneKey] != "a" {
					return errors.Join(fmt.Errorf("it has %v", annotations), err)
				}
				return nil
			})
		})
		for _, b := range all {
			expectAllDecided(ctx, b.closedNamespace, zoneKey, Equal("a"))
		}
	})

	It("is a certificate that expires", func(ctx SpecContext) {
		ca := pki.NewAuthority(GinkgoTB())
		certificate, key := ca.Server(time.Hour)
		proxy := faultproxy.Start(GinkgoTB(), faultproxy.Options{Target: startOPA(zone("a")).URL(), Certificate: certificate, Key: key})
		namespace := f.NewNamespace(ctx, nil)
		name := onConfigMaps(ctx, namespace, proxy.URL()+document, func(p *placementv1.PlacementPolicy) { p.Spec.Remote.CABundle = ca.PEM })
		expectDecided(ctx, namespace, "a")

		proxy.SetCertificate(ca.Server(-time.Minute))
		proxy.Cut()
		Expect(create(ctx, namespace, "c")).To(MatchError(And(ContainSubstring("PlacementPolicy %q can't decide", name), ContainSubstring("certificate has expired"))))
		expectCondition(ctx, name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonNotAnswering, "certificate has expired")
		Expect(counted(proxy.URL(), engine.FaultNetwork)).To(BeNumerically(">", 0))
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(namespace, events.EvaluationFailed.Reason).Should(ContainElement(ContainSubstring("certificate has expired")))
		proxy.SetCertificate(ca.Server(time.Hour))
		expectDecided(ctx, namespace, "a")
	})

	It("is a restart without its policies, which nothing gets past with undefined: Error", func(ctx SpecContext) {
		server, namespace := opaserver.Start(GinkgoTB(), opaserver.Options{}), f.NewNamespace(ctx, nil)
		server.PutPolicy("own", framework.Rego(zone("a")))
		name := onConfigMaps(ctx, namespace, server.URL()+document, withUndefined(placementv1.UndefinedError))
		expectDecided(ctx, namespace, "a")
		load := startLoad(ctx, namespace, 4)
		load.awaitAdmitted(ctx, 10)
		server.Restart()
		Eventually(func() int { return counted(server.URL(), engine.FaultUndefined) }).Should(BeNumerically(">", 0))
		expectCondition(ctx, name, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonNotAnswering)
		server.PutPolicy("own", framework.Rego(zone("b")))
		load.awaitAdmitted(ctx, 10)
		load.stop()
		expectAllDecided(ctx, namespace, zoneKey, Or(Equal("a"), Equal("b")))
	})
})

var _ = Describe("The circuit breaker of an endpoint", func() {
	It("keeps requests from an engine that keeps failing, and lets them through again", func(ctx SpecContext) {
		proxy := startProxy(startOPA(zone("a")))
		namespace, other := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		// Faults of one namespace's objects keep the engine from that namespace alone, those of three from all.
		several := []string{namespace, f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)}
		name := onConfigMaps(ctx, namespace, proxy.URL()+document, func(p *placementv1.PlacementPolicy) {
			p.Spec.Match.NamespaceSelector.MatchExpressions[0].Values = several
		})
		shares := onConfigMaps(ctx, other, proxy.URL()+document)
		expectDecided(ctx, namespace, "a")
		expectDecided(ctx, other, "a")

		proxy.Set(faultproxy.Status(http.StatusBadGateway))
		for _, namespace := range several {
			Eventually(func(ctx context.Context) error { return create(ctx, namespace, framework.NewName("c")) }).WithContext(ctx).
				Should(MatchError(ContainSubstring("kept failing")))
		}
		Expect(circuit(proxy.URL())).To(HaveEach(BeEquivalentTo(1)))
		for _, policy := range []string{name, shares} {
			expectCondition(ctx, policy, placementv1.ConditionReplicated, metav1.ConditionFalse, placementv1.ReasonCircuitOpen)
			expectCondition(ctx, policy, placementv1.ConditionReady, metav1.ConditionFalse, placementv1.ReasonCircuitOpen)
			Eventually(policyEvents).WithContext(ctx).WithArguments(policy).Should(ContainElement(ContainSubstring(proxy.URL())))
		}
		before := proxy.Requests()
		for range 20 {
			Expect(create(ctx, other, framework.NewName("c"))).NotTo(Succeed())
		}
		Expect(proxy.Requests()-before).To(BeNumerically("<=", 3), "the engine was asked")
		Expect(counted(proxy.URL(), engine.FaultCircuitOpen)).To(BeNumerically(">=", 20))

		proxy.Set(faultproxy.Fault{})
		expectDecided(ctx, namespace, "a")
		expectDecided(ctx, other, "a")
		Expect(circuit(proxy.URL())).To(HaveEach(BeEquivalentTo(0)))
		for _, policy := range []string{name, shares} {
			expectAnswering(ctx, policy)
		}
	})
})

var _ = Describe("An engine that is slow", func() {
	It("holds up neither requests nor existing objects of other policies", func(ctx SpecContext) {
		server := startOPA(zone("a"))
		slow, quick := startProxy(server), startProxy(server)
		held, healthy, here := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		names := map[string]string{held: slow.URL(), healthy: quick.URL()}
		for _, namespace := range []string{held, healthy, here} {
			for range 10 {
				Expect(create(ctx, namespace, framework.NewName("old"))).To(Succeed())
			}
		}
		slow.Set(faultproxy.Hang())
		for _, namespace := range slices.Sorted(maps.Keys(names)) {
			f.CreatePolicy(ctx, elsewhere(namespace, names[namespace]+document, func(p *placementv1.PlacementPolicy) {
				p.Spec.Remote.TimeoutSeconds, p.Spec.Remote.Retry.MaxAttempts = 30, 1
			}))
		}
		By("having remediation wait for the slow one")
		Eventually(func() int64 { return slow.Met()["hang"] }).Should(BeNumerically(">", 0))
		f.CreatePolicy(ctx, framework.NewPolicy(framework.NewName("here"), framework.Rego(zone("a")), "", "configmaps", here))
		for _, namespace := range []string{healthy, here} {
			Eventually(objects).WithContext(ctx).WithArguments(namespace).Should(And(HaveLen(10), HaveEach(HaveKeyWithValue(zoneKey, "a"))))
		}

		By("having requests wait for the slow one")
		met := slow.Met()["hang"]
		var waiting sync.WaitGroup
		finished := make(chan struct{})
		for range 6 {
			waiting.Go(func() {
				defer GinkgoRecover()
				Expect(create(ctx, held, framework.NewName("held"))).NotTo(Succeed())
			})
		}
		go func() {
			waiting.Wait()
			close(finished)
		}()
		Eventually(func() int64 { return slow.Met()["hang"] }).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", met+6))
		// They wait for at most four seconds.
		Expect(create(ctx, healthy, framework.NewName("new"))).To(Succeed())
		Expect(create(ctx, here, framework.NewName("new"))).To(Succeed())
		Expect(finished).NotTo(BeClosed(), "the others came after those that were held")
		for _, namespace := range []string{healthy, here} {
			expectAllDecided(ctx, namespace, zoneKey, Equal("a"))
		}
		Eventually(finished).Should(BeClosed())
	})
})
