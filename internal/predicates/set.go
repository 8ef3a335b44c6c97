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

// Set is a white-list of predicates, in order. It is immutable and safe for concurrent use.
type Set struct {
	names      []string
	predicates []configured

	// narrowed are the sets that were made of the same white-list, this one among them, by their names.
	narrowed *sync.Map

	nodes, clusters pool
	// asked counts the pairs of a pod and a candidate for which predicates were asked.
	asked atomic.Int64
}

// configured is a predicate of a set, and its arguments.
type configured struct {
	known

	args runtime.Object
}

// complete adds what belongs to a set of its own.
func complete(s *Set) *Set {
	if s.narrowed == nil {
		s.narrowed = &sync.Map{}
	}
	s.nodes.kind, s.clusters.kind = Nodes, Clusters
	s.nodes.predicates = judging(Nodes, s.predicates)
	s.clusters.predicates = judging(Clusters, s.predicates)
	kept, _ := s.narrowed.LoadOrStore(strings.Join(s.names, ","), s)
	return kept.(*Set)
}

func judging(kind Candidates, predicates []configured) []configured {
	var out []configured
	for _, p := range predicates {
		if p.Judges&kind != 0 {
			out = append(out, p)
		}
	}
	return out
}

// Names are those of the predicates, in their order.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// NamesOf are the names of the predicates that judge candidates of a kind, in their order.
func (s *Set) NamesOf(kind Candidates) []string {
	var out []string
	for _, p := range judging(kind, s.predicates) {
		out = append(out, p.Name)
	}
	return out
}

// Narrow returns the set of those predicates of s that are named, in the order of s; no names stand for all. A name that
// s does not have is an error that lists those that it has: nothing widens a white-list. Sets of equal names are the same.
func (s *Set) Narrow(names []string) (*Set, error) {
	if len(names) == 0 {
		return s, nil
	}
	for _, name := range names {
		if !slices.Contains(s.names, name) {
			return nil, fmt.Errorf("predicate %q is not in use: those that are are %s", name, strings.Join(s.names, ", "))
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

// pool has the plugins of a set that judge one kind of candidates: as many of each as there were judgments at one time,
// since a plugin sees the snapshot of one judgment only.
type pool struct {
	kind       Candidates
	predicates []configured

	mu   sync.Mutex
	idle []*plugins
}

// plugins are those of a pool for one judgment at a time.
type plugins struct {
	handle handle
	list   []plugin
}

// plugin is one that was made.
type plugin struct {
	*configured

	filter fwk.FilterPlugin
	// pre is nil if the plugin prepares nothing, and extensions if what it prepares does not depend on pods.
	pre        fwk.PreFilterPlugin
	extensions fwk.PreFilterExtensions
}

// take returns plugins that nobody else uses. They show the snapshot until they are returned.
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

// give returns plugins to the pool after a judgment, with its error. Those of which one failed are dropped, since nothing
// is known of their state.
func (p *pool) give(taken *plugins, err error) {
	if failed := (*PluginError)(nil); errors.As(err, &failed) {
		return
	}
	taken.handle.world.Snapshot = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, taken)
}

// make makes the plugin of a predicate. It outlives the judgment that it is made for, and so has no context of it.
func (c *configured) make(h *handle) (made plugin, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = failure(c.Name, r)
		}
	}()
	var of fwk.Handle = h
	if c.volumes {
		of = claimless{handle: h, informers: informers.NewSharedInformerFactory(nil, 0)}
	}
	p, err := c.New(context.Background(), c.args, of)
	if err != nil {
		return plugin{}, &PluginError{Predicate: c.Name, Err: fmt.Errorf("it can't be made: %w", err)}
	}
	filter, ok := p.(fwk.FilterPlugin)
	if !ok {
		return plugin{}, &PluginError{Predicate: c.Name, Err: fmt.Errorf("it can't be made: a %T filters nothing", p)}
	}
	made = plugin{configured: c, filter: filter}
	if pre, ok := p.(fwk.PreFilterPlugin); ok {
		made.pre, made.extensions = pre, pre.PreFilterExtensions()
	}
	return made, nil
}

// PluginError says that a predicate failed: no verdict follows from it.
type PluginError struct {
	Predicate string
	Err       error
}

func (e *PluginError) Error() string { return "predicate " + e.Predicate + ": " + e.Err.Error() }

func (e *PluginError) Unwrap() error { return e.Err }
