package remediation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/watches"
)

const (
	// readyPace is how often a leader that is not ready yet looks again.
	readyPace = 200 * time.Millisecond
	// settlePace is how often a leader looks whether the objects of policies have been decided that an earlier one paused.
	settlePace = time.Second
	// settle is how long changes of policies and of data are gathered after some that were looked at.
	settle = 20 * time.Millisecond
	// sweepers is how many policies are decided anew at once after a change of data, so that a slow one does not hold up
	// all others.
	sweepers = 4
)

// start is the controller's source: it keeps the watches on what policies match, and follows policies and data.
//
// Nothing may be decided before everything is loaded, so nothing is read before. It would be read again for many a
// policy that is loaded after it.
func (c *Controller) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[remediation.Key]) error {
	c.mu.Lock()
	c.queue = queue
	c.mu.Unlock()
	c.aside.lanes.start(ctx)
	go func() {
		for !c.Ready(ctx) {
			if !pause(ctx, readyPace) {
				return
			}
		}
		if !c.resume(ctx) {
			return
		}
		go c.follow(ctx)
		c.watch(ctx)
	}()
	return nil
}

// pause waits; it says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch keeps the watches until ctx ends.
func (c *Controller) watch(ctx context.Context) {
	for {
		c.watches.Set(ctx, c.wanted())
		// Policies seldom come alone, and each may need more fields than the one before.
		if !pause(ctx, settle) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-c.rewatch:
		}
	}
}

// wanted are the types that policies with remediation match, and of each the fields that deciding needs.
func (c *Controller) wanted() map[schema.GroupVersionResource]*projection.Fields {
	out := map[schema.GroupVersionResource]*projection.Fields{}
	for _, p := range c.Registry.InForce() {
		for _, r := range c.matched.by(p) {
			if _, known := out[r]; !known {
				out[r] = c.needs.of(r)
			}
		}
	}
	return out
}

// TargetState returns how the watches on what a policy matches fare: the first error, and whether all are complete, with
// what the policy reads.
func (c *Controller) TargetState(p *placement.Policy) watches.State {
	reads := p.Evaluator.Input()
	if reads.Whole() || p.Matcher.Conditional() {
		reads = nil
	}
	out := watches.State{Synced: true}
	for _, r := range c.matched.by(p) {
		state, _ := c.watches.StateOf(r, reads)
		out.Synced = out.Synced && state.Synced
		if state.Err != nil && out.Err == nil {
			out.Err = fmt.Errorf("reading %s: %w", r.GroupResource(), state.Err)
		}
	}
	return out
}

// Deciding reports whether existing objects of the types that a policy matches are about to be decided.
func (c *Controller) Deciding(p *placement.Policy) bool { return c.targets.deciding(c.matched.by(p)) }

// matched remembers which served types the remediation of policies looks at. It is safe for concurrent use.
type matched struct {
	catalog Catalog

	mu       sync.Mutex
	byPolicy map[*placement.Policy][]schema.GroupVersionResource
}

func newMatched(catalog Catalog) *matched {
	return &matched{catalog: catalog, byPolicy: map[*placement.Policy][]schema.GroupVersionResource{}}
}

func (m *matched) by(p *placement.Policy) []schema.GroupVersionResource {
	if !p.Followed() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out, known := m.byPolicy[p]
	if !known {
		out = resourcesOf(m.catalog.Select(p.Matcher.SelectsResource))
		m.byPolicy[p] = out
	}
	return out
}

func resourcesOf(resources []policy.Resource) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, r := range resources {
		out = append(out, r.GroupVersionResource)
	}
	return out
}

// forget forgets a policy; nil stands for all of them.
func (m *matched) forget(p *placement.Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p == nil {
		clear(m.byPolicy)
	}
	delete(m.byPolicy, p)
}

// enqueue has objects decided.
func (c *Controller) enqueue(keys ...remediation.Key) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue == nil {
		// Not started: this replica is not the leader. The watches will bring every object.
		return
	}
	for _, key := range c.targets.queue(keys) {
		queue.Add(key)
	}
}

// enqueueAfter has an object decided after a while.
func (c *Controller) enqueueAfter(key remediation.Key, d time.Duration) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue != nil {
		queue.AddAfter(key, d)
	}
}

// Rewatch has the watched types computed anew; what the API server serves has changed.
func (c *Controller) Rewatch() {
	c.matched.forget(nil)
	wake(c.rewatch)
}

// policyChanged has every object decided that the policy matched or matches.
func (c *Controller) policyChanged(name string, before, after *placement.Policy) {
	if after == before {
		return
	}
	if after == nil {
		c.Ledger.ForgetPolicy(name)
	}
	c.matched.forget(before)
	c.enqueue(c.gate.forget(name)...)
	c.mu.Lock()
	for _, p := range []*placement.Policy{before, after} {
		if c.queue != nil && p != nil {
			c.backlog.policies[p] = true
		}
	}
	c.mu.Unlock()
	wake(c.rewatch)
	wake(c.due)
}

// NamespaceChanged has the objects of a namespace decided: selectors may match it now, or no longer.
func (c *Controller) NamespaceChanged(namespace string) {
	keys := c.targets.within(namespace)
	if len(keys) > 1 {
		assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(c.Registry.InForce())...)
		assessment.Add(keys...)
		defer c.complete(context.Background(), assessment)
	}
	c.enqueue(keys...)
}

// follow has objects decided whose policies or data changed, until ctx ends.
func (c *Controller) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.due:
		}
		c.catchUp(ctx)
		if !pause(ctx, settle) {
			return
		}
	}
}

// catchUp has objects decided whose policies or data changed since it was called last.
func (c *Controller) catchUp(ctx context.Context) {
	changes := c.take()
	c.policiesChanged(ctx, slices.Collect(maps.Keys(changes.policies)))
	c.sweep(ctx, &changes)
}

// policiesChanged has the objects decided that some policies may match, or may have matched.
func (c *Controller) policiesChanged(ctx context.Context, policies []*placement.Policy) {
	if len(policies) == 0 {
		return
	}
	selects := func(r schema.GroupVersionResource) bool {
		return slices.ContainsFunc(policies, func(p *placement.Policy) bool { return p.Matcher.SelectsResource(r) })
	}
	// What did not settle under the old policy may under the new one.
	c.brake.ForgetAll(func(key remediation.Key) bool { return selects(key.Resource) })
	assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(policies)...)
	defer c.complete(ctx, assessment)
	for resource, byNamespace := range c.targets.idle(selects) {
		for namespace, objects := range byNamespace {
			matchers := c.selecting(ctx, policies, resource, namespace)
			var keys []remediation.Key
			for _, o := range objects {
				l := o.GetLabels()
				if slices.ContainsFunc(matchers, func(m *match.Matcher) bool { return m.SelectsLabels(l) }) {
					keys = append(keys, keyOf(resource, o))
				}
			}
			assessment.Add(keys...)
			c.enqueue(keys...)
		}
	}
}

// selecting returns the matchers of the policies that select a type, in a namespace.
func (c *Controller) selecting(ctx context.Context, policies []*placement.Policy, resource schema.GroupVersionResource, namespace string) []*match.Matcher {
	var labels map[string]string
	var err error
	if namespace != "" {
		labels, err = c.Decider.Namespaces.Labels(ctx, namespace)
	}
	var out []*match.Matcher
	for _, p := range policies {
		// Without labels it is for the decision to say.
		if p.Matcher.SelectsResource(resource) && (err != nil || p.Matcher.SelectsNamespace(namespace, labels)) {
			out = append(out, p.Matcher)
		}
	}
	return out
}

// sweep has the policies whose data changed decide each of their groups anew.
func (c *Controller) sweep(ctx context.Context, changes *backlog) {
	if c.needs.widened() {
		wake(c.rewatch)
	}
	var group errgroup.Group
	group.SetLimit(sweepers)
	for _, p := range c.Registry.InForce() {
		if !c.groups.Stale(p) || !changes.concerns(p, c.Registry.Get(p.Name)) {
			continue
		}
		group.Go(func() error {
			c.sweepPolicy(ctx, p)
			return nil
		})
	}
	_ = group.Wait()
}

// feedsItself reports whether what a policy writes comes back to it as data, by itself or through another policy. Its own
// patches are no reason to hold down the next one: the brake ends what does not settle, and says so.
func (c *Controller) feedsItself(name string) bool {
	p := c.Registry.Get(name)
	if p == nil || p.Policy == nil || p.Binding == nil || len(p.Binding.Resources) == 0 {
		return false
	}
	reads := func(of, by *placement.Standing) bool {
		return of.Binding != nil && slices.ContainsFunc(of.Binding.Resources, func(r policy.Resource) bool { return by.Policy.Matcher.SelectsResource(r.GroupVersionResource) })
	}
	for _, other := range c.Registry.All() {
		if reads(p, other) && reads(other, p) {
			return true
		}
	}
	return false
}

func (c *Controller) sweepPolicy(ctx context.Context, p *placement.Policy) {
	ctx, span := c.Tracing.Root(ctx, "remediation sweep")
	defer span.End()
	assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic([]*placement.Policy{p})...)
	defer c.complete(ctx, assessment)
	c.gate.changed(p.Name)
	c.groups.Sweep(p, func(namespace string, input map[string]any) (placement.Decision, error) {
		return c.evaluate(placement.WithNamespace(ctx, namespace), p, input)
	},
		func(keys []remediation.Key) {
			assessment.Add(keys...)
			c.enqueue(keys...)
		})
}
