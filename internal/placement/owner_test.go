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
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/workload"
)

// owners is a fake API server. Its objects are by kind, namespace, and name. It counts requests.
type owners struct {
	objects map[string]*unstructured.Unstructured
	err     error
	asked   int
}

func (o *owners) Owner(_ context.Context, namespace string, r metav1.OwnerReference) (*unstructured.Unstructured, error) {
	o.asked++
	return o.objects[r.Kind+" "+namespace+"/"+r.Name], o.err
}

const (
	ownedTemplate  = "{metadata: {labels: {app: web}}, spec: {nodeSelector: {disk: hdd}, containers: [{name: c, image: i, ports: [{containerPort: 80.0}]}]}}"
	hashedTemplate = "{metadata: {labels: {app: web, pod-template-hash: x}}, spec: {nodeSelector: {disk: hdd}, restartPolicy: Always, containers: [{name: c, image: i, ports: [{containerPort: 80, protocol: TCP}]}]}}"
	otherTemplate  = "{metadata: {labels: {app: web}}, spec: {nodeSelector: {disk: tape}, containers: [{name: c, image: i}]}}"
)

// replicaSet returns a ReplicaSet with a controller reference of the kind.
func replicaSet(t testing.TB, apiVersion, kind, name, uid, template string) *unstructured.Unstructured {
	t.Helper()
	return fromYAML(t, "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-x, ownerReferences: [{apiVersion: "+apiVersion+
		", kind: "+kind+", name: "+name+", uid: "+uid+", controller: true}]}, spec: {template: "+template+"}}")
}

func TestOwnedReplicaSet(t *testing.T) {
	known, err := workload.NewTemplates(workload.Template{
		GroupResource: schema.GroupResource{Group: "argoproj.io", Resource: "rollouts"}, Kind: "Rollout", Path: []string{"spec", "template"},
	})
	if err != nil {
		t.Fatal(err)
	}
	deployment := fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, uid: u}, spec: {template: "+ownedTemplate+"}}")
	server := map[string]*unstructured.Unstructured{
		"Deployment default/web":    deployment,
		"Deployment other/far":      deployment,
		"StatefulSet default/web":   fromYAML(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, uid: u}, spec: {template: "+ownedTemplate+"}}"),
		"ConfigMap default/web":     fromYAML(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, uid: u}}"),
		"Rollout default/web":       fromYAML(t, "{apiVersion: argoproj.io/v1, kind: Rollout, metadata: {name: web, uid: u}, spec: {template: "+ownedTemplate+"}}"),
		"Rollout default/templates": fromYAML(t, "{apiVersion: argoproj.io/v1, kind: Rollout, metadata: {name: templates, uid: u}, spec: {workloadRef: {name: web}}}"),
	}
	set := func(apiVersion, kind, name, uid, template string) *unstructured.Unstructured {
		return replicaSet(t, apiVersion, kind, name, uid, template)
	}
	real := set("apps/v1", "Deployment", "web", "u", hashedTemplate)
	relabeled := set("apps/v1", "Deployment", "web", "u", strings.Replace(hashedTemplate, "app: web", "app: gold", 1))
	older := set("apps/v1", "Deployment", "web", "u", otherTemplate)
	unowned := fromYAML(t, "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-x}, spec: {template: "+otherTemplate+"}}")
	scaled := older.DeepCopy()
	scaled.Object["spec"].(map[string]any)["replicas"] = int64(3)
	tests := map[string]struct {
		object, old *unstructured.Unstructured
		err         error
		// kept reports whether the template stays. asked is the number of requests to the API server.
		kept  bool
		asked int
	}{
		"Deployment":        {object: real, kept: true, asked: 1},
		"Rollout":           {object: set("argoproj.io/v1", "Rollout", "web", "u", strings.Replace(hashedTemplate, "pod-t", "rollouts-pod-t", 1)), kept: true, asked: 1},
		"NoOwner":           {object: unowned},
		"ConfigMap":         {object: set("v1", "ConfigMap", "web", "u", hashedTemplate)},
		"StatefulSet":       {object: set("apps/v1", "StatefulSet", "web", "u", hashedTemplate)},
		"OtherGroup":        {object: set("example.com/v1", "Deployment", "web", "u", hashedTemplate)},
		"Nonexistent":       {object: set("apps/v1", "Deployment", "none", "u", hashedTemplate), asked: 1},
		"OtherUID":          {object: set("apps/v1", "Deployment", "web", "v", hashedTemplate), asked: 1},
		"OtherNamespace":    {object: set("apps/v1", "Deployment", "far", "u", hashedTemplate), asked: 1},
		"OtherTemplate":     {object: older, asked: 1},
		"OtherLabels":       {object: relabeled, asked: 1},
		"TemplateElsewhere": {object: set("argoproj.io/v1", "Rollout", "templates", "u", hashedTemplate), asked: 1},
		// The owner changes a ReplicaSet of an older revision, which has another template.
		"OlderRevision":        {object: scaled, old: older, kept: true, asked: 1},
		"OlderRevisionExists":  {object: older, old: older, kept: true, asked: 1},
		"TemplateReplaced":     {object: older, old: real, asked: 1},
		"TemplateReturns":      {object: real, old: older, kept: true, asked: 1},
		"ClaimedLater":         {object: older, old: unowned, asked: 1},
		"ForgedExists":         {object: set("v1", "ConfigMap", "web", "u", hashedTemplate), old: set("v1", "ConfigMap", "web", "u", hashedTemplate)},
		"ControllerChanged":    {object: older, old: set("apps/v1", "Deployment", "web", "v", otherTemplate), asked: 1},
		"LookupFails":          {object: real, err: errors.New("refused"), kept: true, asked: 1},
		"LookupOfOlderFails":   {object: scaled, old: older, err: errors.New("refused"), kept: true, asked: 1},
		"NobodyLooksUpForgery": {object: set("v1", "ConfigMap", "web", "u", hashedTemplate), err: errors.New("refused")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			api := &owners{objects: server, err: tc.err}
			k, err := placement.NewKeyring([]byte(strings.Repeat("k", placement.KeySize)))
			if err != nil {
				t.Fatal(err)
			}
			decide := func(p *placement.Policy) *placement.Outcome {
				d := &placement.Decider{Policies: policies{p}, Namespaces: namespaces{}, Keyring: k, Templates: known, Owners: api}
				out, err := d.Decide(t.Context(), placement.Request{
					Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"},
					Namespace: "default", Object: tc.object, Old: tc.old,
				})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			out := decide(schedules(everything(t), "p", scheduling(t, `{"nodeSelector": {"disk": "ssd"}}`)))
			if patch := placement.Patch(tc.object, out.Object, out.Paths); (len(patch) == 0) != tc.kept {
				t.Errorf("patch %v", patch)
			}
			failed := tc.err != nil && tc.asked > 0
			if v := out.Verdicts[0]; (v.Err != nil) != failed || failed && !errors.Is(v.Err, tc.err) {
				t.Errorf("error %v", v.Err)
			}
			want := ""
			if tc.kept {
				want = "made from another object's template: let the policy match that object"
			}
			if changes := out.Verdicts[0].Changes; !failed && (len(changes) != 1 || changes[0].Immutable != want) {
				t.Errorf("changes %+v", changes)
			}
			if diff := cmp.Diff(tc.asked, api.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			// A policy that does not decide on scheduling causes no lookup.
			api.asked = 0
			decide(&placement.Policy{
				Name: "q", Matcher: everything(t), Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail,
				Remediation: placementv1.RemediationAutomatic, Schedules: true, Evaluator: says(nil),
			})
			if api.asked > 0 {
				t.Error("asked without need")
			}
		})
	}
}
