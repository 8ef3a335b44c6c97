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

package predicates

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/workload"
)

// Evaluate evaluates the predicates on each candidate. It runs their PreFilter once, and then filters candidates in
// parallel. For each candidate, it runs each predicate until one rejects. The error is a *PluginError, or the context's
// error. The report keeps the workload and the query, so the caller must not change them afterwards.
//
// Evaluate interprets the plugins' results like the scheduler (RunPreFilterPlugins and RunFilterPlugins of its framework,
// and findNodesThatFitPod). It has no nominated pods, no extenders, and no preemption.
func (s *Set) Evaluate(ctx context.Context, snapshot *Snapshot, w workload.Workload, q Query) (*Report, error) {
	return s.evaluate(ctx, snapshot, w, q, nil)
}

// Reevaluate returns what Evaluate returns for a report's workload and query on another snapshot. If the report is of this set, and its
// verdicts depend on no other candidate, it only evaluates the candidates that changed since the report's snapshot. If all verdicts are the
// same, it returns the same report.
func (s *Set) Reevaluate(ctx context.Context, snapshot *Snapshot, r *Report) (*Report, error) {
	var before *priorReport
	if r.set == s {
		before = &priorReport{Report: r, validity: r.validFor.Load()}
		if before.snapshot == snapshot {
			return r, nil
		}
	}
	next, err := s.evaluate(ctx, snapshot, r.workload, r.query, before)
	if err != nil {
		return nil, err
	}
	if !r.equal(next) {
		return next, nil
	}
	if r.set == s {
		r.validFor.Store(next.validFor.Load())
	}
	return r, nil
}

// priorReport is an earlier report, with the snapshot for which its verdicts are valid.
type priorReport struct {
	*Report
	*validity

	// candidateAt is the index that the method verdict has reached in the candidates of the snapshot, and verdictAt that in Verdicts.
	candidateAt, verdictAt int
}

// verdict returns the earlier verdict on a candidate; false if there is none, or if the candidate does not have the identical NodeInfo,
// info, in the snapshot now. It must be called in the order of names. b may be nil.
func (b *priorReport) verdict(now *Snapshot, name string, info fwk.NodeInfo) (Verdict, bool) {
	if b == nil {
		return Verdict{}, false
	}
	then := b.snapshot
	for b.candidateAt < len(then.names) && then.names[b.candidateAt] < name {
		b.candidateAt++
	}
	for b.verdictAt < len(b.Verdicts) && b.Verdicts[b.verdictAt].Name < name {
		b.verdictAt++
	}
	if b.candidateAt == len(then.names) || then.infos[b.candidateAt] != info ||
		now.hasUnlimitedResources(name) != then.hasUnlimitedResources(name) ||
		b.verdictAt == len(b.Verdicts) || b.Verdicts[b.verdictAt].Name != name {
		return Verdict{}, false
	}
	return b.Verdicts[b.verdictAt], true
}

// aligned reports whether another snapshot shares the list of names, so that the verdicts on its candidates are at the same positions. It
// is false if the query restricts the candidates, if resources of one are unknown, and if b is nil. It is true after most changes, which
// concern pods.
func (b *priorReport) aligned(now *Snapshot, q Query) bool {
	return b != nil && q.Names == nil && q.Selector == nil && now.unlimited.Len() == 0 && b.snapshot.unlimited.Len() == 0 &&
		len(now.names) > 0 && len(now.names) == len(b.snapshot.names) && &now.names[0] == &b.snapshot.names[0]
}

// evaluate makes a report. On nodes, it leaves out the workload's own pods. If before is not nil, it reuses that report's verdicts where
// possible. The error is a *PluginError, or the context's error.
func (s *Set) evaluate(ctx context.Context, snapshot *Snapshot, w workload.Workload, q Query, before *priorReport) (*Report, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pool, world := &s.nodes, snapshot
	if q.Kind == Clusters {
		pool = &s.clusters
	} else if w.Own != nil || w.Name != "" {
		world = snapshot.without(w.Pod.Namespace, w.Own, w.Name)
	}
	used, err := pool.take(world)
	if err != nil {
		return nil, err
	}
	j := &evaluation{Workload: w, kind: q.Kind, plugins: used.list, snapshot: snapshot, world: world, evaluated: &s.evaluated}
	report := &Report{Kind: q.Kind, set: s, workload: w, query: q}
	err = j.report(ctx, report, before)
	pool.give(used, err)
	// If the context has an error, it may have caused what the plugins returned.
	if cause := ctx.Err(); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	return report, nil
}

// evaluation is the evaluation of one workload on all candidates of one kind. Several workers use it at the same time, once prepare has set
// its state.
type evaluation struct {
	workload.Workload
	// kind is the kind of the candidates.
	kind    Candidates
	plugins []plugin
	// snapshot is the one that the caller passed. world is the same without the workload's own pods.
	snapshot, world *Snapshot
	evaluated       *atomic.Int64 // The counter Set.evaluated, of all evaluations of a candidate.

	state   fwk.CycleState // The state that the plugins prepared.
	skipped []bool         // Whether a plugin does not apply to the pod, by the index of the plugin.
	// rejected is the status with which a plugin's PreFilter rejected all candidates; nil if none did.
	rejected *fwk.Status
	// named are the names of the candidates to which each plugin's PreFilter restricted the search, by the plugin's index; nil for
	// all.
	named       []sets.Set[string]
	narrowing   sets.Set[string]   // The names of the plugins that restricted the search.
	podCopy     *framework.PodInfo // The evaluated pod as NodeInfos hold it. Copies of it are added to count replicas.
	maxReplicas int                // How many replicas to try at most on each candidate; fewer if there are many, or the pod is large.
}

// report evaluates the candidates of the report's query and sets the report's verdicts. It reuses those of the earlier report before that
// are valid; nil for none.
func (j *evaluation) report(ctx context.Context, r *Report, before *priorReport) error {
	if err := j.prepare(ctx); err != nil {
		return err
	}
	r.whole = j.rejected.Message()
	local := j.local()
	r.validFor.Store(&validity{snapshot: j.snapshot, local: local})
	if before != nil && (!local || !before.local) {
		before = nil
	}
	var err error
	r.Verdicts, err = j.verdicts(ctx, r.query, before)
	return err
}

// guard calls a plugin, and converts a panic to a *PluginError of the predicate with the name.
func guard(name string, call func() *fwk.Status) (status *fwk.Status, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = failure(name, r)
		}
	}()
	return call(), nil
}

// unexpected converts a status that neither accepts nor rejects to a *PluginError of the predicate with the name.
func unexpected(name string, status *fwk.Status) error {
	err := status.AsError()
	if err == nil {
		err = fmt.Errorf("its plugin returned the unexpected status %s", status.Code())
	}
	return &PluginError{Predicate: name, Err: err}
}

// prepare runs PreFilter of each plugin that implements it, and sets state, skipped, rejected, named, narrowing, and podCopy. It returns an
// error if a plugin fails, or if the pod has volume claims and a plugin for volumes applies to it, and none if a plugin rejects.
func (j *evaluation) prepare(ctx context.Context) error {
	j.state = framework.NewCycleState()
	j.skipped = make([]bool, len(j.plugins))
	j.narrowing = sets.New[string]()
	j.named = make([]sets.Set[string], len(j.plugins))
	// Ignore the error: a term that cannot be parsed matches nothing, and InterPodAffinity reports it.
	j.podCopy, _ = framework.NewPodInfo(j.Pod)
	// Compute this now, because several goroutines read the copy, which would store it on first use.
	j.podCopy.CalculateResource()
	skipped := sets.New[string]()
	defer func() { j.state.SetSkipFilterPlugins(skipped) }()
	var left *fwk.PreFilterResult
	for i, p := range j.plugins {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.readsVolumes && j.Name == "" && !j.Single {
			j.skipped[i] = true
			skipped.Insert(p.Name)
			continue
		}
		if p.readsVolumes && hasClaims(j.Pod) {
			return &PluginError{Predicate: p.Name, Err: errClaims}
		}
		if p.pre == nil {
			continue
		}
		var result *fwk.PreFilterResult
		status, err := guard(p.Name, func() *fwk.Status {
			r, s := p.pre.PreFilter(ctx, j.state, j.Pod, j.world.infos)
			result = r
			return s
		})
		if err != nil {
			return err
		}
		switch {
		case status.IsSkip():
			j.skipped[i] = true
			skipped.Insert(p.Name)
			continue
		case status.Code() == fwk.UnschedulableAndUnresolvable:
			j.rejected = status.WithPlugin(p.Name)
			return nil
		case status.Code() == fwk.Unschedulable:
			// Like the scheduler, continue: another plugin may find that preemption does not help.
			j.rejected = status.WithPlugin(p.Name)
			continue
		case !status.IsSuccess():
			return unexpected(p.Name, status)
		}
		if !result.AllNodes() {
			j.named[i] = result.NodeNames
			j.narrowing.Insert(p.Name)
		}
		left = left.Merge(result)
		if !left.AllNodes() && len(left.NodeNames) == 0 {
			j.rejected = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, j.nowhere()).WithPlugin(p.Name)
			return nil
		}
	}
	return nil
}

// nowhere returns the scheduler's message for the case that the nodes to which PreFilter of the plugins restricts the search have none in
// common. It names these plugins.
func (j *evaluation) nowhere() string {
	names := sets.List(j.narrowing)
	if len(names) == 1 {
		return fmt.Sprintf("node(s) didn't satisfy plugin %v", names[0])
	}
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", names)
}

// local reports whether the verdict on each candidate depends on no other candidate: each plugin that applies to the pod is Local, and none
// has rejected all candidates at once.
func (j *evaluation) local() bool {
	if j.rejected != nil {
		return false
	}
	for i, p := range j.plugins {
		if !p.Local && !j.skipped[i] {
			return false
		}
	}
	return true
}

// candidates returns a verdict for each of a query's candidates, sorted by name. Those for the candidates in open are not valid yet: these
// must still be evaluated. The other verdicts are from the earlier report, or for names without a candidate.
func (j *evaluation) candidates(q Query, before *priorReport) (verdicts []Verdict, open []candidate) {
	if before.aligned(j.snapshot, q) {
		for i, info := range j.snapshot.infos {
			if info != before.snapshot.infos[i] {
				open = append(open, candidate{at: i, info: j.world.infos[i]})
			}
		}
		return slices.Clone(before.Verdicts), open
	}
	add := func(i int) {
		info := j.world.infos[i]
		if q.Selector != nil && !q.Selector.Matches(labels.Set(info.Node().Labels)) {
			return
		}
		v, ok := before.verdict(j.snapshot, j.world.names[i], j.snapshot.infos[i])
		if !ok {
			open = append(open, candidate{at: len(verdicts), info: info})
		}
		verdicts = append(verdicts, v)
	}
	if q.Names == nil {
		verdicts = make([]Verdict, 0, len(j.world.names))
		if before == nil {
			open = make([]candidate, 0, len(j.world.names))
		}
		for i := range j.world.names {
			add(i)
		}
		return verdicts, open
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(q.Names))) {
		if i, ok := slices.BinarySearch(j.world.names, name); ok {
			add(i)
			continue
		}
		verdicts = append(verdicts, Verdict{Name: name, Outcome: &Outcome{Reasons: []string{q.Kind.noun() + "(s) didn't exist"}}})
	}
	return verdicts, open
}

// candidate is a node or a cluster that still must be evaluated: its NodeInfo, and the index of its verdict.
type candidate struct {
	at   int // The index of its verdict in the list of verdicts.
	info fwk.NodeInfo
}

// verdicts returns the verdicts on the candidates of a query. It reuses those of an earlier report, which may be nil, where they are valid.
func (j *evaluation) verdicts(ctx context.Context, q Query, before *priorReport) ([]Verdict, error) {
	verdicts, open := j.candidates(q, before)
	j.maxReplicas = j.bound(len(verdicts))
	if before != nil && j.bound(len(before.Verdicts)) != j.maxReplicas {
		verdicts, open = j.candidates(q, nil)
	}
	workers := goruntime.GOMAXPROCS(0)
	size := chunk(len(open), workers)
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(workers, (len(open)+size-1)/size) {
		group.Go(func() error {
			w := &worker{evaluation: j}
			for {
				end := int(taken.Add(int64(size)))
				start := end - size
				if start >= len(open) {
					return nil
				}
				for _, c := range open[start:min(end, len(open))] {
					if err := ctx.Err(); err != nil {
						return err
					}
					var err error
					if verdicts[c.at], err = w.verdict(ctx, c.info); err != nil {
						return err
					}
				}
			}
		})
	}
	return verdicts, group.Wait()
}
