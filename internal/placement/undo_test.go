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
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

const undoneWeb = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default, uid: u, annotations: {zone: mine, other: x}}, " +
	"spec: {template: {spec: {nodeSelector: {disk: hdd}}}}}"

// placeForUndo places an object with annotations, a label, and, if pods is set, scheduling.
func placeForUndo(t *testing.T, resource schema.GroupVersionResource, text string, pods bool) *unstructured.Unstructured {
	t.Helper()
	obj := fromYAML(t, text)
	var rule map[string]string
	if pods {
		rule = scheduling(t, `{"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a"}], "affinity": `+inA+`}`)
	}
	p := schedules(everything(t), "p", rule)
	p.Evaluator = &fakeEvaluator{clauses: append(clausesOf(rule), clause{field: "annotations", key: "zone", value: "placed"},
		clause{field: "annotations", key: "new", value: "placed"}, clause{field: "labels", key: "tier", value: "placed"})}
	out := decideAs(t, resource, obj, nil, p)
	return applyPatch(t, obj, placement.Patch(obj, out.Object, out.Paths))
}

func clausesOf(rule map[string]string) []clause {
	var out []clause
	for key, value := range rule {
		out = append(out, clause{field: "scheduling", key: key, value: value})
	}
	return out
}

func TestUndo(t *testing.T) {
	resource := func(text string) schema.GroupVersionResource {
		return schema.ParseGroupResource(text).WithVersion("v1")
	}
	const (
		pod     = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: {nodeSelector: {disk: hdd}}}"
		fixed   = " (immutable: delete the pod so that it is created again)"
		owner   = "ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]"
		content = "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default}}"
	)
	web := placeForUndo(t, resource("deployments.apps"), undoneWeb, true)
	// This is the copy that the Deployment controller creates, with the labels of the template.
	copied := fromYAML(t, "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: default, "+owner+
		"}, spec: {template: {spec: {nodeSelector: {disk: ssd}}}}}")
	copied.SetAnnotations(web.GetAnnotations())
	copied.SetLabels(map[string]string{"tier": "placed"})
	cleanCopy := copied.DeepCopy()
	cleanCopy.SetAnnotations(map[string]string{"zone": "mine", "other": "x"})
	changed := web.DeepCopy()
	changed.SetLabels(map[string]string{"tier": "changed"})
	changedClean := fromYAML(t, undoneWeb)
	changedClean.SetLabels(map[string]string{"tier": "changed"})
	placedPod := placeForUndo(t, resource("pods"), pod, true)
	cleanPod := placedPod.DeepCopy()
	cleanPod.SetAnnotations(nil)
	cleanPod.SetLabels(nil)
	renamed := web.DeepCopy()
	renamed.SetName("other")
	renamedClean := renamed.DeepCopy()
	unstructured.RemoveNestedField(renamedClean.Object, "metadata", "annotations", placementv1.RequestedAnnotation)
	all := []string{
		"set annotation zone to mine (was placed)", "remove annotation new", "remove label tier", "set nodeSelector disk to hdd (was ssd)",
		`remove toleration {"key":"a"}`, "remove affinity",
	}
	tests := map[string]struct {
		resource         string
		obj, want        *unstructured.Unstructured
		changes          []string
		verifies, trusts bool
		template         bool
	}{
		"Workload":       {resource: "deployments.apps", obj: web, want: fromYAML(t, undoneWeb), changes: all, trusts: true},
		"ChangedSince":   {resource: "deployments.apps", obj: changed, want: changedClean, changes: slices.Delete(slices.Clone(all), 2, 3), trusts: true},
		"MetadataOnly":   {resource: "configmaps", obj: placeForUndo(t, resource("configmaps"), content, false), want: fromYAML(t, content), changes: []string{"remove annotation zone", "remove annotation new", "remove label tier"}, trusts: true},
		"Pod":            {resource: "pods", obj: placedPod, want: cleanPod, changes: []string{"remove annotation zone", "remove annotation new", "remove label tier", "set nodeSelector disk to hdd (was ssd)" + fixed, `remove toleration {"key":"a"}` + fixed, "remove affinity" + fixed}, trusts: true},
		"Copy":           {resource: "replicasets.apps", obj: copied, want: cleanCopy, changes: []string{"set annotation zone to mine (was placed)", "remove annotation new"}, trusts: true, template: true},
		"OfAnotherName":  {resource: "deployments.apps", obj: renamed, want: renamedClean, verifies: true},
		"WithoutRecord":  {resource: "deployments.apps", obj: fromYAML(t, undoneWeb), want: fromYAML(t, undoneWeb)},
		"UnknownRecords": {resource: "configmaps", obj: fromYAML(t, strings.Replace(content, "default", "default, annotations: {placement.berth.dev/requested: nonsense}", 1)), want: fromYAML(t, content)},
	}
	for name, tc := range tests {
		for keyringName, k := range map[string]*placement.Keyring{"Verified": keyring(t, "k"), "Unverified": placement.NewUnverifiedKeyring()} {
			if tc.verifies && keyringName == "Unverified" {
				continue
			}
			t.Run(name+keyringName, func(t *testing.T) {
				d := &placement.Decider{Keyring: k}
				got, err := d.Undo(t.Context(), resource(tc.resource), tc.obj)
				if err != nil {
					t.Fatal(err)
				}
				result := applyPatch(t, tc.obj, placement.Patch(tc.obj, got.Object, got.Paths))
				for _, field := range []string{"annotations", "labels"} {
					// The API server treats an empty map like a missing one.
					if m, ok, _ := unstructured.NestedMap(result.Object, "metadata", field); ok && len(m) == 0 {
						unstructured.RemoveNestedField(result.Object, "metadata", field)
					}
				}
				if diff := cmp.Diff(tc.want.Object, result.Object); diff != "" {
					t.Errorf("object (-want +got):\n%s", diff)
				}
				var changes []string
				for _, c := range got.Changes {
					changes = append(changes, c.Action())
				}
				slices.Sort(changes)
				slices.Sort(tc.changes)
				if diff := cmp.Diff(tc.changes, changes); diff != "" {
					t.Errorf("changes (-want +got):\n%s", diff)
				}
				if got.Trusted != tc.trusts || got.Template != tc.template {
					t.Errorf("trusted %t, want %t; template %t, want %t", got.Trusted, tc.trusts, got.Template, tc.template)
				}
			})
		}
	}
}

// TestUndoUnknownKind checks that scheduling values cannot be undone in an object whose kind has no known pod template.
func TestUndoUnknownKind(t *testing.T) {
	training := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "trainings"}
	placed := placeForUndo(t, training, "{apiVersion: example.com/v1, kind: Training, metadata: {name: web, namespace: default}, spec: {worker: {pod: {spec: {}}}}}", true)
	d := &placement.Decider{Keyring: keyring(t, "k")}
	if _, err := d.Undo(t.Context(), training, placed); err == nil || !strings.Contains(err.Error(), "podTemplates") {
		t.Errorf("error %v", err)
	}
}
