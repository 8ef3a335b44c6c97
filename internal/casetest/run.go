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

package casetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/cover"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// Options have the settings of the simulation that decides the cases, a selection of cases by name, and what collects their coverage.
type Options struct {
	Simulation  simulation.Options
	Inventories *replication.Inventories
	// Run selects the cases whose names match, with the values of the matrix and the suffix of the alternative; nil selects all.
	Run *regexp.Regexp
	// Cover collects which lines of the policies the cases evaluate; nil to collect nothing.
	Cover *Coverage
	// Clock measures the duration of cases. It must be set.
	Clock clock.PassiveClock
}

// Result is the result of one case: the differences from what is expected, none if the case passes, and how long it took.
type Result struct {
	File string `json:"file"` // the path of the file of cases
	Case string `json:"case"` // the name of the case, with the suffix of the alternative
	// Failures say how the decision differs from what is expected, as sentences or differences; none if the case passes.
	Failures []string      `json:"failures,omitempty"`
	Duration time.Duration `json:"durationNanoseconds"`
}

// Run runs the cases of a file that the options select. A case that fails is a Result. An error, with which there are no results, means
// that a case could not be run, for example because an object has no kind.
func (f *File) Run(ctx context.Context, o Options) ([]Result, error) {
	if len(f.alternatives) == 0 {
		return f.runWith(ctx, o, f.loaded, "")
	}
	var out []Result
	for i, objects := range f.alternatives {
		results, err := f.runWith(ctx, o, slices.Concat(f.loaded, objects), " ("+strings.Join(f.Alternatives[i], ", ")+")")
		if err != nil {
			return nil, err
		}
		out = append(out, results...)
	}
	return out, nil
}

// runWith runs the cases while the objects exist, the policies of an alternative among them. It appends the suffix, which tells
// alternatives apart, to the names of cases in results. It returns no results if a case can't be run.
func (f *File) runWith(ctx context.Context, o Options, objects []*unstructured.Unstructured, suffix string) ([]Result, error) {
	r := &runner{objects: objects, suffix: suffix, options: o, simulations: map[string]*simulation.Simulation{}}
	var out []Result
	for _, c := range f.Cases {
		expanded, err := c.expand()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		for _, c := range expanded {
			c.Name += suffix
			if o.Run != nil && !o.Run.MatchString(c.Name) {
				continue
			}
			start := o.Clock.Now()
			failures, err := r.run(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s: case %q: %w", f.path, c.Name, err)
			}
			out = append(out, Result{File: f.path, Case: c.Name, Failures: failures, Duration: o.Clock.Since(start)})
		}
	}
	return out, nil
}

// runner runs the cases of one file, with the policies of one of its alternatives if it has any.
type runner struct {
	// objects are the objects of the file, which exist in each case, policies among them.
	objects []*unstructured.Unstructured
	// suffix is appended to the names of cases and policies in results. It names the files of the alternative; "" if there are none.
	suffix  string
	options Options
	// simulations has the results of simulate, by the JSON of its arguments.
	simulations map[string]*simulation.Simulation
}

// simulate returns the simulation of a cluster that has the objects of the file and those in with, but not those in without. It is an error
// if one in without is not among the others.
func (r *runner) simulate(ctx context.Context, with, without []Object) (*simulation.Simulation, error) {
	// Decoded JSON can be encoded again.
	key, _ := json.Marshal([2][]Object{with, without})
	if known, ok := r.simulations[string(key)]; ok {
		return known, nil
	}
	objects := slices.Concat(r.objects, contents(with))
	for _, deleted := range contents(without) {
		same := func(obj *unstructured.Unstructured) bool {
			return obj.GroupVersionKind() == deleted.GroupVersionKind() && obj.GetNamespace() == deleted.GetNamespace() &&
				obj.GetName() == deleted.GetName()
		}
		if !slices.ContainsFunc(objects, same) {
			return nil, fmt.Errorf("then.delete: there is no %s", simulation.Describe(deleted))
		}
		objects = slices.DeleteFunc(objects, same)
	}
	cluster, err := simulation.NewStatic(simulation.KubernetesDiscovery(), r.options.Inventories, objects...)
	if err != nil {
		return nil, err
	}
	out, err := simulation.New(ctx, cluster, r.options.Simulation)
	if err != nil {
		return nil, err
	}
	r.simulations[string(key)] = out
	return out, nil
}

// run runs one case, and returns its failures.
func (r *runner) run(ctx context.Context, c Case) ([]string, error) {
	s, err := r.simulate(ctx, c.Objects, nil)
	if err != nil {
		return nil, err
	}
	object, err := s.NewObject(&unstructured.Unstructured{Object: c.Object.Content}, c.Exists)
	if err != nil {
		return nil, err
	}
	outcome, failures, err := r.decide(ctx, s, object, c.Expect)
	if err != nil || c.Then == nil {
		return failures, err
	}
	placed := object
	if placed.Exists = true; outcome.Object != nil {
		placed.Content = outcome.Object
	}
	if s, err = r.simulate(ctx, slices.Concat(c.Objects, c.Then.Objects), c.Then.Delete); err != nil {
		return nil, err
	}
	_, more, err := r.decide(ctx, s, placed, c.Then.Expect)
	for _, failure := range more {
		failures = append(failures, "then: "+failure)
	}
	return failures, err
}

// decide decides an object, and returns the outcome, and how it differs from what is expected.
func (r *runner) decide(ctx context.Context, s *simulation.Simulation, o simulation.Object,
	e Expectation) (*placement.Outcome, []string, error) {
	outcome, err := s.Decide(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if r.options.Cover != nil {
		if err := r.options.Cover.add(ctx, s, o, outcome, r.suffix); err != nil {
			return nil, nil, err
		}
	}
	failures := e.compare(o, outcome)
	if len(e.WhyNot) > 0 {
		explained, err := explain.Explain(ctx, s, o, explain.Options{Limit: maxCandidates})
		if err != nil {
			return nil, nil, err
		}
		failures = append(failures, e.compareReasons(explained)...)
	}
	return outcome, failures, nil
}

// maxCandidates is the maximum number of clusters that are not chosen for which a case finds reasons, to compare them with whyNot. An
// expectation for any other cluster fails.
const maxCandidates = 1000

// compare returns how an outcome differs from what is expected, one text for each field that differs; WhyNot is left to compareReasons.
func (e Expectation) compare(o simulation.Object, outcome *placement.Outcome) []string {
	var matched, denials, warnings, errs []string
	for _, v := range outcome.Verdicts {
		if !v.Leaves {
			matched = append(matched, v.Policy.Name)
		}
		warnings = append(warnings, v.Decision.Warnings...)
		if v.Policy.Mode == placementv1.ModeEnforce {
			denials = append(denials, v.Decision.Errors...)
		}
		if v.Err != nil {
			errs = append(errs, v.Policy.Name+": "+v.Err.Error())
		}
	}
	var out []string
	add := func(what, difference string) {
		if difference != "" {
			out = append(out, what+" (-want +got):\n"+difference)
		}
	}
	if len(outcome.Verdicts) == 0 && e.Matched == nil {
		out = append(out, "no policy matches the object, so that nothing is tested: correct the object, its namespace in the world, or the "+
			"policies, or expect matched: []")
	}
	if e.Matched != nil {
		add("matched", cmp.Diff(nonNil(*e.Matched), nonNil(matched)))
	}
	if e.Denied != nil {
		out = append(out, compareTexts("denied", *e.Denied, denials)...)
	}
	if e.Warnings != nil {
		out = append(out, compareTexts("warnings", *e.Warnings, warnings)...)
	}
	switch {
	case e.Error == "" && len(errs) > 0:
		out = append(out, "a policy can't decide: "+strings.Join(errs, "; "))
	case e.Error != "" && !slices.ContainsFunc(errs, func(text string) bool { return strings.Contains(text, e.Error) }):
		out = append(out, fmt.Sprintf("error: want %q, got %q", e.Error, errs))
	}
	placed := outcome.Object
	if placed == nil {
		placed = o.Content
	}
	add("annotations", diffValues(e.Annotations, placed.GetAnnotations()))
	add("labels", diffValues(e.Labels, placed.GetLabels()))
	if e.Clusters != nil {
		// Another form of the list differs from any list.
		add("clusters", cmp.Diff(nonNil(*e.Clusters), nonNil(outcome.ClusterNames(placed))))
	}
	if len(e.PodSpec) > 0 {
		add("podSpec", diffFields(e.PodSpec, placed, outcome.PodSpec))
	}
	return out
}

func nonNil(list []string) []string { return append([]string{}, list...) }

// compareTexts returns a failure unless there are as many texts in got as in want, and each contains the one of want at the same index.
func compareTexts(what string, want, got []string) []string {
	fits := len(want) == len(got)
	for i := 0; fits && i < len(want); i++ {
		fits = strings.Contains(got[i], want[i])
	}
	if fits {
		return nil
	}
	return []string{fmt.Sprintf("%s: want %q, got %q", what, want, got)}
}

// diffValues returns how the values in got differ from the expected ones, for the keys of want alone; "" if they do not.
func diffValues(want map[string]*string, got map[string]string) string {
	found := map[string]*string{}
	for key := range want {
		found[key] = nil
		if value, ok := got[key]; ok {
			found[key] = &value
		}
	}
	if len(want) == 0 {
		return ""
	}
	return cmp.Diff(want, found)
}

// diffFields returns how the fields of the pod spec at a path of the object differ from the expected ones, for the keys of want alone; ""
// if they do not. The expected value nil stands for a missing field.
func diffFields(want map[string]any, placed *unstructured.Unstructured, path []string) string {
	spec, _, err := unstructured.NestedMap(placed.Object, path...)
	if err != nil || len(path) == 0 {
		spec = nil
	}
	found := map[string]any{}
	for key := range want {
		found[key] = spec[key]
	}
	text := func(value map[string]any) string {
		// Decoded YAML can be encoded again.
		encoded, _ := yaml.Marshal(value)
		return string(encoded)
	}
	return cmp.Diff(text(want), text(found))
}

// compareReasons returns a failure for each cluster of WhyNot for which the explanation has no reason that contains the expected text, such
// as a cluster that is chosen.
func (e Expectation) compareReasons(explained *explain.Explanation) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.WhyNot)) {
		want := e.WhyNot[name]
		reasons := []string{"the cluster is none of those that policies choose among"}
		if explained.Clusters != nil {
			for _, c := range explained.Clusters.Listed {
				if c.Name == name {
					reasons = textsOf(c.Reasons)
				}
			}
		}
		if !slices.ContainsFunc(reasons, func(text string) bool { return strings.Contains(text, want) }) {
			out = append(out, fmt.Sprintf("whyNot %s: want %q, got %q", name, want, reasons))
		}
	}
	return out
}

// textsOf returns the texts of reasons, and of the reasons that they follow from.
func textsOf(reasons []explain.Reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, r.Expression+r.Message)
		out = append(out, textsOf(r.Because)...)
	}
	return out
}

// Coverage collects which lines of policies are evaluated when cases run. It is not safe for concurrent use.
type Coverage struct {
	byPolicy map[string]*policyCoverage // by the name of the policy, with the suffix, and its Rego
}

// policyCoverage collects the evaluated lines of one policy.
type policyCoverage struct {
	text   string // the Rego of module
	name   string // the name of the policy, with the suffix of the alternative
	tracer *cover.Cover
	module *policy.Module
}

// NewCoverage returns a Coverage that has collected no lines yet.
func NewCoverage() *Coverage { return &Coverage{byPolicy: map[string]*policyCoverage{}} }

// add evaluates the policies that match an object once more, and adds the lines that the evaluations reach. It skips policies that the
// embedded engine does not evaluate, and those that can't decide the object. It is an error if the requested state of an existing object
// can't be read. The report has the suffix after the policies' names.
func (c *Coverage) add(ctx context.Context, s *simulation.Simulation, o simulation.Object,
	outcome *placement.Outcome, suffix string) error {
	input := o.Content
	if o.Exists {
		var err error
		if input, err = s.Requested(ctx, o); err != nil {
			return err
		}
	}
	for _, v := range outcome.Verdicts {
		inspectable, ok := v.Policy.Evaluator.(embedded.Inspectable)
		if !ok {
			continue
		}
		p := s.Policy(v.Policy.Name).VersionOf(v.Policy)
		key := p.Name + suffix + "\n" + p.Module.Text
		if c.byPolicy[key] == nil {
			c.byPolicy[key] = &policyCoverage{text: p.Module.Text, name: p.Name + suffix, tracer: cover.New(), module: p.Module}
		}
		inspection, err := inspectable.Inspect(input.Object)
		if err != nil {
			// The verdict has this error.
			continue
		}
		inspection.Trace(ctx, c.byPolicy[key].tracer)
	}
	return nil
}

// PolicyCoverage tells which part of one policy the cases evaluated: the percentage of its lines, and which lines of spec.rego or fields of
// spec.rules were not evaluated.
type PolicyCoverage struct {
	Policy string `json:"policy"`
	// Percent is the percentage of the lines with expressions that were evaluated. A policy with spec.rules is measured by the Rego that its
	// rules are compiled to.
	Percent float64 `json:"percent"`
	// NotCovered are the numbers of the lines of spec.rego that were not evaluated.
	NotCovered []int `json:"notCovered,omitempty"`
	// FieldsNotCovered are the fields of spec.rules, such as spec.rules[0].require[1], from which lines of Rego come of which at least one was
	// not evaluated, sorted; none for a policy with spec.rego.
	FieldsNotCovered []string `json:"fieldsNotCovered,omitempty"`
	// Rules is the number of clauses of rules and functions in spec.rego; 0 for a policy with spec.rules.
	Rules int `json:"rules,omitempty"`
	// RulesCovered is the number of the clauses in Rules that had a value in a case.
	RulesCovered int `json:"rulesCovered,omitempty"`
}

// Report returns which part of each policy was evaluated, sorted by name, and the percentage of the lines of all policies together that
// were; 100 without lines. Policies that matched no object of a case are left out of both.
func (c *Coverage) Report() (policies []PolicyCoverage, percent float64) {
	covered, total := 0, 0
	for _, key := range slices.Sorted(maps.Keys(c.byPolicy)) {
		p := c.byPolicy[key]
		report := p.tracer.Report(p.module.Compiler.Modules)
		own := PolicyCoverage{Policy: p.name, Percent: report.Coverage}
		for _, file := range report.Files {
			covered += file.CoveredLines
			total += file.CoveredLines + file.NotCoveredLines
			for _, lines := range file.NotCovered {
				for row := lines.Start.Row; row <= lines.End.Row; row++ {
					own.NotCovered = append(own.NotCovered, row)
				}
			}
		}
		slices.Sort(own.NotCovered)
		own.NotCovered = slices.Compact(own.NotCovered)
		if p.module.FromRules() {
			own.NotCovered, own.FieldsNotCovered = nil, fieldsAt(p.module, own.NotCovered)
		} else {
			own.Rules, own.RulesCovered = clauses(p.module, report)
		}
		policies = append(policies, own)
	}
	if total == 0 {
		return policies, 100
	}
	return policies, float64(covered) * 100 / float64(total)
}

// fieldsAt returns the fields of spec.rules, such as spec.rules[0].require[1], that lines of a module come from, sorted. The module must be
// compiled from spec.rules. Lines that several rules use come from no field.
func fieldsAt(m *policy.Module, lines []int) []string {
	var out []string
	for _, line := range lines {
		if field := m.Field(line); field != "spec.rules" {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// clauses returns the number of clauses of rules and functions of a module, and the number of those that had a value in a case: the report
// does not have the line of the head as one that was not evaluated. The else branches of a clause are not counted.
func clauses(m *policy.Module, report cover.Report) (all, covered int) {
	for _, module := range m.Compiler.Modules {
		for _, rule := range module.Rules {
			all++
			if at := rule.Head.Location; !report.Files[at.File].IsNotCovered(at.Row) {
				covered++
			}
		}
	}
	return all, covered
}
