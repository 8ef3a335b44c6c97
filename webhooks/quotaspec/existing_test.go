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

package quotaspec_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	placementv1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/internal/quota"
	"github.com/berth-dev/berth/webhooks/quotaspec"
)

// TestWarningsOfExisting checks what is said of a quota because of objects that exist.
func TestWarningsOfExisting(t *testing.T) {
	const (
		scoped, cluster = "ScopedQuota", "ClusterScopedQuota"
		limits          = `{hard: {limits.cpu: 4}}`
		bare            = `{metadata: {name: web, namespace: shop}, spec: {containers: [{name: a}]}}`
		classless       = `{hard: {pods: 4}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}}`
	)
	for name, tc := range map[string]struct {
		kind, spec string
		// pod, resourceQuota, limitRange, and class are objects that exist; none if they are "".
		pod, resourceQuota, limitRange, class string
		// want is part of the only warning; "" for none.
		want string
	}{
		"pod without limits": {scoped, limits, bare, "", "", "", "pod web in namespace shop could not be created again: must specify limits.cpu for: a"},
		"of a cluster":       {cluster, `{hard: {limits.cpu: 4}, namespaceSelector: {}}`, bare, "", "", "", "pod web in namespace shop"},
		"defaults":           {scoped, limits, bare, "", `{metadata: {name: d, namespace: shop}}`, "", ""},
		"pod with limits":    {scoped, limits, `{metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}}`, "", "", "", ""},
		"finished pod":       {scoped, limits, strings.TrimSuffix(bare, "}") + `, status: {phase: Succeeded}}`, "", "", "", ""},
		"pod elsewhere":      {scoped, limits, strings.ReplaceAll(bare, "shop", "blog"), "", "", "", ""},
		"nothing to state":   {scoped, `{hard: {pods: 4, services: 4}}`, bare, "", "", "", ""},
		"both limit pods": {scoped, `{hard: {pods: 4, services: 4}}`, "", `{metadata: {name: r, namespace: shop}, spec: {hard: {pods: 3, secrets: 2}}}`, "", "",
			"spec.hard[pods]: ResourceQuota r in namespace shop limits this, too"},
		"tried out":      {scoped, `{mode: DryRun, hard: {pods: 4}}`, bare, `{metadata: {name: r, namespace: shop}, spec: {hard: {pods: 3}}}`, "", "", ""},
		"scopes of both": {scoped, `{hard: {pods: 4}, scopes: [Terminating]}`, "", `{metadata: {name: r, namespace: shop}, spec: {hard: {pods: 3}, scopes: [NotTerminating]}}`, "", "", ""},
		"default class":  {scoped, classless, "", "", "", `{metadata: {name: usual}, globalDefault: true}`, "gets the class usual, which is the default"},
		"no default":     {scoped, classless, "", "", "", `{metadata: {name: usual}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, placementv1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			live := fake.NewClientBuilder().WithScheme(scheme)
			for text, obj := range map[string]client.Object{
				tc.pod: &corev1.Pod{}, tc.resourceQuota: &corev1.ResourceQuota{}, tc.limitRange: &corev1.LimitRange{}, tc.class: &schedulingv1.PriorityClass{},
			} {
				if text == "" {
					continue
				}
				if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
					t.Fatal(err)
				}
				live.WithObjects(obj)
			}
			h := &quotaspec.Handler{
				Catalog: world{}, Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), Namespaces: world{}, Live: live.Build(),
			}
			q := object(t, scheme, tc.kind, "q", tc.spec)
			got := append(h.Warnings(t.Context(), q), h.WarningsOfExisting(t.Context(), q)...)
			if joined := strings.Join(got, "; "); (joined == "") != (tc.want == "") || !strings.Contains(joined, tc.want) || len(got) > 1 {
				t.Errorf("warnings %q, want %q", got, tc.want)
			}
		})
	}
}

// TestUnreached checks that amounts above those of another quota that counts the same are found.
func TestUnreached(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := placementv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		object(t, scheme, "ScopedQuota", "few", "{hard: {pods: 120}}"),
		object(t, scheme, "ClusterScopedQuota", "all", "{hard: {services: 10}, namespaceSelector: {matchLabels: {team: retail}}}"),
	).Build()
	h := &quotaspec.Handler{Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), Namespaces: world{}, Live: live}
	for spec, want := range map[string]string{
		"{hard: {pods: 500}}":                 "spec.hard[pods]: 500 is never reached: ScopedQuota few counts the same objects, too, and admits only 120",
		"{hard: {services: 20}}":              "spec.hard[services]: 20 is never reached: ClusterScopedQuota all counts",
		"{hard: {pods: 100, services: 5}}":    "",
		"{hard: {pods: 500}, mode: Warn}":     "",
		"{hard: {configmaps: 9, secrets: 9}}": "",
	} {
		got := h.WarningsOfExisting(t.Context(), object(t, scheme, "ScopedQuota", "q", spec))
		if joined := strings.Join(got, "; "); len(got) > 1 || (joined == "") != (want == "") || !strings.Contains(joined, want) {
			t.Errorf("%s: warnings %q, want %q", spec, got, want)
		}
	}
}

// TestUpdatesListNothing checks that only the webhook of a new quota lists pods and ResourceQuotas.
func TestUpdatesListNothing(t *testing.T) {
	for operation, want := range map[admissionv1.Operation]int{admissionv1.Create: 3, admissionv1.Update: 0} {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, placementv1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		lists := 0
		live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				switch list.(type) {
				case *corev1.PodList, *corev1.ResourceQuotaList, *corev1.LimitRangeList:
					lists++
				}
				return to.List(ctx, list, options...)
			},
		}).Build()
		h := &quotaspec.Handler{
			Catalog: world{}, Evaluators: quota.NewEvaluators(clock.RealClock{}, quota.Devices{}), Namespaces: world{}, Live: live,
			Decoder: admission.NewDecoder(scheme),
		}
		text, err := json.Marshal(object(t, scheme, "ScopedQuota", "q", `{hard: {limits.cpu: 4}}`))
		if err != nil {
			t.Fatal(err)
		}
		response := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: operation, Kind: metav1.GroupVersionKind(placementv1.GroupVersion.WithKind("ScopedQuota")), Object: runtime.RawExtension{Raw: text},
			OldObject: runtime.RawExtension{Raw: text},
		}})
		if !response.Allowed || lists != want {
			t.Errorf("%s: allowed %t, %d lists, want %d", operation, response.Allowed, lists, want)
		}
	}
}
