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

package quotatest

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Namespace is the namespace of the objects that NewQuota and NewCreate return.
const Namespace = "team-a"

// List returns amounts by resource name, from pairs of a name and an amount.
func List(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// NewQuota returns a quota in Namespace with one resource name: hard is its amount in spec.hard, and used that in status.used. status.hard
// is empty, and status.observedGeneration the generation.
func NewQuota(name, resourceName, hard, used string) *placementv1.ScopedQuota {
	q := &placementv1.ScopedQuota{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name,
		UID: types.UID("uid-" + name), Generation: 1}}
	q.Spec.Hard = List(resourceName, hard)
	q.Status.ObservedGeneration = 1
	q.Status.Used = List(resourceName, used)
	return q
}

// NewCreate returns a request to create an object of a core/v1 type, such as "pods". The object has no spec. Its name and the UID of the
// request are uid. Its UID is "object-" and uid: the API server sets the UID before it calls webhooks.
func NewCreate(resource, uid string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: types.UID(uid), Operation: admissionv1.Create, Namespace: Namespace, Name: uid,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource},
		Object:   runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q}}`, uid, "object-"+uid)},
	}
}
