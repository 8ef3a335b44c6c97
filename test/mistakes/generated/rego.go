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
	"strings"
)

// rego returns the field with a text. In it, CONDITIONS stands for what some clusters meet.
func rego(text, conditions string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "CONDITIONS", conditions)
	return "rego: |\n  package generated\n\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
}

// quoted returns marked values in quotes, joined by commas.
func (s subject) quoted(values ...string) string { return strings.Trim(s.list(values...), "[]") }

// reads returns the expression that reads the subject of the cluster c.
func (s subject) reads() string {
	switch {
	case s == subject{"field", "name"}:
		return "name"
	case s.kind == "field":
		return "c." + s.name
	case s.kind == "property":
		return `c.properties["` + marked("name of property", s.name) + `"]`
	default:
		// A text may read labels that no cluster has yet.
		return fmt.Sprintf(`c.%ss["%s"]`, s.kind, marked("name of "+s.kind+similarly, s.name))
	}
}

// condition returns an expression that some cluster c meets.
func (g *generator) condition(s subject) string {
	known := valuesOf(g.clusters, s)
	own := pick(g, known)
	switch order := g.orders[s]; {
	case s.name == "zone":
		return s.quoted(own) + " in c.zones"
	case order.as == "Number":
		return fmt.Sprintf("to_number(%s) >= %s", s.reads(), order.values[0])
	case order.as == "Quantity":
		return fmt.Sprintf("k8s.quantity.compare(%s, %q) >= 0", s.reads(), order.values[0])
	case len(known) > 1 && g.chance(25):
		return s.reads() + " != " + s.quoted(own)
	case g.chance(40):
		return s.reads() + " in {" + s.quoted(some(g, known, 1+g.random.IntN(len(known)))...) + "}"
	case strings.ToLower(own) != own:
		return fmt.Sprintf("lower(%s) == %q", s.reads(), strings.ToLower(own))
	}
	return s.reads() + " == " + s.quoted(own)
}

// textsOfClusters give clusters.
var textsOfClusters = []string{`
clusters contains name if {
	some name, c in data.clusters
	CONDITIONS
}

errors contains "no cluster is left" if count(clusters) == 0
`, `
clusters := {name |
	some name, c in data.clusters
	c.ready
	CONDITIONS
	not repels(c)
} if input.metadata.labels.tier in {"gold", "silver"}

repels(c) if {
	some taint in c.taints
	not taint.effect in {"PreferNoSchedule", "PreferNoSelect"}
}
`, `
clusters contains name if {
	some name, c in data.clusters
	suits(name, c)
}

suits(name, c) if {
	name != ""
	CONDITIONS
}

suits(_, c) if c.labels["example.com/always"] == ""
`, `
clusters := {CLUSTERS} if input.metadata.namespace != "lab"

clusters := {name | some name, _ in data.clusters} if input.metadata.namespace == "lab"
`, `
clusters contains name if {
	some name, c in data.clusters
	CONDITIONS
	not name in data.allowed.other
}

warnings contains "few clusters" if count(clusters) < data.minimum

annotations["example.com/allowed"] := concat(",", data.allowed["eu west"])
`, `
score[name] := 100 if {
	some name, c in data.clusters
	CONDITIONS
}

clusters := k8s.choose_clusters(concat("/", [input.kind, input.metadata.namespace, input.metadata.name]), score, {"limit": 2})
`, `
wanted := input.metadata.annotations["example.com/cluster"]

clusters := {wanted} if {
	c := data.clusters[wanted]
	wanted != "none"
	c.ready
}

errors contains sprintf("%s is no cluster", [wanted]) if not data.clusters[wanted]
`, `
in_order := sort([[name, c.ready] |
	some name, c in data.clusters
	CONDITIONS
])

clusters := {in_order[0][0]} if count(in_order) > 0

labels["example.com/cluster"] := first if some first in clusters

default_region := object.get(input.metadata.annotations, "example.com/region", "none")

warnings contains "names no region" if default_region == "none"
`, `
# Nothing is drained yet.
drained(c) if c.labels["fleet.example.org/draining"] == "yes"

clusters[name] := {"weight": 2} if {
	some name, c in data.clusters
	CONDITIONS
	not drained(c)
	not c.terminating
}
`}

// clusterRego returns a policy in Rego that gives clusters.
func (g *generator) clusterRego() string {
	spec := []string{g.match(allWorkloads), g.maybe(30, "strict: true"), g.existing(true, false, false)}
	var conditions []string
	for _, s := range some(g, subjects(g.clusters, "field", "label", "annotation", "property"), 1+g.random.IntN(2)) {
		conditions = append(conditions, g.condition(s))
	}
	text, names := pick(g, textsOfClusters), subject{"field", "name"}
	if strings.Contains(text, "data.allowed") {
		spec = append(spec, `data: {allowed: {"eu west": [a, b], other: []}, minimum: 2}`)
	}
	text = strings.ReplaceAll(text, "CLUSTERS", names.quoted(some(g, valuesOf(g.clusters, names), 2)...))
	g.workload(pick(g, g.matched), nil, nil)
	return policy(append(spec, rego(text, strings.Join(conditions, "\n\t")))...)
}

// otherTexts give no clusters. Each has the resource rules that it is for.
var otherTexts = []struct{ kinds, text string }{{someWorkloads + "\n  " + pods, `
containers := input.spec.containers if input.kind == "Pod"

containers := input.spec.template.spec.containers if input.kind != "Pod"

errors contains sprintf("%s has the tag latest", [c.image]) if {
	some c in containers
	endswith(c.image, ":latest")
}
`}, {someWorkloads, `
scheduling.tolerations := [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}] if {
	some c in input.spec.template.spec.containers
	c.resources.limits["nvidia.com/gpu"]
}
`}, {someWorkloads, `
settings := data.kubernetes.configmaps["NAMESPACE"]["placement-settings"].data

annotations["example.com/zone"] := settings.defaultZone if not input.metadata.annotations["example.com/zone"]
`}, {someWorkloads, `
classes := {"production": "high", "development": "low"}

labels["example.com/class"] := classes[environment]

environment := data.kubernetes.namespaces[input.metadata.namespace].metadata.labels["example.com/environment"]
`}, {`- {apiGroups: [""], apiVersions: [v1], resources: [services, persistentvolumeclaims]}`, `
errors contains "no load balancers here" if {
	input.kind == "Service"
	input.spec.type == "LoadBalancer"
	input.metadata.namespace in {"lab", "ml"}
}

warnings contains "set a storage class" if {
	input.kind == "PersistentVolumeClaim"
	not input.spec.storageClassName
}
`}, {someWorkloads, `
warnings contains sprintf("%d replicas are few", [input.spec.replicas]) if {
	input.spec.replicas < 2
	input.metadata.labels.tier == "gold"
}

errors contains "more than 8Gi" if {
	some c in input.spec.template.spec.containers
	units.parse_bytes(c.resources.requests.memory) > units.parse_bytes("8Gi")
}
`}, {someWorkloads, `
busy if {
	q := data.berth.quotas[input.metadata.namespace].team
	k8s.quantity.compare(q.used.pods, q.hard.pods) >= 0
}

annotations["example.com/queue"] := "slow" if busy
`}, {someWorkloads + "\n  " + pods, `
preference := {"weight": 10, "preference": {"matchExpressions": [{"key": "example.com/pool", "operator": "In", "values": ["general"]}]}}

scheduling.affinity := {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}} if input.metadata.labels.app
`}, {`- {apiGroups: [""], apiVersions: [v1], resources: [namespaces]}`, `
labels["example.com/team"] := "none" if not input.metadata.labels["example.com/team"]

errors contains "begins with a dash" if startswith(input.metadata.name, "x-")
`}, {`- {apiGroups: [networking.k8s.io], apiVersions: ["*"], resources: [ingresses, networkpolicies]}`, `
annotations["example.com/owner"] := input.metadata.namespace

errors contains "the label owner is missing" if not "owner" in object.keys(input.metadata.labels)
`}, {someWorkloads, `
pods := data.kubernetes.pods[input.metadata.namespace]

warnings contains sprintf("%d pods", [count(pods)]) if count(pods) > 100

labels["example.com/nodes"] := format_int(count(data.kubernetes.nodes), 10)
`}, {`- {apiGroups: [batch], apiVersions: [v1], resources: [jobs, cronjobs]}`, `
spec := input.spec if input.kind == "Job"

spec := input.spec.jobTemplate.spec if input.kind == "CronJob"

errors contains "set a deadline" if not spec.activeDeadlineSeconds

labels["example.com/parallel"] := "true" if spec.parallelism > 1
`}}

// otherRego returns a policy in Rego, or of predicates, that gives no clusters.
func (g *generator) otherRego() string {
	if g.chance(10) {
		return policy(g.match(someWorkloads), "predicates: {candidates: Nodes, names: [NodeResourcesFit, TaintToleration]}",
			g.existing(true, true, false))
	}
	one := pick(g, otherTexts)
	text := strings.ReplaceAll(one.text, "NAMESPACE", marked("name of namespaces", pick(g, g.namespaces).name))
	evicts := strings.Contains(one.kinds, pods) && strings.Contains(text, "scheduling")
	return policy(g.match(one.kinds), g.maybe(30, "strict: true"), g.existing(true, true, evicts), rego(text, ""))
}
