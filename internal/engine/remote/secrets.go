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
