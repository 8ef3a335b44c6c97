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

package delivery

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
)

var karmadaVersion = schema.GroupVersion{Group: "policy.karmada.io", Version: "v1alpha1"}

var (
	propagationPolicy = Kind{
		GroupVersionResource: karmadaVersion.WithResource("propagationpolicies"),
		Kind:                 "PropagationPolicy",
		Namespaced:           true,
		Whole:                karmadaWhole,
		Others:               karmadaOthers,
		Recreatable:          true,
	}
	clusterPropagationPolicy = Kind{
		GroupVersionResource: karmadaVersion.WithResource("clusterpropagationpolicies"),
		Kind:                 "ClusterPropagationPolicy",
		Whole:                karmadaWhole,
		Others:               karmadaOthers,
		Recreatable:          true,
	}
)

// karmadaWhole and karmadaOthers are Kind.Whole and Kind.Others of the policies of Karmada. Most members of the placement choose among the
// clusters, or, like clusterAffinities, replace them. Karmada's webhook sets the tolerations.
const karmadaWhole, karmadaOthers = "spec.placement", "clusterTolerations"

// karmada delivers by PropagationPolicies that select the object by its name. Karmada still leaves out clusters with taints, and
// ignores the policy while another one holds the object.
var karmada = System{
	Name:        "karmada",
	Title:       "Karmada",
	ClusterRole: "berth-delivery-karmada",
	Kinds:       []Kind{propagationPolicy, clusterPropagationPolicy},
	heldBy:      karmadaHolder,
	takenBy:     karmadaTaker,
	isFree: func(object Object) bool {
		return object.Annotations[karmadaHolderName] == "" && object.Annotations[karmadaClusterHolder] == "" && object.Labels[karmadaClaim] == ""
	},
	render:    renderKarmada,
	reporter:  karmadaReporter,
	workKinds: karmadaWorks,
	carries:   carriedByKarmadaWork,
	carriedAs: karmadaBindingName,
}

// renderKarmada returns a PropagationPolicy, or a ClusterPropagationPolicy for a cluster-scoped object. For an empty decision, it names
// only a cluster that does not exist, so that Karmada removes the object from all clusters.
func renderKarmada(object Object, decision Decision, spec *placementv1.Delivery) ([]Delivered, error) {
	scheduling, err := karmadaReplicas(object, decision, spec.Replicas)
	if err != nil {
		return nil, err
	}
	kind := clusterPropagationPolicy
	selector := map[string]any{
		"apiVersion": object.GroupVersion().String(),
		"kind":       object.Kind,
		"name":       object.Name,
	}
	if object.Namespace != "" {
		kind = propagationPolicy
		selector["namespace"] = object.Namespace
	}
	clusters := decision.Clusters
	if len(clusters) == 0 {
		clusters = []string{clusterlist.NoCluster}
	}
	policy := newObject(kind, deliveredName(object), object)
	content := map[string]any{
		"resourceSelectors": []any{selector},
		"placement": map[string]any{
			"clusterAffinity":   map[string]any{"clusterNames": asList(clusters)},
			"replicaScheduling": scheduling,
		},
		// No policy of another client comes first when Karmada looks for the one that holds the object.
		"priority": int64(math.MaxInt32),
		// Karmada keeps what it should keep on deletion also in a cluster that the object leaves.
		"preserveResourcesOnDeletion": false,
	}
	// Karmada's webhook removes the field if it is false.
	if spec.Karmada.PropagateDependencies {
		content["propagateDeps"] = true
	}
	policy.Object["spec"] = content
	return []Delivered{{Kind: kind, Object: policy}}, nil
}

// The metadata by which Karmada says in a placed object which policy holds it, and the label of an object that Karmada does not propagate
// by policies.
const (
	karmadaHolderNamespace = "propagationpolicy.karmada.io/namespace"
	karmadaHolderName      = "propagationpolicy.karmada.io/name"
	karmadaHolderID        = "propagationpolicy.karmada.io/permanent-id"
	karmadaClusterHolder   = "clusterpropagationpolicy.karmada.io/name"
	karmadaClusterHolderID = "clusterpropagationpolicy.karmada.io/permanent-id"
	karmadaClaim           = "resourcetemplate.karmada.io/claimed-by"
)

// karmadaHolder returns the PropagationPolicy or ClusterPropagationPolicy of another client that Karmada follows for a placed object,
// according to the object's annotations, or what else keeps Karmada from following policies for it; "" for none. Karmada gives an object
// that no policy holds to a policy that exists then, and not to one that is created later.
func karmadaHolder(object Object) string {
	name := object.Annotations[karmadaHolderName]
	cluster := object.Annotations[karmadaClusterHolder]
	claim := object.Labels[karmadaClaim]
	switch own := deliveredName(object); {
	case claim == "MultiClusterService":
		return claim + " " + object.Namespace + "/" + object.Name
	case claim != "":
		return "the label " + karmadaClaim + "=" + claim
	case object.Namespace != "" && name != "" && name != own:
		return propagationPolicy.Kind + " " + object.Namespace + "/" + name
	case cluster != "" && (object.Namespace != "" && name == "" || object.Namespace == "" && cluster != own):
		return clusterPropagationPolicy.Kind + " " + cluster
	}
	return ""
}

// karmadaTaker returns the PropagationPolicy or ClusterPropagationPolicy of another client that an update of an object makes its holder; ""
// if it does not. Karmada itself makes such an update before it follows a policy. An update that removes the holder gives the object to no
// policy.
func karmadaTaker(before, after Object) string {
	set := func(values, old map[string]string, name string) bool {
		return values[name] != "" && values[name] != old[name]
	}
	own := deliveredName(after)
	namespace, name := after.Annotations[karmadaHolderNamespace], after.Annotations[karmadaHolderName]
	byName := set(after.Annotations, before.Annotations, karmadaHolderNamespace) ||
		set(after.Annotations, before.Annotations, karmadaHolderName) ||
		set(after.Labels, before.Labels, karmadaHolderID)
	if byName && (after.Namespace == "" || namespace != after.Namespace || name != own) {
		if name == "" {
			return "another " + propagationPolicy.Kind
		}
		return propagationPolicy.Kind + " " + namespace + "/" + name
	}
	cluster := after.Annotations[karmadaClusterHolder]
	byCluster := set(after.Annotations, before.Annotations, karmadaClusterHolder) || set(after.Labels, before.Labels, karmadaClusterHolderID)
	if byCluster && (after.Namespace != "" || cluster != own) {
		if cluster == "" {
			return "another " + clusterPropagationPolicy.Kind
		}
		return clusterPropagationPolicy.Kind + " " + cluster
	}
	return ""
}

// karmadaReplicas returns the field replicaScheduling of a policy of Karmada. If nothing is divided, each cluster gets all replicas. If
// Berth divides them, the static weights are the numbers of replicas. Karmada divides by Webster's method, before release 1.16 by the
// largest remainder. Both give each cluster its weight exactly if the weights add up to the replicas.
func karmadaReplicas(object Object, decision Decision, by *placementv1.ReplicaDivision) (map[string]any, error) {
	if by == nil || object.Replicas == nil || len(decision.Clusters) == 0 {
		return map[string]any{"replicaSchedulingType": "Duplicated"}, nil
	}
	var preference map[string]any
	var err error
	if by.DivideBy == placementv1.DivideByFreeCapacity {
		preference, err = karmadaDynamicWeight(decision)
	} else {
		preference, err = karmadaStaticWeights(object, decision, by)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"replicaSchedulingType":     "Divided",
		"replicaDivisionPreference": "Weighted",
		"weightPreference":          preference,
	}, nil
}

// karmadaDynamicWeight returns the field weightPreference for a division by free capacity. It returns an error if a policy gives a cluster
// a number of replicas.
func karmadaDynamicWeight(decision Decision) (map[string]any, error) {
	for _, name := range decision.Clusters {
		if decision.Shares[name].Replicas != nil {
			return nil, fmt.Errorf("the policy gives cluster %s %d replicas, but Karmada divides them by free capacity alone; "+
				"set spec.delivery.replicas.divideBy to Weight or Even, or let the policy give the cluster no number of replicas",
				name, *decision.Shares[name].Replicas)
		}
	}
	return map[string]any{"dynamicWeight": "AvailableReplicas"}, nil
}

// karmadaStaticWeights returns the field weightPreference for a division by Berth. It leaves out clusters without replicas, because a
// weight is at least 1, and Karmada does not create the object in these. An object that requests no replicas is created in all clusters. It
// returns an error if not all replicas can be divided.
func karmadaStaticWeights(object Object, decision Decision, by *placementv1.ReplicaDivision) (map[string]any, error) {
	replicas := divide(object, decision, by)
	requested, divided := max(*object.Replicas, 0), int64(0)
	var list []any
	for _, name := range decision.Clusters {
		weight := replicas[name]
		divided += weight
		if requested == 0 {
			weight = 1
		}
		if weight == 0 {
			continue
		}
		list = append(list, map[string]any{
			"targetCluster": map[string]any{"clusterNames": []any{name}},
			"weight":        weight,
		})
	}
	if divided != requested {
		return nil, fmt.Errorf("the clusters may get only %d of the %d replicas together, but Karmada can only deliver all of them; "+
			"raise spec.delivery.replicas.maxPerCluster, or let the policy give clusters a weight instead of a number of replicas",
			divided, requested)
	}
	return map[string]any{"staticWeightList": list}, nil
}
