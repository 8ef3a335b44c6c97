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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/setup"
	"github.com/berth-dev/berth/test/framework"
)

var (
	clusterProfile = schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"}
	karmadaCluster = schema.GroupVersionKind{Group: "cluster.karmada.io", Version: "v1alpha1", Kind: "Cluster"}
	site           = schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Site"}
	// rack is declared, and its definition comes later than the policies.
	rack = schema.GroupVersionKind{Group: "dc.example.com", Version: "v1", Kind: "Rack"}
)

// configuration declares the inventories that Berth does not know.
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
`

var f *framework.Framework

func TestInventories(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Inventories")
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
	path := filepath.Join(GinkgoT().TempDir(), "manager.yaml")
	Expect(os.WriteFile(path, []byte(configuration), 0o600)).To(Succeed())
	operator := f.StartReadyManager(ctx, func(o *setup.Options) { o.Config = path })
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
