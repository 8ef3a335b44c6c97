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
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/match"
)

const explainLong = `Explain why an object is placed as it is: the policies that match it and those that nearly do, what each of them
decides, and which one determines each annotation, label, and scheduling field.

The command decides the object itself, by the same code as Berth, from what the API server has now. It reads with your rights and changes
nothing. With --filename it explains objects that do not exist yet.

If you may not read policies, or what they read, the command shows what Berth recorded at an existing object: the values that policies have
set, which policies these are, what was requested, and Events. It does not verify them, and --why-not and --limit have no effect. With
--output, such an object has the field recorded, and not the fields of an explanation.`

const explainExample = `  # Why is the Deployment web there?
  kubectl berth explain deployment/web -n shop

  # Where would this manifest go?
  kubectl berth explain -f web.yaml`

// explainOptions are the flags of the explain command: --output, --why-not, --limit, and those that select the objects and the cluster.
type explainOptions struct {
	objectFlags
	output string
	whyNot string // the name of the only cluster or node to explain; empty for all
	limit  int    // how many clusters, and nodes, to explain at most of those that are neither chosen nor have the object now; 0 for none
	// limited reports whether the user has set --limit. If the user may not read what decides the object, nothing is explained, and the output
	// says that --limit has no effect.
	limited bool
}

func newExplain(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &explainOptions{objectFlags: objectFlags{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}}
	cmd := &cobra.Command{
		Use:     "explain (TYPE/NAME | -f FILENAME)",
		Short:   "Explain why an object is placed as it is",
		Long:    explainLong,
		Example: explainExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.limited = cmd.Flags().Changed("limit")
			return o.run(cmd.Context(), args)
		},
	}
	cmd.ValidArgsFunction = o.completeObjects
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Without it, text.")
	cmd.Flags().StringVar(&o.whyNot, "why-not", "", "Explain only the cluster or node with this name.")
	cmd.Flags().IntVar(&o.limit, "limit", 20, "Find the reasons for at most this many clusters, and this many nodes, that are not chosen.")
	return cmd
}

func (o *explainOptions) run(ctx context.Context, args []string) error {
	s, objects, err := o.selected(ctx, args)
	if apierrors.IsForbidden(err) && len(args) > 0 && len(o.from) == 0 {
		return o.explainRecorded(ctx, args, err)
	}
	if err != nil {
		return err
	}
	var all []*explain.Explanation
	for _, content := range objects {
		object, err := s.NewObject(content, len(args) > 0)
		if err != nil {
			return err
		}
		e, err := explain.Explain(ctx, s, object, explain.Options{WhyNot: o.whyNot, Limit: o.limit})
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	return printEach(o.Out, o.output, all, printExplanation)
}

func printExplanation(p *printer, e *explain.Explanation) {
	name := e.Object.Name
	if e.Object.Namespace != "" {
		name = e.Object.Namespace + "/" + name
	}
	p.line("%s", p.style(bold, e.Object.Kind+" "+name))
	if e.NoNamespace {
		p.line("The namespace %s does not exist, so that the API server refuses the object.", e.Object.Namespace)
	}
	if len(e.Policies) == 0 {
		p.line("No policy matches the object.")
	}
	for _, policy := range e.Policies {
		printPolicy(p, policy)
	}
	printKeys(p, e)
	printCandidates(p, "Clusters", e.Clusters, e.Denied)
	if e.Delivery != "" {
		p.line("")
		p.line("%s", p.style(bold, "Delivery"))
		p.line("  %s", e.Delivery)
	}
	printCandidates(p, "Nodes", e.Nodes, e.Denied)
	if len(e.Mismatches) > 0 {
		p.line("")
		p.line("%s", p.style(bold, "Policies that do not match"))
	}
	for _, m := range e.Mismatches {
		part := "match." + m.Part
		if m.Part == match.PartRollout {
			part = m.Part
		}
		p.line("  %s: spec.%s: %s", m.Policy, part, m.Reason)
	}
}

// printKeys prints, for each key that policies set, restore, or compete for, the decided, requested, and current value, and the policies.
func printKeys(p *printer, e *explain.Explanation) {
	if len(e.Keys) > 0 {
		p.line("")
		p.line("%s", p.style(bold, "Values"))
	}
	for _, k := range e.Keys {
		p.line("  %s: %s", keyName(k.Field, k.Key), plainText(k.Decided))
		switch {
		case e.Denied && !e.Exists:
			p.line("    requested: %s; policies deny the object, so that it gets no value", plainText(k.Requested))
		case k.Policy != "":
			p.line("    decided by %s; requested: %s; current: %s", k.Policy, plainText(k.Requested), plainText(k.Current))
		}
		for _, other := range k.Overrides {
			p.line("    %s sets another value and has less precedence", other)
		}
		if k.Kept != "" {
			p.line("    the current value stays: %s", k.Kept)
		}
		if k.Waits != "" {
			p.line("    %s", k.Waits)
		}
	}
}

// printPolicy prints what a policy that matches the object reads, which of its rules decides, whether it denies the object, and which
// clusters it allows. It prints neither the reasons for each cluster nor the values of keys.
func printPolicy(p *printer, policy explain.Policy) {
	p.line("")
	p.line("%s (generation %d, priority %d, %s)", p.style(bold, "Policy "+policy.Name), policy.Generation, policy.Priority, policy.Mode)
	if policy.Rollout != "" {
		p.line("  %s", policy.Rollout)
	}
	for _, read := range policy.Reads {
		revision := ""
		if read.Revision != "" {
			revision = ", resourceVersion " + read.Revision
		}
		p.line("  reads %s (%s%s)", read.Resource, objects(read.Objects), revision)
	}
	for _, text := range slices.Concat(policy.AmbiguousClusters, policy.Stays, policy.Moves) {
		p.line("  %s", text)
	}
	if policy.Error != "" {
		p.line("  can't decide: %s", paragraph(policy.Error))
		return
	}
	switch {
	case policy.Rule != "":
		p.line("  rule %s decides it%s", policy.Rule, decidesOthers(policy))
		if len(policy.AlsoApply) > 0 {
			p.line("  later rules that apply to the object, too: %s", strings.Join(policy.AlsoApply, ", "))
		}
	case policy.HasRules:
		p.line("  none of the policy's rules applies to the object%s", appliesTo(policy))
	}
	printDecision(p, policy.Decision)
	if policy.Follows != "" {
		p.line("  the object has the clusters of %s, which controls it", policy.Follows)
	} else if policy.Decision.Empty() {
		p.line("  decides nothing for the object")
	}
}

// decidesOthers says how many existing objects the rule that decides the object decides in all, for appending to a message; "" if that is
// not known from the policy's status, or the policy has no other rule.
func decidesOthers(policy explain.Policy) string {
	at := slices.IndexFunc(policy.Decided, func(r placementv1.RuleStatus) bool { return r.Name == policy.Rule })
	if at < 0 || len(policy.Decided) < 2 || policy.Matched == nil {
		return ""
	}
	return fmt.Sprintf(" (the rule decides %d of the %d objects that the policy matches)",
		ptr.Deref(policy.Decided[at].Objects, 0), *policy.Matched)
}

// appliesTo says how many existing objects each rule of a policy decides, for appending to a message; "" if the status of the policy does
// not have it. It is for objects that no rule decides.
func appliesTo(policy explain.Policy) string {
	if len(policy.Decided) == 0 || policy.Matched == nil {
		return ""
	}
	texts := make([]string, len(policy.Decided))
	for i, rule := range policy.Decided {
		texts[i] = fmt.Sprintf("rule %s decides %d", rule.Name, ptr.Deref(rule.Objects, 0))
	}
	return fmt.Sprintf(": of the %d objects that the policy matches, %s", *policy.Matched, strings.Join(texts, ", "))
}

func printDecision(p *printer, d *explain.Decision) {
	for _, text := range d.Errors {
		p.line("  %s %s", p.style(red, "denies it:"), text)
	}
	for _, text := range d.Warnings {
		p.line("  warns: %s", text)
	}
	if d.Clusters != nil {
		p.line("  allows the clusters: %s", cmp.Or(strings.Join(*d.Clusters, ", "), "none"))
	}
}

// printCandidates prints the listed clusters or nodes, and why those that are not chosen are not. denied reports whether policies deny the
// object. It prints nothing for nil.
func printCandidates(p *printer, title string, c *explain.Candidates, denied bool) {
	if c == nil {
		return
	}
	p.line("")
	p.line("%s: %d of %d chosen", p.style(bold, title), c.Chosen, c.Total)
	for _, candidate := range c.Listed {
		name := p.style(red, candidate.Name)
		if candidate.Chosen {
			name = p.style(green, candidate.Name+" is chosen")
		}
		p.line("  %s%s", name, rankOf(candidate))
		printPresence(p, candidate, denied)
		printPreferences(p, candidate)
		for i := range candidate.Reasons {
			printReason(p, "    ", &candidate.Reasons[i])
		}
	}
}

// printPresence prints whether the object has yet to come to a chosen cluster, or to leave one that is not chosen, and what it waits for.
// An object that policies deny stays where it is.
func printPresence(p *printer, c explain.Candidate, denied bool) {
	switch {
	case c.Current && !c.Chosen && c.Waits != "":
		p.line("    the object stays in it for now: %s", c.Waits)
	case c.Current && !c.Chosen && denied:
		p.line("    the object is in it now, and stays in it while policies deny the object")
	case c.Current && !c.Chosen:
		p.line("    the object is in it now, and has to leave it")
	case c.Chosen && c.Waits != "":
		p.line("    the object is not in it yet: %s", c.Waits)
	}
}

// rankOf returns the ranks and scores that a candidate has in rules that choose among the eligible ones, for appending to its name.
func rankOf(c explain.Candidate) string {
	texts := make([]string, len(c.Ranks))
	for i, r := range c.Ranks {
		texts[i] = fmt.Sprintf("%s: rank %d of %d in rule %s, score %d, level %d (0 is the best)", r.Policy, r.Rank, r.Of,
			r.Rule, r.Score, r.Level)
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, "; ") + ")"
}

// printPreferences prints the value and the score of a candidate for each preference of the rules that choose among the eligible ones.
func printPreferences(p *printer, c explain.Candidate) {
	for _, r := range c.Ranks {
		for _, preference := range r.Preferences {
			value := "is missing"
			if preference.Value != nil {
				value = fmt.Sprintf("is %q", *preference.Value)
			}
			p.line("    %s: %s %s, which scores %d of %d", r.Policy, preference.Subject, value, preference.Score, preference.Weight)
		}
	}
}

func printReason(p *printer, indent string, r *explain.Reason) {
	place := fmt.Sprintf("%s.rego:%d (rule %s)", r.Policy, r.Line, r.Rule)
	if r.Field != "" {
		place = fmt.Sprintf("%s: %s", r.Policy, r.Field)
	}
	switch {
	case r.Expression != "":
		p.line("%s%s fails:", indent, place)
		indent += "  "
		p.line("%s%s", indent, r.Expression)
	case r.Rule != "":
		p.line("%s%s:", indent, place)
		indent += "  "
		p.line("%s%s", indent, r.Message)
	case r.Policy != "":
		p.line("%s%s: %s", indent, r.Policy, r.Message)
	default:
		p.line("%s%s", indent, r.Message)
	}
	for _, v := range r.Values {
		text := "undefined"
		if v.Value != nil {
			// The values come from JSON.
			encoded, _ := json.Marshal(v.Value)
			text = string(encoded)
		}
		p.line("%s  %s is %s", indent, v.Reference, text)
	}
	if d := r.Demanded; d != nil {
		// A text can be encoded.
		value, _ := json.Marshal(d.Value)
		if d.Default {
			p.line("%s  %s of the object is missing, so that the default %s counts", indent, d.Source, string(value))
		} else {
			p.line("%s  %s of the object is %s", indent, d.Source, string(value))
		}
	}
	for i := range r.Because {
		printReason(p, indent+"  ", &r.Because[i])
	}
}
