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

package console_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/decisionlog"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/internal/simulation"
)

// attack is a text that runs a script where a page takes it as HTML, reorders and hides what is around it, and has controls of terminals.
const attack = `"'><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>` + "\u202e\u2066\u200b\u0007\x1b[31m"

// endless is a text without a place for a line break.
var endless = strings.Repeat("endless", 150)

// hostileWorld is a cluster of which each text is hostile: EVIL stands for the attack, and LONG for the endless text.
const hostileWorld = `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: EVIL one, labels: {EVIL: EVIL, tier: EVIL, long: LONG, empty: ""}, annotations: {EVIL: EVIL}}
spec: {region: EVIL, zones: [EVIL, LONG], provider: EVIL}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: LONG two, labels: {LONG: LONG, tier: LONG}}
spec: {region: LONG, zones: [""], provider: ""}
---
apiVersion: v1
kind: Namespace
metadata: {name: EVIL ns, labels: {EVIL: EVIL}}
---
apiVersion: v1
kind: Namespace
metadata: {name: LONG ns}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: decides, generation: 1, annotations: {EVIL: EVIL}}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  remediation: {mode: Approved}
  rego: |
    package decides

    clusters contains name if {
      some name, c in data.clusters
      c.labels.tier == input.metadata.labels.tier
    }

    errors contains input.metadata.labels.deny

    warnings contains input.metadata.annotations.warn
status:
  conditions: [{type: EVIL, status: "False", reason: EVIL, message: EVIL, lastTransitionTime: "2026-01-01T12:00:00Z"},
    {type: Ready, status: "False", reason: LONG, message: LONG}]
  waiting: [{reason: EVIL, objects: 1, message: EVIL}, {reason: LONG, objects: 2, message: LONG}]
  findings: [EVIL, LONG]
  rules: [{name: EVIL, objects: 2}]
  moving: [{object: EVIL, since: "2026-01-01T12:00:00Z"}]
  failures: {objects: 1, sample: [{object: EVIL, reason: EVIL, message: LONG}]}
  rollout: {stage: EVIL, message: EVIL, reached: 1, stages: [{name: EVIL}, {name: LONG}]}
  plan:
    {digest: EVIL, state: WaitingForApproval, message: EVIL, causes: [EVIL, LONG], startTime: "2026-01-01T12:00:00Z", moves: 1, done: 0,
     approval: {user: EVIL, time: "2026-01-01T12:00:00Z"}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: EVIL policy}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  mode: EVIL
  rules: [{name: EVIL, deny: EVIL}, {name: LONG, require: [{label: EVIL, operator: In, values: [EVIL, LONG]}]}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {name: EVIL web, namespace: EVIL ns, labels: {tier: EVIL, EVIL: EVIL}, annotations: {placement.berth.dev/clusters: '["LONG two"]', warn: EVIL, EVIL: EVIL}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: LONG web, namespace: LONG ns, labels: {tier: LONG}, annotations: {warn: LONG}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: denied, namespace: EVIL ns, labels: {deny: EVIL}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ScopedQuota
metadata: {name: EVIL quota, namespace: EVIL ns}
spec: {hard: {EVIL: "4", LONG: "5"}, mode: EVIL, scopes: [EVIL]}
status: {used: {EVIL: "8"}, conditions: [{type: Ready, status: "False", reason: EVIL, message: EVIL}]}
---
apiVersion: placement.berth.dev/v1alpha1
kind: ClusterScopedQuota
metadata: {name: LONG quota}
spec: {hard: {pods: "4"}}
status: {used: {pods: "1"}, selectedNamespaces: 1, namespaces: [{namespace: EVIL, used: {pods: "1"}}]}
`

// madeHostile returns a value of a manifest with hostile texts.
func madeHostile(value any) any {
	replaced := strings.NewReplacer("EVIL", attack, "LONG", endless)
	switch value := value.(type) {
	case string:
		if strings.HasPrefix(value, "[") {
			// It is a list in the form of JSON.
			return strings.NewReplacer("LONG", endless).Replace(value)
		}
		return replaced.Replace(value)
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = madeHostile(value[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, member := range value {
			out[replaced.Replace(key)] = madeHostile(member)
		}
		return out
	}
	return value
}

func hostileCluster(t *testing.T) simulation.Cluster {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(hostileWorld, "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		obj.Object, _ = madeHostile(obj.Object).(map[string]any)
		objects = append(objects, obj)
	}
	out, err := simulation.NewStatic(simulation.KubernetesDiscovery(), replication.Known(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hostileLog returns a log of which each text is hostile.
func hostileLog() *memoryLog {
	log := &memoryLog{}
	for i, text := range []string{attack, endless, ""} {
		log.entries = append(log.entries, decisionlog.Entry{
			Time: time.Date(2026, 1, 1, 12, 0, i, 0, time.UTC), Action: decisionlog.Action(text), User: text,
			Object:   decisionlog.Object{Group: text, Resource: text, Kind: text, Namespace: text, Name: text},
			Policies: []decisionlog.Policy{{Name: text}}, Causes: []string{text}, Plans: []string{text}, ApprovedBy: []string{text},
			Changes: []decisionlog.Change{{Field: "annotation " + text, From: &text, To: &text}},
		})
	}
	return log
}

// unsafe returns what is wrong with a page that shows hostile texts. Fields have the texts as they are, so that the user can edit them.
const unsafe = `(() => {
	const out = [], invisible = /[^\P{Cc}\n\t]|[\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/u;
	if (window.hacked !== undefined) out.push("a script ran");
	if (document.scripts.length !== 1) out.push("there are other scripts");
	if (document.querySelector("img[src=x]")) out.push("there is another image");
	if (invisible.test(document.title)) out.push("the title");
	if ((window.drawn ?? []).some(({ text }) => invisible.test(text))) out.push("a text in the picture");
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const { data, parentNode } = texts.currentNode;
		if (invisible.test(data)) out.push("the text " + JSON.stringify(data.slice(0, 200)) + " in " + parentNode.className);
	}
	for (const element of document.body.querySelectorAll("[title], [aria-label], [placeholder]")) {
		for (const name of ["title", "aria-label", "placeholder"]) {
			if (invisible.test(element.getAttribute(name) ?? "")) out.push(name + " of " + element.tagName);
		}
	}
	for (const link of document.querySelectorAll("a[href]")) {
		if (!["http:", "https:"].includes(link.protocol)) out.push("a link to " + link.protocol);
	}
	return out;
})()`

// TestHostileTexts shows hostile texts in each place where pages show a text of others.
func TestHostileTexts(t *testing.T) {
	settings := config(hostileCluster(t))
	settings.Log = hostileLog()
	c := openConsole(t, settings, spyOnCanvas)
	c.await("window.drawn.length > 0")
	check := func(hash string) {
		t.Helper()
		for _, width := range []int{1280, narrow} {
			c.resize(width, 800, 1)
			c.checkWidth()
			for _, problem := range evaluate[[]string](c, unsafe) {
				t.Errorf("%q, %d pixels wide: %s", hash, width, problem)
			}
		}
	}
	evil, long := url.QueryEscape(attack), endless
	escaped := strings.ReplaceAll(evil, "+", "%20")
	for _, view := range []struct{ hash, condition string }{
		{"#/fleet", "document.querySelector('canvas')"},
		{"#/fleet?cluster=" + escaped + "%20one", "document.querySelector('.details')"},
		{"#/fleet?cluster=" + long + "%20two", "document.querySelector('.details tbody')"},
		{"#/fleet?cluster=none" + escaped, "document.querySelector('.note')"},
		{"#/workload", "document.querySelectorAll('.page.workload tbody tr').length === 3"},
		{"#/policies?name=decides", "document.querySelector('.page.policies .wide')"},
		{"#/policies?name=" + escaped + "%20policy", "document.querySelector('.page.policies .wide')"},
		{"#/plan?name=decides", "document.querySelector('.page.plan .command')"},
		{"#/plan?name=" + escaped, "document.querySelector('.page.plan .note')"},
		{"#/quotas", "document.querySelectorAll('.page.quotas .card').length === 2"},
		{"#/history", "document.querySelectorAll('.page.history tbody tr').length > 3"},
		{"#/playground?policy=decides&cluster=" + escaped + "%20one", "document.querySelector('.labels .row')"},
		{"#/playground?policy=" + escaped + "%20policy", "document.querySelector('.editor')"},
	} {
		c.visit(view.hash, view.condition)
		check(view.hash)
	}
	c.visit("#/workload", "document.querySelectorAll('.page.workload tbody tr').length === 3")
	links := evaluate[[]string](c, "[...document.querySelectorAll('.page.workload tbody th a')].map((a) => a.hash)")
	for _, link := range slices.Compact(links) {
		c.visit(link, "document.querySelector('.page.workload h1') && document.querySelector('.command')")
		check(link)
	}
	c.visit("#/fleet", "document.querySelector('canvas')")
	c.focusOn("document.getElementById('find')")
	c.write("web")
	c.await("document.querySelectorAll('#found [role=option]').length === 2")
	check("search")
	c.push("Table")
	c.await("document.querySelectorAll('.body tbody tr').length >= 2")
	check("table")
	c.visit("#/playground?policy=decides", editorHas("package decides"))
	c.edit(fmt.Sprintf("apiVersion: placement.berth.dev/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: decides, annotations: {mistake: %q}}\n", attack))
	c.await("document.querySelector('.mistakes li')")
	check("mistakes")
	for _, problem := range c.Problems {
		if !strings.Contains(problem, "404 (Not Found)") {
			t.Errorf("the page reports: %s", problem)
		}
	}
}
