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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/explain"
	"github.com/berth-dev/berth/internal/fleet"
	"github.com/berth-dev/berth/internal/simulation"
)

// workloadView is the response of /api/workload: in which clusters an object is or should be, the explanation of its placement, and the
// command that prints that explanation.
type workloadView struct {
	// Places has the clusters that the object has, or that policies decide for it, and why; nil if no policy matches it.
	Places *fleet.Explained `json:"places"`
	// Explanation says what each policy decides, and, for as many clusters as the request asks for, why a cluster that is not chosen is
	// not.
	Explanation *explain.Explanation `json:"explanation"`
	// Command is the command for a shell that prints the explanation.
	Command string `json:"command"`
}

// The default and the maximum of the number of clusters that are not chosen for which a response has the reasons.
const (
	defaultReasons = 25
	maxReasons     = 100_000
)

// workload explains the placement of an object. The parameters are resource, such as deployments.apps, namespace, name, limit: for how many
// clusters that are not chosen to find the reasons, and whyNot: the only cluster to explain; empty for all. If there is no such object, the
// error has status 404.
func (c *Console) workload(r *http.Request) (*workloadView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", defaultReasons, maxReasons)
	if err != nil {
		return nil, err
	}
	object, simulated, err := s.object(r)
	if err != nil {
		return nil, err
	}
	out := &workloadView{Command: shell("kubectl", "berth", "explain", r.URL.Query().Get("resource")+"/"+object.Content.GetName())}
	if object.Namespace != "" {
		out.Command += " " + shell("-n", object.Namespace)
	}
	if out.Places, err = fleet.Explain(r.Context(), simulated, object); err != nil {
		return nil, err
	}
	out.Explanation, err = explain.Explain(r.Context(), simulated, object, explain.Options{Limit: limit, WhyNot: r.URL.Query().Get("whyNot")})
	return out, err
}

// object returns the object that the parameters resource, namespace, and name identify, and the simulation that decides it. If there is no
// such object, the error has status 404.
func (s *state) object(r *http.Request) (simulation.Object, *simulation.Simulation, error) {
	simulated, err := s.simulation(r.Context())
	if err != nil {
		return simulation.Object{}, nil, err
	}
	content, err := s.content(r)
	if err != nil {
		return simulation.Object{}, nil, err
	}
	object, err := simulated.NewObject(content, true)
	return object, simulated, err
}

// content returns the existing object that the parameters resource, namespace, and name identify. If there is none, or no such type, the
// error has status 404.
func (s *state) content(r *http.Request) (*unstructured.Unstructured, error) {
	query := r.URL.Query()
	found, err := simulation.FindType(s.cached.Catalog(), query.Get("resource"))
	if err != nil {
		return nil, problem{http.StatusNotFound, err.Error()}
	}
	content, err := s.cached.Get(r.Context(), found.GroupVersionResource, query.Get("namespace"), query.Get("name"))
	if err == nil && content == nil {
		text := fmt.Sprintf("there is no object %q of %s", query.Get("name"), found.GroupResource())
		if found.Namespaced {
			text += fmt.Sprintf(" in the namespace %q", query.Get("namespace"))
		}
		err = problem{http.StatusNotFound, text + ": it may have been deleted; select Read again"}
	}
	return content, err
}
