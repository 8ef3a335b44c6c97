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
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Source selects, in the manager's configuration, the objects of an inventory that represent clusters, by their namespaces and labels. If
// there are sources, objects that none of them selects represent no cluster.
type Source struct {
	// Group and Resource identify the inventory, for example multicluster.x-k8s.io and clusterprofiles. Another type is an error.
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Namespaces are the namespaces whose objects are selected. If it is empty, the objects of all namespaces are. It must be empty for a
	// cluster-scoped type.
	Namespaces []string `json:"namespaces,omitempty"`
	// Selector selects the objects by their labels. If it is unset, objects with any labels are selected.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// source is a Source of the manager's configuration with its selector in the form that matches labels.
type source struct {
	// at is the path of the source in the configuration, for messages.
	at         string
	namespaces []string // the namespaces whose objects are selected; all if empty
	selector   labels.Selector
}

// selects reports whether the source selects an object: if the source names the object's namespace, or names none, and its selector matches
// the labels.
func (s source) selects(obj map[string]any) bool {
	if len(s.namespaces) > 0 && !slices.Contains(s.namespaces, text(obj, "metadata", "namespace")) {
		return false
	}
	set := labels.Set{}
	for key, value := range object(obj, "metadata", "labels") {
		set[key], _ = value.(string)
	}
	return s.selector.Matches(set)
}

// idle returns a message if the source selects none of an inventory's objects, also if objects is empty, and otherwise one for each of its
// namespaces in which it selects none.
func (s source) idle(resource schema.GroupResource, objects []map[string]any) []string {
	if !slices.ContainsFunc(objects, s.selects) {
		return []string{fmt.Sprintf("%s of the manager's configuration selects none of the %d %s", s.at, len(objects), resource)}
	}
	var out []string
	for i, namespace := range s.namespaces {
		alone := source{namespaces: []string{namespace}, selector: s.selector}
		if !slices.ContainsFunc(objects, alone.selects) {
			out = append(out, fmt.Sprintf("%s.namespaces[%d] of the manager's configuration: it selects no %s in the namespace %s", s.at,
				i, resource, namespace))
		}
	}
	return out
}

// Restrict returns the inventories of which only objects that one of the sources selects represent clusters. Inventories without a source
// are left out. Without any source, it returns i itself. at is the path of the list of sources, for errors.
func (i *Inventories) Restrict(at *field.Path, sources []Source) (*Inventories, field.ErrorList) {
	if len(sources) == 0 {
		return i, nil
	}
	var errs field.ErrorList
	byType := map[schema.GroupResource][]source{}
	for n, s := range sources {
		resource := schema.GroupResource{Group: s.Group, Resource: s.Resource}
		compiled, invalid := i.compileSource(at.Index(n), resource, s)
		errs = append(errs, invalid...)
		byType[resource] = append(byType[resource], compiled)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	out := &Inventories{}
	for _, in := range i.all {
		if in.sources = byType[in.resource.GroupResource()]; in.sources != nil {
			out.all = append(out.all, in)
		}
	}
	return out, nil
}

// compileSource returns the compiled form of a source of the inventory with a resource type. It is an error if there is no such inventory,
// if the source has namespaces for a cluster-scoped type, or if a namespace or the selector is invalid. at is its path, for errors.
func (i *Inventories) compileSource(at *field.Path, resource schema.GroupResource, s Source) (out source, errs field.ErrorList) {
	of := slices.IndexFunc(i.all, func(in inventory) bool { return in.resource.GroupResource() == resource })
	if of < 0 {
		var names []string
		for _, in := range i.all {
			names = append(names, in.resource.GroupResource().String())
		}
		errs = append(errs, field.NotSupported(at, resource.String(), slices.Compact(names)))
	} else if i.all[of].clusterScoped && len(s.Namespaces) > 0 {
		errs = append(errs, field.Forbidden(at.Child("namespaces"), resource.String()+" have no namespaces; select them by labels"))
	}
	for n, namespace := range s.Namespaces {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(at.Child("namespaces").Index(n), namespace, problem))
		}
	}
	out = source{at: at.String(), namespaces: s.Namespaces, selector: labels.Everything()}
	if s.Selector != nil {
		var err error
		if out.selector, err = metav1.LabelSelectorAsSelector(s.Selector); err != nil {
			errs = append(errs, field.Invalid(at.Child("selector"), s.Selector, err.Error()))
		}
	}
	return out, errs
}
