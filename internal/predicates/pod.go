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
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/weakcache"
)

// pod is a pod on a node, reduced to the fields that predicates read, with what the scheduler derives from them. It has
// metadata.deletionTimestamp, but not the phase. It is immutable.
type pod struct {
	object corev1.Pod
	info   framework.PodInfo // What the scheduler derives from object.

	shape  *shape             // Pods with equal shapes share one.
	labels *map[string]string // Pods with equal labels share one map.
}

// shape is what replicas of a workload have in common: the spec of a pod without the node's name, and its status without the phase. Sharing
// it saves most of the memory of a typed pod, which its resource lists take.
type shape struct {
	object corev1.Pod
	info   framework.PodInfo
}

// shapes shares the common parts of pods as long as a pod has them.
type shapes struct {
	shapes weakcache.Cache[shape]             // By the digest of the parts of a pod that are in its shape.
	labels weakcache.Cache[map[string]string] // By the digest of the labels.
}

// record is a pod with its key in the tree of all pods.
type record struct {
	namespace, name string
	pod             *pod
}

// lessRecord orders records by namespace and name.
func lessRecord(a, b record) bool {
	if a.namespace != b.namespace {
		return a.namespace < b.namespace
	}
	return a.name < b.name
}

// at returns a record to look up the pod with that name.
func at(namespace, name string) record { return record{namespace: namespace, name: name} }

// onNode reports whether a pod is on a node: it is bound and has not terminated.
func onNode(o *unstructured.Unstructured) bool {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return node != "" && phase != string(corev1.PodSucceeded) && phase != string(corev1.PodFailed)
}

// pod converts an object to a pod. It returns an error for an object that the API server would reject.
func (s *shapes) pod(o *unstructured.Unstructured) (*pod, error) {
	document := reads()[podResource].Project(o.Object)
	prune(document)
	spec, _ := document["spec"].(map[string]any)
	status, _ := document["status"].(map[string]any)
	metadata, _ := document["metadata"].(map[string]any)
	node, _ := spec["nodeName"].(string)
	delete(spec, "nodeName")
	delete(status, "phase")

	p := &pod{}
	var err error
	if p.shape, err = s.shape(o.GetNamespace(), spec, status); err != nil {
		return nil, err
	}
	if p.labels, err = s.labelled(metadata["labels"]); err != nil {
		return nil, err
	}
	p.object = p.shape.object
	// Share these strings between pods.
	p.object.Namespace = unique.Make(o.GetNamespace()).Value()
	p.object.Spec.NodeName = unique.Make(node).Value()
	p.object.Name, p.object.UID, p.object.Labels = o.GetName(), o.GetUID(), *p.labels
	if p.object.UID == "" {
		// NodeInfo finds pods by UID. All pods of an API server have one.
		p.object.UID = types.UID(p.object.Namespace + "/" + p.object.Name)
	}
	if going, ok := metadata["deletionTimestamp"]; ok && going != nil {
		text, _ := going.(string)
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("deletionTimestamp: %w", err)
		}
		p.object.DeletionTimestamp = &metav1.Time{Time: at}
	}
	p.info = p.shape.info
	p.info.Pod = &p.object
	return p, nil
}

// same reports whether predicates see no difference between two pods of the same name: whether both have the same UID, node, labels, shape,
// and time of deletion.
func (p *pod) same(other *pod) bool {
	return p.shape == other.shape && p.labels == other.labels && p.object.UID == other.object.UID &&
		p.object.Spec.NodeName == other.object.Spec.NodeName && p.object.DeletionTimestamp.Equal(other.object.DeletionTimestamp)
}

// shape returns the shared shape of the pods of a namespace with this spec and status.
func (s *shapes) shape(namespace string, spec, status map[string]any) (*shape, error) {
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	fields := reads()[podResource]
	var ok, there bool
	if *space, ok = fields.AtPath("spec").AppendKey((*space)[:0], spec); ok {
		*space, ok = fields.AtPath("status").AppendKey(*space, status)
	}
	if !ok {
		return nil, errors.New("no JSON")
	}
	// The terms of an affinity apply to the pod's namespace if they name no other, so the namespace is part of the key.
	if _, there = spec["affinity"]; !there {
		namespace = ""
	}
	*space = append(*space, namespace...)
	key := sha256.Sum256(*space)
	return s.shapes.Get(string(key[:]), func() (*shape, error) {
		object, err := convert[corev1.Pod](map[string]any{
			"metadata": map[string]any{"namespace": namespace}, "spec": spec, "status": status,
		})
		if err != nil {
			return nil, err
		}
		// Ignore the error: it means that a term has an invalid selector. Like kube-scheduler, NewPodInfo omits that
		// term.
		info, _ := framework.NewPodInfo(object)
		// Compute this now, so that concurrent readers do not.
		info.CalculateResource()
		info.Pod = nil
		return &shape{object: *object, info: *info}, nil
	})
}

// labelled returns the shared labels of a pod. value is its metadata.labels.
func (s *shapes) labelled(value any) (*map[string]string, error) {
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	var ok bool
	if *space, ok = reads()[podResource].AtPath("metadata", "labels").AppendKey((*space)[:0], value); !ok {
		return nil, errors.New("no JSON")
	}
	key := sha256.Sum256(*space)
	return s.labels.Get(string(key[:]), func() (*map[string]string, error) {
		object, err := convert[corev1.Pod](map[string]any{"metadata": map[string]any{"labels": value}})
		if err != nil {
			return nil, err
		}
		return &object.Labels, nil
	})
}
