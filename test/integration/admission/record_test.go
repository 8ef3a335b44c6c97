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

package admission_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

const wish = "example.com/zones"

// echo narrows the developer's wish to what is allowed, and shows what it was asked with.
const echo = `package placement

wanted := split(input.metadata.annotations["example.com/zones"], ",")

annotations["example.com/zones"] := concat(",", [z | some z in wanted; z in data.allowed]) if count(wanted) > 0

annotations["example.com/seen"] := object.get(input.metadata, ["annotations", "example.com/zones"], "none")
`

var _ = Describe("What the developer asked for", Label("versions"), func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		namespace = f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("echo"), echo, "", "configmaps", namespace)
		p.Spec.Data = jsonOf(`{"allowed":["a","b"]}`)
		f.CreateReadyPolicy(ctx, p)
	})

	object := func(name, zones string) *unstructured.Unstructured {
		return framework.NewObject(framework.ConfigMap, namespace, name, map[string]string{wish: zones})
	}
	expect := func(ctx SpecContext, name, zones, seen string) {
		GinkgoHelper()
		Expect(stored(ctx, framework.ConfigMap, namespace, name)).To(Equal(map[string]string{wish: zones, "example.com/seen": seen}))
	}
	write := func(ctx SpecContext, obj *unstructured.Unstructured, args ...string) {
		GinkgoHelper()
		f.MustKubectl(ctx, framework.Manifest(obj), append(args, "-f", "-")...)
	}

	DescribeTable("is kept when the manifest comes again, and replaced by a new one",
		func(ctx SpecContext, args ...string) {
			write(ctx, object("c", "a,z"), args...)
			expect(ctx, "c", "a", "a,z")
			write(ctx, object("c", "a,z"), args...)
			expect(ctx, "c", "a", "a,z")
			write(ctx, object("c", "b,z"), args...)
			expect(ctx, "c", "b", "b,z")
			// The policy's own value as the developer's new wish is one, too.
			write(ctx, object("c", "a,b"), args...)
			expect(ctx, "c", "a,b", "a,b")
			write(ctx, object("c", "a,z"), args...)
			expect(ctx, "c", "a", "a,z")
		},
		Entry("by kubectl apply", "apply"),
		Entry("by kubectl apply --server-side", "apply", "--server-side"),
	)

	It("is kept by kubectl replace of the manifest", func(ctx SpecContext) {
		write(ctx, object("c", "a,z"), "create")
		expect(ctx, "c", "a", "a,z")
		write(ctx, object("c", "a,z"), "replace")
		expect(ctx, "c", "a", "a,z")
		write(ctx, object("c", "b,y"), "replace")
		expect(ctx, "c", "b", "b,y")
	})

	It("is kept by kubectl replace of what kubectl get printed", func(ctx SpecContext) {
		write(ctx, object("c", "a,z"), "create")
		printed := f.MustKubectl(ctx, "", "get", "configmap", "c", "-n", namespace, "-o", "yaml")
		f.MustKubectl(ctx, printed, "replace", "-f", "-")
		expect(ctx, "c", "a", "a,z")
	})

	It("is kept by changes of other fields", func(ctx SpecContext) {
		write(ctx, object("c", "a,z"), "apply")
		f.MustKubectl(ctx, "", "annotate", "configmap", "c", "-n", namespace, "example.com/team=shop")
		f.MustKubectl(ctx, "", "patch", "configmap", "c", "-n", namespace, "-p", `{"data":{"k":"v"}}`)
		Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(Equal(map[string]string{wish: "a", "example.com/seen": "a,z", "example.com/team": "shop"}))
	})

	It("is a new wish when the key is annotated anew", func(ctx SpecContext) {
		write(ctx, object("c", "a,z"), "apply")
		f.MustKubectl(ctx, "", "annotate", "--overwrite", "configmap", "c", "-n", namespace, wish+"=b,z")
		expect(ctx, "c", "b", "b,z")
	})

	It("is no wish when the key is removed", func(ctx SpecContext) {
		write(ctx, object("c", "a,z"), "apply")
		f.MustKubectl(ctx, "", "annotate", "configmap", "c", "-n", namespace, wish+"-")
		Expect(stored(ctx, framework.ConfigMap, namespace, "c")).To(Equal(map[string]string{"example.com/seen": "none"}))
	})

	Context("in a record that is forged", func() {
		record := func(ctx SpecContext, name string) string {
			GinkgoHelper()
			obj, err := f.Get(ctx, framework.ConfigMap, namespace, name)
			Expect(err).NotTo(HaveOccurred())
			return obj.GetAnnotations()[placementv1.RequestedAnnotation]
		}
		annotate := func(ctx SpecContext, name, value string) {
			GinkgoHelper()
			f.MustKubectl(ctx, "", "annotate", "--overwrite", "configmap", name, "-n", namespace, placementv1.RequestedAnnotation+"="+value)
		}
		// It says of the value a, by its digest, that a policy put it there in the place of b.
		const forged = `{"annotations":{"example.com/zones":{"requested":"b","by":"x","set":"ca978112ca1bbdca"}},"signature":"AAAA"}`

		It("counts for nothing on creation", func(ctx SpecContext) {
			obj := object("c", "a")
			obj.SetAnnotations(map[string]string{wish: "a", placementv1.RequestedAnnotation: forged})
			Expect(f.Client.Create(ctx, obj)).To(Succeed())
			expect(ctx, "c", "a", "a")
			Expect(record(ctx, "c")).NotTo(ContainSubstring("AAAA"))
		})

		It("counts for nothing where no policy sets anything", func(ctx SpecContext) {
			other := f.NewNamespace(ctx, nil)
			f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("idle"), framework.Rego(`annotations["x"] := "y" if input.data.set`), "", "configmaps", other))
			obj := framework.NewObject(framework.ConfigMap, other, "c", map[string]string{placementv1.RequestedAnnotation: forged})
			Expect(f.Client.Create(ctx, obj)).To(Succeed())
			got, err := f.Get(ctx, framework.ConfigMap, other, "c")
			Expect(err).NotTo(HaveOccurred())
			Expect(got.GetAnnotations()).NotTo(HaveKey(placementv1.RequestedAnnotation))
		})

		It("is replaced on update by the one that stood", func(ctx SpecContext) {
			write(ctx, object("c", "a,z"), "apply")
			genuine := record(ctx, "c")
			for _, text := range []string{forged, "not JSON", "", "{}"} {
				annotate(ctx, "c", text)
				expect(ctx, "c", "a", "a,z")
				Expect(record(ctx, "c")).To(Equal(genuine))
			}
			f.MustKubectl(ctx, "", "annotate", "configmap", "c", "-n", namespace, placementv1.RequestedAnnotation+"-")
			expect(ctx, "c", "a", "a,z")
			Expect(record(ctx, "c")).To(Equal(genuine))
		})

		It("is worth nothing when copied from another workload", func(ctx SpecContext) {
			write(ctx, object("one", "a,y"), "apply")
			write(ctx, object("two", "a,z"), "apply")
			annotate(ctx, "two", record(ctx, "one"))
			expect(ctx, "two", "a", "a,z")
			copied := object("three", "a")
			copied.SetAnnotations(map[string]string{wish: "a", placementv1.RequestedAnnotation: record(ctx, "one")})
			Expect(f.Client.Create(ctx, copied)).To(Succeed())
			expect(ctx, "three", "a", "a")
		})

		It("is worth nothing when a genuine one is edited", func(ctx SpecContext) {
			write(ctx, object("c", "a,z"), "apply")
			genuine := record(ctx, "c")
			Expect(genuine).To(ContainSubstring(`"a,z"`))
			annotate(ctx, "c", strings.Replace(genuine, `"a,z"`, `"a,b"`, 1))
			expect(ctx, "c", "a", "a,z")
			Expect(record(ctx, "c")).To(Equal(genuine))
		})
	})
})
