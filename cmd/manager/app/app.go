// Package app is the manager as a library, for those who build one with predicates of their own:
//
//	func main() { app.Main(app.WithPredicate(app.Predicate{Name: "Maintenance", New: newMaintenance, Judges: app.Nodes})) }
//
// It has the flags of the manager.
package app

import (
	"flag"
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/setup"
)

// These are what a predicate is registered by.
type (
	// Predicate is a filter plugin of Kubernetes' scheduler, and what is said of it.
	Predicate = predicates.Predicate
	// Factory makes the plugin, as the scheduler's own registries have it.
	Factory = predicates.Factory
	// Candidates are kinds of what a predicate can judge.
	Candidates = predicates.Candidates
)

// What a predicate can judge.
const (
	Nodes    = predicates.Nodes
	Clusters = predicates.Clusters
)

// Option changes the manager that is run.
type Option func(*setup.Options)

// WithPredicate has the manager know a predicate besides the scheduler's own. It is asked after those, unless
// --predicates says otherwise. A name that is known already is an error when the manager starts.
func WithPredicate(p Predicate) Option {
	return func(o *setup.Options) { o.OwnPredicates = append(o.OwnPredicates, p) }
}

// Main runs the manager and ends the process with what came of it.
func Main(options ...Option) {
	if err := Run(options...); err != nil {
		fmt.Fprintln(os.Stderr, "berth:", err)
		os.Exit(1)
	}
}

// Run runs the manager as the process's arguments say, until it is told to end by a signal. It is called once.
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
		return fmt.Errorf("finding the API server: %w", err)
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

// given is what the command line says, besides --kubeconfig, which controller-runtime binds and reads itself.
type given struct {
	options setup.Options
	logging zap.Options
	version bool
}

func bind(f *flag.FlagSet, options ...Option) *given {
	g := &given{}
	for _, change := range options {
		change(&g.options)
	}
	g.options.Bind(f)
	g.logging.BindFlags(f)
	f.BoolVar(&g.version, "version", false, "Print the version and exit.")
	return g
}
