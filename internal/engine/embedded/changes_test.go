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

package embedded

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// TestChanges checks what is told of the differences between two states in the fields that a policy reads.
func TestChanges(t *testing.T) {
	profile := func(name, level, other string) *unstructured.Unstructured {
		o := document("inventory", name, "kind", "ClusterProfile")
		o.SetLabels(map[string]string{"pci-level": level, "other": other})
		return prepared(profiles, o)
	}
	level := replication.NormalFields(projection.Fields("labels.pci-level").Seal())
	var many []*unstructured.Unstructured
	for i := range 100 {
		many = append(many, profile(fmt.Sprintf("m-%02d", i), "3", "a"))
	}
	for name, tc := range map[string]struct {
		change func(*Data)
		fields *projection.FieldSet
		want   []string
		more   bool
	}{
		"Nothing":    {func(*Data) {}, level, nil, false},
		"OtherField": {func(d *Data) { d.Put(profiles.GroupVersionResource, profile("m-07", "3", "b")) }, level, nil, false},
		"Label":      {func(d *Data) { d.Put(profiles.GroupVersionResource, profile("m-07", "1", "b")) }, level, []string{`inventory/m-07 labels.pci-level "3" "1"`}, false},
		"Created":    {func(d *Data) { d.Put(profiles.GroupVersionResource, profile("new", "1", "b")) }, level, []string{"inventory/new created"}, false},
		"Deleted":    {func(d *Data) { d.Delete(profiles.GroupVersionResource, "inventory", "m-99") }, level, []string{"inventory/m-99 deleted"}, false},
		"ThereAndBack": {func(d *Data) {
			d.Put(profiles.GroupVersionResource, profile("m-07", "1", "a"))
			d.Put(profiles.GroupVersionResource, profile("m-07", "3", "a"))
		}, level, nil, false},
		"OneForOther": {func(d *Data) {
			d.Delete(profiles.GroupVersionResource, "inventory", "m-00")
			d.Put(profiles.GroupVersionResource, profile("new", "1", "b"))
		}, level, []string{"inventory/new created", "inventory/m-00 deleted"}, false},
		"Many": {func(d *Data) {
			for i := range 4 {
				d.Put(profiles.GroupVersionResource, profile(fmt.Sprintf("m-%02d", i), "1", "a"))
			}
		}, level, []string{`inventory/m-00 labels.pci-level "3" "1"`, `inventory/m-01 labels.pci-level "3" "1"`, `inventory/m-02 labels.pci-level "3" "1"`}, true},
		"OtherFieldsKept": {func(d *Data) {
			d.Load(profiles.GroupVersionResource, level, append([]*unstructured.Unstructured{profile("m-00", "1", "b")}, many[1:]...))
		}, level, []string{`inventory/m-00 labels.pci-level "3" "1"`}, false},
		"FieldsNotKept": {func(d *Data) { d.Load(profiles.GroupVersionResource, level, nil) }, projection.AllFields(), nil, false},
		"Dropped":       {func(d *Data) { d.Drop(profiles.GroupVersionResource) }, level, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewData()
			d.Load(profiles.GroupVersionResource, projection.AllFields(), many)
			before := d.State()
			tc.change(d)
			objects, more := d.State().Since(before).Objects(profiles.GroupVersionResource, tc.fields, 3)
			var got []string
			for _, o := range objects {
				text := o.Namespace + "/" + o.Name
				switch {
				case o.Created:
					text += " created"
				case o.Deleted:
					text += " deleted"
				}
				for _, f := range append(o.Fields, o.Normal...) {
					text += fmt.Sprintf(" %s %v %v", strings.Join(f.Path, "."), f.From, f.To)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more {
				t.Errorf("more: %t; changes (-want +got):\n%s", more, diff)
			}
		})
	}
	if objects, _ := NewData().State().Since(State{}).Objects(profiles.GroupVersionResource, level, 3); objects != nil {
		t.Errorf("changes since no state: %v", objects)
	}
}

// TestDescribe checks how messages describe the change of an object.
func TestDescribe(t *testing.T) {
	field := func(from, to ast.Value, path ...string) projection.Difference {
		return projection.Difference{Path: path, From: from, To: to}
	}
	label := field(ast.String("eu"), nil, "metadata", "labels", "zone")
	for name, tc := range map[string]struct {
		change ObjectChange
		values bool
		want   string
	}{
		"Created":    {ObjectChange{Created: true}, true, "created"},
		"Deleted":    {ObjectChange{Deleted: true}, true, "deleted"},
		"Label":      {ObjectChange{Fields: []projection.Difference{label}}, true, `label zone "eu" → none`},
		"WithoutIts": {ObjectChange{Fields: []projection.Difference{label}}, false, "label zone changed"},
		"NormalToo": {
			ObjectChange{Fields: []projection.Difference{label}, Normal: []projection.Difference{field(ast.String("eu"), nil, "labels", "zone")}},
			true, `label zone "eu" → none`,
		},
		"Dots":   {ObjectChange{Fields: []projection.Difference{field(ast.Number("1"), ast.Number("2"), "data", "a.b", "c")}}, true, `data["a.b"].c 1 → 2`},
		"Object": {ObjectChange{Fields: []projection.Difference{field(ast.NewObject(), nil, "spec", "template")}}, true, "spec.template changed"},
		"Many": {
			ObjectChange{Fields: []projection.Difference{label, field(nil, nil, "a"), field(nil, nil, "b")}}, false,
			"label zone changed, a changed, and others",
		},
		"More": {ObjectChange{Fields: []projection.Difference{label}, More: true}, false, "label zone changed, and others"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.change.Describe(tc.values); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
