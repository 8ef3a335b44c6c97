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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/internal/placement"
)

var _ placement.Owners = (*Owners)(nil)

// Owners reads the objects that owner references name, each from the API server by its kind, never from a cache. It is safe for concurrent
// use.
type Owners struct {
	// Live reads from the API server. A controller creates objects right after a change of their owner, before a cache
	// has that change.
	Live client.Reader
}

// Owner returns the object that an owner reference of an object in a namespace names, whatever its UID; nil if it does not exist, or its
// kind is not served. It implements placement.Owners.
func (o *Owners) Owner(ctx context.Context, namespace string, reference metav1.OwnerReference) (*unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(reference.APIVersion)
	if err != nil || reference.Name == "" || len(content.IsPathSegmentName(reference.Name)) > 0 {
		// No object can have such a version or name. The client refuses such a name with an error, which would keep policies from
		// deciding.
		return nil, nil
	}
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(gv.WithKind(reference.Kind))
	err = o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reference.Name}, out)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return out, nil
}
