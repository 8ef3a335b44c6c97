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

package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Revisions of an Assignment that are not the number of a stored revision.
const (
	// NoRevision stands for no version: the policy matches nothing.
	NoRevision int64 = 0
	// NewestRevision stands for the version in the policy's spec.
	NewestRevision int64 = -1
)

// Assignment says which versions of a policy decide, and where, as a replica finds it that starts with the policy's status. It
// is immutable.
type Assignment struct {
	// Target is the revision that decides in the stages that are reached, and Before the one that decides everywhere else. They
	// are equal if the revision decides everywhere.
	Target, Before int64

	stages   *Stages
	spec     *placementv1.PolicyRollout
	position Position
	why      string
}

// Assign returns which versions of a policy decide. A policy without status.rollout, such as one in a file, is decided by its
// spec as if its rollout were complete, unless spec.rollout.revision selects another version.
func Assign(obj *placementv1.PlacementPolicy) Assignment {
	spec := obj.Spec.Rollout
	if spec == nil {
		return Assignment{Target: NewestRevision, Before: NewestRevision}
	}
	out := Assignment{spec: spec, position: PositionOf(obj.Status.Rollout)}
	// A stage with an invalid selector selects nothing.
	out.stages, _ = NewStages(obj.Name, spec.Stages, field.NewPath("spec", "rollout", "stages"))
	everywhere := func(revision int64, why string) Assignment {
		out.Target, out.Before, out.why = revision, revision, why
		return out
	}
	switch {
	case spec.Revision != 0:
		return everywhere(spec.Revision, "spec.rollout.revision selects it for all namespaces")
	case obj.Status.Rollout == nil:
		return everywhere(NewestRevision, "the policy has no status.rollout")
	case !out.position.Concerns(Digest(obj.Spec)):
		return everywhere(out.position.Everywhere(), "the rollout of the version in the spec has not begun")
	case out.position.Complete:
		return everywhere(NewestRevision, "its rollout is complete")
	}
	out.Target, out.Before = NewestRevision, out.position.Previous
	return out
}

// Partial reports whether different versions decide in different namespaces, so that labels of namespaces matter.
func (a Assignment) Partial() bool { return a.Target != a.Before }

// Reached reports whether Target decides in a namespace. The name of the namespace is empty for objects without one.
func (a Assignment) Reached(namespace string, labels map[string]string) bool {
	if !a.Partial() {
		return a.Target != NoRevision
	}
	return a.stages.Of(namespace, labels) < a.position.Reached
}

// Of returns the revision that decides in a namespace.
func (a Assignment) Of(namespace string, labels map[string]string) int64 {
	if a.Reached(namespace, labels) {
		return a.Target
	}
	return a.Before
}

// Explain returns which version decides in a namespace, and why. It returns "" for a policy without spec.rollout.
func (a Assignment) Explain(namespace string, labels map[string]string) string {
	if a.spec == nil {
		return ""
	}
	why := a.why
	if a.Partial() {
		why = a.stageOf(namespace, labels)
	}
	switch revision := a.Of(namespace, labels); {
	case revision == NoRevision:
		return "no version decides: " + why + ", and there is no version before"
	case revision != NewestRevision:
		return fmt.Sprintf("revision %d decides: %s", revision, why)
	case a.position.Revision != 0:
		return fmt.Sprintf("revision %d decides, which is the version in the spec: %s", a.position.Revision, why)
	default:
		return "the version in the spec decides: " + why
	}
}

// stageOf says which stage a namespace belongs to, and whether the stage is reached.
func (a Assignment) stageOf(namespace string, labels map[string]string) string {
	stage := a.stages.Of(namespace, labels)
	switch {
	case namespace == "":
		return "objects without a namespace follow after the last stage"
	case stage == a.stages.Len():
		return fmt.Sprintf("namespace %s is in no stage and follows after the last one", namespace)
	case stage < a.position.Reached:
		return fmt.Sprintf("namespace %s is in stage %s, which is reached", namespace, a.spec.Stages[stage].Name)
	default:
		return fmt.Sprintf("namespace %s is in stage %s, which is not reached", namespace, a.spec.Stages[stage].Name)
	}
}
