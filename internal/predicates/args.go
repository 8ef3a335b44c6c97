package predicates

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// PluginConfig are the arguments of one plugin, as in KubeSchedulerConfiguration.
type PluginConfig struct {
	// Name is the plugin's.
	Name string
	// Args are its arguments in JSON, with apiVersion and kind or without: unset fields are defaulted.
	Args runtime.RawExtension
}

// configure gives predicates their arguments, defaulted where none are configured.
func configure(predicates []configured, config []PluginConfig) error {
	given := map[string]bool{}
	for i, c := range config {
		path := field.NewPath("pluginConfig").Index(i)
		at := slices.IndexFunc(predicates, func(p configured) bool { return p.Name == c.Name })
		if at < 0 {
			return field.Invalid(path.Child("name"), c.Name, "there are arguments for a predicate that is not in use")
		}
		if given[c.Name] {
			return field.Duplicate(path.Child("name"), c.Name)
		}
		given[c.Name] = true
		if err := predicates[at].configure(path.Child("args"), c.Args.Raw); err != nil {
			return fmt.Errorf("predicate %s: %w", c.Name, err)
		}
	}
	for i := range predicates {
		if given[predicates[i].Name] {
			continue
		}
		if err := predicates[i].configure(field.NewPath("args"), nil); err != nil {
			return fmt.Errorf("predicate %s: %w", predicates[i].Name, err)
		}
	}
	return nil
}

// configure decodes the arguments of the scheduler's plugins by the scheduler's own scheme, which is strict and defaults
// what is not set. Those of others are handed on as they are, as the scheduler does.
func (p *configured) configure(path *field.Path, raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if bytes.Equal(raw, []byte("null")) {
		raw = nil
	}
	if !p.inTree {
		if raw != nil {
			p.args = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
		}
		return nil
	}
	kind := configv1.SchemeGroupVersion.WithKind(p.Name + "Args")
	if !scheme.Scheme.Recognizes(kind) {
		if raw != nil {
			return field.Forbidden(path, "it has no arguments")
		}
		return nil
	}
	if raw == nil {
		raw = []byte("{}")
	}
	obj, decoded, err := scheme.Codecs.UniversalDecoder().Decode(raw, &kind, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if *decoded != kind {
		return field.Invalid(path.Child("kind"), decoded.String(), "they are not of "+kind.String())
	}
	if err := validate(path, obj); err != nil {
		return err
	}
	p.args = obj
	return nil
}

// validate asks the scheduler's own validation. Plugins do it again when they are made, which is too late to say so.
func validate(path *field.Path, obj runtime.Object) error {
	switch args := obj.(type) {
	case *config.InterPodAffinityArgs:
		return validation.ValidateInterPodAffinityArgs(path, args)
	case *config.NodeAffinityArgs:
		return validation.ValidateNodeAffinityArgs(path, args)
	case *config.NodeResourcesFitArgs:
		return validation.ValidateNodeResourcesFitArgs(path, args)
	case *config.VolumeBindingArgs:
		return validation.ValidateVolumeBindingArgs(path, args)
	case *config.PodTopologySpreadArgs:
		if err := validation.ValidatePodTopologySpreadArgs(path, args); err != nil {
			return err
		}
		return spread(path, args)
	default:
		return errors.New("nothing validates its arguments")
	}
}

// spread leaves of the constraints that are by default only those that filter: none of the scheduler's own defaults do,
// and the plugin would want to know the Services, ReplicaSets and StatefulSets of a pod for nothing.
func spread(path *field.Path, args *config.PodTopologySpreadArgs) error {
	args.DefaultingType = config.ListDefaulting
	for i, c := range args.DefaultConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return field.Forbidden(path.Child("defaultConstraints").Index(i).Child("whenUnsatisfiable"),
				"it takes the Services and the controllers of pods to tell to which it applies, which nothing watches here; "+
					"name the constraint in the pods")
		}
	}
	args.DefaultConstraints = nil
	return nil
}
