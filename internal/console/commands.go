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

package console

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/whatif"
)

// commandsFor returns commands for a shell: one that predicts what the changes do (kubectl berth whatif), and those that make them, in the
// order manifests, fields, deletions; an empty slice without changes. An error means that an object that the changes concern can't be read
// for another reason than missing rights.
func (s *state) commandsFor(ctx context.Context, asked changes, parsed whatif.Changes) ([]string, error) {
	predict := []string{"kubectl", "berth", "whatif"}
	var out []string
	if strings.TrimSpace(asked.Manifests) != "" {
		predict = append(predict, "-f", manifestFile)
		words, err := s.wordsToApply(ctx, parsed.Apply)
		if err != nil {
			return nil, err
		}
		out = append(out, shell(append(words, "-f", manifestFile)...))
	}
	for _, text := range asked.Set {
		predict = append(predict, "--set", text)
	}
	for _, text := range asked.Delete {
		predict = append(predict, "--delete", text)
	}
	for _, a := range parsed.Set {
		existing, err := s.cached.Get(ctx, a.Resource, a.Namespace, a.Name)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		out = append(out, setCommand(a, existing))
	}
	for _, r := range parsed.Delete {
		out = append(out, shell(append([]string{"kubectl", "delete"}, wordsFor(r)...)...))
	}
	if len(out) == 0 {
		return []string{}, nil
	}
	return append([]string{shell(predict...)}, out...), nil
}

// The ways to apply manifests. They differ in what becomes of the fields of an existing object that its manifest lacks.
var (
	// applyOnServer removes the fields that an earlier apply on the server set, and the manifest lacks.
	applyOnServer = []string{"kubectl", "apply", "--server-side"}
	// applyByClient removes the fields that the annotation of kubectl apply has, and the manifest lacks.
	applyByClient = []string{"kubectl", "apply"}
	// replace removes all fields that the manifest lacks.
	replace = []string{"kubectl", "replace"}
	// applyToAll is for manifests that need different ways. Fields that other programs have set stay.
	applyToAll = []string{"kubectl", "apply", "--server-side", "--force-conflicts"}
)

// wordsToApply returns the words of the command that applies all of the manifests with the result that whatif predicts, as far as one
// command can: applyOnServer, applyByClient, replace, or applyToAll. An object that the user may not read counts as new. An error means
// that one can't be read for another reason.
func (s *state) wordsToApply(ctx context.Context, manifests []*unstructured.Unstructured) ([]string, error) {
	var ways [][]string
	isNew := false
	for _, obj := range manifests {
		resource, err := s.cached.Resource(obj.GroupVersionKind())
		if err != nil {
			// The prediction says so.
			continue
		}
		namespace := ""
		if resource.Namespaced {
			namespace = cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault)
		}
		existing, err := s.cached.Get(ctx, resource.GroupVersionResource, namespace, obj.GetName())
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		way := wayToApply(existing)
		isNew = isNew || way == nil
		if way != nil && !slices.ContainsFunc(ways, func(other []string) bool { return slices.Equal(way, other) }) {
			ways = append(ways, way)
		}
	}
	switch {
	case len(ways) == 0:
		return applyOnServer, nil
	case len(ways) > 1, isNew && slices.Equal(ways[0], replace):
		return applyToAll, nil
	}
	return ways[0], nil
}

// wayToApply returns the command that applies a manifest to an existing object as whatif predicts: applyByClient if the object has the
// annotation of kubectl apply, or is not of Berth's API group; otherwise applyOnServer if kubectl applied it on the server, and no other
// client has set its spec; otherwise replace. It returns nil if any of them does, as for a new object (existing is nil), or if it is not
// known how the object was written.
func wayToApply(existing *unstructured.Unstructured) []string {
	if existing == nil {
		return nil
	}
	if existing.GetAnnotations()[corev1.LastAppliedConfigAnnotation] != "" {
		return applyByClient
	}
	managed := existing.GetManagedFields()
	applied := func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "kubectl" && m.Operation == metav1.ManagedFieldsOperationApply
	}
	// What another program set of the spec would stay, or conflict.
	shared := func(m metav1.ManagedFieldsEntry) bool {
		return !applied(m) && m.Subresource == "" && m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:spec"`)
	}
	switch own := existing.GroupVersionKind().Group == placementv1.GroupVersion.Group; {
	case len(managed) == 0:
		// Files do not say how the object was written.
		return nil
	case own && (!slices.ContainsFunc(managed, applied) || slices.ContainsFunc(managed, shared)):
		return replace
	case own:
		return applyOnServer
	}
	return applyByClient
}

// manifestFile is the name of the file in which the page exports the manifests.
const manifestFile = "changes.yaml"

// wordsFor returns the arguments by which kubectl names an object: its type with the group, its name, and --namespace with its namespace,
// if it has one.
func wordsFor(r whatif.Reference) []string {
	out := []string{r.Resource.GroupResource().String(), r.Name}
	if r.Namespace != "" {
		out = append(out, "--namespace", r.Namespace)
	}
	return out
}

// setCommand returns the command that sets, or removes, a field of an object: kubectl label for a label, kubectl patch for another field.
// existing is the object; nil if it does not exist or the user may not read it.
func setCommand(a whatif.Assignment, existing *unstructured.Unstructured) string {
	if len(a.Path) == 3 && a.Path[0] == "metadata" && a.Path[1] == "labels" {
		change := a.Path[2] + "-"
		if a.Value != nil {
			change = a.Path[2] + "=" + a.Text
		}
		return shell(slices.Concat([]string{"kubectl", "label", "--overwrite"}, wordsFor(a.Reference), []string{change})...)
	}
	patch := a.Value
	if existing != nil {
		before, _, _ := unstructured.NestedFieldNoCopy(existing.Object, a.Path...)
		if _, isText := before.(string); isText && a.Text != "" {
			// As the prediction does: 1.30 stays a version.
			patch = a.Text
		}
		patch = replacing(before, patch)
	}
	for _, key := range slices.Backward(a.Path) {
		patch = map[string]any{key: patch}
	}
	// The value comes from YAML, and so has a JSON form.
	encoded, _ := json.Marshal(patch)
	return shell(slices.Concat([]string{"kubectl", "patch", "--type=merge"}, wordsFor(a.Reference), []string{"--patch", string(encoded)})...)
}

// replacing returns the value for a merge patch that replaces a value as a whole: in objects, members that the next value lacks become
// null.
func replacing(before, next any) any {
	old, wasMap := before.(map[string]any)
	fields, isMap := next.(map[string]any)
	if !wasMap || !isMap {
		return next
	}
	out := map[string]any{}
	for key := range old {
		out[key] = nil
	}
	for key, value := range fields {
		out[key] = replacing(old[key], value)
	}
	return out
}
