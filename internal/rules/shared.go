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

package rules

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/policy/language"
)

// shared are the Rego functions and rules that several rules may use, in the order in which a module has those that it uses.
var shared = []struct{ name, text string }{
	{"namespace_labels", `
# The labels of the object's namespace. A Namespace is matched by its own labels.
namespace_labels := data.resources.v1.namespaces[input.metadata.namespace].metadata.labels

namespace_labels := input.metadata.labels if is_namespace
`},
	{"has_namespace_labels", `
# Only Namespaces and objects in namespaces are matched by the labels of namespaces.
has_namespace_labels if input.metadata.namespace

has_namespace_labels if is_namespace

is_namespace if {
	input.apiVersion == "v1"
	input.kind == "Namespace"
}
`},
	{language.RuleObjectPath, `
# What the rank of a cluster for an object is computed from. Objects that one template generates have the same path.
object_path := concat("/", [ranked_as[0], object_namespace, ranked_as[1]])

# The kind and name of the object. What a controller makes from its template has those of the controller, and a Pod of a Deployment
# has those of the Deployment.
ranked_as := ["Deployment", trim_suffix(controller.name, hash)] if {
	input.kind == "Pod"
	controller.kind == "ReplicaSet"
	hash := concat("-", ["", input.metadata.labels["pod-template-hash"]])
	endswith(controller.name, hash)
} else := [controller.kind, controller.name] if {
	input.kind in {"ControllerRevision", "Job", "Pod", "ReplicaSet"}
} else := [input.kind, object_name]

controller := [owner | some owner in input.metadata.ownerReferences; owner.controller == true][0]
`},
	{"object_namespace", `
default object_namespace := ""

object_namespace := input.metadata.namespace
`},
	{"object_name", `
# The name of the object, or what its name is generated from.
object_name := input.metadata.generateName if {
	input.metadata.generateName != ""
} else := input.metadata.name

default object_name := ""
`},
	{"repelled", `
# The clusters with a taint that repels objects.
repelled contains name if {
	some name, cluster in data.clusters
	some taint in cluster.taints
	not object.get(taint, "effect", "") in ` + harmlessEffects + `
}
`},
	{"repelling", `
# The first taint of a cluster that repels objects: its key, effect, and value.
repelling(cluster) := min({taint_parts(taint) |
	some taint in cluster.taints
	not object.get(taint, "effect", "") in ` + harmlessEffects + `
})
`},
	{functionTaintParts, `
taint_parts(taint) := [object.get(taint, "key", ""), object.get(taint, "effect", ""), object.get(taint, "value", "")]
`},
	{functionText, `
# A value as a text. Inventories may have numbers and booleans.
text(value) := value if is_string(value)

text(value) := format_int(value, 10) if {
	is_number(value)
	floor(value) >= value
}

text(value) := sprintf("%v", [value]) if {
	is_number(value)
	floor(value) < value
}

text(value) := sprintf("%v", [value]) if is_boolean(value)
`},
	{functionNumber, `
# A decimal number.
number(value) := value if is_number(value)

number(value) := to_number(trim_left(value, "+")) if {
	is_string(value)
	regex.match(` + "`" + numberPattern + "`" + `, value)
}
`},
	{functionVersion, `
# The first three numbers of a version.
version(value) := [to_number(n) |
	some n in array.slice(array.concat(regex.find_n("[0-9]+", found[0], 3), ["0", "0"]), 0, 3)
] if {
	is_string(value)
	not regex.match(` + "`" + longVersionPattern + "`" + `, value)
	found := regex.find_n(` + "`" + versionPattern + "`" + `, value, 1)
	count(found) > 0
}
`},
	{functionFree, `
# The free quantity of a resource: what is allocatable, less what is allocated.
free(allocatable, allocated, name) := k8s.quantity.sub(quantity(allocatable), quantity(object.get(allocated, name, "0")))
`},
	{functionAmount, `
# A quantity as a text that k8s.scale can read.
amount(value) := k8s.quantity.add(quantity(value), "0")
`},
	{functionScore, `
# A score of a cluster in an AddOnPlacementScore, which is in the namespace with the name of the cluster.
add_on_score(cluster, object, name) := [score.value |
	some score in data.resources["cluster.open-cluster-management.io/v1alpha1"].addonplacementscores[cluster][object].status.scores
	score.name == name
][0]
`},
	{functionQuantity, `
# A quantity.
quantity(value) := value if is_number(value)

quantity(value) := value if {
	is_string(value)
	regex.match(` + "`" + quantityPattern + "`" + `, value)
}
`},
	{functionInvalid, `
# An error of a value of the object, in the words of the API server.
invalid(path, value, form) := sprintf("%s: Invalid value: %.64q: %s", [path, value, form])
`},
	{"pod_selector", `
# The label selector of the object's pods. That of a Job is generated when it is created.
pod_selector := input.spec.selector if {
	input.kind != "Job"
	input.spec.template
	some member in ["matchLabels", "matchExpressions"]
	input.spec.selector[member]
} else := {"matchLabels": labels} if {
	labels := object.remove(pod_labels, generated_labels)
	count(labels) > 0
}

pod_labels := input.metadata.labels if {
	input.kind == "Pod"
} else := input.spec.template.metadata.labels if {
	input.spec.template
} else := input.spec.jobTemplate.spec.template.metadata.labels if {
	input.spec.jobTemplate
} else := input.template.metadata.labels

# Labels that pods of one object do not share, or that Jobs get when they are created.
generated_labels := [
	"apps.kubernetes.io/pod-index",
	"batch.kubernetes.io/controller-uid",
	"batch.kubernetes.io/job-completion-index",
	"batch.kubernetes.io/job-name",
	"controller-uid",
	"job-name",
	"statefulset.kubernetes.io/pod-name",
]
`},
	{"shortage", `
# Why too few clusters are eligible: what they lack, the most frequent first, in at most five groups.
shortage(eligible, lacks, domains) := sprintf("%d/%d clusters are eligible%s%s%s", [
	count(eligible),
	count(eligible) + count(lacks),
	domains,
	reasons(lacks, count(eligible) + count(lacks)),
	ambiguous,
])

# The names of clusters that several objects have, so that no cluster has them: at most three, with at most three objects each.
ambiguous := concat("", array.concat(
	[sprintf("; cluster %s is ambiguous: %s have this name", [name, several(objects)]) |
		some [name, objects] in array.slice(ambiguous_names, 0, 3)
	],
	[sprintf("; %d more are ambiguous", [count(ambiguous_names) - 3]) | count(ambiguous_names) > 3],
))

ambiguous_names := sort([[name, objects] | some name, objects in data.berth.ambiguousclusters])

several(objects) := concat(" and ", array.concat(
	array.slice(objects, 0, 3),
	[sprintf("%d more", [count(objects) - 3]) | count(objects) > 3],
))

# What a cluster lacks, as a text. Taints that differ in their value alone are one group, which is named without a value.
lack_text(lack, _) := lack if is_string(lack)

lack_text([key, effect, _], varied) := taint_text(key, "", effect) if [key, effect] in varied

lack_text([key, effect, value], varied) := taint_text(key, value, effect) if not [key, effect] in varied

# A taint, as in key=value:effect.
taint_text(key, value, effect) := concat("", [
	"with untolerated taint ",
	trim_suffix(sprintf("%v:%v", [trim_suffix(sprintf("%v=%v", [key, value]), "="), effect]), ":"),
])

reasons(_, 0) := concat("", [": no inventory has a cluster" | count(ambiguous_names) == 0])

reasons(lacks, clusters) := text if {
	clusters > 0
	varied := {taint |
		some taint in {[key, effect] | some [key, effect, _] in lacks}
		count({value | some [key, effect, value] in lacks; [key, effect] == taint}) > 1
	}
	texts := [text | some lack in lacks; text := lack_text(lack, varied)]
	groups := sort([[0 - count([1 | some other in texts; other == text]), text] | some text in {text | some text in texts}])
	shown := [sprintf("%d %s", [0 - n, text]) | some [n, text] in array.slice(groups, 0, 5)]
	others := 0 - sum([n | some [n, _] in array.slice(groups, 5, count(groups))])
	rest := [sprintf("%d for other reasons", [others]) | others > 0]
	before := [":" | count(groups) > 0]
	text := concat(" ", array.concat(before, [concat(", ", array.concat(shown, rest)) | count(groups) > 0]))
}
`},
}

// dependsOn has, for each of shared that uses others, the names of these.
var dependsOn = map[string][]string{
	"namespace_labels":      {"has_namespace_labels"},
	language.RuleObjectPath: {"object_namespace", "object_name"},
	"repelling":             {functionTaintParts},
	functionFree:            {functionQuantity},
	functionAmount:          {functionQuantity},
}

// sharedText returns the Rego of the shared functions and rules that are used, with those that these need, in the order of shared, and then
// of a Rego rule for each label and annotation of the object in placeholders (objectTexts). It returns "" if there are none of both.
func (g *generator) sharedText() string {
	for _, one := range shared {
		if g.helpers[one.name] {
			for _, needed := range dependsOn[one.name] {
				g.use(needed)
			}
		}
	}
	var out strings.Builder
	for _, one := range shared {
		if g.helpers[one.name] {
			out.WriteString(one.text)
		}
	}
	for i, placeholder := range g.objectTexts {
		fmt.Fprintf(&out, "\ndefault object_text_%d := \"\"\n\nobject_text_%d := %s\n", i+1, i+1, objectTextOf(placeholder))
	}
	return out.String()
}
