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
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/growth"
)

var deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// affordable is more processor time than all of a request takes, in the operator and in this test's client. Each attack
// took more than half a minute.
const affordable = 15 * time.Second

// processorTime is what this process has taken, the operator in it included.
func processorTime() time.Duration {
	GinkgoHelper()
	return growth.ProcessorTime(GinkgoTB())
}

// fromText is an object of a JSON text, in a namespace.
func fromText(namespace, text string) *unstructured.Unstructured {
	GinkgoHelper()
	out := &unstructured.Unstructured{}
	Expect(json.Unmarshal([]byte(text), &out.Object)).To(Succeed())
	out.SetNamespace(namespace)
	return out
}

// items are the items of a JSON list.
func items(n int, item func(i int) string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = item(i)
	}
	return strings.Join(out, ",")
}

var _ = Describe("The cost of one request", func() {
	// labelKeys is a Pod of 2.3 MB whose annotation looks like a record.
	labelKeys := func(namespace string) *unstructured.Unstructured {
		out := fromText(namespace, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"keys"},"spec":{"containers":[{"name":"a","image":"a"}],
			"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",
			"matchLabelKeys":[`+items(130000, func(i int) string { return fmt.Sprintf(`"k%d"`, i) })+`],
			"labelSelector":{"matchExpressions":[`+items(40000, func(int) string { return `{"key":"x","operator":"In"}` })+`]}}]}}`)
		out.SetAnnotations(map[string]string{placementv1.RequestedAnnotation: `"scheduling":`})
		return out
	}

	It("does not grow by an annotation that looks like a record", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		// What the policy does not deny keeps the API server's own validation busy for a minute.
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("denies"), framework.Rego(`errors contains "not here" if input.metadata.name == "keys"`), "", "pods", namespace))
		start := processorTime()
		Expect(f.Client.Create(ctx, labelKeys(namespace), client.DryRunAll)).To(MatchError(ContainSubstring("not here")))
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
	})

	It("is bounded where a policy has to look at label keys", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("schedules"), framework.Rego(`scheduling.nodeSelector.disk := "ssd"`), "", "pods", namespace))
		start := processorTime()
		Expect(f.Client.Create(ctx, labelKeys(namespace), client.DryRunAll)).To(MatchError(
			ContainSubstring("spec.topologySpreadConstraints has more than 65536 values")))
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
	})

	It("does not grow with the square of the terms of an affinity", func(ctx SpecContext) {
		const wanted = `{"key":"zone","operator":"In","values":["a"]}`
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("affinity"), framework.Rego(
			`scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms := [{"matchExpressions": [`+wanted+`]}]`,
			`scheduling.tolerations := [{"key": "placed", "operator": "Exists"}]`), "apps", "deployments", namespace))
		object := fromText(namespace, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"terms"},"spec":{"replicas":0,
			"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"a"}],
			"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[`+
			items(3000, func(i int) string {
				return fmt.Sprintf(`{"matchExpressions":[`+wanted+`,{"key":"k%d","operator":"Exists"}]}`, i)
			})+`]}}}}}}}`)
		path := []string{"spec", "template", "spec", "affinity"}
		want, _, err := unstructured.NestedMap(object.Object, path...)
		Expect(err).NotTo(HaveOccurred())
		start := processorTime()
		Expect(f.Client.Create(ctx, object)).To(Succeed())
		Expect(processorTime() - start).To(BeNumerically("<", affordable))
		got, _, err := unstructured.NestedMap(object.Object, path...)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(want), "the policy's terms are there already")
		tolerations, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "tolerations")
		Expect(err).NotTo(HaveOccurred())
		Expect(tolerations).To(ConsistOf(map[string]any{"key": "placed", "operator": "Exists"}))
	})
})
