package remediation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/remediation"
)

// worldSettle is how long changes of nodes and pods are gathered before what was asked of predicates is asked again. Where
// much is going on pods come and go by the hundred in a second, and each sweep looks at every answer that a decision hangs
// on. What exists already can wait that long to be found in the wrong place: admission waits for nothing.
const worldSettle = time.Second

// backlog is what has changed since it was looked at.
type backlog struct {
	// policies came into force, or went out of it.
	policies map[*placement.Policy]bool
	// types are those of the objects that changed under data.
	types map[schema.GroupVersionResource]bool
	// world says that nodes or pods changed, worldSettle ago or before.
	world bool
	// all says that every policy is to be looked at.
	all bool
}

func newBacklog() backlog {
	return backlog{policies: map[*placement.Policy]bool{}, types: map[schema.GroupVersionResource]bool{}}
}

// take returns what is to be looked at now.
func (c *Controller) take() backlog {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.backlog
	c.backlog = newBacklog()
	return out
}

// concerns says whether a policy is to be decided anew if what it looks at has changed. One that asks predicates waits for
// the world to settle, unless it is about something else.
func (b *backlog) concerns(p *placement.Policy, standing *placement.Standing) bool {
	return b.all || b.world || standing == nil || standing.Policy != p || !asksPredicates(standing) ||
		slices.ContainsFunc(standing.Binding.Resources, func(r policy.Resource) bool { return b.types[r.GroupVersionResource] })
}

func asksPredicates(s *placement.Standing) bool {
	return s != nil && s.Binding != nil && len(s.Binding.World) > 0
}

// ReadsMore has the policies looked at of which it turned out that they read more than was found.
func (c *Controller) ReadsMore() {
	c.mu.Lock()
	c.backlog.all = true
	c.mu.Unlock()
	wake(c.due)
}

// DataChanged has the policies decide anew whose data changed.
func (c *Controller) DataChanged(resource schema.GroupVersionResource) {
	c.mu.Lock()
	c.backlog.types[resource] = true
	c.mu.Unlock()
	wake(c.due)
}

// WorldChanged has the policies that ask predicates decide anew, together with all changes that follow soon.
func (c *Controller) WorldChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil || c.gathering {
		return
	}
	c.gathering = true
	time.AfterFunc(worldSettle, func() {
		c.mu.Lock()
		// A change that is not in what is looked at from now on gathers anew.
		c.gathering, c.backlog.world = false, true
		c.mu.Unlock()
		wake(c.due)
	})
}

// decideAgain has objects decided again after a decision on one of them. If that one itself was overtaken by a change, it
// waits for the world to settle where predicates were asked: under changes without end it would be decided without end.
func (c *Controller) decideAgain(decided remediation.Key, verdicts []*placement.Verdict, again []remediation.Key) {
	asked := slices.ContainsFunc(verdicts, func(v *placement.Verdict) bool { return asksPredicates(c.Registry.Get(v.Policy.Name)) })
	if asked && slices.Contains(again, decided) {
		again = slices.DeleteFunc(again, func(key remediation.Key) bool { return key == decided })
		c.mu.Lock()
		queue := c.queue
		c.mu.Unlock()
		if queue != nil {
			queue.AddAfter(decided, worldSettle)
		}
	}
	c.enqueue(again...)
}
