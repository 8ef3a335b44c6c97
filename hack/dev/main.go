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

// Command dev runs Berth on this machine. `up` and `down` start and stop a control plane and the operator in the
// background. `demo` runs the demo of the README in the foreground.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/berth-dev/berth/test/controlplane"
)

const usage = `Usage: dev COMMAND

  up               start a control plane and the operator in the background
  down             stop them
  status           say whether they run; exits with 1 if not
  demo [-oneshot]  play a story through kubectl; with -oneshot stop at its end

Environment:
  KUBEBUILDER_ASSETS  directory with the control plane's binaries, in place of bin/
  DEMO_KUBECONFIG     use the cluster of this kubeconfig: no control plane is started. KUBECONFIG is never used
  DEMO_YES            1: use that cluster without asking, as is needed without a terminal
  BERTH_WEBHOOK_HOST  host at which its API server reaches this machine (default localhost)
`

// errUsage reports an invalid command line. The usage has already been printed.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	command := args[0]
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	oneshot := false
	if command == "demo" {
		flags.BoolVar(&oneshot, "oneshot", false, "stop everything at the end of the story")
	}
	var superviseDir, superviseManager string
	ownCluster := false
	if command == superviseCommand {
		flags.BoolVar(&ownCluster, "cluster", false, "use the cluster of the kubeconfig in the state directory")
		flags.StringVar(&superviseDir, "dir", "", "state directory")
		flags.StringVar(&superviseManager, "manager", "", "the operator's binary")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "Unexpected argument %q\n%s", flags.Arg(0), usage)
		return errUsage
	}

	root, err := controlplane.RepositoryRoot()
	if err != nil {
		return err
	}
	dev := supervisor{root: root, dir: filepath.Join(root, ".dev"), manager: managerBinary(root)}
	switch command {
	case "up":
		return dev.up(ctx)
	case "down":
		return dev.down(ctx)
	case "status":
		return dev.status(ctx, os.Stdout)
	case "demo":
		return demo(ctx, demoOptions{
			root: root, dir: filepath.Join(root, ".demo"), manager: managerBinary(root), terminal: standardTerminal(), oneshot: oneshot,
		})
	case superviseCommand:
		return supervisor{root: root, dir: superviseDir, manager: superviseManager}.supervise(ctx, ownCluster)
	case "help", "-h", "--help":
		_, err := io.WriteString(os.Stdout, usage)
		return err
	default:
		fmt.Fprintf(os.Stderr, "Unknown command %q\n%s", command, usage)
		return errUsage
	}
}

// managerBinary returns the path at which make build stores the operator.
func managerBinary(root string) string { return filepath.Join(root, "bin", "manager") }
