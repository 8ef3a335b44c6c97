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

package hostile_test

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

const (
	denyForbidden = `errors contains "forbidden content" if input.data.forbidden`
	finalizer     = "example.com/hold"
)

// serverSideApply applies an object as `kubectl apply --server-side` does.
func serverSideApply(ctx context.Context, object *unstructured.Unstructured) error {
	GinkgoHelper()
	body, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.ApplyPatchType, body), client.FieldOwner("attacker"), client.ForceOwnership)
}

func mergePatch(ctx context.Context, object *unstructured.Unstructured, patch string) error {
	return f.Client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// createTerminating creates a ConfigMap and deletes it, so that its finalizer holds it. The finalizer is removed after the spec.
func createTerminating(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	object.SetFinalizers([]string{finalizer})
	Expect(f.Client.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(mergePatch(ctx, object, `{"metadata": {"finalizers": null}}`))).To(Succeed())
	})
	Expect(f.Client.Delete(ctx, object.DeepCopy())).To(Succeed())
}

func violations(ctx context.Context, policy string) (placementv1.PlacementPolicyStatus, error) {
	p, err := f.Policy(ctx, policy)
	if err != nil {
		return placementv1.PlacementPolicyStatus{}, err
	}
	return p.Status, nil
}

var _ = Describe("An object that says that it is being deleted", func() {
	It("is denied when server-side apply creates it", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(denyForbidden), "", "configmaps", namespace))
		for i, timestamp := range []string{"2030-01-01T00:00:00Z", "2020-01-01T00:00:00Z"} {
			object := framework.NewObject(framework.ConfigMap, namespace, fmt.Sprintf("forged-%d", i), nil)
			object.Object["data"] = map[string]any{"forbidden": "yes"}
			Expect(unstructured.SetNestedField(object.Object, timestamp, "metadata", "deletionTimestamp")).To(Succeed())
			Expect(serverSideApply(ctx, object)).To(MatchError(ContainSubstring("forbidden content")))
			_, err := f.Get(ctx, framework.ConfigMap, namespace, object.GetName())
			Expect(apierrors.IsNotFound(err)).To(BeTrue())
		}
	})

	It("gets what policies decide when server-side apply creates it", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("label"), framework.Rego(`labels["zone"] := "eu"`), "", "configmaps", namespace))
		object := framework.NewObject(framework.ConfigMap, namespace, "forged", nil)
		object.SetLabels(map[string]string{"zone": "mine"})
		Expect(unstructured.SetNestedField(object.Object, "2030-01-01T00:00:00Z", "metadata", "deletionTimestamp")).To(Succeed())
		Expect(serverSideApply(ctx, object)).To(Succeed())
		Expect(f.Get(ctx, framework.ConfigMap, namespace, "forged")).To(HaveField("GetLabels()", HaveKeyWithValue("zone", "eu")))
	})

	It("is denied content while a finalizer holds it", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("deny"), framework.Rego(denyForbidden), "", "configmaps", namespace))
		object := framework.NewObject(framework.ConfigMap, namespace, "held", nil)
		createTerminating(ctx, object)
		for _, patch := range []string{
			`{"data": {"forbidden": "yes"}}`,
			`{"data": {"forbidden": "yes"}, "metadata": {"finalizers": null}}`,
			`{"data": {"forbidden": "yes"}, "metadata": {"deletionTimestamp": null}}`,
		} {
			Expect(mergePatch(ctx, object, patch)).To(MatchError(ContainSubstring("forbidden content")))
		}
		forged := framework.NewObject(framework.ConfigMap, namespace, "held", nil)
		forged.Object["data"] = map[string]any{"forbidden": "yes"}
		Expect(serverSideApply(ctx, forged)).To(MatchError(ContainSubstring("forbidden content")))
		Expect(f.Get(ctx, framework.ConfigMap, namespace, "held")).To(HaveField("Object", Not(HaveKey("data"))))
	})

	It("is reported where it violates, is not patched, and may be finished off", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		violating, fine := framework.NewObject(framework.ConfigMap, namespace, "violating", nil), framework.NewObject(framework.ConfigMap, namespace, "fine", nil)
		violating.Object["data"] = map[string]any{"forbidden": "yes"}
		relabeled := framework.NewObject(framework.ConfigMap, namespace, "relabeled", nil)
		relabeled.SetLabels(map[string]string{"zone": "mine"})
		for _, object := range []*unstructured.Unstructured{violating, fine, relabeled} {
			createTerminating(ctx, object)
		}
		p := framework.NewPolicy(framework.NewName("deny"), framework.Rego(denyForbidden, `labels["zone"] := "eu" if input.metadata.labels.zone`), "", "configmaps", namespace)
		f.CreateReadyPolicy(ctx, p)
		Eventually(violations).WithContext(ctx).WithArguments(p.Name).Should(And(
			HaveField("Matched", HaveValue(BeEquivalentTo(3))), HaveField("Violations", HaveValue(BeEquivalentTo(2))),
			HaveField("ViolationSample", ConsistOf(
				And(HaveField("Object", placementv1.ObjectReference("configmaps "+namespace+"/relabeled")), HaveField("Message", ContainSubstring("being deleted"))),
				And(HaveField("Object", placementv1.ObjectReference("configmaps "+namespace+"/violating")), HaveField("Message", ContainSubstring("forbidden content"))),
			)),
		))
		versions := func(ctx context.Context) []string {
			var out []string
			for _, object := range []*unstructured.Unstructured{violating, fine, relabeled} {
				stored, err := f.Get(ctx, framework.ConfigMap, namespace, object.GetName())
				Expect(err).NotTo(HaveOccurred())
				out = append(out, stored.GetResourceVersion())
			}
			return out
		}
		Consistently(versions).WithContext(ctx).Should(Equal(versions(ctx)))
		var told corev1.EventList
		Expect(f.Client.List(ctx, &told, client.InNamespace(namespace))).To(Succeed())
		Expect(told.Items).NotTo(ContainElement(HaveField("Reason", events.RemediationFailed.Reason)))

		Expect(mergePatch(ctx, violating, `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]}}`)).To(Succeed())
		Expect(mergePatch(ctx, violating, `{"metadata": {"finalizers": null}}`)).To(Succeed())
		_, err := f.Get(ctx, framework.ConfigMap, namespace, "violating")
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
	})

	It("is charged to a quota when server-side apply creates it", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyQuota(ctx, framework.NewScopedQuota(namespace, "none", placementv1.QuotaSpec{Hard: framework.Hard("pods", "0")}))
		pod := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"namespace": namespace, "name": "forged", "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": int64(0)},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "registry.example/c:1"}}},
		}}
		Expect(serverSideApply(ctx, pod)).To(framework.BeForbidden("exceeded quota: none"))
	})
})
