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

package placementmutator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/projection"
	"github.com/berth-dev/berth/webhooks/placementmutator"
)

// limiting denies objects with more than three replicas in spec.replicas or spec.size, and objects with a bad image.
type limiting struct{ inputs []map[string]any }

func (l *limiting) Evaluate(_ context.Context, input map[string]any) (placement.Decision, error) {
	l.inputs = append(l.inputs, input)
	out := placement.Decision{Annotations: map[string]string{"a": "b"}}
	for _, name := range []string{"replicas", "size"} {
		if n, _, _ := unstructured.NestedInt64(input, "spec", name); n > 3 {
			out.Errors = append(out.Errors, "too many")
		}
	}
	containers, _, _ := unstructured.NestedSlice(input, "spec", "ephemeralContainers")
	for _, c := range containers {
		if container, ok := c.(map[string]any); ok && container["image"] == "bad" {
			out.Errors = append(out.Errors, "bad image")
		}
	}
	return out, nil
}

func (*limiting) Revision() uint64 { return 1 }

func (*limiting) Input() *projection.FieldSet { return projection.AllFields() }

// sizes has only the CustomResourceDefinition of fleets, whose replicas are in spec.size.
type sizes struct{ err error }

func (s sizes) ReplicasPath(_ context.Context, resource schema.GroupVersionResource) ([]string, bool, error) {
	if path, ok := match.BuiltinReplicasPath(resource.GroupResource()); ok {
		return path, true, nil
	}
	return []string{"spec", "size"}, resource.Resource == "fleets", s.err
}

var (
	deploymentsV1 = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	fleetsV1      = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "fleets"}
	podsV1        = corev1.SchemeGroupVersion.WithResource("pods")
)

func parent(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"limited": "yes"}}, "spec": spec,
	}}
}

// subresourceRequest returns an update of a subresource of the object web.
func subresourceRequest(resource schema.GroupVersionResource, subresource, object string) admission.Request {
	kind := metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	if subresource != match.SubresourceScale {
		kind = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: kind, Resource: metav1.GroupVersionResource(resource), SubResource: subresource,
		Namespace: "shop", Name: "web", Operation: admissionv1.Update,
		Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(object)},
	}}
}

func newSubresourceFixture(t *testing.T, failure placementv1.FailurePolicy) (fixture, *limiting, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	m, errs := match.New(placementv1.Match{
		ResourceRules: []placementv1.ResourceRule{
			{APIGroups: []string{"", "apps", "example.com"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "fleets", "pods", "carts"}},
		},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"limited": "yes"}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{
			Name: "parent", Expression: `request.kind.kind == object.kind && !has(request.subResource) && oldObject.metadata.name == "web" && object.kind != "Scale"`,
		}},
	}, field.NewPath("match"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	evaluator := &limiting{}
	f := newFixture(t, &placement.Policy{
		Name: "p", Generation: 7, Mode: placementv1.ModeEnforce, FailurePolicy: failure, Remediation: placementv1.RemediationAutomatic, Matcher: m, Evaluator: evaluator,
	})
	f.FailurePolicy = failure
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(),
		parent("apps/v1", "Deployment", map[string]any{"replicas": int64(1), "paused": true}), parent("example.com/v1", "Fleet", map[string]any{"size": int64(1)}))
	f.Parents = &placementmutator.Parents{Client: client, Scales: sizes{}}
	return f, evaluator, client
}

// TestHandleSubresources checks that a request for a subresource is decided as an update of the parent object, and is
// never patched.
func TestHandleSubresources(t *testing.T) {
	pod := func(image string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"limited":"yes"}},"spec":{"ephemeralContainers":[{"name":"c","image":"` + image + `"}]}}`
	}
	tests := map[string]struct {
		request admission.Request
		message string
		object  map[string]any
	}{
		"Few":          {request: subresourceRequest(deploymentsV1, "scale", `{"spec":{"replicas":3}}`), object: map[string]any{"replicas": int64(3), "paused": true}},
		"Many":         {request: subresourceRequest(deploymentsV1, "scale", `{"spec":{"replicas":4}}`), message: `PlacementPolicy "p": too many`, object: map[string]any{"replicas": int64(4), "paused": true}},
		"None":         {request: subresourceRequest(deploymentsV1, "scale", `{"spec":{}}`), object: map[string]any{"replicas": int64(0), "paused": true}},
		"Custom":       {request: subresourceRequest(fleetsV1, "scale", `{"spec":{"replicas":4}}`), message: `PlacementPolicy "p": too many`, object: map[string]any{"size": int64(4)}},
		"GoodImage":    {request: subresourceRequest(podsV1, "ephemeralcontainers", pod("good")), object: map[string]any{"ephemeralContainers": []any{map[string]any{"name": "c", "image": "good"}}}},
		"BadImage":     {request: subresourceRequest(podsV1, "ephemeralcontainers", pod("bad")), message: `PlacementPolicy "p": bad image`, object: map[string]any{"ephemeralContainers": []any{map[string]any{"name": "c", "image": "bad"}}}},
		"ResizedImage": {request: subresourceRequest(podsV1, "resize", pod("bad")), message: `PlacementPolicy "p": bad image`, object: map[string]any{"ephemeralContainers": []any{map[string]any{"name": "c", "image": "bad"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, evaluator, _ := newSubresourceFixture(t, placementv1.FailurePolicyFail)
			response := f.Handle(t.Context(), tc.request)
			if response.Allowed != (tc.message == "") || !response.Allowed && response.Result.Message != tc.message {
				t.Errorf("allowed %t, %v, want %q", response.Allowed, response.Result, tc.message)
			}
			if len(response.Patches) > 0 || len(response.Patch) > 0 {
				t.Errorf("patches %v", response.Patches)
			}
			if response.AuditAnnotations["policies"] != "p@7" {
				t.Errorf("audit annotations %v", response.AuditAnnotations)
			}
			if len(evaluator.inputs) != 1 {
				t.Fatalf("%d evaluations", len(evaluator.inputs))
			}
			if diff := cmp.Diff(tc.object, evaluator.inputs[0]["spec"]); diff != "" {
				t.Errorf("spec of the input (-want +got):\n%s", diff)
			}
			if denied := len(f.notes.lines) == 1; denied != !response.Allowed {
				t.Errorf("events %q", f.notes.lines)
			}
			tc.request.DryRun = new(true)
			f.notes.lines = nil
			if again := f.Handle(t.Context(), tc.request); again.Allowed != response.Allowed || len(f.notes.lines) > 0 {
				t.Errorf("dry run: allowed %t, events %q", again.Allowed, f.notes.lines)
			}
		})
	}
}

// TestHandleScaleSelects checks that selectors are compared with the labels of the parent object and not with those of
// the Scale.
func TestHandleScaleSelects(t *testing.T) {
	f, evaluator, client := newSubresourceFixture(t, placementv1.FailurePolicyFail)
	other := parent("apps/v1", "Deployment", map[string]any{})
	other.SetLabels(nil)
	if err := client.Tracker().Update(deploymentsV1, other, "shop"); err != nil {
		t.Fatal(err)
	}
	response := f.Handle(t.Context(), subresourceRequest(deploymentsV1, "scale", `{"metadata":{"labels":{"limited":"yes"}},"spec":{"replicas":9}}`))
	if !response.Allowed || len(evaluator.inputs) > 0 {
		t.Errorf("%v, evaluated %v", response, evaluator.inputs)
	}
}

// TestHandleUndecidableSubresources checks that a request that can't be decided is treated as the failure policy says,
// with a message that says what to do.
func TestHandleUndecidableSubresources(t *testing.T) {
	many := `{"spec":{"replicas":4}}`
	forbidden := func(client *dynamicfake.FakeDynamicClient) {
		client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(deploymentsV1.GroupResource(), "web", errors.New("no right"))
		})
	}
	gone := func(client *dynamicfake.FakeDynamicClient) {
		client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(deploymentsV1.GroupResource(), "web")
		})
	}
	tests := map[string]struct {
		request admission.Request
		client  func(*dynamicfake.FakeDynamicClient)
		scales  placementmutator.Scales
		want    string
	}{
		"Forbidden":   {request: subresourceRequest(deploymentsV1, "scale", many), client: forbidden, want: `with the rule {apiGroups: ["apps"], resources: ["deployments"], verbs: [get]}`},
		"Gone":        {request: subresourceRequest(deploymentsV1, "scale", many), client: gone, want: `"web" not found`},
		"Garbage":     {request: subresourceRequest(deploymentsV1, "scale", `{"spec":{"replicas":"x"}}`), want: "decoding scale"},
		"Definition":  {request: subresourceRequest(fleetsV1, "scale", many), scales: sizes{err: errors.New("no definition")}, want: "no definition"},
		"Garbled":     {request: subresourceRequest(podsV1, "resize", `{`), want: "decoding object"},
		"Subresource": {request: subresourceRequest(podsV1, "status", `{}`), want: "the subresource status is never decided"},
	}
	for name, tc := range tests {
		for _, failure := range []placementv1.FailurePolicy{placementv1.FailurePolicyFail, placementv1.FailurePolicyIgnore} {
			t.Run(name+string(failure), func(t *testing.T) {
				f, _, client := newSubresourceFixture(t, failure)
				if tc.client != nil {
					tc.client(client)
				}
				if tc.scales != nil {
					f.Parents.Scales = tc.scales
				}
				response := f.Handle(t.Context(), tc.request)
				if response.Allowed != (failure == placementv1.FailurePolicyIgnore) {
					t.Errorf("allowed = %t", response.Allowed)
				}
				text := strings.Join(response.Warnings, "")
				if response.Result != nil {
					text += response.Result.Message
				}
				if !strings.Contains(text, tc.want) {
					t.Errorf("answer %q, want %q", text, tc.want)
				}
				if len(f.notes.lines) != 1 || response.AuditAnnotations["outcome"] != "error" {
					t.Errorf("events %q, audit annotations %v", f.notes.lines, response.AuditAnnotations)
				}
			})
		}
	}
}

// TestHandleUnknownScale checks that a request for a scale whose field is unknown is admitted with a warning.
func TestHandleUnknownScale(t *testing.T) {
	f, evaluator, _ := newSubresourceFixture(t, placementv1.FailurePolicyFail)
	response := f.Handle(t.Context(), subresourceRequest(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "carts"}, "scale", `{"spec":{"replicas":4}}`))
	if !response.Allowed || len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "Berth does not decide this kubectl scale of carts.example.com") || len(evaluator.inputs) > 0 {
		t.Errorf("%+v", response)
	}
}
