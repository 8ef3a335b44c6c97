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
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/workload"
)

// generator generates worlds and pods with few distinct values, so that they often match.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 6))} }

// one returns one of the words. often returns true n times out of m.
func (g generator) one(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) often(n, m int) bool { return g.IntN(m) < n }

func (g generator) node(name string) string {
	labels := []string{"kubernetes.io/hostname: " + name}
	if g.often(3, 4) {
		labels = append(labels, "zone: "+g.one("x", "y", "z"))
	}
	if g.often(1, 2) {
		labels = append(labels, "disk: "+g.one("ssd", "hdd"))
	}
	spec := ""
	if g.often(1, 8) {
		spec = "unschedulable: true"
	} else if g.often(1, 6) {
		spec = "taints: [{key: " + g.one("k", "l") + ", effect: " + g.one("NoSchedule", "NoExecute", "PreferNoSchedule") + "}]"
	}
	return fmt.Sprintf("{metadata: {name: %s, labels: {%s}}, spec: {%s}, status: {allocatable: {cpu: %d, memory: %dGi, pods: %d}}}",
		name, strings.Join(labels, ", "), spec, 1+g.IntN(8), 1+g.IntN(8), 2+g.IntN(12))
}

func (g generator) term() string {
	more := ""
	if g.often(1, 3) {
		more = ", namespaceSelector: " + g.one("{}", "{matchLabels: {team: red}}")
	}
	return fmt.Sprintf("[{topologyKey: %s, labelSelector: {matchLabels: {app: %s}}%s}]",
		g.one("zone", corev1.LabelHostname), g.one("a", "b"), more)
}

// spec returns a pod spec. If new is false, the spec belongs to an existing pod, and only has fields that affect other
// pods.
func (g generator) spec(new bool) string {
	container := "name: c"
	if g.often(3, 4) {
		container += fmt.Sprintf(", resources: {requests: {cpu: %dm, memory: %dMi}}", 100*g.IntN(15), 100*g.IntN(15))
	}
	if g.often(1, 5) {
		container += ", ports: [{containerPort: 80, hostPort: " + g.one("80", "81") + "}]"
	}
	out := []string{"containers: [{" + container + "}]"}
	var affinity []string
	if g.often(1, 5) {
		affinity = append(affinity, "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+g.term()+"}")
	}
	if g.often(1, 6) {
		affinity = append(affinity, "podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+g.term()+"}")
	}
	if new {
		if g.often(1, 12) {
			affinity = append(affinity, `nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:
				[{matchFields: [{key: metadata.name, operator: In, values: [`+g.one("n0", "n1", "n9")+`]}]}]}}`)
		}
		if g.often(1, 4) {
			out = append(out, "nodeSelector: {disk: "+g.one("ssd", "hdd")+"}")
		}
		if g.often(1, 3) {
			out = append(out, "tolerations: [{key: "+g.one("k", "l")+", operator: Exists}]")
		}
		if g.often(1, 3) {
			more := g.one("", ", minDomains: 2", ", minDomains: 4", ", nodeTaintsPolicy: Honor", ", nodeAffinityPolicy: Ignore")
			out = append(out, fmt.Sprintf(`topologySpreadConstraints: [{maxSkew: %d, topologyKey: %s, whenUnsatisfiable: DoNotSchedule,
				labelSelector: {matchLabels: {app: %s}}%s}]`, 1+g.IntN(3), g.one("zone", corev1.LabelHostname), g.one("a", "b"), more))
		}
	}
	return strings.Join(append(out, "affinity: {"+strings.Join(affinity, ", ")+"}"), ", ")
}

// pod returns the i-th pod, on a random node.
func (g generator) pod(i, nodes int) string {
	return fmt.Sprintf("{metadata: {name: p%d, namespace: %s, labels: {app: %s}}, spec: {nodeName: n%d, %s}}",
		i, namespaceOf(i), g.one("a", "b", "c"), g.IntN(nodes), g.spec(false))
}

func namespaceOf(pod int) string { return []string{"default", "default", "other"}[pod%3] }

func (g generator) namespace(name string) string {
	return fmt.Sprintf("{metadata: {name: %s, labels: {kubernetes.io/metadata.name: %[1]s, team: %s}}}", name, g.one("red", "blue"))
}

// objects returns the objects of a world.
func (g generator) objects(nodes, pods int) []string {
	out := []string{g.namespace("default"), g.namespace("other")}
	for i := range nodes {
		out = append(out, g.node(fmt.Sprintf("n%d", i)))
	}
	for i := range pods {
		out = append(out, g.pod(i, nodes))
	}
	return out
}

func (g generator) workload(t testing.TB, replicas int) workload.Workload {
	w := podOf(t, fmt.Sprintf("{metadata: {labels: {app: %s}}, spec: {%s}}", g.one("a", "b"), g.spec(true)))
	w.Replicas = replicas
	switch g.IntN(3) {
	case 0:
		w.Own = labels.SelectorFromSet(labels.Set{"app": w.Pod.Labels["app"]})
	case 1:
		w.Name = fmt.Sprintf("p%d", g.IntN(4))
	}
	return w
}

// change applies a random event to a world.
func (g generator) change(t testing.TB, w *NodeCache, nodes, pods int) {
	t.Helper()
	i := g.IntN(pods)
	switch g.IntN(10) {
	case 0:
		put(t, w, g.node(fmt.Sprintf("n%d", g.IntN(nodes+1))))
	case 1:
		w.Delete(nodeResource, "", fmt.Sprintf("n%d", g.IntN(nodes+1)))
	case 2:
		put(t, w, g.namespace(g.one("default", "other")))
	case 3, 4:
		w.Delete(podResource, namespaceOf(i), fmt.Sprintf("p%d", i))
	default:
		put(t, w, g.pod(i, nodes))
	}
}

// put adds an object in YAML to the world. An object with containers is a pod, one with a label that has its name is a
// namespace, and any other is a node.
func put(t testing.TB, w *NodeCache, text string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	switch {
	case strings.Contains(text, "containers:"):
		if o.GetNamespace() == "" {
			o.SetNamespace(metav1.NamespaceDefault)
		}
		w.Put(podResource, o)
	case strings.Contains(text, corev1.LabelMetadataName):
		w.Put(namespaceResource, o)
	default:
		w.Put(nodeResource, o)
	}
}
