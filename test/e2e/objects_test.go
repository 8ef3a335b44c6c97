//go:build e2e

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

package e2e_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/framework"
)

// berthAnnotation is what the suite's policy writes.
const berthAnnotation = "example.com/berth"

// newPolicy returns a policy that gives these resources a berth, in these namespaces, and denies who is refused.
func newPolicy(where string, namespaces ...string) *placementv1.PlacementPolicy {
	p := framework.NewPolicy("berths", rego(where), "", "configmaps", namespaces...)
	p.Spec.Match.ResourceRules = []placementv1.ResourceRule{
		{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "pods"}},
		{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}
	return p
}

func rego(where string) string {
	return `package e2e

annotations["` + berthAnnotation + `"] := "` + where + `"

errors contains "no berth for the unseaworthy" if input.metadata.labels.unseaworthy
`
}

// newDeployment returns a Deployment of pods that do nothing until they are told to end.
func newDeployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: pauseImage}}},
			},
		},
	}
}

// newPod returns a pod of the harbour.
func newPod(name string) *corev1.Pod {
	return framework.NewPod(harbour, name, func(p *corev1.Pod) { p.Spec.Containers[0].Image = pauseImage })
}

// create creates a pod in the harbour.
func create(ctx context.Context, name string) error { return f.Client.Create(ctx, newPod(name)) }

// pod returns a pod of the harbour.
func pod(ctx context.Context, name string) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	return p, f.Client.Get(ctx, client.ObjectKey{Namespace: harbour, Name: name}, p)
}

// allPods returns a namespace's pods, those that are about to end among them.
func allPods(ctx context.Context, namespace string, options ...client.ListOption) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := f.Client.List(ctx, list, append(options, client.InNamespace(namespace))...)
	return list.Items, err
}

// pods returns a namespace's pods but for those that are about to end.
func pods(ctx context.Context, namespace string, options ...client.ListOption) ([]corev1.Pod, error) {
	all, err := allPods(ctx, namespace, options...)
	return slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
}

// ofOperator selects the operator's pods.
var ofOperator = client.MatchingLabels{"control-plane": "controller-manager"}

// operators returns the operator's pods but for those that are about to end.
func operators(ctx context.Context) ([]corev1.Pod, error) {
	return pods(ctx, framework.OperatorNamespace, ofOperator)
}

// BeReady matches a pod that is Ready.
func BeReady() types.GomegaMatcher {
	return HaveField("Status.Conditions", ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))
}

// BePlaced matches an object that has this berth.
func BePlaced(where string) types.GomegaMatcher {
	return WithTransform(func(o any) map[string]string {
		switch o := o.(type) {
		case corev1.Pod:
			return o.Annotations
		case client.Object:
			return o.GetAnnotations()
		default:
			return nil
		}
	}, HaveKeyWithValue(berthAnnotation, where))
}

// expectReady waits until both replicas of the operator are Ready, and those that they replace are gone.
func expectReady(ctx context.Context) {
	GinkgoHelper()
	Eventually(allPods).WithContext(ctx).WithArguments(framework.OperatorNamespace, ofOperator).
		Should(And(HaveLen(2), HaveEach(And(BeReady(), HaveField("DeletionTimestamp", BeNil())))))
}
