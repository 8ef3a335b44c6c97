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
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	// These packages register their metrics when they are imported.
	_ "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestLibrary checks that the libraries have the listed metrics with the listed labels.
func TestLibrary(t *testing.T) {
	registry, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatal("the libraries' registry can't be read")
	}
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		registry.Describe(described)
	}()
	known := map[string]string{}
	form := regexp.MustCompile(`^Desc{fqName: "([^"]+)",.* variableLabels: {(.*)}}$`)
	for d := range described {
		if parts := form.FindStringSubmatch(d.String()); parts != nil {
			known[parts[1]] = strings.ReplaceAll(parts[2], ",", ", ")
		}
	}
	for _, m := range library {
		if got, ok := known[m.Name]; !ok || got != m.Labels {
			t.Errorf("%s has labels %q, registered %t; the page says %q", m.Name, got, ok, m.Labels)
		}
		if !strings.HasSuffix(m.What, ".") {
			t.Errorf("%s: %s", m.Name, m.What)
		}
	}
}
