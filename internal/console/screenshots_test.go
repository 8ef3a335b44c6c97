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
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// screenshots is the folder for the pictures of the documentation.
var screenshots = flag.String("screenshots", "",
	"The folder into which TestScreenshots writes the pictures of the documentation. Without it, the test is skipped.")

// font is the font of the pictures, so that they are the same on all machines.
const font = "Inter"

// fontSettings have the browser use the font for all texts but those of the editor and of commands.
const fontSettings = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <match target="pattern">
    <test name="family" qual="all" compare="not_contains"><string>Mono</string></test>
    <test name="family" qual="all" compare="not_eq"><string>monospace</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit>
  </match>
</fontconfig>
`

// fixedClock is a script that has the pages show the same time whenever a picture is made.
const fixedClock = `{
	const real = window.fetch;
	window.fetch = async (...request) => {
		const response = await real(...request);
		if (response.headers.get("Content-Type") !== "application/json") return response;
		const text = (await response.text()).replace(/"readAt":"[^"]*"/, '"readAt":"2026-01-05T09:41:00Z"').replace(/"milliseconds":\d+/, '"milliseconds":9');
		return new Response(text, { status: response.status, headers: response.headers });
	};
}`

// exampleFiles are the arguments of kubectl berth console with the data of the pictures.
var exampleFiles = []string{"--from", "docs/examples/console/fleet.yaml", "--log", "docs/examples/console/decisions.log"}

// openExample starts the console of the plugin with the data of the pictures, and opens it in a browser.
func openExample(t *testing.T) *chromium {
	t.Helper()
	settings := filepath.Join(t.TempDir(), "fonts.conf")
	if err := os.WriteFile(settings, []byte(fontSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), "kubectl-berth")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "../../cmd/kubectl-berth").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), plugin, append([]string{"console", "--no-browser"}, exampleFiles...)...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It ends with the context of the test.
	t.Cleanup(func() { _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, link, _ := strings.Cut(strings.TrimSpace(line), ": ")
	c := startChromium(t, "FONTCONFIG_FILE="+settings)
	c.call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	c.call("Emulation.setLocaleOverride", map[string]any{"locale": "en-GB"}, nil)
	c.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": fixedClock}, nil)
	c.call("Page.navigate", map[string]any{"url": link}, nil)
	c.await("document.querySelector('canvas')")
	c.checkFont()
	return c
}

// checkFont checks that the machine has the font of the pictures.
func (c *chromium) checkFont() {
	c.t.Helper()
	var document struct{ Root struct{ NodeID int } }
	c.call("DOM.enable", nil, nil)
	c.call("CSS.enable", nil, nil)
	c.call("DOM.getDocument", nil, &document)
	var node struct{ NodeID int }
	c.call("DOM.querySelector", map[string]any{"nodeId": document.Root.NodeID, "selector": "nav a"}, &node)
	var used struct{ Fonts []struct{ FamilyName string } }
	c.call("CSS.getPlatformFontsForNode", map[string]any{"nodeId": node.NodeID}, &used)
	for _, f := range used.Fonts {
		// A font file for each weight has it in the name of its family.
		if f.FamilyName != font && !strings.HasPrefix(f.FamilyName, font+" Semi") {
			c.t.Fatalf("the pages use the font %s: install the font %s, such as by the package fonts-inter", f.FamilyName, font)
		}
	}
}

// picture is a picture of the documentation.
type picture struct {
	name, theme   string
	width, height int
	// show shows the page.
	show func(c *chromium)
}

// changedPolicy is the example's policy low-cost, with a limit for prices in place of preferences.
const changedPolicy = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: low-cost
spec:
  match:
    resourceRules:
    - {apiGroups: [apps, batch], apiVersions: [v1], resources: [deployments, statefulsets, daemonsets, jobs, cronjobs]}
    objectSelector:
      matchLabels: {example.com/cost: low}
  rules:
  - name: cheapest
    require:
    - {label: price, operator: Lte, values: ["2"]}
    limit: 2
`

var pictures = []picture{
	{"fleet-light", "light", 1160, 690, showFleet},
	{"fleet-dark", "dark", 1160, 690, showFleet},
	{"workload", "light", 1160, 900, func(c *chromium) {
		c.visit("#/workload?resource=deployments.apps&namespace=payments-eu&name=card-gateway", "document.querySelector('.page.workload table')")
	}},
	{"plan", "light", 1160, 760, func(c *chromium) { c.visit("#/plan?name=eu-pci", "document.querySelector('.page.plan .band')") }},
	{"playground", "light", 1160, 860, func(c *chromium) {
		c.visit("#/playground?policy=low-cost", editorHas("name: low-cost"))
		c.edit(changedPolicy)
		c.await("document.querySelector('.flows .band')")
		evaluate[any](c, "document.activeElement.blur()")
	}},
}

func showFleet(c *chromium) { c.visit("#/fleet", "document.querySelector('canvas')") }

// TestScreenshots makes the pictures of the documentation.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("it makes pictures with -screenshots")
	}
	c := openExample(t)
	for _, p := range pictures {
		c.resize(p.width, p.height, 2)
		c.useTheme(p.theme)
		p.show(c)
		c.await("document.querySelector('[aria-busy=true], .loading') === null")
		content := c.screenshot()
		if err := os.WriteFile(filepath.Join(*screenshots, p.name+".png"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB", p.name, len(content)>>10)
	}
}

// screenshot returns a picture of the window as a PNG with few colors, which is small.
func (c *chromium) screenshot() []byte {
	c.t.Helper()
	// The canvas is drawn before the next frame.
	evaluate[any](c, "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
	var captured struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"format": "png"}, &captured)
	content, err := base64.StdEncoding.DecodeString(captured.Data)
	if err != nil {
		c.t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, withFewColors(full)); err != nil {
		c.t.Fatal(err)
	}
	return out.Bytes()
}

// withFewColors returns a picture with the 256 most frequent colors. Each other color becomes the nearest of them.
func withFewColors(full image.Image) image.Image {
	counts := map[color.Color]int{}
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[color.RGBAModel.Convert(full.At(x, y))]++
		}
	}
	var palette color.Palette
	for c := range counts {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int {
		if n := counts[b] - counts[a]; n != 0 {
			return n
		}
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	out := image.NewPaletted(bounds, palette[:min(len(palette), 256)])
	draw.Draw(out, bounds, full, bounds.Min, draw.Src)
	return out
}
