package replication

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Inventories are the resource types whose objects stand for clusters, in order of precedence: of two objects that
// stand for a cluster of the same name, the one of the earlier type is used.
var Inventories = []schema.GroupVersionResource{
	{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"},
	{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"},
	{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"},
	{Group: "cluster.kubernetes-fleet.io", Version: "v1", Resource: "memberclusters"},
	{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"},
}

// clusterReaders read the fields that differ between the inventories.
var clusterReaders = map[schema.GroupResource]func(obj, out map[string]any){
	{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}:              readClusterProfile,
	{Group: "cluster.open-cluster-management.io", Resource: "managedclusters"}: readManagedCluster,
	{Group: "cluster.karmada.io", Resource: "clusters"}:                        readKarmadaCluster,
	{Group: "cluster.kubernetes-fleet.io", Resource: "memberclusters"}:         readMemberCluster,
}

// Cluster brings an inventory's object into the normal form at data.clusters[name]. Every document has name,
// namespace, source, labels, annotations, properties, taints and ready; region, zones, provider, version, capacity,
// allocatable and allocated are there where the inventory knows them. ok is false for other resources.
//
// The fields are those of the inventories' published schemas: ClusterProfile of SIG Multicluster, ManagedCluster of
// Open Cluster Management, Cluster of Karmada and MemberCluster of KubeFleet.
func Cluster(resource schema.GroupVersionResource, obj map[string]any) (document map[string]any, ok bool) {
	read, ok := clusterReaders[resource.GroupResource()]
	if !ok {
		return nil, false
	}
	out := map[string]any{
		"name":        text(obj, "metadata", "name"),
		"namespace":   text(obj, "metadata", "namespace"),
		"source":      resource.GroupResource().String(),
		"labels":      object(obj, "metadata", "labels"),
		"annotations": object(obj, "metadata", "annotations"),
		"properties":  map[string]any{},
		"taints":      list(obj, "spec", "taints"),
		"ready":       false,
	}
	read(obj, out)
	return out, true
}

func readClusterProfile(obj, out map[string]any) {
	out["properties"] = named(list(obj, "status", "properties"))
	out["ready"] = condition(obj, "ControlPlaneHealthy")
	set(out, "version", text(obj, "status", "version", "kubernetes"))
	set(out, "provider", text(obj, "spec", "clusterManager", "name"))
	regionFromLabels(out)
}

func readManagedCluster(obj, out map[string]any) {
	out["properties"] = named(list(obj, "status", "clusterClaims"))
	out["ready"] = condition(obj, "ManagedClusterConditionAvailable")
	set(out, "version", text(obj, "status", "version", "kubernetes"))
	setObject(out, "capacity", object(obj, "status", "capacity"))
	setObject(out, "allocatable", object(obj, "status", "allocatable"))
	regionFromLabels(out)
}

func readKarmadaCluster(obj, out map[string]any) {
	out["ready"] = condition(obj, "Ready")
	set(out, "version", text(obj, "status", "kubernetesVersion"))
	set(out, "provider", text(obj, "spec", "provider"))
	set(out, "region", text(obj, "spec", "region"))
	if zones := list(obj, "spec", "zones"); len(zones) > 0 {
		out["zones"] = zones
	} else if zone := text(obj, "spec", "zone"); zone != "" {
		out["zones"] = []any{zone}
	}
	setObject(out, "allocatable", object(obj, "status", "resourceSummary", "allocatable"))
	setObject(out, "allocated", object(obj, "status", "resourceSummary", "allocated"))
	regionFromLabels(out)
}

func readMemberCluster(obj, out map[string]any) {
	properties := map[string]any{}
	for name, property := range object(obj, "status", "properties") {
		if p, ok := property.(map[string]any); ok {
			properties[name] = p["value"]
		}
	}
	out["properties"] = properties
	out["ready"] = condition(obj, "Joined")
	setObject(out, "capacity", object(obj, "status", "resourceUsage", "capacity"))
	setObject(out, "allocatable", object(obj, "status", "resourceUsage", "allocatable"))
	regionFromLabels(out)
}

// regionFromLabels fills in region and zones from the well-known labels of Kubernetes where the inventory has none.
func regionFromLabels(out map[string]any) {
	labels, _ := out["labels"].(map[string]any)
	if _, known := out["region"]; !known {
		region, _ := labels["topology.kubernetes.io/region"].(string)
		set(out, "region", region)
	}
	if _, known := out["zones"]; known {
		return
	}
	if zone, _ := labels["topology.kubernetes.io/zone"].(string); zone != "" {
		out["zones"] = []any{zone}
	}
}

func set(out map[string]any, key, value string) {
	if value != "" {
		out[key] = value
	}
}

func setObject(out map[string]any, key string, value map[string]any) {
	if len(value) > 0 {
		out[key] = value
	}
}

func text(obj map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(obj, path...)
	return s
}

// object returns the map at path, never nil, not to be written to.
func object(obj map[string]any, path ...string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj, path...)
	if m, ok := value.(map[string]any); ok {
		return m
	}
	return map[string]any{}
}

// list returns the slice at path, never nil, not to be written to.
func list(obj map[string]any, path ...string) []any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj, path...)
	if l, ok := value.([]any); ok {
		return l
	}
	return []any{}
}

// named turns a list of name and value pairs into an object.
func named(pairs []any) map[string]any {
	out := map[string]any{}
	for _, pair := range pairs {
		if p, ok := pair.(map[string]any); ok {
			if name, ok := p["name"].(string); ok {
				out[name] = p["value"]
			}
		}
	}
	return out
}

// condition says whether the status has the condition as True.
func condition(obj map[string]any, conditionType string) bool {
	return slices.ContainsFunc(list(obj, "status", "conditions"), func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == conditionType && m["status"] == "True"
	})
}
