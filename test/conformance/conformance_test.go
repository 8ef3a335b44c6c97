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

package conformance_test

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/version"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/conformance"
	"github.com/berth-dev/berth/test/framework/opaserver"
)

// What another engine is found by; see README.md.
const (
	urlVariable   = "BERTH_CONFORMANCE_URL"
	urlV0Variable = "BERTH_CONFORMANCE_V0_URL"
	tokenVariable = "BERTH_CONFORMANCE_TOKEN"
)

var (
	rounds = flag.Int("rounds", budget.Rounds(3), "random objects for each policy")
	seed   = flag.Uint64("seed", 1, "seed of the random objects")
)

func load(t *testing.T) []conformance.Theme {
	t.Helper()
	themes, err := conformance.Load()
	if err != nil {
		t.Fatal(err)
	}
	return themes
}

// engineOf starts the engine for policies in a version of the language, or returns the one that the environment names; nil
// if that is for another version alone.
func engineOf(t *testing.T, v placementv1.RegoVersion) *conformance.Remote {
	t.Helper()
	variable, options := urlVariable, opaserver.Options{}
	if v == placementv1.RegoV0 {
		variable, options.Flags = urlV0Variable, []string{"--v0-compatible"}
	}
	url := os.Getenv(variable)
	switch {
	case url != "":
	case os.Getenv(urlVariable) != "" || os.Getenv(urlV0Variable) != "":
		return nil
	default:
		server := opaserver.Start(t, options)
		t.Cleanup(func() { nothingLeft(t, server) })
		url = server.URL()
	}
	out := conformance.NewRemote(url, os.Getenv(tokenVariable))
	t.Cleanup(out.Close)
	return out
}

// nothingLeft says what an engine still has after everything was taken from it.
func nothingLeft(t *testing.T, server *opaserver.Server) {
	t.Helper()
	if policies := server.Policies(); len(policies) > 0 {
		t.Errorf("the engine still has the modules %v", slices.Sorted(maps.Keys(policies)))
	}
	left, _ := server.GetData("")
	document, _ := left.(map[string]any)
	for name, value := range document {
		if name != "berth" && holds(value) {
			t.Errorf("the engine still has data.%s: %v", name, value)
		}
	}
}

// holds reports whether there is more of a document than empty objects.
func holds(document any) bool {
	object, ok := document.(map[string]any)
	if !ok {
		return true
	}
	for _, member := range object {
		if holds(member) {
			return true
		}
	}
	return false
}

// subject is a policy, on each engine.
type subject struct {
	name                string
	policy              conformance.Policy
	embedded, elsewhere placement.Evaluator
}

// TestConformance checks that every case is decided as expected, in this process and by an engine that is queried over
// HTTP, and that the two agree on random objects.
func TestConformance(t *testing.T) {
	themes := load(t)
	var objects []map[string]any
	for _, theme := range themes {
		for _, p := range theme.Policies {
			for _, c := range p.Cases {
				objects = append(objects, c.Object.Document)
			}
		}
	}
	for _, v := range []placementv1.RegoVersion{placementv1.RegoV1, placementv1.RegoV0} {
		t.Run(string(v), func(t *testing.T) {
			elsewhere := engineOf(t, v)
			if elsewhere == nil {
				t.Skipf("no engine for %s is named", v)
			}
			for _, theme := range themes {
				t.Run(theme.Name, func(t *testing.T) {
					for _, s := range subjects(t, elsewhere, theme, v) {
						t.Run(s.policy.Name, func(t *testing.T) {
							s.cases(t)
							t.Run("random", func(t *testing.T) { s.random(t, objects) })
						})
					}
				})
			}
		})
	}
}

// subjects makes the policies of a theme in a version of the language decidable, until the test ends.
func subjects(t *testing.T, elsewhere *conformance.Remote, theme conformance.Theme, v placementv1.RegoVersion) []subject {
	t.Helper()
	world, err := theme.World()
	if err != nil {
		t.Fatal(err)
	}
	var out []subject
	var names []string
	var policies []conformance.Policy
	for _, p := range theme.Policies {
		if p.Spec().RegoVersion != v {
			continue
		}
		name := "conformance-" + theme.Name + "-" + p.Name
		embedded, _, _, err := world.Embedded(t.Context(), name, p)
		if err != nil {
			t.Fatal(err)
		}
		out, names, policies = append(out, subject{name: name, policy: p, embedded: embedded}), append(names, name), append(policies, p)
	}
	if len(out) == 0 {
		return nil
	}
	// It outlives the test's context, so that the cleanup can use it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		defer cancel()
		if err := elsewhere.Unload(ctx, policies); err != nil {
			t.Error(err)
		}
	})
	evaluators, err := elsewhere.Load(ctx, world, names, policies)
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		out[i].elsewhere = evaluators[i]
	}
	return out
}

func (s subject) cases(t *testing.T) {
	for _, c := range s.policy.Cases {
		t.Run(c.Name, func(t *testing.T) {
			here, hereErr := s.embedded.Evaluate(t.Context(), c.Object.Document)
			there, thereErr := s.elsewhere.Evaluate(t.Context(), c.Object.Document)
			for engine, check := range map[string]func() (string, error){
				"embedded": func() (string, error) { return c.Mismatch(here, hereErr) },
				"remote":   func() (string, error) { return c.Mismatch(there, thereErr) },
			} {
				if mismatch, err := check(); err != nil || mismatch != "" {
					t.Errorf("%s: %s%v", engine, mismatch, err)
				}
			}
			if differs := conformance.Same(here, hereErr, there, thereErr); differs != "" {
				t.Error(differs)
			}
		})
	}
}

// random compares the engines on objects that are made of those of all cases.
func (s subject) random(t *testing.T, objects []map[string]any) {
	random := rand.New(rand.NewPCG(*seed, uint64(len(s.name))))
	for range *rounds {
		base := objects[random.IntN(len(objects))]
		// Variants of the policy's own cases reach more of its rules.
		if random.IntN(3) > 0 {
			base = s.policy.Cases[random.IntN(len(s.policy.Cases))].Object.Document
		}
		object, _ := conformance.Mutate(random, base).(map[string]any)
		here, hereErr := s.embedded.Evaluate(t.Context(), object)
		there, thereErr := s.elsewhere.Evaluate(t.Context(), object)
		if differs := conformance.Same(here, hereErr, there, thereErr); differs != "" {
			text, err := json.Marshal(object)
			t.Fatalf("of %s, %v: %s", text, err, differs)
		}
	}
}

// TestVersion: what decides in this process and the server are of one release.
func TestVersion(t *testing.T) {
	server := opaserver.Start(t, opaserver.Options{})
	server.PutPolicy("version", `package asked

version := opa.runtime().version`)
	if got, _ := server.GetData("asked/version"); got != version.Version {
		t.Errorf("the server is of version %v, and go.mod has %s: hack/opa/go.mod must have the same", got, version.Version)
	}
}
