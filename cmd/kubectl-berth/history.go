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
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/decisionlog"
)

const historyLong = `Show when policies placed and moved an object, from where to where, why, and who approved it. The command reads the
log that the manager writes with --decision-log=stdout, as kubectl logs or a log collector returns it. It skips the lines of other
programs, and does not read the cluster.`

const historyExample = `  # Why has the Deployment checkout moved?
  kubectl logs -n berth-system -l app.kubernetes.io/name=berth --tail=-1 | kubectl berth history deployment/checkout -n shop --log -

  # From files of several replicas, with the user, the plan, and the duration
  kubectl berth history deployment/checkout -n shop --log replica-1.log --log replica-2.log -o wide`

// historyOptions are the flags of the history command: --log and --output, besides those of the kubeconfig.
type historyOptions struct {
	genericiooptions.IOStreams
	flags  *genericclioptions.ConfigFlags
	logs   []string // paths of files with the log of decisions; - for the standard input. At least one is required
	output string
}

func newHistory(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &historyOptions{IOStreams: streams, flags: flags}
	cmd := &cobra.Command{
		Use:     "history TYPE/NAME --log FILE",
		Short:   "Show when and why policies moved an object",
		Long:    historyLong,
		Example: historyExample,
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	cmd.Flags().StringArrayVar(&o.logs, "log", nil, "A file with the log of decisions, or - for the standard input. It may be repeated.")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format: "+listFormats+". Without it, a table. wide has more columns.")
	return cmd
}

func (o *historyOptions) run(object string) error {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" {
		return fmt.Errorf("%q must be TYPE/NAME, such as deployment/web", object)
	}
	if !slices.Contains([]string{"", "json", "yaml", "wide"}, o.output) {
		return fmt.Errorf("--output: %q is not one of %s", o.output, listFormats)
	}
	if len(o.logs) == 0 {
		return fmt.Errorf("--log is required: a file with the log of decisions, or - for the standard input")
	}
	// The log is all that the command reads: with -n, it needs no kubeconfig.
	namespace := *o.flags.Namespace
	if namespace == "" {
		var err error
		if namespace, _, err = o.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("reading the kubeconfig for the namespace of %s: %w; correct it, or name the namespace with -n", object, err)
		}
	}
	entries, decisions := []decisionlog.Entry{}, 0
	for _, file := range o.logs {
		err := readLog(file, o.In, func(e decisionlog.Entry) bool {
			decisions++
			if e.Object.Name == name && (e.Object.Namespace == "" || e.Object.Namespace == namespace) && isOfType(e.Object, kind) {
				entries = append(entries, e)
			}
			return true
		})
		if err != nil {
			return fmt.Errorf("--log %s: %w", file, err)
		}
	}
	slices.SortStableFunc(entries, func(a, b decisionlog.Entry) int { return a.Time.Compare(b.Time) })
	if o.output == "json" || o.output == "yaml" {
		return printStructured(o.Out, o.output, entries)
	}
	p := newPrinter(o.Out)
	if len(entries) == 0 {
		p.line("None of the %d decisions in the log is on %s in namespace %s. Name another namespace by -n.", decisions, object, namespace)
		return p.err
	}
	printHistory(p, entries, o.output == "wide")
	return p.err
}

// shortNames has the plural names of some of Kubernetes' own types by their short names. Those of other types are unknown, because the log
// does not have short names.
var shortNames = map[string]string{
	"cj": "cronjobs", "cm": "configmaps", "deploy": "deployments", "ds": "daemonsets", "ns": "namespaces", "po": "pods",
	"pvc": "persistentvolumeclaims", "rc": "replicationcontrollers", "rs": "replicasets", "sts": "statefulsets", "svc": "services",
}

// isOfType reports whether an object is of a type that is named by its kind, its plural name, or its short name, in upper or lower case,
// with or without the group, or the version and the group.
func isOfType(o decisionlog.Object, name string) bool {
	name, group, qualified := strings.Cut(strings.ToLower(name), ".")
	if qualified && group != o.Group && group != o.Version+"."+o.Group {
		return false
	}
	return name == o.Resource || name == strings.ToLower(o.Kind) || shortNames[name] == o.Resource
}

// printHistory prints a table of decisions on one object, with a row for each changed field: the time, the field, its value before and
// after, the cause, the policy, and who approved the plan. wide adds the action, the user, the plan, and the duration in seconds.
func printHistory(p *printer, entries []decisionlog.Entry, wide bool) {
	header := []string{"TIME", "FIELD", "FROM", "TO", "CAUSE", "POLICY", "APPROVED BY"}
	if wide {
		header = append(header, "ACTION", "USER", "PLAN", "SECONDS")
	}
	var rows [][]string
	for _, e := range entries {
		versions := map[string]string{}
		for _, policy := range e.Policies {
			versions[policy.Name] = policy.String()
		}
		changes := e.Changes
		if e.MoreChanges > 0 {
			changes = append(changes, decisionlog.Change{Field: fmt.Sprintf("(%d other changes)", e.MoreChanges)})
		}
		for _, c := range changes {
			row := []string{
				e.Time.UTC().Format(time.RFC3339), c.Field, plainText(c.From), plainText(c.To), cmp.Or(strings.Join(e.Causes, ", "), requestOf(e)),
				cmp.Or(versions[c.Policy], c.Policy, none), cmp.Or(strings.Join(e.ApprovedBy, ", "), none),
			}
			if wide {
				row = append(row, string(e.Action), cmp.Or(e.User, none), cmp.Or(strings.Join(e.Plans, ", "), none),
					fmt.Sprintf("%.3f", e.DurationSeconds))
			}
			rows = append(rows, row)
		}
	}
	p.table(header, rows)
}

// requestOf returns the action of a decision, and the user whose request led to it, if one did, such as "update by alice" or "patch".
func requestOf(e decisionlog.Entry) string {
	if e.User == "" {
		return string(e.Action)
	}
	return string(e.Action) + " by " + e.User
}

// readLog calls f with each decision in a file, or in the standard input if file is -, until f returns false. It skips lines that other
// programs wrote. A decision that can't be decoded is an error.
func readLog(file string, standardInput io.Reader, f func(decisionlog.Entry) bool) error {
	in := standardInput
	if file != "-" || in == nil {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	for entry, err := range decisionlog.Read(in) {
		if err != nil {
			return err
		}
		if !f(entry) {
			return nil
		}
	}
	return nil
}
