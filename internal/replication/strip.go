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

package replication

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lastApplied is kubectl's copy of the manifest. It doubles the size of an object, and no decision may depend on it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Strip removes from an object, in place, the fields that never become replica data: managed fields, kubectl's copy of the manifest, the
// payload of Secrets and, from quotas, the resource version and the status fields that no policy needs.
func Strip(resource schema.GroupResource, obj *unstructured.Unstructured) {
	unstructured.RemoveNestedField(obj.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", lastApplied)
	if resource == (schema.GroupResource{Resource: "secrets"}) {
		unstructured.RemoveNestedField(obj.Object, "data")
		unstructured.RemoveNestedField(obj.Object, "stringData")
	}
	if isQuota(resource) {
		stripQuota(obj)
	}
}
