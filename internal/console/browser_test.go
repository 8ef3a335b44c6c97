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
	"strings"
	"testing"
)

// hostile is a character that reorders the text around it.
const hostile = "\u202e"

// TestBrowser opens the console in a browser and uses each view.
func TestBrowser(t *testing.T) {
	cluster := static(t, clusters+strings.ReplaceAll(policies, "no region", "no "+hostile+"region")+workloads+quotas)
	b := serve(t, config(cluster))
	c := startChromium(t)
	c.call("Page.navigate", map[string]any{"url": b.guard.Link()}, nil)
	c.await("document.querySelector('canvas')")
	if address := evaluate[string](c, "location.href"); address != b.guard.URL() && address != b.guard.URL()+"#/fleet" {
		t.Errorf("the address is %s: the token has to be gone", address)
	}
	c.testFleet()
	c.testWorkload()
	c.testLists()
	c.testPlayground("1\ndenied\n1\nwould move\n1\nnewly matched")
	c.testAccessibility()

	before := evaluate[string](c, "document.documentElement.dataset.theme")
	evaluate[any](c, "document.getElementById('theme').click()")
	c.await(fmt.Sprintf("document.documentElement.dataset.theme !== %q", before))
	if after := evaluate[string](c, "document.documentElement.dataset.theme"); after != "light" && after != "dark" {
		t.Errorf("theme %q, then %q", before, after)
	}
	for _, address := range c.Requests {
		if parsed, err := url.Parse(address); err != nil || address != "about:blank" && "http://"+parsed.Host+"/" != b.guard.URL() {
			t.Errorf("the page requested %s", address)
		}
	}
	if len(c.Requests) < 20 {
		t.Errorf("only %d requests were seen", len(c.Requests))
	}
	for _, problem := range c.Problems {
		t.Errorf("the page reports: %s", problem)
	}
}

func (c *chromium) testFleet() {
	c.t.Helper()
	c.checkNames()
	evaluate[any](c, "document.querySelector('canvas').focus()")
	c.press("ArrowRight")
	said := evaluate[string](c, "document.getElementById('status').textContent")
	if !strings.Contains(said, "workload") {
		c.t.Errorf("an arrow key says %q", said)
	}
	c.press("Enter")
	c.await("document.querySelector('.details table, .details .empty')")
	evaluate[any](c, "[...document.querySelectorAll('.tools > button')].find((b) => b.textContent === 'Table').click()")
	c.await("document.querySelector('.body tbody')")
	if rows := evaluate[int](c, "document.querySelectorAll('.body tbody tr').length"); rows != 4 {
		c.t.Errorf("%d clusters in the table, want 3 and the row of workloads in none", rows)
	}
	c.checkNames()
}

func (c *chromium) testWorkload() {
	c.t.Helper()
	evaluate[any](c, "(() => { const f = document.getElementById('find'); f.focus(); f.value = 'we'; f.dispatchEvent(new Event('input', { bubbles: true })); })()")
	c.await("document.querySelector('#found [role=option]')")
	c.press("Enter")
	c.await("document.querySelector('.page.workload h1')")
	for _, want := range []string{"shop/web", "chosen by gold, rule gold", "eu-2", "not allowed", "label example.com/tier is missing, must be gold", "kubectl berth explain deployments.apps/web -n shop"} {
		if text := c.text(); !strings.Contains(text, want) {
			c.t.Errorf("the workload lacks %q:\n%s", want, text)
		}
	}
	c.checkNames()
	// The link of a reason leads to the part of the policy.
	evaluate[any](c, "[...document.querySelectorAll('.reason small a')].find((a) => a.textContent === 'gold: spec.rules[0].require[0]').click()")
	c.await("document.querySelector('.manifest mark')?.textContent.includes('label: example.com/tier')")
	if marked := evaluate[string](c, "document.querySelector('.manifest mark').textContent"); strings.Contains(marked, "name: gold") {
		c.t.Errorf("more than the requirement is marked:\n%s", marked)
	}
	c.checkNames()
	c.visit("#/policies?name=gold&rule=gold", "document.querySelector('.manifest mark')?.textContent.includes('name: gold')")
	c.visit("#/workload?resource=deployments.apps&namespace=shop&name=denied", "document.body.innerText.includes('shop/denied')")
	if text := c.text(); strings.Contains(text, hostile) || !strings.Contains(text, `no \u{202e}region`) {
		c.t.Errorf("the message is not escaped:\n%s", text)
	}
}

func (c *chromium) testLists() {
	c.t.Helper()
	for _, view := range []struct{ hash, condition, want string }{
		{"#/policies?name=region", "document.querySelector('.page.policies .wide')", "kubectl berth approve region --id=abc"},
		{"#/policies?name=region", "document.querySelector('.page.policies .wide')", "1 object waits for an approval of the plan of PlacementPolicy region"},
		{"#/policies?name=gold", "document.querySelector('.page.policies .wide')", "gold decides 2 objects"},
		{"#/plan?name=region", "document.querySelector('.page.plan .command')", "ClusterProfile fleet/eu-1 changed"},
		{"#/plan?name=region", "document.querySelector('.page.plan .command')", "kubectl berth approve region --id=abc"},
		{"#/quotas", "document.querySelector('.page.quotas .card')", "12 of 10"},
		{"#/workload", "document.querySelector('.page.workload tbody')", "shop/api"},
	} {
		c.visit(view.hash, view.condition)
		if text := c.text(); !strings.Contains(text, view.want) {
			c.t.Errorf("%s lacks %q:\n%s", view.hash, view.want, text)
		}
		c.checkNames()
	}
}

// testPlayground tries a change, for which the page has to show the totals.
func (c *chromium) testPlayground(want string) {
	c.t.Helper()
	c.visit("#/playground?policy=gold", editorHas("name: gold"))
	c.edit(onlyGold)
	c.await("document.querySelector('.totals')")
	if got := evaluate[string](c, "document.querySelector('.totals').innerText"); got != want {
		c.t.Errorf("totals %q, want %q", got, want)
	}
	c.await("document.querySelector('.flows svg .band')")
	c.await("document.body.innerText.includes('kubectl apply --server-side -f changes.yaml')")
	c.checkNames()
	c.testForm()
	c.testLink()
	c.edit("apiVersion: v1\nkind: [\n")
	c.await("document.querySelector('.mistakes .error button')?.textContent.startsWith('Line ')")
	c.await("document.querySelector('.editor').shadowRoot.querySelector('.cm-lint-marker-error')")
	evaluate[any](c, "document.querySelector('.mistakes .error button').click()")
	if focused := evaluate[string](c, "document.activeElement.className"); focused != "editor" {
		c.t.Errorf("the link to a mistake goes to %s", focused)
	}
	// What the user tried stays while the user looks at other views.
	c.visit("#/quotas", "document.querySelector('.page.quotas .card')")
	c.visit("#/playground?policy=gold", editorHas("kind: ["))
	c.push("Undo all")
	c.await(editorHas("name: gold"))
}

// testForm changes a rule in the form, which changes the text.
func (c *chromium) testForm() {
	c.t.Helper()
	evaluate[any](c, "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Form').click()")
	c.await("document.querySelector('.requirement')")
	c.checkNames()
	evaluate[any](c, `(() => {
		const values = document.querySelector('.requirement input[aria-label^="The values"]');
		values.value = "gold, silver";
		values.dispatchEvent(new Event("change", { bubbles: true }));
	})()`)
	c.await(editorHas("values: [gold, silver]"))
	evaluate[any](c, "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Form').click()")
	// Completion suggests what the cluster has.
	c.edit(strings.Replace(onlyGold, "values: [gold]", "values: [", 1)[:strings.Index(onlyGold, "values: [")+len("values: [")])
	c.press("g")
	c.await("[...document.querySelector('.editor').shadowRoot.querySelectorAll('.cm-tooltip-autocomplete li')].some((li) => li.textContent.startsWith('gold'))")
	c.press("Escape")
}

// testLink opens a link to a change.
func (c *chromium) testLink() {
	c.t.Helper()
	c.edit(onlyGold)
	c.await("document.querySelector('.totals')")
	evaluate[any](c, `(() => {
		navigator.clipboard.writeText = async (text) => { window.copied = text; };
		[...document.querySelectorAll('.result button')].find((b) => b.textContent === 'Copy a link').click();
	})()`)
	c.await("window.copied?.includes('#/playground?change=')")
	link := evaluate[string](c, "window.copied")
	c.push("Undo all")
	c.await("!document.querySelector('.totals')")
	c.visit(link[strings.Index(link, "#"):], "document.querySelector('.totals')")
}

// views are addresses in the pages, with the condition that each is shown.
var views = []struct{ hash, condition string }{
	{"#/fleet?cluster=eu-1", "document.querySelector('.details tbody')"},
	{"#/workload?resource=deployments.apps&namespace=shop&name=web", "document.querySelector('.page.workload h1')"},
	{"#/workload", "document.querySelector('.page.workload tbody')"},
	{"#/policies?name=region&line=5", "document.querySelector('.page.policies .manifest mark')"},
	{"#/plan?name=region", "document.querySelector('.page.plan .command')"},
	{"#/quotas", "document.querySelector('.page.quotas .card')"},
	{"#/history", "document.querySelector('.page.history tbody')"},
	{"#/playground?cluster=eu-1", "document.querySelector('.labels .row')"},
	{"#/playground?policy=gold", editorHas("name: gold")},
}

// narrow is the width of the window of a phone, in pixels.
const narrow = 390

// checkWidth checks that the page is not wider than the window.
func (c *chromium) checkWidth() {
	c.t.Helper()
	const wider = `(() => {
		const main = document.getElementById("main");
		return Math.max(document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth);
	})()`
	if more := evaluate[int](c, wider); more > 0 {
		c.t.Errorf("%s is %d pixels wider than the window of %d", evaluate[string](c, "location.hash"), more, evaluate[int](c, "innerWidth"))
	}
}

// testAccessibility checks each view in both themes, and on a narrow window.
func (c *chromium) testAccessibility() {
	c.t.Helper()
	for range 2 {
		for _, view := range views {
			c.visit(view.hash, view.condition)
			c.checkAccessibility()
		}
		c.edit(onlyGold)
		c.await("document.querySelector('.flows svg .band')")
		evaluate[any](c, "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Form').click()")
		c.await("document.querySelector('.requirement')")
		// While the next answer is awaited, the last one can be read as well.
		evaluate[any](c, "document.querySelector('.result').setAttribute('aria-busy', 'true')")
		c.await("getComputedStyle(document.querySelector('.result')).filter === 'grayscale(1)'")
		c.checkAccessibility()
		before := evaluate[string](c, "document.documentElement.dataset.theme")
		evaluate[any](c, "document.getElementById('theme').click()")
		c.await(fmt.Sprintf("document.documentElement.dataset.theme !== %q", before))
	}
	c.resize(narrow, 800, 1)
	for _, theme := range []string{"light", "dark"} {
		c.useTheme(theme)
		for _, view := range views {
			c.visit(view.hash, view.condition)
			c.checkWidth()
			c.checkAccessibility()
		}
	}
	c.call("Emulation.clearDeviceMetricsOverride", nil, nil)
}
