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

// Package generated generates worlds, and policies and quotas without a mistake that fit them, from what administrators want. It calls
// none of Berth's checks: what a policy names exists because the generator took it from the world.
package generated

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Case is a policy, quota, or limit without a mistake, and the world that it is written for.
type Case struct {
	// World has all that exists: clusters, nodes, namespaces, classes, and workloads of each kind that the policy decides.
	World []*unstructured.Unstructured
	world string
	// marked is the manifest, in which each name that the author took from the world is marked.
	marked string
}

// mark matches a name that the author took from the world, and what it names.
var mark = regexp.MustCompile("\x01([^\x02]*)\x02([^\x03]*)\x03")

// similarly is the end of what a name names if another name in its place can be right unless it is similar: namespaces that only other
// clusters have may be excluded, and a default may be one that no cluster has on purpose.
const similarly = " (misspelt)"

// marked marks a name.
func marked(what, name string) string { return "\x01" + what + "\x02" + name + "\x03" }

// Manifest returns the manifest of the policy, quota, or limit.
func (c Case) Manifest() string { return mark.ReplaceAllString(c.marked, "$2") }

// Mistake is a manifest in which one name is replaced by one that nothing in the world has.
type Mistake struct {
	Manifest string
	// What is what the name names, Name the one that is right, and Wrong the one in its place.
	What, Name, Wrong string
}

// Mistake returns the manifest with a mistake in one of the names. ok is false if there are no names in it.
func (c Case) Mistake(seed uint64) (m Mistake, ok bool) {
	g := newGenerator(seed)
	all := mark.FindAllStringSubmatchIndex(c.marked, -1)
	if len(all) == 0 {
		return m, false
	}
	at := pick(g, all)
	m.What, m.Name = c.marked[at[2]:at[3]], c.marked[at[4]:at[5]]
	for m.Wrong = m.Name; strings.Contains(c.world, m.Wrong); {
		m.Wrong = g.wrong(m.Name, strings.HasSuffix(m.What, similarly))
	}
	m.Manifest = mark.ReplaceAllString(c.marked[:at[0]]+m.Wrong+c.marked[at[1]:], "$2")
	return m, true
}

// wrong returns a name in place of another one: a misspelt one, or one from elsewhere.
func (g *generator) wrong(name string, misspelt bool) string {
	if !misspelt && g.chance(40) {
		return pick(g, []string{"atlantis", "legacy", "foo-9", "old.pool", "q7"}) + fmt.Sprint(g.random.IntN(100))
	}
	prefix, own := "", name
	if i := strings.LastIndex(name, "/"); i >= 0 {
		prefix, own = name[:i+1], name[i+1:]
	}
	letters := []rune(own)
	i := g.random.IntN(len(letters))
	switch g.random.IntN(3) {
	case 0:
		letters = slices.Insert(letters, i, letters[i])
	case 1:
		letters = slices.Insert(letters, i, 'x')
	default:
		letters[i], letters[(i+1)%len(letters)] = letters[(i+1)%len(letters)], letters[i]
	}
	return prefix + string(letters)
}

type generator struct {
	random *rand.Rand
	*world
	// matched are the namespaces that the policy matches, and workloads the objects that its rules are for.
	matched   []member
	workloads []string
}

func newGenerator(seed uint64) *generator { return &generator{random: rand.New(rand.NewPCG(seed, 0))} }

func pick[T any](g *generator, values []T) T { return values[g.random.IntN(len(values))] }

// chance reports true in the given percentage of calls.
func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

// maybe returns the text in the given percentage of calls, and "" otherwise.
func (g *generator) maybe(percent int, text string) string {
	if g.chance(percent) {
		return text
	}
	return ""
}

// some returns different values, at most so many.
func some[T any](g *generator, values []T, most int) []T {
	out := slices.Clone(values)
	g.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(most, len(out))]
}

// New returns the case of a seed.
func New(seed uint64) Case {
	g := newGenerator(seed)
	g.world = g.newWorld()
	g.matched = g.namespaces
	intents := []func() string{g.clusterRules, g.clusterRules, g.clusterRules, g.nodeRules, g.clusterRego, g.otherRego, g.quota}
	c := Case{marked: pick(g, intents)()}
	if strings.Contains(c.marked, "kind: PlacementPolicy") && g.chance(40) {
		g.workloads = append(g.workloads, "---\n"+g.otherPolicy())
	}
	c.world = g.manifest() + strings.Join(g.workloads, "")
	c.World = Objects(c.world)
	return c
}

// workload adds workloads of a namespace, with labels and annotations.
func (g *generator) workload(namespace member, labels, annotations map[string]string) {
	g.workloads = append(g.workloads, fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%d, namespace: %s, labels: {%s}, annotations: {%s}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: "a:1"}]}}
`, len(g.workloads), namespace.name, flow(labels), flow(annotations)))
}

// otherPolicy returns the manifest of another policy, which leaves what the first one decides as it is: it decides other objects, or an
// exception of a higher priority, or it only warns.
func (g *generator) otherPolicy() string {
	kinds, part, mode := someWorkloads, "", ""
	decides := pick(g, []string{
		"set: {annotations: {example.com/owner: nobody}, labels: {example.com/checked: \"false\"}}",
		"require: [{field: name, operator: In, values: [" + pick(g, g.clusters).name + "]}]",
	})
	switch g.random.IntN(4) {
	case 0:
		kinds = `- {apiGroups: [""], apiVersions: [v1], resources: [configmaps]}`
	case 1:
		part = "\n  objectSelector: {matchLabels: {example.com/exception: granted}}"
		decides = "set: {labels: {example.com/checked: \"false\"}}"
	case 2:
		decides = "when: {objectSelector: {matchLabels: {example.com/exception: granted}}}\n  set: {labels: {example.com/checked: \"false\"}}"
	default:
		mode = "mode: " + pick(g, []string{"Warn", "DryRun"})
	}
	out := policy("match:\n  resourceRules:\n  "+kinds+part, "priority: 100", mode, "rules:\n- name: other\n  "+decides)
	return strings.Replace(out, "{name: generated}", "{name: other}", 1)
}

func flow(values map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, fmt.Sprintf("%s: %q", key, values[key]))
	}
	return strings.Join(out, ", ")
}

// policy returns the manifest of a policy, of lines of its spec.
func policy(lines ...string) string {
	var out strings.Builder
	out.WriteString("apiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: generated}\nspec:\n")
	for _, line := range lines {
		if line != "" {
			out.WriteString("  " + strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\n", "\n  ") + "\n")
		}
	}
	return out.String()
}

// subjects returns the subjects of some kinds that members have, sorted.
func subjects(members []member, kinds ...string) []subject {
	seen := map[subject]bool{}
	for _, m := range members {
		for s := range m.values {
			seen[s] = seen[s] || slices.Contains(kinds, s.kind)
		}
	}
	maps.DeleteFunc(seen, func(_ subject, wanted bool) bool { return !wanted })
	return slices.SortedFunc(maps.Keys(seen), func(a, b subject) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
}

// valuesOf returns all values that members have of a subject, sorted.
func valuesOf(members []member, s subject) []string {
	var out []string
	for _, m := range members {
		out = append(out, m.values[s]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// list returns marked values as a flow sequence.
func (s subject) list(values ...string) string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = `"` + marked("value of "+s.kind, value) + `"`
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// text names the subject in a requirement. Fields are no names of the world.
func (s subject) text() string {
	if s.kind == "field" {
		return "field: " + s.name
	}
	return fmt.Sprintf(`%s: "%s"`, s.kind, marked("name of "+s.kind, s.name))
}

// selector returns a label selector that selects a member among others, and whether it selects each of them.
func (g *generator) selector(members []member, target member) (text string, selected []member) {
	s := pick(g, subjects([]member{target}, "label"))
	own, all := target.values[s][0], valuesOf(members, s)
	others := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == own })
	key := `"` + marked("label of namespaces", s.name) + `"`
	if s.name == "kubernetes.io/metadata.name" {
		key = s.name
	}
	list := func(values []string) string {
		return strings.ReplaceAll(s.list(values...), "value of label", "value of namespaces")
	}
	having := func(wanted func(values []string) bool) []member {
		return slices.DeleteFunc(slices.Clone(members), func(m member) bool { return !wanted(m.values[s]) })
	}
	in := func(values []string) func([]string) bool {
		return func(has []string) bool { return len(has) > 0 && slices.Contains(values, has[0]) }
	}
	switch n := g.random.IntN(5); {
	case n == 0 && s.name != key:
		return fmt.Sprintf("matchExpressions: [{key: %s, operator: Exists}]", key), having(func(has []string) bool { return len(has) > 0 })
	case n == 1 && len(others) > 0:
		unwanted := some(g, others, 1+g.random.IntN(len(others)))
		text := list(unwanted)
		if key == s.name {
			text = strings.ReplaceAll(text, "value of namespaces", "value of namespaces"+similarly)
		}
		return fmt.Sprintf("matchExpressions: [{key: %s, operator: NotIn, values: %s}]", key, text),
			having(func(has []string) bool { return !in(unwanted)(has) })
	case n == 2:
		wanted := append(some(g, others, g.random.IntN(len(others)+1)), own)
		return fmt.Sprintf("matchExpressions: [{key: %s, operator: In, values: %s}]", key, list(wanted)), having(in(wanted))
	case n == 3:
		// Nothing has it yet: administrators exempt namespaces by it.
		return "matchExpressions: [{key: example.com/unmanaged, operator: DoesNotExist}]", members
	default:
		return fmt.Sprintf("matchLabels: {%s: %s}", key, strings.Trim(list([]string{own}), "[]")), having(in([]string{own}))
	}
}
