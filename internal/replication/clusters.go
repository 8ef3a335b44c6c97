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

package replication

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClusterProfiles are the objects of SIG Multicluster that represent clusters.
var ClusterProfiles = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}

// known lists the built-in inventories, in the order in which messages name them, each with the function that reads the fields in which
// they differ: ClusterProfile (SIG Multicluster), ManagedCluster (Open Cluster Management), Cluster (Karmada), and MemberCluster
// (KubeFleet), which has an item for v1 and, after it, one for v1beta1. The fields are those of the published schemas.
var known = []inventory{
	{resource: schema.GroupVersionResource{Group: ClusterProfiles.Group, Version: "v1alpha1", Resource: ClusterProfiles.Resource},
		read: readClusterProfile},
	{resource: schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"},
		read: readManagedCluster, clusterScoped: true},
	{resource: schema.GroupVersionResource{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"},
		read: readKarmadaCluster, clusterScoped: true},
	{resource: schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1", Resource: "memberclusters"},
		read: readMemberCluster, clusterScoped: true},
	{resource: schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"},
		read: readMemberCluster, clusterScoped: true},
}

// Claims of Open Cluster Management that set fields of the normal form. The platform is one of the reserved names of
// its API; its distributions set the region.
const (
	claimPlatform = "platform.open-cluster-management.io"
	claimRegion   = "region.open-cluster-management.io"
)

// readClusterProfile sets the fields of the normal form (out) that a ClusterProfile of SIG Multicluster (obj) has: properties, version,
// ready (the condition ControlPlaneHealthy), and provider, the cluster manager; region and zones from its labels.
func readClusterProfile(obj, out map[string]any) {
	out["properties"] = named(list(obj, "status", "properties"))
	out["ready"] = condition(obj, "ControlPlaneHealthy")
	set(out, "version", text(obj, "status", "version", "kubernetes"))
	set(out, "provider", text(obj, "spec", "clusterManager", "name"))
	regionFromLabels(out)
}

// readManagedCluster sets the fields of the normal form (out) that a ManagedCluster of Open Cluster Management (obj) has: properties, which
// are its claims, ready (the condition ManagedClusterConditionAvailable), version, capacity, and allocatable; provider from a claim, region
// and zones from its labels, or region from a claim.
func readManagedCluster(obj, out map[string]any) {
	claims := named(list(obj, "status", "clusterClaims"))
	out["properties"] = claims
	out["ready"] = condition(obj, "ManagedClusterConditionAvailable")
	set(out, "provider", text(claims, claimPlatform))
	set(out, "version", text(obj, "status", "version", "kubernetes"))
	setObject(out, "capacity", object(obj, "status", "capacity"))
	setObject(out, "allocatable", object(obj, "status", "allocatable"))
	regionFromLabels(out)
	if _, found := out["region"]; !found {
		set(out, "region", text(claims, claimRegion))
	}
}

// readKarmadaCluster sets the fields of the normal form (out) that a Cluster of Karmada (obj) has: ready (the condition Ready), version,
// provider, allocatable, and allocated, in which the pods that wait to be scheduled also count; region and zones from its spec or, if they
// are not there, from its labels.
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
	// Karmada's own estimator subtracts both the scheduled pods and those that wait to be scheduled.
	setObject(out, "allocated", sum(object(obj, "status", "resourceSummary", "allocated"),
		object(obj, "status", "resourceSummary", "allocating")))
	regionFromLabels(out)
}

// readMemberCluster sets the fields of the normal form (out) that a MemberCluster of KubeFleet (obj) has: properties, ready (the condition
// Joined, whether or not the agent still reports), capacity, allocatable, and allocated, which is allocatable minus available; region and
// zones from its labels. There is no version.
func readMemberCluster(obj, out map[string]any) {
	properties := map[string]any{}
	for name, property := range object(obj, "status", "properties") {
		if p, ok := property.(map[string]any); ok {
			properties[name] = p["value"]
		}
	}
	out["properties"] = properties
	// Whether the cluster's agent still reports depends on the current time, which is not available here.
	out["ready"] = condition(obj, "Joined")
	setObject(out, "capacity", object(obj, "status", "resourceUsage", "capacity"))
	setObject(out, "allocatable", object(obj, "status", "resourceUsage", "allocatable"))
	setObject(out, "allocated", difference(object(obj, "status", "resourceUsage", "allocatable"),
		object(obj, "status", "resourceUsage", "available")))
	regionFromLabels(out)
}

// regionFromLabels sets region, and zones to a list of one, of a normal form (out) from topology.kubernetes.io/region and
// topology.kubernetes.io/zone in its field labels, each unless it is set, or the label is missing.
func regionFromLabels(out map[string]any) {
	labels, _ := out["labels"].(map[string]any)
	if _, found := out["region"]; !found {
		region, _ := labels["topology.kubernetes.io/region"].(string)
		set(out, "region", region)
	}
	if _, found := out["zones"]; found {
		return
	}
	if zone, _ := labels["topology.kubernetes.io/zone"].(string); zone != "" {
		out["zones"] = []any{zone}
	}
}

// set sets a member unless the value is empty.
func set(out map[string]any, key, value string) {
	if value != "" {
		out[key] = value
	}
}

// setObject sets a member unless the object has no members.
func setObject(out map[string]any, key string, value map[string]any) {
	if len(value) > 0 {
		out[key] = value
	}
}

// text returns the string at a path of an object; "" if there is none.
func text(obj map[string]any, at ...string) string { return path(at).text(obj) }

// object returns the map at a path of an object, which must not be changed; an empty one if there is none.
func object(obj map[string]any, at ...string) map[string]any { return path(at).object(obj) }

// list returns the slice at a path of an object, which must not be changed; an empty one if there is none.
func list(obj map[string]any, at ...string) []any { return path(at).list(obj) }

// named converts a list of objects with the members name and value to a map from the names to the values. It skips items without a name. Of
// several with the same name, the last one counts.
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

// condition reports whether status.conditions of an object has a condition of the type with status True. It is false for any other status,
// and without the condition.
func condition(obj map[string]any, conditionType string) bool {
	return slices.ContainsFunc(list(obj, "status", "conditions"), func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == conditionType && m["status"] == "True"
	})
}

// readinessTaints are the keys of the taints by which fleet managers mark clusters that do not report, or whose API server they do not
// reach. Karmada 1.18.2 sets them with the effect NoSchedule (pkg/controllers/cluster/cluster_controller.go), and Open Cluster Management
// with NoSelect (pkg/registration/hub/taint/controller.go). KubeFleet sets none.
var readinessTaints = []string{
	"cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable",
	"cluster.open-cluster-management.io/unavailable", "cluster.open-cluster-management.io/unreachable",
}

// MarksUnready reports whether a taint with a key and an effect is one by which a fleet manager marks clusters that are not ready: the key
// is one of Karmada's or Open Cluster Management's for that, and the effect is NoSchedule or NoSelect. The same key with another effect,
// such as NoExecute, means that workloads have to leave.
func MarksUnready(key, effect string) bool {
	return (effect == "NoSchedule" || effect == "NoSelect") && slices.Contains(readinessTaints, key)
}
