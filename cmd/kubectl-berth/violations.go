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
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/whatif"
)

const violationsLong = `List every existing object that differs from what a policy decides, that a policy denies, or that it can't decide. A
policy's status lists only some of them. Objects that wait, such as for an approval or a window, are listed apart, with what they wait for.`

const violationsExample = `  # All policies
  kubectl berth violations

  # A table with the UID of each object
  kubectl berth violations -o wide

  # One policy, for a script
  kubectl berth violations data-residency -o json`

// listOptions are the flags of a command that lists objects, such as those that violate a policy: --output, and those that select and
// configure the cluster.
type listOptions struct {
	simulationFlags
	output string
}

// addTo adds the flags to a command, and the completion of names of policies. It returns the command.
func (o *listOptions) addTo(cmd *cobra.Command) *cobra.Command {
	cmd.ValidArgsFunction = o.completePolicies
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format: "+listFormats+
		". Without it, text. wide is a table with more columns.")
	return cmd
}

// listFormats names, for messages, the values of --output of a command that lists objects of a policy.
const listFormats = "json, yaml, or wide"

// checkOutput returns an error for a value of --output that is none of listFormats. Call it before the command reads the cluster.
func (o *listOptions) checkOutput() error {
	if !slices.Contains([]string{"", "json", "yaml", "wide"}, o.output) {
		return fmt.Errorf("--output: %q is not one of %s", o.output, listFormats)
	}
	return nil
}

// none stands in output for what there is not, such as the namespace of a cluster-scoped object, and in the where command for the place of
// objects that are nowhere.
const none = "(none)"

func newViolations(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &listOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	return o.addTo(&cobra.Command{
		Use:     "violations [POLICY]",
		Short:   "List the objects that differ from what policies decide",
		Long:    violationsLong,
		Example: violationsExample,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.violations(cmd.Context(), strings.Join(args, ""))
		},
	})
}

// violations prints the objects that differ from what a policy decides, or that the policy denies or can't decide; those of all policies if
// policy is "".
func (o *listOptions) violations(ctx context.Context, policy string) error {
	if err := o.checkOutput(); err != nil {
		return err
	}
	s, err := o.simulate(ctx)
	if err != nil {
		return err
	}
	violations, err := whatif.Violations(ctx, s, policy)
	if err != nil {
		return err
	}
	switch o.output {
	case "":
	case "wide":
		var rows [][]string
		for _, v := range violations {
			for _, message := range v.Messages {
				rows = append(rows, []string{v.Policy, v.Resource, cmp.Or(v.Namespace, none), v.Name, cmp.Or(string(v.UID), none), message,
					cmp.Or(v.Waits, none)})
			}
		}
		p := newPrinter(o.Out)
		p.table([]string{"POLICY", "RESOURCE", "NAMESPACE", "NAME", "UID", "DIFFERENCE", "WAITS"}, rows)
		return p.err
	default:
		return printStructured(o.Out, o.output, violations)
	}
	p := newPrinter(o.Out)
	printViolations(p, violations)
	return p.err
}

// printViolations lists the violations about which something has to be done, and then those that only wait for a patch by Berth.
func printViolations(p *printer, violations []whatif.Violation) {
	waiting := 0
	for _, v := range violations {
		if v.Waits == "" {
			printViolation(p, v)
		} else {
			waiting++
		}
	}
	switch {
	case len(violations) == 0:
		p.line("No object differs from what the policies decide.")
	case waiting == len(violations):
		p.line("No object violates what the policies decide.")
	}
	if waiting > 0 {
		p.line("")
		p.line("%s: %s", p.style(bold, "Waiting"), objects(waiting))
	}
	for _, v := range violations {
		if v.Waits != "" {
			printViolation(p, v)
			p.line("  it waits %s", v.Waits)
		}
	}
}

func printViolation(p *printer, v whatif.Violation) {
	p.line("%s %s: policy %s", v.Resource, qualifiedName(v.Namespace, v.Name), v.Policy)
	for _, message := range v.Messages {
		p.line("  %s", message)
	}
	if v.Note != "" {
		p.line("  %s", v.Note)
	}
}
