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

package mistakes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/mistakes"
	"github.com/berth-dev/berth/test/mistakes/generated"
)

// control is a policy with a mistake in each world that has clusters. That it is warned of shows that a manager knows the clusters.
const control = `
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: control}
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  rules:
  - name: cluster
    require:
    - {field: name, operator: In, values: [no-such-cluster]}
`

// steady is how many times in a row nothing must be said of a manifest.
const steady = 10

// worlds makes generated worlds, one after the other.
type worlds struct {
	f *framework.Framework
	// warned collects the warnings of the API server for a request of warning.
	warned  *warnings
	warning client.Client
}

type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

// newWorlds removes the clusters of other specs, and installs the types that the cases need.
func newWorlds(ctx context.Context, f *framework.Framework, cases []generated.Case) *worlds {
	GinkgoHelper()
	f.MustKubectl(ctx, "", "delete", "clusterprofiles.multicluster.x-k8s.io", "--all", "--all-namespaces")
	for _, c := range cases {
		for _, o := range c.World {
			crd := definitionOf(o)
			if crd == nil {
				continue
			}
			err := f.Client.Get(ctx, client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
			if apierrors.IsNotFound(err) {
				f.InstallCRD(ctx, crd)
				continue
			}
			Expect(err).NotTo(HaveOccurred())
		}
	}
	out := &worlds{f: f, warned: &warnings{}}
	config := rest.CopyConfig(f.Config)
	config.WarningHandler = out.warned
	var err error
	out.warning, err = client.New(config, client.Options{Scheme: f.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// definitionOf returns the definition that an object of a world is, or that the cluster of an inventory needs; nil for other objects.
func definitionOf(o *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinition {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(o.Object, fields...)
		return s
	}
	switch gvk := o.GroupVersionKind(); gvk.Kind {
	case "CustomResourceDefinition":
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		version, _ := versions[0].(map[string]any)
		return framework.NewCRD(text("spec", "group"), fmt.Sprint(version["name"]), text("spec", "names", "plural"), text("spec", "names", "kind"),
			apiextensionsv1.ResourceScope(text("spec", "scope")))
	case "Cluster", "ManagedCluster", "MemberCluster":
		return framework.NewCRD(gvk.Group, gvk.Version, strings.ToLower(gvk.Kind)+"s", gvk.Kind, apiextensionsv1.ClusterScoped)
	}
	return nil
}

// said returns what the API server says of the manifest of a case in its world.
func (w *worlds) said(ctx context.Context, c generated.Case) []string {
	GinkgoHelper()
	for _, o := range c.World {
		defer w.make(ctx, o)()
	}
	Eventually(w.applied).WithContext(ctx).WithArguments(control).Should(ContainElement(ContainSubstring(`"no-such-cluster"`)))
	var said []string
	// What the manager's cache has may lag behind, so that something is said at first, or not yet.
	silent := 0
	err := poll(ctx, mistakes.TimeToTell, func(ctx context.Context) (bool, error) {
		if said = w.applied(ctx, c.Manifest()); len(said) > 0 {
			silent = 0
			return false, nil
		}
		silent++
		return silent == steady, nil
	})
	if err != nil && len(said) == 0 {
		said = []string{"what is said comes and goes"}
	}
	return said
}

// applied returns the warnings and the error for which the API server takes a manifest with one object, or not. Nothing is stored.
func (w *worlds) applied(ctx context.Context, manifest string) []string {
	w.warned.texts = nil
	err := w.warning.Create(ctx, generated.Objects(manifest)[0], client.DryRunAll)
	out := slices.Clone(w.warned.texts)
	if err != nil {
		out = append(out, err.Error())
	}
	return out
}

// make makes an object of a world, and returns what removes it. Namespaces stay without their labels. It makes no workloads, which no
// webhook for policies and quotas reads.
func (w *worlds) make(ctx context.Context, o *unstructured.Unstructured) (remove func()) {
	GinkgoHelper()
	gone := func() { Expect(client.IgnoreNotFound(w.f.Client.Delete(ctx, o))).To(Succeed()) }
	switch group := o.GroupVersionKind().Group; {
	case o.GetKind() == "Namespace":
		return w.label(ctx, o.GetName(), o.GetLabels())
	case strings.HasSuffix(o.GetKind(), "Class"), group == placementv1.GroupVersion.Group:
		err := w.f.Client.Create(ctx, o)
		if apierrors.IsAlreadyExists(err) {
			return func() {}
		}
		Expect(err).NotTo(HaveOccurred())
		return gone
	case o.GetKind() == "Node", o.GetKind() == "ClusterProfile", definitionOf(o) != nil && o.GetKind() != "CustomResourceDefinition":
		complete(o)
		w.f.CreateWithStatus(ctx, o)
		return gone
	}
	return func() {}
}

// complete sets what the API server requires of conditions.
func complete(o *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		condition["reason"], condition["message"], condition["lastTransitionTime"] = "Generated", "", time.Now().UTC().Format(time.RFC3339)
	}
	if len(conditions) > 0 {
		Expect(unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")).To(Succeed())
	}
}

// label gives a namespace labels, and returns what takes them away.
func (w *worlds) label(ctx context.Context, name string, labels map[string]string) (remove func()) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(client.IgnoreAlreadyExists(w.f.Client.Create(ctx, namespace))).To(Succeed())
	change := func(change func(map[string]string)) {
		Expect(w.f.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
		base := namespace.DeepCopy()
		change(namespace.Labels)
		Expect(w.f.Client.Patch(ctx, namespace, client.MergeFrom(base))).To(Succeed())
	}
	change(func(all map[string]string) { maps.Copy(all, labels) })
	return func() {
		change(func(all map[string]string) {
			for key := range labels {
				if key != corev1.LabelMetadataName {
					delete(all, key)
				}
			}
		})
	}
}
