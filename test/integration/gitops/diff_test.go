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

package gitops_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

const clustersKey = "example.com/clusters"

// argoManager is the field manager with which Argo CD applies on the server's side.
const argoManager = "argocd-controller"

var _ = Describe("What Berth writes into a workload", Ordered, func() {
	var manifest string

	BeforeAll(func(ctx SpecContext) {
		m := f.StartReadyManager(ctx)
		DeferCleanup(m.Stop)
		f.MustKubectl(ctx, "", "create", "namespace", "gitops")
		f.MustKubectl(ctx, "", "apply", "-f", examples+"narrow.yaml")
		DeferCleanup(f.DeletePolicy, "narrow")
		f.AwaitReady(ctx, "narrow")
		manifest = read(examples + "shop.yaml")
	})

	AfterEach(func(ctx SpecContext) {
		f.MustKubectl(ctx, "", "delete", "deployment", "shop", "--namespace=gitops")
	})

	shop := func(ctx context.Context) *unstructured.Unstructured {
		GinkgoHelper()
		out, err := f.Get(ctx, framework.Deployment, "gitops", "shop")
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	applied := func(ctx context.Context, text string) {
		GinkgoHelper()
		f.MustKubectl(ctx, text, "apply", "--server-side", "--field-manager="+argoManager, "-f", "-")
	}
	allow := func(ctx context.Context, clusters string) {
		GinkgoHelper()
		f.ChangePolicy(ctx, "narrow", func(p *placementv1.PlacementPolicy) {
			p.Spec.Data.Raw = []byte(`{"allowed": ` + clusters + `}`)
		})
	}
	// serverDiff is the difference that a dry run of a server-side apply makes; empty for none.
	serverDiff := func(ctx context.Context, text string) (string, error) {
		return f.Kubectl(ctx, text, "diff", "--server-side", "--force-conflicts", "--field-manager="+argoManager, "-f", "-")
	}
	// merged is the patch that a three-way merge makes without the API server.
	merged := func(ctx context.Context, text string) string {
		GinkgoHelper()
		modified, err := yaml.YAMLToJSON([]byte(text))
		Expect(err).NotTo(HaveOccurred())
		current, err := json.Marshal(shop(ctx).Object)
		Expect(err).NotTo(HaveOccurred())
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(modified, modified, current)
		Expect(err).NotTo(HaveOccurred())
		var metadata struct {
			Metadata json.RawMessage `json:"metadata"`
		}
		Expect(json.Unmarshal(patch, &metadata)).To(Succeed())
		return string(metadata.Metadata)
	}
	// owners are the field managers of an annotation.
	owners := func(ctx context.Context, key string) []string {
		GinkgoHelper()
		var out []string
		for _, entry := range shop(ctx).GetManagedFields() {
			if strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`) {
				out = append(out, entry.Manager+" "+string(entry.Operation))
			}
		}
		return out
	}

	It("is no manager's of Berth's, also after remediation", func(ctx SpecContext) {
		applied(ctx, manifest)
		Expect(shop(ctx).GetAnnotations()).To(And(HaveKeyWithValue(clustersKey, `["eu-1"]`), HaveKey(placementv1.RequestedAnnotation)))
		expect := func() {
			GinkgoHelper()
			Expect(owners(ctx, clustersKey)).To(ConsistOf(argoManager + " Apply"))
			Expect(owners(ctx, placementv1.RequestedAnnotation)).To(BeEmpty())
			for _, entry := range shop(ctx).GetManagedFields() {
				Expect(entry.Manager).NotTo(ContainSubstring("berth"))
			}
		}
		expect()
		allow(ctx, `["us-1"]`)
		DeferCleanup(allow, `["eu-1", "eu-2"]`)
		Eventually(func(ctx context.Context) string { return shop(ctx).GetAnnotations()[clustersKey] }).WithContext(ctx).Should(Equal(`["us-1"]`))
		expect()
	})

	It("is no difference to who asks the API server, and an apply neither conflicts nor undoes it", func(ctx SpecContext) {
		applied(ctx, manifest)
		out, err := serverDiff(ctx, manifest)
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(BeEmpty())
		before := shop(ctx)
		applied(ctx, manifest)
		Expect(shop(ctx).GetAnnotations()).To(Equal(before.GetAnnotations()))
		Expect(shop(ctx).GetResourceVersion()).To(Equal(before.GetResourceVersion()))
	})

	It("is no difference to who asks the API server where it was applied on the client's side", func(ctx SpecContext) {
		f.MustKubectl(ctx, manifest, "apply", "-f", "-")
		out, err := f.Kubectl(ctx, manifest, "diff", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		out, err = serverDiff(ctx, manifest)
		Expect(err).NotTo(HaveOccurred(), out)
	})

	It("shows to who asks the API server what a change becomes, and that it is denied", func(ctx SpecContext) {
		applied(ctx, manifest)
		out, err := serverDiff(ctx, strings.ReplaceAll(manifest, `"us-1"`, `"eu-2","us-2"`))
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring(`+    example.com/clusters: '["eu-1","eu-2"]'`))
		f.CreateReadyPolicy(ctx, framework.NewPolicy("denies", `package p

errors contains "no such berth" if input.metadata.labels.berth
`, "apps", "deployments", "gitops"))
		out, err = serverDiff(ctx, strings.Replace(manifest, "annotations:", "labels: {berth: none}\n  annotations:", 1))
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring(`denied the request: PlacementPolicy "denies": no such berth`))
	})

	It("is a difference to who merges by itself only where the manifest has the key", func(ctx SpecContext) {
		applied(ctx, manifest)
		Expect(merged(ctx, manifest)).To(MatchJSON(`{"annotations": {"example.com/clusters": "[\"eu-1\",\"us-1\"]"}}`))
		without := strings.ReplaceAll(manifest, "example.com/clusters:", "example.com/other:")
		f.MustKubectl(ctx, "", "annotate", "deployment", "shop", "--namespace=gitops", "example.com/other=[\"eu-1\",\"us-1\"]")
		Expect(merged(ctx, without)).To(BeEmpty())
	})

	It("is taken for untouched where somebody applies the live value", func(ctx SpecContext) {
		applied(ctx, manifest)
		// What RespectIgnoreDifferences has Argo CD apply: the live value in place of the manifest's.
		applied(ctx, strings.ReplaceAll(manifest, `'["eu-1","us-1"]'`, `'["eu-1"]'`))
		allow(ctx, `["eu-1", "us-1"]`)
		DeferCleanup(allow, `["eu-1", "eu-2"]`)
		Eventually(func(ctx context.Context) string { return shop(ctx).GetAnnotations()[clustersKey] }).WithContext(ctx).Should(Equal(`["eu-1","us-1"]`))
	})
})
