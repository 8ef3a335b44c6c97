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

package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Kinds that suites make objects of.
var (
	ReplicaSet = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	Deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	ConfigMap  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

	ClusterProfile = schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"}
)

// NewNamespace creates a namespace with a unique name. It is never deleted: no controller here finalizes namespaces.
func (f *Framework) NewNamespace(ctx context.Context, labels map[string]string) string {
	ginkgo.GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-", Labels: labels}}
	gomega.Expect(f.Client.Create(ctx, namespace)).To(gomega.Succeed())
	return namespace.Name
}

// NewObject returns an object that the API server accepts, with these annotations; workloads and ClusterProfiles have the
// least spec that does.
func NewObject(gvk schema.GroupVersionKind, namespace, name string, annotations map[string]string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(gvk)
	out.SetNamespace(namespace)
	out.SetName(name)
	out.SetAnnotations(annotations)
	if gvk == ClusterProfile {
		out.Object["spec"] = map[string]any{"clusterManager": map[string]any{"name": "tests"}}
	}
	if gvk.Group == "apps" {
		labels := map[string]any{"app": "nginx"}
		out.Object["spec"] = map[string]any{
			"replicas": int64(0),
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "nginx", "image": "nginx"}}},
			},
		}
	}
	return out
}

// CreateWithStatus creates an object together with its status, which creation alone drops.
func (f *Framework) CreateWithStatus(ctx context.Context, obj *unstructured.Unstructured) {
	ginkgo.GinkgoHelper()
	status := obj.Object["status"]
	gomega.Expect(f.Client.Create(ctx, obj)).To(gomega.Succeed())
	obj.Object["status"] = status
	gomega.Expect(f.Client.Status().Update(ctx, obj)).To(gomega.Succeed())
}

// TryZone returns the annotation example.com/zone that a new ConfigMap in a namespace would get, and creates nothing.
func (f *Framework) TryZone(ctx context.Context, namespace string) (string, error) {
	obj := NewObject(ConfigMap, namespace, "try", nil)
	err := f.Client.Create(ctx, obj, client.DryRunAll)
	return obj.GetAnnotations()["example.com/zone"], err
}

// Get returns the object as it is stored.
func (f *Framework) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(gvk)
	return out, f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, out)
}

// NewPolicy returns a policy on the resources of a group's v1 in the named namespaces, or in all if none is named.
func NewPolicy(name, rego, group, resource string, namespaces ...string) *placementv1.PlacementPolicy {
	out := &placementv1.PlacementPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: placementv1.PlacementPolicySpec{
			Match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
				APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource},
			}}},
			Rego: rego,
		},
	}
	if len(namespaces) > 0 {
		out.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces,
		}}}
	}
	return out
}

// Rego returns a module of the package placement with these rules.
func Rego(rules ...string) string {
	return "package placement\n\n" + strings.Join(rules, "\n\n") + "\n"
}

// CreatePolicy creates a policy and deletes it when the spec ends.
func (f *Framework) CreatePolicy(ctx context.Context, p *placementv1.PlacementPolicy) {
	ginkgo.GinkgoHelper()
	gomega.Expect(f.Client.Create(ctx, p)).To(gomega.Succeed())
	ginkgo.DeferCleanup(f.DeletePolicy, p.Name)
}

// CreateReadyPolicy is CreatePolicy and waits until the policy decides.
func (f *Framework) CreateReadyPolicy(ctx context.Context, p *placementv1.PlacementPolicy) {
	ginkgo.GinkgoHelper()
	f.CreatePolicy(ctx, p)
	f.AwaitReady(ctx, p.Name)
}

// AwaitReady waits until the policy's newest generation decides and the API server calls its webhooks.
func (f *Framework) AwaitReady(ctx context.Context, name string) {
	ginkgo.GinkgoHelper()
	f.AwaitCondition(ctx, name, placementv1.ConditionReady, BeCondition(metav1.ConditionTrue, placementv1.ReasonInForce))
	f.awaitMutatingWebhooks(ctx)
}

// DeletePolicy deletes a policy. It is no error if it is gone.
func (f *Framework) DeletePolicy(ctx context.Context, name string) {
	ginkgo.GinkgoHelper()
	err := f.Client.Delete(ctx, &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
	gomega.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
}

// AwaitValidation waits until the API server asks a running replica about policies: its own copy of the webhook
// configurations lags behind what is stored.
func (f *Framework) AwaitValidation(ctx context.Context) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega, ctx context.Context) {
		err := f.Client.Create(ctx, NewPolicy("broken", "not rego", "apps", "replicasets"), client.DryRunAll)
		g.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%v", err)
	}).WithContext(ctx).WithPolling(Interval / 10).Should(gomega.Succeed())
}

// names counts those of NewName.
var names atomic.Int64

// NewName returns a name that nothing else of this process has; names that come later sort later.
func NewName(prefix string) string {
	return fmt.Sprintf("%s-%04d", prefix, names.Add(1))
}

// ChangePolicy changes a policy and tries again on a conflict.
func (f *Framework) ChangePolicy(ctx context.Context, name string, change func(*placementv1.PlacementPolicy)) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(ctx context.Context) error {
		p := &placementv1.PlacementPolicy{}
		if err := f.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
			return err
		}
		change(p)
		err := f.Client.Update(ctx, p)
		if err != nil && !apierrors.IsConflict(err) {
			return gomega.StopTrying("changing the policy").Wrap(err)
		}
		return err
	}).WithContext(ctx).Should(gomega.Succeed())
}

// Policy returns a policy as it is stored.
func (f *Framework) Policy(ctx context.Context, name string) (*placementv1.PlacementPolicy, error) {
	p := &placementv1.PlacementPolicy{}
	return p, f.Client.Get(ctx, client.ObjectKey{Name: name}, p)
}

// Condition returns one condition of a policy if it speaks of the policy's newest generation, else an empty one.
func (f *Framework) Condition(ctx context.Context, policy, conditionType string) (metav1.Condition, error) {
	p, err := f.Policy(ctx, policy)
	if err != nil {
		return metav1.Condition{}, err
	}
	return newestCondition(p, conditionType), nil
}

// newestCondition is Condition for a policy that was read already.
func newestCondition(p *placementv1.PlacementPolicy, conditionType string) metav1.Condition {
	c := meta.FindStatusCondition(p.Status.Conditions, conditionType)
	if c == nil || c.ObservedGeneration != p.Generation || p.Status.ObservedGeneration != p.Generation {
		return metav1.Condition{}
	}
	return *c
}

// BeCondition matches a condition by its status and reason and, if any are given, by parts of its message.
func BeCondition(status metav1.ConditionStatus, reason string, message ...string) gomega.OmegaMatcher {
	parts := []gomega.OmegaMatcher{gomega.HaveField("Status", status), gomega.HaveField("Reason", reason)}
	for _, m := range message {
		parts = append(parts, gomega.HaveField("Message", gomega.ContainSubstring(m)))
	}
	return gomega.And(parts...)
}

// NewCRD returns a definition whose kind takes any fields and has a status subresource. group, version, plural and
// kind are as in "federation.k8s.io", "v1beta1", "clusters", "Cluster".
func NewCRD(group, version, plural, kind string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + group,
			// Groups below k8s.io must say where they were reviewed.
			Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, stand-in for tests"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:       "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
				}},
			}},
		},
	}
}

// InstallCRD installs a definition and waits until its resource can be listed.
func (f *Framework) InstallCRD(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	ginkgo.GinkgoHelper()
	gomega.Expect(f.Client.Create(ctx, crd)).To(gomega.Succeed())
	f.awaitListable(ctx, schema.GroupVersionResource{
		Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural,
	})
}

// InstallClusterProfiles installs the inventory of the demo, unless it is there.
func (f *Framework) InstallClusterProfiles(ctx context.Context) {
	ginkgo.GinkgoHelper()
	f.MustKubectl(ctx, "", "apply", "--server-side", "-f", "hack/demo/clusterprofile-crd.yaml")
	f.awaitListable(ctx, schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"})
}

// InstallPropagationPolicies installs the demo's stand-in for a definition of Karmada, unless it is there.
func (f *Framework) InstallPropagationPolicies(ctx context.Context) {
	ginkgo.GinkgoHelper()
	f.MustKubectl(ctx, "", "apply", "--server-side", "-f", "hack/demo/propagationpolicy-crd.yaml")
	f.awaitListable(ctx, schema.GroupVersionResource{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "propagationpolicies"})
}

// awaitListable waits until a resource is served, and until discovery, which follows later, says so to clients.
func (f *Framework) awaitListable(ctx context.Context, resource schema.GroupVersionResource) {
	ginkgo.GinkgoHelper()
	lists, err := dynamic.NewForConfig(f.Config)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	gomega.Eventually(func(ctx context.Context) error {
		if _, err := lists.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return err
		}
		_, err := f.Client.RESTMapper().KindFor(resource)
		return err
	}).WithContext(ctx).Should(gomega.Succeed())
}

// UninstallCRD removes a definition with its objects and waits until it is gone. It is no error if it is not there.
func (f *Framework) UninstallCRD(ctx context.Context, name string) {
	ginkgo.GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	gomega.Expect(client.IgnoreNotFound(f.Client.Delete(ctx, crd))).To(gomega.Succeed())
	gomega.Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(f.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd))
	}).WithContext(ctx).Should(gomega.BeTrue())
}

// Series returns the values of the replica's series of a metric that have all of these labels, given as in
// policy="eu-pci". The keys are the series' labels in that form, joined by commas.
func (m *Manager) Series(metric string, labels ...string) (map[string]float64, error) {
	families, err := m.Metrics.Gather()
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, series := range family.GetMetric() {
			var have []string
			for _, l := range series.GetLabel() {
				have = append(have, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
				out[strings.Join(have, ",")] = series.GetGauge().GetValue() + series.GetCounter().GetValue() +
					float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return out, nil
}

// Refuse lets the API server refuse ConfigMaps for which a CEL expression is false, until the spec ends. It returns when the API server
// refuses an example, which it does not store.
func (f *Framework) Refuse(ctx context.Context, expression, message string, example *unstructured.Unstructured) {
	ginkgo.GinkgoHelper()
	rules := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: NewName("refuse")},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: rules},
			Validations:      []admissionregistrationv1.Validation{{Expression: expression, Message: message}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	for _, o := range []client.Object{policy, binding} {
		gomega.Expect(f.Client.Create(ctx, o)).To(gomega.Succeed())
		ginkgo.DeferCleanup(f.Client.Delete, o)
	}
	// The API server applies the policy some time after it is stored.
	gomega.Eventually(func(ctx context.Context) error { return f.Client.Create(ctx, example.DeepCopy(), client.DryRunAll) }).WithContext(ctx).
		Should(gomega.MatchError(gomega.ContainSubstring(message)))
}
