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
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/internal/whatif"
	"github.com/berth-dev/berth/test/framework"
)

// consoleLink matches the link that the console prints.
var consoleLink = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+`)

// openConsole starts the console with arguments, and returns a function that sends requests to its endpoints.
func openConsole(ctx context.Context, arguments string) (request func(method, path, body string) (int, string)) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	printed := filepath.Join(GinkgoT().TempDir(), "printed")
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The console runs until it is ended.
		_, _ = f.Shell(running, "exec kubectl berth console --no-browser --port "+port+" "+arguments+" > "+printed)
	}()
	DeferCleanup(func() {
		stop()
		<-ended
	})
	text := func() string {
		// The file does not exist before the command starts.
		out, _ := os.ReadFile(printed)
		return string(out)
	}
	Eventually(text).WithContext(ctx).Should(MatchRegexp(consoleLink.String()))
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	client := &http.Client{Jar: jar}
	send := func(method, address, body string) (int, string) {
		GinkgoHelper()
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		out, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(out)
	}
	link := consoleLink.FindString(text())
	status, _ := send(http.MethodGet, link, "")
	Expect(status).To(Equal(http.StatusOK))
	address, _, _ := strings.Cut(link, "?")
	return func(method, path, body string) (int, string) {
		GinkgoHelper()
		return send(method, address+"api/"+path, body)
	}
}

var _ = Describe("kubectl berth console", func() {
	It("shows the cluster, predicts what whatif predicts, and changes nothing", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("zones", "package zones\n\nlabels.zone := \"a\"\n", "apps", "deployments", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		request := openConsole(ctx, "")

		status, text := request(http.MethodGet, "workload?resource=deployments.apps&name=web&namespace="+namespace, "")
		Expect(status).To(Equal(http.StatusOK), text)
		Expect(text).To(ContainSubstring(`"policy":"zones"`))
		status, text = request(http.MethodGet, "policy?name=zones", "")
		Expect(status).To(Equal(http.StatusOK), text)
		var policy struct{ Manifest string }
		Expect(json.Unmarshal([]byte(text), &policy)).To(Succeed())
		Expect(policy.Manifest).To(And(ContainSubstring("package zones"), Not(ContainSubstring("managedFields"))))

		changed := strings.Replace(policy.Manifest, `"a"`, `"b"`, 1)
		file := filepath.Join(GinkgoT().TempDir(), "changes.yaml")
		Expect(os.WriteFile(file, []byte(changed), 0o600)).To(Succeed())
		body, err := json.Marshal(map[string]string{"manifests": changed})
		Expect(err).NotTo(HaveOccurred())
		status, text = request(http.MethodPost, "whatif", string(body))
		Expect(status).To(Equal(http.StatusOK), text)
		var got struct{ Report *whatif.Report }
		Expect(json.Unmarshal([]byte(text), &got)).To(Succeed())
		Expect(got.Report.Totals).To(HaveKeyWithValue(whatif.Changed, 1))
		out, err := f.Kubectl(ctx, "", "berth", "whatif", "-f", file, "-o", "json")
		Expect(err).To(HaveOccurred(), "the exit code is 2")
		var want whatif.Report
		Expect(json.NewDecoder(strings.NewReader(out)).Decode(&want)).To(Succeed())
		Expect(*got.Report).To(Equal(want))
		Expect(f.MustKubectl(ctx, "", "get", "deployment", "web", "-n", namespace, "-o", "jsonpath={.metadata.labels.zone}")).To(Equal("a"))
	})

	It("shows a user what the user may see, and names the right that is missing", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("nodes", "package nodes\n\nlabels.zone := \"a\" if data.nodes.a\n", "apps", "deployments", namespace))
		f.MustKubectl(ctx, "", "create", "clusterrole", "policy-viewer", "--verb=list,get", "--resource=placementpolicies.placement.berth.dev")
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrole", "policy-viewer") })
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", "policy-viewer", "--clusterrole=policy-viewer", "--user=viewer")
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", "policy-viewer") })
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		text, err := f.Plane.Kubeconfig("viewer")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())
		request := openConsole(ctx, "--kubeconfig "+kubeconfig)

		status, fleet := request(http.MethodGet, "fleet", "")
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(fleet).To(ContainSubstring("ask for the right to list"))
		status, policies := request(http.MethodGet, "policies", "")
		Expect(status).To(Equal(http.StatusOK))
		Expect(policies).To(And(ContainSubstring(`"name":"nodes"`), ContainSubstring("only the status of the policies is known")))
		status, quotas := request(http.MethodGet, "quotas", "")
		Expect(status).To(Equal(http.StatusOK))
		Expect(quotas).To(ContainSubstring("You may not list scopedquotas"))
	})
})
