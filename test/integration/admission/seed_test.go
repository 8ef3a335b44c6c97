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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/test/framework"
)

// seedPolicy answers the seed's example query as the seed's example response does.
const seedPolicy = `package io.k8s.federation.admission

requested := input.metadata.annotations

eu_required if requested["policy.federation.alpha.kubernetes.io/eu-jurisdiction-required"] == "true"

level := to_number(requested["policy.federation.alpha.kubernetes.io/pci-compliance-level"])

eligible contains name if {
	eu_required
	some name, cluster in data.kubernetes.clusters
	startswith(cluster.status.region, "europe-")
	to_number(cluster.metadata.labels["pci-compliance-level"]) >= level
}

annotations["federation.kubernetes.io/replica-set-preferences"] := {
	"clusters": {name: {"weight": 1} | some name in eligible},
	"rebalance": true,
} if eu_required

labels["example.com/jurisdiction"] := "eu" if eu_required

errors contains sprintf("no cluster in the EU has PCI level %d", [level]) if {
	eu_required
	count(eligible) == 0
}
`

// tutorialPolicy has what the placement policies of Kubernetes Federation's time have: the package, the import, rules
// without if and contains, = for assignment, and builtins whose last argument is their result.
const tutorialPolicy = `
package kubernetes.placement

import data.kubernetes.clusters

# Where a ReplicaSet goes, as text.
annotations["federation.kubernetes.io/replica-set-preferences"] = text {
    input.kind = "ReplicaSet"
    wanted = {"rebalance": true, "clusters": weights}
    json.marshal(wanted, text)
}

# Anything but a trial must have a selector for its clusters.
annotations["federation.alpha.kubernetes.io/cluster-selector"] = text {
    not input.metadata.annotations.stage = "trial"
    json.marshal([{"key": "on-premises", "operator": "=", "values": "[true]"}], text)
}

weights[name] = {"weight": 1} {
    suitable[name]
}

suitable[name] {
    clusters[name]
    not uncertified[name]
}

uncertified[name] {
    clusters[name]
    input.metadata.annotations["example.com/requires-pci"] = "true"
    not certified[name]
}

certified[name] {
    clusters[name].metadata.annotations["example.com/pci-certified"] = "true"
}
`

// customersPolicy is the kind that OPA's community wrote: the policy's own data says who the customer is.
const customersPolicy = `
package kubernetes.placement

import data.kubernetes.clusters
import data.acmecorp.customers

annotations["federation.kubernetes.io/replica-set-preferences"] = text {
    chosen = {name: {"weight": 1} | near[name]}
    json.marshal({"clusters": chosen, "rebalance": true}, text)
}

near[name] {
    startswith(clusters[name].status.region, customers[input.metadata.labels.customer].location)
}

errors["the label customer must name one of our customers"] {
    not customers[input.metadata.labels.customer]
}
`

var _ = Describe("The seed's policy", func() {
	var namespace, policy string

	BeforeEach(func(ctx SpecContext) {
		namespace, policy = f.NewNamespace(ctx, nil), framework.NewName("seed")
		f.CreateReadyPolicy(ctx, framework.NewPolicy(policy, seedPolicy, "apps", "replicasets", namespace))
	})

	It("places the seed's ReplicaSet", func(ctx SpecContext) {
		obj := framework.NewObject(framework.ReplicaSet, namespace, "nginx-eu", map[string]string{
			eu: "true", pci: "2", "example.com/team": "shop",
		})
		obj.SetLabels(map[string]string{"app": "nginx-eu"})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())

		got, err := f.Get(ctx, framework.ReplicaSet, namespace, "nginx-eu")
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.AnnotationsOf(got)).To(Equal(map[string]string{
			eu: "true", pci: "2", "example.com/team": "shop",
			preferences: `{"clusters":{"gce-europe-west1":{"weight":1},"gce-europe-west2":{"weight":1}},"rebalance":true}`,
		}))
		Expect(got.GetLabels()).To(Equal(map[string]string{"app": "nginx-eu", "example.com/jurisdiction": "eu"}))
		Expect(obj.GetAnnotations()).To(HaveKey(placementv1.RequestedAnnotation))
		Expect(obj.Object["spec"]).To(Equal(got.Object["spec"]))
	})

	It("replaces what the developer wrote under the same key", func(ctx SpecContext) {
		obj := framework.NewObject(framework.ReplicaSet, namespace, "nginx", map[string]string{
			eu: "true", pci: "3", preferences: `{"clusters":{"gce-us-central1":{"weight":9}}}`,
		})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		Expect(stored(ctx, framework.ReplicaSet, namespace, "nginx")).To(HaveKeyWithValue(preferences,
			`{"clusters":{"gce-europe-west2":{"weight":1}},"rebalance":true}`))
	})

	It("has no opinion on what requires nothing", func(ctx SpecContext) {
		obj := framework.NewObject(framework.ReplicaSet, namespace, "nginx", map[string]string{"example.com/team": "shop"})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		got, err := f.Get(ctx, framework.ReplicaSet, namespace, "nginx")
		Expect(err).NotTo(HaveOccurred())
		Expect(got.GetAnnotations()).To(Equal(map[string]string{"example.com/team": "shop"}))
		Expect(got.GetLabels()).To(BeEmpty())
	})

	It("denies with its own message, which reaches kubectl and an event", func(ctx SpecContext) {
		obj := framework.NewObject(framework.ReplicaSet, namespace, "nginx", map[string]string{eu: "true", pci: "9"})
		out, err := f.Kubectl(ctx, framework.Manifest(obj), "apply", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring(`PlacementPolicy "` + policy + `": no cluster in the EU has PCI level 9`))
		_, err = f.Get(ctx, framework.ReplicaSet, namespace, "nginx")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Eventually(f.EventNotes).WithContext(ctx).WithArguments(namespace, events.Denied.Reason).
			Should(ConsistOf(ContainSubstring("no cluster in the EU has PCI level 9")))
	})
})

var _ = Describe("A policy in the language of OPA before 1.0", func() {
	const everywhere = `{"clusters":{"gce-europe-north":{"weight":1},"gce-europe-west1":{"weight":1},"gce-europe-west2":{"weight":1},"gce-us-central1":{"weight":1}},"rebalance":true}`

	DescribeTable("in the style of Kubernetes Federation's tutorial places",
		func(ctx SpecContext, annotations, want map[string]string) {
			namespace := f.NewNamespace(ctx, nil)
			p := framework.NewPolicy(framework.NewName("tutorial"), tutorialPolicy, "apps", "replicasets", namespace)
			p.Spec.RegoVersion = placementv1.RegoV0
			f.CreateReadyPolicy(ctx, p)
			obj := framework.NewObject(framework.ReplicaSet, namespace, "nginx", annotations)
			Expect(f.Client.Create(ctx, obj)).To(Succeed())
			got := stored(ctx, framework.ReplicaSet, namespace, "nginx")
			for key := range annotations {
				delete(got, key)
			}
			Expect(got).To(Equal(want))
		},
		Entry("what requires nothing", map[string]string{"stage": "trial"}, map[string]string{preferences: everywhere}),
		Entry("what is no trial", map[string]string{"example.com/team": "shop"}, map[string]string{
			preferences: everywhere,
			"federation.alpha.kubernetes.io/cluster-selector": `[{"key":"on-premises","operator":"=","values":"[true]"}]`,
		}),
		Entry("what requires certified clusters", map[string]string{"stage": "trial", "example.com/requires-pci": "true"}, map[string]string{
			preferences: `{"clusters":{"gce-europe-west1":{"weight":1},"gce-us-central1":{"weight":1}},"rebalance":true}`,
		}),
	)

	It("reads the documents of spec.data", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		p := framework.NewPolicy(framework.NewName("customers"), customersPolicy, "apps", "replicasets", namespace)
		p.Spec.RegoVersion = placementv1.RegoV0
		p.Spec.Data = &apiextensionsv1.JSON{Raw: []byte(`{"acmecorp":{"customers":{"acme":{"location":"us"}}}}`)}
		f.CreateReadyPolicy(ctx, p)

		obj := framework.NewObject(framework.ReplicaSet, namespace, "acme", nil)
		obj.SetLabels(map[string]string{"customer": "acme"})
		Expect(f.Client.Create(ctx, obj)).To(Succeed())
		Expect(stored(ctx, framework.ReplicaSet, namespace, "acme")).To(Equal(map[string]string{
			preferences: `{"clusters":{"gce-us-central1":{"weight":1}},"rebalance":true}`,
		}))

		obj = framework.NewObject(framework.ReplicaSet, namespace, "emca", nil)
		obj.SetLabels(map[string]string{"customer": "emca"})
		Expect(f.Client.Create(ctx, obj)).To(MatchError(ContainSubstring("the label customer must name one of our customers")))
	})
})
