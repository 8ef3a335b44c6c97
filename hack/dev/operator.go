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

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/test/controlplane/process"
)

const (
	operatorName = "manager"

	readyTimeout        = 2 * time.Minute
	operatorStopTimeout = 30 * time.Second
	pollInterval        = 100 * time.Millisecond

	// firstBackoff is the delay of the first restart. It doubles with each restart, up to lastBackoff. After a run of
	// settledRun, it is firstBackoff again.
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	settledRun   = time.Minute
)

// operator runs the manager as a child process and restarts it when it ends.
type operator struct {
	group     *process.Group
	binary    string
	args      []string
	healthURL string
	report    func(string)

	stopping context.CancelFunc
	// done is closed when the process has ended and will not be restarted.
	done chan struct{}
}

// startOperator starts the manager and returns when it is ready. If the manager ends before it is ready, it is not
// restarted, and the error contains its log. Later restarts are reported.
func startOperator(ctx context.Context, binary, dir string, kubeconfig []byte, at endpoint, report func(string)) (_ *operator, err error) {
	group, err := process.NewGroup(dir, false)
	if err != nil {
		return nil, err
	}
	o := &operator{group: group, binary: binary, report: report, done: make(chan struct{})}
	ctxRun, cancel := context.WithCancel(context.Background())
	o.stopping = cancel
	supervised := false
	defer func() {
		if err != nil && !supervised {
			cancel()
			err = errors.Join(err, group.Close())
		}
	}()

	// Remove the log of an earlier run, which could be mistaken for this run's.
	if err := os.RemoveAll(group.LogPath(operatorName)); err != nil {
		return nil, fmt.Errorf("removing an earlier log: %w", err)
	}
	file := filepath.Join(group.Dir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return nil, fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	o.configure(file, at)
	first, err := group.Start(operatorName, binary, o.args...)
	if err != nil {
		return nil, err
	}
	if err := o.waitReady(ctx, first); err != nil {
		return nil, errors.Join(err, first.Stop(operatorStopTimeout))
	}
	supervised = true
	go o.keepRunning(ctxRun, first)
	return o, nil
}

// hostVariable is the variable with the host at which the API server reaches this machine.
const hostVariable = "BERTH_WEBHOOK_HOST"

// endpoint is where the operator serves. It does not change with restarts, because the webhook configurations contain
// it.
type endpoint struct {
	// host is the host at which the API server calls the webhooks. bind is the address at which they listen.
	host, bind                          string
	webhookPort, metricsPort, probePort string
}

// chooseEndpoint returns an endpoint with free ports.
func chooseEndpoint() (endpoint, error) {
	ports, err := process.FreePorts(3)
	if err != nil {
		return endpoint{}, err
	}
	const loopback = "127.0.0.1"
	at := endpoint{
		host: cmp.Or(os.Getenv(hostVariable), "localhost"), bind: loopback,
		webhookPort: strconv.Itoa(ports[0]), metricsPort: strconv.Itoa(ports[1]), probePort: strconv.Itoa(ports[2]),
	}
	if at.host != "localhost" && at.host != loopback {
		at.bind = "0.0.0.0" // The API server is on another machine or in a container.
	}
	return at, nil
}

// webhookURL returns the base of the webhooks' URLs.
func (at endpoint) webhookURL() string { return "https://" + net.JoinHostPort(at.host, at.webhookPort) }

func (o *operator) configure(kubeconfig string, at endpoint) {
	probes := net.JoinHostPort("127.0.0.1", at.probePort)
	o.healthURL = "http://" + probes + "/readyz"
	o.args = []string{
		"--kubeconfig=" + kubeconfig,
		"--namespace=" + operatorNamespace,
		"--webhook-url=" + at.webhookURL(),
		"--webhook-port=" + at.webhookPort,
		"--webhook-host=" + at.bind,
		"--metrics-bind-address=" + net.JoinHostPort("127.0.0.1", at.metricsPort),
		"--metrics-secure=false",
		"--health-probe-bind-address=" + probes,
		"--leader-elect=false",
		// There is no other replica to take over requests.
		"--shutdown-delay=0s",
	}
}

func (o *operator) waitReady(ctx context.Context, p *process.Process) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Done():
			return false, fmt.Errorf("it ended: %w", cmp.Or(p.Err(), errors.New("exit code 0")))
		default:
		}
		last = ready(ctx, o.healthURL)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the operator: %w", context.Cause(ctx))
	default:
		log := o.group.LogPath(operatorName)
		return fmt.Errorf("waiting for the operator to be ready: %w\n--- the end of %s:\n%s", errors.Join(err, last), log, process.Tail(log))
	}
}

// ready returns nil if the probe responds with status 200.
func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// keepRunning restarts the operator whenever it ends. When ctx ends, it stops the operator and returns.
func (o *operator) keepRunning(ctx context.Context, p *process.Process) {
	defer close(o.done)
	backoff := firstBackoff
	for {
		started := time.Now()
		select {
		case <-ctx.Done():
			if err := p.Stop(operatorStopTimeout); err != nil {
				o.report(err.Error())
			}
			return
		case <-p.Done():
		}
		if time.Since(started) > settledRun {
			backoff = firstBackoff
		}
		for p = nil; p == nil; {
			o.report(fmt.Sprintf("The operator ended; starting it again in %s", backoff))
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, lastBackoff)
			var err error
			if p, err = o.group.Start(operatorName, o.binary, o.args...); err != nil {
				o.report(err.Error())
			}
		}
	}
}

// stop stops the operator and returns when its process has ended.
func (o *operator) stop() error {
	o.stopping()
	<-o.done
	return o.group.Close()
}
