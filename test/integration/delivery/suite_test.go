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
	"testing"

	. "github.com/onsi/ginkgo/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	propagationPolicy = framework.KarmadaPolicies.GroupVersionKind
	placementDecision = framework.MulticlusterDecisions.GroupVersionKind
	resourcePlacement = framework.KubeFleetPlacements.GroupVersionKind
	clusterPolicy     = framework.KarmadaClusterPolicies.GroupVersionKind
	clusterPlacement  = schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ClusterResourcePlacement"}
	resourceBinding   = bindings.GroupVersionKind
	ocmPlacement      = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "Placement"}
	managedCluster    = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}
	ocmDecision       = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "PlacementDecision"}
)

// bindings is the definition of Karmada's reports.
var bindings = framework.Definition{
	GroupVersionKind: schema.GroupVersionKind{Group: "work.karmada.io", Version: "v1alpha2", Kind: "ResourceBinding"},
	File:             "work.karmada.io_resourcebindings.yaml", Plural: "resourcebindings", Scope: apiextensionsv1.NamespaceScoped, Status: true,
}

// manifestWork is the definition of the objects by which ManifestWorkReplicaSets carry workloads to single clusters.
var manifestWork = framework.Definition{
	GroupVersionKind: schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"},
	File:             "0000_00_work.open-cluster-management.io_manifestworks.crd.yaml", Plural: "manifestworks", Scope: apiextensionsv1.NamespaceScoped, Status: true,
}

// definitions are the definitions that the specs need.
var definitions = []framework.Definition{
	framework.KarmadaPolicies, framework.KarmadaClusterPolicies, framework.KubeFleetPlacements, framework.MulticlusterDecisions, bindings, framework.KarmadaWorks, framework.KubeFleetWorks, manifestWork,
	{
		GroupVersionKind: clusterPlacement,
		File:             "placement.kubernetes-fleet.io_clusterresourceplacements.yaml", Plural: "clusterresourceplacements", Scope: apiextensionsv1.ClusterScoped, Status: true,
	},
	{
		GroupVersionKind: managedCluster,
		File:             "0000_00_clusters.open-cluster-management.io_managedclusters.crd.yaml", Plural: "managedclusters", Scope: apiextensionsv1.ClusterScoped, Status: true,
	},
	{
		GroupVersionKind: ocmPlacement,
		File:             "0000_02_clusters.open-cluster-management.io_placements.crd.yaml", Plural: "placements", Scope: apiextensionsv1.NamespaceScoped, Status: true,
	},
	{
		GroupVersionKind: ocmDecision,
		File:             "0000_03_clusters.open-cluster-management.io_placementdecisions.crd.yaml", Plural: "placementdecisions", Scope: apiextensionsv1.NamespaceScoped, Status: true,
	},
	{
		GroupVersionKind: schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"},
		File:             "kueue.x-k8s.io_workloads.yaml", Plural: "workloads", Scope: apiextensionsv1.NamespaceScoped, Status: true,
	},
}

var (
	f        *framework.Framework
	operator *framework.Manager
	patches  *framework.Patches
)

func TestDelivery(t *testing.T) {
	suite.Run(t, "Delivery")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallClusterProfiles(ctx)
	for _, d := range definitions {
		d.Install(ctx, f)
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
