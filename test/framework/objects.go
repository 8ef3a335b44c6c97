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

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Manifest renders an object for kubectl.
func Manifest(obj any) string {
	ginkgo.GinkgoHelper()
	text, err := yaml.Marshal(obj)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return string(text)
}

// PolicyManifest returns a policy as YAML, without the status that the API type always has.
func PolicyManifest(p *placementv1.PlacementPolicy) string {
	ginkgo.GinkgoHelper()
	return Manifest(map[string]any{
		"apiVersion": placementv1.GroupVersion.String(), "kind": "PlacementPolicy", "metadata": p.ObjectMeta, "spec": p.Spec,
	})
}

// AnnotationsOf returns the annotations of an object without those in which Berth and kubectl keep what they did.
func AnnotationsOf(obj *unstructured.Unstructured) map[string]string {
	out := obj.GetAnnotations()
	delete(out, placementv1.RequestedAnnotation)
	delete(out, "kubectl.kubernetes.io/last-applied-configuration")
	return out
}

// EventNotes returns the notes of a namespace's Events of a reason.
func (f *Framework) EventNotes(ctx context.Context, namespace, reason string) ([]string, error) {
	list := &eventsv1.EventList{}
	if err := f.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var notes []string
	for _, e := range list.Items {
		if e.Reason == reason {
			notes = append(notes, e.Note)
		}
	}
	return notes, nil
}

// StopManager stops a manager, if there is one, and sets it to nil.
func StopManager(m **Manager) {
	if *m != nil {
		(*m).Stop()
		*m = nil
	}
}
