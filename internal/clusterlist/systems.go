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

package clusterlist

import (
	"fmt"
	"slices"
)

// karmadaLayout returns the layout of a PropagationPolicy or ClusterPropagationPolicy of policy.karmada.io. Karmada accepts either
// clusterAffinity or clusterAffinities. A term of the latter has a list of names of its own, and one in each of its overflowAffinities,
// which add clusters; each of these lists counts as a term of the layout. An empty list of names selects all clusters.
// If an object has both fields, which Karmada rejects, clusterAffinities counts. karmadaLayout returns an error if that has no items, or if
// it or an overflowAffinities is not a list of objects.
func karmadaLayout(obj map[string]any) (layout, error) {
	placement := []any{"spec", "placement"}
	affinities := append(slices.Clip(placement), "clusterAffinities")
	if lookup(obj, affinities) == nil {
		path := []string{"spec", "placement", "clusterAffinity", "clusterNames"}
		return layout{path: path, slots: []slot{{base: 1, path: elements(path)}}}, nil
	}
	out := layout{path: []string{"spec", "placement", "clusterAffinities"}, several: true}
	terms, err := objects(obj, affinities)
	if err != nil {
		return out, err
	}
	if len(terms) == 0 {
		return out, fmt.Errorf("%s has no items: add one, or remove the field", text(affinities))
	}
	for _, term := range terms {
		out.slots = append(out.slots, slot{base: len(term), path: append(slices.Clip(term), "clusterNames")})
		more, err := objects(obj, append(slices.Clip(term), "overflowAffinities"))
		if err != nil {
			return out, err
		}
		for _, overflow := range more {
			out.slots = append(out.slots, slot{base: len(overflow), path: append(slices.Clip(overflow), "clusterNames")})
		}
	}
	return out, nil
}

// objects returns the path of each item of the list at a path. It returns an error if an item is not an object.
func objects(obj map[string]any, at []any) ([][]any, error) {
	list, err := slot{path: at}.value(obj)
	if err != nil {
		return nil, err
	}
	out := make([][]any, len(list))
	for i, item := range list {
		out[i] = append(slices.Clip(at), i)
		if _, ok := item.(map[string]any); !ok {
			return nil, fmt.Errorf("%s must be an object", text(out[i]))
		}
	}
	return out, nil
}

// Placement types of KubeFleet. An absent type, and an absent policy, are pickAll.
const (
	pickAll   = "PickAll"
	pickFixed = "PickFixed"
	pickN     = "PickN"
)

// maxNames is the maximum number of clusters in a placement of KubeFleet whose policy has the type PickFixed, and in a PlacementDecision.
const maxNames = 100

var termsPath = []string{"spec", "policy", "affinity", "clusterAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
	"clusterSelectorTerms"}

// kubefleetLayout returns the layout of a ClusterResourcePlacement or ResourcePlacement of placement.kubernetes-fleet.io. A policy of the
// type PickFixed has a list of names. The other types select clusters by terms, of which a cluster must match one. The type is immutable,
// and a policy can't be removed.
func kubefleetLayout(obj map[string]any) (layout, error) {
	at := []any{"spec", "policy", "placementType"}
	placementType := lookup(obj, at)
	if placementType == pickFixed {
		path := []string{"spec", "policy", "clusterNames"}
		return layout{path: path, max: maxNames, slots: []slot{{base: 2, path: elements(path)}}}, nil
	}
	out := layout{path: termsPath, selectors: true}
	if placementType != nil && placementType != pickAll && placementType != pickN {
		return out, fmt.Errorf("%s must be %s, %s, or %s", text(at), pickAll, pickFixed, pickN)
	}
	terms, err := objects(obj, elements(termsPath))
	if err != nil {
		return out, err
	}
	for _, term := range terms {
		out.slots = append(out.slots, slot{base: len(term), path: append(slices.Clip(term), "labelSelector", "matchExpressions"), selector: true})
	}
	out.several = len(terms) > 1
	return out, nil
}

// addTerm adds a cluster selector term with the wanted names to an object without terms. It returns an error if several terms are wanted.
func (l layout) addTerm(obj map[string]any, want Names) error {
	switch {
	case want.Several:
		return fmt.Errorf("the object has no cluster selector terms, but the clusters to write are for %d terms", len(want.Terms))
	case want.Terms[0] == nil:
		return nil
	}
	if lookup(obj, []any{"spec", "policy"}) == nil {
		put(obj, []any{"spec", "policy", "placementType"}, pickAll)
	}
	term := map[string]any{}
	put(obj, elements(l.path), []any{term})
	slot{path: []any{"labelSelector", "matchExpressions"}, selector: true}.set(term, want.Terms[0])
	return nil
}

// removeTerm removes the only cluster selector term if it has no members, and then the objects on the path that have none left, except for
// the first depth elements of the path.
func (l layout) removeTerm(obj map[string]any, depth int) {
	path := elements(l.path)
	list, _ := lookup(obj, path).([]any)
	if term, _ := list[0].(map[string]any); len(term) > 0 {
		return
	}
	put(obj, path, []any{})
	prune(obj, path, max(2, depth))
}
