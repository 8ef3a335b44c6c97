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

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// enterFiles makes a directory with the files of tests the working directory.
func enterFiles(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Chdir(dir)
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startConsole starts the command for files of the working directory, and returns a client that has opened the link, and the address.
func startConsole(t *testing.T, from ...string) (client *http.Client, address string) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	opened := make(chan string, 1)
	o := &consoleOptions{simulationFlags: simulationFlags{
		IOStreams: streams, flags: genericclioptions.NewConfigFlags(true), from: from, berthNamespace: "berth-system",
	}}
	o.open = func(_ context.Context, link string) error {
		opened <- link
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil || errOut.Len() > 0 {
			t.Errorf("the command ended with %v: %s", err, errOut)
		}
	})
	link := <-opened
	if !strings.Contains(out.String(), link) {
		t.Errorf("the link %s is not printed: %s", link, out)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client = &http.Client{Jar: jar, Timeout: time.Minute}
	request(t, client, http.MethodGet, link, "")
	return client, strings.Split(link, "?")[0]
}

// request returns the body of a response.
func request(t *testing.T, client *http.Client, method, address, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s: %s", address, err, response.Status, text)
	}
	return string(text)
}

// TestConsole checks that the console predicts what whatif predicts, finds the mistakes that check finds, and has the manifest of a policy.
func TestConsole(t *testing.T) {
	enterFiles(t)
	client, address := startConsole(t, "policy.yaml", "clusters.yaml", "web.yaml")
	for _, name := range []string{"rules.yaml", "wrong-rules.yaml", "wrong-schema.yaml", "broken.yaml"} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(map[string]string{"manifests": files[name]})
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Mistakes []struct {
					Line, Column int
					Error        bool
					Message      string
				}
				Report any
			}
			if err := json.Unmarshal([]byte(request(t, client, http.MethodPost, address+"api/whatif", string(body))), &got); err != nil {
				t.Fatal(err)
			}
			var errs, warnings []string
			for _, m := range got.Mistakes {
				if m.Line == 0 || m.Column == 0 {
					t.Errorf("no place: %+v", m)
				}
				if m.Error {
					errs = append(errs, m.Message)
				} else {
					warnings = append(warnings, m.Message)
				}
			}
			checked, _ := printed(t, "check", "-f", name, "--from", "policy.yaml,clusters.yaml,web.yaml", "-o", "json")
			var want []struct{ Errors, Warnings []string }
			if err := json.Unmarshal([]byte(checked), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[0].Errors, errs); diff != "" {
				t.Errorf("errors (-check +console):\n%s", diff)
			}
			if diff := cmp.Diff(want[0].Warnings, warnings); diff != "" {
				t.Errorf("warnings (-check +console):\n%s", diff)
			}
			if name == "wrong-schema.yaml" {
				// whatif refuses it.
				return
			}
			predicted, _ := printed(t, "whatif", "-f", name, "--from", "policy.yaml,clusters.yaml,web.yaml", "-o", "json")
			var report any
			if err := json.Unmarshal([]byte(predicted), &report); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(report, got.Report); diff != "" {
				t.Errorf("report (-whatif +console):\n%s", diff)
			}
		})
	}
	if text := request(t, client, http.MethodGet, address+"api/policy?name=region", ""); !strings.Contains(text, `rego: |\n`) {
		t.Errorf("the manifest has no block of Rego: %s", text)
	}
	if text := request(t, client, http.MethodGet, address+"api/fleet", ""); !strings.Contains(text, `"source":"policy.yaml, clusters.yaml, web.yaml"`) {
		t.Errorf("the source is missing: %s", text)
	}
}

// TestManifestOfRules checks that the manifest of a policy with rules has no Rego.
func TestManifestOfRules(t *testing.T) {
	enterFiles(t)
	client, address := startConsole(t, "rules.yaml", "clusters.yaml")
	if text := request(t, client, http.MethodGet, address+"api/policy?name=eu", ""); strings.Contains(text, "rego") || !strings.Contains(text, "rules:") {
		t.Error(text)
	}
}

func TestConsolePort(t *testing.T) {
	enterFiles(t)
	if _, stderr := printed(t, "console", "--no-browser", "--port", "-1", "--from", "policy.yaml"); !strings.Contains(stderr, "--port: ") {
		t.Error(stderr)
	}
}
