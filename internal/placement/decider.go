package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/workload"
)

var (
	namespaces  = corev1.Resource("namespaces")
	pods        = corev1.Resource("pods")
	jobs        = batchv1.Resource("jobs")
	replicaSets = appsv1.Resource("replicasets")
)

// Evaluator evaluates one policy. Implementations are safe for concurrent use, honour the context's deadline and do
// not keep or change the input.
type Evaluator interface {
	// Evaluate returns the policy's decision on the input, an object as JSON values of Go. Others may have got the same
	// decision: it is not to be changed. The context has the object's namespace (NamespaceOf), by which evaluators keep
	// what one namespace causes from others.
	Evaluate(ctx context.Context, input map[string]any) (Decision, error)
	// Revision identifies the state of the data that the policy reads: equal revisions and equal inputs have equal
	// decisions. 0 means that data is missing, so that nothing may be concluded from it.
	Revision() uint64
	// Input returns the fields of the input that decisions depend on: inputs that are equal in them have equal decisions.
	Input() *projection.Fields
}

// namespaceKey is the context's key of an object's namespace.
type namespaceKey struct{}

// WithNamespace returns a context for the evaluation of an object of a namespace; empty for an object that is in none.
func WithNamespace(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, namespaceKey{}, namespace)
}

// NamespaceOf returns the namespace of the object that is evaluated; empty for an object that is in none.
func NamespaceOf(ctx context.Context) string {
	namespace, _ := ctx.Value(namespaceKey{}).(string)
	return namespace
}

// Quarantinable is an Evaluator that stops evaluating a policy for a while which keeps running too long.
type Quarantinable interface {
	// Quarantined says since when that is; ok is false if it is not.
	Quarantined() (since time.Time, ok bool)
	// QuarantinedNamespaces is for how many namespaces alone that is.
	QuarantinedNamespaces() int
}

// Remote is an Evaluator that asks another process. It takes long at times, and is asked beside the others. What that
// process reads of the input is not known: it gets all of it.
type Remote interface {
	Evaluator
	// Health says how asking fares.
	Health() RemoteHealth
}

// RemoteHealth is how asking another process fares, as far as this replica knows.
type RemoteHealth struct {
	// Endpoint is who is asked, as in https://opa.example:8181.
	Endpoint string
	// Asked says that it was asked at all.
	Asked bool
	// Err is why it last gave no answer, for as long as that counts; nil if it answers.
	Err error
	// Since is when that began.
	Since time.Time
	// Open says that it is not asked for a while.
	Open bool
}

// Policy is one PlacementPolicy in force, ready to decide. It is immutable.
type Policy struct {
	Name          string
	Generation    int64
	Priority      int32
	Mode          placementv1.Mode
	FailurePolicy placementv1.FailurePolicy
	Remediation   placementv1.RemediationMode
	// Clusters says how the clusters that the policy allows are joined with the developer's list. The zero value has the
	// defaults.
	Clusters placementv1.ClustersRule
	// BlastRadius bounds what one change may do to existing objects, with all fields set.
	BlastRadius placementv1.BlastRadius
	// Schedules says that the policy may say where pods run, for which more of an object is needed. One that says it
	// without is in error.
	Schedules bool
	Matcher   *match.Matcher
	Evaluator Evaluator
}

// Quarantined says since when the policy is not evaluated; ok is false if it is.
func (p *Policy) Quarantined() (since time.Time, ok bool) {
	if e, can := p.Evaluator.(Quarantinable); can {
		return e.Quarantined()
	}
	return time.Time{}, false
}

// QuarantinedNamespaces is for how many namespaces the policy is not evaluated.
func (p *Policy) QuarantinedNamespaces() int {
	if e, can := p.Evaluator.(Quarantinable); can {
		return e.QuarantinedNamespaces()
	}
	return 0
}

// Remote returns who decides the policy elsewhere; ok is false if nobody does.
func (p *Policy) Remote() (r Remote, ok bool) {
	r, ok = p.Evaluator.(Remote)
	return r, ok
}

// Policies is the set of policies in force. Implementations are safe for concurrent use.
type Policies interface {
	// Index finds those that may be about an object.
	Index() *match.Index[*Policy]
}

// Namespaces knows the labels of namespaces.
type Namespaces interface {
	// Labels returns the labels of a namespace; an error if they are not to be had.
	Labels(ctx context.Context, name string) (map[string]string, error)
}

// Decider decides objects. It is safe for concurrent use.
type Decider struct {
	Policies   Policies
	Namespaces Namespaces
	// Owners are asked for the owners of ReplicaSets that policies place. Nil knows none, so that no owner keeps a policy
	// from placing a ReplicaSet.
	Owners  Owners
	Keyring *Keyring
	// OwnNamespace is Berth's own; nothing in it is ever matched. Empty for none.
	OwnNamespace string
	// Stale returns an error while data that a policy reads is too old to decide by; nil for never. It must be quick.
	Stale func(policy string) error
	// Paused reports whether remediation of a policy is paused; nil for never. An update that asks for nothing else under the
	// keys that such a policy writes leaves them as they are, whatever the policy decides now. It must be quick.
	Paused func(policy string) bool
	// Templates knows where objects have their pods; nil for those of Kubernetes' own kinds.
	Templates *workload.Templates
}

// Request asks for the decision on one object.
type Request struct {
	Resource schema.GroupVersionResource
	// Namespace is the object's, also where the object does not carry it yet.
	Namespace string
	Object    *unstructured.Unstructured
	// Old is the object before an update; nil on creation. An existing object is its own Old.
	Old *unstructured.Unstructured
	// Source completes Object and Old where they are not; nil where they are.
	Source Source
	// Admission is the request that carries the object, as match conditions see it.
	Admission *admissionv1.AdmissionRequest
	// AutomaticOnly leaves the part of policies whose remediation is not automatic as it stands.
	AutomaticOnly bool
	// VerdictsOnly leaves the outcome without an object: what differs is all that is wanted.
	VerdictsOnly bool
	// Evaluate evaluates a policy; nil for the policy's own evaluator. Remediation remembers decisions here. For policies
	// with a Remote it is called from other goroutines, beside all others, and has returned when Decide returns.
	Evaluate evaluateFunc
}

type evaluateFunc = func(ctx context.Context, p *Policy, input map[string]any) (Decision, error)

// Source completes the objects of a request of which only apiVersion, kind and metadata, without the managed fields, are
// there: most policies look at nothing else, and to decode the rest takes longer than to decide.
type Source interface {
	// Fill adds to the object at least what a set of fields has of it.
	Fill(fields *projection.Fields) error
	// Complete adds all that the object, and the one before the update, lack.
	Complete() error
}

// Outcome is what all matching policies together say of an object.
type Outcome struct {
	// Object is the object as it should be, with its record. It is nil if no policy matches, or only verdicts were wanted.
	// All but what was merged it shares with the request's, so that neither is to be changed.
	Object *unstructured.Unstructured
	// PodSpec leads to the spec of the object's pods, if that may be another one in Object.
	PodSpec []string
	// Verdicts are those of the matching policies, in order of precedence.
	Verdicts []*Verdict
}

// Decide asks every policy that matches the object, each with the object as its developer wants it, and merges what
// they say. It does not depend on the order of the policies. Errors of single policies are in their verdicts; an
// error returned means that nothing could be decided.
func (d *Decider) Decide(ctx context.Context, r Request) (*Outcome, error) {
	if r.Resource.GroupResource() == namespaces {
		// The API server puts a namespace's own name here; to everybody else it is cluster-scoped.
		r.Namespace = ""
	}
	verdicts, err := d.matching(ctx, r)
	if err != nil || len(verdicts) == 0 {
		return &Outcome{}, err
	}
	filled, err := r.fill(verdicts)
	if err != nil {
		return &Outcome{}, err
	}
	id := identityOf(r.Object, r.Namespace)
	podSpec, err := d.podSpec(&r, id, verdicts)
	if err != nil {
		return &Outcome{}, err
	}
	current := readIntent(d.Keyring, r.Object, r.Old, id, podSpec)
	input := current.input()
	evaluate := r.Evaluate
	if evaluate == nil {
		evaluate = func(ctx context.Context, p *Policy, input map[string]any) (Decision, error) {
			return p.Evaluator.Evaluate(ctx, input)
		}
	}
	ctx = WithNamespace(ctx, r.Namespace)
	wait := elsewhere(ctx, verdicts, input, evaluate)
	for i, v := range verdicts {
		if _, remote := v.Policy.Remote(); remote || v.Err != nil {
			continue
		}
		v.Decision, v.Err = evaluate(ctx, v.Policy, input)
		if reads := v.Policy.Evaluator.Input(); r.Source == nil || reads == filled[i] || filled[i].Covers(reads) {
			continue
		}
		// The policy turned out to read more than was known when the object was filled, and may have missed it. Nobody
		// asks elsewhere: the object would have been filled with everything.
		if err := r.Source.Complete(); err != nil {
			return &Outcome{}, err
		}
		current = readIntent(d.Keyring, r.Object, r.Old, id, podSpec)
		input = current.input()
		v.Decision, v.Err = evaluate(ctx, v.Policy, input)
	}
	wait()
	d.refuseUnschedulable(&r, &current, verdicts)
	if err := d.hold(ctx, &r, &current, id, verdicts); err != nil {
		return &Outcome{}, err
	}
	owned := d.owned(ctx, &r, &current, verdicts)
	d.restore(&current, &r, id)
	m := &merger{
		intent: current, verdicts: verdicts,
		fixed: func(key string, values ...*string) string { return fixed(&r, owned, key, values...) },
		held:  r.held,
	}
	values, next, err := m.merge()
	if err != nil {
		return nil, err
	}
	if r.VerdictsOnly {
		return &Outcome{Verdicts: verdicts}, nil
	}
	return d.outcome(&current, values, next, id, verdicts)
}

// refuseUnschedulable makes errors of the verdicts that say where pods run on an object where that can't be said.
func (d *Decider) refuseUnschedulable(r *Request, current *intent, verdicts []*Verdict) {
	for _, v := range verdicts {
		if v.Err == nil && len(v.Decision.Scheduling) > 0 {
			v.Err = d.schedulable(r, current)
		}
	}
}

// paused reports whether remediation of the policy is paused in a way that concerns the request. That is never so for policies
// that move no objects, and for remediation's own updates: the leader sends none while it knows of the pause, and this replica
// may learn later than the leader that the pause is over, when nothing would bring the object back.
func (d *Decider) paused(r *Request, p *Policy) bool {
	moves := p.Mode == placementv1.ModeEnforce && p.Remediation == placementv1.RemediationAutomatic
	return d.Paused != nil && moves && r.changesObject() && d.Paused(p.Name)
}

// owned reports whether a ReplicaSet's template has to stay as its owner has it. The owner is looked up only where a policy
// decides where the pods run, or did. Where that fails the policies that may decide it can't be followed, which is an error
// of theirs, and what they set before stays.
func (d *Decider) owned(ctx context.Context, r *Request, current *intent, verdicts []*Verdict) bool {
	schedules := func(v *Verdict) bool { return v.Err == nil && len(v.Decision.Scheduling) > 0 }
	if !ownedReplicaSet(r) || !slices.ContainsFunc(verdicts, schedules) && len(current.standing.Scheduling) == 0 {
		return false
	}
	made, err := d.madeByOwner(ctx, r)
	if err == nil {
		return made
	}
	for _, v := range verdicts {
		if v.Err == nil && v.Policy.Schedules {
			v.Err = err
		}
	}
	return true
}

// restore has what policies set of where pods run stand where it can't be changed any more and the developer has but
// applied the old manifest again: the API server would refuse it.
func (d *Decider) restore(current *intent, r *Request, id identity) {
	if current.pods.spec == nil || r.Old == nil || r.Old == r.Object || !mayBeFixed(r.Resource.GroupResource()) {
		return
	}
	before := readIntent(d.Keyring, r.Old, r.Old, id, current.pods.path)
	values := current.current[fieldScheduling]
	for key, entry := range before.standing.Scheduling {
		stood := before.current[fieldScheduling][key]
		if _, stands := current.standing.Scheduling[key]; stands || !equalOptional(optional(values, key), entry.Requested) || fixed(r, false, key, &stood) == "" {
			continue
		}
		values[key] = stood
		current.standing.put(fieldScheduling, key, entry)
	}
}

// elsewhere has the policies decide that are asked elsewhere, each in a goroutine of its own, and returns what waits for
// them. Their verdicts are not to be looked at before.
func elsewhere(ctx context.Context, verdicts []*Verdict, input map[string]any, evaluate evaluateFunc) (wait func()) {
	var asked *sync.WaitGroup
	for _, v := range verdicts {
		if _, remote := v.Policy.Remote(); v.Err != nil || !remote {
			continue
		}
		if asked == nil {
			asked = &sync.WaitGroup{}
		}
		asked.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					// Nobody above recovers it, as the servers and controllers do on their own goroutines.
					for _, handle := range runtime.PanicHandlers {
						handle(ctx, r)
					}
					v.Decision, v.Err = Decision{}, fmt.Errorf("panic: %v [recovered]", r)
				}
			}()
			v.Decision, v.Err = evaluate(ctx, v.Policy, input)
		})
	}
	if asked == nil {
		return func() {}
	}
	return asked.Wait
}

// fill has the object filled with what the policies read, and returns that, if the request has a source.
func (r *Request) fill(verdicts []*Verdict) ([]*projection.Fields, error) {
	filled := make([]*projection.Fields, len(verdicts))
	if r.Source == nil {
		return filled, nil
	}
	whole := false
	for i, v := range verdicts {
		filled[i] = v.Policy.Evaluator.Input()
		if _, remote := v.Policy.Remote(); remote {
			filled[i] = projection.Everything()
		}
		whole = whole || filled[i].Whole()
		if err := r.Source.Fill(filled[i]); err != nil {
			return nil, err
		}
	}
	if r.mayHold(verdicts) {
		whole = true
		if err := r.Source.Complete(); err != nil {
			return nil, err
		}
	}
	if whole {
		// It has everything, whoever reads less of it.
		for i := range filled {
			filled[i] = projection.Everything()
		}
	}
	return filled, nil
}

// outcome makes the object that has the values and the record.
func (d *Decider) outcome(current *intent, values map[string]map[string]string, next record, id identity, verdicts []*Verdict) (*Outcome, error) {
	text, err := d.Keyring.encode(next, id)
	if err != nil {
		return nil, fmt.Errorf("recording the developer's intent: %w", err)
	}
	if text != "" {
		values[fieldAnnotations][placementv1.RequestedAnnotation] = text
	}
	object := withOwnMetadata(current.object)
	for _, field := range []string{fieldAnnotations, fieldLabels} {
		setMetadata(object, field, values[field])
	}
	out := &Outcome{Object: object, Verdicts: verdicts}
	if pods := &current.pods; pods.spec != nil && pods.err == nil {
		out.PodSpec = pods.path
		// Of the spec as it stands, what stays keeps its place.
		object.Object = withPodSpec(object.Object, pods.path, place(pods.spec, pods.flat, values[fieldScheduling]), pods.spec)
	}
	return out, nil
}

// podSpec returns where the object has the spec of its pods, if that may matter, and has the object filled with it.
func (d *Decider) podSpec(r *Request, id identity, verdicts []*Verdict) ([]string, error) {
	if !slices.ContainsFunc(verdicts, func(v *Verdict) bool { return v.Policy.Schedules }) && !d.recordsScheduling(r, id) {
		return nil, nil
	}
	path, ok := d.Templates.Path(r.Resource.GroupResource())
	if !ok || r.Source == nil {
		return path, nil
	}
	if r.Old != nil && mayBeFixed(r.Resource.GroupResource()) || ownedReplicaSet(r) {
		// Whether a Job can still be changed is to be seen in the old one, and what has to stay is. The template of a
		// ReplicaSet is compared with its owner's.
		return path, r.Source.Complete()
	}
	return path, r.Source.Fill(SchedulingFields(path))
}

// schedulable says why nothing can be said of where an object's pods run.
func (d *Decider) schedulable(r *Request, current *intent) error {
	var err error
	if _, known := d.Templates.Path(r.Resource.GroupResource()); !known {
		err = &workload.UnknownKindError{GroupKind: r.Object.GroupVersionKind().GroupKind()}
	} else if err = current.pods.err; len(current.pods.path) == 0 {
		err = errors.New("the policy is not known to have it")
	}
	if err != nil {
		return fmt.Errorf("rule %s: %w", fieldScheduling, err)
	}
	return nil
}

// matching returns a verdict, still without a decision, for each policy that matches.
func (d *Decider) matching(ctx context.Context, r Request) ([]*Verdict, error) {
	candidates := d.Policies.Index().Of(r.Resource)
	if namespace := r.matchedNamespace(); candidates.Empty() || (namespace != "" && namespace == d.OwnNamespace) {
		return nil, nil
	}
	object, err := d.seen(ctx, &r, r.Object)
	if err != nil {
		return nil, err
	}
	policies := candidates.About(object)
	slices.SortFunc(policies, precedence)
	var verdicts []*Verdict
	for _, p := range slices.Compact(policies) {
		if r.Source != nil && p.Matcher.Conditional() {
			if err := r.Source.Complete(); err != nil {
				return nil, err
			}
		}
		matches, err := p.Matcher.Matches(ctx, object)
		if matches && err == nil && d.Stale != nil {
			err = d.Stale(p.Name)
		}
		if matches {
			verdicts = append(verdicts, &Verdict{Policy: p, Err: err, paused: d.paused(&r, p)})
		}
	}
	return verdicts, nil
}

// matchedNamespace is the namespace by which policies match the object.
func (r *Request) matchedNamespace() string {
	if r.Resource.GroupResource() == namespaces {
		return r.Object.GetName()
	}
	return r.Namespace
}

// seen is the request's object, or the one before the update, as the match of policies sees it.
func (d *Decider) seen(ctx context.Context, r *Request, content *unstructured.Unstructured) (match.Object, error) {
	namespace := r.matchedNamespace()
	object := match.Object{Resource: r.Resource, Namespace: namespace, Content: content, Old: r.Old, Request: r.Admission}
	switch {
	case r.Resource.GroupResource() == namespaces:
		// As in the API server, a namespace is judged by its own labels.
		object.NamespaceLabels = content.GetLabels()
	case namespace != "":
		labels, err := d.Namespaces.Labels(ctx, namespace)
		if err != nil {
			return match.Object{}, fmt.Errorf("reading labels of namespace %s: %w", namespace, err)
		}
		object.NamespaceLabels = labels
	}
	return object, nil
}

// input is what policies see: the object as its developer wants it, without managed fields, which say who wrote what
// and not what is wanted.
func (i intent) input() map[string]any {
	input := maps.Clone(i.object.Object)
	if metadata, ok := input["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		input["metadata"] = metadata
	}
	return input
}
