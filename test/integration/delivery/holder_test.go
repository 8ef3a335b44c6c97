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
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/test/framework"
)

// rival is a PropagationPolicy of Karmada, or a ClusterPropagationPolicy if it has no namespace. Its methods play Karmada's resource
// detector: as seen with Karmada 1.18.2, it writes the policy that it chose for an object into the object, before it creates the
// ResourceBinding, and chooses again if the API server refuses that. It reads policies from a cache, which may not have the newest ones.
type rival struct{ namespace, name string }

func (r rival) metadata() (labels, annotations map[string]string) {
	if r.namespace == "" {
		return map[string]string{"clusterpropagationpolicy.karmada.io/permanent-id": r.name + "-id"},
			map[string]string{"clusterpropagationpolicy.karmada.io/name": r.name}
	}
	return map[string]string{"propagationpolicy.karmada.io/permanent-id": r.name + "-id"},
		map[string]string{"propagationpolicy.karmada.io/namespace": r.namespace, "propagationpolicy.karmada.io/name": r.name}
}

// put adds the metadata of the policy to an object.
func (r rival) put(o *unstructured.Unstructured) {
	labels, annotations := r.metadata()
	for name, value := range labels {
		Expect(unstructured.SetNestedField(o.Object, value, "metadata", "labels", name)).To(Succeed())
	}
	for name, value := range annotations {
		Expect(unstructured.SetNestedField(o.Object, value, "metadata", "annotations", name)).To(Succeed())
	}
}

// take makes the policy the holder of an object.
func (r rival) take(ctx context.Context, o *unstructured.Unstructured) error {
	live, err := f.Get(ctx, framework.Deployment, o.GetNamespace(), o.GetName())
	if err != nil {
		return err
	}
	r.put(live)
	return f.Client.Update(ctx, live)
}

// release makes the policy the holder of an object no longer.
func (r rival) release(ctx context.Context, o *unstructured.Unstructured) error {
	live, err := f.Get(ctx, framework.Deployment, o.GetNamespace(), o.GetName())
	if err != nil {
		return err
	}
	labels, annotations := r.metadata()
	for name := range labels {
		unstructured.RemoveNestedField(live.Object, "metadata", "labels", name)
	}
	for name := range annotations {
		unstructured.RemoveNestedField(live.Object, "metadata", "annotations", name)
	}
	return f.Client.Update(ctx, live)
}

var _ = Describe("A policy of Karmada that also selects an object", func() {
	beRefused := func(holder string) OmegaMatcher {
		return And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring("delivers the object, so that "+holder+" can't deliver it in Karmada, too")))
	}

	DescribeTable("never becomes the holder of an object that Berth delivers", func(ctx SpecContext, cluster bool) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		other, kind := rival{name: "catch-all"}, clusterPolicy.Kind
		holder := kind + " catch-all"
		if !cluster {
			other, kind = rival{namespace: namespace, name: "by-label"}, propagationPolicy.Kind
			holder = kind + " " + namespace + "/by-label"
		}
		before := deploy(ctx, namespace, "before")
		Expect(other.take(ctx, before)).To(Succeed())
		p := fl.policy(toKarmada, namespace)
		f.CreateReadyPolicy(ctx, p)

		By("refusing new objects, whether or not Berth's policy exists already")
		web := deploy(ctx, namespace, "web")
		Expect(other.take(ctx, web)).To(beRefused(holder))
		Eventually(only).WithContext(ctx).WithArguments(propagationPolicy, namespace, "web").
			Should(HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("priority", BeEquivalentTo(2147483647)))))
		Expect(other.take(ctx, web)).To(beRefused(holder))
		own := rival{namespace: namespace, name: delivery.NameOf(delivery.ObjectOf(web))}
		Expect(own.take(ctx, web)).To(Succeed())
		Expect(other.take(ctx, web)).To(beRefused(holder))

		By("refusing it while Berth's policy is gone")
		Expect(own.release(ctx, web)).To(Succeed())
		Expect(other.take(ctx, web)).To(beRefused(holder))

		By("refusing objects that are created with it, also with its ID alone")
		copied := framework.NewObject(framework.Deployment, namespace, "copied", nil)
		other.put(copied)
		Expect(f.Client.Create(ctx, copied)).To(beRefused(holder))
		copied.SetAnnotations(nil)
		Expect(f.Client.Create(ctx, copied)).To(beRefused("another " + kind))

		By("keeping what it holds already, and what others say of that")
		Expect(other.take(ctx, before)).To(Succeed())
		annotate := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/note":"a"}}}`))
		Expect(f.Client.Patch(ctx, before, annotate)).To(Succeed())
		Eventually(deliveredCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonDeliveryFailed, holder+" holds the placed object in Karmada"))
		Eventually(compliantCondition).WithContext(ctx).WithArguments(p.Name).
			Should(framework.BeCondition(metav1.ConditionFalse, placementv1.ReasonNotDelivered, namespace+"/before: "+holder+" holds the placed object in Karmada", "delete "+holder+", or change it"))
	},
		Entry("a PropagationPolicy", false),
		Entry("a ClusterPropagationPolicy", true),
	)

	DescribeTable("becomes the holder of an object that Berth does not deliver", func(ctx SpecContext, change func(*placementv1.PlacementPolicy)) {
		fl, namespace := newFleet(ctx, "a"), f.NewNamespace(ctx, nil)
		p := fl.policy(toKarmada, namespace)
		change(p)
		f.CreateReadyPolicy(ctx, p)
		Expect(rival{name: "catch-all"}.take(ctx, deploy(ctx, namespace, "web"))).To(Succeed())
	},
		Entry("because the policy is not enforced", func(p *placementv1.PlacementPolicy) { p.Spec.Mode = placementv1.ModeWarn }),
		Entry("because the policy delivers to another system", func(p *placementv1.PlacementPolicy) {
			p.Spec.Delivery = &placementv1.Delivery{KubeFleet: &placementv1.KubeFleetDelivery{}}
		}),
		Entry("because no policy decides its clusters", func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = fmt.Sprintf(`package deliver

annotations[%q] := "yes" if { input }`, "example.com/seen")
		}),
	)
})
