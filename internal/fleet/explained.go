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

package fleet

import (
	"context"
	"fmt"
	"slices"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/simulation"
)

// Explained is an object with the reasons for each of its clusters. Its JSON form is the output of the plugin.
type Explained struct {
	*Object
	// Places are the clusters that the object has, or that policies decide for it, sorted by name.
	Places []Reasons `json:"places"`
}

// Reasons say why an object is in a cluster, is to come to it, or has to leave it.
type Reasons struct {
	Cluster string `json:"cluster"`
	// Replicas is the number of replicas in the cluster; nil if it is not known, or if the object is not there.
	Replicas *int64 `json:"replicas,omitempty"`
	Change   Change `json:"change,omitempty"` // empty if the object stays there
	// By are the enforced policies that choose the cluster, in order of precedence, with their rules. There are none if only the developer
	// chooses it.
	By []Choice `json:"by,omitempty"`
	// Ranks are the ranks of the cluster in the rules that decide the object and rank eligible clusters.
	Ranks []explain.Rank `json:"ranks,omitempty"`
	// Against are the reasons why the object has to leave the cluster; empty unless Change is Leaving.
	Against []explain.Reason `json:"against,omitempty"`
}

// Choice is a policy that chooses a cluster, and the rule of spec.rules by which it does, if the policy has rules.
type Choice struct {
	Policy string `json:"policy"`
	// Rule is the rule of spec.rules that decides; empty for a policy without rules.
	Rule string `json:"rule,omitempty"`
}

// Explain explains the clusters of an existing object. It returns nil if no policy matches the object.
func Explain(ctx context.Context, s *simulation.Simulation, o simulation.Object) (*Explained, error) {
	object, err := Locate(ctx, s, o)
	if err != nil || object == nil {
		return nil, err
	}
	e, err := explain.Explain(ctx, s, o, explain.Options{})
	if err != nil {
		return nil, err
	}
	out := &Explained{Object: object, Places: []Reasons{}}
	names := slices.Concat(object.Clusters, object.Decided)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		r := Reasons{
			Cluster: name, Replicas: object.ReplicasIn(name), By: choicesOf(e, name),
			Change: changeOf(slices.Contains(object.Clusters, name), object.Decided == nil || slices.Contains(object.Decided, name)),
		}
		c := candidateOf(e, name)
		if c != nil {
			r.Ranks = c.Ranks
		}
		switch {
		case r.Change != Leaving:
		case c != nil:
			r.Against = c.Reasons
		default:
			if r.Against, err = against(ctx, s, o, name); err != nil {
				return nil, err
			}
		}
		out.Places = append(out.Places, r)
	}
	return out, nil
}

// candidateOf returns a cluster of an explanation; nil if the explanation does not have it.
func candidateOf(e *explain.Explanation, cluster string) *explain.Candidate {
	if e.Clusters == nil {
		return nil
	}
	i := slices.IndexFunc(e.Clusters.Listed, func(c explain.Candidate) bool { return c.Name == cluster })
	if i < 0 {
		return nil
	}
	return &e.Clusters.Listed[i]
}

// choicesOf returns the enforced policies that choose a cluster.
func choicesOf(e *explain.Explanation, cluster string) (out []Choice) {
	for _, p := range e.Policies {
		if p.Mode == placementv1.ModeEnforce && p.Decision != nil && p.Decision.Clusters != nil &&
			slices.Contains(*p.Decision.Clusters, cluster) {
			out = append(out, Choice{p.Name, p.Rule})
		}
	}
	return out
}

// against returns the reasons why an object has to leave a cluster that the explanation of the object does not have: that no inventory has
// the cluster, or else what policies have against it.
func against(ctx context.Context, s *simulation.Simulation, o simulation.Object, cluster string) ([]explain.Reason, error) {
	known, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known, cluster) {
		return []explain.Reason{{Message: fmt.Sprintf("no inventory that policies read has a cluster %q", cluster)}}, nil
	}
	e, err := explain.Explain(ctx, s, o, explain.Options{WhyNot: cluster})
	if err != nil || e.Clusters == nil {
		return nil, err
	}
	var out []explain.Reason
	for _, c := range e.Clusters.Listed {
		out = append(out, c.Reasons...)
	}
	return out, nil
}
