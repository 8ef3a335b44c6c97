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

package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/window"
	"github.com/berth-dev/berth/internal/workload"
)

var (
	namespaces  = corev1.Resource("namespaces")
	pods        = corev1.Resource("pods")
	jobs        = batchv1.Resource("jobs")
	replicaSets = appsv1.Resource("replicasets")
)

// Evaluator evaluates one version of a policy. Implementations are safe for concurrent use and honor the context's deadline. They neither
// keep nor change the input.
type Evaluator interface {
	// Evaluate returns the policy's decision on the input, an object as decoded JSON. Callers must not change the
	// decision, which may be shared with other callers. The context must carry the object's namespace (WithNamespace).
	// Evaluators use it to isolate namespaces from each other, for example in queues.
	Evaluate(ctx context.Context, input map[string]any) (Decision, error)
	// Revision identifies the state of the data that the policy reads. Equal revisions and equal inputs give equal
	// decisions. 0 means that data is missing, so callers must not conclude anything from the revision.
	Revision() uint64
	// Input returns the fields of the input that decisions depend on, always the same. Inputs with equal values in these
	// fields give equal decisions.
	Input() *projection.FieldSet
}

// namespaceKey is the key of a context value: the namespace of the evaluated object.
type namespaceKey struct{}

// WithNamespace returns a context that carries the namespace of the object to evaluate: "" for a cluster-scoped object.
func WithNamespace(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, namespaceKey{}, namespace)
}

// NamespaceOf returns the namespace of the evaluated object from a context: "" for a cluster-scoped object, and for a context without one.
func NamespaceOf(ctx context.Context) string {
	namespace, _ := ctx.Value(namespaceKey{}).(string)
	return namespace
}

// Successor is an Evaluator that can take over decisions from the Evaluator of another version of the policy.
type Successor interface {
	Evaluator
	// TakeOver takes over decisions that the evaluator of another version remembers, as far as both versions decide the same on the
	// current data. It takes over nothing from an evaluator of another kind. Call it before the first evaluation. It may evaluate
	// policies, and honors the context's deadline.
	TakeOver(ctx context.Context, earlier Evaluator)
}

// Chooser is an Evaluator that can separate what a policy decides for all objects of equal content from the clusters that it chooses for
// each of these objects by its path (rules.ObjectPath).
type Chooser interface {
	Evaluator
	// Open returns what the policy decides on an input apart from the choice of clusters, and the path of the object. It evaluates
	// nothing: ok is false until Evaluate has decided an equal input on the present data, and for inputs of which that is not known
	// apart.
	Open(input map[string]any) (open OpenDecision, path string, ok bool)
	// OpenInput returns the fields of the input that open decisions depend on, always the same. It returns nil if Open returns none.
	OpenInput() *projection.FieldSet
}

// OpenDecision is what a policy decides for all objects with equal values in the fields of Chooser.OpenInput, before it chooses clusters
// for each. It can be compared by ==, but equal ones need not be identical.
type OpenDecision interface {
	// Complete returns the decision on an object with a path.
	Complete(path string) Decision
	// ChangesTo compares it with a later one. concerns reports whether the later decision on an object may differ from the one on it before,
	// which has the clusters. ok is false if it may differ for every object.
	ChangesTo(later OpenDecision) (concerns func(path string, clusters []string) bool, ok bool)
}

// Explainer is an Evaluator that can say why its policy does not give an object a cluster.
type Explainer interface {
	Evaluator
	// WhyNot returns why the policy does not give the object each of the clusters, by their names. Names without a known reason are
	// missing. It evaluates parts of the policy, honors the context's deadline, and returns nil if the engine is busy. The context must
	// carry the object's namespace.
	WhyNot(ctx context.Context, input map[string]any, clusters []string) map[string]string
}

// Tolerant is an Evaluator whose policy lets existing objects stay in clusters that are not ready.
type Tolerant interface {
	Evaluator
	// Unready returns the clusters that their fleet managers mark as not ready by a taint, with the time since when, which is zero if it
	// is not known. It returns nil if the policy's clusters do not depend on such taints. The caller must not change the map.
	Unready() map[string]time.Time
}

// Remote is an Evaluator that queries a remote engine. A query can take long, so the Decider runs it on a goroutine of its own. Berth does
// not know which fields the remote engine reads, so it sends the whole input.
type Remote interface {
	Evaluator
	// Health returns the state of the connection to the remote engine.
	Health() RemoteHealth
}

// RemoteHealth is the state of the connection to a remote engine, as this replica sees it for one policy: whether queries fail, and since
// when. It says nothing about data that is pushed.
type RemoteHealth struct {
	// Endpoint is the address of the remote engine, for example https://opa.example:8181.
	Endpoint string
	// Queried reports whether this replica has tried to query the engine for the policy, or failed to for another policy. Queries for other
	// policies that succeeded do not count. While it is false, Err is nil although nothing is known.
	Queried bool
	// Err is the last failure of a query of the engine for any policy, or one that says something about this policy alone; nil once the
	// queries have succeeded for a while.
	Err error
	// Since is when the failures began; zero if Err is nil.
	Since time.Time
	// BreakerOpen reports whether the circuit breaker is open, so that the engine is not queried for a while.
	BreakerOpen bool
}

// Policy is one compiled version of a PlacementPolicy. It is immutable.
type Policy struct {
	Name          string
	Generation    int64
	Priority      int32 // Of conflicting policies, the one with the highest priority wins; of equal ones, the first by name.
	Mode          placementv1.Mode
	FailurePolicy placementv1.FailurePolicy   // What happens to an object that the policy can't decide.
	Remediation   placementv1.RemediationMode // What happens to existing objects that differ from the decision (spec.remediation.mode).
	// Clusters configures how the clusters that the policy allows are combined with the developer's list. With the zero value,
	// the developer's list, if there is one, narrows the policy's, and the object is denied if no cluster is left.
	Clusters placementv1.ClustersRule
	// BlastRadius limits how many existing objects one change may leave denied, without clusters, or undecided. All of its fields are set.
	BlastRadius placementv1.BlastRadius
	// Budget limits the patches of existing objects. All fields with a default are set.
	Budget placementv1.RemediationBudget
	// Windows are the periods in which remediation may patch existing objects; at any time if there are none. If there are some, an update by
	// a client that changes nothing that the policy reads or writes leaves the placement as it is, at any time.
	Windows window.Windows
	// Evict reports whether remediation evicts running Pods whose scheduling differs from the decision.
	Evict bool
	// Delivery selects the multi-cluster systems that carry matched objects to their clusters; nil if there are none.
	Delivery *placementv1.Delivery
	// Schedules reports whether the policy may define the rule scheduling. More fields of an object are decoded then. If the policy decides
	// on scheduling although Schedules is false, its verdict is an error.
	Schedules bool
	// Rules are the names of the rules of spec.rules, in their order. Callers must not change the slice.
	Rules     []string
	Matcher   *match.Matcher
	Evaluator Evaluator
}

// NewPolicy returns a version of a PlacementPolicy. spec must have its defaults (WithDefaults), and matcher must be compiled from
// spec.match. schedules becomes Schedules.
func NewPolicy(name string, generation int64, spec placementv1.PlacementPolicySpec, matcher *match.Matcher, e Evaluator,
	schedules bool) *Policy {
	names := make([]string, len(spec.Rules))
	for i, rule := range spec.Rules {
		names[i] = rule.Name
	}
	return &Policy{
		Name:          name,
		Rules:         names,
		Generation:    generation,
		Priority:      spec.Priority,
		Mode:          spec.Mode,
		FailurePolicy: spec.FailurePolicy,
		Remediation:   spec.Remediation.Mode,
		Clusters:      spec.Clusters.WithDefaults(),
		BlastRadius:   spec.Remediation.BlastRadius.WithDefaults(),
		Budget:        spec.Remediation.Budget.WithDefaults(),
		Windows:       window.ParseAll(spec.Remediation.Windows),
		Evict:         spec.Remediation.Evict,
		Delivery:      spec.Delivery,
		Matcher:       matcher,
		Schedules:     schedules,
		Evaluator:     e,
	}
}

// Remote returns the policy's evaluator if it queries a remote engine. ok is false if the policy is evaluated in this process.
func (p *Policy) Remote() (r Remote, ok bool) {
	r, ok = p.Evaluator.(Remote)
	return r, ok
}

// Policies gives access to the policies in force. Implementations are safe for concurrent use.
type Policies interface {
	// Begin begins a decision. It returns the index that finds the policies that may match an object. All data that they read
	// remains available until the caller calls end, once.
	Begin() (index *match.Index[*Policy], end func())
}

// Namespaces looks up the labels of namespaces.
type Namespaces interface {
	// Labels returns the labels of a namespace. It returns an error if they are unavailable.
	Labels(ctx context.Context, name string) (map[string]string, error)
}

// Decider makes the placement decisions on objects. It is safe for concurrent use.
type Decider struct {
	Policies   Policies
	Namespaces Namespaces
	// Owners looks up the objects that control others. If it is nil, policies may change the pod template of any ReplicaSet, and an object
	// keeps the clusters that it copied from its controller only if the policies give them anyway.
	Owners  Owners
	Keyring *Keyring // Signs and verifies the records of requested values.
	// OwnNamespace is the namespace that Berth runs in, in which no object is matched; "" if there is none.
	OwnNamespace string
	// Stale returns an error if data that a version of a policy reads is too old for decisions, and otherwise nil. If Stale is nil, no data
	// is too old. It must return quickly.
	Stale func(*Policy) error
	// Paused reports whether remediation of a policy is paused for the objects of a namespace. If it is nil, no policy is paused. An update
	// that requests no other values for the keys that a paused policy writes leaves their values as they are, whatever the policy decides
	// now. It must return quickly.
	Paused func(policy, namespace string) bool
	// Clock tells for how long a cluster has not been ready; nil for the real clock.
	Clock clock.PassiveClock
	// Templates finds the pod template of each kind. If it is nil, only the kinds built into Kubernetes are known.
	Templates *workload.Templates
	// ClusterLists finds the list of clusters of each placement kind. If it is nil, only the built-in kinds are known.
	ClusterLists *clusterlist.Kinds
}

// Request describes the object to decide on, and how.
type Request struct {
	Resource schema.GroupVersionResource // The type of the object.
	// Namespace is the object's namespace. It is set even if the object's metadata has no namespace yet.
	Namespace string
	Object    *unstructured.Unstructured // The object to decide on, as an update leaves it.
	// Old is the object before an update, or nil for a new object. For an existing object that is not being updated, Old is Object itself.
	Old *unstructured.Unstructured
	// Source decodes more fields of Object and Old, of which the webhook decodes only what is needed. It is nil if both have all fields that
	// decisions read.
	Source Source
	// Admission is the admission request for the object, for match conditions, which may read it.
	Admission *admissionv1.AdmissionRequest
	// Evaluate evaluates a policy; if it is nil, the policy's own evaluator does. Remediation sets a function that reuses known decisions, and
	// the webhook one that measures evaluations. For policies with a Remote, it is called on other goroutines, concurrently with all other
	// calls. All calls have returned when the decision is made.
	Evaluate evaluateFunc
	purpose
}

// purpose says what a decision is for. The methods of Decider set it.
type purpose struct {
	// remediates is set if remediation patches or assesses an existing object. Only policies with remediation mode Automatic then change
	// their keys, and those with mode Approved if permits allows it.
	remediates bool
	// permits reports whether remediation may make the changes in verdicts of policies with mode Approved; nil if it may not.
	permits func([]*Verdict) bool
	// explains is set if the denial of an object for which no cluster is left must say why a policy does not give it the clusters that its
	// developer asks for, where an Explainer knows that. This takes further evaluations.
	explains bool
	// verdictsOnly is set if only the verdicts are needed, so that the outcome has no object.
	verdictsOnly bool
}

// evaluateFunc evaluates a policy on an object, by the policy's evaluator or by a decision that is already known. input has at least the
// fields of the object that the policy reads.
type evaluateFunc = func(ctx context.Context, p *Policy, input map[string]any) (Decision, error)

// AdmissionOf returns an admission request for an object that no client requests, as if user requested it. Match conditions read it as
// their variable request. It does not contain the object.
func AdmissionOf(operation admissionv1.Operation, resource schema.GroupVersionResource, namespace string, obj *unstructured.Unstructured,
	user authenticationv1.UserInfo) *admissionv1.AdmissionRequest {
	gvk := obj.GroupVersionKind()
	return &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(gvk), Resource: metav1.GroupVersionResource(resource),
		RequestKind: (*metav1.GroupVersionKind)(&gvk), RequestResource: (*metav1.GroupVersionResource)(&resource),
		Name: obj.GetName(), Namespace: namespace, Operation: operation, UserInfo: user, DryRun: new(false),
	}
}

// Source adds fields to the objects of a request that are only partly decoded. Initially these have apiVersion, kind, and metadata without
// the managed fields. Most policies read nothing else, and decoding the rest takes longer than deciding.
type Source interface {
	// Fill adds at least the given fields to the object.
	Fill(fields *projection.FieldSet) error
	// Complete adds all missing fields to the object and to the object before the update.
	Complete() error
}

// Outcome is the merged result of the decisions of all policies that match an object.
type Outcome struct {
	// Object is the object with its placement and its record. It is nil if no policy matches, and if Assess returned the outcome. It shares
	// everything that was not merged with the request's object, so callers must change neither.
	Object *unstructured.Unstructured
	// Paths are the paths at which Object may have other values than the request's object, beside labels and annotations.
	Paths
	// List says where a placement object lists its clusters. It is nil for an object of another kind, which lists them in an annotation.
	List *clusterlist.Kind
	// Verdicts are the verdicts of the matching policies, and of those that the object leaves by the update (Verdict.Leaves), in order of
	// precedence.
	Verdicts []*Verdict
	// NotTaken are values that an update requests and the object does not get, because a policy set them earlier
	// (placementv1.AsWrittenAnnotation), and no policy sets these keys now.
	NotTaken []Change
	// Staged reports whether some version of a policy would match if it were in force in the object's namespace already. It is set only if
	// there are no verdicts.
	Staged bool
}

// Decide decides on an object that a client creates or updates, or that does not exist yet. It evaluates every policy that matches the
// object, each on the object as its developer requested it, and merges the decisions. The result does not depend on the order of the
// policies. The error of a single policy is in its verdict. Decide itself returns an error only if it could not decide anything.
func (d *Decider) Decide(ctx context.Context, r Request) (*Outcome, error) {
	r.purpose = purpose{explains: true}
	return d.inForce(ctx, r)
}

// Remediate decides like Decide on an existing object that remediation patches. It changes only the keys of policies with remediation mode
// Automatic, and those of policies with mode Approved if permits returns true for the resulting verdicts. A nil permits allows none of the
// latter.
func (d *Decider) Remediate(ctx context.Context, r Request, permits func([]*Verdict) bool) (*Outcome, error) {
	r.purpose = purpose{remediates: true, permits: permits}
	return d.inForce(ctx, r)
}

// Assess returns the verdicts that Remediate would have on an existing object, without an object in the outcome. Verdict.Released has what
// they would be with all approvals.
func (d *Decider) Assess(ctx context.Context, r Request) (*Outcome, error) {
	r.purpose = purpose{remediates: true, verdictsOnly: true}
	return d.inForce(ctx, r)
}

// inForce decides a request by the policy versions in force.
func (d *Decider) inForce(ctx context.Context, r Request) (*Outcome, error) {
	if r.Resource.GroupResource() == namespaces {
		// The API server sets the namespace of a request for a Namespace to the object's own name. Everything else
		// treats Namespaces as cluster-scoped.
		r.Namespace = ""
	}
	index, end := d.Policies.Begin()
	defer end()
	return d.decide(ctx, r, index)
}

// decide decides a request by the policies in an index.
func (d *Decider) decide(ctx context.Context, r Request, index *match.Index[*Policy]) (*Outcome, error) {
	verdicts, staged, err := d.matching(ctx, r, index)
	list := d.ClusterLists.Of(r.Resource.GroupResource())
	if err != nil || len(verdicts) == 0 {
		return &Outcome{Staged: staged, List: list}, err
	}
	id := identityOf(r.Object, r.Namespace)
	current, err := d.evaluate(ctx, &r, id, verdicts)
	if err != nil {
		return &Outcome{}, err
	}
	limitToDenials(verdicts)
	d.refuseUnschedulable(&r, &current, verdicts)
	if err := d.hold(ctx, &r, &current, id, verdicts); err != nil {
		return &Outcome{}, err
	}
	d.follow(ctx, &r, &current, verdicts)
	excluded, err := d.excluded(ctx, &r, index, &current, verdicts)
	if err != nil {
		return &Outcome{}, err
	}
	owned := d.keepOwnedTemplate(ctx, &r, &current, verdicts)
	d.keepImmutable(&current, &r, id)
	released := r.release(verdicts)
	merge := func(verdicts []*Verdict) (map[string]map[string]string, record, error) {
		m := &merger{
			intent: current, verdicts: deciding(verdicts), request: &r, owned: owned, excluded: excluded, whyNot: d.whyNot(ctx, &r, &current),
			leftBefore: func() (map[string]bool, error) { return d.leftBefore(ctx, &r, index) },
		}
		return m.merge()
	}
	values, next, err := merge(verdicts)
	if err != nil {
		return nil, err
	}
	if err := d.tolerate(ctx, &r, index, verdicts); err != nil {
		return &Outcome{}, err
	}
	if released != nil {
		followed, recorded, err := merge(released)
		switch {
		case err != nil:
			return nil, err
		case r.permits != nil && r.permits(released):
			verdicts, values, next = released, followed, recorded
		default:
			for i, v := range released {
				verdicts[i].Released = v
			}
		}
	}
	if r.verdictsOnly {
		return &Outcome{Verdicts: verdicts, List: list}, nil
	}
	return d.outcome(&current, values, next, id, verdicts)
}

// leftBefore decides on the object before an update, as if it was not updated, and returns the keys of the changes that can't be made then
// (Change.Immutable); see leftIn for the form of the keys.
func (d *Decider) leftBefore(ctx context.Context, r *Request, index *match.Index[*Policy]) (map[string]bool, error) {
	if r.Source != nil {
		if err := r.Source.Complete(); err != nil {
			return nil, err
		}
	}
	before, err := d.decide(ctx, r.before(), index)
	if err != nil {
		return nil, err
	}
	return leftIn(before.Verdicts), nil
}

// before returns the request to get the verdicts alone on the object before an update, as if it was not updated. That object must be
// complete, because the request has no Source.
func (r *Request) before() Request {
	return Request{
		Resource: r.Resource, Namespace: r.Namespace, Object: r.Old, Old: r.Old, Admission: r.Admission, Evaluate: r.Evaluate,
		purpose: purpose{verdictsOnly: true},
	}
}

// whyNot returns the function by which a denial says why a policy does not give the object some clusters. It returns nil if denials need
// not say that, as when remediation decides. The function returns nil for a policy that can't say why.
func (d *Decider) whyNot(ctx context.Context, r *Request, current *intent) func(*Policy, []string) map[string]string {
	if !r.explains {
		return nil
	}
	ctx = WithNamespace(ctx, r.Namespace)
	return func(p *Policy, clusters []string) map[string]string {
		e, ok := p.Evaluator.(Explainer)
		if !ok {
			return nil
		}
		stays, _, err := d.stays(p, r, current)
		if err != nil {
			return nil
		}
		return e.WhyNot(ctx, tolerating(current.input(), stays), clusters)
	}
}

// evaluate evaluates every policy on the object as its developer requested it, and returns that object. It sets decisions and errors in the
// verdicts, without regard to what policies set before: which verdicts are held, or follow a controller, is not decided yet.
func (d *Decider) evaluate(ctx context.Context, r *Request, id identity, verdicts []*Verdict) (intent, error) {
	if err := r.fill(verdicts); err != nil {
		return intent{}, err
	}
	at, err := d.locate(r, id, verdicts)
	if err != nil {
		return intent{}, err
	}
	current := readIntent(d.Keyring, r.Object, r.Old, id, at)
	if current.usesOld && r.Source != nil {
		// The object before the update has only its metadata.
		if err := r.Source.Complete(); err != nil {
			return intent{}, err
		}
		current = readIntent(d.Keyring, r.Object, r.Old, id, at)
	}
	input := current.input()
	evaluate := r.Evaluate
	if evaluate == nil {
		evaluate = func(ctx context.Context, p *Policy, input map[string]any) (Decision, error) {
			return p.Evaluator.Evaluate(ctx, input)
		}
	}
	ctx = WithNamespace(ctx, r.Namespace)
	defer evaluateRemote(ctx, verdicts, input, evaluate)()
	for _, v := range verdicts {
		if _, remote := v.Policy.Remote(); remote || v.Err != nil {
			continue
		}
		if v.Stays, v.Until, err = d.stays(v.Policy, r, &current); err != nil {
			return intent{}, err
		}
		v.Decision, v.Err = evaluate(ctx, v.Policy, tolerating(input, v.Stays))
	}
	return current, nil
}

// refuseUnschedulable sets an error in the verdicts that decide on scheduling if the object's pod spec is unknown or invalid.
func (d *Decider) refuseUnschedulable(r *Request, current *intent, verdicts []*Verdict) {
	for _, v := range verdicts {
		if v.Err == nil && len(v.Decision.Scheduling) > 0 {
			v.Err = d.schedulable(r, current)
		}
	}
}

// paused reports whether remediation of a policy is paused, and the pause matters for the request. It matters only for enforced policies
// with remediation mode Automatic, and only for updates, not for new objects, nor for existing ones that are not being updated. It does not
// matter for remediation's own updates, because the leader sends none while it knows of the pause. This replica may learn later than the
// leader that the pause is over. If it kept the old values then, nothing would enqueue the object again.
func (d *Decider) paused(r *Request, p *Policy) bool {
	return d.Paused != nil && p.Automatic() && r.changesObject() && d.Paused(p.Name, r.Namespace)
}

// keepOwnedTemplate reports whether the object is a ReplicaSet that must keep the pod template that its owner gave it. It looks up the
// owner only if a policy decides on scheduling, or did so before. If the lookup fails, it returns true, and every policy that may decide on
// scheduling gets the error in its verdict.
func (d *Decider) keepOwnedTemplate(ctx context.Context, r *Request, current *intent, verdicts []*Verdict) bool {
	schedules := func(v *Verdict) bool { return v.Err == nil && len(v.Decision.Scheduling) > 0 }
	if !ownedReplicaSet(r) || !slices.ContainsFunc(verdicts, schedules) && len(current.applied.Scheduling) == 0 {
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

// keepImmutable keeps the scheduling values that policies set in a Pod or a Job and that the API server no longer allows to change, if an
// update sets them back to the requested values, as applying the old manifest again does. Otherwise the API server would reject the update.
func (d *Decider) keepImmutable(current *intent, r *Request, id identity) {
	if current.pods.spec == nil || r.Old == nil || r.Old == r.Object || !mayBeFixed(r.Resource.GroupResource()) {
		return
	}
	before := readIntent(d.Keyring, r.Old, r.Old, id, locations{podSpec: current.pods.path})
	values := current.current[fieldScheduling]
	for key, entry := range before.applied.Scheduling {
		previous := before.current[fieldScheduling][key]
		if _, stands := current.applied.Scheduling[key]; stands || !ptr.Equal(optional(values, key), entry.Requested) ||
			fixed(r, false, key, &previous) == "" {
			continue
		}
		values[key] = previous
		current.applied.put(fieldScheduling, key, entry)
	}
}

// evaluateRemote starts the evaluation of each policy with a remote engine on its own goroutine. It returns a function that waits for all
// of them. Callers must not read the verdicts of these policies before.
func evaluateRemote(ctx context.Context, verdicts []*Verdict, input map[string]any, evaluate evaluateFunc) (wait func()) {
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
					// This goroutine has no caller that recovers panics, as the goroutines of servers and controllers
					// do.
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

// fill adds the fields that the policies read to the request's object. If a policy may hold the update, it completes this object and the
// one before the update.
func (r *Request) fill(verdicts []*Verdict) error {
	if r.Source == nil {
		return nil
	}
	for _, v := range verdicts {
		reads := v.Policy.Evaluator.Input()
		if _, remote := v.Policy.Remote(); remote {
			reads = projection.AllFields()
		}
		if err := r.Source.Fill(reads); err != nil {
			return err
		}
	}
	if r.mayHold(verdicts) {
		return r.Source.Complete()
	}
	return nil
}

// outcome returns the outcome with the object that has the merged values and the new record.
func (d *Decider) outcome(current *intent, values map[string]map[string]string, next record, id identity,
	verdicts []*Verdict) (*Outcome, error) {
	text, err := d.Keyring.encode(next, id)
	if err != nil {
		return nil, fmt.Errorf("recording the requested values: %w", err)
	}
	if text = cmp.Or(text, current.copied); text != "" {
		values[fieldAnnotations][placementv1.RequestedAnnotation] = text
	}
	object := withOwnMetadata(current.object)
	for _, field := range []string{fieldAnnotations, fieldLabels} {
		setMetadata(object, field, current.clusters.inMetadata(field, values[field]))
	}
	out := &Outcome{Object: object, Verdicts: verdicts, NotTaken: current.notTaken(values, &next)}
	if err := current.clusters.place(out, optional(values[fieldAnnotations], placementv1.ClustersAnnotation)); err != nil {
		return nil, err
	}
	if pods := &current.pods; pods.spec != nil && pods.err == nil {
		out.PodSpec = pods.path
		// Unchanged items of the existing spec keep their positions.
		object.Object = podscheduling.WithPodSpec(object.Object, pods.path, podscheduling.Apply(pods.spec, pods.flat, values[fieldScheduling]),
			pods.spec)
	}
	return out, nil
}

// locate returns the path of the object's pod spec, and where its kind lists clusters, and adds the fields there to the object. Each is nil
// if merging does not need it.
func (d *Decider) locate(r *Request, id identity, verdicts []*Verdict) (at locations, err error) {
	if at.podSpec, err = d.podSpec(r, id, verdicts); err != nil {
		return at, err
	}
	at.clusters = d.ClusterLists.Of(r.Resource.GroupResource())
	if at.clusters == nil || r.Source == nil {
		return at, nil
	}
	return at, r.Source.Fill(at.clusters.Fields())
}

// podSpec returns the path of the object's pod spec, and adds the fields there to the object. It returns nil if no matching policy may
// decide on scheduling and no record has scheduling keys, and if it is not known where the object's kind has its pod spec.
func (d *Decider) podSpec(r *Request, id identity, verdicts []*Verdict) ([]string, error) {
	if !slices.ContainsFunc(verdicts, func(v *Verdict) bool { return v.Policy.Schedules }) && !d.recordsScheduling(r, id) {
		return nil, nil
	}
	path, ok := d.Templates.Path(r.Resource.GroupResource())
	if !ok || r.Source == nil {
		return path, nil
	}
	if r.Old != nil && mayBeFixed(r.Resource.GroupResource()) || ownedReplicaSet(r) {
		// The old object shows whether a Job can still be changed, and which values must stay. The template of a
		// ReplicaSet is compared with that of its owner.
		return path, r.Source.Complete()
	}
	return path, r.Source.Fill(SchedulingFields(path))
}

// schedulable returns why policies cannot decide on scheduling for the object: Berth does not know where its pod template is, did not read
// it because no policy was known to decide on scheduling, or cannot decode it. It returns nil if they can.
func (d *Decider) schedulable(r *Request, current *intent) error {
	var err error
	if _, known := d.Templates.Path(r.Resource.GroupResource()); !known {
		err = &workload.UnknownKindError{GroupKind: r.Object.GroupVersionKind().GroupKind()}
	} else if len(current.pods.path) == 0 {
		err = errors.New("the analysis of the policy did not find this rule: this is a bug of Berth")
	} else if current.pods.err != nil {
		return &ContractError{Rule: fieldScheduling, Message: current.pods.err.Error()}
	}
	if err != nil {
		return fmt.Errorf("rule %s: %w", fieldScheduling, err)
	}
	return nil
}

// Matching returns the policies that match the object of a request, in order of precedence. unknown are those for which a match condition
// fails, so that it is not known whether they match. It evaluates no policy. The object and the request's Admission must be complete if a
// policy has match conditions.
func (d *Decider) Matching(ctx context.Context, r Request) (matching, unknown []*Policy, err error) {
	index, end := d.Policies.Begin()
	defer end()
	policies, object, err := d.candidates(ctx, &r, index)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range policies {
		switch matches, err := p.Matcher.Matches(ctx, object); {
		case err != nil:
			unknown = append(unknown, p)
		case matches:
			matching = append(matching, p)
		}
	}
	return matching, unknown, nil
}

// candidates returns the policies of an index that may match the object of a request, in order of precedence; none for an object in Berth's
// own namespace. It also returns the object in the form that matchers evaluate. The error is that the labels of its namespace are
// unavailable.
func (d *Decider) candidates(ctx context.Context, r *Request, index *match.Index[*Policy]) ([]*Policy, match.Object, error) {
	candidates := index.CandidatesFor(r.Resource)
	if namespace := r.matchedNamespace(); candidates.Empty() || (namespace != "" && namespace == d.OwnNamespace) {
		return nil, match.Object{}, nil
	}
	object, err := d.matchObject(ctx, r, r.Object)
	if err != nil {
		return nil, match.Object{}, err
	}
	policies := candidates.Matching(object)
	slices.SortFunc(policies, ByPrecedence)
	return slices.Compact(policies), object, nil
}

// matching returns a verdict without a decision for each policy of an index that matches the object, or that the object leaves. The verdict
// has an error if it is not known whether the policy matches, or if its data is stale. staged reports whether some version would match if
// it were in force in the object's namespace.
func (d *Decider) matching(ctx context.Context, r Request, index *match.Index[*Policy]) (verdicts []*Verdict, staged bool, err error) {
	policies, object, err := d.candidates(ctx, &r, index)
	if err != nil {
		return nil, false, err
	}
	for _, p := range policies {
		if r.Source != nil && p.Matcher.Conditional() {
			if err := r.Source.Complete(); err != nil {
				return nil, false, err
			}
		}
		matches, err := p.Matcher.Matches(ctx, object)
		leaves := false
		if !matches {
			leaves, err = p.Matcher.Leaves(ctx, object)
			if leaves && p.Matcher.SelectsLabels(d.labelsOf(&r)) {
				leaves, matches = false, true
			}
		}
		if (matches || leaves) && err == nil && d.Stale != nil {
			err = d.Stale(p)
		}
		if matches || leaves {
			verdicts = append(verdicts, &Verdict{Policy: p, Err: err, Leaves: leaves, paused: matches && d.paused(&r, p)})
		} else if p.Matcher.ExcludedByWithin(object) {
			staged = true
		}
	}
	return verdicts, staged, nil
}

// matchedNamespace returns the namespace in which policies match the object. For a Namespace, that is its own name.
func (r *Request) matchedNamespace() string {
	if r.Resource.GroupResource() == namespaces {
		return r.Object.GetName()
	}
	return r.Namespace
}

// matchObject returns an object in the form that matchers evaluate. content is the request's object, or that before the update. The error
// is that the labels of its namespace are unavailable.
func (d *Decider) matchObject(ctx context.Context, r *Request, content *unstructured.Unstructured) (match.Object, error) {
	namespace := r.matchedNamespace()
	object := match.Object{Resource: r.Resource, Namespace: namespace, Content: content, Old: r.Old, Request: r.Admission}
	switch {
	case r.Resource.GroupResource() == namespaces:
		// As in the API server, a Namespace is matched by its own labels.
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

// input returns what policies get as input: the object as its developer requested it, without the managed fields, which record who wrote
// which field.
func (i intent) input() map[string]any {
	input := maps.Clone(i.object.Object)
	if metadata, ok := input["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		input["metadata"] = metadata
	}
	return input
}
