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

package delivery_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// goldenDirectory has what Render returns, in a file for each case, and the objects of a file in the order in which they are applied.
var goldenDirectory = filepath.Join("..", "..", "..", "internal", "delivery", "testdata")

// goldenFiles returns the golden files whose names match a pattern.
func goldenFiles(pattern string) []string {
	files, err := filepath.Glob(filepath.Join(goldenDirectory, pattern))
	if err != nil || len(files) == 0 {
		panic("no golden files match " + pattern)
	}
	return files
}

// readGolden returns the objects of a golden file in another namespace. They do not have the label by which the manager knows what it
// delivered: it would delete them, because the objects that they place do not exist.
func readGolden(file, namespace string) []*unstructured.Unstructured {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(text), "---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict([]byte(document), &object.Object)).To(Succeed())
		if object.GetNamespace() != "" {
			object.SetNamespace(namespace)
		}
		labels := object.GetLabels()
		delete(labels, placementv1.DeliveredLabel)
		object.SetLabels(labels)
		objects = append(objects, object)
	}
	return objects
}

// applyGolden applies an object and then its status, as the controller does. The API server refuses fields that it does not know.
func applyGolden(ctx context.Context, object *unstructured.Unstructured) error {
	strict := client.WithFieldValidation(f.Client, "Strict")
	body, status := object.DeepCopy(), object.DeepCopy()
	delete(body.Object, "status")
	if err := strict.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner("golden"), client.ForceOwnership); err != nil {
		return err
	}
	return applyStatus(ctx, status)
}

// applyStatus applies the status of an object, if it has one.
func applyStatus(ctx context.Context, object *unstructured.Unstructured) error {
	if object.Object["status"] == nil {
		return nil
	}
	only := &unstructured.Unstructured{Object: map[string]any{"status": object.Object["status"]}}
	only.SetGroupVersionKind(object.GroupVersionKind())
	only.SetNamespace(object.GetNamespace())
	only.SetName(object.GetName())
	only.SetResourceVersion(object.GetResourceVersion())
	return client.WithFieldValidation(f.Client, "Strict").Status().
		Apply(ctx, client.ApplyConfigurationFromUnstructured(only), client.FieldOwner("golden"), client.ForceOwnership)
}

// skipUnlessPublished skips specs that tell nothing if the API server takes any fields.
func skipUnlessPublished() {
	GinkgoHelper()
	for _, d := range definitions {
		if _, published := framework.PublishedCRD(d.File); !published {
			Skip("the published definition " + d.File + " is not on this machine")
		}
	}
}

var _ = Describe("Golden objects of delivery", func() {
	BeforeEach(skipUnlessPublished)

	// The cases of a system have objects of the same names. Each one is applied over the objects of the one before, so that
	// the API server also accepts the changes between them.
	for _, system := range []string{"karmada", "kubeFleet", "placementDecision", "openClusterManagement"} {
		It("are accepted for "+system, func(ctx SpecContext) {
			namespace := f.NewNamespace(ctx, nil)
			for _, file := range goldenFiles(system + "-*.yaml") {
				for _, object := range readGolden(file, namespace) {
					Expect(applyGolden(ctx, object)).To(Succeed(), "%s: %s %s", file, object.GetKind(), object.GetName())
					DeferCleanup(func(ctx SpecContext) {
						Expect(client.IgnoreNotFound(f.Client.Delete(ctx, object))).To(Succeed())
					})
				}
			}
		})
	}

	// native is a kind whose objects are placed by their own status.
	type native struct {
		files string
		spec  map[string]any
	}
	DescribeTable("are accepted as the status of", func(ctx SpecContext, n native) {
		for _, file := range goldenFiles(n.files) {
			namespace := f.NewNamespace(ctx, nil)
			objects := readGolden(file, namespace)
			last := objects[len(objects)-1]

			By("refusing to create the placed object")
			Expect(applyStatus(ctx, last)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))

			By("refusing to change another version of it")
			placed := framework.NewObject(last.GroupVersionKind(), namespace, last.GetName(), nil)
			placed.Object["spec"] = n.spec
			Expect(f.Client.Create(ctx, placed)).To(Succeed())
			last.SetResourceVersion(placed.GetResourceVersion() + "1")
			Expect(applyStatus(ctx, last)).To(MatchError(apierrors.IsConflict, "IsConflict"))

			last.SetResourceVersion(placed.GetResourceVersion())
			for _, object := range objects[:len(objects)-1] {
				Expect(applyGolden(ctx, object)).To(Succeed(), "%s: %s %s", file, object.GetKind(), object.GetName())
			}
			Expect(applyStatus(ctx, last)).To(Succeed(), file)
		}
	},
		Entry("Placements of Open Cluster Management", native{"native-placement-*.yaml", map[string]any{}}),
		Entry("Workloads of Kueue", native{"native-workload-*.yaml", map[string]any{
			"podSets": []any{map[string]any{
				"name": "main", "count": int64(1),
				"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/train"}}}},
			}},
		}}),
	)
})
