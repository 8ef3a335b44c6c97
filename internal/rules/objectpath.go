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

package rules

import "strings"

// maxPath limits the length of what ObjectPath returns, in bytes. Kinds and names of objects are shorter.
const maxPath = 1 << 10

// ObjectPath returns the path of an object, such as "Deployment/shop/web", as the Rego rule language.RuleObjectPath has it for an input.
// The order of equally good clusters depends on it. ok is false for an object whose fields do not have the types that they have in
// Kubernetes, or whose path is too long.
func ObjectPath(input map[string]any) (path string, ok bool) {
	metadata, _ := input["metadata"].(map[string]any)
	kind, ok := input["kind"].(string)
	if !ok || metadata == nil {
		return "", false
	}
	namespace, ok := optionalText(metadata, "namespace")
	if !ok {
		return "", false
	}
	rankedKind, name, ok := rankedAs(kind, metadata)
	if !ok || len(rankedKind)+len(namespace)+len(name) > maxPath {
		return "", false
	}
	return rankedKind + "/" + namespace + "/" + name, true
}

// rankedAs returns the kind and name in the path of an object: those of its controller if the object is of a kind that controllers create
// from a template, or those of the Deployment for a Pod of a Deployment, so that all objects of a workload have one path. Otherwise they
// are its own kind, and its generateName or, without one, its name. ok is false if the fields that it reads are invalid.
func rankedAs(kind string, metadata map[string]any) (rankedKind, name string, ok bool) {
	switch kind {
	case "ControllerRevision", "Job", "Pod", "ReplicaSet":
		controller, ok := controllerOf(metadata)
		if !ok {
			return "", "", false
		}
		if controller == nil {
			break
		}
		ownerKind, isText := controller["kind"].(string)
		owner, isName := controller["name"].(string)
		if !isText || !isName {
			return "", "", false
		}
		if kind != "Pod" || ownerKind != "ReplicaSet" {
			return ownerKind, owner, true
		}
		labels, _ := metadata["labels"].(map[string]any)
		hash, isText := labels["pod-template-hash"].(string)
		if deployment, found := strings.CutSuffix(owner, "-"+hash); isText && found {
			return "Deployment", deployment, true
		}
		return ownerKind, owner, true
	}
	generated, ok := optionalText(metadata, "generateName")
	if !ok || generated != "" {
		return kind, generated, ok
	}
	name, ok = optionalText(metadata, "name")
	return kind, name, ok
}

// controllerOf returns the owner reference of an object's controller; nil if it has none. ok is false if the references are invalid.
func controllerOf(metadata map[string]any) (controller map[string]any, ok bool) {
	references, present := metadata["ownerReferences"]
	list, isList := references.([]any)
	if present && !isList {
		return nil, false
	}
	for _, one := range list {
		reference, isObject := one.(map[string]any)
		if !isObject {
			return nil, false
		}
		if isController, _ := reference["controller"].(bool); isController {
			return reference, true
		}
	}
	return nil, true
}

// optionalText returns the text in a field that an object may have; "" if it does not have the field. ok is false if the value is no text.
func optionalText(object map[string]any, name string) (text string, ok bool) {
	value, present := object[name]
	if !present {
		return "", true
	}
	text, ok = value.(string)
	return text, ok
}
