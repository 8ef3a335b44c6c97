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

// pod is one that is on a node, cut to what predicates look at. It is immutable.
type pod struct {
	object corev1.Pod
	info   framework.PodInfo

	shape  *shape
	labels *map[string]string
}

// shape is what the replicas of a workload have in common, wherever they are: all of a pod but its metadata, its node and
// its phase. Most of the memory that a typed pod takes is in the lists of resources that belong to it.
type shape struct {
	object corev1.Pod
	info   framework.PodInfo
}

// shapes keep one copy of what pods have in common.
type shapes struct {
	shapes weakcache.Cache[shape]
	labels weakcache.Cache[map[string]string]
}

// record is a pod in its place among all others.
type record struct {
	namespace, name string
	pod             *pod
}

func sooner(a, b record) bool {
	if a.namespace != b.namespace {
		return a.namespace < b.namespace
	}
	return a.name < b.name
}

// at is the place of a pod.
func at(namespace, name string) record { return record{namespace: namespace, name: name} }

// onNode says whether a pod is on a node: whether it is bound, and has not ended.
func onNode(o *unstructured.Unstructured) bool {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return node != "" && phase != string(corev1.PodSucceeded) && phase != string(corev1.PodFailed)
}

// pod makes a pod of an object. What the API server would refuse is an error.
func (s *shapes) pod(o *unstructured.Unstructured) (*pod, error) {
	document := reads()[podResource].Cut(o.Object)
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
	// Each pod would have its own copy of these.
	p.object.Namespace = unique.Make(o.GetNamespace()).Value()
	p.object.Spec.NodeName = unique.Make(node).Value()
	p.object.Name, p.object.UID, p.object.Labels = o.GetName(), o.GetUID(), *p.labels
	if p.object.UID == "" {
		// NodeInfo finds pods by their UID, which all pods of an API server have.
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

// same says whether two pods of the same name show the same to predicates.
func (p *pod) same(other *pod) bool {
	return p.shape == other.shape && p.labels == other.labels && p.object.UID == other.object.UID &&
		p.object.Spec.NodeName == other.object.Spec.NodeName && p.object.DeletionTimestamp.Equal(other.object.DeletionTimestamp)
}

// shape returns that of pods with a spec and a status.
func (s *shapes) shape(namespace string, spec, status map[string]any) (*shape, error) {
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	fields := reads()[podResource]
	var ok, there bool
	if *space, ok = fields.Below("spec").AppendKey((*space)[:0], spec); ok {
		*space, ok = fields.Below("status").AppendKey(*space, status)
	}
	if !ok {
		return nil, errors.New("no JSON")
	}
	// The terms of an affinity are about the namespace of the pod, if they name no other ones.
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
		// An error is that a term's selector is invalid, which is then left out as in kube-scheduler.
		info, _ := framework.NewPodInfo(object)
		// What it computes now is not computed by readers at the same time.
		info.CalculateResource()
		info.Pod = nil
		return &shape{object: *object, info: *info}, nil
	})
}

// labelled returns the labels of a pod.
func (s *shapes) labelled(value any) (*map[string]string, error) {
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	var ok bool
	if *space, ok = reads()[podResource].Below("metadata", "labels").AppendKey((*space)[:0], value); !ok {
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
