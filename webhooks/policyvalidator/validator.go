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

// Package policyvalidator provides the validating webhook for PlacementPolicies.
package policyvalidator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/findings"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/analysis"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/schemas"
	"github.com/berth-dev/berth/internal/workload"
)

var _ admission.Validator[*placementv1.PlacementPolicy] = (*Validator)(nil)

// Checker checks that what a policy refers to by name, such as predicates of the manager, exists. A policy is refused if something does
// not.
type Checker interface {
	// Check returns a *policy.CompileError if something does not exist.
	Check(m *policy.Module) error
}

// Secrets reads Secrets in the manager's own namespace.
type Secrets interface {
	Secret(ctx context.Context, name string) (map[string][]byte, error)
}

// Types checks the types of a policy that compiles.
type Types interface {
	// Check returns the findings. An error means that the schemas could not be read.
	Check(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, bound policy.Bindings) (*schemas.Report, error)
}

// Prober checks whether remote engines have what a policy queries.
type Prober interface {
	// Probe returns a problem that the policy's author should know, or "" for none.
	Probe(ctx context.Context, r *policy.Remote) string
}

// probeTimeout limits the query to a policy's engine, because the client that applies the policy waits for it.
const probeTimeout = 2 * time.Second

// Validator refuses policies that do not compile, or whose match or rollout is not valid, and warns about probable mistakes, which it
// refuses in strict policies. It is safe for concurrent use.
type Validator struct {
	Catalog findings.Catalog
	Checker Checker
	Scales  findings.Scales
	// Types checks the types in policies that compile. If it is nil, types are not checked. A mistake is a warning, and refused in a strict
	// policy.
	Types Types
	// Prober queries the engines of policies that are created or whose spec.remote changes. If it is nil, no engine is queried. A
	// problem of an engine is only a warning, also for a strict policy.
	Prober Prober
	// Bound returns the API groups to which a generation of a policy binds the types that it reads, or nil if that generation is not in force.
	// If Bound is nil, no policy is treated as bound.
	Bound func(name string, uid types.UID, generation int64) policy.Bindings
	// Secrets reads Secrets in Namespace. If it is nil, it is not checked whether Secrets exist. A missing one is only a warning.
	Secrets   Secrets
	Namespace string // The manager's own namespace, which may be in another cluster than the policies.
	// Namespaces reads the labels of all namespaces. If it is nil, selectors are not compared with them.
	Namespaces findings.Namespaces
	// OwnNamespace is Berth's own namespace in the served cluster, in which nothing is matched. It is empty if there is
	// none.
	OwnNamespace string
	// ClusterPredicates lists the manager's predicates that evaluate clusters. Others are a mistake in a policy that evaluates clusters alone.
	ClusterPredicates []string
	// Clusters reads the existing clusters. If it is nil, policies are not compared with them.
	Clusters findings.Clusters
	// Scores reads the scores of clusters. If it is nil, policies are not compared with them.
	Scores findings.Scores
	// Nodes reads the nodes. If it is nil, rules are not compared with them.
	Nodes findings.Nodes
	// PriorityClasses lists the priority classes. If it is nil, it is not checked whether those exist that rules set. A missing one is
	// only a warning, also for a strict policy.
	PriorityClasses findings.Classes
	// Groups returns spec.remediation.budget.group of all policies but the one with the name except. If it is nil, groups are not checked.
	Groups func(except string) []string
	// Policies returns all policies. If it is nil, they are not compared with each other.
	Policies func(ctx context.Context) ([]placementv1.PlacementPolicy, error)
	// Objects returns the existing objects of a type. If it is nil, policies are not compared with them: a cluster has too many.
	Objects func(ctx context.Context, resource schema.GroupVersionResource) ([]*unstructured.Unstructured, error)
	// CatalogIsPartial reports whether an API server may serve more types than those in Catalog, which are from files. Then it is no mistake
	// if types of a system in spec.delivery are missing. Other types that are missing are reported in any case.
	CatalogIsPartial bool
	// Quotas reads LimitedResources and quotas. If it is nil, the priority classes that policies set are not compared with LimitedResources,
	// and references in Rego to quotas are not checked.
	Quotas findings.Quotas
	// Templates finds the pod templates of kinds; nil for the built-in kinds.
	Templates *workload.Templates
	// Compiler compiles within a deadline. If it is nil, compilation has no deadline.
	Compiler *policy.BoundedCompiler
}

// ValidateCreate returns the warnings about a new policy, and an error if it is refused.
func (v *Validator) ValidateCreate(ctx context.Context, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	return v.validate(ctx, nil, obj)
}

// ValidateUpdate returns the warnings about an update of a policy, and an error if it is refused. It accepts an update without a change of
// the spec of a policy that is being deleted.
func (v *Validator) ValidateUpdate(ctx context.Context, old, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	if old.Generation == obj.Generation && obj.DeletionTimestamp != nil {
		// The webhook must not block the removal of a finalizer from a policy.
		return nil, nil
	}
	return v.validate(ctx, old, obj)
}

// ValidateDelete accepts each deletion without a warning.
func (v *Validator) ValidateDelete(context.Context, *placementv1.PlacementPolicy) (admission.Warnings, error) {
	return nil, nil
}

// validate returns the warnings about a policy, and an error if it is refused: Invalid with all mistakes, or one for which the client tries
// again, if the policy can't be compiled in time, or the types of a strict one can't be checked. old is the policy before an update, or nil
// for a new policy.
func (v *Validator) validate(ctx context.Context, old, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	spec := obj.Spec.WithDefaults()
	path := field.NewPath("spec")
	matcher, errs := match.New(spec.Match, path.Child("match"))
	finder := v.finder()
	found := finder.Match(ctx, spec.Match, matcher)
	warnings := warnOfAnnotations(obj)
	if old != nil && equality.Semantic.DeepEqual(old.Spec.Match, obj.Spec.Match) {
		warnings, errs = append(warnings, asWarnings(errs)...), nil
	}
	staged, rolloutErrs := v.checkRollout(old, obj, path.Child("rollout"))
	warnings, errs = append(warnings, staged...), append(errs, rolloutErrs...)
	if len(rolloutErrs) == 0 {
		found = append(found, finder.Stages(ctx, obj.Name, obj.Spec, matcher)...)
	}
	module, err := v.Compiler.Compile(ctx, obj.Name, spec)
	if _, compiled := errors.AsType[*policy.CompileError](err); err != nil && !compiled {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the policy was not compiled: %v; try again", err), 1)
	}
	bound := v.boundTo(old, spec)
	if module != nil {
		// A source that is refused for its clauses has compiled, and a warning may explain the cause.
		warnings = append(warnings, module.Warnings...)
	}
	if err == nil {
		var binding *policy.Binding
		var missing []string
		binding, missing, err = v.bind(ctx, old, obj.Name, module, spec, bound)
		warnings = slices.Concat(warnings, missing, v.warnOfSecrets(ctx, module.Remote), v.warnOfEngine(ctx, old, obj, module.Remote))
		if err == nil {
			found = append(found, finder.Policy(ctx, findings.Policy{
				Name: obj.Name, Spec: obj.Spec, Matcher: matcher, Module: module, Binding: binding, Matched: matchedBefore(old, obj),
			})...)
		}
	}
	if err == nil {
		err = v.Checker.Check(module)
	}
	if err == nil {
		errs = append(errs, refuseRule(old, obj, module.Remote, path)...)
	}
	strict := lenient(old, spec)
	warnings = slices.Concat(warnings, findings.Texts(obj.Name, found))
	if err == nil && len(errs) == 0 {
		var typed admission.Warnings
		typed, errs, err = v.checkTypes(ctx, obj.Name, strict, bound)
		warnings, errs = append(warnings, typed...), refuseMistakes(obj.Name, strict, module, found, errs)
	}
	if module != nil {
		warnings = module.WithoutRepetition(obj.Name, warnings)
	}
	if list, ok := errors.AsType[*policy.CompileError](err); ok {
		refused, left := mistakes(old, obj, list, path)
		errs, warnings = append(errs, refused...), append(warnings, asWarnings(left)...)
	} else if err != nil {
		return warnings, err
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(placementv1.GroupVersion.WithKind("PlacementPolicy").GroupKind(), obj.Name, errs)
	}
	return warnings, nil
}

// matchedBefore returns how many existing objects a policy matches, as its status before an update has it; 0 if that is not known, or if
// the update changes spec.match. old is nil for a new policy.
func matchedBefore(old, obj *placementv1.PlacementPolicy) int {
	if old == nil || old.Status.Matched == nil || !equality.Semantic.DeepEqual(old.Spec.Match, obj.Spec.Match) {
		return 0
	}
	return int(*old.Status.Matched)
}

// annotationsOfUsers are the annotations of a policy by which users tell Berth something. Others with Berth's prefix have no effect if
// users set them.
var annotationsOfUsers = []string{
	placementv1.ApproveAnnotation, placementv1.ApproveStageAnnotation, placementv1.ReleaseBlastRadiusAnnotation,
	placementv1.ResumeAfterFailuresAnnotation,
}

// warnOfAnnotations returns a warning for each annotation of a policy that has Berth's prefix and no effect, for an empty approval of a
// plan, and for an approval of a stage that has not the form of one. It does not compare approvals with the status.
func warnOfAnnotations(obj *placementv1.PlacementPolicy) admission.Warnings {
	out := admission.Warnings{}
	for _, key := range slices.Sorted(maps.Keys(obj.Annotations)) {
		name, own := strings.CutPrefix(key, placementv1.GroupVersion.Group+"/")
		value := obj.Annotations[key]
		switch {
		case !own || strings.HasPrefix(name, "migrated-") || key == placementv1.ApprovedByAnnotation:
			// kubectl berth migrate and the webhook for approvals write these.
		case !slices.Contains(annotationsOfUsers, key):
			out = append(out, fmt.Sprintf("metadata.annotations[%s] has no effect: Berth reads no annotation of this name. Of a policy it reads %s",
				key, strings.Join(annotationsOfUsers, ", ")))
		case key == placementv1.ApproveAnnotation && value == "":
			out = append(out, fmt.Sprintf("metadata.annotations[%s]: \"\" approves nothing. While a plan waits for an approval, "+
				"status.plan.digest has the value that approves it", key))
		case key == placementv1.ApproveStageAnnotation && !rollout.IsApproval(value):
			out = append(out, fmt.Sprintf("metadata.annotations[%s]: %.64q approves nothing. While a rollout waits for an approval, "+
				"status.rollout.approvalID has the value that approves this wait", key, value))
		}
	}
	return out
}

// mistakes divides the errors of a compilation: refused are those for which a policy is refused, and left those in parts that the update
// does not change. path is that of spec.
func mistakes(old, obj *placementv1.PlacementPolicy, err *policy.CompileError, path *field.Path) (refused, left field.ErrorList) {
	for _, d := range err.Diagnostics {
		mistake := d.FieldError(path.Child("rego"))
		if old != nil && leavesAlone(old.Spec, obj.Spec, d, policy.IsAmbiguous(err)) {
			left = append(left, mistake)
		} else {
			refused = append(refused, mistake)
		}
	}
	return refused, left
}

// leavesAlone reports whether an update leaves the cause of an error in the new spec alone. It does if the specs are equal. If the error is
// in the Rego or in spec.rules, it also does if Rego, rules, and replicate are unchanged and, unless the error is an ambiguous reference
// (ambiguous), spec.data is, too: an ambiguous reference keeps the binding from before. Errors in other fields count as new in any other
// update.
func leavesAlone(old, next placementv1.PlacementPolicySpec, d policy.Diagnostic, ambiguous bool) bool {
	if equality.Semantic.DeepEqual(old, next) {
		return true
	}
	inSource := d.Field == "" || strings.HasPrefix(d.Field, "spec.rules")
	return inSource && policy.SameRegoAndReplicate(old, next) && (ambiguous || equality.Semantic.DeepEqual(old.Data, next.Data))
}

// asWarnings returns warnings about mistakes in parts that an update does not change, and for which it is therefore not refused.
func asWarnings(mistakes field.ErrorList) []string {
	out := make([]string, len(mistakes))
	for i, m := range mistakes {
		out[i] = "the version before has this mistake, too: " + m.Error()
	}
	return out
}

// boundTo returns the API groups to which the policy before an update bound the types that it reads, if the update changes neither its
// Rego, or rules, nor replicate; nil otherwise, for a new policy (old is nil), and if the version before is not in force.
func (v *Validator) boundTo(old *placementv1.PlacementPolicy, spec placementv1.PlacementPolicySpec) policy.Bindings {
	if v.Bound == nil || old == nil || !policy.SameRegoAndReplicate(old.Spec, spec) {
		return nil
	}
	return v.Bound(old.Name, old.UID, old.Generation)
}

// refuseMistakes returns errs, the errors of the type checker, and for a strict policy, in addition, an error for each warning of its
// compilation, unless a remote engine decides, and for each of the findings that is a mistake.
func refuseMistakes(name string, spec placementv1.PlacementPolicySpec, module *policy.Module, found []findings.Finding,
	errs field.ErrorList) field.ErrorList {
	if !spec.Strict {
		return errs
	}
	var texts []string
	if module.Remote == nil {
		texts = slices.Clone(module.Warnings)
	}
	for _, f := range found {
		if f.Level == findings.Mistake {
			texts = append(texts, f.Text(name))
		}
	}
	for _, text := range module.WithoutRepetition(name, texts) {
		if slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Detail == text }) {
			continue
		}
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: sourceField(spec), BadValue: field.OmitValueType{}, Detail: text})
	}
	return errs
}

// sourceField returns the path of the field by which a policy decides: spec.remote, spec.rules, or spec.rego.
func sourceField(spec placementv1.PlacementPolicySpec) string {
	switch {
	case spec.Remote != nil:
		return "spec.remote"
	case len(spec.Rules) > 0:
		return "spec.rules"
	}
	return "spec.rego"
}

// finder returns the Finder of what is probably wrong with a policy that compiles.
func (v *Validator) finder() *findings.Finder {
	return &findings.Finder{
		Catalog: v.Catalog, Scales: v.Scales, Namespaces: v.Namespaces, Clusters: v.Clusters, Scores: v.Scores, Nodes: v.Nodes,
		PriorityClasses: v.PriorityClasses,
		OwnNamespace:    v.OwnNamespace, ClusterPredicates: v.ClusterPredicates, Groups: v.Groups, Policies: v.Policies, Quotas: v.Quotas,
		Templates: v.Templates, Compiler: v.Compiler, CatalogIsPartial: v.CatalogIsPartial, Objects: v.Objects,
	}
}

// bind binds the types that a policy reads to those that the API server serves, and returns warnings about types that are not served. The
// error is an ambiguous name, or, in an update that changes rego or replicate, a type that is not served and that the policy did not read
// before.
func (v *Validator) bind(ctx context.Context, old *placementv1.PlacementPolicy, name string, module *policy.Module,
	spec placementv1.PlacementPolicySpec, bound policy.Bindings) (*policy.Binding, admission.Warnings, error) {
	binding, err := policy.BindToCurrent(ctx, name, module, spec.Replicate, v.Catalog, bound)
	if err != nil {
		return nil, nil, err
	}
	if len(binding.Missing) == 0 {
		return binding, nil, nil
	}
	if old != nil && !policy.SameRegoAndReplicate(old.Spec, spec) {
		if added := v.missesMore(ctx, old, binding.Missing); len(added) > 0 {
			return nil, nil, policy.NewNotServedCompileError(name, added, v.Catalog.Served().SuggestPlural)
		}
	}
	names := make([]string, len(binding.Missing))
	for i, read := range binding.Missing {
		names[i] = read.Explained() + v.Catalog.Served().SuggestPlural(read.Plural)
	}
	return binding, admission.Warnings{fmt.Sprintf("the policy reads %s, which the API server does not serve: the objects that the policy "+
		"matches can't be decided until the type is installed", strings.Join(names, ", "))}, nil
}

// missesMore returns those of missing, the types that are read and not served, that the policy old, which is not nil, does not read; all of
// them if that can't be determined, because old does not compile or has an ambiguous name.
func (v *Validator) missesMore(ctx context.Context, old *placementv1.PlacementPolicy, missing []analysis.Read) []analysis.Read {
	spec := old.Spec.WithDefaults()
	module, err := v.Compiler.Compile(ctx, old.Name, spec)
	if err != nil {
		return missing
	}
	before, err := policy.Bind(old.Name, module, spec.Replicate, v.Catalog)
	if err != nil {
		return missing
	}
	return slices.DeleteFunc(slices.Clone(missing), func(read analysis.Read) bool {
		return slices.ContainsFunc(before.Missing, func(b analysis.Read) bool { return b.String() == read.String() })
	})
}

// warnOfEngine queries the remote engine of a new policy, or of a policy whose spec.remote changes, and warns of a problem.
func (v *Validator) warnOfEngine(ctx context.Context, old, obj *placementv1.PlacementPolicy, r *policy.Remote) admission.Warnings {
	if v.Prober == nil || r == nil || old != nil && equality.Semantic.DeepEqual(old.Spec.Remote, obj.Spec.Remote) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if problem := v.Prober.Probe(ctx, r); problem != "" {
		return admission.Warnings{"spec.remote: " + problem}
	}
	return nil
}

// refuseRule returns an error if the URL of a remote engine ends with the name of a contract rule, as some engines require, unless the
// update does not change the URL. The value of a rule has no members with the names of rules, so Berth would find no decision in it. With
// modules, the name may be that of a package.
func refuseRule(old, obj *placementv1.PlacementPolicy, r *policy.Remote, path *field.Path) field.ErrorList {
	if r == nil || r.OwnPackage || old != nil && old.Spec.Remote != nil && old.Spec.Remote.URL == obj.Spec.Remote.URL {
		return nil
	}
	at := strings.TrimSuffix(r.Document.Path, "/")
	rule := at[strings.LastIndex(at, "/")+1:]
	if r.Base == nil || !slices.Contains(language.ContractRules, rule) {
		return nil
	}
	pkg := *r.Document
	pkg.Path, pkg.RawPath = strings.TrimSuffix(at, "/"+rule), ""
	return field.ErrorList{field.Invalid(path.Child("remote", "url"), obj.Spec.Remote.URL, fmt.Sprintf(
		"names the rule %s, but must name the package that has it: write %s. Berth reads the package's rules %s", rule, pkg.String(),
		strings.Join(language.ContractRules, ", ")))}
}

// warnOfSecrets returns a warning for each Secret that Berth needs for a remote engine and that does not exist or can't be read, and for
// each key that one lacks. It is never an error, because Secrets may be created after the policy.
func (v *Validator) warnOfSecrets(ctx context.Context, r *policy.Remote) admission.Warnings {
	if r == nil || v.Secrets == nil {
		return nil
	}
	var out admission.Warnings
	for _, use := range r.Secrets() {
		warn := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("spec.remote.%s: ", use.Field)+fmt.Sprintf(format, args...))
		}
		data, err := v.Secrets.Secret(ctx, use.Name)
		if apierrors.IsNotFound(err) {
			warn("the Secret %s/%s does not exist; create it: %s", v.Namespace, use.Name, v.creation(use))
			continue
		}
		if err != nil {
			warn("%v", err)
			continue
		}
		for _, key := range use.Keys {
			if len(data[key]) == 0 {
				warn("the Secret %s/%s has nothing at the key %s", v.Namespace, use.Name, key)
			}
		}
	}
	return out
}

// creation returns the kubectl command that creates a Secret for a field of spec.remote: "kubectl create secret tls" for one with several
// keys, which is a client certificate, and "kubectl create secret generic" with the key and a file for any other.
func (v *Validator) creation(use policy.SecretUse) string {
	if len(use.Keys) > 1 {
		return fmt.Sprintf("kubectl --namespace %s create secret tls %s --cert=FILE --key=FILE", v.Namespace, use.Name)
	}
	return fmt.Sprintf("kubectl --namespace %s create secret generic %s --from-file=%s=FILE", v.Namespace, use.Name, use.Keys[0])
}
