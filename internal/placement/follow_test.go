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
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/placement"
)

// choosing gives a cluster, and knows others that are eligible, too.
type choosing struct {
	placement.Evaluator
	eligible []string
}

func (c choosing) WhyNot(_ context.Context, _ map[string]any, clusters []string) map[string]string {
	out := map[string]string{}
	for _, name := range clusters {
		if out[name] = "forbidden"; slices.Contains(c.eligible, name) {
			out[name] = placement.ReasonNotChosen
		}
	}
	return out
}

func TestFollow(t *testing.T) {
	server := map[string]*unstructured.Unstructured{
		"Deployment default/web":   fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"a\"]'}}, spec: {template: "+ownedTemplate+"}}"),
		"Widget default/web":       fromYAML(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: web, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"a\"]'}}}"),
		"Deployment default/gone":  fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: gone, namespace: default, uid: u, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a.b/c], annotations: {"+placementv1.ClustersAnnotation+": '[\"a\"]'}}, spec: {template: "+ownedTemplate+"}}"),
		"Deployment default/still": fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: still, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"a\"]'}}, spec: {strategy: {rollingUpdate: {maxSurge: 0%}}, template: "+ownedTemplate+"}}"),
		"Widget default/two":       fromYAML(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: two, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"a\",\"b\"]'}}}"),
		"DaemonSet default/web":    fromYAML(t, "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"a\"]'}}, spec: {template: "+ownedTemplate+"}}"),
	}
	listing := func(o *unstructured.Unstructured, list string, more ...string) *unstructured.Unstructured {
		annotations := map[string]string{placementv1.ClustersAnnotation: list, placementv1.RequestedAnnotation: "copied"}
		for i := 0; i < len(more); i += 2 {
			annotations[more[i]] = more[i+1]
		}
		o.SetAnnotations(annotations)
		return o
	}
	set := func(list, template string, more ...string) *unstructured.Unstructured {
		return listing(replicaSet(t, "apps/v1", "Deployment", "web", "u", template), list, more...)
	}
	object := func(apiVersion, kind, ownerVersion, owner string) *unstructured.Unstructured {
		return fromYAML(t, "{apiVersion: "+apiVersion+", kind: "+kind+", metadata: {name: web-x, ownerReferences: [{apiVersion: "+ownerVersion+
			", kind: "+owner+", name: web, uid: u, controller: true}]}}")
	}
	replicas := func(o *unstructured.Unstructured, n int64) *unstructured.Unstructured {
		o.Object["spec"].(map[string]any)["replicas"] = n
		return o
	}
	of := func(o *unstructured.Unstructured, name string) *unstructured.Unstructured {
		references := o.GetOwnerReferences()
		references[0].Name = name
		o.SetOwnerReferences(references)
		return o
	}
	uid := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		references := o.GetOwnerReferences()
		references[0].UID = "other"
		o.SetOwnerReferences(references)
		return o
	}
	replicas(server["Deployment default/still"], 3)
	setsAlone := matcher(t, placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"replicasets"}}}})
	shares := placementv1.ClusterSharesAnnotation
	const denied = "denied"
	tests := map[string]struct {
		object, old *unstructured.Unstructured
		resource    string
		allowed     string
		change      func(*placement.Policy)
		err         error
		// want is the list that the object gets, or denied.
		want string
		// record reports whether the copied record stays.
		record bool
		asked  int
	}{
		"AllowedAnyway":     {object: set(`["a"]`, hashedTemplate), allowed: "a", want: `["a"]`, record: true},
		"AllowedAmong":      {object: set(`["a"]`, hashedTemplate), allowed: "a b", want: `["a"]`, record: true},
		"AllowedForged":     {object: uid(set(`["a"]`, otherTemplate)), allowed: "a b", want: `["a"]`, record: true},
		"Follows":           {object: set(`["a"]`, hashedTemplate), allowed: "b", want: `["a"]`, record: true, asked: 1},
		"OtherList":         {object: set(`["b"]`, hashedTemplate), allowed: "c", want: denied, asked: 1},
		"LongerList":        {object: set(`["a","b"]`, hashedTemplate), allowed: "b", want: `["b"]`, asked: 1},
		"OtherTemplate":     {object: set(`["a"]`, otherTemplate), allowed: "b", want: denied, asked: 1},
		"OtherUID":          {object: uid(set(`["a"]`, hashedTemplate)), allowed: "b", want: denied, asked: 1},
		"Nonexistent":       {object: listing(replicaSet(t, "apps/v1", "Deployment", "none", "u", hashedTemplate), `["a"]`), allowed: "b", want: denied, asked: 1},
		"Unreadable":        {object: set(`["a"]`, hashedTemplate), allowed: "b", err: errors.New("timeout"), want: `["a"]`, asked: 1},
		"Forbidden":         {object: set(`["a"]`, hashedTemplate), allowed: "b", err: apierrors.NewForbidden(schema.GroupResource{}, "web", nil), want: denied, asked: 1},
		"ControllerLeftOut": {object: set(`["a"]`, hashedTemplate), allowed: "b", change: func(p *placement.Policy) { p.Matcher = setsAlone }, want: denied},
		"NoList":            {object: replicaSet(t, "apps/v1", "Deployment", "web", "u", hashedTemplate), allowed: "b", want: `["b"]`},
		"NoController":      {object: listing(fromYAML(t, "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-x}}"), `["a"]`), allowed: "b", want: denied},
		"Shares":            {object: set(`["a"]`, hashedTemplate, shares, `{"a":{"weight":1}}`), allowed: "a", want: `["a"]`, asked: 1},
		"Ignores":           {object: set(`["a"]`, hashedTemplate), allowed: "a b", change: ignores, want: `["a"]`, record: true, asked: 1},
		"IgnoresForged":     {object: set(`["a"]`, otherTemplate), allowed: "a b", change: ignores, want: `["a","b"]`, asked: 1},
		"Manual":            {object: set(`["a"]`, hashedTemplate), allowed: "b", change: manual, want: `["a"]`, record: true, asked: 1},
		"Scaled":            {object: replicas(set(`["c"]`, otherTemplate), 0), old: replicas(set(`["c"]`, otherTemplate), 2), allowed: "b", want: `["c"]`, record: true, asked: 1},
		"ListChanged":       {object: set(`["c"]`, otherTemplate), old: set(`["b"]`, otherTemplate), allowed: "b", want: denied, asked: 1},
		"ListOfController":  {object: set(`["a"]`, otherTemplate), old: set(`["b"]`, otherTemplate), allowed: "b", want: denied, asked: 1},
		"MorePods":          {object: replicas(set(`["a"]`, hashedTemplate), 3), allowed: "b", want: denied, asked: 1},
		"Surge":             {object: replicas(set(`["a"]`, hashedTemplate), 2), allowed: "b", want: `["a"]`, record: true, asked: 1},
		"NoSurge":           {object: replicas(of(set(`["a"]`, hashedTemplate), "still"), 4), allowed: "b", want: denied, asked: 1},
		"AllPods":           {object: replicas(of(set(`["a"]`, hashedTemplate), "still"), 3), allowed: "b", want: `["a"]`, record: true, asked: 1},
		"ScaledUp":          {object: replicas(set(`["a"]`, hashedTemplate), 3), old: replicas(set(`["a"]`, hashedTemplate), 2), allowed: "b", want: denied, asked: 1},
		"ScaledDown":        {object: replicas(set(`["a"]`, hashedTemplate), 2), old: replicas(set(`["a"]`, hashedTemplate), 3), allowed: "b", want: `["a"]`, record: true, asked: 1},
		"OfTerminating":     {object: of(set(`["a"]`, hashedTemplate), "gone"), allowed: "b", want: denied, asked: 1},
		"WasOfTerminating":  {object: of(set(`["a"]`, hashedTemplate), "gone"), old: of(set(`["a"]`, hashedTemplate), "gone"), allowed: "b", want: `["a"]`, record: true, asked: 1},
		"CustomMore":        {object: of(listing(object("example.com/v1", "Part", "example.com/v1", "Widget"), `["a","b"]`), "two"), resource: "parts", allowed: "b", change: func(p *placement.Policy) { p.Evaluator = choosing{p.Evaluator, []string{"a", "b"}} }, want: `["b"]`, asked: 1},
		"NoKindOfPolicy":    {object: listing(replicaSet(t, "metrics.k8s.io/v1", "PodMetrics", "web", "u", hashedTemplate), `["a"]`), allowed: "b", err: errors.New("timeout"), change: func(p *placement.Policy) { p.Matcher = setsAlone }, want: denied},
		"Claimed":           {object: set(`["c"]`, otherTemplate), old: uid(set(`["c"]`, otherTemplate)), allowed: "b", want: denied, asked: 1},
		"Revision":          {object: listing(object("apps/v1", "ControllerRevision", "apps/v1", "DaemonSet"), `["a"]`), resource: "controllerrevisions", allowed: "b", want: `["a"]`, record: true, asked: 1},
		"RevisionOfOther":   {object: listing(object("apps/v1", "ControllerRevision", "apps/v1", "DaemonSet"), `["b"]`), resource: "controllerrevisions", allowed: "c", want: denied, asked: 1},
		"CustomEligible":    {object: listing(object("example.com/v1", "Part", "example.com/v1", "Widget"), `["a"]`), resource: "parts", allowed: "b", want: `["a"]`, asked: 1},
		"CustomForbidden":   {object: listing(object("example.com/v1", "Part", "example.com/v1", "Widget"), `["a"]`), resource: "parts", allowed: "b", change: func(p *placement.Policy) { p.Evaluator = choosing{p.Evaluator, nil} }, want: denied, asked: 1},
		"PodOfDeployment":   {object: listing(object("v1", "Pod", "apps/v1", "Deployment"), `["a"]`), resource: "pods", allowed: "b", change: func(p *placement.Policy) { p.Evaluator = choosing{p.Evaluator, nil} }, want: denied, asked: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := allows(t, "p", strings.Fields(tc.allowed))
			p.Matcher, p.Evaluator = everything(t), choosing{shared{placement.Decision{Clusters: strings.Fields(tc.allowed)}}, []string{"a"}}
			if tc.change != nil {
				tc.change(p)
			}
			api := &owners{objects: server, err: tc.err}
			resource := tc.object.GroupVersionKind().GroupVersion().WithResource("replicasets")
			if tc.resource != "" {
				resource.Resource = tc.resource
			}
			d := &placement.Decider{Policies: policies{p}, Namespaces: namespaces{}, Keyring: keyring(t, "k"), Owners: api}
			out, err := d.Decide(t.Context(), placement.Request{Resource: resource, Namespace: "default", Object: tc.object, Old: tc.old})
			if err != nil {
				t.Fatal(err)
			}
			got := out.Object.GetAnnotations()[placementv1.ClustersAnnotation]
			v := out.Verdicts[0]
			if len(v.Decision.Errors) > 0 {
				got = denied
			}
			if got != tc.want {
				t.Errorf("got %s, want %s: %v", got, tc.want, v.Decision.Errors)
			}
			if kept := out.Object.GetAnnotations()[placementv1.RequestedAnnotation] == "copied"; kept != tc.record || kept != (v.Follows != "") {
				t.Errorf("the record stays: %t, follows %q", kept, v.Follows)
			}
			if failed := tc.err != nil && tc.asked > 0 && !apierrors.IsForbidden(tc.err); (v.Err != nil) != failed {
				t.Errorf("error %v", v.Err)
			}
			if api.asked != tc.asked {
				t.Errorf("%d reads of the controller, want %d", api.asked, tc.asked)
			}
		})
	}
}

// TestFollowTaken checks that an object does not get back what a policy took from its list.
func TestFollowTaken(t *testing.T) {
	web := fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"a\",\"b\"]'}}, spec: {template: "+ownedTemplate+"}}")
	p := allows(t, "p", []string{"b"})
	p.Matcher = everything(t)
	d := &placement.Decider{Policies: policies{p}, Namespaces: namespaces{}, Keyring: keyring(t, "k"), Owners: &owners{objects: map[string]*unstructured.Unstructured{"Deployment default/web": web}}}
	request := placement.Request{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, Namespace: "default"}
	request.Object = replicaSet(t, "apps/v1", "Deployment", "web", "u", otherTemplate)
	request.Object.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: `["a","b"]`})
	for _, step := range []string{"created", "updated", "remediated"} {
		out, err := d.Decide(t.Context(), request)
		if step == "remediated" {
			request.Old = request.Object
			out, err = d.Remediate(t.Context(), request, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Object.GetAnnotations()[placementv1.ClustersAnnotation]; got != `["b"]` {
			t.Errorf("%s: got %s", step, got)
		}
		request.Object, request.Old = out.Object.DeepCopy(), out.Object
	}
}

// TestFollowExisting checks what remediation makes of objects with a controller: it moves all that run elsewhere than their controller.
func TestFollowExisting(t *testing.T) {
	deployment := fromYAML(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default, uid: u, annotations: {"+placementv1.ClustersAnnotation+": '[\"b\"]'}}, spec: {template: "+ownedTemplate+"}}")
	for name, tc := range map[string]struct {
		list     string
		replicas int64
		want     []string
	}{
		"OfController":     {list: `["b"]`, replicas: 1},
		"OldRevision":      {list: `["a"]`},
		"RunsElsewhere":    {list: `["a"]`, replicas: 1, want: []string{"annotations"}},
		"AsPolicyDecides":  {list: `["c"]`, replicas: 1},
		"AlsoWithoutPods":  {list: `["c"]`},
		"LongerThanPolicy": {list: `["c","d"]`, replicas: 1, want: []string{"annotations"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := replicaSet(t, "apps/v1", "Deployment", "web", "u", otherTemplate)
			o.SetAnnotations(map[string]string{placementv1.ClustersAnnotation: tc.list})
			o.Object["spec"].(map[string]any)["replicas"] = tc.replicas
			p := allows(t, "p", []string{"c"})
			p.Matcher, p.Evaluator, p.Clusters.DeveloperChoice = everything(t), shared{placement.Decision{Clusters: []string{"c"}}}, placementv1.DeveloperChoiceIgnore
			d := &placement.Decider{Policies: policies{p}, Namespaces: namespaces{}, Keyring: keyring(t, "k"), Owners: &owners{objects: map[string]*unstructured.Unstructured{"Deployment default/web": deployment}}}
			out, err := d.Assess(t.Context(), placement.Request{
				Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"},
				Namespace: "default", Object: o, Old: o,
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range out.Verdicts[0].Changes {
				got = append(got, c.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
