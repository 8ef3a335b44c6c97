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

// Package casetest tests policies by cases: objects, and what policies decide about them. Load reads cases from files, and
// Run runs them. Decisions come from package simulation, so they are those of the manager.
package casetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/input"
)

// The type that a file of cases declares.
const (
	APIVersion = "config.berth.dev/v1alpha1"
	Kind       = "PolicyTest"
)

// Suffix ends the names of files of cases.
const Suffix = "_test.yaml"

// File is a file of cases: the files with the policies and other objects, other versions of the policies for which all cases run too, more
// objects, and the cases.
type File struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Policies are the paths of files with PlacementPolicies, relative to the directory of the file of cases.
	Policies []string `json:"policies,omitempty"`
	// World are the paths of files with other objects that exist in all cases, relative to the directory of the file of cases.
	World []string `json:"world,omitempty"`
	// Alternatives are lists of files with PlacementPolicies. All cases run once with each list, and each time with the policies in Policies
	// and Objects, too. The policies of the lists decide the same, but are written in different ways, such as in rules and in Rego.
	Alternatives [][]string `json:"alternatives,omitempty"`
	// Objects are more objects that exist in all cases. They may be PlacementPolicies, too.
	Objects []Object `json:"objects,omitempty"`
	Cases   []Case   `json:"cases"`

	path         string
	loaded       []*unstructured.Unstructured   // the objects in Objects and in the files of Policies and World
	alternatives [][]*unstructured.Unstructured // the objects in the files of each list in Alternatives
}

// Case is one object, which is created or exists, and what policies are expected to decide for it in the presence of the file's objects and
// some more and, optionally, after one change of other objects.
type Case struct {
	Name string `json:"name"`
	// Matrix has lists of values by name. The case runs once for each combination of values, with $(name) replaced by the value in
	// all texts of the case.
	Matrix map[string][]string `json:"matrix,omitempty"`
	// Objects are more objects that exist in this case. They replace objects of the file with the same type, namespace, and
	// name.
	Objects []Object `json:"objects,omitempty"`
	// Object is the object that is created, or that exists if Exists is true.
	Object Object      `json:"object"`
	Exists bool        `json:"exists,omitempty"`
	Expect Expectation `json:"expect"`
	// Then is a change of other objects, for cases of remediation. It happens after Object was placed, and has the expectation for Object
	// after the change.
	Then *Change `json:"then,omitempty"`
}

// Change is a change of other objects than that of the case: some are created, replaced, or deleted. It has the expectation for the object
// of the case after that.
type Change struct {
	// Objects are created, or replace existing ones of the same type, namespace, and name. They may be PlacementPolicies, too.
	Objects []Object `json:"objects,omitempty"`
	// Delete are objects that are deleted; only their type, namespace, and name count. Run returns an error if one does not exist.
	Delete []Object    `json:"delete,omitempty"`
	Expect Expectation `json:"expect"` // for Case.Object after the change
}

// Expectation is what policies are expected to decide for an object. Fields that are not set are not checked, except that, without Matched,
// a policy must match and, without Error, all policies that match must be able to decide.
type Expectation struct {
	// Matched are the names of all policies that match the object, in order of precedence. If it is not set, at least one must match.
	Matched     *[]string          `json:"matched,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"` // values of some of the placed object; nil if it must lack the key
	Labels      map[string]*string `json:"labels,omitempty"`      // values of some of the placed object; nil if it must lack the key
	// Clusters are all clusters that the placed object lists, in the same order; empty for none.
	Clusters *[]string `json:"clusters,omitempty"`
	// PodSpec has values of some fields of the placed object's pod spec, by name; null if it must lack the field.
	PodSpec map[string]any `json:"podSpec,omitempty"`
	// Denied has, for each message with which enforced policies deny the object, a part of that message, in their order. An empty list means
	// that the object is admitted.
	Denied *[]string `json:"denied,omitempty"`
	// Warnings has, for each warning of policies of any mode, a part of that warning, in their order. An empty list means that there is none.
	Warnings *[]string `json:"warnings,omitempty"`
	// Error is a part of the error of a policy that can't decide. If it is empty, all policies that match have to be able to decide.
	Error string `json:"error,omitempty"`
	// WhyNot has, by the name of a cluster, a part of one of the reasons why the cluster is not chosen. The case fails if it is chosen.
	WhyNot map[string]string `json:"whyNot,omitempty"`
}

// empty reports whether no field is set, so that nothing is expected.
func (e Expectation) empty() bool {
	return e.Matched == nil && len(e.Annotations)+len(e.Labels)+len(e.PodSpec)+len(e.WhyNot) == 0 && e.Clusters == nil && e.Denied == nil &&
		e.Warnings == nil && e.Error == ""
}

// Object is a Kubernetes object.
type Object struct{ Content map[string]any }

// UnmarshalJSON decodes the manifest of the object. Numbers become int64 or float64, as in objects from the API server.
func (o *Object) UnmarshalJSON(text []byte) error { return utiljson.Unmarshal(text, &o.Content) }

// Find returns the paths of files of cases, sorted: each path that names a file, whatever its name, and of each directory and those below
// it, the files whose names end with Suffix. It is an error if there are none.
func Find(paths ...string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		err = filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, Suffix) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no file in %s has a name that ends with %s", strings.Join(paths, ", "), Suffix)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Load reads a file of cases and the files that it names, relative to its directory, and validates it. Unknown fields, and cases without
// any policy, are errors. Errors contain the file and the field.
func Load(path string) (*File, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := &File{path: path}
	unknown, err := decode(text, out)
	if err == nil {
		err = out.validate(unknown)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if out.loaded, err = out.read(slices.Concat(out.Policies, out.World)); err != nil {
		return nil, err
	}
	out.loaded = append(out.loaded, contents(out.Objects)...)
	if len(out.Alternatives) == 0 && !slices.ContainsFunc(out.loaded, isPolicy) {
		return nil, fmt.Errorf("%s: policies: there is no PlacementPolicy in %s", path, strings.Join(out.Policies, ", "))
	}
	for i, names := range out.Alternatives {
		objects, err := out.read(names)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(slices.Concat(out.loaded, objects), isPolicy) {
			return nil, fmt.Errorf("%s: alternatives[%d]: there is no PlacementPolicy in %s", path, i, strings.Join(names, ", "))
		}
		out.alternatives = append(out.alternatives, objects)
	}
	return out, nil
}

// read returns the objects in files, given by their paths relative to the file of cases.
func (f *File) read(names []string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, name := range names {
		objects, err := readObjects(filepath.Join(filepath.Dir(f.path), filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// decode decodes YAML. unknown are errors for unknown fields, apart from which out is complete. err is that of invalid YAML, duplicate
// fields among it, or of a value with a wrong type.
func decode(text []byte, out any) (unknown []error, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	unknown, err = json.UnmarshalStrict(asJSON, out)
	return unknown, input.WrongType(err, text)
}

// validate returns the first mistake in the file. unknown are the errors for unknown fields, which come after a wrong apiVersion or kind.
func (f *File) validate(unknown []error) error {
	if f.APIVersion != APIVersion || f.Kind != Kind {
		return fmt.Errorf("apiVersion is %q and kind is %q, must be %s and %s", f.APIVersion, f.Kind, APIVersion, Kind)
	}
	if len(unknown) > 0 {
		return unknown[0]
	}
	named := len(f.Policies)+len(f.Alternatives) > 0 || slices.ContainsFunc(contents(f.Objects), isPolicy)
	if !named || len(f.Cases) == 0 {
		return errors.New("policies or alternatives, and cases, are required")
	}
	for i, names := range f.Alternatives {
		if len(names) == 0 {
			return fmt.Errorf("alternatives[%d] is empty, must name files with policies", i)
		}
	}
	names := map[string]bool{}
	for i, c := range f.Cases {
		switch {
		case c.Name == "":
			return fmt.Errorf("cases[%d].name is required", i)
		case names[c.Name]:
			return fmt.Errorf("cases[%d].name: %q is the name of another case", i, c.Name)
		case c.Object.Content == nil:
			return fmt.Errorf("case %q: object is required", c.Name)
		case c.Expect.empty() && c.Then == nil:
			return fmt.Errorf("case %q: expect is required, with the result for the object, such as clusters: [eu-1] or denied: []", c.Name)
		case c.Then != nil && c.Then.Expect.empty():
			return fmt.Errorf("case %q: then.expect is required, with the result for the object", c.Name)
		}
		if unused, err := c.unused(); err != nil || unused != "" {
			return cmp.Or(err, fmt.Errorf("case %q: matrix.%s has no effect: nothing but the name of the case has $(%s); use it in a field, or "+
				"remove it", c.Name, unused, unused))
		}
		names[c.Name] = true
	}
	return nil
}

// readObjects returns the objects in a file of YAML documents, one for each document that is not empty. It does not check that they have a
// kind, and returns a List as one object.
func readObjects(path string) ([]*unstructured.Unstructured, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object Object
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if object.Content != nil {
			out = append(out, &unstructured.Unstructured{Object: object.Content})
		}
	}
}

func isPolicy(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind() == placementv1.GroupVersion.WithKind("PlacementPolicy")
}

// contents returns objects in the form that package simulation takes.
func contents(objects []Object) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		out[i] = &unstructured.Unstructured{Object: o.Content}
	}
	return out
}

// unused returns a name of the matrix that no $(name) in the case refers to, except in the name of the case; "" if there is none.
func (c Case) unused() (string, error) {
	names := slices.Sorted(maps.Keys(c.Matrix))
	if len(names) == 0 {
		return "", nil
	}
	c.Name = ""
	text, err := yaml.Marshal(c)
	for _, name := range names {
		if !strings.Contains(string(text), "$("+name+")") {
			return name, err
		}
	}
	return "", err
}

// expand returns a copy of the case for each combination of the values of its matrix, with the values in place of $(name); the case itself
// if it has no matrix. If the name of the case does not have $(name), it appends name=value to that. It is an error if the case can't be
// decoded with the values in it. A name to which nothing refers is no error.
func (c Case) expand() ([]Case, error) {
	out := []Case{c}
	for _, name := range slices.Sorted(maps.Keys(c.Matrix)) {
		var next []Case
		for _, one := range out {
			for _, value := range c.Matrix[name] {
				replaced, err := one.replace("$("+name+")", value)
				if err != nil {
					return nil, fmt.Errorf("case %q: %w", c.Name, err)
				}
				if replaced.Name == one.Name {
					replaced.Name = cmp.Or(one.Name, c.Name) + " " + name + "=" + value
				}
				next = append(next, replaced)
			}
		}
		out = next
	}
	return out, nil
}

// replace returns a copy of the case in which value replaces old in all texts. It is an error if the case can't be decoded after that, for
// example because value has characters with a meaning in YAML.
func (c Case) replace(old, value string) (Case, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return c, err
	}
	var out Case
	_, err = decode([]byte(strings.ReplaceAll(string(text), old, value)), &out)
	return out, err
}

// MarshalJSON encodes the object as its manifest, without the field Content around it.
func (o Object) MarshalJSON() ([]byte, error) { return utiljson.Marshal(o.Content) }
