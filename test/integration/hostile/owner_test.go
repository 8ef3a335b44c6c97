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
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A ReplicaSet that claims a controller", func() {
	var namespace string

	// The suite's policies place ReplicaSets and leave Deployments alone, so that what is kept and what is placed differ.
	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("place"), framework.Rego(`scheduling.nodeSelector.disk := "ssd"`), "apps", "replicasets", namespace))
	})

	withDisk := func(object *unstructured.Unstructured, disk string) *unstructured.Unstructured {
		GinkgoHelper()
		Expect(unstructured.SetNestedField(object.Object, disk, "spec", "template", "spec", "nodeSelector", "disk")).To(Succeed())
		return object
	}
	newDeployment := func(ctx context.Context, namespace, name string) *unstructured.Unstructured {
		GinkgoHelper()
		out := withDisk(framework.NewObject(framework.Deployment, namespace, name, nil), "hdd")
		Expect(f.Client.Create(ctx, out)).To(Succeed())
		return out
	}
	// newReplicaSet is what the deployment controller makes of a Deployment.
	newReplicaSet := func(deployment *unstructured.Unstructured) *unstructured.Unstructured {
		GinkgoHelper()
		out := framework.NewObject(framework.ReplicaSet, namespace, deployment.GetName()+"-1", nil)
		template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
		Expect(err).NotTo(HaveOccurred())
		labels := maps.Clone(template["metadata"].(map[string]any)["labels"].(map[string]any))
		labels["pod-template-hash"] = "1"
		template["metadata"].(map[string]any)["labels"] = labels
		out.Object["spec"] = map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": labels}, "template": template}
		out.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.GetName(), UID: deployment.GetUID(), Controller: new(true), BlockOwnerDeletion: new(true),
		}})
		return out
	}
	disk := func(ctx context.Context, name string) (string, error) {
		set, err := f.Get(ctx, framework.ReplicaSet, namespace, name)
		if err != nil {
			return "", err
		}
		out, _, err := unstructured.NestedString(set.Object, "spec", "template", "spec", "nodeSelector", "disk")
		return out, err
	}

	It("is placed where the claim is forged", func(ctx SpecContext) {
		deployment := newDeployment(ctx, namespace, "web")
		far := newDeployment(ctx, f.NewNamespace(ctx, nil), "far")
		config := framework.NewObject(framework.ConfigMap, namespace, "web", nil)
		Expect(f.Client.Create(ctx, config)).To(Succeed())
		reference := func(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
			return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}
		}
		for name, owner := range map[string]metav1.OwnerReference{
			"configmap":       reference("v1", "ConfigMap", config.GetName(), config.GetUID()),
			"nonexistent":     reference("apps/v1", "Deployment", "none", "00000000-0000-0000-0000-000000000000"),
			"other-uid":       reference("apps/v1", "Deployment", "web", far.GetUID()),
			"other-namespace": reference("apps/v1", "Deployment", "far", far.GetUID()),
			"other-group":     reference("example.com/v1", "Deployment", "web", deployment.GetUID()),
			"other-version":   reference("apps/v9", "Deployment", "web", deployment.GetUID()),
			"parent":          reference("apps/v1", "Deployment", "..", deployment.GetUID()),
			"subresource":     reference("apps/v1", "Deployment", "web/scale", deployment.GetUID()),
			"escaped":         reference("apps/v1", "Deployment", "web%2Fscale", deployment.GetUID()),
		} {
			set := newReplicaSet(deployment)
			set.SetName(name)
			set.SetOwnerReferences([]metav1.OwnerReference{owner})
			Expect(f.Client.Create(ctx, set)).To(Succeed(), name)
			Expect(disk(ctx, name)).To(Equal("ssd"), name)
		}
		other := withDisk(newReplicaSet(deployment), "tape")
		Expect(f.Client.Create(ctx, other)).To(Succeed())
		Expect(disk(ctx, other.GetName())).To(Equal("ssd"), "another template")
	})

	It("keeps the template of its Deployment through rollouts", func(ctx SpecContext) {
		deployment := newDeployment(ctx, namespace, "web")
		set := newReplicaSet(deployment)
		Expect(f.Client.Create(ctx, set)).To(Succeed())
		Expect(disk(ctx, set.GetName())).To(Equal("hdd"))

		By("scaling it down after the Deployment got another template")
		Expect(unstructured.SetNestedField(deployment.Object, "nvme", "spec", "template", "spec", "nodeSelector", "disk")).To(Succeed())
		Expect(f.Client.Update(ctx, deployment)).To(Succeed())
		Expect(unstructured.SetNestedField(set.Object, int64(1), "spec", "replicas")).To(Succeed())
		set.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": "1"})
		Expect(f.Client.Update(ctx, set)).To(Succeed())
		Expect(disk(ctx, set.GetName())).To(Equal("hdd"))

		By("giving it a template that no revision had")
		Expect(f.Client.Update(ctx, withDisk(set, "tape"))).To(Succeed())
		Expect(disk(ctx, set.GetName())).To(Equal("ssd"))
	})

	It("is placed by remediation where the claim is forged", func(ctx SpecContext) {
		quiet := f.NewNamespace(ctx, nil)
		deployment := newDeployment(ctx, quiet, "web")
		set := newReplicaSet(deployment)
		set.SetNamespace(quiet)
		set.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "u", Controller: new(true)}})
		Expect(f.Client.Create(ctx, set)).To(Succeed())
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("place"), framework.Rego(`scheduling.nodeSelector.disk := "ssd"`), "apps", "replicasets", quiet))
		Eventually(f.Get).WithContext(ctx).WithArguments(framework.ReplicaSet, quiet, set.GetName()).
			Should(HaveField("Object", HaveKeyWithValue("spec", HaveKeyWithValue("template", HaveKeyWithValue("spec", HaveKeyWithValue("nodeSelector", HaveKeyWithValue("disk", "ssd")))))))
	})
})
