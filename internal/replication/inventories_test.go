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

package replication_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// sites is an inventory with every field declared that can be declared together.
var sites = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "sites"}

func declared(fields replication.DeclaredFields) replication.Declaration {
	return replication.Declaration{Group: sites.Group, Version: sites.Version, Resource: sites.Resource, Fields: fields}
}

var declaredSites = declared(replication.DeclaredFields{
	Name: "spec.cluster", Properties: "status.facts", Taints: ".spec.taints",
	Region: "spec.location.region", Zones: "spec.location.halls", Provider: "metadata.annotations['fleet.example.com/vendor']", Version: "status.kubernetes",
	Capacity: "status.resources.total", Allocatable: "status.resources.usable", Available: "status.resources.free",
	Ready: &replication.DeclaredReady{Field: "status.online"},
})

func mustDeclare(t testing.TB, all ...replication.Declaration) *replication.Inventories {
	t.Helper()
	out, errs := replication.NewInventories(field.NewPath("inventories"), all...)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out
}

// TestInventoriesInOrder checks that declared inventories follow the built-in ones, in the order of their declarations.
func TestInventoriesInOrder(t *testing.T) {
	other := declared(replication.DeclaredFields{})
	other.Group = "a.example.com"
	later := declared(replication.DeclaredFields{})
	later.Version = "v2"
	got := mustDeclare(t, declaredSites, other, later).Resources()
	want := append(replication.Known().Resources(), sites, sites.GroupResource().WithVersion("v1"), sites.GroupResource().WithVersion("v2"))
	want[len(want)-2].Group = "a.example.com"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if known := replication.Known().Resources(); len(known) != len(want)-3 {
		t.Errorf("what is declared for some is known to all: %v", known)
	}
}

func TestDeclarationsAreValidated(t *testing.T) {
	with := func(change func(*replication.Declaration)) []replication.Declaration {
		d := declared(replication.DeclaredFields{})
		change(&d)
		return []replication.Declaration{d}
	}
	fields := func(f replication.DeclaredFields) []replication.Declaration {
		return []replication.Declaration{declared(f)}
	}
	known := replication.Known().Resources()[0]
	tests := map[string]struct {
		declared []replication.Declaration
		want     []string
	}{
		"Nothing":     {[]replication.Declaration{{}}, []string{"inventories[0].group: Required value", "inventories[0].version: Required value", "inventories[0].resource: Required value"}},
		"Group":       {with(func(d *replication.Declaration) { d.Group = "Fleet" }), []string{`inventories[0].group: Invalid value: "Fleet"`}},
		"Version":     {with(func(d *replication.Declaration) { d.Version = "1" }), []string{`inventories[0].version: Invalid value: "1"`}},
		"Kind":        {with(func(d *replication.Declaration) { d.Resource = "Site" }), []string{`inventories[0].resource: Invalid value: "Site"`}},
		"Subresource": {with(func(d *replication.Declaration) { d.Resource = "sites/status" }), []string{`inventories[0].resource: Invalid value: "sites/status"`}},
		"Known": {with(func(d *replication.Declaration) {
			d.Group, d.Version, d.Resource = known.Group, known.Version, known.Resource
		}), []string{"inventories[0]: Duplicate value: \"multicluster.x-k8s.io/v1alpha1 clusterprofiles\""}},
		"Twice":            {[]replication.Declaration{declaredSites, declaredSites}, []string{"inventories[1]: Duplicate value: \"fleet.example.com/v1 sites\""}},
		"Quota":            {with(func(d *replication.Declaration) { d.Group, d.Resource = "placement.berth.dev", "scopedquotas" }), []string{"inventories[0].resource: Invalid value: \"scopedquotas\": a type of quotas"}},
		"EmptyName":        {fields(replication.DeclaredFields{Region: "spec..region"}), []string{`inventories[0].fields.region: Invalid value: "spec..region"`, `"..region"`}},
		"OnlyADot":         {fields(replication.DeclaredFields{Labels: "."}), []string{`inventories[0].fields.labels: Invalid value: "."`}},
		"DotAtTheEnd":      {fields(replication.DeclaredFields{Labels: "a."}), []string{"inventories[0].fields.labels: Invalid value"}},
		"Wildcard":         {fields(replication.DeclaredFields{Zones: "spec.zones[*]"}), []string{"inventories[0].fields.zones: Invalid value", `"[*]" is not`}},
		"Filter":           {fields(replication.DeclaredFields{Version: `status.c[?(@.type=="x")].v`}), []string{"inventories[0].fields.version: Invalid value"}},
		"Template":         {fields(replication.DeclaredFields{Provider: "{.spec.x}"}), []string{"inventories[0].fields.provider: Invalid value"}},
		"OpenBracket":      {fields(replication.DeclaredFields{Name: "metadata.labels['a.b'"}), []string{"inventories[0].fields.name: Invalid value"}},
		"NothingInBracket": {fields(replication.DeclaredFields{Properties: "a['']"}), []string{"inventories[0].fields.properties: Invalid value"}},
		"Long":             {fields(replication.DeclaredFields{Capacity: strings.Repeat("a.", 1000) + "b"}), []string{"inventories[0].fields.capacity: Invalid value", "longer than"}},
		"Contrary":         {fields(replication.DeclaredFields{Allocatable: "a", Allocated: "b", Available: "c"}), []string{"inventories[0].fields.available: Invalid value"}},
		"PartOfNothing":    {fields(replication.DeclaredFields{Available: "c"}), []string{"inventories[0].fields.allocatable: Required value"}},
		"ReadyNeither":     {fields(replication.DeclaredFields{Ready: &replication.DeclaredReady{}}), []string{"inventories[0].fields.ready: Invalid value"}},
		"ReadyBoth":        {fields(replication.DeclaredFields{Ready: &replication.DeclaredReady{Condition: "Ready", Field: "a"}}), []string{"inventories[0].fields.ready: Invalid value"}},
		"ReadyField":       {fields(replication.DeclaredFields{Ready: &replication.DeclaredReady{Field: "a b"}}), []string{"inventories[0].fields.ready.field: Invalid value"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, errs := replication.NewInventories(field.NewPath("inventories"), tc.declared...)
			if len(errs) == 0 || got != nil {
				t.Fatalf("returned %v, %v", got, errs)
			}
			for _, want := range tc.want {
				if text := errs.ToAggregate().Error(); !strings.Contains(text, want) {
					t.Errorf("error %q lacks %q", text, want)
				}
			}
		})
	}
}

// TestDeclaredForms checks the forms that declared fields may have. A minimal declaration uses the fields that every
// object has, and its clusters are ready.
func TestDeclaredForms(t *testing.T) {
	condition := &replication.DeclaredReady{Condition: "Healthy"}
	tests := map[string]struct {
		fields replication.DeclaredFields
		object string
		want   map[string]any
	}{
		"Bare": {
			object: `{"metadata": {"name": "a", "labels": {"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1"}}, "spec": {"taints": [1]}}`,
			want: map[string]any{
				"name": "a", "labels": map[string]any{"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1"},
				"region": "eu", "zones": []any{"eu-1"}, "ready": true,
			},
		},
		"PropertiesByName":   {replication.DeclaredFields{Properties: "spec.p"}, `{"spec": {"p": {"a": "b", "n": 1}}}`, map[string]any{"properties": map[string]any{"a": "b", "n": 1.0}, "ready": true}},
		"PropertiesPairs":    {replication.DeclaredFields{Properties: "spec.p"}, `{"spec": {"p": [{"name": "a", "value": "b"}]}}`, map[string]any{"properties": map[string]any{"a": "b"}, "ready": true}},
		"OneZone":            {replication.DeclaredFields{Zones: "spec.z"}, `{"spec": {"z": "a"}}`, map[string]any{"zones": []any{"a"}, "ready": true}},
		"OtherLabels":        {replication.DeclaredFields{Labels: "spec.l"}, `{"metadata": {"labels": {"a": "b"}}, "spec": {"l": {"topology.kubernetes.io/region": "eu"}}}`, map[string]any{"labels": map[string]any{"topology.kubernetes.io/region": "eu"}, "region": "eu", "ready": true}},
		"RegionOverLabel":    {replication.DeclaredFields{Region: "spec.r"}, `{"metadata": {"labels": {"topology.kubernetes.io/region": "eu"}}, "spec": {"r": "us"}}`, map[string]any{"labels": map[string]any{"topology.kubernetes.io/region": "eu"}, "region": "us", "ready": true}},
		"Allocated":          {replication.DeclaredFields{Allocatable: "a", Allocated: "b"}, `{"a": {"cpu": "2"}, "b": {"cpu": "500m"}}`, map[string]any{"allocatable": map[string]any{"cpu": "2"}, "allocated": map[string]any{"cpu": "500m"}, "ready": true}},
		"MoreThanThereIs":    {replication.DeclaredFields{Allocatable: "a", Available: "b"}, `{"a": {"cpu": "2"}, "b": {"cpu": "3"}}`, map[string]any{"allocatable": map[string]any{"cpu": "2"}, "allocated": map[string]any{"cpu": "0"}, "ready": true}},
		"Overcommitted":      {replication.DeclaredFields{Allocatable: "a", Available: "b"}, `{"a": {"cpu": "2"}, "b": {"cpu": "-1"}}`, map[string]any{"allocatable": map[string]any{"cpu": "2"}, "allocated": map[string]any{"cpu": "3"}, "ready": true}},
		"NoQuantities":       {replication.DeclaredFields{Allocatable: "a", Available: "b"}, `{"a": {"cpu": "2", "x": "y"}, "b": {"cpu": [], "x": "1"}}`, map[string]any{"allocatable": map[string]any{"cpu": "2", "x": "y"}, "ready": true}},
		"ConditionTrue":      {replication.DeclaredFields{Ready: condition}, `{"status": {"conditions": [{"type": "Healthy", "status": "True"}]}}`, map[string]any{"ready": true}},
		"ConditionFalse":     {replication.DeclaredFields{Ready: condition}, `{"status": {"conditions": [{"type": "Healthy", "status": "False"}]}}`, map[string]any{"ready": false}},
		"ConditionMissing":   {replication.DeclaredFields{Ready: condition}, `{}`, map[string]any{"ready": false}},
		"FieldTrue":          {replication.DeclaredFields{Ready: &replication.DeclaredReady{Field: "status.up"}}, `{"status": {"up": true}}`, map[string]any{"ready": true}},
		"FieldNoBoolean":     {replication.DeclaredFields{Ready: &replication.DeclaredReady{Field: "status.up"}}, `{"status": {"up": "true"}}`, map[string]any{"ready": false}},
		"Terminating":        {object: `{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}`, want: map[string]any{"ready": true, "terminating": true}},
		"PathThroughAScalar": {replication.DeclaredFields{Region: "spec.a.b", Labels: "spec.a.c"}, `{"spec": {"a": "x"}}`, map[string]any{"ready": true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var obj map[string]any
			if err := json.Unmarshal([]byte(tc.object), &obj); err != nil {
				t.Fatal(err)
			}
			got, ok := mustDeclare(t, declared(tc.fields)).Cluster(sites, obj)
			want := map[string]any{
				"name": "", "namespace": "", "source": "sites.fleet.example.com", "labels": map[string]any{}, "annotations": map[string]any{},
				"properties": map[string]any{}, "taints": []any{}, "terminating": false,
			}
			maps.Copy(want, tc.want)
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Errorf("%t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestDeclaredNameIsMissing checks that an object without the declared cluster name represents no cluster.
func TestDeclaredNameIsMissing(t *testing.T) {
	inventories := mustDeclare(t, declaredSites)
	for name, spec := range map[string]any{"Missing": map[string]any{}, "Empty": map[string]any{"cluster": ""}, "Number": map[string]any{"cluster": int64(1)}} {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": spec}}
		if document, ok := inventories.Cluster(sites, obj.Object); ok {
			t.Errorf("%s: stands for %v", name, document)
		}
		inventories.Prepare(sites, obj)
		if own, normal := replication.Parts(obj.Object); normal != nil || own["spec"] == nil {
			t.Errorf("%s: parts %v and %v", name, own, normal)
		}
	}
}

// TestDeclaredIsCutToWhatIsRead checks that the fields that a declaration reads need not be kept, because the normal
// form is computed before the object is cut.
func TestDeclaredIsCutToWhatIsRead(t *testing.T) {
	inventories := mustDeclare(t, declaredSites)
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a"},
		"spec":     map[string]any{"cluster": "eu", "location": map[string]any{"region": "north"}, "large": "x"},
	}}
	inventories.Prepare(sites, obj)
	read := &projection.FieldSet{}
	read.AddName("region").AddAll()
	fields := replication.NormalFields(inventories.Needs(sites, read.Seal()))
	own, normal := replication.Parts(fields.Project(obj.Object))
	if diff := cmp.Diff(map[string]any{"name": "eu", "region": "north"}, normal); diff != "" || len(own) != 0 {
		t.Errorf("own %v, normal (-want +got):\n%s", own, diff)
	}
	managed := replication.Known().Resources()[1]
	if kept := inventories.Needs(managed, read.Seal()).Paths(); !cmp.Equal(kept, []string{".region.**"}) {
		t.Errorf("of an inventory with the objects' names %v are kept", kept)
	}
	profiles := replication.Known().Resources()[0]
	if kept := inventories.Needs(profiles, read.Seal()).Paths(); !cmp.Equal(kept, []string{".provider", ".region.**"}) {
		t.Errorf("of ClusterProfiles, which may be derived, %v are kept", kept)
	}
}

func TestQuantity(t *testing.T) {
	tests := map[string]struct {
		value any
		want  string
		ok    bool
	}{
		"Text":         {"1500m", "1500m", true},
		"Binary":       {"1Gi", "1Gi", true},
		"Whole":        {int64(4), "4", true},
		"Float":        {0.5, "500m", true},
		"Number":       {json.Number("12"), "12", true},
		"Exa":          {"1E", "1E", true},
		"Exponent":     {"1e3", "1e3", true},
		"LeadingZeros": {"1e003", "1e003", true},
		"Huge":         {"1e999999999", "", false},
		"Tiny":         {"1e-9999999", "", false},
		"Long":         {strings.Repeat("1", 4096), "", false},
		"Word":         {"many", "", false},
		"Empty":        {"", "", false},
		"Boolean":      {true, "", false},
		"Nothing":      {nil, "", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q, ok := replication.Quantity(tc.value)
			if ok != tc.ok || ok && q.String() != tc.want {
				t.Errorf("Quantity(%v) = %s, %t, want %s, %t", tc.value, q.String(), ok, tc.want, tc.ok)
			}
		})
	}
}

// FuzzDeclared checks that no accepted declaration and no object breaks the replication. The document must be JSON with
// the fields of the normal form, and the object must be unchanged.
func FuzzDeclared(f *testing.F) {
	f.Add("spec.a", "status.b", "x['y.z']", `{"metadata": {"name": "a"}, "spec": {"a": {"cpu": "1"}}, "status": {"b": [{"name": "p", "value": 1}]}}`, true)
	f.Add(".metadata", "metadata.name", "status.conditions", `{"metadata": {"name": "a"}, "status": {"conditions": [null, 1, {"type": 2}]}}`, false)
	f.Add("a", "a", "a", `{"a": {"cpu": "1e-9999999", "memory": -0.5, "pods": {}}}`, true)
	f.Add("a.a", "a", "b", `{"a": {"a": null}, "b": []}`, false)
	f.Fuzz(func(t *testing.T, one, two, three, text string, field bool) {
		var obj map[string]any
		if json.NewDecoder(strings.NewReader(text)).Decode(&obj) != nil || obj == nil {
			t.Skip()
		}
		ready := &replication.DeclaredReady{Field: three}
		if field {
			ready = &replication.DeclaredReady{Condition: three}
		}
		inventories, errs := replication.NewInventories(nil, declared(replication.DeclaredFields{
			Name: one, Labels: two, Properties: three, Taints: one, Region: two, Zones: three, Provider: one, Version: two,
			Capacity: three, Allocatable: one, Available: two, Ready: ready,
		}))
		if len(errs) > 0 {
			t.Skip()
		}
		before := (&unstructured.Unstructured{Object: obj}).DeepCopy().Object
		document, ok := inventories.Cluster(sites, obj)
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("the object was changed:\n%s", diff)
		}
		if !ok {
			return
		}
		if _, err := json.Marshal(document); err != nil {
			t.Fatal(err)
		}
		for field, is := range map[string]func(any) bool{
			"name":        func(v any) bool { s, ok := v.(string); return ok && (one == "" || s != "") },
			"labels":      func(v any) bool { m, ok := v.(map[string]any); return ok && m != nil },
			"annotations": func(v any) bool { m, ok := v.(map[string]any); return ok && m != nil },
			"properties":  func(v any) bool { m, ok := v.(map[string]any); return ok && m != nil },
			"taints":      func(v any) bool { l, ok := v.([]any); return ok && l != nil },
			"ready":       func(v any) bool { _, ok := v.(bool); return ok },
		} {
			if !is(document[field]) {
				t.Errorf("%s is %v", field, document[field])
			}
		}
	})
}
