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

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placeholder is the image in config/manager, which is replaced by the release's image.
const placeholder = "controller:latest"

// fillCSV completes the ClusterServiceVersion with the release and the other manifests.
func (in *input) fillCSV(r release) error {
	cluster, own, err := in.permissions()
	if err != nil {
		return err
	}
	clusterPermissions, err := plain(cluster)
	if err != nil {
		return err
	}
	permissions, err := plain(own)
	if err != nil {
		return err
	}
	deployments, images, err := in.deploymentsOf(r)
	if err != nil {
		return err
	}
	owned, err := in.owned()
	if err != nil {
		return err
	}
	if err := in.annotate(r); err != nil {
		return err
	}
	in.csv.SetName(packageName + ".v" + r.version)
	in.csv.SetLabels(r.labels())
	spec, ok := in.csv.Object["spec"].(map[string]any)
	if !ok {
		return errors.New("the ClusterServiceVersion has no spec")
	}
	maps.Copy(spec, map[string]any{
		"version":                   r.version,
		"icon":                      []any{map[string]any{"base64data": r.icon, "mediatype": "image/svg+xml"}},
		"customresourcedefinitions": map[string]any{"owned": owned},
		"relatedImages":             images,
		"install": map[string]any{
			"strategy": "deployment",
			"spec": map[string]any{
				"clusterPermissions": clusterPermissions,
				"permissions":        permissions,
				"deployments":        deployments,
			},
		},
	})
	if r.replaces != "" {
		spec["replaces"] = r.replaces
	}
	return nil
}

// labels declare the supported platforms. Without them, OLM's consoles assume linux/amd64 only.
func (r release) labels() map[string]string {
	const prefix, supported = "operatorframework.io/", "supported"
	out := map[string]string{}
	for _, platform := range r.platforms {
		system, architecture, _ := strings.Cut(platform, "/")
		out[prefix+"os."+system], out[prefix+"arch."+architecture] = supported, supported
	}
	return out
}

// annotate adds the annotations that are derived from other information.
func (in *input) annotate(r release) error {
	examples := make([]map[string]any, len(in.samples))
	for i, s := range in.samples {
		examples[i] = s.Object
	}
	text, err := indent(examples)
	if err != nil {
		return err
	}
	namespace, err := json.Marshal(in.namespace)
	if err != nil {
		return err
	}
	all := in.csv.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, map[string]string{
		"alm-examples":   text,
		"containerImage": r.image,
		// Any earlier release can be upgraded directly to this one: no release in between has to convert stored data.
		"olm.skipRange": "<" + r.version,
		// The suggested namespace is used unless the administrator chooses another. The template has the Namespace's
		// labels.
		"operatorframework.io/suggested-namespace":          in.namespace.GetName(),
		"operatorframework.io/suggested-namespace-template": strings.TrimSpace(string(namespace)),
	})
	in.csv.SetAnnotations(all)
	return nil
}

func indent(v any) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return strings.TrimSpace(out.String()), err
}

// deploymentsOf returns the Deployments in the form of the CSV, with the release's image, and all images of their
// containers.
func (in *input) deploymentsOf(r release) (deployments, images []any, err error) {
	placed := false
	for _, d := range in.deployments {
		d = d.DeepCopy()
		containers, _, err := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		if err != nil {
			return nil, nil, err
		}
		for _, c := range containers {
			c, ok := c.(map[string]any)
			if !ok {
				return nil, nil, fmt.Errorf("a container of Deployment %s is no object", d.GetName())
			}
			if c["image"] == placeholder {
				c["image"], placed = r.image, true
			}
			images = append(images, map[string]any{"name": c["name"], "image": c["image"]})
		}
		if err := unstructured.SetNestedSlice(d.Object, containers, "spec", "template", "spec", "containers"); err != nil {
			return nil, nil, err
		}
		label := map[string]any{}
		for key, value := range d.GetLabels() {
			label[key] = value
		}
		deployments = append(deployments, map[string]any{"name": d.GetName(), "label": label, "spec": d.Object["spec"]})
	}
	if !placed {
		return nil, nil, fmt.Errorf("no container has the image %s", placeholder)
	}
	return deployments, images, nil
}

// owned completes the CSV's list of kinds with descriptions from their CustomResourceDefinitions.
func (in *input) owned() ([]any, error) {
	described, _, err := unstructured.NestedSlice(in.csv.Object, "spec", "customresourcedefinitions", "owned")
	if err != nil {
		return nil, err
	}
	if len(described) != len(in.crds) {
		return nil, fmt.Errorf("the ClusterServiceVersion describes %d kinds, and there are %d", len(described), len(in.crds))
	}
	for _, one := range described {
		one, ok := one.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the description of a kind is no object: %v", one)
		}
		schema := in.schemaOf(one)
		if schema == nil {
			return nil, fmt.Errorf("there is no definition of %v in %v, kind %v", one["name"], one["version"], one["kind"])
		}
		one["description"] = sentence(schema)
		for _, part := range []string{"spec", "status"} {
			fields, _, err := unstructured.NestedMap(schema, "properties", part, "properties")
			if err != nil {
				return nil, err
			}
			one[part+"Descriptors"] = descriptors(fields)
		}
	}
	return described, nil
}

// schemaOf returns the schema of a kind in the CSV; nil if no CustomResourceDefinition defines it.
func (in *input) schemaOf(described map[string]any) map[string]any {
	for _, crd := range in.crds {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			v, ok := v.(map[string]any)
			if ok && crd.GetName() == described["name"] && kind == described["kind"] && v["name"] == described["version"] {
				schema, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
				return schema
			}
		}
	}
	return nil
}

// descriptors returns the descriptors of fields for forms and views in consoles.
func descriptors(fields map[string]any) []any {
	var out []any
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		schema, _ := fields[name].(map[string]any)
		one := map[string]any{"path": name, "displayName": title(name), "description": sentence(schema)}
		var hints []any
		if name == "conditions" {
			hints = append(hints, "urn:alm:descriptor:io.kubernetes.conditions")
		}
		values, _ := schema["enum"].([]any)
		for _, v := range values {
			hints = append(hints, fmt.Sprintf("urn:alm:descriptor:com.tectonic.ui:select:%v", v))
		}
		if hints != nil {
			one["x-descriptors"] = hints
		}
		out = append(out, one)
	}
	return out
}

// sentence returns a schema's description without line breaks.
func sentence(schema map[string]any) string {
	text, _ := schema["description"].(string)
	return strings.Join(strings.Fields(text), " ")
}

// title splits a camel-case name into words: "scopeSelector" becomes "Scope Selector", and "apiGroup" becomes "API
// Group".
func title(name string) string {
	var out strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return strings.ReplaceAll(out.String(), "Api ", "API ")
}
