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
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/placement"
)

var _ placement.Namespaces = (*Namespaces)(nil)

// Namespaces reads the names and labels of namespaces from a cache, and the labels of one that the cache lacks from the API server. It is
// safe for concurrent use.
type Namespaces struct {
	// Cached reads from a cache.
	Cached client.Reader
	// Live reads from the API server. Labels uses it for namespaces that the cache lacks, because an object may be created right after its
	// namespace.
	Live client.Reader
}

// Labels returns the labels of a namespace from the cache or, if that lacks the namespace, from the API server. It returns the error "not
// found" if neither has it. It implements placement.Namespaces.
func (n *Namespaces) Labels(ctx context.Context, name string) (map[string]string, error) {
	namespace := NewNamespace()
	err := n.Cached.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		err = n.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	}
	if err != nil {
		return nil, err
	}
	return namespace.Labels, nil
}

// All yields the name and labels of each namespace in the cache. Callers must not modify the labels.
func (n *Namespaces) All(ctx context.Context) (iter.Seq2[string, map[string]string], error) {
	list := NewNamespaceList()
	if err := n.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	return func(yield func(string, map[string]string) bool) {
		for i := range list.Items {
			if !yield(list.Items[i].Name, list.Items[i].Labels) {
				return
			}
		}
	}, nil
}

// NewNamespace returns an empty namespace in the form that the cache holds, which is metadata only.
func NewNamespace() *metav1.PartialObjectMetadata {
	return NewMetadata(corev1.SchemeGroupVersion.WithKind("Namespace"))
}

// NewNamespaceList returns an empty list of namespaces in the form that the cache holds, which is metadata only.
func NewNamespaceList() *metav1.PartialObjectMetadataList {
	out := &metav1.PartialObjectMetadataList{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	return out
}
