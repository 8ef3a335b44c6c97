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
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/internal/replication"
	"github.com/berth-dev/berth/test/budget"
)

var (
	pods     = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}
	nodes    = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	profiles = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}, Namespaced: true}
	managed  = policy.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}}
)

func document(namespace, name string, fields ...any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	out := map[string]any{"metadata": metadata}
	for i := 0; i < len(fields); i += 2 {
		out[fields[i].(string)] = fields[i+1]
	}
	return &unstructured.Unstructured{Object: out}
}

// Replace sets the complete content of a type and keeps all fields. It prepares the objects.
func (d *Data) Replace(resource schema.GroupVersionResource, objects []*unstructured.Unstructured) bool {
	prepared := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		prepared[i] = o.DeepCopy()
		replication.Known().Prepare(resource, prepared[i])
	}
	return d.Load(resource, projection.AllFields(), prepared)
}

// prepared returns an object as the watches deliver it.
func prepared(r policy.Resource, o *unstructured.Unstructured) *unstructured.Unstructured {
	replication.Known().Prepare(r.GroupVersionResource, o)
	return o
}

// revisionOf returns the revision of all data of a type.
func (d *Data) revisionOf(r policy.Resource) uint64 {
	l := d.fieldSetFor(r.GroupVersionResource, projection.AllFields())
	return d.current.Load().revision(l)
}

func TestDataTellsWhatChanged(t *testing.T) {
	d := NewData()
	a, b := document("x", "a", "n", int64(1)), document("x", "b", "n", int64(1))
	steps := []struct {
		name    string
		do      func() bool
		changed bool
		objects int
		ok      bool
	}{
		{"PutBeforeReplace", func() bool { return d.Put(pods.GroupVersionResource, a) }, false, 0, false},
		{"DeleteBeforeReplace", func() bool { return d.Delete(pods.GroupVersionResource, "x", "a") }, false, 0, false},
		{"DropBeforeReplace", func() bool { return d.Drop(pods.GroupVersionResource) }, false, 0, false},
		{"ReplaceByNothing", func() bool { return d.Replace(pods.GroupVersionResource, nil) }, true, 0, true},
		{"ReplaceByNothingAgain", func() bool { return d.Replace(pods.GroupVersionResource, nil) }, false, 0, true},
		{"Put", func() bool { return d.Put(pods.GroupVersionResource, a) }, true, 1, true},
		{"PutAgain", func() bool { return d.Put(pods.GroupVersionResource, a.DeepCopy()) }, false, 1, true},
		{"PutAnother", func() bool { return d.Put(pods.GroupVersionResource, b) }, true, 2, true},
		{"PutChanged", func() bool { return d.Put(pods.GroupVersionResource, document("x", "b", "n", int64(2))) }, true, 2, true},
		{"ReplaceByTheSame", func() bool {
			return d.Replace(pods.GroupVersionResource, []*unstructured.Unstructured{document("x", "b", "n", int64(2)), a})
		}, false, 2, true},
		{"ReplaceByOther", func() bool {
			return d.Replace(pods.GroupVersionResource, []*unstructured.Unstructured{a, document("y", "b")})
		}, true, 2, true},
		{"DeleteUnknown", func() bool { return d.Delete(pods.GroupVersionResource, "x", "b") }, false, 2, true},
		{"DeleteInOtherNamespace", func() bool { return d.Delete(pods.GroupVersionResource, "", "a") }, false, 2, true},
		{"Delete", func() bool { return d.Delete(pods.GroupVersionResource, "x", "a") }, true, 1, true},
		{"OtherTable", func() bool {
			return d.Replace(nodes.GroupVersionResource, []*unstructured.Unstructured{document("", "n")})
		}, true, 1, true},
		{"Drop", func() bool { return d.Drop(pods.GroupVersionResource) }, true, 0, false},
		{"DropAgain", func() bool { return d.Drop(pods.GroupVersionResource) }, false, 0, false},
		{"Refill", func() bool { return d.Replace(pods.GroupVersionResource, nil) }, true, 0, true},
	}
	seen := map[uint64]string{}
	for _, step := range steps {
		before := d.revisionOf(pods)
		if got := step.do(); got != step.changed {
			t.Errorf("%s: changed = %t, want %t", step.name, got, step.changed)
		}
		after := d.revisionOf(pods)
		if n, _, ok := d.Size(pods.GroupVersionResource); n != step.objects || ok != step.ok {
			t.Errorf("%s: %d objects, %t; want %d, %t", step.name, n, ok, step.objects, step.ok)
		}
		if step.name == "OtherTable" {
			step.changed = false
		}
		if (before != after) != step.changed {
			t.Errorf("%s: revision went from %d to %d", step.name, before, after)
		}
		if after != 0 && before != after {
			if used, twice := seen[after]; twice {
				t.Errorf("%s: revision %d was used by %s", step.name, after, used)
			}
			seen[after] = step.name
		}
	}
}

func TestDataDoesNotKeepObjects(t *testing.T) {
	d := NewData()
	o := document("", "n", "labels", map[string]any{"a": "b"})
	d.Replace(nodes.GroupVersionResource, []*unstructured.Unstructured{o})
	o.Object["labels"].(map[string]any)["a"] = "changed"
	got := d.current.Load().lookupResource(&node{resource: &nodes.GroupVersionResource}, []string{"n", "labels", "a"})
	if got == nil || got.Compare(ast.String("b")) != 0 {
		t.Errorf("label is %v", got)
	}
}

// viewOf returns the view of a policy that reads all of the resources.
func viewOf(d *Data, static map[string]any) *view {
	b := &policy.Binding{Clusters: []schema.GroupVersionResource{profiles.GroupVersionResource, managed.GroupVersionResource}}
	for _, r := range []policy.Resource{pods, nodes, profiles, managed} {
		b.Resources = append(b.Resources, r)
		b.Paths = append(b.Paths,
			policy.BoundPath{Path: []string{"kubernetes", r.Resource}, Resource: r.GroupVersionResource},
			policy.BoundPath{Path: []string{"resources", r.GroupVersion().String(), r.Resource}, Resource: r.GroupVersionResource})
	}
	m := &policy.Module{}
	if static != nil {
		m.Static = ast.MustInterfaceToValue(static).(ast.Object)
	}
	return newView(d, m, b)
}

func read(t *testing.T, s storage.Store, path ...string) (ast.Value, bool) {
	t.Helper()
	txn, err := s.NewTransaction(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Abort(t.Context(), txn)
	value, err := s.Read(t.Context(), txn, path)
	switch {
	case storage.IsNotFound(err):
		return nil, false
	case err != nil:
		t.Fatalf("reading %v: %v", path, err)
	}
	if v, ok := value.(ast.Value); ok {
		return v, true
	}
	return ast.MustInterfaceToValue(value), true
}

func TestViewRead(t *testing.T) {
	d := NewData()
	d.Replace(pods.GroupVersionResource, []*unstructured.Unstructured{
		document("x", "a", "list", []any{"p", map[string]any{"q": true}}), document("x", "b"), document("xy", "c"),
	})
	d.Replace(nodes.GroupVersionResource, []*unstructured.Unstructured{document("", "x", "spec", map[string]any{"n": int64(1)})})
	d.Replace(profiles.GroupVersionResource, []*unstructured.Unstructured{
		document("two", "eu"), document("one", "eu"), document("one", "ap", "spec", map[string]any{"clusterManager": map[string]any{"name": "first"}}),
	})
	d.Replace(managed.GroupVersionResource, []*unstructured.Unstructured{document("", "eu"), document("", "us")})
	v := viewOf(d, map[string]any{"acme": map[string]any{"customers": []any{"c1"}}})
	tests := map[string]struct {
		path []string
		want string
	}{
		"Object":              {[]string{"kubernetes", "pods", "x", "b"}, `{"metadata": {"name": "b", "namespace": "x"}}`},
		"Field":               {[]string{"kubernetes", "pods", "x", "a", "metadata", "name"}, `"a"`},
		"ListItem":            {[]string{"kubernetes", "pods", "x", "a", "list", "1", "q"}, "true"},
		"ListItemMissing":     {[]string{"kubernetes", "pods", "x", "a", "list", "2"}, ""},
		"Namespace":           {[]string{"kubernetes", "pods", "xy"}, `{"c": {"metadata": {"name": "c", "namespace": "xy"}}}`},
		"MissingNamespace":    {[]string{"kubernetes", "pods", "z"}, ""},
		"NamespacePrefix":     {[]string{"kubernetes", "pods", "xyz"}, ""},
		"MissingName":         {[]string{"kubernetes", "pods", "x", "c"}, ""},
		"MissingField":        {[]string{"kubernetes", "pods", "x", "b", "spec"}, ""},
		"BelowScalar":         {[]string{"kubernetes", "pods", "x", "b", "metadata", "name", "z"}, ""},
		"ClusterScoped":       {[]string{"kubernetes", "nodes", "x", "spec", "n"}, "1"},
		"ClusterScopedAll":    {[]string{"kubernetes", "nodes"}, `{"x": {"metadata": {"name": "x"}, "spec": {"n": 1}}}`},
		"UnknownType":         {[]string{"kubernetes", "services"}, ""},
		"GroupVersion":        {[]string{"resources", "v1", "nodes", "x", "spec", "n"}, "1"},
		"UnknownGroupVersion": {[]string{"resources", "v2", "nodes"}, ""},
		"Static":              {[]string{"acme", "customers"}, `["c1"]`},
		"StaticMissing":       {[]string{"acme", "partners"}, ""},
		"OtherRoot":           {[]string{"other"}, ""},
		"Cluster":             {[]string{"clusters", "ap", "provider"}, `"first"`},
		"ClusterOfOther":      {[]string{"clusters", "us", "source"}, `"managedclusters.cluster.open-cluster-management.io"`},
		"ClusterMissing":      {[]string{"clusters", "cn"}, ""},
		"ClusterAmbiguous":    {[]string{"clusters", "eu"}, ""},
		"AmbiguousObjects": {[]string{"berth", "ambiguousclusters", "eu"}, `["clusterprofiles.multicluster.x-k8s.io one/eu", "clusterprofiles.multicluster.x-k8s.io two/eu", ` +
			`"managedclusters.cluster.open-cluster-management.io eu"]`},
		"NotAmbiguous": {[]string{"berth", "ambiguousclusters", "us"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			value, ok := read(t, v, tc.path...)
			got := ""
			if ok {
				got = value.String()
			}
			if got != tc.want {
				t.Errorf("Read(%v) = %s, want %s", tc.path, got, tc.want)
			}
		})
	}
	whole, _ := read(t, v)
	for _, root := range []string{"acme", "clusters", "kubernetes", "resources"} {
		if whole.(ast.Object).Get(ast.StringTerm(root)) == nil {
			t.Errorf("data has no %s: %v", root, whole)
		}
	}
	d.Drop(nodes.GroupVersionResource)
	if value, ok := read(t, v, "kubernetes", "nodes"); ok {
		t.Errorf("a dropped type is read: %v", value)
	}
	if err := v.Write(t.Context(), nil, storage.AddOp, storage.Path{"a"}, 1); err == nil {
		t.Error("a view can be written to")
	}
}

// TestTransactionIsASnapshot verifies that a transaction sees one state of the data, however long it lasts.
func TestTransactionIsASnapshot(t *testing.T) {
	d := NewData()
	d.Replace(nodes.GroupVersionResource, []*unstructured.Unstructured{document("", "a")})
	v := viewOf(d, nil)
	txn, err := v.NewTransaction(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.Put(nodes.GroupVersionResource, document("", "b"))
	d.Delete(nodes.GroupVersionResource, "", "a")
	value, err := v.Read(t.Context(), txn, storage.Path{"kubernetes", "nodes"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(value), `{"a": {"metadata": {"name": "a"}}}`; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

// TestViewAgreesWithOPAStore verifies after every change that the view returns the same as OPA's own store with the
// same documents.
func TestViewAgreesWithOPAStore(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	d := NewData()
	v := viewOf(d, map[string]any{"acme": map[string]any{"a": map[string]any{"b": int64(1)}}})
	world := map[string]map[string]any{"pods": {}, "nodes": {}}
	d.Replace(pods.GroupVersionResource, nil)
	d.Replace(nodes.GroupVersionResource, nil)
	d.Replace(profiles.GroupVersionResource, nil)
	d.Replace(managed.GroupVersionResource, nil)
	name := func() string { return string(rune('a' + r.IntN(4))) }
	for range budget.Rounds(400) {
		switch kind := []policy.Resource{pods, nodes}[r.IntN(2)]; r.IntN(3) {
		case 0, 1:
			ns := ""
			if kind.Namespaced {
				ns = name()
			}
			o := document(ns, name(), "f", map[string]any{name(): int64(r.IntN(3))}, "l", []any{name(), name()})
			d.Put(kind.GroupVersionResource, o)
			put(world[kind.Resource], ns, o)
		case 2:
			ns, n := "", name()
			if kind.Namespaced {
				ns = name()
				if in, ok := world["pods"][ns].(map[string]any); ok {
					delete(in, n)
					if len(in) == 0 {
						delete(world["pods"], ns)
					}
				}
			} else {
				delete(world["nodes"], n)
			}
			d.Delete(kind.GroupVersionResource, ns, n)
		}
		oracle := inmem.NewFromObject(map[string]any{
			"acme":       map[string]any{"a": map[string]any{"b": int64(1)}},
			"kubernetes": map[string]any{"pods": world["pods"], "nodes": world["nodes"]},
		})
		for range 10 {
			path := []string{[]string{"kubernetes", "acme"}[r.IntN(2)]}
			if path[0] == "kubernetes" {
				path = append(path, []string{"pods", "nodes"}[r.IntN(2)])
			}
			for range r.IntN(5) {
				path = append(path, []string{name(), "metadata", "f", "l", "0", "name"}[r.IntN(6)])
			}
			want, wantOK := read(t, oracle, path...)
			got, gotOK := read(t, v, path...)
			if gotOK != wantOK || (gotOK && want.Compare(got) != 0) {
				t.Fatalf("Read(%s) = %v, %t; OPA's store: %v, %t", strings.Join(path, "/"), got, gotOK, want, wantOK)
			}
		}
	}
}

func put(table map[string]any, namespace string, o *unstructured.Unstructured) {
	if namespace != "" {
		inner, ok := table[namespace].(map[string]any)
		if !ok {
			inner = map[string]any{}
			table[namespace] = inner
		}
		table = inner
	}
	table[o.GetName()] = o.Object
}

// TestReadersAndWriters verifies that readers never see only one of two objects that one Replace writes.
func TestReadersAndWriters(t *testing.T) {
	d := NewData()
	pair := func(n int64) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{document("", "a", "n", n), document("", "b", "n", n)}
	}
	d.Replace(nodes.GroupVersionResource, pair(0))
	d.Replace(profiles.GroupVersionResource, []*unstructured.Unstructured{document("x", "eu")})
	v := viewOf(d, nil)
	stop := keepReading(func() bool {
		whole, _ := read(t, v, "kubernetes", "nodes")
		a, _ := whole.Find(ast.Ref{ast.StringTerm("a"), ast.StringTerm("n")})
		b, _ := whole.Find(ast.Ref{ast.StringTerm("b"), ast.StringTerm("n")})
		if a == nil || b == nil || a.Compare(b) != 0 {
			t.Errorf("torn: %v", whole)
			return false
		}
		if _, ok := read(t, v, "clusters", "eu"); !ok {
			t.Error("cluster is gone")
			return false
		}
		return true
	})
	for n := range int64(500) {
		d.Replace(nodes.GroupVersionResource, pair(n))
		d.Put(profiles.GroupVersionResource, prepared(profiles, document("x", fmt.Sprintf("c%d", n))))
		d.Delete(profiles.GroupVersionResource, "x", fmt.Sprintf("c%d", n))
	}
	stop()
}

// keepReading starts several concurrent readers. Each reads until a read returns false or until the returned function
// is called, which waits for the readers.
func keepReading(read func() (ok bool)) (stop func()) {
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if !read() {
					return
				}
			}
		})
	}
	return func() {
		close(done)
		readers.Wait()
	}
}
