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
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
)

// run runs the plugin on a file with the text, without a cluster.
func run(t *testing.T, text string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	file := filepath.Join(dir, "configmaps.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := newCommand(streams)
	cmd.SetArgs(append([]string{"migrate", "configmaps", "--filename=" + file}, args...))
	err = cmd.Execute()
	return out.String(), errOut.String(), err
}

const manifests = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: good, labels: {openpolicyagent.org/policy: rego}}
  data:
    p.rego: "package p\n\nlabels := {\"a\": \"b\"}\n"
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: opa}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: bad, namespace: other, labels: {openpolicyagent.org/policy: rego}}
data:
  p.rego: "package q\n\nallow { true }\n"
`

func TestNothingByHalves(t *testing.T) {
	stdout, stderr, err := run(t, manifests)
	if err == nil || !strings.Contains(err.Error(), "--allow-partial") || stdout != "" {
		t.Errorf("error %v, output %q", err, stdout)
	}
	for _, want := range []string{
		"default/good/p.rego: converted into PlacementPolicy \"good\"\n", "other/bad/p.rego: left out: ",
		"PlacementPolicy \"good\": Rego v1, mode DryRun, remediation Manual, matches deployments.apps/v1, reads no cluster data\n",
		"To match others, name all types by --resource, ",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q lacks %q", stderr, want)
		}
	}
	stdout, _, err = run(t, manifests, "--allow-partial")
	if err != nil || !strings.Contains(stdout, "name: good") || strings.Contains(stdout, "name: bad") {
		t.Errorf("error %v, output %q", err, stdout)
	}
}

func TestFlagsBecomeSpec(t *testing.T) {
	stdout, stderr, err := run(t, manifests, "-n", "opa", "--package=p", "--resource=replicasets.apps/v1,pods/v1", "--resource=jobs.batch/v1",
		"--mode=Warn", "--remediation=Off", "--rego-version=v0")
	if err != nil {
		t.Fatal(err, stderr)
	}
	var got placementv1.PlacementPolicy
	if err := yaml.UnmarshalStrict([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	rule := func(group, resource string) placementv1.ResourceRule {
		return placementv1.ResourceRule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}
	}
	want := placementv1.PlacementPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "placement.berth.dev/v1alpha1", Kind: "PlacementPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "good",
			Labels:      map[string]string{"placement.berth.dev/migrated-from": "configmaps"},
			Annotations: map[string]string{"placement.berth.dev/migrated-modules": "opa/good/p.rego"},
		},
		Spec: placementv1.PlacementPolicySpec{
			Match: placementv1.Match{ResourceRules: []placementv1.ResourceRule{rule("apps", "replicasets"), rule("", "pods"), rule("batch", "jobs")}},
			Rego: `package p

labels := {"a": "b"}
`,
			RegoVersion: placementv1.RegoV0, Mode: placementv1.ModeWarn, FailurePolicy: placementv1.FailurePolicyFail,
			Remediation: placementv1.Remediation{Mode: placementv1.RemediationOff},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if strings.Contains(stderr, "name all types by --resource") {
		t.Errorf("says that the types are nobody's choice: %s", stderr)
	}
}

func TestBadFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"--mode=Audit":                   `--mode: "Audit" is none of DryRun, Warn, Enforce`,
		"--remediation=maybe":            `--remediation: "maybe" is none of`,
		"--rego-version=v2":              `--rego-version: "v2" is none of auto, v0, v1`,
		"--resource=deployments.apps":    `--resource: "deployments.apps" is not <plural>.<group>/<version>`,
		"--resource=apps/v1/deployments": `--resource: "apps/v1/deployments" is not`,
		"--selector=a in b":              "--selector: ",
		"--data-selector=a in b":         "--data-selector: ",
		"opa":                            "unknown command",
	} {
		if stdout, _, err := run(t, manifests, "--allow-partial", flag); err == nil || !strings.Contains(err.Error(), want) || stdout != "" {
			t.Errorf("%s: error %v, want %q; output %q", flag, err, want, stdout)
		}
	}
	if _, _, err := run(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"); err == nil || !strings.Contains(err.Error(), "no ConfigMap found") {
		t.Errorf("error %v", err)
	}
}

// TestManifest checks that a printed policy decodes to the original, whatever its text, and whether it is printed
// readably.
func TestManifest(t *testing.T) {
	for text, readable := range map[string]bool{
		"package p": true, "package p\n": true, "package p\n\n\n": true, "package p\n\n\tx := 1 # tab \n": true, "\n\npackage p\n": true,
		"  # indented\npackage p\n": false, "package p\r\n": false, "package p # \u2028\x07\n": false, "rego: text\n": true, "---\npackage p\n": true, "\n": true,
	} {
		p := &placementv1.PlacementPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: "placement.berth.dev/v1alpha1", Kind: "PlacementPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       placementv1.PlacementPolicySpec{Rego: text},
		}
		printed, err := manifest(p)
		if err != nil {
			t.Fatal(err)
		}
		var got placementv1.PlacementPolicy
		if err := yaml.UnmarshalStrict([]byte(printed), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, &got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if block := strings.Contains(printed, "rego: |"); readable && !block {
			t.Errorf("%q is no block:\n%s", text, printed)
		}
		if bytes.Contains([]byte(printed), []byte("status")) {
			t.Errorf("has a status:\n%s", printed)
		}
	}
}
