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

package predicatestest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	appLabel  = "app"
	tierLabel = "tier"
	// versionLabel is only used in matchLabelKeys: the API server rejects a key that is also in the selector.
	versionLabel = "version"
)

// Pod generates a pod to evaluate on the nodes of the last generated world. It is not bound to a node.
func (g *Generator) Pod() *corev1.Pod {
	// If all pods were picky, cheap predicates would reject most of them before the other predicates run.
	picky := g.chance(60)
	pod := g.pod(picky)
	affinity := &corev1.Affinity{}
	if picky {
		if g.chance(20) {
			key := pick(g, diskLabel, corev1.LabelTopologyZone, rackLabel)
			pod.Spec.NodeSelector = map[string]string{key: g.nodeLabel(key)}
		}
		if g.chance(40) {
			affinity.NodeAffinity = g.nodeAffinity()
		}
		pod.Spec.Tolerations = g.tolerations()
	} else {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if g.chance(25) {
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.podTerms(30)}
	}
	if g.chance(30) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.podTerms(30)}
	}
	if g.chance(10) {
		if affinity.PodAffinity == nil {
			affinity.PodAffinity = &corev1.PodAffinity{}
		}
		affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{
			{Weight: 10, PodAffinityTerm: g.podTerm()},
		}
	}
	if *affinity != (corev1.Affinity{}) {
		pod.Spec.Affinity = affinity
	}
	pod.Spec.TopologySpreadConstraints = g.spread(55)
	return pod
}

// Running generates a pod that is bound to the node. Most such pods run; some have terminated, and some are being deleted.
func (g *Generator) Running(node string) *corev1.Pod {
	pod := g.pod(g.chance(60))
	pod.Spec.NodeName = node
	g.takePorts(pod)
	if g.chance(12) {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.podTerms(10)},
		}
	}
	if g.chance(10) {
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.podTerms(10)}
	}
	pod.Spec.TopologySpreadConstraints = g.spread(10)
	pod.Status.Phase = corev1.PodRunning
	switch n := g.rng.IntN(100); {
	case n < 8:
		pod.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
	case n < 16:
		pod.DeletionTimestamp = new(metav1.NewTime(time.Unix(1_800_000_000, 0)))
		pod.DeletionGracePeriodSeconds = new(int64(3600))
	case n < 36:
		g.resized(pod)
	}
	return pod
}

// takePorts removes the host ports of a pod that an earlier pod has on its node. The scheduler would not bind such a
// pod. And its NodeInfo does not count the users of a port: if one of two such pods is deleted, it treats the port as
// free.
func (g *Generator) takePorts(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			containers[i].Ports = slices.DeleteFunc(containers[i].Ports, func(p corev1.ContainerPort) bool {
				port := fmt.Sprintf("%s %d", pod.Spec.NodeName, p.HostPort)
				taken := g.ports[port]
				g.ports[port] = true
				return taken
			})
		}
	}
}

// little is an amount of CPU and memory that is less than what any container requests. A pod that was shrunk has it allocated.
var little = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("10Mi")}

// resized sets the status of a pod's containers, with allocated resources that may differ from the requests, and often the condition that
// a resize is pending.
func (g *Generator) resized(pod *corev1.Pod) {
	for _, c := range pod.Spec.Containers {
		status := corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Ready: true,
		}
		if len(c.Resources.Requests) > 0 {
			given := c.Resources.Requests.DeepCopy()
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if _, ok := given[name]; ok {
					given[name] = pick(g, little[name], g.amount(name))
				}
			}
			status.AllocatedResources = given
			status.Resources = &corev1.ResourceRequirements{Requests: given.DeepCopy(), Limits: c.Resources.Limits.DeepCopy()}
			if g.chance(30) {
				status.Resources.Requests[corev1.ResourceCPU] = g.amount(corev1.ResourceCPU)
			}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	if g.chance(60) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: pick(g, corev1.PodReasonInfeasible, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		}}
	}
}

// pod generates what pods to evaluate and running pods have in common: a name, a namespace, labels, containers, and host ports, but no
// affinity, tolerations, or spread constraints. takes reports whether the pod may request resources and name the RuntimeClass.
func (g *Generator) pod(takes bool) *corev1.Pod {
	name := g.name("pod")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pick(g, namespaces...), UID: types.UID(name), Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: corev1.DefaultSchedulerName,
			TerminationGracePeriodSeconds: new(int64(3600)),
		},
	}
	for _, label := range []struct {
		key, value string
		percent    int
	}{
		{appLabel, pick(g, "web", "db", "cache"), 85},
		{tierLabel, pick(g, "front", "back"), 60},
		{versionLabel, pick(g, "v1", "v2"), 60},
	} {
		if g.chance(label.percent) {
			pod.Labels[label.key] = label.value
		}
	}
	// Each pod has its own image. The scheduler remembers the node of the last pod with equal images, and tries only
	// that node.
	container := func(kind string) corev1.Container {
		c := corev1.Container{Name: kind, Image: "registry.example/" + name + ":1"}
		if takes {
			c.Resources = g.resources()
		}
		return c
	}
	pod.Spec.Containers = append(pod.Spec.Containers, container("main"))
	if g.chance(25) {
		pod.Spec.Containers = append(pod.Spec.Containers, container("other"))
	}
	if g.chance(15) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container("prepare"))
	}
	if g.chance(15) {
		sidecar := container("sidecar")
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		if g.chance(40) {
			sidecar.Ports = g.hostPort(9090)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	}
	if g.chance(35) {
		pod.Spec.Containers[0].Ports = g.hostPort(8080)
	}
	if takes && g.chance(15) {
		pod.Spec.RuntimeClassName = new(RuntimeClass().Name)
		pod.Spec.Overhead = overhead.DeepCopy()
	}
	if takes && g.chance(12) {
		pod.Spec.Resources = podResources(&pod.Spec, pick(g, "100m", "400m"))
	}
	return pod
}

// amount returns a random amount: of memory if that is the name, and of CPU otherwise.
func (g *Generator) amount(name corev1.ResourceName) resource.Quantity {
	if name == corev1.ResourceMemory {
		return resource.MustParse(pick(g, "50Mi", "200Mi", "700M"))
	}
	return resource.MustParse(pick(g, "50m", "200m", "600m"))
}

// resources generates the requests and limits of a container.
func (g *Generator) resources() corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if g.chance(65) {
			r.Requests[name] = g.amount(name)
		}
	}
	if g.chance(8) {
		r.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse(pick(g, "500Mi", "3Gi"))
	}
	// Limits and requests of these resources must be equal.
	if g.chance(12) {
		r.Limits[gpu] = resource.MustParse("1")
	}
	if g.chance(9) && len(r.Requests) > 0 {
		r.Limits[corev1.ResourceHugePagesPrefix+"2Mi"] = resource.MustParse("32Mi")
		// The API server rejects huge pages without a request for CPU or memory.
		r.Requests[corev1.ResourceMemory] = g.amount(corev1.ResourceMemory)
	}
	maps.Copy(r.Requests, r.Limits)
	return r
}

// podResources returns requests for the whole pod: the sum of the requests of its containers and init containers for CPU and memory, with
// the CPU in more and 64Mi added.
func podResources(spec *corev1.PodSpec, more string) *corev1.ResourceRequirements {
	sum := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(more), corev1.ResourceMemory: resource.MustParse("64Mi")}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range containers {
			for name := range sum {
				total := sum[name]
				total.Add(c.Resources.Requests[name])
				sum[name] = total
			}
		}
	}
	return &corev1.ResourceRequirements{Requests: sum}
}

// hostPort generates a list of one port of a container: container port 80, with the given host port or the next one.
func (g *Generator) hostPort(port int32) []corev1.ContainerPort {
	return []corev1.ContainerPort{{
		ContainerPort: 80, HostPort: port + int32(g.rng.IntN(2)),
		Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
		HostIP:   pick(g, "", "", "127.0.0.1", "192.0.2.7"),
	}}
}

// nodeLabel generates a value for a label of nodes: that of the zone, the rack, or the disk.
func (g *Generator) nodeLabel(key string) string {
	switch key {
	case corev1.LabelTopologyZone:
		return pick(g, "z1", "z2", "z3")
	case rackLabel:
		return pick(g, "r1", "r2")
	default:
		return pick(g, "ssd", "hdd")
	}
}

func (g *Generator) nodeAffinity() *corev1.NodeAffinity {
	a := &corev1.NodeAffinity{}
	if g.chance(90) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
		terms := &a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for range 1 + g.rng.IntN(2) {
			*terms = append(*terms, g.nodeTerm())
		}
	}
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil || g.chance(20) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{
			Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.nodeRequirement()}},
		}}
	}
	return a
}

func (g *Generator) nodeTerm() corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	if g.chance(30) {
		field := corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values: []string{g.anyNode()},
		}
		term.MatchFields = append(term.MatchFields, field)
		// No node satisfies two terms with different names.
		if g.chance(20) {
			field.Values = []string{g.anyNode()}
			term.MatchFields = append(term.MatchFields, field)
		}
	}
	if len(term.MatchFields) == 0 || g.chance(25) {
		for range 1 + g.rng.IntN(2) {
			term.MatchExpressions = append(term.MatchExpressions, g.nodeRequirement())
		}
	}
	return term
}

func (g *Generator) nodeRequirement() corev1.NodeSelectorRequirement {
	key := pick(g, diskLabel, corev1.LabelTopologyZone, rackLabel)
	switch g.rng.IntN(7) {
	case 0, 1:
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{g.nodeLabel(key), g.nodeLabel(key)}}
	case 2:
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: []string{g.nodeLabel(key)}}
	case 3:
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists}
	case 4:
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
	case 5:
		return corev1.NodeSelectorRequirement{Key: generationLabel, Operator: corev1.NodeSelectorOpGt, Values: []string{pick(g, "2", "5")}}
	default:
		return corev1.NodeSelectorRequirement{Key: generationLabel, Operator: corev1.NodeSelectorOpLt, Values: []string{pick(g, "4", "8")}}
	}
}

func (g *Generator) tolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for _, toleration := range []struct {
		toleration corev1.Toleration
		percent    int
	}{
		{corev1.Toleration{Operator: corev1.TolerationOpExists}, 5},
		{corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, 25},
		{corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: pick(g, "gpu", "batch"),
			Effect: corev1.TaintEffectNoSchedule}, 30},
		{corev1.Toleration{Key: "dedicated", Value: "gpu"}, 10},
		{corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: pick(g, corev1.TaintEffectNoSchedule,
			corev1.TaintEffectPreferNoSchedule)}, 15},
		{corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(60))}, 25},
		{corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}, 8},
	} {
		if g.chance(toleration.percent) {
			out = append(out, toleration.toleration)
		}
	}
	return out
}

// selector generates a selector of pods by label; nil selects none.
func (g *Generator) selector() *metav1.LabelSelector {
	switch g.rng.IntN(10) {
	case 0:
		return &metav1.LabelSelector{}
	case 5, 6:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: appLabel, Operator: metav1.LabelSelectorOpExists}}}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{tierLabel: pick(g, "front", "back")}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: appLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, "web", "db", "cache")}},
		}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: tierLabel, Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
		}}
	case 4:
		return nil
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: pick(g, "web", "db", "cache")}}
	}
}

func (g *Generator) topologyKey() string {
	return pick(g, corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, rackLabel)
}

// podTerms generates one term of a pod affinity and, with a probability of percent, a second one.
func (g *Generator) podTerms(percent int) []corev1.PodAffinityTerm {
	terms := []corev1.PodAffinityTerm{g.podTerm()}
	if g.chance(percent) {
		terms = append(terms, g.podTerm())
	}
	return terms
}

func (g *Generator) podTerm() corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{TopologyKey: g.topologyKey(), LabelSelector: g.selector()}
	switch g.rng.IntN(6) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(g, "a", "b")}}
	case 2:
		term.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "stage", Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
		}}
		if g.chance(30) {
			term.Namespaces = []string{pick(g, namespaces...)}
		}
	case 3:
		term.Namespaces = some(g, namespaces...)
	}
	if term.LabelSelector != nil {
		switch n := g.rng.IntN(100); {
		case n < 15:
			term.MatchLabelKeys = []string{versionLabel}
		case n < 25:
			term.MismatchLabelKeys = []string{versionLabel}
		}
	}
	return term
}

// spread generates one or two topology spread constraints with a probability of percent, and otherwise none.
func (g *Generator) spread(percent int) []corev1.TopologySpreadConstraint {
	if !g.chance(percent) {
		return nil
	}
	var out []corev1.TopologySpreadConstraint
	for _, key := range some(g, corev1.LabelHostname, corev1.LabelTopologyZone, rackLabel) {
		if len(out) == 2 {
			break
		}
		c := corev1.TopologySpreadConstraint{
			TopologyKey: key, MaxSkew: pick(g, int32(1), 1, 1, 2), LabelSelector: g.selector(),
			WhenUnsatisfiable: pick(g, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && g.chance(25) {
			c.MinDomains = new(1 + int32(g.rng.IntN(4)))
		}
		if g.chance(40) {
			c.NodeAffinityPolicy = new(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(40) {
			c.NodeTaintsPolicy = new(pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if c.LabelSelector != nil && g.chance(30) {
			c.MatchLabelKeys = []string{versionLabel}
		}
		out = append(out, c)
	}
	return out
}
