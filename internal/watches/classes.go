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

	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds of the classes that quotas name in their scopes and hard limits.
var (
	PriorityClass         = schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")
	StorageClass          = storagev1.SchemeGroupVersion.WithKind("StorageClass")
	VolumeAttributesClass = storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")
)

// Classes reads the names of the classes of one kind, so that a class that a quota names and that does not exist is noticed. It is safe for
// concurrent use.
type Classes struct {
	// Reader reads metadata. For VolumeAttributesClasses, it must not read from a cache, which can't watch a type that older API servers do
	// not serve.
	Reader client.Reader
	// Kind is the kind of the classes, such as StorageClass.
	Kind schema.GroupVersionKind
}

// Names returns the names of all classes of the kind. It returns an error if the API server does not serve the kind.
func (c *Classes) Names(ctx context.Context) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(c.Kind.GroupVersion().WithKind(c.Kind.Kind + "List"))
	if err := c.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing objects of kind %s: %w", c.Kind.Kind, err)
	}
	out := make([]string, len(list.Items))
	for i := range list.Items {
		out[i] = list.Items[i].Name
	}
	return out, nil
}

// NewMetadata returns an empty object of a kind in the form that the cache holds, which is metadata only.
func NewMetadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(kind)
	return out
}
