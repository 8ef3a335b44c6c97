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
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/replication"
)

const depsLong = `Show what policies read: the types, the fields of their objects, the number of objects, and about how much memory they
take in each replica. Several policies that read the same objects share them.`

const depsExample = `  # All policies
  kubectl berth deps

  # One policy
  kubectl berth deps data-residency`

// depsOptions are the flags of the deps command: --output, and those that select and configure the cluster, such as --from.
type depsOptions struct {
	simulationFlags
	output string
}

func newDeps(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &depsOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	cmd := &cobra.Command{
		Use:     "deps [POLICY]",
		Short:   "Show what policies read",
		Long:    depsLong,
		Example: depsExample,
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), strings.Join(args, "")) },
	}
	cmd.ValidArgsFunction = o.completePolicies
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Without it, a table.")
	return cmd
}

// dependency is a row of the output of the deps command: a type that a policy reads, with the fields that it reads, the number of existing
// objects, and the memory that a replica needs for them.
type dependency struct {
	Policy   string   `json:"policy"`
	Resource string   `json:"resource"`
	Fields   []string `json:"fields"`
	// Objects is the number of objects of the type that the deps command finds in the cluster, or in the files of --from.
	Objects int `json:"objects"`
	// Bytes estimates the memory that a replica needs for the fields of these objects that any policy reads.
	Bytes int64 `json:"bytes"`
}

func (o *depsOptions) run(ctx context.Context, policy string) error {
	s, err := o.simulate(ctx)
	if err != nil {
		return err
	}
	if policy != "" && s.Policy(policy) == nil {
		return fmt.Errorf("there is no PlacementPolicy %q", policy)
	}
	out := []dependency{}
	for _, p := range s.Policies() {
		if policy != "" && p.Name != policy {
			continue
		}
		for _, r := range p.Resources() {
			objects, bytes := s.Size(r.GroupVersionResource)
			out = append(out, dependency{p.Name, r.GroupResource().String(), replication.Paths(p.Fields(r.GroupVersionResource)), objects, bytes})
		}
	}
	if o.output != "" {
		return printStructured(o.Out, o.output, out)
	}
	var rows [][]string
	for _, d := range out {
		rows = append(rows, []string{d.Policy, d.Resource, strconv.Itoa(d.Objects), strconv.FormatInt(d.Bytes, 10), strings.Join(d.Fields, " ")})
	}
	p := newPrinter(o.Out)
	p.table([]string{"POLICY", "READS", "OBJECTS", "BYTES", "FIELDS"}, rows)
	return p.err
}
