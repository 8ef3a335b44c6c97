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

package rulesoracle

import (
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Generator generates rules, and what they decide. Values come from small pools, so that values match, tie, and are at the
// boundaries of comparisons often.
type Generator struct {
	random *rand.Rand
}

// NewGenerator returns a generator. Generators with the same seed generate the same.
func NewGenerator(seed uint64) *Generator {
	return &Generator{random: rand.New(rand.NewPCG(seed, 0))}
}

// Pools of values. Those of clusters and objects have values that can't be read, too; operands of comparisons can be read,
// because the compiler refuses others.
var (
	tiers      = []string{"gold", "silver", "bronze", ""}
	regions    = []string{"eu", "us", "ap"}
	zones      = []string{"a", "b", "c"}
	namespaces = []string{"shop", "pay", "gone"}
	providers  = []string{"aws", "gcp"}
	names      = []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"}
	numbers    = []string{"0", "1", "2", "2.0", "2.5", "3", "-1.5", "10", "9007199254740992", "9007199254740993"}
	badNumbers = []string{"x", "", "1e3", ".5", "2.", "0x2", "+2", " 2", "NaN", "1_0", "2Gi", longDigits}
	quantities = []string{"500m", "0.5", "1", "2", "2000m", "4Gi", "4096Mi", "4G", "1e3", "1k", "-1"}
	// badQuantities have amounts without digits, or units that are unknown.
	badQuantities = []string{"x", "", "Gi", "2GiB", " 2", longDigits, "1e-999"}
	versions      = []string{"v1.30", "1.30", "1.30.0", "1.30.2-gke.1", "v1.30.2", "1.9", "v2", "1.30.2.7", "1.30+x",
		"1.030", "1.30.20260102030405"}
	badVersions = []string{"latest", "", "v", ".1", "V1.2", "1." + longDigits}
	integers    = []string{"0", "1", "2", "3", "10", "02"}
	nodeNumbers = []string{"0", "1", "2", "3", "10", "x", "2.5", "02"}
	// longDigits are more than are read.
	longDigits  = "1234567890123456789012345678901"
	taintKeys   = []string{"maintenance", "gpu"}
	taintValues = []string{"", "true", "no"}
	effects     = []string{"NoSchedule", "NoExecute", "NoSelect", "NoSelectIfNew", "PreferNoSchedule", "PreferNoSelect", "Unknown"}
	sources     = []string{"sites.fleet.example.com", "halls.fleet.example.com"}
	resources   = []string{string(corev1.ResourceCPU), "nvidia.com/gpu"}
)

// Keys of labels, annotations, and properties, by what their values are.
const (
	keyTier     = "tier"
	keyNumber   = "example.com/level"
	keyQuantity = "example.com/memory"
	keyVersion  = "example.com/release"
	keyRegion   = "region"
	keyZone     = "zone"
	keyOdd      = `100% "odd"`
	keyFlag     = "flag"
)

// addOnScores is the member of a cluster with the scores that AddOnPlacementScores have, by the names that rules give them. data.clusters
// does not have it.
const addOnScores = "addOnScores"

// scoreNames name scores: the AddOnPlacementScore, and the score in it.
var scoreNames = []string{"usage/cpuAvailable", "usage/memory \"free\"", "other.usage/cpuAvailable"}

var keys = []string{keyTier, keyNumber, keyQuantity, keyVersion, keyRegion, keyZone}

func pick[T any](g *Generator, values []T) T { return values[g.random.IntN(len(values))] }

// chance reports true in the given percentage of calls.
func (g *Generator) chance(percent int) bool { return g.random.IntN(100) < percent }

// some returns one to most different values.
func some[T any](g *Generator, values []T, most int) []T {
	out := slices.Clone(values)
	g.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:1+g.random.IntN(min(most, len(out)))]
}

// mostly returns a value of the first pool, and seldom one of the other.
func (g *Generator) mostly(good, bad []string) string {
	if g.chance(15) {
		return pick(g, bad)
	}
	return pick(g, good)
}

// textOf returns a value for a key of labels, annotations, or properties.
func (g *Generator) textOf(key string) string {
	switch key {
	case keyNumber:
		return g.mostly(numbers, badNumbers)
	case keyQuantity:
		return g.mostly(quantities, badQuantities)
	case keyVersion:
		return g.mostly(versions, badVersions)
	case keyRegion:
		return pick(g, regions)
	case keyZone:
		return pick(g, zones)
	}
	if g.chance(5) {
		return special
	}
	return pick(g, tiers)
}

// special is a text with characters that have a meaning in Rego, in formats, and in texts of rules.
const special = `a "b" \ %s {c}`

func (g *Generator) texts() map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if g.chance(70) {
			out[key] = g.textOf(key)
		}
	}
	return out
}

// labels returns texts that are valid as values of labels.
func (g *Generator) labels() map[string]any {
	out := g.texts()
	maps.DeleteFunc(out, func(_ string, value any) bool { return len(validation.IsValidLabelValue(value.(string))) > 0 })
	return out
}

// Namespaces returns the labels of the namespaces, by name. One that objects are in does not exist.
func (g *Generator) Namespaces() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, name := range namespaces[:2] {
		out[name] = map[string]string{"kubernetes.io/metadata.name": name}
		if g.chance(70) {
			out[name][keyTier] = pick(g, tiers)
		}
	}
	return out
}

// Object returns an object that a policy decides.
func (g *Generator) Object() map[string]any {
	meta := map[string]any{"name": pick(g, []string{"web", "db", "cache"})}
	if g.chance(85) {
		meta["labels"] = g.labels()
	}
	if g.chance(85) {
		meta["annotations"] = g.texts()
	}
	spec := map[string]any{}
	if g.chance(70) {
		spec["replicas"] = int64(g.random.IntN(5))
	}
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
	switch g.random.IntN(10) {
	case 0:
		if object["apiVersion"], object["kind"] = "v1", "Namespace"; g.chance(20) {
			object["apiVersion"] = "example.com/v1"
		}
		return object
	case 1:
		object["apiVersion"], object["kind"] = "example.com/v1", "Widget"
		delete(object, "spec")
		return object
	case 2:
		object["apiVersion"], object["kind"] = "v1", "Pod"
		if g.chance(70) {
			meta["generateName"] = "web-"
			meta["name"] = pick(g, []string{"web-1", "web-2"})
		}
		if g.chance(20) {
			delete(meta, "name")
			meta["generateName"] = "web-"
		}
		meta["namespace"] = pick(g, namespaces)
		spec["containers"] = g.containers()
		g.control(meta)
		if labels, ok := meta["labels"].(map[string]any); ok && g.chance(30) {
			labels[ownLabels[0]] = "web-1"
		}
		return object
	case 3:
		object["apiVersion"], object["kind"] = "batch/v1", "Job"
		meta["namespace"] = pick(g, namespaces)
		g.control(meta)
		spec["template"] = g.template()
		if g.chance(50) {
			// It was created already.
			own := map[string]any{"batch.kubernetes.io/controller-uid": "1"}
			spec["selector"] = map[string]any{"matchLabels": own}
			meta, _ := spec["template"].(map[string]any)["metadata"].(map[string]any)
			labels, _ := meta["labels"].(map[string]any)
			maps.Copy(labels, own)
		}
		return object
	case 4:
		object["apiVersion"], object["kind"] = "batch/v1", "CronJob"
		meta["namespace"] = pick(g, namespaces)
		spec["jobTemplate"] = map[string]any{"spec": map[string]any{"template": g.template()}}
		return object
	}
	meta["namespace"] = pick(g, namespaces)
	if g.chance(50) {
		object["kind"] = "ReplicaSet"
	}
	g.control(meta)
	spec["template"] = g.template()
	labels := map[string]any{"app": "web"}
	spec["template"].(map[string]any)["metadata"] = map[string]any{"labels": labels}
	spec["selector"] = map[string]any{"matchLabels": labels}
	return object
}

// controllers are owners of objects. Some have names that end with the hash of a template.
var controllers = [][2]string{{"Deployment", "web"}, {"ReplicaSet", "web-5d4f"}, {"ReplicaSet", "web"}, {"CronJob", "db"},
	{"Rollout", "web-5d4f"}}

// control gives an object owners, of which one may control it, and the hash of a template.
func (g *Generator) control(meta map[string]any) {
	if g.chance(40) {
		return
	}
	owner := pick(g, controllers)
	references := []any{map[string]any{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "1", "controller": g.chance(80)}}
	if g.chance(30) {
		references = append([]any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "uid": "2"}}, references...)
	}
	meta["ownerReferences"] = references
	if labels, ok := meta["labels"].(map[string]any); ok && g.chance(70) {
		labels["pod-template-hash"] = pick(g, []string{"5d4f", "web", ""})
	}
}

// template returns a template of pods, which may have labels.
func (g *Generator) template() map[string]any {
	labels := map[string]any{"app": "web"}
	if g.chance(20) {
		delete(labels, "app")
	}
	return map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": g.containers()}}
}

func (g *Generator) containers() []any {
	return []any{map[string]any{"name": "web", "image": pick(g, []string{"internal/web", "public/web"})}}
}

// Clusters returns the documents of clusters, by name. Some have a Twin.
func (g *Generator) Clusters() map[string]map[string]any {
	out := map[string]map[string]any{}
	for range g.random.IntN(3*len(names) + 1) {
		name := pick(g, names)
		out[name] = g.cluster(name)
		if other := g.cluster(name); g.chance(15) && (other["source"] != out[name]["source"] || other["namespace"] != out[name]["namespace"]) {
			out[name][Twin] = other
		}
	}
	return out
}

func (g *Generator) cluster(name string) map[string]any {
	c := map[string]any{
		"name": name, "namespace": pick(g, []string{"", "fleet"}), "source": pick(g, sources), "ready": g.chance(70), "terminating": g.chance(10),
		"labels": g.texts(), "annotations": g.texts(), "properties": g.properties(), "taints": g.taints(),
	}
	optional := func(field string, value any) {
		if g.chance(80) {
			c[field] = value
		}
	}
	optional("region", pick(g, regions))
	optional("provider", pick(g, providers))
	version := g.mostly(versions, badVersions)
	if version != "" {
		optional("version", version)
	}
	if g.chance(80) {
		all := []any{}
		for _, zone := range some(g, zones, 3) {
			all = append(all, zone)
		}
		c["zones"] = all
	}
	if amounts := g.amounts(); len(amounts) > 0 {
		c["allocatable"] = amounts
	}
	if amounts := g.amounts(); len(amounts) > 0 {
		optional("allocated", amounts)
	}
	scores := map[string]any{}
	for _, name := range scoreNames {
		if g.chance(70) {
			scores[name] = pick(g, []any{int64(-100), int64(0), int64(1), int64(2), int64(100)})
		}
	}
	optional(addOnScores, scores)
	return c
}

func (g *Generator) properties() map[string]any {
	out := g.texts()
	if g.chance(50) {
		out[keyNumber] = pick(g, []any{int64(0), int64(1), int64(2), int64(3), 2.5, -1.5, 1e6, 1e21, true})
	}
	if g.chance(60) {
		out[keyFlag] = g.chance(50)
	}
	if g.chance(60) {
		out[keyOdd] = pick(g, []any{nil, []any{"gold"}, map[string]any{"gold": "gold"}, "gold", special})
	}
	return out
}

func (g *Generator) amounts() map[string]any {
	out := map[string]any{}
	for _, name := range resources {
		if g.chance(80) {
			out[name] = g.mostly(quantities, badQuantities)
		}
		if g.chance(15) {
			out[name] = int64(g.random.IntN(4))
		}
	}
	return out
}

// taints returns the taints of a cluster. Most clusters have none.
func (g *Generator) taints() []any {
	out := []any{}
	for g.chance(35) {
		taint := map[string]any{"key": pick(g, taintKeys), "effect": pick(g, effects)}
		if value := pick(g, taintValues); value != "" || g.chance(30) {
			taint["value"] = value
		}
		if g.chance(10) {
			delete(taint, "effect")
		}
		out = append(out, taint)
	}
	return out
}

// Nodes returns the nodes of the served cluster.
func (g *Generator) Nodes() []Node {
	var out []Node
	for _, name := range names {
		node := Node{Name: name, Labels: map[string]string{}}
		optional := func(key string, pool []string) {
			if g.chance(80) {
				node.Labels[key] = pick(g, pool)
			}
		}
		optional(corev1.LabelTopologyRegion, regions)
		optional(corev1.LabelTopologyZone, zones)
		optional(keyTier, tiers)
		optional(keyNumber, nodeNumbers)
		out = append(out, node)
	}
	return out
}
