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

// Package owners_test shows, with the controllers of Kubernetes, that what they make of a workload follows the workload.
package owners_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/suite"
)

var (
	widget      = schema.GroupVersionKind{Group: "owners.example.com", Version: "v1", Kind: "Widget"}
	part        = schema.GroupVersionKind{Group: "owners.example.com", Version: "v1", Kind: "Part"}
	pod         = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	job         = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	cronJob     = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"}
	daemonSet   = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	statefulSet = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	revision    = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"}
)

// consistent is for how long nothing must change.
const consistent = 2 * time.Second

var f *framework.Framework

func TestOwners(t *testing.T) {
	suite.Run(t, "Owners")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx, framework.WithControllerManager)
	DeferCleanup(f.Stop)
	f.InstallPlugin(ctx)
	f.InstallClusterProfiles(ctx)
	framework.KarmadaPolicies.Install(ctx, f)
	f.InstallCRD(ctx, framework.NewCRD(widget.Group, widget.Version, "widgets", widget.Kind, apiextensionsv1.NamespaceScoped))
	f.InstallCRD(ctx, framework.NewCRD(part.Group, part.Version, "parts", part.Kind, apiextensionsv1.NamespaceScoped))
	f.MustKubectl(ctx, "", "apply", "-f", "config/rbac/delivery/karmada.yaml")
	operator := f.StartReadyManager(ctx)
	DeferCleanup(operator.Stop)
	f.AwaitValidation(ctx)
})

// fleet is a set of clusters that one spec has for itself.
type fleet struct{ label, namespace string }

// newFleet creates clusters. Their names end with the name of the fleet.
func newFleet(ctx context.Context, names ...string) fleet {
	GinkgoHelper()
	out := fleet{framework.NewName("fleet"), f.NewNamespace(ctx, nil)}
	for _, name := range names {
		out.add(ctx, name)
	}
	return out
}

func (fl fleet) add(ctx context.Context, name string) {
	GinkgoHelper()
	o := framework.NewObject(framework.ClusterProfile, fl.namespace, name+"-"+fl.label, nil)
	o.SetLabels(map[string]string{"example.com/fleet": fl.label, "example.com/name": name})
	Expect(f.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(f.Client.Delete, o)
}

// mark sets a label of a cluster.
func (fl fleet) mark(ctx context.Context, name, label string) {
	GinkgoHelper()
	f.MustKubectl(ctx, "", "label", "--overwrite", "clusterprofile", name+"-"+fl.label, "-n", fl.namespace, label)
}

// list is the annotation with clusters.
func (fl fleet) list(names ...string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name + "-" + fl.label
	}
	text, _ := json.Marshal(out)
	return string(text)
}

// policy returns a policy that gives each object in the namespaces the best cluster of the fleet. more are further fields of its rule.
func (fl fleet) policy(more string, resources []placementv1.ResourceRule, namespaces ...string) *placementv1.PlacementPolicy {
	GinkgoHelper()
	out := framework.NewPolicy(framework.NewName("one"), "", "", "", namespaces...)
	out.Spec.Match.ResourceRules = resources
	rule := fmt.Sprintf("[{name: one, limit: 1, require: [{label: example.com/fleet, operator: In, values: [%s]}, {label: forbidden, operator: DoesNotExist}]%s}]", fl.label, more)
	Expect(yaml.UnmarshalStrict([]byte(rule), &out.Spec.Rules)).To(Succeed())
	out.Spec.Remediation.BlastRadius = &placementv1.BlastRadius{Percent: 100}
	return out
}

// workloads are all types of workloads, and what is made of them.
var workloads = []placementv1.ResourceRule{
	{APIGroups: []string{"apps", "batch"}, APIVersions: []string{"v1"}, Resources: []string{"*"}},
	{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
}

func newCronJob(namespace, name string) *unstructured.Unstructured {
	out := framework.NewObject(cronJob, namespace, name, nil)
	out.Object["spec"] = map[string]any{"schedule": "0 0 1 1 *", "jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "i"}}},
	}}}}
	return out
}

// madeOf returns what controllers made of an object, and of what they made of it.
func madeOf(ctx context.Context, namespace string, kinds []schema.GroupVersionKind, owner client.Object) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := f.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if metav1.IsControlledBy(&o, owner) {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// delivered returns the names of the objects that are delivered, sorted.
func delivered(ctx context.Context, namespace string) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(framework.KarmadaPolicies.GroupVersion().WithKind("PropagationPolicyList"))
	if err := f.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{placementv1.DeliveredLabel: "true"}); err != nil {
		return nil, err
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.GetOwnerReferences()[0].Kind+"/"+o.GetOwnerReferences()[0].Name)
	}
	slices.Sort(out)
	return out, nil
}
