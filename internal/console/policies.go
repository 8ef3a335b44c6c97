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

package console

import (
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/fleet"
)

// policiesView is the response of /api/policies.
type policiesView struct {
	Policies []policyView `json:"policies"`
	Notes    []string     `json:"notes"`
}

// policyView is a policy in a list: what its spec says of mode, priority, rules, remote engine, and stages, its whole status, and what the
// console computes, the number of objects by state and errors.
type policyView struct {
	Name        string                      `json:"name"`
	Generation  int64                       `json:"generation"`
	Mode        placementv1.Mode            `json:"mode"`
	Priority    int32                       `json:"priority"`
	Remediation placementv1.RemediationMode `json:"remediation"`
	// Rules are the names of its rules, in their order; nil if it has Rego or a remote engine.
	Rules []string `json:"rules"`
	// Remote is the URL of its remote engine; empty if it has none.
	Remote string `json:"remote,omitempty"`
	// Stages are the names of the stages of its rollout, in their order; empty if it has none.
	Stages []string `json:"stages"`
	// States has, for each state, the number of existing objects that the policy matches, if they have a list of clusters or get one, if a
	// policy denies them or can't decide them, or if they are Pods. Objects that follow a controller count, too. It is nil if the user may
	// not read what that needs.
	States map[fleet.State]int `json:"states"`
	// Errors say why versions of the policy that are in force can't decide any object; empty if they can, or if States is nil.
	Errors    []string                          `json:"errors"`
	Status    placementv1.PlacementPolicyStatus `json:"status"`
	Approvals []Approval                        `json:"approvals"`
}

func (c *Console) policies(r *http.Request) (*policiesView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	policies, err := s.cached.Policies(r.Context())
	if err != nil {
		return nil, err
	}
	out := &policiesView{Policies: make([]policyView, len(policies)), Notes: []string{}}
	for i := range policies {
		out.Policies[i] = c.viewOf(&policies[i])
	}
	// Without the rights for that, the status has what the user may see.
	if err := s.describe(r, out.Policies); err != nil {
		out.Notes = append(out.Notes, "only the status of the policies is known: "+err.Error())
	}
	return out, nil
}

// viewOf returns the view of a policy by its spec and status, without States and Errors.
func (c *Console) viewOf(p *placementv1.PlacementPolicy) policyView {
	spec := p.Spec.WithDefaults()
	out := policyView{
		Name: p.Name, Generation: p.Generation, Mode: spec.Mode, Priority: spec.Priority, Remediation: spec.Remediation.Mode,
		Stages: []string{}, Errors: []string{}, Status: p.Status, Approvals: c.approvals(p),
	}
	for _, rule := range spec.Rules {
		out.Rules = append(out.Rules, rule.Name)
	}
	if spec.Remote != nil {
		out.Remote = spec.Remote.URL
	}
	if spec.Rollout != nil {
		for _, stage := range spec.Rollout.Stages {
			out.Stages = append(out.Stages, stage.Name)
		}
	}
	return out
}

// describe sets States and Errors of policies, for which it decides all objects. With an error, it sets neither.
func (s *state) describe(r *http.Request, policies []policyView) error {
	simulated, err := s.simulation(r.Context())
	if err != nil {
		return err
	}
	f, err := s.fleet(r.Context())
	if err != nil {
		return err
	}
	counts := map[string]map[fleet.State]int{}
	for i := range f.Objects {
		for _, name := range f.Objects[i].Policies {
			if counts[name] == nil {
				counts[name] = map[fleet.State]int{}
			}
			counts[name][f.Objects[i].State]++
		}
	}
	for i := range policies {
		p := &policies[i]
		if p.States = counts[p.Name]; p.States == nil {
			p.States = map[fleet.State]int{}
		}
		if found := simulated.Policy(p.Name); found != nil {
			for _, v := range found.Versions() {
				if v.Err != nil {
					p.Errors = append(p.Errors, v.Err.Error())
				}
			}
		}
	}
	return nil
}

// manifestView is the response of /api/policy and /api/manifest: the manifest of an object, and the lines of the part that is asked for.
type manifestView struct {
	Manifest string `json:"manifest"` // the policy, or the other object, in YAML, without status and the metadata that the API server sets
	// From and To are the first and the last line of the part of Manifest that the request asks for, or of the innermost field around it
	// that Manifest has. They count from 1, and are 0 if the request asks for none, or Manifest has no such field.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
}

// policy returns the manifest of the policy that the parameter name names, as its author would write it. These parameters ask for a part of
// it: field, such as spec.rules[0].limit, rule, the name of a rule, or line, a line of the policy's Rego. Of several, line counts first,
// and then the name of an existing rule. In place of a field that the manifest lacks, the part is the innermost field around it.
func (c *Console) policy(r *http.Request) (*manifestView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	p, err := s.policy(r)
	if err != nil {
		return nil, err
	}
	line, err := number(r, "line", 0, maxManifests)
	if err != nil {
		return nil, err
	}
	text, err := c.config.Manifest(authored(p))
	out, query := &manifestView{Manifest: text}, r.URL.Query()
	field := query.Get("field")
	if i := slices.IndexFunc(p.Spec.Rules, func(rule placementv1.Rule) bool { return rule.Name == query.Get("rule") }); i >= 0 {
		field = fmt.Sprintf("spec.rules[%d]", i)
	}
	if line > 0 {
		field = "spec.rego"
	}
	if out.From, out.To = linesOf(text, field); line > 0 {
		out.From = min(out.From+line, out.To)
		out.To = out.From
	}
	return out, err
}

// authored returns a policy as its author would write it: its name, labels, annotations without that of kubectl apply, and spec.
func authored(p *placementv1.PlacementPolicy) *placementv1.PlacementPolicy {
	out := &placementv1.PlacementPolicy{Spec: p.Spec}
	out.APIVersion, out.Kind = placementv1.GroupVersion.String(), "PlacementPolicy"
	out.ObjectMeta = metav1.ObjectMeta{Name: p.Name, Labels: p.Labels}
	for key, value := range p.Annotations {
		if key != corev1.LastAppliedConfigAnnotation {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	return out
}

// manifest returns the manifest of the object that the parameters resource, such as scopedquotas.placement.berth.dev, namespace, and name
// identify, without its status, and without the metadata that the API server sets.
func (c *Console) manifest(r *http.Request) (*manifestView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	content, err := s.content(r)
	if err != nil {
		return nil, err
	}
	content = plainObject(content)
	delete(content.Object, "status")
	text, err := yaml.Marshal(content.Object)
	return &manifestView{Manifest: string(text)}, err
}

// policy returns the policy that the parameter name of a request names. If there is none, the error has status 404.
func (s *state) policy(r *http.Request) (*placementv1.PlacementPolicy, error) {
	policies, err := s.cached.Policies(r.Context())
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("name")
	i := slices.IndexFunc(policies, func(p placementv1.PlacementPolicy) bool { return p.Name == name })
	if i < 0 {
		return nil, problem{http.StatusNotFound, "there is no PlacementPolicy " + name + ": it may have been deleted; select Read again"}
	}
	return &policies[i], nil
}
