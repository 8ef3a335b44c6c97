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

package deliverer

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/berth-dev/berth/internal/delivery"
)

// forced are the options of each apply. What Berth delivered is its own, so it overwrites the fields of other managers.
var forced = metav1.ApplyOptions{FieldManager: FieldManager, Force: true}

// checkSuffix ends the name with which the API server checks an object before Berth deletes the one that exists.
const checkSuffix = "-check"

// write gives a delivered object the content body and returns it as it is stored. live is the object before, or nil if there is none.
//
// A server-side apply leaves the fields that other clients own. Those in the field Kind.Whole, and in lists that Berth applies, are then
// replaced by a patch. If the API server refuses to change the object, and would accept it as a new one, Berth deletes it and creates it
// again, if Kind.Recreatable is set.
func (c *Controller) write(ctx context.Context, kind delivery.Kind, id name, live,
	body *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource := c.client(id.GroupVersionResource, id.namespace)
	got, err := c.change(ctx, kind, id, live, body)
	if live == nil || !kind.Recreatable || !isRefusal(err) {
		return got, err
	}
	check, options := body.DeepCopy(), forced
	check.SetName(id.name + checkSuffix)
	options.DryRun = []string{metav1.DryRunAll}
	if _, checked := resource.Apply(ctx, check.GetName(), check, options); checked != nil {
		return nil, err
	}
	if err := resource.Delete(ctx, id.name, metav1.DeleteOptions{Preconditions: sameUID(live)}); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return resource.Apply(ctx, id.name, body, forced)
}

// change changes an object to have the content body, or creates it if live is nil. It returns the object as it is stored.
func (c *Controller) change(ctx context.Context, kind delivery.Kind, id name, live,
	body *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var err error
	if live != nil && c.exceeds(kind, id, live, body) {
		// An apply could be refused for what it leaves, so this comes first.
		if live, err = c.replace(ctx, kind, id, live, body); err != nil {
			return nil, err
		}
		if exceeds(kind, live, body) {
			c.delivered.put(id.GroupVersionResource, live)
			c.delivered.setDefaults(id, wholeOf(kind, live))
		}
		if covers(live.Object, body.Object) {
			return live, nil
		}
	}
	got, err := c.client(id.GroupVersionResource, id.namespace).Apply(ctx, id.name, body, forced)
	if err != nil || covers(got.Object, body.Object) {
		return got, err
	}
	return c.replace(ctx, kind, id, got, body)
}

// replace patches an object, where another client has set something else or more, to have the content body, without metadata and status. It
// removes what body does not have only from the field in which only Berth may set values (Kind.Whole), and from lists that body has. The
// API server refuses it if live is not the newest version. It returns the object as it is stored; live, without a request, if nothing
// differs.
func (c *Controller) replace(ctx context.Context, kind delivery.Kind, id name, live,
	body *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch := contentPatch(kind, live.Object, body.Object)
	if len(patch) == 0 {
		return live, nil
	}
	patch["metadata"] = map[string]any{"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion()}
	// Marshaling does not fail: the content is that of decoded JSON.
	text, _ := json.Marshal(patch)
	return c.client(id.GroupVersionResource, id.namespace).Patch(ctx, id.name, types.MergePatchType, text,
		metav1.PatchOptions{FieldManager: FieldManager})
}

// exceeds reports whether other clients have set something in the field of an object in which only Berth may set values (Kind.Whole): it
// has more there than body and what the system adds.
func (c *Controller) exceeds(kind delivery.Kind, id name, live, body *unstructured.Unstructured) bool {
	return exceeds(kind, live, body) && !equality.Semantic.DeepEqual(c.delivered.defaultsOf(id), wholeOf(kind, live))
}

// exceeds reports whether live has members, at any depth, that body lacks in the field in which only Berth may set values (Kind.Whole),
// apart from the member of the field that others may set, too (Kind.Others). It is false for a kind without Whole.
func exceeds(kind delivery.Kind, live, body *unstructured.Unstructured) bool {
	members, ok := wholeOf(kind, live).(map[string]any)
	if !ok {
		return false
	}
	members = maps.Clone(members)
	delete(members, kind.Others)
	return hasMore(members, wholeOf(kind, body))
}

// wholeOf returns the field of an object in which only Berth may set values (Kind.Whole); nil if the kind or the object has none.
func wholeOf(kind delivery.Kind, o *unstructured.Unstructured) any {
	if kind.Whole == "" {
		return nil
	}
	out, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(kind.Whole, ".")...)
	return out
}

// hasMore reports whether live has members that want does not have, at any depth. It does not look into lists of different lengths.
func hasMore(live, want any) bool {
	switch live := live.(type) {
	case map[string]any:
		members, ok := want.(map[string]any)
		for name, value := range live {
			wanted, known := members[name]
			if ok && (!known || hasMore(value, wanted)) {
				return true
			}
		}
	case []any:
		items, ok := want.([]any)
		for i, item := range live {
			if ok && len(items) == len(live) && hasMore(item, items[i]) {
				return true
			}
		}
	}
	return false
}

// contentPatch returns a JSON merge patch that gives live all that body has, without metadata and status, and removes what body does not
// have from the field in which only Berth may set values (Kind.Whole). It is empty if there is nothing to patch.
func contentPatch(kind delivery.Kind, live, body map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		if patch, differs := mergePatch(kind, name, live[name], body[name]); differs {
			out[name] = patch
		}
	}
	return out
}

// mergePatch returns the part of contentPatch for the value at a path, such as "spec.placement". differs is false if none is needed.
func mergePatch(kind delivery.Kind, path string, live, want any) (patch any, differs bool) {
	whole := kind.Whole != "" && (path == kind.Whole || strings.HasPrefix(path, kind.Whole+"."))
	members, ok := live.(map[string]any)
	wanted, isMap := want.(map[string]any)
	if !ok || !isMap {
		return want, !covers(live, want) || whole && hasMore(live, want)
	}
	out := map[string]any{}
	for name, value := range wanted {
		if patch, differs := mergePatch(kind, path+"."+name, members[name], value); differs {
			out[name] = patch
		}
	}
	for name := range members {
		if _, known := wanted[name]; whole && !known && (path != kind.Whole || name != kind.Others) {
			out[name] = nil
		}
	}
	return out, len(out) > 0
}
