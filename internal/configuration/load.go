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

package configuration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/input"
	"github.com/berth-dev/berth/internal/predicates"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/workload"
)

// Load reads a configuration file. Errors contain the path of the file, and list unknown fields and fields of the wrong type. Of the
// values, Load validates only apiVersion and kind; the packages that use the others validate them.
func Load(path string) (*ManagerConfiguration, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// decode decodes a single YAML or JSON document. It rejects unknown and duplicate fields.
func decode(text []byte) (*ManagerConfiguration, error) {
	asJSON, err := document(text)
	if err != nil {
		return nil, err
	}
	out := &ManagerConfiguration{}
	wrong, err := json.UnmarshalStrict(asJSON, out)
	if err != nil {
		return nil, input.WrongType(err, text)
	}
	// Check the kind before unknown fields, because another kind has other fields.
	if errs := out.validateType(); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if len(wrong) > 0 {
		texts := make([]string, len(wrong))
		for i, err := range wrong {
			texts[i] = err.Error()
		}
		slices.Sort(texts)
		return nil, fmt.Errorf("%s", strings.Join(texts, ", "))
	}
	return out, nil
}

// document returns the only document in the text of a file as JSON. It is an error if there are several, or none.
func document(text []byte) ([]byte, error) {
	var out [][]byte
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		// Skip documents that only have comments.
		if string(asJSON) != "null" {
			out = append(out, asJSON)
		}
	}
	if len(out) != 1 {
		return nil, fmt.Errorf("has %d documents, must have exactly one", len(out))
	}
	return out[0], nil
}

func (c *ManagerConfiguration) validateType() field.ErrorList {
	var errs field.ErrorList
	if c.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), c.APIVersion, []string{APIVersion}))
	}
	if c.Kind != Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), c.Kind, []string{Kind}))
	}
	return errs
}

// Templates returns where objects have their pod template, for the kinds built into Kubernetes and those in PodTemplates. It returns an
// error if an entry of PodTemplates is invalid.
func (c *ManagerConfiguration) Templates() (*workload.Templates, error) {
	templates := make([]workload.Template, len(c.PodTemplates))
	for i, t := range c.PodTemplates {
		templates[i] = workload.Template{GroupResource: schema.GroupResource{Group: t.Group, Resource: t.Resource}, Kind: t.Kind,
			Path: fieldsOf(t.Path)}
	}
	return workload.NewTemplates(templates...)
}

// ClusterLists returns where objects of multi-cluster systems list the clusters that they run on, for the kinds that Berth knows and those
// in Placements. It returns an error if an entry of Placements is invalid.
func (c *ManagerConfiguration) ClusterLists() (*clusterlist.Kinds, error) {
	declared := make([]clusterlist.Declaration, len(c.Placements))
	for i, p := range c.Placements {
		declared[i] = clusterlist.Declaration{GroupResource: schema.GroupResource{Group: p.Group, Resource: p.Resource}, Kind: p.Kind,
			Path: fieldsOf(p.Path)}
	}
	return clusterlist.NewKinds(declared...)
}

// ClusterInventories returns the inventories that Berth knows and those in Inventories, restricted to the objects that ClusterSources
// select.
func (c *ManagerConfiguration) ClusterInventories() (*replication.Inventories, error) {
	all, errs := replication.NewInventories(field.NewPath("inventories"), c.Inventories...)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	out, errs := all.Restrict(field.NewPath("clusterSources"), c.ClusterSources)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return out, nil
}

// PredicateArguments returns the arguments of predicates in the form that package predicates takes.
func (c *ManagerConfiguration) PredicateArguments() []predicates.PluginConfig {
	out := make([]predicates.PluginConfig, len(c.Predicates.PluginConfig))
	for i, p := range c.Predicates.PluginConfig {
		out[i] = predicates.PluginConfig{Name: p.Name, Args: p.Args}
	}
	return out
}

// fieldsOf returns the names of fields in a path such as .spec.template; nil if the path is empty.
func fieldsOf(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}
