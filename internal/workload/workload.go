// Package workload knows where the kinds of workloads keep the template of their pods, and what of it says where the
// pods run.
package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/berth-dev/berth/internal/projection"
)

// Workload is what is to be placed.
type Workload struct {
	// Pod is the pod, or one that is made of the workload's template: its namespace, labels and spec. The namespace is set.
	Pod *corev1.Pod
	// Replicas is how many of them there are to be at once; at least 1.
	Replicas int
	// Own selects the pods in the pod's namespace that the workload has already: it does not compete with itself, and
	// they are judged as if they were not there. Nil selects none.
	Own labels.Selector
	// Name is that of the pod if it is one that exists, which does not compete with itself either; empty for templates.
	Name string
	// Single says that the object is the pod itself. It may have no name yet.
	Single bool
}

// Of returns what is to be placed for an object: a Pod, an object of a kind that has a template, or a bare template with
// metadata and spec. Numbers may be those of any JSON decoder. The error says what the object lacks; it is an
// *UnknownKindError where nobody said where the kind has its template.
func (t *Templates) Of(object map[string]any) (Workload, error) {
	if plain, changed := plainNumbers(object); changed {
		object, _ = plain.(map[string]any)
	}
	k, err := t.kindOf(object)
	if err != nil {
		return Workload{}, err
	}
	template, err := objectAt(object, k.template...)
	if err != nil {
		return Workload{}, err
	}
	out := Workload{Replicas: 1}
	if out.Pod, err = podOf(template, k.template); err != nil {
		return Workload{}, err
	}
	metadata, err := OptionalObject(object, "metadata")
	if err != nil {
		return Workload{}, err
	}
	if out.Pod.Namespace, err = textAt(metadata, "metadata", "namespace"); err != nil {
		return Workload{}, err
	}
	if out.Pod.Namespace == "" {
		out.Pod.Namespace = metav1.NamespaceDefault
	}
	switch {
	case k.isPod:
		out.Single = true
		out.Name, err = textAt(metadata, "metadata", "name")
		out.Pod.Name = out.Name
	case k.owner != nil:
		err = k.fill(&out, object)
	}
	return out, err
}

// PathOf returns where an object that Of takes has the spec of its pods, as Path does for its resource.
func (t *Templates) PathOf(object map[string]any) ([]string, error) {
	k, err := t.kindOf(object)
	if err != nil {
		return nil, err
	}
	return k.podSpec(), nil
}

// kindOf finds the kind of an object; one that has neither apiVersion nor kind is a bare template.
func (t *Templates) kindOf(object map[string]any) (kind, error) {
	apiVersion, err := textAt(object, "", "apiVersion")
	if err != nil {
		return kind{}, err
	}
	name, err := textAt(object, "", "kind")
	if err != nil {
		return kind{}, err
	}
	if apiVersion == "" && name == "" {
		return kind{}, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return kind{}, fmt.Errorf("apiVersion: %w", err)
	}
	gk := schema.GroupKind{Group: gv.Group, Kind: name}
	k, ok := t.kind(gk)
	if !ok {
		return kind{}, &UnknownKindError{gk}
	}
	return k, nil
}

// podOf makes a pod of a template, which is at the path of an object.
func podOf(template map[string]any, path []string) (*corev1.Pod, error) {
	metadata, err := OptionalObject(template, "metadata")
	if err != nil {
		return nil, below(path, err)
	}
	pod := &corev1.Pod{}
	if pod.Labels, err = labelsAt(metadata, "metadata"); err != nil {
		return nil, below(path, err)
	}
	spec, err := objectAt(template, "spec")
	if err != nil {
		return nil, below(path, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod.Spec); err != nil {
		return nil, below(path, fmt.Errorf("spec: %w", err))
	}
	if err := checkSize(&pod.Spec); err != nil {
		return nil, below(path, fmt.Errorf("spec.%w", err))
	}
	// The API server sets these in a pod, and not in its template: a limit is a request where there is none, and so is a
	// port of the node where the pod is in the node's network.
	corev1defaults.SetDefaults_Pod(pod)
	return pod, nil
}

// fill adds how many pods there are to be, and which there are.
func (k kind) fill(w *Workload, object map[string]any) error {
	owner, err := objectAt(object, k.owner...)
	if err != nil {
		return err
	}
	if w.Replicas, err = k.replicas(owner); err != nil {
		return below(k.owner, err)
	}
	if w.Own, err = k.own(owner); err != nil {
		return below(k.owner, err)
	}
	return nil
}

func (k kind) replicas(owner map[string]any) (int, error) {
	out := 1
	for i, name := range k.counts {
		n, ok, err := countAt(owner, name)
		if err != nil {
			return 0, err
		}
		if ok && (i == 0 || n < out) {
			out = n
		}
	}
	return max(out, 1), nil
}

// own reads the selector. One that selects everything selects no workload's own pods.
func (k kind) own(owner map[string]any) (labels.Selector, error) {
	value, err := OptionalObject(owner, "selector")
	if err != nil || len(value) == 0 {
		if k.declared {
			// The declaration says nothing of a selector: what the kind has there may be anything.
			err = nil
		}
		return nil, err
	}
	_, matchLabels := value["matchLabels"]
	_, matchExpressions := value["matchExpressions"]
	switch {
	case k.mapSelector || k.declared && !matchLabels && !matchExpressions:
		set, err := stringMap(value, "selector")
		if err != nil {
			if k.declared {
				return nil, nil
			}
			return nil, err
		}
		return labels.SelectorFromSet(set), nil
	default:
		var selector metav1.LabelSelector
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, &selector)
		if err == nil && len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			return nil, nil
		}
		out, invalid := metav1.LabelSelectorAsSelector(&selector)
		if err == nil {
			err = invalid
		}
		if err != nil && k.declared {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("selector: %w", err)
		}
		return out, nil
	}
}

// fields is what Fields returns.
var fields = func() *projection.Fields {
	f := &projection.Fields{}
	f.Name("apiVersion")
	f.Name("kind")
	metadata := f.Name("metadata")
	metadata.Name("name")
	metadata.Name("namespace")
	metadata.Name("labels").All()
	f.Name("spec").All()
	// PodTemplates have theirs there.
	f.Name("template").All()
	return f.Seal()
}()

// Fields are those that Of looks at, sealed.
func Fields() *projection.Fields { return fields }
