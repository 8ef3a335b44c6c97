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

package watches

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StorageClasses reads the names of storage classes. It is safe for concurrent use.
type StorageClasses struct {
	// Reader reads metadata from a cache.
	Reader client.Reader
}

// Names returns the names of all storage classes.
func (s *StorageClasses) Names(ctx context.Context) ([]string, error) {
	return namesOf(ctx, s.Reader, storagev1.SchemeGroupVersion.WithKind("StorageClass"))
}

// NewStorageClass returns an empty storage class in the form that the cache holds, which is metadata only.
func NewStorageClass() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
	return out
}

// VolumeAttributesClasses reads the names of volume attributes classes. It is safe for concurrent use.
type VolumeAttributesClasses struct {
	// Reader reads from the API server. A cache can't watch a type that older API servers do not serve.
	Reader client.Reader
}

// Names returns the names of all volume attributes classes. It returns an error if the API server does not serve them.
func (v *VolumeAttributesClasses) Names(ctx context.Context) ([]string, error) {
	return namesOf(ctx, v.Reader, storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"))
}

// namesOf returns the names of all objects of a cluster-scoped kind.
func namesOf(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing objects of kind %s: %w", kind.Kind, err)
	}
	out := make([]string, len(list.Items))
	for i := range list.Items {
		out[i] = list.Items[i].Name
	}
	return out, nil
}
