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

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/policy/policytest"
	"github.com/berth-dev/berth/test/budget"
)

func moduleOf(t *testing.T, reads ...string) *policy.Module {
	t.Helper()
	text := "package p\n"
	for i, read := range reads {
		text += fmt.Sprintf(`labels["l%d"] := "x" if %s
`, i, read)
	}
	m, err := policy.Compile("p", policytest.SpecOf(placementv1.RegoV1, text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRecordedBindingsDecideAmongNamesakes(t *testing.T) {
	ours, theirs, recent := resource("a.example", "v1", "carts"), resource("b.example", "v1", "carts"), resource("a.example", "v2", "carts")
	m := moduleOf(t, `data.kubernetes.carts.x`)
	for name, tc := range map[string]struct {
		after    served
		recorded policy.Bindings
		want     *schema.GroupVersionResource
		sakes    bool
	}{
		"a namesake comes":           {served{ours, theirs}, policy.Bindings{"carts": "a.example"}, &ours.GroupVersionResource, true},
		"the namesake sorts first":   {served{theirs, ours}, policy.Bindings{"carts": "b.example"}, &theirs.GroupVersionResource, true},
		"the group serves a new one": {served{recent, ours, theirs}, policy.Bindings{"carts": "a.example"}, &recent.GroupVersionResource, true},
		"the namesake alone is left": {served{theirs}, policy.Bindings{"carts": "a.example"}, nil, false},
		"both are gone":              {served{}, policy.Bindings{"carts": "a.example"}, nil, false},
		"nothing was recorded":       {served{ours}, nil, &ours.GroupVersionResource, false},
		"others were recorded":       {served{ours}, policy.Bindings{"boats": "b.example"}, &ours.GroupVersionResource, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := policy.BindWithRecorded("p", m, nil, tc.after, tc.recorded)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == nil {
				if len(b.Missing) != 1 || len(b.Paths) != 0 || b.Bindings["carts"] != tc.recorded["carts"] {
					t.Errorf("bound to %v, missing %v, bindings %v", b.Paths, b.Missing, b.Bindings)
				}
				return
			}
			if len(b.Paths) != 1 || b.Paths[0].Resource != *tc.want || b.Bindings["carts"] != tc.want.Group {
				t.Errorf("bound to %v, bindings %v, want %v", b.Paths, b.Bindings, tc.want)
			}
			sakes := b.AmbiguousNames(tc.after)
			if (len(sakes) == 1 && strings.Contains(sakes[0], "carts."+tc.want.Group) && strings.Contains(sakes[0], `data.resources["b.example/v1"].carts`)) != tc.sakes {
				t.Errorf("told of namesakes: %q", sakes)
			}
		})
	}
}

// TestRecordedBindingsHoldWhateverIsServed checks that a policy keeps its recorded groups on every replica, whatever
// types are served before and after, and in any order.
func TestRecordedBindingsHoldWhateverIsServed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all served
	for _, plural := range []string{"carts", "boats", "pods"} {
		for _, group := range []string{"", "a.example", "b.example"} {
			for _, version := range []string{"v1", "v2"} {
				all = append(all, resource(group, version, plural))
			}
		}
	}
	some := func() served {
		out := slices.DeleteFunc(slices.Clone(all), func(policy.Resource) bool { return random.IntN(3) > 0 })
		random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	m := moduleOf(t, `data.kubernetes.carts.x`, `data.kubernetes.boats.x`, `data.resources["a.example/v1"].carts.x`)
	groups := func(b *policy.Binding) map[string]string {
		out := map[string]string{}
		for _, p := range b.Paths {
			if p.Path[0] == "kubernetes" {
				out[p.Path[1]] = p.Resource.Group
			}
		}
		return out
	}
	bound := 0
	for range budget.Rounds(5000) {
		before, after := some(), some()
		first, err := policy.Bind("p", m, nil, before)
		if err != nil || len(first.Missing) > 0 {
			continue
		}
		bound++
		second, err := policy.BindWithRecorded("p", m, nil, after, first.Bindings)
		if err != nil {
			t.Fatalf("bound before to %v, and after it: %v", first.Bindings, err)
		}
		if diff := cmp.Diff(first.Bindings, second.Bindings); diff != "" {
			t.Fatalf("bindings (-before +after):\n%s", diff)
		}
		for plural, group := range groups(second) {
			if first.Bindings[plural] != group {
				t.Fatalf("%s is of %q, was of %q", plural, group, first.Bindings[plural])
			}
		}
		again, err := policy.BindWithRecorded("p", m, nil, before, second.Bindings)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again, cmpopts.IgnoreFields(policy.Binding{}, "Fields")); diff != "" {
			t.Fatalf("back to what was served before (-before +again):\n%s", diff)
		}
	}
	if bound < 10 {
		t.Errorf("only %d of the worlds could be bound at all", bound)
	}
}

func TestBindingsThatAStatusShows(t *testing.T) {
	read := func(resource string) placementv1.Dependency {
		return placementv1.Dependency{Resource: resource, Version: "v1"}
	}
	for name, tc := range map[string]struct {
		reads  []string
		status []placementv1.Dependency
		want   policy.Bindings
	}{
		"of a group":       {[]string{`data.kubernetes.carts.x`}, []placementv1.Dependency{read("carts.a.example"), read("boats.b.example")}, policy.Bindings{"carts": "a.example"}},
		"of the core":      {[]string{`data.kubernetes.pods.x`}, []placementv1.Dependency{read("pods")}, policy.Bindings{"pods": ""}},
		"of none":          {[]string{`data.kubernetes.carts.x`}, []placementv1.Dependency{{Resource: "data.kubernetes.carts"}}, nil},
		"named like data":  {[]string{`data.kubernetes.data.x`}, []placementv1.Dependency{{Resource: "data.kubernetes.data"}}, nil},
		"and of another":   {[]string{`data.kubernetes.carts.x`, `data.resources["b.example/v1"].carts.x`}, []placementv1.Dependency{read("carts.a.example"), read("carts.b.example")}, policy.Bindings{"carts": "a.example"}},
		"twice of one":     {[]string{`data.kubernetes.carts.x`, `data.resources["b.example/v1"].carts.x`}, []placementv1.Dependency{read("carts.b.example")}, policy.Bindings{"carts": "b.example"}},
		"of two versions":  {[]string{`data.kubernetes.carts.x`, `data.resources["b.example/v2"].carts.x`}, []placementv1.Dependency{read("carts.b.example"), {Resource: "carts.b.example", Version: "v2"}}, policy.Bindings{"carts": "b.example"}},
		"of nobody knows":  {[]string{`data.kubernetes.carts.x`}, []placementv1.Dependency{read("carts.a.example"), read("carts.b.example")}, nil},
		"exactly":          {[]string{`data.resources["b.example/v1"].carts.x`}, []placementv1.Dependency{read("carts.b.example")}, nil},
		"without a status": {[]string{`data.kubernetes.carts.x`}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, moduleOf(t, tc.reads...).BindingsFromStatus(tc.status)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTypesThatMoved checks that a missing read names the groups to which its type may have moved.
func TestTypesThatMoved(t *testing.T) {
	theirs := resource("b.example", "v1", "carts")
	m := moduleOf(t, `data.kubernetes.carts.x`)
	for name, tc := range map[string]struct {
		after served
		want  []string
	}{
		"to another group": {served{theirs}, []string{`data.kubernetes.carts, which was bound to the type carts.a.example`, `write data.resources["b.example/v1"].carts`}},
		"to nowhere":       {served{}, []string{"data.kubernetes.carts, which was bound to the type carts.a.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := policy.BindWithRecorded("p", m, nil, tc.after, policy.Bindings{"carts": "a.example"})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if got := b.Missing[0].Explained(); !strings.Contains(got, want) {
					t.Errorf("says %q, want %q", got, want)
				}
			}
			if !strings.Contains((&policy.NotServedError{Missing: b.Missing}).Error(), tc.want[len(tc.want)-1]) {
				t.Error("the error does not say it")
			}
		})
	}
}
