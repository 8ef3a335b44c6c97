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

package policyvalidator_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/webhooks/policyvalidator"
)

// systems is a catalog that serves some types to be delivered, and the kinds of systems.
type systems struct {
	catalog
	// kinds are the resources of systems that are served.
	kinds []string
	// unknown reports whether the served types are not known.
	unknown bool
}

func (s *systems) Exact(resource schema.GroupVersionResource) (policy.Resource, bool) {
	return policy.Resource{GroupVersionResource: resource}, slices.Contains(s.kinds, resource.Resource)
}

func (s *systems) Served() *match.ServedTypes {
	if s.unknown {
		return nil
	}
	of := func(group, version, plural, kind string, namespaced bool) match.ServedType {
		return match.ServedType{
			GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
			Kind:                 kind, Singular: strings.ToLower(kind), Namespaced: namespaced,
		}
	}
	return match.NewServedTypes([]match.ServedType{
		of("apps", "v1", "deployments", "Deployment", true), of("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
		of("example.com", "v1", "carts", "Cart", true), of("example.com", "v1", "fleets", "Fleet", false),
		of("cluster.open-cluster-management.io", "v1beta1", "placements", "Placement", true),
	})
}

func TestKindsOfSystemsThatAreNotServed(t *testing.T) {
	karmada, fleet := &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}, &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}
	decision := &placementv1.Delivery{PlacementDecision: &placementv1.PlacementDecisionDelivery{}}
	ocm := &placementv1.Delivery{OpenClusterManagement: &placementv1.OpenClusterManagementDelivery{}}
	rule := func(group, version string, resources ...string) placementv1.ResourceRule {
		return placementv1.ResourceRule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources}
	}
	namespaced, clusterScoped := rule("apps", "v1", "deployments"), rule("storage.k8s.io", "v1", "storageclasses")
	placements := rule("cluster.open-cluster-management.io", "v1beta1", "placements")
	const own, both, onlyClusterScoped = "propagationpolicies", "propagationpolicies,clusterpropagationpolicies", "clusterpropagationpolicies"
	of := func(kind, subject string) string {
		return "the API server does not serve " + kind + ".policy.karmada.io in version v1alpha1: " + subject + " is delivered to Karmada before its CRDs are installed"
	}
	for name, tc := range map[string]struct {
		delivery *placementv1.Delivery
		rules    []placementv1.ResourceRule
		served   string
		unknown  bool
		want     string
	}{
		"namespaced objects, all kinds":                    {karmada, []placementv1.ResourceRule{namespaced}, both, false, ""},
		"namespaced objects, their kind":                   {karmada, []placementv1.ResourceRule{namespaced}, own, false, ""},
		"namespaced objects, the other kind":               {karmada, []placementv1.ResourceRule{namespaced}, onlyClusterScoped, false, of("propagationpolicies", "nothing")},
		"namespaced objects, no kind":                      {karmada, []placementv1.ResourceRule{namespaced}, "", false, of("propagationpolicies", "nothing")},
		"cluster-scoped objects, their kind":               {karmada, []placementv1.ResourceRule{clusterScoped}, onlyClusterScoped, false, ""},
		"cluster-scoped objects, the other kind":           {karmada, []placementv1.ResourceRule{clusterScoped}, own, false, of("clusterpropagationpolicies", "nothing")},
		"both, all kinds":                                  {karmada, []placementv1.ResourceRule{namespaced, clusterScoped}, both, false, ""},
		"both, the namespaced kind":                        {karmada, []placementv1.ResourceRule{namespaced, clusterScoped}, own, false, of("clusterpropagationpolicies", "no cluster-scoped object")},
		"both, the cluster-scoped kind":                    {karmada, []placementv1.ResourceRule{namespaced, clusterScoped}, onlyClusterScoped, false, of("propagationpolicies", "no namespaced object")},
		"both, no kind":                                    {karmada, []placementv1.ResourceRule{namespaced, clusterScoped}, "", false, of("propagationpolicies", "nothing")},
		"a wildcard for both":                              {karmada, []placementv1.ResourceRule{rule("example.com", "v1", "*")}, own, false, of("clusterpropagationpolicies", "no cluster-scoped object")},
		"a wildcard for namespaced objects":                {karmada, []placementv1.ResourceRule{rule("apps", "*", "*")}, own, false, ""},
		"placement objects have a system of their own":     {karmada, []placementv1.ResourceRule{placements, clusterScoped}, onlyClusterScoped, false, ""},
		"an unserved type counts for neither":              {karmada, []placementv1.ResourceRule{namespaced, rule("example.com", "v1", "ships")}, own, false, ""},
		"no type is known, one kind":                       {karmada, []placementv1.ResourceRule{namespaced}, onlyClusterScoped, true, ""},
		"no type is known, no kind":                        {karmada, []placementv1.ResourceRule{namespaced}, "", true, of("propagationpolicies", "nothing")},
		"KubeFleet, namespaced":                            {fleet, []placementv1.ResourceRule{namespaced}, "resourceplacements", false, ""},
		"KubeFleet, cluster-scoped":                        {fleet, []placementv1.ResourceRule{clusterScoped}, "clusterresourceplacements", false, ""},
		"a system without a kind for cluster-scoped":       {decision, []placementv1.ResourceRule{clusterScoped}, "placementdecisions", false, "the policy matches only cluster-scoped types, and the objects of SIG Multicluster are namespaced: nothing is delivered to SIG Multicluster. Match namespaced types, or remove this field"},
		"a system without a kind for some objects, served": {decision, []placementv1.ResourceRule{namespaced, clusterScoped}, "placementdecisions", false, ""},
		"two kinds for namespaced objects, one is missing": {ocm, []placementv1.ResourceRule{namespaced}, "placements", false, "the API server does not serve placementdecisions.cluster.open-cluster-management.io in version v1beta1: nothing is delivered to Open Cluster Management before its CRDs are installed"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{
				Catalog: &systems{kinds: strings.Split(tc.served, ","), unknown: tc.unknown}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}},
			}
			p := newPolicy(`package p
clusters := {"a"}
`)
			p.Spec.Mode, p.Spec.Delivery, p.Spec.Match.ResourceRules = placementv1.ModeEnforce, tc.delivery, tc.rules
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				if _, text, ok := strings.Cut(w, ": "); ok && strings.HasPrefix(w, "spec.delivery.") {
					got = append(got, text)
				}
			}
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeliveryOfRules checks the warnings about spec.delivery that the rules of a policy give nothing for.
func TestDeliveryOfRules(t *testing.T) {
	for name, tc := range map[string]struct {
		rules    string
		divideBy placementv1.DivisionBasis
		want     []string
	}{
		"NoClusters": {rules: "[{name: a, warn: w}]", want: []string{"spec.delivery: no rule gives clusters, so the policy delivers only objects to which other policies give clusters"}},
		"NoWeights": {rules: "[{name: a, limit: 1}]", divideBy: placementv1.DivideByWeight,
			want: []string{"spec.delivery.replicas.divideBy: no rule gives weights, so that each cluster has the weight 1. Set weights: Score in a rule with prefer, or divideBy: Even"}},
		"Weights": {rules: "[{name: a, prefer: [{field: region, operator: Exists, weight: 1}], weights: Score}]", divideBy: placementv1.DivideByWeight},
		"Even":    {rules: "[{name: a, limit: 1}]", divideBy: placementv1.DivideEvenly},
		"WeightsEven": {rules: "[{name: a, prefer: [{field: region, operator: Exists, weight: 1}], weights: Score}]", divideBy: placementv1.DivideEvenly,
			want: []string{"spec.rules[0].weights: no replicas are divided by the weights: spec.delivery.replicas.divideBy is Even. Set spec.delivery.replicas: {divideBy: Weight}, or remove weights"}},
		"WeightsWithoutReplicas": {rules: "[{name: a, prefer: [{field: region, operator: Exists, weight: 1}], weights: Score}]",
			want: []string{"spec.rules[0].weights: no replicas are divided by the weights: spec.delivery.replicas is not set, so that each cluster gets all replicas. " +
				"Set spec.delivery.replicas: {divideBy: Weight}, or remove weights"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy("")
			if err := yaml.UnmarshalStrict([]byte(tc.rules), &p.Spec.Rules); err != nil {
				t.Fatal(err)
			}
			p.Spec.Mode, p.Spec.Delivery = placementv1.ModeEnforce, &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
			if tc.divideBy != "" {
				p.Spec.Delivery.Replicas = &placementv1.ReplicaDivision{DivideBy: tc.divideBy}
			}
			v := &policyvalidator.Validator{Catalog: &inventories{}, Checker: allows()}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if diff := cmp.Diff(tc.want, []string(warnings)); diff != "" || err != nil {
				t.Errorf("error %v, warnings (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDeliveryWithoutEffect(t *testing.T) {
	const placing, labeling = `package p
clusters := {"a"}
`, `package p
labels := {"a": "b"}
`
	for name, tc := range map[string]struct {
		mode placementv1.Mode
		rego string
		want []string
	}{
		"Enforced": {placementv1.ModeEnforce, placing, nil},
		"Default":  {"", placing, nil},
		"DryRun":   {placementv1.ModeDryRun, placing, []string{"spec.delivery has no effect in mode DryRun: nothing is delivered before mode is Enforce"}},
		"Warn":     {placementv1.ModeWarn, placing, []string{"spec.delivery has no effect in mode Warn: nothing is delivered before mode is Enforce"}},
		"NoClusters": {
			placementv1.ModeEnforce, labeling, []string{"spec.delivery: the policy has no Rego rule named clusters, so the policy delivers only objects to which other policies give clusters"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := &policyvalidator.Validator{
				Catalog: &systems{kinds: []string{"propagationpolicies", "clusterpropagationpolicies"}}, Checker: allows(), Scales: definitions{resources: []string{"deployments"}},
			}
			p := newPolicy(tc.rego)
			p.Spec.Mode, p.Spec.Delivery = tc.mode, &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
			warnings, err := v.ValidateCreate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				if strings.HasPrefix(w, "spec.delivery") {
					got = append(got, w)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
