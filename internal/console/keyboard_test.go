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
	"strings"
	"testing"
)

// describeFocus notes what has the focus as visited, and returns its beginning in HTML, and what is wrong with how it looks.
const describeFocus = `(() => {
	let focused = document.activeElement;
	while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
	if (!focused || focused === document.body) return { html: "", wrong: "" };
	const host = focused.getRootNode().host ?? focused;
	(window.visited ??= new Set()).add(host);
	const box = focused.getBoundingClientRect(), style = getComputedStyle(focused.closest(".cm-editor") ?? focused);
	const isInside = box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
	const isOutlined = style.outlineStyle === "auto" || style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
	return { html: host.outerHTML.slice(0, 150), wrong: !isInside ? "is outside of the window" : !isOutlined ? "has no visible focus" : "" };
})()`

// unvisited are the controls that the focus has not visited.
const unvisited = `[...document.querySelectorAll("a[href], button, input, select, summary, canvas, [tabindex='0'], .editor")]
	.filter((e) => !e.disabled && e.checkVisibility() && !window.visited?.has(e)).map((e) => e.outerHTML.slice(0, 150))`

// walk presses Tab until the focus is at the first control again, and checks that it visited each control.
func (c *chromium) walk() {
	c.t.Helper()
	hash := evaluate[string](c, "location.hash")
	evaluate[any](c, "window.visited = new Set(), document.activeElement.blur(), document.querySelector('.skip').focus()")
	const most = 300
	for i := range most + 1 {
		focus := evaluate[struct{ HTML, Wrong string }](c, describeFocus)
		if strings.Contains(focus.HTML, `class="editor"`) {
			// The editor shows the focus a moment later.
			c.await("document.activeElement.shadowRoot.querySelector('.cm-focused')")
			focus = evaluate[struct{ HTML, Wrong string }](c, describeFocus)
		}
		if i > 0 && strings.Contains(focus.HTML, `class="skip"`) {
			break
		}
		if focus.Wrong != "" {
			c.t.Errorf("%s: %s %s", hash, focus.HTML, focus.Wrong)
		}
		if i == most {
			c.t.Errorf("%s: after %d times Tab, the focus is at %s", hash, i, focus.HTML)
		}
		if strings.Contains(focus.HTML, `class="editor"`) {
			c.press("Escape")
		}
		c.press("Tab")
	}
	for _, html := range evaluate[[]string](c, unvisited) {
		c.t.Errorf("%s: Tab does not go to %s", hash, html)
	}
}

// TestKeyboard uses each view with the keyboard alone.
func TestKeyboard(t *testing.T) {
	c := openConsole(t, config(static(t, clusters+policies+workloads+quotas)))
	for _, view := range views {
		c.visit(view.hash, view.condition)
		c.walk()
	}
	c.testSkipLink()
	c.testPictureKeys()
	c.testSearchKeys()
	c.testTableKeys()
	c.testPlaygroundKeys()
}

// focusOn sets the focus to an element.
func (c *chromium) focusOn(element string) {
	c.t.Helper()
	c.await(element)
	evaluate[any](c, element+".focus()")
}

func (c *chromium) testSkipLink() {
	c.t.Helper()
	c.focusOn("document.querySelector('.skip')")
	c.press("Enter")
	c.await("document.activeElement.id === 'main'")
}

func (c *chromium) testPictureKeys() {
	c.t.Helper()
	c.visit("#/fleet", "document.querySelector('canvas')")
	c.focusOn("document.querySelector('canvas')")
	c.press("ArrowRight")
	c.press("Enter")
	c.await("document.activeElement.className === 'details'")
	c.press("Escape")
	c.await("document.activeElement.tagName === 'CANVAS' && !document.querySelector('.details')")
}

func (c *chromium) testSearchKeys() {
	c.t.Helper()
	c.press("/")
	c.await("document.activeElement.id === 'find'")
	c.write("shop")
	c.await("document.querySelectorAll('#found [role=option]').length === 4")
	c.press("ArrowDown")
	c.press("ArrowDown")
	second := evaluate[string](c, "document.querySelectorAll('#found [role=option]')[1].querySelector('span:nth-child(2)').textContent")
	c.await("document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).getAttribute('aria-selected') === 'true'")
	c.press("Enter")
	c.await(fmt.Sprintf("document.querySelector('h1')?.textContent.includes(%q)", second))
	c.focusOn("document.getElementById('find')")
	c.write("shop")
	c.await("!document.getElementById('found').hidden")
	c.press("Escape")
	c.await("document.getElementById('found').hidden")
}

func (c *chromium) testTableKeys() {
	c.t.Helper()
	c.visit("#/workload", "document.querySelector('.page.workload tbody')")
	first := "document.querySelector('.page.workload tbody a').textContent"
	for _, tt := range []struct{ order, want string }{{"ascending", "shop/api"}, {"descending", "shop/web"}} {
		c.focusOn("document.querySelector('.page.workload thead button')")
		c.press("Enter")
		c.await(fmt.Sprintf("document.querySelector('.page.workload thead th').ariaSort === %q && %s === %q", tt.order, first, tt.want))
	}
	c.focusOn("document.querySelector('.page.workload tbody a')")
	c.press("Enter")
	c.await("document.querySelector('h1')?.textContent.includes('shop/web')")
}

func (c *chromium) testPlaygroundKeys() {
	c.t.Helper()
	c.visit("#/playground?policy=gold&cluster=us-1", "document.querySelector('.labels .row')")
	c.focusOn("document.querySelector('[aria-label=\"The value of the label region\"]')")
	evaluate[any](c, "document.activeElement.select()")
	c.write("eu")
	c.press("Enter")
	c.await("document.querySelector('.totals')")
	c.focusOn("document.querySelector('.tried button')")
	c.press("Enter")
	c.await("!document.querySelector('.totals')")
	c.focusOn("[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Form')")
	c.press(" ")
	c.focusOn("document.querySelector('.requirement input[aria-label^=\"The values\"]')")
	evaluate[any](c, "document.activeElement.select()")
	c.write("silver")
	c.press("Tab")
	c.await(editorHas("silver") + " && document.querySelector('.total[aria-pressed]')")
	c.walk()
	c.focusOn("document.querySelector('.total[aria-pressed]')")
	c.press("Enter")
	c.await("document.querySelector('.total[aria-pressed=true]')")
}
