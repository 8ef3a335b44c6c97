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
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const complete = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: berth-manager-role, labels: {app.kubernetes.io/name: berth, app.kubernetes.io/managed-by: kustomize, other: "yes"}}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [berth-manager-role], verbs: [get]}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], resourceNames: [berth-quota], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-manager-role}
subjects: [{kind: ServiceAccount, name: berth-controller-manager, namespace: berth-system}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.placement.berth.dev}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: berth-controller-manager}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: berth-controller-manager}
spec: {groups: [{name: berth}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: berth-dashboard}
data: {berth.json: "{}\n", fleet.json: "{}\n"}
`

const about = "apiVersion: v2\nversion: 0.0.0\nappVersion: 0.0.0\nkubeVersion: x\n"

func TestRun(t *testing.T) {
	tests := map[string]struct {
		manifests string
		version   string
		about     string
		want      string
	}{
		"Complete":           {},
		"AnotherVersion":     {version: "1.2.3-rc.1"},
		"VersionWithV":       {version: "v1.2.3", want: "without v"},
		"ChartWithout":       {about: "version: 1.0.0\n", want: "has 1 lines"},
		"NoAlerts":           {manifests: complete[:strings.Index(complete, "---\napiVersion: monitoring")], want: "files/alerts.yaml"},
		"OtherConfigMap":     {manifests: strings.ReplaceAll(complete, "berth.json", "x"), want: "has no dashboard berth.json"},
		"OtherSubject":       {manifests: strings.ReplaceAll(complete, "name: berth-controller-manager, namespace", "name: berth-other, namespace"), want: "alone"},
		"OtherPrefix":        {manifests: strings.ReplaceAll(complete, "{name: berth-manager-rolebinding}", "{name: rolebinding}"), want: "does not begin with"},
		"RuleOnNobody":       {manifests: strings.ReplaceAll(complete, "resourceNames: [berth-manager-role]", "resourceNames: [berth-x]"), want: "which is not there"},
		"UnknownFieldOfRule": {manifests: strings.ReplaceAll(complete, "verbs: [get]", "verb: [get]"), want: "unknown field"},
		"NoYAML":             {manifests: "a: b: c", want: "mapping values"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, text := range map[string]string{"Chart.yaml": cmp.Or(tc.about, about), "crds/stale.yaml": "", "templates/mine.yaml": "mine"} {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			version := cmp.Or(tc.version, "0.1.0")
			err := run(strings.NewReader(cmp.Or(tc.manifests, complete)), []string{"-out", dir, "-version", version})
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("run() = %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			expectFile(t, dir, "Chart.yaml", "\nversion: "+version+"\nappVersion: "+version+"\n")
			expectFile(t, dir, "templates/mine.yaml", "mine")
			expectFile(t, dir, "crds/placement.berth.dev_ships.yaml", "name: ships.placement.berth.dev")
			expectFile(t, dir, "files/alerts.yaml", header+"- name: berth\n")
			expectFile(t, dir, "files/dashboard.json", "{}\n")
			expectFile(t, dir, "files/fleet-dashboard.json", "{}\n")
			expectFile(t, dir, "files/rbac.yaml", `'{{ include "berth.fullname" . }}-manager-role'`, "- berth-quota\n", "    other: \"yes\"\n", "name: manager-rolebinding\n")
			if _, err := os.Stat(filepath.Join(dir, "crds", "stale.yaml")); !os.IsNotExist(err) {
				t.Errorf("a definition that nobody has any more is still there: %v", err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "files", "rbac.yaml"))
			if err != nil || strings.Contains(string(text), "kustomize") {
				t.Errorf("the list of roles names who manages them, %v:\n%s", err, text)
			}
		})
	}
}

func expectFile(t *testing.T, dir, path string, parts ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s lacks %q:\n%s", path, part, text)
		}
	}
}
