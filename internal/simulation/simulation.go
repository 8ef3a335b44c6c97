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

package simulation

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/podscheduling"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/remediation"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/waiting"
	"github.com/berth-dev/berth/internal/workload"
)

// Options are those settings of the manager on which decisions depend.
type Options struct {
	// Predicates are the allowed predicates. If it is nil, a policy that uses predicates can't decide.
	Predicates *predicates.Set
	// Templates says where kinds have their pod template; nil for the built-in kinds.
	Templates *workload.Templates
	// ClusterLists says where placement objects list clusters; nil for the built-in kinds.
	ClusterLists *clusterlist.Kinds
	// Keyring verifies the records of requested values in objects; nil trusts all of them.
	Keyring *placement.Keyring
	// OwnNamespace is the manager's namespace in the cluster, which has the stored revisions of policies, and in which policies match
	// nothing. It is "" for none.
	OwnNamespace string
	// Identity is the manager's user. Match conditions read it as the user of every decided request, also of creations and updates.
	Identity authenticationv1.UserInfo
	// Now is the time at which Waits says what existing objects wait for, such as a window that is closed then; zero for the time of the call.
	// No decision depends on it.
	Now time.Time
}

// evaluationTimeout limits one evaluation. The manager's limit is for a server that others wait for.
const evaluationTimeout = 30 * time.Second

// concurrency is the number of evaluations that may run at once. One policy gets at most half of them.
const concurrency = 64

// Simulation decides objects by the policies of a cluster, as the manager does. It is safe for concurrent use, and does not follow changes
// of the cluster.
type Simulation struct {
	cluster  Cluster
	options  Options
	policies []*Policy
	decider  *placement.Decider    // decides objects by the policies
	data     *embedded.Data        // the data that policies read
	world    *predicates.NodeCache // the nodes and pods that predicates read; empty if no policy uses predicates
	engine   *embedded.Engine      // evaluates the policies
	// revisions has the highest resource version of the objects that policies read, by type; no entry for types without a resource version, as
	// in files.
	revisions map[schema.GroupVersionResource]uint64
	// revisionObjects are the ControllerRevisions from which versions of policies were read that are in force.
	revisionObjects []*unstructured.Unstructured
	// conditional reports whether a policy has match conditions. Only these read the admission request of an object, so others need none.
	conditional bool
}

// Policy is a policy of a simulation, with the versions of it that decide: one, or two during a rollout. A version that does not compile
// can't decide any object, even if the manager still uses an earlier one in its place.
type Policy struct {
	// Version is the version that decides. In the midst of a rollout, it is the one that decides in the stages that are reached.
	Version
	// Before is the version that decides in the namespaces that the rollout has not reached; nil if none does.
	Before *Version
	// Object is the PlacementPolicy from which the versions were built, as the cluster has it; never nil.
	Object *placementv1.PlacementPolicy
	// Assignment says which version decides in which namespace.
	Assignment rollout.Assignment
}

// Version is a version of a policy that decides in some or all namespaces.
type Version struct {
	*placement.Policy
	// Spec is the spec of the version, with defaults. Its remediation and rollout are those of the newest version.
	Spec placementv1.PlacementPolicySpec
	// Module is nil if the version can't be read, does not compile, or reads a type whose name is ambiguous.
	Module  *policy.Module
	Binding *policy.Binding // nil if Module is
	// Err says why the version can't decide any object, such as that it does not compile, or that a remote engine decides; nil if it can.
	Err error
}

// Versions returns the versions that decide: p.Version, and then p.Before unless it is nil. No object is matched by both.
func (p *Policy) Versions() []*Version {
	if p.Before == nil {
		return []*Version{&p.Version}
	}
	return []*Version{&p.Version, p.Before}
}

// VersionOf returns the version of p that has the given placement.Policy, which must be that of one of p.Versions. For any other, the
// result is p.Version.
func (p *Policy) VersionOf(of *placement.Policy) *Version {
	if p.Before != nil && p.Before.Policy == of {
		return p.Before
	}
	return &p.Version
}

// Resources returns the types whose objects the versions read as data, each once. Types that only predicates read are not among them.
func (p *Policy) Resources() []policy.Resource {
	var out []policy.Resource
	for _, v := range p.Versions() {
		if v.Binding == nil {
			continue
		}
		for _, r := range v.Binding.Resources {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// Fields returns the fields that the versions read of the objects of a type, as data; nil if they do not read the type.
func (p *Policy) Fields(resource schema.GroupVersionResource) *projection.FieldSet {
	return p.union(resource, func(b *policy.Binding) fieldsByType { return b.Fields })
}

// PredicateReads returns the fields of a type's objects that the predicates of the versions read; nil if they do not read the type.
func (p *Policy) PredicateReads(resource schema.GroupVersionResource) *projection.FieldSet {
	return p.union(resource, func(b *policy.Binding) fieldsByType { return b.PredicateReads })
}

// union returns the union of the fields of a type in the maps that reads returns for the versions; nil if none has the type.
func (p *Policy) union(resource schema.GroupVersionResource, reads func(*policy.Binding) fieldsByType) *projection.FieldSet {
	var sets []*projection.FieldSet
	for _, v := range p.Versions() {
		if v.Binding != nil && reads(v.Binding)[resource] != nil {
			sets = append(sets, reads(v.Binding)[resource])
		}
	}
	if len(sets) == 0 {
		return nil
	}
	return projection.Union(sets...)
}

// SelectsResource reports whether spec.match.resourceRules of a version of the policy may select a type. Versions whose rules or Rego do
// not compile count, too.
func (p *Policy) SelectsResource(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(p.Versions(), func(v *Version) bool { return v.Matcher.SelectsResource(resource) })
}

// NeedsNamespaces reports whether the labels of an object's namespace may determine whether the policy matches the object, or which version
// does: spec.match has a namespace selector or match conditions, or a rollout is under way. Labels that rules or Rego read do not count:
// they are data.
func (p *Policy) NeedsNamespaces() bool {
	return p.Assignment.Partial() || slices.ContainsFunc(p.Versions(), func(v *Version) bool {
		return v.Matcher.SelectsNamespaces() || v.Matcher.Conditional()
	})
}

// New compiles the policies of a cluster and loads what they read. An error means that the cluster could not be read. That a policy is
// invalid is in its Version.Err.
func New(ctx context.Context, cluster Cluster, o Options) (*Simulation, error) {
	if o.Keyring == nil {
		o.Keyring = placement.NewTrustingKeyring()
	}
	s := &Simulation{cluster: cluster, options: o, data: embedded.NewData(), world: predicates.NewNodeCache(),
		revisions: map[schema.GroupVersionResource]uint64{}}
	s.engine = embedded.New(s.data, embedded.Options{
		Timeout: evaluationTimeout, Concurrency: concurrency, Predicates: o.Predicates, Templates: o.Templates, World: s.world,
	})
	objects, err := cluster.Policies(ctx)
	if err != nil {
		return nil, err
	}
	for i := range objects {
		p, err := s.compile(ctx, &objects[i])
		if err != nil {
			return nil, err
		}
		s.policies = append(s.policies, p)
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	var inForce []*placement.Policy
	for _, v := range s.versions() {
		inForce = append(inForce, v.Policy)
		s.conditional = s.conditional || v.Matcher.Conditional()
	}
	namespaces, err := s.readNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	s.decider = &placement.Decider{
		Policies: fixedPolicies{placement.NewIndex(inForce...)}, Namespaces: namespaces, Owners: owners{cluster}, Keyring: o.Keyring,
		OwnNamespace: o.OwnNamespace, Templates: o.Templates, ClusterLists: o.ClusterLists.Resolving(s.data.Profile),
	}
	return s, nil
}

// Undelivered reports whether an object is not delivered although policies deliver it, because no policy decides its clusters. outcome is
// the result of Decide for it.
func (s *Simulation) Undelivered(o Object, outcome *placement.Outcome) bool {
	return s.decider.Undelivered(outcome, o.Resource.GroupResource(), o.Namespace)
}

// fixedPolicies implements placement.Policies with policies that do not change.
type fixedPolicies struct {
	index *match.Index[*placement.Policy]
}

// Begin returns the index of the policies, which never changes. end, which the decider calls after the decision, does nothing.
func (f fixedPolicies) Begin() (index *match.Index[*placement.Policy], end func()) {
	return f.index, func() {}
}

// RemoteError means that a remote engine, at URL, decides the policy. A Simulation does not query it, so the policy can't decide.
type RemoteError struct{ URL string }

func (e *RemoteError) Error() string {
	return "the remote engine at " + e.URL + " decides for this policy, and a simulation does not query it"
}

// load loads the objects that policies and predicates read.
func (s *Simulation) load(ctx context.Context) error {
	inventories := s.cluster.Catalog().Inventories()
	for resource, fields := range s.union(func(b *policy.Binding) fieldsByType { return b.Fields }) {
		objects, err := s.cluster.List(ctx, resource, nil)
		if err != nil {
			return err
		}
		prepared := make([]*unstructured.Unstructured, len(objects))
		for i, obj := range objects {
			prepared[i] = obj.DeepCopy()
			// Objects from files have no resource version.
			if revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64); err == nil {
				s.revisions[resource] = max(s.revisions[resource], revision)
			}
			inventories.Prepare(resource, prepared[i])
		}
		s.data.Load(resource, fields, prepared)
	}
	for resource, fields := range s.union(func(b *policy.Binding) fieldsByType { return b.PredicateReads }) {
		objects, err := s.cluster.List(ctx, resource, fields)
		if err != nil {
			return err
		}
		s.world.Load(resource, objects)
	}
	return nil
}

// fieldsByType has, for each type, the fields of its objects that are read or kept; nil for all fields.
type fieldsByType = map[schema.GroupVersionResource]*projection.FieldSet

// union returns the union of what reads returns for the versions of all policies.
func (s *Simulation) union(reads func(*policy.Binding) fieldsByType) fieldsByType {
	sets := map[schema.GroupVersionResource][]*projection.FieldSet{}
	for _, v := range s.versions() {
		if v.Binding == nil {
			continue
		}
		for resource, fields := range reads(v.Binding) {
			sets[resource] = append(sets[resource], fields)
		}
	}
	out := fieldsByType{}
	for resource, all := range sets {
		out[resource] = projection.Union(all...)
	}
	return out
}

// Policies returns all policies, sorted by name.
func (s *Simulation) Policies() []*Policy { return s.policies }

// versions returns the versions of all policies that decide in some or all namespaces.
func (s *Simulation) versions() []*Version {
	var out []*Version
	for _, p := range s.policies {
		out = append(out, p.Versions()...)
	}
	return out
}

// Policy returns the policy of a name, or nil.
func (s *Simulation) Policy(name string) *Policy {
	i := slices.IndexFunc(s.policies, func(p *Policy) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return s.policies[i]
}

// Size returns how many objects of a type the policies read as data, and an estimate of their memory in bytes.
func (s *Simulation) Size(resource schema.GroupVersionResource) (objects int, bytes int64) {
	objects, bytes, _ = s.data.Size(resource)
	return objects, bytes
}

// Revision returns the highest resource version of the objects of a type that policies read as data; "" if there are none, or they have no
// resource version, as in files.
func (s *Simulation) Revision(resource schema.GroupVersionResource) string {
	if revision, ok := s.revisions[resource]; ok {
		return strconv.FormatUint(revision, 10)
	}
	return ""
}

// Clusters returns the sorted names of the clusters in the inventories that policies read, each once, also of those that several objects
// represent.
func (s *Simulation) Clusters(ctx context.Context) ([]string, error) {
	inventories := s.cluster.Catalog().Inventories()
	names := sets.New[string]()
	for resource := range s.union(func(b *policy.Binding) fieldsByType { return b.Fields }) {
		if !slices.Contains(inventories.Resources(), resource) {
			continue
		}
		objects, err := s.cluster.List(ctx, resource, nil)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if cluster, ok := inventories.Cluster(resource, obj.Object); ok {
				names.Insert(cluster["name"].(string))
			}
		}
	}
	return sets.List(names), nil
}

// Claims returns, for each cluster in any inventory, the objects that represent it.
func (s *Simulation) Claims(ctx context.Context) (replication.Claims, error) {
	inventories, out := s.cluster.Catalog().Inventories(), replication.Claims{}
	served := func(r schema.GroupVersionResource) bool {
		_, ok := s.cluster.Catalog().Exact(r)
		return ok
	}
	for _, resource := range inventories.Served(served) {
		objects, err := s.cluster.List(ctx, resource, nil)
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if cluster, ok := inventories.Cluster(resource, obj.Object); ok {
				out.Add(cluster["name"].(string), replication.ClaimOf(resource.GroupResource(), obj.GetNamespace(), obj.GetName(), cluster))
			}
		}
	}
	return out, nil
}

// Ambiguous returns, sorted by name, the cluster names that several objects have in the inventories which the policy with a binding reads.
func (s *Simulation) Ambiguous(b *policy.Binding) []replication.Ambiguity {
	return s.data.Ambiguous(b.Clusters)
}

// Cluster returns the cluster that the simulation was made from.
func (s *Simulation) Cluster() Cluster { return s.cluster }

// PrepareGenerated prepares the evaluation of a module that Berth generated, such as that of a quota. Such a module reads no data.
func (s *Simulation) PrepareGenerated(ctx context.Context, name string, m *policy.Module) (policy.Rules, error) {
	return s.engine.PrepareGenerated(ctx, name, m)
}

// Evaluate is a function that evaluates a policy on an input, which it must not change. VerdictsBy calls it instead of the policy's own
// evaluator.
type Evaluate = func(ctx context.Context, p *placement.Policy, input map[string]any) (placement.Decision, error)

// Identity returns the name of the manager's user (Options.Identity).
func (s *Simulation) Identity() string { return s.options.Identity.Username }

// Object is an object to decide, as it exists, is created, or is updated.
type Object struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Content   *unstructured.Unstructured // the object as it exists, or as the request sends it
	// Old is the object before an update, whose result is Content; nil if the object is not updated.
	Old *unstructured.Unstructured
	// Exists reports whether the object exists and is not updated. Then it is decided as remediation decides it. Otherwise it is decided as a
	// request: an update or, if Old is nil, a creation.
	Exists bool
}

// NewObject returns the Object of some content, which it does not change. Its type is the one that the cluster has for the kind; it is an
// error if there is none. Its Namespace is that of the content or, if that is empty, "default". For a cluster-scoped type, it is empty,
// whatever the content has.
func (s *Simulation) NewObject(content *unstructured.Unstructured, exists bool) (Object, error) {
	resource, err := s.cluster.Resource(content.GroupVersionKind())
	if err != nil {
		return Object{}, err
	}
	out := Object{Resource: resource.GroupVersionResource, Content: content, Exists: exists}
	if resource.Namespaced {
		if out.Namespace = content.GetNamespace(); out.Namespace == "" {
			out.Namespace = metav1.NamespaceDefault
		}
	}
	return out, nil
}

// Decide decides an object. The outcome has the verdicts of the policies that match it and, if there are any, the object as these change
// it.
func (s *Simulation) Decide(ctx context.Context, o Object) (*placement.Outcome, error) {
	if o.Exists {
		return s.decider.Remediate(ctx, s.request(o), nil)
	}
	return s.decider.Decide(ctx, s.request(o))
}

// Verdicts decides an object, and returns only the verdicts of the policies that match it, in order of precedence. It is faster than
// Decide.
func (s *Simulation) Verdicts(ctx context.Context, o Object) ([]*placement.Verdict, error) {
	return s.VerdictsBy(ctx, o, nil)
}

// Waits returns what existing objects of a namespace wait for, such as an approval or a window, before remediation changes them for a
// version of a policy. It goes by the status of the policy as it was read, and by Options.Now.
func (s *Simulation) Waits(p *placement.Policy, namespace string) waiting.Waits {
	return s.waits(p, namespace, s.Policy(p.Name).Object.Status)
}

// WaitsForNew returns what existing objects of a namespace wait for before remediation makes a change that is in no plan yet. So it counts
// no approval of the plan in the status.
func (s *Simulation) WaitsForNew(p *placement.Policy, namespace string) waiting.Waits {
	status := s.Policy(p.Name).Object.Status
	status.Plan = nil
	return s.waits(p, namespace, status)
}

// waits returns what existing objects of a namespace wait for before remediation changes them for a version of a policy whose status is
// given, such as an approval, the end of a pause, or a window. The next stage of a rollout does not count.
func (s *Simulation) waits(p *placement.Policy, namespace string, status placementv1.PlacementPolicyStatus) waiting.Waits {
	now := s.options.Now
	if now.IsZero() {
		now = time.Now()
	}
	return waiting.Of(p, status, namespace, now)
}

// Matching returns the versions of policies that match an object, in order of precedence. It evaluates no policy. It returns an error if a
// match condition can't be evaluated.
func (s *Simulation) Matching(ctx context.Context, o Object) ([]*placement.Policy, error) {
	matching, unknown, err := s.decider.Matching(ctx, s.request(o))
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("the match conditions of PlacementPolicy %s can't be evaluated for the object", unknown[0].Name)
	}
	return matching, err
}

// MatchingController returns the versions of policies that match the object from which a controller made another one, in order of
// precedence. If the cluster does not have that object, the result has those that may match objects of its type.
func (s *Simulation) MatchingController(ctx context.Context, c delivery.Controller) ([]*placement.Policy, error) {
	resource, err := s.cluster.Resource(c.WithVersion(c.Version))
	if err != nil {
		// There is no object of a kind that is not served.
		return nil, nil
	}
	content, err := s.cluster.Get(ctx, resource.GroupVersionResource, c.Namespace, c.Name)
	if err != nil {
		return nil, err
	}
	if content != nil && c.Is(content) {
		return s.Matching(ctx, Object{Resource: resource.GroupVersionResource, Namespace: c.Namespace, Content: content, Exists: true})
	}
	var out []*placement.Policy
	for _, v := range s.versions() {
		if v.Matcher.SelectsResource(resource.GroupVersionResource) {
			out = append(out, v.Policy)
		}
	}
	return out, nil
}

// VerdictsBy decides an object, and returns only the verdicts of the policies that match it, in order of precedence. It evaluates policies
// by a function, which gets the input of the policy; nil for the policies' own evaluators.
func (s *Simulation) VerdictsBy(ctx context.Context, o Object, evaluate Evaluate) ([]*placement.Verdict, error) {
	decide, request := s.decider.Decide, s.request(o)
	if o.Exists {
		decide = s.decider.Assess
	}
	request.Evaluate = evaluate
	outcome, err := decide(ctx, request)
	if err != nil {
		return nil, err
	}
	return outcome.Verdicts, nil
}

// Requested returns an existing object with the values that its developer requested, instead of those of policies. Values of policies that
// the API server does not allow to change remain.
func (s *Simulation) Requested(ctx context.Context, o Object) (*unstructured.Unstructured, error) {
	undone, err := s.decider.Undo(ctx, o.Resource, o.Content)
	if err != nil {
		return nil, err
	}
	return undone.Object, nil
}

// RequestedScheduling returns the scheduling fields of an existing object, in the form of Scheduling, as its developer requested them, even
// where the API server no longer allows to change them.
func (s *Simulation) RequestedScheduling(ctx context.Context, o Object) (map[string]string, error) {
	undone, err := s.decider.Undo(ctx, o.Resource, o.Content)
	if err != nil {
		return nil, err
	}
	out := s.Scheduling(o.Resource, undone.Object)
	for _, c := range undone.Changes {
		switch {
		case c.Field != "scheduling" || c.Immutable == "":
		case c.To == nil:
			delete(out, c.Key)
		default:
			out[c.Key] = *c.To
		}
	}
	return out, nil
}

// Mismatch returns why a policy does not match an object, or nil if it does. A match condition that can't be evaluated is no reason. An
// error means that the labels of the object's namespace could not be read.
func (s *Simulation) Mismatch(ctx context.Context, p *Policy, o Object) (*match.Mismatch, error) {
	namespace, labels, err := s.namespaceOf(ctx, o)
	if err != nil {
		return nil, err
	}
	request := s.request(o)
	object := match.Object{Resource: o.Resource, Namespace: namespace, NamespaceLabels: labels, Content: o.Content, Old: request.Old,
		Request: request.Admission}
	return p.versionIn(namespace, labels).Matcher.Mismatch(ctx, object, s.options.OwnNamespace), nil
}

// Matches says which objects of a type in a namespace a policy matches.
type Matches int

const (
	// MatchesNone means that the policy matches none of the objects.
	MatchesNone Matches = iota
	// MatchesSome means that Mismatch says for each object whether the policy matches it.
	MatchesSome
	// MatchesAll means that the policy matches all of the objects.
	MatchesAll
)

// MatchesIn returns which objects of a type in a namespace a policy matches, as far as the type and the namespace decide: MatchesSome if
// its object selector or match conditions decide. The namespace is empty for a cluster-scoped type.
func (s *Simulation) MatchesIn(ctx context.Context, p *Policy, resource schema.GroupVersionResource, namespace string) (Matches, error) {
	if resource.GroupResource() == corev1.Resource("namespaces") {
		// The match reads the labels of each Namespace itself.
		return MatchesSome, nil
	}
	labels, err := s.decider.Namespaces.Labels(ctx, namespace)
	if err != nil {
		return MatchesNone, err
	}
	some, all := p.versionIn(namespace, labels).Matcher.SelectsIn(resource, namespace, labels, s.options.OwnNamespace)
	switch {
	case all:
		return MatchesAll, nil
	case some:
		return MatchesSome, nil
	}
	return MatchesNone, nil
}

// versionIn returns the version of the policy that decides in a namespace with labels.
func (p *Policy) versionIn(namespace string, labels map[string]string) *Version {
	if p.Before != nil && !p.Assignment.Reached(namespace, labels) {
		return p.Before
	}
	return &p.Version
}

// Explain says which version of a policy decides an object, and why; "" for a policy without spec.rollout.
func (s *Simulation) Explain(ctx context.Context, p *Policy, o Object) (string, error) {
	namespace, labels, err := s.namespaceOf(ctx, o)
	if err != nil {
		return "", err
	}
	return p.Assignment.Explain(namespace, labels), nil
}

// namespaceOf returns the name and labels of the namespace by which policies match an object. For a Namespace, these are its own.
func (s *Simulation) namespaceOf(ctx context.Context, o Object) (name string, labels map[string]string, err error) {
	if o.Resource.GroupResource() == corev1.Resource("namespaces") {
		return o.Content.GetName(), o.Content.GetLabels(), nil
	}
	labels, err = s.decider.Namespaces.Labels(ctx, o.Namespace)
	return o.Namespace, labels, err
}

// request returns the request for the decider that decides an object: a creation, an update from o.Old, or, for an existing object, an
// update that changes nothing. If a policy has match conditions, it also has the admission request that they read, by the user in
// Options.Identity.
func (s *Simulation) request(o Object) placement.Request {
	out, operation := placement.Request{Resource: o.Resource, Namespace: o.Namespace, Object: o.Content}, admissionv1.Create
	switch {
	case o.Exists:
		out.Old, operation = o.Content, admissionv1.Update
	case o.Old != nil:
		out.Old, operation = o.Old, admissionv1.Update
	}
	if s.conditional {
		out.Admission = placement.AdmissionOf(operation, o.Resource, o.Namespace, o.Content, s.options.Identity)
	}
	return out
}

// Matched yields the existing objects of the types that policies may match, type by type, also those that no policy matches. The objects
// have at least the fields that their decision reads. An error, with an Object that has only the type, stands for all objects of a type.
func (s *Simulation) Matched(ctx context.Context) iter.Seq2[Object, error] {
	return s.MatchedWith(ctx, func(schema.GroupResource) *projection.FieldSet { return nil })
}

// MatchedWith yields the existing objects of the types that policies may match, type by type, with the fields that their decision reads and
// those that more returns for the type. more must not be nil; it returns nil for no more fields. An error, with an Object that has only the
// type, stands for all objects of a type.
func (s *Simulation) MatchedWith(ctx context.Context, more func(schema.GroupResource) *projection.FieldSet) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for l, err := range s.matchedLists(ctx, more) {
			if err != nil {
				if !yield(Object{Resource: l.Resource.GroupVersionResource}, err) {
					return
				}
				continue
			}
			for _, content := range l.Contents {
				if !yield(l.Object(content), nil) {
					return
				}
			}
		}
	}
}

// List is a type that policies may match, with all of its existing objects.
type List struct {
	Resource policy.Resource
	Contents []*unstructured.Unstructured // the objects
}

// Object returns a member of Contents as an existing Object.
func (l List) Object(content *unstructured.Unstructured) Object {
	out := Object{Resource: l.Resource.GroupVersionResource, Content: content, Exists: true}
	if l.Resource.Namespaced {
		out.Namespace = content.GetNamespace()
	}
	return out
}

// MatchedLists yields the types that policies may match, each with all of its existing objects, whether a policy matches them or not. With
// an error, the list has only the type.
func (s *Simulation) MatchedLists(ctx context.Context) iter.Seq2[List, error] {
	return s.matchedLists(ctx, func(schema.GroupResource) *projection.FieldSet { return nil })
}

// matchedLists yields the types that policies may match, each with all of its existing objects. These have the fields that their decision
// reads, and those that more returns for the type. more must not be nil; it returns nil for no more fields. With an error, the list has
// only the type.
func (s *Simulation) matchedLists(ctx context.Context, more func(schema.GroupResource) *projection.FieldSet) iter.Seq2[List, error] {
	return func(yield func(List, error) bool) {
		for _, resource := range s.cluster.Catalog().Select(s.selects) {
			fields := s.inputFields(resource.GroupVersionResource)
			if added := more(resource.GroupResource()); fields != nil && added != nil {
				fields = projection.Union(fields, added)
			}
			contents, err := s.cluster.List(ctx, resource.GroupVersionResource, fields)
			if !yield(List{resource, contents}, err) {
				return
			}
		}
	}
}

// selects reports whether spec.match.resourceRules of a version of some policy may select a type. Versions whose rules or Rego do not
// compile count, too.
func (s *Simulation) selects(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(s.policies, func(p *Policy) bool { return p.SelectsResource(resource) })
}

// inputFields returns the fields of a type's objects that are read to decide them; nil for all fields.
func (s *Simulation) inputFields(resource schema.GroupVersionResource) *projection.FieldSet {
	evictions, policies := projection.Union(), []*placement.Policy{}
	for _, v := range s.versions() {
		if v.Matcher.SelectsResource(resource) {
			policies = append(policies, v.Policy)
			if remediation.EvictsFrom(v.Policy, resource.GroupResource()) {
				evictions = remediation.EvictionFields()
			}
		}
	}
	out := projection.Union(s.decider.FieldsRead(resource.GroupResource(), policies, false), evictions)
	if out.IsAll() {
		return nil
	}
	return out
}

// ClusterList returns the text (clusterlist.List.Text) of the list of clusters that an object has, in its annotation or, if it is a
// placement object, in a field; nil if it has none.
func (s *Simulation) ClusterList(o Object) *string {
	lists := placement.Outcome{List: s.decider.ClusterLists.Of(o.Resource.GroupResource())}
	_, _, text := lists.ClustersIn(o.Content)
	return text
}

// Scheduling returns the scheduling fields of an object's pod template, by merge key (package podscheduling). It returns none if the type
// has no pod template, or that of the object is malformed.
func (s *Simulation) Scheduling(resource schema.GroupVersionResource, o *unstructured.Unstructured) map[string]string {
	path, ok := s.options.Templates.Path(resource.GroupResource())
	if !ok {
		return nil
	}
	spec, err := podscheduling.PodSpecOf(o.Object, path)
	if err != nil {
		return nil
	}
	out, err := podscheduling.Flatten(spec)
	if err != nil {
		return nil
	}
	return out
}

// namespaceLabels has the labels of each namespace, by its name.
type namespaceLabels map[string]map[string]string

// Labels returns the labels of the namespace with a name. A namespace that is missing has only the label with its name, which the API
// server sets.
func (n namespaceLabels) Labels(_ context.Context, name string) (map[string]string, error) {
	if labels, ok := n[name]; ok {
		return labels, nil
	}
	// The API server sets this label on every namespace.
	return map[string]string{corev1.LabelMetadataName: name}, nil
}

// needsNamespaces reports whether the labels of namespaces may determine which policies match an object, or in which version: spec.match of
// one has a namespace selector or match conditions, or a rollout is under way. Labels that rules or Rego read do not count: they are data.
func (s *Simulation) needsNamespaces() bool {
	return slices.ContainsFunc(s.policies, (*Policy).NeedsNamespaces)
}

// readNamespaces returns the labels of all namespaces. It reads none, and returns an empty map, if matching does not depend on them.
func (s *Simulation) readNamespaces(ctx context.Context) (namespaceLabels, error) {
	out := namespaceLabels{}
	if !s.needsNamespaces() {
		return out, nil
	}
	list, err := s.cluster.List(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), (&projection.FieldSet{}).Seal())
	if err != nil {
		return nil, err
	}
	for _, obj := range list {
		labels := map[string]string{}
		maps.Copy(labels, obj.GetLabels())
		labels[corev1.LabelMetadataName] = obj.GetName()
		out[obj.GetName()] = labels
	}
	return out, nil
}

// owners finds the owners of objects in a cluster by their owner references, for the decider.
type owners struct{ Cluster }

// Owner returns the object to which an owner reference of an object in a namespace refers, by kind and name; nil if there is none, or if
// its kind is not served.
func (o owners) Owner(ctx context.Context, namespace string, reference metav1.OwnerReference) (*unstructured.Unstructured, error) {
	resource, err := o.Resource(schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind))
	if err != nil {
		// There is no object of a kind that is not served.
		return nil, nil
	}
	return o.Get(ctx, resource.GroupVersionResource, namespace, reference.Name)
}
