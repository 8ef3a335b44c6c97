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

package bundle_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/setup"
)

func TestIdentity(t *testing.T) {
	c := mustLoad(t).csv
	if c.APIVersion != "operators.coreos.com/v1alpha1" || c.Kind != "ClusterServiceVersion" {
		t.Errorf("kind %s of %s", c.Kind, c.APIVersion)
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(c.Spec.Version) {
		t.Errorf("version %q is not semantic", c.Spec.Version)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\nRELEASE = "+c.Spec.Version+"\n") {
		t.Errorf("version %s is not the Makefile's release", c.Spec.Version)
	}
	if name := packageName + ".v" + c.Spec.Version; c.Metadata.Name != name || len(name) > 63 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		t.Errorf("name %q", c.Metadata.Name)
	}
	own := utilversion.MustParseSemantic(c.Spec.Version)
	if replaced, found := strings.CutPrefix(c.Spec.Replaces, packageName+".v"); c.Spec.Replaces != "" {
		if v, err := utilversion.ParseSemantic(replaced); !found || err != nil || !v.LessThan(own) {
			t.Errorf("%s replaces %q", c.Metadata.Name, c.Spec.Replaces)
		}
	}
	if skipped := c.Metadata.Annotations["olm.skipRange"]; skipped != "<"+c.Spec.Version {
		t.Errorf("skips %q", skipped)
	}
	// The webhook configurations that the operator writes have match conditions, which are stable since 1.30.
	if least, err := utilversion.ParseSemantic(c.Spec.MinKubeVersion); err != nil || least.LessThan(utilversion.MustParseSemantic("1.30.0")) {
		t.Errorf("minKubeVersion %q: %v", c.Spec.MinKubeVersion, err)
	}
	modes := map[string]bool{}
	for _, m := range c.Spec.InstallModes {
		modes[m.Type] = m.Supported
	}
	if len(c.Spec.InstallModes) != 4 ||
		!maps.Equal(modes, map[string]bool{"OwnNamespace": false, "SingleNamespace": false, "MultiNamespace": false, "AllNamespaces": true}) {
		t.Errorf("install modes %+v", c.Spec.InstallModes)
	}
}

// The labels name the platforms of the image, as the Makefile builds it by default.
func TestPlatforms(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	platforms := regexp.MustCompile(`(?m)^RELEASE_PLATFORMS = (.+)$`).FindSubmatch(makefile)
	if platforms == nil || !strings.Contains(string(makefile), "\nPLATFORMS ?= $(RELEASE_PLATFORMS)\n") {
		t.Fatal("the Makefile does not say for which platforms it builds the image")
	}
	want := map[string]string{}
	for platform := range strings.SplitSeq(string(platforms[1]), ",") {
		system, architecture, _ := strings.Cut(platform, "/")
		want["operatorframework.io/os."+system], want["operatorframework.io/arch."+architecture] = "supported", "supported"
	}
	if diff := cmp.Diff(want, mustLoad(t).csv.Metadata.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestPresentation(t *testing.T) {
	c := mustLoad(t).csv
	for what, text := range map[string]string{
		"displayName": c.Spec.DisplayName, "description": c.Spec.Description, "provider": c.Spec.Provider.Name,
		"short description": c.Metadata.Annotations["description"], "repository": c.Metadata.Annotations["repository"],
	} {
		if strings.TrimSpace(text) == "" {
			t.Errorf("no %s", what)
		}
	}
	if c.Spec.Maturity != "alpha" || len(c.Spec.Keywords) == 0 || len(c.Spec.Links) == 0 || len(c.Spec.Maintainers) == 0 {
		t.Errorf("maturity %q, keywords %q, links %v, maintainers %v", c.Spec.Maturity, c.Spec.Keywords, c.Spec.Links, c.Spec.Maintainers)
	}
	for _, l := range append(c.Spec.Links, c.Spec.Provider) {
		if u, err := url.Parse(l.URL); l.Name == "" || err != nil || u.Scheme != "https" || u.Host == "" {
			t.Errorf("link %+v", l)
		}
	}
	for _, m := range c.Spec.Maintainers {
		if _, err := mail.ParseAddress(m.Email); err != nil || m.Name == "" {
			t.Errorf("maintainer %+v: %v", m, err)
		}
	}
	if len(c.Spec.Icon) != 1 || c.Spec.Icon[0].MediaType != "image/svg+xml" {
		t.Fatalf("want one SVG as icon")
	}
	var svg struct{ XMLName xml.Name }
	if err := xml.Unmarshal(c.Spec.Icon[0].Data, &svg); err != nil || svg.XMLName.Local != "svg" {
		t.Errorf("the icon is %q: %v", svg.XMLName.Local, err)
	}
	levels := []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}
	if level := c.Metadata.Annotations["capabilities"]; !slices.Contains(levels, level) {
		t.Errorf("capabilities %q", level)
	}
	known := []string{
		"AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Developer Tools", "Database", "Integration & Delivery",
		"Logging & Tracing", "Modernization & Migration", "Monitoring", "Networking", "Observability", "OpenShift Optional", "Security",
		"Storage", "Streaming & Messaging",
	}
	for category := range strings.SplitSeq(c.Metadata.Annotations["categories"], ",") {
		if !slices.Contains(known, strings.TrimSpace(category)) {
			t.Errorf("category %q", category)
		}
	}
	if _, err := time.Parse(time.RFC3339, c.Metadata.Annotations["createdAt"]); err != nil {
		t.Error(err)
	}
	var namespace corev1.Namespace
	if err := json.Unmarshal([]byte(c.Metadata.Annotations["operatorframework.io/suggested-namespace-template"]), &namespace); err != nil {
		t.Fatal(err)
	}
	if namespace.Name != "berth-system" || c.Metadata.Annotations["operatorframework.io/suggested-namespace"] != namespace.Name {
		t.Errorf("suggests namespace %q", namespace.Name)
	}
}

func TestOwnedKinds(t *testing.T) {
	b := mustLoad(t)
	if len(b.csv.Spec.Definitions.Owned) != len(b.crds) {
		t.Errorf("%d kinds are owned, %d defined", len(b.csv.Spec.Definitions.Owned), len(b.crds))
	}
	for _, owned := range b.csv.Spec.Definitions.Owned {
		schema := schemaOf(b, owned)
		if schema == nil {
			t.Errorf("%s %s %s is not defined", owned.Name, owned.Version, owned.Kind)
			continue
		}
		if owned.DisplayName == "" || owned.Description == "" || len(owned.Resources) == 0 {
			t.Errorf("%s lacks a word: %+v", owned.Kind, owned)
		}
		for part, descriptors := range map[string][]descriptor{"spec": owned.SpecDescriptors, "status": owned.StatusDescriptors} {
			fields, _, err := unstructured.NestedMap(schema, "properties", part, "properties")
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, d := range descriptors {
				paths = append(paths, d.Path)
				if d.DisplayName == "" || d.Description == "" {
					t.Errorf("%s of %s lacks a word: %+v", part, owned.Kind, d)
				}
			}
			if want := slices.Collect(maps.Keys(fields)); !sameSet(paths, want) {
				t.Errorf("%s of %s has the fields %q, described are %q", part, owned.Kind, want, paths)
			}
		}
	}
}

func schemaOf(b *bundle, owned ownedKind) map[string]any {
	for _, crd := range b.crds {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if crd.GetName() != owned.Name || kind != owned.Kind {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			if v, _ := v.(map[string]any); v["name"] == owned.Version && v["served"] == true {
				schema, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
				return schema
			}
		}
	}
	return nil
}

// examples returns the objects of alm-examples.
func (b *bundle) examples() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	return out, json.Unmarshal([]byte(b.csv.Metadata.Annotations["alm-examples"]), &out)
}

func TestExamples(t *testing.T) {
	b := mustLoad(t)
	examples, err := b.examples()
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, e := range examples {
		have = append(have, e.GetAPIVersion()+" "+e.GetKind())
	}
	for _, owned := range b.csv.Spec.Definitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		want = append(want, group+"/"+owned.Version+" "+owned.Kind)
	}
	if !sameSet(have, want) {
		t.Errorf("examples of %q, want one of each of %q", have, want)
	}
}

func TestDeployment(t *testing.T) {
	b := mustLoad(t)
	d, manager := b.manager(t)
	pod := d.Spec.Template
	if b.csv.Spec.Install.Strategy != "deployment" || len(validation.IsDNS1123Label(d.Name)) > 0 {
		t.Errorf("strategy %q, Deployment %q", b.csv.Spec.Install.Strategy, d.Name)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value {
			t.Errorf("selector %s=%s, labels of the pods %v", key, value, pod.Labels)
		}
	}
	if pod.Spec.ServiceAccountName == "" || pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.RunAsNonRoot == nil || !*pod.Spec.SecurityContext.RunAsNonRoot {
		t.Errorf("runs as ServiceAccount %q, %v", pod.Spec.ServiceAccountName, pod.Spec.SecurityContext)
	}
	if manager.Resources.Requests.Cpu().IsZero() || manager.Resources.Requests.Memory().IsZero() {
		t.Errorf("requests %v", manager.Resources.Requests)
	}
	if manager.LivenessProbe == nil || manager.ReadinessProbe == nil {
		t.Error("a probe is missing")
	}
	s := manager.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		t.Errorf("security context %+v", s)
	}
	// OLM replaces what is mounted where it mounts its own certificate, and nothing would create the Secret that Berth
	// mounts there.
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil || v.Projected != nil || strings.Contains(v.Name, "cert") {
			t.Errorf("volume %+v", v)
		}
	}
	want := "ghcr.io/berth-dev/berth:v" + b.csv.Spec.Version
	related := b.csv.Spec.RelatedImages
	if manager.Image != want || b.csv.Metadata.Annotations["containerImage"] != want || len(related) != 1 || related[0].Image != want || related[0].Name == "" {
		t.Errorf("image %q, containerImage %q, relatedImages %v, want %q", manager.Image, b.csv.Metadata.Annotations["containerImage"], related, want)
	}
}

// options reads the Deployment's arguments as the manager does.
func (b *bundle) options() (setup.Options, error) {
	var o setup.Options
	args := slices.Clone(b.csv.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0].Args)
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.Bind(flags)
	(&zap.Options{}).BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag", flags.Args())
	}
	return o, nil
}

// The operator writes the name of its Service into webhook configurations; OLM installs that Service from the bundle.
func TestServicesLeadToTheManager(t *testing.T) {
	b := mustLoad(t)
	d, manager := b.manager(t)
	o, err := b.options()
	if err != nil {
		t.Fatal(err)
	}
	ports := map[int]bool{}
	for _, p := range manager.Ports {
		ports[int(p.ContainerPort)] = true
	}
	_, metrics, _ := strings.Cut(o.MetricsAddress, ":")
	metricsPort, err := strconv.Atoi(metrics)
	if err != nil {
		t.Fatal(err)
	}
	services := b.services(t)
	for name, want := range map[string]struct{ port, target int }{
		o.WebhookService: {443, o.WebhookPort},
		"berth-controller-manager-metrics-service": {8443, metricsPort},
	} {
		s, ok := services[name]
		if !ok || len(s.Spec.Ports) != 1 {
			t.Errorf("Service %s: %+v", name, s)
			continue
		}
		for key, value := range s.Spec.Selector {
			if d.Spec.Template.Labels[key] != value {
				t.Errorf("Service %s selects %s=%s, labels of the pods %v", name, key, value, d.Spec.Template.Labels)
			}
		}
		p := s.Spec.Ports[0]
		if int(p.Port) != want.port || p.TargetPort != intstr.FromInt(want.target) || !ports[want.target] {
			t.Errorf("Service %s leads from %d to %s, want from %d to %d, a port of the container", name, p.Port, p.TargetPort.String(), want.port, want.target)
		}
	}
	if o.Namespace != "$(POD_NAMESPACE)" || !slices.ContainsFunc(manager.Env, func(e corev1.EnvVar) bool {
		return e.Name == "POD_NAMESPACE" && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace"
	}) {
		t.Errorf("the manager takes %q for its namespace, of %+v", o.Namespace, manager.Env)
	}
	if !o.LeaderElection || !o.MetricsSecure {
		t.Errorf("leader election %v, secure metrics %v", o.LeaderElection, o.MetricsSecure)
	}
}

// OLM drops namespace selectors and match conditions of the webhooks that a CSV has: what the CSV gets must have none.
func TestNoWebhookIsLeftToOLM(t *testing.T) {
	var raw map[string]any
	if err := readStrictly(filepath.Join(root, "bundle", "manifests", packageName+".clusterserviceversion.yaml"), &raw); err != nil {
		t.Fatal(err)
	}
	if definitions, found, _ := unstructured.NestedFieldNoCopy(raw, "spec", "webhookdefinitions"); found {
		t.Errorf("the CSV has webhooks: %v", definitions)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "webhook", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range yamlDocuments(t, text) {
			if strings.HasSuffix(fmt.Sprint(o["kind"]), "WebhookConfiguration") {
				t.Errorf("%s has a %s, which the bundle would need too", file, o["kind"])
			}
		}
	}
}

// yamlDocuments reads a stream of YAML.
func yamlDocuments(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		one, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var o map[string]any
		if err := yaml.UnmarshalStrict(one, &o); err != nil {
			t.Fatal(err)
		}
		if o != nil {
			out = append(out, o)
		}
	}
}
