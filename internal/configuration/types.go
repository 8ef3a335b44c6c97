// Package configuration reads the manager's configuration file, in the form of Kubernetes' component configurations. It
// is for what flags have no room for.
package configuration

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/internal/replication"
)

// What the file has to say of itself.
const (
	APIVersion = "config.berth.dev/v1alpha1"
	Kind       = "ManagerConfiguration"
)

// ManagerConfiguration is the content of the file.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Predicates configure the predicates of --predicates.
	Predicates Predicates `json:"predicates,omitzero"`
	// PodTemplates are kinds of workloads that Kubernetes does not know.
	PodTemplates []PodTemplate `json:"podTemplates,omitempty"`
	// Inventories are resource types whose objects stand for clusters, besides those that Berth knows and after them.
	Inventories []replication.Declaration `json:"inventories,omitempty"`
}

// Predicates configure predicates.
type Predicates struct {
	// PluginConfig are the arguments of predicates, each at most once, as in KubeSchedulerConfiguration. What they do not
	// set has the scheduler's defaults.
	PluginConfig []PluginConfig `json:"pluginConfig,omitempty"`
}

// PluginConfig are the arguments of one predicate.
type PluginConfig struct {
	// Name is the predicate's.
	Name string `json:"name"`
	// Args are its arguments, with apiVersion and kind or without.
	Args runtime.RawExtension `json:"args"`
}

// PodTemplate says where a kind of one's own has the template of its pods.
type PodTemplate struct {
	// Group and Resource name the resource, as in a rule of spec.match.
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Kind is the resource's kind.
	Kind string `json:"kind"`
	// Path leads to the template, as the paths of a CustomResourceDefinition do, as in .spec.template.
	Path string `json:"path"`
}
