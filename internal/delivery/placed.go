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

package delivery

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// ObjectOf returns what delivery needs to know of a placed object: its type, namespace, name, UID, annotations, labels, and spec.replicas.
// It shares the annotations and labels with the object.
func ObjectOf(o *unstructured.Unstructured) Object {
	out := Object{
		GroupVersionKind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		Annotations: o.GetAnnotations(), Labels: o.GetLabels(),
	}
	if replicas, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); found {
		out.Replicas = &replicas
	}
	return out
}

// DecisionOf returns the placement in the annotations of an object: its clusters, and their shares, of which malformed ones count as none.
// ok is false if it has none. If the annotation with the clusters is malformed, ok is true and there is an error.
func DecisionOf(o *unstructured.Unstructured) (_ Decision, ok bool, _ error) {
	annotations := o.GetAnnotations()
	text, ok := annotations[placementv1.ClustersAnnotation]
	if !ok {
		return Decision{}, false, nil
	}
	var out Decision
	if err := json.Unmarshal([]byte(text), &out.Clusters); err != nil {
		return Decision{}, true, fmt.Errorf("annotation %s is %.64q, which is no JSON array of names: %w",
			placementv1.ClustersAnnotation, text, err)
	}
	// Policies give only valid shares. Others count as none: a developer must not keep an object in clusters that it has to leave.
	if json.Unmarshal([]byte(annotations[placementv1.ClusterSharesAnnotation]), &out.Shares) != nil {
		out.Shares = nil
	}
	slices.Sort(out.Clusters)
	return out, true, nil
}

// MayDeliver reports whether a version of a policy may deliver objects of at least one kind: it is enforced, and has spec.delivery or may
// match a kind of NativeSystem.
func MayDeliver(p *placement.Policy) bool {
	return p.Mode == placementv1.ModeEnforce && (p.Delivery != nil || slices.ContainsFunc(NativeResources(), p.Matcher.SelectsResource))
}

// SystemsOf returns the systems to which a version of a policy delivers objects of a kind: none unless its mode is Enforce. An object of a
// kind of NativeSystem is delivered to that system alone.
func SystemsOf(p *placement.Policy, kind schema.GroupKind) []System {
	if p.Mode != placementv1.ModeEnforce {
		return nil
	}
	if system, native := NativeSystem(kind); native {
		return []System{system}
	}
	return Systems(p.Delivery)
}

// Route is a system to which an object is delivered, and the spec by which it is.
type Route struct {
	System
	// Spec is spec.delivery of that policy, of those that deliver the object to the system, that has the highest precedence. It is nil only
	// for a system of NativeSystem.
	Spec *placementv1.Delivery
}

// RoutesOf returns the systems to which an object of a kind is delivered, and the names of the policies that deliver it, sorted. policies
// are those that match the object, in order of precedence: of several that deliver to one system, the spec of the first counts.
func RoutesOf(policies []*placement.Policy, kind schema.GroupKind) (routes []Route, names []string) {
	known := map[string]bool{}
	for _, p := range policies {
		systems := SystemsOf(p, kind)
		if len(systems) == 0 {
			continue
		}
		names = append(names, p.Name)
		for _, system := range systems {
			if !known[system.Name] {
				known[system.Name] = true
				routes = append(routes, Route{system, p.Delivery})
			}
		}
	}
	slices.Sort(names)
	return routes, slices.Compact(names)
}
