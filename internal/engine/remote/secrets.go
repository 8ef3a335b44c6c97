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

package remote

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// isSecret reports whether an object's kind and version are those of a Secret.
func isSecret(object map[string]any) bool {
	return object["kind"] == "Secret" && object["apiVersion"] == corev1.SchemeGroupVersion.String()
}

// withoutData returns a copy of a Secret without confidential content: without its data, the annotation in which
// kubectl repeats the data, and the managed fields, which name the keys. The original is not changed.
func withoutData(secret map[string]any) map[string]any {
	out := maps.Clone(secret)
	delete(out, "data")
	delete(out, "stringData")
	metadata, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		metadata["annotations"] = annotations
	}
	out["metadata"] = metadata
	return out
}
