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

package remediation_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// Where the inventories' published definitions are; specs that need one are skipped without it. The variable comes
// before the directory, which is beside the repository's.
const (
	definitionsVariable  = "BERTH_TEST_CRDS"
	definitionsDirectory = "../../../../shared/crds"
)

var _ = Describe("A workload whose policy's data is not there yet", func() {
	It("is refused with what is missing, and what exists is left alone until it comes", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		group := framework.NewName("late") + ".example.com"
		create(ctx, framework.ConfigMap, namespace, "before", map[string]string{tierKey: "lead"})
		before, err := versions(ctx, framework.ConfigMap, namespace)
		Expect(err).NotTo(HaveOccurred())
		plural := framework.NewName("docks")
		p := framework.NewPolicy(framework.NewName("late"), framework.Rego(
			fmt.Sprintf(`annotations[%q] := sprintf("%%d docks", [count(data.kubernetes[%q])])`, tierKey, plural),
		), "", "configmaps", namespace)
		f.CreatePolicy(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReplicated).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotServed, plural))
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "early", nil))
		}).WithContext(ctx).Should(MatchError(And(ContainSubstring(p.Name), ContainSubstring("data.kubernetes."+plural))))
		Consistently(versions).WithContext(ctx).WithArguments(framework.ConfigMap, namespace).Should(Equal(before))
		Expect(operator.Ready(ctx)).To(Succeed())

		By("staying so across a restart")
		stopOperator()
		startOperator(ctx)
		// The API server may still call the webhook where the operator of before listened.
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "early", nil))
		}).WithContext(ctx).Should(MatchError(ContainSubstring("data.kubernetes." + plural)))
		Expect(versions(ctx, framework.ConfigMap, namespace)).To(Equal(before))

		crd := framework.NewCRD(group, "v1", plural, "Dock"+strings.TrimPrefix(plural, "docks-"), apiextensionsv1.ClusterScoped)
		f.InstallCRD(ctx, crd)
		DeferCleanup(f.UninstallCRD, crd.Name)
		f.AwaitReady(ctx, p.Name)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "before", map[string]string{tierKey: "0 docks"})
		create(ctx, framework.ConfigMap, namespace, "late", nil)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "late", map[string]string{tierKey: "0 docks"})

		By("leaving everything alone when the type goes again")
		create(ctx, schema.GroupVersionKind{Group: group, Version: "v1", Kind: crd.Spec.Names.Kind}, "", "one", nil)
		expectAnnotations(ctx, framework.ConfigMap, namespace, "before", map[string]string{tierKey: "1 docks"})
		expectCompliant(ctx, p.Name)
		f.UninstallCRD(ctx, crd.Name)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReplicated).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotServed, plural))
		Eventually(func(ctx context.Context) error {
			return f.Client.Create(ctx, framework.NewObject(framework.ConfigMap, namespace, "too-late", nil))
		}).WithContext(ctx).Should(MatchError(ContainSubstring(plural)))
		Expect(stored(ctx, framework.ConfigMap, namespace, "late")).To(Or(
			Equal(map[string]string{tierKey: "1 docks"}),
			// The objects of a definition go before the type does: for a moment there are none, and that is the truth.
			Equal(map[string]string{tierKey: "0 docks"}),
		))
	})
})

var _ = Describe("The normal form of clusters", func() {
	// ready are the names of ready clusters in a region.
	ready := func(region string) string {
		return framework.Rego(
			fmt.Sprintf(`fit contains name if { some name, c in data.clusters; c.ready; c.region == %q }`, region),
			fmt.Sprintf(`annotations[%q] := concat("_", sort(fit))`, clustersKey),
		)
	}
	healthy := func(conditionType, status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{
			"type": conditionType, "status": status, "reason": "Spec", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}
	}

	It("is the same whichever inventory a cluster is in", func(ctx SpecContext) {
		namespace, region := f.NewNamespace(ctx, nil), framework.NewName("region")
		one, two := framework.NewName("profile"), framework.NewName("managed")
		fleet := newFleet(ctx, one)
		regionLabel := map[string]any{"metadata": map[string]any{"labels": map[string]any{"topology.kubernetes.io/region": region}}}
		merge(ctx, framework.ClusterProfile, fleet, one, regionLabel)
		onConfigMaps(ctx, "clusters", ready(region), namespace)
		create(ctx, framework.ConfigMap, namespace, "web", nil)
		expectClusters(ctx, namespace, "web", "")
		setStatus(ctx, framework.ClusterProfile, fleet, one, healthy("ControlPlaneHealthy", "True"))
		expectClusters(ctx, namespace, "web", one)

		managed := schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}
		directory, err := filepath.Abs(cmp.Or(os.Getenv(definitionsVariable), definitionsDirectory))
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(directory, "0000_00_clusters.open-cluster-management.io_managedclusters.crd.yaml")
		if _, err := os.Stat(file); err != nil {
			Skip(fmt.Sprintf("%v: %s names another directory", err, definitionsVariable))
		}
		f.MustKubectl(ctx, "", "apply", "--server-side", "-f", file)
		DeferCleanup(f.UninstallCRD, "managedclusters.cluster.open-cluster-management.io")
		By("noticing an inventory that is installed later")
		Eventually(func(ctx context.Context) error {
			obj := framework.NewObject(managed, "", two, nil)
			obj.SetLabels(map[string]string{"topology.kubernetes.io/region": region})
			obj.Object["spec"] = map[string]any{"hubAcceptsClient": true}
			return f.Client.Create(ctx, obj)
		}).WithContext(ctx).Should(Succeed())
		setStatus(ctx, managed, "", two, healthy("ManagedClusterConditionAvailable", "True"))
		// Names sort by their prefix: managed before profile.
		expectClusters(ctx, namespace, "web", two+"_"+one)
		setStatus(ctx, framework.ClusterProfile, fleet, one, healthy("ControlPlaneHealthy", "False"))
		expectClusters(ctx, namespace, "web", two)
		Expect(f.Client.Delete(ctx, framework.NewObject(managed, "", two, nil))).To(Succeed())
		expectClusters(ctx, namespace, "web", "")
	})
})

// setStatus replaces an object's conditions.
func setStatus(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, status map[string]any) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		obj, err := f.Get(ctx, gvk, namespace, name)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(obj.Object, status, "status"); err != nil {
			return err
		}
		return f.Client.Status().Update(ctx, obj)
	}).WithContext(ctx).Should(Succeed())
}
