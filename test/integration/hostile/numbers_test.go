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
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A number that no float64 holds", func() {
	DescribeTable("stays what the developer wrote, and remediation settles", func(ctx SpecContext, seconds int64) {
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("tolerates"), framework.Rego(`scheduling.tolerations := [{"key": "placed", "operator": "Exists"}]`), "apps", "deployments", namespace)
		p.Spec.Remediation = placementv1.Remediation{Mode: placementv1.RemediationAutomatic}
		f.CreateReadyPolicy(ctx, p)
		// As text: a client may lose the number itself.
		body := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},
			"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"a"}],
			"tolerations":[{"key":"own","operator":"Exists","effect":"NoExecute","tolerationSeconds":%d}]}}}}`, seconds)
		f.MustKubectl(ctx, body, "create", "--raw", "/apis/apps/v1/namespaces/"+namespace+"/deployments", "-f", "-")
		own := map[string]any{"key": "own", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
		tolerations := func(ctx SpecContext) ([]any, error) {
			object, err := f.Get(ctx, deployment, namespace, "web")
			if err != nil {
				return nil, err
			}
			list, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "tolerations")
			return list, err
		}
		placed := map[string]any{"key": "placed", "operator": "Exists"}
		Expect(tolerations(ctx)).To(Equal([]any{own, placed}))

		f.ChangePolicy(ctx, p.Name, func(p *placementv1.PlacementPolicy) {
			p.Spec.Rego = strings.Replace(p.Spec.Rego, "placed", "moved", 1)
		})
		Eventually(tolerations).WithContext(ctx).Should(Equal([]any{own, map[string]any{"key": "moved", "operator": "Exists"}}))
		version := func(ctx SpecContext) (string, error) {
			object, err := f.Get(ctx, deployment, namespace, "web")
			if err != nil {
				return "", err
			}
			return object.GetResourceVersion(), nil
		}
		settled, err := version(ctx)
		Expect(err).NotTo(HaveOccurred())
		Consistently(version).WithContext(ctx).Should(Equal(settled))
	},
		Entry("between two of them", int64(9007199254740993)),
		Entry("beyond the largest of them that is an int64", int64(9223372036854775807)),
	)

	DescribeTable("is stored as without a policy where the API server passes on what it gets", func(ctx SpecContext, number string) {
		namespace := f.NewNamespace(ctx, nil)
		path := "/apis/apps/v1/namespaces/" + namespace + "/controllerrevisions"
		create := func(name string) {
			GinkgoHelper()
			f.MustKubectl(ctx, `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"`+name+`"},"revision":1,"data":{"number":`+number+`}}`, "create", "--raw", path, "-f", "-")
		}
		create("before")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("labels"), framework.Rego(`labels := {"placed": "yes"}`), "apps", "controllerrevisions", namespace))
		create("after")
		data := func(name string) string {
			GinkgoHelper()
			_, text, _ := strings.Cut(f.MustKubectl(ctx, "", "get", "--raw", path+"/"+name), `"data":`)
			text, _, _ = strings.Cut(text, "}")
			return text
		}
		Expect(f.MustKubectl(ctx, "", "get", "--raw", path+"/after")).To(ContainSubstring(`"placed":"yes"`))
		Expect(data("after")).To(Equal(data("before")))
	},
		Entry("beyond int64", "9223372036854775808"),
		Entry("with a fraction that is written out", "1.0"),
	)
})
