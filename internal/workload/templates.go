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

package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Template declares where a custom kind has its pod template: by the resource type, the kind, and the path of the template in an object.
type Template struct {
	schema.GroupResource
	// Kind is the kind of the resource.
	Kind string
	// Path is the path of the template in an object, as in ["spec", "template"]. It begins with "spec".
	Path []string
}

// Templates are the kinds that have a pod template, built-in and declared. It is immutable. A nil Templates has only
// the built-in kinds.
type Templates struct {
	declared  map[schema.GroupKind]kind     // the declared kinds, by kind
	resources map[schema.GroupResource]kind // the declared kinds, by resource
}

// UnknownKindError means that it is unknown where the objects of a kind have their pod template. Its text says how to declare that.
type UnknownKindError struct {
	schema.GroupKind
}

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("%s has no pod template that is known: declare it in the manager's configuration, under podTemplates", e.GroupKind)
}

// kind describes where the objects of a kind have their pod template.
type kind struct {
	// template is the path of the pod template. It is empty for pods, and for a bare template.
	template []string
	isPod    bool // whether the objects are pods themselves
	// owner is the path of the member that has the number of pods and their selector: spec or, for a CronJob, spec.jobTemplate.spec. It is nil
	// if the kind has neither, as for pods and PodTemplates.
	owner       []string
	counts      []string // the fields in owner with numbers of pods: the minimum of those that are set counts, and 1 if the first is not set
	mapSelector bool     // whether the selector is a map of labels, and not a LabelSelector
	declared    bool     // whether the user declared the kind, so that a selector of an unknown form is ignored, and no error
}

// named is a kind with its name, such as Deployment.
type named struct {
	kind
	name string
}

var (
	// builtin has the built-in kinds, keyed by resource.
	builtin = func() map[schema.GroupResource]named {
		spec, template := []string{"spec"}, []string{"spec", "template"}
		replicated := kind{template: template, owner: spec, counts: []string{"replicas"}}
		// A Job never runs more pods than remain to be completed. The default parallelism is 1.
		job := []string{"parallelism", "completions"}
		jobSpec := []string{"spec", "jobTemplate", "spec"}
		core := func(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }
		apps := func(resource string) schema.GroupResource {
			return schema.GroupResource{Group: "apps", Resource: resource}
		}
		batch := func(resource string) schema.GroupResource {
			return schema.GroupResource{Group: "batch", Resource: resource}
		}
		return map[schema.GroupResource]named{
			core("pods"):         {kind{isPod: true}, "Pod"},
			core("podtemplates"): {kind{template: []string{"template"}}, "PodTemplate"},
			core("replicationcontrollers"): {kind{template: template, owner: spec, counts: []string{"replicas"}, mapSelector: true},
				"ReplicationController"},
			apps("deployments"):  {replicated, "Deployment"},
			apps("statefulsets"): {replicated, "StatefulSet"},
			apps("replicasets"):  {replicated, "ReplicaSet"},
			// The nodes determine the number of a DaemonSet's pods.
			apps("daemonsets"): {kind{template: template, owner: spec}, "DaemonSet"},
			batch("jobs"):      {kind{template: template, owner: spec, counts: job}, "Job"},
			batch("cronjobs"):  {kind{template: append(slices.Clone(jobSpec), "template"), owner: jobSpec, counts: job}, "CronJob"},
		}
	}()
	builtinKinds = func() map[schema.GroupKind]kind {
		out := map[schema.GroupKind]kind{}
		for resource, k := range builtin {
			out[schema.GroupKind{Group: resource.Group, Kind: k.name}] = k.kind
		}
		return out
	}()
)

// NewTemplates returns the built-in and the declared templates. A declaration that is incomplete, or of a known kind,
// is an error that names the field, as in podTemplates[0].path.
func NewTemplates(declared ...Template) (*Templates, error) {
	t := &Templates{declared: map[schema.GroupKind]kind{}, resources: map[schema.GroupResource]kind{}}
	var errs field.ErrorList
	for i, d := range declared {
		at := field.NewPath("podTemplates").Index(i)
		if invalid := t.validate(d, at); len(invalid) > 0 {
			errs = append(errs, invalid...)
			continue
		}
		k := kind{template: slices.Clone(d.Path), owner: []string{"spec"}, counts: []string{"replicas"}, declared: true}
		t.resources[d.GroupResource] = k
		t.declared[schema.GroupKind{Group: d.Group, Kind: d.Kind}] = k
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return t, nil
}

// validate returns what is wrong with a declaration, and whether t already has its resource or kind. at is its path, for errors.
func (t *Templates) validate(d Template, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d.Group != "" {
		for _, problem := range validation.IsDNS1123Subdomain(d.Group) {
			errs = append(errs, field.Invalid(at.Child("group"), d.Group, problem))
		}
	}
	for _, f := range []struct{ name, value string }{{"resource", d.Resource}, {"kind", d.Kind}} {
		switch {
		case f.value == "":
			errs = append(errs, field.Required(at.Child(f.name), ""))
		case strings.ContainsAny(f.value, "/. "):
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, "must be a name without group, version, or subresource"))
		}
	}
	switch {
	case len(d.Path) == 0:
		errs = append(errs, field.Required(at.Child("path"), "where the template is, as in spec.template"))
	case d.Path[0] != "spec" || len(d.Path) == 1 || slices.Contains(d.Path, ""):
		errs = append(errs, field.Invalid(at.Child("path"), strings.Join(d.Path, "."), "must lead to a template below spec"))
	}
	if len(errs) > 0 {
		return errs
	}
	if _, known := t.Path(d.GroupResource); known {
		errs = append(errs, field.Duplicate(at.Child("resource"), d.String()))
	}
	if gk := (schema.GroupKind{Group: d.Group, Kind: d.Kind}); t.knows(gk) {
		errs = append(errs, field.Duplicate(at.Child("kind"), gk.String()))
	}
	return errs
}

// Path returns the path of the pod spec in the objects of a resource type, as in ["spec", "template", "spec"]. For pods, it is ["spec"]. ok
// is false for types without a known pod template.
func (t *Templates) Path(resource schema.GroupResource) (path []string, ok bool) {
	if k, known := builtin[resource]; known {
		return k.podSpec(), true
	}
	if t != nil {
		if k, known := t.resources[resource]; known {
			return k.podSpec(), true
		}
	}
	return nil, false
}

// Workloads returns the resource types, built-in and declared, whose objects create pods, sorted. Pods and PodTemplates are not among them.
func (t *Templates) Workloads() []schema.GroupResource {
	var out []schema.GroupResource
	for resource, k := range builtin {
		if k.owner != nil {
			out = append(out, resource)
		}
	}
	if t != nil {
		out = slices.AppendSeq(out, maps.Keys(t.resources))
	}
	slices.SortFunc(out, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// podSpec returns the path of the pod spec in an object.
func (k kind) podSpec() []string { return append(slices.Clone(k.template), "spec") }

// kind returns the built-in or declared kind gk. ok is false if there is none.
func (t *Templates) kind(gk schema.GroupKind) (k kind, ok bool) {
	if k, ok = builtinKinds[gk]; !ok && t != nil {
		k, ok = t.declared[gk]
	}
	return k, ok
}

// knows reports whether a kind is built in or declared.
func (t *Templates) knows(gk schema.GroupKind) bool {
	_, ok := t.kind(gk)
	return ok
}
