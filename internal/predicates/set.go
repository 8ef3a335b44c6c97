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
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
)

// Set is an ordered list of allowed predicates. It is immutable and safe for concurrent use.
type Set struct {
	names      []string
	predicates []configuredPredicate

	// narrowed are all sets that Narrow made of the same list, including this one, by their joined names.
	narrowed *sync.Map

	nodes, clusters pool // The plugins for each kind of candidates.
	// evaluated counts the evaluations of a candidate, for all pods, since the set was made.
	evaluated atomic.Int64
}

// configuredPredicate is a predicate of a set with its arguments.
type configuredPredicate struct {
	knownPredicate

	args runtime.Object // The arguments, decoded for a plugin of kube-scheduler, and as raw JSON for others; nil for none.
}

// complete initializes the set's pools. It returns the set, or an existing one with the same names among those in narrowed.
func complete(s *Set) *Set {
	if s.narrowed == nil {
		s.narrowed = &sync.Map{}
	}
	s.nodes.predicates = predicatesFor(Nodes, s.predicates)
	s.clusters.predicates = predicatesFor(Clusters, s.predicates)
	kept, _ := s.narrowed.LoadOrStore(strings.Join(s.names, ","), s)
	return kept.(*Set)
}

// predicatesFor returns the predicates that evaluate candidates of a kind, in their order.
func predicatesFor(kind Candidates, predicates []configuredPredicate) []configuredPredicate {
	var out []configuredPredicate
	for _, p := range predicates {
		if p.Candidates&kind != 0 {
			out = append(out, p)
		}
	}
	return out
}

// Names returns the names of the predicates in their order.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// NamesOf returns the names of the predicates that evaluate candidates of a kind, in their order.
func (s *Set) NamesOf(kind Candidates) []string {
	var out []string
	for _, p := range predicatesFor(kind, s.predicates) {
		out = append(out, p.Name)
	}
	return out
}

// Narrow returns the set of the named predicates of s, in the order of s. An empty list stands for all. It returns an
// error for a name that s does not have, which lists those that it has: Narrow cannot add predicates. The same
// names give the same *Set.
func (s *Set) Narrow(names []string) (*Set, error) {
	if len(names) == 0 {
		return s, nil
	}
	for _, name := range names {
		if !slices.Contains(s.names, name) {
			return nil, fmt.Errorf("predicate %q is not in use: the manager uses %s", name, strings.Join(s.names, ", "))
		}
	}
	next := &Set{narrowed: s.narrowed}
	for _, p := range s.predicates {
		if slices.Contains(names, p.Name) {
			next.names = append(next.names, p.Name)
			next.predicates = append(next.predicates, p)
		}
	}
	return complete(next), nil
}

// pool holds the plugins of a set that evaluate one kind of candidates. There are as many instances of each plugin as
// there were concurrent evaluations, because a plugin sees the snapshot of only one evaluation.
type pool struct {
	predicates []configuredPredicate

	mu   sync.Mutex
	idle []*plugins // Those that no evaluation uses.
}

// plugins are the plugins for one evaluation at a time.
type plugins struct {
	handle handle // The handle that the plugins have.
	list   []plugin
}

// plugin is an instance of a predicate's plugin.
type plugin struct {
	*configuredPredicate

	filter     fwk.FilterPlugin
	pre        fwk.PreFilterPlugin     // Nil if the plugin has no PreFilter.
	extensions fwk.PreFilterExtensions // Nil if the state that PreFilter prepares does not depend on pods.
}

// take returns plugins that no other evaluation uses. They see the snapshot world until they are returned.
func (p *pool) take(world *Snapshot) (*plugins, error) {
	p.mu.Lock()
	var taken *plugins
	if last := len(p.idle) - 1; last >= 0 {
		taken, p.idle = p.idle[last], p.idle[:last]
	}
	p.mu.Unlock()
	if taken == nil {
		initMetrics()
		taken = &plugins{}
		taken.handle.world.Snapshot = world
		for i := range p.predicates {
			made, err := p.predicates[i].make(&taken.handle)
			if err != nil {
				return nil, err
			}
			taken.list = append(taken.list, made)
		}
	}
	taken.handle.world.Snapshot = world
	return taken, nil
}

// give returns plugins to the pool after an evaluation that ended with err. If err is a *PluginError, it drops them, because their state is
// unknown. After other errors, such as a canceled context, they are used again.
func (p *pool) give(taken *plugins, err error) {
	if failed := (*PluginError)(nil); errors.As(err, &failed) {
		return
	}
	taken.handle.world.Snapshot = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, taken)
}

// make creates the plugin of a predicate. The plugin outlives the evaluation that needs it first, so it does not get the
// evaluation's context.
func (c *configuredPredicate) make(h *handle) (made plugin, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = failure(c.Name, r)
		}
	}()
	var of fwk.Handle = h
	if c.readsVolumes {
		of = claimless{handle: h, informers: informers.NewSharedInformerFactory(nil, 0)}
	}
	p, err := c.New(context.Background(), c.args, of)
	if err != nil {
		return plugin{}, &PluginError{Predicate: c.Name, Err: fmt.Errorf("creating its plugin: %w", err)}
	}
	filter, ok := p.(fwk.FilterPlugin)
	if !ok {
		return plugin{}, &PluginError{Predicate: c.Name, Err: fmt.Errorf("its plugin is a %T, which is no filter plugin", p)}
	}
	made = plugin{configuredPredicate: c, filter: filter}
	if pre, ok := p.(fwk.PreFilterPlugin); ok {
		made.pre, made.extensions = pre, pre.PreFilterExtensions()
	}
	return made, nil
}

// PluginError reports that a predicate failed, so that there is no verdict.
type PluginError struct {
	Predicate string
	Err       error
}

func (e *PluginError) Error() string { return "predicate " + e.Predicate + ": " + e.Err.Error() }

func (e *PluginError) Unwrap() error { return e.Err }
