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
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// Amounts returns a list of resources, given names and amounts in turns. It panics if one is no quantity.
func Amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// NewStore returns a fake API server that contains objects.
func NewStore(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&placementv1.ScopedQuota{}, &placementv1.ClusterScopedQuota{}, &placementv1.LimitedResource{}).Build()
}

// Stored returns a ScopedQuota from a store.
func Stored(t *testing.T, store client.Client, name string) *placementv1.ScopedQuota {
	t.Helper()
	q := &placementv1.ScopedQuota{}
	if err := store.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: name}, q); err != nil {
		t.Fatal(err)
	}
	return q
}

// WantUsed fails the test if the usage of the only resource name of a quota in Namespace, or the number of the quota's reservations, is
// another one. It checks nothing if status.used is empty.
func WantUsed(t *testing.T, store client.Client, name, used string, reservations int) {
	t.Helper()
	q := Stored(t, store, name)
	for resource, amount := range q.Status.Used {
		if amount.String() != used || len(q.Status.Reservations) != reservations {
			t.Errorf("%s of %s: used %s with %d reservations, want %s with %d", resource, name, amount.String(),
				len(q.Status.Reservations), used, reservations)
		}
	}
}
