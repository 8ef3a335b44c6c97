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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	evanphx "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilsets "k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/test/budget"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	errFake     = errors.New("fake evaluation error")
)

// metadata are the merged values of an object, by field and key.
type metadata map[string]map[string]string

func newMetadata() metadata {
	return metadata{"labels": {}, "annotations": {}, "scheduling": {}}
}

func (m metadata) clone() metadata {
	out := metadata{}
	for field, values := range m {
		out[field] = maps.Clone(values)
	}
	return out
}

// listPath is the path of the list of clusters in objects that have one.
var listPath = []string{"spec", "clusters"}

// metadataOf returns the merged values of an object without the record. The list of clusters in its spec is that of the
// annotation.
func metadataOf(obj *unstructured.Unstructured) metadata {
	out := newMetadata()
	maps.Copy(out["labels"], obj.GetLabels())
	maps.Copy(out["annotations"], obj.GetAnnotations())
	delete(out["annotations"], placementv1.RequestedAnnotation)
	if list, ok, _ := unstructured.NestedStringSlice(obj.Object, listPath...); ok {
		if slices.Equal(list, []string{clusterlist.NoCluster}) {
			list = []string{}
		}
		text, _ := json.Marshal(list)
		out["annotations"][placementv1.ClustersAnnotation] = string(text)
	}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
	for name, value := range spec {
		switch value := value.(type) {
		case string:
			out["scheduling"][name] = value
		case map[string]any:
			for label, text := range value {
				out["scheduling"][name+"/"+label] = text.(string)
			}
		case []any:
			for _, item := range value {
				text, _ := json.Marshal(item)
				if name == "tolerations" {
					out["scheduling"][name+"/"+string(text)] = "present"
				} else {
					constraint := item.(map[string]any)
					out["scheduling"][fmt.Sprintf("%s/%s/%s", name, constraint["topologyKey"], constraint["whenUnsatisfiable"])] = string(text)
				}
			}
		}
	}
	return out
}

// podSpec returns a pod spec with the scheduling values.
func podSpec(scheduling map[string]string) map[string]any {
	out := map[string]any{}
	parse := func(text string) any {
		var item map[string]any
		if err := yaml.Unmarshal([]byte(text), &item); err != nil {
			panic(err)
		}
		return item
	}
	for _, key := range slices.Sorted(maps.Keys(scheduling)) {
		switch name, rest, _ := strings.Cut(key, "/"); name {
		case "nodeSelector":
			selector, _ := out[name].(map[string]any)
			if selector == nil {
				selector = map[string]any{}
			}
			selector[rest] = scheduling[key]
			out[name] = selector
		case "tolerations":
			list, _ := out[name].([]any)
			out[name] = append(list, parse(rest))
		case "topologySpreadConstraints":
			list, _ := out[name].([]any)
			out[name] = append(list, parse(scheduling[key]))
		default:
			out[name] = scheduling[key]
		}
	}
	return out
}

func newObject(name string, m metadata) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion("apps/v1")
	obj.SetKind("Deployment")
	obj.SetNamespace("default")
	obj.SetName(name)
	write(obj, m)
	return obj
}

func write(obj *unstructured.Unstructured, m metadata) {
	for _, f := range []string{"labels", "annotations"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", f)
	}
	if len(m["labels"]) > 0 {
		obj.SetLabels(m["labels"])
	}
	if len(m["annotations"]) > 0 {
		obj.SetAnnotations(m["annotations"])
	}
	obj.Object["spec"] = map[string]any{"template": map[string]any{"spec": podSpec(m["scheduling"])}}
}

func recordOf(obj *unstructured.Unstructured) string {
	return obj.GetAnnotations()[placementv1.RequestedAnnotation]
}

// clause is one rule of a fake policy. It sets a key to a value if the input has another key with another value.
type clause struct {
	ifField, ifKey, ifValue string
	field, key, value       string
}

// fakeEvaluator is a pure function of the input, as policies are.
type fakeEvaluator struct {
	clauses []clause
	// clusters are those that the policy allows; nil if it does not restrict them.
	clusters []string
	errors   []string
	err      error
	// reads are the fields that the policy reads; nil for the whole input.
	reads *projection.FieldSet
}

func (f *fakeEvaluator) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	if f.err != nil {
		return placement.Decision{}, f.err
	}
	obj := &unstructured.Unstructured{Object: input}
	if recordOf(obj) != "" {
		return placement.Decision{}, errors.New("the policy sees the record")
	}
	m := metadataOf(obj)
	out := placement.Decision{
		Annotations: map[string]string{}, Labels: map[string]string{}, Scheduling: map[string]string{}, Clusters: f.clusters, Errors: f.errors,
	}
	for _, c := range f.clauses {
		if c.ifKey != "" && m[c.ifField][c.ifKey] != c.ifValue {
			continue
		}
		switch c.field {
		case "labels":
			out.Labels[c.key] = c.value
		case "scheduling":
			out.Scheduling[c.key] = c.value
		default:
			out.Annotations[c.key] = c.value
		}
	}
	return out, nil
}

func (*fakeEvaluator) Revision() uint64 { return 1 }

func (f *fakeEvaluator) Input() *projection.FieldSet {
	if f.reads != nil {
		return f.reads
	}
	return projection.AllFields()
}

// readsOf returns the fields that clauses read.
func readsOf(clauses []clause) *projection.FieldSet {
	out := &projection.FieldSet{}
	for _, c := range clauses {
		switch {
		case c.ifKey == "":
		case c.ifField == "scheduling":
			out.AddName("spec").AddAll()
		default:
			out.AddName("metadata").AddName(c.ifField).AddName(c.ifKey)
		}
	}
	return out.Seal()
}

type policies []*placement.Policy

func (p policies) Begin() (index *match.Index[*placement.Policy], end func()) {
	return placement.NewIndex(p...), func() {}
}

type namespaces struct{}

func (namespaces) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

func allDeployments(t *testing.T) *match.Matcher {
	t.Helper()
	m, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
		APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
	}}}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return m
}

func keyring(t *testing.T, fill string) *placement.Keyring {
	t.Helper()
	k, err := placement.NewKeyring([]byte(strings.Repeat(fill, placement.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// simulation is one object on a minimal API server whose only webhook is the decision path. It knows what the developer
// requested without reading any record.
type simulation struct {
	*testing.T
	rand    *rand.Rand
	matcher *match.Matcher
	keyring *placement.Keyring
	// everything are the names of all policies that ever existed. live are the policies in force.
	everything map[string]bool
	live       policies
	// paused are the names of the policies whose remediation is paused.
	paused map[string]bool
	// decided reports whether all policies are enforced, decide, and remediate existing objects.
	decided bool
	// lists are the kinds of placement objects. It is nil if the object has the annotation with the clusters.
	lists *clusterlist.Kinds

	stored *unstructured.Unstructured
	intent metadata
	// set are the values that Berth set and that the developer does not request, by field and key.
	set valueSets
	// forged reports whether the stored record is not valid.
	forged bool
	// from is the snapshot whose record the object that is being admitted has.
	from *snapshot
	// returned is the number of values that Berth had set and that came back.
	returned int
	// snapshots are earlier states of the object.
	snapshots []snapshot
}

// valueSets are sets of values by field and key.
type valueSets map[string]utilsets.Set[string]

func (v valueSets) has(field, key, value string) bool { return v[field+"/"+key].Has(value) }

func (v valueSets) clone() valueSets {
	out := valueSets{}
	for key, values := range v {
		out[key] = values.Clone()
	}
	return out
}

// snapshot is a state of the object that a user has stored: as a backup, as a revision of a rollout, or as a manifest that was read from
// the cluster.
type snapshot struct {
	object *unstructured.Unstructured
	intent metadata
	set    valueSets
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	out := &simulation{
		T: t, rand: rand.New(rand.NewPCG(seed, 0)), matcher: allDeployments(t), keyring: keyring(t, "k"),
		everything: map[string]bool{}, paused: map[string]bool{}, intent: newMetadata(), set: valueSets{},
	}
	if seed%2 == 0 {
		return out
	}
	var err error
	if out.lists, err = clusterlist.NewKinds(clusterlist.Declaration{GroupResource: deployments.GroupResource(), Kind: "Deployment", Path: listPath}); err != nil {
		t.Fatal(err)
	}
	return out
}

// newObject returns an object with the values. Its clusters are in its spec if it is a placement object.
func (s *simulation) newObject(name string, m metadata) *unstructured.Unstructured {
	s.Helper()
	text, listed := m["annotations"][placementv1.ClustersAnnotation]
	if s.lists == nil || !listed {
		return newObject(name, m)
	}
	m = m.clone()
	delete(m["annotations"], placementv1.ClustersAnnotation)
	out := newObject(name, m)
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		s.Fatal(err)
	}
	if len(names) == 0 {
		names = []string{clusterlist.NoCluster}
	}
	if err := unstructured.SetNestedStringSlice(out.Object, names, listPath...); err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *simulation) pick(options ...string) string { return options[s.rand.IntN(len(options))] }

// entry returns a random field, key, and value.
func (s *simulation) entry() (field, key, value string) {
	field = s.pick("labels", "annotations", "scheduling")
	if field != "scheduling" {
		return field, s.pick("a", "b", "example.com/c", "example.com/d~e", "f"), s.pick("", "v1", "v2", "v3")
	}
	switch name := s.pick("nodeSelector", "tolerations", "topologySpreadConstraints", "priorityClassName", "schedulerName"); name {
	case "nodeSelector":
		return field, name + "/" + s.pick("a", "b", "example.com/c"), s.pick("", "v1", "v2", "v3")
	case "tolerations":
		return field, name + "/" + s.pick(`{"key":"a","operator":"Exists"}`, `{"effect":"NoExecute","key":"b","tolerationSeconds":30,"value":"c"}`, `{"operator":"Exists"}`), "present"
	case "topologySpreadConstraints":
		topology := s.pick("zone", "example.com/rack")
		return field, name + "/" + topology + "/DoNotSchedule", fmt.Sprintf(`{"maxSkew":%s,"topologyKey":%q,"whenUnsatisfiable":"DoNotSchedule"}`, s.pick("1", "2"), topology)
	default:
		return field, name, s.pick("v1", "v2")
	}
}

// wish returns a random entry that a developer may write. It may be the list of clusters, which policies set with a
// separate rule.
func (s *simulation) wish() (field, key, value string) {
	if s.rand.IntN(4) > 0 {
		return s.entry()
	}
	if s.lists != nil {
		return "annotations", placementv1.ClustersAnnotation, s.pick(`["eu"]`, `["us","eu"]`, `["ap","eu","us"]`, `["us"]`, `["eu","eu"]`, `[]`)
	}
	return "annotations", placementv1.ClustersAnnotation, s.pick(`["eu"]`, `["us", "eu"]`, `["ap","eu","us"]`, `["us"]`, `["eu","eu"]`, `[]`, `null`, `eu,us`)
}

// delivery returns the spec.delivery of a policy. Some have none.
func (s *simulation) delivery() *placementv1.Delivery {
	if s.rand.IntN(3) > 0 {
		return nil
	}
	return &placementv1.Delivery{Karmada: &placementv1.KarmadaDelivery{}}
}

// change adds, changes, or deletes a policy.
func (s *simulation) change() {
	name := s.pick("p1", "p2", "p3", "p4")
	s.live = slices.DeleteFunc(slices.Clone(s.live), func(p *placement.Policy) bool { return p.Name == name })
	if s.rand.IntN(6) == 0 {
		return
	}
	f := &fakeEvaluator{}
	for range s.rand.IntN(4) {
		var c clause
		c.field, c.key, c.value = s.entry()
		if s.rand.IntN(2) == 0 {
			c.ifField, c.ifKey, c.ifValue = s.entry()
		}
		f.clauses = append(f.clauses, c)
	}
	if s.rand.IntN(2) > 0 {
		f.reads = readsOf(f.clauses)
	}
	if s.rand.IntN(3) > 0 {
		f.clusters = [][]string{{"ap", "eu", "us"}, {"eu", "us"}, {"eu"}, {"us"}, {}}[s.rand.IntN(5)]
	}
	switch s.rand.IntN(8) {
	case 0:
		f.err = errFake
	case 1:
		f.errors = []string{"no"}
	}
	s.everything[name] = true
	if s.decided {
		f.err, f.errors = nil, nil
		if len(f.clusters) == 0 {
			f.clusters = nil
		}
		s.live = append(s.live, &placement.Policy{
			Name: name, Generation: 1, Matcher: s.matcher, Evaluator: f, Schedules: true, Mode: placementv1.ModeEnforce,
			Remediation: placementv1.RemediationAutomatic, Clusters: placementv1.ClustersRule{OnEmpty: placementv1.OnEmptyPolicyClusters},
			Delivery: s.delivery(),
		})
		return
	}
	s.live = append(s.live, &placement.Policy{
		Name: name, Generation: 1, Priority: int32(s.rand.IntN(3)), Matcher: s.matcher, Evaluator: f, Schedules: true, Delivery: s.delivery(),
		Mode: placementv1.Mode(s.pick(string(placementv1.ModeEnforce), string(placementv1.ModeEnforce),
			string(placementv1.ModeWarn), string(placementv1.ModeDryRun))),
		FailurePolicy: placementv1.FailurePolicy(s.pick(string(placementv1.FailurePolicyFail), string(placementv1.FailurePolicyIgnore))),
		Remediation: placementv1.RemediationMode(s.pick(string(placementv1.RemediationAutomatic), string(placementv1.RemediationAutomatic),
			string(placementv1.RemediationManual), string(placementv1.RemediationNewOnly), string(placementv1.RemediationOff))),
		Clusters: placementv1.ClustersRule{
			DeveloperChoice: placementv1.DeveloperChoice(s.pick("", string(placementv1.DeveloperChoiceNarrow), string(placementv1.DeveloperChoiceOverride), string(placementv1.DeveloperChoiceIgnore))),
			OnEmpty:         placementv1.OnEmpty(s.pick("", string(placementv1.OnEmptyDeny), string(placementv1.OnEmptyClear), string(placementv1.OnEmptyPolicyClusters))),
		},
	})
}

func (s *simulation) decide(all policies, obj, old *unstructured.Unstructured, remediates bool) *placement.Outcome {
	s.Helper()
	d := &placement.Decider{
		Policies: all, Namespaces: namespaces{}, Keyring: s.keyring, OwnNamespace: "berth-system", ClusterLists: s.lists,
		Paused: func(policy, _ string) bool { return s.paused[policy] },
	}
	before := obj.DeepCopy()
	request := placement.Request{Resource: deployments, Namespace: "default", Object: obj, Old: old}
	out, err := d.Decide(s.Context(), request)
	if remediates {
		out, err = d.Remediate(s.Context(), request, nil)
	}
	if err != nil {
		s.Fatal(err)
	}
	// cmp.Diff of equal objects would take a large part of the time of the simulation.
	if !reflect.DeepEqual(before, obj) {
		s.Fatalf("deciding changed its input (-before +after):\n%s", cmp.Diff(before, obj))
	}
	if out.Object == nil {
		out.Object = obj
	}
	return out
}

// refused reports whether the webhook would deny the request.
func refused(out *placement.Outcome) bool {
	return slices.ContainsFunc(out.Verdicts, func(v *placement.Verdict) bool {
		return v.Policy.Mode == placementv1.ModeEnforce &&
			(len(v.Decision.Errors) > 0 || v.Err != nil && v.Policy.FailurePolicy == placementv1.FailurePolicyFail)
	})
}

// admit simulates one request: the API server calls the webhook once or several times and stores the result. It reports
// whether the request was allowed.
func (s *simulation) admit(obj *unstructured.Unstructured, remediates bool) bool {
	s.Helper()
	first := s.decide(s.live, obj, s.stored, remediates)
	s.checkOrder(first, obj, remediates)
	s.checkDecision(first, obj, remediates)
	s.checkClusters(first, obj, remediates)
	if refused(first) {
		return false
	}
	result := s.patch(obj, first.Object)
	for range s.rand.IntN(3) {
		again := s.decide(s.live, result, s.stored, remediates)
		if diff := cmp.Diff(result.Object, s.patch(result, again.Object).Object); diff != "" {
			s.Fatalf("the webhook's second call in a request changed the object:\n%s", diff)
		}
	}
	s.stored = result
	again := s.decide(s.live, s.stored.DeepCopy(), s.stored, remediates)
	if patch := placement.Patch(s.stored, again.Object, again.Paths); len(patch) > 0 {
		s.Fatalf("deciding the outcome again changes it: %v", patch)
	}
	return true
}

// patch applies the JSON patch from one object to the other.
func (s *simulation) patch(from, to *unstructured.Unstructured) *unstructured.Unstructured {
	s.Helper()
	out := applyPatch(s.T, from, placement.Patch(from, to, placement.Paths{PodSpec: []string{"spec", "template", "spec"}, Clusters: listPath}))
	got, want := metadataOf(out), metadataOf(to)
	if diff := cmp.Diff(want, got); diff != "" || recordOf(out) != recordOf(to) {
		s.Fatalf("the patch does not yield the object (-want +got):\n%s", diff)
	}
	return out
}

// applyPatch applies a patch as the API server does. A missing parent, or a missing member to remove, is an error.
func applyPatch(t testing.TB, from *unstructured.Unstructured, ops []jsonpatch.Operation) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(from.Object)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(applyTo(t, text, ops), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// applyTo applies a patch to the JSON of an object.
func applyTo(t testing.TB, text []byte, ops []jsonpatch.Operation) []byte {
	t.Helper()
	encoded, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := evanphx.DecodePatch(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) == 0 {
		return text
	}
	out, err := patch.Apply(text)
	if err != nil {
		t.Fatalf("patch %s of %s: %v", encoded, text, err)
	}
	return out
}

// viaJSON returns a copy that was encoded and decoded.
func viaJSON(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkOrder checks that the policies in another order give the same decision.
func (s *simulation) checkOrder(out *placement.Outcome, obj *unstructured.Unstructured, remediates bool) {
	s.Helper()
	shuffled := slices.Clone(s.live)
	s.rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	other := s.decide(shuffled, obj, s.stored, remediates)
	if diff := cmp.Diff(out.Object, other.Object); diff != "" {
		s.Fatalf("the object depends on the order of the policies:\n%s", diff)
	}
	if diff := cmp.Diff(summary(out), summary(other)); diff != "" {
		s.Fatalf("the verdicts depend on the order of the policies:\n%s", diff)
	}
}

// summary describes the verdicts as text.
func summary(out *placement.Outcome) []string {
	var lines []string
	for _, v := range out.Verdicts {
		line := fmt.Sprintf("%s err=%v %+v", v.Policy.Name, v.Err, v.Decision)
		for _, c := range v.Changes {
			line += "; " + c.Action()
		}
		lines = append(lines, line+fmt.Sprintf("; %+v", v.Conflicts))
	}
	return lines
}

// checkDecision compares an outcome with a second, very simple implementation of the contract.
func (s *simulation) checkDecision(out *placement.Outcome, obj *unstructured.Unstructured, remediates bool) {
	s.Helper()
	got, current := metadataOf(out.Object), metadataOf(obj)
	stood := newMetadata()
	if s.stored != nil {
		stood = metadataOf(s.stored)
	}
	named, mayHold := newMetadata(), map[string]bool{}
	for f := range named {
		for _, v := range slices.Backward(out.Verdicts) {
			if v.Err != nil || v.Policy.Mode != placementv1.ModeEnforce {
				continue
			}
			decided := map[string]map[string]string{"labels": v.Decision.Labels, "annotations": v.Decision.Annotations, "scheduling": v.Decision.Scheduling}[f]
			for key, value := range decided {
				named[f][key] = value
				mayHold[f+key] = s.mayHold(v)
				if remediates && v.Policy.Remediation != placementv1.RemediationAutomatic {
					named[f][key] = current[f][key]
				}
			}
		}
		for key, want := range named[f] {
			if got[f][key] != want && (!mayHold[f+key] || got[f][key] != stood[f][key]) {
				s.Fatalf("%s %s is %q, want %q", f, key, got[f][key], want)
			}
		}
	}
}

// mayHold reports whether an update may leave a policy's keys as they are.
func (s *simulation) mayHold(v *placement.Verdict) bool {
	return s.stored != nil && (v.Policy.Remediation == placementv1.RemediationManual || v.Policy.Remediation == placementv1.RemediationNewOnly || s.paused[v.Policy.Name])
}

// checkClusters checks that an admitted object only has clusters that the developer and the policies allow. If no
// policy was held or failed, the object must have all of them.
func (s *simulation) checkClusters(out *placement.Outcome, obj *unstructured.Unstructured, remediates bool) {
	s.Helper()
	const key = placementv1.ClustersAnnotation
	if refused(out) {
		return
	}
	wish, wished := s.requested(obj)["annotations"][key]
	var own, allowed utilsets.Set[string]
	asks, all, narrows, ignores, denies, clears := false, true, false, false, false, false
	meet := func(a, b utilsets.Set[string]) utilsets.Set[string] {
		if a == nil {
			return b
		}
		return a.Intersection(b)
	}
	for _, v := range out.Verdicts {
		switch {
		case v.Policy.Mode != placementv1.ModeEnforce:
		case v.Err != nil || s.mayHold(v) || remediates && v.Policy.Remediation != placementv1.RemediationAutomatic:
			all = false
			ignores = ignores || v.Policy.Clusters.DeveloperChoice == placementv1.DeveloperChoiceIgnore
		case v.Decision.Clusters != nil:
			asks = true
			allowed = meet(allowed, utilsets.New(v.Decision.Clusters...))
			narrows = narrows || slices.Contains([]placementv1.DeveloperChoice{"", placementv1.DeveloperChoiceNarrow}, v.Policy.Clusters.DeveloperChoice)
			ignores = ignores || v.Policy.Clusters.DeveloperChoice == placementv1.DeveloperChoiceIgnore
			denies = denies || slices.Contains([]placementv1.OnEmpty{"", placementv1.OnEmptyDeny}, v.Policy.Clusters.OnEmpty)
			clears = clears || v.Policy.Clusters.OnEmpty == placementv1.OnEmptyClear
		}
	}
	if !asks {
		return
	}
	if wished && narrows && !ignores {
		var names []string
		if err := json.Unmarshal([]byte(wish), &names); err != nil || names == nil {
			s.Fatalf("a list that can't be read is let through: %s", wish)
		}
		own = utilsets.New(names...)
		// A held policy can make the list empty, and then PolicyClusters applies.
		if both := meet(own, allowed); all && len(both) > 0 || denies || clears {
			allowed = both
		}
	}
	var got []string
	if err := json.Unmarshal([]byte(metadataOf(out.Object)["annotations"][key]), &got); err != nil {
		s.Fatalf("clusters of %v: %v", out.Object.Object, err)
	}
	if !allowed.IsSuperset(utilsets.New(got...)) || all && !allowed.Equal(utilsets.New(got...)) {
		s.Fatalf("clusters %v, want %v\nverdicts: %v", got, utilsets.List(allowed), summary(out))
	}
	if (denies || all && !clears) && len(got) == 0 {
		s.Fatal("no cluster is left, which is let through")
	}
}

// checkIntent makes all policies stop deciding and checks that the developer's object returns.
func (s *simulation) checkIntent() {
	s.Helper()
	if s.stored == nil {
		return
	}
	var silent policies
	for name := range s.everything {
		silent = append(silent, &placement.Policy{
			Name: name, Mode: placementv1.ModeEnforce, Remediation: placementv1.RemediationAutomatic,
			Matcher: s.matcher, Evaluator: &fakeEvaluator{},
		})
	}
	out := s.decide(silent, s.stored, s.stored, true)
	if diff := cmp.Diff(s.intent, metadataOf(out.Object)); diff != "" {
		s.Fatalf("the developer's object does not return (-want +got):\n%s\nstored: %v", diff, s.stored.Object["metadata"])
	}
	if text := recordOf(out.Object); len(silent) > 0 && text != "" {
		var r signedRecord
		if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Annotations)+len(r.Labels)+len(r.Scheduling) > 0 || len(s.set) == 0 {
			s.Fatalf("a record stays that records nothing: %s, %v", text, err)
		}
	}
	s.checkUndo()
}

// checkUndo undoes all placements, and checks that the developer's object returns and that every change is reported.
func (s *simulation) checkUndo() {
	s.Helper()
	d := &placement.Decider{Keyring: s.keyring, ClusterLists: s.lists}
	before := s.stored.DeepCopy()
	undone, err := d.Undo(s.Context(), deployments, s.stored)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(before, s.stored); diff != "" {
		s.Fatalf("undoing changed its input (-before +after):\n%s", diff)
	}
	result := s.patch(s.stored, undone.Object)
	if diff := cmp.Diff(s.intent, metadataOf(result)); diff != "" || recordOf(result) != "" {
		s.Fatalf("undoing does not return the developer's object (-want +got):\n%s\nstored: %v", diff, s.stored.Object["metadata"])
	}
	keys := map[string]bool{}
	for _, c := range undone.Changes {
		if keys[c.Field+c.Key] || !c.Done(result) || c.Done(s.stored) {
			s.Fatalf("change %q is reported twice or is none", c.Action())
		}
		keys[c.Field+c.Key] = true
	}
	if got, want := len(keys), countDifferences(metadataOf(s.stored), metadataOf(result)); got != want {
		s.Fatalf("%d changes are reported, and there are %d", got, want)
	}
}

// countDifferences returns the number of keys with different values.
func countDifferences(a, b metadata) int {
	out := 0
	for field := range a {
		for key, value := range a[field] {
			if other, there := b[field][key]; !there || other != value {
				out++
			}
		}
		for key := range b[field] {
			if _, there := a[field][key]; !there {
				out++
			}
		}
	}
	return out
}

// random returns random values that a developer may have written.
func (s *simulation) random() metadata {
	out := newMetadata()
	for range s.rand.IntN(5) {
		field, key, value := s.wish()
		out[field][key] = value
	}
	return out
}

// forgery returns a record that the developer must not be able to use.
func (s *simulation) forgery() string {
	s.Helper()
	switch s.rand.IntN(4) {
	case 0:
		return s.pick("", "{}", "null", "nonsense", `{"labels":{"a":{"requested":"v1","by":"p1","set":""}}}`)
	case 1:
		// The record of another object.
		return s.foreign(s.keyring, "other")
	case 2:
		// A record for this object, signed with another key.
		return s.foreign(keyring(s.T, "x"), "web")
	}
	// The object's own record, edited.
	if s.stored == nil {
		return "{}"
	}
	if len(s.live) > 0 && s.rand.IntN(2) == 0 {
		// Without its extension the record is valid: if no policy matched the object, it and the requested values would
		// stay.
		return strings.NewReplacer(`"extension"`, `"dropped"`).Replace(recordOf(s.stored))
	}
	return strings.NewReplacer(`"requested":"v1"`, `"requested":"v2"`, `"by":"p1"`, `"by":"p2"`,
		`"labels"`, `"annotations"`, `"signature":"`, `"signature":"A`).Replace(recordOf(s.stored))
}

func (s *simulation) foreign(k *placement.Keyring, name string) string {
	s.Helper()
	f := &fakeEvaluator{}
	for range 6 {
		var c clause
		c.field, c.key, c.value = s.entry()
		f.clauses = append(f.clauses, c)
	}
	d := &placement.Decider{Namespaces: namespaces{}, Keyring: k, ClusterLists: s.lists, Policies: policies{{
		Name: s.pick("p1", "p2"), Mode: placementv1.ModeEnforce, Matcher: s.matcher, Evaluator: f, Schedules: true,
	}}}
	out, err := d.Decide(s.Context(), placement.Request{Resource: deployments, Namespace: "default", Object: s.newObject(name, s.random())})
	if err != nil {
		s.Fatal(err)
	}
	return recordOf(out.Object)
}

// develop simulates a request of the developer with the values wanted, which may have the record of the object.
func (s *simulation) develop(wanted metadata, keepsRecord bool) {
	s.Helper()
	obj := s.newObject("web", wanted.clone())
	switch {
	case s.rand.IntN(3) == 0:
		setRecord(obj, s.forgery())
	case keepsRecord && s.stored != nil && recordOf(s.stored) != "":
		setRecord(obj, recordOf(s.stored))
	}
	s.send(obj, nil)
}

// send simulates a request of the developer with the object. If its record is that of a snapshot, from is the snapshot.
func (s *simulation) send(obj *unstructured.Unstructured, from *snapshot) {
	s.Helper()
	if s.rand.IntN(4) == 0 && len(obj.GetLabels()) == 0 {
		// Clients also send null and empty maps.
		obj.Object["metadata"].(map[string]any)["labels"] = nil
	}
	wanted := metadataOf(obj)
	if len(s.live) == 0 && s.stored != nil {
		// If no policy matches, Berth does not keep the record. Replacing it makes the current values requested ones.
		if recordOf(obj) != recordOf(s.stored) {
			if from == nil {
				s.stored, s.intent, s.set, s.forged = obj, wanted, valueSets{}, true
			}
			return
		}
		// Berth does not see that the values come back.
		for f := range wanted {
			for key, value := range wanted[f] {
				if s.set.has(f, key, value) && metadataOf(s.stored)[f][key] != value {
					return
				}
			}
		}
	}
	before := snapshot{object: s.stored, intent: s.intent, set: s.set}
	if from != nil && !s.isRecorded() {
		before = *from
	}
	next := s.requestedFrom(obj, from)
	s.from = from
	admitted := s.admit(obj, false)
	s.from = nil
	if !admitted {
		return
	}
	for f, values := range wanted {
		for key, value := range values {
			if requested, there := next[f][key]; (!there || requested != value) && before.object != nil && metadataOf(before.object)[f][key] != value {
				s.returned++
			}
		}
	}
	s.intent, s.set = next, before.set.clone()
	s.learn(before.object, before.intent)
	s.snapshots = append(s.snapshots, snapshot{s.stored, s.intent, s.set.clone()})
}

// isRecorded reports whether the stored object has a valid record.
func (s *simulation) isRecorded() bool {
	return s.stored != nil && !s.forged && recordOf(s.stored) != ""
}

// learn records which values Berth has set. The object before may be nil; intent is what its developer requested.
func (s *simulation) learn(before *unstructured.Unstructured, intent metadata) {
	s.forged = s.forged && len(s.live) == 0
	add := func(obj *unstructured.Unstructured, intent metadata) {
		for f, values := range metadataOf(obj) {
			for key, value := range values {
				if requested, there := intent[f][key]; there && requested == value {
					continue
				}
				if s.set[f+"/"+key] == nil {
					s.set[f+"/"+key] = utilsets.New[string]()
				}
				s.set[f+"/"+key].Insert(value)
			}
		}
	}
	if s.stored.GetAnnotations()[placementv1.AsWrittenAnnotation] == "true" {
		s.set = valueSets{}
		return
	}
	if before != nil {
		add(before, intent)
	}
	add(s.stored, s.intent)
	for f, values := range s.intent {
		for key, value := range values {
			s.set[f+"/"+key].Delete(value)
		}
	}
}

// requested returns what the developer requests with the object that is being admitted.
func (s *simulation) requested(obj *unstructured.Unstructured) metadata {
	return s.requestedFrom(obj, s.from)
}

// requestedFrom returns what the developer requests with an object: what the developer requested before under each key whose value the
// object has already or Berth set once, and all other values as they are written.
func (s *simulation) requestedFrom(obj *unstructured.Unstructured, from *snapshot) metadata {
	wanted, current, known := metadataOf(obj), newMetadata(), s.set
	if s.stored != nil {
		current = metadataOf(s.stored)
	}
	if from != nil && !s.isRecorded() {
		known = from.set
	}
	if wanted["annotations"][placementv1.AsWrittenAnnotation] == "true" {
		known = valueSets{}
	}
	next := newMetadata()
	take := func(field, key string, intent metadata) {
		if value, wished := intent[field][key]; wished {
			next[field][key] = value
		}
	}
	for f := range wanted {
		for key, value := range wanted[f] {
			existing, stands := current[f][key]
			switch {
			case from != nil && from.berths(f, key, value):
				// Berth may have set what the developer requested then.
				requested, wished := from.intent[f][key]
				before := snapshot{object: s.stored, intent: s.intent}
				if wished && s.isRecorded() && (known.has(f, key, requested) || before.berths(f, key, requested)) {
					take(f, key, s.intent)
				} else {
					take(f, key, from.intent)
				}
			case stands && value == existing, known.has(f, key, value), from == nil && s.copied(obj, f, key, value):
				take(f, key, s.intent)
			default:
				next[f][key] = value
			}
		}
	}
	return next
}

// berths reports whether the value in the snapshot is that of a policy.
func (s *snapshot) berths(field, key, value string) bool {
	existing, stands := metadataOf(s.object)[field][key]
	requested, wished := s.intent[field][key]
	return stands && existing == value && (!wished || requested != value)
}

// copied reports whether the object has a record that is not valid, and that says that a policy set the annotation.
func (s *simulation) copied(obj *unstructured.Unstructured, field, key, value string) bool {
	if !s.isRecorded() || field != "annotations" || obj.GetAnnotations()[placementv1.AsWrittenAnnotation] == "true" {
		return false
	}
	var stored, r signedRecord
	if json.Unmarshal([]byte(recordOf(obj)), &r) != nil || json.Unmarshal([]byte(recordOf(s.stored)), &stored) != nil || r.Signature == stored.Signature {
		return false
	}
	entry, there := r.Annotations[key]
	return there && entry.Set == digestOf(value)
}

func digestOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

func setRecord(obj *unstructured.Unstructured, record string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[placementv1.RequestedAnnotation] = record
	obj.SetAnnotations(annotations)
}

func (s *simulation) step() {
	s.Helper()
	if s.stored == nil {
		s.develop(s.random(), false)
		return
	}
	switch s.rand.IntN(12) {
	case 0, 1:
		s.change()
	case 2:
		// Replace the object by a new or an old manifest.
		s.develop(s.random(), false)
	case 3:
		// Apply the developer's own manifest again.
		s.develop(s.intent.clone(), s.rand.IntN(2) == 0)
	case 4:
		// Change one key, as kubectl annotate or kubectl label does.
		m := metadataOf(s.stored)
		field, key, value := s.wish()
		m[field][key] = value
		s.develop(m, true)
	case 5:
		// Remove one key.
		m := metadataOf(s.stored)
		field, key, _ := s.wish()
		delete(m[field], key)
		s.develop(m, true)
	case 6:
		s.remediate()
	case 7:
		name := s.pick("p1", "p2", "p3", "p4")
		s.paused[name] = !s.paused[name]
	default:
		s.history()
	}
}

// history simulates a request that may bring earlier values back.
func (s *simulation) history() {
	s.Helper()
	if s.stored == nil {
		s.develop(s.random(), false)
		return
	}
	switch s.rand.IntN(6) {
	case 0:
		s.develop(s.random(), false)
	case 1:
		m := metadataOf(s.stored)
		field, key, value := s.wish()
		m[field][key] = value
		s.develop(m, true)
	case 2:
		// Undo a rollout: the pod template of an earlier revision returns.
		if m := metadataOf(s.stored); len(s.snapshots) > 0 {
			m["scheduling"] = metadataOf(s.snapshot().object)["scheduling"]
			s.develop(m, s.rand.IntN(2) == 0)
		}
	case 3:
		// Apply a manifest that was read from the cluster, and that may have lost its record.
		if len(s.snapshots) > 0 {
			s.develop(metadataOf(s.snapshot().object), false)
		}
	case 4:
		// Undo a rollout that restores the annotations, too, or restore a backup.
		if len(s.snapshots) > 0 {
			from := s.snapshot()
			if s.rand.IntN(2) == 0 {
				s.stored, s.intent, s.set, s.forged = nil, newMetadata(), valueSets{}, false
			}
			s.restore(from)
		}
	case 5:
		m := metadataOf(s.stored)
		m["annotations"][placementv1.AsWrittenAnnotation] = s.pick("true", "true", "false")
		s.develop(m, true)
	}
}

// snapshot returns a random snapshot.
func (s *simulation) snapshot() snapshot { return s.snapshots[s.rand.IntN(len(s.snapshots))] }

// restore sends a snapshot as it was.
func (s *simulation) restore(from snapshot) {
	s.Helper()
	obj := from.object.DeepCopy()
	if recordOf(obj) == "" || s.stored != nil && recordOf(obj) == recordOf(s.stored) {
		s.send(obj, nil)
		return
	}
	s.send(obj, &from)
}

// remediate does what remediation does: it decides the stored object, and sends it unchanged through the webhook.
func (s *simulation) remediate() {
	s.Helper()
	if s.stored == nil {
		return
	}
	out := s.decide(s.live, s.stored, s.stored, true)
	if refused(out) || len(placement.Patch(s.stored, out.Object, out.Paths)) == 0 {
		return
	}
	before := s.stored
	if !s.admit(s.stored.DeepCopy(), true) {
		s.Fatal("the webhook refused what remediation had decided")
	}
	s.learn(before, s.intent)
	if got, want := s.stored.Object, out.Object.Object; !cmp.Equal(metadataOf(out.Object), metadataOf(s.stored)) {
		s.Fatalf("the webhook changed what remediation had decided:\n%s", cmp.Diff(want, got))
	}
}

func TestSimulation(t *testing.T) {
	for seed := range uint64(budget.Rounds(40)) {
		ok := t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			for range s.rand.IntN(4) {
				s.change()
			}
			for range 30 {
				s.step()
				s.checkIntent()
			}
		})
		if !ok {
			break
		}
	}
}

// TestHistories checks that the requested values are the last that the developer wrote and that Berth had not set, after random
// histories of policies, clusters, undos, replaced manifests, and restored backups.
func TestHistories(t *testing.T) {
	returned := 0
	for seed := range uint64(budget.Rounds(10)) {
		ok := t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			s.decided = true
			s.develop(s.random(), false)
			for range 20 {
				s.change()
				s.remediate()
				s.checkIntent()
				s.history()
				s.checkIntent()
			}
			returned += s.returned
		})
		if !ok {
			return
		}
	}
	if returned == 0 {
		t.Error("no value of Berth returned, so that the test shows nothing")
	}
}
