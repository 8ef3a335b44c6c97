// Command manager is the Berth operator.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berth-dev/berth/internal/setup"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "berth:", err)
		os.Exit(1)
	}
}

// given is what the command line says, besides --kubeconfig, which controller-runtime binds and reads itself.
type given struct {
	options setup.Options
	logging zap.Options
	version bool
}

func bind(f *flag.FlagSet) *given {
	g := &given{}
	g.options.Bind(f)
	g.logging.BindFlags(f)
	f.BoolVar(&g.version, "version", false, "Print the version and exit.")
	return g
}

func run() error {
	g := bind(flag.CommandLine)
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
