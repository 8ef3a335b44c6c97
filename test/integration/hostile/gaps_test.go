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
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy on Pods that restricts their nodes", func() {
	ssd := map[string]string{"disk": "ssd"}
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("place"), framework.Rego(`scheduling.nodeSelector.disk := "ssd"`), "", "pods", namespace))
	})

	It("decides each Pod when it is created, whatever creates it", func(ctx SpecContext) {
		controlledBy := func(apiVersion, kind string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "u", Controller: new(true)}}
			}
		}
		for name, change := range map[string]func(*corev1.Pod){
			"a user":                       nil,
			"a user who selects a node":    func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} },
			"a ReplicaSet":                 controlledBy("apps/v1", "ReplicaSet"),
			"a StatefulSet":                controlledBy("apps/v1", "StatefulSet"),
			"a DaemonSet":                  controlledBy("apps/v1", "DaemonSet"),
			"a Job":                        controlledBy("batch/v1", "Job"),
			"a ReplicationController":      controlledBy("v1", "ReplicationController"),
			"a controller that is no type": controlledBy("example.com/v1", "Workflow"),
		} {
			pod := framework.NewPod(namespace, "", change)
			Expect(f.Client.Create(ctx, pod)).To(Succeed(), name)
			Expect(pod.Spec.NodeSelector).To(Equal(ssd), name)
		}
	})

	// docs/security.md says so. The policy of docs/rules.md closes the gap.
	It("does not see that a Pod names its node, which another policy can deny", func(ctx SpecContext) {
		named := func(p *corev1.Pod) { p.Spec.NodeName = "n1" }
		before := framework.NewPod(namespace, "before", named)
		Expect(f.Client.Create(ctx, before)).To(Succeed())
		Expect(before.Spec.NodeSelector).To(Equal(ssd))
		bound := framework.NewPod(namespace, "bound", nil)
		Expect(f.Client.Create(ctx, bound)).To(Succeed())

		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "examples", "node-name.yaml"))
		Expect(err).NotTo(HaveOccurred())
		p := &placementv1.PlacementPolicy{}
		Expect(yaml.UnmarshalStrict(text, p)).To(Succeed())
		p.Name = framework.NewName("node-name")
		p.Spec.Match.NamespaceSelector = framework.NewPolicy("", "", "", "", namespace).Spec.Match.NamespaceSelector
		f.CreateReadyPolicy(ctx, p)
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "after", named))).To(framework.BeForbidden("spec.nodeName bypasses the scheduler"))
		Expect(f.Client.Create(ctx, framework.NewPod(namespace, "free", nil))).To(Succeed())
		By("leaving alone what the scheduler and others do with Pods")
		Expect(f.Client.SubResource("binding").Create(ctx, bound, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}})).To(Succeed())
		for _, pod := range []*corev1.Pod{before, bound} {
			Expect(f.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`)))).To(Succeed())
		}
	})
})
