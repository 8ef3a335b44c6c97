// Package placementpolicy judges PlacementPolicies before they are stored.
package placementpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/schemas"
)

var _ admission.Validator[*placementv1.PlacementPolicy] = (*Validator)(nil)

// Catalog tells what the API server serves, and asks it again.
type Catalog interface {
	policy.Served
	Refresh(ctx context.Context) error
	// Served returns all types that are served; nil where that is not known.
	Served() *match.Served
	// Scalable returns the served types with a scale subresource that the function selects.
	Scalable(selects func(schema.GroupVersionResource) bool) []schema.GroupVersionResource
}

// Checker says whether there is what a policy asks for by name. The error is a *policy.CompileError.
type Checker interface {
	Check(m *policy.Module) error
}

// Secrets reads Secrets of the operator's own namespace.
type Secrets interface {
	Secret(ctx context.Context, name string) (map[string][]byte, error)
}

// Types checks the types of a policy that compiles.
type Types interface {
	// Check returns the findings. An error means that the schemas could not be read.
	Check(ctx context.Context, name string, spec placementv1.PlacementPolicySpec, bound policy.Bindings) (*schemas.Report, error)
}

// Prober asks remote engines whether they have what a policy asks them for.
type Prober interface {
	// Probe returns what the policy's author should know; "" for nothing.
	Probe(ctx context.Context, r *policy.Remote) string
}

// probeTimeout bounds the question to a policy's engine, for which whoever applies the policy waits.
const probeTimeout = 2 * time.Second

// Validator refuses policies that do not compile. It is safe for concurrent use.
type Validator struct {
	Catalog Catalog
	Checker Checker
	Scales  Scales
	// Types is nil where types are not checked.
	Types Types
	// Prober asks the engines of policies that are created, or get another spec.remote; nil for not at all.
	Prober Prober
	// Bound returns the groups that a generation of a policy is bound to; nil if that generation is not in force. Without it
	// no policy is known to be bound.
	Bound func(name string, uid types.UID, generation int64) policy.Bindings
	// Secrets are those of Namespace, the operator's own.
	Secrets   Secrets
	Namespace string
	// Namespaces reads the labels of all namespaces; nil for a validator that does not look at them.
	Namespaces Namespaces
	// OwnNamespace is Berth's own in the served cluster, where nothing is matched; empty where that has none.
	OwnNamespace string
	// ClusterPredicates are the manager's predicates that judge clusters.
	ClusterPredicates []string
	// Clusters reads the clusters that exist; nil for a validator that does not look at them.
	Clusters Clusters
	// Compilations bounds how many policies are compiled at a time, each with weight 1; nil for no bound.
	Compilations *semaphore.Weighted
}

// ValidateCreate implements admission.Validator.
func (v *Validator) ValidateCreate(ctx context.Context, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	return v.validate(ctx, nil, obj)
}

// ValidateUpdate implements admission.Validator.
func (v *Validator) ValidateUpdate(ctx context.Context, old, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	if old.Generation == obj.Generation && obj.DeletionTimestamp != nil {
		// A finalizer that lets go of a policy must not be held up by the policy.
		return nil, nil
	}
	return v.validate(ctx, old, obj)
}

// ValidateDelete implements admission.Validator.
func (v *Validator) ValidateDelete(context.Context, *placementv1.PlacementPolicy) (admission.Warnings, error) {
	return nil, nil
}

// validate judges a policy; old is the version before, nil for a new policy.
func (v *Validator) validate(ctx context.Context, old, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	release, err := v.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	spec := obj.Spec.WithDefaults()
	path := field.NewPath("spec")
	matcher, errs := match.New(spec.Match, path.Child("match"))
	warnings := admission.Warnings(match.Warnings(spec.Match, path.Child("match")))
	warnings = append(warnings, v.warnOfMatch(ctx, matcher, path.Child("match"))...)
	if old != nil && equality.Semantic.DeepEqual(old.Spec.Match, obj.Spec.Match) {
		warnings, errs = append(warnings, asWarnings(errs)...), nil
	}
	module, err := policy.Compile(obj.Name, spec)
	if list, ok := errors.AsType[*policy.CompileError](err); ok && list.ContractOnly() && old != nil && policy.SameTextAndData(old.Spec.WithDefaults(), spec) {
		// A text that an earlier version of Berth took is not refused for a change of something else.
		warnings, err = append(warnings, list.Error()), nil
	}
	bound := v.boundTo(old, spec)
	if module != nil {
		// A text that is refused for its clauses is compiled, and a warning may tell the cause.
		warnings = append(warnings, module.Warnings...)
	}
	if err == nil {
		var missing []string
		missing, err = v.bind(ctx, old, obj.Name, module, spec, bound)
		warnings = slices.Concat(warnings, missing, v.warnOfSecrets(ctx, module.Remote), warnOfUndefined(obj.Spec), v.warnOfEngine(ctx, old, obj, module.Remote), v.warnOfSubresources(ctx, matcher, module))
		warnings = slices.Concat(warnings, warnOfClusters(obj.Spec, module), warnOfBlastRadius(obj.Spec), v.warnOfKinds(obj.Name, matcher, module),
			warnOfAbsentLabels(obj.Name, matcher, module), v.warnOfConstants(ctx, obj.Name, module))
	}
	if err == nil {
		err = v.Checker.Check(module)
	}
	if err == nil {
		warnings = append(warnings, warnOfPredicates(module, v.ClusterPredicates)...)
		errs = append(errs, refuseRule(old, obj, module.Remote, path)...)
	}
	if err == nil && len(errs) == 0 {
		var found admission.Warnings
		found, errs, err = v.checkTypes(ctx, obj.Name, lenient(old, spec), bound)
		warnings = append(warnings, found...)
	}
	var compileError *policy.CompileError
	switch {
	case errors.As(err, &compileError):
		refused, left := mistakes(old, obj, compileError, path)
		errs, warnings = append(errs, refused...), append(warnings, asWarnings(left)...)
	case err != nil:
		return warnings, err
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(placementv1.GroupVersion.WithKind("PlacementPolicy").GroupKind(), obj.Name, errs)
	}
	return warnings, nil
}

// mistakes returns a policy's mistakes, those for which it is refused, and those that the version before has too, in what
// the update leaves alone.
func mistakes(old, obj *placementv1.PlacementPolicy, err *policy.CompileError, path *field.Path) (refused, left field.ErrorList) {
	for _, d := range err.Diagnostics {
		wrong := cmp.Or(d.Field, path.Child("rego").String())
		mistake := &field.Error{Type: field.ErrorTypeInvalid, Field: wrong, BadValue: field.OmitValueType{}, Detail: d.Detail()}
		if old != nil && leavesAlone(old.Spec, obj.Spec, d, policy.IsAmbiguous(err)) {
			left = append(left, mistake)
		} else {
			refused = append(refused, mistake)
		}
	}
	return refused, left
}

// leavesAlone reports whether an update changes nothing that a mistake is in. A reference that is ambiguous is bound to
// what it was bound to before.
func leavesAlone(old, next placementv1.PlacementPolicySpec, d policy.Diagnostic, ambiguous bool) bool {
	if equality.Semantic.DeepEqual(old, next) {
		return true
	}
	return d.Field == "" && policy.SameText(old, next) && (ambiguous || equality.Semantic.DeepEqual(old.Data, next.Data))
}

// asWarnings are mistakes for which an update is not refused, since it leaves alone what they are in.
func asWarnings(mistakes field.ErrorList) []string {
	out := make([]string, len(mistakes))
	for i, m := range mistakes {
		out[i] = "the version before has this mistake, too: " + m.Error()
	}
	return out
}

// enter waits until the policy may be compiled, as long as somebody waits for the answer. OPA's compiler can't be canceled.
func (v *Validator) enter(ctx context.Context) (release func(), err error) {
	if err = ctx.Err(); err == nil && v.Compilations != nil {
		err = v.Compilations.Acquire(ctx, 1)
	}
	switch {
	case err != nil:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the policy was not compiled: other policies are being compiled (%v); try again", err), 1)
	case v.Compilations == nil:
		return func() {}, nil
	}
	return func() { v.Compilations.Release(1) }, nil
}

// boundTo returns the groups that the version before is bound to, if an update leaves the text alone.
func (v *Validator) boundTo(old *placementv1.PlacementPolicy, spec placementv1.PlacementPolicySpec) policy.Bindings {
	if v.Bound == nil || old == nil || !policy.SameText(old.Spec, spec) {
		return nil
	}
	return v.Bound(old.Name, old.UID, old.Generation)
}

// bind warns of what is read and not served, and of namespaces that do not exist. An ambiguous name is an error, and so is,
// in an update, a type that is not served and that the version before does not read.
func (v *Validator) bind(ctx context.Context, old *placementv1.PlacementPolicy, name string, module *policy.Module, spec placementv1.PlacementPolicySpec, bound policy.Bindings) (admission.Warnings, error) {
	binding, err := policy.BindRecorded(name, module, spec.Replicate, v.Catalog, bound)
	if err == nil && len(binding.Missing) > 0 {
		if err := v.Catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		binding, err = policy.BindRecorded(name, module, spec.Replicate, v.Catalog, bound)
	}
	if err != nil {
		return nil, err
	}
	warnings := append(v.warnOfNamespaces(ctx, name, module, binding), binding.Namesakes(v.Catalog)...)
	if len(binding.Missing) == 0 {
		return warnings, nil
	}
	if old != nil && !policy.SameText(old.Spec, spec) {
		if added := v.missesMore(old, binding.Missing); len(added) > 0 {
			return nil, policy.NotServed(name, added, v.Catalog.Served().MeantPlural)
		}
	}
	names := make([]string, len(binding.Missing))
	for i, read := range binding.Missing {
		names[i] = read.Explained() + v.Catalog.Served().MeantPlural(read.Plural)
	}
	return append(warnings, fmt.Sprintf("the policy reads %s, which the API server does not serve: what it matches is not decided until that is installed", strings.Join(names, ", "))), nil
}

// missesMore returns the reads of types that are not served which the version before does not have.
func (v *Validator) missesMore(old *placementv1.PlacementPolicy, missing []policy.Read) []policy.Read {
	spec := old.Spec.WithDefaults()
	module, err := policy.Compile(old.Name, spec)
	if err != nil {
		return missing
	}
	before, err := policy.Bind(old.Name, module, spec.Replicate, v.Catalog)
	if err != nil {
		return missing
	}
	return slices.DeleteFunc(slices.Clone(missing), func(read policy.Read) bool {
		return slices.ContainsFunc(before.Missing, func(b policy.Read) bool { return b.String() == read.String() })
	})
}

// warnOfUndefined says what nobody decided who wrote the policy: an engine that does not have it says nothing of it.
func warnOfUndefined(spec placementv1.PlacementPolicySpec) admission.Warnings {
	if spec.Remote == nil || spec.Remote.Undefined != "" || spec.FailurePolicy == placementv1.FailurePolicyIgnore {
		return nil
	}
	return admission.Warnings{"spec.remote.undefined is not set: an engine that does not have the policy, as after a typing error in spec.remote.url, " +
		"admits what it matches. Set it to Error if the engine has a result for each object, and to NoOpinion if it has not"}
}

// warnOfEngine asks the engine of a policy that is new, or has another one than before.
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

// refuseRule refuses an address that ends with a rule of the contract, as some engines want it: its value has no members by
// the rules' names, and would be taken for a policy without an opinion. A package of that name can be kept with modules.
func refuseRule(old, obj *placementv1.PlacementPolicy, r *policy.Remote, path *field.Path) field.ErrorList {
	if r == nil || r.OwnPackage || old != nil && old.Spec.Remote != nil && old.Spec.Remote.URL == obj.Spec.Remote.URL {
		return nil
	}
	at := strings.TrimSuffix(r.Document.Path, "/")
	rule := at[strings.LastIndex(at, "/")+1:]
	if r.Base == nil || !slices.Contains(policy.ContractRules, rule) {
		return nil
	}
	pkg := *r.Document
	pkg.Path, pkg.RawPath = strings.TrimSuffix(at, "/"+rule), ""
	return field.ErrorList{field.Invalid(path.Child("remote", "url"), obj.Spec.Remote.URL, fmt.Sprintf(
		"names the rule %s, and Berth asks for the package that has it: write %s. Berth reads its rules %s", rule, pkg.String(), strings.Join(policy.ContractRules, ", ")))}
}

// warnOfSecrets says which Secrets are not as they have to be for an engine to be asked. They may come after the policy.
func (v *Validator) warnOfSecrets(ctx context.Context, r *policy.Remote) admission.Warnings {
	if r == nil {
		return nil
	}
	var out admission.Warnings
	for _, use := range r.Secrets() {
		warn := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("spec.remote.%s: ", use.Field)+fmt.Sprintf(format, args...))
		}
		data, err := v.Secrets.Secret(ctx, use.Name)
		if apierrors.IsNotFound(err) {
			warn("the Secret %s/%s is not there: %s", v.Namespace, use.Name, v.creation(use))
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

// creation is the command that makes a Secret.
func (v *Validator) creation(use policy.SecretUse) string {
	if len(use.Keys) > 1 {
		return fmt.Sprintf("kubectl --namespace %s create secret tls %s --cert=FILE --key=FILE", v.Namespace, use.Name)
	}
	return fmt.Sprintf("kubectl --namespace %s create secret generic %s --from-file=%s=FILE", v.Namespace, use.Name, use.Keys[0])
}
