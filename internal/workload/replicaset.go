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

package workload

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/berth-dev/berth/internal/numeral"
)

// deploymentKind is the only built-in kind that creates ReplicaSets.
var deploymentKind = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}

// MakesReplicaSets reports whether objects of a kind may create ReplicaSets from their pod template: Deployments, and objects of the
// declared kinds.
func (t *Templates) MakesReplicaSets(gk schema.GroupKind) bool {
	if gk == deploymentKind {
		return true
	}
	if t == nil {
		return false
	}
	_, declared := t.declared[gk]
	return declared
}

// MadeBy reports whether a ReplicaSet has the pod template of its owner, an object of a kind for which MakesReplicaSets
// is true. Like the deployment controller (k8s.io/kubernetes/pkg/controller/deployment/util.EqualIgnoreHash), it
// compares both templates with the API server's defaults and without the labels by which the owner distinguishes its
// ReplicaSets. It returns false for an owner without a readable template.
func (t *Templates) MadeBy(replicaSet, owner map[string]any) bool {
	k, err := t.kindOf(owner)
	if err != nil {
		return false
	}
	of, err := podTemplate(owner, k.template)
	if err != nil {
		return false
	}
	has, err := podTemplate(replicaSet, builtinKinds[schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}].template)
	return err == nil && equality.Semantic.DeepEqual(of, has)
}

// podTemplate returns the template at a path of an object, with the API server's defaults and without the owner's hash
// label.
func podTemplate(object map[string]any, path []string) (*corev1.PodTemplateSpec, error) {
	template, err := objectAt(object, path...)
	if err != nil {
		return nil, err
	}
	out := &corev1.PodTemplate{}
	if err := numeral.FromUnstructured(template, &out.Template); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	corev1defaults.SetObjectDefaults_PodTemplate(out)
	// Argo Rollouts adds a prefix to the label's name.
	maps.DeleteFunc(out.Template.Labels, func(label, _ string) bool {
		return strings.HasSuffix(label, appsv1.DefaultDeploymentUniqueLabelKey)
	})
	return &out.Template, nil
}
