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
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1defaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	batchv1defaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"
)

// Presence says which objects of a kind have a field: all, some, or none. The zero value means that this is not known.
type Presence int

const (
	// Unknown is for fields of which nothing is known.
	Unknown Presence = iota
	// Always is for fields that each object has, because the API server requires them or sets a default.
	Always
	// Sometimes is for fields that an object may lack.
	Sometimes
	// Never is for fields that no object has.
	Never
)

// PresenceOf says which objects of a built-in type of workloads have the field at a path: Never if the type has no such field. It returns
// Unknown for fields of the items of lists, and for other types.
func PresenceOf(resource schema.GroupVersionResource, path []string) Presence {
	least, known := leastObjects()[resource]
	if !known {
		return Unknown
	}
	of, value, always := least.of, any(least.content), true
	for _, name := range path {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case of.Kind() == reflect.Map:
			of = of.Elem()
		case of.Kind() == reflect.Slice || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()):
			return Unknown
		case of.Kind() != reflect.Struct:
			return Never
		default:
			member, has := memberOf(of, name)
			if !has {
				return Never
			}
			of = member
		}
		object, _ := value.(map[string]any)
		member, has := object[name]
		value, always = member, always && has
	}
	if always {
		return Always
	}
	return Sometimes
}

// memberOf returns the type of the member with a name in the JSON of a struct.
func memberOf(of reflect.Type, name string) (member reflect.Type, ok bool) {
	for f := range of.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == name && tag != "":
			return f.Type, true
		case f.Anonymous && tag == "" && strings.Contains(options, "inline"):
			if member, ok := memberOf(f.Type, name); ok {
				return member, true
			}
		}
	}
	return nil, false
}

// leastObject is the least object of a kind that the API server stores. Each object of the kind has its fields.
type leastObject struct {
	of      reflect.Type
	content map[string]any
}

// leastObjects has the least object of each built-in type of workloads.
var leastObjects = sync.OnceValue(func() map[schema.GroupVersionResource]leastObject {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	// The selector requires labels of the template.
	labels := map[string]string{"example.com/least": "a"}
	labelled, selector := template, &metav1.LabelSelector{MatchLabels: labels}
	labelled.Labels = labels

	// The types of strategies have no further fields.
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Selector: selector, Template: *labelled.DeepCopy(), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
	}}
	appsv1defaults.SetObjectDefaults_Deployment(deployment)
	statefulSet := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		Selector: selector, Template: *labelled.DeepCopy(),
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
	}}
	appsv1defaults.SetObjectDefaults_StatefulSet(statefulSet)
	daemonSet := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{
		Selector: selector, Template: *labelled.DeepCopy(),
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
	}}
	appsv1defaults.SetObjectDefaults_DaemonSet(daemonSet)
	replicaSet := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: *labelled.DeepCopy()}}
	appsv1defaults.SetObjectDefaults_ReplicaSet(replicaSet)
	controller := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: labelled.DeepCopy()}}
	corev1defaults.SetObjectDefaults_ReplicationController(controller)
	// With parallelism, completions has no default.
	job := &batchv1.Job{Spec: batchv1.JobSpec{Template: *template.DeepCopy(), Parallelism: ptr.To[int32](1)}}
	batchv1defaults.SetObjectDefaults_Job(job)
	jobTemplate := batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: *template.DeepCopy()}}
	cronJob := &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: jobTemplate}}
	batchv1defaults.SetObjectDefaults_CronJob(cronJob)
	pod := &corev1.Pod{Spec: *template.Spec.DeepCopy()}
	// The API server's own admission sets these before it calls webhooks.
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "a", "a"
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To[int32](0), ptr.To(corev1.PreemptLowerPriority)
	pod.Spec.Tolerations, pod.Spec.Volumes = []corev1.Toleration{{}}, []corev1.Volume{{Name: "a"}}
	corev1defaults.SetObjectDefaults_Pod(pod)

	out := map[schema.GroupVersionResource]leastObject{}
	for resource, object := range map[schema.GroupVersionResource]any{
		appsv1.SchemeGroupVersion.WithResource("deployments"): deployment, appsv1.SchemeGroupVersion.WithResource("statefulsets"): statefulSet,
		appsv1.SchemeGroupVersion.WithResource("daemonsets"): daemonSet, appsv1.SchemeGroupVersion.WithResource("replicasets"): replicaSet,
		batchv1.SchemeGroupVersion.WithResource("jobs"): job, batchv1.SchemeGroupVersion.WithResource("cronjobs"): cronJob,
		corev1.SchemeGroupVersion.WithResource("pods"): pod, corev1.SchemeGroupVersion.WithResource("replicationcontrollers"): controller,
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			panic(fmt.Sprintf("the least object of %s: %v", resource, err))
		}
		out[resource] = leastObject{reflect.TypeOf(object), content}
	}
	return out
})
