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
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/numeral"
)

var crdResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Scales finds the field of an object that its scale subresource sets, such as spec.replicas. It reads the CustomResourceDefinition from
// the API server each time, because that may change. It is safe for concurrent use.
type Scales struct{ Client dynamic.Interface }

// ReplicasPath returns the path of the field that the scale subresource sets in objects of a type in one version, such as "spec" and
// "replicas". ok is false if the type is not built in and no CustomResourceDefinition gives that version a scale subresource, for example
// for the types of an extension API server.
func (s *Scales) ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) (path []string, ok bool, err error) {
	if path, ok := match.BuiltinReplicasPath(resource.GroupResource()); ok {
		return path, true, nil
	}
	object, err := s.Client.Resource(crdResource).Get(ctx, resource.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading CustomResourceDefinition %s failed, and until it succeeds failurePolicy applies to kubectl "+
			"scale: %w", resource.GroupResource(), err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := numeral.FromUnstructured(object.Object, definition); err != nil {
		return nil, false, fmt.Errorf("reading CustomResourceDefinition %s failed, and until it succeeds failurePolicy applies to kubectl "+
			"scale: %w", resource.GroupResource(), err)
	}
	i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == resource.Version
	})
	if i < 0 || definition.Spec.Versions[i].Subresources == nil || definition.Spec.Versions[i].Subresources.Scale == nil {
		return nil, false, nil
	}
	return strings.Split(strings.TrimPrefix(definition.Spec.Versions[i].Subresources.Scale.SpecReplicasPath, "."), "."), true, nil
}
