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
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/cleanup"
	"github.com/berth-dev/berth/internal/doctor"
	"github.com/berth-dev/berth/internal/input"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/remediation"
)

// forged is how lines begin that an attacker wants a command to print.
const forged = "FORGED"

// hostileValue would print lines, styles, and a title of the terminal, and hide and reverse text.
const hostileValue = "x\n\x1b[1m" + forged + " Policy\x1b[0m\n  \x1b[32m" + forged + " us-1 is chosen\x1b[0m\r" + forged + "\t\x1b]0;t\x07\v\f\u0085\u009b2J\x7f\u202e\u200b\u2028" + forged + "\U000e0041"

// harmlessValue is a value that prints as it is, and that validations refuse as they do hostileValue.
var harmlessValue = "x" + strings.Repeat("!", len(hostileValue)-1)

// hostileFiles are files in which VALUE stands for a value, quoted in YAML, and TEXT for it within a text.
var hostileFiles = map[string]string{
	"policies.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region, generation: 2}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  delivery: {karmada: {}}
  rego: |
    package region

    clusters contains name if {
      some name, c in data.clusters
      c.labels.region == input.metadata.labels.region
    }

    warnings contains sprintf("team %s", [input.metadata.annotations.team])

    annotations["example.com/copy"] := sprintf("copy of %s", [input.metadata.annotations.team])
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: deny}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: |
    package deny

    errors contains sprintf("team %s", [input.metadata.annotations.denied])

    labels.tier := tier if some tier in [input.metadata.annotations.broken, concat("", ["not ", input.metadata.annotations.broken])]
---
apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: other}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    objectSelector: {matchLabels: {region: elsewhere}}
  rego: "package other\n\nlabels.a := \"b\"\n"
`,
	"clusters.yaml": `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: eu-1, namespace: fleet, labels: {region: VALUE}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: VALUE, namespace: fleet, labels: {region: us}}
`,
	"web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: VALUE, namespace: VALUE, uid: VALUE, labels: {region: VALUE}, annotations: {team: VALUE, placement.berth.dev/clusters: VALUE, VALUE: VALUE}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: denied, namespace: shop, labels: {region: VALUE}, annotations: {team: VALUE, denied: VALUE}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: broken, namespace: shop, labels: {region: VALUE}, annotations: {team: VALUE, broken: VALUE}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: VALUE, namespace: shop, labels: {region: VALUE}, annotations: {team: VALUE}}
`,
	"one.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: VALUE, namespace: shop, uid: VALUE, labels: {region: VALUE}, annotations: {team: VALUE}}
`,
	"changed.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: region}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package region\n\nannotations[\"example.com/copy\"] := concat(\"\", [\"another \", input.metadata.annotations.team])\n\nerrors contains input.metadata.annotations.team\n"
`,
	"wrong.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: VALUE}
spec:
  VALUE: VALUE
  match: {resourceRules: [{apiGroups: [VALUE], apiVersions: [VALUE], resources: [VALUE]}], namespaceSelector: {matchLabels: {VALUE: VALUE}}}
  mode: VALUE
  rules: [{name: VALUE, require: [{label: VALUE, operator: VALUE, values: [VALUE]}], set: {labels: {VALUE: VALUE}}}]
`,
	"wrong-rules.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: VALUE}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: a
    when: {objectSelector: {matchLabels: {a: VALUE}}}
    require: [{label: a, operator: Gt, values: [VALUE]}, {field: region, operator: In, values: [VALUE]}]
    set: {labels: {a: VALUE}, annotations: {VALUE: "{VALUE}"}}
    deny: VALUE
`,
	"rego.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: VALUE}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package rego\n\n# \x1b[1m\u202e\nlabels.a := \"b\"\n"
`,
	"parse.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: parse}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rego: "package parse\n\nlabels.a := \"\x1b[1m\u202e FORGED\" )\n"
`,
	"cel.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: cel}
spec:
  match:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
    matchConditions: [{name: c, expression: "nothing == '\x1b[1m\u202e FORGED'"}]
  rego: "package cel\n\nlabels.a := \"b\"\n"
`,
	"rules.yaml": `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: VALUE}
spec:
  match: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}
  rules:
  - name: a
    require: [{field: region, operator: In, values: [VALUE]}]
    set: {annotations: {example.com/a: VALUE}}
    warn: VALUE
    deny: VALUE
`,
	"hostile_test.yaml": `apiVersion: config.berth.dev/v1alpha1
kind: PolicyTest
policies: [policies.yaml]
world: [clusters.yaml]
cases:
- name: VALUE
  object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: VALUE, labels: {region: VALUE}, annotations: {team: VALUE, denied: VALUE}}}
  expect: {clusters: [VALUE], denied: [nobody], warnings: [nothing], labels: {a: VALUE}, annotations: {example.com/copy: VALUE}}
`,
	"configmaps.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: VALUE, labels: {openpolicyagent.org/policy: rego}}
data:
  a.rego: "package p\n\n# \x1b[1m\u202e\nlabels := {\"a\": \"b\"}\n"
  VALUE: "package p\n\nannotations := {\"a\": \"b\"}\n"
  wrong.rego: "package q\n\nlabels := ) TEXT\n"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: data, labels: {openpolicyagent.org/data: opa}}
data: {VALUE: VALUE}
`,
}

// writeFiles writes the files with a value to the working directory.
func writeFiles(t *testing.T, value string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Chdir(dir)
	quoted := strconv.QuoteToASCII(value)
	for name, text := range hostileFiles {
		text = strings.NewReplacer(`"{VALUE}"`, `"{`+quoted[1:len(quoted)-1]+`}"`, "VALUE", quoted, "TEXT", quoted[1:len(quoted)-1]).Replace(text)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// printed returns what the plugin prints in the working directory, with the error as main prints it.
func printed(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := newCommand(streams)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		printError(streams.ErrOut, err)
	}
	return out.String(), errOut.String()
}

// marked is how the lines of a message begin that has several.
const marked = "  | "

// checkLines checks that a text has as many lines as another one, apart from those of messages, that none of them is forged, and that
// it has no characters that are not visible but for the line feeds and, in documents, tabs.
func checkLines(t *testing.T, what, text, harmless string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), forged) || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && !unicode.IsGraphic(r) }) {
			t.Errorf("%s: line %q of:\n%s", what, line, text)
		}
	}
	lines := func(text string) int {
		return strings.Count(text, "\n") - strings.Count(text, marked)
	}
	if got, want := lines(text), lines(harmless); got != want {
		t.Errorf("%s: %d lines, want %d as in\n%s\ngot\n%s", what, got, want, harmless, text)
	}
}

// hostileCommands are command lines of each command that needs no API server.
var hostileCommands = []string{
	"explain -f web.yaml --from policies.yaml,clusters.yaml",
	"explain -f one.yaml --from changed.yaml,clusters.yaml",
	"explain -f web.yaml --from parse.yaml,clusters.yaml",
	"explain -f web.yaml --from policies.yaml,clusters.yaml -o json",
	"explain -f web.yaml --from policies.yaml,clusters.yaml -o yaml",
	"explain deployment/none --from policies.yaml,clusters.yaml,web.yaml",
	"explain -f one.yaml --why-not none --from policies.yaml,clusters.yaml,web.yaml",
	"whatif -f changed.yaml --from policies.yaml,clusters.yaml,web.yaml",
	"whatif -f parse.yaml,wrong-rules.yaml --from policies.yaml,clusters.yaml,web.yaml",
	"whatif -f changed.yaml --from policies.yaml,clusters.yaml,web.yaml -o json",
	"whatif -f changed.yaml --from policies.yaml,clusters.yaml,web.yaml -o yaml",
	"whatif --delete clusterprofiles/eu-1 --from policies.yaml,clusters.yaml,web.yaml",
	"violations --from policies.yaml,clusters.yaml,web.yaml",
	"violations --from policies.yaml,clusters.yaml,web.yaml -o wide",
	"violations --from policies.yaml,clusters.yaml,web.yaml -o json",
	"violations --from policies.yaml,clusters.yaml,web.yaml -o yaml",
	"where --from policies.yaml,clusters.yaml,web.yaml",
	"where --from policies.yaml,clusters.yaml,web.yaml -o wide",
	"where --from policies.yaml,clusters.yaml,web.yaml -o json",
	"where --from policies.yaml,clusters.yaml,web.yaml -o yaml",
	"where --by region --from policies.yaml,clusters.yaml,web.yaml",
	"where (none) --from policies.yaml,clusters.yaml,web.yaml -o wide",
	"where eu-1 --from policies.yaml,clusters.yaml,web.yaml -o wide",
	"where eu-1 --from policies.yaml,clusters.yaml,web.yaml -o json",
	"where deployment/denied -n shop --from policies.yaml,clusters.yaml,web.yaml",
	"where deployment/broken -n shop --from policies.yaml,clusters.yaml,web.yaml -o yaml",
	"plan region --from policies.yaml,clusters.yaml,web.yaml",
	"plan region --from policies.yaml,clusters.yaml,web.yaml -o wide",
	"plan region --from policies.yaml,clusters.yaml,web.yaml -o json",
	"plan region --from policies.yaml,clusters.yaml,web.yaml -o yaml",
	"plan none --from wrong.yaml,policies.yaml",
	"test hostile_test.yaml",
	"test hostile_test.yaml --coverage -o json",
	"test hostile_test.yaml -o junit",
	"test web.yaml",
	"check -f policies.yaml,rules.yaml,rego.yaml --from clusters.yaml",
	"check -f wrong.yaml,wrong-rules.yaml --from clusters.yaml",
	"check -f parse.yaml,cel.yaml",
	"check -f wrong.yaml,wrong-rules.yaml,parse.yaml -o yaml",
	"render -f rules.yaml,rego.yaml",
	"render -f wrong.yaml,wrong-rules.yaml,parse.yaml",
	"render --digest -f rules.yaml,rego.yaml",
	"deps --from policies.yaml,clusters.yaml,rego.yaml,rules.yaml",
	"deps --from policies.yaml,clusters.yaml,rego.yaml,rules.yaml -o yaml",
	"delivery render -f one.yaml --from policies.yaml,clusters.yaml",
	"delivery render -f web.yaml --from policies.yaml,clusters.yaml",
	"migrate configmaps -f configmaps.yaml",
	"migrate configmaps -f configmaps.yaml --allow-partial",
	"__complete deps --from rego.yaml r",
	"__complete explain --from policies.yaml,one.yaml -n shop deployment/",
}

// TestHostileValues feeds each command with values of objects that would forge lines and style text. It prints them as one that does
// not.
func TestHostileValues(t *testing.T) {
	for _, line := range hostileCommands {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			writeFiles(t, harmlessValue)
			harmlessOut, harmlessErr := printed(t, args...)
			writeFiles(t, hostileValue)
			stdout, stderr := printed(t, args...)
			checkLines(t, "standard error", stderr, harmlessErr)
			if !slices.Contains(args, "yaml") && args[0] != "delivery" && args[0] != "migrate" {
				checkLines(t, "standard output", stdout, harmlessOut)
				return
			}
			// YAML with such values is written as JSON, which has other lines.
			checkLines(t, "standard output", stdout, stdout)
			checkYAML(t, harmlessOut, stdout)
		})
	}
}

// checkYAML checks that YAML documents have the hostile value where others have a harmless one.
func checkYAML(t *testing.T, harmless, hostile string) {
	t.Helper()
	before, after := strings.Split(harmless, "---\n"), strings.Split(hostile, "---\n")
	if len(before) != len(after) {
		t.Fatalf("%d documents, want %d", len(after), len(before))
	}
	for i := range before {
		var want, got any
		if err := yaml.Unmarshal([]byte(before[i]), &want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(after[i]), &got); err != nil {
			t.Fatalf("%v in\n%s", err, after[i])
		}
		if shape(want) != shape(got) {
			t.Errorf("got\n%s\nwant it like\n%s", after[i], before[i])
		}
	}
}

// shape describes a document without its texts.
func shape(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return fmt.Sprintf("{%d}", len(value))
	case []any:
		var out strings.Builder
		for _, item := range value {
			out.WriteString(shape(item) + ",")
		}
		return "[" + out.String() + "]"
	}
	return fmt.Sprintf("%T", value)
}

// TestHostileStructures checks that the values in JSON and YAML are those of the objects.
func TestHostileStructures(t *testing.T) {
	writeFiles(t, hostileValue)
	for format, decode := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(text []byte, out any) error { return yaml.Unmarshal(text, out) }} {
		stdout, stderr := printed(t, "plan", "region", "--from=policies.yaml,clusters.yaml,web.yaml", "-o", format)
		var plan struct {
			Moves []struct {
				Name    string
				Changes []struct{ Key, To string }
			}
		}
		if err := decode([]byte(stdout), &plan); err != nil {
			t.Fatalf("%s: %v, %s", format, err, stderr)
		}
		names, values := sets.New[string](), sets.New[string]()
		for _, m := range plan.Moves {
			names.Insert(m.Name)
			for _, c := range m.Changes {
				values.Insert(c.To)
			}
		}
		if !names.Has(hostileValue) || !values.Has("copy of "+hostileValue) {
			t.Errorf("%s: names %q, values %q", format, names.UnsortedList(), values.UnsortedList())
		}
	}
}

// TestEveryCommandIsHostile checks that the tests of this file run each command.
func TestEveryCommandIsHostile(t *testing.T) {
	// These read an API server: see TestHostileReports. snapshot and console print nothing of objects; for the pages of the console, see
	// its TestBrowser. For history, see TestHostileHistory.
	tested := sets.New("kubectl berth history", "kubectl berth doctor", "kubectl berth cleanup", "kubectl berth approve", "kubectl berth quotas",
		"kubectl berth snapshot", "kubectl berth console")
	root := newCommand(genericiooptions.NewTestIOStreamsDiscard())
	for _, line := range hostileCommands {
		if cmd, _, err := root.Find(strings.Fields(line)); err == nil {
			tested.Insert(cmd.CommandPath())
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Runnable() && !tested.Has(c.CommandPath()) {
			t.Errorf("%s is not tested", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// TestHostileReports checks what the commands print that read an API server.
func TestHostileReports(t *testing.T) {
	key := func(value string) remediation.Key {
		return remediation.Key{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: value, Name: value}
	}
	for name, report := range map[string]func(out io.Writer, value string){
		"doctor": func(out io.Writer, value string) {
			if err := printFindings(newPrinter(out), []doctor.Finding{{Severity: doctor.Error, Object: value, Message: value, Runbook: value}}); err != nil {
				t.Error(err)
			}
		},
		"cleanup": func(out io.Writer, value string) {
			s := &summary{options: &cleanupOptions{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}}, kept: sets.New[string]()}
			s.print(cleanup.Target{Key: key(value)}, &placement.UndoResult{Changes: []placement.Change{{Field: "labels", Key: value, From: &value, To: &value, Immutable: value}}})
			s.options.warn("%s: %v", cleanup.Target{Key: key(value)}, value)
			if err := s.options.confirm(1, value); err == nil {
				t.Error("confirmed")
			}
		},
		"quotas": func(out io.Writer, value string) {
			printQuotas(newPrinter(out), &namespaceQuotas{Namespace: value, Amounts: []limitedAmount{{Quota: value, Resource: value}}, Missing: []string{value}})
		},
		"explain": func(out io.Writer, value string) {
			printRecorded(newPrinter(out), recordedAt{
				Object: value, Events: []recordedEvent{{Reason: value, Message: value}}, Missing: []string{value},
				ObjectRecord: placement.ObjectRecord{CopiedFrom: value, Values: []placement.Recorded{
					{Field: "labels", Key: value, Policy: value, Current: &value, Requested: &value},
					{Field: "labels", Key: value, Policy: value, Current: &value, Changed: true}, {Field: "labels", Key: value, Policy: value, Unknown: value},
				}},
			})
		},
		"approve": func(out io.Writer, value string) {
			o := &approveOptions{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}}
			policy := &placementv1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: placementv1.PlacementPolicyStatus{Plan: &placementv1.RemediationPlan{
				Digest: "d", State: placementv1.PlanWaitingForApproval, Moves: 1, Message: value, Transitions: []string{value},
			}}}
			for _, line := range waitingIn(policy)[0].lines {
				newPrinter(out).line("%s", line)
			}
			if err := o.confirm(value); err == nil {
				t.Error("confirmed")
			}
		},
		"error": func(out io.Writer, value string) { printError(out, fmt.Errorf("%s: %s", value, value)) },
	} {
		t.Run(name, func(t *testing.T) {
			var harmless, hostile bytes.Buffer
			report(&harmless, harmlessValue)
			report(&hostile, hostileValue)
			checkLines(t, name, hostile.String(), harmless.String())
		})
	}
}

// TestNoCommandsOfCISystems checks that no text is a command to a CI system whose log has the output, wherever it is in a line.
func TestNoCommandsOfCISystems(t *testing.T) {
	for _, text := range []string{"::stop-commands::x", "  ::add-mask::x", "a ##[command]x", "##vso[task.setvariable variable=a]b", "###[x]", "a\n::set-output name=a::b"} {
		var out strings.Builder
		p := newPrinter(&out)
		p.line("%s", text)
		p.line("    %s", paragraph(text))
		p.line("%s", p.style(bold, text))
		p.table([]string{text, "B"}, [][]string{{text, text}})
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##") {
				t.Errorf("%q prints %q", text, line)
			}
		}
	}
	if got := shown("a::b #1"); got != "a::b #1" {
		t.Errorf("got %q", got)
	}
}

// TestParagraph checks that the lines of a message are told from those of the output.
func TestParagraph(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out)
	p.line("  error: %s", paragraph("a\n\tb\r\n\n"+forged+"\x1b[1m"))
	p.line("%d of %s", 2, "a\nb")
	const want = "  error: a\n    |     b\\r\n    |\n    | " + forged + "\\u001b[1m\n2 of a\\nb\n"
	if got := out.String(); got != want || p.err != nil {
		t.Errorf("got %q, want %q, error %v", got, want, p.err)
	}
}

// TestLargeInput checks that files and streams are read up to a size.
func TestLargeInput(t *testing.T) {
	t.Chdir(t.TempDir())
	large, err := os.Create("large.yaml")
	if err == nil {
		err = large.Truncate(input.MaxText + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create("bomb.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	bomb, _ := gzip.NewWriterLevel(file, gzip.BestSpeed)
	_, err = bomb.Write([]byte(snapshotStart + `,"`))
	for written := 0; err == nil && written <= minSnapshot; written += 1 << 20 {
		_, err = bomb.Write(make([]byte, 1<<20))
	}
	if err != nil || bomb.Close() != nil || file.Close() != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"plan p --from bomb.json.gz":          "--from: bomb.json.gz: the file has more than 64 MiB when it is decompressed, which is so much for a file of 1 MiB that it may have been made to fill the memory: if you trust it, decompress it with gunzip, and name that file by --from",
		"plan p --from large.yaml":            "--from: large.yaml: it has more than 256 MiB: split it into several files",
		"check -f .":                          "large.yaml: it has more than 256 MiB: split it into several files",
		"check -f large.yaml":                 "large.yaml: it has more than 256 MiB: split it into several files",
		"migrate configmaps -f large.yaml":    "reading ConfigMaps: large.yaml: it has more than 256 MiB: split it into several files",
		"plan p --config large.yaml --from x": "--config: large.yaml: it has more than 256 MiB: split it into several files",
		"test large.yaml":                     "large.yaml: it has more than 256 MiB: split it into several files",
	} {
		if _, stderr := printed(t, strings.Fields(args)...); stderr != "Error: "+want+"\n" {
			t.Errorf("%s: %s", args, stderr)
		}
	}
}

// endless is a stream of empty lines.
type endless struct{}

func (endless) Read(out []byte) (int, error) { return copy(out, strings.Repeat("\n", len(out))), nil }

// TestEndlessInput reads the standard input, and a pipe in a directory, which have no size.
func TestEndlessInput(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := syscall.Mkfifo("a.yaml", 0o600); err != nil {
		t.Skip(err)
	}
	go func() {
		if pipe, err := os.OpenFile("a.yaml", os.O_WRONLY, 0); err == nil {
			// The test ends before the stream does.
			_, _ = io.Copy(pipe, endless{})
		}
	}()
	for _, name := range []string{"-", "."} {
		builder, err := withFiles(resource.NewLocalBuilder().Unstructured().Local(), &resource.FilenameOptions{Filenames: []string{name}}, endless{}, 1<<20)
		if err == nil {
			_, err = collect(builder)
		}
		if err == nil || !strings.HasSuffix(err.Error(), "it has more than 1 MiB: split it into several files") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
