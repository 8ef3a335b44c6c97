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

// Package app runs the manager. It is a library, so that you can build a manager with your own predicates:
//
//	func main() { app.Main(app.WithPredicate(app.Predicate{Name: "Maintenance", New: newMaintenance, Candidates: app.Nodes})) }
//
// Such a manager has all flags of the standard manager.
package app

import (
	"flag"
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/setup"
)

// Types with which you register a predicate: the predicate itself, the function that creates its scheduler plugin, and the set of kinds of
// candidates that it evaluates (nodes, clusters, or both).
type (
	// Predicate is a filter plugin of the Kubernetes scheduler, with its properties.
	Predicate = predicates.Predicate
	// Factory creates the plugin, as in the scheduler's own registries.
	Factory = predicates.Factory
	// Candidates is a set of the kinds of candidates that a predicate evaluates.
	Candidates = predicates.Candidates
)

// The kinds of candidates.
const (
	Nodes    = predicates.Nodes
	Clusters = predicates.Clusters
)

// Option changes the manager's options.
type Option func(*setup.Options)

// WithPredicate registers a predicate in addition to the scheduler's own. It runs after those, unless --predicates sets
// another order. The manager does not start if the name is already registered.
func WithPredicate(p Predicate) Option {
	return func(o *setup.Options) { o.OwnPredicates = append(o.OwnPredicates, p) }
}

// Main runs the manager. It exits the process with status 1 if the manager fails.
func Main(options ...Option) {
	if err := Run(options...); err != nil {
		fmt.Fprintln(os.Stderr, "berth:", err)
		os.Exit(1)
	}
}

// Run runs the manager with the process's command-line arguments until a signal stops it. Call it only once.
func Run(options ...Option) error {
	g := bind(flag.CommandLine, options...)
	flag.Parse()
	if g.version {
		fmt.Println("berth", setup.Version())
		return nil
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&g.logging)))
	limitMemory(ctrl.Log.WithName("memory"), memlimit.FromCgroup)
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot find out how to connect to the API server: %w; run in a Pod, or set --kubeconfig or KUBECONFIG to a valid file",
			err)
	}
	ctx := ctrl.SetupSignalHandler()
	mgr, err := setup.New(ctx, cfg, g.options)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// Flags returns the flags of the standard manager, with their defaults and usage.
func Flags() *flag.FlagSet {
	f := flag.NewFlagSet("manager", flag.ContinueOnError)
	bind(f)
	return f
}

// libraryUsage has the usage of the flags that controller-runtime defines.
var libraryUsage = map[string]string{
	config.KubeconfigFlagName: "Kubeconfig of the served API server; else $KUBECONFIG, the pod's cluster, or ~/.kube/config.",
	"zap-log-level":           "debug, info, error, panic, or a number; else info.",
	"zap-encoder":             "json or console; else json.",
	"zap-time-encoding":       "Format of times, such as rfc3339 or epoch; else rfc3339.",
	"zap-stacktrace-level":    "Level of stack traces: info, error, or panic; else error.",
	"zap-devel":               "Development defaults for the other flags of zap.",
}

// given holds the parsed command line: the options of the manager and of its log, and whether only to print the version. It lacks
// --kubeconfig, which controller-runtime binds and reads itself.
type given struct {
	options setup.Options
	logging zap.Options
	version bool // prints the version in place of running the manager
}

// bind defines the flags of the command line in f. The result has their values once f is parsed. options change the defaults before.
func bind(f *flag.FlagSet, options ...Option) *given {
	g := &given{}
	for _, change := range options {
		change(&g.options)
	}
	g.options.Bind(f)
	g.logging.BindFlags(f)
	config.RegisterFlags(f)
	for name, usage := range libraryUsage {
		f.Lookup(name).Usage = usage
	}
	f.BoolVar(&g.version, "version", false, "Print the version and exit.")
	return g
}
