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
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/printable"
)

const approveLong = `Approve what a policy waits for: its plan, with remediation mode Approved, or the next stage of its rollout. The
command shows what happens then, asks, and sets the annotation that approves exactly that. If the plan changes meanwhile, its approval
does not count.

Berth records who set the annotation of a plan in the annotation placement.berth.dev/approved-by.`

const approveExample = `  # Show the plan of a policy, and approve it
  kubectl berth approve data-residency

  # In a script that has looked at the plan
  kubectl berth approve data-residency --id="$DIGEST" --yes`

// approveOptions are the flags of the approve command.
type approveOptions struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	id    string // the digest of the plan, or the ID of the stage, to approve; "" for the stage if one waits, otherwise the plan
	yes   bool   // approves without asking; otherwise, the standard input must answer y or yes
}

func newApprove(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &approveOptions{IOStreams: streams, flags: flags}
	cmd := &cobra.Command{
		Use:     "approve POLICY",
		Short:   "Approve the plan, or the next stage, that a policy waits for",
		Long:    approveLong,
		Example: approveExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && o.id == "" {
				return errors.New("--id is empty: name the plan or the stage, or leave out --id to approve what waits")
			}
			return o.run(cmd.Context(), args[0])
		},
	}
	cmd.ValidArgsFunction = (&simulationFlags{IOStreams: streams, flags: flags}).completePolicies
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "Approve only the plan with this digest (status.plan.digest), or the stage with this ID "+
		"(status.rollout.approvalID). Without it, the stage if one waits, otherwise the plan.")
	f.BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
	return cmd
}

// awaited is a plan, or a stage of a rollout, that waits for an approval.
type awaited struct {
	// annotation is the annotation of the policy that approves it, and id the value that the annotation needs.
	annotation, id string
	// lines tell the user, before the approval, what happens after it, and why.
	lines []string
}

func (o *approveOptions) run(ctx context.Context, name string) error {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	policies := client.Resource(placementv1.GroupVersion.WithResource("placementpolicies"))
	object, err := policies.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	policy := &placementv1.PlacementPolicy{}
	if err := numeral.FromUnstructured(object.Object, policy); err != nil {
		return err
	}
	found, err := o.choose(policy)
	if err != nil {
		return err
	}
	p := newPrinter(o.Out)
	for _, line := range found.lines {
		p.line("%s", line)
	}
	if p.err != nil {
		return p.err
	}
	if err := o.confirm(name); err != nil {
		return err
	}
	// Marshaling does not fail: all values are strings.
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{found.annotation: found.id}}})
	if _, err := policies.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-berth"}); err != nil {
		return err
	}
	p.line("placementpolicy/%s approved: %s=%s", name, found.annotation, found.id)
	return p.err
}

// choose returns the plan or stage that the command approves: the one with the ID of --id or, without --id, the stage if one waits,
// otherwise the plan. It is an error if none waits, or if none that waits has that ID.
func (o *approveOptions) choose(policy *placementv1.PlacementPolicy) (awaited, error) {
	waiting := waitingIn(policy)
	for _, w := range waiting {
		if o.id == "" || o.id == w.id {
			return w, nil
		}
	}
	if len(waiting) > 0 {
		return awaited{}, fmt.Errorf("PlacementPolicy %s does not wait for an approval of %s, but of %s: run kubectl berth approve %s "+
			"without --id, which shows what waits, and asks", policy.Name, o.id, waiting[0].id, policy.Name)
	}
	return awaited{}, fmt.Errorf("PlacementPolicy %s does not wait for an approval: %s", policy.Name, notWaiting(policy))
}

// waitingIn returns the next stage of a policy's rollout, and the policy's plan, in this order, as far as they wait for an approval
// according to the status.
func waitingIn(policy *placementv1.PlacementPolicy) (out []awaited) {
	if r := policy.Status.Rollout; r != nil && r.State == placementv1.RolloutWaitingForApproval && r.ApprovalID != "" {
		out = append(out, awaited{placementv1.ApproveStageAnnotation, r.ApprovalID, []string{
			fmt.Sprintf("PlacementPolicy %s: after the approval, revision %d comes into force in the next stage.", policy.Name, r.Revision),
			r.Message,
		}})
	}
	plan := policy.Status.Plan
	if plan == nil || plan.State != placementv1.PlanWaitingForApproval {
		return out
	}
	lines := []string{fmt.Sprintf("Plan %s of PlacementPolicy %s: %s, because %s", plan.Digest, policy.Name,
		toRemediate(int(plan.Moves), policy),
		cmp.Or(plan.Message, "they differ from what the policy decides (status.plan names no change that caused this)"))}
	for _, cause := range plan.Causes {
		lines = append(lines, "  Cause: "+cause)
	}
	for _, t := range plan.Transitions {
		lines = append(lines, "  "+t)
	}
	lines = append(lines, fmt.Sprintf("To list all of them: kubectl berth plan %s", policy.Name))
	return append(out, awaited{placementv1.ApproveAnnotation, plan.Digest, lines})
}

// notWaiting says why a policy for which waitingIn returns nothing does not wait for an approval, such as "plan D is approved, and is being
// carried out" or "spec.remediation.mode is Manual".
func notWaiting(policy *placementv1.PlacementPolicy) string {
	switch plan, r := policy.Status.Plan, policy.Status.Rollout; {
	case plan != nil && plan.State == placementv1.PlanInProgress && plan.Approval != nil:
		return fmt.Sprintf("plan %s is approved, and is being carried out", plan.Digest)
	case plan != nil && plan.State == placementv1.PlanCompleted && plan.Approval != nil:
		return fmt.Sprintf("plan %s was approved and is completed", plan.Digest)
	case r != nil && r.State != placementv1.RolloutComplete:
		return "its rollout: " + cmp.Or(r.Message, string(r.State))
	case policy.Spec.Remediation.Mode != placementv1.RemediationApproved:
		return fmt.Sprintf("spec.remediation.mode is %s", policy.Spec.WithDefaults().Remediation.Mode)
	case policy.Spec.WithDefaults().Mode != placementv1.ModeEnforce:
		return fmt.Sprintf("spec.mode is %s, and Berth patches existing objects only in mode Enforce", policy.Spec.Mode)
	default:
		return "the policy's status.plan has no object left to patch"
	}
}

// confirm asks the user whether to approve, unless --yes is given. Any answer but y or yes is an error. name is that of the policy.
func (o *approveOptions) confirm(name string) error {
	if o.yes {
		return nil
	}
	return confirm(o.IOStreams, fmt.Sprintf("Approve this for PlacementPolicy %s?", printable.Text(name)),
		"nothing is approved: answer y, or pass --yes")
}
