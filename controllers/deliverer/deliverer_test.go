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
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/delivery"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/internal/projection"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCovers(t *testing.T) {
	tests := map[string]struct {
		live, want string
		covers     bool
	}{
		"Equal":          {live: `{a: 1, b: [x, y]}`, want: `{a: 1, b: [x, y]}`, covers: true},
		"MoreFields":     {live: `{a: 1, b: {c: 2, d: 3}}`, want: `{b: {c: 2}}`, covers: true},
		"OtherValue":     {live: `{a: 1}`, want: `{a: 2}`},
		"Absent":         {live: `{a: 1}`, want: `{b: 1}`},
		"LongerList":     {live: `{b: [x, y, z]}`, want: `{b: [x, y]}`},
		"ShorterList":    {live: `{b: [x]}`, want: `{b: [x, y]}`},
		"OtherOrder":     {live: `{b: [y, x]}`, want: `{b: [x, y]}`},
		"EmptyList":      {live: `{b: []}`, want: `{b: []}`, covers: true},
		"NotEmptyList":   {live: `{b: [x]}`, want: `{b: []}`},
		"NoList":         {live: `{b: x}`, want: `{b: [x]}`},
		"NoObject":       {live: `{b: x}`, want: `{b: {}}`},
		"AnotherOwner":   {live: `{owners: [{uid: other, kind: K}, {uid: own, kind: K}]}`, want: `{owners: [{uid: own, kind: K}]}`, covers: true},
		"NoLongerOwner":  {live: `{owners: [{uid: other, kind: K}]}`, want: `{owners: [{uid: own, kind: K}]}`},
		"DefaultsInList": {live: `{b: [{name: x, extra: 1}]}`, want: `{b: [{name: x}]}`, covers: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := covers(object(t, tc.live), object(t, tc.want)); got != tc.covers {
				t.Errorf("covers is %t, want %t", got, tc.covers)
			}
		})
	}
}

func TestContests(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	c := newContests(clock)
	id, other := name{namespace: "a", name: "b"}, name{namespace: "a", name: "c"}
	var waits []time.Duration
	for range 7 {
		waits = append(waits, c.wait(id))
	}
	// Up to the tolerated delay, an object is written at once.
	want := []time.Duration{0, 0, 0, 0, 8 * time.Second, 8 * time.Second, 8 * time.Second}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if got := c.wait(other); got != 0 {
		t.Errorf("another object waits %s", got)
	}
	clock.Step(9 * time.Second)
	if got := c.wait(id); got != 0 {
		t.Errorf("after the delay, the object waits %s", got)
	}
	if got := c.wait(id); got != 16*time.Second {
		t.Errorf("then it waits %s", got)
	}
}

func TestContestsForget(t *testing.T) {
	c := newContests(clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))
	key := delivery.Key{GroupKind: schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}, Namespace: "default", Name: "train"}
	if c.recordStatus(key, "x") || !c.recordStatus(key, "x") {
		t.Error("the second status is the same, and the first one is not")
	}
	c.forget(key)
	if len(c.statuses) > 0 {
		t.Errorf("statuses of objects that are gone: %v", c.statuses)
	}
}

// TestHashOfKeptClusters has a client remove the annotation with the clusters that are kept: each time, Berth writes it with a later
// time. It has to notice that it writes the same again.
func TestHashOfKeptClusters(t *testing.T) {
	hash := func(clusters string) string {
		t.Helper()
		o := deliveredObject("web-1", "web", "")
		o.SetAnnotations(map[string]string{placementv1.DeliveredClustersAnnotation: clusters})
		body, _ := split(delivery.Delivered{Object: o})
		if got := body.GetAnnotations()[placementv1.DeliveredClustersAnnotation]; got != clusters {
			t.Errorf("the annotation is %s, want %s", got, clusters)
		}
		return body.GetAnnotations()[hashAnnotation]
	}
	first := hash(`{"a":"2026-01-02T12:00:00Z","b":""}`)
	if got := hash(`{"a":"2026-01-02T12:00:09Z","b":""}`); got != first {
		t.Errorf("another time changes the hash from %s to %s", first, got)
	}
	if got := hash(`{"a":"","b":""}`); got == first {
		t.Error("the decision for a does not change the hash")
	}
}

var policies = schema.GroupVersionResource{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "propagationpolicies"}

func deliveredObject(objectName, owner, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
		"metadata": map[string]any{
			"name": objectName, "namespace": "default", "uid": "1", "resourceVersion": version,
			"labels":          map[string]any{"placement.berth.dev/delivered": "true"},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "2"}},
		},
	}}
}

func TestDeliveredObjects(t *testing.T) {
	var changed []delivery.Key
	web := delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: "web"}
	api := web
	api.Name = "api"
	foreign := &foreignObjects{}
	d := newDeliveredObjects(func(keys ...delivery.Key) { changed = append(changed, keys...) }, foreign)
	step := func(what string, want []delivery.Key, f func()) {
		t.Helper()
		changed = nil
		f()
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("%s: owners (-want +got):\n%s", what, diff)
		}
	}
	version := func() string {
		for _, o := range d.of(web) {
			return o.GetResourceVersion()
		}
		return ""
	}
	step("the content", []delivery.Key{web}, func() {
		d.Replace(policies, nil, []*unstructured.Unstructured{deliveredObject("web-1", "web", "5")})
	})
	step("a newer version", []delivery.Key{web}, func() { d.Put(policies, deliveredObject("web-1", "web", "7")) })
	step("an older version, which the watch sends after the answer to a write", nil, func() { d.Put(policies, deliveredObject("web-1", "web", "6")) })
	if got := version(); got != "7" {
		t.Errorf("version %s, want 7", got)
	}
	step("another owner", []delivery.Key{web, api}, func() { d.Put(policies, deliveredObject("web-1", "api", "8")) })
	unlabeled := func(uid types.UID, version string) *unstructured.Unstructured {
		o := deliveredObject("web-1", "api", version)
		o.SetUID(uid)
		o.SetLabels(nil)
		o.SetOwnerReferences(nil)
		return o
	}
	uid := deliveredObject("web-1", "api", "8").GetUID()
	step("no label and no owner any more", []delivery.Key{api}, func() { d.Put(policies, unlabeled(uid, "9")) })
	if got := d.of(api); len(got) != 1 {
		t.Errorf("delivered objects without a label: %v", got)
	}
	step("a list after that", []delivery.Key{api}, func() { d.Replace(policies, nil, []*unstructured.Unstructured{unlabeled(uid, "10")}) })
	step("the label again", []delivery.Key{api}, func() { d.Put(policies, deliveredObject("web-1", "api", "11")) })
	step("no label any more", []delivery.Key{api}, func() { d.Put(policies, unlabeled(uid, "12")) })
	step("another object of that name", []delivery.Key{api}, func() { d.Put(policies, unlabeled("9", "13")) })
	if got := d.of(api); len(got) != 0 {
		t.Errorf("an object that another client created: %v", got)
	}
	step("an object of another client", nil, func() {
		o := deliveredObject("foreign", "web", "9")
		o.SetLabels(nil)
		d.Put(policies, o)
		foreign.block(name{policies, "default", "foreign"}, web)
	})
	step("the end of an object that stood in the way", []delivery.Key{web}, func() { d.Delete(policies, "default", "foreign") })
	step("the end of an unknown object", nil, func() { d.Delete(policies, "default", "foreign") })
	if got := d.resources(); len(got) != 0 {
		t.Errorf("types of delivered objects: %v", got)
	}
	// After a restore of the API server's store, versions are lower.
	step("a lower version in a new list", []delivery.Key{web}, func() {
		d.Replace(policies, nil, []*unstructured.Unstructured{deliveredObject("web-1", "web", "3")})
	})
	if got := version(); got != "3" {
		t.Errorf("version %s, want 3", got)
	}
	step("a list without the object", []delivery.Key{web}, func() { d.Replace(policies, nil, nil) })
	if got := d.of(web); len(got) > 0 {
		t.Errorf("delivered objects that are gone: %v", got)
	}
	step("the object again", []delivery.Key{web}, func() { d.Put(policies, deliveredObject("web-1", "web", "4")) })
	step("the end of the watch", []delivery.Key{web}, func() { d.Drop(policies) })
}

var (
	resourceBindings = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha2", Resource: "resourcebindings"}
	karmadaWorks     = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"}
)

// reporting is a ResourceBinding that reports the Deployment web of the namespace default.
func reporting(t *testing.T, namespace, objectName, health string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: object(t, fmt.Sprintf(`
metadata: {namespace: %s, name: %s, generation: 1}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: web, uid: "1"}
  clusters: [{name: a}]
status: {schedulerObservedGeneration: 1, aggregatedStatus: [{clusterName: a, applied: true, health: %s}]}
`, namespace, objectName, health))}
}

func TestReports(t *testing.T) {
	web := delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: "web"}
	var changed []delivery.Key
	r := newReports(func(keys ...delivery.Key) { changed = append(changed, keys...) })
	step := func(what string, touches bool, want string, f func()) {
		t.Helper()
		changed = nil
		f()
		got := "none"
		if observed := r.of(resourceBindings, web); observed != nil {
			missing, reported := observed.Clusters["a"]
			if got = missing; !reported {
				got = "strays " + observed.Strays["a"]
			}
		}
		if got != want || (len(changed) > 0) != touches {
			t.Errorf("%s: %q, want %q; changed %v", what, got, want, changed)
		}
	}
	put := func(namespace, name, health string) func() {
		return func() { r.Put(resourceBindings, reporting(t, namespace, name, health)) }
	}
	step("a change before the content", false, "none", put("default", "web-deployment", "Healthy"))
	step("the content", true, "", func() {
		r.Replace(resourceBindings, nil, []*unstructured.Unstructured{reporting(t, "default", "web-deployment", "Healthy")})
	})
	step("the same again", false, "", put("default", "web-deployment", "Healthy"))
	step("a report of a client in another namespace", false, "", put("mallory", "web-deployment", "Unhealthy"))
	// A client with Karmada's ClusterRole karmada-edit may write bindings in its namespace.
	step("a binding of a client", true, "", put("default", "web-second", "Unhealthy"))
	step("a binding of a client whose name comes first", true, "", put("default", "a-third", "Unhealthy"))
	step("the end of Karmada's own", true, "strays ResourceBinding a-third", func() { r.Delete(resourceBindings, "default", "web-deployment") })
	step("a healthy binding of a client", false, "strays ResourceBinding a-third", put("default", "a-third", "Healthy"))
	step("Karmada's own again", true, "", put("default", "web-deployment", "Healthy"))
	step("the end of the third one", true, "", func() { r.Delete(resourceBindings, "default", "a-third") })
	step("the end of the second one", true, "", func() { r.Delete(resourceBindings, "default", "web-second") })
	step("the same list", false, "", func() {
		r.Replace(resourceBindings, nil, []*unstructured.Unstructured{reporting(t, "default", "web-deployment", "Healthy")})
	})
	step("another list", true, "its health is Unhealthy", func() {
		r.Replace(resourceBindings, nil, []*unstructured.Unstructured{reporting(t, "default", "web-deployment", "Unhealthy")})
	})
	step("another object", true, "none", func() {
		o := reporting(t, "default", "web-deployment", "Healthy")
		_ = unstructured.SetNestedField(o.Object, "api", "spec", "resource", "name")
		r.Put(resourceBindings, o)
	})
	step("the end of the watch", true, "none", func() { r.Drop(resourceBindings) })
}

func TestOwnerOf(t *testing.T) {
	other := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "3"}
	own := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "2"}
	want := delivery.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "default", Name: "web"}
	objectName := delivery.NameOf(delivery.Object{GroupVersionKind: want.WithVersion("v1"), Namespace: "default", Name: "web"})
	for what, tc := range map[string]struct {
		name   string
		owners []any
	}{
		"one owner":                         {objectName, []any{own}},
		"an owner of another client before": {objectName, []any{other, own}},
		"one of several slices":             {objectName + "-1", []any{other, own}},
		// The PlacementDecisions of a matched Placement have names without a hash.
		"another name": {"web-decision-1", []any{own, other}},
	} {
		o := deliveredObject(tc.name, "web", "1")
		_ = unstructured.SetNestedSlice(o.Object, tc.owners, "metadata", "ownerReferences")
		if got, ok := ownerOf(o); !ok || got != want {
			t.Errorf("%s: the owner is %v, %t", what, got, ok)
		}
	}
}

// TestObjectsOfOthers checks which objects do not count as delivered by Berth.
func TestObjectsOfOthers(t *testing.T) {
	for what, change := range map[string]func(*unstructured.Unstructured){
		"no label": func(o *unstructured.Unstructured) { o.SetLabels(nil) },
		"another label": func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{placementv1.DeliveredLabel: "false"})
		},
		"no owner":           func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) },
		"a controller":       func(o *unstructured.Unstructured) { owned(o, "apps/v1", true) },
		"an unknown version": func(o *unstructured.Unstructured) { owned(o, "a/b/c", false) },
	} {
		o := deliveredObject("web-1", "web", "1")
		change(o)
		if owner, ok := ownerOf(o); ok {
			t.Errorf("%s: the owner is %v", what, owner)
		}
	}
}

// owned gives an object one owner.
func owned(o *unstructured.Unstructured, apiVersion string, controller bool) {
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Deployment", Name: "web", UID: "2", Controller: &controller}})
}

func TestLiveIn(t *testing.T) {
	karmada := delivery.AllSystems()[0]
	existing := map[name]*unstructured.Unstructured{}
	for _, objectName := range []string{"copy-1", "web", "copy-2", "ends"} {
		existing[name{policies, "default", objectName}] = deliveredObject(objectName, "web", "1")
	}
	existing[name{policies, "default", "ends"}].SetDeletionTimestamp(new(metav1.Now()))
	for range 20 {
		if got := liveIn(karmada, "web", existing); got.GetName() != "web" {
			t.Fatalf("the delivered object is %s", got.GetName())
		}
	}
	if got := liveIn(karmada, "ends", existing); got != nil {
		t.Errorf("an object that is being deleted counts: %v", got)
	}
}

func TestPlacedObjectsAmong(t *testing.T) {
	p := newPlacedObjects(func(...delivery.Key) {}, func(schema.GroupVersionResource) {})
	web := &unstructured.Unstructured{Object: object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web}}`)}
	p.Replace(deployments, nil, []*unstructured.Unstructured{web})
	other := keyOf(web)
	other.Namespace = "other"
	if diff := cmp.Diff([]delivery.Key{keyOf(web)}, p.among([]delivery.Key{other, keyOf(web)})); diff != "" {
		t.Errorf("existing objects (-want +got):\n%s", diff)
	}
	p.Drop(deployments)
	if got := p.among([]delivery.Key{keyOf(web)}); len(got) > 0 {
		t.Errorf("existing objects of a type that is not watched: %v", got)
	}
}

func TestPlacedObjects(t *testing.T) {
	var changed []delivery.Key
	settled := 0
	p := newPlacedObjects(func(keys ...delivery.Key) { changed = append(changed, keys...) }, func(schema.GroupVersionResource) { settled++ })
	of := func(objectName string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: `+objectName+`}}`)}
	}
	web, api := of("web"), of("api")
	step := func(what string, want []delivery.Key, isSettled bool, f func()) {
		t.Helper()
		changed, settled = nil, 0
		before := p.isSettled(deployments)
		f()
		if told := settled > 0; told != (isSettled && !before) {
			t.Errorf("%s: told that the type is settled: %t", what, told)
		}
		slices.SortFunc(changed, func(a, b delivery.Key) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff(want, changed); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", what, diff)
		}
		if got := p.isSettled(deployments); got != isSettled {
			t.Errorf("%s: settled is %t, want %t", what, got, isSettled)
		}
	}
	reconciled := func(o *unstructured.Unstructured) func() {
		return func() {
			versions, _ := p.get(keyOf(o))
			p.reconciled(versions, keyOf(o))
		}
	}
	step("nothing is known", nil, false, func() {})
	step("the content", []delivery.Key{keyOf(api), keyOf(web)}, false, func() { p.Replace(deployments, nil, []*unstructured.Unstructured{web, api}) })
	step("one is reconciled", nil, false, reconciled(web))
	step("the same content", []delivery.Key{keyOf(api), keyOf(web)}, false, func() { p.Replace(deployments, nil, []*unstructured.Unstructured{web, api}) })
	step("the other one is reconciled", nil, true, reconciled(api))
	step("a change", []delivery.Key{keyOf(web)}, true, func() { p.Put(deployments, web) })
	step("a list without one", []delivery.Key{keyOf(api), keyOf(web)}, true, func() { p.Replace(deployments, nil, []*unstructured.Unstructured{web}) })
	step("a new one", []delivery.Key{keyOf(api)}, false, func() { p.Put(deployments, api) })
	step("it is deleted", []delivery.Key{keyOf(api)}, true, func() { p.Delete(deployments, "default", "api") })
	if versions, complete := p.get(keyOf(api)); len(versions) > 0 || !complete[deployments] {
		t.Errorf("an object that is deleted has the versions %v, complete types %v", versions, complete)
	}
	step("a new one again", []delivery.Key{keyOf(api)}, false, func() { p.Put(deployments, api) })
	step("a list without it", []delivery.Key{keyOf(api), keyOf(web)}, true, func() { p.Replace(deployments, nil, []*unstructured.Unstructured{web}) })
	step("an unknown one is deleted", nil, true, func() { p.Delete(deployments, "default", "other") })
	step("the end of the watch", []delivery.Key{keyOf(web)}, false, func() { p.Drop(deployments) })
}

// TestReadsMore checks that an object waits for all fields if match conditions read them.
func TestReadsMore(t *testing.T) {
	web := &unstructured.Unstructured{Object: object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web}}`)}
	for what, tc := range map[string]struct {
		condition string
		fields    *projection.FieldSet
		want      bool
	}{
		"no condition":            {"", placedFields, false},
		"a condition":             {"object.spec.paused == true", placedFields, true},
		"a condition, all fields": {"object.spec.paused == true", projection.AllFields(), false},
	} {
		r := newRecorder()
		r.Registry.Set("deliver", &placement.PolicyState{Binding: &policy.Binding{}, Generation: 1, Policy: delivering(t, deployments, tc.condition)})
		if got := r.readsMore(placedVersion{deployments, tc.fields, web}); got != tc.want {
			t.Errorf("%s: readsMore returns %t, want %t", what, got, tc.want)
		}
	}
}
