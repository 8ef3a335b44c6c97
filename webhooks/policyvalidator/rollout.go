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

package policyvalidator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/rollout"
)

// checkRollout returns the errors in spec.rollout for which a policy is refused, and warnings about changes that have no effect or start a
// rollout again. Errors in stages that an update does not change are warnings. old is nil for a new policy. path is that of spec.rollout.
func (v *Validator) checkRollout(old, obj *placementv1.PlacementPolicy, path *field.Path) (admission.Warnings, field.ErrorList) {
	r := obj.Spec.Rollout
	if r == nil {
		return nil, nil
	}
	warnings := slices.Concat(warnOfRolledBackChange(old, obj, path), warnOfSuperseded(old, obj, path))
	errs := refuseRevision(old, obj, path.Child("revision"))
	if len(r.Stages) == 0 {
		return warnings, errs
	}
	_, stageErrs := rollout.NewStages(obj.Name, r.Stages, path.Child("stages"))
	stageErrs = append(stageErrs, v.refuseStages(r.Stages, path.Child("stages"))...)
	if len(stageErrs) == 0 {
		return warnings, errs
	}
	if old != nil && old.Spec.Rollout != nil && equality.Semantic.DeepEqual(old.Spec.Rollout.Stages, r.Stages) {
		return append(warnings, asWarnings(stageErrs)...), errs
	}
	return warnings, append(errs, stageErrs...)
}

// refuseRevision returns an error if spec.rollout.revision is not one of status.rollout.revisions. It accepts a revision that an update
// does not change, because clients that restore or annotate the policy apply it again. path is that of the field.
func refuseRevision(old, obj *placementv1.PlacementPolicy, path *field.Path) field.ErrorList {
	revision := obj.Spec.Rollout.Revision
	refuse := func(detail string) field.ErrorList { return field.ErrorList{field.Invalid(path, revision, detail)} }
	switch {
	case revision == 0 || old != nil && old.Spec.Rollout != nil && old.Spec.Rollout.Revision == revision:
		return nil
	case old == nil:
		return refuse("a new policy has no revisions yet; remove revision")
	case old.Status.Rollout == nil || len(old.Status.Rollout.Revisions) == 0:
		return refuse("the policy has no revisions yet: status.rollout.revisions is empty; remove revision")
	case slices.Contains(old.Status.Rollout.Revisions, revision):
		return nil
	}
	existing := make([]string, len(old.Status.Rollout.Revisions))
	for i, r := range old.Status.Rollout.Revisions {
		existing[i] = fmt.Sprint(r)
	}
	return refuse(fmt.Sprintf("the policy does not have this revision; use one of status.rollout.revisions: %s", strings.Join(existing, ", ")))
}

// warnOfRolledBackChange warns about an update that changes the version in the spec while spec.rollout.revision selects another one.
func warnOfRolledBackChange(old, obj *placementv1.PlacementPolicy, path *field.Path) admission.Warnings {
	revision := obj.Spec.Rollout.Revision
	if revision == 0 || old == nil || rollout.VersionDigest(old.Spec) == rollout.VersionDigest(obj.Spec) {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s is %d: the version in the spec decides nothing until revision is removed",
		path.Child("revision"), revision)}
}

// warnOfSuperseded warns about an update that ends a rollout which has reached stages, and starts another one from the first stage.
func warnOfSuperseded(old, obj *placementv1.PlacementPolicy, path *field.Path) admission.Warnings {
	if old == nil || old.Status.Rollout == nil || obj.Spec.Rollout.Revision != 0 {
		return nil
	}
	s, position := old.Status.Rollout, rollout.PositionOf(old.Status.Rollout)
	if position.Reached == 0 || position.IsSingle() || position.Concerns(rollout.Digest(obj.Spec)) {
		return nil
	}
	text := fmt.Sprintf("%s: the rollout of revision %d, which has reached %d of %d stages, ends, and another one starts from the first stage",
		path, s.Revision, position.Reached, len(s.Stages))
	if s.PreviousRevision == 0 {
		return admission.Warnings{text + ": until a stage is reached again, the policy matches nothing in the stage's namespaces"}
	}
	return admission.Warnings{fmt.Sprintf("%s, unless this change restores revision %d: until a stage is reached again, revision %[2]d "+
		"decides in the stage's namespaces", text, s.PreviousRevision)}
}

// refuseStages returns an error for each stage that never gets a namespace, whatever namespaces exist. It ignores invalid selectors, for
// which there are other errors. path is that of spec.rollout.stages.
func (v *Validator) refuseStages(stages []placementv1.RolloutStage, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range stages {
		at := path.Index(i)
		if everything := slices.IndexFunc(stages[:i], rollout.SelectsAll); everything >= 0 {
			errs = append(errs, field.Invalid(at, s.Name, fmt.Sprintf(
				"the stage never gets a namespace: stage %q before it selects all namespaces; make %q the last stage", stages[everything].Name,
				stages[everything].Name)))
			continue
		}
		if s.NamespaceSelector == nil {
			if why := reasonPercentIsEmpty(s.Percent, stages[:i]); why != "" {
				errs = append(errs, field.Invalid(at.Child("percent"), s.Percent, "the stage never gets a namespace: "+why))
			}
			continue
		}
		if why := v.reasonStageIsEmpty(s.NamespaceSelector, stages[:i]); why != "" {
			errs = append(errs, field.Invalid(at.Child("namespaceSelector"), metav1.FormatLabelSelector(s.NamespaceSelector),
				"the stage never gets a namespace: "+why))
		}
	}
	return errs
}

// reasonPercentIsEmpty returns why a stage with a percentage never gets a namespace, and what to do: it is at most the highest percentage
// of the stages before it. It is "" if it is higher, or no stage is before it. before are the stages before it.
func reasonPercentIsEmpty(percent int32, before []placementv1.RolloutStage) string {
	if len(before) == 0 {
		return ""
	}
	// The highest percentage before is the one to exceed.
	highest := slices.MaxFunc(before, func(a, b placementv1.RolloutStage) int { return cmp.Compare(a.Percent, b.Percent) })
	switch {
	case percent > highest.Percent:
		return ""
	case percent == highest.Percent:
		return fmt.Sprintf("stage %q before it has the same namespaces; use more than %d, or remove this stage", highest.Name, percent)
	}
	return fmt.Sprintf("stage %q before it has %d percent, which include these namespaces; use more than %d, or move this stage before %q",
		highest.Name, highest.Percent, highest.Percent, highest.Name)
}

// reasonStageIsEmpty returns why a stage with a selector never gets a namespace, and what to do: the selector selects none that policies
// may match, or the selector of one stage before it selects all of its namespaces. It is "" for any other selector and for an invalid one.
// before are the stages before it, of which it ignores those with a percentage.
func (v *Validator) reasonStageIsEmpty(selector *metav1.LabelSelector, before []placementv1.RolloutStage) string {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return ""
	}
	if why := match.ReasonSelectsNone(selector, v.OwnNamespace); why != "" {
		return why + "; correct the selector, or remove the stage"
	}
	for _, b := range before {
		switch {
		case b.NamespaceSelector == nil || !match.SelectorImplies(selector, b.NamespaceSelector):
		case match.SelectorImplies(b.NamespaceSelector, selector):
			return fmt.Sprintf("stage %q before it has the same selector; change one of them, or remove this stage", b.Name)
		default:
			return fmt.Sprintf("stage %q before it selects all of these namespaces; move this stage before %q, or change one of the selectors",
				b.Name, b.Name)
		}
	}
	return ""
}
