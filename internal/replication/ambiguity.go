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
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Claim identifies an object of an inventory that represents a cluster: by its type, namespace, and name and, of a ClusterProfile, its
// cluster manager.
type Claim struct {
	Resource        schema.GroupResource
	Namespace, Name string
	// Manager is the cluster manager that a ClusterProfile names in its spec, and that the API server lets no client change; "" for other
	// objects.
	Manager string
}

// ClaimOf returns the claim of an object. Only for a ClusterProfile, it sets Manager, to the field ManagerField of the object's normal form
// (normal); for all other types, Manager is "".
func ClaimOf(resource schema.GroupResource, namespace, name string, normal map[string]any) Claim {
	out := Claim{Resource: resource, Namespace: namespace, Name: name}
	if resource == ClusterProfiles {
		out.Manager, _ = normal[ManagerField].(string)
	}
	return out
}

// ManagerField is the field of a ClusterProfile's normal form that has its cluster manager.
const ManagerField = "provider"

// String returns the resource type, the namespace, and the name, as in "clusterprofiles.multicluster.x-k8s.io eu/prod".
func (c Claim) String() string {
	if c.Namespace == "" {
		return c.Resource.String() + " " + c.Name
	}
	return c.Resource.String() + " " + c.Namespace + "/" + c.Name
}

// Claims has the objects that represent each cluster, keyed by the name of the cluster.
type Claims map[string][]Claim

// Add adds an object that represents the cluster of a name.
func (c Claims) Add(cluster string, claim Claim) {
	c[cluster] = append(c[cluster], claim)
}

// memberClusters are the objects of KubeFleet that represent clusters. For each, KubeFleet keeps a ClusterProfile of its name in the
// namespace derivedNamespace, which is KubeFleet's own (pkg/controllers/clusterinventory/clusterprofile of version 0.3.1, on by default).
// So every ClusterProfile there is taken for one that KubeFleet derived.
var memberClusters = schema.GroupResource{Group: "cluster.kubernetes-fleet.io", Resource: "memberclusters"}

const derivedNamespace = "fleet-system"

// ManagedClusters are the objects of Open Cluster Management that represent clusters. With the feature gate ClusterProfile, its
// registration keeps a ClusterProfile of the name, and with the manager openClusterManagement, in each namespace that has a
// ManagedClusterSetBinding (pkg/registration/hub/clusterprofile of commit 00f84c32b, after version 1.3.1).
var ManagedClusters = schema.GroupResource{Group: "cluster.open-cluster-management.io", Resource: "managedclusters"}

const openClusterManagement = "open-cluster-management"

// DerivedFrom returns the object from which a fleet manager derived the claim's ClusterProfile. ok is false if it is not derived. A
// ClusterProfile is derived if it is in KubeFleet's own namespace, or has the cluster manager of Open Cluster Management. Labels do not
// count, because users may set them in their own namespaces.
func (c Claim) DerivedFrom() (of Claim, ok bool) {
	switch {
	case c.Resource == ClusterProfiles && c.Namespace == derivedNamespace:
		return Claim{Resource: memberClusters, Name: c.Name}, true
	case c.Resource == ClusterProfiles && c.Manager == openClusterManagement:
		return Claim{Resource: ManagedClusters, Name: c.Name}, true
	}
	return Claim{}, false
}

// Counting returns the claims, of those on one cluster, that count. A ClusterProfile does not count if the object from which a fleet
// manager derived it is also among the claims, because it has fewer fields than that object. Otherwise it counts, even if several
// ClusterProfiles are derived from the same absent object.
func Counting(claims []Claim) []Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(claim Claim) bool {
		of, derived := claim.DerivedFrom()
		return derived && slices.Contains(claims, of)
	})
}

// Ambiguity is the name of a cluster for which several objects count. It may stand for one cluster that several fleet managers list, or for
// several clusters. Berth can't know which object is meant, so no policy may choose a cluster of that name.
type Ambiguity struct {
	Cluster string
	// Objects are the objects of that name that count: at least two, sorted by their texts.
	Objects []Claim
}

// Ambiguous returns the names of clusters for which several objects count, sorted.
func (c Claims) Ambiguous() []Ambiguity {
	var out []Ambiguity
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if counting := Counting(c[name]); len(counting) > 1 {
			byText := func(a, b Claim) int { return strings.Compare(a.String(), b.String()) }
			out = append(out, Ambiguity{Cluster: name, Objects: slices.SortedFunc(slices.Values(counting), byText)})
		}
	}
	return out
}

// MaxShown is the maximum number of ambiguous names that a message lists, and of the objects that it lists for each.
const MaxShown = 3

// String says which objects have the name of the cluster: "cluster prod is ambiguous: ... and ... have this name".
func (a Ambiguity) String() string { return "cluster " + a.Cluster + " " + a.Reason() }

// Reason returns String without the name of the cluster: "is ambiguous: ... and ... have this name".
func (a Ambiguity) Reason() string {
	shown := make([]string, 0, MaxShown+1)
	for _, object := range a.Objects[:min(len(a.Objects), MaxShown)] {
		shown = append(shown, object.String())
	}
	if more := len(a.Objects) - MaxShown; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("is ambiguous: %s have this name", strings.Join(shown, " and "))
}

// DescribeAmbiguities returns the texts of the first MaxShown ambiguities and, if there are more, the number of the others, separated by
// semicolons; "" for none.
func DescribeAmbiguities(all []Ambiguity) string {
	var texts []string
	for _, a := range all[:min(len(all), MaxShown)] {
		texts = append(texts, a.String())
	}
	if more := len(all) - MaxShown; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more are ambiguous", more))
	}
	return strings.Join(texts, "; ")
}
