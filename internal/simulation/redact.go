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

package simulation

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

// Redact replaces, in a snapshot of the simulation, the names of the objects that policies match and the values of their labels and
// annotations by hashes, as far as no policy reads them and the keys are not Berth's own. So each policy decides each object of the
// snapshot as before, also after other data changed. Objects that policies read, namespaces, and the policies themselves with their stored
// revisions are not changed. Equal texts get equal hashes in one snapshot, and other hashes in another one.
func (s *Simulation) Redact(snapshot *Snapshot) {
	salt := make([]byte, sha256.Size)
	// Read never returns an error.
	_, _ = rand.Read(salt)
	read := s.union(func(b *policy.Binding) fieldsByType { return b.Fields })
	maps.Copy(read, s.union(func(b *policy.Binding) fieldsByType { return b.PredicateReads }))
	kept := append(s.cluster.Catalog().Inventories().Resources(), placementv1.GroupVersion.WithResource("placementpolicies"),
		schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	for _, content := range snapshot.Objects {
		obj := &unstructured.Unstructured{Object: content}
		resource, err := s.cluster.Resource(obj.GroupVersionKind())
		if err != nil || read[resource.GroupVersionResource] != nil || slices.Contains(kept, resource.GroupVersionResource) || s.isRevision(obj) {
			continue
		}
		s.redact(obj, resource.GroupVersionResource, func(text string) string {
			mac := hmac.New(sha256.New, salt)
			mac.Write([]byte(text))
			return "redacted-" + hex.EncodeToString(mac.Sum(nil))[:hashLength]
		})
	}
}

// isRevision reports whether an object is one of the ControllerRevisions from which versions of policies were read that are in force.
func (s *Simulation) isRevision(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(s.revisionObjects, func(r *unstructured.Unstructured) bool {
		return r.GroupVersionKind() == obj.GroupVersionKind() && r.GetNamespace() == obj.GetNamespace() && r.GetName() == obj.GetName()
	})
}

// hashLength is the length of a hash in hexadecimal digits. It is long enough that the names of all objects differ.
const hashLength = 24

// redact replaces the name, and the values of labels and annotations, of one object of a type in place, as far as no policy reads them and
// their keys are not Berth's own. hash returns the replacement of a text.
func (s *Simulation) redact(obj *unstructured.Unstructured, resource schema.GroupVersionResource, hash func(string) string) {
	reads := s.reader(resource)
	if !reads("metadata", "name") {
		obj.SetName(hash(obj.GetName()))
	}
	if !reads("metadata", "generateName") {
		unstructured.RemoveNestedField(obj.Object, "metadata", "generateName")
	}
	for _, field := range []string{"labels", "annotations"} {
		values, _, _ := unstructured.NestedStringMap(obj.Object, "metadata", field)
		for key, value := range values {
			if !reads("metadata", field, key) && !strings.HasPrefix(key, placementv1.GroupVersion.Group+"/") {
				values[key] = hash(value)
			}
		}
		if len(values) > 0 {
			// The map came from this field.
			_ = unstructured.SetNestedStringMap(obj.Object, values, "metadata", field)
		}
	}
}

// reader returns a function that reports whether a policy that matches a type reads, selects by, or may set the field at a path of its
// objects.
func (s *Simulation) reader(resource schema.GroupVersionResource) func(path ...string) bool {
	var versions []*Version
	for _, v := range s.versions() {
		if v.Matcher.SelectsResource(resource) {
			versions = append(versions, v)
		}
	}
	return func(path ...string) bool {
		field := &projection.FieldSet{}
		at := field
		for _, name := range path {
			at = at.AddName(name)
		}
		sealed := field.Seal()
		return slices.ContainsFunc(versions, func(v *Version) bool {
			return v.Matcher.Conditional() || v.Evaluator.Input().Covers(sealed) || len(path) == 3 &&
				(selectsBy(v.Spec.Match.ObjectSelector, path[2]) || v.mayWrite())
		})
	}
}

// mayWrite reports whether the version has a rule labels or annotations, so that a label or annotation of an object may have replaced a
// requested value, on which decisions depend. That it gives clusters does not count. It returns true if the version does not compile.
func (v *Version) mayWrite() bool {
	return v.Module == nil || slices.Contains(v.Module.Rules, "labels") || slices.Contains(v.Module.Rules, "annotations")
}

// selectsBy reports whether a label selector has a requirement on the label with a key.
func selectsBy(selector *metav1.LabelSelector, key string) bool {
	if selector == nil {
		return false
	}
	_, ok := selector.MatchLabels[key]
	return ok || slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}
