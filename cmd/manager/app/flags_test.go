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

package app

import (
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dependent are the flags whose default depends on the environment, so that the documentation describes it in words.
var dependent = map[string]bool{"namespace": true, "evaluation-concurrency": true, "owner-cluster-service-version": true}

func TestFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^- `--([a-z-]+)`(?:\\s+\\((?:`([^`]*)`|([^)]*))\\))?:\\s").FindAllStringSubmatch(string(text), -1) {
		name, value, words := row[1], row[2], row[3]
		if dependent[name] {
			value, words = "", ""
		}
		if words != "" {
			t.Errorf("the default of --%s is in words: %q", name, words)
		}
		documented[name] = value
	}

	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	bind(flags)
	// controller-runtime registers only this flag itself. The other flags of the command line belong to the test.
	flags.Var(flag.Lookup("kubeconfig").Value, "kubeconfig", "")
	have := map[string]string{}
	flags.VisitAll(func(f *flag.Flag) {
		have[f.Name] = f.DefValue
		if dependent[f.Name] {
			have[f.Name] = ""
		}
	})
	if diff := cmp.Diff(have, documented); diff != "" {
		t.Errorf("docs/operating.md says other flags and defaults (-manager +document):\n%s", diff)
	}
}
