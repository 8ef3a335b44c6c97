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

// Package findings finds probable mistakes in policies that compile, and what policies leave open: what a policy matches, reads,
// and names is compared with the types, namespaces, and clusters that there are. The webhook for policies, the status of
// policies, which leaves out notices, and kubectl berth check, which also compares with the objects in files, have these
// findings.
package findings

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/workload"
)

// Level reports whether a finding is certainly a mistake, may be one, or is only told when a policy is applied.
type Level int

const (
	// Mistake is for what no author means. spec.strict refuses it, and the condition Compiled has the reason TypeErrors.
	Mistake Level = iota
	// Advice is for what an author may mean, such as a field without effect in one mode, or a kind that is not matched.
	Advice
	// Notice is for what is told only when a policy is applied: another condition of the status says it, or it passes, such as an
	// error in reading clusters.
	Notice
)

// Finding is a probable mistake in a policy, or something that it leaves open: a message, where it is in spec.rego, how certain it is, and
// while which numbers of matched objects it holds.
type Finding struct {
	// Position is the position in spec.rego. It is zero if the finding concerns another field, which Message then names.
	lint.Position
	Message string
	Level   Level
	// Impossible names what can't decide any matched object: a rule of the decision contract, or the path of a rule in spec.rules; "" for
	// nothing.
	Impossible string
	// Rule is the name of the rule of spec.rules that the finding concerns, if the finding holds only while the policy matches many existing
	// objects and the rule decides none of them; "" for other findings.
	Rule string
	// Instead names the rules that may decide, in place of Rule, objects that Rule selects, joined by commas. The finding holds only while
	// these rules decide no object, either.
	Instead string
	// Below is a number of matched objects: the finding holds only while the policy matches many objects, but fewer than Below. It is 0 for
	// findings that hold for any number. Once the status has the finding, it holds below Until, so that it does not come and go with single
	// objects.
	Below, Until int32
	// Unmatched reports whether the finding holds only while the policy matches no existing object. The status leaves it out otherwise.
	Unmatched bool
}

// Text returns the message. It begins with the position, if there is one, such as "NAME.rego:3:5: ", where name is the policy's name.
func (f Finding) Text(name string) string {
	if f.Row == 0 {
		return f.Message
	}
	return fmt.Sprintf("%s.rego:%d:%d: %s", name, f.Row, f.Col, f.Message)
}

// Texts returns the texts of findings in the policy of the given name.
func Texts(name string, list []Finding) []string {
	out := make([]string, len(list))
	for i, f := range list {
		out[i] = f.Text(name)
	}
	return out
}

// mistake returns a finding of level Mistake (no author means it) with a formatted message.
func mistake(format string, args ...any) Finding {
	return Finding{Message: fmt.Sprintf(format, args...)}
}

// mistakeAt returns a finding of level Mistake at a position in spec.rego.
func mistakeAt(at lint.Position, message string) Finding {
	return Finding{Position: at, Message: message}
}

// advice returns a finding of level Advice (an author may mean it) with a formatted message.
func advice(format string, args ...any) Finding {
	return Finding{Message: fmt.Sprintf(format, args...), Level: Advice}
}

// notice returns a finding of level Notice (it is only told when a policy is applied) with a formatted message.
func notice(format string, args ...any) Finding {
	return Finding{Message: fmt.Sprintf(format, args...), Level: Notice}
}

// Catalog has the resource types that the API server served when it was last read, and those of them with a scale subresource. It can read
// them from the API server again.
type Catalog interface {
	policy.Catalog
	// Served returns all types that the API server serves, or nil if they are not known.
	Served() *match.ServedTypes
	// Scalable returns the served types with a scale subresource for which selects returns true.
	Scalable(selects func(schema.GroupVersionResource) bool) []schema.GroupVersionResource
}

// Clusters reads the clusters of the inventories, and finds sources of clusters in the manager's configuration that select nothing.
type Clusters interface {
	// All returns the clusters in the form of data.clusters[name]; none if they are not known. idle are messages about sources of clusters in
	// the manager's configuration that select nothing.
	All(ctx context.Context) (clusters []map[string]any, idle []string, err error)
}

// Scores reads the scores that add-ons of Open Cluster Management report.
type Scores interface {
	// All returns the scores of each cluster, by the names that rules give them. It returns none if no cluster has scores.
	All(ctx context.Context) (map[string]map[string]any, error)
}

// Namespaces reads the labels of all namespaces.
type Namespaces interface {
	// All yields the name and labels of each existing namespace. Callers must not modify the labels.
	All(ctx context.Context) (iter.Seq2[string, map[string]string], error)
}

// Nodes reads the names, labels, taints, and allocatable resources of the nodes of the served cluster.
type Nodes interface {
	// All returns the name, the labels, the taints, and the allocatable resources of each node, in the form of data.clusters[name]. It returns
	// none if there are too many to read.
	All(ctx context.Context) ([]map[string]any, error)
}

// Classes lists the names of the classes of one kind, such as PriorityClass.
type Classes interface {
	// Names returns the names of all classes.
	Names(ctx context.Context) ([]string, error)
}

// Scales finds the field of an object that its scale subresource sets.
type Scales interface {
	// ReplicasPath returns the path of the field. ok is false if the path is not known.
	ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error)
}

// Finder finds mistakes in policies by what the cluster has. Catalog and Scales must be set. Most other fields may be nil, which leaves out
// the findings that need them. It is safe for concurrent use.
type Finder struct {
	Catalog Catalog
	Scales  Scales
	// Namespaces reads the labels of all namespaces. If it is nil, policies are not compared with namespaces.
	Namespaces Namespaces
	// Clusters reads the existing clusters. If it is nil, policies are not compared with clusters.
	Clusters Clusters
	// Scores reads the scores of clusters. If it is nil, policies are not compared with scores.
	Scores Scores
	// Nodes reads the nodes. If it is nil, policies are not compared with nodes.
	Nodes Nodes
	// PriorityClasses lists the priority classes. If it is nil, policies are not compared with them. If it fails, a notice says so.
	PriorityClasses Classes
	// Quotas reads LimitedResources and quotas. If it is nil, neither the priority classes that a policy sets nor the quotas that its Rego
	// reads are compared with these.
	Quotas Quotas
	// OwnNamespace is Berth's own namespace in the served cluster, in which nothing is matched; "" for none.
	OwnNamespace string
	// CatalogIsPartial reports whether an API server may serve more types than those in Catalog, which are from files. Then it is no
	// mistake to deliver to a system whose types are missing.
	CatalogIsPartial bool
	// ClusterPredicates are the names of the manager's predicates that evaluate clusters. Each other one that a policy names is a mistake if
	// the policy evaluates clusters alone: with an empty list, each one that it names. No finding is left out.
	ClusterPredicates []string
	// Groups returns the names in spec.remediation.budget.group of all policies but the named one. If it is nil, groups are not compared.
	Groups func(except string) []string
	// Policies returns all policies. If it is nil, they are not compared with each other.
	Policies func(ctx context.Context) ([]placementv1.PlacementPolicy, error)
	// Objects returns the existing objects of a type. If it is nil, policies are not compared with them: a cluster has too many.
	Objects func(ctx context.Context, resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error)
	// Templates finds the pod templates of kinds; nil for the built-in kinds.
	Templates *workload.Templates
	// Compiler compiles policies within a deadline. If it is nil, they are compiled without a deadline.
	Compiler *policy.BoundedCompiler
}

// Policy is the policy in which Finder.Policy finds mistakes. It compiles, and its plural names are bound to resource types.
type Policy struct {
	Name string
	// Spec is the spec as it is stored, without defaults.
	Spec    placementv1.PlacementPolicySpec
	Matcher *match.Matcher  // The compiled spec.match.
	Module  *policy.Module  // The compiled rules or Rego, or the reference to a remote engine.
	Binding *policy.Binding // The resource types that the module's plural names are bound to.
	// Matched is the number of existing objects that the policy matches, as its status has it; 0 if it is not known. With 0, findings that
	// hold only for many matched objects are left out.
	Matched int
}

var specPath = field.NewPath("spec")

// All returns the findings in a stored policy, except for notices. bound has the groups that its plural names are bound to. It returns
// none for a policy that does not compile or can't be bound, which the condition Compiled reports. namespaces reports whether the findings
// depend on which namespaces exist, so that they have to be made again when these change. The error is that of a compilation that may
// succeed later.
func (f *Finder) All(ctx context.Context, name string, spec placementv1.PlacementPolicySpec,
	bound policy.Bindings) (list []Finding, namespaces bool, err error) {
	defaulted := spec.WithDefaults()
	module, err := f.Compiler.Compile(ctx, name, defaulted)
	if _, wrong := errors.AsType[*policy.CompileError](err); wrong && !policy.IsUnfinished(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	binding, err := policy.BindWithRecorded(name, module, defaulted.Replicate, f.Catalog, bound)
	if err != nil {
		return nil, false, nil //nolint:nilerror // The condition Compiled reports it.
	}
	matcher, errs := match.New(defaulted.Match, matchPath)
	if len(errs) > 0 {
		return nil, false, nil
	}
	out := slices.Concat(f.match(ctx, spec.Match, matcher), f.Stages(ctx, name, spec, matcher),
		f.Policy(ctx, Policy{Name: name, Spec: spec, Matcher: matcher, Module: module, Binding: binding}),
		f.findingsOfIdleRules(ctx, spec, matcher), f.findingsOfGroup(ctx, name, spec),
		slices.DeleteFunc(findingsOfNumbers(spec), func(found Finding) bool { return found.Below == 0 }))
	if !matcher.Coverage(f.Catalog.Served(), matchPath, f.OwnNamespace).ClusterScoped {
		out = append(out, f.findingsOfNamespaceLabel(ctx, spec.Match)...)
	}
	namespaces = len(module.Keyed) > 0 || len(namedBy(spec.Match.ObjectSelector)) > 0 || len(classesSet(spec, module)) > 0 ||
		spec.Rollout != nil && len(spec.Rollout.Stages) > 0 || matcher.SelectsNamespaces() || comparesNamespaces(spec) ||
		slices.ContainsFunc(spec.Rules, func(r placementv1.Rule) bool {
			return r.When != nil && (r.When.NamespaceSelector != nil || r.When.ObjectSelector != nil)
		})
	return slices.DeleteFunc(out, func(found Finding) bool { return found.Level == Notice }), namespaces, nil
}

// Policy returns the findings in a policy, also notices, except for those in spec.match, in the stages of spec.rollout, and of
// findingsOfIdleRules. What it can't read of the cluster, such as clusters or nodes, becomes a notice that says so. It looks for a budget
// group without a bound only if f.Objects is set, so that all policies are known.
func (f *Finder) Policy(ctx context.Context, p Policy) []Finding {
	spec, module, m := p.Spec, p.Module, p.Matcher
	var ambiguous []Finding
	for _, text := range p.Binding.AmbiguousNames(f.Catalog) {
		ambiguous = append(ambiguous, advice("%s", text))
	}
	out := slices.Concat(
		f.findingsOfNamespaces(ctx, module, p.Binding), f.findingsOfQuotas(ctx, module), ambiguous, findingsOfUndefined(spec),
		f.findingsOfSubresources(ctx, m, module),
		findingsOfClusters(spec, module), f.findingsOfDelivery(ctx, spec, m, module, specPath.Child("delivery")),
		f.findingsOfReplicas(ctx, spec, m, module), findingsOfRemediation(spec), f.findingsOfLargeNumbers(ctx, spec, m, p.Matched),
		f.findingsOfBudget(p.Name, spec), findingsOfMoves(spec, module), findingsOfEviction(spec, m, module),
		f.findingsOfTypes(spec, m, module), f.findingsOfGaps(spec, m, module), findingsOfCopies(spec, m, module), f.findingsOfKinds(m, module),
		findingsOfAbsentLabels(m, module), findingsOfNeededKeys(m, module), findingsOfUnused(module),
		f.findingsOfConstants(ctx, spec.WithDefaults(), module, p.Binding), f.findingsOfNodes(ctx, spec, module),
		f.findingsOfClasses(ctx, spec, module),
		f.findingsOfLimits(ctx, spec, m, module),
		f.findingsOfWhen(ctx, spec, m), f.findingsOfNamespaceNames(ctx, spec), findingsOfExpressions(ctx, spec, m),
		findingsOfOptional(ctx, spec, m, m.Served(f.Catalog.Served())), findingsOfConditions(ctx, spec, m.Served(f.Catalog.Served())),
		f.findingsOfObjects(ctx, spec, m), f.findingsOfTypeNames(spec, m),
		f.findingsOfMissingValues(ctx, p.Name, spec, m), f.findingsOfOthers(ctx, p.Name, spec),
		f.findingsOfTogether(ctx, p.Name, spec),
		findingsOfExemptions(spec, m),
		findingsOfPredicates(module, f.ClusterPredicates), findingsOfVolatile(spec), findingsOfGeneratedNames(spec, m),
		f.findingsOfUsers(ctx, spec, module))
	if f.Objects != nil {
		// Of files, all policies are known.
		out = append(out, f.findingsOfGroup(ctx, p.Name, spec)...)
	}
	if !module.FromRules() {
		return out
	}
	// Positions are in the Rego that the rules are compiled to, which the author does not see. One field becomes several parts of it.
	seen := map[string]bool{}
	each := out[:0]
	for _, found := range out {
		found.Message, found.Position = module.WithFields(p.Name, found.Text(p.Name)), lint.Position{}
		if !seen[found.Message] {
			seen[found.Message] = true
			each = append(each, found)
		}
	}
	return each
}

// findingsOfUndefined finds spec.remote without the field undefined: an engine that lacks the policy returns no result, and objects are
// admitted. With failurePolicy: Ignore, it finds nothing.
func findingsOfUndefined(spec placementv1.PlacementPolicySpec) []Finding {
	if spec.Remote == nil || spec.Remote.Undefined != "" || spec.FailurePolicy == placementv1.FailurePolicyIgnore {
		return nil
	}
	return []Finding{advice("spec.remote.undefined is not set: an engine that does not have the policy, as after a typing error in " +
		"spec.remote.url, admits what it matches. Set it to Error if the engine has a result for each object, and to NoOpinion if it has not")}
}
