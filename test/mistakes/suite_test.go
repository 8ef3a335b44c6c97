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

package mistakes_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/framework"
	"github.com/berth-dev/berth/test/mistakes"
	"github.com/berth-dev/berth/test/mistakes/generated"
	"github.com/berth-dev/berth/test/suite"
)

// only selects entries by name or part: go test ./test/mistakes -args -entry=plural
var only = flag.String("entry", "", "run the entries alone whose name or part this regular expression matches")

// corpus and correct are the entries to run.
var corpus, correct []mistakes.Entry

func TestMistakes(t *testing.T) {
	pattern, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	if corpus, err = mistakes.Load("corpus"); err != nil {
		t.Fatal(err)
	}
	if correct, err = mistakes.Correct("correct"); err != nil {
		t.Fatal(err)
	}
	correct = append(correct, samples(t)...)
	unwanted := func(e mistakes.Entry) bool { return !pattern.MatchString(e.Name) && !pattern.MatchString(e.Part) }
	corpus, correct = slices.DeleteFunc(corpus, unwanted), slices.DeleteFunc(correct, unwanted)
	suite.Run(t, "Mistakes")
}

// samples are the manifests that Berth comes with.
func samples(t *testing.T) []mistakes.Entry {
	files, err := filepath.Glob("../../config/samples/placement_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	var out []mistakes.Entry
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, mistakes.Entry{Name: filepath.Base(file), Apply: string(text)})
	}
	return out
}

var f *framework.Framework

var _ = BeforeSuite(func(ctx SpecContext) {
	f = framework.Start(ctx)
	DeferCleanup(f.Stop)
	f.InstallClusterProfiles(ctx)
	// A sample delivers with Karmada.
	f.InstallPropagationPolicies(ctx)
	f.MustKubectl(ctx, "", "apply", "-f", "docs/examples/clusters.yaml", "-f", "test/mistakes/world.yaml")
	f.MustKubectl(ctx, "", "patch", "clusterprofiles.multicluster.x-k8s.io/eu-1", "--namespace=inventory", "--subresource=status", "--type=merge",
		"--patch", `{"status": {"properties": [{"name": "storage", "value": "ssd"}]}}`)
	makeNamespaces(ctx)
	operator := f.StartReadyManager(ctx)
	DeferCleanup(operator.Stop)
	f.AwaitValidation(ctx)
})

// makeNamespaces creates the namespaces that documents name and do not bring along.
func makeNamespaces(ctx SpecContext) {
	made := map[string]bool{}
	for _, e := range append(slices.Clone(corpus), correct...) {
		for _, obj := range entryObjects(e) {
			if name := obj.GetNamespace(); name != "" && !made[name] {
				made[name] = true
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
				Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, namespace))).To(Succeed())
			}
		}
	}
}

var _ = Describe("What authors write", func() {
	It("is told to be a mistake where it is one", func(ctx SpecContext) {
		r := newRunner(f, corpus)
		results := r.all(ctx, corpus, r.mistake)
		var silent []string
		for _, result := range results {
			if result.silent {
				silent = append(silent, result.entry.Name)
			}
		}
		AddReportEntry("silently green", fmt.Sprintf("%d of %d mistakes: %s", len(silent), len(results), strings.Join(silent, ", ")))
		fmt.Fprintf(os.Stderr, "silently green: %d of %d mistakes %v\n", len(silent), len(results), silent)
		Expect(failures(results)).To(BeEmpty())
		Expect(silent).To(BeEmpty())
	})

	It("is green and not warned of where it is correct", func(ctx SpecContext) {
		r := newRunner(f, correct)
		Expect(failures(r.all(ctx, correct, r.correct))).To(BeEmpty())
	})

	// It removes the clusters of the specs before it.
	It("is not warned of where it is generated without a mistake", func(ctx SpecContext) {
		var cases []generated.Case
		for n := range uint64(budget.Size(8, 500)) {
			cases = append(cases, generated.New(n+1))
		}
		w := newWorlds(ctx, f, cases)
		var wrong []string
		for n, c := range cases {
			if said := w.said(ctx, c); len(said) > 0 {
				wrong = append(wrong, fmt.Sprintf("seed %d: %s\n%s", n+1, strings.Join(said, "\n"), c.Manifest()))
				GinkgoWriter.Println(wrong[len(wrong)-1])
			}
			GinkgoWriter.Printf("%d of %d cases, something is said of %d\n", n+1, len(cases), len(wrong))
		}
		Expect(strings.Join(wrong, "\n")).To(BeEmpty())
	}, SpecTimeout(time.Duration(budget.Size(30, 150))*time.Minute))
})

// failures describes the entries that are not as their files have them.
func failures(results []outcome) string {
	var out strings.Builder
	for _, result := range results {
		if result.err != nil {
			fmt.Fprintf(&out, "\n%s (%s): %v\n", result.entry.Name, result.entry.File, result.err)
		}
	}
	return out.String()
}
