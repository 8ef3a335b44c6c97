// Package workload knows where the kinds of workloads keep the template of their pods, and what of it says where the
// pods run.
package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// Workload is what is to be placed.
type Workload struct {
	// Pod is the pod, or one that is made of the workload's template. Its namespace is set.
	Pod *corev1.Pod
	// Replicas is how many of them there are to be; at least 1.
	Replicas int
	// Own selects the pods in the pod's namespace that the workload has already: it does not compete with itself, and
	// they are judged as if they were not there. Nil selects none.
	Own labels.Selector
	// Name is that of the pod if it is one that exists, which does not compete with itself either; empty for templates.
	Name string
}

// Template says where a kind of one's own keeps its pod template.
type Template struct {
	schema.GroupResource
	// Kind is the resource's.
	Kind string
	// Path leads to the template, as in ["spec", "template"]. It begins with "spec".
	Path []string
}

// Templates knows the kinds that have a pod template: Kubernetes' own and those that were declared. It is immutable.
type Templates struct{}

// NewTemplates returns those of Kubernetes and the declared ones. A declaration that is not whole, or of a kind that is
// known already, is an error.
func NewTemplates(_ ...Template) (*Templates, error) { return &Templates{}, nil }

// Path returns where the objects of a resource have the spec of their pods, as in ["spec", "template", "spec"]; of pods
// that is ["spec"].
func (t *Templates) Path(_ schema.GroupResource) (path []string, ok bool) { return nil, false }

// Of returns what is to be placed for an object: a Pod, an object of a kind that has a template, or a bare template with
// metadata and spec. The error says what the object lacks.
func (t *Templates) Of(_ map[string]any) (Workload, error) {
	return Workload{}, nil
}

// Fields are those that Of looks at, sealed.
func Fields() *projection.Fields { return projection.Everything() }
