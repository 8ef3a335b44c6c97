package remediation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

const (
	// questionTimeout is what another engine may take for one object, as it may in admission.
	questionTimeout = 4 * time.Second
	// failurePace is how soon an object is decided again that could not be decided for a cause that passes, and
	// failurePaceMax how soon at the latest, if it fails again and again, unless somebody tells that the engine is back.
	failurePace    = 30 * time.Second
	failurePaceMax = 5 * time.Minute
	// failureJitter is by how much of it a pace is longer at most, for objects that failed together to come one by one.
	failureJitter = 0.5
	// patchPace is how soon a patch that failed aside is tried again, and patchPaceMax how soon at the latest.
	patchPace    = 100 * time.Millisecond
	patchPaceMax = time.Minute
)

// errPending says that another engine is being asked about an object, and that its answer will bring the object here.
var errPending = errors.New("another engine is being asked")

func pending(v *placement.Verdict) bool { return errors.Is(v.Err, errPending) }

func remote(v *placement.Verdict) bool {
	_, ok := v.Policy.Remote()
	return ok
}

// passing reports whether a policy could not decide an object for a cause that may go away without a change of the
// cluster: its engine does not answer, an evaluation ran into its deadline, or its data was too old.
func passing(v *placement.Verdict) bool {
	if _, ok := errors.AsType[*engine.RemoteError](v.Err); ok || errors.Is(v.Err, engine.ErrDeadline) {
		return true
	}
	if _, ok := errors.AsType[*engine.QuarantinedError](v.Err); ok {
		return true
	}
	_, ok := errors.AsType[*engine.StaleError](v.Err)
	return ok
}

// aside is what is done beside the workers for objects that other engines decide, so that no worker ever waits for one of
// those: they are asked, in a lane for each of them, and objects are patched, as the API server has them asked again. It is
// safe for concurrent use.
type aside struct {
	lanes *lanes
	// failures is the pace of objects that could not be decided, and patches of those that could not be patched.
	failures, patches workqueue.TypedRateLimiter[remediation.Key]

	mu sync.Mutex
	// questions are those about each object, waiting, asked or answered. An object that is decided has none.
	questions map[remediation.Key][]*question
	// patching are the objects that are being patched.
	patching map[remediation.Key]*patching
	// undecided are the policies that could not decide an object for a cause that passes.
	undecided map[remediation.Key][]string
}

// question is what one policy is asked about one object. While it waits it holds no copy of the object, and is asked
// about the one that there is by then.
type question struct {
	policy *placement.Policy
	key    remediation.Key
	errand *errand
	// part is the answer, and object what it is about; nil while there is none.
	part   *remediation.Part
	object *unstructured.Unstructured
}

// patching is a patch that waits or is on its way.
type patching struct {
	errand *errand
	// again says that the object is to be decided afterwards.
	again bool
}

func newAside() *aside {
	return &aside{
		lanes:     newLanes(),
		failures:  workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](failurePace, failurePaceMax),
		patches:   workqueue.NewTypedItemExponentialFailureRateLimiter[remediation.Key](patchPace, patchPaceMax),
		questions: map[remediation.Key][]*question{}, patching: map[remediation.Key]*patching{},
		undecided: map[remediation.Key][]string{},
	}
}

// answer returns what another engine says of an object; nil if that is not known. Then it is asked, if it is not already,
// and the object comes here again by itself.
func (c *Controller) answer(p *placement.Policy, endpoint string, key remediation.Key, obj *unstructured.Unstructured) *remediation.Part {
	a := c.aside
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.questions[key]
	var q *question
	if i := slices.IndexFunc(asked, func(q *question) bool { return q.policy == p }); i >= 0 {
		q = asked[i]
		if q.part == nil {
			return nil
		}
		if q.object == obj {
			return q.part
		}
		q.part, q.object = nil, nil
	} else {
		q = &question{policy: p, key: key}
		a.questions[key] = append(asked, q)
	}
	q.errand = a.lanes.add(endpoint, func(ctx context.Context) { c.guarded(ctx, key, func() { c.ask(ctx, q) }) })
	return nil
}

// guarded does something for an object in a lane. Nobody above recovers a panic there, as controllers do of their workers; the
// object is looked at again later.
func (c *Controller) guarded(ctx context.Context, key remediation.Key, do func()) {
	defer func() {
		if r := recover(); r != nil {
			for _, handle := range runtime.PanicHandlers {
				handle(ctx, r)
			}
			c.aside.forget(key)
			c.enqueueAfter(key, failurePace)
		}
	}()
	do()
}

// ask asks a question, and has its object decided with the answer if anybody still waits for that.
func (c *Controller) ask(ctx context.Context, q *question) {
	part, obj := c.question(ctx, q)
	if ctx.Err() != nil {
		return
	}
	a := c.aside
	a.mu.Lock()
	wanted := slices.Contains(a.questions[q.key], q)
	if wanted && part == nil {
		a.questions[q.key] = slices.DeleteFunc(a.questions[q.key], func(other *question) bool { return other == q })
	}
	q.part, q.object = part, obj
	a.mu.Unlock()
	if wanted {
		c.enqueue(q.key)
	}
}

// question returns the answer of a policy about an object as it is now; nil if there is nothing to be asked any more.
//
// The object is decided as the workers do it, but for the other policies. So the policy sees of it what it is to see,
// which is not remembered while the question waits.
func (c *Controller) question(ctx context.Context, q *question) (*remediation.Part, *unstructured.Unstructured) {
	obj, fields := c.targets.get(q.key)
	standing := c.Registry.Get(q.policy.Name)
	if obj == nil || standing == nil || standing.Policy != q.policy || !covers(fields, q.policy.Evaluator.Input()) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	ctx, span := c.Tracing.Root(ctx, "remediation question")
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(described(q.key)...)
	}
	part := remediation.NewPart(q.policy)
	outcome, err := c.Decider.Decide(ctx, c.request(q.key, obj, func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error) {
		if p != q.policy {
			return placement.Decision{}, errPending
		}
		return c.evaluate(ctx, p, input)
	}))
	tracing.Fail(span, err)
	if err != nil {
		// The workers meet the same error, and try again.
		return nil, nil
	}
	i := slices.IndexFunc(outcome.Verdicts, func(v *placement.Verdict) bool { return v.Policy == q.policy })
	if i < 0 {
		return nil, nil
	}
	part.Decision, part.Err = outcome.Verdicts[i].Decision, outcome.Verdicts[i].Err
	return part, obj
}

// settled says that an object is decided, so that answers about it are of no use any more, nor those that are still to
// come. It returns after what time the object is to be looked at again; 0 if only after a change.
func (a *aside) settled(key remediation.Key, verdicts []*placement.Verdict) time.Duration {
	a.dropQuestions(key)
	var by []string
	for _, v := range verdicts {
		if passing(v) {
			by = append(by, v.Policy.Name)
		}
	}
	a.leave(key, by)
	if len(by) == 0 {
		a.failures.Forget(key)
		return 0
	}
	return wait.Jitter(a.failures.When(key), failureJitter)
}

// forget says that there is nothing to be done for an object any more.
func (a *aside) forget(key remediation.Key) {
	a.dropQuestions(key)
	a.leave(key, nil)
	a.failures.Forget(key)
	a.patches.Forget(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.patching[key]; p != nil {
		a.lanes.drop(p.errand)
		delete(a.patching, key)
	}
}

// leave notes which policies' engines could not decide an object.
func (a *aside) leave(key remediation.Key, by []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(by) == 0 {
		delete(a.undecided, key)
		return
	}
	a.undecided[key] = by
}

// Recovered has the objects looked at again that a policy's engine could not decide: it answers by now.
func (c *Controller) Recovered(policy string) {
	c.aside.mu.Lock()
	var keys []remediation.Key
	for key, by := range c.aside.undecided {
		if slices.Contains(by, policy) {
			keys = append(keys, key)
		}
	}
	c.aside.mu.Unlock()
	c.enqueue(keys...)
}

func (a *aside) dropQuestions(key remediation.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.questions[key] {
		a.lanes.drop(q.errand)
	}
	delete(a.questions, key)
}

// held says whether an object is being patched. It is to be decided afterwards, and comes here again by itself.
func (a *aside) held(key remediation.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.patching[key]
	if p != nil {
		p.again = true
	}
	return p != nil
}

// patchAside has an object put right beside the workers, if other engines are asked about it: the patch takes as long as
// they do. It says whether they are.
func (c *Controller) patchAside(ctx context.Context, key remediation.Key, obj *unstructured.Unstructured, verdicts, due []*placement.Verdict) bool {
	var endpoints []string
	for _, v := range verdicts {
		if r, ok := v.Policy.Remote(); ok {
			endpoints = append(endpoints, r.Health().Endpoint)
		}
	}
	if len(endpoints) == 0 {
		return false
	}
	slices.Sort(endpoints)
	log := ctrllog.FromContext(ctx)
	a := c.aside
	p := &patching{}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patching[key] = p
	// It waits for all of them, in a lane apart from those in which each of them is asked.
	p.errand = a.lanes.add("patch "+strings.Join(slices.Compact(endpoints), " "), func(ctx context.Context) {
		c.guarded(ctx, key, func() { c.patch(ctrllog.IntoContext(ctx, log), key, p, obj, due) })
	})
	return true
}

// patch has an object put right, and looked at again if that is due.
func (c *Controller) patch(ctx context.Context, key remediation.Key, p *patching, obj *unstructured.Unstructured, due []*placement.Verdict) {
	ctx, span := c.Tracing.Root(ctx, "remediation patch")
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(described(key)...)
	}
	result, err := c.remediate(ctx, key, obj, due)
	tracing.Fail(span, err)
	if ctx.Err() != nil {
		return
	}
	a := c.aside
	if err == nil {
		a.patches.Forget(key)
	} else {
		ctrllog.FromContext(ctx).Error(err, "Patching")
		result.RequeueAfter = a.patches.When(key)
	}
	a.mu.Lock()
	wanted := a.patching[key] == p
	if wanted {
		delete(a.patching, key)
	}
	a.mu.Unlock()
	switch {
	case !wanted:
		// The object is gone.
		a.patches.Forget(key)
	case result.RequeueAfter > 0:
		c.enqueueAfter(key, result.RequeueAfter)
	case p.again:
		c.enqueue(key)
	}
}
