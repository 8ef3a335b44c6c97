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
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type object = *unstructured.Unstructured

// input holds the objects that kustomize rendered, by their role in the bundle.
type input struct {
	csv, scorecard, namespace object

	crds, deployments, accounts, samples []object
	// extra are the objects that OLM installs unchanged.
	extra []object

	roles    []role
	bindings []binding
}

// role is a Role or a ClusterRole.
type role struct {
	rbacv1.ClusterRole
	source object
	// granted reports whether a Deployment's ServiceAccount gets its rules through the CSV.
	granted bool
}

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	rbacv1.RoleBinding
	source object
}

// admitted are the kinds that OLM accepts besides the CSV and CustomResourceDefinitions, as far as Berth may use them.
// It omits Prometheus' kinds, although OLM accepts them: without their CustomResourceDefinitions, the installation
// hangs.
var admitted = []schema.GroupKind{
	{Kind: "ConfigMap"},
	{Kind: "Service"},
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"},
	{Group: "policy", Kind: "PodDisruptionBudget"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
}

// read reads a stream of YAML documents and sorts the objects by their role.
func read(stream io.Reader) (*input, error) {
	in := &input{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(stream))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return in, in.complete()
		}
		if err != nil {
			return nil, err
		}
		// Convert to JSON first: decoding YAML directly would turn every number into a float.
		text, err = yaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		if err := in.add(o); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func (in *input) add(o object) error {
	kind := o.GroupVersionKind().GroupKind()
	switch kind.String() {
	case "ClusterServiceVersion.operators.coreos.com":
		in.csv = o
	case "Configuration.scorecard.operatorframework.io":
		in.scorecard = o
	case "Namespace":
		in.namespace = o
	case "CustomResourceDefinition.apiextensions.k8s.io":
		in.crds = append(in.crds, o)
	case "Deployment.apps":
		in.deployments = append(in.deployments, o)
	case "ServiceAccount":
		in.accounts = append(in.accounts, o)
	case "Role.rbac.authorization.k8s.io", "ClusterRole.rbac.authorization.k8s.io":
		r := role{source: o}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &r.ClusterRole, true); err != nil {
			return err
		}
		in.roles = append(in.roles, r)
	case "RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		b := binding{source: o}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &b.RoleBinding, true); err != nil {
			return err
		}
		in.bindings = append(in.bindings, b)
	default:
		if slices.Contains(admitted, kind) {
			in.extra = append(in.extra, o)
		} else {
			in.samples = append(in.samples, o)
		}
	}
	return nil
}

// complete returns an error if an object is missing or cannot be part of a bundle.
func (in *input) complete() error {
	for what, o := range map[string]object{"ClusterServiceVersion": in.csv, "scorecard Configuration": in.scorecard,
		"Namespace": in.namespace} {
		if o == nil {
			return fmt.Errorf("there is no %s", what)
		}
	}
	for _, sample := range in.samples {
		if !slices.ContainsFunc(in.crds, func(crd object) bool { return defines(crd, sample.GroupVersionKind()) }) {
			return fmt.Errorf("%s %s: OLM installs no such kind from a bundle, and no CustomResourceDefinition of it defines the kind: add it, or "+
				"leave the sample out", sample.GetKind(), sample.GetName())
		}
	}
	for _, account := range in.accounts {
		if !slices.Contains(in.operators(), account.GetName()) {
			return fmt.Errorf("ServiceAccount %s: no Deployment runs as it", account.GetName())
		}
	}
	return nil
}

func defines(crd object, gvk schema.GroupVersionKind) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return group == gvk.Group && kind == gvk.Kind
}

// operators returns the names of the ServiceAccounts of the Deployments. OLM creates these ServiceAccounts.
func (in *input) operators() []string {
	var out []string
	for _, d := range in.deployments {
		name, _, _ := unstructured.NestedString(d.Object, "spec", "template", "spec", "serviceAccountName")
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func fileName(o object) string {
	gvk := o.GroupVersionKind()
	parts := []string{o.GetName(), gvk.Group, gvk.Version, strings.ToLower(gvk.Kind)}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "_") + ".yaml"
}

// withoutNamespace removes the namespace. OLM sets it to the namespace in which the administrator installs the
// operator.
func withoutNamespace(o object) object {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "metadata", "namespace")
	return o
}

func encode(o object) ([]byte, error) { return yaml.Marshal(o.Object) }
