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

package placement_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
)

var (
	propagations = schema.GroupVersionResource{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "propagationpolicies"}
	placements   = schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1", Resource: "resourceplacements"}
	rollouts     = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "rollouts"}
)

const affinityNames = "spec.placement.clusterAffinity.clusterNames"

// propagation returns a PropagationPolicy with the placement.
func propagation(t testing.TB, placement string) *unstructured.Unstructured {
	t.Helper()
	return fromYAML(t, `{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: web, namespace: default}, spec: {placement: `+placement+`}}`)
}

// named returns a PropagationPolicy with the clusters, as JSON.
func named(t testing.TB, names string) *unstructured.Unstructured {
	t.Helper()
	return propagation(t, `{clusterAffinity: {clusterNames: `+names+`}}`)
}

// anywhere returns a policy of all types that allows the clusters.
func anywhere(t *testing.T, name string, clusters ...string) *placement.Policy {
	t.Helper()
	return with(allows(t, name, append([]string{}, clusters...)), func(p *placement.Policy) {
		p.Matcher, p.Evaluator = everything(t), &fakeEvaluator{clusters: append([]string{}, clusters...)}
	})
}

// silent returns a policy of all types that decides nothing.
func silent(t *testing.T, name string) *placement.Policy {
	t.Helper()
	return with(anywhere(t, name), func(p *placement.Policy) { p.Evaluator = &fakeEvaluator{} })
}

// listed returns the text of the list of clusters in an object.
func listed(t testing.TB, resource schema.GroupVersionResource, obj *unstructured.Unstructured) string {
	t.Helper()
	list, err := (*clusterlist.Kinds)(nil).Of(resource.GroupResource()).Read(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	if list.Text == nil {
		return "none"
	}
	return *list.Text
}

func TestClustersOfNewPlacementObjects(t *testing.T) {
	const two = `{clusterAffinities: [{affinityName: a, clusterNames: [us, eu]}, {affinityName: b, clusterNames: [ap]}, {affinityName: c}]}`
	tests := map[string]struct {
		placement string
		policies  policies
		want      string
		// errors is a part of the error of the first policy.
		errors string
	}{
		"Any":       {"{}", policies{anywhere(t, "a", "ap", "eu")}, `["ap","eu"]`, ""},
		"Empty":     {`{clusterAffinity: {clusterNames: []}}`, policies{anywhere(t, "a", "ap", "eu")}, `["ap","eu"]`, ""},
		"Narrowed":  {`{clusterAffinity: {clusterNames: [us, eu]}}`, policies{anywhere(t, "a", "ap", "eu")}, `["eu"]`, ""},
		"Inside":    {`{clusterAffinity: {clusterNames: [us, eu]}}`, policies{anywhere(t, "a", "ap", "eu", "us")}, `["us","eu"]`, ""},
		"TwoMeet":   {`{}`, policies{anywhere(t, "a", "ap", "eu"), anywhere(t, "b", "eu", "us")}, `["eu"]`, ""},
		"Override":  {`{clusterAffinity: {clusterNames: [us]}}`, policies{with(anywhere(t, "a", "eu"), overrides)}, `["eu"]`, ""},
		"Cleared":   {`{clusterAffinity: {clusterNames: [us]}}`, policies{with(anywhere(t, "a", "eu"), clears)}, `[]`, ""},
		"AllowNone": {`{}`, policies{with(anywhere(t, "a"), clears)}, `[]`, ""},
		"NoneLeft": {
			`{clusterAffinity: {clusterNames: [us]}}`, policies{anywhere(t, "a", "ap", "eu")}, `["us"]`,
			"no cluster is left: this policy allows ap, eu; " + affinityNames + " asks for us",
		},
		"NoneAllowed":       {`{}`, policies{anywhere(t, "a")}, "none", "no cluster is left: this policy allows none"},
		"Terms":             {two, policies{anywhere(t, "a", "ap", "eu")}, `[["eu"],["ap"],["ap","eu"]]`, ""},
		"TermWithout":       {two, policies{anywhere(t, "a", "eu")}, `[["eu"],[],["eu"]]`, ""},
		"TermsOverridden":   {two, policies{with(anywhere(t, "a", "eu"), overrides)}, `[["eu"],["eu"],["eu"]]`, ""},
		"TermsCleared":      {two, policies{with(anywhere(t, "a"), clears)}, `[[],[],[]]`, ""},
		"TermsNoneLeft":     {`{clusterAffinities: [{clusterNames: [us]}, {clusterNames: [ap]}]}`, policies{anywhere(t, "a", "eu")}, `[["us"],["ap"]]`, "spec.placement.clusterAffinities asks for ap, us"},
		"TermsStayInside":   {`{clusterAffinities: [{clusterNames: [us, eu]}]}`, policies{anywhere(t, "a", "eu", "us")}, `[["us","eu"]]`, ""},
		"WarnDoesNotNarrow": {`{clusterAffinity: {clusterNames: [us]}}`, policies{with(anywhere(t, "a", "eu"), warns)}, `["us"]`, "no cluster is left"},
		"NothingDecided":    {two, policies{silent(t, "a")}, `[["us","eu"],["ap"],null]`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := propagation(t, tc.placement)
			out := decideAs(t, propagations, obj, nil, tc.policies...)
			if got := strings.Join(out.Verdicts[0].Decision.Errors, "|"); !strings.Contains(got, tc.errors) || (got == "") != (tc.errors == "") {
				t.Errorf("errors %q, want %q", got, tc.errors)
			}
			if got := listed(t, propagations, out.Object); got != tc.want {
				t.Errorf("clusters %s, want %s", got, tc.want)
			}
			result := applyPatch(t, obj, placement.Patch(obj, out.Object, out.Paths))
			if diff := cmp.Diff(viaJSON(t, out.Object).Object, result.Object); diff != "" {
				t.Errorf("the patch does not yield the object (-want +got):\n%s", diff)
			}
			if again := decideAs(t, propagations, result, result, tc.policies...); len(placement.Patch(result, again.Object, again.Paths)) > 0 {
				t.Errorf("deciding again changes the object: %v", placement.Patch(result, again.Object, again.Paths))
			}
			undone, err := (&placement.Decider{Keyring: keyring(t, "k")}).Undo(t.Context(), propagations, result)
			if err != nil {
				t.Fatal(err)
			}
			clean := applyPatch(t, result, placement.Patch(result, undone.Object, undone.Paths))
			if len(clean.GetAnnotations()) == 0 {
				// The API server drops the empty map.
				clean.SetAnnotations(nil)
			}
			if diff := cmp.Diff(obj.Object, clean.Object); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClustersOfKubeFleet places and undoes placements of KubeFleet.
func TestClustersOfKubeFleet(t *testing.T) {
	object := func(policy string) *unstructured.Unstructured {
		return fromYAML(t, `{apiVersion: placement.kubernetes-fleet.io/v1, kind: ResourcePlacement, metadata: {name: web, namespace: default}, spec: {resourceSelectors: []`+policy+`}}`)
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("c%03d", i)
	}
	tests := map[string]struct {
		policy, placed, undone, errors string
		by                             *placement.Policy
	}{
		"NoPolicy": {
			placed: `, policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchExpressions: [{key: clusters.berth.dev/name, operator: In, values: [eu]}]}}]}}}}`,
			undone: `, policy: {placementType: PickAll}`,
		},
		"PickFixed": {policy: `, policy: {placementType: PickFixed, clusterNames: [us, eu]}`, placed: `, policy: {placementType: PickFixed, clusterNames: [eu]}`},
		"Cleared": {
			policy: `, policy: {placementType: PickFixed, clusterNames: [us]}`, by: with(anywhere(t, "a", "eu"), clears),
			placed: `, policy: {placementType: PickFixed, clusterNames: [no-cluster.placement.berth.dev]}`,
		},
		"TooMany": {
			policy: `, policy: {placementType: PickFixed}`, by: anywhere(t, "a", many...), placed: `, policy: {placementType: PickFixed}`,
			errors: "spec.policy.clusterNames can list at most 100 clusters, and policies allow 101: list those that you want",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			by := tc.by
			if by == nil {
				by = anywhere(t, "a", "eu")
			}
			obj := object(tc.policy)
			out := decideAs(t, placements, obj, nil, by)
			if got := strings.Join(out.Verdicts[0].Decision.Errors, "|"); got != tc.errors {
				t.Errorf("errors %q, want %q", got, tc.errors)
			}
			result := out.Object.DeepCopy()
			result.SetAnnotations(nil)
			if diff := cmp.Diff(object(tc.placed).Object, result.Object); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			undone, err := (&placement.Decider{Keyring: keyring(t, "k")}).Undo(t.Context(), placements, out.Object)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.undone
			if want == "" {
				want = tc.policy
			}
			if diff := cmp.Diff(object(want).Object, undone.Object.Object); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyTerms decides an object with many terms that name no clusters. If each got all of them, they would take gigabytes.
func TestManyTerms(t *testing.T) {
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprintf("cluster-%03d", i)
	}
	terms := make([]any, 70_000)
	for i := range terms {
		terms[i] = map[string]any{}
	}
	obj := named(t, `[]`)
	if err := unstructured.SetNestedMap(obj.Object, map[string]any{"clusterAffinities": terms}, "spec", "placement"); err != nil {
		t.Fatal(err)
	}
	const want = "spec.placement.clusterAffinities has 70000 terms that get all of the 500 allowed clusters, together more than 65536 names: use fewer terms, or list the clusters that you want"
	for name, change := range map[string]func(*placement.Policy){"Narrow": func(*placement.Policy) {}, "Override": overrides, "PolicyClusters": keepsPolicy} {
		out := decideAs(t, propagations, obj, nil, with(anywhere(t, "a", many...), change))
		if got := out.Verdicts[0].Decision.Errors; !cmp.Equal([]string{want}, got) {
			t.Errorf("%s: errors %q, want %q", name, got, want)
		}
	}
	if out := decideAs(t, propagations, obj, nil, with(anywhere(t, "a", "eu"), warns)); len(out.Verdicts[0].Decision.Errors) != 1 {
		t.Errorf("70,000 terms with one cluster each: errors %q", out.Verdicts[0].Decision.Errors)
	}
	if err := unstructured.SetNestedSlice(obj.Object, terms[:131], "spec", "placement", "clusterAffinities"); err != nil {
		t.Fatal(err)
	}
	if out := decideAs(t, propagations, obj, nil, anywhere(t, "a", many...)); len(out.Verdicts[0].Decision.Errors) > 0 {
		t.Errorf("131 terms: errors %q", out.Verdicts[0].Decision.Errors)
	}
}

// TestForeignPlacementObjects checks that a list that can't be read is denied, as an annotation is, and left alone.
func TestForeignPlacementObjects(t *testing.T) {
	obj := named(t, `[eu, 1]`)
	for name, p := range map[string]*placement.Policy{"Narrow": anywhere(t, "a", "eu"), "Override": with(anywhere(t, "a", "eu"), overrides)} {
		out := decideAs(t, propagations, obj, nil, p)
		if want := []string{affinityNames + "[1] must be the name of a cluster"}; !cmp.Equal(want, out.Verdicts[0].Decision.Errors) {
			t.Errorf("%s: errors %q, want %q", name, out.Verdicts[0].Decision.Errors, want)
		}
		if diff := cmp.Diff(obj.Object, out.Object.Object); diff != "" {
			t.Errorf("%s: object (-want +got):\n%s", name, diff)
		}
	}
	if out := decideAs(t, propagations, obj, nil, silent(t, "a")); len(out.Verdicts[0].Decision.Errors) > 0 || !cmp.Equal(obj.Object, out.Object.Object) {
		t.Errorf("a policy that restricts no clusters: %v, %v", out.Verdicts[0].Decision.Errors, out.Object.Object)
	}
}

// TestAnnotationOfPlacementObjects checks that the annotation with the clusters is no request on a placement object, and
// stays as it is.
func TestAnnotationOfPlacementObjects(t *testing.T) {
	obj := named(t, `[eu, us]`)
	obj.SetAnnotations(map[string]string{clustersKey: `["us"]`})
	out := decideAs(t, propagations, obj, nil, anywhere(t, "a", "eu"))
	if got := listed(t, propagations, out.Object); got != `["eu"]` || out.Object.GetAnnotations()[clustersKey] != `["us"]` {
		t.Errorf("clusters %s, annotation %q", got, out.Object.GetAnnotations()[clustersKey])
	}
	undone, err := (&placement.Decider{Keyring: keyring(t, "k")}).Undo(t.Context(), propagations, out.Object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(obj.Object, undone.Object.Object); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

// TestEmptyAnnotationsOfPlacementObjects checks that an empty map of annotations is no change. A patch that removes the only annotation
// leaves one, which the next call of the webhook in the same request receives.
func TestEmptyAnnotationsOfPlacementObjects(t *testing.T) {
	stored := named(t, `[eu]`)
	update := stored.DeepCopy()
	if err := unstructured.SetNestedMap(update.Object, map[string]any{}, "metadata", "annotations"); err != nil {
		t.Fatal(err)
	}
	out := decideAs(t, propagations, update, stored, with(with(anywhere(t, "a", "us"), overrides), manual))
	if got := listed(t, propagations, out.Object); got != `["eu"]` {
		t.Errorf("clusters %s", got)
	}
}

// watching is an evaluator that shows its input to a function, and allows eu.
type watching func(input map[string]any)

func (w watching) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	w(input)
	return placement.Decision{Clusters: []string{"eu"}}, nil
}

func (watching) Revision() uint64 { return 1 }

func (watching) Input() *projection.FieldSet { return projection.AllFields() }

// TestInputOfPlacementObjects checks that policies see the requested list.
func TestInputOfPlacementObjects(t *testing.T) {
	var seen []string
	p := anywhere(t, "a", "eu")
	stored := decideAs(t, propagations, named(t, `[us, eu]`), nil, p).Object
	p.Evaluator = watching(func(input map[string]any) {
		seen, _, _ = unstructured.NestedStringSlice(input, "spec", "placement", "clusterAffinity", "clusterNames")
	})
	decideAs(t, propagations, stored, stored, p)
	if want := []string{"us", "eu"}; !cmp.Equal(want, seen) {
		t.Errorf("the policy sees %q, want %q", seen, want)
	}
}

// TestPlacementObjectsOverTime checks that the list follows the developer and the policies, and what is reported.
func TestPlacementObjectsOverTime(t *testing.T) {
	a := func(names ...string) *placement.Policy { return anywhere(t, "a", names...) }
	steps := []struct {
		name string
		ask  string
		by   policies
		want string
		// violation is that of the first policy's only change before the update.
		violation string
	}{
		{"Placed", `[us, eu, ap]`, policies{a("eu", "us")}, `["eu","us"]`, affinityNames + ` is ["us","eu","ap"], should be ["eu","us"]`},
		{"Narrowed", "", policies{a("eu")}, `["eu"]`, affinityNames + ` is ["eu","us"], should be ["eu"]`},
		{"NoneLeft", "", policies{a("xx")}, `["eu"]`, ""},
		{"Cleared", "", policies{with(a("xx"), clears)}, `[]`, affinityNames + ` is ["eu"], should be []`},
		{"Held", "", policies{with(a("us"), manual)}, `[]`, affinityNames + ` is [], should be ["us"]`},
		{"AskedAgain", `[us]`, policies{with(a("us"), manual)}, `["us"]`, affinityNames + ` is ["us"], should be`},
		{"LetsGo", "", policies{silent(t, "a")}, `["us"]`, ""},
	}
	stored := propagation(t, "{}")
	for _, step := range steps {
		next := stored.DeepCopy()
		if step.ask != "" {
			next.Object["spec"] = named(t, step.ask).Object["spec"]
		}
		out := decideAs(t, propagations, next, stored, step.by...)
		if got := listed(t, propagations, out.Object); got != step.want {
			t.Errorf("%s: clusters %s, want %s", step.name, got, step.want)
		}
		for _, c := range out.Verdicts[0].Changes {
			if got := c.Violation(); !strings.HasPrefix(got, step.violation) || step.violation == "" {
				t.Errorf("%s: violation %q, want %q", step.name, got, step.violation)
			}
			if step.name != "Held" && (!c.Done(out.Object) || c.Done(next)) {
				t.Errorf("%s: the change is not done in the outcome, or before", step.name)
			}
			if got, want := c.Empties(), step.name == "Cleared"; got != want {
				t.Errorf("%s: the change empties the list: %t, want %t", step.name, got, want)
			}
		}
		stored = out.Object
	}
}

// TestChangeEmptiesPlacementObjects checks which changes leave a placement object without a cluster. Without names it may
// run on all clusters.
func TestChangeEmptiesPlacementObjects(t *testing.T) {
	for name, test := range map[string]struct {
		from, to *string
		want     bool
	}{
		"Emptied":        {new(`["a"]`), new(`[]`), true},
		"EmptiedFromAny": {nil, new(`[]`), true},
		"Moved":          {new(`["a"]`), new(`["b"]`), false},
		"AnyAgain":       {new(`["a"]`), nil, false},
		"WereNone":       {new(`[]`), new(`[]`), false},
		"OneTermLeft":    {new(`[["a"],["b"]]`), new(`[[],["b"]]`), false},
		"NoTermLeft":     {new(`[["a"],null]`), new(`[[],[]]`), true},
		"AnyTermLeft":    {new(`[["a"],null]`), new(`[[],null]`), false},
	} {
		c := placement.Change{Field: "clusters", Key: affinityNames, From: test.from, To: test.to}
		if got := c.Empties(); got != test.want {
			t.Errorf("%s: empties %t, want %t", name, got, test.want)
		}
	}
}

// TestUndoDeclaredPlacementObjects checks that undoing needs to know the list of a declared kind.
func TestUndoDeclaredPlacementObjects(t *testing.T) {
	kinds, err := clusterlist.NewKinds(clusterlist.Declaration{GroupResource: rollouts.GroupResource(), Kind: "Rollout", Path: []string{"spec", "clusters"}})
	if err != nil {
		t.Fatal(err)
	}
	obj := fromYAML(t, `{apiVersion: fleet.example.com/v1, kind: Rollout, metadata: {name: web, namespace: default}, spec: {clusters: [us, eu]}}`)
	d := &placement.Decider{Policies: policies{anywhere(t, "a", "eu")}, Namespaces: namespaces{}, Keyring: keyring(t, "k"), ClusterLists: kinds}
	out, err := d.Decide(t.Context(), placement.Request{Resource: rollouts, Namespace: "default", Object: obj})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedStringSlice(out.Object.Object, "spec", "clusters"); !cmp.Equal([]string{"eu"}, got) {
		t.Errorf("clusters %q", got)
	}
	if c := out.Verdicts[0].Changes; len(c) != 1 || !c[0].Done(out.Object) || c[0].Done(obj) {
		t.Errorf("changes %v", c)
	}
	for _, k := range []*placement.Keyring{keyring(t, "k"), placement.NewUnverifiedKeyring()} {
		var unknown *clusterlist.UnknownKindError
		if _, err := (&placement.Decider{Keyring: k}).Undo(t.Context(), rollouts, out.Object); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "under placements") {
			t.Errorf("undone without the declaration: %v", err)
		}
		undone, err := (&placement.Decider{Keyring: k, ClusterLists: kinds}).Undo(t.Context(), rollouts, out.Object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(obj.Object, undone.Object.Object); diff != "" {
			t.Errorf("undone (-want +got):\n%s", diff)
		}
	}
}

// TestRecordWithoutForm checks that a list is restored from a record whose extension a client removed, without what the form had.
func TestRecordWithoutForm(t *testing.T) {
	obj := propagation(t, `{clusterAffinity: {}}`)
	stored := decideAs(t, propagations, obj, nil, anywhere(t, "a", "eu")).Object
	dropped := withoutExtension(t, stored)
	out := decideAs(t, propagations, dropped, dropped, silent(t, "a"))
	want := propagation(t, "{}")
	delete(want.Object["spec"].(map[string]any), "placement")
	if diff := cmp.Diff(want.Object, withoutRecord(out.Object).Object); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
}

// filling is a source that records which fields it was asked for.
type filling struct{ asked []*projection.FieldSet }

func (f *filling) Fill(fields *projection.FieldSet) error {
	f.asked = append(f.asked, fields)
	return nil
}

func (*filling) Complete() error { return nil }

// TestFieldsOfPlacementObjects checks that the list is loaded for placement objects alone.
func TestFieldsOfPlacementObjects(t *testing.T) {
	reads := projection.Fields("metadata.labels")
	p := with(anywhere(t, "a", "eu"), func(p *placement.Policy) { p.Evaluator = &fakeEvaluator{clusters: []string{"eu"}, reads: reads} })
	for resource, want := range map[schema.GroupVersionResource]bool{propagations: true, deployments: false} {
		source := &filling{}
		d := decider(t, p)
		if _, err := d.Decide(t.Context(), placement.Request{Resource: resource, Namespace: "default", Object: named(t, `[us, eu]`), Source: source}); err != nil {
			t.Fatal(err)
		}
		list := projection.Fields("spec.placement.**")
		got := false
		for _, fields := range source.asked {
			got = got || fields.Covers(list)
		}
		if got != want {
			t.Errorf("%s: the list is loaded: %t, want %t", resource.Resource, got, want)
		}
	}
}

func TestPatchOfPlacementObjects(t *testing.T) {
	paths := placement.Paths{Clusters: []string{"spec", "policy"}}
	tests := map[string]struct{ from, to, want string }{
		"Same":    {`{spec: {policy: {a: [b]}}}`, `{spec: {policy: {a: [b]}}}`, `[]`},
		"Item":    {`{spec: {policy: {x: {}, a: [{c: [d, e]}, {}]}}}`, `{spec: {policy: {x: {}, a: [{c: [e]}, {}]}}}`, `[{"op":"remove","path":"/spec/policy/a/0/c/0"}]`},
		"Added":   {`{spec: {x: 1}}`, `{spec: {x: 1, policy: {a: b}}}`, `[{"op":"add","path":"/spec/policy","value":{"a":"b"}}]`},
		"NoSpec":  {`{}`, `{spec: {policy: {a: b}}}`, `[{"op":"add","path":"/spec","value":{"policy":{"a":"b"}}}]`},
		"Removed": {`{spec: {policy: {a: b}}}`, `{spec: {}}`, `[{"op":"remove","path":"/spec/policy"}]`},
		"Null":    {`{spec: {policy: null}}`, `{spec: {policy: {a: b}}}`, `[{"op":"replace","path":"/spec/policy","value":{"a":"b"}}]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			from, to := fromYAML(t, tc.from), fromYAML(t, tc.to)
			ops := placement.Patch(from, to, paths)
			text, err := json.Marshal(append(ops[:0:0], ops...))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(string(text), "null", "[]"); got != tc.want {
				t.Errorf("patch %s, want %s", got, tc.want)
			}
			if diff := cmp.Diff(to.Object, applyPatch(t, from, ops).Object); diff != "" {
				t.Errorf("patched (-want +got):\n%s", diff)
			}
		})
	}
}
