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

package placementmutator_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
	"github.com/berth-dev/berth/test/growth"
)

// Affinities of the policies, which objects contain too.
const (
	inZone      = `{"key": "zone", "operator": "In", "values": ["a"]}`
	besideApp   = `{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}`
	preferredBy = `{"weight": 1, "preference": {"matchExpressions": [` + inZone + `]}}`
)

// costly returns policies that set everything that a policy can set in a Pod.
func costly(t testing.TB) []*placement.Policy {
	t.Helper()
	m, errs := match.New(placementv1.Match{
		ResourceRules:  []placementv1.ResourceRule{{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "skip", Operator: metav1.LabelSelectorOpDoesNotExist}}},
	}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	of := func(name string, mode placementv1.Mode, rules string) *placement.Policy {
		var value map[string]any
		if err := json.Unmarshal([]byte(rules), &value); err != nil {
			t.Fatal(err)
		}
		decision, err := placement.ParseDecision(value)
		if err != nil {
			t.Fatal(err)
		}
		p := policyOf(t, name, mode, placementv1.FailurePolicyFail, answer{Decision: decision})
		p.Matcher, p.Schedules = m, true
		return p
	}
	affinity := func(more string) string {
		return `{"nodeAffinity": {
				"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [` + inZone + more + `]}]},
				"preferredDuringSchedulingIgnoredDuringExecution": [` + preferredBy + `]},
			"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [` + besideApp + `]}}`
	}
	return []*placement.Policy{
		of("a", placementv1.ModeEnforce, `{"labels": {"zone": "a"}, "annotations": {"zone": "a"}, "scheduling": {
			"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "zone", "value": "a"}], "affinity": `+affinity("")+`,
			"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]}}`),
		of("b", placementv1.ModeEnforce, `{"scheduling": {"affinity": `+affinity(`, {"key": "disk", "operator": "Exists"}`)+`}}`),
		of("c", placementv1.ModeWarn, `{"scheduling": {"affinity": `+affinity(`, {"key": "gpu", "operator": "Exists"}`)+`}}`),
	}
}

// silent returns a policy that matches Pods and decides nothing.
func silent(t testing.TB) []*placement.Policy {
	t.Helper()
	all := costly(t)[:1]
	all[0].Evaluator, all[0].Schedules = answer{}, false
	return all
}

// parts lists the parts of a Pod that can be repeated: the path, and the i-th item as a member of an object or of a
// list.
var parts = map[string]struct {
	path string
	item func(i int) (key string, item string)
}{
	"labels":      {"metadata/labels", func(i int) (string, string) { return fmt.Sprintf("l%d", i), `"v"` }},
	"annotations": {"metadata/annotations", func(i int) (string, string) { return fmt.Sprintf("a%d", i), `"v"` }},
	"finalizers":  {"metadata/finalizers", func(i int) (string, string) { return "", fmt.Sprintf(`"example.com/f%d"`, i) }},
	"ownerReferences": {"metadata/ownerReferences", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"apiVersion": "v1", "kind": "A", "name": "o%d", "uid": "u"}`, i)
	}},
	"managedFields":   {"metadata/managedFields", func(i int) (string, string) { return "", fmt.Sprintf(`{"manager": "m%d", "fieldsV1": {"f:a": {}}}`, i) }},
	"members":         {"", func(i int) (string, string) { return fmt.Sprintf("m%d", i), `{"a": [1, 2.5]}` }},
	"nodeSelector":    {"spec/nodeSelector", func(i int) (string, string) { return fmt.Sprintf("n%d", i), `"v"` }},
	"tolerations":     {"spec/tolerations", func(i int) (string, string) { return "", fmt.Sprintf(`{"key": "t%d", "tolerationSeconds": %d}`, i, i) }},
	"sameTolerations": {"spec/tolerations", func(int) (string, string) { return "", `{"key": "zone", "value": "a"}` }},
	"constraints": {"spec/topologySpreadConstraints", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"topologyKey": "t%d", "whenUnsatisfiable": "DoNotSchedule"}`, i)
	}},
	"sameConstraints": {"spec/topologySpreadConstraints", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"maxSkew": %d, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}`, 3+i)
	}},
	"matchLabelKeys": {"spec/topologySpreadConstraints/-/matchLabelKeys", func(i int) (string, string) { return "", fmt.Sprintf(`"k%d"`, i) }},
	"matchExpressions": {"spec/topologySpreadConstraints/-/labelSelector/matchExpressions", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"key": "e%d", "operator": "In", "values": ["v"]}`, i)
	}},
	"containedTerms": {termsPath, func(i int) (string, string) {
		return "", fmt.Sprintf(`{"matchExpressions": [`+inZone+`, {"key": "k%d", "operator": "Exists"}]}`, i)
	}},
	"satisfiedTerms": {termsPath, func(i int) (string, string) {
		return "", fmt.Sprintf(`{"matchExpressions": [`+inZone+`, {"key": "disk", "operator": "Exists"}, {"key": "k%d", "operator": "Exists"}]}`, i)
	}},
	"otherTerms": {termsPath, func(i int) (string, string) {
		return "", fmt.Sprintf(`{"matchExpressions": [{"key": "k%d", "operator": "Exists"}]}`, i)
	}},
	"sameTerms":   {termsPath, func(int) (string, string) { return "", `{"matchExpressions": [{"key": "k", "operator": "Exists"}]}` }},
	"emptyTerms":  {termsPath, func(int) (string, string) { return "", `{}` }},
	"expressions": {termsPath + "/-/matchExpressions", func(i int) (string, string) { return "", fmt.Sprintf(`{"key": "k%d", "operator": "Exists"}`, i) }},
	"values":      {termsPath + "/-/matchExpressions/-/values", func(i int) (string, string) { return "", fmt.Sprintf(`"v%d"`, i) }},
	"preferred": {"spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"weight": %d, "preference": {"matchExpressions": [`+inZone+`]}}`, i)
	}},
	"samePreferred": {"spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution", func(int) (string, string) { return "", preferredBy }},
	"antiAffinity": {"spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"topologyKey": "z%d", "matchLabelKeys": ["a"], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v"]}]}}`, i)
	}},
	"antiAffinityKeys": {"spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/-/mismatchLabelKeys", func(i int) (string, string) { return "", fmt.Sprintf(`"k%d"`, i) }},
	"antiAffinitySelector": {"spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/-/labelSelector/matchExpressions", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"key": "e%d", "operator": "NotIn", "values": ["v"]}`, i)
	}},
	"containers": {"spec/containers", func(i int) (string, string) {
		return "", fmt.Sprintf(`{"name": "c%d", "image": "i", "resources": {"requests": {"cpu": "1"}}}`, i)
	}},
}

const termsPath = "spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"

// repeat returns a Pod with n items of each of the named parts. record is the value of its record annotation; empty for
// none.
func repeat(n int, names []string, record string) map[string]any {
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{}}
	for _, name := range names {
		part := parts[name]
		for i := range n {
			key, text := part.item(i)
			var item any
			if err := json.Unmarshal([]byte(text), &item); err != nil {
				panic(err)
			}
			path := strings.FieldsFunc(part.path, func(r rune) bool { return r == '/' })
			add(pod, path, key, item)
		}
	}
	if record != "" {
		add(pod, []string{"metadata", "annotations"}, placementv1.RequestedAnnotation, record)
	}
	return pod
}

// add adds an item to an object: to the list at the path or, if key is not empty, to the object there. "-" in a path
// means the first item of a list.
func add(object map[string]any, path []string, key string, item any) {
	if len(path) == 0 {
		object[key] = item
		return
	}
	name, rest := path[0], path[1:]
	if key == "" && len(rest) == 0 {
		list, _ := object[name].([]any)
		object[name] = append(list, item)
		return
	}
	if len(rest) > 0 && rest[0] == "-" {
		list, _ := object[name].([]any)
		if len(list) == 0 {
			list = []any{map[string]any{}}
		}
		object[name] = list
		first, _ := list[0].(map[string]any)
		add(first, rest[1:], key, item)
		return
	}
	next, _ := object[name].(map[string]any)
	if next == nil {
		next = map[string]any{}
		object[name] = next
	}
	add(next, rest, key, item)
}

func podRequest(t testing.TB, pod, old []byte) admission.Request {
	t.Helper()
	out := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "shop", Name: "web", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: pod},
	}}
	if old != nil {
		out.Operation, out.OldObject.Raw = admissionv1.Update, old
	}
	return out
}

func encoded(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// patched returns an object after the response's patch.
func patched(t testing.TB, object []byte, response admission.Response) []byte {
	t.Helper()
	if !response.Allowed || len(response.Patches) == 0 {
		return object
	}
	patch, err := jsonpatch.DecodePatch(encoded(t, response.Patches))
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(object)
	if err != nil {
		t.Fatalf("patch %s: %v", encoded(t, response.Patches), err)
	}
	return out
}

// ways lists the kinds of requests in which objects come to the webhook.
var ways = map[string]func(t testing.TB, h fixture, n int, names []string) admission.Request{
	"Create": func(t testing.TB, _ fixture, n int, names []string) admission.Request {
		return podRequest(t, encoded(t, repeat(n, names, "")), nil)
	},
	// The annotation only looks like a record that contains placements of policies.
	"Forged": func(t testing.TB, _ fixture, n int, names []string) admission.Request {
		return podRequest(t, encoded(t, repeat(n, names, `"scheduling":`)), nil)
	},
	"Update": func(t testing.TB, h fixture, n int, names []string) admission.Request {
		pod := encoded(t, repeat(n, names, ""))
		placed := patched(t, pod, h.Handle(t.Context(), podRequest(t, pod, nil)))
		return podRequest(t, placed, placed)
	},
	// The record is valid, and the user adds the parts to what policies placed.
	"Edit": func(t testing.TB, h fixture, n int, names []string) admission.Request {
		pod := encoded(t, repeat(1, names, ""))
		placed := patched(t, pod, h.Handle(t.Context(), podRequest(t, pod, nil)))
		var whole map[string]any
		if err := json.Unmarshal(placed, &whole); err != nil {
			t.Fatal(err)
		}
		annotations, _ := whole["metadata"].(map[string]any)["annotations"].(map[string]any)
		record, _ := annotations[placementv1.RequestedAnnotation].(string)
		return podRequest(t, encoded(t, repeat(n, names, record)), placed)
	},
}

// TestCostIsLinear checks that the processor time of a request grows at most linearly with the object's size, whatever
// part of the object is repeated.
func TestCostIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processor time")
	}
	together := map[string][]string{
		"labelKeys":        {"matchLabelKeys", "matchExpressions"},
		"antiAffinityBoth": {"antiAffinityKeys", "antiAffinitySelector"},
	}
	// Comparisons of strings are so fast that only a large number shows how often they happen.
	sizes := map[string]int{"labelKeys": 2500, "antiAffinityBoth": 2500}
	for name := range parts {
		together[name] = []string{name}
	}
	all := slices.Sorted(maps.Keys(ways))
	for i, name := range slices.Sorted(maps.Keys(together)) {
		// With a small budget, each part comes in some ways, and each way has some parts.
		for j := range min(budget.Rounds(1), len(all)) {
			way := all[(i+j)%len(all)]
			t.Run(name+"/"+way, func(t *testing.T) {
				growth.Linear(t, cmp.Or(sizes[name], 300), func(n int) func() {
					h := newFixture(t, costly(t)...)
					req := ways[way](t, h, n, together[name])
					return func() { h.Handle(t.Context(), req) }
				})
			})
		}
	}
}

// TestForgedRecordCostsNothing checks that an annotation that only looks like a record does not cause the pod's
// scheduling fields to be decoded.
func TestForgedRecordCostsNothing(t *testing.T) {
	pod := repeat(10, []string{"matchLabelKeys", "tolerations"}, `{"scheduling":{"affinity/a":{"set":"x"}},"signature":"x"}`)
	h := newFixture(t, silent(t)...)
	// The policy reads nothing, so only the record can cause the webhook to decode fields.
	h.Decider.Policies = inForce{withInput(h.Decider.Policies.(inForce)[0], &projection.FieldSet{})}
	req := podRequest(t, encoded(t, pod), nil)
	// The spec is not valid JSON, so decoding it would fail the request.
	req.Object.Raw = []byte(strings.Replace(string(req.Object.Raw), `"spec":{`, `"spec":{x`, 1))
	if response := h.Handle(t.Context(), req); !response.Allowed {
		t.Errorf("the spec was decoded: %s", response.Result.Message)
	}
}

// reading is an answer with the field set that it reads.
type reading struct {
	answer
	fields *projection.FieldSet
}

func (r reading) Input() *projection.FieldSet { return r.fields }

func withInput(p *placement.Policy, fields *projection.FieldSet) *placement.Policy {
	out := *p
	out.Evaluator = reading{fields: fields.Seal()}
	return &out
}

// FuzzCost searches for objects whose requests cost more than their size explains. In the input, the first byte selects
// the kind of request, and each other byte a part that is repeated.
func FuzzCost(f *testing.F) {
	names, by := slices.Sorted(maps.Keys(parts)), slices.Sorted(maps.Keys(ways))
	place := func(name string) byte { return byte(slices.Index(names, name)) }
	f.Add([]byte{0, place("satisfiedTerms"), place("otherTerms")})
	f.Add([]byte{1, place("antiAffinity"), place("preferred"), place("tolerations")})
	f.Add([]byte{2, place("labels"), place("constraints"), place("sameConstraints")})
	f.Fuzz(func(t *testing.T, recipe []byte) {
		if len(recipe) < 2 || len(recipe) > 5 {
			t.Skip()
		}
		var some []string
		for _, b := range recipe[1:] {
			some = append(some, names[int(b)%len(names)])
		}
		way := by[int(recipe[0])%len(by)]
		growth.Linear(t, 100, func(n int) func() {
			h := newFixture(t, costly(t)...)
			req := ways[way](t, h, n, some)
			return func() { h.Handle(t.Context(), req) }
		})
		if t.Failed() {
			t.Logf("by %s: %v", way, some)
		}
	})
}
