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

package admission_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// resource is how a kind is served.
type resource struct {
	kind, group, version, plural string
	// clusterScoped objects have no namespace. Namespaces alone are.
	clusterScoped bool
}

var resources = [kindCount]resource{
	configMap:   {kind: "ConfigMap", version: "v1", plural: "configmaps"},
	pod:         {kind: "Pod", version: "v1", plural: "pods"},
	deployment:  {kind: "Deployment", group: "apps", version: "v1", plural: "deployments"},
	replicaSet:  {kind: "ReplicaSet", group: "apps", version: "v1", plural: "replicasets"},
	job:         {kind: "Job", group: "batch", version: "v1", plural: "jobs"},
	statefulSet: {kind: "StatefulSet", group: "apps", version: "v1", plural: "statefulsets"},
	daemonSet:   {kind: "DaemonSet", group: "apps", version: "v1", plural: "daemonsets"},
	service:     {kind: "Service", version: "v1", plural: "services"},
	widget:      {kind: "Widget", group: "fuzz.berth.dev", version: "v1", plural: "widgets"},
	namespace:   {kind: "Namespace", version: "v1", plural: "namespaces", clusterScoped: true},
	cronJob:     {kind: "CronJob", group: "batch", version: "v1", plural: "cronjobs"},
}

// resource returns the resource of an operation, in the version that the operation uses.
func (o operation) resource() resource {
	r := resources[o.kind]
	if o.kind == widget && o.flags.has(secondVersion) {
		r.version = "v2"
	}
	return r
}

func (r resource) apiVersion() string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// path returns the path of the collection in a namespace.
func (r resource) path(namespace string) string {
	prefix := "/apis/" + r.group + "/" + r.version
	if r.group == "" {
		prefix = "/api/" + r.version
	}
	if r.clusterScoped {
		return prefix + "/" + r.plural
	}
	return prefix + "/namespaces/" + namespace + "/" + r.plural
}

// privileged reports whether an operation is beyond the rights of ClusterRole edit.
func (o operation) privileged() bool {
	switch o.verb {
	case updateStatus, ephemeralContainers, bind:
		return true
	default:
		return o.kind == namespace
	}
}

// managers are field managers; Berth's own is among them.
var managers = []string{"first", "second", "berth"}

// build makes the request of an operation. The name is that of the object, the namespace that of the side.
func (s site) build(namespace, name string, forceDryRun bool) call {
	r := s.resource()
	out := call{method: http.MethodPatch, path: r.path(namespace), contentType: contentJSON}
	query := url.Values{"fieldManager": {managers[s.manager]}}
	if s.flags.has(dryRun) || forceDryRun {
		query.Set("dryRun", "All")
	}
	if s.flags.has(strict) {
		query.Set("fieldValidation", "Strict")
	}
	if s.verb != create && s.verb != deleteCollection {
		out.path += "/" + name
	}
	switch s.verb {
	case create:
		out.method = http.MethodPost
		s.manifest(name)
	case apply:
		out.contentType = contentApply
		s.manifest(name)
		if s.flags.has(force) {
			query.Set("force", "true")
		}
	case replace:
		out.method = http.MethodPut
		s.manifest(name)
	case mergePatch:
		out.contentType = contentMerge
		s.features()
	case strategicPatch:
		out.contentType = contentStrategic
		s.features()
	case jsonPatch:
		out.contentType = contentJSONPatch
		s.features()
		out.body = encodeJSON(operations(s.body, nil))
	case deleteBackground, deleteForeground, deleteOrphan, deleteCollection:
		out.method = http.MethodDelete
		s.deletion()
		if s.verb == deleteCollection {
			query.Set("labelSelector", baseKey)
		}
	default:
		s.subresource(&out, name)
	}
	if out.body == nil {
		out.body = s.text()
	}
	out.path += "?" + query.Encode()
	return out
}

// subresource completes the request of an operation on a subresource.
func (s site) subresource(out *call, name string) {
	switch s.verb {
	case scale:
		out.path += "/scale"
		out.contentType = contentMerge
		s.set(json.Number(pick(s, "6", "0", "3", "5", "99")), "spec", "replicas")
	case updateStatus:
		out.path += "/status"
		out.contentType = contentMerge
		s.set("yes", "status", "forbidden")
	case ephemeralContainers:
		out.path += "/ephemeralcontainers"
		out.contentType = contentStrategic
		s.set(list(map[string]any{"name": "debug", "image": "registry.example/debug"}), "spec", "ephemeralContainers")
	case evict:
		out.method = http.MethodPost
		out.path += "/eviction"
		s.set("policy/v1", "apiVersion")
		s.set("Eviction", "kind")
		s.set(name, "metadata", "name")
	case bind:
		out.method = http.MethodPost
		out.path += "/binding"
		s.set("v1", "apiVersion")
		s.set("Binding", "kind")
		s.set(name, "metadata", "name")
		s.set(map[string]any{"kind": "Node", "name": "node"}, "target")
	}
}

func (s site) features() {
	for _, f := range s.operation.features {
		features[f].put(s)
	}
}

func (s site) deletion() {
	policy := map[verb]string{deleteForeground: "Foreground", deleteOrphan: "Orphan"}[s.verb]
	if policy == "" {
		policy = "Background"
	}
	maps.Copy(s.body, map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy})
	if s.has(wrongUID) {
		s.set("5a0b3c1e-0000-4000-8000-000000000000", "preconditions", "uid")
	}
	if s.argument%4 == 3 {
		s.set(0, "gracePeriodSeconds")
	}
}

// manifest puts a whole object into the body: the least that the API server accepts, or what it has stored, and then the
// features.
func (s site) manifest(name string) {
	if s.flags.has(modify) && s.verb == replace && s.stored != nil {
		maps.Copy(s.body, cloned(s.stored))
		s.set(s.resource().apiVersion(), "apiVersion")
	} else {
		s.least(name)
	}
	s.features()
}

func cloned(object map[string]any) map[string]any {
	out, err := decodeObject(encodeJSON(object))
	if err != nil {
		panic(err)
	}
	return out
}

func (s site) least(name string) {
	r := s.resource()
	s.set(r.apiVersion(), "apiVersion")
	s.set(r.kind, "kind")
	// Labels and annotations are never empty, so that JSON patches find the same on both sides.
	s.set(map[string]any{"name": name, "labels": map[string]any{baseKey: "yes"}, "annotations": map[string]any{baseKey: "yes"}}, "metadata")
	labels := map[string]any{"app": "fuzz"}
	pods := func() map[string]any {
		restart := "Always"
		if s.kind == job || s.kind == cronJob {
			restart = "Never"
		}
		return map[string]any{"restartPolicy": restart, "containers": list(map[string]any{"name": "main", "image": "registry.example/main"})}
	}
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pods()}
	switch s.kind {
	case configMap:
		s.set(map[string]any{"key": "value"}, "data")
	case pod:
		s.set(pods(), "spec")
	case deployment, replicaSet, daemonSet:
		s.set(map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": template}, "spec")
	case statefulSet:
		s.set(map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": template, "serviceName": "fuzz"}, "spec")
	case job:
		s.set(map[string]any{"template": map[string]any{"spec": pods()}}, "spec")
	case cronJob:
		s.set(map[string]any{"schedule": "1 1 1 1 *", "jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pods()}}}}, "spec")
	case service:
		s.set(map[string]any{"ports": list(map[string]any{"port": 80, "protocol": "TCP"}), "selector": labels}, "spec")
	case widget:
		s.set(map[string]any{"key": "value"}, "spec")
	case namespace:
		s.set(s.policed, "metadata", "labels", policedKey)
	}
}

// text is the body as it is sent.
func (s site) text() []byte {
	text := encodeJSON(s.body)
	if s.flags.has(duplicateKeys) && len(s.body) > 0 {
		text = append([]byte(`{"data":{"forbidden":"yes"},"spec":{"forbidden":true},`), text[1:]...)
	}
	return text
}

// encodeJSON writes numbers as they are, and no more escapes than JSON needs.
func encodeJSON(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("a body that is no JSON: %v", err))
	}
	return out.Bytes()
}

// descended are the members that every manifest has, below which a JSON patch can add members.
var descended = []string{"/metadata", "/metadata/labels", "/metadata/annotations", "/spec", "/spec/template", "/spec/template/spec"}

// operations returns the JSON patch that adds the members of an object.
func operations(members map[string]any, path []string) []any {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		here := append(slices.Clone(path), strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		pointer := "/" + strings.Join(here, "/")
		if next, ok := members[name].(map[string]any); ok && slices.Contains(descended, pointer) {
			out = append(out, operations(next, here)...)
			continue
		}
		out = append(out, map[string]any{"op": "add", "path": pointer, "value": members[name]})
	}
	return out
}
