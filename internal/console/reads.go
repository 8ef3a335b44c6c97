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

package console

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
)

// reads are the fields that each policy reads of the objects of one type, by the name of the policy.
type reads map[string]*projection.FieldSet

// readsOf returns what policies and their predicates read of a type: of the normal form of its objects if normal is true, or else of the
// objects themselves. It is empty if the simulation can't be made, as for a user who may not read what policies read.
func (s *state) readsOf(ctx context.Context, resource schema.GroupVersionResource, normal bool) reads {
	out := reads{}
	simulated, err := s.simulation(ctx)
	if err != nil {
		return out
	}
	for _, p := range simulated.Policies() {
		for _, fields := range []*projection.FieldSet{p.Fields(resource), p.PredicateReads(resource)} {
			if fields == nil {
				continue
			}
			if normal {
				fields = replication.FieldsOfNormal(fields)
			}
			if known := out[p.Name]; known != nil {
				fields = projection.Union(known, fields)
			}
			out[p.Name] = fields
		}
	}
	return out
}

// labels returns the names of the policies that read each member of the map at a path, such as that of labels, sorted; by "*", those that
// may read any member.
func (r reads) labels(path ...string) map[string][]string {
	out := map[string][]string{}
	for policy, fields := range r {
		names, ok := fields.AtPath(path...).MemberNames()
		if !ok {
			names = []string{"*"}
		}
		for _, name := range names {
			out[name] = append(out[name], policy)
		}
	}
	for _, policies := range out {
		slices.Sort(policies)
	}
	return out
}

// annotations returns the annotations of an object that policies read at a path, sorted by key, with Value "" for those that the object
// lacks. If a policy may read any, it also returns the others of the object whose values have at most maxValueLength bytes.
func (r reads) annotations(obj *unstructured.Unstructured, path ...string) []clusterField {
	readBy := r.labels(path...)
	wild := readBy["*"]
	delete(readBy, "*")
	if len(wild) > 0 {
		for name, value := range obj.GetAnnotations() {
			if len(value) <= maxValueLength {
				readBy[name] = append(readBy[name], wild...)
			}
		}
	}
	out := make([]clusterField, 0, len(readBy))
	for _, name := range slices.Sorted(maps.Keys(readBy)) {
		out = append(out, clusterField{
			Name: name, Path: settable([]string{"metadata", "annotations", name}), Value: obj.GetAnnotations()[name], ReadBy: readBy[name],
		})
	}
	return out
}

// of returns the names of the policies that read a field at the top of the document, such as region of the normal form, or something in
// it, sorted; an empty slice for none.
func (r reads) of(field string) []string {
	out := []string{}
	for policy, fields := range r {
		if names, ok := fields.AtPath(field).MemberNames(); !ok || len(names) > 0 {
			out = append(out, policy)
		}
	}
	slices.Sort(out)
	return out
}

// fieldPaths are the fields of spec and the labels of metadata by which objects of the built-in inventories may have region, zones, and
// provider of the normal form. The first path counts that determines the field.
var fieldPaths = []struct {
	name  string
	paths [][]string
}{
	{"region", [][]string{{"spec", "region"}, {"metadata", "labels", "topology.kubernetes.io/region"}}},
	{"zones", [][]string{{"spec", "zones"}, {"metadata", "labels", "topology.kubernetes.io/zone"}}},
	{"provider", [][]string{{"spec", "provider"}}},
}

// fields returns those of the fields region, zones, and provider of the normal form that the user can change in an object of an inventory,
// with the path at which the object has them. It leaves out zones and provider if the cluster lacks them and no policy reads them.
func (r reads) fields(inventories *replication.Inventories, resource schema.GroupVersionResource,
	obj *unstructured.Unstructured) []clusterField {
	out := []clusterField{}
	document, _ := inventories.Cluster(resource, obj.Object)
	for _, f := range fieldPaths {
		value, readBy := document[f.name], r.of(f.name)
		if value == nil && len(readBy) == 0 && f.name != "region" {
			continue
		}
		for _, path := range f.paths {
			if !determines(inventories, resource, obj, path, f.name) {
				continue
			}
			out = append(out, clusterField{Name: f.name, Path: settable(path), Value: inYAML(value), ReadBy: readBy})
			break
		}
	}
	return out
}

// determines reports whether the field at a path of an object determines a field of its normal form: whether that changes with it.
func determines(inventories *replication.Inventories, resource schema.GroupVersionResource, obj *unstructured.Unstructured,
	path []string, field string) bool {
	const probe = "berth-probe"
	changed := obj.DeepCopy()
	var value any = probe
	if field == "zones" && path[0] == "spec" {
		value = []any{probe}
	}
	if err := unstructured.SetNestedField(changed.Object, value, path...); err != nil {
		return false
	}
	document, _ := inventories.Cluster(resource, changed.Object)
	return strings.Contains(fmt.Sprint(document[field]), probe)
}

// settable returns a path in the form that the flag --set of kubectl berth whatif takes, such as metadata.labels['example.com/tier']: names
// with a dot or a slash are in brackets and quotes, and dots join the others.
func settable(path []string) string {
	var out strings.Builder
	for i, name := range path {
		switch {
		case strings.ContainsAny(name, "./"):
			out.WriteString("['" + name + "']")
		case i > 0:
			out.WriteString("." + name)
		default:
			out.WriteString(name)
		}
	}
	return out.String()
}

// inYAML returns a value of the normal form as the page shows and edits it: a string as it is, without quotes, and a list as [a, b]; "" for
// other values.
func inYAML(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		texts := make([]string, len(v))
		for i, item := range v {
			texts[i] = fmt.Sprint(item)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return ""
}
