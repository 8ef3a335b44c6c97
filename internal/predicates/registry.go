package predicates

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
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

// Factory makes a plugin of the scheduler's framework from its arguments and a handle. The plugin has to be a
// FilterPlugin, and may be a PreFilterPlugin.
type Factory = frameworkruntime.PluginFactory

// Candidates are kinds of what a predicate can judge.
type Candidates uint8

// What a pod may be placed on.
const (
	Nodes Candidates = 1 << iota
	Clusters
)

// noun is what one of them is called.
func (c Candidates) noun() string {
	if c == Clusters {
		return "cluster"
	}
	return "node"
}

// Predicate is a filter plugin, and what is said of it where it is registered.
//
// Of the scheduler's handle a plugin has the nodes and the pods on them (SnapshotSharedLister), the namespaces (the
// Namespaces lister of SharedInformerFactory) and the Parallelizer. What they show is that of the judgment at hand: it
// changes between a PreFilter and the next one, as it does in the scheduler. Whatever else the handle is asked for fails
// the judgment.
//
// More pods on a node may make the plugin object there, but never make it agree: how many replicas fit is searched for.
type Predicate struct {
	// Name is that of the plugin, as the white-list has it.
	Name string
	// New makes the plugin. It is called for as many judgments as there are at the same time, when they need it.
	New Factory
	// Judges says for which candidates the plugin is asked.
	Judges Candidates
	// Local says that a verdict on one node depends on the pod and that node, its pods among it, and on nothing else.
	Local bool
}

// known is a predicate of a registry.
type known struct {
	Predicate
	// inTree says that the plugin is the scheduler's, and so are its arguments.
	inTree bool
	// optional ones are on a white-list only if they are named there.
	optional bool
	// resources says that the plugin is not asked where nothing is known of the resources that there are.
	resources bool
	// podless says that the plugin does not look at the pods on a node: it lets any number of replicas run there, or none.
	podless bool
	// volumes says that the plugin judges the volumes of a pod. The claims of a template are made with its pods, so that
	// only pods that exist have some to judge.
	volumes bool
}

// Registry is the set of known predicates. It is immutable.
type Registry struct {
	predicates []known
}

// scheduler returns the predicates of kube-scheduler, in the order of its default profile: what is cheap comes first.
//
// They are imported one by one, since the scheduler's own registry (framework/plugins) would link all its plugins.
func scheduler() []known {
	fts := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	both, nodes := Nodes|Clusters, Nodes
	own := func(name string, judges Candidates, local bool, factory Factory) known {
		return known{Predicate: Predicate{Name: name, New: factory, Judges: judges, Local: local}, inTree: true}
	}
	podless := func(name string, judges Candidates, factory Factory) known {
		k := own(name, judges, true, factory)
		k.podless = true
		return k
	}
	volumes := func(name string, factory Factory) known {
		k := own(name, nodes, false, factory)
		k.optional, k.volumes = true, true
		return k
	}
	fit := own(noderesources.Name, both, true, frameworkruntime.FactoryAdapter(fts, noderesources.NewFit))
	fit.resources = true
	return []known{
		podless(nodeunschedulable.Name, both, frameworkruntime.FactoryAdapter(fts, nodeunschedulable.New)),
		podless(nodename.Name, nodes, frameworkruntime.FactoryAdapter(fts, nodename.New)),
		podless(tainttoleration.Name, both, frameworkruntime.FactoryAdapter(fts, tainttoleration.New)),
		podless(nodeaffinity.Name, both, frameworkruntime.FactoryAdapter(fts, nodeaffinity.New)),
		own(nodeports.Name, nodes, true, frameworkruntime.FactoryAdapter(fts, nodeports.New)),
		fit,
		volumes(volumerestrictions.Name, frameworkruntime.FactoryAdapter(fts, volumerestrictions.New)),
		volumes(nodevolumelimits.CSIName, frameworkruntime.FactoryAdapter(fts, nodevolumelimits.NewCSI)),
		volumes(volumebinding.Name, frameworkruntime.FactoryAdapter(fts, volumebinding.New)),
		volumes(volumezone.Name, frameworkruntime.FactoryAdapter(fts, volumezone.New)),
		own(podtopologyspread.Name, nodes, false, frameworkruntime.FactoryAdapter(fts, podtopologyspread.New)),
		own(interpodaffinity.Name, nodes, false, frameworkruntime.FactoryAdapter(fts, interpodaffinity.New)),
	}
}

// NewRegistry returns a registry of the scheduler's own predicates and some others. A name that can't be
// on a list, or is there twice, is an error, and so is a predicate that nothing makes, or that judges nothing.
func NewRegistry(others ...Predicate) (*Registry, error) {
	r := &Registry{predicates: scheduler()}
	for _, p := range others {
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("a predicate needs a name")
		case strings.ContainsFunc(p.Name, func(c rune) bool { return c == ',' || unicode.IsSpace(c) }):
			return nil, fmt.Errorf("predicate %q: a name has no commas, blanks or line breaks", p.Name)
		case r.lookup(p.Name) != nil:
			return nil, fmt.Errorf("there are two predicates %s", p.Name)
		case p.New == nil:
			return nil, fmt.Errorf("predicate %s: nothing makes it", p.Name)
		case p.Judges&(Nodes|Clusters) == 0:
			return nil, fmt.Errorf("predicate %s: it judges neither nodes nor clusters", p.Name)
		}
		r.predicates = append(r.predicates, known{Predicate: p})
	}
	return r, nil
}

func (r *Registry) lookup(name string) *known {
	i := slices.IndexFunc(r.predicates, func(k known) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &r.predicates[i]
}

// Names are those of all known predicates: the scheduler's own in the scheduler's order, then the others.
func (r *Registry) Names() []string {
	return r.names(func(known) bool { return true })
}

// Default are the names of the white-list where nobody sets one: those of Names but for the predicates of volumes, which
// say nothing of templates, and fail for pods that claim volumes, since nothing watches claims. Whoever registers a
// predicate wants it.
func (r *Registry) Default() []string {
	return r.names(func(k known) bool { return !k.optional })
}

func (r *Registry) names(want func(known) bool) []string {
	var names []string
	for _, k := range r.predicates {
		if want(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// New returns the set of the predicates that are on a white-list, in its order; nil stands for Default. An unknown name
// is an error that lists the known ones, and so are a name that is there twice, and arguments that the plugin's own
// validation refuses, or that are for a plugin that is not on the list. No plugin is made before something is judged.
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
			return nil, fmt.Errorf("predicate %s is there twice", name)
		}
		s.names = append(s.names, name)
		s.predicates = append(s.predicates, configured{known: *k})
	}
	if err := configure(s.predicates, config); err != nil {
		return nil, err
	}
	return complete(s), nil
}
