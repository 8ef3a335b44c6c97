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

package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/browser"
	"github.com/berth-dev/berth/test/framework"
)

// pageTimeout is how long a page may take to show something. It includes a change in the cluster, of which the page learns by watches.
const pageTimeout = 3 * time.Minute

// page is a page of the console in a browser.
type page struct{ *browser.Page }

// openPage opens the console in a browser. It skips the spec if there is none, unless it is required.
func openPage(ctx context.Context) page {
	GinkgoHelper()
	// The directory outlives the browser, whose cleanup is registered later. The spec's context ends before.
	opened, err := browser.Start(context.WithoutCancel(ctx), GinkgoT().TempDir())
	if errors.Is(err, browser.ErrMissing) && !browser.Required() {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(opened.Close()).To(Succeed()) })
	text := startConsole(ctx, "--no-browser")
	Eventually(text).WithContext(ctx).Should(MatchRegexp(consoleLink.String()))
	Expect(opened.Call("Page.navigate", map[string]any{"url": consoleLink.FindString(text())}, nil)).To(Succeed())
	out := page{opened}
	// The page begins with the fleet.
	out.await(ctx, "document.querySelector('canvas')")
	return out
}

// await waits until a condition is true on the page.
func (p page) await(ctx context.Context, condition string, args ...any) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	Expect(p.Await(ctx, fmt.Sprintf(condition, args...))).To(Succeed())
}

// visit shows a view.
func (p page) visit(hash string) {
	GinkgoHelper()
	Expect(p.Evaluate(fmt.Sprintf("location.hash = %q", hash), nil)).To(Succeed())
}

// text is what the page shows.
func (p page) text() string {
	GinkgoHelper()
	out := ""
	Expect(p.Evaluate("document.getElementById('main').innerText", &out)).To(Succeed())
	return out
}

var _ = Describe("The console in a browser", func() {
	It("lets its user try a change, copy the command, apply it, and see what then happens", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		const objects = 3
		for i := range objects {
			Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, fmt.Sprintf("web-%d", i), nil))).To(Succeed())
		}
		f.CreateReadyPolicy(ctx, framework.NewPolicy("seen", `package seen

clusters := {"eu-1"}
`, "apps", "deployments", namespace))
		p := openPage(ctx)

		By("seeing where a workload is")
		workload := "#/workload?resource=deployments.apps&namespace=" + namespace + "&name=web-1"
		p.visit(workload)
		p.await(ctx, "document.querySelector('.page.workload h1') && document.body.innerText.includes('eu-1')")
		Expect(p.text()).NotTo(ContainSubstring("us-1"))

		By("trying another cluster")
		p.visit("#/playground?policy=seen")
		p.await(ctx, "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')?.innerText.includes('package seen')")
		manifest := ""
		Expect(p.Evaluate("fetch('api/policy?name=seen').then((r) => r.json()).then((o) => o.manifest)", &manifest)).To(Succeed())
		changed := strings.Replace(manifest, "eu-1", "us-1", 1)
		Expect(p.Paste(changed)).To(Succeed())
		p.await(ctx, "document.querySelectorAll('.result .objects li').length === %d", objects)
		Expect(p.text()).To(And(ContainSubstring("web-1"), ContainSubstring("us-1")))

		By("copying the command, and applying it")
		Expect(p.Evaluate(`(() => {
			navigator.clipboard.writeText = async (text) => { window.copied = text; };
			[...document.querySelectorAll(".result .command")].at(-1).querySelector("button").click();
		})()`, nil)).To(Succeed())
		p.await(ctx, "window.copied?.startsWith('kubectl ')")
		command := ""
		Expect(p.Evaluate("window.copied", &command)).To(Succeed())
		Expect(command).To(HaveSuffix(" -f changes.yaml"))
		p.visit(workload)
		p.await(ctx, "document.querySelector('.page.workload h1') && document.body.innerText.includes('eu-1')")
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "changes.yaml"), []byte(changed), 0o600)).To(Succeed())
		out, err := f.Shell(ctx, "cd "+dir+" && "+command)
		Expect(err).NotTo(HaveOccurred(), out)

		By("seeing what then happens, without reading the page again")
		p.await(ctx, "document.body.innerText.includes('us-1') && !document.querySelector('.page.workload').innerText.includes('eu-1')")
		clusters := f.MustKubectl(ctx, "", "get", "deployment", "web-1", "-n", namespace, "-o", `jsonpath={.metadata.annotations.placement\.berth\.dev/clusters}`)
		var names []string
		Expect(json.Unmarshal([]byte(clusters), &names)).To(Succeed())
		Expect(names).To(Equal([]string{"us-1"}))
		Expect(p.Problems).To(BeEmpty())
	}, SpecTimeout(10*time.Minute))
})
