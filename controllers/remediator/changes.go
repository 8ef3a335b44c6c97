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

package remediator

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/notify"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/printable"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/tracing"
)

const (
	// predicateSettle is how long changes of nodes and pods are collected before predicates are evaluated again, and changes of remote
	// engines' data before those are queried again. In a busy cluster hundreds of pods come and go in a second. Admission does not wait.
	predicateSettle = time.Second
	// settle is the minimum time between two sweeps, and between two updates of the watches: policies are often created together.
	settle = 20 * time.Millisecond
)

// sweepers is how many policies are swept concurrently after a change of data: one for each processor, and at least four, so that a slow
// policy does not delay all others.
var sweepers = max(4, runtime.GOMAXPROCS(0))

// backlog collects the changes of policies and data that follow has not processed yet. It is safe for concurrent use.
type backlog struct {
	due notify.Signal // Wakes Controller.follow when there are changes.

	mu      sync.Mutex
	changes changes // What has been collected and not taken yet.
}

// changes are changes of policies and data after which objects must be decided again.
type changes struct {
	// policies are the versions of policies that came into force or went out of force, and whose objects have not been enqueued since.
	policies []*placement.Policy
	types    sets.Set[schema.GroupVersionResource] // The types of the replicated objects that changed.
	// predicateData is set once nodes or pods changed, and remoteRevision once the data of a remote engine changed, each predicateSettle
	// after the change. all is set when every policy must be decided again.
	predicateData, remoteRevision, all bool
}

// add has a function add a change to those collected, and wakes Controller.follow.
func (b *backlog) add(change func(*changes)) {
	b.mu.Lock()
	change(&b.changes)
	b.mu.Unlock()
	b.due.Notify()
}

// policies returns the versions of policies among the collected changes, which it does not remove.
func (b *backlog) policies() []*placement.Policy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes.policies
}

// has reports whether one of the versions of policies is among the collected changes.
func (b *backlog) has(policies ...*placement.Policy) bool {
	changed := b.policies()
	return slices.ContainsFunc(policies, func(p *placement.Policy) bool { return slices.Contains(changed, p) })
}

// take returns the collected changes, and removes them, except for the versions of policies after the first n.
func (b *backlog) take(n int) changes {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.changes
	b.changes = changes{types: sets.New[schema.GroupVersionResource](), policies: append([]*placement.Policy{}, out.policies[n:]...)}
	return out
}

// cause returns why a version of a policy must be decided again, and reports whether the changes require that. A change of nodes or pods
// does so only after predicateSettle. A policy with a remote engine is decided again only after remoteRevision or all is set.
func (b *changes) cause(p *placement.Policy, state *placement.PolicyState) (cause remediation.Cause, concerned bool) {
	binding, data := state.BindingOf(p), sets.New[string]()
	if binding != nil {
		for _, r := range binding.Resources {
			if b.types.Has(r.GroupVersionResource) {
				data.Insert(r.GroupResource().String())
			}
		}
	}
	concerned = b.predicateData || !usesPredicates(binding) || len(data) > 0
	if _, remote := p.Remote(); remote {
		concerned = b.remoteRevision
	}
	if b.predicateData && usesPredicates(binding) {
		data.Insert(predicatesData)
	}
	if len(data) == 0 {
		data.Insert(anyData)
	}
	return remediation.Cause{Data: data}, concerned || b.all || !state.Decides(p)
}

// usesPredicates reports whether a version of a policy, given by its binding, evaluates predicates; false for nil.
func usesPredicates(b *policy.Binding) bool { return b != nil && len(b.PredicateReads) > 0 }

// after calls do after a delay. Requests with the same name until then cause no other call. It is safe for concurrent use.
func (c *Controller) after(name string, delay time.Duration, do func()) {
	if _, scheduled := c.scheduled.LoadOrStore(name, true); !scheduled {
		time.AfterFunc(delay, func() {
			// do may miss whatever happens from now on, so that must schedule another call.
			c.scheduled.Delete(name)
			do()
		})
	}
}

// FieldsReadChanged requests that all policies are decided again because some policy reads fields that the analysis of its rules missed.
func (c *Controller) FieldsReadChanged() {
	c.types.fieldsChanged()
	c.rewatch.Notify()
	c.backlog.add(func(b *changes) { b.all = true })
}

// DataChanged requests that the policies that read a type are decided again. It does not block.
func (c *Controller) DataChanged(resource schema.GroupVersionResource) {
	c.backlog.add(func(b *changes) { b.types.Insert(resource) })
}

// PredicateDataChanged requests that the policies with predicates are decided again, once for all changes within predicateSettle.
func (c *Controller) PredicateDataChanged() {
	c.collect("predicates", func(b *changes) { b.predicateData = true })
}

// RemoteRevisionChanged requests that policies whose remote engine's revision changed are decided again, once within predicateSettle.
func (c *Controller) RemoteRevisionChanged() {
	c.collect("revisions", func(b *changes) { b.remoteRevision = true })
}

// collect adds a change to the backlog after predicateSettle; several changes of one name until then, once. Before start, it does nothing.
func (c *Controller) collect(name string, change func(*changes)) {
	if c.objects.started() {
		c.after(name, predicateSettle, func() { c.backlog.add(change) })
	}
}

// policyChanged requests that the objects that the policy matched before or matches now are decided again.
func (c *Controller) policyChanged(p placement.PolicyChange) {
	if slices.Equal(p.After, p.Before) {
		return
	}
	if len(p.After) == 0 {
		c.Ledger.ForgetPolicy(p.Name)
	}
	c.types.fieldsChanged(p.Before...)
	// settleReadiness must find it here when the scheduler knows of it.
	if c.objects.started() {
		c.backlog.add(func(b *changes) { b.policies = append(append(b.policies, p.Before...), p.After...) })
	}
	c.Scheduler.PolicyChanged(c.Clock.Now(), p.Name, budgeted(p.After))
	c.rewatch.Notify()
}

// budgeted returns, of the deciding versions of one policy, the one whose settings the Scheduler applies; nil if there is none. All have
// the same budget, so it is one that may change pod templates, if any may.
func budgeted(versions []*placement.Policy) *placement.Policy {
	if i := slices.IndexFunc(versions, (*placement.Policy).WatchesRollouts); i >= 0 {
		return versions[i]
	}
	if len(versions) == 0 {
		return nil
	}
	return versions[0]
}

// NamespaceChanged enqueues the objects of a namespace because its labels changed, so that policies may select it now, or no longer.
func (c *Controller) NamespaceChanged(namespace string) {
	fact := remediation.Fact{Namespace: namespace, Text: printable.Text(fmt.Sprintf("the labels of namespace %s changed", namespace))}
	c.enqueueTogether(remediation.Cause{Facts: []remediation.Fact{fact}}, c.Registry.InForce(), c.objects.within(namespace))
}

// listed enqueues the objects of a type that were added, changed, or deleted since the type was listed before.
func (c *Controller) listed(resource schema.GroupVersionResource, keys []remediation.Key) {
	c.enqueueTogether(remediation.Cause{}, c.selecting(resource), keys)
}

// selecting returns the policies in force whose match rules select a type of objects.
func (c *Controller) selecting(resource schema.GroupVersionResource) (out []*placement.Policy) {
	for _, p := range c.Registry.InForce() {
		if p.Matcher.SelectsResource(resource) {
			out = append(out, p)
		}
	}
	return out
}

// follow processes changes of policies and data until ctx ends.
func (c *Controller) follow(ctx context.Context) {
	c.swept.Store(new(c.Data.State()))
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-c.backlog.due:
			c.catchUp(ctx)
		}
	}, settle)
}

// catchUp enqueues the objects whose policies or data changed since the last call.
func (c *Controller) catchUp(ctx context.Context) {
	policies := c.backlog.policies()
	c.policiesChanged(ctx, policies)
	changes := c.backlog.take(len(policies))
	// Until the sweep ends, what changed since the sweep before may be the cause of a decision.
	state := c.Data.State()
	c.sweep(ctx, &changes)
	c.swept.Store(&state)
	// It keeps the state before the sweep in memory.
	c.lately.Store(nil)
}

// policiesChanged enqueues the objects that the policies match or may have matched.
func (c *Controller) policiesChanged(ctx context.Context, policies []*placement.Policy) {
	if len(policies) == 0 {
		return
	}
	selects := func(r schema.GroupVersionResource) bool {
		return slices.ContainsFunc(policies, func(p *placement.Policy) bool { return p.Matcher.SelectsResource(r) })
	}
	// An object that did not settle under the earlier policy may settle under the new one.
	c.Scheduler.ForgetPatches(func(key remediation.Key) bool { return selects(key.Resource) })
	c.assess(ctx, remediation.Cause{Policy: true}, nil, policies, func(enqueue func([]remediation.Key)) {
		for resource, byNamespace := range c.objects.idle(selects) {
			for namespace, keys := range byNamespace {
				matchers := c.matchers(ctx, policies, resource, namespace)
				if len(matchers) == 0 {
					continue
				}
				enqueue(slices.DeleteFunc(keys, func(key remediation.Key) bool {
					labels := c.objects.labels(key)
					return !slices.ContainsFunc(matchers, func(m *match.Matcher) bool { return m.SelectsLabels(labels) })
				}))
			}
		}
	})
}

// matchers returns the matchers of those policies that select a type in a namespace.
func (c *Controller) matchers(ctx context.Context, policies []*placement.Policy, resource schema.GroupVersionResource, namespace string) []*match.Matcher {
	// A Namespace, which has no namespace either, is matched by its own labels. If the namespace's labels are unknown, the decision finds out
	// whether the policy matches.
	all := namespace == ""
	var labels map[string]string
	if !all {
		var err error
		labels, err = c.Decider.Namespaces.Labels(ctx, namespace)
		all = err != nil
	}
	var out []*match.Matcher
	for _, p := range policies {
		if p.Matcher.SelectsResource(resource) && (all || p.Matcher.SelectsNamespace(namespace, labels)) {
			out = append(out, p.Matcher)
		}
	}
	return out
}

// sweep evaluates each policy whose data changed, once for each group of equal objects, and enqueues the objects whose decision changes.
func (c *Controller) sweep(ctx context.Context, changes *changes) {
	var group errgroup.Group
	group.SetLimit(sweepers)
	for _, p := range c.Registry.InForce() {
		if !c.Ledger.Groups.Stale(p) {
			continue
		}
		cause, concerned := changes.cause(p, c.Registry.Get(p.Name))
		if !concerned {
			continue
		}
		group.Go(func() error {
			ctx, span := c.Tracing.Root(ctx, "remediation sweep")
			defer span.End()
			c.Scheduler.DataChanged(p.Name)
			evaluate := func(namespace string, input map[string]any) (placement.Decision, error) {
				return c.evaluate(placement.WithNamespace(ctx, namespace), p, input)
			}
			c.assess(ctx, cause, c.facts, []*placement.Policy{p}, func(enqueue func([]remediation.Key)) { c.Ledger.Groups.Sweep(p, evaluate, enqueue) })
			return nil
		})
	}
	_ = group.Wait()
}

// enqueueTogether enqueues the objects that must be decided again because of one change. If there are several, it does so by assess.
func (c *Controller) enqueueTogether(cause remediation.Cause, policies []*placement.Policy, keys []remediation.Key) {
	switch {
	case len(keys) > 1:
		c.assess(context.Background(), cause, nil, policies, func(enqueue func([]remediation.Key)) { enqueue(keys) })
		return
	case !cause.Unknown():
		names := sets.New[string]()
		for _, p := range policies {
			names.Insert(p.Name)
		}
		c.Ledger.Blame(c.Clock.Now(), cause, sets.List(names), keys...)
	}
	c.objects.enqueue(keys...)
}

// assess enqueues the objects that find passes to its argument. Patches for the policies wait until all these objects are decided. Then the
// ledger knows what the change requires, and whether it would harm too many objects. facts, if it is not nil, returns what is known of the
// change for the first policy. It is called only once find has found an object.
func (c *Controller) assess(ctx context.Context, cause remediation.Cause, facts func(*placement.Policy) []remediation.Fact,
	policies []*placement.Policy, find func(enqueue func([]remediation.Key))) {
	remediated := sets.New[string]()
	for _, p := range policies {
		if p.RemediatesExisting() && c.Registry.Get(p.Name).Decides(p) {
			remediated.Insert(p.Name)
		}
	}
	assessment := c.Ledger.Assess(c.Clock.Now(), cause, sets.List(remediated)...)
	find(func(keys []remediation.Key) {
		if facts != nil {
			assessment.Explain(withFacts(cause, facts(policies[0])))
			facts = nil
		}
		assessment.Add(keys...)
		c.objects.enqueue(keys...)
	})
	assessment.Complete()
	c.conclude(ctx)
}

// conclude ends the assessments whose objects are all decided. It pauses the policies whose change exceeds their blast radius, and enqueues
// the objects that waited for the end. It reports the policies whose account in the ledger changed, among them those of the argument.
func (c *Controller) conclude(ctx context.Context, changed ...string) {
	result := c.Ledger.ConcludeAssessments(c.Clock.Now())
	for _, name := range result.Paused {
		if pause := c.Ledger.Report(name).Pause; pause != nil {
			ctrllog.FromContext(ctx).Info("Remediation is paused: a change would leave too many objects denied, undecided, or without clusters", "policy", name,
				"where", pause.Scope.String(), "change", pause.Change, "objects", pause.Objects(), "matched", pause.Matched)
			c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationPaused, pause.Message(name, false))
		}
	}
	for _, name := range result.Resumed {
		c.Events.OnPolicy(ctx, c.Policies, name, events.RemediationResumed,
			"remediation resumes: the change now affects no more objects than spec.remediation.blastRadius allows")
	}
	c.changed(changed)
	c.changed(result.Changed)
	c.objects.enqueue(result.Released...)
	if result.Freed {
		c.Scheduler.Reconsider()
	}
	c.releases.enqueue(result.Unsaved...)
	again := func() { c.conclude(context.Background()) }
	if result.Unconcluded {
		c.after("overdue", remediation.AssessmentLimit, again)
	}
	if result.Unplanned {
		c.after("unplanned", remediation.PlanInterval, again)
	}
}

// FeedsItself returns a function that reports whether what a policy writes is also data that it reads, directly or through one other
// policy. The scheduler must not delay the patches of such a policy because its own patches change its data.
func FeedsItself(registry *placement.Registry) func(policy string) bool {
	return func(policy string) bool {
		p := registry.Get(policy)
		for _, other := range registry.All() {
			if p != nil && reads(p, other) && reads(other, p) {
				return true
			}
		}
		return false
	}
}

// reads reports whether a policy reads types of objects that another policy matches.
func reads(p, other *placement.PolicyState) bool {
	return slices.ContainsFunc(p.InForce(), func(b *policy.Binding) bool {
		return slices.ContainsFunc(b.Resources, func(r policy.Resource) bool {
			return slices.ContainsFunc(other.Versions(), func(v *placement.Policy) bool { return v.Matcher.SelectsResource(r.GroupVersionResource) })
		})
	})
}

// Limits of facts: of the fields that one names, and of the bytes of a value.
const (
	maxFields = 2
	maxValue  = 40
)

// blame tells the ledger that what verdicts require of an object may be due to a change of data that no sweep has processed yet.
func (c *Controller) blame(key remediation.Key, verdicts []*placement.Verdict) {
	for _, v := range verdicts {
		if len(v.Changes) == 0 || !v.Policy.RemediatesExisting() {
			continue
		}
		if cause := c.dataCause(v.Policy); !cause.Unknown() {
			c.Ledger.Blame(c.Clock.Now(), cause, []string{v.Policy.Name}, key)
		}
	}
}

// dataCause returns the changes of a policy's data that no sweep has processed yet, as a Cause; the zero Cause if there are none.
func (c *Controller) dataCause(p *placement.Policy) (out remediation.Cause) {
	facts := c.facts(p)
	if len(facts) == 0 && !c.Ledger.Groups.Stale(p) {
		return out
	}
	return withFacts(remediation.Cause{Data: sets.New(anyData)}, facts)
}

// Names of data in causes: data of which it is not known what changed, and what predicates read.
const (
	anyData        = "data that the policy reads"
	predicatesData = "the nodes or pods that the policy's predicates read"
)

// withFacts returns the cause with the facts. If there are any, their types replace the names of the changed data except predicatesData.
func withFacts(cause remediation.Cause, facts []remediation.Fact) remediation.Cause {
	if len(facts) == 0 {
		return cause
	}
	data := cause.Data.Intersection(sets.New(predicatesData))
	for _, fact := range facts {
		data.Insert(fact.Resource)
	}
	cause.Data, cause.Facts = data, facts
	return cause
}

// dataChanges are the changes of the replicated data between two states.
type dataChanges struct {
	*embedded.Changes
	facts sync.Map // Caches the []remediation.Fact about the changes for each version of a policy, by its *placement.Policy.
}

// facts returns facts about the changes since the last sweep in the fields that a policy reads, for at most remediation.MaxCauses objects
// of each type.
func (c *Controller) facts(p *placement.Policy) []remediation.Fact {
	from, to := c.swept.Load(), c.Data.State()
	if from == nil || *from == to {
		return nil
	}
	changes := c.lately.Load()
	if changes == nil || !changes.Between(*from, to) {
		changes = &dataChanges{Changes: to.Since(*from)}
		c.lately.Store(changes)
	}
	known, ok := changes.facts.Load(p)
	if !ok {
		known = c.factsOf(changes.Changes, c.Registry.Get(p.Name).BindingOf(p))
		changes.facts.Store(p, known)
	}
	return known.([]remediation.Fact)
}

// factsOf returns facts about those of the changes that concern the fields that the policy of a binding reads; none if the binding is nil.
func (c *Controller) factsOf(changes *embedded.Changes, binding *policy.Binding) (out []remediation.Fact) {
	if binding == nil {
		return nil
	}
	for _, r := range binding.Resources {
		fields := binding.Fields[r.GroupVersionResource]
		if fields == nil {
			continue
		}
		objects, _ := changes.Objects(r.GroupVersionResource, fields, remediation.MaxCauses)
		cluster, resource := slices.Contains(binding.Clusters, r.GroupVersionResource), r.GroupResource().String()
		kind := cmp.Or(c.Catalog.Kind(r.GroupVersionResource), resource)
		for _, object := range objects {
			out = append(out, remediation.Fact{
				Resource: resource, Namespace: object.Namespace, Cluster: cluster,
				Text: printable.Text(kind + " " + strings.TrimPrefix(object.Namespace+"/"+object.Name, "/") + ": " + describe(object, cluster)),
			})
		}
	}
	return out
}

// describe returns a message that describes the change of an object, such as "label zone changed". It contains the values of fields only if
// values is set: those of an object that does not represent a cluster may be secret.
func describe(object embedded.ObjectChange, values bool) string {
	switch {
	case object.Created:
		return "created"
	case object.Deleted:
		return "deleted"
	}
	var texts []string
	for _, d := range slices.Concat(object.Normal, object.Fields) {
		text := fieldName(d.Path) + " changed"
		if from, to := valueText(d.From), valueText(d.To); values && from != "" && to != "" {
			text = fieldName(d.Path) + " " + from + " → " + to
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) > maxFields || object.More {
		texts = append(texts[:min(len(texts), maxFields)], "and others")
	}
	return strings.Join(texts, ", ")
}

// fieldName returns a field's path, in an object or in its normal form, as text for a message: "label zone" or "spec.replicas".
func fieldName(path []string) string {
	inMetadata := path
	if len(path) == 3 && path[0] == "metadata" {
		inMetadata = path[1:]
	}
	if len(inMetadata) == 2 && (inMetadata[0] == "labels" || inMetadata[0] == "annotations") {
		return strings.TrimSuffix(inMetadata[0], "s") + " " + inMetadata[1]
	}
	var out strings.Builder
	for i, name := range path {
		switch {
		case strings.ContainsAny(name, "./ "):
			fmt.Fprintf(&out, "[%q]", name)
		case i > 0:
			out.WriteString("." + name)
		default:
			out.WriteString(name)
		}
	}
	return out.String()
}

// valueText returns a value for a message, cut to maxValue bytes: "none" for nil, and "" for an object or an array.
func valueText(value ast.Value) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case ast.String:
		if len(v) > maxValue {
			return fmt.Sprintf("%q...", strings.ToValidUTF8(string(v[:maxValue]), ""))
		}
		return fmt.Sprintf("%q", string(v))
	case ast.Number, ast.Boolean, ast.Null:
		return v.String()
	}
	return ""
}

// maxAction is the maximum length of the actions in the note of an Event, in bytes, so that there is room for the causes.
const maxAction = 603

// movedNote returns the note of the Event on an object that was moved: what was done, why, and who approved it.
func movedNote(action string, reasons remediation.Reasons) string {
	return printable.Truncate(action, maxAction) + "; cause: " + causeNote(reasons)
}

// logMove writes to the log of decisions and the trace that an object was patched or evicted. began counts if the cause has no known time.
func (c *Controller) logMove(ctx context.Context, s *scope, outcome string, began time.Time, reasons remediation.Reasons) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(tracing.Cause.StringSlice(reasons.Causes))
	}
	if !reasons.Since.IsZero() {
		began = reasons.Since
	}
	action := decisionlog.Patched
	if outcome == metrics.RemediationEvicted {
		action = decisionlog.Evicted
	}
	now := c.Clock.Now()
	c.Decisions.Write(ctx, now, decisionlog.Entry{
		Source: decisionlog.Remediation, Action: action,
		Object: decisionlog.ObjectOf(s.key.Resource, s.key.Namespace, s.object), Policies: decisionlog.PoliciesOf(s.due),
		Changes: decisionlog.ChangesOf(s.due, nil), Causes: reasons.Causes, Plans: reasons.Plans, ApprovedBy: reasons.ApprovedBy,
		DurationSeconds: now.Sub(began).Seconds(),
	})
}
