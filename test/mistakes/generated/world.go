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

package generated

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/test/mistakes"
)

// member is a cluster, a node, or a namespace.
type member struct {
	name string
	// values are the values of each subject. The zone of a cluster may have several, and other subjects have one or none.
	values map[subject][]string
	taints []string
}

// subject is what a policy can compare of a member, as a requirement names it: a kind such as field or label, and a name.
type subject struct{ kind, name string }

// attribute is what an organization writes on its clusters, nodes, or namespaces.
type attribute struct {
	names, values []string
	// as says how the values are compared by order, in which they are then. It is "" for values without an order.
	as string
}

// attributesOfClusters have odd values that are right: upper case, dots, letters beyond ASCII where these are allowed, and mixed forms.
var attributesOfClusters = []attribute{
	{names: []string{"environment", "example.com/environment", "fleet.example.com/Env"},
		values: []string{"production", "staging", "development"}},
	{names: []string{"tier", "example.com/tier", "cost-tier"}, values: []string{"Gold", "silver", "bronze.v2", "BRONZE"}},
	{names: []string{"example.com/track", "track"}, values: []string{"stable", "canary"}},
	{names: []string{"compliance", "example.com/Compliance"}, values: []string{"PCI-DSS_4.0", "iso27001", "SOC2"}},
	{names: []string{"example.com/team", "owner"}, values: []string{"payments", "search", "data.science"}},
	{names: []string{"pci-level", "example.com/pci-level"}, values: []string{"1", "2", "2.5", "3", "10"}, as: "Number"},
	{names: []string{"example.com/memory-class"}, values: []string{"500Mi", "4Gi", "16Gi", "1Ti"}, as: "Quantity"},
	{names: []string{"example.com/agent", "mesh-version"}, values: []string{"1.9", "v1.28.3", "1.30", "v1.31.2", "1.31.10", "v2.0.0-rc.1"},
		as: "Version"},
	{names: []string{"example.com/drain", "spot"}, values: []string{"yes"}},
}

var attributesOfNodes = []attribute{
	{names: []string{"example.com/pool", "pool", "cloud.google.com/gke-nodepool"}, values: []string{"general", "gpu", "High-Mem", "spot.2"}},
	{names: []string{"example.com/gpu", "nvidia.com/gpu.product"}, values: []string{"a100", "t4", "NVIDIA-H100-80GB"}},
	{names: []string{"kubernetes.io/arch"}, values: []string{"amd64", "arm64"}},
	{names: []string{"example.com/gpus"}, values: []string{"1", "4", "8", "16"}, as: "Number"},
}

var attributesOfNamespaces = []attribute{
	{names: []string{"team", "example.com/team"}, values: []string{"payments", "search", "research", "Web.Shop"}},
	{names: []string{"example.com/environment", "environment"}, values: []string{"production", "staging", "development"}},
	{names: []string{"example.com/stage"}, values: []string{"canary", "early", "late"}},
}

// geographies are the ways in which organizations name regions.
var geographies = [][]string{
	{"eu", "us", "ap"}, {"eu-west-1", "eu-central-1", "us-east-1", "us-west-2"},
	{"westeurope", "EastUS2", "northeurope"}, {"DE", "FR", "CH"}, {"europe.west4", "asia_1"},
}

// pools are what single values are taken from.
var pools = struct{ clusters, nodes, namespaces, providers, versions, cities, classes []string }{
	clusters:   []string{"eu-1", "eu-2", "us-1", "prod-a", "prod-b", "edge.store-7", "lab", "canary", "dr-site", "m1", "m2", "m3"},
	nodes:      []string{"node-a", "node-b", "gpu-1", "gpu-2", "ip-10-0-0-1.internal", "worker-7"},
	namespaces: []string{"shop", "payments-web", "lab", "team-a", "team-b", "data", "checkout", "ml", "tenant-0001"},
	providers:  []string{"aws", "gcp", "Azure", "on-prem"},
	versions:   []string{"1.29.14", "v1.30.9", "v1.31.2", "v1.31.10-gke.100", "1.33.0", "v1.34.1+k3s1"},
	cities:     []string{"München", "東京", "São Paulo", "Zürich West"},
	classes:    []string{"gold", "high", "batch", "cluster-services"},
}

// quantities are in ascending order.
var quantities = map[string][]string{
	"cpu": {"500m", "4", "16", "64", "1k"}, "memory": {"512Mi", "16Gi", "256Gi", "1Ti"}, "nvidia.com/gpu": {"1", "4", "8"},
	"example.com/fpga": {"2", "16"},
}

// world is what exists.
type world struct {
	system                    string
	clusters, nodes           []member
	namespaces                []member
	orders                    map[subject]attribute
	classes, storage, devices []string
}

// systems are the inventories that clusters are in, with the CRDs by which objects are delivered.
var systems = map[string][]string{
	"ClusterProfile": {"placementdecisions.multicluster.x-k8s.io/v1alpha1 PlacementDecision"},
	"Karmada": {
		"propagationpolicies.policy.karmada.io/v1alpha1 PropagationPolicy", "clusterpropagationpolicies.policy.karmada.io/v1alpha1 " +
			"ClusterPropagationPolicy",
	},
	"ManagedCluster": {
		"placements.cluster.open-cluster-management.io/v1beta1 Placement",
		"placementdecisions.cluster.open-cluster-management.io/v1beta1 PlacementDecision",
	},
	"MemberCluster": {
		"resourceplacements.placement.kubernetes-fleet.io/v1beta1 ResourcePlacement",
		"clusterresourceplacements.placement.kubernetes-fleet.io/v1beta1 ClusterResourcePlacement",
	},
}

func (g *generator) newWorld() *world {
	w := &world{system: pick(g, slices.Sorted(maps.Keys(systems))), orders: map[subject]attribute{}}
	few := func(pool []string) []string { return some(g, pool, 1+g.random.IntN(len(pool))) }
	for _, name := range few(pools.clusters) {
		w.clusters = append(w.clusters, member{name: name, values: map[subject][]string{{"field", "name"}: {name}}})
	}
	for _, name := range few(pools.nodes) {
		w.nodes = append(w.nodes, member{name: name, values: map[subject][]string{{"field", "name"}: {name}}})
	}
	for _, name := range few(pools.namespaces) {
		w.namespaces = append(w.namespaces, member{name: name, values: map[subject][]string{{"label", "kubernetes.io/metadata.name"}: {name}}})
	}
	regions := some(g, pick(g, geographies), 3)
	g.describeClusters(w, regions)
	g.place(w, w.nodes, subject{"field", "region"}, attribute{values: regions})
	g.place(w, w.nodes, subject{"field", "zone"}, attribute{values: []string{regions[0] + "-a", regions[0] + "-b"}})
	for _, a := range some(g, attributesOfNodes, 3) {
		g.place(w, w.nodes, subject{"label", pick(g, a.names)}, a)
	}
	if g.chance(60) {
		g.place(w, w.nodes, subject{"allocatable", "nvidia.com/gpu"}, attribute{values: quantities["nvidia.com/gpu"], as: "Quantity"})
	}
	for _, a := range some(g, attributesOfNamespaces, 3) {
		g.place(w, w.namespaces, subject{"label", pick(g, a.names)}, a)
	}
	for i := range w.clusters {
		w.clusters[i].taints = g.taints()
	}
	for i := range w.nodes {
		w.nodes[i].taints = g.taints()
	}
	w.classes, w.storage, w.devices = few(pools.classes), few([]string{"standard", "fast.ssd", "premium-rwo"}),
		few([]string{"gpu", "gpu.example.com"})
	return w
}

// describeClusters gives clusters what their inventory has.
func (g *generator) describeClusters(w *world, regions []string) {
	var zones []string
	for _, region := range regions {
		zones = append(zones, region+"-a", region+"-b")
	}
	g.place(w, w.clusters, subject{"field", "region"}, attribute{values: regions})
	if w.system != "MemberCluster" {
		g.place(w, w.clusters, subject{"field", "version"}, attribute{values: pools.versions, as: "Version"})
	}
	g.place(w, w.clusters, subject{"field", "zone"}, attribute{values: zones})
	carriers := []string{"label", "label", "annotation"}
	if w.system != "Karmada" {
		carriers = append(carriers, "property", "property")
	}
	if w.system == "Karmada" || w.system == "ClusterProfile" {
		g.place(w, w.clusters, subject{"field", "provider"}, attribute{values: pools.providers})
	}
	for _, a := range some(g, attributesOfClusters, 5) {
		g.place(w, w.clusters, subject{pick(g, carriers), pick(g, a.names)}, a)
	}
	if carrier := pick(g, carriers); carrier != "label" {
		g.place(w, w.clusters, subject{carrier, "example.com/City"}, attribute{values: pools.cities})
	}
	if w.system == "ClusterProfile" {
		return
	}
	for _, name := range some(g, slices.Sorted(maps.Keys(quantities)), 3) {
		s := subject{"allocatable", name}
		g.place(w, w.clusters, s, attribute{values: quantities[name], as: "Quantity"})
		if w.system != "Karmada" && w.system != "MemberCluster" {
			continue
		}
		// Nothing of it is allocated.
		w.orders[subject{"free", name}] = w.orders[s]
		for _, c := range w.clusters {
			if value, has := c.values[s]; has {
				c.values[subject{"free", name}] = value
			}
		}
	}
}

// place gives some members, and one at least, a value of an attribute.
func (g *generator) place(w *world, members []member, s subject, a attribute) {
	w.orders[s] = a
	share := pick(g, []int{20, 70, 100})
	first := g.random.IntN(len(members))
	for i, m := range members {
		if i != first && !g.chance(share) {
			continue
		}
		m.values[s] = []string{pick(g, a.values)}
		if s.name == "zone" && w.system == "Karmada" && len(a.values) > 2 && g.chance(30) {
			m.values[s] = some(g, a.values, 2)
		}
	}
}

func (g *generator) taints() []string {
	if g.chance(70) {
		return nil
	}
	return some(g, []string{
		"{key: example.com/dedicated, value: payments, effect: NoSchedule}", "{key: example.com/drain, effect: NoSchedule}",
		"{key: nvidia.com/gpu, value: present, effect: NoSchedule}", "{key: example.com/far, effect: PreferNoSchedule}",
	}, 2)
}

// of returns the values of a kind of subjects, as a flow mapping.
func (m member) of(kind string) string {
	var out []string
	for s, values := range m.values {
		if s.kind == kind {
			out = append(out, fmt.Sprintf("%q: %q", s.name, values[0]))
		}
	}
	slices.Sort(out)
	return "{" + strings.Join(out, ", ") + "}"
}

// field returns a field of a cluster or node; "" if it has none.
func (m member) field(name string) string {
	return append(m.values[subject{"field", name}], "")[0]
}

// located returns the labels of a member, with those of its region and zone.
func (m member) located() string {
	all := member{values: maps.Clone(m.values)}
	for _, name := range []string{"region", "zone"} {
		if value := m.field(name); value != "" {
			all.values[subject{"label", "topology.kubernetes.io/" + name}] = []string{value}
		}
	}
	return all.of("label")
}

// listed returns the properties as a list of names and values.
func (m member) listed() string {
	var out []string
	for s, values := range m.values {
		if s.kind == "property" {
			out = append(out, fmt.Sprintf("{name: %q, value: %q}", s.name, values[0]))
		}
	}
	slices.Sort(out)
	return "[" + strings.Join(out, ", ") + "]"
}

// manifest returns the world's objects, but for workloads.
func (w *world) manifest() string {
	var out strings.Builder
	object := func(version, kind, name, rest string) {
		fmt.Fprintf(&out, "---\napiVersion: %s\nkind: %s\nmetadata: {name: %s%s\n", version, kind, name, rest)
	}
	for _, definition := range systems[w.system] {
		name, kind, _ := strings.Cut(definition, " ")
		name, version, _ := strings.Cut(name, "/")
		plural, group, _ := strings.Cut(name, ".")
		scope := "Namespaced"
		if strings.HasPrefix(plural, "cluster") {
			scope = "Cluster"
		}
		object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, fmt.Sprintf("}\nspec: {group: %s, scope: %s, "+
			"names: {kind: %s, plural: %s, singular: %s}, versions: [{name: %s, served: true, storage: true}]}",
			group, scope, kind, plural, strings.ToLower(kind), version))
	}
	for _, c := range w.clusters {
		version, kind, rest := w.cluster(c)
		object(version, kind, c.name, rest)
	}
	for _, n := range w.nodes {
		object("v1", "Node", n.name, fmt.Sprintf(", labels: %s}\nspec: {taints: [%s]}\nstatus: {allocatable: %s}",
			n.located(), strings.Join(n.taints, ", "), n.of("allocatable")))
	}
	for _, n := range w.namespaces {
		object("v1", "Namespace", n.name, fmt.Sprintf(", labels: %s}", n.of("label")))
	}
	for _, name := range []string{"kube-system", "berth-system", "inventory"} {
		object("v1", "Namespace", name, fmt.Sprintf(", labels: {kubernetes.io/metadata.name: %s}}", name))
	}
	for _, name := range w.classes {
		object("scheduling.k8s.io/v1", "PriorityClass", name, "}\nvalue: 1000")
	}
	for _, name := range w.storage {
		object("storage.k8s.io/v1", "StorageClass", name, "}\nprovisioner: example.com/none")
	}
	for _, name := range w.devices {
		object("resource.k8s.io/v1", "DeviceClass", name, "}\nspec: {}")
	}
	return out.String()
}

// cluster returns what the inventory has of a cluster: the type, and what follows the name.
func (w *world) cluster(c member) (version, kind, rest string) {
	taints := strings.Join(c.taints, ", ")
	ready := func(condition string) string {
		return fmt.Sprintf("conditions: [{type: %s, status: \"True\"}]", condition)
	}
	head := func(labels string) string {
		return fmt.Sprintf(", labels: %s, annotations: %s", labels, c.of("annotation"))
	}
	allocatable := c.of("allocatable")
	switch w.system {
	case "Karmada":
		zones := ""
		if all := c.values[subject{"field", "zone"}]; len(all) > 0 {
			zones = fmt.Sprintf("zones: [%s], ", strings.Join(all, ", "))
		}
		return "cluster.karmada.io/v1alpha1", "Cluster", head(c.of("label")) + fmt.Sprintf("}\n"+
			"spec: {region: %q, %sprovider: %q, taints: [%s]}\nstatus: {%s, kubernetesVersion: %q, resourceSummary: {allocatable: %s, allocated: "+
			"{pods: \"1\"}}}", c.field("region"), zones, c.field("provider"), taints, ready("Ready"), c.field("version"), allocatable)
	case "ManagedCluster":
		return "cluster.open-cluster-management.io/v1", "ManagedCluster", head(c.located()) + fmt.Sprintf("}\n"+
			"spec: {taints: [%s]}\nstatus: {%s, version: {kubernetes: %q}, clusterClaims: %s, allocatable: %s}",
			taints, ready("ManagedClusterConditionAvailable"), c.field("version"), c.listed(), allocatable)
	case "MemberCluster":
		properties := strings.NewReplacer("{name: ", "", ", value: ", ": {value: ").Replace(strings.Trim(c.listed(), "[]"))
		return "cluster.kubernetes-fleet.io/v1", "MemberCluster", head(c.located()) + fmt.Sprintf("}\n"+
			"spec: {taints: [%s]}\nstatus: {%s, properties: {%s}, resourceUsage: {allocatable: %s, available: %s}}",
			taints, ready("Joined"), properties, allocatable, allocatable)
	default:
		return "multicluster.x-k8s.io/v1alpha1", "ClusterProfile", head(c.located()) + fmt.Sprintf(", namespace: inventory}\n"+
			"spec: {clusterManager: {name: %q}}\nstatus: {%s, version: {kubernetes: %q}, properties: %s}",
			c.field("provider"), ready("ControlPlaneHealthy"), c.field("version"), c.listed())
	}
}

// Objects returns the objects of manifests.
func Objects(manifest string) []*unstructured.Unstructured {
	all := mistakes.Objects(manifest)
	for _, obj := range all {
		// YAML has integers as floating-point numbers, and unstructured content has them as int64.
		text, err := obj.MarshalJSON()
		if err == nil {
			err = obj.UnmarshalJSON(text)
		}
		if err != nil {
			panic(err)
		}
	}
	return all
}
