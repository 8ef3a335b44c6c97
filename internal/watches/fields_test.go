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

package watches

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/internal/projection"
)

// labels returns the field set of the labels with these names.
func labels(names ...string) *projection.FieldSet {
	f := &projection.FieldSet{}
	for _, name := range names {
		f.AddName("metadata").AddName("labels").AddName(name)
	}
	return f.Seal()
}

func podsWith(fields *projection.FieldSet) map[schema.GroupVersionResource]*projection.FieldSet {
	return map[schema.GroupVersionResource]*projection.FieldSet{pods: fields}
}

// TestHubCuts checks that objects are cut in a list, in a streamed list, and in a watch. The fields that identify
// them remain.
func TestHubCuts(t *testing.T) {
	for name, streams := range map[string]bool{"Listed": false, "Streamed": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
				server.set(func() { server.streams, server.objects[pods] = streams, []string{"a"} })
				prepared := 0
				m.Prepare = func(_ schema.GroupVersionResource, o *unstructured.Unstructured) {
					prepared++
					if _, whole := o.Object["spec"]; !whole {
						t.Error("prepared after it was cut")
					}
					o.SetLabels(map[string]string{"read": o.GetLabels()["read"] + "!"})
				}
				want := func(name string) map[string]any {
					return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
						"name": name, "namespace": "default", "resourceVersion": "2", "labels": map[string]any{"read": "yes!"},
					}}
				}
				m.Set(ctx, podsWith(labels("read")))
				later()
				check(t, m, sink, State{Synced: true}, []string{"a"})
				if diff := cmp.Diff(want("a"), sink.last); diff != "" {
					t.Errorf("object (-want +got):\n%s", diff)
				}
				if !sink.fields.Covers(labels("read")) || sink.fields.Covers(labels("unread")) {
					t.Errorf("fields %v", sink.fields.Paths())
				}
				server.watches(pods)[0].Add(object("b"))
				later()
				check(t, m, sink, State{Synced: true}, []string{"a", "b"})
				if diff := cmp.Diff(want("b"), sink.last); diff != "" {
					t.Errorf("object (-want +got):\n%s", diff)
				}
				if prepared != 2 {
					t.Errorf("prepared %d objects, want 2", prepared)
				}
			})
		})
	}
}

// packing is a Packer that packs an object to its name.
type packing struct {
	*recording
	// packed are the objects that were packed.
	packed []map[string]any
}

func (p *packing) Pack(_ schema.GroupVersionResource, _ *projection.FieldSet, o *unstructured.Unstructured) any {
	p.packed = append(p.packed, o.Object)
	return o.GetName()
}

func (p *packing) ReplacePacked(resource schema.GroupVersionResource, fields *projection.FieldSet, objects []any) {
	p.call(resource, "replace packed", func([]string) []string {
		p.fields = fields
		out := []string{}
		for _, o := range objects {
			out = append(out, o.(string))
		}
		slices.Sort(out)
		return out
	})
}

// TestHubPacks checks that a Packer receives each object of a list, cut to its fields, and then what it made of them, while another
// consumer of the type receives the objects.
func TestHubPacks(t *testing.T) {
	for name, streams := range map[string]bool{"Listed": false, "Streamed": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
				server.set(func() { server.streams, server.objects[pods] = streams, []string{"a", "b"} })
				packer := &packing{recording: &recording{content: map[schema.GroupVersionResource][]string{}}}
				packs := m.hub.NewConsumer(packer, packer.changed)
				packs.Set(ctx, podsWith(labels("read")))
				m.Set(ctx, podsWith(labels("read", "unread")))
				later()
				check(t, packs, packer.recording, State{Synced: true}, []string{"a", "b"})
				server.watches(pods)[0].Add(object("c"))
				later()
				check(t, packs, packer.recording, State{Synced: true}, []string{"a", "b", "c"})
				names := sink.names(pods)
				slices.Sort(names)
				if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
					t.Errorf("content of the other consumer (-want +got):\n%s", diff)
				}
				for _, o := range packer.packed {
					if _, unread, _ := unstructured.NestedString(o, "metadata", "labels", "unread"); unread || o["spec"] != nil {
						t.Errorf("packed %v", o)
					}
				}
				if len(packer.packed) == 0 || slices.Contains(packer.calls, "replace pods") {
					t.Errorf("%d objects were packed; calls %v", len(packer.packed), packer.calls)
				}
				packs.Set(ctx, nil)
			})
		})
	}
}

// slowPacker packs for a second, and notes calls of Pack that overlap.
type slowPacker struct {
	*packing
	packs, overlaps atomic.Int32
}

func (p *slowPacker) Pack(_ schema.GroupVersionResource, _ *projection.FieldSet, o *unstructured.Unstructured) any {
	if p.packs.Add(1) > 1 {
		p.overlaps.Add(1)
	}
	<-time.After(time.Second)
	p.packs.Add(-1)
	return o.GetName()
}

// TestPacksOneByOne checks that no two objects of a type are packed at the same time, also if another consumer begins a new list while the
// objects of one are being packed.
func TestPacksOneByOne(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, _ *recording, m *Consumer) {
		server.set(func() { server.objects[pods] = []string{"a", "b", "c"} })
		packer := &slowPacker{packing: &packing{recording: &recording{content: map[schema.GroupVersionResource][]string{}}}}
		packs := m.hub.NewConsumer(packer, packer.changed)
		packs.Set(ctx, podsWith(labels("read")))
		<-time.After(1500 * time.Millisecond)
		m.Set(ctx, podsWith(labels("read", "unread")))
		later()
		check(t, packs, packer.recording, State{Synced: true}, []string{"a", "b", "c"})
		if n := packer.overlaps.Load(); n > 0 {
			t.Errorf("%d objects were packed while another one was", n)
		}
		packs.Set(ctx, nil)
	})
}

// TestHubGrows checks that a larger field set causes a new list, while the content remains available, and that a
// smaller one causes none.
func TestHubGrows(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() { server.objects[pods] = []string{"a"} })
		steps := []struct {
			wanted *projection.FieldSet
			lists  int
			have   *projection.FieldSet
		}{
			{labels("read"), 1, labels("read")},
			{labels("read"), 1, labels("read")},
			{labels("read", "unread"), 2, labels("read", "unread")},
			{labels("unread"), 2, labels("read", "unread")},
			{labels("read"), 2, labels("read", "unread")},
			{labels("other"), 3, labels("other")},
			{projection.AllFields(), 4, projection.AllFields()},
			{projection.AllFields(), 4, projection.AllFields()},
			{labels("read"), 4, projection.AllFields()},
		}
		for i, step := range steps {
			var fresh bool
			var told int
			// While the server's state is being changed, no request ends.
			server.set(func() {
				m.Set(ctx, podsWith(step.wanted))
				if state, _ := m.State(pods); i > 0 && !state.Synced {
					t.Errorf("step %d: not synced while it is read anew", i)
				}
				// The state is not synced for fields that are still being read, and remains synced for fields that the
				// sink has.
				fresh = server.lists[pods] != step.lists
				if state, _ := m.StateOfFields(pods, step.wanted); state.Synced == fresh {
					t.Errorf("step %d: the wanted fields are synced: %t", i, state.Synced)
				}
				told = sink.changes()
			})
			later()
			check(t, m, sink, State{Synced: true}, []string{"a"})
			if state, _ := m.StateOfFields(pods, step.wanted); !state.Synced {
				t.Errorf("step %d: the wanted fields never came", i)
			}
			if fresh && sink.changes() == told {
				t.Errorf("step %d: nobody is told that the wanted fields are there", i)
			}
			if n := server.listed(pods); n != step.lists {
				t.Errorf("step %d: listed %d times, want %d", i, n, step.lists)
			}
			if !sink.fields.Covers(step.have) || !step.have.Covers(sink.fields) {
				t.Errorf("step %d: fields %v", i, sink.fields)
			}
			if n := len(server.watches(pods)); n != 1 {
				t.Errorf("step %d: %d watches", i, n)
			}
		}
		if slices.Contains(sink.calls, "drop pods") {
			t.Errorf("calls %v", sink.calls)
		}
		if _, whole := sink.last["spec"]; !whole {
			t.Errorf("not the whole object: %v", sink.last)
		}
	})
}

// TestHubGrowsInTrouble checks that the content remains while a larger field set temporarily can't be read, and is
// dropped if the type becomes unavailable.
func TestHubGrowsInTrouble(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, sink *recording, m *Consumer) {
		server.set(func() { server.objects[pods] = []string{"a"} })
		m.Set(ctx, podsWith(labels("read")))
		later()
		down := apierrors.NewServiceUnavailable("down")
		server.set(func() { server.listErr[pods] = down })
		m.Set(ctx, podsWith(labels("read", "unread")))
		later()
		check(t, m, sink, State{Synced: true, Err: down}, []string{"a"})
		if sink.fields.Covers(labels("unread")) {
			t.Error("fields that were never read")
		}
		forbidden := apierrors.NewForbidden(pods.GroupResource(), "", nil)
		server.set(func() { server.listErr[pods] = forbidden })
		later()
		check(t, m, sink, State{Err: forbidden}, nil)
		server.set(func() { delete(server.listErr, pods) })
		later()
		check(t, m, sink, State{Synced: true}, []string{"a"})
		if !sink.fields.Covers(labels("read", "unread")) {
			t.Errorf("fields %v", sink.fields.Paths())
		}
	})
}

// TestHubConfirmed checks that lists, events and bookmarks all confirm the content.
func TestHubConfirmed(t *testing.T) {
	run(t, func(t *testing.T, ctx context.Context, server *faulty, _ *recording, m *Consumer) {
		if !m.LastConfirmed(pods).IsZero() {
			t.Error("a type that is not watched was confirmed")
		}
		m.Set(ctx, podsWith(labels("read")))
		later()
		last := m.LastConfirmed(pods)
		if last.IsZero() {
			t.Error("a list confirms nothing")
		}
		w := server.watches(pods)[0]
		for name, tell := range map[string]func(){
			"Add": func() { w.Add(object("a")) }, "Modify": func() { w.Modify(object("a")) },
			"Delete": func() { w.Delete(object("a")) }, "Bookmark": func() { w.Action("BOOKMARK", bookmark(nil)) },
		} {
			tell()
			later()
			if now := m.LastConfirmed(pods); !now.After(last) {
				t.Errorf("%s confirms nothing", name)
			} else {
				last = now
			}
			later()
		}
		if age := time.Since(last); age < 30*time.Second {
			t.Errorf("confirmed %s ago though nothing came", age)
		}
		// While the type is listed again, its content keeps its age.
		server.set(func() { server.listErr[pods] = apierrors.NewServiceUnavailable("down") })
		m.Set(ctx, podsWith(labels("unread")))
		later()
		if now := m.LastConfirmed(pods); !now.Equal(last) {
			t.Errorf("confirmed at %s, want %s", now, last)
		}
	})
}
