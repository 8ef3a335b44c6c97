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
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/simulation"
	"github.com/berth-dev/berth/internal/suggest"
)

const whereLong = `Show where workloads are: how many are in each cluster, their replicas and policies, and what is used and free. With
the name of a cluster, show the workloads in it. With a workload, show its clusters, and why it is there. A workload in
several clusters counts in each. Those in no cluster are in the row (none).

A workload is in one of these states:

  Running    it has the placement that policies decide
  Moving     Berth moved it to other clusters, in which it does not run yet
  Waiting    it differs from what policies decide, and Berth is going to patch it
  Violating  a policy denies it or can't decide it, its last move failed, or it differs and Berth does not patch it

--by counts by node, zone, or region instead. By node, only Pods that policies match count. -n restricts all of them to
a namespace; without it, all namespaces count.`

const whereExample = `  # All clusters, with their regions and what arrives and leaves
  kubectl berth where -o wide

  # The workloads in a cluster
  kubectl berth where eu-1

  # The clusters of a workload, and why it is there
  kubectl berth where deployment/web -n shop

  # Follow a move between regions
  kubectl berth where --by region --watch`

// whereOptions are the flags of the where command: --by, --watch, --interval, --output, and those that select and configure the cluster.
type whereOptions struct {
	listOptions
	by       string // the kind of places to count by: cluster, node, zone, or region; another value is an error
	watch    bool
	interval time.Duration
}

func newWhere(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := &whereOptions{listOptions: listOptions{simulationFlags: simulationFlags{IOStreams: streams, flags: flags}}}
	cmd := o.addTo(&cobra.Command{
		Use:     "where [PLACE | TYPE/NAME [TYPE/NAME ...]]",
		Short:   "Show which workloads are in which clusters, and why",
		Long:    whereLong,
		Example: whereExample,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.where(cmd.Context(), args) },
	})
	cmd.ValidArgsFunction = o.completeObjects
	f := cmd.Flags()
	f.StringVar(&o.by, "by", string(fleet.ByCluster), "What to count by: cluster, node, zone, or region.")
	f.BoolVarP(&o.watch, "watch", "w", false, "Read the cluster at each interval, and print again if something changed.")
	f.DurationVar(&o.interval, "interval", 10*time.Second, "How often --watch reads the cluster.")
	return cmd
}

// minInterval is the shortest --interval. Each time, the command reads everything that policies read and match.
const minInterval = time.Second

// subject is what the where command shows: the objects that arguments name, the objects in one place if inPlace is set, or otherwise a
// table of all places of a kind.
type subject struct {
	by      fleet.By
	objects []string // arguments of the form TYPE/NAME
	place   string   // the name of the place; "" for objects that are nowhere
	inPlace bool     // whether to show the objects in place
}

// where runs the command, once or, with --watch, until the context ends.
func (o *whereOptions) where(ctx context.Context, args []string) error {
	subject, err := o.subject(args)
	if err != nil {
		return err
	}
	show := func(out io.Writer) error { return o.show(ctx, subject, out) }
	if !o.watch {
		return show(o.Out)
	}
	return repeat(ctx, o.interval, o.Out, show)
}

// subject returns what the flags and arguments ask for: one argument without a slash names a place, and others name objects. Without
// arguments, it is the table of all places.
func (o *whereOptions) subject(args []string) (subject, error) {
	if err := o.checkOutput(); err != nil {
		return subject{}, err
	}
	by, err := fleet.ParseBy(o.by)
	out := subject{by: by}
	switch {
	case err != nil:
		return out, fmt.Errorf("--by: %w", err)
	case o.watch && len(o.from) > 0:
		return out, errors.New("--watch follows a cluster, and files stay as they are: leave out --watch or --from")
	case o.watch && o.interval < minInterval:
		return out, fmt.Errorf("--interval: %s is less than %s", o.interval, minInterval)
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		out.place, out.inPlace = args[0], true
	default:
		out.objects = args
	}
	if out.place == none {
		out.place = ""
	}
	return out, nil
}

// repeat calls show at each interval, and prints what it writes if that has changed, until the context ends or show fails.
func repeat(ctx context.Context, interval time.Duration, out io.Writer, show func(io.Writer) error) error {
	last := ""
	for {
		var text strings.Builder
		if err := show(&text); err != nil {
			return err
		}
		if next := text.String(); next != last {
			p := newPrinter(out)
			if last != "" {
				p.line("")
			}
			// show has printed it.
			if p.write(next); p.err != nil {
				return p.err
			}
			last = next
		}
		if !notify.Sleep(ctx, interval) {
			return nil
		}
	}
}

// show reads the cluster, and writes what the command shows.
func (o *whereOptions) show(ctx context.Context, subject subject, out io.Writer) error {
	if !o.watch {
		timer := time.AfterFunc(progressDelay, func() { newPrinter(o.ErrOut).line("Reading the cluster and deciding its objects...") })
		defer timer.Stop()
	}
	s, err := o.simulate(ctx)
	if err != nil {
		return err
	}
	if len(subject.objects) > 0 {
		return o.showObjects(ctx, s, subject.objects, out)
	}
	f, err := fleet.New(ctx, s)
	if err != nil {
		return err
	}
	for _, note := range f.Notes {
		newPrinter(o.ErrOut).line("warning: %s", note)
	}
	if namespace := *o.flags.Namespace; namespace != "" {
		f.Objects = slices.DeleteFunc(f.Objects, func(object fleet.Object) bool { return object.Namespace != namespace })
	}
	table := f.Table(subject.by)
	if !subject.inPlace {
		return o.showPlaces(table, out)
	}
	i := slices.IndexFunc(table.Places, func(p fleet.Place) bool { return p.Name == subject.place })
	if i < 0 {
		return noPlace(table, subject.place)
	}
	return o.showMembers(table.Places[i], f.In(subject.by, subject.place), out)
}

// noPlace returns the error that a table has no cluster, node, zone, or region of the name, with the nearest name in the table if there is
// one. For the name "", the error is that no workload is without one.
func noPlace(table *fleet.Table, name string) error {
	if name == "" {
		return fmt.Errorf("no workload is without a %s", table.By)
	}
	names := make([]string, 0, len(table.Places))
	for _, p := range table.Places {
		names = append(names, p.Name)
	}
	hint := "for a workload, write TYPE/NAME, for example deployment/web"
	if near, ok := suggest.Nearest(name, names); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("there is no %s %q: no inventory has it, and no object names it; %s", table.By, name, hint)
}

// showPlaces writes a table with a row for each place, or the places as JSON or YAML.
func (o *whereOptions) showPlaces(table *fleet.Table, out io.Writer) error {
	if o.output == "json" || o.output == "yaml" {
		return printStructured(out, o.output, table)
	}
	p := newPrinter(out)
	switch {
	case len(table.Places) == 0 && table.By == fleet.ByNode:
		p.line("There is no node to show: this command reads nodes only if a policy matches Pods.")
		return p.err
	case len(table.Places) == 0:
		p.line("There is no %s: no inventory has one, and no object names one.", table.By)
		return p.err
	}
	p.table(tableOf(placeColumns(table, o.output == "wide"), table.Places))
	p.line("")
	p.line("Total: %d workloads, %s.", table.Total.Objects, strings.Join(countsOf(table.Total.States), ", "))
	return p.err
}

// shownStates are the states in the order of the output.
var shownStates = []fleet.State{fleet.Running, fleet.Moving, fleet.Waiting, fleet.Violating}

// countsOf returns a text for each state with its number of objects, such as "3 moving", or "0 moving" for a state without objects.
func countsOf(states map[fleet.State]int) (out []string) {
	for _, state := range shownStates {
		out = append(out, fmt.Sprintf("%d %s", states[state], strings.ToLower(string(state))))
	}
	return out
}

// placeColumns returns the columns for places: the name, the numbers of workloads in each state, replicas, policies, and amounts of
// resources; if wide, also the region, the zones, and others.
func placeColumns(table *fleet.Table, wide bool) []column[fleet.Place] {
	columns := []column[fleet.Place]{
		{strings.ToUpper(string(table.By)), func(p fleet.Place) string { return cmp.Or(p.Name, none) }},
	}
	if wide {
		columns = append(columns,
			column[fleet.Place]{"REGION", func(p fleet.Place) string { return p.Region }},
			column[fleet.Place]{"ZONES", func(p fleet.Place) string { return strings.Join(p.Zones, ",") }},
			column[fleet.Place]{"READY", readyOf},
			column[fleet.Place]{"MEMBERS", func(p fleet.Place) string { return positive(p.Sites) }},
		)
	}
	columns = append(columns, numbers("WORKLOADS", func(p fleet.Place) int { return p.Objects }))
	for _, state := range shownStates {
		columns = append(columns, numbers(strings.ToUpper(string(state)), func(p fleet.Place) int { return p.States[state] }))
	}
	if wide {
		columns = append(columns,
			numbers("ARRIVING", func(p fleet.Place) int { return p.Arriving }),
			numbers("LEAVING", func(p fleet.Place) int { return p.Leaving }),
		)
	}
	columns = append(columns, numbers("REPLICAS", func(p fleet.Place) int64 { return p.Replicas }))
	if wide {
		columns = append(columns, column[fleet.Place]{"POLICIES", func(p fleet.Place) string { return strings.Join(p.Policies, ",") }})
	} else {
		columns = append(columns, numbers("POLICIES", func(p fleet.Place) int { return len(p.Policies) }))
	}
	return append(columns, amountColumns(table, wide)...)
}

// numbers returns a column with a number for each place, such as "3", or "0".
func numbers[N int | int64](header string, number func(fleet.Place) N) column[fleet.Place] {
	return column[fleet.Place]{header, func(p fleet.Place) string { return strconv.FormatInt(int64(number(p)), 10) }}
}

// amountColumns returns the columns with used and free amounts of CPU and memory; if wide, also the allocatable ones, and other resources.
// It leaves out amounts that are unknown for all places.
func amountColumns(table *fleet.Table, wide bool) (out []column[fleet.Place]) {
	known := map[corev1.ResourceName]bool{}
	for _, p := range table.Places {
		for name := range p.Allocatable {
			known[name] = true
		}
	}
	resources := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	if wide {
		maps.DeleteFunc(known, func(name corev1.ResourceName, _ bool) bool { return slices.Contains(resources, name) })
		resources = append(resources, slices.Sorted(maps.Keys(known))...)
	}
	add := func(header string, amount func(fleet.Place) string) {
		if slices.ContainsFunc(table.Places, func(p fleet.Place) bool { return amount(p) != "" }) {
			out = append(out, column[fleet.Place]{header, func(p fleet.Place) string { return cmp.Or(amount(p), unknownAmount) }})
		}
	}
	for _, resource := range resources {
		header := strings.ToUpper(string(resource))
		if wide {
			add(header+" ALLOCATABLE", func(p fleet.Place) string { return quantityOf(p.Allocatable, resource) })
		}
		add(header+" USED", func(p fleet.Place) string { return quantityOf(p.Used, resource) })
		add(header+" FREE", func(p fleet.Place) string {
			free, _ := p.Free(resource)
			return free
		})
	}
	return out
}

// unknownAmount stands in the table for an amount that is not known of a place.
const unknownAmount = "-"

// readyOf returns true or false for a cluster or node that is ready or not; "" if that is unknown, and for zones and regions.
func readyOf(p fleet.Place) string {
	if p.Ready == nil {
		return ""
	}
	return strconv.FormatBool(*p.Ready)
}

// positive returns a number as text; "" for 0.
func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// quantityOf returns an amount of a resource; "" if it is unknown.
func quantityOf(amounts corev1.ResourceList, resource corev1.ResourceName) string {
	if q, ok := amounts[resource]; ok {
		return q.String()
	}
	return ""
}

// showMembers writes a table with a row for each object in a place, or a sentence if there are none; with --output json or yaml, the place
// and the objects.
func (o *whereOptions) showMembers(place fleet.Place, members []fleet.Member, out io.Writer) error {
	if o.output == "json" || o.output == "yaml" {
		return printStructured(out, o.output, struct {
			Place   fleet.Place    `json:"place"`
			Objects []fleet.Member `json:"objects"`
		}{place, members})
	}
	p := newPrinter(out)
	if len(members) == 0 {
		workload := "workload"
		if namespace := *o.flags.Namespace; namespace != "" {
			workload += " of namespace " + namespace
		}
		p.line("No %s is in %s.", workload, place.Name)
		return p.err
	}
	columns := []column[fleet.Member]{
		{"RESOURCE", func(m fleet.Member) string { return m.Resource }},
		{"NAMESPACE", func(m fleet.Member) string { return m.Namespace }},
		{"NAME", func(m fleet.Member) string { return m.Name }},
		{"REPLICAS", func(m fleet.Member) string { return countOf(m.Here) }},
		{"STATE", func(m fleet.Member) string { return stateOf(m.State, m.Change) }},
		{"POLICIES", func(m fleet.Member) string { return strings.Join(m.Policies, ",") }},
	}
	if o.output == "wide" {
		columns = append(columns,
			column[fleet.Member]{"CLUSTERS", func(m fleet.Member) string { return strings.Join(m.Clusters, ",") }},
			column[fleet.Member]{"DECIDED", func(m fleet.Member) string { return strings.Join(m.Decided, ",") }},
		)
	}
	columns = append(columns, column[fleet.Member]{"REASON", func(m fleet.Member) string {
		first, _, _ := strings.Cut(m.Reason, "\n")
		return first
	}})
	p.table(tableOf(columns, members))
	return p.err
}

// countOf returns a number as text; "" if it is nil.
func countOf(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// stateOf returns the text of an object's state in a place, with its change if it comes to the place or leaves it, such as "Moving,
// arriving". If it neither comes nor leaves, the text is "Waiting, staying" for an object that waits, and the state alone for others.
func stateOf(state fleet.State, change fleet.Change) string {
	switch {
	case change == "" && state == fleet.Waiting:
		return string(state) + ", staying"
	case change == "":
		return string(state)
	}
	return string(state) + ", " + strings.ToLower(string(change))
}

// showObjects writes the clusters of the objects that arguments name, with the reasons for each. Objects that no policy matches are named
// on the standard error.
func (o *whereOptions) showObjects(ctx context.Context, s *simulation.Simulation, args []string, out io.Writer) error {
	contents, err := o.existing(ctx, s.Cluster(), args)
	if err != nil {
		return err
	}
	explained := []*fleet.Explained{}
	for _, content := range contents {
		object, err := s.NewObject(content, true)
		if err != nil {
			return err
		}
		e, err := fleet.Explain(ctx, s, object)
		if err != nil {
			return err
		}
		if e == nil {
			newPrinter(o.ErrOut).line("%s: no policy matches the object", subjectOf(content))
			continue
		}
		explained = append(explained, e)
	}
	if o.output == "json" || o.output == "yaml" {
		return printStructured(out, o.output, explained)
	}
	p := newPrinter(out)
	for i, e := range explained {
		if i > 0 {
			p.line("")
		}
		o.printExplained(p, e)
	}
	return p.err
}

// printExplained writes the state of an object, and a table of its clusters with the reasons for each.
func (o *whereOptions) printExplained(p *printer, e *fleet.Explained) {
	style := bold
	switch e.State {
	case fleet.Running:
		style = green
	case fleet.Violating:
		style = red
	}
	p.line("%s: %s", p.style(bold, e.Kind+" "+qualifiedName(e.Namespace, e.Name)), p.style(style, string(e.State)))
	if e.Reason != "" {
		p.line("  %s", paragraph(e.Reason))
	}
	if e.Follows != "" {
		p.line("  the object has the clusters of %s, which controls it", e.Follows)
	}
	if e.Node != "" {
		p.line("  the Pod is on the node %s", e.Node)
	}
	if len(e.Places) == 0 {
		p.line("  the object names no cluster, and no policy chooses one")
		return
	}
	p.line("")
	columns := []column[fleet.Reasons]{
		{"CLUSTER", func(r fleet.Reasons) string { return r.Cluster }},
		{"REPLICAS", func(r fleet.Reasons) string { return countOf(r.Replicas) }},
		{"STATE", func(r fleet.Reasons) string { return stateOf(e.State, r.Change) }},
		{"POLICY", func(r fleet.Reasons) string {
			return joined(r.By, func(c fleet.Choice) string { return c.Policy })
		}},
		{"RULE", func(r fleet.Reasons) string {
			return joined(r.By, func(c fleet.Choice) string { return c.Rule })
		}},
		{"RANK", func(r fleet.Reasons) string {
			return joined(r.Ranks, func(r explain.Rank) string { return fmt.Sprintf("%d of %d", r.Rank, r.Of) })
		}},
	}
	if o.output == "wide" {
		columns = append(columns, column[fleet.Reasons]{"SCORE", func(r fleet.Reasons) string {
			return joined(r.Ranks, func(r explain.Rank) string { return strconv.Itoa(r.Score) })
		}})
	}
	p.table(tableOf(columns, e.Places))
	for _, r := range e.Places {
		if len(r.Against) == 0 {
			continue
		}
		p.line("")
		p.line("Why it leaves %s:", r.Cluster)
		for i := range r.Against {
			printReason(p, "  ", &r.Against[i])
		}
	}
}

// joined returns the texts of items that are not empty, such as "a,b", separated by commas without spaces; "" if all are empty.
func joined[T any](items []T, text func(T) string) string {
	var out []string
	for _, item := range items {
		if t := text(item); t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, ",")
}

// column is a column of a table with a row for each item: the header, and the function that returns the text of a cell.
type column[T any] struct {
	header string
	// cell returns the text for an item; "" if it has none.
	cell func(T) string
}

// tableOf returns the header and the rows of a table, without the columns that have no value in any row.
func tableOf[T any](columns []column[T], items []T) (header []string, rows [][]string) {
	rows = make([][]string, len(items))
	for _, c := range columns {
		cells := make([]string, len(items))
		for i, item := range items {
			cells[i] = c.cell(item)
		}
		if !slices.ContainsFunc(cells, func(text string) bool { return text != "" }) {
			continue
		}
		header = append(header, c.header)
		for i, text := range cells {
			rows[i] = append(rows[i], cmp.Or(text, none))
		}
	}
	return header, rows
}
