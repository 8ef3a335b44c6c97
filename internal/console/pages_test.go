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
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/console"
	"github.com/berth-dev/berth/internal/decisionlog"
)

// spyOnCanvas has a page keep the texts of its picture, with their places, as drawn.
const spyOnCanvas = `window.drawn = [];
{
	const picture = CanvasRenderingContext2D.prototype, { clearRect, fillText } = picture;
	picture.clearRect = function (...area) {
		window.drawn = [];
		return clearRect.apply(this, area);
	};
	picture.fillText = function (text, x, y) {
		window.drawn.push({ text, x: Math.round(x), y: Math.round(y), pale: this.globalAlpha < 1 });
		return fillText.call(this, text, x, y);
	};
}`

// drawn is the condition that the picture has texts, or their beginnings if there is little room.
func drawn(texts ...string) string {
	conditions := make([]string, len(texts))
	for i, text := range texts {
		conditions[i] = fmt.Sprintf("window.drawn.some((d) => d.text === %q || d.text.startsWith(%q))", text, text[:min(3, len(text))]+"…")
	}
	return strings.Join(conditions, " && ")
}

// places returns the texts of the picture with their places.
func (c *chromium) places() string {
	c.t.Helper()
	evaluate[any](c, "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
	return evaluate[string](c, "JSON.stringify(window.drawn)")
}

// pale is the condition that the picture shows some clusters paler than others.
func pale(cluster string, want bool) string {
	return fmt.Sprintf("window.drawn.some((d) => d.text === %q && d.pale === %v)", cluster, want)
}

// TestPicture groups, sizes, filters, and zooms the picture of the fleet.
func TestPicture(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas)), spyOnCanvas)
	for _, tt := range []struct {
		grouping string
		groups   []string
	}{
		{"state", []string{"Violating", "Waiting"}},
		{"policy", []string{"gold, region"}},
		{"zone", []string{"eu-a, eu-b", "unknown zone"}},
		{"none", []string{"all clusters"}},
		{"region", []string{"eu", "us", "in no cluster"}},
	} {
		c.choose("Group", tt.grouping)
		c.await(drawn(tt.groups...))
	}
	whole := c.places()
	for _, size := range []string{"cpu", "equal", "workloads"} {
		before := c.places()
		c.choose("Size", size)
		c.await(fmt.Sprintf("JSON.stringify(window.drawn) !== %q", before))
	}
	if again := c.places(); again != whole {
		t.Errorf("the same grouping and size look different:\n%s\n%s", whole, again)
	}
	search := "Show clusters by name, region, zone, policy, or label"
	c.fill(search, "US")
	c.await(pale("us-1", false) + " && " + pale("eu-1", true) + " && document.getElementById('status').textContent === '1 cluster match'")
	c.fill(search, "example.com/tier=gold")
	c.await(pale("us-1", true) + " && " + pale("eu-1", false))
	c.fill(search, "")
	c.await(pale("us-1", false))
	states := "[...document.querySelectorAll('.toggle')]"
	running := states + ".find((b) => b.textContent.includes('running'))"
	totals := evaluate[string](c, states+".map((b) => b.textContent).join()")
	evaluate[any](c, running+".click()")
	c.await(pale("eu-1", false) + " && " + pale("no cluster", true) + " && " + running + ".ariaPressed === 'true'")
	if now := evaluate[string](c, states+".map((b) => b.textContent).join()"); now != totals {
		t.Errorf("with only one state, the totals are %s, want %s", now, totals)
	}
	evaluate[any](c, running+".click()")
	c.await(pale("no cluster", false) + " && " + running + ".ariaPressed === 'false'")
	c.testZoom(whole)
	c.testChoice()
}

func (c *chromium) testZoom(whole string) {
	c.t.Helper()
	changes := func() string { return fmt.Sprintf("JSON.stringify(window.drawn) !== %q", c.places()) }
	for _, zoom := range []func(){
		func() { evaluate[any](c, "document.querySelector('[aria-label=\"Zoom in\"]').click()") },
		func() { evaluate[any](c, "document.querySelector('[aria-label=\"Zoom out\"]').click()") },
		func() {
			c.call("Input.dispatchMouseEvent", map[string]any{"type": "mouseWheel", "x": 300, "y": 300, "deltaX": 0, "deltaY": -400}, nil)
		},
	} {
		changed := changes()
		zoom()
		c.await(changed)
	}
	c.push("Fit")
	c.await(fmt.Sprintf("JSON.stringify(window.drawn) === %q", whole))
}

// testChoice chooses a cluster with the mouse, and closes its details.
func (c *chromium) testChoice() {
	c.t.Helper()
	at := evaluate[struct{ X, Y float64 }](c, `(() => {
		const text = window.drawn.find((d) => d.text === "us-1"), bounds = document.querySelector("canvas").getBoundingClientRect();
		return { x: bounds.left + text.x + 5, y: bounds.top + text.y };
	})()`)
	c.click(at.X, at.Y)
	c.await("document.querySelector('.details h2')?.textContent === 'us-1' && " + shows("region=us"))
	evaluate[any](c, "document.querySelector('.details .close').click()")
	c.await("!document.querySelector('.details')")
}

// TestHistoryPage shows the decisions of a log.
func TestHistoryPage(t *testing.T) {
	log := &memoryLog{}
	for i := range 250 {
		log.add(fmt.Sprint("web-", i), "region")
	}
	from, to := `["eu-1","eu-2"]`, `["eu-2","us-1"]`
	last := &log.entries[249]
	last.Changes = []decisionlog.Change{{Field: "annotation placement.berth.dev/clusters", From: &from, To: &to, Policy: "region"}}
	last.Causes, last.ApprovedBy = []string{"Cluster eu-1: label region \"eu\" → \"us\""}, []string{"dana"}
	settings := config(static(t, clusters+policies+workloads+quotas))
	settings.Log = log
	c := openConsole(t, settings)
	c.visit("#/history", "document.querySelectorAll('.page.history section:first-of-type tbody tr').length === 200")
	first := evaluate[string](c, "document.querySelector('.page.history tbody tr').innerText")
	for _, want := range []string{"shop/web-249", "patched", "eu-2", "−eu-1", "+us-1", "Cluster eu-1: label region", "approved by dana", "generation 1"} {
		if !strings.Contains(first, want) {
			t.Errorf("the newest decision lacks %q:\n%s", want, first)
		}
	}
	c.push("Older")
	c.await("document.querySelectorAll('.page.history section:first-of-type tbody tr').length === 50")
	c.fill("Show decisions by a part of the namespace or name", "web-24")
	c.await("document.querySelectorAll('.page.history section:first-of-type tbody tr').length === 11")
	evaluate[any](c, "document.querySelector('.page.history tbody th a, .page.history tbody td a').click()")
	c.visit("#/history?resource=deployments.apps&namespace=shop&name=web-7", "document.querySelectorAll('.page.history tbody tr').length === 1")
}

// nodes are the nodes of the tests, and a policy that reads them.
const nodes = `---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {disk: ssd}}
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: disks}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    objectSelector: {matchLabels: {region: eu}}
  rego: |
    package disks

    # Is there a node with a fast disk?
    labels.disk := "fast" if {
      some node in data.kubernetes.nodes
      node.metadata.labels.disk == "ssd"
      not node.spec.unschedulable
    }
`

// TestPlaygroundEdits tries a label of a cluster, a quota, and a node.
func TestPlaygroundEdits(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas+nodes)))
	c.visit("#/playground?policy=gold&cluster=eu-2", "document.querySelector('.labels .row')")
	c.fill("The value of the label region", "us")
	c.await(shows("kubectl label --overwrite clusters.cluster.karmada.io eu-2 region=us") + " && document.querySelector('.totals .moving, .totals .waiting')")
	row := "document.querySelector('.labels .row')"
	if got := evaluate[string](c, row+".innerText + "+row+".querySelector('input').value"); !strings.Contains(got, "was eu") || !strings.HasSuffix(got, "us") {
		t.Errorf("the form shows %q", got)
	}
	c.push("Undo all")
	c.await("!document.querySelector('.totals') && document.querySelector('.labels .row input').value === 'eu'")
	c.testLabels()
	c.push("Remove eu-2")
	c.await(shows("kubectl delete clusters.cluster.karmada.io eu-2"))
	c.push("Undo all")

	c.fill("The cluster or node to change", "node-1")
	c.await("document.querySelector('.labels input[type=checkbox]')")
	evaluate[any](c, "document.querySelector('.labels input[type=checkbox]').click()")
	c.await(shows(`kubectl patch --type=merge nodes node-1 --patch '{"spec":{"unschedulable":true}}'`) + " && document.querySelector('.totals')")
	if !evaluate[bool](c, "document.querySelector('.labels input[type=checkbox]').checked") {
		t.Error("the form does not show that the node is cordoned")
	}
	c.push("Undo all")

	c.visit("#/playground?resource=scopedquotas.placement.berth.dev&namespace=shop&name=compute", editorHas("kind: ScopedQuota"))
	c.edit("apiVersion: placement.berth.dev/v1alpha1\nkind: ScopedQuota\nmetadata: {name: compute, namespace: shop}\nspec: {hard: {pods: \"20\"}}\n")
	c.await(shows("kubectl apply --server-side -f changes.yaml") + " && document.querySelector('.totals')")
}

// testLabels tries labels of eu-2 as a user types, removes one, and takes the changes back.
func (c *chromium) testLabels() {
	c.t.Helper()
	region := "document.querySelector('[aria-label=\"The value of the label region\"]')"
	evaluate[any](c, "document.activeElement.blur()")
	c.focusOn(region)
	// Typing replaces the value.
	c.write("us")
	// The user need not leave the field.
	c.await(shows("eu-2 region=us") + " && document.activeElement === " + region)
	evaluate[any](c, region+".select()")
	c.write("eu")
	c.await("!document.querySelector('.totals') && !document.querySelector('.tried')")
	evaluate[any](c, "document.activeElement.blur()")
	at := evaluate[struct{ X, Y float64 }](c, "(() => { const box = "+region+".getBoundingClientRect(); return { x: box.left + 20, y: box.top + 10 }; })()")
	c.click(at.X, at.Y)
	c.write("us")
	c.await(shows("eu-2 has region=us (was eu)") + " && " + region + ".value === 'us'")
	c.push("Undo all")
	c.await("!document.querySelector('.totals')")

	c.pushNamed("Remove the label region")
	c.await(shows("kubectl label --overwrite clusters.cluster.karmada.io eu-2 region-") + " && document.querySelector('.totals .moving, .totals .waiting')")
	c.pushNamed("Keep the label region as it is")
	c.await("!document.querySelector('.totals') && " + region + ".value === 'eu'")

	name, value := "The name of another label", "The value of the label that you named"
	c.fill(name, "zone")
	c.fill(value, "a")
	c.await(shows("eu-2 zone=a") + " && " + shows("No policy reads this label."))
	c.fill(name, "example.com/tier")
	c.await(shows("eu-2 example.com/tier=a") + " && !" + shows("eu-2 zone=a"))
	evaluate[any](c, "document.querySelector('.tried button').click()")
	c.await(fmt.Sprintf("!document.querySelector('.totals') && document.querySelector('[aria-label=%q]').value === ''", name))

	// The cluster has its region in another field than the label.
	if text := c.text(); !strings.Contains(text, "The field region, which policies can read, is spec.region, not this label.") || !strings.Contains(text, "read by region") {
		c.t.Errorf("the form does not say what policies read:\n%s", text)
	}
	c.fill("The value of the field region", "us")
	c.await(shows(`kubectl patch --type=merge clusters.cluster.karmada.io eu-2 --patch '{"spec":{"region":"us"}}'`))
	c.push("Undo all")

	// The labels of another cluster take the place of those of the first one with the last letter of its name.
	c.focusOn("document.querySelector('[aria-label=\"The cluster or node to change\"]')")
	c.write("us-")
	c.await("!document.querySelector('.labels .row')")
	c.write("1")
	c.await(region + "?.value === 'us'")
	c.visit("#/fleet", "document.querySelector('canvas')")
	c.visit("#/playground?cluster=eu-2", "document.activeElement === "+region+" && "+region+".value === 'eu'")
	c.write("us")
	c.await(region + ".value === 'us' && " + shows("If eu-2 has region=us (was eu)"))
	c.push("Undo all")
	// The order stays when the user comes back.
	const above = "document.querySelector('.labels').compareDocumentPosition(document.querySelector('.editor')) === Node.DOCUMENT_POSITION_FOLLOWING"
	if !evaluate[bool](c, above) {
		c.t.Error("the form is not above the text")
	}
	c.visit("#/fleet", "document.querySelector('canvas')")
	c.visit("#/playground", "document.querySelector('.labels') && document.querySelector('.editor')")
	if !evaluate[bool](c, above) {
		c.t.Error("the form is not above the text when the user comes back")
	}
}

// annotated is a policy that reads an annotation of clusters.
const annotated = `---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: gpu}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    objectSelector: {matchLabels: {gpu: a100}}
  rego: |
    package gpu

    clusters contains name if {
      some name, cluster in data.clusters
      cluster.annotations["example.com/gpus"] == "a100"
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: shop, labels: {region: eu, gpu: a100}}
`

// TestWhatIfOfReason goes from a reason, an annotation that a cluster lacks, to the form with that annotation.
func TestWhatIfOfReason(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas+annotated)))
	const link = "document.querySelector('[aria-label=\"What if eu-1 changes?\"]')"
	c.visit("#/workload?resource=deployments.apps&namespace=shop&name=train", link)
	evaluate[any](c, link+".click()")
	c.await("document.activeElement.ariaLabel === 'The value of the annotation example.com/gpus' && " + editorHas("name: gpu") + " && " + shows("read by gpu"))
	c.checkNames()
	c.checkAccessibility()
	c.write("a100")
	c.await(shows("If eu-1 has example.com/gpus=a100 (new)") + " && " + shows("+eu-1"))
	c.pushNamed("Keep the annotation example.com/gpus as it is")
	c.await("!document.querySelector('.totals')")
}

// pushNamed pushes the button with a name.
func (c *chromium) pushNamed(name string) {
	c.t.Helper()
	button := fmt.Sprintf("document.querySelector('button[aria-label=%q]')", name)
	c.await(button)
	evaluate[any](c, button+".click()")
}

// late is a workload that waits to leave eu-1.
const late = `apiVersion: apps/v1
kind: Deployment
metadata: {name: late, namespace: shop, labels: {region: us}, annotations: {placement.berth.dev/clusters: '["eu-1","us-1"]'}}
---
`

// otherClusters is the policy region, which decides the same clusters for all objects.
const otherClusters = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  remediation: {mode: Approved}
  rego: |
    package region

    clusters := {CLUSTERS}
`

// TestPlaygroundWaiting tries changes by which a workload no longer waits for a move, or waits for another one.
func TestPlaygroundWaiting(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+late+quotas)))
	row := `[...document.querySelectorAll(".result tbody tr")].find((row) => row.innerText.includes("shop/late"))?.innerText.replace(/\s+/g, " ") ?? ""`
	for decided, want := range map[string]string{
		`"eu-1", "us-1"`: "no longer waiting would stay as it is, and no longer wait for this change: us-1 −eu-1",
		`"eu-1"`:         "waiting for another move eu-1 −us-1 it waits already, instead, for us-1 −eu-1",
	} {
		c.visit("#/playground?policy=region", editorHas("name: region"))
		c.edit(strings.Replace(otherClusters, "CLUSTERS", decided, 1))
		c.await(fmt.Sprintf(`(%s).includes(%q)`, row, want))
		c.checkNames()
		c.checkAccessibility()
		if n := evaluate[int](c, `document.querySelector(".result").innerText.split("for an approval of the plan of PlacementPolicy region").length - 1`); n != 1 {
			t.Errorf("%s: the page says %d times what the workloads wait for", decided, n)
		}
		if !evaluate[bool](c, `document.querySelector(".result table").compareDocumentPosition(document.querySelector(".result .command")) === Node.DOCUMENT_POSITION_FOLLOWING`) {
			t.Errorf("%s: the list does not come before the commands", decided)
		}
		c.await("[...document.querySelectorAll('.result .command code')].at(-1).innerText === 'kubectl berth approve region' && " + shows("for an approval:"))
	}
	c.edit(alsoEU1)
	c.await(shows("Nothing moves; 1 workload would no longer wait to move."))
	struck := evaluate[[]string](c, "[...document.querySelectorAll('.result .dropped > span')].map((e) => e.innerText + ' ' + getComputedStyle(e).textDecorationLine)")
	if want := []string{"us-1 none", "−eu-1 line-through"}; !slices.Equal(struck, want) {
		t.Errorf("the former move is shown as %q, want %q", struck, want)
	}
	c.testTotals()
}

// alsoEU1 is the policy region, which lets objects of the region us stay in eu-1.
var alsoEU1 = strings.Replace(otherClusters, "clusters := {CLUSTERS}", `clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    clusters contains "eu-1" if input.metadata.labels.region == "us"

    errors contains "no region" if not input.metadata.labels.region`, 1)

// testTotals shows the objects of one total, also of those that wait as before, and goes to the plan with what waits.
func (c *chromium) testTotals() {
	c.t.Helper()
	c.push("Undo all")
	c.visit("#/playground?policy=gold", editorHas("name: gold"))
	const others = "objectSelector: {matchExpressions: [{key: region, operator: NotIn, values: [us]}]}}"
	c.edit(strings.Replace(onlyGold, "[deployments]}]}", "[deployments]}], "+others, 1))
	waiting := "[...document.querySelectorAll('.totals button')].find((b) => b.lastChild.textContent === 'waiting as before')"
	c.await(waiting)
	const titles = "[...document.querySelectorAll('.result tbody .badge')].map((e) => e.textContent)"
	const pushed = "[...document.querySelectorAll('.totals button')].filter((b) => b.ariaPressed === 'true')"
	for _, title := range evaluate[[]string](c, "[...document.querySelectorAll('.totals button')].map((b) => b.lastChild.textContent)") {
		tile := fmt.Sprintf("[...document.querySelectorAll('.totals button')].find((b) => b.lastChild.textContent === %q)", title)
		evaluate[any](c, tile+".click()")
		c.await(fmt.Sprintf("%s.every((title) => title === %q) && %s.length === 1", titles, title, pushed))
		evaluate[any](c, tile+".click()")
		c.await(pushed + ".length === 0 && new Set(" + titles + ").size > 1")
	}
	if n := evaluate[int](c, "document.querySelectorAll('.totals > :not(button)').length"); n != 0 {
		c.t.Errorf("%d totals are no buttons", n)
	}
	if !evaluate[bool](c, "document.querySelector('.result p b').compareDocumentPosition(document.querySelector('.totals')) === Node.DOCUMENT_POSITION_FOLLOWING") {
		c.t.Error("the sentence does not come before the totals")
	}
	c.push("Show it")
	c.await(waiting + ".ariaPressed === 'true'")
	c.await("document.querySelector('.result .objects')?.innerText.includes('shop/late')")
	c.checkAccessibility()
	evaluate[any](c, "[...document.querySelectorAll('.result a')].find((a) => a.textContent.includes('The plan of region')).click()")
	c.await("location.hash === '#/plan?name=region' && document.querySelector('.page.plan .command')")
}

// TestWhatIfLink starts without earlier changes from a cluster of the fleet, and brings them back.
func TestWhatIfLink(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas)))
	region := "document.querySelector('[aria-label=\"The value of the label region\"]')"
	c.visit("#/playground?cluster=eu-1", "document.activeElement.matches('[data-read] input')")
	c.focusOn(region)
	c.write("us")
	line := "document.querySelector('.tried')?.innerText.replaceAll('×', '').replace(/\\s+/g, ' ').replace(/ (?=,| and)/g, '')"
	c.await(line + " === 'If eu-1 has region=us (was eu) Undo all'")
	c.visit("#/fleet?cluster=eu-2", "document.querySelector('.details .button')")
	evaluate[any](c, "document.querySelector('.details .button').click()")
	c.await("document.activeElement === " + region + " && " + region + ".value === 'eu' && !document.querySelector('.tried')")
	c.write("ap")
	c.await(line + " === 'If eu-2 has region=ap (was eu) Undo all'")
	c.push("Bring them back")
	c.await(line + " === 'If eu-1 has region=us (was eu) and eu-2 has region=ap (was eu) Undo all'")
	c.checkNames()
	c.checkAccessibility()
	c.pushNamed("Take back: eu-2 has region=ap (was eu)")
	c.await(line + " === 'If eu-1 has region=us (was eu) Undo all'")
	// What the user tried stays while the user looks at other views.
	c.visit("#/quotas", "document.querySelector('.page.quotas .card')")
	c.visit("#/playground?cluster=eu-2", line+" === 'If eu-1 has region=us (was eu) Undo all'")

	c.resize(narrow, 800, 1)
	c.await("document.querySelector('.summary')?.checkVisibility()")
	if box := evaluate[struct{ Top, Bottom, Height float64 }](c, "document.querySelector('.summary').getBoundingClientRect()"); box.Top < 0 || box.Bottom > 800 {
		t.Errorf("on a narrow window, the totals are outside of it: %+v", box)
	}
	c.checkWidth()
	c.checkAccessibility()
	c.push("Show")
	c.await("document.activeElement.className === 'result' && document.querySelector('.totals').getBoundingClientRect().top < innerHeight")
}

// TestSearch finds clusters by name and by label, and tries a change of a label from there.
func TestSearch(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas)))
	options := "[...document.querySelectorAll('#found [role=option]')].map((o) => o.ariaLabel ?? o.innerText.replace(/\\s+/g, ' ').trim()).join(', ')"
	change := func(name string) string { return name + ": What if a label changes?" }
	find := func(text, want string) {
		t.Helper()
		c.visit("#/fleet", "document.querySelector('canvas')")
		c.fill("Find a workload or cluster by a part of its name, or a cluster by a label, KEY=VALUE", text)
		c.await(fmt.Sprintf("%s === %q", options, want))
	}
	find("u", "us-1 cluster, not ready, "+change("us-1")+", eu-1 cluster, "+change("eu-1")+", eu-2 cluster, "+change("eu-2"))
	find("EU-2", "eu-2 cluster, "+change("eu-2"))
	c.checkNames()
	c.checkAccessibility()
	find("nothing", "")
	c.await(shows("No cluster, and no workload that policies place, has such a name."))
	find("example.com/tier=silver", "")
	c.await(shows("No cluster has this label."))
	find("region=eu", "eu-1 cluster, "+change("eu-1")+", eu-2 cluster, "+change("eu-2"))

	// The label of the search has the focus, and not the first one.
	region := "document.querySelector('[aria-label=\"The value of the label region\"]')"
	c.focusOn("document.getElementById('find')")
	c.press("ArrowDown")
	c.press("ArrowDown")
	c.press("Enter")
	c.await("location.hash === '#/playground?cluster=eu-1&label=region' && document.activeElement === " + region)
	c.write("us")
	c.await(shows("eu-1 has region=us (was eu)") + " && document.querySelector('.result table')")
	// In the playground, earlier changes stay.
	c.fill("Find a workload or cluster by a part of its name, or a cluster by a label, KEY=VALUE", "eu-2")
	c.await(fmt.Sprintf("%s.startsWith('eu-2 cluster')", options))
	evaluate[any](c, "document.querySelector('#found .try').click()")
	c.await("document.activeElement === " + region + " && " + region + ".value === 'eu' && " + shows("eu-1 has region=us (was eu)"))

	// Enter before the answer chooses the first of it.
	c.visit("#/quotas", "document.querySelector('.page.quotas .card')")
	c.focusOn("document.getElementById('find')")
	c.write("us-1")
	c.press("Enter")
	c.await("location.hash === '#/fleet?cluster=us-1' && document.querySelector('.details h2')?.textContent === 'us-1'")
	label := "[...document.querySelectorAll('.label-list a')].find((a) => a.textContent === 'region=us')"
	c.await(label)
	evaluate[any](c, label+".click()")
	c.await("document.activeElement === " + region + " && " + region + ".value === 'us'")
	c.visit("#/fleet", "document.querySelector('canvas')")
	search := "document.querySelector('[aria-label=\"Show clusters by name, region, zone, policy, or label\"]')"
	c.focusOn(search)
	c.write("eu-2")
	c.press("Enter")
	c.await("document.querySelector('.details h2')?.textContent === 'eu-2'")
}

// TestWhyNotAmongMany finds the reason of a cluster that is not among those that the page lists.
func TestWhyNotAmongMany(t *testing.T) {
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: us-%d, labels: {region: us}}\n---\n", 100+i)
	}
	c := openConsole(t, config(static(t, clusters+many.String()+policies+workloads+quotas)))
	rows := "[...document.querySelectorAll('.fixed tbody tr')]"
	c.visit("#/workload?resource=deployments.apps&namespace=shop&name=web", rows+".length > 20 && "+rows+".length < 40")
	c.fill("Show clusters by name", "us-139")
	c.await(rows + ".length === 1 && " + rows + "[0].innerText.includes('us-139') && " + rows + "[0].innerText.includes('not allowed')")
	c.await(rows + "[0].innerText.includes('label example.com/tier is missing, must be gold')")
	c.checkAccessibility()
	c.fill("Show clusters by name", "none")
	c.await(shows("has such a name."))
}

// notReady is a cluster that is not ready, and workloads that may be in all clusters.
const notReady = `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: eu-3, labels: {region: asia}}
spec: {region: eu}
status:
  conditions: [{type: Ready, status: "False"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: one, namespace: shop, labels: {region: eu}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: two, namespace: shop, labels: {region: eu}}
---
`

// TestNotReady warns of moves to a cluster that is not ready.
func TestNotReady(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+notReady+policies+workloads+quotas)))
	c.visit("#/playground?cluster=eu-3&label=region", "document.activeElement.ariaLabel === 'The value of the label region'")
	c.write("eu")
	c.await(shows("2 workloads would come to eu-3, which is not ready.") + " && " + shows("+eu-3 (not ready)"))
	c.await("document.querySelector('.flows text.bad title')?.textContent === 'eu-3 is not ready'")
	c.checkAccessibility()
	row := "[...document.querySelectorAll('.result tbody tr')]"
	c.await(row + ".length > 0 && " + row + "[0].querySelectorAll('.objects li').length === 2")
	if text := evaluate[string](c, row+"[0].innerText"); !strings.Contains(text, "2 objects") || !strings.Contains(text, "shop/one") || !strings.Contains(text, "shop/two") {
		t.Errorf("the workloads are not in one group:\n%s", text)
	}
	c.resize(narrow, 800, 1)
	c.checkWidth()
	c.checkAccessibility()
	c.push("Undo all")
	c.await("!document.querySelector('.result .note')")
}

// TestRego shows a policy in Rego with its keywords highlighted, and the contract beside it.
func TestRego(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas)))
	c.visit("#/playground?policy=region", editorHas("package region"))
	const colors = `Object.fromEntries([...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-line span")]
		.map((e) => [e.textContent, getComputedStyle(e).color]))`
	c.await(colors + `["package"] !== undefined`)
	found := evaluate[map[string]string](c, colors)
	plain := evaluate[string](c, `getComputedStyle(document.querySelector(".editor").shadowRoot.querySelector(".cm-content")).color`)
	for _, word := range []string{"package", "some", "contains", "data", "kind"} {
		if found[word] == "" || found[word] == plain {
			t.Errorf("%s has the color %q, as the other text", word, found[word])
		}
	}
	if found["package"] == found["kind"] || found["package"] == found["data"] {
		t.Errorf("keywords have the color of keys, or of data: %v", found)
	}
	evaluate[any](c, "document.querySelector('.contract summary').click()")
	c.await("document.querySelector('.contract').open && " + shows("data.clusters[name]"))
}

// TestExports saves a change as YAML and as a test.
func TestExports(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas)))
	dir := t.TempDir()
	c.call("Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": dir}, nil)
	c.visit("#/playground?policy=gold", editorHas("name: gold"))
	c.edit(onlyGold)
	c.await("document.querySelector('.totals')")
	c.push("Export the YAML")
	if got := c.downloaded(filepath.Join(dir, "changes.yaml")); got != onlyGold {
		t.Errorf("changes.yaml:\n%s", got)
	}
	c.push("Export a test")
	c.await(shows("kubectl berth test changes_test.yaml"))
	for _, want := range []string{"changes.yaml", "name: Deployment shop/api is moved", "eu-1"} {
		if got := c.downloaded(filepath.Join(dir, "changes_test.yaml")); !strings.Contains(got, want) {
			t.Errorf("changes_test.yaml lacks %q:\n%s", want, got)
		}
	}
}

// downloaded returns the content of a file when the browser has saved it.
func (c *chromium) downloaded(path string) string {
	c.t.Helper()
	for range 200 {
		// The browser gives the file its name at the end.
		if content, err := os.ReadFile(path); err == nil {
			return string(content)
		}
		evaluate[any](c, "new Promise((resolve) => setTimeout(resolve, 20))")
	}
	c.t.Fatalf("the browser did not save %s", path)
	return ""
}

// TestPagesWithoutRights checks that pages say what the user may not read, and show the rest.
func TestPagesWithoutRights(t *testing.T) {
	for _, tt := range []struct {
		resource string
		pages    map[string]string
	}{
		{"deployments", map[string]string{"#/fleet": "you may not list deployments.apps"}},
		{"scopedquotas", map[string]string{"#/quotas": "You may not list scopedquotas", "#/fleet": "workloads in 3 clusters"}},
		{"clusters", map[string]string{
			"#/fleet": "clusters", "#/policies": "only the status of the policies is known", "#/quotas": "shop/compute",
			"#/playground?policy=gold": "Nothing is applied",
		}},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			c := startChromium(t)
			b := serve(t, config(withoutRights{static(t, clusters+policies+workloads+quotas), tt.resource}))
			c.call("Page.navigate", map[string]any{"url": b.guard.Link()}, nil)
			c.await("document.querySelector('nav')")
			for hash, want := range tt.pages {
				c.visit(hash, shows(want))
			}
			if tt.resource == "clusters" {
				c.visit("#/playground?policy=gold", editorHas("name: gold"))
				c.edit(onlyGold)
				c.await(shows("What the change would do is not known") + " && document.querySelector('.result .note')")
			}
			c.checkAccessibility()
		})
	}
}

// TestSignInPage signs in to a shared console.
func TestSignInPage(t *testing.T) {
	api := startAPIServer(t, "alice")
	server := httptest.NewServer(console.NewUsers(api.user(t)).Handler())
	t.Cleanup(server.Close)
	c := startChromium(t)
	c.call("Page.navigate", map[string]any{"url": server.URL + "/"}, nil)
	field := "document.querySelector('.sign-in input')"
	c.focusOn(field)
	c.checkNames()
	c.checkAccessibility()
	c.write("mallory")
	c.press("Enter")
	c.await("document.querySelector('.sign-in [role=alert]')")
	c.checkAccessibility()
	c.focusOn(field)
	evaluate[any](c, field+".select()")
	c.write("alice")
	c.press("Enter")
	c.await("document.querySelector('canvas') && document.getElementById('source').textContent.startsWith('alice')")
	kept := evaluate[string](c, "JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }])")
	if strings.Contains(kept, "alice") || slices.ContainsFunc(c.Requests, func(address string) bool { return strings.Contains(address, "alice") }) {
		t.Errorf("the page keeps the token, or it is in an address: %s, %q", kept, c.Requests)
	}
	c.call("Page.reload", nil, nil)
	c.await("document.querySelector('.sign-in')")
}
