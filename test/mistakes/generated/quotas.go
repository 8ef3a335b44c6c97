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

package generated

import (
	"fmt"
	"slices"
	"strings"
)

// manifestOf returns the manifest of a quota or a limit. in has more fields of its metadata.
func manifestOf(name, kind, in string, lines ...string) string {
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	return fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: %s\nmetadata: {name: %s%s}\nspec:\n  %s\n", kind, name, in,
		strings.Join(lines, "\n  "))
}

// ofClass returns a requirement of scopes for priority classes.
func ofClass(names string) string {
	return "{scopeName: PriorityClass, operator: In, values: [" + names + "]}"
}

// limit adds a limit to some worlds in which a policy sets a priority class on all pods, with quotas where it denies the class.
func (g *generator) limit(class string) {
	add := func(manifest string) { g.workloads = append(g.workloads, "---\n"+manifest) }
	limit := func(class, more string) {
		add(manifestOf("limit", "LimitedResource", "", "resource: pods", "matchScopes: ["+ofClass(class)+"]", more))
	}
	covered := "scopeSelector: {matchExpressions: [" + ofClass(class) + "]}"
	in := func(namespace string) string {
		return "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: " + namespace + "}}"
	}
	switch namespace := pick(g, g.matched).name; g.random.IntN(6) {
	case 0:
		limit(class, "")
		add(manifestOf("covers", "ClusterScopedQuota", "", "namespaceSelector: {}", "hard: {pods: \"100\"}", covered))
	case 1:
		limit(class, in(namespace))
		add(manifestOf("covers", "ScopedQuota", ", namespace: "+namespace, "hard: {pods: \"100\"}", covered))
	case 2:
		limit("another", "")
	case 3:
		limit(class, in("kube-system"))
	case 4:
		add(manifestOf("limit", "LimitedResource", "", "resource: pods", "matchContains: [count/pods]", in(namespace)))
		add(manifestOf("others", "ScopedQuota", ", namespace: "+namespace, "hard: {count/pods: \"10\"}", "scopeSelector: {matchExpressions: ["+
			ofClass("another")+"]}"))
		if g.chance(50) {
			covered = ""
		}
		add(manifestOf("covers", "ScopedQuota", ", namespace: "+namespace, "hard: {count/pods: \"100\"}", covered))
	}
}

// quota returns a quota or a limit.
func (g *generator) quota() string {
	namespace := pick(g, g.namespaces)
	object := func(kind, in string, lines ...string) string { return manifestOf("generated", kind, in, lines...) }
	selector, _ := g.selector(g.namespaces, namespace)
	var classes []string
	for _, name := range some(g, g.classes, 2) {
		classes = append(classes, marked("name of priority classes", name))
	}
	class := ofClass(strings.Join(classes, ", "))
	hard := []string{"pods: \"20\"", "requests.cpu: 500m", "limits.memory: 64Gi", "requests.memory: 32Gi"}
	switch g.random.IntN(6) {
	case 0:
		for _, extended := range subjects(g.nodes, "allocatable") {
			hard = append(hard, "requests."+marked("name of extended resources", extended.name)+": \"8\"")
		}
		return object("ClusterScopedQuota", "", "namespaceSelector: {"+selector+"}", "hard: {"+strings.Join(hard, ", ")+"}",
			g.maybe(30, "mode: Warn"))
	case 1:
		if g.chance(50) {
			// The quota covers what the limit denies elsewhere.
			limit := object("LimitedResource", "", "resource: pods", "matchScopes: ["+class+"]")
			g.workloads = append(g.workloads, "---\n"+mark.ReplaceAllString(limit, "$2"))
		}
		return object("ScopedQuota", ", namespace: "+namespace.name, "hard: {"+strings.Join(hard[:2], ", ")+"}",
			"scopeSelector: {matchExpressions: ["+class+"]}")
	case 2:
		return object("ScopedQuota", ", namespace: "+namespace.name, "hard:",
			`  count/deployments.apps: "20"`, `  services.loadbalancers: "0"`, `  persistentvolumeclaims: "10"`,
			"  "+marked("name of storage classes", pick(g, g.storage))+".storageclass.storage.k8s.io/requests.storage: 100Gi",
			"  "+marked("name of device classes", pick(g, g.devices))+`.deviceclass.resource.k8s.io/devices: "4"`)
	case 3:
		return object("ScopedQuota", ", namespace: "+namespace.name, "hard: {pods: \"5\", limits.cpu: \"4\", cpu: \"2\"}",
			"scopes: [NotTerminating, NotBestEffort]")
	case 4:
		return object("LimitedResource", "", "resource: pods", "matchScopes: ["+class+"]", "namespaceSelector: {"+selector+"}")
	}
	return object("LimitedResource", "", "resource: persistentvolumeclaims", "matchContains: [requests.storage, persistentvolumeclaims]",
		"namespaceSelector: {"+selector+"}")
}
