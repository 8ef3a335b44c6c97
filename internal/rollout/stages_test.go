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

package rollout_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/rollout"
)

func selecting(key, value string) placementv1.RolloutStage {
	return placementv1.RolloutStage{Name: "s", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

func percent(p int32) placementv1.RolloutStage {
	return placementv1.RolloutStage{Name: "s", Percent: p}
}

func newStages(t testing.TB, policy string, stages ...placementv1.RolloutStage) *rollout.Stages {
	t.Helper()
	out, errs := rollout.NewStages(policy, stages, field.NewPath("spec", "rollout", "stages"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return out
}

func TestOf(t *testing.T) {
	all := placementv1.RolloutStage{Name: "s", NamespaceSelector: &metav1.LabelSelector{}}
	for name, tc := range map[string]struct {
		stages    []placementv1.RolloutStage
		namespace string
		labels    map[string]string
		want      int
	}{
		"no stages":             {namespace: "shop", want: 0},
		"first of two":          {[]placementv1.RolloutStage{selecting("env", "dev"), selecting("env", "prod")}, "shop", map[string]string{"env": "dev"}, 0},
		"second of two":         {[]placementv1.RolloutStage{selecting("env", "dev"), selecting("env", "prod")}, "shop", map[string]string{"env": "prod"}, 1},
		"none of two":           {[]placementv1.RolloutStage{selecting("env", "dev"), selecting("env", "prod")}, "shop", nil, 2},
		"both":                  {[]placementv1.RolloutStage{selecting("env", "dev"), selecting("tier", "gold")}, "shop", map[string]string{"env": "dev", "tier": "gold"}, 0},
		"all":                   {[]placementv1.RolloutStage{selecting("env", "dev"), all}, "shop", nil, 1},
		"100 percent":           {[]placementv1.RolloutStage{selecting("env", "dev"), percent(100)}, "shop", nil, 1},
		"no namespace, all":     {[]placementv1.RolloutStage{all, percent(100)}, "", nil, 2},
		"no namespace, labels":  {[]placementv1.RolloutStage{selecting("env", "dev")}, "", map[string]string{"env": "dev"}, 1},
		"selector after a part": {[]placementv1.RolloutStage{percent(1), all}, "shop", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newStages(t, "p", tc.stages...).Of(tc.namespace, tc.labels); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestInvalidSelector checks that a stage with an invalid selector selects nothing, so that a version does not come into force too early.
func TestInvalidSelector(t *testing.T) {
	invalid := placementv1.RolloutStage{Name: "b", NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Is"}}}}
	stages, errs := rollout.NewStages("p", []placementv1.RolloutStage{percent(1), invalid, percent(100)}, field.NewPath("spec", "rollout", "stages"))
	if len(errs) != 1 || errs[0].Field != "spec.rollout.stages[1].namespaceSelector" {
		t.Errorf("errors %v", errs)
	}
	if stages.Len() != 3 || stages.Selects(1, "shop", map[string]string{"env": "dev"}) || !stages.Selects(2, "shop", nil) {
		t.Error("the stage selects a namespace, or the last one does not")
	}
}

// namespaceCount is the number of names that the shares are measured with.
const namespaceCount = 10_000

// TestPercent checks how many namespaces a percentage selects, and that a higher one includes those of a lower one.
func TestPercent(t *testing.T) {
	for _, policy := range []string{"p", "cluster-services", "a-policy-with-a-long-name"} {
		before := map[string]bool{}
		for _, p := range []int32{1, 2, 5, 10, 25, 50, 75, 99, 100} {
			stages, selected := newStages(t, policy, percent(p)), map[string]bool{}
			for i := range namespaceCount {
				name := fmt.Sprintf("team-%d", i)
				if stages.Selects(0, name, nil) {
					selected[name] = true
				}
				if before[name] && !selected[name] {
					t.Fatalf("%d percent do not include %s", p, name)
				}
			}
			// Five standard deviations of a binomial distribution are at most 250 of 10,000.
			want := int(p) * namespaceCount / 100
			if got := len(selected); got < want-250 || got > want+250 || p == 100 && got != want || p < 10 && (got < want/2 || got > want*2) {
				t.Errorf("%d percent select %d of %d namespaces", p, got, namespaceCount)
			}
			before = selected
		}
	}
}

// TestPoliciesBeginWithDifferentNamespaces checks that the same percentage of two policies is not the same namespaces.
func TestPoliciesBeginWithDifferentNamespaces(t *testing.T) {
	a, b := newStages(t, "a", percent(10)), newStages(t, "b", percent(10))
	both := 0
	for i := range namespaceCount {
		if name := fmt.Sprintf("team-%d", i); a.Selects(0, name, nil) && b.Selects(0, name, nil) {
			both++
		}
	}
	if both > namespaceCount/50 {
		t.Errorf("both policies select %d of %d namespaces, about a tenth of a tenth is expected", both, namespaceCount)
	}
}

// FuzzOf checks the relations of Of, Selects, names, and labels.
func FuzzOf(f *testing.F) {
	f.Add("p", "shop", "dev", int32(10), int32(50))
	f.Add("p", "", "dev", int32(1), int32(100))
	f.Add("other", "team-1", "", int32(99), int32(1))
	f.Fuzz(func(t *testing.T, policy, namespace, env string, p, q int32) {
		p, q = 1+abs(p)%100, 1+abs(q)%100
		list := []placementv1.RolloutStage{percent(p), selecting("env", "dev"), percent(q), selecting("env", "prod")}
		stages, set := newStages(t, policy, list...), map[string]string{"env": env}
		of := stages.Of(namespace, set)
		if of < 0 || of > stages.Len() || stages.Len() != len(list) {
			t.Fatalf("stage %d of %d", of, stages.Len())
		}
		for i := range of {
			if stages.Selects(i, namespace, set) {
				t.Errorf("belongs to stage %d, and stage %d before it selects it", of, i)
			}
		}
		if of < stages.Len() && !stages.Selects(of, namespace, set) {
			t.Errorf("belongs to stage %d, which does not select it", of)
		}
		if namespace == "" && of != stages.Len() {
			t.Errorf("an object without a namespace belongs to stage %d", of)
		}
		if stages.Of(namespace, set) != of || newStages(t, policy, list...).Of(namespace, set) != of {
			t.Error("the stage changes")
		}
		for _, i := range []int{0, 2} {
			if stages.Selects(i, namespace, set) != stages.Selects(i, namespace, nil) {
				t.Errorf("stage %d, which is a percentage, depends on labels", i)
			}
		}
		if p <= q && stages.Selects(0, namespace, set) && !stages.Selects(2, namespace, set) {
			t.Errorf("%d percent select it, and %d percent do not", p, q)
		}
	})
}

func abs(n int32) int32 {
	// Masking the sign also covers the least int32, which has no absolute value.
	return n & 0x7fffffff
}

// TestVersionDigest changes each field of a spec, at all depths.
func TestVersionDigest(t *testing.T) {
	base := func() *placementv1.PlacementPolicySpec {
		spec := &placementv1.PlacementPolicySpec{}
		fill(reflect.ValueOf(spec).Elem(), 1)
		return spec
	}
	want := rollout.VersionDigest(*base())
	seen := map[string]bool{}
	for i := range reflect.TypeFor[placementv1.PlacementPolicySpec]().NumField() {
		name := reflect.TypeFor[placementv1.PlacementPolicySpec]().Field(i).Name
		count := leaves(reflect.ValueOf(base()).Elem().Field(i), -1)
		if count == 0 {
			t.Errorf("%s is not changed", name)
		}
		for leaf := range count {
			spec := base()
			leaves(reflect.ValueOf(spec).Elem().Field(i), leaf)
			if cmp.Equal(base(), spec) {
				t.Fatalf("leaf %d of %s is not changed", leaf, name)
			}
			changed := rollout.VersionDigest(*spec) != want
			if version := name != "Rollout" && name != "Remediation"; changed != version {
				t.Errorf("%s: the digest changes: %v, want %v:\n%s", name, changed, version, cmp.Diff(base(), spec))
			}
		}
		spec := base()
		reflect.ValueOf(spec).Elem().Field(i).SetZero()
		if changed := rollout.VersionDigest(*spec) != want; changed != (name != "Rollout" && name != "Remediation") {
			t.Errorf("%s is removed, and the digest changes: %v", name, changed)
		}
		seen[name] = true
	}
	if !seen["Rego"] || !seen["Match"] || !seen["Remediation"] || !seen["Rollout"] {
		t.Errorf("only %v are compared", seen)
	}
}

// TestVersionDigestOfDefaults checks that a digest does not depend on whether the API server has set the defaults, and that an
// encoded spec keeps its digest.
func TestVersionDigestOfDefaults(t *testing.T) {
	spec := placementv1.PlacementPolicySpec{
		Rego: "package p", Data: &apiextensionsv1.JSON{Raw: []byte(`{"a": 1}`)}, Limits: &placementv1.Limits{}, Clusters: &placementv1.ClustersRule{},
		Rollout: &placementv1.PolicyRollout{Stages: []placementv1.RolloutStage{selecting("env", "dev"), percent(50)}},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var decoded placementv1.PlacementPolicySpec
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]placementv1.PlacementPolicySpec{"defaults": spec.WithDefaults(), "decoded": decoded} {
		if rollout.VersionDigest(other) != rollout.VersionDigest(spec) || rollout.Digest(other) != rollout.Digest(spec) {
			t.Errorf("%s: the digest changes", name)
		}
	}
}

// TestDigest changes each field of a stage and of a rollout.
func TestDigest(t *testing.T) {
	base := func() placementv1.PlacementPolicySpec {
		var spec placementv1.PlacementPolicySpec
		fill(reflect.ValueOf(&spec).Elem(), 1)
		return spec
	}
	want := rollout.Digest(base())
	if !strings.HasPrefix(want, rollout.VersionDigest(base())+"-") {
		t.Errorf("the digest %s does not have the version's %s", want, rollout.VersionDigest(base()))
	}
	restarts := map[string]bool{"Name": true, "NamespaceSelector": true, "Percent": true, "Soak": false, "PauseAfterFailures": false, "Approval": false}
	for i := range reflect.TypeFor[placementv1.RolloutStage]().NumField() {
		name := reflect.TypeFor[placementv1.RolloutStage]().Field(i).Name
		restart, known := restarts[name]
		if !known {
			t.Errorf("whether a change of %s starts the rollout again is not known", name)
		}
		probe := base()
		for leaf := range leaves(reflect.ValueOf(&probe.Rollout.Stages[0]).Elem().Field(i), -1) {
			spec := base()
			leaves(reflect.ValueOf(&spec.Rollout.Stages[0]).Elem().Field(i), leaf)
			if changed := rollout.Digest(spec) != want; changed != restart {
				t.Errorf("%s: the digest changes: %v, want %v", name, changed, restart)
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*placementv1.PlacementPolicySpec)
		want   bool
	}{
		"revision":         {func(s *placementv1.PlacementPolicySpec) { s.Rollout.Revision++ }, false},
		"remediation":      {func(s *placementv1.PlacementPolicySpec) { s.Remediation = placementv1.Remediation{} }, false},
		"version":          {func(s *placementv1.PlacementPolicySpec) { s.Priority++ }, true},
		"no rollout":       {func(s *placementv1.PlacementPolicySpec) { s.Rollout = nil }, true},
		"no stages":        {func(s *placementv1.PlacementPolicySpec) { s.Rollout.Stages = nil }, true},
		"one stage more":   {func(s *placementv1.PlacementPolicySpec) { s.Rollout.Stages = append(s.Rollout.Stages, percent(100)) }, true},
		"selector removed": {func(s *placementv1.PlacementPolicySpec) { s.Rollout.Stages[0].NamespaceSelector = nil }, true},
	} {
		spec := base()
		tc.change(&spec)
		if changed := rollout.Digest(spec) != want; changed != tc.want {
			t.Errorf("%s: the digest changes: %v, want %v", name, changed, tc.want)
		}
	}
	order := base()
	order.Rollout.Stages = []placementv1.RolloutStage{percent(10), percent(20)}
	before := rollout.Digest(order)
	order.Rollout.Stages = []placementv1.RolloutStage{percent(20), percent(10)}
	if rollout.Digest(order) == before {
		t.Error("the digest does not depend on the order of the stages")
	}
}

// fill sets all fields below a value to values that are not the defaults. Lists and maps get one item.
func fill(v reflect.Value, n int) {
	switch v := v.Addr().Interface().(type) {
	case *apiextensionsv1.JSON:
		v.Raw = fmt.Appendf(nil, `{"a": %d}`, n)
		return
	case *[]byte:
		*v = fmt.Append(nil, n)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for _, child := range v.Fields() {
			fill(child, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprintf("value-%d", n))
	case reflect.Bool:
		v.SetBool(n%2 == 1)
	default:
		v.SetInt(int64(n) * 7)
	}
}

// leaves changes the n-th leaf below a value that fill has set, and returns the number of leaves. Leaves are strings, numbers,
// booleans, maps, bytes, and JSON documents. If n is -1, leaves changes none.
func leaves(v reflect.Value, n int) int {
	leaf := func() int {
		if n == 0 {
			fill(v, 2)
		}
		return 1
	}
	if v.Type() == reflect.TypeFor[apiextensionsv1.JSON]() || v.Type() == reflect.TypeFor[[]byte]() {
		return leaf()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return leaves(v.Elem(), n)
	case reflect.Struct:
		count := 0
		for _, child := range v.Fields() {
			count += leaves(child, n-count)
		}
		return count
	case reflect.Slice:
		return leaves(v.Index(0), n)
	}
	return leaf()
}
