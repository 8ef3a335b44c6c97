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

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

const planLong = `List every existing object that Berth has to patch for a policy, with the changes of each. The digest of the plan is the
one in the status of the policy, unless Berth has carried out a part of the plan already. With remediation mode Approved, the plan is
carried out when the annotation placement.berth.dev/approve of the policy has this digest.`

const planExample = `  # What would be patched
  kubectl berth plan data-residency

  # A table with the fields and values that change
  kubectl berth plan data-residency -o wide

  # The whole plan, for a script
  kubectl berth plan data-residency -o json`

func newPlan(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &listOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	return o.addTo(&cobra.Command{
		Use:     "plan POLICY",
		Short:   "List the objects that Berth has to patch for a policy",
		Long:    planLong,
		Example: planExample,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.plan(cmd.Context(), args[0]) },
	})
}

func (o *listOptions) plan(ctx context.Context, policy string) error {
	if err := o.checkOutput(); err != nil {
		return err
	}
	s, err := o.simulate(ctx)
	if err != nil {
		return err
	}
	plan, err := whatif.PlanOf(ctx, s, policy)
	if err != nil {
		return err
	}
	if o.output == "json" || o.output == "yaml" {
		return printStructured(o.Out, o.output, plan)
	}
	p := newPrinter(o.Out)
	for _, text := range plan.Errors {
		p.line("error: PlacementPolicy %s can't decide objects: %s", policy, text)
	}
	decided := s.Policy(policy)
	printTotal(p, decided, plan)
	if begun := decided.Object.Status.Plan; begun != nil && begun.Digest != plan.Digest &&
		begun.State == placementv1.PlanInProgress && ptr.Deref(begun.Done, 0) > 0 {
		p.line("Berth carries out the plan in status.plan. Its digest is %s, because it includes all %d objects, of which %d no longer have to "+
			"be patched.", begun.Digest, begun.Moves, *begun.Done)
	}
	if o.output == "wide" && len(plan.Moves) > 0 {
		p.table([]string{"RESOURCE", "NAMESPACE", "NAME", "UID", "FIELD", "KEY", "FROM", "TO"}, changesOf(plan.Moves))
	}
	if o.output == "" {
		printMoves(p, plan.Moves)
	}
	printNotPlanned(p, plan)
	return p.err
}

// printTotal writes how many objects Berth has to patch for a policy, because of what, and what they wait for; or that there are none, or
// that this can't be told.
func printTotal(p *printer, policy *simulation.Policy, plan *whatif.Plan) {
	switch {
	case len(plan.Moves) == 0 && len(plan.Errors) > 0:
		p.line("So this command can't tell which objects have to be patched for PlacementPolicy %s. In the cluster, an earlier version of "+
			"the policy, or its remote engine, may decide them.", policy.Name)
	case len(plan.Moves) == 0 && !policy.RemediatesExisting():
		p.line("Berth patches no existing object for PlacementPolicy %s, because its spec.remediation.mode is %s.",
			policy.Name, policy.Remediation)
	case len(plan.Moves) == 0:
		p.line("No object has to be patched for PlacementPolicy %s.", policy.Name)
	default:
		p.line("Plan %s of PlacementPolicy %s: %s", plan.Digest, policy.Name, toRemediate(len(plan.Moves), policy.Object))
		if policy.Mode != placementv1.ModeEnforce {
			p.line("Berth carries out none of it while spec.mode of PlacementPolicy %s is %s", policy.Name, policy.Mode)
		}
		for _, cause := range plan.Causes {
			p.line("Cause: %s", cause)
		}
		if plan.Waits != "" {
			wait := "They wait"
			if len(plan.Moves) == 1 {
				wait = "It waits"
			}
			p.line("%s %s", wait, plan.Waits)
		}
	}
}

// printNotPlanned writes how many objects violate the policy but are not in the plan, on a line for each of three kinds: those that the
// policy denies, those that it can't decide, and those that Berth can't change. A kind without objects gets no line.
func printNotPlanned(p *printer, plan *whatif.Plan) {
	command := "kubectl berth violations " + plan.Policy
	for _, left := range []struct {
		objects      int
		one, several string
	}{
		{plan.Denied, "the policy denies it", "the policy denies them"},
		{plan.Undecided, "the policy can't decide it", "the policy can't decide them"},
		{plan.LeftAlone, "it differs only in values that Berth can't change (" + command + " says why)",
			"they differ only in values that Berth can't change (" + command + " says why)"},
	} {
		switch left.objects {
		case 0:
		case 1:
			p.line("1 object is not in the plan: %s", left.one)
		default:
			p.line("%s are not in the plan: %s", objects(left.objects), left.several)
		}
	}
}

// toRemediate says how many objects the plan of a policy has, and what Berth does to them: "3 objects to patch", or "3 objects to patch or
// evict" if the policy has spec.remediation.evict.
func toRemediate(moves int, policy *placementv1.PlacementPolicy) string {
	if policy.Spec.Remediation.Evict {
		return objects(moves) + " to patch or evict"
	}
	return objects(moves) + " to patch"
}

// printMoves writes each object that Berth has to patch or evict, with a line for each change.
func printMoves(p *printer, moves []whatif.Move) {
	for _, m := range moves {
		action := ""
		if m.Evict {
			action = " (evict)"
		}
		p.line("%s %s%s", m.Resource, qualifiedName(m.Namespace, m.Name), action)
		for _, c := range m.Changes {
			p.line("  %s", placement.Change{Field: c.Field, Key: c.Key, From: c.From, To: c.To}.Action())
		}
	}
}

// changesOf returns the rows of the wide table: one for each field that changes.
func changesOf(moves []whatif.Move) [][]string {
	var rows [][]string
	for _, m := range moves {
		for _, c := range m.Changes {
			rows = append(rows, []string{m.Resource, cmp.Or(m.Namespace, none), m.Name, cmp.Or(string(m.UID), none), c.Field, c.Key,
				plainText(c.From), plainText(c.To)})
		}
	}
	return rows
}
