// Package placementpolicy judges PlacementPolicies before they are stored.
package placementpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
)

var _ admission.Validator[*placementv1.PlacementPolicy] = (*Validator)(nil)

// Catalog tells what the API server serves, and asks it again.
type Catalog interface {
	policy.Served
	Refresh(ctx context.Context) error
}

// Checker says whether there is what a policy asks for by name. The error is a *policy.CompileError.
type Checker interface {
	Check(m *policy.Module) error
}

// Secrets reads Secrets of the operator's own namespace.
type Secrets interface {
	Secret(ctx context.Context, name string) (map[string][]byte, error)
}

// Validator refuses policies that do not compile. It is safe for concurrent use.
type Validator struct {
	Catalog Catalog
	Checker Checker
	// Secrets are those of Namespace, the operator's own.
	Secrets   Secrets
	Namespace string
}

// ValidateCreate implements admission.Validator.
func (v *Validator) ValidateCreate(ctx context.Context, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	return v.validate(ctx, obj)
}

// ValidateUpdate implements admission.Validator.
func (v *Validator) ValidateUpdate(ctx context.Context, old, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	if old.Generation == obj.Generation && obj.DeletionTimestamp != nil {
		// A finalizer that lets go of a policy must not be held up by the policy.
		return nil, nil
	}
	return v.validate(ctx, obj)
}

// ValidateDelete implements admission.Validator.
func (v *Validator) ValidateDelete(context.Context, *placementv1.PlacementPolicy) (admission.Warnings, error) {
	return nil, nil
}

func (v *Validator) validate(ctx context.Context, obj *placementv1.PlacementPolicy) (admission.Warnings, error) {
	spec := obj.Spec.WithDefaults()
	path := field.NewPath("spec")
	_, errs := match.New(spec.Match, path.Child("match"))
	var warnings admission.Warnings
	module, err := policy.Compile(obj.Name, spec)
	if err == nil {
		warnings = module.Warnings
		var missing []string
		missing, err = v.bind(ctx, obj.Name, module, spec)
		warnings = slices.Concat(warnings, missing, v.warnOfSecrets(ctx, module.Remote), warnOfUndefined(obj.Spec))
	}
	if err == nil {
		err = v.Checker.Check(module)
	}
	var compileError *policy.CompileError
	switch {
	case errors.As(err, &compileError):
		for _, d := range compileError.Diagnostics {
			wrong := cmp.Or(d.Field, path.Child("rego").String())
			errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: wrong, BadValue: field.OmitValueType{}, Detail: d.Detail()})
		}
	case err != nil:
		return warnings, err
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(placementv1.GroupVersion.WithKind("PlacementPolicy").GroupKind(), obj.Name, errs)
	}
	return warnings, nil
}

// bind warns of what is read and not served; an ambiguous name is an error.
func (v *Validator) bind(ctx context.Context, name string, module *policy.Module, spec placementv1.PlacementPolicySpec) (admission.Warnings, error) {
	binding, err := policy.Bind(name, module, spec.Replicate, v.Catalog)
	if err == nil && len(binding.Missing) > 0 {
		if err := v.Catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		binding, err = policy.Bind(name, module, spec.Replicate, v.Catalog)
	}
	if err != nil || len(binding.Missing) == 0 {
		return nil, err
	}
	names := make([]string, len(binding.Missing))
	for i, read := range binding.Missing {
		names[i] = read.String()
	}
	return admission.Warnings{fmt.Sprintf("the policy reads %s, which the API server does not serve: what it matches is not decided until that is installed", strings.Join(names, ", "))}, nil
}

// warnOfUndefined says what nobody decided who wrote the policy: an engine that does not have it says nothing of it.
func warnOfUndefined(spec placementv1.PlacementPolicySpec) admission.Warnings {
	if spec.Remote == nil || spec.Remote.Undefined != "" || spec.FailurePolicy == placementv1.FailurePolicyIgnore {
		return nil
	}
	return admission.Warnings{"spec.remote.undefined is not set: an engine that does not have the policy, as after a typing error in spec.remote.url, " +
		"admits what it matches. Set it to Error if the engine has a result for each object, and to NoOpinion if it has not"}
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
