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

package generated

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rules"
)

const (
	allWorkloads  = "- {apiGroups: [apps, batch], apiVersions: [v1], resources: [deployments, statefulsets, daemonsets, jobs, cronjobs]}"
	someWorkloads = "- {apiGroups: [apps], apiVersions: [v1], resources: [deployments, statefulsets]}"
	pods          = "- {apiGroups: [\"\"], apiVersions: [v1], resources: [pods]}"
)

// notPaused is a match condition.
const notPaused = "\n  matchConditions:\n" +
	"  - {name: not-paused, expression: \"!has(object.metadata.annotations) || !('example.com/paused' in object.metadata.annotations)\"}"

// match returns spec.match with resource rules. It sets the namespaces that the policy matches.
func (g *generator) match(rules ...string) string {
	out := "match:\n  resourceRules:\n  " + strings.Join(rules, "\n  ")
	if g.chance(40) {
		text, selected := g.selector(g.namespaces, pick(g, g.namespaces))
		out += "\n  namespaceSelector: {" + text + "}"
		g.matched = selected
	}
	out += g.maybe(15, "\n  objectSelector: {matchExpressions: [{key: example.com/exempt, operator: DoesNotExist}]}")
	return out + g.maybe(15, notPaused)
}

// clusterRules returns a policy with rules that give clusters.
func (g *generator) clusterRules() string {
	mode := pick(g, []string{"", "", "Enforce", "Warn", "DryRun"})
	enforced := mode == "" || mode == "Enforce"
	delivered := enforced && g.chance(30)
	kinds := allWorkloads
	if (delivered || !enforced) && g.chance(50) {
		kinds = someWorkloads
	}
	if g.system == "Karmada" && g.chance(15) {
		// Teams write their own, and the policy narrows their clusters.
		kinds, delivered = `- {apiGroups: [policy.karmada.io], apiVersions: ["*"], resources: [propagationpolicies]}`, false
	}
	spec := []string{g.match(kinds), g.maybe(20, "strict: true"), g.maybe(20, "priority: 10")}
	if mode != "" {
		spec = append(spec, "mode: "+mode)
	}
	chain, gives, weights := g.chain()
	// KubeFleet divides no replicas.
	delivered = delivered && gives && (!weights || g.system != "MemberCluster")
	if enforced && !delivered {
		spec[0] = strings.Replace(spec[0], someWorkloads, allWorkloads, 1)
	}
	reports := false
	if delivered {
		var delivery string
		delivery, reports = g.delivery(weights)
		spec = append(spec, delivery)
	}
	if gives {
		unready := ", leaveUnreadyAfter: 10m"
		if strings.Contains(chain, "{field: ready,") {
			// Objects leave such clusters at once.
			unready = ""
		}
		spec = append(spec, pick(g, []string{"", "", "clusters: {developerChoice: Override" + unready + "}", "clusters: {onEmpty: Clear}"}))
	}
	existing := g.existing(enforced, reports || !gives, false)
	if strings.Contains(existing, `mode: "NewOnly"`) {
		// Existing objects never leave their clusters.
		for i := range spec {
			spec[i] = strings.Replace(spec[i], ", leaveUnreadyAfter: 10m", "", 1)
		}
	}
	return policy(append(spec, existing, chain)...)
}

// delivery returns spec.delivery to the system of the clusters, and whether that reports where objects run.
func (g *generator) delivery(weights bool) (text string, reports bool) {
	text = map[string]string{
		"ClusterProfile": "placementDecision: {}", "Karmada": "karmada: {}", "ManagedCluster": "openClusterManagement: {}",
		"MemberCluster": "kubeFleet: {}",
	}[g.system]
	if reports = g.system == "Karmada" || g.system == "MemberCluster"; reports {
		text += g.maybe(30, ", surge: {}")
	}
	switch {
	case g.system == "MemberCluster":
	case weights:
		text += ", replicas: {divideBy: Weight}"
	default:
		text += g.maybe(50, ", replicas: {divideBy: Even, minPerCluster: 1}")
	}
	return "delivery: {" + text + "}", reports
}

// existing returns what becomes of existing objects, and the stages of new versions.
func (g *generator) existing(enforced, reports, evicts bool) string {
	mode := pick(g, []string{"Automatic", "Automatic", "Approved", "Manual", "NewOnly", "Off"})
	acts := enforced && (mode == "Automatic" || mode == "Approved")
	parts := []string{fmt.Sprintf("mode: %q", mode)}
	if acts {
		budget := "maxPerMinute: 30, pauseAfterFailures: 3"
		if reports {
			budget += ", maxConcurrent: 20, perNamespace: 2, moveTimeout: 15m, maxUnavailable: " + pick(g, []string{"5%", "100%", "1", "3", "10"})
		}
		parts = append(parts, g.maybe(40, "budget: {"+budget+"}"),
			g.maybe(40, `windows: [{start: "0 22 * * 1-5", duration: 6h, timeZone: Europe/Berlin}, {start: "@weekly", duration: 2h}]`))
		if mode == "Automatic" {
			parts = append(parts, g.maybe(40, "blastRadius: {percent: 25, minObjects: 4}"))
		}
		if evicts {
			parts = append(parts, g.maybe(50, "evict: true"))
		}
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	out := g.maybe(70, "remediation: {"+strings.Join(parts, ", ")+"}\n")
	if g.chance(25) {
		selector, _ := g.selector(g.matched, pick(g, g.matched))
		if strings.Contains(selector, "unmanaged") {
			selector = "matchLabels: {kubernetes.io/metadata.name: " + marked("name of namespaces", g.matched[0].name) + "}"
		}
		out += "rollout:\n  stages:\n  - {name: first, namespaceSelector: {" + selector + "}, soak: 1h}\n" +
			"  - {name: rest, percent: 100" + g.maybe(50, ", approval: true") + "}\n"
	}
	return out
}

// unguarded takes a value from a label of the object, which it may lack.
const unguarded = "valueFrom: {label: example.com/wanted}"

// guarded returns rules in which no object is denied because it lacks a value, unless the rules say so.
func (g *generator) guarded(rules string) string {
	const guard = "- name: guard\n  when: {objectSelector: {matchExpressions: [{key: example.com/wanted, operator: DoesNotExist}]}}\n"
	list, isChain := strings.CutPrefix(rules, "rules:\n")
	switch {
	case !isChain || !strings.Contains(list, unguarded):
		return rules
	case strings.Contains(list, "candidates: Nodes") || g.chance(50):
		return "rules:\n" + guard + g.maybe(50, "  warn: label example.com/wanted is missing\n") + list
	default:
		return strings.ReplaceAll(rules, unguarded, unguarded+", reason: label example.com/wanted has another value")
	}
}

// chain returns rules of which the first one that applies decides, whether one of them gives clusters, and whether one gives weights.
func (g *generator) chain() (text string, gives, weights bool) {
	text = "rules:\n"
	n, before, follows := 1+g.random.IntN(4), "", false
	var used []string
	for i := range n {
		last := i == n-1
		effect, next := g.effect(last)
		when := before
		switch {
		case follows:
			// The rule before found no cluster, and the same objects get any cluster, whatever its taints.
			effect, next = "  require:\n  - {field: name, operator: Exists}\n  tolerate: [{operator: Exists}]\n", false
		case (last || next) && g.chance(30):
		default:
			for when == "" || slices.ContainsFunc(used, func(earlier string) bool { return narrows(when, earlier) }) {
				when = g.when(fmt.Sprint("choice-", i))
			}
		}
		text += fmt.Sprintf("- name: rule-%d\n%s%s", i, when, effect)
		if follows && when == "" {
			// Nothing is left to the rules after it.
			break
		}
		used, follows = append(used, when), next && (when == "" || g.chance(30))
		before = ""
		if follows {
			before = when
		}
	}
	for range 3 {
		g.workload(pick(g, g.matched), nil, nil)
	}
	return g.guarded(text), strings.Contains(text, "  require:"), strings.Contains(text, "weights")
}

// narrows reports whether a condition applies only to objects to which an earlier one applies: it has all lines of that, or says the same
// in another form.
func narrows(when, earlier string) bool {
	lines := strings.Split(when, "\n")
	return earlier != "" && (!slices.ContainsFunc(strings.Split(earlier, "\n"),
		func(line string) bool { return !slices.Contains(lines, line) }) ||
		rules.AppliesWithin(condition(when), condition(earlier)))
}

// condition returns the condition that a text has; nil if that is empty.
func condition(text string) *placementv1.RuleCondition {
	var rule placementv1.Rule
	if err := yaml.Unmarshal([]byte(mark.ReplaceAllString(text, "$2")), &rule); err != nil {
		panic(err) // The generator wrote it.
	}
	return rule.When
}

// when returns the condition of a rule, and adds a workload that it is for.
func (g *generator) when(choice string) string {
	namespace := pick(g, g.matched)
	// Teams write the labels of their namespaces on their workloads, too.
	key, value := pick(g, []string{"example.com/residency", "app.kubernetes.io/part-of", "team"}), choice
	if s := pick(g, subjects([]member{namespace}, "label")); s.name != "kubernetes.io/metadata.name" && g.chance(50) {
		key, value = s.name, namespace.values[s][0]
	}
	labels, annotations := map[string]string{}, map[string]string{}
	var out []string
	switch g.random.IntN(5) {
	case 0:
		labels[key] = value
		out = append(out, fmt.Sprintf("objectSelector: {matchLabels: {%q: %q}}", key, value))
	case 1:
		labels[key] = value
		out = append(out, fmt.Sprintf("objectSelector: {matchExpressions: [{key: %q, operator: In, values: [%q, other]}, "+
			"{key: example.com/exempt, operator: DoesNotExist}]}", key, value))
	case 2:
		annotations["example.com/"+choice] = "Größe: 10 µm"
		out = append(out, fmt.Sprintf("annotations: [{key: example.com/%s, operator: In, values: [\"Größe: 10 µm\", x]}, "+
			"{key: example.com/skip, operator: NotIn, values: [\"true\"]}]", choice))
	case 3:
		out = append(out, "expression: "+pick(g, []string{
			"\"has(object.spec.replicas) && object.spec.replicas > 1\"", "object.kind == 'CronJob' || object.kind == 'Job'",
			"object.metadata.name.startsWith('web-')", "\"int(object.metadata.?labels[?'example.com/level'].orValue('0')) >= 2\"",
			"has(object.metadata.annotations) && 'example.com/region' in object.metadata.annotations",
			"object.metadata.namespace == '" + marked("name of namespaces", namespace.name) + "'",
			"\"!(object.metadata.namespace in ['kube-public', 'only-elsewhere'])\"",
		}))
	}
	if len(out) == 0 || g.chance(30) {
		text, _ := g.selector(g.matched, namespace)
		out = append(out, "namespaceSelector: {"+text+"}")
	}
	g.workload(namespace, labels, annotations)
	return "  when:\n    " + strings.Join(out, "\n    ") + "\n"
}

// effect returns what a rule gives, and whether the next rule follows if it finds no cluster.
func (g *generator) effect(last bool) (text string, next bool) {
	switch n := g.random.IntN(12); {
	case n == 0:
		return "  deny: \"{kind} {namespace}/{name} may not run anywhere: {label:example.com/reason}\"\n", false
	case n == 1:
		return "  set: {annotations: {example.com/owner: \"{namespace}\"}, labels: {example.com/checked: \"true\"}}\n  warn: checked {name}\n",
			false
	case n == 2 && !last:
		return "", false
	}
	target := pick(g, g.clusters)
	out := "  require:\n"
	out += g.requirements(3, g.clusters, target, subjects(g.clusters, "field", "label", "annotation", "property", "allocatable", "free"))
	out += g.maybe(15, `  - {field: ready, operator: In, values: ["true"]}`+"\n") + g.maybe(10, "  - {field: source, operator: Exists}\n")
	if len(target.taints) > 0 || g.chance(20) {
		out += "  tolerate: [{key: example.com/dedicated, value: payments}, {key: example.com/drain, operator: Exists, effect: NoSchedule}]\n"
	}
	choice := g.choice(out)
	if strings.Contains(choice, "minDomains: 2") {
		// Other requirements could leave a single domain.
		out = "  require:\n  - {field: name, operator: Exists}\n"
	}
	out += choice
	if !last && g.chance(50) {
		return out + "  otherwise: NextRule\n", true
	}
	return out + g.maybe(30, "  message: no cluster is left for {name}\n"), false
}

// choice returns how many of the eligible clusters are chosen, and which first. It prefers nothing that the requirements name.
func (g *generator) choice(required string) string {
	prefer := func() string {
		out := "  prefer:\n"
		list := slices.DeleteFunc(subjects(g.clusters, "field", "label", "annotation", "property"), func(s subject) bool {
			return strings.Contains(required, s.text()+",")
		})
		for i := range 1 + g.random.IntN(2) {
			s := pick(g, list)
			holder := pick(g, slices.DeleteFunc(slices.Clone(g.clusters), func(m member) bool { return len(m.values[s]) == 0 }))
			out += fmt.Sprintf("  - {%s, operator: In, values: %s, weight: %d}\n", s.text(), s.list(holder.values[s][0]), []int{20, 5}[i])
		}
		if strings.Count(out, "weight") == 2 {
			out += g.maybe(50, "  minGain: 10\n")
		}
		return out
	}
	switch g.random.IntN(6) {
	case 0:
		list := slices.DeleteFunc(subjects(g.clusters, "label", "annotation", "property", "allocatable", "free"), func(s subject) bool {
			return g.orders[s].as == "" || g.orders[s].as == "Version" || strings.Contains(required, s.text()+",")
		})
		if len(list) == 0 {
			return ""
		}
		s, as := pick(g, list), ""
		if g.orders[s].as == "Quantity" && s.kind != "allocatable" && s.kind != "free" {
			as = ", as: Quantity"
		}
		return fmt.Sprintf("  prefer: [{%s, operator: %s%s, weight: 100}]\n  minGain: 20\n  limit: 1\n", s.text(),
			pick(g, []string{"Most", "Least"}), as)
	case 5:
		return prefer() + "  limit: 1\n  set: {annotations: {example.com/on: \"{clusters}\"}, labels: {example.com/cluster: \"{clusters}\"}}\n"
	case 1:
		out := prefer()
		return strings.ReplaceAll(out, "  minGain: 10\n", "") + "  weights: Score\n"
	case 2:
		s := pick(g, subjects(g.clusters, "field", "label", "property"))
		if s.kind == "field" && s.name != "zone" && s.name != "provider" {
			s.name = "region"
		}
		domains := min(2, len(valuesOf(g.clusters, s)))
		return fmt.Sprintf("  spread: {%s, minDomains: %d, maxClusters: %d}\n", s.text(), 1+g.random.IntN(domains), 1+g.random.IntN(2)) +
			g.maybe(50, "  limit: 4\n")
	case 3:
		return fmt.Sprintf("  limit: %d\n", 1+g.random.IntN(3))
	}
	return ""
}

// requirement returns a requirement or preference that a target meets.
func (g *generator) requirement(all []member, target member, s subject) string {
	own, known := target.values[s], valuesOf(all, s)
	others := slices.DeleteFunc(slices.Clone(known), func(v string) bool { return slices.Contains(own, v) })
	order := g.orders[s]
	say := func(operator, rest string) string {
		return fmt.Sprintf("{%s, operator: %s%s}", s.text(), operator, rest)
	}
	quantity := s.kind == "allocatable" || s.kind == "free"
	switch {
	case len(own) == 0 && !quantity && g.chance(50):
		return say("NotIn", ", values: "+s.list(some(g, others, 1+g.random.IntN(len(others)))...))
	case len(own) == 0:
		return say("DoesNotExist", "")
	case order.as != "" && (quantity || g.chance(70)):
		return g.ordered(s, own[0])
	case len(others) > 0 && g.chance(30):
		return say("NotIn", ", values: "+s.list(some(g, others, 1+g.random.IntN(len(others)))...))
	case g.chance(20):
		return say("Exists", "")
	case g.chance(15):
		return say("In", ", valueFrom: {label: example.com/wanted, default: \""+marked("default"+similarly, own[0])+"\"}")
	case g.chance(10):
		return say("In", ", "+unguarded)
	default:
		return say("In", ", values: "+s.list(append(some(g, others, g.random.IntN(2)), own[0])...))
	}
}

// ordered returns a requirement by order that a value meets.
func (g *generator) ordered(s subject, own string) string {
	order, quantity := g.orders[s], s.kind == "allocatable" || s.kind == "free"
	at, as := slices.Index(order.values, own), ""
	if order.as == "Quantity" && !quantity || order.as == "Version" && s.kind != "field" {
		as = ", as: " + order.as
	}
	say := func(operator, rest string) string {
		return fmt.Sprintf("{%s, operator: %s%s, %s}", s.text(), operator, as, rest)
	}
	if g.chance(20) && !quantity {
		return say("Gte", fmt.Sprintf("valueFrom: {annotation: example.com/minimum, default: %q}", order.values[0]))
	}
	if at+1 < len(order.values) && g.chance(30) {
		return say(pick(g, []string{"Lt", "Lte"}), fmt.Sprintf("values: [%q]", order.values[at+1]))
	}
	return say("Gte", fmt.Sprintf("values: [%q]", order.values[g.random.IntN(at+1)]))
}

// requirements returns lines with one requirement or more that a target meets.
func (g *generator) requirements(most int, all []member, target member, of []subject) string {
	var out strings.Builder
	for range 1 + g.random.IntN(most) {
		out.WriteString("  - " + g.requirement(all, target, pick(g, of)) + "\n")
	}
	return out.String()
}

// nodeRules returns a policy that decides how the scheduler chooses nodes.
func (g *generator) nodeRules() string {
	spec := []string{g.match(someWorkloads, pods), g.maybe(20, "strict: true"), g.existing(true, true, true)}
	target := pick(g, g.nodes)
	rule := "rules:\n- name: gpu\n  candidates: Nodes\n  when: {expression: \"object.metadata.name.endsWith('-gpu')\"}\n  require:\n"
	list := slices.DeleteFunc(subjects(g.nodes, "field", "label"), func(s subject) bool { return s.name == "name" })
	rule += g.requirements(2, g.nodes, target, list)
	zones := strings.Contains(rule, "zone")
	s := pick(g, slices.DeleteFunc(list, func(s subject) bool {
		return strings.Contains(rule, s.text()+",") || zones && strings.Contains(s.name, "zone")
	}))
	rule += fmt.Sprintf("  prefer: [{%s, operator: In, values: %s, weight: 50}]\n", s.text(), s.list(valuesOf(g.nodes, s)[0]))
	rule += g.maybe(60, "  tolerate: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]\n") +
		g.maybe(40, "  spread: {field: zone, minDomains: 1}\n")
	class := pick(g, g.classes)
	g.limit(class)
	rule += "- name: others\n  set:\n    priorityClassName: " + marked("name of priority classes", class) + "\n"
	if labels := subjects(g.nodes, "label"); len(labels) > 0 {
		s := pick(g, labels)
		rule += fmt.Sprintf("    nodeSelector: {\"%s\": %s}\n", marked("name of label", s.name),
			strings.Trim(s.list(valuesOf(g.nodes, s)[0]), "[]"))
	}
	for range 6 {
		g.workload(pick(g, g.matched), nil, nil)
	}
	return policy(append(spec, g.guarded(rule))...)
}
