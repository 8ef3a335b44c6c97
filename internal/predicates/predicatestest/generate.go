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

// Package predicatestest generates worlds and pods for tests that compare the verdicts of predicates with the
// scheduler's. The generated objects pass the API server's validation, and use all features that the default predicates
// read.
package predicatestest

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	rackLabel       = "rack"
	diskLabel       = "disk"
	generationLabel = "generation"
)

// gpu is the extended resource that some nodes have and some pods request.
const gpu corev1.ResourceName = "example.com/gpu"

// namespaces are the names of the namespaces of each world.
var namespaces = []string{"blue", "green", "red"}

// overhead is the pod overhead of the RuntimeClass.
var overhead = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("120Mi"),
}

// RuntimeClass returns the RuntimeClass that pods name.
func RuntimeClass() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"},
		Handler:    "sandboxed",
		Overhead:   &nodev1.Overhead{PodFixed: overhead.DeepCopy()},
	}
}

// World holds the objects that exist before a pod is evaluated.
type World struct {
	Nodes []*corev1.Node
	// Pods are bound to nodes, and some to a node that does not exist. Some have terminated, some have a
	// DeletionTimestamp, and some have a status with allocated resources.
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
}

// Generator generates worlds and pods from a source of random numbers. It is not safe for concurrent use.
type Generator struct {
	rng *rand.Rand
	// prefix is the prefix of the names of nodes and pods. Generators with different ones make no equal names.
	prefix string
	// nodes are the names of the nodes of the last generated world; nil before the first.
	nodes []string
	// ports are the host ports of running pods, in the form "node-1 8080". A running pod gets none that another one has on its node.
	ports map[string]bool
	made  int // The number of generated names of pods, each of which ends with its number. Nodes are numbered in each world alone.
}

// New returns a generator. With different prefixes, worlds have no nodes or pods of the same name.
func New(rng *rand.Rand, prefix string) *Generator {
	return &Generator{rng: rng, prefix: prefix, ports: map[string]bool{}}
}

// chance returns true with a probability in percent.
func (g *Generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

// pick returns one of the values at random.
func pick[T any](g *Generator, of ...T) T { return of[g.rng.IntN(len(of))] }

// some returns at least one of the values, in their order.
func some[T any](g *Generator, of ...T) []T {
	var out []T
	for _, v := range of {
		if g.chance(40) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		out = append(out, pick(g, of...))
	}
	return out
}

// name returns a new name that contains the prefix and the kind.
func (g *Generator) name(kind string) string {
	g.made++
	return g.prefix + kind + "-" + strconv.Itoa(g.made)
}

// gone returns the name of a node that does not exist.
func (g *Generator) gone() string { return g.prefix + "gone" }

// anyNode returns the name of a node of the last generated world, or the name from gone, each with the same probability.
func (g *Generator) anyNode() string {
	if n := g.rng.IntN(len(g.nodes) + 1); n < len(g.nodes) {
		return g.nodes[n]
	}
	return g.gone()
}

// World generates a world with this number of nodes. Pods that are generated later refer to its nodes.
func (g *Generator) World(nodes int) World {
	g.nodes = nil
	w := World{Namespaces: g.Namespaces()}
	for i := range nodes {
		name := fmt.Sprintf("%snode-%d", g.prefix, i)
		g.nodes = append(g.nodes, name)
		w.Nodes = append(w.Nodes, g.Node(name))
	}
	for _, node := range g.nodes {
		for range g.rng.IntN(4) {
			w.Pods = append(w.Pods, g.Running(node))
		}
	}
	if g.chance(30) {
		w.Pods = append(w.Pods, g.Running(g.gone()))
	}
	return w
}

// Namespaces generates all namespaces, with new labels on each call.
func (g *Generator) Namespaces() []*corev1.Namespace {
	out := make([]*corev1.Namespace, 0, len(namespaces))
	for _, name := range namespaces {
		labels := map[string]string{corev1.LabelMetadataName: name, "team": pick(g, "a", "b")}
		if g.chance(60) {
			labels["stage"] = pick(g, "live", "test")
		}
		out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	return out
}

// Node generates a node with the name that is ready, with random labels, taints, and allocatable resources, and sometimes unschedulable. It
// has no images.
func (g *Generator) Node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range []struct {
		key, value string
		percent    int
	}{
		{corev1.LabelHostname, name, 97},
		{corev1.LabelTopologyZone, pick(g, "z1", "z2", "z3"), 90},
		{rackLabel, pick(g, "r1", "r2"), 85},
		{diskLabel, pick(g, "ssd", "hdd"), 75},
		{generationLabel, strconv.Itoa(1 + g.rng.IntN(9)), 70},
	} {
		if g.chance(label.percent) {
			node.Labels[label.key] = label.value
		}
	}
	node.Spec.Unschedulable = g.chance(10)
	for _, taint := range []struct {
		taint   corev1.Taint
		percent int
	}{
		{corev1.Taint{Key: "dedicated", Value: pick(g, "gpu", "batch"), Effect: corev1.TaintEffectNoSchedule}, 15},
		{corev1.Taint{Key: "spot", Effect: corev1.TaintEffectNoExecute}, 10},
		{corev1.Taint{Key: "maintenance", Value: "soon", Effect: corev1.TaintEffectPreferNoSchedule}, 20},
	} {
		if g.chance(taint.percent) {
			node.Spec.Taints = append(node.Spec.Taints, taint.taint)
		}
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(pick(g, "1", "2", "3500m")),
		corev1.ResourceMemory: resource.MustParse(pick(g, "1Gi", "2Gi", "6G")),
		corev1.ResourcePods:   resource.MustParse(pick(g, "2", "4", "110", "110")),
	}
	for _, other := range []struct {
		name    corev1.ResourceName
		amount  string
		percent int
	}{
		{corev1.ResourceEphemeralStorage, pick(g, "2Gi", "10Gi"), 75},
		{gpu, pick(g, "0", "1", "2"), 60},
		{corev1.ResourceHugePagesPrefix + "2Mi", "64Mi", 50},
	} {
		if g.chance(other.percent) {
			node.Status.Allocatable[other.name] = resource.MustParse(other.amount)
		}
	}
	node.Status.Capacity = node.Status.Allocatable.DeepCopy()
	// The capacity differs from what is allocatable, because only the latter may count.
	node.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("64")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	return node
}
