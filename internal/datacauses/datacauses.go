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

// Package datacauses finds the changes of replicated data because of which objects are decided again.
package datacauses

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/remediation"
)

// Names of data in causes: data of which it is not known what changed, and what predicates read.
const (
	Unknown    = "data that the policy reads"
	Predicates = "the nodes or pods that the policy's predicates read"
)

// Causes knows the changes of data since the last sweep. It is safe for concurrent use. Create it with New.
type Causes struct {
	data  *embedded.Data
	kind  func(schema.GroupVersionResource) string
	swept atomic.Pointer[embedded.State] // The state of the data since which changes count, as the last call of Swept set it; nil before.
	// lately caches the newest changes since swept that Of has read; nil if it has read none.
	lately atomic.Pointer[changes]
}

// changes are the changes of data between two states.
type changes struct {
	*embedded.Changes
	facts sync.Map // Caches the []remediation.Fact about the changes for each *policy.Binding.
}

// New returns Causes that know no changes before the first call of Swept. kind returns the kind of a type; "" if that is not known.
func New(data *embedded.Data, kind func(schema.GroupVersionResource) string) *Causes {
	return &Causes{data: data, kind: kind}
}

// Swept records that a sweep has ended. state is that of the data when the sweep began.
func (c *Causes) Swept(state embedded.State) {
	c.swept.Store(&state)
	// They keep the state before the sweep in memory.
	c.lately.Store(nil)
}

// Of returns the cause of deciding objects again that the data of a policy, given by its binding, has changed since the last sweep. The
// cause names the types of the objects that changed. If no such object is known, it has names, such as Unknown, instead. Of names,
// Predicates stays in either case.
func (c *Causes) Of(binding *policy.Binding, names ...string) remediation.Cause {
	out := remediation.Cause{Data: sets.New(names...), Facts: c.facts(binding)}
	if len(out.Facts) > 0 {
		out.Data = out.Data.Intersection(sets.New(Predicates))
	}
	for _, fact := range out.Facts {
		out.Data.Insert(fact.Resource)
	}
	return out
}

// facts returns facts about the changes since the last sweep in the fields that a policy reads, for at most remediation.MaxCauses objects
// of each type; none if binding is nil, and before the first sweep.
func (c *Causes) facts(binding *policy.Binding) []remediation.Fact {
	from, to := c.swept.Load(), c.data.State()
	if from == nil || *from == to || binding == nil {
		return nil
	}
	lately := c.lately.Load()
	if lately == nil || !lately.Between(*from, to) {
		lately = &changes{Changes: to.Since(*from)}
		c.lately.Store(lately)
	}
	known, ok := lately.facts.Load(binding)
	if !ok {
		known = c.factsOf(lately.Changes, binding)
		lately.facts.Store(binding, known)
	}
	return known.([]remediation.Fact)
}

// factsOf returns facts about those of the changes that concern the fields that the policy of a binding reads.
func (c *Causes) factsOf(changes *embedded.Changes, binding *policy.Binding) (out []remediation.Fact) {
	for _, r := range binding.Resources {
		fields := binding.Fields[r.GroupVersionResource]
		if fields == nil {
			continue
		}
		objects, _ := changes.Objects(r.GroupVersionResource, fields, remediation.MaxCauses)
		cluster, resource := slices.Contains(binding.Clusters, r.GroupVersionResource), r.GroupResource().String()
		kind := cmp.Or(c.kind(r.GroupVersionResource), resource)
		for _, object := range objects {
			out = append(out, remediation.Fact{
				Resource: resource, Namespace: object.Namespace, Cluster: cluster,
				Text: printable.Text(kind + " " + strings.TrimPrefix(object.Namespace+"/"+object.Name, "/") + ": " + object.Describe(cluster)),
			})
		}
	}
	return out
}
