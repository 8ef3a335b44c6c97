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

// Package configuration loads the manager's configuration file, which has the form of a Kubernetes component
// configuration. The file is for settings that are too complex for flags.
package configuration

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/replication"
)

// The type that the file must declare.
const (
	APIVersion = "config.berth.dev/v1alpha1"
	Kind       = "ManagerConfiguration"
)

// ManagerConfiguration is the content of the configuration file.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Predicates configures the predicates that --predicates enables.
	Predicates Predicates `json:"predicates,omitzero"`
	// PodTemplates say where kinds of workloads that are not built into Kubernetes have their pod templates. A kind that Berth knows is an
	// error.
	PodTemplates []PodTemplate `json:"podTemplates,omitempty"`
	// Placements say where kinds of multi-cluster systems that Berth does not know have their lists of clusters.
	Placements []Placement `json:"placements,omitempty"`
	// Inventories are resource types whose objects represent clusters, in addition to those that Berth knows.
	Inventories []replication.Declaration `json:"inventories,omitempty"`
	// ClusterSources select the objects of the inventories, known and declared, that represent clusters: those that at least one source
	// selects. If it is empty, all objects do.
	ClusterSources []replication.Source `json:"clusterSources,omitempty"`
}

// Predicates has the arguments of predicates.
type Predicates struct {
	// PluginConfig are the arguments of predicates, at most one entry for each predicate, as in KubeSchedulerConfiguration. Unset arguments
	// get the scheduler's defaults.
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`
}

// PluginConfig holds the arguments of one predicate.
type PluginConfig struct {
	// Name is the name of the predicate, which must be one of those that --predicates enables.
	Name string `json:"name"`
	// Args are the arguments, as an object of the scheduler's type for them, in which an unknown field is an error. Its apiVersion and kind
	// are optional. A predicate that a program registers itself gets its arguments as they are.
	Args runtime.RawExtension `json:"args"`
}

// PodTemplate declares where a custom kind has its pod template.
type PodTemplate struct {
	// Group is the API group of one resource, in all versions, and empty for the core group; Resource is its plural name, without wildcards.
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Kind is the resource's kind, such as Workflow. It must be set.
	Kind string `json:"kind"`
	// Path is the path of the pod template, in the syntax of CustomResourceDefinitions, for example .spec.template. It must lead below .spec.
	Path string `json:"path"`
}

// Placement declares where a custom kind has the list of the clusters that its objects run on.
type Placement struct {
	// Group is the API group of one resource, in all versions, and empty for the core group; Resource is its plural name, without wildcards.
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Kind is the resource's kind, such as Rollout. It must be set.
	Kind string `json:"kind"`
	// Path is the path of the list of cluster names, in the syntax of CustomResourceDefinitions, for example .spec.clusters. It must lead
	// below .spec.
	Path string `json:"path"`
}
