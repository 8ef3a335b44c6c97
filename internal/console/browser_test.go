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
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// chromium is a page in a browser that a test drives by the DevTools protocol, over pipes.
type chromium struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	last    int
	session string
	// requests are the addresses that the page requested, and problems what it reported: exceptions, and what the policy for content blocked.
	requests, problems []string
}

// programs are the names of the browsers that the test can drive.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// browserTimeout limits the whole test, in which the browser starts.
const browserTimeout = 5 * time.Minute

// startChromium starts a browser with an empty page. It skips the test if there is no browser, except in CI.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	i := slices.IndexFunc(programs, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	if i < 0 && os.Getenv("CI") == "" {
		t.Skipf("there is none of %s: install one to test the pages", strings.Join(programs, ", "))
	}
	if i < 0 {
		t.Fatalf("there is none of %s: install the package chromium", strings.Join(programs, ", "))
	}
	dir := t.TempDir()
	// The sandbox does not run as root. The pages are Berth's own.
	cmd := exec.Command(programs[i], "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+dir, "--window-size=1280,800", "about:blank")
	read, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{read, write}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &chromium{t: t, in: in, out: bufio.NewReader(out)}
	kill := time.AfterFunc(browserTimeout, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		c.call("Browser.close", nil, nil)
		kill.Stop()
		// It writes its profile until it ends.
		_ = cmd.Wait()
		_ = in.Close()
		_ = out.Close()
	})
	_, _ = read.Close(), write.Close()
	var created struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &created)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": created.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

// call calls a method, and decodes its result.
func (c *chromium) call(method string, params map[string]any, result any) {
	c.t.Helper()
	if err := c.try(method, params, result); err != nil {
		c.t.Fatal(err)
	}
}

// try is like call, and returns the error that the browser reports.
func (c *chromium) try(method string, params map[string]any, result any) error {
	c.t.Helper()
	c.last++
	message := map[string]any{"id": c.last, "method": method, "params": params}
	if c.session != "" && method != "Browser.close" {
		message["sessionId"] = c.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(text, 0)); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	for {
		text, err := c.out.ReadBytes(0)
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		var received struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &received); err != nil {
			c.t.Fatal(err)
		}
		if received.ID != c.last {
			c.observe(received.Method, received.Params)
			continue
		}
		if received.Error != nil {
			return fmt.Errorf("%s: %s", method, received.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(received.Result, result)
	}
}

// observe keeps what an event says.
func (c *chromium) observe(method string, params json.RawMessage) {
	switch method {
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		// What is no such event has no address.
		_ = json.Unmarshal(params, &sent)
		c.requests = append(c.requests, sent.Request.URL)
	case "Runtime.exceptionThrown":
		c.problems = append(c.problems, string(params))
	case "Log.entryAdded":
		var added struct {
			Entry struct{ Level, Text, URL string }
		}
		_ = json.Unmarshal(params, &added)
		if added.Entry.Level == "error" {
			c.problems = append(c.problems, added.Entry.Text+" "+added.Entry.URL)
		}
	}
}

// evaluate returns the value of an expression on the page. It waits for a promise.
func evaluate[T any](c *chromium, expression string) (out T) {
	c.t.Helper()
	var evaluated struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &evaluated)
	if evaluated.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", expression, evaluated.ExceptionDetails)
	}
	if evaluated.Result.Value == nil {
		return out
	}
	if err := json.Unmarshal(evaluated.Result.Value, &out); err != nil {
		c.t.Fatalf("%s: %v: %s", expression, err, evaluated.Result.Value)
	}
	return out
}

// awaitTimeout is how long a page may take to reach a state.
const awaitTimeout = time.Minute

// await waits until a condition is true on the page, and on the next one if the page changes meanwhile.
func (c *chromium) await(condition string) {
	c.t.Helper()
	var met struct{ Result struct{ Value bool } }
	for end := time.Now().Add(awaitTimeout); time.Now().Before(end); {
		// The browser reports an error if the page changes.
		err := c.try("Runtime.evaluate", map[string]any{
			"expression":   fmt.Sprintf("new Promise((resolve) => setTimeout(() => resolve(Boolean(%s)), 20))", condition),
			"awaitPromise": true, "returnByValue": true,
		}, &met)
		if err == nil && met.Result.Value {
			return
		}
	}
	c.t.Fatalf("%s did not become true; the page:\n%s", condition, evaluate[string](c, "document.body.innerText"))
}

// visit shows a view, and waits for a condition.
func (c *chromium) visit(hash, condition string) {
	c.t.Helper()
	evaluate[string](c, fmt.Sprintf("location.hash = %q", hash))
	c.await(condition)
}

// press presses a key.
func (c *chromium) press(key string) {
	c.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key}
		if key == "Enter" {
			params["windowsVirtualKeyCode"] = 13
		}
		c.call("Input.dispatchKeyEvent", params, nil)
	}
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
	c.testPlayground("1\ndenied\n1\nmoved\n1\nnewly matched\n1\nunchanged")
	c.testAccessibility()

	before := evaluate[string](c, "document.documentElement.dataset.theme")
	evaluate[any](c, "document.getElementById('theme').click()")
	c.await(fmt.Sprintf("document.documentElement.dataset.theme !== %q", before))
	if after := evaluate[string](c, "document.documentElement.dataset.theme"); after != "light" && after != "dark" {
		t.Errorf("theme %q, then %q", before, after)
	}
	for _, address := range c.requests {
		if parsed, err := url.Parse(address); err != nil || address != "about:blank" && "http://"+parsed.Host+"/" != b.guard.URL() {
			t.Errorf("the page requested %s", address)
		}
	}
	if len(c.requests) < 20 {
		t.Errorf("only %d requests were seen", len(c.requests))
	}
	for _, problem := range c.problems {
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
	for _, want := range []string{"shop/web", "chosen by gold, rule gold", "eu-2", "not chosen", "kubectl berth explain deployments.apps/web -n shop"} {
		if text := c.text(); !strings.Contains(text, want) {
			c.t.Errorf("the workload lacks %q:\n%s", want, text)
		}
	}
	c.checkNames()
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

// edit replaces the text of the editor, as a user does who pastes it.
func (c *chromium) edit(text string) {
	c.t.Helper()
	encoded, err := json.Marshal(text)
	if err != nil {
		c.t.Fatal(err)
	}
	evaluate[any](c, fmt.Sprintf(`(() => {
		const content = document.querySelector(".editor").shadowRoot.querySelector(".cm-content");
		content.focus();
		content.dispatchEvent(new KeyboardEvent("keydown", { key: "a", code: "KeyA", keyCode: 65, ctrlKey: true, bubbles: true }));
		const data = new DataTransfer();
		data.setData("text/plain", %s);
		content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	})()`, encoded))
}

// editorHas is the condition that the editor has a text.
func editorHas(text string) string {
	return fmt.Sprintf("document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')?.innerText.includes(%q)", text)
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
	evaluate[any](c, "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Undo the changes').click()")
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
	c.key("g", "KeyG")
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
	evaluate[any](c, "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Undo the changes').click()")
	c.await("!document.querySelector('.totals')")
	c.visit(link[strings.Index(link, "#"):], "document.querySelector('.totals')")
}

// key types a character.
func (c *chromium) key(character, code string) {
	c.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": character, "code": code}
		if kind == "keyDown" {
			params["text"] = character
		}
		c.call("Input.dispatchKeyEvent", params, nil)
	}
}

// axePath is the file of the checker of accessibility, which npm installs.
var axePath = filepath.Join("..", "..", "web", "node_modules", "axe-core", "axe.min.js")

// checkAccessibility checks the page for what WCAG 2.2 AA requires, as far as a program can.
func (c *chromium) checkAccessibility() {
	c.t.Helper()
	text, err := os.ReadFile(axePath)
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

// testAccessibility checks each view in both themes, and on a narrow window.
func (c *chromium) testAccessibility() {
	c.t.Helper()
	views := []struct{ hash, condition string }{
		{"#/fleet?cluster=eu-1", "document.querySelector('.details tbody')"},
		{"#/workload?resource=deployments.apps&namespace=shop&name=web", "document.querySelector('.page.workload h1')"},
		{"#/workload", "document.querySelector('.page.workload tbody')"},
		{"#/policies?name=region", "document.querySelector('.page.policies .wide')"},
		{"#/plan?name=region", "document.querySelector('.page.plan .command')"},
		{"#/quotas", "document.querySelector('.page.quotas .card')"},
		{"#/history", "document.querySelector('.page.history tbody')"},
		{"#/playground?policy=gold", editorHas("name: gold")},
	}
	for range 2 {
		for _, view := range views {
			c.visit(view.hash, view.condition)
			c.checkAccessibility()
		}
		c.edit(onlyGold)
		c.await("document.querySelector('.flows svg .band')")
		evaluate[any](c, "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === 'Form').click()")
		c.await("document.querySelector('.requirement')")
		c.checkAccessibility()
		before := evaluate[string](c, "document.documentElement.dataset.theme")
		evaluate[any](c, "document.getElementById('theme').click()")
		c.await(fmt.Sprintf("document.documentElement.dataset.theme !== %q", before))
	}
	c.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	for _, view := range views {
		c.visit(view.hash, view.condition)
		if wide := evaluate[int](c, "document.documentElement.scrollWidth"); wide > 390 {
			c.t.Errorf("%s is %d pixels wide on a window of 390", view.hash, wide)
		}
	}
	c.call("Emulation.clearDeviceMetricsOverride", nil, nil)
}
