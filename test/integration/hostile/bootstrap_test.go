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
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/controlplane"
	"github.com/berth-dev/berth/test/framework"
)

// everything is a rule that matches all types that a wildcard matches.
var everything = placementv1.ResourceRule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}

// newPolicy returns a policy that denies objects with the label "denied".
func newPolicy(name string, rules ...placementv1.ResourceRule) *placementv1.PlacementPolicy {
	p := framework.NewPolicy(name, framework.Rego(`errors contains "denied by its label" if input.metadata.labels.denied`), "", "")
	p.Spec.Match = placementv1.Match{ResourceRules: rules}
	return p
}

// What follows restarts the API server, so it has a control plane of its own.
var _ = Describe("A policy with wildcards, while Berth is down", Ordered, func() {
	var (
		own *framework.Framework
		// written are objects that the API server creates when it starts and finds none.
		written = []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:basic-user"}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:basic-user"}},
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "system:controller:bootstrap-signer"}},
			&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "probes"}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}},
			&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}}, //nolint:staticcheck // The API server still writes it.
			&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}},
		}
	)

	createConfigMap := func(ctx context.Context) error {
		return own.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "c-"}})
	}

	BeforeAll(func(ctx SpecContext) {
		own = framework.Start(ctx, func(o *controlplane.Options) {
			// The API server publishes an address in the Service kubernetes, as it does in a cluster with nodes; no
			// client connects to it.
			o.APIServerFlags = map[string]string{"endpoint-reconciler-type": "lease", "advertise-address": "192.0.2.1"}
		})
		DeferCleanup(own.Stop)
		m := own.StartReadyManager(ctx)
		p := newPolicy("everything", everything)
		Expect(own.Client.Create(ctx, p)).To(Succeed())
		own.AwaitReady(ctx, p.Name)
		Eventually(createConfigMap).WithContext(ctx).Should(Succeed())
		m.Stop()
		Eventually(createConfigMap).WithContext(ctx).Should(MatchError(ContainSubstring("failed calling webhook")))
	})

	It("does not keep the API server from starting, nor from writing what it needs", func(ctx SpecContext) {
		for _, o := range written {
			// The Service takes its Endpoints along.
			Expect(client.IgnoreNotFound(own.Client.Delete(ctx, o.DeepCopyObject().(client.Object)))).To(Succeed(), "%T %s", o, o.GetName())
		}
		// No controller finalizes namespaces here.
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}}
		Expect(own.Client.SubResource("finalize").Update(ctx, ns, client.FieldOwner("test"))).To(Succeed())

		Expect(own.Plane.KillAPIServer(ctx)).To(Succeed())
		Expect(own.Plane.StartAPIServer()).To(Succeed())
		for _, o := range written {
			Eventually(own.Client.Get).WithContext(ctx).WithArguments(client.ObjectKeyFromObject(o), o).Should(Succeed(), "%T %s", o, o.GetName())
		}
		Consistently(own.Kubectl).WithContext(ctx).WithArguments("", "get", "--raw=/readyz").Should(Equal("ok"))
		Expect(createConfigMap(ctx)).To(MatchError(ContainSubstring("failed calling webhook")), "the policy is still in force")
	})

	It("does not keep nodes and controllers from writing what they start with", func(ctx SpecContext) {
		for _, text := range []string{
			`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}`,
			`{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": []}}`,
			`{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "v"}, "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}`,
			`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": "kube-node-lease", "name": "n"}}`,
			`{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n"}, "spec": {"driver": "example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}}`,
			`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "addon"}}`,
			`{"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "default", "name": "e"}, "involvedObject": {"kind": "Node", "name": "n", "namespace": "default"}}`,
		} {
			_, err := own.Kubectl(ctx, text, "create", "-f", "-")
			Expect(err).NotTo(HaveOccurred(), text)
		}
	})

	It("still covers what users create, also for administrators and for nodes", func(ctx SpecContext) {
		own.MustKubectl(ctx, "", "create", "clusterrolebinding", "attackers", "--clusterrole=cluster-admin", "--user=system:apiserver", "--group=system:nodes")
		for _, user := range []string{"--as=system:apiserver", "--as=system:apiserver --as-group=system:nodes", "--as=system:node:n --as-group=system:nodes", "--as=alice --as-group=system:masters"} {
			out, err := own.Shell(ctx, "kubectl create serviceaccount escaped "+user)
			Expect(err).To(HaveOccurred(), user)
			Expect(out).To(ContainSubstring("failed calling webhook"), user)
		}
	})
})

var _ = Describe("A policy that names what a cluster starts with", func() {
	It("is in force, and the user who applies it is warned", func(ctx SpecContext) {
		p := newPolicy(framework.NewName("named"),
			placementv1.ResourceRule{APIGroups: []string{"rbac.authorization.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"clusterroles"}}, everything)
		p.SetGroupVersionKind(placementv1.GroupVersion.WithKind("PlacementPolicy"))
		text, err := json.Marshal(p)
		Expect(err).NotTo(HaveOccurred())
		out := f.MustKubectl(ctx, string(text), "apply", "-f", "-")
		DeferCleanup(func(ctx SpecContext) { Expect(f.Client.Delete(ctx, p)).To(Succeed()) })
		Expect(out).To(ContainSubstring("Warning: spec.match.resourceRules[0]: the cluster needs clusterroles"))
		Expect(out).To(ContainSubstring("Warning: spec.match.resourceRules[1]: wildcards do not match"))
		f.AwaitReady(ctx, p.Name)

		role := func() *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: framework.NewName("r"), Labels: map[string]string{"denied": "true"}}}
		}
		Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, role()) }).WithContext(ctx).Should(MatchError(ContainSubstring("denied by its label")))
		binding := fmt.Sprintf(`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": %q, "labels": {"denied": "true"}},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}`, framework.NewName("b"))
		Expect(strings.TrimSpace(f.MustKubectl(ctx, binding, "create", "-f", "-"))).To(HaveSuffix("created"))
	})
})
