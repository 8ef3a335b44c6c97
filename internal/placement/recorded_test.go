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

package placement

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/clusterlist"
)

// set returns the entry of a value that a policy has set.
func set(policy, value string, requested *string) overwritten {
	return overwritten{By: policy, Set: digest(value), Requested: requested}
}

// recordOf returns the text of a record without valid signatures.
func recordOf(t *testing.T, r record) string {
	t.Helper()
	unsigned := func(record) (string, error) { return "not a signature", nil }
	text, err := r.text(unsigned, unsigned)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// objectWith returns an object with a record.
func objectWith(t *testing.T, text, record string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	if record != "" {
		annotations := metadataOf(obj, fieldAnnotations)
		annotations[placementv1.RequestedAnnotation] = record
		obj.SetAnnotations(annotations)
	}
	return obj
}

// TestRecordedIn checks which values a reader of an object without rights on policies can know of its record.
func TestRecordedIn(t *testing.T) {
	pods := []string{"spec", "template", "spec"}
	const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: gold, app: web}, annotations: {placement.berth.dev/clusters: '["eu-1"]'}}
spec: {template: {spec: {nodeSelector: {pool: fast}, containers: [{name: a, image: a}]}}}
`
	deployment := record{
		Annotations: map[string]overwritten{placementv1.ClustersAnnotation: set("eu", `["eu-1"]`, new(`["eu-1","us-1"]`))},
		Labels:      map[string]overwritten{"tier": set("tiers", "gold", nil)},
		Scheduling:  map[string]overwritten{"nodeSelector/pool": set("pools", "fast", nil)},
	}
	changed := record{
		Annotations: map[string]overwritten{placementv1.ClustersAnnotation: set("eu", `["us-1"]`, new(`["eu-1","us-1"]`))},
		Labels:      map[string]overwritten{"tier": set("tiers", "bronze", new("silver")), "gone": set("tiers", "x", nil)},
		Scheduling:  map[string]overwritten{"nodeSelector/pool": set("pools", "slow", nil)},
	}
	for name, test := range map[string]struct {
		text   string
		record string
		path   []string
		want   ObjectRecord
	}{
		"Recorded": {web, recordOf(t, deployment), pods, ObjectRecord{Values: []Recorded{
			{Field: "annotations", Key: "placement.berth.dev/clusters", Policy: "eu", Current: new(`["eu-1"]`), Requested: new(`["eu-1","us-1"]`)},
			{Field: "labels", Key: "tier", Policy: "tiers", Current: new("gold")},
			{Field: "scheduling", Key: "nodeSelector/pool", Policy: "pools", Current: new("fast")},
		}}},
		"ChangedSince": {web, recordOf(t, changed), pods, ObjectRecord{Values: []Recorded{
			{Field: "annotations", Key: "placement.berth.dev/clusters", Policy: "eu", Current: new(`["eu-1"]`), Requested: new(`["eu-1"]`), Changed: true},
			{Field: "labels", Key: "gone", Policy: "tiers", Changed: true},
			{Field: "labels", Key: "tier", Policy: "tiers", Current: new("gold"), Requested: new("gold"), Changed: true},
			{Field: "scheduling", Key: "nodeSelector/pool", Policy: "pools", Current: new("fast"), Requested: new("fast"), Changed: true},
		}}},
		"NoRecord":   {"metadata: {name: a, annotations: {a: b}}", "", nil, ObjectRecord{}},
		"Unreadable": {"metadata: {name: a}", "no record", nil, ObjectRecord{Unreadable: true}},
		"TooLong":    {"metadata: {name: a}", strings.Repeat(" ", 1<<18) + "{}", nil, ObjectRecord{Unreadable: true}},
		"WithoutPolicy": {
			"metadata: {labels: {a: b}}", recordOf(t, record{Labels: map[string]overwritten{"a": set("", "b", nil)}}), nil,
			ObjectRecord{Values: []Recorded{{Field: "labels", Key: "a", Current: new("b")}}},
		},
		"NoPathOfPods": {
			"{kind: Training}", recordOf(t, record{Scheduling: map[string]overwritten{"schedulerName": set("p", "x", new("y"))}}), nil,
			ObjectRecord{Values: []Recorded{{
				Field: "scheduling", Key: "schedulerName", Policy: "p", Requested: new("y"),
				Unknown: "it is not known where objects of kind Training have their pod spec: the manager's configuration has to say it, under podTemplates",
			}}},
		},
		"InvalidPods": {
			"{kind: Deployment, spec: {template: {spec: {nodeSelector: {a: 1}}}}}", recordOf(t, record{Scheduling: map[string]overwritten{"nodeSelector/a": set("p", "x", nil)}}), pods,
			ObjectRecord{Values: []Recorded{{
				Field: "scheduling", Key: "nodeSelector/a", Policy: "p", Unknown: "spec.template.spec.nodeSelector is not a map of strings",
			}}},
		},
		"CopiedToReplicaSet": {
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, labels: {tier: gold}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}}`,
			recordOf(t, deployment), pods, ObjectRecord{CopiedFrom: "Deployment web"},
		},
		"CopiedToRevision": {
			`{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: db-1, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true}]}}`,
			recordOf(t, deployment), nil, ObjectRecord{CopiedFrom: "StatefulSet db"},
		},
		"OwnReplicaSet": {
			`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web, labels: {tier: gold}}}`,
			recordOf(t, record{Labels: map[string]overwritten{"tier": set("tiers", "gold", nil)}}), pods,
			ObjectRecord{Values: []Recorded{{Field: "labels", Key: "tier", Policy: "tiers", Current: new("gold")}}},
		},
	} {
		obj := objectWith(t, test.text, test.record)
		before := obj.DeepCopy()
		if diff := cmp.Diff(test.want, RecordedIn(obj, test.path, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("%s: the object changed (-was +is):\n%s", name, diff)
		}
	}
}

// TestRecordedAffinity checks that what a policy added to an affinity is shown as far as it is there.
func TestRecordedAffinity(t *testing.T) {
	const (
		own   = `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["a"]}]},"weight":1}]}}`
		added = `{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"topologyKey":"zone"},"weight":1}]}}`
	)
	object := func(affinity string) *unstructured.Unstructured {
		return objectWith(t, "{kind: Deployment, spec: {template: {spec: {affinity: "+affinity+"}}}}", "")
	}
	var whole map[string]any
	for _, part := range []string{own, added} {
		if err := json.Unmarshal([]byte(part), &whole); err != nil {
			t.Fatal(err)
		}
	}
	both, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	pods := []string{"spec", "template", "spec"}
	text := readPodSpec(object(string(both)), pods).flat["affinity"]
	annotation := recordOf(t, record{
		Scheduling: map[string]overwritten{"affinity/zones": {By: "zones", Set: digest(added), Value: new(added)}},
		Affinity:   &overwritten{Set: digest(text), Requested: new(own)},
	})
	for name, test := range map[string]struct {
		affinity string
		path     []string
		want     Recorded
	}{
		"Added":   {string(both), pods, Recorded{Current: new(added), Requested: new(own)}},
		"Removed": {own, pods, Recorded{Requested: new(own), Changed: true}},
		"Unknown": {string(both), nil, Recorded{Requested: new(own), Unknown: "it is not known where objects of kind Deployment have their pod spec: the manager's configuration has to say it, under podTemplates"}},
	} {
		obj := object(test.affinity)
		obj.SetAnnotations(map[string]string{placementv1.RequestedAnnotation: annotation})
		test.want.Field, test.want.Key, test.want.Policy = "scheduling", "affinity/zones", "zones"
		if diff := cmp.Diff(ObjectRecord{Values: []Recorded{test.want}}, RecordedIn(obj, test.path, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRecordedClusters checks that the clusters of a placement object are read where its kind lists them, and not in the annotation.
func TestRecordedClusters(t *testing.T) {
	propagation := (*clusterlist.Kinds)(nil).Of(schema.GroupResource{Group: "policy.karmada.io", Resource: "propagationpolicies"})
	const (
		manifest = `{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: web, annotations: {placement.berth.dev/clusters: '["other"]'}}, spec: {placement: PLACEMENT}}`
		names    = "spec.placement.clusterAffinity.clusterNames"
	)
	annotation := recordOf(t, record{
		Annotations: map[string]overwritten{placementv1.ClustersAnnotation: set("eu", `["eu-1"]`, new(`["eu-1","us-1"]`))},
		extended:    extended{extension: extension{Form: "{}"}},
	})
	for name, test := range map[string]struct {
		placement string
		kind      *clusterlist.Kind
		want      Recorded
	}{
		"Placed": {"{clusterAffinity: {clusterNames: [eu-1]}}", propagation, Recorded{
			Field: "clusters", Key: names, Current: new(`["eu-1"]`), Requested: new(`["eu-1","us-1"]`),
		}},
		"Changed": {"{clusterAffinity: {clusterNames: [us-1]}}", propagation, Recorded{
			Field: "clusters", Key: names, Current: new(`["us-1"]`), Requested: new(`["us-1"]`), Changed: true,
		}},
		"Invalid": {"{clusterAffinity: {clusterNames: eu-1}}", propagation, Recorded{
			Field: "clusters", Key: names, Requested: new(`["eu-1","us-1"]`), Unknown: names + " must be a list",
		}},
		"Undeclared": {"{clusterAffinity: {clusterNames: [eu-1]}}", nil, Recorded{
			Field: "annotations", Key: placementv1.ClustersAnnotation, Requested: new(`["eu-1","us-1"]`),
			Unknown: "it is not known where objects of kind PropagationPolicy list clusters: the manager's configuration has to say it, under placements",
		}},
	} {
		test.want.Policy = "eu"
		obj := objectWith(t, strings.ReplaceAll(manifest, "PLACEMENT", test.placement), annotation)
		if diff := cmp.Diff(ObjectRecord{Values: []Recorded{test.want}}, RecordedIn(obj, nil, test.kind)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
