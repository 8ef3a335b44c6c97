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

package embedded

import (
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/replication"
)

var _ placement.Tolerant = (*evaluator)(nil)

// Unready implements placement.Tolerant. It returns the clusters that are marked as not ready, by name, with the time since when, zero if
// unknown; nil if there are none, and for a policy whose objects do not stay in such clusters.
func (p *evaluator) Unready() map[string]time.Time {
	if !p.module.Tolerant || p.query == nil {
		return nil
	}
	return p.engine.data.current.Load().clusters(p.inventories).document().unready
}

// toleratedIn returns the names of the clusters in which the object of an input stays although they are marked as not ready, as the input
// lists them; nil if the input has no such list.
func toleratedIn(input map[string]any) []any {
	names, _ := input[language.InputTolerated].([]any)
	return names
}

var taintsField, keyField, effectField, timeAddedField = ast.StringTerm("taints"), ast.StringTerm("key"), ast.StringTerm("effect"),
	ast.StringTerm("timeAdded")

// unreadySince returns when the fleet manager marked a cluster as not ready: the earliest time, if several taints mark it. That time is
// zero if a taint that marks it has no time, or one that can't be read. ok is false if the cluster is not marked.
func unreadySince(cluster *ast.Term) (since time.Time, ok bool) {
	forEachTaint(cluster, func(taint *ast.Term, marks bool) {
		if !marks {
			return
		}
		text, _ := valueOf(taint.Get(timeAddedField)).(ast.String)
		// A time that can't be read counts as unknown.
		added, _ := time.Parse(time.RFC3339, string(text))
		if !ok || added.Before(since) {
			since, ok = added, true
		}
	})
	return since, ok
}

// forEachTaint calls f with each taint of a cluster, and whether it marks the cluster as not ready.
func forEachTaint(cluster *ast.Term, f func(taint *ast.Term, marks bool)) {
	taints, _ := valueOf(cluster.Get(taintsField)).(*ast.Array)
	if taints == nil {
		return
	}
	taints.Foreach(func(taint *ast.Term) {
		key, _ := valueOf(taint.Get(keyField)).(ast.String)
		effect, _ := valueOf(taint.Get(effectField)).(ast.String)
		f(taint, replication.MarksUnready(string(key), string(effect)))
	})
}

// withoutReadinessTaints returns data.clusters without the taints by which the named clusters are marked as not ready.
func withoutReadinessTaints(clusters ast.Value, names []any) ast.Value {
	all, ok := clusters.(ast.Object)
	if !ok {
		return clusters
	}
	changed := map[string]*ast.Term{}
	for _, name := range names {
		name, _ := name.(string)
		cluster := all.Get(ast.StringTerm(name))
		if cluster == nil {
			continue
		}
		var rest []*ast.Term
		forEachTaint(cluster, func(taint *ast.Term, marks bool) {
			if !marks {
				rest = append(rest, taint)
			}
		})
		document := ast.NewObject()
		cluster.Value.(ast.Object).Foreach(func(member, value *ast.Term) { document.Insert(member, value) })
		document.Insert(taintsField, ast.ArrayTerm(rest...))
		changed[name] = ast.NewTerm(sorted(document))
	}
	out := ast.NewObject()
	all.Foreach(func(name, cluster *ast.Term) {
		if other := changed[nameOf(name)]; other != nil {
			cluster = other
		}
		out.Insert(name, cluster)
	})
	return sorted(out)
}
