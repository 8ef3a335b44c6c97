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
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Factory creates a plugin of the scheduler's framework from its arguments and a handle. The plugin must implement FilterPlugin, or else
// every evaluation that needs it fails. It may implement PreFilterPlugin.
type Factory = frameworkruntime.PluginFactory

// Candidates is a set of the kinds of candidates that a predicate can evaluate.
type Candidates uint8

// The kinds of candidates that a pod may be placed on.
const (
	Nodes Candidates = 1 << iota
	Clusters
)

// noun returns the word for one candidate of the kind.
func (c Candidates) noun() string {
	if c == Clusters {
		return "cluster"
	}
	return "node"
}

// Predicate is a filter plugin with its name, how to create it, which kinds of candidates it evaluates, and whether its verdicts are local.
//
// The plugin's handle only offers the nodes and the pods on them (SnapshotSharedLister), the namespaces (the Namespaces
// lister of SharedInformerFactory), and the Parallelizer. They show the snapshot of the current evaluation. As in the
// scheduler, it changes between one PreFilter and the next. The evaluation fails if the plugin uses anything else of the
// handle.
//
// Additional pods on a node may make the plugin reject the node, but must never make it accept the node. The search for
// the replica count relies on this.
type Predicate struct {
	// Name is the plugin's name in lists of predicates.
	Name string
	// New creates the plugin. It is called when an evaluation needs a plugin and all existing ones are in use by other
	// evaluations.
	New Factory
	// Candidates are the kinds of candidates that the plugin evaluates.
	Candidates Candidates
	// Local reports whether a verdict on a node depends only on the pod and on that node with its pods.
	Local bool
}

// knownPredicate is a predicate of a registry, without arguments: the predicate, whether its plugin is the scheduler's own, whether only a
// list that names it uses it, and what the plugin reads.
type knownPredicate struct {
	Predicate
	// inTree reports whether the plugin, with its type of arguments, is the scheduler's own.
	inTree bool
	// optional reports whether the predicate is used only if a configured list names it. See Registry.Default.
	optional bool
	// needsResources reports whether the plugin is skipped for candidates whose resources are unknown.
	needsResources bool
	// ignoresPods reports whether the plugin does not read the pods on a node. It accepts any number of replicas there, or
	// none.
	ignoresPods bool
	// readsVolumes reports whether the plugin evaluates a pod's volumes. The claims of a pod template are created with its
	// pods, so only existing pods have volumes to evaluate.
	readsVolumes bool
}

// Registry is the set of known predicates. It is immutable.
type Registry struct {
	predicates []knownPredicate
}

// scheduler returns the predicates of kube-scheduler, in the order of its default profile: cheap ones come first.
//
// The plugins are imported individually, because the scheduler's own registry (framework/plugins) would link all of
// them.
func scheduler() []knownPredicate {
	fts := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	type adaptable = frameworkruntime.PluginFactoryWithFts[fwk.Plugin]
	both, nodes := Nodes|Clusters, Nodes
	own := func(name string, candidates Candidates, local bool, factory adaptable) knownPredicate {
		p := Predicate{Name: name, New: frameworkruntime.FactoryAdapter(fts, factory), Candidates: candidates, Local: local}
		return knownPredicate{Predicate: p, inTree: true}
	}
	ignoresPods := func(name string, candidates Candidates, factory adaptable) knownPredicate {
		k := own(name, candidates, true, factory)
		k.ignoresPods = true
		return k
	}
	volumes := func(name string, factory adaptable) knownPredicate {
		k := own(name, nodes, false, factory)
		k.optional, k.readsVolumes = true, true
		return k
	}
	fit := own(noderesources.Name, both, true, noderesources.NewFit)
	fit.needsResources = true
	return []knownPredicate{
		ignoresPods(nodeunschedulable.Name, both, nodeunschedulable.New),
		ignoresPods(nodename.Name, nodes, nodename.New),
		ignoresPods(tainttoleration.Name, both, tainttoleration.New),
		ignoresPods(nodeaffinity.Name, both, nodeaffinity.New),
		own(nodeports.Name, nodes, true, nodeports.New),
		fit,
		volumes(volumerestrictions.Name, volumerestrictions.New),
		volumes(nodevolumelimits.CSIName, nodevolumelimits.NewCSI),
		volumes(volumebinding.Name, volumebinding.New),
		volumes(volumezone.Name, volumezone.New),
		own(podtopologyspread.Name, nodes, false, podtopologyspread.New),
		own(interpodaffinity.Name, nodes, false, interpodaffinity.New),
	}
}

// NewRegistry returns a registry with the scheduler's predicates and others. It returns an error if a name is a duplicate, is empty, or has
// a comma or white space, and if a predicate has no factory or evaluates no kind of candidates.
func NewRegistry(others ...Predicate) (*Registry, error) {
	r := &Registry{predicates: scheduler()}
	for _, p := range others {
		switch {
		case p.Name == "":
			return nil, errors.New("a predicate has no name: set Name in app.Predicate")
		case strings.ContainsFunc(p.Name, func(c rune) bool { return c == ',' || unicode.IsSpace(c) }):
			return nil, fmt.Errorf("predicate %q: a name must not have commas, blanks, or line breaks", p.Name)
		case r.lookup(p.Name) != nil:
			return nil, fmt.Errorf("predicate %s: a built-in or another predicate has this name", p.Name)
		case p.New == nil:
			return nil, fmt.Errorf("predicate %s: New is required", p.Name)
		case p.Candidates&(Nodes|Clusters) == 0:
			return nil, fmt.Errorf("predicate %s: Candidates must be Nodes, Clusters, or both", p.Name)
		}
		r.predicates = append(r.predicates, knownPredicate{Predicate: p})
	}
	return r, nil
}

// lookup returns the known predicate with a name; nil if there is none.
func (r *Registry) lookup(name string) *knownPredicate {
	i := slices.IndexFunc(r.predicates, func(k knownPredicate) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &r.predicates[i]
}

// Names returns the names of all known predicates: the scheduler's own in the scheduler's order, then the others.
func (r *Registry) Names() []string {
	return r.names(func(knownPredicate) bool { return true })
}

// Default returns the names of the predicates that are used if no list is configured. These are all except the
// predicates for volumes. Those have no effect on pod templates, and fail for pods with volume claims, because Berth
// does not watch claims. Predicates that NewRegistry added are included.
func (r *Registry) Default() []string {
	return r.names(func(k knownPredicate) bool { return !k.optional })
}

// names returns the names of the known predicates for which want returns true, in their order.
func (r *Registry) names(want func(knownPredicate) bool) []string {
	var names []string
	for _, k := range r.predicates {
		if want(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// New returns the set of the predicates in whitelist, in its order. nil stands for Default, and an empty list for none. It returns an error
// for an unknown name, which lists the known ones, and for duplicate names. It also returns an error for arguments that the plugin's own
// validation rejects, or whose plugin is not in the list. Plugins are created later, when they are first needed.
func (r *Registry) New(whitelist []string, config ...PluginConfig) (*Set, error) {
	if whitelist == nil {
		whitelist = r.Default()
	}
	s := &Set{}
	for _, name := range whitelist {
		k := r.lookup(name)
		if k == nil {
			return nil, fmt.Errorf("there is no predicate %q: known are %s", name, strings.Join(r.Names(), ", "))
		}
		if slices.Contains(s.names, name) {
			return nil, fmt.Errorf("predicate %s is listed twice: remove one of the entries", name)
		}
		s.names = append(s.names, name)
		s.predicates = append(s.predicates, configuredPredicate{knownPredicate: *k})
	}
	if err := configure(s.predicates, config); err != nil {
		return nil, err
	}
	return complete(s), nil
}
