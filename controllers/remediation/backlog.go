package remediation

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/remediation"
)

// worldSettle is how long changes of nodes and pods are gathered before what was asked of predicates is asked again, and
// those of the data of other engines before they are asked again. Where much is going on pods come and go by the hundred in
// a second, and each sweep looks at every answer that a decision hangs on. What exists already can wait that long to be
// found in the wrong place: admission waits for nothing.
const worldSettle = time.Second

// backlog is what has changed since it was looked at.
type backlog struct {
	// policies came into force, or went out of it.
	policies map[*placement.Policy]bool
	// types are those of the objects that changed under data.
	types map[schema.GroupVersionResource]bool
	// world says that nodes or pods changed, worldSettle ago or before.
	world bool
	// revised says that policies that other engines decide are to be asked anew, worldSettle ago or before.
	revised bool
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
// the world to settle, unless it is about something else, and one that another engine decides for that one's data.
func (b *backlog) concerns(p *placement.Policy, standing *placement.Standing) bool {
	if b.all || standing == nil || standing.Policy != p {
		return true
	}
	if _, ok := p.Remote(); ok {
		return b.revised
	}
	return b.world || !asksPredicates(standing) ||
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
	c.gather(&c.gathering.world, func(b *backlog) { b.world = true })
}

// Revised has the policies decide anew that other engines decide and whose revision is another one, together with all that
// change soon.
func (c *Controller) Revised() {
	c.gather(&c.gathering.revised, func(b *backlog) { b.revised = true })
}

// gather notes changes of one kind in the backlog after worldSettle. It does nothing if that is about to happen.
func (c *Controller) gather(gathering *bool, note func(*backlog)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil || *gathering {
		return
	}
	*gathering = true
	time.AfterFunc(worldSettle, func() {
		c.mu.Lock()
		// A change that is not in what is looked at from now on gathers anew.
		*gathering = false
		note(&c.backlog)
		c.mu.Unlock()
		wake(c.due)
	})
}

// decideAgain has objects decided again after a decision on one of them. If that one itself was overtaken by a change, it
// waits for the world to settle where predicates or another engine were asked: under changes without end it would be
// decided without end. Where an engine gave no answer it is looked at again anyhow, at the pace of failures.
func (c *Controller) decideAgain(decided remediation.Key, verdicts []*placement.Verdict, again []remediation.Key) {
	settles := func(v *placement.Verdict) bool { return remote(v) || asksPredicates(c.Registry.Get(v.Policy.Name)) }
	if slices.Contains(again, decided) && slices.ContainsFunc(verdicts, settles) {
		again = slices.DeleteFunc(again, func(key remediation.Key) bool { return key == decided })
		if !slices.ContainsFunc(verdicts, passing) {
			c.enqueueAfter(decided, worldSettle)
		}
	}
	if len(again) > 1 {
		// A change of data is found here before the sweep finds it.
		assessment := c.Ledger.Assess(c.Clock.Now(), c.automatic(policiesOf(verdicts))...)
		defer c.complete(context.Background(), assessment)
		assessment.Add(again...)
	}
	c.enqueue(again...)
}
