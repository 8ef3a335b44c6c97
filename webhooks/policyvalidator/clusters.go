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
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/language"
	"github.com/berth-dev/berth/internal/policy/lint"
	"github.com/berth-dev/berth/internal/suggest"
)

// Clusters reads the clusters of the inventories.
type Clusters interface {
	// All returns the clusters in the form of data.clusters[name]. It returns none if they are not known.
	All(ctx context.Context) ([]map[string]any, error)
}

// warnOfClusters warns about spec.clusters in a policy that does not decide clusters.
func warnOfClusters(spec placementv1.PlacementPolicySpec, module *policy.Module) admission.Warnings {
	if spec.Clusters == nil || givesClusters(module) {
		return nil
	}
	return admission.Warnings{"spec.clusters has no effect: the policy has no rule clusters. Write the names of the clusters that it allows there, " +
		"as in clusters := {\"eu-1\"}, or remove spec.clusters"}
}

// givesClusters reports whether a policy can give clusters.
func givesClusters(module *policy.Module) bool {
	return module.Remote != nil || module.Candidates == placementv1.PredicateCandidatesClusters || slices.Contains(module.Rules, language.RuleClusters)
}

// maxListed is the maximum number of clusters for which a warning lists the names.
const maxListed = 8

// warnOfConstants warns about names in the policy's rule `clusters` that no cluster has. It also warns about constants that differ
// only in spelling from the clusters' values of the compared field, and about properties that no cluster has. name is
// the name of the policy. It returns nil if no cluster is known.
func (v *Validator) warnOfConstants(ctx context.Context, name string, module *policy.Module) admission.Warnings {
	constants, properties := lint.ClusterConstants(module.Compiler), lint.ClusterProperties(module.Compiler)
	if v.Clusters == nil || len(constants)+len(properties) == 0 {
		return nil
	}
	clusters, err := v.Clusters.All(ctx)
	if err != nil {
		what := "clusters"
		if len(constants) == 0 {
			what = "properties of clusters"
		}
		return admission.Warnings{fmt.Sprintf("cannot check that the %s that the policy names exist: %v", what, err)}
	}
	if len(clusters) == 0 {
		return nil
	}
	names := valuesOf(clusters, []string{"name"})
	var out admission.Warnings
	for _, c := range constants {
		text := ""
		switch {
		case c.Given:
			text = unknownCluster(c.Value, names)
		case len(c.Field) == 0:
			if near := misspelt(c.Value, names); near != "" {
				text = fmt.Sprintf("no cluster has the name %q; did you mean %q?", c.Value, near)
			}
		default:
			if near := misspelt(c.Value, valuesOf(clusters, c.Field)); near != "" {
				text = fmt.Sprintf("no cluster has %q in the field %s; did you mean %q?", c.Value, strings.Join(c.Field, "."), near)
			}
		}
		if text != "" {
			out = append(out, fmt.Sprintf("%s.rego:%d:%d: %s", name, c.Row, c.Col, text))
		}
	}
	known := propertiesOf(clusters)
	for _, p := range properties {
		if !slices.Contains(known, p.Name) {
			out = append(out, fmt.Sprintf("%s.rego:%d:%d: no cluster has the property %q%s", name, p.Row, p.Col, p.Name, suggestion(p.Name, known)))
		}
	}
	return out
}

// propertiesOf returns the sorted names of the properties that clusters have.
func propertiesOf(clusters []map[string]any) []string {
	seen := sets.New[string]()
	for _, cluster := range clusters {
		properties, _ := cluster["properties"].(map[string]any)
		for name := range properties {
			seen.Insert(name)
		}
	}
	return sets.List(seen)
}

// unknownCluster returns the problem with the name of a cluster, or "" if the cluster exists.
func unknownCluster(name string, names []string) string {
	if slices.Contains(names, name) {
		return ""
	}
	text := suggestion(name, names)
	if text == "" && len(names) <= maxListed {
		text = ", but " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("the inventories have no cluster %q%s", name, text)
}

// suggestion returns a question that suggests a known name in place of an unknown one, for example `; did you mean
// "eu-1"?`. It returns "" if none is similar.
func suggestion(name string, known []string) string {
	near := misspelt(name, known)
	if near == "" {
		near, _ = suggest.Nearest(name, known)
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// misspelt returns the known value that differs from a constant only in case and separators. It returns "" if there is
// not exactly one such value, or if the constant itself is known. Names that differ in other characters don't count:
// us-east-1 and us-west-1 are two regions.
func misspelt(constant string, known []string) string {
	if slices.Contains(known, constant) {
		return ""
	}
	near := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return spelling(k) != spelling(constant) })
	if len(near) != 1 {
		return ""
	}
	return near[0]
}

// spelling returns a text in lower case without separators.
func spelling(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. /", r) {
			return -1
		}
		return r
	}, strings.ToLower(text))
}

// valuesOf returns the sorted strings that clusters have at a path. If there is an array, it returns the array's
// strings.
func valuesOf(clusters []map[string]any, path []string) []string {
	seen := sets.New[string]()
	for _, cluster := range clusters {
		var value any = cluster
		for _, name := range path {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		members, isArray := value.([]any)
		if !isArray {
			members = []any{value}
		}
		for _, member := range members {
			if text, ok := member.(string); ok {
				seen.Insert(text)
			}
		}
	}
	return sets.List(seen)
}
