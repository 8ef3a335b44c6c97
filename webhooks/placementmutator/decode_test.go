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

package placementmutator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/events"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/metrics"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
	"github.com/berth-dev/berth/test/budget"
)

type noNamespaces struct{}

func (noNamespaces) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// subject is the text and the match condition of a test policy.
type subject struct{ rego, condition string }

var subjects = map[string]subject{
	"metadata":  {rego: `annotations := {"team": input.metadata.labels.team}`},
	"kind":      {rego: `labels := {"kind": input.kind} if startswith(input.apiVersion, "apps/")`},
	"spec":      {rego: `annotations := {"replicas": sprintf("%d", [input.spec.replicas])}`},
	"absence":   {rego: `labels := {"status": "none"} if not input.status`},
	"names":     {rego: `annotations := {"names": sort(object.keys(input))}`},
	"denial":    {rego: `errors contains "no" if input.metadata.annotations.deny`},
	"managed":   {rego: `warnings contains "managed" if input.metadata.managedFields`},
	"condition": {rego: `labels := {"big": "yes"}`, condition: `object.spec.replicas > 1 || (oldObject != null && oldObject.spec.replicas > 2)`},
	"managers":  {rego: `labels := {"managers": "yes"}`, condition: `has(object.metadata.managedFields)`},
}

// newHandler returns a handler with the named policies, and with an engine whose cache is empty.
func newHandler(t testing.TB, names ...string) *Handler {
	t.Helper()
	engine := embedded.New(embedded.NewData(), embedded.Options{Timeout: time.Minute, Concurrency: 2})
	registry := placement.NewRegistry()
	for _, name := range names {
		s := subjects[name]
		module, err := policy.Compile(name, placementv1.PlacementPolicySpec{Rego: "package p\n" + s.rego})
		if err != nil {
			t.Fatal(err)
		}
		evaluator, err := engine.Prepare(t.Context(), name, module, &policy.Binding{})
		if err != nil {
			t.Fatal(err)
		}
		spec := placementv1.Match{ResourceRules: []placementv1.ResourceRule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}}
		if s.condition != "" {
			spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: s.condition}}
		}
		m, errs := match.New(spec, field.NewPath("match"))
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		registry.Set(name, &placement.PolicyState{Policy: &placement.Policy{
			Name: name, Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail, Matcher: m, Evaluator: evaluator,
		}})
	}
	keyring, err := placement.NewKeyring(make([]byte, placement.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &Handler{
		Decider: &placement.Decider{Policies: registry, Namespaces: noNamespaces{}, Keyring: keyring},
		Events:  events.New(noEvents{}), Metrics: counts, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0)),
		FailurePolicy: placementv1.FailurePolicyFail, Remediation: func(*admissionv1.AdmissionRequest) (bool, func([]*placement.Verdict) bool) { return false, nil },
	}
}

// randomObject returns an object in which fields are missing or have another type at random.
func randomObject(r *rand.Rand) map[string]any {
	pick := func(values ...any) any { return values[r.IntN(len(values))] }
	out := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}
	metadata := map[string]any{"name": "web", "namespace": "shop"}
	if r.IntN(4) > 0 {
		metadata["labels"] = pick(nil, map[string]any{}, map[string]any{"team": pick("a", "b")}, map[string]any{"kind": "x", "big": "no"})
	}
	if r.IntN(4) > 0 {
		metadata["annotations"] = pick(map[string]any{}, map[string]any{"team": "mine", "a/b": "c"}, map[string]any{"deny": "1"})
	}
	if r.IntN(2) > 0 {
		metadata["managedFields"] = []any{map[string]any{"manager": "kubectl", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	}
	out["metadata"] = metadata
	if r.IntN(20) == 0 {
		out["metadata"] = nil
	}
	if r.IntN(4) > 0 {
		out["spec"] = pick(nil, []any{}, map[string]any{}, map[string]any{"replicas": r.IntN(4), "paused": true})
	}
	if r.IntN(3) == 0 {
		out["status"] = pick(nil, map[string]any{"replicas": 1})
	}
	if r.IntN(3) == 0 {
		out["data"] = map[string]any{"a": "b"}
	}
	return out
}

func requestOf(t testing.TB, obj, old map[string]any) admission.Request {
	t.Helper()
	out := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Namespace: "shop", Name: "web", Operation: admissionv1.Create,
	}}
	var err error
	if out.Object.Raw, err = json.Marshal(obj); err != nil {
		t.Fatal(err)
	}
	if old != nil {
		out.Operation = admissionv1.Update
		if out.OldObject.Raw, err = json.Marshal(old); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestPartsAreAnsweredAsTheWhole checks that a partly decoded object gets the same response as the whole object,
// whatever the policies.
func TestPartsAreAnsweredAsTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var names []string
	for name := range subjects {
		names = append(names, name)
	}
	answers, rounds := map[string]int{}, budget.Rounds(60)
	for range rounds {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		some := names[:1+r.IntN(3)]
		parts, whole := newHandler(t, some...), newHandler(t, some...)
		for range 30 {
			obj := randomObject(r)
			var old map[string]any
			if r.IntN(2) == 0 {
				old = randomObject(r)
			}
			req := requestOf(t, obj, old)
			got, _ := parts.decide(t.Context(), req)
			decoded, err := decode(req, true)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := whole.decideObjects(t.Context(), req, decoded)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("policies %v, object %v, old %v: the answer differs (-whole +parts):\n%s", some, obj, old, diff)
			}
			switch {
			case len(got.Patches) > 0:
				answers["patched"]++
			case got.Allowed:
				answers["allowed"]++
			default:
				answers["denied"]++
			}
		}
	}
	for _, kind := range []string{"patched", "allowed", "denied"} {
		if answers[kind] < rounds/2 {
			t.Errorf("%d requests of %d are %s: the test is too weak", answers[kind], 30*rounds, kind)
		}
	}
}

// TestDecodesWhatIsRead checks that only fields that a policy reads are decoded.
func TestDecodesWhatIsRead(t *testing.T) {
	obj := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "managedFields": []any{}},
		"spec": map[string]any{"replicas": 3}, "status": map[string]any{},
	}
	tests := map[string]struct {
		policies []string
		want     []string
		old      bool
	}{
		"Metadata":  {policies: []string{"metadata", "kind", "denial"}, want: []string{"status", "spec", "managedFields"}},
		"Spec":      {policies: []string{"metadata", "spec"}, want: []string{"status", "managedFields"}},
		"Names":     {policies: []string{"names"}},
		"Condition": {policies: []string{"metadata", "condition"}, old: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			req := requestOf(t, obj, obj)
			decoded, err := decode(req, false)
			if err != nil {
				t.Fatal(err)
			}
			d := newHandler(t, tc.policies...).Decider
			if _, err := d.Decide(t.Context(), placement.Request{
				Resource: schema.GroupVersionResource(req.Resource), Namespace: "shop", Object: decoded.obj.object, Old: decoded.old.object, Source: decoded, Admission: &req.AdmissionRequest,
			}); err != nil {
				t.Fatal(err)
			}
			left := map[string]bool{}
			for name := range decoded.obj.rest {
				left[name] = true
			}
			if decoded.obj.managed != nil {
				left["managedFields"] = true
			}
			want := map[string]bool{}
			for _, name := range tc.want {
				want[name] = true
			}
			if diff := cmp.Diff(want, left); diff != "" {
				t.Errorf("not decoded (-want +got):\n%s", diff)
			}
			if done := len(decoded.old.rest) == 0; done != tc.old {
				t.Errorf("the old object is decoded: %t", done)
			}
		})
	}
}

// large returns a Deployment as the API server sends it.
func large(t testing.TB) admission.Request {
	t.Helper()
	containers := []any{}
	managed := map[string]any{}
	for i := range 3 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprintf("c%d", i), "image": "registry.example/shop/web:1.2.3", "imagePullPolicy": "IfNotPresent",
			"env":       []any{map[string]any{"name": "MODE", "value": "production"}, map[string]any{"name": "LEVEL", "value": "info"}},
			"resources": map[string]any{"limits": map[string]any{"cpu": "500m", "memory": "512Mi"}, "requests": map[string]any{"cpu": "100m", "memory": "128Mi"}},
			"ports":     []any{map[string]any{"containerPort": 8080, "protocol": "TCP"}},
		})
		managed[fmt.Sprintf(`k:{"name":"c%d"}`, i)] = map[string]any{
			".": map[string]any{}, "f:image": map[string]any{}, "f:imagePullPolicy": map[string]any{}, "f:name": map[string]any{},
			"f:resources": map[string]any{"f:limits": map[string]any{"f:cpu": map[string]any{}, "f:memory": map[string]any{}}},
		}
	}
	labels := map[string]any{"app": "web", "team": "shop", "tier": "front"}
	obj := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "web", "namespace": "shop", "uid": "3f1c9a52", "labels": labels, "annotations": map[string]any{"a": "b", "deployment.kubernetes.io/revision": "7"},
			"managedFields": []any{map[string]any{"manager": "kubectl", "operation": "Update", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:containers": managed}}}},
		},
		"spec": map[string]any{"replicas": 3, "selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": containers, "dnsPolicy": "ClusterFirst", "restartPolicy": "Always"},
		}},
		"status": map[string]any{"replicas": 3, "observedGeneration": 7},
	}
	return requestOf(t, obj, obj)
}

// BenchmarkDecode measures how long it takes to decode an update of a Deployment: all of it, or only what policies
// need.
func BenchmarkDecode(b *testing.B) {
	for _, whole := range []bool{true, false} {
		b.Run(fmt.Sprintf("whole=%t", whole), func(b *testing.B) {
			req := large(b)
			b.SetBytes(int64(len(req.Object.Raw) + len(req.OldObject.Raw)))
			b.ReportAllocs()
			for b.Loop() {
				if whole {
					var obj, old map[string]any
					if json.Unmarshal(req.Object.Raw, &obj) != nil || json.Unmarshal(req.OldObject.Raw, &old) != nil {
						b.Fatal("is no JSON")
					}
				} else if _, err := decode(req, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
