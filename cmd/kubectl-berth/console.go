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
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/console"
	"github.com/berth-dev/berth/internal/simulation"
)

const consoleLong = `Open a web application that shows the fleet, why each workload is where it is, policies, plans, and quotas, and what a
change would do. The command serves it on the loopback address until you end it with Ctrl-C, reads with your rights, and changes nothing: to
make a change, the pages show the commands.

The link that the command prints works once, in one browser. Other users of the machine and other pages can't read the console.

With --listen, the command serves other users instead, over TLS: it reads the cluster with the bearer token of each request, and has no
rights of its own. The folder config/console installs this in a cluster.`

const consoleExample = `  # The cluster of the kubeconfig
  kubectl berth console

  # A snapshot, without a cluster
  kubectl berth console --from cluster.json.gz

  # With the history of moves, from the manager's log of decisions
  kubectl berth console --log decisions.log

  # On a machine without a browser: print the link, and forward the port
  kubectl berth console --port 8123 --no-browser`

// consoleOptions are the flags of the console command.
type consoleOptions struct {
	simulationFlags
	port      int // on the loopback address; 0 for a free one. It has no effect with listen
	noBrowser bool
	logs      []string // paths of files with the manager's log of decisions; without any, there is no history
	listen    string   // the address at which to serve other users; "" to serve only the user of the command
	// certificate and key are the paths of the certificate for listen and of its key; both "" for one that the command signs itself. One
	// without the other is an error.
	certificate, key string
	// open opens a link in the browser of the user.
	open func(ctx context.Context, link string) error
}

func newConsole(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &consoleOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}, open: openBrowser}
	cmd := &cobra.Command{
		Use:     "console",
		Short:   "See the fleet in a browser, and try changes",
		Long:    consoleLong,
		Example: consoleExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&o.port, "port", 0, "The port on the loopback address. Without it, a free one.")
	f.BoolVar(&o.noBrowser, "no-browser", false, "Print the link, and do not open a browser.")
	f.StringArrayVar(&o.logs, "log", nil, "A file with the manager's log of decisions, for the view History. It may be repeated.")
	f.StringVar(&o.listen, "listen", "", "An address, such as :8443, at which to serve other users, each with the bearer token of their "+
		"requests.")
	f.StringVar(&o.certificate, "serving-certificate", "", "The file of the certificate for --listen. Without it, the command signs "+
		"one itself.")
	f.StringVar(&o.key, "serving-key", "", "The file of the key of --serving-certificate.")
	return cmd
}

func (o *consoleOptions) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.listen != "" {
		return o.runShared(ctx)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	return o.serve(ctx, listener)
}

// Limits of the server, so that connections of other programs end that send nothing.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
)

// serve prints the link to the console, opens it in a browser unless --no-browser is given, and serves the console to this user until the
// context ends.
func (o *consoleOptions) serve(ctx context.Context, listener net.Listener) error {
	c, guard := console.New(o.console()), console.NewGuard(listener.Addr().String())
	server := newServer(ctx, guard.Handler(c.Handler()))
	p := newPrinter(o.Out)
	p.line("Berth's console: %s", guard.Link())
	p.line("The link works once. End the console with Ctrl-C.")
	if p.err != nil {
		return errors.Join(p.err, listener.Close())
	}
	if !o.noBrowser {
		if err := o.open(ctx, guard.Link()); err != nil {
			newPrinter(o.ErrOut).line("warning: no browser opened (%v): open the link yourself", err)
		}
	}
	go func() {
		// The browser starts meanwhile. The pages show the error.
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			newPrinter(o.ErrOut).line("warning: %v", err)
		}
	}()
	return serveUntil(ctx, server, func() error { return server.Serve(listener) })
}

// newServer returns a server. The contexts of its requests end with ctx.
func newServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// serveUntil calls serve, which runs the server, and returns its error. When ctx ends, it shuts the server down, gives requests
// shutdownTimeout to end, and returns nil if they did.
func serveUntil(ctx context.Context, server *http.Server, serve func() error) error {
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		closed <- cmp.Or(server.Shutdown(ctx), server.Close())
	}()
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

// console returns the configuration of the console: the functions by which it reads the cluster, checks a policy, encodes a policy as YAML,
// and finds what waits for an approval, and the log of decisions if --log is given.
func (o *consoleOptions) console() console.Config {
	out := console.Config{Read: o.read, Check: checkInConsole, Manifest: manifest, Approvals: approvalsOf}
	if len(o.logs) > 0 {
		out.Log = logFiles(o.logs)
	}
	return out
}

// read connects to the cluster of the kubeconfig, or reads the files of --from, for the console.
func (o *consoleOptions) read(ctx context.Context) (*console.Reading, error) {
	cluster, options, err := o.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if live, ok := cluster.(*simulation.Live); ok {
		return liveReading(live, options, o.contextName()), nil
	}
	return &console.Reading{Cluster: cluster, Options: options, Source: strings.Join(o.from, ", "), Types: typesOf(cluster)}, nil
}

// liveReading returns a reading of the cluster of an API server, whose changes the console can follow. source names it for the user.
func liveReading(live *simulation.Live, options simulation.Options, source string) *console.Reading {
	return &console.Reading{
		Cluster: simulation.NewWatched(live), Options: options, Source: source, Live: true, Types: typesOf(live), Recount: true,
	}
}

// contextName returns the name of the context of the kubeconfig that is used: that of --context, or the current one; "" if the kubeconfig
// can't be read.
func (o *consoleOptions) contextName() string {
	config, err := o.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(*o.flags.Context, config.CurrentContext)
}

// checkInConsole checks a policy against the cluster that was read. mistakes are errors for which the API server or Berth's webhook would
// refuse the policy, and warnings those of the webhook.
func checkInConsole(ctx context.Context, r *console.Reading, obj *unstructured.Unstructured) (mistakes, warnings []string) {
	checked := checkPolicy(ctx, r.Cluster, completeValidator(ctx, r.Cluster, r.Options), obj)
	return checked.Errors, checked.Warnings
}

// approvalsOf returns the next stage of a policy's rollout, and the policy's plan, in this order, as far as they wait for an approval.
// Approval.Command is left empty.
func approvalsOf(p *placementv1.PlacementPolicy) []console.Approval {
	var out []console.Approval
	for _, w := range waitingIn(p) {
		out = append(out, console.Approval{Plan: w.annotation == placementv1.ApproveAnnotation, ID: w.id})
	}
	return out
}

// openBrowser opens a link in the browser of the user. It does not wait for the browser.
func openBrowser(ctx context.Context, link string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], link)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		// A browser that fails says so itself.
		_ = cmd.Wait()
	}()
	return nil
}
