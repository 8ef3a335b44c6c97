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

// Package browser drives a page in a browser by the DevTools protocol, over pipes. Only one goroutine may use a Page.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// programs are the names of the browsers that can be driven.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// ErrMissing means that no browser is installed.
var ErrMissing = errors.New("there is none of " + strings.Join(programs, ", ") + ": install the package chromium, or set " +
	uncheckedVariable + "=allowed")

// uncheckedVariable is the environment variable that lets a run in CI pass although the machine lacks what checks the pages.
const uncheckedVariable = "CONSOLE_UNCHECKED"

// Required reports whether a test has to fail if the machine lacks what checks the pages.
func Required() bool { return os.Getenv("CI") != "" && os.Getenv(uncheckedVariable) == "" }

// Page is a page in a browser of its own.
type Page struct {
	cmd     *exec.Cmd
	in, out *os.File
	reader  *bufio.Reader
	last    int
	session string
	// Requests are the addresses that the page requested. Problems are what it reported: exceptions, failed requests, and what the policy for
	// content blocked.
	Requests, Problems []string
}

// Start starts a browser with an empty page, and with more variables in its environment. The browser keeps its profile in a directory, and
// ends with the context.
func Start(ctx context.Context, dir string, environment ...string) (*Page, error) {
	program := ""
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return nil, ErrMissing
	}
	// The sandbox does not run as root. The pages are Berth's own.
	cmd := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+dir, "--window-size=1280,800", "about:blank")
	read, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, read.Close(), in.Close())
	}
	cmd.ExtraFiles = []*os.File{read, write}
	cmd.Env = append(os.Environ(), environment...)
	err = cmd.Start()
	err = errors.Join(err, read.Close(), write.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	p := &Page{cmd: cmd, in: in, out: out, reader: bufio.NewReader(out)}
	return p, p.attach()
}

// attach makes a page.
func (p *Page) attach() error {
	var created struct{ TargetID string }
	if err := p.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &created); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := p.Call("Target.attachToTarget", map[string]any{"targetId": created.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		if err := p.Call(domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the browser.
func (p *Page) Close() error {
	p.session = ""
	err := p.Call("Browser.close", nil, nil)
	// It writes its profile until it ends.
	return errors.Join(err, p.cmd.Wait(), p.in.Close(), p.out.Close())
}

// Call calls a method of the protocol, and decodes its result unless that is nil.
func (p *Page) Call(method string, params map[string]any, result any) error {
	p.last++
	message := map[string]any{"id": p.last, "method": method, "params": params}
	if p.session != "" {
		message["sessionId"] = p.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		text, err := p.reader.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var received struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &received); err != nil {
			return err
		}
		switch {
		case received.ID != p.last:
			p.observe(received.Method, received.Params)
		case received.Error != nil:
			return fmt.Errorf("%s: %s", method, received.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(received.Result, result)
		}
	}
}

// observe keeps what an event says.
func (p *Page) observe(method string, params json.RawMessage) {
	switch method {
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		// What is no such event has no address.
		_ = json.Unmarshal(params, &sent)
		p.Requests = append(p.Requests, sent.Request.URL)
	case "Runtime.exceptionThrown":
		p.Problems = append(p.Problems, string(params))
	case "Log.entryAdded":
		var added struct {
			Entry struct{ Level, Text, URL string }
		}
		_ = json.Unmarshal(params, &added)
		if added.Entry.Level == "error" {
			p.Problems = append(p.Problems, added.Entry.Text+" "+added.Entry.URL)
		}
	}
}

// Evaluate decodes the value of an expression on the page unless result is nil. It waits for a promise.
func (p *Page) Evaluate(expression string, result any) error {
	var evaluated struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	err := p.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &evaluated)
	switch {
	case err != nil:
		return err
	case evaluated.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", expression, evaluated.ExceptionDetails)
	case result == nil || evaluated.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(evaluated.Result.Value, result)
}

// pollInterval is how often Await looks.
const pollInterval = 20 * time.Millisecond

// Await waits until a condition is true on the page, also if the page changes meanwhile. The error has what the page shows.
func (p *Page) Await(ctx context.Context, condition string) error {
	for {
		met := false
		// The browser reports an error if the page changes.
		if err := p.Evaluate(fmt.Sprintf("Boolean(%s)", condition), &met); err == nil && met {
			return nil
		}
		select {
		case <-ctx.Done():
			shown := ""
			err := p.Evaluate("document.body.innerText", &shown)
			return errors.Join(fmt.Errorf("%s did not become true; the page:\n%s", condition, shown), err)
		case <-time.After(pollInterval):
		}
	}
}

// Paste replaces the text of the editor of the playground, as a user does who pastes it.
func (p *Page) Paste(text string) error {
	encoded, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return p.Evaluate(fmt.Sprintf(`(() => {
		const content = document.querySelector(".editor").shadowRoot.querySelector(".cm-content");
		content.focus();
		content.dispatchEvent(new KeyboardEvent("keydown", { key: "a", code: "KeyA", keyCode: 65, ctrlKey: true, bubbles: true }));
		const data = new DataTransfer();
		data.setData("text/plain", %s);
		content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	})()`, encoded), nil)
}
