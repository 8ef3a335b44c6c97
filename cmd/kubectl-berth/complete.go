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
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/simulation"
)

// completionTimeout is how long the shell may wait for names from the API server.
const completionTimeout = 3 * time.Second

// completePolicies completes the name of a policy as the first argument, from the cluster that the flags name. If that can't be read in
// time, there are no names.
func (f *simulationFlags) completePolicies(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	cluster, _, err := f.cluster(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	policies, err := cluster.Policies(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = printable.Text(p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeObjects completes TYPE/NAME, such as deployment/web, with the names of the objects of the type in the namespace of the
// kubeconfig, or with all if the type is cluster-scoped. Without a slash, it returns no names, and the shell may complete names of files.
// If the cluster can't be read in time, there are no names.
func (f *simulationFlags) completeObjects(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	typeName, _, ok := strings.Cut(toComplete, "/")
	if !ok {
		return nil, cobra.ShellCompDirectiveNoSpace
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	cluster, _, err := f.cluster(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := simulation.FindType(cluster.Catalog(), typeName)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, _, err := f.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	objects, err := cluster.List(ctx, found.GroupVersionResource, simulation.IdentityFields())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, obj := range objects {
		if !found.Namespaced || obj.GetNamespace() == namespace {
			names = append(names, printable.Text(typeName+"/"+obj.GetName()))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
