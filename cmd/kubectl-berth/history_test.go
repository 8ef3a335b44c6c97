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
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// historyLog is what kubectl logs prints for two replicas.
const historyLog = `{"level":"info","ts":"2026-01-02T03:04:05Z","msg":"Starting Controller"}
{"time":"2026-01-03T03:04:05Z","level":"INFO","msg":"placement decision","source":"remediation","action":"patch","object":{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u"},"policies":[{"name":"zones","generation":3}],"changes":[{"field":"annotation placement.berth.dev/clusters","from":"[\"eu-1\",\"eu-2\"]","to":"[\"eu-1\"]","policy":"zones"}],"causes":["ClusterProfile inventory/eu-2: label pci-level \"3\" → \"1\""],"plans":["d1"],"approvedBy":["alice"],"durationSeconds":61.25}
[pod/berth-2/manager] {"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"placement decision","source":"admission","action":"create","object":{"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespace":"shop","name":"web"},"policies":[{"name":"zones","generation":2}],"changes":[{"field":"annotation placement.berth.dev/clusters","from":null,"to":"[\"eu-1\",\"eu-2\"]","policy":"zones"}],"moreChanges":2,"user":"bob","durationSeconds":0.003}
{"time":"2026-01-02T03:04:05Z","msg":"placement decision","object":{"group":"apps","resource":"deployments","kind":"Deployment","namespace":"bank","name":"web"},"changes":[{"field":"x"}]}
`

// history runs the command with a log on the standard input.
func history(t *testing.T, log string, args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", "none")
	streams, in, out, _ := genericiooptions.NewTestIOStreams()
	in.WriteString(log)
	cmd := newCommand(streams)
	cmd.SetArgs(append([]string{"history"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestHistory(t *testing.T) {
	got, err := history(t, historyLog, "deploy/web", "-n", "shop", "--log", "-")
	if err != nil {
		t.Fatal(err)
	}
	want := `TIME                   FIELD                                    FROM              TO                CAUSE                                                      POLICY    APPROVED BY
2026-01-02T03:04:05Z   annotation placement.berth.dev/clusters   (none)            ["eu-1","eu-2"]   create by bob                                              zones@2   (none)
2026-01-02T03:04:05Z   (2 other changes)                         (none)            (none)            create by bob                                              (none)    (none)
2026-01-03T03:04:05Z   annotation placement.berth.dev/clusters   ["eu-1","eu-2"]   ["eu-1"]          ClusterProfile inventory/eu-2: label pci-level "3" → "1"   zones@3   alice
`
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(got)); diff != "" {
		t.Errorf("output (-want +got):\n%s\n%s", diff, got)
	}
	file := t.TempDir() + "/berth.log"
	if err := os.WriteFile(file, []byte(historyLog), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"Wide":           {[]string{"deployments.apps/web", "-n", "shop", "--log", file, "-o", "wide"}, "61.250"},
		"JSON":           {[]string{"Deployment/web", "-n", "shop", "--log", file, "-o", "json"}, `"approvedBy": [`},
		"OtherName":      {[]string{"deployment/db", "-n", "shop", "--log", file}, "None of the 3 decisions in the log is on deployment/db in namespace shop. Name another namespace by -n."},
		"OtherGroup":     {[]string{"deployments.example.com/web", "-n", "shop", "--log", file}, "None of the 3"},
		"OtherType":      {[]string{"statefulset/web", "-n", "shop", "--log", file}, "None of the 3"},
		"OtherNamespace": {[]string{"deployment/web", "--log", file}, "None of the 3"},
		"NoKubeconfig":   {[]string{"deployment/web", "-n", "shop", "--log", file, "--kubeconfig", file + ".none"}, "alice"},
		"Twice":          {[]string{"deployment/web", "-n", "bank", "--log", file, "--log", file}, "TIME"},
	} {
		if got, err := history(t, "", tc.args...); err != nil || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, args := range map[string][]string{
		"NoLog": {"deployment/web"}, "NoName": {"deployment", "--log", file}, "NoFile": {"deployment/web", "--log", file + ".none"}, "Output": {"deployment/web", "--log", file, "-o", "name"},
	} {
		if _, err := history(t, "", args...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestHostileHistory checks that the values of a log, which any program may have written, print on one line.
func TestHostileHistory(t *testing.T) {
	log := `{"msg":"placement decision","time":"2026-01-03T03:04:05Z","object":{"resource":"configmaps","namespace":"default","name":"web"},"user":"x\n` + forged + `",` +
		`"causes":["x\n` + forged + `\u001b[1m\u202e"],"changes":[{"field":"x\n` + forged + `","from":"\r` + forged + `","to":"\t` + forged + `"}]}` + "\n"
	for _, output := range []string{"", "wide", "json", "yaml"} {
		got, err := history(t, log, "cm/web", "--log", "-", "-o", output)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got) {
			if strings.HasPrefix(strings.TrimSpace(line), forged) || strings.ContainsAny(line, "\x1b\u202e\r") {
				t.Errorf("-o %q: %q", output, line)
			}
		}
	}
}
