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
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/whatif"
)

const whatifLong = `Show what changes would do to the objects that exist, without making them: which would move, be denied, become
undecidable, or be matched by other policies, with the values before and after. Of values that do not change at once, it shows
what they wait for, such as an approval or a window. Objects that wait already are listed only if they would get other values, or none.

Changes are manifests of policies, or of any objects that policies read (--filename), objects that are deleted
(--delete), and fields that are set (--set). Several can be combined.

A policy that is not enforced changes nothing. An object that a policy denies stays; its next update is denied. Values of
policies whose remediation is not Automatic are pending: the object gets them with an approval or at its next update. An object that is
itself among the changes is decided as its creation or update.

The exit code is 0 if nothing changes, 2 if something does, and 3 if something would be denied or become undecidable, or if
a policy does not compile.
With --max-moves it is 0 if at most that many objects would get other values at once and none would be denied, and 3
otherwise.`

const whatifExample = `  # A new version of a policy
  kubectl berth whatif -f policy.yaml

  # A cluster gets another label, and a node goes
  kubectl berth whatif --set clusterprofiles/fleet/eu-2:metadata.labels.pci=2 --delete nodes/n3

  # In a pipeline, without the cluster
  kubectl berth whatif -f policy.yaml --from cluster.json.gz --max-moves 10`

// whatifOptions are the flags of the whatif command: the changes to simulate (objects that are applied or deleted, and fields that are
// set), the output format, and how many objects may move.
type whatifOptions struct {
	simulationFlags
	files       resource.FilenameOptions // objects that are applied
	deleted     []string                 // objects that are deleted, as TYPE/[NAMESPACE/]NAME; each must exist
	assignments []string                 // fields that are set, as TYPE/[NAMESPACE/]NAME:PATH=VALUE
	output      string
	maxMoves    int  // how many objects may get other values without an approval or a client's update; with more, the exit code is 3
	limitMoves  bool // whether the user has set maxMoves; if not, any number may, and the exit code is 2 if an object changes
}

func newWhatif(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &whatifOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}
	cmd := &cobra.Command{
		Use:     "whatif [-f FILENAME] [--delete TYPE/NAME] [--set TYPE/NAME:PATH=VALUE]",
		Short:   "Show what changes would do to existing objects",
		Long:    whatifLong,
		Example: whatifExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.limitMoves = cmd.Flags().Changed("max-moves")
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	f := cmd.Flags()
	f.StringSliceVarP(&o.files.Filenames, "filename", "f", nil, "Files, directories or - with manifests of objects that are applied, as "+
		"kubectl apply does.")
	f.BoolVarP(&o.files.Recursive, "recursive", "R", false, "Read directories of --filename recursively.")
	f.StringArrayVar(&o.deleted, "delete", nil, "An object that is deleted, as TYPE/[NAMESPACE/]NAME, for example policy/pci. Without the "+
		"namespace, the name must be unique.")
	f.StringArrayVar(&o.assignments, "set", nil, "A field that is set, as TYPE/[NAMESPACE/]NAME:PATH=VALUE. Names with dots are in "+
		"brackets, as in metadata.labels['a.b/c']=d. Without =VALUE the field is removed.")
	f.IntVar(&o.maxMoves, "max-moves", 0, "How many objects may get other values without an approval, and without an update by "+
		"another client. If more would, the exit code is 3. Without this flag, any number may.")
	f.StringVarP(&o.output, "output", "o", "", "Output format: json or yaml. Without it, text.")
	return cmd
}

// exitError is an error that sets the exit code and is not printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

const (
	exitChanges exitError = 2
	exitDenials exitError = 3
)

// progressDelay is how long a command runs before it says what it does.
const progressDelay = time.Second

func (o *whatifOptions) run(ctx context.Context) error {
	timer := time.AfterFunc(progressDelay, func() {
		newPrinter(o.ErrOut).line("Reading the cluster and deciding its objects...")
	})
	defer timer.Stop()
	cluster, options, err := o.cluster(ctx)
	if err != nil {
		return err
	}
	changes, err := o.changes(ctx, cluster)
	if err != nil {
		return err
	}
	session, err := whatif.NewSession(ctx, cluster, options)
	if err != nil {
		return err
	}
	session.Types = typesOf(cluster)
	_, session.Recount = cluster.(*simulation.Live)
	report, err := session.WhatIf(ctx, changes)
	if err != nil {
		return err
	}
	timer.Stop()
	if o.output != "" {
		err = printStructured(o.Out, o.output, report)
	} else {
		p := newPrinter(o.Out)
		printReport(p, report)
		err = p.err
	}
	return cmp.Or(err, o.exit(report))
}

// exit returns the error that sets the exit code: exitDenials if a policy does not compile, an object would be denied or become
// undecidable, or more than --max-moves would move; exitChanges if an object changes and --max-moves is not given; nil for exit code 0.
func (o *whatifOptions) exit(r *whatif.Report) error {
	broken := slices.ContainsFunc(r.Findings, func(f whatif.Finding) bool { return f.Error })
	switch {
	case broken, r.Totals[whatif.Denied]+r.Totals[whatif.Undecidable] > 0, o.limitMoves && r.Moves() > o.maxMoves:
		return exitDenials
	case len(r.Objects) > 0 && !o.limitMoves:
		return exitChanges
	}
	return nil
}

// changes returns the changes that --filename, --delete, and --set name: objects that are applied, objects that are deleted, and fields
// that are set or removed. It is an error if the flags name none.
func (o *whatifOptions) changes(ctx context.Context, cluster simulation.Cluster) (whatif.Changes, error) {
	var out whatif.Changes
	if len(o.files.Filenames)+len(o.deleted)+len(o.assignments) == 0 {
		return out, errors.New("name a change: -f policy.yaml, --delete TYPE/NAME, or --set TYPE/NAME:PATH=VALUE")
	}
	var err error
	if len(o.files.Filenames) > 0 {
		if out.Apply, err = o.manifests(&o.files); err != nil {
			return out, err
		}
	}
	for _, text := range o.deleted {
		r, err := whatif.ParseReference(ctx, cluster, text)
		if err != nil {
			return out, fmt.Errorf("--delete: %w", err)
		}
		out.Delete = append(out.Delete, r)
	}
	for _, text := range o.assignments {
		a, err := whatif.ParseAssignment(ctx, cluster, text)
		if err != nil {
			return out, fmt.Errorf("--set: %w", err)
		}
		out.Set = append(out.Set, a)
	}
	return out, nil
}

// printReport prints what changes would do: what is wrong with them, the objects with the values that change, and the numbers of objects by
// namespace and by rule.
func printReport(p *printer, r *whatif.Report) {
	for _, f := range r.Findings {
		kind := "warning"
		if f.Error {
			kind = "error"
		}
		p.line("%s: %s: %s", f.Object, kind, paragraph(f.Message))
	}
	for i, o := range r.Objects {
		if i == 0 || r.Objects[i-1].Transition != o.Transition {
			if i > 0 || len(r.Findings) > 0 {
				p.line("")
			}
			style := bold
			if o.Transition == whatif.Denied || o.Transition == whatif.Undecidable {
				style = red
			}
			p.line("%s: %s", p.style(style, string(o.Transition)), objects(r.Totals[o.Transition]))
		}
		printObject(p, o)
	}
	if len(r.Objects) > 0 {
		p.line("")
		printNamespaces(p, r)
	}
	printRules(p, r.Rules)
	switch {
	case r.Waiting == 1:
		p.line("1 more object already waits for new values, which the changes do not affect")
	case r.Waiting > 1:
		p.line("%d more objects already wait for new values, which the changes do not affect", r.Waiting)
	}
	p.line("%s unchanged", objects(r.Unchanged))
}

// printObject prints what happens to an object: each value before and after, what it waits for, and why.
func printObject(p *printer, o whatif.Object) {
	p.line("  %s %s", o.Resource, qualifiedName(o.Namespace, o.Name))
	for j, v := range o.Values {
		p.line("    %s: %s -> %s (%s)", keyName(v.Field, v.Key), plainText(v.From), plainText(v.To), v.Policy)
		wait := waitOf(v.Pending, v.Waits)
		if wait != "" && (j == len(o.Values)-1 || waitOf(o.Values[j+1].Pending, o.Values[j+1].Waits) != wait) {
			p.line("      it waits %s", wait)
		}
		printPlanned(p, v)
	}
	for _, reason := range o.Reasons {
		p.line("    %s", reason)
	}
	for _, v := range o.Dropped {
		p.line("    %s: stays %s, and no longer waits to become %s (%s)", keyName(v.Field, v.Key), plainText(v.From), plainText(v.To), v.Policy)
	}
}

// untilUpdate follows "it waits" for a value that remediation may not set, because a policy would deny the patch.
const untilUpdate = "for its next update, because a policy would deny a patch by Berth"

// waitOf returns what an object waits for before it gets a value with these fields of a whatif.Value; "" for nothing.
func waitOf(pending bool, waits string) string {
	if pending && waits == "" {
		return untilUpdate
	}
	return waits
}

// printPlanned prints one line if an object waits for a change of the same value also without the simulated changes (v.Planned is set):
// that it does, and in what that differs: the value that it then gets, and what it waits for. Otherwise, it prints nothing.
func printPlanned(p *printer, v whatif.Value) {
	if v.Planned == nil {
		return
	}
	var differs []string
	if plainText(v.Planned.To) != plainText(v.To) {
		differs = append(differs, "to become "+plainText(v.Planned.To))
	}
	if planned := waitOf(v.Planned.Pending, v.Planned.Waits); planned != waitOf(v.Pending, v.Waits) && planned != "" {
		differs = append(differs, planned)
	}
	// The value and the texts are equal only if a policy would deny a patch in one of the two cases.
	otherwise := "for a patch by Berth"
	if v.Planned.Pending {
		otherwise = untilUpdate
	}
	p.line("      without the change, it waits %s", cmp.Or(strings.Join(differs, ", "), otherwise))
}

// printRules prints how many objects the rules of each policy with several rules decide after the changes, and before them if that differs.
func printRules(p *printer, rules []whatif.RuleCount) {
	texts, policies := map[string][]string{}, []string{}
	for _, r := range rules {
		text := fmt.Sprintf("rule %s decides %s", r.Rule, objects(r.After))
		if r.Before != r.After {
			text += fmt.Sprintf(" (before: %d)", r.Before)
		}
		if texts[r.Policy] == nil {
			policies = append(policies, r.Policy)
		}
		texts[r.Policy] = append(texts[r.Policy], text)
	}
	for _, policy := range policies {
		if len(texts[policy]) > 1 {
			p.line("PlacementPolicy %s: %s", policy, strings.Join(texts[policy], ", "))
		}
	}
}

// printNamespaces prints a line for each namespace with objects that change, and one for objects outside namespaces, with how many change,
// by kind of change.
func printNamespaces(p *printer, r *whatif.Report) {
	for _, namespace := range slices.Sorted(maps.Keys(r.Namespaces)) {
		var parts []string
		for _, t := range whatif.Transitions() {
			if n := r.Namespaces[namespace][t]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(t))))
			}
		}
		where := "namespace " + namespace
		if namespace == "" {
			where = "outside namespaces"
		}
		p.line("%s: %s", where, strings.Join(parts, ", "))
	}
}

func qualifiedName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// keyName returns how the output names a key of a field, for example "annotation a/b"; for the field clusters, only the key, a path. The
// key of one policy's part of a pod's affinity is shown as that of the affinity.
func keyName(field, key string) string {
	if field == "clusters" {
		return key
	}
	if podscheduling.IsContribution(key) {
		// Each policy adds its own part to the one affinity.
		key = podscheduling.Affinity
	}
	return strings.TrimSuffix(field, "s") + " " + key
}

// plainText returns a value, or "(none)" for nil.
func plainText(value *string) string {
	if value == nil {
		return "(none)"
	}
	return *value
}
