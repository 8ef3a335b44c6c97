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

package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/controlplane/process"
)

// Commands runs replicas of the operator as processes of their own, which can be killed, and whose use of the machine
// can be measured.
type Commands struct {
	f       *Framework
	group   *process.Group
	binary  string
	started int
}

// Command is one such replica. It is safe for concurrent use.
type Command struct {
	*process.Process

	// URL is the base of the replica's own webhooks.
	URL string

	log, probes, metrics, profiles string
}

// NewCommands compiles the operator. The spec's, or suite's, end ends every replica.
func (f *Framework) NewCommands(ctx context.Context) *Commands {
	ginkgo.GinkgoHelper()
	return f.NewCommandsOf(ctx, "./cmd/manager")
}

// NewCommandsOf is NewCommands for another package of this module that is an operator.
func (f *Framework) NewCommandsOf(ctx context.Context, command string) *Commands {
	ginkgo.GinkgoHelper()
	group, err := process.NewGroup(ginkgo.GinkgoT().TempDir(), false)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(group.Close)
	binary, err := controlplane.Program(ctx, command)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	c := &Commands{f: f, group: group, binary: binary}
	kubeconfig, err := f.Plane.Kubeconfig(operatorUser, "system:serviceaccounts", "system:serviceaccounts:"+OperatorNamespace)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Expect(os.WriteFile(c.kubeconfig(), kubeconfig, 0o600)).To(gomega.Succeed())
	return c
}

func (c *Commands) kubeconfig() string { return filepath.Join(c.group.Dir(), "kubeconfig") }

// StartReady starts a replica that the API server reaches under a URL, its own one if empty, and waits until it is
// Ready. Flags are added to those that tell it where to listen.
func (c *Commands) StartReady(ctx context.Context, url string, flags ...string) *Command {
	ginkgo.GinkgoHelper()
	return c.StartAllReady(ctx, 1, url, flags...)[0]
}

// StartAllReady is StartReady for several replicas, which start at the same time.
func (c *Commands) StartAllReady(ctx context.Context, count int, url string, flags ...string) []*Command {
	ginkgo.GinkgoHelper()
	out := make([]*Command, count)
	for i := range out {
		out[i] = c.start(url, flags)
	}
	for i := range out {
		gomega.Eventually(func(ctx context.Context) error {
			err := out[i].Ready(ctx)
			if err != nil && strings.Contains(process.Tail(out[i].log), "address already in use") {
				out[i] = c.start(url, flags)
			}
			return err
		}).WithContext(ctx).WithTimeout(2 * Timeout).Should(gomega.Succeed())
	}
	return out
}

func (c *Commands) start(url string, flags []string) *Command {
	ginkgo.GinkgoHelper()
	c.started++
	name := fmt.Sprintf("manager-%d", c.started)
	address := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort())) }
	webhooks := FreePort()
	out := &Command{
		URL: "https://localhost:" + strconv.Itoa(webhooks), log: c.group.LogPath(name),
		probes: address(), metrics: address(), profiles: address(),
	}
	var err error
	out.Process, err = c.group.Start(name, c.binary, append([]string{
		"--kubeconfig=" + c.kubeconfig(), "--webhook-url=" + cmp.Or(url, out.URL),
		"--webhook-host=127.0.0.1", "--webhook-port=" + strconv.Itoa(webhooks),
		"--health-probe-bind-address=" + out.probes,
		"--metrics-bind-address=" + out.metrics, "--metrics-secure=false",
		"--pprof-bind-address=" + out.profiles,
	}, flags...)...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return out
}

// Port is a port on which a replica listens.
type Port struct {
	Address string
	// Secure is whether it speaks TLS.
	Secure bool
}

// Ports returns the ports of the webhooks, the probes, and the metrics.
func (c *Command) Ports() []Port {
	return []Port{{strings.TrimPrefix(c.URL, "https://"), true}, {c.probes, false}, {c.metrics, false}}
}

// Log returns what the replica has said.
func (c *Command) Log() (string, error) {
	text, err := os.ReadFile(c.log)
	return string(text), err
}

// Ready asks the replica's /readyz.
func (c *Command) Ready(ctx context.Context) error {
	select {
	case <-c.Done():
		err := fmt.Errorf("the replica has ended: %w\n%s", c.Err(), process.Tail(c.log))
		if strings.Contains(err.Error(), "address already in use") {
			return err
		}
		return gomega.StopTrying("it will not be ready").Wrap(err)
	default:
	}
	response, err := get(ctx, "http://"+c.probes+"/readyz")
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Scrape returns the replica's metrics by their names.
func (c *Command) Scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	response, err := get(ctx, "http://"+c.metrics+"/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// HeapProfile makes the replica collect its garbage, and returns a profile of its heap. Metrics that are read after it, such as
// go_memstats_heap_alloc_bytes, count little of what the replica held for a moment only.
func (c *Command) HeapProfile(ctx context.Context) ([]byte, error) {
	response, err := get(ctx, "http://"+c.profiles+"/debug/pprof/heap?gc=1")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// ErrNoMetric is the error of Value for a metric without series.
var ErrNoMetric = errors.New("the replica has no metric")

// Value returns the sum of the series of a gauge or a counter of the replica.
func (c *Command) Value(ctx context.Context, metric string) (float64, error) {
	families, err := c.Scrape(ctx)
	if err != nil {
		return 0, err
	}
	family, ok := families[metric]
	if !ok {
		return 0, fmt.Errorf("%w %s", ErrNoMetric, metric)
	}
	sum := 0.0
	for _, series := range family.GetMetric() {
		sum += series.GetGauge().GetValue() + series.GetCounter().GetValue()
	}
	return sum, nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", url, response.Status), response.Body.Close())
	}
	return response, nil
}
