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

// Command chart generates the parts of the Helm chart that it shares with config/: the CustomResourceDefinitions, the
// roles and their bindings, the alerts, the dashboards, and the version. It reads the output of kustomize for
// config/default, config/prometheus, and config/grafana as one stream of YAML. The generated files are data. The
// chart's templates add the names and labels of a release.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	// prefix is the prefix of all names in config/. The chart replaces it by the release's name.
	prefix = "berth-"
	// account is the ServiceAccount that the roles are bound to.
	account = prefix + "controller-manager"
	// header is the first line of each generated file.
	header = "# Written by `make chart` from config/; do not edit.\n"
)

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(manifests io.Reader, args []string) error {
	f := flag.NewFlagSet("chart", flag.ExitOnError)
	out := f.String("out", "charts/berth", "Folder of the chart.")
	version := f.String("version", "", "Version of the release, as in 0.1.0.")
	if err := f.Parse(args); err != nil {
		return err
	}
	objects, err := read(manifests)
	if err != nil {
		return err
	}
	files, err := parts(objects)
	if err != nil {
		return err
	}
	about := filepath.Join(*out, "Chart.yaml")
	text, err := os.ReadFile(about)
	if err != nil {
		return err
	}
	if text, err = withVersion(text, *version); err != nil {
		return fmt.Errorf("%s: %w", about, err)
	}
	for _, dir := range []string{"crds", "files"} {
		if err := os.RemoveAll(filepath.Join(*out, dir)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(*out, dir), 0o755); err != nil {
			return err
		}
	}
	for path, text := range files {
		if err := os.WriteFile(filepath.Join(*out, filepath.FromSlash(path)), text, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(about, text, 0o644)
}

func read(stream io.Reader) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(stream))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		// Convert to JSON first: decoding YAML directly would turn every number into a float.
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
}

var versions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// withVersion sets the versions in the text of a Chart.yaml.
func withVersion(text []byte, version string) ([]byte, error) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(version) {
		return nil, fmt.Errorf("-version %q: must be a semantic version without v", version)
	}
	if n := len(versions.FindAll(text, -1)); n != 2 {
		return nil, fmt.Errorf("has %d lines with a version or appVersion, must have one of each", n)
	}
	return versions.ReplaceAll(text, []byte("$1: "+version)), nil
}

// dashboards are the chart's files with the dashboards, by their key in the ConfigMap.
var dashboards = map[string]string{"berth.json": "files/dashboard.json", "fleet.json": "files/fleet-dashboard.json"}

// parts returns the chart's files by path within the chart.
func parts(objects []*unstructured.Unstructured) (map[string][]byte, error) {
	files := map[string][]byte{}
	var granted []grant
	for _, o := range objects {
		var err error
		switch o.GroupVersionKind().GroupKind().String() {
		case "CustomResourceDefinition.apiextensions.k8s.io":
			plural, group, _ := strings.Cut(o.GetName(), ".")
			err = add(files, "crds/"+group+"_"+plural+".yaml", o.Object)
		case "PrometheusRule.monitoring.coreos.com":
			groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "groups")
			err = add(files, "files/alerts.yaml", groups)
		case "ConfigMap":
			for key, file := range dashboards {
				dashboard, found, _ := unstructured.NestedString(o.Object, "data", key)
				if !found {
					return nil, fmt.Errorf("ConfigMap %s: has no dashboard %s", o.GetName(), key)
				}
				files[file] = []byte(dashboard)
			}
		default:
			if o.GroupVersionKind().Group != rbacv1.GroupName {
				continue
			}
			var g grant
			if g, err = newGrant(o); err == nil {
				granted = append(granted, g)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if err := named(granted); err != nil {
		return nil, err
	}
	if err := add(files, "files/rbac.yaml", granted); err != nil {
		return nil, err
	}
	for _, path := range []string{"files/alerts.yaml", "files/dashboard.json"} {
		if files[path] == nil {
			return nil, fmt.Errorf("nothing was read that makes %s", path)
		}
	}
	return files, nil
}

func add(files map[string][]byte, path string, content any) error {
	text, err := yaml.Marshal(content)
	files[path] = append([]byte(header), text...)
	return err
}

// grant is a role, or a binding of the operator's ServiceAccount to a role. Names do not have the prefix.
type grant struct {
	Kind            string                  `json:"kind"`
	Name            string                  `json:"name"`
	Labels          map[string]string       `json:"labels,omitempty"`
	Annotations     map[string]string       `json:"annotations,omitempty"`
	AggregationRule *rbacv1.AggregationRule `json:"aggregationRule,omitempty"`
	Rules           []rbacv1.PolicyRule     `json:"rules,omitempty"`
	RoleRef         *roleRef                `json:"roleRef,omitempty"`
}

type roleRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

func newGrant(o *unstructured.Unstructured) (grant, error) {
	out := grant{Kind: o.GetKind(), Labels: o.GetLabels(), Annotations: o.GetAnnotations()}
	// The release sets these labels.
	delete(out.Labels, "app.kubernetes.io/name")
	delete(out.Labels, "app.kubernetes.io/managed-by")
	var err error
	if out.Name, err = withoutPrefix(o.GetName()); err != nil {
		return grant{}, err
	}
	// ClusterRole also fits Roles, and RoleBinding also fits ClusterRoleBindings.
	if !strings.HasSuffix(out.Kind, "Binding") {
		role := rbacv1.ClusterRole{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &role, true)
		out.AggregationRule, out.Rules = role.AggregationRule, role.Rules
		return out, err
	}
	binding := rbacv1.RoleBinding{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &binding, true); err != nil {
		return grant{}, err
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Kind != rbacv1.ServiceAccountKind || binding.Subjects[0].Name != account {
		return grant{}, fmt.Errorf("must bind the ServiceAccount %s alone", account)
	}
	out.RoleRef = &roleRef{Kind: binding.RoleRef.Kind}
	out.RoleRef.Name, err = withoutPrefix(binding.RoleRef.Name)
	return out, err
}

func withoutPrefix(name string) (string, error) {
	out, found := strings.CutPrefix(name, prefix)
	if !found {
		return "", fmt.Errorf("the name %s does not begin with %s", name, prefix)
	}
	return out, nil
}

// named replaces the names of Berth's roles in rules on roles by templates with the release's name.
func named(granted []grant) error {
	for _, g := range granted {
		for _, rule := range g.Rules {
			if !slices.Contains(rule.APIGroups, rbacv1.GroupName) {
				continue
			}
			for i, name := range rule.ResourceNames {
				short, err := withoutPrefix(name)
				if err != nil {
					return fmt.Errorf("%s %s: %w", g.Kind, g.Name, err)
				}
				if !slices.ContainsFunc(granted, func(other grant) bool { return other.Name == short }) {
					return fmt.Errorf("%s %s: has a rule on %s, which is not there", g.Kind, g.Name, name)
				}
				rule.ResourceNames[i] = `{{ include "berth.fullname" . }}-` + short
			}
		}
	}
	return nil
}
