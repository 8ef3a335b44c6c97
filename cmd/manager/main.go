// Command manager is the Berth operator.
package main

import (
	"flag"
	"fmt"
	"os"

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

func run() error {
	var options setup.Options
	options.Bind(flag.CommandLine)
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	version := flag.Bool("version", false, "Print the version and exit.")
	flag.Parse()
	if *version {
		fmt.Println("berth", setup.Version())
		return nil
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	ctx := ctrl.SetupSignalHandler()
	mgr, err := setup.New(ctx, cfg, options)
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}
