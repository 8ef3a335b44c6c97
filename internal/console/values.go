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
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/simulation"
)

// valuesView is the response of /api/values: what the cluster has that a policy can name, which are values of fields, labels, annotations,
// and properties, and names of nodes and resources. The editor and the form suggest it. What the user may not list is missing, and in the
// maps also long values, and what exceeds maxNames or maxValues. All lists are sorted.
type valuesView struct {
	Fields            map[string][]string `json:"fields"`            // values of fields of clusters, such as name and region, by field
	Labels            map[string][]string `json:"labels"`            // values of the labels of clusters, by label
	Annotations       map[string][]string `json:"annotations"`       // values of the annotations of clusters, by annotation
	Properties        map[string][]string `json:"properties"`        // values of the properties of clusters, by property
	Resources         []string            `json:"resources"`         // names of the resources of clusters
	NodeLabels        map[string][]string `json:"nodeLabels"`        // values of the labels of nodes, by label, if a policy reads nodes
	Nodes             []string            `json:"nodes"`             // names of nodes, if a policy reads nodes
	ObjectLabels      map[string][]string `json:"objectLabels"`      // values of the labels of objects that policies match, by label
	ObjectAnnotations map[string][]string `json:"objectAnnotations"` // values of the annotations of objects that policies match
	NamespaceLabels   map[string][]string `json:"namespaceLabels"`   // values of the labels of namespaces, if a policy selects by them
}

// Limits of what is suggested, so that the response stays small: the number of names of each kind, and of the values of a name.
const (
	maxNames  = 500
	maxValues = 100
	// maxValueLength is in bytes. Longer values are not suggested.
	maxValueLength = 128
)

func (c *Console) values(r *http.Request) (*valuesView, error) {
	s, err := c.current(r)
	if err != nil {
		return nil, err
	}
	return s.named.get(r.Context(), s.values)
}

// values computes the response of /api/values from the clusters, the nodes, the namespaces, and the objects that policies match: names, and
// the values of fields, labels, and annotations, each once and sorted. What can't be read is missing, and never an error.
func (s *state) values(ctx context.Context) (*valuesView, error) {
	fields, labels, annotations, properties, resources := distinct{}, distinct{}, distinct{}, distinct{}, distinct{}
	for _, document := range s.clusterDocuments(ctx) {
		for _, name := range []string{"name", "namespace", "source", "region", "provider", "version", "ready"} {
			fields.add(name, document[name])
		}
		zones, _ := document["zones"].([]any)
		for _, zone := range zones {
			fields.add("zone", zone)
		}
		labels.addAll(document["labels"])
		annotations.addAll(document["annotations"])
		properties.addAll(document["properties"])
		allocatable, _ := document["allocatable"].(map[string]any)
		for name := range allocatable {
			resources.add("", name)
		}
	}
	out := &valuesView{
		Fields: fields.lists(), Labels: labels.lists(), Annotations: annotations.lists(), Properties: properties.lists(),
		Resources: resources.names(""),
		Nodes:     []string{},
	}
	nodes, objectLabels, objectAnnotations, namespaces := distinct{}, distinct{}, distinct{}, distinct{}
	simulated, err := s.simulation(ctx)
	if err == nil {
		reads := func(p *simulation.Policy) bool {
			return p.Fields(nodeResource) != nil || p.PredicateReads(nodeResource) != nil
		}
		if slices.ContainsFunc(simulated.Policies(), reads) {
			for _, obj := range s.listed(ctx, nodeResource) {
				nodes.addLabels(obj.GetLabels())
				out.Nodes = append(out.Nodes, obj.GetName())
			}
		}
		if slices.ContainsFunc(simulated.Policies(), (*simulation.Policy).NeedsNamespaces) {
			for _, obj := range s.listed(ctx, namespaceResource) {
				namespaces.addLabels(obj.GetLabels())
			}
		}
		for o, err := range simulated.Matched(ctx) {
			if err == nil {
				objectLabels.addLabels(o.Content.GetLabels())
				objectAnnotations.addLabels(o.Content.GetAnnotations())
			}
		}
	}
	slices.Sort(out.Nodes)
	out.NodeLabels, out.NamespaceLabels = nodes.lists(), namespaces.lists()
	out.ObjectLabels, out.ObjectAnnotations = objectLabels.lists(), objectAnnotations.lists()
	return out, nil
}

var (
	nodeResource      = corev1.SchemeGroupVersion.WithResource("nodes")
	namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// clusterDocuments returns the clusters of all inventories in their normal form. It leaves out those that the user may not list.
func (s *state) clusterDocuments(ctx context.Context) []map[string]any {
	var out []map[string]any
	inventories := s.cached.Catalog().Inventories()
	for _, inventory := range s.servedInventories() {
		for _, obj := range s.listed(ctx, inventory) {
			if document, ok := inventories.Cluster(inventory, obj.Object); ok {
				out = append(out, document)
			}
		}
	}
	return out
}

// servedInventories returns the types of the inventories that the API server serves.
func (s *state) servedInventories() []schema.GroupVersionResource {
	catalog := s.cached.Catalog()
	return catalog.Inventories().Served(func(resource schema.GroupVersionResource) bool {
		_, ok := catalog.Exact(resource)
		return ok
	})
}

// listed returns the objects of a type. If they can't be listed, for whatever reason, it returns none, because values are only suggestions.
func (s *state) listed(ctx context.Context, resource schema.GroupVersionResource) []*unstructured.Unstructured {
	out, _ := s.cached.List(ctx, resource, nil)
	return out
}

// distinct collects the distinct values of each name, such as those of each label key.
type distinct map[string]map[string]bool

// add adds a value of a name, as text, unless it is nil, empty, or longer than maxValueLength, or there are maxNames names or maxValues
// values of the name already.
func (c distinct) add(name string, value any) {
	text := fmt.Sprint(value)
	if value == nil || text == "" || len(text) > maxValueLength || c[name] == nil && len(c) >= maxNames {
		return
	}
	if c[name] == nil {
		c[name] = map[string]bool{}
	}
	if len(c[name]) < maxValues {
		c[name][text] = true
	}
}

// addAll adds the members of a decoded JSON object: their names and values. Nothing else has members.
func (c distinct) addAll(values any) {
	all, _ := values.(map[string]any)
	for name, value := range all {
		c.add(name, value)
	}
}

func (c distinct) addLabels(labels map[string]string) {
	for name, value := range labels {
		c.add(name, value)
	}
}

// names returns the values of a name, sorted; an empty slice if there are none. values collects the resources of clusters as values of the
// name "".
func (c distinct) names(name string) []string {
	return append([]string{}, slices.Sorted(maps.Keys(c[name]))...)
}

// lists returns the sorted values of each name.
func (c distinct) lists() map[string][]string {
	out := map[string][]string{}
	for name := range c {
		out[name] = c.names(name)
	}
	return out
}
