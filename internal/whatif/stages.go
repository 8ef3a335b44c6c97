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

package whatif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/rollout"
	"github.com/berth-dev/berth/internal/simulation"
)

// unread returns a finding for each version of a policy that is in force and can't be read, so that the objects that it decides are not
// decided here.
func (q *question) unread() []Finding {
	var out []Finding
	for _, p := range q.after.Policies() {
		for _, v := range p.Versions() {
			if missing := (*simulation.RevisionError)(nil); errors.As(v.Err, &missing) {
				out = append(out, Finding{"PlacementPolicy " + p.Name, false, "some objects are not decided: " + missing.Error()})
			}
		}
	}
	return out
}

// stages returns a finding if the change of a policy starts a rollout in stages, or has no effect because of spec.rollout.revision. The
// report itself has what is in force after the last stage.
func (q *question) stages(ctx context.Context, p *simulation.Policy) []Finding {
	spec, object := p.Object.Spec.Rollout, "PlacementPolicy "+p.Name
	if spec == nil {
		return nil
	}
	before, version := q.before.Policy(p.Name), rollout.VersionDigest(p.Object.Spec)
	if spec.Revision != 0 {
		if before != nil && rollout.VersionDigest(before.Object.Spec) == version {
			return nil
		}
		return []Finding{{object, false, fmt.Sprintf("revision %d is in force because of spec.rollout.revision: the version in the spec "+
			"decides nothing until you remove this field", spec.Revision)}}
	}
	last := everywhere(before)
	if p.Object.Status.Rollout != nil || len(spec.Stages) == 0 || last != nil && rollout.VersionDigest(last.Spec) == version {
		// The rollout is the one before, or it has no stage to wait for.
		return nil
	}
	counts := q.movesByStage(ctx, p)
	parts := make([]string, 0, len(spec.Stages))
	for i, stage := range spec.Stages {
		part := "stage " + stage.Name
		if counts != nil {
			part += fmt.Sprintf(" (%d objects get other values)", counts[i])
		}
		parts = append(parts, part)
	}
	rest := "everything else"
	if counts != nil && counts[len(spec.Stages)] > 0 && spec.Stages[len(spec.Stages)-1].Approval {
		rest = "after another approval (the last stage waits for one, too) everything else"
	}
	if counts != nil {
		rest += fmt.Sprintf(" (%d objects)", counts[len(spec.Stages)])
	}
	until := "the version before decides its objects"
	if last == nil {
		until = "the policy matches nothing there"
	}
	return []Finding{{object, false, fmt.Sprintf("the change comes into force in stages: %s, and then %s. Until a namespace is reached, %s. "+
		"This report has the state after the last stage",
		strings.Join(parts, ", "), rest, until)}}
}

// everywhere returns the version of a policy that was last in force in all namespaces: the one that decides or, if a rollout is under way,
// the one before it. It is nil if there was none, or if p is nil.
func everywhere(p *simulation.Policy) *simulation.Version {
	switch {
	case p == nil || p.Assignment.Before == rollout.None:
		return nil
	case p.Assignment.Partial():
		return p.Before
	}
	return &p.Version
}

// movesByStage returns, for each stage of a policy and last for the namespaces in no stage, the number of objects to which the policy gives
// other values, at once or later. It returns nil if the labels of a namespace are not known, for example because the user may not list
// namespaces.
func (q *question) movesByStage(ctx context.Context, p *simulation.Policy) []int {
	// A stage with an invalid selector selects nothing.
	stages, _ := rollout.NewStages(p.Name, p.Object.Spec.Rollout.Stages, field.NewPath("spec", "rollout", "stages"))
	list, err := q.changed.List(ctx, namespaces, (&projection.FieldSet{}).Seal())
	if err != nil {
		return nil
	}
	labels := map[string]map[string]string{"": nil}
	for _, obj := range list {
		labels[obj.GetName()] = obj.GetLabels()
	}
	out := make([]int, stages.Len()+1)
	for _, r := range q.results {
		if r.Object == nil || !slices.ContainsFunc(r.Values, func(v Value) bool { return v.Policy == p.Name }) {
			continue
		}
		namespace := r.Namespace
		if r.Resource == corev1.Resource("namespaces").String() {
			namespace = r.Name
		}
		of, known := labels[namespace]
		if !known {
			return nil
		}
		out[stages.Of(namespace, of)]++
	}
	return out
}
