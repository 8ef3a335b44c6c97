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

// TestRefusals tests invalid inputs. The bundle of config/manifests is tested in test/bundle.
func TestRefusals(t *testing.T) {
	const complete = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: berth}
spec: {}
---
apiVersion: scorecard.operatorframework.io/v1alpha3
kind: Configuration
metadata: {name: config}
---
apiVersion: v1
kind: Namespace
metadata: {name: berth-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec: {template: {spec: {serviceAccountName: manager, containers: [{name: manager, image: "controller:latest"}]}}}
`
	const definition = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {group: example.com, names: {kind: Widget}, versions: [{name: v1}]}
`
	const role = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: absent}
subjects: [{kind: ServiceAccount, name: NAME}]
`
	for name, c := range map[string]struct {
		manifests, version, image, platforms, want string
	}{
		"nothing is wrong":            {manifests: complete},
		"version with v":              {manifests: complete, version: "v1.2.3", want: "semantic version without v"},
		"image of any release":        {manifests: complete, image: "registry.example:5000/berth", want: "must be of one release"},
		"platform by one word":        {manifests: complete, platforms: "linux/amd64,arm64", want: "\"arm64\" must be an operating system and an architecture"},
		"latest image":                {manifests: complete, image: "registry.example/berth:latest", want: "must be of one release"},
		"no Namespace":                {manifests: strings.ReplaceAll(complete, "kind: Namespace", "kind: ConfigMap"), want: "there is no Namespace"},
		"no placeholder":              {manifests: strings.ReplaceAll(complete, "controller:latest", "other:v1"), want: "no container has the image"},
		"webhooks":                    {manifests: complete + "---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}}\n", want: "OLM installs no such kind"},
		"ServiceMonitor":              {manifests: complete + "---\n{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: m}}\n", want: "OLM installs no such kind"},
		"definition without words":    {manifests: complete + definition, want: "describes 0 kinds, and there are 1"},
		"account that nobody runs as": {manifests: complete + "---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: other}}\n", want: "no Deployment runs as it"},
		"binding of somebody else":    {manifests: complete + strings.ReplaceAll(role, "NAME", "other"), want: "OLM can't bind ServiceAccount other"},
		"role that is not there":      {manifests: complete + strings.ReplaceAll(role, "NAME", "manager"), want: "there is no ClusterRole absent"},
		"misspelt role":               {manifests: complete + "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, rule: []}\n", want: "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			icon := filepath.Join(dir, "icon.svg")
			if err := os.WriteFile(icon, []byte("<svg/>"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run(strings.NewReader(c.manifests), []string{
				"-out", filepath.Join(dir, "bundle"), "-icon", icon, "-channel", "stable",
				"-platforms", cmp.Or(c.platforms, "linux/amd64"),
				"-version", cmp.Or(c.version, "1.2.3"), "-image", cmp.Or(c.image, "registry.example/berth:v1.2.3"),
			})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
