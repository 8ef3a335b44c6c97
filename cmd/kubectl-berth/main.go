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

// Command kubectl-berth is Berth's kubectl plugin. If it is on the PATH, run it as `kubectl berth`.
package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := newCommand(streams).ExecuteContext(context.Background())
	if code, ok := errors.AsType[exitError](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		printError(streams.ErrOut, err)
		os.Exit(1)
	}
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:     "kubectl-berth",
		Short:   "Work with Berth's policies",
		Version: version(),
		// main prints errors, except those that only set the exit code.
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(root.PersistentFlags())
	migrate := &cobra.Command{Use: "migrate", Short: "Turn ConfigMaps of OPA and kube-mgmt into PlacementPolicies"}
	migrate.AddCommand(newMigrateConfigMaps(flags, streams))
	root.AddCommand(newExplain(flags, streams), newWhatif(flags, streams), newViolations(flags, streams), newWhere(flags, streams),
		newConsole(flags, streams), newPlan(flags, streams), newApprove(flags, streams), newHistory(flags, streams), newQuotas(flags, streams),
		newTest(flags, streams), newCheck(flags, streams), newRender(flags, streams), newDeps(flags, streams), newDelivery(flags, streams),
		newDoctor(flags, streams), newSnapshot(flags, streams), migrate, newCleanup(flags, streams))
	return root
}

// release is the version that make sets through the linker; "" if the plugin was built in another way.
var release string

// version returns the version of the plugin: release if make has set it, or else that of the main module in the build information, which
// may be ""; "unknown" if there is no build information, either.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(release, info.Main.Version, "unknown")
	}
	return cmp.Or(release, "unknown")
}
