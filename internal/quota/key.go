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

package quota

import (
	"k8s.io/apimachinery/pkg/runtime"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// The kinds that this package handles.
const (
	KindScopedQuota        = "ScopedQuota"
	KindClusterScopedQuota = "ClusterScopedQuota"
	KindLimitedResource    = "LimitedResource"
)

// Key identifies a quota or a LimitedResource.
type Key struct {
	Kind, Namespace, Name string
}

// String returns "kind/name" or "kind/namespace/name".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + "/" + k.Name
	}
	return k.Kind + "/" + k.Namespace + "/" + k.Name
}

// KeyOf returns an object's key. ok is false if the object is neither a quota nor a LimitedResource.
func KeyOf(o runtime.Object) (key Key, ok bool) {
	switch q := o.(type) {
	case *placementv1.ScopedQuota:
		return Key{KindScopedQuota, q.Namespace, q.Name}, true
	case *placementv1.ClusterScopedQuota:
		return Key{KindClusterScopedQuota, "", q.Name}, true
	case *placementv1.LimitedResource:
		return Key{KindLimitedResource, "", q.Name}, true
	}
	return Key{}, false
}
