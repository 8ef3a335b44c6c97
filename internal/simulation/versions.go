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
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/rollout"
)

var controllerRevisions = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")

// compile returns the versions of a policy that decide, compiled and bound as in the manager. Why one can't decide is in its Version.Err.
// An error means that the cluster could not be read.
func (s *Simulation) compile(ctx context.Context, obj *placementv1.PlacementPolicy) (*Policy, error) {
	assigned := rollout.Assign(obj)
	out := &Policy{Object: obj, Assignment: assigned}
	target, err := s.version(ctx, obj, assigned.Target, assigned.Reached)
	if err != nil {
		return nil, err
	}
	out.Version = *target
	if assigned.Partial() && assigned.Before != rollout.None {
		notReached := func(namespace string, labels map[string]string) bool { return !assigned.Reached(namespace, labels) }
		out.Before, err = s.version(ctx, obj, assigned.Before, notReached)
	}
	return out, err
}

// version returns the version of a policy that revision refers to: a stored one, or the newest. It decides in the namespaces, by name and
// labels, for which within returns true. An error means that the cluster could not be read.
func (s *Simulation) version(ctx context.Context, obj *placementv1.PlacementPolicy, revision rollout.Ref,
	within func(string, map[string]string) bool) (*Version, error) {
	newest := obj.Spec.WithDefaults()
	source := policy.Revision{Spec: newest}
	var missing error
	if revision > rollout.None {
		stored, reason, err := s.stored(ctx, obj, int64(revision))
		if err != nil {
			return nil, err
		}
		if missing = reason; reason == nil {
			source = stored
			source.Spec = rollout.Effective(stored.Spec, newest)
		}
	}
	out := &Version{Spec: source.Spec}
	matcher, invalid := match.New(source.Spec.Match, field.NewPath("spec", "match"))
	evaluator, err := placement.Evaluator(nil), missing
	if missing == nil {
		evaluator, err = s.prepare(ctx, obj, source, out)
	}
	if out.Err = errors.Join(invalid.ToAggregate(), err); err != nil {
		evaluator = placement.NewFailing(err)
	}
	schedules := out.Module != nil && out.Module.Schedules()
	out.Policy = placement.NewPolicy(obj.Name, obj.Generation, source.Spec, matcher.Within(within), evaluator, schedules)
	return out, nil
}

// stored returns the version of a policy that a ControllerRevision stores under a number. reason, a *RevisionError, says why it can't be
// used: the user may not read it, or there is none that can be decoded and belongs to this policy. err means that the cluster could not be
// read.
func (s *Simulation) stored(ctx context.Context, obj *placementv1.PlacementPolicy,
	number int64) (revision policy.Revision, reason, err error) {
	name, namespace := policy.NumberedRevisionName(obj.Name, number), s.options.OwnNamespace
	content, err := s.cluster.Get(ctx, controllerRevisions, namespace, name)
	if apierrors.IsForbidden(err) {
		return policy.Revision{}, &RevisionError{number,
			fmt.Sprintf("you may not read it: ask for the right to get controllerrevisions.apps in the namespace %s (%v)", namespace, err)}, nil
	}
	if err != nil {
		return policy.Revision{}, nil, fmt.Errorf("reading revision %d of PlacementPolicy %s: %w", number, obj.Name, err)
	}
	if content != nil {
		text, err := json.Marshal(content.Object["data"])
		if err != nil {
			return policy.Revision{}, nil, err
		}
		if revision, err = policy.DecodeRevision(text); err == nil && revision.UID == obj.UID {
			s.revisionObjects = append(s.revisionObjects, content)
			return revision, nil, nil
		}
	}
	return policy.Revision{}, &RevisionError{number, fmt.Sprintf("the namespace %s has no ControllerRevision %s of the policy: set "+
		"--berth-namespace to the namespace that Berth runs in, or add the ControllerRevision to the files", namespace, name)}, nil
}

// RevisionError means that a stored revision of a policy is in force, and that the user may not read its ControllerRevision, or that there
// is none which can be decoded and belongs to the policy.
type RevisionError struct {
	Revision int64 // the number of the revision
	// Reason says why it can't be read, and what to do.
	Reason string
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("revision %d of the policy is in force, and %s", e.Revision, e.Reason)
}

// prepare compiles and binds a revision of a policy, sets out.Module and out.Binding, and returns the evaluator.
func (s *Simulation) prepare(ctx context.Context, obj *placementv1.PlacementPolicy, source policy.Revision,
	out *Version) (placement.Evaluator, error) {
	module, err := policy.Compile(obj.Name, source.Spec)
	if err != nil {
		return nil, fmt.Errorf("the policy does not compile: %w", err)
	}
	before := source.Bindings
	if before == nil {
		before = module.BindingsFromStatus(obj.Status.Dependencies)
	}
	binding, err := policy.BindToCurrent(ctx, obj.Name, module, source.Spec.Replicate, s.cluster.Catalog(), before)
	if err != nil {
		return nil, err
	}
	out.Module, out.Binding = module, binding
	if module.Remote != nil {
		return nil, &RemoteError{URL: module.Remote.Document.String()}
	}
	if module.Nodes {
		binding.PredicateReads = predicates.Reads()
	}
	if err := s.engine.Check(module); err != nil {
		return nil, err
	}
	return s.engine.Prepare(ctx, obj.Name, module, binding)
}
