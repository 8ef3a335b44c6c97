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

package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/remediation"
)

// LeftOf returns the unfinished moves, failures, and pause that an earlier leader left of a policy, as far as the status names them.
func LeftOf(s placementv1.PlacementPolicyStatus) remediation.Left {
	out := remediation.Left{Generation: s.GenerationInForce}
	out.Moving = s.Plan != nil && (s.Plan.State == placementv1.PlanInProgress || s.Plan.Rollouts > 0)
	// The status names objects without the version of their resource.
	keyOf := func(object placementv1.ObjectReference) remediation.Key {
		resource, namespace, name := object.Parse()
		return remediation.Key{Resource: resource.WithVersion(""), Namespace: namespace, Name: name}
	}
	for _, o := range s.Moving {
		out.Moves = append(out.Moves, remediation.Move{
			Key: keyOf(o.Object), Since: o.Since.Time, Deadline: ptr.Deref(o.Deadline, metav1.Time{}).Time,
		})
	}
	if f := s.Failures; f != nil {
		out.Pause, out.PausedIn = f.Pause, f.PausedNamespaces
		for _, o := range f.Sample {
			failure := remediation.Failure{Key: keyOf(o.Object), Reason: o.Message, Rollout: o.Reason == placementv1.RolloutFailed}
			out.Failed = append(out.Failed, failure)
		}
	}
	return out
}
