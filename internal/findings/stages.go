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

package findings

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/absent"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rollout"
)

const (
	// maxStagedNamespaces is the maximum number of namespaces with which stages are compared, because the client that applies
	// the policy waits. Kubernetes supports half as many.
	maxStagedNamespaces = 20_000
	// maxNamed is the maximum number of namespaces that a warning names.
	maxNamed = 3
)

// Stages returns the findings in the stages of spec.rollout of the named policy. It returns none if the stages are not valid.
func (f *Finder) Stages(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, m *match.Matcher) []Finding {
	if spec.Rollout == nil || len(spec.Rollout.Stages) == 0 {
		return nil
	}
	path := specPath.Child("rollout", "stages")
	stages, errs := rollout.NewStages(name, spec.Rollout.Stages, path)
	if len(errs) > 0 {
		return nil
	}
	return slices.Concat(findingsOfUnchecked(spec, path), findingsOfPercentages(spec.Rollout.Stages, path),
		f.findingsOfLastSoak(spec.Rollout.Stages, m, path), f.findingsOfStages(ctx, spec.Rollout.Stages, stages, m, path))
}

// findingsOfUnchecked finds the first stage that the next one follows at once: remediation.mode is Off or NewOnly, so that Berth does not
// check existing objects, the stage has no soak, and the next stage needs no approval. It returns one finding at most.
func findingsOfUnchecked(spec placementv1.PlacementPolicySpec, path *field.Path) []Finding {
	mode := spec.Remediation.Mode
	if mode != placementv1.RemediationOff && mode != placementv1.RemediationNewOnly {
		return nil
	}
	stages := spec.Rollout.Stages
	for i, s := range stages[:max(0, len(stages)-1)] {
		if !soaks(s) && !stages[i+1].Approval {
			return []Finding{advice("%s: nothing holds the rollout in stage %q: spec.remediation.mode is %s, so Berth does not look at existing "+
				"objects; set soak of the stage, or approval of the next one",
				path.Index(i), s.Name, mode)}
		}
	}
	return nil
}

// findingsOfPercentages finds percentages of stages that add up to 100: percentages are cumulative, and the author probably takes them for
// parts.
func findingsOfPercentages(stages []placementv1.RolloutStage, path *field.Path) []Finding {
	var sum int32
	last, n := 0, 0
	for i, s := range stages {
		if s.NamespaceSelector == nil {
			sum += s.Percent
			last, n = i, n+1
		}
	}
	if n < 2 || sum != maxPercent {
		return nil
	}
	return []Finding{advice("%s: percentages are cumulative: in stage %q, the version decides in %d percent of the namespaces, and "+
		"not in all. For all of them, write percent: 100", path.Index(last).Child("percent"), stages[last].Name, stages[last].Percent)}
}

// findingsOfLastSoak finds a soak of the last stage, which nothing follows, in place of the one before it. If the stage before has a soak
// or the last one an approval, the author probably wants the rollout to be incomplete for longer.
func (f *Finder) findingsOfLastSoak(stages []placementv1.RolloutStage, m *match.Matcher, path *field.Path) []Finding {
	n := len(stages)
	last := stages[n-1]
	if !soaks(last) || last.Approval || !rollout.SelectsAll(last) || m.MayMatchOutsideNamespaces(f.Catalog.Served()) {
		return nil
	}
	instead := "add a stage before it that has a soak"
	if n > 1 {
		before := stages[n-2]
		if soaks(before) {
			return nil
		}
		instead = fmt.Sprintf("set soak of stage %q", before.Name)
	}
	return []Finding{advice("%s: no namespace waits for this soak: it begins when the objects of stage %q are moved, and no stage follows. "+
		"To wait before stage %q, %s", path.Index(n-1).Child("soak"), last.Name, last.Name, instead)}
}

// soaks reports whether the next stage waits for a time after the stage.
func soaks(s placementv1.RolloutStage) bool { return s.Soak != nil && s.Soak.Duration > 0 }

// findingsOfStages finds stages without namespaces, and namespaces that several selectors or no stage selects, among the namespaces that
// exist and that the policy matches. It also finds stages in a policy that matches only cluster-scoped types. If the namespaces can't be
// read, it returns a notice; nil if Finder.Namespaces is nil, if the policy matches no namespace, or if there are more than
// maxStagedNamespaces.
func (f *Finder) findingsOfStages(ctx context.Context, list []placementv1.RolloutStage, stages *rollout.Stages, m *match.Matcher,
	path *field.Path) []Finding {
	if m.Coverage(f.Catalog.Served(), path, f.OwnNamespace).ClusterScoped {
		return []Finding{advice("%s: no object that the policy matches belongs to a stage: the types that it matches are cluster-scoped. "+
			"All of their objects get a new version after the last stage", path)}
	}
	if f.Namespaces == nil {
		return nil
	}
	namespaces, err := f.Namespaces.All(ctx)
	if err != nil {
		return []Finding{notice("%s: cannot check that the stages select namespaces: %v", path, err)}
	}
	counts, rest := f.countStages(ctx, namespaces, list, stages, m)
	if counts == nil {
		return nil
	}
	known := absent.LabelsOf("namespace", namespaces)
	var out []Finding
	if text := rollout.DescribeRest(rest.count, rest.example(), m.MayMatchOutsideNamespaces(f.Catalog.Served())); rest.count > 0 {
		last, how := list[len(list)-1], "at once, without an approval"
		switch {
		case last.Approval && soaks(last):
			how = "after its soak and another approval"
		case last.Approval:
			how = "after another approval"
		case soaks(last):
			how = "after its soak, without an approval"
		}
		out = append(out, advice("%s: %s follow after the last stage %q, %s. To have them in a stage, add {name: rest, percent: 100}",
			path, text, last.Name, how))
	}
	for i, s := range list {
		at := path.Index(i).Child("namespaceSelector")
		selects := fmt.Sprintf("%s selects", at)
		if s.NamespaceSelector == nil {
			at = path.Index(i).Child("percent")
			selects = fmt.Sprintf("%s: %d percent select", at, s.Percent)
		}
		switch c := counts[i]; {
		case c.existing == 0:
			out = append(out, advice("%s none of the namespaces that there are: stage %q has no namespace", selects, s.Name))
		case c.matched == 0:
			out = append(out, advice("%s no namespace that spec.match.namespaceSelector selects, too: stage %q has no namespace", selects, s.Name))
		case c.own == 0 && rollout.SelectsAll(s):
			// It is for namespaces to come.
		case c.own == 0:
			out = append(out, advice("%s only namespaces that belong to earlier stages, so that stage %q has no namespace: %s", selects,
				s.Name, c.earlier.text(list)))
		case s.NamespaceSelector != nil && c.shared.count > 0:
			out = append(out, advice("%s also selects %s: a namespace belongs to the first stage that selects it", at, c.shared.text(list)))
		default:
			out = append(out, advices(known.Selector(s.NamespaceSelector, at))...)
		}
	}
	return out
}

// stageCounts are the numbers of existing namespaces that one stage selects.
type stageCounts struct {
	// existing counts those that may be matched by some policy, and matched those that the policy matches. own counts those of
	// the matched namespaces that belong to no earlier stage.
	existing, matched, own int
	// earlier are the matched namespaces that belong to an earlier stage. shared are those of them whose stage has a selector
	// that does not imply this one's: an author who orders selectors from narrow to wide knows that they overlap.
	earlier, shared namedNamespaces
}

// countStages counts the namespaces that each stage selects. rest are those that the policy matches and no stage selects. counts is nil if
// the policy matches no namespace, if there are more than maxStagedNamespaces, and if ctx ends.
func (f *Finder) countStages(ctx context.Context, namespaces iter.Seq2[string, map[string]string], list []placementv1.RolloutStage,
	stages *rollout.Stages, m *match.Matcher) (counts []stageCounts, rest namedNamespaces) {
	overlaps := unintendedOverlaps(list)
	counts = make([]stageCounts, len(list))
	total, matchedAny := 0, false
	for name, labels := range namespaces {
		if total++; total > maxStagedNamespaces || ctx.Err() != nil {
			return nil, rest
		}
		if match.IsProtectedNamespace(name, f.OwnNamespace) {
			continue
		}
		matched := m.SelectsNamespace(name, labels)
		matchedAny = matchedAny || matched
		first := -1
		for i := range list {
			if !stages.Selects(i, name, labels) {
				continue
			}
			c := &counts[i]
			c.existing++
			switch {
			case !matched:
				continue
			case first < 0:
				first = i
				c.own++
			default:
				c.earlier.add(name, first)
				if overlaps[first][i] {
					c.shared.add(name, first)
				}
			}
			c.matched++
		}
		if matched && first < 0 {
			rest.add(name, len(list))
		}
	}
	if !matchedAny {
		return nil, rest
	}
	return counts, rest
}

// unintendedOverlaps reports for two stages, by the index of the earlier one and then that of the later one, whether both have selectors
// and the later one does not obviously include the earlier one.
func unintendedOverlaps(list []placementv1.RolloutStage) [][]bool {
	out := make([][]bool, len(list))
	for i, earlier := range list {
		out[i] = make([]bool, len(list))
		for j := i + 1; j < len(list); j++ {
			out[i][j] = earlier.NamespaceSelector != nil && list[j].NamespaceSelector != nil && !match.SelectorImplies(earlier.NamespaceSelector,
				list[j].NamespaceSelector)
		}
	}
	return out
}

// namedNamespaces counts namespaces, and keeps the first maxNamed of them in the order of their names.
type namedNamespaces struct {
	count int               // The number of all namespaces that were added.
	first []stagedNamespace // The first maxNamed ones by name.
}

// stagedNamespace is a namespace and the index of the stage that it belongs to.
type stagedNamespace struct {
	name  string
	stage int // The index of its stage in spec.rollout.stages; the number of stages if it belongs to none.
}

// add counts a namespace. stage is the index of the stage that it belongs to.
func (n *namedNamespaces) add(name string, stage int) {
	n.count++
	at, _ := slices.BinarySearchFunc(n.first, name, func(s stagedNamespace, name string) int { return cmp.Compare(s.name, name) })
	if at < maxNamed {
		n.first = slices.Insert(n.first, at, stagedNamespace{name, stage})
		n.first = n.first[:min(len(n.first), maxNamed)]
	}
}

// example returns the first name; "" if there is none.
func (n *namedNamespaces) example() string {
	if n.count == 0 {
		return ""
	}
	return n.first[0].name
}

// text returns a list of the first namespaces with the names of their stages, and of the number of the others. list are all stages.
func (n *namedNamespaces) text(list []placementv1.RolloutStage) string {
	texts := make([]string, len(n.first))
	for i, s := range n.first {
		texts[i] = fmt.Sprintf("%s of stage %q", s.name, list[s.stage].Name)
	}
	if more := n.count - len(n.first); more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}
