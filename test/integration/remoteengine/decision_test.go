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

package remoteengine_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

var _ = Describe("A policy that an OPA server decides", func() {
	It("places, warns and denies by the decision contract", func(ctx SpecContext) {
		server := startOPA(
			`annotations["example.com/zone"] := object.get(input.metadata, ["annotations", "example.com/zone"], "eu-1")`,
			`labels.team := "fleet"`,
			`scheduling.nodeSelector["example.com/disk"] := "ssd"`,
			`clusters contains "edge"`,
			`warnings contains "it is late" if input.metadata.name == "late"`,
			`errors contains sprintf("%s is closed", [z]) if { z := input.metadata.annotations["example.com/zone"]; z == "us-1" }`,
		)
		namespace := f.NewNamespace(ctx, nil)
		p := elsewhere(namespace, server.URL()+document)
		p.Spec.Match.ResourceRules[0].APIGroups, p.Spec.Match.ResourceRules[0].Resources = []string{"apps"}, []string{"deployments"}
		f.CreateReadyPolicy(ctx, p)

		out := f.MustKubectl(ctx, framework.Manifest(framework.NewObject(framework.Deployment, namespace, "late", nil)), "create", "-f", "-")
		Expect(out).To(ContainSubstring("Warning: it is late"))
		placed, err := f.Get(ctx, framework.Deployment, namespace, "late")
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.AnnotationsOf(placed)).To(Equal(map[string]string{zoneKey: "eu-1", placementv1.ClustersAnnotation: `["edge"]`}))
		Expect(placed.GetLabels()).To(HaveKeyWithValue("team", "fleet"))
		Expect(placed.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"]).To(HaveKeyWithValue("nodeSelector", HaveKeyWithValue("example.com/disk", "ssd")))

		denied := framework.NewObject(framework.Deployment, namespace, "us", map[string]string{zoneKey: "us-1"})
		Expect(f.Client.Create(ctx, denied)).To(MatchError(ContainSubstring("PlacementPolicy %q: us-1 is closed", p.Name)))
	})

	It("has no opinion where the server does not know the document, unless the policy says that this is an error", func(ctx SpecContext) {
		server := startOPA(zone("a"))
		open, closed := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		onConfigMaps(ctx, open, server.URL()+"/v1/data/absent")
		strict := onConfigMaps(ctx, closed, server.URL()+"/v1/data/absent", withUndefined(placementv1.UndefinedError))

		Expect(create(ctx, open, "c")).To(Succeed())
		Expect(stored(ctx, open, "c")).To(BeEmpty())
		Expect(create(ctx, closed, "c")).To(MatchError(ContainSubstring("PlacementPolicy %q can't decide", strict)))
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(closed, events.EvaluationFailed.Reason).Should(ContainElement(ContainSubstring(strict)))

		By("loading the document")
		server.PutPolicy("absent", "package absent\n\n"+zone("b"))
		Expect(create(ctx, open, "d")).To(Succeed())
		Expect(create(ctx, closed, "d")).To(Succeed())
		Expect(stored(ctx, open, "d")).To(zoned("b"))
		Expect(stored(ctx, closed, "d")).To(zoned("b"))
	})

	It("is denied with the rule's name where an answer is not as the contract says", func(ctx SpecContext) {
		server := startOPA(`labels.n := 1`)
		namespace := f.NewNamespace(ctx, nil)
		name := onConfigMaps(ctx, namespace, server.URL()+document)
		Expect(create(ctx, namespace, "c")).To(MatchError(And(
			ContainSubstring("PlacementPolicy %q can't decide", name), ContainSubstring("rule labels"), ContainSubstring("must be a string"))))
	})

	It("is asked in the older form of the data API below /v0/data", func(ctx SpecContext) {
		server := startOPA(`annotations["example.com/zone"] := input.metadata.name`)
		namespace, absent, strict := f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil), f.NewNamespace(ctx, nil)
		onConfigMaps(ctx, namespace, server.URL()+"/v0/data/placement")
		onConfigMaps(ctx, absent, server.URL()+"/v0/data/absent")
		name := onConfigMaps(ctx, strict, server.URL()+"/v0/data/absent", withUndefined(placementv1.UndefinedError))
		Expect(create(ctx, namespace, "eu-1")).To(Succeed())
		Expect(stored(ctx, namespace, "eu-1")).To(zoned("eu-1"))
		Expect(create(ctx, absent, "c")).To(Succeed())
		Expect(stored(ctx, absent, "c")).To(BeEmpty())
		Expect(create(ctx, strict, "c")).To(MatchError(ContainSubstring("PlacementPolicy %q can't decide", name)))
	})

	It("is one of several on an object, by priority", func(ctx SpecContext) {
		first, second := startOPA(zone("remote-1"), `annotations["example.com/one"] := "1"`), startOPA(zone("remote-2"))
		namespace := f.NewNamespace(ctx, nil)
		onConfigMaps(ctx, namespace, first.URL()+document)
		onConfigMaps(ctx, namespace, second.URL()+document, func(p *placementv1.PlacementPolicy) { p.Spec.Priority = 5 })
		embedded := framework.NewPolicy(framework.NewName("here"), framework.Rego(zone("here"), `annotations["example.com/here"] := "yes"`), "", "configmaps", namespace)
		embedded.Spec.Priority = 1
		f.CreateReadyPolicy(ctx, embedded)
		Expect(create(ctx, namespace, "c")).To(Succeed())
		Expect(stored(ctx, namespace, "c")).To(Equal(map[string]string{zoneKey: "remote-2", "example.com/one": "1", "example.com/here": "yes"}))
	})
})
