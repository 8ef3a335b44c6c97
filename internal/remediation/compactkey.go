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

package remediation

import (
	"unique"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// compactKey is a Key in a map that has each matched object. It takes 24 bytes, and a Key 80. Each lookup takes another 100 ns, so other
// maps have Keys.
type compactKey struct {
	scope unique.Handle[scope]
	name  string
}

// scope is what the objects of one type in one namespace have in common.
type scope struct {
	resource  schema.GroupVersionResource
	namespace string
}

func (k Key) compact() compactKey {
	return compactKey{unique.Make(scope{k.Resource, k.Namespace}), k.Name}
}

func (k compactKey) key() Key {
	of := k.scope.Value()
	return Key{of.resource, of.namespace, k.name}
}
