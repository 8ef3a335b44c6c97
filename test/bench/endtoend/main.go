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

// Command endtoend measures what admission by Berth costs a client of a real API server and Berth's own process, beside
// the same without a webhook and with a webhook that returns a fixed patch. Clients create Deployments of 5.5 KB, which
// the API server stores nowhere. Each variant has a namespace of its own, so that all are measured in turns: in each
// round every one, in an order that rotates. The webhooks are processes of their own: the manager as it is released, and
// this command itself.
//
// It prints a line for each variant and round in the form that benchstat reads:
//
//	p50-ns, p99-ns       how long a creation took
//	req/s                how many creations were answered
//	cpu-ns/op            processor time of the webhook's process for each
//	apiserver-cpu-ns/op  processor time of the API server for each
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/bench/fixture"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

// containers make a manifest of 5.5 KB.
const containers = 4

// options are what the command line says.
type options struct {
	rounds, requests, single int
	policies                 int
	profile                  string
	only                     *regexp.Regexp
}

func main() {
	o := options{only: regexp.MustCompile("")}
	flag.IntVar(&o.rounds, "rounds", 6, "How often each variant is measured.")
	flag.IntVar(&o.requests, "requests", 800, "How many creations 16 clients make in a round.")
	flag.IntVar(&o.single, "single", 200, "How many creations one client alone makes in a round.")
	flag.IntVar(&o.policies, "policies", 500, "How many policies there are in the second cluster; 0 for no second cluster.")
	flag.StringVar(&o.profile, "profile", "", "File for a profile of Berth's processor time.")
	flag.Func("bench", "Measure only variants whose names match a regular expression, as in clusters=50/.", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	fixed, port := flag.String("serve-fixed", "", "Be the fixed webhook, with the certificate of this directory."),
		flag.Int("port", 0, "Port of the fixed webhook.")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	run := o.run
	if *fixed != "" {
		run = func(ctx context.Context) error { return serveFixed(ctx, *fixed, *port) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "endtoend:", err)
		os.Exit(1)
	}
}

// variant is one way of admission.
type variant struct {
	// name is the part of the benchmark's name that says which.
	name      string
	world     *world
	namespace string
	// webhook is the process that is asked; nil for none. annotation shows that it was.
	webhook    *process.Process
	annotation string
	// clusters are those that Deployments ask for; inputs is how many different wishes there are, 0 for no two alike.
	clusters, inputs int
	// made is how many Deployments were created.
	made int
}

// bodies returns the next n Deployments.
func (v *variant) bodies(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		wish := v.made
		if v.inputs > 0 {
			wish %= v.inputs
		}
		out[i] = fixture.Text(fixture.Manifest(v.namespace, fmt.Sprintf("web-%d", v.made), containers, wish%fixture.Levels,
			fixture.Requested(wish, v.clusters)))
		v.made++
	}
	return out
}

func (o options) run(ctx context.Context) error {
	binary, err := controlplane.Program(ctx, "./cmd/manager")
	if err != nil {
		return err
	}
	few, variants, err := o.few(ctx, binary)
	if err != nil {
		return err
	}
	stop := few.stop
	if o.policies > 0 {
		many, more, err := o.many(ctx, binary)
		if err != nil {
			return errors.Join(err, stop())
		}
		variants = append(variants, more...)
		stop = func() error { return errors.Join(few.stop(), many.stop()) }
	}
	return errors.Join(o.measure(ctx, variants), stop())
}

// few is a cluster with two policies, of which one looks at 50 clusters and one at 1,000. A request concerns one.
func (o options) few(ctx context.Context, binary string) (_ *world, _ []*variant, err error) {
	w, err := newWorld(ctx, 16)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	variants := []*variant{
		{name: "webhook=none", namespace: "none", clusters: 50, inputs: 40},
		{name: "webhook=fixed", namespace: "fixed", clusters: 50, inputs: 40},
		{name: "webhook=berth/policies=1/clusters=50/inputs=40", namespace: "berth-50", clusters: 50, inputs: 40},
		{name: "webhook=berth/policies=1/clusters=1000/inputs=40", namespace: "berth-1000", clusters: 1000, inputs: 40},
		{name: "webhook=berth/policies=1/clusters=1000/inputs=distinct", namespace: "berth-1000", clusters: 1000},
	}
	for _, namespace := range []string{"none", "fixed", "berth-50", "berth-1000"} {
		if err := w.addNamespace(ctx, namespace); err != nil {
			return nil, nil, err
		}
	}
	if err := w.startBerth(ctx, binary); err != nil {
		return nil, nil, err
	}
	var policies []*placementv1.PlacementPolicy
	for _, n := range []int{50, 1000} {
		namespace := fmt.Sprintf("fleet-%d", n)
		if err := w.addClusters(ctx, namespace, n); err != nil {
			return nil, nil, err
		}
		p := fixture.Policy()
		p.Name = fmt.Sprintf("of-%d", n)
		fixture.OnlyOf(namespace, p)
		policies = append(policies, selecting(fmt.Sprintf("berth-%d", n), p))
	}
	if err := w.addPolicies(ctx, policies); err != nil {
		return nil, nil, err
	}
	asBerth := slices.IndexFunc(variants, func(v *variant) bool { return v.namespace == "berth-50" })
	if err := w.settle(ctx, variants[asBerth:]); err != nil {
		return nil, nil, err
	}
	if err := w.startFixed(ctx, "fixed", variants[asBerth]); err != nil {
		return nil, nil, err
	}
	return w, variants, w.settle(ctx, variants[:asBerth])
}

// many is a cluster with many policies of different texts, each for one variant's namespaces; three are for the same.
func (o options) many(ctx context.Context, binary string) (_ *world, _ []*variant, err error) {
	w, err := newWorld(ctx, 16)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	variants := []*variant{
		{name: fmt.Sprintf("webhook=none/policies=%d", o.policies), namespace: "none", clusters: 50, inputs: 40},
		{name: fmt.Sprintf("webhook=berth/policies=%d/matching=3/clusters=50/inputs=40", o.policies), namespace: "berth-many",
			clusters: 50, inputs: 40},
	}
	for _, v := range variants {
		if err := w.addNamespace(ctx, v.namespace); err != nil {
			return nil, nil, err
		}
	}
	if err := w.startBerth(ctx, binary); err != nil {
		return nil, nil, err
	}
	if err := w.addClusters(ctx, fixture.FleetNamespace, 50); err != nil {
		return nil, nil, err
	}
	var policies []*placementv1.PlacementPolicy
	for i := range o.policies {
		p, variant := fixture.Variant(i), fmt.Sprintf("elsewhere-%d", i)
		switch {
		case i == 0:
			p, variant = fixture.Policy(), "berth-many"
		case i < 3:
			variant = "berth-many"
		}
		policies = append(policies, selecting(variant, p))
	}
	if err := w.addPolicies(ctx, policies); err != nil {
		return nil, nil, err
	}
	return w, variants, w.settle(ctx, variants)
}

// selecting has a policy match the namespaces of a variant.
func selecting(variant string, p *placementv1.PlacementPolicy) *placementv1.PlacementPolicy {
	p.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{variantLabel: variant}}
	return p
}

// settle completes the variants of a world and waits until the API server calls the webhooks that it should.
func (w *world) settle(ctx context.Context, variants []*variant) error {
	for _, v := range variants {
		v.world = w
		switch {
		case strings.HasPrefix(v.name, "webhook=fixed"):
			v.webhook, v.annotation = w.fixed, placementv1.RequestedAnnotation
		case strings.HasPrefix(v.name, "webhook=berth"):
			v.webhook, v.annotation = w.berth, placementv1.RequestedAnnotation
		}
		if err := w.awaitPatched(ctx, v.webhook, v.namespace, v.annotation, v.bodies(1)[0]); err != nil {
			return err
		}
	}
	return nil
}

func (o options) measure(ctx context.Context, variants []*variant) error {
	variants = slices.DeleteFunc(variants, func(v *variant) bool { return !o.only.MatchString("BenchmarkAdmission/" + v.name) })
	for _, v := range variants {
		// The first ones make connections, and fill what is remembered.
		if _, err := v.world.clients.load(ctx, 16, v.namespace, v.bodies(200)); err != nil {
			return err
		}
	}
	fmt.Println("goos: linux\npkg: github.com/berth-dev/berth/test/bench/endtoend")
	if o.profile != "" {
		if err := writeProfileOf(ctx, o.profile, variants); err != nil {
			return err
		}
	}
	for round := range o.rounds {
		for _, c := range []struct{ clients, requests int }{{16, o.requests}, {1, o.single}} {
			if c.requests == 0 {
				continue
			}
			seen := make([]sample, len(variants))
			for turn := range turns {
				for i := range variants {
					at := (i + round + turn) % len(variants)
					if err := variants[at].measure(ctx, c.clients, c.requests/turns, &seen[at]); err != nil {
						return err
					}
				}
			}
			for i, v := range variants {
				v.print(c.clients, seen[i])
			}
		}
	}
	return nil
}

// turns is how often it is a variant's turn in a round: what else the machine does changes within seconds.
const turns = 4

// sample is what a variant took in a round.
type sample struct {
	took   []time.Duration
	lasted time.Duration
	cpu    cpu
}

// cpu are processor times: of the webhook's process, and of the API server.
type cpu struct{ webhook, apiServer time.Duration }

// measure makes requests and adds to a sample.
func (v *variant) measure(ctx context.Context, n, requests int, to *sample) error {
	bodies := v.bodies(requests)
	before, err := v.cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	took, err := v.world.clients.load(ctx, n, v.namespace, bodies)
	if err != nil {
		return err
	}
	to.lasted += time.Since(start)
	to.took = append(to.took, took...)
	after, err := v.cpu()
	to.cpu.webhook += after.webhook - before.webhook
	to.cpu.apiServer += after.apiServer - before.apiServer
	return err
}

// print prints a line as benchmarks do.
func (v *variant) print(n int, s sample) {
	requests := len(s.took)
	fmt.Printf("BenchmarkAdmission/%s/clients=%d\t%d\t%d p50-ns\t%d p99-ns\t%.1f req/s\t%d apiserver-cpu-ns/op", v.name, n, requests,
		quantile(s.took, 0.5), quantile(s.took, 0.99), float64(requests)/s.lasted.Seconds(), s.cpu.apiServer.Nanoseconds()/int64(requests))
	if v.webhook != nil {
		fmt.Printf("\t%d cpu-ns/op", s.cpu.webhook.Nanoseconds()/int64(requests))
	}
	fmt.Println()
}

// cpu is the processor time so far; none of a webhook where there is none.
func (v *variant) cpu() (out cpu, err error) {
	if out.apiServer, err = v.world.plane.APIServerCPU(); err != nil || v.webhook == nil {
		return out, err
	}
	out.webhook, err = v.webhook.CPU()
	return out, err
}

// writeProfileOf writes a profile of Berth while it answers the first variant that asks it.
func writeProfileOf(ctx context.Context, path string, variants []*variant) error {
	for _, v := range variants {
		if v.webhook == nil || v.webhook != v.world.berth {
			continue
		}
		done := make(chan error, 1)
		go func() { done <- v.world.writeProfile(ctx, path) }()
		for {
			select {
			case err := <-done:
				return err
			default:
			}
			if err := v.measure(ctx, 16, 100, &sample{}); err != nil {
				return errors.Join(err, <-done)
			}
		}
	}
	return errors.New("none of the variants has a profile")
}

// writeProfile writes a profile of five seconds of Berth's processor time.
func (w *world) writeProfile(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.profiles+"/debug/pprof/profile?seconds=5", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, response.Body)
	return errors.Join(err, out.Close())
}
