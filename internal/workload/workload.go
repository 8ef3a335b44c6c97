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

// Package workload locates the pod templates of workloads and extracts the fields that affect scheduling.
//
// Templates.Of converts an object to a Workload. Declare custom kinds with NewTemplates.
package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/projection"
)

// Workload describes the pods that an object creates, or the pod that it is, for predicates: one such pod, how many run at a time, and
// which existing pods are the object's own. It does not have the kind of the object.
type Workload struct {
	// Pod has the labels and the spec of the object's template or, if the object is a pod, its own, with the API server's defaults. The
	// namespace is that of the object; "default" if it has none. The name is empty unless the object is a pod.
	Pod *corev1.Pod
	// Replicas is the maximum number of pods that run at the same time, as far as the object says; 1 if it says less, or nothing, as a
	// DaemonSet.
	Replicas int
	// Own selects the existing pods of the object in the pod's namespace; nil selects none. Predicates ignore them, because a workload does
	// not compete with itself.
	Own labels.Selector
	// Name is the name of the object if it is a pod. Predicates ignore an existing pod of that name, too. It is empty for templates.
	Name string
	// Single reports whether the object is a pod, which may not have a name yet.
	Single bool
}

// Of returns the workload of an object: a Pod, an object of a kind with a pod template, or a bare template with metadata and spec. Numbers
// may have the types of any JSON decoder. An error says what the object lacks, or is an *UnknownKindError if it is unknown where the kind
// has its template.
func (t *Templates) Of(object map[string]any) (Workload, error) {
	if plain, changed := plainNumbers(object); changed {
		object, _ = plain.(map[string]any)
	}
	k, err := t.kindOf(object)
	if err != nil {
		return Workload{}, err
	}
	template, err := objectAt(object, k.template...)
	if err != nil {
		return Workload{}, err
	}
	out := Workload{Replicas: 1}
	if out.Pod, err = podOf(template, k.template); err != nil {
		return Workload{}, err
	}
	metadata, err := OptionalObject(object, "metadata")
	if err != nil {
		return Workload{}, err
	}
	if out.Pod.Namespace, err = textAt(metadata, "metadata", "namespace"); err != nil {
		return Workload{}, err
	}
	if out.Pod.Namespace == "" {
		out.Pod.Namespace = metav1.NamespaceDefault
	}
	switch {
	case k.isPod:
		out.Single = true
		out.Name, err = textAt(metadata, "metadata", "name")
		out.Pod.Name = out.Name
	case k.owner != nil:
		err = k.fill(&out, object)
	}
	return out, err
}

// PathOf returns the path of the pod spec in an object that Of accepts, as in ["spec", "template", "spec"]. The error is an
// *UnknownKindError if it is unknown where the kind has its template.
func (t *Templates) PathOf(object map[string]any) ([]string, error) {
	k, err := t.kindOf(object)
	if err != nil {
		return nil, err
	}
	return k.podSpec(), nil
}

// kindOf returns the kind of an object. An object with neither apiVersion nor kind is a bare template. One with a kind alone is of the core
// group. The error is an *UnknownKindError for a kind that is neither built in nor declared.
func (t *Templates) kindOf(object map[string]any) (kind, error) {
	apiVersion, err := textAt(object, "", "apiVersion")
	if err != nil {
		return kind{}, err
	}
	name, err := textAt(object, "", "kind")
	if err != nil {
		return kind{}, err
	}
	if apiVersion == "" && name == "" {
		return kind{}, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return kind{}, fmt.Errorf("apiVersion: %w", err)
	}
	gk := schema.GroupKind{Group: gv.Group, Kind: name}
	k, ok := t.kind(gk)
	if !ok {
		return kind{}, &UnknownKindError{gk}
	}
	return k, nil
}

// podOf builds a pod with the labels and the spec of a template, and with the API server's defaults. path is that of the template, for the
// error for what is missing, has a wrong type, or is too large.
func podOf(template map[string]any, path []string) (*corev1.Pod, error) {
	metadata, err := OptionalObject(template, "metadata")
	if err != nil {
		return nil, below(path, err)
	}
	pod := &corev1.Pod{}
	if pod.Labels, err = labelsAt(metadata, "metadata"); err != nil {
		return nil, below(path, err)
	}
	spec, err := objectAt(template, "spec")
	if err != nil {
		return nil, below(path, err)
	}
	if err := numeral.FromUnstructured(spec, &pod.Spec); err != nil {
		return nil, below(path, fmt.Errorf("spec: %w", err))
	}
	if err := checkSize(&pod.Spec); err != nil {
		return nil, below(path, fmt.Errorf("spec.%w", err))
	}
	// The API server sets these defaults in pods, but not in templates. For example, a limit is the default of a
	// request, and a host-network pod's container ports are host ports.
	corev1defaults.SetDefaults_Pod(pod)
	return pod, nil
}

// fill sets Replicas and Own of the workload of an object.
func (k kind) fill(w *Workload, object map[string]any) error {
	owner, err := objectAt(object, k.owner...)
	if err != nil {
		return err
	}
	if w.Replicas, err = k.replicas(owner); err != nil {
		return below(k.owner, err)
	}
	if w.Own, err = k.own(owner); err != nil {
		return below(k.owner, err)
	}
	return nil
}

// replicas returns the minimum of those of the fields k.counts that the owner has, and at least 1. It returns 1 if the owner lacks the
// first one, whose default is 1.
func (k kind) replicas(owner map[string]any) (int, error) {
	out := 1
	for i, name := range k.counts {
		n, ok, err := countAt(owner, name)
		if err != nil {
			return 0, err
		}
		if ok && (i == 0 || n < out) {
			out = n
		}
	}
	return max(out, 1), nil
}

// own returns the selector of an object's pods, from the field selector of owner; nil if it is missing or empty, because that would select
// everything. An invalid selector is an error, but for a declared kind, whose field may have any form: then the result is nil.
func (k kind) own(owner map[string]any) (labels.Selector, error) {
	value, err := OptionalObject(owner, "selector")
	if err != nil || len(value) == 0 {
		if k.declared {
			// A declaration does not describe the selector, so the field may have any form.
			err = nil
		}
		return nil, err
	}
	_, matchLabels := value["matchLabels"]
	_, matchExpressions := value["matchExpressions"]
	switch {
	case k.mapSelector || k.declared && !matchLabels && !matchExpressions:
		set, err := stringMap(value, "selector")
		if err != nil {
			if k.declared {
				return nil, nil
			}
			return nil, err
		}
		return labels.SelectorFromSet(set), nil
	default:
		var selector metav1.LabelSelector
		err := numeral.FromUnstructured(value, &selector)
		if err == nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			return nil, nil
		}
		out, invalid := metav1.LabelSelectorAsSelector(&selector)
		if err == nil {
			err = invalid
		}
		if err != nil && k.declared {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("selector: %w", err)
		}
		return out, nil
	}
}

// fields are the fields that Templates.Of reads of objects of any kind, built-in or declared, as a sealed set: the type, the name, the
// namespace, and the labels, and everything below spec and template.
var fields = func() *projection.FieldSet {
	f := &projection.FieldSet{}
	f.AddName("apiVersion")
	f.AddName("kind")
	metadata := f.AddName("metadata")
	metadata.AddName("name")
	metadata.AddName("namespace")
	metadata.AddName("labels").AddAll()
	f.AddName("spec").AddAll()
	// A PodTemplate has its template here.
	f.AddName("template").AddAll()
	return f.Seal()
}()

// Fields returns the sealed set of the fields that Templates.Of reads of objects of any kind, built-in or declared.
func Fields() *projection.FieldSet { return fields }
