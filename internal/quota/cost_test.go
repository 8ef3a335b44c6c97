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

package quota_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/numeral"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/test/growth"
)

// containers returns a request for a Pod with n containers of a kind, each of which requests a different resource.
func containers(kind, more string, n int) *admissionv1.AdmissionRequest {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name": "c%d"%s, "resources": {"requests": {"example.com/r%d": "1"}}}`, i, more, i)
	}
	return &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: "shop", Name: "web", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object:   runtime.RawExtension{Raw: []byte(`{"metadata": {"name": "web"}, "spec": {"` + kind + `": [` + strings.Join(list, ",") + `]}}`)},
	}
}

// TestCostIsLinear checks that the CPU time for measuring a Pod grows linearly with its size. If Kubernetes' own
// evaluator would take longer, the result must be an error.
func TestCostIsLinear(t *testing.T) {
	evaluators := quota.NewEvaluators(clock.RealClock{}, quota.Devices{})
	for name, of := range map[string]struct{ kind, more string }{
		"Containers":     {"containers", ""},
		"InitContainers": {"initContainers", ""},
		"Sidecars":       {"initContainers", `, "restartPolicy": "Always"`},
	} {
		t.Run(name, func(t *testing.T) {
			growth.Linear(t, 1000, func(n int) func() {
				request := containers(of.kind, of.more, n)
				return func() {
					_, err := evaluators.NewRequest("charge", request)
					if refused := err != nil; refused != (of.kind == "initContainers") {
						t.Fatalf("error %v", err)
					}
				}
			})
		})
	}
	if _, err := evaluators.NewRequest("charge", containers("initContainers", `, "restartPolicy": "Always"`, 512)); err != nil {
		t.Errorf("a Pod within the limit: %v", err)
	}
}

// TestQuantitiesOfRequestsAreBounded checks that no request makes a replica compute forever, in whatever object and form it has a quantity
// with a large exponent. Without the bound, the test does not end.
func TestQuantitiesOfRequestsAreBounded(t *testing.T) {
	const long = `"1e-999999999"`
	evaluators := quota.NewEvaluators(newMeter().clock, quota.Devices{})
	for name, tc := range map[string]struct{ resource, object, old string }{
		"a request":         {resource: "pods", object: `{"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": ` + long + `}}}]}}`},
		"digits":            {resource: "pods", object: `{"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "` + strings.Repeat("9", 1000) + `"}}}]}}`},
		"escaped":           {resource: "pods", object: `{"spec": {"overhead": {"cpu": "\u0031e-999999999"}}}`},
		"the old object":    {resource: "pods", object: `{"spec": {}}`, old: `{"spec": {"initContainers": [{"name": "a", "resources": {"limits": {"a/b": ` + long + `}}}]}}`},
		"a volume":          {resource: "pods", object: `{"spec": {"volumes": [{"name": "a", "emptyDir": {"sizeLimit": ` + long + `}}]}}`},
		"the status":        {resource: "pods", object: `{"status": {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": ` + long + `}}]}}`},
		"a claim":           {resource: "persistentvolumeclaims", object: `{"spec": {"resources": {"requests": {"storage": ` + long + `}}}}`},
		"a claim's status":  {resource: "persistentvolumeclaims", object: `{"status": {"capacity": {"storage": ` + long + `}}}`},
		"a field repeated":  {resource: "pods", object: `{"spec": {}, "spec": {"overhead": {"cpu": ` + long + `}}}`},
		"an unbounded name": {resource: "pods", object: `{"spec": {"overhead": {"1e-999999999": ` + long + `}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			request := &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: "a", Name: "a",
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: tc.resource}, Object: runtime.RawExtension{Raw: []byte(tc.object)},
			}
			if tc.old != "" {
				request.Operation, request.OldObject.Raw = admissionv1.Update, []byte(tc.old)
			}
			if _, err := evaluators.NewRequest("a", request); !errors.Is(err, numeral.ErrTooLong) {
				t.Errorf("got %v", err)
			}
		})
	}
	// What the parser does not see is not read, and costs nothing.
	for name, object := range map[string]string{
		"upper case": `{"spec": {"Overhead": {"cpu": ` + long + `}}}`,
		"earlier":    `{"spec": {"overhead": {"cpu": ` + long + `}}, "spec": {}}`,
		"a number":   `{"spec": {"overhead": {"cpu": 1e-999999999}}}`,
		"no amount":  `{"metadata": {"annotations": {"a": ` + long + `}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := evaluators.NewRequest("a", &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: "a", Name: "a",
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: []byte(object)},
			}); err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}
