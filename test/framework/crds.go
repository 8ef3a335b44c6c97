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

package framework

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// The definitions that other projects publish, in a file for each. They are not part of the repository. The variable comes
// before the directory, which is beside the repository's.
const (
	definitionsVariable  = "BERTH_TEST_CRDS"
	definitionsDirectory = "../shared/crds"
)

// PublishedCRD returns the definition that another project publishes, from a file such as openreports.io_reports.yaml. ok is
// false if the file does not exist.
func PublishedCRD(file string) (crd *apiextensionsv1.CustomResourceDefinition, ok bool) {
	ginkgo.GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv(definitionsVariable), filepath.Join(moduleRoot(), definitionsDirectory)), file))
	if err != nil {
		return nil, false
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	gomega.Expect(yaml.Unmarshal(text, out)).To(gomega.Succeed())
	return out, true
}

// Definition is a kind of another project.
type Definition struct {
	schema.GroupVersionKind
	// File is the file with the published definition, as for PublishedCRD.
	File   string
	Plural string
	Scope  apiextensionsv1.ResourceScope
	// Status reports whether the kind has a status subresource.
	Status bool
}

// Install installs the published definition. If there is none, it installs one that takes any fields, so the specs then show
// less: nothing validates what Berth writes.
func (d Definition) Install(ctx context.Context, f *Framework) {
	ginkgo.GinkgoHelper()
	crd, published := PublishedCRD(d.File)
	if !published {
		crd = NewCRD(d.Group, d.Version, d.Plural, d.Kind, d.Scope)
		version := &crd.Spec.Versions[0]
		version.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
		if !d.Status {
			version.Subresources = nil
		}
		ginkgo.AddReportEntry("Stand-in for the definition", crd.Name, ginkgo.ReportEntryVisibilityFailureOrVerbose)
	}
	f.InstallCRD(ctx, crd)
}

// Uninstall removes the definition, and with it all objects.
func (d Definition) Uninstall(ctx context.Context, f *Framework) {
	ginkgo.GinkgoHelper()
	f.UninstallCRD(ctx, d.Plural+"."+d.Group)
}

// Definitions of the kinds by which multi-cluster systems place objects.
var (
	KarmadaPolicies = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"},
		File:             "policy.karmada.io_propagationpolicies.yaml", Plural: "propagationpolicies", Scope: apiextensionsv1.NamespaceScoped,
	}
	KarmadaClusterPolicies = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "ClusterPropagationPolicy"},
		File:             "policy.karmada.io_clusterpropagationpolicies.yaml", Plural: "clusterpropagationpolicies",
		Scope: apiextensionsv1.ClusterScoped,
	}
	// KarmadaWorks are the objects by which Karmada carries workloads to single clusters.
	KarmadaWorks = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "work.karmada.io", Version: "v1alpha1", Kind: "Work"},
		File:             "work.karmada.io_works.yaml", Plural: "works", Scope: apiextensionsv1.NamespaceScoped, Status: true,
	}
	KubeFleetPlacements = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourcePlacement"},
		File:             "placement.kubernetes-fleet.io_resourceplacements.yaml", Plural: "resourceplacements",
		Scope: apiextensionsv1.NamespaceScoped, Status: true,
	}
	// KubeFleetWorks are the objects by which KubeFleet carries workloads to single clusters.
	KubeFleetWorks = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "Work"},
		File:             "placement.kubernetes-fleet.io_works.yaml", Plural: "works", Scope: apiextensionsv1.NamespaceScoped, Status: true,
	}
	MulticlusterDecisions = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "PlacementDecision"},
		File:             "multicluster.x-k8s.io_placementdecisions.yaml", Plural: "placementdecisions", Scope: apiextensionsv1.NamespaceScoped,
	}
	AddOnPlacementScores = Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1alpha1", Kind: "AddOnPlacementScore"},
		File:             "0000_05_clusters.open-cluster-management.io_addonplacementscores.crd.yaml", Plural: "addonplacementscores",
		Scope: apiextensionsv1.NamespaceScoped, Status: true,
	}
)
