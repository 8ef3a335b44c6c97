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
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
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

// startConsole starts the console with arguments, and returns a function that returns what it prints.
func startConsole(ctx context.Context, arguments string) func() string {
	GinkgoHelper()
	printed := filepath.Join(GinkgoT().TempDir(), "printed")
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The console runs until it is ended.
		_, _ = f.Shell(running, "exec kubectl berth console "+arguments+" > "+printed)
	}()
	DeferCleanup(func() {
		stop()
		<-ended
	})
	return func() string {
		// The file does not exist before the command starts.
		out, _ := os.ReadFile(printed)
		return string(out)
	}
}

// consoleClient sends requests to the endpoints of a console.
type consoleClient struct {
	*http.Client
	address string
	token   string
}

// send sends a request to an endpoint. The caller closes the body of the response.
func (c *consoleClient) send(ctx context.Context, method, path, body string) *http.Response {
	GinkgoHelper()
	r, err := http.NewRequestWithContext(ctx, method, c.address+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.Do(r)
	Expect(err).NotTo(HaveOccurred())
	return response
}

// request returns the status and body of the response of an endpoint.
func (c *consoleClient) request(ctx context.Context, method, path, body string) (int, string) {
	GinkgoHelper()
	response := c.send(ctx, method, "api/"+path, body)
	defer func() { _ = response.Body.Close() }()
	out, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(out)
}

// openConsole starts the console with arguments, and opens the link that it prints.
func openConsole(ctx context.Context, arguments string) *consoleClient {
	GinkgoHelper()
	text := startConsole(ctx, fmt.Sprintf("--no-browser --port %d %s", framework.FreePort(), arguments))
	Eventually(text).WithContext(ctx).Should(MatchRegexp(consoleLink.String()))
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	address, token, _ := strings.Cut(consoleLink.FindString(text()), "?")
	out := &consoleClient{Client: &http.Client{Jar: jar}, address: address}
	response := out.send(ctx, http.MethodGet, "?"+token, "")
	Expect(response.Body.Close()).To(Succeed())
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	return out
}

var _ = Describe("kubectl berth console", func() {
	It("shows the cluster, predicts what whatif predicts, and changes nothing", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("zones", `package zones

labels.zone := "a"
`, "apps", "deployments", namespace))
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		console := openConsole(ctx, "")

		status, text := console.request(ctx, http.MethodGet, "workload?resource=deployments.apps&name=web&namespace="+namespace, "")
		Expect(status).To(Equal(http.StatusOK), text)
		Expect(text).To(ContainSubstring(`"policy":"zones"`))
		status, text = console.request(ctx, http.MethodGet, "policy?name=zones", "")
		Expect(status).To(Equal(http.StatusOK), text)
		var policy struct{ Manifest string }
		Expect(json.Unmarshal([]byte(text), &policy)).To(Succeed())
		Expect(policy.Manifest).To(And(ContainSubstring("package zones"), Not(ContainSubstring("managedFields"))))

		changed := strings.Replace(policy.Manifest, `"a"`, `"b"`, 1)
		file := filepath.Join(GinkgoT().TempDir(), "changes.yaml")
		Expect(os.WriteFile(file, []byte(changed), 0o600)).To(Succeed())
		body, err := json.Marshal(map[string]string{"manifests": changed})
		Expect(err).NotTo(HaveOccurred())
		status, text = console.request(ctx, http.MethodPost, "whatif", string(body))
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
		f.CreateReadyPolicy(ctx, framework.NewPolicy("nodes", `package nodes

labels.zone := "a" if data.nodes.a
`, "apps", "deployments", namespace))
		f.MustKubectl(ctx, "", "create", "clusterrole", "policy-viewer", "--verb=list,get", "--resource=placementpolicies.placement.berth.dev")
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrole", "policy-viewer") })
		f.MustKubectl(ctx, "", "create", "clusterrolebinding", "policy-viewer", "--clusterrole=policy-viewer", "--user=viewer")
		DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", "policy-viewer") })
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		text, err := f.Plane.Kubeconfig("viewer")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(kubeconfig, text, 0o600)).To(Succeed())
		console := openConsole(ctx, "--kubeconfig "+kubeconfig)

		status, fleet := console.request(ctx, http.MethodGet, "fleet", "")
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(fleet).To(ContainSubstring("ask for the right to list"))
		status, policies := console.request(ctx, http.MethodGet, "policies", "")
		Expect(status).To(Equal(http.StatusOK))
		Expect(policies).To(And(ContainSubstring(`"name":"nodes"`), ContainSubstring("only the status of the policies is known")))
		status, quotas := console.request(ctx, http.MethodGet, "quotas", "")
		Expect(status).To(Equal(http.StatusOK))
		Expect(quotas).To(ContainSubstring("You may not list scopedquotas"))
	})

	It("shows changes of the cluster without reading it again", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("live", `package live

clusters := {"eu-1"}
`, "apps", "deployments", namespace))
		console := openConsole(ctx, "")
		total := func() string {
			status, text := console.request(ctx, http.MethodGet, "objects?policy=live", "")
			Expect(status).To(Equal(http.StatusOK), text)
			return text
		}
		Expect(total()).To(ContainSubstring(`"total":0`))
		watching, stop := context.WithCancel(ctx)
		defer stop()
		response := console.send(watching, http.MethodGet, "api/updates", "")
		defer func() { _ = response.Body.Close() }()
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "web", nil))).To(Succeed())
		Eventually(total).WithContext(ctx).Should(ContainSubstring(`"name":"web"`))
		f.MustKubectl(ctx, "", "delete", "deployment", "web", "-n", namespace)
		Eventually(total).WithContext(ctx).Should(ContainSubstring(`"total":0`))

		// A policy that comes later decides what is there.
		Expect(f.Client.Create(ctx, framework.NewObject(framework.Deployment, namespace, "api", nil))).To(Succeed())
		f.CreateReadyPolicy(ctx, framework.NewPolicy("later", `package later

clusters := {"eu-2"}
`, "apps", "deployments", namespace))
		Eventually(func() string {
			_, text := console.request(ctx, http.MethodGet, "policies", "")
			return text
		}).WithContext(ctx).Should(ContainSubstring(`"name":"later"`))
	})

	It("serves several users, each with the rights of the own token", func(ctx SpecContext) {
		namespace := f.NewNamespace(ctx, nil)
		f.CreateReadyPolicy(ctx, framework.NewPolicy("shared", `package shared

labels.zone := "a"
`, "apps", "deployments", namespace))
		token := func(name, role string) string {
			f.MustKubectl(ctx, "", "create", "serviceaccount", name, "-n", namespace)
			f.MustKubectl(ctx, "", "create", "clusterrolebinding", namespace+"-"+name, "--clusterrole="+role, "--serviceaccount="+namespace+":"+name)
			DeferCleanup(func(ctx SpecContext) { f.MustKubectl(ctx, "", "delete", "clusterrolebinding", namespace+"-"+name) })
			return strings.TrimSpace(f.MustKubectl(ctx, "", "create", "token", name, "-n", namespace))
		}
		admin, viewer := token("admin", "cluster-admin"), token("viewer", "system:discovery")
		address := fmt.Sprintf("127.0.0.1:%d", framework.FreePort())
		// The credentials of the kubeconfig are an administrator's, and are not used.
		text := startConsole(ctx, "--listen "+address)
		Eventually(text).WithContext(ctx).Should(ContainSubstring("listens at " + address))
		as := func(token string) *consoleClient {
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			return &consoleClient{Client: &http.Client{Transport: transport}, address: "https://" + address + "/", token: token}
		}
		status, body := as(admin).request(ctx, http.MethodGet, "policies", "")
		Expect(status).To(Equal(http.StatusOK), body)
		Expect(body).To(ContainSubstring(`"name":"shared"`))
		status, body = as(viewer).request(ctx, http.MethodGet, "policies", "")
		Expect(status).To(Equal(http.StatusForbidden), body)
		Expect(body).To(ContainSubstring("placementpolicies"))
		for _, none := range []string{"", "no-token"} {
			status, body = as(none).request(ctx, http.MethodGet, "policies", "")
			Expect(status).To(Equal(http.StatusUnauthorized), body)
		}
	})
})
