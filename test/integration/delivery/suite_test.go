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

// Package delivery_test shows on a real API server that the objects of multi-cluster systems follow the decisions of policies.
package delivery_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/test/framework"
)

var (
	propagationPolicy        = schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"}
	clusterPropagationPolicy = schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "ClusterPropagationPolicy"}
	placementDecision        = schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "PlacementDecision"}
	resourcePlacement        = schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourcePlacement"}
	ocmPlacement             = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "Placement"}
	workload                 = schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"}
	ocmDecision              = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "PlacementDecision"}
)

// definition is the definition of a kind: the file that its project publishes, and what the kind is called.
type definition struct {
	file string
	schema.GroupVersionKind
	plural string
	scope  apiextensionsv1.ResourceScope
}

// installed are the definitions that all specs have. Karmada's are installed and removed by the specs.
var (
	karmada = []definition{
		{"policy.karmada.io_propagationpolicies.yaml", propagationPolicy, "propagationpolicies", apiextensionsv1.NamespaceScoped},
		{"policy.karmada.io_clusterpropagationpolicies.yaml", clusterPropagationPolicy, "clusterpropagationpolicies", apiextensionsv1.ClusterScoped},
	}
	installed = []definition{
		{"placement.kubernetes-fleet.io_resourceplacements.yaml", resourcePlacement, "resourceplacements", apiextensionsv1.NamespaceScoped},
		{"placement.kubernetes-fleet.io_clusterresourceplacements.yaml", schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ClusterResourcePlacement"}, "clusterresourceplacements", apiextensionsv1.ClusterScoped},
		{"multicluster.x-k8s.io_placementdecisions.yaml", placementDecision, "placementdecisions", apiextensionsv1.NamespaceScoped},
		{"0000_02_clusters.open-cluster-management.io_placements.crd.yaml", ocmPlacement, "placements", apiextensionsv1.NamespaceScoped},
		{"0000_03_clusters.open-cluster-management.io_placementdecisions.crd.yaml", ocmDecision, "placementdecisions", apiextensionsv1.NamespaceScoped},
		{"kueue.x-k8s.io_workloads.yaml", workload, "workloads", apiextensionsv1.NamespaceScoped},
	}
)

var (
	f        *framework.Framework
	operator *framework.Manager
	patches  *framework.Patches
)

func TestDelivery(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Delivery")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallClusterProfiles(ctx)
	for _, d := range append(installed, karmada...) {
		d.install(ctx)
	}
	f.MustKubectl(ctx, "", "apply", "-f", "config/rbac/delivery")
	// No controller aggregates ClusterRoles here.
	for _, system := range []string{"karmada", "kubefleet", "placementdecision", "openclustermanagement", "kueue"} {
		role := "berth-delivery-" + system
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", role, "--clusterrole="+role, "--serviceaccount="+framework.OperatorNamespace+":berth-controller-manager")
	}
	patches = f.RecordPatches()
	operator = f.StartReadyManager(ctx)
	DeferCleanup(func() { operator.Stop() })
	f.AwaitValidation(ctx)
})

// install installs a definition: the published one, or one that takes any fields.
func (d definition) install(ctx context.Context) {
	GinkgoHelper()
	crd, published := framework.PublishedCRD(d.file)
	if !published {
		crd = framework.NewCRD(d.Group, d.Version, d.plural, d.Kind, d.scope)
		version := &crd.Spec.Versions[0]
		version.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
		if d.Group != ocmDecision.Group && d.Group != workload.Group {
			version.Subresources = nil
		}
		AddReportEntry("CRD of this suite", crd.Name, ReportEntryVisibilityFailureOrVerbose)
	}
	f.InstallCRD(ctx, crd)
}

// uninstall removes a definition, and with it all objects.
func (d definition) uninstall(ctx context.Context) {
	GinkgoHelper()
	f.UninstallCRD(ctx, d.plural+"."+d.Group)
}
