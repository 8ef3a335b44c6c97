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
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/console"
	browserpage "github.com/berth-dev/berth/test/browser"
)

// chromium is a page in a browser for a test, which fails if the page can't be used.
type chromium struct {
	*browserpage.Page
	t testing.TB
}

// browserTimeout limits the whole test, in which the browser starts.
const browserTimeout = 5 * time.Minute

// startChromium starts a browser with an empty page, and with more variables in its environment. It skips the test if there is no browser,
// unless it is required.
func startChromium(t testing.TB, environment ...string) *chromium {
	t.Helper()
	// The context of the test ends before its cleanups.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), browserTimeout)
	page, err := browserpage.Start(ctx, t.TempDir(), environment...)
	if err != nil {
		cancel()
		if errors.Is(err, browserpage.ErrMissing) && !browserpage.Required() {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		if err := page.Close(); err != nil {
			t.Error(err)
		}
	})
	return &chromium{page, t}
}

// openConsole opens a console in a browser, and waits for the picture of the fleet. Scripts run before those of the page.
func openConsole(t testing.TB, config console.Config, scripts ...string) *chromium {
	t.Helper()
	b, c := serve(t, config), startChromium(t)
	for _, script := range scripts {
		c.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
	}
	c.call("Page.navigate", map[string]any{"url": b.guard.Link()}, nil)
	c.await("document.querySelector('canvas')")
	return c
}

// call calls a method, and decodes its result.
func (c *chromium) call(method string, params map[string]any, result any) {
	c.t.Helper()
	if err := c.Call(method, params, result); err != nil {
		c.t.Fatal(err)
	}
}

// evaluate returns the value of an expression on the page. It waits for a promise.
func evaluate[T any](c *chromium, expression string) (out T) {
	c.t.Helper()
	if err := c.Evaluate(expression, &out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// awaitTimeout is how long a page may take to reach a state.
const awaitTimeout = time.Minute

// await waits until a condition is true on the page, and on the next one if the page changes meanwhile.
func (c *chromium) await(condition string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), awaitTimeout)
	defer cancel()
	if err := c.Await(ctx, condition); err != nil {
		c.t.Fatal(err)
	}
}

// visit shows a view, and waits for a condition.
func (c *chromium) visit(hash, condition string) {
	c.t.Helper()
	evaluate[string](c, fmt.Sprintf("location.hash = %q", hash))
	c.await(condition)
}

// keys are the codes of keys, and the texts that they type.
var keys = map[string]struct {
	code int
	text string
}{
	"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, " ": {32, " "},
	"ArrowLeft": {37, ""}, "ArrowUp": {38, ""}, "ArrowRight": {39, ""}, "ArrowDown": {40, ""},
}

// press presses a key, such as Enter, or a character.
func (c *chromium) press(key string) {
	c.t.Helper()
	params := map[string]any{"type": "keyDown", "key": key, "code": key}
	if known, ok := keys[key]; ok {
		params["windowsVirtualKeyCode"], params["text"] = known.code, known.text
	} else {
		params["text"] = key
	}
	if params["text"] == "" {
		params["type"] = "rawKeyDown"
	}
	c.call("Input.dispatchKeyEvent", params, nil)
	params["type"] = "keyUp"
	delete(params, "text")
	c.call("Input.dispatchKeyEvent", params, nil)
}

// write types a text into what has the focus.
func (c *chromium) write(text string) {
	c.t.Helper()
	for _, r := range text {
		c.press(string(r))
	}
}

// click clicks with the mouse on a point.
func (c *chromium) click(x, y float64) {
	c.t.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		c.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
	}
}

// push pushes the first button with a text.
func (c *chromium) push(text string) {
	c.t.Helper()
	c.await(fmt.Sprintf("[...document.querySelectorAll('button')].some((b) => b.textContent === %q)", text))
	evaluate[any](c, fmt.Sprintf("[...document.querySelectorAll('button')].find((b) => b.textContent === %q).click()", text))
}

// resize sets the size of the window. Pictures have scale pixels for each of the page's.
func (c *chromium) resize(width, height int, scale float64) {
	c.t.Helper()
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false}, nil)
}

// choose chooses a value of the list with a label.
func (c *chromium) choose(label, value string) {
	c.t.Helper()
	evaluate[any](c, fmt.Sprintf(`(() => {
		const list = [...document.querySelectorAll("label")].find((l) => l.textContent.startsWith(%q)).querySelector("select");
		list.value = %q;
		list.dispatchEvent(new Event("change", { bubbles: true }));
	})()`, label, value))
}

// fill sets the text of the field with a name, as a user does who leaves the field then.
func (c *chromium) fill(name, text string) {
	c.t.Helper()
	field := fmt.Sprintf("document.querySelector(%q)", fmt.Sprintf("[aria-label=%q]", name))
	c.await(field)
	evaluate[any](c, fmt.Sprintf(`(() => {
		const field = %s;
		field.value = %q;
		for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
	})()`, field, text))
}

// shows is the condition that the page has a text.
func shows(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// useTheme shows the pages in a theme: light or dark.
func (c *chromium) useTheme(theme string) {
	c.t.Helper()
	if evaluate[string](c, "document.documentElement.dataset.theme") != theme {
		evaluate[any](c, "document.getElementById('theme').click()")
	}
	c.await(fmt.Sprintf("document.documentElement.dataset.theme === %q", theme))
}

// text is what the page shows.
func (c *chromium) text() string {
	return evaluate[string](c, "document.getElementById('main').innerText")
}

// checkNames checks that each control has a name that a screen reader says.
func (c *chromium) checkNames() {
	c.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	c.call("Accessibility.getFullAXTree", nil, &tree)
	for _, n := range tree.Nodes {
		role := fmt.Sprint(n.Role.Value)
		named := n.Name.Value != nil && n.Name.Value != ""
		if !n.Ignored && !named && slices.Contains([]string{"application", "button", "combobox", "img", "link", "searchbox", "textbox"}, role) {
			c.t.Errorf("%s: a %s has no name", evaluate[string](c, "location.hash"), role)
		}
	}
}

// edit replaces the text of the editor.
func (c *chromium) edit(text string) {
	c.t.Helper()
	if err := c.Paste(text); err != nil {
		c.t.Fatal(err)
	}
}

// editorHas is the condition that the editor has a text.
func editorHas(text string) string {
	return fmt.Sprintf("document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')?.innerText.includes(%q)", text)
}

// axePath is the file of the checker of accessibility, which npm installs.
var axePath = filepath.Join("..", "..", "web", "node_modules", "axe-core", "axe.min.js")

// checkAccessibility checks the page for what WCAG 2.2 AA requires, as far as a program can.
func (c *chromium) checkAccessibility() {
	c.t.Helper()
	text, err := os.ReadFile(axePath)
	if err != nil && browserpage.Required() {
		c.t.Fatalf("%v: run npm ci in web, or set CONSOLE_UNCHECKED=allowed", err)
	}
	if err != nil {
		// Only machines with npm have it.
		return
	}
	if !evaluate[bool](c, "typeof axe === 'object'") {
		// The result of the script has no JSON form.
		evaluate[any](c, string(text)+"; undefined")
	}
	violations := evaluate[[]string](c, `axe.run(document, {
		runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"],
	}).then(({ violations }) => violations.map((v) => v.id + ": " + v.help + ": " +
		v.nodes.map((n) => n.html + " (" + n.failureSummary + ")").slice(0, 3).join("; ")))`)
	for _, violation := range violations {
		c.t.Errorf("%s, theme %s: %s", evaluate[string](c, "location.hash"), evaluate[string](c, "document.documentElement.dataset.theme"), violation)
	}
}
