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

package casetest

import (
	"context"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/simulation"
)

// ExpectationOf decides an object, and returns the result as the expectation of a case: the policies that match the object, why it is
// denied or can't be decided, its clusters, and the annotations and labels that policies change.
func ExpectationOf(ctx context.Context, s *simulation.Simulation, o simulation.Object) (Expectation, error) {
	outcome, err := s.Decide(ctx, o)
	if err != nil {
		return Expectation{}, err
	}
	matched, denied := []string{}, []string{}
	out := Expectation{Matched: &matched, Denied: &denied}
	for _, v := range outcome.Verdicts {
		if !v.Leaves {
			matched = append(matched, v.Policy.Name)
		}
		if v.Policy.Mode == placementv1.ModeEnforce {
			denied = append(denied, v.Decision.Errors...)
		}
		if v.Err != nil && out.Error == "" {
			out.Error = v.Err.Error()
		}
	}
	placed := outcome.Object
	if placed == nil {
		placed = o.Content
	}
	if names := outcome.ClusterNames(placed); names != nil {
		names = nonNil(names)
		out.Clusters = &names
	}
	out.Annotations = differences(o.Content.GetAnnotations(), placed.GetAnnotations())
	// The record is signed with a key of the process, and the list of clusters is in the expectation.
	delete(out.Annotations, placementv1.RequestedAnnotation)
	if out.Clusters != nil {
		delete(out.Annotations, placementv1.ClustersAnnotation)
	}
	out.Labels = differences(o.Content.GetLabels(), placed.GetLabels())
	return out, nil
}

// differences returns the entries of after that before lacks or has with another value, and nil for each key that only before has.
func differences(before, after map[string]string) map[string]*string {
	out := map[string]*string{}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			out[key] = &value
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			out[key] = nil
		}
	}
	return out
}
