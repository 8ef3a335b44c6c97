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
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// Site is a cluster or a node.
type Site struct {
	Name   string `json:"name"`
	Region string `json:"region,omitempty"`
	// Zones are the zones of a cluster, or the one of a node.
	Zones []string `json:"zones,omitempty"`
	// Ready reports whether an inventory says that the cluster is ready, or the node has the condition Ready.
	Ready bool `json:"ready"`
	Capacity
}

// Capacity is what a cluster, a node, or several of them together have for pods, by resource. The amount of a missing resource is unknown.
type Capacity struct {
	// Allocatable is what all pods together can request.
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Used is what pods request: of a cluster, as an inventory reports it; of a node, those that policies match and that have not finished.
	Used corev1.ResourceList `json:"used,omitempty"`
}

// Free returns the allocatable amount of a resource minus the used one, which may be negative. ok is false if one of them is unknown.
func (c Capacity) Free(name corev1.ResourceName) (free string, ok bool) {
	allocatable, known := c.Allocatable[name]
	used, ok := c.Used[name]
	if !known || !ok {
		return "", false
	}
	allocatable = allocatable.DeepCopy()
	allocatable.Sub(used)
	return allocatable.String(), true
}

// add adds another capacity. An amount that is unknown in only one of the two counts as 0 there.
func (c *Capacity) add(other Capacity) {
	c.Allocatable = added(c.Allocatable, other.Allocatable)
	c.Used = added(c.Used, other.Used)
}

// added returns the sums of two lists by resource. A resource that is in only one of them has its amount there. It may change and return
// the first list.
func added(to, more corev1.ResourceList) corev1.ResourceList {
	for name, quantity := range more {
		if to == nil {
			to = corev1.ResourceList{}
		}
		sum := to[name].DeepCopy()
		sum.Add(quantity)
		to[name] = sum
	}
	return to
}

// clusters returns the clusters of all inventories whose types the API server serves, sorted by name. An inventory that the user may not
// list is no error: it is left out, and a note says so.
func (b *builder) clusters(ctx context.Context) ([]Site, error) {
	catalog := b.simulation.Cluster().Catalog()
	inventories := catalog.Inventories()
	served := func(r schema.GroupVersionResource) bool {
		_, ok := catalog.Exact(r)
		return ok
	}
	sites := map[string]*Site{}
	for _, inventory := range inventories.Served(served) {
		objects, err := b.simulation.Cluster().List(ctx, inventory, nil)
		if apierrors.IsForbidden(err) {
			b.notes = append(b.notes, fmt.Sprintf("you may not list %s, so clusters without objects, and the regions, zones, and capacities that "+
				"these give clusters, are missing: ask for the right to list them", inventory.GroupResource()))
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if document, ok := inventories.Cluster(inventory, obj.Object); ok {
				addCluster(sites, document)
			}
		}
	}
	return sorted(sites), nil
}

// sorted returns the sites, sorted by name.
func sorted(sites map[string]*Site) []Site {
	out := make([]Site, 0, len(sites))
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		out = append(out, *sites[name])
	}
	return out
}

// addCluster adds a cluster in normal form to sites, by name. If several inventories have the cluster, the first value of each field
// counts, and the cluster is ready if one of them says so.
func addCluster(sites map[string]*Site, document map[string]any) {
	name, _ := document["name"].(string)
	site, known := sites[name]
	if !known {
		site = &Site{Name: name}
		sites[name] = site
	}
	if ready, _ := document["ready"].(bool); ready {
		site.Ready = true
	}
	if region, _ := document["region"].(string); site.Region == "" {
		site.Region = region
	}
	if zones, _ := document["zones"].([]any); len(site.Zones) == 0 {
		for _, zone := range zones {
			if text, ok := zone.(string); ok {
				site.Zones = append(site.Zones, text)
			}
		}
	}
	if site.Allocatable == nil {
		site.Allocatable = quantities(document["allocatable"])
	}
	if site.Used == nil {
		site.Used = quantities(document["allocated"])
	}
	if site.Used == nil {
		return
	}
	// What such a report does not name is free, as in rules.
	for resource := range site.Allocatable {
		if _, named := site.Used[resource]; !named {
			site.Used[resource] = apiresource.Quantity{}
		}
	}
}

// quantities returns the valid quantities in a decoded object with amounts by resource; nil if the value is no object.
func quantities(value any) corev1.ResourceList {
	amounts, isObject := value.(map[string]any)
	if !isObject {
		return nil
	}
	out := corev1.ResourceList{}
	for name, amount := range amounts {
		if q, ok := replication.Quantity(amount); ok {
			out[corev1.ResourceName(name)] = q
		}
	}
	return out
}

var (
	pods  = corev1.SchemeGroupVersion.WithResource("pods")
	nodes = corev1.SchemeGroupVersion.WithResource("nodes")
)

// The fields that are read of Pods and Nodes.
var (
	podFields = projection.Fields("spec.nodeName", "spec.overhead.**", "spec.resources.**", "status.phase",
		"spec.containers.*.name", "spec.containers.*.resources.**",
		"spec.initContainers.*.name", "spec.initContainers.*.resources.**", "spec.initContainers.*.restartPolicy")
	nodeFields = projection.Fields("metadata.labels.**", "status.allocatable.**", "status.conditions.**")
)

// nodeOf returns the node of a Pod; "" if it is not scheduled.
func nodeOf(pod *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	return name
}

// nodes returns the nodes, sorted by name. What the Pods among the objects request that have not finished counts as used. It returns none,
// and adds a note, if the user may not list nodes.
func (b *builder) nodes(ctx context.Context, objects []simulation.Object) ([]Site, error) {
	listed, err := b.simulation.Cluster().List(ctx, nodes, nodeFields)
	if apierrors.IsForbidden(err) {
		b.notes = append(b.notes, "you may not list nodes, so nodes without Pods, and the zones and the used and free amounts of all nodes, are "+
			"missing: ask for the right to list them")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sites := map[string]*Site{}
	for _, obj := range listed {
		var node corev1.Node
		if err := numeral.FromUnstructured(obj.Object, &node); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(obj), err)
		}
		sites[node.Name] = siteOf(&node)
	}
	for _, o := range objects {
		if o.Resource != pods || sites[nodeOf(o.Content)] == nil {
			continue
		}
		var pod corev1.Pod
		if err := numeral.FromUnstructured(o.Content.Object, &pod); err != nil {
			return nil, fmt.Errorf("%s: %w", simulation.Describe(o.Content), err)
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			requests := resource.PodRequests(&pod, resource.PodResourcesOptions{})
			requests[corev1.ResourcePods] = apiresource.MustParse("1")
			sites[pod.Spec.NodeName].add(Capacity{Used: requests})
		}
	}
	return sorted(sites), nil
}

// siteOf returns a node, of which nothing is used.
func siteOf(node *corev1.Node) *Site {
	out := &Site{Name: node.Name, Region: node.Labels[corev1.LabelTopologyRegion]}
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
		out.Zones = []string{zone}
	}
	out.Ready = slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	out.Allocatable = node.Status.Allocatable
	for name := range out.Allocatable {
		out.add(Capacity{Used: corev1.ResourceList{name: apiresource.Quantity{}}})
	}
	return out
}
