package workload

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// deploymentKind is the one kind of Kubernetes' own that makes ReplicaSets.
var deploymentKind = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}

// MakesReplicaSets reports whether the objects of a kind may make ReplicaSets of their pod template: Deployments, and the
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

// MadeBy reports whether a ReplicaSet has the pod template of an object of a kind that MakesReplicaSets. As the deployment
// controller does (k8s.io/kubernetes/pkg/controller/deployment/util.EqualIgnoreHash), it compares what the API server
// makes of both templates, without the labels by which the owner tells its ReplicaSets apart. An object without a
// readable template made no ReplicaSet.
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

// podTemplate returns the template at a path of an object with the API server's defaults, and without the hash of its
// owner.
func podTemplate(object map[string]any, path []string) (*corev1.PodTemplateSpec, error) {
	template, err := objectAt(object, path...)
	if err != nil {
		return nil, err
	}
	out := &corev1.PodTemplate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &out.Template); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	corev1defaults.SetObjectDefaults_PodTemplate(out)
	// Argo Rollouts has a prefix before the name of the label.
	maps.DeleteFunc(out.Template.Labels, func(label, _ string) bool {
		return strings.HasSuffix(label, appsv1.DefaultDeploymentUniqueLabelKey)
	})
	return &out.Template, nil
}
