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

// PluginConfig holds the arguments of one plugin, as in KubeSchedulerConfiguration.
type PluginConfig struct {
	// Name is the plugin's name. It is an error if it is not in the list of predicates, or if two PluginConfigs have it.
	Name string
	// Args are the plugin's arguments as JSON. For a plugin of kube-scheduler, apiVersion and kind are optional, unset fields get their
	// defaults, and unknown fields are an error. Other plugins get the JSON as it is.
	Args runtime.RawExtension
}

// configure sets the arguments of the predicates. Predicates without configured arguments get the defaults. It returns an error for a
// predicate that is configured twice, or is not among these, and for invalid arguments.
func configure(predicates []configuredPredicate, config []PluginConfig) error {
	given := map[string]bool{}
	for i, c := range config {
		path := field.NewPath("pluginConfig").Index(i)
		at := slices.IndexFunc(predicates, func(p configuredPredicate) bool { return p.Name == c.Name })
		if at < 0 {
			return field.Invalid(path.Child("name"), c.Name, "the predicate is not in use: remove its arguments, or add it to the list of "+
				"predicates")
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

// configure decodes the plugin's arguments, which are JSON, and sets p.args. path is the path of the arguments, for errors; raw is empty or
// null if none are configured. For the scheduler's own plugins it uses the scheduler's scheme, which is strict and sets defaults, validates
// the arguments, and returns an error if the plugin has none. Other plugins get the raw arguments, as in the scheduler.
func (p *configuredPredicate) configure(path *field.Path, raw []byte) error {
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
			return field.Forbidden(path, "the predicate has no arguments")
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
		return field.Invalid(path.Child("kind"), decoded.String(), "the arguments must be of "+kind.String())
	}
	if err := validate(path, obj); err != nil {
		return err
	}
	p.args = obj
	return nil
}

// validate runs the scheduler's own validation of a plugin's arguments. Arguments of a type that it does not know are an error. Plugins
// validate again when they are created, but that is too late to report errors to the user.
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
		return errors.New("arguments of this type can't be checked, so the predicate takes none: remove them")
	}
}

// spread removes the default constraints that do not filter, and returns an error for one that does. None of the scheduler's
// own defaults filter. With any default constraint, the plugin would need the Services, ReplicaSets, and StatefulSets of a
// pod.
func spread(path *field.Path, args *config.PodTopologySpreadArgs) error {
	args.DefaultingType = config.ListDefaulting
	for i, c := range args.DefaultConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return field.Forbidden(path.Child("defaultConstraints").Index(i).Child("whenUnsatisfiable"),
				"a default constraint with DoNotSchedule needs the Services and the controllers of pods, which Berth does not watch; "+
					"set the constraint in the pods")
		}
	}
	args.DefaultConstraints = nil
	return nil
}
