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
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// opinionated uses every rule of the contract.
var opinionated = framework.Rego(
	`annotations["example.com/zone"] := "a" if not denied`,
	`labels["example.com/tier"] := "gold" if not denied`,
	`denied if input.metadata.annotations["example.com/forbidden"]`,
	`errors contains "this is forbidden" if denied`,
	`warnings contains "zone b closes soon"`,
)

var _ = Describe("A policy's mode", func() {
	var namespace string

	create := func(ctx SpecContext, mode placementv1.Mode) string {
		GinkgoHelper()
		namespace = f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("mode"), opinionated, "", "configmaps", namespace)
		p.Spec.Mode = mode
		f.CreatePolicy(ctx, p)
		Eventually(f.Condition).WithContext(ctx).WithArguments(p.Name, placementv1.ConditionReady).Should(HaveField("Status", BeEquivalentTo("True")))
		return p.Name
	}
	allowed := func() string {
		return framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "allowed", nil))
	}
	forbidden := func() string {
		return framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "forbidden", map[string]string{"example.com/forbidden": "x"}))
	}

	It("Enforce changes, denies and warns", func(ctx SpecContext) {
		create(ctx, placementv1.ModeEnforce)
		Expect(f.MustKubectl(ctx, allowed(), "create", "-f", "-")).To(ContainSubstring("Warning: zone b closes soon"))
		got, err := f.Get(ctx, framework.ConfigMap, namespace, "allowed")
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.AnnotationsOf(got)).To(Equal(map[string]string{"example.com/zone": "a"}))
		Expect(got.GetLabels()).To(Equal(map[string]string{"example.com/tier": "gold"}))
		out, err := f.Kubectl(ctx, forbidden(), "create", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("this is forbidden"))
	})

	It("Warn tells kubectl what it would do, and does nothing", func(ctx SpecContext) {
		name := create(ctx, placementv1.ModeWarn)
		out := f.MustKubectl(ctx, allowed(), "create", "-f", "-")
		Expect(out).To(And(
			ContainSubstring("Warning: zone b closes soon"),
			ContainSubstring(`Warning: PlacementPolicy %q (mode Warn)`, name),
			ContainSubstring("example.com/zone"), ContainSubstring("example.com/tier"),
		))
		out = f.MustKubectl(ctx, forbidden(), "create", "-f", "-")
		Expect(out).To(ContainSubstring(`Warning: PlacementPolicy %q (mode Warn) would deny: this is forbidden`, name))
		for _, object := range []string{"allowed", "forbidden"} {
			got, err := f.Get(ctx, framework.ConfigMap, namespace, object)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.GetAnnotations()).NotTo(Or(HaveKey("example.com/zone"), HaveKey(placementv1.RequestedAnnotation)))
			Expect(got.GetLabels()).To(BeEmpty())
		}
		Expect(f.EventNotes(ctx, namespace, events.Denied.Reason)).To(BeEmpty())
	})

	It("DryRun shows nothing to the client, and counts", func(ctx SpecContext) {
		name := create(ctx, placementv1.ModeDryRun)
		Expect(f.MustKubectl(ctx, allowed(), "create", "-f", "-")).To(Equal("configmap/allowed created\n"))
		Expect(f.MustKubectl(ctx, forbidden(), "create", "-f", "-")).To(Equal("configmap/forbidden created\n"))
		Expect(stored(ctx, framework.ConfigMap, namespace, "allowed")).To(BeEmpty())
		Expect(operator.Series("berth_decisions_total", `policy="`+name+`"`, `source="admission"`, `outcome="denied"`)).
			To(HaveEach(BeEquivalentTo(1)))
		Eventually(f.Policy).WithContext(ctx).WithArguments(name).Should(HaveField("Status.Violations", HaveValue(BeEquivalentTo(2))))
	})
})

var _ = Describe("A dry run on the server", Label("versions"), func() {
	It("is decided, and leaves neither object nor event", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy(framework.NewName("dry"), opinionated, "", "configmaps", namespace))
		allowed := framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "allowed", nil))
		forbidden := framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "forbidden", map[string]string{"example.com/forbidden": "x"}))

		Expect(f.MustKubectl(ctx, allowed, "create", "--dry-run=server", "-o", "yaml", "-f", "-")).To(ContainSubstring("example.com/zone: a"))
		out, err := f.Kubectl(ctx, forbidden, "create", "--dry-run=server", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("this is forbidden"))
		_, err = f.Get(ctx, framework.ConfigMap, namespace, "allowed")
		Expect(err).To(HaveOccurred())

		// The real denial's event shows that the dry run's would have come by now: the recorder keeps their order.
		other := framework.Manifest(framework.NewObject(framework.ConfigMap, namespace, "marker", map[string]string{"example.com/forbidden": "x"}))
		_, err = f.Kubectl(ctx, other, "create", "-f", "-")
		Expect(err).To(HaveOccurred())
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(namespace, events.Denied.Reason).ShouldNot(BeEmpty())
		Expect(f.MustKubectl(ctx, "", "get", "events", "-n", namespace, "-o", "name")).NotTo(ContainSubstring("forbidden."))
		Expect(f.EventNotes(ctx, namespace, events.Denied.Reason)).To(HaveLen(1))
	})
})
