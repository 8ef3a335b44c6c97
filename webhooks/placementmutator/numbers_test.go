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
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/engine/embedded"
	"github.com/berth-dev/berth/internal/match"
	"github.com/berth-dev/berth/internal/placement"
	"github.com/berth-dev/berth/internal/policy"
)

// numerical is a policy that reads numbers and adds to existing fields.
const numerical = `package p

annotations.number := json.marshal(input.spec.number)

annotations.large := "yes" if input.spec.number > 9007199254740992

annotations.integer := "yes" if input.spec.number == floor(input.spec.number)

labels.placed := "yes"

scheduling.tolerations := [{"key": "placed", "operator": "Exists"}]

scheduling.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution := [{"weight": 7, "preference": {"matchExpressions": [{"key": "placed", "operator": "Exists"}]}}]
`

func newNumerical(f testing.TB) *Handler {
	f.Helper()
	module, err := policy.Compile("numerical", placementv1.PlacementPolicySpec{Rego: numerical})
	if err != nil {
		f.Fatal(err)
	}
	engine := embedded.New(embedded.NewData(), embedded.Options{Timeout: time.Minute, Concurrency: 2})
	evaluator, err := engine.Prepare(f.Context(), "numerical", module, &policy.Binding{})
	if err != nil {
		f.Fatal(err)
	}
	m, errs := match.New(placementv1.Match{ResourceRules: []placementv1.ResourceRule{{
		APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
	}}}, field.NewPath("match"))
	if len(errs) > 0 {
		f.Fatal(errs.ToAggregate())
	}
	registry := placement.NewRegistry()
	registry.Set("numerical", &placement.PolicyState{Policy: &placement.Policy{
		Name: "numerical", Mode: placementv1.ModeEnforce, FailurePolicy: placementv1.FailurePolicyFail, Matcher: m, Evaluator: evaluator, Schedules: true,
	}})
	h := newHandler(f)
	h.Decider.Policies = registry
	return h
}

// FuzzNumbers checks that admission does not change any digit of what no policy decides, and that it decides the same
// as remediation.
func FuzzNumbers(f *testing.F) {
	deployment := func(number, tolerations, affinity string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"number":%s,"template":{"spec":{"tolerations":%s,"affinity":%s}}},"status":{"n":%s}}`,
			number, tolerations, affinity, number)
	}
	for _, number := range []string{
		"1", "-1", "-0", "-0.0", "-1e-400", "1.0", "1.5", "1e2", "100000000", "9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808", "1e21", "1e400", "0.1", "123456789.123456789", `"1"`, "null",
	} {
		f.Add([]byte(deployment(number, `[{"key":"own","tolerationSeconds":`+number+`}]`, `null`)))
		f.Add([]byte(deployment("1", `[{"key":"placed","operator":"Exists"},{"key":"own","tolerationSeconds":`+number+`},{"key":"own"}]`,
			`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":`+number+`,"preference":{}}]},"podAffinity":{"x":`+number+`}}`)))
		f.Add([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{}}},"status":{"n":` + number + `}}`))
	}
	h := newNumerical(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var written map[string]any
		if !utf8.Valid(text) || decodeNumbers(text, &written) != nil || !plausible(written) {
			t.Skip()
		}
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource:  metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Namespace: "shop", Name: "web", Operation: admissionv1.Create,
		}}
		req.Object.Raw = text
		response := h.Handle(t.Context(), req)
		if response.Allowed {
			checkUntouched(t, text, written, response)
		}

		// Informers and clients decode objects like this.
		stored := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(text, &stored.Object); err != nil {
			return
		}
		if negativeZero(stored.Object) {
			return
		}
		outcome, err := h.Decider.Decide(t.Context(), placement.Request{
			Resource: schema.GroupVersionResource(req.Resource), Namespace: "shop", Object: stored, Admission: &req.AdmissionRequest,
		})
		if err != nil {
			if response.Allowed {
				t.Fatalf("remediation can't decide: %v", err)
			}
			return
		}
		if got, want := response.AuditAnnotations[auditDecision], outcome.Digest(); got != want {
			t.Fatalf("admission decides %s, remediation %s", got, want)
		}
	})
}

func checkUntouched(t *testing.T, text []byte, written map[string]any, response admission.Response) {
	t.Helper()
	if len(response.Patches) == 0 {
		return
	}
	encoded, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(text)
	if err != nil {
		t.Fatalf("patch %s: %v", encoded, err)
	}
	var stored map[string]any
	if err := decodeNumbers(out, &stored); err != nil {
		t.Fatal(err)
	}
	// Policies decide these fields for every object.
	for _, object := range []map[string]any{written, stored} {
		metadata, _ := object["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(labels, "placed")
		for _, name := range []string{"number", "large", "integer", placementv1.RequestedAnnotation} {
			delete(annotations, name)
		}
	}
	if where := lost(written, stored, ""); where != "" {
		t.Fatalf("%s is another one after the patch %s", where, encoded)
	}
}

// lost returns the path of a value in before that is missing or different in after, or "" if there is none. Objects in
// after may have more fields, and lists one more item. null in before matches anything.
func lost(before, after any, path string) string {
	switch b := before.(type) {
	case nil:
		return ""
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			if len(b) == 0 && after == nil {
				return ""
			}
			return path
		}
		for name, member := range b {
			if where := lost(member, a[name], path+"/"+name); where != "" {
				return where
			}
		}
		return ""
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) < len(b) || len(a) > len(b)+1 {
			return path
		}
		for i := range b {
			if where := lost(b[i], a[i], fmt.Sprintf("%s/%d", path, i)); where != "" {
				return where
			}
		}
		return ""
	default:
		// Numbers are compared as text.
		if before != after {
			return path
		}
		return ""
	}
}

func decodeNumbers(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// plausible reports whether the API server could send an object. It checks the types of metadata before it calls
// webhooks.
func plausible(object map[string]any) bool {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || metadata["deletionTimestamp"] != nil {
		return false
	}
	for _, name := range []string{"labels", "annotations"} {
		value, there := metadata[name]
		members, ok := value.(map[string]any)
		if there && !ok {
			return false
		}
		for _, member := range members {
			if _, ok := member.(string); !ok {
				return false
			}
		}
	}
	return true
}

// negativeZero reports whether a value contains a float -0, which the API server encodes as the integer -0.
func negativeZero(value any) bool {
	switch v := value.(type) {
	case float64:
		return v == 0 && math.Signbit(v)
	case map[string]any:
		for _, member := range v {
			if negativeZero(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, negativeZero)
	}
	return false
}
