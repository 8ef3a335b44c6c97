// Package supply keeps the engines that decide policies elsewhere supplied with the objects and modules that the policies
// want there. It runs on the leader: an engine has one who writes to it.
package supply

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/engine/remote"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/watches"
)

// Deps are what a Controller works with.
type Deps struct {
	Client   dynamic.Interface
	Registry *placement.Registry
	// Engine is how engines are reached, and told that what they have changed.
	Engine      *remote.Engine
	Inventories *replication.Inventories
	// History tells when the API server's store has gone back to an earlier state; nil for never.
	History *watches.History
	// Observer is told how it fares; nil for nobody.
	Observer remote.SupplyObserver
	// Loaded says whether all policies that there are were looked at: an engine loses nothing since a policy is not known
	// yet.
	Loaded func(context.Context) bool
}

// Controller supplies. Create it with New, add it to a manager as a Runnable.
type Controller struct {
	deps Deps
	// wake says that the set of policies changed.
	wake chan struct{}

	mu          sync.Mutex
	subscribers []func(policy string)
	// supply and watches are there while this replica leads.
	supply  *remote.Supply
	watches *watches.Manager
}

// New returns a controller.
func New(d Deps) *Controller {
	c := &Controller{deps: d, wake: make(chan struct{}, 1)}
	d.Registry.Subscribe(func(string, *placement.Policy, *placement.Policy) {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	})
	return c
}

// NeedLeaderElection says that the leader supplies.
func (*Controller) NeedLeaderElection() bool { return true }

// Subscribe has f called whenever State or Failure of a policy may have changed. f must be quick. Subscribe before Start.
func (c *Controller) Subscribe(f func(policy string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, f)
}

// loadedEvery is how often is looked whether all policies are known.
const loadedEvery = 100 * time.Millisecond

// Start follows the policies until ctx ends. It leaves the engines as they are.
func (c *Controller) Start(ctx context.Context) error {
	supply := c.deps.Engine.NewSupply(remote.SupplyOptions{
		Inventories: c.deps.Inventories, Observer: c.deps.Observer,
		Content: c.deps.Engine.Supplied, State: c.tell,
	})
	manager := watches.NewManager(c.deps.Client, supply, func(r schema.GroupVersionResource) { c.tell(c.wanting(r)...) })
	manager.Prepare, manager.History = c.deps.Inventories.Prepare, c.deps.History
	// It ends with an error only if ctx does.
	if wait.PollUntilContextCancel(ctx, loadedEvery, true, func(ctx context.Context) (bool, error) { return c.deps.Loaded(ctx), nil }) != nil {
		return nil
	}
	c.lead(supply, manager)
	defer c.lead(nil, nil)
	for {
		wanted := wantedOf(c.deps.Registry)
		types := map[schema.GroupVersionResource]*projection.Fields{}
		for _, w := range wanted {
			for _, r := range w.Types {
				types[r.GroupVersionResource] = projection.Everything()
			}
		}
		manager.Set(ctx, types)
		supply.Set(ctx, wanted)
		select {
		case <-ctx.Done():
			supply.Wait()
			return nil
		case <-c.wake:
		}
	}
}

func (c *Controller) lead(supply *remote.Supply, manager *watches.Manager) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.supply, c.watches = supply, manager
}

func (c *Controller) current() (*remote.Supply, *watches.Manager) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.supply, c.watches
}

func (c *Controller) tell(policies ...string) {
	c.mu.Lock()
	subscribers := c.subscribers
	c.mu.Unlock()
	for _, p := range policies {
		for _, f := range subscribers {
			f(p)
		}
	}
}

// State returns how bringing a type to a policy's engine fares, synced once it is there, and how many objects it has.
func (c *Controller) State(policy string, resource schema.GroupVersionResource) (watches.State, int) {
	supply, manager := c.current()
	if supply == nil {
		return watches.State{}, 0
	}
	state, _ := manager.State(resource)
	held, objects := supply.Held(policy, resource)
	state.Synced = state.Synced && held
	return state, objects
}

// Failure is why what a policy wants can't be brought to its engine; nil if nothing is known against it.
func (c *Controller) Failure(policy string) error {
	supply, _ := c.current()
	if supply == nil {
		return nil
	}
	return supply.Failure(policy)
}

// wanting are the policies that want a type in their engines.
func (c *Controller) wanting(resource schema.GroupVersionResource) []string {
	var out []string
	for _, w := range wantedOf(c.deps.Registry) {
		if slices.ContainsFunc(w.Types, func(r policy.Resource) bool { return r.GroupVersionResource == resource }) {
			out = append(out, w.Policy)
		}
	}
	return slices.Compact(out)
}

// wantedOf is what the policies in force, and those that are to come, want in engines. What is to come is said after what
// it takes over from.
func wantedOf(registry *placement.Registry) []remote.Supplied {
	var out []remote.Supplied
	for name, standing := range registry.All() {
		for _, b := range standing.Bindings() {
			if b.Remote != nil && b.Remote.Supplied() {
				out = append(out, remote.Supplied{Policy: name, Remote: b.Remote, Types: b.Supplies})
			}
		}
	}
	return out
}
