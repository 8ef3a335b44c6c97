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

// Package inventories_test shows on a real API server what policies see of the clusters of
// every inventory, and how predicates judge them.
package inventories_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	karmadaCluster = schema.GroupVersionKind{Group: "cluster.karmada.io", Version: "v1alpha1", Kind: "Cluster"}
	site           = schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Site"}
	// rack is declared, and its definition comes later than the policies.
	rack = schema.GroupVersionKind{Group: "dc.example.com", Version: "v1", Kind: "Rack"}

	propagationPolicy = schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"}
	resourcePlacement = schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourcePlacement"}
	placementDecision = schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "PlacementDecision"}
	// rollout is a placement that is declared.
	rollout = schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Rollout"}
)

// configuration declares the inventories and placements that Berth does not know.
const configuration = `
apiVersion: config.berth.dev/v1alpha1
kind: ManagerConfiguration
inventories:
- group: fleet.example.com
  version: v1
  resource: sites
  fields:
    name: spec.cluster
    properties: status.facts
    taints: spec.taints
    region: spec.location.region
    zones: spec.location.halls
    provider: metadata.annotations['fleet.example.com/vendor']
    version: status.kubernetes
    capacity: status.resources.total
    allocatable: status.resources.usable
    available: status.resources.free
    ready: {field: status.online}
- group: dc.example.com
  version: v1
  resource: racks
  fields:
    ready: {condition: Powered}
clusterSources:
- group: multicluster.x-k8s.io
  resource: clusterprofiles
  selector: {matchExpressions: [{key: example.com/mirrored, operator: DoesNotExist}]}
- {group: cluster.open-cluster-management.io, resource: managedclusters}
- {group: cluster.karmada.io, resource: clusters}
- {group: cluster.kubernetes-fleet.io, resource: memberclusters}
- {group: fleet.example.com, resource: sites}
- {group: dc.example.com, resource: racks}
- {group: fleet.example.com, resource: sites, selector: {matchLabels: {example.com/fleet: misspelt}}}
placements:
- {group: fleet.example.com, resource: rollouts, kind: Rollout, path: .spec.clusters}
`

// configurationFile is the path of the configuration.
var configurationFile string

var f *framework.Framework

func TestInventories(t *testing.T) {
	suite.Run(t, "Inventories")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallCRD(ctx, framework.NewCRD("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile", apiextensionsv1.NamespaceScoped))
	f.InstallCRD(ctx, framework.NewCRD("cluster.open-cluster-management.io", "v1", "managedclusters", "ManagedCluster", apiextensionsv1.ClusterScoped))
	members := framework.NewCRD("cluster.kubernetes-fleet.io", "v1", "memberclusters", "MemberCluster", apiextensionsv1.ClusterScoped)
	beta := *members.Spec.Versions[0].DeepCopy()
	beta.Name, beta.Storage = "v1beta1", false
	members.Spec.Versions = append(members.Spec.Versions, beta)
	f.InstallCRD(ctx, members)
	f.InstallCRD(ctx, framework.NewCRD(karmadaCluster.Group, karmadaCluster.Version, "clusters", karmadaCluster.Kind, apiextensionsv1.ClusterScoped))
	f.InstallCRD(ctx, framework.NewCRD(site.Group, site.Version, "sites", site.Kind, apiextensionsv1.ClusterScoped))
	Expect(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}})).To(Succeed())
	f.InstallCRD(ctx, framework.NewCRD(rollout.Group, rollout.Version, "rollouts", rollout.Kind, apiextensionsv1.NamespaceScoped))
	for _, d := range []framework.Definition{framework.KarmadaPolicies, framework.KubeFleetPlacements, framework.MulticlusterDecisions} {
		d.Install(ctx, f)
	}
	f.InstallPlugin(ctx)
	configurationFile = filepath.Join(GinkgoT().TempDir(), "manager.yaml")
	Expect(os.WriteFile(configurationFile, []byte(configuration), 0o600)).To(Succeed())
	operator := f.StartReadyManager(ctx, func(o *setup.Options) { o.Config = configurationFile })
	DeferCleanup(operator.Stop)
	f.AwaitValidation(ctx)
})

// golden is where the objects of the inventories and their normal forms are.
var golden = filepath.Join("..", "..", "..", "internal", "replication", "testdata")

// createFleet creates the objects of all inventories, until the spec ends, and returns their normal forms by the clusters'
// names.
func createFleet(ctx context.Context) map[string]any {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(golden, "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	want := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		obj := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(text, &obj.Object)).To(Succeed())
		create(ctx, obj)
		text, err = os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".golden.json")
		Expect(err).NotTo(HaveOccurred())
		var cluster map[string]any
		Expect(json.Unmarshal(text, &cluster)).To(Succeed())
		want[cluster["name"].(string)] = cluster
	}
	return want
}

// create creates an object with its status until the spec ends.
func create(ctx context.Context, obj *unstructured.Unstructured) {
	GinkgoHelper()
	if obj.Object["status"] == nil {
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
	} else {
		f.CreateWithStatus(ctx, obj)
	}
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(f.Client.Delete(ctx, obj))).To(Succeed())
	})
}

// seen are the annotations that policies set on an object, by the part of the keys after the prefix.
func seen(ctx context.Context, obj client.Object, prefix string) (map[string]any, error) {
	asked := obj.DeepCopyObject().(client.Object)
	if err := f.Client.Create(ctx, asked, client.DryRunAll); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for key, text := range asked.GetAnnotations() {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			// Texts are stored as they are, and all else as its JSON.
			var value any
			if json.Unmarshal([]byte(text), &value) != nil {
				value = text
			}
			out[name] = value
		}
	}
	return out, nil
}

// kind is a kind of placement objects.
type kind struct {
	gvk schema.GroupVersionKind
	// path is the path of the field that has the clusters.
	path []string
	// asked is the field as the developer writes it, and the others are the field with the allowed cluster of two, with both,
	// with none, and restored. It is absent if it is empty. $a and $b stand for the clusters, of which policies allow $a first.
	asked, narrowed, both, cleared, restored string
}

// value decodes the field. The result is nil if it is absent.
func (k kind) value(text, namespace string) any {
	GinkgoHelper()
	text = strings.NewReplacer("$a", namespace+"-a", "$b", namespace+"-b").Replace(text)
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	var out any
	Expect(utiljson.Unmarshal(asJSON, &out)).To(Succeed())
	return out
}

// in returns the field in an object; nil if it is absent.
func (k kind) in(obj *unstructured.Unstructured) any {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, k.path...)
	return value
}

// object returns an object with the field as the developer writes it.
func (k kind) object(namespace, name string) *unstructured.Unstructured {
	GinkgoHelper()
	out := framework.NewObject(k.gvk, namespace, name, nil)
	switch k.gvk {
	case propagationPolicy:
		out.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}
	case resourcePlacement:
		out.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}}}
	}
	k.ask(out)
	return out
}

// ask sets the field as the developer writes it.
func (k kind) ask(obj *unstructured.Unstructured) {
	GinkgoHelper()
	if value := k.value(k.asked, obj.GetNamespace()); value != nil {
		Expect(unstructured.SetNestedField(obj.Object, value, k.path...)).To(Succeed())
	} else {
		unstructured.RemoveNestedField(obj.Object, k.path...)
	}
}

// karmadaPolicy returns a kind with the placements of PropagationPolicies.
func karmadaPolicy(asked, narrowed, both, cleared string) kind {
	return kind{propagationPolicy, []string{"spec", "placement"}, asked, narrowed, both, cleared, asked}
}

// fleetPlacement returns a kind with the policies of ResourcePlacements.
func fleetPlacement(asked, narrowed, both, cleared, restored string) kind {
	return kind{resourcePlacement, []string{"spec", "policy"}, asked, narrowed, both, cleared, restored}
}

// selected returns an affinity that selects clusters by their names.
func selected(names string) string {
	return `affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchExpressions: [{key: clusters.berth.dev/name, operator: In, values: [` + names + `]}]}}]}}}`
}
