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

// Assignment says which versions of a policy decide, and where, as a replica finds it that starts with the policy's status. It
// is immutable.
type Assignment struct {
	// Target is the version that decides in the stages that are reached, and Before the one that decides everywhere else. They
	// are equal if one version decides everywhere.
	Target, Before Ref

	reached  int
	stages   *Stages
	spec     *placementv1.PolicyRollout
	position Position
	why      string
}

// Assign returns which versions of a policy decide if all of them can be loaded. A policy without status.rollout, such as one in a
// file, is decided by its spec as if its rollout were complete, unless spec.rollout.revision selects another version.
func Assign(obj *placementv1.PlacementPolicy) Assignment {
	out := Assignment{spec: obj.Spec.Rollout, position: PositionOf(obj.Status.Rollout)}
	f := ChoiceFacts{Staged: out.spec != nil, Versions: map[Ref]VersionFacts{Newest: {}}}
	if f.Staged {
		// A stage with an invalid selector selects nothing.
		out.stages, _ = NewStages(obj.Name, out.spec.Stages, field.NewPath("spec", "rollout", "stages"))
		f.Digest, f.Revision, f.Position = Digest(obj.Spec), out.spec.Revision, out.position
		switch {
		case f.Revision != 0:
			out.why = "spec.rollout.revision selects it for all namespaces"
		case obj.Status.Rollout == nil:
			f.Position, out.why = Position{Digest: f.Digest, Complete: true}, "the policy has no status.rollout"
		case !f.Position.Concerns(f.Digest):
			// The leader ends the rollout of another version as soon as it sees the spec.
			f.Position, out.why = Position{Revision: f.Position.Everywhere(), rolledBack: true}, "the rollout of the version in the spec has not begun"
		default:
			out.why = "its rollout is complete"
		}
	}
	choice := Choose(f)
	for ; choice.Load != None; choice = Choose(f) {
		f.Versions[choice.Load] = VersionFacts{}
	}
	out.Target, out.Before, out.reached = choice.Target, choice.Before, choice.InForce.Reached
	if choice.InForce.Complete {
		out.Before = out.Target
	}
	return out
}

// Partial reports whether different versions decide in different namespaces, so that labels of namespaces matter.
func (a Assignment) Partial() bool { return a.Target != a.Before }

// Reached reports whether Target decides in a namespace. The name of the namespace is empty for objects without one.
func (a Assignment) Reached(namespace string, labels map[string]string) bool {
	if !a.Partial() {
		return a.Target != None
	}
	return a.stages.Of(namespace, labels) < a.reached
}

// Of returns the revision that decides in a namespace.
func (a Assignment) Of(namespace string, labels map[string]string) Ref {
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
	case revision == None:
		return "no version decides: " + why + ", and there is no version before"
	case revision != Newest:
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
	case stage < a.reached:
		return fmt.Sprintf("namespace %s is in stage %s, which is reached", namespace, a.spec.Stages[stage].Name)
	default:
		return fmt.Sprintf("namespace %s is in stage %s, which is not reached", namespace, a.spec.Stages[stage].Name)
	}
}
